"""The report: one self-contained HTML file that holds the whole case for or against a release."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined

from allbutone.disclosure.rule import ToldValues, called
from allbutone.figures.application import (
    distance_violins,
    mean_correlation_differences,
    mean_standardized_differences,
    p_value_densities,
    relative_error_violins,
)
from allbutone.figures.budget import budget_figure
from allbutone.figures.export import NO_REQUESTS, embedded, library
from allbutone.figures.fidelity import (
    correlation_difference_figure,
    correlation_figure,
    ks_figure,
    mean_difference_figure,
    propensity_figure,
)
from allbutone.figures.risk import disclosure_figure, epsilon_figure, risk_figure
from allbutone.figures.shapes import (
    association_figure,
    density_figure,
    distance_qq_figure,
    qq_figure,
    share_figure,
)
from allbutone.figures.style import MOST_ROWS, titled
from allbutone.model.prior import AnyPrior, prior_of
from allbutone.releases.folder import AnyRelease, load_release
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.release import Release, reading_of
from allbutone.reports.assessment import Assessment, assess
from allbutone.reports.findings import Finding, budget_words, epsilon_words
from allbutone.reports.glossary import GLOSSARY
from allbutone.reports.verdict import Verdict, told_of, values_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import listed, number, paragraphs, percent
from allbutone.tables.column import CATEGORY
from allbutone.tables.records import Records
from allbutone.tables.safe_io import fresh_file, require_distinct, require_outside
from allbutone.utility.fidelity import Fidelity
from allbutone.utility.shapes import Densities

# The columns of a mixed release as a report lists them: what is declared of each, and what was released.


MOST_LEVELS = 12  # that a line shows


def declared_columns(mechanism: Mechanism) -> list[dict[str, Any]]:
    """Return a line a column: its levels, or what is declared of its values, and whether it is kept."""
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
    """Return the same lines with what the release itself shows: means and deviations, or the shares of levels.

    Of parameters the shares are their mean over the draws; means of measurements would need the kept columns.
    """
    mechanism = release.mechanism
    shares = dict(zip(mechanism.categories, _shares(release), strict=True))
    natural = np.concatenate([each.natural for each in release.tables]) if release.tables else None
    lines = []
    for line in declared_columns(mechanism):
        name, shown = line["column"], dict[str, Any](mean=None, SD=None, shares="")
        if name in shares:
            levels = mechanism.schema.levels_of(name)
            some = [f"{level} {percent(share)}" for level, share in zip(levels, shares[name], strict=True)]
            shown["shares"] = listed(some, MOST_LEVELS)
        elif natural is not None:
            values = natural[:, mechanism.columns.index(name)]
            values = values[~np.isnan(values)]
            shown |= {"mean": values.mean(), "SD": values.std(ddof=1) if len(values) > 1 else None}
        lines.append(line | shown)
    return lines


def _shares(release: Release) -> list[np.ndarray]:
    """Return the share of every level of each category over all synthetic rows, or the mean of released draws."""
    mechanism = release.mechanism
    if not release.tables:
        assert release.parameters is not None
        return mechanism.prior.cells.marginal(release.parameters.shares.mean(axis=0))
    codes = np.concatenate([each.categories.select(mechanism.categories).codes for each in release.tables])
    counts = [
        np.bincount(codes[codes[:, place] >= 0, place], minlength=size)
        for place, size in enumerate(mechanism.sizes)
    ]
    return [count / max(count.sum(), 1) for count in counts]


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


def public_report(release: Release, note: str = "") -> str:
    """Return the page to go with a release: made from the release and the note alone."""
    synthetic = _synthetic(release) if release.mechanism.is_normal else released_columns(release)
    return _page("public.html", release=release, figures={}, synthetic=synthetic, note=note)


def _page(template: str, release: Release, figures: dict[str, go.Figure], **content: Any) -> str:
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


def _about(release: Release) -> dict[str, Any]:
    """Return what kind of release it is, and its columns."""
    about = {
        "columns": release.order,
        "modelled": release.mechanism.measurements,
        "datasets": bool(release.tables),
        "both": bool(release.tables) and release.draws > 0,
    }
    if release.mechanism.is_normal:
        return about | {"mechanism": None}
    return about | {"mechanism": release.mechanism, "declared": declared_columns(release.mechanism)}


def _budget_tables(assessment: Assessment) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return what else there is to say of a budget, each with its title."""
    plan = assessment.budget
    if plan is None or not plan.alternatives:
        return []
    lines = [{"change": each.in_words, "allows up to": each.datasets} for each in plan.alternatives]
    return [("What would allow more (tried on simulated releases where that is quick)", lines)]


def _figures(assessment: Assessment, order: np.ndarray) -> dict[str, go.Figure]:
    """Return the figures that this assessment has, by name."""
    release, plan, normality = assessment.release, assessment.budget, assessment.normality
    attacked = release.mechanism.measurements
    found = {"disclosure": disclosure_figure(assessment.risk, assessment.rule)}
    if "relative_error" in assessment.risk:
        found["risk"] = risk_figure(assessment.risk, attacked, order, labels=3)
    if plan is not None:
        found["budget"] = budget_figure(plan)
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


def _synthetic(release: Release) -> list[dict[str, Any]]:
    """Return the synthetic columns' own means and deviations: what anyone who has the release can compute."""
    means, deviations = release.means_and_deviations()
    columns = zip(release.schema.measurements, means, deviations, strict=True)
    return [
        {
            "column": column.on_scale if release.parameters is not None else column.name,
            "mean": mean,
            "SD": "–" if np.isnan(deviation) else deviation,
            "declared": column.in_words,
        }
        for column, mean, deviation in columns
    ]


def _rows(release: Release) -> str:
    if not release.rows:
        return ""
    sizes = sorted(set(release.rows))
    return f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"


def _lines(columns: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def words_of(figure: go.Figure) -> str:
    """Return the message of a figure, which the page prints above it."""
    return str((figure.layout.meta or {}).get("message", ""))


# The report as a function: what `allbutone report` writes, from Python.


@dataclass(frozen=True)
class Report:
    """A page that was written, and what it says: nothing is judged where it was made from the release alone."""

    path: Path
    verdict: Verdict | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return self.verdict.headline if self.verdict else "Made from the release alone; nothing was judged"

    def __repr__(self) -> str:
        """Return the verdict and where the page is."""
        lines = [self.verdict.how_sure] if self.verdict else []
        lines += [f"{each.subject}: {each.words}" for each in self.findings]
        return "\n".join([f"{self.headline}. Written: {self.path}", *lines])

    def _repr_html_(self) -> str:
        found = [self.verdict.how_sure] if self.verdict else []
        found += [f"{each.subject}: {each.words}" for each in self.findings]
        return paragraphs(f"{self.headline}.", *found, f"Written: {self.path}")


def report(
    table: Any,
    release: AnyRelease,
    prior: AnyPrior | None = None,
    *,
    out: str | Path = "report.html",
    public: bool = False,
    probability: float = 0.5,
    note: str = "",
    force: bool = False,
    **how_to_read: Any,
) -> Report:
    """Write the whole case for or against a release into one HTML file, and return what it finds.

    The page is confidential, and only its owner can read it. With `public` it is one that may go with the
    release, made from the release and the `note` alone; the table is read only to check its columns. A value
    counts as disclosed from `probability` on. Nothing is overwritten without `force`. How the table is read is
    said as to `Records.of` (complete_cases, missing_codes, …).

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> abo.report(cohort, release, out="about.html", public=True)
    Made from the release alone; nothing was judged. Written: about.html
    """
    path = Path(out)
    if path.suffix != ".html":
        raise InputError(f"out names an .html file, got {str(out)!r}", Cure("name one", "out", "report.html"))
    if not isinstance(release, Release | str | Path):
        raise InputError("a report is of one release", "give one; risk takes several together")
    files = [Path(each) for each in (table, prior) if isinstance(each, str | Path)]
    require_distinct([path], files)
    if isinstance(release, str | Path) and not public:
        require_outside(path, Path(release))
    with fresh_file(path, force=force, private=not public) as work:
        release = load_release(release) if isinstance(release, str | Path) else release
        release.require_no_guarantee()
        records = Records.of(table, **reading_of(release, how_to_read))
        if public:
            work.write_text(public_report(release, note), encoding="utf-8")
            return Report(path)
        given = None if prior is None else prior_of(prior, records.columns, records.schema)
        assessment = assess(records, release, given, probability=probability)
        work.write_text(confidential_report(assessment, note=note), encoding="utf-8")
    return Report(path, assessment.verdict, tuple(assessment.findings))
