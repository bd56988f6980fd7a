"""Several records missing: the sampler agrees with the exact posterior, and with quadrature."""

import numpy as np
import pytest

import allbutone as abo
import paper
from allbutone.adversary.missing import repeated
from allbutone.model.moments import Moments
from allbutone.releases.statistics import JoinedStatistics, ParameterStatistics
from posteriors import sampled as sampled_of
from targets import make

KINDS = ["parameters", "datasets"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", [1, 3])
def test_one_missing_record_has_the_exact_posterior(kind, p, rng):
    target = make(np.random.default_rng(3), kind, p, 25, 4, outlying=3.0, most_rows=40)
    sampled = sampled_of(target.others, target.release, target.prior, 1, rng)
    exactly = abo.posterior(target.others, target.release, prior=target.prior).importance_sample(rng, 1 << 14)
    mean = exactly.weights @ exactly.records
    spread = (exactly.weights[:, None] * (exactly.records - mean)).T @ (exactly.records - mean)
    assert np.all(np.abs(sampled.mean - mean) < 6 * sampled.standard_error)
    deviation = np.sqrt(np.diagonal(spread))
    by_chain = np.array([np.cov(chain.T).reshape(p, p) for chain in sampled.draws])
    error = by_chain.std(axis=0, ddof=1) / np.sqrt(len(by_chain))
    assert np.all(np.abs(sampled.covariance - spread) < 6 * error + 0.01 * np.outer(deviation, deviation))
    near = sampled.mass_within(mean, 1.0)
    exact_mass = abo.posterior(target.others, target.release, prior=target.prior).mass_within(mean, 1.0)
    assert abs(near - exact_mass) < 6 * np.hypot(near.standard_error, exact_mass.standard_error) + 1e-3
    with pytest.raises(abo.InputError, match="radius must exceed 0"):
        sampled.mass_within(mean, 0.0)
    assert sampled.acceptance > 0.5
    assert sampled.effective_size > 1000


@pytest.mark.parametrize("kind", KINDS)
def test_two_missing_records_agree_with_quadrature(kind, rng):
    """p = 1: the joint density of both unknown records on a grid, one of them summed out."""
    target = make(np.random.default_rng(8), kind, 1, 12, 3, outlying=3.0, most_rows=20)
    crowd = paper.posterior(target.others, *target.prior_fields)
    axis = np.linspace(-25, 25, 81)

    def log_joint(x, y):
        after = paper.posterior(np.array([[x]]), *crowd)
        value = paper.log_student_t(np.array([x]), *paper.predictive(*crowd))
        value += paper.log_student_t(np.array([y]), *paper.predictive(*after))
        both = paper.posterior(np.array([[y]]), *after)
        if kind == "parameters":
            draws = zip(target.release.normal.means, target.release.normal.covariances, strict=True)
            return value + sum(paper.log_niw(m, s, *both) for m, s in draws)
        return value + sum(paper.log_evidence(z, *both) for z in target.release.values)

    logs = np.array([[log_joint(x, y) for y in axis] for x in axis])
    joint = np.exp(logs - logs.max())
    marginal = joint.sum(axis=1) / joint.sum()
    mean = marginal @ axis
    variance = marginal @ (axis - mean) ** 2
    sampled = abo.posterior(
        target.others, target.release, abo.Adversary(lacking_records=1), prior=target.prior, rng=rng
    )
    assert abs(sampled.mean[0] - mean) < 6 * sampled.standard_error[0] + 1e-3
    by_chain = sampled.draws.var(axis=(1, 2))
    error = by_chain.std(ddof=1) / np.sqrt(len(by_chain))
    # between-chain differences of the mean belong to the variance, too
    assert abs(sampled.covariance[0, 0] - variance) < 6 * error + 0.02 * variance
    points = axis[marginal > 1e-4 * marginal.max(), None]
    exactly = np.log(marginal[marginal > 1e-4 * marginal.max()] / (axis[1] - axis[0]))
    off = sampled.log_density(points) - exactly
    assert np.all(np.abs(off) < 6 * sampled.log_density_error(points) + 0.02)
    assert abs(sampled.mode[0] - axis[np.argmax(marginal)]) < 1.5 * (axis[1] - axis[0])


def test_unknown_records_are_exchangeable(rng):
    """No slot of the sampler is special: each missing record has the same marginal posterior."""
    target = make(np.random.default_rng(5), "datasets", 2, 30, 5, outlying=6.0, most_rows=100)
    sampled = abo.posterior(
        target.others[:28],
        target.release,
        abo.Adversary(lacking_records=2),
        prior=target.prior,
        rng=rng,
        sweeps=40,
        warm_up=20,
    )
    assert sampled.draws.shape == (32, 120, 2)
    slots = sampled.draws.reshape(32, 40, 3, 2).mean(axis=1)
    contrast = slots[:, 0] - slots[:, 2]
    assert np.all(np.abs(contrast.mean(axis=0)) < 6 * contrast.std(axis=0, ddof=1) / np.sqrt(32))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reading", ["record", "mechanism"])
def test_an_adversarys_own_prior_has_its_exact_posterior(kind, reading):
    target = make(np.random.default_rng(4), kind, 2, 15, 3, outlying=3.0, most_rows=30)
    own = abo.NIW([9.0, -9.0], 40.0, 50.0, 50 * np.eye(2))
    given = (target.others, target.release)
    options = {"adversary": abo.Adversary(prior=own), "reading": reading}
    sweeps = 60 if reading == "record" else 200  # the mechanism alone moves the record less
    sampled = sampled_of(*given, target.prior, 1, None, own=own, reading=reading, sweeps=sweeps)
    exactly = abo.posterior(*given, prior=target.prior, **options).importance_sample(None, 1 << 14)
    assert np.all(np.abs(sampled.mean - exactly.weights @ exactly.records) < 6 * sampled.standard_error)
    holders = abo.posterior(*given, prior=target.prior).importance_sample(1, 1 << 14)
    assert np.any(np.abs(sampled.mean - holders.weights @ holders.records) > 3 * sampled.standard_error)


def test_the_holders_prior_as_ones_own_changes_nothing():
    """Two missing records under the adversary's prior: equal to the holder's, it is the holder's posterior."""
    target = make(np.random.default_rng(9), "datasets", 2, 15, 3, outlying=3.0, most_rows=30)
    given = (target.others, target.release)
    length = {"prior": target.prior, "sweeps": 60, "warm_up": 20}
    plain = abo.posterior(*given, abo.Adversary(lacking_records=1), **length)
    own = abo.posterior(*given, abo.Adversary(lacking_records=1, prior=target.prior), **length)
    error = np.hypot(plain.standard_error, own.standard_error)
    assert np.all(np.abs(plain.mean - own.mean) < 6 * error)


def test_every_chain_of_a_table_sees_what_was_released_of_it(rng):
    """Two tables, three chains each; datasets have an axis of their own before the columns."""
    parameters = ParameterStatistics(4, rng.normal(size=(2, 5, 5)), rng.normal(size=(2, 5)))
    datasets = Moments(np.full(7, 9.0), rng.normal(size=(2, 7, 5)), rng.normal(size=(2, 7, 5, 5)))
    found = repeated(JoinedStatistics(parameters, datasets), 3)
    whose = [0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(found.parameters.precision, parameters.precision[whose])
    np.testing.assert_array_equal(found.parameters.pull, parameters.pull[whose])
    np.testing.assert_array_equal(found.datasets.mean, datasets.mean[whose])
    np.testing.assert_array_equal(found.datasets.scatter, datasets.scatter[whose])
