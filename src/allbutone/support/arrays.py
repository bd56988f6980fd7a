"""Arrays of any namespace on any device: read, made, checked, factored and solved, many small systems at once."""

from collections.abc import Callable
from functools import cache
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import (
    device,
    is_array_api_obj,
    is_array_api_strict_namespace,
    is_numpy_array,
    is_torch_array,
    to_device,
)
from jaxtyping import Bool, Float

from allbutone.support.errors import Cure, InputError

Array = Any

OF_NUMPY = (np.ndarray, np.generic)  # asked of most arrays there are: a tuple takes a third of a union's time
LEAST_LEFT = 1e-12  # of a column's variance beside the others': solving with less costs more than twelve digits
LEAST_VARIANCE = 1e-305  # squares of smaller numbers lose digits: float64 ends at 2e-308
MANY_ROWS = 1 << 12  # from which on a triangular matrix is solved with as such, in a third of the time
MOST_EIGH = 1 << 13  # matrices at a time: for more, CUDA's solver takes much memory, and beyond 2¹⁶ it fails


def array_namespace(*arrays: Any) -> Any:
    """Return the namespace of arrays: for NumPy's NumPy itself, which needs no wrapper around each function."""
    for array in arrays:
        if not isinstance(array, OF_NUMPY):
            return array_api_compat.array_namespace(*arrays)
    return np


def to_numpy(value: Any) -> np.ndarray:
    """Return an array of any namespace, or a number, as a NumPy array, from whatever device it is on."""
    if not isinstance(value, OF_NUMPY) and is_array_api_obj(value):
        xp = array_namespace(value)
        value = to_device(value, xp.Device("CPU_DEVICE") if is_array_api_strict_namespace(xp) else "cpu")
    return np.asarray(value)


def as_array(value: Any, *, like: Array) -> Array:
    """Return what NumPy can read in the namespace and on the device of `like`; other arrays are there already."""
    if not isinstance(value, OF_NUMPY) and is_array_api_obj(value):
        return value
    array = np.asarray(value)
    if isinstance(like, OF_NUMPY):
        return array
    # PyTorch shares the memory where it can, and warns of what must not be written to
    return array_namespace(like).asarray(array if array.flags.writeable else array.copy(), device=device(like))


def as_places(rising: np.ndarray, *, like: Array) -> Any:
    """Return rising positions of arrays such as `like`: a slice, which copies nothing, where none is left out."""
    first, last = int(rising[0]), int(rising[-1])
    return slice(first, last + 1) if last - first + 1 == len(rising) else as_array(rising, like=like)


def zeros(shape: int | tuple[int, ...], *, like: Array) -> Array:
    """Return float64 zeros in the namespace and on the device of `like`."""
    if isinstance(like, OF_NUMPY):
        return np.zeros(shape)
    xp = array_namespace(like)
    return xp.zeros(shape, dtype=xp.float64, device=device(like))


def eye(p: int, *, like: Array) -> Float[Array, "p p"]:
    """Return the float64 identity in the namespace and on the device of `like`."""
    if isinstance(like, OF_NUMPY):
        return np.eye(p)
    xp = array_namespace(like)
    return xp.eye(p, dtype=xp.float64, device=device(like))


def contiguous(array: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return the array with its numbers in the order of its axes, where a namespace lets us say so."""
    if is_numpy_array(array):
        return np.ascontiguousarray(array)
    return array.contiguous() if hasattr(array, "contiguous") else array


def sum_of_products(one: Array, other: Array, axis: int) -> Array:
    """Return Σ one·other along an axis; NumPy does it without holding the products."""
    if not is_numpy_array(one):
        return array_namespace(one).sum(one * other, axis=axis)
    axes = [*range(one.ndim)]
    return np.einsum(one, axes, other, axes[one.ndim - other.ndim :], [*axes[:axis], *axes[axis + 1 :]])


def add_to_diagonal(matrix: Float[Array, "*batch p p"], number: Float[Array, "*#batch"]) -> Array:
    """Return a matrix, which may be changed in place, with a number added to its diagonal."""
    if not is_numpy_array(matrix):
        return matrix + append_axes(number, 2) * eye(matrix.shape[-1], like=matrix)
    np.einsum("...ii->...i", matrix)[...] += number[..., None]
    return matrix


def append_axes(scalar: Any, axes: int) -> Any:
    """Give a batch of numbers `axes` trailing axes, so that it scales vectors (1) or matrices (2)."""
    array = isinstance(scalar, OF_NUMPY) or is_array_api_obj(scalar)
    return scalar[(..., *(None,) * axes)] if array else scalar


def by_numpy(function: Callable[..., Any], *numbers: Any) -> Any:
    """Return a function of NumPy's or SciPy's at numbers or batches of them, where the batches are.

    Numbers give a Python float, which arrays of every namespace accept.
    """
    results = function(*(to_numpy(number) for number in numbers))
    arrays = [number for number in numbers if is_array_api_obj(number)]
    return as_array(results, like=arrays[0]) if arrays else float(results)


def real_array(value: Any, what: str) -> Array:
    """Return `value` as float64 in its own namespace, or say that `what` is not made of real numbers."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    if not is_array_api_obj(value):
        try:
            value = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{what} must be an array of numbers, got {type(value).__name__}: {error}") from error
    xp = array_namespace(value)
    if not xp.isdtype(value.dtype, ("integral", "real floating")):
        raise InputError(f"{what} must hold real numbers, got dtype {value.dtype}", "convert to float64")
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{what} is a masked array, which hides values", "complete it and pass its data")
    value = np.asarray(value) if isinstance(value, np.ndarray) else value  # a matrix stays one, by its own rules
    with np.errstate(over="ignore"):  # a longdouble too large becomes infinite, which is refused where it matters
        return xp.astype(value, xp.float64, copy=False)


def require_symmetric(matrix: Float[Array, "*batch p p"], what: str) -> None:
    """Refuse a matrix that is not finite and symmetric; a Cholesky factor reads only one triangle."""
    xp = array_namespace(matrix)
    if not all_true(xp.isfinite(matrix)):
        raise InputError(f"{what} must hold finite numbers")
    asymmetry = xp.abs(matrix - matrix.mT)
    if all_true(asymmetry == 0):  # the usual case, and asking for more takes longer
        return
    if bool(xp.any(asymmetry > 1e-8 * xp.max(xp.abs(matrix), axis=(-2, -1), keepdims=True))):
        raise InputError(f"{what} must be a symmetric matrix", "make it (A + A.T) / 2")


def cholesky(matrix: Float[Array, "*batch p p"], what: str) -> Float[Array, "*batch p p"]:
    """Return the lower triangular R with RRᵀ = matrix, or say that `what` is not positive definite."""
    xp = array_namespace(matrix)
    root = attempt(xp.linalg.cholesky, matrix)
    if root is None or not all_true(xp.isfinite(root)):
        raise InputError(
            f"{what} must be a positive definite matrix",
            "raise its diagonal",
            Cure("drop a column that repeats others", "drop"),
        )
    require_digits(root, what)
    return root


def has_digits_left(least: float, root: Float[Array, "*batch p p"]) -> bool:
    """Say whether earlier columns leave more than this share of each column's variance unexplained: Rᵢᵢ²/Σⱼ Rᵢⱼ².

    Rounding a matrix to sixteen digits moves what is solved with it by about 1e-16 over this share; the units of
    the columns do not matter.
    """
    # of the sizes themselves, since squares of small numbers vanish
    return all_true(array_namespace(root).linalg.diagonal(root) > least**0.5 * _lengths_of_rows(root))


def _lengths_of_rows(matrix: Float[Array, "*batch r p"]) -> Float[Array, "*batch r"]:
    xp = array_namespace(matrix)
    return xp.sqrt(xp.vecdot(matrix, matrix))


def all_true(flags: Array) -> bool:
    """Say whether all flags are raised: of NumPy's in half the time of its function."""
    return bool(flags.all() if isinstance(flags, OF_NUMPY) else array_namespace(flags).all(flags))


def require_digits(root: Float[Array, "*batch p p"], what: str, least: float = LEAST_LEFT) -> None:
    """Refuse a factored matrix in which rounding leaves no digits: columns that repeat others, or tiny ones."""
    if not has_digits_left(least, root):
        raise InputError(
            f"{what} has columns that determine one another so nearly that sixteen digits do not tell them apart",
            Cure("drop a column that repeats others", "drop"),
            "correct values that are out of all proportion",
        )
    require_variance(root, what)


def require_variance(root: Float[Array, "*batch p p"], what: str) -> None:
    """Refuse a factored matrix of which a column is so small that its squares lose digits."""
    if not all_true(_lengths_of_rows(root) >= LEAST_VARIANCE**0.5):
        raise InputError(
            f"{what} has a column whose variance is below {LEAST_VARIANCE:g}, where digits are lost",
            "write the column in a smaller unit",
        )


def attempt(function: Callable[..., Array], *arrays: Array) -> Array | None:
    """Return the function's result, or None where linear algebra finds no answer."""
    try:
        return function(*arrays)
    except Exception as error:
        # every namespace has an error of its own for this; anything else is not ours to explain
        if "LinAlg" not in type(error).__name__:
            raise
        return None


def solve_or_nan(
    matrix: Float[Array, "*batch p p"], vectors: Float[Array, "*batch p"]
) -> Float[Array, "*batch p"]:
    """Return matrix⁻¹v for each vector, NaN for those whose matrix is singular."""
    return _each_or_nan(array_namespace(matrix).linalg.solve, matrix, vectors[..., None])[..., 0]


def inverse_or_nan(matrix: Float[Array, "*batch p p"]) -> Float[Array, "*batch p p"]:
    """Return the inverse of each matrix, NaN for those that are singular."""
    return _each_or_nan(array_namespace(matrix).linalg.inv, matrix)


def _each_or_nan(function: Callable[..., Array], *arrays: Array) -> Array:
    """Return a function of a batch, in the shape of the last array; one by one where it fails for some."""
    results = attempt(function, *arrays)
    if results is not None:
        return results
    xp = array_namespace(*arrays)
    if arrays[0].ndim == 2:
        return xp.full_like(arrays[-1], xp.nan)
    each = zip(*([array[row, ...] for row in range(array.shape[0])] for array in arrays), strict=True)
    return xp.stack([_each_or_nan(function, *one) for one in each])


def eigh_or_nan(matrix: Float[Array, "*batch p p"]) -> tuple[Float[Array, "*batch p"], Float[Array, "*batch p p"]]:
    """Return eigenvalues and eigenvectors of symmetric matrices, NaN values for those that are not finite."""
    xp = array_namespace(matrix)
    finite = xp.isfinite(matrix)
    if all_true(finite):
        return eigh(matrix)
    finite = xp.all(finite, axis=(-2, -1))
    values, vectors = eigh(xp.where(finite[..., None, None], matrix, eye(matrix.shape[-1], like=matrix)))
    return xp.where(finite[..., None], values, xp.nan), vectors


def eigh(matrix: Float[Array, "*batch p p"]) -> tuple[Float[Array, "*batch p"], Float[Array, "*batch p p"]]:
    """Return eigenvalues and eigenvectors of symmetric matrices, as many at a time as a device can."""
    xp = array_namespace(matrix)
    if isinstance(matrix, OF_NUMPY) or matrix.ndim != 3 or matrix.shape[0] <= MOST_EIGH:
        return xp.linalg.eigh(matrix)
    parts = [xp.linalg.eigh(matrix[at : at + MOST_EIGH, ...]) for at in range(0, matrix.shape[0], MOST_EIGH)]
    values, vectors = zip(*parts, strict=True)
    return xp.concat(values), xp.concat(vectors)


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
        if isinstance(flat, np.ndarray) and len(flat) >= MANY_ROWS and not np.triu(matrix, 1).any():
            from scipy.linalg.lapack import dtrtrs  # which takes a while to load

            return dtrtrs(matrix, flat.T, lower=1)[0].T.reshape(vectors.shape)
        return xp.reshape(xp.linalg.solve(matrix, flat.T).T, vectors.shape)
    return xp.linalg.solve(matrix, vectors[..., None])[..., 0]


def log_sum_exp(values: Float[Array, "*shape"], axis: int) -> Float[Array, "*left"]:
    """Return log Σ exp along an axis: SciPy's knows more cases, and is several times slower on small arrays."""
    xp = array_namespace(values)
    top = xp.max(values, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", under="ignore", invalid="ignore"):
        return xp.log(xp.sum(xp.exp(values - top), axis=axis)) + xp.squeeze(top, axis=axis)


def half_log_det(root: Float[Array, "*batch p p"]) -> Float[Array, "*batch"]:
    """Return ½·log|RRᵀ| from the triangular factor R."""
    xp = array_namespace(root)
    return xp.sum(xp.log(xp.linalg.diagonal(root)), axis=-1)


# Equations with positive definite matrices, many small ones at once.


FEW = 8  # matrices up to which LAPACK is called directly
MANY = 64  # from which on a batch is faster by rows, all matrices at once
SMALL = 24  # columns up to which it is; beyond, the calls themselves cost nothing beside the work


def solve_definite(
    matrix: Float[Array, "*batch p p"], vectors: Float[Array, "*batch p"]
) -> tuple[Float[Array, "*batch p"], Bool[Array, "*batch"]]:
    """Return matrix⁻¹v for each vector, and which of the matrices are positive definite; of others anything."""
    xp = array_namespace(matrix, vectors)
    if is_torch_array(matrix):
        root, definite = _factored(matrix)
        root = xp.where(definite[..., None, None], root, eye(root.shape[-1], like=root))
        return xp.cholesky_solve(vectors[..., None], root)[..., 0], definite
    if isinstance(matrix, np.ndarray) and vectors.size:
        if vectors.size <= FEW * vectors.shape[-1] or matrix.shape[-1] > SMALL:
            return _one_by_one(matrix, vectors)
        if matrix.ndim == 3 and len(matrix) >= MANY:
            return _by_rows(matrix, vectors)
    if matrix.ndim == 2:  # one alone has a Cholesky factor, or an error that says that it has none
        definite = xp.all(matrix == matrix) & (attempt(xp.linalg.cholesky, matrix) is not None)
        return solve_or_nan(matrix, vectors), definite
    return solve_or_nan(matrix, vectors), is_definite(matrix)


def _factored(matrix: Float[Array, "*batch p p"]) -> tuple[Float[Array, "*batch p p"], Bool[Array, "*batch"]]:
    """Return the Cholesky factors of PyTorch's tensors, whose factorisation says of each whether it has one."""
    xp = array_namespace(matrix)
    root, trouble = xp.linalg.cholesky_ex(matrix)
    return root, (trouble == 0) & xp.all(xp.isfinite(xp.linalg.diagonal(root)), axis=-1)


def _one_by_one(
    matrix: Float[np.ndarray, "*batch p p"], vectors: Float[np.ndarray, "*batch p"]
) -> tuple[Float[np.ndarray, "*batch p"], Bool[np.ndarray, "*batch"]]:
    """Call LAPACK itself, for a few: NumPy and SciPy take longer to prepare the call than the call takes.

    Or for large ones: one factor answers both questions.
    """
    solve, p = _lapack().dposv, vectors.shape[-1]
    pairs = zip(matrix.reshape(-1, p, p), vectors.reshape(-1, p), strict=True)
    solutions = [solve(each.T, vector)[1:] for each, vector in pairs]  # turned, it has LAPACK's order of numbers
    definite = np.array([not trouble for _, trouble in solutions]).reshape(vectors.shape[:-1])
    return np.array([vector for vector, _ in solutions]).reshape(vectors.shape), definite


@cache
def _lapack() -> Any:
    from scipy.linalg import lapack  # which takes a while to load

    return lapack


@np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore")  # of those that are not definite
def _by_rows(
    matrix: Float[np.ndarray, "n p p"], vectors: Float[np.ndarray, "n p"]
) -> tuple[Float[np.ndarray, "n p"], Bool[np.ndarray, " n"]]:
    """Factor, substitute forward and back; every operation is done for all matrices, on the last axis."""
    n, p = vectors.shape
    lower, solutions = np.moveaxis(matrix, 0, 2).copy(), vectors.T.copy()
    scale, definite = np.empty((p, n)), np.ones(n, dtype=bool)
    for i in range(p):
        column = lower[i:, i]
        if i:
            column -= np.einsum("ijn,jn->in", lower[i:, :i], lower[i, :i])
            solutions[i] -= np.einsum("jn,jn->n", lower[i, :i], solutions[:i])
        definite &= column[0] > 0
        scale[i] = 1 / np.sqrt(column[0])
        column *= scale[i]
        solutions[i] *= scale[i]
    for i in reversed(range(p)):
        if i < p - 1:
            solutions[i] -= np.einsum("jn,jn->n", lower[i + 1 :, i], solutions[i + 1 :])
        solutions[i] *= scale[i]
    return solutions.T.copy(), definite


def is_definite(matrix: Float[Array, "*batch p p"]) -> Bool[Array, "*batch"]:
    """Say which matrices are positive definite: those whose pivots all are. An eighth of the time of `eigh`."""
    xp, p = array_namespace(matrix), matrix.shape[-1]
    if is_torch_array(matrix):
        return _factored(matrix)[1]
    if isinstance(matrix, np.ndarray) and (p > SMALL or matrix.ndim == 2):
        factor = _lapack().dpotrf
        return np.array([not factor(each.T)[1] for each in matrix.reshape(-1, p, p)]).reshape(matrix.shape[:-2])
    definite = matrix[..., 0, 0] > 0
    while matrix.shape[-1] > 1:
        pivot = xp.where(definite, matrix[..., 0, 0], xp.inf)
        column = matrix[..., 1:, 0]
        matrix = matrix[..., 1:, 1:] - column[..., :, None] * (column / pivot[..., None])[..., None, :]
        definite = definite & (matrix[..., 0, 0] > 0)
    return definite


def root_of_inverse(
    matrix: Float[Array, "*batch p p"],
) -> tuple[Float[Array, "*batch p p"], Float[Array, "*batch p p"]]:
    """Return the Cholesky factor R of the inverse, RRᵀ = A⁻¹, and R⁻¹; the matrices are positive definite.

    The factor of A with its order turned around is that of A = UUᵀ, U upper triangular; then R = U⁻ᵀ.
    """
    xp, p = array_namespace(matrix), matrix.shape[-1]
    upper = xp.flip(xp.linalg.cholesky(xp.flip(matrix, axis=(-2, -1))), axis=(-2, -1))
    inverse = contiguous(upper.mT)
    if not isinstance(matrix, np.ndarray) or p <= SMALL:
        return xp.linalg.inv(inverse), inverse
    invert = _lapack().dtrtri
    # LAPACK's order of numbers is the transpose's, an upper triangle
    return np.stack([invert(each.T)[0].T for each in inverse.reshape(-1, p, p)]).reshape(matrix.shape), inverse
