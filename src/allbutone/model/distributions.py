"""The two closed-form distributions a record can have: normal and Student t."""

from dataclasses import dataclass
from functools import cached_property
from math import log, pi
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from allbutone.support.arrays import array_namespace, by_numpy, cholesky, half_log_det, squared_length, to_numpy

Array = Any


@dataclass(frozen=True, eq=False)
class Normal:
    """N(mean, covariance)."""

    mean: Float[Array, "*batch p"]
    covariance: Float[Array, "*batch p p"]

    @cached_property
    def root(self) -> Float[Array, "*batch p p"]:
        """The Cholesky factor of the covariance."""
        return cholesky(self.covariance, "covariance")

    def log_density(self, points: Float[Array, "*points p"]) -> Float[Array, "*points"]:
        """Return log N(x; m, Σ) = −½·(p·log 2π + log|Σ| + (x − m)ᵀΣ⁻¹(x − m))."""
        p = points.shape[-1]
        squared = squared_length(self.root, points - self.mean)
        return -0.5 * (p * log(2 * pi) + squared) - half_log_det(self.root)

    def draw(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count p"]:
        """Draw `count` records."""
        white = rng.standard_normal((count, self.mean.shape[-1]))
        return to_numpy(self.mean) + white @ to_numpy(self.root).T


@dataclass(frozen=True, eq=False)
class StudentT:
    """The p-variate Student t with location m, scale matrix V and δ degrees of freedom (eq:post_t_dd)."""

    location: Float[Array, "*batch p"]
    scale: Float[Array, "*batch p p"]
    df: Any

    @cached_property
    def root(self) -> Float[Array, "*batch p p"]:
        """The Cholesky factor of the scale matrix."""
        return cholesky(self.scale, "scale")

    def log_density(self, points: Float[Array, "*points p"]) -> Float[Array, "*points"]:
        """Return log Γ((δ+p)/2) − log Γ(δ/2) − ½·log|δπV| − ½(δ+p)·log(1 + (x−m)ᵀV⁻¹(x−m)/δ)."""
        xp = array_namespace(points)
        p = points.shape[-1]
        half = (self.df + p) / 2
        constant = by_numpy(
            lambda df: gammaln((df + p) / 2) - gammaln(df / 2) - 0.5 * p * np.log(df * pi), self.df
        )
        squared = squared_length(self.root, points - self.location)
        return constant - half_log_det(self.root) - half * xp.log1p(squared / self.df)

    def draw(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count p"]:
        """Draw `count` records: a normal over an independent √(χ²_δ/δ)."""
        white = rng.standard_normal((count, self.location.shape[-1]))
        stretch = np.sqrt(self.df / rng.chisquare(self.df, size=(count, 1)))
        return to_numpy(self.location) + stretch * (white @ to_numpy(self.root).T)
