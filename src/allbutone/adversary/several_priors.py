"""Releases of one table that were made with different priors, attacked together."""

from dataclasses import replace
from typing import Any

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.wells import chain_wells
from allbutone.support.arrays import array_namespace, as_array, eye, zeros

Array = Any


def with_another_prior(whole: LogQuadratic, part: LogQuadratic) -> LogQuadratic:
    """Add what releases of another prior say; `part` is the posterior after those alone, batch axes lead.

    ℓ + log p_r(x | X₋, releases) − log p_r(x | X₋): the part's own Student t is taken out again, so its outward
    term is (number of releases)·ν′_r·log(1 + c_r‖v_r‖²). It becomes a well of negative weight, and quadratic and
    wells move to the whole's coordinates, v_r = Tv + s. Both have one ν and one κ for all targets. The new wells
    stand before those there are, of which the last may be the adversary's own prior.
    """
    xp, batch, p = array_namespace(whole.centre), whole.centre.shape[:-1], whole.p
    push = as_array([-(part.outward + part.df + 1.0)], like=whole.centre)
    levels = chain_wells(batch, part.levels, xp.ones_like(push), 0)
    slopes = chain_wells(batch, part.slopes, zeros((1, p), like=push), 1)
    shapes = chain_wells(batch, part.shapes, part.inflation * eye(p, like=push)[None, :, :], 2)
    turn, shift = xp.linalg.solve(part.root, whole.root), part.whiten(whole.centre)
    back = turn.mT
    bent = (shapes @ shift[..., None, :, None])[..., 0]
    pull = part.pull - (part.precision @ shift[..., None])[..., 0]
    return replace(
        whole,
        precision=whole.precision + back @ part.precision @ turn,
        pull=whole.pull + (back @ pull[..., None])[..., 0],
        weights=xp.concat([part.weights, push, whole.weights]),
        levels=chain_wells(batch, levels + xp.vecdot(bent - 2 * slopes, shift[..., None, :]), whole.levels, 0),
        slopes=chain_wells(batch, (slopes - bent) @ turn, whole.slopes, 1),
        shapes=chain_wells(batch, back[..., None, :, :] @ shapes @ turn[..., None, :, :], whole.shapes, 2),
    )
