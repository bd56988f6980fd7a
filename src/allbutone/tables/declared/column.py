"""What is declared of one column: its kind, scale, limits, decimals, and what is publicly known of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import inf, isfinite
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.declared.scales import Scale

MEASUREMENT, LEFT_OUT = "measurement", "left out"
MOST_DECIMALS = 12


@dataclass(frozen=True)
class Column:
    """What is declared of one column, in natural units.

    kind: "measurement" or "left out", and then `why`. low, high: limits that no released value passes.
    decimals: to which released values are rounded. centre, spread: what public sources say of the middle value and
    the standard deviation. missing: numbers that stand for no value, such as -999.
    """

    name: str
    kind: str = MEASUREMENT
    label: str = ""
    unit: str = ""
    scale: Scale = field(default_factory=Scale)
    low: float = -inf
    high: float = inf
    decimals: int | None = None
    centre: float | None = None
    spread: float | None = None
    missing: tuple[float, ...] = ()
    why: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether what the model draws is released as it is."""
        return self.scale.is_plain and self.decimals is None and (self.low, self.high) == (-inf, inf)

    @property
    def on_scale(self) -> str:
        """The name with the scale that figures of the model's own numbers are on."""
        return self.name if self.scale.is_plain else f"{self.name} ({self.scale.name})"

    def allows(self, values: Float[np.ndarray, " n"]) -> np.ndarray:
        """Say which natural values are within the limits and the scale's domain."""
        low, high, closed = self.scale.domain
        inside = (values >= low) & (values <= high) if closed else (values > low) & (values < high)
        return inside & (values >= self.low) & (values <= self.high)

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value that may be released: on the grid of decimals, within all limits."""
        low, high, closed = self.scale.domain
        lowest, highest = max(low, self.low), min(high, self.high)
        open_low, open_high = not closed and lowest == low, not closed and highest == high
        if self.decimals is None:
            return (
                float(np.nextafter(lowest, inf)) if open_low else lowest,
                float(np.nextafter(highest, -inf)) if open_high else highest,
            )
        if isfinite(lowest):
            lowest = _on_grid(lowest, self.decimals, 1, open_low)
        if isfinite(highest):
            highest = _on_grid(highest, self.decimals, -1, open_high)
        return lowest, highest

    @property
    def in_words(self) -> str:
        """What is declared of the released values, in a few words; nothing where nothing is."""
        parts = [self.unit, "" if self.scale.is_plain else f"modelled on the scale {self.scale.name}"]
        low, high = self.low > -inf, self.high < inf
        if low or high:
            limits = f"{self.low:g} to {self.high:g}" if low and high else f"at least {self.low:g}"
            parts.append(limits if low else f"at most {self.high:g}")
        if self.decimals is not None:
            parts.append(f"rounded to {counted(self.decimals, 'decimal')}" if self.decimals else "whole numbers")
        return ", ".join(filter(None, parts))

    def on_model_scale(self, centre: float, spread: float) -> tuple[float, float]:
        """Bring a middle value and a standard deviation in natural units to the scale of the model.

        The middle value goes where the scale takes it; the spread becomes the mean distance to the images of one
        spread below and above, as far as these are within the scale's domain.
        """
        ends = np.array([centre - spread, centre + spread])
        ends = ends[replace(self, low=-inf, high=inf).allows(ends)]
        if not len(ends) or not self.allows(np.array([centre])).all():
            raise InputError(f"the centre of {self.name!r} lies outside its limits or its scale", "correct it")
        middle = float(self.scale.to_model(np.array([centre]))[0])
        return middle, float(np.mean(np.abs(self.scale.to_model(ends) - middle)))

    def entries(self) -> dict[str, Any]:
        """Return what a table file says of the column, without what is as usual."""
        usual, found = Column(self.name), {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name != "name" and value != getattr(usual, entry.name):
                found[entry.name] = list(value) if isinstance(value, tuple) else value
        if not self.scale.is_plain:
            found["scale"] = self.scale.name
            if self.scale.quantiles:
                found["quantiles"] = [list(pair) for pair in self.scale.quantiles]
        return found


_KEYS = (*(entry.name for entry in fields(Column) if entry.name != "name"), "quantiles")


def column_from(name: str, given: Any) -> Column:
    """Read the entries of one column."""
    if not isinstance(given, Mapping):
        raise InputError("its entries must form a table")
    if unknown := [key for key in given if key not in _KEYS]:
        raise InputError(f"there is no entry {unknown[0]!r:.60}", f"known are {', '.join(_KEYS)}")
    kind = given.get("kind", MEASUREMENT)
    if kind not in (MEASUREMENT, LEFT_OUT):
        raise InputError(f"there is no kind {kind!r:.60}", f'known are "{MEASUREMENT}" and "{LEFT_OUT}"')
    low, high = _number("low", given.get("low", -inf)), _number("high", given.get("high", inf))
    if not low < high:
        raise InputError(f"low must be below high, got {low:g} and {high:g}")
    centre, spread = (
        None if (value := given.get(key)) is None else _number(key, value) for key in ("centre", "spread")
    )
    if (centre is None) != (spread is None) or (spread is not None and not 0 < spread < inf):
        raise InputError("centre and spread go together, the spread above 0", "give both or none")
    words = {key: given.get(key, "") for key in ("label", "unit", "why")}
    if not all(isinstance(word, str) for word in words.values()):
        raise InputError("label, unit and why are texts")
    codes = given.get("missing", [])
    codes = codes if isinstance(codes, list | tuple) else [codes]
    found = Column(
        name=name,
        kind=kind,
        scale=Scale.of(given.get("scale", "as it is"), low=low, high=high, quantiles=given.get("quantiles")),
        low=low,
        high=high,
        decimals=decimals_from(given.get("decimals")),
        centre=centre,
        spread=spread,
        missing=tuple(_number("missing", code) for code in codes),
        **words,
    )
    if found.bounds[0] >= found.bounds[1]:
        raise InputError("limits, scale and decimals leave no two values to release", "widen them")
    if centre is not None and not found.allows(np.array([centre])).all():
        raise InputError("its centre lies outside its limits or its scale")
    return found


def _on_grid(limit: float, decimals: int, inward: int, is_open: bool) -> float:
    """Return the first value with these decimals at the limit or inward of it; beyond it where it is open."""
    step = 10.0**-decimals
    place = round(limit / step)
    while True:
        found = round(place * step, max(decimals, 0))
        if inward * (found - limit) > 0 or (found == limit and not is_open):
            return found
        place += inward


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(f"{name} must be a number, got {value!r:.60}")
    return float(value)


def decimals_from(value: Any) -> int | None:
    """Check a number of decimals; None where none is declared."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_DECIMALS:
        raise InputError(f"decimals is a whole number from {-MOST_DECIMALS} to {MOST_DECIMALS}, got {value!r:.60}")
    return value
