"""Release: what a release of a table would give away, the release itself, and what this very one does."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from starlette.datastructures import QueryParams

from allbutone.app.forms import in_app_words, names, read
from allbutone.app.jobs import Answer, Download, Progress, as_csv
from allbutone.app.page import Held, Page, RequestContext, Source, piece
from allbutone.app.pages import forecast as forecasts
from allbutone.app.pages.source import CARRIED
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import MEMBERSHIP, ToldValues, discloses_anybody
from allbutone.figures.budget import budget_figure
from allbutone.figures.export import untitled
from allbutone.figures.risk import disclosure_figure, membership_figure, risk_figure
from allbutone.figures.style import INK
from allbutone.releases.check_files import zip_release
from allbutone.releases.folder import save_release
from allbutone.releases.ledger import Ledger, Together
from allbutone.releases.ledger_file import DRAWN
from allbutone.releases.release import Release
from allbutone.reports.assessment import Assessment
from allbutone.reports.findings import budget_words
from allbutone.reports.report import MEASURES, confidential_report, fidelity_figures, public_report
from allbutone.reports.verdict import value_lines, values_of
from allbutone.support.errors import InputError
from allbutone.utility.fidelity import fidelity
from allbutone.utility.shapes import densities

SHOWN = 10  # records listed
HTML = "text/html; charset=utf-8"

FOLDER = "release"
NOT_TAKEN = "drawn and judged in the app, not taken home"


@dataclass(frozen=True, eq=False)
class DrawnRelease:
    """A release, what was asked for, the earlier releases it is judged with, and the ledger that has those.

    number: how many of the table were drawn in this browser, with this one.
    """

    release: Release
    request: forecasts.ReleaseRequest
    judged: Together
    ledger: Path | None
    number: int = 1

    @property
    def place(self) -> Path:
        """Where the release is supposed to be unpacked."""
        assert self.ledger is not None
        return self.ledger.parent / FOLDER


def _table(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    request, drawn = forecasts.ReleaseRequest.of(query, context), context.session.held.get(query.get("drawn", ""))
    other = drawn is not None and isinstance(drawn.thing, DrawnRelease) and drawn.thing.request.key != request.key
    return Answer(
        {
            "table": piece(
                "release_table.html",
                request=request,
                other=other,
                limits=(forecasts.MOST_FILES, forecasts.MOST_VALUES),
            )
        }
    )


def _ahead(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    request = forecasts.ReleaseRequest.of(query, context)
    found = forecasts.forecast(request, context, step)
    lines = found.lines(SHOWN)
    part = piece("release_ahead.html", found=found, lines=lines, words=found.plan.sentence)
    return Answer({"ahead": part}, {"ahead": _marked(found)})


def _marked(found: forecasts.Forecast) -> go.Figure:
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
    request = forecasts.ReleaseRequest.of(query, context)
    if request.too_large:
        raise InputError("this release is too large to be drawn here", "\n".join(["run", *request.commands]))
    found = forecasts.forecast(request, context, step)
    if found.beyond and sent.get("confirm") != request.mark:
        asked = piece("release_confirm.html", found=found, shown=SHOWN)
        refused = f"Nothing was drawn. {found.plan.sentence} Confirm it to draw it."
        return Answer({"confirm": asked}, error=refused)
    ledger = None if request.chosen.simulated else context.settings.ledger_of(request.chosen.name)
    with step("Drawing", None):
        # from the system's own entropy, which nobody can try out: what can be repeated can be undone
        synthesizer, keeps = request.chosen.synthesizer, bool(request.chosen.keep)
        if request.rows is None:
            release = synthesizer.sample_parameters(request.number)
        else:
            release = synthesizer.sample(datasets=request.number, rows=None if keeps else request.rows)
        records = request.chosen.records
        judged = Ledger.at(ledger).together(records, release) if ledger else Together(records, release)
        draws = context.session.draws
        draws[request.chosen.name] += 1
        drawn = DrawnRelease(release, request, judged, ledger, draws[request.chosen.name])
    return Answer(fields={"drawn": context.session.keep(drawn, request.bytes)})


def _after(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    if not query.get("drawn"):
        return Answer({"after": ""})
    held = _found(query, context)
    assessment, chosen = _assessment(held, query, step), held.thing.request.chosen
    if held.thing.ledger:
        _noted(held, passed=assessment.verdict.passed)
    order, judged = ToldValues.of(assessment.risk, assessment.rule).order, MEMBERSHIP in assessment.risk
    with step("Drawing figures", None):
        found = {
            "disclosure": disclosure_figure(assessment.risk, assessment.rule),
            **({"membership": membership_figure(assessment.risk, assessment.rule)} if judged else {}),
            "risk": risk_figure(assessment.risk, chosen.drawn, order, labels=3),
            **fidelity_figures(assessment.fidelity, assessment.densities),
        }
        figures = {name: untitled(one) for name, one in found.items()}
    measures = ("row", *MEASURES)
    part = piece(
        "release_after.html",
        request=held.thing.request,
        ledger=held.thing.ledger,
        number=held.thing.number,
        assessment=assessment,
        budget_words=budget_words(assessment.budget, assessment.count, assessment.earlier_count)
        if assessment.budget
        else "not computed.",
        values=value_lines(values_of(assessment.risk, assessment.rule, SHOWN, assessment.verdict.outside)),
        figures=list(figures),
        lines=[[assessment.risk[name][place] for name in measures] for place in order[:SHOWN]],
        ks=list(zip(*assessment.fidelity.ks_table().values(), strict=True)) if assessment.fidelity else [],
    )
    return Answer({"after": part}, figures)


def _noted(held: Held, *, passed: bool) -> int:
    """Record once that this was drawn and judged, so that who draws again is known to have chosen."""
    drawn: DrawnRelease = held.thing

    def note() -> int:
        assert drawn.ledger is not None
        with tempfile.TemporaryDirectory(prefix="allbutone-") as place:
            folder = Path(place) / FOLDER
            save_release(drawn.release, folder)
            ledger, records = Ledger.at(drawn.ledger), drawn.request.chosen.records
            return ledger.note_drawn(records, folder, passed=passed, reason=NOT_TAKEN, place=drawn.place)[1]

    return held.get_or_compute(("noted",), note)


def _found(query: QueryParams, context: RequestContext) -> Held:
    return context.session.find(query.get("drawn", ""), DrawnRelease, "The release of this address")


def _as_asked(held: Held, query: QueryParams, *names: str) -> forecasts.ReleaseRequest:
    """Return the request of what was drawn, with the rule and what else the address asks for now."""
    asked = read(forecasts.GROUPS, query, "probability", *names)
    rule = forecasts.rule_of(asked)
    return replace(held.thing.request, rule=rule, **{name: asked[name] for name in names})


def _assessment(held: Held, query: QueryParams, step: Progress) -> Assessment:
    """Return what `assess` does, each part once: another rule needs no new attack."""
    release, request = held.thing.release, _as_asked(held, query)
    chosen = request.chosen
    records, prior = chosen.records, chosen.prior
    normality = forecasts.normality_of(chosen, step)
    with step("Attacking records", len(records.values)) as watch:
        # by this release and all earlier ones; the integrals' random points are no secret, and a fixed start gives
        # the same answer twice
        everything, rng = held.thing.judged.release, np.random.default_rng(0)
        attack = partial(risk_columns, records, everything, rng=rng, watch=watch)
        risk = held.get_or_compute(("risk",), attack)
        risk = risk | request.rule.judge(risk)
    # with what is out and this very release counted in, as a report by the command line counts them
    key = query.get("drawn", "")
    plan = forecasts.budget_of(chosen, request.rows, request.rule, step, held.thing.judged, key)
    if plan.luck or discloses_anybody(risk):
        with step("Trying what would pass", None) as watch:
            plan = held.get_or_compute(("tried", request.rule), partial(plan.tried, watch))
    compared = shapes = None
    if min(release.rows, default=0) > 1:
        with step("Comparing real and synthetic data", None):
            compared = held.get_or_compute(("fidelity",), lambda: fidelity(records, release))
            shapes = held.get_or_compute(("densities",), lambda: densities(records, release))
    told = Assessment(records, release, prior, normality, risk, plan, compared, shapes, say=in_app_words)
    return replace(told, judged=held.thing.judged, rule=request.rule)


def _zip(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return the files that `allbutone synthesize` writes, and nothing of this computer with them."""
    held = _found(query, context)
    drawn = held.thing
    with tempfile.TemporaryDirectory(prefix="allbutone-") as place:
        folder = Path(place) / FOLDER
        save_release(drawn.release, folder, format=read(forecasts.GROUPS, query, "format")["format"])
        if drawn.ledger:  # what is taken home may be given out
            ledger, number = Ledger.at(drawn.ledger), held.found.get(("noted",))
            if number is None:
                ledger.record(drawn.request.chosen.records, folder, how=DRAWN, place=drawn.place)
            else:
                ledger.give_out(number, folder, drawn.place)
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


def _note(request: forecasts.ReleaseRequest) -> str:
    return "A simulated cohort: no person stands behind any row." if request.chosen.simulated else ""


PAGE = Page(
    "release",
    "Release",
    forecasts.GROUPS,
    answers={
        "table": Source(_table, (*CARRIED, *names(forecasts.GROUPS))),
        "ahead": Source(_ahead, (*CARRIED, *names(forecasts.GROUPS, but=("drawn", "format"))), slow=True),
        "after": Source(_after, ("drawn", "probability"), slow=True),
    },
    files={"release.zip": _zip, "report.html": _report, "public.html": _public, "risk.csv": _risk},
    acts={"draw": _draw},
    carried=CARRIED,
)
