"""The paper's tables in the paper's own form, ours beside them: rows of text that any front end can show."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allbutone.studies.design import Cell, Design
from allbutone.studies.published import DISTANCES, TYPICAL, Printed, verdicts
from allbutone.studies.run import Study

Mark = Callable[[str], str]

RECORD, DISTANCE = "mean guess", "median distance (range)"


@dataclass(frozen=True)
class PrintedRow:
    """A row of a printed table: the numbers that name its cell, what was printed, ours, and verdicts."""

    names: tuple[int, ...]
    printed: Printed
    ours: dict[str, float]
    verdicts: dict[str, str | None]

    @property
    def differing(self) -> list[str]:
        """The numbers that differ, in the table's order."""
        return [name for name, verdict in self.verdicts.items() if verdict == "differs"]

    def as_printed(self, mark: Mark) -> tuple[str, str]:
        """Return the mean record and the distances as the paper prints them; `mark` marks those that differ."""
        differing = self.differing
        return in_paper_form({k: mark(self.printed[k]) if k in differing else self.printed[k] for k in self.ours})

    def as_ours(self, digits: int) -> tuple[str, str]:
        """Return our own numbers in the same form."""
        return in_paper_form({name: f"{value:.{digits}f}" for name, value in self.ours.items()})


@dataclass(frozen=True)
class PrintedTable:
    """One printed table beside ours."""

    title: str
    headings: tuple[str, ...]
    rows: list[PrintedRow]

    @property
    def agreement(self) -> str:
        """How many of its numbers agree, in words."""
        known = [verdict for row in self.rows for verdict in row.verdicts.values() if verdict]
        return f"{known.count('agrees')} of {len(known)} numbers agree"


def printed_tables(study: Study) -> list[PrintedTable]:
    """Return the printed tables of a study's design, ours beside them, as far as its cells are finished."""
    return tables_of(study.run.design, study.cells, study.rows)


def tables_of(design: Design, cells: Sequence[Cell], rows: Sequence[Mapping[str, Any]]) -> list[PrintedTable]:
    """Return a design's printed tables beside the rows of some of its cells."""
    found: dict[tuple[str, str, int], list[PrintedRow]] = {}
    for cell, row in zip(cells, rows, strict=True):
        printed = design.printed(cell)
        if printed is not None:
            judged = verdicts(row, printed)
            ours = {name: row[shown] for name in judged if (shown := TYPICAL.get(name, name)) in row}
            line = PrintedRow(_names(cell), printed, ours, judged)
            found.setdefault((printed["table"], cell.release, cell.p), []).append(line)
    return [
        PrintedTable(_title(*key), ("n_θ", "n") if key[1] == "parameters" else ("n_k", "n", "n_z"), ordered)
        for key, lines in found.items()
        if (ordered := sorted(lines, key=lambda line: line.names))
    ]


def in_paper_form(numbers: Mapping[str, str]) -> tuple[str, str]:
    """Return "(x̄₁,x̄₂)" and "median (min-max)", as far as these numbers go."""
    means = [text for name, text in numbers.items() if name.startswith("mean_x")]
    median, low, high = (numbers.get(name, "") for name in DISTANCES)
    spread = f"({low}-{high})" if low or high else ""
    return f"({','.join(means)})" if means else "", f"{median} {spread}".strip()


def starred(text: str) -> str:
    """Mark a number that differs."""
    return f"{text}*"


def _names(cell: Cell) -> tuple[int, ...]:
    return (cell.count, cell.n) if cell.rows is None else (cell.count, cell.n, cell.rows)


def _title(table: str, release: str, p: int) -> str:
    what = f"released {release}, p = {p}"
    return f"Table {table}: {what}" if table else f"{what[0].upper()}{what[1:]}"
