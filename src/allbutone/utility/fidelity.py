"""Fidelity: how much the synthetic datasets of a release look like the real table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri

from allbutone.model.moments import Moments
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.parts import datasets_of
from allbutone.support.errors import Cure, InputError
from allbutone.tables.records import Records
from allbutone.utility.classification_tree import tree_propensity
from allbutone.utility.compare import compare, whitener
from allbutone.utility.display import Shown
from allbutone.utility.kolmogorov_smirnov import ks_p_values

MEAN_BAND = 0.1  # the paper's band: standardized mean differences within ±0.1 are negligible
LEVEL = 0.05  # of the Kolmogorov-Smirnov tests
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Differences:
    """The names of columns, and of pairs of them, whose synthetic twin differs by more than noise."""

    means: tuple[str, ...]
    spreads: tuple[str, ...]
    correlations: tuple[str, ...]
    distributions: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Fidelity(Shown):
    """The real table beside each of k synthetic datasets; differences are synthetic minus real.

    `spread_ratios` are s_synthetic/s_real.
    `mean_differences` are standardized, (z̄ − x̄)/√((s²_real + s²_synthetic)/2) (Austin 2009). `ks` and `ks_p` are
    the two-sample Kolmogorov-Smirnov D and p of `scipy.stats.ks_2samp`. `pmse` is the mean squared error of
    propensity scores, (1/N)·Σ (p̂ᵢ − c)², by logistic regression on the columns (main effects), N = n + rows,
    c = rows/N; where `propensity_finite` is False the columns separate real from synthetic rows: it is the limit.
    `pmse_tree` is the same by a classification tree (CART), which also sees correlations and shapes, of the first
    100 datasets at most; `pmse_tree_expected` is its mean over permuted labels.
    """

    columns: tuple[str, ...]
    people: int
    rows: Int[np.ndarray, " k"]
    correlations: Float[np.ndarray, "p p"]
    synthetic_correlations: Float[np.ndarray, "k p p"]
    mean_differences: Float[np.ndarray, "k p"]
    spread_ratios: Float[np.ndarray, "k p"]
    ks: Float[np.ndarray, "k p"]
    ks_p: Float[np.ndarray, "k p"]
    pmse: Float[np.ndarray, " k"]
    propensity_finite: Bool[np.ndarray, " k"]
    pmse_tree: Float[np.ndarray, " c"]
    pmse_tree_expected: Float[np.ndarray, " c"]

    @property
    def correlation_differences(self) -> Float[np.ndarray, "k p p"]:
        """Each dataset's correlations less the real ones."""
        return self.synthetic_correlations - self.correlations

    @property
    def mean_correlation_differences(self) -> Float[np.ndarray, "p p"]:
        """The mean over the datasets of how far each correlation is from the real one."""
        return self.correlation_differences.mean(axis=0)

    @property
    def correlation_quartiles(self) -> Float[np.ndarray, "3 p p"]:
        """First quartile, median and third quartile of the synthetic correlations over the datasets."""
        return np.quantile(self.synthetic_correlations, QUARTILES, axis=0)

    @property
    def mean_difference_quartiles(self) -> Float[np.ndarray, "3 p"]:
        """First quartile, median and third quartile of the standardized mean differences over the datasets."""
        return np.quantile(self.mean_differences, QUARTILES, axis=0)

    @property
    def means_within_band(self) -> Bool[np.ndarray, " p"]:
        """Whether the interquartile range of a column's standardized mean differences lies within ±0.1."""
        return np.all(np.abs(self.mean_difference_quartiles) <= MEAN_BAND, axis=0)

    def beyond_noise(self) -> "Differences":
        """Return what differs by more than 0.1 beyond the noise of a right model, at 1 in 100 over all columns.

        A dataset's mean lies √(1/n + 1/rows) from the real one by chance, the logarithm of its spread 1/√2 of
        that, Fisher's z of a correlation as much; the median of k datasets 1.2533/√k of it. Distributions: the
        share of Kolmogorov-Smirnov p-values above 0.05 is below 0.8 by more than chance, or the median p below
        0.001 over the number of columns. (The datasets share one real table, so that even a right model's share
        strays from 0.95.)
        """
        k, p = self.ks.shape
        noise = 1.2533 * np.mean(np.sqrt(1 / self.people + 1 / self.rows)) / np.sqrt(k)
        pairs = p * (p - 1) // 2
        far = ndtri(1 - 0.005 / p) * noise
        means = np.abs(np.median(self.mean_differences, axis=0)) > MEAN_BAND + far
        spreads = np.abs(np.median(np.log(self.spread_ratios), axis=0)) > MEAN_BAND + far / np.sqrt(2)
        one, two = np.triu_indices(p, 1)
        real, synthetic = (
            np.arctanh(np.clip(each[..., one, two], -1 + 1e-15, 1 - 1e-15))
            for each in (self.correlations, self.synthetic_correlations)
        )
        apart = np.abs(np.median(synthetic, axis=0) - real) > MEAN_BAND + ndtri(1 - 0.005 / max(pairs, 1)) * noise
        rejected = self.ks_p_share < 0.8 - 2.6 * np.sqrt(0.16 / k)
        rejected |= np.median(self.ks_p, axis=0) < 0.001 / p
        pair_names = [f"{self.columns[i]} and {self.columns[j]}" for i, j in zip(one, two, strict=True)]
        return Differences(
            *(
                tuple(name for name, flag in zip(names, flags, strict=True) if flag)
                for names, flags in (
                    (self.columns, means),
                    (self.columns, spreads),
                    (pair_names, apart),
                    (self.columns, rejected),
                )
            )
        )

    @property
    def ks_p_share(self) -> Float[np.ndarray, " p"]:
        """The share of datasets whose Kolmogorov-Smirnov p exceeds 0.05, by column."""
        return np.mean(self.ks_p > LEVEL, axis=0)

    @property
    def ks_p_off_uniform(self) -> Float[np.ndarray, " p"]:
        """The largest distance between the distribution of a column's p-values and the uniform one.

        The datasets share one real table and parameters near its own, so even a perfect model's p-values are only
        roughly uniform: no test is made of it.
        """
        k = len(self.ks_p)
        ordered, place = np.sort(self.ks_p, axis=0), np.arange(k)[:, None]
        return np.max(np.maximum((place + 1) / k - ordered, ordered - place / k), axis=0)

    def ks_table(self) -> dict[str, np.ndarray]:
        """Return the paper's table, a row a column: mean and SD of D and of p, and the share of p above 0.05.

        The SD is over datasets, with k − 1 below the line; of a single dataset there is none (NaN).
        """
        none = np.full(len(self.columns), np.nan)
        several = len(self.rows) > 1
        return {
            "column": np.array(self.columns),
            "ks_mean": np.mean(self.ks, axis=0),
            "ks_sd": np.std(self.ks, axis=0, ddof=1) if several else none,
            "p_mean": np.mean(self.ks_p, axis=0),
            "p_sd": np.std(self.ks_p, axis=0, ddof=1) if several else none,
            "p_share": self.ks_p_share,
        }

    @property
    def pmse_expected(self) -> Float[np.ndarray, " k"]:
        """Expected pMSE if the model is right, as synthpop has it: p·c·(1 − c)²/N (Snoke et al. 2018).

        It holds where all datasets are drawn from the estimated parameters themselves.
        """
        total = self.people + self.rows
        share = self.rows / total
        return len(self.columns) * share * (1 - share) ** 2 / total

    @property
    def pmse_expected_drawn(self) -> Float[np.ndarray, " k"]:
        """Expected pMSE if the model is right and each dataset has parameters of its own: p·c·(1 − c)/N.

        This is how datasets are drawn here. The means then differ by σ²/n + σ²/rows, as for two samples of one
        population, and not by σ²/rows alone: 1/(1 − c) times as much, twice where rows = n.
        """
        return self.pmse_expected * (self.people + self.rows) / self.people

    @property
    def pmse_ratio(self) -> Float[np.ndarray, " k"]:
        """pMSE over its expectation as synthpop has it; about 1/(1 − c) at best here, 2 where rows = n."""
        return self.pmse / self.pmse_expected

    @property
    def pmse_ratio_drawn(self) -> Float[np.ndarray, " k"]:
        """pMSE over its expectation for datasets with parameters of their own; about 1 if the model is right."""
        return self.pmse / self.pmse_expected_drawn

    @property
    def pmse_tree_ratio(self) -> Float[np.ndarray, " c"]:
        """pMSE of the tree over its mean under permuted labels; about 1 if the model is right, NaN of few rows."""
        with np.errstate(invalid="ignore"):  # no tree at all
            return self.pmse_tree / self.pmse_tree_expected


def fidelity(
    table: Any, release: AnyRelease, *, rng: np.random.Generator | None = None, **how_to_read: Any
) -> Fidelity:
    """Compare the real table with every dataset of a release, columns matched by name.

    `rng` permutes the labels that calibrate the tree; by default it is the same each time. How the table is read
    is said as to `Records.of` (complete_cases, missing_codes, …).

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.NIWSynthesizer().fit(cohort).sample(datasets=4)
    >>> found = abo.fidelity(cohort, release)
    >>> found.means_within_band.shape, found.ks.shape
    ((5,), (4, 5))
    """
    records, datasets = matched(table, release, **how_to_read)
    columns, real = records.columns, Moments.of(records.values)
    synthetic = [Moments.of(data) for data in datasets]
    scatters = np.stack([moments.scatter for moments in synthetic])
    rows = np.array([len(data) for data in datasets])
    variances = np.diagonal(scatters, axis1=1, axis2=2) / (rows[:, None] - 1)
    pooled = np.sqrt((np.diagonal(real.scatter) / (real.count - 1) + variances) / 2)
    steps = np.stack([(each.mean - real.mean) + (each.mean_tail - real.mean_tail) for each in synthetic])
    numerators, scores = compare(records.values, datasets, rows, whitener(real, scatters, rows))
    tree = tree_propensity(records.values, datasets, rng or np.random.default_rng(0))
    return Fidelity(
        columns=columns,
        people=len(records.values),
        rows=rows,
        correlations=_correlations(real.scatter),
        synthetic_correlations=_correlations(scatters),
        mean_differences=steps / pooled,
        spread_ratios=np.sqrt(variances / (np.diagonal(real.scatter) / (real.count - 1))),
        ks=numerators / (len(records.values) * rows[:, None]),
        ks_p=ks_p_values(len(records.values), rows, numerators),
        pmse=scores.mean_squared_error,
        propensity_finite=scores.finite,
        pmse_tree=tree.mean_squared_error,
        pmse_tree_expected=tree.expected,
    )


def matched(table: Any, release: AnyRelease, **how_to_read: Any) -> tuple[Records, list[Float[np.ndarray, "_ p"]]]:
    """Return the real records, columns in the release's order, and the datasets; refuse what cannot be compared.

    Columns of the table that the release does not have are left out.
    """
    release = datasets_of(release_of(release))
    records = Records.of(table, columns=release.columns, schema=release.schema, **how_to_read)
    if len(records.columns) != release.p:
        raise InputError(
            f"the table has {len(records.columns)} columns, the release {release.p}",
            Cure("choose the same", "columns"),
        )
    if len(records.values) < 2:
        raise InputError("the table holds one row", "give at least two records")
    if 1 in release.rows:
        raise InputError(f"dataset {release.rows.index(1) + 1} has one row, which has no spread", "leave it out")
    datasets = [np.asarray(data, dtype=np.float64) for data in release.modelled]
    _require_spread(records.values, records.columns, "of the table")
    for number, data in enumerate(datasets, start=1):
        _require_spread(data, records.columns, f"of dataset {number}")
    return records, datasets


def _require_spread(values: Float[np.ndarray, "_ p"], columns: tuple[str, ...], where: str) -> None:
    constant = np.all(values[1:] == values[0], axis=0)
    if np.any(constant):
        raise InputError(
            f"column {columns[int(np.argmax(constant))]!r} {where} is constant, so it has no correlations",
            "leave that column or that dataset out",
        )


def _correlations(scatter: Float[np.ndarray, "*k p p"]) -> Float[np.ndarray, "*k p p"]:
    """Return Pearson's r = S_ab/√(S_aa·S_bb)."""
    spread = np.sqrt(np.diagonal(scatter, axis1=-2, axis2=-1))
    found = np.clip(scatter / spread[..., :, None] / spread[..., None, :], -1, 1)
    found[..., np.arange(spread.shape[-1]), np.arange(spread.shape[-1])] = 1
    return found
