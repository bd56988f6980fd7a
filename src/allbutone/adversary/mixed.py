"""The posterior of a missing record of any table: its cell, and its measurements in each cell it can be in."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from allbutone.adversary.leave_one_out import MOST_HAT
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.model.location import LocationModel, MixedRecords, Parameters
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.regression import Regression
from allbutone.support.arrays import append_axes, half_log_det, solve_rows, squared_length

Term = tuple[NIW, Any]  # a model, and the power, or one a record, in which its predictive stands
Normals = tuple[Any, Any, Any]  # a quadratic: precision (b, p, p), pull (b, p), constant (b,)


@dataclass(frozen=True, eq=False)
class MixedLeaveOneOut:
    """All that the attacks on a table's records share; the adversary on each has all the others.

    By Bayes' rule each released dataset, and each draw of the parameters, is one more opinion on the missing
    record (c, x), and for each cell c that it can be in the measurements are in the usual family:

        p(c, x) ∝ p_a(c, x | X₋)·Πⱼ [p(c, x | X₋, Z⁽ʲ⁾)/p(c, x | X₋)]·Πₗ [f(c, x | θ⁽ˡ⁾)/p(c, x | X₋)]

    p_a is the mechanism's own p, or follows from the adversary's `own` prior. `whole`: the model given the table.
    `after`: given the table and each dataset. `elsewhere`: count, mean and scatter of each cell's further records,
    which the adversaries on these have, too. `rest`: the same for releases by other mechanisms, and for releases
    of the table when it had fewer records, which stand among these from `start` on; their opinions come on top.
    """

    records: MixedRecords
    prior: LocationModel
    whole: LocationModel
    datasets: tuple[MixedRecords, ...]
    after: tuple[LocationModel, ...]
    parameters: Parameters | None
    elsewhere: Moments | None = None
    own: LocationModel | None = None
    rest: "tuple[MixedLeaveOneOut, ...]" = ()
    start: int = 0

    @classmethod
    def of(
        cls,
        records: MixedRecords,
        prior: LocationModel,
        datasets: Sequence[MixedRecords] = (),
        parameters: Parameters | None = None,
        elsewhere: Moments | None = None,
        own: LocationModel | None = None,
    ) -> "MixedLeaveOneOut":
        """Fit the table, and the table with each dataset."""
        whole = _given(prior, records, elsewhere)
        after = tuple(whole.update(data) for data in datasets)
        return cls(records, prior, whole, tuple(datasets), after, parameters, elsewhere, own)

    @property
    def people(self) -> int:
        """How many records there are, with those elsewhere."""
        return len(self.records) + (0 if self.elsewhere is None else int(np.sum(self.elsewhere.count)))

    @property
    def opinions(self) -> int:
        """How many datasets and draws this mechanism released of these records."""
        return len(self.after) + (0 if self.parameters is None else len(self.parameters))

    @property
    def is_one_mechanism(self) -> bool:
        """Whether all releases are one mechanism's, of all records, and the adversary has its prior."""
        return self.own is None and not self.rest

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.whole.cells.count

    @cached_property
    def believed(self) -> LocationModel:
        """The adversary's own model given the table: the mechanism's, unless they have another prior."""
        return self.whole if self.own is None else _given(self.own, self.records, self.elsewhere)

    @cached_property
    def hat(self) -> Float[np.ndarray, " n"]:
        """How much of its own direction each record supplies; near 1 it cannot be taken out by a downdate."""
        found, records = [], self.records
        for model in (self.whole, *self.after, *([] if self.own is None else [self.believed])):
            if isinstance(model.measured, Regression):
                coded = model.coded(records.cells, records.covariates)
                found.append(model.measured.hat(records.values, coded))
            else:
                here = model.at(records.cells, records.covariates)
                share = squared_length(here.root, records.values - here.mean) + 1 / here.mean_weight
                found.append(np.where(np.asarray(here.mean_weight) <= 1.5, 1.0, share))
        return np.max(found, axis=0)

    def log_cell_odds(self, rows: Int[np.ndarray, " b"]) -> tuple[np.ndarray, np.ndarray]:
        """Return the log weight of each cell (b, cells) by what was counted, without the releases and with them.

        log α_c, and Σⱼ log(α_c + m_cj) + Σₗ log π_cl − (k + m − 1)·log α_c, α_c with the others counted in; up to
        a constant. What the measurements say of the cell comes on top.
        """
        before = np.log(self.believed.weights - self._own_cell(rows))
        found = before + self._cell_opinions(rows)
        for part in self.rest:
            places, among = part.places_of(rows)
            found = found + among[:, None] * part._cell_opinions(places)
        return before, found

    def _own_cell(self, rows: Int[np.ndarray, " b"]) -> Float[np.ndarray, "b cells"]:
        """Return 1 in the cell that each record is in."""
        own = np.zeros((len(rows), self.cells))
        own[np.arange(len(rows)), self.records.cells[rows]] = 1.0
        return own

    def _cell_opinions(self, rows: Int[np.ndarray, " b"]) -> Float[np.ndarray, "b cells"]:
        """Return by how much this mechanism's releases move the log weight of each cell, by what was counted."""
        own = self._own_cell(rows)
        found = -self.opinions * np.log(self.whole.weights - own)
        for model in self.after:
            found = found + np.log(model.weights - own)
        if self.parameters is not None:
            with np.errstate(divide="ignore"):  # a share can be drawn as 0
                found = found + np.sum(np.log(self.parameters.shares), axis=0)
        return found

    def places_of(self, rows: Int[np.ndarray, " b"]) -> tuple[Int[np.ndarray, " b"], Bool[np.ndarray, " b"]]:
        """Return where records of the whole table stand among these, if they do, and which of them do."""
        places = rows - self.start
        among = (places >= 0) & (places < len(self.records))
        return np.where(among, places, 0), among

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
        normals = self._normals(others, cells, self.records.covariates[rows])
        terms: list[Term] = [(model, 1) for model in each]
        for part in self.rest:
            places, among = part.places_of(rows)
            told = among.astype(float)
            terms.append((part._without(part.whole, places, cells, None), -part.opinions * told))
            for number, model in enumerate(part.after):
                terms.append((part._without(model, places, cells, number), told))
            further = part._normals(others, cells, part.records.covariates[places])
            normals = tuple(
                one + append_axes(told, two.ndim - 1) * two for one, two in zip(normals, further, strict=True)
            )
        if self.own is not None:
            terms.append((self.before(rows, cells), 1))
        power = -self.opinions + (self.own is None)
        return from_terms(others, power, terms, normals, own_well=self.own is not None)

    def with_everyone(self, cells: Int[np.ndarray, " b"]) -> tuple[LogQuadratic, Float[np.ndarray, " b"]]:
        """Return the same with nobody taken out: the posterior of one more record, without covariates."""
        known = np.zeros((len(cells), 0))
        others = self.whole.at(cells, known)
        terms: list[Term] = [(model.at(cells, known), 1) for model in self.after]
        return from_terms(others, 1 - self.opinions, terms, self._normals(others, cells, known))

    def before(self, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, " b"]) -> NIW:
        """Return what the adversary believes of these records' measurements, in these cells, before releases."""
        return self._without(self.believed, rows, cells, None, own=self.own is not None)

    def problem_before(self, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, " b"]) -> LogQuadratic | None:
        """Return that in the coordinates of `problem`, where it is not the mechanism's own predictive there."""
        if self.own is None:
            return None
        others = self._without(self.whole, rows, cells, None)
        nothing = np.zeros((len(rows), others.p, others.p)), np.zeros((len(rows), others.p)), np.zeros(len(rows))
        return from_terms(others, 0, [(self.before(rows, cells), 1)], nothing)[0]

    def _without(
        self,
        model: LocationModel,
        rows: Int[np.ndarray, " b"],
        cells: Int[np.ndarray, " b"],
        dataset: int | None,
        own: bool = False,
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
            left = self._refitted(int(row), dataset, own).at(cells[here], known[here])
            mean[here], weight[here], df[here], scale[here] = _fields(left)
        return NIW(mean, weight, df if model.is_separate else float(df[0]), scale)

    def _refitted(self, row: int, dataset: int | None, own: bool) -> LocationModel:
        left = self.records.take(np.delete(np.arange(len(self.records)), row))
        others = _given(self.own if own and self.own is not None else self.prior, left, self.elsewhere)
        return others if dataset is None else others.update(self.datasets[dataset])

    def _normals(self, others: NIW, cells: Int[np.ndarray, " b"], known: Float[np.ndarray, "b s"]) -> Normals:
        """Return Σₗ log N(x | θ⁽ˡ⁾) in the coordinates of the others' model: A, b, and the constant."""
        b, p = len(cells), self.whole.p
        if self.parameters is None:
            return np.zeros((b, p, p)), np.zeros((b, p)), np.zeros(b)
        means = self.whole.means(self.parameters, cells, known) - others.mean
        roots = np.linalg.cholesky(self.parameters.covariance_at(cells))
        half = np.linalg.solve(roots, others.root)
        shift = np.linalg.solve(roots, means[..., None])
        turned = np.swapaxes(half, -1, -2)
        precision, pull = np.sum(turned @ half, axis=0), np.sum((turned @ shift)[..., 0], axis=0)
        constant = -0.5 * np.sum(shift[..., 0] ** 2, axis=(0, -1)) - np.sum(half_log_det(roots), axis=0)
        return precision, pull, constant - 0.5 * len(self.parameters) * p * np.log(2 * np.pi)


def _given(prior: LocationModel, records: MixedRecords, elsewhere: Moments | None) -> LocationModel:
    """Return the posterior given records, and the moments of each cell's further ones, if there are any."""
    if elsewhere is None:
        return prior.update(records)
    return prior.update(prior.moments(records).merge(elsewhere))


def from_terms(
    others: NIW,
    power: int,
    terms: Sequence[Term],
    normals: Normals,
    own_well: bool = False,
) -> tuple[LogQuadratic, Float[np.ndarray, " b"]]:
    """Return Σ powerᵢ·log tᵢ(x) + the normals' quadratic, in the coordinates of the others' model, and its offset.

    Each tᵢ is the predictive of an `NIW`, −½ν′·log(1 + c(x − m)ᵀΛ⁻¹(x − m)) and a constant; `power`: that of the
    others' own. What ℓ leaves out is the offset: the constants.
    """
    (b, p), root = others.mean.shape, others.root
    precision, pull, constant = normals
    own_df, own_weight = (np.broadcast_to(np.asarray(each), b) for each in (others.df, others.mean_weight))
    offset = constant + power * _log_constant(others)
    shapes, slopes = np.zeros((b, 0, p, p)), np.zeros((b, 0, p))
    weights, levels = np.zeros((b, 0)), np.zeros((b, 0))
    if terms:
        models, powers = [model for model, _ in terms], [np.broadcast_to(each, b) for _, each in terms]
        offset = offset + sum(each * _log_constant(model) for model, each in zip(models, powers, strict=True))
        place = np.stack([solve_rows(root, model.mean - others.mean) for model in models], axis=-2)
        half = np.stack([np.linalg.solve(model.root, root) for model in models], axis=-3)
        kappa, df = (
            np.stack([np.broadcast_to(np.asarray(getattr(model, name)), b) for model in models], axis=-1)
            for name in ("mean_weight", "df")
        )
        shapes = append_axes(kappa / (kappa + 1), 2) * (np.swapaxes(half, -1, -2) @ half)
        slopes = (shapes @ place[..., None])[..., 0]
        weights, levels = np.stack(powers, axis=-1) * (df + 1), 1 + np.sum(place * slopes, axis=-1)
    found = LogQuadratic(
        centre=others.mean,
        root=root,
        df=others.df,
        outward=-power * (own_df + 1),
        inflation=own_weight / (own_weight + 1),
        precision=precision,
        pull=pull,
        weights=weights,
        levels=levels,
        slopes=slopes,
        shapes=shapes,
        own_well=own_well,
    )
    return found, np.asarray(offset)


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
