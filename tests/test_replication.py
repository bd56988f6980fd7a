"""The causes tried on the published tables: the slips are what they say, and the page holds what was run."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from replication.attacks import Cause, _draw, _posterior, attack, both_searches
from replication.kolmogorov import HALF, NAMES, normal_column

from allbutone.studies.design_file import SHIPPED, read_design
from allbutone.studies.simulate_cell import simulate_cell

PAGE = Path(__file__).parents[1] / "docs" / "differences.md"
SLIPS = {
    "none": Cause("none"),
    "divisor": Cause("κ′ + 2n_z", mean_divisor=2),
    "exponent": Cause("δ for δ + p", outward=lambda df: 2.0),
}


def cell_of(release, count, n, rows):
    cells = read_design("paper").cells
    return next(c for c in cells if (c.release, c.p, c.count, c.n, c.rows) == (release, 2, count, n, rows))


def literal_score(cause, cell, drawn, x):
    """The score of Algorithm 3, as printed, with the cause's slip."""
    others = drawn.given_others
    mean, scale, kappa, df, p = others.mean[0], others.scale[0], others.mean_weight, others.df, 2
    new = scale + kappa / (kappa + 1) * np.outer(x - mean, x - mean)
    centre, weight = mean + (x - mean) / (kappa + 1), kappa + 1
    value = cell.count * (df + 1) * np.linalg.slogdet(new)[1]
    for z, scatter in zip(drawn.means[0], drawn.scales[0], strict=True):
        eta = weight * cell.rows / (weight + cause.mean_divisor * cell.rows)
        joint = new + scatter + eta * np.outer(z - centre, z - centre)
        value -= (df + 1 + cell.rows) * np.linalg.slogdet(joint)[1]
    delta = df - p + 1
    inside = 1 + (x - mean) @ np.linalg.inv((kappa + 1) / (kappa * delta) * scale) @ (x - mean) / delta
    return value - (delta + p - cause.outward(df + 1)) * np.log(inside)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_the_printed_score_with_that_slip(slip, rng):
    cause, cell = SLIPS[slip], cell_of("datasets", 3, 10, 10)
    drawn = _draw(cell, cause, 1, rng)
    problem = _posterior(cell, cause, drawn)
    points = rng.normal(5, 8, (6, 2))
    found = np.array([2 * float(problem.log_density_unnormalized(x[None])[0]) for x in points])
    literal = np.array([literal_score(cause, cell, drawn, x) for x in points])
    np.testing.assert_allclose(np.diff(found), np.diff(literal), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("place", [("parameters", 3, 50, None), ("datasets", 5, 50, 1000)])
def test_without_a_slip_it_is_the_study(place, rng):
    cell = cell_of(*place)
    _, ours = attack(cell, Cause("none"), 1000, rng)
    theirs = simulate_cell(cell, 1000, 1).distance
    error = np.sqrt((ours.var() + theirs.var()) / 1000)
    assert abs(ours.mean() - theirs.mean()) <= 4.5 * error


def test_one_start_ends_at_the_exact_maximum_or_below_it(rng):
    cell = cell_of("datasets", 10, 50, 10)
    exact, _, climbed, _ = both_searches(cell, Cause("one start", search="start"), 40, rng)
    assert np.mean(np.linalg.norm(exact - climbed, axis=1) < 0.05) >= 0.8


def test_the_25_printed_numbers_stand_beside_a_normal_columns(rng):
    """As printed, each judged by the interval on the page, which is that of normal columns drawn afresh."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    rows = {line[0]: line[1:] for line in lines if len(line) == 6}
    ends = [tuple(map(float, text.split(" to "))) for text in rows["its 99 % interval"]]
    with (SHIPPED / "published_ks.csv").open(encoding="utf-8") as file:
        printed = list(csv.DictReader(file))
    assert len(printed) * len(NAMES) == 25
    for line in printed:
        for name, text, (low, high) in zip(NAMES, rows[f"{line['trait']}, printed"], ends, strict=True):
            assert float(text.strip("*")) == float(line[name])
            inside = low - HALF - 1e-9 <= float(line[name]) <= high + HALF + 1e-9
            assert inside or text.startswith("**")
    fresh = np.array([normal_column(rng) for _ in range(12)])
    middle = np.array([float(text) for text in rows["a normal column"]])
    error = fresh.std(axis=0, ddof=1) / np.sqrt(len(fresh))
    assert (np.abs(fresh.mean(axis=0) - middle) <= 6 * error + 0.02).all()


def test_every_cause_has_its_line_on_the_page():
    from replication.__main__ import CAUSES

    page = PAGE.read_text(encoding="utf-8")
    for cause in CAUSES:
        assert re.search(rf"^\\| {re.escape(cause.words)}[ (].*of 324", page, re.MULTILINE)
