"""The adversary's posterior as a landscape: two features of the missing record, height over a grid."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes, find_modes
from allbutone.integrals.many_points import Powers
from allbutone.integrals.posterior import Posterior
from allbutone.record_view.marginal import LOST, log_marginal
from allbutone.support.errors import InputError

MARGIN = 0.06  # of the span
EVEN = 0.6  # share of the grid that is evenly spread; the rest stands close around the modes
FINER = 4  # pieces that a cell of the grid is cut into, a side, to measure a region
LOWEST, STEPS = -40.0, 4096  # nats below the top, and slices of height, within which a region's edge is sought
Span = tuple[float, float]
Hidden = Literal["mode", "integrated"]


@dataclass(frozen=True, eq=False)
class Landscape:
    """Two features of the missing record: the log posterior over a grid, and what to mark on it.

    `height[row, column]`: the log posterior at (x[column], y[row]) minus its maximum on the grid, which the mode
    is a point of. Where a record has more than two features, it is that of the slice through the mode, or that of
    the two features alone, all others integrated out. Points are always shown by their two features: `mode` and
    `other_mode` (NaN where there is none) are those of the whole record, and need not top an integrated landscape.
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

    def region(self, level: float = 0.95) -> float:
        """Return the height at or above which lies `level` of the mass that the grid shows.

        That is the edge of the smallest credible region of the two features: given that the others are as at the
        mode, or whatever the others are, as the landscape was made. Far from the modes cells are wider than the
        hills, so each is cut into pieces, on which the height is interpolated by cubics.
        """
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level}")
        (along, dx), (down, dy) = _cut(self.x), _cut(self.y)
        height = np.clip(down @ np.maximum(self.height, 50 * LOWEST) @ along.T, LOWEST, 0.0)
        mass = np.exp(height) * (dy[:, None] * dx)
        place = (height * (STEPS / LOWEST)).astype(np.intp)
        held = np.cumsum(np.bincount(place.ravel(), mass.ravel(), minlength=STEPS + 1))
        edges = np.arange(len(held) + 1) * (LOWEST / STEPS)
        return float(np.interp(level * held[-1], np.append(0.0, held), edges))


def landscape(
    posterior: LogQuadratic,
    others: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, " p"],
    *,
    shown: tuple[int, int] = (0, 1),
    hidden: Hidden = "mode",
    size: int = 60,
    spans: tuple[Span, Span] | None = None,
    modes: Modes | None = None,
    synthetic: Float[np.ndarray, "m p"] | None = None,
) -> Landscape:
    """Return the landscape of the features `shown` on a grid of size × size.

    The other features are held at the mode, or integrated out: the height is then log ∫ exp ℓ(x, y, h) dh.
    The spans of x and y, unless given, contain the other records, the target and both modes. The grid is finer
    near the modes, which may be a hundred times narrower than the other records.
    """
    _check(posterior, shown, size, hidden)
    if modes is None:
        modes = posterior.modes if isinstance(posterior, Posterior) else find_modes(posterior)
    pair = list(shown)
    mode, other = posterior.unwhiten(modes.best), posterior.unwhiten(modes.other)
    points = (others[:, pair], target[pair], mode[pair], other[pair])
    if spans is None:
        spans = spans_of(*points)
    widths = np.stack([_widths(posterior.root, bend) for bend in (modes.hessian, modes.other_hessian)])[:, pair]
    x, y = (_axis(spans[i], np.array([points[2][i], points[3][i]]), widths[:, i], size) for i in (0, 1))
    if hidden == "integrated" and posterior.p > 2:
        height = log_marginal(posterior, shown, x, y)
    else:
        height = _values(_slice(posterior, pair, mode), x, y, turned=shown[0] > shown[1])
    return Landscape(x, y, height - height.max(), *points, None if synthetic is None else synthetic[:, pair])


def spans_of(*points: Float[np.ndarray, "... 2"], margin: float = MARGIN) -> tuple[Span, Span]:
    """Return the spans of x and y that contain all these points, with a margin on either side."""
    every = np.concatenate([each.reshape(-1, 2) for each in points])
    low, high = np.nanmin(every, axis=0), np.nanmax(every, axis=0)
    room = margin * np.where(high > low, high - low, 1.0)
    (left, bottom), (right, top) = (low - room).tolist(), (high + room).tolist()
    return (left, right), (bottom, top)


def _check(posterior: LogQuadratic, shown: tuple[int, int], size: int, hidden: str) -> None:
    if posterior.centre.ndim != 1:
        raise InputError("a landscape is of one posterior", "take one out of the batch")
    if shown[0] == shown[1] or not all(0 <= place < posterior.p for place in shown):
        raise InputError(
            f"a landscape shows two features, numbered from 0 to {posterior.p - 1}, got {shown[0]} and {shown[1]}"
        )
    if size < 2:
        raise InputError(f"a grid has at least 2 points a side, got {size}")
    if hidden not in get_args(Hidden):
        raise InputError(f"hidden must be {' or '.join(map(repr, get_args(Hidden)))}, got {hidden!r}")


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
    """Return ℓ at every (x, y); `turned`: x is the plane's second feature."""
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    found = Powers.of(plane).values(plane.whiten(points[:, ::-1] if turned else points))
    if np.isnan(found).any():
        raise InputError(*LOST)
    return found.reshape(len(y), len(x))


def _cut(axis: Float[np.ndarray, " k"]) -> tuple[Float[np.ndarray, "pieces k"], Float[np.ndarray, " pieces"]]:
    """Return the matrix that interpolates from the axis to the middles of its cells' pieces, and these's widths.

    Through the four points around a cell goes one cubic: exact where a log density is most often quadratic.
    """
    count, width = len(axis), np.diff(axis)
    share = (np.arange(FINER) + 0.5) / FINER
    middles = (axis[:-1, None] + width[:, None] * share).ravel()
    nearest = min(4, count)
    first = np.repeat(np.clip(np.arange(count - 1) - 1, 0, count - nearest), FINER)
    among = first[:, None] + np.arange(nearest)
    matrix = np.zeros((len(middles), count))
    for own in range(nearest):
        others = [other for other in range(nearest) if other != own]
        nodes = axis[among[:, others]]
        factors = (middles[:, None] - nodes) / (axis[among[:, [own]]] - nodes)
        matrix[np.arange(len(middles)), among[:, own]] = np.prod(factors, axis=1)
    return matrix, np.repeat(width / FINER, FINER)
