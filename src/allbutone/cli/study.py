"""The study command: run a simulation design, and show what came of it."""

import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from allbutone.cli.output import console, late_progress, notes, show, show_next
from allbutone.plots.export import write_figure, write_images
from allbutone.plots.study import study_figures
from allbutone.studies.cell_filter import choose
from allbutone.studies.design_file import read_design
from allbutone.studies.run import Study, StudyRun, load_study, run_study
from allbutone.studies.simulate_cell import agreement
from allbutone.support.checks import count_of
from allbutone.support.errors import InputError
from allbutone.support.text import counted, number
from allbutone.tables.safe_write import fresh_file, require_distinct


class ImageFormat(StrEnum):
    """A format for pictures besides HTML."""

    png = "png"
    svg = "svg"


Design = Annotated[
    str,
    typer.Argument(help="A design: paper, correlation, dimension or a .toml file; or the word show."),
]
Folder = Annotated[Path | None, typer.Argument(help="With show: the folder of the study.", show_default=False)]
Out = Annotated[Path | None, typer.Option(help="The folder to create for the results.")]
Threads = Annotated[int | None, typer.Option(help="How many threads to use; one a core by default.")]
Only = Annotated[str | None, typer.Option(help="Run only these cells, as in 'p == 2 and n in [10, 50]'.")]
Count = Annotated[int | None, typer.Option(help="Replicates a cell, instead of the design's number.")]
Exact = Annotated[bool, typer.Option("--exact-records", help="Draw every record, as the paper does: slower.")]
Keep = Annotated[bool, typer.Option("--keep-replicates", help="Write every replicate, a Parquet file a cell.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what the folder holds already.")]
Images = Annotated[ImageFormat | None, typer.Option(help="With show: write pictures of this format, too.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing study of that name.")]


def study(
    design: Design,
    folder: Folder = None,
    out: Out = None,
    threads: Threads = None,
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
    plan = read_design(design)
    if not resume:
        require_distinct([out], [Path(design), plan.published_file])
    cells = list(plan.cells) if only is None else choose(plan.cells, only)
    run = StudyRun(plan, replicates or plan.replicates, exact_records)
    start = time.monotonic()
    with _explained(out), late_progress("Simulating cells", len(cells)) as watch:
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
        "Written: cells.csv and cells.parquet (a row a cell), journal.jsonl (what --resume goes on from)."
    )
    whole = held.run.records or held.run.design.solver == "lbfgsb"
    drawn = "every record, as in the paper" if whole else "no more than the statistics that the attack sees"
    console.print(
        "Assumed: tables from the design's normal distribution, an adversary who has all records but one. Drawn: "
        f"{drawn}. Solver: {held.run.design.solver}. Seed {held.run.design.seed}: run again, it gives the same."
    )


def _show(folder: Path, images: ImageFormat | None) -> None:
    held = load_study(folder)
    if not held.rows:
        raise InputError(
            f"{folder} holds no finished cell yet", f"go on with: allbutone study … --out {folder} --resume"
        )
    known = [row for row in held.rows if row["verdict"]]
    if known:
        _show_published(known)
        with fresh_file(folder / "published.md", force=True) as path:
            path.write_text(published_page(held), encoding="utf-8")
    else:
        _show_cells(held.rows)
    console.print(agreement(held.rows))
    figures = study_figures(held)
    place = folder / "figures"
    place.mkdir(exist_ok=True)
    with late_progress("Drawing figures", len(figures)) as watch:
        for name, figure in figures.items():
            with fresh_file(place / f"{name}.html", force=True) as path:
                write_figure(figure, path)
            watch(1)
        if images:
            write_images({place / f"{name}.{images}": figure for name, figure in figures.items()})
    written = ", ".join(f"{name}.html" for name in figures)
    console.print(f"Figures in {escape(str(place))} (open in any browser, offline): {escape(written)}.")
    if known:
        console.print(f"Every published median beside ours: {escape(str(folder / 'published.md'))}.")


def _show_published(rows: list[dict[str, Any]]) -> None:
    """Print the published medians beside ours: a table a release and number of rows, n down, count across."""
    groups = dict.fromkeys((row["release"], row["p"], row["rows"]) for row in rows)
    for release, p, size in groups:
        part = [row for row in rows if (row["release"], row["p"], row["rows"]) == (release, p, size)]
        counts = sorted({row["count"] for row in part})
        lines = []
        for n in sorted({row["n"] for row in part}):
            of_n = {row["count"]: row for row in part if row["n"] == n}
            lines.append([f"{n:,}", *(_pair(of_n.get(count)) for count in counts)])
        what = f"{release} of {size:,} rows" if size else release
        title = f"Released {what}, p = {p}; n down, number across: median distance, ours/published (* differs)"
        show(title, ["n", *(f"{count:,}" for count in counts)], lines)
        console.print()


def _pair(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['median']:.1f}/{row['published_median']:g}{'*' if row['verdict'] == 'differs' else ''}"


def _show_cells(rows: list[dict[str, Any]], most: int = 40) -> None:
    names = ("release", "p", "n", "count", "rows", "structure", "correlation", "position")
    headings = [*names, "leverage", "exposure", "median distance", "expected"]
    lines = [
        [escape(number(row[name])) for name in names]
        + [number(row[key]) for key in ("leverage_median", "exposure_median", "median", "law_median")]
        for row in rows[:most]
    ]
    show(f"The first {most} of {len(rows):,} cells" if len(rows) > most else "All cells", headings, lines)
    console.print()


def published_page(held: Study) -> str:
    """Return a page that sets every published median beside the expected one (closed form) and ours."""
    rows = [row for row in held.rows if row["verdict"]]
    lines = [
        f"| {row['release']}{' of ' + str(row['rows']) if row['rows'] else ''} | {row['p']} | {row['n']} | "
        f"{row['count']} | {row['law_median']:.1f} | {row['median']:.2f} | {row['published_median']:g} | "
        f"{'agrees' if row['verdict'] == 'agrees' else '**differs**'} |"
        for row in rows
    ]
    words = _WORDS.format(count=held.run.replicates, agreement=agreement(rows))
    return "\n".join([f"# {held.run.design.title}", "", textwrap.fill(words, 115), "", *_HEAD, *lines, ""])


_WORDS = (
    "Median distance between the adversary's guess and the target: expected (closed form), by the "
    "exact attack over {count:,} simulated tables, and as published. {agreement} Where they differ both numbers "
    "stand; nothing was tuned. Written by `allbutone study show`."
)
_HEAD = ("| release | p | n | number | expected | exact | published | |", "|---|---|---|---|---|---|---|---|")
