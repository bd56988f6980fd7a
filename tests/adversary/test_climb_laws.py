"""The ray and the climb are Newton's, written out for one posterior."""

from dataclasses import replace

import numpy as np
import pytest

from allbutone.adversary import climb as climbing
from allbutone.adversary.climb import best_on_ray, climb, hill_on_ray
from allbutone.adversary.log_quadratic import stacked
from allbutone.adversary.modes import find_best, find_modes
from posteriors import KINDS, many, posterior_of, single, well_at


def best_of_newton(posterior, white):
    """Newton along the ray, with ℓ's own derivatives, for points that stop together."""
    ratio = np.ones(white.shape[:-1])
    for _ in range(8):
        _, gradient, hessian = posterior.local(ratio[..., None] * white)
        first = np.sum(gradient * white, axis=-1)
        second = np.einsum("...i,...ij,...j->...", white, hessian, white)
        step = np.clip(np.where(second < 0, -first / second / ratio, np.sign(first)), -0.5, 1.0)
        ratio = ratio * (1 + step)
        if np.all((np.abs(step) <= 0.1) | (ratio < 0.3)):
            break
    there = ratio[..., None] * white
    return np.where((posterior.value(there) > posterior.value(white))[..., None], there, white)


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_point_on_a_ray_is_newtons(kind):
    rng, moved = np.random.default_rng(1), 0
    for seed in range(12):
        posterior = posterior_of(seed, kind, p=1 + seed % 4)
        size = np.linalg.norm(find_modes(posterior).best)
        for factor in (0.01, 0.3, 1.0, 3.0, 100.0):
            white = factor * size * rng.standard_normal(posterior.p)
            found = best_on_ray(posterior.as_batch(), white[None])[0]
            np.testing.assert_allclose(found, best_of_newton(posterior, white), rtol=1e-6)
            moved += bool(np.any(found != white))
            # where it is led back to the centre, there is no hill on the ray
            led_back = np.linalg.norm(found) < 0.3 * np.linalg.norm(white)
            hill = hill_on_ray(posterior.as_batch(), white[None])[0]
            np.testing.assert_array_equal(hill, np.nan if led_back else found)
    assert moved > 40
    batch = many(kind)
    white = rng.standard_normal((40, 3))
    np.testing.assert_allclose(best_on_ray(batch, white), best_of_newton(batch, white), rtol=1e-6)


def climb_of_newton(posterior, white, beat=None, most=100):
    """Newton's climb, written out for one posterior; return where it ends, its steps, and whether it arrived."""
    length, last, steps = 1.0, np.inf, 0
    value, gradient, hessian = posterior.local(white)
    noise = 1e-15 * (1 + posterior.outward + np.sum(posterior.weights))
    while steps < most:
        steps += 1
        bends, axes = np.linalg.eigh(-hessian)
        step = axes @ ((axes.T @ gradient) / np.maximum(np.abs(bends), 1e-10 * np.abs(bends).max()))
        gain = step @ gradient
        if gain < (1e-16 if beat is None else 1e-10):
            return white + step, steps, True
        if gain < 1e-10 and gain > last / 16:
            return white, steps, True
        if beat is not None and bends[0] > 0 and value + 2 * gain + min(10 * gain, 1.0) < beat:
            return white, steps, True
        reach, size = 0.5 * np.linalg.norm(white) + 1 / np.sqrt(posterior.df), np.linalg.norm(step)
        trial = white + length * step * min(1.0, reach / size)
        if posterior.value(trial) >= value - (noise if gain < noise else 0):
            white, length = trial, min(2 * length, 1.0)
            value, gradient, hessian = posterior.local(white)
        else:
            length /= 4
        last = gain
    return white, steps, False


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beat", [None, 0.0, -1.0, -np.inf], ids=["all", "the highest", "nearly", "any"])
def test_a_batch_climbs_as_newton_does(kind, beat):
    """From all distances, and from valleys where ℓ bends upward; one has no start, and begins at the centre."""
    posterior, rng = many(kind), np.random.default_rng(3)
    start = rng.standard_normal((40, 3)) * 10 ** rng.uniform(-3, 1.5, (40, 1))
    start[7], start[8, 1] = np.nan, np.nan
    height = None if beat is None else find_modes(posterior).value + beat
    found = climb(posterior, start, height)
    assert np.all(found.done)
    most = 0
    for row in range(40):
        one = single(posterior, row)
        begin = np.zeros(3) if row in (7, 8) else start[row]
        white, steps, _ = climb_of_newton(one, begin, None if beat is None else height[row])
        alone = climb(
            posterior.take(np.array([row])), begin[None], None if beat is None else height[row : row + 1]
        )
        assert alone.steps == steps
        assert alone.done
        value, gradient, hessian = one.local(white)
        deviation = 1 / np.sqrt(np.abs(np.linalg.eigvalsh(-hessian))).min()
        for got in (alone.white[0], found.white[row]):
            np.testing.assert_allclose(got, white, atol=1e-8 * deviation)
        np.testing.assert_allclose([found.value[row], alone.value[0]], value, rtol=1e-8)
        np.testing.assert_allclose(found.hessian[row], alone.hessian[0], rtol=1e-6, atol=1e-9)
        if beat is None:
            assert np.linalg.norm(gradient) * deviation < 1e-5
            np.testing.assert_allclose(alone.hessian[0], hessian, atol=1e-6 * np.abs(hessian).max())
        most = max(most, steps)
    assert found.steps == most


@pytest.mark.parametrize("df", [1.0, 5.0, 100.0])
def test_a_step_too_far_is_cut_to_a_quarter(df):
    """−½w·log(1 + v²): Newton's step from 0.6 leads to the other side, further down than it came from."""
    posterior = well_at(0.0, df)
    cut = 0
    for start in np.linspace(0.05, 3.0, 40)[:, None]:
        white, steps, arrived = climb_of_newton(posterior, start)
        found = climb(posterior.as_batch(), start[None])
        assert (found.steps, bool(found.done)) == (steps, arrived)
        np.testing.assert_allclose(found.white.ravel(), white, atol=1e-12)
        cut += start[0] < 0.7 and steps > 6
    assert cut or df > 1


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_a_climb_that_is_stopped_says_so(most, monkeypatch):
    """Every step of the way is Newton's; what has not arrived is not called converged."""
    monkeypatch.setattr(climbing, "MOST_STEPS", most)
    posterior = well_at(0.0, 1.0)
    for start in np.linspace(0.05, 3.0, 12)[:, None]:
        white, steps, arrived = climb_of_newton(posterior, start, most=most)
        found = climb(posterior.as_batch(), start[None])
        assert (found.steps, bool(found.done)) == (steps, arrived)
        np.testing.assert_allclose(found.white.ravel(), white, rtol=1e-9, atol=1e-12)
    batch = many("datasets", leverage=0.5)
    for found in (find_modes(batch), find_best(batch)):
        _, gradient, hessian = batch.local(found.best)
        gain = np.vecdot(gradient, np.linalg.solve(-hessian, gradient[..., None])[..., 0])
        assert np.all(np.abs(gain[found.converged]) < 1e-9)
        assert np.any(found.converged) or most < 3
        assert not np.all(found.converged) or most >= 5  # which may be enough for all


@pytest.mark.parametrize("kind", KINDS)
def test_a_climb_that_cannot_win_is_given_up_and_one_that_can_is_not(kind):
    posterior = many(kind)
    start = np.random.default_rng(4).standard_normal((40, 3))
    summit = climb(posterior, start)
    unreachable = climb(posterior, start, summit.value + 1e3)
    assert np.all(unreachable.done)
    assert unreachable.steps < summit.steps
    near = climb(posterior, start, summit.value - 1e-6)
    np.testing.assert_allclose(near.value, summit.value, rtol=1e-9)
    np.testing.assert_allclose(near.white, summit.white, atol=1e-7)
    np.testing.assert_array_equal(
        climb(posterior, start, summit.value - 1e3).white, climb(posterior, start, np.full(40, -np.inf)).white
    )


def test_newton_takes_few_steps_where_it_begins_well():
    """From a deviation away each step squares the error: four, and one that only looks."""
    for kind in KINDS:
        posterior = many(kind)
        modes = find_modes(posterior)
        root = np.linalg.inv(np.linalg.cholesky(-modes.hessian))
        away = np.einsum("nji,nj->ni", root, np.full((40, 3), 0.1))
        assert climb(posterior, modes.best + away).steps <= 6
        assert climb(posterior, modes.best).steps <= 2


def test_the_rounding_of_a_height_is_that_of_its_terms():
    posterior = posterior_of(1, "datasets")
    total = np.sum(posterior.weights)
    assert 1e15 * posterior.rounding == pytest.approx(1 + posterior.outward + total)
    two = stacked([posterior.as_batch()] * 2)
    signed = replace(two, outward=-3.0, weights=np.stack([-posterior.weights, 2 * posterior.weights]))
    np.testing.assert_allclose(1e15 * signed.rounding, [4 + total, 4 + 2 * total])
