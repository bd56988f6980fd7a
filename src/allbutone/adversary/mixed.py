"""The posterior of a missing record with categories: its cell, and its measurements in each cell."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from allbutone.adversary.integrate import integrate, log_mean_and_error, weighed_points
from allbutone.adversary.leave_one_out import MOST_HAT
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import find_modes
from allbutone.adversary.proposal import JOINT, Points, Proposal, values_at
from allbutone.model.location import LocationModel, MixedRecords, Parameters, Regression
from allbutone.model.moments import Cells, Moments
from allbutone.model.niw import NIW
from allbutone.support.arrays import (
    append_axes,
    array_namespace,
    as_array,
    cholesky,
    half_log_det,
    log_sum_exp,
    solve_rows,
    squared_length,
    sum_of_products,
    to_numpy,
)
from allbutone.support.devices import NUMBERS_HELD, moved_to

# The posterior of a missing record of any table: its cell, and its measurements in each cell it can be in.


Array = Any

TINY = np.finfo(np.float64).tiny
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
    datasets: tuple[MixedRecords | Moments, ...]
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
        leverages, records = [], self.records
        for model in (self.whole, *self.after, *([] if self.own is None else [self.believed])):
            if isinstance(model.measured, Regression):
                coded = model.coded(records.cells, records.covariates)
                leverages.append(model.measured.hat(records.values, coded))
            else:
                here = model.at(records.cells, records.covariates)
                share = squared_length(here.root, records.values - here.mean) + 1 / here.mean_weight
                leverages.append(np.where(np.asarray(here.mean_weight) <= 1.5, 1.0, share))
        return np.max(leverages, axis=0)

    def log_cell_odds(
        self, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, "b c"] | None = None
    ) -> tuple[Float[np.ndarray, "b c"], Float[np.ndarray, "b c"]]:
        """Return the log weight of cells, all if not given, by what was counted: without the releases, with them.

        log α_c, and Σⱼ log(α_c + m_cj) + Σₗ log π_cl − (k + m − 1)·log α_c, α_c with the others counted in; up to
        a constant. What the measurements say of the cell comes on top.
        """
        cells = np.arange(self.cells)[None] if cells is None else cells
        before = np.log(self.believed.weights[cells] - self._own_cell(rows, cells))
        odds = before + self.cell_opinions(rows, cells)
        for part in self.rest:
            places, among = part.places_of(rows)
            odds = odds + among[:, None] * part.cell_opinions(places, cells)
        return before, odds

    def _own_cell(self, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, "#b c"]) -> Float[np.ndarray, "b c"]:
        """Return 1 in the cell that each record is in."""
        return (cells == self.records.cells[rows][:, None]).astype(float)

    def cell_opinions(
        self, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, "#b c"]
    ) -> Float[np.ndarray, "b c"]:
        """Return by how much this mechanism's releases move the log weight of cells, by what was counted."""
        own = self._own_cell(rows, cells)
        logs = -self.opinions * np.log(self.whole.weights[cells] - own)
        for model in self.after:
            logs = logs + np.log(model.weights[cells] - own)
        if self.parameters is not None:
            with np.errstate(divide="ignore"):  # a share can be drawn as 0
                logs = logs + np.sum(np.log(self.parameters.shares), axis=0)[cells]
        return logs

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

    def log_density(
        self, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, " b"]
    ) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"]]:
        """Return the log density of these records as they are, in these cells: before releases, and with them.

        The second is what `problem` has at the record, offset added: nothing is to be integrated.
        """
        parts = [(self, rows, np.ones(len(rows)))]
        parts += [(part, places, among * 1.0) for part in self.rest for places, among in [part.places_of(rows)]]
        high = np.any([part.hat[places] > MOST_HAT for part, places, _ in parts], axis=0)
        before = self._log_density(self.believed, rows, cells)
        logs = before.copy()
        for part, places, told in parts:
            shared = part._log_density(part.whole, places, cells)
            for model in part.after:
                logs += told * (part._log_density(model, places, cells) - shared)
            if part.parameters is not None:
                logs += told * (part._log_normals(places, cells) - len(part.parameters) * shared)
        if np.any(high):
            some, values = (rows[high], cells[high]), self.records.values[rows[high]]
            problem, offset = self.problem(*some)
            before[high] = self.before(*some).predictive().log_density(values)
            logs[high] = problem.log_density_unnormalized(values) + offset
        return before, logs

    def _log_density(
        self, model: LocationModel, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, " b"]
    ) -> Float[np.ndarray, " b"]:
        """Return log t of these records as they are, in these cells, by a model that knows them, without each."""
        some = self.records.take(rows)
        if isinstance(model.measured, Regression):
            regression, root = model.measured, cholesky(model.measured.scale, "scale")
            codes = [model.coded(each, some.covariates) for each in (some.cells, cells)]
            own, other = (solve_rows(regression.root.T, each) for each in codes)
            mine, away = (solve_rows(root, some.values - each @ regression.coefficients) for each in codes)
            df: Any = regression.df
            half_log_size = half_log_det(root)
        else:
            every = _fields(model.at(np.arange(self.cells), np.zeros((self.cells, 0))))
            mean, weight, roots = *every[:2], np.linalg.cholesky(every[3])
            knows = (cells == some.cells).astype(float)  # what is known of other cells is not the record's
            other = 1 / np.sqrt(weight[cells])[:, None]
            away = (np.linalg.inv(roots)[cells] @ (some.values - mean[cells])[..., None])[..., 0]
            own, mine = knows[:, None] * other, knows[:, None] * away
            df, half_log_size = every[2][cells] + 1 - knows, half_log_det(roots)[cells]

        return log_density_without(
            df,
            model.p,
            half_log_size,
            (np.vecdot(own, own), np.vecdot(mine, mine)),
            (np.vecdot(other, other), np.vecdot(away, away)),
            (np.vecdot(own, other), np.vecdot(mine, away)),
        )

    def _log_normals(self, rows: Int[np.ndarray, " b"], cells: Int[np.ndarray, " b"]) -> Float[np.ndarray, " b"]:
        """Return Σₗ log N(x | θ⁽ˡ⁾) of these records as they are, in these cells."""
        assert self.parameters is not None
        some, logs = self.records.take(rows), np.zeros(len(rows))
        roots = np.linalg.cholesky(self.parameters.covariances)
        away = some.values - self.whole.means(self.parameters, cells, some.covariates)
        shared = roots.shape[1] == 1
        for each, root in zip(away, roots, strict=True):
            if shared:
                logs -= 0.5 * squared_length(root[0], each) + half_log_det(root[0])
            else:
                logs -= 0.5 * squared_length(root[cells], each) + half_log_det(root)[cells]
        return logs - 0.5 * len(roots) * self.whole.p * np.log(2 * np.pi)

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
        some, high = self.records.take(rows), self.hat[rows] > MOST_HAT
        others = downdated(model, some, cells)
        if not np.any(high):
            return others
        mean, weight, df, scale = (np.array(each) for each in _fields(others))
        for row in np.unique(rows[high]):  # once for all the cells that it can be in
            here = rows == row
            left = _fields(self._refitted(int(row), dataset, own).at(cells[here], some.covariates[here]))
            mean[here], weight[here], df[here], scale[here] = left
        return NIW(mean, weight, df if model.is_separate else float(df[0]), scale)

    def _refitted(self, row: int, dataset: int | None, own: bool) -> LocationModel:
        left = self.records.take(np.delete(np.arange(len(self.records)), row))
        others = _given(self.own if own and self.own is not None else self.prior, left, self.elsewhere)
        return others if dataset is None else others.plus(self.datasets[dataset])

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


def log_density_without(
    df: Any,
    p: int,
    half_log_size: Any,
    own: tuple[Any, Any],
    candidate: tuple[Any, Any],
    between: tuple[Any, Any],
) -> Float[np.ndarray, "*batch"]:
    """Return log t(x) at a candidate's z̃ by a model that knows the record (x, z) already, without it.

    With residuals e = x − Bᵀz and a = x − Bᵀz̃ whitened by the root of Λ, of which `half_log_size` is ½·log|Λ|:
    `own` = (h, ‖e‖²), `candidate` = (h̃, ‖a‖²), `between` = (g, aᵀe). Without the record (`without_each`) the
    residual is d = a + f·e, f = g/(1 − h), the spread s = 1 + h̃ + fg, and with r = 1 − h − ‖e‖²

        Λ₋⁻¹ = I + eeᵀ/r,   |Λ₋| = |Λ|·r/(1 − h),   log t = c − ½·log|Λ₋| − ½p·log s − ½ν·log(1 + dᵀΛ₋⁻¹d/s)
    """
    (hat, reach), (spread, far), (cross, met) = own, candidate, between
    left = 1 - hat
    shift, room = cross / left, np.maximum(left - reach, TINY)
    wide, bent = 1 + spread + cross * shift, met + shift * reach
    distance = far + shift * (met + bent) + bent**2 / room
    constant = gammaln(df / 2) - gammaln((df - p) / 2) - 0.5 * p * np.log(np.pi) - half_log_size
    return np.asarray(
        constant - 0.5 * (np.log(room / left) + p * np.log(wide) + df * np.log1p(np.maximum(distance, 0.0) / wide))
    )


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
    b, root = len(others.mean), others.root
    precision, pull, constant = normals
    own_df, own_weight = (np.broadcast_to(np.asarray(each), b) for each in (others.df, others.mean_weight))
    offset, wells = constant + power * _log_constant(others), {}
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
        wells = {"weights": weights, "levels": levels, "slopes": slopes, "shapes": shapes}
    posterior = LogQuadratic(
        centre=others.mean,
        root=root,
        df=others.df,
        outward=-power * (own_df + 1),
        inflation=own_weight / (own_weight + 1),
        precision=precision,
        pull=pull,
        own_well=own_well,
        **wells,
    )
    return posterior, np.asarray(offset)


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


def _log_constant(model: NIW) -> Float[np.ndarray, " b"]:
    """Return the logarithm of the predictive's density at its centre.

    log Γ((ν+1)/2) − log Γ((ν+1−p)/2) − ½p·log π − ½·log|Λ| − ½p·log((κ+1)/κ)
    """
    p, df, weight = model.p, np.asarray(model.df) + 1.0, np.asarray(model.mean_weight)
    size = gammaln(df / 2) - gammaln((df - p) / 2) - 0.5 * p * np.log(np.pi * (weight + 1) / weight)
    return np.asarray(size - half_log_det(model.root))


# How much the measurements say for each cell: the integral of a missing record's posterior in every cell.


REPLICATES = 4
SHARED = 32  # points of the first part and turn, the same for all records
ALONE = 256  # where a record needs points of its own
POOR_SHARE, POOR_ERROR = 0.05, 0.01  # of the points that carry the weight, and of a ratio: beyond them it does
UNLUCKY = 0.5  # of independent points' error: scrambled points do no better by more
PAIRS = 512  # records and cells that are integrated at once, each by itself


@dataclass(frozen=True, eq=False)
class CellTotals:
    """The log of each cell's integral for some records, beyond what counting says, and its standard error."""

    log_total: Float[np.ndarray, "b cells"]
    error: Float[np.ndarray, "b cells"]


@dataclass(frozen=True, eq=False)
class CellIntegrals:
    """Integrals of Πⱼ t(x | X₋, Z⁽ʲ⁾)·Πₗ N(x | θ⁽ˡ⁾)/t(x | X₋)^(k+m−1) over x, for every record and every cell.

    After a single release it is 1. After draws of the parameters alone it is exact. After datasets, the posterior
    with nobody taken out is integrated once for all, and each record's ratio to it is told by few points, at which
    the record is taken out by a few products. One who stands out gets points of their own. `given`: measurements
    (positions) that the adversary knows of every record. `device`: of PyTorch's, where points are weighed.
    """

    everyone: MixedLeaveOneOut
    points: Points
    shared: "_Shared | None"
    given: tuple[int, ...] = ()
    device: Any = None

    @classmethod
    def of(
        cls, everyone: MixedLeaveOneOut, points: Points, given: tuple[int, ...] = (), device: Any = None
    ) -> "CellIntegrals":
        """Prepare what all records share; where measurements are known of them, they share nothing."""
        whole = everyone.whole
        sharing = everyone.after and everyone.opinions > 1 and everyone.is_one_mechanism
        alike = not (whole.is_separate or whole.covariates or given)
        shared = moved_to(device, _Shared.of(everyone, points)) if sharing and alike else None
        return cls(everyone, points, shared, given, device)

    def at_once(self, few: int) -> int:
        """Return how many records to attack together: so many here, on a device as many as it has room for."""
        if self.device is None:
            return few
        whole, wells = self.everyone.whole, self.everyone.opinions + 1
        return max(few, NUMBERS_HELD // (5 * max(wells * whole.p**2, self.everyone.cells, REPLICATES * SHARED)))

    def before(
        self, rows: Int[np.ndarray, " b"], possible: Bool[np.ndarray, "b cells"]
    ) -> Float[np.ndarray, "b cells"]:
        """Return what the measurements that are known say for each cell without the release: log t(x_known)."""
        logs = np.zeros(possible.shape)
        if not self.given:
            return logs
        places, cells = np.nonzero(possible)
        if len(self.given) == self.everyone.whole.p:
            logs[places, cells] = self.everyone.log_density(rows[places], cells)[0]
            return logs
        for start in range(0, len(places), PAIRS):
            some = slice(start, start + PAIRS)
            others = self.everyone.before(rows[places[some]], cells[some]).marginal(self.given)
            values = self.everyone.records.values[rows[places[some]]][:, self.given]
            logs[places[some], cells[some]] = others.predictive().log_density(values)
        return logs

    def totals(self, rows: Int[np.ndarray, " b"], possible: Bool[np.ndarray, "b cells"]) -> CellTotals:
        """Return the totals of these records in the cells that they can be in; elsewhere they are 0."""
        sums = CellTotals(np.zeros(possible.shape), np.zeros(possible.shape))
        one = self.everyone.opinions == 1 and self.everyone.is_one_mechanism and not self.given
        if one or not np.any(np.sum(possible, axis=1) > 1):
            return sums
        wanted = possible.copy()
        if self.shared is not None:
            for cell in np.flatnonzero(np.any(possible, axis=0)):
                log_total, error, share = self.shared.totals(rows, int(cell))
                sums.log_total[:, cell], sums.error[:, cell] = log_total, error
                wanted[:, cell] &= ~((share >= POOR_SHARE) & (error < POOR_ERROR + float(self.shared.error[cell])))
        places, cells = np.nonzero(wanted)
        first, which = np.arange(len(places)), np.arange(len(places))
        if self.everyone.whole.is_separate and not (self.given or self.everyone.rest):
            # cells that a record is not in do not know it, and are the same for all
            who = np.where(cells == self.everyone.records.cells[rows[places]], places, -1)
            _, first, which = np.unique(np.stack([who, cells]), axis=1, return_index=True, return_inverse=True)
        pairs = self.at_once(PAIRS)
        some = [first[at : at + pairs] for at in range(0, len(first), pairs)]
        results = [self._integrated(rows[places[each]], cells[each]) for each in some]
        if results:
            log_total, error = (np.concatenate(each) for each in zip(*results, strict=True))
            sums.log_total[places, cells] = log_total[which.ravel()]
            sums.error[places, cells] = error[which.ravel()]
        return sums

    def _integrated(self, rows: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if len(self.given) == self.everyone.whole.p:
            return self.everyone.log_density(rows, cells)[1], np.zeros(len(rows))
        problem, offset = self.everyone.problem(rows, cells)
        if self.given:
            values = self.everyone.records.values[rows]
            whole, problem = problem, problem.given(self.given, values[:, self.given])
            unknown = [place for place in range(whole.p) if place not in self.given]
            values[:, unknown] = problem.centre
            offset = (
                offset + whole.log_density_unnormalized(values) - problem.log_density_unnormalized(problem.centre)
            )
        there = moved_to(self.device, problem)
        integrals = integrate(there, find_modes(there), None, self.points, ALONE, REPLICATES)
        return integrals.log_total + offset + problem.log_volume, integrals.log_total_error


@dataclass(frozen=True, eq=False)
class _Model:
    """The model given the table, or the table and a dataset, in the coordinates of the table's own scale.

    `times`: the power in which its predictive stands. `codes`: R⁻ᵀz of each cell, whose products are z̃ᵀK⁻¹z;
    `spread`: their squared lengths h. `places`: where the cells' means lie, off the table's. `inverse`: Λ⁻¹;
    `normal`, `reach`: Λ⁻¹t and tᵀΛ⁻¹t of each record's residual t.
    """

    times: int
    df: float
    constant: float
    codes: Float[Array, "cells r"]
    spread: Float[Array, " cells"]
    places: Float[Array, "cells p"]
    inverse: Float[Array, "p p"]
    normal: Float[Array, "n p"]
    reach: Float[Array, " n"]


@dataclass(frozen=True, eq=False)
class _Shared:
    """Points in each cell, those of `REPLICATES` turns after one another, and all that weighs them for any record.

    `log_total`, `error`: of the posterior with nobody taken out; `sums`: what each turn's points say of it (log),
    and `shares`: what each of them weighs in that.
    """

    own: Int[Array, " n"]
    models: tuple[_Model, ...]
    white: Float[Array, "cells s p"]
    log_weights: Float[Array, "cells s"]
    log_total: Float[Array, " cells"]
    error: Float[Array, " cells"]
    sums: Float[Array, "cells turns"]
    shares: Float[Array, "cells turns each"]

    @classmethod
    def of(cls, everyone: MixedLeaveOneOut, points: Points) -> "_Shared":
        """Integrate the posterior with nobody taken out, in every cell, and draw its points."""
        whole, cells = everyone.whole, np.arange(everyone.cells)
        known = np.zeros((len(cells), 0))
        others = whole.at(cells, known)
        precision, pull, constant = everyone._normals(others, cells, known)
        terms: list[Term] = [(model.at(cells, known), 1) for model in everyone.after]
        problem, offset = from_terms(others, 1 - everyone.opinions, terms, (precision, pull, constant))
        modes = find_modes(problem)
        integrals = integrate(problem, modes, None, points, ALONE, REPLICATES)
        proposal, places, log_weights = Proposal.around(problem, modes), [], []
        for turn in range(REPLICATES):
            white, log_parts, _ = weighed_points(proposal, None, points, turn, SHARED)
            places.append(white)
            log_weights.append(problem.log_volume[:, None] - log_sum_exp(log_parts, axis=0))
        white, weights = np.concatenate(places, axis=1), np.concatenate(log_weights, axis=1)
        turns = (values_at(problem, white) + offset[:, None] + weights).reshape(len(cells), REPLICATES, -1)
        sums = log_sum_exp(turns, axis=-1)
        drawn = constant[:, None] + np.sum(white * (pull[:, None] - 0.5 * white @ precision), axis=-1)
        root, powers = others.root[0], (1 - everyone.opinions, *(1 for _ in everyone.after))
        return cls(
            everyone.records.cells,
            tuple(
                _model_of(everyone, _regression(model), _regression(whole), root, times)
                for model, times in zip((whole, *everyone.after), powers, strict=True)
            ),
            white,
            weights + drawn,
            integrals.log_total + offset + problem.log_volume,
            integrals.log_total_error,
            sums,
            np.exp(turns - sums[..., None]),
        )

    def totals(
        self, rows: Int[np.ndarray, " b"], cell: int
    ) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"], Float[np.ndarray, " b"]]:
        """Return log total, standard error, and the share of the points that carry the weight."""
        turns = self._log_values(rows, cell).reshape(len(rows), REPLICATES, -1)
        xp = array_namespace(turns)
        top = xp.max(turns, axis=-1)
        weights = xp.exp(turns - top[..., None])
        sums = xp.sum(weights, axis=-1)
        weights /= sums[..., None]
        share = 1 / to_numpy(sum_of_products(weights, weights, axis=2)) / weights.shape[-1]
        log_ratio, error = log_mean_and_error(to_numpy(xp.log(sums) + top - self.sums[cell, :]).T)
        # replicates can agree by chance: the error of a ratio by independent points
        weights -= self.shares[cell, ...]
        squared = np.sum(to_numpy(sum_of_products(weights, weights, axis=2)), axis=-1)
        error = np.hypot(np.maximum(error, UNLUCKY * np.sqrt(squared) / REPLICATES), float(self.error[cell]))
        return float(self.log_total[cell]) + log_ratio, error, np.mean(share, axis=1)

    def _log_values(self, rows: Int[np.ndarray, " b"], cell: int) -> Float[Array, "b s"]:
        """Return the log of what is integrated, over the points' density; wells of one weight share a logarithm.

        Without a record (t, h) a model's Λ₋⁻¹ is Λ⁻¹ + nnᵀ/(1 − h − tᵀn), n = Λ⁻¹t, and its mean moves by −f·t,
        f = g/(1 − h): so (v − r₋)ᵀΛ₋⁻¹(v − r₋) = aᵀΛ⁻¹a + y·(2f + y/(1 − h − tᵀn)) − f²·tᵀn with a = v − r and
        y = aᵀn + f·tᵀn.
        """
        white, p, chosen = self.white[cell, ...], self.white.shape[-1], as_array(rows, like=self.white)
        xp, own, values = array_namespace(white), self.own[chosen], self.log_weights[cell, :]
        groups: dict[float, list[tuple[Array, int]]] = {}
        for model in self.models:
            left, reach = 1 - model.spread[own], model.reach[chosen]
            cross = model.codes[own] @ model.codes[cell, :]
            shift = cross / left
            spread = 1 + model.spread[cell] + cross * shift
            away, room = white - model.places[cell, :], left - reach
            level = model.normal[chosen] @ away.T
            level += (shift * reach)[:, None]
            bent = level * (1 / (room * spread))[:, None]
            bent += (2 * shift / spread)[:, None]
            level *= bent
            level += xp.sum(away @ model.inverse * away, axis=1) / spread[:, None]
            level += (1 - shift**2 * reach / spread)[:, None]
            constant = model.constant - 0.5 * xp.log(room / left) - 0.5 * p * xp.log(spread)
            values = values + (model.times * constant)[:, None]
            _multiply(groups.setdefault(0.5 * model.times * model.df, []), level)
        for weight, products in groups.items():
            for product, _ in products:
                values -= weight * xp.log(product)
        return values


def _multiply(products: list[tuple[Array, int]], level: Float[Array, "b s"]) -> None:
    """Multiply a level into the last product, or begin another: too many factors would overflow."""
    if products and products[-1][1] < JOINT:
        last, count = products[-1]
        last *= level
        products[-1] = (last, count + 1)
    else:
        products.append((level, 1))


def _model_of(
    everyone: MixedLeaveOneOut, model: Regression, whole: Regression, root: np.ndarray, times: int
) -> _Model:
    """Bring a model into the coordinates of the whole table's root."""
    codes, records = everyone.whole.cells.main_effects, everyone.records
    white = solve_rows(model.root.T, codes)
    half = solve_rows(cholesky(model.scale, "scale"), root.T)  # rows: L⁻¹ of the root's columns
    inverse = half @ half.T
    residual = solve_rows(root, records.values - codes[records.cells] @ model.coefficients)
    normal, p = residual @ inverse, model.p
    constant = gammaln(model.df / 2) - gammaln((model.df - p) / 2) - 0.5 * p * np.log(np.pi)
    return _Model(
        times=times,
        df=model.df,
        constant=float(constant - half_log_det(cholesky(model.scale, "scale"))),
        codes=white,
        spread=np.sum(white * white, axis=1),
        places=solve_rows(root, codes @ (model.coefficients - whole.coefficients)),
        inverse=inverse,
        normal=normal,
        reach=np.sum(normal * residual, axis=1),
    )


def _regression(model: LocationModel) -> Regression:
    assert isinstance(model.measured, Regression)  # separate cells share no points
    return model.measured


@dataclass(frozen=True, eq=False)
class LevelBeliefs:
    """Probabilities of each record's own cell, all its categories right, with the release and without it.

    levels: for each category the probability of the own level, its error, and that without the release.
    """

    own: Float[np.ndarray, " b"]
    without: Float[np.ndarray, " b"]
    levels: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]


@dataclass(frozen=True, eq=False)
class CellBeliefs:
    """Probabilities of every cell for some records, with the release, its standard error, and without."""

    cells: Cells
    own: Int[np.ndarray, " b"]
    probability: Float[np.ndarray, "b cells"]
    error: Float[np.ndarray, "b cells"]
    baseline: Float[np.ndarray, "b cells"]

    @property
    def of_truth(self) -> "LevelBeliefs":
        """What is believed of each record's own cell and levels."""
        here = np.arange(len(self.own)), self.own
        levels = tuple(self.of_true_level(category) for category in range(len(self.cells.sizes)))
        return LevelBeliefs(self.probability[here], self.baseline[here], levels)

    def of_true_level(self, category: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the probability of each record's own level of a category, its error, and that without release."""
        level = self.cells.codes[self.own, category]
        same = self.cells.codes[None, :, category] == level[:, None]
        # an error in a cell's total moves the level's probability by its share of what is inside or outside
        inside = np.sum(self.probability * same, axis=1)
        moved = self.probability * np.where(same, 1 - inside[:, None], inside[:, None]) * self.error
        return inside, np.sqrt(np.sum(moved**2, axis=1)), np.sum(self.baseline * same, axis=1)


def cell_beliefs(integrals: CellIntegrals, rows: Int[np.ndarray, " b"], known: Sequence[int]) -> CellBeliefs:
    """Return what the adversary on each record believes of its cell; `known`: categories known of all records."""
    everyone = integrals.everyone
    possible = everyone.possible(rows, known)
    before, after = everyone.log_cell_odds(rows)
    totals = integrals.totals(rows, possible)
    return CellBeliefs(
        everyone.whole.cells,
        everyone.records.cells[rows],
        _shares(after + totals.log_total, possible),
        totals.error,
        _shares(before + integrals.before(rows, possible), possible),
    )


def _shares(
    log_odds: Float[np.ndarray, "b cells"], possible: Bool[np.ndarray, "b cells"]
) -> Float[np.ndarray, "b cells"]:
    odds = np.where(possible, log_odds, -np.inf)
    return np.exp(odds - log_sum_exp(odds, axis=1)[:, None])


def level_alone(
    everyone: MixedLeaveOneOut, rows: Int[np.ndarray, " b"], category: int
) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"], Float[np.ndarray, " b"]]:
    """Return how well the own level of one category is known where all else of the record is: in closed form.

    Of the cells that agree in the other categories each has its weight times the density at the measurements. The
    probability with the release, its error, which is 0, and the probability without.
    """
    cells, own = everyone.whole.cells, everyone.records.cells[rows]
    levels = cells.sizes[category]
    codes = np.repeat(cells.codes[own][:, None], levels, axis=1)
    codes[:, :, category] = np.arange(levels)
    among = cells.of_codes(codes)
    densities = everyone.log_density(np.repeat(rows, levels), among.ravel())
    here = np.arange(len(rows)), cells.codes[own, category]
    before, after = (
        np.exp(odds - log_sum_exp(odds, axis=1)[:, None])[here]
        for counted, density in zip(everyone.log_cell_odds(rows, among), densities, strict=True)
        for odds in [counted + density.reshape(among.shape)]
    )
    return after, np.zeros(len(rows)), before
