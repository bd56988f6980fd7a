"""The public ball into which every record is brought: by the table file's limits, and its centres and spreads.

A record is limited column by column in natural units, taken to the model's scale, centred and divided by a public
unit; then drawn towards the centre if it is farther than R. Where all columns have a public centre and spread,
these are centre and unit, and R is chosen beforehand so that noise and what is cut off cost least (`radius`), at
most the farthest corner of the limits. Else they are the middle and the half width of the limits, and R² = p,
which cuts off nothing within the limits but costs more noise.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.releases.private.radius import best_radius
from allbutone.support.errors import InputError
from allbutone.tables.declared.scales import Scale
from allbutone.tables.declared.schema import Schema

QUARTER = 0.25  # a spread in half widths, where none is declared: the limits are four spreads away
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
        if all(column.centre is not None and column.spread is not None for column in columns):
            pairs = [column.on_model_scale(column.centre, column.spread) for column in columns]  # type: ignore[arg-type]
            centre, unit = np.array(pairs).T
            corner = np.max(np.abs(limits - centre[:, None]), axis=1) / unit
            radius = min(best_radius(len(columns), people, mu), float(np.linalg.norm(corner)))
            return cls(schema, centre, unit, radius, 1.0)
        half = 0.5 * (limits[:, 1] - limits[:, 0])
        return cls(schema, limits.mean(axis=1), half, float(np.sqrt(len(columns))), QUARTER)

    @property
    def p(self) -> int:
        """The number of columns."""
        return len(self.centre)

    @property
    def eta(self) -> float:
        """η = R/(2√2), the last entry of x̃ = (x, η), through which the mean is told."""
        return self.radius / np.sqrt(8)

    def inside(self, natural: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Bring records in natural units into the ball, in its units."""
        low, high = np.array([(column.low, column.high) for column in self.schema.measurements]).T
        return self.shrunk((self.schema.to_model(np.clip(natural, low, high)) - self.centre) / self.unit)

    def shrunk(self, values: Float[np.ndarray, "*n p"]) -> Float[np.ndarray, "*n p"]:
        """Draw what is farther than R from the centre back to R."""
        length = np.linalg.norm(values, axis=-1, keepdims=True)
        return values * np.minimum(1.0, self.radius / np.maximum(length, 1e-300))

    def on_model_scale(
        self, means: Float[np.ndarray, "k p"], covariances: Float[np.ndarray, "k p p"]
    ) -> tuple[Float[np.ndarray, "k p"], Float[np.ndarray, "k p p"]]:
        """Return means and covariances in the ball's units on the model's scale."""
        return self.centre + self.unit * means, covariances * np.outer(self.unit, self.unit)


def model_limits(schema: Schema) -> Float[np.ndarray, "p 2"]:
    """Return the limits of all columns on the model's scale; without finite ones there is no guarantee."""
    if schema.categories:
        names = ", ".join(column.name for column in schema.categories)
        raise InputError(f"a guarantee is for measurements, and these are categories: {names}", "leave them out")
    absent = [column.name for column in schema.measurements if not -inf < column.low < column.high < inf]
    if absent or not schema.measurements:
        raise InputError(
            f"a guarantee needs public limits, and the table file gives no low and high to {', '.join(absent)}",
            "declare what the columns can be, not what they are in this table",
        )
    limits = np.array([(column.low, column.high) for column in schema.measurements])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = schema.to_model(limits.T).T
    if lost := [each.name for each, pair in zip(schema.measurements, found, strict=True) if not _finite(pair)]:
        raise InputError(
            f"on its scale a limit of {', '.join(lost)} is infinite, so that it limits nothing",
            "declare limits inside the scale's ends, such as a low above 0 for a log",
        )
    return found


def _finite(pair: Any) -> bool:
    return bool(np.all(np.isfinite(pair)) and pair[0] < pair[1])


def without_limits(schema: Schema) -> Schema:
    """Return the schema to read a table with whose values may pass the limits: they are brought inside later."""
    return replace(
        schema, columns=tuple(replace(each, scale=Scale(), low=-inf, high=inf) for each in schema.columns)
    )


def require_public(schema: Schema, natural: Float[np.ndarray, "n p"]) -> None:
    """Refuse limits that are the table's own extremes: they would tell two records of each column exactly."""
    for column, values in zip(schema.measurements, natural.T, strict=True):
        lowest, highest = values.min(), values.max()
        natural_ends = min(np.sum(values == lowest), np.sum(values == highest)) >= AT_AN_END
        if (lowest, highest) == (column.low, column.high) and not natural_ends:
            raise InputError(
                f"the limits of {column.name!r} are the table's own extremes, so they were computed from it",
                "declare what the column can be, from public knowledge",
            )
