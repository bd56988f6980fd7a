"""Running a study into a folder: on any number of threads, interrupted and resumed at will, with the same result.

A cell's result is one line appended to `journal.jsonl` in one write. A killed run leaves at most one broken line
at the end, which the next run cuts off; the tables are made from the journal alone, in the design's order.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from allbutone.studies.design import Cell, Design
from allbutone.studies.design_file import read_design
from allbutone.studies.simulate_cell import Replicates, simulate_cell, summarize
from allbutone.support.errors import InputError, reason
from allbutone.support.parallel import in_parallel
from allbutone.tables.safe_write import fresh_file, fresh_folder

try:
    import fcntl
except ImportError:  # Windows has no such lock: there, two runs in one folder do some cells twice
    fcntl = None  # type: ignore[assignment]

JOURNAL, DESIGN = "journal.jsonl", "design.toml"
SHAPE = np.linspace(0, 1, 101)  # the quantiles of distance kept of every cell: what a violin is drawn from
VERSION = version("allbutone")
MEMORY_KEPT = 31 << 20  # just below the most that glibc learns from
_MADE = {JOURNAL, DESIGN, "cells.csv", "cells.parquet", "published.md", "replicates", "figures"}


@dataclass(frozen=True)
class StudyRun:
    """How a design is to be run: what the results depend on."""

    design: Design
    replicates: int
    records: bool = False

    def identity(self, cell: Cell) -> str:
        """Name the cell's result: two runs that agree on it agree on every bit."""
        parts = [
            cell.key,
            self.replicates,
            self.design.seed,
            self.design.solver,
            self.records,
            version("allbutone"),
        ]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()

    def simulate(self, cell: Cell) -> Replicates:
        """Run one cell."""
        return simulate_cell(cell, self.replicates, self.design.seed, self.design.solver, self.records)


@dataclass(frozen=True)
class Study:
    """A study's results: a row a cell, in the design's order, and the quantiles of its distances."""

    run: StudyRun
    cells: list[Cell]
    rows: list[dict[str, Any]]
    quantiles: list[list[float]]


def run_study(
    run: StudyRun,
    folder: Path,
    *,
    cells: Sequence[Cell] | None = None,
    threads: int | None = None,
    keep_replicates: bool = False,
    resume: bool = False,
    force: bool = False,
    watch: Callable[[int], None] = lambda done: None,
) -> Study:
    """Run the cells (all by default) that the folder does not hold yet, and write the tables of all it holds."""
    if resume and folder.exists():
        _require_same(run, folder)
    else:
        _begin(run, folder, force)
    chosen = list(run.design.cells if cells is None else cells)

    def lacks_file(cell: Cell) -> bool:
        return keep_replicates and not _replicates_file(folder, run, cell).exists()

    def work(cell: Cell) -> dict[str, Any]:
        found = run.simulate(cell)
        if keep_replicates:
            _write_replicates(_replicates_file(folder, run, cell), found)
        row = {"cell": run.design.cells.index(cell) + 1, **summarize(run.design, cell, found)}
        quantiles = np.quantile(found.distance, SHAPE).tolist()
        return {"cell": run.identity(cell), "row": row, "quantiles": quantiles}

    with _open_journal(folder / JOURNAL) as journal:
        held = {entry["cell"] for entry in _read_journal(folder / JOURNAL)[1]}
        left = [cell for cell in chosen if run.identity(cell) not in held or lacks_file(cell)]
        watch(len(chosen) - len(left))
        # the dearest first, so that no thread is left alone with one at the end
        left.sort(key=lambda cell: -(cell.count if cell.rows else 1) * cell.p**2)
        # freed once, so large a piece of memory keeps glibc from handing every block's arrays back to the system
        np.empty(MEMORY_KEPT, dtype=np.uint8)

        def keep(entry: dict[str, Any]) -> None:
            _append(journal, entry)
            watch(1)

        in_parallel(work, left, threads=threads, watch=keep)
        study = load_study(folder)
        _write_tables(study.rows, folder)
    return study


def load_study(folder: Path) -> Study:
    """Read what a folder holds of a study, finished or not."""
    if not (folder / JOURNAL).is_file():
        raise InputError(f"{folder} holds no study; make one with: allbutone study paper --out {folder}")
    design = read_design(folder / DESIGN)
    header, entries = _read_journal(folder / JOURNAL)
    run = StudyRun(design, header["replicates"], header["records"])
    found = {entry["cell"]: entry for entry in entries}
    held = [(cell, found[name]) for cell in design.cells if (name := run.identity(cell)) in found]
    return Study(run, [c for c, _ in held], [e["row"] for _, e in held], [e["quantiles"] for _, e in held])


def is_study(folder: Path) -> bool:
    """Say whether a folder is a study and holds nothing else."""
    if not (folder / JOURNAL).is_file() or not (folder / DESIGN).is_file():
        return False
    published = read_design(folder / DESIGN).published_file
    made = _MADE | ({published.name} if published else set())
    return all(_is_ours(path, made) for path in folder.iterdir())


def _is_ours(path: Path, made: set[str]) -> bool:
    """Say whether a part of a study folder is one we wrote; what a killed run left of it is, too."""
    if ".partial-" in path.name and path.name.startswith("."):
        return True
    endings = {"figures": (".html", ".png", ".svg"), "replicates": (".parquet",)}.get(path.name)
    if endings and path.is_dir():
        return all(part.suffix in endings for part in path.iterdir())
    return path.name in made


def _begin(run: StudyRun, folder: Path, force: bool) -> None:
    header = {"study": run.design.title, "replicates": run.replicates, "records": run.records}
    if folder.exists() and not force and is_study(folder):
        raise InputError(f"{folder} holds a study; go on with --resume, replace it with --force, or name another")
    with fresh_folder(folder, ours=is_study, force=force) as work:
        (work / DESIGN).write_text(run.design.text, encoding="utf-8")
        if run.design.published_file is not None:
            shutil.copyfile(run.design.published_file, work / run.design.published_file.name)
        (work / JOURNAL).write_text(json.dumps(header) + "\n", encoding="utf-8")


def _require_same(run: StudyRun, folder: Path) -> None:
    """Refuse to mix two studies in one folder."""
    before = load_study(folder).run
    for what, ours, theirs in (
        ("design", run.design.text, before.design.text),
        ("number of replicates", run.replicates, before.replicates),
        ("use of --exact-records", run.records, before.records),
    ):
        if ours != theirs:
            known = "" if what == "design" else f" ({theirs}, now {ours})"
            raise InputError(f"{folder} was begun with another {what}{known}; name another folder, or use --force")


@contextmanager
def _open_journal(path: Path) -> Iterator[int]:
    """Open the journal for one run alone, and cut off a broken last line, which only a killed run leaves."""
    try:
        file = path.open("rb+")
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}; name another folder") from error
    with file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    f"another run is writing to {path.parent}; wait for it, or name another"
                ) from error
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            yield handle
        finally:
            os.close(handle)


def _read_journal(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the header and the entries; a last line that is not whole yet is left out."""
    try:
        content = path.read_bytes()
        header, *entries = [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]
        return header, entries
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}); start again with --force") from error


def _append(journal: int, entry: dict[str, Any]) -> None:
    """Append a line in one write."""
    line = (json.dumps(entry) + "\n").encode()
    try:
        written = os.write(journal, line)
    except OSError as error:
        raise InputError(f"cannot write the journal: {reason(error)}; go on later with --resume") from error
    if written < len(line):
        raise InputError("cannot write the journal: the disk is full; free space and go on with --resume")


def _write_tables(rows: Iterable[dict[str, Any]], folder: Path) -> None:
    """Write cells.csv and cells.parquet."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    # the means of the candidates come last, by number: cells differ in how many they have
    names.sort(key=lambda name: int(name.removeprefix("mean_x")) if name.startswith("mean_x") else 0)
    kinds = {"release": pa.string(), "structure": pa.string(), "position": pa.string(), "verdict": pa.string()}
    kinds |= {name: pa.int64() for name in ("cell", "p", "n", "count", "rows", "replicates", "unconverged")}
    columns = {name: pa.array([row.get(name) for row in rows], kinds.get(name, pa.float64())) for name in names}
    table = pa.table(columns)
    with fresh_file(folder / "cells.csv", force=True) as path:
        pyarrow.csv.write_csv(table, path)
    with fresh_file(folder / "cells.parquet", force=True) as path:
        pyarrow.parquet.write_table(table, path)


def _replicates_file(folder: Path, run: StudyRun, cell: Cell) -> Path:
    return folder / "replicates" / f"cell-{run.design.cells.index(cell) + 1:05}.parquet"


def _write_replicates(path: Path, found: Replicates) -> None:
    """Write every replicate of a cell to a file of its own."""
    path.parent.mkdir(exist_ok=True)
    columns = {"distance": found.distance, "exposure": found.exposure, "law_distance": found.law}
    columns |= {f"x{place}": column for place, column in enumerate(found.candidate.T.copy(), 1)}
    with fresh_file(path, force=True) as work:
        pyarrow.parquet.write_table(pa.table(columns), work)
