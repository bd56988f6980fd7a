"""The Explore page in a browser: every control reaches the adversary, the star is dragged, the release played."""

import csv
import json
import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from app_server import cut_off, inaccessible, opened, settled

STAR = """() => {
  const plot = document.querySelector('[data-figure="landscape"] .plot');
  const symbol = plot.querySelector('.scatterlayer .trace:nth-last-child(2) .point').getBoundingClientRect();
  return [symbol.x + symbol.width / 2, symbol.y + symbol.height / 2];
}"""


def star_of(page):
    """Return where the star is once it stands still: a page is laid out anew when its last part has come."""
    before, now = None, page.evaluate(STAR)
    while now != before:
        page.wait_for_timeout(300)
        before, now = now, page.evaluate(STAR)
    return now


def query(page):
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def experts(page):
    """Open the fold with the measures, which is closed at first."""
    page.evaluate("document.getElementById('experts').open = true")
    return page.locator("#measures")


def measure(page, name):
    [line] = [
        row
        for row in experts(page).locator("tbody tr").all()
        if row.inner_text().split("\t")[0].strip("?\n ") == name
    ]
    return [float(text.replace(",", "")) for text in line.locator("td").all_inner_texts()]


def caption(page, name):
    return page.locator(f"#caption-{name}").inner_text()


def test_the_numbers_shown_are_those_of_the_attack(tab, address):
    from allbutone.disclosure.record_view import simulated, view_attack
    from allbutone.model.niw import NIW

    opened(tab, f"{address}/explore?n=60&count=20&target=3,-3&correlation=0.2&seed=4&rows=50")
    covariance = np.array([[1, 0.2], [0.2, 1]])
    stage = simulated(np.zeros(2), covariance, np.array([3.0, -3.0]), n=60, rows=50, prior=NIW.default(2), seed=4)
    found = view_attack(stage, 20).measures
    assert measure(tab, "Distance of the guess (SD)") == pytest.approx(
        [found.distance, found.baseline_distance], rel=6e-3
    )
    assert measure(tab, "Exposure")[0] == pytest.approx(found.exposure, rel=6e-3)
    assert measure(tab, "Expected exposure (closed form)")[0] == pytest.approx(found.law_exposure, rel=6e-3)
    assert measure(tab, "Mass near the record") == pytest.approx([found.mass, found.prior_mass], rel=6e-3)
    assert "After 20 datasets" in caption(tab, "landscape")


def test_a_slider_moves_the_landscape_and_the_address_follows(tab, address):
    opened(tab, f"{address}/explore")
    before = caption(tab, "landscape")
    tab.locator("input[data-for=count]").focus()
    for _ in range(5):
        tab.keyboard.press("ArrowRight")
    settled(tab)
    assert query(tab) == {"count": "15"}
    assert "After 15 datasets" in caption(tab, "landscape") != before
    assert tab.locator("#count").input_value() == "15"
    tab.fill("#count", "10")
    tab.keyboard.press("Tab")
    settled(tab)
    assert query(tab) == {}, "what is as usual is left out"


def test_back_and_forward_go_through_the_states(tab, address):
    opened(tab, f"{address}/explore")
    tab.select_option("#kind", "parameters")
    settled(tab)
    assert tab.locator("#rows").is_hidden()
    tab.fill("#count", "3")
    tab.keyboard.press("Enter")
    settled(tab)
    assert "After 3 parameter draws" in caption(tab, "landscape")
    tab.go_back()
    settled(tab)
    assert query(tab) == {"kind": "parameters"}
    assert "After 10 parameter draws" in caption(tab, "landscape")
    tab.go_back()
    settled(tab)
    assert "After 10 datasets" in caption(tab, "landscape")
    assert tab.locator("#kind").input_value() == "datasets"
    assert tab.locator("#rows").is_visible()
    tab.go_forward()
    tab.go_forward()
    settled(tab)
    assert tab.locator("#count").input_value() == "3"


def test_an_address_alone_restores_everything(tab, tabs, address):
    state = (
        "kind=datasets&count=40&rows=30&p=4&n=80&mean=1,2&sd=2&correlation=-0.2&structure=ar1&target=5,5,0,0"
        "&prior_mean=1&prior_weight=3&prior_extra=4&prior_scale=2&linked=no&own_mean=0&own_scale=9&reading=mechanism"
        "&seed=77&x=2&y=3&hidden=integrated&level=0.8"
    )
    opened(tab, f"{address}/explore?{state}")
    for name, value in parse_qs(state).items():
        control = tab.locator(f"[name={name}]")
        shown = "no" if name == "linked" and not control.is_checked() else control.input_value()
        assert shown == value[0]
    other = opened(tabs(), tab.url)
    assert experts(other).inner_text() == experts(tab).inner_text()
    assert "80 % credible" in tab.locator("#figure-landscape").inner_text().replace("\u00a0", " ")


def test_the_star_is_dragged_and_moved_by_the_arrow_keys(tab, address):
    opened(tab, f"{address}/explore?count=60")
    begun = [float(text) for text in tab.locator("#target").input_value().split(",")]
    x, y = star_of(tab)
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 60, y - 50, steps=6)
    assert "target" not in query(tab), "not before it is let go"
    tab.mouse.up()
    settled(tab)
    dragged = [float(text) for text in query(tab)["target"].split(",")]
    assert dragged[0] < begun[0] - 0.5
    assert dragged[1] > begun[1] + 0.5
    assert tab.locator("#target").input_value() == query(tab)["target"]
    tab.locator("#figure-landscape .plot").focus()
    tab.keyboard.press("ArrowRight")
    settled(tab)
    moved = [float(text) for text in query(tab)["target"].split(",")]
    assert moved[0] > dragged[0]
    assert moved[1] == pytest.approx(dragged[1], rel=0.01)
    tab.go_back()
    settled(tab)
    assert [float(text) for text in query(tab)["target"].split(",")] == dragged


COVERED = """() => {
  const { data, layout } = document.querySelector('[data-figure="landscape"] .plot');
  const values = given => Array.from(given._inputArray ?? given);
  return ["x", "y"].map(axis => {
    const along = values(data[0][axis]);
    return [layout[`${axis}axis`].range, [Math.min(...along), Math.max(...along)]];
  });
}"""


def test_the_landscape_fills_the_window_while_the_star_is_dragged(tab, address):
    opened(tab, f"{address}/explore")
    x, y = star_of(tab)
    before = [window for window, _ in tab.evaluate(COVERED)]
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 150, y - 90, steps=6)  # towards the centre, where the hills of their own need less room
    settled(tab)
    for (window, landscape), stood in zip(tab.evaluate(COVERED), before, strict=True):
        assert window == stood, "it stands still"
        assert landscape[0] <= window[0] < window[1] <= landscape[1], "no bands"
    tab.mouse.up()
    settled(tab)
    assert "held" not in query(tab)
    for (window, landscape), stood in zip(tab.evaluate(COVERED), before, strict=True):
        assert window == pytest.approx(landscape), "the axes follow again"
        assert window[1] - window[0] < stood[1] - stood[0]


@pytest.mark.parametrize("held", ["1,2,3", "2,1,0,1", "0,1,1,1", "here"])
def test_a_window_that_is_none_is_refused(browser, held):
    status, _, body = browser.ask(f"/explore/answer?held={held}")
    assert (status, json.loads(body)["field"]) == (422, "held")


def test_dragging_leaves_other_features_alone(tab, address):
    opened(tab, f"{address}/explore?p=3&target=4,-2,1&x=3&y=1")
    tab.locator("#figure-landscape .plot").focus()
    tab.keyboard.press("ArrowUp")
    settled(tab)
    first, second, third = (float(text) for text in query(tab)["target"].split(","))
    assert first > 4
    assert second == -2
    assert third == pytest.approx(1, rel=0.01)


def test_play_stops_where_the_adversary_finds_you_and_then_goes_on(tabs, address):
    tab = opened(tabs(reduced_motion="reduce"), f"{address}/explore?n=20")
    seen = []
    tab.expose_function("seen", lambda text: seen.append(text))
    tab.evaluate(
        """() => new MutationObserver(() => seen(document.querySelector('#caption-landscape').textContent))
               .observe(document.querySelector('#caption-landscape'), {childList: true})"""
    )
    tab.get_by_role("button", name="Play").click()
    tab.wait_for_selector("#play[aria-pressed=false]")
    settled(tab)
    first = int(query(tab).get("count", 10))
    assert "Now the adversary finds you" in tab.inner_text("#story .now")
    assert [int(re.search(r"After (\d+)", text)[1]) for text in seen] == list(range(1, first + 1))
    tab.get_by_role("button", name="Play on to 100").click()
    tab.wait_for_selector("#played:has-text('released')")
    tab.wait_for_selector(f"#played:not(:text-is('{first} released')):has-text('released')")
    tab.get_by_role("button", name="Stop").click()
    settled(tab)
    assert first < int(query(tab)["count"]) <= 100, "it goes on from there, and does not stop again"
    tab.go_back()
    settled(tab)
    assert int(query(tab).get("count", 10)) == first, "one step back, not one for each"


def test_play_is_reached_by_keys_before_any_setting(tab, address):
    opened(tab, f"{address}/explore")
    names = []
    while not names or names[-1] != "play":
        tab.keyboard.press("Tab")
        names.append(tab.evaluate("document.activeElement.id || document.activeElement.tagName"))
        assert len(names) < 15
    assert set(names[:-1]) == {"A"}


def test_one_column_is_drawn_and_dragged(tab, address):
    opened(tab, f"{address}/explore?p=1&count=60")
    assert tab.locator("#error").is_hidden()
    assert tab.locator("#x").is_hidden()
    assert cut_off(tab) == []
    tab.locator("#figure-landscape .plot").focus()
    tab.keyboard.press("ArrowLeft")
    settled(tab)
    assert float(query(tab)["target"].split(",")[0]) < 4


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_nobody_is_shut_out(tabs, address, width, scheme):
    page = opened(tabs(width=width, color_scheme=scheme), f"{address}/explore?count=60")
    experts(page)
    assert inaccessible(page) == {}


def test_playing_can_be_stopped(tab, address):
    opened(tab, f"{address}/explore")
    tab.get_by_role("button", name="Play").click()
    tab.wait_for_selector("#played:has-text('released')")
    tab.get_by_role("button", name="Stop").click()
    settled(tab)
    assert 1 <= int(query(tab)["count"]) < 100


def test_play_begins_where_one_is_released_already(tab, address):
    """Both presets of Figure 1 do; and what the button says can be read while it plays."""
    opened(tab, f"{address}/explore?count=1")
    tab.get_by_role("button", name="Play").click()
    tab.wait_for_selector("#played:text-matches('[2-9] released')")
    colours = tab.evaluate(
        "(style => [style.color, style.backgroundColor])(getComputedStyle(document.getElementById('play')))"
    )
    assert colours[0] != colours[1]
    tab.get_by_role("button", name="Stop").click()


def test_draw_again_is_another_table(tab, address):
    opened(tab, f"{address}/explore")
    before = experts(tab).inner_text()
    tab.get_by_role("button", name="Draw again").click()
    settled(tab)
    assert query(tab).keys() == {"seed"}
    assert experts(tab).inner_text() != before


def test_priors_are_linked_until_unlinked(tab, address):
    opened(tab, f"{address}/explore?count=3")
    tab.get_by_text("The adversary's prior").click()
    assert tab.locator("#own_scale").is_hidden()
    tab.uncheck("#linked")
    settled(tab)
    assert tab.locator("#own_scale").is_visible()
    before = experts(tab).inner_text()
    tab.fill("#own_scale", "400")
    tab.keyboard.press("Tab")
    settled(tab)
    assert experts(tab).inner_text() != before


def test_the_adversarys_own_prior_begins_as_the_holders(tab, address):
    opened(tab, f"{address}/explore?prior_weight=20&prior_mean=3,3&count=3")
    before = experts(tab).inner_text()
    tab.get_by_text("The adversary's prior").click()
    tab.uncheck("#linked")
    settled(tab)
    assert query(tab) == {
        "prior_weight": "20", "prior_mean": "3,3", "count": "3",
        "linked": "no", "own_weight": "20", "own_mean": "3,3",
    }  # fmt: skip
    after = experts(tab).inner_text()
    tab.go_back()
    settled(tab)
    assert tab.locator("#linked").is_checked(), "one step"
    # the same prior, and so the same measures but for the integrals' own noise
    assert after.splitlines()[:12] == before.splitlines()[:12]


def test_quick_arrow_keys_all_count_and_make_one_step_in_the_history(tab, address):
    opened(tab, f"{address}/explore?target=4,-2")
    tab.locator("#figure-landscape .plot").focus()
    tab.evaluate(
        """() => { for (let turn = 0; turn < 10; turn++) document.activeElement.dispatchEvent(
              new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true})) }"""
    )
    tab.keyboard.press("ArrowLeft")
    settled(tab)
    across = float(query(tab)["target"].split(",")[0])
    assert across < 4 - 10 * 0.1
    tab.go_back()
    settled(tab)
    assert query(tab)["target"] == "4,-2"


def test_a_table_is_not_lost_on_the_way_through_other_pages(tab, address, table):
    opened(tab, f"{address}/upload")
    tab.set_input_files("#file", table)
    tab.wait_for_selector("#about:has-text('table.csv')")
    settled(tab)
    for name in ("Explore", "Studies", "Draw", "Explore", "Mend"):
        tab.get_by_role("navigation").get_by_role("link", name=name).click()
        tab.wait_for_selector(f"nav a[aria-current]:text-is('{name}')")
    tab.wait_for_selector("#about:has-text('table.csv')")
    settled(tab)


def test_nonsense_is_refused_in_words_at_its_field(tab, address):
    opened(tab, f"{address}/explore")
    tab.fill("#sd", "1, -2")
    tab.keyboard.press("Tab")
    settled(tab)
    assert "True standard deviations" in tab.locator("#error").inner_text()
    assert tab.locator("#sd").get_attribute("aria-invalid") == "true"
    tab.fill("#sd", "1, 2")
    tab.keyboard.press("Tab")
    settled(tab)
    assert tab.locator("#error").is_hidden()
    assert tab.locator("[aria-invalid]").count() == 0
    opened(tab, f"{address}/explore?p=4&correlation=-0.6")
    assert "cannot all correlate below -0.33" in tab.locator("#error").inner_text()
    opened(tab, f"{address}/explore?p=3&x=2&y=2")
    assert "two different columns" in tab.locator("#error").inner_text()


def test_help_gives_the_formula_and_the_papers_section(tab, address):
    opened(tab, f"{address}/explore")
    helps = tab.locator("details.help")
    texts = [text.strip() for text in helps.locator("p").all_text_contents()]
    assert len(texts) > 20
    assert all(texts)
    experts(tab).locator("summary").first.focus()
    tab.keyboard.press("Enter")
    assert tab.locator("#measures details.help p").first.is_visible()
    assert any("paper 4.1" in text and "‖x̂ − x‖" in text for text in texts)


def test_figures_and_measures_are_saved(tab, address, tmp_path):
    opened(tab, f"{address}/explore")
    for kind, begin in (("png", b"\x89PNG"), ("svg", b"<svg")):
        with tab.expect_download() as download:
            tab.locator(f"#figure-landscape [data-save={kind}]").click()
        assert download.value.suggested_filename == f"landscape.{kind}"
        assert download.value.path().read_bytes().startswith(begin)
    with tab.expect_download() as download:
        experts(tab).get_by_role("link", name="CSV").click()
    lines = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert [line["measure"] for line in lines][:2] == ["Distance of the guess (SD)", "Relative error"]
    assert float(lines[0]["with_the_release"]) == pytest.approx(
        measure(tab, "Distance of the guess (SD)")[0], rel=6e-3
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_off_and_colours_fit(tabs, address, width, scheme):
    page = opened(tabs(width=width, color_scheme=scheme), f"{address}/explore?p=3&hidden=integrated")
    assert cut_off(page) == []
    assert page.locator(".more > summary").is_visible() == (width == 390)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
    paper = page.evaluate("getComputedStyle(document.querySelector('.plot .bg')).fill")
    assert dark == (scheme == "dark") == (paper == "rgb(22, 24, 28)")
