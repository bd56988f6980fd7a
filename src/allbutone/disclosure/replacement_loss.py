"""The privacy loss between two tables that differ in one record, and its worst case over all such tables.

Posterior draws given a table with x, and given the same with y in its place, both of weight w: with M the
augmented matrix of all they share (docs/guarantees.md), ℓx = x̃ᵀM⁻¹x̃, ℓy = ỹᵀM⁻¹ỹ, ℓxy = x̃ᵀM⁻¹ỹ, and k
half the degrees of freedom,

    F(s) = (1 + wsℓx)(1 + w(1 − s)ℓy) − w²s(1 − s)ℓxy²
    K(s) = log E_y[exp(sL)] = −k·(log F(s) − s·log F(1) − (1 − s)·log F(0))

so that L is exactly a constant plus G₁/r₂ − G₂/|r₁|, both G ~ Gamma(k), r₁ < 0 and r₂ > 1 the roots of F.
Where every record's ℓ is at most E, ℓx = ℓy = E and ℓxy = 0 dominate.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Complex, Float

from allbutone.disclosure.draw_loss import curved_log


@dataclass(frozen=True)
class ReplacementLoss:
    """The loss of draws between tables with x and with y, for batches of (ℓx, ℓy, ℓxy), all times the weight.

    half_df: k, half the posterior's degrees of freedom, times the number of draws. gaussian: the μ of a Gaussian
    mechanism that is released with them.
    """

    half_df: float
    own: Float[np.ndarray, " batch"]
    other: Float[np.ndarray, " batch"]
    between: Float[np.ndarray, " batch"]
    gaussian: float = 0.0
    negligible: ClassVar[float] = 1e-16
    most_blocks: ClassVar[int] = 80
    lean: ClassVar[float] = 0.0

    @classmethod
    def worst(cls, half_df: float, most: float, gaussian: float = 0.0) -> "ReplacementLoss":
        """Return the loss that dominates all others of records whose ℓ, times the weight, is at most this."""
        return cls(half_df, np.array([most]), np.array([most]), np.zeros(1), gaussian)

    @property
    def rough(self) -> "ReplacementLoss":
        """Itself: the closed form costs little."""
        return self

    @property
    def end(self) -> Float[np.ndarray, " batch"]:
        """K(s) is finite up to the upper root r₂ of F."""
        return self.roots[1]

    @property
    def roots(self) -> tuple[Float[np.ndarray, " batch"], Float[np.ndarray, " batch"]]:
        """r₁ < 0 and r₂ > 1: F(s) = F(0)(1 − s) + F(1)·s + bend·s(1 − s) = 0."""
        bend, slope = self._bend, self.own - self.other + self._bend
        root = np.sqrt(slope**2 + 4 * bend * (1 + self.other))
        with np.errstate(divide="ignore", invalid="ignore"):
            # the form without cancellation for each sign of the slope; no bend leaves one root, or none
            above = np.where(slope > 0, (slope + root) / (2 * bend), 2 * (1 + self.other) / (root - slope))
            below = np.where(slope > 0, -2 * (1 + self.other) / (root + slope), (slope - root) / (2 * bend))
        return below, above

    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K(s) at complex s."""
        return self._total(s, self.own[:, None], self.other[:, None], self._bend[:, None])

    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        own, other, bend = self.own, self.other, self._bend
        more = own * s + other * (1 - s) + bend * s * (1 - s)
        change = own - other + bend * (1 - 2 * s)
        # F′/F − log F(1) + log F(0), less what cancels
        first = bend * (1 - 2 * s) - change * more / (1 + more) - curved_log(own) + curved_log(other)
        second = 2 * bend / (1 + more) + (change / (1 + more)) ** 2
        square = self.gaussian**2
        total = self._total(s, own, other, bend)
        return total, -self.half_df * first + square * (s - 0.5), self.half_df * second + square

    @property
    def _bend(self) -> Float[np.ndarray, " batch"]:
        return np.maximum(self.own * self.other - self.between**2, 0.0)

    def _total(self, s: Any, own: Any, other: Any, bend: Any) -> Any:
        """Return K(s); near 0 by log(1 + u) − u, where the terms linear in s are left out before they cancel."""
        both = s * (1 - s)
        more = own * s + other * (1 - s) + bend * both
        near = curved_log(more) + bend * both - s * curved_log(own) - (1 - s) * curved_log(other)
        far = np.log(1 + more) - s * np.log1p(own) - (1 - s) * np.log1p(other)
        return -self.half_df * np.where(np.abs(more) < 0.1, near, far) - 0.5 * self.gaussian**2 * both
