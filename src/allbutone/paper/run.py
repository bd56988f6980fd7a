"""Running a study into a folder: on any number of threads, interrupted and resumed, the same result."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from allbutone.disclosure.exposure_law import SpikedExposure
from allbutone.paper import journal as books
from allbutone.paper.design import Cell, Design, beside
from allbutone.paper.design_file import SHIPPED as DESIGNS
from allbutone.paper.design_file import read_design
from allbutone.paper.journal import JOURNAL, LACKING, Replicates, lock_journal, read_journal, summarize
from allbutone.paper.simulate import alike, numbers_of, require_for_devices, simulate_cell, simulate_together
from allbutone.support.devices import HERE, DeviceStreams, device_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.safe_io import fresh_files, fresh_folder, restore_replaced

CELLS_AT_ONCE = 1000  # whose closed form is computed together
DESIGN = "design.toml"
DEVICE = "cuda"  # whose random numbers differ from the processor's
_MADE = {JOURNAL, DESIGN, "cells.csv", "cells.parquet", "published.md", "replicates", "figures"}


def by_law(held: Sequence[tuple[Cell, Mapping[str, Any]]]) -> list[dict[str, float]]:
    """Return, for cells with their rows of results, the expected exposure and distance at the median leverage."""
    expected = []
    for start in range(0, len(held), CELLS_AT_ONCE):
        part = held[start : start + CELLS_AT_ONCE]
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
        expected += [{"law_exposure": float(one), "law_median": float(other)} for one, other in medians]
    return expected


# what the package brings along of the paper's study: two columns (`make shipped-study` writes it)
SHIPPED = Path(__file__).parent / "shipped" / "paper-two-columns"


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
        parts = [cell.key, self.replicates, self.design.seed, self.design.solver, self.records, _version()]
        parts += [] if self.device == HERE else [DEVICE]  # another stream of random numbers
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()

    def work(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        """Return the cells in the groups that are simulated at once, the most expensive first.

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
class CellResult:
    """What came of a cell: its row in the table of results, and the quantiles of its distances."""

    cell: Cell
    row: dict[str, Any]
    quantiles: list[float]


@dataclass(frozen=True)
class Study:
    """A study's results, a cell each, in the design's order."""

    run: StudyRun
    results: list[CellResult]

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells that are finished."""
        return [one.cell for one in self.results]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Their rows in the table of results."""
        return [one.row for one in self.results]

    def where(self, **wanted: Any) -> list[CellResult]:
        """Return the results of the cells whose fields have these values."""
        asked = wanted.items()
        return [one for one in self.results if all(getattr(one.cell, name) == value for name, value in asked)]


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
    chosen, here = list(run.design.cells if cells is None else cells), run.device == HERE
    if not here:
        device_of(run.device)
        require_for_devices(chosen, run.design.solver, run.records)
    restore_replaced(folder)
    if resume and folder.exists():
        _require_same(run, folder)
    else:
        _begin(run, folder, force)

    def file_of(cell: Cell) -> Path:
        return folder / "replicates" / f"cell-{run.design.number(cell):05}.parquet"

    with lock_journal(folder / JOURNAL) as journal:
        books.cut_broken_line(journal)
        held = {entry["cell"] for entry in read_journal(folder / JOURNAL)[1]}
        left = [
            cell
            for cell in chosen
            if run.identity(cell) not in held or (keep_replicates and not file_of(cell).exists())
        ]
        watch(len(chosen) - len(left))

        def keep(done: tuple[list[dict[str, Any]], list[tuple[Cell, Replicates]]]) -> None:
            entries, replicates = done
            for cell, each in replicates:
                _write_replicates(file_of(cell), each)
            for entry in entries:
                books.append_entry(journal, entry)
            watch(len(entries))

        work = partial(_simulated, run, keep_replicates)
        in_parallel(work, run.work(left), threads=threads if here else 1, watch=keep, anywhere=here)
        study = _held(run, folder)
        _write_tables(study.rows, folder)
    return study


def _simulated(
    run: StudyRun, keep_replicates: bool, group: list[Cell]
) -> tuple[list[dict[str, Any]], list[tuple[Cell, Replicates]]]:
    """Run cells; return their lines of the journal, and their replicates if they are to be kept."""
    replicates = run.simulate(group)
    entries: list[dict[str, Any]] = [
        {"cell": run.identity(cell), "row": {"cell": run.design.number(cell), **row}, "quantiles": quantiles}
        for cell, (row, quantiles) in zip(group, summarize(group, replicates), strict=True)
    ]
    return entries, list(zip(group, replicates, strict=True)) if keep_replicates else []


def load_study(folder: Path) -> Study:
    """Read what a folder holds of a study, finished or not."""
    restore_replaced(folder)
    if not (folder / JOURNAL).is_file():
        raise InputError(f"{folder} holds no study", f"make one with: allbutone study paper --out {folder}")
    header, _ = read_journal(folder / JOURNAL)
    # what the package brings along has its design beside the others, not a second time
    design = read_design(DESIGNS / "paper.toml" if folder == SHIPPED else folder / DESIGN)
    device = header.get("device", HERE)
    return _held(StudyRun(design, header["replicates"], header["records"], device), folder)


def _held(run: StudyRun, folder: Path) -> Study:
    """Return what a folder holds of a run."""
    entries = {entry["cell"]: entry for entry in read_journal(folder / JOURNAL)[1]}
    held = [(cell, entries[name]) for cell in run.design.cells if (name := run.identity(cell)) in entries]
    laws = by_law([(cell, entry["row"]) for cell, entry in held])
    results = []
    for (cell, entry), law in zip(held, laws, strict=True):
        row = dict.fromkeys(LACKING, 0) | entry["row"] | law | beside(entry["row"], run.design.printed(cell))
        results.append(CellResult(cell, row, entry["quantiles"]))
    return Study(run, results)


def is_study(folder: Path) -> bool:
    """Say whether a folder is a study and holds nothing else; what a killed run left of it is of it, too."""
    if not (folder / JOURNAL).is_file() or not (folder / DESIGN).is_file():
        return False
    published = read_design(folder / DESIGN).published_file
    made = _MADE | ({published.name} if published else set())
    endings = {"figures": (".html", ".png", ".svg"), "replicates": (".parquet",)}

    def is_ours(path: Path) -> bool:
        if ".partial-" in path.name and path.name.startswith("."):
            return True
        if path.name in endings and path.is_dir():
            return all(part.suffix in endings[path.name] for part in path.iterdir())
        return path.name in made

    return all(map(is_ours, folder.iterdir()))


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


def _write_tables(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Write cells.csv and cells.parquet."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    # the means of the candidates come last, by number: cells differ in how many they have
    names.sort(key=lambda name: int(name.removeprefix("mean_x").split("_")[0]) if name.startswith("mean_x") else 0)
    kinds = dict.fromkeys((*books.TEXTS, "verdict", "differs_in"), pa.string()) | dict.fromkeys(
        books.WHOLES + LACKING, pa.int64()
    )
    columns = {name: pa.array([row.get(name) for row in rows], kinds.get(name, pa.float64())) for name in names}
    table = pa.table(columns)
    targets = [folder / "cells.csv", folder / "cells.parquet"]
    with fresh_files(targets, force=True) as [text, binary], text.open("wb") as csv, binary.open("wb") as parquet:
        pyarrow.csv.write_csv(table, csv)
        pyarrow.parquet.write_table(table, parquet)


def _write_replicates(path: Path, replicates: Replicates) -> None:
    """Write every replicate of a cell to a file of its own."""
    path.parent.mkdir(exist_ok=True)
    columns = {"distance": replicates.distance, "exposure": replicates.exposure}
    columns |= {f"x{place}": column for place, column in enumerate(replicates.candidate.T.copy(), 1)}
    with fresh_files([path], force=True) as [work], work.open("wb") as file:
        pyarrow.parquet.write_table(pa.table(columns), file)
