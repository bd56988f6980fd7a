"""Risk where the adversary lacks more records than the target: all missing ones are inferred together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.build import from_parameters
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.missing import MissingPosterior, sample_missing
from allbutone.adversary.missing_in_cells import MissingInCells, TargetBeliefs, Unknown, beliefs_of
from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.adversary.proposal import Points
from allbutone.disclosure.gap_risk import pattern_levels
from allbutone.disclosure.measures import Measures, measure, prior_log_density, prior_mass, prior_probability
from allbutone.disclosure.question import Learned, Question
from allbutone.model.augmentation import augment
from allbutone.model.location import MixedRecords
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.several import Released, statistics_of
from allbutone.releases.statistics import Statistics
from allbutone.support.devices import require_processor
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.parallel import in_parallel
from allbutone.tables.records import Records

CHAINS, WARM_UP = 256, 20  # chains of a block, shared by its groups
DRAWS = 2560  # of the missing records of a group: a mass to about 0.01
LEAST_SWEEPS = 16
BLOCK_BYTES = 64 << 20  # that a thread works with at a time
BLOCK_GROUPS, LEAST_CHAINS, MOST_CHAINS = 32, 8, 32
COMPLETIONS = 4  # of a table with gaps
Lacking = int | Sequence[int]


@dataclass(frozen=True, eq=False)
class Group:
    """Records that are missing together (places in the table), and those of them that are looked at."""

    missing: Int[np.ndarray, " m"]
    targets: Int[np.ndarray, " t"]


def groups_of(people: int, lacking: Lacking, targets: np.ndarray, rng: np.random.Generator) -> list[Group]:
    """Return which records are missing together with each target.

    `lacking`: how many besides the target, chosen at random, or the rows (from 1) of those that are lacking
    whoever the target is. Missing records are exchangeable: all in a group have one posterior, so where the whole
    table is looked at it is cut into groups, each of which serves all of its own.
    """
    if isinstance(lacking, int | np.integer):
        count = count_of("lacking_records", lacking)
        _require_left(people, count)
        if len(targets) == people:
            order = rng.permutation(people)
            cut = [order[start : start + count + 1] for start in range(0, people, count + 1)]
            # the last group is filled up with records that have been looked at already
            return [Group(np.append(one, order[: count + 1 - len(one)]), one) for one in cut]
        return [
            Group(np.append(rng.permutation(np.delete(np.arange(people), one))[:count], one), np.array([one]))
            for one in targets
        ]
    chosen = np.array(sorted({count_of("lacking_records", row, people) - 1 for row in lacking}), dtype=int)
    _require_left(people, len(chosen))
    return [Group(np.union1d(chosen, [one]), np.array([one])) for one in targets]


def _require_left(people: int, lacking: int) -> None:
    if lacking + 2 > people:
        raise InputError(
            f"of {people:,} records an adversary cannot lack {lacking:,} besides the target and still have one",
            Cure("let them lack fewer", "lacking_records"),
        )


def measure_groups(
    values: Float[np.ndarray, "n p"],
    release: Released,
    prior: NIW,
    groups: Sequence[Group],
    rng: np.random.Generator,
    radius: float | None = None,
    near: Intervals | None = None,
    watch: Callable[[int], None] = lambda records: None,
) -> list[tuple[Int[np.ndarray, " t"], Measures]]:
    """Attack the targets of every group; return, block by block, their places and what was learned of them."""
    released, p = statistics_of(release), values.shape[1]
    wells = max(1, len(release.datasets))
    size = int(np.clip(BLOCK_BYTES // (8 * LEAST_CHAINS * wells * (5 * p * p + 12 * p)), 1, BLOCK_GROUPS))
    same_size: dict[int, list[Group]] = {}
    for group in groups:
        same_size.setdefault(len(group.missing), []).append(group)
    blocks = [held[at : at + size] for held in same_size.values() for at in range(0, len(held), size)]

    def attack(work: tuple[list[Group], np.random.Generator]) -> tuple[np.ndarray, Measures]:
        block, stream = work
        others = stacked([prior.update(Moments.of(np.delete(values, one.missing, axis=0))) for one in block])
        sampled = sample_group(others, released, len(block[0].missing), stream)
        places = np.concatenate([one.targets for one in block])
        which = np.repeat(np.arange(len(block)), [len(one.targets) for one in block])
        return places, measure_missing(sampled, values[places], which, radius, near and near.take(places))

    work = list(zip(blocks, rng.spawn(len(blocks)), strict=True))
    return in_parallel(attack, work, watch=lambda result: watch(len(result[0])))


def sample_group(
    others: NIW, released: Statistics, missing: int, rng: np.random.Generator
) -> list[MissingPosterior]:
    """Sample what is missing from each of some tables, with as many draws of each whatever their number."""
    chains = int(np.clip(CHAINS // len(others.mean), LEAST_CHAINS, MOST_CHAINS))
    sweeps = max(LEAST_SWEEPS, -(-DRAWS // (chains * missing)))
    return sample_missing(others, released, missing, rng, chains=chains, sweeps=sweeps, warm_up=WARM_UP)


def measure_missing(
    sampled: Sequence[MissingPosterior],
    truth: Float[np.ndarray, "n p"],
    which: Int[np.ndarray, " n"],
    radius: float | None = None,
    near: Intervals | None = None,
) -> Measures:
    """Measure what the adversary knows of records, each missing from the table whose number is in `which`.

    The measures are those of `measure`, in the metric of the records that the adversary has. The guess is the mode
    of a missing record's posterior; all that are missing together have the same.
    """
    others = stacked([sampled[table].others for table in which])
    p, guess = truth.shape[1], np.stack([sampled[table].mode for table in which])
    nothing = from_parameters(others, others.root, 0, np.zeros((len(truth), p, p)), np.zeros(truth.shape))
    known = measure(nothing, truth, guess=guess)
    white = nothing.whiten(truth)
    density, error = np.empty(len(truth)), np.empty(len(truth))
    for table in np.unique(which):
        these = which == table
        density[these] = sampled[table].log_density(truth[these])
        error[these] = sampled[table].log_density_error(truth[these])
    before = prior_log_density(nothing, white) - nothing.log_volume
    learned = replace(known, information_gain=density - before, information_gain_error=error)
    if near is not None:
        inside, off = np.empty(truth.shape), np.empty(truth.shape)
        for table in np.unique(which):
            these = which == table
            inside[these], off[these] = sampled[table].within(near.take(these))
        baseline = prior_probability(nothing, near)
        learned = replace(learned, probability=inside, probability_error=off, baseline=baseline)
    if radius is None:
        return learned
    masses = [sampled[table].mass_within(record, radius) for table, record in zip(which, truth, strict=True)]
    errors = np.array([mass.standard_error for mass in masses])
    nearby = prior_mass(nothing, white, radius)
    return replace(learned, mass=np.array(masses, dtype=float), mass_error=errors, prior_mass=nearby)


def stacked(models: Sequence[NIW]) -> NIW:
    """Put the models of tables with as many records each one after the other."""
    first = models[0]
    mean, scale = np.stack([one.mean for one in models]), np.stack([one.scale for one in models])
    return NIW(mean, first.mean_weight, first.df, scale)


# The same where there are categories, or a prior of the adversary's own.


CELL_GROUPS = 16  # tables whose missing records are drawn at once
Level = tuple[np.ndarray, np.ndarray, np.ndarray]


def measure_missing_in_cells(
    everyone: MixedLeaveOneOut,
    groups: Sequence[Group],
    rng: np.random.Generator,
    near: Intervals,
    radius: float | None,
    known: Sequence[int],
    points: Points,
    watch: Callable[[int], None] = lambda records: None,
) -> list[tuple[Int[np.ndarray, " t"], Measures, list[Level]]]:
    """Attack the targets of every group: their places, what was learned, and of each category the own level.

    known: categories that are known of everybody, such as kept ones.
    """
    same_size: dict[int, list[Group]] = {}
    for group in groups:
        same_size.setdefault(len(group.missing), []).append(group)
    blocks = [
        held[at : at + CELL_GROUPS] for held in same_size.values() for at in range(0, len(held), CELL_GROUPS)
    ]

    def attack(work: tuple[list[Group], np.random.Generator]) -> tuple[np.ndarray, Measures, list[Level]]:
        block, stream = work
        shared = MissingInCells.of(everyone, [one.missing for one in block], known)
        states = shared.draw(stream)
        places, beliefs, before = list[int](), list[TargetBeliefs](), list[NIW]()
        shares = []
        for table, group in enumerate(block):
            for target in group.targets:
                which = int(np.flatnonzero(group.missing == target)[0])
                close = near.take(np.array([target]))
                beliefs.append(beliefs_of(shared, states, table, which, close, radius, points))
                places.append(int(target))
                before.append(_before(shared, table, which))
                weights = np.where(shared.possible[table, which], shared.believed.weights[table], 0.0)
                shares.append(weights / weights.sum())
        rows = np.array(places)
        return rows, *_measured(everyone, rows, beliefs, _stacked(before), np.stack(shares), near, radius)

    work = list(zip(blocks, rng.spawn(len(blocks)), strict=True))
    return in_parallel(attack, work, watch=lambda result: watch(len(result[0])))


def _before(shared: MissingInCells, table: int, which: int) -> NIW:
    """Return what is believed of a missing record's measurements in its own cell without any release."""
    truth = shared.truth[table].take([which])
    nobody = Unknown(np.array([table]), np.zeros((1, 0), dtype=np.int64), np.zeros((1, 0, truth.values.shape[1])),
                     np.zeros((1, 0, truth.covariates.shape[1])))  # fmt: skip
    return shared.believed.given(truth.cells, truth.covariates, nobody, np.ones((1, 0), dtype=bool))


def _stacked(models: Sequence[NIW]) -> NIW:
    names = ("mean", "mean_weight", "df", "scale")
    return NIW(*(np.concatenate([np.asarray(getattr(one, name)) for one in models]) for name in names))


def _measured(
    everyone: MixedLeaveOneOut,
    rows: Int[np.ndarray, " t"],
    beliefs: Sequence[TargetBeliefs],
    before: NIW,
    shares: np.ndarray,
    near: Intervals,
    radius: float | None,
) -> tuple[Measures, list[Level]]:
    """Return the measures of these targets beside what is known without a release, and of each own level."""
    truth, own = everyone.records.values[rows], everyone.records.cells[rows]
    t, p = truth.shape
    nothing = from_parameters(before, before.root, 0, np.zeros((t, p, p)), np.zeros((t, p)))
    known = measure(nothing, truth, guess=np.stack([each.guess for each in beliefs]))
    white = nothing.whiten(truth)
    log_before = prior_log_density(nothing, white) - nothing.log_volume + np.log(shares[np.arange(t), own])
    told: dict[str, Any] = {
        "information_gain": np.array([each.log_density for each in beliefs]) - log_before,
        "information_gain_error": np.array([each.log_density_error for each in beliefs]),
        "probability": np.stack([each.within for each in beliefs]),
        "probability_error": np.stack([each.within_error for each in beliefs]),
        "baseline": prior_probability(nothing, near.take(rows)),
    }
    if radius is not None:
        told |= {
            "mass": np.array([each.mass for each in beliefs]),
            "mass_error": np.array([each.mass_error for each in beliefs]),
            "prior_mass": prior_mass(nothing, white, radius),
        }
    levels, codes = [], everyone.whole.cells.codes
    for category in range(codes.shape[1]):
        same = codes[None, :, category] == codes[own, category][:, None]
        inside = np.array([each.probability @ line for each, line in zip(beliefs, same, strict=True)])
        by_chain = [each.probability_by_chain @ line for each, line in zip(beliefs, same, strict=True)]
        error = np.array([each.std(ddof=1) / np.sqrt(len(each)) for each in by_chain])
        levels.append((inside, error, np.sum(shares * same, axis=1)))
    return replace(known, **told), levels


def attacked_lacking_records(question: Question) -> Learned:
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
    question = question.before_limits()
    stream, values = np.random.default_rng(question.rng), question.records.values
    if not isinstance(lacking, int):  # rows of the table, which may have lost some
        lacking = [question.records.place_of(row) + 1 for row in lacking]
    groups = groups_of(len(values), lacking, question.rows, stream)
    learned = replace(question.nothing_learned(question.errors), derived=None)
    if mechanism.is_normal and len(question.parts) == 1 and question.own_prior is None:
        assert mechanism.normal is not None
        inside = (question.radius, replace(question.near, functions=None))
        for rows, measured in measure_groups(
            values, question.release, mechanism.normal, groups, stream, *inside, question.watch
        ):
            learned.put(rows, range(values.shape[1]), measured)
        return learned
    near = replace(question.near.take(np.arange(len(values)), question.places), functions=None)
    told = measure_missing_in_cells(
        question.leave_one_out(), groups, stream, near, question.radius, question.known_categories,
        question.points, question.watch,
    )  # fmt: skip
    for rows, measured, of_categories in told:
        learned.put(rows, question.places, measured)
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
    every = [attacked_lacking_records(replace(each, rng=np.random.default_rng(seed))) for each in draws]
    table, beliefs = question.records, [each.beliefs for each in every]
    observed, codes = np.isfinite(table.values), table.categories.select(question.mechanism.categories).codes

    def averaged(numbers: Sequence[np.ndarray], there: np.ndarray) -> np.ndarray:
        return np.where(there, np.mean(numbers, axis=0), np.nan)

    def spread(numbers: Sequence[np.ndarray], errors: Sequence[np.ndarray], there: np.ndarray) -> np.ndarray:
        both = np.mean(np.square(errors), axis=0) + np.var(numbers, axis=0, ddof=1)
        return np.where(there, np.sqrt(both / COMPLETIONS), np.nan)

    levels = pattern_levels(question) if question.judges_gaps else {}
    for name in beliefs[0].levels:
        own, errors, before = zip(*(each.levels[name] for each in beliefs), strict=True)
        there = codes[:, question.mechanism.categories.index(name)] >= 0
        levels[name] = (averaged(own, there), spread(own, errors, there), averaged(before, there))
    probabilities = [each.probability for each in beliefs]
    mean_beliefs = replace(
        beliefs[0],
        probability=averaged(probabilities, observed),
        probability_error=spread(probabilities, [each.probability_error for each in beliefs], observed),
        baseline=averaged([each.baseline for each in beliefs], observed),
        levels=levels,
    )
    whole = np.all(observed, axis=1) & np.all(codes >= 0, axis=1)
    measures = {name: averaged([each.measures[name] for each in every], whole) for name in every[0].measures}
    guess = averaged([each.guess for each in every], np.ones_like(observed))
    return replace(every[0], measures=measures, guess=guess, beliefs=mean_beliefs)


def _completed(question: Question, rng: np.random.Generator) -> Question:
    """Return it with one draw of what is missing, of the table by its model and of releases given that."""
    mechanism = question.mechanism
    drawn = augment(mechanism.incomplete(question.records), mechanism.prior, rng)
    table = _filled(mechanism, question.records, drawn.tables[0])
    complete, parts = replace(question, records=table), []
    for part in question.parts:
        release = part.release
        if any(each.has_gaps for each in release.datasets):
            model = complete.fitted(part)
            datasets = [
                _filled(release.mechanism, each, augment(release.mechanism.incomplete(each), model, rng).tables[0])
                for each in release.datasets
            ]
            release = replace(release, datasets=tuple(datasets))
        parts.append(replace(part, release=release))
    return complete.about(tuple(parts))


def _filled(mechanism: Mechanism, records: Records, drawn: MixedRecords) -> Records:
    """Return records with what they lack as it was drawn."""
    values, codes = records.values.copy(), records.categories.codes.copy()
    places = [records.columns.index(name) for name in mechanism.modelled]
    values[:, places] = np.where(np.isnan(values[:, places]), drawn.values, values[:, places])
    levels = [records.categories.columns.index(name) for name in mechanism.categories]
    cells = mechanism.prior.cells.codes[drawn.cells]
    codes[:, levels] = np.where(codes[:, levels] < 0, cells, codes[:, levels])
    return replace(records, values=values, categories=replace(records.categories, codes=codes))
