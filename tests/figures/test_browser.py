"""The figures in a real browser: drawn, offline, and names shown as text."""

import struct
import subprocess
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest

import allbutone as abo
from allbutone.figures.budget import budget_figure
from allbutone.figures.export import write_figure, write_images
from allbutone.figures.style import stand_alone


def opened(path, profile):
    """The page after its scripts have run, as headless Chromium has it; no network whatsoever."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    flags += ["--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND"]
    flags += [f"--user-data-dir={profile}", "--virtual-time-budget=8000", "--dump-dom"]
    done = subprocess.run(
        ["chromium", *flags, path.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


@pytest.mark.parametrize("rows", [None, 100])
def test_the_budget_figure_is_drawn_offline(tmp_path, rows):
    values = np.random.default_rng(1).standard_normal((40, 2))
    values[3] = 6
    records = abo.Records(values, ("bmi", "ldl"))
    plan = abo.budget(records, abo.NIW.default(2), rows=rows, rng=1)
    write_figure(budget_figure(plan), tmp_path / "budget.html")
    page = opened(tmp_path / "budget.html", tmp_path / "profile")
    assert 'class="main-svg"' in page
    assert "row 4" in page
    assert "Even one" in page  # who lies so far out is known to be in the table
    assert "discloses somebody with a chance of more than" in page


def test_figures_become_pictures(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    figure = go.Figure(go.Scatter(x=[1, 2, 3], y=[1, 3, 2]))
    stand_alone(figure, "p < 0.05 </script> & more", "")
    paths = [tmp_path / name for name in ("one.png", "two.SVG", "three.png")]
    write_images(dict(zip(paths, [figure, figure, go.Figure(figure).update_layout(height=500)], strict=True)))
    for path, size in ((paths[0], (1280, 900)), (paths[2], (1280, 500))):
        content = path.read_bytes()
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", content[16:24]) == size
        assert 10_000 < len(content) < 300_000
    picture = ElementTree.parse(paths[1]).getroot()
    assert (picture.get("width"), picture.get("height")) == ("1280", "900")
    assert "p < 0.05 </script> & more" in "".join(picture.itertext())
    assert not list(home.iterdir())  # the browser leaves nothing there
