"""The exposure law: what a release gives away about each record, without attacking anyone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg.blas import dtrsm
from scipy.special import ndtr, ndtri

from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.support.arrays import solve_rows
from allbutone.support.errors import InputError

# How far the mode travels, over releases, in closed form: a spiked random matrix with its noise (theory, 4b).
#
# In the others' coordinates the mode v solves (Â − x)v = pull, x·(1 + c‖v‖²) = α·(1 + β₀x‖v‖²), where Â is the
# mean released precision, 1 in all directions but the record's, where it is λ. Taking out the other p − 1
# directions leaves one number along the record, D(x) = Â₁₁ − x − Â₁₂(Â₂₂ − x)⁻¹Â₂₁, of which the mean and the
# variance are known, and one along which the released means lean: two standard normal numbers are all that is left
# of a release.


HALVINGS = 44
HIDDEN = 0.125  # from 1 on the record's eigenvalue cannot be told from the others': the closed form ends before
UNMOVED = 0.7  # from 1 on the mode leaves the centre towards nobody

Points = tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]


def lattice(points: int, turn: int) -> Points:
    """Return so many pairs of standard normal numbers, the most even ones where both counts are Fibonacci's."""
    place = np.arange(points)
    return ndtri((place + 0.5) / points), ndtri((place * turn % points + 0.5) / points)


FEW, MANY = lattice(89, 55), lattice(233, 144)  # for a median; for the tails


@dataclass(frozen=True, eq=False)
class SpikedExposure:
    """What exposure depends on: numbers, or arrays that fit together. Parameters are datasets of endless rows.

    c: κ/(κ+1). limit: α = (c/h)·(k − 1)/k. bulk: β₀ = hν′/(ν′ + n_z), 0 for parameters. lam: λ, the record's own
    precision, where others' is 1. coupling: g = λ(1 + q), 1 for parameters. skew: θ = 1 − ν′/n_z, with which the
    other eigenvalues spread as parameters' do (1), evenly (0), or the other way round. freedom: k·N with
    N = ν′(ν′ + n_z + 2)/n_z; width: y = (p − 1)/(k·N), the variance of the other eigenvalues. skewness: of the
    record's own, over its relative spread: 2 for parameters, as of a χ².
    away: the record's distance. lean, noise: of the released means, along the record and in every direction.
    """

    c: Any
    limit: Any
    bulk: Any
    lam: Any
    coupling: Any
    skew: Any
    skewness: Any
    width: Any
    freedom: Any
    away: Any
    lean: Any
    noise: Any
    count: Any

    @classmethod
    def of(cls, columns: Any, kappa: Any, df: Any, per_row: Any, leverage: Any, count: Any) -> "SpikedExposure":
        """Return the spike of a record of this leverage, for datasets of 1/`per_row` rows or parameters (0)."""
        nu, few = df + 1, (df + 1) * per_row  # few: ν′/n_z
        bulk, lam = few / (1 + few), 1 / (1 + leverage / (1 + few))
        coupling, one = lam * (1 + leverage), nu * (1 + few + 2 * per_row)
        # the mean of 1/(1 + (1 + q)F), F the ratio of two χ², to second order
        lam = lam * (1 + 2 * leverage * (1 + leverage) * bulk * lam**2 / one)
        c, share = kappa / (kappa + 1), 1 / (1 + kappa * per_row)
        height = 1 - per_row / (1 + (kappa + 1) * per_row)  # h of section 1
        away = np.sqrt(leverage / c)
        return cls(
            c=c,
            limit=(count - 1) / count * c / height,
            bulk=bulk * height,
            lam=lam,
            coupling=coupling,
            skew=1 - few,
            skewness=(2 * (1 - few) + 6 * leverage * bulk * lam) / coupling,
            width=(columns - 1) / (count * one),
            freedom=count * one,
            away=away,
            lean=share * away / (kappa + 1),
            noise=share * np.sqrt((1 / (kappa + 1) + per_row) / (count * nu)),
            count=count,
        )

    @property
    def holds(self) -> Any:
        """Whether the record's eigenvalue is clear of the others', or these do not move the mode yet."""
        clear = self.coupling * self.width < HIDDEN * (1 - self.lam) ** 2
        lowest = 1 - 2 * np.sqrt(self.width) + self.skew * self.width
        return clear | (self.count * (1 - lowest) < UNMOVED)

    def at(self, x: Any, first: Any, second: Any) -> tuple[Any, Any, Any]:
        """Return the mode's place along the record, its squared length across, and whether x is too large.

        With e = 1 − x + θy the other directions' part of D is λgP, P = (e − √(e² − 4y))/2, of slope P′.
        """
        e = 1 - x + self.skew * self.width
        under = e * e - 4 * self.width
        possible = under > 0  # else x is among the others' eigenvalues
        root = np.sqrt(np.where(possible, under, 1.0))
        # with as many columns as others e < 0, where P falls no more
        others, slope = (e - root) / 2, np.maximum((e / root - 1) / 2, 0.0)
        varied = np.maximum(1 - self.skew * others + (1 - self.skew * (1 - x)) * slope, 0.0)
        tied = self.lam * self.coupling
        spread = self.coupling * np.sqrt(2 * varied / self.freedom)
        moved = spread * (first + self.skewness * spread / 6 * (first * first - 1))
        left = self.lam * (1 + moved) - x - tied * others
        possible &= left > 0
        left = np.where(possible, left, 1.0)
        pushed = second * self.noise * np.sqrt(self.coupling * (left + x * (1 + tied * slope)))
        along = self.lean + (self.lean * x + pushed) / left
        across = (along * along * tied + self.noise**2 * self.freedom) * slope
        inside = self.bulk * x * (along * along + across)
        # datasets of a larger precision have less weight: the logarithm's curvature
        lighter = 2 * self.coupling**2 * self.count / self.freedom * inside / (1 + inside) ** 2
        balance = x * (1 - lighter) * (1 + self.c * (along * along + across)) - self.limit * (1 + inside)
        return along, across, ~possible | (balance > 0)

    def over_releases(
        self, points: Points = FEW
    ) -> tuple[Float[np.ndarray, "r *each"], Float[np.ndarray, "r *each"]]:
        """Return exposure and relative error of releases that stand for all, each equally likely."""
        shape = np.broadcast_shapes(*(np.shape(each) for each in vars(self).values()))
        first, second = (each.reshape(-1, *(1,) * len(shape)) for each in points)
        low = np.zeros((len(first), *shape))
        step = np.broadcast_to(self.limit, shape) / 2
        for _ in range(HALVINGS):
            high = self.at(low + step, first, second)[2]
            low, step = np.where(high, low, low + step), step / 2
        along, across, _ = self.at(low, first, second)
        return along / self.away, np.sqrt((along - self.away) ** 2 + across) / self.away


BLOCK_ROWS = 1 << 16
LEAST_SEEN = 0.05  # of its own fluctuation that a spike keeps where it hides among the other eigenvalues
GRID = 100  # leverages between which the expected exposure of many records is interpolated
UNENDING = 1e9  # datasets
HIGH = 0.9  # the hat value above which a record's leverage is computed from the others themselves


def leverages(
    records: Float[np.ndarray, "n p"], prior: NIW, elsewhere: Moments | None = None, whole: NIW | None = None
) -> Float[np.ndarray, " n"]:
    """Return each record's leverage q = c·(x − μ₋)ᵀΛ₋⁻¹(x − μ₋), in O(np²).

    From the whole table's posterior: with l = (κ/κ₋)·δᵀΛ⁻¹δ the record's hat value, 1 − l = |Λ₋|/|Λ| = 1/(1 + q).
    Hat values sum to less than p, so fewer than p/0.9 records come close enough to 1 to cost digits; those are
    computed without themselves. `elsewhere`: the moments of records of the table that are not among these.
    `whole`: the posterior from all, where it is known.
    """
    whole = whole or prior.update(together(Moments.of(records), elsewhere))
    kappa = whole.mean_weight
    hat = np.empty(len(records))
    for start in range(0, len(records), BLOCK_ROWS):
        away = records[start : start + BLOCK_ROWS] - whole.mean
        white = dtrsm(1.0, whole.root, away.T, lower=1, overwrite_b=1)  # in place: R⁻¹(x − μ), a record a column
        hat[start : start + BLOCK_ROWS] = kappa / (kappa - 1) * np.einsum("pn,pn->n", white, white)
    high = np.flatnonzero(hat > HIGH)
    leverages = hat / np.where(hat > HIGH, 1.0, 1.0 - hat)
    for row in map(int, high):
        alone = prior.update(together(without(records, row), elsewhere))
        step = solve_rows(alone.root, records[row] - alone.mean)
        with np.errstate(over="ignore"):
            leverages[row] = alone.mean_weight / (alone.mean_weight + 1) * float(step @ step)
        if not np.isfinite(leverages[row]):
            raise InputError(f"record {row + 1} is too far from all others to compute with", "correct it")
    return leverages


def together(here: Moments, elsewhere: Moments | None) -> Moments:
    """Return the moments of the records here and of those elsewhere, if there are any."""
    return here if elsewhere is None else here.merge(elsewhere)


def without(records: Float[np.ndarray, "n p"], row: int) -> Moments:
    """Return the moments of all records but one."""
    return Moments.of(np.concatenate([records[:row], records[row + 1 :]]))


@dataclass(frozen=True)
class ExposureLaw:
    """All but the leverage that a record's risk depends on: the adversary's κ and ν, p, and the rows a dataset.

    `rows` is None for released parameters, which datasets of ever more rows tend to. All but p are numbers, or
    one a record.
    """

    p: int
    mean_weight: Any
    df: Any
    rows: Any

    @classmethod
    def of(cls, prior: NIW, people: int, rows: int | None) -> "ExposureLaw":
        """Return the law for an adversary who has all but one of `people` records."""
        if rows is not None and rows < 1:
            raise InputError(f"rows must be at least 1, got {rows}")
        return cls(prior.p, float(prior.mean_weight) + people - 1, float(prior.df) + people - 1, rows)

    @property
    def ratio(self) -> float:
        """1 + ν′/n_z: how many datasets say as much of the spread as one draw of the parameters; 1 for draws."""
        return 1.0 if self.rows is None else 1.0 + (self.df + 1) / self.rows

    def exposure(self, leverage: Any, count: Any) -> Any:
        """Return the expected exposure: how far the mode travels from the others' centre (0) to the record (1).

        The median over releases, in closed form (`SpikedExposure`). Of many records it is computed at some
        leverages and interpolated between.
        """
        leverage = np.asarray(leverage, dtype=float)
        if leverage.size <= 2 * GRID or any(map(np.ndim, (count, self.mean_weight, self.df, self.rows))):
            return self.quantiles(leverage, count, [0.5])[0]
        low, high = max(float(leverage.min()), 1e-12), max(float(leverage.max()), 1e-11)
        steep = self.ratio / max(count - 1, 1e-3) * np.geomspace(0.3, 5, GRID)  # around the threshold
        few = np.sort(np.concatenate([np.geomspace(low, high, GRID // 2), np.clip(steep, low, high)]))
        medians = np.concatenate([self.quantiles(part, count, [0.5])[0] for part in np.array_split(few, 3)])
        return np.interp(np.log(np.maximum(leverage, low)), np.log(few), medians)

    def quantiles(self, leverage: Any, count: Any, levels: Sequence[float]) -> Float[np.ndarray, "levels *each"]:
        """Return quantiles of the exposure over releases; negative towards the record's mirror image."""
        exposure, _ = self._spiked(leverage, count).over_releases(FEW if list(levels) == [0.5] else MANY)
        return np.quantile(exposure, levels, axis=0, method="hazen")

    def sizes(self, leverage: Any, count: Any, levels: Sequence[float]) -> Float[np.ndarray, "levels *each"]:
        """Return quantiles of the exposure's size, on either side."""
        exposure, _ = self._spiked(leverage, count).over_releases(MANY)
        return np.quantile(np.abs(exposure), levels, axis=0, method="hazen")

    def augmented(self, leverage: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return ℓ = (x − μ)ᵀΛ⁻¹(x − μ) + 1/κ from q = κ/(κ + 1)·(x − μ)ᵀΛ⁻¹(x − μ): 1 + ℓ = (1 + q)(κ + 1)/κ."""
        kappa = self.mean_weight
        return np.asarray(leverage) * (kappa + 1) / kappa + 1 / kappa

    def holds(self, leverage: Any, count: Any) -> Any:
        """Return whether the closed form's quantiles are within 0.03 of simulated ones (docs/theory.md, 4b)."""
        return self._spiked(leverage, count).holds

    def _spiked(self, leverage: Any, count: Any) -> SpikedExposure:
        """Return the closed form for records of these leverages after so many datasets or draws."""
        leverage, count = np.maximum(np.asarray(leverage, dtype=float), 1e-12), np.asarray(count, dtype=float)
        per_row = 0.0 if self.rows is None else 1 / np.asarray(self.rows, dtype=float)
        return SpikedExposure.of(self.p, self.mean_weight, self.df, per_row, leverage, count)

    def threshold(self, leverage: Any) -> Any:
        """Return the number of datasets (or draws) beyond which the mode leaves the centre towards the record.

        About 1/(1 − λ) = 1 + (1 + ν′/n_z)/q of them, 1 − γλ/(1 − λ) times as many by the other columns' noise; but
        not before the record's eigenvalue can be told from theirs, γ/(1 − λ)².
        """
        two = self._spiked(leverage, 2.0)
        clear, gamma = np.maximum(1 - two.lam, 1e-300), 2 * two.coupling * two.width
        endless = 2 * two.limit  # α is that, times 1 − 1/k, and where the mode leaves it is λ − γλ/(k(1 − λ))
        with np.errstate(divide="ignore"):
            departure = (endless - gamma * two.lam / clear) / np.maximum(endless - two.lam, 0)
        return np.maximum(departure, gamma / clear**2)

    def most(self, leverage: Any, exposure: float) -> Any:
        """Return the largest number of datasets (or draws) with an expected exposure of no more than this."""
        if not 0 <= exposure < 1:
            raise InputError(
                f"an exposure lies between 0 (the other records' centre) and 1 (the record), got {exposure:g}"
            )
        low, high = np.ones(np.shape(leverage)), np.full(np.shape(leverage), UNENDING)
        while np.any(high > low + 1):
            middle = np.maximum(np.floor(np.sqrt(low * high)), np.minimum(low + 1, high))
            above = self.quantiles(leverage, middle, [0.5])[0] > exposure
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return low

    def spike(self, leverage: Any, count: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where the lowest eigenvalue λ̂ of the released precision lies, its spread, and the axis's overlap.

        The record is a spike λ = 1/(1 + q·share) in a Wishart matrix with p/γ degrees of freedom (Baik, Ben Arous,
        Péché; Paul 2007). If it is seen at all, λ < 1 − √γ, then λ̂ = λ + γλ/(λ − 1) on average, with
        sd(λ̂)/λ = √(2·seen/freedom), seen = 1 − γ/(λ − 1)²; its vector's squared overlap with the record is
        seen/(1 + γ/(λ − 1)). Else λ̂ = (1 − √γ)² and the vector points anywhere. One column has one axis: λ̂ = λ on
        average, with sd(λ̂)/λ = √(2/freedom), whatever is seen.
        """
        q, nu = np.asarray(leverage, dtype=float), self.df + 1
        if self.rows is None:
            share, freedom, bulk = 1.0, np.asarray(count * nu), count * nu
        else:
            share = self.rows / (nu + self.rows)
            kept = nu / (nu + (1 + q) * self.rows)
            freedom = count * nu * self.rows / ((nu + self.rows) * (1 - kept) ** 2)
            bulk = count * nu * (nu + self.rows) / self.rows
        spike = 1 / (1 + q * share)
        if self.p == 1:
            return np.asarray(spike), np.asarray(spike * np.sqrt(2 / freedom)), np.ones_like(spike)
        gamma = self.p / np.sqrt(freedom * bulk)
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = 1 - gamma / (spike - 1) ** 2
            there = seen > 0
            place = np.where(there, spike + gamma * spike / (spike - 1), (1 - np.sqrt(gamma)) ** 2)
            overlap = np.where(there, seen / (1 + gamma / (spike - 1)), 0.0)
        spread = spike * np.sqrt(2 * np.maximum(seen, LEAST_SEEN) / freedom)
        return np.asarray(place), np.asarray(spread), np.asarray(np.sqrt(np.clip(overlap, 0.0, 1.0)))

    def right_mode(self, leverage: Any, count: Any) -> Any:
        """Return the chance that, of the two mirror modes, the higher one is the record's.

        Φ(√(m·(ν′/κ)·q/(1 + q))), for datasets times n_z/(κ′ + n_z) under the root: the released means lean
        towards the record by d/κ′, with the noise of what they were drawn from.
        """
        leverage = np.asarray(leverage, dtype=float)
        kappa, share = self.mean_weight, 1.0
        if self.rows is not None:
            share = self.rows / (kappa + 1 + self.rows)
        lean = np.asarray(count) * share * (self.df + 1) / kappa * leverage / (1 + leverage)
        return ndtr(np.sqrt(lean))
