"""Integrals under the posterior: exact where that can be, else by importance sampling with standard errors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit, gammaln, logsumexp, ndtr, stdtr

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes
from allbutone.adversary.proposal import Points, Proposal, bowl_at, values_at
from allbutone.model.niw import Normal
from allbutone.support.arrays import array_namespace, as_array, as_places, log_sum_exp, to_numpy, zeros
from allbutone.support.devices import in_numpy, more_at_once

# Integrals under the posterior that need no sampling: after one release, after parameters, on a line.


NODES = 513  # of the trapezoid rule on the curve


def exact_log_totals(problem: LogQuadratic) -> Float[np.ndarray, " n"] | None:
    """Return log ∫ exp ℓ dv where it needs no sampling: one release, or released parameters."""
    p = problem.p
    if problem.wells == 0 and problem.falls_as_a_power:  # after rows of a fitted normal
        return None
    if problem.wells == 0 and not problem.pushes_outward:
        solved = np.linalg.solve(problem.precision, problem.pull[..., None])[..., 0]
        bowl = np.sum(problem.pull * solved, axis=-1)
        return 0.5 * (p * np.log(2 * np.pi) - np.linalg.slogdet(problem.precision)[1] + bowl)
    if problem.wells == 0:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a value a billion deviations out
            return contour_log_totals(problem)
    if problem.wells > 1 or problem.pushes_outward:
        return None
    shape, slope, weight = problem.shapes[..., 0, :, :], problem.slopes[..., 0, :], problem.weights[..., 0]
    location = np.linalg.solve(shape, slope[..., None])[..., 0]
    floor = problem.levels[..., 0] - np.sum(location * slope, axis=-1)
    constant = 0.5 * p * np.log(np.pi) + gammaln((weight - p) / 2) - gammaln(weight / 2)
    return constant + 0.5 * (p - weight) * np.log(floor) - 0.5 * np.linalg.slogdet(shape)[1]


def exact_within(
    problem: LogQuadratic, low: Float[np.ndarray, "n p"], high: Float[np.ndarray, "n p"]
) -> Float[np.ndarray, "n p"] | None:
    """Return the probability of an interval of each feature where it needs no sampling: after a single release.

    A feature of a normal is a normal, one of a Student t is a Student t of as many degrees of freedom.
    """
    closed = problem.closed_form
    if closed is None:
        return None
    if isinstance(closed, Normal):
        spread = np.sqrt(np.diagonal(closed.covariance, axis1=-2, axis2=-1))
        return interval_probability(closed.mean, spread, np.inf, low, high)
    spread = np.sqrt(np.diagonal(closed.scale, axis1=-2, axis2=-1))
    return interval_probability(closed.location, spread, np.asarray(closed.df)[..., None], low, high)


def interval_probability(
    centre: Float[np.ndarray, "n p"],
    spread: Float[np.ndarray, "#n p"],
    freedom: Any,
    low: Float[np.ndarray, "n p"],
    high: Float[np.ndarray, "n p"],
) -> Float[np.ndarray, "n p"]:
    """Return the probability of intervals under Student t distributions; of infinite freedom they are normal."""
    below, above = (low - centre) / spread, (high - centre) / spread
    # from the side on which both tails are small, lest digits cancel
    turned = below > 0
    below, above = np.where(turned, -above, below), np.where(turned, -below, above)
    if np.all(np.isinf(freedom)):
        return ndtr(above) - ndtr(below)
    return stdtr(freedom, above) - stdtr(freedom, below)


def contour_log_totals(problem: LogQuadratic) -> Float[np.ndarray, " n"]:
    """Return log ∫ exp ℓ(v) dv after released parameters, exactly, in any dimension, by one integral over a curve.

    By Laplace's transform (1 + cρ)^s = Γ(s+1)/(2πi) ∫ exp(t(1 + cρ))·t^(−s−1) dt, and under that integral v is
    normal. With s = a/2, A = QΩQᵀ and β = Qᵀb:

        Z = (2π)^(p/2)·Γ(s+1)/(2πi) ∫ exp ψ(t) dt
        ψ(t) = t − (s+1)·log t − ½ Σ log(ωᵢ − 2ct) + ½ Σ βᵢ²/(ωᵢ − 2ct)

    The curve crosses the real axis at the saddle t₀, leans right, where t^(−s−1) falls, and then bends left, where
    exp t dies; the trapezoid rule with w = width·sinh(x) converges to rounding.
    """
    omega, vectors = np.linalg.eigh(np.asarray(problem.precision))
    beta = (np.swapaxes(vectors, -1, -2) @ np.asarray(problem.pull)[..., None])[..., 0]
    n, p = omega.shape
    z, c = (
        np.broadcast_to(np.asarray(each), n)[:, None] for each in (0.5 * problem.outward + 1, problem.inflation)
    )
    gap = _saddle_gaps(z, c, omega, beta)
    saddle = (omega[:, :1] - gap[:, :1]) / (2 * c)
    totals = np.empty(n)
    for start in range(0, n, 64):
        part = slice(start, start + 64)
        totals[part] = _log_along_curve(z[part], c[part], saddle[part], gap[part], beta[part])
    # Γ(z)·exp(t₀)/t₀^z without the large numbers that cancel in it
    off = ((saddle - z) / z)[:, 0]
    top = z[:, 0] * (off - np.log1p(off)) + _stirling(z[:, 0])
    top += 0.5 * np.sum(beta**2 / gap - np.log(gap), axis=1)
    return 0.5 * p * np.log(2 * np.pi) - np.log(2 * np.pi) + top + totals


def _log_along_curve(
    z: Float[np.ndarray, "n 1"],
    c: Float[np.ndarray, "n 1"],
    saddle: Float[np.ndarray, "n 1"],
    gap: Float[np.ndarray, "n p"],
    beta: Float[np.ndarray, "n p"],
) -> Float[np.ndarray, " n"]:
    """Return log ∫ exp(ψ(t) − ψ(t₀)) dt/i along the curve through the saddle t₀."""
    bend = z / saddle**2 + np.sum(2 * c**2 * (1 / gap**2 + 2 * beta**2 / gap**3), axis=1, keepdims=True)
    width = 1 / (saddle * np.sqrt(bend))
    # t^−z falls to the right as long as t₀ < z, exp t to the left: how far the curve leans, and where both end
    lean = 0.5 * (z - saddle) / (z - saddle + np.sqrt(z))
    reach = np.arcsinh(1.5 / (np.sqrt(saddle / 90) + (z - saddle) * lean / 45) / width)
    x = np.linspace(0, 1, NODES) * reach
    w, weight = width * np.sinh(x), width * np.cosh(x) * reach / (NODES - 1)
    weight[:, 0] /= 2  # the curve is its own mirror image: half of it, twice
    bow = np.hypot(w, width)
    away = 1j * w + lean * (bow - width) - w**2 / 2  # t/t₀ − 1
    turn = 1 + 1j * (w - lean * w / bow)  # dt/(i·t₀·dw)
    squares, gaps = beta[:, None, :] ** 2, gap[:, None, :]
    moved = gaps - 2 * (c * saddle * away)[..., None]
    exponent = saddle * away - z * np.log1p(away)
    exponent = exponent + 0.5 * np.sum(squares * (1 / moved - 1 / gaps) - np.log(moved / gaps), axis=-1)
    with np.errstate(under="ignore"):
        integrand = np.exp(exponent) * turn
    return np.log(2 * np.sum(weight * integrand.real, axis=1) * saddle[:, 0])


def _stirling(z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return log Γ(z) − z·log z + z."""
    series = 0.5 * np.log(2 * np.pi / z) + 1 / (12 * z) - 1 / (360 * z**3)
    return np.where(z < 1e4, gammaln(z) - z * np.log(z) + z, series)


def _saddle_gaps(z: np.ndarray, c: np.ndarray, omega: np.ndarray, beta: np.ndarray) -> Float[np.ndarray, "n p"]:
    """Return ωᵢ − 2ct₀ at the minimum t₀ of ψ on 0 < t < ω₁/2c, where it is convex.

    Bisection runs over the logarithm of the first gap: an exposed record's saddle comes so close to ω₁/2c that the
    difference would have no digits left.
    """
    above, first = omega - omega[:, :1], omega[:, :1]
    low, high = np.log(first) - 80, np.log(first)
    for _ in range(64):
        middle = (low + high) / 2
        gap = above + np.exp(middle)
        t = -np.expm1(middle - np.log(first)) * first / (2 * c)
        slope = 1 - z / t + np.sum(c * (1 / gap + beta**2 / gap**2), axis=1, keepdims=True)
        # a larger gap is a smaller t, where ψ still falls
        low, high = np.where(slope < 0, low, middle), np.where(slope < 0, middle, high)
    return above + np.exp((low + high) / 2)


def log_mass_on_a_line(posterior: LogQuadratic, modes: Modes, low: float, high: float) -> float:
    """Return log ∫ exp ℓ(v) dv between two ends, for a single unknown feature."""
    points, weights = _line_rule(modes, low, high)
    return float(logsumexp(posterior.value(points[:, None]) + np.log(weights)))


def _line_rule(modes: Modes, start: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Return points and weights for integrals of exp ℓ over the line, or a piece of it.

    The line is cut half-way between the modes; on either side v = mode + sinh(u)/√curvature, with panels of half
    a unit of u, which resolve the peak and follow its polynomial tail for sixteen decades.
    """
    centres = [(float(modes.best[0]), float(modes.hessian[0, 0]))]
    if np.isfinite(modes.gap):
        centres.append((float(modes.other[0]), float(modes.other_hessian[0, 0])))
    centres.sort()
    cuts = [-np.inf, *((a[0] + b[0]) / 2 for a, b in pairwise(centres)), np.inf]
    nodes, node_weights = np.polynomial.legendre.leggauss(20)
    points, weights = [], []
    for (centre, bend), low, high in zip(centres, cuts[:-1], cuts[1:], strict=True):
        spread = 1 / np.sqrt(max(-bend, 1e-12))
        pieces = (np.clip(cut, start, end) for cut in (low, high))
        ends = [np.clip(np.arcsinh((cut - centre) / spread), -40, 40) for cut in pieces]
        if ends[1] <= ends[0]:
            continue  # this side of the cut lies outside the piece
        edges = np.linspace(ends[0], ends[1], 2 + int(2 * (ends[1] - ends[0])))
        half = np.diff(edges)[:, None] / 2
        u = (edges[:-1, None] + half + half * nodes).ravel()
        points.append(centre + spread * np.sinh(u))
        weights.append((half * node_weights).ravel() * spread * np.cosh(u))
    return np.concatenate(points), np.concatenate(weights)


# Integrals under many posteriors at once by importance sampling, with their standard errors.


Array = Any

STUDENT = 1.2  # four replicates know their own spread poorly: Student's t with 3 degrees of freedom, not a normal
EDGE = 0.25  # of independent points' error: scrambled points do little better than that at the edge of a ball
POOR, POOR_SHARE = 200.0, 0.1  # effective points, and share of all, below which it is tried again
HOPELESS = 25.0  # effective points below which it is given up
AGAIN = 8  # times more points, then
DECIDED, MARGIN = 4.0, 0.01  # standard errors, and more, from its limit: there a probability is on one side of it
MORE, MOST_POINTS = 4, 1 << 13  # times more points to decide it, and the most of them
WORK_TO_DECIDE = 1 << 23  # points times wells times features of one posterior: a fraction of a second
NUMBERS_HELD = 1 << 20  # numbers in the points that are held at a time


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


@runtime_checkable
class Functions(Protocol):
    """Functions of whole records, such as a ratio of two features, each with where its value counts as known."""

    @property
    def count(self) -> int:
        """How many functions there are."""

    def holds(self, records: Float[np.ndarray, "n s p"]) -> Bool[np.ndarray, "n s f"]:
        """Say of which records which functions lie where they count as known."""

    def take(self, rows: Array, features: Sequence[int] | np.ndarray | None = None) -> "Functions":
        """Return the same for these posteriors, whose records have all features or some."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """An interval of each unknown feature around the truth of each posterior, in the records' own units.

    functions: further values that are judged, computed from whole records; they come after the features.
    """

    low: Float[Array, "n p"]
    high: Float[Array, "n p"]
    functions: Functions | None = field(default=None, kw_only=True)

    def holds(self, records: Float[Array, "n s p"]) -> Bool[Array, "n s f"]:
        """Say which features of which records lie inside, and then which functions of them do."""
        inside = (records >= self.low[:, None]) & (records <= self.high[:, None])
        if self.functions is None:
            return inside
        further = as_array(self.functions.holds(to_numpy(records)).astype(np.float64), like=records) > 0
        return array_namespace(records).concat([inside, further], axis=-1)

    def take(self, rows: Array, features: Sequence[int] | np.ndarray | None = None) -> "Intervals":
        """Return the intervals of these posteriors, of all features or of some."""
        low, high = self.low[rows], self.high[rows]
        functions = None if self.functions is None else self.functions.take(rows, features)
        if features is not None:
            low, high = low[:, features], high[:, features]
        return Intervals(low, high, functions=functions)


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
            within = known
            if intervals.functions is None:
                intervals = None
            elif limits is not None:  # what is exact is decided
                limits = np.concatenate([np.full(known.shape, np.inf), limits[:, problem.p :]], axis=1)
    if ball is None and intervals is None and (exact := exact_log_totals(in_numpy(problem))) is not None:
        nothing, sure = np.full(n, np.nan), np.zeros(within.shape)
        return Integrals(exact, np.zeros(n), nothing, nothing, within, sure, np.full(n, np.inf))
    inside = (ball, intervals)
    integrals = _in_blocks(problem, modes, inside, every, points, size, replicates, care=0)
    enough = min(POOR, POOR_SHARE * replicates * size)
    for care, drawn in ((1, size), (2, AGAIN * size)):
        (poor,) = np.nonzero(~(integrals.effective_size >= enough))
        if len(poor):
            _put(integrals, poor, _in_blocks(problem, modes, inside, poor, points, drawn, replicates, care))
    if intervals is not None and limits is not None:
        more = 2 * replicates  # which know their spread better
        again = partial(_in_blocks, problem, modes, inside, points=points, replicates=more, care=1)
        # weighing a point costs as much as ten wells
        affordable = WORK_TO_DECIDE // (more * (problem.wells + 10) * problem.p)
        _decide(integrals, limits, again, size, min(MOST_POINTS, affordable))
    hopeless = ~(integrals.effective_size >= HOPELESS)
    integrals.mass[hopeless], integrals.within[hopeless] = np.nan, np.nan
    if intervals is None:
        return replace(integrals, within=within, within_error=np.zeros(within.shape))
    integrals.within[:, : within.shape[1]], integrals.within_error[:, : within.shape[1]] = within, 0.0
    return integrals


def _decide(
    integrals: Integrals,
    limits: Float[np.ndarray, "n p"],
    again: Callable[..., Integrals],
    size: int,
    most: int,
) -> None:
    """Integrate again, with more points up to `most`, whose verdict hangs on which side a probability lies.

    A posterior one of whose features is clearly above its limit is judged already, whatever the others are.
    """

    def beyond(margin: float) -> Float[np.ndarray, "n p"]:
        return DECIDED * integrals.within_error + margin

    def undecided(margin: float) -> Bool[np.ndarray, "n p"]:
        with np.errstate(invalid="ignore"):  # what could not be computed, and infinite limits, which nobody meets
            above = integrals.within - limits >= beyond(margin)
            return (np.abs(integrals.within - limits) < beyond(margin)) & ~above.any(axis=1, keepdims=True)

    # by a margin, too: four replicates may agree by chance
    while size < most and len(rows := np.nonzero(undecided(MARGIN).any(axis=1))[0]):
        size = min(MORE * size, most)
        part = again(which=rows, size=size)
        integrals.within[rows], integrals.within_error[rows] = part.within, part.within_error
    close = undecided(0.0)
    integrals.within[close] = np.maximum(integrals.within, limits)[close]


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
    rows = max(1, more_at_once(NUMBERS_HELD, like=problem.centre) // (3 * size * problem.p))
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
    inside = as_numbers(flags)
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


def as_numbers(flags: Bool[Array, "*shape"]) -> Array:
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
    inside = as_numbers(intervals.holds(records))
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


# A first estimate of how well each feature is known: two normal hills of the curvature at the modes.


def estimated_within(problem: LogQuadratic, modes: Modes, near: Intervals) -> Float[np.ndarray, "n p"]:
    """Return roughly the probability of each feature's interval, in microseconds a posterior.

    Good where the hills stand apart; about 0.1 too high on average where they are about to split, and then rarely
    more than 0.15 too low.
    """
    both = np.isfinite(modes.gap)
    first = _hill(problem, modes.best, modes.hessian, near)
    other = np.asarray(np.where(both[:, None], modes.other, modes.best))
    hessian = np.asarray(np.where(both[:, None, None], modes.other_hessian, modes.hessian))
    second = _hill(problem, other, hessian, near)
    share = expit(np.where(both, modes.gap, np.inf) + first[0] - second[0])[:, None]
    return share * first[1] + (1 - share) * second[1]


def _hill(
    problem: LogQuadratic, place: Float[np.ndarray, "n p"], hessian: Float[np.ndarray, "n p p"], near: Intervals
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n p"]]:
    """Return the log volume of a normal hill, and its share in each interval."""
    covariance = np.linalg.inv(bowl_at(problem, place, hessian))
    middle = problem.unwhiten(place)
    spread = np.sqrt(np.sum((problem.root @ covariance) * problem.root, axis=-1))
    inside = ndtr((near.high - middle) / spread) - ndtr((near.low - middle) / spread)
    return 0.5 * np.linalg.slogdet(covariance)[1], inside
