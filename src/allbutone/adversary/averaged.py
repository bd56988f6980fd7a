"""What is known of a record where gaps were drawn many times: averaged predictives, mixtures of Student t's."""

from dataclasses import dataclass, replace
from math import log, pi

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from allbutone.model.incomplete import LEAST_SHARE
from allbutone.model.location import LocationModel, MixedRecords, Regression
from allbutone.model.niw import NIW
from allbutone.support.arrays import half_log_det, log_sum_exp

# Mixtures of Student t's, one for each of many records: what is known of a record where gaps were drawn often.


AT_ONCE = 1 << 20  # densities held at a time


@dataclass(frozen=True, eq=False)
class StudentMixture:
    """Σ_k exp(log_weights_k)·t(x; locations_k, V_k, dfs_k), `precisions` V⁻¹; where df is infinite, a normal.

    The parts stand in `groups` groups of as many: a group's parts come from one chain, and groups are independent.
    `heights`: the log density of each part at its location. The weights need not add up to 1.
    """

    log_weights: Float[np.ndarray, "t k"]
    locations: Float[np.ndarray, "t k p"]
    precisions: Float[np.ndarray, "t k p p"]
    dfs: Float[np.ndarray, "t k"]
    heights: Float[np.ndarray, "t k"]
    groups: int

    @classmethod
    def of(
        cls,
        log_weights: Float[np.ndarray, "t k"],
        locations: Float[np.ndarray, "t k p"],
        scales: Float[np.ndarray, "t k p p"],
        dfs: Float[np.ndarray, "t k"],
        groups: int = 1,
    ) -> "StudentMixture":
        """Factor the scale matrices V."""
        p = locations.shape[-1]
        if p == 0:  # nothing is measured of these records: only weights are left
            return cls(log_weights, locations, scales, dfs, np.zeros_like(log_weights), groups)
        root = np.linalg.cholesky(scales)
        half = np.linalg.inv(root)
        normal = np.isinf(dfs)
        df = np.where(normal, 1.0, dfs)
        constant = gammaln((df + p) / 2) - gammaln(df / 2) - 0.5 * p * np.log(df * pi)
        heights = np.where(normal, -0.5 * p * log(2 * pi), constant) - half_log_det(root)
        return cls(log_weights, locations, half.swapaxes(-1, -2) @ half, dfs, heights, groups)

    @property
    def p(self) -> int:
        """The number of measurements."""
        return int(self.locations.shape[-1])

    def seen_from(self, centre: Float[np.ndarray, "t p"], root: Float[np.ndarray, "t p p"]) -> "StudentMixture":
        """Return the mixtures in the coordinates v of x = centre + root·v."""
        if self.p == 0:
            return self
        locations = np.linalg.solve(root, (self.locations - centre[:, None]).swapaxes(1, 2)).swapaxes(1, 2)
        precisions = root.swapaxes(-1, -2)[:, None] @ self.precisions @ root[:, None]
        heights = self.heights + np.linalg.slogdet(root)[1][:, None]
        return StudentMixture(self.log_weights, locations, precisions, self.dfs, heights, self.groups)

    def given(self, known: Int[np.ndarray, " c"], values: Float[np.ndarray, "t c"]) -> "StudentMixture":
        """Return the mixtures of the other columns where some (positions) have known values y.

        A part t_δ(x, y) is t_δ(y), which joins its weight, times t(x | y), which has δ + c degrees of freedom,
        precision V⁻¹_xx·(δ + c)/(δ + q) and location m_x − (V⁻¹_xx)⁻¹·V⁻¹_xy·(y − m_y), with
        q = (y − m_y)ᵀV_yy⁻¹(y − m_y).
        """
        left = np.setdiff1d(np.arange(self.p), known)
        away = values[:, None] - self.locations[..., known]
        own = self.precisions[..., left[:, None], left]
        cross = self.precisions[..., left[:, None], known] @ away[..., None]
        shift = np.linalg.solve(own, cross)
        bent = (self.precisions[..., known[:, None], known] @ away[..., None])[..., 0]
        squared = np.maximum(np.sum(bent * away, axis=-1) - np.sum(cross * shift, axis=(-2, -1)), 0.0)
        normal, count = np.isinf(self.dfs), len(known)
        df = np.where(normal, 1.0, self.dfs)
        wider = np.where(normal, 1.0, (df + squared) / (df + count))
        scales = np.linalg.inv(own) * wider[..., None, None]
        found = StudentMixture.of(
            self.log_weights,
            self.locations[..., left] - shift[..., 0],
            (scales + scales.swapaxes(-1, -2)) / 2,
            np.where(normal, np.inf, df + count),
            self.groups,
        )
        # at the conditional location the joint density is that of y times the height of x | y
        highest = self.heights - _fall(squared, self.dfs, self.p)
        return replace(found, log_weights=self.log_weights + highest - found.heights)

    def take(self, rows: np.ndarray) -> "StudentMixture":
        """Return the mixtures of some records."""
        names = ("log_weights", "locations", "precisions", "dfs", "heights")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def log_parts(self, points: Float[np.ndarray, "t s p"]) -> Float[np.ndarray, "t k s"]:
        """Return the log density of each part, without its weight, at s points for each record.

        Squared distances are quadratic in x, so all parts are one product with the powers of x.
        """
        p = self.p
        if p == 0:
            return np.broadcast_to(self.heights[:, :, None], (*self.heights.shape, points.shape[1]))
        first, second = np.triu_indices(p)
        bent = np.where(first == second, 1.0, 2.0) * self.precisions[..., first, second]
        slopes = (self.precisions @ self.locations[..., None])[..., 0]
        level = np.sum(slopes * self.locations, axis=-1)
        coefficients = np.concatenate([level[..., None], -2 * slopes, bent], axis=-1)
        across = np.ascontiguousarray(np.swapaxes(points, 1, 2))
        ones = np.ones((len(points), 1, points.shape[1]))
        powers = np.concatenate([ones, across, across[:, first] * across[:, second]], axis=1)
        squared = np.maximum(coefficients @ powers, 0.0)
        return self.heights[:, :, None] - _fall(squared, self.dfs[:, :, None], p)

    def log_groups(self, points: Float[np.ndarray, "t s p"]) -> Float[np.ndarray, "t groups s"]:
        """Return the log of each group's sum of weighted parts."""
        records, parts, size = *self.log_weights.shape, points.shape[1]
        found, rows = np.empty((records, self.groups, size)), max(1, AT_ONCE // (parts * size))
        for start in range(0, records, rows):
            some = np.arange(start, min(start + rows, records))
            each = self.take(some).log_parts(points[some]) + self.log_weights[some, :, None]
            found[some] = log_sum_exp(each.reshape(len(some), self.groups, -1, size), axis=2)
        return found

    def local(
        self, points: Float[np.ndarray, "t p"]
    ) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, "t p"], Float[np.ndarray, "t p p"]]:
        """Return value, gradient and Hessian of the log mixture at one point for each record.

        With r_k the share of part k at x, s_k = (δ+p)/(δ+q_k) and g_k = −s_k·V_k⁻¹(x − m_k):
        gradient g = Σ r_k·g_k, Hessian Σ r_k·[(1 + 2/(δ+p))·g_k g_kᵀ − s_k·V_k⁻¹] − ggᵀ
        """
        away = points[:, None] - self.locations
        bent = (self.precisions @ away[..., None])[..., 0]
        squared = np.sum(bent * away, axis=-1)
        each = self.log_weights + self.heights - _fall(squared, self.dfs, self.p)
        value = log_sum_exp(each, axis=1)
        share = np.exp(each - value[:, None])
        normal = np.isinf(self.dfs)
        df = np.where(normal, 1.0, self.dfs)
        strength = np.where(normal, 1.0, (df + self.p) / (df + squared))
        more = np.where(normal, 1.0, 1 + 2 / (df + self.p))
        slopes = -strength[..., None] * bent
        gradient = np.einsum("tk,tkp->tp", share, slopes)
        hessian = np.swapaxes((share * more)[..., None] * slopes, 1, 2) @ slopes
        hessian -= np.einsum("tk,tkpq->tpq", share * strength, self.precisions)
        return value, gradient, hessian - gradient[:, :, None] * gradient[:, None, :]


@dataclass(frozen=True, eq=False)
class LogGroups:
    """Mixtures at points, summed within groups of draws: all that leaving a group out needs.

    The first is what is believed before any release; `powers`: in which power each stands in the posterior.
    """

    sums: "tuple[GroupSums, ...]"
    powers: tuple[int, ...]

    @property
    def before(self) -> "GroupSums":
        """What is believed before any release."""
        return self.sums[0]

    @property
    def groups(self) -> list[int | None]:
        """What to leave out: each group in turn, then none."""
        count = max(each.parts.shape[1] for each in self.sums)
        return [*range(count if count > 1 else 0), None]

    def log_posterior(self, without: int | None = None) -> Float[np.ndarray, "t s"]:
        """Return ℓ = Σ powerⱼ·log mixtureⱼ, perhaps without one group of every mixture."""
        some = [(each, power) for each, power in zip(self.sums, self.powers, strict=True) if power]
        return np.sum([power * each.log_total(without) for each, power in some], axis=0)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums of a mixture's groups at points, exp(top)·parts."""

    top: Float[np.ndarray, "t s"]
    parts: Float[np.ndarray, "t g s"]
    total: Float[np.ndarray, "t s"]

    @classmethod
    def of(cls, logs: Float[np.ndarray, "t g s"]) -> "GroupSums":
        """Take their logarithms."""
        top = np.max(logs, axis=1)
        parts = np.exp(logs - top[:, None])
        return cls(top, parts, np.sum(parts, axis=1))

    def log_total(self, without: int | None = None) -> Float[np.ndarray, "t s"]:
        """Return the log of the sum, perhaps without one group; a single group, no draws of gaps, stays."""
        if without is None or self.parts.shape[1] == 1:
            return self.top + np.log(self.total)
        # a group that is all there is leaves rounding; that it matters shows well before that
        return self.top + np.log(np.maximum(self.total - self.parts[:, without], 1e-12 * self.total))


def _fall(
    squared: Float[np.ndarray, "*shape"], dfs: Float[np.ndarray, "*#shape"], p: int
) -> Float[np.ndarray, "*shape"]:
    """Return by how much a part's log density lies below its height, at a squared distance from its location."""
    if np.all(np.isinf(dfs)):
        return 0.5 * squared
    normal = np.isinf(dfs)
    df = np.where(normal, 1.0, dfs)
    bent = 0.5 * (df + p) * np.log1p(squared / df)
    return np.where(normal, 0.5 * squared, bent) if np.any(normal) else bent


# What completed tables say of the next record in every cell, with or without one of their own records.


LEAST_LEFT = 1e-6  # of a direction's scatter: with less, too few digits are left to take a record out of sums


@dataclass(frozen=True, eq=False)
class CellPredictives:
    """The distribution of a record: the share of each cell, and a Student t of the measurements there.

    Axes: records, cells, draws of the missing values. `inflations`: c = κ/(κ+1) of the model that the t comes
    from, whose scale is Λ = c·df·V. `left`: the least share, over the draws, of its own direction's scatter that
    others supply (1 minus the hat value); where it is below `LEAST_LEFT` the record was not taken out, and must be
    otherwise.
    """

    log_shares: Float[np.ndarray, "m cells d"]
    locations: Float[np.ndarray, "m cells d p"]
    scales: Float[np.ndarray, "m cells d p p"]
    dfs: Float[np.ndarray, "m cells d"]
    inflations: Float[np.ndarray, "m cells d"]
    left: Float[np.ndarray, " m"]


def next_record(models: tuple[LocationModel, ...], known: Float[np.ndarray, "m s"]) -> CellPredictives:
    """Return what each model says of the next record, for each row of covariates."""
    model, m, draws = models[0], len(known), len(models)
    weights = np.stack([each.weights for each in models])
    shares = np.log(weights / weights.sum(axis=1, keepdims=True)).T
    every = np.arange(model.cells.count)
    shape = (m, model.cells.count, draws)
    locations, scales = np.empty((*shape, model.p)), np.empty((*shape, model.p, model.p))
    dfs, inflations = np.empty(shape), np.empty(shape)
    for draw, each in enumerate(models):
        for row, covariates in enumerate(known):
            there = each.at(every, np.tile(covariates, (len(every), 1)))
            t, at = there.predictive(), (row, slice(None), draw)
            locations[at], scales[at], dfs[at] = t.location, t.scale, t.df
            inflations[at] = there.mean_weight / (there.mean_weight + 1)
    return CellPredictives(np.broadcast_to(shares, shape), locations, scales, dfs, inflations, np.ones(m))


def without_own_record(
    models: tuple[LocationModel, ...], tables: tuple[MixedRecords, ...], rows: Int[np.ndarray, " m"]
) -> CellPredictives:
    """Return what each model says of some records of its own table, each without that record."""
    cells = np.stack([table.cells[rows] for table in tables], axis=1)
    values = np.stack([table.values[rows] for table in tables], axis=1)
    count = models[0].cells.count
    own = np.arange(count)[:, None] == cells[:, None]  # m, cells, draws
    weights = np.stack([model.weights for model in models], axis=1)
    shares = np.log((weights - own) / (weights.sum(axis=0) - 1))
    if isinstance(models[0].measured, Regression):
        return CellPredictives(shares, *_by_regression(models, cells, values, tables[0].covariates[rows]))
    return CellPredictives(shares, *_by_cell(models, own, values))


def _by_regression(
    models: tuple[LocationModel, ...],
    cells: Int[np.ndarray, "m d"],
    values: Float[np.ndarray, "m d p"],
    known: Float[np.ndarray, "m s"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return locations, scales, dfs, inflations and what is left: `Regression.without_each` for all draws."""
    model = models[0]
    measured = [each.measured for each in models if isinstance(each.measured, Regression)]
    effects = np.stack([each.coefficients for each in measured])
    halves = np.linalg.inv(np.stack([each.root for each in measured]))
    scale, codes = np.stack([each.scale for each in measured]), model.cells.main_effects
    m, draws = cells.shape
    wide = np.broadcast_to(known[:, None], (m, draws, known.shape[1]))
    coded = np.concatenate([codes[cells], wide], axis=-1)
    beside = np.broadcast_to(known[:, None], (m, len(codes), known.shape[1]))
    candidates = np.concatenate([np.broadcast_to(codes, (m, *codes.shape)), beside], axis=-1)
    white = np.einsum("mdr,drs->mds", coded, halves)
    other = np.einsum("mcr,drs->mcds", candidates, halves)
    left = 1 - np.sum(white * white, axis=-1)
    away = values - np.einsum("mdr,drp->mdp", coded, effects)
    kept = left - np.sum(np.linalg.solve(scale, away[..., None])[..., 0] * away, axis=-1)
    removed = kept > LEAST_LEFT
    away, left = np.where(removed[..., None], away, 0.0), np.where(removed, left, 1.0)
    cross = np.einsum("mds,mcds->mcd", white, other)
    locations = np.einsum("mcr,drp->mcdp", candidates, effects)
    locations = locations - (cross / left[:, None])[..., None] * away[:, None]
    spread = np.sum(other * other, axis=-1) + cross**2 / left[:, None]
    df = measured[0].df - 1 - model.p + 1
    without = scale - away[..., :, None] * (away / left[..., None])[..., None, :]
    scales = ((1 + spread) / df)[..., None, None] * without[:, None]
    return locations, scales, np.full(spread.shape, df), 1 / (1 + spread), np.min(kept, axis=1)


def _by_cell(
    models: tuple[LocationModel, ...], own: np.ndarray, values: Float[np.ndarray, "m d p"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the same for separate cells: only the record's own cell loses it."""
    measured = [each.measured for each in models if isinstance(each.measured, NIW)]
    count, p = models[0].cells.count, models[0].p
    mean = np.stack([np.broadcast_to(each.mean, (count, p)) for each in measured], axis=1)
    scale = np.stack([np.broadcast_to(each.scale, (count, p, p)) for each in measured], axis=1)
    weight = np.stack([np.broadcast_to(np.asarray(each.mean_weight), count) for each in measured], axis=1) - own
    df = np.stack([np.broadcast_to(np.asarray(each.df), count) for each in measured], axis=1) - own
    away = np.where(own[..., None], values[:, None] - mean, 0.0)
    more = (weight + 1) / weight
    kept = 1 - np.sum(np.linalg.solve(scale, away[..., None])[..., 0] * away, axis=-1) * more
    away = np.where((kept > LEAST_LEFT)[..., None], away, 0.0)
    locations = mean - away / weight[..., None]
    without = scale - more[..., None, None] * away[..., :, None] * away[..., None, :]
    delta = df - p + 1
    scales = (more / delta)[..., None, None] * without
    return locations, scales, delta, 1 / more, np.min(kept, axis=(1, 2))


def of_parameters(
    shares: Float[np.ndarray, " cells"],
    coefficients: Float[np.ndarray, "r p"],
    covariances: Float[np.ndarray, "own p p"],
    model: LocationModel,
    known: Float[np.ndarray, "m s"],
) -> CellPredictives:
    """Return what one released draw of the parameters says of a record: a normal in every cell."""
    every, m = np.arange(model.cells.count), len(known)
    locations = np.stack([model.coded(every, np.tile(row, (len(every), 1))) @ coefficients for row in known])
    p = model.p
    scales = np.broadcast_to(covariances, (len(every), p, p))
    shape = (m, len(every), 1)
    log_shares = np.log(np.maximum(shares, LEAST_SHARE))
    return CellPredictives(
        np.broadcast_to(log_shares[:, None], shape),
        locations[:, :, None],
        np.broadcast_to(scales[None, :, None], (*shape, p, p)),
        np.full(shape, np.inf),
        np.ones(shape),
        np.ones(m),
    )
