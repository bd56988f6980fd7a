"""Ways up a posterior: Newton's, many at once, from the exact maximum of a bound and the hill on a ray."""

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.support.arrays import all_true, array_namespace, eigh_or_nan, solve_definite

# Newton's way up a posterior, many at once: ℓ never falls, and no step leaps onto another hill.


Array = Any

MOST_STEPS = 100
# squared lengths of a Newton step, in posterior standard deviations
CLOSE = 1e-10  # which leads to the mode to ten digits
SAME_BEND = 1e-16  # and over which the Hessian keeps its first nine
STALLED = 1e-10  # where rounding allows no more: the mode to 1e-5 standard deviations
NEAR = 0.1  # of a summit that is known already
LEADS = 1 / 64  # of its own length that such a step misses the summit by: seven of eight parts of the way are gone


@runtime_checkable
class Surface(Protocol):
    """What can be climbed: many posteriors, each of which knows ℓ, its gradient and its Hessian at a point.

    `df`: ν‖v‖² is a squared Mahalanobis distance from the other records' centre. `rounding`: the size of ℓ's own.
    """

    @property
    def df(self) -> Any: ...  # noqa: D102
    @property
    def rounding(self) -> Any: ...  # noqa: D102
    def local(self, white: Any) -> tuple[Any, Any, Any]: ...  # noqa: D102
    def take(self, rows: Any) -> "Surface": ...  # noqa: D102


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
        arrays = {name: put_rows(places, array, rest._arrays[name]) for name, array in self._arrays.items()}
        return replace(self, **arrays, steps=max(self.steps, rest.steps))

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
    posterior: Surface, start: Float[Array, "*batch p"], beat: Any = None, known: Summit | None = None
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


def _ascend(posterior: Surface, at: _Ascent, steps: int) -> Summit:
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
    posterior: Surface, at: _Ascent, step: Float[Array, "*batch p"], gain: Float[Array, "*batch"], noise: Any
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


def _ascend_rest(posterior: Surface, at: _Ascent, steps: int) -> Summit:
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
        # the axes are expensive, and few need them
        (bent,) = xp.nonzero(~definite)
        few = [xp.take(array, bent, axis=0) for array in (bowl, gradient, step, definite)]
        return put_rows(places_of(definite), step, _uphill(*few))
    values, vectors = eigh_or_nan(bowl)
    size = xp.maximum(xp.abs(values), 1e-10 * xp.max(xp.abs(values), axis=-1, keepdims=True))
    along = (vectors.mT @ gradient[..., None]) / size[..., None]
    return (vectors @ along)[..., 0]


# The hill on the ray from the other records' centre through a point.


STEPS = 8
SHORT_STEP = 0.1  # of the length: the step that was so long ends nearer than the ray itself comes to a mode
NO_HILL = 0.3  # of the length: who is led so far back is led back to the centre


def best_on_ray(posterior: LogQuadratic, white: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
    """Return r·v with the r > 0 to which Newton's steps lead from r = 1, where ℓ is higher there.

    A step costs next to nothing beside one of many dimensions.
    """
    return _ratio(posterior, white)[..., None] * white


def hill_on_ray(posterior: LogQuadratic, white: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
    """Return the same, NaN where the steps lead back to the centre: there is no hill on the ray."""
    xp, ratio = array_namespace(white), _ratio(posterior, white)
    return xp.where(ratio < NO_HILL, xp.nan, ratio)[..., None] * white


def _ratio(posterior: LogQuadratic, white: Float[Array, "*batch p"]) -> Float[Array, "*batch"]:
    """Return the best r > 0 that Newton's steps lead to from r = 1, each doubling or halving it at most.

    On the ray each well is a function of two numbers, whatever the dimension:
    ℓ(rv) = ½·[ a·log(1 + cr²‖v‖²) − r²vᵀAv + 2r·bᵀv − Σⱼ wⱼ·log(gⱼ + r²·vᵀMⱼv − 2r·mⱼᵀv) ]
    """
    xp, weights = array_namespace(white), posterior.weights
    _, slopes = posterior.well_terms(white)
    linear = (posterior.slopes @ white[..., None])[..., 0]
    square = (slopes @ white[..., None])[..., 0] + linear
    grown = posterior.inflation * xp.vecdot(white, white)
    bend = xp.vecdot(white, (posterior.precision @ white[..., None])[..., 0])
    pull = xp.vecdot(posterior.pull, white)

    def places(r: Array) -> tuple[Array, Array]:
        slope = r[..., None] * square - linear
        return slope, posterior.levels + r[..., None] * (slope - linear)

    ratio = xp.ones_like(grown)
    slope, each = places(ratio)
    begin = each
    for _ in range(STEPS):
        strength = weights / each
        pulled = strength * slope
        outward = posterior.outward * grown / (1 + grown * ratio * ratio)
        first = (outward - bend) * ratio + pull - xp.sum(pulled, axis=-1)
        falling = 2 * outward * grown * ratio * ratio / (1 + grown * ratio * ratio)
        second = outward - falling - bend - xp.vecdot(strength, square) + 2 * xp.vecdot(pulled, slope / each)
        step = xp.where(second < 0, -first / second, xp.sign(first) * ratio)
        step = xp.clip(step / ratio, -0.5, 1.0)
        ratio = ratio * (1 + step)
        slope, each = places(ratio)
        if not bool(xp.any((xp.abs(step) > SHORT_STEP) & (ratio >= NO_HILL))):
            break
    higher = posterior.outward * xp.log((1 + grown * ratio * ratio) / (1 + grown))
    higher = higher - (ratio - 1) * ((ratio + 1) * bend - 2 * pull) - xp.vecdot(weights, xp.log(each / begin))
    return xp.where(higher > 0, ratio, 1.0)


# The exact maxima of a quadratic and one logarithm: the posterior after parameters, a bound after datasets.


ARRIVED = 1e-7  # the size of a step whose end has all digits, since Newton's steps square their error


@np.errstate(all="ignore")  # what is lost to rounding is NaN
def maximize_bound(
    outward: Any, inflation: Any, precision: Float[Array, "*#batch p p"], pull: Float[Array, "*#batch p"]
) -> Float[Array, "*batch p"]:
    """Return the global maximiser of a·log(1 + c‖v‖²) − vᵀAv + 2bᵀv for a > 0.

    With A = QΩQᵀ and β = Qᵀb the maximum is v = Q(Ω − τ)⁻¹β at the one root of the increasing function
    τ·(1 + c·Σ βᵢ²/(ωᵢ − τ)²) = a·c on 0 < τ < min(a·c, ω₁): on each sphere the best value is concave in its
    squared radius, and so is the log, hence there is no second maximum to be trapped in.
    The search runs over log δ, δ = ω₁ − τ, where the pole at δ = 0 is a straight line. If β has no component on
    the lowest eigenvector the two modes tie; a component too small to matter breaks the tie.
    """
    omega, beta, vectors = _axes(precision, pull)
    return _place(omega, beta, vectors, _pole_distance(outward, inflation, omega, beta, 1))


@np.errstate(all="ignore")  # what is lost to rounding is NaN
def both_maxima(
    outward: Any, inflation: Any, precision: Float[Array, "*#batch p p"], pull: Float[Array, "*#batch p"]
) -> tuple[Float[Array, "*batch p"], Float[Array, "*batch p"]]:
    """Return the global maximiser and the other one, the same again where there is no other.

    Where ∇ = 0, v = Q(Ω − τ)⁻¹β with φ(τ) = τ·(1 + c·Σ βᵢ²/(ωᵢ − τ)²) = a·c. With B = Ω − τ the negative Hessian
    is B + 2(τc/(1 + c‖v‖²))·vvᵀ, and its determinant |B|·φ′/(1 + c‖v‖²). One direction alone can be mended by vvᵀ,
    so beside the global maximum only ω₁ < τ < ω₂ with φ′ < 0 is a maximum. There φ is convex (each τ/(ω − τ)²
    is), so it falls through a·c once at most: there is one other maximum or none.
    """
    xp = array_namespace(precision, pull)
    omega, beta, vectors = _axes(precision, pull)
    best = _place(omega, beta, vectors, _pole_distance(outward, inflation, omega, beta, 1))
    other = _place(omega, beta, vectors, _pole_distance(outward, inflation, omega, beta, -1))
    return best, xp.where(xp.isnan(other), best, other)


@np.errstate(all="ignore")  # what is lost to rounding is NaN
def opposite_maximum(
    outward: Any,
    inflation: Any,
    precision: Float[Array, "*batch p p"],
    pull: Float[Array, "*batch p"],
    known: Float[Array, "*batch p"],
) -> Float[Array, "*batch p"]:
    """Return the other one of `both_maxima` where `known` is near the global one, NaN where there is none.

    They stand on both sides along the lowest eigenvector. Where they all but tie, `known` may be near the other
    one; then β₁ is taken with its sign turned around, which leads to the global one's side, if not quite to it.
    """
    xp = array_namespace(precision, pull)
    omega, beta, vectors = _axes(precision, pull)
    lowest = xp.copysign(beta[..., :1], xp.vecdot(vectors[..., 0], known)[..., None])
    beta = xp.concat([lowest, beta[..., 1:]], axis=-1)
    return _place(omega, beta, vectors, _pole_distance(outward, inflation, omega, beta, -1))


def _axes(
    precision: Float[Array, "*#batch p p"], pull: Float[Array, "*#batch p"]
) -> tuple[Float[Array, "*#batch p"], Float[Array, "*#batch p"], Float[Array, "*#batch p p"]]:
    """Return Ω, β and Q, with some component on the lowest eigenvector."""
    xp = array_namespace(precision, pull)
    omega, vectors = eigh_or_nan(precision)
    beta = (vectors.mT @ pull[..., None])[..., 0]
    size = xp.max(xp.abs(beta), axis=-1) + xp.sqrt(omega[..., 0])
    faint = 1e-100 * size
    lowest = xp.where(xp.abs(beta[..., 0]) > faint, beta[..., 0], faint)
    return omega, xp.concat([lowest[..., None], beta[..., 1:]], axis=-1), vectors


def _place(omega: Array, beta: Array, vectors: Array, delta: Array) -> Array:
    """Return v = Q(Ω − τ)⁻¹β, τ = ω₁ − δ."""
    above = omega - omega[..., :1]
    return (vectors @ (beta / (above + delta[..., None]))[..., None])[..., 0]


def _pole_distance(
    outward: Any, inflation: Any, omega: Float[Array, "*#batch p"], beta: Float[Array, "*#batch p"], side: int
) -> Float[Array, "*batch"]:
    """Solve log(1 + c·ρ(δ)) + log(ω₁ − δ) = log(a·c) for δ, by Newton in log |δ| inside a shrinking bracket.

    `side` 1: the one root with δ > 0. `side` −1: the root next to the pole with δ < 0, NaN where there is none;
    there the left side is convex in log |δ|, and Newton begins left of the root: a step that leads out finds none.
    """
    xp = array_namespace(omega, beta)
    first, above, squares = omega[..., 0], omega - omega[..., :1], beta * beta
    target = outward * inflation
    low, high = _bracket(outward, inflation, omega, beta, side)
    position = low if side > 0 else xp.where(low < high, low, xp.nan)
    for _ in range(MOST_STEPS):
        delta = side * xp.exp(position)
        near = 1 / (above + delta[..., None])
        parts = squares * near * near
        rho = xp.sum(parts, axis=-1)
        tau = xp.maximum(first - delta, 1e-300 * first)
        excess = xp.log1p(inflation * rho) + xp.log(tau / target)
        slope = -2 * inflation * xp.vecdot(parts, near) / (1 + inflation * rho) - 1 / tau
        low, high = xp.where(excess > 0, position, low), xp.where(excess > 0, high, position)
        step = -excess / (delta * slope)
        arrived = xp.abs(step) <= ARRIVED * (1 + xp.abs(position))
        following = position + step
        outside = (low + high) / 2 if side > 0 else xp.nan
        position = xp.where(arrived | ((following > low) & (following < high)), following, outside)
        if bool(xp.all(arrived | xp.isnan(position))):
            break
    return side * xp.exp(position)


def _bracket(
    outward: Any, inflation: Any, omega: Float[Array, "*#batch p"], beta: Float[Array, "*#batch p"], side: int
) -> tuple[Float[Array, "*#batch"], Float[Array, "*#batch"]]:
    """Return bounds of log |δ|; the lower one is near the root where the lowest eigenvector alone matters."""
    xp, first = array_namespace(omega, beta), omega[..., 0]
    size = xp.abs(beta[..., 0])
    room = outward * inflation - first
    if side > 0:
        low = xp.minimum(first / 2, size * xp.sqrt(first / (2 * outward)))
        return xp.log(xp.where(-room > low, -room, low)), xp.log(first)
    low = size * xp.sqrt(first * inflation / room)
    return xp.log(low), xp.log(room if omega.shape[-1] == 1 else xp.minimum(room, omega[..., 1] - first))
