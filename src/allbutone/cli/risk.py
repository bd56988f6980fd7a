"""The commands about risk: what each person stands to lose by a release, and to weaker adversaries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.ledger import TableLedger, require_no_ledger, show_together
from allbutone.cli.onward import next_after_adversaries, next_after_risk
from allbutone.cli.options import (
    REQUIRED,
    AttackOptions,
    Dask,
    Device,
    EarlierReleases,
    Force,
    JudgedAnywhere,
    JudgedTable,
    ModelOptions,
    NumbersFile,
    PriorOfRelease,
    ReleaseDir,
    TableOptions,
    argument,
    command,
    flag_of,
    option,
    whole_numbers,
)
from allbutone.cli.output import (
    Outputs,
    console,
    late_progress,
    outputs,
    show,
    show_files,
    show_notes,
    show_values,
    show_verdict,
)
from allbutone.cli.reading import (
    inputs_of,
    lazy_like,
    mechanism_prior,
    named_columns,
    prior_of,
    records_like,
    source_of,
)
from allbutone.disclosure.budget import Case, luck_of
from allbutone.disclosure.budget import budget as planned
from allbutone.disclosure.epsilon import epsilons_of
from allbutone.disclosure.private_risk import BOUND, of_riskiest
from allbutone.disclosure.risk import WorstSoFar, risk_by_lacking, risk_columns, stream_risk, with_prior
from allbutone.disclosure.rule import BASELINE, PROBABILITY, USUAL, JudgedPeople, Rule, ToldValues
from allbutone.disclosure.simulated_budget import RELEASES, Luck
from allbutone.disclosure.standing import StandingOut, standing_out, standing_out_in_cells
from allbutone.figures.export import untitled
from allbutone.figures.risk import disclosure_figure, private_risk_figure, risk_figure
from allbutone.model.moments import Moments
from allbutone.model.sites import SiteMoments
from allbutone.paper.law_figures import lacking_figure
from allbutone.releases.folder import load_release, release_of
from allbutone.releases.mechanism import require_nothing_kept
from allbutone.releases.release import Release
from allbutone.releases.several import Released, of_measurements
from allbutone.releases.together import Together
from allbutone.reports.findings import epsilon_words, private_risk_sentence
from allbutone.reports.report import words_of
from allbutone.reports.verdict import verdict_of
from allbutone.support.devices import HERE, device_of
from allbutone.support.errors import InputError, count_of
from allbutone.support.parallel import on_cluster
from allbutone.support.text import bell_curves, counted, number
from allbutone.tables.engines.lazy_records import BLOCK_ROWS, LazyRecords
from allbutone.tables.records import Records
from allbutone.tables.safe_io import require_outside


@dataclass(frozen=True)
class Attack:
    """An attack as it was asked for: on which table, by whom, on what prior, and where it is computed."""

    source: TableOptions
    options: AttackOptions
    model: ModelOptions
    device: str
    dask: str | None
    pooled: Path | None

    @property
    def asked(self) -> dict[str, Any]:
        """What every attack is asked."""
        options = self.options
        return {
            "adversary": options.adversary,
            "rule": options.rule,
            "radius": options.radius,
            "mass": not options.no_mass,
            "device": self.device,
        }


@command
def risk(
    *,
    context: typer.Context,
    source: JudgedAnywhere,
    release_dir: list[Path] = argument(
        "The folder of the release, or several, of releases of this table that were drawn apart: one attack "
        "on all.",
        REQUIRED,
    ),
    model: PriorOfRelease,
    attack: AttackOptions,
    book: EarlierReleases,
    device: Device = HERE,
    pooled: Path | None = option(
        "The moments of all sites that the release was drawn from; the table is one of these."
    ),
    dask: Dask = None,
    everyone: bool = option(
        "Judge all records of a table that stays where it is, a block at a time, and not the --worst alone.",
        False,
        "--all",
    ),
    out: NumbersFile = Path("risk.csv"),
    force: Force = False,
) -> None:
    """Say whose values this release discloses, to somebody who knows everybody else, and how surely.

    Several releases of the table are attacked together.
    """
    asked, rule = Attack(source, attack, model, device, dask, pooled), attack.rule
    device_of(device)
    for folder in release_dir:
        require_outside(out, folder)
    release = release_of(release_dir)
    if isinstance(release, Release) and release.noisy is not None:
        _attack_private(asked, release, out, force)
        return
    with outputs(out, force, [*inputs_of(source), model.prior]) as save:
        if source_of(source) is not None:
            require_no_ledger(book)
        if everyone:
            judged = _attack_all(asked, release, save)
        else:
            judged = _attack(asked, release, release_dir, TableLedger(book, source.table))
            save(judged.columns, *_figures(judged.columns, rule))
    show_verdict(verdict_of(judged.columns, rule, judged.among, luck=judged.luck))
    if judged.together:
        show_together(judged.together)
    show_values(judged.columns, rule)
    if judged.who:
        console.print(judged.who)
    show_files(out)
    if "epsilon" in judged.columns:
        console.print(escape(epsilon_words(judged.columns["epsilon"])))
    console.print(_assumed(asked, judged, judged.together.of(release_dir) if judged.together else release_dir))
    elsewhere = source_of(source) is not None
    next_after_risk(context, source, release_dir, release, judged.columns, bool(attack.known), elsewhere)
    show_notes([*judged.records.notes, *(judged.together.remarks if judged.together else ())])


@dataclass(frozen=True)
class Judged:
    """What an attack came to: a row for each record attacked, of what release, who they are, and by what luck.

    together: what the release was put together from, where a ledger was asked. among: of how many these are the
    worst, where all were attacked and not all are here.
    """

    columns: dict[str, np.ndarray]
    records: Records | LazyRecords
    release: Released
    together: Together | None = None
    who: str = ""
    luck: Luck | None = None
    among: JudgedPeople | None = None


def _attack(asked: Attack, release: Released, folders: Sequence[Path], ledger: TableLedger) -> Judged:
    """Attack every record of the table; of one that stays where it is, those that stand out most."""
    worst = _worst_of(asked, release)
    if worst is None:
        together = ledger.judged(records_like(asked.source, release), release, folders)
        records, whole = together.records, together.release
    else:
        together, records, whole = None, worst.records, release
    whole = with_prior(whole, prior_of(asked.model, records))
    elsewhere = _elsewhere(asked.pooled, records, worst)
    with on_cluster(asked.dask), late_progress("Attacking records", len(records.values)) as watch:
        # the integrals' random points are no secret, and a fixed start gives the same answer twice
        how = asked.asked | {"rng": np.random.default_rng(0), "elsewhere": elsewhere, "watch": watch}
        columns = risk_columns(records, whole, **how)
    if worst is None:
        columns |= {} if elsewhere is not None else _epsilon(asked, records, whole)
        luck = None if np.any(columns["disclosed"]) else _luck(asked, records, whole)
        return Judged(columns, records, whole, together, luck=luck)
    who = (
        f"Judged are the {worst.in_words}, exactly{'' if worst.keys else ', the first being row 1'}; the "
        f"{worst.others:,} others stand out less and stayed where they are."
    )
    return Judged(worst.keyed(columns), records, whole, who=who)


def _worst_of(asked: Attack, release: Released) -> StandingOut | None:
    """Fetch the records that stand out most of a table that stays where it is; None if it is a file to be read."""
    source = asked.source
    if source_of(source) is None:
        return None
    if isinstance(release, Release) and not release.mechanism.is_normal:
        require_nothing_kept(release.mechanism)
        cells = release.mechanism.prior
        return standing_out_in_cells(lazy_like(source, release), cells, most=source.worst, key=source.key)
    records = lazy_like(source, release)
    prior = mechanism_prior(asked.model, records, release)
    return standing_out(records, prior, most=source.worst, key=source.key)


def _epsilon(asked: Attack, records: Records, release: Released) -> dict[str, np.ndarray]:
    """Return each record's ε as a column, of measurements alone and the usual adversary."""
    if not (asked.options.adversary.is_usual and release.mechanism.is_normal):
        return {}
    epsilon = epsilons_of(records, release, release.mechanism.require_prior())
    return {} if epsilon is None else {"epsilon": epsilon}


def _elsewhere(pooled: Path | None, records: Records, worst: StandingOut | None) -> Moments | None:
    """Return the moments of the records that are not here: not fetched, or of other sites."""
    if pooled is None:
        return None if worst is None else worst.elsewhere
    if records.categories.columns:
        raise InputError("the risk by pooled moments is of measurements alone", "leave --pooled out")
    everyone = SiteMoments.load(pooled)
    if everyone.columns != records.columns or not everyone.schema.same_mechanism(records.schema):
        raise InputError(
            f"{pooled} is of the columns {', '.join(everyone.columns)}, or of other scales",
            "give the sites' own sum",
        )
    return everyone.total.without(Moments.of(records.values))


def _luck(asked: Attack, records: Records, release: Released) -> Luck | None:
    """Say how often as much as this discloses somebody, where it is beyond the budget."""
    options = asked.options
    if not replace(options.adversary, known=()).is_usual or asked.pooled or records.has_gaps:
        return None
    if isinstance(release, Release) and not release.mechanism.is_normal:
        with late_progress("Simulating releases of as much", RELEASES) as watch:
            rows = max(release.rows) if release.datasets else None
            return luck_of(Case.of(records, release.mechanism, rows, options.rule, 0), release.count, watch)
    prior = prior_of(asked.model, records) or release.prior
    if prior is None:
        return None
    rows = max((len(each.values) for each in release.datasets), default=None)
    with late_progress("Comparing with the budget", None) as watch:
        plan = planned(records, prior, rows=rows, release=release, probability=options.rule, rng=0, watch=watch)
    return plan.luck


def _attack_all(asked: Attack, release: Released, save: Outputs) -> Judged:
    """Attack one block after another of a table that stays where it is and write each; return the worst of all."""
    source = asked.source
    if source_of(source) is None:
        raise InputError(
            "--all is for a table that stays where it is; of one that is read all records are judged anyway",
            "leave --all out",
        )
    if asked.pooled is not None:
        raise InputError("--all goes by the table's moments, and --pooled by those of all sites", "leave one out")
    records = lazy_like(source, release)
    release = with_prior(release, mechanism_prior(asked.model, records, release))
    worst = WorstSoFar(asked.options.rule)
    with on_cluster(asked.dask), late_progress("Attacking records", len(records)) as watch:
        for block in stream_risk(records, release, key=source.key, **asked.asked, watch=watch):
            save.append(block)
            worst.add(block)
    save.draw(*_figures(worst.found, worst.rule, worst.among))
    uncounted = "" if source.key else " Rows are counted as the engine gives them: name a --key to know them by."
    who = (
        f"Judged are all {worst.people:,} records, {BLOCK_ROWS:,} at a time: no more than these, and those "
        f"closest to being disclosed, were held at once.{uncounted}"
    )
    return Judged(worst.found, records, release, who=who, among=worst.among)


def _figures(columns: dict[str, np.ndarray], rule: Rule, among: JudgedPeople | None = None) -> list[Any]:
    """Draw who is disclosed and, unless all measurements are known, how that comes about."""
    figures = [disclosure_figure(columns, rule, among)]
    if "relative_error" in columns:
        names = [name.removeprefix("error_") for name in columns if name.startswith("error_")]
        order = ToldValues.of(columns, rule).order
        figures.append(untitled(risk_figure(columns, names, order, people=among.people if among else None)))
    return figures


def _assumed(asked: Attack, judged: Judged, releases: Sequence[object]) -> str:
    """Say what the risk of these releases rests on, and what it does not show."""
    release, records = judged.release, judged.records
    options, missing, told = asked.options, asked.options.lacking_records, ""
    if not release.mechanism.is_normal:
        mechanism = release.mechanism
        known = [*dict.fromkeys([*mechanism.keep, *named_columns(options.known, release.order)])]
        what = bell_curves(len(mechanism.measurements), "measurement") + mechanism.schema.scales_in_words
        if mechanism.categories:
            what = f"in each of {counted(mechanism.prior.cells.count, 'cell')} {what}"
            if "relative_error" in judged.columns:
                told = (
                    " Exposure, relative error and mass in the file are those of the measurements if the "
                    "adversary has the categories right; the gain is of everything at once."
                )
    else:
        known = named_columns(options.known, records.columns)
        what = bell_curves(len(records.columns)) + records.schema.scales_in_words
    lacking = named_columns(options.lacking_columns, records.columns)
    has = "everybody else's records"
    has += f" but for {counted(missing, 'other')} chosen at random" if missing else ""
    has += f" without everyone's {', '.join(lacking)}" if lacking else ""
    told += " The usual adversary, who lacks nothing, learns more." if missing or lacking else ""
    told += f" What they believed before is the prior in {options.adversary_prior}." * bool(
        options.adversary_prior
    )
    which, made, more = "the release", "it was made", "what several releases of this table give away together"
    if len(releases) > 1:
        which, made = f"all {len(releases)} releases", "they were made"
        more = "what was released of this table apart from them"
    knows = f" and knows everyone's {', '.join(known)}" if known else ""
    return escape(
        f"Assumed: {what}, the prior in {releases[0]} was written without looking at the table, and the adversary "
        f"has {has}, {which}, and knows how {made}{knows}.{told}{_limits_in_words(release)}\n"
        f"Not shown: what another release of the same size would give away, {more}, and an adversary who knows "
        "more of a person (--known). This is a measurement, not a guarantee."
    )


def _limits_in_words(release: Released) -> str:
    """Say how many released values stand at a limit, and what that means to who attacks; else nothing."""
    drawn = release.mechanism.measurements
    datasets = (each.select(drawn).natural for each in release.datasets)
    told = release.schema.for_columns(drawn).clipped_in_words(datasets)
    return f" {told}; the adversary knows that these were drawn beyond it." if told else ""


def _attack_private(asked: Attack, release: Release, out: Path, force: bool) -> None:
    """Play the adversary against noisy moments and say what they learn, beside what the guarantee allows."""
    given = {"prior": asked.model.prior, **vars(asked.options)}
    for name in ("prior", "known", "lacking_columns", "lacking_records", "adversary_prior"):
        if given[name]:
            raise InputError(
                f"a release with a guarantee is attacked by the usual adversary, without {flag_of(name)}"
            )
    if source_of(asked.source) is not None:
        raise InputError("a release with a guarantee is judged with its table in a file", "give one")
    with outputs(out, force, inputs_of(asked.source)) as save:
        records = records_like(asked.source, release)
        assert release.noisy is not None
        columns = risk_columns(records, release, rule=asked.options.rule)
        save(columns, private_risk_figure(columns, release.noisy))
    console.print(f"[bold]{escape(private_risk_sentence(columns, release.noisy))}[/bold]\n")
    told = {kind: of_riskiest(columns, kind) for kind in (PROBABILITY, BASELINE, BOUND)}
    places = np.argsort(told[BASELINE] - told[PROBABILITY])[:10]
    shown = {"row": columns["row"], "column": columns["riskiest"], "probability": told[PROBABILITY]}
    shown |= {"without release": told[BASELINE], "at most expected": told[BOUND]}
    rows = [[escape(number(values[place])) for values in shown.values()] for place in places]
    show("The ten records of whom the release tells most", list(shown), rows, words=("column",))
    show_files(out)
    console.print(
        f"Guaranteed: {release.noisy.in_words}\nAssumed for the rest: the columns are jointly normal"
        f"{escape(release.schema.scales_in_words)}, and the adversary has every record but one, the noisy moments "
        "and the mechanism. The guarantee assumes none of that. 'At most expected' is an average over releases "
        "and people; one person in one release can have more, by luck."
    )
    show_notes(records.notes)


@command
def adversaries(
    *,
    context: typer.Context,
    source: JudgedTable,
    release_dir: ReleaseDir,
    model: PriorOfRelease,
    lacking: str = option("How many other records are lacking, in turn.", "1,2,5,10,20"),
    people: int = option("How many records to look at: those most exposed to the usual adversary.", 10),
    out: NumbersFile = Path("adversaries.csv"),
    force: Force = False,
) -> None:
    """Show how what is learned of those at most risk falls with what the adversary lacks: records, or columns."""
    numbers = whole_numbers("lacking", lacking)
    count_of("people", people)
    require_outside(out, release_dir)
    with outputs(out, force, [source.table, model.prior]) as save:
        release = of_measurements(load_release(release_dir))
        records = records_like(source, release)
        release = with_prior(release, prior_of(model, records))
        # random numbers that are no secret, and a fixed start gives the same answer twice
        usual = risk_columns(records, release, mass=False, rng=np.random.default_rng(0))
        rows = [int(usual["row"][place]) for place in ToldValues.of(usual, USUAL).order[:people]]
        settings = len(numbers) + len(records.columns) - 1
        with late_progress("Trying what the adversary may lack", settings) as watch:
            columns = risk_by_lacking(
                records, release, rows, numbers=numbers, rng=np.random.default_rng(0), watch=watch
            )
        figure = lacking_figure(columns, rows)
        save(columns, figure)
    console.print(f"[bold]{escape(words_of(figure))}.[/bold]\n")
    _show_medians(columns)
    show_files(out, "one row for each record and setting")
    console.print(
        "Assumed: as for risk. Records lacking beside the target are chosen at random; of columns the median "
        "over choices is shown. Who can say that nobody has more? Judge a release by the usual adversary, too."
    )
    next_after_adversaries(context, source.table, release_dir)
    show_notes(records.notes)


def _show_medians(columns: dict[str, np.ndarray]) -> None:
    """Show the medians over the records, setting by setting."""
    settings = dict.fromkeys(zip(columns["lacking"].tolist(), columns["number"].tolist(), strict=True))
    measures = ("exposure", "relative_error", "information_gain")
    rows = []
    for kind, count in settings:
        these = (columns["lacking"] == kind) & (columns["number"] == count)
        rows.append([kind, f"{count}", *(number(float(np.median(columns[name][these]))) for name in measures)])
    headings = ("lacking", "how many", "exposure", "relative error", "gain (nats)")
    show("Medians over the records that stand out most", headings, rows, words=("lacking",))
