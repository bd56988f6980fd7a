"""Risk of everyone in a table with missing values: what a release tells of the observed part of each record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.gap_integrals import GapMeasures, measure_gaps
from allbutone.adversary.gaps import GapAdversary, GapPosteriors, targets_by_gaps
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.mixed import downdated
from allbutone.adversary.one_value import AveragedValues, Nearness, averaged_values
from allbutone.adversary.proposal import Points
from allbutone.disclosure.measures import ALWAYS_THE_SAME, RADIUS, nearness_of_guess
from allbutone.disclosure.question import EVIDENCE, GAPS, MEASURES, Learned, Question
from allbutone.disclosure.rule import Beliefs, Levels
from allbutone.model.incomplete import GapPatterns, IncompleteRecords, log_pattern_posterior
from allbutone.model.location import LocationModel
from allbutone.model.moments import UNKNOWN
from allbutone.releases.several import Part
from allbutone.support.devices import HERE, device_of, own_queue
from allbutone.support.parallel import in_parallel

NUMBERS_HELD = 1 << 22  # numbers that a block of targets holds
NUMBERS = ("gain", "gain_error", "mass", "mass_error", "prior_mass", "more_probable", "effective_draws")
ENOUGH = 0.2  # of the draws: weights that leave fewer are not trusted


@dataclass(frozen=True, eq=False)
class GapRisk:
    """What a release tells of each of n records; NaN (codes: −1) where a value is missing anyway.

    `guess` and `guess_codes`: the most probable record, at what is observed. For each category, `probabilities` of
    its levels beside `baselines`, those without the release, and `probability_errors`. The rest: `GapMeasures`.
    `effective_draws`: what the draws of the others' gaps are worth without the record; `redrawn`: where they were
    drawn anew without it. `probability`: of each measurement's interval, if such are given, beside `baseline`.
    """

    guess: Float[np.ndarray, "n p"]
    guess_codes: Int[np.ndarray, "n q"]
    probabilities: tuple[Float[np.ndarray, "n _"], ...]
    probability_errors: tuple[Float[np.ndarray, "n _"], ...]
    baselines: tuple[Float[np.ndarray, "n _"], ...]
    gain: Float[np.ndarray, " n"]
    gain_error: Float[np.ndarray, " n"]
    mass: Float[np.ndarray, " n"]
    mass_error: Float[np.ndarray, " n"]
    prior_mass: Float[np.ndarray, " n"]
    more_probable: Float[np.ndarray, " n"]
    effective_draws: Float[np.ndarray, " n"]
    redrawn: Bool[np.ndarray, " n"]
    probability: Float[np.ndarray, "n p"]
    probability_error: Float[np.ndarray, "n p"]
    baseline: Float[np.ndarray, "n p"]
    functions: Float[np.ndarray, "3 n f"]  # the same of values that are computed from the whole record
    evidence: Float[np.ndarray, " n"]
    rest_known: Beliefs  # levels by the category's position


def risk_with_gaps(
    adversary: GapAdversary,
    rng: np.random.Generator,
    *,
    own: LocationModel | None = None,
    rows: Int[np.ndarray, " t"] | None = None,
    known_columns: Sequence[int] = (),
    known_categories: Sequence[int] = (),
    radius: float = RADIUS,
    points: Points = ALWAYS_THE_SAME,
    size: int = 128,
    near: Intervals | None = None,
    nearness: Nearness | None = None,
    device: str = HERE,
    watch: Callable[[int], None] = lambda records: None,
) -> GapRisk:
    """Attack all records of the adversary's table, or some of its rows, each as if it alone were unknown.

    The gaps were drawn given the whole table. Where the weights that take a record out of it leave too few draws,
    the gaps are drawn anew without that record. `known_columns` and `known_categories`: measurements and
    categories (positions) of the target that the adversary knows, where it has them; kept ones belong there.
    `own`: the adversary's prior, where they have one of their own. `nearness`: what counts as
    knowing a value for who knows all others of the target, where that is asked, too.
    `watch` is told how many records are done, block by block.
    """
    records, known = adversary.records, (known_columns, known_categories)
    chosen, where = np.arange(len(records)) if rows is None else rows, device_of(device)
    many = max(1, NUMBERS_HELD // (adversary.parts * adversary.prior.p**2))
    groups = [some for group in targets_by_gaps(records.take(chosen)) for some in adversary.alike(chosen[group])]
    blocks = [group[at : at + many] for group in groups for at in range(0, len(group), many)]

    def judged(posteriors: GapPosteriors, block: np.ndarray) -> tuple[GapMeasures, AveragedValues | None]:
        close = None if near is None else near.take(block, posteriors.columns)
        alone = None
        if nearness is not None:
            alone = averaged_values(posteriors, nearness.take(block, posteriors.columns))
        with own_queue(where):
            return measure_gaps(posteriors, radius, points, size, near=close, device=where), alone

    def attack(block: np.ndarray) -> tuple[GapMeasures, AveragedValues | None]:
        return judged(adversary.posteriors(records.take(block), block, known), block)

    measured = in_parallel(attack, blocks, watch=lambda each: watch(len(each[0].gain)))
    risk = _nothing(adversary, 0 if near is None or near.functions is None else near.functions.count)
    risk.guess[:, known_columns] = records.values[:, known_columns]
    for block, each in zip(blocks, measured, strict=True):
        _put(risk, records, block, *each)
    few = risk.effective_draws < ENOUGH * len(adversary.before.models)
    (doubtful,) = np.nonzero(few)
    for row, stream in zip(doubtful, rng.spawn(len(doubtful)), strict=True):
        alone = records.take([row])
        posteriors = adversary.without(int(row), stream, own).posteriors(alone, known=known)
        _put(risk, records, np.array([row]), *judged(posteriors, np.array([row])))
        risk.redrawn[row] = True
        watch(0)
    return risk


def _nothing(adversary: GapAdversary, functions: int) -> GapRisk:
    """Return a risk in which nothing is known yet."""
    n, p = adversary.records.values.shape
    sizes = adversary.prior.cells.sizes
    by_level: dict[str, Any] = {
        name: tuple(np.full((n, size), np.nan) for size in sizes)
        for name in ("probabilities", "probability_errors", "baselines")
    }
    numbers: dict[str, Any] = {name: np.full(n, np.nan) for name in NUMBERS}
    return GapRisk(
        guess=np.full((n, p), np.nan),
        guess_codes=np.full((n, len(sizes)), UNKNOWN),
        redrawn=np.zeros(n, dtype=bool),
        probability=np.full((n, p), np.nan),
        probability_error=np.full((n, p), np.nan),
        baseline=np.full((n, p), np.nan),
        functions=np.full((3, n, functions), np.nan),
        evidence=np.full(n, np.nan),
        rest_known=Beliefs.nothing((n, p), list(map(str, range(len(sizes))))),
        **by_level,
        **numbers,
    )


def _put(
    risk: GapRisk,
    records: IncompleteRecords,
    rows: Int[np.ndarray, " m"],
    each: GapMeasures,
    alone: AveragedValues | None,
) -> None:
    """Write what was measured of some records, which all have the same values missing."""
    told = {"probability": "within", "probability_error": "within_errors", "baseline": "within_baselines"}
    risk.guess[rows[:, None], each.columns] = each.guess
    for place, (name, measured) in enumerate(told.items()):
        values = getattr(each, measured)
        getattr(risk, name)[rows[:, None], each.columns] = values[:, : len(each.columns)]
        risk.functions[place, rows] = values[:, len(each.columns) :]
    (known,) = np.nonzero(records.codes[rows[0]] != UNKNOWN)
    risk.guess_codes[rows[:, None], known] = each.combinations[each.guess_combination]
    start = 0
    for category in known:
        size = risk.probabilities[category].shape[1]
        levels = slice(start, start + size)
        risk.probabilities[category][rows] = each.levels[:, levels]
        risk.probability_errors[category][rows] = each.level_errors[:, levels]
        risk.baselines[category][rows] = each.level_baselines[:, levels]
        start += size
    for name in NUMBERS:
        getattr(risk, name)[rows] = getattr(each, name)
    if alone is not None:
        risk.evidence[rows] = alone.evidence
        own = {str(category): level for category, level in zip(known, alone.levels, strict=True)}
        risk.rest_known.put(rows, each.columns, Beliefs.of_values(alone.measurements, dict(own)))


def pattern_chances(
    table: IncompleteRecords, datasets: Sequence[IncompleteRecords]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return the probability of each record's own pattern of gaps, with datasets that have gaps and without them.

    Gaps are drawn by counts of their own: released parameters do not explain those of any table.
    """
    gaps, whole = table.gaps, GapPatterns.of(table)
    possible = np.unique(np.concatenate([gaps, *(each.gaps for each in datasets)]), axis=0)
    own, which = np.unique(gaps, axis=0, return_inverse=True)
    shares = np.empty((2, len(own)))
    for place, pattern in enumerate(own):
        others, mine = whole.without(pattern), np.all(possible == pattern, axis=1)
        for line, logs in enumerate(
            (log_pattern_posterior(others, datasets, possible), others.log_probability(possible))
        ):
            weights = np.exp(logs - logs.max())
            shares[line, place] = np.sum(weights[mine]) / np.sum(weights)
    return shares[0, which.ravel()], shares[1, which.ravel()]


def attacked_with_gaps(question: Question) -> Learned:
    """Attack everybody by averages over draws of what is missing, or known within bounds.

    The guess is the most probable record of all cells; standard errors hold those that drawing leaves.
    """
    stream = np.random.default_rng(question.rng)
    adversary, known = averaged(question, stream), question.known_measurements
    risk = risk_with_gaps(
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
    distances = _distances(adversary, risk, question)
    numbers = {
        "mass": risk.mass, "mass_error": risk.mass_error, "prior_mass": risk.prior_mass,
        "information_gain": risk.gain, "information_gain_error": risk.gain_error,
    }  # fmt: skip
    measures = {name: (distances | numbers)[name] for name in learned.measures if name != EVIDENCE}
    if EVIDENCE in learned.measures:
        measures[EVIDENCE] = risk.evidence
    places = question.places
    learned.guess[:, places] = risk.guess
    for name in ("probability", "probability_error", "baseline"):
        getattr(learned.beliefs, name)[:, places] = getattr(risk, name)
    if learned.derived is not None:
        learned.derived[:] = risk.functions
    levels = (pattern_levels(question) if question.judges_gaps else {}) | _levels(question, risk)
    if learned.rest_known is not None:
        every = np.arange(len(question.records.values))
        names = {name: str(question.mechanism.categories.index(name)) for name in question.judged_categories}
        alone = {name: risk.rest_known.levels[place] for name, place in names.items()}
        learned.rest_known.put(every, places, replace(risk.rest_known, levels=alone))
    return replace(learned, measures=measures, beliefs=replace(learned.beliefs, levels=levels))


def averaged(question: Question, rng: np.random.Generator) -> GapAdversary:
    """Return who attacks, with gaps, and values that are known within bounds, drawn many times."""
    first, *rest = (_part_averaged(question, part, rng) for part in question.parts)
    return replace(first, rest=tuple(rest))


def _part_averaged(question: Question, part: Part, rng: np.random.Generator) -> GapAdversary:
    mechanism, own = part.release.mechanism, question.own_prior if part.people is None else None
    everyone = GapAdversary.of(
        mechanism.incomplete(question.table_of(part)),
        mechanism.prior if part.people else question.with_elsewhere(mechanism.prior),
        rng,
        datasets=[mechanism.as_drawn(each) for each in part.release.datasets],
        parameters=part.release.parameters,
        draws=question.draws_of_gaps,
        own=None if own is None else question.with_elsewhere(own),
    )
    people = len(question.records.values)
    return everyone if part.people is None else replace(everyone, start=part.people.indices(people)[0])


def _distances(adversary: GapAdversary, risk: GapRisk, question: Question) -> dict[str, np.ndarray]:
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
    columns = np.full((4, n), np.nan)
    for row in question.rows:
        (seen,) = np.nonzero(np.isfinite(truth[row]))
        told, left = seen[np.isin(seen, given)], seen[~np.isin(seen, given)]
        if not len(left):
            continue
        slope = np.linalg.solve(spread[row][np.ix_(told, told)], spread[row][np.ix_(told, left)])
        middle = centre[row, left] + (truth[row, told] - centre[row, told]) @ slope
        width = spread[row][np.ix_(left, left)] - spread[row][np.ix_(left, told)] @ slope
        columns[:, row] = nearness_of_guess(truth[row, left] - middle, risk.guess[row, left] - middle, width)
    return dict(zip(MEASURES[:4], columns, strict=True))


def pattern_levels(question: Question) -> Levels:
    """Return the probability of each record's own pattern of gaps among those of the table and of the datasets."""
    mechanism, tables = question.mechanism, [each for part in question.parts for each in part.release.tables]
    table, datasets = mechanism.incomplete(question.records), [mechanism.incomplete(each) for each in tables]
    probability, baseline = pattern_chances(table, datasets)
    return {GAPS: (probability, np.zeros(len(probability)), baseline)}


def _levels(question: Question, risk: GapRisk) -> Levels:
    """Return the probability of each record's own level of the categories that are judged."""
    codes = question.mechanism.incomplete(question.records).codes
    levels: Levels = {}
    for name in question.judged_categories:
        place, rows = question.mechanism.categories.index(name), np.arange(len(codes))
        level = codes[:, place]
        told = (risk.probabilities[place], risk.probability_errors[place], risk.baselines[place])
        levels[name] = tuple(np.where(level < 0, np.nan, values[rows, level]) for values in told)
    return levels
