"""Fidelity: how much the synthetic datasets of a release look like the real table, wherever that lies."""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri

from allbutone.model.moments import Moments
from allbutone.releases.folder import synthetic_tables
from allbutone.support.errors import InputError
from allbutone.support.text import counted, number, table
from allbutone.tables.engines.lazy_records import LazyRecords, is_lazy
from allbutone.utility.categories import (
    BAND,
    MEDIAN,
    CategoryDifferences,
    CategoryFidelity,
    category_fidelity,
    far_out,
    flagged,
)
from allbutone.utility.columns import (
    by_columns,
    by_columns_with_gaps,
    ks_p_values,
    matched,
    of_moments,
    require_spread,
)
from allbutone.utility.natural_scale import NaturalScale, natural_scale
from allbutone.utility.normality import Normality, judge_column, thin
from allbutone.utility.shapes import Densities, Shape, densities_of_counts, positions, standardised
from allbutone.utility.telling_apart import told_apart

# Fidelity as a notebook shows it: a line a column, and what the propensity scores say of all together.


HEADINGS = ("column", "mean difference", "SD ratio", "share of KS p > 0.05")
CATEGORY_HEADINGS = ("category", "misplaced share", "χ² over its expectation")


class Shown:
    """What a comparison of real with synthetic data shows of itself."""

    def __repr__(self) -> str:
        """Return what the propensity scores say, and a line a column: medians over the datasets."""
        return "\n".join([self._words(), *(line for part in self._tables() for line in _aligned(*part))])

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._words())}</p>" + "".join(table(*part) for part in self._tables())

    def _tables(self) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
        """Return headings and lines of the measurements, and of the categories where there are any."""
        parts = ((HEADINGS, self._lines()), (CATEGORY_HEADINGS, self._category_lines()))
        return [(headings, lines) for headings, lines in parts if lines]

    def _words(self) -> str:
        found: Any = self
        tree = float(np.mean(found.pmse_tree_ratio))
        by_tree = f", by a tree {number(tree, 2)}" if np.isfinite(tree) else ""
        return (
            f"Fidelity of {counted(len(found.rows), 'dataset')} to {counted(found.people, 'record')}; propensity "
            f"error over its expectation {number(float(np.mean(found.pmse_ratio_drawn)), 2)}{by_tree}"
        )

    def _lines(self) -> list[tuple[str, ...]]:
        found: Any = self
        means, ratios = (np.median(each, axis=0) for each in (found.mean_differences, found.spread_ratios))
        columns = zip(found.columns, means, ratios, found.ks_p_share, strict=True)
        return [(name, *(number(float(each), 2) for each in values)) for name, *values in columns]

    def _category_lines(self) -> list[tuple[str, ...]]:
        found: Any = self
        lines: list[tuple[str, ...]] = []
        for shares in found.categories.shares:
            ratio = np.median(shares.chi_squared / np.maximum(shares.degrees, 1))
            misplaced = number(float(np.median(shares.distances)), 3)
            lines.append((shares.columns[0], misplaced, number(float(ratio), 2)))
        return lines


def _aligned(headings: tuple[str, ...], lines: list[tuple[str, ...]]) -> list[str]:
    every = [headings, *lines]
    widths = [max(map(len, cells)) for cells in zip(*every, strict=True)]
    return ["  ".join(map(str.rjust, line, widths)) for line in every]


# Fidelity: how much the synthetic datasets of a release look like the real table.


MEAN_BAND = BAND  # the paper's band: standardized mean differences within ±0.1 are negligible
LEVEL = 0.05  # of the Kolmogorov-Smirnov tests
QUARTILES = (0.25, 0.5, 0.75)


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
class Fidelity(Shown):
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
        strays from 0.95.) Categories: `CategoryFidelity.beyond_noise`; natural units: `NaturalScale`.
        """
        k, p = self.ks.shape
        alone = MEDIAN * np.mean(np.sqrt(1 / self.people + 1 / self.rows)) / np.sqrt(k)
        noise = alone * np.sqrt(self.people / np.maximum(self.observed, 1))  # fewer values where some are missing
        far = far_out(p) * np.diagonal(noise)
        means = np.abs(np.median(self.mean_differences, axis=0)) > MEAN_BAND + far
        spreads = np.abs(np.median(np.log(self.spread_ratios), axis=0)) > MEAN_BAND + far / np.sqrt(2)
        one, two = np.triu_indices(p, 1)
        real, synthetic = (
            np.arctanh(np.clip(each[..., one, two], -1 + 1e-15, 1 - 1e-15))
            for each in (self.correlations, self.synthetic_correlations)
        )
        apart = np.abs(np.median(synthetic, axis=0) - real) > MEAN_BAND + far_out(len(one)) * noise[one, two]
        rejected = self.ks_p_share < 0.8 - 2.6 * np.sqrt(0.16 / k)
        rejected |= np.median(self.ks_p, axis=0) < 0.001 / max(p, 1)
        pair_names = [f"{self.columns[i]} and {self.columns[j]}" for i, j in zip(one, two, strict=True)]
        return Differences(
            flagged(self.columns, means),
            flagged(self.columns, spreads),
            flagged(pair_names, apart),
            flagged(self.columns, rejected),
            self.categories.beyond_noise(),
            *((self.natural.spreads_apart(), self.natural.tails_apart()) if self.natural else ()),
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


def fidelity(table: Any, release: Any, *, rng: np.random.Generator | None = None, **how_to_read: Any) -> Fidelity:
    """Compare the real table with every dataset of a release, columns matched by name.

    `rng` permutes the labels that calibrate the tree; by default it is the same each time. How the table is read
    is said as to `Records.of` (complete_cases, missing_codes, …). A lazy frame is compared where it is, by its
    moments and by counts (`fidelity_in_engine`).

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.NIWSynthesizer().fit(cohort).sample(datasets=4)
    >>> found = abo.fidelity(cohort, release)
    >>> found.means_within_band.shape, found.ks.shape
    ((5,), (4, 5))
    """
    if is_lazy(table):
        tables = synthetic_tables(release)
        how_to_read = {"rows_are_people": True} | how_to_read
        counted = LazyRecords.of(table, columns=tables.order, schema=tables.schema, **how_to_read)
        return fidelity_in_engine(CountedTable.of(counted), release)[0]
    pair = matched(table, release, **how_to_read)
    records, rows = pair.records, np.array([len(data) for data in pair.datasets])
    columns, scores = (by_columns_with_gaps if pair.has_gaps else by_columns)(pair), told_apart(pair, rng)
    return Fidelity(
        columns=records.columns,
        people=len(records.values),
        rows=rows,
        **vars(columns),
        **vars(scores),
        categories=category_fidelity(
            records.values, records.columns, records.categories, pair.datasets, pair.categories
        ),
        natural=natural_scale(records.schema, records.values, pair.datasets),
    )


def _associations(
    correlations: Float[np.ndarray, "*k p p"], eta: Float[np.ndarray, "*k p q"], v: Float[np.ndarray, "*k q q"]
) -> Float[np.ndarray, "*k c c"]:
    above = np.concatenate([np.abs(correlations), eta], axis=-1)
    below = np.concatenate([np.swapaxes(eta, -1, -2), v], axis=-1)
    return np.concatenate([above, below], axis=-2)


# Fidelity and fitness of the model for a table that stays in its engine: from its moments and from counts.


QUANTILES = 10_000  # of a column, which stand for its values where its shape is judged
BINS = 1 << 14
REACH = 8.0  # standard deviations on either side of the mean that the bins cover
BLOCK_ROWS = 1 << 16  # of a dataset, counted at a time


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of equal width of each of p columns, from `low` on; the first and the last hold all beyond, too."""

    low: Float[np.ndarray, " p"]
    width: Float[np.ndarray, " p"]

    @classmethod
    def about(cls, mean: Float[np.ndarray, " p"], spread: Float[np.ndarray, " p"]) -> "Bins":
        """Return bins a thousandth of a standard deviation wide, about the mean."""
        return cls(mean - REACH * spread, 2 * REACH * spread / BINS)

    @property
    def centres(self) -> Float[np.ndarray, "p bins"]:
        """The middle of each bin."""
        return self.low[:, None] + self.width[:, None] * (np.arange(BINS) + 0.5)

    def count(self, values: Float[np.ndarray, "n p"]) -> Int[np.ndarray, "p bins"]:
        """Count values in memory."""
        total = np.zeros((len(self.low), BINS), dtype=np.int64)
        for start in range(0, len(values), BLOCK_ROWS):
            place = np.floor((values[start : start + BLOCK_ROWS] - self.low) / self.width)
            for column, places in zip(total, np.clip(place, 0, BINS - 1).astype(np.int64).T, strict=True):
                column += np.bincount(places, minlength=BINS)
        return total


@dataclass(frozen=True, eq=False)
class CountedTable:
    """A table that stays in its engine, by its moments and by how many values lie in each of many narrow bins."""

    records: LazyRecords
    moments: Moments
    bins: Bins
    counts: Int[np.ndarray, "p bins"]

    @classmethod
    def of(cls, records: LazyRecords) -> "CountedTable":
        """Have the engine count every column."""
        if records.categories.columns:
            raise InputError("a table is compared in its engine by its measurements", "leave the categories out")
        moments = Moments.of(records)
        spread = np.sqrt(np.diagonal(moments.scatter) / (moments.count - 1))
        bins = Bins.about(np.asarray(moments.mean), spread)
        return cls(records, moments, bins, records.histograms(bins.low, bins.width, BINS))

    @property
    def people(self) -> int:
        """The number of records."""
        return len(self.records)

    def quantiles(self, places: Float[np.ndarray, " q"]) -> Float[np.ndarray, "q p"]:
        """Return values below which these shares of each column lie, to the width of a bin."""
        centres, below = self.bins.centres, np.cumsum(self.counts, axis=1)
        return np.stack(
            [
                middle[np.searchsorted(up_to, places * self.people)]
                for middle, up_to in zip(centres, below, strict=True)
            ],
            axis=1,
        )


def fidelity_in_engine(table: CountedTable, release: Any) -> tuple[Fidelity, Densities]:
    """Compare a table that stays in its engine with every dataset of a release; no record is moved.

    Kolmogorov-Smirnov distances are those at the ends of the bins, a thousandth of a standard deviation apart: D
    may be larger by what lies within a bin. Propensity scores are those of a linear regression, which moments
    determine: (1/N)·Σ (p̂ᵢ − c)² = c(1 − c)·T/(1 + T), T = (n·rows/N)·δᵀW⁻¹δ with W the scatter within both tables;
    for small differences the logistic regression's are the same. A tree needs the rows: its scores are NaN.
    """
    synthetic = synthetic_tables(release, on_model_scale=True)
    if synthetic.columns != table.records.columns:
        raise InputError("the table and the release have different columns", "choose the same")
    for place, data in enumerate(synthetic.values, start=1):
        require_spread(data, synthetic.columns, f"of dataset {place}")
    rows, people = np.array(synthetic.rows), table.people
    each = [Moments.of(data) for data in synthetic.values]
    counts = np.stack([table.bins.count(data) for data in synthetic.values])
    numerators = _ks_numerators(table.counts, counts, people, rows)
    tests = (numerators / (people * rows[:, None]), ks_p_values(people, rows, numerators))
    columns, k = of_moments(table.moments, each, tests), len(rows)
    found = Fidelity(
        columns=table.records.columns,
        people=people,
        rows=rows,
        **vars(columns),
        pmse=np.array([_linear_propensity(table.moments, one) for one in each]),
        propensity_finite=np.ones(k, dtype=bool),
        pmse_tree=np.full(1, np.nan),
        pmse_tree_expected=np.full(1, np.nan),
        terms=len(table.records.columns),
        complete=people,
        complete_rows=rows,
        categories=CategoryFidelity(k, table.records.columns, (), (), (), ()),
    )
    names = tuple(column.on_scale for column in table.records.schema.measurements)
    spread = np.sqrt(np.diagonal(table.moments.scatter) / (people - 1))
    return found, densities_of_counts(names, table.bins.centres, table.counts, counts.sum(axis=0), spread)


def _ks_numerators(
    real: Int[np.ndarray, "p bins"],
    synthetic: Int[np.ndarray, "k p bins"],
    people: int,
    rows: Int[np.ndarray, " k"],
) -> Int[np.ndarray, "k p"]:
    """Return n·rows·D, a whole number, D = max |F − G| at the ends of the bins."""
    real_below, below = np.cumsum(real, axis=-1), np.cumsum(synthetic, axis=-1)
    return np.max(np.abs(people * below - rows[:, None, None] * real_below), axis=-1)


def _linear_propensity(real: Moments, synthetic: Moments) -> float:
    n, rows = real.count, synthetic.count
    step = (synthetic.mean - real.mean) + (synthetic.mean_tail - real.mean_tail)
    apart = n * rows / (n + rows) * float(step @ np.linalg.solve(real.scatter + synthetic.scatter, step))
    share = rows / (n + rows)
    return float(share * (1 - share) * apart / (1 + apart))


def normality_in_engine(table: CountedTable) -> Normality:
    """Judge the shape of every column by 10,000 of its quantiles; how columns vary together is not judged."""
    values = table.quantiles(positions(min(table.people, QUANTILES)))
    shape, names = Shape.of(values), table.records.columns
    judged = zip(names, values.T, shape.levels, strict=True)
    verdicts = tuple(judge_column(name, column, int(level)) for name, column, level in judged)
    chosen = thin(len(values))
    return Normality(
        columns=names,
        people=table.people,
        shape=shape,
        mardia=None,
        henze_zirkler=None,
        verdicts=verdicts,
        together=None,
        qq_normal=ndtri(positions(len(values))[chosen]),
        qq_values=standardised(values)[chosen].T,
        distance_quantiles=np.empty(0),
        squared_distances=np.empty(0),
    )
