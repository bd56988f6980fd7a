"""The choice between summits: the highest, the one beside it, and where there is but one."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import allbutone as abo
from allbutone.adversary.log_quadratic import stacked
from allbutone.adversary.modes import find_best, find_modes
from allbutone.adversary.plug_in import PlugInTable
from posteriors import KINDS, many, posterior_of, wells


def heights(posterior, grid):
    """ℓ of `wells` on a grid, literally."""
    below = [w * np.log(g + grid**2 - 2 * m[0] * grid)
             for w, g, m in zip(posterior.weights, posterior.levels, posterior.slopes, strict=True)]  # fmt: skip
    return 0.5 * (posterior.outward * np.log1p(0.5 * grid**2) - np.sum(below, axis=0))


def test_an_adversarys_own_prior_may_have_the_highest_hill():
    """Anywhere, and as the last of several wells: no point of a grid is higher than the mode."""
    rng, grid = np.random.default_rng(6), np.linspace(-60, 60, 6_001)
    own = second = 0
    for turn in range(30):
        places = np.append(rng.normal(rng.choice([-8, 8]), 1.5, 3), rng.normal(0, 25))
        weights = np.append(rng.uniform(1, 30, 3), rng.uniform(1, 120))
        widths, outward, last = 10 ** rng.uniform(-0.5, 0.8, 4), rng.uniform(0, 40), slice(None)
        if turn % 3 == 0:  # one release alone, after which nothing pushes outward
            outward, last = 0.0, slice(2, None)
        posterior = wells(places[last], weights[last], widths[last], own_well=True, outward=outward)
        found, there = find_modes(posterior), heights(posterior, grid)
        assert found.value >= there.max() - 1e-9
        assert abs(found.best[0] - grid[there.argmax()]) < 0.021
        assert find_best(posterior).value == pytest.approx(float(found.value), abs=1e-9)
        tops = np.flatnonzero((there[1:-1] > there[:-2]) & (there[1:-1] > there[2:])) + 1
        if np.isfinite(found.gap):
            assert abs(grid[tops] - found.other[0]).min() < 0.021
            assert found.gap == pytest.approx(found.value - heights(posterior, found.other)[0], abs=1e-9)
            assert found.gap == pytest.approx(there.max() - np.sort(there[tops])[-2], abs=0.05)
            second += 1
        own += abs(found.best[0] - places[-1]) < 1
        together = find_modes(posterior.as_batch())
        np.testing.assert_allclose(together.best[0], found.best, atol=1e-6)
    assert own > 8
    assert second > 8


def test_wells_that_push_away_count_as_more_of_what_pushes_outward():
    """−w·log(1 + c‖v‖²) with a negative weight is the outward term itself: the same start, so the same way up."""
    before = None
    for seed in range(9):
        plain = posterior_of(seed, "datasets", p=2)
        plain = replace(
            plain, outward=40.0, inflation=0.8, weights=np.where(np.arange(6) == 1, 0.5, plain.weights)
        )
        other = pushed_away(plain, 40.0 if seed % 3 == 0 else 15.0)
        pairs = [(plain, other), (plain.as_batch(), other.as_batch())]
        if seed % 3 == 2:
            pairs.append(
                tuple(stacked([batch_of(one), batch_of(two)]) for one, two in zip(before, pairs[0], strict=True))
            )
        for find, (one, two) in product((find_modes, find_best), pairs):
            expected, found = find(one), find(two)
            np.testing.assert_allclose(found.best, expected.best, rtol=1e-6)
            np.testing.assert_allclose(found.value, expected.value, rtol=1e-10)
            assert found.steps == expected.steps
        before = plain, other


def batch_of(posterior):
    """Return a posterior as a batch of one whose weights are its own."""
    return replace(posterior.as_batch(), weights=posterior.weights[None])


def pushed_away(posterior, share):
    """Return the same posterior, in which so much of the outward term is a well of negative weight."""
    p = posterior.p
    return replace(
        posterior,
        outward=posterior.outward - share,
        weights=np.append(posterior.weights, -share),
        levels=np.append(posterior.levels, 1.0),
        slopes=np.concatenate([posterior.slopes, np.zeros((1, p))]),
        shapes=np.concatenate([posterior.shapes, posterior.inflation * np.eye(p)[None]]),
    )


def test_two_modes_are_one_where_they_are_next_to_one_another():
    """1D: ±√(a/A − 1/c), and −ℓ″ = 2A²v²/a there: how far apart is told in standard deviations."""
    for place, several in ((1e-3, False), (0.03, True), (0.3, True), (1.0, True)):
        posterior = posterior_of(1, "parameters", p=1)
        a, c = 30.0, 0.5
        precision = a / (place**2 + 1 / c)
        lone = replace(posterior, outward=a, inflation=c, precision=np.array([[precision]]), pull=np.array([0.0]))
        apart = 2 * place * np.sqrt(2 * precision**2 * place**2 / a)
        assert (apart > 1e-4) == several
        found = find_modes(lone)
        assert bool(np.isfinite(found.gap)) == several
        if several:
            np.testing.assert_allclose([abs(found.best[0]), abs(found.other[0])], place, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("leverage", [0.05, 0.5, 2.0])
def test_modes_are_where_they_are_said_to_be(kind, leverage):
    """Of a batch in which some have a second mode and some have not; each as it would be alone."""
    posterior = many(kind, leverage=leverage)
    found = find_modes(posterior)
    assert np.all(found.converged)
    second = np.isfinite(found.gap)
    np.testing.assert_array_equal(second, np.all(np.isfinite(found.other), axis=1))
    for places, bends, which in (
        (found.best, found.hessian, slice(None)),
        (found.other, found.other_hessian, second),
    ):
        value, gradient, hessian = posterior.local(np.nan_to_num(places))
        height = found.value - np.where(np.isfinite(found.gap), found.gap, 0) * (places is found.other)
        np.testing.assert_allclose(value[which], height[which], rtol=1e-10)
        np.testing.assert_allclose(hessian[which], bends[which], rtol=1e-6, atol=1e-6)
        assert np.all(np.linalg.eigvalsh(hessian[which]) < 0)
        assert np.all(np.abs(gradient[which]) < 1e-5 * np.sqrt(np.abs(hessian[which]).max(axis=(1, 2)))[:, None])
    apart = np.linalg.norm(found.best - found.other, axis=1)[second]
    assert np.all(apart > 1e-3 * np.linalg.norm(found.best, axis=1)[second])
    steps = []
    for row in range(40):
        alone = find_modes(posterior.take(np.array([row])))
        steps.append(alone.steps)
        np.testing.assert_allclose(alone.best[0], found.best[row], atol=1e-7)
        np.testing.assert_allclose(alone.gap[0], found.gap[row], atol=1e-7)
        np.testing.assert_allclose(alone.other[0], found.other[row], atol=1e-6)
        kept = found.take(np.array([row]))
        np.testing.assert_array_equal(kept.other_hessian[0], found.other_hessian[row])
        assert kept.steps == found.steps
    assert max(steps) == found.steps
    best = find_best(posterior)
    np.testing.assert_allclose(best.value, found.value, rtol=1e-9)
    np.testing.assert_allclose(best.hessian, found.hessian, rtol=1e-3, atol=1e-3)
    assert np.all(np.isinf(best.gap))
    assert best.converged.all()


def test_one_alone_is_a_batch_of_one():
    for kind in KINDS:
        posterior = posterior_of(3, kind)
        alone, together = find_modes(posterior).as_batch(), find_modes(posterior.as_batch())
        for name in ("best", "other", "gap", "value", "hessian", "other_hessian", "converged"):
            one, other = getattr(alone, name), getattr(together, name)
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
        assert isinstance(alone.steps, int)


def test_a_single_release_leaves_one_hill_found_without_a_second_look():
    for kind in KINDS:
        posterior = posterior_of(2, kind, releases=1)
        found = find_modes(posterior)
        location = posterior.closed_form.mean if kind == "parameters" else posterior.closed_form.location
        np.testing.assert_allclose(posterior.unwhiten(found.best), location, rtol=1e-6, atol=1e-8)
        assert found.gap == np.inf
        assert found.steps <= 12


def test_the_second_mode_is_the_mirror_image_where_nothing_leans():
    """a·log(1 + c·v²) − A·v² in one dimension: v = ±√(a/A − 1/c), ℓ″ by hand."""
    flat = posterior_of(1, "parameters", p=1)
    flat = replace(flat, outward=30.0, inflation=0.5, precision=np.array([[3.0]]), pull=np.array([1e-9]))
    found = find_modes(flat)
    place = np.sqrt(30 / 3 - 1 / 0.5)
    np.testing.assert_allclose(found.best, [place], rtol=1e-8)
    np.testing.assert_allclose(found.other, [-place], rtol=1e-8)
    assert found.gap == pytest.approx(2e-9 * place, rel=1e-3)
    tau = 30 * 0.5 / (1 + 0.5 * place**2)
    bend = tau - 2 * tau * 0.5 * place**2 / (1 + 0.5 * place**2) - 3
    np.testing.assert_allclose([found.hessian, found.other_hessian], bend, rtol=1e-6)
    assert found.value == pytest.approx(0.5 * (30 * np.log1p(0.5 * place**2) - 3 * place**2), rel=1e-8)


def test_a_maximum_that_is_known_beforehand_is_found_at_once(rng):
    """After rows of a fit: the climb begins there, and at its mirror image."""
    records = rng.standard_normal((12, 3)) * [1, 2, 5]
    synthetic = rng.multivariate_normal(records.mean(axis=0), np.cov(records.T, ddof=0), 300)
    posteriors = PlugInTable(records, abo.Moments.of(synthetic), 12.0).problem(np.arange(12), ())
    found, best = find_modes(posteriors), find_best(posteriors)
    np.testing.assert_allclose(found.best, posteriors.near_maximum(), atol=1e-7)
    np.testing.assert_allclose(best.best, found.best, atol=1e-7)
    assert np.all(found.gap > 0)
    for row in range(12):
        value, gradient, hessian = posteriors.take(np.array([row])).local(np.nan_to_num(found.other[row])[None])
        if np.isfinite(found.gap[row]):
            assert found.gap[row] == pytest.approx(found.value[row] - value[0])
            assert np.all(np.linalg.eigvalsh(hessian[0]) < 0)
            assert np.all(np.abs(gradient) < 1e-4)


def test_what_leans_a_little_is_no_tie():
    others, prior = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, -0.5]]), abo.NIW.default(2)
    centre = prior.update(others)
    wide = centre.scale / centre.df + np.diag([30.0, 0.0])
    for lean, status in ((0.0, "tie"), (1e-4, "global")):
        release = abo.Release.of_parameters(
            np.stack([centre.mean + np.array([lean, 0.0])] * 5), np.stack([wide] * 5)
        )
        attack = abo.attack(others, release, prior=prior)
        assert attack.status == status
        assert attack.log_posterior_gap < 0.01
