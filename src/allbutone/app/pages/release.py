"""Release: what a release of a table would give away, the release itself, and what this very one does."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from starlette.datastructures import QueryParams

from allbutone.app.forms import in_app_words, names, read
from allbutone.app.jobs import Answer, Download, Progress, as_csv
from allbutone.app.page import Held, Page, RequestContext, Source, piece
from allbutone.app.pages.forecast import (
    GROUPS,
    MOST_FILES,
    MOST_VALUES,
    Forecast,
    ReleaseRequest,
    budget_of,
    forecast,
    normality_of,
)
from allbutone.app.pages.source import CARRIED
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import ToldValues
from allbutone.figures.budget import budget_figure
from allbutone.figures.export import untitled
from allbutone.figures.risk import disclosure_figure, risk_figure
from allbutone.figures.style import INK
from allbutone.releases.check import zip_release
from allbutone.releases.folder import save_release
from allbutone.releases.ledger import DRAWN, read_ledger, record_release
from allbutone.releases.release import Release
from allbutone.releases.synthesizer import Synthesizer
from allbutone.releases.together import Together, with_earlier
from allbutone.reports.assessment import Assessment
from allbutone.reports.findings import budget_words
from allbutone.reports.report import MEASURES, confidential_report, fidelity_figures, public_report
from allbutone.reports.verdict import told_of, values_of
from allbutone.support.errors import InputError
from allbutone.utility.fidelity import fidelity
from allbutone.utility.shapes import densities

SHOWN = 10  # records listed
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, eq=False)
class DrawnRelease:
    """A release, what was asked for, the earlier releases it is judged with, and the ledger that has those."""

    release: Release
    request: ReleaseRequest
    judged: Together
    ledger: Path | None


def _table(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    request, drawn = ReleaseRequest.of(query, context), context.session.held.get(query.get("drawn", ""))
    other = drawn is not None and isinstance(drawn.thing, DrawnRelease) and drawn.thing.request.key != request.key
    return Answer(
        {"table": piece("release_table.html", request=request, other=other, limits=(MOST_FILES, MOST_VALUES))}
    )


def _ahead(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    request = ReleaseRequest.of(query, context)
    found = forecast(request, context, step)
    lines = found.lines(SHOWN)
    part = piece("release_ahead.html", found=found, lines=lines, words=found.plan.sentence)
    return Answer({"ahead": part}, {"ahead": _marked(found)})


def _marked(found: Forecast) -> go.Figure:
    """Return the budget's figure with this number on it."""
    figure, number = untitled(budget_figure(found.plan)), found.request.number
    last = 10 ** figure.layout.xaxis.range[1]
    x = min(found.plan.before + number, last)
    figure.add_vline(x=x, line={"color": INK, "width": 6}, opacity=0.25, layer="below")
    # upright, so that it fits between the lines of the budget
    figure.add_annotation(
        x=np.log10(x), y=0.06, yref="paper", yanchor="bottom", textangle=-90, showarrow=False,
        xanchor="right" if x > 2 else "left", xshift=-4 if x > 2 else 4, bgcolor="white", borderpad=1,
        text=f"<b>this release: {number:,}</b>" + " →" * (found.plan.before + number > last),
    )  # fmt: skip
    return figure


def _draw(query: QueryParams, sent: Mapping[str, str], context: RequestContext, step: Progress) -> Answer:
    request = ReleaseRequest.of(query, context)
    if request.too_large:
        raise InputError("this release is too large to be drawn here", "\n".join(["run", *request.commands]))
    found = forecast(request, context, step)
    if found.beyond and sent.get("confirm") != request.mark:
        asked = piece("release_confirm.html", found=found, shown=SHOWN)
        refused = f"Nothing was drawn. {found.plan.sentence} Confirm it to draw it."
        return Answer({"confirm": asked}, error=refused)
    ledger = None if request.chosen.simulated else context.settings.ledger_of(request.chosen.name)
    with step("Drawing", None):
        release = _drawn(request)
        known = read_ledger(ledger) if ledger else None
        drawn = DrawnRelease(release, request, with_earlier(known, request.chosen.records, release), ledger)
    return Answer(fields={"drawn": context.session.keep(drawn, request.bytes)})


def _drawn(request: ReleaseRequest) -> Release:
    """Draw from the system's own entropy, which nobody can try out: what can be repeated can be undone."""
    chosen, synthesizer = request.chosen, Synthesizer(request.chosen.prior)
    if chosen.is_mixed:
        mixed = chosen.mixed_synthesizer()
        if request.rows is None:
            return mixed.sample_parameters(request.number)
        return mixed.sample(datasets=request.number, rows=None if chosen.keep else request.rows)
    synthesizer.fit(chosen.records)
    if request.rows is None:
        return synthesizer.sample_parameters(request.number)
    return synthesizer.sample(datasets=request.number, rows=request.rows)


def _after(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    if not query.get("drawn"):
        return Answer({"after": ""})
    held = _found(query, context)
    assessment, chosen = _assessment(held, query, step), held.thing.request.chosen
    order = ToldValues.of(assessment.risk, assessment.rule).order
    with step("Drawing figures", None):
        found = {
            "disclosure": disclosure_figure(assessment.risk, assessment.rule),
            "risk": risk_figure(assessment.risk, chosen.drawn, order, labels=3),
            **fidelity_figures(assessment.fidelity, assessment.densities),
        }
        figures = {name: untitled(one) for name, one in found.items()}
    measures = ("row", *MEASURES)
    part = piece(
        "release_after.html",
        request=held.thing.request,
        ledger=held.thing.ledger,
        assessment=assessment,
        budget_words=budget_words(assessment.budget, assessment.count, assessment.earlier_count)
        if assessment.budget
        else "not computed.",
        rule_words=assessment.rule.in_full,
        values=told_of(values_of(assessment.risk, assessment.rule, SHOWN)),
        figures=list(figures),
        lines=[[assessment.risk[name][place] for name in measures] for place in order[:SHOWN]],
        ks=list(zip(*assessment.fidelity.ks_table().values(), strict=True)) if assessment.fidelity else [],
    )
    return Answer({"after": part}, figures)


def _asked(query: QueryParams, *names: str) -> dict[str, Any]:
    """Return what an address asks of a release that was drawn, by the names of the request."""
    asked = read(GROUPS, query, *names)
    asked["rule"] = asked.pop("probability")
    return asked


def _found(query: QueryParams, context: RequestContext) -> Held:
    return context.session.find(query.get("drawn", ""), DrawnRelease, "The release of this address")


def _as_asked(held: Held, query: QueryParams, *names: str) -> ReleaseRequest:
    """Return the request of what was drawn, with the rule and what else the address asks for now."""
    asked = read(GROUPS, query, "probability", *names)
    return replace(held.thing.request, rule=asked.pop("probability"), **asked)


def _assessment(held: Held, query: QueryParams, step: Progress) -> Assessment:
    """Return what `assess` does, each part once: another rule needs no new attack."""
    release, request = held.thing.release, _as_asked(held, query)
    chosen = request.chosen
    records, prior = chosen.records, chosen.prior
    normality = normality_of(chosen, step)
    with step("Attacking records", len(records.values)) as watch:
        risk = held.get_or_compute(("risk",), lambda: _attacked(held.thing, watch))
        risk = risk | request.rule.judge(risk)
    # with what is out and this very release counted in, as a report by the command line counts them
    key = query.get("drawn", "")
    plan = budget_of(chosen, request.rows, request.rule, step, held.thing.judged, key)
    if plan.luck or np.any(risk["disclosed"]):
        with step("Trying what would pass", None) as watch:
            plan = held.get_or_compute(("tried", request.rule), partial(plan.tried, watch))
    compared = shapes = None
    if min(release.rows, default=0) > 1:
        with step("Comparing real and synthetic data", None):
            compared = held.get_or_compute(("fidelity",), lambda: fidelity(records, release))
            shapes = held.get_or_compute(("densities",), lambda: densities(records, release))
    told = Assessment(records, release, prior, normality, risk, plan, compared, shapes, say=in_app_words)
    return replace(told, judged=held.thing.judged, rule=request.rule)


def _attacked(drawn: DrawnRelease, watch: Callable[[int], None]) -> dict[str, np.ndarray]:
    """Attack every record by this release and all earlier ones."""
    release, chosen = drawn.judged.release, drawn.request.chosen
    # the integrals' random points are no secret, and a fixed start gives the same answer twice
    return risk_columns(chosen.records, release, rng=np.random.default_rng(0), watch=watch)


def _zip(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return the files that `allbutone synthesize` writes, and nothing of this computer with them."""
    drawn = _found(query, context).thing
    with tempfile.TemporaryDirectory(prefix="allbutone-") as place:
        folder = Path(place) / "release"
        save_release(drawn.release, folder, format=read(GROUPS, query, "format")["format"])
        if drawn.ledger:  # what is taken home may be given out
            place = drawn.ledger.parent / folder.name
            record_release(drawn.ledger, drawn.request.chosen.records, folder, how=DRAWN, place=place)
        return Download("release.zip", zip_release(folder), "application/zip")


def _report(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    held = _found(query, context)
    request = _as_asked(held, query, "format")
    page = confidential_report(_assessment(held, query, step), request.commands, _note(request))
    return Download("report.html", page.encode(), HTML)


def _public(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    drawn = _found(query, context).thing
    return Download("public.html", public_report(drawn.release, _note(drawn.request)).encode(), HTML)


def _risk(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return what the release gives away of every record: row numbers and measures."""
    found = _assessment(_found(query, context), query, step).risk
    return as_csv("risk.csv", {name: column.tolist() for name, column in found.items()})


def _note(request: ReleaseRequest) -> str:
    return "A simulated cohort: no person stands behind any row." if request.chosen.simulated else ""


PAGE = Page(
    "release",
    "Release",
    GROUPS,
    answers={
        "table": Source(_table, (*CARRIED, *names(GROUPS))),
        "ahead": Source(_ahead, (*CARRIED, *names(GROUPS, but=("drawn", "format"))), slow=True),
        "after": Source(_after, ("drawn", "probability"), slow=True),
    },
    files={"release.zip": _zip, "report.html": _report, "public.html": _public, "risk.csv": _risk},
    acts={"draw": _draw},
    carried=CARRIED,
)
