"""What is declared of one column: its kind, its scale, limits and decimals, and what is publicly known of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from itertools import pairwise
from math import inf, isfinite
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from allbutone.support.errors import InputError
from allbutone.support.text import counted, percent

# Scales: public, strictly increasing changes of a column's scale, there and back.
#
# Everything downstream is exact on the scale that is declared. A scale must come from public knowledge: one that
# is estimated from the confidential table and called public would give the table away.


Values = Float[np.ndarray, "*shape"]

_LOG = re.compile(r"log(?:\(\s*x\s*(?:\+\s*([0-9.eE+-]+)\s*)?\))?")
WAYS = '"as it is", "log", "log(x + 1)", "sqrt", "logit" (with low and high) or "quantiles"'


@dataclass(frozen=True)
class Scale:
    """The scale on which a column is modelled.

    name: as a table file writes it. shift: c of log(x + c). low, high: of the logit.
    quantiles: pairs (probability, value) of a published reference table.
    """

    name: str = "as it is"
    shift: float = 0.0
    low: float = -inf
    high: float = inf
    quantiles: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, name: Any, *, low: float = -inf, high: float = inf, quantiles: Any = None) -> "Scale":
        """Return the scale of this name, or say which there are."""
        if not isinstance(name, str):
            raise InputError(f"a scale is a text, got {name!r:.60}", f"known are {WAYS}")
        plain = name.strip().lower()
        if plain != "quantiles" and quantiles is not None:
            raise InputError(
                'a table of quantiles goes with scale = "quantiles"', "give that scale, or no quantiles"
            )
        if plain in ("as it is", "sqrt"):
            return cls(plain)
        if plain == "quantiles":
            return cls(plain, quantiles=_reference(quantiles))
        if plain == "logit":
            if not -inf < low < high < inf:
                raise InputError("the scale logit needs finite limits", "declare low and high, low below high")
            return cls(plain, low=low, high=high)
        match = _LOG.fullmatch(plain)
        try:
            shift = float(match[1] or 0.0) if match else -1.0
        except ValueError:
            shift = -1.0
        if not 0 <= shift < inf:
            raise InputError(f"there is no scale {name!r:.60}", f"known are {WAYS}")
        return cls("log" if shift == 0 else f"log(x + {shift:g})", shift)

    @property
    def is_plain(self) -> bool:
        """Whether values stay as they are."""
        return self.name == "as it is"

    @property
    def domain(self) -> tuple[float, float, bool]:
        """The lowest and the highest natural value, and whether these two are themselves allowed."""
        if self.name.startswith("log("):
            return -self.shift, inf, False
        if self.name == "sqrt":
            return 0.0, inf, True
        return {"log": (0.0, inf, False), "logit": (self.low, self.high, False)}.get(self.name, (-inf, inf, True))

    def to_model(self, values: Values) -> Values:
        """Bring natural values, within the domain, to the scale of the model."""
        if self.is_plain:
            return values
        if self.name.startswith("logit"):
            return np.log((values - self.low) / (self.high - values))
        if self.name.startswith("log"):
            return np.log(values + self.shift)
        if self.name == "sqrt":
            return np.sign(values) * np.sqrt(np.abs(values))
        return _interpolated(values, *self.knots)

    def to_natural(self, values: Values) -> Values:
        """Bring values of the model back to natural units; the inverse of `to_model`.

        A square root is odd, x → x·|x|, so that it stays increasing below 0; limits then do their part.
        """
        if self.is_plain:
            return values
        if self.name == "logit":
            with np.errstate(over="ignore"):  # exp(800) is infinite, and 1/(1 + ∞) right
                return self.low + (self.high - self.low) / (1 + np.exp(-values))
        if self.name.startswith("log"):
            return np.exp(np.minimum(values, 700.0)) - self.shift  # e^710 would overflow
        if self.name == "sqrt":
            return values * np.abs(values)
        places, scores = self.knots
        return _interpolated(values, scores, places)

    @property
    def knots(self) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """The values of the reference table, and where the model has them."""
        pairs = np.array(self.quantiles)
        return pairs[:, 1], ndtri(pairs[:, 0])


def _interpolated(values: Values, places: Float[np.ndarray, " k"], images: Float[np.ndarray, " k"]) -> Values:
    """Interpolate, and go on beyond both ends with the slope of the last piece there."""
    inside = np.interp(values, places, images)
    below, above = np.minimum(values - places[0], 0), np.maximum(values - places[-1], 0)
    slopes = np.diff(images) / np.diff(places)
    return inside + slopes[0] * below + slopes[-1] * above


def _reference(quantiles: Any) -> tuple[tuple[float, float], ...]:
    """Read a published table of quantiles: at least two pairs, both entries increasing."""
    example = (
        "give pairs [probability, value] of a published table, such as [[0.05, 3.1], [0.5, 4.0], [0.95, 5.2]]"
    )
    try:
        pairs = tuple((float(probability), float(value)) for probability, value in quantiles)
    except (TypeError, ValueError) as error:
        raise InputError("the scale quantiles needs a table of quantiles", example) from error
    increasing = all(_rises(column) for column in zip(*pairs, strict=True))
    if len(pairs) < 2 or not increasing or not 0 < pairs[0][0] < pairs[-1][0] < 1:
        raise InputError("quantiles must rise, in probability between 0 and 1 and in value", example)
    return pairs


def _rises(numbers: Sequence[float]) -> bool:
    return all(first < second for first, second in pairwise(numbers)) and all(
        abs(number) < inf for number in numbers
    )


# What is declared of one column: its kind, scale, limits, decimals, and what is publicly known of it.


MEASUREMENT, CATEGORY, LEFT_OUT = "measurement", "category", "left out"
MOST_DECIMALS = 12
UNSAFE_LEVEL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff\"`]|<[a-zA-Z/!?]|^\s*[=@]|^\s*[+-].*[a-zA-Z(]")


@dataclass(frozen=True)
class Column:
    """What is declared of one column, in natural units.

    kind: "measurement", "category", or "left out", and then `why`. levels: of a category, in order; those of the
    table where none are declared. low, high: limits that no released value passes. decimals: to which released
    values are rounded. centre, spread: what public sources say of the middle value and the standard deviation.
    missing: numbers that stand for no value, such as -999. tolerance: how near to a person's value a guess counts
    as knowing it.
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
    levels: tuple[str, ...] = ()
    tolerance: float | None = None

    def as_category(self, levels: Sequence[str]) -> "Column":
        """Return the column as a category of these levels, with all that can be said of one."""
        return Column(
            self.name, CATEGORY, self.label, self.unit, missing=self.missing, why=self.why, levels=tuple(levels)
        )

    def releases_like(self, other: "Column") -> bool:
        """Say whether the same draw goes out the same under both; levels that are not declared may be any."""
        if self.kind != other.kind or self.kind == CATEGORY:
            return self.kind == other.kind and other.levels in ((), self.levels)
        names = ("scale", "low", "high", "decimals")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    @property
    def is_plain(self) -> bool:
        """Whether what the model draws is released as it is."""
        return self.scale.is_plain and self.decimals is None and (self.low, self.high) == (-inf, inf)

    @property
    def is_limited(self) -> bool:
        """Whether a released value can tell less than the draw it came from: by rounding, or at a limit."""
        low, high, closed = self.scale.domain
        inner = self.low > low or self.high < high
        return self.decimals is not None or inner or (closed and (low, high) != (-inf, inf))

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

    def drawn_between(self, natural: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
        """Return between which values, on the scale of the model, the draws lay that went out as these values.

        A rounded value was within half a step; one at a limit may have been anywhere beyond it. Where the two are
        equal the draw itself went out.
        """
        half = 0.0 if self.decimals is None else 0.5 * 10.0**-self.decimals
        lowest, highest = self.bounds
        # values that come back from the scale of the model are off by a few last digits
        slack = half / 2 if half else 1e-12 * np.abs(natural)
        low = np.where(natural <= lowest + slack, -inf, natural - half)
        high = np.where(natural >= highest - slack, inf, natural + half)
        start, end, _ = self.scale.domain
        inside = low > start, high < end
        ends = [
            self.scale.to_model(np.where(ok, each, natural)) for ok, each in zip(inside, (low, high), strict=True)
        ]
        below, above = np.where(inside[0], ends[0], -inf), np.where(inside[1], ends[1], inf)
        gap = np.isnan(natural)
        return np.where(gap, np.nan, below), np.where(gap, np.nan, above)

    def at_limits(self, natural: Float[np.ndarray, "..."]) -> np.ndarray:
        """Say which released values stand at a limit, beyond which their draws may have been."""
        slack = 0.25 * 10.0**-self.decimals if self.decimals is not None else 1e-12 * np.abs(natural)
        return (natural <= self.bounds[0] + slack) | (natural >= self.bounds[1] - slack)

    def limits_in_words(self, share: float) -> str:
        """Say which share of the released values stands at a limit."""
        ends = [f"{end:g}" for end in self.bounds if isfinite(end)]
        return f"{percent(share)} of {self.name!r} (at {' or '.join(ends)})"

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
    if kind not in (MEASUREMENT, CATEGORY, LEFT_OUT):
        known = f'known are "{MEASUREMENT}", "{CATEGORY}" and "{LEFT_OUT}"'
        raise InputError(f"there is no kind {kind!r:.60}", known)
    low, high = _number("low", given.get("low", -inf)), _number("high", given.get("high", inf))
    if not low < high:
        raise InputError(f"low must be below high, got {low:g} and {high:g}")
    centre, spread = (
        None if (value := given.get(key)) is None else _number(key, value) for key in ("centre", "spread")
    )
    if (centre is None) != (spread is None) or (spread is not None and not 0 < spread < inf):
        raise InputError("centre and spread go together, the spread above 0", "give both or none")
    tolerance = None if (value := given.get("tolerance")) is None else _number("tolerance", value)
    if tolerance is not None and not 0 < tolerance < inf:
        raise InputError(f"a tolerance is a number above 0, got {tolerance:g}")
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
        levels=_levels(given.get("levels", ())),
        tolerance=tolerance,
        **words,
    )
    _check_kind(found)
    if found.bounds[0] >= found.bounds[1]:
        raise InputError("limits, scale and decimals leave no two values to release", "widen them")
    if centre is not None and not found.allows(np.array([centre])).all():
        raise InputError("its centre lies outside its limits or its scale")
    return found


def _check_kind(column: Column) -> None:
    """Refuse levels of a measurement, and what only a measurement can have of a category."""
    if column.kind != CATEGORY:
        if column.levels and column.kind == MEASUREMENT:
            raise InputError("levels go with a category", f'declare kind = "{CATEGORY}", or no levels')
        return
    if column != column.as_category(column.levels):
        raise InputError(
            "a category has no scale, limits, decimals, centre, spread or tolerance", "leave them out"
        )


def _levels(given: Any) -> tuple[str, ...]:
    """Read the levels of a category: texts, or numbers and truth values as their text."""
    if not isinstance(given, list | tuple) or not all(isinstance(level, str | int | float) for level in given):
        raise InputError(f"levels are a list of texts, got {given!r:.60}", 'write levels = ["f", "m"], say')
    levels = tuple(map(level_name, given))
    check_levels(levels)
    return levels


def level_name(value: Any) -> str:
    """Return the name of a level: 1 and 1.0 are both "1", true and false have small letters."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return str(int(value)) if isfinite(value) and value == round(value) else repr(float(value))
    return str(value)


@cache
def _read_as_missing() -> frozenset[str]:
    """Return the words that stand for no value in a CSV file."""
    from pyarrow.csv import ConvertOptions  # not above: a table of numbers needs no Arrow

    return frozenset(ConvertOptions().null_values)


def check_levels(levels: Sequence[str], where: str = "") -> None:
    """Refuse levels that are blank, repeated, not safe to copy into released files, or not told apart there."""
    for level in levels:
        if not level.strip():
            raise InputError("a level has no name", "name it; what is missing needs no level", where=where)
        if level in _read_as_missing():
            raise InputError(
                f"the level {level!r} is read as a missing value from any file", "rename it", where=where
            )
        if UNSAFE_LEVEL.search(level):
            raise InputError(
                f"the level {level!r:.60} holds line breaks, markup or a spreadsheet formula, which is not safe "
                "to copy into released files",
                "rename it",
                where=where,
            )
    if len(set(levels)) < len(levels):
        raise InputError("a level is named twice", "name each once", where=where)
    first: dict[Any, str] = {}
    for level in levels:
        if (other := first.setdefault(_as_read(level), level)) != level:
            raise InputError(
                f"the levels {other!r} and {level!r} are read from a file as the same value",
                "rename one",
                where=where,
            )


def _as_read(level: str) -> Any:
    """Return a level as a file of such values is read: numbers as numbers, true and false in any letters."""
    try:
        return float(level)
    except ValueError:
        return level.casefold() if level.casefold() in ("true", "false") else level


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
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{name} is larger than any number here", "write a smaller one") from error


def decimals_from(value: Any) -> int | None:
    """Check a number of decimals; None where none is declared."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_DECIMALS:
        raise InputError(f"decimals is a whole number from {-MOST_DECIMALS} to {MOST_DECIMALS}, got {value!r:.60}")
    return value
