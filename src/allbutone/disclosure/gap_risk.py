"""Risk where values are missing or known within bounds: what a release tells of what is observed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.gap_integrals import GapMeasures, measure_gaps
from allbutone.adversary.gaps import (
    CHAINS,
    DRAWS,
    GapAdversary,
    GapPosteriors,
    noticed_bounds,
    redrawn,
    spread_given_others,
    targets_by_gaps,
)
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.mixed import downdated
from allbutone.adversary.proposal import Points
from allbutone.disclosure.measures import ALWAYS_THE_SAME, RADIUS
from allbutone.disclosure.mixed_risk import known_columns_of, mixed_risk_columns, require_same_table, unknown_names
from allbutone.disclosure.rule import (
    BASELINE,
    ERROR,
    PROBABILITY,
    Known,
    Rule,
    belief_columns,
    near_truth,
    require_free_names,
    with_verdicts,
)
from allbutone.model.incomplete import GapPatterns, IncompleteRecords, log_pattern_posterior
from allbutone.model.location import LocationModel
from allbutone.model.moments import UNKNOWN, Moments
from allbutone.releases.mechanism import KEEP_GAPS, Mechanism
from allbutone.releases.release import Release
from allbutone.support.parallel import in_parallel
from allbutone.tables.records import Records

# Risk of everyone in a table with missing values: what a release tells of the observed part of each record.


AT_ONCE = 1 << 22  # numbers that a block of targets holds
NUMBERS = ("gain", "gain_error", "mass", "mass_error", "prior_mass", "more_probable", "effective_draws")
ENOUGH = 0.2  # of the draws: weights that leave fewer are not trusted


@dataclass(frozen=True, eq=False)
class GapRisk:
    """What a release tells of each of n records; NaN (codes: −1) where a value is missing anyway.

    `guess` and `guess_codes`: the most probable record, at what is observed. For each category, `probabilities` of
    its levels beside `baselines`, those without the release, and `probability_errors`. The rest: `GapMeasures`.
    `effective_draws`: what the draws of the others' gaps are worth without the record; `redrawn`: where they were
    drawn anew without it. `within`: the probability of each measurement's interval, where intervals are given.
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
    within: Float[np.ndarray, "n p"]
    within_errors: Float[np.ndarray, "n p"]
    within_baselines: Float[np.ndarray, "n p"]


def risk_with_gaps(
    adversary: GapAdversary,
    rng: np.random.Generator,
    *,
    rows: Int[np.ndarray, " t"] | None = None,
    known_columns: Sequence[int] = (),
    known_categories: Sequence[int] = (),
    radius: float = RADIUS,
    points: Points = ALWAYS_THE_SAME,
    size: int = 128,
    near: Intervals | None = None,
    watch: Callable[[int], None] = lambda records: None,
) -> GapRisk:
    """Attack all records of the adversary's table, or some of its rows, each as if it alone were unknown.

    The gaps were drawn given the whole table. Where the weights that take a record out of it leave too few draws,
    the gaps are drawn anew without that record. `known_columns` and `known_categories`: measurements and
    categories (positions) of the target that the adversary knows, where it has them; kept ones belong there.
    `watch` is told how many records are done, block by block.
    """
    records, known = adversary.records, (known_columns, known_categories)
    chosen = np.arange(len(records)) if rows is None else rows
    many = max(1, AT_ONCE // (adversary.parts * adversary.prior.p**2))
    groups = [chosen[group] for group in targets_by_gaps(records.take(chosen))]
    blocks = [group[at : at + many] for group in groups for at in range(0, len(group), many)]

    def judged(posteriors: GapPosteriors, block: np.ndarray) -> GapMeasures:
        close = None if near is None else near.take(block, posteriors.columns)
        return measure_gaps(posteriors, radius, points, size, near=close)

    def attack(block: np.ndarray) -> GapMeasures:
        return judged(adversary.posteriors(records.take(block), block, known), block)

    measured = in_parallel(attack, blocks, watch=lambda each: watch(len(each.gain)))
    found = _nothing(adversary)
    found.guess[:, known_columns] = records.values[:, known_columns]
    for block, each in zip(blocks, measured, strict=True):
        _put(found, records, block, each)
    few = found.effective_draws < ENOUGH * len(adversary.before.models)
    (doubtful,) = np.nonzero(few)
    for row, stream in zip(doubtful, rng.spawn(len(doubtful)), strict=True):
        alone = records.take([row])
        posteriors = adversary.without(int(row), stream).posteriors(alone, known=known)
        _put(found, records, np.array([row]), judged(posteriors, np.array([row])))
        found.redrawn[row] = True
        watch(0)
    return found


def _nothing(adversary: GapAdversary) -> GapRisk:
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
        within=np.full((n, p), np.nan),
        within_errors=np.full((n, p), np.nan),
        within_baselines=np.full((n, p), np.nan),
        **by_level,
        **numbers,
    )


def _put(found: GapRisk, records: IncompleteRecords, rows: Int[np.ndarray, " m"], each: GapMeasures) -> None:
    """Write what was measured of some records, which all have the same values missing."""
    for name in ("guess", "within", "within_errors", "within_baselines"):
        getattr(found, name)[rows[:, None], each.columns] = getattr(each, name)
    (known,) = np.nonzero(records.codes[rows[0]] != UNKNOWN)
    found.guess_codes[rows[:, None], known] = each.combinations[each.guess_combination]
    start = 0
    for category in known:
        size = found.probabilities[category].shape[1]
        levels = slice(start, start + size)
        found.probabilities[category][rows] = each.levels[:, levels]
        found.probability_errors[category][rows] = each.level_errors[:, levels]
        found.baselines[category][rows] = each.level_baselines[:, levels]
        start += size
    for name in NUMBERS:
        getattr(found, name)[rows] = getattr(each, name)


# Risk where values are missing or known within bounds, as columns under the names that risk has everywhere.


MOST_WORK = 2.5e8  # numbers that mixtures hold for all records: one or two minutes
FEW_DRAWS = 2  # of each chain, where more would take too long


def any_risk_columns(
    records: Records, release: Release, elsewhere: Moments | None = None, **how: Any
) -> dict[str, np.ndarray]:
    """Return the risk of a mixed table's records as columns, by what its gaps, limits and rounding need."""
    if any(each.has_gaps for each in (records, *release.datasets)):
        return gap_risk_columns(records, release, elsewhere=elsewhere, **how)
    if has_bounds(records, release, elsewhere):
        if can_be_averaged(records, release):
            return gap_risk_columns(records, release, elsewhere=elsewhere, **how)
        release = _before_limits(records, release, elsewhere)
    return mixed_risk_columns(records, release, elsewhere=elsewhere, **how)


def _before_limits(records: Records, release: Release, elsewhere: Moments | None) -> Release:
    """Return the release with one draw of what its limited and coarsely rounded values may have been before."""
    mechanism = release.mechanism
    whole = _with_elsewhere(mechanism.prior, elsewhere).plus(mechanism.split(records))
    drawn = redrawn([mechanism.as_drawn(each) for each in release.datasets], whole)
    places = [records.columns.index(name) for name in mechanism.measurements]
    tables = []
    for each, values in zip(release.datasets, drawn, strict=True):
        every = each.values.copy()
        every[:, places] = values
        tables.append(replace(each, values=every))
    return replace(release, datasets=tuple(tables))


def has_bounds(records: Records, release: Release, elsewhere: Moments | None = None) -> bool:
    """Say whether limits or rounding of released values make a difference to who attacks; there are no gaps."""
    mechanism = release.mechanism
    if not release.datasets or not mechanism.schema.is_limited:
        return False
    seen = [mechanism.as_drawn(each) for each in release.datasets]
    whole = _with_elsewhere(mechanism.prior, elsewhere).plus(mechanism.split(records))
    return any(each.bounded.any() for each in noticed_bounds(seen, spread_given_others(whole)))


def can_be_averaged(records: Records, release: Release) -> bool:
    """Say whether everybody can be attacked by averages over draws, though perhaps few, in a minute or two."""
    return _work(records, release, FEW_DRAWS) < MOST_WORK


def _work(records: Records, release: Release, draws: int) -> float:
    """Return how many numbers the mixtures of all records hold, about 0.4 µs of work each."""
    (n, p), cells = records.values.shape, release.mechanism.prior.cells.count
    return float(cells * n * release.count * CHAINS * draws * (p + 3) ** 2)


def _with_elsewhere(prior: LocationModel, elsewhere: Moments | None) -> LocationModel:
    """Return the prior of who has further records, of which the moments of all or of each cell are known."""
    if elsewhere is None:
        return prior
    if not np.ndim(elsewhere.count):
        elsewhere = Moments(
            np.array([elsewhere.count], dtype=float), elsewhere.mean[None], elsewhere.scatter[None]
        )
    return prior.plus(elsewhere)


def gap_risk_columns(
    records: Records,
    release: Release,
    *,
    rule: Rule | None = None,
    known: str | Sequence[str] = (),
    radius: float = RADIUS,
    mass: bool = True,
    rng: np.random.Generator | None = None,
    elsewhere: Moments | None = None,
    watch: Callable[[int], None] = lambda records: None,
) -> dict[str, np.ndarray]:
    """Return the measures of what is observed of each record; not a number of what is missing anyway.

    The columns are those of `mixed_risk_columns`, with the standard errors that drawing the others' gaps leaves:
    `information_gain_error` and `mass_error`. The guess is the most probable record of all cells. Where synthetic
    tables have gaps of their own, which values a record lacks is judged like a category, under `gaps`.
    """
    require_same_table(records, release)
    mechanism, stream = release.mechanism, np.random.default_rng(rng)
    categories, given = known_columns_of(known, mechanism)
    gaps = ["gaps"] if mechanism.missing == KEEP_GAPS else []
    require_free_names([*gaps, *unknown_names(mechanism, categories, given)])
    table = mechanism.incomplete(records)
    datasets = [mechanism.as_drawn(each) for each in release.datasets]
    prior = _with_elsewhere(mechanism.prior, elsewhere)
    draws = DRAWS if _work(records, release, DRAWS) < MOST_WORK else FEW_DRAWS
    released: dict[str, Any] = {"datasets": datasets, "parameters": release.parameters}
    adversary = GapAdversary.of(table, prior, stream, draws=draws, **released)
    near = near_truth(records, elsewhere)
    places = [records.columns.index(name) for name in mechanism.measurements]
    found = risk_with_gaps(
        adversary,
        stream,
        known_columns=given,
        known_categories=categories,
        radius=radius,
        points=Points.of(stream),
        near=near.take(np.arange(len(records.values)), places),
        watch=watch,
    )
    columns: dict[str, np.ndarray] = {}
    if len(given) < len(mechanism.measurements):  # else only categories are unknown
        columns |= _distances(adversary, found, given)
        if mass:
            columns |= {"mass": found.mass, "prior_mass": found.prior_mass, "mass_error": found.mass_error}
        columns |= {"information_gain": found.gain, "information_gain_error": found.gain_error}
    judged = _measured(records, near, found, mechanism, given)
    if mechanism.missing == KEEP_GAPS:
        # gaps are drawn by counts of their own: the released parameters do not explain those of any table
        judged |= _patterns(table, [mechanism.incomplete(each) for each in release.tables])
    judged |= _levels(found, table.codes, mechanism, categories)
    return with_verdicts(records, rule, columns, judged, _errors(records, found, mechanism, given))


def _measured(
    records: Records, near: Known, found: GapRisk, mechanism: Mechanism, given: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return how well each observed measurement that is not given is known."""
    unknown = [place for place in range(len(mechanism.measurements)) if place not in given]
    names = [mechanism.measurements[place] for place in unknown]
    places = [records.columns.index(name) for name in names]
    beliefs = {}
    for name, values in (
        ("probability", found.within),
        ("probability_error", found.within_errors),
        ("baseline", found.within_baselines),
    ):
        beliefs[name] = np.full(records.values.shape, np.nan)
        beliefs[name][:, places] = values[:, unknown]
    return belief_columns(records, near, beliefs, names)


def _distances(adversary: GapAdversary, found: GapRisk, given: Sequence[int]) -> dict[str, np.ndarray]:
    """Return how near the guess comes to what is observed, beside the others' centre, averaged over their gaps.

    Of a record of which some measurements are `given`, the others are looked at, from their centre given these.
    """
    truth, n = adversary.records.values, len(adversary.records)
    centre, spread = np.zeros(truth.shape), np.zeros((*truth.shape, truth.shape[1]))
    models = list(zip(adversary.before.models, adversary.before.tables, strict=True))
    for model, filled in models:
        others = downdated(model, filled, filled.cells)
        df = np.broadcast_to(np.asarray(others.df, dtype=float), n)
        centre += np.asarray(others.mean) / len(models)
        spread += np.asarray(others.scale) / df[:, None, None] / len(models)
    columns = {
        name: np.full(n, np.nan) for name in ("distance", "baseline_distance", "relative_error", "exposure")
    }
    for row in range(n):
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


def _patterns(table: IncompleteRecords, datasets: Sequence[IncompleteRecords]) -> dict[str, np.ndarray]:
    """Return the probability of each record's own pattern of gaps among those of the table and of the datasets."""
    gaps = table.gaps
    whole = GapPatterns.of(table)
    possible = np.unique(np.concatenate([gaps, *(each.gaps for each in datasets)]), axis=0)
    own, which = np.unique(gaps, axis=0, return_inverse=True)
    found = np.empty((2, len(own)))
    for place, pattern in enumerate(own):
        others, mine = whole.without(pattern), np.all(possible == pattern, axis=1)
        for line, logs in enumerate(
            (log_pattern_posterior(others, datasets, possible), others.log_probability(possible))
        ):
            weights = np.exp(logs - logs.max())
            found[line, place] = np.sum(weights[mine]) / np.sum(weights)
    probability, baseline = found[:, which.ravel()]
    return {f"{PROBABILITY}gaps": probability, f"{BASELINE}gaps": baseline, f"{ERROR}gaps": np.zeros(len(gaps))}


def _levels(
    found: GapRisk, codes: np.ndarray, mechanism: Mechanism, known: Sequence[int]
) -> dict[str, Float[np.ndarray, " n"]]:
    """Return the probability of each record's own level of the categories that the adversary does not know."""
    columns = {}
    for place, name in enumerate(mechanism.categories):
        if place in known:
            continue
        level, rows = codes[:, place], np.arange(len(codes))
        for prefix, values in (
            (PROBABILITY, found.probabilities[place]),
            (BASELINE, found.baselines[place]),
            (ERROR, found.probability_errors[place]),
        ):
            columns[prefix + name] = np.where(level < 0, np.nan, values[rows, level])
    return columns


def _errors(records: Records, found: GapRisk, mechanism: Mechanism, given: Sequence[int]) -> dict[str, np.ndarray]:
    """Return the errors of the guess in each column's units, of columns that are not given."""
    guesses = records.values.copy()
    places = [records.columns.index(name) for name in mechanism.measurements]
    guesses[:, places] = found.guess
    off = records.schema.to_natural(guesses) - records.natural
    named = enumerate(zip(mechanism.measurements, places, strict=True))
    return {f"error_{name}": off[:, place] for number, (name, place) in named if number not in given}
