"""A guarantee for the mechanism as it is: an ε that holds whatever the data, from public figures alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.disclosure.draw_loss import ReplacementLoss
from allbutone.disclosure.epsilon import releases_of
from allbutone.disclosure.loss_profile import delta as delta_at_level
from allbutone.disclosure.loss_profile import epsilon as epsilon_at_delta
from allbutone.model.niw import NIW
from allbutone.releases.private_mechanism import DELTA, delta_of
from allbutone.support.arrays import solve_rows
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.text import paragraphs

Limits = Sequence[Sequence[float]] | Mapping[str, Sequence[float]] | Float[np.ndarray, "p 2"]
AnyBounds = float | Limits


@dataclass(frozen=True, eq=False, kw_only=True)
class Guarantee:
    """(ε, δ)-differential privacy of posterior draws, one of n records replaced, and what it rests on.

    epsilon, delta: what is guaranteed.
    people, releases: the public number of records, and of draws or datasets.
    prior, weight: of the mechanism; each record counts `weight` times (1: the usual posterior).
    most: E, the largest augmented leverage (x − μ₀)ᵀΛ₀⁻¹(x − μ₀) + 1/κ₀ within the bounds.
    bounds: the radius around the prior's mean in its own metric, or the limits of each column.
    """

    epsilon: float
    delta: float
    people: int
    releases: int
    prior: NIW
    weight: float
    most: float
    bounds: float | Float[np.ndarray, "p 2"]

    def delta_at(self, epsilon: float) -> float:
        """Return the δ that is guaranteed at another ε."""
        return float(delta_at_level(self._loss, np.array([float(epsilon)]))[0])

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
            "Assumed: the number of people, the bounds, the prior and the weight are public and were fixed before "
            "looking at the table; every record was brought into the bounds first; nothing else about the table "
            "is released, or it is counted with this; the draws are ideal random numbers that nobody can repeat "
            "(no seed, no repeat key). A guarantee of the mathematics, not of floating-point arithmetic."
        )

    def __repr__(self) -> str:
        """Return the sentence, which is what there is to read of it."""
        return f"Guarantee: {self.sentence}"

    def _repr_html_(self) -> str:
        return paragraphs(self.sentence, self.assumptions)

    @property
    def _loss(self) -> ReplacementLoss:
        return loss_of(self.prior, self.people, self.releases, self.weight, self.most)


def guarantee(
    prior: NIW,
    bounds: AnyBounds,
    people: int,
    *,
    draws: int | None = None,
    datasets: int | None = None,
    rows: int | None = None,
    weight: float = 1.0,
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
    if not 0 < weight <= 1:
        raise InputError(f"weight must lie above 0 and be at most 1, got {weight:g}", Cure("use 1", "weight", 1.0))
    if prior.is_flat:
        raise InputError(
            "the flat prior guarantees nothing: one record far out can move the release at will",
            Cure("give a prior from public knowledge", "prior"),
        )
    within = bounds_of(bounds, prior.p)
    most = reach(prior, within) + 1 / float(prior.mean_weight)
    found = epsilon_at_delta(loss_of(prior, people, releases, weight, most), delta)
    return Guarantee(
        epsilon=max(float(found[0]), 0.0),
        delta=delta,
        people=people,
        releases=releases,
        prior=prior,
        weight=float(weight),
        most=most,
        bounds=within,
    )


def loss_of(prior: NIW, people: int, releases: int, weight: float, most: float) -> ReplacementLoss:
    """Return the worst loss: k = m(ν₀ + wn)/2, and wE."""
    return ReplacementLoss.worst(0.5 * releases * (float(prior.df) + weight * people), weight * most)


def bounds_of(bounds: AnyBounds, p: int) -> float | Float[np.ndarray, "p 2"]:
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


def reach(prior: NIW, bounds: float | Float[np.ndarray, "p 2"]) -> float:
    """Return the largest b² = (x − μ₀)ᵀΛ₀⁻¹(x − μ₀) within the bounds, or more: Σ|Λ₀⁻¹|ᵢⱼ·rᵢrⱼ, r the farthest.

    For a diagonal scale it is the corner's.
    """
    if isinstance(bounds, float):
        return bounds**2
    farthest = np.max(np.abs(bounds - np.asarray(prior.mean)[:, None]), axis=1)
    white = solve_rows(np.asarray(prior.root), np.eye(prior.p))
    return float(farthest @ np.abs(white @ white.T) @ farthest)


# The public figures from which a guarantee's cost is told before anything is drawn.
#
# Everything is counted in the limits' half widths: a table's columns lie in [−1, 1], records in the ball R² = p
# around the middle. A prior with the scale λ·I and κ₀ = (1 + c)/E has E = R²/λ + 1/κ₀ for λ = R²(1 + 1/c)/E; c =
# 2.


Numbers = Sequence[float] | Float[np.ndarray, " p"]

SHARE = 2.0  # c = κ₀b²: from 2 on the bound is attained


@dataclass(frozen=True)
class Setting:
    """The public figures: limits, people, releases, df, δ, and guesses of the spreads and the correlation."""

    limits: Float[np.ndarray, "p 2"]
    people: int
    releases: int
    df: float
    delta: float
    spread: Float[np.ndarray, " p"]
    correlation: float

    @property
    def p(self) -> int:
        """The number of columns."""
        return len(self.limits)

    @property
    def half(self) -> Float[np.ndarray, " p"]:
        """The limits' half widths."""
        return 0.5 * (self.limits[:, 1] - self.limits[:, 0])

    def prior(self, most: float) -> NIW:
        """Return the prior under which no record within the limits has more augmented leverage than this."""
        scale = self.p * (1 + 1 / SHARE) / most * np.diag(self.half**2)
        return NIW(self.limits.mean(axis=1), (1 + SHARE) / most, self.df, scale)

    def most_for(self, epsilon: float, weight: float = 1.0, gaussian: float = 0.0, delta: float = 0.0) -> float:
        """Return the E that reaches ε."""
        half_df = 0.5 * self.releases * (self.df + weight * self.people)

        def reached(log_most: float) -> float:
            loss = ReplacementLoss.worst(half_df, weight * np.exp(log_most), gaussian)
            return float(epsilon_at_delta(loss, delta or self.delta)[0])

        low = small_mu(epsilon, self.delta) / (weight * np.sqrt(2 * half_df))
        return float(np.exp(solve(reached, epsilon, np.log(low), 10.0)))

    def errors(self, ridge: float, weight: float = 1.0, kappa: float = 0.0) -> dict[str, float]:
        """Return the root mean square errors of a released draw, with this ridge added to the scatter.

        Mean in spreads, spread in shares of itself, correlation as it is; averaged over columns. Errors of
        sampling, of drawing, and the bias of the ridge; the mean is taken to lie in the middle of the limits.
        """
        n, df = self.people, self.df + weight * self.people
        more = ridge / (weight * n * (self.spread / self.half) ** 2)  # the ridge over the scatter
        inflation = weight * n * (1 + more) / max(df - self.p - 1, 1.0)  # released over true variance
        whole, pull = kappa + weight * n, weight * n / (kappa + weight * n)
        mean = pull**2 / n + inflation / whole
        spread = (np.sqrt(inflation) - 1) ** 2 + inflation * (0.5 / df + 0.5 / (n * (1 + more) ** 2))
        shrunk = self.correlation / (1 + more)
        correlation = (self.correlation - shrunk) ** 2 + (1 - shrunk**2) ** 2 / df
        correlation = correlation + ((1 - self.correlation**2) / (1 + more)) ** 2 / n
        return rms(mean, spread, correlation)


def setting_of(
    bounds: AnyBounds,
    people: int,
    draws: int | None,
    datasets: int | None,
    df: float | None,
    delta: float,
    spread: Numbers | None,
    correlation: float,
) -> Setting:
    """Check the public figures."""
    if isinstance(bounds, int | float | np.number):
        raise InputError("a radius has no columns", Cure("give a pair (low, high) a column", "bounds"))
    limits = bounds_of(bounds, len(bounds))
    assert not isinstance(limits, float)
    people = count_of("people", people)
    releases, _ = releases_of(draws, datasets, None, people)
    p = len(limits)
    width = 0.125 * (limits[:, 1] - limits[:, 0]) if spread is None else np.asarray(spread, dtype=float)
    if width.shape != (p,) or not np.all(width > 0):
        raise InputError(f"spread must hold {p} numbers above 0, one a column", Cure("guess them", "spread"))
    if not -1 / max(p - 1, 1) < correlation < 1:
        raise InputError(
            f"{p} columns cannot all have the correlation {correlation:g}",
            Cure("guess another", "correlation", 0.5),
        )
    freedom = p + 2.0 if df is None else float(df)
    return Setting(limits, people, releases, freedom, delta_of(delta, people), width, float(correlation))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the μ of the Gaussian mechanism with this ε and δ."""

    def reached(log_mu: float) -> float:
        nothing = np.zeros(1)
        return float(epsilon_at_delta(ReplacementLoss(0.0, nothing, nothing, nothing, np.exp(log_mu)), delta)[0])

    return float(np.exp(solve(reached, epsilon, np.log(small_mu(epsilon, delta)), 8.0)))


def small_mu(epsilon: float, delta: float) -> float:
    """Return a μ that is certainly too small, but not by so much that its ε could not be computed."""
    return 0.05 * epsilon / (np.sqrt(-2 * np.log(delta)) + epsilon)


def solve(reached: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Return where an increasing function comes up to `wanted`, a hair below, so that it does not pass."""
    from scipy.optimize import brentq  # not above: it is slow to load

    if reached(high) <= wanted:
        return high
    return float(brentq(lambda x: reached(x) - wanted, low, high, xtol=1e-8)) - 2e-8


def rms(mean: Any, spread: Any, correlation: Any) -> dict[str, float]:
    """Return the three errors by name: root mean squares over the columns."""
    names = ("mean_error", "spread_error", "correlation_error")
    return {
        name: float(np.sqrt(np.mean(each))) for name, each in zip(names, (mean, spread, correlation), strict=True)
    }
