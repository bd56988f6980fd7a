"""What is declared of one column: its kind, its scale, limits and decimals, and what is publicly known of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from itertools import pairwise
from math import inf, isfinite
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.dates import DATE_KIND, Calendar, calendar_from
from allbutone.tables.formula import Formula, quoted
from allbutone.tables.heaps import Heaps, heaps_from, last_digits
from allbutone.tables.orders import Order, order_from

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
    table = np.array(pairs).reshape(-1, 2)
    rises = np.isfinite(table).all() and (table[1:] > table[:-1]).all()
    if len(pairs) < 2 or not rises or not 0 < pairs[0][0] < pairs[-1][0] < 1:
        raise InputError("quantiles must rise, in probability between 0 and 1 and in value", example)
    return pairs


# What is declared of one column: its kind, scale, limits, decimals, and what is publicly known of it.


# what is said of a column in words, or about the prior, and does not change a number that goes out
_WORDS: dict[str, Any] = {
    "label": "", "unit": "", "centre": None, "spread": None, "missing": (), "why": "", "tolerance": None,
    "secret": True, "known": False, "replaces": False, "event": None, "gaps": False,
}  # fmt: skip
MEASUREMENT, CATEGORY, LEFT_OUT, DERIVED = "measurement", "category", "left out", "derived"
MOST_DECIMALS = 12
UNSAFE_LEVEL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff\"`]|<[a-zA-Z/!?]|^\s*[=@]|^\s*[+-].*[a-zA-Z(]")


@dataclass(frozen=True)
class EventOf:
    """To which event a column is the time: a category's level that says so, by group if one is named."""

    USUAL: ClassVar[tuple[str, ...]] = ("1", "true", "yes", "event", "dead", "died", "deceased")

    of: str
    level: str = ""
    by: str = ""

    @classmethod
    def of_entries(cls, given: Any) -> "EventOf | None":
        """Read event = "status", or event = { of = "status", is = "dead", by = "arm" }."""
        if given is None:
            return None
        entries = {"of": given} if isinstance(given, str) else given
        known = isinstance(entries, Mapping) and "of" in entries and set(entries) <= {"of", "is", "by"}
        if not known or not all(isinstance(each, str | int | float) for each in entries.values()):
            raise InputError(
                f"event names the column that says whether it happened, got {given!r:.60}",
                'write event = "status", or event = { of = "status", is = "dead", by = "arm" }',
            )
        level = level_name(entries["is"]) if "is" in entries else ""
        return cls(str(entries["of"]), level, str(entries.get("by", "")))

    def entries(self) -> dict[str, str]:
        """Return what a table file says of it."""
        return {key: each for key, each in (("of", self.of), ("is", self.level), ("by", self.by)) if each}


@dataclass(frozen=True)
class Column:
    """What is declared of one column, in natural units.

    kind: "measurement", "category", "left out", and then `why`, or "derived": computed from other columns of the
    row by the formula `derived`, or into groups of it that begin at the values in `cut`. levels: of a category, in
    order; those of the table where none are declared. low, high: limits that no released value passes. decimals:
    to which released values are rounded. centre, spread: what public sources say of the middle value and the
    standard deviation. missing: numbers that stand for no value, such as -999. tolerance: how near to a person's
    value a guess counts as knowing it. secret: whether a value of it counts when it is judged what a release
    discloses; not where it is public of people anyway. known: whether people outside can know it of somebody whom
    they look for. heaps: the grids to which values are rounded, where there are several, or one of multiples;
    decimals are then those of the finest. replaces: whether the formula of a derived column counts where the table
    says otherwise. order: other columns of the row that it lies above, below or between; its scale is then that of
    the gap. calendar: of a date, how it is counted and written; it is a measurement in units since an origin.
    event: of a time, to which event it is. gaps: whether values may be missing,
    which a guarantee must be told beforehand. deviation: of a derived number, how far released values lie from its
    formula: a public standard deviation on its scale.
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
    secret: bool = True
    known: bool = False
    derived: str = ""
    cut: tuple[float, ...] = ()
    replaces: bool = False
    heaps: Heaps | None = None
    order: Order | None = None
    calendar: Calendar | None = None
    event: EventOf | None = None
    gaps: bool = False
    deviation: float = 0.0

    def as_category(self, levels: Sequence[str]) -> "Column":
        """Return the column as a category of these levels, with all that can be said of one."""
        return Column(
            self.name,
            CATEGORY,
            self.label,
            self.unit,
            missing=self.missing,
            why=self.why,
            levels=tuple(levels),
            secret=self.secret,
            known=self.known,
            gaps=self.gaps,
        )

    @cached_property
    def formula(self) -> Formula:
        """What a derived column is computed by."""
        return Formula.of(self.derived)

    def computed(self, values: Mapping[str, Values]) -> Values:
        """Return a derived column of these rows, rounded as declared: numbers, or level numbers.

        NaN where a value that it needs is missing, or where the formula has none, such as a division by zero.
        """
        needed = {name: values[name] for name in self.formula.columns}
        numbers = np.asarray(self.formula.of_values(needed), dtype=np.float64)
        lost = ~np.isfinite(numbers)
        for each in needed.values():
            lost = lost | np.isnan(each)
        if self.cut:
            numbers = np.searchsorted(self.cut, numbers, side="right").astype(np.float64)
        return np.where(lost, np.nan, self._rounded(numbers))

    def _rounded(self, found: Values) -> Values:
        """Round computed values as declared."""
        if self.heaps is not None and self.decimals is not None:
            return self.heaps.rounded(found, self.heaps.chosen(found), self.decimals)
        return found if self.decimals is None else np.round(found, self.decimals) + 0.0

    def deviated(self, computed: Values, natural: Float[np.ndarray, "*rows p"]) -> Values:
        """Return computed values with their deviations, which the row's own released values tell by their digits.

        So what goes out is a function of these alone, and tells nothing besides.
        """
        mixed = np.full(computed.shape, crc32(self.name.encode()) / 2.0**32)
        for place in range(natural.shape[-1]):  # not to the last digit, which a file may lose
            mixed = last_digits(np.round(np.nan_to_num(natural[..., place]), 9) + mixed)
        steps = self.deviation * ndtri(np.clip(mixed, 1e-12, 1 - 1e-12))
        there = ~np.isnan(computed)
        found = self.scale.to_natural(self.scale.to_model(np.where(there, computed, 1.0)) + steps)
        return np.where(there, np.clip(self._rounded(found), *self.as_released.bounds), np.nan)

    def lying_above(self, other: str) -> "Column":
        """Return the column above another one: the gap on a log scale, instead of its scale and limits."""
        order = Order(other, calendar=self.calendar)
        scale = _scale_of_gap(order, {}, self.name, self.finest)
        return replace(self, order=order, scale=scale, low=-inf, high=inf)

    def in_formula(self, natural: Values) -> Values:
        """Return what a formula counts: numbers as they are, dates in days."""
        return natural if self.calendar is None else self.calendar.in_days(natural)

    def shown(self, value: float) -> str:
        """Return a value in natural units as people read it: a date as one."""
        return f"{value:g}" if self.calendar is None else self.calendar.text(value)

    @property
    def coarsest(self) -> float:
        """The largest step to which values are rounded; 0 where they are not, or not by themselves."""
        if self.heaps is not None:
            return 10.0 ** -(self.decimals or 0) if self.heaps.exponential else self.heaps.coarsest
        return 0.0 if self.decimals is None else 10.0**-self.decimals

    @property
    def finest(self) -> float:
        """The smallest step to which values are rounded; 0 where they are not, or not by themselves."""
        if self.heaps is not None and not self.heaps.exponential:
            return self.heaps.finest
        return 0.0 if self.decimals is None else 10.0**-self.decimals

    @property
    def has_levels(self) -> bool:
        """Whether its values are levels: of a category, or of a derived one."""
        return self.kind == CATEGORY or (self.kind == DERIVED and bool(self.levels))

    @property
    def as_released(self) -> "Column":
        """A derived column as who has a synthetic table sees it: a category, or a measurement."""
        if self.kind != DERIVED:
            return self
        kind = CATEGORY if self.levels else MEASUREMENT
        return replace(self, kind=kind, derived="", cut=(), scale=Scale(), deviation=0.0)

    def releases_like(self, other: "Column") -> bool:
        """Say whether the same draw goes out the same under both; levels that are not declared may be any."""
        if self.kind == other.kind == CATEGORY:
            return other.levels in ((), self.levels)
        return self.mechanism == other.mechanism

    @property
    def mechanism(self) -> "Column":
        """What is declared that changes the numbers that go out: no words, nothing about the prior."""
        calendar = None if self.calendar is None else replace(self.calendar, form="")
        order = self.order if self.order is None else replace(self.order, calendar=calendar)
        return replace(self, calendar=calendar, order=order, **_WORDS)

    @property
    def is_plain(self) -> bool:
        """Whether what the model draws is released as it is."""
        unlimited = (self.low, self.high) == (-inf, inf)
        return self.scale.is_plain and self.decimals is None and unlimited and self.order is None

    @property
    def is_limited(self) -> bool:
        """Whether a released value can tell less than the draw it came from: by rounding, or at a limit."""
        if self.order is not None:
            below = self.scale.domain[0] < 0 and not self.order.free  # a gap below 0 goes out as 0
            return self.decimals is not None or below
        low, high, closed = self.scale.domain
        inner = self.low > low or self.high < high
        return self.decimals is not None or inner or (closed and (low, high) != (-inf, inf))

    @property
    def on_scale(self) -> str:
        """The name with the scale that figures of the model's own numbers are on."""
        if self.order is not None:
            return f"{self.name} ({self.scale.name}, {self.order.in_words})"
        return self.name if self.scale.is_plain else f"{self.name} ({self.scale.name})"

    def allows(self, values: Float[np.ndarray, " n"]) -> np.ndarray:
        """Say which natural values are within the limits and the scale's domain."""
        low, high, closed = self.scale.domain if self.order is None else (-inf, inf, True)
        inside = (values >= low) & (values <= high) if closed else (values > low) & (values < high)
        return inside & (values >= self.low) & (values <= self.high)

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value that may be released: on the finest grid, within all limits."""
        return self._ends[0]

    @cached_property
    def _ends(self) -> tuple[tuple[float, float], ...]:
        """The lowest and the highest value on each grid."""
        if self.heaps is None:
            return (self._ends_of(None if self.decimals is None else 10.0**-self.decimals),)
        if self.heaps.exponential:  # its grid is none of the values themselves
            return (self._ends_of(None),) * len(self.heaps.grids)
        return tuple(self._ends_of(step) for step, _ in self.heaps.grids)

    def _ends_of(self, step: float | None) -> tuple[float, float]:
        """Return the lowest and the highest value on the grid of this step, within all limits."""
        if self.order is not None:  # which differ from row to row
            return -inf, inf
        low, high, closed = self.scale.domain
        lowest, highest = max(low, self.low), min(high, self.high)
        open_low, open_high = not closed and lowest == low, not closed and highest == high
        if step is None:
            return (
                float(np.nextafter(lowest, inf)) if open_low else lowest,
                float(np.nextafter(highest, -inf)) if open_high else highest,
            )
        if isfinite(lowest):
            lowest = _on_grid(lowest, step, 1, open_low)
        if isfinite(highest):
            highest = _on_grid(highest, step, -1, open_high)
        return lowest, highest

    def drawn_between(self, natural: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
        """Return between which values, on the scale of the model, the draws lay that went out as these values.

        A rounded value was within half a step; one at a limit may have been anywhere beyond it. Where the two are
        equal the draw itself went out.
        """
        (start, end, _), (lowest, highest), gap = self.scale.domain, self.at_limits(natural), np.isnan(natural)

        def on_scale(value: np.ndarray, inside: np.ndarray, beyond: float) -> np.ndarray:
            there = self.scale.to_model(np.where(inside, value, natural))
            return np.where(gap, np.nan, np.where(inside, there, beyond))

        low, high = self._around(natural)
        return on_scale(low, ~lowest & (low > start), -inf), on_scale(high, ~highest & (high < end), inf)

    def _around(self, natural: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
        """Return between which natural values those lay that were rounded to these."""
        if self.heaps is not None and self.decimals is not None:
            return self.heaps.around(natural, self.heaps.lies_on(natural, self.decimals), self.decimals)
        half = 0.0 if self.decimals is None else 0.5 * 10.0**-self.decimals
        return natural - half, natural + half

    def at_limits(self, natural: Float[np.ndarray, "..."]) -> tuple[np.ndarray, np.ndarray]:
        """Say which released values stand at the lower and which at the upper limit: their draws may be beyond."""
        # values that come back from the scale of the model are off by a few last digits
        slack = 0.25 * 10.0**-self.decimals if self.decimals is not None else 1e-12 * np.abs(natural)
        low, high = self.bounds
        if self.heaps is not None and self.decimals is not None:
            low, high = np.array(self._ends).T[:, self.heaps.lies_on(natural, self.decimals)]
        return natural <= low + slack, natural >= high - slack

    def released(self, drawn: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Return what goes out for what the model drew: in natural units, rounded, within the limits."""
        natural = self.scale.to_natural(drawn)
        if self.heaps is not None and self.decimals is not None:
            which = self.heaps.chosen(drawn)
            low, high = np.array(self._ends).T[:, which]
            return np.clip(self.heaps.rounded(natural, which, self.decimals), low, high)
        if self.decimals is not None:
            natural = np.round(natural, self.decimals) + 0.0  # no minus before a zero
        return np.clip(natural, *self.bounds)

    @property
    def in_words(self) -> str:
        """What is declared of the released values, in a few words; nothing where nothing is."""
        plain = self.scale.is_plain or self.order is not None
        parts = [self.unit, "" if plain else f"modelled on the scale {self.scale.name}"]
        if self.calendar is not None:
            parts.insert(0, f"a date, in {self.calendar.counts}")
        parts += [self.order.in_words] if self.order is not None else []
        if self.kind == DERIVED:
            groups = f", in groups from {', '.join(f'{value:g}' for value in self.cut)}" if self.cut else ""
            parts.append(f"computed as {self.derived}{groups}")
        low, high = self.low > -inf, self.high < inf
        if low or high:
            ends = self.shown(self.low), self.shown(self.high)
            parts.append(
                " to ".join(ends) if low and high else f"at least {ends[0]}" if low else f"at most {ends[1]}"
            )
        if self.heaps is not None:
            parts.append(self.heaps.in_words)
        elif self.decimals is not None and self.calendar is None:
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
        usual, entries = Column(self.name), {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name != "name" and value != getattr(usual, entry.name):
                entries[entry.name] = list(value) if isinstance(value, tuple) else value
        if not self.scale.is_plain:
            entries["scale"] = self.scale.name
            if self.scale.quantiles:
                entries["quantiles"] = [list(pair) for pair in self.scale.quantiles]
        if self.heaps is not None and self.decimals is not None:
            del entries["heaps"], entries["decimals"]
            entries |= self.heaps.entries(self.decimals)
        if self.order is not None:
            del entries["order"]
            entries |= self.order.entries()
            if self.order.two_sided:
                del entries["scale"]
        if self.calendar is not None:
            entries = _dated_entries(self, entries)
        if self.event is not None:
            entries["event"] = self.event.entries()
        if self.kind == DERIVED:
            del entries["kind"]
            if self.cut:
                entries["cut"] = {"of": entries.pop("derived"), "at": list(self.cut)}
        return entries


def _dated_entries(column: Column, found: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a date: limits and the like as dates."""
    calendar = column.calendar
    assert calendar is not None
    del found["calendar"], found["decimals"]
    found |= {key: calendar.text(found[key]) for key in ("low", "high", "centre") if key in found}
    found |= {"missing": list(map(calendar.text, column.missing))} if column.missing else {}
    return {"kind": DATE_KIND} | found | calendar.entries()


_OTHERWISE = ("name", "heaps", "order", "calendar")  # which a table file says in other words
_KEYS = (
    *(entry.name for entry in fields(Column) if entry.name not in _OTHERWISE),
    "above", "below", "between", "since", "sum", "step", "step_of", "quantiles", "origin", "precision", "form",
)  # fmt: skip


def column_from(name: str, given: Any) -> Column:
    """Read the entries of one column."""
    if not isinstance(given, Mapping):
        raise InputError("its entries must form a table")
    if unknown := [key for key in given if key not in _KEYS]:
        raise InputError(f"there is no entry {unknown[0]!r:.60}", f"known are {', '.join(_KEYS)}")
    if "sum" in given:
        return _derived_from(name, _as_formula(given))
    if "derived" in given or "cut" in given or given.get("kind") == DERIVED:
        return _derived_from(name, given)
    if (calendar := calendar_from(given)) is not None:
        given = _as_numbers(given, calendar)
    kind = given.get("kind", MEASUREMENT)
    if kind not in (MEASUREMENT, CATEGORY, LEFT_OUT):
        known = (
            f'known are "{MEASUREMENT}", "{DATE_KIND}", "{CATEGORY}" and "{LEFT_OUT}", and derived = "a formula"'
        )
        raise InputError(f"there is no kind {kind!r:.60}", known)
    low, high = _number("low", given.get("low", -inf)), _number("high", given.get("high", inf))
    if not low < high:
        ends = [f"{end:g}" if calendar is None else calendar.text(end) for end in (low, high)]
        raise InputError(f"low must be below high, got {ends[0]} and {ends[1]}")
    centre, spread = (
        None if (value := given.get(key)) is None else _number(key, value) for key in ("centre", "spread")
    )
    if (centre is None) != (spread is None) or (spread is not None and not 0 < spread < inf):
        raise InputError("centre and spread go together, the spread above 0", "give both or none")
    decimals, heaps = heaps_from(given)
    step = Column(name, decimals=decimals, heaps=heaps).finest
    order, scale, dated = order_from(given, calendar), given.get("scale", "as it is"), calendar is not None
    column = Column(
        name=name,
        kind=kind,
        # half a day, or whatever dates count, beyond both: the first and the last day are possible themselves
        scale=Scale.of(scale, low=low - 0.5 * dated, high=high + 0.5 * dated, quantiles=given.get("quantiles"))
        if order is None
        else _scale_of_gap(order, given, name, step),
        order=order,
        low=low,
        high=high,
        decimals=decimals,
        heaps=heaps,
        calendar=calendar,
        centre=centre,
        spread=spread,
        levels=_levels(given.get("levels", ())),
        **_said_of(given),
    )
    _check_kind(column)
    if column.bounds[0] >= column.bounds[1]:
        raise InputError("limits, scale and decimals leave no two values to release", "widen them")
    if any(lowest > highest for lowest, highest in column._ends):
        raise InputError("its limits leave no value on one of its grids", "widen them, or leave that step out")
    if centre is not None and not column.allows(np.array([centre])).all():
        raise InputError("its centre lies outside its limits or its scale")
    return column


def _as_numbers(given: Mapping[str, Any], calendar: Calendar) -> dict[str, Any]:
    """Return the entries of a date with its limits as the numbers that they count as, whole ones."""
    if wrong := [key for key in ("decimals", "step", "levels", "quantiles", "derived") if key in given]:
        raise InputError(f"a date has no {wrong[0]}", 'leave it out: precision = "month" says how far it is known')
    entries = {**given, "kind": MEASUREMENT, "decimals": 0}
    entries |= {key: calendar.number(entries[key], key) for key in ("low", "high", "centre") if key in entries}
    entries |= {key: calendar.length(entries[key]) for key in ("tolerance", "spread") if key in entries}
    if "missing" in entries:
        codes = entries["missing"] if isinstance(entries["missing"], list | tuple) else [entries["missing"]]
        entries["missing"] = [calendar.number(code, "missing") for code in codes]
    if isinstance(ends := entries.get("between"), list | tuple):
        entries["between"] = [_end(end, calendar) for end in ends]
    return entries


def _end(given: Any, calendar: Calendar) -> Any:
    """Return an end of an order: a date as the number that it counts as, the name of a column as it is."""
    try:
        return calendar.number(given, "between")
    except InputError:
        return given


def _scale_of_gap(order: Order, given: Mapping[str, Any], name: str, step: float) -> Scale:
    """Return the scale of the gap, or of the share, of an ordered column, or refuse what it cannot have."""
    if name in order.columns:
        raise InputError("it lies beyond itself", "name another column")
    known = ("centre", "spread", "step_of", "quantiles", "levels")
    if wrong := [key for key in known if given.get(key) is not None]:
        raise InputError(f"a column with an order has no {wrong[0]}", "leave it out")
    if given.get("kind", MEASUREMENT) != MEASUREMENT:
        raise InputError("only a measurement has an order", "leave it out")
    if order.two_sided:
        if "scale" in given:
            raise InputError("between two ends the scale is the logit of the share", "leave the scale out")
        return Scale.of("logit", low=0.0, high=1.0)
    if order.free and Scale.of(given.get("scale", "as it is")).is_plain:
        return Scale()
    if order.free:
        raise InputError(
            "what is counted since another date has no scale", "write above = … where it is never before"
        )
    # half a step more, so that equal values are possible where values are rounded
    usual = f"log(x + {0.5 * step!r})" if step else "log"
    scale = Scale.of(given.get("scale", usual))
    if not scale.name.startswith("log"):
        raise InputError(f"a gap has no scale {scale.name!r}", 'write "log", or "log(x + 1)" where it may be 0')
    return scale


def _said_of(given: Mapping[str, Any], *further: tuple[str, bool]) -> dict[str, Any]:
    """Read what can be said of a column of any kind: words, codes of missing values, how it is judged.

    `further`: what else is true or false, and what it is if it is not said.
    """
    tolerance = None if (value := given.get("tolerance")) is None else _number("tolerance", value)
    if tolerance is not None and not 0 < tolerance < inf:
        raise InputError(f"a tolerance is a number above 0, got {tolerance:g}")
    words = {key: given.get(key, "") for key in ("label", "unit", "why")}
    if not all(isinstance(word, str) for word in words.values()):
        raise InputError("label, unit and why are texts")
    judged = {
        key: given.get(key, usual)
        for key, usual in (("secret", True), ("known", False), ("gaps", False), *further)
    }
    if wrong := [key for key, value in judged.items() if not isinstance(value, bool)]:
        raise InputError(
            f"{wrong[0]} is true or false, got {judged[wrong[0]]!r:.60}", f"write {wrong[0]} = true, or false"
        )
    codes = given.get("missing", [])
    codes = codes if isinstance(codes, list | tuple) else [codes]
    missing = tuple(_number("missing", code) for code in codes)
    event = EventOf.of_entries(given.get("event"))
    return {"tolerance": tolerance, "missing": missing, "event": event, **words, **judged}


_OF_DERIVED = (
    "kind", "derived", "cut", "replaces", "levels", "decimals", "step", "step_of", "label", "unit", "why",
    "tolerance", "missing", "secret", "event", "deviation",
)  # fmt: skip
_OF_DEVIATION = ("scale", "low", "high")  # which only what deviates from its formula has of its own


def _derived_from(name: str, given: Mapping[str, Any]) -> Column:
    """Read a column that is computed from others: a number, a category by a comparison, or groups."""
    own = _OF_DERIVED + (_OF_DEVIATION if given.get("deviation") else ())
    if not_here := [key for key in given if key not in own]:
        raise InputError(
            f"a derived column has no entry {not_here[0]!r}",
            "leave it out: scale and limits are those of the columns that it is computed from",
        )
    if given.get("kind", DERIVED) != DERIVED or ("derived" in given) == ("cut" in given):
        raise InputError("a derived column has one of derived and cut, and no other kind", "leave one out")
    cut, formula = _cut_from(given["cut"]) if "cut" in given else ((), Formula.of(given["derived"]))
    if name in formula.columns:
        raise InputError("it is computed from itself", "name other columns")
    if not formula.columns:
        raise InputError("its formula names no column", "name those that it is computed from")
    levels = _levels(given.get("levels", ()))
    if formula.compares and cut:
        raise InputError("cut points are of a number, and its formula compares", "leave the comparison out")
    if formula.compares or cut:
        levels = levels or _groups(cut)
        if len(levels) != len(_groups(cut)):
            raise InputError(
                f"its formula makes {len(_groups(cut))} groups, and {counted(len(levels), 'level')} are declared",
                "name as many, that of false, or of the lowest values, first",
            )
        numbers = ("decimals", "step", "step_of", "tolerance", "event", "deviation")
        if any(given.get(key) is not None for key in numbers):
            raise InputError("levels have no decimals, no tolerance, no deviation and no event", "leave them out")
    decimals, heaps = heaps_from(given)
    if not (formula.compares or cut) and levels:
        raise InputError("its formula gives a number, which has no levels", 'compare ("nodes > 4"), or cut it')
    low, high = _number("low", given.get("low", -inf)), _number("high", given.get("high", inf))
    return Column(
        name,
        DERIVED,
        scale=Scale.of(given.get("scale", "as it is"), low=low, high=high),
        low=low,
        high=high,
        deviation=deviation_from(given.get("deviation", 0.0)),
        decimals=decimals,
        heaps=heaps,
        levels=levels,
        derived=formula.text,
        cut=cut,
        **_said_of(given, ("replaces", False)),
    )


def deviation_from(given: Any) -> float:
    """Read how far values lie from what a formula, or a line, says: a standard deviation, 0 for not at all."""
    if not 0 <= (size := _number("deviation", given)) < inf:
        raise InputError(f"a deviation is a number from 0, got {size:g}", "write deviation = 2.5, say")
    return size


def _as_formula(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a total as those of a derived column: a sum of its parts."""
    parts = given["sum"]
    if not isinstance(parts, list | tuple) or len(parts) < 2 or not all(isinstance(part, str) for part in parts):
        raise InputError("sum names the parts of a total", 'write sum = ["kappa", "lambda"]')
    if "derived" in given or "cut" in given:
        raise InputError("a total is the sum of its parts, and no other formula", "leave one out")
    text = " + ".join(quoted(part) for part in parts)
    return {**{key: value for key, value in given.items() if key != "sum"}, "derived": text}


def _cut_from(given: Any) -> tuple[tuple[float, ...], Formula]:
    """Read { of = "a + b", at = [1, 2] }: at least one value, rising."""
    example = 'write cut = { of = "kappa + lambda", at = [10, 20] }'
    if not isinstance(given, Mapping) or set(given) != {"of", "at"} or not isinstance(given["at"], list | tuple):
        raise InputError("cut says of what, and at which values", example)
    at = tuple(_number("at", value) for value in given["at"])
    if not at or not all(map(isfinite, at)) or any(b <= a for a, b in pairwise(at)):
        raise InputError("the values at which groups begin must rise", example)
    return at, Formula.of(given["of"])


def _groups(cut: Sequence[float]) -> tuple[str, ...]:
    """Name the groups that begin at these values; without any, those of a comparison."""
    if not cut:
        return ("false", "true")
    between = [f"{low:g} to below {high:g}" for low, high in pairwise(cut)]
    return (f"below {cut[0]:g}", *between, f"{cut[-1]:g} or more")


def _check_kind(column: Column) -> None:
    """Refuse levels of a measurement, and what only a measurement can have of a category."""
    if column.kind != CATEGORY:
        if column.levels and column.kind == MEASUREMENT:
            raise InputError("levels go with a category", f'declare kind = "{CATEGORY}", or no levels')
        return
    if column != column.as_category(column.levels):
        raise InputError(
            "a category has no scale, limits, decimals, centre, spread, tolerance or event", "leave them out"
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


def _on_grid(limit: float, step: float, inward: int, is_open: bool) -> float:
    """Return the first multiple of a step at the limit or inward of it; beyond it where it is open."""
    place = round(limit / step)
    while True:
        rounded = round(place * step, MOST_DECIMALS)
        if inward * (rounded - limit) > 0 or (rounded == limit and not is_open):
            return rounded
        place += inward


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(f"{name} must be a number, got {value!r:.60}")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{name} is larger than any number here", "write a smaller one") from error
