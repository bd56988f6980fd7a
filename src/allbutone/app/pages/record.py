"""One record after a trial release: what the adversary would learn of it, and the measures behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from allbutone.adversary.attack import describe
from allbutone.adversary.landscape import Hidden
from allbutone.app.forms import FieldError
from allbutone.app.jobs import Download, as_csv
from allbutone.app.page import piece
from allbutone.app.pages.source import Chosen
from allbutone.disclosure import record_view as views
from allbutone.disclosure.lineup import CONFIDENCE
from allbutone.disclosure.measures import RADIUS
from allbutone.disclosure.missing_risk import groups_of, measure_missing, sample_group, stacked
from allbutone.disclosure.question import without_lacking
from allbutone.disclosure.rule import Rule, ToldValues
from allbutone.model.moments import Moments
from allbutone.releases.release import Release
from allbutone.reports.verdict import NAMED, NOTHING, Value, values_at
from allbutone.support.text import counted, joined, listed, number
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

TRIAL = 100  # datasets, or draws, of a trial release
TRIAL_OF_CELLS = 5  # of one of a table with categories, gaps, kept columns or classes, which takes longer
NUMBERS = 5_000_000  # that a trial release may hold
MOST_MISSING = 20  # records besides the one looked at: more take longer than a page should
SEED = 1  # of every trial: the same table shows the same trial twice


@dataclass(frozen=True, eq=False)
class RecordFindings:
    """What a trial release of `count` datasets or draws tells of a row; `view` is None where there is one column.

    `asked` is the count that was asked for, which the trial may not hold; `missing`: how many records the
    adversary lacks besides this one.
    """

    row: int
    asked: int
    count: int
    attack: views.RecordAttack
    measures: views.RecordMeasures
    attributes: tuple[views.Attribute, ...]
    view: views.AttackView | None
    missing: int = 0


def row_of(text: str, rows: np.ndarray, persons: Sequence[Any] | np.ndarray = ()) -> int:
    """Return the row that an address names, if it is among the table's `rows`; of a long table by who it is of."""
    if names := list(map(str, persons)):
        if text not in names:
            cure = "write a person as the table does"
            raise FieldError("row", f"{text[:60]!r} is nobody of this table", cure, where="Row, or person")
        return int(rows[names.index(text)])
    if not (text.isascii() and text.isdecimal() and len(text) <= 12) or int(text) not in rows:
        cure = f"give one from 1 to {rows[-1]:,}"
        raise FieldError("row", f"{text[:60]!r} is none of this table", cure, where="Row")
    return int(text)


def most_of(rows: int | None, p: int) -> int:
    """Return how many datasets of so many rows, or draws, a trial holds; 0 where not even one fits."""
    return min(TRIAL, NUMBERS // (p * (p if rows is None else rows)))


def trial(chosen: Chosen, rows: int | None) -> Release | None:
    """Return a release of this table, drawn to be looked at and never released; None where none fits."""
    records, prior = chosen.records, chosen.prior
    most = most_of(rows, len(records.columns))

    def draw() -> Release:
        rng, names = np.random.default_rng(SEED), records.columns
        whole = prior.update(records.values)
        if rows is None:
            return Release.draw_parameters(whole, most, rng, columns=names, prior=prior, schema=records.schema)
        return Release.draw(whole, [rows] * most, rng, columns=names, prior=prior, schema=records.schema)

    return chosen.held.get_or_compute(("trial", *chosen.key, rows), draw) if most else None


def mixed_trial(chosen: Chosen, rows: int | None, count: int) -> Release:
    """Return a release of a table of any kind, drawn to be looked at and never released: see `trial`."""
    rng, synthesizer = np.random.default_rng(SEED), chosen.synthesizer

    def draw() -> Release:
        if rows is None:
            return synthesizer.sample_parameters(count, rng_for_tests=rng)
        return synthesizer.sample(datasets=count, rows=None if chosen.keep else rows, rng_for_tests=rng)

    return chosen.held.get_or_compute(("trial", *chosen.key, rows, count), draw)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names between commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def findings_of(
    chosen: Chosen,
    release: Release,
    row: int,
    count: int,
    x: str,
    y: str,
    hidden: Hidden,
    *,
    without: tuple[str, ...] = (),
    missing: int = 0,
) -> RecordFindings:
    """Attack a row after the first `count` datasets or draws, and look at its columns `x` and `y`.

    The adversary lacks the columns `without` of everyone, and so many records besides this one.
    """
    records, prior = chosen.records, chosen.prior
    if without:
        records, release, _ = without_lacking(records, release, without)
        prior = release.mechanism.require_prior()
    attack = views.of_record(records, row, release, prior)
    most = min(count, attack.most)
    if missing:
        return _with_several_missing(records, attack, row, count, most, missing)
    if len(attack.columns) > 1:
        view = views.view_attack(attack, most, shown=axes(attack.columns, x, y), hidden=hidden)
        return RecordFindings(row, count, most, attack, view.measures, view.attributes, view)
    posterior = attack.posterior(most)
    found = describe(posterior, posterior.modes)
    measures = attack.measures(posterior, found, most)
    attributes = views.attributes_of(attack.columns, attack.target, found, attack.alone)
    return RecordFindings(row, count, most, attack, measures, attributes, None)


def _with_several_missing(
    records: Records, attack: views.RecordAttack, row: int, asked: int, count: int, missing: int
) -> RecordFindings:
    """Attack a row and some others, chosen at random, that are missing with it."""
    rng, values = np.random.default_rng(SEED), records.values
    (group,) = groups_of(len(values), missing, np.array([records.place_of(row)]), rng)
    known = attack.prior.update(Moments.of(np.delete(values, group.missing, axis=0)))
    (found,) = sample_group(
        stacked([known]), attack.release.first(count).normal.statistics(), len(group.missing), rng
    )
    learned = measure_missing([found], attack.target[None], np.array([0]), RADIUS, attack.near)
    attributes = views.attributes_of(attack.columns, attack.target, found, found.others)
    return RecordFindings(
        row, asked, count, attack, views.recorded(learned, attack.law, count), attributes, None, missing
    )


def axes(columns: tuple[str, ...], x: str, y: str) -> tuple[int, int]:
    """Return the places of two different columns: those named, or the first that are left."""
    across = columns.index(x) if x in columns else 0
    upwards = columns.index(y) if y in columns else 0
    return (across, upwards) if across != upwards else (across, 0 if across else 1)


def attribute_lines(attributes: tuple[views.Attribute, ...], schema: Schema) -> list[dict[str, Any]]:
    """Return a line a column: its numbers in natural units, and what they mean.

    An interval reaches one standard deviation to either side on the column's scale.
    """
    lines = []
    for one in attributes:
        scale = schema.column(one.name).scale
        after, before = (
            " to ".join(map(number, scale.to_natural(np.array([middle - deviation, middle + deviation])).tolist()))
            for middle, deviation in ((one.guess, one.deviation), (one.baseline, one.baseline_deviation))
        )
        true, guess, baseline = scale.to_natural(np.array([one.true, one.guess, one.baseline])).tolist()
        lines.append({
            "name": schema.told_as(one.name), "true": true, "guess": guess, "baseline": baseline,
            "interval": after, "baseline_interval": before,
            "words": _in_words(one) if scale.is_plain else _between(one, after, before),
        })  # fmt: skip
    return lines


def _hardly_learned(one: views.Attribute) -> bool:
    little = 0.1 * one.baseline_deviation
    return abs(one.guess - one.baseline) < little and abs(one.deviation - one.baseline_deviation) < little


def _between(one: views.Attribute, after: str, before: str) -> str:
    """Say how well a column on another scale is known, where no single ± holds in its own units."""
    if _hardly_learned(one):
        return f"hardly anything is learned: {after}, and {before} without the release"
    right = abs(one.guess - one.true) <= 2 * one.deviation
    return f"{'known' if right else 'believed, wrongly,'} to be {after} instead of {before}"


def _in_words(one: views.Attribute) -> str:
    """Say how well it is known, in the digits that tell both deviations apart."""
    least = min(one.deviation, one.baseline_deviation)
    digits = int(np.clip(1 - np.floor(np.log10(least)), 0, 12)) if 0 < least < np.inf else 2
    digits += round(one.deviation, digits) == round(one.baseline_deviation, digits)
    after, before = (f"{value:,.{digits}f}" for value in (one.deviation, one.baseline_deviation))
    off, far = abs(one.guess - one.true), abs(one.baseline - one.true)
    if _hardly_learned(one):
        return f"hardly anything is learned: ±{after}, and ±{before} without the release"
    if off <= 2 * one.deviation:
        return f"known to within ±{after} instead of ±{before}"
    return (
        f"believed to within ±{after} instead of ±{before}, but off by {off:,.{digits}f}; without the release by "
        f"{far:,.{digits}f}"
    )


@dataclass(frozen=True)
class Line:
    """One measure: with the release, ignoring it, its word in the glossary, and how exact it is."""

    name: str
    released: float
    ignoring: float
    term: str
    note: str = ""


def values_of(
    row: int, attack: views.RecordAttack, found: views.RecordMeasures, rule: Rule, schema: Schema = NOTHING
) -> list[Value]:
    """Return how well each value of the record is known, judged by the rule; to each adversary who attacks."""
    risk = attack.risk_columns(row, found)
    told = ToldValues.of(risk, rule)
    columns = np.argsort([attack.columns.index(name) for name in told.names], kind="stable")
    return values_at(risk, told, np.zeros(len(columns), dtype=int), columns, attack.outside, schema)


@dataclass(frozen=True)
class OneDraw:
    """What the verdict on one trial draw leaves open.

    own: the share of such releases that disclose a value of the record, to the usual adversary. lacking: what the
    adversary of the trial lacks besides the record, in words; nothing for the usual one.
    """

    own: float
    lacking: str = ""

    @property
    def share(self) -> str:
        """How many of a hundred such releases disclose the record."""
        if round(100 * self.own) < 1:
            return "fewer than one of 100"
        return f"about {round(100 * self.own)} of 100" if self.own < 0.995 else "more than 99 of 100"

    def would(self, what: str = "") -> str:
        """How many such releases would, to whichever of the usual adversaries."""
        usual = ", to the usual adversary, who learns more" * bool(self.lacking)
        return f"{self.share} such releases would{what}{usual}"


def verdict_piece(
    values: list[Value], rule: Rule, release: str, evidence: float | None = None, draw: OneDraw | None = None
) -> str:
    """Return the rule's verdict on one record, and how well each value is known; `release` names what tells it.

    evidence: the log likelihood ratio of its membership, where that is judged. `draw`: what to say where it is one
    trial draw, which another may contradict.
    """
    columns = list(dict.fromkeys(value.column for value in values if value.disclosed))
    member = None if evidence is None else float(rule.membership_of(np.array([evidence]))[0])
    is_member = member is not None and bool(rule.discloses_membership(np.array([member]))[0])
    disclosed = bool(columns) or is_member
    found = [f"{counted(len(columns), 'value')} of this record ({listed(columns, NAMED)})"] * bool(columns)
    found += ["that it is in the table" if columns else "that this record is in the table"] * is_member
    words = f"{release} discloses {joined(found) if disclosed else 'no value of this record'}"
    words += ", nor that it is in the table" * (member is not None and not disclosed)
    to_whom = f", and to an adversary who lacks {draw.lacking}," if draw and draw.lacking else ""
    said, remark = f"By the rule{to_whom} {words}", ""
    mark, standing = ("✘", "against") if disclosed else ("✔", "for")
    if draw:
        remark = "This is the verdict on one draw alone"
        if draw.own > 1 - CONFIDENCE and not disclosed:
            mark, standing, said = "!", "luck", f"{said}; but {draw.would()}"
        else:
            remark += f"; {draw.would(' disclose a value of this record')}"
    shown = {"words": said, "mark": mark, "standing": standing, "remark": remark}
    rule_words = rule.in_words if member is None else f"{rule.in_words} {rule.membership_in_words}"
    before = rule.membership_odds / (1 + rule.membership_odds)
    sure = {"member": member, "before": before, "limit": rule.membership}
    return piece("record_verdict.html", **shown, **sure, values=values, rule_words=rule_words)


def measure_lines(found: views.RecordMeasures, unit: str = "") -> list[Line]:
    """Return the measures of an attack; `unit` is that of distances, where all columns have the same."""
    mass_error, gain_error = (f" Standard error about {error:.1g}." for error in
                              (found.mass_error, found.information_gain_error))  # fmt: skip
    by = f"{found.simulated} simulated releases" if found.simulated else "closed form"
    return [
        Line(
            f"Distance of the guess{f' ({unit})' * bool(unit)}",
            found.distance,
            found.baseline_distance,
            "distance",
        ),
        Line("Relative error", found.relative_error, 1, "relative_error"),
        Line("Exposure", found.exposure, 0, "exposure"),
        Line(f"Expected exposure ({by})", found.law_exposure, 0, "expected_exposure"),
        Line("Mass near the record", found.mass, found.prior_mass, "mass", mass_error),
        Line("Information gain (nats)", found.information_gain, 0, "gain", gain_error),
    ]


def measures_piece(
    found: views.RecordMeasures, noun: str, csv: str, epsilon: float | None = None, unit: str = ""
) -> str:
    """Return the table of measures; `noun` is what is released, `csv` the address of the same as a file.

    epsilon: the record's own, where it is known.
    """
    lines = measure_lines(found, unit)
    return piece("measures.html", found=found, noun=noun, lines=lines, csv=csv, epsilon=epsilon)


def measures_csv(found: views.RecordMeasures, unit: str = "") -> Download:
    """Return the measures as a file."""
    held = measure_lines(found, unit)
    return as_csv(
        "measures.csv",
        {
            "measure": [line.name for line in held],
            "with_the_release": [line.released for line in held],
            "ignoring_it": [line.ignoring for line in held],
        },
    )
