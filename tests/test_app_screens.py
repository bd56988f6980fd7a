"""Pictures of every page, as they stand in the docs: `make screenshots` writes them there."""

import os
from pathlib import Path

import pytest
from app_server import CUT_OFF, opened, settled

PLACE = os.environ.get("ALLBUTONE_SCREENSHOTS")


@pytest.fixture(scope="module")
def shown(serve_app, tmp_path_factory):
    """The address of an app with a study: the paper's, of two columns."""
    from allbutone.choose import choose
    from allbutone.design_file import read_design
    from allbutone.study_folder import StudyRun, run_study

    design, folder = read_design("paper"), tmp_path_factory.mktemp("studies") / "paper"
    run_study(StudyRun(design, 100), folder, cells=choose(design.cells, "p == 2 and release == 'parameters'"))
    return serve_app(studies=(folder,)).address


def taken(page, name, tmp_path, height=1000):
    """Take the picture of what is seen first; nothing may be cut off in it, nor be empty."""
    assert page.locator("#error").is_hidden()
    assert page.evaluate(CUT_OFF) == []
    page.set_viewport_size({"width": 1280, "height": height})
    settled(page)
    page.wait_for_timeout(300)  # figures follow the window's size a moment later
    path = Path(PLACE or tmp_path) / f"app-{name}.png"
    page.screenshot(path=path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 30_000


def test_explore(tab, shown, tmp_path):
    taken(opened(tab, f"{shown}/explore?count=14"), "explore", tmp_path)


def test_your_data(tab, shown, tmp_path):
    taken(opened(tab, f"{shown}/data?row=212"), "data", tmp_path, 1500)


def test_release(tab, shown, tmp_path):
    taken(opened(tab, f"{shown}/release?number=5"), "release", tmp_path)


def test_studies(tab, shown, tmp_path):
    taken(opened(tab, f"{shown}/studies"), "studies", tmp_path)
