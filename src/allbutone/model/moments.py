"""Count, mean and scatter, of all records or of those in each cell: all that the models ever see of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from array_api_compat import device, is_array_api_obj
from jaxtyping import Bool, Float, Int

from allbutone.support.arrays import (
    OF_NUMPY,
    all_true,
    append_axes,
    array_namespace,
    attempt,
    has_digits_left,
    real_array,
    require_symmetric,
    to_numpy,
    zeros,
)
from allbutone.support.errors import InputError
from allbutone.tables.records import Records, Sums

# Count, mean and scatter of a set of records: all that the normal model ever sees of them.


Array = Any  # of any array namespace: NumPy, PyTorch, CuPy, JAX, array-api-strict
Scalar = Any  # a float, or an array over the batch

USE_RECORDS = "use Moments.of(records)"
ENOUGH_LEFT = 1e-6  # of each column's variance beside the others': squares then have ten digits
BLOCK_BYTES = 1 << 20  # a block of rows and its centred copy stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Moments:
    """n, x̄ and S = Σ (xᵢ − x̄)(xᵢ − x̄)ᵀ; batch axes lead.

    `mean_tail` is what rounding `mean` to float64 lost. Without it, merging columns at mean 1e8 and unit
    variance would spoil the scatter's tenth digit; with it, nothing is lost.
    `factor` F, FFᵀ = S, comes with records whose columns nearly determine one another, or are more than the
    records: squares need twice the digits that the records themselves do.

    >>> import numpy as np
    >>> import allbutone as abo
    >>> two = abo.Moments.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> int(two.count), two.mean.tolist(), two.scatter.tolist()
    (2, [2.0, 5.0], [[2.0, 0.0], [0.0, 0.0]])
    """

    count: Scalar
    mean: Float[Array, "*batch p"]
    scatter: Float[Array, "*batch p p"]
    mean_tail: Float[Array, "*batch p"] | float = 0.0
    factor: Float[Array, "p r"] | None = None

    @classmethod
    def of(cls, records: Any) -> "Moments":
        """Summarize records, shape (n, p): an array of any namespace, a table of numbers, or what has `sums`.

        One pass over blocks of rows, each centred on the mean of the first block:
        S = Σ yᵢyᵢᵀ − n·ȳȳᵀ with yᵢ = xᵢ − origin.
        """
        if isinstance(records, Moments):
            return records
        array = isinstance(records, OF_NUMPY) or is_array_api_obj(records)
        if not array and isinstance(sums := getattr(records, "sums", None), Sums):
            return cls.of_sums(sums)
        values = records if array else Records.of_numbers(records).values
        if values.ndim != 2 or values.shape[1] == 0:
            raise InputError(f"records have shape (n, p) with p > 0, got {tuple(values.shape)}")
        values = real_array(values, "records")
        xp = array_namespace(values)
        if values.shape[0] == 0:
            return cls.none(values.shape[1], like=values)
        with np.errstate(invalid="ignore", over="ignore"):  # said below, in words
            moments = _summarize(xp, values)
        if not all_true(xp.isfinite(moments.scatter)):
            raise InputError("records hold values that are missing, infinite or too large to square")
        if moments.half is not None:
            return moments
        return replace(moments, factor=_factor(values, moments))

    @classmethod
    def of_sums(cls, sums: Sums) -> "Moments":
        """Return the moments of all records that have been added up: S = Σ yyᵀ − n·ȳȳᵀ about an origin."""
        return _of_sums(float(sums.people), sums.origin, sums.total.sum(axis=0), sums.products.sum(axis=0))

    def pooled(self) -> "Moments":
        """Return the moments of all records of a batch together, such as of all cells."""
        count = float(np.sum(self.count))
        mean = self.count @ self.mean / max(count, 1.0)
        step = self.mean - mean
        return Moments(count, mean, self.scatter.sum(axis=0) + (self.count[:, None] * step).T @ step)

    @classmethod
    def none(cls, p: int, *, like: Array) -> "Moments":
        """Return the moments of no records, in the namespace and on the device of `like`."""
        return cls(0.0, zeros(p, like=like), zeros((p, p), like=like))

    @property
    def half(self) -> Float[Array, "p r"] | None:
        """Some F with FFᵀ = S that has nearly all digits; None where it cannot be had from S alone."""
        if self.factor is not None:
            return self.factor
        xp = array_namespace(self.scatter)
        root = attempt(xp.linalg.cholesky, self.scatter)
        good = root is not None and has_digits_left(ENOUGH_LEFT, root)
        return root if good else None

    def require_possible(self) -> None:
        """Refuse what no table has: a negative count, a scatter with a negative eigenvalue, batch axes."""
        p = self.mean.shape[-1] if self.mean.ndim == 1 else 0
        if p == 0 or tuple(self.scatter.shape) != (p, p) or getattr(self.count, "ndim", 0):
            raise InputError(
                f"the moments of one table have mean (p,) and scatter (p, p), got {tuple(self.mean.shape)} and "
                f"{tuple(self.scatter.shape)}",
                USE_RECORDS,
            )
        if not 0 <= self.count < np.inf:
            raise InputError(f"moments cannot count {self.count} records", USE_RECORDS)
        require_symmetric(self.scatter, "the moments' scatter")
        spread = np.linalg.eigvalsh(to_numpy(self.scatter))
        if spread[0] < -1e-3 * spread[-1]:  # less may be rounding, where an outlier has been removed
            raise InputError(
                f"the moments' scatter has the negative eigenvalue {spread[0]:g}, which no records have",
                USE_RECORDS,
            )

    def merge(self, other: "Moments") -> "Moments":
        """Return the moments of both sets together: S = S₁ + S₂ + (n₁n₂/n)·δδᵀ, δ = x̄₂ − x̄₁.

        Of batches, such as cells, each with its own; where both have no records, all is as it was.
        """
        if self.mean.shape[-1] != other.mean.shape[-1]:
            raise InputError(f"cannot merge moments of {self.mean.shape[-1]} and {other.mean.shape[-1]} columns")
        for empty, full in ((self, other), (other, self)):
            if isinstance(empty.count, float) and empty.count == 0:
                return full
        count = self.count + other.count
        step = (other.mean - self.mean) + (other.mean_tail - self.mean_tail)
        share = other.count / _at_least_one(count)
        mean, tail = _sum_exactly(self.mean, self.mean_tail + append_axes(share, 1) * step)
        scatter = self.scatter + other.scatter + append_axes(self.count * share, 2) * _outer(step)
        return Moments(count, mean, scatter, tail)

    def without(self, some: "Moments") -> "Moments":
        """Return the moments of the records that are not among `some`, which are: the inverse of `merge`.

        S − S₂ − (n·n₂/n₁)·δδᵀ, δ = x̄₂ − x̄, of the n₁ that are left; all is 0 where none are. Batch axes lead.
        """
        left = self.count - some.count
        if np.any(to_numpy(left) < 0):
            raise InputError(f"{np.sum(some.count):g} records cannot be taken out of {np.sum(self.count):g}")
        step = (some.mean - self.mean) + (some.mean_tail - self.mean_tail)
        share, there = some.count / _at_least_one(left), left / _at_least_one(left)
        mean, tail = _sum_exactly(self.mean, self.mean_tail - append_axes(share, 1) * step)
        scatter = self.scatter - some.scatter - append_axes(self.count * share, 2) * _outer(step)
        vector = append_axes(there, 1)
        return Moments(left, vector * mean, append_axes(there, 2) * scatter, vector * tail)

    def select(self, columns: Sequence[int]) -> "Moments":
        """Return the moments of some columns, by position; of one table, or of each cell."""
        kept = list(columns)
        tail = self.mean_tail if isinstance(self.mean_tail, float) else self.mean_tail[..., kept]
        return Moments(self.count, self.mean[..., kept], self.scatter[..., kept, :][..., kept], tail)

    def add(self, record: Float[Array, "*batch p"]) -> "Moments":
        """Return the moments with one record more."""
        return self.merge(_of_one(record))

    def remove(self, record: Float[Array, "*batch p"]) -> "Moments":
        """Return the moments without one of their records: S − (n/(n−1))·δδᵀ, δ = x − x̄."""
        return self.without(_of_one(record))


def _of_one(record: Float[Array, "*batch p"]) -> Moments:
    return Moments(1.0, record, zeros((*record.shape, record.shape[-1]), like=record))


def _summarize(xp: Any, values: Float[Array, "n p"]) -> Moments:
    n, p = values.shape
    rows = min(n, max(1, BLOCK_BYTES // (8 * p)))
    ones = xp.ones(rows, dtype=xp.float64, device=device(values))
    # the mean of the first block: a product with ones is a sum at the speed of a matrix product
    origin = ones @ values[:rows, :] / rows
    total: Any = 0.0
    scatter: Any = 0.0
    for start in range(0, n, rows):
        centred = values[start : min(start + rows, n), :] - origin
        total = total + ones[: centred.shape[0]] @ centred
        scatter = scatter + centred.T @ centred
    return _of_sums(float(n), origin, total, scatter)


def _factor(values: Float[Array, "n p"], moments: Moments) -> Float[Array, "p r"]:
    """Return F with FFᵀ = S from the records themselves, by QR of blocks of rows; nothing is squared."""
    xp, (n, p) = array_namespace(values), values.shape
    rows, factor = max(p, BLOCK_BYTES // (8 * p)), zeros((0, p), like=values)
    for start in range(0, n, rows):
        centred = (values[start : min(start + rows, n), :] - moments.mean) - moments.mean_tail
        factor = xp.linalg.qr(xp.concat([factor, centred]), mode="reduced")[1]
    return factor.T


def _of_sums(n: float, origin: Array, total: Array, products: Array) -> Moments:
    """Return the moments given Σ y and Σ yyᵀ, y = x − origin."""
    shift = total / n
    mean, tail = _sum_exactly(origin, shift)
    return Moments(n, mean, products - n * _outer(shift), tail)


def _at_least_one(count: Scalar) -> Scalar:
    """Return counts that can be divided by: 1 where there are no records."""
    if isinstance(count, int | float):
        return count or 1.0
    xp = array_namespace(count)
    return xp.where(count > 0, count, xp.ones_like(count))


def _sum_exactly(large: Array, small: Array) -> tuple[Array, Array]:
    """Return the rounded sum and what the rounding lost (Knuth's two-sum)."""
    total = large + small
    part = total - large
    return total, (large - (total - part)) + (small - part)


def _outer(vector: Float[Array, "*batch p"]) -> Float[Array, "*batch p p"]:
    return vector[..., :, None] * vector[..., None, :]


# The cross-classification of categories: one cell for each combination of levels, and how a cell is coded.


UNKNOWN = -1  # in place of a level


@dataclass(frozen=True)
class Cells:
    """All combinations of levels of some categories, the last category running fastest; none make one cell."""

    sizes: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of cells."""
        return prod(self.sizes)

    @cached_property
    def codes(self) -> Int[np.ndarray, "cells q"]:
        """The level of each category in each cell."""
        return np.stack(np.unravel_index(np.arange(self.count), self.sizes or (1,)), axis=-1)[:, : len(self.sizes)]

    def of_codes(self, codes: Int[np.ndarray, "*n q"]) -> Int[np.ndarray, " *n"]:
        """Return the cell of each record; every level must be known."""
        if not self.sizes:
            return np.zeros(codes.shape[:-1], dtype=np.int64)
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(codes, -1, 0)), self.sizes))

    def agree_with(self, codes: Int[np.ndarray, "*n q"]) -> Bool[np.ndarray, "*n cells"]:
        """Say which cells each record can be in, given the levels that are known of it (−1: unknown)."""
        known = codes[..., None, :]
        return np.asarray(np.all((known == UNKNOWN) | (known == self.codes), axis=-1))

    @cached_property
    def main_effects(self) -> Float[np.ndarray, "cells r"]:
        """Each cell's z: 1, then 0 or 1 for each level of each category that has at least two.

        Every level has an effect of its own, which a proper prior allows: no level is the one that others are
        compared with, so that it does not matter in which order they stand.
        """
        parts = [np.ones((self.count, 1))]
        parts += [np.eye(size)[self.codes[:, place]] for place, size in enumerate(self.sizes) if size > 1]
        return np.concatenate(parts, axis=1)

    def marginal(self, shares: Float[np.ndarray, "*n cells"]) -> list[Float[np.ndarray, "*n levels"]]:
        """Return the shares of the levels of each category."""
        table = shares.reshape(*shares.shape[:-1], *self.sizes)
        first, found = shares.ndim - 1, []
        for place in range(len(self.sizes)):
            others = tuple(first + other for other in range(len(self.sizes)) if other != place)
            found.append(table.sum(axis=others))
        return found
