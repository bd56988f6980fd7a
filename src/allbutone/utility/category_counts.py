"""Categories by counts: shares and contingency tables, real beside synthetic, and what chance does to them."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int
from scipy.special import chdtrc

from allbutone.tables.categories import Categories


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


def shares_of(real: Categories, datasets: list[Categories]) -> tuple[Counts, ...]:
    """Count the levels of every column."""
    return tuple(_counts(real, datasets, (place,)) for place in range(len(real.columns)))


def tables_of(real: Categories, datasets: list[Categories]) -> tuple[Counts, ...]:
    """Count the pairs of levels of every two columns: their contingency tables."""
    return tuple(_counts(real, datasets, pair) for pair in combinations(range(len(real.columns)), 2))


def _counts(real: Categories, datasets: list[Categories], places: tuple[int, ...]) -> Counts:
    levels = tuple(real.levels[place] for place in places)
    sizes = tuple(map(len, levels))

    def count(table: Categories) -> Int[np.ndarray, "*cells"]:
        codes = table.codes[:, places]
        cells = np.ravel_multi_index(tuple(codes[(codes >= 0).all(axis=1)].T), sizes)
        return np.bincount(cells, minlength=int(np.prod(sizes))).reshape(sizes)

    names = tuple(real.columns[place] for place in places)
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
