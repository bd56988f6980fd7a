"""The causes behind the published tables: they are what they say, and the pages hold what was run."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from replication.__main__ import FOUND
from replication.kolmogorov import HALF, NAMES, normal_column
from replication.many_searches import maximise
from replication.pages import explained_page, judgements, subset_table
from replication.scores import Attacks, Causes
from replication.subsets import NONE, SUBSETS, TOGETHER, attacked, published_cells
from replication.tables import Crowd
from scipy.optimize import minimize

from allbutone.paper.design_file import SHIPPED
from allbutone.paper.simulate import simulate_cell

DOCS = Path(__file__).parents[2] / "docs"
PRIOR_MEAN = np.array([1.1, 1.1])


def cell_of(release, count, n, rows):
    return next(c for c in published_cells() if (c.release, c.count, c.n, c.rows) == (release, count, n, rows))


def scatter_in_r(table, recycled):
    """`t(X - xbar) %*% (X - xbar)`: R lays the vector along the matrix column by column."""
    mean = table.mean(axis=0)
    taken = np.resize(mean, table.size).reshape(table.shape, order="F") if recycled else mean
    return (table - taken).T @ (table - taken)


def literal_posterior(table, recycled):
    n, mean = len(table), table.mean(axis=0)
    away = mean - PRIOR_MEAN
    scale = np.eye(2) + scatter_in_r(table, recycled) + n / (n + 1) * np.outer(away, away)
    return (PRIOR_MEAN + n * mean) / (n + 1), n + 1, n + 4, scale


def literal_score(x, others, release, causes):
    """The score of Algorithms 2 and 3, the model fitted anew to the others with the candidate below them."""
    mean, kappa, df, scale = literal_posterior(np.vstack([others, x]), causes.recycled_mean)
    value = 0.0
    for one in release:
        value += df * np.linalg.slogdet(scale)[1]
        if isinstance(one, tuple):
            precision = np.linalg.inv(one[1])
            value -= np.trace(scale @ precision) + kappa * (one[0] - mean) @ precision @ (one[0] - mean)
        else:
            rows, away = len(one), one.mean(axis=0) - mean
            eta = kappa * rows / (kappa + (2 if causes.doubled_rows else 1) * rows)
            joint = scale + scatter_in_r(one, causes.recycled_mean) + eta * np.outer(away, away)
            value -= (df + rows) * np.linalg.slogdet(joint)[1]
    own, kappa, df, scale = literal_posterior(others, causes.recycled_mean)
    delta = df - 1
    spread = (kappa + 1) / (kappa * delta) * scale
    return value - (delta + 2) * np.log(1 + (x - own) @ np.linalg.inv(spread) @ (x - own) / delta)


def of_records(cell, causes, others, release):
    """The attack on these very records."""
    odd, even = others[::2], others[1::2]
    within = sum((half - half.mean(axis=0)).T @ (half - half.mean(axis=0)) for half in (odd, even))
    crowd = Crowd(*(column(half.mean(axis=0)) for half in (odd, even)), entries(within), len(others))
    drawn = Attacks.drawn(cell, causes, 1, np.random.default_rng(0))
    own = type(drawn.own).of(crowd.parts(0), crowd.within, causes)
    if isinstance(release[0], tuple):
        precisions = [np.linalg.inv(covariance) for _, covariance in release]
        centre = column(sum(p @ mean for p, (mean, _) in zip(precisions, release, strict=True)))
        shape = entries(sum(precisions))
    else:
        centre = tuple(np.array([z.mean(axis=0) for z in release]).T[:, :, None])
        scatters = np.array([scatter_in_r(z, causes.recycled_mean) for z in release])
        shape = scatters[:, 0, 0, None], scatters[:, 0, 1, None], scatters[:, 1, 1, None]
    return Attacks(cell, causes, crowd, own, centre, shape, drawn.start)


def column(vector):
    return vector[:1], vector[1:]


def entries(matrix):
    return matrix[:1, 0], matrix[:1, 1], matrix[1:, 1]


@pytest.mark.parametrize("causes", SUBSETS, ids=lambda causes: causes.words)
@pytest.mark.parametrize("place", [("parameters", 3, 10, None), ("datasets", 2, 10, 10)])
def test_the_score_is_that_of_the_records_with_the_causes(causes, place, rng):
    cell = cell_of(*place)
    others = rng.normal(1, np.sqrt(3), (10 if causes.n_others else 9, 2))
    if cell.rows is None:
        release = [(rng.normal(3, 1, 2), np.diag(rng.uniform(2, 9, 2)) + 1) for _ in range(cell.count)]
    else:
        release = [rng.normal(3, 4, (cell.rows, 2)) for _ in range(cell.count)]
    found = of_records(cell, causes, others, release)
    points = rng.normal(5, 8, (6, 2))
    values = [found.score(x[:, None])[0][0] for x in points]
    literal = [literal_score(x, others, release, causes) for x in points]
    np.testing.assert_allclose(np.diff(values), np.diff(literal), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("causes", [NONE, TOGETHER], ids=lambda causes: causes.words)
@pytest.mark.parametrize("place", [("parameters", 2, 50, None), ("datasets", 5, 10, 10)])
def test_three_draws_stand_for_all_records(causes, place, rng):
    """Tables, parameters and datasets drawn record by record, as the paper does, give the same statistics."""
    cell, size = cell_of(*place), 800
    drawn = Attacks.drawn(cell, causes, size, rng)
    ours = np.array([part.reshape(-1, size)[0] for part in (*drawn.own.scale, *drawn.shape, *drawn.start)])
    theirs = []
    for _ in range(size):
        others = rng.normal(1, np.sqrt(3), (cell.n if causes.n_others else cell.n - 1, 2))
        mean, kappa, df, scale = literal_posterior(np.vstack([[20, 20], others]), causes.recycled_mean)
        release = []
        for _ in range(cell.count):
            white = rng.standard_normal((df, 2)) @ np.linalg.cholesky(np.linalg.inv(scale)).T
            root = np.linalg.cholesky(np.linalg.inv(white.T @ white))
            centre = mean + root @ rng.standard_normal(2) / np.sqrt(kappa)
            rows = None if cell.rows is None else centre + rng.standard_normal((cell.rows, 2)) @ root.T
            release.append((centre, root @ root.T) if rows is None else rows)
        found = of_records(cell, causes, others, release)
        means = np.mean([one[0] if cell.rows is None else one.mean(axis=0) for one in release], axis=0)
        total = 0 if cell.rows is None else cell.rows * cell.count
        start = (PRIOR_MEAN + total * means) / (1 + total) if total else means
        theirs.append([np.ravel(part)[0] for part in (*found.own.scale, *found.shape)] + [*start])
    theirs = np.array(theirs).T
    for moment in (lambda values: values, lambda values: (values - theirs.mean(axis=1, keepdims=True)) ** 2):
        one, other = moment(ours), moment(theirs)
        error = np.sqrt((one.var(axis=1) + other.var(axis=1)) / size)
        assert (np.abs(one.mean(axis=1) - other.mean(axis=1)) <= 5 * error).all()


@pytest.mark.parametrize("causes", [NONE, TOGETHER], ids=lambda causes: causes.words)
@pytest.mark.parametrize("place", [("parameters", 3, 10, None), ("datasets", 10, 100, 10)])
def test_many_searches_end_where_scipys_l_bfgs_b_ends(causes, place, rng):
    some = Attacks.drawn(cell_of(*place), causes, 30, rng)
    found = maximise(some.score, some.start)
    options = {"maxcor": 5, "ftol": 1e7 * np.finfo(float).eps, "gtol": 0.0, "maxiter": 100}
    for place_of_one in range(30):
        alone = np.array([place_of_one])

        def fall(x, alone=alone):
            value, slope = some.score(x[:, None], alone)
            return -value[0], -slope[:, 0]

        theirs = minimize(fall, some.start[:, place_of_one], jac=True, method="L-BFGS-B", options=options).x
        np.testing.assert_allclose(found[:, place_of_one], theirs, atol=0.01)


@pytest.mark.parametrize("place", [("parameters", 3, 50, None), ("datasets", 5, 50, 1000)])
def test_without_causes_it_is_the_study(place, rng):
    cell = cell_of(*place)
    ours = np.linalg.norm(attacked(cell, NONE, 1000, rng) - 20, axis=0)
    theirs = simulate_cell(cell, 1000, 1).distance
    error = np.sqrt((ours.var() + theirs.var()) / 1000)
    assert abs(ours.mean() - theirs.mean()) <= 4.5 * error


@pytest.mark.parametrize(
    ("place", "printed"), [(("datasets", 100, 500, 10), 20.2), (("datasets", 100, 300, 10), 7.2)]
)
def test_the_two_numbers_that_stood_out_come_out_with_the_causes(place, printed, rng):
    found = np.sort(np.linalg.norm(attacked(cell_of(*place), TOGETHER, 500, rng) - 20, axis=0))
    low, high = found[[round(250 - 4 * np.sqrt(500) / 2), round(250 + 4 * np.sqrt(500) / 2)]]
    assert low - 0.3 <= printed <= high + 0.3
    without = np.median(np.linalg.norm(attacked(cell_of(*place), NONE, 500, rng) - 20, axis=0))
    assert without > printed + 1


def test_the_pages_hold_what_was_run_and_at_most_three_numbers_are_left():
    held = json.loads(FOUND.read_text(encoding="utf-8"))
    page = (DOCS / "differences.md").read_text(encoding="utf-8")
    assert "\n".join(subset_table(held)) in page
    assert (DOCS / "explained.md").read_text(encoding="utf-8") == explained_page(held)
    assert held["many"] >= 199_000  # from there on an extreme is judged on both sides
    judged = [verdict for one in judgements(held["subsets"][TOGETHER.words]) for verdict in one.values()]
    assert len(judged) == 540
    assert judged.count("agrees") >= 537
    for causes in SUBSETS:
        if causes != TOGETHER:
            others = [v for one in judgements(held["subsets"][causes.words]) for v in one.values()]
            assert others.count("agrees") <= 525


def test_what_was_run_is_found_again(rng):
    """Means of a fresh run of some cells lie where the stored ones say, at their standard errors."""
    held = json.loads(FOUND.read_text(encoding="utf-8"))["subsets"]
    cells = published_cells()
    for causes in (Causes(recycled_mean=True), TOGETHER):
        for place in (3, 40, 75):
            guesses = attacked(cells[place], causes, 600, rng)
            error = guesses[0].std() / np.sqrt(600)
            assert abs(guesses[0].mean() - held[causes.words][place]["mean_x1"]) <= 4.5 * error


def test_the_25_printed_numbers_stand_beside_a_normal_columns(rng):
    """As printed, each judged by the interval on the page, which is that of normal columns drawn afresh."""
    page = (DOCS / "differences.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines()]
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
