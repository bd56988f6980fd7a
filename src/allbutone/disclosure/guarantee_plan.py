"""What a guarantee would cost, told before anything is drawn: from a table file and the number of people alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from allbutone.disclosure.guarantee_routes import expected_errors
from allbutone.releases.private.accounting import DELTA, delta_of, epsilon_of, zcdp_rho
from allbutone.releases.private.ball import PublicBall
from allbutone.support.checks import count_of
from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.declared.column import MEASUREMENT
from allbutone.tables.declared.schema import Schema

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
