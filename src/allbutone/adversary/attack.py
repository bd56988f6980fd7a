"""The attack: infer the missing record, exactly, and say how far rounding can have moved it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.build import posterior_of
from allbutone.adversary.log_quadratic import LogQuadratic, times
from allbutone.adversary.modes import TIE, Modes, find_modes
from allbutone.adversary.who import Adversary, Reading, admit, known_values
from allbutone.model.moments import Moments
from allbutone.model.prior import AnyPrior
from allbutone.releases.folder import AnyRelease
from allbutone.support.arrays import all_true, append_axes, array_namespace, as_array, inverse_or_nan, to_numpy

# How far rounding to sixteen digits can have moved a mode.


Array = Any

EPSILON = 2.0**-52
NEGLIGIBLE = 1e-9  # a relative error of the matrices that moves no mode by a thousandth of a deviation


def mode_error(
    problem: LogQuadratic, modes: Modes, covariance: Float[Array, "*batch p p"], whole: LogQuadratic
) -> Float[Array, "*batch"]:
    """Return about how many posterior standard deviations rounding can have moved the mode; NaN if nobody knows.

    Λ and the released covariances are held to a relative error ε, and solving with them multiplies it by their
    inflation factor f. So each term of ∇ℓ, which cancel at the mode, is off by δg = εf·|term|, and the mode by
    (−∇²ℓ)⁻¹δg; besides, the centre itself is off by ε|centre|. `whole` is the problem before features were known,
    `covariance` (−∇²ℓ)⁻¹ at the mode.
    """
    xp = array_namespace(covariance)
    inverse = inverse_or_nan(problem.root)
    moved = EPSILON * times(xp.abs(inverse), xp.abs(problem.centre))
    error = xp.sqrt(_form(xp.abs(modes.hessian), moved))
    share = EPSILON * (1 + _inflation(whole, inverse if whole is problem else inverse_or_nan(whole.root)))
    if all_true(share < NEGLIGIBLE):
        return error
    return error + share * xp.sqrt(_form(xp.abs(covariance), _terms(problem, modes.best)))


def _inflation(problem: LogQuadratic, inverse: Float[Array, "*#batch p p"]) -> Float[Array, "*#batch"]:
    """Return the largest Λᵢᵢ(Λ⁻¹)ᵢᵢ, a column's variance over its variance given all others; and the release's.

    A matrix in float64 knows each column to a relative error ε of its whole variance, so what is left of it beside
    the other columns it knows to ε times this factor.
    """
    xp, root, precision = array_namespace(problem.root), problem.root, problem.precision
    factor = xp.max(xp.vecdot(root, root) * xp.vecdot(inverse, inverse, axis=-2), axis=-1)
    if not problem.has_quadratic:
        return factor
    narrow = xp.vecdot(inverse, precision @ inverse, axis=-2)
    wide = xp.vecdot(root @ inverse_or_nan(precision), root)
    return factor + xp.max(xp.abs(narrow * wide), axis=-1)


def _terms(problem: LogQuadratic, white: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
    """Return the sum of the absolute terms of ∇ℓ; a well's |M||v| from its diagonal, M being positive."""
    xp = array_namespace(white)
    size = xp.abs(white)
    squared = xp.vecdot(white, white)
    tau = problem.outward * problem.inflation / (1 + problem.inflation * squared)
    terms = append_axes(tau, 1) * size + times(xp.abs(problem.precision), size) + xp.abs(problem.pull)
    strength = xp.abs(problem.strengths(white))
    diagonal = xp.sqrt(xp.abs(xp.linalg.diagonal(problem.shapes)))
    along = xp.vecdot(diagonal, size[..., None, :])
    wells = (strength * along)[..., None] * diagonal + strength[..., None] * xp.abs(problem.slopes)
    return terms + xp.sum(wells, axis=-2)


def _form(matrix: Float[Array, "*#batch p p"], vector: Float[Array, "*#batch p"]) -> Float[Array, "*#batch"]:
    return array_namespace(vector).vecdot(vector, times(matrix, vector))


# The attack: infer the missing record, exactly.


ACCURATE = 1e-3  # posterior standard deviations that rounding may move a mode


@dataclass(frozen=True, eq=False)
class Attack:
    """What the adversary concludes; for many targets every field has a leading axis.

    `mode`: the most probable record, in the release's column order. `other_mode`: the second hill, usually the
    mirror image, NaN where there is none. `log_posterior_gap`: how much lower it is. `covariance`: the inverse
    curvature at the mode.
    `status`: "global" (proven: released parameters), "converged" (released datasets: a maximum, the better of the
    two hills), "tie" (the release cannot tell the two modes apart), "limited by rounding" (sixteen digits leave
    the mode uncertain by more than a thousandth of a posterior standard deviation), "averaged" (a table with gaps:
    over draws of what is missing, and neither `other_mode` nor `covariance` is told) or "not converged".
    `cells`, where there are categories or gaps: a dataframe with what is believed of each combination of levels.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> guessed = abo.attack(cohort.values[1:], release)
    >>> guessed.mode.shape, guessed.covariance.shape
    ((5,), (5, 5))
    """

    mode: Float[Array, "*batch p"]
    other_mode: Float[Array, "*batch p"]
    log_posterior_gap: Array
    covariance: Float[Array, "*batch p p"]
    status: Any
    iterations: int
    cells: Any = None

    def in_numpy(self) -> "Attack":
        """Return the same as NumPy's arrays, from whatever device they are on."""
        return replace(
            self,
            mode=to_numpy(self.mode),
            other_mode=to_numpy(self.other_mode),
            log_posterior_gap=to_numpy(self.log_posterior_gap),
            covariance=to_numpy(self.covariance),
        )


def attack_missing(
    others: Any, release: AnyRelease, adversary: Adversary, prior: AnyPrior | None, reading: Reading
) -> Attack:
    """Infer the one record missing from `others`."""
    values, released, taken, own = admit(others, release, adversary, prior, reading)
    whole = posterior_of(Moments.of(values), released, taken, own)
    positions, known = known_values(adversary, released)
    target = whole.given(positions, as_array(known, like=whole.centre)) if positions else whole
    result = describe(target, find_modes(target), whole)
    return with_known(result, positions, known, released.p) if positions else result


@np.errstate(all="ignore")  # NaN where rounding has left nothing
def describe(problem: LogQuadratic, modes: Modes, whole: LogQuadratic | None = None) -> Attack:
    """Return what the modes say, in the records' coordinates; `whole`: the problem before features were known."""
    curvature = inverse_or_nan(-modes.hessian)
    clear = to_numpy(mode_error(problem, modes, curvature, whole or problem) <= ACCURATE)
    tie, converged = to_numpy(modes.gap < TIE + 10 * problem.rounding), to_numpy(modes.converged)
    return Attack(
        mode=problem.unwhiten(modes.best),
        other_mode=problem.unwhiten(modes.other),
        log_posterior_gap=modes.gap,
        covariance=problem.root @ curvature @ problem.root.mT,
        status=_status(converged, clear, tie, "converged" if problem.wells else "global"),
        iterations=modes.steps,
    )


def _status(converged: np.ndarray, clear: np.ndarray, tie: np.ndarray, sure: str) -> Any:
    """Return what is to be said of each attack, or of the one."""
    if not converged.ndim:
        return "not converged" if not converged else "limited by rounding" if not clear else "tie" if tie else sure
    status = np.where(clear, np.where(tie, "tie", sure), "limited by rounding")
    return np.where(converged, status, "not converged")


def with_known(result: Attack, known: tuple[int, ...], values: Array, p: int) -> Attack:
    """Put the known features back in their places; there is no doubt about them, so no covariance."""
    xp = array_namespace(result.mode)
    values = as_array(values, like=result.mode)
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
