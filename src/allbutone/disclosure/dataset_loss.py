"""The privacy loss of one record from synthetic datasets: its cumulants, a quadrature in three numbers."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Complex, Float
from scipy.special import expit, factorial, gammaln, polygamma

from allbutone.disclosure.draw_loss import curved_log_gamma, remainder_slopes, sum_curved_log_gamma
from allbutone.disclosure.loss_profile import Loss

# A dataset of n_z rows says less than the parameters it was drawn from. Its loss is L = log p(x | X₋ ∪ Z) − log
# p(x | X₋), and under the distribution without the record it is a function of p + 2 independent numbers,
#
#     βᵢ ~ Beta((ν − i + 1)/2, (n_z − 1)/2), i = 1…p      how much of the others' spread is in the spread of both
#     T ~ t_d/√d, d = ν + n_z − p                         how far the dataset's mean lies along the record
#     ω ~ BetaPrime((p − 1)/2, (d + 1)/2)                 and across it: R² = ω(1 + T²)
#
# With a² = (ℓ − 1/κ)·β₁, κ̃ = κ + n_z, ν̃ = ν + n_z, r² = n_z/(κκ̃), h = κ̃/(κ̃ + 1),
#
#     L = const + ½·Σ log βᵢ + (ν̃/2)·log(1 + T² + R²)
#         − ((ν̃ + 1)/2)·log(1 + h·a² + (1 + h·r²)T² − 2h·a·r·T + (1 + h·r² + h·a²)R²)
#
# (docs/guarantees.md has the proof). The moments of β₂…β_p are closed; the rest is a sum over a grid.


DROP = 30.0  # nats below its top from where the integrand is left out
BRIM = np.sqrt(DROP + 4)  # of the box, in square roots of nats: coarse grids miss the very top
# a side: the loss of an outlier is nearly that of β₁ alone, whose grid must be fine enough for all its phases
SPREAD_POINTS, ACROSS_POINTS, MEAN_POINTS = 96, 28, 56
BINS, ORDERS = 1024, np.arange(6)
FACTORIALS: Float[np.ndarray, " 6"] = factorial(ORDERS)
COARSE = 9
FURTHEST = 7.0  # e^7 is 1100, so beyond it nothing is left of any integrand
CENTRE = 0.567  # where u = e^−u


@dataclass(frozen=True)
class _Grid:
    """The losses at the points of a grid without the closed terms, and the log weights of the points.

    It carries E[exp(s·L)] for s of one real part, the power.
    """

    loss: Float[np.ndarray, " points"]
    log_weight: Float[np.ndarray, " points"]
    power: float

    @cached_property
    def height(self) -> Float[np.ndarray, " points"]:
        """The log of the integrand at its power."""
        return self.power * self.loss + self.log_weight

    def moments(self) -> tuple[float, float, float]:
        """Return the log of the mean of exp(power·L), and mean and variance of L under that weight."""
        top = self.height.max()
        weights = np.exp(self.height - top)
        total = weights.sum()
        mean = weights @ self.loss / total
        return np.log(total) + top, mean, weights @ (self.loss - mean) ** 2 / total

    @cached_property
    def _bins(self) -> tuple[Any, float, Any]:
        """Middles of even bins of losses, the mean loss, and Σ weight·(loss − middle)^k of each bin, k = 0…5."""
        weights, low = np.exp(self.height - self.height.max()), self.loss.min()
        width = max((self.loss.max() - low) / BINS, 1e-300)
        place = np.minimum(((self.loss - low) / width).astype(int), BINS - 1)
        middles, centre = low + (np.arange(BINS) + 0.5) * width, self.loss @ weights / weights.sum()
        off, sums = self.loss - middles[place], []
        for _ in ORDERS:
            sums.append(np.bincount(place, weights, BINS))
            weights = weights * off
        return middles, centre, np.array(sums)

    def log_mean(self, y: Float[np.ndarray, " powers"]) -> Complex[np.ndarray, " powers"]:
        """Return log Σ weight·exp((power + iy)·loss).

        Points of nearly the same loss turn together: in each of many bins, exp(iy·(middle + off)) by its first
        terms in off, whose weighted sums serve all y.
        """
        middles, centre, sums = self._bins
        turned = np.exp(1j * np.outer(y, middles - centre)) @ sums.T  # no digits are lost to a common phase
        total = np.sum(turned * (1j * y[:, None]) ** ORDERS / FACTORIALS, axis=1)
        return np.log(total) + self.height.max() + 1j * y * centre


@dataclass(frozen=True)
class DatasetLoss(Loss):
    """The loss of one dataset of `rows` rows for records of these ℓ; `reverse` as for draws."""

    p: int
    mean_weight: float
    df: float
    augmented: Float[np.ndarray, " batch"]
    rows: int
    reverse: bool = False
    points: tuple[int, int, int] = (SPREAD_POINTS, ACROSS_POINTS, MEAN_POINTS)
    _boxes: dict[int, Any] = field(default_factory=dict, repr=False)
    _grids: dict[int, _Grid] = field(default_factory=dict, repr=False)
    negligible: ClassVar[float] = 1e-7
    most_blocks: ClassVar[int] = 12

    @property
    def end(self) -> Float[np.ndarray, " batch"]:
        """In reverse K(s) is finite for s < 1 + (ν − p + 1), where βₚ has its moments."""
        return np.full(self.augmented.shape, 2 + self.df - self.p if self.reverse else np.inf)

    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K(s) at complex s; all of a row have the same real part, and a grid."""
        a = 1 - s if self.reverse else s
        grids = [self._grid(row, float(powers[0].real)) for row, powers in enumerate(a)]
        return np.array([grid.log_mean(y) for grid, y in zip(grids, a.imag, strict=True)]) + self._closed(a)

    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        sign, a = (-1, 1 - s) if self.reverse else (1, s)
        moments = np.array([self._grid(row, float(power)).moments() for row, power in enumerate(a)]).T
        alpha, beta, t = 0.5 * (self.df - np.arange(1, self.p)), 0.5 * (self.rows - 1), 0.5 * a[:, None]
        # ψ(z) = log z − 1/(2z) + R′(z), each difference without cancellation
        low, high = alpha + t, alpha + beta + t
        rest = remainder_slopes(low)[0] - remainder_slopes(high)[0]
        first = 0.5 * np.sum(rest - np.log1p(beta / low) - 0.5 * beta / (low * high), axis=1)
        second = 0.25 * np.sum(polygamma(1, low) - polygamma(1, high), axis=1)
        slope = moments[1] + first + self._constant
        return moments[0] + self._closed(a), sign * slope, moments[2] + second

    def _closed(self, a: Any) -> Any:
        """Return a·const + Σ_{i>1} log E[βᵢ^(a/2)]."""
        total, beta = a * self._constant.reshape(-1, *[1] * (a.ndim - 1)), 0.5 * (self.rows - 1)
        alpha = 0.5 * (self.df - np.arange(1, self.p))
        total = total + sum_curved_log_gamma(alpha, 0.5 * a) - sum_curved_log_gamma(alpha + beta, 0.5 * a)
        return total - 0.5 * a * np.sum(np.log1p(beta / alpha))

    @property
    def _constant(self) -> Any:
        """All that L has besides the numbers that are drawn: the two predictives' constants; one a record."""
        kappa, whole = self.mean_weight, self.df + self.rows
        total = 0.5 * self.p * (np.log1p(1 / kappa) - np.log1p(1 / (kappa + self.rows)))
        before, after = (0.5 * (df - np.arange(self.p)) for df in (self.df, whole))
        total += sum_curved_log_gamma(after, 0.5) - sum_curved_log_gamma(before, 0.5)
        total += 0.5 * np.sum(np.log1p(0.5 * self.rows / before))
        # ν̃ + 1 powers of (1 + A), which the sum has, less the ν + 1 of the predictive of the others alone
        return total - 0.5 * self.rows * np.log1p(kappa / (kappa + 1) * np.maximum(self.augmented - 1 / kappa, 0))

    def _grid(self, row: int, power: float) -> _Grid:
        """Return the points that carry E[exp(power·L)], found on coarse grids and then laid finely; kept."""
        grid = self._grids.get(row)
        if grid is None or grid.power != power:
            self._boxes[row] = self._box(row, power, self._boxes.get(row, self._start))
            whole = self._on(row, power, self._boxes[row], self._points)
            kept = whole.height > whole.height.max() - DROP
            self._grids[row] = grid = _Grid(whole.loss[kept], whole.log_weight[kept], power)
        return grid

    def _box(self, row: int, power: float, box: Any) -> Float[np.ndarray, "sides 2"]:
        """Return the sides of a box outside which the integrand is DROP below its top, starting from some box."""
        box = box + (box[:, 1:] - box[:, :1]) * [-0.1, 0.1]  # of another power: its top is near
        for _ in range(100):
            heights = self._on(row, power, box, [COARSE] * len(box)).height.reshape((COARSE,) * len(box))
            depths = np.sqrt(heights.max() - heights)
            sides = [depths.min(axis=tuple(set(range(len(box))) - {side})) for side in range(len(box))]
            ends = np.array([(_first_end(depth), COARSE - 1 - _first_end(depth[::-1])) for depth in sides])
            low, step = box[:, :1], (box[:, 1:] - box[:, :1]) / (COARSE - 1)
            within = np.all((ends[:, 0] > 0) & (ends[:, 1] < COARSE - 1))
            # whole steps: the top may lie between the points
            whole = low + np.stack([np.floor(ends[:, 0]), np.ceil(ends[:, 1])], axis=1) * step
            if within and np.all(ends[:, 1] - ends[:, 0] > COARSE - 4):
                return self._cut(row, power, whole, step[:, 0], heights.max())
            box = np.maximum(whole, -FURTHEST)
            box[-1] = np.minimum(box[-1], FURTHEST)
        return box

    def _cut(self, row: int, power: float, box: Any, steps: Any, top: float) -> Float[np.ndarray, "sides 2"]:
        """Return the box cut where the integrand comes down to the brim, looked for in the last step of each side.

        Much fewer others than rows let it plunge there: it stays up for most of the step.
        """
        cut = box.copy()
        for side, step in enumerate(steps):
            for end, inwards in ((0, step), (1, -step)):
                slab, points = box.copy(), [COARSE] * len(box)
                slab[side] = np.sort([box[side, end], box[side, end] + inwards])
                heights = self._on(row, power, slab, points).height.reshape(points)
                depths = np.sqrt(np.maximum(top - heights.max(axis=tuple(set(range(len(box))) - {side})), 0.0))
                place = np.floor(_first_end(depths if end == 0 else depths[::-1]))
                cut[side, end] += max(place, 0.0) * inwards / (COARSE - 1)
        return cut

    @property
    def _shapes(self) -> tuple[tuple[float, float] | None, tuple[float, float] | None, float]:
        """The shapes of β₁ and ω, None for one that does not vary, and d."""
        d = self.df + self.rows - self.p
        share = (0.5 * self.df, 0.5 * (self.rows - 1)) if self.rows > 1 else None
        return share, ((0.5 * (self.p - 1), 0.5 * (d + 1)) if self.p > 1 else None), d

    @cached_property
    def _log_norm(self) -> float:
        """The log of the constant that the densities of β₁, ω and T are divided by."""
        share, across, d = self._shapes
        return sum(_log_beta(*pair) for pair in (share, across, (0.5 * d, 0.5)) if pair)

    @property
    def _points(self) -> list[int]:
        varies = (*map(bool, self._shapes[:2]), True)
        return [number for number, some in zip(self.points, varies, strict=True) if some]

    @property
    def rough(self) -> "DatasetLoss":
        """The same on a grid good enough to find the line by, with the same boxes."""
        return replace(self, points=(20, 14, 14), _grids={})

    @property
    def _start(self) -> Float[np.ndarray, "sides 2"]:
        """Where the numbers lie without any weight on their loss, eight deviations to both sides."""
        share, across, d = self._shapes
        reach = [8 * np.sqrt(1 / pair[0] + 1 / pair[1]) for pair in (share, across) if pair]
        ratios = [(CENTRE - half / 2, CENTRE + half / 2) for half in reach]
        mean = np.arcsinh(8 / np.sqrt(d))
        return np.array([*ratios, (-mean, mean)])

    def _on(self, row: int, power: float, box: Float[np.ndarray, "sides 2"], points: list[int]) -> _Grid:
        """Return losses and log weights on an even grid over the box.

        Its sides are u with log((1 − β₁)/β₁) and log ω = middle + u − e^−u, asinh T = sinh u. Both ratios are
        beta primes, about gamma variates: powers towards 0, which e^−u makes fall faster than exponentially, as
        their logarithms' upper tails do of themselves. So an even grid gives all digits.
        """
        share, sideways, d = self._shapes
        sides = [np.linspace(low, high, number) for (low, high), number in zip(box, points, strict=True)]
        # each number on an axis of its own: all but one logarithm are of one number alone
        u, shape = list(np.ix_(*sides)), tuple(points)
        slopes = [1 + np.exp(-axis) for axis in u[:-1]] + [np.cosh(u[-1])]
        steps = [np.log((side[1] - side[0]) * slope) for side, slope in zip(sides, slopes, strict=True)]
        tau = np.sinh(u[-1])
        log_cosh = np.abs(tau) + np.log1p(np.expm1(-2 * np.abs(tau)) / 2)
        weight = steps[-1] - d * log_cosh - self._log_norm
        log_share, log_omega = np.zeros((1,) * len(u)), np.full((1,) * len(u), -np.inf)
        if share:
            alpha, beta = share
            odds = np.log(beta / alpha) + _drawn_out(u[0])
            log_share = -np.logaddexp(0, odds)
            weight = weight + (steps[0] + alpha * log_share - beta * np.logaddexp(0, -odds))
        if sideways:
            alpha, beta = sideways
            log_omega = np.log(alpha / beta) + _drawn_out(u[-2])
            of_omega = alpha * log_omega - (alpha + beta) * np.logaddexp(0, log_omega)
            weight = weight + (steps[-2] + of_omega)
        loss = (0.5 * log_share - log_cosh) - 0.5 * np.logaddexp(0, log_omega)
        loss = loss - 0.5 * (self.df + self.rows + 1) * self._log_change(row, log_share, log_omega, tau, log_cosh)
        return _Grid(np.broadcast_to(loss, shape).reshape(-1), np.broadcast_to(weight, shape).reshape(-1), power)

    def _log_change(self, row: int, log_share: Any, log_omega: Any, tau: Any, log_cosh: Any) -> Any:
        """Return log (1 + B)/(1 + A): 1 + A and 1 + B are the kernels of the predictives without and with Z.

        A = κ/(κ + 1)·|v|² and (1 + T² + R²)(1 + B) is the quadratic of L, where 1 + T² + R² = cosh²τ·(1 + ω). Few
        rows change little: then B − A is put together from small terms, so that it has all digits.
        """
        kappa, whole = self.mean_weight, self.mean_weight + self.rows
        h, r = whole / (whole + 1), np.sqrt(self.rows / (kappa * whole))
        length = max(self.augmented[row] - 1 / kappa, 0.0)
        before = kappa / (kappa + 1) * length
        squared, sine, cosine = length * np.exp(log_share), np.tanh(tau), np.exp(-log_cosh)  # squared: a²
        around, across = expit(-log_omega), expit(log_omega)
        if before > 1:
            along = (np.sqrt(squared) * cosine - r * sine) ** 2
            return np.log1p(h * (along * around + (r * r + squared) * across)) - np.log1p(before)
        # a² less that along the record: a²·(1 − cos²) + 2ar·sin·cos − r²·sin²
        less = (squared - r * r) * sine**2 + 2 * r * np.sqrt(squared) * sine * cosine
        fewer = length * (self.rows / ((kappa + 1) * (whole + 1)) + h * np.expm1(log_share))
        return np.log1p((fewer + h * (r * r * across - less * around)) / (1 + before))


def _first_end(depths: Any) -> float:
    """Return where depths along a side, the square roots of how far below the top, come down to the brim.

    Between two points they are about straight, the integrand being about normal. Where the first is above the
    brim already, the side must begin as far before it as it is long.
    """
    above = int(np.argmax(depths < BRIM))
    if above == 0:
        return float(1 - len(depths))
    deep, shallow = depths[above - 1], depths[above]
    return above - (BRIM - shallow) / (deep - shallow)


def _drawn_out(u: Any) -> Any:
    """Return u − e^−u: about u above, and ever faster down below."""
    return u - np.exp(-u)


def _log_beta(one: float, other: float) -> float:
    """Return log B(one, other); SciPy's, a difference of large numbers, has nine digits of 10⁶ and 500."""
    large, small = max(one, other), min(one, other)
    return float(gammaln(small) - small * np.log(large) - curved_log_gamma(large, small))
