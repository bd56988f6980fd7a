"""The commands about the paper: all of it in one run, its application to a table, and simulation studies."""

import secrets
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli import options as ask
from allbutone.cli import output as terminal
from allbutone.cli.reading import prior_of, read_content, read_records
from allbutone.cli.report import Note, describe_assessment, write_page
from allbutone.cli.synthesize import describe_prior
from allbutone.figures.export import write_images
from allbutone.paper import pages
from allbutone.paper.design import agreement, choose
from allbutone.paper.design_file import read_design
from allbutone.paper.journal import LACKING
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
    ask.option(
        "A table of scores, one row a person; without one, the embedded simulated cohort.", None, "--scores",
        show_default=False,
    ),
)  # fmt: skip
NAMED_TABLE = (
    Path | None,
    ask.argument("A confidential table, as `synthesize` reads it; without one, the embedded simulated cohort."),
)
PAGE, TABLES, KS_FILE, STUDY, FIGURES = "paper.html", "tables.md", "table-A4.csv", "study", "figures"
# what PLINK, bigsnpr and the 1000 Genomes Project call those who have the scores
IDENTIFIERS = {"id", "fid", "iid", "sample", "sample.id", "family.id", "pop", "super_pop"}


@ask.command
def paper(
    *,
    source: Annotated[ask.TableOptions, ask.Offers(*ask.OF_TABLE, table=SCORES)],
    out: NewFolder = Path("paper"),
    replicates: int = ask.option("Simulated attacks of each of the study's 1008 settings.", 1000),
    datasets: int = ask.option("Synthetic datasets of the application.", 1000),
    seed: int = ask.option("Of the application's datasets; the study has its own.", 1, min=0),
    images: ask.Images = None,
    force: ask.Force = False,
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
        with terminal.late_progress("Simulating cells", len(design.cells)) as watch:
            study = run_study(StudyRun(design, replicates), work / STUDY, watch=watch)
        made = pages.Paper(
            study, pages.apply_paper(records, datasets, seed, terminal.late_progress), scores is not None
        )
        _write_paper(made, work, images)
        if scores:
            _make_private(work)
    terminal.console.print(
        f"[bold]The paper's {len(made.figures)} figures and 5 tables[/bold], made again in "
        f"{time.monotonic() - start:.0f} s: {escape(str(out / PAGE))} (opens in any browser, offline)."
    )
    terminal.say(agreement(study.rows))
    terminal.say(made.about_scores)
    if left_out:
        terminal.say(f"Left out, because they only say who somebody is: {', '.join(left_out)}.")
    written = [f"{TABLES} (Tables A.1 to A.3)", f"{KS_FILE}", f"{STUDY}/cells.csv"]
    written += [f"{FIGURES} (a picture each)"] * bool(images)
    terminal.say(f"Written, too: {', '.join(written)}.{' Confidential, as the scores are.' * bool(scores)}")
    terminal.say(
        "Assumed: the paper's design and prior (mean 1.1, scale I, worth one record); the exact maximum, where "
        "the paper searches from one start."
    )
    terminal.show_next("one of its questions on a setting of your own (docs/study.md):", ["study", "--help"])


def _scores(source: ask.TableOptions) -> tuple[Records, list[str]]:
    """Read the table, without the columns that only say who somebody is."""
    names = [] if source.columns else read_content(source).column_names
    left_out = [name for name in names if name.lower() in IDENTIFIERS]
    return read_records(replace(source, drop=[*(source.drop or ()), *left_out])), left_out


def _make_private(folder: Path) -> None:
    """Let only the owner read what describes individual records."""
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _write_paper(made: pages.Paper, work: Path, images: ask.ImageFormat | None) -> None:
    with terminal.late_progress("Drawing figures", None):
        (work / PAGE).write_text(pages.paper_page(made), encoding="utf-8")
        (work / TABLES).write_text(pages.published_page(made.study), encoding="utf-8")
        if images:
            (work / FIGURES).mkdir()
            write_images({work / FIGURES / f"{name}.{images}": figure for name, figure in made.figures.items()})
    columns = {"column": np.array([line["column"] for line in made.ks_lines])}
    for at, name in enumerate(pages.KS):
        for whose, heading in (("ours", name), ("printed", f"printed_{name}")):
            columns[heading] = np.array([line[whose][at] for line in made.ks_lines], dtype=float)
    write_columns(work / KS_FILE, columns)


def _is_paper(folder: Path) -> bool:
    return {path.name for path in folder.iterdir()} - {FIGURES} == {PAGE, TABLES, KS_FILE, STUDY}


PAPERS_PRIOR = "the paper's prior (mean 1.1, scale I, worth one record)"
APPLICATION_FILES = {
    "report.html", "kolmogorov_smirnov.csv", "correlations.csv", "mean_differences.csv", "distances.csv",
    "budget.csv",
}  # fmt: skip


@ask.command
def application(
    *,
    context: typer.Context,
    source: Annotated[ask.TableOptions, ask.Offers(*ask.OF_TABLE, table=NAMED_TABLE)],
    model: Annotated[ask.ModelOptions, ask.Offers(prior="A prior file; the paper's prior by default.")],
    out: NewFolder = Path("application"),
    datasets: int = ask.option("How many datasets to draw.", 1000),
    note: Note = "",
    seed: int | None = ask.option("Makes it repeatable.", min=0),
    figures: bool = ask.option("Also write each figure, named as in the paper.", False),
    images: ask.Images = None,
    force: ask.Force = False,
) -> None:
    """Run the paper's application: 1000 synthetic datasets, their fidelity, and the risk as their number grows."""
    count_of("datasets", datasets)
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    table = source.table
    require_distinct([out], [table, model.prior, source.table_file])
    with fresh_folder(out, ours=_is_application, force=force) as work:
        records = read_records(source) if table else demo_cohort()
        mechanism = prior_of(model, records) or pages.papers_prior(len(records.columns))
        with terminal.late_progress("Drawing datasets", None):
            posterior, sizes = mechanism.update(records.values), [len(records.values)] * datasets
            public: dict[str, Any] = {"columns": records.columns, "prior": mechanism, "schema": records.schema}
            release = Release.draw(posterior, sizes, np.random.default_rng(seed), **public)
        counts = sorted({*PAPER_COUNTS, datasets})
        assessment = assess(records, release, counts=counts, mass=False, step=terminal.late_progress)
        words = note or ("" if table else "A simulated cohort: no person stands behind any row.")
        again = terminal.following(context, "application", *([table] if table else []), seed=seed)
        write_page(work / "report.html", assessment, again, words)
        _write_tables(assessment, work)
        if figures or images:
            assert assessment.fidelity is not None
            figures_by_name = paper_figures(assessment.fidelity, assessment.by_count)
            terminal.write_named(figures_by_name, work / FIGURES, images)
        _make_private(work)
    describe_assessment(assessment)
    _show_application(assessment)
    prior = describe_prior(model.prior, mechanism) if model.prior else PAPERS_PRIOR
    terminal.say(f"Assumed: {prior}; the columns are jointly normal.")
    drawn = f", and the figures under their names in the paper in {FIGURES}" if figures or images else ""
    terminal.say(
        f"Written: report.html and its numbers as .csv files in {out}{drawn}. Confidential, as the table is."
    )
    if table is None:
        terminal.show_next("the same for a table of your own:", ["application", "--help"])
    else:
        words = f"how much may be released{' under the flat prior' * (model.prior is None)}:"
        terminal.propose(context, words, "budget", table, out="budget.csv")


def _is_application(folder: Path) -> bool:
    ours = all(path.suffix in (".html", ".png", ".svg") for path in folder.glob(f"{FIGURES}/*"))
    return ours and {path.name for path in folder.iterdir()} - {FIGURES} == APPLICATION_FILES


def _show_application(assessment: Assessment) -> None:
    assert assessment.fidelity is not None
    table = assessment.fidelity.ks_table()
    lines = [
        [f"{name}", *(f"{value:.3f}" for value in values)] for name, *values in zip(*table.values(), strict=True)
    ]
    headings = ["column", "mean D", "SD", "mean p", "SD", "share p > 0.05"]
    terminal.show("Kolmogorov-Smirnov, real against synthetic", headings, lines, words=("column",))
    terminal.say("")
    rows = [list(line.values()) for line in assessment.growth]
    headings = ["datasets", "median distance", "baseline", "relative error", "disclosed", "largest gain"]
    terminal.show(f"Leave-one-out attacks on {counted(len(assessment.records.values), 'record')}", headings, rows)
    terminal.say("")


def _write_tables(assessment: Assessment, folder: Path) -> None:
    """Write the numbers behind the report."""
    fidelity, risk, names = assessment.fidelity, assessment.risk, np.array(assessment.records.columns)
    assert fidelity is not None
    assert assessment.budget is not None
    write_columns(folder / "kolmogorov_smirnov.csv", fidelity.ks_table())
    one, two = pairs = np.triu_indices(len(names), 1)
    low, middle, high = (quartile[pairs] for quartile in fidelity.correlation_quartiles)
    correlations = {"first": names[one], "second": names[two], "real": fidelity.correlations[pairs]}
    correlations |= {"synthetic_median": middle, "synthetic_q25": low, "synthetic_q75": high}
    correlations |= {"mean_difference": fidelity.mean_correlation_differences[pairs]}
    write_columns(folder / "correlations.csv", correlations)
    low, middle, high = fidelity.mean_difference_quartiles
    mean = fidelity.mean_differences.mean(axis=0)
    means = {"column": names, "median": middle, "q25": low, "q75": high, "mean": mean}
    write_columns(folder / "mean_differences.csv", means)
    by_count = {"row": risk["row"], "baseline": risk["baseline_distance"]}
    for count, columns in assessment.by_count.items():
        by_count |= {f"{name}_{count}": columns[name] for name in ("distance", "relative_error")}
    write_columns(folder / "distances.csv", by_count)
    write_columns(folder / "budget.csv", assessment.budget.columns())


@ask.command
def study(
    *,
    design: str = ask.argument(
        "A design: paper, correlation, dimension, lacking or a .toml file; or the word show.", ask.REQUIRED
    ),
    folder: Path | None = ask.argument("With show: the folder of the study.", show_default=False),
    out: Path | None = ask.option("The folder to create for the results."),
    threads: int | None = ask.option(
        "How many threads to use, with the same results to the bit; one for each core by default."
    ),
    device: ask.Device = "cpu",
    dask: ask.Dask = None,
    only: str | None = ask.option("Run only these cells, as in 'p == 2 and n in [10, 50]'."),
    replicates: int | None = ask.option("Replicates a cell, instead of the design's number."),
    exact_records: bool = ask.option(
        "Draw every record, as the paper does, not the statistics that the attack sees: many times slower.", False
    ),
    keep_replicates: bool = ask.option(
        "Write every replicate (distance, exposure, guess), a Parquet file a cell in DIR/replicates.", False
    ),
    resume: bool = ask.option(
        "Go on with what the folder holds already; refused if the design has changed.", False
    ),
    images: ask.Images = None,
    force: ask.Force = False,
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
    try:
        with on_cluster(dask), terminal.late_progress("Simulating cells", len(cells)) as watch:
            held = run_study(
                run, out, cells=cells, threads=threads, keep_replicates=keep_replicates, resume=resume,
                force=force, watch=watch,
            )  # fmt: skip
    except (KeyboardInterrupt, SystemExit):
        terminal.notes.print(
            f"Stopped. What was finished is kept in {escape(str(out))}: go on with the same command and --resume."
        )
        raise
    _describe_study(held, out, time.monotonic() - start)
    terminal.show_next(
        "see it as figures, and beside what was published, if anything was:", ["study", "show", str(out)]
    )


def _describe_study(held: Study, out: Path, seconds: float) -> None:
    done, every = len(held.rows), len(held.run.design.cells)
    what = counted(done, "cell") if done == every else f"{done:,} of {every:,} cells"
    terminal.console.print(
        f"[bold]{escape(held.run.design.title)}[/bold]: {what} of {counted(held.run.replicates, 'replicate')} in "
        f"{escape(str(out))}; this run took {seconds:.1f} s."
    )
    if lost := sum(row["unconverged"] for row in held.rows):
        terminal.console.print(
            f"[yellow]{counted(lost, 'attack')} did not converge; see the column unconverged.[/yellow]"
        )
    terminal.say(agreement(held.rows))
    terminal.say(
        "Written: cells.csv and cells.parquet (one row for each cell), journal.jsonl (what --resume goes on from)."
    )
    whole = held.run.records or held.run.design.solver == "lbfgsb"
    whole |= any(cell.reading == "mechanism" for cell in held.cells)
    drawn = "every record, as in the paper" if whole else "no more than the statistics that the attack sees"
    terminal.say(
        f"Assumed: tables from the design's normal distribution, {adversaries_in_words(held)}. Drawn: {drawn}. "
        f"Solver: {held.run.design.solver}. Seed {held.run.design.seed}: run again"
        f"{' on the same model of graphics card' if held.run.device != 'cpu' else ''}, it gives the same."
    )


def adversaries_in_words(held: Study) -> str:
    """Say what the adversaries of a study's cells have."""
    if not any(cell.lacking for cell in held.cells):
        return "an adversary who has all records but one"
    return "adversaries who lack what each cell says besides the record attacked (column lacking)"


def _show_study(folder: Path, images: ask.ImageFormat | None) -> None:
    held = load_study(folder)
    if not held.rows:
        raise InputError(
            f"{folder} holds no finished cell yet", f"go on with: allbutone study … --out {folder} --resume"
        )
    known = [row for row in held.rows if row["verdict"]]
    if known:
        for table in pages.printed_tables(held):
            _show_printed(table)
        with fresh_file(folder / "published.md", force=True) as path:
            path.write_text(pages.published_page(held), encoding="utf-8")
    else:
        _show_cells(held.rows)
    terminal.say(agreement(held.rows))
    papers = held.run.design.text == read_design("paper").text
    figures = {in_the_paper(name) if papers else name: figure for name, figure in study_figures(held).items()}
    terminal.write_named(figures, folder / FIGURES, images)
    written = ", ".join(f"{name}.html" for name in figures)
    terminal.say(f"Figures in {folder / FIGURES} (open in any browser, offline): {written}.")
    if known:
        terminal.say(f"Every published number beside ours: {folder / 'published.md'}.")


def _show_printed(table: pages.PrintedTable) -> None:
    """Print a published table in its own form, ours beside it, within 80 columns; * marks what differs."""
    terminal.console.print(
        f"[bold]{table.title}[/bold]: {table.agreement} (* differs)\n({pages.RECORD}) {pages.DISTANCE}:"
    )
    printed = [" ".join(filter(None, row.as_printed(pages.starred))) for row in table.rows]
    width = max(map(len, printed))
    terminal.say(f"{''.join(f'{heading:>5}' for heading in table.headings)}  {'printed':<{width}}  ours")
    for row, as_printed in zip(table.rows, printed, strict=True):
        ours = " ".join(filter(None, row.as_ours(1)))
        terminal.say(f"{''.join(f'{name:>5}' for name in row.names)}  {as_printed:<{width}}  {ours}")
    terminal.say("")


def _show_cells(rows: list[dict[str, Any]]) -> None:
    """Print the cells; what is the same in all of them is said once, above."""
    most = 40
    names = ["release", "p", "n", "count", "rows", "structure", "correlation", "position"]
    names += [name for name in LACKING if any(row[name] for row in rows)]
    shared = [name for name in names if len({row[name] for row in rows}) == 1]
    same = ", ".join(f"{name} {number(rows[0][name])}" for name in shared if rows[0][name] is not None)
    varied = [name for name in names if name not in shared]
    medians = {"leverage_median": "leverage", "exposure_median": "exposure", "median": "distance"}
    medians |= {"law_median": "expected"}
    which = f"The first {most} of {len(rows):,} cells" if len(rows) > most else "All cells"
    title = f"{which}{', each with ' * bool(same)}{same}; medians over the replicates"
    headings = [*(name.replace("_", " ") for name in varied), *medians.values()]
    terminal.show(title, headings, [[row[name] for name in (*varied, *medians)] for row in rows[:most]])
    terminal.say("")
