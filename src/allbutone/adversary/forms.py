"""A single posterior by quadratic forms: the same ℓ in a third of the operations, each of which takes its time."""

from dataclasses import dataclass
from operator import matmul
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.arrays import array_namespace, as_array, eye, zeros

Array = Any


@dataclass(frozen=True, eq=False)
class Forms:
    """ℓ(v) = −½·[ Σⱼ wⱼ·log(uᵀNⱼu) + vᵀAv − 2bᵀv ] with u = (1, v): the outward term is a well of weight −a.

    A well gⱼ + vᵀMⱼv − 2mⱼᵀv has Nⱼ = [[gⱼ, −mⱼᵀ], [−mⱼ, Mⱼ]], and 1 + c‖v‖² has diag(1, c, …, c).
    """

    matrices: Float[Array, "k r r"]
    flat: Float[Array, "k rr"]  # the same as rows
    weights: Float[Array, " k"]
    one: Float[Array, " 1"]
    precision: Float[Array, "p p"] | None  # A, where parameters were released
    pull: Float[Array, " p"]

    @classmethod
    def of(cls, posterior: Any) -> "Forms":
        """Return the forms of a `LogQuadratic` without batch axes."""
        xp, slopes, p = array_namespace(posterior.centre), posterior.slopes, posterior.p
        every = zeros((posterior.wells + 1, p + 1, p + 1), like=slopes)
        every[0, :, :] = float(posterior.inflation) * eye(p + 1, like=slopes)
        every[0, 0, 0] = 1.0
        every[1:, 0, 0], every[1:, 1:, 1:] = posterior.levels, posterior.shapes
        every[1:, 0, 1:] = every[1:, 1:, 0] = -slopes
        weights = xp.concat([as_array([-float(posterior.outward)], like=slopes), posterior.weights])
        flat = xp.reshape(every, (every.shape[0], -1))
        precision = posterior.precision if posterior.has_quadratic else None
        return cls(every, flat, weights, every[0, 0, :1], precision, posterior.pull)

    def tangent(self, white: Float[Array, " p"]) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
        """Return the precision and the pull of the bound that touches ℓ at v: of the sum of the wells' ω·N."""
        xp, shape = array_namespace(white), self.matrices.shape[1:]
        point = xp.concat([self.one, white])
        levels = (self.matrices[1:, :, :] @ point) @ point
        total = xp.reshape((self.weights[1:] / levels) @ self.flat[1:, :], shape)
        precision, pull = total[1:, 1:], self.pull - total[0, 1:]
        return (precision if self.precision is None else precision + self.precision), pull

    def local(self, white: Float[Array, " p"]) -> tuple[Array, Float[Array, " p"], Float[Array, "p p"]]:
        """Return value, gradient and Hessian at v; with q = uᵀNu and ω = w/q those of the wells, in u, are

        −½·Σ w·log q,   −Σ ω·Nu,   −Σ ω·N + 2 Σ (ω/q)·(Nu)(Nu)ᵀ
        """
        xp, shape = array_namespace(white), self.matrices.shape[1:]
        times = np.ndarray.dot if isinstance(white, np.ndarray) else matmul  # in half the time of NumPy's own @
        point = xp.concat([self.one, white])
        turned = times(self.matrices, point)
        levels = times(turned, point)
        strength = self.weights / levels
        bend = times(turned.T, (2 * strength / levels)[:, None] * turned)
        bend = bend - xp.reshape(times(strength, self.flat), shape)
        value, gradient = -0.5 * times(self.weights, xp.log(levels)), -times(strength, turned)[1:]
        hessian = bend[1:, 1:]
        if self.precision is None:
            return value, gradient, hessian
        bent = self.precision @ white
        return value + white @ (self.pull - 0.5 * bent), gradient + self.pull - bent, hessian - self.precision
