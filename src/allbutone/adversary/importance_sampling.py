"""Volumes under the adversary's posterior: exact where one dimension suffices, importance sampling elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincinv, logsumexp, ndtri
from scipy.stats import qmc

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes
from allbutone.model.distributions import StudentT

# a source of points: dimension and number in, points of the unit cube out
Points = Callable[[int, int], Float[np.ndarray, "number dimension"]]

REPLICATES = 8  # independently scrambled point sets, whose spread is the standard error
POINTS_AT_ONCE = 1 << 21  # numbers held while evaluating many points against many wells


class Estimate(float):
    """A number that carries its Monte Carlo standard error; zero where it was computed without sampling."""

    standard_error: float

    def __new__(cls, value: float, standard_error: float = 0.0) -> "Estimate":
        """Make a float with an error attached."""
        estimate = super().__new__(cls, value)
        estimate.standard_error = standard_error
        return estimate


def scrambled_points(rng: np.random.Generator, dimension: int, count: int) -> Float[np.ndarray, "count dimension"]:
    """Return `count` (a power of two) scrambled Sobol points, strictly inside the unit cube."""
    points = qmc.Sobol(dimension, scramble=True, rng=rng).random_base2(count.bit_length() - 1)
    return np.clip(points, 1e-15, 1 - 1e-15)


def same_points() -> Points:
    """Return a source of scrambled points: every one that is made gives the same, which are drawn only once."""
    turns = count()
    return lambda dimension, size: _remembered(next(turns), dimension, size)


@lru_cache(maxsize=256)
def _remembered(turn: int, dimension: int, size: int) -> Float[np.ndarray, "size dimension"]:
    points = scrambled_points(np.random.default_rng([0, turn]), dimension, size)
    points.flags.writeable = False
    return points


def values_at(posterior: LogQuadratic, white: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """Return ℓ at many points, a bounded number at a time."""
    size = max(1, POINTS_AT_ONCE // (max(1, posterior.wells) * posterior.p))
    return np.concatenate([posterior.value(white[at : at + size]) for at in range(0, len(white), size)])


def log_mass_on_a_line(posterior: LogQuadratic, modes: Modes, low: float, high: float) -> float:
    """Return log ∫ exp ℓ(v) dv between two ends, for a single unknown feature."""
    points, weights = line_rule(posterior, modes, low, high)
    return float(logsumexp(posterior.value(points[:, None]) + np.log(weights)))


def line_rule(
    posterior: LogQuadratic, modes: Modes, start: float = -np.inf, end: float = np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """Return points and weights for integrals of exp ℓ over the line, or a piece of it.

    The line is cut half-way between the modes; on either side v = mode + sinh(u)/√curvature, with panels of half
    a unit of u, which resolve the peak and follow its polynomial tail for sixteen decades.
    """
    centres = [(float(modes.best[0]), float(modes.hessian[0, 0]))]
    if np.isfinite(modes.gap):
        centres.append((float(modes.other[0]), float(modes.other_hessian[0, 0])))
    centres.sort()
    cuts = [-np.inf, *((a[0] + b[0]) / 2 for a, b in pairwise(centres)), np.inf]
    nodes, node_weights = np.polynomial.legendre.leggauss(20)
    points, weights = [], []
    for (centre, bend), low, high in zip(centres, cuts[:-1], cuts[1:], strict=True):
        spread = 1 / np.sqrt(max(-bend, 1e-12))
        pieces = (np.clip(cut, start, end) for cut in (low, high))
        ends = [np.clip(np.arcsinh((cut - centre) / spread), -40, 40) for cut in pieces]
        if ends[1] <= ends[0]:
            continue  # this side of the cut lies outside the piece
        edges = np.linspace(ends[0], ends[1], 2 + int(2 * (ends[1] - ends[0])))
        half = np.diff(edges)[:, None] / 2
        u = (edges[:-1, None] + half + half * nodes).ravel()
        points.append(centre + spread * np.sinh(u))
        weights.append((half * node_weights).ravel() * spread * np.cosh(u))
    return np.concatenate(points), np.concatenate(weights)


@dataclass(frozen=True)
class Mixture:
    """A defensive mixture of Student t distributions from which to sample near a posterior.

    `portions` are powers of two, the largest one: quasi-random points come best in such numbers.
    """

    parts: tuple[StudentT, ...]
    portions: Float[np.ndarray, " parts"]

    @classmethod
    def around(cls, posterior: LogQuadratic, modes: Modes, rng: np.random.Generator) -> "Mixture":
        """Start at both modes and the crowd, then fit to weighted draws twice."""
        p = posterior.p
        # tails no lighter than the posterior's own keep the weights bounded
        tail = float(np.sum(posterior.weights)) - posterior.outward - p if posterior.wells else np.inf
        df = max(1.0, min(tail, 8.0 + p))
        crowd = StudentT(np.zeros(p), np.eye(p) / posterior.df, min(df, posterior.df))
        places = [(np.asarray(modes.best), modes.hessian)]
        if np.isfinite(modes.gap):
            places.append((np.asarray(modes.other), modes.other_hessian))
        parts = [StudentT(place, spread_at(hessian, posterior.df), df) for place, hessian in places]
        heights = posterior.value(np.stack([place for place, _ in places]))
        volumes = np.array([np.sum(np.log(np.diagonal(part.root))) for part in parts])
        shares = np.exp(heights + volumes - np.max(heights + volumes))
        mixture = cls((*parts, crowd), _portions(np.append(shares, 0.0)))
        for _ in range(2):
            mixture = mixture._fitted(posterior, rng)
        return mixture

    def log_density(self, white: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """Return the log density of the mixture."""
        each = np.stack([part.log_density(white) for part in self.parts]) + np.log(self.portions)[:, None]
        return logsumexp(each, axis=0) - np.log(self.portions.sum())

    def draw(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "_ p"]:
        """Draw quasi-random points, `count` (a power of two, at least 16) from the largest part."""
        drawn = []
        for part, portion in zip(self.parts, self.portions, strict=True):
            uniform = scrambled_points(rng, part.location.shape[0] + 1, int(portion * count))
            stretch = np.sqrt(part.df / (2 * gammaincinv(part.df / 2, uniform[:, -1])))
            drawn.append(part.location + stretch[:, None] * (ndtri(uniform[:, :-1]) @ part.root.T))
        return np.concatenate(drawn)

    def _fitted(self, posterior: LogQuadratic, rng: np.random.Generator) -> "Mixture":
        """Move each part but the crowd to the weighted draws it is responsible for."""
        white = self.draw(rng, 1024)
        log_mixture = self.log_density(white)
        log_weights = values_at(posterior, white) - log_mixture
        weights = np.exp(log_weights - logsumexp(log_weights))
        parts, shares = [], []
        for part, portion in zip(self.parts, self.portions / self.portions.sum(), strict=True):
            mine = weights * portion * np.exp(part.log_density(white) - log_mixture)
            total = mine.sum()
            shares.append(total)
            support = total**2 / max(np.sum(mine**2), 1e-300)
            if part is self.parts[-1] or support < 4 * (posterior.p + 1):
                parts.append(part)
                continue
            mean = mine @ white / total
            centred = white - mean
            covariance = (mine[:, None] * centred).T @ centred / total
            parts.append(StudentT(mean, covariance + 1e-3 * part.scale, part.df))
        return Mixture(tuple(parts), _portions(np.array(shares)))


def spread_at(hessian: Float[np.ndarray, "*batch p p"], df: float) -> Float[np.ndarray, "*batch p p"]:
    """Return the inverse curvature, no wider than a few times the crowd where the surface is flat."""
    values, vectors = np.linalg.eigh(-np.asarray(hessian))
    return (vectors / np.maximum(values, 1e-2 * df)[..., None, :]) @ vectors.swapaxes(-1, -2)


def _portions(shares: np.ndarray) -> np.ndarray:
    """Round shares to powers of two of the largest, none below a sixteenth: the defence against surprises."""
    return np.exp2(np.maximum(np.round(np.log2(np.maximum(shares / shares.max(), 1e-9))), -4))
