"""Where to sample the posteriors of many records: Student t parts around their hills, and quasi-random points."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincinv, gammaln, ndtri

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes
from allbutone.integrals.many_points import values_at
from allbutone.support.arrays import log_sum_exp

LIGHTEST_DF = 60.0  # tails no lighter than the posterior's; near-normal ones waste the fewest points
WIDER = 1.3  # than the curvature at the mode says, squared
FEWER = (1, 2, 4)  # times fewer points than the best mode gets: best mode, other mode, the other records' centre


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

    def ball(self, turn: int, p: int, size: int) -> Float[np.ndarray, "size p"]:
        """Return points spread evenly in the unit ball."""
        return _ball(self.seed, turn, p, size)


@lru_cache(maxsize=256)
def _student(seed: int, turn: int, p: int, size: int, df: float) -> Float[np.ndarray, "size p"]:
    uniform = scrambled_points(np.random.default_rng([seed, turn]), p + 1, size)
    return _kept(np.sqrt(df / (2 * gammaincinv(df / 2, uniform[:, -1:]))) * ndtri(uniform[:, :-1]))


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
    """Where to sample: a mixture of Student t parts for each posterior.

    `portions`: how many points each part gets, relative to the first.
    """

    locations: Float[np.ndarray, "n parts p"]
    roots: Float[np.ndarray, "n parts p p"]
    inverses: Float[np.ndarray, "n parts p p"]
    dfs: tuple[float, ...]
    portions: tuple[float, ...]

    @classmethod
    def of(
        cls,
        locations: Float[np.ndarray, "n parts p"],
        roots: Float[np.ndarray, "n parts p p"],
        dfs: tuple[float, ...],
        portions: tuple[float, ...],
    ) -> "Proposal":
        """Invert the roots, once for all points."""
        return cls(locations, roots, np.linalg.inv(roots), dfs, portions)

    @classmethod
    def around(
        cls, problem: LogQuadratic, modes: Modes, lightest: float = LIGHTEST_DF, wider: float = WIDER
    ) -> "Proposal":
        """Stand at both modes, so much wider than the curvature there says, and at the other records' centre."""
        n, p = modes.best.shape
        other = np.where(np.isfinite(modes.gap)[:, None], modes.other, modes.best)
        # tails no lighter than the posterior's own keep the weights bounded
        tail = (
            np.min(np.sum(problem.weights, axis=-1) - problem.outward - p) if problem.falls_as_a_power else np.inf
        )
        df = float(max(1.0, min(lightest, tail)))
        spreads = [spread_at(hessian, problem.df) for hessian in (modes.hessian, modes.other_hessian)]
        centre = np.broadcast_to(np.eye(p) / np.asarray(problem.df)[..., None, None], (n, p, p))
        scales = np.stack([wider * spreads[0], wider * spreads[1], centre], axis=1)
        return cls.of(
            np.stack([modes.best, other, np.zeros((n, p))], axis=1),
            np.linalg.cholesky(scales),
            (df, df, min(df, float(np.min(problem.df)))),
            tuple(1 / fewer for fewer in FEWER),
        )

    def draw(self, points: Points, turn: int, size: int) -> list[Float[np.ndarray, "n s p"]]:
        """Return quasi-random points of each part, `size` (a power of two) of the first."""
        p, drawn = self.locations.shape[-1], []
        for part, (df, portion) in enumerate(zip(self.dfs, self.portions, strict=True)):
            white = points.student(8 * turn + part, p, max(2, int(portion * size)), df)
            drawn.append(self.locations[:, part, None] + white @ np.swapaxes(self.roots[:, part], -1, -2))
        return drawn

    def log_densities(self, white: Float[np.ndarray, "n s p"]) -> Float[np.ndarray, "parts n s"]:
        """Return the log density of each part at each posterior's points."""
        p, found = self.locations.shape[-1], []
        for part, df in enumerate(self.dfs):
            inverse, half = self.inverses[:, part], (df + p) / 2
            away = (white - self.locations[:, part, None]) @ np.swapaxes(inverse, -1, -2)
            volume = np.sum(np.log(np.diagonal(inverse, axis1=-2, axis2=-1)), axis=-1)[:, None]
            constant = gammaln(half) - gammaln(df / 2) - 0.5 * p * np.log(df * np.pi)
            found.append(constant + volume - half * np.log1p(np.einsum("nsp,nsp->ns", away, away) / df))
        return np.stack(found)

    def fitted(self, problem: LogQuadratic, points: Points, turn: int, size: int) -> "Proposal":
        """Move each part but the centre's to the weighted draws it is responsible for, where they are enough."""
        drawn = self.draw(points, turn, size)
        white = np.concatenate(drawn, axis=1)
        counts = np.log([part.shape[1] for part in drawn])
        each = self.log_densities(white) + counts[:, None, None]
        mixture = log_sum_exp(each, axis=0)
        log_weights = values_at(problem, white) - mixture
        log_weights -= log_sum_exp(log_weights, axis=1)[:, None]
        locations, roots, p = self.locations.copy(), self.roots.copy(), white.shape[-1]
        for part in range(len(self.dfs) - 1):
            mine = np.exp(log_weights + each[part] - mixture)
            total = np.maximum(np.sum(mine, axis=1), 1e-300)
            enough = total**2 > 4 * (p + 1) * np.sum(mine * mine, axis=1)
            mean = np.einsum("ns,nsp->np", mine, white) / total[:, None]
            centred = white - mean[:, None]
            scale = np.einsum("ns,nsp,nsq->npq", mine, centred, centred) / total[:, None, None]
            scale += 1e-3 * roots[:, part] @ np.swapaxes(roots[:, part], -1, -2)
            locations[enough, part] = mean[enough]
            roots[enough, part] = np.linalg.cholesky(scale[enough])
        return Proposal.of(locations, roots, self.dfs, self.portions)

    def take(self, rows: np.ndarray, parts: list[int]) -> "Proposal":
        """Return these parts of these posteriors' mixtures."""
        locations, roots, inverses = (
            array[rows][:, parts] for array in (self.locations, self.roots, self.inverses)
        )
        dfs, portions = (tuple(each[part] for part in parts) for each in (self.dfs, self.portions))
        return Proposal(locations, roots, inverses, dfs, portions)


def spread_at(hessian: Float[np.ndarray, "*batch p p"], df: Any) -> Float[np.ndarray, "*batch p p"]:
    """Return the inverse curvature, no wider than a few times the other records where the surface is flat."""
    values, vectors = np.linalg.eigh(-np.asarray(hessian))
    floor = 1e-2 * np.asarray(df)[..., None]
    return (vectors / np.maximum(values, floor)[..., None, :]) @ vectors.swapaxes(-1, -2)
