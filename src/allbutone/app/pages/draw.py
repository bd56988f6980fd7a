"""Draw, the fourth step: what a release would give away, how often it was drawn already, and the draw itself."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from starlette.datastructures import QueryParams

from allbutone.app.forms import names
from allbutone.app.jobs import Answer, Progress
from allbutone.app.page import Page, RequestContext, Source, piece
from allbutone.app.pages import forecast as forecasts
from allbutone.app.pages import source
from allbutone.app.pages.decide import DrawnRelease, note
from allbutone.app.pages.guaranteed import Guaranteed
from allbutone.disclosure.guarantee import left_in_words, require_within_limit
from allbutone.disclosure.guarantee_plan import ERROR_WORDS
from allbutone.figures.budget import budget_figure, guarantee_figure
from allbutone.figures.export import untitled
from allbutone.figures.style import INK
from allbutone.releases.ledger import Ledger, Together
from allbutone.releases.private_mechanism import one_of
from allbutone.releases.release import Release
from allbutone.support.errors import InputError

SHOWN = 10  # records listed


def _table(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Name the table, say how often it was drawn from already, and whether this is too large to be drawn here."""
    request, drawn = forecasts.ReleaseRequest.of(query, context), context.session.held.get(query.get("drawn", ""))
    other = drawn is not None and isinstance(drawn.value, DrawnRelease) and drawn.value.request.key != request.key
    limits = (forecasts.MOST_FILES, forecasts.MOST_VALUES)
    ledger, here = forecasts.ledger_of(request.chosen, context), context.session.draws[request.chosen.name]
    part = piece(
        "draw_table.html", request=request, other=other, limits=limits, here=here, ledger=ledger,
        draws=ledger.draws_in_words if ledger else "",
    )  # fmt: skip
    return Answer({"table": part})


def _ahead(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    request = forecasts.ReleaseRequest.of(query, context)
    if request.guarantee:
        return _cost(request, request.guarantee, context)
    found = forecasts.Forecast(request, forecasts.planned(request, context, step))
    lines, others = forecasts.likely_people(found.plan, found.in_all, SHOWN)
    parts = {
        "ahead": piece("draw_ahead.html", found=found, words=found.plan.sentence),
        "ahead-people": piece("draw_people.html", found=found, lines=lines, others=others),
    }
    return Answer(parts, {"ahead": _marked(found)})


def _cost(request: forecasts.ReleaseRequest, guarantee: Guaranteed, context: RequestContext) -> Answer:
    """Say what a guarantee costs, from public figures, and what a declared total still allows."""
    people, ledger = len(request.chosen.records.values), forecasts.ledger_of(request.chosen, context)
    plan = guarantee.plan(people)
    own, without, enough = guarantee.cost(plan)
    part = piece(
        "draw_guaranteed.html", request=request, own=own, without=without, enough=enough,
        who=one_of(people, guarantee.schema), errors={ERROR_WORDS[key]: key for key in plan.errors}, plan=plan,
        left=left_in_words(ledger) if ledger else "",
    )  # fmt: skip
    return Answer({"ahead": part, "ahead-people": ""}, {"ahead": untitled(guarantee_figure(plan))})


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
    ledger = None if request.chosen.simulated else context.settings.ledger_of(request.chosen.name)
    if ledger:
        planned = request.guarantee.terms(request.chosen) if request.guarantee else None
        require_within_limit(Ledger.at(ledger), planned)
    if not request.guarantee:
        found = forecasts.Forecast(request, forecasts.planned(request, context, step))
        if found.beyond and sent.get("confirm") != request.mark:
            asked = piece("draw_confirm.html", found=found, shown=SHOWN)
            refused = f"Nothing was drawn. {found.plan.sentence} Confirm it to draw it."
            return Answer({"confirm": asked}, error=refused)
    with step("Drawing", None):
        release, records = _released(request), request.chosen.records
        judged = Together(records, release)
        if ledger and not request.guarantee:
            judged = Ledger.at(ledger).together(records, release)
        draws = context.session.draws
        draws[request.chosen.name] += 1
        drawn = DrawnRelease(release, request, judged, ledger, draws[request.chosen.name])
        name = context.session.keep(drawn, request.bytes)
        if ledger and request.guarantee:  # what the noise cost counts from now on, whoever looks at it
            note(context.session.held[name], passed=None)
    return Answer(fields={"drawn": name})


def _released(request: forecasts.ReleaseRequest) -> Release:
    """Draw from the system's own entropy, which nobody can try out: what can be repeated can be undone."""
    chosen, number, rows = request.chosen, request.number, request.rows
    if request.guarantee:
        return request.guarantee.draw(chosen, number, rows)
    if rows is None:
        return chosen.synthesizer.sample_parameters(number)
    return chosen.synthesizer.sample(datasets=number, rows=None if chosen.keep else rows)


PAGE = Page(
    "draw",
    "Draw",
    forecasts.GROUPS,
    answers={
        "table": Source(_table, forecasts.CARRIED),
        "ahead": Source(_ahead, (*source.CARRIED, *names(forecasts.GROUPS, but=("drawn", "format"))), slow=True),
        **forecasts.CHIP,
    },
    acts={"draw": _draw},
    carried=forecasts.CARRIED,
    step=4,
)
