"""What the adversary who has every record but one learns from noisy moments, beside what they could expect to.

The others' records are taken away from the noisy sum; what is left is the missing record's own x̃x̃ᵀ and the noise
E, normal with σ. With z the record x as the mechanism limits it, and zᵢ the true one, but for a constant

    log p(told | x) = (zᵀEz + (z·zᵢ)² + 2η(e + ηzᵢ)·z − |z|⁴/2 − η²|z|²)/σ²

Before, the adversary believes in x by the others' Student t. Draws of that, weighted, give the rest: with a
guarantee weights are nearly even, and few draws suffice.

Whatever set the adversary names, of probability π before, they hit it with a probability of at most Φ(Φ⁻¹(π) + μ),
μ = Δ/σ: guessing is a test between the release and one that knows nothing of the record. That is an average over
the noise and over such people; for one person and one release it can be more, by luck.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri, ndtr, ndtri, stdtr

from allbutone.adversary.integrate import Intervals
from allbutone.disclosure.rule import Known, near_truth
from allbutone.model.moments import Moments
from allbutone.releases.private_mechanism import NoisyMoments, model_limits
from allbutone.releases.release import Release
from allbutone.support.errors import InputError
from allbutone.tables.records import Records

DRAWS = 11  # 2¹¹ draws of what the adversary believed before
AT_ONCE = 1 << 22  # numbers held at once
BOUND = "bound_"


def private_beliefs(
    wide: Records, release: Release
) -> tuple[Records, Known, np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return for each record, read without limits, the gain, and how well each value is known with and without.

    Values and tolerances are judged as the mechanism sees the records, inside the limits: these, and what counts
    as knowing their values, come first. `bound_…` is Φ(Φ⁻¹(baseline) + μ).
    """
    people, told = len(wide.values), release.noisy
    assert told is not None
    if people != told.people:
        raise InputError(
            f"the release is of {told.people:,} records and the table has {people:,}",
            "give the table it was made from",
        )
    if people < release.p + 4:
        raise InputError("without one of them the records leave no distribution", "give more rows")
    records = _limited(wide, release)
    near = near_truth(records)
    adversary = _Adversary.of(records.values, near, told)
    blocks = np.array_split(np.arange(people), -(-people * release.p * 2**DRAWS // AT_ONCE))
    gain, probability, error, before = (
        np.concatenate(each) for each in zip(*(adversary.learn(block) for block in blocks), strict=True)
    )
    bound = ndtr(ndtri(before) + told.mu)
    bounds = {BOUND + name: bound[:, place] for place, name in enumerate(release.columns)}
    return records, near, gain, probability, error, before, bounds


def of_riskiest(found: Mapping[str, np.ndarray], kind: str) -> Float[np.ndarray, " n"]:
    """Return each person's number of this kind, such as `bound_`, in the column that is riskiest for them."""
    return np.array([found[f"{kind}{name}"][place] for place, name in enumerate(found["riskiest"])])


def _limited(wide: Records, release: Release) -> Records:
    """Return the records inside the limits, on the model's scale."""
    low, high = np.array([(column.low, column.high) for column in release.schema.measurements]).T
    inside = release.schema.to_model(np.clip(wide.natural, low, high))
    return Records(inside, wide.columns, wide.backend, release.schema, wide.rows, wide.notes)


@dataclass(frozen=True, eq=False)
class _Adversary:
    """The records as they are and as the mechanism saw them, in the ball's units; the noise; fixed draws."""

    told: NoisyMoments
    own: Float[np.ndarray, "n p"]
    near: Intervals
    seen: Float[np.ndarray, "n p"]
    noise: Float[np.ndarray, "q q"]
    limits: Float[np.ndarray, "p 2"]
    draws: Float[np.ndarray, "k p"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "n p"], near: Intervals, told: NoisyMoments) -> "_Adversary":
        from scipy.stats import qmc  # not above: it is slow to load

        ball = told.ball
        limits = (model_limits(ball.schema) - ball.centre[:, None]) / ball.unit[:, None]
        own, low, high = ((each - ball.centre) / ball.unit for each in (values, near.low, near.high))
        seen = ball.shrunk(own)
        whole = np.column_stack([seen, np.full(len(seen), ball.eta)])
        # a Student t, but for its scale: normals over the root of one χ²
        points = qmc.Sobol(ball.p + 1, rng=np.random.default_rng(0)).random_base2(DRAWS)
        points = np.clip(points, 1e-9, 1 - 1e-9)
        df = len(values) - ball.p - 1.0
        draws = ndtri(points[:, :-1]) / np.sqrt(chdtri(df, 1 - points[:, -1:]) / df)
        return cls(told, own, Intervals(low, high), seen, told.matrix - whole.T @ whole, limits, draws)

    def learn(self, block: Any) -> tuple[np.ndarray, ...]:
        """Return gain, probabilities, their errors and those before, of these records."""
        n, p = self.own.shape
        own, near, df = self.own[block], self.near.take(block), n - p - 1.0
        moments = Moments.of(self.own)
        away = own - moments.mean
        mean = moments.mean - away / (n - 1)
        scatter = moments.scatter - n / (n - 1) * away[:, :, None] * away[:, None, :]
        scale = scatter * n / ((n - 1) * df)
        spread = np.sqrt(np.diagonal(scale, axis1=1, axis2=2))
        drawn = mean[:, None, :] + self.draws @ np.swapaxes(np.linalg.cholesky(scale), 1, 2)
        logs = self._log_likelihood(self._as_told(drawn), self.seen[block])
        top = logs.max(axis=1, keepdims=True)
        total = np.mean(np.exp(logs - top), axis=1, keepdims=True)
        weights = np.exp(logs - top) / total
        at_truth = self._log_likelihood(self.seen[block][:, None, :], self.seen[block])[:, 0]
        gain = at_truth - (np.log(total) + top)[:, 0]
        before = stdtr(df, (near.high - mean) / spread) - stdtr(df, (near.low - mean) / spread)
        # the draws are used for the change only: what was believed before is known exactly
        change = (weights[:, :, None] - 1) * (near.holds(drawn) - before[:, None, :])
        found = np.clip(before + change.mean(axis=1), 0.0, 1.0)
        return gain, found, change.std(axis=1) / np.sqrt(len(self.draws)), before

    def _as_told(self, drawn: Float[np.ndarray, "b k p"]) -> Float[np.ndarray, "b k p"]:
        """Limit candidates as the mechanism does."""
        return self.told.ball.shrunk(np.clip(drawn, self.limits[:, 0], self.limits[:, 1]))

    def _log_likelihood(self, z: Float[np.ndarray, "b k p"], true: Float[np.ndarray, "b p"]) -> np.ndarray:
        """Return log p(told | x) of candidates as told, but for a constant."""
        eta = self.told.ball.eta
        square = np.sum(z * z, axis=-1)
        along = np.einsum("bkp,bp->bk", z, true)
        from_noise = np.sum((z @ self.noise[:-1, :-1]) * z, axis=-1) + 2 * eta * z @ self.noise[:-1, -1]
        from_record = along**2 + 2 * eta**2 * along - 0.5 * square**2 - eta**2 * square
        return (from_noise + from_record) / self.told.noise**2
