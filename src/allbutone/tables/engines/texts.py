"""Columns of text in an engine: whether they can be categories, or hold what was meant to be something else."""

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from allbutone.tables.admission import Problem
from allbutone.tables.engines.asking import ask
from allbutone.tables.look import AS_CATEGORY, DATE, DAYS, FEW, MOST_LEVELS, is_number, mostly_numbers

SEEN = 1000  # different texts of a column that are looked at


def text_problems(
    frame: nw.LazyFrame[Any], names: Sequence[str], *, trusted: bool, categories: bool
) -> list[Problem]:
    """Say what stands against columns of text of which nothing is declared, as `look` does of tables in memory.

    A few different texts of each come back, no rows; so it is said which text is wrong, but not where.
    """
    if not names:
        return []
    counts = ask(frame.select(*(nw.col(name).count().alias(f"n{place}") for place, name in enumerate(names))))
    problems = []
    for place, name in enumerate(names):
        rows, texts, different = int(counts[f"n{place}"][0].as_py()), *_different(frame, name)
        found = _no_category(name, texts, different, rows, trusted) if categories else _not_numeric(name, texts)
        problems += [found] if found else []
    return problems


def _different(frame: nw.LazyFrame[Any], name: str) -> tuple[list[str], int]:
    """Return some of the different texts of a column, in order, and how many there are."""
    values = frame.select(nw.col(name).alias("x")).filter(~nw.col("x").is_null()).unique()
    some = sorted(text for text in ask(values.head(SEEN))["x"].to_pylist() if text.strip())
    if len(some) < SEEN:
        return some, len(some)
    return some, int(ask(values.select(nw.len().alias("n")))["n"][0].as_py())


def _no_category(name: str, texts: Sequence[str], different: int, rows: int, trusted: bool) -> Problem | None:
    """Say why a column is not taken as a category, if it is not."""
    shown, few = _shown(texts), different <= FEW and different * 5 <= rows
    if not few and mostly_numbers(texts):
        return Problem(
            name,
            f"is not numeric: it holds {shown}, and most of its values are numbers",
            ("correct it", AS_CATEGORY),
        )
    if 2 < different == rows and not trusted:
        words = "looks like an identifier (it is different in every row)"
        return Problem(name, words, (AS_CATEGORY,), is_name=True)
    if DATE.fullmatch(shown.strip("'\"")):
        return Problem(name, "holds dates or times", (DAYS, AS_CATEGORY))
    if different <= MOST_LEVELS:
        return None
    words = f"is not numeric: it holds {shown}, and {different:,} different texts are many for a category"
    return Problem(name, words, ("merge its levels", AS_CATEGORY))


def _not_numeric(name: str, texts: Sequence[str]) -> Problem:
    """Say what a column of text holds, where only measurements are taken."""
    if not texts:
        return Problem(name, "has no value at all")
    shown = _shown(texts)
    if DATE.fullmatch(shown.strip("'\"")):
        return Problem(name, "holds dates or times", (DAYS,))
    if shown.strip("'\"").isdigit() and shown.strip("'\"").startswith("0"):
        return Problem(name, "is a code: it begins with a zero, which no number does")
    return Problem(name, f"is not numeric: it holds {shown}")


def _shown(texts: Sequence[str]) -> str:
    """Return the first text that is no number, or the first."""
    return f"{next((text for text in texts if not is_number(text)), texts[0] if texts else '')!r:.60}"
