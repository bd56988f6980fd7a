"""The attack: infer the missing record, exactly."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from jaxtyping import Float

from allbutone.adversary import Reading, Statistics, from_statistics, log_posterior, split_known
from allbutone.logquadratic import LogQuadratic
from allbutone.maximize import TIE, Modes, find_modes, rounding_of
from allbutone.niw import NIW
from allbutone.release import Release

Array = Any


@dataclass(frozen=True)
class Attack:
    """What the adversary concludes; for many targets every field has a leading axis.

    `mode`: the most probable record. `other_mode`: the second hill, usually the mirror image, NaN where there is
    none. `log_posterior_gap`: how much lower it is. `covariance`: the inverse curvature at the mode.
    `status`: "global" (proven: released parameters), "converged" (released datasets: a maximum, the better of the
    two hills), "tie" (the release cannot tell the two modes apart) or "not converged".
    """

    mode: Float[Array, "*batch p"]
    other_mode: Float[Array, "*batch p"]
    log_posterior_gap: Array
    covariance: Float[Array, "*batch p p"]
    status: Any
    iterations: int


def attack(
    others: Any,
    release: Release,
    prior: NIW,
    *,
    known: Any = None,
    adversary_prior: NIW | None = None,
    reading: Reading = "record",
) -> Attack:
    """Infer the one record missing from `others`; the arguments are those of `posterior`."""
    target = log_posterior(others, release, prior, known=known, adversary_prior=adversary_prior, reading=reading)
    result = describe(target, find_modes(target))
    if known is None:
        return result
    positions, values = split_known(known, prior.p)
    return with_known(result, positions, np.asarray(values), prior.p)


def attack_many(crowd: NIW, released: Statistics) -> Attack:
    """Attack many targets of many tables at once, from sufficient statistics (see `from_statistics`).

    `crowd` has one batch axis: each adversary's own posterior. For simulation studies.
    """
    problem = from_statistics(crowd, released)
    return describe(problem, find_modes(problem))


def describe(problem: LogQuadratic, modes: Modes) -> Attack:
    """Return what the modes say, in the records' own coordinates."""
    xp = array_namespace(modes.best)
    curvature = xp.linalg.inv(-modes.hessian)
    covariance = problem.root @ curvature @ xp.matrix_transpose(problem.root)
    sure = "converged" if problem.wells else "global"
    tie, converged = np.asarray(modes.gap < TIE + 10 * rounding_of(problem)), np.asarray(modes.converged)
    status = np.where(converged, np.where(tie, "tie", sure), "not converged")
    return Attack(
        mode=problem.unwhiten(modes.best),
        other_mode=problem.unwhiten(modes.other),
        log_posterior_gap=modes.gap,
        covariance=covariance,
        status=status if status.ndim else str(status),
        iterations=modes.steps,
    )


def with_known(result: Attack, known: tuple[int, ...], values: Array, p: int) -> Attack:
    """Put the known features back in their places; there is no doubt about them, so no covariance."""
    xp = array_namespace(result.mode)
    values = xp.asarray(values)
    unknown = [position for position in range(p) if position not in known]

    def filled(record: Array) -> Array:
        columns = {position: record[..., place] for place, position in enumerate(unknown)}
        columns |= {position: values[..., place] for place, position in enumerate(known)}
        return xp.stack([columns[position] + 0 * record[..., 0] for position in range(p)], axis=-1)

    nothing = 0 * result.covariance[..., 0, 0]
    places = {position: place for place, position in enumerate(unknown)}
    cells = [
        result.covariance[..., places[i], places[j]] if i in places and j in places else nothing
        for i in range(p)
        for j in range(p)
    ]
    covariance = xp.reshape(xp.stack(cells, axis=-1), (*nothing.shape, p, p))
    return replace(result, mode=filled(result.mode), other_mode=filled(result.other_mode), covariance=covariance)
