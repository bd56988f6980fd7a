"""The attack on tables with gaps: the closed form without gaps, quadrature with one, calibration with many."""

import os
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import logsumexp

import allbutone as abo
from allbutone.adversary.averaged import StudentMixture, next_record
from allbutone.adversary.build import log_posterior, log_posterior_of_model
from allbutone.adversary.gap_integrals import measure_gaps
from allbutone.adversary.gaps import FilledTable, GapAdversary
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.modes import find_modes
from allbutone.adversary.proposal import Points
from allbutone.disclosure.gap_risk import risk_with_gaps
from allbutone.disclosure.measures import Effort, measure
from allbutone.model.augmentation import augment
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel, MixedRecords, Parameters
from allbutone.model.moments import Cells
from allbutone.model.niw import Normal
from allbutone.releases.sampling import draw_tables

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))


def incomplete(model, records):
    """Complete mixed records as records that could have gaps."""
    return IncompleteRecords.of(model.cells.codes[records.cells], records.values, records.covariates)


def normal_case(rng, kind, n=30, p=3):
    values = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + 5
    values[4] += 8
    prior = abo.NIW.flat(p)
    posterior = prior.update(values)
    if kind == "parameters":
        release = abo.Release.draw_parameters(posterior, 3, rng, prior=prior)
        covariances = release.normal.covariances[:, None]
        parameters = Parameters(np.ones((3, 1)), release.normal.means[:, None], covariances)
        return values, prior, release, {"parameters": parameters}
    release = abo.Release.draw(posterior, [20, 30, 25], rng, prior=prior)
    return values, prior, release, {"datasets": [IncompleteRecords.of(None, data) for data in release.values]}


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_without_gaps_the_normal_model_has_its_closed_form(kind, rng):
    values, prior, release, released = normal_case(rng, kind)
    others, target = (
        IncompleteRecords.of(None, np.delete(values, 4, axis=0)),
        IncompleteRecords.of(None, values[4:5]),
    )
    model = LocationModel.prior((), prior)
    found = GapAdversary.of(others, model, rng, **released).posteriors(target).product
    closed = log_posterior(others.values, release, prior=prior)
    candidates = values[:9]
    ours = found.values(found.shape.whiten(candidates[:, None, :])[:, 0][None])[0]
    exact = closed.log_density_unnormalized(candidates)
    np.testing.assert_allclose(ours - ours[0], exact - exact[0], rtol=1e-12, atol=1e-10)
    mode = found.shape.unwhiten(found.find_modes().best)[0]
    np.testing.assert_allclose(mode, closed.unwhiten(find_modes(closed).best), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_without_gaps_everyones_risk_is_the_usual_one(kind, rng):
    values, prior, release, released = normal_case(rng, kind)
    records = IncompleteRecords.of(None, values)
    seen = []
    found = risk_with_gaps(
        GapAdversary.of(records, LocationModel.prior((), prior), rng, **released),
        rng,
        radius=2.0,
        watch=seen.append,
    )
    problem = LeaveOneOut.of(values, release, prior, None, "record").problem(np.arange(30), ())
    usual = measure(problem, values, Effort(), radius=2.0)
    np.testing.assert_allclose(found.guess, usual.guess, rtol=1e-5, atol=1e-5)
    error = np.hypot(found.gain_error, usual.information_gain_error)
    assert np.all(np.abs(found.gain - usual.information_gain) < 6 * error + 5e-3)
    assert np.all(np.abs(found.mass - usual.mass) < 6 * np.hypot(found.mass_error, usual.mass_error) + 5e-3)
    np.testing.assert_allclose(found.prior_mass, usual.prior_mass, rtol=0.1, atol=2e-3)
    assert not np.any(found.redrawn)
    assert sum(seen) == 30


@dataclass(frozen=True)
class Drawn:
    """One released draw of the parameters as a distribution of a mixed record."""

    parameters: Parameters
    model: LocationModel

    def log_density(self, records):
        means = self.model.coded(records.cells, records.covariates) @ self.parameters.coefficients[0]
        normals = zip(means, self.parameters.covariance_at(records.cells)[0], records.values, strict=True)
        measured = [Normal(mean, covariance).log_density(value) for mean, covariance, value in normals]
        return np.log(self.parameters.shares[0][records.cells]) + np.array(measured)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("inside", [False, True])
def test_without_gaps_mixed_records_have_the_product_of_predictives(kind, separate, inside, rng):
    """At every combination of categories, whether the target is taken out of the table or was never in it."""
    prior = LocationModel.prior((2, 2), abo.NIW.default(2), separate=separate)
    table = MixedRecords.of(rng.integers(0, 4, 25), rng.standard_normal((25, 2)))
    drawn, parameters = draw_tables([prior.update(table)], [15, 20], rng)
    one, rest = table.take([6]), table.take(np.delete(np.arange(25), 6))
    others = prior.update(rest)
    candidates = MixedRecords.of(np.repeat(np.arange(4), 3), rng.standard_normal((12, 2)))
    if kind == "datasets":
        released = {"datasets": [incomplete(prior, each) for each in drawn]}
        exact = log_posterior_of_model(candidates, others, datasets=drawn)
    else:
        released = {"parameters": parameters}
        names = Parameters.__dataclass_fields__
        each = [Parameters(*(getattr(parameters, name)[at : at + 1] for name in names)) for at in (0, 1)]
        exact = log_posterior_of_model(candidates, others, parameters=[Drawn(draw, prior) for draw in each])
    adversary = GapAdversary.of(incomplete(prior, table if inside else rest), prior, rng, **released)
    found = adversary.posteriors(incomplete(prior, one), np.array([6]) if inside else None).product
    white = np.stack([found.shape.take([at]).whiten(candidates.values[3 * at : 3 * at + 3]) for at in range(4)])
    ours = (found.values(white) - found.log_volume[:, None]).ravel()
    np.testing.assert_allclose(ours - ours[0], exact - exact[0], rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("normal", [False, True])
def test_known_columns_leave_the_conditional_mixture(normal, rng):
    """Joint density = weight · conditional density, Student t's and normals alike."""
    roots = rng.standard_normal((2, 5, 3, 3))
    dfs = np.full((2, 5), np.inf) if normal else rng.uniform(2, 20, (2, 5))
    mixture = StudentMixture.of(
        rng.standard_normal((2, 5)), rng.standard_normal((2, 5, 3)), roots @ roots.swapaxes(-1, -2), dfs
    )
    points = rng.standard_normal((2, 3))
    joint = mixture.group_sums(points[:, None]).log_totals()
    for known in ([1], [0, 2], [0, 1, 2]):
        rest = np.setdiff1d(np.arange(3), known)
        given = mixture.given(np.array(known), points[:, known]).group_sums(points[:, None, rest])
        np.testing.assert_allclose(given.log_totals(), joint, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_an_adversary_who_knows_columns_is_the_usual_one_without_gaps(kind, rng):
    values, prior, release, released = normal_case(rng, kind)
    adversary = GapAdversary.of(
        IncompleteRecords.of(None, values), LocationModel.prior((), prior), rng, **released
    )
    found = risk_with_gaps(adversary, rng, known_columns=[1])
    known = np.zeros(3, dtype=bool)
    known[1] = True
    problem = LeaveOneOut.of(values, release, prior, None, "record").problem(np.arange(30), (1,))
    usual = measure(problem, values[:, ~known], Effort(), radius=None)
    np.testing.assert_allclose(found.guess[:, ~known], usual.guess, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found.guess[:, 1], values[:, 1])
    error = np.hypot(found.gain_error, usual.information_gain_error)
    assert np.all(np.abs(found.gain - usual.information_gain) < 6 * error + 5e-3)


def test_known_categories_rule_out_other_combinations(rng):
    """With a category known, the rest is the posterior given it: probabilities of its combinations, normalised."""
    prior = LocationModel.prior((2, 3), abo.NIW.default(2))
    table = MixedRecords.of(rng.integers(0, 6, 25), rng.standard_normal((25, 2)))
    drawn, _ = draw_tables([prior.update(table)], [15, 20], rng)
    adversary = GapAdversary.of(
        incomplete(prior, table), prior, rng, datasets=[incomplete(prior, each) for each in drawn]
    )
    target, rows = incomplete(prior, table.take([6])), np.array([6])
    free = measure_gaps(adversary.posteriors(target, rows), 1.0, Points())
    bound = measure_gaps(adversary.posteriors(target, rows, ((), (0,))), 1.0, Points())
    own = free.combinations[:, 0] == target.codes[0, 0]
    share = np.where(own, free.probabilities[0], 0.0)
    np.testing.assert_allclose(bound.probabilities[0], share / share.sum(), rtol=1e-9)
    np.testing.assert_allclose(bound.levels[0][target.codes[0, 0]], 1)
    baseline = free.baselines[0][own].sum()
    np.testing.assert_allclose(
        bound.gain, free.gain - np.log(share.sum()) + np.log(baseline), rtol=1e-9, atol=1e-9
    )
    known = risk_with_gaps(adversary, rng, rows=rows, known_categories=[0])
    np.testing.assert_allclose(known.gain[6], bound.gain[0])


def small_case(rng):
    """Six records of two columns of which one has a gap, and two datasets: small enough for quadrature."""
    prior = LocationModel.prior((), abo.NIW(np.zeros(2), 0.5, 5.0, np.eye(2)))
    values = rng.standard_normal((6, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    values[2, 1] = np.nan
    datasets = [rng.standard_normal((4, 2)), 1 + rng.standard_normal((3, 2))]
    return prior, values, datasets


def evidences(prior, values, grid, *more):
    """Log evidence of the table, with its gap filled by each value of the grid, and of further records."""
    found = []
    for value in grid:
        whole = np.where(np.isnan(values), value, values)
        rows = np.concatenate([whole, *(np.atleast_2d(each) for each in more)])
        found.append(prior.log_evidence(MixedRecords.of(np.zeros(len(rows), dtype=int), rows)))
    return np.array(found)


def test_the_identity_against_quadrature_over_a_gap(rng):
    """p(x | X₋)·Πⱼ p(Zⱼ | X₋, x), each an integral over the gap, is the product of mixtures, with constants."""
    prior, values, datasets = small_case(rng)
    grid, candidates = np.linspace(-9, 9, 61), rng.standard_normal((3, 2)) * 2

    def mixture(*more):
        """p(x | X₋, more) as a mixture over the grid, weighed by the evidence."""
        weights = evidences(prior, values, grid, *more)
        models = []
        for value in grid:
            rows = np.concatenate([np.where(np.isnan(values), value, values), *more])
            models.append(prior.update(MixedRecords.of(np.zeros(len(rows), dtype=int), rows)))
        parts = next_record(tuple(models), np.zeros((1, 0)))
        shares = (weights - logsumexp(weights))[None]
        t = StudentMixture.of(shares, parts.locations[:, 0], parts.scales[:, 0], parts.dfs[:, 0])
        return t.group_sums(candidates[None]).log_totals()[0]

    before = mixture()
    product = sum(mixture(data) for data in datasets) - before
    constant = sum(
        logsumexp(evidences(prior, values, grid, data)) - logsumexp(evidences(prior, values, grid))
        for data in datasets
    )
    for candidate, value in zip(candidates, product, strict=True):
        with_it = logsumexp(evidences(prior, values, grid, candidate))
        literal = (
            with_it
            - logsumexp(evidences(prior, values, grid))
            + sum(logsumexp(evidences(prior, values, grid, candidate, data)) - with_it for data in datasets)
        )
        np.testing.assert_allclose(value + constant, literal, rtol=1e-10, atol=1e-10)


def test_draws_of_the_gap_give_the_density_within_its_standard_error(rng):
    prior, values, datasets = small_case(rng)
    grid, candidates = np.linspace(-12, 12, 97), rng.standard_normal((3, 2))
    released = [IncompleteRecords.of(None, data) for data in datasets]
    adversary = GapAdversary.of(IncompleteRecords.of(None, values), prior, rng, datasets=released)
    found = adversary.posteriors(IncompleteRecords.of(None, candidates[:1])).product
    every = found.values_of(found.group_sums(found.shape.whiten(candidates)[None]))[:, 0]
    every = every - every[:, :1]
    exact = []
    for candidate in candidates:
        with_it = logsumexp(evidences(prior, values, grid, candidate))
        exact.append(
            with_it + sum(logsumexp(evidences(prior, values, grid, candidate, z)) - with_it for z in datasets)
        )
    error = np.std(every[:-1], axis=0) * np.sqrt(len(every) - 2)  # by leaving out each group of draws
    assert np.all(np.abs(every[-1] - (np.array(exact) - exact[0])) < 6 * error + 0.01)
    assert np.all(error < 0.4)


def mixed_with_gaps(rng, n=60):
    cells = Cells((2, 2))
    which = rng.integers(0, 4, n)
    values = cells.main_effects[which] @ rng.standard_normal((5, 2)) + rng.standard_normal((n, 2)) @ np.array(
        [[1.0, 0.7], [0.0, 0.7]]
    )
    values[rng.random(values.shape) < 0.1] = np.nan
    codes = np.where(rng.random((n, 2)) < 0.1, -1, cells.codes[which])
    return LocationModel.prior((2, 2), abo.NIW.flat(2)), IncompleteRecords.of(codes, values)


def test_weights_take_a_record_out_as_drawing_without_it_does(rng):
    prior, records = mixed_with_gaps(rng)
    filled = FilledTable.of(records, prior, rng, chains=4, draws=1)
    drawn, _ = draw_tables(filled.models, [60, 60], rng)
    adversary = GapAdversary.of(records, prior, rng, datasets=[incomplete(prior, each) for each in drawn])
    rows = np.array([0, 7, 19])
    found = risk_with_gaps(adversary, rng, rows=rows)
    assert np.all(np.isnan(np.delete(found.gain, rows)))
    for row in rows[np.isfinite(found.gain[rows])]:
        alone = adversary.without(int(row), rng).posteriors(records.take([row]))
        direct = measure_gaps(alone, 1.0, Points())
        error = np.hypot(direct.gain_error[0], found.gain_error[row])
        assert abs(direct.gain[0] - found.gain[row]) < 6 * error + 0.02
        assert error < 0.6


def test_each_category_has_a_probability_where_it_is_known(rng):
    prior, records = mixed_with_gaps(rng)
    codes, values = records.codes.copy(), records.values.copy()
    values[0], codes[0] = np.nan, [1, 0]  # nothing measured
    values[1], codes[1] = [0.3, 0.1], [-1, -1]  # no category
    values[2], codes[2] = np.nan, [-1, -1]  # nothing at all
    values[3], codes[3] = [0.3, np.nan], [-1, 1]
    records = replace(records, codes=codes, values=values)
    filled = FilledTable.of(records, prior, rng, chains=4, draws=1)
    _, parameters = draw_tables(filled.models, [10] * 3, rng)
    adversary = GapAdversary.of(records, prior, rng, parameters=parameters)
    found = risk_with_gaps(adversary, rng, rows=np.arange(6))
    np.testing.assert_allclose(
        np.nansum(found.probabilities[1][[0, 3, 4, 5]], axis=1), codes[[0, 3, 4, 5], 1] >= 0
    )
    np.testing.assert_allclose(found.probabilities[0][0].sum(), 1)
    assert np.all(np.isnan(found.probabilities[0][[1, 2, 3]]))
    assert np.isfinite(found.gain[[0, 1, 3]]).all()
    assert np.isnan(found.gain[2])
    assert np.isnan(found.guess[0]).all()
    assert np.isnan(found.guess[3, 1])
    assert np.isfinite(found.guess[3, 0])
    assert found.guess_codes[3].tolist()[0] == -1


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_the_adversary_is_calibrated(kind, separate, rng):
    """Of tables drawn from the prior, regions of 50, 80 and 95 % hold each record so often, and its levels, too.

    Given the others, each record of such a table comes from the adversary's own predictive.
    """
    # a normal for each cell, which main effects share; cells of few records need a prior that says something, or
    # a record that lacks its level stays for long in the cell whose spread has come to fit it
    df, people = (12.0, 48) if separate else (6.0, 30)
    normal = abo.NIW(np.zeros((4, 2)) if separate else np.zeros(2), 1.0, df, (df - 3) * np.eye(2))
    prior = LocationModel.prior((2, 2), normal, weight=2.0, separate=separate)
    tables = (2100 // people) if LONG else 1
    depth, off, spread = [], [], []
    for _ in range(tables):
        (whole,), _ = draw_tables([prior], [people], rng)
        codes, values = prior.cells.codes[whole.cells], whole.values
        codes, values = (
            np.where(rng.random(codes.shape) < 0.1, -1, codes),
            np.where(rng.random(values.shape) < 0.1, np.nan, values),
        )
        records = IncompleteRecords.of(codes, values)
        drawn, parameters = draw_tables(augment(records, prior, rng).posteriors, [people] * 2, rng)
        released = {"parameters": parameters}
        if kind == "datasets":
            released = {"datasets": [incomplete(prior, each) for each in drawn]}
        adversary = GapAdversary.of(records, prior, rng, **released, chains=8, draws=8)
        found = risk_with_gaps(adversary, rng)
        depth.append(found.more_probable[np.any(~records.gaps, axis=1)])
        for place, chances in enumerate(found.probabilities):
            known = codes[:, place] >= 0
            off.append(np.sum((codes[:, place] == 1)[known] - chances[known, 1]))
            spread.append(np.sum((chances[:, 0] * chances[:, 1])[known]))
    seen = np.concatenate(depth)
    for region in (0.5, 0.8, 0.95):
        error = np.sqrt(region * (1 - region) / len(seen))
        assert abs(np.mean(seen < region) - region) < (3 if LONG else 5) * error
    assert abs(np.sum(off)) < (3 if LONG else 5) * np.sqrt(np.sum(spread))
