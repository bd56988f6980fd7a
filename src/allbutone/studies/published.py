"""What was published about the cells of a design, beside ours: printed numbers and a verdict on each.

The numbers are kept as they were printed, in a CSV file beside the design, so that they can be shown in the
paper's own form and their rounding is known.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.errors import InputError
from allbutone.tables.safe_read import read_text

PLACE = ("release", "p", "n", "count", "rows")
DISTANCES = ("median", "min", "max")  # of the distance; beside them the mean record: mean_x1, mean_x2, …
AGAIN = 1000  # replicates behind each published number
MISS = 0.005  # chance that a number of another 1000 lies beyond either end of its interval
_Z = 2.576
_TINY = 1e-12  # what rounding may take from a chance
_PUBLISHED = "published_"
_NUMBER = re.compile(r"mean_x[1-9][0-9]{0,3}|median|min|max")
_SIDE = "{}_from", "{}_to"
TYPICAL = {"min": "min_typical", "max": "max_typical"}  # a row's extremes that compare with those of 1000

Place = tuple[Any, ...]
Printed = dict[str, str]


def read_published(path: Path) -> dict[Place, Printed]:
    """Read printed numbers by release, p, n, count and rows (empty for parameters).

    Columns: mean_x1, mean_x2, … (the mean record), median, min and max (of the distance), as many of them as were
    printed, and `table`, the name of the table, if it has one.
    """
    cure = f"give a CSV file with the columns {', '.join(PLACE)} and some of mean_x1, …, {', '.join(DISTANCES)}"
    lines = csv.DictReader(io.StringIO(read_text(path, cure), newline=""), strict=True)
    found = {}
    try:
        for line in lines:
            rows = int(line["rows"]) if line["rows"] else None
            place = (line["release"], int(line["p"]), int(line["n"]), int(line["count"]), rows)
            numbers = {name: text for name, text in line.items() if name and _NUMBER.fullmatch(name)}
            if not numbers:
                raise KeyError("no column of printed numbers")
            if any(not np.isfinite(float(text)) for text in numbers.values()):
                raise ValueError("a number that is not finite")
            found[place] = numbers | {"table": line.get("table") or ""}
    # a column that is not there, a line that ends before it, text that is no number, a quote that does not end
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(
            f"cannot be read ({error!s:.80})", cure, where=f"{path.name}, line {lines.line_num}"
        ) from error
    return found


def another_thousand(
    candidate: Float[np.ndarray, "r p"], distance: Float[np.ndarray, " r"], again: int = AGAIN
) -> dict[str, float | None]:
    """Return where the mean record, median, minimum and maximum of another 1000 replicates lie: 99 % intervals.

    With R replicates of ours and m = `again` theirs. A mean: ours ± 2.576·SD·√(1/R + 1/m). A median: between our
    order statistics R/2 ∓ 2.576·½·√(R + R²/m). A minimum: the chance that theirs lies beyond our k-th smallest is
    Πᵢ (R − i)/(R + m − i), i < k, whatever the distribution; a maximum likewise. An end that our replicates do
    not reach is None: the far end of an extreme needs 199,000 of them. `min_typical`, `max_typical`: where half
    of the extremes of 1000 lie on either side, to stand beside a printed one whatever the number of replicates.
    """
    count = len(distance)
    middle = candidate.mean(axis=0)
    half = _Z * candidate.std(axis=0) * np.sqrt(1 / count + 1 / again)
    ends: dict[str, tuple[Any, Any]] = {
        f"mean_x{at}": (centre - width, centre + width)
        for at, (centre, width) in enumerate(zip(middle, half, strict=True), 1)
    }
    ordered = np.sort(distance)
    step = _Z / 2 * np.sqrt(count + count**2 / again)
    first, last = round(count / 2 - step), round(count / 2 + step)
    ends["median"] = (ordered[first], ordered[last]) if first >= 0 and last < count else (None, None)
    low, typical_min, high = _smallest(ordered, again)
    ends["min"] = low, high
    high, typical_max, low = (None if end is None else -end for end in _smallest(-ordered[::-1], again))
    ends["max"] = low, high
    found = {side.format(name): end for name, pair in ends.items() for side, end in zip(_SIDE, pair, strict=True)}
    found |= {TYPICAL["min"]: typical_min, TYPICAL["max"]: typical_max}
    return {name: None if end is None else float(end) for name, end in found.items()}


def _smallest(ordered: Float[np.ndarray, " r"], again: int) -> tuple[Any, Any, Any]:
    """Return the low end, the middle and the high end of the smallest of another 1000; None where ours end."""
    below, middle, above = _places(len(ordered), again)
    return (
        ordered[below - 1] if below else None,
        ordered[max(middle - 1, 0)],
        ordered[above] if above < len(ordered) else None,
    )


@lru_cache
def _places(count: int, again: int) -> tuple[int, int, int]:
    """Return how many of our smallest theirs exceeds with a chance of 0.995, 0.5 and 0.005."""
    place = np.arange(count)
    beyond = np.cumprod((count - place) / (count + again - place))  # chance that theirs exceeds our (place + 1)-th
    below, middle, above = (int(np.sum(beyond > chance - _TINY)) for chance in (1 - MISS, 0.5, MISS))
    return below, middle, above


def beside(row: Mapping[str, Any], printed: Printed | None) -> dict[str, Any]:
    """Return what stands beside a cell's row: each printed number, a verdict on the cell, and where it differs."""
    judged = {} if printed is None else verdicts(row, printed)
    known = bool(judged) and None not in judged.values()
    differing = [name for name, verdict in judged.items() if verdict == "differs"]
    numbers = {} if printed is None else {f"{_PUBLISHED}{name}": float(printed[name]) for name in judged}
    return {
        "published_median": None,  # every table of cells has this column
        **numbers,
        "verdict": ("differs" if differing else "agrees") if known else None,
        "differs_in": " ".join(differing) if known else None,
    }


def verdicts(row: Mapping[str, Any], printed: Printed) -> dict[str, str | None]:
    """Say of each printed number whether it agrees with ours.

    It does if it lies, give or take half a unit of its last printed digit, in the 99 % interval for another 1000
    replicates; None where too few replicates have no such interval.
    """
    return {name: _verdict(row, name, printed[name]) for name in printed if name != "table"}


def _verdict(row: Mapping[str, Any], name: str, printed: str) -> str | None:
    low, high = (row.get(side.format(name)) for side in _SIDE)
    if low is None and high is None:
        return None
    # R prints 13.0 as 13: one digit was meant
    allowed = 0.5 * 10.0 ** -max(1, len(printed.partition(".")[2])) + 1e-9
    value = float(printed)
    beyond = (low is not None and value < low - allowed) or (high is not None and value > high + allowed)
    return "differs" if beyond else "agrees"


def agreement(rows: Iterable[Mapping[str, Any]]) -> str:
    """Say in two sentences how many of the published numbers agree with ours."""
    every, differing = Counter[str](), Counter[str]()
    for row in rows:
        if row["verdict"]:
            numbers = (name for name, value in row.items() if name.startswith(_PUBLISHED) and value is not None)
            every.update(_kind(name.removeprefix(_PUBLISHED)) for name in numbers)
            differing.update(map(_kind, row["differs_in"].split()))
    if not every:
        return "Nothing was published about these cells."
    parts = [f"{kind} {every[kind] - differing[kind]} of {every[kind]}" for kind in every]
    return (
        f"Of {every.total()} published numbers {every.total() - differing.total()} agree with ours (lie in the "
        f"99 % interval for another 1000 replicates, rounding allowed for), {differing.total()} differ. Agreeing: "
        f"{', '.join(parts)}."
    )


def _kind(name: str) -> str:
    return "mean record" if name.startswith("mean_x") else {"min": "minimum", "max": "maximum"}.get(name, name)
