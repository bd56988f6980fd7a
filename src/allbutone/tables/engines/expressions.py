"""What becomes of a column inside an engine: gaps, limits and the declared scale as one expression."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np

from allbutone.tables.declared.column import Column
from allbutone.tables.declared.scales import Scale


@dataclass(frozen=True)
class Measured:
    """One measurement of a lazy frame: the column that holds it and what is declared of it.

    whole: whether it is known to lack no value and to hold none that is not allowed: then nothing is asked again.
    """

    name: str
    declared: Column
    whole: bool = False

    @property
    def natural(self) -> nw.Expr:
        """The values in natural units; null where there is none (null, NaN, a code for missing)."""
        value = nw.col(self.name).cast(nw.Float64)
        if self.whole:
            return value
        there = ~value.is_nan()  # null stays null, which is not true either
        for code in self.declared.missing:
            there = there & (value != code)
        return nw.when(there).then(value)

    @property
    def is_limited(self) -> bool:
        """Whether not all numbers are allowed."""
        return not np.isinf([*self.declared.scale.domain[:2], self.declared.low, self.declared.high]).all()

    def allowed(self, value: nw.Expr) -> nw.Expr:
        """Say which natural values are within the limits and the scale's domain, as `Column.allows` does."""
        low, high, closed = self.declared.scale.domain
        inside = None
        for bound, above, equal in (
            (low, True, closed),
            (high, False, closed),
            (self.declared.low, True, True),
            (self.declared.high, False, True),
        ):
            if np.isinf(bound):
                continue
            if above:
                part = value >= bound if equal else value > bound
            else:
                part = value <= bound if equal else value < bound
            inside = part if inside is None else inside & part
        return ~value.is_null() if inside is None else inside

    def on_model_scale(self, value: nw.Expr) -> nw.Expr:
        """Bring natural values to the scale of the model; what is not allowed becomes null."""
        if self.whole or not self.is_limited:
            return on_scale(self.declared.scale, value)
        # an engine may refuse the logarithm of a negative number, so it must not see one
        return on_scale(self.declared.scale, nw.when(self.allowed(value)).then(value))


def on_scale(scale: Scale, value: nw.Expr) -> nw.Expr:
    """Return `Scale.to_model` as an expression; the values must be within the domain."""
    if scale.is_plain:
        return value
    if scale.name == "logit":
        return ((value - scale.low) / (scale.high - value)).log()
    if scale.name.startswith("log"):
        return (value + scale.shift).log()
    if scale.name == "sqrt":
        return value.sqrt()
    return _interpolated(value, *scale.knots)


def _interpolated(value: nw.Expr, places: np.ndarray, images: np.ndarray) -> nw.Expr:
    """Interpolate between knots and beyond both ends: the pieces' slopes times how much of each lies below."""
    slopes = np.diff(images) / np.diff(places)
    pieces = list(pairwise(places))
    total: Any = float(images[0])
    for number, (slope, (start, end)) in enumerate(zip(slopes, pieces, strict=True)):
        first, last = number == 0, number == len(pieces) - 1
        part = value - float(start)
        if not first:
            part = nw.when(value > float(start)).then(part).otherwise(0.0)
        if not last:
            part = nw.when(value < float(end)).then(part).otherwise(float(end - start))
        total = part * float(slope) + total
    return nw.when(~value.is_null()).then(total)


def level_number(value: nw.Expr, numbers: Mapping[Any, int]) -> nw.Expr:
    """Return the number of the level that each value stands for; −1 where it is none of them."""
    # whole numbers, then cast: PostgreSQL would return decimals for 1.0, 2.0, …
    parts = [nw.when(value == each).then(number + 1).otherwise(0) for each, number in numbers.items()]
    return tree_sum(parts).cast(nw.Float64) - 1.0


def by_cell(cells: Sequence[int], values: Sequence[float]) -> Any:
    """Return the value of each row's own `cell`, of cells in increasing order; a number if all are the same."""
    if len(set(values)) == 1:
        return float(values[0])
    half = len(cells) // 2
    below, above = by_cell(cells[:half], values[:half]), by_cell(cells[half:], values[half:])
    return nw.when(nw.col("cell") < float(cells[half])).then(below).otherwise(above)


def tree_sum(parts: Sequence[Any]) -> Any:
    """Add up expressions, or numbers, by halves: engines refuse what is nested a thousand deep."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return tree_sum(parts[:half]) + tree_sum(parts[half:])
