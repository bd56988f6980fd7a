"""The hill on the ray from the other records' centre through a point."""

from typing import Any

from jaxtyping import Float

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.support.arrays import array_namespace

Array = Any

STEPS = 8
CLOSE = 0.1  # of the length: the step that was so long ends nearer than the ray itself comes to a mode
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
        if not bool(xp.any((xp.abs(step) > CLOSE) & (ratio >= NO_HILL))):
            break
    higher = posterior.outward * xp.log((1 + grown * ratio * ratio) / (1 + grown))
    higher = higher - (ratio - 1) * ((ratio + 1) * bend - 2 * pull) - xp.vecdot(weights, xp.log(each / begin))
    return xp.where(higher > 0, ratio, 1.0)
