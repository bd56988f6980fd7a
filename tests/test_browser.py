"""The figures in a real browser: drawn, offline, and names shown as text."""

import subprocess

import numpy as np
import pytest

import allbutone as abo
from allbutone.figures import budget_figure, write_figure


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
    plan = abo.plan_budget(records, abo.NIW.default(2), rows=rows, rng=1)
    write_figure(budget_figure(plan), tmp_path / "budget.html")
    page = opened(tmp_path / "budget.html", tmp_path / "profile")
    assert 'class="main-svg"' in page
    assert "row 4" in page
    assert "Row 4 sets the limit" in page
