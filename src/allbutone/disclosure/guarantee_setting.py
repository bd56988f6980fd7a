"""The public figures from which a guarantee's cost is told before anything is drawn.

Everything is counted in the limits' half widths: a table's columns lie in [−1, 1], records in the ball R² = p
around the middle. A prior with the scale λ·I and κ₀ = (1 + c)/E has E = R²/λ + 1/κ₀ for λ = R²(1 + 1/c)/E; c = 2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.disclosure.guarantee import AnyBounds, bounds_of
from allbutone.disclosure.loss_profile import epsilon as epsilon_at_delta
from allbutone.disclosure.privacy_loss import releases_of
from allbutone.disclosure.replacement_loss import ReplacementLoss
from allbutone.model.niw import NIW
from allbutone.releases.private.accounting import delta_of
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError

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
