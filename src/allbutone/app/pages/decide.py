"""Decide, the last step: what the very release that was drawn gives away, on the page that a board signs."""

import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from markupsafe import Markup
from starlette.datastructures import QueryParams

from allbutone.app.forms import Field, Group, in_app_words, names, read
from allbutone.app.jobs import Answer, Download, Progress, as_csv
from allbutone.app.page import Held, Page, RequestContext, Source, piece, templates
from allbutone.app.pages import forecast as forecasts
from allbutone.app.pages import record
from allbutone.disclosure.guarantee import left_in_words, terms_of
from allbutone.disclosure.private_risk import BOUND
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import MEMBERSHIP, Rule, ToldValues, discloses_anybody
from allbutone.figures.export import untitled
from allbutone.figures.risk import disclosure_figure, membership_figure, private_risk_figure, risk_figure
from allbutone.releases.check_files import zip_release
from allbutone.releases.folder import save_release
from allbutone.releases.ledger import Ledger, Together
from allbutone.releases.ledger_file import DRAWN, Terms, digest_of_release
from allbutone.releases.release import Release
from allbutone.reports.assessment import Assessment, class_fit_of, compare, with_what_would_pass
from allbutone.reports.board import Origin, board_page
from allbutone.reports.findings import private_risk_sentence
from allbutone.reports.guaranteed import GuaranteedCase, assess_guaranteed, guarantee_facts
from allbutone.reports.report import (
    MEASURES,
    board_part,
    environment,
    fidelity_figures,
    full_report,
    page_report,
    public_report,
    values_told,
)
from allbutone.reports.verdict import value_lines, values_at
from allbutone.support.text import listed

# the board's page looks here as it does in a report
templates.globals["board_css"] = environment.get_template("board.css").render()
HTML = "text/html; charset=utf-8"

JUDGED = Group("The rule, and the files", (forecasts.PROBABILITY, forecasts.FORMAT, forecasts.DRAWN))
ONE = Group(
    "One person",
    (
        Field(
            "row", "Row, or person", "",
            "Of whom you want to know what this very release tells. Rows are counted from 1, without the line of "
            "column names; where people have several, it is the person, as the table has them.",
            reset_by="table",
        ),
    ),
)  # fmt: skip
GROUPS = (JUDGED, ONE)
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

    @property
    def terms(self) -> Terms | None:
        """Its guarantee, as a ledger keeps it."""
        return None if self.release.noisy is None else terms_of(self.release)


def _after(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    if not read((JUDGED,), query)["drawn"]:
        return Answer({"after": piece("decide_nothing.html")})
    held = _found(query, context)
    assessment, chosen = _assessment(held, query, step), held.value.request.chosen
    noun = "person" if len(chosen.records.people) else "row"
    if held.value.ledger:
        note(held, passed=assessment.verdict.passed)
    order, judged = ToldValues.of(assessment.risk, assessment.rule).order, MEMBERSHIP in assessment.risk
    with step("Drawing figures", None):
        found = {
            "disclosure": _disclosure(assessment),
            **({"membership": membership_figure(assessment.risk, assessment.rule)} if judged else {}),
            **(
                {"risk": risk_figure(assessment.risk, chosen.drawn, order, labels=3)}
                if "relative_error" in assessment.risk
                else {}
            ),
            **fidelity_figures(assessment.fidelity, assessment.densities),
        }
        figures = {name: untitled(one) for name, one in found.items()}
    measures = tuple(name for name in MEASURES if name in assessment.risk)
    named = assessment.risk[noun].astype(str) if noun == "person" else assessment.risk[noun]
    values = values_told(assessment.risk, assessment.rule, assessment.verdict)
    page = board_page(assessment, _origin(held, query), _note(held.value.request))
    part = piece(
        "decide_after.html",
        board=Markup(board_part(page)),
        request=held.value.request,
        ledger=held.value.ledger,
        number=held.value.number,
        noun=noun,
        assessment=assessment,
        judged=_judged_words(assessment),
        guarantee=None if held.value.release.noisy is None else guarantee_facts(held.value.release.noisy),
        values=values,
        figures=list(figures),
        lines=[
            [named[place], *(assessment.risk[name][place] for name in measures)] for place in order[: len(values)]
        ],
        ks=list(zip(*assessment.fidelity.ks_table().values(), strict=True)) if assessment.fidelity else [],
    )
    return Answer({"after": held.value.release.schema.plainly(part)}, figures)


def _chip(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Say what the chip of every step says, and whether the release on this page is not in it yet."""
    held = context.session.held.get(query.get("drawn", ""))
    waits = held is not None and isinstance(held.value, DrawnRelease) and _origin(held, query).entry is None
    return forecasts.chip(query, context, step, "without this" if waits else "")


def _one(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Say what this very release tells of one person: every value, and that they are in the table."""
    asked = query.get("row", "").strip()
    if not asked or not query.get("drawn"):
        return Answer({"one": ""})
    case = _assessment(_found(query, context), query, step)
    people = case.records.persons if len(case.records.people) else ()
    row = record.row_of(asked, case.risk["row"], people)
    risk = {name: column[case.risk["row"] == row] for name, column in case.risk.items()}
    told = ToldValues.of(risk, case.rule)
    columns = np.flatnonzero(~np.isnan(told.before[0]))  # what is missing of them is not judged
    values = values_at(risk, told, np.zeros_like(columns), columns, case.verdict.outside, case.records.schema)
    allowed = [risk.get(BOUND + told.names[place]) for place in columns if not told.rest_known[place]]
    bounds = [float(each[0]) for each in allowed if each is not None]  # of who lacks the record, who comes first
    member = float(risk[MEMBERSHIP][0]) if MEMBERSHIP in risk else None
    disclosed = listed([value.column for value in values if value.disclosed])
    who = case.records.who(case.records.place_of(row))
    part = piece(
        "decide_one.html", who=who, lines=value_lines(values), bounds=bounds, disclosed=disclosed, member=member,
        before=case.rule.membership_odds / (1 + case.rule.membership_odds), limit=case.rule.membership,
    )  # fmt: skip
    return Answer({"one": part})


def _disclosure(case: Assessment | GuaranteedCase) -> go.Figure:
    """Draw how well values are known, and how far the guarantee lets them be."""
    if isinstance(case, GuaranteedCase):
        return private_risk_figure(case.risk, case.noisy, case.rule)
    return disclosure_figure(case.risk, case.rule)


def _judged_words(case: Assessment | GuaranteedCase) -> dict[str, str]:
    """Say what it was judged with, and what it tells that it passed; of a guarantee, what it is."""
    if isinstance(case, GuaranteedCase):
        said = f"{private_risk_sentence(case.risk, case.noisy)} Guaranteed: {case.noisy.in_words} {case.left}"
        return {"selection": "", "tells": "", "judged": said.strip()}
    assert case.judged is not None
    tells = case.selection.in_words if case.selection else ""
    return {"selection": case.judged.selection, "tells": tells, "judged": case.judged.sentence}


def note(held: Held, *, passed: bool | None) -> int:
    """Record once that this was drawn, and how it was judged, if it was: who draws again has chosen."""
    drawn: DrawnRelease = held.value

    def noted() -> int:
        assert drawn.ledger is not None
        with tempfile.TemporaryDirectory(prefix="allbutone-") as place:
            folder = Path(place) / FOLDER
            save_release(drawn.release, folder)
            ledger, records = Ledger.at(drawn.ledger), drawn.request.chosen.records
            reason = NOT_TAKEN if passed is not None else NOT_TAKEN.replace(" and judged", "")
            return ledger.note_drawn(
                records, folder, passed=passed, reason=reason, place=drawn.place, guarantee=drawn.terms
            )[1]

    return held.get_or_compute(("noted",), noted)


def _found(query: QueryParams, context: RequestContext) -> Held:
    return context.session.find(query.get("drawn", ""), DrawnRelease, "The release of this address")


def _as_asked(held: Held, query: QueryParams, *names: str) -> forecasts.ReleaseRequest:
    """Return the request of what was drawn, with the rule and what else the address asks for now."""
    asked = read(forecasts.GROUPS, query, "probability", *names)
    rule = forecasts.rule_of(asked)
    return replace(held.value.request, rule=rule, **{name: asked[name] for name in names})


def _assessment(held: Held, query: QueryParams, step: Progress) -> Assessment | GuaranteedCase:
    """Return what `assess` does, each part once: another rule needs no new attack."""
    release, request = held.value.release, _as_asked(held, query)
    chosen = request.chosen
    if request.guarantee:
        return _guaranteed(held, request.rule, step)
    records, prior = chosen.records, chosen.prior
    normality = forecasts.normality_of(chosen, step)
    mechanism = chosen.synthesizer.mechanism
    fit = chosen.held.get_or_compute(
        ("class fit", *chosen.key), lambda: class_fit_of(records, mechanism, normality, step)
    )
    with step("Attacking records", len(records.values)) as watch:
        # by this release and all earlier ones; the integrals' random points are no secret, and a fixed start gives
        # the same answer twice
        everything, rng = held.value.judged.release, np.random.default_rng(0)
        attack = partial(risk_columns, records, everything, rng=rng, watch=watch)
        risk = held.get_or_compute(("risk",), attack)
        risk = risk | request.rule.judge(risk)
    # with what is out and this very release counted in, as a report by the command line counts them
    key = query.get("drawn", "")
    plan = forecasts.budget_of(chosen, request.rows, request.rule, step, held.value.judged, key)
    failed = discloses_anybody(risk)
    plan = held.get_or_compute(
        ("tried", request.rule), partial(with_what_would_pass, plan, release.count, failed, step)
    )
    compared = held.get_or_compute(("compared",), lambda: compare(records, release, step))
    normal = None if chosen.classes else prior
    told = Assessment(records, release, normal, normality, risk, plan, *compared, say=in_app_words)
    return replace(told, judged=held.value.judged, rule=request.rule, class_fit=fit)


def _guaranteed(held: Held, rule: Rule, step: Progress) -> GuaranteedCase:
    """Return what `assess_guaranteed` does, once for each rule, with what a declared total allows by now."""
    drawn, people = held.value, len(held.value.request.chosen.records.values)

    def case() -> GuaranteedCase:
        with step("Attacking records", people):
            return assess_guaranteed(drawn.request.chosen.records, drawn.release, rule)

    left = left_in_words(Ledger.at(drawn.ledger)) if drawn.ledger else ""
    return replace(held.get_or_compute(("guaranteed", rule), case), left=left)


def _origin(held: Held, query: QueryParams) -> Origin:
    """Say where the release comes from: the digest is that of the files to be taken home."""
    drawn, format = held.value, read(forecasts.GROUPS, query, "format")["format"]

    def digest() -> str:
        with tempfile.TemporaryDirectory(prefix="allbutone-") as place:
            folder = Path(place) / FOLDER
            save_release(drawn.release, folder, format=format)
            return digest_of_release(folder)

    files = held.get_or_compute(("digest", format), digest)
    table = drawn.request.chosen.name
    if not drawn.ledger:
        return Origin(table, FOLDER, files)
    entry = next((each for each in Ledger.at(drawn.ledger).counted if each.files == files), None)
    return Origin(table, FOLDER, files, drawn.ledger.name, entry)


def _zip(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return the files that `allbutone synthesize` writes, and nothing of this computer with them."""
    held = _found(query, context)
    drawn = held.value
    with tempfile.TemporaryDirectory(prefix="allbutone-") as place:
        folder = Path(place) / FOLDER
        save_release(drawn.release, folder, format=read(forecasts.GROUPS, query, "format")["format"])
        if drawn.ledger:  # what is taken home may be given out
            ledger, number = Ledger.at(drawn.ledger), held.found.get(("noted",))
            if number is None:
                records = drawn.request.chosen.records
                ledger.record(records, folder, how=DRAWN, place=drawn.place, guarantee=drawn.terms)
            else:
                ledger.give_out(number, folder, drawn.place)
        return Download("release.zip", zip_release(folder), "application/zip")


def _report(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    held = _found(query, context)
    request = _as_asked(held, query, "format")
    origin = _origin(held, query)
    page = full_report(_assessment(held, query, step), request.commands, _note(request), origin)
    return Download("report.html", page.encode(), HTML)


def _page(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return the board's page by itself, to be printed and signed."""
    held = _found(query, context)
    page = page_report(_assessment(held, query, step), _note(held.value.request), _origin(held, query))
    return Download("page.html", page.encode(), HTML)


def _public(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    drawn = _found(query, context).value
    return Download("public.html", public_report(drawn.release, _note(drawn.request)).encode(), HTML)


def _risk(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return what the release gives away of every record: row numbers and measures."""
    found = _assessment(_found(query, context), query, step).risk
    return as_csv("risk.csv", {name: column.tolist() for name, column in found.items()})


def _note(request: forecasts.ReleaseRequest) -> str:
    return "A simulated cohort: no person stands behind any row." if request.chosen.simulated else ""


PAGE = Page(
    "decide",
    "Decide",
    GROUPS,
    answers={
        "after": Source(_after, names((JUDGED,)), slow=True),
        "one": Source(_one, names(GROUPS), slow=True, later=True),
        "chip": Source(_chip, (*forecasts.OF_CHIP, *names((JUDGED,))), slow=True, later=True),
    },
    files={
        "release.zip": _zip,
        "page.html": _page,
        "report.html": _report,
        "public.html": _public,
        "risk.csv": _risk,
    },
    carried=forecasts.CARRIED,
    step=5,
)
