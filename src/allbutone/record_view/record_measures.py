"""What the adversary has learned of one record, beside what would be known of it without the release."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from allbutone.adversary.build import from_parameters, with_own_prior
from allbutone.adversary.one_target import Attack
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.measures import RADIUS, Effort, Measures, measure
from allbutone.disclosure.simulation import expected_exposure
from allbutone.integrals.importance_sampling import Intervals
from allbutone.integrals.posterior import Posterior
from allbutone.integrals.proposal import Points
from allbutone.integrals.several_missing import MissingPosterior
from allbutone.model.niw import NIW

# points of the integrals of two features, four times; each feature more, up to five, takes twice as many: of 150
# random attacks none was off by more than 0.01 nats of a gain and 0.012 of a mass
POINTS, MOST_DOUBLINGS = 128, 3
# what is the same for one record as for many
MEASURED = (
    "distance", "relative_error", "exposure", "mass", "mass_error", "prior_mass", "information_gain",
    "information_gain_error", "leverage",
)  # fmt: skip


@dataclass(frozen=True)
class RecordMeasures:
    """The measures of `risk`, each beside what would be known without the release.

    `exposure` and `relative_error` have the baselines 0 and 1. `law_exposure` is the expected exposure, by so many
    `simulated` releases or, where that is 0, by the closed form, as are `right_mode` and `threshold`. `mass_error`
    and `information_gain_error` are the standard errors of the integrals. `probability`: of each value within its
    tolerance, beside `baseline`, that without the release.
    """

    distance: float
    baseline_distance: float
    relative_error: float
    exposure: float
    law_exposure: float
    simulated: int
    mass: float
    mass_error: float
    prior_mass: float
    information_gain: float
    information_gain_error: float
    right_mode: float
    leverage: float
    threshold: float
    status: str
    probability: tuple[float, ...]
    probability_error: tuple[float, ...]
    baseline: tuple[float, ...]


@dataclass(frozen=True)
class Attribute:
    """One feature: the guess and its standard deviation, beside the guess and deviation without the release."""

    name: str
    true: float
    guess: float
    baseline: float
    deviation: float
    baseline_deviation: float


def measures_of(
    posterior: Posterior,
    found: Attack,
    target: Float[np.ndarray, " p"],
    given_others: NIW,
    alone: NIW,
    law: ExposureLaw,
    count: int,
    near: Intervals,
) -> RecordMeasures:
    """Measure what the first `count` datasets or draws tell of the target.

    `given_others`: the others as the mechanism sees them, `alone`: as an adversary does who ignores the release;
    the same object where the adversary has no prior of their own. `near`: where each value counts as known.
    """
    batch, before = posterior.as_batch(), None
    if alone is not given_others:
        # no draw at all leaves the holder's Student t alone, and the adversary's own replaces it
        p = posterior.p
        nothing = from_parameters(given_others, posterior.root, 0, np.zeros((p, p)), np.zeros(p))
        before = replace(with_own_prior(nothing, alone), outward=0.0, own_well=False).as_batch()
    # always the same points: nothing flickers while a slider moves
    effort = Effort(Points(), POINTS << min(max(posterior.p - 2, 0), MOST_DOUBLINGS))
    modes = posterior.modes.as_batch()
    measured = measure(batch, target[None], effort, radius=RADIUS, near=near, before=before, modes=modes)
    whole = recorded(measured, law, count, str(found.status))
    return replace(whole, baseline_distance=float(np.linalg.norm(alone.mean - target)))


def recorded(measured: Measures, law: ExposureLaw, count: int, status: str = "") -> RecordMeasures:
    """Return the first record's measures, with what is expected after so many datasets or draws."""
    leverage = float(measured.leverage[0])
    expected, simulated = expected_exposure(law, leverage, count)
    return RecordMeasures(
        **{name: float(getattr(measured, name)[0]) for name in MEASURED},
        baseline_distance=float(measured.baseline_distance[0]),
        law_exposure=expected,
        simulated=simulated,
        right_mode=float(law.right_mode(leverage, count)),
        threshold=float(law.threshold(leverage)),
        status=status,
        probability=tuple(measured.probability[0].tolist()),
        probability_error=tuple(measured.probability_error[0].tolist()),
        baseline=tuple(measured.baseline[0].tolist()),
    )


def attributes_of(
    names: Sequence[str], found: Attack, target: Float[np.ndarray, " p"], alone: NIW
) -> tuple[Attribute, ...]:
    """Set the guess of each feature beside the Student t of an adversary who ignores the release.

    The guess's deviation is that of the inverse curvature at the mode; the covariance of a Student t is δ/(δ − 2)
    times its scale.
    """
    return _attributes(names, target, found.mode, found.covariance, alone)


def sampled_attributes_of(
    names: Sequence[str], found: MissingPosterior, target: Float[np.ndarray, " p"]
) -> tuple[Attribute, ...]:
    """Set the guess of each feature of one of several missing records beside that without the release."""
    return _attributes(names, target, found.mode, found.covariance, found.others)


def _attributes(
    names: Sequence[str], target: np.ndarray, mode: np.ndarray, covariance: np.ndarray, alone: NIW
) -> tuple[Attribute, ...]:
    before = alone.predictive()
    wider = before.df / (before.df - 2) if before.df > 2 else np.inf
    after, ahead = np.diagonal(covariance), wider * np.diagonal(before.scale)
    columns = (target, mode, before.location, np.sqrt(after), np.sqrt(ahead))
    return tuple(Attribute(name, *map(float, of)) for name, *of in zip(names, *columns, strict=True))
