"""Long tables: the rows of each person become one record, or all that stands against it is said at once."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.support.errors import InputError
from allbutone.support.text import counted, listed
from allbutone.tables.admission import FEW, Problem, problems_of, several_rows
from allbutone.tables.categories import arrow_of
from allbutone.tables.column import level_name
from allbutone.tables.derived import derived_problems, order_problems, rows_in_words
from allbutone.tables.look import look_at_column
from allbutone.tables.names import chosen_frame, frame_at, names_of, split_names
from allbutone.tables.schema import Schema
from allbutone.tables.visits import SIGN, Course, Time, Visits, times_from

SHOWN = 5  # visits that are named


@dataclass(frozen=True, eq=False)
class PeoplesRows:
    """A table of one row a person, as Arrow has it, and what it was made from.

    columns: those asked for, by the names that they have now; None: all. people: what the table calls each person,
    in the order in which they come. long: the rows as they were, and what is declared of them. notes: how it is to
    be read.
    """

    table: Any
    columns: list[str] | None
    people: np.ndarray
    long: nw.DataFrame[Any]
    declared: Schema
    notes: tuple[str, ...] = ()

    def in_rows(self, problems: Sequence[Problem]) -> list[Problem]:
        """Return what stands against columns of records, each once for all its visits, by the rows of the table.

        What is wrong only beside other visits stays as it is: gaps, a column that others determine.
        """
        visits = self.declared.visits
        assert visits is not None
        kept = [name for name in self.long.columns if name not in (visits.person, visits.visit)]
        every = _problems_of_values(self.long, kept, self.declared, silent=True)
        told = {each.column: each for each in reversed(every)}
        found: dict[str, Problem] = {}
        for each in problems:
            column = visits.parts(each.column)[0]
            own = None if each.is_gap else told.get(column)
            found.setdefault(each.column if own is None else column, own or each)
        return list(found.values())


def widen(
    table: Any, declared: Schema, columns: Any = None, drop: Any = None, *, one_by_one: bool = False
) -> PeoplesRows:
    """Bring the rows of each person of a long table into one; columns to keep or drop may name visits, too.

    one_by_one: whether columns that change in nobody are taken as they are.
    """
    visits = declared.visits
    assert visits is not None
    names = names_of(table)
    require_person_and_visit(names, visits)
    keys, every = (visits.person, visits.visit), {each for name in names for each in (name, *visits.names(name))}
    if columns is None:
        out = split_names(drop, every)
        lost = [name for name in out if name in names or name not in every]  # who has no such column is told so
        frame = chosen_frame(table, None, lost or None, [name for name in declared.left_out if name not in keys])
        kept = [name for name in frame.columns if name not in keys]
        wanted = [each for name in kept for each in visits.names(name) if each not in out]
    else:
        asked = [each for name in split_names(columns, every) for each in visits.names(name)]
        wanted = [name for name in asked if name not in keys]
        kept = list(dict.fromkeys(visits.parts(name)[0] for name in wanted))
        frame = chosen_frame(table, [*keys, *kept], None)
    rows = _Rows.of(frame, visits)
    faults = [
        *rows.faults(),
        *_faults_of_columns(frame, rows, kept, declared, unchanging=columns is None and not one_by_one),
    ]
    if faults:
        besides = _problems_of_values(frame, kept, declared)
        faults += [f"{problem.column!r} {problem.words}" for problem in besides]
        lines = "".join(f"\n  {fault}" for fault in faults)
        cures = dict.fromkeys(
            cure if isinstance(cure, str) else cure.words for each in besides for cure in each.cures
        )
        raise InputError(
            f"people's rows cannot be brought into one record each, for {counted(len(faults), 'reason')}:{lines}",
            "correct the table, or what is declared of its visits",
            *cures,
        )
    wide = _table(frame, rows, wanted, declared)
    return PeoplesRows(wide, None if columns is None else wanted, rows.people, frame, declared, (rows.in_words,))


def _problems_of_values(
    frame: nw.DataFrame[Any], kept: Collection[str], declared: Schema, *, silent: bool = False
) -> list[Problem]:
    """Say what is wrong with values, formulas and orders within rows; `silent`: of undeclared columns, too."""
    visits = declared.visits
    derived = [
        column
        for column in declared.derived
        if column.name in kept
        and all(visits is None or visits.parts(name)[1] is None for name in column.formula.columns)
    ]
    drawn = [name for name in kept if name not in declared.derived_names]
    looks = [look_at_column(frame[name], declared.column(name), trusted=True, categories=True) for name in drawn]
    said = problems_of([look for look in looks if silent or declared.declares(look.name)])
    return [*said, *derived_problems(frame, looks, derived, declared), *order_problems(looks, declared)]


def require_person_and_visit(names: Sequence[str], visits: Visits) -> None:
    """Refuse a table without the columns that name people and visits."""
    for name, what in ((visits.person, "people"), (visits.visit, "the visit")):
        if names.count(name) != 1:
            near = get_close_matches(name, names, 1)
            meant = f" (is {near[0]!r} meant?)" if near and near[0] != name else ""
            problem = "is not in the table" if name not in names else "is in the table several times"
            raise InputError(
                f"{name!r} is declared to name {what}, and {problem}{meant}", f"choose among {listed(names)}"
            )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Whose row each is, by number, and of which visit, by place; −1 where that is missing, or not declared."""

    visits: Visits
    person: Int[np.ndarray, " rows"]
    visit: Int[np.ndarray, " rows"]
    no_visit: Bool[np.ndarray, " rows"]
    people: np.ndarray
    found: tuple[str, ...]

    @classmethod
    def of(cls, frame: nw.DataFrame[Any], visits: Visits) -> "_Rows":
        """Read who and when, people in the order in which they come."""
        person, people = coded(frame[visits.person])
        when, values = coded(frame[visits.visit])
        places = {level_name(time): place for place, time in enumerate(visits.times)}
        named = [_called(value, places) for value in values.tolist()]
        known = np.array([*(places.get(name, -1) for name in named), -1], dtype=np.int64)
        beyond = tuple(name for name in named if name not in places)
        return cls(visits, person, known[when], when < 0, people, beyond)

    def faults(self) -> Iterator[str]:
        """Say which rows are nobody's, of no visit, of one that is not declared, or the second of one."""
        person, visit = self.visits.person, self.visits.visit
        if (nobody := self.person < 0).any():
            yield f"{person!r} is missing in {rows_in_words(nobody)}: say whose they are, or leave them out"
        if self.no_visit.any():
            without = rows_in_words(self.no_visit)
            yield f"{visit!r} is missing in {without}: say which visits these were, or leave them out"
        if (beyond := (self.visit < 0) & ~self.no_visit).any():
            found = f"{visit!r} has {listed(list(map(repr, self.found)), SHOWN)} in {rows_in_words(beyond)}"
            yield f"{found}, and the visits are {self.visits.in_words}: declare all, or leave those rows out"
        if (again := self._again).any():
            yield f"a person has two rows for one visit in {rows_in_words(again)}: keep one of them, or their mean"

    @property
    def _again(self) -> Bool[np.ndarray, " rows"]:
        """Which rows are of a person and a visit that another row has, too."""
        there = (self.person >= 0) & (self.visit >= 0)
        return there & _repeated(self.person * len(self.visits.times) + self.visit, there)

    @property
    def share_wrong(self) -> float:
        """The share of rows that are nobody's, of no visit, or one of several of a visit."""
        return float(np.mean(self._again | (self.person < 0) | (self.visit < 0)))

    @property
    def in_words(self) -> str:
        """How rows became records, for whoever reads of rows and columns from then on."""
        first = self.visits.times[-1]
        return (
            f"Each person is one record: {counted(len(self.person), 'row')} of {len(self.people):,} people at the "
            f"visits {self.visits.in_words}. Options and files of results write {self.visits.name('x', first)} "
            f"for the column x at {self.visits.visit} {level_name(first)}."
        )

    def of_visit(self, place: int) -> Int[np.ndarray, " people"]:
        """Return the row of each person at a visit; −1 where there is none."""
        places = np.full(len(self.people), -1, dtype=np.int64)
        rows = np.flatnonzero(self.visit == place)
        places[self.person[rows]] = rows
        return places

    def first_with(self, there: Bool[np.ndarray, " rows"]) -> Int[np.ndarray, " people"]:
        """Return the first row of each person in which there is a value; −1 where there is none."""
        places = np.full(len(self.people), -1, dtype=np.int64)
        rows = np.flatnonzero(there & (self.person >= 0))[::-1]
        places[self.person[rows]] = rows
        return places


def _faults_of_columns(
    frame: nw.DataFrame[Any], rows: _Rows, kept: Sequence[str], declared: Schema, *, unchanging: bool
) -> Iterator[str]:
    """Say which columns change although they stand once, or never do, or are named as columns at visits are."""
    never = []
    for name in kept:
        if SIGN in name and rows.visits.parts(name)[1] is not None:
            yield f"{name!r} is named as a column at a visit is: rename it"
        codes, _ = coded(frame[name], declared.column(name).missing)
        there = codes >= 0
        first = rows.first_with(there)[rows.person]
        other = there & (rows.person >= 0) & (codes != codes[first])
        if name in rows.visits.once and other.any():
            changed = rows_in_words(other)
            yield f"{name!r} is declared to stand once, and changes in {changed}: correct them, or leave once out"
        elif unchanging and rows.visits.varies(name) and not other.any() and _seen_twice(rows, there):
            never.append(name)
    if never:
        which = f"{listed(list(map(repr, never)))} {'does' if len(never) == 1 else 'do'}"
        yield f"{which} not change within anybody: declare once = true of each, or leave it out"


def _seen_twice(rows: _Rows, there: Bool[np.ndarray, " rows"]) -> bool:
    """Say whether anybody has two values, so that one could differ from the other."""
    return bool(np.bincount(rows.person[there & (rows.person >= 0)], minlength=1).max() > 1)


def _table(frame: nw.DataFrame[Any], rows: _Rows, wanted: Collection[str], declared: Schema) -> Any:
    """Return the columns of the records, a row a person."""
    import pyarrow as pa

    places = {time: place for place, time in enumerate(rows.visits.times)}
    arrays: dict[str, Any] = {}
    for name in wanted:
        column, time = rows.visits.parts(name)
        array = arrow_of(frame[column])
        if time is None:
            there = coded(frame[column], declared.column(column).missing)[0] >= 0
            at = rows.first_with(there)
        else:
            at = rows.of_visit(places[time])
        arrays[name] = array.take(pa.array(np.maximum(at, 0), mask=at < 0))
    return pa.table(arrays)


def coded(column: nw.Series[Any], missing: Sequence[float] = ()) -> tuple[Int[np.ndarray, " rows"], np.ndarray]:
    """Return each entry's number among the different ones, −1 where it is missing, and these as they come."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = arrow_of(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    if pa.types.is_null(array.type) or pa.types.is_nested(array.type):  # nothing is told apart there
        return np.where(array.is_null().to_numpy(zero_copy_only=False), -1, 0), np.array([None], dtype=object)
    found = pc.dictionary_encode(array)
    codes = found.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    try:
        values = found.dictionary.to_numpy(zero_copy_only=False)
    except pa.ArrowException:  # texts that are not UTF-8, which are refused where they are looked at
        entries = found.dictionary.cast(pa.large_binary()).to_pylist()
        values = np.array([each.decode(errors="backslashreplace") for each in entries], dtype=object)
    if missing and values.dtype.kind in "iuf":
        codes = np.where(np.append(np.isin(values, missing), False)[codes], -1, codes)
    elif values.dtype == object:
        blank = [isinstance(value, str) and not value.strip() for value in values.tolist()]
        codes = np.where(np.array([*blank, False])[codes], -1, codes)
    return codes, values


def _repeated(values: Int[np.ndarray, " rows"], there: Bool[np.ndarray, " rows"]) -> Bool[np.ndarray, " rows"]:
    """Say which values are there several times among those that count."""
    different, places, counts = np.unique(values[there], return_inverse=True, return_counts=True)
    repeated = np.zeros(len(values), dtype=bool)
    repeated[there] = counts[places] > 1 if len(different) else False
    return repeated


def _called(value: Any, known: Collection[str]) -> str:
    """Return the name of a visit; what is a number in a text is that number, unless a visit is called so."""
    name = level_name(value.strip() if isinstance(value, str) else value)
    try:
        return name if name in known else level_name(float(name))
    except ValueError:
        return name


# What a long table looks like, before anything is declared of its visits.


MOST_VISITS = 30  # different values of what may be the visit
LEAST_SURPRISE = 14.0  # nats: one in a million
ENOUGH = 20  # values from which an order between visits can be told
MOST_THERE = 0.9  # of rows that have one, at least
_VISIT = re.compile(
    r"(.*[_\W])?(visits?|waves?|months?|weeks?|days?|years?|quarters?|times?|time_?points?|sessions?|occasions?"
    r"|rounds?|periods?|phases?|follow_?ups?|fu|cycles?|trials?|age)([_\W]*(no|nr|num|number|id|name))?"
)


def proposed_visits(frame: nw.DataFrame[Any], person: str, asked: str | None = None) -> Visits | None:
    """Return what the rows of each person seem to be: told apart by a column of few values, each once a person.

    That is the one `asked` for; or of several such columns one that is named as visits are, then one of whole
    numbers, then of the fewest values; None where there is none. Columns that change in nobody stand once, and
    visits at which one has no value at all are not its own.
    """
    whose, _ = coded(frame[person])
    ways = []
    for place, name in enumerate(frame.columns):
        if name == person or name != (asked or name) or frame[name].dtype.is_nested():
            continue
        when, values = coded(frame[name])
        there = (whose >= 0) & (when >= 0)
        if not 2 <= len(values) <= MOST_VISITS or not there.any() or np.mean(there[whose >= 0]) < MOST_THERE:
            continue
        if _repeated(whose * len(values) + when, there).any():
            continue
        named = bool(_VISIT.fullmatch(name.lower()))
        whole = values.dtype.kind in "iu" or (
            values.dtype.kind == "f" and bool(np.all(values == np.round(values)))
        )
        if asked or named or whole or values.dtype == object:
            ways.append(((not named, not whole, len(values), place), name, values))
    if not ways:
        return None
    _, visit, values = min(ways)
    texts = values.dtype == object
    times = times_from(list(map(level_name, values)) if texts else sorted(each for each in values.tolist()))
    return _with_columns(frame, Visits(person, visit, times))


def why_no_visits(frame: nw.DataFrame[Any], person: str, visit: str | None = None) -> str:
    """Say why a column that is named as visits are, or said to tell them, does not tell each person's rows apart.

    Nothing where no column is named so, or where so much is wrong that it may mean something else.
    """
    for name in frame.columns if visit is None else [visit]:
        if name == person or not (visit or _VISIT.fullmatch(name.lower())) or frame[name].dtype.is_nested():
            continue
        _, values = coded(frame[name])
        if not 2 <= len(values) <= MOST_VISITS:
            if visit:
                return f"{name!r} has {len(values):,} different values, and visits are 2 to {MOST_VISITS}"
            continue
        rows = _Rows.of(frame, Visits(person, name, times_from(list(map(level_name, values)))))
        if (faults := list(rows.faults())) and (visit or rows.share_wrong < 1 - MOST_THERE):
            return f"{name!r} would tell their visits, but {'; '.join(faults)}"
    return ""


def told_by_visits(table: Any, names: Sequence[str] | None = None) -> tuple[str, Visits, str] | None:
    """Return a column of texts that seems to name people who have several rows, their visits, and how it tells so.

    It is not named as people are, but rows of one value never have the same visit, which chance explains in one
    table in a million at most: (1 − Σ share²) for each pair of rows of one value.
    """
    if isinstance(table, np.ndarray):
        return None
    every = names_of(table)
    places = [place for place, name in enumerate(every) if every.count(name) == 1]
    frame = frame_at(table, places, [every[place] for place in places])
    for name in frame.columns:
        if (names is not None and name not in names) or frame[name].dtype != nw.String:
            continue
        whose, people = coded(frame[name])
        counts = np.bincount(whose[whose >= 0]) if len(people) else np.zeros(0)
        if len(counts) < FEW or counts.max() > MOST_VISITS or (visits := proposed_visits(frame, name)) is None:
            continue
        shares = np.bincount(coded(frame[visits.visit])[0].clip(0)) / len(frame)
        pairs = float(np.sum(counts * (counts - 1.0)) / 2)
        if pairs * np.log1p(-min(float(shares @ shares), 1 - 1e-9)) < -LEAST_SURPRISE:
            never = f"and rows of one value never have the same {visits.visit!r}"
            return name, visits, f"{name!r} has {len(people):,} different values in {len(frame):,} rows, {never}"
    return None


def require_no_visits(table: Any) -> None:
    """Refuse a table whose rows seem to be visits of fewer people."""
    if told := told_by_visits(table):
        raise several_rows(told[2])


def _with_columns(frame: nw.DataFrame[Any], visits: Visits) -> Visits:
    """Return visits with the columns that change in nobody, and those that are not measured at every visit."""
    rows, once, at = _Rows.of(frame, visits), [], []
    for name in frame.columns:
        if not visits.varies(name):
            continue
        codes, _ = coded(frame[name])
        there = (codes >= 0) & (rows.person >= 0)
        first = rows.first_with(there)[rows.person]
        if there.any() and _seen_twice(rows, there) and not (there & (codes != codes[first])).any():
            once.append(name)
            continue
        seen = set(np.unique(rows.visit[there]).tolist())
        times = tuple(time for place, time in enumerate(visits.times) if place in seen)
        at += [(name, times)] if 0 < len(times) < len(visits.times) else []
    return replace(visits, once=tuple(once), at=tuple(at))


@dataclass(frozen=True, eq=False)
class SeenRows:
    """What the rows of a long table are, for whoever looks at it: how many people, and who missed a visit."""

    visits: Visits
    rows: _Rows

    @classmethod
    def of(cls, frame: nw.DataFrame[Any], visits: Visits) -> "SeenRows":
        """Look at whose row is which."""
        return cls(visits, _Rows.of(frame, visits))

    @property
    def people(self) -> int:
        """How many people there are."""
        return len(self.rows.people)

    @property
    def missed(self) -> int:
        """How many people missed a visit."""
        counts = np.bincount(self.rows.person[(self.rows.person >= 0) & (self.rows.visit >= 0)])
        return int(np.sum(counts < len(self.visits.times)))

    @property
    def in_words(self) -> str:
        """How many people there are, at which visits."""
        visits = f"{len(self.visits.times)} visits ({self.visits.visit} {self.visits.in_words})"
        missed = f", of which {self.missed:,} people missed some" if self.missed else ""
        return f"{self.people:,} people ({self.visits.person}), {visits}{missed}"

    def columns(self, names: Sequence[str]) -> int:
        """Return how many columns a person's record has, of these of the long table."""
        return sum(len(self.visits.names(name)) for name in names)

    def share_missing(self, name: str, gaps: Bool[np.ndarray, " rows"]) -> float:
        """Return the share of people, or of rows at its own visits, of which a column has no value."""
        if name in self.visits.once:
            return float(np.mean(self.rows.first_with(~gaps) < 0))
        places = [place for place, time in enumerate(self.visits.times) if time in self.visits.times_of(name)]
        own = np.isin(self.rows.visit, places)
        return float(np.mean(gaps[own])) if own.any() else 1.0

    def lacking(self, name: str, there: Bool[np.ndarray, " rows"]) -> int:
        """Return how many people lack a column of their record; `there`: which rows of the table have it."""
        _, time = self.visits.parts(name)
        at = self.rows.first_with(there) if time is None else self.rows.of_visit(self.visits.times.index(time))
        return int(np.sum((at < 0) | ~there[at]))

    def start(self, name: str, numbers: Float[np.ndarray, " rows"]) -> Time | None:
        """Propose the first visit if a column lies above its value there in everybody, at every other visit.

        Where that is by its meaning, as of a date: what lies between varies far less than the values themselves.
        """
        times = self.visits.times_of(name)
        if not self.visits.varies(name) or len(times) < 2:
            return None
        places = [self.rows.of_visit(self.visits.times.index(time)) for time in times]
        values = np.column_stack([np.where(at < 0, np.nan, numbers[at]) for at in places])
        gaps = values[:, 1:] - values[:, :1]
        there = ~np.isnan(values[:, 1:])
        if np.isnan(gaps[there]).any() or not there.sum() >= ENOUGH or gaps[there].min() < 0:
            return None
        spread = [np.var(gap[here]) for gap, here in zip(gaps.T, there.T, strict=True) if here.any()]
        return times[0] if max(spread) < np.nanvar(values[:, 0]) / 2 else None

    def course(self, name: str, on_scale: Float[np.ndarray, " rows"]) -> Course | None:
        """Propose a line for a column, given on its scale, with a deviation that leaves the spreads between.

        The variance at a visit between is that of the line, and the rest the deviation's; coarsely, to one digit.
        """
        times = self.visits.times_of(name)
        if len(times) < 3 or not self.visits.varies(name):
            return None
        places = [self.rows.of_visit(self.visits.times.index(time)) for time in times]
        values = np.column_stack([np.where(at < 0, np.nan, on_scale[at]) for at in places])
        when = np.array(times, dtype=np.float64)
        share = (when - when[0]) / (when[-1] - when[0])
        line = np.outer(values[:, 0], 1 - share) + np.outer(values[:, -1], share)
        both = np.isfinite(values) & np.isfinite(line)
        if (both.sum(axis=0) < 2).any():
            return None
        spread = [np.var(each[there]) for each, there in zip(values.T, both.T, strict=True)]
        rest = np.mean([a - np.var(b[there]) for a, b, there in zip(spread, line.T, both.T, strict=True)][1:-1])
        size = float(np.sqrt(max(rest, 0.01 * np.mean(spread))))
        return Course(name, (times[0], times[-1]), float(f"{size:.1g}"))
