"""An adversary who misses several records: the other unknown ones are integrated out by Gibbs sampling."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from jaxtyping import Float
from scipy.special import logsumexp

from allbutone.adversary.build import from_statistics, log_posterior, with_own_prior
from allbutone.adversary.climb import climb
from allbutone.adversary.integrate import Estimate, Intervals, integrate
from allbutone.adversary.log_quadratic import LogQuadratic, stacked
from allbutone.adversary.modes import Modes, find_modes
from allbutone.adversary.posterior import Posterior, Seed
from allbutone.adversary.proposal import Points, Proposal, values_at
from allbutone.adversary.who import USUAL, Adversary, Reading, admit
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import AnyPrior
from allbutone.releases.folder import AnyRelease
from allbutone.releases.several import Released, statistics_of
from allbutone.releases.statistics import JoinedStatistics, ParameterStatistics, Statistics
from allbutone.support.arrays import half_log_det
from allbutone.support.errors import Caution, Cure, InputError, count_of

# Gibbs sampling of several missing records, for many tables at once: each in turn, given the others.


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
    target = from_statistics(_with_current_records(given_others, rest), released)
    if own is not None:
        target = with_own_prior(target, _with_current_records(own, rest))
    modes = find_modes(target)
    drawn, accepted = _update(target, modes, unknown[:, which], rng)
    return drawn, accepted, target, modes


def _with_current_records(given_others: NIW, records: Float[np.ndarray, "chains m p"]) -> NIW:
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


ENOUGH = 100  # independent draws: a mean to a tenth of its standard deviation
PARTS = 256  # conditional posteriors whose average is the density of a missing record
TOTALS = 256  # points, four times, of each one's total where that is not exact
STARTS = 64  # of their modes from which the average's is looked for


@dataclass(frozen=True, eq=False)
class MissingPosterior:
    """The posterior of a missing record when `missing` records are unknown: draws, shape (chains, draws, p).

    The unknown records are exchangeable, so all of them are draws of the target. `parts` are some posteriors of
    one given the rest, chain by chain: their average is the density of a missing record (Rao and Blackwell).
    `others`: the model given the records that the adversary has.
    """

    missing: int
    draws: Float[np.ndarray, "chains draws p"]
    acceptance: float
    others: NIW
    parts: LogQuadratic
    part_modes: Modes

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

    @cached_property
    def mode(self) -> Float[np.ndarray, " p"]:
        """The most probable record: the adversary's guess of any one that is missing."""
        best = self.parts.unwhiten(self.part_modes.best)
        other = self.parts.unwhiten(self.part_modes.other)
        starts = np.concatenate([each[:: max(1, len(each) // STARTS)] for each in (best, other)])
        starts = starts[np.isfinite(starts).all(axis=1)]
        start, root = starts[np.argmax(self.log_density(starts))], self.others.root
        white = np.linalg.solve(root, start - self.others.mean)
        return np.asarray(self.others.mean + root @ climb(self, white[None]).white[0])

    def log_density(self, records: Any) -> Float[np.ndarray, " points"]:
        """Return the log density of a missing record at points, shape (points, p)."""
        each = self._log_densities(np.asarray(records, dtype=float))
        return logsumexp(each, axis=0) - np.log(len(each))

    def log_density_error(self, records: Any) -> Float[np.ndarray, " points"]:
        """Return its Monte Carlo error, from the spread of the independent chains."""
        each = self._log_densities(np.asarray(records, dtype=float))
        by_chain = logsumexp(each.reshape(-1, len(self.draws), each.shape[1]), axis=0)
        relative = np.exp(by_chain - logsumexp(by_chain, axis=0)) * len(by_chain)
        return relative.std(axis=0, ddof=1) / np.sqrt(len(by_chain))

    def mass_within(self, centre: Any, radius: float) -> Estimate:
        """Return the share of draws within a Mahalanobis radius of a point, in the metric of the known records."""
        if not radius > 0:
            raise InputError(f"radius must exceed 0, got {radius}")
        away = np.linalg.solve(self.others.root, (self.draws - np.asarray(centre))[..., None])[..., 0]
        by_chain = np.mean(self.others.df * np.sum(away * away, axis=-1) <= radius**2, axis=1)
        return Estimate(float(by_chain.mean()), float(by_chain.std(ddof=1) / np.sqrt(len(by_chain))))

    def within(self, near: Intervals) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n p"]]:
        """Return the share of draws in each feature's interval, for several sets of intervals, and its error."""
        by_chain = [
            np.mean((self.draws >= low) & (self.draws <= high), axis=1)
            for low, high in zip(near.low, near.high, strict=True)
        ]
        return np.mean(by_chain, axis=1), np.std(by_chain, axis=1, ddof=1) / np.sqrt(len(self.draws))

    @cached_property
    def _log_scales(self) -> Float[np.ndarray, " parts"]:
        """What each part's log density is larger by than its normalised one, in the records' coordinates."""
        integrals = integrate(self.parts, self.part_modes, None, Points(), TOTALS)
        return integrals.log_total + self.parts.log_volume

    def _log_densities(self, records: Float[np.ndarray, "points p"]) -> Float[np.ndarray, "parts points"]:
        away = records[None] - self.parts.centre[:, None]
        white = np.linalg.solve(self.parts.root, away.swapaxes(-1, -2)).swapaxes(-1, -2)
        return values_at(self.parts, white) - self._log_scales[:, None]

    @property
    def df(self) -> float:
        """The ν of the known records, by which distances are measured."""
        return float(self.others.df)

    @property
    def rounding(self) -> float:
        """The size of the log density's own rounding."""
        return float(np.max(self.parts.rounding))

    def take(self, rows: Any) -> "MissingPosterior":
        """Return the posterior of the target, which is one for all starts of a climb."""
        return self

    def local(
        self, white: Float[np.ndarray, "1 p"]
    ) -> tuple[Float[np.ndarray, " 1"], Float[np.ndarray, "1 p"], Float[np.ndarray, "1 p p"]]:
        """Return value, gradient and Hessian of the log density in v, x = mean + root·v of the known records.

        With shares wⱼ ∝ exp fⱼ of the parts: g = Σ wⱼgⱼ and H = Σ wⱼ(Hⱼ + gⱼgⱼᵀ) − ggᵀ.
        """
        root = self.others.root
        points = np.broadcast_to(self.others.mean + root @ white[0], self.parts.centre.shape)
        log_share = self.parts.value(self.parts.whiten(points)) - self._log_scales
        total = logsumexp(log_share)
        share, each = np.exp(log_share - total), self.parts.gradient(points) @ root
        bends = root.T @ self.parts.hessian(points) @ root
        gradient = share @ each
        hessian = np.einsum("s,spq->pq", share, bends) + (share[:, None] * each).T @ each
        return total[None], gradient[None], (hessian - np.outer(gradient, gradient))[None]


def posterior(
    others: Any,
    release: AnyRelease,
    adversary: Adversary = USUAL,
    *,
    prior: AnyPrior | None = None,
    reading: Reading = "record",
    rng: Seed = None,
    chains: int = 32,
    sweeps: int = 200,
    warm_up: int = 50,
) -> Posterior | MissingPosterior:
    """Return the posterior of a record missing from `others`, given the release and its mechanism.

    `others`: the records that the adversary has, or their moments; columns are in the release's order, in which a
    table with names is put and an array is taken to be. The release may be its folder; several releases of the
    table, in a list, count together. `adversary`: usually one who lacks the target alone; with `known` values of
    the target the posterior is that of the others. `prior`: the data holder's, where the release does not say it.
    `reading` "record" has the adversary's own prior describe only the missing record (the Student t term) while
    the mechanism is known; "mechanism" has them believe that the release was made with it, too.
    Arrays of any namespace come in; the posterior's own are NumPy's.

    An adversary who lacks more records (`lacking_records`, a number, besides the target) infers all of them
    together: given the other unknown ones, each one's posterior is that of a single missing record, and it is
    updated by an independence sampler from Student t distributions at its two modes. All `chains` advance at once,
    `sweeps` times after `warm_up`; the draws are of any missing record. NumPy arrays only.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=2)
    >>> abo.posterior(cohort.values[1:], release).mass_within(cohort.values[0], radius=1.0) < 1
    True
    >>> one_more = abo.Adversary(lacking_records=1)
    >>> abo.posterior(cohort.values[2:], release, one_more, rng=1, sweeps=60).mode.shape
    (5,)
    """
    if not adversary.lacks_records:
        one = log_posterior(others, release, adversary, prior=prior, reading=reading)
        held: dict[str, Any] = {field.name: getattr(one, field.name) for field in fields(one)}
        for name, each in held.items():
            held[name] = np.asarray(each) if is_array_api_obj(each) else each
        return Posterior(**held)
    if not isinstance(adversary.lacking_records, int):
        raise InputError(
            "the records given are those that the adversary has: rows of them cannot be lacking",
            Cure("leave those rows out, and say how many", "lacking_records", len(adversary.lacking_records)),
        )
    if adversary.known_values is not None:
        raise InputError("of records that are missing together nothing is known", Cure("leave it out", "known"))
    given = admit(others, release, adversary, prior, reading)
    missing, sweeps = 1 + adversary.lacking_records, count_of("sweeps", sweeps)
    sampled = sampled_posterior(*given, missing, rng, chains=chains, sweeps=sweeps, warm_up=warm_up)
    if sampled.effective_size < ENOUGH:
        message = f"the draws are worth {sampled.effective_size:.0f} independent ones; raise sweeps, now {sweeps}"
        warnings.warn(message, Caution, stacklevel=2)
    return sampled


def sampled_posterior(
    values: Any,
    release: Released,
    prior: NIW,
    own_prior: NIW | None,
    missing: int,
    rng: Seed,
    *,
    chains: int,
    sweeps: int,
    warm_up: int,
) -> MissingPosterior:
    """Return the posterior of a record when `missing` of them are, by sampling; of what `admit` has checked."""
    chains, moments = count_of("chains", chains), Moments.of(values)
    if chains < 2:
        raise InputError(f"chains must be at least 2, to tell the Monte Carlo error, got {chains}")
    warm_up = count_of("warm_up", warm_up) if warm_up else 0
    given_others, own = _one_table(prior, moments), own_prior and _one_table(own_prior, moments)
    stream, seen = np.random.default_rng(rng), statistics_of(release)
    (sampled,) = sample_missing(
        given_others, seen, missing, stream, own=own, chains=chains, sweeps=sweeps, warm_up=warm_up
    )
    return sampled


def sample_missing(
    given_others: NIW,
    released: Statistics,
    missing: int,
    rng: np.random.Generator,
    *,
    own: NIW | None = None,
    chains: int = 8,
    sweeps: int = 100,
    warm_up: int = 20,
    parts: int = PARTS,
) -> list[MissingPosterior]:
    """Sample what is missing from each of many tables, all chains of all tables at once.

    `given_others`: the model given the known records of each table (one batch axis; κ and ν are the same for all);
    `own` likewise where the adversary has a prior of their own. `released`: one for all, or one a table. `parts`:
    how many conditional posteriors of each table are kept.
    """
    known, believed, seen = (repeated(each, chains) for each in (given_others, own, released))
    unknown = first_guess(known if believed is None else believed, missing, rng)
    # which updates leave their conditional posterior behind: evenly spread over all
    kept_at = set(np.linspace(0, sweeps * missing - 1, -(-parts // chains), dtype=int).tolist())
    kept: list[np.ndarray] = []
    left: list[tuple[LogQuadratic, Modes]] = []
    accepted = 0.0
    for turn in range(-warm_up, sweeps):
        for which in range(missing):
            drawn, moved, target, modes = update_one(known, believed, seen, unknown, which, rng)
            unknown[:, which] = drawn
            if turn >= 0:
                accepted += moved / (sweeps * missing)
                if turn * missing + which in kept_at and (missing > 1 or not left):
                    left.append((target, modes))
        if turn >= 0:
            kept.append(unknown.copy())
    draws = np.concatenate(kept, axis=1)
    return [
        MissingPosterior(
            missing,
            draws[table * chains : (table + 1) * chains],
            accepted,
            NIW(given_others.mean[table], known.mean_weight, known.df, given_others.scale[table]),
            *_joined_posteriors(left, np.arange(table * chains, (table + 1) * chains)),
        )
        for table in range(len(given_others.mean))
    ]


def _one_table(prior: NIW, moments: Moments) -> NIW:
    model = prior.update(moments)
    return NIW(model.mean[None], model.mean_weight, model.df, model.scale[None])


def _joined_posteriors(
    parts: Sequence[tuple[LogQuadratic, Modes]], rows: np.ndarray
) -> tuple[LogQuadratic, Modes]:
    """Put these chains' posteriors one after the other; what all of them share stays shared."""
    modes = [one.take(rows) for _, one in parts]
    every = [field.name for field in fields(Modes) if field.name != "steps"]
    joined: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in modes]) for name in every}
    return stacked([one.take(rows) for one, _ in parts]), replace(modes[0], **joined)
