"""Pictures of every page, as they stand in the docs: `make screenshots` writes them there."""

import os
from pathlib import Path

import pytest
from test_app_mend import messy
from test_app_uploads import send

from app_server import cut_off, opened, settled

PLACE = os.environ.get("ALLBUTONE_SCREENSHOTS")


@pytest.fixture(scope="module")
def shown(serve_app, tmp_path_factory):
    """The address of an app with a study: the paper's of two columns and released parameters."""
    from allbutone.paper import design_file
    from allbutone.paper.run import StudyRun, run_study

    place = tmp_path_factory.mktemp("studies")
    designs = Path(design_file.__file__).parent / "designs"
    text = (designs / "paper.toml").read_text(encoding="utf-8").rpartition("[[cells]]")[0]
    (place / "two.toml").write_text(text.replace("p = [2, 3, 5, 10]", "p = 2"), encoding="utf-8")
    (place / "published.csv").write_bytes((designs / "published.csv").read_bytes())
    run_study(StudyRun(design_file.read_design(place / "two.toml"), 1000), place / "paper-two-columns")
    return serve_app(studies=(place / "paper-two-columns",)).address


def taken(page, name, tmp_path, height=1000, above=""):
    """Take the picture of what is seen from `above` down; nothing may be cut off in it, nor be empty."""
    assert page.locator("#error").is_hidden()
    assert cut_off(page) == []
    page.set_viewport_size({"width": 1280, "height": height})
    settled(page)
    page.wait_for_timeout(300)  # figures follow the window's size a moment later
    if above:
        page.locator(above).evaluate("one => window.scrollTo(0, one.getBoundingClientRect().top + scrollY - 16)")
    path = Path(PLACE or tmp_path) / f"app-{name}.png"
    page.screenshot(path=path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 30_000


def test_explore(tab, shown, tmp_path):
    taken(opened(tab, f"{shown}/explore?count=14"), "explore", tmp_path)


def test_mend(tab, shown, tmp_path):
    opened(tab, f"{shown}/upload")
    send(tab, "messy.csv", messy())
    opened(tab, tab.url)
    taken(tab, "mend", tmp_path)


def test_budget(tab, shown, tmp_path):
    taken(opened(tab, f"{shown}/budget?leave=212"), "budget", tmp_path)


def test_a_record(tab, shown, tmp_path):
    taken(opened(tab, f"{shown}/budget?row=212&count=10"), "record", tmp_path, above="#opened")


def test_draw_and_decide(tab, shown, tmp_path):
    taken(opened(tab, f"{shown}/draw?leave=212&number=2"), "draw", tmp_path)
    tab.click("#draw")
    tab.wait_for_selector("#downloads")
    taken(settled(tab), "decide", tmp_path)


def test_studies(tab, shown, tmp_path):
    taken(opened(tab, f"{shown}/studies"), "studies", tmp_path)
