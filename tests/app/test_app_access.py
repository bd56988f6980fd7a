"""No step breaks a rule of accessibility that axe-core knows, by day on a desk and by night on a telephone."""

import pytest
from playwright.sync_api import expect
from test_app_draw import drawn_anyway, uploaded
from test_app_mend import messy

from app_server import inaccessible, opened, settled, unfolded

pytestmark = pytest.mark.usefixtures("few_trials")


@pytest.mark.parametrize("look", [{"color_scheme": "light"}, {"width": 390, "color_scheme": "dark"}])
def test_no_page_breaks_a_rule(tabs, served, table, tmp_path, look):
    page, address = tabs(**look), served.address
    (tmp_path / "messy.csv").write_bytes(messy())
    state = f"table={uploaded(page, served, table)}"
    drawn = drawn_anyway(page, served, state)
    bad = f"table={uploaded(page, served, tmp_path / 'messy.csv')}"
    for place in (
        "upload", f"mend?{state}", f"mend?{bad}", f"budget?{state}&row=3", f"budget?{state}&rows=many",
        f"draw?{state}", f"decide?{state}&drawn={drawn}", "decide", "glossary",
    ):  # fmt: skip
        page.goto(f"{address}/{place}")
        if place != "glossary":
            settled(page)
        unfolded(page).wait_for_timeout(300)
        assert inaccessible(page) == {}, place


def test_help_stands_beside_its_word_and_one_at_a_time(tab, served, table):
    opened(tab, f"{served.address}/draw?table={uploaded(tab, served, table)}")
    for name in ("How many", "Rows of each dataset"):
        word = tab.get_by_label(f"Help: {name}", exact=True)
        word.click()  # which may scroll the page a moment later
        shown = tab.locator(".help[open] p")
        expect(shown).to_have_count(1)  # the other one closes a moment later
        for down in (0, 30):  # help goes where its word goes
            tab.mouse.wheel(0, down)
            for _ in range(50):
                tab.wait_for_timeout(200)
                one, other = word.bounding_box(), shown.bounding_box()
                away = abs(other["y"] - one["y"] - one["height"])
                if away < 20:
                    break
            assert away < 20
            assert abs(other["x"] - one["x"]) < 400
    tab.keyboard.press("Escape")
    assert tab.locator(".help[open]").count() == 0


def test_an_error_stands_under_its_field_which_is_unfolded_and_seen(tab, served, table):
    opened(tab, f"{served.address}/budget?table={uploaded(tab, served, table)}&rows=0")
    error = tab.locator("#error")
    assert "Rows of each dataset" in error.inner_text()
    box, field = error.bounding_box(), tab.locator("#rows").bounding_box()
    assert 0 <= box["y"] - field["y"] - field["height"] < 30
    assert box["y"] < 900
    assert tab.get_attribute("#rows", "aria-invalid") == "true"
    tab.fill("#rows", "20")
    tab.keyboard.press("Tab")
    settled(tab)
    assert error.is_hidden()
