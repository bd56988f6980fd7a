"""Records in an engine (files, a database, a cluster): known by their sums, fetched only a few at a time."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted, listed
from allbutone.tables.admission import Problem, gaps_of, left_out_words, notes_of, problems_of, refusal
from allbutone.tables.categories import Categories, require_few_cells
from allbutone.tables.column import Column
from allbutone.tables.engines.gate import (
    columns_together,
    first_pass,
    look_at_levels,
    require_one_row_each_there,
    two_valued,
    whole_cells,
)
from allbutone.tables.engines.queries import (
    Measured,
    ask,
    by_cell,
    in_blocks,
    level_number,
    names_in,
    recut,
    second_pass,
    tree_sum,
    with_ends,
)
from allbutone.tables.engines.relations import Relations, derived_there, spread_there
from allbutone.tables.look import Look
from allbutone.tables.names import choose, is_lazy_frame, row_names_left_out
from allbutone.tables.records import Records, Sums, require_rows
from allbutone.tables.schema import Schema, refuse_dates, refuse_visits

BLOCK_ROWS = 1 << 16  # records at a time; their numbers and what is said of each take some 50 MB
MOST_NUMBERS = 20_000  # in an expression: engines take minutes to read longer ones


@dataclass(frozen=True, eq=False)
class Centres:
    """What distances are measured from in each cell: d = stretch·‖W(x − centre)‖², W lower triangular.

    cells: the numbers of the cells that hold records, in order; of a table without categories, 0 alone.
    """

    cells: Int[np.ndarray, " c"]
    centre: Float[np.ndarray, "c p"]
    whitening: Float[np.ndarray, "c p p"]
    stretch: Float[np.ndarray, " c"]

    def require_few(self) -> None:
        """Refuse more numbers than an engine reads in one expression."""
        p = self.centre.shape[1]
        each = p + 1 + (p * (p + 1) // 2 if np.ptp(self.whitening, axis=0).any() else 0)
        if len(self.cells) > 1 and len(self.cells) * each > MOST_NUMBERS:
            raise InputError(
                f"the table has {counted(len(self.cells), 'combination')} of levels, too many for an engine to "
                "compare records within each",
                "merge levels, or leave categories out",
                Cure("let the cells share one spread", "cells", "main effects"),
            )


@dataclass(frozen=True, eq=False)
class LazyRecords:
    """The confidential table in its engine: what is declared of it, and its sums.

    frame: the table as the engine has it. columns: the measurements. sums: count, sums and cross-products on the
    model's scale, of each cell of the categories. categories: their names and levels, without rows. order: all
    names in the table's own order. notes: what was left out, in words. whole: the measurements without a gap.
    level_values: for each category, the number of the level that each value in the engine stands for.
    """

    frame: nw.LazyFrame[Any] = field(repr=False)
    columns: tuple[str, ...]
    schema: Schema
    sums: Sums = field(repr=False)
    categories: Categories = field(default_factory=lambda: Categories.none(0))
    order: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    whole: frozenset[str] = frozenset()
    level_values: tuple[dict[Any, int], ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls,
        table: Any,
        *,
        columns: str | Sequence[str] | None = None,
        drop: str | Sequence[str] | None = None,
        schema: Any = None,
        missing_codes: Sequence[float] = (),
        complete_cases: bool = False,
        drop_unusable: bool = False,
        categories: bool = False,
        rows_are_people: bool = False,
    ) -> "LazyRecords":
        """Check a lazy frame of any library that narwhals knows, in two passes; arguments as to `Records.of`.

        The first pass counts gaps and values outside limits and finds the columns' means, the second adds up
        products about these. Nothing else comes back: 1 + p + p(p+1)/2 numbers, for each cell of the categories.
        """
        if isinstance(table, LazyRecords):
            return table
        frame = nw.from_native(table)
        kinds, declared = names_in(frame), Schema.of(schema).adjusted(missing=missing_codes)
        for refuse in (refuse_visits, refuse_dates):
            refuse(declared.among(kinds), "a table that stays in its engine", "read it as a file")
        left_out = () if columns else [name for name in declared.left_out if name in kinds]
        names = [name for name in kinds if name not in left_out]
        chosen = [names[place] for place in choose(names, columns, drop)]
        if not rows_are_people:
            require_one_row_each_there(frame, kinds)
        derived = declared.with_derived(chosen).derived
        computed = {column.name for column in derived}
        told = {name: kinds[name] for name in chosen if name not in computed}
        rows, seen, looks = first_pass(frame, told, declared, trusted=columns is not None, categories=categories)
        require_rows(rows)
        problems = problems_of(looks) + ([] if complete_cases else gaps_of(looks, rows))
        refused = {problem.column for problem in problems}
        beside = derived or any(declared.column(name).order for name in seen)
        while beside and (found := _relations(frame, kinds, declared, derived, seen, looks, refused).problems()):
            problems += found
            refused |= {problem.column for problem in found}
        measured = with_ends(
            [
                Measured(name, declared.column(name), each.values == rows and not each.outside)
                for name, each in seen.items()
                if name not in refused
            ]
        )
        if not measured:
            raise _nothing_left(problems, drop_unusable)
        grouped = [look.name for look in looks if look.kind == "category" and look.name not in refused]
        origin = np.array([seen[each.name].mean for each in measured])
        try:
            groups = {f"g{place}": name for place, name in enumerate(grouped)}
            answer, sums = second_pass(on_model_scale(frame, measured, groups), origin, list(groups))
            levels = look_at_levels(answer, [declared.column(name) for name in grouped], sums)
        except InputError as error:
            if problems and not drop_unusable:  # these come first, as in memory
                raise _refusal(problems) from error
            raise
        levels, cells, grouping, more = whole_cells(levels, len(answer), rows, gaps=complete_cases)
        sums = sums.take(cells).by_cell(grouping.codes)
        problems += more + columns_together(sums, measured, grouping)
        if categories and sums.people > 2:
            open_kinds = [place for place, each in enumerate(measured) if not declared.declares(each.name)]
            problems += two_valued(sums.select(open_kinds), [measured[place] for place in open_kinds], seen)
        if problems and not drop_unusable:
            raise _refusal(problems)
        require_few_cells(dict(zip(grouping.columns, grouping.sizes, strict=True)))
        refused = {problem.column for problem in problems}
        places = [place for place, each in enumerate(measured) if each.name not in refused]
        if not places:
            raise _nothing_left(problems, drop_unusable)
        if sums.people < 2:
            raise InputError("fewer than two rows are without gaps", "complete the table")
        kept = {look.name: look for look in [*looks, *levels]}
        used = [kept[name] for name in chosen if name in told and name not in refused]
        lost = left_out_words(problems, rows, sums.people)
        notes, _ = notes_of(used, declared, kinds, lost, sums.people)
        names_used = [look.name for look in used]
        declared.for_columns([each.name for each in measured]).require_ends(names_used)
        there = [each.name for each in declared.for_columns(names_used).derived if each.name in computed - refused]
        declared = declared.with_derived(there, [name for name in chosen if name in (*names_used, *there)])
        return cls(
            frame,
            columns=tuple(measured[place].name for place in places),
            schema=declared.for_columns(names_used).with_levels(grouping.columns, grouping.levels),
            sums=sums.select(places),
            categories=grouping.take(slice(0, 0)),
            order=tuple(names_used),
            notes=(*row_names_left_out(names, columns, drop), *notes),
            whole=frozenset(each.name for each in measured if each.whole),
            level_values=tuple(
                dict(zip(answer[f"g{grouped.index(name)}"].take(cells).to_pylist(), codes.tolist(), strict=True))
                for name, codes in zip(grouping.columns, grouping.codes.T, strict=True)
            ),
        )

    def __len__(self) -> int:
        """Return the number of records."""
        return self.sums.people

    def __repr__(self) -> str:
        """Return size and names alone: the values are confidential."""
        return f"LazyRecords: {counted(len(self), 'row')} of {listed(self.order)}"

    def with_schema(self, schema: Schema) -> "LazyRecords":
        """Return the records under a schema that says the same of their scales."""
        return replace(self, schema=schema)

    def measured(self, key: str | None = None, *, gaps: bool = False) -> nw.LazyFrame[Any]:
        """Return the rows without gaps as x0, x1, … on the scale of the model, and the column `key` as key.

        Where there are categories, `cell` is the number of their combination, the last category running fastest.
        With `gaps` the rows that lack measurements are there, too, as null. Where columns are computed from
        others, or lie beside them, n0, n1, … are the values in natural units, to the last digit.
        """
        if key is not None and key not in names_in(self.frame):
            raise InputError(f"there is no column {key!r}", f"choose among {listed(tuple(names_in(self.frame)))}")
        measured = with_ends(
            [Measured(name, self.schema.column(name), name in self.whole) for name in self.columns]
        )
        further = {f"g{place}": name for place, name in enumerate(self.categories.columns)}
        keys = {} if key is None else {"key": key}
        frame = on_model_scale(self.frame, measured, further | keys, gaps=gaps, natural=self._needs_natural)
        if not further:
            return frame
        levels = [level_number(nw.col(f"g{place}"), each) for place, each in enumerate(self.level_values)]
        frame = frame.with_columns(*(level.alias(f"g{place}") for place, level in enumerate(levels)))
        frame = frame.filter(nw.all_horizontal(*(nw.col(name) >= 0 for name in further), ignore_nulls=False))
        strides = np.cumprod([1, *self.categories.sizes[:0:-1]])[::-1]
        cell = tree_sum([nw.col(f"g{place}") * float(stride) for place, stride in enumerate(strides)])
        return frame.with_columns(cell.alias("cell"))

    def fetch(self, rows: nw.LazyFrame[Any], *further: str) -> tuple[Records, Any]:
        """Return a few rows of `measured` as records, and the columns `further` of the same rows."""
        answer = ask(rows.select(*self.coordinates, *further))
        return self._here(answer), answer.select(list(further))

    def _here(self, answer: Any, rows: Int[np.ndarray, " n"] | None = None) -> Records:
        """Return rows of `measured` that came back as records; `rows`: their numbers in the table."""
        values = np.column_stack([answer[f"x{place}"].to_numpy() for place in range(len(self.columns))])
        categories = Categories.none(len(values))
        if self.categories.columns:
            codes = self.codes_of(answer["cell"].to_numpy())
            categories = Categories(codes, self.categories.columns, self.categories.levels)
        records = Records(
            values.astype(np.float64),
            self.columns,
            schema=self.schema,
            rows=np.arange(1, len(values) + 1) if rows is None else rows,
            categories=categories,
            order=self.order,
            spreads=self.spreads,
        )
        if self._needs_natural:
            natural = [answer[f"n{place}"].to_numpy() for place in range(len(self.columns))]
            vars(records)["natural"] = np.column_stack(natural).astype(np.float64)
        return records

    @property
    def _needs_natural(self) -> bool:
        return bool(self.schema.derived or self.schema.orders)

    @cached_property
    def spreads(self) -> dict[str, tuple[int, float, float]]:
        """Of columns computed from others, or beside them: how many values there are, their mean and spread."""
        if not self._needs_natural:
            return {}
        places = {name: nw.col(f"n{place}") for place, name in enumerate(self.columns)}
        found = derived_there(self.schema, places, exact=True)
        numbers = {column.name: found[column.name] for column in self.schema.derived if not column.has_levels}
        numbers |= {each.column.name: places[each.column.name] for each in self.schema.orders}
        return spread_there(self.measured(), numbers)

    @property
    def coordinates(self) -> list[str]:
        """The columns of `measured` that say all of a record: x0, x1, … and, where there are categories, cell."""
        cell = ["cell"] if self.categories.columns else []
        natural = [f"n{place}" for place in range(len(self.columns) * self._needs_natural)]
        return [*(f"x{place}" for place in range(len(self.columns))), *natural, *cell]

    def codes_of(self, cells: np.ndarray) -> np.ndarray:
        """Return the levels of each category in cells by number."""
        return np.stack(np.unravel_index(cells.astype(np.int64), self.categories.sizes), axis=-1)

    @property
    def library(self) -> str:
        """The dataframe library in which answers go back."""
        engine = self.frame.implementation
        return "polars" if engine.is_polars() else "pandas" if engine.is_dask() else "pyarrow"

    def blocks(
        self, rows: int = BLOCK_ROWS, key: str | None = None
    ) -> Iterator[tuple[Records, np.ndarray | None]]:
        """Yield blocks of so many records, the last of less than twice as many, and their values of column `key`.

        Rows are counted from 1 in the order in which the engine gives them, those with gaps among them, which are
        left out: files keep their order, and a database has none.
        """
        for table in recut(self._whole_rows(key, rows), rows):
            keys = None if key is None else table["key"].to_numpy()
            yield self._here(table, table["row"].to_numpy()), keys

    def _whole_rows(self, key: str | None, rows: int) -> Iterator[Any]:
        """Yield the rows that lack nothing, with their numbers."""
        import pyarrow as pa

        seen = 0
        for table in in_blocks(self.measured(key, gaps=True), rows):
            numbered = table.append_column("row", pa.array(np.arange(seen + 1, seen + len(table) + 1)))
            seen += len(table)
            lacking = np.zeros(len(table), dtype=bool)
            for name in self.coordinates:
                # an engine that has no null says NaN
                lacking |= np.isnan(numbered[name].cast(pa.float64()).to_numpy())
            yield numbered.filter(pa.array(~lacking)) if lacking.any() else numbered

    def histograms(
        self, low: Float[np.ndarray, " p"], width: Float[np.ndarray, " p"], bins: int
    ) -> Int[np.ndarray, "p bins"]:
        """Count the values of each column in bins of equal width from `low` on; those at the ends hold all beyond.

        A query a column, whose answer is the counts.
        """
        total = np.zeros((len(self.columns), bins), dtype=np.int64)
        for column in range(len(self.columns)):
            place = (nw.col(f"x{column}") - float(low[column])) / float(width[column])
            above = nw.when(place > bins - 1).then(float(bins - 1)).otherwise(place)
            frame = self.measured().select(nw.when(place < 0).then(0.0).otherwise(above).alias("place"))
            # some engines round to whole numbers, others cut
            whole = nw.col("place").cast(nw.Int64)
            below = nw.when(whole > nw.col("place")).then(whole - 1).otherwise(whole)
            answer = ask(frame.select(below.alias("bin")).group_by("bin").agg(nw.len().alias("n")))
            total[column, answer["bin"].to_numpy()] = answer["n"].to_numpy()
        return total

    def distances(self, centres: Centres, key: str | None = None) -> "Distances":
        """Measure how far each record lies from the centre of its own cell."""
        centres.require_few()
        p, frame = centres.centre.shape[1], self.measured(key)

        def own(values: Float[np.ndarray, " c"]) -> Any:
            return by_cell(centres.cells.tolist(), values.tolist())

        centred = ((nw.col(f"x{i}") - own(centres.centre[:, i])).alias(f"y{i}") for i in range(p))
        frame = frame.with_columns(*centred)
        parts = [[nw.col(f"y{i}") * own(centres.whitening[:, j, i]) for i in range(j + 1)] for j in range(p)]
        frame = frame.with_columns(*(tree_sum(part).alias(f"w{j}") for j, part in enumerate(parts)))
        squares = tree_sum([nw.col(f"w{j}") * nw.col(f"w{j}") for j in range(p)])
        return Distances(self, frame.with_columns((squares * own(centres.stretch)).alias("d")), key)


@dataclass(frozen=True, eq=False)
class Distances:
    """The records of a table in its engine with their distances d from `Centres`, computed there.

    frame: x0, x1, …, cell and d of each record. key: the column by which records are known.
    """

    records: LazyRecords
    frame: nw.LazyFrame[Any] = field(repr=False)
    key: str | None

    def count_beyond(self, ladder: Float[np.ndarray, " steps"]) -> Int[np.ndarray, " steps"]:
        """Return how many records have a distance above each step of a ladder."""
        beyond = [
            nw.when(nw.col("d") > float(step)).then(nw.col("d")).count().alias(f"n{place}")
            for place, step in enumerate(ladder)
        ]
        answer = ask(self.frame.select(*beyond)).to_pylist()[0]
        return np.array([int(answer[f"n{place}"]) for place in range(len(ladder))])

    def farthest(
        self, most: int, *, beyond: float | None = None, cells: Sequence[int] = ()
    ) -> tuple[Records, Float[np.ndarray, " m"], tuple[Any, ...]]:
        """Fetch the records of the largest distances, the farthest first, with the distances and keys.

        `beyond`: a distance that at least so many are known to pass, so that no engine need sort the others.
        `cells`: whose records come before all others; `most` counts them, too.
        """
        frame = self.frame if beyond is None else self.frame.filter(nw.col("d") > beyond)
        extra = ["d", "priority"] if self.key is None else ["d", "priority", "key"]
        priority = nw.col("d")
        if cells:
            first = nw.col("cell").is_in([float(cell) for cell in cells])
            priority = priority + nw.when(first).then(10.0).otherwise(0.0)
        places = [nw.col(name) for name in self.records.coordinates]
        if frame.implementation.is_polars():
            # polars holds the values of rows that a filter left out until something is made of them
            places = [value + 0.0 for value in places]
        needed = frame.with_columns(priority.alias("priority")).select(*places, *extra)
        # databases know that the first few rows of a sort need none; dataframes would sort everything
        sorts = not (frame.implementation.is_dask() or frame.implementation.is_polars())
        rows = needed.sort("priority", descending=True).head(most) if sorts else needed.top_k(most, by="priority")
        records, answer = self.records.fetch(rows, *extra)
        distances = answer["d"].to_numpy()
        order = np.argsort(-distances, kind="stable")
        keys = () if self.key is None else tuple(answer["key"].to_pylist()[place] for place in order)
        return records.take(order), distances[order], keys

    def sums_within(self, distance: float) -> Sums:
        """Return the sums of the records that are not farther than this, of each cell."""
        rows, of_cells = self.frame.filter(nw.col("d") <= distance), bool(self.records.categories.columns)
        answer, sums = second_pass(rows, self.records.sums.origin, ["cell"] if of_cells else [])
        return replace(sums, codes=self.records.codes_of(answer["cell"].to_numpy())) if of_cells else sums


def is_lazy(table: Any) -> bool:
    """Say whether a table is in an engine and not in memory: a lazy frame of any library, or `LazyRecords`."""
    if isinstance(table, np.ndarray):  # the usual case, and asking takes a while
        return False
    return isinstance(table, LazyRecords) or is_lazy_frame(table)


def on_model_scale(
    frame: nw.LazyFrame[Any],
    measured: Sequence[Measured],
    further: dict[str, str],
    *,
    gaps: bool = False,
    natural: bool = False,
) -> nw.LazyFrame[Any]:
    """Return measurements on the model's scale as x0, x1, …, other columns by these names, of rows without gaps.

    With `gaps`, of all rows. With `natural` in natural units, too, as n0, n1, …

    Names of our own throughout: the table's may hold anything.
    """
    names = [f"x{place}" for place in range(len(measured))]
    others = [nw.col(name).alias(alias) for alias, name in further.items()]
    others += [each.natural.alias(f"n{place}") for place, each in enumerate(measured) if natural]
    frame = frame.select(*others, *(each.natural.alias(name) for name, each in zip(names, measured, strict=True)))
    changed = [
        each.on_model_scale(nw.col(name)).alias(name)
        for name, each in zip(names, measured, strict=True)
        if not each.declared.is_plain
    ]
    frame = frame.with_columns(*changed) if changed else frame
    there = [~nw.col(name).is_null() for name, each in zip(names, measured, strict=True) if not each.whole]
    if gaps:
        return frame
    return frame.filter(nw.all_horizontal(*there, ignore_nulls=False)) if there else frame


def _relations(
    frame: nw.LazyFrame[Any],
    kinds: Mapping[str, Any],
    declared: Schema,
    derived: Sequence[Column],
    seen: Container[str],
    looks: Sequence[Look],
    refused: Container[str],
) -> Relations:
    """Return what is declared of columns that belong together, as far as nothing stands against them yet."""
    usable = [look for look in looks if look.name not in refused]
    measured = {look.name: Measured(look.name, declared.column(look.name)) for look in usable if look.name in seen}
    categories = frozenset(look.name for look in usable if look.name not in seen)
    left = tuple(column for column in derived if column.name not in refused)
    return Relations(frame, kinds, declared, left, measured, categories)


def _refusal(problems: Sequence[Problem]) -> InputError:
    return refusal(problems, closed=("missing",))  # imputing takes the records themselves


def _nothing_left(problems: Sequence[Problem], drop_unusable: bool) -> InputError:
    """Say that no measurement can be used, and what stands against each."""
    if problems and not drop_unusable:
        return _refusal(problems)
    return InputError("no measurement can be used", "complete the table", Cure("choose columns", "columns"))
