"""Ways to a wished guarantee, and what each costs: all from public figures, before anything is drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from allbutone.disclosure.guarantee import (
    SHARE,
    AnyBounds,
    Guarantee,
    Numbers,
    Setting,
    gaussian_mu,
    guarantee,
    loss_of,
    rms,
    setting_of,
    small_mu,
    solve,
)
from allbutone.disclosure.loss_profile import epsilon as epsilon_at_delta
from allbutone.model.niw import NIW
from allbutone.releases.private_mechanism import DELTA, PublicBall, delta_of, epsilon_of, zcdp_rho
from allbutone.support.errors import InputError, count_of
from allbutone.support.text import counted
from allbutone.tables.column import MEASUREMENT
from allbutone.tables.schema import Schema

FOR_EIGENVALUE = 0.2  # of the μ of the whole, and a tenth of δ: what certifying may cost


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """Certify, then sample: a noisy lower bound of the scatter's smallest eigenvalue, and only the ridge it lacks.

    With x̃ = (x in half widths, η): release λ̂ = λ_min(Σx̃x̃ᵀ) + noise − margin, then draw with ridge
    max(0, wanted − λ̂) added, that is scale ridge·I and κ₀ = ridge/η². Plans only: it draws nothing.
    """

    epsilon: float
    delta: float
    most: float
    noise: float
    margin: float
    wanted: float
    expected_ridge: float


def weight_for(
    epsilon: float,
    prior: NIW,
    bounds: AnyBounds,
    people: int,
    *,
    draws: int | None = None,
    datasets: int | None = None,
    delta: float = DELTA,
) -> Guarantee:
    """Return the guarantee with the largest weight of each record, at most 1, that reaches ε under this prior.

    >>> import allbutone as abo
    >>> prior = abo.NIW.from_spread(centre=[25, 3.4], spread=[4.5, 0.9])
    >>> abo.weight_for(3, prior, [(15, 45), (0, 8)], people=500, draws=1).weight < 1
    True
    """
    epsilon = epsilon_of(epsilon)
    whole = guarantee(prior, bounds, people, draws=draws, datasets=datasets, delta=delta)
    if whole.epsilon <= epsilon:
        return whole

    def reached(log_weight: float) -> float:
        loss = loss_of(prior, whole.people, whole.releases, float(np.exp(log_weight)), whole.most)
        return float(epsilon_at_delta(loss, whole.delta)[0])

    low = small_mu(epsilon, whole.delta) / (whole.most * np.sqrt(whole.releases * (prior.df + whole.people)))
    weight = float(np.exp(solve(reached, epsilon, np.log(low), 0.0)))
    return guarantee(prior, bounds, people, draws=draws, datasets=datasets, delta=delta, weight=weight)


def prior_for(
    epsilon: float,
    bounds: AnyBounds,
    people: int,
    *,
    draws: int | None = None,
    datasets: int | None = None,
    weight: float = 1.0,
    df: float | None = None,
    delta: float = DELTA,
) -> Guarantee:
    """Return the guarantee with the weakest prior of its kind that reaches ε.

    `bounds` are the limits of each column; the prior stands in their middle, with the scale λ·diag(half width²).

    >>> import allbutone as abo
    >>> abo.prior_for(3, [(15, 45), (0, 8)], people=500, draws=1).prior.mean
    array([30.,  4.])
    """
    epsilon = epsilon_of(epsilon)
    setting = setting_of(bounds, people, draws, datasets, df, delta, None, 0.0)
    prior = setting.prior(setting.most_for(epsilon, weight))
    return guarantee(prior, setting.limits, people, draws=draws, datasets=datasets, weight=weight, delta=delta)


def expected_errors(
    epsilon: float | Numbers,
    bounds: AnyBounds,
    people: int,
    spread: Numbers | None = None,
    *,
    correlation: float = 0.5,
    draws: int | None = None,
    datasets: int | None = None,
    df: float | None = None,
    delta: float = DELTA,
) -> list[dict[str, Any]]:
    """Return what to expect of each route to each ε: root mean square errors of a released draw, approximately.

    `spread` guesses each column's standard deviation (a quarter of the half width unless said), `correlation` that
    of all pairs; both public. `mean_error` is in spreads, `spread_error` a share of the spread,
    `correlation_error` as it is. Routes: "prior" (strengthened), "temper" (each record weighs less, with the best
    weight for correlations), "certify" (then sample), "noise" (on the moments, as `Synthesizer(epsilon=…)`
    adds it), beside "no privacy"; "temper" has its `weight`.

    >>> import allbutone as abo
    >>> rows = abo.expected_errors(3, {"bmi": (15, 45), "ldl": (0, 8)}, 500, [5, 1], draws=1)
    >>> [(row["route"], round(row["correlation_error"], 2)) for row in rows][:2]
    [('no privacy', 0.05), ('prior', 0.36)]
    """
    setting = setting_of(bounds, people, draws, datasets, df, delta, spread, correlation)
    levels = [epsilon_of(each) for each in np.atleast_1d(epsilon)]
    pairs = [(level, route) for level in levels for route in _ERRORS]
    return [{"route": route, "epsilon": level} | _ERRORS[route](setting, level) for level, route in pairs]


def certificate(setting: Setting, epsilon: float) -> Certificate:
    """Return the plan: noise on the eigenvalue, which one record changes by at most R² + η², then draws."""
    radius, small = 1.125 * setting.p, 0.1 * setting.delta  # R² + η², η² = R²/8
    mu = FOR_EIGENVALUE * gaussian_mu(epsilon, setting.delta)
    most = setting.most_for(epsilon, 1.0, mu, setting.delta - small)
    noise = radius / mu
    margin = -noise * float(ndtri(small))
    wanted = radius * (1 + 1 / most)
    scaled = setting.spread / setting.half
    covariance = np.outer(scaled, scaled) * (setting.correlation + (1 - setting.correlation) * np.eye(setting.p))
    smallest = setting.people * min(float(np.linalg.eigvalsh(covariance)[0]), setting.p / 8)
    return Certificate(
        epsilon=epsilon,
        delta=setting.delta,
        most=most,
        noise=noise,
        margin=margin,
        wanted=wanted,
        expected_ridge=max(0.0, wanted - smallest + margin),
    )


def certificate_for(
    epsilon: float,
    bounds: AnyBounds,
    people: int,
    spread: Numbers | None = None,
    *,
    correlation: float = 0.5,
    draws: int | None = None,
    datasets: int | None = None,
    df: float | None = None,
    delta: float = DELTA,
) -> Certificate:
    """Return how to certify, then sample, so that ε is reached; `expected_ridge` says what is left to add.

    >>> import allbutone as abo
    >>> abo.certificate_for(3, [(15, 45), (0, 8)], people=500, draws=1).epsilon
    3.0
    """
    setting = setting_of(bounds, people, draws, datasets, df, delta, spread, correlation)
    return certificate(setting, epsilon_of(epsilon))


def _by_prior(setting: Setting, epsilon: float, weight: float = 1.0) -> dict[str, float]:
    most = setting.most_for(epsilon, weight)
    return setting.errors(setting.p * (1 + 1 / SHARE) / most, weight, (1 + SHARE) / most)


def _by_temper(setting: Setting, epsilon: float) -> dict[str, float]:
    weights = np.geomspace(min(1.0, 10 / setting.people), 1.0, 8)
    tried = [_by_prior(setting, epsilon, weight) | {"weight": float(weight)} for weight in weights]
    return min(tried, key=lambda errors: errors["correlation_error"])


def _by_certificate(setting: Setting, epsilon: float) -> dict[str, float]:
    ridge = certificate(setting, epsilon).expected_ridge
    return setting.errors(ridge, 1.0, 8 * ridge / setting.p)


def _by_noise(setting: Setting, epsilon: float) -> dict[str, float]:
    """Gaussian noise on Σx̃x̃ᵀ, sensitivity √2(R² + η²), and a posterior that knows of it and leans on its prior."""
    mu = np.sqrt(2 * zcdp_rho(epsilon, setting.delta))
    noise = np.sqrt(2) * 1.125 * setting.p / mu / setting.people
    variance, n, r = (setting.spread / setting.half) ** 2, setting.people, setting.correlation
    mean = 1 / n + noise**2 / (2 * setting.p / 8) / variance
    spread = 0.5 / n + 0.25 * (noise / variance) ** 2
    correlation = (1 - r * r) ** 2 / n + 0.5 * (1 + r * r) * (noise / variance) ** 2
    # estimate and draw err alike; a prior of variance 1, or of correlations spread evenly, is the worst there is
    return rms(*(2 / (1 / each + 1 / prior) for each, prior in ((mean, 1.0), (spread, 1.0), (correlation, 1 / 3))))


_ERRORS: dict[str, Callable[[Setting, float], dict[str, float]]] = {
    "no privacy": lambda setting, epsilon: setting.errors(0.0),
    "prior": _by_prior,
    "temper": _by_temper,
    "certify": _by_certificate,
    "noise": _by_noise,
}

# What a guarantee would cost, told before anything is drawn: from a table file and the number of people alone.


ERRORS = ("mean_error", "spread_error", "correlation_error")
MOST_ERROR = 0.2  # of a spread, a share of it, or of a correlation: with more nothing is learnt from the release
ROUTES = {
    "no privacy": "no guarantee",
    "noise": "noise on the moments (synthesize --epsilon)",
    "certify": "certify, then sample",
    "temper": "records that count less",
    "prior": "a stronger prior",
}
MADE = "noise"  # the route that synthesize takes
OTHERS = ("certify", "temper", "prior")


@dataclass(frozen=True, eq=False)
class GuaranteePlan:
    """Expected errors by route and ε: rows as of `expected_errors`; all from public figures."""

    rows: tuple[dict[str, Any], ...]
    columns: tuple[str, ...]
    people: int
    delta: float
    correlation: float

    def of(self, route: str) -> list[dict[str, Any]]:
        """Return the rows of one route, by ε."""
        return sorted((row for row in self.rows if row["route"] == route), key=lambda row: row["epsilon"])

    @property
    def useful_from(self) -> float | None:
        """The least ε of those asked for from which noise leaves something useful; None where there is none."""
        return next((row["epsilon"] for row in self.of(MADE) if useful(row)), None)

    @property
    def judged(self) -> str:
        """The error by which routes are compared: of correlations, or of the spread where there is one column."""
        return ERRORS[2] if len(self.columns) > 1 else ERRORS[1]

    @property
    def sentence(self) -> str:
        """What to do, for a board."""
        who = f"{self.people:,} people and {counted(len(self.columns), 'column')}"
        start = self.useful_from
        if start is None:
            return self._nothing(who)
        row = next(row for row in self.of(MADE) if row["epsilon"] == start)
        what = "correlations" if len(self.columns) > 1 else "the spread, as a share of itself,"
        return (
            f"For {who}, noise on the moments (synthesize --epsilon) is useful from ε = {start:g} on: {what} off "
            f"by about {row[self.judged]:.2f}, against {self.of('no privacy')[0][self.judged]:.2f} without a "
            f"guarantee.{self._better()}"
        )

    def _nothing(self, who: str) -> str:
        most = max(row["epsilon"] for row in self.rows)
        if any(useful(row) for route in OTHERS for row in self.of(route)):
            return (
                f"Noise leaves nothing useful for {who} up to ε = {most:g}.{self._better()} synthesize does not "
                "take that route; certificate_for, weight_for and prior_for plan it in Python."
            )
        return (
            f"Nothing useful is possible for {who} up to ε = {most:g}: by every route a mean, a spread or a "
            f"correlation is off by more than {MOST_ERROR:g}. Take fewer columns or more people, declare closer "
            "limits and public centres and spreads, or do without a guarantee."
        )

    def _better(self) -> str:
        """Say where another route does much better than the one that is built in."""
        found = []
        for row in self.of(MADE):
            others = [each for route in OTHERS for each in self.of(route) if each["epsilon"] == row["epsilon"]]
            best = min(others, key=lambda each: each[self.judged])
            if best[self.judged] < 0.8 * row[self.judged] and useful(best):
                found.append(f"{ROUTES[best['route']]} at ε = {row['epsilon']:g}")
        return f" Less error is expected of another route: {'; '.join(found)}." if found else ""


def useful(row: dict[str, Any]) -> bool:
    """Say whether all three errors are small enough to learn something."""
    return all(row[key] <= MOST_ERROR for key in ERRORS)


def plan_guarantee(
    schema: Any,
    people: int,
    epsilon: float | Sequence[float] = (0.5, 1.0, 2.0, 5.0, 10.0),
    *,
    delta: float = DELTA,
    correlation: float = 0.5,
) -> GuaranteePlan:
    """Return what each route to each ε would cost for the columns of a table file; nothing confidential is read.

    `correlation` is a guess for all pairs of columns. Errors are those of one released draw, approximately.

    >>> import allbutone as abo
    >>> file = {"columns": {"bmi": {"low": 15, "high": 50, "centre": 26, "spread": 5}}}
    >>> abo.plan_guarantee(file, people=500).useful_from
    0.5
    """
    declared = Schema.of(schema)
    declared = Schema(tuple(each for each in declared.columns if each.kind == MEASUREMENT))
    people = count_of("people", people)
    if people < len(declared.columns) + 3:
        raise InputError(f"{people} people are too few for {counted(len(declared.columns), 'column')}")
    delta = delta_of(delta, people)
    rows: list[dict[str, Any]] = []
    for level in sorted({epsilon_of(each) for each in np.atleast_1d(epsilon).tolist()}):
        ball = PublicBall.of(declared, people, float(np.sqrt(2 * zcdp_rho(level, delta))))
        half = ball.unit * ball.radius / np.sqrt(ball.p)  # so that R² = p in half widths
        limits = np.column_stack([ball.centre - half, ball.centre + half])
        how: dict[str, Any] = {"draws": 1, "delta": delta, "correlation": correlation if ball.p > 1 else 0.0}
        rows += expected_errors(level, limits, people, ball.spread * ball.unit, **how)
    names = tuple(column.name for column in declared.columns)
    return GuaranteePlan(tuple(rows), names, people, delta, correlation)
