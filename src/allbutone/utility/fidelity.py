"""Fidelity: how much the synthetic datasets of a release look like the real table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr

from allbutone.support.text import ShowsItself, counted, number
from allbutone.tables.records import Records
from allbutone.utility.categories import (
    BAND,
    MEDIAN,
    CategoryDifferences,
    CategoryFidelity,
    category_fidelity,
    far_out,
    flagged,
)
from allbutone.utility.columns import Matched, by_columns, matched
from allbutone.utility.natural_scale import NaturalScale, natural_scale
from allbutone.utility.survival import Survival, survival
from allbutone.utility.telling_apart import told_apart

MEAN_BAND = BAND  # the paper's band: standardized mean differences within ±0.1 are negligible
LEVEL = 0.05  # of the Kolmogorov-Smirnov tests
QUARTILES = (0.25, 0.5, 0.75)
HEADINGS = ("column", "mean difference", "SD ratio", "share of KS p > 0.05")
CATEGORY_HEADINGS = ("category", "misplaced share", "χ² over its expectation")


@dataclass(frozen=True)
class Differences:
    """The names of columns, and of pairs of them, whose synthetic twin differs by more than noise.

    `natural_spreads` and `tails` are those in natural units, each with its numbers, in words.
    """

    means: tuple[str, ...]
    spreads: tuple[str, ...]
    correlations: tuple[str, ...]
    distributions: tuple[str, ...]
    categories: CategoryDifferences
    natural_spreads: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Fidelity(ShowsItself):
    """The real table beside each of k synthetic datasets; differences are synthetic minus real.

    `spread_ratios` are s_synthetic/s_real.
    `mean_differences` are standardized, (z̄ − x̄)/√((s²_real + s²_synthetic)/2) (Austin 2009). `ks` and `ks_p` are
    the two-sample Kolmogorov-Smirnov D and p of `scipy.stats.ks_2samp`. `pmse` is the mean squared error of
    propensity scores, (1/N)·Σ (p̂ᵢ − c)², by logistic regression on the columns (main effects), N = n + rows,
    c = rows/N; where `propensity_finite` is False the columns separate real from synthetic rows: it is the limit.
    `pmse_tree` is the same by a classification tree (CART), which also sees correlations and shapes, of the first
    100 datasets at most; `pmse_tree_expected` is its mean over permuted labels.

    All of these are of measurements but propensity scores, which see categories, too: by `terms` columns in all,
    the regression's are one for each level that is not rare, but the most frequent. `categories` has the rest.
    Where the real table or a dataset has gaps, observed values are compared, of `observed` real records that have
    one value or two; propensity scores need whole rows, `complete` real ones and `complete_rows` of each dataset.
    Values that are missing for reasons seen in other columns make observed values and whole rows differ from those
    of a right model. `natural`: spreads and extremes in natural units; None of a table that stays in its engine.
    `survival`: of each time to an event that is declared, the curves of real and synthetic rows.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> abo.fidelity(cohort, release).columns
    ('T2D', 'CAD', 'HT', 'BMI', 'HBA1C')
    """

    columns: tuple[str, ...]
    people: int
    rows: Int[np.ndarray, " k"]
    correlations: Float[np.ndarray, "p p"]
    synthetic_correlations: Float[np.ndarray, "k p p"]
    observed: Int[np.ndarray, "p p"]
    mean_differences: Float[np.ndarray, "k p"]
    spread_ratios: Float[np.ndarray, "k p"]
    ks: Float[np.ndarray, "k p"]
    ks_p: Float[np.ndarray, "k p"]
    pmse: Float[np.ndarray, " k"]
    propensity_finite: Bool[np.ndarray, " k"]
    pmse_tree: Float[np.ndarray, " c"]
    pmse_tree_expected: Float[np.ndarray, " c"]
    terms: int
    complete: int
    complete_rows: Int[np.ndarray, " k"]
    categories: CategoryFidelity
    natural: NaturalScale | None = None
    survival: tuple[Survival, ...] = ()

    @property
    def tables(self) -> tuple[tuple[tuple[str, ...], list[tuple[str, ...]]], ...]:
        """Headings and lines of measurements, and of categories where there are any: medians over datasets."""
        parts = ((HEADINGS, self._lines()), (CATEGORY_HEADINGS, self._category_lines()))
        return tuple((headings, lines) for headings, lines in parts if lines)

    @property
    def in_words(self) -> str:
        """What was compared, and what the propensity scores say."""
        tree = float(np.mean(self.pmse_tree_ratio))
        by_tree = f", by a tree {number(tree, 2)}" if np.isfinite(tree) else ""
        return (
            f"Fidelity of {counted(len(self.rows), 'dataset')} to {counted(self.people, 'record')}; propensity "
            f"error over its expectation {number(float(np.mean(self.pmse_ratio_drawn)), 2)}{by_tree}"
            + "".join(f". {each.time}: {each.words.removesuffix('.')}" for each in self.survival)
        )

    def _lines(self) -> list[tuple[str, ...]]:
        means, ratios = (np.median(each, axis=0) for each in (self.mean_differences, self.spread_ratios))
        columns = zip(self.columns, means, ratios, self.ks_p_share, strict=True)
        return [(name, *(number(float(each), 2) for each in values)) for name, *values in columns]

    def _category_lines(self) -> list[tuple[str, ...]]:
        lines: list[tuple[str, ...]] = []
        for shares in self.categories.shares:
            ratio = np.median(shares.chi_squared / np.maximum(shares.degrees, 1))
            misplaced = number(float(np.median(shares.distances)), 3)
            lines.append((shares.columns[0], misplaced, number(float(ratio), 2)))
        return lines

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

    def beyond_noise(self, band: float = MEAN_BAND) -> "Differences":
        """Return what differs by more than a band (0.1) beyond a right model's noise, at 1 in 100 over all.

        A dataset's mean lies √(1/n + 1/rows) from the real one by chance, the logarithm of its spread 1/√2 of
        that, Fisher's z of a correlation as much; the median of k datasets 1.2533/√k of it. Distributions: the
        share of Kolmogorov-Smirnov p-values above 0.05 is below 0.8 by more than chance, or the median p below
        0.001 over the number of columns, and the median distance is above 2Φ(band/2) − 1, that of two normals a
        band apart. (The datasets share one real table, so that even a right model's share strays from 0.95.)
        Categories: `CategoryFidelity.beyond_noise`; natural units: `NaturalScale`.
        """
        k, p = self.ks.shape
        alone = MEDIAN * np.mean(np.sqrt(1 / self.people + 1 / self.rows)) / np.sqrt(k)
        noise = alone * np.sqrt(self.people / np.maximum(self.observed, 1))  # fewer values where some are missing
        far = far_out(p) * np.diagonal(noise)
        means = np.abs(np.median(self.mean_differences, axis=0)) > band + far
        spreads = np.abs(np.median(np.log(self.spread_ratios), axis=0)) > band + far / np.sqrt(2)
        one, two = np.triu_indices(p, 1)
        real, synthetic = (
            np.arctanh(np.clip(each[..., one, two], -1 + 1e-15, 1 - 1e-15))
            for each in (self.correlations, self.synthetic_correlations)
        )
        apart = np.abs(np.median(synthetic, axis=0) - real) > band + far_out(len(one)) * noise[one, two]
        rejected = self.ks_p_share < 0.8 - 2.6 * np.sqrt(0.16 / k)
        rejected |= np.median(self.ks_p, axis=0) < 0.001 / max(p, 1)
        rejected &= np.median(self.ks, axis=0) > 2 * ndtr(band / 2) - 1
        pair_names = [f"{self.columns[i]} and {self.columns[j]}" for i, j in zip(one, two, strict=True)]
        return Differences(
            flagged(self.columns, means),
            flagged(self.columns, spreads),
            flagged(pair_names, apart),
            flagged(self.columns, rejected),
            self.categories.beyond_noise(band),
            *((self.natural.spreads_apart(band), self.natural.tails_apart(band)) if self.natural else ()),
        )

    @property
    def associations(self) -> Float[np.ndarray, "c c"]:
        """How strongly every two columns of the real table go together, from 0 to 1; measurements come first.

        |r| of two measurements, η of a measurement by a category, Cramér's V of two categories.
        """
        return _associations(self.correlations, self.categories.eta, self.categories.cramers_v)

    @property
    def synthetic_associations(self) -> Float[np.ndarray, "k c c"]:
        """The same of each dataset."""
        found = self.categories
        return _associations(self.synthetic_correlations, found.synthetic_eta, found.synthetic_cramers_v)

    @property
    def ks_p_share(self) -> Float[np.ndarray, " p"]:
        """The share of datasets whose Kolmogorov-Smirnov p exceeds 0.05, by column."""
        return np.mean(self.ks_p > LEVEL, axis=0)

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
        """Expected pMSE if the model is right, as synthpop has it: terms·c·(1 − c)²/N (Snoke et al. 2018).

        It holds where all datasets are drawn from the estimated parameters themselves.
        """
        total = self.complete + self.complete_rows
        share = self.complete_rows / total
        return self.terms * share * (1 - share) ** 2 / total

    @property
    def pmse_expected_drawn(self) -> Float[np.ndarray, " k"]:
        """Expected pMSE if the model is right and each dataset has parameters of its own: terms·c·(1 − c)/N.

        This is how datasets are drawn here. The means then differ by σ²/n + σ²/rows, as for two samples of one
        population, and not by σ²/rows alone: 1/(1 − c) times as much, twice where rows = n.
        """
        return self.pmse_expected * (self.complete + self.complete_rows) / self.complete

    @property
    def pmse_ratio_drawn(self) -> Float[np.ndarray, " k"]:
        """pMSE over its expectation for datasets with parameters of their own; about 1 if the model is right."""
        return self.pmse / self.pmse_expected_drawn

    @property
    def pmse_tree_ratio(self) -> Float[np.ndarray, " c"]:
        """pMSE of the tree over its mean under permuted labels; about 1 if the model is right, NaN of few rows."""
        with np.errstate(invalid="ignore"):  # no tree at all
            return self.pmse_tree / self.pmse_tree_expected


def fidelity(table: Any, release: Any, *, rng: np.random.Generator | None = None, **how_to_read: Any) -> Fidelity:
    """Compare the real table with every dataset of a release, columns matched by name.

    `rng` permutes the labels that calibrate the tree; by default it is the same each time. How the table is read
    is said as to `Records.of` (complete_cases, missing_codes, …). A lazy frame is compared where it is, and no
    record is moved: by its moments, by counts of levels and of values in narrow bins, and by a linear regression's
    propensity scores; a tree needs the rows, and its scores are NaN.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=4)
    >>> found = abo.fidelity(cohort, release)
    >>> found.means_within_band.shape, found.ks.shape
    ((5,), (4, 5))
    """
    pair = matched(table, release, **how_to_read)
    columns, scores = by_columns(pair), told_apart(pair, rng)
    in_memory = isinstance(pair.records, Records)
    return Fidelity(
        columns=pair.records.columns,
        people=pair.people,
        rows=pair.rows,
        **vars(columns),
        **vars(scores),
        categories=category_fidelity(pair.records.columns, *pair.grouped()),
        natural=natural_scale(pair.records.schema, pair.values, pair.datasets) if in_memory else None,
        survival=_survival(pair) if in_memory else (),
    )


def _survival(pair: Matched) -> tuple[Survival, ...]:
    """Compare the times to events of the table and the datasets, in natural units."""
    records = pair.records
    assert isinstance(records, Records)
    natural = [records.schema.to_natural(each) for each in pair.datasets]
    datasets = list(zip(natural, pair.categories, strict=True))
    return survival(records.schema, (records.natural, records.categories), datasets)


def _associations(
    correlations: Float[np.ndarray, "*k p p"], eta: Float[np.ndarray, "*k p q"], v: Float[np.ndarray, "*k q q"]
) -> Float[np.ndarray, "*k c c"]:
    above = np.concatenate([np.abs(correlations), eta], axis=-1)
    below = np.concatenate([np.swapaxes(eta, -1, -2), v], axis=-1)
    return np.concatenate([above, below], axis=-2)
