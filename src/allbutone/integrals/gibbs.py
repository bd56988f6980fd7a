"""Gibbs sampling of several missing records, for many tables at once: each in turn, given the others."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.build import from_statistics, with_own_prior
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes, find_modes
from allbutone.integrals.proposal import Proposal
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.statistics import JoinedStatistics, ParameterStatistics, Statistics
from allbutone.support.arrays import half_log_det

# heavier tails than a posterior that rests on at least that many records, and no wider: that costs acceptance
PROPOSAL_DF = 6.0


def repeated(thing: Any, chains: int) -> Any:
    """Return the others' posteriors, or what was released, once for each chain of each table; None stays None."""
    if isinstance(thing, NIW):
        mean, scale = (np.repeat(each, chains, axis=0) for each in (thing.mean, thing.scale))
        return NIW(mean, thing.mean_weight, thing.df, scale)
    if isinstance(thing, JoinedStatistics):
        return JoinedStatistics(repeated(thing.parameters, chains), repeated(thing.datasets, chains))
    if isinstance(thing, ParameterStatistics) and thing.pull.ndim > 1:
        precision, pull = (np.repeat(each, chains, axis=0) for each in (thing.precision, thing.pull))
        return ParameterStatistics(thing.draws, precision, pull)
    if isinstance(thing, Moments) and thing.mean.ndim > 2:
        return replace(
            thing, mean=np.repeat(thing.mean, chains, axis=0), scatter=np.repeat(thing.scatter, chains, axis=0)
        )
    return thing


def first_guess(others: NIW, missing: int, rng: np.random.Generator) -> Float[np.ndarray, "chains m p"]:
    """Draw the unknown records of every chain as if nothing had been released, each from the predictive."""
    before = others.predictive()
    shape = (len(others.mean), missing)
    stretch = np.sqrt(before.df / rng.chisquare(before.df, size=(*shape, 1)))
    white = rng.standard_normal((*shape, others.p))
    return before.location[:, None] + stretch * (white @ before.root.swapaxes(-1, -2))


def update_one(
    given_others: NIW,
    own: NIW | None,
    released: Statistics,
    unknown: Float[np.ndarray, "chains m p"],
    which: int,
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, "chains p"], float, LogQuadratic, Modes]:
    """Draw one unknown record of every chain anew, given the rest.

    Returns it with the share of proposals accepted, and the posterior it was drawn from with its modes.
    """
    rest = np.delete(unknown, which, axis=1)
    target = from_statistics(_joined(given_others, rest), released)
    if own is not None:
        target = with_own_prior(target, _joined(own, rest))
    modes = find_modes(target)
    drawn, accepted = _update(target, modes, unknown[:, which], rng)
    return drawn, accepted, target, modes


def _joined(given_others: NIW, records: Float[np.ndarray, "chains m p"]) -> NIW:
    """Return each chain's posterior with its own current records added to the other records."""
    chains, m, p = records.shape
    mean = records.mean(axis=1) if m else np.zeros((chains, p))
    centred = records - mean[:, None, :]
    scatter = centred.swapaxes(1, 2) @ centred
    return given_others.update(Moments(float(m), mean, scatter))


def _update(
    target: LogQuadratic, modes: Modes, records: Float[np.ndarray, "chains p"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "chains p"], float]:
    """Advance every chain by one step of an independence sampler; return the records and the share accepted."""
    proposal = Proposal.around(target, modes, lightest=PROPOSAL_DF, spread=1.0)
    log_shares, chains = _log_shares(proposal, modes), np.arange(len(records))
    current = target.whiten(records)
    which = (np.log(rng.random(len(chains)))[:, None] > np.logaddexp.accumulate(log_shares, axis=1)).sum(axis=1)
    which = np.minimum(which, log_shares.shape[1] - 1)
    df = np.array(proposal.dfs)[which, None]
    white = rng.standard_normal(current.shape) * np.sqrt(df / rng.chisquare(df))
    proposed = np.stack([proposal.place(part, white[:, None])[:, 0] for part in range(3)])[which, chains]

    def log_ratio(point: np.ndarray) -> np.ndarray:
        each = proposal.log_densities(point[:, None])[..., 0].T + log_shares
        return target.value(point) - np.logaddexp.reduce(each, axis=1)

    accept = np.log(rng.random(len(current))) < log_ratio(proposed) - log_ratio(current)
    chosen = np.where(accept[:, None], proposed, current)
    return target.unwhiten(chosen), float(accept.mean())


def _log_shares(proposal: Proposal, modes: Modes) -> Float[np.ndarray, "chains parts"]:
    """Return the log share of each part, chain by chain: the modes' by their height and width, and a tenth."""
    first, other = (half_log_det(root) for root in proposal.roots[:2])
    present = np.isfinite(modes.gap)
    odds = np.exp(np.clip(other - first - modes.gap, -700, 700))
    second = np.where(present, np.clip(odds / (1 + odds), 0.05, 0.95), 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.stack([0.9 * (1 - second), 0.9 * second, np.full(len(second), 0.1)], axis=1))
