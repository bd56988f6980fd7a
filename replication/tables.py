"""The paper's simulated tables at p = 2, with R's recycled mean or the right one, without drawing a record.

R subtracts a vector from a matrix down the columns. So `X - colMeans(X)` takes from row i, counted from 0, of a
matrix with m rows and two columns the means (x̄[i mod 2], x̄[(i + m) mod 2]) instead of (x̄[0], x̄[1]). The scatter
that follows depends on the records only through the means of the rows of each parity and the scatter within them,
which are independent normal and Wishart: three draws stand for all records.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CENTRE, VARIANCE, TARGET = 1.0, 3.0, 20.0
PRIOR_MEAN, PRIOR_WEIGHT, PRIOR_DF = 1.1, 1.0, 4.0  # and the identity for the scale

Pair = tuple[np.ndarray, np.ndarray]  # a vector with two entries, of each replicate
Symmetric = tuple[np.ndarray, np.ndarray, np.ndarray]  # a symmetric matrix: its entries 11, 12 and 22


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one parity (0: the first, third, … of the matrix) with their mean."""

    count: int
    mean: Pair
    parity: int


def subtracted(mean: Pair, parity: int, rows: int, recycled: bool) -> Pair:
    """Return what R takes from a row of this parity, of so many: both means, or one of them twice."""
    return (mean[parity], mean[(parity + rows) % 2]) if recycled else mean


def mean_of(parts: Sequence[Part]) -> Pair:
    """Return the mean of all rows."""
    rows = sum(part.count for part in parts)
    first, second = (sum(part.count * part.mean[at] for part in parts) / rows for at in (0, 1))
    return first, second


def scatter_of(parts: Sequence[Part], within: Symmetric, recycled: bool) -> Symmetric:
    """Return Σ (x − x̄)(x − x̄)ᵀ as R computes it, from the scatter within the parts and their means."""
    rows, mean = sum(part.count for part in parts), mean_of(parts)
    found = within
    for part in parts:
        taken = subtracted(mean, part.parity, rows, recycled)
        rest = part.mean[0] - taken[0], part.mean[1] - taken[1]
        found = added(found, outer(rest), part.count)
    return found


def outer(vector: Pair) -> Symmetric:
    """Return vvᵀ."""
    return vector[0] * vector[0], vector[0] * vector[1], vector[1] * vector[1]


def added(one: Symmetric, other: Symmetric, weight: float | np.ndarray = 1.0) -> Symmetric:
    """Return A + w·B."""
    return one[0] + weight * other[0], one[1] + weight * other[1], one[2] + weight * other[2]


@dataclass(frozen=True, eq=False)
class Crowd:
    """The others of many replicates: their odd and even rows."""

    odd: Pair
    even: Pair
    within: Symmetric
    count: int

    @classmethod
    def drawn(cls, count: int, size: int, rng: np.random.Generator) -> "Crowd":
        """Draw so many records from N((1, 1), 3I), for each of `size` replicates."""
        odd, even = (
            tuple(CENTRE + np.sqrt(VARIANCE / rows) * rng.standard_normal((2, size)))
            for rows in (count - count // 2, count // 2)
        )
        root = np.sqrt(VARIANCE)
        return cls(odd, even, squared(wishart_root(count - 2, (size,), rng), (root, 0.0, root)), count)

    def parts(self, shift: int) -> list[Part]:
        """Return its rows where `shift` others stand before them in the matrix."""
        half = self.count // 2
        return [Part(self.count - half, self.odd, shift % 2), Part(half, self.even, (shift + 1) % 2)]


def wishart_root(df: int, shape: tuple[int, ...], rng: np.random.Generator) -> Symmetric:
    """Return the entries 11, 21 and 22 of a lower triangular L with LLᵀ ~ Wishart(df, I), after Bartlett."""
    return np.sqrt(rng.chisquare(df, shape)), rng.standard_normal(shape), np.sqrt(rng.chisquare(df - 1, shape))


def squared(root: Symmetric, by: tuple = (1.0, 0.0, 1.0)) -> Symmetric:
    """Return (BL)(BL)ᵀ of two lower triangular matrices."""
    first, low = by[0] * root[0], by[1] * root[0] + by[2] * root[1]
    last = by[2] * root[2]
    return first * first, first * low, low * low + last * last


def cholesky(matrix: Symmetric) -> Symmetric:
    """Return the entries 11, 21 and 22 of the lower triangular root."""
    first = np.sqrt(matrix[0])
    low = matrix[1] / first
    return first, low, np.sqrt(matrix[2] - low * low)


def inverse(matrix: Symmetric) -> tuple[Symmetric, np.ndarray]:
    """Return the inverse and the determinant."""
    determinant = matrix[0] * matrix[2] - matrix[1] * matrix[1]
    return (matrix[2] / determinant, -matrix[1] / determinant, matrix[0] / determinant), determinant


def times(matrix: Symmetric, vector: Pair) -> Pair:
    """Return the product of a matrix and a vector."""
    return matrix[0] * vector[0] + matrix[1] * vector[1], matrix[1] * vector[0] + matrix[2] * vector[1]
