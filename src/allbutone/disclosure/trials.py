"""Trying numbers of datasets: the chance that records pass a limit, by simulation on a grid of leverages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.limits import Limit
from allbutone.disclosure.measures import RADIUS
from allbutone.disclosure.simulation import Simulated, simulate

CONFIDENCE = 0.95
MOST = 1000  # the largest number of datasets that is ever simulated
FEWEST = 200  # replicates of a simulation
WORK = 5e7  # numbers in the wells that one simulation may hold: wide tables are simulated to fewer datasets


@dataclass(frozen=True, eq=False)
class Trials:
    """What came of trying numbers of datasets.

    confident_count: the most that keep every record below the limit with 95 % confidence; 0 if none does.
    tried_up_to: the most that may be tried.
    never_passed: whether so many were tried, and no simulated release of them passed the limit.
    own_chance: for each number tried on all leverages, each record's own chance to pass the limit.
    """

    confident_count: int
    tried_up_to: int
    never_passed: bool
    own_chance: dict[int, Float[np.ndarray, " n"]]


def likeliest_first(
    leverage: Float[np.ndarray, " n"], own_chance: Mapping[int, Float[np.ndarray, " n"]], confident_count: int
) -> Int[np.ndarray, " w"]:
    """Return the records that stand out, the likeliest to pass beyond the confident count first.

    Of several as likely, the one of most leverage. For a limit of mass that alone would not do: little mass lies
    near an outlier before it is found.
    """
    chance = own_chance.get(confident_count + 1, np.zeros(len(leverage)))
    order = np.lexsort((leverage, chance))[::-1]
    return order[standing_out(leverage)[order]]


def try_counts(
    law: ExposureLaw,
    limit: Limit,
    leverage: Float[np.ndarray, " n"],
    expected: int | None,
    also: Sequence[int],
    rng: np.random.Generator,
    watch: Callable[[int], None],
) -> Trials:
    """Find the largest safe number of datasets; try the numbers in `also` too, where they may tell more.

    The search starts where the closed form of the chances says, for an exposure. Where there is none, the highest
    and the lowest leverage alone say where to start, and whether the limit is ever passed at all: that costs a
    small part of a trial of the whole grid, and a limit that nothing can pass is answered without one.
    """
    watched = standing_out(leverage)
    most = int(np.clip(WORK / (11 * 200 * law.p**2), 10, MOST))
    own_chance: dict[int, Float[np.ndarray, " n"]] = {}
    passed_at_all = []

    def safe(count: int) -> bool:
        watch(1)
        grid = grid_of(leverage[watched])
        chance = _chances(law, limit, leverage[watched], count, rng)
        if chance is None:
            return False
        passed_at_all.append(bool(np.any(chance > 0)))
        own_chance[count] = read_off(grid, chance, leverage)
        # a bound on the chance that some record passes: the sum of each one's own
        return float(np.sum(own_chance[count][watched])) <= 1 - CONFIDENCE

    if expected is None:
        start = _never_passed_by(law, limit, leverage[watched], most, rng, watch)
        if start == most:
            return Trials(most, most, True, {most: np.zeros(len(leverage))})
    else:
        start = _likely_start(law, limit, leverage[watched], most)
    confident = _largest(safe, max(start, 1), most)
    # where so many are safe for all, fewer tell nothing; without a closed form a trial takes too long
    for count in also if expected is not None else ():
        if confident < count <= most and count not in own_chance:
            safe(count)
    return Trials(confident, most, confident == most and not any(passed_at_all), own_chance)


def _likely_start(law: ExposureLaw, limit: Limit, leverage: Float[np.ndarray, " w"], most: int) -> int:
    """Return the largest number of datasets that the closed form of the chances calls safe."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        chance = float(np.sum(law.chance_to_pass(leverage, middle, limit.value)))
        low, high = (middle, high) if chance <= 1 - CONFIDENCE else (low, middle)
    return low


def _chances(
    law: ExposureLaw, limit: Limit, leverage: Float[np.ndarray, " w"], count: int, rng: np.random.Generator
) -> Float[np.ndarray, " q"] | None:
    """Return the chance to pass for each leverage of the grid, from the highest down; None where it is too high.

    For an exposure, the highest leverages go first: as soon as the records there have more chance, beyond the
    simulation's noise, than is accepted of all, the others need not be simulated. If the lowest never passes,
    neither do those below two that never do. All leverages have the same random numbers.
    """
    seed, grid = rng.integers(1 << 63), grid_of(leverage)

    def chance(places: list[int]) -> Float[np.ndarray, " some"]:
        found = simulated(law, grid[places], count, np.random.default_rng(seed), limit.kind)
        return np.mean(limit.passed(found), axis=1)

    if limit.kind != "exposure":
        return chance(list(range(len(grid))))
    found = np.zeros(len(grid))
    found[[0, -1]] = chance([0, len(grid) - 1])
    accepted = 1 - CONFIDENCE
    too_high = accepted + 3 * np.sqrt(accepted * (1 - accepted) / FEWEST)
    if found[0] > too_high:
        return None
    for start in range(1, len(grid) - 1, 4):
        places = list(range(start, min(start + 4, len(grid) - 1)))
        found[places] = chance(places)
        # what is not simulated yet counts as 0, so this is the least that the sum can be
        if np.sum(read_off(grid, found, leverage)) > too_high:
            return None
        if found[-1] == 0 and not np.any(found[places[-2:]]):
            break
    return found


def _never_passed_by(
    law: ExposureLaw,
    limit: Limit,
    leverage: Float[np.ndarray, " w"],
    most: int,
    rng: np.random.Generator,
    watch: Callable[[int], None],
) -> int:
    """Return the largest of 1, 4, 16, … and `most` up to which no release passes at either end; 0 if none."""
    ends, reached, count = np.array([np.max(leverage), np.min(leverage)]), 0, 1
    while reached < most:
        watch(1)
        if np.any(limit.passed(simulated(law, ends, count, rng, limit.kind))):
            break
        reached, count = count, min(4 * count, most)
    return reached


def standing_out(leverage: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Say which records have at least the average leverage; near the centre, where others lie, a guess is luck."""
    return leverage >= np.mean(leverage)


def grid_of(leverage: Float[np.ndarray, " w"]) -> Float[np.ndarray, " q"]:
    """Return eleven leverages from the highest down."""
    return np.geomspace(np.max(leverage), np.min(leverage) * (1 - 1e-9), 11)


def simulated(
    law: ExposureLaw, leverage: Float[np.ndarray, " q"], count: int, rng: np.random.Generator, kind: str
) -> Simulated:
    """Simulate releases for some leverages, with as many replicates as are worth waiting for."""
    wells = 1 if law.rows is None else count
    replicates = int(np.clip(WORK / (22 * wells * law.p**2), FEWEST, 1000))
    if kind == "exposure":
        return simulate(law, leverage, count, replicates, rng)
    return simulate(law, leverage, count, 200, rng, RADIUS if kind == "mass" else None, gain=True)


def read_off(
    grid: Float[np.ndarray, " q"], chance: Float[np.ndarray, " q"], leverage: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return each record's chance by its leverage, from those simulated on a grid from the highest down."""
    return np.interp(np.log(leverage), np.log(grid[::-1]), chance[::-1])


def _largest(safe: Callable[[int], bool], guess: int, most: int) -> int:
    """Return the largest count up to `most` that is safe, 0 if none, starting from a guess."""
    low, high = 0, min(guess, most)
    while safe(high):
        low = high
        if high == most:
            return most
        high = min(most, max(high + 1, int(1.5 * high)))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if safe(middle) else (low, middle)
    return low
