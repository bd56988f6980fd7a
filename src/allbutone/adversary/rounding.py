"""How far rounding to sixteen digits can have moved a mode."""

from typing import Any

from jaxtyping import Float

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes
from allbutone.support.arrays import all_true, append_axes, array_namespace, inverse_or_nan

Array = Any

EPSILON = 2.0**-52
NEGLIGIBLE = 1e-9  # a relative error of the matrices that moves no mode by a thousandth of a deviation


def mode_error(
    problem: LogQuadratic, modes: Modes, covariance: Float[Array, "*batch p p"], whole: LogQuadratic
) -> Float[Array, "*batch"]:
    """Return about how many posterior standard deviations rounding can have moved the mode; NaN if nobody knows.

    Λ and the released covariances are held to a relative error ε, and solving with them multiplies it by their
    inflation factor f. So each term of ∇ℓ, which cancel at the mode, is off by δg = εf·|term|, and the mode by
    (−∇²ℓ)⁻¹δg; besides, the centre itself is off by ε|centre|. `whole` is the problem before features were known,
    `covariance` (−∇²ℓ)⁻¹ at the mode.
    """
    xp = array_namespace(covariance)
    inverse = inverse_or_nan(problem.root)
    moved = EPSILON * _times(xp.abs(inverse), xp.abs(problem.centre))
    error = xp.sqrt(_form(xp.abs(modes.hessian), moved))
    share = EPSILON * (1 + _inflation(whole, inverse if whole is problem else inverse_or_nan(whole.root)))
    if all_true(share < NEGLIGIBLE):
        return error
    return error + share * xp.sqrt(_form(xp.abs(covariance), _terms(problem, modes.best)))


def _inflation(problem: LogQuadratic, inverse: Float[Array, "*#batch p p"]) -> Float[Array, "*#batch"]:
    """Return the largest Λᵢᵢ(Λ⁻¹)ᵢᵢ, a column's variance over its variance given all others; and the release's.

    A matrix in float64 knows each column to a relative error ε of its whole variance, so what is left of it beside
    the other columns it knows to ε times this factor.
    """
    xp, root, precision = array_namespace(problem.root), problem.root, problem.precision
    factor = xp.max(xp.vecdot(root, root) * xp.vecdot(inverse, inverse, axis=-2), axis=-1)
    if not problem.has_quadratic:
        return factor
    narrow = xp.vecdot(inverse, precision @ inverse, axis=-2)
    wide = xp.vecdot(root @ inverse_or_nan(precision), root)
    return factor + xp.max(xp.abs(narrow * wide), axis=-1)


def _terms(problem: LogQuadratic, white: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
    """Return the sum of the absolute terms of ∇ℓ; a well's |M||v| from its diagonal, M being positive."""
    xp = array_namespace(white)
    size = xp.abs(white)
    squared = xp.vecdot(white, white)
    tau = problem.outward * problem.inflation / (1 + problem.inflation * squared)
    terms = append_axes(tau, 1) * size + _times(xp.abs(problem.precision), size) + xp.abs(problem.pull)
    strength = xp.abs(problem.strengths(white))
    diagonal = xp.sqrt(xp.abs(xp.linalg.diagonal(problem.shapes)))
    along = xp.vecdot(diagonal, size[..., None, :])
    wells = (strength * along)[..., None] * diagonal + strength[..., None] * xp.abs(problem.slopes)
    return terms + xp.sum(wells, axis=-2)


def _times(matrix: Float[Array, "*#batch p p"], vector: Float[Array, "*#batch p"]) -> Float[Array, "*#batch p"]:
    return (matrix @ vector[..., None])[..., 0]


def _form(matrix: Float[Array, "*#batch p p"], vector: Float[Array, "*#batch p"]) -> Float[Array, "*#batch"]:
    return array_namespace(vector).vecdot(vector, _times(matrix, vector))
