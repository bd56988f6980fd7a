"""Equations with positive definite matrices, many small ones at once."""

from functools import cache
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from jaxtyping import Bool, Float

from allbutone.support.arrays import array_namespace, attempt, contiguous, solve_or_nan, solve_rows

Array = Any

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
        root = xp.where(
            definite[..., None, None], root, xp.eye(root.shape[-1], dtype=root.dtype, device=root.device)
        )
        return xp.cholesky_solve(vectors[..., None], root)[..., 0], definite
    if isinstance(matrix, np.ndarray) and vectors.size:
        if vectors.size <= FEW * vectors.shape[-1] or matrix.shape[-1] > SMALL:
            return _one_by_one(matrix, vectors)
        if by_rows_pays(matrix):
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
    found = [solve(each.T, vector)[1:] for each, vector in pairs]  # turned, it has LAPACK's order of numbers
    definite = np.array([not trouble for _, trouble in found]).reshape(vectors.shape[:-1])
    return np.array([vector for vector, _ in found]).reshape(vectors.shape), definite


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
    lower, found = np.moveaxis(matrix, 0, 2).copy(), vectors.T.copy()
    scale, definite = np.empty((p, n)), np.ones(n, dtype=bool)
    for i in range(p):
        column = lower[i:, i]
        if i:
            column -= np.einsum("ijn,jn->in", lower[i:, :i], lower[i, :i])
            found[i] -= np.einsum("jn,jn->n", lower[i, :i], found[:i])
        definite &= column[0] > 0
        scale[i] = 1 / np.sqrt(column[0])
        column *= scale[i]
        found[i] *= scale[i]
    for i in reversed(range(p)):
        if i < p - 1:
            found[i] -= np.einsum("jn,jn->n", lower[i + 1 :, i], found[i + 1 :])
        found[i] *= scale[i]
    return found.T.copy(), definite


def solve_lower(root: Float[Array, "*#batch p p"], vectors: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
    """Return R⁻¹v for each vector, given lower triangular R: of many at once by rows."""
    if not (isinstance(root, np.ndarray) and root.shape[:-1] == vectors.shape and by_rows_pays(root)):
        return solve_rows(root, vectors)
    lower, found = np.moveaxis(root, 0, 2).copy(), vectors.T.copy()
    for i in range(len(found)):
        if i:
            found[i] -= np.einsum("jn,jn->n", lower[i, :i], found[:i])
        found[i] /= lower[i, i]
    return found.T.copy()


def by_rows_pays(matrix: Float[np.ndarray, "*batch p p"]) -> bool:
    """Say whether so many matrices, and so small ones, are worked on faster all at once than one by one."""
    return matrix.ndim == 3 and len(matrix) >= MANY and matrix.shape[1] <= SMALL


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
