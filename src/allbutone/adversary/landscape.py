"""The adversary's posterior as a landscape: two features of the missing record, or its only one."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, fdtri, gammainc, gammaln, ndtri

from allbutone.adversary.integrate import exact_log_totals
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes, find_modes
from allbutone.adversary.posterior import Posterior
from allbutone.adversary.proposal import Powers, Proposal, scrambled_points
from allbutone.model.niw import StudentT
from allbutone.support.arrays import log_sum_exp
from allbutone.support.errors import InputError

# The posterior of two features over a grid, all others integrated out.


NODES = 14  # a side, where the hidden features' hills are sought; proposals between them are interpolated
FEWEST, FEW, MANY = 8, 32, 512  # points drawn around each hill: deep down, elsewhere on the grid, and at the nodes
HIGH, CROWDED = 4, 50  # dimensions from which on it takes twice as many, and wells up to which it may
DEEP = 16.0  # nats below the top, where the fewest points do
FAINT = 12.0  # nats below the other one, where a hill is left out
STRAIGHT = 0.7  # cosine to the axis on which the hills stand, above which a shoulder has a side
LIGHTEST_DF, WIDER = 12.0, 1.2  # of the proposals, and than the curvature says, squared
NUMBERS_HELD = 1 << 18  # numbers held while points are weighed against wells: what a core's cache holds
# a problem, and the cures
LOST = (
    "a record or a mean is too far from the rest to compute with",
    "bring it nearer",
    "raise the prior's scale",
)


def log_marginal(
    posterior: LogQuadratic, shown: tuple[int, int], x: Float[np.ndarray, " c"], y: Float[np.ndarray, " r"]
) -> Float[np.ndarray, "r c"]:
    """Return log ∫ exp ℓ(x, y, h) dh over all features h but the two shown, in the records' own units.

    Exact where the posterior has a name. Elsewhere, importance sampling at every point of the grid: around both
    hills of the hidden features stand Student t distributions, and the same quasi-random points, moved and
    stretched to them, serve the whole grid. So their error is as smooth as the surface, and what many points at
    the nodes of a coarser grid say of it is interpolated. Most heights are right to 0.001 nats; where the hidden
    features' hills are about to split, a few are off by tenths, and by most deep below the top.
    """
    away = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2) - posterior.centre[list(shown)]
    try:
        turned, lower = _turn(posterior, list(shown))
        u = np.linalg.solve(lower, away.T).T
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = _sampled(turned, u, _Nodes.of(x, y)) if posterior.closed_form is None else _named(turned, u)
    except np.linalg.LinAlgError:
        raise InputError(*LOST) from None
    # dx = |root|·dv, and of that |lower| is the shown features'
    logs += np.linalg.slogdet(posterior.root)[1] - np.linalg.slogdet(lower)[1]
    if not np.all(np.isfinite(logs)):
        raise InputError(*LOST)
    return logs.reshape(len(y), len(x))


def _named(turned: LogQuadratic, u: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """Return log ∫ exp ℓ(u, z) dz after a single release: given u, z is normal or Student t again."""
    exact = exact_log_totals(_hidden_given(turned, u))
    assert exact is not None  # what has a name has a total
    return exact + 0.5 * np.sum(u * (2 * turned.pull[:2] - u @ turned.precision[:2, :2]), axis=1)


def _sampled(turned: LogQuadratic, u: Float[np.ndarray, "n 2"], nodes: "_Nodes") -> Float[np.ndarray, " n"]:
    hills = _hills(_hidden_given(turned, u[nodes.places]))
    sampler = _Sampler(turned, u, [hill.spread(nodes) for hill in hills])
    factor = (2 if sampler.h >= HIGH else 1) * (1 if turned.wells > CROWDED else 2)
    totals = sampler.log_totals(np.arange(len(u)), FEWEST * factor)
    (high,) = np.nonzero(totals > totals.max() - DEEP)
    totals[high] = sampler.log_totals(high, FEW * factor)
    near, moved = np.intersect1d(nodes.places, high), np.zeros(len(u))
    moved[near] = sampler.log_totals(near, MANY * factor) - totals[near]
    return totals + nodes.spread(moved[nodes.places])


def _turn(posterior: LogQuadratic, pair: list[int]) -> tuple[LogQuadratic, Float[np.ndarray, "2 2"]]:
    """Return ℓ in turned coordinates Qᵀv = (u, z), where the shown features are centre + lower·u, free of z."""
    basis, upper = np.linalg.qr(posterior.root[pair].T, mode="complete")
    turned = replace(
        posterior,
        root=posterior.root @ basis,
        precision=basis.T @ posterior.precision @ basis,
        pull=posterior.pull @ basis,
        slopes=posterior.slopes @ basis,
        shapes=basis.T @ posterior.shapes @ basis,
    )
    return turned, upper[:2].T


def _hidden_given(turned: LogQuadratic, u: Float[np.ndarray, "n 2"]) -> LogQuadratic:
    """Return the posteriors of z given each u, up to constants (Qᵀv = (u, z) as turned)."""
    across = turned.shapes[:, :, :2] @ u[:, None, :, None]
    levels = turned.levels + ((across[:, :, :2, 0] - 2 * turned.slopes[:, :2]) @ u[:, :, None])[..., 0]
    return replace(
        turned,
        centre=np.zeros((len(u), turned.p - 2)),
        root=np.eye(turned.p - 2),
        inflation=turned.inflation / (1 + turned.inflation * np.sum(u * u, axis=1)),
        precision=turned.precision[2:, 2:],
        pull=turned.pull[2:] - u @ turned.precision[:2, 2:],
        levels=levels,
        slopes=turned.slopes[:, 2:] - across[:, :, 2:, 0],
        shapes=turned.shapes[:, 2:, 2:],
    )


@dataclass(frozen=True)
class _Nodes:
    """Points of the grid that make a coarser one: their places, and how to interpolate linearly along x and y."""

    places: Int[np.ndarray, " k"]
    across: Float[np.ndarray, "c i"]
    down: Float[np.ndarray, "r j"]

    @classmethod
    def of(cls, x: Float[np.ndarray, " c"], y: Float[np.ndarray, " r"]) -> "_Nodes":
        """Take up to fourteen points a side, evenly among the grid's."""
        columns, rows = (np.unique(np.linspace(0, len(axis) - 1, NODES).round().astype(int)) for axis in (x, y))
        across, down = (
            np.stack([np.interp(axis, axis[some], each) for each in np.eye(len(some))], axis=-1)
            for axis, some in ((x, columns), (y, rows))
        )
        return cls((rows[:, None] * len(x) + columns).ravel(), across, down)

    def spread(self, values: Float[np.ndarray, "k *each"]) -> Float[np.ndarray, "n *each"]:
        """Interpolate from the nodes to the whole grid."""
        (c, i), (r, j) = self.across.shape, self.down.shape
        wide = self.across @ values.reshape(j, i, -1)
        return (self.down @ wide.reshape(j, -1)).reshape(r * c, *values.shape[1:])


@dataclass(frozen=True)
class _Hill:
    """Where a hill of the hidden features stands, R with RRᵀ its scale, and whether it counts, at n points."""

    place: Float[np.ndarray, "n h"]
    root: Float[np.ndarray, "n h h"]
    counts: Bool[np.ndarray, " n"]

    def spread(self, nodes: _Nodes) -> "_Hill":
        """Interpolate; importance sampling forgives what that misses."""
        return _Hill(nodes.spread(self.place), nodes.spread(self.root), nodes.spread(1.0 * self.counts) > 0)


def _hills(hidden: LogQuadratic) -> list[_Hill]:
    """Return the hills of each posterior: one, or where any has two, two that are sorted by side.

    So each is one hill that moves as the shown features do, and does not change places with the other.
    """
    modes = find_modes(hidden)
    # no hill is flatter: where the curvature vanishes, the outward term's −a·c²z⁴/4 still bends it down
    floor = np.maximum(1e-2 * hidden.df, np.sqrt(hidden.outward) * hidden.inflation)
    both = np.isfinite(modes.gap)
    # a hill that has just merged with the higher one leaves a shoulder where its mirror image would stand
    other = np.where(both[:, None], modes.other, -modes.best)
    value, _, bend = hidden.local(other)
    apart = modes.best - other
    along = apart @ np.linalg.svd(apart, full_matrices=False)[2][0]
    # one that turns with the shown features has no side
    between = -np.sum(apart * (modes.hessian @ apart[:, :, None])[..., 0], axis=1)
    gap = modes.value - value
    straight = np.abs(along) > STRAIGHT * np.linalg.norm(apart, axis=1)
    two = (gap < FAINT) & (both | ((between > 1) & straight))
    # but reaches to the other side: how much further than a normal hill would is that side's share
    share = np.where(two, 0.0, np.maximum(expit(-gap / 2) - expit(-between / 4), 0.0))
    mode = (1 - 2 * share)[:, None] * modes.best
    best = _roots(modes.hessian, floor, np.sqrt(4 * share * (1 - share))[:, None] * modes.best)
    if not two.any():
        return [_Hill(mode, best, np.ones_like(two))]
    # one too faint to count stays where it is, for the sake of the points between here and where it does
    sided = both | straight
    second = np.where(sided[:, None, None], _roots(bend, floor, np.zeros_like(mode)), best)
    other = np.where(sided[:, None], other, mode)
    return [
        _Hill(np.where(side[:, None], mode, other), np.where(side[:, None, None], best, second), side | two)
        for side in (along >= 0, along < 0)
    ]


def _roots(
    hessian: Float[np.ndarray, "n h h"], floor: Float[np.ndarray, " n"], longer: Float[np.ndarray, "n h"]
) -> Float[np.ndarray, "n h h"]:
    """Return the Cholesky factor of the inverse curvature, widened a little, and lengthened along one way."""
    values, vectors = np.linalg.eigh(-hessian)
    scaled = vectors * np.sqrt(WIDER / np.maximum(values, floor[:, None]))[:, None, :]
    return np.linalg.cholesky(scaled @ scaled.swapaxes(1, 2) + longer[:, :, None] * longer[:, None, :])


class _Sampler:
    """Importance sampling of the hidden features z, for each u a total of its own."""

    def __init__(self, turned: LogQuadratic, u: Float[np.ndarray, "n 2"], hills: list[_Hill]) -> None:
        self.u, self.powers, self.h = u, Powers.of(turned), turned.p - 2
        self.counts = np.stack([hill.counts for hill in hills], axis=1)
        # tails no lighter than the posterior's own keep the weights bounded
        tail = float(np.sum(turned.weights)) - turned.outward - self.h if turned.falls_as_a_power else np.inf
        self.df = max(1.0, min(LIGHTEST_DF, tail))
        self.proposal = Proposal.of(
            [hill.place for hill in hills],
            [hill.root for hill in hills],
            (self.df,) * len(hills),
            (1.0,) * len(hills),
        )

    def log_totals(self, places: Int[np.ndarray, " m"], size: int) -> Float[np.ndarray, " m"]:
        """Return log ∫ exp ℓ(u, z) dz at these places of the grid, from `size` points around each hill.

        Scaled such that the total of a normal hill is exact.
        """
        white = _points(self.h, self.df, size)
        totals, counts = np.empty(len(places)), self.counts[places]
        for present in np.unique(counts, axis=0):
            hills = np.nonzero(present)[0].tolist()
            (these,) = np.nonzero(np.all(counts == present, axis=1))
            each = size * len(hills) * max(self.powers.posterior.wells, self.h, 16)
            for part in np.array_split(these, -(-len(these) * each // NUMBERS_HELD)):
                totals[part] = self._totals(places[part], hills, white)
        # the very same points, around a normal hill of the curvature that the proposal was made for
        squared = np.sum(white * white, axis=1)
        normal = (WIDER / (2 * np.pi)) ** (self.h / 2) * np.exp(-0.5 * WIDER * squared)
        return totals - np.log(np.sum(normal / _bell(squared, self.h, self.df)))

    def _totals(
        self, these: Int[np.ndarray, " m"], hills: list[int], white: Float[np.ndarray, "s h"]
    ) -> Float[np.ndarray, " m"]:
        """Return the log of the sum of exp ℓ over the hills' density, at points drawn around each of them."""
        proposal = self.proposal.take(these, hills)
        z = np.concatenate([proposal.place(part, white) for part in range(len(hills))], axis=1)
        log_density = np.logaddexp.reduce(proposal.log_densities(z), axis=0)
        v = np.concatenate([np.broadcast_to(self.u[these, None], (*z.shape[:2], 2)), z], axis=-1)
        value = self.powers.values(v.reshape(-1, v.shape[-1])).reshape(z.shape[:2])
        return log_sum_exp(value - log_density, axis=1)


def _bell(squared: Float[np.ndarray, "*s"], h: int, df: float) -> Float[np.ndarray, "*s"]:
    """Return the density of the standard Student t in h dimensions at this squared length."""
    half = (df + h) / 2
    constant = gammaln(half) - gammaln(df / 2) - 0.5 * h * np.log(df * np.pi)
    return np.exp(constant - half * np.log1p(squared / df))


def _points(h: int, df: float, size: int) -> Float[np.ndarray, "size h"]:
    """Return quasi-random points of the standard Student t in h dimensions, in pairs of opposites.

    Normal points are stretched along their own radius, quantile by quantile: that needs no dimension more.
    """
    even = (np.arange(size // 2)[:, None] + 0.5) / size
    half = even if h == 1 else scrambled_points(np.random.default_rng(0), h, size // 2)
    normal = ndtri(np.concatenate([half, 1 - half]))
    squared = np.sum(normal * normal, axis=1, keepdims=True)
    return normal * np.sqrt(h * fdtri(h, df, gammainc(h / 2, squared / 2)) / squared)


# The adversary's posterior as a landscape: two features of the missing record, height over a grid.


MARGIN = 0.06  # of the span
ON_A_LINE = 600  # points, where there is one feature
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

    @property
    def edge(self) -> float:
        """The greatest height where the picture ends."""
        return float(max(self.height[[0, -1]].max(), self.height[:, [0, -1]].max()))

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
    spans: tuple[Span, ...] | None = None,
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


def spans_of(*points: Float[np.ndarray, "... d"], margin: float = MARGIN) -> tuple[Span, ...]:
    """Return the spans of the features shown that contain all these points, with a margin on either side."""
    every = np.concatenate([each.reshape(-1, each.shape[-1]) for each in points])
    low, high = np.nanmin(every, axis=0), np.nanmax(every, axis=0)
    room = margin * np.where(high > low, high - low, 1.0)
    return tuple(zip((low - room).tolist(), (high + room).tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Profile:
    """A record of one feature: the posterior's density along it, and what to mark on it.

    `density` is normalised over the x shown, `before` that of who ignores the release. `other_mode` is NaN where
    there is none.
    """

    x: Float[np.ndarray, " points"]
    density: Float[np.ndarray, " points"]
    before: Float[np.ndarray, " points"]
    others: Float[np.ndarray, "n 1"]
    target: Float[np.ndarray, " 1"]
    mode: Float[np.ndarray, " 1"]
    other_mode: Float[np.ndarray, " 1"]
    synthetic: Float[np.ndarray, "m 1"] | None = None

    def region(self, level: float = 0.95) -> float:
        """Return the density at or above which lies `level` of the mass shown."""
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level}")
        middle, width = (self.density[1:] + self.density[:-1]) / 2, np.diff(self.x)
        order = np.argsort(-middle)
        held = np.cumsum((middle * width)[order])
        return float(middle[order][min(np.searchsorted(held, level * held[-1]), len(order) - 1)])

    @property
    def edge(self) -> float:
        """The density where the picture ends."""
        return float(max(self.density[0], self.density[-1]))


def profile(
    posterior: Posterior,
    before: StudentT,
    others: Float[np.ndarray, "n 1"],
    target: Float[np.ndarray, " 1"],
    span: Span,
    synthetic: Float[np.ndarray, "m 1"] | None = None,
) -> Profile:
    """Return the profile of a record of one feature over a span, finer near the modes."""
    modes = posterior.modes
    mode, other = posterior.unwhiten(modes.best), posterior.unwhiten(modes.other)
    widths = np.concatenate([_widths(posterior.root, bend) for bend in (modes.hessian, modes.other_hessian)])
    x = _axis(span, np.concatenate([mode, other]), widths, ON_A_LINE)
    density, known = np.exp(posterior.log_density(x[:, None])), np.exp(before.log_density(x[:, None]))
    return Profile(x, density, known, others, target, mode, other, synthetic)


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
    heights = Powers.of(plane).values(plane.whiten(points[:, ::-1] if turned else points))
    if np.isnan(heights).any():
        raise InputError(*LOST)
    return heights.reshape(len(y), len(x))


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
