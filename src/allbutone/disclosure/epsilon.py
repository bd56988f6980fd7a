"""Per record, in the language of differential privacy: the exact ε of every record at a given δ."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Complex, Float, Int
from scipy.special import expit, factorial, gammaln, ndtr, ndtri, polygamma

from allbutone.disclosure.draw_loss import DrawLoss, curved_log_gamma, remainder_slopes, sum_curved_log_gamma
from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.loss_profile import Loss, epsilon, separation, separation_by_area
from allbutone.model.niw import NIW
from allbutone.model.prior import AnyPrior, declared_prior, prior_of
from allbutone.releases.gaussian_account import DELTA, delta_of
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.parallel import one_thread
from allbutone.tables.records import Records

# The privacy loss of one record from synthetic datasets: its cumulants, a quadrature in three numbers.
#
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
        found = np.array([self._grid(row, float(power)).moments() for row, power in enumerate(a)]).T
        alpha, beta, t = 0.5 * (self.df - np.arange(1, self.p)), 0.5 * (self.rows - 1), 0.5 * a[:, None]
        # ψ(z) = log z − 1/(2z) + R′(z), each difference without cancellation
        low, high = alpha + t, alpha + beta + t
        rest = remainder_slopes(low)[0] - remainder_slopes(high)[0]
        first = 0.5 * np.sum(rest - np.log1p(beta / low) - 0.5 * beta / (low * high), axis=1)
        second = 0.25 * np.sum(polygamma(1, low) - polygamma(1, high), axis=1)
        slope = found[1] + first + self._constant
        return found[0] + self._closed(a), sign * slope, found[2] + second

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


# Per record, in the language of differential privacy: the exact ε of every record at a given δ.
#
# It depends on the data: it informs the data holder, is confidential, and is no guarantee (`guarantee` gives one).


FIRST_NODES, MOST_NODES = 8, 1024
# what new nodes may differ by from the interpolation of the old: with twice as many the error is about its square
CLOSE = 2e-4
PROBES = 6
MOST_AUGMENTED = 1e9
MOST_TESTED = 1e6  # ℓ beyond which a record counts as here: the best test misses nobody who is so far out
DENSE = 1 << 14  # points of the table that is looked up
ALARMS = np.array([0.01, 0.05])  # shares of false alarms at which hits are told
LEAST_APART = 1e-3  # separations are tabulated to a share of this at least


def privacy(
    table: Any,
    prior: AnyPrior | None = None,
    *,
    draws: int | None = None,
    datasets: int | None = None,
    rows: int | None = None,
    delta: float = DELTA,
    **how_to_read: Any,
) -> Any:
    """Return a dataframe, in the table's own library, with the exact ε of each record: confidential, no guarantee.

    Of `draws` parameter draws, or of `datasets` of `rows` rows each (as many as the table has unless said).
    `epsilon` is the smallest ε for which no event becomes more than e^ε times, plus `delta`, as likely or
    unlikely by the record's presence, given all other records. `exact` is false where a dataset's own ε could
    not be had: there it is that of its parameters, which is never smaller. `gain_of_one` and `gain_of_one_sd`
    are the mean and standard deviation of the information gained at the truth from one draw or one dataset, in
    nats. `membership_hits_1_percent` and `membership_hits_5_percent`: how often the best test says of somebody in
    the table that they are, at so many false alarms; `membership_area`: under the curve of such hits, ½ where
    nothing is told. The prior is as to `Synthesizer`; how the table is read is said as to `Records.of`.

    >>> import allbutone as abo
    >>> found = abo.privacy(abo.demo_cohort(), draws=1)
    >>> found.column_names[:6]
    ['row', 'leverage', 'epsilon', 'exact', 'gain_of_one', 'gain_of_one_sd']
    >>> found.column_names[6:]
    ['membership_hits_1_percent', 'membership_hits_5_percent', 'membership_area']
    """
    records = Records.of(table, **how_to_read)
    count, sizes = releases_of(draws, datasets, rows, len(records.values))
    delta = delta_of(delta, len(records.values))
    given = declared_prior(records.schema) if prior is None else prior_of(prior, records.columns, records.schema)
    people, p = records.values.shape
    if given.is_flat and people < p + 2:
        raise InputError(
            f"without one of them, {people} records leave the flat prior no distribution of {p} columns",
            Cure("give a prior from public knowledge", "prior"),
            Cure("use fewer columns", "drop"),
        )
    leverage = leverages(records.values, given)
    law = ExposureLaw.of(given, people, sizes)
    loss = PrivacyLoss(law, count, delta)
    columns = {"row": records.rows, "leverage": leverage} | loss.columns(leverage)
    columns |= loss.best_test(leverage, ALARMS).columns
    return nw.from_dict(columns, backend=records.backend).to_native()  # type: ignore[arg-type]


def epsilons_of(records: Records, release: Any, prior: NIW) -> Float[np.ndarray, " n"] | None:
    """Return the ε of each record by this release: from the data, confidential, not a guarantee.

    Datasets of several sizes count as of the largest. None for releases of other kinds, or of too few records.
    """
    people, p = records.values.shape
    if not release.mechanism.is_normal or people < p + 3:
        return None
    rows = max(release.rows) if release.parameters is None else None
    loss = PrivacyLoss(ExposureLaw.of(prior, people, rows), release.count, usual_delta(people))
    return loss.columns(leverages(records.values, prior))["epsilon"]


def epsilon_of_one(law: ExposureLaw, leverage: float, count: int, people: int) -> float:
    """Return the ε of one record by so many draws or datasets: from the data, confidential, not a guarantee."""
    return float(PrivacyLoss(law, count, usual_delta(people)).columns(np.array([leverage]))["epsilon"][0])


def usual_delta(people: int) -> float:
    """Return the δ of figures for which none was asked: 1e-6, or a hundredth of one over the people."""
    return min(DELTA, 0.01 / people)


def releases_of(draws: Any, datasets: Any, rows: Any, people: int) -> tuple[int, int | None]:
    """Return the number of releases and the rows of each, None for parameter draws."""
    if (draws is None) == (datasets is None):
        raise InputError(
            "say what is released: either parameter draws or datasets",
            Cure("so many draws", "draws", 1),
            Cure("so many datasets", "datasets", 1),
        )
    if draws is not None:
        if rows is not None:
            raise InputError("parameter draws have no rows", Cure("leave them out", "rows"))
        return count_of("draws", draws), None
    return count_of("datasets", datasets), people if rows is None else count_of("rows", rows)


@dataclass(frozen=True, eq=False)
class BestTest:
    """The best test of "this record is in the table", for n records, by who knows all others and the release.

    misses: of someone who is in it, at each of k shares of false alarms. area: under the curve of hits, that is
    1 − misses, against false alarms: ½ where nothing is told. exact: else it is the test of who has the parameters
    that the datasets were drawn from, and with the datasets alone there are no fewer misses. error: the largest
    standard error of all these, above 0 where they are of simulated releases.
    """

    false_alarms: Float[np.ndarray, " k"]
    misses: Float[np.ndarray, "n k"]
    area: Float[np.ndarray, " n"]
    exact: Bool[np.ndarray, " n"]
    error: Float[np.ndarray, " n"]

    @classmethod
    def unknown(cls, people: int, false_alarms: Float[np.ndarray, " k"]) -> "BestTest":
        """Return it of people of whom nothing is known yet: all NaN."""
        nothing = np.full(people, np.nan)
        return cls(
            false_alarms, np.tile(nothing[:, None], len(false_alarms)), nothing, np.isfinite(nothing), nothing
        )

    @classmethod
    def of_losses(cls, losses: Float[np.ndarray, "r n"], false_alarms: Float[np.ndarray, " k"]) -> "BestTest":
        """Return it from the losses of n records in r simulated releases of the table that they are in.

        Releases without a record need not be drawn: P(L > t | without) is E[exp(−L); L > t | with]. Where the
        threshold t has α false alarms, the hits have the influence function 1[L > t]·(1 − exp(t − L)).
        """
        (r, n), alarms = losses.shape, np.asarray(false_alarms, dtype=float)
        hits, area, error = np.empty((n, len(alarms))), np.empty(n), np.empty(n)
        steps = np.arange(r + 2) / r
        for place, loss in enumerate(-np.sort(-losses.T, axis=1)):
            without = np.exp(-loss) / r
            alarmed = np.cumsum(without)
            curve = np.append([0.0, *(alarmed / max(1.0, alarmed[-1]))], 1.0)
            shares = np.minimum(steps, 1.0)
            hits[place] = np.interp(alarms, curve, shares)
            area[place] = np.sum(np.diff(curve) * (shares[1:] + shares[:-1])) / 2
            threshold = np.interp(alarms, curve[1:-1], loss)[:, None]
            away = np.where(loss > threshold, -np.expm1(np.minimum(threshold - loss, 0.0)), 0.0)
            of_area = curve[1:-1] + without * r * (1 - np.arange(1, r + 1) / r)  # what a release adds, either way
            error[place] = max(*np.std(away, axis=1), np.std(of_area)) / np.sqrt(r)
        return cls(alarms, 1 - hits, area, np.ones(n, dtype=bool), error)

    def having(self, people: Int[np.ndarray, " m"], test: "BestTest") -> "BestTest":
        """Return it with the `test` of these people, which is of simulated releases, in the place of their own."""
        changed = {name: getattr(self, name).copy() for name in ("misses", "area", "exact", "error")}
        for name, column in changed.items():
            column[people] = getattr(test, name)
        return replace(self, **changed)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Hits at each share of false alarms, and the area, for a table."""
        hits = {
            f"membership_hits_{100 * alarm:g}_percent": 1 - missed
            for alarm, missed in zip(self.false_alarms, self.misses.T, strict=True)
        }
        return hits | {"membership_area": self.area}


@dataclass(frozen=True)
class PrivacyLoss:
    """What ε and information gain depend on besides the leverage: p, κ, ν, rows, number released, and δ."""

    law: ExposureLaw
    count: int = 1
    delta: float = DELTA

    @one_thread()  # thousands of small products: threads of the linear algebra's own take ten times as long
    def columns(self, leverage: Float[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return for each leverage ε, whether it is exact, and mean and spread of one release's gain."""
        augmented = self.law.augmented(leverage)
        # Without the record, L goes down to about −ν·ℓ: as ℓ grows, ε(ℓ)/ℓ settles, and is the same to nine digits
        # from 10⁹ on, where 1 + 1/ℓ has none left.
        near = np.minimum(augmented, MOST_AUGMENTED)
        found = np.max(looked_up(partial(self._epsilons, None), near), axis=0) * (augmented / near)
        exact = np.ones(len(augmented), dtype=bool)
        if self.law.rows is not None:
            own, exact = looked_up_while_known(partial(self._epsilons, self.law.rows), near)
            exact = exact & (augmented == near)
            found = np.where(exact, np.minimum(np.max(own, axis=0), found), found)
        gain, spread = looked_up(self._gains, augmented)
        return {
            "epsilon": np.maximum(found - self._shift, 0.0),
            "exact": exact,
            "gain_of_one": gain,
            "gain_of_one_sd": spread,
        }

    @one_thread()
    def best_test(self, leverage: Float[np.ndarray, " n"], false_alarms: Float[np.ndarray, " k"]) -> BestTest:
        """Return how well records of these leverages are told to be in the table: the exact trade-off curve.

        By Neyman and Pearson from the distribution of the loss, with the record and without.
        """
        alarms = np.asarray(false_alarms, dtype=float)
        if not np.all((alarms > 0) & (alarms < 1)):
            cure = Cure("ask for 1 % and 5 %", "false_alarms", [0.01, 0.05])
            raise InputError("shares of false alarms lie between 0 and 1", cure)
        near = np.minimum(self.law.augmented(leverage), MOST_TESTED)
        apart, exact = looked_up(partial(self._separations, None, alarms), near), np.ones(len(near), dtype=bool)
        if self.law.rows is not None:
            own, exact = looked_up_while_known(partial(self._separations, self.law.rows, alarms), near)
            apart = np.where(exact, own, apart)
        apart = apart.T - LEAST_APART
        misses, area = ndtr(-ndtri(alarms) - apart[:, :-1]), ndtr(apart[:, -1] / np.sqrt(2))
        return BestTest(alarms, misses, area, exact, np.zeros(len(area)))

    @property
    def _shift(self) -> float:
        """Added to an ε to make it positive: ε ≥ log(1 − δ)."""
        return 2 * self.delta

    def _epsilons(
        self, rows: int | None, augmented: Float[np.ndarray, " k"], checked: bool = False
    ) -> Float[np.ndarray, "2 k"]:
        """Return ε of datasets, or of draws (None), in both directions, made positive."""
        losses = [self._loss(rows, augmented, reverse) for reverse in (False, True)]
        found = [epsilon(loss, self.delta, self.count, checked=checked) for loss in losses]
        return np.array(found) + self._shift

    def _separations(
        self, rows: int | None, alarms: np.ndarray, augmented: Float[np.ndarray, " k"], checked: bool = False
    ) -> Float[np.ndarray, "rows k"]:
        """Return how far the worlds are apart at each share of false alarms, and by the area; made positive."""
        every = self._loss(rows, np.tile(augmented, len(alarms)))
        found = separation(every, np.repeat(alarms, len(augmented)), self.count, checked=checked)
        by_area = separation_by_area(self._loss(rows, augmented), self.count)
        return np.concatenate([found.reshape(len(alarms), -1), by_area[None]]) + LEAST_APART

    def _gains(self, augmented: Float[np.ndarray, " k"]) -> Float[np.ndarray, "2 k"]:
        _, mean, variance = self._loss(self.law.rows, augmented).slopes(np.ones_like(augmented))
        return np.array([mean, np.sqrt(variance)])

    def _loss(self, rows: int | None, augmented: Float[np.ndarray, " k"], reverse: bool = False) -> Loss:
        law = (self.law.p, self.law.mean_weight, self.law.df)
        return DrawLoss(*law, augmented, reverse) if rows is None else DatasetLoss(*law, augmented, rows, reverse)


def looked_up(values: Callable[[Any], Any], at: Float[np.ndarray, " n"]) -> Float[np.ndarray, "rows n"]:
    """Return smooth positive functions of one positive number at many of them: a table, interpolated to 1e-6.

    Chebyshev's polynomials of the logarithms, with twice as many nodes until those that are new lie where the
    old ones said; then a spline through many points of the polynomial, which is quicker to look up. Few numbers
    need none. Where a function is not known at a node, the table has nothing but such values.
    """
    from scipy.interpolate import CubicSpline  # not above: it is slow to load

    low, high = np.log(at.min()), np.log(at.max())
    if len(at) <= FIRST_NODES or high - low < 1e-9:
        different, place = np.unique(at, return_inverse=True)
        return values(different)[:, place]
    grid, count = np.linspace(-1.0, 1.0, DENSE), FIRST_NODES
    known = np.log(values(_nodes(low, high, np.arange(count + 1), count)))
    while True:
        # the next nodes: those between the old ones
        between = np.arange(1, 2 * count, 2)
        new = np.log(values(_nodes(low, high, between, 2 * count)))
        off = np.abs(_polynomial(known)(np.cos(np.pi * between / (2 * count))) - new)
        both = np.empty((len(known), 2 * count + 1))
        both[:, ::2], both[:, 1::2] = known, new
        known, count = both, 2 * count
        if np.isnan(known).any():
            return np.full((len(known), len(at)), np.nan)
        if not np.any(off > CLOSE) or count >= MOST_NODES:
            break

    dense = _polynomial(known)(grid)
    place = np.clip((2 * np.log(at) - low - high) / (high - low), -1.0, 1.0)
    return np.exp(CubicSpline(grid, dense, axis=1)(place))


def looked_up_while_known(
    values: Callable[..., Any], at: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "rows n"], Bool[np.ndarray, " n"]]:
    """Look up as `looked_up` does, below the first number at which the functions are unknown; say where."""
    known, unknown = [0.0], [np.inf]

    def noted(tried: Float[np.ndarray, " k"], **how: bool) -> Float[np.ndarray, "rows k"]:
        found = values(tried, **how)
        lost = np.isnan(found).any(axis=0)
        known.extend(tried[~lost])
        unknown.extend(tried[lost])
        return found

    probes = np.unique(np.exp(np.linspace(np.log(at.min()), np.log(at.max()), PROBES)))
    size = len(noted(probes, checked=True))
    while True:
        first = min(unknown)
        last = max(each for each in known if each < first)
        below = at <= (last if np.isfinite(first) else np.inf)
        found = np.full((size, len(at)), np.nan)
        if below.any():
            found[:, below] = looked_up(noted, at[below])
        if min(unknown) == first:
            return found, np.isfinite(found).all(axis=0)


def _nodes(low: float, high: float, index: Any, count: int) -> Any:
    return np.exp(0.5 * (low + high) + 0.5 * (high - low) * np.cos(np.pi * index / count))


def _polynomial(known: Float[np.ndarray, "rows nodes"]) -> Callable[[Any], Any]:
    """Return the polynomial through values at cos(πj/N), j = 0…N, by its Chebyshev coefficients."""
    count = known.shape[1] - 1
    index = np.arange(count + 1)
    halves = np.where((index == 0) | (index == count), 0.5, 1.0)
    waves = np.cos(np.pi * np.outer(index, index) / count)
    coefficients = (known * halves) @ waves * halves * 2 / count
    return lambda x: np.polynomial.chebyshev.chebval(x, coefficients.T)
