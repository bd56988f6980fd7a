"""Real rows beside those of many datasets, block by block: Kolmogorov-Smirnov and logistic propensity scores."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.moments import Moments
from allbutone.support.arrays import cholesky, solve_rows
from allbutone.support.parallel import in_parallel
from allbutone.utility.kolmogorov_smirnov import ks_numerators
from allbutone.utility.propensity import Propensity, propensity

BLOCK_VALUES = 1 << 19  # numbers of datasets and real table compared at a time by a thread


def whitener(real: Moments, scatters: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the real mean and a root of the average covariance; propensity scores are the same in any units."""
    synthetic = np.mean(scatters / (rows[:, None, None] - 1), axis=0)
    covariance = real.scatter / (real.count - 1) + synthetic
    scale = np.sqrt(np.diagonal(covariance))
    root = cholesky(covariance / scale / scale[:, None], "the correlation matrix of the columns")
    return real.mean, scale[:, None] * root


def compare(
    real: Float[np.ndarray, "n p"],
    datasets: list[np.ndarray],
    rows: Int[np.ndarray, " k"],
    mean_and_root: tuple[np.ndarray, np.ndarray],
) -> tuple[Int[np.ndarray, "k p"], Propensity]:
    """Return n·rows·D of each dataset and column, and the propensity scores of each dataset."""
    mean, root = mean_and_root
    ordered = np.sort(real.T, axis=1)
    white = solve_rows(root, real - mean).T

    def compared(block: np.ndarray) -> tuple[np.ndarray, Propensity]:
        data = np.stack([datasets[number].T for number in block])
        seen = np.stack([ks_numerators(ordered[c], data[:, c]) for c in range(data.shape[1])], axis=1)
        return seen, propensity(white, np.linalg.solve(root, data - mean[:, None]))

    numerators = np.empty((len(datasets), real.shape[1]), dtype=np.int64)
    error, finite = np.empty(len(datasets)), np.empty(len(datasets), dtype=bool)
    blocks = list(_blocks(rows, *real.shape))
    for block, (seen, scores) in zip(blocks, in_parallel(compared, blocks), strict=True):
        numerators[block], error[block], finite[block] = seen, scores.mean_squared_error, scores.finite
    return numerators, Propensity(error, finite)


def _blocks(rows: Int[np.ndarray, " k"], n: int, p: int) -> Iterator[np.ndarray]:
    """Yield the numbers of datasets of one size, as many as are compared at a time."""
    for size in np.unique(rows):
        numbers = np.flatnonzero(rows == size)
        most = max(1, BLOCK_VALUES // ((p + 1) * (n + int(size))))
        yield from (numbers[start : start + most] for start in range(0, len(numbers), most))
