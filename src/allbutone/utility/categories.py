"""Fidelity of categories: shares, contingency tables, measurements by level, and what chance does to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import chdtrc, ndtri

from allbutone.support.text import percent
from allbutone.tables.categories import Categories
from allbutone.tables.records import Sums

# Categories by counts: shares and contingency tables, real beside synthetic, and what chance does to them.


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each level of a column, or each pair of levels of two, occurs, really and in each of k datasets.

    Rows in which a value is missing are not counted.
    """

    columns: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    real: Int[np.ndarray, "*cells"]
    synthetic: Int[np.ndarray, "k *cells"]

    @property
    def shares(self) -> Float[np.ndarray, "*cells"]:
        """The share of each cell among the real rows."""
        return _shares(self.real[None])[0]

    @property
    def synthetic_shares(self) -> Float[np.ndarray, "k *cells"]:
        """The share of each cell among each dataset's rows."""
        return _shares(self.synthetic)

    @property
    def distances(self) -> Float[np.ndarray, " k"]:
        """The total variation distance of each dataset, ½·Σ|synthetic share − real share|: what is misplaced."""
        differences = np.abs(self.synthetic_shares - self.shares)
        return differences.reshape(len(differences), -1).sum(axis=1) / 2

    @property
    def effective(self) -> Float[np.ndarray, " k"]:
        """The size M = 1/(1/n + 1/rows) by which n real and so many synthetic rows tell shares apart."""
        rows, n = self.synthetic.reshape(len(self.synthetic), -1).sum(axis=1), self.real.sum()
        return n * rows / np.maximum(n + rows, 1)

    @property
    def chi_squared(self) -> Float[np.ndarray, " k"]:
        """Pearson's χ² of each dataset: are its rows and the real ones samples of one population?

        A right model's datasets, each with parameters of its own, differ from the real table as a second sample
        does: χ² is then about `degrees` (0.05 of the `p_values` are below 0.05, but all share one real table).
        """
        shares, cells = self.shares, self.synthetic_shares
        n, rows = self.real.sum(), self.synthetic.reshape(len(self.synthetic), -1).sum(axis=1)
        pooled = (self.real + self.synthetic) / np.maximum(n + rows, 1).reshape(-1, *(1,) * self.real.ndim)
        parts = np.divide((cells - shares) ** 2, pooled, out=np.zeros(cells.shape), where=pooled > 0)
        return self.effective * parts.reshape(len(parts), -1).sum(axis=1)

    @property
    def degrees(self) -> Int[np.ndarray, " k"]:
        """The degrees of freedom of χ²: cells that occur in either table, less one."""
        seen = (self.real + self.synthetic).reshape(len(self.synthetic), -1) > 0
        return np.maximum(seen.sum(axis=1) - 1, 0)

    @property
    def p_values(self) -> Float[np.ndarray, " k"]:
        """P(χ² ≥ what was seen) for two samples of one population; approximate where cells are small."""
        return np.where(self.degrees > 0, chdtrc(np.maximum(self.degrees, 1), self.chi_squared), 1.0)

    @property
    def cramers_v(self) -> float:
        """Cramér's V of the real table of two columns."""
        return float(cramers_v(self.real[None])[0])

    @property
    def synthetic_cramers_v(self) -> Float[np.ndarray, " k"]:
        """Cramér's V of each dataset's table of two columns."""
        return cramers_v(self.synthetic)


@dataclass(frozen=True, eq=False)
class Grouped:
    """A table by groups of records of the same levels: in memory each record is one, in an engine each cell.

    count: the records of each group. measured: of a measurement, by its place, for each group how many values
    there are, Σ y and Σ y², y = x − centre, with one centre for all tables that are compared.
    """

    categories: Categories
    count: Float[np.ndarray, " g"]
    measured: Callable[[int], tuple[Float[np.ndarray, " g"], Float[np.ndarray, " g"], Float[np.ndarray, " g"]]]

    @classmethod
    def of_records(
        cls, values: Float[np.ndarray, "n p"], categories: Categories, centre: Float[np.ndarray, " p"]
    ) -> "Grouped":
        """Take records as they are; what is missing (NaN) is not counted."""

        def measured(place: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            known = np.isfinite(values[:, place])
            away = np.where(known, values[:, place] - centre[place], 0.0)
            return known.astype(float), away, away * away

        return cls(categories, np.ones(len(categories)), measured)

    @classmethod
    def of_sums(cls, sums: Sums, categories: Categories) -> "Grouped":
        """Take the sums of an engine's cells, about their origin; `categories` has the names and levels."""
        coded = Categories(sums.codes, categories.columns, categories.levels)
        return cls(coded, sums.count, lambda at: (sums.count, sums.total[:, at], sums.products[:, at, at]))


def shares_of(real: Grouped, datasets: list[Grouped]) -> tuple[Counts, ...]:
    """Count the levels of every column."""
    return tuple(_counts(real, datasets, (place,)) for place in range(len(real.categories.columns)))


def tables_of(real: Grouped, datasets: list[Grouped]) -> tuple[Counts, ...]:
    """Count the pairs of levels of every two columns: their contingency tables."""
    return tuple(_counts(real, datasets, pair) for pair in combinations(range(len(real.categories.columns)), 2))


def _counts(real: Grouped, datasets: list[Grouped], places: tuple[int, ...]) -> Counts:
    levels = tuple(real.categories.levels[place] for place in places)
    sizes = tuple(map(len, levels))

    def count(table: Grouped) -> Int[np.ndarray, "*cells"]:
        codes = table.categories.codes[:, places]
        known = (codes >= 0).all(axis=1)
        cells = np.ravel_multi_index(tuple(codes[known].T), sizes)
        counts = np.bincount(cells, table.count[known], minlength=int(np.prod(sizes)))
        return counts.astype(np.int64).reshape(sizes)

    names = tuple(real.categories.columns[place] for place in places)
    return Counts(names, levels, count(real), np.stack([count(each) for each in datasets]))


def cramers_v(counts: Int[np.ndarray, "k a b"]) -> Float[np.ndarray, " k"]:
    """Return V = √(φ²/(min(a, b) − 1)), φ² = Σ (pᵢⱼ − pᵢ·p·ⱼ)²/(pᵢ·p·ⱼ), of contingency tables; NaN of one level.

    It is the plain V, as other software has it, and not corrected for chance, by which φ² is (a − 1)(b − 1)/n too
    large on average: comparisons allow for it. a and b count the declared levels, those that nobody has included,
    so that V means the same in a table that lacks one.
    """
    shares = _shares(counts)
    expected = shares.sum(axis=2, keepdims=True) * shares.sum(axis=1, keepdims=True)
    parts = np.divide((shares - expected) ** 2, expected, out=np.zeros(shares.shape), where=expected > 0)
    fewer = min(counts.shape[1:]) - 1
    with np.errstate(invalid="ignore"):  # columns of one level have no association
        return np.sqrt(parts.sum(axis=(1, 2)) / np.float64(fewer))


def _shares(counts: Int[np.ndarray, "k *cells"]) -> Float[np.ndarray, "k *cells"]:
    """Return counts over their sum, 0 where there are none."""
    total = counts.reshape(len(counts), -1).sum(axis=1).reshape(-1, *(1,) * (counts.ndim - 1))
    return counts / np.maximum(total, 1)


# What chance alone does to measures that are squares, such as φ², η² or χ²/M: it makes them larger.


BAND = 0.1  # differences of shares, associations and means within it are negligible, in each measure's own scale
MEDIAN = 1.2533  # the median of k normal values varies by √(π/2)/√k of one


def far_out(tests: int) -> float:
    """Return how many standard errors a right model passes once in 100 times over all tests, on either side."""
    return float(ndtri(1 - 0.005 / max(tests, 1)))


def squares_apart(
    real: Float[np.ndarray, "*t"],
    synthetic: Float[np.ndarray, "k *t"],
    degrees: Int[np.ndarray, "*t"],
    effective: Float[np.ndarray, "k *t"],
    band: Float[np.ndarray, "*t"],
) -> Bool[np.ndarray, "*t"]:
    """Say which squares a², medians over k datasets, are further than the band from the real ones beyond chance.

    M·a² of a right model's dataset is noncentral χ², M = 1/(1/n + 1/rows): its mean is M·a²_real + degrees, its
    variance 2·degrees + 4·M·a². So `degrees`/M is taken from a², which must then lie beyond (a_real ± band)² by
    more than the median of k datasets does by chance, at 1 in 100 over all tests.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # nothing was seen: never apart
        size = np.mean(effective, axis=0)
        found = np.median(synthetic - degrees / effective, axis=0)
        root = np.sqrt(real)
        below, above = np.maximum(root - band, 0), root + band
        factor = far_out(real.size) * MEDIAN / np.sqrt(len(synthetic)) / size
        low, high = (factor * np.sqrt(2 * degrees + 4 * size * edge**2) for edge in (below, above))
        least = np.maximum(below - low / (2 * below), 0)  # the noise of a, not of its square, down to 0
        return ((least > 0) & (found < least**2)) | (found > above**2 + high)


def flagged(names: Sequence[str], flags: Bool[np.ndarray, " t"]) -> tuple[str, ...]:
    """Return the names that are flagged."""
    return tuple(name for name, flag in zip(names, flags, strict=True) if flag)


# Measurements by the levels of a category: their means, and how much of their spread the category explains.


ROUNDING = 1e-13  # of the squares about the centre: a spread below it is none


@dataclass(frozen=True, eq=False)
class ByLevel:
    """The measurements by the levels of one category column, in the real table and in each of k datasets.

    people, rows: how many values there are of each measurement at each level.
    `mean_differences` are synthetic less real, in standard deviations √((s²_real + s²_synthetic)/2) of the whole
    column; NaN where a level has no values in one of the two.
    eta: the correlation ratio, √(spread between levels/whole spread): 0 where all levels have one mean.
    """

    column: str
    levels: tuple[str, ...]
    people: Int[np.ndarray, "p l"]
    rows: Int[np.ndarray, "k p l"]
    mean_differences: Float[np.ndarray, "k p l"]
    eta: Float[np.ndarray, " p"]
    synthetic_eta: Float[np.ndarray, "k p"]


def by_levels(real: Grouped, datasets: list[Grouped], p: int) -> tuple[ByLevel, ...]:
    """Compare the p measurements by the levels of every category column."""
    compared = []
    for place, (name, levels) in enumerate(zip(real.categories.columns, real.categories.levels, strict=True)):
        people, means, eta, spread = _at_levels(real, place, len(levels), p)
        each = [_at_levels(table, place, len(levels), p) for table in datasets]
        rows, others, etas, spreads = (np.stack(part) for part in zip(*each, strict=True))
        scale = np.sqrt((spread**2 + spreads**2) / 2)[..., None]
        with np.errstate(invalid="ignore", divide="ignore"):  # a column that does not vary
            differences = (others - means) / scale
        compared.append(ByLevel(name, levels, people, rows, differences, eta, etas))
    return tuple(compared)


def _at_levels(
    table: Grouped, place: int, size: int, p: int
) -> tuple[Int[np.ndarray, "p l"], Float[np.ndarray, "p l"], Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """Return each measurement's counts and means by level, η and the standard deviation, where both are known.

    η² = Σ nₗ(x̄ₗ − x̄)²/Σ(xᵢ − x̄)². Means are about the tables' common centre.
    """
    counts, means = np.zeros((p, size), dtype=np.int64), np.full((p, size), np.nan)
    eta, spread = np.full(p, np.nan), np.full(p, np.nan)
    codes = table.categories.codes[:, place]
    known = codes >= 0
    for at in range(p):
        number, sums, squares = (
            np.bincount(codes[known], each[known], minlength=size) for each in table.measured(at)
        )
        total, here = number.sum(), number > 0
        if not total:
            continue
        mean = sums.sum() / total
        counts[at], means[at, here] = number, sums[here] / number[here]
        left = squares.sum() - total * mean**2
        if left > ROUNDING * squares.sum():
            between = np.sum((sums - number * mean)[here] ** 2 / number[here])
            eta[at] = np.sqrt(np.minimum(between / left, 1.0))
        if total > 1:
            spread[at] = np.sqrt(np.maximum(left, 0.0) / (total - 1))
    return counts, means, eta, spread


# Fidelity of categories: shares, contingency tables, and what measurements do by level, real beside synthetic.


FEWEST = 10  # real values that a level's mean needs to be compared: of fewer, prior and chance decide


@dataclass(frozen=True)
class CategoryDifferences:
    """What differs by more than noise: columns, pairs of columns, and measurements at a level, `bmi at sex[m]`.

    levels: levels of a column, each with its shares, in words.
    """

    shares: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    associations: tuple[str, ...] = ()
    level_means: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CategoryFidelity:
    """The categories of the real table beside those of each of k datasets.

    shares: a column each. tables: the contingency table of every two columns, (1, 2), (1, 3), …, (2, 3), …
    levels: a column each, with the measurements by its levels. datasets: k.
    """

    datasets: int
    measurements: tuple[str, ...]
    columns: tuple[str, ...]
    shares: tuple[Counts, ...]
    tables: tuple[Counts, ...]
    levels: tuple[ByLevel, ...]

    @property
    def cramers_v(self) -> Float[np.ndarray, "q q"]:
        """Cramér's V of every two columns of the real table, 1 on the diagonal."""
        return self._square(np.array([table.cramers_v for table in self.tables]))

    @property
    def synthetic_cramers_v(self) -> Float[np.ndarray, "k q q"]:
        """Cramér's V of every two columns of each dataset."""
        return self._square(_beside([table.synthetic_cramers_v for table in self.tables], (self.datasets,)))

    @property
    def eta(self) -> Float[np.ndarray, "p q"]:
        """The correlation ratio of each measurement by each category column of the real table."""
        return _beside([each.eta for each in self.levels], (len(self.measurements),))

    @property
    def synthetic_eta(self) -> Float[np.ndarray, "k p q"]:
        """The correlation ratio of each measurement by each category column of each dataset."""
        return _beside([each.synthetic_eta for each in self.levels], (self.datasets, len(self.measurements)))

    def _square(self, above: Float[np.ndarray, "*k pairs"]) -> Float[np.ndarray, "*k q q"]:
        q = len(self.columns)
        found = np.ones((*above.shape[:-1], q, q))
        one, two = np.triu_indices(q, 1)
        found[..., one, two] = found[..., two, one] = above
        return found

    def beyond_noise(self, band: float = BAND) -> CategoryDifferences:
        """Return what differs by more than a band (0.1) beyond a right model's noise, at 1 in 100 over each kind.

        Shares and tables by w = √(χ²/M) (Cohen's w of two samples; M = 1/(1/n + 1/rows)), associations by Cramér's
        V and by η, means at levels of ten real values or more by standard deviations. Chance makes χ², φ² and η²
        larger by their degrees of freedom over M, so that even a right model's V and η are larger than the real
        ones; that is taken into account. Single levels, of which w sees the frequent ones alone, by their mean
        share, where it is off by more than 2½ bands (a quarter) of the real one.
        """
        return CategoryDifferences(
            _apart(self.shares, band),
            _apart(self.tables, band),
            self._associations(band),
            self._level_means(band),
            self._levels(1 + 2.5 * band),
        )

    def _associations(self, band: float) -> tuple[str, ...]:
        names, parts = [], []
        for table in self.tables:
            a, b = table.real.shape
            scale = max(min(a, b) - 1, 1)  # V² = φ²/scale
            names.append(" and ".join(table.columns))
            freedom = (a - 1) * (b - 1)
            parts.append((table.cramers_v, table.synthetic_cramers_v, freedom, table.effective, scale))
        for each in self.levels:
            people, rows = each.people.sum(axis=1), each.rows.sum(axis=2)
            with np.errstate(divide="ignore"):
                effective = 1 / (1 / people + 1 / rows)
            for place, measurement in enumerate(self.measurements):
                names.append(f"{measurement} and {each.column}")
                freedom = len(each.levels) - 1
                parts.append((each.eta[place], each.synthetic_eta[:, place], freedom, effective[:, place], 1))
        if not names:
            return ()
        real, synthetic, degrees, effective, scale = (np.stack(part, axis=-1) for part in zip(*parts, strict=True))
        bands = band * np.sqrt(scale)
        return flagged(names, squares_apart(scale * real**2, scale * synthetic**2, degrees, effective, bands))

    def _levels(self, factor: float) -> tuple[str, ...]:
        """Name the levels that are too frequent or too rare: s beyond factor·r or r/factor, by more than chance.

        A dataset's share has the variance r(1 − r)(1/n + 1/rows) about the real one, r.
        """
        tests, found = sum(each.real.size for each in self.shares), []
        for each in self.shares:
            real, synthetic = each.shares, each.synthetic_shares.mean(axis=0)
            larger = np.maximum(real, synthetic)
            with np.errstate(divide="ignore", invalid="ignore"):  # nothing was seen: never apart
                chance = far_out(tests) * np.sqrt(larger * (1 - larger) * np.mean(1 / each.effective))
            chance = chance / np.sqrt(self.datasets)
            apart = (synthetic > factor * real + chance) | (synthetic < real / factor - chance)
            found += [
                f"{each.columns[0]}[{each.levels[0][at]}] ({percent(synthetic[at])} for {percent(real[at])})"
                for at in np.flatnonzero(apart)
            ]
        return tuple(found)

    def _level_means(self, band: float) -> tuple[str, ...]:
        tests = sum(each.people.size for each in self.levels)
        found: list[str] = []
        for each in self.levels:
            with np.errstate(divide="ignore"):
                noise = np.mean(np.sqrt(1 / each.people + 1 / each.rows), axis=0)
            # datasets that lack the level say nothing of its mean
            seen = np.sum(~np.isnan(each.mean_differences), axis=0)
            compared = (each.people >= FEWEST) & (seen == len(each.rows))
            middle = np.median(np.where(compared, each.mean_differences, 0.0), axis=0)
            far = np.abs(middle) > band + far_out(tests) * MEDIAN * noise / np.sqrt(len(each.rows))
            found += [
                f"{self.measurements[place]} at {each.column}[{each.levels[level]}]"
                for place, level in zip(*np.nonzero(far & compared), strict=True)
            ]
        return tuple(found)


def _apart(counts: tuple[Counts, ...], band: float) -> tuple[str, ...]:
    """Name the tables that differ, by w² = χ²/M."""
    if not counts:
        return ()
    effective = np.stack([each.effective for each in counts], axis=-1)
    squares = np.stack([each.chi_squared for each in counts], axis=-1) / np.maximum(effective, 1e-300)
    degrees = np.array([int(np.median(each.degrees)) for each in counts])
    nothing = np.zeros(len(counts))
    far = squares_apart(nothing, squares, degrees, effective, nothing + band)
    return flagged([" and ".join(each.columns) for each in counts], far)


def _beside(columns: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Stack columns along a last axis, which may have none."""
    return np.stack(columns, axis=-1) if columns else np.zeros((*shape, 0))


def category_fidelity(measurements: tuple[str, ...], real: Grouped, datasets: list[Grouped]) -> CategoryFidelity:
    """Compare the real categories with those of every dataset, and the measurements by their levels."""
    return CategoryFidelity(
        len(datasets),
        measurements,
        real.categories.columns,
        shares_of(real, datasets),
        tables_of(real, datasets),
        by_levels(real, datasets, len(measurements)),
    )
