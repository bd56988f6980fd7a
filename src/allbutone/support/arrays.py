"""Arrays of any namespace: read, checked, factored and solved."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj
from jaxtyping import Float

from allbutone.support.errors import InputError

Array = Any


def to_scalar(number: Any) -> Any:
    """Return a NumPy scalar as a Python float, which arrays of every namespace accept; arrays stay arrays."""
    return float(number) if isinstance(number, np.generic) else number


def real_array(value: Any, what: str) -> Array:
    """Return `value` as float64 in its own namespace, or say that `what` is not made of real numbers."""
    if not is_array_api_obj(value):
        try:
            value = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{what} must be an array of numbers, got {type(value).__name__}: {error}") from error
    xp = array_namespace(value)
    if not xp.isdtype(value.dtype, ("integral", "real floating")):
        raise InputError(f"{what} must hold real numbers, got dtype {value.dtype}; convert to float64")
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{what} is a masked array, which hides values; complete it and pass its data")
    with np.errstate(over="ignore"):  # a longdouble too large becomes infinite, which is refused where it matters
        return xp.astype(value, xp.float64, copy=False)


def require_symmetric(matrix: Float[Array, "*batch p p"], what: str) -> None:
    """Refuse a matrix that is not finite and symmetric; a Cholesky factor reads only one triangle."""
    xp = array_namespace(matrix)
    if not bool(xp.all(xp.isfinite(matrix))):
        raise InputError(f"{what} must hold finite numbers")
    asymmetry = xp.abs(matrix - xp.matrix_transpose(matrix))
    if bool(xp.any(asymmetry > 1e-8 * xp.max(xp.abs(matrix), axis=(-2, -1), keepdims=True))):
        raise InputError(f"{what} must be a symmetric matrix; make it (A + A.T) / 2")


def cholesky(matrix: Float[Array, "*batch p p"], what: str) -> Float[Array, "*batch p p"]:
    """Return the lower triangular R with RRᵀ = matrix, or say that `what` is not positive definite."""
    xp = array_namespace(matrix)
    try:
        root = xp.linalg.cholesky(matrix)
        good = bool(xp.all(xp.isfinite(root)))
    except Exception as error:
        # every namespace has an error of its own for this; anything else is not ours to explain
        if "LinAlg" not in type(error).__name__:
            raise
        good = False
    if not good:
        raise InputError(
            f"{what} must be a positive definite matrix; raise its diagonal, or drop a column that repeats others"
        )
    return root


def squared_length(root: Float[Array, "*#batch p p"], vectors: Float[Array, "*batch p"]) -> Float[Array, "*batch"]:
    """Return vᵀ(RRᵀ)⁻¹v = ‖R⁻¹v‖² for each vector v, given the Cholesky factor R."""
    xp = array_namespace(vectors)
    white = solve_rows(root, vectors)
    return xp.sum(white * white, axis=-1)


def solve_rows(matrix: Float[Array, "*#batch p p"], vectors: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
    """Return matrix⁻¹v for each vector v; one matrix for all is factored once."""
    xp = array_namespace(vectors)
    if matrix.ndim == 2:
        flat = xp.reshape(vectors, (-1, vectors.shape[-1]))
        return xp.reshape(xp.linalg.solve(matrix, flat.T).T, vectors.shape)
    return xp.linalg.solve(matrix, vectors[..., None])[..., 0]


def half_log_det(root: Float[Array, "*batch p p"]) -> Float[Array, "*batch"]:
    """Return ½·log|RRᵀ| from the triangular factor R."""
    xp = array_namespace(root)
    return xp.sum(xp.log(xp.linalg.diagonal(root)), axis=-1)
