"""Where to sample the posteriors of many records, and their logarithms at many points at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincinv, gammaln, ndtri

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes
from allbutone.support.arrays import (
    array_namespace,
    as_array,
    contiguous,
    eigh,
    eye,
    is_definite,
    log_sum_exp,
    root_of_inverse,
    to_numpy,
    zeros,
)
from allbutone.support.devices import more_at_once

# The log posterior at many points of many posteriors: one matrix product, few logarithms, bounded memory.
#
# Of few features, or many wells, all wells are one product with a point's powers. Of many features and few wells
# there are too many powers: there each well is a product of its own.


Array = Any

JOINT = 8  # wells of equal weight share a logarithm
MANY, FEW = 24, 16  # features and wells, from and up to which a point's powers cost more than they save
NUMBERS_HELD = 1 << 19  # numbers held while points are weighed against wells: what stays in the processor's cache


@dataclass(frozen=True)
class Powers:
    """Posteriors ready for many points: every well is quadratic in v, so all are one product with v's powers.

    `coefficients`: those of (1, vᵢ, vᵢvⱼ); None where each well is a product of its own. Wells of equal weight are
    multiplied, up to eight of them, before their logarithm is taken: `weights` are the groups', whose members
    stand a stride apart.
    """

    posterior: LogQuadratic
    coefficients: Float[Array, "*batch powers wells"] | None
    weights: Float[Array, "*#batch groups"]

    @classmethod
    def of(cls, posterior: LogQuadratic) -> "Powers":
        """Sort the wells into groups; one that is not full is filled with wells that are 1 everywhere."""
        if _one_by_one(posterior):
            return cls(posterior, None, posterior.weights)
        first, second = np.triu_indices(posterior.p)
        xp = array_namespace(posterior.shapes)
        twice = as_array(np.where(first == second, 1.0, 2.0), like=posterior.shapes)
        bent = twice * posterior.shapes[..., first, second]
        parts = (posterior.levels[..., None], -2 * posterior.slopes, bent)
        batch = np.broadcast_shapes(*(part.shape[:-2] for part in parts))
        wells = xp.concat([xp.broadcast_to(part, (*batch, *part.shape[-2:])) for part in parts], axis=-1)
        wells, weights = _grouped(wells, posterior.weights)
        return cls(posterior, wells.mT, weights)

    def values(self, v: Float[Array, "*batch n p"]) -> Float[Array, "*batch n"]:
        """Return ℓ(v); not a number where rounding has left it no digits."""
        whole, xp = self.posterior, array_namespace(v)
        outward, inflation = (as_array(each, like=v) for each in (whole.outward, whole.inflation))
        squared = xp.einsum("...p,...p->...", v, v)
        value = outward[..., None] * xp.log1p(inflation[..., None] * squared)
        if bool(xp.any(whole.precision != 0)) or bool(xp.any(whole.pull != 0)):  # parameters were released
            value += xp.einsum("...p,...p->...", v, 2 * whole.pull[..., None, :] - v @ whole.precision)
        if self.weights.shape[-1]:
            levels = self._levels(v)
            with np.errstate(invalid="ignore", divide="ignore"):  # a level below 0, by rounding, has no logarithm
                value -= (xp.log(levels) @ self.weights[..., None])[..., 0]
        return 0.5 * value + whole.added_terms(v)

    def _levels(self, v: Float[Array, "*batch n p"]) -> Float[Array, "*batch n groups"]:
        """Return each group's product of qⱼ(v)."""
        if self.coefficients is None:
            return self._each_level(v)
        first, second = np.triu_indices(self.posterior.p)
        across = contiguous(v.mT)
        ones = 1.0 + zeros((*across.shape[:-2], 1, across.shape[-1]), like=v)
        powers = array_namespace(v).concat([ones, across, across[..., first, :] * across[..., second, :]], axis=-2)
        levels = powers.mT @ self.coefficients
        while levels.shape[-1] > self.weights.shape[-1]:
            middle = levels.shape[-1] // 2
            with np.errstate(over="ignore"):  # so far out that the density is 0
                levels = levels[..., :middle] * levels[..., middle:]
        return levels

    def _each_level(self, v: Float[Array, "*batch n p"]) -> Float[Array, "*batch n wells"]:
        """Return qⱼ(v) = gⱼ + vᵀ(Mⱼv − 2mⱼ), well by well."""
        xp, whole = array_namespace(v), self.posterior
        levels = []
        for well in range(whole.shapes.shape[-3]):
            bent = v @ whole.shapes[..., well, :, :] - 2 * whole.slopes[..., well, None, :]
            levels.append(xp.einsum("...p,...p->...", bent, v) + whole.levels[..., well, None])
        return xp.stack(levels, axis=-1)


def _one_by_one(posterior: LogQuadratic) -> bool:
    return posterior.p >= MANY and posterior.wells <= FEW


def _grouped(
    wells: Float[Array, "*batch k powers"], weights: Float[Array, "*#batch k"]
) -> tuple[Float[Array, "*batch wells powers"], Float[Array, "*#batch groups"]]:
    """Put wells of equal weight together, a group's members a stride apart."""
    xp = array_namespace(wells)
    values, which = np.unique(to_numpy(weights), return_inverse=True)
    k, powers = wells.shape[-2:]
    if not k or weights.ndim > 1 or len(values) * JOINT > 2 * k:
        return wells, weights
    groups, group_weights = [], []
    for place, weight in enumerate(values.tolist()):
        mine = wells[..., np.flatnonzero(which == place), :]
        one = as_array(np.eye(1, powers), like=wells)
        filling = xp.broadcast_to(one, (*wells.shape[:-2], -mine.shape[-2] % JOINT, powers))
        groups.append(xp.concat([mine, filling], axis=-2).reshape(*wells.shape[:-2], -1, JOINT, powers))
        group_weights += [weight] * groups[-1].shape[-3]
    strided = xp.moveaxis(xp.concat(groups, axis=-3), -3, -2)
    return strided.reshape(*wells.shape[:-2], -1, powers), as_array(np.array(group_weights), like=wells)


def values_at(problem: LogQuadratic, white: Float[Array, "n s p"]) -> Float[Array, "n s"]:
    """Return ℓ at s points for each of n posteriors (or for one), a bounded number at a time."""
    values = zeros(white.shape[:2], like=white)
    for rows, points in _blocks(problem, more_at_once(NUMBERS_HELD, like=white), *white.shape):
        powers = Powers.of(problem.take(rows) if len(white) > 1 else problem)
        for some in points:
            values[rows, some] = powers.values(white[rows, some])
    return values


def gradients_at(problem: LogQuadratic, white: Float[Array, "n s p"]) -> Float[Array, "n s p"]:
    """Return ∇ℓ at s points for each of n posteriors, well by well, as `LogQuadratic.local` has it for one."""
    xp = array_namespace(white)
    outward, inflation = (as_array(each, like=white)[..., None] for each in (problem.outward, problem.inflation))
    tau = outward * inflation / (1 + inflation * xp.vecdot(white, white))
    gradients = tau[..., None] * white - white @ problem.precision + problem.pull[..., None, :]
    for well in range(problem.wells):
        slope = problem.slopes[..., well, None, :]
        bent = white @ problem.shapes[..., well, :, :] - slope
        levels = xp.vecdot(bent - slope, white) + problem.levels[..., well, None]
        gradients -= (problem.weights[..., well, None] / levels)[..., None] * bent
    return gradients


def _blocks(problem: LogQuadratic, at_once: int, n: int, size: int, p: int) -> Iterator[tuple[slice, list[slice]]]:
    """Yield blocks of posteriors, and for each the blocks of its points."""
    width = p * 2 if _one_by_one(problem) else max(problem.wells, (p + 1) * (p + 2) // 2)
    rows = max(1, at_once // (size * width))
    some = size if rows > 1 else max(1, at_once // width)
    for start in range(0, n, rows):
        points = [slice(at, min(at + some, size)) for at in range(0, size, some)]
        yield slice(start, min(start + rows, n)), points


# Where to sample the posteriors of many records: Student t parts around their hills, and quasi-random points.


LIGHTEST_DF = 60.0  # tails no lighter than the posterior's; near-normal ones waste the fewest points
WIDER, FEATURES = 1.3, 5  # than the curvature at the mode says, squared, of up to so many features
FLATTEST = 1e-2  # curvature, of the other records' own, where what was released is not flatter
FEWER = (1, 2, 4)  # times fewer points than the best mode gets: best mode, other mode, the other records' centre
ROUNDS, PAIRS = 3, 64  # of settling, and pairs of points in each at least
BEND = 4.0  # times that a squared spread may grow or shrink in a round


def wider(p: int) -> float:
    """Return how much wider the parts are than the hills: the more features, the more points a wide one wastes.

    Of a normal hill a share of (2w − 1)^(p/2)/w^p of the points is worth anything, about exp(−p(w − 1)²/2).
    """
    return float(1 + (WIDER - 1) * min(1.0, np.sqrt(FEATURES / p)))


def scrambled_points(rng: np.random.Generator, dimension: int, count: int) -> Float[np.ndarray, "count dimension"]:
    """Return `count` (a power of two) scrambled Sobol points, strictly inside the unit cube."""
    from scipy.stats import qmc  # not above: it takes longer to load than all the rest

    points = qmc.Sobol(dimension, scramble=True, rng=rng).random_base2(count.bit_length() - 1)
    return np.clip(points, 1e-15, 1 - 1e-15)


@dataclass(frozen=True)
class Points:
    """A source of quasi-random points: the same for every posterior, so that no result depends on its block.

    Each `turn` gives points of its own, scrambled from the seed; they are drawn once and remembered.
    """

    seed: int = 0

    @classmethod
    def of(cls, rng: "np.random.Generator | int | None") -> "Points":
        """Take the seed from a generator, or from chance."""
        return cls(int(np.random.default_rng(rng).integers(2**63)))

    def student(self, turn: int, p: int, size: int, df: float) -> Float[np.ndarray, "size p"]:
        """Return points of the standard Student t in p dimensions."""
        return _student(self.seed, turn, p, size, df)

    def normal(self, turn: int, p: int, size: int) -> Float[np.ndarray, "size p"]:
        """Return points of the standard normal in p dimensions."""
        return _normal(self.seed, turn, p, size)

    def ball(self, turn: int, p: int, size: int) -> Float[np.ndarray, "size p"]:
        """Return points spread evenly in the unit ball."""
        return _ball(self.seed, turn, p, size)


@lru_cache(maxsize=256)
def _student(seed: int, turn: int, p: int, size: int, df: float) -> Float[np.ndarray, "size p"]:
    uniform = scrambled_points(np.random.default_rng([seed, turn]), p + 1, size)
    return _kept(np.sqrt(df / (2 * gammaincinv(df / 2, uniform[:, -1:]))) * ndtri(uniform[:, :-1]))


@lru_cache(maxsize=64)
def _normal(seed: int, turn: int, p: int, size: int) -> Float[np.ndarray, "size p"]:
    # others than those that are weighed: a proposal must not know its points
    return _kept(ndtri(scrambled_points(np.random.default_rng([seed, turn, 1]), p, size)))


@lru_cache(maxsize=64)
def _ball(seed: int, turn: int, p: int, size: int) -> Float[np.ndarray, "size p"]:
    uniform = scrambled_points(np.random.default_rng([seed, turn]), p + 1, size)
    white = ndtri(uniform[:, :-1])
    return _kept(white * uniform[:, -1:] ** (1 / p) / np.linalg.norm(white, axis=1, keepdims=True))


def _kept(points: np.ndarray) -> np.ndarray:
    points.flags.writeable = False
    return points


@dataclass(frozen=True, eq=False)
class Proposal:
    """Where to sample: a mixture of Student t parts for each posterior, each part with arrays of its own.

    A root of one number is that multiple of the identity. Parts that stand at the same place share their arrays.
    `portions`: how many points each part gets, relative to the first.
    """

    locations: tuple[Float[Array, "n p"], ...]
    roots: tuple[Float[Array, "n _ _"], ...]
    inverses: tuple[Float[Array, "n _ _"], ...]
    dfs: tuple[float, ...]
    portions: tuple[float, ...]

    @classmethod
    def of(
        cls,
        locations: Sequence[Float[Array, "n p"]],
        roots: Sequence[Float[Array, "n _ _"]],
        dfs: tuple[float, ...],
        portions: tuple[float, ...],
    ) -> "Proposal":
        """Invert the roots, once for all points."""
        inverses = tuple(array_namespace(root).linalg.inv(root) for root in roots)
        return cls(tuple(locations), tuple(roots), inverses, dfs, portions)

    @classmethod
    def around(
        cls, problem: LogQuadratic, modes: Modes, lightest: float = LIGHTEST_DF, spread: float | None = None
    ) -> "Proposal":
        """Stand at both modes, by `spread` wider than the curvature says (squared), and at the others' centre."""
        xp, (n, p) = array_namespace(modes.best), modes.best.shape
        two = xp.isfinite(modes.gap)
        # tails no lighter than the posterior's own keep the weights bounded
        tail = np.inf
        if problem.falls_as_a_power:
            tail = float(xp.min(xp.sum(problem.weights, axis=-1) - problem.outward - p))
        df, freedom = float(max(1.0, min(lightest, tail))), as_array(problem.df, like=modes.best)
        spread = wider(p) if spread is None else spread
        hills = [(modes.best, *root_of_inverse(bowl_at(problem, modes.best, modes.hessian) / spread))]
        if bool(xp.any(two)):
            hessian = xp.where(two[:, None, None], modes.other_hessian, modes.hessian)
            other = xp.where(two[:, None], modes.other, modes.best)
            hills.append((other, *root_of_inverse(bowl_at(problem, other, hessian) / spread)))
        across = xp.broadcast_to(xp.sqrt(freedom)[..., None, None], (n, 1, 1))
        centre = (xp.zeros_like(modes.best), 1 / across, across)
        locations, roots, inverses = zip(hills[0], hills[-1], centre, strict=True)
        dfs = (df, df, min(df, float(xp.min(freedom))))
        return cls(locations, roots, inverses, dfs, tuple(1 / fewer for fewer in FEWER))

    def place(self, part: int, white: Float[Array, "*#batch s p"]) -> Float[Array, "n s p"]:
        """Return points of the standard Student t where a part has them."""
        return self.locations[part][:, None] + _times(self.roots[part], white)

    def draw(self, points: Points, turn: int, size: int) -> list[Float[Array, "n s p"]]:
        """Return quasi-random points of each part, `size` (a power of two) of the first."""
        p, drawn = self.locations[0].shape[-1], []
        for part, (df, portion) in enumerate(zip(self.dfs, self.portions, strict=True)):
            white = points.student(8 * turn + part, p, max(2, int(portion * size)), df)
            drawn.append(self.place(part, as_array(white, like=self.locations[0])))
        return drawn

    def log_densities(self, white: Float[Array, "n s p"]) -> Float[Array, "parts n s"]:
        """Return the log density of each part at each posterior's points."""
        xp, p = array_namespace(white), white.shape[-1]
        found: list[Array] = []
        for part, df in enumerate(self.dfs):
            inverse, half = self.inverses[part], (df + p) / 2
            if part and inverse is self.inverses[part - 1] and df == self.dfs[part - 1]:
                found.append(found[-1])
                continue
            away = _times(inverse, white - self.locations[part][:, None])
            volume = p / inverse.shape[-1] * xp.sum(xp.log(xp.linalg.diagonal(inverse)), axis=-1)[:, None]
            constant = gammaln(half) - gammaln(df / 2) - 0.5 * p * np.log(df * np.pi)
            found.append(float(constant) + volume - half * xp.log1p(xp.einsum("nsp,nsp->ns", away, away) / df))
        return xp.stack(found)

    def fitted(self, problem: LogQuadratic, points: Points, turn: int, size: int) -> "Proposal":
        """Move each part but the centre's to the weighted draws it is responsible for, where they are enough."""
        xp, drawn = array_namespace(self.locations[0]), self.draw(points, turn, size)
        white = xp.concat(drawn, axis=1)
        counts = as_array(np.log([part.shape[1] for part in drawn]), like=white)
        each = self.log_densities(white) + counts[:, None, None]
        mixture = log_sum_exp(each, axis=0)
        log_weights = values_at(problem, white) - mixture
        log_weights -= log_sum_exp(log_weights, axis=1)[:, None]
        locations, roots, p = list(self.locations), list(self.roots), white.shape[-1]
        for part in range(len(self.dfs) - 1):
            mine = xp.exp(log_weights + each[part] - mixture)
            total = xp.sum(mine, axis=1)
            total = xp.maximum(total, xp.full_like(total, 1e-300))
            enough = total**2 > 4 * (p + 1) * xp.sum(mine * mine, axis=1)
            mean = xp.einsum("ns,nsp->np", mine, white) / total[:, None]
            centred = white - mean[:, None]
            scale = (mine[..., None] * centred).mT @ centred / total[:, None, None]
            scale += 1e-3 * roots[part] @ roots[part].mT
            locations[part] = xp.where(enough[:, None], mean, locations[part])
            roots[part] = xp.asarray(roots[part], copy=True)
            roots[part][enough] = xp.linalg.cholesky(scale[enough])
        return Proposal.of(locations, roots, self.dfs, self.portions)

    def settled(self, problem: LogQuadratic, points: Points) -> "Proposal":
        """Let parts stand where a normal follows each hill best, before the hills' own, which get fewer points.

        The mode of many features is far from the mean, by more than a standard deviation, though each feature's
        hardly differ; and then hardly a point around the mode is worth anything.
        """
        if not isinstance(problem.added_terms(self.locations[0][:, None, :]), float):
            return self  # its gradient is not known here
        xp, hills = array_namespace(self.locations[0]), list[tuple[Array, ...]]()
        for part in range(2):
            if part and self.roots[1] is self.roots[0]:
                hills.append(hills[0])
                continue
            place, root = _followed(problem, self.locations[part], self.roots[part], points)
            hills.append((place, root, xp.linalg.inv(root)))
        own = zip(self.locations, self.roots, self.inverses, strict=True)
        locations, roots, inverses = zip(*hills, *own, strict=True)
        fewer = tuple(portion / FEWER[-1] for portion in self.portions[:2])
        return Proposal(
            locations, roots, inverses, self.dfs[:2] + self.dfs, self.portions[:2] + fewer + self.portions[2:]
        )

    def take(self, rows: np.ndarray, parts: list[int]) -> "Proposal":
        """Return these parts of these posteriors' mixtures."""
        locations, roots, inverses = (
            tuple(arrays[part][rows] for part in parts) for arrays in (self.locations, self.roots, self.inverses)
        )
        dfs, portions = (tuple(each[part] for part in parts) for each in (self.dfs, self.portions))
        return Proposal(locations, roots, inverses, dfs, portions)


def _followed(
    problem: LogQuadratic, place: Float[Array, "n p"], root: Float[Array, "n p p"], points: Points
) -> tuple[Float[Array, "n p"], Float[Array, "n p p"]]:
    """Return mean and root of the normal nearest to a posterior by Kullback and Leibler, a little wider.

    There E∇ℓ = 0 and S⁻¹ = −E∇²ℓ, which is −E[S⁻¹(v − m)∇ℓᵀ] (Stein): gradients suffice. With v = m + Rz and
    g = Rᵀ∇ℓ the second says that E[z(g + z)ᵀ] = 0. Points and their mirror images leave little to chance.
    """
    xp, p = array_namespace(place), place.shape[-1]
    for turn in range(ROUNDS):
        half = as_array(points.normal(turn, p, max(PAIRS, 1 << (5 * p // 2).bit_length())), like=place)
        z = xp.concat([half, -half])
        slopes = gradients_at(problem, place[:, None, :] + z @ root.mT) @ root
        slopes = xp.where(xp.isfinite(slopes), slopes, -z)
        off = z.mT @ (slopes + z) / z.shape[0]
        values, vectors = eigh(eye(p, like=place) - (off + off.mT) / 2)
        values, turned = xp.clip(values, 1 / BEND, BEND), root @ vectors
        step = (vectors.mT @ xp.mean(slopes, axis=1)[..., None])[..., 0] / values
        place = place + (turned @ step[..., None])[..., 0]
        _, upper = xp.linalg.qr((turned / xp.sqrt(values)[:, None, :]).mT)
        root = upper.mT * xp.sign(xp.linalg.diagonal(upper))[:, None, :]
    return place, wider(p) ** 0.5 * root


def _times(matrix: Float[Array, "n q q"], vectors: Float[Array, "*#batch s p"]) -> Float[Array, "n s p"]:
    """Return Mv for each vector; one number in the place of a matrix is that multiple of the identity."""
    return matrix * vectors if matrix.shape[-1] == 1 else vectors @ matrix.mT


def bowl_at(
    problem: LogQuadratic, place: Float[Array, "n p"], hessian: Float[Array, "n p p"]
) -> Float[Array, "n p p"]:
    """Return the curvature, no flatter than a few times what was released; axes are sought only where it is."""
    xp, floor = array_namespace(hessian), FLATTEST * as_array(problem.df, like=hessian)
    (flat,) = xp.nonzero(~is_definite(-hessian - floor[..., None, None] * eye(hessian.shape[-1], like=hessian)))
    if not flat.shape[0]:
        return -hessian
    values, vectors = eigh(-hessian[flat])
    floor = _flattest(problem.take(flat), place[flat])
    bowl = xp.asarray(-hessian, copy=True)
    bowl[flat] = (vectors * xp.maximum(values, floor[:, None])[:, None, :]) @ vectors.mT
    return bowl


def _flattest(problem: LogQuadratic, place: Float[Array, "n p"]) -> Float[Array, " n"]:
    """Return the least curvature that a hill is taken to have.

    Between one hill and two the curvature vanishes and the hill is about as wide as the other records. But of
    somebody far out the release itself is as wide as they are far: of m releases one alone has the curvature
    (A + Σ ωⱼMⱼ)/m, all together have more. Each but one adds ν′ to `outward`, which tells m.
    """
    xp, n = array_namespace(place), place.shape[0]
    df, outward = (xp.broadcast_to(as_array(each, like=place), (n,)) for each in (problem.df, problem.outward))
    usual = FLATTEST * df
    if not isinstance(problem.added_terms(place[:, None, :]), float):
        return usual  # what was released is not in the wells
    one = eigh(problem.tangent(place)[0])[0][:, 0] / (1 + xp.maximum(outward, 0 * outward) / (df + 1))
    return xp.where((one > 0) & (one < usual), one, usual)
