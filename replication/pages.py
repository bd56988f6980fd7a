"""What the runs found, as the tables of docs/differences.md and docs/explained.md."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from allbutone.paper.design import verdicts
from allbutone.paper.design_file import read_design
from allbutone.paper.pages import PrintedTable, markdown_table, tables_of
from replication.subsets import NONE, SUBSETS, TOGETHER, published_cells

MIDDLE = ("mean_x1", "mean_x2", "median")
_WORDS = (
    "The paper's Tables A.1 to A.3 once more: as printed, and as they come out with [the three "
    "causes](differences.md) together, over {many:,} simulated tables a cell (the range: the typical extremes "
    "of 1000 of them). **Bold** is a printed number that lies, rounding allowed for, outside the 99 % interval "
    "for another 1000 replicates. These are not the numbers to cite for the paper's method: those are "
    "[computed without the causes](records/published.md)."
)


def subset_table(held: dict[str, Any]) -> Iterator[str]:
    """Yield a line a subset of causes: which hold, and how many of the printed numbers agree."""
    heads = ["recycled mean", "n others", "κ′ + 2n_z"]
    heads += ["means and medians", "minima and maxima", "numbers", "whole cells"]
    yield f"| {' | '.join(heads)} |"
    yield "|---|---|---|---|---|---|---|"
    for causes in SUBSETS:
        judged = judgements(held["subsets"][causes.words])
        on = (causes.recycled_mean, causes.n_others, causes.doubled_rows)
        middle, ends = (
            [v for one in judged for name, v in one.items() if (name in MIDDLE) == want] for want in (1, 0)
        )
        whole = sum(set(one.values()) == {"agrees"} for one in judged)
        counts = [f"{part.count('agrees')} of {len(part)}" for part in (middle, ends, middle + ends)]
        line = " | ".join([*("yes" if each else "–" for each in on), *counts, f"{whole} of {len(judged)}"])
        yield f"| {line} |"


def judgements(rows: list[dict[str, float | None]]) -> list[dict[str, str | None]]:
    """Return a verdict on each printed number of each cell."""
    design = read_design("paper")
    found = []
    for cell, row in zip(published_cells(), rows, strict=True):
        printed = design.printed(cell)
        assert printed is not None
        found.append(verdicts(row, printed))
    return found


def explained_tables(held: dict[str, Any]) -> list[PrintedTable]:
    """Return the printed tables beside what the three causes give."""
    return tables_of(read_design("paper"), published_cells(), held["subsets"][TOGETHER.words])


def explained_page(held: dict[str, Any]) -> str:
    """Return docs/explained.md."""
    words = textwrap.fill(_WORDS.format(many=held["many"]), 115)
    tables = (markdown_table(table, "with the causes:") for table in explained_tables(held))
    return "\n\n".join(["# The printed tables, with the three causes", words, *tables]) + "\n"


def show(path: Path) -> str:
    """Return what a reader wants first: the subsets, and what remains outside under all three."""
    held = json.loads(path.read_text(encoding="utf-8"))
    lines = [*subset_table(held), ""]
    for causes in (NONE, TOGETHER):
        lines.append(f"Outside with {causes.words}:")
        for table in tables_of(read_design("paper"), published_cells(), held["subsets"][causes.words]):
            lines += [
                f"  {table.title}, {row.names}: {' '.join(row.differing)}" for row in table.rows if row.differing
            ]
    return "\n".join(lines)
