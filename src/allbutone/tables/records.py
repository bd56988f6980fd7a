"""The gate: any table or file becomes a float64 matrix with column names, or a clear error."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.support.arrays import real_array
from allbutone.support.errors import Caution, Cure, InputError
from allbutone.support.text import counted, listed
from allbutone.tables.admission import (
    GAP_CURES,
    ColumnsError,
    Problem,
    admit,
    problems_of,
    refusal,
    require_different_rows,
    require_one_row_each,
)
from allbutone.tables.categories import Categories
from allbutone.tables.column import Column
from allbutone.tables.derived import contradictions, derived_problems, event_problems, order_problems
from allbutone.tables.files import read_table
from allbutone.tables.long_tables import PeoplesRows, require_no_visits, widen
from allbutone.tables.look import LARGEST_VALUE, look_at, look_at_column
from allbutone.tables.names import check_names, choose, chosen_frame, frame_of, names_of, row_names_left_out
from allbutone.tables.schema import Schema

# What records must be, whoever makes them: rows, finite values or declared gaps, columns that fit together.


def require_rows(count: int) -> None:
    """Refuse an empty table."""
    if count == 0:
        raise InputError("the table holds no rows", "give at least two records")


def check_categories(
    categories: Categories, names: Sequence[str], order: Sequence[str], rows: int, gaps: bool
) -> None:
    """Refuse categories of other rows, a wrong order, and gaps where there may be none."""
    if len(categories) != rows:
        raise InputError(f"there are {len(categories)} rows of categories and {rows} of measurements")
    both = (names, categories.columns)
    if len(order) != len(names) + len(categories.columns) or any(
        tuple(name for name in order if name in part) != tuple(part) for part in both
    ):
        raise InputError("the order of the columns is not that of the measurements and categories")
    if categories.has_gaps and not gaps:
        raise InputError("categories miss values", Cure("keep only the rows without gaps", "complete_cases", True))


def check_values(values: Float[np.ndarray, "n p"], names: Sequence[str], gaps: bool) -> None:
    """Refuse values that are missing, unless there may be gaps, or too large, by column and row."""
    if values.size and values.max() <= LARGEST_VALUE and values.min() >= -LARGEST_VALUE:  # false of NaN, too
        return
    for name, numbers in zip(names, values.T, strict=True):
        missing = np.isnan(numbers)
        if missing.any() and not gaps:
            raise InputError(
                f"column {name!r} misses {int(missing.sum())} of {len(numbers)} values, the first in row "
                f"{_row(missing)}",
                "complete or remove those rows",
                Cure("leave it out", "drop", [name]),
            )
        wild = ~(np.abs(numbers) <= LARGEST_VALUE) & ~missing
        if wild.any():
            row = _row(wild)
            raise InputError(
                f"column {name!r} holds {numbers[row - 1]} in row {row}, beyond ±{LARGEST_VALUE:g}",
                "correct it",
                Cure("leave it out", "drop", [name]),
            )


def _row(flags: np.ndarray) -> int:
    return int(np.argmax(flags)) + 1


@dataclass(frozen=True, eq=False)
class Records:
    """The confidential table as finite numbers: `values` of shape (n, p), one good name a column.

    values: the measurements, on the scale of the model, which `schema` declares; `natural` gives them in natural
    units. NaN where a value is missing, which it may be only with `gaps`.
    backend: the dataframe library the table came in, so that answers can go back in it.
    rows: the number of each record in the table as it came, from 1; left-out rows are missing here.
    notes: what was left out of the table and what is doubtful about it, in words. cautions: those of them that
    tell of something that nobody asked for, of which who fits a model to a table at once is warned.
    categories: the columns that are no measurements, by level number. order: all names in the table's own order.
    left_out: whether rows or columns were left out because of what is in them.
    people: of a long table, what it calls the person of each row that `rows` counts; each is one record.
    spreads: of a few records of a larger table, how many values, mean and standard deviation columns that are
    computed from others, or lie beside them, have in all of it.

    >>> import allbutone as abo
    >>> import pandas as pd
    >>> people = abo.Records.of(pd.DataFrame({"age": [41.0, 62.5, 57.0], "ldl": [2.9, 3.4, 4.1]}))
    >>> people.columns, people.values.shape
    (('age', 'ldl'), (3, 2))
    """

    values: Float[np.ndarray, "n p"]
    columns: tuple[str, ...]
    backend: nw.Implementation = nw.Implementation.PYARROW
    schema: Schema = field(default_factory=Schema)
    rows: Int[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    notes: tuple[str, ...] = ()
    categories: Categories = field(default_factory=lambda: Categories.none(0))
    order: tuple[str, ...] = ()
    gaps: bool = False
    cautions: tuple[str, ...] = ()
    left_out: bool = False
    people: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    spreads: Mapping[str, tuple[int, float, float]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Check shape, names and numbers: nobody else asks again."""
        values = np.asarray(real_array(self.values, "a matrix of records"))
        names = tuple(str(name) for name in self.columns)
        if values.ndim != 2 or values.shape[1] != len(names):
            raise InputError(
                f"{len(names)} names were given for a matrix of shape {values.shape}",
                "give one row a record and one name a column",
            )
        require_rows(len(values))
        check_values(values, names, self.gaps)
        categories = self.categories if self.categories.columns else Categories.none(len(values))
        order = self.order or (*names, *categories.columns)
        check_names(order)
        check_categories(categories, names, order, len(values), self.gaps)
        schema = self.schema.for_columns(order).with_levels(categories.columns, categories.levels)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "categories", categories)
        object.__setattr__(self, "order", tuple(order))
        object.__setattr__(self, "schema", schema)
        if len(self.rows) != len(values):
            object.__setattr__(self, "rows", np.arange(1, len(values) + 1))

    def place_of(self, row: int) -> int:
        """Return where the record of this row of the table, counted from 1, stands among the records."""
        places = np.flatnonzero(self.rows == row)
        if not len(places):
            raise InputError(f"row {row} is none of the records", f"rows run from 1 to {self.rows[-1]}")
        return int(places[0])

    @property
    def persons(self) -> np.ndarray:
        """What the table calls each person, where it names them; else the numbers of the records."""
        return self.people[self.rows - 1] if len(self.people) else self.rows

    @property
    def named(self) -> dict[str, np.ndarray]:
        """The columns that say in a table of results which record each line is of; confidential."""
        return ({"person": self.persons} if len(self.people) else {}) | {"row": self.rows}

    def who(self, place: int) -> str:
        """Say who a record is, in a word and a name: row 212, or of a long table person A17."""
        return f"{'person' if len(self.people) else 'row'} {self.persons[place]}"

    @property
    def has_gaps(self) -> bool:
        """Whether any value is missing."""
        return self.gaps and (self.categories.has_gaps or bool(np.isnan(self.values).any()))

    @cached_property
    def natural(self) -> Float[np.ndarray, "n p"]:
        """The values in natural units."""
        return self.schema.to_natural(self.values)

    def __repr__(self) -> str:
        """Return size and names alone: the values are confidential."""
        return f"Records: {counted(len(self.values), 'row')} of {listed(self.order)}"

    @classmethod
    def of(
        cls,
        table: Any,
        *,
        columns: str | Sequence[str] | None = None,
        drop: str | Sequence[str] | None = None,
        header: bool = True,
        encoding: str | None = None,
        sheet: str | None = None,
        schema: Any = None,
        missing_codes: Sequence[float] = (),
        complete_cases: bool = False,
        drop_unusable: bool = False,
        categories: bool = False,
        gaps: bool = False,
        many_cells: bool = False,
        rows_are_people: bool = False,
        one_by_one: bool = False,
    ) -> "Records":
        """Turn a file, a dataframe (pandas, polars, pyarrow, …) or a NumPy matrix into records of people.

        Nothing is dropped or repaired silently: columns that are not numbers, do not vary, lack values, are
        determined by others or look like identifiers are refused, all at once. `columns` keeps exactly those
        named, `drop` leaves those named out. With `header=False` the first line of a file is a record, and
        `columns` names all columns in order; text is UTF-8 unless its `encoding` is given, and of an Excel
        workbook with several sheets one `sheet` is named. `schema`: a table file, its entries, or a `Schema`;
        `missing_codes`: numbers that stand for no value in any column.
        `complete_cases` leaves out rows with gaps, `drop_unusable` columns that would be refused; `notes` says how
        many went. With `categories` columns may be categories (declared ones, text of few levels, numbers of two
        values), with `gaps` values may be missing, with `many_cells` categories may have more than 10,000
        combinations of levels; else all of these are refused. A table in which people have several rows is
        refused: a column, used or not, that names people names some of them twice, or all rows are there twice.
        `rows_are_people` says that each row is another person nevertheless. With `one_by_one` no column is refused
        for what its values are together (all the same, like identifiers, told by other columns): `notes` says so.
        Where the schema declares `person`,
        `visit` and `visits`, the rows of a person are one record, and columns at visits are columns: crp@6.
        What is a `Records` already has been through the gate.
        """
        if isinstance(table, Records):
            chosen = table._chosen(columns, drop)
            return (chosen.without_gaps() if complete_cases else chosen)._admitting(categories, gaps)
        declared, trusted = Schema.of(schema), columns is not None and header
        table = _content(table, header=header, names=None if header else columns, encoding=encoding, sheet=sheet)
        columns = columns if header else None  # which else names all columns
        declared, in_table, long = declared.adjusted(missing=missing_codes), names_of(table), None
        unasked = row_names_left_out(in_table, columns, drop)
        if (visits := declared.visits) is not None:
            long = widen(table, declared, columns, drop, one_by_one=one_by_one)
            table, columns, drop, declared = long.table, long.columns, None, declared.widened()
            in_table += [each for name in in_table for each in visits.names(name)]
        whole = chosen_frame(table, columns, drop, () if columns else declared.left_out)
        derived = declared.with_derived(whole.columns).derived
        frame = whole.drop([column.name for column in derived if column.name in whole.columns])
        require_rows(len(frame))
        if len(frame) < 2:
            raise InputError("the table holds one row", "give at least two records")
        if not (rows_are_people or long):
            require_one_row_each(table, declared)
            require_no_visits(table)
        looks = look_at(frame, declared, trusted=trusted, categories=categories)
        looks = [look.seen_alone() for look in looks] if one_by_one else looks
        declared = declared.with_calendars({look.name: look.calendar for look in looks})
        if not rows_are_people:
            require_different_rows(looks)
        try:
            admitted = admit(
                looks,
                len(frame),
                declared,
                complete_cases=complete_cases,
                drop_unusable=drop_unusable,
                in_table=in_table,
                gaps=gaps,
                many_cells=many_cells,
                one_by_one=one_by_one,
                who=long.people if long else (),
                further=[
                    *derived_problems(whole, looks, derived, declared),
                    *order_problems(looks, declared),
                    *event_problems(looks, derived, declared),
                ],
            )
        except ColumnsError as error:
            if long is None:
                raise
            raise refusal(long.in_rows(error.problems)) from error
        may_lack = gaps and not complete_cases
        admitted |= {name: (*unasked, *admitted[name]) for name in ("notes", "cautions")}
        admitted["notes"] = (*(long.notes if long else ()), *admitted["notes"])
        used = declared.for_columns(admitted["order"])
        there = [column.name for column in derived if column in used.derived]
        layout = [name for name in whole.columns if name in (*admitted["order"], *there)]
        schema = declared.with_derived(there, layout)
        natural = admitted.pop("natural")
        records = cls(
            **admitted,
            backend=(long.long if long else frame).implementation,
            schema=schema,
            gaps=may_lack,
            people=long.people if long else np.zeros(0, dtype=np.int64),
        )
        if not records.schema.is_plain:
            vars(records)["natural"] = natural  # to the last digit as it came: a group begins at its boundary
        return records

    @classmethod
    def of_numbers(
        cls,
        table: Any,
        *,
        columns: str | Sequence[str] | None = None,
    ) -> "Records":
        """Read as `of` does, asking only for finite numbers under good names: synthetic tables need no more."""
        if isinstance(table, Records):
            return table._chosen(columns, None)._admitting(categories=False, gaps=False)
        frame = chosen_frame(_content(table), columns, None)
        require_rows(len(frame))
        return cls(_numbers(frame, list(map(Column, frame.columns))), tuple(frame.columns), frame.implementation)

    @classmethod
    def of_synthetic(cls, table: Any, schema: Schema, *, gaps: bool = False) -> "Records":
        """Read a synthetic table of exactly the columns that `schema` declares, in its order, with its levels."""
        table, in_file = _content(table), schema.file_columns
        order, layout = tuple(column.name for column in schema.columns), schema.released_order
        if sorted(names_of(table)) != sorted(in_file):
            raise InputError(
                f"the table has the columns {listed(names_of(table))}, and {listed(in_file)} are declared",
                "give a table of those",
            )
        frame = chosen_frame(_numbered(widen(table, schema, layout)) if schema.visits else table, layout, None)
        measured = tuple(column.name for column in schema.measurements)
        natural = _numbers(frame, schema.measurements)
        for place, column in enumerate(schema.measurements):
            there = natural[~np.isnan(natural[:, place]), place]
            if not column.allows(there).all():
                raise refusal([Problem(column.name, "has values outside its limits or scale", ("correct them",))])
        looks = [look_at_column(frame[each.name], each, categories=True) for each in schema.categories]
        problems = problems_of(looks)
        if problems := [*problems, *contradictions(frame, schema, dict(zip(measured, natural.T, strict=True)))]:
            raise refusal(problems)
        found = Categories(
            np.column_stack([np.zeros((len(frame), 0), dtype=np.int64), *(look.codes for look in looks)]),
            tuple(look.name for look in looks),
            tuple(look.levels for look in looks),
        )
        values = schema.to_model(natural)
        records = cls(values, measured, frame.implementation, schema, categories=found, order=order, gaps=gaps)
        vars(records)["natural"] = natural  # to the last digit as it came
        return records

    def warn(self, table: Any) -> None:
        """Warn of what nobody asked for, where they were read from `table` just now: nobody saw their notes."""
        if table is not self:
            for caution in self.cautions:
                warnings.warn(caution, Caution, stacklevel=3)

    def to_frame(self, backend: Any = None, *, released: bool = False) -> Any:
        """Return the records as a dataframe in the table's order: natural units, levels by name, gaps as null.

        backend: "pandas", "polars" or "pyarrow"; by default the library that the table came in. released: whether
        values are rounded and limited as they are declared to go out.
        """
        # what went to a grid already would not go to the same again
        again = released and not any(column.heaps for column in self.schema.columns)
        natural = self.schema.released(self.values) if again else self.natural
        columns = dict(zip(self.columns, natural.T, strict=True))
        columns |= dict(zip(self.categories.columns, self.categories.codes.T, strict=True))
        levels = dict(zip(self.categories.columns, self.categories.levels, strict=True))
        derived = self.schema.derive(natural, synthetic=not len(self.people))
        for column in self.schema.derived:
            if column.has_levels:
                levels[column.name] = column.levels
                derived[column.name] = np.nan_to_num(derived[column.name], nan=-1.0).astype(np.int64)
        columns |= derived
        every = (*self.order, *derived) if not self.schema.layout else self.schema.layout
        columns = {name: columns[name] for name in every}
        if self.schema.visits is not None:
            columns, levels = self.schema.visits.stacked(columns, levels, self.persons)
        return frame_of(columns, levels, backend or self.backend, self.schema.dates_in_files)

    def _chosen(self, columns: Any, drop: Any) -> "Records":
        if columns is None and drop is None:  # row names went at the gate
            return self
        every = self.schema.released_order
        names = [every[place] for place in choose(every, columns, drop)]
        chosen = self.select([name for name in names if name in self.order])
        if not self.schema.derived:
            return chosen
        derived = [column.name for column in chosen.schema.derived if column.name in names]
        return chosen.with_schema(chosen.schema.with_derived(derived, names))

    def take(self, rows: Any) -> "Records":
        """Return these of the records, by place, slice or mask."""
        some = replace(self, values=self.values[rows], rows=self.rows[rows], categories=self.categories.take(rows))
        if "natural" in vars(self):  # to the last digit
            vars(some)["natural"] = self.natural[rows]
        return some

    def with_measurements(self, natural: Float[np.ndarray, "n p"]) -> "Records":
        """Return other measurements in natural units under the same names, unchecked: for many that were drawn."""
        other, same_size = Records.__new__(Records), len(natural) == len(self.values)
        vars(other).update(vars(self), values=self.schema.to_model(natural), natural=natural)
        if not same_size:
            rows = np.arange(1, len(natural) + 1)
            vars(other).update(rows=rows, categories=Categories.none(len(natural)))
        return other

    def select(self, names: Sequence[str]) -> "Records":
        """Return the records with these of their columns, in this order; refuse what would lose its end."""
        if tuple(names) == self.order:
            return self
        self.schema.require_ends(names)
        places = [self.columns.index(name) for name in names if name in self.columns]
        some = replace(
            self,
            values=np.take(self.values, places, axis=1),
            columns=tuple(self.columns[place] for place in places),
            categories=self.categories.select([name for name in names if name in self.categories.columns]),
            order=tuple(names),
        )
        if "natural" in vars(self):  # to the last digit
            vars(some)["natural"] = np.take(self.natural, places, axis=1)
        return some

    def with_schema(self, schema: Schema) -> "Records":
        """Return the records under a schema that says the same of their scales and orders."""
        some = replace(self, schema=schema)
        if "natural" in vars(self):  # to the last digit
            vars(some)["natural"] = self.natural
        return some

    def without_gaps(self) -> "Records":
        """Return the records that miss no value."""
        whole = ~(np.isnan(self.values).any(axis=1) | (self.categories.codes < 0).any(axis=1))
        if whole.all():
            return self
        some = replace(self.take(whole), gaps=False, left_out=True)
        if "natural" in vars(self):  # to the last digit
            vars(some)["natural"] = self.natural[whole]
        return some

    def _admitting(self, categories: bool, gaps: bool) -> "Records":
        """Refuse categories and gaps where they are not taken, so that neither is ever lost in silence."""
        if self.categories.columns and not categories:
            raise refusal(
                [Problem(name, "is a category, and only measurements are taken here")
                 for name in self.categories.columns]
            )  # fmt: skip
        if self.has_gaps and not gaps:
            raise InputError("the records have gaps, which are not taken here", *GAP_CURES)
        return self

    @classmethod
    def in_order(cls, table: Any, columns: Sequence[str] | None) -> "Records":
        """Read as `of_numbers` does and put the columns in this order; a table of other names is refused."""
        records = table if isinstance(table, Records) else cls.of_numbers(table)
        if columns is None:
            return records._admitting(categories=False, gaps=True)
        if set(records.order) != set(columns):
            raise InputError(
                f"the records have the columns {', '.join(records.order)}, the release {', '.join(columns)}",
                "choose the release's columns",
            )
        return records.select(columns)


def _content(table: Any, **options: Any) -> Any:
    """Read what is a file, with these options of `read_table`; other tables are as they are."""
    if isinstance(table, str | PathLike):
        return read_table(Path(table), **options)
    if not options.get("header", True):
        raise InputError("only a file can be without a header", "name the columns of the table itself")
    if options.get("encoding") is not None or options.get("sheet") is not None:
        raise InputError("only a file has an encoding or sheets", "leave them out")
    return table


def _numbered(long: PeoplesRows) -> Any:
    """Return the records of a synthetic long table, whose people are 1, 2, 3, …"""
    if not np.array_equal(long.people, np.arange(1, len(long.people) + 1)):
        raise InputError("people of a synthetic table are numbered 1, 2, 3, …", "give the table as it was drawn")
    return long.table


def _numbers(frame: nw.DataFrame[Any], columns: Sequence[Column]) -> Float[np.ndarray, "n p"]:
    """Return the columns as float64, or say which row of the first that is none is not a number."""
    values = np.empty((len(frame), len(columns)))
    for place, column in enumerate(columns):
        look = look_at_column(frame[column.name], Column(column.name, calendar=column.calendar), trusted=True)
        if len(look.numbers) != len(frame):
            raise refusal(problems_of([look]))
        values[:, place] = look.numbers
    return values


# The embedded cohort: a simulated stand-in for real people, so that everything can be tried safely.


COLUMNS = ("T2D", "CAD", "HT", "BMI", "HBA1C")
PEOPLE = 503
OUTLIER = 212  # the 1-based row of the one deliberate outlier
_CORRELATION = np.array(
    [
        [1.00, 0.25, 0.30, 0.40, 0.45],
        [0.25, 1.00, 0.35, 0.20, 0.10],
        [0.30, 0.35, 1.00, 0.25, 0.10],
        [0.40, 0.20, 0.25, 1.00, 0.20],
        [0.45, 0.10, 0.10, 0.20, 1.00],
    ]
)
_OUTLYING = np.array([5.5, -4.0, 5.0, 6.0, -4.5])


def demo_cohort() -> Records:
    """Return 503 simulated people with five standardised polygenic scores, the same ones every time.

    Type 2 diabetes, coronary artery disease, hypertension, body mass index and glycated haemoglobin: correlated
    normal scores, and in row 212 one person far outside.

    >>> import allbutone as abo
    >>> abo.demo_cohort().columns
    ('T2D', 'CAD', 'HT', 'BMI', 'HBA1C')
    """
    rng = np.random.default_rng(503)
    values = rng.standard_normal((PEOPLE, len(COLUMNS))) @ np.linalg.cholesky(_CORRELATION).T
    values[OUTLIER - 1] = _OUTLYING
    return Records(np.round(values, 4), COLUMNS)


# Counts, sums and cross-products of records by cell: what stands for a table whose records are not all here.


@dataclass(frozen=True, eq=False)
class Sums:
    """Of each cell c: how many records nₛ, Σ y and Σ yyᵀ with y = x − origin; codes: the levels of each cell."""

    origin: Float[np.ndarray, " p"]
    count: Float[np.ndarray, " cells"]
    total: Float[np.ndarray, "cells p"]
    products: Float[np.ndarray, "cells p p"]
    codes: Int[np.ndarray, "cells q"]

    @property
    def people(self) -> int:
        """The number of records."""
        return int(self.count.sum())

    @property
    def scatter(self) -> Float[np.ndarray, "p p"]:
        """The scatter of all records together: Σ yyᵀ − n·ȳȳᵀ."""
        total = self.total.sum(axis=0)
        return self.products.sum(axis=0) - np.outer(total, total) / max(self.count.sum(), 1.0)

    def take(self, cells: Any) -> "Sums":
        """Return these of the cells."""
        return Sums(self.origin, self.count[cells], self.total[cells], self.products[cells], self.codes[cells])

    def select(self, places: Sequence[int]) -> "Sums":
        """Return these of the measurements."""
        kept = list(places)
        products = self.products[:, kept][:, :, kept]
        return Sums(self.origin[kept], self.count, self.total[:, kept], products, self.codes)

    def with_columns(self, known: Float[np.ndarray, "cells d"]) -> "Sums":
        """Return the sums of all records together, with d further columns that are constant within each cell.

        They come after the measurements: Σ yk, Σ kkᵀ follow from the counts and sums of the cells.
        """
        weighted, cross = known * self.count[:, None], self.total.T @ known
        total = np.concatenate([self.total.sum(axis=0), weighted.sum(axis=0)])
        products = np.block([[self.products.sum(axis=0), cross], [cross.T, known.T @ weighted]])
        origin = np.concatenate([self.origin, np.zeros(known.shape[1])])
        nothing = np.zeros((1, 0), dtype=np.int64)
        return Sums(origin, self.count.sum(keepdims=True), total[None], products[None], nothing)

    def by_cell(self, codes: Int[np.ndarray, "cells q"]) -> "Sums":
        """Return these with the cells that have the same of these codes added up."""
        cells, place = np.unique(codes, axis=0, return_inverse=True)

        def added(values: np.ndarray) -> np.ndarray:
            total = np.zeros((len(cells), *values.shape[1:]))
            np.add.at(total, place.reshape(-1), values)
            return total

        return Sums(self.origin, added(self.count), added(self.total), added(self.products), cells)
