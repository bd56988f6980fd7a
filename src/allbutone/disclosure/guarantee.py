"""A guarantee for the mechanism as it is, from public figures alone, and what several guarantees come to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.disclosure.draw_loss import ReplacementLoss
from allbutone.disclosure.epsilon import releases_of
from allbutone.disclosure.loss_profile import Loss
from allbutone.disclosure.loss_profile import delta as delta_at_level
from allbutone.disclosure.loss_profile import epsilon as epsilon_at_delta
from allbutone.model.niw import NIW
from allbutone.releases.gaussian_account import DELTA, delta_of, gaussian_epsilon
from allbutone.releases.ledger import Ledger
from allbutone.releases.ledger_file import Terms
from allbutone.releases.private_release import ADJACENCY
from allbutone.releases.release import Release
from allbutone.support.arrays import solve_rows
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.text import ShowsItself, counted

Limits = Sequence[Sequence[float]] | Mapping[str, Sequence[float]] | Float[np.ndarray, "p 2"]
AnyBounds = float | Limits

LEAST_EPSILON = 0.01  # below which nothing is left


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Guarantee(ShowsItself):
    """(ε, δ)-differential privacy of posterior draws, one of n records replaced, and what it rests on.

    epsilon, delta: what is guaranteed.
    people, releases: the public number of records, and of draws or datasets.
    prior: of the mechanism.
    most: E, the largest augmented leverage (x − μ₀)ᵀΛ₀⁻¹(x − μ₀) + 1/κ₀ within the bounds.
    bounds: the radius around the prior's mean in its own metric, or the limits of each column.
    """

    epsilon: float
    delta: float
    people: int
    releases: int
    prior: NIW
    most: float
    bounds: float | Float[np.ndarray, "p 2"]

    def delta_at(self, epsilon: float) -> float:
        """Return the δ that is guaranteed at another ε."""
        loss = _worst_loss(self.prior, self.people, self.releases, self.most)
        return float(delta_at_level(loss, np.array([float(epsilon)]))[0])

    def project(self, values: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Bring records into the bounds, as must be done before fitting: without it nothing is guaranteed."""
        if not isinstance(self.bounds, float):
            return np.clip(values, self.bounds[:, 0], self.bounds[:, 1])
        off = values - self.prior.mean
        length = np.linalg.norm(solve_rows(self.prior.root, off), axis=-1, keepdims=True)
        return self.prior.mean + off * np.minimum(1.0, self.bounds / np.maximum(length, 1e-300))

    @property
    def sentence(self) -> str:
        """The guarantee, for a board."""
        what = "draw" if self.releases == 1 else "draws"
        worth = "" if self.epsilon < 10 else " An ε of 10 or more promises hardly anything."
        return (
            f"{self.releases:,} posterior {what}, or the datasets drawn from them, are ({self.epsilon:.3g}, "
            f"{self.delta:g})-differentially private: replacing one of {self.people:,} records, whatever the "
            f"others, makes no event more than e^{self.epsilon:.3g} times as likely, but for a probability of "
            f"{self.delta:g}.{worth}"
        )

    @property
    def assumptions(self) -> str:
        """What the guarantee rests on."""
        return (
            "Assumed: the number of people, the bounds and the prior are public and were fixed before looking at "
            "the table; every record was brought into the bounds first; nothing else about the table "
            "is released, or it is counted with this; the draws are ideal random numbers that nobody can repeat "
            "(no seed, no repeat key). A guarantee of the mathematics, not of floating-point arithmetic."
        )


def guarantee(
    prior: NIW,
    bounds: AnyBounds,
    people: int,
    *,
    draws: int | None = None,
    datasets: int | None = None,
    rows: int | None = None,
    delta: float = DELTA,
) -> Guarantee:
    """Return what the mechanism guarantees for every table of `people` records within the bounds, one replaced.

    `bounds` is a radius b around the prior's mean, (x − μ₀)ᵀΛ₀⁻¹(x − μ₀) ≤ b², or the limits (low, high) of each
    column on the model's scale, in order. Datasets of any number of rows are bounded by the parameters that they
    are drawn from. All of it must be public: limits taken from the table itself void the guarantee.

    >>> import allbutone as abo
    >>> prior = abo.NIW([0, 0], 1, 4, [[5000, 0], [0, 5000]])
    >>> round(abo.guarantee(prior, [(-4, 4), (-4, 4)], 500, draws=1).epsilon)
    217
    """
    people = count_of("people", people)
    releases, _ = releases_of(draws, datasets, rows, people)
    delta = delta_of(delta, people)
    if prior.is_flat:
        raise InputError(
            "the flat prior guarantees nothing: one record far out can move the release at will",
            Cure("give a prior from public knowledge", "prior"),
        )
    within = _bounds_of(bounds, prior.p)
    most = _reach(prior, within) + 1 / float(prior.mean_weight)
    epsilon = epsilon_at_delta(_worst_loss(prior, people, releases, most), delta)
    return Guarantee(
        epsilon=max(float(epsilon[0]), 0.0),
        delta=delta,
        people=people,
        releases=releases,
        prior=prior,
        most=most,
        bounds=within,
    )


def _worst_loss(prior: NIW, people: int, releases: int, most: float) -> ReplacementLoss:
    """Return the loss that dominates those of all tables: k = m(ν₀ + n)/2, and E."""
    return ReplacementLoss.worst(0.5 * releases * (float(prior.df) + people), most)


def _bounds_of(bounds: AnyBounds, p: int) -> float | Float[np.ndarray, "p 2"]:
    """Return a radius, or limits as an array, or say what is wrong with them."""
    if isinstance(bounds, int | float | np.number):
        if not 0 < bounds < np.inf:
            raise InputError(f"a radius must be finite and exceed 0, got {bounds:g}", Cure("give one", "bounds"))
        return float(bounds)
    try:
        given = list(bounds.values()) if isinstance(bounds, Mapping) else bounds
        limits = np.array(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError("bounds must be numbers", Cure("give a pair (low, high) a column", "bounds")) from error
    if limits.shape != (p, 2):
        raise InputError(
            f"bounds have the shape {limits.shape} for {p} columns",
            Cure("give a pair (low, high) a column", "bounds"),
        )
    if not np.all(np.isfinite(limits)) or not np.all(limits[:, 0] < limits[:, 1]):
        raise InputError(
            "without finite limits, low below high, for every column there is no guarantee",
            Cure("give them from public knowledge", "bounds"),
        )
    return limits


def _reach(prior: NIW, bounds: float | Float[np.ndarray, "p 2"]) -> float:
    """Return the largest b² = (x − μ₀)ᵀΛ₀⁻¹(x − μ₀) within the bounds, or more: Σ|Λ₀⁻¹|ᵢⱼ·rᵢrⱼ, r the farthest.

    For a diagonal scale it is the corner's.
    """
    if isinstance(bounds, float):
        return bounds**2
    farthest = np.max(np.abs(bounds - np.asarray(prior.mean)[:, None]), axis=1)
    white = solve_rows(np.asarray(prior.root), np.eye(prior.p))
    return float(farthest @ np.abs(white @ white.T) @ farthest)


# What several guarantees come to together, by their exact composition, and whether a declared total is kept.
#
# The losses of independent releases add, so their cumulants do: Gaussian noise with ρ has K(s) = ρ·s(s − 1),
# posterior draws have the K of two gamma variates (`draw_loss`). Noise alone is Gaussian with μ² = 2·Σρ, whose
# δ(ε) is known (`gaussian_account`); with draws among them, δ(ε) comes from the sum of cumulants.


def composed(terms: Sequence[Terms], delta: float) -> float:
    """Return the ε at δ of several guarantees together, each for one record replaced.

    >>> from allbutone.releases.ledger_file import Terms
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
        return gaussian_epsilon(float(np.sqrt(2 * rho)), delta)
    losses = [ReplacementLoss.worst(each.half_df or 0.0, each.most or 0.0) for each in draws]
    losses[0] = replace(losses[0], gaussian=float(np.sqrt(2 * rho)))
    return max(float(epsilon_at_delta(_SummedLoss(tuple(losses)), delta)[0]), 0.0)


@dataclass(frozen=True)
class _SummedLoss(Loss):
    """The loss of several independent releases: every cumulant is the sum of theirs."""

    parts: tuple[ReplacementLoss, ...]

    @property
    def end(self) -> Any:
        """K(s) is finite as far as all of theirs are."""
        return np.min([part.end for part in self.parts], axis=0)

    def at(self, s: Any) -> Any:
        """Return K(s) at complex s."""
        return sum(part.at(s) for part in self.parts)

    def slopes(self, s: Any) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        value, slope, curvature = np.sum([part.slopes(s) for part in self.parts], axis=0)
        return value, slope, curvature


def terms_of(release: Release) -> Terms:
    """Return a release's guarantee as the ledger keeps it."""
    noisy = release.noisy
    assert noisy is not None
    basis = "OpenDP's discrete Gaussian noise"
    return Terms(epsilon=noisy.epsilon, delta=noisy.delta, rho=noisy.rho, adjacency=ADJACENCY, basis=basis)


def spent(ledger: Ledger) -> list[Terms]:
    """Return the guarantees of all releases that were drawn, voided ones among them.

    Their noise was drawn and could be seen: who keeps the one of several that looks best has used all of them.
    """
    return [entry.guarantee for entry in ledger.releases if entry.guarantee]


def passed_limit(ledger: Ledger, planned: Terms | None) -> str:
    """Say why one more release, with this guarantee or none, would pass the declared total; nothing if it fits."""
    limit = ledger.limit
    if limit is None:
        return ""
    declared = f"a total of {_limit_in_words(limit)} was declared for this table"
    if planned is None:
        return f"{declared}, and this release has no guarantee"
    if without := [entry for entry in ledger.counted if entry.guarantee is None]:
        return f"{declared}, and release {without[0].number} of its ledger has no guarantee"
    terms = [*spent(ledger), planned]
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
        f"{_limit_in_words(limit)} that was declared"
    )


def require_within_limit(ledger: Ledger, planned: Terms | None) -> None:
    """Refuse one more release, with this guarantee or none, that a declared total does not allow."""
    if message := passed_limit(ledger, planned):
        cure = "declare another total, if the board agrees (allbutone ledger limit)"
        raise InputError(message, "release nothing more", cure)


def left_of_limit(ledger: Ledger) -> tuple[float, float] | None:
    """Return ε and δ of the largest further release with noise that a declared total allows; None without one.

    ε is 0 where nothing is left, and where a release without a guarantee counts.
    """
    limit = ledger.limit
    if limit is None:
        return None
    delta = DELTA if limit.delta is None else limit.delta
    if passed_limit(ledger, Terms(rho=0.0)):
        return 0.0, delta
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if passed_limit(ledger, Terms(rho=middle)) else (middle, high)
    return gaussian_epsilon(float(np.sqrt(2 * low)), delta), delta


def left_in_words(ledger: Ledger) -> str:
    """Say what a declared total still allows; nothing where none was declared."""
    left = left_of_limit(ledger)
    if left is None or ledger.limit is None:
        return ""
    epsilon, delta = left
    terms = spent(ledger)
    already = f", of which ε = {composed(terms, delta):.3g} is spent" if terms else ""
    declared = f"A total of {_limit_in_words(ledger.limit)} was declared for this table{already}"
    if without := [entry for entry in ledger.counted if entry.guarantee is None]:
        return (
            f"{declared}. Release {without[0].number} of its ledger has no guarantee, so nothing bounds the sum: "
            "nothing more may be released."
        )
    if epsilon < LEAST_EPSILON:
        return f"{declared}: nothing more may be released."
    return f"{declared}: one more release may have ε = {rounded_down(epsilon)} at δ = {delta:g}."


def rounded_down(epsilon: float) -> str:
    """Return ε in three digits that are not more than it is."""
    unit = 10.0 ** (np.floor(np.log10(epsilon)) - 2)
    return f"{np.floor(epsilon / unit * (1 + 1e-9)) * unit:.3g}"


def total_in_words(ledger: Ledger) -> str:
    """Return what all releases with a guarantee come to, if there are several."""
    terms = spent(ledger)
    if len(terms) < 2:
        return ""
    delta = DELTA if ledger.limit is None or ledger.limit.delta is None else ledger.limit.delta
    rest = sum(entry.guarantee is None for entry in ledger.counted)
    what_rests = (
        f" {counted(rest, 'other release')} of this table without a guarantee: nothing bounds the sum of all."
    )
    return (
        f"Together the {len(terms)} releases with a guarantee come to ε = "
        f"{composed(terms, delta):.3g} at δ = {delta:g}.{what_rests if rest else ''}"
    )


def _limit_in_words(limit: Terms) -> str:
    """Return a declared total in symbols."""
    if limit.rho is not None:
        return f"ρ = {limit.rho:g}"
    return f"ε = {limit.epsilon or 0:g} at δ = {DELTA if limit.delta is None else limit.delta:g}"
