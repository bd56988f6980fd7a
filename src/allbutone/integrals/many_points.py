"""The log posterior at many points of many posteriors: one matrix product, few logarithms, bounded memory.

Of few features, or many wells, all wells are one product with a point's powers. Of many features and few wells
there are too many powers: there each well is a product of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.support.arrays import array_namespace, as_array, contiguous, to_numpy, zeros
from allbutone.support.devices import more_at_once

Array = Any

JOINT = 8  # wells of equal weight share a logarithm
MANY, FEW = 24, 16  # features and wells, from and up to which a point's powers cost more than they save
AT_ONCE = 1 << 19  # numbers held while points are weighed against wells: what stays in the processor's cache


@dataclass(frozen=True)
class Powers:
    """Posteriors ready for many points: every well is quadratic in v, so all are one product with v's powers.

    `coefficients`: those of (1, vᵢ, vᵢvⱼ); None where each well is a product of its own. Wells of equal weight are
    multiplied, up to eight of them, before their logarithm is taken: `weights` are the groups', whose members
    stand a stride apart.
    """

    posterior: LogQuadratic
    coefficients: Float[Array, "*batch powers wells"] | None
    weights: Float[Array, "*#batch groups"]

    @classmethod
    def of(cls, posterior: LogQuadratic) -> "Powers":
        """Sort the wells into groups; one that is not full is filled with wells that are 1 everywhere."""
        if _one_by_one(posterior):
            return cls(posterior, None, posterior.weights)
        first, second = np.triu_indices(posterior.p)
        xp = array_namespace(posterior.shapes)
        twice = as_array(np.where(first == second, 1.0, 2.0), like=posterior.shapes)
        bent = twice * posterior.shapes[..., first, second]
        parts = (posterior.levels[..., None], -2 * posterior.slopes, bent)
        batch = np.broadcast_shapes(*(part.shape[:-2] for part in parts))
        wells = xp.concat([xp.broadcast_to(part, (*batch, *part.shape[-2:])) for part in parts], axis=-1)
        wells, weights = _grouped(wells, posterior.weights)
        return cls(posterior, wells.mT, weights)

    def values(self, v: Float[Array, "*batch n p"]) -> Float[Array, "*batch n"]:
        """Return ℓ(v); not a number where rounding has left it no digits."""
        whole, xp = self.posterior, array_namespace(v)
        outward, inflation = (as_array(each, like=v) for each in (whole.outward, whole.inflation))
        squared = xp.einsum("...p,...p->...", v, v)
        value = outward[..., None] * xp.log1p(inflation[..., None] * squared)
        if bool(xp.any(whole.precision != 0)) or bool(xp.any(whole.pull != 0)):  # parameters were released
            value += xp.einsum("...p,...p->...", v, 2 * whole.pull[..., None, :] - v @ whole.precision)
        if self.weights.shape[-1]:
            levels = self._levels(v)
            with np.errstate(invalid="ignore", divide="ignore"):  # a level below 0, by rounding, has no logarithm
                value -= (xp.log(levels) @ self.weights[..., None])[..., 0]
        return 0.5 * value + whole.besides(v)

    def _levels(self, v: Float[Array, "*batch n p"]) -> Float[Array, "*batch n groups"]:
        """Return each group's product of qⱼ(v)."""
        if self.coefficients is None:
            return self._each_level(v)
        first, second = np.triu_indices(self.posterior.p)
        across = contiguous(v.mT)
        ones = 1.0 + zeros((*across.shape[:-2], 1, across.shape[-1]), like=v)
        powers = array_namespace(v).concat([ones, across, across[..., first, :] * across[..., second, :]], axis=-2)
        levels = powers.mT @ self.coefficients
        while levels.shape[-1] > self.weights.shape[-1]:
            middle = levels.shape[-1] // 2
            with np.errstate(over="ignore"):  # so far out that the density is 0
                levels = levels[..., :middle] * levels[..., middle:]
        return levels

    def _each_level(self, v: Float[Array, "*batch n p"]) -> Float[Array, "*batch n wells"]:
        """Return qⱼ(v) = gⱼ + vᵀ(Mⱼv − 2mⱼ), well by well."""
        xp, whole = array_namespace(v), self.posterior
        found = []
        for well in range(whole.shapes.shape[-3]):
            bent = v @ whole.shapes[..., well, :, :] - 2 * whole.slopes[..., well, None, :]
            found.append(xp.einsum("...p,...p->...", bent, v) + whole.levels[..., well, None])
        return xp.stack(found, axis=-1)


def _one_by_one(posterior: LogQuadratic) -> bool:
    return posterior.p >= MANY and posterior.wells <= FEW


def _grouped(
    wells: Float[Array, "*batch k powers"], weights: Float[Array, "*#batch k"]
) -> tuple[Float[Array, "*batch wells powers"], Float[Array, "*#batch groups"]]:
    """Put wells of equal weight together, a group's members a stride apart."""
    xp = array_namespace(wells)
    values, which = np.unique(to_numpy(weights), return_inverse=True)
    k, powers = wells.shape[-2:]
    if not k or weights.ndim > 1 or len(values) * JOINT > 2 * k:
        return wells, weights
    groups, group_weights = [], []
    for place, weight in enumerate(values.tolist()):
        mine = wells[..., np.flatnonzero(which == place), :]
        one = as_array(np.eye(1, powers), like=wells)
        filling = xp.broadcast_to(one, (*wells.shape[:-2], -mine.shape[-2] % JOINT, powers))
        groups.append(xp.concat([mine, filling], axis=-2).reshape(*wells.shape[:-2], -1, JOINT, powers))
        group_weights += [weight] * groups[-1].shape[-3]
    strided = xp.moveaxis(xp.concat(groups, axis=-3), -3, -2)
    return strided.reshape(*wells.shape[:-2], -1, powers), as_array(np.array(group_weights), like=wells)


def values_at(problem: LogQuadratic, white: Float[Array, "n s p"]) -> Float[Array, "n s"]:
    """Return ℓ at s points for each of n posteriors (or for one), a bounded number at a time."""
    found = zeros(white.shape[:2], like=white)
    for rows, points in _blocks(problem, more_at_once(AT_ONCE, like=white), *white.shape):
        powers = Powers.of(problem.take(rows) if len(white) > 1 else problem)
        for some in points:
            found[rows, some] = powers.values(white[rows, some])
    return found


def gradients_at(problem: LogQuadratic, white: Float[Array, "n s p"]) -> Float[Array, "n s p"]:
    """Return ∇ℓ at s points for each of n posteriors, well by well, as `LogQuadratic.local` has it for one."""
    xp = array_namespace(white)
    outward, inflation = (as_array(each, like=white)[..., None] for each in (problem.outward, problem.inflation))
    tau = outward * inflation / (1 + inflation * xp.vecdot(white, white))
    found = tau[..., None] * white - white @ problem.precision + problem.pull[..., None, :]
    for well in range(problem.wells):
        slope = problem.slopes[..., well, None, :]
        bent = white @ problem.shapes[..., well, :, :] - slope
        levels = xp.vecdot(bent - slope, white) + problem.levels[..., well, None]
        found -= (problem.weights[..., well, None] / levels)[..., None] * bent
    return found


def _blocks(problem: LogQuadratic, at_once: int, n: int, size: int, p: int) -> Iterator[tuple[slice, list[slice]]]:
    """Yield blocks of posteriors, and for each the blocks of its points."""
    width = p * 2 if _one_by_one(problem) else max(problem.wells, (p + 1) * (p + 2) // 2)
    rows = max(1, at_once // (size * width))
    some = size if rows > 1 else max(1, at_once // width)
    for start in range(0, n, rows):
        points = [slice(at, min(at + some, size)) for at in range(0, size, some)]
        yield slice(start, min(start + rows, n)), points
