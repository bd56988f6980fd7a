"""All that an attack sees of a release: sums over its parameter draws, the moments of its datasets, or both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float

from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.support.arrays import array_namespace, as_array, solve_rows

Array = Any

SMALL_DATASETS = 1 << 18  # numbers of datasets that are summarized together: 2 MB, and as much for each copy


@dataclass(frozen=True, eq=False)
class ParameterStatistics:
    """All that the attack sees of released parameters: their number, Σⱼ Σⱼ⁻¹ and Σⱼ Σⱼ⁻¹μⱼ; batch axes lead."""

    draws: int
    precision: Float[Array, "*batch p p"]
    pull: Float[Array, "*batch p"]

    @classmethod
    def of(cls, release: Any) -> "ParameterStatistics":
        """Summarize a `ParameterRelease`."""
        found: ParameterStatistics = release.statistics()
        return found


@dataclass(frozen=True, eq=False)
class JoinedStatistics:
    """All that an attack sees of parameters and datasets that were drawn apart from one another."""

    parameters: ParameterStatistics
    datasets: Moments


Statistics = ParameterStatistics | Moments | JoinedStatistics


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
    if bool(spread[-1] > 1e6 * spread[0]):
        return root, moments_in(others.mean, root, datasets)
    return root, Moments(moments.count, moments.mean @ axes, axes.T @ moments.scatter @ axes)


def moments_in(centre: Float[Array, " p"], root: Float[Array, "p p"], datasets: Sequence[Array]) -> Moments:
    """Return the moments of root⁻¹(z − centre), shapes (k,), (k, p), (k, p, p).

    Small datasets of one size are summarized many at a time, within a few megabytes; large ones one by one.
    """
    xp, sizes = array_namespace(root), [int(dataset.shape[0]) for dataset in datasets]
    together = max(1, SMALL_DATASETS // (max(sizes) * root.shape[-1])) if len(set(sizes)) == 1 else 1
    found = []
    for start in range(0, len(sizes), together):
        some = datasets[start : start + together]
        if len(some) == 1:
            one = Moments.of(solve_rows(root, xp.astype(some[0], xp.float64) - centre))
            found.append((one.mean[None, ...], one.scatter[None, ...]))
            continue
        white = solve_rows(root, xp.astype(xp.stack(some), xp.float64) - centre)
        mean = xp.mean(white, axis=1)
        centred = white - mean[:, None, :]
        found.append((mean, xp.matrix_transpose(centred) @ centred))
    counts = as_array([float(size) for size in sizes], like=root)
    return Moments(counts, *(found[0] if len(found) == 1 else map(xp.concat, zip(*found, strict=True))))


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
