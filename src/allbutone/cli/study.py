"""The study command: run a simulation design, and show what came of it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from allbutone.cli.options import Dask, Device
from allbutone.cli.output import ImageFormat, Images, console, late_progress, notes, show, show_next, write_named
from allbutone.plots.study import in_the_paper, study_figures
from allbutone.reports.published import published_page
from allbutone.studies.cell_filter import choose
from allbutone.studies.design_file import read_design
from allbutone.studies.journal import LACKING
from allbutone.studies.printed_tables import DISTANCE, RECORD, PrintedTable, printed_tables, starred
from allbutone.studies.published import agreement
from allbutone.studies.run import Study, StudyRun, load_study, run_study
from allbutone.support.checks import count_of
from allbutone.support.cluster import on_cluster
from allbutone.support.errors import InputError
from allbutone.support.text import counted, number
from allbutone.tables.safe_write import fresh_file, require_distinct

Design = Annotated[
    str,
    typer.Argument(help="A design: paper, correlation, dimension, lacking or a .toml file; or the word show."),
]
Folder = Annotated[Path | None, typer.Argument(help="With show: the folder of the study.", show_default=False)]
Out = Annotated[Path | None, typer.Option(help="The folder to create for the results.")]
Threads = Annotated[int | None, typer.Option(help="How many threads to use; one for each core by default.")]
Only = Annotated[str | None, typer.Option(help="Run only these cells, as in 'p == 2 and n in [10, 50]'.")]
Count = Annotated[int | None, typer.Option(help="Replicates a cell, instead of the design's number.")]
Exact = Annotated[bool, typer.Option("--exact-records", help="Draw every record, as the paper does: slower.")]
Keep = Annotated[bool, typer.Option("--keep-replicates", help="Write every replicate, a Parquet file a cell.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what the folder holds already.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing study of that name.")]


def study(
    design: Design,
    folder: Folder = None,
    out: Out = None,
    threads: Threads = None,
    device: Device = "cpu",
    dask: Dask = None,
    only: Only = None,
    replicates: Count = None,
    exact_records: Exact = False,
    keep_replicates: Keep = False,
    resume: Resume = False,
    images: Images = None,
    force: Force = False,
) -> None:
    """Run a simulation study of the attack, the paper's or your own; `study show DIR` draws what came of it."""
    if design == "show":
        if folder is None or out is not None:
            raise InputError("study show takes the folder of a study", "allbutone study show DIR")
        _show(folder, images)
        return
    if folder is not None or out is None:
        raise InputError("a study needs a folder for its results", f"allbutone study {design} --out DIR")
    for name, value in (("replicates", replicates), ("threads", threads)):
        if value is not None:
            count_of(name, value)
    if dask is not None and device != "cpu":
        raise InputError("--dask and --device are both given", "choose a cluster or a device")
    plan = read_design(design)
    if not resume:
        require_distinct([out], [Path(design), plan.published_file])
    cells = list(plan.cells) if only is None else choose(plan.cells, only)
    run = StudyRun(plan, replicates or plan.replicates, exact_records, device)
    start = time.monotonic()
    with _explained(out), on_cluster(dask), late_progress("Simulating cells", len(cells)) as watch:
        held = run_study(
            run, out, cells=cells, threads=threads, keep_replicates=keep_replicates, resume=resume, force=force,
            watch=watch,
        )  # fmt: skip
    _describe(held, out, time.monotonic() - start)
    show_next("see it as figures, and beside what was published, if anything was:", ["study", "show", str(out)])


@contextmanager
def _explained(out: Path) -> Iterator[None]:
    """Say, when it is stopped, that what was finished is kept."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        notes.print(
            f"Stopped. What was finished is kept in {escape(str(out))}: go on with the same command and --resume."
        )
        raise


def _describe(held: Study, out: Path, seconds: float) -> None:
    done, every = len(held.rows), len(held.run.design.cells)
    what = counted(done, "cell") if done == every else f"{done:,} of {every:,} cells"
    console.print(
        f"[bold]{escape(held.run.design.title)}[/bold]: {what} of {counted(held.run.replicates, 'replicate')} in "
        f"{escape(str(out))}; this run took {seconds:.1f} s."
    )
    if lost := sum(row["unconverged"] for row in held.rows):
        console.print(f"[yellow]{counted(lost, 'attack')} did not converge; see the column unconverged.[/yellow]")
    console.print(agreement(held.rows))
    console.print(
        "Written: cells.csv and cells.parquet (one row for each cell), journal.jsonl (what --resume goes on from)."
    )
    whole = held.run.records or held.run.design.solver == "lbfgsb"
    whole |= any(cell.reading == "mechanism" for cell in held.cells)
    drawn = "every record, as in the paper" if whole else "no more than the statistics that the attack sees"
    console.print(
        f"Assumed: tables from the design's normal distribution, {_adversaries(held)}. Drawn: {drawn}. "
        f"Solver: {held.run.design.solver}. Seed {held.run.design.seed}: run again"
        f"{' on the same model of graphics card' if held.run.device != 'cpu' else ''}, it gives the same."
    )


def _adversaries(held: Study) -> str:
    """Say what the adversaries of a study's cells have."""
    if not any(cell.lacking for cell in held.cells):
        return "an adversary who has all records but one"
    return "adversaries who lack what each cell says besides the record attacked (column lacking)"


def _show(folder: Path, images: ImageFormat | None) -> None:
    held = load_study(folder)
    if not held.rows:
        raise InputError(
            f"{folder} holds no finished cell yet", f"go on with: allbutone study … --out {folder} --resume"
        )
    known = [row for row in held.rows if row["verdict"]]
    if known:
        for table in printed_tables(held):
            _show_printed(table)
        with fresh_file(folder / "published.md", force=True) as path:
            path.write_text(published_page(held), encoding="utf-8")
    else:
        _show_cells(held.rows)
    console.print(agreement(held.rows))
    papers = held.run.design.text == read_design("paper").text
    figures = {in_the_paper(name) if papers else name: figure for name, figure in study_figures(held).items()}
    place = folder / "figures"
    write_named(figures, place, images)
    written = ", ".join(f"{name}.html" for name in figures)
    console.print(f"Figures in {escape(str(place))} (open in any browser, offline): {escape(written)}.")
    if known:
        console.print(f"Every published number beside ours: {escape(str(folder / 'published.md'))}.")


def _show_printed(table: PrintedTable) -> None:
    """Print a published table in its own form, ours beside it, within 80 columns; * marks what differs."""
    console.print(f"[bold]{table.title}[/bold]: {table.agreement} (* differs)\n({RECORD}) {DISTANCE}:")
    names = "".join(f"{heading:>5}" for heading in table.headings)
    width = max(len(_form(row.as_printed(starred))) for row in table.rows)
    console.print(f"{names}  {'printed':<{width}}  ours")
    for row in table.rows:
        names = "".join(f"{name:>5}" for name in row.names)
        console.print(f"{names}  {_form(row.as_printed(starred)):<{width}}  {_form(row.as_ours(1))}")
    console.print()


def _form(parts: tuple[str, str]) -> str:
    return " ".join(filter(None, parts))


def _show_cells(rows: list[dict[str, Any]], most: int = 40) -> None:
    """Print the cells; what is the same in all of them is said once, above."""
    names = ["release", "p", "n", "count", "rows", "structure", "correlation", "position"]
    names += [name for name in LACKING if any(row[name] for row in rows)]
    shared = [name for name in names if len({row[name] for row in rows}) == 1]
    told = ", ".join(f"{name} {escape(number(rows[0][name]))}" for name in shared if rows[0][name] is not None)
    varied = [name for name in names if name not in shared]
    lines = [
        [escape(number(row[name])) for name in varied]
        + [number(row[key]) for key in ("leverage_median", "exposure_median", "median", "law_median")]
        for row in rows[:most]
    ]
    which = f"The first {most} of {len(rows):,} cells" if len(rows) > most else "All cells"
    title = f"{which}{', each with ' * bool(told)}{told}; medians over the replicates"
    show(
        title,
        [*(name.replace("_", " ") for name in varied), "leverage", "exposure", "distance", "expected"],
        lines,
    )
    console.print()
