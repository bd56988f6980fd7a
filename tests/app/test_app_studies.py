"""Studies in a real browser: figure, table, address and files; and every page by keyboard alone."""

import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from app_server import cut_off, inaccessible, opened, settled

PAGES = ("explore", "data", "release", "studies")
FOCUSED = """() => {
  const at = document.activeElement;
  return [at.tagName, at.id || at.name || at.dataset.save || at.textContent.trim().slice(0, 40)];
}"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A finished study with published medians, and an unfinished one that was killed before its tables."""
    from allbutone.paper.design_file import read_design
    from allbutone.paper.run import StudyRun, run_study

    place = tmp_path_factory.mktemp("studies")
    run = StudyRun(read_design("paper"), 40)
    cells = [cell for cell in run.design.cells if cell.p in (2, 3) and cell.n in (10, 100)]
    cells = [cell for cell in cells if cell.rows in (None, 100) and cell.count in (1, 2, 10)]
    run_study(run, place / "some", cells=cells)
    other = StudyRun(read_design("correlation"), 10)
    run_study(other, place / "begun", cells=other.design.cells[:3])
    (place / "begun" / "cells.csv").unlink()
    return place / "some", place / "begun"


@pytest.fixture(scope="module")
def studied(serve_app, folders):
    return serve_app(studies=folders).address


def rows_of(page):
    return page.locator("#cells-table tbody tr").count()


def test_a_study_is_drawn_told_and_listed(studied, folders, tab):
    opened(tab, f"{studied}/studies")
    from allbutone.paper.design import agreement
    from allbutone.paper.run import load_study

    held = load_study(folders[0])
    words = re.sub(r"\s+", " ", tab.inner_text("#summary"))
    assert agreement(held.rows) in words
    assert f"{len(held.rows)} of the design's 1,008 cells. 40 replicates each, seed 1." in words
    assert rows_of(tab) == len(held.rows) == 24
    assert tab.locator("#figure-study .main-svg").count() > 0
    assert tab.inner_text("#caption-study").startswith("At n = 100 and p = 2 the guess is ")
    assert tab.inner_text("#below").startswith("p = 2, 3. Distances in 40 simulated attacks each.")
    cells = tab.locator("#cells-table tbody tr").first.inner_text().split()
    assert cells[0] == held.rows[0]["release"]
    assert f"{held.rows[0]['median']:.3g}" in cells


def test_the_published_tables_stand_beside_ours(studied, folders, tab):
    from allbutone.paper.pages import printed_tables, starred
    from allbutone.paper.run import load_study

    opened(tab, f"{studied}/studies")
    tables = printed_tables(load_study(folders[0]))
    assert [one.inner_text() for one in tab.locator("#printed summary").all()] == [
        f"{table.title}: {table.agreement}" for table in tables
    ]
    tab.locator("#printed summary").first.click()
    shown = [re.sub(r"\s+", " ", one.inner_text()) for one in tab.locator("#printed tbody tr").all()]
    for row in tables[0].rows:
        words = " ".join([*map(str, row.names), *row.as_printed(starred), *row.as_ours(2)])
        assert any(line.startswith(words) for line in shown)


def test_every_figure_of_a_study_can_be_chosen_and_is_whole(studied, tab):
    opened(tab, f"{studied}/studies")
    options = tab.evaluate("[...document.getElementById('figure').options].map(one => one.value)")
    assert len(options) >= 9
    drawn = set()
    for name in options:
        tab.select_option("#figure", name)
        settled(tab)
        drawn.add(tab.inner_text("#caption-study") + tab.inner_text("#below"))
        assert cut_off(tab) == [], name
        assert not tab.locator("#error").is_visible()
    assert len(drawn) == len(options)


def test_filters_are_in_the_address_and_back_undoes_them(studied, tab):
    opened(tab, f"{studied}/studies")
    tab.select_option("#release", "datasets")
    settled(tab)
    tab.select_option("#n", "10")
    settled(tab)
    assert parse_qs(urlsplit(tab.url).query) == {"release": ["datasets"], "n": ["10"]}
    assert rows_of(tab) == 6
    assert set(tab.locator("#cells-table tbody th").all_inner_texts()) == {"datasets"}
    tab.go_back()
    tab.wait_for_selector("#cells-table tbody tr:nth-child(12)")
    settled(tab)
    assert rows_of(tab) == 12
    assert tab.input_value("#n") == ""
    opened(tab, f"{studied}/studies?release=parameters&n=100")
    assert rows_of(tab) == 6
    assert tab.input_value("#release") == "parameters"


def test_another_study_has_other_figures_and_forgets_the_filters(studied, tab):
    opened(tab, f"{studied}/studies?n=10&figure=exposure-datasets-p2")
    tab.select_option("#study", "begun")
    settled(tab)
    assert parse_qs(urlsplit(tab.url).query) == {"study": ["begun"]}
    assert rows_of(tab) == 3
    assert "3 of the design's" in tab.inner_text("#summary")
    assert "cells.csv is written when a run of the study ends" in tab.inner_text("#cells")


def test_the_file_is_the_folders_own(studied, folders, tab):
    opened(tab, f"{studied}/studies?n=10")
    with tab.expect_download() as found:
        tab.click("#cells a.csv")
    assert found.value.path().read_bytes() == (folders[0] / "cells.csv").read_bytes()
    assert found.value.suggested_filename == "some-cells.csv"


@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG\r\n"), ("svg", b"<svg")])
def test_a_figure_can_be_saved(studied, tab, kind, begins):
    opened(tab, f"{studied}/studies?figure=exposure-parameters-p2")
    with tab.expect_download() as found:
        tab.click(f"[data-save={kind}]")
    content = found.value.path().read_bytes()
    assert content.startswith(begins)
    assert len(content) > 10_000
    assert found.value.suggested_filename == f"study.{kind}"


def test_nothing_but_the_studies_given_can_be_read(studied, folders, tab):
    for name in ("../some", str(folders[0]), "..", "/etc", "nonsense"):
        opened(tab, f"{studied}/studies?study={name}")
        assert tab.inner_text("#error").startswith("Study: ")
        assert tab.locator("#cells-table").count() == 0


def test_the_papers_study_is_always_there(address, tab):
    """What the package brings along is whole, made by this very version, and says how to get the rest."""
    from allbutone.paper.run import SHIPPED, load_study

    held = load_study(SHIPPED)
    assert [cell for cell in held.run.design.cells if cell.p == 2] == held.cells, "make shipped-study"
    cell = held.cells[7]
    again = held.run.simulate([cell])[0]
    assert np.median(again.distance) == pytest.approx(held.rows[7]["median"], rel=1e-6), "make shipped-study"
    opened(tab, f"{address}/studies")
    assert "252 of the design's 1,008 cells" in re.sub(r"\s+", " ", tab.inner_text("#summary"))
    assert tab.locator("#figure-study .main-svg").count() > 0
    assert "allbutone study paper --out study" in tab.inner_text("#results")
    assert inaccessible(tab) == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_cut_off(studied, address, tabs, scheme):
    page = opened(tabs(390, 844, color_scheme=scheme, has_touch=True), f"{studied}/studies")
    assert cut_off(page) == []
    box = page.locator("#figure-study .scroll")
    assert box.evaluate("box => box.scrollWidth >= 760 && box.clientWidth < 390")
    assert page.locator("#caption-study").bounding_box()["width"] < 390
    assert cut_off(opened(page, f"{address}/studies")) == []


def test_every_page_can_be_used_by_keyboard_alone(studied, tab):
    """Tab reaches all links, controls and buttons that are shown, and the skip link goes to the results."""
    opened(tab, f"{studied}/explore")
    for name in PAGES:
        assert urlsplit(tab.url).path == f"/{name}"
        tab.keyboard.press("Tab")
        assert tab.evaluate(FOCUSED) == ["A", "Skip to the results"]
        tab.keyboard.press("Enter")
        assert tab.evaluate("document.activeElement.id") == "results"
        opened(tab, tab.url.split("#")[0])
        wanted = tab.evaluate(
            """[...document.querySelectorAll('a[href], button, input, select, summary')].filter(one =>
              one.checkVisibility() && !one.disabled && one.type !== 'radio').length"""
        )
        reached = set()
        for _ in range(wanted + 40):
            tab.keyboard.press("Tab")
            reached.add(
                tab.evaluate("""() => {
              const all = [...document.querySelectorAll('a[href], button, input, select, summary')];
              return document.activeElement.type === 'radio' ? -1 : all.indexOf(document.activeElement);
            }""")
            )
        assert len(reached - {-1}) == wanted, name
        following = PAGES[(PAGES.index(name) + 1) % len(PAGES)]
        tab.focus(f"nav a[href^='/{following}']")
        tab.keyboard.press("Enter")
        tab.wait_for_url(f"**/{following}*")
        settled(tab)
