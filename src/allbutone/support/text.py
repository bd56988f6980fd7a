"""Results in words: numbers and counts as a person writes them, and what a notebook shows."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np


def counted(count: int, noun: str) -> str:
    """Return 1 dataset, 3 datasets, 1,000 datasets."""
    return f"{count:,} {noun}" + "s" * (count != 1)


def people(count: int) -> str:
    """Return 1 person, 3 people."""
    return f"{count:,} {'person' if count == 1 else 'people'}"


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names between commas; of very many, the first."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def number(value: Any, decimals: int | None = None) -> str:
    """Return a number in three digits, or all before the point: 0.697, 2.05, 1,853; text as it is, none as –.

    With `decimals`, exactly so many, with the minus of the figures' axes and none before zero.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if decimals is not None:
        return f"{round(float(value), decimals) + 0.0:.{decimals}f}".replace("-", "−")
    if np.isnan(value):
        return "–"
    whole = float(value).is_integer() or abs(value) >= 1000
    return f"{value:,.0f}" if whole and abs(value) < 1e15 else f"{value:.3g}"


def percent(share: float) -> str:
    """Return a share in per cent, that it may not be broken before the sign."""
    return f"{100 * float(share):.1f}\u00a0%"


def chance(probability: float) -> str:
    """Return a probability as a board reads it: 87 %, 3.2 %, less than 0.1 %; never certain where it is not.

    >>> [chance(each).replace("\\u00a0", " ") for each in (0.87, 0.032, 0.00001, 0.9996, 1.0)]
    ['87 %', '3.2 %', 'less than 0.1 %', 'more than 99.9 %', '100 %']
    """
    share = 100 * float(probability)
    if np.isnan(share):
        return "unknown"
    for end, words in ((0.0, "less than 0.1"), (100.0, "more than 99.9")):
        if share != end and round(share, 1) == end:
            return f"{words}\u00a0%"
    decimals = 0 if 9.95 <= share <= 90.05 else 1
    return f"{share:.{decimals}f}".removesuffix(".0") + "\u00a0%"


def at_most(probability: float) -> str:
    """Return a bound as a board reads it: at most 5 %, and less than 0.1 % where it is next to nothing.

    >>> [at_most(each).replace("\\u00a0", " ") for each in (0.05, 0.0, 0.0004)]
    ['at most 5 %', 'less than 0.1 %', 'less than 0.1 %']
    """
    words = chance(max(float(probability), 1e-9))
    return words if words.startswith("less") else f"at most {words}"


def bell_curves(count: int, noun: str = "column") -> str:
    """Say what the normal model takes for granted of so many columns."""
    if count == 1:
        return f"the {noun} follows a bell curve (normal)"
    return f"the {count:,} {noun}s together follow bell curves (jointly normal)"


def joined(words: Sequence[str], last: str = "and") -> str:
    """Return a, b and c."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


USUAL_NAME = 16  # characters of a word that a table need not break


def fitted_widths(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return how wide the columns of a table of texts are to be, so that it fits.

    The widest column that can be broken between words gives way first; where that is not enough, words that are
    longer than a usual name are broken, too.
    """
    widths = [max(1, *map(len, cells)) for cells in columns]
    least = [max(len(word) for cell in (*cells, "-") for word in cell.split(" ")) for cells in columns]
    for floor in (least, [min(USUAL_NAME, size) for size in least]):
        while sum(widths) > width and any(size > low for size, low in zip(widths, floor, strict=True)):
            _, widest = max((size, place) for place, size in enumerate(widths) if size > floor[place])
            widths[widest] -= 1
    return widths


# Results that show themselves: what a terminal and a notebook print of them.

SHOWN_BY = "allbutone.reports.shown"  # named, not imported: a floor imports only those below it


class ShowsItself:
    """A result that shows itself: in words in a terminal, in a notebook with a table and a picture."""

    def __repr__(self) -> str:
        """Return what there is to read of it, in lines of the terminal's width."""
        return import_module(SHOWN_BY).shown(self).text

    def _repr_html_(self) -> str:
        return import_module(SHOWN_BY).shown(self).page
