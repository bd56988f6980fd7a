"""What the adversary has learned of one record, beside what would be known of it without the release."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from allbutone.adversary.build import from_parameters, with_own_prior
from allbutone.adversary.exact_integrals import (
    Learned,
    exposure_of,
    information_gain,
    integrate_many,
    prior_mass,
    relative_error,
)
from allbutone.adversary.importance_sampling import same_points
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes, find_modes
from allbutone.adversary.one_target import Attack
from allbutone.adversary.posterior import Posterior
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.per_record import RADIUS
from allbutone.model.niw import NIW

# points of the integrals of two features, four times; each feature more, up to five, takes twice as many: of 150
# random attacks none was off by more than 0.01 nats of a gain and 0.012 of a mass
POINTS, REPLICATES, MOST_DOUBLINGS = 128, 4, 3
# four replicates know their own spread poorly: Student's t with three degrees of freedom, not a normal
WIDER = 1.2


@dataclass(frozen=True)
class Measures:
    """The measures of `risk`, each beside what would be known without the release.

    `exposure` and `relative_error` have the baselines 0 and 1. `law_exposure`, `right_mode` and `threshold` are
    the law's. `mass_error` and `information_gain_error` are the standard errors of the integrals: two of three
    errors are smaller, one of twenty is more than three times as large.
    """

    distance: float
    baseline_distance: float
    relative_error: float
    exposure: float
    law_exposure: float
    mass: float
    mass_error: float
    prior_mass: float
    information_gain: float
    information_gain_error: float
    right_mode: float
    leverage: float
    threshold: float
    status: str


@dataclass(frozen=True)
class Attribute:
    """One feature: the guess and its standard deviation, beside the guess and deviation without the release."""

    name: str
    true: float
    guess: float
    baseline: float
    deviation: float
    baseline_deviation: float


def leverage_of(posterior: LogQuadratic, target: Float[np.ndarray, " p"]) -> float:
    """Return the record's leverage q = c·(x − μ₋)ᵀΛ₋⁻¹(x − μ₋) = c‖v‖²."""
    white = posterior.whiten(target)
    return float(posterior.inflation * (white @ white))


def measures_of(
    posterior: Posterior,
    found: Attack,
    target: Float[np.ndarray, " p"],
    crowd: NIW,
    alone: NIW,
    law: ExposureLaw,
    count: int,
) -> Measures:
    """Measure what the first `count` datasets or draws tell of the target.

    `crowd`: the others as the mechanism sees them, `alone`: as an adversary does who ignores the release; the same
    object where the adversary has no prior of their own.
    """
    truth, best = posterior.whiten(target)[None], posterior.modes.best[None]
    leverage, after = leverage_of(posterior, target), _integrated(posterior, posterior.modes, truth)
    assert after.mass is not None
    assert after.mass_error is not None
    gain, gain_error, mass_before = _beside(posterior, truth, after, crowd, alone)
    return Measures(
        distance=float(np.linalg.norm(found.mode - target)),
        baseline_distance=float(np.linalg.norm(alone.mean - target)),
        relative_error=float(relative_error(best, truth)[0]),
        exposure=float(exposure_of(best, truth)[0]),
        law_exposure=float(law.exposure(leverage, count)),
        mass=float(after.mass[0]),
        mass_error=WIDER * float(after.mass_error[0]),
        prior_mass=mass_before,
        information_gain=gain,
        information_gain_error=WIDER * gain_error,
        right_mode=float(law.right_mode(leverage, count)),
        leverage=leverage,
        threshold=float(law.threshold(leverage)),
        status=found.status,
    )


def _integrated(problem: LogQuadratic, modes: Modes, truth: Float[np.ndarray, "1 p"]) -> Learned:
    points = POINTS << min(max(problem.p - 2, 0), MOST_DOUBLINGS)
    # always the same points: nothing flickers while a slider moves
    source = same_points()
    return integrate_many(problem.as_batch(), modes.as_batch(), truth, RADIUS, source, points, REPLICATES)


def _beside(
    posterior: Posterior, truth: Float[np.ndarray, "1 p"], after: Learned, crowd: NIW, alone: NIW
) -> tuple[float, float, float]:
    """Return the information gained at the truth, its error, and the mass near the truth without the release."""
    batch, error = posterior.as_batch(), float(after.log_total_error[0])
    if alone is crowd:
        gain = information_gain(batch, truth, after.log_total)
        return float(gain[0]), error, float(prior_mass(batch, truth, RADIUS)[0])
    # no draw at all leaves the holder's Student t alone, and the adversary's own replaces it
    p = posterior.p
    nothing = from_parameters(crowd, posterior.root, 0, np.zeros((p, p)), np.zeros(p))
    prior = replace(with_own_prior(nothing, alone), outward=0.0, own_well=False)
    before = _integrated(prior, find_modes(prior), truth)
    assert before.mass is not None
    gain = batch.value(truth) - after.log_total - (prior.value(truth) - before.log_total)
    return float(gain[0]), float(np.hypot(error, before.log_total_error[0])), float(before.mass[0])


def attributes_of(
    names: Sequence[str], found: Attack, target: Float[np.ndarray, " p"], alone: NIW
) -> tuple[Attribute, ...]:
    """Set the guess of each feature beside the Student t of an adversary who ignores the release.

    The guess's deviation is that of the inverse curvature at the mode; the covariance of a Student t is δ/(δ − 2)
    times its scale.
    """
    before = alone.predictive()
    wider = before.df / (before.df - 2) if before.df > 2 else np.inf
    after, ahead = np.diagonal(found.covariance), wider * np.diagonal(before.scale)
    columns = (target, found.mode, before.location, np.sqrt(after), np.sqrt(ahead))
    return tuple(Attribute(name, *map(float, of)) for name, *of in zip(names, *columns, strict=True))
