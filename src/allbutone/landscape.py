"""The adversary's posterior as a landscape: two features of the missing record, height over a grid."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from allbutone.adversary import log_posterior
from allbutone.design import Cell
from allbutone.errors import InputError
from allbutone.logquadratic import LogQuadratic
from allbutone.maximize import Modes, find_modes
from allbutone.niw import NIW
from allbutone.posterior import Posterior
from allbutone.release import DatasetRelease, ParameterRelease, Release

COUNTS = (1, 2, 3, 5, 10, 100)  # the paper's panels
MARGIN = 0.06  # of the span, on either side
EVEN = 0.6  # share of the grid that is evenly spread; the rest stands close around the modes
Span = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Landscape:
    """Two features of the missing record: the log posterior over a grid, and what to mark on it.

    `height[row, column]`: ℓ at (x[column], y[row]) minus its maximum on the grid, which the mode is a point of.
    `other_mode` is NaN where there is none. Where a record has more than two features, the grid is the slice
    through the mode, and all points are shown by the two features alone.
    """

    x: Float[np.ndarray, " columns"]
    y: Float[np.ndarray, " rows"]
    height: Float[np.ndarray, "rows columns"]
    others: Float[np.ndarray, "n 2"]
    target: Float[np.ndarray, " 2"]
    mode: Float[np.ndarray, " 2"]
    other_mode: Float[np.ndarray, " 2"]
    synthetic: Float[np.ndarray, "m 2"] | None = None

    @property
    def distance(self) -> float:
        """How far the mode is from the target, in the two features."""
        return float(np.linalg.norm(self.mode - self.target))


def landscape(
    posterior: LogQuadratic,
    others: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, " p"],
    *,
    shown: tuple[int, int] = (0, 1),
    size: int = 60,
    spans: tuple[Span, Span] | None = None,
    modes: Modes | None = None,
    synthetic: Float[np.ndarray, "m p"] | None = None,
) -> Landscape:
    """Return the landscape of the features `shown`, the others held at the mode, on a grid of size × size.

    The spans of x and y, unless given, contain the other records, the target and both modes. The grid is finer
    near the modes, which may be a hundred times narrower than the crowd.
    """
    _check(posterior, shown, size)
    if modes is None:
        modes = posterior.modes if isinstance(posterior, Posterior) else find_modes(posterior)
    pair = list(shown)
    mode, other = posterior.unwhiten(modes.best), posterior.unwhiten(modes.other)
    points = (others[:, pair], target[pair], mode[pair], other[pair])
    if spans is None:
        spans = spans_of(*points)
    widths = np.stack([_widths(posterior.root, bend) for bend in (modes.hessian, modes.other_hessian)])[:, pair]
    x, y = (_axis(spans[i], np.array([points[2][i], points[3][i]]), widths[:, i], size) for i in (0, 1))
    height = _values(_slice(posterior, pair, mode), x, y, turned=shown[0] > shown[1])
    return Landscape(x, y, height - height.max(), *points, None if synthetic is None else synthetic[:, pair])


def spans_of(*points: Float[np.ndarray, "... 2"]) -> tuple[Span, Span]:
    """Return the spans of x and y that contain all these points, with a margin."""
    every = np.concatenate([each.reshape(-1, 2) for each in points])
    low, high = np.nanmin(every, axis=0), np.nanmax(every, axis=0)
    room = MARGIN * np.where(high > low, high - low, 1.0)
    (left, bottom), (right, top) = (low - room).tolist(), (high + room).tolist()
    return (left, right), (bottom, top)


def study_landscapes(cell: Cell, counts: Sequence[int] = COUNTS, seed: int = 1, size: int = 90) -> list[Landscape]:
    """Simulate one table of the cell and release ever more of it; return the landscape after each count.

    Releases are nested: a smaller one is the beginning of the largest. Cells that differ in what is released
    have the same table at the same seed.
    """
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.array(cell.covariance))
    others = np.array(cell.mean) + rng.standard_normal((cell.n - 1, cell.p)) @ root.T
    prior = cell.prior_of(cell.prior)
    own = None if cell.adversary_prior is None else cell.prior_of(cell.adversary_prior)
    crowd = prior.update(others)
    target = cell.targets(NIW(crowd.mean[None], crowd.mean_weight, crowd.df, crowd.scale))[0]
    whole = crowd.update(target[None])
    release: Release
    if cell.rows is None:
        release = ParameterRelease.draw(whole, max(counts), rng)
    else:
        release = DatasetRelease.draw(whole, [cell.rows] * max(counts), rng)
    found = [log_posterior(others, release.first(count), prior, adversary_prior=own) for count in counts]
    modes = [find_modes(each) for each in found]
    peaks = [each.unwhiten(at) for each, m in zip(found, modes, strict=True) for at in (m.best, m.other)]
    spans = spans_of(others[:, :2], target[:2], np.array(peaks)[:, :2])
    return [
        landscape(each, others, target, size=size, spans=spans, modes=at)
        for each, at in zip(found, modes, strict=True)
    ]


def _check(posterior: LogQuadratic, shown: tuple[int, int], size: int) -> None:
    if posterior.centre.ndim != 1:
        raise InputError("a landscape is of one posterior; take one out of the batch")
    if shown[0] == shown[1] or not all(0 <= place < posterior.p for place in shown):
        raise InputError(
            f"a landscape shows two features, numbered from 0 to {posterior.p - 1}, got {shown[0]} and {shown[1]}"
        )
    if size < 2:
        raise InputError(f"a grid has at least 2 points a side, got {size}")


def _widths(root: Float[np.ndarray, "p p"], hessian: Float[np.ndarray, "p p"]) -> Float[np.ndarray, " p"]:
    """Return the standard deviations of the hill with this curvature, in the records' own units."""
    return np.sqrt(np.abs(np.diagonal(root @ np.linalg.pinv(-hessian, hermitian=True) @ root.T)))


def _axis(
    span: Span, peaks: Float[np.ndarray, " 2"], widths: Float[np.ndarray, " 2"], size: int
) -> Float[np.ndarray, " size"]:
    """Return the grid along one axis: quantiles of a mixture of evenly and of Cauchy around each peak.

    A peak within the span moves the nearest point to itself; the first, the mode's, comes last and so wins.
    """
    low, high = span
    inside = (peaks >= low) & (peaks <= high)
    centres, reach = peaks[inside], np.clip(widths[inside], 1e-6 * (high - low), high - low)
    near = centres[:, None] + reach[:, None] * np.tan(np.linspace(-1.57, 1.57, 129))
    mesh = np.unique(np.clip(np.append(near.ravel(), np.linspace(low, high, 257)), low, high))
    share = (mesh - low) / (high - low)
    for centre, width in zip(centres, reach, strict=True):
        bump = np.arctan((mesh - centre) / width)
        share = share + (1 - EVEN) / EVEN / len(centres) * (bump - bump[0]) / (bump[-1] - bump[0])
    axis = np.interp(np.linspace(0, share[-1], size), share, mesh)
    for centre in centres[::-1]:
        axis[np.argmin(np.abs(axis - centre))] = centre
    return axis


def _slice(posterior: LogQuadratic, pair: list[int], mode: Float[np.ndarray, " p"]) -> LogQuadratic:
    """Return the posterior of the two features when all others are as at the mode."""
    hidden = tuple(place for place in range(posterior.p) if place not in pair)
    return LogQuadratic.given(posterior, hidden, mode[list(hidden)]) if hidden else posterior


def _values(
    plane: LogQuadratic, x: Float[np.ndarray, " c"], y: Float[np.ndarray, " r"], turned: bool
) -> Float[np.ndarray, "r c"]:
    """Return ℓ at every (x, y); `turned`: x is the plane's second feature.

    ‖v‖², vᵀAv and every well qⱼ are quadratic in v = (s, t), so they are all one product of the grid's
    (1, s, t, s², st, t²) with their coefficients.
    """
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    s, t = plane.whiten(points[:, ::-1] if turned else points).T
    powers = np.stack([np.ones_like(s), s, t, s * s, s * t, t * t], axis=-1)
    bent = powers @ _coefficients(np.zeros(()), plane.pull, plane.precision)
    wells = np.log(powers @ _coefficients(plane.levels, plane.slopes, plane.shapes).T) @ plane.weights
    found = 0.5 * (plane.outward * np.log1p(plane.inflation * (s * s + t * t)) - bent - wells)
    return found.reshape(len(y), len(x))


def _coefficients(
    level: Float[np.ndarray, "*k"], slope: Float[np.ndarray, "*k 2"], shape: Float[np.ndarray, "*k 2 2"]
) -> Float[np.ndarray, "*k 6"]:
    """Return those of g − 2mᵀv + vᵀMv."""
    cross = shape[..., 0, 1] + shape[..., 1, 0]
    return np.stack(
        [level, -2 * slope[..., 0], -2 * slope[..., 1], shape[..., 0, 0], cross, shape[..., 1, 1]], axis=-1
    )
