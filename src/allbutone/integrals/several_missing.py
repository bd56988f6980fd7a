"""An adversary who misses several records: the other unknown ones are integrated out by Gibbs sampling."""

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.build import from_statistics, split_priors, with_own_prior
from allbutone.adversary.inputs import Reading, as_given, validate_inputs
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes, find_modes
from allbutone.integrals.posterior import PoorSampling, Seed
from allbutone.integrals.proposal import Proposal
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior_file import AnyPrior
from allbutone.releases.folder import AnyRelease
from allbutone.releases.statistics import Statistics
from allbutone.support.checks import count_of
from allbutone.support.errors import InputError

ENOUGH = 100  # independent draws: a mean to a tenth of its standard deviation
# heavier tails than a posterior that rests on at least that many records, and no wider: that costs acceptance
PROPOSAL_DF = 6.0


@dataclass(frozen=True, eq=False)
class MissingPosterior:
    """Draws of a missing record when `missing` records are unknown: shape (chains, draws, p).

    The unknown records are exchangeable, so all of them are draws of the target.
    """

    missing: int
    draws: Float[np.ndarray, "chains draws p"]
    acceptance: float

    @property
    def mean(self) -> Float[np.ndarray, " p"]:
        """The posterior mean of a missing record."""
        return self.draws.mean(axis=(0, 1))

    @property
    def covariance(self) -> Float[np.ndarray, "p p"]:
        """The posterior covariance of a missing record."""
        flat = self.draws.reshape(-1, self.draws.shape[-1])
        return np.atleast_2d(np.cov(flat.T))

    @property
    def standard_error(self) -> Float[np.ndarray, " p"]:
        """The Monte Carlo error of the mean, from the spread of the independent chains."""
        return self.draws.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(len(self.draws))

    @property
    def effective_size(self) -> float:
        """How many independent draws these are worth, for the worst feature's mean."""
        return float(np.min(np.diagonal(self.covariance) / self.standard_error**2))


def posterior_missing(
    others: Any,
    release: AnyRelease,
    prior: AnyPrior,
    missing: int,
    rng: Seed,
    *,
    adversary_prior: AnyPrior | None = None,
    reading: Reading = "record",
    chains: int = 32,
    sweeps: int = 200,
    warm_up: int = 50,
) -> MissingPosterior:
    """Sample the posterior of a missing record when the adversary lacks `missing` of them.

    Given the other unknown records, each one's posterior is the log-quadratic posterior of a single missing
    record; it is updated by an independence sampler from Student t distributions at its two modes. All chains
    advance at once. The other arguments are those of `posterior`; NumPy arrays only.
    """
    release, prior, adversary_prior = as_given(release, prior, adversary_prior)
    moments = Moments.of(validate_inputs(others, release, prior, adversary_prior, reading))
    missing, sweeps, chains = count_of("missing", missing), count_of("sweeps", sweeps), count_of("chains", chains)
    if chains < 2:
        raise InputError(f"chains must be at least 2, to tell the Monte Carlo error, got {chains}")
    warm_up = count_of("warm_up", warm_up) if warm_up else 0
    prior, own_prior = split_priors(prior, adversary_prior, reading)
    given_others, own = prior.update(moments), None if own_prior is None else own_prior.update(moments)
    rng, released = np.random.default_rng(rng), release.statistics()
    unknown = np.stack([(own or given_others).predictive().draw(rng, missing) for _ in range(chains)])
    sweep = partial(_sweep, given_others, own, released, rng)
    for _ in range(warm_up):
        unknown, _ = sweep(unknown)
    kept, accepted = [], 0.0
    for _ in range(sweeps):
        unknown, moved = sweep(unknown)
        kept.append(unknown)
        accepted += moved / sweeps
    found = MissingPosterior(missing, np.concatenate(kept, axis=1), accepted)
    if found.effective_size < ENOUGH:
        message = f"the draws are worth {found.effective_size:.0f} independent ones; raise sweeps, now {sweeps}"
        warnings.warn(message, PoorSampling, stacklevel=2)
    return found


def _sweep(
    given_others: NIW,
    own: NIW | None,
    released: Statistics,
    rng: np.random.Generator,
    unknown: Float[np.ndarray, "chains m p"],
) -> tuple[Float[np.ndarray, "chains m p"], float]:
    """Update every unknown record in turn, given the others; return them and the share accepted."""
    unknown, accepted = unknown.copy(), 0.0
    for which in range(unknown.shape[1]):
        rest = np.delete(unknown, which, axis=1)
        target = from_statistics(_joined(given_others, rest), released)
        if own is not None:
            target = with_own_prior(target, _joined(own, rest))
        unknown[:, which], moved = _update(target, unknown[:, which], rng)
        accepted += moved / unknown.shape[1]
    return unknown, accepted


def _joined(given_others: NIW, records: Float[np.ndarray, "chains m p"]) -> NIW:
    """Return each chain's posterior with its own current records added to the other records."""
    chains, m, p = records.shape
    mean = records.mean(axis=1) if m else np.zeros((chains, p))
    centred = records - mean[:, None, :]
    scatter = centred.swapaxes(1, 2) @ centred
    return given_others.update(Moments(float(m), mean, scatter))


def _update(
    target: LogQuadratic, records: Float[np.ndarray, "chains p"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "chains p"], float]:
    """Advance every chain by one step of an independence sampler; return the records and the share accepted."""
    modes = find_modes(target)
    proposal = Proposal.around(target, modes, lightest=PROPOSAL_DF, wider=1.0)
    log_shares, chains = _log_shares(proposal, modes), np.arange(len(records))
    current = target.whiten(records)
    which = (np.log(rng.random(len(chains)))[:, None] > np.logaddexp.accumulate(log_shares, axis=1)).sum(axis=1)
    which = np.minimum(which, log_shares.shape[1] - 1)
    df = np.array(proposal.dfs)[which, None]
    white = rng.standard_normal(current.shape) * np.sqrt(df / rng.chisquare(df))
    proposed = proposal.locations[chains, which] + (proposal.roots[chains, which] @ white[..., None])[..., 0]

    def log_ratio(point: np.ndarray) -> np.ndarray:
        each = proposal.log_densities(point[:, None])[..., 0].T + log_shares
        return target.value(point) - np.logaddexp.reduce(each, axis=1)

    accept = np.log(rng.random(len(current))) < log_ratio(proposed) - log_ratio(current)
    chosen = np.where(accept[:, None], proposed, current)
    return target.unwhiten(chosen), float(accept.mean())


def _log_shares(proposal: Proposal, modes: Modes) -> Float[np.ndarray, "chains parts"]:
    """Return the log share of each part, chain by chain: the modes' by their height and width, and a tenth."""
    widths = np.sum(np.log(np.diagonal(proposal.roots, axis1=-2, axis2=-1)), axis=-1)
    present = np.isfinite(modes.gap)
    odds = np.exp(np.clip(widths[:, 1] - widths[:, 0] - modes.gap, -700, 700))
    second = np.where(present, np.clip(odds / (1 + odds), 0.05, 0.95), 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.stack([0.9 * (1 - second), 0.9 * second, np.full(len(second), 0.1)], axis=1))
