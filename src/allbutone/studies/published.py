"""What was published about the cells of a design: a CSV file beside it, a median a line."""

import csv
import io
from pathlib import Path
from typing import Any

from allbutone.support.errors import InputError
from allbutone.tables.safe_read import read_text

COLUMNS = ("release", "p", "n", "count", "rows", "median")


def read_published(path: Path) -> dict[tuple[Any, ...], float]:
    """Read published medians by release, p, n, count and rows (empty for parameters)."""
    cure = f"give a CSV file with the columns {', '.join(COLUMNS)}"
    lines = csv.DictReader(io.StringIO(read_text(path, cure), newline=""), strict=True)
    found = {}
    try:
        for line in lines:
            rows = int(line["rows"]) if line["rows"] else None
            place = (line["release"], int(line["p"]), int(line["n"]), int(line["count"]), rows)
            found[place] = float(line["median"])
    # a column that is not there, a line that ends before it, text that is no number, a quote that does not end
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(
            f"cannot be read ({error!s:.80})", cure, where=f"{path.name}, line {lines.line_num}"
        ) from error
    return found
