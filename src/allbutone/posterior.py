"""The adversary's posterior as a distribution: density, draws, credible regions, mass near any point."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from allbutone.adversary import Reading, log_posterior
from allbutone.errors import InputError
from allbutone.integrate import (
    REPLICATES,
    Estimate,
    Mixture,
    log_mass_on_a_line,
    values_at,
)
from allbutone.logquadratic import LogQuadratic
from allbutone.maximize import Modes, find_modes
from allbutone.measures import Learned, exact_log_totals, integrate_many
from allbutone.niw import NIW
from allbutone.release import Release


def posterior(
    others: Any,
    release: Release,
    prior: NIW,
    *,
    known: Any = None,
    adversary_prior: NIW | None = None,
    reading: Reading = "record",
) -> "Posterior":
    """Return the posterior of the one record missing from `others`, given the release and its mechanism.

    `others`: all records but one, or their moments. `prior`: the data holder's.
    `known`: features of the target that the adversary knows, a vector with NaN for the unknown ones; the
    posterior is then that of the unknown ones.
    `adversary_prior`: where the adversary's prior differs from the holder's; `reading` "record" has it describe
    only the missing record (the Student t term) while the mechanism is known; "mechanism" has the adversary
    believe that the release was made with it, too.
    """
    found = log_posterior(others, release, prior, known=known, adversary_prior=adversary_prior, reading=reading)
    return Posterior(**{field.name: getattr(found, field.name) for field in fields(found)})


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class CredibleRegion:
    """All records whose ℓ is at least `threshold`: the smallest region that holds `level` of the posterior."""

    posterior: "Posterior"
    level: float
    threshold: float

    def contains(self, candidates: Float[np.ndarray, "*points p"]) -> Bool[np.ndarray, "*points"]:
        """Say of each candidate whether it lies in the region."""
        return self.posterior.log_density_unnormalized(candidates) >= self.threshold


@dataclass(frozen=True)
class Posterior(LogQuadratic):
    """A single target's posterior (NumPy arrays, no batch axes)."""

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
        learned = self._learned(self.modes.best, None, np.random.default_rng(0))
        return Estimate(float(learned.log_total[0]), float(learned.log_total_error[0]))

    def log_density(self, candidates: Float[np.ndarray, "*points p"]) -> Float[np.ndarray, "*points"]:
        """Return the normalised log posterior density at candidate records."""
        return np.asarray(self.log_density_unnormalized(candidates) - float(self.log_total) - self.log_volume)

    def importance_sample(self, rng: np.random.Generator, count: int) -> WeightedDraws:
        """Sample at least `count` points from a defensive mixture around both modes, and weigh them.

        Quasi-random, in eight replicates whose spread gives the standard error.
        """
        mixture = Mixture.around(self, self.modes, rng)
        size = max(16, 1 << (count // REPLICATES - 1).bit_length())
        white, logs, totals = [], [], []
        for _ in range(REPLICATES):
            points = mixture.draw(rng, size)
            ratio = values_at(self, points) - mixture.log_density(points)
            white.append(points)
            logs.append(ratio)
            totals.append(logsumexp(ratio) - np.log(len(ratio)))
        log_weights = np.concatenate(logs)
        level = float(logsumexp(totals) - np.log(REPLICATES))
        error = float(np.std(np.exp(np.array(totals) - level), ddof=1) / np.sqrt(REPLICATES))
        points = np.concatenate(white)
        weights = np.exp(log_weights - logsumexp(log_weights))
        return WeightedDraws(self.unwhiten(points), weights, values_at(self, points), Estimate(level, error))

    def draw(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count p"]:
        """Draw records: directly where the posterior has a name, else by resampling an importance sample.

        The sample is enlarged until it is worth four times the draws asked for, so that few draws repeat.
        """
        if self.closed_form is not None:
            return self.closed_form.draw(rng, count)
        size = 4 * count
        for _ in range(8):
            sample = self.importance_sample(rng, size)
            if sample.effective_size >= 4 * count:
                break
            size = int(size * min(16.0, 1 + 4.4 * count / sample.effective_size))
        else:
            raise InputError(
                f"the posterior is too hard to sample: {size} points are worth {sample.effective_size:.0f} draws"
            )
        return sample.records[rng.choice(len(sample.weights), size=count, p=sample.weights)]

    def mass_within(
        self, centre: Float[np.ndarray, " p"], radius: float, rng: np.random.Generator | None = None
    ) -> Estimate:
        """Return the posterior mass within a Mahalanobis radius of any point.

        Distances are those of the crowd: (x − centre)ᵀ·νΛ⁻¹·(x − centre) ≤ radius², with E[Σ⁻¹] = νΛ⁻¹ given the
        others' records.
        """
        if not radius > 0:
            raise InputError(f"radius must exceed 0, got {radius}")
        middle = self.whiten(np.asarray(centre, dtype=np.float64))
        reach = radius / np.sqrt(self.df)
        if self.p == 1:
            log_mass = log_mass_on_a_line(self, self.modes, float(middle[0]) - reach, float(middle[0]) + reach)
            return Estimate(min(1.0, float(np.exp(log_mass - float(self.log_total)))))
        learned = self._learned(middle, radius, np.random.default_rng(0) if rng is None else rng)
        assert learned.mass is not None
        assert learned.mass_error is not None
        return Estimate(float(learned.mass[0]), float(learned.mass_error[0]))

    def _learned(self, white: np.ndarray, radius: float | None, rng: np.random.Generator) -> Learned:
        return integrate_many(self.as_batch(), self.modes.as_batch(), white[None], radius, rng)

    def credible_region(self, level: float = 0.95, rng: np.random.Generator | None = None) -> CredibleRegion:
        """Return the smallest region that holds `level` of the posterior; it may consist of two pieces."""
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level}")
        sample = self.importance_sample(np.random.default_rng(0) if rng is None else rng, 1 << 14)
        order = np.argsort(-sample.log_values)
        held = np.cumsum(sample.weights[order])
        return CredibleRegion(self, level, float(sample.log_values[order][np.searchsorted(held, level)]))
