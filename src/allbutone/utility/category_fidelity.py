"""Fidelity of categories: shares, contingency tables, and what measurements do by level, real beside synthetic."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from allbutone.support.text import percent
from allbutone.tables.categories import Categories
from allbutone.utility.category_counts import Counts, shares_of, tables_of
from allbutone.utility.chance import BAND, MEDIAN, far_out, flagged, squares_apart
from allbutone.utility.levels import ByLevel, by_levels

QUARTER_MORE = 1.25  # a level's share is told apart from the real one beyond this ratio
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

    def beyond_noise(self) -> CategoryDifferences:
        """Return what differs by more than 0.1 beyond the noise of a right model, at 1 in 100 over each kind.

        Shares and tables by w = √(χ²/M) (Cohen's w of two samples; M = 1/(1/n + 1/rows)), associations by Cramér's
        V and by η, means at levels of ten real values or more by standard deviations. Chance makes χ², φ² and η²
        larger by their degrees of freedom over M, so that even a right model's V and η are larger than the real
        ones; that is taken into account. Single levels, of which w sees the frequent ones alone, by their mean
        share, where it is off by more than a quarter of the real one.
        """
        return CategoryDifferences(
            _apart(self.shares), _apart(self.tables), self._associations(), self._level_means(), self._levels()
        )

    def _associations(self) -> tuple[str, ...]:
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
        band = BAND * np.sqrt(scale)
        return flagged(names, squares_apart(scale * real**2, scale * synthetic**2, degrees, effective, band))

    def _levels(self) -> tuple[str, ...]:
        """Name the levels that are too frequent or too rare: s beyond 1¼·r or r/1¼, by more than chance.

        A dataset's share has the variance r(1 − r)(1/n + 1/rows) about the real one, r.
        """
        tests, found = sum(each.real.size for each in self.shares), []
        for each in self.shares:
            real, synthetic = each.shares, each.synthetic_shares.mean(axis=0)
            larger = np.maximum(real, synthetic)
            with np.errstate(divide="ignore", invalid="ignore"):  # nothing was seen: never apart
                chance = far_out(tests) * np.sqrt(larger * (1 - larger) * np.mean(1 / each.effective))
            chance = chance / np.sqrt(self.datasets)
            apart = (synthetic > QUARTER_MORE * real + chance) | (synthetic < real / QUARTER_MORE - chance)
            found += [
                f"{each.columns[0]}[{each.levels[0][at]}] ({percent(synthetic[at])} for {percent(real[at])})"
                for at in np.flatnonzero(apart)
            ]
        return tuple(found)

    def _level_means(self) -> tuple[str, ...]:
        tests = sum(each.people.size for each in self.levels)
        found: list[str] = []
        for each in self.levels:
            with np.errstate(divide="ignore"):
                noise = np.mean(np.sqrt(1 / each.people + 1 / each.rows), axis=0)
            # datasets that lack the level say nothing of its mean
            seen = np.sum(~np.isnan(each.mean_differences), axis=0)
            compared = (each.people >= FEWEST) & (seen == len(each.rows))
            middle = np.median(np.where(compared, each.mean_differences, 0.0), axis=0)
            far = np.abs(middle) > BAND + far_out(tests) * MEDIAN * noise / np.sqrt(len(each.rows))
            found += [
                f"{self.measurements[place]} at {each.column}[{each.levels[level]}]"
                for place, level in zip(*np.nonzero(far & compared), strict=True)
            ]
        return tuple(found)


def _apart(counts: tuple[Counts, ...]) -> tuple[str, ...]:
    """Name the tables that differ, by w² = χ²/M."""
    if not counts:
        return ()
    effective = np.stack([each.effective for each in counts], axis=-1)
    squares = np.stack([each.chi_squared for each in counts], axis=-1) / np.maximum(effective, 1e-300)
    degrees = np.array([int(np.median(each.degrees)) for each in counts])
    nothing = np.zeros(len(counts))
    far = squares_apart(nothing, squares, degrees, effective, nothing + BAND)
    return flagged([" and ".join(each.columns) for each in counts], far)


def _beside(columns: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Stack columns along a last axis, which may have none."""
    return np.stack(columns, axis=-1) if columns else np.zeros((*shape, 0))


def category_fidelity(
    values: Float[np.ndarray, "n p"],
    measurements: tuple[str, ...],
    categories: Categories,
    datasets: list[Float[np.ndarray, "_ p"]],
    synthetic: list[Categories],
) -> CategoryFidelity:
    """Compare the real categories with those of every dataset, and the measurements by their levels."""
    return CategoryFidelity(
        len(datasets),
        measurements,
        categories.columns,
        shares_of(categories, synthetic),
        tables_of(categories, synthetic),
        by_levels(values, categories, datasets, synthetic),
    )
