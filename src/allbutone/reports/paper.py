"""Every figure and table of the paper on one page, made again, the printed numbers beside ours."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import plotly.graph_objects as go

from allbutone.adversary.leave_one_out import attack_all
from allbutone.model.niw import NIW
from allbutone.plots.export import NO_REQUESTS, embedded, library
from allbutone.plots.study import in_the_paper, study_drawings
from allbutone.releases.release import DatasetRelease
from allbutone.reports.assessment import PAPER_COUNTS, Step
from allbutone.reports.html import application_figures, environment, software_versions, words_of
from allbutone.studies.design_file import SHIPPED
from allbutone.studies.printed_tables import PrintedTable, printed_tables
from allbutone.studies.published import agreement
from allbutone.studies.run import Study
from allbutone.support.text import counted
from allbutone.tables.records import Records
from allbutone.utility.fidelity import Fidelity, fidelity

KS = ("mean_D", "sd_D", "mean_p", "sd_p", "share_p_above_0.05")
KS_WORDS = ("mean D", "SD", "mean p", "SD", "share of p above 0.05")
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
        release = DatasetRelease.draw(
            prior.update(records.values),
            [people] * datasets,
            np.random.default_rng(seed),
            columns=records.columns,
            prior=prior,
            schema=records.schema,
        )
    by_count = {}
    for count in sorted({*(each for each in PAPER_COUNTS if each < datasets), datasets}):
        with step(f"Attacking records after {counted(count, 'dataset')}", people) as watch:
            by_count[count] = _distances(records.values, release.first(count), prior, watch)
    with step("Comparing real and synthetic data", None):
        return Application(records, fidelity(records, release), by_count)


def _distances(
    values: np.ndarray, release: DatasetRelease, prior: NIW, watch: Callable[[int], None]
) -> dict[str, np.ndarray]:
    """Return how far from each record the guess is, and the centre of the others: the paper's measure alone."""
    guess = attack_all(values, release, prior, watch=watch).mode
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
        found = {name: draw() for name, draw in drawings.items() if name.startswith("figure")}
        found |= application_figures(self.application.fidelity, self.application.by_count)
        return dict(sorted(found.items(), key=lambda item: (item[0][7] == "A", item[0])))

    @property
    def tables(self) -> list[PrintedTable]:
        """Tables A.1 to A.3."""
        return printed_tables(self.study)

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
        tables=[_rows_of(table) for table in paper.tables],
        ks=paper.ks_lines,
        ks_words=KS_WORDS,
        about_scores=paper.about_scores,
        **software_versions(),
    )


def _rows_of(table: PrintedTable) -> Mapping[str, Any]:
    rows: Sequence[Any] = [
        [*map(str, row.names), *row.as_printed(lambda text: f"{text}*"), *row.as_ours(1)] for row in table.rows
    ]
    return {"title": table.title, "headings": table.headings, "agreement": table.agreement, "rows": rows}
