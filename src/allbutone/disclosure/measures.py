"""What the adversary has learned of records whose truth we know, for many posteriors at once."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import chndtr, gammaincinv, gammaln, roots_genlaguerre

from allbutone.adversary.attack import Attack, describe
from allbutone.adversary.integrate import Ball, Functions, Integrals, Intervals, integrate, interval_probability
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes, find_best, find_modes
from allbutone.adversary.proposal import Points
from allbutone.disclosure.rule import USUAL, Rule
from allbutone.support.arrays import array_namespace, as_array, to_numpy
from allbutone.support.devices import in_numpy

# What the adversary has learned of records whose truth we know, for many posteriors at once.
#
# All measures are taken in the other records' own metric, v = root⁻¹(x − centre), and none but the distances
# depends on scale or correlation.


Array = Any

RADIUS = 1.0  # Mahalanobis distance within which a guess counts as near
AT_CENTRE = 1e-10  # Mahalanobis distance within which a record is at the others' centre
BEFORE, POINTS_BEFORE = 1 << 20, 1 << 13  # a turn of points that nothing else has, and how many
HALF = 0.5  # of the way from the others' centre to a record: nearer than that, it counts as exposed
AT_A_TIME = 32  # records whose points are held to look at functions of them
ALWAYS_THE_SAME = Points()
SAME_START = 0  # where random points start: they are no secret, and the same ones give the same answer twice


@dataclass(frozen=True)
class Effort:
    """How an integral is to be done: the source of points, how many of them, and how many times over."""

    points: Points = ALWAYS_THE_SAME
    size: int = 512
    replicates: int = 4


@dataclass(frozen=True, eq=False)
class Measures:
    """What n adversaries know of n records; every field but the first two has one value a record.

    `distance`: of the guess from the record, beside `baseline_distance`, that of the other records' centre.
    `relative_error`: the same in the others' metric, the guess's over the centre's. `exposure`: how far the guess
    has travelled from the centre (0) towards the record (1). `leverage`: q = c‖v‖².
    `information_gain`: log p(x | release, others) − log p(x | others) at the truth, in nats. `mass`: posterior
    probability within a Mahalanobis radius of the truth, beside `prior_mass`, that without the release.
    `probability`: of each feature's interval around the truth, beside `baseline`, that without the release.
    `functions`: of further values, computed from the whole record: probability, its error, and the baseline.
    What was not asked for, or could not be computed, is NaN; errors are standard errors of the integrals.
    """

    posteriors: LogQuadratic
    guess: Float[Array, "n p"]
    modes: Modes | None
    distance: Float[Array, " n"]
    baseline_distance: Float[Array, " n"]
    relative_error: Float[Array, " n"]
    exposure: Float[Array, " n"]
    leverage: Float[Array, " n"]
    information_gain: Float[np.ndarray, " n"]
    information_gain_error: Float[np.ndarray, " n"]
    mass: Float[np.ndarray, " n"]
    mass_error: Float[np.ndarray, " n"]
    prior_mass: Float[np.ndarray, " n"]
    probability: Float[np.ndarray, "n f"]
    probability_error: Float[np.ndarray, "n f"]
    baseline: Float[np.ndarray, "n f"]
    functions: Float[np.ndarray, "3 n d"]

    def in_numpy(self) -> "Measures":
        """Return the numbers as NumPy's arrays, from whatever device they are on; the posteriors stay there."""
        names = ("guess", "distance", "baseline_distance", "relative_error", "exposure", "leverage")
        return replace(self, **{name: to_numpy(getattr(self, name)) for name in names})  # type: ignore[arg-type]

    @cached_property
    def attack(self) -> Attack:
        """Both modes, their gap, the curvature and the status, in the records' own coordinates."""
        assert self.modes is not None  # else the guess is another method's
        return describe(self.posteriors, self.modes)


def measure(
    posteriors: LogQuadratic,
    truth: Float[Array, "n p"],
    effort: Effort | None = None,
    *,
    radius: float | None = None,
    near: Intervals | None = None,
    before: LogQuadratic | None = None,
    modes: Modes | None = None,
    guess: Float[Array, "n p"] | None = None,
    white: Float[Array, "n p"] | None = None,
    rule: Rule = USUAL,
) -> Measures:
    """Attack, integrate, measure: what each adversary concludes, beside the truth.

    Without `effort` nothing is integrated: no gain, no mass. `radius`: also the mass within that Mahalanobis
    radius. `near`: also the probability of these intervals. `before`: the posteriors without the release, where
    they are not the other records' own Student t (an adversary with a prior of their own). `modes`: those of the
    posteriors, where they are known already. `guess`: where another method than ours has found one. `white`: the
    truth in the posteriors' own coordinates, where that is known already. `rule`: by which the probabilities are
    to be judged; those near its limits take more points.
    """
    white = posteriors.whiten(truth) if white is None else white
    if guess is None and modes is None:
        modes = find_best(posteriors) if effort is None else find_modes(posteriors)
    best = posteriors.whiten(guess) if modes is None else modes.best
    found = posteriors.unwhiten(best) if guess is None else guess
    norm = partial(array_namespace(white).linalg.vector_norm, axis=-1)
    length = norm(white)
    # a record that stands at the others' very centre, all but rounding, has no way to go
    way = array_namespace(white).where(length * posteriors.df**0.5 > AT_CENTRE, length, float("nan"))
    learned = _nothing(truth.shape[0])
    if effort is not None and modes is not None:
        learned = _learned(posteriors, modes, white, (radius, near), effort, before, rule)
    values = [learned.pop(name) for name in FEATURES]
    p = posteriors.p if values[0].shape[1] else 0
    return Measures(
        posteriors=posteriors,
        guess=found,
        modes=modes,
        distance=norm(found - truth),
        baseline_distance=norm(posteriors.centre - truth),
        relative_error=norm(best - white) / way,
        exposure=array_namespace(white).sum(best * (white / way[..., None]), axis=-1) / way,
        leverage=posteriors.inflation * length**2,
        functions=np.stack([each[:, p:] for each in values]),
        **{name: each[:, :p] for name, each in zip(FEATURES, values, strict=True)},
        **learned,
    )


FEATURES = ("probability", "probability_error", "baseline")


def _nothing(n: int) -> dict[str, np.ndarray]:
    names = ("information_gain", "information_gain_error", "mass", "mass_error", "prior_mass")
    return {name: np.full(n, np.nan) for name in names} | {name: np.empty((n, 0)) for name in FEATURES}


def _learned(
    posteriors: LogQuadratic,
    modes: Modes,
    white: Float[Array, "n p"],
    inside: tuple[float | None, Intervals | None],
    effort: Effort,
    before: LogQuadratic | None,
    rule: Rule,
) -> dict[str, np.ndarray]:
    """Return what takes an integral: the information gained at the truth, and the mass near it."""
    learned, (radius, near) = _nothing(white.shape[0]), inside
    error = np.zeros(white.shape[0])
    if before is not None:
        known, earlier = _integrated(before, find_modes(before), white, inside, effort)
        error = earlier.log_total_error
        learned["prior_mass"], learned["baseline"] = earlier.mass, earlier.within
    else:
        here, there = in_numpy(posteriors), to_numpy(white)
        known = prior_log_density(here, there)
        if radius is not None:
            learned["prior_mass"] = prior_mass(here, there, radius)
        if near is not None:
            learned["baseline"] = prior_probability(here, near)
            if near.functions is not None:
                further = prior_functions(here, near.functions, effort.points)
                learned["baseline"] = np.concatenate([learned["baseline"], further], axis=1)
    limits = None if near is None else rule.needed(learned["baseline"])
    density, integrals = _integrated(posteriors, modes, white, inside, effort, limits)
    return learned | {
        "information_gain": density - known, "information_gain_error": np.hypot(integrals.log_total_error, error),
        "mass": integrals.mass, "mass_error": integrals.mass_error,
        "probability": integrals.within, "probability_error": integrals.within_error,
    }  # fmt: skip


def _integrated(
    posteriors: LogQuadratic,
    modes: Modes,
    white: Float[Array, "n p"],
    inside: tuple[float | None, Intervals | None],
    effort: Effort,
    limits: Float[np.ndarray, "n f"] | None = None,
) -> tuple[np.ndarray, Integrals]:
    """Return the log density at the truth in v, and the integrals."""
    radius, near = inside
    ball = None
    if radius is not None:
        reach = as_array(radius / np.sqrt(to_numpy(posteriors.df)), like=white)
        ball = Ball(white, array_namespace(white).broadcast_to(reach, white.shape[:1]))
    if near is not None:
        ends = (as_array(end, like=white) for end in (near.low, near.high))
        near = Intervals(*ends, functions=near.functions)
    integrals = integrate(posteriors, modes, ball, effort.points, effort.size, effort.replicates, near, limits)
    return to_numpy(posteriors.value(white)) - integrals.log_total, integrals


def nearness_of_guess(
    away: Float[np.ndarray, " k"], guess: Float[np.ndarray, " k"], spread: Float[np.ndarray, "k k"]
) -> tuple[float, float, float, float]:
    """Return distance, baseline distance, relative error and exposure of the guess of a part of one record.

    With `away` = x − centre, `guess` = g − centre and the others' `spread` = LLᵀ, and in the metric of that
    u = L⁻¹(x − centre), w = L⁻¹(g − centre):  ‖g − x‖, ‖x − centre‖, ‖w − u‖/‖u‖, wᵀu/uᵀu.
    """
    u, w = np.linalg.solve(np.linalg.cholesky(spread), np.stack([away, guess], axis=1)).T
    far = float(np.linalg.norm(u))
    return (
        float(np.linalg.norm(guess - away)),
        float(np.linalg.norm(away)),
        float(np.linalg.norm(w - u)) / far,
        float(w @ u) / far**2,
    )


def prior_log_density(problem: LogQuadratic, white: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """Return the log density, in v, of an adversary who ignores the release.

    −½ν′·log(1 + c‖v‖²) + log Γ(ν′/2) − log Γ((ν′−p)/2) − ½p·log(π/c)
    """
    df, p, c = np.asarray(problem.df) + 1, problem.p, np.asarray(problem.inflation)
    constant = gammaln(df / 2) - gammaln((df - p) / 2) - 0.5 * p * np.log(np.pi / c)
    return constant - 0.5 * df * np.log1p(c * np.sum(white * white, axis=-1))


def prior_mass(problem: LogQuadratic, white: Float[np.ndarray, "n p"], radius: float) -> Float[np.ndarray, " n"]:
    """Return the mass within a Mahalanobis radius of each record for an adversary who ignores the release.

    The Student t is a normal N(0, I/(c·g)) with g ~ χ²(ν′ − p), under which c·g·‖v − u‖² is noncentral χ²; g is
    integrated by Gauss's rule.
    """
    c = np.broadcast_to(np.asarray(problem.inflation), len(white))
    df = np.broadcast_to(np.asarray(problem.df), len(white))
    masses, offset = np.empty(len(white)), np.sum(white * white, axis=-1)
    for each in np.unique(df):
        these = df == each
        nodes, weights = _chi_square_rule(float(each) + 1 - problem.p)
        scale = c[these, None] * nodes
        reach, away = scale * radius**2 / each, scale * offset[these, None]
        # SciPy gives up on records a thousand deviations out, where nothing is left
        lost = np.sqrt(away) - np.sqrt(reach) > 40
        masses[these] = np.where(lost, 0.0, chndtr(reach, problem.p, np.where(lost, 0.0, away))) @ weights
    return masses


def prior_probability(problem: LogQuadratic, near: Intervals) -> Float[np.ndarray, "n p"]:
    """Return the probability of each feature's interval for an adversary who ignores the release.

    A feature is a Student t with ν′ − p degrees of freedom and squared scale Λ_ff/(c(ν′ − p)).
    """
    df, c = (np.asarray(each, dtype=float)[..., None] for each in (problem.df, problem.inflation))
    freedom = df + 1 - problem.p
    spread = np.sqrt(np.sum(problem.root * problem.root, axis=-1) / (c * freedom))
    return interval_probability(problem.centre, spread, freedom, near.low, near.high)


def prior_functions(problem: LogQuadratic, functions: Functions, points: Points) -> Float[np.ndarray, "n f"]:
    """Return how probable functions of a record are where they count as known, for who ignores the release.

    By points of the record's Student t: x = centre + root·t/√(c(ν′ − p)), t with ν′ − p degrees of freedom.
    """
    n = len(problem.centre)
    c, df = (np.broadcast_to(np.asarray(each, dtype=float), n) for each in (problem.inflation, problem.df))
    shares = np.empty((n, functions.count))
    for each in np.unique(df):
        freedom = float(each) + 1 - problem.p
        white = points.student(BEFORE, problem.p, POINTS_BEFORE, freedom)
        (these,) = np.nonzero(df == each)
        for start in range(0, len(these), AT_A_TIME):
            rows = these[start : start + AT_A_TIME]
            scale = 1 / np.sqrt(c[rows] * freedom)
            root = np.broadcast_to(problem.root, (n, problem.p, problem.p))[rows]
            records = problem.centre[rows, None] + scale[:, None, None] * (white @ root.swapaxes(-1, -2))
            shares[rows] = np.mean(functions.take(rows).holds(records), axis=1)
    return shares


def _chi_square_rule(df: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for an expectation over χ²(df): Laguerre's, or Legendre's over its quantiles."""
    if df < 150:
        nodes, weights = roots_genlaguerre(60, df / 2 - 1)
        return 2 * nodes, weights / weights.sum()
    uniform, weights = np.polynomial.legendre.leggauss(60)
    return 2 * gammaincinv(df / 2, (1 + uniform) / 2), weights / 2
