"""How much the measurements say for each cell: the integral of a missing record's posterior in every cell."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.adversary.modes import find_modes
from allbutone.integrals.importance_sampling import integrate, log_mean_and_error
from allbutone.integrals.many_points import JOINT
from allbutone.integrals.proposal import Points, Proposal
from allbutone.model.distributions import Normal
from allbutone.model.location import LocationModel
from allbutone.model.regression import Regression
from allbutone.support.arrays import cholesky, half_log_det, log_sum_exp, solve_rows

REPLICATES = 4
SHARED = 128  # points of the first part and turn, the same for all records
ALONE = 256  # where a record needs points of its own
POOR_SHARE = 0.05  # of the points that carry the weight, below which it does
PAIRS = 512  # records and cells that are integrated at once, each by itself


@dataclass(frozen=True, eq=False)
class CellTotals:
    """The log of each cell's integral for some records, beyond what counting says, and its standard error."""

    log_total: Float[np.ndarray, "b cells"]
    error: Float[np.ndarray, "b cells"]


@dataclass(frozen=True, eq=False)
class CellIntegrals:
    """Integrals of Πⱼ t(x | X₋, Z⁽ʲ⁾)·Πₗ N(x | θ⁽ˡ⁾)/t(x | X₋)^(k+m−1) over x, for every record and every cell.

    After a single release it is 1. After draws of the parameters alone it is exact. After datasets, records that
    do not stand out share their points: those of the posterior with nobody taken out, at which every record is
    taken out by a few products. Where that leaves too few points of weight, a record gets its own.
    """

    everyone: MixedLeaveOneOut
    points: Points
    shared: "_Shared | None"
    given: tuple[int, ...] = ()  # measurements (positions) that the adversary knows of every record

    @classmethod
    def of(cls, everyone: MixedLeaveOneOut, points: Points, given: tuple[int, ...] = ()) -> "CellIntegrals":
        """Prepare what all records share; where measurements are known of them, they share nothing."""
        whole = everyone.whole
        sharing = everyone.after and everyone.opinions > 1 and everyone.is_one_mechanism
        alike = not (whole.is_separate or whole.covariates or given)
        return cls(everyone, points, _Shared.of(everyone, points) if sharing and alike else None, given)

    def before(
        self, rows: Int[np.ndarray, " b"], possible: Bool[np.ndarray, "b cells"]
    ) -> Float[np.ndarray, "b cells"]:
        """Return what the measurements that are known say for each cell without the release: log t(x_known)."""
        found = np.zeros(possible.shape)
        if not self.given:
            return found
        places, cells = np.nonzero(possible)
        for start in range(0, len(places), PAIRS):
            some = slice(start, start + PAIRS)
            others = self.everyone.before(rows[places[some]], cells[some]).marginal(self.given)
            values = self.everyone.records.values[rows[places[some]]][:, self.given]
            found[places[some], cells[some]] = others.predictive().log_density(values)
        return found

    def totals(self, rows: Int[np.ndarray, " b"], possible: Bool[np.ndarray, "b cells"]) -> CellTotals:
        """Return the totals of these records in the cells that they can be in; elsewhere they are 0."""
        found = CellTotals(np.zeros(possible.shape), np.zeros(possible.shape))
        one = self.everyone.opinions == 1 and self.everyone.is_one_mechanism and not self.given
        if one or not np.any(np.sum(possible, axis=1) > 1):
            return found
        wanted = possible.copy()
        if self.shared is not None:
            for cell in np.flatnonzero(np.any(possible, axis=0)):
                log_total, error, share = self.shared.totals(rows, int(cell))
                found.log_total[:, cell], found.error[:, cell] = log_total, error
                wanted[:, cell] &= ~(share >= POOR_SHARE)
        places, cells = np.nonzero(wanted)
        if self.everyone.whole.is_separate:
            return self._separate(rows, found, places, cells)
        self._each(rows[places], found, places, cells)
        return found

    def _each(self, rows: np.ndarray, found: CellTotals, places: np.ndarray, cells: np.ndarray) -> None:
        """Integrate pairs of a record and a cell, each by itself."""
        for start in range(0, len(rows), PAIRS):
            some = slice(start, start + PAIRS)
            log_total, error = self._integrated(rows[some], cells[some])
            found.log_total[places[some], cells[some]] = log_total
            found.error[places[some], cells[some]] = error

    def _integrated(self, rows: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        problem, offset = self.everyone.problem(rows, cells)
        if self.given:
            values = self.everyone.records.values[rows]
            if len(self.given) == problem.p:
                return problem.log_density_unnormalized(values) + offset, np.zeros(len(rows))
            whole, problem = problem, problem.given(self.given, values[:, self.given])
            unknown = [place for place in range(whole.p) if place not in self.given]
            values[:, unknown] = problem.centre
            offset = (
                offset + whole.log_density_unnormalized(values) - problem.log_density_unnormalized(problem.centre)
            )
        found = integrate(problem, find_modes(problem), None, self.points, ALONE, REPLICATES)
        return found.log_total + offset + problem.log_volume, found.log_total_error

    def _separate(self, rows: np.ndarray, found: CellTotals, places: np.ndarray, cells: np.ndarray) -> CellTotals:
        """Integrate separate cells: those that a record is not in do not know it, and are the same for all."""
        own = cells == self.everyone.records.cells[rows[places]]
        self._each(rows[places[own]], found, places[own], cells[own])
        if self.given or self.everyone.rest:  # which differ from record to record
            self._each(rows[places[~own]], found, places[~own], cells[~own])
            return found
        others, first, which = np.unique(cells[~own], return_index=True, return_inverse=True)
        log_total, error = self._integrated(rows[places[~own][first]], others)
        found.log_total[places[~own], cells[~own]] = log_total[which]
        found.error[places[~own], cells[~own]] = error[which]
        return found


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
    codes: Float[np.ndarray, "cells r"]
    spread: Float[np.ndarray, " cells"]
    places: Float[np.ndarray, "cells p"]
    inverse: Float[np.ndarray, "p p"]
    normal: Float[np.ndarray, "n p"]
    reach: Float[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class _Shared:
    """Points in each cell, `turns` of them after one another, and all that weighs them for any record."""

    own: Int[np.ndarray, " n"]
    models: tuple[_Model, ...]
    white: Float[np.ndarray, "cells s p"]
    log_weights: Float[np.ndarray, "cells s"]

    @classmethod
    def of(cls, everyone: MixedLeaveOneOut, points: Points) -> "_Shared":
        """Draw points of the posterior with nobody taken out, in every cell."""
        cells = np.arange(everyone.cells)
        problem, _ = everyone.with_everyone(cells)
        proposal = Proposal.around(problem, find_modes(problem))
        white, weights = [], []
        for turn in range(REPLICATES):
            drawn = proposal.draw(points, turn, SHARED)
            counts = np.log([part.shape[1] for part in drawn])[:, None, None]
            here = np.concatenate(drawn, axis=1)
            white.append(here)
            weights.append(-log_sum_exp(proposal.log_densities(here) + counts, axis=0))
        root = cholesky(everyone.whole.measured.scale, "scale")
        whole, models = everyone.whole, (everyone.whole, *everyone.after)
        powers = (1 - everyone.opinions, *(1 for _ in everyone.after))
        found = tuple(
            _model_of(everyone, _regression(model), _regression(whole), root, times)
            for model, times in zip(models, powers, strict=True)
        )
        here, log_weights = np.concatenate(white, axis=1), np.concatenate(weights, axis=1) + half_log_det(root)
        return cls(everyone.records.cells, found, here, log_weights + _by_parameters(everyone, here, root))

    def totals(
        self, rows: Int[np.ndarray, " b"], cell: int
    ) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"], Float[np.ndarray, " b"]]:
        """Return log total, standard error, and the share of the points that carry the weight."""
        values = self._log_values(rows, cell)
        turns = values.reshape(len(rows), REPLICATES, -1)
        top = np.max(turns, axis=-1)
        weights = np.exp(turns - top[..., None], out=turns)
        sums = np.sum(weights, axis=-1)
        share = sums**2 / np.einsum("brs,brs->br", weights, weights) / weights.shape[-1]
        log_total, error = log_mean_and_error((np.log(sums) + top).T)
        return log_total, error, np.mean(share, axis=1)

    def _log_values(self, rows: Int[np.ndarray, " b"], cell: int) -> Float[np.ndarray, "b s"]:
        """Return the log of what is integrated, over the points' density; wells of one weight share a logarithm.

        Without a record (t, h) a model's Λ₋⁻¹ is Λ⁻¹ + nnᵀ/(1 − h − tᵀn), n = Λ⁻¹t, and its mean moves by −f·t,
        f = g/(1 − h): so (v − r₋)ᵀΛ₋⁻¹(v − r₋) = aᵀΛ⁻¹a + y·(2f + y/(1 − h − tᵀn)) − f²·tᵀn with a = v − r and
        y = aᵀn + f·tᵀn.
        """
        own, white, p = self.own[rows], self.white[cell], self.white.shape[-1]
        values = np.broadcast_to(self.log_weights[cell], (len(rows), len(white))).copy()
        groups: dict[float, list[tuple[np.ndarray, int]]] = {}
        for model in self.models:
            left, reach = 1 - model.spread[own], model.reach[rows]
            cross = model.codes[own] @ model.codes[cell]
            shift = cross / left
            spread = 1 + model.spread[cell] + cross * shift
            away, room = white - model.places[cell], left - reach
            level = model.normal[rows] @ away.T
            level += (shift * reach)[:, None]
            bent = level * (1 / (room * spread))[:, None]
            bent += (2 * shift / spread)[:, None]
            level *= bent
            level += np.sum(away @ model.inverse * away, axis=1) / spread[:, None]
            level += (1 - shift**2 * reach / spread)[:, None]
            constant = model.constant - 0.5 * np.log(room / left) - 0.5 * p * np.log(spread)
            values += (model.times * constant)[:, None]
            _multiply(groups.setdefault(0.5 * model.times * model.df, []), level)
        for weight, products in groups.items():
            for product, _ in products:
                values -= weight * np.log(product, out=product)
        return values


def _multiply(products: list[tuple[np.ndarray, int]], level: Float[np.ndarray, "b s"]) -> None:
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


def _by_parameters(everyone: MixedLeaveOneOut, white: Float[np.ndarray, "cells s p"], root: np.ndarray) -> Any:
    """Return Σₗ log N(x | θ⁽ˡ⁾) at the points of each cell."""
    drawn, codes = everyone.parameters, everyone.whole.cells.main_effects
    if drawn is None:
        return 0.0
    found = np.zeros(white.shape[:2])
    for coefficients, (covariance,) in zip(drawn.coefficients, drawn.covariances, strict=True):
        place = solve_rows(root, codes @ (coefficients - _regression(everyone.whole).coefficients))
        spread = solve_rows(root, solve_rows(root, covariance).T)
        found += Normal(np.zeros(white.shape[-1]), spread).log_density(white - place[:, None])
    return found - len(drawn) * half_log_det(root)


def _regression(model: LocationModel) -> Regression:
    assert isinstance(model.measured, Regression)  # separate cells share no points
    return model.measured
