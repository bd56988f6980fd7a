"""Noise of releases with a guarantee that can be drawn again, for tests of what is made of it.

The operating system's noise has no seed: a law that holds on average would fail now and then, and nobody could say
why. Whether the real noise is what is stated, tests/releases/test_private*.py and the audits ask of the real runs.
"""

from contextlib import contextmanager

import numpy as np
import pytest

from allbutone.releases import private_mechanism, private_release


@contextmanager
def noise_from(rng):
    """Draw noise of the same distribution, and what follows from it, from this generator."""

    def with_noise(exact, change, mu):
        _, scale, rho = private_mechanism._gaussian(len(exact), change, mu)
        return exact + np.rint(scale * rng.standard_normal(len(exact))), scale, rho

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_mechanism, "_with_noise", with_noise)
        patch.setattr(private_release, "fresh_generator", lambda: rng)
        yield


@pytest.fixture
def seeded_noise(rng):
    """Noise from the test's own random numbers."""
    with noise_from(rng):
        yield
