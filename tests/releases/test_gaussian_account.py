"""What noise guarantees: ε by other ways to compute it, and by real runs of the mechanisms."""

import os

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.signal import fftconvolve
from scipy.special import ndtr, ndtri
from scipy.stats import beta as beta_law

from allbutone.releases.gaussian_account import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    lattice_scale,
)
from allbutone.releases.private_mechanism import NoiseDesign, WholeNumbers, add_noise, load_opendp
from allbutone.tables.schema import Schema

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))
AUDIT_RUNS = int(os.environ.get("ALLBUTONE_AUDIT_RUNS", 50_000 if LONG else 1_000))  # on each of two tables


def discrete_gaussian(scale):
    at = np.arange(-int(12 * scale) - 1, int(12 * scale) + 2)
    weight = np.exp(-(at**2) / (2 * scale**2))
    return at, weight / weight.sum()


def exact_delta(scale, change, epsilon):
    """E[(e^L − e^ε)₊] of whole-number noise on one number, summed as it stands."""
    at, here = discrete_gaussian(scale)
    loss = (2 * at * change + change**2) / (2 * scale**2)  # of at + change against at
    return np.sum(here * np.maximum(1 - np.exp(epsilon - loss), 0.0))


@pytest.mark.parametrize("mu", [0.2, 0.7, 2.0])
@pytest.mark.parametrize("change", [3, 50, 1449])
def test_whole_number_noise_keeps_what_is_stated(mu, change):
    scale = lattice_scale(change, mu)
    for epsilon in (0.1, 1.0, 3.0):
        stated = gaussian_delta(mu, epsilon)
        assert exact_delta(scale, change, epsilon) <= stated * (1 + 1e-9) + 1e-15
    if change == 1449:
        assert exact_delta(scale, change, mu) == pytest.approx(gaussian_delta(mu, mu), rel=1e-3)


def test_epsilon_agrees_with_convolved_losses():
    """Losses of four releases put on a grid and convolved, as numerical accountants do: ε to 1e-3."""
    mus, delta, step = np.array([0.2, 0.3, 0.5, 0.4]), 1e-6, 2e-4
    total = np.ones(1)
    for mu in mus:
        scale = lattice_scale(20_000, mu)
        at, here = discrete_gaussian(scale)
        loss = (2 * at * 20_000 + 20_000**2) / (2 * scale**2)
        grid = np.rint(loss / step).astype(int)
        low = int(np.round(12 * mu / step)) + int(np.ceil(mu**2 / step))
        keep = np.abs(grid) <= low
        total = fftconvolve(total, np.bincount(grid[keep] + low, weights=here[keep], minlength=2 * low + 1))
    loss = step * (np.arange(len(total)) - len(total) // 2)

    def delta_at(epsilon):
        above = loss > epsilon
        return np.sum(np.maximum(total[above], 0.0) * (1 - np.exp(epsilon - loss[above])))

    together = float(np.sqrt(np.sum(mus**2)))
    epsilon = gaussian_epsilon(together, delta)
    assert delta_at(epsilon + 1e-3) < delta < delta_at(epsilon - 1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.01, 1e-6), (1.0, 1e-9), (3.0, 2e-5), (10.0, 1e-6), (500.0, 1e-6)]
)
def test_mu_and_epsilon_are_inverse_and_below_what_zcdp_allows(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)
    assert gaussian_epsilon(mu, delta) <= epsilon
    dp = load_opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=3), dp.l2_distance(T="f64")
    theirs = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=1e9 / mu)).map(1e9).epsilon(delta)
    assert epsilon < theirs < 1.3 * epsilon


def worst_tables(design):
    """Two tables that differ in one record by as much as any: both on the ball, x̃ orthogonal, in other cells."""
    ball, people = design.ball, design.people
    tables = np.zeros((2, people, ball.p))
    if ball.p:
        turn = np.arccos(-float(ball.codes[0] @ ball.codes[-1]) / ball.radius**2)
        tables[:, 0] = ball.radius * np.array([[1, 0], [np.cos(turn), np.sin(turn)]])
    levels = np.zeros((2, people, len(ball.cells.sizes)), dtype=np.int64)
    levels[1, 0] = ball.cells.codes[-1]
    return tables, levels


def log_ratio(design, told, tables, levels):
    """The exact log likelihood ratio of noisy moments and counts: the first table against the second."""
    ball, found = design.ball, 0.0
    if ball.p:
        whole = WholeNumbers.of(ball, design.people)
        sums = [
            whole.total(t, ball.cells.of_codes(c))[whole.noisy] / whole.unit**2
            for t, c in zip(tables, levels, strict=True)
        ]
        at = told.matrix[whole.noisy]
        found = (np.sum((at - sums[1]) ** 2) - np.sum((at - sums[0]) ** 2)) / (2 * told.noise**2)
    for margin in told.counts:
        sizes = [ball.cells.sizes[place] for place in margin.places]
        counts = [
            np.bincount(np.ravel_multi_index(tuple(c[:, list(margin.places)].T), sizes), minlength=np.prod(sizes))
            for c in levels
        ]
        squares = [np.sum((margin.counts - each) ** 2) for each in counts]
        found += (squares[1] - squares[0]) / (2 * margin.noise**2)
    return found


def sure_rates(with_it, without, threshold, error):
    """The share of hits at least, and of false alarms at most, each wrong with this chance (Clopper, Pearson)."""
    (runs,) = {len(with_it), len(without)}
    hits, alarms = (int(np.sum(each > threshold)) for each in (with_it, without))
    least = beta_law.ppf(error, hits, runs - hits + 1) if hits else 0.0
    most = beta_law.isf(error, alarms + 1, runs - alarms) if alarms < runs else 1.0
    return least, most


def proven_mu(with_it, without):
    """The μ below which no Gaussian noise gives these errors: Φ⁻¹(hits) − Φ⁻¹(false alarms), at the edges."""
    least, most = sure_rates(with_it, without, 0.0, error=1e-4)
    return ndtri(least) - ndtri(most)


@pytest.mark.parametrize(("measured", "categories"), [(2, ()), (2, (2, 3)), (0, (2, 3))])
def test_an_audit_by_real_runs_proves_most_of_epsilon_and_never_more(measured, categories):
    """Moments, both, counts: what likelihood ratios of two worst tables prove of μ and ε (Clopper, Pearson)."""
    epsilon, delta, runs = 3.0, 1e-5, AUDIT_RUNS
    columns = {f"x{j}": {"low": -8.0, "high": 8.0, "centre": 0.0, "spread": 1.0} for j in range(measured)}
    columns |= {f"c{k}": {"kind": "category", "levels": list("abc")[:size]} for k, size in enumerate(categories)}
    design = NoiseDesign.of(Schema.of({"columns": columns}), 50, epsilon, delta)
    tables, levels = worst_tables(design)
    with_it, without = (
        np.array([log_ratio(design, add_noise(design, t, c), tables, levels) for _ in range(runs)])
        for t, c in zip(tables, levels, strict=True)
    )
    proven = gaussian_epsilon(proven_mu(with_it, without), delta)
    assert proven <= epsilon
    assert proven >= (0.8 if LONG else 0.2) * epsilon
    # no family assumed: the events L > t themselves
    rates = [sure_rates(with_it, without, threshold, error=1e-4) for threshold in (1.0, 1.25, 1.5, 2.0)]
    assert all(least <= np.exp(epsilon) * most + delta for least, most in rates)
    rough = 1e-2  # of which 100,000 runs can tell
    stated = gaussian_epsilon(gaussian_mu(epsilon, delta), rough)
    proven = max(np.log(max(least - rough, 1e-9) / most) for least, most in rates)
    assert (0.6 if LONG else -np.inf) * stated <= proven <= stated


def test_the_best_test_is_as_good_as_stated():
    """Φ(μ/2) of the decisions at L > 0 are right, in both tables: what the audit expects of the runs."""
    mu = gaussian_mu(3.0, 1e-5)
    assert gaussian_delta(mu, 0.0) == pytest.approx(2 * ndtr(mu / 2) - 1)


@pytest.mark.parametrize("mu", [0.2, 0.745])
def test_googles_accountant_agrees_on_epsilon(mu):
    """dp-accounting's privacy loss distributions: of one release, and of two together, to 1e-3."""
    one = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3)
    for losses, together in ((one, mu), (one.self_compose(2), np.sqrt(2) * mu)):
        assert losses.get_epsilon_for_delta(1e-5) == pytest.approx(gaussian_epsilon(together, 1e-5), abs=1e-3)
