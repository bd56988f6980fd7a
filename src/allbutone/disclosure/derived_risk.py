"""How well values are known that are no coordinates of the model: a ratio, a sum, a value above another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from allbutone.disclosure.rule import (
    BASELINE,
    BEYOND,
    ERROR,
    FAR,
    HALFWAY,
    OTHERS,
    PROBABILITY,
    TOLERANCE,
    USUAL_TOLERANCE,
)
from allbutone.support.arrays import to_numpy
from allbutone.tables.column import Column
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema


@dataclass(frozen=True, eq=False)
class DerivedValues:
    """Everybody's derived values, and between which ends a guess of each counts as right, in natural units.

    schema: of all measurements, with derived columns as their formulas say, not rounded. own: everybody's
    measurements on the scale of the model. natural: the same in natural units, as recorded. features: which of
    these a candidate record has; of the others it has the person's own. others: the others' mean, of a person who
    is far from it.
    """

    schema: Schema
    own: Float[np.ndarray, "n p"]
    natural: Float[np.ndarray, "n p"]
    values: Float[np.ndarray, "n f"]
    low: Float[np.ndarray, "n f"]
    high: Float[np.ndarray, "n f"]
    others: Float[np.ndarray, "n f"]
    features: tuple[int, ...] | None = None

    @classmethod
    def of(cls, records: Records) -> "DerivedValues | None":
        """Take all derived columns of a table, and those with an order; None where there are none.

        As of any value: within the declared tolerance; else a quarter of the column's standard deviation, and at
        least half of the person's own distance from the others' mean. A level is the right one or it is not.
        """
        schema = records.schema
        if not (schema.derived or schema.orders):
            return None
        exact = replace(
            schema, derived=tuple(replace(column, decimals=None, heaps=None) for column in schema.derived)
        )
        values = _computed(exact, records.natural)
        low, high, others = values.copy(), values.copy(), np.full(values.shape, np.nan)
        for place, column in enumerate(_columns(exact)):
            if not column.has_levels:
                whole = records.spreads.get(column.name)
                low[:, place], high[:, place], others[:, place] = _near(column, values[:, place], whole)
        return cls(exact, records.values, records.natural, values, low, high, others)

    @property
    def count(self) -> int:
        """How many such columns there are."""
        return len(self.columns)

    @property
    def columns(self) -> list[Column]:
        """The derived columns, and then those that lie above, below or between others."""
        return _columns(self.schema)

    def take(self, rows: Any, features: Sequence[int] | np.ndarray | None = None) -> "DerivedValues":
        """Return those of some people, of whom candidate records have all features or some of them."""
        # places may be on a device
        here = rows if isinstance(rows, np.ndarray | slice) else to_numpy(rows).astype(np.int64)
        left = self.features
        if features is not None:
            known = range(self.own.shape[1]) if left is None else left
            left = tuple(known[int(place)] for place in features)
        names = ("own", "natural", "values", "low", "high", "others")
        return replace(self, features=left, **{name: getattr(self, name)[here] for name in names})

    def holds(self, records: Float[np.ndarray, "n s p"]) -> Bool[np.ndarray, "n s f"]:
        """Say which candidate records, on the scale of the model, have which values within their ends."""
        if self.features is not None:
            whole = np.repeat(self.own[:, None], records.shape[1], axis=1)
            whole[..., list(self.features)] = records
            records = whole
        natural = self.schema.to_natural(records)
        for place in self._as_recorded:
            natural[..., place] = self.natural[:, None, place]
        computed = _computed(self.schema, natural)
        return (computed >= self.low[:, None]) & (computed <= self.high[:, None])

    @property
    def _as_recorded(self) -> list[int]:
        """The places of what candidates have of the person, to the last digit: a group begins at its boundary."""
        if self.features is None:
            return []
        free = set(self.features)
        for each in self.schema.orders:  # what lies above a candidate's value moves with it
            if any(isinstance(end, int) and end in free for end in (each.low, each.high)):
                free.add(each.place)
        return [place for place in range(self.own.shape[1]) if place not in free]


def _columns(schema: Schema) -> list[Column]:
    return [*schema.derived, *(each.column for each in schema.orders)]


def _computed(schema: Schema, natural: Float[np.ndarray, "*rows p"]) -> Float[np.ndarray, "*rows f"]:
    """Return the derived values of rows in natural units, and then those of columns with an order."""
    ordered = [natural[..., each.place] for each in schema.orders]
    return np.stack([*schema.derive(natural).values(), *ordered], axis=-1)


def _near(
    column: Column, values: Float[np.ndarray, " n"], whole: tuple[int, float, float] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ends of what counts as knowing each value, and the others' mean of people far from it.

    whole: how many there are in all, their mean and standard deviation, where these are a few of them.
    """
    if column.tolerance is not None:
        return values - column.tolerance, values + column.tolerance, np.full(len(values), np.nan)
    own = int(np.sum(np.isfinite(values)))
    n, middle, spread = whole or (own, float(np.nanmean(values)), float(np.nanstd(values, ddof=1)))
    away = HALFWAY * n / (n - 1) * np.abs(values - middle)
    reach = np.maximum(away, USUAL_TOLERANCE * spread)
    others = np.where(away >= HALFWAY * FAR * spread, (n * middle - values) / (n - 1), np.nan)
    return values - reach, values + reach, others


def not_judged(schema: Schema, found: Mapping[str, np.ndarray]) -> str:
    """Say which secret columns that are computed from others a risk table does not judge; nothing if it does."""
    order = schema.released_order
    secret = [column.name for column in schema.derived if column.secret and column.name in order]
    names = [name for name in secret if PROBABILITY + name not in found]
    return (
        f"Not judged by themselves here, only by what they are computed from: {', '.join(names)}." if names else ""
    )


def belief_columns_of_derived(
    near: Any, found: Float[np.ndarray, "3 n f"], names: Sequence[str], prefix: str = ""
) -> dict[str, np.ndarray]:
    """Return the columns of a risk table that tell how well these derived values are known.

    `found`: their probability, its standard error, and the probability without the release.
    """
    columns: dict[str, np.ndarray] = {}
    for place, column in enumerate(near.columns):
        if column.name not in names:
            continue
        own = near.values[:, place]
        probability, error, baseline = (np.where(np.isnan(own), np.nan, each[:, place]) for each in found)
        columns[prefix + PROBABILITY + column.name] = probability
        columns[prefix + BASELINE + column.name] = baseline
        columns[prefix + ERROR + column.name] = error
        if not column.has_levels:
            others, low, high = (each[:, place] for each in (near.others, near.low, near.high))
            inner = np.where(others > own, high, low)
            columns[prefix + TOLERANCE + column.name] = (high - low) / 2
            columns[prefix + BEYOND + column.name] = np.where(np.isnan(others), np.nan, inner)
            columns[prefix + OTHERS + column.name] = others
    return columns
