"""Random problems for Hypothesis: it chooses shapes, scales and a seed; NumPy fills in the numbers."""

import os
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))  # all cases of the tests that take long


@dataclass(frozen=True)
class Case:
    records: np.ndarray
    mean: np.ndarray
    mean_weight: float
    df: float
    scale: np.ndarray
    rng: np.random.Generator

    @property
    def prior(self):
        return self.mean, self.mean_weight, self.df, self.scale


def positive_definite(rng, p, spread=1.0):
    root = rng.standard_normal((p, p + 2))
    return spread**2 * (root @ root.T / (p + 2) + 0.1 * np.eye(p))


@st.composite
def cases(draw, max_p=30, max_n=200, min_n=1):
    p = draw(st.integers(1, max_p))
    n = draw(st.integers(min_n, max_n))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = 10.0 ** draw(st.integers(-3, 3))
    offset = spread * 10.0 ** draw(st.integers(-1, 2))
    root = np.linalg.cholesky(positive_definite(rng, p, spread))
    records = offset * rng.standard_normal(p) + rng.standard_normal((n, p)) @ root.T
    mean = offset * rng.standard_normal(p)
    mean_weight = draw(st.floats(0.01, 20))
    df = p - 1 + draw(st.floats(0.1, 30))
    return Case(records, mean, mean_weight, df, positive_definite(rng, p, spread), rng)


def relative_error(value, truth):
    return np.max(np.abs(np.asarray(value) - truth)) / np.max(np.abs(truth))
