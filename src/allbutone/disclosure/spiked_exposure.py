"""How far the mode travels, over releases, in closed form: a spiked random matrix with its noise (theory, 4b).

In the others' coordinates the mode v solves (Â − x)v = pull, x·(1 + c‖v‖²) = α·(1 + β₀x‖v‖²), where Â is the mean
released precision, 1 in all directions but the record's, where it is λ. Taking out the other p − 1 directions
leaves one number along the record, D(x) = Â₁₁ − x − Â₁₂(Â₂₂ − x)⁻¹Â₂₁, of which the mean and the variance are
known, and one along which the released means lean: two standard normal numbers are all that is left of a release.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

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
