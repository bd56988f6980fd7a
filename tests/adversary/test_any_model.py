"""The attack on any model that gives `update` and a predictive: a product of predictives."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import betaln, gammaln

import allbutone as abo
import paper
from allbutone.adversary.build import log_posterior, log_posterior_of_model
from allbutone.model.niw import Density, Model, Normal
from targets import make


@dataclass(frozen=True)
class Coin:
    """The probability of a 1 is Beta(ones, zeros): a model in a few lines, which knows nothing of the package."""

    ones: float
    zeros: float

    def update(self, records):
        return Coin(self.ones + np.sum(records), self.zeros + np.sum(1 - np.asarray(records)))

    def predictive(self):
        return Bernoulli(self.ones / (self.ones + self.zeros))

    def log_evidence(self, records):
        after = self.update(records)
        return betaln(after.ones, after.zeros) - betaln(self.ones, self.zeros)


@dataclass(frozen=True)
class Bernoulli:
    share: float

    def log_density(self, records):
        return np.log(np.where(np.asarray(records) == 1, self.share, 1 - self.share))


@dataclass(frozen=True)
class Waiting:
    """Exponential waiting times of rate ~ Gamma(shape, rate); the predictive is a Lomax distribution."""

    shape: float
    rate: float

    def update(self, records):
        return Waiting(self.shape + np.size(records), self.rate + np.sum(records))

    def predictive(self):
        return self

    def log_density(self, x):
        return np.log(self.shape) + self.shape * np.log(self.rate) - (self.shape + 1) * np.log(self.rate + x)

    def log_evidence(self, records):
        after = self.update(records)
        change = gammaln(after.shape) - gammaln(self.shape)
        return change + self.shape * np.log(self.rate) - after.shape * np.log(after.rate)


def by_bayes(candidates, others, datasets):
    """log p(x | X₋) + Σⱼ log p(Z⁽ʲ⁾ | X₋, x), all constants kept."""
    found = [
        others.predictive().log_density(each)
        + sum(others.update(np.array([each])).log_evidence(data) for data in datasets)
        for each in candidates
    ]
    return np.array(found)


@pytest.mark.parametrize("model", [Coin(0.5, 1.5), Waiting(2.0, 0.7)])
def test_the_product_of_predictives_is_bayes_rule_constants_included(model, rng):
    """p(x | X₋)·Π p(Z⁽ʲ⁾ | X₋, x) is the product times Π p(Z⁽ʲ⁾ | X₋), which does not depend on x."""
    drawn = (lambda size: rng.integers(0, 2, size)) if isinstance(model, Coin) else rng.standard_exponential
    others, datasets = model.update(drawn(9)), [drawn(size) for size in (5, 1, 8)]
    candidates = np.array([0, 1]) if isinstance(model, Coin) else np.array([0.01, 0.5, 3.0, 40.0])
    ours = log_posterior_of_model(candidates, others, datasets=datasets)
    constant = sum(others.log_evidence(data) for data in datasets)
    np.testing.assert_allclose(ours + constant, by_bayes(candidates, others, datasets), rtol=1e-10)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("own", [False, True])
def test_the_normal_model_is_the_special_case(kind, own, rng):
    target = make(rng, kind, 3, 20, 4, outlying=5.0, most_rows=30)
    release, others = target.release, target.prior.update(target.others)
    adversary = abo.NIW.default(3) if own else None
    released = {"datasets": release.values}
    if kind == "parameters":
        pairs = zip(release.normal.means, release.normal.covariances, strict=True)
        released = {"parameters": [Normal(mean, covariance) for mean, covariance in pairs]}
    before = None if adversary is None else adversary.update(target.others).predictive()
    candidates = target.candidates(12)
    literal = log_posterior_of_model(candidates, others, own=before, **released)
    closed = log_posterior(target.others, release, abo.Adversary(prior=adversary), prior=target.prior)
    values = closed.log_density_unnormalized(candidates)
    np.testing.assert_allclose(literal - literal[0], values - values[0], rtol=1e-10, atol=1e-8)


def test_the_identity_of_the_normal_model_has_its_constants(rng):
    """log p(Z | X₋, x) = log p(Z | X₋) + log p(x | X₋, Z) − log p(x | X₋), the evidence by the paper's formula."""
    target = make(rng, "datasets", 2, 10, 1, most_rows=20)
    others, (data,) = target.prior.update(target.others), target.release.values
    fitted = paper.posterior(target.others, *target.prior_fields)
    x = target.record
    literally = paper.log_evidence(data, *paper.posterior(np.vstack([target.others, x]), *target.prior_fields))
    opinion = others.update(data).predictive().log_density(x) - others.predictive().log_density(x)
    np.testing.assert_allclose(paper.log_evidence(data, *fitted) + opinion, literally, rtol=1e-10)


def test_the_normal_model_keeps_the_protocol():
    model: Model = abo.NIW.default(2)
    density: Density = model.update(np.eye(2)).predictive()
    assert np.isfinite(density.log_density(np.zeros(2)))
