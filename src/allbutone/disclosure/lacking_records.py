"""Risk where the adversary lacks more records than the target: all missing ones are inferred together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.build import from_parameters
from allbutone.disclosure.measures import Measures, measure, prior_log_density, prior_mass, prior_probability
from allbutone.integrals.importance_sampling import Intervals
from allbutone.integrals.several_missing import MissingPosterior, sample_missing
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.joined import Released
from allbutone.releases.release import ParameterRelease
from allbutone.releases.statistics import Statistics
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel

CHAINS, WARM_UP = 256, 20  # chains of a block, shared by its groups
DRAWS = 2560  # of the missing records of a group: a mass to about 0.01
LEAST_SWEEPS = 16
BLOCK_BYTES = 64 << 20  # that a thread works with at a time
BLOCK_GROUPS, LEAST_CHAINS, MOST_CHAINS = 32, 8, 32
Lacking = int | Sequence[int]


def lacks_records(lacking: Lacking) -> bool:
    """Say whether any record is lacking besides the target."""
    return lacking != 0 if isinstance(lacking, int | np.integer) else len(lacking) > 0


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
    released, p = release.statistics(), values.shape[1]
    wells = 1 if isinstance(release, ParameterRelease) else len(release.rows)
    size = int(np.clip(BLOCK_BYTES // (8 * LEAST_CHAINS * wells * (5 * p * p + 12 * p)), 1, BLOCK_GROUPS))
    same_size: dict[int, list[Group]] = {}
    for group in groups:
        same_size.setdefault(len(group.missing), []).append(group)
    blocks = [held[at : at + size] for held in same_size.values() for at in range(0, len(held), size)]

    def attack(work: tuple[list[Group], np.random.Generator]) -> tuple[np.ndarray, Measures]:
        block, stream = work
        others = stacked([prior.update(Moments.of(np.delete(values, one.missing, axis=0))) for one in block])
        found = sample_group(others, released, len(block[0].missing), stream)
        places = np.concatenate([one.targets for one in block])
        which = np.repeat(np.arange(len(block)), [len(one.targets) for one in block])
        return places, measure_missing(found, values[places], which, radius, near and near.take(places))

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
    found: Sequence[MissingPosterior],
    truth: Float[np.ndarray, "n p"],
    which: Int[np.ndarray, " n"],
    radius: float | None = None,
    near: Intervals | None = None,
) -> Measures:
    """Measure what the adversary knows of records, each missing from the table whose number is in `which`.

    The measures are those of `measure`, in the metric of the records that the adversary has. The guess is the mode
    of a missing record's posterior; all that are missing together have the same.
    """
    others = stacked([found[table].others for table in which])
    p, guess = truth.shape[1], np.stack([found[table].mode for table in which])
    nothing = from_parameters(others, others.root, 0, np.zeros((len(truth), p, p)), np.zeros(truth.shape))
    known = measure(nothing, truth, guess=guess)
    white = nothing.whiten(truth)
    density, error = np.empty(len(truth)), np.empty(len(truth))
    for table in np.unique(which):
        these = which == table
        density[these] = found[table].log_density(truth[these])
        error[these] = found[table].log_density_error(truth[these])
    before = prior_log_density(nothing, white) - nothing.log_volume
    learned = replace(known, information_gain=density - before, information_gain_error=error)
    if near is not None:
        inside, off = np.empty(truth.shape), np.empty(truth.shape)
        for table in np.unique(which):
            these = which == table
            inside[these], off[these] = found[table].within(near.take(these))
        baseline = prior_probability(nothing, near)
        learned = replace(learned, probability=inside, probability_error=off, baseline=baseline)
    if radius is None:
        return learned
    masses = [found[table].mass_within(record, radius) for table, record in zip(which, truth, strict=True)]
    errors = np.array([mass.standard_error for mass in masses])
    nearby = prior_mass(nothing, white, radius)
    return replace(learned, mass=np.array(masses, dtype=float), mass_error=errors, prior_mass=nearby)


def stacked(models: Sequence[NIW]) -> NIW:
    """Put the models of tables with as many records each one after the other."""
    first = models[0]
    mean, scale = np.stack([one.mean for one in models]), np.stack([one.scale for one in models])
    return NIW(mean, first.mean_weight, first.df, scale)
