"""The commands about the paper: all of it in one run, its application to a table, and simulation studies."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.onward import following, next_after_application
from allbutone.cli.options import (
    OF_TABLE,
    REQUIRED,
    Dask,
    Device,
    Force,
    ImageFormat,
    Images,
    ModelOptions,
    TableOptions,
    argument,
    command,
    offers,
    option,
)
from allbutone.cli.output import console, late_progress, notes, show, show_next, write_named
from allbutone.cli.reading import prior_of, read_content, read_records
from allbutone.cli.report import Note, describe_assessment, write_page
from allbutone.cli.synthesize import describe_prior
from allbutone.figures.export import write_images
from allbutone.model.niw import NIW
from allbutone.paper.design import agreement, choose
from allbutone.paper.design_file import read_design
from allbutone.paper.journal import LACKING
from allbutone.paper.pages import (
    DISTANCE,
    KS,
    RECORD,
    Paper,
    PrintedTable,
    apply_paper,
    paper_page,
    papers_prior,
    printed_tables,
    published_page,
    starred,
)
from allbutone.paper.run import Study, StudyRun, load_study, run_study
from allbutone.paper.study_figures import in_the_paper, study_figures
from allbutone.releases.release import Release
from allbutone.reports.assessment import PAPER_COUNTS, Assessment, assess
from allbutone.reports.report import paper_figures
from allbutone.support.errors import InputError, count_of
from allbutone.support.parallel import on_cluster
from allbutone.support.text import counted, number
from allbutone.tables.files import write_columns
from allbutone.tables.records import Records, demo_cohort
from allbutone.tables.safe_io import fresh_file, fresh_folder, require_distinct

NewFolder = Annotated[Path, typer.Option(help="The folder to create.")]
SCORES = (
    Path | None,
    option(
        "A table of scores, one row a person; without one, the embedded simulated cohort.",
        None,
        "--scores",
        show_default=False,
    ),
)

PAGE, TABLES, KS_FILE, STUDY, FIGURES = "paper.html", "tables.md", "table-A4.csv", "study", "figures"
# what PLINK, bigsnpr and the 1000 Genomes Project call those who have the scores
IDENTIFIERS = {"id", "fid", "iid", "sample", "sample.id", "family.id", "pop", "super_pop"}


@command
def paper(
    *,
    source: Annotated[TableOptions, offers(*OF_TABLE, table=SCORES)],
    out: NewFolder = Path("paper"),
    replicates: int = option("Simulated attacks of each of the study's 1008 settings.", 1000),
    datasets: int = option("Synthetic datasets of the application.", 1000),
    seed: int = option("Of the application's datasets; the study has its own.", 1, min=0),
    images: Images = None,
    force: Force = False,
) -> None:
    """Make every figure and table of the paper, the printed numbers beside ours, as one page."""
    count_of("replicates", replicates)
    count_of("datasets", datasets)
    scores = source.table
    require_distinct([out], [scores, source.table_file])
    start = time.monotonic()
    records, left_out = _scores(source) if scores else (demo_cohort(), [])
    with fresh_folder(out, ours=_is_paper, force=force) as work:
        design = read_design("paper")
        with late_progress("Simulating cells", len(design.cells)) as watch:
            study = run_study(StudyRun(design, replicates), work / STUDY, watch=watch)
        made = Paper(study, apply_paper(records, datasets, seed, late_progress), scores is not None)
        _write_paper(made, work, images)
        if scores:
            _make_private(work)
    _show_paper(made, out, left_out, scores, images, time.monotonic() - start)


def _scores(source: TableOptions) -> tuple[Records, list[str]]:
    """Read the table, without the columns that only say who somebody is."""
    names = [] if source.columns else read_content(source).column_names
    left_out = [name for name in names if name.lower() in IDENTIFIERS]
    return read_records(replace(source, drop=[*(source.drop or ()), *left_out])), left_out


def _make_private(folder: Path) -> None:
    """Let only the owner read what describes individual records."""
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _write_paper(made: Paper, work: Path, images: ImageFormat | None) -> None:
    with late_progress("Drawing figures", None):
        (work / PAGE).write_text(paper_page(made), encoding="utf-8")
        (work / TABLES).write_text(published_page(made.study), encoding="utf-8")
        if images:
            (work / FIGURES).mkdir()
            write_images({work / FIGURES / f"{name}.{images}": figure for name, figure in made.figures.items()})
    columns = {"column": np.array([line["column"] for line in made.ks_lines])}
    for at, name in enumerate(KS):
        for whose, heading in (("ours", name), ("printed", f"printed_{name}")):
            columns[heading] = np.array([line[whose][at] for line in made.ks_lines], dtype=float)
    write_columns(work / KS_FILE, columns)


def _is_paper(folder: Path) -> bool:
    return {path.name for path in folder.iterdir()} - {FIGURES} == {PAGE, TABLES, KS_FILE, STUDY}


def _show_paper(
    made: Paper, out: Path, left_out: list[str], scores: Path | None, images: ImageFormat | None, seconds: float
) -> None:
    console.print(
        f"[bold]The paper's {len(made.figures)} figures and 5 tables[/bold], made again in {seconds:.0f} s: "
        f"{escape(str(out / PAGE))} (opens in any browser, offline)."
    )
    console.print(agreement(made.study.rows))
    console.print(escape(made.about_scores))
    if left_out:
        console.print(f"Left out, because they only say who somebody is: {escape(', '.join(left_out))}.")
    written = [f"{TABLES} (Tables A.1 to A.3)", f"{KS_FILE}", f"{STUDY}/cells.csv"]
    written += [f"{FIGURES} (a picture each)"] * bool(images)
    console.print(f"Written, too: {', '.join(written)}.{' Confidential, as the scores are.' * bool(scores)}")
    console.print(
        "Assumed: the paper's design and prior (mean 1.1, scale I, worth one record); the exact maximum, where "
        "the paper searches from one start."
    )
    show_next("one of its questions on a setting of your own (docs/study.md):", ["study", "--help"])


NAMED_TABLE = (
    Path | None,
    argument("A confidential table, as `synthesize` reads it; without one, the embedded simulated cohort."),
)

PAPERS_PRIOR = "the paper's prior (mean 1.1, scale I, worth one record)"
APPLICATION_FILES = {
    "report.html",
    "kolmogorov_smirnov.csv",
    "correlations.csv",
    "mean_differences.csv",
    "distances.csv",
    "budget.csv",
}


@command
def application(
    *,
    context: typer.Context,
    source: Annotated[TableOptions, offers(*OF_TABLE, table=NAMED_TABLE)],
    model: Annotated[ModelOptions, offers(prior="A prior file; the paper's prior by default.")],
    out: NewFolder = Path("application"),
    datasets: int = option("How many datasets to draw.", 1000),
    note: Note = "",
    seed: int | None = option("Makes it repeatable.", min=0),
    figures: bool = option("Also write each figure, named as in the paper.", False),
    images: Images = None,
    force: Force = False,
) -> None:
    """Run the paper's application: 1000 synthetic datasets, their fidelity, and the risk as their number grows."""
    count_of("datasets", datasets)
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    table = source.table
    require_distinct([out], [table, model.prior, source.table_file])
    with fresh_folder(out, ours=_is_application, force=force) as work:
        records = read_records(source) if table else demo_cohort()
        mechanism = prior_of(model, records) or papers_prior(len(records.columns))
        release = _draw(records, mechanism, datasets, seed)
        counts = sorted({*PAPER_COUNTS, datasets})
        assessment = assess(records, release, counts=counts, mass=False, step=late_progress)
        words = note or ("" if table else "A simulated cohort: no person stands behind any row.")
        again = following(context, "application", *([table] if table else []), seed=seed)
        write_page(work / "report.html", assessment, again, words)
        _write_tables(assessment, work)
        if figures or images:
            write_named(paper_figures(assessment), work / FIGURES, images)
        _make_private(work)
    describe_assessment(assessment)
    _show_application(assessment)
    prior = describe_prior(model.prior, mechanism) if model.prior else PAPERS_PRIOR
    console.print(f"Assumed: {escape(prior)}; the columns are jointly normal.")
    drawn = f", and the figures under their names in the paper in {FIGURES}" if figures or images else ""
    console.print(
        f"Written: report.html and its numbers as .csv files in {escape(str(out))}{drawn}. Confidential, as the "
        "table is."
    )
    next_after_application(context, table, model.prior)


def _draw(records: Records, mechanism: NIW, datasets: int, seed: int) -> Release:
    with late_progress("Drawing datasets", None):
        return Release.draw(
            mechanism.update(records.values),
            [len(records.values)] * datasets,
            np.random.default_rng(seed),
            columns=records.columns,
            prior=mechanism,
            schema=records.schema,
        )


def _is_application(folder: Path) -> bool:
    ours = all(path.suffix in (".html", ".png", ".svg") for path in folder.glob(f"{FIGURES}/*"))
    return ours and {path.name for path in folder.iterdir()} - {FIGURES} == APPLICATION_FILES


def _show_application(assessment: Assessment) -> None:
    assert assessment.fidelity is not None
    table = assessment.fidelity.ks_table()
    lines = [
        [escape(str(name)), *(f"{value:.3f}" for value in values)]
        for name, *values in zip(*table.values(), strict=True)
    ]
    show(
        "Kolmogorov-Smirnov, real against synthetic",
        ["column", "mean D", "SD", "mean p", "SD", "share p > 0.05"],
        lines,
        words=("column",),
    )
    console.print()
    rows = [[number(value) for value in line.values()] for line in assessment.growth]
    headings = ["datasets", "median distance", "baseline", "relative error", "disclosed", "largest gain"]
    show(f"Leave-one-out attacks on {counted(len(assessment.records.values), 'record')}", headings, rows)
    console.print()


def _write_tables(assessment: Assessment, folder: Path) -> None:
    """Write the numbers behind the report."""
    assert assessment.fidelity is not None
    assert assessment.budget is not None
    names = assessment.records.columns
    write_columns(folder / "kolmogorov_smirnov.csv", assessment.fidelity.ks_table())
    low, middle, high = assessment.fidelity.correlation_quartiles
    one, two = np.triu_indices(len(names), 1)
    write_columns(
        folder / "correlations.csv",
        {
            "first": np.array([names[place] for place in one]),
            "second": np.array([names[place] for place in two]),
            "real": assessment.fidelity.correlations[one, two],
            "synthetic_median": middle[one, two],
            "synthetic_q25": low[one, two],
            "synthetic_q75": high[one, two],
            "mean_difference": assessment.fidelity.mean_correlation_differences[one, two],
        },
    )
    low, middle, high = assessment.fidelity.mean_difference_quartiles
    mean = assessment.fidelity.mean_differences.mean(axis=0)
    means = {"column": np.array(names), "median": middle, "q25": low, "q75": high, "mean": mean}
    write_columns(folder / "mean_differences.csv", means)
    by_count = {"row": assessment.risk["row"], "baseline": assessment.risk["baseline_distance"]}
    for count, columns in assessment.by_count.items():
        by_count |= {f"{name}_{count}": columns[name] for name in ("distance", "relative_error")}
    write_columns(folder / "distances.csv", by_count)
    write_columns(folder / "budget.csv", assessment.budget.columns())


@command
def study(
    *,
    design: str = argument(
        "A design: paper, correlation, dimension, lacking or a .toml file; or the word show.", REQUIRED
    ),
    folder: Path | None = argument("With show: the folder of the study.", show_default=False),
    out: Path | None = option("The folder to create for the results."),
    threads: int | None = option(
        "How many threads to use, with the same results to the bit; one for each core by default."
    ),
    device: Device = "cpu",
    dask: Dask = None,
    only: str | None = option("Run only these cells, as in 'p == 2 and n in [10, 50]'."),
    replicates: int | None = option("Replicates a cell, instead of the design's number."),
    exact_records: bool = option(
        "Draw every record, as the paper does, not the statistics that the attack sees: many times slower.", False
    ),
    keep_replicates: bool = option(
        "Write every replicate (distance, exposure, guess), a Parquet file a cell in DIR/replicates.", False
    ),
    resume: bool = option("Go on with what the folder holds already; refused if the design has changed.", False),
    images: Images = None,
    force: Force = False,
) -> None:
    """Run a simulation study of the attack, the paper's or your own; `study show DIR` draws what came of it."""
    if design == "show":
        if folder is None or out is not None:
            raise InputError("study show takes the folder of a study", "allbutone study show DIR")
        _show_study(folder, images)
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
    _describe_study(held, out, time.monotonic() - start)
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


def _describe_study(held: Study, out: Path, seconds: float) -> None:
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


def _show_study(folder: Path, images: ImageFormat | None) -> None:
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
