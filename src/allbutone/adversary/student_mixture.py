"""Mixtures of Student t's, one for each of many records: what is known of a record where gaps were drawn often."""

from dataclasses import dataclass, replace
from math import log, pi

import numpy as np
from jaxtyping import Float
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
