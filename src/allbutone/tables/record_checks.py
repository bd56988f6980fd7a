"""What records must be, whoever makes them: rows, finite values or declared gaps, columns that fit together."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from allbutone.support.errors import Cure, InputError
from allbutone.tables.categories import Categories
from allbutone.tables.look import LARGEST_VALUE


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
