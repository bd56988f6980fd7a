"""The privacy loss of one record from synthetic datasets: its cumulants, a quadrature in three numbers.

A dataset of n_z rows says less than the parameters it was drawn from. Its loss is L = log p(x | X₋ ∪ Z) − log
p(x | X₋), and under the distribution without the record it is a function of p + 2 independent numbers,

    βᵢ ~ Beta((ν − i + 1)/2, (n_z − 1)/2), i = 1…p      how much of the others' spread is in the spread of both
    T ~ t_d/√d, d = ν + n_z − p                         how far the dataset's mean lies along the record
    ω ~ BetaPrime((p − 1)/2, (d + 1)/2)                 and across it: R² = ω(1 + T²)

With a² = (ℓ − 1/κ)·β₁, κ̃ = κ + n_z, ν̃ = ν + n_z, r² = n_z/(κκ̃), h = κ̃/(κ̃ + 1),

    L = const + ½·Σ log βᵢ + (ν̃/2)·log(1 + T² + R²)
        − ((ν̃ + 1)/2)·log(1 + h·a² + (1 + h·r²)T² − 2h·a·r·T + (1 + h·r² + h·a²)R²)

(docs/guarantees.md has the proof). The moments of β₂…β_p are closed; the rest is a sum over a grid.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Complex, Float
from scipy.special import betaln, digamma, expit, polygamma

from allbutone.disclosure.draw_loss import sum_curved_log_gamma

DROP = 30.0  # nats below its top from where the integrand is left out
# a side: the loss of an outlier is nearly that of β₁ alone, whose grid must be fine enough for all its phases
SPREAD_POINTS, ACROSS_POINTS, MEAN_POINTS = 96, 32, 32
BINS, TERMS = 1024, 6
COARSE = 9


class _Grid(NamedTuple):
    """The losses at the points of a grid without the closed terms, and the log weights of the points."""

    loss: Float[np.ndarray, " points"]
    log_weight: Float[np.ndarray, " points"]

    def log_mean(self, powers: Complex[np.ndarray, " powers"]) -> Complex[np.ndarray, " powers"]:
        """Return log Σ weight·exp(power·loss) for powers of one real part.

        Points of nearly the same loss turn together: in each of many bins, exp(iy·(middle + off)) by its first
        terms in off, whose weighted sums serve all powers.
        """
        exponent = powers[0].real * self.loss + self.log_weight
        top = exponent.max()
        weights, low = np.exp(exponent - top), self.loss.min()
        width = max((self.loss.max() - low) / BINS, 1e-300)
        place = np.minimum(((self.loss - low) / width).astype(int), BINS - 1)
        middles, off = low + (np.arange(BINS) + 0.5) * width, self.loss - (low + (place + 0.5) * width)
        centre = middles[place] @ weights / weights.sum()  # no digits are lost to a common phase
        y, total, term = powers.imag, np.zeros(len(powers), dtype=complex), np.ones(len(powers), dtype=complex)
        turns = np.exp(1j * np.outer(y, middles - centre))
        for order in range(1, TERMS + 1):
            total = total + term * (turns @ np.bincount(place, weights, BINS))
            weights, term = weights * off, term * 1j * y / order
        return np.log(total) + top + 1j * y * centre


@dataclass(frozen=True)
class DatasetLoss:
    """The loss of one dataset of `rows` rows for records of these ℓ; `reverse` as for draws."""

    p: int
    mean_weight: float
    df: float
    augmented: Float[np.ndarray, " batch"]
    rows: int
    reverse: bool = False
    points: tuple[int, int, int] = (SPREAD_POINTS, ACROSS_POINTS, MEAN_POINTS)
    _grids: dict[int, tuple[float, Any, _Grid]] = field(default_factory=dict, repr=False)
    negligible: ClassVar[float] = 1e-7
    most_blocks: ClassVar[int] = 6
    lean: ClassVar[float] = 0.0

    @property
    def end(self) -> Float[np.ndarray, " batch"]:
        """In reverse K(s) is finite for s < 1 + (ν − p + 1), where βₚ has its moments."""
        return np.full(self.augmented.shape, 2 + self.df - self.p if self.reverse else np.inf)

    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K(s) at complex s; all of a row have the same real part, and a grid."""
        a = 1 - s if self.reverse else s
        grids = [self._grid(row, float(powers[0].real)) for row, powers in enumerate(a)]
        return np.array([grid.log_mean(powers) for grid, powers in zip(grids, a, strict=True)]) + self._closed(a)

    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        sign, a = (-1, 1 - s) if self.reverse else (1, s)
        found = np.empty((3, len(a)))
        for row, power in enumerate(a):
            grid = self._grid(row, float(power))
            exponent = power * grid.loss + grid.log_weight
            top = exponent.max()
            weights = np.exp(exponent - top)
            total = weights.sum()
            mean = weights @ grid.loss / total
            found[:, row] = np.log(total) + top, mean, weights @ (grid.loss - mean) ** 2 / total
        alpha, beta, t = 0.5 * (self.df - np.arange(1, self.p)), 0.5 * (self.rows - 1), 0.5 * a[:, None]
        first = 0.5 * np.sum(digamma(alpha + t) - digamma(alpha + beta + t), axis=1)
        second = 0.25 * np.sum(polygamma(1, alpha + t) - polygamma(1, alpha + beta + t), axis=1)
        slope = found[1] + first + self._constant
        return found[0] + self._closed(a), sign * slope, found[2] + second

    def _closed(self, a: Any) -> Any:
        """Return a·const + Σ_{i>1} log E[βᵢ^(a/2)]."""
        total, beta = a * self._constant.reshape(-1, *[1] * (a.ndim - 1)), 0.5 * (self.rows - 1)
        alpha = 0.5 * (self.df - np.arange(1, self.p))
        total = total + sum_curved_log_gamma(alpha, 0.5 * a) - sum_curved_log_gamma(alpha + beta, 0.5 * a)
        return total + 0.5 * a * np.sum(np.log(alpha / (alpha + beta)))

    @property
    def _constant(self) -> Any:
        """All that L has besides the numbers that are drawn: the two predictives' constants; one a record."""
        kappa, whole = self.mean_weight, self.df + self.rows
        total = 0.5 * self.p * (np.log1p(1 / kappa) - np.log1p(1 / (kappa + self.rows)))
        before, after = (0.5 * (df - np.arange(self.p)) for df in (self.df, whole))
        total += sum_curved_log_gamma(after, 0.5) - sum_curved_log_gamma(before, 0.5)
        total += 0.5 * np.sum(np.log(after / before))
        # the predictive of the others alone at the record: 1 + κ/(κ + 1)·(ℓ − 1/κ) = (1 + ℓ)κ/(κ + 1)
        return total + 0.5 * (self.df + 1) * np.log1p(kappa / (kappa + 1) * (self.augmented - 1 / kappa))

    def _grid(self, row: int, power: float) -> _Grid:
        """Return the points that carry E[exp(power·L)], found on coarse grids and then laid finely; kept."""
        kept = self._grids.get(row)
        if kept is None or kept[0] != power:
            box = self._box(row, power, self._start if kept is None else kept[1])
            kept = power, box, self._pruned(self._on(row, box, self._points), power)
            self._grids[row] = kept
        return kept[2]

    def _box(self, row: int, power: float, box: Any) -> Float[np.ndarray, "sides 2"]:
        """Return the sides of a box outside which the integrand is DROP below its top, starting from some box."""
        for _ in range(100):
            grid = self._on(row, box, [COARSE] * len(box))
            shape = (COARSE,) * len(box)
            heights = (power * grid.loss + grid.log_weight).reshape(shape)
            heights -= heights.max()
            wide, settled = box.copy(), True
            for side, (low, high) in enumerate(box):
                other = tuple(axis for axis in range(len(box)) if axis != side)
                above = np.flatnonzero(heights.max(axis=other) > -DROP)
                step = (high - low) / (COARSE - 1)
                # a step more than the last point above; where that is the edge, as far again
                reach_down = above[0] - 1 if above[0] > 0 else -(COARSE - 1)
                reach_up = above[-1] + 1 if above[-1] < COARSE - 1 else 2 * (COARSE - 1)
                wide[side] = low + reach_down * step, low + reach_up * step
                settled &= reach_down >= 0 and reach_up <= COARSE - 1 and len(above) >= COARSE - 3
            box = wide
            if settled:
                break
        return box

    @property
    def _shapes(self) -> tuple[tuple[float, float] | None, tuple[float, float] | None, float]:
        """The shapes of β₁ and ω, None for one that does not vary, and d."""
        d = self.df + self.rows - self.p
        share = (0.5 * self.df, 0.5 * (self.rows - 1)) if self.rows > 1 else None
        return share, ((0.5 * (self.p - 1), 0.5 * (d + 1)) if self.p > 1 else None), d

    @property
    def _points(self) -> list[int]:
        varies = (*map(bool, self._shapes[:2]), True)
        return [number for number, some in zip(self.points, varies, strict=True) if some]

    @property
    def rough(self) -> "DatasetLoss":
        """The same on a grid good enough to find the line by."""
        return replace(self, points=(20, 14, 14), _grids={})

    @property
    def _start(self) -> Float[np.ndarray, "sides 2"]:
        """Where the numbers lie without any weight on their loss, eight deviations to both sides."""
        share, across, d = self._shapes
        reach = [8 * np.sqrt(1 / pair[0] + 1 / pair[1]) for pair in (share, across) if pair]
        return np.array([(-np.arcsinh(half), np.arcsinh(half)) for half in (*reach, 8 / np.sqrt(d))])

    def _on(self, row: int, box: Float[np.ndarray, "sides 2"], points: list[int]) -> _Grid:
        """Return losses and log weights on an even grid over the box.

        Its sides are u with log-odds of β₁ = middle + sinh u, log ω = middle + sinh u, asinh T = sinh u: so
        every tail falls faster than exponentially, and an even grid gives all digits.
        """
        total, kappa = self.df + self.rows, self.mean_weight + self.rows
        share, sideways, d = self._shapes
        sides = [np.linspace(low, high, number) for (low, high), number in zip(box, points, strict=True)]
        # each number on an axis of its own: all but one logarithm are of one number alone
        u, shape = list(np.ix_(*sides)), tuple(points)
        steps = [np.log((side[1] - side[0]) * np.cosh(axis)) for side, axis in zip(sides, u, strict=True)]
        tau = np.sinh(u[-1])
        log_cosh = np.abs(tau) + np.log1p(np.expm1(-2 * np.abs(tau)) / 2)
        weight = steps[-1] - d * log_cosh - betaln(0.5, 0.5 * d)
        log_share, log_omega = np.zeros((1,) * len(u)), np.full((1,) * len(u), -np.inf)
        if share:
            alpha, beta = share
            odds = np.log(alpha / beta) + np.sinh(u[0])
            log_share = -np.logaddexp(0, -odds)
            weight = weight + (steps[0] + alpha * log_share - beta * np.logaddexp(0, odds) - betaln(alpha, beta))
        if sideways:
            alpha, beta = sideways
            log_omega = np.log(alpha / beta) + np.sinh(u[-2])
            of_omega = alpha * log_omega - (alpha + beta) * np.logaddexp(0, log_omega) - betaln(alpha, beta)
            weight = weight + (steps[-2] + of_omega)
        # 1 + T² + R² = cosh²τ·(1 + ω), taken out of both logarithms
        h, r = kappa / (kappa + 1), np.sqrt(self.rows / (self.mean_weight * kappa))
        squared = max(self.augmented[row] - 1 / self.mean_weight, 0.0) * np.exp(log_share)  # a²
        along = (np.sqrt(squared) * np.exp(-log_cosh) - r * np.tanh(tau)) ** 2
        more = h * (along * expit(-log_omega) + (r * r + squared) * expit(log_omega))
        closed = (0.5 * log_share - log_cosh) - 0.5 * np.logaddexp(0, log_omega)
        loss = closed - 0.5 * (total + 1) * np.log1p(more)
        return _Grid(np.broadcast_to(loss, shape).reshape(-1), np.broadcast_to(weight, shape).reshape(-1))

    def _pruned(self, grid: _Grid, power: float) -> _Grid:
        height = power * grid.loss + grid.log_weight
        kept = height > height.max() - DROP
        return _Grid(grid.loss[kept], grid.log_weight[kept])
