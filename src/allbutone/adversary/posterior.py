"""The adversary's posterior as a distribution: density, draws, credible regions, mass near any point."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from allbutone.adversary.integrate import (
    Ball,
    Estimate,
    Integrals,
    exact_log_totals,
    integrate,
    log_mass_on_a_line,
    log_mean_and_error,
)
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes, find_modes
from allbutone.adversary.proposal import Points, Proposal, values_at
from allbutone.support.arrays import real_array
from allbutone.support.errors import Caution, InputError, count_of

Array = Any
Seed = np.random.Generator | int | None

REPLICATES = 8  # independently scrambled point sets, whose spread is the standard error
POINTS = 1 << 14  # for a total, or a mass
MOST_POINTS = 1 << 22  # of an importance sample that is enlarged for the sake of a few draws


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Importance sample: records (n, p) and their weights, which sum to one; `log_total` estimates log ∫ exp ℓ."""

    records: Float[np.ndarray, "n p"]
    weights: Float[np.ndarray, " n"]
    log_values: Float[np.ndarray, " n"]
    log_total: Estimate

    @property
    def effective_size(self) -> float:
        """How many independent draws these are worth: 1/Σw²."""
        return float(1 / np.sum(self.weights**2))


@dataclass(frozen=True, eq=False)
class CredibleRegion:
    """All records whose ℓ is at least `threshold`: the smallest region that holds `level` of the posterior."""

    posterior: "Posterior"
    level: float
    threshold: float

    def contains(self, candidates: Any) -> Bool[Array, "*points"]:
        """Say of each candidate whether it lies in the region."""
        return self.posterior.log_density_unnormalized(candidates) >= self.threshold


@dataclass(frozen=True, eq=False)
class Posterior(LogQuadratic):
    """A single target's posterior (NumPy arrays, no batch axes).

    Candidates and centres hold the unknown features only; `rng` may be a generator or a seed.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> believed = abo.posterior(cohort.values[1:], release)
    >>> believed.log_density_unnormalized(cohort.values[:2]).shape
    (2,)
    """

    def log_density_unnormalized(self, candidates: Any) -> Float[Array, "*points"]:
        """Return ℓ at candidate records: the log posterior up to a constant (half the paper's score s)."""
        return super().log_density_unnormalized(self._checked(candidates))

    def gradient(self, candidates: Any) -> Float[np.ndarray, "*points p"]:
        """Return the gradient of ℓ with respect to the candidate record."""
        return super().gradient(self._checked(candidates))

    def hessian(self, candidates: Any) -> Float[np.ndarray, "*points p p"]:
        """Return the Hessian of ℓ with respect to the candidate record."""
        return super().hessian(self._checked(candidates))

    def _checked(self, candidates: Any, what: str = "candidates") -> Float[np.ndarray, "*points p"]:
        """Return candidates as float64, refusing those without one finite value for each unknown feature."""
        points = np.asarray(real_array(candidates, what))
        if points.ndim == 0 or points.shape[-1] != self.p:
            raise InputError(
                f"{what} must have {self.p} values in the last axis, one for each unknown feature, "
                f"got shape {points.shape}"
            )
        if not np.isfinite(points).all():
            raise InputError(f"{what} must be finite, got {points[~np.isfinite(points)][0]}")
        return points

    @cached_property
    def modes(self) -> Modes:
        """Both modes, in whitened coordinates."""
        return find_modes(self)

    @cached_property
    def log_total(self) -> Estimate:
        """log ∫ exp ℓ(v) dv over the whitened coordinates.

        In closed form after a single release; exact by a one-dimensional integral for released parameters and
        for a single unknown feature; by importance sampling, with its standard error, otherwise.
        """
        exact = exact_log_totals(self.as_batch())
        if exact is not None:
            return Estimate(float(exact[0]))
        if self.p == 1:
            return Estimate(log_mass_on_a_line(self, self.modes, -np.inf, np.inf))
        integrals = self._integrals(None, 0)
        return Estimate(float(integrals.log_total[0]), float(integrals.log_total_error[0]))

    def log_density(self, candidates: Any) -> Float[Array, "*points"]:
        """Return the normalised log posterior density at candidate records."""
        return np.asarray(self.log_density_unnormalized(candidates) - float(self.log_total) - self.log_volume)

    def importance_sample(self, rng: Seed, count: int) -> WeightedDraws:
        """Sample at least `count` points from a defensive mixture around both modes, and weigh them.

        Quasi-random, in eight replicates whose spread gives the standard error.
        """
        points, count = Points.of(rng), count_of("count", count)
        batch, size = self.as_batch(), max(16, 1 << (count // REPLICATES - 1).bit_length())
        proposal = Proposal.around(batch, self.modes.as_batch(), lightest=8.0 + self.p)
        for turn in range(2):
            proposal = proposal.fitted(batch, points, REPLICATES + turn, 1024)
        white, values, logs, totals = [], [], [], []
        for turn in range(REPLICATES):
            drawn = proposal.draw(points, turn, size)
            white.append(np.concatenate(drawn, axis=1))
            each = proposal.log_densities(white[-1])
            shares = np.log([part.shape[1] / white[-1].shape[1] for part in drawn])
            values.append(values_at(batch, white[-1])[0])
            logs.append(values[-1] - logsumexp(each[:, 0] + shares[:, None], axis=0))
            totals.append(logsumexp(logs[-1]) - np.log(len(logs[-1])))
        log_weights = np.concatenate(logs)
        (level,), (error,) = log_mean_and_error(np.array(totals)[:, None])
        weights = np.exp(log_weights - logsumexp(log_weights))
        records = self.unwhiten(np.concatenate(white, axis=1)[0])
        return WeightedDraws(records, weights, np.concatenate(values), Estimate(float(level), float(error)))

    def draw(self, rng: Seed, count: int) -> Float[np.ndarray, "count p"]:
        """Draw records: directly where the posterior has a name, else by resampling an importance sample.

        The sample is enlarged until it is worth four times the draws asked for, so that few draws repeat; where
        that takes too many points, `Caution` is warned of.
        """
        rng, count = np.random.default_rng(rng), count_of("count", count)
        if self.closed_form is not None:
            return self.closed_form.draw(rng, count)
        size, most = 4 * count, max(MOST_POINTS, 16 * count)
        sample = self.importance_sample(rng, size)
        while sample.effective_size < 4 * count and size < most:
            size = min(most, int(size * min(16.0, 1 + 4.4 * count / sample.effective_size)))
            sample = self.importance_sample(rng, size)
        if sample.effective_size < 4 * count:
            message = f"{size} points of this posterior are worth {sample.effective_size:.0f} independent draws"
            warnings.warn(f"{message}, so some of {count} repeat; ask for fewer", Caution, stacklevel=2)
        return sample.records[rng.choice(len(sample.weights), size=count, p=sample.weights)]

    def mass_within(self, centre: Any, radius: float, rng: Seed = 0) -> Estimate:
        """Return the posterior mass within a Mahalanobis radius of any point.

        Near means (x − centre)ᵀ·νΛ⁻¹·(x − centre) ≤ radius², where νΛ⁻¹ = E[Σ⁻¹] given the others' records.
        """
        if not radius > 0:
            raise InputError(f"radius must exceed 0, got {radius}")
        point = self._checked(centre, "centre")
        if point.ndim != 1:
            raise InputError(
                f"centre must be one point of {self.p} values, got shape {point.shape}", "ask one by one"
            )
        middle = self.whiten(point)
        reach = radius / np.sqrt(self.df)
        if self.p == 1:
            log_mass = log_mass_on_a_line(self, self.modes, float(middle[0]) - reach, float(middle[0]) + reach)
            return Estimate(min(1.0, float(np.exp(log_mass - float(self.log_total)))))
        integrals = self._integrals(Ball(middle[None], np.array([reach])), rng)
        if np.isnan(integrals.mass[0]):
            message = f"the points of this posterior are worth {integrals.effective_size[0]:.0f} independent ones"
            warnings.warn(f"{message}: too few to tell the mass", Caution, stacklevel=2)
        return Estimate(float(integrals.mass[0]), float(integrals.mass_error[0]))

    def _integrals(self, ball: Ball | None, rng: Seed) -> Integrals:
        return integrate(self.as_batch(), self.modes.as_batch(), ball, Points.of(rng), POINTS)

    def credible_region(self, level: float = 0.95, rng: Seed = 0) -> CredibleRegion:
        """Return the smallest region that holds `level` of the posterior; it may consist of two pieces."""
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level}")
        sample = self.importance_sample(rng, 1 << 14)
        order = np.argsort(-sample.log_values)
        held = np.cumsum(sample.weights[order])
        return CredibleRegion(self, level, float(sample.log_values[order][np.searchsorted(held, level)]))
