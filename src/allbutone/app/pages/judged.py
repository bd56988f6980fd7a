"""What a release that was drawn gives away and how well it serves, as the Release page shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from allbutone.app.forms import in_app_words
from allbutone.app.jobs import Progress
from allbutone.app.pages.mixed_plan import mixed_budget_of
from allbutone.app.sessions import Held
from allbutone.disclosure.mixed_risk import BASELINE, PROBABILITY, is_found, judged_categories, mixed_risk_columns
from allbutone.plots.export import untitled
from allbutone.plots.risk import risk_figure
from allbutone.reports.findings import (
    Finding,
    budget_finding,
    categories_finding,
    exposure_finding,
    fidelity_finding,
    gain_finding,
    most_exposed,
    most_told,
    values_finding,
)
from allbutone.reports.html import fidelity_figures
from allbutone.utility.fidelity import Fidelity, fidelity
from allbutone.utility.marginal_densities import Densities, densities
from allbutone.utility.released_values import odd_values


@dataclass(frozen=True, eq=False)
class Judged:
    """What a decision rests on, the risk of every record, real beside synthetic data, and pictures of all."""

    findings: list[Finding]
    risk: dict[str, np.ndarray]
    fidelity: Fidelity | None
    figures: Mapping[str, go.Figure]


def judged_figures(
    risk: dict[str, np.ndarray], names: Sequence[str], compared: Fidelity | None, shapes: Densities | None
) -> dict[str, go.Figure]:
    """Return the figures; `names`: of the measurements that are drawn."""
    found = {"risk": risk_figure(risk, names, most_exposed(risk), labels=3), **fidelity_figures(compared, shapes)}
    return {name: untitled(one) for name, one in found.items()}


def mixed_risk(held: Held, step: Progress) -> dict[str, np.ndarray]:
    """Return what a release of a table with categories or kept columns tells of each record, computed once."""
    release, records = held.thing.release, held.thing.request.chosen.records
    with step("Attacking records", len(records.values)) as watch:
        # the integrals' random points are no secret, and a fixed start gives the same answer twice
        points = np.random.default_rng(0)
        return held.get_or_compute(
            ("risk",), lambda: mixed_risk_columns(records, release, rng=points, watch=watch)
        )


def judge_mixed(held: Held, step: Progress) -> Judged:
    """Judge a release of a table with categories or kept columns."""
    release, request = held.thing.release, held.thing.request
    records, risk = request.chosen.records, mixed_risk(held, step)
    findings = [exposure_finding(risk), gain_finding(risk)]
    if judged_categories(risk):
        findings.append(categories_finding(risk))
    findings.append(budget_finding(mixed_budget_of(request.chosen, request.rows, step), release.count))
    if values := values_finding(odd_values(records, release), in_app_words):
        findings.append(values)
    compared = shapes = None
    if min(release.rows, default=0) > 1:
        with step("Comparing real and synthetic data", None):
            compared = held.get_or_compute(("fidelity",), lambda: fidelity(records, release))
            shapes = held.get_or_compute(("densities",), lambda: densities(records, release))
        findings.append(fidelity_finding(compared))
    with step("Drawing figures", None):
        figures = judged_figures(risk, release.mechanism.measurements, compared, shapes)
    return Judged(findings, risk, compared, figures)


def told_lines(risk: dict[str, np.ndarray], most: int) -> list[dict[str, Any]]:
    """Return lines of the records whose categories are told most, of each category so many; found out first."""
    found = [
        {
            "row": risk["row"][place],
            "category": name,
            "probability": risk[PROBABILITY + name][place],
            "baseline": risk[BASELINE + name][place],
            "is_found": bool(is_found(risk, name)[place]),
        }
        for name in judged_categories(risk)
        for place in most_told(risk, name)[:most]
    ]
    return sorted(found, key=lambda line: not line["is_found"])
