"""Random attacks: others, a target, a prior, and a release drawn by the mechanism."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import allbutone as abo
from cases import positive_definite


@dataclass(frozen=True, eq=False)
class Target:
    others: np.ndarray
    record: np.ndarray
    prior: abo.NIW
    release: object
    rng: np.random.Generator

    @property
    def p(self):
        return len(self.record)

    @property
    def prior_fields(self):
        return self.prior.mean, self.prior.mean_weight, self.prior.df, self.prior.scale

    def candidates(self, count):
        """Points around the crowd, around the record, between them and far away."""
        centre = self.others.mean(axis=0) if len(self.others) else self.prior.mean
        along = centre + self.rng.uniform(-1.5, 1.5, (count, 1)) * (self.record - centre)
        spread = np.sqrt(np.diagonal(self.prior.scale)) + (self.others.std(axis=0) if len(self.others) else 0)
        return along + spread * self.rng.standard_normal((count, self.p)) * 10.0 ** self.rng.uniform(
            -2, 1, (count, 1)
        )


def make(rng, kind, p, n, releases, outlying=None, most_rows=None, prior_spread=1.0):
    root = np.linalg.cholesky(positive_definite(rng, p))
    others = rng.standard_normal((n, p)) @ root.T
    outlying = 10 ** rng.uniform(-1, 2.5) if outlying is None else outlying
    record = root @ rng.standard_normal(p) * outlying
    scale = prior_spread * np.eye(p) * 10 ** rng.uniform(-1, 1)
    prior = abo.NIW(rng.standard_normal(p), 10 ** rng.uniform(-1, 1), p - 1 + 10 ** rng.uniform(-1, 1.5), scale)
    posterior = prior.update(np.vstack([others, record]))
    if kind == "parameters":
        release = abo.Release.draw_parameters(posterior, releases, rng)
    else:
        most = (5, 50, 500)[rng.integers(3)] if most_rows is None else most_rows
        rows = [int(row) for row in rng.integers(1, most + 1, size=releases)]
        release = abo.Release.draw(posterior, rows, rng)
    return Target(others, record, prior, release, rng)


@dataclass(frozen=True)
class Recipe:
    """What Hypothesis chooses; the package runs only when the test makes the target."""

    seed: int
    kind: str
    p: int
    n: int
    releases: int
    outlying: float | None

    def make(self):
        rng = np.random.default_rng(self.seed)
        return make(rng, self.kind, self.p, self.n, self.releases, self.outlying)


def recipes(max_p=12, max_n=40, max_releases=20, min_p=1, outlying=None):
    return st.builds(
        Recipe,
        seed=st.integers(0, 2**32 - 1),
        kind=st.sampled_from(["parameters", "datasets"]),
        p=st.integers(min_p, max_p),
        n=st.integers(0, max_n),
        releases=st.integers(1, max_releases),
        outlying=st.none() if outlying is None else st.floats(*outlying).map(lambda power: 10.0**power),
    )
