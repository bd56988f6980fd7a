"""One small family of functions holds the adversary's posterior for every kind of release."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from jaxtyping import Float

from allbutone.model.niw import Normal, StudentT
from allbutone.support.arrays import (
    add_to_diagonal,
    all_true,
    append_axes,
    array_namespace,
    as_array,
    contiguous,
    half_log_det,
    solve_rows,
    zeros,
)

# The matrices of a posterior's wells: summed, chained, and applied to a point, all in one matrix product.
#
# Of many wells the axis that counts them may be the last in memory, though not in the shape: then everything that
# is done to each of them runs along it. Both layouts hold the same numbers and mix freely.


Array = Any


def in_layout(vectors: Float[Array, "b p k"]) -> Float[Array, "b k p"]:
    """Return the vectors of each well in the layout that suits their number."""
    return vectors.mT if _many(vectors) else contiguous(vectors.mT)


def stretched(
    shapes: Float[Array, "p p k"],
    own: tuple[Float[Array, " b"], Float[Array, "b p"], Float[Array, "b p p"]],
    normal: Float[Array, "b p k"],
    left: Float[Array, "b 1 k"],
) -> Float[Array, "b k p p"]:
    """Return RMR + nnᵀ/l of each posterior's wells, in the layout that suits their number.

    `own`: a, ê and R = I + a·êêᵀ. Of many wells, products with R do it for all at once; of few,
    RMR = M + êzᵀ + zêᵀ, z = a·Mê + ½a²(êᵀMê)·ê: outer products, and no p³.
    """
    xp, (p, _, k), (shrink, unit, root) = array_namespace(normal), shapes.shape, own
    flat, share = xp.reshape(shapes, (p, p * k)), normal / left
    if _many(shapes):
        products = root[:, None] @ (root @ flat).reshape(-1, p, p, k)
        for row in range(p):  # of the matrices
            products[:, row] += share * normal[:, row, None]
        return np.moveaxis(products, -1, 1)
    met, axis, shrink = xp.reshape(unit @ flat, (-1, p, k)), unit[:, :, None], shrink[:, None, None]
    along = shrink * met + (0.5 * shrink**2 * (axis.mT @ met)) * axis
    axis = xp.broadcast_to(axis, met.shape)
    columns, rows = xp.stack([share, along, axis], axis=-1), xp.stack([normal, axis, along], axis=-1)
    return xp.moveaxis(shapes, -1, 0) + xp.moveaxis(columns, 1, 2) @ xp.moveaxis(rows, 1, 2).mT


def _many(array: Float[Array, "*tail p k"]) -> bool:
    return isinstance(array, np.ndarray) and array.shape[-1] > array.shape[-2]


def times(matrix: Float[Array, "*#batch r p"], vector: Float[Array, "*#batch p"]) -> Float[Array, "*#batch r"]:
    """Return Mv of each; where one matrix serves all vectors, by one product."""
    if matrix.ndim == 2 and vector.ndim == 2:
        return vector @ matrix.T
    return (matrix @ vector[..., None])[..., 0]


def times_each(
    shapes: Float[Array, "*#batch k p p"], vector: Float[Array, "*batch p"]
) -> Float[Array, "*batch k p"]:
    """Return Mⱼv of each well, in the matrices' own layout."""
    xp, (k, p) = array_namespace(shapes, vector), shapes.shape[-3:-1]
    if not _wells_last(shapes):
        product = (xp.reshape(shapes, (*shapes.shape[:-3], k * p, p)) @ vector[..., None])[..., 0]
        return xp.reshape(product, (*product.shape[:-1], k, p))
    # M is symmetric: vᵀM is the same
    product = (vector[..., None, :] @ np.moveaxis(shapes, -3, -1).reshape(*shapes.shape[:-3], p, p * k))[..., 0, :]
    return product.reshape(*product.shape[:-1], p, k).mT


def weighted_sum(
    shapes: Float[Array, "*#batch k p p"], strength: Float[Array, "*batch k"]
) -> Float[Array, "*batch p p"]:
    """Return Σ ωⱼMⱼ."""
    xp, (k, p) = array_namespace(shapes, strength), shapes.shape[-3:-1]
    if _wells_last(shapes):
        flat = np.moveaxis(shapes, -3, -1).reshape(*shapes.shape[:-3], p * p, k)
        total = (flat @ strength[..., None])[..., 0]
    else:
        total = (strength[..., None, :] @ xp.reshape(shapes, (*shapes.shape[:-3], k, p * p)))[..., 0, :]
    return xp.reshape(total, (*total.shape[:-1], p, p))


def _wells_last(shapes: Float[Array, "*batch k p p"]) -> bool:
    return isinstance(shapes, np.ndarray) and shapes.itemsize == shapes.strides[-3] < shapes.strides[-1]


def taken_rows(array: Array, rows: Any) -> Array:
    """Return the array at these positions of its first axis, in its own layout; at a slice nothing is copied."""
    if isinstance(rows, slice) or (isinstance(array, np.ndarray) and not array.flags.c_contiguous):
        return array[rows, ...]
    return array_namespace(array).take(array, as_array(rows, like=array), axis=0)


def chain_wells(batch: tuple[int, ...], first: Array, then: Array, tail: int) -> Array:
    """Put numbers (`tail` 0), vectors (1) or matrices (2) of some wells before others', for every posterior."""
    xp = array_namespace(first, then)
    every = [xp.broadcast_to(each, (*batch, *each.shape[each.ndim - 1 - tail :])) for each in (first, then)]
    return xp.concat(every, axis=len(batch))


Scalar = Any


@dataclass(frozen=True, eq=False)
class LogQuadratic:
    """The log posterior of a record x = centre + root·v, up to a constant; batch axes lead.

        ℓ(v) = ½·[ a·log(1 + c‖v‖²) − vᵀAv + 2bᵀv − Σⱼ wⱼ·log qⱼ(v) ],   qⱼ(v) = gⱼ + vᵀMⱼv − 2mⱼᵀv

    In the coordinates v the adversary's own posterior scale is the identity. `outward` a pushes away from the
    other records, with `inflation` c; released parameters give the quadratic `precision` A and `pull` b; each
    released dataset gives a well of weight wⱼ (`weights`, `levels` g, `slopes` m, `shapes` M). A well of negative
    weight pushes away: what releases of another prior share. `own_well`: the last well is not a dataset but the
    adversary's own prior.
    `df` is the adversary's ν: distances are measured by E[Σ⁻¹] = νΛ⁻¹, so that ν‖v‖² is a squared Mahalanobis
    distance from the other records' centre.
    `df`, `outward` and `inflation` are numbers, or one a target (*batch); `weights` are (k,) or (*batch, k).
    Without them there are no wells, and without precision and pull no quadratic.
    """

    centre: Float[Array, "*batch p"]
    root: Float[Array, "*#batch p p"]
    df: Scalar
    outward: Scalar
    inflation: Scalar
    precision: Float[Array, "*#batch p p"] = None
    pull: Float[Array, "*#batch p"] = None
    weights: Float[Array, "*#batch k"] = None
    levels: Float[Array, "*#batch k"] = None
    slopes: Float[Array, "*#batch k p"] = None
    shapes: Float[Array, "*#batch k p p"] = None
    own_well: bool = False

    def __post_init__(self) -> None:
        """Leave out what is not given."""
        p = self.p
        tails: dict[str, tuple[int, ...]] = {
            "precision": (p, p), "pull": (p,),
            "weights": (0,), "levels": (0,), "slopes": (0, p), "shapes": (0, p, p),
        }  # fmt: skip
        for name, tail in tails.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, zeros(tail, like=self.centre))

    @property
    def p(self) -> int:
        """The number of unknown features."""
        return int(self.centre.shape[-1])

    @property
    def wells(self) -> int:
        """The number of logarithmic wells: one a released dataset."""
        return int(self.weights.shape[-1])

    @property
    def falls_as_a_power(self) -> bool:
        """Whether the tails are a Student t's: after datasets alone; released parameters make them normal."""
        return self.wells > 0 and not self.has_quadratic

    def whiten(self, records: Float[Array, "*points p"]) -> Float[Array, "*points p"]:
        """Return v = root⁻¹(x − centre)."""
        return solve_rows(self.root, records - self.centre)

    def unwhiten(self, white: Float[Array, "*points p"]) -> Float[Array, "*points p"]:
        """Return x = centre + root·v."""
        return self.centre + (self.root @ white[..., None])[..., 0]

    def log_density_unnormalized(self, candidates: Float[Array, "*points p"]) -> Float[Array, "*points"]:
        """Return ℓ at candidate records: the log posterior up to a constant (half the paper's score s)."""
        return self.value(self.whiten(candidates))

    def gradient(self, candidates: Float[Array, "*points p"]) -> Float[Array, "*points p"]:
        """Return the gradient of ℓ with respect to the candidate record."""
        return solve_rows(self.root.mT, self.local(self.whiten(candidates))[1])

    def hessian(self, candidates: Float[Array, "*points p"]) -> Float[Array, "*points p p"]:
        """Return the Hessian of ℓ with respect to the candidate record."""
        xp = array_namespace(candidates)
        _, _, hessian = self.local(self.whiten(candidates))
        turned = xp.linalg.solve(self.root.mT, hessian)
        return xp.matrix_transpose(xp.linalg.solve(self.root.mT, turned.mT))

    def value(self, white: Float[Array, "*points p"]) -> Float[Array, "*points"]:
        """Return ℓ(v)."""
        levels, _ = self.well_terms(white)
        return self._value(
            white, levels, array_namespace(white).vecdot(white, white), times(self.precision, white)
        )

    def local(
        self, white: Float[Array, "*points p"]
    ) -> tuple[Float[Array, "*points"], Float[Array, "*points p"], Float[Array, "*points p p"]]:
        """Return value, gradient and Hessian of ℓ at v.

        ∇ℓ  = τv − Av + b − Σ ωⱼGⱼ                     τ = a·c/(1 + c‖v‖²),  ωⱼ = wⱼ/qⱼ,  Gⱼ = Mⱼv − mⱼ
        ∇²ℓ = τI − (2τc/(1 + c‖v‖²))·vvᵀ − A − Σ ωⱼMⱼ + 2 Σ (ωⱼ/qⱼ)·GⱼGⱼᵀ
        """
        xp = array_namespace(white)
        levels, slopes = self.well_terms(white)
        strength = self.weights / levels
        squared, turned = xp.vecdot(white, white), times(self.precision, white)
        fall = self.inflation / (1 + self.inflation * squared)
        tau = self.outward * fall
        gradient = tau[..., None] * white - turned + self.pull
        gradient = gradient - (strength[..., None, :] @ slopes)[..., 0, :]
        scaled, steep = (2 * strength / levels)[..., None] * slopes, (2 * tau * fall)[..., None] * white
        hessian = scaled.mT @ slopes - self._weighted_precision(strength)
        hessian -= steep[..., :, None] * white[..., None, :]
        hessian = add_to_diagonal(hessian, tau)
        return self._value(white, levels, squared, turned), gradient, hessian

    def tangent(
        self, white: Float[Array, "*batch p"] | None = None
    ) -> tuple[Float[Array, "*batch p p"], Float[Array, "*batch p"]]:
        """Return precision and pull of the bound that touches ℓ at v, or at the centre, and lies below it.

        −log q lies above its tangent in q, so with ωⱼ = wⱼ/qⱼ(v) the wells become the quadratic A + Σ ωⱼMⱼ,
        b + Σ ωⱼmⱼ: a parameter release's posterior, whose maxima are known exactly.
        """
        strength = self.strengths(white)
        if strength.ndim < self.centre.ndim:
            strength = array_namespace(strength).broadcast_to(strength, (*self.centre.shape[:-1], self.wells))
        return self._weighted_precision(strength), self.pull + (strength[..., None, :] @ self.slopes)[..., 0, :]

    def strengths(self, white: Float[Array, "*points p"] | None) -> Float[Array, "*points k"]:
        """Return ωⱼ = wⱼ/qⱼ(v), how strongly each well pulls, at v or at the centre."""
        return self.weights / (self.levels if white is None else self.well_terms(white)[0])

    @cached_property
    def log_volume(self) -> Float[Array, "*#batch"]:
        """log |det root|: what a unit of volume in v is worth in x."""
        xp = array_namespace(self.root)
        return half_log_det(xp.linalg.cholesky(self.root @ self.root.mT))

    @cached_property
    def rounding(self) -> Any:
        """The size of ℓ's own rounding, from the weights of the logarithms that are summed."""
        xp = array_namespace(self.weights)
        return 1e-15 * (1 + abs(self.outward) + xp.sum(xp.abs(self.weights), axis=-1))

    @cached_property
    def pushes_outward(self) -> bool:
        """Whether anything pushes away from the other records: not after a single release."""
        if self.has_negative_wells:
            return True
        if not is_array_api_obj(self.outward):
            return bool(self.outward)
        return bool(array_namespace(self.outward).any(self.outward != 0))

    @cached_property
    def has_negative_wells(self) -> bool:
        """Whether some wells push away instead: after releases that were made with another prior."""
        return not all_true(self.weights >= 0)

    @property
    def closed_form(self) -> Normal | StudentT | None:
        """The posterior itself where it has a name: after a single release, nothing pushes outward."""
        xp = array_namespace(self.centre)
        if self.pushes_outward or self.wells > 1:
            return None
        if self.wells == 0:
            covariance = xp.linalg.inv(self.precision)
            mean = self.unwhiten(times(covariance, self.pull))
            return Normal(mean, self._cover(covariance))
        if not self.falls_as_a_power:
            return None
        # w·log(g + vᵀMv − 2mᵀv) is a Student t with df + p = w, centred at M⁻¹m
        scale = xp.linalg.inv(self.shapes[..., 0, :, :])
        location = times(scale, self.slopes[..., 0, :])
        floor = self.levels[..., 0] - xp.vecdot(location, self.slopes[..., 0, :])
        weight = self.weights[..., 0]
        df = (weight if weight.ndim else float(weight)) - self.p
        return StudentT(self.unwhiten(location), self._cover(scale * append_axes(floor / df, 2)), df)

    def given(self, known: tuple[int, ...], values: Float[Array, "*batch known"]) -> "LogQuadratic":
        """Return the posterior of the other features when these features (positions) have these values.

        With K the rows of root that make the known features, v = v₀ + Tz, where v₀ is the shortest solution of
        Kv = values − centre and T an orthonormal basis of K's null space. Then ‖v‖² = ‖v₀‖² + ‖z‖², the outward
        term keeps its form with c/(1 + c‖v₀‖²), quadratics stay quadratics: same family, fewer dimensions.
        """
        xp = array_namespace(self.centre)
        unknown = [position for position in range(self.p) if position not in known]
        start, across = self.split(known, values)
        squared = 1 + self.inflation * xp.vecdot(start, start)
        moved, turned, half = self.unwhiten(start), self.root @ across, across.mT
        well_slopes = times_each(self.shapes, start)
        return LogQuadratic(
            centre=xp.stack([moved[..., position] for position in unknown], axis=-1),
            root=xp.stack([turned[..., position, :] for position in unknown], axis=-2),
            df=self.df,
            outward=self.outward,
            inflation=self.inflation / squared,
            precision=half @ self.precision @ across,
            pull=times(half, self.pull - times(self.precision, start)),
            weights=self.weights,
            levels=self.levels + xp.vecdot(well_slopes - 2 * self.slopes, start[..., None, :]),
            slopes=(self.slopes - well_slopes) @ across,
            shapes=half[..., None, :, :] @ self.shapes @ across[..., None, :, :],
            own_well=self.own_well,
        )

    def split(
        self, known: tuple[int, ...], values: Float[Array, "*batch known"]
    ) -> tuple[Float[Array, "*batch p"], Float[Array, "*#batch p unknown"]]:
        """Return v₀ and T: v = v₀ + Tz are the records whose known features have these values."""
        xp = array_namespace(self.centre)
        rows = xp.stack([self.root[..., position, :] for position in known], axis=-1)
        basis, upper = xp.linalg.qr(rows, mode="complete")
        within, across = basis[..., :, : len(known)], basis[..., :, len(known) :]
        centre = xp.stack([self.centre[..., position] for position in known], axis=-1)
        lower = upper[..., : len(known), :].mT
        return times(within, xp.linalg.solve(lower, (values - centre)[..., None])[..., 0]), across

    def added_terms(self, white: Float[Array, "*batch n p"]) -> Any:
        """Return what a posterior of another family adds to ℓ at n points of each: here nothing."""
        return 0.0

    def near_maximum(self) -> Array | None:
        """Return where ℓ is highest, where that is known beforehand: not here."""
        return None

    def take(self, rows: Any) -> "LogQuadratic":
        """Return the posteriors at these positions of the batch axis, a slice without copying; at a number one."""
        held: dict[str, Any] = {name: getattr(self, name, None) for name in _AXES}
        own = {name: array for name, array in held.items() if getattr(array, "ndim", 0) > _AXES[name]}
        taken = {name: taken_rows(array, rows) for name, array in own.items() if array.shape[0] > 1}
        alike = {name: array[0, ...] for name, array in own.items() if isinstance(rows, int) and name not in taken}
        return replace(self, **taken, **alike)

    def as_batch(self) -> "LogQuadratic":
        """Return a single posterior as a batch of one."""
        own = [name for name, axes in _AXES.items() if axes and hasattr(self, name) and name != "weights"]
        return replace(self, **{name: getattr(self, name)[None, ...] for name in own})  # weights may be shared

    @cached_property
    def has_quadratic(self) -> bool:
        """Whether parameters were released: they give ℓ its quadratic."""
        return not all_true(self.precision == 0)

    def well_terms(
        self, white: Float[Array, "*points p"]
    ) -> tuple[Float[Array, "*points k"], Float[Array, "*points k p"]]:
        """Return qⱼ(v) and Gⱼ = Mⱼv − mⱼ; all wells in one matrix product."""
        slopes = times_each(self.shapes, white) - self.slopes
        return self.levels + times(slopes - self.slopes, white), slopes

    def _weighted_precision(self, strength: Float[Array, "*points k"]) -> Float[Array, "*points p p"]:
        """Return A + Σ ωⱼMⱼ."""
        return self.precision + weighted_sum(self.shapes, strength)

    def _value(
        self,
        white: Float[Array, "*points p"],
        levels: Float[Array, "*points k"],
        squared: Float[Array, "*points"],
        turned: Float[Array, "*points p"],
    ) -> Float[Array, "*points"]:
        """Return ℓ(v) from qⱼ(v), ‖v‖² and Av."""
        xp = array_namespace(white)
        bent = xp.vecdot(white, 2 * self.pull - turned)
        wells = xp.vecdot(self.weights, xp.log(levels))
        return 0.5 * (self.outward * xp.log1p(self.inflation * squared) + bent - wells)

    def _cover(self, covariance: Float[Array, "*batch p p"]) -> Float[Array, "*batch p p"]:
        covered = self.root @ covariance @ self.root.mT
        return (covered + covered.mT) / 2


# how many axes of each field are not the batch's; the last two are a plug-in posterior's
_AXES = {
    "centre": 1, "root": 2, "df": 0, "outward": 0, "inflation": 0, "precision": 2, "pull": 1,
    "weights": 1, "levels": 1, "slopes": 2, "shapes": 3, "numerator": 2, "slope": 1,
}  # fmt: skip


def stacked(posteriors: Sequence[LogQuadratic]) -> LogQuadratic:
    """Put batches of posteriors one after the other; what all of them share stays shared."""
    first, xp = posteriors[0], array_namespace(posteriors[0].centre)
    own = [name for name, axes in _AXES.items() if getattr(getattr(first, name, None), "ndim", 0) > axes]
    return replace(first, **{name: xp.concat([getattr(one, name) for one in posteriors]) for name in own})
