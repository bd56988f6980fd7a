"""The report: one self-contained HTML file that holds the whole case for or against a release."""

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined

from allbutone.disclosure.risk import records_of_release
from allbutone.disclosure.rule import MEMBERSHIP, Rule, ToldValues, names_of_people
from allbutone.figures import application, shapes
from allbutone.figures import fidelity as likeness
from allbutone.figures.budget import budget_figure
from allbutone.figures.export import NO_REQUESTS, embedded, library
from allbutone.figures.risk import (
    disclosure_figure,
    epsilon_figure,
    membership_figure,
    private_risk_figure,
    risk_figure,
)
from allbutone.figures.style import titled
from allbutone.figures.survival import survival_figure
from allbutone.model.prior import AnyPrior, prior_of
from allbutone.releases.folder import AnyRelease, load_release
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.releases.private_release import mechanism_in_words
from allbutone.releases.release import Release
from allbutone.reports.answers import ANSWERS, impact_sentences
from allbutone.reports.assessment import Assessment, assess
from allbutone.reports.board import BoardPage, Origin, board_page
from allbutone.reports.findings import Finding, budget_words, epsilon_words, private_risk_sentence
from allbutone.reports.glossary import GLOSSARY
from allbutone.reports.guaranteed import GuaranteedCase, assess_guaranteed, guarantee_facts, require_declared_prior
from allbutone.reports.verdict import Verdict, value_lines, values_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import ShowsItself, joined, listed, number, percent
from allbutone.tables.column import CATEGORY, Column
from allbutone.tables.safe_io import fresh_file, require_distinct, require_outside
from allbutone.tables.schema import Schema
from allbutone.utility.fidelity import Fidelity
from allbutone.utility.shapes import Densities

MOST_LEVELS = 12  # that a line shows
SHOWN, CLOSEST = 5, 3  # values that a table lists where they are disclosed, and where they come closest to it
LONG = 12  # columns of which a table is folded, and stays so on paper
PACKAGES = ("allbutone", "numpy", "scipy", "plotly")
MEASURES = ("exposure", "relative_error", "information_gain", "mass", "prior_mass")

environment: Environment = Environment(
    loader=PackageLoader("allbutone.reports"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.globals |= {"GLOSSARY": GLOSSARY, "most_rows": LONG}
environment.filters |= {
    "number": number,
    "listed": listed,
    "p_value": lambda p: "< 0.001" if p < 0.001 else f"= {p:.3f}",
}


def page_report(case: Assessment | GuaranteedCase, note: str = "", origin: Origin | None = None) -> str:
    """Return the board's page by itself, which prints on one sheet."""
    return _page("page.html", release=case.release, figures={}, page=board_page(case, origin, note))


def board_part(page: BoardPage) -> str:
    """Return the board's page as a part of another page, which has `board.css`."""
    return str(environment.get_template("board.html").module.board(page))  # type: ignore[attr-defined]


def confidential_report(
    assessment: Assessment, commands: Sequence[str] = (), note: str = "", origin: Origin | None = None
) -> str:
    """Return the pages for the data holder. `commands` run it again; `note` says what must be said of the data."""
    risk, rule, fidelity = assessment.risk, assessment.rule, assessment.fidelity
    told, (word, keys) = ToldValues.of(risk, rule), names_of_people(risk)
    order, disclosed = told.order, int(told.disclosed.any(axis=1).sum())
    ks = fidelity.ks_table() if fidelity else {}
    planned = (
        budget_words(assessment.budget, assessment.count, assessment.earlier_count) if assessment.budget else ""
    )
    return _page(
        "confidential.html",
        release=assessment.release,
        figures=_figures(assessment, order),
        assessment=assessment,
        verdict=assessment.verdict,
        values=values_told(risk, rule, assessment.verdict),
        budget_words=planned,
        impact=impact_sentences(assessment, planned),
        answers=ANSWERS,
        exposed=[
            {word: keys[place] if word == "row" else str(keys[place])}
            | {name: risk[name][place] for name in MEASURES if name in risk}
            for place in order[: min(SHOWN, disclosed + CLOSEST)]
        ],
        ks=[dict(zip(ks, values, strict=True)) for values in zip(*ks.values(), strict=True)],
        pmse=float(np.mean(fidelity.pmse_ratio_drawn)) if fidelity else None,
        pmse_tree=float(np.mean(fidelity.pmse_tree_ratio)) if fidelity else None,
        epsilon_words="" if assessment.epsilons is None else epsilon_words(assessment.epsilons),
        commands=commands,
        page=board_page(assessment, origin, note),
    )


def values_told(risk: Mapping[str, np.ndarray], rule: Rule, verdict: Verdict) -> list[dict[str, object]]:
    """Return the table of disclosed values and of those closest to it: no more of these, which are much alike."""
    values = values_of(risk, rule, SHOWN + CLOSEST, verdict.outside, verdict.schema)
    disclosed, others = ([value for value in values if value.disclosed is so] for so in (True, False))
    return value_lines(disclosed[:SHOWN] + others[:CLOSEST])


def full_report(
    case: Assessment | GuaranteedCase, commands: Sequence[str] = (), note: str = "", origin: Origin | None = None
) -> str:
    """Return the pages for the data holder about a release, with a guarantee or without."""
    made: Any = guaranteed_report if isinstance(case, GuaranteedCase) else confidential_report
    return str(made(case, commands, note, origin))


def public_report(release: Release, note: str = "", declared: Schema | None = None) -> str:
    """Return the page to go with a release: made from the release and the note alone.

    declared: what the data holder declares besides of what is secret; by default what the release says.
    """
    schema = declared or release.schema
    outside = () if release.noisy else schema.known  # a guarantee is judged against who knows all the rest
    return _page(
        "public.html",
        release=release,
        figures={},
        synthetic=released_columns(release),
        note=note,
        outside=f"the {joined(outside)} of that person" if outside else "all values of that person but one",
        not_judged=joined([column.name for column in schema.columns if not column.secret]),
        declared_here=schema != release.schema,
    )


def guaranteed_report(
    case: GuaranteedCase, commands: Sequence[str] = (), note: str = "", origin: Origin | None = None
) -> str:
    """Return the page for the data holder about a release with a guarantee."""
    figures = {
        "disclosure": private_risk_figure(case.risk, case.noisy, case.rule),
        "membership": membership_figure(case.risk, case.rule),
    }
    if case.normality is not None:
        figures["qq"] = shapes.qq_figure(case.normality)
    if case.normality is not None and len(case.normality.squared_distances):
        figures["distance-qq"] = shapes.distance_qq_figure(case.normality)
    return _page(
        "guaranteed.html",
        release=case.release,
        figures=figures | fidelity_figures(case.fidelity, case.densities),
        case=case,
        verdict=case.verdict,
        sentence=private_risk_sentence(case.risk, case.noisy),
        values=values_told(case.risk, case.rule, case.verdict),
        impact=impact_sentences(case, case.noisy.in_words),
        answers=ANSWERS,
        commands=commands,
        page=board_page(case, origin, note),
    )


def _page(template: str, release: Release, figures: dict[str, go.Figure], **content: Any) -> str:
    mechanism, sizes = release.mechanism, sorted(set(release.rows))
    parts = {name: {"html": embedded(each, name), "words": words_of(each)} for name, each in figures.items()}
    content |= software_versions()
    page = environment.get_template(template)
    filled = dict[str, Any](
        no_requests=NO_REQUESTS,
        library=library() if figures else "",
        figures=parts,
        count=release.count,
        rows=" to ".join(f"{size:,}" for size in dict.fromkeys(sizes[:1] + sizes[-1:])),
        of_people=release.schema.visits is not None,
        prior=release.prior,
        columns=release.released_order,
        modelled=mechanism.measurements,
        datasets=bool(release.tables),
        both=bool(release.tables) and release.draws > 0,
        mechanism=None if mechanism.is_normal else mechanism,
        declared=[] if mechanism.is_normal else declared_columns(mechanism),
        guarantee=None if release.noisy is None else _guaranteed(release.noisy),
    )
    words = used_words(page.render(**filled, **content, words=()))
    return release.schema.plainly(page.render(**filled, **content, words=words))


def used_words(page: str) -> list[str]:
    """Return the keys of the glossary that a page uses, by link or by name, figures and styles aside."""
    said = re.sub(r"<(script|style)>.*?</\1>", " ", page, flags=re.DOTALL).lower()
    return [
        key
        for key, term in GLOSSARY.items()
        if f"#word-{key}" in said or re.search(rf"\b{re.escape(term.name.lower())}\b", said)
    ]


def _guaranteed(noisy: NoisyMoments) -> dict[str, Any]:
    """Return what is guaranteed, in words and facts, and how it was made."""
    facts, how = guarantee_facts(noisy), mechanism_in_words(noisy)
    return {"words": noisy.in_words, "facts": facts, "mechanism": how, "people": noisy.people}


def software_versions() -> dict[str, Any]:
    """Return when a page is written, and by what: its last lines."""
    return {
        "written": datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC"),
        "versions": {name: version(name) for name in PACKAGES} | {"Python": platform.python_version()},
    }


def declared_columns(mechanism: Mechanism) -> list[dict[str, Any]]:
    """Return a line a column of a mixed release: its levels, or what is declared, and whether it is kept."""
    return [
        {
            "column": column.name,
            "is_category": column.kind == CATEGORY,
            "declared": f"levels {listed(column.levels, MOST_LEVELS)}"
            if column.kind == CATEGORY
            else ", ".join(filter(None, ["measurement", column.in_words])),
            "drawn": "kept as it is" if column.name in mechanism.keep else "drawn",
        }
        for column in mechanism.schema.columns
    ]


def released_columns(release: Release) -> list[dict[str, Any]]:
    """Return a line a column with what anyone who has the release can compute: means and deviations, or shares.

    Of parameters the shares are their mean over the draws; means of measurements would need the kept columns.
    """
    mechanism = release.mechanism
    if mechanism.is_normal:
        means, deviations = release.means_and_deviations()
        return [
            {
                "column": column.on_scale if release.parameters is not None else column.name,
                **_mean_and_spread(column, mean, deviation, as_dates=release.parameters is None),
                "declared": column.in_words,
            }
            for column, mean, deviation in zip(release.schema.measurements, means, deviations, strict=True)
        ]
    shares = dict(zip(mechanism.categories, _shares(release), strict=True))
    natural = np.concatenate([each.natural for each in release.tables]) if release.tables else None
    lines = []
    for line in declared_columns(mechanism):
        name, shown = line["column"], dict[str, Any](mean=None, SD=None, shares="")
        if name in shares:
            levels = mechanism.schema.column(name).levels
            some = [f"{level} {percent(share)}" for level, share in zip(levels, shares[name], strict=True)]
            shown["shares"] = listed(some, MOST_LEVELS)
        elif natural is not None:
            values = natural[:, mechanism.columns.index(name)]
            values = values[~np.isnan(values)]
            spread = values.std(ddof=1) if len(values) > 1 else np.nan
            shown |= _mean_and_spread(mechanism.schema.column(name), values.mean(), spread)
        lines.append(line | shown)
    return lines


def _mean_and_spread(column: Column, mean: float, spread: float, *, as_dates: bool = True) -> dict[str, Any]:
    """Return a mean and a standard deviation in natural units as a line shows them: dates as such."""
    if column.calendar is not None and as_dates:
        return {
            "mean": column.calendar.text(mean),
            "SD": column.calendar.span(spread) if spread == spread else "–",
        }
    return {"mean": mean, "SD": "–" if np.isnan(spread) else spread}


def _shares(release: Release) -> list[np.ndarray]:
    """Return the share of every level of each category over all synthetic rows, or the mean of released draws."""
    mechanism = release.mechanism
    if not release.tables:
        assert release.parameters is not None
        return mechanism.prior.cells.marginal(release.parameters.shares.mean(axis=0))
    codes = np.concatenate([each.categories.select(mechanism.categories).codes for each in release.tables])
    counts = [
        np.bincount(column[column >= 0], minlength=size)
        for column, size in zip(codes.T, mechanism.sizes, strict=True)
    ]
    return [count / max(count.sum(), 1) for count in counts]


def _figures(assessment: Assessment, order: np.ndarray) -> dict[str, go.Figure]:
    """Return the figures that this assessment has, by name."""
    risk, normality = assessment.risk, assessment.normality
    figures = {"disclosure": disclosure_figure(risk, assessment.rule)}
    if MEMBERSHIP in risk:
        figures["membership"] = membership_figure(risk, assessment.rule)
    if "relative_error" in risk:
        figures["risk"] = risk_figure(risk, assessment.release.mechanism.measurements, order, labels=3)
    if assessment.budget is not None:
        figures["budget"] = budget_figure(assessment.budget)
    if assessment.epsilons is not None:
        figures["epsilon"] = epsilon_figure(assessment.epsilons, assessment.records.rows)
    if normality is not None:
        figures["qq"] = shapes.qq_figure(normality)
        if len(normality.squared_distances):
            figures["distance-qq"] = shapes.distance_qq_figure(normality)
    if assessment.by_count:
        figures["distances"] = application.distance_violins(assessment.by_count)
        figures["relative-errors"] = application.relative_error_violins(assessment.by_count)
    return figures | fidelity_figures(assessment.fidelity, assessment.densities)


def fidelity_figures(fidelity: Fidelity | None, densities: Densities | None) -> dict[str, go.Figure]:
    """Return the figures of real beside synthetic data, by name; none of released parameters."""
    if not fidelity:
        return {}
    figures = {}
    if len(fidelity.columns) > 1:
        figures["correlations"] = likeness.correlation_figure(fidelity)
        figures["correlation-differences"] = likeness.correlation_difference_figure(fidelity)
    if densities:  # of categories alone there are none
        figures["means"] = likeness.mean_difference_figure(fidelity)
        figures["ks"] = likeness.ks_figure(fidelity)
        figures["densities"] = shapes.density_figure(densities)
    for place, each in enumerate(fidelity.survival):
        figures[f"survival-{place}"] = survival_figure(each)
    figures["propensity"] = likeness.propensity_figure(fidelity)
    if fidelity.categories.columns:
        figures["shares"] = shapes.share_figure(fidelity)
        figures["associations"] = shapes.association_figure(fidelity)
    return figures


def paper_figures(fidelity: Fidelity, by_count: dict[int, dict[str, np.ndarray]]) -> dict[str, go.Figure]:
    """Return the paper's Figures 4, 5 and A4 to A6, named as there; A4 and A5 show means and A6 densities."""
    figures = {
        "figure-4-correlations": likeness.correlation_figure(fidelity),
        "figure-A4-mean-correlation-differences": application.mean_correlation_differences(fidelity),
        "figure-A5-mean-standardized-differences": application.mean_standardized_differences(fidelity),
        "figure-A6-p-values": application.p_value_densities(fidelity),
    }
    if by_count:
        figures["figure-5-distances"] = application.distance_violins(by_count)
    return {name: titled(figure) for name, figure in figures.items()}


def words_of(figure: go.Figure) -> str:
    """Return the message of a figure, which the page prints above it."""
    return str((figure.layout.meta or {}).get("message", ""))


# The report as a function: what `allbutone report` writes, from Python.


@dataclass(frozen=True, repr=False)
class Report(ShowsItself):
    """A page, and what it says: nothing is judged where it was made from the release alone, to go with it.

    `page` is its HTML, `path` where it was written, if it was.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> abo.report(cohort, release, public=True).headline
    'Made from the release alone; nothing was judged'
    """

    page: str
    path: Path | None = None
    verdict: Verdict | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return self.verdict.headline if self.verdict else "Made from the release alone; nothing was judged"

    def save(self, out: str | Path, *, force: bool = False) -> "Report":
        """Write the page; a confidential one so that only its owner can read it."""
        path = _html_file(out)
        with fresh_file(path, force=force, private=self.verdict is not None) as work:
            work.write_text(self.page, encoding="utf-8")
        return replace(self, path=path)


def _html_file(out: str | Path) -> Path:
    if (path := Path(out)).suffix != ".html":
        raise InputError(f"out names an .html file, got {str(out)!r}", Cure("name one", "out", "report.html"))
    return path


def report(
    table: Any,
    release: AnyRelease,
    prior: AnyPrior | None = None,
    *,
    out: str | Path | None = None,
    page: bool = False,
    public: bool = False,
    probability: float = 0.5,
    membership: float = 0.9,
    membership_odds: float = 1.0,
    note: str = "",
    force: bool = False,
    **how_to_read: Any,
) -> Report:
    """Return the whole case for or against a release, and write it into one HTML file where `out` names one.

    The report is confidential, and only its owner can read its file. Its first page is for a board; with `page` it
    is that one alone, which prints on one sheet. With `public` it is one that may go with the
    release, made from the release and the `note` alone; the table is read only to check its columns. A value
    counts as disclosed from `probability` on, that a person is in the table from `membership` on, from
    `membership_odds`. Nothing is overwritten without `force`. How the table is read is
    said as to `Records.of` (complete_cases, missing_codes, …).

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> abo.report(cohort, release, out="about.html", public=True)
    Made from the release alone; nothing was judged.
    Written: about.html
    """
    if not isinstance(release, Release | str | Path):
        raise InputError("a report is of one release", "give one; risk takes several together")

    def made() -> Report:
        known = load_release(release) if isinstance(release, str | Path) else release
        records = records_of_release(table, known, **how_to_read)
        if public:
            return Report(public_report(known, note))
        rule = Rule.of(probability, membership, membership_odds)
        case: Assessment | GuaranteedCase
        if known.noisy is not None:
            require_declared_prior(prior)
            case = assess_guaranteed(records, known, rule)
        else:
            given = None if prior is None else prior_of(prior, records.columns, records.schema)
            case = assess(records, known, given, probability=rule)
        origin = Origin.of(table, release)
        text = page_report(case, note, origin) if page else full_report(case, note=note, origin=origin)
        return Report(text, None, case.verdict, tuple(case.findings))

    if out is None:
        return made()
    path = _html_file(out)
    require_distinct([path], [Path(each) for each in (table, prior) if isinstance(each, str | Path)])
    if isinstance(release, str | Path) and not public:
        require_outside(path, Path(release))
    with fresh_file(path, force=force, private=not public) as work:  # refused before anything is computed
        found = made()
        work.write_text(found.page, encoding="utf-8")
    return replace(found, path=path)
