"""What several guarantees come to together, by their exact composition, and whether a declared total is kept.

The losses of independent releases add, so their cumulants do: Gaussian noise with ρ has K(s) = ρ·s(s − 1),
posterior draws have the K of two gamma variates (`replacement_loss`). Noise alone is converted as OpenDP does for
zCDP, so that one release has the ε that it states; with draws among them, δ(ε) comes from the sum of cumulants.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from allbutone.disclosure.loss_profile import epsilon as epsilon_at_delta
from allbutone.disclosure.replacement_loss import ReplacementLoss
from allbutone.releases.ledger.entries import Ledger, Terms
from allbutone.releases.private.accounting import DELTA, zcdp_epsilon
from allbutone.support.errors import InputError
from allbutone.support.text import counted


def composed(terms: Sequence[Terms], delta: float) -> float:
    """Return the ε at δ of several guarantees together, each for one record replaced.

    >>> from allbutone.releases.ledger.entries import Terms
    >>> round(composed([Terms(rho=0.1), Terms(rho=0.1)], 1e-6), 2) == round(composed([Terms(rho=0.2)], 1e-6), 2)
    True
    """
    rho = sum(each.rho or 0.0 for each in terms)
    draws = [each for each in terms if each.rho is None]
    if unknown := [each for each in draws if each.half_df is None or each.most is None]:
        # ε and δ alone say less: they add
        rest = [each for each in terms if each not in unknown]
        if any(each.epsilon is None or each.delta is None for each in unknown):
            raise InputError("a guarantee needs rho, or epsilon with delta, to be added up")
        left = delta - sum(each.delta or 0.0 for each in unknown)
        if left <= 0:
            return float("inf")
        return sum(each.epsilon or 0.0 for each in unknown) + (composed(rest, left) if rest else 0.0)
    if not draws:
        return zcdp_epsilon(rho, delta)
    losses = [ReplacementLoss.worst(each.half_df or 0.0, each.most or 0.0) for each in draws]
    losses[0] = replace(losses[0], gaussian=float(np.sqrt(2 * rho)))
    return max(float(epsilon_at_delta(SummedLoss(tuple(losses)), delta)[0]), 0.0)


@dataclass(frozen=True)
class SummedLoss:
    """The loss of several independent releases: every cumulant is the sum of theirs."""

    parts: tuple[ReplacementLoss, ...]
    negligible: ClassVar[float] = 1e-16
    most_blocks: ClassVar[int] = 80
    lean: ClassVar[float] = 0.0

    @property
    def end(self) -> Any:
        """K(s) is finite as far as all of theirs are."""
        return np.min([part.end for part in self.parts], axis=0)

    @property
    def rough(self) -> "SummedLoss":
        """Itself: the closed form costs little."""
        return self

    def at(self, s: Any) -> Any:
        """Return K(s) at complex s."""
        return sum(part.at(s) for part in self.parts)

    def slopes(self, s: Any) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        value, slope, curvature = (
            sum(each) for each in zip(*(part.slopes(s) for part in self.parts), strict=True)
        )
        return value, slope, curvature


def passed_limit(ledger: Ledger, planned: Terms | None) -> str:
    """Say why one more release, with this guarantee or none, would pass the declared total; nothing if it fits."""
    limit = ledger.limit
    if limit is None:
        return ""
    if planned is None:
        return f"a total of {limit_in_words(limit)} was declared for this table, and this release has no guarantee"
    if without := [entry for entry in ledger.counted if entry.guarantee is None]:
        return (
            f"a total of {limit_in_words(limit)} was declared for this table, and release {without[0].number} of "
            "its ledger has no guarantee"
        )
    terms = [*(entry.guarantee for entry in ledger.counted if entry.guarantee), planned]
    if limit.rho is not None:
        rho = sum(each.rho if each.rho is not None else np.inf for each in terms)
        passed, together = rho > limit.rho * (1 + 1e-9), f"ρ = {rho:.3g}"
    else:
        delta = DELTA if limit.delta is None else limit.delta
        epsilon = composed(terms, delta)
        passed, together = epsilon > (limit.epsilon or 0.0) * (1 + 1e-6), f"ε = {epsilon:.3g} at δ = {delta:g}"
    if not passed:
        return ""
    return (
        f"with it the releases of this table would come to {together} together, more than the total of "
        f"{limit_in_words(limit)} that was declared"
    )


def total_in_words(ledger: Ledger) -> str:
    """Return what all releases with a guarantee come to, if there are several."""
    terms = [entry.guarantee for entry in ledger.counted if entry.guarantee]
    if len(terms) < 2:
        return ""
    delta = DELTA if ledger.limit is None or ledger.limit.delta is None else ledger.limit.delta
    rest = len(ledger.counted) - len(terms)
    besides = (
        f" {counted(rest, 'other release')} of this table without a guarantee: nothing bounds the sum of all."
    )
    return (
        f"Together the {len(terms)} releases with a guarantee come to ε = "
        f"{composed(terms, delta):.3g} at δ = {delta:g}.{besides if rest else ''}"
    )


def limit_in_words(limit: Terms) -> str:
    """Return a declared total in symbols."""
    if limit.rho is not None:
        return f"ρ = {limit.rho:g}"
    return f"ε = {limit.epsilon or 0:g} at δ = {DELTA if limit.delta is None else limit.delta:g}"
