"""The adversary's posterior as a distribution: density, draws, credible regions, mass near any point."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import gammaln, logsumexp, ndtri

from allbutone.adversary import Reading, log_posterior
from allbutone.errors import InputError
from allbutone.integrate import (
    REPLICATES,
    Estimate,
    Mixture,
    log_total_on_a_contour,
    log_total_on_a_line,
    scrambled_points,
    values_at,
)
from allbutone.logquadratic import LogQuadratic
from allbutone.maximize import Modes, find_modes
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
        named = self.closed_form
        if named is not None:
            record = self.unwhiten(self.modes.best)
            log_total = self.log_density_unnormalized(record) - named.log_density(record) - self.log_volume
            return Estimate(float(log_total))
        if self.wells == 0:
            return Estimate(log_total_on_a_contour(self))
        if self.p == 1:
            return Estimate(log_total_on_a_line(self, self.modes))
        return self.importance_sample(np.random.default_rng(0), 1 << 14).log_total

    def log_density(self, candidates: Float[np.ndarray, "*points p"]) -> Float[np.ndarray, "*points"]:
        """Return the normalised log posterior density at candidate records."""
        return self.log_density_unnormalized(candidates) - float(self.log_total) - self.log_volume

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
            return Estimate(self._mass_on_the_line(float(middle[0]), reach))
        rng = np.random.default_rng(0) if rng is None else rng
        mixture = Mixture.around(self, self.modes, rng)
        ball = _Ball(middle, reach)
        inside, everywhere = [], []
        for _ in range(REPLICATES):
            around, within = mixture.draw(rng, 2048), ball.draw(rng, 2048)
            points = np.concatenate([around, within])
            share = len(within) / len(points)
            log_proposal = np.logaddexp(
                np.log1p(-share) + mixture.log_density(points), np.log(share) + ball.log_density(points)
            )
            with np.errstate(under="ignore"):
                weight = np.exp(values_at(self, points) - log_proposal - float(self.log_total))
            inside.append(np.mean(weight * ball.contains(points)))
            everywhere.append(np.mean(weight))
        # the weights average to one; where they happen not to, the part inside has strayed along
        held = np.mean(inside) / np.mean(everywhere)
        masses = np.array(inside) - held * (np.array(everywhere) - np.mean(everywhere))
        error = float(np.std(masses, ddof=1) / np.sqrt(REPLICATES))
        return Estimate(float(min(1.0, held)), error)

    def credible_region(self, level: float = 0.95, rng: np.random.Generator | None = None) -> CredibleRegion:
        """Return the smallest region that holds `level` of the posterior; it may consist of two pieces."""
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level}")
        sample = self.importance_sample(np.random.default_rng(0) if rng is None else rng, 1 << 14)
        order = np.argsort(-sample.log_values)
        held = np.cumsum(sample.weights[order])
        return CredibleRegion(self, level, float(sample.log_values[order][np.searchsorted(held, level)]))

    def _mass_on_the_line(self, middle: float, reach: float) -> float:
        nodes, weights = np.polynomial.legendre.leggauss(20)
        # panels no wider than the narrower of the ball and the peak
        peak = 1 / np.sqrt(max(-float(self.modes.hessian[0, 0]), 1e-12))
        panels = int(np.clip(np.ceil(4 * reach / peak), 1, 20_000))
        edges = np.linspace(middle - reach, middle + reach, panels + 1)
        half = np.diff(edges)[:, None] / 2
        points = (edges[:-1, None] + half + half * nodes).ravel()
        logs = values_at(self, points[:, None]) + np.log((half * weights).ravel())
        return float(np.exp(logsumexp(logs) - float(self.log_total)))


@dataclass(frozen=True)
class _Ball:
    """The uniform distribution on a ball."""

    centre: Float[np.ndarray, " p"]
    radius: float

    def draw(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count p"]:
        p = len(self.centre)
        uniform = scrambled_points(rng, p + 1, count)
        white = ndtri(uniform[:, :-1])
        white /= np.linalg.norm(white, axis=1, keepdims=True)
        return self.centre + self.radius * uniform[:, -1:] ** (1 / p) * white

    def contains(self, white: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, " n"]:
        return np.sum((white - self.centre) ** 2, axis=1) <= self.radius**2

    def log_density(self, white: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        p = len(self.centre)
        log_volume = 0.5 * p * np.log(np.pi) - gammaln(0.5 * p + 1) + p * np.log(self.radius)
        return np.where(self.contains(white), -log_volume, -np.inf)
