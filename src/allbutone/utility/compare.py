"""Real rows beside those of many datasets, block by block: Kolmogorov-Smirnov and logistic propensity scores."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.moments import Moments
from allbutone.support.arrays import cholesky, solve_rows
from allbutone.support.parallel import in_parallel
from allbutone.utility.kolmogorov_smirnov import ks_numerators, ks_p_values
from allbutone.utility.propensity import Propensity, propensity

BLOCK_VALUES = 1 << 19  # numbers of datasets and real table compared at a time by a thread


def whitener(real: Moments, scatters: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the real mean and a root of the average covariance; propensity scores are the same in any units."""
    synthetic = np.mean(scatters / (rows[:, None, None] - 1), axis=0)
    covariance = real.scatter / (real.count - 1) + synthetic
    scale = np.sqrt(np.diagonal(covariance))
    root = cholesky(covariance / scale / scale[:, None], "the correlation matrix of the columns")
    return real.mean, scale[:, None] * root


def kolmogorov_smirnov(
    real: Float[np.ndarray, "n p"], datasets: list[np.ndarray], rows: Int[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, "k p"], Float[np.ndarray, "k p"]]:
    """Return D and p of each dataset and column, without gaps."""
    ordered = np.sort(real.T, axis=1)

    def compared(block: np.ndarray) -> np.ndarray:
        data = np.stack([datasets[number].T for number in block])
        return np.stack([ks_numerators(ordered[c], data[:, c]) for c in range(data.shape[1])], axis=1)

    numerators = np.empty((len(datasets), real.shape[1]), dtype=np.int64)
    blocks = list(_blocks(rows, *real.shape))
    for block, seen in zip(blocks, in_parallel(compared, blocks), strict=True):
        numerators[block] = seen
    return numerators / (len(real) * rows[:, None]), ks_p_values(len(real), rows, numerators)


def propensities(
    real: Float[np.ndarray, "n d"],
    datasets: list[np.ndarray],
    rows: Int[np.ndarray, " k"],
    mean_and_root: tuple[np.ndarray, np.ndarray],
) -> Propensity:
    """Return the propensity scores of each dataset."""
    mean, root = mean_and_root
    white = solve_rows(root, real - mean).T

    def compared(block: np.ndarray) -> Propensity:
        data = np.stack([datasets[number].T for number in block])
        return propensity(white, np.linalg.solve(root, data - mean[:, None]))

    error, finite = np.empty(len(datasets)), np.empty(len(datasets), dtype=bool)
    blocks = list(_blocks(rows, *real.shape))
    for block, scores in zip(blocks, in_parallel(compared, blocks), strict=True):
        error[block], finite[block] = scores.mean_squared_error, scores.finite
    return Propensity(error, finite)


def _blocks(rows: Int[np.ndarray, " k"], n: int, p: int) -> Iterator[np.ndarray]:
    """Yield the numbers of datasets of one size, as many as are compared at a time."""
    for size in np.unique(rows):
        numbers = np.flatnonzero(rows == size)
        most = max(1, BLOCK_VALUES // ((p + 1) * (n + int(size))))
        yield from (numbers[start : start + most] for start in range(0, len(numbers), most))
