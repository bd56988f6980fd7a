"""The adversary's score at p = 2 for many replicates at once, with any of the three causes, and its gradient."""

from dataclasses import dataclass, fields

import numpy as np

from allbutone.paper.design import Cell
from replication.tables import (
    PRIOR_DF,
    PRIOR_MEAN,
    PRIOR_WEIGHT,
    TARGET,
    Crowd,
    Pair,
    Part,
    Symmetric,
    added,
    cholesky,
    inverse,
    mean_of,
    outer,
    scatter_of,
    squared,
    subtracted,
    times,
    wishart_root,
)

_EYE: Symmetric = (np.float64(1.0), np.float64(0.0), np.float64(1.0))


@dataclass(frozen=True)
class Causes:
    """What was done otherwise than the paper says; by default nothing."""

    recycled_mean: bool = False  # wherever a scatter is computed, R recycles the mean down the columns
    n_others: bool = False  # n others beside the target, not n − 1
    doubled_rows: bool = False  # κ′ + 2·n_z, not κ′ + n_z, below the mean term of a dataset

    @property
    def words(self) -> str:
        """Those that hold, in words."""
        return " and ".join(f.name.replace("_", " ") for f in fields(self) if getattr(self, f.name)) or "none"


@dataclass(frozen=True, eq=False)
class Attacks:
    """Many replicates of a cell: what the adversary has, and what was released.

    A release is seen through `centre` and `shape`: of drawn parameters Σ*⁻¹μ* and Σ*⁻¹, summed; of datasets their
    means and scatters, the leading axis running over the datasets.
    """

    cell: Cell
    causes: Causes
    crowd: Crowd
    own: "Posterior"
    centre: Pair
    shape: Symmetric
    start: np.ndarray

    @classmethod
    def drawn(cls, cell: Cell, causes: Causes, size: int, rng: np.random.Generator) -> "Attacks":
        """Draw the others, fit the holder's model to all, release, and fit the adversary's to the others."""
        crowd = Crowd.drawn(cell.n if causes.n_others else cell.n - 1, size, rng)
        target = np.full(size, TARGET)
        # the target stands in the first row of the holder's table
        holder = Posterior.of([Part(1, (target, target), 0), *crowd.parts(1)], crowd.within, causes)
        own = Posterior.of(crowd.parts(0), crowd.within, causes)
        return cls(cell, causes, crowd, own, *_released(cell, causes, holder, size, rng))

    def score(self, x: np.ndarray, some: np.ndarray | slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Return the score s of (some of) the replicates at candidates x (2 × r), and its gradient.

        The candidate is the last row of the table to which the model is fitted anew; with the right mean that is
        the rank-one update of the paper.
        """
        own, rows, count = self.own.at(some), self.crowd.count + 1, self.cell.count
        crowd = [Part(part.count, _at(part.mean, some), part.parity) for part in self.crowd.parts(0)]
        parts = [*crowd, Part(1, (x[0], x[1]), self.crowd.count % 2)]
        new = Posterior.of(parts, _at(self.crowd.within, some), self.causes)
        invert, determinant = inverse(new.scale)
        value, pull, push = self._evidence(new, some)
        value = value + count * new.df * np.log(determinant)
        slope = self._through_table(parts, new, added(pull, invert, count * new.df))
        away = x[0] - own.mean[0], x[1] - own.mean[1]
        near = times(inverse(own.scale)[0], away)
        ratio = own.weight / (own.weight + 1)
        inside = 1 + ratio * (away[0] * near[0] + away[1] * near[1])
        value = value - new.df * np.log(inside)
        outward = 2 * new.df * ratio / inside
        return value, np.stack(
            [slope[at] + push[at] / (PRIOR_WEIGHT + rows) - outward * near[at] for at in (0, 1)]
        )

    def _evidence(self, new: "Posterior", some: np.ndarray | slice) -> tuple[np.ndarray, Symmetric, Pair]:
        """Return the release's part of s but for |Λ′|, and its derivatives by Λ′ (as a matrix) and by μ′."""
        centre, shape = _at(self.centre, some), _at(self.shape, some)
        if self.cell.rows is None:
            gone = times(shape, new.mean)
            value = shape[0] * new.scale[0] + 2 * shape[1] * new.scale[1] + shape[2] * new.scale[2]
            value = value + new.weight * sum(new.mean[at] * (gone[at] - 2 * centre[at]) for at in (0, 1))
            push = tuple(2 * new.weight * (centre[at] - gone[at]) for at in (0, 1))
            return -value, (-shape[0], -shape[1], -shape[2]), push
        rows, df = self.cell.rows, new.df + self.cell.rows
        eta = new.weight * rows / (new.weight + rows * (2 if self.causes.doubled_rows else 1))
        away = centre[0] - new.mean[0], centre[1] - new.mean[1]
        joint = added(added(shape, outer(away), eta), new.scale)
        invert, determinant = inverse(joint)
        near = times(invert, away)
        pull = tuple(-df * entry.sum(axis=0) for entry in invert)
        push = tuple(2 * eta * df * entry.sum(axis=0) for entry in near)
        return -df * np.log(determinant).sum(axis=0), pull, push

    def _through_table(self, parts: list[Part], new: "Posterior", by_scale: Symmetric) -> Pair:
        """Return the gradient in x of what depends on it through Λ′, given the derivative by Λ′."""
        rows, mean = self.crowd.count + 1, mean_of(parts)
        slope = [0.0, 0.0]
        for part in parts:
            taken = subtracted(mean, part.parity, rows, self.causes.recycled_mean)
            bent = times(by_scale, (part.mean[0] - taken[0], part.mean[1] - taken[1]))
            # which mean is taken from either column
            sources = (part.parity, (part.parity + rows) % 2) if self.causes.recycled_mean else (0, 1)
            for column, source in enumerate(sources):
                slope[source] = slope[source] - 2 * part.count / rows * bent[column]
                if part is parts[-1]:
                    slope[column] = slope[column] + 2 * bent[column]
        bent = times(by_scale, (mean[0] - PRIOR_MEAN, mean[1] - PRIOR_MEAN))
        weight = 2 * PRIOR_WEIGHT / (PRIOR_WEIGHT + rows)
        return slope[0] + weight * bent[0], slope[1] + weight * bent[1]


@dataclass(frozen=True, eq=False)
class Posterior:
    """The normal-inverse-Wishart posterior of a table, equations 2 to 5 of the paper."""

    mean: Pair
    weight: float
    df: float
    scale: Symmetric

    @classmethod
    def of(cls, parts: list[Part], within: Symmetric, causes: Causes) -> "Posterior":
        """Fit it to a table."""
        rows, mean = sum(part.count for part in parts), mean_of(parts)
        weight = PRIOR_WEIGHT + rows
        away = mean[0] - PRIOR_MEAN, mean[1] - PRIOR_MEAN
        scale = added(_EYE, scatter_of(parts, within, causes.recycled_mean))
        scale = added(scale, outer(away), PRIOR_WEIGHT * rows / weight)
        middle = tuple((PRIOR_WEIGHT * PRIOR_MEAN + rows * entry) / weight for entry in mean)
        return cls(middle, weight, PRIOR_DF + rows, scale)

    def at(self, some: np.ndarray | slice) -> "Posterior":
        """Return that of some replicates."""
        return Posterior(_at(self.mean, some), self.weight, self.df, _at(self.scale, some))


def _at(entries: tuple, some: np.ndarray | slice) -> tuple:
    return tuple(entry[..., some] for entry in entries)


def _released(
    cell: Cell, causes: Causes, holder: Posterior, size: int, rng: np.random.Generator
) -> tuple[Pair, Symmetric, np.ndarray]:
    """Draw the parameters, or datasets from them, and say where the adversary's search starts."""
    shape = (cell.count, size)
    covariance = _inverse_wishart(holder, shape, rng)
    root = cholesky(covariance)
    means = _moved(holder.mean, root, holder.weight, shape, rng)
    if cell.rows is None:
        precision, _ = inverse(covariance)
        start = np.stack([entry.mean(axis=0) for entry in means])
        weighted = times(precision, means)
        return _summed(weighted), _summed(precision), start
    half = cell.rows // 2
    odd, even = (_moved(means, root, rows, shape, rng) for rows in (cell.rows - half, half))
    parts = [Part(cell.rows - half, odd, 0), Part(half, even, 1)]
    within = squared(wishart_root(cell.rows - 2, shape, rng), root)
    centre, total = mean_of(parts), cell.rows * cell.count
    start = np.stack(
        [(PRIOR_WEIGHT * PRIOR_MEAN + total * e.mean(axis=0)) / (PRIOR_WEIGHT + total) for e in centre]
    )
    return centre, scatter_of(parts, within, causes.recycled_mean), start


def _inverse_wishart(holder: Posterior, shape: tuple[int, int], rng: np.random.Generator) -> Symmetric:
    """Draw Σ* ~ IW(Λ, ν): the inverse of a Wishart matrix of scale Λ⁻¹."""
    precision = squared(wishart_root(int(holder.df), shape, rng), cholesky(inverse(holder.scale)[0]))
    return inverse(precision)[0]


def _moved(mean: Pair, root: Symmetric, weight: float, shape: tuple[int, int], rng: np.random.Generator) -> Pair:
    """Draw from N(mean, Σ/weight)."""
    one, other = rng.standard_normal((2, *shape)) / np.sqrt(weight)
    return mean[0] + root[0] * one, mean[1] + root[1] * one + root[2] * other


def _summed(entries: tuple) -> tuple:
    return tuple(entry.sum(axis=0) for entry in entries)
