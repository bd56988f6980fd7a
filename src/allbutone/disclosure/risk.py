"""Risk: what each person in a table stands to lose by a release, whatever the table and whoever attacks.

A table of measurements alone has one cell; without gaps there is one draw of them; of a table that stays in its
engine the records come in blocks, and the moments of all others beside them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Int

from allbutone.adversary.class_beliefs import ClassAdversary
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.membership import evidence_in_cells, evidence_of_measurements
from allbutone.adversary.mixed import CellIntegrals, LevelBeliefs, MixedLeaveOneOut, cell_beliefs, level_alone
from allbutone.adversary.one_value import value_beliefs
from allbutone.adversary.plug_in import PlugInTable
from allbutone.adversary.proposal import Points
from allbutone.adversary.who import USUAL, Adversary, require_same_prior
from allbutone.disclosure.derived_risk import belief_columns_of_derived
from allbutone.disclosure.measures import RADIUS, Measures
from allbutone.disclosure.question import EVIDENCE, GAPS, Asked, Learned, Question
from allbutone.disclosure.rule import (
    MEMBERSHIP,
    REST_KNOWN,
    Beliefs,
    Known,
    Levels,
    Rule,
    belief_columns,
    require_free_names,
    with_verdicts,
)
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.public_ball import without_limits
from allbutone.releases.release import Release, reading_of
from allbutone.releases.several import AReleased, Released
from allbutone.support.arrays import to_numpy
from allbutone.support.devices import HERE, THREADS, device_of, in_numpy, moved_to, own_queue
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records

BLOCK = 256  # records that are attacked at once
COMPLETIONS = 4  # of a table with gaps, for who lacks records


def records_of_release(table: Any, release: Released, **how_to_read: Any) -> Records:
    """Read the table of a release as it declares it; where there is a guarantee, without the limits."""
    if isinstance(release, Release) and release.noisy is not None:
        asked = reading_of(release, how_to_read)
        return Records.of(table, **asked | {"schema": without_limits(asked["schema"]), "one_by_one": True})
    return Records.of(table, **reading_of(release, how_to_read))


def risk_columns(
    records: Records,
    release: Released,
    adversary: Adversary = USUAL,
    *,
    rule: Rule | None = None,
    radius: float = RADIUS,
    mass: bool = True,
    rng: np.random.Generator | None = None,
    device: str = HERE,
    rows: Int[np.ndarray, " m"] | None = None,
    elsewhere: Moments | None = None,
    judged: int | None = None,
    classes: ClassAdversary | None = None,
    watch: Callable[[int], None] = lambda records: None,
) -> dict[str, np.ndarray]:
    """Return the measures of `risk` as columns; `watch` is called with the number of records finished.

    rows: the places of those who are judged, all by default. elsewhere: the moments of records of the table that
    are not among these, of all or of each cell, which the adversary has, too. judged: of how many records that are
    judged these are a part, if they are: more take fewer points each. classes: draws of them, where they are there
    already.
    """
    if not radius > 0:
        raise InputError(f"radius must exceed 0, got {radius}")
    guaranteed = isinstance(release, Release) and release.noisy is not None
    if not guaranteed:
        require_same_table(records, release)
    question = Question.of(records, release, adversary, elsewhere)
    question = replace(
        question,
        rule=rule or Rule(),
        radius=radius if mass else None,
        rng=rng,
        points=Points.of(rng),
        device=device,
        chosen=rows,
        judged=judged,
        classes=classes,
        watch=watch,
    )
    require_free_names([*([GAPS] if question.judges_gaps else []), *question.judged_columns])
    informed = None if guaranteed else question.informed
    if guaranteed:
        from allbutone.disclosure.private_risk import attacked_with_guarantee

        question, learned = attacked_with_guarantee(question)
    else:
        learned = _attacked(question)
        if informed is not None:
            second = _attacked(informed)
            rest_known = second.beliefs.without_level(GAPS).near_others
            learned = replace(learned, rest_known=rest_known, derived_rest_known=second.derived)
    near, table = question.near, question.records
    if rows is not None:
        learned, near, table = learned.of(rows), near.of(rows), table.take(rows)
    if EVIDENCE in learned.measures:
        learned.measures[MEMBERSHIP] = question.rule.membership_of(learned.measures[EVIDENCE])
    also = question.judged_measurements if informed is None else informed.judged_measurements
    judged_here = question.judged_measurements
    public = [name for name in question.unknown_measurements if name not in judged_here]
    derived = [] if near.functions is None else [
        belief_columns_of_derived(near.functions, values, asked.judged_functions, prefix)
        for asked, values, prefix in (
            (question, learned.derived, ""), (informed, learned.derived_rest_known, REST_KNOWN),
        )
        if asked is not None and values is not None
    ]  # fmt: skip
    return columns_of(table, near, question.rule, learned, judged_here, also, public, derived)


def columns_of(
    records: Records,
    near: Known,
    rule: Rule,
    learned: Learned,
    judged: Sequence[str],
    judged_besides: Sequence[str] = (),
    public: Sequence[str] = (),
    derived: Sequence[Mapping[str, np.ndarray]] = (),
) -> dict[str, np.ndarray]:
    """Put together the columns of `risk`: verdicts, measures, each value's probability, errors of the guess.

    judged, judged_besides: the measurements that are judged against the adversary, and against the second one;
    public: those that are guessed, and not judged. derived: the columns of values that are computed from these.
    """
    columns = belief_columns(records, near, learned.beliefs, judged)
    if learned.rest_known is not None:
        columns |= belief_columns(records, near, learned.rest_known, judged_besides, REST_KNOWN)
    for each in derived:
        columns |= each
    last = learned.further
    if last is None:
        off = records.schema.to_natural(learned.guess) - records.natural
        last = {f"error_{name}": off[:, records.columns.index(name)] for name in (*judged, *public)}
    return with_verdicts(records, rule, learned.measures, columns, last)


def with_prior(release: AReleased, prior: NIW | None) -> AReleased:
    """Return a release that says which prior it was made with: the one given, where it says none."""
    if prior is None or release.prior is prior:
        return release
    require_same_prior(release, prior)
    if release.prior is not None:
        return release
    if isinstance(release, Release):
        return replace(release, mechanism=replace(release.mechanism, normal=prior))
    parts = tuple(replace(part, release=with_prior(part.release, prior)) for part in release.parts)
    return replace(release, parts=parts)


def require_same_table(records: Records | LazyRecords, release: Released) -> None:
    """Refuse a table that is not read as the release declares it, and a release that does not say its prior."""
    if records.order != release.order:
        raise InputError(
            f"the release is of the columns {', '.join(release.order)}, the table of {', '.join(records.order)}",
            Cure("choose the same columns in the same order", "columns", list(release.order)),
        )
    if not records.schema.same_mechanism(release.schema):
        raise InputError(
            "the release was made with other scales, limits or decimals, or other levels, than the table is read "
            "with",
            Cure("read the table as the release declares it", "schema"),
        )
    if not release.mechanism.says_its_prior:
        raise InputError("the release does not say which prior it was made with", Cure("give it", "prior"))


def _attacked(question: Question) -> Learned:
    """Attack everybody, in the way that the table and what is released of it ask for: its room is loaded then."""
    if any(part.release.mechanism.has_classes for part in question.parts):
        from allbutone.disclosure.class_risk import attacked_with_classes as attacked
    elif question.adversary.lacks_records:
        from allbutone.disclosure.missing_risk import attacked_lacking_records as attacked
    elif question.has_gaps or (question.has_bounds and question.can_be_averaged):
        from allbutone.disclosure.gap_risk import attacked_with_gaps as attacked
    else:
        attacked = attacked_exactly
    return attacked(question)


def attacked_exactly(question: Question) -> Learned:
    """Attack everybody by posteriors in closed form."""
    question = question.before_limits()
    if question.mechanism.is_normal and question.own_prior is None:
        return exact_in_one_cell(question)
    return exact_in_cells(question)


def exact_in_cells(question: Question) -> Learned:
    """Attack everybody in every cell that they can be in: the way of any table."""
    learned, everyone, device = question.nothing_learned(), question.leave_one_out(), device_of(question.device)
    integrals = CellIntegrals.of(everyone, question.points, question.known_measurements, device)
    unknown = [question.records.columns.index(name) for name in question.unknown_measurements]
    attack = partial(_attacked_in_cells, question.to_be_sent, integrals, unknown)
    blocks = np.array_split(question.rows, max(1, -(-len(question.rows) // integrals.at_once(BLOCK))))
    results = in_parallel(
        attack,
        blocks,
        threads=None if device is None else THREADS,
        watch=lambda result: question.watch(len(result[0])),
        anywhere=device is None,  # a device is this computer's own
    )
    for rows, beliefs, measured, rest_known, evidence in results:
        if measured is not None:
            learned.put(rows, unknown, measured)
        if EVIDENCE in learned.measures:
            learned.measures[EVIDENCE][rows] = evidence
        for name, levels in learned.beliefs.levels.items():
            own = beliefs.levels[question.mechanism.categories.index(name)]
            for whole, part in zip(levels, own, strict=True):
                whole[rows] = part
        if learned.rest_known is not None and rest_known is not None:
            learned.rest_known.put(rows, question.places, rest_known)
    return learned


def _attacked_in_cells(
    question: Question, integrals: CellIntegrals, places: Sequence[int], rows: Int[np.ndarray, " b"]
) -> tuple[np.ndarray, LevelBeliefs, Measures | None, Beliefs | None, np.ndarray | None]:
    """Attack a block of records: their cells, and their measurements (`places` in the table) in the own cell."""
    everyone, given, device = integrals.everyone, integrals.given, integrals.device
    with own_queue(device):
        beliefs = cell_beliefs(integrals, rows, question.known_categories).of_truth  # all cells would not fit
    truth, cells = everyone.records.values[rows], everyone.records.cells[rows]
    if len(given) == truth.shape[1]:
        return rows, beliefs, None, None, None  # only categories are unknown
    posteriors, offset = everyone.problem(rows, cells)
    evidence = evidence_in_cells(everyone, rows, posteriors, offset) if question.judges_membership else None
    before = everyone.problem_before(rows, cells)
    rest_known = None
    if question.all_but_one_value:
        nearness = question.near.rest_known.take(rows, question.places)
        values = value_beliefs(posteriors, truth, nearness, before)
        rest_known = Beliefs.of_values(values, _levels_alone(question, everyone, rows))
    if given:
        posteriors = posteriors.given(given, truth[:, given])
        before = None if before is None else before.given(given, truth[:, given])
        truth = np.delete(truth, given, axis=1)
    posteriors, truth, before = moved_to(device, (posteriors, truth, before))
    with own_queue(device):
        measured = question.asked.measured(posteriors, truth, rows, places, before).in_numpy()
    with np.errstate(divide="ignore"):
        gain = measured.information_gain + np.log(beliefs.own) - np.log(beliefs.without)
    return rows, beliefs, replace(measured, information_gain=gain), rest_known, evidence


def _levels_alone(question: Question, everyone: MixedLeaveOneOut, rows: Int[np.ndarray, " b"]) -> Levels:
    """Return how well each category is known where all else of the record is: in closed form."""
    places = {name: question.mechanism.categories.index(name) for name in question.judged_categories}
    return {name: level_alone(everyone, rows, place) for name, place in places.items()}


def exact_in_one_cell(question: Question) -> Learned:
    """Attack everybody where all are in one cell, the same but faster: by downdates, perhaps on a device."""
    values, prior, device = question.records.values, question.mechanism.normal, question.device
    elsewhere = question.elsewhere
    if elsewhere is not None and np.ndim(elsewhere.count):
        elsewhere = Moments(float(elsewhere.count[0]), elsewhere.mean[0], elsewhere.scatter[0])
    assert prior is not None
    everyone = LeaveOneOut.of(values, question.release, prior, None, "record", elsewhere).on(device)
    learned, known = question.nothing_learned(), question.known_measurements
    unknown = [place for place in range(values.shape[1]) if place not in known]
    attack = partial(_attacked_in_one_cell, question.to_be_sent, everyone)
    here = device == HERE  # a device is this computer's own
    results = in_parallel(
        attack,
        list(everyone.blocks(known, question.rows)),
        threads=None if here else everyone.threads,
        watch=lambda block: question.watch(len(block[0])),
        anywhere=here,
    )
    if EVIDENCE in learned.measures:
        for part in question.parts:
            some = question.table_of(part)
            further = None if part.people else elsewhere
            told = evidence_of_measurements(
                part.release.mechanism.require_prior(),
                some.values,
                [each.values for each in part.release.datasets],
                part.release.parameters,
                further,
            )
            learned.measures[EVIDENCE][slice(None) if part.people is None else part.people] += told
    for rows, measured, rest_known in results:
        learned.put(rows, unknown, measured)
        if learned.rest_known is not None and rest_known is not None:
            learned.rest_known.put(rows, question.places, rest_known)
    return learned


def _attacked_in_one_cell(
    question: Question, everyone: LeaveOneOut, block: tuple[np.ndarray, tuple[int, ...]]
) -> tuple[np.ndarray, Measures, Beliefs | None]:
    """Attack a block of records that share their known features."""
    rows, measured = measure_block(everyone, question.asked, block)
    if not question.all_but_one_value:
        return rows, measured, None
    truth, nearness = to_numpy(everyone.targets(rows)), question.near.rest_known.take(rows, question.places)
    values = value_beliefs(in_numpy(measured.posteriors), truth, nearness)
    return rows, measured, Beliefs.of_values(values, {})


def measure_block(
    everyone: LeaveOneOut | PlugInTable, asked: Asked, block: tuple[np.ndarray, tuple[int, ...]]
) -> tuple[np.ndarray, Measures]:
    """Measure a block of records that share their known features."""
    rows, known = block
    with own_queue(everyone.device):
        targets, posteriors = everyone.targets(rows), everyone.problem(rows, known)
        unknown = [place for place in range(targets.shape[1]) if place not in known]
        measured = asked.measured(posteriors, targets[:, unknown], rows, unknown)
        return rows, measured.in_numpy()
