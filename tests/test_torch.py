"""The numerical core on PyTorch tensors gives NumPy's answers. Run by `make test-torch`."""

import numpy as np
import pytest
import torch

import allbutone as abo
from targets import make


def tensors(target):
    mean, weight, df, scale = target.prior_fields
    prior = abo.NIW(torch.as_tensor(mean), weight, df, torch.as_tensor(scale))
    if isinstance(target.release, abo.ParameterRelease):
        release = abo.ParameterRelease(
            torch.as_tensor(target.release.means), torch.as_tensor(target.release.covariances)
        )
    else:
        release = abo.DatasetRelease([torch.as_tensor(np.array(z)) for z in target.release.datasets])
    return torch.as_tensor(target.others), release, prior


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("seed", range(8))
def test_torch_attacks_as_numpy_does(kind, seed):
    rng = np.random.default_rng(seed)
    target = make(rng, kind, int(rng.integers(1, 6)), int(rng.integers(1, 30)), int(rng.integers(1, 8)), 5.0)
    others, release, prior = tensors(target)
    ours, theirs = abo.attack(others, release, prior), abo.attack(target.others, target.release, target.prior)
    assert isinstance(ours.mode, torch.Tensor)
    np.testing.assert_allclose(float(ours.log_posterior_gap), theirs.log_posterior_gap, rtol=1e-6, atol=1e-7)
    if theirs.log_posterior_gap > 1e-6:
        deviations = np.sqrt(np.diagonal(theirs.covariance))
        assert np.all(np.abs(ours.mode.numpy() - theirs.mode) < 1e-6 * deviations)
    records = np.vstack([target.others, target.record])
    everyone = abo.attack_all(torch.as_tensor(records), release, prior)
    again = abo.attack_all(records, target.release, target.prior)
    np.testing.assert_allclose(everyone.log_posterior_gap.numpy(), again.log_posterior_gap, rtol=1e-5, atol=1e-6)


def test_torch_moments_and_densities():
    rng = np.random.default_rng(3)
    records = rng.standard_normal((50, 3))
    prior = abo.NIW(torch.zeros(3, dtype=torch.float64), 1.0, 5.0, torch.eye(3, dtype=torch.float64))
    posterior = prior.update(torch.as_tensor(records))
    plain = abo.NIW.default(3).update(records)
    np.testing.assert_allclose(posterior.scale.numpy(), plain.scale)
    density = posterior.predictive().log_density(torch.as_tensor(records))
    np.testing.assert_allclose(density.numpy(), plain.predictive().log_density(records))
