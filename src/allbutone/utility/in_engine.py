"""Fidelity and fitness of the model for a table that stays in its engine: from its moments and from counts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri

from allbutone.model.moments import Moments
from allbutone.releases.synthetic_tables import synthetic_tables
from allbutone.support.errors import InputError
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.utility.category_fidelity import CategoryFidelity
from allbutone.utility.column_shape import Shape, positions, standardised
from allbutone.utility.columns import of_moments
from allbutone.utility.fidelity import Fidelity
from allbutone.utility.kolmogorov_smirnov import ks_p_values
from allbutone.utility.marginal_densities import Densities, densities_of_counts
from allbutone.utility.matching import require_spread
from allbutone.utility.normality import Normality, judge_column, thin

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
    for number, data in enumerate(synthetic.values, start=1):
        require_spread(data, synthetic.columns, f"of dataset {number}")
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
