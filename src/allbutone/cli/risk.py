"""The command about risk: what each person stands to lose by a release."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.earlier import EARLIER, judged_with_earlier, show_together
from allbutone.cli.elsewhere import KEY, OF_ENGINE, Address, AnyTable, inputs_of, worst_of
from allbutone.cli.limits import limits_in_words
from allbutone.cli.mixed_risk import mixed_assumed, mixed_risk, next_after_mixed
from allbutone.cli.options import (
    Dask,
    Device,
    MechanismPrior,
    Probability,
    ReleaseKind,
    following,
    free_name,
)
from allbutone.cli.output import console, late_progress, show, show_next, show_notes
from allbutone.cli.private import attack_private
from allbutone.cli.reading import (
    OF_RELEASE,
    also_asked,
    named_columns,
    records_of,
)
from allbutone.cli.results import adversary_in_words, not_shown, outputs, show_files, show_verdict
from allbutone.cli.streamed_risk import judge_all, tell_all
from allbutone.disclosure.budget import plan_budget
from allbutone.disclosure.how_many import Luck
from allbutone.disclosure.measures import RADIUS
from allbutone.disclosure.mixed_budget import luck_of_mixed
from allbutone.disclosure.per_record import risk_columns
from allbutone.disclosure.privacy_loss import epsilons_of
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.simulated_budget import RELEASES
from allbutone.disclosure.standing_out import StandingOut
from allbutone.disclosure.told_values import Among, ToldValues
from allbutone.model.moments import Moments
from allbutone.model.prior_file import read_prior
from allbutone.model.site_moments import SiteMoments
from allbutone.plots.disclosure import disclosure_figure
from allbutone.plots.export import untitled
from allbutone.plots.risk import risk_figure
from allbutone.releases.folder import any_release_of, private_release_of, without_categories
from allbutone.releases.joined import Released
from allbutone.releases.ledger.together import Together
from allbutone.releases.mixed.release import Release
from allbutone.releases.release import DatasetRelease, ParameterRelease
from allbutone.reports.epsilons import epsilon_words
from allbutone.reports.verdict import told_of, values_of, verdict_of
from allbutone.support.cluster import on_cluster
from allbutone.support.devices import HERE, device_of
from allbutone.support.errors import InputError
from allbutone.support.text import bell_curves, counted, number
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records
from allbutone.tables.safe_write import require_outside

ReleaseDirs = Annotated[
    list[Path],
    typer.Argument(help="The folder of the release, or several folders: one attack on all."),
]
Known = Annotated[
    list[str] | None,
    typer.Option(help="A column the adversary knows of everyone, or several separated by commas."),
]
LackingColumns = Annotated[
    list[str] | None,
    typer.Option(help="A column the adversary lacks of everyone, or several separated by commas."),
]
LackingRecords = Annotated[
    int, typer.Option(min=0, help="How many records the adversary lacks besides the target, chosen at random.")
]
Radius = Annotated[float, typer.Option(help="How near the truth counts as near: a Mahalanobis distance.")]
Pooled = Annotated[
    Path | None,
    typer.Option(help="The moments of all sites that the release was drawn from; the table is one of these."),
]
NoMass = Annotated[
    bool, typer.Option("--no-mass", help="Leave out the mass near the truth: several times faster.")
]
File = Annotated[Path, typer.Option(help="The .csv or .parquet file to write; the figure is written beside it.")]
All = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Judge all records of a table that stays where it is, a block at a time, and not the --worst alone.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files of these names.")]

SHOWN = 10  # values in the table


@also_asked(OF_RELEASE | EARLIER | OF_ENGINE | KEY)
def risk(
    context: typer.Context,
    table: AnyTable,
    release_dir: ReleaseDirs,
    prior: MechanismPrior = None,
    known: Known = None,
    lacking_columns: LackingColumns = None,
    lacking_records: LackingRecords = 0,
    probability: Probability = 0.5,
    radius: Radius = RADIUS,
    no_mass: NoMass = False,
    device: Device = HERE,
    pooled: Pooled = None,
    dask: Dask = None,
    everyone: All = False,
    out: File = Path("risk.csv"),
    force: Force = False,
) -> None:
    """Say whose values this release discloses, to somebody who knows everybody else, and how surely.

    Several releases of the table are attacked together.
    """
    rule = Rule.of(probability)
    device_of(device)
    for folder in release_dir:
        require_outside(out, folder)
    if len(release_dir) == 1 and (private := private_release_of(release_dir[0])) is not None:
        attack_private(context, table, private, out, force)
        return
    if everyone:
        _risk_of_everyone(context, table, release_dir)
        return
    with outputs(out, force, [*inputs_of(context, table), prior]) as save:
        asked = any_release_of(release_dir)
        worst = worst_of(context, table, asked)
        if worst is None:
            records = records_of(context, table, asked)
            judged = judged_with_earlier(context, table, records, asked, release_dir)
        else:
            judged = Together(worst.records, asked)
        release, records = judged.release, judged.records
        elsewhere = _elsewhere(context, records, worst)
        with on_cluster(dask), late_progress("Attacking records", len(records.values)) as watch:
            if isinstance(release, Release):
                found = mixed_risk(context, records, release, watch, elsewhere)
            else:
                found = _risk_of_measurements(context, records, release, watch, worst, elsewhere)
        found = found if worst is None else worst.keyed(found)
        luck = None if worst is not None or np.any(found["disclosed"]) else _luck(context, records, release, rule)
        save(found, *_figures(found, rule))
    show_verdict(verdict_of(found, rule, luck=luck))
    show_together(judged)
    show_values(found, rule)
    if worst is not None:
        console.print(
            f"Judged are the {worst.in_words}, exactly{'' if worst.keys else ', the first being row 1'}; the "
            f"{worst.others:,} others stand out less and stayed where they are."
        )
    show_files(out)
    if "epsilon" in found:
        console.print(escape(epsilon_words(found["epsilon"])))
    if isinstance(release, Release):
        console.print(mixed_assumed(context, release, found, judged.of(release_dir)))
        next_after_mixed(context, table, release, found)
    else:
        console.print(_risk_assumed(context, records, judged.of(release_dir), limits_in_words(release)))
        _next_after_risk(context, table, release_dir, without_categories(asked))
    show_notes([*records.notes, *judged.remarks])


def _luck(context: typer.Context, records: Records, release: Released | Release, rule: Rule) -> Luck | None:
    """Say how often as much as this discloses somebody, where it is beyond the budget."""
    given = context.params
    if given["lacking_columns"] or given["lacking_records"] or given["pooled"] or records.has_gaps:
        return None
    if isinstance(release, Release):
        with late_progress("Simulating releases of as much", RELEASES) as watch:
            return luck_of_mixed(records, release, rule, watch)
    prior = read_prior(given["prior"], records.columns, records.schema) if given["prior"] else release.prior
    if prior is None:
        return None
    rows = max(release.rows) if release.rows and not isinstance(release, ParameterRelease) else None
    with late_progress("Comparing with the budget", None) as watch:
        plan = plan_budget(
            records, prior, rows=rows, probability=rule, earlier=release, alternatives=False, rng=0, watch=watch
        )
    return plan.luck


def _risk_of_everyone(context: typer.Context, table: Path | Address, release_dir: list[Path]) -> None:
    """Judge all records of a table that stays where it is."""
    given, out, rule = context.params, context.params["out"], Rule.of(context.params["probability"])
    with outputs(out, given["force"], [*inputs_of(context, table), given["prior"]]) as save:
        release = without_categories(any_release_of(release_dir))
        records, worst = judge_all(context, table, release, save)
        save.draw(*_figures(worst.found, rule, worst.among))
    show_verdict(verdict_of(worst.found, rule, worst.among))
    show_values(worst.found, rule)
    tell_all(worst, given["key"])
    show_files(out)
    console.print(_risk_assumed(context, records, release_dir, limits_in_words(release)))
    _next_after_risk(context, table, release_dir, release)
    show_notes(records.notes)


def _risk_of_measurements(
    context: typer.Context,
    records: Records,
    release: Released,
    watch: Callable[[int], None],
    worst: StandingOut | None,
    elsewhere: Moments | None,
) -> dict[str, np.ndarray]:
    given = context.params
    prior = read_prior(given["prior"], records.columns, records.schema) if given["prior"] else None
    found = risk_columns(
        records,
        release,
        prior,
        known=chosen(records, given["known"]),
        lacking_columns=chosen(records, given["lacking_columns"]),
        lacking_records=given["lacking_records"],
        rule=Rule.of(given["probability"]),
        radius=given["radius"],
        mass=not given["no_mass"],
        # the integrals' random points are no secret, and a fixed start gives the same answer twice
        rng=np.random.default_rng(0),
        elsewhere=elsewhere,
        device=given["device"],
        watch=watch,
    )
    if worst is not None:
        return found
    usual = not (given["known"] or given["lacking_columns"] or given["lacking_records"]) and elsewhere is None
    mechanism = getattr(release, "prior", None) if prior is None else prior
    epsilon = epsilons_of(records, release, mechanism) if usual and mechanism is not None else None
    return found if epsilon is None else found | {"epsilon": epsilon}


def _elsewhere(context: typer.Context, records: Records, worst: StandingOut | None) -> Moments | None:
    """Return the moments of the records that are not here: not fetched, or of other sites."""
    path = context.params["pooled"]
    if path is None:
        return None if worst is None else worst.elsewhere
    if records.categories.columns:
        raise InputError("the risk by pooled moments is of measurements alone", "leave --pooled out")
    everyone = SiteMoments.load(path)
    if everyone.columns != records.columns or not everyone.schema.same_mechanism(records.schema):
        raise InputError(
            f"{path} is of the columns {', '.join(everyone.columns)}, or of other scales",
            "give the sites' own sum",
        )
    return everyone.total.without(Moments.of(records.values))


def chosen(records: Records | LazyRecords, asked: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns asked for, none by default."""
    return tuple(named_columns(asked, list(records.columns)))


def _figures(found: dict[str, np.ndarray], rule: Rule, among: Among | None = None) -> list[Any]:
    """Draw who is disclosed and, unless all measurements are known, how that comes about."""
    figures = [disclosure_figure(found, rule, among)]
    if "relative_error" in found:
        names = [name.removeprefix("error_") for name in found if name.startswith("error_")]
        order = ToldValues.of(found, rule).order
        figures.append(untitled(risk_figure(found, names, order, people=among.people if among else None)))
    return figures


def show_values(found: dict[str, np.ndarray], rule: Rule) -> None:
    """Print the values that are disclosed, or come closest to it."""
    lines = told_of(values_of(found, rule, SHOWN))
    rows = [[escape(number(value)) for value in line.values()] for line in lines]
    show("\nThe values closest to being disclosed", list(lines[0]), rows, words=("column", "verdict"))


def _risk_assumed(
    context: typer.Context, records: Records | LazyRecords, releases: Sequence[object], limits: str
) -> str:
    given, p = context.params, len(records.columns)
    known, lacking = (chosen(records, given[name]) for name in ("known", "lacking_columns"))
    missing = given["lacking_records"]
    normal = bell_curves(p) + records.schema.scales_in_words
    has = (
        f"everybody else's records but for {counted(missing, 'other')} chosen at random"
        if missing
        else "everybody else's records"
    )
    has += f" without everyone's {', '.join(lacking)}" if lacking else ""
    weaker = " The usual adversary, who lacks nothing, learns more." if missing or lacking else ""
    words = f"Assumed: {normal}, {adversary_in_words(releases, known, has)}{weaker}"
    return escape(f"{words}{limits}\n{not_shown(releases)}")


def _next_after_risk(
    context: typer.Context, table: Path | Address, release_dir: list[Path], release: Released
) -> None:
    if len(release_dir) > 1:
        options: dict[str, Any] = {"out": free_name("report.html"), "prior": None}
        words = "the case for or against the last of them by itself:"
        show_next(words, following(context, "report", table, release_dir[-1], **options))
        return
    words = "how much of this table may be given out before a value of anybody is disclosed"
    options = {"out": free_name("budget.csv", ".html")}
    if release.rows:
        options["rows"] = max(release.rows)
    if not isinstance(release, DatasetRelease):
        options["release"] = ReleaseKind.both if release.rows else ReleaseKind.parameters
    options |= {"like": release_dir[0], "prior": None, "drop": None}
    if not context.params["no_header"]:  # where --columns are the names of all
        options["columns"] = None
    show_next(f"{words}:", following(context, "budget", table, **options))
