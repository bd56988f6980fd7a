"""Categories of a table that stays in its engine: levels, read off the combinations that came back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float

from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.admission import OPEN_LEVELS, Problem
from allbutone.tables.categories import MOST_CELLS, encode, match_levels, require_few_cells
from allbutone.tables.declared.column import CATEGORY, Column, check_levels
from allbutone.tables.engines.sums import Sums
from allbutone.tables.look import MOST_LEVELS


@dataclass(frozen=True)
class Levels:
    """The categories that can be used, their levels, how many rows lack a value of each, and what is wrong.

    values: for each category, the number of the level that each value in the engine stands for.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    values: tuple[dict[Any, int], ...]
    missing: dict[str, int]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    def without(self, refused: set[str], sums: Sums) -> tuple["Levels", Sums]:
        """Leave columns out, and add up the cells that then are the same."""
        kept = [place for place, name in enumerate(self.names) if name not in refused]
        names, levels = tuple(self.names[place] for place in kept), tuple(self.levels[place] for place in kept)
        values = tuple(self.values[place] for place in kept)
        return replace(self, names=names, levels=levels, values=values), _by_cell(sums, sums.codes[:, kept])

    def used_by(self, sums: Sums, fixed: set[str]) -> tuple["Levels", Sums]:
        """Leave out levels that only rows with gaps have, unless they are `fixed`: levels are public."""
        levels, values, codes, lonely = list(self.levels), list(self.values), sums.codes.copy(), set[str]()
        for place, name in enumerate(self.names):
            used = np.unique(codes[:, place])
            if name in fixed or len(used) == len(levels[place]):
                continue
            numbers = {int(code): number for number, code in enumerate(used)}
            levels[place] = tuple(levels[place][code] for code in used)
            values[place] = {value: numbers[code] for value, code in values[place].items() if code in numbers}
            codes[:, place] = np.searchsorted(used, codes[:, place])
            lonely |= {name} if len(used) < 2 else set()
        problems = [Problem(name, "has one level only in the rows without gaps") for name in sorted(lonely)]
        told = replace(self, levels=tuple(levels), values=tuple(values), problems=(*self.problems, *problems))
        return told.without(lonely, replace(sums, codes=codes))


def read_levels(answer: Any, declared: Sequence[Column], sums: Sums) -> tuple[Levels, Sums]:
    """Find the levels in the columns g0, g1, … of what came back, and return the sums of each cell.

    Cells of the same levels are added up: a column may be refused, a number be a code for a missing value.
    """
    if len(answer) > MOST_CELLS:
        raise InputError(
            f"the {counted(len(declared), 'column')} of categories have more than {MOST_CELLS:,} combinations of "
            "levels",
            "merge levels, or leave columns out",
        )
    frame = nw.from_native(answer, eager_only=True)
    names, levels, values, codes, missing, problems, notes = [], [], [], [], {}, [], []
    for place, column in enumerate(declared):
        found = _levels_of(frame[f"g{place}"], column, sums.count)
        if isinstance(found, Problem):
            problems.append(found)
            continue
        numbers, these = found
        names.append(column.name)
        levels.append(these)
        values.append(_numbers_of(answer[f"g{place}"].to_pylist(), numbers))
        codes.append(numbers)
        missing[column.name] = int(sums.count[numbers < 0].sum())
        if not column.levels:
            notes.append(repr(column.name))
    require_few_cells(dict(zip(names, map(len, levels), strict=True)))
    remarks = (f"{', '.join(notes)}: {OPEN_LEVELS}",) if notes else ()
    told = Levels(tuple(names), tuple(levels), tuple(values), missing, tuple(problems), remarks)
    return told, _by_cell(sums, np.column_stack([np.zeros((len(answer), 0), dtype=np.int64), *codes]))


def _levels_of(series: nw.Series[Any], column: Column, count: Float[np.ndarray, " cells"]) -> (
    tuple[np.ndarray, tuple[str, ...]] | Problem
):  # fmt: skip
    codes, found = encode(series, column.missing)
    if not found:
        return Problem(column.name, "has no value at all")
    levels = column.levels or found
    if column.kind != CATEGORY and len(found) > MOST_LEVELS:
        cures = ("merge its levels", 'if it is a category, declare it one in a table file (kind = "category")')
        return Problem(column.name, f"has {len(found):,} different texts, many for a category", cures)
    try:
        check_levels(levels)
    except InputError as error:
        return Problem(column.name, f"has a level that cannot be used: {error.problem}", error.cures)
    if column.levels:
        before = codes
        codes, beyond = match_levels(codes, found, column.levels, series.dtype)
        if beyond:
            rows = int(count[(codes < 0) & (before >= 0)].sum())
            words = f"has a value that is none of its declared levels in {counted(rows, 'row')}"
            return Problem(column.name, words, ("correct the values or declare all levels",))
    elif len(found) == 1:
        return Problem(column.name, "has one level only: there is nothing to synthesize")
    return codes, tuple(levels)


def _numbers_of(values: Sequence[Any], codes: np.ndarray) -> dict[Any, int]:
    """Return the level's number of each different value; values that are missing have none."""
    return {value: int(code) for value, code in zip(values, codes, strict=True) if code >= 0}


def _by_cell(sums: Sums, codes: np.ndarray) -> Sums:
    """Add up what belongs to the same cell."""
    cells, place = np.unique(codes, axis=0, return_inverse=True)
    place = place.reshape(-1)

    def added(values: np.ndarray) -> np.ndarray:
        total = np.zeros((len(cells), *values.shape[1:]))
        np.add.at(total, place, values)
        return total

    return Sums(sums.origin, added(sums.count), added(sums.total), added(sums.products), cells)
