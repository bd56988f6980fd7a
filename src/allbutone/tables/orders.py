"""Columns that lie above, below or between others of their row: the gap, or the share, is what is modelled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from allbutone.support.errors import InputError
from allbutone.tables.dates import Calendar
from allbutone.tables.formula import in_order
from allbutone.tables.heaps import is_finite

if TYPE_CHECKING:
    from allbutone.tables.column import Column

Values = Float[np.ndarray, "*rows"]
End = str | float  # a column of the row, or a number


@dataclass(frozen=True)
class Order:
    """Between which ends a column lies: other columns of the row, or numbers; None where there is no end.

    free: whether it is only counted from its lower end, as a date is from another, and may lie on either side.
    calendar: of dates, how these count.
    """

    low: End | None = None
    high: End | None = None
    free: bool = False
    calendar: Calendar | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns at its ends."""
        return tuple(end for end in (self.low, self.high) if isinstance(end, str))

    @property
    def two_sided(self) -> bool:
        """Whether there are two ends."""
        return self.low is not None and self.high is not None

    @property
    def in_words(self) -> str:
        """The order in a few words."""
        low, high = self._ends
        if self.two_sided:
            return f"between {low} and {high}"
        return f"{'since' if self.free else 'above'} {low}" if high is None else f"below {high}"

    @property
    def _ends(self) -> list[Any]:
        """Both ends as a table file has them: a date as one."""
        of = self.calendar
        return [of.text(end) if of and isinstance(end, float) else end for end in (self.low, self.high)]

    def entries(self) -> dict[str, Any]:
        """Return what a table file says of it."""
        low, high = self._ends
        if self.two_sided:
            return {"between": [low, high]}
        return {"since" if self.free else "above": low} if high is None else {"below": high}


def order_from(given: Mapping[str, Any], calendar: Calendar | None = None) -> Order | None:
    """Read above, below, between or, of a date, since; None where none is given."""
    asked = [key for key in ("above", "below", "between", "since") if key in given]
    if not asked:
        return None
    if len(asked) > 1:
        raise InputError(f"{asked[0]} and {asked[1]} are both given", 'write between = ["low", "high"]')
    value = given[asked[0]]
    if asked[0] != "between":
        if not isinstance(value, str):
            limit = "high" if asked[0] == "below" else "low"
            what = "name a date of the row" if asked[0] == "since" else f"a number is its {limit}"
            raise InputError(f"{asked[0]} names a column, got {value!r:.60}", what)
        if asked[0] == "below":
            return Order(high=value, calendar=calendar)
        return Order(low=value, free=asked[0] == "since", calendar=calendar)
    known = isinstance(value, list | tuple) and len(value) == 2
    if not known or not all(isinstance(end, str) or is_finite(end) for end in value):
        raise InputError(
            "between names two ends", 'write between = ["admission", "discharge"], or a number for one'
        )
    low, high = (end if isinstance(end, str) else float(end) for end in value)
    if not isinstance(low, str) and not isinstance(high, str):
        raise InputError("both ends are numbers", "declare low and high")
    if low == high:
        raise InputError("both ends are the same", "name two")
    return Order(low, high, calendar=calendar)


@dataclass(frozen=True)
class Ordered:
    """An ordered column within the rows of a table: its place, those of its ends, and the step of its grid.

    One end: g = x − low, or high − x, on the column's scale. Two: the logit of (x − low + w/2)/(high − low + w),
    w the step: so that equal values are possible where values are rounded.
    """

    column: "Column"
    place: int
    low: int | float | None
    high: int | float | None

    @property
    def step(self) -> float:
        """The finest step to which values are rounded; 0 where they are not."""
        return self.column.finest

    def ends(self, natural: Float[np.ndarray, "*rows p"]) -> tuple[Values, Values]:
        """Return both ends in each row, infinite where there is none."""
        parts = []
        for end, none in ((self.low, -inf), (self.high, inf)):
            if isinstance(end, int):
                parts.append(natural[..., end])
            else:
                parts.append(np.full(natural.shape[:-1], none if end is None else end))
        return parts[0], parts[1]

    @property
    def _ties(self) -> bool:
        """Whether a value may equal its end: where the scale of the gap goes below 0, or the share's does."""
        return self.step > 0 if self._two_sided else self.column.scale.domain[0] < 0

    @property
    def _free(self) -> bool:
        return self.column.order is not None and self.column.order.free

    @property
    def _two_sided(self) -> bool:
        return self.low is not None and self.high is not None

    def keeps(self, natural: Float[np.ndarray, "*rows p"]) -> Bool[np.ndarray, "*rows"]:
        """Say which rows keep the order; rows that lack a value do."""
        (low, high), value = self.ends(natural), natural[..., self.place]
        if self._free:
            return np.ones(value.shape, dtype=bool)
        kept = (value >= low) & (value <= high) if self._ties else (value > low) & (value < high)
        return kept | np.isnan(value) | np.isnan(low) | np.isnan(high)

    def to_model(self, value: Values, natural: Float[np.ndarray, "*rows p"]) -> Values:
        """Bring values of the column to the scale of the model, given the other values of their rows.

        What lies beyond the ends is infinite.
        """
        low, high = self.ends(natural)
        if self._two_sided:
            half = self.step / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                below, above = np.maximum(value - low + half, 0.0), np.maximum(high - value + half, 0.0)
                return np.log(below) - np.log(above)
        gap = value - low if self.high is None else high - value
        start = self.column.scale.domain[0]
        inner = self.column.scale.to_model(np.where(gap > start, gap, np.nan if start == -inf else start + 1.0))
        return np.where(np.isnan(gap), np.nan, np.where(gap > start, inner, -inf))

    def to_natural(self, value: Values, natural: Float[np.ndarray, "*rows p"]) -> Values:
        """Bring values of the model to those of the column, given the ends in the same rows; the inverse."""
        low, high = self.ends(natural)
        if self._two_sided:
            with np.errstate(over="ignore"):
                return low - self.step / 2 + (high - low + self.step) / (1 + np.exp(-value))
        gap = self.column.scale.to_natural(value)
        return low + gap if self.high is None else high - gap

    def _grid(self, natural: Float[np.ndarray, "*rows p"], step: Values) -> tuple[Values, Values]:
        """Return the first and the last value that a row allows: on its grid, or next to an end that is open."""
        low, high = (
            np.full_like(end, none) if self._free else end
            for end, none in zip(self.ends(natural), (-inf, inf), strict=True)
        )
        digits = self.column.decimals
        if not self.step or digits is None:
            return (low, high) if self._ties else (np.nextafter(low, inf), np.nextafter(high, -inf))
        slack = 1e-6 * step
        first, last = np.ceil((low - slack) / step) * step, np.floor((high + slack) / step) * step
        if not self._ties:
            first = np.where(first <= low + slack, first + step, first)
            last = np.where(last >= high - slack, last - step, last)
        first, last = np.round(first, digits), np.round(last, digits)
        # where no value of the grid lies between the ends, the lower end itself is kept
        crossed = first > last
        return np.where(crossed, low, first), np.where(crossed, low, last)

    def _steps(self, natural: Float[np.ndarray, "*rows p"], which: Any) -> Values:
        """Return the step of each row's grid by number; the finest where it has no value between both ends."""
        heaps = self.column.heaps
        step = np.full(natural.shape[:-1], self.step) if heaps is None else heaps.steps[which]
        if heaps is None or not self._two_sided:
            return step
        first, _ = self._grid(natural, step)  # the lower end itself, where there is none
        return np.where(np.abs(first - np.round(first / step) * step) <= 1e-6 * step, step, self.step)

    def released(self, drawn: Values, natural: Float[np.ndarray, "*rows p"]) -> Values:
        """Return what goes out, given the ends as they go out: rounded, and moved to what keeps the order."""
        value, heaps = self.to_natural(drawn, natural), self.column.heaps
        step = self._steps(natural, None if heaps is None else heaps.chosen(drawn))
        if self.column.decimals is not None:
            rounded = value if heaps is None else np.round(value / step) * step
            value = np.round(rounded, self.column.decimals) + 0.0
        first, last = self._grid(natural, step)
        return np.where(np.isnan(value), np.nan, np.clip(value, first, np.maximum(first, last)))

    def drawn_between(self, natural: Float[np.ndarray, "n p"]) -> tuple[Values, Values]:
        """Return between which values on the scale of the model the draws lay that went out in these rows."""
        value, heaps, digits = natural[..., self.place], self.column.heaps, self.column.decimals
        step = self._steps(natural, None if heaps is None else heaps.lies_on(value, digits or 0))
        first, last = self._grid(natural, step)
        near = step / 4 + 1e-12 * np.abs(value)
        low, high = (self.to_model(value + side * step / 2, natural) for side in (-1, 1))
        nearest, farthest = value <= first + near, (value >= last - near) & self._two_sided
        if self.low is None:  # the gap falls as the value rises
            low, high, nearest = high, low, value >= last - near
        gap, rounded = np.isnan(value), self.step > 0
        moved = rounded or self._ties  # draws beyond an end that a value may equal go out as that end
        return (
            np.where(gap, np.nan, np.where(nearest & moved, -inf, low)),
            np.where(gap, np.nan, np.where(farthest & rounded, inf, high)),
        )


def ordered_columns(columns: Sequence["Column"]) -> tuple[Ordered, ...]:
    """Return the ordered ones of some measurements, each after its ends; whose ends are not here is free."""
    places = {column.name: place for place, column in enumerate(columns)}
    needed = {
        column.name: column.order.columns
        for column in columns
        if column.order is not None and all(name in places for name in column.order.columns)
    }
    ordered = []
    for name in in_order(needed):
        column = columns[places[name]]
        assert column.order is not None
        ends = (places[end] if isinstance(end, str) else end for end in (column.order.low, column.order.high))
        ordered.append(Ordered(column, places[name], *ends))
    return tuple(ordered)


def circle_of(columns: Sequence["Column"]) -> list[str]:
    """Say which columns lie above or below one another in a circle, where some do."""
    try:
        in_order({each.name: each.order.columns for each in columns if each.order is not None})
    except InputError as error:
        return [str(error)]
    return []


def order_faults(columns: Sequence["Column"]) -> list[tuple[str, str]]:
    """Say which declared orders contradict each other, or cannot be kept in every row, by column."""
    known = {column.name: column for column in columns}
    if circle := circle_of(columns):
        first = next(column.name for column in columns if column.order is not None)
        return [(first, fault) for fault in circle]
    return [(column.name, fault) for column in columns for fault in _faults(column, known)]


def _faults(column: "Column", known: Mapping[str, "Column"]) -> list[str]:
    order, faults = column.order, list[str]()
    if order is None:
        return faults
    passed = (column.low > -inf and column.low > lowest_of(column, known)) or (
        column.high < inf and column.high < highest_of(column, known)
    )
    if passed:
        faults.append(
            f"it lies {order.in_words}, which does not keep it within its limits: write the limit as an end "
            '(between = ["diastolic", 300]), or give it to the column at its end'
        )
    unknown = [name for name in order.columns if name not in known or not known[name].known]
    if column.known and unknown:
        faults.append(
            f"it lies {order.in_words} and is known: declare known = true for {unknown[0]!r}, too, or for none"
        )
    for name in order.columns:
        end = known.get(name)
        if end is not None and end.kind != "measurement":
            faults.append(f"it lies {order.in_words}, and {name!r} is no measurement")
        elif end is not None and not _count_alike(column, end):
            faults.append(
                f'it lies {order.in_words}, and {name!r} does not count alike: give both kind = "date" with the '
                "same precision and origin, or neither"
            )
        elif (
            column.decimals is not None
            and end is not None
            and (end.decimals is None or end.decimals > column.decimals)
        ):
            faults.append(
                f"it is rounded more coarsely than {name!r} at its end: give it at least as many decimals, or "
                "that one fewer"
            )
    if order.two_sided and not _never_cross(order.low, order.high, known):
        faults.append(
            f"{order.low!r} and {order.high!r}, between which it lies, may cross in synthetic rows: declare one "
            "above the other, or a limit of the column that does not pass the number"
        )
    elif order.two_sided and column.decimals is None and _may_tie(order, known):
        faults.append(
            f"{order.low!r} and {order.high!r}, between which it lies, may be equal in a synthetic row: declare "
            "its decimals, so that it may equal them"
        )
    return faults


def _count_alike(one: "Column", other: "Column") -> bool:
    """Say whether two columns are numbers, or dates that count in one unit from one origin."""
    mine, theirs = (None if each.calendar is None else replace(each.calendar, form="") for each in (one, other))
    return mine == theirs


def _may_tie(order: Order, known: Mapping[str, "Column"]) -> bool:
    """Say whether both ends may be equal in a synthetic row: rounded, at a limit, or by the scale of a gap."""
    ends = [known[name] for name in order.columns if name in known]
    if any(end.decimals is not None or (end.order is not None and end.scale.domain[0] < 0) for end in ends):
        return True
    if not isinstance(order.low, str):
        return any(lowest_of(end, known) <= float(order.low or 0.0) for end in ends)
    return not isinstance(order.high, str) and any(
        highest_of(end, known) >= float(order.high or 0.0) for end in ends
    )


def _never_cross(low: End | None, high: End | None, known: Mapping[str, "Column"]) -> bool:
    """Say whether what is declared keeps one end above the other in every row."""
    if isinstance(low, str) and isinstance(high, str):
        return _reaches(high, low, known, "low") or _reaches(low, high, known, "high")
    if isinstance(low, str):
        return low in known and highest_of(known[low], known) <= float(high or 0.0)
    return isinstance(high, str) and high in known and lowest_of(known[high], known) >= float(low or 0.0)


def _reaches(name: str, other: str, known: Mapping[str, "Column"], side: str) -> bool:
    """Say whether a chain of orders leads from one column down (low) or up (high) to another."""
    order = known[name].order if name in known else None
    end = getattr(order, side) if order is not None else None
    known_order = isinstance(end, str) and order is not None and not order.free
    return known_order and (end == other or _reaches(str(end), other, known, side))


def lowest_of(column: "Column", known: Mapping[str, "Column"]) -> float:
    """Return the lowest value that a column can have by its limits, its scale, or what it lies above."""
    if column.order is not None and column.order.free:
        return -inf
    end = column.order.low if column.order is not None else None
    if isinstance(end, str):
        return lowest_of(known[end], known) if end in known else -inf
    return end if end is not None else column.bounds[0]


def highest_of(column: "Column", known: Mapping[str, "Column"]) -> float:
    """Return the highest value that a column can have, likewise."""
    end = column.order.high if column.order is not None else None
    if isinstance(end, str):
        return highest_of(known[end], known) if end in known else inf
    return end if end is not None else column.bounds[1]
