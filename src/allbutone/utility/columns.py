"""Measurements column by column and pair by pair: means, spreads, correlations, Kolmogorov-Smirnov."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.moments import Moments
from allbutone.utility.compare import kolmogorov_smirnov
from allbutone.utility.kolmogorov_smirnov import ks_numerators, ks_p_values
from allbutone.utility.matching import Matched


@dataclass(frozen=True, eq=False)
class Columns:
    """What `Fidelity` says of measurements: the fields of the same names."""

    observed: Int[np.ndarray, "p p"]
    correlations: Float[np.ndarray, "p p"]
    synthetic_correlations: Float[np.ndarray, "k p p"]
    mean_differences: Float[np.ndarray, "k p"]
    spread_ratios: Float[np.ndarray, "k p"]
    ks: Float[np.ndarray, "k p"]
    ks_p: Float[np.ndarray, "k p"]


def by_columns(pair: Matched) -> Columns:
    """Compare tables without gaps."""
    values, rows = pair.records.values, np.array([len(data) for data in pair.datasets])
    if not values.shape[1]:  # categories alone
        none, pairs = np.zeros((len(rows), 0)), np.zeros((0, 0))
        return Columns(pairs.astype(np.int64), pairs, np.zeros((len(rows), 0, 0)), none, none, none, none)
    tests = kolmogorov_smirnov(values, pair.datasets, rows)
    return of_moments(Moments.of(values), [Moments.of(data) for data in pair.datasets], tests)


def of_moments(
    real: Moments, synthetic: Sequence[Moments], tests: tuple[Float[np.ndarray, "k p"], Float[np.ndarray, "k p"]]
) -> Columns:
    """Compare tables by their moments, given D and p of the Kolmogorov-Smirnov tests."""
    rows, p = np.array([each.count for each in synthetic]), len(real.mean)
    scatters = np.stack([moments.scatter for moments in synthetic])
    variance = np.diagonal(real.scatter) / (real.count - 1)
    variances = np.diagonal(scatters, axis1=1, axis2=2) / (rows[:, None] - 1)
    steps = np.stack([(each.mean - real.mean) + (each.mean_tail - real.mean_tail) for each in synthetic])
    return Columns(
        observed=np.full((p, p), int(real.count)),
        correlations=_correlations(real.scatter),
        synthetic_correlations=_correlations(scatters),
        mean_differences=steps / np.sqrt((variance + variances) / 2),
        spread_ratios=np.sqrt(variances / variance),
        ks=tests[0],
        ks_p=tests[1],
    )


def by_columns_with_gaps(pair: Matched) -> Columns:
    """Compare the values that there are: of each column, and of each two columns the rows that have both."""
    values = pair.records.values
    centre = np.nanmean(values, axis=0)
    counts, means, variance, correlations = _pairwise(values - centre)
    each = [_pairwise(data - centre) for data in pair.datasets]
    _, others, variances, synthetic = (np.stack(part) for part in zip(*each, strict=True))
    tests = [_ks_of_column(values[:, c], [data[:, c] for data in pair.datasets]) for c in range(values.shape[1])]
    distances, p_values = (np.stack(part, axis=1) for part in zip(*tests, strict=True))
    return Columns(
        observed=counts,
        correlations=correlations,
        synthetic_correlations=synthetic,
        mean_differences=(others - means) / np.sqrt((variance + variances) / 2),
        spread_ratios=np.sqrt(variances / variance),
        ks=distances,
        ks_p=p_values,
    )


def _pairwise(
    centred: Float[np.ndarray, "n p"],
) -> tuple[Int[np.ndarray, "p p"], Float[np.ndarray, " p"], Float[np.ndarray, " p"], Float[np.ndarray, "p p"]]:
    """Return numbers of rows that have both columns, means, variances, and correlations by those rows.

    NaN where two columns are never seen together, or do not vary where they are.
    """
    seen = (~np.isnan(centred)).astype(float)
    known = np.where(seen > 0, centred, 0.0)
    counts = seen.T @ seen
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (known.T @ seen) / counts  # of column a over the rows that have b, too
        squares = (known**2).T @ seen - counts * means**2
        found = (known.T @ known - counts * means * means.T) / np.sqrt(squares * squares.T)
        variances = np.diagonal(squares) / (np.diagonal(counts) - 1)
    found = np.clip(found, -1, 1)
    np.fill_diagonal(found, 1.0)
    return counts.astype(np.int64), np.diagonal(means).copy(), variances, found


def _ks_of_column(
    real: Float[np.ndarray, " n"], datasets: list[Float[np.ndarray, " _"]]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    real = np.sort(real[~np.isnan(real)])
    parts = [data[~np.isnan(data)] for data in datasets]
    sizes = np.array([len(part) for part in parts])
    numerators = np.stack([ks_numerators(real, part[None]) for part in parts])
    p_values = ks_p_values(len(real), sizes, numerators)
    return numerators[:, 0] / (len(real) * sizes), p_values[:, 0]


def _correlations(scatter: Float[np.ndarray, "*k p p"]) -> Float[np.ndarray, "*k p p"]:
    """Return Pearson's r = S_ab/√(S_aa·S_bb)."""
    spread = np.sqrt(np.diagonal(scatter, axis1=-2, axis2=-1))
    found = np.clip(scatter / spread[..., :, None] / spread[..., None, :], -1, 1)
    found[..., np.arange(spread.shape[-1]), np.arange(spread.shape[-1])] = 1
    return found
