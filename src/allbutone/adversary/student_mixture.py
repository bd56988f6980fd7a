"""Mixtures of Student t's, one for each of many records: what is known of a record where gaps were drawn often."""

from dataclasses import dataclass, replace
from math import log, pi

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from allbutone.support.arrays import half_log_det, log_sum_exp

AT_ONCE = 1 << 20  # densities held at a time


@dataclass(frozen=True, eq=False)
class StudentMixture:
    """Σ_k exp(log_weights_k)·t(x; locations_k, V_k, dfs_k), `precisions` V⁻¹; where df is infinite, a normal.

    The parts stand in `groups` groups of as many: a group's parts come from one chain, and groups are independent.
    `heights`: the log density of each part at its location. The weights need not add up to 1.
    """

    log_weights: Float[np.ndarray, "t k"]
    locations: Float[np.ndarray, "t k p"]
    precisions: Float[np.ndarray, "t k p p"]
    dfs: Float[np.ndarray, "t k"]
    heights: Float[np.ndarray, "t k"]
    groups: int

    @classmethod
    def of(
        cls,
        log_weights: Float[np.ndarray, "t k"],
        locations: Float[np.ndarray, "t k p"],
        scales: Float[np.ndarray, "t k p p"],
        dfs: Float[np.ndarray, "t k"],
        groups: int = 1,
    ) -> "StudentMixture":
        """Factor the scale matrices V."""
        p = locations.shape[-1]
        if p == 0:  # nothing is measured of these records: only weights are left
            return cls(log_weights, locations, scales, dfs, np.zeros_like(log_weights), groups)
        root = np.linalg.cholesky(scales)
        half = np.linalg.inv(root)
        normal = np.isinf(dfs)
        df = np.where(normal, 1.0, dfs)
        constant = gammaln((df + p) / 2) - gammaln(df / 2) - 0.5 * p * np.log(df * pi)
        heights = np.where(normal, -0.5 * p * log(2 * pi), constant) - half_log_det(root)
        return cls(log_weights, locations, half.swapaxes(-1, -2) @ half, dfs, heights, groups)

    @property
    def p(self) -> int:
        """The number of measurements."""
        return int(self.locations.shape[-1])

    def seen_from(self, centre: Float[np.ndarray, "t p"], root: Float[np.ndarray, "t p p"]) -> "StudentMixture":
        """Return the mixtures in the coordinates v of x = centre + root·v."""
        if self.p == 0:
            return self
        locations = np.linalg.solve(root, (self.locations - centre[:, None]).swapaxes(1, 2)).swapaxes(1, 2)
        precisions = root.swapaxes(-1, -2)[:, None] @ self.precisions @ root[:, None]
        heights = self.heights + np.linalg.slogdet(root)[1][:, None]
        return StudentMixture(self.log_weights, locations, precisions, self.dfs, heights, self.groups)

    def given(self, known: Int[np.ndarray, " c"], values: Float[np.ndarray, "t c"]) -> "StudentMixture":
        """Return the mixtures of the other columns where some (positions) have known values y.

        A part t_δ(x, y) is t_δ(y), which joins its weight, times t(x | y), which has δ + c degrees of freedom,
        precision V⁻¹_xx·(δ + c)/(δ + q) and location m_x − (V⁻¹_xx)⁻¹·V⁻¹_xy·(y − m_y), with
        q = (y − m_y)ᵀV_yy⁻¹(y − m_y).
        """
        left = np.setdiff1d(np.arange(self.p), known)
        away = values[:, None] - self.locations[..., known]
        own = self.precisions[..., left[:, None], left]
        cross = self.precisions[..., left[:, None], known] @ away[..., None]
        shift = np.linalg.solve(own, cross)
        bent = (self.precisions[..., known[:, None], known] @ away[..., None])[..., 0]
        squared = np.maximum(np.sum(bent * away, axis=-1) - np.sum(cross * shift, axis=(-2, -1)), 0.0)
        normal, count = np.isinf(self.dfs), len(known)
        df = np.where(normal, 1.0, self.dfs)
        wider = np.where(normal, 1.0, (df + squared) / (df + count))
        scales = np.linalg.inv(own) * wider[..., None, None]
        found = StudentMixture.of(
            self.log_weights,
            self.locations[..., left] - shift[..., 0],
            (scales + scales.swapaxes(-1, -2)) / 2,
            np.where(normal, np.inf, df + count),
            self.groups,
        )
        # at the conditional location the joint density is that of y times the height of x | y
        highest = self.heights - _fall(squared, self.dfs, self.p)
        return replace(found, log_weights=self.log_weights + highest - found.heights)

    def take(self, rows: np.ndarray) -> "StudentMixture":
        """Return the mixtures of some records."""
        names = ("log_weights", "locations", "precisions", "dfs", "heights")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def log_parts(self, points: Float[np.ndarray, "t s p"]) -> Float[np.ndarray, "t k s"]:
        """Return the log density of each part, without its weight, at s points for each record.

        Squared distances are quadratic in x, so all parts are one product with the powers of x.
        """
        p = self.p
        if p == 0:
            return np.broadcast_to(self.heights[:, :, None], (*self.heights.shape, points.shape[1]))
        first, second = np.triu_indices(p)
        bent = np.where(first == second, 1.0, 2.0) * self.precisions[..., first, second]
        slopes = (self.precisions @ self.locations[..., None])[..., 0]
        level = np.sum(slopes * self.locations, axis=-1)
        coefficients = np.concatenate([level[..., None], -2 * slopes, bent], axis=-1)
        across = np.ascontiguousarray(np.swapaxes(points, 1, 2))
        ones = np.ones((len(points), 1, points.shape[1]))
        powers = np.concatenate([ones, across, across[:, first] * across[:, second]], axis=1)
        squared = np.maximum(coefficients @ powers, 0.0)
        return self.heights[:, :, None] - _fall(squared, self.dfs[:, :, None], p)

    def log_groups(self, points: Float[np.ndarray, "t s p"]) -> Float[np.ndarray, "t groups s"]:
        """Return the log of each group's sum of weighted parts."""
        records, parts, size = *self.log_weights.shape, points.shape[1]
        found, rows = np.empty((records, self.groups, size)), max(1, AT_ONCE // (parts * size))
        for start in range(0, records, rows):
            some = np.arange(start, min(start + rows, records))
            each = self.take(some).log_parts(points[some]) + self.log_weights[some, :, None]
            found[some] = log_sum_exp(each.reshape(len(some), self.groups, -1, size), axis=2)
        return found

    def local(
        self, points: Float[np.ndarray, "t p"]
    ) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, "t p"], Float[np.ndarray, "t p p"]]:
        """Return value, gradient and Hessian of the log mixture at one point for each record.

        With r_k the share of part k at x, s_k = (δ+p)/(δ+q_k) and g_k = −s_k·V_k⁻¹(x − m_k):
        gradient g = Σ r_k·g_k, Hessian Σ r_k·[(1 + 2/(δ+p))·g_k g_kᵀ − s_k·V_k⁻¹] − ggᵀ
        """
        away = points[:, None] - self.locations
        bent = (self.precisions @ away[..., None])[..., 0]
        squared = np.sum(bent * away, axis=-1)
        each = self.log_weights + self.heights - _fall(squared, self.dfs, self.p)
        value = log_sum_exp(each, axis=1)
        share = np.exp(each - value[:, None])
        normal = np.isinf(self.dfs)
        df = np.where(normal, 1.0, self.dfs)
        strength = np.where(normal, 1.0, (df + self.p) / (df + squared))
        more = np.where(normal, 1.0, 1 + 2 / (df + self.p))
        slopes = -strength[..., None] * bent
        gradient = np.einsum("tk,tkp->tp", share, slopes)
        hessian = np.swapaxes((share * more)[..., None] * slopes, 1, 2) @ slopes
        hessian -= np.einsum("tk,tkpq->tpq", share * strength, self.precisions)
        return value, gradient, hessian - gradient[:, :, None] * gradient[:, None, :]


@dataclass(frozen=True, eq=False)
class LogGroups:
    """Mixtures at points, summed within groups of draws: all that leaving a group out needs.

    The first is what is believed before any release; `powers`: in which power each stands in the posterior.
    """

    sums: "tuple[GroupSums, ...]"
    powers: tuple[int, ...]

    @property
    def before(self) -> "GroupSums":
        """What is believed before any release."""
        return self.sums[0]

    @property
    def groups(self) -> list[int | None]:
        """What to leave out: each group in turn, then none."""
        count = max(each.parts.shape[1] for each in self.sums)
        return [*range(count if count > 1 else 0), None]

    def log_posterior(self, without: int | None = None) -> Float[np.ndarray, "t s"]:
        """Return ℓ = Σ powerⱼ·log mixtureⱼ, perhaps without one group of every mixture."""
        some = [(each, power) for each, power in zip(self.sums, self.powers, strict=True) if power]
        return np.sum([power * each.log_total(without) for each, power in some], axis=0)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums of a mixture's groups at points, exp(top)·parts."""

    top: Float[np.ndarray, "t s"]
    parts: Float[np.ndarray, "t g s"]
    total: Float[np.ndarray, "t s"]

    @classmethod
    def of(cls, logs: Float[np.ndarray, "t g s"]) -> "GroupSums":
        """Take their logarithms."""
        top = np.max(logs, axis=1)
        parts = np.exp(logs - top[:, None])
        return cls(top, parts, np.sum(parts, axis=1))

    def log_total(self, without: int | None = None) -> Float[np.ndarray, "t s"]:
        """Return the log of the sum, perhaps without one group; a single group, no draws of gaps, stays."""
        if without is None or self.parts.shape[1] == 1:
            return self.top + np.log(self.total)
        # a group that is all there is leaves rounding; that it matters shows well before that
        return self.top + np.log(np.maximum(self.total - self.parts[:, without], 1e-12 * self.total))


def _fall(
    squared: Float[np.ndarray, "*shape"], dfs: Float[np.ndarray, "*#shape"], p: int
) -> Float[np.ndarray, "*shape"]:
    """Return by how much a part's log density lies below its height, at a squared distance from its location."""
    if np.all(np.isinf(dfs)):
        return 0.5 * squared
    normal = np.isinf(dfs)
    df = np.where(normal, 1.0, dfs)
    bent = 0.5 * (df + p) * np.log1p(squared / df)
    return np.where(normal, 0.5 * squared, bent) if np.any(normal) else bent
