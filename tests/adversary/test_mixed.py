"""Mixed tables: the general location model, and the attack on categories and measurements together."""

import os
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import invwishart, matrix_normal, multivariate_t

import allbutone as abo
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.mixed import CellIntegrals, MixedLeaveOneOut, cell_beliefs, level_alone
from allbutone.adversary.proposal import Points
from allbutone.model.location import LocationModel, MixedRecords, Parameters
from allbutone.model.moments import Cells
from allbutone.model.niw import Normal
from allbutone.releases.sampling import draw_tables
from cases import positive_definite

SIZES = (2, 3)
LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))
KINDS = ["datasets", "parameters", "several"]


def model_of(p, separate, covariates=0):
    normal = abo.NIW.default(p) if separate else abo.NIW.flat(p)
    return LocationModel.prior(SIZES, normal, separate=separate, covariates=covariates)


def records_of(rng, n, p, covariates=0):
    """Records whose last is alone in its cell, and whose first stands far out."""
    cells = np.append(rng.integers(0, 5, n - 1), 5)
    values = rng.standard_normal((n, p)) @ positive_definite(rng, p) + 3 * cells[:, None] % 4
    values[0] *= 4
    return MixedRecords.of(cells, values, 10 + rng.standard_normal((n, covariates)))


def released(rng, posterior, kind):
    datasets, _ = draw_tables([posterior], [20, 1, 35], rng)
    return ([] if kind == "parameters" else datasets), (None if kind == "datasets" else posterior.draw(rng, 3))


def case(rng, kind, separate, n=30, p=2):
    prior, records = model_of(p, separate), records_of(rng, n, p)
    return prior, records, *released(rng, prior.update(records), kind)


def others_of(records, row):
    return records.take(np.delete(np.arange(len(records)), row))


def log_release(model, datasets, drawn):
    """Return log p(release | records): the chain of predictives, and the density of each draw."""
    total = 0.0
    for data in datasets:
        so_far = model
        for row in range(len(data)):
            one = data.take([row])
            total += float(so_far.predictive().log_density(one)[0])
            so_far = so_far.update(one)
    for draw in range(0 if drawn is None else len(drawn)):
        total += log_density_of_draw(model, drawn, draw)
    return total


def log_density_of_draw(model, drawn, draw):
    """Return log p(shares, coefficients, covariances | records) but for what does not depend on the records."""
    weights = model.weights
    total = gammaln(weights.sum()) - gammaln(weights).sum() + np.sum((weights - 1) * np.log(drawn.shares[draw]))
    measured = model.measured
    if model.is_separate:
        for cell in range(len(weights)):
            fields = (np.broadcast_to(x, len(weights))[cell] for x in (measured.mean_weight, measured.df))
            one = abo.NIW(measured.mean[cell], *fields, measured.scale[cell])
            total += one.log_density(drawn.coefficients[draw, cell], drawn.covariances[draw, cell])
        return float(total)
    covariance = drawn.covariances[draw, 0]
    spread = np.linalg.inv(measured.root.T @ measured.root)
    total += matrix_normal.logpdf(drawn.coefficients[draw], measured.coefficients, spread, covariance)
    return float(total + invwishart.logpdf(covariance, measured.df, measured.scale))


# the model


def test_the_predictive_is_counts_times_student_t(rng):
    records = records_of(rng, 30, 2)
    model = model_of(2, separate=True).update(records)
    for cell in (0, 3, 5):
        here = records.values[records.cells == cell]
        after = abo.NIW.default(2).update(here)
        df = after.df - 1
        scale = (after.mean_weight + 1) / (after.mean_weight * df) * after.scale
        share = (0.5 + len(here)) / (3.0 + 30)
        wanted = np.log(share) + multivariate_t.logpdf([1.0, 2.0], after.mean, scale, df)
        found = model.predictive().log_density(MixedRecords.of([cell], [[1.0, 2.0]]))
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.parametrize("separate", [False, True])
def test_the_evidence_is_the_product_of_predictives(rng, separate):
    records = records_of(rng, 30, 2)
    model = model_of(2, separate).update(records)
    more = records_of(rng, 8, 2)
    np.testing.assert_allclose(model.log_evidence(more), log_release(model, [more], None), rtol=1e-10)


def test_separate_cells_need_records_of_their_own_and_take_no_covariates(rng):
    with pytest.raises(abo.InputError, match="no covariates"):
        LocationModel.prior((2,), abo.NIW.flat(2), separate=True, covariates=1)
    model = LocationModel.prior((2,), abo.NIW.flat(2), separate=True)
    records = MixedRecords(np.repeat([0, 1], [6, 3]), rng.normal(size=(9, 2)), np.zeros((9, 0)))
    with pytest.raises(abo.InputError, match="at least 4 records in each cell without a prior, and 1 of 2"):
        model.update(records)


def test_the_order_of_levels_and_units_do_not_matter(rng):
    """Main effects under the flat prior: relabelled levels, x → Ax + b; the same predictive but for the volume."""
    records = records_of(rng, 40, 2)
    codes = Cells(SIZES).codes[records.cells]
    turned = Cells(SIZES).of_codes(np.column_stack([1 - codes[:, 0], (codes[:, 1] + 1) % 3]))
    matrix, shift = positive_definite(rng, 2), np.array([100.0, -7.0])
    prior = model_of(2, separate=False)
    one = prior.update(records).predictive().log_density(records)
    moved = MixedRecords.of(turned, records.values @ matrix.T + shift)
    two = prior.update(moved).predictive().log_density(moved)
    np.testing.assert_allclose(two, one - np.linalg.slogdet(matrix)[1], rtol=1e-9, atol=1e-9)


# the attack


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_posterior_is_bayes_rule_to_rounding(rng, kind, separate):
    """Against p(candidate | others)·p(release | others, candidate), constants between cells included."""
    prior, records, datasets, drawn = case(rng, kind, separate)
    everyone = MixedLeaveOneOut.of(records, prior, datasets, drawn)
    for row in (0, 5, 29):  # far out; ordinary; alone in its cell
        others = prior.update(others_of(records, row))
        candidates = MixedRecords.of(np.arange(6), rng.standard_normal((6, 2)) * 3)
        wanted = [
            float(others.predictive().log_density(candidates.take([place]))[0])
            + log_release(others.update(candidates.take([place])), datasets, drawn)
            for place in range(6)
        ]
        _, odds = everyone.log_cell_odds(np.array([row]))
        problem, offset = everyone.problem(np.full(6, row), candidates.cells)
        found = odds[0] + problem.log_density_unnormalized(candidates.values) + offset
        np.testing.assert_allclose(found - found[0], np.array(wanted) - wanted[0], rtol=1e-10, atol=1e-10)


def test_with_covariates_the_posterior_is_bayes_rule(rng):
    prior, records = model_of(2, False, covariates=1), records_of(rng, 30, 2, covariates=1)
    posterior = prior.update(records)
    known = Cells(SIZES).codes[records.cells]
    datasets, _ = draw_tables([posterior], [30, 30], rng, kept=known, covariates=records.covariates)
    everyone = MixedLeaveOneOut.of(records, prior, datasets)
    for row in (0, 5):
        others = prior.update(others_of(records, row))
        points = MixedRecords(
            np.full(4, records.cells[row]),
            rng.standard_normal((4, 2)) * 3,
            np.repeat(records.covariates[[row]], 4, axis=0),
        )
        wanted = [
            float(others.predictive().log_density(points.take([place]))[0])
            + log_release(others.update(points.take([place])), datasets, None)
            for place in range(4)
        ]
        problem, _ = everyone.problem(np.full(4, row), points.cells)
        found = problem.log_density_unnormalized(points.values)
        np.testing.assert_allclose(found - found[0], np.array(wanted) - wanted[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["datasets", "parameters"])
def test_one_level_is_the_normal_model(rng, kind):
    """With one level of one category, and with no category at all, the posteriors are those of measurements."""
    records = rng.standard_normal((30, 3)) @ positive_definite(rng, 3) + 5
    posterior = abo.NIW.flat(3).update(records)
    if kind == "datasets":
        release = abo.Release.draw(posterior, [30, 30], rng)
        datasets, drawn = [MixedRecords.of(np.zeros(30), data) for data in release.values], None
    else:
        release = abo.Release.draw_parameters(posterior, 3, rng)
        datasets = []
    usual = LeaveOneOut.of(records, release, abo.NIW.flat(3), None, "record")
    rows = np.arange(30)
    points = records + rng.standard_normal(records.shape)
    wanted = usual.problem(rows, ()).log_density_unnormalized(points)
    wanted -= usual.problem(rows, ()).log_density_unnormalized(records)
    for sizes in ((), (1,), (1, 1)):
        prior = LocationModel.prior(sizes, abo.NIW.flat(3))
        if kind == "parameters":
            drawn = Parameters(np.ones((3, 1)), release.normal.means[:, None], release.normal.covariances[:, None])
        everyone = MixedLeaveOneOut.of(MixedRecords.of(np.zeros(30), records), prior, datasets, drawn)
        problem, _ = everyone.problem(rows, np.zeros(30, dtype=int))
        found = problem.log_density_unnormalized(points) - problem.log_density_unnormalized(records)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_totals_of_cells_agree_with_quadrature(rng, kind, separate):
    prior, records, datasets, drawn = case(rng, kind, separate, n=40, p=1)
    everyone = MixedLeaveOneOut.of(records, prior, datasets, drawn)
    found = CellIntegrals.of(everyone, Points(3)).totals(np.arange(40), np.ones((40, 6), dtype=bool))
    grid = np.linspace(-300, 300, 60_001)
    for row in (0, 5, 39):
        problem, offset = everyone.problem(np.full(6, row), np.arange(6))
        for cell in range(6):
            log_values = problem.take(np.array([cell])).log_density_unnormalized(grid[:, None]) + offset[cell]
            wanted = np.log(np.trapezoid(np.exp(log_values), grid))
            error = 6 * found.error[row, cell] + 1e-6  # four replicates know their spread poorly
            assert abs(found.log_total[row, cell] - wanted) < error, (row, cell)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", ["datasets", "parameters"])
def test_the_adversary_is_calibrated(rng, kind, separate):
    """Records drawn from the adversary's own predictive: categories and regions hold as often as they say."""
    times = 2000 if LONG else 60
    prior = model_of(1, separate)
    others = records_of(rng, 16, 1)
    known = prior.update(others)
    surprise, variance, places = np.zeros(6), np.zeros(6), []
    for _ in range(times):
        target = known.predictive().draw(rng, np.zeros((1, 0)))
        whole = MixedRecords(*(np.concatenate(pair) for pair in zip(fields(others), fields(target), strict=True)))
        posterior = prior.update(whole)
        datasets, _ = draw_tables([posterior], [12, 12], rng)
        drawn = posterior.draw(rng, 2) if kind == "parameters" else None
        everyone = MixedLeaveOneOut.of(whole, prior, [] if drawn else datasets, drawn)
        beliefs = cell_beliefs(CellIntegrals.of(everyone, Points(1)), np.array([16]), ())
        (believed,) = beliefs.probability
        surprise += (np.arange(6) == target.cells[0]) - believed
        variance += believed * (1 - believed)
        places.append(share_below(everyone, target))
    assert np.all(np.abs(surprise) < 4 * np.sqrt(variance) + (not LONG))  # few simulations are far from normal
    for level in (0.5, 0.8, 0.95):
        inside = np.abs(np.array(places) - 0.5) < level / 2
        assert abs(inside.mean() - level) < 4 * np.sqrt(level * (1 - level) / times)


def fields(records):
    return records.cells, records.values, records.covariates


def share_below(everyone, target):
    """Return the posterior probability, within the true cell, of a value below the true one."""
    problem, _ = everyone.problem(np.array([16]), target.cells)
    spread = float(np.abs(problem.root[0, 0, 0]))
    grid = float(problem.centre[0, 0]) + 40 * spread * np.sinh(np.linspace(-6, 6, 4001)) / np.sinh(6)
    log_values = problem.log_density_unnormalized(grid[:, None])
    values = np.exp(log_values - log_values.max())
    below = grid <= target.values[0, 0]
    return np.trapezoid(values[below], grid[below]) / np.trapezoid(values, grid)


def test_known_measurements_tell_of_the_category(rng):
    """All measurements known: the posterior of the cell is the density at them, by Bayes' rule."""
    prior, records, datasets, _ = case(rng, "datasets", separate=False)
    everyone = MixedLeaveOneOut.of(records, prior, datasets)
    beliefs = cell_beliefs(CellIntegrals.of(everyone, Points(1), (0, 1)), np.array([5]), ())
    _, odds = everyone.log_cell_odds(np.array([5]))
    problem, offset = everyone.problem(np.full(6, 5), np.arange(6))
    logs = odds[0] + offset + problem.log_density_unnormalized(np.repeat(records.values[[5]], 6, axis=0))
    np.testing.assert_allclose(beliefs.probability[0], np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum())
    others = prior.update(others_of(records, 5)).predictive()
    logs = others.log_density(MixedRecords.of(np.arange(6), np.repeat(records.values[[5]], 6, axis=0)))
    np.testing.assert_allclose(beliefs.baseline[0], np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum())


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_category_alone_is_that_of_all_cells_in_which_all_else_is_right(rng, kind, separate):
    prior, records, datasets, drawn = case(rng, kind, separate, n=40, p=2)
    everyone = MixedLeaveOneOut.of(records, prior, datasets, drawn)
    rows, sizes = np.arange(0, 40, 3), prior.cells.sizes
    for category in range(len(sizes)):
        others = [place for place in range(len(sizes)) if place != category]
        every = cell_beliefs(CellIntegrals.of(everyone, Points(1), (0, 1)), rows, others)
        found = level_alone(everyone, rows, category)
        for one, two in zip(found, every.of_true_level(category), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-12)


def test_one_known_measurement_is_integrated_over_the_other(rng):
    prior, records, datasets, _ = case(rng, "datasets", separate=False)
    everyone = MixedLeaveOneOut.of(records, prior, datasets)
    beliefs = cell_beliefs(CellIntegrals.of(everyone, Points(1), (1,)), np.array([5]), ())
    _, odds = everyone.log_cell_odds(np.array([5]))
    problem, offset = everyone.problem(np.full(6, 5), np.arange(6))
    grid = np.linspace(-200, 200, 40_001)
    points = np.column_stack([grid, np.full(len(grid), records.values[5, 1])])
    totals = [
        np.trapezoid(np.exp(problem.take(np.array([c])).log_density_unnormalized(points) + offset[c]), grid)
        for c in range(6)
    ]
    wanted = np.exp(odds[0] - odds[0].max()) * totals
    np.testing.assert_allclose(beliefs.probability[0], wanted / wanted.sum(), atol=0.01)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_mechanism_and_the_own_prior_are_opinions_of_their_own(rng, kind, separate):
    """log p_a(c, x | X₋), and of every mechanism Σⱼ log p(c, x | X₋, Z⁽ʲ⁾) − log p(c, x | X₋); so for draws."""
    prior, records, datasets, drawn = case(rng, kind, separate, n=40, p=2)
    sizes = prior.cells.sizes
    own, other = (
        LocationModel.prior(sizes, abo.NIW(rng.standard_normal(2), weight, 6.0, np.eye(2)), separate=separate)
        for weight in (1.5, 3.0)
    )
    fewer = records.take(slice(10, 40))
    further, _ = draw_tables([other.update(fewer)], [25, 12], rng)
    usual = MixedLeaveOneOut.of(records, prior, datasets, drawn, own=own)
    everyone = replace(usual, rest=(replace(MixedLeaveOneOut.of(fewer, other, further), start=10),))
    for row in (3, 17):  # the second is among the fewer, too
        cells, points = np.arange(prior.cells.count), rng.standard_normal((prior.cells.count, 2))
        problem, offset = everyone.problem(np.full(len(cells), row), cells)
        _, odds = everyone.log_cell_odds(np.array([row]))
        found = problem.log_density_unnormalized(points) + offset + odds[0]
        there = MixedRecords.of(cells, points)
        others = records.take(np.delete(np.arange(40), row))
        mechanism = prior.update(others)
        wanted = own.update(others).predictive().log_density(there)
        known = mechanism.predictive().log_density(there)
        for data in datasets:
            wanted += mechanism.update(data).predictive().log_density(there) - known
        for each in range(0 if drawn is None else len(drawn)):
            means = mechanism.means(drawn, cells, there.covariates)[each]
            spread = drawn.covariance_at(cells)[each]
            wanted += Normal(means, spread).log_density(points) + np.log(drawn.shares[each]) - known
        if row >= 10:
            left = other.update(fewer.take(np.delete(np.arange(30), row - 10)))
            for data in further:
                wanted += left.update(data).predictive().log_density(there) - left.predictive().log_density(there)
        np.testing.assert_allclose(found - found[0], wanted - wanted[0], rtol=1e-10, atol=1e-9)


def test_the_mechanisms_own_prior_as_the_adversarys_changes_nothing(rng):
    prior, records, datasets, drawn = case(rng, "several", False, n=30, p=2)
    rows, cells = np.arange(30), records.cells
    usual = MixedLeaveOneOut.of(records, prior, datasets, drawn)
    same = replace(usual, own=prior)
    points = records.values + rng.standard_normal(records.values.shape)
    for one, two in ((usual.problem(rows, cells), same.problem(rows, cells)),):
        ours, theirs = (each.log_density_unnormalized(points) + offset for each, offset in (one, two))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    for one, two in zip(usual.log_cell_odds(rows), same.log_cell_odds(rows), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_records_as_they_are_need_no_posterior(rng, kind, separate):
    """Their density in any cell is that of the posterior there, also where no downdate keeps the digits."""
    prior, records, datasets, drawn = case(rng, kind, separate)
    part = records.take(slice(5, None))
    earlier = replace(MixedLeaveOneOut.of(part, prior, datasets, drawn), start=5)
    own = LocationModel.prior(SIZES, abo.NIW([1.0, 0.0], 2.0, 5.0, np.eye(2)), separate=separate)
    every = MixedLeaveOneOut.of(records, prior, datasets, drawn)
    for everyone in (every, replace(every, own=own), replace(every, rest=(earlier,))):
        rows, cells = (each.ravel() for each in np.indices((len(records), everyone.cells)))
        problem, offset = everyone.problem(rows, cells)
        before, after = everyone.log_density(rows, cells)
        truth = records.values[rows]
        np.testing.assert_allclose(after, problem.log_density_unnormalized(truth) + offset, atol=1e-9)
        np.testing.assert_allclose(
            before, everyone.before(rows, cells).predictive().log_density(truth), atol=1e-10
        )
