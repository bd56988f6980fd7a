"""The public ball into which every record is brought before anything of it is summed."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr

from allbutone.model.moments import UNKNOWN, Cells
from allbutone.support.errors import Cure, InputError
from allbutone.tables.column import Column, Scale
from allbutone.tables.date_forms import TYPED
from allbutone.tables.orders import Ordered, highest_of, lowest_of
from allbutone.tables.schema import Schema

# How far records may lie from the public centre: what is cut off costs accuracy, and so does noise for the rest.
#
# Both are computed beforehand from public figures: the number of people, ε, δ and the declared spreads, with one
# correlation guessed for all pairs. A wrong guess costs accuracy and never privacy.


CORRELATION = 0.5  # guessed: the larger, the longer the tails of |x|
MEAN_SHARE = 1 / 8  # η² of R²: through η the mean is told
LEVEL_SHARE = 1 / 4  # of R² for all categories together: through it the means of their levels are told
LEAST_INSIDE = 0.9  # of independent normal records


def best_radius(p: int, people: int, mu: float, known: float = MEAN_SHARE) -> float:
    """Return R, in spreads, with the least expected squared error of spreads and correlations together.

    Noise per entry of the covariance: √2·(R² + |w|²)/(μ·n), |w|² = `known`·R². Cutting off draws the two
    eigenvalues of the guessed correlation matrix, 1 + (p − 1)r and 1 − r, towards each other and both down.
    """
    from scipy.stats import chi2  # not above: it is slow to load

    squared = np.geomspace(chi2.ppf(LEAST_INSIDE, p), 60.0 * p, 80)
    first, rest = _cut_eigenvalues(p, squared)
    variance = (first + rest) / p
    bias = (np.sqrt(variance) - 1) ** 2
    noise = np.sqrt(2) * (1 + known) * squared / (mu * people)
    errors = bias + 0.25 * noise**2
    if p > 1:
        shrunk = (first - rest / (p - 1)) / (first + rest)
        errors = errors + (shrunk - CORRELATION) ** 2 + 0.5 * (1 + CORRELATION**2) * noise**2
    return float(np.sqrt(squared[np.argmin(errors)]))


def _cut_eigenvalues(
    p: int, squared: Float[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Return for each R² the mean squared length along the first axis, and across it, of what is cut at R."""
    from scipy.stats import chi2  # not above: it is slow to load

    score = np.linspace(-8.0, 8.0, 161)
    weight = np.exp(-0.5 * score**2) / np.sqrt(2 * np.pi) * (score[1] - score[0])
    r = CORRELATION if p > 1 else 0.0
    along = ((1 + (p - 1) * r) * score**2)[:, None]
    # a χ² through its normal score, by the tail that has digits
    below, above = chi2.ppf(ndtr(score), max(p - 1, 1)), chi2.isf(ndtr(-score), max(p - 1, 1))
    across = (1 - r) * (p > 1) * np.where(score < 0, below, above)[None, :]
    both = weight[:, None] * weight[None, :]
    shares = [np.minimum(1.0, each / np.maximum(along + across, 1e-300)) * both for each in squared]
    return np.array([np.sum(s * along) for s in shares]), np.array([np.sum(s * across) for s in shares])


# The public ball into which every record is brought: by the table file's limits, and its centres and spreads.
#
# A record is limited column by column in natural units, taken to the model's scale, centred and divided by a
# public unit; then drawn towards the centre if it is farther than R. Where all columns have a public centre and
# spread, these are centre and unit, and R is chosen beforehand so that noise and what is cut off cost least
# (`best_radius`), at most the farthest corner of the limits. Else they are the middle and the half width of the
# limits, and R² = p, which cuts off nothing within the limits but costs more noise. Of a column between others of
# its row that is the logit of its share of the way; it has neither centre nor spread, and a quarter of its half
# width stands for the spread.
#
# Where values may be missing (`gaps` in the table file), a missing one is 0 in x, the public centre: the sums are
# then those of what is observed. Which values are missing is counted as categories are: a missing level is one
# level more, and a measurement that may be missing is a factor of two levels, observed and missing.


USUAL_SPREAD = 0.25  # a spread in half widths, where none is declared: the limits are four spreads away
MOST_CELLS_WITH_NOISE = 1_000
AT_AN_END = 3  # records at both limits from which on these are taken for natural ends, such as 1 and 5 of a score


@dataclass(frozen=True, eq=False)
class PublicBall:
    """centre and unit of each column on the model's scale; the radius and the guessed spread in units."""

    schema: Schema
    centre: Float[np.ndarray, " p"]
    unit: Float[np.ndarray, " p"]
    radius: float
    spread: float

    @classmethod
    def of(cls, schema: Schema, people: int, mu: float) -> "PublicBall":
        """Return the ball of a table file for so many people and this μ, or say which column lacks limits."""
        limits = model_limits(schema)
        columns = schema.measurements
        if all(column.centre is not None or column.order is not None for column in columns) and columns:
            pairs = [
                (float(np.mean(ends)), USUAL_SPREAD * 0.5 * float(ends[1] - ends[0]))
                if column.centre is None
                else column.on_model_scale(column.centre, column.spread or 1.0)
                for column, ends in zip(columns, limits, strict=True)
            ]
            centre, unit = np.array(pairs).T
            corner = np.max(np.abs(limits - centre[:, None]), axis=1) / unit
            known = MEAN_SHARE + (LEVEL_SHARE if schema.categories else 0.0)
            radius = min(best_radius(len(columns), people, mu, known), float(np.linalg.norm(corner)))
            return cls(schema, centre, unit, radius, 1.0)
        half = 0.5 * (limits[:, 1] - limits[:, 0])
        return cls(schema, limits.mean(axis=1), half, float(np.sqrt(len(columns))), USUAL_SPREAD)

    @property
    def p(self) -> int:
        """The number of columns."""
        return len(self.centre)

    @cached_property
    def cells(self) -> Cells:
        """The combinations of the categories' levels, and of what may be missing; one where there are none."""
        levels = [len(column.levels) + column.gaps for column in self.schema.categories]
        return Cells((*levels, *(2 for _ in self.open)))

    @property
    def open(self) -> list[int]:
        """The places of the measurements that may be missing."""
        return [place for place, column in enumerate(self.schema.measurements) if column.gaps]

    @property
    def has_gaps(self) -> bool:
        """Whether any value may be missing."""
        return any(column.gaps for column in self.schema.columns)

    @cached_property
    def observed(self) -> Bool[np.ndarray, "cells p"]:
        """Which measurements the people of each cell have."""
        observed = np.ones((self.cells.count, self.p), dtype=bool)
        observed[:, self.open] = self.cells.codes[:, len(self.schema.categories) :] == 0
        return observed

    def cell_of(self, codes: Int[np.ndarray, "n q"], values: Float[np.ndarray, "n p"]) -> Int[np.ndarray, " n"]:
        """Return everybody's cell, by levels (−1: missing) and measurements (NaN: missing)."""
        sizes = np.array([len(column.levels) for column in self.schema.categories], dtype=np.int64)
        levels = np.where(codes == UNKNOWN, sizes, codes)
        return self.cells.of_codes(np.column_stack([levels, np.isnan(values[:, self.open])]).astype(np.int64))

    def levels_of(self, cells: Int[np.ndarray, " n"]) -> Int[np.ndarray, "n q"]:
        """Return the levels of people in these cells, −1 where they are missing."""
        sizes = np.array([len(column.levels) for column in self.schema.categories], dtype=np.int64)
        codes = self.cells.codes[cells, : len(sizes)]
        return np.where(codes == sizes, UNKNOWN, codes)

    @property
    def eta(self) -> float:
        """η = R/(2√2), the entry of x̃ = (x, η, …) through which the mean is told."""
        return self.radius * sqrt(MEAN_SHARE)

    @cached_property
    def codes(self) -> Float[np.ndarray, "cells r"]:
        """Each cell's w = (η, ζ·s, ζ·s′, …), s the place of a category's level: corners of a regular simplex.

        The L corners have the length √(1 − 1/L) in L − 1 dimensions, and no level comes before another. ζ is such
        that |w|² is η² + R²/4 in every cell.
        """
        from scipy.linalg import helmert  # not above: it is slow to load

        parts = [np.full((self.cells.count, 1), self.eta)]
        for place, size in enumerate(self._level_counts):
            if size > 1:
                parts.append(self.zeta * helmert(size).T[self.cells.codes[:, place]])
        return np.concatenate(parts, axis=1)

    @property
    def zeta(self) -> float:
        """ζ: all categories together have a quarter of R² in |w|²."""
        whole = sum(1 - 1 / size for size in self._level_counts)
        return self.radius * sqrt(LEVEL_SHARE / whole) if whole else 0.0

    @property
    def _level_counts(self) -> tuple[int, ...]:
        """How many levels each category has, a missing one among them; what is missing else has no code."""
        return self.cells.sizes[: len(self.schema.categories)]

    @property
    def code_sizes(self) -> Float[np.ndarray, " r"]:
        """η, and ζ for every other entry of w: in these units all effects are in units of the measurements."""
        return np.r_[self.eta, np.full(self.codes.shape[1] - 1, self.zeta)]

    @property
    def reach(self) -> float:
        """The largest |x̃|² = |x|² + |w|²."""
        return self.radius**2 + float(np.max(np.sum(self.codes**2, axis=1)))

    def inside(self, natural: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Bring records in natural units into the ball, in its units."""
        values = (within_limits(self.schema, natural) - self.centre) / self.unit
        return self.shrunk(np.nan_to_num(values))

    def shrunk(self, values: Float[np.ndarray, "*n p"]) -> Float[np.ndarray, "*n p"]:
        """Draw what is farther than R from the centre back to R."""
        length = np.linalg.norm(values, axis=-1, keepdims=True)
        return values * np.minimum(1.0, self.radius / np.maximum(length, 1e-300))

    def on_model_scale(
        self, means: Float[np.ndarray, "*k p"], covariances: Float[np.ndarray, "*l p p"]
    ) -> tuple[Float[np.ndarray, "*k p"], Float[np.ndarray, "*l p p"]]:
        """Return means and covariances in the ball's units on the model's scale."""
        return self.centre + self.unit * means, covariances * np.outer(self.unit, self.unit)


def model_limits(schema: Schema) -> Float[np.ndarray, "p 2"]:
    """Return the limits of all measurements on the model's scale; without finite ones there is no guarantee."""
    absent = [
        column.name
        for column in schema.measurements
        if column.order is None and not -inf < column.low < column.high < inf
    ]
    if absent:
        raise InputError(
            f"a guarantee needs public limits, and the table file gives no low and high to {', '.join(absent)}",
            "declare what the columns can be, not what they are in this table",
        )
    limits = np.array([(column.low, column.high) for column in schema.measurements]).reshape(-1, 2)
    ordered = {each.place: _limits_of_share(each, schema) for each in schema.orders}
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = replace(schema, columns=tuple(replace(each, order=None) for each in schema.columns))
        inner = plain.to_model(limits.T).T.reshape(-1, 2)
    for place, pair in ordered.items():
        inner[place] = pair
    if lost := [each.name for each, pair in zip(schema.measurements, inner, strict=True) if not _finite(pair)]:
        raise InputError(
            f"on its scale a limit of {', '.join(lost)} is infinite, so that it limits nothing",
            "declare limits inside the scale's ends, such as a low above 0 for a log",
        )
    return inner


def _limits_of_share(each: Ordered, schema: Schema) -> tuple[float, float]:
    """Return the limits of the logit of the share of the way, of a column between two ends; else refuse it."""
    name, order = each.column.name, each.column.order
    known = {column.name: column for column in schema.columns}
    ends = [known[end] if isinstance(end, str) else end for end in (order.low, order.high)] if order else []
    if order is None or not order.two_sided:
        alone, long = f"a guarantee needs public limits, and {name!r} has one end alone", schema.of_file(name)
        if schema.visits is not None and schema.visits.start_of(long) is not None:
            raise InputError(alone, f"leave out after of {long!r}: then its low and high hold at every visit")
        raise InputError(
            alone,
            f'write between = ["{order.columns[0] if order else ""}", 300], or the other way round, with the '
            "highest or the lowest value that there can be",
        )
    if each.column.decimals is None:
        raise InputError(f"between its ends {name!r} can be as near to one as it likes", "declare its decimals")
    low = lowest_of(ends[0], known) if isinstance(ends[0], Column) else ends[0]
    high = highest_of(ends[1], known) if isinstance(ends[1], Column) else ends[1]
    assert low is not None and high is not None  # noqa: PT018
    farthest = float(np.log1p(2 * (high - low) / each.step))  # the whole way and half a step, over half a step
    return -farthest, farthest


def within_limits(schema: Schema, natural: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
    """Return records in natural units on the model's scale, brought into the limits; NaN where a value is missing.

    Of a row that breaks an order, or whose ends coincide, the share of the way is at its limit, or half of it.
    """
    limits = np.array([(column.low, column.high) for column in schema.measurements]).reshape(-1, 2)
    inside = schema.to_model(np.clip(natural, limits[:, 0], limits[:, 1]))
    if not schema.orders:
        return inside
    ends = model_limits(schema)
    inside = np.where(np.isnan(inside) & ~np.isnan(natural), ends.mean(axis=1), inside)
    return np.clip(inside, ends[:, 0], ends[:, 1])


def require_levels(schema: Schema) -> None:
    """Refuse categories whose levels are not public, and too many combinations of levels to tell anything of."""
    if absent := [column.name for column in schema.categories if not column.levels]:
        raise InputError(
            f"a guarantee needs public levels, and the table file gives none to {', '.join(absent)}",
            "declare all levels that there can be, whether the table has them or not",
        )
    held = {name for column in schema.columns if column.order for name in (column.name, *column.order.columns)}
    if both := [column.name for column in schema.columns if column.gaps and column.name in held]:
        raise InputError(
            f"with a guarantee {', '.join(both)} cannot both lie beside another column and have gaps",
            "declare it without an order, or leave gaps = true out and complete it before, by a fixed rule",
        )
    sizes = {column.name: len(column.levels) + column.gaps for column in schema.categories}
    sizes |= {column.name: 2 for column in schema.measurements if column.gaps}
    if (cells := Cells(tuple(sizes.values())).count) > MOST_CELLS_WITH_NOISE:
        missing = " and of what may be missing" * any(column.gaps for column in schema.columns)
        raise InputError(
            f"the categories have {cells:,} combinations of levels{missing}, and with noise at most "
            f"{MOST_CELLS_WITH_NOISE:,} can be drawn",
            "merge levels" + ", or declare gaps = true of fewer columns" * bool(missing),
            Cure("leave one out", "drop", [max(sizes, key=lambda name: sizes[name])]),
        )


def _finite(pair: Any) -> bool:
    return bool(np.all(np.isfinite(pair)) and pair[0] < pair[1])


def without_limits(schema: Schema) -> Schema:
    """Return the schema to read a table with whose values may pass the limits: they are brought inside later.

    A type of dates says nothing of text, whose form is then what was found.
    """
    found = {name: replace(each, form="") for name, each in schema.dates.items() if TYPED.fullmatch(each.form)}
    return replace(
        schema,
        columns=tuple(
            replace(
                each, scale=Scale(), low=-inf, high=inf, order=None, calendar=found.get(each.name, each.calendar)
            )
            for each in schema.columns
        ),
    )


def require_public(schema: Schema, natural: Float[np.ndarray, "n p"]) -> None:
    """Refuse limits that are the table's own extremes: they would tell two records of each column exactly."""
    for column, values in zip(schema.measurements, natural.T, strict=True):
        if column.order is not None or np.all(np.isnan(values)):
            continue
        lowest, highest = np.nanmin(values), np.nanmax(values)
        natural_ends = min(np.sum(values == lowest), np.sum(values == highest)) >= AT_AN_END
        if (lowest, highest) == (column.low, column.high) and not natural_ends:
            raise InputError(
                f"the limits of {column.name!r} are the table's own extremes, so they were computed from it",
                "declare what the column can be, from public knowledge",
            )
