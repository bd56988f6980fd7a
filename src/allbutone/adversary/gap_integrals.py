"""The posteriors of records of a table with gaps in numbers: totals, category probabilities, masses, gains."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.gaps import GapPosteriors
from allbutone.adversary.integrate import EDGE, HOPELESS, STUDENT, Ball, Intervals, weighed_points
from allbutone.adversary.proposal import Points, Proposal
from allbutone.support.arrays import log_sum_exp


@dataclass(frozen=True, eq=False)
class GapMeasures:
    """What is learned of m targets that lack the same columns; errors are standard errors.

    `columns`: the measurements they have; `combinations`: of levels of the categories they have. `probabilities`
    of each combination, and `levels`, of each level of one category after the other; beside both, the baselines
    without the release. `modes`: the most probable measurements given each combination, `heights`: ℓ there;
    `guess` and `guess_combination`: the most probable of all. `gain`: log p(x | release, others) −
    log p(x | others) at the truth, in nats. `mass` within the radius of the true measurements, given the true
    combination, beside `prior_mass`; `within`: the probability of each measurement's interval, given that
    combination, beside `within_baselines`. `more_probable`: the probability of all records that are more probable
    than the truth, which lies in every region that holds more than that. `log_totals`: the constants that ℓ lacks,
    without each group of draws in turn and, last, with all. Errors hold that of the integrals and that of the
    draws of the gaps.
    """

    columns: Int[np.ndarray, " p"]
    combinations: Int[np.ndarray, "a q"]
    probabilities: Float[np.ndarray, "m a"]
    probability_errors: Float[np.ndarray, "m a"]
    baselines: Float[np.ndarray, "m a"]
    levels: Float[np.ndarray, "m l"]
    level_errors: Float[np.ndarray, "m l"]
    level_baselines: Float[np.ndarray, "m l"]
    modes: Float[np.ndarray, "m a p"]
    heights: Float[np.ndarray, "m a"]
    guess: Float[np.ndarray, "m p"]
    guess_combination: Int[np.ndarray, " m"]
    gain: Float[np.ndarray, " m"]
    gain_error: Float[np.ndarray, " m"]
    mass: Float[np.ndarray, " m"]
    mass_error: Float[np.ndarray, " m"]
    prior_mass: Float[np.ndarray, " m"]
    within: Float[np.ndarray, "m p"]
    within_errors: Float[np.ndarray, "m p"]
    within_baselines: Float[np.ndarray, "m p"]
    more_probable: Float[np.ndarray, " m"]
    log_totals: Float[np.ndarray, "g m"]
    effective_draws: Float[np.ndarray, " m"]


def measure_gaps(
    found: GapPosteriors,
    radius: float,
    points: Points,
    size: int = 128,
    replicates: int = 4,
    near: Intervals | None = None,
) -> GapMeasures:
    """Integrate the posteriors of targets, and say what was learned of each; `near`: of what each of them has."""
    if near is None:
        near = Intervals(found.truth, found.truth)
    m, a = len(found.truth), len(found.combinations)
    ruled_out = ~found.possible.ravel()
    baselines = np.where(found.possible, np.exp(log_sum_exp(found.before.log_weights, axis=1)).reshape(m, a), 0.0)
    baselines = baselines / np.sum(baselines, axis=1, keepdims=True)
    if found.shape is None:
        modes, heights = np.zeros((m, a, 0)), found.log_density_unnormalized(np.zeros((m * a, 1, 0)))[:, 0]
        sums = _only_categories(found)
    else:
        peaks = found.find_modes()
        modes, heights = found.shape.unwhiten(peaks.best).reshape(m, a, -1), peaks.value - found.log_volume
        proposal = Proposal.around(found.shape, peaks)
        ball = Ball(found.whiten(found.truth), radius / np.sqrt(np.broadcast_to(found.shape.df, m * a)))
        turns = [_replicate(found, proposal, ball, near, points, turn, size) for turn in range(replicates)]
        sums = _Sums(*(np.stack(each) for each in zip(*turns, strict=True)))
    sums.totals[..., ruled_out], sums.above[..., ruled_out] = -np.inf, -np.inf
    best = np.argmax(np.where(found.possible, heights.reshape(m, a), -np.inf), axis=1)
    gain, probability, level, mass, prior, above, within = (_estimate(found, sums, what) for what in _MEASURES)
    effective = np.sum(1 / sums.squares, axis=0)[found.true_places]
    hopeless = effective < (HOPELESS if found.shape is not None else 0)
    return GapMeasures(
        columns=found.columns,
        combinations=found.combinations,
        probabilities=probability[0],
        probability_errors=probability[1],
        baselines=baselines,
        levels=level[0],
        level_errors=level[1],
        level_baselines=baselines @ _levels(found.combinations),
        modes=modes,
        heights=heights.reshape(m, a),
        guess=modes[np.arange(m), best],
        guess_combination=best,
        gain=gain[0],
        gain_error=gain[1],
        mass=np.where(hopeless, np.nan, mass[0]),
        mass_error=mass[1],
        prior_mass=prior[0],
        within=np.where(hopeless[:, None], np.nan, within[0]),
        within_errors=within[1],
        within_baselines=np.mean(sums.known, axis=0),
        more_probable=above[0],
        log_totals=log_sum_exp(_pooled(sums.totals).reshape(-1, m, a), axis=2),
        effective_draws=found.effective_draws,
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """What replicates say, without each group of draws in turn, and with all (last).

    `totals`: log totals; `inside`: those of the ball; `prior`: the log of what is known before, within it;
    `above`: log totals of what is more probable than the truth. `squares`: Σw² of the weights. `…_noise`: the
    squared errors that independent points would have. `near`: log totals of each measurement's interval, in the
    true combination; `known`: the shares of these before the release.
    """

    totals: Float[np.ndarray, "r g t"]
    inside: Float[np.ndarray, "r g t"]
    prior: Float[np.ndarray, "r g t"]
    above: Float[np.ndarray, "r g t"]
    squares: Float[np.ndarray, "r t"]
    total_noise: Float[np.ndarray, "r t"]
    mass_noise: Float[np.ndarray, "r t"]
    near: Float[np.ndarray, "r g m p"]
    known: Float[np.ndarray, "r m p"]


def _replicate(
    found: GapPosteriors, proposal: Proposal, ball: Ball, near: Intervals, points: Points, turn: int, size: int
) -> tuple[np.ndarray, ...]:
    """Return what one set of points says: the fields of `_Sums`."""
    white, log_parts, inside = weighed_points(proposal, ball, points, turn, size)
    groups, density = found.log_groups(white), log_sum_exp(log_parts, axis=0)
    totals: list[np.ndarray] = []
    held: list[np.ndarray] = []
    prior: list[np.ndarray] = []
    above: list[np.ndarray] = []
    within: list[np.ndarray] = []
    assert found.shape is not None
    true = found.true_places
    own = found.shape.take(true)
    close = near.holds(own.centre[:, None] + white[true] @ np.swapaxes(own.root, -1, -2))
    for without in groups.groups:
        values = groups.log_posterior(without)
        log_weights = values - density
        top = np.max(log_weights, axis=1)
        weights = np.exp(log_weights - top[:, None])
        higher = values > _height_of_truth(found, without)[:, None]
        with np.errstate(divide="ignore"):  # nothing inside, or nothing above
            for sums, which in ((totals, 1.0), (held, inside), (above, higher)):
                sums.append(top + np.log(np.sum(weights * which, axis=1)))
            within.append(top[true, None] + np.log(np.einsum("ms,msp->mp", weights[true], close)))
        known = groups.before.log_total(without)[:, -size:]  # the ball's own points
        prior.append(ball.log_volume + log_sum_exp(known, axis=1) - np.log(size))
    before = groups.before.log_total(None)[true] - density[true]
    before = np.exp(before - np.max(before, axis=1, keepdims=True))
    known_near = np.einsum("ms,msp->mp", before, close) / np.sum(before, axis=1)[:, None]
    weights = weights / np.sum(weights, axis=1, keepdims=True)
    squares, share = np.sum(weights * weights, axis=1), np.sum(weights * inside, axis=1)
    noise = np.sum((weights * (inside - share[:, None])) ** 2, axis=1)
    return (
        np.stack(totals),
        np.stack(held),
        np.stack(prior),
        np.stack(above),
        squares,
        squares - 1 / weights.shape[1],
        noise,
        np.stack(within),
        known_near,
    )


def _height_of_truth(found: GapPosteriors, without: int | None) -> Float[np.ndarray, " t"]:
    """Return ℓ at each target's truth, as it would be in the coordinates of each combination."""
    value = found.truth_groups.log_posterior(without)[:, 0] - found.log_volume[found.true_places]
    return np.repeat(value, len(found.combinations)) + found.log_volume


def _only_categories(found: GapPosteriors) -> _Sums:
    """Return totals where nothing is measured: the densities themselves."""
    groups = found.log_groups(np.zeros((len(found.before.dfs), 1, 0)))
    totals = np.stack([groups.log_posterior(without)[:, 0] for without in groups.groups])[None]
    prior = np.stack([groups.before.log_total(without)[:, 0] for without in groups.groups])[None]
    truth = np.stack([_height_of_truth(found, without) for without in groups.groups])[None]
    above = np.where(totals > truth + 1e-9, totals, -np.inf)  # not the truth itself
    one = np.ones(totals.shape[::2])
    nothing = np.zeros((1, len(groups.groups), len(found.truth), 0))
    return _Sums(totals, totals, prior, above, one, 0 * one, 0 * one, nothing, nothing[:, 0])


def _pooled(logs: Float[np.ndarray, "r g *t"]) -> Float[np.ndarray, "g *t"]:
    """Return the log of the replicates' mean."""
    return log_sum_exp(logs, axis=0) - np.log(len(logs))


def _estimate(found: GapPosteriors, sums: _Sums, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a measure with its standard error.

    Without each of G groups in turn, θ_g, the draws' error is √[(G−1)/G·Σ(θ_g − θ̄)²]; replicates of the points,
    taken apart, give that of the integrals.
    """
    logs = (sums.totals, sums.inside, sums.prior, sums.above, sums.near)
    pooled = [_pooled(each) for each in logs]
    chains = len(pooled[0]) - 1
    every = [
        _measure(found, what, number if number < chains else None, *(each[number] for each in pooled))
        for number in range(chains + 1)
    ]
    error = np.zeros_like(every[-1])
    if chains:
        error = np.std(every[:-1], axis=0) * np.sqrt(chains - 1)
    if len(sums.totals) > 1:
        apart = [_measure(found, what, None, *(each[-1] for each in turn)) for turn in zip(*logs, strict=True)]
        error = np.hypot(error, STUDENT * np.std(apart, axis=0, ddof=1) / np.sqrt(len(apart)))
    # replicates can agree by chance; scrambled points do better than independent ones, but not by far
    noise = {"gain": sums.total_noise, "mass": sums.mass_noise}.get(what)
    if noise is not None:
        floor = EDGE * np.sqrt(np.maximum(np.mean(noise, axis=0), 0.0) / len(noise))[found.true_places]
        error = np.maximum(error, floor)
    return every[-1], error


_MEASURES = ("gain", "probability", "level", "mass", "prior mass", "more probable", "within")


def _levels(combinations: Int[np.ndarray, "a q"]) -> Float[np.ndarray, "a l"]:
    """Say which combinations hold each level of each category."""
    parts = [np.eye(int(np.max(column)) + 1)[column] for column in combinations.T]
    return np.concatenate([np.zeros((len(combinations), 0)), *parts], axis=1)


def _measure(
    found: GapPosteriors,
    what: str,
    without: int | None,
    totals: Float[np.ndarray, " t"],
    inside: Float[np.ndarray, " t"],
    prior: Float[np.ndarray, " t"],
    above: Float[np.ndarray, " t"],
    near: Float[np.ndarray, "m p"],
) -> np.ndarray:
    """Return one measure from log totals; `without` a group, the other weights do not add up to 1."""
    m, a, true = len(found.truth), len(found.combinations), found.true_places
    if what == "within":
        return np.exp(np.minimum(near - totals[true][:, None], 0.0))
    if what == "mass":
        return np.exp(np.minimum(inside[true] - totals[true], 0.0))
    if what == "more probable":
        shares = np.exp(log_sum_exp(above.reshape(m, a), axis=1) - log_sum_exp(totals.reshape(m, a), axis=1))
        return np.minimum(shares, 1.0)
    if what in ("probability", "level"):
        by_target = totals.reshape(m, a)
        shares = np.exp(by_target - log_sum_exp(by_target, axis=1)[:, None])
        return shares if what == "probability" else shares @ _levels(found.combinations)
    weights = found.before.log_weights.reshape(m, a, found.before.groups, -1)
    if without is not None and weights.shape[2] > 1:
        weights = np.delete(weights, without, axis=2)
    by_combination = log_sum_exp(weights.reshape(m, a, -1), axis=2)
    if what == "prior mass":
        return np.exp(np.minimum(prior[true] - by_combination.ravel()[true], 0.0))
    # what is known of the target before the release, and which combinations are possible
    given = log_sum_exp(np.where(found.possible, by_combination, -np.inf), axis=1)
    at_truth = found.truth_groups
    before = at_truth.before.log_total(without)[:, 0] - given
    return at_truth.log_posterior(without)[:, 0] - log_sum_exp(totals.reshape(m, a), axis=1) - before


def candidate_log_density(
    found: GapPosteriors,
    measures: GapMeasures,
    candidates: Float[np.ndarray, "m s p"],
    combination: Int[np.ndarray, " m"] | None = None,
) -> tuple[Float[np.ndarray, "m s"], Float[np.ndarray, "m s"]]:
    """Return the normalised log posterior density of candidates for each target, with the draws' standard error.

    `combination` of the categories, the true one unless given; the density is that of both together.
    """
    which = found.true_combination if combination is None else combination
    places = np.arange(len(found.truth)) * len(found.combinations) + which
    white = candidates
    if found.shape is not None:
        white = np.stack([found.shape.take(places).whiten(each) for each in np.moveaxis(candidates, 1, 0)], axis=1)
    groups, volume = found.log_groups_of(places, white), found.log_volume[places, None]
    every = [
        groups.log_posterior(without) - volume - total[:, None]
        for without, total in zip(groups.groups, measures.log_totals, strict=True)
    ]
    chains = len(every) - 1
    error = np.std(every[:-1], axis=0) * np.sqrt(chains - 1) if chains else np.zeros_like(every[-1])
    return every[-1], error
