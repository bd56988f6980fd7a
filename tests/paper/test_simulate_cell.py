"""The study: its cells are what they say, rerun to the bit, and agree with drawing every record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

import allbutone as abo
from allbutone.paper.design import choose
from allbutone.paper.design_file import parse_design, read_design
from allbutone.paper.journal import summarize
from allbutone.paper.simulate import (
    _drawn_datasets,
    _drawn_parameters,
    _tables,
    _turned_to,
    blocks_of,
    simulate_cell,
)

ANY_TARGET = """
[prior]
mean = 1.1
{adversary}
[[cells]]
release = "{release}"
p = {p}
n = {n}
count = {count}
{rows}
mean = 1
variance = 3
{others}
{position}
"""


def cell_of(
    release="datasets", p=2, n=50, count=5, rows=40, others="", position="target = 20", adversary="", top=""
):
    rows = f"rows = {rows}" if release == "datasets" else ""
    text = ANY_TARGET.format(
        release=release, p=p, n=n, count=count, rows=rows, others=others, position=position, adversary=adversary
    )
    return parse_design(top + text).cells[0]


EQUAL = 'structure = "equicorrelated"\ncorrelation = 0.7'
# the corners of the paper's design, and what it does not have: correlation, other places, another prior
TWENTY = [
    {"release": "parameters", "n": 10, "count": 1},
    {"release": "parameters", "n": 10, "count": 5},
    {"release": "parameters", "n": 300, "count": 100},
    {"release": "parameters", "p": 10, "n": 50, "count": 3},
    {"release": "parameters", "p": 10, "n": 10, "count": 2},
    {"release": "parameters", "p": 3, "n": 2, "count": 4},
    {"release": "parameters", "p": 3, "others": EQUAL, "position": 'distance = 8\ndirection = "weakest"'},
    {"release": "parameters", "p": 3, "others": EQUAL, "position": "leverage = 0.5\ndirection = [1, 0, -1]"},
    {"release": "parameters", "adversary": "[adversary_prior]\nmean = 5\nmean_weight = 3"},
    {"n": 10, "rows": 10, "count": 1},
    {"n": 10, "rows": 10, "count": 100},
    {"n": 300, "rows": 10, "count": 100},
    {"n": 300, "rows": 500, "count": 10},
    {"p": 10, "n": 10, "rows": 10, "count": 3},
    {"p": 10, "n": 100, "rows": 5, "count": 20},
    {"p": 5, "n": 2, "rows": 1, "count": 30},
    {"p": 1, "n": 30, "rows": 30, "count": 10},
    {"p": 5, "others": 'structure = "ar1"\ncorrelation = -0.6', "position": "distance = 9"},
    {"p": 4, "others": 'structure = "low-rank"\ncorrelation = 0.8\nrank = 2', "position": "leverage = 2.0"},
    {"adversary": "[adversary_prior]\nmean = 5\nmean_weight = 3"},
]


@pytest.mark.parametrize("place", range(20))
def test_statistics_and_records_give_the_same_distances(place):
    """Two-sample Kolmogorov-Smirnov, Bonferroni over twenty cells at 1 in 1000."""
    assert len(TWENTY) == 20
    cell = cell_of(**TWENTY[place])
    short, long = simulate_cell(cell, 600, 1), simulate_cell(cell, 600, 1, records=True)
    for measure in ("distance", "exposure"):
        assert ks_2samp(getattr(short, measure), getattr(long, measure)).pvalue > 0.001 / 40, measure
    assert not short.unconverged.any()
    assert not long.unconverged.any()


@pytest.mark.parametrize("kind", [{"release": "parameters"}, {"release": "datasets"}])
@pytest.mark.parametrize(
    ("adversary", "reading"),
    [("", "record"), ("[adversary_prior]\nmean = 5", "record"), ("[adversary_prior]\nmean = 5", "mechanism")],
)
def test_a_cell_attacks_as_the_public_attack_does(kind, adversary, reading):
    """From the same records, one table at a time, through the gate."""
    top = f'reading = "{reading}"\n' if adversary else ""
    cell = cell_of(**kind, others=EQUAL, n=20, adversary=adversary, top=top)
    prior, own = cell.prior_of(cell.prior), cell.prior_of({"mean": 5.0}) if adversary else None
    ((seed, size),) = blocks_of(cell, 4, 7, 4, whole=True)
    rng = np.random.Generator(np.random.SFC64(seed))
    others, _, crowd, targets = _tables(cell, size, rng)
    means, roots = _drawn_parameters(cell, crowd, targets, rng)
    covariances = roots @ roots.swapaxes(-1, -2)
    if cell.rows is None:
        releases = [abo.Release.of_parameters(*pair) for pair in zip(means, covariances, strict=True)]
    else:
        releases = [abo.Release.of(tuple(sets)) for sets in _drawn_datasets(cell, means, roots, rng)]
    found = simulate_cell(cell, 4, 7, records=reading == "record")  # who mistakes the mechanism needs them anyway
    how = {"adversary": abo.Adversary(prior=own), "reading": reading}
    for known, release, candidate in zip(others, releases, found.candidate, strict=True):
        assert candidate == pytest.approx(abo.attack(known, release, prior=prior, **how).mode, rel=1e-7)
    assert found.distance == pytest.approx(np.linalg.norm(found.candidate - 20, axis=1))


def test_the_target_lies_where_the_design_says():
    distance = cell_of(p=3, others=EQUAL, position='distance = 8\ndirection = "strongest"')
    away = distance.targets(abo.NIW(np.zeros((1, 3)), 1.0, 5.0, np.eye(3)))[0] - 1
    assert away @ np.linalg.solve(np.array(distance.covariance), away) == pytest.approx(64)
    leverage = cell_of(p=3, others=EQUAL, position="leverage = 0.7\ndirection = [1, 2, -1]")
    found = simulate_cell(leverage, 50, 1)
    assert found.leverage == pytest.approx(np.full(50, 0.7))
    found = simulate_cell(leverage, 50, 1, records=True)
    assert found.leverage == pytest.approx(np.full(50, 0.7))


@given(
    p=st.integers(1, 8),
    seed=st.integers(0, 2**32),
    axis=st.sampled_from([None, 1.0, -1.0]),
)
def test_turning_the_last_axis_to_a_direction(p, seed, axis):
    direction = np.random.default_rng(seed).standard_normal((3, p))
    if axis is not None:
        direction[:, :-1], direction[:, -1] = 0, axis
    turned = _turned_to(direction, np.broadcast_to(np.eye(p), (3, p, p)))
    assert turned @ turned.swapaxes(1, 2) == pytest.approx(np.broadcast_to(np.eye(p), (3, p, p)), abs=1e-12)
    assert turned[:, :, -1] == pytest.approx(direction / np.linalg.norm(direction, axis=1, keepdims=True))
    root = np.tril(np.random.default_rng(seed).standard_normal((3, p, p)))
    assert _turned_to(direction, root) == pytest.approx(root @ turned, abs=1e-12)


def test_a_cell_depends_on_its_seed_and_itself_only():
    """Not on the design it stands in, nor on how often it was run; a prefix of its replicates is a prefix."""
    whole = read_design("paper")
    cell = whole.cells[200]
    alone = parse_design(whole.text.replace("count = [1, 2, 3, 5, 10, 100]", f"count = {cell.count}")).cells
    same = next(one for one in alone if one.key == cell.key)
    first, again = simulate_cell(cell, 300, 5), simulate_cell(same, 300, 5)
    np.testing.assert_array_equal(first.candidate, again.candidate)
    assert not np.array_equal(first.candidate, simulate_cell(cell, 300, 6).candidate)
    assert not np.array_equal(first.candidate, simulate_cell(whole.cells[201], 300, 5).candidate[:, : cell.p])


@pytest.mark.parametrize("kind", [{"release": "parameters", "count": 10}, {"rows": 100, "count": 10}])
def test_the_papers_own_solver_ends_where_ours_does_or_lower(kind):
    """On the same records; the few it loses end in the mirror mode."""
    cell = cell_of(**kind)
    ours, theirs = simulate_cell(cell, 40, 2, records=True), simulate_cell(cell, 40, 2, solver="lbfgsb")
    apart = np.linalg.norm(ours.candidate - theirs.candidate, axis=1)
    assert np.mean(apart < 1e-3) >= 0.9


def test_the_row_of_a_cell():
    design = read_design("paper")
    cell = next(
        one for one in design.cells if (one.release, one.p, one.n, one.count) == ("parameters", 2, 300, 10)
    )
    found = simulate_cell(cell, 1000, design.seed)
    [(row, _)] = summarize([cell], [found])
    assert row["median"] == np.median(found.distance)
    assert row["min"] <= row["q25"] <= row["median"] <= row["q75"] <= row["max"]
    assert row["mean_x2"] == pytest.approx(found.candidate[:, 1].mean())
    assert row["right_mode"] == np.mean(found.exposure > 0)


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("p==2", 252),
        ("p == 2 and release == 'parameters'", 36),
        ("rows > 100 or count in [1, 2]", 144 // 3 + 432 + 144),
        ("not release == 'datasets'", 144),
        ("10 < n <= 100", 336),
        ("rows == None", 144),
    ],
)
def test_cells_are_chosen_by_comparisons(expression, count):
    assert len(choose(read_design("paper").cells, expression)) == count


@pytest.mark.parametrize(
    "expression",
    ["p", "q == 2", "__import__('os')", "p == n.real", "p == (1).bit_length()", "p ==", "n < 'a'", ""],
)
def test_expressions_are_read_never_run(expression):
    with pytest.raises(abo.InputError, match="choice of cells"):
        choose(read_design("paper").cells, expression)


def test_an_expression_that_nothing_fulfils():
    with pytest.raises(abo.InputError, match="no cell"):
        choose(read_design("paper").cells, "p == 7")
