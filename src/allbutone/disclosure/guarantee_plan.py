"""What a guarantee would cost, told before anything is drawn: from a table file and the number of people alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from allbutone.releases.gaussian_account import DELTA, delta_of, epsilon_of
from allbutone.releases.private_mechanism import NoiseDesign
from allbutone.releases.public_ball import model_limits
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.text import counted
from allbutone.tables.column import CATEGORY, MEASUREMENT
from allbutone.tables.schema import Schema

ERRORS = ("mean_error", "spread_error", "correlation_error")
SHARE_ERROR = "share_error"  # where there are categories
ERROR_WORDS = dict(
    zip((*ERRORS, SHARE_ERROR), ("mean (spreads)", "spread (share)", "correlation", "level's share"), strict=True)
)
MOST_ERROR = 0.2  # of a spread, a share of it, or of a correlation: with more nothing is learnt from the release
NO_PRIVACY, NOISE = "no privacy", "noise"
ROUTES = {NO_PRIVACY: "no guarantee", NOISE: "noise (synthesize --epsilon)"}


@dataclass(frozen=True, eq=False)
class GuaranteePlan:
    """Expected errors of a released draw by route and ε, all from public figures.

    Each row has its `route`, with the noise that `synthesize --epsilon` adds or without, `epsilon`, and root mean
    square errors over the columns: `mean_error` in spreads, `spread_error` as a share of the spread,
    `correlation_error` as it is; where there are categories `share_error`, of a level's share as it is.
    """

    rows: tuple[dict[str, Any], ...]
    columns: tuple[str, ...]
    people: int
    delta: float
    correlation: float

    @property
    def errors(self) -> tuple[str, ...]:
        """Which errors are told: of categories alone those of shares only."""
        return tuple(key for key in (*ERRORS, SHARE_ERROR) if key in self.rows[0])

    def of(self, route: str) -> list[dict[str, Any]]:
        """Return the rows of one route, by ε."""
        return sorted((row for row in self.rows if row["route"] == route), key=lambda row: row["epsilon"])

    @property
    def useful_from(self) -> float | None:
        """The least ε of those asked for from which noise leaves something useful; None where there is none."""
        return next((row["epsilon"] for row in self.of(NOISE) if useful(row)), None)

    @property
    def sentence(self) -> str:
        """What to do, for a board."""
        who = f"{self.people:,} people and {counted(len(self.columns), 'column')}"
        start = self.useful_from
        if start is None:
            most = max(row["epsilon"] for row in self.rows)
            return (
                f"Nothing useful is possible for {who} up to ε = {most:g}: a mean, a spread or a correlation is "
                f"off by more than {MOST_ERROR:g}, or a share by more than {MOST_ERROR / 2:g}. Take fewer columns "
                "or more people, declare closer limits and public centres and spreads, or do without a guarantee."
            )
        row = next(row for row in self.of(NOISE) if row["epsilon"] == start)
        key, what = ERRORS[2], "correlations"
        if ERRORS[0] not in row:
            key, what = SHARE_ERROR, "the share of a level"
        elif len(self.columns) == 1:
            key, what = ERRORS[1], "the spread, as a share of itself,"
        return (
            f"For {who}, noise (synthesize --epsilon) is useful from ε = {start:g} on: {what} off "
            f"by about {row[key]:.2f}, against {self.of(NO_PRIVACY)[0][key]:.2f} without a guarantee."
        )


def useful(row: dict[str, Any]) -> bool:
    """Say whether all errors are small enough to learn something; a share of a half is off by at most a tenth."""
    return all(row.get(key, 0.0) <= MOST_ERROR for key in ERRORS) and row.get(SHARE_ERROR, 0.0) <= MOST_ERROR / 2


def plan_guarantee(
    schema: Any,
    people: int,
    epsilon: float | Sequence[float] = (0.5, 1.0, 2.0, 5.0, 10.0),
    *,
    delta: float = DELTA,
    correlation: float = 0.5,
) -> GuaranteePlan:
    """Return what a guarantee of each ε would cost for the columns of a table file; nothing confidential is read.

    `correlation` is a guess for all pairs of columns. Errors are those of one released draw, approximately.

    >>> import allbutone as abo
    >>> file = {"columns": {"bmi": {"low": 15, "high": 50, "centre": 26, "spread": 5}}}
    >>> abo.plan_guarantee(file, people=500).useful_from
    0.5
    """
    declared = Schema.of(schema).widened()
    declared = Schema(tuple(each for each in declared.columns if each.kind in (MEASUREMENT, CATEGORY)))
    model_limits(declared)
    people, p = count_of("people", people), len(declared.measurements)
    if people < p + 3:
        raise InputError(f"{people} people are too few for {counted(p, 'column')}")
    if p > 1 and not -1 / (p - 1) < correlation < 1:
        raise InputError(
            f"{p} columns cannot all have the correlation {correlation:g}",
            Cure("guess another", "correlation", 0.5),
        )
    delta = delta_of(delta, people)
    rows: list[dict[str, Any]] = []
    for level in sorted({epsilon_of(each) for each in np.atleast_1d(epsilon).tolist()}):
        r, design = correlation if p > 1 else 0.0, NoiseDesign.of(declared, people, level, delta)
        by_route = {NO_PRIVACY: _without(people, p, r), NOISE: _with_noise(design, r) if p else []}
        for route, squares in by_route.items():
            errors = dict(zip(ERRORS, np.sqrt(squares).tolist(), strict=True)) if p else {}
            if declared.categories:
                errors[SHARE_ERROR] = _of_shares(design, noise=route == NOISE)
            rows.append({"route": route, "epsilon": level} | errors)
    names = tuple(column.name for column in declared.columns)
    return GuaranteePlan(tuple(rows), names, people, delta, correlation)


def _without(people: int, p: int, correlation: float) -> tuple[float, float, float]:
    """Return the mean squared errors of a draw by the usual prior: of sampling, of drawing, and a little bias."""
    df = people + p + 2
    inflation = people / max(df - p - 1, 1)  # released over true variance
    mean = (1 + inflation) / people
    spread = (np.sqrt(inflation) - 1) ** 2 + inflation * (0.5 / df + 0.5 / people)
    return mean, spread, (1 - correlation**2) ** 2 * (1 / df + 1 / people)


def _of_shares(design: NoiseDesign, *, noise: bool) -> float:
    """Return the root mean square error of a level's share in a draw, of equal shares, by its own count alone."""
    sizes, people = design.ball.cells.sizes, design.people
    each = [
        (1 / size * (1 - 1 / size)) / people + noise * 2 / (mu * people) ** 2
        for size, (_, mu) in zip(sizes, design.margins, strict=False)
    ]
    return float(np.sqrt(2 * np.mean(each)))


def _with_noise(design: NoiseDesign, correlation: float) -> list[float]:
    """Return those under noise on Σx̃x̃ᵀ, of sensitivity √2(R² + |w|²), by a posterior that knows of it."""
    ball, people = design.ball, design.people
    noise = np.sqrt(2) * ball.reach / (design.mu * people)
    relative, r2 = (noise / ball.spread**2) ** 2, correlation**2
    mean = 1 / people + noise**2 / (2 * ball.eta**2 * ball.spread**2)
    spread = 0.5 / people + 0.25 * relative
    of_pairs = (1 - r2) ** 2 / people + 0.5 * (1 + r2) * relative
    # estimate and draw err alike; a prior of variance 1, or of correlations spread evenly, is the worst there is
    return [2 / (1 / each + 1 / worst) for each, worst in ((mean, 1.0), (spread, 1.0), (of_pairs, 1 / 3))]
