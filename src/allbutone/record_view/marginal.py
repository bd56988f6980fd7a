"""The posterior of two features over a grid, all others integrated out."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, fdtri, gammainc, gammaln, ndtri

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import find_modes
from allbutone.integrals.exact import exact_log_totals
from allbutone.integrals.many_points import Powers
from allbutone.integrals.proposal import Proposal, scrambled_points
from allbutone.support.arrays import log_sum_exp
from allbutone.support.errors import InputError

NODES = 14  # a side, where the hidden features' hills are sought; proposals between them are interpolated
FEWEST, FEW, MANY = 8, 32, 512  # points drawn around each hill: deep down, elsewhere on the grid, and at the nodes
HIGH, CROWDED = 4, 50  # dimensions from which on it takes twice as many, and wells up to which it may
DEEP = 16.0  # nats below the top, where the fewest points do
FAINT = 12.0  # nats below the other one, where a hill is left out
STRAIGHT = 0.7  # cosine to the axis on which the hills stand, above which a shoulder has a side
LIGHTEST_DF, WIDER = 12.0, 1.2  # of the proposals, and than the curvature says, squared
AT_ONCE = 1 << 18  # numbers held while points are weighed against wells: what a core's cache holds
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
            found = _sampled(turned, u, _Nodes.of(x, y)) if posterior.closed_form is None else _named(turned, u)
    except np.linalg.LinAlgError:
        raise InputError(*LOST) from None
    # dx = |root|·dv, and of that |lower| is the shown features'
    found += np.linalg.slogdet(posterior.root)[1] - np.linalg.slogdet(lower)[1]
    if not np.all(np.isfinite(found)):
        raise InputError(*LOST)
    return found.reshape(len(y), len(x))


def _named(turned: LogQuadratic, u: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """Return log ∫ exp ℓ(u, z) dz after a single release: given u, z is normal or Student t again."""
    exact = exact_log_totals(_hidden_given(turned, u))
    assert exact is not None  # what has a name has a total
    return exact + 0.5 * np.sum(u * (2 * turned.pull[:2] - u @ turned.precision[:2, :2]), axis=1)


def _sampled(turned: LogQuadratic, u: Float[np.ndarray, "n 2"], nodes: "_Nodes") -> Float[np.ndarray, " n"]:
    hills = _hills(_hidden_given(turned, u[nodes.places]))
    sampler = _Sampler(turned, u, [hill.spread(nodes) for hill in hills])
    factor = (2 if sampler.h >= HIGH else 1) * (1 if turned.wells > CROWDED else 2)
    found = sampler.log_totals(np.arange(len(u)), FEWEST * factor)
    (high,) = np.nonzero(found > found.max() - DEEP)
    found[high] = sampler.log_totals(high, FEW * factor)
    near, moved = np.intersect1d(nodes.places, high), np.zeros(len(u))
    moved[near] = sampler.log_totals(near, MANY * factor) - found[near]
    return found + nodes.spread(moved[nodes.places])


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
        found, counts = np.empty(len(places)), self.counts[places]
        for present in np.unique(counts, axis=0):
            hills = np.nonzero(present)[0].tolist()
            (these,) = np.nonzero(np.all(counts == present, axis=1))
            each = size * len(hills) * max(self.powers.posterior.wells, self.h, 16)
            for part in np.array_split(these, -(-len(these) * each // AT_ONCE)):
                found[part] = self._totals(places[part], hills, white)
        # the very same points, around a normal hill of the curvature that the proposal was made for
        squared = np.sum(white * white, axis=1)
        normal = (WIDER / (2 * np.pi)) ** (self.h / 2) * np.exp(-0.5 * WIDER * squared)
        return found - np.log(np.sum(normal / _bell(squared, self.h, self.df)))

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
