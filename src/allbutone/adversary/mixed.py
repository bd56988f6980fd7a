"""The posterior of a missing record of a mixed table: its cell, and its measurements in each cell it can be in."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from allbutone.adversary.build import from_parameters, from_updated, together
from allbutone.adversary.leave_one_out import MOST_HAT
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.model.cell_moments import merge_cells
from allbutone.model.location import LocationModel, MixedRecords, Parameters
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.regression import Regression
from allbutone.support.arrays import half_log_det, solve_rows, squared_length


@dataclass(frozen=True, eq=False)
class MixedLeaveOneOut:
    """All that the attacks on a mixed table's records share; the adversary on each has all the others.

    By Bayes' rule each released dataset, and each draw of the parameters, is one more opinion on the missing
    record (c, x), and for each cell c that it can be in the measurements are in the usual family:

        p(c, x) ∝ p(c, x | X₋)·Πⱼ [p(c, x | X₋, Z⁽ʲ⁾)/p(c, x | X₋)]·Πₗ [f(c, x | θ⁽ˡ⁾)/p(c, x | X₋)]

    `whole`: the model given the table. `after`: given the table and each dataset. `elsewhere`: count, mean and
    scatter of each cell's further records, which the adversaries on these have, too.
    """

    records: MixedRecords
    prior: LocationModel
    whole: LocationModel
    datasets: tuple[MixedRecords, ...]
    after: tuple[LocationModel, ...]
    parameters: Parameters | None
    elsewhere: Moments | None = None

    @classmethod
    def of(
        cls,
        records: MixedRecords,
        prior: LocationModel,
        datasets: Sequence[MixedRecords] = (),
        parameters: Parameters | None = None,
        elsewhere: Moments | None = None,
    ) -> "MixedLeaveOneOut":
        """Fit the table, and the table with each dataset."""
        whole = _given(prior, records, elsewhere)
        after = tuple(whole.update(data) for data in datasets)
        return cls(records, prior, whole, tuple(datasets), after, parameters, elsewhere)

    @property
    def people(self) -> int:
        """How many records there are, with those elsewhere."""
        return len(self.records) + (0 if self.elsewhere is None else int(np.sum(self.elsewhere.count)))

    @property
    def opinions(self) -> int:
        """How many datasets and draws were released."""
        return len(self.after) + (0 if self.parameters is None else len(self.parameters))

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.whole.cells.count

    @cached_property
    def hat(self) -> Float[np.ndarray, " n"]:
        """How much of its own direction each record supplies; near 1 it cannot be taken out by a downdate."""
        found, records = [], self.records
        for model in (self.whole, *self.after):
            if isinstance(model.measured, Regression):
                coded = model.coded(records.cells, records.covariates)
                found.append(model.measured.hat(records.values, coded))
            else:
                here = model.at(records.cells, records.covariates)
                share = squared_length(here.root, records.values - here.mean) + 1 / here.mean_weight
                found.append(np.where(np.asarray(here.mean_weight) <= 1.5, 1.0, share))
        return np.max(found, axis=0)

    def log_cell_odds(self, rows: Int[np.ndarray, " b"]) -> tuple[np.ndarray, np.ndarray]:
        """Return the log weight of each cell (b, cells) by what was counted, without the release and with it.

        log α_c, and Σⱼ log(α_c + m_cj) + Σₗ log π_cl − (k + m − 1)·log α_c, α_c with the others counted in; up to
        a constant. What the measurements say of the cell comes on top.
        """
        own = np.zeros((len(rows), self.cells))
        own[np.arange(len(rows)), self.records.cells[rows]] = 1.0
        before = np.log(self.whole.weights - own)
        found = (1 - self.opinions) * before
        for model in self.after:
            found = found + np.log(model.weights - own)
        if self.parameters is not None:
            with np.errstate(divide="ignore"):  # a share can be drawn as 0
                found = found + np.sum(np.log(self.parameters.shares), axis=0)
        return before, found

    def possible(self, rows: Int[np.ndarray, " b"], known: Sequence[int]) -> Bool[np.ndarray, "b cells"]:
        """Say which cells records can be in for an adversary who knows these of their categories (positions)."""
        codes = self.whole.cells.codes
        own = codes[self.records.cells[rows]]
        chosen = list(known)
        return np.all(codes[None, :, chosen] == own[:, None, chosen], axis=-1)

    def problem(
        self, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, " b"]
    ) -> tuple[LogQuadratic, Float[np.ndarray, " b"]]:
        """Return the posteriors of the measurements of these records if they were in these cells, and offsets.

        The offset is the logarithm of what ℓ leaves out, which matters between cells:
        ℓ + offset = Σⱼ log t(x | X₋, Z⁽ʲ⁾) + Σₗ log N(x | θ⁽ˡ⁾) − (k + m − 1)·log t(x | X₋)
        """
        others = self._without(self.whole, rows, cells, None)
        each = [self._without(model, rows, cells, number) for number, model in enumerate(self.after)]
        return self._posterior(others, each, cells, self.records.covariates[rows])

    def with_everyone(self, cells: Int[np.ndarray, " b"]) -> tuple[LogQuadratic, Float[np.ndarray, " b"]]:
        """Return the same with nobody taken out: the posterior of one more record, without covariates."""
        known = np.zeros((len(cells), 0))
        each = [model.at(cells, known) for model in self.after]
        return self._posterior(self.whole.at(cells, known), each, cells, known)

    def _posterior(
        self, others: NIW, each: Sequence[NIW], cells: Int[np.ndarray, " b"], known: Float[np.ndarray, "b s"]
    ) -> tuple[LogQuadratic, Float[np.ndarray, " b"]]:
        parts, offset = [], (1 - self.opinions) * _log_constant(others)
        if each:
            parts.append(_after_datasets(others, each))
            offset = offset + np.sum([_log_constant(one) for one in each], axis=0)
        if self.parameters is not None:
            found, constant = self._after_parameters(others, cells, known)
            parts.insert(0, found)
            offset = offset + constant
        return (parts[0] if len(parts) == 1 else together(*parts)), offset

    def before(self, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, " b"]) -> NIW:
        """Return what the others alone say of the measurements of these records if they were in these cells."""
        return self._without(self.whole, rows, cells, None)

    def _without(
        self, model: LocationModel, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, " b"], dataset: int | None
    ) -> NIW:
        """Return the model at these cells without each record, a downdate where that keeps its digits."""
        some = self.records.take(rows)
        known = some.covariates
        high = self.hat[rows] > MOST_HAT
        if not np.any(high):
            return downdated(model, some, cells)
        found = downdated(model, some.take(~high), cells[~high]) if not np.all(high) else None
        mean, weight, df, scale = _room(len(rows), model.p)
        if found is not None:
            mean[~high], weight[~high], df[~high], scale[~high] = _fields(found)
        for row in np.unique(rows[high]):  # once for all the cells that it can be in
            here = rows == row
            left = self._refitted(int(row), dataset).at(cells[here], known[here])
            mean[here], weight[here], df[here], scale[here] = _fields(left)
        return NIW(mean, weight, df if model.is_separate else float(df[0]), scale)

    def _refitted(self, row: int, dataset: int | None) -> LocationModel:
        others = _given(
            self.prior, self.records.take(np.delete(np.arange(len(self.records)), row)), self.elsewhere
        )
        return others if dataset is None else others.update(self.datasets[dataset])

    def _after_parameters(
        self, others: NIW, cells: Int[np.ndarray, " b"], known: Float[np.ndarray, "b s"]
    ) -> tuple[LogQuadratic, Float[np.ndarray, " b"]]:
        """Return the posterior after draws of the parameters alone, and what its ℓ leaves out of Σ log N."""
        assert self.parameters is not None
        means = self.whole.means(self.parameters, cells, known) - others.mean
        roots = np.linalg.cholesky(self.parameters.covariance_at(cells))
        half = np.linalg.solve(roots, others.root)
        shift = np.linalg.solve(roots, means[..., None])
        turned = np.swapaxes(half, -1, -2)
        precision, pull = np.sum(turned @ half, axis=0), np.sum((turned @ shift)[..., 0], axis=0)
        draws, p = len(self.parameters), self.whole.p
        constant = -0.5 * np.sum(shift[..., 0] ** 2, axis=(0, -1)) - np.sum(half_log_det(roots), axis=0)
        found = from_parameters(others, others.root, draws, precision, pull)
        return found, constant - 0.5 * draws * p * np.log(2 * np.pi)


def _given(prior: LocationModel, records: MixedRecords, elsewhere: Moments | None) -> LocationModel:
    """Return the posterior given records, and the moments of each cell's further ones, if there are any."""
    if elsewhere is None:
        return prior.update(records)
    return prior.update_cells(merge_cells(prior.moments(records), elsewhere))


def _after_datasets(others: NIW, each: Sequence[NIW]) -> LogQuadratic:
    """Return the posterior from the others' model and the models that know one dataset more."""
    root = others.root
    location = np.stack([solve_rows(root, model.mean - others.mean) for model in each], axis=-2)
    scales = np.stack([model.scale for model in each], axis=-3)
    half = np.linalg.solve(root[..., None, :, :], scales)
    scale = np.linalg.solve(root[..., None, :, :], np.swapaxes(half, -1, -2))
    weight = np.stack([np.broadcast_to(model.mean_weight, root.shape[:-2]) for model in each], axis=-1)
    rows = np.stack([np.asarray(model.df) - np.asarray(others.df) for model in each], axis=-1)
    return from_updated(others, root, weight, location, (scale + np.swapaxes(scale, -1, -2)) / 2, rows)


def downdated(model: LocationModel, records: MixedRecords, cells: Int[np.ndarray, " b"]) -> NIW:
    """Return the model at these cells without each record."""
    known = records.covariates
    if isinstance(model.measured, Regression):
        coded = model.coded(records.cells, known)
        return model.measured.without_each(records.values, coded, model.coded(cells, known))
    mean, weight, df, scale = _fields(model.at(cells, known))
    same = (cells == records.cells).astype(float)  # what is known of other cells is not the record's
    left = weight - same
    away = same[:, None] * (records.values - mean)
    scale = scale - (weight / left)[:, None, None] * (away[:, :, None] * away[:, None, :])
    return NIW(mean - away / left[:, None], left, df - same, scale)


def _fields(model: NIW) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    n = len(model.mean)
    weight, df = (np.broadcast_to(np.asarray(each, dtype=float), n) for each in (model.mean_weight, model.df))
    return np.asarray(model.mean), weight, df, np.asarray(model.scale)


def _room(n: int, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return np.empty((n, p)), np.empty(n), np.empty(n), np.empty((n, p, p))


def _log_constant(model: NIW) -> Float[np.ndarray, " b"]:
    """Return the logarithm of the predictive's density at its centre.

    log Γ((ν+1)/2) − log Γ((ν+1−p)/2) − ½p·log π − ½·log|Λ| − ½p·log((κ+1)/κ)
    """
    p, df, weight = model.p, np.asarray(model.df) + 1.0, np.asarray(model.mean_weight)
    size = gammaln(df / 2) - gammaln((df - p) / 2) - 0.5 * p * np.log(np.pi * (weight + 1) / weight)
    return np.asarray(size - half_log_det(model.root))
