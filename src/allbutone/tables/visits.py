"""Visits as a table file declares them: which rows are one person, and how columns at visits become columns.

A person's rows become one record, in which what does not change stands once and every other column has a value at
each visit: crp at month 6 is the column crp@6. The map is public and can be undone, so all that follows is as
exact as for a table that had one row a person from the start.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from allbutone.support.errors import InputError
from allbutone.support.text import listed
from allbutone.tables.column import (
    CATEGORY,
    DERIVED,
    LEFT_OUT,
    MEASUREMENT,
    Column,
    Scale,
    deviation_from,
    level_name,
)
from allbutone.tables.formula import quoted

Time = float | str
KEYS = ("person", "visit", "visits")  # of a table file, beside its columns
OF_COLUMN = (
    "once",
    "visits",
    "course",
    "after",
    "deviation",
)  # of one column; what is computed has a deviation of its own
EXAMPLE = 'write person = "id", visit = "month" and visits = [0, 6, 12] above the columns'
SIGN = "@"
COURSE = (
    'write course = "line" and deviation = 2.5 (how far values lie from it, from public knowledge) for columns of '
    "many visits in the table file: then the first and the last visit count"
)


@dataclass(frozen=True)
class Course:
    """How a column goes from visit to visit: along straight lines between some visits, and beside them.

    At those visits it is modelled. What goes out at the others is on the line between the two around it, on the
    column's scale, and as far beside it as the public standard deviation says: a function of what goes out at
    the modelled visits, so that the attack on these is the attack on all of it.
    """

    column: str
    through: tuple[Time, ...]
    deviation: float

    @classmethod
    def of_entries(cls, name: str, given: Mapping[str, Any], times: tuple[Time, ...]) -> "Course":
        """Read course = "line", or the visits between which the lines are, and the deviation."""
        if any(isinstance(time, str) for time in times):
            raise InputError(f"{name!r:.60}: lines need visits that are numbers", "name visits by their times")
        if "course" not in given or "deviation" not in given:
            raise InputError(f"{name!r:.60}: course and deviation go together", COURSE)
        through = times[:: len(times) - 1] if given["course"] == "line" else times_from(given["course"])
        if beyond := [time for time in through if time not in times]:
            raise InputError(f"{name!r:.60}: its course goes through {beyond[0]!r}, which is none of its visits")
        if not {times[0], times[-1]} <= set(through) or sorted(map(float, times)) != list(times):
            raise InputError(
                f"{name!r:.60}: a course goes from the first to the last visit, by the time",
                f'write course = "line", or course = [{times[0]}, {times[-1]}]',
            )
        return cls(name, tuple(sorted(through, key=float)), deviation_from(given["deviation"]))

    def formula(self, scale: Scale, ends: Mapping[Time, str], time: Time) -> str:
        """Return what lies on the line at a time: the mean of both ends on the scale, by how far it is to each."""
        place = next(place for place, each in enumerate(self.through) if float(each) > float(time))
        before, after = self.through[place - 1], self.through[place]
        share = (float(time) - float(before)) / (float(after) - float(before))
        shares, names = (f"{1 - share:.15g}", f"{share:.15g}"), (quoted(ends[before]), quoted(ends[after]))
        if scale.is_plain:
            return " + ".join(f"{part} * {name}" for part, name in zip(shares, names, strict=True))
        if scale.name == "sqrt":
            inner = " + ".join(f"{part} * {name} ** 0.5" for part, name in zip(shares, names, strict=True))
            return f"({inner}) ** 2"
        shift = f" + {scale.shift:g}" if scale.shift else ""
        inner = " + ".join(f"{part} * log({name}{shift})" for part, name in zip(shares, names, strict=True))
        return f"exp({inner})" + shift.replace("+", "-")

    def fault(self, column: Column) -> str:
        """Say why a column cannot go along a line, if it cannot."""
        if column.kind != MEASUREMENT or column.calendar is not None:
            return "only a measurement has a course"
        if column.order is not None or column.known or column.event is not None:
            return "what has a course has no order, is not known, and is no time to an event"
        if column.scale.name in ("logit", "quantiles"):
            return f"a course has no scale {column.scale.name!r}: write log, sqrt or none"
        return ""


@dataclass(frozen=True)
class Visits:
    """Which column names people, which the visit, and the visits that there are, in order: public knowledge.

    once: columns that do not change within a person. at: columns that are not measured at every visit, and when
    they are. courses: columns that go along lines between some of their visits. after: columns that at every other
    visit lie above what they are at one: the date of a visit, above that of the first.
    """

    person: str
    visit: str
    times: tuple[Time, ...]
    once: tuple[str, ...] = ()
    at: tuple[tuple[str, tuple[Time, ...]], ...] = ()
    courses: tuple[Course, ...] = ()
    after: tuple[tuple[str, Time], ...] = ()

    def __post_init__(self) -> None:
        """Refuse visits that are not at least two different numbers, or texts."""
        if self.person == self.visit:
            raise InputError(f"{self.person!r} cannot name both people and visits", EXAMPLE)
        object.__setattr__(self, "times", times_from(self.times))
        if len(self.times) < 2:
            raise InputError("there are at least two visits", EXAMPLE)
        for name, times in self.at:
            if beyond := [time for time in times if time not in self.times]:
                raise InputError(
                    f"{name!r:.60}: {beyond[0]!r} is none of the visits", f"these are {self.in_words}"
                )

    @classmethod
    def of_entries(cls, entries: Mapping[str, Any], columns: Mapping[str, Any]) -> "Visits | None":
        """Read the entries of a table file, and what it says of columns; None where it says nothing of visits."""
        said = {str(name): each for name, each in columns.items() if isinstance(each, Mapping)}
        if not any(key in entries for key in KEYS):
            if named := [name for name, each in said.items() if len(without_visits(each)) < len(each)]:
                raise InputError(f"{named[0]!r:.60} tells of visits, and no column names people", EXAMPLE)
            return None
        if not all(isinstance(entries.get(key, "x"), str) for key in KEYS[:2]):
            raise InputError("person and visit name two columns", EXAMPLE)
        if missing := [key for key in KEYS if key not in entries]:
            raise InputError(f"visits are told by {', '.join(KEYS)}, and {missing[0]} is not given", EXAMPLE)
        once = [name for name, each in said.items() if each.get("once", False)]
        if wrong := [name for name, each in said.items() if not isinstance(each.get("once", False), bool)]:
            raise InputError(f"{wrong[0]!r:.60}: once is true or false", "write once = true")
        at = tuple((name, times_from(each["visits"])) for name, each in said.items() if "visits" in each)
        if both := [name for name, _ in at if name in once]:
            raise InputError(f"{both[0]!r:.60}: what stands once has no visits", "leave one of the two out")
        visits = cls(entries["person"], entries["visit"], times_from(entries["visits"]), tuple(once), at)
        lines = {
            name: each for name, each in said.items()
            if "course" in each or ("deviation" in each and "deviation" not in without_visits(each))
        }  # fmt: skip
        if both := [name for name in lines if not visits.varies(name)]:
            raise InputError(f"{both[0]!r:.60}: what stands once, or at one visit, has no course", "leave it out")
        courses = tuple(Course.of_entries(name, each, visits.times_of(name)) for name, each in lines.items())
        after = tuple((name, visits._start(name, each["after"])) for name, each in said.items() if "after" in each)
        return replace(visits, courses=courses, after=after)

    def _start(self, name: str, given: Any) -> Time:
        """Read the visit above whose value a column lies at all others."""
        time, there = times_from([given])[0], self.times_of(name) if self.varies(name) else ()
        if time not in there or len(there) < 2:
            raise InputError(
                f"{name!r:.60} lies after {given!r:.60}, which is none of its visits",
                f"write after = {self.times[0]!r} of a column of several visits",
            )
        return time

    def entries(self) -> dict[str, Any]:
        """Return what a table file says besides its columns."""
        return {"person": self.person, "visit": self.visit, "visits": list(self.times)}

    def of_column(self, name: str) -> dict[str, Any]:
        """Return what a table file says of one column."""
        if name in self.once:
            return {"once": True}
        found: dict[str, Any] = {"visits": list(times)} if (times := dict(self.at).get(name)) else {}
        if line := self.course_of(name):
            whole = line.through == self.times_of(name)[:: len(self.times_of(name)) - 1]
            found |= {"course": "line" if whole else list(line.through), "deviation": line.deviation}
        if (start := self.start_of(name)) is not None:
            found["after"] = start
        return found

    def start_of(self, name: str) -> Time | None:
        """Return the visit above whose value a column of the long table lies at all others, if it does."""
        return dict(self.after).get(name)

    def course_of(self, name: str) -> Course | None:
        """Return along which lines a column of the long table goes, if it does."""
        return next((each for each in self.courses if each.column == name), None)

    @property
    def may_be_lines(self) -> bool:
        """Whether there are visits between the first and the last, and columns may go along lines."""
        return len(self.times) > 2 and not any(isinstance(time, str) for time in self.times)

    @property
    def in_words(self) -> str:
        """The visits, by name."""
        return listed([level_name(time) for time in self.times], 12)

    def times_of(self, column: str) -> tuple[Time, ...]:
        """Return the visits at which a column is measured."""
        return dict(self.at).get(column, self.times)

    def varies(self, column: str) -> bool:
        """Say whether a column of the long table has a value at each visit."""
        return column not in (self.person, self.visit, *self.once) and self.parts(column)[1] is None

    def name(self, column: str, time: Time) -> str:
        """Return the name of a column at a visit."""
        return f"{column}{SIGN}{level_name(time)}"

    def names(self, column: str) -> tuple[str, ...]:
        """Return the names that a column of the long table has in a record: one a visit, or its own."""
        return (
            tuple(self.name(column, time) for time in self.times_of(column)) if self.varies(column) else (column,)
        )

    def parts(self, name: str) -> tuple[str, Time | None]:
        """Return the column of the long table and the visit that a name of a record stands for; None: of all."""
        column, _, label = name.rpartition(SIGN)
        time = next((time for time in self.times if level_name(time) == label), None) if column else None
        return (name, None) if time is None else (column, time)

    def told(self, name: str) -> str:
        """Return a column of a record in words: crp at month 6."""
        column, time = self.parts(name)
        return name if time is None else f"{column} at {self.visit} {level_name(time)}"

    def layout(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns of the long table that a record with these columns goes out as."""
        return (self.person, self.visit, *dict.fromkeys(self.parts(name)[0] for name in names))

    def adding(self, derived: Sequence[Column]) -> "Visits":
        """Return the visits with those of derived columns, which come in an order in which all can be computed.

        What is computed from values that stand once stands once, and else it is there at the visits that all
        have that it needs.
        """
        visits = self
        for column in derived:
            needed = [name for name in column.formula.columns if visits.varies(name)]
            shared = set(visits.times).intersection(*(visits.times_of(name) for name in needed))
            times = tuple(time for time in visits.times_of(column.name) if time in shared)
            if column.name in visits.once and needed:
                raise InputError(
                    f"{column.name!r:.60} stands once, and is computed from {needed[0]!r:.60}, which does not",
                    f"name a visit of it, `{self.name(needed[0], self.times[0])}`",
                )
            if not times:
                raise InputError(f"{column.name!r:.60} is computed from what no visit has together")
            if not needed and self.parts(column.name)[1] is None:
                visits = replace(visits, once=tuple(dict.fromkeys((*visits.once, column.name))))
            elif times != visits.times_of(column.name):
                others = (pair for pair in visits.at if pair[0] != column.name)
                visits = replace(visits, at=(*others, (column.name, times)))
        return visits

    def widened(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return what is declared of each column at each of its visits; what is said of one visit counts there."""
        own, wide = {column.name for column in columns}, list[Column]()
        for column in columns:
            if column.kind == LEFT_OUT or not self.varies(column.name):
                wide.append(column)
            else:
                line = self.course_of(column.name)
                times = line.through if line else self.times_of(column.name)
                there = ((time, self.name(column.name, time)) for time in times)
                wide += [self._at(column, time) for time, name in there if name not in own]
        return tuple(wide)

    def on_lines(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return columns at the visits between those that their courses go through: computed from these."""
        own, lines = {column.name: column for column in columns}, list[Column]()
        for line in self.courses:
            column = own.get(line.column, Column(line.column))
            ends = {time: self.name(line.column, time) for time in line.through}
            for time in self.times_of(line.column):
                if time in ends or self.name(line.column, time) in own:
                    continue
                there = replace(
                    column,
                    kind=DERIVED,
                    derived=line.formula(column.scale, ends, time),
                    replaces=True,
                    deviation=line.deviation,
                    gaps=False,
                    centre=None,
                    spread=None,
                )
                there = there if line.deviation else replace(there, scale=Scale(), low=-inf, high=inf)
                lines.append(self._at(there, time))
        return tuple(lines)

    def at_visit(self, name: str, declared: Mapping[str, Column]) -> Column:
        """Return what is declared of a column of a record; refuse one at no visit, or on a line."""
        column, time = self.parts(name)
        if time is None and SIGN in name and name.rpartition(SIGN)[0] in declared:
            raise InputError(
                f"{name!r:.60} is at none of the visits",
                f"these are {self.in_words}: write {self.name('x', self.times[0])}",
            )
        line = self.course_of(column)
        if time is not None and line is not None and time not in line.through:
            raise InputError(f"{name!r:.60} lies on a line between other visits", f"name {column!r:.60}, for all")
        before = declared.get(column, Column(column))
        return before if time is None else self._at(before, time)

    def _at(self, column: Column, time: Time) -> Column:
        """Return a column at one visit: what it lies beside or is computed from is that of the same visit."""

        def now(name: Any) -> Any:
            return self.name(name, time) if isinstance(name, str) and name and self.varies(name) else name

        label = f"{column.label}, {self.visit} {level_name(time)}" if column.label else ""
        start = self.start_of(column.name)
        order = column.order
        order = order if order is None else replace(order, low=now(order.low), high=now(order.high))
        if start is not None and time != start:
            column = column.lying_above(self.name(column.name, start))
            order = column.order
        event = column.event
        event = event if event is None else replace(event, of=now(event.of), by=now(event.by))
        formula = column.derived
        if column.kind == DERIVED:
            formula = column.formula.renamed({name: now(name) for name in column.formula.columns})
        name = self.name(column.name, time)
        return replace(column, name=name, label=label, order=order, event=event, derived=formula)

    def faults(self, columns: Sequence[Column], derived: Sequence[Column]) -> list[str]:
        """Say which columns lie beside one, or are computed from one, that is not there at the same visits."""
        faults = []
        try:
            self.adding(derived)
        except InputError as error:
            faults.append(str(error))
        known = {column.name: column for column in columns}
        told = ((line.column, line.fault(known.get(line.column, Column(line.column)))) for line in self.courses)
        faults += [f"{name!r:.60}: {fault}" for name, fault in told if fault]
        faults += [
            f"{name!r:.60}: {fault}" for name, _ in self.after if (fault := self._no_start(known.get(name)))
        ]
        for column in columns:
            for end in column.order.columns if column.order is not None else ():
                if self.course_of(end):
                    faults.append(f"{column.name!r:.60}: it lies beside {end!r:.60}, which has a course")
                if self.varies(column.name) and set(self.times_of(column.name)) <= set(self.times_of(end)):
                    continue
                if self.varies(end):
                    faults.append(f"{column.name!r:.60}: it lies beside {end!r:.60}, which has not all its visits")
        return faults

    def _no_start(self, column: Column | None) -> str:
        """Say why a column cannot lie above its own value at another visit, if it cannot."""
        if column is None:
            return ""
        if column.kind != MEASUREMENT or self.course_of(column.name):
            return "only a measurement or a date without a course lies after a visit"
        of_logarithms = column.heaps is not None and column.heaps.exponential
        if column.order is not None or column.centre is not None or of_logarithms:
            return "what lies after a visit has no other order, no centre and no step_of"
        return ""

    def stacked(
        self,
        columns: Mapping[str, np.ndarray],
        levels: Mapping[str, tuple[str, ...]],
        people: np.ndarray,
    ) -> tuple[dict[str, np.ndarray], dict[str, tuple[str, ...]]]:
        """Return records, by column, as the columns and levels of a long table: a row for each person and visit.

        A visit at which nothing is there is no row, unless it is the first of somebody who would have none.
        """
        count, width = len(people), len(self.times)
        layout = self.layout(columns)[2:]
        found: dict[str, np.ndarray] = {}
        named: dict[str, tuple[str, ...]] = {}
        there = np.zeros((count, width), dtype=bool)
        for long in layout:
            if long in columns:
                found[long] = np.repeat(columns[long], width)
                named |= {long: levels[long]} if long in levels else {}
                continue
            every = [(place, self.name(long, time)) for place, time in enumerate(self.times)]
            every = [(place, name) for place, name in every if name in columns]
            if every[0][1] in levels:
                named[long] = tuple(dict.fromkeys(level for _, name in every for level in levels[name]))
                values = np.full((count, width), -1, dtype=np.int64)
                for place, name in every:
                    values[:, place] = _codes_among(columns[name], levels[name], named[long])
                there |= values >= 0
            else:
                values = np.full((count, width), np.nan)
                for place, name in every:
                    values[:, place] = columns[name]
                there |= ~np.isnan(values)
            found[long] = values.ravel()
        times, labels = self._times_as_values(count)
        rows = _rows_there(there)
        every_row = {self.person: np.repeat(people, width), self.visit: times} | found
        return {name: values[rows] for name, values in every_row.items()}, labels | named

    def as_written(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return the columns of a long table in which records of these columns go out."""
        texts = any(isinstance(time, str) for time in self.times)
        levels = tuple(map(level_name, self.times)) if texts else ()
        long = {
            self.person: Column(self.person, decimals=0),
            self.visit: Column(self.visit, CATEGORY if texts else MEASUREMENT, levels=levels),
        }
        for column in columns:
            name, _ = self.parts(column.name)
            before = long.get(name, column)
            long[name] = replace(before, name=name, levels=tuple(dict.fromkeys((*before.levels, *column.levels))))
        return tuple(long.values())

    def _times_as_values(self, count: int) -> tuple[np.ndarray, dict[str, tuple[str, ...]]]:
        """Return the visit of each row of so many people; visits that are texts as levels."""
        if any(isinstance(time, str) for time in self.times):
            return np.tile(np.arange(len(self.times)), count), {self.visit: tuple(map(level_name, self.times))}
        numbers = np.array(self.times, dtype=np.float64)
        whole = bool(np.all(numbers == np.round(numbers)))
        return np.tile(numbers.astype(np.int64) if whole else numbers, count), {}


def _codes_among(codes: Int[np.ndarray, " n"], own: Sequence[str], every: Sequence[str]) -> Int[np.ndarray, " n"]:
    """Return level numbers among all levels, −1 where one is missing."""
    return np.array([*(every.index(level) for level in own), -1], dtype=np.int64)[codes]


def _rows_there(there: Bool[np.ndarray, "n visits"]) -> Bool[np.ndarray, " rows"]:
    """Say which rows a long table has: those with a value, and the first of people without any."""
    rows = there.copy()
    rows[~there.any(axis=1), 0] = True
    return rows.ravel()


def without_visits(given: Any) -> Any:
    """Return the entries of one column without what they say of visits."""
    if not isinstance(given, Mapping):
        return given
    own = ("deviation",) if "derived" in given else ()
    return {key: given[key] for key in given if key not in OF_COLUMN or key in own}


def times_from(given: Any) -> tuple[Time, ...]:
    """Read a list of visits: different numbers, or texts."""
    if not isinstance(given, list | tuple) or not given:
        raise InputError(f"visits are a list of numbers, or of texts, got {given!r:.60}", EXAMPLE)
    numbers = [isinstance(time, int | float) and not isinstance(time, bool) for time in given]
    texts = [isinstance(time, str) and bool(time.strip()) for time in given]
    if not (all(numbers) or all(texts)) or not all(isfinite(time) for time in given if not isinstance(time, str)):
        raise InputError("visits are all numbers, or all texts", EXAMPLE)
    times = tuple(time.strip() if isinstance(time, str) else _plain(time) for time in given)
    if len({level_name(time) for time in times}) < len(times):
        raise InputError("a visit is named twice", "name each once")
    return times


def times_in(texts: Sequence[str]) -> list[Time]:
    """Read the names of visits: numbers where all are, else texts."""
    try:
        return [float(text) for text in texts]
    except ValueError:
        return list(texts)


def _plain(time: float) -> float:
    """Return whole numbers as such, so that they are written as they were."""
    return int(time) if time == round(time) else float(time)
