"""Releases drawn as sufficient statistics are releases: their wells are those of the moments they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import allbutone as abo
from allbutone.adversary.build import from_datasets
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.simulated_releases import SimulatedReleases


@given(
    p=st.integers(1, 6),
    people=st.integers(2, 200),
    rows=st.integers(1, 50),
    count=st.integers(1, 4),
    leverage=st.floats(0, 100),
    seed=st.integers(0, 2**32),
)
def test_the_wells_are_those_of_the_datasets_moments(p, people, rows, count, leverage, seed):
    setting = ExposureLaw.of(abo.NIW.default(p), people, rows)
    drawn = SimulatedReleases.of(setting, count, 3, np.random.default_rng(seed))
    problem, truth = drawn.problem(leverage)
    kappa = setting.mean_weight
    stretch = np.ones(p)
    stretch[-1] = np.sqrt(1 + leverage)
    assert kappa / (kappa + 1) * truth[:, -1] ** 2 == pytest.approx(leverage)
    # Σ = D(PᵀP)⁻¹D for each dataset; its scatter and the noise of its mean in the same coordinates
    factor = stretch[:, None] * np.linalg.inv(np.moveaxis(drawn.precision, 2, 0))
    spread = factor @ np.moveaxis(drawn.scatter, 2, 0)
    noise = (factor @ drawn.noise.T[..., None])[..., 0] * np.sqrt(1 / (kappa + 1) + 1 / rows)
    mean = np.repeat(truth / (kappa + 1), count, axis=0) + noise
    moments = abo.Moments(
        np.full(count, float(rows)),
        mean.reshape(3, count, p),
        (spread @ spread.swapaxes(1, 2)).reshape(3, count, p, p),
    )
    crowd = abo.NIW(np.zeros((3, p)), kappa, setting.df, np.eye(p))
    expected = from_datasets(crowd, np.eye(p), moments)
    for name in ("weights", "levels", "slopes", "shapes", "outward", "inflation"):
        ours, theirs = np.asarray(getattr(problem, name)), np.asarray(getattr(expected, name))
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9 * np.max(np.abs(theirs)), err_msg=name)


@pytest.mark.parametrize(("p", "rows"), [(2, 10), (3, 2), (5, 5), (4, 1), (4, 100)])
def test_scatters_are_wishart(p, rows):
    """E[S] = (n_z − 1)·I and tr S ~ χ²((n_z − 1)p), also where there are fewer rows than columns."""
    size = 40_000
    drawn = SimulatedReleases.of(ExposureLaw(p, 10.0, 20.0, rows), 1, size, np.random.default_rng(1))
    scatter = np.einsum("ikm,jkm->ijm", drawn.scatter, drawn.scatter)
    trace = np.trace(scatter)
    df = (rows - 1) * p
    assert abs(trace.mean() - df) <= 5 * np.sqrt(2 * df / size)
    # the variance of an entry of a Wishart is df on the side and 2·df on the diagonal
    assert np.max(np.abs(scatter.mean(axis=2) - (rows - 1) * np.eye(p))) <= 5 * np.sqrt(2 * (rows - 1) / size)
    assert all(np.linalg.matrix_rank(scatter[..., i]) == min(p, rows - 1) for i in range(20))
    precision = np.einsum("kim,kjm->ijm", drawn.precision, drawn.precision)
    assert np.max(np.abs(precision.mean(axis=2) - 21 * np.eye(p))) <= 5 * np.sqrt(2 * 21 / size)
