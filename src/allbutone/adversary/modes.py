"""The exact maximiser: where the adversary's posterior is highest, and where its mirror image stands."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from allbutone.adversary.climb import (
    Summit,
    best_on_ray,
    both_maxima,
    climb,
    hill_on_ray,
    maximize_bound,
    opposite_maximum,
    places_of,
    put_rows,
)
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.support.arrays import (
    all_true,
    append_axes,
    array_namespace,
    eye,
    is_definite,
    solve_definite,
    solve_or_nan,
)

Array = Any

SAME_PLACE = 1e-4  # two modes closer than this many standard deviations are one
CLEARLY = 1.05  # times as much as would make a bound flat: from there on its one maximum is soon near
PULL_LEFT = 0.7  # so that a hill that is just there is not overlooked
TIE = 1e-9  # a difference in log posterior that rounding could reverse


@dataclass(frozen=True, eq=False)
class Modes:
    """The highest mode and the other one, in whitened coordinates; batch axes lead.

    Where there is no second mode `other` is NaN and `gap` infinite.
    """

    best: Float[Array, "*batch p"]
    other: Float[Array, "*batch p"]
    gap: Float[Array, "*batch"]
    value: Float[Array, "*batch"]
    hessian: Float[Array, "*batch p p"]
    other_hessian: Float[Array, "*batch p p"]
    converged: Bool[Array, "*batch"]
    steps: int

    def as_batch(self) -> "Modes":
        """Return the modes of a single posterior as a batch of one."""
        arrays = [field.name for field in fields(self) if field.name != "steps"]
        return replace(self, **{name: getattr(self, name)[None, ...] for name in arrays})

    def take(self, rows: Any) -> "Modes":
        """Return the modes at these positions of the one batch axis; at a number one."""
        arrays = [field.name for field in fields(self) if field.name != "steps"]
        return replace(self, **{name: getattr(self, name)[rows, ...] for name in arrays})


@np.errstate(all="ignore")  # what is lost to rounding is NaN, never better, and in the end not converged
def find_modes(posterior: LogQuadratic) -> Modes:
    """Return the global maximum of ℓ and its mirror mode.

    Newton climbs from the exact maximum of a bound (for released parameters it is the maximum already), then where
    another hill may stand, on the other side of the others' centre; the better mode wins.
    """
    if posterior.centre.ndim == 1:
        return find_modes(posterior.as_batch()).take(0)
    return modes_of(_summits(posterior))


def modes_of(summits: Sequence[Summit]) -> Modes:
    """Return the highest of some summits, and the highest of those that stand elsewhere."""
    xp = array_namespace(summits[0].white)
    best = other = summits[0]
    for second in summits[1:2]:
        higher = second.value > best.value
        best, other = _choose(higher, second, best), _choose(higher, best, second)
    for summit in summits[2:]:
        higher = summit.value > best.value
        # what was best becomes the other, unless it is the same place or lower than the other already known
        runner = _choose(higher, best, summit)
        best = _choose(higher, summit, best)
        keep = _same_place(best, runner) | ~runner.done
        replace_other = ~keep & ((runner.value > other.value) | _same_place(best, other) | ~other.done)
        other = _choose(replace_other, runner, other)
    none = _same_place(best, other) | ~other.done if other is not best else xp.ones_like(best.done)
    return Modes(
        best=best.white,
        other=xp.where(none[..., None], xp.nan, other.white),
        gap=xp.where(none, xp.inf, best.value - other.value),
        value=best.value,
        hessian=best.hessian,
        other_hessian=other.hessian,
        converged=best.done,
        steps=max(summit.steps for summit in summits),
    )


@np.errstate(all="ignore")
def find_best(posterior: LogQuadratic) -> Modes:
    """Return the global maximum of ℓ alone: the climb to another mode is given up once it cannot win.

    `other` is NaN, `gap` infinite, and `hessian` the best mode's to five digits.
    """
    if posterior.centre.ndim == 1:
        return find_best(posterior.as_batch()).take(0)
    modes = modes_of(_summits(posterior, only_best=True))
    xp = array_namespace(modes.best)
    return replace(modes, other=xp.full_like(modes.best, xp.nan), gap=xp.full_like(modes.value, xp.inf))


def _summits(posterior: LogQuadratic, only_best: bool = False) -> list[Summit]:
    """Return where Newton ends from the bound's maximum, and on the other side of the others' centre.

    Who only wants the best begins there at the mirror image, and gives up once it cannot win. A single release
    leaves one hill. An adversary's own prior may disagree with the release; then a hill of its own may stand at
    the prior's centre, and another where the release alone would have it.
    """
    xp, known = array_namespace(posterior.centre), posterior.near_maximum()
    given, one_hill = known is not None, not posterior.pushes_outward and posterior.wells <= 1
    if known is None and posterior.wells == 0 and not one_hill:
        return _summits_after_parameters(posterior, only_best)
    start = _bound_maximum(posterior) if known is None else known
    start = start if given or one_hill else best_on_ray(posterior, start)
    first = climb(posterior, start, xp.full_like(start[..., 0], -xp.inf) if only_best else None)
    if one_hill:
        return [first]
    if not (only_best or given or posterior.own_well or start.ndim > 2):
        other = _other_summit(posterior, first)
        return [first] if other is first else [first, other]
    starts = [-first.white]
    if posterior.own_well:
        weights = posterior.weights
        released = xp.concat([weights[..., :-1], xp.zeros_like(weights[..., -1:])], axis=-1)
        without = replace(posterior, weights=released)
        without = best_on_ray(without, _bound_maximum(without))
        slope, shape = posterior.slopes[..., -1, :], posterior.shapes[..., -1, :, :]
        starts += [without, -without, solve_or_nan(shape, slope) + 0 * without]
    before = {"beat": first.value} if only_best else {"known": first}
    return [first, *(climb(posterior, start, **before) for start in starts)]


def _other_summit(posterior: LogQuadratic, first: Summit) -> Summit:
    """Return the other summit after datasets, the first again where there is none.

    It stands near the other maximum of the bound that touches ℓ at the first one, with less pull: pull makes the
    other hill lower, and in the end none. Where the bound bends down everywhere, or has no other maximum even so,
    or where ℓ only falls on the ray through it, there is no other hill to climb.
    """
    xp, bound = array_namespace(first.white), _pushing_outward(posterior)
    precision, pull = bound.tangent(first.white)
    most = append_axes(bound.outward * bound.inflation, 2)
    none = is_definite(precision - most * eye(posterior.p, like=precision))
    if all_true(none):
        return first
    terms = bound.outward, bound.inflation, precision, PULL_LEFT * pull, first.white
    if bool(xp.any(none)):  # what comes is expensive for many columns
        (rows,) = xp.nonzero(~none)
        return first.with_rest(none, _other_summit(posterior.take(rows), first.take(rows)))
    start = hill_on_ray(posterior, opposite_maximum(*terms))
    none = xp.any(xp.isnan(start), axis=-1)
    if bool(xp.all(none)):
        return first
    (rows,) = xp.nonzero(~none)
    summits = climb(posterior.take(rows), xp.take(start, rows, axis=0), known=first.take(rows))
    return first.with_rest(none, summits)


def _summits_after_parameters(posterior: LogQuadratic, only_best: bool) -> list[Summit]:
    """Return both maxima, which are known exactly; a step of Newton's confirms them and brings the last digits."""
    pull, every = posterior.pull, posterior.centre.shape
    pull = pull if pull.shape == every else array_namespace(pull).broadcast_to(pull, every)
    terms = (posterior.outward, posterior.inflation, posterior.precision, pull)
    if only_best:
        return [climb(posterior, maximize_bound(*terms))]
    return [climb(posterior, place) for place in both_maxima(*terms)]


def _bound_maximum(posterior: LogQuadratic) -> Float[Array, "*batch p"]:
    """Return the maximum of the bound that touches ℓ at the centre: exactly, or nearly where it has but one.

    Where A − a·c·I is clearly positive definite the bound bends down everywhere. There v = (A − τ)⁻¹b with
    τ = a·c/(1 + c‖v‖²), begun at τ = a·c, is near enough after one turn, and needs no eigenvectors, which for many
    columns take most of the time of an attack.
    """
    posterior = _pushing_outward(posterior)
    precision, pull = posterior.tangent()
    if not posterior.pushes_outward:
        return solve_or_nan(precision, pull)
    xp, one = array_namespace(pull), eye(posterior.p, like=precision)
    most = append_axes(posterior.outward * posterior.inflation, 1)
    white, bends_down = solve_definite(precision - CLEARLY * append_axes(most, 1) * one, pull)
    tau = most / (1 + append_axes(posterior.inflation * xp.vecdot(white, white), 1))
    white, _ = solve_definite(precision - tau[..., None] * one, pull)
    if bool(xp.all(bends_down)):
        return white
    if not bool(xp.any(bends_down)):
        return maximize_bound(posterior.outward, posterior.inflation, precision, pull)
    rest = posterior.take(xp.nonzero(~bends_down)[0])
    exact = maximize_bound(rest.outward, rest.inflation, *rest.tangent())
    return put_rows(places_of(bends_down), white, exact)


def _pushing_outward(posterior: LogQuadratic) -> LogQuadratic:
    """Return the posterior with its wells of negative weight, which have no bound, as more of the outward term.

    They are nearly concentric with it: so what would be a bound is a good start, and no bound.
    """
    if not posterior.has_negative_wells:
        return posterior
    xp, weights = array_namespace(posterior.weights), posterior.weights
    outward = posterior.outward - xp.sum(xp.where(weights < 0, weights, 0.0), axis=-1)
    return replace(posterior, outward=outward, weights=xp.where(weights < 0, 0.0, weights))


def _same_place(one: Summit, two: Summit) -> Bool[Array, "*batch"]:
    xp = array_namespace(one.white)
    apart = one.white - two.white
    bent = xp.vecdot(apart, (one.hessian @ apart[..., None])[..., 0])
    return -bent < SAME_PLACE**2


def _choose(flags: Bool[Array, "*batch"], yes: Summit, no: Summit) -> Summit:
    xp = array_namespace(flags)
    return Summit(
        xp.where(flags[..., None], yes.white, no.white),
        xp.where(flags, yes.value, no.value),
        xp.where(flags[..., None, None], yes.hessian, no.hessian),
        xp.where(flags, yes.done, no.done),
        max(yes.steps, no.steps),
    )
