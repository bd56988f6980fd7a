"""The general location model: cells of categories, and measurements that are normal within each."""

from dataclasses import dataclass, replace
from math import log, pi
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, multigammaln

from allbutone.model.moments import Cells, Moments
from allbutone.model.niw import NIW, StudentT
from allbutone.support.arrays import (
    array_namespace,
    cholesky,
    half_log_det,
    real_array,
    solve_rows,
    squared_length,
    to_numpy,
)
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted
from allbutone.tables.records import Sums

# Measurements given covariates: the conjugate regression, of which the normal-inverse-Wishart model is a case.


Array = Any


@dataclass(frozen=True, eq=False)
class Regression:
    """x | z ~ N(Bᵀz, Σ) with B | Σ ~ MN(B₀, K⁻¹, Σ), Σ ~ IW(Λ, ν): p measurements x given r covariates z.

    Fields: `coefficients` B₀, `root` R with K = RᵀR (r, r), `df` ν, `scale` Λ. R counts what is known of B in
    records, in units of Σ, and may be 0 where nothing is: then the model is a prior, known only by its posteriors.
    The normal model is z = 1 with R = √κ. Given z, (Bᵀz, Σ) is an `NIW` (`at`); all else follows from that.
    """

    coefficients: Float[Array, "*batch r p"]
    root: Float[Array, "*batch r r"]
    df: float
    scale: Float[Array, "*batch p p"]

    @property
    def p(self) -> int:
        """The number of measurements."""
        return int(self.coefficients.shape[-1])

    @property
    def covariates(self) -> int:
        """The number of covariates."""
        return int(self.coefficients.shape[-2])

    def update(
        self, records: Any, covariates: Any, *, within: Any = 0.0, count: int | None = None
    ) -> "Regression":
        """Return the posterior given records (n, p) and their covariates (n, r); of many tables, batch axes lead.

        K′ = K + ZᵀZ,  B′ = K′⁻¹(KB + ZᵀX),  ν′ = ν + n,  Λ′ = Λ + (X − ZB′)ᵀ(X − ZB′) + (B′ − B)ᵀK(B′ − B)

        All by one QR decomposition of (R; Z): K′ is never formed, so no digits are lost to squares. Records may
        stand for more, `count` in all, whose scatter about them, `within`, goes to Λ alone.
        """
        values, known = real_array(records, "records"), real_array(covariates, "covariates")
        shape = tuple(values.shape[:-1])
        if tuple(values.shape) != (*shape, self.p) or tuple(known.shape) != (*shape, self.covariates) or not shape:
            raise InputError(
                f"records have shape (n, {self.p}) and covariates (n, {self.covariates}), got "
                f"{tuple(values.shape)} and {tuple(known.shape)}"
            )
        xp = array_namespace(values, known, self.coefficients)
        start = xp.broadcast_to(self.root, (*shape[:-1], *self.root.shape))
        rows = xp.concat([start, known], axis=-2)
        basis, root = xp.linalg.qr(rows)
        if not _is_regular(root):
            raise InputError(
                "the records do not tell the covariates' effects apart: one is determined by others",
                "leave it out",
                Cure("give a prior from public knowledge", "prior"),
            )
        targets = xp.concat([start @ self.coefficients, values], axis=-2)
        coefficients = xp.linalg.solve(root, xp.matrix_transpose(basis) @ targets)
        left = targets - rows @ coefficients
        scale = self.scale + within + xp.matrix_transpose(left) @ left
        return Regression(coefficients, root, self.df + (shape[-1] if count is None else count), scale)

    def is_told_by(self, covariates: Float[Array, "n r"]) -> bool:
        """Say whether records with these covariates tell all effects apart."""
        xp = array_namespace(covariates, self.root)
        _, root = xp.linalg.qr(xp.concat([self.root, covariates]))
        return _is_regular(root)

    def at(self, covariates: Any) -> NIW:
        """Return the distribution of mean and covariance of a record with covariates z: an NIW; batch axes lead.

        Bᵀz | Σ ~ N(B₀ᵀz, h·Σ), h = zᵀK⁻¹z, so mean B₀ᵀz, mean_weight 1/h, df ν and scale Λ.
        """
        known = self._covariates(covariates)
        xp, white = array_namespace(known, self.coefficients), self._whiten(known)
        weight = 1 / xp.sum(white * white, axis=-1)
        return NIW(known @ self.coefficients, weight if known.ndim > 1 else float(weight), self.df, self.scale)

    def without_each(
        self, records: Float[Array, "n p"], covariates: Float[Array, "n r"], candidates: Float[Array, "n r"]
    ) -> NIW:
        """Return, for each of the records (x, z) in this posterior, what the others say at a candidate's z̃.

        With residual e = x − Bᵀz, h = zᵀK⁻¹z, g = z̃ᵀK⁻¹z and h̃ = z̃ᵀK⁻¹z̃, without the record
        Bᵀz̃ loses g·e/(1 − h), h̃ gains g²/(1 − h), Λ loses eeᵀ/(1 − h), and ν loses 1.
        """
        xp = array_namespace(records, self.coefficients)
        own, other = self._whiten(self._covariates(covariates)), self._whiten(self._covariates(candidates))
        left = 1 - xp.sum(own * own, axis=-1)
        cross = xp.sum(own * other, axis=-1)
        away = records - covariates @ self.coefficients
        mean = candidates @ self.coefficients - (cross / left)[:, None] * away
        spread = xp.sum(other * other, axis=-1) + cross**2 / left
        scale = self.scale - (away / left[:, None])[:, :, None] * away[:, None, :]
        return NIW(mean, 1 / spread, self.df - 1, (scale + xp.matrix_transpose(scale)) / 2)

    def hat(self, records: Float[Array, "n p"], covariates: Float[Array, "n r"]) -> Float[Array, " n"]:
        """Return how much of its own direction each record supplies: 1 − (1 − h)(1 − eᵀΛ⁻¹e/(1 − h))."""
        xp, own = array_namespace(records), self._whiten(self._covariates(covariates))
        away = records - covariates @ self.coefficients
        return xp.sum(own * own, axis=-1) + squared_length(cholesky(self.scale, "scale"), away)

    def _covariates(self, covariates: Any) -> Float[Array, "*n r"]:
        known = real_array(covariates, "covariates")
        if known.ndim == 0 or known.shape[-1] != self.covariates:
            raise InputError(f"covariates are {self.covariates} values, got shape {tuple(known.shape)}")
        return known

    def _whiten(self, covariates: Float[Array, "*n r"]) -> Float[Array, "*n r"]:
        """Return R⁻ᵀz, whose squared length is h = zᵀK⁻¹z."""
        self._require_proper()
        return solve_rows(self.root.T, covariates)

    def predictive(self, covariates: Any) -> StudentT:
        """Return the distribution of the next record with covariates z: T_δ(B₀ᵀz, (1 + h)/δ·Λ), δ = ν − p + 1."""
        return self.at(covariates).predictive()

    def log_evidence(self, records: Any, covariates: Any) -> float:
        """Return log p(X | Z), normalised; this model must be proper.

        −½np·log π + log Γ_p(ν′/2) − log Γ_p(ν/2) + ½ν·log|Λ| − ½ν′·log|Λ′| + ½p·(log|K| − log|K′|)
        """
        self._require_proper()
        after = self.update(records, covariates)
        before, later = (cholesky(each.scale, "scale") for each in (self, after))
        gammas = multigammaln(after.df / 2, self.p) - multigammaln(self.df / 2, self.p)
        scales = self.df * half_log_det(before) - after.df * half_log_det(later)
        weights = self.p * (_log_size(self.root) - _log_size(after.root))
        return float(gammas + scales + weights - 0.5 * (after.df - self.df) * self.p * log(pi))

    def draw(
        self, rng: np.random.Generator, count: int
    ) -> tuple[Float[np.ndarray, "count *batch r p"], Float[np.ndarray, "count *batch p p"]]:
        """Draw `count` pairs (B, Σ): with Σ = FFᵀ, B = B₀ + R⁻¹·N(0, I)·Fᵀ; of a batch, so many of each."""
        _, roots = NIW(np.zeros(self.scale.shape[:-1]), 1.0, self.df, self.scale).draw_roots(rng, count)
        white = rng.standard_normal((count, *self.coefficients.shape))
        away = np.linalg.solve(to_numpy(self.root), white) @ roots.swapaxes(-1, -2)
        return to_numpy(self.coefficients) + away, roots @ roots.swapaxes(-1, -2)

    def _require_proper(self) -> None:
        if not _is_regular(self.root):
            raise InputError("a flat prior predicts nothing", "update it with records first")


def _is_regular(root: Float[Array, "*batch r r"]) -> bool:
    """Say whether every effect is known of: no pivot vanishes beside its column."""
    size = np.sqrt(np.sum(to_numpy(root) ** 2, axis=-2))
    pivots = np.abs(np.diagonal(to_numpy(root), axis1=-2, axis2=-1))
    return bool(np.all(pivots > 1e-12 * size) and np.all(size > 0))


def _log_size(root: Float[Array, "r r"]) -> float:
    """Return ½·log|K|, K = RᵀR."""
    return float(np.sum(np.log(np.abs(np.diagonal(to_numpy(root))))))


# The general location model: a table of cells, and measurements that are normal within each cell.


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
            for cell, start in zip(full, starts, strict=True):
                here = away[start : ends[cell]]
                scatter[cell] = here.T @ here
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
