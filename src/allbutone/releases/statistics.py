"""All that an attack sees of a release: sums over its parameter draws, the moments of its datasets, or both."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import device
from jaxtyping import Float

from allbutone.model.moments import ENOUGH_LEFT, Moments
from allbutone.model.niw import NIW
from allbutone.support.arrays import (
    array_namespace,
    as_array,
    eigh_or_nan,
    eye,
    has_digits_left,
    solve_rows,
    zeros,
)
from allbutone.support.parallel import in_parallel

Array = Any

MOST_STRETCHED = 1e6  # by which a release may be longer in one direction than in another before that costs digits
SMALL_DATASETS = 1 << 18  # numbers of datasets that are summarized together: 2 MB, and as much for each copy


@dataclass(frozen=True, eq=False)
class ParameterStatistics:
    """All that the attack sees of released parameters: their number, Σⱼ Σⱼ⁻¹ and Σⱼ Σⱼ⁻¹μⱼ; batch axes lead."""

    draws: int
    precision: Float[Array, "*batch p p"]
    pull: Float[Array, "*batch p"]


@dataclass(frozen=True, eq=False)
class JoinedStatistics:
    """All that an attack sees of parameters and datasets that were drawn apart from one another."""

    parameters: ParameterStatistics
    datasets: Moments


Statistics = ParameterStatistics | Moments | JoinedStatistics


@dataclass(frozen=True, eq=False)
class NormalDraws:
    """What a release tells of a normal model: draws of its parameters, and datasets drawn apart from them.

    Arrays of one library, on the model's scale. Given the table all are independent, and each draw or dataset is
    one more opinion on a missing record.
    """

    means: Float[Array, "draws p"] | None = None
    covariances: Float[Array, "draws p p"] | None = None
    datasets: tuple[Float[Array, "_ p"], ...] = ()

    @classmethod
    def of_all(cls, parts: "Sequence[NormalDraws]") -> "NormalDraws":
        """Return the draws and datasets of several, after one another."""
        datasets = tuple(data for part in parts for data in part.datasets)
        drawn = [part for part in parts if part.means is not None]
        if not drawn:
            return cls(datasets=datasets)
        xp = array_namespace(drawn[0].means)
        means, covariances = (
            xp.concat([getattr(part, name) for part in drawn]) for name in ("means", "covariances")
        )
        return cls(means, covariances, datasets)

    def statistics(self) -> Statistics:
        """Return all that an attack sees of the draws."""
        if self.means is None or self.covariances is None:
            return self._moments
        p = int(self.means.shape[1])
        statistics = parameters_in(
            zeros(p, like=self.means), eye(p, like=self.means), self.means, self.covariances
        )
        return JoinedStatistics(statistics, self._moments) if self.datasets else statistics

    @property
    def _moments(self) -> Moments:
        each, xp = [Moments.of(dataset) for dataset in self.datasets], array_namespace(self.datasets[0])
        counts = as_array([float(one.count) for one in each], like=self.datasets[0])
        return Moments(counts, xp.stack([one.mean for one in each]), xp.stack([one.scatter for one in each]))

    def whitened(self, others: NIW) -> tuple[Float[Array, "p p"], Statistics]:
        """Return a root of the others' scale along the release's own axes, and the statistics whitened by it."""
        if self.means is None or self.covariances is None:
            return whitened_sums(self._about, others) or whitened_datasets(self.datasets, others)
        if not self.datasets:
            return whitened_sums(self._about, others) or whitened_parameters(self.means, self.covariances, others)
        root, parameters = whitened_parameters(self.means, self.covariances, others)
        return root, JoinedStatistics(parameters, moments_in(others.mean, root, self.datasets))

    @cached_property
    def _about(self) -> "About":
        if self.means is None or self.covariances is None:
            return About.of_datasets(self.datasets)
        return About.of_parameters(self.means, self.covariances)

    def in_columns(self, kept: Sequence[int]) -> "NormalDraws":
        """Return what they tell of some of the columns (positions)."""
        datasets = tuple(_some(data, kept) for data in self.datasets)
        if self.means is None or self.covariances is None:
            return NormalDraws(datasets=datasets)
        turned = array_namespace(self.means).matrix_transpose(_some(self.covariances, kept))
        return NormalDraws(_some(self.means, kept), _some(turned, kept), datasets)


def _some(array: Array, columns: Sequence[int]) -> Array:
    xp = array_namespace(array)
    return xp.take(array, xp.asarray(list(columns), device=device(array)), axis=-1)


@dataclass(frozen=True, eq=False)
class About:
    """The statistics of a release about an origin near its centre, in the units of the table: for many attacks."""

    origin: Float[Array, " p"]
    statistics: Any

    @classmethod
    def of_datasets(cls, datasets: Sequence[Array]) -> "About":
        """Summarize datasets about the mean of the first one."""
        xp = array_namespace(datasets[0])
        origin = xp.mean(xp.astype(datasets[0], xp.float64), axis=0)
        return cls(origin, moments_in(origin, None, datasets))

    @classmethod
    def of_parameters(cls, means: Float[Array, "draws p"], covariances: Float[Array, "draws p p"]) -> "About":
        """Summarize parameter draws about the average of their means."""
        origin = array_namespace(means).mean(means, axis=0)
        return cls(origin, parameters_in(origin, eye(means.shape[1], like=means), means, covariances))


@np.errstate(over="ignore", invalid="ignore")  # which makes no finite spread
def whitened_sums(about: About, others: NIW) -> tuple[Float[Array, "p p"], Any] | None:
    """Return what `whitened_datasets` or `whitened_parameters` does, from sums instead of rows or draws.

    None where that would cost digits: where columns of the table nearly determine one another, or the release is
    far longer in one direction than in another.
    """
    xp, about_truth, root = array_namespace(others.scale), about.statistics, others.root
    if not has_digits_left(ENOUGH_LEFT, root):
        return None
    shift = about.origin - others.mean
    if isinstance(about_truth, ParameterStatistics):
        spread, axes = eigh_or_nan(root.T @ about_truth.precision @ root)
        root = root @ axes
        pull = root.T @ (about_truth.pull + about_truth.precision @ shift)
        statistics: Any = ParameterStatistics(about_truth.draws, root.T @ about_truth.precision @ root, pull)
    else:
        inverse, mean = xp.linalg.inv(root), about_truth.mean + shift
        squares = xp.sum(about_truth.scatter, axis=0) + (about_truth.count[:, None] * mean).T @ mean
        spread, axes = eigh_or_nan(inverse @ squares @ inverse.T)
        root, turn = root @ axes, axes.T @ inverse
        statistics = Moments(about_truth.count, mean @ turn.T, turn @ about_truth.scatter @ turn.T)
    return (root, statistics) if bool(spread[-1] <= MOST_STRETCHED * spread[0]) else None


def whitened_datasets(datasets: Sequence[Array], others: NIW) -> tuple[Float[Array, "p p"], Moments]:
    """Return a root of the other records' scale and the datasets' moments in its coordinates, stacked along k.

    Any C·Q with Q orthogonal is a root. It is turned to the release's own axes, so that one direction in which an
    outlier has stretched the release a million times cannot drown the digits of the others; rows are whitened
    first and summarized second, so that neither a large mean nor near-collinear columns cost any.
    """
    xp = array_namespace(others.scale)
    moments = moments_in(others.mean, others.root, datasets)
    weighted = moments.count[:, None] * moments.mean
    spread, axes = xp.linalg.eigh(xp.sum(moments.scatter, axis=0) + weighted.T @ moments.mean)
    root = others.root @ axes
    if bool(spread[-1] > MOST_STRETCHED * spread[0]):
        return root, moments_in(others.mean, root, datasets)
    return root, Moments(moments.count, moments.mean @ axes, axes.T @ moments.scatter @ axes)


def moments_in(centre: Float[Array, " p"], root: Float[Array, "p p"] | None, datasets: Sequence[Array]) -> Moments:
    """Return the moments of root⁻¹(z − centre), or of z − centre, shapes (k,), (k, p), (k, p, p).

    Small datasets of one size are summarized many at a time, within a few megabytes; large ones one by one.
    """
    xp, sizes = array_namespace(centre), [int(dataset.shape[0]) for dataset in datasets]
    together = max(1, SMALL_DATASETS // (max(sizes) * centre.shape[-1])) if len(set(sizes)) == 1 else 1

    def summarized(start: int) -> tuple[Array, Array]:
        some = datasets[start : start + together]
        if len(some) == 1:
            one = Moments.of(_turned(root, xp.astype(some[0], xp.float64) - centre))
            return one.mean[None, ...], one.scatter[None, ...]
        white = _turned(root, xp.astype(xp.stack(some), xp.float64) - centre)
        mean = xp.mean(white, axis=1)
        centred = white - mean[:, None, :]
        return mean, xp.matrix_transpose(centred) @ centred

    starts = range(0, len(sizes), together)
    spread = (
        isinstance(centre, np.ndarray) and len(starts) > 1 < together
    )  # each thread would copy a large dataset
    every = in_parallel(summarized, starts) if spread else [summarized(start) for start in starts]
    counts = as_array([float(size) for size in sizes], like=centre)
    return Moments(counts, *(every[0] if len(every) == 1 else map(xp.concat, zip(*every, strict=True))))


def _turned(root: Float[Array, "p p"] | None, vectors: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
    return vectors if root is None else solve_rows(root, vectors)


def whitened_parameters(
    means: Float[Array, "draws p"], covariances: Float[Array, "draws p p"], others: NIW
) -> tuple[Float[Array, "p p"], ParameterStatistics]:
    """Return a root of the others' scale along the release's own axes, and the statistics whitened by it."""
    xp = array_namespace(others.scale)
    _, axes = xp.linalg.eigh(parameters_in(others.mean, others.root, means, covariances).precision)
    root = others.root @ axes
    return root, parameters_in(others.mean, root, means, covariances)


def parameters_in(
    centre: Float[Array, " p"],
    root: Float[Array, "p p"],
    means: Float[Array, "draws p"],
    covariances: Float[Array, "draws p p"],
) -> ParameterStatistics:
    """Return A = Σⱼ Σⱼ⁻¹ and b = Σⱼ Σⱼ⁻¹(μⱼ − centre) in the coordinates of root."""
    xp = array_namespace(root)
    roots = xp.linalg.cholesky(covariances)
    half = xp.linalg.solve(roots, xp.broadcast_to(root, roots.shape))
    shift = xp.linalg.solve(roots, (means - centre)[..., None])
    turned = xp.matrix_transpose(half)
    precision, pull = xp.sum(turned @ half, axis=0), xp.sum((turned @ shift)[..., 0], axis=0)
    return ParameterStatistics(int(means.shape[0]), precision, pull)


def means_and_deviations(
    datasets: Sequence[Float[Array, "_ p"]],
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """Return the averages of the datasets' means, and the deviations of their average variances."""
    moments = [Moments.of(dataset) for dataset in datasets]
    means = np.mean([np.asarray(each.mean) for each in moments], axis=0)
    several = [each for each in moments if each.count > 1]
    variances = [np.diagonal(np.asarray(each.scatter)) / (each.count - 1) for each in several]
    return means, np.sqrt(np.mean(variances, axis=0)) if several else np.full(len(means), np.nan)
