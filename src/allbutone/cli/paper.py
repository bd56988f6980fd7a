"""The paper command: every figure and table of the paper in one run."""

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.output import ImageFormat, Images, console, late_progress, show_next
from allbutone.cli.reading import OF_TABLE, also_asked, read_content, read_records
from allbutone.plots.export import write_images
from allbutone.reports.paper import KS, Paper, apply_paper, paper_page
from allbutone.reports.published import published_page
from allbutone.studies.design_file import read_design
from allbutone.studies.published import agreement
from allbutone.studies.run import StudyRun, run_study
from allbutone.support.checks import count_of
from allbutone.tables.demo import demo_cohort
from allbutone.tables.files import write_columns
from allbutone.tables.records import Records
from allbutone.tables.safe_write import fresh_folder, require_distinct

Out = Annotated[Path, typer.Option(help="The folder to create.")]
Scores = Annotated[
    Path | None,
    typer.Option(
        help="A table of scores, one row a person; without one, the embedded simulated cohort.", show_default=False
    ),
]
Replicates = Annotated[int, typer.Option(help="Simulated attacks of each of the study's 1008 settings.")]
Datasets = Annotated[int, typer.Option(help="Synthetic datasets of the application.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the application's datasets; the study has its own.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what an earlier run wrote.")]

PAGE, TABLES, KS_FILE, STUDY, FIGURES = "paper.html", "tables.md", "table-A4.csv", "study", "figures"
# what PLINK, bigsnpr and the 1000 Genomes Project call those who have the scores
IDENTIFIERS = {"id", "fid", "iid", "sample", "sample.id", "family.id", "pop", "super_pop"}


@also_asked(OF_TABLE)
def paper(
    context: typer.Context,
    out: Out = Path("paper"),
    scores: Scores = None,
    replicates: Replicates = 1000,
    datasets: Datasets = 1000,
    seed: Seed = 1,
    images: Images = None,
    force: Force = False,
) -> None:
    """Make every figure and table of the paper, the printed numbers beside ours, as one page."""
    count_of("replicates", replicates)
    count_of("datasets", datasets)
    require_distinct([out], [scores, context.params["table_file"]])
    start = time.monotonic()
    records, left_out = _scores(context, scores) if scores else (demo_cohort(), [])
    with fresh_folder(out, ours=_is_paper, force=force) as work:
        design = read_design("paper")
        with late_progress("Simulating cells", len(design.cells)) as watch:
            study = run_study(StudyRun(design, replicates), work / STUDY, watch=watch)
        found = Paper(study, apply_paper(records, datasets, seed, late_progress), scores is not None)
        _write(found, work, images)
        if scores:
            for path in work.rglob("*"):
                path.chmod(0o700 if path.is_dir() else 0o600)
    _tell(found, out, left_out, scores, images, time.monotonic() - start)


def _scores(context: typer.Context, scores: Path) -> tuple[Records, list[str]]:
    """Read the table, without the columns that only say who somebody is."""
    given = context.params
    names = read_content(given, scores).column_names
    left_out = [name for name in names if name.lower() in IDENTIFIERS] if not given["columns"] else []
    given["drop"] = [*(given["drop"] or ()), *left_out]
    return read_records(context, scores), left_out


def _write(found: Paper, work: Path, images: ImageFormat | None) -> None:
    with late_progress("Drawing figures", None):
        (work / PAGE).write_text(paper_page(found), encoding="utf-8")
        (work / TABLES).write_text(published_page(found.study), encoding="utf-8")
        if images:
            (work / FIGURES).mkdir()
            write_images({work / FIGURES / f"{name}.{images}": figure for name, figure in found.figures.items()})
    columns = {"column": np.array([line["column"] for line in found.ks_lines])}
    for at, name in enumerate(KS):
        for whose, heading in (("ours", name), ("printed", f"printed_{name}")):
            columns[heading] = np.array([line[whose][at] for line in found.ks_lines], dtype=float)
    write_columns(work / KS_FILE, columns)


def _is_paper(folder: Path) -> bool:
    return {path.name for path in folder.iterdir()} - {FIGURES} == {PAGE, TABLES, KS_FILE, STUDY}


def _tell(
    found: Paper, out: Path, left_out: list[str], scores: Path | None, images: ImageFormat | None, seconds: float
) -> None:
    console.print(
        f"[bold]The paper's {len(found.figures)} figures and 5 tables[/bold], made again in {seconds:.0f} s: "
        f"{escape(str(out / PAGE))} (opens in any browser, offline)."
    )
    console.print(agreement(found.study.rows))
    console.print(escape(found.about_scores))
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
