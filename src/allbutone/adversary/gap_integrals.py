"""The posteriors of records of a table with gaps in numbers: totals, category probabilities, masses, gains."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.averaged import GroupSums, MixtureProduct
from allbutone.adversary.gaps import GapPosteriors
from allbutone.adversary.integrate import EDGE, HOPELESS, STUDENT, Ball, Intervals, as_numbers, weighed_points
from allbutone.adversary.proposal import Points, Proposal
from allbutone.support.arrays import array_namespace, as_array, log_sum_exp, to_numpy
from allbutone.support.devices import in_numpy, moved_to

Array = Any

REPLICATES = 4  # of the points, whose differences tell the error
SAME_HEIGHT = 1e-9  # of two combinations: the truth is not above itself


@dataclass(frozen=True, eq=False)
class GapMeasures:
    """What is learned of m targets that lack the same columns; errors are standard errors.

    `columns`: the measurements they have; `combinations`: of levels of the categories they have. `probabilities`
    of each combination, and `levels`, of each level of one category after the other; beside both, the baselines
    without the release. `modes`: the most probable measurements given each combination, `heights`: ℓ there;
    `guess` and `guess_combination`: the most probable of all. `gain`: log p(x | release, others) −
    log p(x | others) at the truth, in nats. `mass` within the radius of the true measurements, given the true
    combination, beside `prior_mass`; `within`: the probability of each measurement's interval, given that
    combination, beside `within_baselines`, and then of each further function. `more_probable`: the probability of
    all records that are more probable than the truth, which lies in every region that holds more than that. Errors
    hold that of the integrals and that of the draws of the gaps.
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
    within: Float[np.ndarray, "m f"]
    within_errors: Float[np.ndarray, "m f"]
    within_baselines: Float[np.ndarray, "m f"]
    more_probable: Float[np.ndarray, " m"]
    effective_draws: Float[np.ndarray, " m"]


Logs = dict[str, np.ndarray]


def measure_gaps(
    posteriors: GapPosteriors,
    radius: float,
    points: Points,
    size: int = 128,
    near: Intervals | None = None,
    device: Any = None,
) -> GapMeasures:
    """Integrate the posteriors of targets, and say what was learned of each; `near`: of what each of them has.

    Of the true combination mass and intervals are wanted, too; of the others only the total, for which half the
    points do. `device`: of PyTorch's, where posteriors are climbed and points weighed, if not here.
    """
    near = Intervals(posteriors.truth, posteriors.truth) if near is None else near
    m, a = len(posteriors.truth), len(posteriors.combinations)
    baselines = np.where(
        posteriors.possible, np.exp(log_sum_exp(posteriors.product.before.log_weights, axis=1)).reshape(m, a), 0
    )
    baselines = baselines / np.sum(baselines, axis=1, keepdims=True)
    product, proposal = posteriors.product, None
    if product.shape is None:
        modes, heights = np.zeros((m, a, 0)), product.values(np.zeros((m * a, 1, 0)))[:, 0]
    else:
        product = moved_to(device, product)
        peaks = product.find_modes()
        proposal = Proposal.around(product.shape, peaks)
        places, heights = in_numpy(product.shape.unwhiten(peaks.best)), in_numpy(peaks.value - product.log_volume)
        modes = places.reshape(m, a, -1)
    best = np.argmax(np.where(posteriors.possible, heights.reshape(m, a), -np.inf), axis=1)
    sums, truth = _sums(replace(posteriors, product=product), proposal, radius, near, points, size)
    value, error = _estimates(posteriors, sums, truth)  # of NumPy's again
    hopeless = np.sum(1 / sums["squares"], axis=0) < (HOPELESS if product.shape is not None else 0)
    return GapMeasures(
        columns=posteriors.columns,
        combinations=posteriors.combinations,
        probabilities=value["probability"],
        probability_errors=error["probability"],
        baselines=baselines,
        levels=value["level"],
        level_errors=error["level"],
        level_baselines=baselines @ _levels(posteriors.combinations),
        modes=modes,
        heights=heights.reshape(m, a),
        guess=modes[np.arange(m), best],
        guess_combination=best,
        gain=value["gain"],
        gain_error=error["gain"],
        mass=np.where(hopeless, np.nan, value["mass"]),
        mass_error=error["mass"],
        prior_mass=value["prior mass"],
        within=np.where(hopeless[:, None], np.nan, value["within"]),
        within_errors=error["within"],
        within_baselines=np.mean(sums["known"], axis=0),
        more_probable=value["more probable"],
        effective_draws=posteriors.effective_draws,
    )


def _sums(
    posteriors: GapPosteriors,
    proposal: Proposal | None,
    radius: float,
    near: Intervals,
    points: Points,
    size: int,
) -> tuple[Logs, Logs]:
    """Return what replicates say, without each group of draws in turn and with all (last); and ℓ at the truth.

    Of all combinations (r, g, t): `totals`, their logs, and `above`, of what is more probable than the truth. Of
    the true one (r, g, m): logs of the integrals over the ball (`inside`), of the belief before within it
    (`prior`), and over each interval (`near`). Without the axis of groups: `known`, the intervals' shares before,
    and the points' `squares` Σw², `total_noise` and `mass_noise`, squared errors of as many independent points.
    The truth: ℓ and the log belief before, (g, m).
    """
    product, own, a = posteriors.product, posteriors.true_places, len(posteriors.combinations)
    (others,) = np.nonzero(posteriors.possible.ravel() & ~np.isin(np.arange(posteriors.possible.size), own))
    mine, rest = product.take(own), product.take(others)
    known = as_array(posteriors.truth, like=product.before.dfs)
    white, near = mine.whiten(known), _like(near, known)
    ball = Ball(white, as_array(radius / np.sqrt(np.broadcast_to(to_numpy(mine.df), len(own))), like=white))
    there = mine.group_sums(white[:, None])
    truth = {"value": mine.values_of(there)[..., 0], "before": _believed_before(mine, there)[..., 0]}
    truth = {name: to_numpy(each) for name, each in truth.items()}
    # ℓ of the truth as it would be in the coordinates of each combination
    height = np.repeat(truth["value"] - to_numpy(mine.log_volume), a, axis=1) + to_numpy(product.log_volume)
    shape = (REPLICATES, len(product.groups), posteriors.possible.size)
    every = [
        _replicate(mine, _taken(proposal, own), height[:, own], points, turn, size, (ball, near))
        for turn in range(REPLICATES)
    ]
    sums = {name: np.stack([each[name] for each in every]) for name in every[0]}
    for name in ("totals", "above"):
        whole = np.full(shape, -np.inf)
        whole[..., own] = sums[name]
        sums[name] = whole
    for turn in range(REPLICATES if len(others) else 0):
        each = _replicate(rest, _taken(proposal, others), height[:, others], points, turn, size // 2)
        sums["totals"][turn][:, others], sums["above"][turn][:, others] = each["totals"], each["above"]
    return sums, truth


def _like(near: Intervals, like: Array) -> Intervals:
    """Return intervals where the posteriors are."""
    return replace(near, low=as_array(near.low, like=like), high=as_array(near.high, like=like))


def _taken(proposal: Proposal | None, rows: Int[np.ndarray, " m"]) -> Proposal | None:
    return None if proposal is None else proposal.take(rows, list(range(len(proposal.dfs))))


def _believed_before(product: MixtureProduct, sums: tuple[GroupSums, ...]) -> Float[Array, "g t s"]:
    """Return the log of what is believed before any release, without each group in turn and with all (last)."""
    first = sums[0].log_totals()
    xp = array_namespace(first)
    left = xp.broadcast_to(sums[0].kept(), (len(first), len(product.groups) - 1, first.shape[1]))
    return xp.concat([xp.moveaxis(first[:, None] + xp.log(left), 1, 0), first[None]])


def _replicate(
    product: MixtureProduct,
    proposal: Proposal | None,
    height: Float[np.ndarray, "g t"],
    points: Points,
    turn: int,
    size: int,
    close: tuple[Ball, Intervals] | None = None,
) -> Logs:
    """Return what one set of points says: see `_sums`."""
    ball, near = (None, None) if close is None else close
    count = height.shape[1]
    if proposal is None:  # nothing is measured: one point is all there is
        white, density, inside = np.zeros((count, 1, 0)), np.zeros((count, 1)), np.ones((count, 1), dtype=bool)
    else:
        white, log_parts, inside = weighed_points(proposal, ball, points, turn, size)
        density = log_sum_exp(log_parts, axis=0)
    sums = product.group_sums(white)
    values = product.values_of(sums)
    log_weights = values - density
    xp, level = array_namespace(white), as_array(height, like=white)[..., None] + SAME_HEIGHT
    top = xp.max(log_weights, axis=2)
    weights = xp.exp(log_weights - top[..., None])
    with np.errstate(divide="ignore"):  # nothing inside, or nothing above
        logs = {
            "totals": top + xp.log(xp.sum(weights, axis=2)),
            "above": top + xp.log(xp.sum(weights * (values > level), axis=2)),
        }
        if ball is None or near is None:
            return {name: to_numpy(each) for name, each in logs.items()}
        held = as_numbers(near.holds(product.unwhiten(white)))
        logs["inside"] = top + xp.log(xp.sum(weights * inside, axis=2))
        logs["near"] = top[..., None] + xp.log(xp.einsum("gms,msp->gmp", weights, held))
    before = _believed_before(product, sums)
    of_ball = before[..., -size:]
    logs["prior"] = ball.log_volume + log_sum_exp(of_ball, axis=2) - np.log(of_ball.shape[2])
    known = before[-1] - density
    known = xp.exp(known - xp.max(known, axis=1, keepdims=True))
    logs["known"] = xp.einsum("ms,msp->mp", known, held) / xp.sum(known, axis=1)[:, None]
    share, inside = weights[-1] / xp.sum(weights[-1], axis=1, keepdims=True), as_numbers(inside)
    logs["squares"] = xp.sum(share * share, axis=1)
    logs["total_noise"] = logs["squares"] - 1 / share.shape[1]
    logs["mass_noise"] = xp.sum((share * (inside - xp.sum(share * inside, axis=1)[:, None])) ** 2, axis=1)
    return {name: to_numpy(each) for name, each in logs.items()}


INTEGRALS = ("totals", "above", "inside", "near", "prior")


def _estimates(posteriors: GapPosteriors, sums: Logs, truth: Logs) -> tuple[Logs, Logs]:
    """Return the measures with their standard errors.

    Without each of G groups in turn, θ_g, the draws' error is √[(G−1)/G·Σ(θ_g − θ̄)²]; replicates of the points,
    taken apart, give that of the integrals.
    """
    logs = {name: sums[name] for name in INTEGRALS}
    replicates, groups = sums["totals"].shape[:2]
    pooled = {name: log_sum_exp(each, axis=0) - np.log(replicates) for name, each in logs.items()}
    every = [
        _measures(posteriors, {name: each[group] for name, each in pooled.items()}, truth, group)
        for group in range(groups)
    ]
    apart = [
        _measures(posteriors, {name: each[turn, -1] for name, each in logs.items()}, truth, groups - 1)
        for turn in range(replicates)
    ]
    errors = {}
    for name in every[-1]:
        without = [each[name] for each in every[:-1]]
        of_draws = np.std(without, axis=0) * np.sqrt(groups - 2) if without else 0.0
        of_points = STUDENT * np.std([each[name] for each in apart], axis=0, ddof=1) / np.sqrt(replicates)
        errors[name] = np.hypot(of_draws, of_points)
    # replicates can agree by chance; scrambled points do better than independent ones, but not by far
    for name, noise in (("gain", sums["total_noise"]), ("mass", sums["mass_noise"])):
        floor = EDGE * np.sqrt(np.maximum(np.mean(noise, axis=0), 0.0) / replicates)
        errors[name] = np.maximum(errors[name], floor)
    return every[-1], errors


def _measures(posteriors: GapPosteriors, logs: Logs, truth: Logs, group: int) -> Logs:
    """Return all measures from logs of integrals; without a group, the other weights do not add up to 1."""
    (m, a), own, before = posteriors.possible.shape, posteriors.true_places, posteriors.product.before
    totals = logs["totals"].reshape(m, a)
    whole, mine = log_sum_exp(totals, axis=1), logs["totals"][own]
    shares = np.exp(totals - whole[:, None])
    above = log_sum_exp(logs["above"].reshape(m, a), axis=1)
    weights = before.log_weights.reshape(m, a, before.groups, -1)
    if before.groups > 1 and group < before.groups:
        weights = np.delete(weights, group, axis=2)
    by_combination = log_sum_exp(weights.reshape(m, a, -1), axis=2)
    # what is known of the target before the release, and which combinations are possible
    given = log_sum_exp(np.where(posteriors.possible, by_combination, -np.inf), axis=1)
    return {
        "gain": truth["value"][group] - whole - (truth["before"][group] - given),
        "probability": shares,
        "level": shares @ _levels(posteriors.combinations),
        "mass": np.exp(np.minimum(logs["inside"] - mine, 0.0)),
        "prior mass": np.exp(np.minimum(logs["prior"] - by_combination.ravel()[own], 0.0)),
        "more probable": np.minimum(np.exp(above - whole), 1.0),
        "within": np.exp(np.minimum(logs["near"] - mine[:, None], 0.0)),
    }


def _levels(combinations: Int[np.ndarray, "a q"]) -> Float[np.ndarray, "a l"]:
    """Say which combinations hold each level of each category."""
    parts = [np.eye(int(np.max(column)) + 1)[column] for column in combinations.T]
    return np.concatenate([np.zeros((len(combinations), 0)), *parts], axis=1)
