"""Targets of different sizes in one batch, and arrays on a device that is not the default one."""

import array_api_strict
import numpy as np
import pytest

import allbutone as abo
from allbutone.releases.statistics import ParameterStatistics
from cases import positive_definite
from posteriors import attack_statistics, who
from targets import make

DEVICE = array_api_strict.Device("device1")


def there(array):
    return array_api_strict.asarray(np.asarray(array, dtype=float), device=DEVICE)


def back(array):
    assert array.device == DEVICE
    return np.asarray(array.to_device(array_api_strict.Device("CPU_DEVICE")))


def targets_of_different_sizes(rng, count=6, p=3, k=4):
    """As many targets as datasets, so that an axis taken for another would not be noticed by its length."""
    found = []
    for number in range(count):
        prior = abo.NIW(
            rng.standard_normal(p), rng.uniform(0.1, 5), p + rng.uniform(0, 9), positive_definite(rng, p)
        )
        others = rng.standard_normal((int(rng.integers(2, 60)), p))
        posterior = prior.update(np.vstack([others, np.full(p, 4.0 + number)]))
        theta = abo.Release.draw_parameters(posterior, k, rng)
        phi = abo.Release.draw(posterior, rng.integers(1, 40, size=k).tolist(), rng)
        found.append((others, prior, theta, phi))
    return found


def stack(targets):
    each = [prior.update(others) for others, prior, _, _ in targets]
    fields = (np.stack([getattr(one, name) for one in each]) for name in ("mean", "mean_weight", "df", "scale"))
    return abo.NIW(*fields)


def stacked_moments(releases):
    every = [[abo.Moments.of(data) for data in release.normal.datasets] for release in releases]
    return abo.Moments(
        *(np.stack([[getattr(m, name) for m in one] for one in every]) for name in ("count", "mean", "scatter"))
    )


def stacked_parameters(releases):
    each = [release.normal.statistics() for release in releases]
    return ParameterStatistics(
        each[0].draws, np.stack([one.precision for one in each]), np.stack([one.pull for one in each])
    )


def assert_batch_is_each(many, ones):
    for row, one in enumerate(ones):
        size = np.sqrt(np.abs(np.diagonal(one.covariance)))
        assert many.status[row] == one.status
        if one.log_posterior_gap > 1e-6:
            np.testing.assert_allclose((many.mode[row] - one.mode) / size, 0, atol=1e-9)
        np.testing.assert_allclose(many.covariance[row], one.covariance, rtol=1e-7, atol=1e-9 * size.max() ** 2)
        np.testing.assert_allclose(many.log_posterior_gap[row], one.log_posterior_gap, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [1, 6])
@pytest.mark.parametrize("kind", ["parameters", "datasets", "datasets of shared sizes"])
def test_targets_with_priors_and_sizes_of_their_own_are_attacked_at_once(kind, k):
    """κ, ν and the rows may differ from target to target: the batch equals the attacks one by one."""
    rng = np.random.default_rng(11)
    targets = targets_of_different_sizes(rng, 6, 3, k)
    others = stack(targets)
    if kind == "parameters":
        releases = [theta for _, _, theta, _ in targets]
        released = stacked_parameters(releases)
        alone = [ParameterStatistics(k, released.precision[i], released.pull[i]) for i in range(6)]
    else:
        releases = [phi for _, _, _, phi in targets]
        if kind == "datasets of shared sizes":
            sizes = list(range(5, 5 + k))
            releases = [abo.Release.draw(prior.update(x), sizes, rng) for x, prior, _, _ in targets]
        released = stacked_moments(releases)
        if kind == "datasets of shared sizes":
            released = abo.Moments(released.count[0], released.mean, released.scatter)
        counts = np.broadcast_to(released.count, (6, k))
        alone = [abo.Moments(counts[i], released.mean[i], released.scatter[i]) for i in range(6)]
    many = attack_statistics(others, released)
    fields = ("mean", "mean_weight", "df", "scale")
    each = [abo.NIW(*(getattr(others, name)[i] for name in fields)) for i in range(6)]
    assert_batch_is_each(many, [attack_statistics(one, it) for one, it in zip(each, alone, strict=True)])
    for row, ((x, prior, _, _), release) in enumerate(zip(targets, releases, strict=True)):
        one = abo.attack(x, release, prior=prior)
        size = np.sqrt(np.diagonal(one.covariance))
        if one.log_posterior_gap > 1e-6:
            np.testing.assert_allclose((many.mode[row] - one.mode) / size, 0, atol=1e-6)


def on_device(target):
    mean, weight, df, scale = target.prior_fields
    prior = abo.NIW(there(mean), weight, df, there(scale))
    if target.release.parameters is not None:
        release = abo.Release.of_parameters(
            there(target.release.normal.means), there(target.release.normal.covariances)
        )
    else:
        release = abo.Release.of([there(z) for z in target.release.values])
    return there(target.others), release, prior


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("count", [1, 4])
def test_attacks_on_another_device_are_numpys(kind, count):
    target = make(np.random.default_rng(3), kind, 3, 20, count, 5.0)
    others, release, prior = on_device(target)
    own = abo.NIW(there(np.ones(3)), 2.0, 6.0, there(2 * np.eye(3)))
    own_here = abo.NIW(np.ones(3), 2.0, 6.0, 2 * np.eye(3))
    known = np.array([np.nan, target.record[1], np.nan])
    records = np.vstack([target.others, target.record, 30 * target.record])  # the last one is attacked by itself
    for options, here in (
        ({}, {}),
        ({"adversary_prior": own}, {"adversary_prior": own_here}),
        ({"known": there(known)}, {"known": known}),
    ):
        ours = abo.attack(others, release, prior=prior, **who(**options))
        theirs = abo.attack(target.others, target.release, prior=target.prior, **who(**here))
        np.testing.assert_allclose(back(ours.mode), theirs.mode, rtol=1e-8)
        np.testing.assert_allclose(back(ours.covariance), theirs.covariance, rtol=1e-6, atol=1e-9)
        known_of_all = {"known": ["x2"]} if "known" in options else {}
        ours = abo.attack(there(records), release, rows="all", prior=prior, **who(**{**options, **known_of_all}))
        theirs = abo.attack(
            records, target.release, rows="all", prior=target.prior, **who(**{**here, **known_of_all})
        )
        np.testing.assert_allclose(back(ours.log_posterior_gap), theirs.log_posterior_gap, rtol=1e-6, atol=1e-7)
        assert list(ours.status) == list(theirs.status)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_many_attacks_on_another_device_are_numpys(kind):
    rng = np.random.default_rng(4)
    targets = targets_of_different_sizes(rng)
    others = stack(targets)
    moved = abo.NIW(*(there(getattr(others, name)) for name in ("mean", "mean_weight", "df", "scale")))
    if kind == "parameters":
        here = stacked_parameters([theta for _, _, theta, _ in targets])
        away = ParameterStatistics(here.draws, there(here.precision), there(here.pull))
    else:
        here = stacked_moments([phi for _, _, _, phi in targets])
        away = abo.Moments(there(here.count), there(here.mean), there(here.scatter))
    ours, theirs = attack_statistics(moved, away), attack_statistics(others, here)
    np.testing.assert_allclose(back(ours.log_posterior_gap), theirs.log_posterior_gap, rtol=1e-8, atol=1e-8)
    assert list(ours.status) == list(theirs.status)


def test_densities_on_another_device_are_numpys():
    rng = np.random.default_rng(5)
    records, weights = rng.standard_normal((30, 3)), np.array([0.5, 2.0])
    here = abo.NIW(np.zeros((2, 3)), weights, 5 + weights, np.eye(3))
    away = abo.NIW(there(np.zeros((2, 3))), there(weights), there(5 + weights), there(np.eye(3)))
    for prior, other in (
        (here, away),
        (abo.NIW.default(3), abo.NIW(there(np.zeros(3)), 1.0, 5.0, there(np.eye(3)))),
    ):
        ours, theirs = other.update(there(records)), prior.update(records)
        np.testing.assert_allclose(back(ours.scale), theirs.scale, rtol=1e-12)
        np.testing.assert_allclose(
            back(other.log_evidence(there(records))), prior.log_evidence(records), rtol=1e-12
        )
        point, cover = np.broadcast_to(records[0], prior.mean.shape), np.eye(3) + 0.1
        np.testing.assert_allclose(
            back(ours.predictive().log_density(there(point))), theirs.predictive().log_density(point), rtol=1e-12
        )
        cover = np.broadcast_to(cover, prior.scale.shape)
        np.testing.assert_allclose(
            back(ours.log_density(there(point), there(cover))), theirs.log_density(point, cover), rtol=1e-12
        )
        np.testing.assert_array_equal(
            ours.draw_roots(np.random.default_rng(1), 2)[1], theirs.draw_roots(np.random.default_rng(1), 2)[1]
        )
    moments = abo.Moments.of(there(records))
    np.testing.assert_allclose(
        back(moments.add(there(records[0])).scatter), abo.Moments.of(records).add(records[0]).scatter
    )
