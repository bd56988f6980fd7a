"""Newton's way up a posterior, many at once: ℓ never falls, and no step leaps onto another hill."""

from dataclasses import dataclass, fields, replace
from typing import Any

from jaxtyping import Bool, Float

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.support.arrays import all_true, array_namespace, eigh_or_nan
from allbutone.support.definite import solve_definite

Array = Any

MOST_STEPS = 100
# squared lengths of a Newton step, in posterior standard deviations
CLOSE = 1e-10  # which leads to the mode to ten digits
SAME_BEND = 1e-16  # and over which the Hessian keeps its first nine
STALLED = 1e-10  # where rounding allows no more: the mode to 1e-5 standard deviations
NEAR = 0.1  # of a summit that is known already
LEADS = 1 / 64  # of its own length that such a step misses the summit by: seven of eight parts of the way are gone


@dataclass(frozen=True)
class Summit:
    """Where a climb ended, ℓ and its Hessian there (or where the last step began), and whether it arrived."""

    white: Any
    value: Any
    hessian: Any
    done: Any
    steps: int

    def take(self, rows: Any) -> "Summit":
        """Return the summits at these positions of the one batch axis."""
        xp = array_namespace(self.white)
        return replace(self, **{name: xp.take(array, rows, axis=0) for name, array in self._arrays.items()})

    def with_rest(self, kept: Bool[Array, " batch"], rest: "Summit") -> "Summit":
        """Return the same with the summits that are not kept replaced, in order."""
        places = places_of(kept)
        found = {name: put_rows(places, array, rest._arrays[name]) for name, array in self._arrays.items()}
        return replace(self, **found, steps=max(self.steps, rest.steps))

    @property
    def _arrays(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "steps"}


@dataclass(frozen=True)
class _Ascent:
    """Where a climb stands: the place, ℓ there, the share of a step to take, the gain of the last one.

    `beat`: the height of a summit, below which a climb is of no use; None where every summit is wanted.
    `known`, `bend`: a summit that was climbed before, and the Hessian there.
    """

    white: Any
    value: Any
    gradient: Any
    hessian: Any
    length: Any
    last: Any
    done: Any
    beat: Any = None
    known: Any = None
    bend: Any = None

    def take(self, rows: Any) -> "_Ascent":
        """Return the climbs at these positions of the one batch axis."""
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        xp = array_namespace(self.white)
        return _Ascent(**{name: None if a is None else xp.take(a, rows, axis=0) for name, a in held.items()})


def climb(
    posterior: LogQuadratic, start: Float[Array, "*batch p"], beat: Any = None, known: Summit | None = None
) -> Summit:
    """Climb to a mode by Newton steps; of a batch, with `beat`, only as long as that height is in reach.

    Newton's steps square their error, so the last one is taken without another look. Who only wants to beat a
    height needs no Hessian, and takes it earlier. A climb that is seen to lead to the summit `known` ends there.
    """
    xp = array_namespace(start)
    finite = xp.isfinite(start)
    if not all_true(finite):  # what rounding left no start
        start = xp.where(xp.all(finite, axis=-1)[..., None], start, 0.0)
    local = posterior.local(start)
    value = local[0]
    new = (xp.ones_like(value), xp.full_like(value, xp.inf), xp.zeros_like(value, dtype=xp.bool))
    before = (None, None)
    if known is not None:  # where that climb arrived
        before = (xp.where(known.done[..., None], known.white, xp.nan), known.hessian)
    return _ascend(posterior, _Ascent(start, *local, *new, beat, *before), 0)


def _ascend(posterior: LogQuadratic, at: _Ascent, steps: int) -> Summit:
    xp, noise = array_namespace(at.white), posterior.rounding
    last = SAME_BEND if at.beat is None else CLOSE
    while steps < MOST_STEPS:
        steps += 1
        step, definite = solve_definite(-at.hessian, at.gradient)
        if not bool(xp.all(definite | at.done)):
            step = _uphill(-at.hessian, at.gradient, step, definite | at.done)
        gain = xp.vecdot(step, at.gradient)
        # Newton's gains fall by orders of magnitude; this close, one that does not is rounding itself
        close = (gain >= 0) & (gain < last) & ~at.done
        arrived = at.done | close | ((gain >= 0) & (gain < STALLED) & (gain > at.last / 16))
        if at.beat is not None:
            # even at four times Newton's promise, gain/2, and up to a nat more
            most = at.value + 2 * gain + xp.minimum(10 * gain, xp.ones_like(gain))
            arrived = arrived | (definite & (most < at.beat))
        if bool(xp.any(close)):
            at = replace(at, white=xp.where(close[..., None], at.white + step, at.white))
        if at.known is not None:
            leads = ~arrived & definite & _leads_to_known(at, step, gain)
            at, arrived = replace(at, white=xp.where(leads[..., None], at.known, at.white)), arrived | leads
        at = replace(at, done=arrived)
        if bool(xp.all(arrived)):
            break
        if at.white.ndim == 2 and _many(arrived):
            return _ascend_rest(posterior, at, steps - 1)
        at = _take_step(posterior, at, step, gain, noise)
    return Summit(at.white, at.value, at.hessian, at.done, steps)


def _leads_to_known(
    at: _Ascent, step: Float[Array, "*batch p"], gain: Float[Array, "*batch"]
) -> Bool[Array, "*batch"]:
    """Say whether Newton has come near the summit that is known and his step leads there, as only to the nearest.

    Between two summits that are all but one, which no bend tells apart, it would miss the known one by more.
    """
    xp, missed = array_namespace(step), at.white + step - at.known
    return (gain < NEAR) & (-xp.vecdot(missed, (at.bend @ missed[..., None])[..., 0]) < LEADS * gain)


def _take_step(
    posterior: LogQuadratic, at: _Ascent, step: Float[Array, "*batch p"], gain: Float[Array, "*batch"], noise: Any
) -> _Ascent:
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
    longer = xp.minimum(2 * at.length, xp.ones_like(at.length))
    if bool(xp.all(better)):
        return replace(at, white=trial, value=value, gradient=gradient, hessian=hessian, length=longer, last=gain)
    return replace(
        at,
        white=xp.where(better[..., None], trial, at.white),
        value=xp.where(better, value, at.value),
        gradient=xp.where(better[..., None], gradient, at.gradient),
        hessian=xp.where(better[..., None, None], hessian, at.hessian),
        length=xp.where(better, longer, at.length / 4),
        last=gain,
    )


def _many(arrived: Bool[Array, " batch"]) -> bool:
    """Say whether a third of a batch has arrived: the others then go on without the weight of these."""
    xp = array_namespace(arrived)
    return 3 * int(xp.sum(xp.astype(arrived, xp.int64))) >= arrived.shape[0]


def _ascend_rest(posterior: LogQuadratic, at: _Ascent, steps: int) -> Summit:
    """Go on with those of a batch that have not arrived, without the others' weight."""
    xp = array_namespace(at.white)
    (late,) = xp.nonzero(~at.done)
    rest = _ascend(posterior.take(late), at.take(late), steps)
    return Summit(at.white, at.value, at.hessian, at.done, steps).with_rest(at.done, rest)


def places_of(kept: Bool[Array, " batch"]) -> tuple[Array, Array]:
    """Return where those stand who are kept, and where everyone will once the others have been put behind them."""
    xp = array_namespace(kept)
    (early,), (late,) = xp.nonzero(kept), xp.nonzero(~kept)
    return early, xp.argsort(xp.concat([early, late]))


def put_rows(places: tuple[Array, Array], whole: Array, part: Array) -> Array:
    """Return `whole` with the rows that are not kept replaced by those of `part`, in order."""
    xp, (early, back) = array_namespace(whole), places
    return xp.take(xp.concat([xp.take(whole, early, axis=0), part]), back, axis=0)


def _uphill(
    bowl: Float[Array, "*batch p p"],
    gradient: Float[Array, "*batch p"],
    step: Float[Array, "*batch p"],
    definite: Bool[Array, "*batch"],
) -> Float[Array, "*batch p"]:
    """Return |B|⁻¹g: Newton's step B⁻¹g where B is positive definite, else uphill along all its axes."""
    xp = array_namespace(bowl)
    if bowl.ndim == 3 and bool(xp.any(definite)):
        # the axes are dear, and few need them
        (bent,) = xp.nonzero(~definite)
        few = [xp.take(array, bent, axis=0) for array in (bowl, gradient, step, definite)]
        return put_rows(places_of(definite), step, _uphill(*few))
    values, vectors = eigh_or_nan(bowl)
    size = xp.maximum(xp.abs(values), 1e-10 * xp.max(xp.abs(values), axis=-1, keepdims=True))
    along = (vectors.mT @ gradient[..., None]) / size[..., None]
    return (vectors @ along)[..., 0]
