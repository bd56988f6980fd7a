"""Every figure and table of the paper made again, the printed numbers beside ours."""

import csv
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.attack import attack
from allbutone.figures.export import NO_REQUESTS, embedded, library
from allbutone.model.niw import NIW
from allbutone.paper.design import DISTANCES, TYPICAL, Cell, Design, Printed, agreement, verdicts
from allbutone.paper.design_file import SHIPPED
from allbutone.paper.run import Study
from allbutone.paper.study_figures import in_the_paper, study_drawings
from allbutone.releases.release import Release
from allbutone.reports.assessment import PAPER_COUNTS, Step
from allbutone.reports.report import environment, paper_figures, software_versions, words_of
from allbutone.support.text import counted
from allbutone.tables.records import Records
from allbutone.utility.fidelity import Fidelity, fidelity

RECORD, DISTANCE = "mean guess", "median distance (range)"
KS = ("mean_D", "sd_D", "mean_p", "sd_p", "share_p_above_0.05")
KS_WORDS = ("mean D", "SD", "mean p", "SD", "share of p above 0.05")
ENOUGH = 199_000
# what each is in the paper, by the beginning of its name
CAPTIONS = {
    "figure-1A": "The log posterior of the missing record as more parameter draws are released, p = 2, n = 100.",
    "figure-1B": "The same with datasets of 100 rows.",
    "figure-2": "Distances after released parameters, by number of draws, columns and n.",
    "figure-3": "Distances after released datasets, by number of datasets, rows and n; p = 2.",
    "figure-A1": "As Figure 3, p = 3.",
    "figure-A2": "As Figure 3, p = 5.",
    "figure-A3": "As Figure 3, p = 10.",
    "figure-4": "Correlations of the scores, real below the diagonal, synthetic (median, quartiles) above.",
    "figure-5": "Distances of the guesses from every record, by number of datasets.",
    "figure-A4": "Mean differences of correlations.",
    "figure-A5": "Mean standardized differences, with quartiles.",
    "figure-A6": "Densities of the Kolmogorov-Smirnov p-values.",
}

# The paper's tables in the paper's own form, ours beside them: rows of text that any front end can show.


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

    def as_printed(self, mark: Callable[[str], str]) -> tuple[str, str]:
        """Return the mean record and the distances as the paper prints them; `mark` marks those that differ."""
        texts = {name: self.printed[name] for name in self.ours}
        return in_paper_form({n: mark(text) if n in self.differing else text for n, text in texts.items()})

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
    tables: dict[tuple[str, str, int], list[PrintedRow]] = {}
    for cell, row in zip(cells, rows, strict=True):
        if (printed := design.printed(cell)) is not None:
            judged = verdicts(row, printed)
            ours = {name: row[shown] for name in judged if (shown := TYPICAL.get(name, name)) in row}
            names = (cell.count, cell.n) if cell.rows is None else (cell.count, cell.n, cell.rows)
            lines = tables.setdefault((printed["table"], cell.release, cell.p), [])
            lines.append(PrintedRow(names, printed, ours, judged))
    found = []
    for (table, release, p), lines in tables.items():
        title = f"released {release}, p = {p}"
        title = f"Table {table}: {title}" if table else f"{title[0].upper()}{title[1:]}"
        headings = ("n_θ", "n") if release == "parameters" else ("n_k", "n", "n_z")
        found.append(PrintedTable(title, headings, sorted(lines, key=lambda line: line.names)))
    return found


def in_paper_form(numbers: Mapping[str, str]) -> tuple[str, str]:
    """Return "(x̄₁,x̄₂)" and "median (min-max)", as far as these numbers go."""
    means = [text for name, text in numbers.items() if name.startswith("mean_x")]
    median, low, high = (numbers.get(name, "") for name in DISTANCES)
    spread = f"({low}-{high})" if low or high else ""
    return f"({','.join(means)})" if means else "", f"{median} {spread}".strip()


def starred(text: str) -> str:
    """Mark a number that differs."""
    return f"{text}*"


# Every figure and table of the paper on one page, made again, the printed numbers beside ours.


@dataclass(frozen=True, eq=False)
class Application:
    """Section 4.2 on a table: the synthetic datasets beside it, and the attacks on everyone by their number."""

    records: Records
    fidelity: Fidelity
    by_count: dict[int, dict[str, np.ndarray]]


def papers_prior(p: int) -> NIW:
    """Return the paper's prior: mean 1.1, worth one record, p + 2 degrees of freedom, scale I."""
    return NIW(np.full(p, 1.1), 1.0, p + 2.0, np.eye(p))


def apply_paper(records: Records, datasets: int, seed: int, step: Step) -> Application:
    """Draw datasets of as many rows as the table has, compare them with it, and attack everyone."""
    people, p = records.values.shape
    prior = papers_prior(p)
    with step("Drawing datasets", None):
        drawn = prior.update(records.values), [people] * datasets, np.random.default_rng(seed)
        release = Release.draw(*drawn, columns=records.columns, prior=prior, schema=records.schema)
    by_count = {}
    for count in sorted({*(each for each in PAPER_COUNTS if each < datasets), datasets}):
        with step(f"Attacking records after {counted(count, 'dataset')}", people) as watch:
            by_count[count] = _distances(records.values, release.first(count), prior, watch)
    with step("Comparing real and synthetic data", None):
        return Application(records, fidelity(records, release), by_count)


def _distances(
    values: np.ndarray, release: Release, prior: NIW, watch: Callable[[int], None]
) -> dict[str, np.ndarray]:
    """Return how far from each record the guess is, and the centre of the others: the paper's measure alone."""
    guess = attack(values, release, prior=prior, rows="all", watch=watch).mode
    whole = prior.update(values)
    centre = (whole.mean_weight * whole.mean - values) / (whole.mean_weight - 1)  # of all but this one
    far = (np.linalg.norm(place - values, axis=1) for place in (guess, centre))
    return dict(zip(("distance", "baseline_distance"), far, strict=True))


@dataclass(frozen=True, eq=False)
class Paper:
    """The study and the application, and whether the application's table may be the paper's own."""

    study: Study
    application: Application
    scores: bool

    @cached_property
    def figures(self) -> dict[str, go.Figure]:
        """Every figure of the paper under its number there, in the paper's order."""
        drawings = {in_the_paper(name): draw for name, draw in study_drawings(self.study).items()}
        figures = {name: draw() for name, draw in drawings.items() if name.startswith("figure")}
        figures |= paper_figures(self.application.fidelity, self.application.by_count)
        return dict(sorted(figures.items(), key=lambda item: (item[0][7] == "A", item[0])))

    @cached_property
    def ks_lines(self) -> list[dict[str, Any]]:
        """Table A.4: a line a column, with what the paper prints of a trait of that name."""
        held = self.application.fidelity.ks_table()
        names, *numbers = held.values()
        with (SHIPPED / "published_ks.csv").open(encoding="utf-8") as file:
            printed = {line["trait"].upper(): line for line in csv.DictReader(file)}
        lines = []
        for name, *values in zip(names, *numbers, strict=True):
            theirs = printed.get(str(name).upper())
            given = [None] * len(KS) if theirs is None else [float(theirs[key]) for key in KS]
            lines.append({"column": str(name), "ours": [float(value) for value in values], "printed": given})
        return lines

    @property
    def about_scores(self) -> str:
        """Say whose scores Table A.4 and Figures 4, 5 and A4 to A6 show."""
        people = counted(len(self.application.records.values), "record")
        parts = "Figures 4, 5, A4 to A6 and Table A.4 were computed from"
        if self.scores:
            return f"{parts} the table given ({people}); printed numbers stand beside traits of the same name."
        return (
            f"{parts} the embedded cohort ({people}), which is simulated: the paper's scores are not published as "
            "a table. So they show the same kind of figure, and are not to be compared number by number. With the "
            "scores at hand: allbutone paper --scores FILE."
        )


def paper_page(paper: Paper) -> str:
    """Return the page: figures and tables in the paper's order, each with its number there."""
    figures = [
        {
            "number": name.split("-")[1],
            "caption": CAPTIONS["-".join(name.split("-")[:2])],
            "words": words_of(figure),
            "html": embedded(figure, name),
        }
        for name, figure in paper.figures.items()
    ]
    return environment.get_template("paper.html").render(
        no_requests=NO_REQUESTS,
        library=library(),
        figures={},
        numbered=figures,
        study=paper.study,
        agreement=agreement(paper.study.rows),
        tables=[_rows_of(table) for table in printed_tables(paper.study)],
        ks=paper.ks_lines,
        ks_words=KS_WORDS,
        about_scores=paper.about_scores,
        **software_versions(),
    )


def _rows_of(table: PrintedTable) -> Mapping[str, Any]:
    rows: list[Any] = [[*map(str, row.names), *row.as_printed(starred), *row.as_ours(1)] for row in table.rows]
    return {"title": table.title, "headings": table.headings, "agreement": table.agreement, "rows": rows}


# The page that sets the paper's printed tables beside ours, in Markdown.


_WORDS = (
    "The published tables in their own form: the mean of the adversary's guesses, and the median (range) of their "
    "distance from the target; as printed, and by the exact attack over {count:,} simulated tables a cell (the "
    "range: the typical extremes of 1000 of them). Each printed number has a verdict: **bold** where it lies, "
    "rounding allowed for, outside the 99 % interval for "
    "the same number of another 1000 replicates, plain where it lies inside. By chance about one in a hundred "
    "would be bold. {agreement}"
)
_REACH = (
    "How far out an extreme of 1000 may lie takes at least 199,000 replicates of ours to tell; with {count:,}, "
    "minima are judged only as too large and maxima only as too small, and a rare guess on the mirror hill, which "
    "moves a mean, may be missing from ours."
)


def published_page(study: Study) -> str:
    """Return the page of a study: every published number beside ours."""
    count = study.run.replicates
    words = _WORDS.format(count=count, agreement=agreement(study.rows))
    if count < ENOUGH:
        words += " " + _REACH.format(count=count)
    parts = [f"# {study.run.design.title}, as printed and as computed exactly", textwrap.fill(words, 115)]
    return "\n\n".join([*parts, *map(markdown_table, printed_tables(study))]) + "\n"


def markdown_table(table: PrintedTable, ours: str = "exact") -> str:
    """Return a printed table beside ours, which is called so."""
    heads = [*table.headings, *(f"{whose} {what}" for whose in ("printed", ours) for what in (RECORD, DISTANCE))]
    lines = [f"## {table.title}", "", f"{table.agreement[0].upper()}{table.agreement[1:]}.", ""]
    lines += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in table.rows:
        cells = [*map(str, row.names), *row.as_printed(lambda text: f"**{text}**"), *row.as_ours(2)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
