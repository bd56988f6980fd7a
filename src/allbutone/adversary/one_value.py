"""All but one value: the posterior of each value of a record when all others of it are known, by quadrature.

Somebody who knows a person knows most of their record, and wants one value of it. That posterior is the usual one
along a line: through the record itself, along the axis of the value. In one dimension nothing needs to be sampled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.averaged import MixtureProduct, StudentMixture
from allbutone.adversary.gaps import GapPosteriors
from allbutone.adversary.integrate import Intervals, estimated_within, interval_probability
from allbutone.adversary.log_quadratic import LogQuadratic, times, times_each
from allbutone.adversary.modes import Modes, find_modes
from allbutone.support.arrays import log_sum_exp

EDGES = np.sinh(0.5 * np.arange(-18.0, 19.0))  # of panels, in widths of a hill: to 4,000 widths, for heavy tails
NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)  # on each panel: errors of 1e-9 of a normal hill
NEGLIGIBLE = 40.0  # by how much a second hill must be lower, in nats, to be left out
NUMBERS_HELD = 1 << 22  # at a time
WELLS_OF_A_LOGARITHM = 8  # whose levels are multiplied before the logarithm is taken

LogDensity = Callable[[Float[np.ndarray, "t s"]], Float[np.ndarray, "*g t s"]]


def along_axes(posteriors: LogQuadratic, truth: Float[np.ndarray, "b p"]) -> LogQuadratic:
    """Return the posteriors of each value given all others of its record: (b·p) of them, in one dimension each.

    With U = root⁻¹, moving value j by δ moves v by δ·uⱼ. With v = s + z·t, where t = uⱼ/‖uⱼ‖ and s ⟂ t is the
    point of the line that is nearest to the centre, ‖v‖² = ‖s‖² + z², and quadratics stay quadratics:

        c′ = c/(1 + c‖s‖²)    A′ = tᵀAt    b′ = tᵀ(b − As)    g′ = q(s)    m′ = tᵀ(m − Ms)    M′ = tᵀMt
    """
    b, p = truth.shape
    white = posteriors.whiten(truth)
    axes = np.broadcast_to(np.linalg.inv(posteriors.root), (b, p, p))  # uⱼ is column j
    length = np.sqrt(np.sum(axes * axes, axis=-2))
    axes = axes / length[:, None, :]
    off = np.einsum("bi,bij->bj", white, axes)  # z of the truth
    nearest = np.maximum(np.sum(white * white, axis=-1, keepdims=True) - off**2, 0.0)

    def each(number: Float[np.ndarray, "*b"] | float) -> Float[np.ndarray, " n"]:
        return np.broadcast_to(np.asarray(number, dtype=float)[..., None], (b, p)).ravel()

    # A and every M at the truth, and across: v = s + z·t stands at the truth where z is `off`
    turned = np.einsum("bij,bij->bj", axes, posteriors.precision @ axes)
    along = np.einsum("bi,bij->bj", times(posteriors.precision, white), axes)
    pulled = np.einsum("bi,bij->bj", np.broadcast_to(posteriors.pull, white.shape), axes)
    shapes = np.einsum("bij,bkij->bkj", axes, posteriors.shapes @ axes[:, None])
    bent = times_each(posteriors.shapes, white)
    slope = (bent - posteriors.slopes) @ axes  # tᵀ(Mv − m) at the truth
    level = posteriors.levels + np.sum((bent - 2 * posteriors.slopes) * white[:, None], axis=-1)
    away = off[:, None]
    wells = posteriors.wells

    def flat(numbers: Float[np.ndarray, "b k p"]) -> Float[np.ndarray, "n k"]:
        return np.swapaxes(np.broadcast_to(numbers, (b, wells, p)), 1, 2).reshape(b * p, wells)

    weights = posteriors.weights
    inflation = np.asarray(posteriors.inflation, dtype=float)[..., None]
    return LogQuadratic(
        centre=(truth - off / length).reshape(-1, 1),
        root=(1 / length).reshape(-1, 1, 1),
        df=each(posteriors.df),
        outward=each(posteriors.outward),
        inflation=np.broadcast_to(inflation / (1 + inflation * nearest), (b, p)).ravel(),
        precision=turned.reshape(-1, 1, 1),
        pull=(pulled - along + off * turned).reshape(-1, 1),
        weights=weights if weights.ndim == 1 else np.repeat(np.broadcast_to(weights, (b, wells)), p, axis=0),
        levels=flat(level[..., None] - 2 * away * slope + away**2 * shapes),
        slopes=flat(away * shapes - slope)[..., None],
        shapes=flat(shapes)[..., None, None],
        own_well=posteriors.own_well,
    )


@dataclass(frozen=True, eq=False)
class Nearness:
    """What counts as knowing a value when all others are known: the least interval around the truth.

    Where it `stretches`, it reaches half-way to what the others let expect: to know that somebody is far from that
    is knowledge, too. Elsewhere the interval was declared.
    """

    least: Intervals
    stretches: Bool[np.ndarray, " p"]

    def around(self, truth: Float[np.ndarray, "b p"], expected: Float[np.ndarray, "b p"]) -> Intervals:
        """Return the intervals, given what the rest of each record lets expect."""
        reach = np.where(self.stretches, 0.5 * np.abs(truth - expected), 0.0)
        return Intervals(np.minimum(self.least.low, truth - reach), np.maximum(self.least.high, truth + reach))

    def take(self, rows: Int[np.ndarray, " m"], places: Sequence[int] | np.ndarray) -> "Nearness":
        """Return that of some records and columns."""
        return Nearness(self.least.take(rows, places), self.stretches[places])


@dataclass(frozen=True, eq=False)
class ValueBeliefs:
    """How well each value is known, all others of the record known: with the release, its error, and without.

    expected: what the other values let expect without the release. near: what counts as knowing it.
    """

    probability: Float[np.ndarray, "b p"]
    error: Float[np.ndarray, "b p"]
    baseline: Float[np.ndarray, "b p"]
    expected: Float[np.ndarray, "b p"]
    near: Intervals


def value_beliefs(
    posteriors: LogQuadratic,
    truth: Float[np.ndarray, "b p"],
    nearness: Nearness,
    before: LogQuadratic | None = None,
    least: float = 0.0,
) -> ValueBeliefs:
    """Return the probability that each value lies near the truth, all others known, and that without the release.

    `least`: probabilities that seem lower by two normal hills are not integrated, and told as these say.
    `before`: the posteriors without the release, where they are not the other records' own Student t: along a line
    that is a Student t with ν degrees of freedom, by its own inflation.
    """
    lines = along_axes(posteriors, truth)
    earlier = None if before is None else along_axes(before, truth)
    middle = lines.centre if earlier is None else earlier.unwhiten(find_modes(earlier).best)
    expected = middle.reshape(truth.shape)
    near = nearness.around(truth, expected)
    ends = Intervals(near.low.reshape(-1, 1), near.high.reshape(-1, 1))
    if earlier is None:
        df = np.asarray(lines.df)[:, None]
        spread = lines.root[:, 0] / np.sqrt(np.asarray(lines.inflation)[:, None] * df)
        baseline = interval_probability(lines.centre, spread, df, ends.low, ends.high)[:, 0]
    else:
        baseline = _line_probabilities(earlier, ends)
    probability = _line_probabilities(lines, ends, least).reshape(truth.shape)
    return ValueBeliefs(probability, np.zeros(truth.shape), baseline.reshape(truth.shape), expected, near)


def _line_probabilities(lines: LogQuadratic, near: Intervals, least: float = 0.0) -> Float[np.ndarray, " t"]:
    """Return the probability of an interval under each of many posteriors in one dimension."""
    modes = find_modes(lines)
    place, width, two = _hills(modes, lines)
    probabilities = estimated_within(lines, modes, near)[:, 0] if least else np.full(len(place), np.nan)
    low, high = (((end - lines.centre) / lines.root[:, 0])[:, 0] for end in (near.low, near.high))
    close = ~(probabilities < least)
    for hills, these in ((1, ~two), (2, two)):
        (chosen,) = np.nonzero(these & close)
        many = max(1, NUMBERS_HELD // (4 * hills * len(EDGES) * len(NODES)))
        for start in range(0, len(chosen), many):
            some = chosen[start : start + many]
            density = _on_line(lines.take(some))
            probabilities[some] = within(density, place[some, :hills], width[some, :hills], low[some], high[some])
    return probabilities


def _hills(modes: Modes, lines: LogQuadratic) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return place and width of the highest hill and of the other, and whether the other matters."""
    place = np.stack([modes.best[:, 0], modes.other[:, 0]], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        width = 1 / np.sqrt(-np.stack([modes.hessian[:, 0, 0], modes.other_hessian[:, 0, 0]], axis=1))
        two = modes.gap < NEGLIGIBLE
    usual = 1 / np.sqrt(np.asarray(lines.df) * np.asarray(lines.inflation))[:, None]
    return place, np.where(np.isfinite(width) & (width > 0), width, usual), two


def within(
    log_density: LogDensity,
    place: Float[np.ndarray, "t hills"],
    width: Float[np.ndarray, "t hills"],
    low: Float[np.ndarray, " t"],
    high: Float[np.ndarray, " t"],
) -> Float[np.ndarray, "*g t"]:
    """Return the probability of intervals under densities on a line: Gauss's rule on panels around their hills."""
    edges = (place[..., None] + width[..., None] * EDGES).reshape(len(place), -1)
    return within_panels(log_density, edges, low, high)


def within_panels(
    log_density: LogDensity,
    edges: Float[np.ndarray, "t e"],
    low: Float[np.ndarray, " t"],
    high: Float[np.ndarray, " t"],
    rule: tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]] = (NODES, WEIGHTS),
) -> Float[np.ndarray, "*g t"]:
    """Return the probability of intervals, whose ends part panels, by Gauss's rule on each of the panels."""
    nodes, weights = rule
    ends = np.stack([np.clip(end, edges.min(axis=1), edges.max(axis=1)) for end in (low, high)], axis=1)
    edges = np.sort(np.concatenate([edges, ends], axis=1), axis=1)
    half, middle = np.diff(edges, axis=1) / 2, (edges[:, 1:] + edges[:, :-1]) / 2
    points = middle[..., None] + half[..., None] * nodes
    logs = log_density(points.reshape(len(points), -1))
    top = np.max(logs, axis=-1, keepdims=True)
    mass = np.exp(logs - top).reshape(*logs.shape[:-1], *half.shape[1:], len(nodes)) @ weights * half
    inside = (middle > ends[:, :1]) & (middle < ends[:, 1:])
    return np.sum(mass * inside, axis=-1) / np.sum(mass, axis=-1)


def _on_line(lines: LogQuadratic) -> LogDensity:
    """Return ℓ of posteriors in one dimension, at many points of each."""

    def log_density(z: Float[np.ndarray, "t s"]) -> Float[np.ndarray, "t s"]:
        outward, inflation = (np.asarray(each)[:, None] for each in (lines.outward, lines.inflation))
        heights = outward * np.log1p(inflation * z**2)
        if lines.has_quadratic:
            heights += z * (2 * lines.pull - lines.precision[:, 0] * z)
        equal = lines.weights if lines.weights.ndim == 1 else lines.weights[0]
        shared = lines.weights.ndim == 1 or bool(np.all(lines.weights == equal))
        product, factors = np.ones_like(z), 0
        for well in range(lines.wells):
            product *= lines.levels[:, well, None] + z * (lines.shapes[:, well, 0] * z - 2 * lines.slopes[:, well])
            factors += 1
            last = well + 1 == lines.wells
            if last or not shared or factors == WELLS_OF_A_LOGARITHM or equal[well + 1] != equal[well]:
                weight = equal[well] if shared else lines.weights[:, well, None]
                heights -= weight * np.log(product)
                product, factors = np.ones_like(z), 0
        return heights / 2

    return log_density


def mixture_along_axes(mixture: StudentMixture, truth: Float[np.ndarray, "t p"]) -> StudentMixture:
    """Return the mixtures of each value given all others of its record: (t·p) of them, in one dimension each.

    With d = x − m, g = V⁻¹d, q = dᵀg and P = (V⁻¹)ⱼⱼ a part t_δ(x) is, along the axis j, a Student t with
    δ + p − 1 degrees of freedom, location xⱼ − gⱼ/P and precision P·(δ + p − 1)/(δ + q − gⱼ²/P); the density of
    the other values joins its weight.
    """
    (t, p), parts = truth.shape, mixture.dfs.shape[1]
    away = truth[:, None] - mixture.locations
    bent = (mixture.precisions @ away[..., None])[..., 0]
    own = np.diagonal(mixture.precisions, axis1=-2, axis2=-1)
    rest = np.maximum(np.sum(bent * away, axis=-1)[..., None] - bent**2 / own, 0.0)
    normal = np.isinf(mixture.dfs)[..., None]
    df = np.where(normal, 1.0, mixture.dfs[..., None])
    wider = np.where(normal, 1.0, (df + rest) / (df + p - 1))

    def flat(numbers: Float[np.ndarray, "t k p"]) -> Float[np.ndarray, "n k"]:
        return np.swapaxes(np.broadcast_to(numbers, (t, parts, p)), 1, 2).reshape(t * p, parts)

    lines = StudentMixture.of(
        np.repeat(mixture.log_weights, p, axis=0),
        flat(truth[:, None] - bent / own)[..., None],
        flat(wider / own)[..., None, None],
        flat(np.where(normal, np.inf, df + p - 1)),
        mixture.groups,
    )
    fall = np.where(normal, rest / 2, (df + p) / 2 * np.log1p(rest / df))
    highest = flat(mixture.heights[..., None] - fall)
    return replace(lines, log_weights=lines.log_weights + highest - lines.heights)


@dataclass(frozen=True, eq=False)
class AveragedValues:
    """How well each value of m targets is known, all else of it known, where predictives are averages over draws.

    Of measurements, and for each category that the targets have, of the own level: probability with the release,
    its standard error from the groups of draws, and the probability without the release. evidence: the log
    likelihood ratio of each target's membership.
    """

    measurements: ValueBeliefs
    levels: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]
    evidence: Float[np.ndarray, " m"]


def averaged_values(found: GapPosteriors, nearness: Nearness) -> AveragedValues:
    """Return how well each value of targets is known when all others are: on lines, and at the truth."""
    m, combinations = len(found.truth), found.combinations
    product, every = found.product, np.repeat(found.truth, len(combinations), axis=0)
    sums = product.group_sums(product.whiten(every)[:, None])
    after, before = (
        (logs[..., 0] - product.log_volume).reshape(*logs.shape[:-2], m, -1)
        for logs in (product.values_of(sums), sums[0].log_totals())
    )
    own, here = combinations[found.true_combination], (np.arange(m), found.true_combination)
    evidence = after[-1][here] - before[here]
    levels = []
    for category in range(combinations.shape[1]):
        others = np.arange(combinations.shape[1]) != category
        alike = np.all(combinations[:, others] == own[:, None, others], axis=-1)
        shares = [
            np.exp(logs - log_sum_exp(np.where(alike, logs, -np.inf), axis=-1)[..., None])[..., *here]
            for logs in (after, before)
        ]
        levels.append((shares[0][-1], jackknife_error(shares[0]), shares[1]))
    if product.shape is None:
        nothing = np.zeros((m, 0))
        none = ValueBeliefs(nothing, nothing, nothing, nothing, Intervals(nothing, nothing))
        return AveragedValues(none, tuple(levels), evidence)
    return AveragedValues(_on_mixture_lines(found, nearness), tuple(levels), evidence)


def _on_mixture_lines(found: GapPosteriors, nearness: Nearness) -> ValueBeliefs:
    """Return probability, standard error and baseline of each measurement's interval, all else of it known."""
    own = found.product.take(found.true_places)
    assert own.shape is not None
    back = np.linalg.inv(own.shape.root)  # from v to x
    origin = -(back @ own.shape.centre[..., None])[..., 0]
    lines = [mixture_along_axes(each.seen_from(origin, back), found.truth) for each in own.mixtures]
    before = lines[0]
    share = np.exp(before.log_weights - log_sum_exp(before.log_weights, axis=1)[:, None])
    expected = np.sum(share * before.locations[..., 0], axis=1).reshape(found.truth.shape)
    near = nearness.around(found.truth, expected)
    low, high = near.low.reshape(-1), near.high.reshape(-1)
    spread = 1 / np.sqrt(before.precisions[..., 0, 0])
    ends = (np.broadcast_to(end[:, None], spread.shape) for end in (low, high))
    each = interval_probability(before.locations[..., 0], spread, before.dfs, *ends)
    probability, error = np.empty(len(low)), np.empty(len(low))
    many = max(1, NUMBERS_HELD // (2 * len(EDGES) * len(NODES) * lines[0].log_weights.shape[1]))
    for start in range(0, len(low), many):
        some = np.arange(start, min(start + many, len(low)))
        product = MixtureProduct.of([line.take(some) for line in lines], own.powers, np.ones(len(some)))
        assert product.shape is not None
        place, width, two = _hills(product.find_modes(), product.shape)
        place, width = (np.where(two[:, None], numbers, numbers[:, :1]) for numbers in (place, width))
        limits = (((end[some] - product.shape.centre[:, 0]) / product.shape.root[:, 0, 0]) for end in (low, high))

        def density(z: Float[np.ndarray, "t s"], product: MixtureProduct = product) -> Float[np.ndarray, "g t s"]:
            return product.values_of(product.group_sums(z[..., None]))

        hills = 2 if np.any(two) else 1
        inside = within(density, place[:, :hills], width[:, :hills], *limits)
        probability[some], error[some] = inside[-1], jackknife_error(inside)
    baseline = np.sum(share * each, axis=1)
    inside, errors, without = (each.reshape(found.truth.shape) for each in (probability, error, baseline))
    return ValueBeliefs(inside, errors, without, expected, near)


def jackknife_error(without_each: Float[np.ndarray, "g *each"]) -> Float[np.ndarray, "*each"]:
    """Return the standard error from what is estimated without each group of draws in turn; the last: with all."""
    left_out = without_each[:-1]
    if not len(left_out):
        return np.zeros(without_each.shape[1:])
    away = left_out - np.mean(left_out, axis=0)
    return np.sqrt((len(left_out) - 1) / len(left_out) * np.sum(away**2, axis=0))
