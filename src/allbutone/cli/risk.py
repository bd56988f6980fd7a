"""The commands about risk: what each person stands to lose by a release, and to weaker adversaries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from allbutone.adversary.who import Adversary
from allbutone.cli import options as ask
from allbutone.cli import output as terminal
from allbutone.cli import reading
from allbutone.disclosure import rule as rules
from allbutone.disclosure.budget import EXPECTED_RELEASES, luck_of, seed_of
from allbutone.disclosure.budget import budget as planned
from allbutone.disclosure.budget_case import Case
from allbutone.disclosure.derived_risk import not_judged
from allbutone.disclosure.epsilon import epsilons_of
from allbutone.disclosure.private_risk import BOUND, of_riskiest
from allbutone.disclosure.risk import risk_columns, with_prior
from allbutone.disclosure.selection import Selection, selection_of
from allbutone.disclosure.simulated_budget import Luck
from allbutone.disclosure.standing import StandingOut, standing_out, standing_out_in_cells
from allbutone.disclosure.table_risk import WorstSoFar, risk_by_lacking, stream_risk
from allbutone.figures.export import untitled
from allbutone.figures.risk import disclosure_figure, membership_figure, private_risk_figure, risk_figure
from allbutone.model.moments import Moments
from allbutone.model.sites import SiteMoments
from allbutone.paper.law_figures import lacking_figure
from allbutone.releases.folder import load_release, release_of
from allbutone.releases.ledger import Together
from allbutone.releases.mechanism import require_nothing_kept
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.releases.release import Release
from allbutone.releases.several import Released, of_measurements
from allbutone.reports.findings import epsilon_words, private_risk_sentence
from allbutone.reports.report import words_of
from allbutone.reports.verdict import NOT_COMPARED, ONE_ALONE, POOLED, verdict_of
from allbutone.support.devices import HERE, device_of
from allbutone.support.errors import InputError, count_of
from allbutone.support.parallel import on_cluster
from allbutone.support.text import bell_curves, counted, joined, number
from allbutone.tables.engines.lazy_records import BLOCK_ROWS, LazyRecords
from allbutone.tables.records import Records
from allbutone.tables.safe_io import require_outside


@dataclass(frozen=True)
class Attack:
    """An attack as it was asked for: on which table, by whom, on what prior, and where it is computed."""

    source: ask.TableOptions
    options: ask.AttackOptions
    model: ask.ModelOptions
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


@dataclass(frozen=True)
class Judged:
    """What an attack came to: a row for each record attacked, of what release, who they are, and by what luck.

    together: what the release was put together from, where a ledger was asked. among: of how many these are the
    worst, where all were attacked and not all are here. within_budget: whether it is no more than the budget
    allows; None where that was not asked.
    """

    columns: dict[str, np.ndarray]
    records: Records | LazyRecords
    release: Released
    together: Together | None = None
    who: str = ""
    luck: Luck | None = None
    among: rules.JudgedPeople | None = None
    within_budget: bool | None = None

    @property
    def attempts(self) -> int:
        """How many releases were drawn before, judged and not given out, unless as much as this is always safe."""
        return len(self.together.attempts) if self.together and not self.within_budget else 0


@ask.command
def risk(
    *,
    context: typer.Context,
    source: ask.JudgedAnywhere,
    release_dir: list[Path] = ask.argument(
        "The folder of the release, or several, of releases of this table that were drawn apart: one attack "
        "on all.",
        ask.REQUIRED,
    ),
    model: ask.PriorOfRelease,
    attack: ask.AttackOptions,
    book: ask.EarlierReleases,
    out: ask.NumbersFile = Path("risk.csv"),
    images: ask.Images = None,
    force: ask.Force = False,
    device: ask.Device = HERE,
    pooled: Path | None = ask.option(
        "The moments of all sites that the release was drawn from; the table is one of these."
    ),
    dask: ask.Dask = None,
    everyone: bool = ask.option(
        "Judge all records of a table that stays where it is, a block at a time, and not the --worst alone.",
        False,
        "--all",
    ),
) -> None:
    """Say whose values, and whose membership, this release discloses to somebody who knows everybody else.

    Values are judged against two: who knows nothing of a person, and who knows all but one value of them. Several
    releases of the table are attacked together.
    """
    asked, rule = Attack(source, attack, model, device, dask, pooled), attack.rule
    device_of(device)
    for folder in release_dir:
        require_outside(out, folder)
    release = release_of(release_dir)
    if isinstance(release, Release) and release.noisy is not None:
        passed = _attack_private(asked, release, out, force, images)
        terminal.show_notes(reading.open_ledger(source, book).judge(release_dir, passed=passed))
        return
    with terminal.outputs(out, force, [*source.files, model.prior], images) as save:
        ledger = reading.open_ledger(source, book)
        if everyone:
            judged = _attack_all(asked, release, save)
        else:
            judged = _attack(asked, release, release_dir, ledger)
            save(judged.columns)
        save(None, *_figures(judged, rule))
    outside = judged.records.schema.known if attack.adversary.all_but_one_value else ()
    verdict = verdict_of(judged.columns, rule, judged.among, judged.luck, outside, judged.records.schema)
    only = None if attack.known_names is None else tuple(reading.named_columns(attack.known_names, release.order))
    verdict = replace(verdict, attempts=judged.attempts, only=only, left_open=_left_open(asked, judged))
    again = bool(judged.together and judged.together.attempts)
    chosen = _selection(asked, judged) if verdict.passed and (again or not verdict.may_go_out) else None
    terminal.show_verdict(verdict)
    reading.show_together(judged.together)
    if chosen and (again or chosen.tells):
        terminal.say(f"{chosen.in_words}\n")
    terminal.show_values(judged.columns, rule, outside, verdict.schema)
    if judged.who:
        terminal.say(judged.who)
    terminal.show_files(out)
    if "epsilon" in judged.columns:
        terminal.say(epsilon_words(judged.columns["epsilon"]))
    terminal.say(_assumed(asked, judged, judged.together.of(release_dir) if judged.together else release_dir))
    _show_next(context, asked, release_dir, release)
    unrecorded = ledger.judge(release_dir, passed=verdict.passed)
    remarks = judged.together.remarks if judged.together else ()
    terminal.show_notes([*judged.records.notes, *remarks, *unrecorded])


def _attack(asked: Attack, release: Released, folders: Sequence[Path], ledger: reading.TableLedger) -> Judged:
    """Attack every record of the table; of one that stays where it is, those that stand out most."""
    read, worst, together = reading.records_like(asked.source, release), None, None
    if isinstance(read, LazyRecords):
        worst = _worst_of(asked, read, release)
        records, whole = worst.records, release
    else:
        together = ledger.judged(read, release, folders)
        records, whole = together.records, together.release
    whole = with_prior(whole, reading.prior_of(asked.model, records))
    others = _not_here(asked.pooled, records, worst)
    with on_cluster(asked.dask), terminal.late_progress("Attacking records", len(records.values)) as watch:
        # the integrals' random points are no secret, and a fixed start gives the same answer twice
        how = asked.asked | {"rng": np.random.default_rng(0), "elsewhere": others, "watch": watch}
        columns = risk_columns(records, whole, **how)
    if worst:
        who = (
            f"Judged are the {worst.in_words}, exactly{'' if worst.keys else ', the first being row 1'}; the "
            f"{worst.others:,} others stand out less and stayed where they are."
        )
        return Judged(worst.keyed(columns), records, whole, who=who)
    if others is None and asked.options.adversary.is_usual and whole.mechanism.is_normal:
        epsilon = epsilons_of(records, whole, whole.mechanism.require_prior())
        columns |= {} if epsilon is None else {"epsilon": epsilon}
    planned_too = not rules.discloses_anybody(columns) and _has_budget(asked, records, whole)
    luck = _luck(asked, records, whole) if planned_too else None
    within_budget = luck is None if planned_too else None
    return Judged(columns, records, whole, together, luck=luck, within_budget=within_budget)


def _worst_of(asked: Attack, records: LazyRecords, release: Released) -> StandingOut:
    """Fetch the records that stand out most of a table that stays where it is."""
    how: dict[str, Any] = {"most": asked.source.worst, "key": asked.source.key}
    if isinstance(release, Release) and release.mechanism.has_classes:
        raise InputError("classes take the records themselves, and these stay where they are", "give one file")
    if isinstance(release, Release) and not release.mechanism.is_normal:
        require_nothing_kept(release.mechanism)
        return standing_out_in_cells(records, release.mechanism.prior, **how)
    return standing_out(records, reading.mechanism_prior(asked.model, records, release), **how)


def _not_here(pooled: Path | None, records: Records, worst: StandingOut | None) -> Moments | None:
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


def _has_budget(asked: Attack, records: Records, release: Released) -> bool:
    """Say whether the release can be compared with the budget of its table, and that does not take long."""
    if not replace(asked.options.adversary, known=None).is_usual or asked.pooled or records.has_gaps:
        return False
    if release.mechanism.has_classes:
        return False
    if isinstance(release, Release) and not release.mechanism.is_normal:
        return True
    return reading.prior_of(asked.model, records) is not None or release.prior is not None


def _luck(asked: Attack, records: Records, release: Released) -> Luck | None:
    """Say how often as much as this discloses somebody, where it is beyond the budget."""
    options, adversary = asked.options, asked.options.adversary
    if isinstance(release, Release) and not release.mechanism.is_normal:
        with terminal.late_progress("Comparing with the budget", EXPECTED_RELEASES) as watch:
            rows = max(release.rows) if release.datasets else None
            case = Case.of(records, release.mechanism, rows, options.rule, seed_of(), adversary)
            return luck_of(case, release, watch)
    prior = reading.prior_of(asked.model, records) or release.prior
    rows = max((len(each.values) for each in release.datasets), default=None)
    with terminal.late_progress("Comparing with the budget", None) as watch:
        how: dict[str, Any] = {"probability": options.rule, "adversary": adversary, "watch": watch}
        plan = planned(records, prior, rows=rows, release=release, **how)
    return plan.luck


def _left_open(asked: Attack, judged: Judged) -> str:
    """Say what a decision takes besides, where this is not yet the whole question."""
    if asked.options.known_names is not None:
        return ONE_ALONE
    if judged.within_budget is not None:
        return ""
    return NOT_COMPARED if asked.pooled is None else POOLED


def _selection(asked: Attack, judged: Judged) -> Selection | None:
    """Say what it tells that this passed, where as much as this, or its like, does not always pass."""
    if isinstance(judged.records, LazyRecords) or judged.who or asked.pooled:
        return None  # not everybody's record is here
    with terminal.late_progress("Judging what it may have passed for", None):
        what, options = (judged.records, judged.release, judged.columns), asked.options
        return selection_of(*what, options.rule, adversary=options.adversary)


def _attack_all(asked: Attack, release: Released, save: Callable[..., None]) -> Judged:
    """Attack one block after another of a table that stays where it is and write each; return the worst of all."""
    source = asked.source
    if not source.stays_in_engine:
        raise InputError(
            "--all is for a table that stays where it is; of one that is read all records are judged anyway",
            "leave --all out",
        )
    if asked.pooled is not None:
        raise InputError("--all goes by the table's moments, and --pooled by those of all sites", "leave one out")
    records = reading.records_like(source, release)
    assert isinstance(records, LazyRecords)
    release = with_prior(release, reading.mechanism_prior(asked.model, records, release))
    worst = WorstSoFar(asked.options.rule)
    with on_cluster(asked.dask), terminal.late_progress("Attacking records", len(records)) as watch:
        for block in stream_risk(records, release, key=source.key, **asked.asked, watch=watch):
            save(block)
            worst.add(block)
    uncounted = "" if source.key else " Rows are counted as the engine gives them: name a --key to know them by."
    who = (
        f"Judged are all {worst.among.people:,} records, {BLOCK_ROWS:,} at a time: no more than these, and those "
        f"closest to being disclosed, were held at once.{uncounted}"
    )
    return Judged(worst.found, records, release, who=who, among=worst.among)


def _figures(judged: Judged, rule: rules.Rule) -> list[Any]:
    """Draw who is disclosed and, unless all measurements are known, how that comes about."""
    columns, among = judged.columns, judged.among
    figures = [disclosure_figure(columns, rule, among)]
    if rules.MEMBERSHIP in columns and among is None:  # the worst of all do not show what is usual
        figures.append(untitled(membership_figure(columns, rule)))
    if "relative_error" in columns:
        names = [name.removeprefix("error_") for name in columns if name.startswith("error_")]
        order = rules.ToldValues.of(columns, rule).order
        figures.append(untitled(risk_figure(columns, names, order, people=among.people if among else None)))
    return figures


def _assumed(asked: Attack, judged: Judged, releases: Sequence[object]) -> str:
    """Say what the risk of these releases rests on, and what it does not show."""
    release, records, mechanism = judged.release, judged.records, judged.release.mechanism
    options, missing, more_words = asked.options, asked.options.lacking_records, ""
    noun = "column" if mechanism.is_normal else "measurement"
    what = bell_curves(len(mechanism.modelled), noun) + mechanism.schema.scales_in_words
    if not mechanism.modelled:
        what = "categories are independent of each other"
    if mechanism.has_classes:
        what = f"in each of at most {mechanism.classes} classes that nobody has observed {what}"
        more_words = (
            " What is believed is averaged over draws of the classes; errors in the file hold what differs "
            "between chains of them."
        )
    elif mechanism.categories:
        what = f"in each of {counted(mechanism.prior.cells.count, 'cell')} {what}"
        if "relative_error" in judged.columns:
            more_words = (
                " Exposure, relative error and mass in the file are those of the measurements if the "
                "adversary has the categories right; the gain is of everything at once."
            )
    known = [*dict.fromkeys([*mechanism.keep, *reading.named_columns(options.known_names, release.order)])]
    lacking = reading.named_columns(options.lacking_columns, records.columns)
    has = "everybody else's records"
    has += f" but for {counted(missing, 'other')} chosen at random" if missing else ""
    has += f" without everyone's {', '.join(lacking)}" if lacking else ""
    if missing or lacking:
        more_words += " The usual adversary, who lacks nothing, learns more."
    if options.adversary_prior:
        more_words += f" What they believed before is the prior in {options.adversary_prior}."
    datasets = (each.select(mechanism.measurements).natural for each in release.datasets)
    if clipped := release.schema.for_columns(mechanism.measurements).clipped_in_words(datasets):
        more_words += f" {clipped}; the adversary knows that these were drawn beyond it."
    if apart := not_judged(records.schema, judged.columns):
        more_words += f" {apart}"
    which, made, more = "the release", "it was made", "what several releases of this table give away together"
    if len(releases) > 1:
        which, made = f"all {len(releases)} releases", "they were made"
        more = "what was released of this table apart from them"
    knows = f" and knows everyone's {', '.join(known)}" if known else ""
    if options.adversary.all_but_one_value:
        second = f"their {joined(outside)}" if (outside := records.schema.known) else "all values but one"
        knows += f"; of the person they know nothing more, or {second}"
        more = f"and {more}"
    else:
        more += ", and an adversary who knows more of a person (--known)"
    return (
        f"Assumed: {what}, the prior in {releases[0]} was written without looking at the table, and the adversary "
        f"has {has}, {which}, and knows how {made}{knows}.{more_words}\n"
        f"Not shown: what another release of the same size would give away, {more}. This is a "
        "measurement, not a guarantee."
    )


def _show_next(context: typer.Context, asked: Attack, folders: Sequence[Path], release: Released) -> None:
    """Propose the verdict against all adversaries after one of them, then the report or the budget."""
    source, mixed, table = asked.source, not release.mechanism.is_normal, asked.source.table
    if asked.options.known:
        words = "the verdict, against who knows nothing of a person and who knows all but one value:"
        terminal.propose(context, words, "risk", table, *folders, known=None, out="risk.csv")
        return
    if len(folders) > 1 or (mixed and not source.stays_in_engine):
        words = "the case for or against it:" if len(folders) == 1 else "the case for or against the last of them:"
        options: dict[str, Any] = {"out": "report.html", "prior": None}
        terminal.propose(context, words, "report", table, folders[-1], **options)
        return
    options = {"out": "budget.csv"}
    if release.rows and not mixed:
        options["rows"] = max(release.rows)
    if not mixed and isinstance(release, Release) and release.parameters is not None:
        options["release"] = ask.ReleaseKind.both if release.rows else ask.ReleaseKind.parameters
    options |= {"like": folders[-1], **source.as_released}
    words = "how much of this table may be given out before anybody is disclosed:"
    terminal.propose(context, words, "budget", table, **options)


def _attack_private(
    asked: Attack, release: Release, out: Path, force: bool, images: ask.ImageFormat | None
) -> bool:
    """Play the adversary against noisy moments and say what they learn, beside what the guarantee allows.

    Return whether nobody is disclosed.
    """
    given = {"prior": asked.model.prior, **vars(asked.options)}
    for name in ("prior", "known", "lacking_columns", "lacking_records", "adversary_prior"):
        if given[name]:
            raise InputError(
                f"a release with a guarantee is attacked by the usual adversary, without {ask.flag_of(name)}"
            )
    if asked.source.stays_in_engine:
        raise InputError("a release with a guarantee is judged with its table in a file", "give one")
    noisy = release.noisy
    assert noisy is not None
    with terminal.outputs(out, force, asked.source.files, images) as save:
        records = reading.in_memory(reading.records_like(asked.source, release))
        columns = risk_columns(records, release, Adversary(secret=asked.options.secret), rule=asked.options.rule)
        save(columns, private_risk_figure(columns, noisy, asked.options.rule))
    terminal.say(f"{private_risk_sentence(columns, noisy)}\n", "bold")
    after, before, bound = (of_riskiest(columns, kind) for kind in (rules.PROBABILITY, rules.BASELINE, BOUND))
    riskiest = [release.schema.told_as(name) for name in columns["riskiest"]]
    who = "person" if len(records.people) else "row"
    shown: dict[str, Any] = {who: columns[who], "column": riskiest, "probability": after}
    shown |= {"without release": before, "at most expected": bound}
    rows = [[values[place] for values in shown.values()] for place in np.argsort(before - after)[:10]]
    terminal.show("The ten records of whom the release tells most", list(shown), rows, words=(who, "column"))
    terminal.show_files(out)
    terminal.say(
        f"Guaranteed: {noisy.in_words}\nAssumed for the rest: {_normal_words(noisy)}the adversary has every "
        f"record but one, the noisy {_told_words(noisy)} "
        "and the mechanism. The guarantee assumes none of that. "
        "'At most expected' is an average over releases "
        "and people; one person in one release can have more, by luck. It holds if whether this goes out does not "
        "depend on what is read here: to draw again until a verdict pleases uses up every draw."
    )
    terminal.show_notes(records.notes)
    return not rules.discloses_anybody(columns)


def _normal_words(noisy: NoisyMoments) -> str:
    """Say what is assumed of the measurements, if there are any."""
    if not noisy.ball.p:
        return ""
    scales = noisy.ball.schema.scales_in_words
    if not noisy.ball.schema.categories:
        return f"the columns are jointly normal{scales}, and "
    return (
        f"the measurements are normal around the sum of their levels' effects, with one covariance{scales}, and "
    )


def _told_words(noisy: NoisyMoments) -> str:
    """Say what was told of the table, with noise."""
    told = ["moments"] * bool(noisy.ball.p) + ["counts"] * bool(noisy.counts)
    return " and ".join(told)


@ask.command
def adversaries(
    *,
    context: typer.Context,
    source: ask.JudgedTable,
    release_dir: ask.ReleaseDir,
    model: ask.PriorOfRelease,
    lacking: str = ask.option("How many other records are lacking, in turn.", "1,2,5,10,20"),
    people: int = ask.option("How many records to look at: those most exposed to the usual adversary.", 10),
    out: ask.NumbersFile = Path("adversaries.csv"),
    images: ask.Images = None,
    force: ask.Force = False,
) -> None:
    """Show how what is learned of those at most risk falls with what the adversary lacks: records, or columns."""
    numbers = ask.counts_in("lacking", lacking)
    count_of("people", people)
    require_outside(out, release_dir)
    with terminal.outputs(out, force, [source.table, model.prior], images) as save:
        release = of_measurements(load_release(release_dir))
        records = reading.in_memory(reading.records_like(source, release))
        release = with_prior(release, reading.prior_of(model, records))
        # random numbers that are no secret, and a fixed start gives the same answer twice
        usual = risk_columns(records, release, mass=False, rng=np.random.default_rng(0))
        rows = [int(usual["row"][place]) for place in rules.ToldValues.of(usual, rules.USUAL).order[:people]]
        settings = len(numbers) + len(records.columns) - 1
        with terminal.late_progress("Trying what the adversary may lack", settings) as watch:
            columns = risk_by_lacking(
                records, release, rows, numbers=numbers, rng=np.random.default_rng(0), watch=watch
            )
        figure = lacking_figure(columns, rows)
        save(columns, figure)
    terminal.say(f"{words_of(figure)}.\n", "bold")
    _show_medians(columns)
    terminal.show_files(out, "one row for each record and setting")
    terminal.say(
        "Assumed: as for risk. Records lacking beside the target are chosen at random; of columns the median "
        "over choices is shown. Who can say that nobody has more? Judge a release by the usual adversary, too."
    )
    words = "see what one who lacks nothing learns of each record:"
    terminal.propose(context, words, "risk", source.table, release_dir, out="risk.csv")
    terminal.show_notes(records.notes)


def _show_medians(columns: dict[str, np.ndarray]) -> None:
    """Show the medians over the records, setting by setting."""
    settings = dict.fromkeys(zip(columns["lacking"].tolist(), columns["number"].tolist(), strict=True))
    measures = ("exposure", "relative_error", "information_gain")
    rows = []
    for kind, count in settings:
        these = (columns["lacking"] == kind) & (columns["number"] == count)
        rows.append([kind, f"{count}", *(number(float(np.median(columns[name][these]))) for name in measures)])
    headings = ("lacking", "how many", "exposure", "relative error", "gain (nats)")
    terminal.show("Medians over the records that stand out most", headings, rows, words=("lacking",))
