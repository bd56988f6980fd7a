"""The exact maximiser: where the adversary's posterior is highest, and where its mirror image stands."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from jaxtyping import Bool, Float

from allbutone.adversary.bound import maximize_bound
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.support.arrays import array_namespace, attempt, eigh_or_nan, eye, solve_or_nan

Array = Any

MOST_STEPS = 100
FEW_STEPS = 6  # after these, the few that still climb go on by themselves
CONVERGED = 1e-20  # squared length of a Newton step in posterior standard deviations: the mode to ten digits
STALLED = 1e-10  # the same where rounding allows no more: the mode to 1e-5 standard deviations
SAME_PLACE = 1e-4  # two modes closer than this many standard deviations are one
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
        """Return the modes at these positions of the one batch axis."""
        xp = array_namespace(self.best)
        arrays = [field.name for field in fields(self) if field.name != "steps"]
        return replace(self, **{name: xp.take(getattr(self, name), rows, axis=0) for name in arrays})


@np.errstate(all="ignore")  # what is lost to rounding is NaN, never better, and in the end not converged
def find_modes(posterior: LogQuadratic) -> Modes:
    """Return the global maximum of ℓ and its mirror mode.

    Newton climbs from the exact maximum of a bound (for released parameters it is the maximum already), then from
    the mirror image of where that ended: it finds the other mode, and the better wins.
    """
    xp = array_namespace(posterior.centre)
    summits = _summits(posterior)
    best, other = summits[0], summits[0]
    for summit in summits[1:]:
        higher = summit.value > best.value
        # what was best becomes the other, unless it is the same place or lower than the other already known
        runner = _choose(higher, best, summit)
        best = _choose(higher, summit, best)
        keep = _same_place(best, runner) | ~runner.done
        replace_other = ~keep & ((runner.value > other.value) | _same_place(best, other) | ~other.done)
        other = _choose(replace_other, runner, other)
    none = _same_place(best, other) | ~other.done
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


def _summits(posterior: LogQuadratic) -> "list[_Summit]":
    """Return where Newton ends from the bound's maximum and from its mirror image.

    A single release leaves one hill. An adversary's own prior may disagree with the release; then a hill of its
    own may stand at the prior's centre, and another where the release alone would have it.
    """
    xp = array_namespace(posterior.centre)
    start = posterior.near_maximum()
    first = _climb(posterior, _bound_maximum(posterior) if start is None else start)
    if not posterior.pushes_outward and posterior.wells <= 1:
        return [first]
    found = [first, _climb(posterior, -first.white)]
    if posterior.own_well:
        weights = posterior.weights
        released = xp.concat([weights[..., :-1], xp.zeros_like(weights[..., -1:])], axis=-1)
        without = _bound_maximum(replace(posterior, weights=released))
        slope, shape = posterior.slopes[..., -1, :], posterior.shapes[..., -1, :, :]
        own = solve_or_nan(shape, slope) + 0 * without
        found += [_climb(posterior, start) for start in (without, -without, own)]
    return found


def _bound_maximum(posterior: LogQuadratic) -> Float[Array, "*batch p"]:
    """Return the exact maximum of the bound that touches ℓ at the centre.

    Wells of negative weight have no such bound. They are nearly concentric with the outward term, and count as
    more of it: then this is a good start, and no bound.
    """
    outward = posterior.outward
    if posterior.has_negative_wells:
        xp, weights = array_namespace(posterior.weights), posterior.weights
        outward = outward - xp.sum(xp.where(weights < 0, weights, 0.0), axis=-1)
        posterior = replace(posterior, outward=outward, weights=xp.where(weights < 0, 0.0, weights))
    precision, pull = posterior.lower_bound(array_namespace(posterior.centre).zeros_like(posterior.centre))
    if not posterior.pushes_outward:
        return _newton(precision, pull)
    return maximize_bound(outward, posterior.inflation, precision, pull)


@dataclass(frozen=True)
class _Summit:
    white: Any
    value: Any
    hessian: Any
    done: Any
    steps: int


@dataclass(frozen=True)
class _Ascent:
    """Where a climb stands: the place, ℓ there, the share of a step to take, the gain of the last one."""

    white: Any
    value: Any
    gradient: Any
    hessian: Any
    length: Any
    last: Any
    done: Any


def _climb(posterior: LogQuadratic, start: Float[Array, "*batch p"], most: int = MOST_STEPS) -> _Summit:
    """Climb to a mode by Newton steps; ℓ never falls."""
    xp = array_namespace(start)
    start = xp.where(xp.all(xp.isfinite(start), axis=-1)[..., None], start, 0.0)  # what rounding left no start
    local = posterior.local(start)
    value = local[0]
    new = (xp.ones_like(value), xp.full_like(value, xp.inf), xp.zeros_like(value, dtype=xp.bool))
    at = _Ascent(start, *local, *new)
    noise = rounding_of(posterior)
    steps, concave = 0, False
    while steps < most:
        if steps >= FEW_STEPS and start.ndim == 2 and _at_most_half(~at.done):
            return _climb_rest(posterior, _Summit(at.white, at.value, at.hessian, at.done, steps), most)
        steps += 1
        definite = None if concave else _is_definite(-at.hessian)
        concave = definite is None or bool(xp.all(definite))
        step = _newton(-at.hessian, at.gradient) if concave else _uphill(-at.hessian, at.gradient, definite)
        gain = xp.vecdot(step, at.gradient)
        # Newton's gains fall by orders of magnitude; this close, one that does not is rounding itself
        still = (gain < CONVERGED) | ((gain < STALLED) & (gain > at.last / 16))
        at = replace(at, done=at.done | ((gain >= 0) & still))
        if bool(xp.all(at.done)):
            break
        at, better = _take_step(posterior, at, step, gain, noise)
        concave = concave and bool(xp.all(better | at.done))
    return _Summit(at.white, at.value, at.hessian, at.done, steps)


def _take_step(
    posterior: LogQuadratic, at: _Ascent, step: Float[Array, "*batch p"], gain: Float[Array, "*batch"], noise: Any
) -> tuple[_Ascent, Bool[Array, "*batch"]]:
    """Go as far along the step as is safe, where that gains; where it does not, cut the next one to a quarter."""
    xp = array_namespace(step)
    # never so far as to leap over the valley onto the other hill, which stands near the mirrored point
    reach = 0.5 * xp.sqrt(xp.vecdot(at.white, at.white)) + posterior.df**-0.5
    size = xp.sqrt(xp.vecdot(step, step))
    share = at.length * xp.where(size > reach, reach / xp.where(size > reach, size, 1.0), 1.0)
    trial = at.white + share[..., None] * step
    value, gradient, hessian = posterior.local(trial)
    # where the promised gain is below the rounding of ℓ, the gradient is the better judge
    better = (gain >= 0) & (value >= at.value - xp.where(gain < noise, noise, 0.0)) & ~at.done
    arrived = _Ascent(
        white=xp.where(better[..., None], trial, at.white),
        value=xp.where(better, value, at.value),
        gradient=xp.where(better[..., None], gradient, at.gradient),
        hessian=xp.where(better[..., None, None], hessian, at.hessian),
        length=xp.where(better, xp.minimum(2 * at.length, xp.ones_like(at.length)), at.length / 4),
        last=gain,
        done=at.done,
    )
    return arrived, better


def _at_most_half(flags: Bool[Array, " batch"]) -> bool:
    xp = array_namespace(flags)
    return 2 * int(xp.sum(xp.astype(flags, xp.int64))) <= flags.shape[0]


def _climb_rest(posterior: LogQuadratic, so_far: _Summit, most: int) -> _Summit:
    """Go on with those of a batch that have not arrived, without the others' weight."""
    xp = array_namespace(so_far.white)
    (late,) = xp.nonzero(~so_far.done)
    rest = _climb(posterior.take(late), xp.take(so_far.white, late, axis=0), most - so_far.steps)
    return _Summit(
        _put(so_far.done, so_far.white, rest.white),
        _put(so_far.done, so_far.value, rest.value),
        _put(so_far.done, so_far.hessian, rest.hessian),
        _put(so_far.done, so_far.done, rest.done),
        so_far.steps + rest.steps,
    )


def _put(kept: Bool[Array, " batch"], whole: Array, part: Array) -> Array:
    """Return `whole` with the rows that are not kept replaced by those of `part`, in order."""
    xp = array_namespace(whole)
    (early,), (late,) = xp.nonzero(kept), xp.nonzero(~kept)
    back = xp.argsort(xp.concat([early, late]))
    return xp.take(xp.concat([xp.take(whole, early, axis=0), part]), back, axis=0)


def _newton(bowl: Float[Array, "*batch p p"], gradient: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
    return solve_or_nan(bowl, gradient)


def _uphill(
    bowl: Float[Array, "*batch p p"], gradient: Float[Array, "*batch p"], definite: Bool[Array, "*batch"]
) -> Float[Array, "*batch p"]:
    """Return |B|⁻¹g: Newton's step B⁻¹g where B is positive definite, else uphill along all its axes."""
    xp = array_namespace(bowl)
    if bowl.ndim == 3 and bool(xp.any(definite)):
        # the axes are dear, and few need them
        (bent,) = xp.nonzero(~definite)
        step = _newton(xp.where(definite[:, None, None], bowl, eye(bowl.shape[-1], like=bowl)), gradient)
        few = [xp.take(array, bent, axis=0) for array in (bowl, gradient, definite)]
        return _put(definite, step, _uphill(*few))
    values, vectors = eigh_or_nan(bowl)
    size = xp.maximum(xp.abs(values), 1e-10 * xp.max(xp.abs(values), axis=-1, keepdims=True))
    along = (vectors.mT @ gradient[..., None]) / size[..., None]
    return (vectors @ along)[..., 0]


def _is_definite(matrix: Float[Array, "*batch p p"]) -> Bool[Array, "*batch"]:
    """Say which matrices are positive definite: those whose pivots all are. An eighth of the time of `eigh`."""
    xp = array_namespace(matrix)
    if is_torch_array(matrix):  # whose factorisation says so of each, in one call instead of many
        root, trouble = xp.linalg.cholesky_ex(matrix)
        return (trouble == 0) & xp.all(xp.isfinite(xp.linalg.diagonal(root)), axis=-1)
    if matrix.ndim == 2:  # one alone has a Cholesky factor, or an error that says that it has none
        return xp.all(matrix == matrix) & (attempt(xp.linalg.cholesky, matrix) is not None)
    definite = matrix[..., 0, 0] > 0
    while matrix.shape[-1] > 1:
        pivot = xp.where(definite, matrix[..., 0, 0], xp.inf)
        column = matrix[..., 1:, 0]
        matrix = matrix[..., 1:, 1:] - column[..., :, None] * (column / pivot[..., None])[..., None, :]
        definite = definite & (matrix[..., 0, 0] > 0)
    return definite


def rounding_of(posterior: LogQuadratic) -> Any:
    """Return the size of ℓ's own rounding, from the weights of the logarithms that are summed."""
    xp = array_namespace(posterior.weights)
    weights = xp.sum(xp.abs(posterior.weights), axis=-1)
    return 1e-15 * (1 + abs(posterior.outward) + weights)


def _same_place(one: _Summit, two: _Summit) -> Bool[Array, "*batch"]:
    xp = array_namespace(one.white)
    apart = one.white - two.white
    bent = xp.vecdot(apart, (one.hessian @ apart[..., None])[..., 0])
    return -bent < SAME_PLACE**2


def _choose(flags: Bool[Array, "*batch"], yes: _Summit, no: _Summit) -> _Summit:
    xp = array_namespace(flags)
    return _Summit(
        xp.where(flags[..., None], yes.white, no.white),
        xp.where(flags, yes.value, no.value),
        xp.where(flags[..., None, None], yes.hessian, no.hessian),
        xp.where(flags, yes.done, no.done),
        max(yes.steps, no.steps),
    )
