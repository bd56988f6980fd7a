"""Does a given prior go with the data? Asked in words that tell nothing of the data."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.support.text import listed

FAR = 10.0  # times too wide, too narrow, or that many spreads away: no honest public source is so wrong
SHOWN = 10  # columns that are named
MOVED = 0.05  # of a standard deviation, or of a correlation: what the synthetic data should keep


class PriorScaleWarning(UserWarning):
    """The prior is far from the data's scale; are the units the same?"""


def prior_conflict(prior: NIW, moments: Moments, columns: Sequence[str]) -> str | None:
    """Question a prior whose centre or spread is out of all proportion to the data's; names columns, no number."""
    if prior.is_flat:
        return None
    centre, width = np.asarray(prior.mean), np.sqrt(np.diagonal(prior.scale) / max(prior.df - prior.p + 1, 1.0))
    deviation = np.sqrt(np.diagonal(moments.scatter) / max(moments.count - 1, 1))
    away = np.abs(np.asarray(moments.mean) - centre) > FAR * np.maximum(deviation, width)
    far = (deviation > FAR * width) | (width > FAR * deviation) | away
    if not far.any():
        return None
    return (
        f"The prior's centre or spread is far from what the table holds in {_named(columns, far)}. Are both in "
        "the same unit? Synthetic data can be distorted by such a prior. Correct it from public knowledge, never "
        "from this table, or leave it out: the flat prior, the default, needs no units."
    )


def prior_pull(prior: NIW, moments: Moments, columns: Sequence[str]) -> str | None:
    """Say where the prior itself moves the expected synthetic data away from the flat prior's; None where nowhere.

    Compared are the posteriors' expected means and covariances, E[Σ] = Λ′/(ν′ − p − 1), so chance has no part.
    """
    p = prior.p
    if prior.is_flat or moments.count <= p + 2:
        return None
    given, flat = prior.update(moments), NIW.flat(p).update(moments)
    (spread, related), (plain, as_related) = (_spread_and_correlation(each) for each in (given, flat))
    shift = np.abs(np.asarray(given.mean - flat.mean)) / plain
    moved = (shift > MOVED) | (np.abs(spread / plain - 1) > MOVED)
    moved |= np.any(np.abs(related - as_related) > MOVED, axis=1)
    if not moved.any():
        return None
    return (
        f"The prior, not chance, moves the synthetic {_named(columns, moved)} away from the data: a prior worth "
        "fewer records, one with better public centres and spreads, or none would be closer."
    )


def _spread_and_correlation(posterior: NIW) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p p"]]:
    covariance = np.asarray(posterior.scale) / (posterior.df - posterior.p - 1)
    spread = np.sqrt(np.diagonal(covariance))
    return spread, covariance / np.outer(spread, spread)


def _named(columns: Sequence[str], flags: Bool[np.ndarray, " p"]) -> str:
    return listed([repr(name) for name, flag in zip(columns, flags, strict=True) if flag], SHOWN)
