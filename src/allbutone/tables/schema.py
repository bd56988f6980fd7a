"""The table file: what may be public about each column, declared before anything is drawn.

Kind, label, unit, scale, limits, decimals, a prior centre and spread, codes for missing values, why a column
is left out, whether it is secret, and whether people outside can know it. It holds nothing computed from
the confidential table.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted, listed, people, percent
from allbutone.tables.column import CATEGORY, DERIVED, LEFT_OUT, MEASUREMENT, Column, Scale, column_from
from allbutone.tables.dates import Calendar
from allbutone.tables.formula import in_order
from allbutone.tables.heaps import decimals_from
from allbutone.tables.orders import Ordered, circle_of, lowest_of, order_faults, ordered_columns
from allbutone.tables.safe_io import parse, read_text
from allbutone.tables.visits import COURSE, EXAMPLE, KEYS, Visits, without_visits

NOTABLE = 0.001  # of a column's released values: below that nobody would notice
SHOWN = 10  # columns that are named


@dataclass(frozen=True)
class Schema:
    """What is declared of a table's columns, each by name; of columns not named nothing is.

    missing: numbers that stand for no value in any column. derived: columns that are computed from others in every
    row and are no part of the model, each after those that it needs. layout: all columns in the order in which
    they go out, where that is known. visits: where people have several rows, which these are; columns are then
    those of the long table, and `widened` those of a person's record.

    >>> import allbutone as abo
    >>> abo.Schema.of({"columns": {"age": {"low": 0, "high": 120}}}).columns[0].name
    'age'
    """

    columns: tuple[Column, ...] = ()
    missing: tuple[float, ...] = ()
    derived: tuple[Column, ...] = ()
    layout: tuple[str, ...] = ()
    visits: Visits | None = None

    @classmethod
    def of(cls, source: Any) -> "Schema":
        """Return a schema from a table file (.toml or .json), its entries as a dict, a schema, or None."""
        if source is None or isinstance(source, Schema):
            return source or cls()
        if isinstance(source, str | PathLike):
            path = Path(source)
            text = read_text(path, "give the path of a table file, .toml or .json")
            language = "JSON" if path.suffix.lower() == ".json" else "TOML"
            return cls.of_entries(parse(text, language, f"the table file {path.name}"), path.name)
        if isinstance(source, Mapping):
            return cls.of_entries(source, "the schema")
        raise InputError(f"a {type(source).__name__} is no schema", "give a table file, a dict, or a Schema")

    @classmethod
    def of_entries(cls, entries: Any, where: str) -> "Schema":
        """Read the entries of a table file; all that is wrong is said at once."""
        known = entries.get("columns") if isinstance(entries, Mapping) else None
        if known is None and isinstance(entries, Mapping) and "person" in entries:
            known = {}  # what is known of visits may be all
        if not isinstance(known, Mapping) or set(entries) - {"columns", *KEYS}:
            raise InputError(
                "a table file holds one table [columns.NAME] for each column, of a long table "
                f"{', '.join(KEYS)}, and nothing else",
                "draft one with describe",
                where=where,
            )
        columns, faults, visits = [], [], None
        for name, given in known.items():
            try:
                columns.append(column_from(str(name), without_visits(given)))
            except InputError as error:
                faults.append(f"{name!r:.60}: {error}")
        derived = [column for column in columns if column.kind == DERIVED]
        plain = [column for column in columns if column.kind != DERIVED]
        together = faults_together(plain, derived)
        faults += [f"{name!r:.60}: {fault}" for name, fault in together]
        faults += [] if circle_of(plain) else _parts_below_zero(plain, known)
        try:
            visits = Visits.of_entries(entries, known)
        except InputError as error:
            faults.append(str(error))
        if not faults:
            derived = in_need(derived)
            faults += visits.faults(plain, derived) if visits else []
        if faults:
            lines = "".join(f"\n  {fault}" for fault in faults)
            what = "1 entry is wrong" if len(faults) == 1 else f"{len(faults)} entries are wrong"
            raise InputError(f"{what}:{lines}", "correct what is declared", where=where)
        visits = visits and visits.adding(derived)
        return cls(tuple(plain), derived=tuple(derived), visits=visits)

    def column(self, name: str) -> Column:
        """Return what is declared of this column."""
        return self._by_name.get(name) or Column(name, missing=self.missing)

    def declares(self, name: str) -> bool:
        """Say whether anything is declared of this column."""
        return name in self._by_name

    def with_levels(self, names: Sequence[str], levels: Sequence[Sequence[str]]) -> "Schema":
        """Return the schema in which these columns are categories of these levels, and all others measurements."""
        found = dict(zip(names, levels, strict=True))

        def as_it_is(column: Column) -> Column:
            if column.name in found:
                return column.as_category(found[column.name])
            return replace(column, kind=MEASUREMENT, levels=()) if column.kind == CATEGORY else column

        return replace(self, columns=tuple(map(as_it_is, self.columns)))

    def with_calendars(self, found: Mapping[str, Calendar | None]) -> "Schema":
        """Return the schema with dates in the form in which a table has them."""
        return self._with_each(lambda column: replace(column, calendar=found.get(column.name) or column.calendar))

    @property
    def measurements(self) -> tuple[Column, ...]:
        """The columns that are not categories."""
        return tuple(column for column in self.columns if column.kind != CATEGORY)

    @property
    def categories(self) -> tuple[Column, ...]:
        """The columns that are categories."""
        return tuple(column for column in self.columns if column.kind == CATEGORY)

    def for_columns(self, names: Sequence[str]) -> "Schema":
        """Return the schema of exactly these columns in this order, and of what can be derived from them."""
        there, derived = set(names), []
        for column in self.derived:
            if there.issuperset(column.formula.columns) and column.name not in there:
                derived.append(column)
                there.add(column.name)
        layout = tuple(name for name in self.layout if name in there) if derived else ()
        known = layout if set(layout).issuperset(names) else ()
        columns = tuple(self.column(name) for name in names)
        return Schema(columns, derived=tuple(derived), layout=known, visits=self.visits)

    def with_visits(
        self, person: str | None, visit: str | None, times: Sequence[Any] = (), once: Sequence[str] = ()
    ) -> "Schema":
        """Return the schema of a long table, where it is said which; what is not said is as declared before."""
        if not (person or visit or times or once):
            return self
        before = self.visits
        if before is None and not (person and visit and times):
            told = "which column names people, which the visit, and which visits there are"
            raise InputError(f"a long table takes all of it: {told}", EXAMPLE, "draft a table file with describe")
        found = Visits(
            person or (before.person if before else ""),
            visit or (before.visit if before else ""),
            tuple(times) or (before.times if before else ()),
            tuple(dict.fromkeys((*(before.once if before else ()), *once))),
            before.at if before else (),
            before.courses if before else (),
            before.after if before else (),
        )
        return replace(self, visits=found.adding(self.derived))

    def widened(self) -> "Schema":
        """Return what is declared of the columns of a person's record, where people have several rows."""
        if self.visits is None:
            return self
        columns, derived = (self.visits.widened(each) for each in (self.columns, self.derived))
        before = {column.name for column in derived}  # all of them, of what is wide already
        lines = (column for column in self.visits.on_lines(self.columns) if column.name not in before)
        return replace(self, columns=columns, derived=(*lines, *derived))

    @property
    def file_columns(self) -> tuple[str, ...]:
        """The columns of a file in which tables of this schema go out: with visits, those of a long table."""
        return self.released_order if self.visits is None else self.visits.layout(self.released_order)

    @property
    def fewer_columns(self) -> tuple[Cure, ...]:
        """The ways to fewer columns, where people are too few: some left out, or all those of a visit."""
        cures = [Cure("use fewer columns", "columns")]
        if self.visits is not None:
            at = [(name, time) for name in self.released_order if (time := self.visits.parts(name)[1]) is not None]
            last = [name for name, time in at if time == at[-1][1]]
            cures = [Cure("use fewer visits, without the last, say", "drop", last), *cures]
            cures += [Cure(COURSE)] if self.visits.may_be_lines else []
        return tuple(cures)

    def told_as(self, name: str) -> str:
        """Return what a column is called in words: crp at month 6."""
        return name if self.visits is None else self.visits.told(name)

    def plainly(self, text: str) -> str:
        """Return a text that names columns of records, with their names in words; what is code stays."""
        if self.visits is None:
            return text
        at = [name for name in self.released_order if self.of_file(name) != name]
        every = "|".join(re.escape(name) for name in sorted(at, key=len, reverse=True))
        pieces = re.split(r"(<(?:code|pre)\b.*?</(?:code|pre)>)", text, flags=re.DOTALL)
        # after a ">" as figures write it, too
        named = re.compile(rf"(?:(?<![\w@])|(?<=\\u003e))(?:{every})(?![\w@])")
        told = (named.sub(lambda match: self.told_as(match[0]), piece) for piece in pieces[::2])
        return "".join(part for pair in zip(told, [*pieces[1::2], ""], strict=True) for part in pair)

    def counted(self, records: int) -> str:
        """Return how many rows these records are, or of how many people, where these have several rows."""
        return counted(records, "row") if self.visits is None else people(records)

    @property
    def rows_each(self) -> int:
        """At most how many rows of a file each record goes out as: one, or one a visit."""
        return 1 if self.visits is None else len(self.visits.times)

    def require_ends(self, names: Iterable[str]) -> None:
        """Refuse to leave out a column at the end of another that stays, and would have its gap for a value."""
        kept = set(names)
        for each in self.orders:
            order, name = each.column.order, each.column.name
            lost = [end for end in order.columns if end not in kept] if order is not None else []
            if order is not None and lost and name in kept:
                raise InputError(
                    f"{name!r} lies {order.in_words}, and cannot be used without {lost[0]!r}",
                    f"leave {name!r} out, too",
                    "read the table without that order",
                )

    def require_known_ends(self, known: Iterable[str]) -> None:
        """Refuse an adversary who knows a column but not its end: what is modelled is the gap between the two."""
        there = set(known)
        for each in self.orders:
            order, name = each.column.order, each.column.name
            if (
                order is not None
                and name in there
                and (lost := [end for end in order.columns if end not in there])
            ):
                raise InputError(
                    f"{name!r} lies {order.in_words}: what somebody believes who knows it and not {lost[0]!r} has "
                    "no closed form",
                    f"let them know {lost[0]!r}, too, or not {name!r}",
                    "declare the columns without that order",
                )

    def with_derived(self, names: Iterable[str], layout: Sequence[str] = ()) -> "Schema":
        """Return the schema with just these of its derived columns, and what these need of the others."""
        wanted = set(names)
        for column in reversed(self.derived):
            wanted |= {*column.formula.columns} if column.name in wanted else set()
        derived = tuple(column for column in self.derived if column.name in wanted)
        return replace(self, derived=derived, layout=tuple(layout) if derived else ())

    def among(self, names: Iterable[str]) -> "Schema":
        """Return what is declared of these columns, as far as anything is."""
        there = set(names)
        return replace(self, columns=tuple(each for each in self.columns if each.name in there)).with_derived(
            there
        )

    @property
    def derived_names(self) -> tuple[str, ...]:
        """The columns that are computed from others."""
        return tuple(column.name for column in self.derived)

    @property
    def released_order(self) -> tuple[str, ...]:
        """All columns in the order in which they go out; derived ones last where no other order is known."""
        return self.layout or tuple(column.name for column in (*self.columns, *self.derived))

    @property
    def released_columns(self) -> tuple[Column, ...]:
        """All columns as they go out, derived ones as the measurements or categories that they are then."""
        known = self._by_name | {column.name: column.as_released for column in self.derived}
        return tuple(known[name] for name in self.released_order)

    def derive(
        self,
        natural: Float[np.ndarray, "*rows p"],
        *,
        synthetic: bool = False,
        recorded: Mapping[str, Float[np.ndarray, "*rows"]] | None = None,
    ) -> dict[str, Float[np.ndarray, "*rows"]]:
        """Compute the derived columns of rows in natural units: numbers, or level numbers, NaN where none is.

        Those of `synthetic` rows lie as far from their formulas as declared, or are there as `recorded`.
        """
        values = {each.name: each.in_formula(natural[..., place]) for place, each in enumerate(self.measurements)}
        for column in self.derived:
            values[column.name] = column.computed(values)
            if column.deviation and recorded is not None:
                values[column.name] = recorded.get(column.name, values[column.name])
            elif column.deviation and synthetic:
                values[column.name] = column.deviated(values[column.name], natural)
        return {column.name: values[column.name] for column in self.derived}

    @property
    def known(self) -> tuple[str, ...]:
        """The columns that people outside can know of somebody, as declared."""
        return tuple(column.name for column in self.columns if column.known and column.kind != LEFT_OUT)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns that are declared to be left out."""
        return tuple(column.name for column in self.columns if column.kind == LEFT_OUT)

    @property
    def is_plain(self) -> bool:
        """Whether all columns are released as the model draws them."""
        return all(column.is_plain for column in self.columns)

    @property
    def dates(self) -> dict[str, Calendar]:
        """The columns that are dates, and how they count."""
        return {column.name: column.calendar for column in self.columns if column.calendar is not None}

    @property
    def dates_in_files(self) -> dict[str, Calendar]:
        """The columns of a file that are dates, and how they count."""
        if self.visits is None:
            return self.dates
        return {self.visits.parts(name)[0]: calendar for name, calendar in self.dates.items()}

    @property
    def as_drawn(self) -> bool:
        """Whether a synthetic table is the numbers of the model's columns: none computed, none dates."""
        return not self.derived and not self.dates

    @property
    def is_limited(self) -> bool:
        """Whether released values of any column can tell less than their draws: by rounding, or at a limit."""
        return any(column.is_limited for column in self.measurements)

    @property
    def scales_in_words(self) -> str:
        """Where scales are declared, words to go after "normal"; else nothing."""
        declared = [
            f"{self.of_file(column.name)} {column.scale.name}"
            + (f", {self.plainly(column.order.in_words)}" if column.order else "")
            for column in self.columns
            if not column.scale.is_plain
        ]
        return f" on the scales declared ({', '.join(dict.fromkeys(declared))})" if declared else ""

    def of_file(self, name: str) -> str:
        """Return the column of a file that holds a column of the records: crp, at all visits."""
        return name if self.visits is None else self.visits.parts(name)[0]

    def to_model(self, values: Float[np.ndarray, "*rows p"]) -> Float[np.ndarray, "*rows p"]:
        """Bring natural values to the scale of the model; the last axis has this schema's measurements."""
        model = self._each(values, lambda column, part: column.scale.to_model(part))
        for each in self.orders:
            model[..., each.place] = each.to_model(values[..., each.place], values)
        return model

    def to_natural(self, values: Float[np.ndarray, "*rows p"]) -> Float[np.ndarray, "*rows p"]:
        """Bring values of the model back to natural units, neither rounded nor limited."""
        natural = self._each(values, lambda column, part: column.scale.to_natural(part))
        for each in self.orders:
            natural[..., each.place] = each.to_natural(values[..., each.place], natural)
        return natural

    def released(self, values: Float[np.ndarray, "*rows p"]) -> Float[np.ndarray, "*rows p"]:
        """Bring what the model drew to what goes out: natural units, rounded, within the limits.

        Who attacks knows that this was done: a released value tells between which values its draw lay
        (`drawn_between`), and to take it for the draw would misjudge the risk, either way.
        """
        released = self._each(values, Column.released)
        for each in self.orders:  # by the ends as they go out, so that no row breaks its order
            released[..., each.place] = each.released(values[..., each.place], released)
        return released

    def drawn_between(
        self, natural: Float[np.ndarray, "n p"]
    ) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n p"]]:
        """Return between which values on the scale of the model the draws lay that went out as these values."""
        own = {each.place: each for each in self.orders}
        pairs = [
            own[place].drawn_between(natural) if place in own else column.drawn_between(natural[:, place])
            for place, column in enumerate(self.measurements)
        ]
        return np.stack([low for low, _ in pairs], axis=1), np.stack([high for _, high in pairs], axis=1)

    @cached_property
    def orders(self) -> tuple[Ordered, ...]:
        """The measurements that lie above, below or between others of these, each after its ends."""
        return ordered_columns(self.measurements)

    def one_to_model(
        self, place: int, values: Float[np.ndarray, " n"], natural: Float[np.ndarray, "n p"]
    ) -> Float[np.ndarray, " n"]:
        """Bring values of one measurement to the scale of the model, in rows with these natural values.

        What lies beyond the scale's domain, or beyond the ends of an order, is infinite.
        """
        for each in self.orders:
            if each.place == place:
                return each.to_model(values, natural)
        scale = self.measurements[place].scale
        lowest, highest, _ = scale.domain
        inner = np.where((values <= lowest) | (values >= highest), natural[:, place], values)
        found = scale.to_model(inner)
        return np.where(values <= lowest, -np.inf, np.where(values >= highest, np.inf, found))

    def one_to_natural(
        self, place: int, values: Float[np.ndarray, " n"], natural: Float[np.ndarray, "n p"]
    ) -> Float[np.ndarray, " n"]:
        """Bring values of the model of one measurement to natural units, in rows with these natural values."""
        for each in self.orders:
            if each.place == place:
                return each.to_natural(values, natural)
        return self.measurements[place].scale.to_natural(values)

    def clipped(self, natural: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " p"]:
        """Return the share of released values at a limit, of each measurement; gaps do not count."""
        shares = []
        for place, column in enumerate(self.measurements):
            there = natural[~np.isnan(natural[:, place]), place]
            low, high = column.at_limits(there)
            shares.append(float(np.mean(low | high)) if len(there) else 0.0)
        return np.array(shares)

    def clipped_in_words(self, datasets: Iterable[Float[np.ndarray, "_ p"]]) -> str:
        """Say how many released values stand at a limit, column by column; nothing where hardly any does."""
        every = [np.asarray(each, dtype=np.float64) for each in datasets]
        if not every or not self.is_limited:
            return ""
        parts = []
        for column, share in zip(self.measurements, self.clipped(np.concatenate(every)), strict=True):
            ends = " or ".join(column.shown(end) for end in column.bounds if isfinite(end))
            parts += [f"{percent(share)} of {column.name!r} (at {ends})"] if share > NOTABLE else []
        return f"At a declared limit stand {listed(parts, SHOWN)}" if parts else ""

    def same_mechanism(self, other: "Schema") -> bool:
        """Say whether both release the same numbers for the same draw."""
        # a release need not name its columns
        mine, theirs = ([replace(each.mechanism, name="") for each in one.columns] for one in (self, other))
        derived = [[each.mechanism for each in one.derived] for one in (self, other)]
        return mine == theirs and derived[0] == derived[1]

    def completed_by(self, other: "Schema") -> "Schema":
        """Return this schema with what another says of judging and of gaps, which else declares the same."""
        every, other = (*self.columns, *self.derived), other.widened()
        declared = [(column, other.column(column.name)) for column in every if other.declares(column.name)]
        differ = [mine.name for mine, theirs in declared if not mine.releases_like(theirs)]
        if differ:
            raise InputError(
                f"the schema declares {', '.join(differ)} otherwise than the release does",
                "leave the schema out: the release has its own",
            )
        told = {
            mine.name: replace(
                mine,
                tolerance=theirs.tolerance or mine.tolerance,
                missing=theirs.missing,
                secret=mine.secret and theirs.secret,
                known=mine.known or theirs.known,
            )
            for mine, theirs in declared
        }
        return self._with_each(lambda column: told.get(column.name, column))

    def with_secret(self, names: Iterable[str]) -> "Schema":
        """Return the schema in which just these columns are secret."""
        secret = set(names)
        return self._with_each(lambda column: replace(column, secret=column.name in secret))

    def with_secret_sources(self) -> "Schema":
        """Return the schema in which all is secret of which a secret column is computed."""
        secret = {column.name for column in (*self.columns, *self.derived) if column.secret}
        for column in reversed(self.derived):
            secret |= {*column.formula.columns} if column.name in secret else set()
        return self.with_secret(secret) if self.derived else self

    def _with_each(self, change: Callable[[Column], Column]) -> "Schema":
        """Return the schema with every column changed, derived ones among them."""
        return replace(self, columns=tuple(map(change, self.columns)), derived=tuple(map(change, self.derived)))

    @property
    def mechanism(self) -> "Schema":
        """What is declared that changes the numbers that go out: no words, nothing about the prior."""
        return self._with_each(lambda column: column.mechanism)

    def entries(self) -> dict[str, Any]:
        """Return the entries of a table file that declares this schema."""
        every = (*self.columns, *self.derived)
        if self.visits is None:
            return {"columns": {column.name: column.entries() for column in every}}
        of_visits = self.visits.of_column
        columns = {column.name: column.entries() | of_visits(column.name) for column in every}
        return self.visits.entries() | {"columns": columns}

    def adjusted(
        self,
        log: Iterable[str] = (),
        positive: Iterable[str] = (),
        decimals: Mapping[str, int] | None = None,
        missing: Iterable[float] = (),
    ) -> "Schema":
        """Return the schema with a log scale, a limit of 0 or decimals for some columns.

        `missing` holds for all columns.
        """
        digits_of, log, positive = dict(decimals or {}), tuple(log), tuple(positive)
        self._require_free({*log, *positive, *digits_of})
        columns, codes = {column.name: column for column in self.columns}, tuple(float(code) for code in missing)
        for name in (*log, *positive, *digits_of):  # of one visit: what is said of the column holds there, too
            columns.setdefault(name, self.visits.at_visit(name, columns) if self.visits else Column(name))
        for name in log:
            columns[name] = replace(columns[name], scale=Scale.of("log"))
        for name in positive:
            columns[name] = replace(columns[name], low=max(columns[name].low, 0.0))
        for name, digits in digits_of.items():
            columns[name] = replace(columns[name], decimals=decimals_from(digits), heaps=None)
        if (log or positive or digits_of) and (faults := order_faults(list(columns.values()))):
            name, fault = faults[0]
            raise InputError(f"an order cannot be kept: {name!r}: {fault}", "declare it in the table file")
        every = replace(self, columns=(*columns.values(),), missing=tuple(dict.fromkeys((*self.missing, *codes))))
        return every._with_each(lambda each: replace(each, missing=tuple(dict.fromkeys((*each.missing, *codes)))))

    def _require_free(self, names: Container[str]) -> None:
        """Refuse to adjust columns that are computed from others, or lie beside them."""
        held = [*self.derived, *(column for column in self.columns if column.order is not None)]
        if named := [column.name for column in held if column.name in names]:
            raise InputError(
                f"{named[0]!r} is computed from other columns, or lies above, below or between them, and takes no "
                "scale, limit or decimals besides",
                "declare decimals of it in the table file, and here name only other columns",
            )

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in (*self.columns, *self.derived)}

    def _each(self, values: Any, change: Callable[[Column, np.ndarray], np.ndarray]) -> Any:
        if self.is_plain:
            return values
        ordered = {each.place for each in self.orders}  # which need the other values of their rows
        parts = [
            values[..., place] if place in ordered else change(column, values[..., place])
            for place, column in enumerate(self.measurements)
        ]
        return np.stack(parts, axis=-1)


def in_need(derived: Sequence[Column]) -> list[Column]:
    """Return derived columns so that each comes after those that it is computed from."""
    order = in_order({column.name: column.formula.columns for column in derived})
    return sorted(derived, key=lambda column: order.index(column.name))


def faults_together(columns: Sequence[Column], derived: Sequence[Column]) -> list[tuple[str, str]]:
    """Say what is wrong with columns that are right by themselves, beside the others: by name."""
    faults = _wrong_inputs(columns, derived) + order_faults(columns)
    try:
        in_need(derived)
    except InputError as error:
        faults.append((derived[0].name, str(error)))
    return faults


def refuse_visits(schema: Schema, what: str, cure: str) -> None:
    """Refuse visits where they are not taken."""
    if schema.visits is not None:
        raise InputError(f"{what} does not take visits: people with several rows", cure, "give one row a person")


def refuse_dates(schema: Schema, what: str, cure: str) -> None:
    """Refuse columns that are declared dates where they are not taken."""
    if names := ", ".join(map(repr, schema.dates)):
        raise InputError(
            f"{what} does not take dates: {names}", cure, "put the days since an origin in their place"
        )


def _parts_below_zero(columns: Sequence[Column], given: Mapping[str, Any]) -> list[str]:
    """Say which parts of a total may be negative in synthetic rows."""
    declared = {column.name: column for column in columns}
    return [
        f'{name!r:.60}: its part {part!r:.60} may be negative: declare scale = "log" for it, or low = 0'
        for name, entries in given.items()
        if isinstance(entries, Mapping) and isinstance(entries.get("sum"), list | tuple)
        for part in entries["sum"]
        if part not in declared or lowest_of(declared[part], declared) < 0
    ]


def _wrong_inputs(columns: Sequence[Column], derived: Sequence[Column]) -> list[tuple[str, str]]:
    """Say which derived columns need a column that is declared to have no number."""
    kinds = {column.name: column.kind for column in columns}
    kinds |= {column.name: CATEGORY for column in derived if column.has_levels}
    told = {CATEGORY: "is a category", LEFT_OUT: "is left out"}
    return [
        (column.name, f"it is computed from {name!r:.60}, which {told[kinds[name]]}")
        for column in derived
        for name in column.formula.columns
        if kinds.get(name) in told
    ]
