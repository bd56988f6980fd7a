"""The maximum is the maximum: nothing found by any other search is higher."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import allbutone as abo
from allbutone.adversary.build import log_posterior
from allbutone.adversary.climb import both_maxima, climb, maximize_bound
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.modes import find_best, find_modes
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.simulation import SimulatedReleases
from allbutone.paper import methods as as_printed
from cases import LONG, positive_definite
from posteriors import who
from targets import make, recipes

STARTS = 200


def problem(seed, kind):
    rng = np.random.default_rng(seed)
    return make(rng, kind, int(rng.integers(1, 13)), int(rng.integers(0, 80)), int(rng.integers(1, 21)))


def beaten_by(posterior, modes, starts):
    """How much higher the best of these starts climbs, relative to the height."""
    found = np.max(climb(posterior, starts).value)
    return (found - modes.value) / max(1.0, abs(float(modes.value)))


def starts_around(rng, posterior, modes, also=()):
    """Points on both sides of crowd and modes, at all distances."""
    direction = rng.standard_normal((STARTS, posterior.p))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    reach = max([np.linalg.norm(place) for place in (modes.best, *also)]) + 1
    starts = direction * reach * 10.0 ** rng.uniform(-2, 0.5, (STARTS, 1))
    places = [side * place for place in (modes.best, *also) for side in (1, -1)]
    starts[: len(places)] = places
    return starts


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("hundred", range(10 if LONG else 2))
def test_no_search_from_200_starts_finds_more(kind, hundred):
    """400 problems in all, or 2,000."""
    for seed in range(100 * hundred, 100 * hundred + 100):
        target = problem(seed, kind)
        posterior = log_posterior(target.others, target.release, prior=target.prior)
        modes = find_modes(posterior)
        assert modes.converged, f"seed {seed}"
        starts = starts_around(target.rng, posterior, modes, [posterior.whiten(target.record)])
        assert beaten_by(posterior, modes, starts) <= 1e-8, f"seed {seed}"


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("variant", ["known", "own prior"])
def test_nor_does_it_for_other_adversaries(kind, variant):
    """Known features a hundred deviations out; priors of the adversary's own that disagree with everything."""
    for seed in range(150 if LONG else 40):
        rng = np.random.default_rng(seed)
        p = int(rng.integers(2, 7))
        outlying = 100.0 if variant == "known" else None
        target = make(rng, kind, p, int(rng.integers(0, 60)), int(rng.integers(1, 12)), outlying)
        if variant == "known":
            options = {"known": np.where(np.arange(p) < rng.integers(1, p), target.record, np.nan)}
        else:
            scale = positive_definite(rng, p) * 10 ** rng.uniform(-1, 2)
            weight, df = 10 ** rng.uniform(-1, 2), p + 10 ** rng.uniform(-1, 3)
            options = {"adversary_prior": abo.NIW(5 * rng.standard_normal(p), weight, df, scale)}
        posterior = log_posterior(target.others, target.release, prior=target.prior, **who(**options))
        modes = find_modes(posterior)
        assert modes.converged, f"seed {seed}"
        assert beaten_by(posterior, modes, starts_around(rng, posterior, modes)) <= 1e-8, f"seed {seed}"


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_an_independent_optimiser_on_the_printed_score_finds_no_more(kind):
    for seed in range(25):
        rng = np.random.default_rng(seed)
        target = make(rng, kind, int(rng.integers(1, 5)), int(rng.integers(3, 40)), int(rng.integers(1, 8)), 8.0)
        score = as_printed.printed_score(target.others, target.release, target.prior)
        ours = score(abo.attack(target.others, target.release, prior=target.prior).mode)
        for start in (target.record, -target.record, *target.candidates(4)):
            theirs = -minimize(lambda x, score=score: -score(x), start, method="BFGS").fun
            assert theirs - ours <= 1e-8 * abs(ours)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(0.1, 1e4), st.floats(0.5, 1.0))
def test_the_bound_is_maximised_exactly(seed, p, outward, inflation):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((p, p + 1)) * 10 ** rng.uniform(-1, 1)
    precision, pull = root @ root.T + 0.01 * np.eye(p), rng.standard_normal(p) * 10 ** rng.uniform(-8, 2)

    def height(v):
        squared = np.sum(v * v, axis=-1)
        bowl = np.einsum("...i,ij,...j->...", v, precision, v)
        return outward * np.log1p(inflation * squared) - bowl + 2 * v @ pull

    best = maximize_bound(outward, inflation, precision, pull)
    tau = outward * inflation / (1 + inflation * best @ best)
    # stationary, and no eigenvalue of A lies below τ: the certificate of the global maximum
    size = np.abs(precision @ best).max() + np.abs(pull).max()
    np.testing.assert_allclose((precision - tau * np.eye(p)) @ best, pull, atol=1e-7 * size)
    assert tau <= np.linalg.eigvalsh(precision)[0] * (1 + 1e-9)
    reach = np.linalg.norm(best) + 0.1
    elsewhere = reach * rng.standard_normal((500, p)) * 10 ** rng.uniform(-2, 1, (500, 1))
    assert np.max(height(elsewhere)) <= height(best) + 1e-9 * (1 + abs(height(best)))


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(0.1, 1e4), st.floats(0.5, 1.0))
def test_both_maxima_are_maxima_and_the_same_for_one_as_for_many(seed, p, outward, inflation):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((p, p + 1)) * 10 ** rng.uniform(-1, 1)
    precision, pull = root @ root.T + 0.01 * np.eye(p), rng.standard_normal(p) * 10 ** rng.uniform(-8, 2)
    several = precision + np.arange(3)[:, None, None] * np.eye(p)
    together = both_maxima(outward, inflation, several, np.tile(pull, (3, 1)))
    for row, one in enumerate(several):
        best, other = both_maxima(outward, inflation, one, pull)
        size = np.abs(one @ best).max() + np.abs(pull).max()
        for place, among in zip((best, other), together, strict=True):
            np.testing.assert_allclose(among[row], place, rtol=1e-8, atol=1e-10 * np.abs(best).max())
            grown = 1 + inflation * place @ place
            tau = outward * inflation / grown
            np.testing.assert_allclose((one - tau * np.eye(p)) @ place, pull, atol=1e-7 * size)
            bent = one - tau * np.eye(p) + 2 * tau * inflation / grown * np.outer(place, place)
            assert np.linalg.eigvalsh(bent)[0] >= -1e-7 * np.linalg.eigvalsh(bent)[-1]


def test_after_parameters_every_climb_ends_at_one_of_the_two_modes():
    """In the first four the way from the mirrored mode leads back to the first, past another that is there."""
    for seed in (7, 73, 166, 303, *range(10)):
        target = problem(seed, "parameters")
        posterior = log_posterior(target.others, target.release, prior=target.prior)
        modes = find_modes(posterior)
        ends = climb(posterior, starts_around(target.rng, posterior, modes))
        apart = [
            np.sqrt(np.einsum("ni,ij,nj->n", ends.white - place, -bend, ends.white - place))
            for place, bend in ((modes.best, modes.hessian), (modes.other, modes.other_hessian))
        ]
        np.testing.assert_allclose(np.fmin(*apart)[ends.done], 0, atol=1e-4, err_msg=f"seed {seed}")


@pytest.mark.parametrize(
    ("n", "p", "count", "rows"),
    [(100, 1, 60, 100), (60, 2, 40, 20), (200, 5, 30, 200), (80, 8, 60, 80), (60, 20, 9, 90)],
)
def test_after_datasets_nobodys_other_hill_is_overlooked(n, p, count, rows):
    """Against climbs from the mirror image of the mode: one hill, two, and an outlier's two that all but tie."""
    rng, prior = np.random.default_rng(p), abo.NIW.default(p)
    records = rng.standard_normal((n, p))
    records[:4] *= 6
    release = abo.Release.draw(prior.update(records), [rows] * count, rng)
    posteriors = LeaveOneOut.of(records, release, prior, None, "record").downdated(np.arange(n))
    modes = find_modes(posteriors)
    mirrored = climb(posteriors, -modes.best)
    away = mirrored.white - modes.best
    apart = mirrored.done & (np.sqrt(-np.einsum("np,npq,nq->n", away, modes.hessian, away)) > 1e-3)
    np.testing.assert_array_equal(np.isfinite(modes.gap), apart)
    np.testing.assert_allclose(modes.other[apart], mirrored.white[apart], atol=1e-6)
    assert np.all(mirrored.value[apart] <= modes.value[apart] + 1e-9)
    assert np.any(apart)
    assert not np.all(apart)
    for row in (int(np.argmax(apart)), int(np.argmin(apart))):
        alone = find_modes(posteriors.take(row))
        np.testing.assert_allclose(alone.other, modes.other[row], atol=1e-6)


@pytest.mark.parametrize("seed", [62, 225])
def test_after_datasets_the_other_hill_is_found_where_the_mirrored_ray_has_none(seed):
    """Going along the ray to the highest point first led down from it and back to the first hill."""
    target = problem(seed, "datasets")
    posterior = log_posterior(target.others, target.release, prior=target.prior)
    for modes in (find_modes(posterior), find_modes(posterior.as_batch())):
        assert np.isfinite(modes.other).all()
        assert np.all(modes.gap < 0.1)


@pytest.mark.parametrize(("p", "count", "rows"), [(1, 3, 30), (2, 100, 300), (5, 10, 30), (7, 30, 300)])
def test_a_climb_that_ends_where_it_leads_to_the_known_summit_loses_no_other(p, count, rows, rng):
    """Against climbs that go all the way: one hill, two that are about to split, two far apart."""
    law = ExposureLaw.of(abo.NIW.default(p), 150 + p, rows)
    ended = 0
    for leverage in np.geomspace(0.2 * p / 150, 2.0, 6):
        posteriors, _ = SimulatedReleases.of(law, count, 60, rng).problem(leverage)
        first = climb(posteriors, -find_best(posteriors).best)
        for start in (-first.white, 0.1 * rng.standard_normal(first.white.shape)):
            short, full = climb(posteriors, start, known=first), climb(posteriors, start)
            ended += np.sum(np.all(short.white == first.white, axis=1))
            away = short.white - full.white
            apart = np.sqrt(-np.einsum("np,npq,nq->n", away, full.hessian, away))
            np.testing.assert_allclose(apart[full.done & short.done], 0.0, atol=1e-6)
            np.testing.assert_array_equal(full.done, short.done)
    assert ended > 100


def test_two_modes_that_the_release_cannot_tell_apart_are_a_tie():
    """Released means equal to the crowd's own: nothing says on which side the record lies."""
    others = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, -0.5]])
    prior = abo.NIW.default(2)
    crowd = prior.update(others)
    wide = crowd.scale / crowd.df + np.diag([30.0, 0.0])
    release = abo.Release.of_parameters(np.stack([crowd.mean] * 5), np.stack([wide] * 5))
    attack = abo.attack(others, release, prior=prior)
    assert attack.status == "tie"
    assert attack.log_posterior_gap == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(attack.mode + attack.other_mode, 2 * crowd.mean, atol=1e-8)
    assert np.linalg.norm(attack.mode - crowd.mean) > 1


@settings(max_examples=50 if LONG else 20)
@given(recipes(max_p=6, max_releases=10))
def test_what_the_attack_reports_is_so(recipe):
    target = recipe.make()
    posterior = abo.posterior(target.others, target.release, prior=target.prior)
    attack = abo.attack(target.others, target.release, prior=target.prior)
    deviations = np.sqrt(np.abs(np.diagonal(attack.covariance)))
    curvature = -posterior.hessian(attack.mode)
    np.testing.assert_allclose(curvature @ attack.covariance, np.eye(target.p), atol=1e-5)
    assert np.all(np.abs(posterior.gradient(attack.mode)) * deviations < 1e-5)
    if np.isfinite(attack.log_posterior_gap):
        heights = posterior.log_density_unnormalized(np.stack([attack.mode, attack.other_mode]))
        assert heights[0] - heights[1] == pytest.approx(attack.log_posterior_gap, abs=1e-6)
        assert np.all(np.linalg.eigvalsh(posterior.hessian(attack.other_mode)) < 0)
    else:
        assert np.all(np.isnan(attack.other_mode))
    expected = "global" if target.release.parameters is not None else "converged"
    assert attack.status in (expected, "tie")


def test_the_printed_methods_do_what_they_print_and_never_find_more():
    rng = np.random.default_rng(11)
    for kind in ("parameters", "datasets"):
        target = make(rng, kind, 2, 30, 5, outlying=6.0, most_rows=40)
        exactly = abo.attack(target.others, target.release, prior=target.prior)
        score = as_printed.printed_score(target.others, target.release, target.prior)
        axis = np.linspace(-15, 15, 61)
        grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        best = as_printed.grid_search(target.others, target.release, target.prior, grid)
        assert best.evaluations == len(grid)
        assert best.score == pytest.approx(max(score(x) for x in grid))
        climbed = as_printed.lbfgsb(target.others, target.release, target.prior)
        for found in (best, climbed):
            assert found.score == pytest.approx(score(found.mode))
            assert found.score <= score(exactly.mode) + 1e-8 * abs(found.score)


@pytest.mark.parametrize(
    ("p", "rows", "people", "count"), [(5, 10, 300, 100), (10, 10, 300, 100), (2, 10, 300, 100)]
)
def test_newton_never_leaps_onto_the_other_hill(p, rows, people, count):
    """Many small datasets leave a flat valley between the hills: a long step leapt over it in 6 % of attacks."""
    setting = ExposureLaw.of(abo.NIW.default(p), people, rows)
    problem, _ = SimulatedReleases.of(setting, count, 60, np.random.default_rng(1)).problem(361 * p / 3 / people)
    found = find_modes(problem)
    rng = np.random.default_rng(2)
    for _ in range(25):
        away = rng.standard_normal((60, p))
        away /= np.linalg.norm(away, axis=1, keepdims=True)
        start = 2 * rng.random((60, 1)) * np.linalg.norm(found.best, axis=1, keepdims=True) * away
        assert np.all(climb(problem, start).value <= found.value + 1e-6)


@pytest.mark.parametrize("draws", [False, True])
def test_the_best_mode_alone_is_the_better_of_both(draws):
    """Also where the two hills are about as high: there the climb to the second must not be given up early."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p, people = int(rng.integers(1, 11)), int(10 ** rng.uniform(1.3, 2.5))
        law = ExposureLaw.of(abo.NIW.default(p), people, None if draws else int(rng.integers(2, 200)))
        count, leverage = int(rng.choice([1, 2, 3, 8])), 10 ** rng.uniform(-2, 1.5)
        problem, _ = SimulatedReleases.of(law, count, 100, rng).problem(leverage)
        both, best = find_modes(problem), find_best(problem)
        assert np.all(best.converged == both.converged), f"seed {seed}"
        assert np.all(np.abs(best.value - both.value) <= 1e-9 * (1 + np.abs(both.value))), f"seed {seed}"
        clear = both.gap > 1e-6
        spread = 1 / np.sqrt(np.linalg.eigvalsh(-both.hessian)[:, -1:])
        assert np.all((np.abs(best.best - both.best) < 1e-7 * spread)[clear]), f"seed {seed}"
        assert np.all(np.isnan(best.other))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    p=st.integers(1, 8),
    outward=st.floats(0.1, 1e4),
    inflation=st.floats(0.01, 1),
    pulled=st.sampled_from(["anyhow", "hardly", "not along the lowest axis", "not at all"]),
)
def test_many_maxima_at_once_are_those_found_one_by_one(seed, p, outward, inflation, pulled):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((64, p, p)))[0]
    values = np.exp(rng.uniform(-3, 3, (64, p)))
    precision = (axes * values[:, None, :]) @ axes.swapaxes(1, 2)
    beta = rng.standard_normal((64, p)) * {"hardly": 1e-6, "not at all": 0.0}.get(pulled, 1.0)
    if pulled.startswith("not along"):
        np.put_along_axis(beta, np.argmin(values, axis=1)[:, None], 0.0, axis=1)
    pull = (axes @ beta[..., None])[..., 0]
    with np.errstate(all="ignore"):
        together = maximize_bound(outward, inflation, precision, pull)
    for row in rng.integers(64, size=8):
        alone = maximize_bound(outward, inflation, precision[row], pull[row])

        def height(v, row=row):
            return outward * np.log1p(inflation * v @ v) - v @ precision[row] @ v + 2 * v @ pull[row]

        assert height(together[row]) == pytest.approx(height(alone), rel=1e-9, abs=1e-9 * (1 + outward))
