"""The general location model: a table of cells, and measurements that are normal within each cell."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from allbutone.model.cells import Cells
from allbutone.model.distributions import StudentT
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.regression import Regression
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted
from allbutone.tables.sums import Sums

MAIN_EFFECTS, SEPARATE = "main effects", "separate"
JEFFREYS = 0.5
ALL_CELLS = 1.0  # record that the weights of all cells together are worth


@dataclass(frozen=True, eq=False)
class MixedRecords:
    """Records by the cell of their categories, their measurements (n, p) and their covariates (n, s)."""

    cells: Int[np.ndarray, " n"]
    values: Float[np.ndarray, "n p"]
    covariates: Float[np.ndarray, "n s"]

    @classmethod
    def of(cls, cells: Any, values: Any, covariates: Any = None) -> "MixedRecords":
        """Take records; covariates may be left out."""
        known = np.zeros((len(values), 0)) if covariates is None else np.asarray(covariates, dtype=np.float64)
        return cls(np.asarray(cells, dtype=np.int64), np.asarray(values, dtype=np.float64), known)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.cells)

    def take(self, rows: Any) -> "MixedRecords":
        """Return some of the records."""
        return MixedRecords(self.cells[rows], self.values[rows], self.covariates[rows])


@dataclass(frozen=True, eq=False)
class Parameters:
    """Draws of the model's parameters: `shares` of the cells, `coefficients` B and `covariances` Σ.

    A record of cell c and covariates w has the mean Bᵀz, z = (code of c, w), and the covariance Σ; in the separate
    model the code of a cell is the cell itself, and each has its own Σ.
    """

    shares: Float[np.ndarray, "m cells"]
    coefficients: Float[np.ndarray, "m r p"]
    covariances: Float[np.ndarray, "m own p p"]

    def __len__(self) -> int:
        """Return the number of draws."""
        return len(self.shares)

    def covariance_at(self, cells: Int[np.ndarray, " n"]) -> Float[np.ndarray, "m n p p"]:
        """Return the covariance of records of these cells, for each draw."""
        return self.covariances[:, cells if self.covariances.shape[1] > 1 else np.zeros_like(cells)]


@dataclass(frozen=True, eq=False)
class LocationModel:
    """c ~ Dirichlet-multinomial(weights), x | c ~ N(Bᵀz, Σ) by main effects, or N(μ_c, Σ_c) with `separate` cells.

    `weights`: one a cell, α_c and the number of records seen there. `measured`: a `Regression` on the coded cell,
    1 and an effect for each level, and on covariates, if any; or, for separate cells, an `NIW` with the cells as
    its batch axis. It is a `Model` of `MixedRecords`: with one cell and no covariates, the normal model itself.
    """

    cells: Cells
    weights: Float[np.ndarray, " cells"]
    measured: Regression | NIW
    covariates: int = 0

    @classmethod
    def prior(
        cls,
        sizes: tuple[int, ...],
        normal: NIW,
        *,
        weight: float = JEFFREYS,
        covariates: int = 0,
        separate: bool = False,
    ) -> "LocationModel":
        """Return the prior of categories with so many levels, and of measurements that are `normal` in all cells.

        Main effects: the intercept is the normal prior's mean, Σ has its prior, and every level's effect is
        N(0, Σ): it moves a column by about a standard deviation, whatever the units. Effects of covariates are
        flat, so that their units do not matter either. Separate: the normal prior in each cell.
        """
        cells = Cells(sizes)
        weights = np.full(cells.count, float(weight))
        if separate:
            if covariates:
                raise InputError(
                    "separate cells have no covariates", Cure("use main effects", "cells", MAIN_EFFECTS)
                )
            return cls(cells, weights, normal)
        r = cells.main_effects.shape[1]
        known = np.zeros(r + covariates)
        known[0], known[1:r] = np.sqrt(float(normal.mean_weight)), 1.0
        coefficients = np.zeros((r + covariates, normal.p))
        coefficients[0] = normal.mean
        df = float(normal.df) - (covariates if normal.is_flat else 0)
        return cls(cells, weights, Regression(coefficients, np.diag(known), df, normal.scale), covariates)

    @property
    def p(self) -> int:
        """The number of measurements."""
        return self.measured.p

    @property
    def is_separate(self) -> bool:
        """Whether each cell has a normal of its own."""
        return isinstance(self.measured, NIW)

    @property
    def terms(self) -> int:
        """The number r of coefficients of each measurement: one a cell, or 1, the levels and the covariates."""
        return self.cells.count if self.is_separate else self.measured.covariates  # type: ignore[union-attr]

    def coded(
        self, cells: Int[np.ndarray, " n"], covariates: Float[np.ndarray, "n s"]
    ) -> Float[np.ndarray, "n r"]:
        """Return z of records: the code of the cell, and the covariates."""
        if self.is_separate:
            return (cells[:, None] == np.arange(self.cells.count)).astype(float)
        return np.concatenate([self.cells.main_effects[cells], covariates], axis=1)

    def means(
        self, parameters: Parameters, cells: Int[np.ndarray, " n"], covariates: Float[np.ndarray, "n s"]
    ) -> Float[np.ndarray, "m n p"]:
        """Return the means of records of these cells and covariates, for each draw of the parameters."""
        if self.is_separate:  # without z, which has a column for each cell
            return parameters.coefficients[:, cells]
        return self.coded(cells, covariates) @ parameters.coefficients

    def update(self, records: "MixedRecords | Moments") -> "LocationModel":
        """Return the posterior given records, or the moments of each cell's; there must be enough of them."""
        if not isinstance(self.measured, Regression):
            self._require_enough(self.moments(records))
        return self.plus(records)

    def plus(self, records: "MixedRecords | Moments") -> "LocationModel":
        """Return the posterior given records, or the moments of each cell's, however few; it need not be proper.

        For the regression a cell of n records with mean x̄ is one record (√n·z, √n·x̄), and its scatter; moments
        know of no covariates.
        """
        if isinstance(self.measured, NIW):
            moments = self.moments(records)
            return LocationModel(self.cells, self.weights + moments.count, self.measured.update(moments))
        if isinstance(records, MixedRecords):
            measured = self.measured.update(records.values, self.coded(records.cells, records.covariates))
            return LocationModel(self.cells, self.weights + self.counts(records), measured, self.covariates)
        full = np.flatnonzero(records.count)
        root = np.sqrt(np.asarray(records.count))[full, None]
        means = self.measured.update(root * records.mean[full], root * self.cells.main_effects[full])
        df = self.measured.df + float(np.sum(records.count))
        within = means.scale + np.asarray(records.scatter).sum(axis=0)
        return LocationModel(self.cells, self.weights + records.count, replace(means, df=df, scale=within))

    def given(self, records: MixedRecords) -> "LocationModel | None":
        """Return the posterior given records, or None where these do not tell the covariates' effects apart."""
        if isinstance(self.measured, Regression):
            coded = self.coded(records.cells, records.covariates)
            if not self.measured.is_told_by(coded):
                return None
        return self.plus(records)

    def _require_enough(self, moments: Moments) -> None:
        """Refuse separate cells without a prior where an adversary, with a record less, could predict nothing."""
        few = int(np.sum(np.asarray(moments.count) <= self.p + 1))
        if self.measured.is_flat and few:  # type: ignore[union-attr]
            raise InputError(
                f"separate cells need at least {self.p + 2} records in each cell without a prior, and "
                f"{few} of {counted(self.cells.count, 'cell')} have fewer",
                Cure("give a prior from public knowledge", "prior"),
                Cure("let the cells share one spread", "cells", MAIN_EFFECTS),
            )

    def counts(self, records: MixedRecords) -> Float[np.ndarray, " cells"]:
        """Return the number of records in each cell."""
        return np.bincount(records.cells, minlength=self.cells.count).astype(float)

    def moments(self, records: "MixedRecords | Moments | Sums") -> Moments:
        """Return count, mean and scatter of each cell's records; those of an empty cell are 0."""
        if isinstance(records, Moments):
            return records
        if isinstance(records, Sums):
            return self._moments_of_sums(records)
        count, order = self.counts(records), np.argsort(records.cells, kind="stable")
        values, cells = records.values[order], records.cells[order]
        ends = np.cumsum(count).astype(int)
        full = np.flatnonzero(count)
        starts = (ends - count.astype(int))[full]
        mean, scatter = np.zeros((self.cells.count, self.p)), np.zeros((self.cells.count, self.p, self.p))
        if len(full):
            mean[full] = np.add.reduceat(values, starts, axis=0) / count[full, None]
            mean[full] += np.add.reduceat(values - mean[cells], starts, axis=0) / count[full, None]
            away = values - mean[cells]
            scatter[full] = np.add.reduceat(away[:, :, None] * away[:, None, :], starts, axis=0)
        return Moments(count, mean, scatter)

    def _moments_of_sums(self, sums: Sums) -> Moments:
        place, shift = self.cells.of_codes(sums.codes), sums.total / sums.count[:, None]
        count, mean = np.zeros(self.cells.count), np.zeros((self.cells.count, self.p))
        scatter = np.zeros((self.cells.count, self.p, self.p))
        count[place], mean[place] = sums.count, sums.origin + shift
        scatter[place] = sums.products - sums.count[:, None, None] * shift[:, :, None] * shift[:, None, :]
        return Moments(count, mean, scatter)

    def at(self, cells: Int[np.ndarray, " n"], covariates: Float[np.ndarray, "n s"]) -> NIW:
        """Return the distribution of mean and covariance of records of these cells and covariates, as a batch."""
        if isinstance(self.measured, Regression):
            return self.measured.at(self.coded(cells, covariates))
        niw = self.measured
        weight, df = (np.broadcast_to(np.asarray(each), self.cells.count) for each in (niw.mean_weight, niw.df))
        scale = np.broadcast_to(niw.scale, (self.cells.count, self.p, self.p))
        mean = np.broadcast_to(niw.mean, (self.cells.count, self.p))
        return NIW(mean[cells], weight[cells], df[cells], scale[cells])

    def predictive(self) -> "MixedPredictive":
        """Return the distribution of the next record."""
        return MixedPredictive(self)

    def log_evidence(self, records: MixedRecords) -> float:
        """Return log p(records), normalised, in the order in which they stand; this model must be proper.

        Cells: log Γ(α₊) − log Γ(α₊ + n) + Σ_c [log Γ(α_c + n_c) − log Γ(α_c)]; measurements given the cells by
        their own evidence.
        """
        counts = self.counts(records)
        cells = gammaln(self.weights.sum()) - gammaln(self.weights.sum() + len(records))
        cells += np.sum(gammaln(self.weights + counts) - gammaln(self.weights))
        if isinstance(self.measured, Regression):
            return float(
                cells + self.measured.log_evidence(records.values, self.coded(records.cells, records.covariates))
            )
        return float(cells + np.sum(self.measured.log_evidence(self.moments(records))))

    def draw(self, rng: np.random.Generator, count: int) -> Parameters:
        """Draw `count` sets of parameters."""
        shares = rng.dirichlet(self.weights, size=count)
        if isinstance(self.measured, Regression):
            coefficients, covariances = self.measured.draw(rng, count)
            return Parameters(shares, coefficients, covariances[:, None])
        return Parameters(shares, *self.measured.draw(rng, count))


@dataclass(frozen=True, eq=False)
class MixedPredictive:
    """The distribution of the next mixed record: the share of its cell, and a Student t there."""

    model: LocationModel

    def log_density(self, records: MixedRecords, /) -> Float[np.ndarray, " n"]:
        """Return log[α_c/α₊] + log t_c(x) at records; of covariates nothing is said, they are given."""
        weights, given = self.model.weights, self.measurements(records)
        return np.log(weights[records.cells] / weights.sum()) + given.log_density(records.values)

    def measurements(self, records: MixedRecords) -> StudentT:
        """Return the distribution of the measurements of records of these cells and covariates."""
        return self.model.at(records.cells, records.covariates).predictive()

    def draw(self, rng: np.random.Generator, covariates: Float[np.ndarray, "n s"]) -> MixedRecords:
        """Draw a record for each row of covariates, each as if it were the only one."""
        weights, n = self.model.weights, len(covariates)
        cells = rng.choice(len(weights), size=n, p=weights / weights.sum())
        given = self.model.at(cells, covariates).predictive()
        white = rng.standard_normal((n, self.model.p))
        df = np.broadcast_to(given.df, n)
        stretch = np.sqrt(df / rng.chisquare(df))
        values = given.location + stretch[:, None] * (given.root @ white[..., None])[..., 0]
        return MixedRecords(cells, values, covariates)


def default_weight(cells: int) -> float:
    """Return α of each cell: all together are worth one record, however many they are.

    As much in each cell would be worth the more records the more cells there are, and rare levels, which have as
    many cells as frequent ones, would come out too often.
    """
    return min(JEFFREYS, ALL_CELLS / cells)
