"""Where people stand among the others: all of a person that a prediction of their risk depends on."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.downdates import remove_each
from allbutone.disclosure.exposure_law import HIGH, together, without
from allbutone.disclosure.rule import Rule
from allbutone.integrals.exact import interval_probability
from allbutone.integrals.importance_sampling import Intervals
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW


@dataclass(frozen=True, eq=False)
class Standing:
    """Where m people stand, each column in units of the others' standard deviation.

    leverage: q. distance: from the others' mean, Mahalanobis. deviation: in each column. low, high: the interval
    that counts as knowing the value. needed: the probability of it at which the value is disclosed; infinite where
    it cannot be.
    """

    leverage: Float[np.ndarray, " m"]
    distance: Float[np.ndarray, " m"]
    deviation: Float[np.ndarray, "m p"]
    low: Float[np.ndarray, "m p"]
    high: Float[np.ndarray, "m p"]
    needed: Float[np.ndarray, "m p"]

    @classmethod
    def of(cls, others: NIW, values: Float[np.ndarray, "m p"], near: Intervals, rule: Rule) -> "Standing":
        """Compare each of these people with the model of their others (one batch axis)."""
        mean, scale = np.asarray(others.mean), np.asarray(others.scale)
        df, kappa = (
            np.broadcast_to(np.asarray(each, dtype=float), len(values))[:, None]
            for each in (others.df, others.mean_weight)
        )
        root = np.sqrt(np.diagonal(scale, axis1=1, axis2=2))
        freedom = df + 1 - values.shape[1]
        student = root * np.sqrt((kappa + 1) / (kappa * freedom))
        spread = root / np.sqrt(df)
        leverage = leverages_among(others, values)
        return cls(
            leverage=leverage,
            distance=np.sqrt(df * leverage[:, None] * (kappa + 1) / kappa)[:, 0],
            deviation=(values - mean) / spread,
            low=(near.low - mean) / spread,
            high=(near.high - mean) / spread,
            needed=rule.needed(interval_probability(mean, student, freedom, near.low, near.high)),
        )

    def take(self, rows: Int[np.ndarray, " r"] | slice) -> "Standing":
        """Return some of the people."""
        return Standing(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def most_telling(self, most: int) -> "Standing":
        """Return each person with the columns in which they stand out most, and those of the widest intervals."""
        if self.deviation.shape[1] <= most:
            return self
        far = np.argsort(-np.abs(self.deviation), axis=1)[:, : most - most // 4]
        wide = np.argsort(self.low - self.high, axis=1)[:, : most // 4]
        chosen = np.concatenate([far, wide], axis=1)
        names = ("deviation", "low", "high", "needed")
        picked = {name: np.take_along_axis(getattr(self, name), chosen, axis=1) for name in names}
        return Standing(leverage=self.leverage, distance=self.distance, **picked)


def leverages_among(others: NIW, values: Float[np.ndarray, "m p"]) -> Float[np.ndarray, " m"]:
    """Return q = κ/(κ + 1)·(x − μ)ᵀΛ⁻¹(x − μ) of each of these people, by the model of their own others."""
    kappa = np.broadcast_to(np.asarray(others.mean_weight, dtype=np.float64), len(values))
    white = np.linalg.solve(others.root, (values - np.asarray(others.mean))[..., None])[..., 0]
    return kappa / (kappa + 1) * np.sum(white * white, axis=1)


def others_of(
    values: Float[np.ndarray, "n p"],
    prior: NIW,
    whole: NIW,
    rows: Int[np.ndarray, " m"],
    leverage: Float[np.ndarray, " m"],
    elsewhere: Moments | None = None,
) -> NIW:
    """Return the model, `whole` with everyone, without each of these rows, whose leverages are known.

    `elsewhere`: the moments of further records.
    """
    found = remove_each(whole, values[rows])
    high = np.flatnonzero(leverage > HIGH / (1 - HIGH))
    if not len(high):
        return found
    mean, scale = np.array(found.mean), np.array(found.scale)
    for place in high:  # taking these out of the whole would cost digits
        alone = prior.update(together(without(values, int(rows[place])), elsewhere))
        mean[place], scale[place] = alone.mean, alone.scale
    return NIW(mean, found.mean_weight, found.df, scale)
