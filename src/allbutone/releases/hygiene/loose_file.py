"""A dataset by itself, without the description of its release: what its columns are is read off the values."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from allbutone.tables.declared.column import CATEGORY, Column, level_name
from allbutone.tables.files import read_table

MOST_DECIMALS = 6  # values with more are taken to have all their digits


def columns_in(path: Path) -> tuple[Column, ...]:
    """Return the columns of a file as a release would declare them: levels of text, decimals of numbers."""
    table = read_table(path, delimiter=",")
    return tuple(_column(name, table.column(place)) for place, name in enumerate(table.column_names))


def _column(name: str, values: Any) -> Column:
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        levels = sorted({level_name(level) for level in values.unique().to_pylist() if level is not None})
        return Column(name, CATEGORY, levels=tuple(levels))
    numbers = values.to_numpy().astype(np.float64)
    there = numbers[np.isfinite(numbers)]
    ways = (digits for digits in range(MOST_DECIMALS + 1) if np.array_equal(there, np.round(there, digits)))
    return Column(name, decimals=next(ways, None))
