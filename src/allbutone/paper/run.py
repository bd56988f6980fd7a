"""Running a study into a folder: on any number of threads, interrupted and resumed, the same result."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from allbutone.disclosure.exposure_law import SpikedExposure
from allbutone.paper.design import Cell, Design, beside
from allbutone.paper.design_file import read_design
from allbutone.paper.journal import (
    JOURNAL,
    LACKING,
    TEXTS,
    WHOLES,
    Replicates,
    append_entry,
    cut_broken_line,
    lock_journal,
    read_journal,
    summarize,
)
from allbutone.paper.simulate import alike, numbers_of, require_for_devices, simulate_cell, simulate_together
from allbutone.support.devices import HERE, DeviceStreams, device_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.safe_io import fresh_files, fresh_folder, restore_replaced

# What the closed form expects of the cells of a study, beside what their simulation found.


AT_ONCE = 1000  # cells


def by_law(held: Sequence[tuple[Cell, Mapping[str, Any]]]) -> list[dict[str, float]]:
    """Return, for cells with their rows of results, the expected exposure and distance at the median leverage."""
    found = []
    for start in range(0, len(held), AT_ONCE):
        part = held[start : start + AT_ONCE]
        laws = [cell.law for cell, _ in part]
        leverage, baseline = (
            np.array([row[name] for _, row in part], dtype=float)
            for name in ("leverage_median", "baseline_median")
        )
        exposure, error = SpikedExposure.of(
            np.array([law.p for law in laws]),
            np.array([law.mean_weight for law in laws]),
            np.array([law.df for law in laws]),
            np.array([0.0 if law.rows is None else 1 / law.rows for law in laws]),
            np.maximum(leverage, 1e-12),
            np.array([float(cell.count) for cell, _ in part]),
        ).over_releases()
        medians = zip(np.median(exposure, axis=0), np.median(error, axis=0) * baseline, strict=True)
        found += [{"law_exposure": float(one), "law_median": float(other)} for one, other in medians]
    return found


# Running a study into a folder: on any number of threads, interrupted and resumed at will, with the same result.
#
# Results go to the journal (`studies.journal`); the tables are made from it alone, in the design's order.


DESIGN = "design.toml"
DEVICE = "cuda"  # whose random numbers differ from the processor's
_MADE = {JOURNAL, DESIGN, "cells.csv", "cells.parquet", "published.md", "replicates", "figures"}


@cache
def _version() -> str:
    return version("allbutone")


@dataclass(frozen=True)
class StudyRun:
    """How a design is to be run: what the results depend on.

    On a device ("cuda", "cuda:1") other random numbers are drawn than here ("cpu").
    """

    design: Design
    replicates: int
    records: bool = False
    device: str = HERE

    def identity(self, cell: Cell) -> str:
        """Name the cell's result: two runs that agree on it agree on every bit."""
        parts = [
            cell.key,
            self.replicates,
            self.design.seed,
            self.design.solver,
            self.records,
            _version(),
            *([] if self.device == HERE else [DEVICE]),  # another stream of random numbers
        ]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()

    def work(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        """Return the cells in the groups that are simulated at once, the dearest first.

        Then no thread is left alone with one at the end. A device takes all that are alike, a thread one.
        """
        if self.device != HERE:
            return alike(cells, self.replicates)
        return [[cell] for cell in sorted(cells, key=lambda cell: -numbers_of(cell))]

    def simulate(self, cells: Sequence[Cell]) -> list[Replicates]:
        """Run a group of cells."""
        if self.device == HERE:
            how = self.replicates, self.design.seed, self.design.solver, self.records
            return [simulate_cell(cell, *how) for cell in cells]
        device = device_of(self.device)
        return simulate_together(
            cells, self.replicates, self.design.seed, lambda seeds: DeviceStreams(seeds, device)
        )


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
    if run.device != HERE:
        device_of(run.device)
        require_for_devices(run.design.cells if cells is None else cells, run.design.solver, run.records)
    restore_replaced(folder)
    if resume and folder.exists():
        _require_same(run, folder)
    else:
        _begin(run, folder, force)
    chosen = list(run.design.cells if cells is None else cells)

    def lacks_file(cell: Cell) -> bool:
        return keep_replicates and not _replicates_file(folder, run, cell).exists()

    with lock_journal(folder / JOURNAL) as journal:
        cut_broken_line(journal)
        held = {entry["cell"] for entry in read_journal(folder / JOURNAL)[1]}
        left = [cell for cell in chosen if run.identity(cell) not in held or lacks_file(cell)]
        watch(len(chosen) - len(left))

        def keep(done: tuple[list[dict[str, Any]], list[tuple[Cell, Replicates]]]) -> None:
            entries, replicates = done
            for cell, found in replicates:
                _write_replicates(_replicates_file(folder, run, cell), found)
            for entry in entries:
                append_entry(journal, entry)
            watch(len(entries))

        here = run.device == HERE
        work = partial(_simulated, run, keep_replicates)
        in_parallel(work, run.work(left), threads=threads if here else 1, watch=keep, anywhere=here)
        study = _held(run, folder)
        _write_tables(study.rows, folder)
    return study


def _simulated(
    run: StudyRun, keep_replicates: bool, group: list[Cell]
) -> tuple[list[dict[str, Any]], list[tuple[Cell, Replicates]]]:
    """Run cells; return their lines of the journal, and their replicates if they are to be kept."""
    found = run.simulate(group)
    return _entries(run, group, found), list(zip(group, found, strict=True)) if keep_replicates else []


def _entries(run: StudyRun, cells: list[Cell], found: list[Replicates]) -> list[dict[str, Any]]:
    """Return the line of the journal for each cell."""
    return [
        {"cell": run.identity(cell), "row": {"cell": run.design.number(cell), **row}, "quantiles": quantiles}
        for cell, (row, quantiles) in zip(cells, summarize(cells, found), strict=True)
    ]


def load_study(folder: Path) -> Study:
    """Read what a folder holds of a study, finished or not."""
    restore_replaced(folder)
    if not (folder / JOURNAL).is_file():
        raise InputError(f"{folder} holds no study", f"make one with: allbutone study paper --out {folder}")
    header, _ = read_journal(folder / JOURNAL)
    design, device = read_design(folder / DESIGN), header.get("device", HERE)
    return _held(StudyRun(design, header["replicates"], header["records"], device), folder)


def _held(run: StudyRun, folder: Path) -> Study:
    """Return what a folder holds of a run."""
    found = {entry["cell"]: entry for entry in read_journal(folder / JOURNAL)[1]}
    held = [(cell, found[name]) for cell in run.design.cells if (name := run.identity(cell)) in found]
    rows = [
        dict.fromkeys(LACKING, 0) | entry["row"] | law | beside(entry["row"], run.design.printed(cell))
        for (cell, entry), law in zip(held, by_law([(cell, entry["row"]) for cell, entry in held]), strict=True)
    ]
    return Study(run, [cell for cell, _ in held], rows, [entry["quantiles"] for _, entry in held])


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
    """Make the folder of a new study; by force one that is there is replaced, but not while a run writes to it."""
    header = {"study": run.design.title, "replicates": run.replicates, "records": run.records}
    header |= {} if run.device == HERE else {"device": DEVICE}
    if folder.exists() and not force and is_study(folder):
        raise InputError(
            f"{folder} holds a study",
            Cure("go on with it", "resume", True),
            Cure("replace it", "force", True),
            "name another folder",
        )
    there = (folder / JOURNAL).is_file() and not folder.is_symlink()
    with (
        lock_journal(folder / JOURNAL) if there else nullcontext(),
        fresh_folder(folder, ours=is_study, force=force) as work,
    ):
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
        ("choice of what is drawn (exact records)", run.records, before.records),
        ("kind of device", run.device.partition(":")[0], before.device),
    ):
        if ours != theirs:
            known = "" if what == "design" else f" ({theirs}, now {ours})"
            raise InputError(
                f"{folder} was begun with another {what}{known}",
                "name another folder",
                Cure("replace it", "force", True),
            )


def _write_tables(rows: Iterable[dict[str, Any]], folder: Path) -> None:
    """Write cells.csv and cells.parquet."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    # the means of the candidates come last, by number: cells differ in how many they have
    names.sort(key=lambda name: int(name.removeprefix("mean_x").split("_")[0]) if name.startswith("mean_x") else 0)
    kinds = dict.fromkeys((*TEXTS, "verdict", "differs_in"), pa.string()) | dict.fromkeys(
        WHOLES + LACKING, pa.int64()
    )
    columns = {name: pa.array([row.get(name) for row in rows], kinds.get(name, pa.float64())) for name in names}
    table = pa.table(columns)
    targets = [folder / "cells.csv", folder / "cells.parquet"]
    with fresh_files(targets, force=True) as [text, binary], text.open("wb") as csv, binary.open("wb") as parquet:
        pyarrow.csv.write_csv(table, csv)
        pyarrow.parquet.write_table(table, parquet)


def _replicates_file(folder: Path, run: StudyRun, cell: Cell) -> Path:
    return folder / "replicates" / f"cell-{run.design.number(cell):05}.parquet"


def _write_replicates(path: Path, found: Replicates) -> None:
    """Write every replicate of a cell to a file of its own."""
    path.parent.mkdir(exist_ok=True)
    columns = {"distance": found.distance, "exposure": found.exposure}
    columns |= {f"x{place}": column for place, column in enumerate(found.candidate.T.copy(), 1)}
    with fresh_files([path], force=True) as [work], work.open("wb") as file:
        pyarrow.parquet.write_table(pa.table(columns), file)
