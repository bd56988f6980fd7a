"""Columns of categories: each value is one of a public set of levels, and is held by its level's number."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Int

from allbutone.support.errors import Cure, InputError
from allbutone.tables.column import check_levels, level_name
from allbutone.tables.names import check_names

MOST_CELLS = 10_000
MANY_LEVELS = 20  # more are those of a place or a diagnosis, hardly of a design
PEOPLE_A_LEVEL = 10  # on average, of a column that is said to tell another
MISSING = -1


@dataclass(frozen=True, eq=False)
class Categories:
    """Columns of categories, by level number.

    codes: from 0, in the order of the column's levels; -1 where a value is missing.
    levels: the names of each column's levels, in order.
    """

    codes: Int[np.ndarray, "n q"]
    columns: tuple[str, ...] = ()
    levels: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        """Check shape, names and numbers: nobody else asks again."""
        codes = np.asarray(self.codes, dtype=np.int64)
        names = tuple(str(name) for name in self.columns)
        levels = tuple(tuple(str(level) for level in each) for each in self.levels)
        if codes.ndim != 2 or not codes.shape[1] == len(names) == len(levels):
            raise InputError(
                f"{len(names)} names and {len(levels)} sets of levels were given for codes of shape {codes.shape}",
                "give one of each a column",
            )
        check_names(names)
        for name, column, each in zip(names, codes.T, levels, strict=True):
            check_levels(each, where=f"column {name!r}")
            if len(column) and not (column.min() >= MISSING and column.max() < len(each)):
                raise InputError(f"{name!r} has numbers that are none of its {len(each)} levels", "number from 0")
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "levels", levels)

    @classmethod
    def none(cls, n: int) -> "Categories":
        """Return no columns, of n rows."""
        return cls(np.zeros((n, 0), dtype=np.int64))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.codes)

    def __repr__(self) -> str:
        """Return the names and levels alone: who has which is confidential."""
        each = (f"{name} ({', '.join(levels)})" for name, levels in zip(self.columns, self.levels, strict=True))
        return f"Categories: {'; '.join(each) or 'none'}"

    @property
    def has_gaps(self) -> bool:
        """Whether any value is missing."""
        return bool((self.codes < 0).any())

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many levels each column has."""
        return tuple(len(each) for each in self.levels)

    @property
    def cells(self) -> int:
        """The number of cells of the cross-classification, as a whole number of any size."""
        return prod(self.sizes)

    def require_few_cells(self) -> None:
        """Refuse a cross-classification of more cells than can be counted."""
        if self.cells > MOST_CELLS:
            require_few_cells(dict(zip(self.columns, self.sizes, strict=True)), self.told_by_others())

    def told_by_others(self) -> list[str]:
        """Return the columns whose level another one tells of everybody, as a trial's arm tells who is treated.

        Of copies all but one are returned. What has few people a level, as a name has, would tell everything.
        """
        told: list[int] = []
        for place in np.argsort(self.sizes, kind="stable").tolist():
            others = (other for other in range(len(self.columns)) if other != place and other not in told)
            if any(self._tells(other, place) for other in others):
                told.append(place)
        return [self.columns[place] for place in sorted(told)]

    def _tells(self, one: int, other: int) -> bool:
        pairs = self.codes[(self.codes[:, [one, other]] >= 0).all(axis=1)][:, [one, other]]
        levels = len(np.unique(pairs[:, 0]))
        return 0 < PEOPLE_A_LEVEL * levels <= len(pairs) and len(np.unique(pairs, axis=0)) == levels

    def take(self, rows: Any) -> "Categories":
        """Return these rows, by number, slice or mask."""
        return Categories(self.codes[rows], self.columns, self.levels)

    def select(self, names: Sequence[str]) -> "Categories":
        """Return these columns, in this order."""
        places = [self.columns.index(name) for name in names]
        return Categories(self.codes[:, places], tuple(names), tuple(self.levels[place] for place in places))

    def names(self, column: str) -> np.ndarray:
        """Return the level's name of every row of a column, and None where it is missing."""
        place = self.columns.index(column)
        return np.array([*self.levels[place], None], dtype=object)[self.codes[:, place]]  # −1 is the last, None


def require_few_cells(sizes: dict[str, int], told: Sequence[str] = ()) -> None:
    """Refuse columns whose numbers of levels multiply to more than 10,000 cells.

    `told`: those that other categories tell, which can be left out at no loss. Besides these only a column of
    very many levels is named as one to leave out: which of the others matter, such as the treatment, users say.
    """
    if (cells := prod(sizes.values())) <= MOST_CELLS:
        return
    largest = max(sizes, key=lambda name: sizes[name])
    problem = f"the {len(sizes)} columns of categories have {cells:,} combinations of levels"
    problem += f", more than {MOST_CELLS:,}"
    cures: list[Cure | str] = []
    if told:
        cures.append(Cure("leave out those that another category tells anyway", "drop", list(told)))
    if sizes[largest] > MANY_LEVELS:
        problem += f"; {largest!r} has most levels, {sizes[largest]}"
        cures += ["merge some of its levels", Cure("leave it out", "drop", [largest])]
    else:
        cures += ["merge levels", Cure("name the columns that matter most", "columns")]
    raise InputError(problem, *cures)


def encode(column: nw.Series[Any], missing: Sequence[float] = ()) -> tuple[Int[np.ndarray, " n"], tuple[str, ...]]:
    """Return a column's level numbers and levels: in the order of its own type where that has one, else sorted.

    A gap, an empty text and a number that stands for no value (`missing`) are missing, −1.
    """
    if column.dtype.is_numeric():
        return _encode_numbers(column.cast(nw.Float64).to_numpy(), missing)
    import pyarrow as pa
    import pyarrow.compute as pc

    array = arrow_of(column)
    kept_order = pa.types.is_dictionary(array.type)
    array = array if kept_order else pc.dictionary_encode(array)
    names = [None if value is None else level_name(value) for value in array.dictionary.to_pylist()]
    codes = array.indices.cast(pa.int64()).fill_null(MISSING).to_numpy()
    if len(codes) and codes.max() >= len(names):
        raise InputError(f"{column.name!r} refers to levels that its file does not hold", "write the file again")
    used = set(np.unique(codes).tolist())
    if kept_order and column.dtype != nw.Enum and column.implementation.is_polars():
        names = [value if place in used else None for place, value in enumerate(names)]  # those of other tables
    levels = list(dict.fromkeys(value for value in names if value is not None and value.strip()))
    if not kept_order:
        levels.sort()
    place_of = {level: place for place, level in enumerate(levels)}
    new = np.array([*(place_of.get(value or "", MISSING) for value in names), MISSING], dtype=np.int64)
    return new[codes], tuple(levels)


def match_levels(
    codes: Int[np.ndarray, " n"], found: Sequence[str], declared: Sequence[str], dtype: Any
) -> tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Return the codes among the declared levels, and which entries have a value that is none of them.

    Numbers are compared as numbers, and true and false in letters of any size: a level that was released as text
    may be read back from a file as either.
    """
    key = _number if dtype.is_numeric() else str.casefold if dtype == nw.Boolean else str
    place_of = {key(level): place for place, level in reversed(list(enumerate(declared)))}
    new = np.array([*(place_of.get(key(level), MISSING - 1) for level in found), MISSING], dtype=np.int64)
    matched = new[codes]
    beyond = matched < MISSING
    return np.where(beyond, MISSING, matched), beyond


def _number(level: str) -> float | str:
    try:
        return float(level)
    except ValueError:
        return level


def _encode_numbers(
    numbers: np.ndarray, missing: Sequence[float]
) -> tuple[Int[np.ndarray, " n"], tuple[str, ...]]:
    gaps = np.isnan(numbers) | np.isin(numbers, missing)
    codes = np.full(len(numbers), MISSING, dtype=np.int64)
    different, codes[~gaps] = np.unique(numbers[~gaps], return_inverse=True)
    return codes, tuple(level_name(value) for value in different)


def arrow_of(column: nw.Series[Any]) -> Any:
    """Return any column as an Arrow array; one of mixed values as text."""
    import pyarrow as pa

    try:
        arrow = column.to_arrow()
    except (pa.ArrowException, TypeError):
        texts = [None if value is None or value != value else level_name(value) for value in column.to_list()]
        return pa.array(texts, pa.string())
    return arrow.combine_chunks() if isinstance(arrow, pa.ChunkedArray) else arrow
