"""Missing values drawn by data augmentation: against quadrature, the closed form and known recovery."""

import numpy as np
import pytest
from scipy.special import logsumexp

import allbutone as abo
from allbutone.model import augmentation
from allbutone.model.augmentation import ChainPosteriors, Convergence, augment, effective_size, split_r_hat
from allbutone.model.incomplete import IncompleteRecords, possible_cells
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.moments import Cells
from allbutone.support.errors import InputError


def mixed_table(rng, n, p, sizes, strength=1.0):
    """Levels, and measurements that depend on them."""
    cells = Cells(sizes)
    which = rng.integers(0, cells.count, n)
    effects = strength * rng.standard_normal((cells.main_effects.shape[1], p))
    root = np.linalg.cholesky(0.6 * np.eye(p) + 0.4)
    return cells.codes[which], cells.main_effects[which] @ effects + rng.standard_normal((n, p)) @ root.T


@pytest.mark.parametrize("separate", [False, True])
def test_without_gaps_it_is_the_closed_form(separate, rng):
    codes, values = mixed_table(rng, 80, 2, (2, 3))
    prior = LocationModel.prior((2, 3), abo.NIW.default(2), separate=separate)
    found = augment(IncompleteRecords.of(codes, values), prior, rng, chains=5)
    exact = prior.update(MixedRecords.of(prior.cells.of_codes(codes), values))
    assert len(found.tables) == len(found.posteriors) == 5
    for each in found.posteriors:
        np.testing.assert_array_equal(each.weights, exact.weights)
        np.testing.assert_array_equal(each.measured.scale, exact.measured.scale)
    assert found.words == "No value is missing."


def test_what_is_observed_stays_and_what_is_missing_differs_between_chains(rng):
    codes, values = mixed_table(rng, 100, 3, (2, 2))
    values[rng.random(values.shape) < 0.2] = np.nan
    codes[rng.random(codes.shape) < 0.2] = -1
    prior = LocationModel.prior((2, 2), abo.NIW.flat(3))
    found = augment(IncompleteRecords.of(codes, values), prior, rng, chains=4, draws=2)
    assert len(found.tables) == 8
    seen, known = ~np.isnan(values), codes >= 0
    for table in found.tables:
        np.testing.assert_array_equal(table.values[seen], values[seen])
        np.testing.assert_array_equal(prior.cells.codes[table.cells][known], codes[known])
        assert np.all(np.isfinite(table.values))
    drawn = np.stack([table.values[~seen] for table in found.tables])
    assert np.all(np.std(drawn, axis=0) > 0)
    assert "missing at random" in found.words


def exact_filling(prior, records, grid):
    """All completions of one record's missing second measurement (on a grid) and level: log evidence of each."""
    (row,) = np.flatnonzero(np.any(records.gaps, axis=1))
    whole = np.empty((prior.cells.count, len(grid)))
    for cell in range(prior.cells.count):
        for at, value in enumerate(grid):
            codes, values = records.codes.copy(), records.values.copy()
            codes[row], values[row, 1] = prior.cells.codes[cell], value
            whole[cell, at] = prior.log_evidence(MixedRecords.of(prior.cells.of_codes(codes), values))
    return np.exp(whole - logsumexp(whole))


@pytest.mark.parametrize("separate", [False, True])
def test_draws_follow_the_posterior_of_a_missing_level_and_value(separate, rng):
    """Against quadrature: p(missing | observed) is the evidence of the completed table, normalised."""
    codes, values = mixed_table(rng, 7, 2, (2,))
    codes[3], values[3, 1] = -1, np.nan
    prior = LocationModel.prior((2,), abo.NIW(np.zeros(2), 0.5, 5.0, np.eye(2)), separate=separate)
    records, grid = IncompleteRecords.of(codes, values), np.linspace(-20, 20, 401)
    exact = exact_filling(prior, records, grid)
    found = augment(records, prior, rng, chains=40, draws=30)
    drawn = np.array([table.values[3, 1] for table in found.tables])
    level = np.array([table.cells[3] for table in found.tables])
    # chains are independent: their own means give the standard error
    for seen, truth in (
        (level == 1, exact[1].sum()),
        (drawn < 0, exact[:, grid < 0].sum()),
        (np.abs(drawn) < 1, exact[:, np.abs(grid) < 1].sum()),
        (np.tanh(drawn) * (level == 1), exact[1] @ np.tanh(grid)),
    ):
        by_chain = np.mean(np.reshape(seen, (30, 40)), axis=0)
        error = np.std(by_chain) / np.sqrt(40)
        assert abs(np.mean(by_chain) - truth) < 5 * error + 0.005  # and the grid's own


@pytest.mark.parametrize("at_random", ["completely", "given another column"])
def test_means_and_correlations_are_recovered(at_random, rng):
    n, truth = 1000, np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]])
    whole = 5 + rng.standard_normal((n, 3)) @ np.linalg.cholesky(truth).T
    values = whole.copy()
    gone = rng.random(n) < (0.4 if at_random == "completely" else 0.8 * (whole[:, 0] > 5))
    values[gone, 1] = np.nan
    values[rng.random(n) < 0.1, 2] = np.nan
    prior = LocationModel.prior((), abo.NIW.flat(3))
    found = augment(IncompleteRecords.of(None, values), prior, rng, chains=10)
    means = np.array([table.values.mean(axis=0) for table in found.tables])
    correlations = np.array([np.corrcoef(table.values.T)[0, 1] for table in found.tables])
    # at most half of what is known of a mean is lost with 40 % of the values
    assert abs(means[:, 1].mean() - 5) < 4.5 * np.sqrt(2 / n)
    assert abs(correlations.mean() - 0.8) < 4.5 * (1 - 0.8**2) * np.sqrt(2.5 / n)
    if at_random != "completely":
        assert np.nanmean(values[:, 1]) < 5 - 5 * np.sqrt(2 / n)  # what is left is far off


def test_categories_are_recovered_from_measurements(rng):
    """A level is lost more often where a measurement is high: the shares left are off, those drawn are not."""
    n = 3000
    level = (rng.random(n) < 0.4).astype(int)
    values = 2.5 * level[:, None] + rng.standard_normal((n, 2))
    codes = np.where(rng.random(n) < 0.7 * (values[:, 0] > 1.5), -1, level)[:, None]
    prior = LocationModel.prior((2,), abo.NIW.flat(2))
    found = augment(IncompleteRecords.of(codes, values), prior, rng, chains=10)
    shares = [np.mean(table.cells == 1) for table in found.tables]
    assert abs(np.mean(shares) - 0.4) < 4.5 * np.sqrt(2 * 0.24 / n)
    assert np.mean(level[codes[:, 0] >= 0]) < 0.35


def test_covariates_carry_the_missing_values(rng):
    """Where a column follows a covariate closely, what is drawn follows it as closely."""
    n = 400
    known = rng.standard_normal((n, 1))
    values = np.concatenate([3 * known, rng.standard_normal((n, 1))], axis=1) + 0.1 * rng.standard_normal((n, 2))
    truth, gone = values[:, 0].copy(), rng.random(n) < 0.3
    values[gone, 0] = np.nan
    prior = LocationModel.prior((), abo.NIW.flat(2), covariates=1)
    found = augment(IncompleteRecords.of(None, values, known), prior, rng)
    off = np.concatenate([table.values[gone, 0] - truth[gone] for table in found.tables])
    assert 0.1 < np.sqrt(np.mean(off**2)) < 0.2  # twice the noise's variance


@pytest.mark.parametrize(("covariates", "separate"), [(0, False), (2, False), (0, True)])
def test_all_chains_have_the_posterior_of_their_own_table(covariates, separate, rng):
    prior = LocationModel.prior((2, 3), abo.NIW.default(2), covariates=covariates, separate=separate)
    tables = [mixed_table(rng, 60, 2, (2, 3)) for _ in range(3)]
    cells = np.stack([prior.cells.of_codes(codes) for codes, _ in tables])
    values, known = np.stack([values for _, values in tables]), rng.standard_normal((60, covariates))
    found = ChainPosteriors.of(prior, cells, values, known)
    for chain in range(3):
        exact = prior.update(MixedRecords.of(cells[chain], values[chain], known))
        np.testing.assert_array_equal(found.weights[chain], exact.weights)
        np.testing.assert_allclose(found.measured.scale[chain], exact.measured.scale, rtol=1e-10, atol=1e-12)
        if separate:
            np.testing.assert_allclose(found.measured.mean[chain], exact.measured.mean, atol=1e-12)
            np.testing.assert_array_equal(found.measured.df[chain], exact.measured.df)
            continue
        np.testing.assert_allclose(found.measured.coefficients[chain], exact.measured.coefficients, atol=1e-12)
        roots = found.measured.root[chain], exact.measured.root
        np.testing.assert_allclose(roots[0].T @ roots[0], roots[1].T @ roots[1], atol=1e-11)
        assert found.measured.df == exact.measured.df


def test_possible_cells_are_those_that_agree(rng):
    cells = Cells((2, 3, 2))
    codes = np.where(rng.random((40, 3)) < 0.4, -1, cells.codes[rng.integers(0, 12, 40)])
    np.testing.assert_array_equal(possible_cells(cells, codes), np.nonzero(cells.agree_with(codes)))


def test_r_hat_and_effective_size_of_known_chains(rng):
    """An autoregression of coefficient φ is worth (1 − φ)/(1 + φ) of its length; chains apart are found out."""
    sweeps, chains, phi = 4000, 4, np.array([0.0, 0.5, 0.9])
    noise = rng.standard_normal((sweeps, chains, 3)) * np.sqrt(1 - phi**2)
    history = np.empty_like(noise)
    history[0] = rng.standard_normal((chains, 3))
    for at in range(1, sweeps):
        history[at] = phi * history[at - 1] + noise[at]
    np.testing.assert_allclose(
        effective_size(history) / (sweeps * chains), (1 - phi) / (1 + phi), rtol=0.25, atol=0
    )
    assert np.all(split_r_hat(history) < 1.02)
    assert np.all(split_r_hat(history + 2 * np.arange(chains)[:, None]) > 1.5)
    assert np.all(split_r_hat(history + np.linspace(0, 3, sweeps)[:, None, None]) > 1.1)
    still = Convergence.of(40, ("a share", "another"), np.full((511, 4, 2), [0.14583333, 1 / 3]))
    assert still.reached
    np.testing.assert_array_equal(still.effective_size, np.inf)


def test_chains_that_do_not_agree_are_an_error(rng, monkeypatch):
    """Two columns that nobody has both of: nothing tells their correlation, and too few sweeps go nowhere."""
    values = rng.standard_normal((60, 2))
    values[:30, 0], values[30:, 1] = np.nan, np.nan
    prior = LocationModel.prior((), abo.NIW.flat(2))
    monkeypatch.setattr(augmentation, "MOST_SWEEPS", 20)
    with pytest.raises(InputError, match="not converged"):
        augment(IncompleteRecords.of(None, values), prior, rng, columns=("bmi", "ldl"))


def test_what_cannot_be_drawn_is_refused(rng):
    values = np.column_stack([rng.standard_normal(20), np.full(20, np.nan)])
    with pytest.raises(InputError, match="missing of every record"):
        augment(IncompleteRecords.of(None, values), LocationModel.prior((), abo.NIW.flat(2)), rng)
    codes = np.array([0] * 15 + [1] * 3 + [-1] * 2)[:, None]
    prior = LocationModel.prior((2,), abo.NIW.flat(2), separate=True)
    with pytest.raises(InputError, match="1 of 2 cells"):
        augment(IncompleteRecords.of(codes, rng.standard_normal((20, 2))), prior, rng)
