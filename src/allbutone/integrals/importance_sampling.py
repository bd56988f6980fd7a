"""Integrals under many posteriors at once by importance sampling, with their standard errors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import gammaln

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes
from allbutone.integrals.exact import exact_log_totals, exact_within
from allbutone.integrals.many_points import values_at
from allbutone.integrals.proposal import Points, Proposal
from allbutone.support.arrays import array_namespace, as_array, as_places, log_sum_exp, to_numpy, zeros
from allbutone.support.devices import in_numpy, more_at_once

Array = Any

STUDENT = 1.2  # four replicates know their own spread poorly: Student's t with 3 degrees of freedom, not a normal
EDGE = 0.25  # of independent points' error: scrambled points do little better than that at the edge of a ball
POOR, POOR_SHARE = 200.0, 0.1  # effective points, and share of all, below which it is tried again
HOPELESS = 25.0  # effective points below which it is given up
AGAIN = 8  # times more points, then
DECIDED, MARGIN = 4.0, 0.01  # standard errors, and more, from its limit: there a probability is on one side of it
MORE, MOST_POINTS = 4, 1 << 13  # times more points to decide it, and the most of them
WORK_TO_DECIDE = 1 << 23  # points times wells times features of one posterior: a fraction of a second
AT_ONCE = 1 << 20  # numbers in the points that are held at a time


class Estimate(float):
    """A number that carries its Monte Carlo standard error; zero where it was computed without sampling."""

    standard_error: float

    def __new__(cls, value: float, standard_error: float = 0.0) -> "Estimate":
        """Make a float with an error attached."""
        estimate = super().__new__(cls, value)
        estimate.standard_error = standard_error
        return estimate


@dataclass(frozen=True, eq=False)
class Ball:
    """A ball around the true record of each posterior, in whitened coordinates."""

    centres: Float[Array, "n p"]
    reach: Float[Array, " n"]

    @property
    def log_volume(self) -> Float[Array, " n"]:
        """The logarithm of the ball's volume."""
        p, xp = self.centres.shape[-1], array_namespace(self.reach)
        return float(0.5 * p * np.log(np.pi) - gammaln(0.5 * p + 1)) + p * xp.log(self.reach)

    def holds(self, white: Float[Array, "n s p"]) -> Bool[Array, "n s"]:
        """Say which points lie inside."""
        away = white - self.centres[:, None]
        squared = array_namespace(away).einsum("nsp,nsp->ns", away, away)
        return squared <= (self.reach**2 * (1 + 1e-12))[:, None]

    def take(self, rows: Array) -> "Ball":
        """Return the balls at these positions."""
        return Ball(self.centres[rows], self.reach[rows])


@dataclass(frozen=True, eq=False)
class Intervals:
    """An interval of each unknown feature around the truth of each posterior, in the records' own units."""

    low: Float[Array, "n p"]
    high: Float[Array, "n p"]

    def holds(self, records: Float[Array, "n s p"]) -> Bool[Array, "n s p"]:
        """Say which features of which records lie inside."""
        return (records >= self.low[:, None]) & (records <= self.high[:, None])

    def take(self, rows: Array, features: Sequence[int] | np.ndarray | None = None) -> "Intervals":
        """Return the intervals of these posteriors, of all features or of some."""
        low, high = self.low[rows], self.high[rows]
        return Intervals(low, high) if features is None else Intervals(low[:, features], high[:, features])


@dataclass(frozen=True, eq=False)
class Integrals:
    """Log totals ∫ exp ℓ dv and, where a ball was given, the mass in it; with standard errors.

    `within`: the probability that each feature lies in its interval, where intervals were given.
    `effective_size`: how many independent points the sample was worth; infinite where none was needed.
    """

    log_total: Float[np.ndarray, " n"]
    log_total_error: Float[np.ndarray, " n"]
    mass: Float[np.ndarray, " n"]
    mass_error: Float[np.ndarray, " n"]
    within: Float[np.ndarray, "n p"]
    within_error: Float[np.ndarray, "n p"]
    effective_size: Float[np.ndarray, " n"]


def integrate(
    problem: LogQuadratic,
    modes: Modes,
    ball: Ball | None,
    points: Points,
    size: int,
    replicates: int = 4,
    intervals: Intervals | None = None,
    limits: Float[np.ndarray, "n p"] | None = None,
) -> Integrals:
    """Integrate many posteriors, the mass of each in its ball, and the probability of each feature's interval.

    Totals of a single release, and of released parameters, are exact, and so is the probability of a feature's
    interval after a single release. The mass is the share of the sample's weight
    inside the ball. Points come from the proposal and from the ball itself, and each is weighed by the density of
    all parts together: so a peak narrower than the ball is met by the points around the modes, a ball far from
    every mode by its own points, and neither can pass for empty. Where they do not contradict that, the ball's
    points alone tell the mass more closely, and the others the total. Where too few points carry the weight, the
    proposal is settled, then fitted to more points; where that fails, the mass is not a number.
    `limits`: where no feature is clearly beyond its limit, and a probability cannot be told from it, there are
    more points, until it can. What even they cannot tell apart is at its limit, as far as anyone knows, and is
    said to be.
    """
    n, every, within = len(modes.best), np.arange(len(modes.best)), np.empty((len(modes.best), 0))
    if intervals is not None:
        ends = (to_numpy(end) for end in (intervals.low, intervals.high))
        if (known := exact_within(in_numpy(problem), *ends)) is not None:
            within, intervals = known, None
    if ball is None and intervals is None and (exact := exact_log_totals(in_numpy(problem))) is not None:
        nothing, sure = np.full(n, np.nan), np.zeros(within.shape)
        return Integrals(exact, np.zeros(n), nothing, nothing, within, sure, np.full(n, np.inf))
    inside = (ball, intervals)
    found = _in_blocks(problem, modes, inside, every, points, size, replicates, care=0)
    enough = min(POOR, POOR_SHARE * replicates * size)
    for care, drawn in ((1, size), (2, AGAIN * size)):
        (poor,) = np.nonzero(~(found.effective_size >= enough))
        if len(poor):
            _put(found, poor, _in_blocks(problem, modes, inside, poor, points, drawn, replicates, care))
    if intervals is not None and limits is not None:
        more = 2 * replicates  # which know their spread better
        again = partial(_in_blocks, problem, modes, inside, points=points, replicates=more, care=1)
        # weighing a point costs as much as ten wells
        affordable = WORK_TO_DECIDE // (more * (problem.wells + 10) * problem.p)
        _decide(found, limits, again, size, min(MOST_POINTS, affordable))
    hopeless = ~(found.effective_size >= HOPELESS)
    found.mass[hopeless], found.within[hopeless] = np.nan, np.nan
    return found if intervals is not None else replace(found, within=within, within_error=np.zeros(within.shape))


def _decide(
    found: Integrals,
    limits: Float[np.ndarray, "n p"],
    again: Callable[..., Integrals],
    size: int,
    most: int,
) -> None:
    """Integrate again, with more points up to `most`, whose verdict hangs on which side a probability lies.

    A posterior one of whose features is clearly above its limit is judged already, whatever the others are.
    """

    def beyond(margin: float) -> Float[np.ndarray, "n p"]:
        return DECIDED * found.within_error + margin

    def undecided(margin: float) -> Bool[np.ndarray, "n p"]:
        with np.errstate(invalid="ignore"):  # what could not be computed, and infinite limits, which nobody meets
            above = found.within - limits >= beyond(margin)
            return (np.abs(found.within - limits) < beyond(margin)) & ~above.any(axis=1, keepdims=True)

    # by a margin, too: four replicates may agree by chance
    while size < most and len(rows := np.nonzero(undecided(MARGIN).any(axis=1))[0]):
        size = min(MORE * size, most)
        part = again(which=rows, size=size)
        found.within[rows], found.within_error[rows] = part.within, part.within_error
    close = undecided(0.0)
    found.within[close] = np.maximum(found.within, limits)[close]


def _in_blocks(
    problem: LogQuadratic,
    modes: Modes,
    inside: tuple[Ball | None, Intervals | None],
    which: np.ndarray,
    points: Points,
    size: int,
    replicates: int,
    care: int,
) -> Integrals:
    """Integrate some posteriors, as many at a time as memory is meant for; care: settle (1), and fit (2)."""
    rows = max(1, more_at_once(AT_ONCE, like=problem.centre) // (3 * size * problem.p))
    parts = []
    for start in range(0, len(which), rows):
        these = as_places(which[start : start + rows], like=problem.centre)
        some = problem.take(these)
        ball, intervals = inside
        near = (None if ball is None else ball.take(these), None if intervals is None else intervals.take(these))
        parts.append(_sampled(some, modes.take(these), *near, points, size, replicates, care))
    return Integrals(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in Integrals.__dataclass_fields__)
    )


def _sampled(
    problem: LogQuadratic,
    modes: Modes,
    ball: Ball | None,
    intervals: Intervals | None,
    points: Points,
    size: int,
    replicates: int,
    care: int,
) -> Integrals:
    proposal, exact = Proposal.around(problem, modes), exact_log_totals(in_numpy(problem))
    proposal = proposal.settled(problem, points) if care else proposal
    for turn in range(2 * (care > 1)):
        proposal = proposal.fitted(problem, points, replicates + turn, size)
    turns = [_replicate(problem, proposal, ball, intervals, points, turn, size) for turn in range(replicates)]
    totals, smooth, volumes, shares, squares, noise, *near = (
        np.array([to_numpy(one) for one in each]) for each in zip(*turns, strict=True)
    )
    log_total, error = log_mean_and_error(totals)
    if ball is not None:
        log_total, error = _agreed(log_mean_and_error(smooth), (log_total, error))
    if exact is not None:
        log_total, error = exact, np.zeros(len(exact))
    effective = np.sum(1 / squares, axis=0)
    share, spread = _share(shares, noise, effective)
    within, within_error = _share(near[0], near[1], effective[:, None])
    if ball is not None:
        log_mass, relative = log_mean_and_error(volumes - log_total)
        mass = np.exp(np.minimum(log_mass, 1.0))
        share, spread = _agreed((mass, mass * np.hypot(relative, error)), (share, spread))
    return Integrals(log_total, error, np.minimum(share, 1.0), spread, within, within_error, effective)


def _share(
    shares: Float[np.ndarray, "replicates *each"],
    noise: Float[np.ndarray, "replicates *each"],
    effective: Float[np.ndarray, "*#each"],
) -> tuple[Float[np.ndarray, "*each"], Float[np.ndarray, "*each"]]:
    """Return the mean of the replicates' shares and its standard error; `effective`: how many points they are."""
    replicates, share = len(shares), np.mean(shares, axis=0)
    spread = STUDENT * np.std(shares, axis=0, ddof=1) / np.sqrt(replicates)
    # replicates can agree by chance; below 0 by rounding where all lies inside
    spread = np.maximum(spread, EDGE * np.sqrt(np.maximum(np.mean(noise, axis=0), 0.0) / replicates))
    # where all or nothing lies inside there is no spread: what they have missed may be a point's worth
    return share, np.hypot(spread, 1 / effective)


def _replicate(
    problem: LogQuadratic,
    proposal: Proposal,
    ball: Ball | None,
    intervals: Intervals | None,
    points: Points,
    turn: int,
    size: int,
) -> tuple[Float[Array, "n *each"], ...]:
    """Return what one set of points says.

    The log total by all points, and by those of the proposal alone; the log of ∫ exp ℓ over the ball by the ball's
    alone; the share of the weight inside, Σw², and the share's squared error for independent points; the shares
    inside each feature's interval, and their squared errors.
    """
    white, log_parts, flags = weighed_points(proposal, ball, points, turn, size)
    inside = _as_numbers(flags)
    xp, values = array_namespace(white), values_at(problem, white)
    log_weights = values - log_sum_exp(log_parts, axis=0)
    total = log_sum_exp(log_weights, axis=1)
    weights = xp.exp(log_weights - total[:, None])
    share, squares = xp.sum(weights * inside, axis=1), xp.sum(weights * weights, axis=1)
    noise = xp.sum((weights * (inside - share[:, None])) ** 2, axis=1)
    near = _within(problem, white, weights, intervals)
    if ball is None:
        return total, total, total, share, squares, noise, *near
    ours = white.shape[1] - size
    smooth = log_sum_exp(values[:, :ours] - log_sum_exp(log_parts[:-1, :, :ours], axis=0), axis=1)
    volume = ball.log_volume + log_sum_exp(values[:, ours:], axis=1) - float(np.log(size))
    return total, smooth, volume, share, squares, noise, *near


def _as_numbers(flags: Bool[Array, "*shape"]) -> Array:
    """Return flags to compute with; NumPy does so with the flags themselves."""
    xp = array_namespace(flags)
    return flags if isinstance(flags, np.ndarray) else xp.astype(flags, xp.float64)


def _within(
    problem: LogQuadratic,
    white: Float[Array, "n s p"],
    weights: Float[Array, "n s"],
    intervals: Intervals | None,
) -> tuple[Float[Array, "n f"], Float[Array, "n f"]]:
    """Return the share of the weight inside each feature's interval, and its squared error."""
    xp = array_namespace(white)
    if intervals is None:
        return zeros((len(white), 0), like=white), zeros((len(white), 0), like=white)
    records = problem.centre[..., None, :] + white @ problem.root.mT
    inside = _as_numbers(intervals.holds(records))
    share = xp.einsum("ns,nsp->np", weights, inside)
    squared = weights * weights
    # Σw²(1 − s)² inside and Σw²s² outside
    mine = xp.einsum("ns,nsp->np", squared, inside)
    noise = mine * (1 - share) ** 2 + (xp.sum(squared, axis=1)[:, None] - mine) * share**2
    return share, noise


def _agreed(
    closer: tuple[np.ndarray, np.ndarray], safer: tuple[np.ndarray, np.ndarray]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return the first estimate and its error where it knows better and the second does not contradict it."""
    apart = np.abs(closer[0] - safer[0])
    better = (closer[1] < safer[1]) & (apart <= 4 * np.hypot(closer[1], safer[1]))
    return np.where(better, closer[0], safer[0]), np.where(better, closer[1], safer[1])


def weighed_points(
    proposal: Proposal, ball: Ball | None, points: Points, turn: int, size: int
) -> tuple[Float[Array, "n s p"], Float[Array, "parts n s"], Bool[Array, "n s"]]:
    """Return points of all parts, the ball's last; each part's log density times its number; which lie inside."""
    drawn = proposal.draw(points, turn, size)
    xp = array_namespace(drawn[0])
    if ball is not None:
        white = as_array(points.ball(8 * turn + len(drawn), ball.centres.shape[-1], size), like=drawn[0])
        drawn.append(ball.centres[:, None] + ball.reach[:, None, None] * white)
    counts = as_array(np.log([part.shape[1] for part in drawn]), like=drawn[0])[:, None, None]
    white = xp.concat(drawn, axis=1)
    inside = zeros(white.shape[:2], like=white) > 0 if ball is None else ball.holds(white)
    log_parts = proposal.log_densities(white) + counts[: len(proposal.dfs)]
    if ball is not None:
        even = xp.where(inside, counts[-1] - ball.log_volume[:, None], -xp.inf)
        log_parts = xp.concat([log_parts, even[None]])
    return white, log_parts, inside


def log_mean_and_error(
    logs: Float[np.ndarray, "replicates n"],
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return the log of the replicates' mean, and its relative standard error."""
    mean = log_sum_exp(logs, axis=0) - np.log(len(logs))
    with np.errstate(under="ignore", invalid="ignore"):
        return mean, STUDENT * np.std(np.exp(logs - mean), axis=0, ddof=1) / np.sqrt(len(logs))


def _put(whole: Integrals, rows: np.ndarray, part: Integrals) -> None:
    for name in Integrals.__dataclass_fields__:
        getattr(whole, name)[rows] = getattr(part, name)
