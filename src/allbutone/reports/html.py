"""The report: one self-contained HTML file that holds the whole case for or against a release."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.engine_budget import EngineBudget
from allbutone.disclosure.told_values import ToldValues, called
from allbutone.plots.budget import budget_figure
from allbutone.plots.disclosure import disclosure_figure
from allbutone.plots.engine_budget import engine_budget_figure
from allbutone.plots.epsilons import epsilon_figure
from allbutone.plots.export import NO_REQUESTS, embedded, library
from allbutone.plots.fidelity import correlation_difference_figure, correlation_figure, mean_difference_figure
from allbutone.plots.fidelity_categories import association_figure, share_figure
from allbutone.plots.fidelity_tests import ks_figure, propensity_figure
from allbutone.plots.framing import MOST_ROWS, titled
from allbutone.plots.mixed_budget import mixed_budget_figure
from allbutone.plots.p_value_densities import p_value_densities
from allbutone.plots.paper_means import mean_correlation_differences, mean_standardized_differences
from allbutone.plots.risk import risk_figure
from allbutone.plots.risk_growth import distance_violins, relative_error_violins
from allbutone.plots.shapes import density_figure, distance_qq_figure, qq_figure
from allbutone.releases.mixed.release import Release
from allbutone.releases.release import ParameterRelease, PlainRelease
from allbutone.reports.assessment import Assessment
from allbutone.reports.epsilons import epsilon_words
from allbutone.reports.findings import AnyBudget, budget_words
from allbutone.reports.glossary import GLOSSARY
from allbutone.reports.mixed_columns import declared_columns, released_columns
from allbutone.reports.verdict import told_of, values_of
from allbutone.support.text import listed, number
from allbutone.utility.fidelity import Fidelity
from allbutone.utility.marginal_densities import Densities

SHOWN = 10  # of the most exposed records
PACKAGES = ("allbutone", "numpy", "scipy", "plotly")
MEASURES = ("exposure", "relative_error", "information_gain", "mass", "prior_mass")

WORDS = [key for key in GLOSSARY if key not in ("published", "threshold", "most")]  # those that a report uses

environment: Environment = Environment(
    loader=PackageLoader("allbutone.reports"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.globals |= {"GLOSSARY": GLOSSARY, "most_rows": MOST_ROWS}
environment.filters |= {
    "number": number,
    "listed": listed,
    "p_value": lambda p: "< 0.001" if p < 0.001 else f"= {p:.3f}",
}


def confidential_report(assessment: Assessment, commands: Sequence[str] = (), note: str = "") -> str:
    """Return the page for the data holder. `commands` run it again; `note` says what must be said of the data."""
    order = ToldValues.of(assessment.risk, assessment.rule).order
    word, keys = called(assessment.risk)
    return _page(
        "confidential.html",
        release=assessment.release,
        figures=_figures(assessment, order),
        assessment=assessment,
        verdict=assessment.verdict,
        rule_words=assessment.rule.in_full,
        values=told_of(values_of(assessment.risk, assessment.rule, SHOWN)),
        remedies=assessment.remedies,
        budget_words=budget_words(assessment.budget, assessment.count, assessment.earlier_count)
        if assessment.budget
        else "",
        words=WORDS,
        exposed=[
            {word: str(keys[place]) if word == "record" else keys[place]}
            | {name: assessment.risk[name][place] for name in MEASURES if name in assessment.risk}
            for place in order[:SHOWN]
        ],
        budget_tables=_budget_tables(assessment),
        ks=_lines(assessment.fidelity.ks_table()) if assessment.fidelity else [],
        pmse=float(np.mean(assessment.fidelity.pmse_ratio_drawn)) if assessment.fidelity else None,
        pmse_tree=float(np.mean(assessment.fidelity.pmse_tree_ratio)) if assessment.fidelity else None,
        epsilon_words="" if assessment.epsilons is None else epsilon_words(assessment.epsilons),
        commands=commands,
        note=note,
    )


def public_report(release: PlainRelease | Release, note: str = "") -> str:
    """Return the page to go with a release: made from the release and the note alone."""
    synthetic = released_columns(release) if isinstance(release, Release) else _synthetic(release)
    return _page("public.html", release=release, figures={}, synthetic=synthetic, note=note)


def _page(template: str, release: PlainRelease | Release, figures: dict[str, go.Figure], **content: Any) -> str:
    return environment.get_template(template).render(
        no_requests=NO_REQUESTS,
        library=library() if figures else "",
        figures={
            name: {"html": embedded(figure, name), "words": words_of(figure)} for name, figure in figures.items()
        },
        count=release.count,
        rows=_rows(release),
        prior=release.prior,
        **software_versions(),
        **_about(release),
        **content,
    )


def software_versions() -> dict[str, Any]:
    """Return when a page is written, and by what: its last lines."""
    return {
        "written": datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC"),
        "versions": {name: version(name) for name in PACKAGES} | {"Python": platform.python_version()},
    }


def _about(release: PlainRelease | Release) -> dict[str, Any]:
    """Return what kind of release it is, and its columns."""
    if isinstance(release, Release):
        return {
            "mechanism": release.mechanism,
            "declared": declared_columns(release.mechanism),
            "columns": release.order,
            "modelled": release.mechanism.measurements,
            "datasets": bool(release.tables),
            "both": bool(release.tables) and release.draws > 0,
        }
    return {
        "mechanism": None,
        "columns": release.column_names,
        "modelled": release.column_names,
        "datasets": bool(release.datasets),
        "both": bool(release.datasets) and isinstance(release, ParameterRelease),
    }


def _budget_tables(assessment: Assessment) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return what else there is to say of a budget, each with its title."""
    plan = assessment.budget
    if not isinstance(plan, Budget) or not plan.alternatives:
        return []
    lines = [{"change": each.in_words, "allows up to": each.datasets} for each in plan.alternatives]
    return [("What would allow more (tried on simulated releases where that is quick)", lines)]


def _figures(assessment: Assessment, order: np.ndarray) -> dict[str, go.Figure]:
    """Return the figures that this assessment has, by name."""
    release, plan, normality = assessment.release, assessment.budget, assessment.normality
    attacked = release.mechanism.measurements if isinstance(release, Release) else assessment.records.columns
    found = {"disclosure": disclosure_figure(assessment.risk, assessment.rule)}
    if "relative_error" in assessment.risk:
        found["risk"] = risk_figure(assessment.risk, attacked, order, labels=3)
    if plan is not None:
        found["budget"] = _budget_figure(plan)
    if assessment.epsilons is not None:
        found["epsilon"] = epsilon_figure(assessment.epsilons, assessment.records.rows)
    if normality is not None:
        found["qq"] = qq_figure(normality)
        if len(normality.squared_distances):
            found["distance-qq"] = distance_qq_figure(normality)
    if assessment.by_count:
        found["distances"] = distance_violins(assessment.by_count)
        found["relative-errors"] = relative_error_violins(assessment.by_count)
    return found | fidelity_figures(assessment.fidelity, assessment.densities)


def _budget_figure(plan: AnyBudget) -> go.Figure:
    if isinstance(plan, EngineBudget):
        return engine_budget_figure(plan)
    return budget_figure(plan) if isinstance(plan, Budget) else mixed_budget_figure(plan)


def fidelity_figures(fidelity: Fidelity | None, densities: Densities | None) -> dict[str, go.Figure]:
    """Return the figures of real beside synthetic data, by name; none of released parameters."""
    found: dict[str, go.Figure] = {}
    if fidelity and densities:
        if len(fidelity.columns) > 1:
            found["correlations"] = correlation_figure(fidelity)
            found["correlation-differences"] = correlation_difference_figure(fidelity)
        found["means"] = mean_difference_figure(fidelity)
        found["ks"] = ks_figure(fidelity)
        found["densities"] = density_figure(densities)
        found["propensity"] = propensity_figure(fidelity)
        if fidelity.categories.columns:
            found["shares"] = share_figure(fidelity)
            found["associations"] = association_figure(fidelity)
    return found


def paper_figures(assessment: Assessment) -> dict[str, go.Figure]:
    """Return the paper's figures of its application, named as there."""
    assert assessment.fidelity is not None
    return application_figures(assessment.fidelity, assessment.by_count)


def application_figures(fidelity: Fidelity, by_count: dict[int, dict[str, np.ndarray]]) -> dict[str, go.Figure]:
    """Return Figures 4, 5 and A4 to A6; A4 and A5 show means and A6 densities, as there."""
    found = {
        "figure-4-correlations": correlation_figure(fidelity),
        "figure-A4-mean-correlation-differences": mean_correlation_differences(fidelity),
        "figure-A5-mean-standardized-differences": mean_standardized_differences(fidelity),
        "figure-A6-p-values": p_value_densities(fidelity),
    }
    if by_count:
        found["figure-5-distances"] = distance_violins(by_count)
    return {name: titled(figure) for name, figure in found.items()}


def _synthetic(release: PlainRelease) -> list[dict[str, Any]]:
    """Return the synthetic columns' own means and deviations: what anyone who has the release can compute."""
    means, deviations = release.means_and_deviations()
    columns = zip(release.schema.measurements, means, deviations, strict=True)
    return [
        {
            "column": column.name if release.datasets else column.on_scale,
            "mean": mean,
            "SD": "–" if np.isnan(deviation) else deviation,
            "declared": column.in_words,
        }
        for column, mean, deviation in columns
    ]


def _rows(release: PlainRelease | Release) -> str:
    if not release.rows:
        return ""
    sizes = sorted(set(release.rows))
    return f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"


def _lines(columns: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def words_of(figure: go.Figure) -> str:
    """Return the message of a figure, which the page prints above it."""
    return str((figure.layout.meta or {}).get("message", ""))
