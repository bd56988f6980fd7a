"""Risk: what each person in a table stands to lose by a release, whatever the table and whoever attacks.

A table of measurements alone has one cell; without gaps there is one draw of them; of a table that stays in its
engine the records come in blocks, and the moments of all others beside them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.cell_opinions import CellAdversary
from allbutone.adversary.class_beliefs import ClassAdversary
from allbutone.adversary.gaps import (
    GapAdversary,
    before_limits,
    noticed_bounds,
)
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.membership import evidence_in_cells, evidence_of_measurements
from allbutone.adversary.mixed import (
    CellIntegrals,
    LevelBeliefs,
    MixedLeaveOneOut,
    cell_beliefs,
    downdated,
    level_alone,
)
from allbutone.adversary.one_value import value_beliefs
from allbutone.adversary.plug_in import PlugInTable
from allbutone.adversary.proposal import Points
from allbutone.adversary.who import USUAL, Adversary, require_same_prior
from allbutone.disclosure.class_risk import risk_with_classes
from allbutone.disclosure.derived_risk import belief_columns_of_derived
from allbutone.disclosure.gap_risk import GapRisk, pattern_chances, risk_with_gaps
from allbutone.disclosure.measures import RADIUS, Measures
from allbutone.disclosure.missing_risk import groups_of, measure_groups, measure_missing_in_cells
from allbutone.disclosure.private_risk import private_beliefs
from allbutone.disclosure.question import EVIDENCE, GAPS, MEASURES, Asked, Learned, Question
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
from allbutone.model.augmentation import augment
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import MixedRecords
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.public_ball import without_limits
from allbutone.releases.release import Release, reading_of
from allbutone.releases.several import AReleased, Part, Released
from allbutone.support.arrays import to_numpy
from allbutone.support.devices import HERE, THREADS, device_of, in_numpy, moved_to, own_queue, require_processor
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
        return Records.of(table, **asked | {"schema": without_limits(asked["schema"])})
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
        question, learned = _with_guarantee(question)
    else:
        learned = _attacked(question)
        if informed is not None:
            second = _attacked(informed)
            rest_known = second.beliefs.without_level(GAPS)
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
    """Attack everybody, in the way that the table and what is released of it ask for."""
    if any(part.release.mechanism.has_classes for part in question.parts):
        return _by_classes(question)
    if question.adversary.lacks_records:
        return _sampled(question)
    if question.has_gaps or (question.has_bounds and question.can_be_averaged):
        return _averaged(question)
    return _exact(question)


# ------------------------------------------------------------------------------------------- exactly


def _exact(question: Question) -> Learned:
    """Attack everybody by posteriors in closed form."""
    question = _before_limits(question)
    if question.mechanism.is_normal and question.own_prior is None:
        return _exact_in_one_cell(question)
    return _exact_in_cells(question)


def _exact_in_cells(question: Question) -> Learned:
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
    for rows, beliefs, found, rest_known, evidence in results:
        if found is not None:
            learned.put(rows, unknown, found)
        if EVIDENCE in learned.measures:
            learned.measures[EVIDENCE][rows] = evidence
        for name, levels in learned.beliefs.levels.items():
            own = beliefs.levels[question.mechanism.categories.index(name)]
            for whole, part in zip(levels, own, strict=True):
                whole[rows] = part
        if learned.rest_known is not None and rest_known is not None:
            learned.rest_known.put(rows, question.places, rest_known)
    return learned


def _before_limits(question: Question) -> Question:
    """Return it with one draw of what limited and coarsely rounded values may have been before, if any were."""
    if not question.has_bounds:
        return question
    parts = tuple(
        replace(part, release=before_limits(part.release, question._fitted(part))) for part in question.parts
    )
    release = question.release
    return replace(
        question, release=parts[0].release if isinstance(release, Release) else replace(release, parts=parts)
    )


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
        found = value_beliefs(posteriors, truth, nearness, before)
        rest_known = Beliefs.of_values(found, _levels_alone(question, everyone, rows))
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


def _exact_in_one_cell(question: Question) -> Learned:
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
    for rows, found, rest_known in results:
        learned.put(rows, unknown, found)
        if learned.rest_known is not None and rest_known is not None:
            learned.rest_known.put(rows, question.places, rest_known)
    return learned


def _attacked_in_one_cell(
    question: Question, everyone: LeaveOneOut, block: tuple[np.ndarray, tuple[int, ...]]
) -> tuple[np.ndarray, Measures, Beliefs | None]:
    """Attack a block of records that share their known features."""
    rows, found = measure_block(everyone, question.asked, block)
    if not question.all_but_one_value:
        return rows, found, None
    truth, nearness = to_numpy(everyone.targets(rows)), question.near.rest_known.take(rows, question.places)
    values = value_beliefs(in_numpy(found.posteriors), truth, nearness)
    return rows, found, Beliefs.of_values(values, {})


def measure_block(
    everyone: LeaveOneOut | PlugInTable, asked: Asked, block: tuple[np.ndarray, tuple[int, ...]]
) -> tuple[np.ndarray, Measures]:
    """Measure a block of records that share their known features."""
    rows, known = block
    with own_queue(everyone.device):
        targets, posteriors = everyone.targets(rows), everyone.problem(rows, known)
        unknown = [place for place in range(targets.shape[1]) if place not in known]
        found = asked.measured(posteriors, targets[:, unknown], rows, unknown)
        return rows, found.in_numpy()


# ------------------------------------------------------------------------------------------- by averages


def _averaged(question: Question) -> Learned:
    """Attack everybody by averages over draws of what is missing, or known within bounds.

    The guess is the most probable record of all cells; standard errors hold those that drawing leaves.
    """
    stream = np.random.default_rng(question.rng)
    adversary, known = question.averaged(stream), question.known_measurements
    found = risk_with_gaps(
        adversary,
        stream,
        own=question.own_prior,
        rows=question.chosen,
        known_columns=known,
        known_categories=question.known_categories,
        radius=question.radius or RADIUS,
        points=Points.of(stream),
        near=question.near.take(np.arange(len(question.records.values)), question.places),
        nearness=question.near.rest_known.take(np.arange(len(question.records.values)), question.places),
        device=question.device,
        watch=question.watch,
    )
    learned = question.nothing_learned(question.errors)
    distances = _distances(adversary, found, question)
    numbers = {
        "mass": found.mass, "mass_error": found.mass_error, "prior_mass": found.prior_mass,
        "information_gain": found.gain, "information_gain_error": found.gain_error,
    }  # fmt: skip
    measures = {name: (distances | numbers)[name] for name in learned.measures if name != EVIDENCE}
    if EVIDENCE in learned.measures:
        measures[EVIDENCE] = found.evidence
    places = question.places
    learned.guess[:, places] = found.guess
    for name in ("probability", "probability_error", "baseline"):
        getattr(learned.beliefs, name)[:, places] = getattr(found, name)
    if learned.derived is not None:
        learned.derived[:] = found.functions
    levels = (_patterns(question) if question.judges_gaps else {}) | _levels(question, found)
    if learned.rest_known is not None:
        every = np.arange(len(question.records.values))
        names = {name: str(question.mechanism.categories.index(name)) for name in question.judged_categories}
        alone = {name: found.rest_known.levels[place] for name, place in names.items()}
        learned.rest_known.put(every, places, replace(found.rest_known, levels=alone))
    return replace(learned, measures=measures, beliefs=replace(learned.beliefs, levels=levels))


def _distances(adversary: GapAdversary, found: GapRisk, question: Question) -> dict[str, np.ndarray]:
    """Return how near the guess comes to what is observed, beside the others' centre, averaged over their gaps.

    Of a record of which some measurements are known, the others are looked at, from their centre given these.
    """
    truth, n, given = adversary.records.values, len(adversary.records), question.known_measurements
    centre, spread = np.zeros(truth.shape), np.zeros((*truth.shape, truth.shape[1]))
    models = list(zip(adversary.before.models, adversary.before.tables, strict=True))
    for model, filled in models:
        others = downdated(model, filled, filled.cells)
        df = np.broadcast_to(np.asarray(others.df, dtype=float), n)
        centre += np.asarray(others.mean) / len(models)
        spread += np.asarray(others.scale) / df[:, None, None] / len(models)
    columns = {name: np.full(n, np.nan) for name in MEASURES[:4]}
    for row in question.rows:
        (seen,) = np.nonzero(np.isfinite(truth[row]))
        told, left = seen[np.isin(seen, given)], seen[~np.isin(seen, given)]
        if not len(left):
            continue
        slope = np.linalg.solve(spread[row][np.ix_(told, told)], spread[row][np.ix_(told, left)])
        middle = centre[row, left] + (truth[row, told] - centre[row, told]) @ slope
        width = spread[row][np.ix_(left, left)] - spread[row][np.ix_(left, told)] @ slope
        away, guess = truth[row, left] - middle, found.guess[row, left] - middle
        white = np.linalg.solve(np.linalg.cholesky(width), np.stack([away, guess]).T)
        columns["distance"][row] = np.linalg.norm(guess - away)
        columns["baseline_distance"][row] = np.linalg.norm(away)
        columns["relative_error"][row] = np.linalg.norm(white[:, 1] - white[:, 0]) / np.linalg.norm(white[:, 0])
        columns["exposure"][row] = white[:, 1] @ white[:, 0] / (white[:, 0] @ white[:, 0])
    return columns


def _patterns(question: Question) -> Levels:
    """Return the probability of each record's own pattern of gaps among those of the table and of the datasets."""
    mechanism, tables = question.mechanism, [each for part in question.parts for each in part.release.tables]
    table, datasets = mechanism.incomplete(question.records), [mechanism.incomplete(each) for each in tables]
    probability, baseline = pattern_chances(table, datasets)
    return {GAPS: (probability, np.zeros(len(probability)), baseline)}


def _levels(question: Question, found: GapRisk) -> Levels:
    """Return the probability of each record's own level of the categories that are judged."""
    codes = question.mechanism.incomplete(question.records).codes
    levels: Levels = {}
    for name in question.judged_categories:
        place, rows = question.mechanism.categories.index(name), np.arange(len(codes))
        level = codes[:, place]
        told = (found.probabilities[place], found.probability_errors[place], found.baselines[place])
        levels[name] = tuple(np.where(level < 0, np.nan, values[rows, level]) for values in told)
    return levels


# ------------------------------------------------------------------------------------------- by classes


def _by_classes(question: Question) -> Learned:
    """Attack everybody by averages over draws of classes that nobody has observed.

    Values and levels are judged with all others of the record unknown, but for those that the adversary knows.
    """
    mechanism = question.mechanism
    if question.adversary.lacks_records:
        raise InputError(
            "with classes the adversary has all other records: several that are missing together are not inferred",
            Cure("let them have all others", "lacking_records", 0),
        )
    stream, records = np.random.default_rng(question.rng), question.records
    adversary = question.classes
    if adversary is None:
        adversary = _class_adversaries(question, stream)
    known = (question.known_measurements, question.known_categories)
    every = np.arange(len(records.values))
    found = risk_with_classes(
        adversary,
        stream,
        replace(question.near.take(every, question.places), functions=None),
        nearness=question.near.rest_known.take(every, question.places) if question.all_but_one_value else None,
        rows=question.chosen,
        known=known,
        radius=question.radius,
        watch=question.watch,
    )
    learned = question.nothing_learned(question.errors)
    numbers = _distances_of_guess(records.values, found.guess, question.rows, known[0]) | {
        "mass": found.mass, "mass_error": found.mass_error, "prior_mass": found.prior_mass,
        "information_gain": found.gain, "information_gain_error": found.gain_error, EVIDENCE: found.evidence,
    }  # fmt: skip
    learned.guess[:] = np.where(np.isnan(found.guess), learned.guess, found.guess)
    places = {name: mechanism.categories.index(name) for name in question.judged_categories}
    levels = _patterns(question) if question.judges_gaps else {}
    beliefs = found.beliefs(places, levels)
    rest_known = found.rest_known(places) if learned.rest_known is not None else None
    measures = {name: numbers[name] for name in learned.measures}
    return Learned(measures, learned.guess, beliefs, rest_known)


def _class_adversaries(question: Question, rng: np.random.Generator) -> ClassAdversary:
    """Return who has all releases: those through classes first, and what the adversary believes without any."""
    every = [_class_adversary(question, part, rng) for part in question.parts]
    whole = [
        each
        for each in every
        if isinstance(each, ClassAdversary) and len(each.records) == len(question.records.values)
    ]
    if not whole:
        raise InputError("of releases through classes one at least must be of all records", "draw one")
    first = whole[0]
    own = None if question.own_prior is None else CellAdversary.of(question.own_prior, first.records, ())
    if own is None and isinstance(every[0], CellAdversary):
        own = replace(every[0], datasets=())
    return replace(first, own=own, rest=tuple(each for each in every if each is not first))


def _class_adversary(question: Question, part: Part, rng: np.random.Generator) -> ClassAdversary | CellAdversary:
    """Draw classes given the records that a part of the releases was made from, with each of its datasets."""
    mechanism, records = part.release.mechanism, question.table_of(part)
    table, start = mechanism.incomplete(records), 0
    if part.people is not None:
        start = part.people.indices(len(question.records.values))[0]
    if not mechanism.has_classes:
        if part.release.parameters is not None:
            raise InputError("beside classes, parameters that were released are not judged")
        exact = [mechanism.incomplete(each) for each in part.release.datasets]
        return CellAdversary.of(mechanism.prior, table, exact, start)
    table = mechanism.seen_by_classes(table)
    seen, kept = as_seen(mechanism, part.release.datasets, table), mechanism.kept_alone(table)
    device = device_of(question.device)
    return replace(ClassAdversary.of(mechanism.class_model, table, seen, rng, kept, device=device), start=start)


def as_seen(mechanism: Mechanism, tables: Sequence[Records], table: IncompleteRecords) -> list[IncompleteRecords]:
    """Return synthetic tables as who attacks takes them: within bounds where these can be noticed, else exact."""
    datasets = [mechanism.as_drawn(each) for each in tables]
    if not mechanism.schema.is_limited or not table.values.shape[1]:
        return [IncompleteRecords.of(each.codes, each.values) for each in datasets]
    whole = table.values[~np.isnan(table.values).any(axis=1)]
    spread = np.nanvar(table.values, axis=0)
    if len(whole) > whole.shape[1] + 1:
        spread = 1 / np.diagonal(np.linalg.inv(np.atleast_2d(np.cov(whole.T))))
    return noticed_bounds(datasets, np.where(table.bounded.any(axis=0), 0.0, spread))  # as in the table itself


def _distances_of_guess(
    truth: Float[np.ndarray, "n p"], guess: Float[np.ndarray, "n p"], rows: Any, known: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return how near the guess comes to what is observed and unknown, beside the others' centre."""
    n, p = truth.shape
    columns, left = {name: np.full(n, np.nan) for name in MEASURES[:4]}, np.setdiff1d(np.arange(p), known)
    if not len(left):
        return columns
    centre, count = np.nanmean(truth, axis=0), np.sum(np.isfinite(truth), axis=0)
    filled = np.where(np.isnan(truth), centre, truth) - centre
    spread = filled.T @ filled / n
    for row in rows:
        some = left[np.isfinite(truth[row, left])]
        if not len(some):
            continue
        away = (truth[row, some] - centre[some]) * count[some] / (count[some] - 1)
        off = guess[row, some] - truth[row, some]
        white = np.linalg.solve(np.linalg.cholesky(spread[np.ix_(some, some)]), np.stack([away, away + off]).T)
        columns["distance"][row], columns["baseline_distance"][row] = np.linalg.norm(off), np.linalg.norm(away)
        columns["relative_error"][row] = np.linalg.norm(white[:, 1] - white[:, 0]) / np.linalg.norm(white[:, 0])
        columns["exposure"][row] = white[:, 1] @ white[:, 0] / (white[:, 0] @ white[:, 0])
    return columns


# ------------------------------------------------------------------------------------------- by sampling


def _sampled(question: Question) -> Learned:
    """Attack everybody together with the records that are lacking besides."""
    mechanism, lacking = question.mechanism, question.adversary.lacking_records
    if question.has_gaps:
        return _sampled_with_gaps(question)
    if question.elsewhere is not None:
        raise InputError(
            "an adversary who lacks records is sampled with all records at hand, and most of these are elsewhere",
            Cure("leave out what is lacking", "lacking_records", 0),
        )
    if question.adversary.known_columns:
        raise InputError(
            "an adversary who lacks several records is taken to know nothing of the target: of those that are "
            "missing nothing tells which is whose",
            Cure("leave out what is known", "known", []),
            Cure("leave out what is lacking", "lacking_records", 0),
        )
    require_processor(question.device, "an adversary who lacks several records")
    question = _before_limits(question)
    stream, values = np.random.default_rng(question.rng), question.records.values
    if not isinstance(lacking, int):  # rows of the table, which may have lost some
        lacking = [question.records.place_of(row) + 1 for row in lacking]
    groups = groups_of(len(values), lacking, question.rows, stream)
    learned = replace(question.nothing_learned(question.errors), derived=None)
    if mechanism.is_normal and len(question.parts) == 1 and question.own_prior is None:
        assert mechanism.normal is not None
        inside = (question.radius, replace(question.near, functions=None))
        for rows, found in measure_groups(
            values, question.release, mechanism.normal, groups, stream, *inside, question.watch
        ):
            learned.put(rows, range(values.shape[1]), found)
        return learned
    near = replace(question.near.take(np.arange(len(values)), question.places), functions=None)
    told = measure_missing_in_cells(
        question.leave_one_out(), groups, stream, near, question.radius, question.known_categories,
        question.points, question.watch,
    )  # fmt: skip
    for rows, found, of_categories in told:
        learned.put(rows, question.places, found)
        for name, whole in learned.beliefs.levels.items():
            for column, part in zip(whole, of_categories[mechanism.categories.index(name)], strict=True):
                column[rows] = part
    return learned


def _sampled_with_gaps(question: Question) -> Learned:
    """Attack everybody where records are lacking and there are gaps: averages over draws of what these were.

    Each time the adversary is taken to have the others, and what was released, as they are drawn: somewhat more
    than they have. Of a person who lacks values those that there are are judged, and no measure of all is told.
    """
    seed = int(np.random.default_rng(question.rng).integers(2**63))
    draws = (_completed(question, np.random.default_rng([seed, draw])) for draw in range(COMPLETIONS))
    every = [_sampled(replace(each, rng=np.random.default_rng(seed))) for each in draws]
    table, beliefs = question.records, [each.beliefs for each in every]
    observed, codes = np.isfinite(table.values), table.categories.select(question.mechanism.categories).codes

    def averaged(numbers: Sequence[np.ndarray], there: np.ndarray) -> np.ndarray:
        return np.where(there, np.mean(numbers, axis=0), np.nan)

    def spread(numbers: Sequence[np.ndarray], errors: Sequence[np.ndarray], there: np.ndarray) -> np.ndarray:
        both = np.mean(np.square(errors), axis=0) + np.var(numbers, axis=0, ddof=1)
        return np.where(there, np.sqrt(both / COMPLETIONS), np.nan)

    levels = _patterns(question) if question.judges_gaps else {}
    for name in beliefs[0].levels:
        own, errors, before = zip(*(each.levels[name] for each in beliefs), strict=True)
        there = codes[:, question.mechanism.categories.index(name)] >= 0
        levels[name] = (averaged(own, there), spread(own, errors, there), averaged(before, there))
    probabilities = [each.probability for each in beliefs]
    found = replace(
        beliefs[0],
        probability=averaged(probabilities, observed),
        probability_error=spread(probabilities, [each.probability_error for each in beliefs], observed),
        baseline=averaged([each.baseline for each in beliefs], observed),
        levels=levels,
    )
    whole = np.all(observed, axis=1) & np.all(codes >= 0, axis=1)
    measures = {name: averaged([each.measures[name] for each in every], whole) for name in every[0].measures}
    guess = averaged([each.guess for each in every], np.ones_like(observed))
    return replace(every[0], measures=measures, guess=guess, beliefs=found)


def _completed(question: Question, rng: np.random.Generator) -> Question:
    """Return it with one draw of what is missing, of the table by its model and of releases given that."""
    mechanism = question.mechanism
    drawn = augment(mechanism.incomplete(question.records), mechanism.prior, rng)
    table = _filled(mechanism, question.records, drawn.tables[0])
    complete, parts = replace(question, records=table), []
    for part in question.parts:
        release = part.release
        if any(each.has_gaps for each in release.datasets):
            model = complete._fitted(part)
            datasets = [
                _filled(release.mechanism, each, augment(release.mechanism.incomplete(each), model, rng).tables[0])
                for each in release.datasets
            ]
            release = replace(release, datasets=tuple(datasets))
        parts.append(replace(part, release=release))
    if isinstance(question.release, Release):
        return replace(complete, release=parts[0].release)
    return replace(complete, release=replace(question.release, parts=tuple(parts)))


def _filled(mechanism: Mechanism, records: Records, drawn: MixedRecords) -> Records:
    """Return records with what they lack as it was drawn."""
    values, codes = records.values.copy(), records.categories.codes.copy()
    places = [records.columns.index(name) for name in mechanism.modelled]
    values[:, places] = np.where(np.isnan(values[:, places]), drawn.values, values[:, places])
    levels = [records.categories.columns.index(name) for name in mechanism.categories]
    cells = mechanism.prior.cells.codes[drawn.cells]
    codes[:, levels] = np.where(codes[:, levels] < 0, cells, codes[:, levels])
    return replace(records, values=values, categories=replace(records.categories, codes=codes))


# ------------------------------------------------------------------------------------------- with a guarantee


def _with_guarantee(question: Question) -> tuple[Question, Learned]:
    """Attack everybody where noisy moments are all that was released of them, as the mechanism sees them."""
    if not question.adversary.is_usual or question.elsewhere is not None:
        raise InputError(
            "with a guarantee the adversary has all other records and the mechanism's limits: noise is added to "
            "the moments of all columns and records at once",
            "leave out what is known or lacking, and the prior",
        )
    require_processor(question.device, "a release with a guarantee")
    assert isinstance(question.release, Release)
    found = private_beliefs(question.records, question.release, question.judged_categories)
    # the noise is all that hides a person: there is one release, whose evidence is the gain
    measures = {"information_gain": found.gain, EVIDENCE: found.gain}
    if found.patterns is not None:
        found.beliefs.levels[GAPS] = found.patterns
    learned = Learned(measures, found.records.values, found.beliefs, found.rest_known, found.bounds)
    learned = replace(learned, derived=found.derived)
    return replace(question, records=found.records, near=found.near), learned
