"""Studies: what came of simulations, as figures and as a table beside what was published."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import plotly.graph_objects as go
from starlette.datastructures import QueryParams

from allbutone.app.forms import Choice, Group, read
from allbutone.app.jobs import Answer, Download, Progress
from allbutone.app.page import Held, Page, RequestContext, Source, piece, templates
from allbutone.app.pages.source import CARRIED
from allbutone.figures.export import untitled
from allbutone.paper.design import agreement
from allbutone.paper.journal import JOURNAL, LACKING
from allbutone.paper.pages import printed_tables, starred
from allbutone.paper.run import SHIPPED, Study, load_study
from allbutone.paper.study_figures import study_drawings
from allbutone.support.errors import InputError, reason

MOST_ROWS = 200  # of the table; the file has all
TABLE = "cells.csv"
FIGURE, ROWS = "The figure", "Rows of the table"
HEIGHT = 620  # pixels, of a figure without a height of its own
FILTERS = {
    "release": ("Released", "Draws of the parameters (paper 3.1), or synthetic datasets (3.2)."),
    "p": ("Columns", "The features of a record, p."),
    "n": ("Records", "n, the missing record included."),
    "count": ("How many", "Parameter draws or datasets released."),
    "rows": ("Rows of each dataset", "n_z in the paper's section 3.2."),
    "verdict": (
        "Published numbers",
        "A cell agrees if each number lies in the 99 % interval for another 1000 replicates, rounding aside.",
    ),
}
KINDS = {
    "landscape": "Landscape",
    "violins": "Distances",
    "exposure": "Exposure",
    "leverage": "Leverage",
    "fixed-leverage": "Fixed leverage",
    "dimension": "Number of columns",
}
SOMETIMES = ("structure", "correlation", "position", *LACKING)  # columns shown where cells differ in them
templates.globals["SOMETIMES"] = SOMETIMES
NOUNS = {"parameters": "draws", "datasets": "datasets"}
ROOM = 45  # pixels, below a figure: for the name of an axis and two lines of legend


@dataclass(frozen=True)
class Asked:
    """The study that an address names, what is kept of it, and what can be asked about it."""

    name: str
    folder: Path
    held: Held
    groups: tuple[Group, ...]

    @property
    def study(self) -> Study:
        """What its folder holds."""
        return self.held.value


def names_of(folders: tuple[Path, ...]) -> dict[str, Path]:
    """Return the folders, and what the package brings along, by what an address calls them.

    Those are their own names, with a number where two are alike.
    """
    found: dict[str, Path] = {}
    for folder in (*folders, SHIPPED):
        base = name = folder.resolve().name or "study"
        turn = 1
        while name in found:
            turn += 1
            name = f"{base}-{turn}"
        found[name] = folder
    return found


templates.filters |= {"by_name": names_of}


def _asked(query: Mapping[str, str], context: RequestContext, step: Progress) -> Asked:
    folders = names_of(context.settings.studies)
    which = Choice("study", "Study", next(iter(folders)), options={name: name for name in folders})
    name = which.value(query.get("study", which.default))
    try:
        state = (folders[name] / JOURNAL).stat()
    except OSError as error:
        words = f"the study {name} cannot be read any more: {reason(error)}"
        raise InputError(words, "start the app again with --study") from error
    with step("Reading the study", None):
        held = _loaded(folders[name], state.st_mtime_ns, state.st_size)
    return Asked(name, folders[name], held, held.get_or_compute(("groups",), lambda: _groups(held.value)))


@lru_cache(maxsize=8)
def _loaded(folder: Path, changed: int, size: int) -> Held:
    """Read a study once; one that is still being run has changed when it is asked for again."""
    return Held(load_study(folder))


def _groups(study: Study) -> tuple[Group, ...]:
    """Return the controls that fit a study: its figures, and the values of its cells."""
    figures = {name: _label(name) for name in study_drawings(study)}
    first = next((name for name in figures if name.startswith("violins")), next(iter(figures), ""))
    filters = []
    for name, (label, words) in FILTERS.items():
        values = {row[name] for row in study.rows} - {None}
        if len(values) > 1:
            options = {f"{value}": f"{value:,}" if isinstance(value, int) else value for value in sorted(values)}
            filters.append(Choice(name, label, "", words, {"": "all", **options}, reset_by="study"))
    words = "Every figure that fits the study's design."
    figure = Choice("figure", "Figure", first, words, figures, reset_by="study")
    found = Group(FIGURE, (figure,) if figures else ()), Group(ROWS, tuple(filters))
    return tuple(group for group in found if group.fields)


def _of(groups: tuple[Group, ...], legend: str) -> list[Group]:
    return [group for group in groups if group.legend == legend]


def _label(name: str) -> str:
    """Say in words what a figure shows."""
    kind = next(kind for kind in sorted(KINDS, key=len, reverse=True) if name.startswith(kind))
    parts = name.removeprefix(kind).strip("-").split("-")
    words = [NOUNS.get(part, f"p = {part[1:]}") for part in parts if part]
    return ": ".join(filter(None, (KINDS[kind], ", ".join(words))))


def _choices(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    asked = _asked(query, context, step)
    study = asked.study
    summary = piece(
        "studies_summary.html",
        study=study,
        words=agreement(study.rows),
        every=len(study.run.design.cells),
        unconverged=sum(row["unconverged"] for row in study.rows),
    )
    figure, filters = (
        piece("studies_choices.html", groups=_of(asked.groups, legend), query=query) for legend in (FIGURE, ROWS)
    )
    printed = piece("studies_printed.html", tables=printed_tables(study), starred=starred)
    return Answer({"figures": figure, "filters": filters, "summary": summary, "printed": printed})


def _figure(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    asked = _asked(query, context, step)
    wanted = read(_of(asked.groups, FIGURE), query).get("figure")
    if wanted is None:
        return Answer({"below": ""}, error="No figure fits this study, or none of its cells is finished yet.")

    def draw() -> go.Figure:
        drawn = study_drawings(asked.study)[wanted]()
        copy, height = untitled(drawn), drawn.layout.height or HEIGHT
        return copy.update_layout(height=height + ROOM, margin_b=copy.layout.margin.b + ROOM)

    with step("Drawing the figure", None):
        figure = asked.held.get_or_compute(("figure", wanted), draw)
    return Answer({"below": piece("studies_below.html", words=figure.layout.meta["below"])}, {"study": figure})


def _table(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    asked = _asked(query, context, step)
    wanted = {name: text for name, text in read(asked.groups, query).items() if name in FILTERS and text}
    rows = [row for row in asked.study.rows if all(f"{row[name]}" == text for name, text in wanted.items())]
    table = piece(
        "studies_table.html", rows=rows[:MOST_ROWS], found=len(rows), every=len(asked.study.rows),
        complete=(asked.folder / TABLE).is_file(),
        several={name for name in SOMETIMES if len({row[name] for row in asked.study.rows}) > 1},
    )  # fmt: skip
    return Answer({"cells": table})


def _cells(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    asked = _asked(query, context, step)
    try:
        return Download(f"{asked.name}-{TABLE}", (asked.folder / TABLE).read_bytes())
    except OSError as error:
        raise InputError(
            f"the study {asked.name} has no {TABLE} yet ({reason(error)})", "wait until a run of it ends"
        ) from error


PAGE = Page(
    "studies",
    "Studies",
    (),
    answers={
        "choices": Source(_choices, ("study",), slow=True),
        "figure": Source(_figure, ("study", "figure"), slow=True),
        "table": Source(_table, ("study", *FILTERS)),
    },
    files={TABLE: _cells},
    carried=CARRIED,
)
