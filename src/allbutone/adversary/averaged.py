"""What is known of a record where gaps were drawn many times: averaged predictives, mixtures of Student t's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, pi
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from allbutone.adversary.climb import climb
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes, find_modes, modes_of
from allbutone.model.incomplete import LEAST_SHARE
from allbutone.model.location import LocationModel, MixedRecords, Regression
from allbutone.model.niw import NIW
from allbutone.support.arrays import array_namespace, as_array, contiguous, half_log_det, log_sum_exp, zeros
from allbutone.support.devices import more_at_once

# Mixtures of Student t's, one for each of many records: what is known of a record where gaps were drawn often.


Array = Any

CACHED = 1 << 17  # densities held at a time: what stays in the processor's cache
LEAST_KEPT = 1e-300  # of a product of shares
HEAVY = 2.5  # degrees of freedom from which a Student t has a variance worth matching


@dataclass(frozen=True, eq=False)
class StudentMixture:
    """Σ_k exp(log_weights_k)·t(x; locations_k, V_k, dfs_k), `precisions` V⁻¹; where all dfs are infinite, normals.

    The parts stand in `groups` groups of as many: a group's parts come from one chain, and groups are independent.
    `heights`: the log density of each part at its location. The weights need not add up to 1.
    """

    log_weights: Float[Array, "t k"]
    locations: Float[Array, "t k p"]
    precisions: Float[Array, "t k p p"]
    dfs: Float[Array, "t k"]
    heights: Float[Array, "t k"]
    groups: int

    @classmethod
    def of(
        cls,
        log_weights: Float[Array, "t k"],
        locations: Float[Array, "t k p"],
        scales: Float[Array, "t k p p"],
        dfs: Float[Array, "t k"],
        groups: int = 1,
    ) -> "StudentMixture":
        """Factor the scale matrices V."""
        p = locations.shape[-1]
        if p == 0:  # nothing is measured of these records: only weights are left
            return cls(log_weights, locations, scales, dfs, np.zeros_like(log_weights), groups)
        root = np.linalg.cholesky(scales)
        half = np.linalg.inv(root)
        constant: Any = -0.5 * p * log(2 * pi)
        if not np.isinf(dfs[0, 0]):
            constant = gammaln((dfs + p) / 2) - gammaln(dfs / 2) - 0.5 * p * np.log(dfs * pi)
        return cls(
            log_weights, locations, half.swapaxes(-1, -2) @ half, dfs, constant - half_log_det(root), groups
        )

    @property
    def p(self) -> int:
        """The number of measurements."""
        return int(self.locations.shape[-1])

    @property
    def is_normal(self) -> bool:
        """Whether the parts are normal: those of released parameters."""
        return bool(self.dfs[0, 0] == float("inf"))

    def seen_from(self, centre: Float[Array, "t p"], root: Float[Array, "t p p"]) -> "StudentMixture":
        """Return the mixtures in the coordinates v of x = centre + root·v."""
        locations = np.linalg.solve(root, (self.locations - centre[:, None]).swapaxes(1, 2)).swapaxes(1, 2)
        precisions = root.swapaxes(-1, -2)[:, None] @ self.precisions @ root[:, None]
        heights = self.heights + np.linalg.slogdet(root)[1][:, None]
        return replace(self, locations=locations, precisions=precisions, heights=heights)

    def given(self, known: Int[Array, " c"], values: Float[Array, "t c"]) -> "StudentMixture":
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
        scales = np.linalg.inv(own)
        if not self.is_normal:
            scales = scales * ((self.dfs + squared) / (self.dfs + len(known)))[..., None, None]
        rest = StudentMixture.of(
            self.log_weights,
            self.locations[..., left] - shift[..., 0],
            (scales + scales.swapaxes(-1, -2)) / 2,
            self.dfs + len(known),
            self.groups,
        )
        # at the conditional location the joint density is that of y times the height of x | y
        highest = self.heights - self._fall(squared)
        return replace(rest, log_weights=self.log_weights + highest - rest.heights)

    def take(self, rows: Any) -> "StudentMixture":
        """Return the mixtures of some records."""
        names = ("log_weights", "locations", "precisions", "dfs", "heights")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def log_parts(self, points: Float[Array, "t s p"]) -> Float[Array, "t k s"]:
        """Return the log of each part, with its weight, at s points for each record.

        Squared distances are quadratic in x, so all parts are one product with the powers of x.
        """
        p, top, xp = self.p, (self.heights + self.log_weights)[..., None], array_namespace(points)
        if p == 0:
            return np.repeat(top, points.shape[1], axis=-1)
        first, second = np.triu_indices(p)
        twice = as_array(np.where(first == second, 1.0, 2.0), like=points)
        bent = twice * self.precisions[..., first, second]
        slopes = (self.precisions @ self.locations[..., None])[..., 0]
        level = xp.sum(slopes * self.locations, axis=-1)
        coefficients = xp.concat([level[..., None], -2 * slopes, bent], axis=-1)
        across = contiguous(points.mT)
        ones = xp.ones_like(across[:, :1])
        powers = xp.concat([ones, across, across[:, first] * across[:, second]], axis=1)
        if self.is_normal:
            parts = (-0.5 * coefficients) @ powers
            xp.minimum(parts, as_array(0.0, like=parts), out=parts)
            parts += top
            return parts
        coefficients /= self.dfs[..., None]
        coefficients[..., 0] += 1
        parts = coefficients @ powers  # 1 + q/δ
        xp.log(xp.maximum(parts, as_array(1.0, like=parts), out=parts), out=parts)
        parts *= -0.5 * (self.dfs + p)[..., None]
        parts += top
        return parts

    def group_sums(self, points: Float[Array, "t s p"]) -> "GroupSums":
        """Return each group's sum of weighted parts at s points for each record."""
        (records, parts), size, xp = self.log_weights.shape, points.shape[1], array_namespace(points)
        top, sums = zeros((records, size), like=points), zeros((records, self.groups, size), like=points)
        rows = max(1, more_at_once(CACHED, like=points) // (parts * size))
        for start in range(0, records, rows):
            some = slice(start, start + rows)
            each = self.take(some).log_parts(points[some])
            top[some] = xp.max(each, axis=1)
            each -= top[some, None]
            xp.exp(each, out=each)
            sums[some] = xp.sum(each.reshape(len(each), self.groups, -1, size), axis=2)
        return GroupSums(top, sums, xp.sum(sums, axis=1))

    def local(
        self, points: Float[Array, "t p"]
    ) -> tuple[Float[Array, " t"], Float[Array, "t p"], Float[Array, "t p p"]]:
        """Return value, gradient and Hessian of the log mixture at one point for each record.

        With r_k the share of part k at x, s_k = (δ+p)/(δ+q_k) and g_k = −s_k·V_k⁻¹(x − m_k):
        gradient g = Σ r_k·g_k, Hessian Σ r_k·[(1 + 2/(δ+p))·g_k g_kᵀ − s_k·V_k⁻¹] − ggᵀ
        """
        (records, parts), p, xp = self.log_weights.shape, self.p, array_namespace(points)
        away = points[:, None] - self.locations
        bent = (self.precisions @ away[..., None])[..., 0]
        squared = xp.sum(bent * away, axis=-1)
        each = self.log_weights + self.heights - self._fall(squared)
        value = log_sum_exp(each, axis=1)
        share = xp.exp(each - value[:, None])
        strength, more = xp.ones_like(share), xp.ones_like(share)
        if not self.is_normal:
            strength, more = (self.dfs + p) / (self.dfs + squared), 1 + 2 / (self.dfs + p)
        slopes = -strength[..., None] * bent
        gradient = (share[:, None] @ slopes)[:, 0]
        flat = self.precisions.reshape(records, parts, p * p)
        hessian = ((share * more)[..., None] * slopes).mT @ slopes
        hessian -= ((share * strength)[:, None] @ flat).reshape(records, p, p)
        return value, gradient, hessian - gradient[:, :, None] * gradient[:, None, :]

    def moments(self) -> tuple[Float[Array, "t p"], Float[Array, "t p p"], Float[Array, " t"]]:
        """Return mean and covariance of the mixtures, and the mean degrees of freedom."""
        share = np.exp(self.log_weights - log_sum_exp(self.log_weights, axis=1)[:, None])
        mean = np.einsum("tk,tkp->tp", share, self.locations)
        away = self.locations - mean[:, None]
        df = np.maximum(self.dfs, HEAVY)
        wider = share if self.is_normal else share * df / (df - 2)
        within = np.einsum("tk,tkpq->tpq", wider, np.linalg.inv(self.precisions))
        return mean, within + np.einsum("tk,tkp,tkq->tpq", share, away, away), np.sum(share * df, axis=1)

    def _fall(self, squared: Float[Array, "t k"]) -> Float[Array, "t k"]:
        """Return by how much a part lies below its height, at a squared distance from its location."""
        if self.is_normal:
            return 0.5 * squared
        return 0.5 * (self.dfs + self.p) * array_namespace(squared).log1p(squared / self.dfs)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """A mixture at points, summed within groups of draws, exp(top)·parts: all that leaving a group out needs."""

    top: Float[Array, "t s"]
    parts: Float[Array, "t g s"]
    total: Float[Array, "t s"]

    def log_totals(self) -> Float[Array, "t s"]:
        """Return the log of the sum of all groups."""
        return self.top + array_namespace(self.total).log(self.total)

    def kept(self) -> Float[Array, "t g s"]:
        """Return which share is left without each group; a single group, no draws of gaps, stays."""
        xp = array_namespace(self.parts)
        if self.parts.shape[1] == 1:
            return xp.ones_like(self.parts)
        # a group that is all there is leaves rounding; that it matters shows well before that
        return xp.maximum(1 - self.parts / self.total[:, None], as_array(1e-12, like=self.parts))


# The second family of posteriors: a product of mixtures, one for each release and one for what all of them share.


@dataclass(frozen=True, eq=False)
class MixtureProduct:
    """ℓ(v) = Σⱼ powerⱼ·log mixtureⱼ(v) of t records; after k releases Σⱼ log afterⱼ(v) − (k − 1)·log before(v).

    The first mixture is what is believed before any release. `shape`: the single Student t's that the mixtures are
    nearly, as one posterior of the closed family, which gives the coordinates v, the first guess of the modes and
    the measure of distances; None where nothing is measured.
    """

    mixtures: tuple[StudentMixture, ...]
    powers: tuple[int, ...]
    shape: LogQuadratic | None

    @classmethod
    def of(
        cls, mixtures: Sequence[StudentMixture], powers: Sequence[int], inflation: Float[Array, " t"]
    ) -> "MixtureProduct":
        """Bring mixtures into the coordinates of what is believed before; `inflation`: c of the model of that."""
        if not mixtures[0].p:
            return cls(tuple(mixtures), tuple(powers), None)
        shape = _nearly(mixtures, powers, inflation)
        return cls(tuple(each.seen_from(shape.centre, shape.root) for each in mixtures), tuple(powers), shape)

    @property
    def before(self) -> StudentMixture:
        """What is believed before any release."""
        return self.mixtures[0]

    @property
    def df(self) -> Any:
        """The ν by which distances are measured; nothing measured has none."""
        return np.ones(len(self.before.dfs)) if self.shape is None else self.shape.df

    @property
    def rounding(self) -> Any:
        """The size of ℓ's own rounding."""
        assert self.shape is not None
        return self.shape.rounding

    @property
    def log_volume(self) -> Float[Array, " t"]:
        """What a unit of volume in v is worth in x."""
        return zeros(len(self.before.dfs), like=self.before.dfs) if self.shape is None else self.shape.log_volume

    @property
    def groups(self) -> list[int | None]:
        """What to leave out: each group of draws in turn, then none."""
        count = max(each.groups for each in self.mixtures)
        return [*range(count if count > 1 else 0), None]

    def take(self, rows: Any) -> "MixtureProduct":
        """Return the posteriors at these positions."""
        shape = None if self.shape is None else self.shape.take(rows)
        return replace(self, mixtures=tuple(each.take(rows) for each in self.mixtures), shape=shape)

    def whiten(self, records: Float[Array, "t p"]) -> Float[Array, "t p"]:
        """Return v of one record for each posterior."""
        return records if self.shape is None else self.shape.whiten(records)

    def unwhiten(self, white: Float[Array, "t s p"]) -> Float[Array, "t s p"]:
        """Return the records at s points of each posterior."""
        if self.shape is None:
            return white
        return self.shape.centre[:, None] + white @ self.shape.root.mT

    def group_sums(self, white: Float[Array, "t s p"]) -> tuple[GroupSums, ...]:
        """Return the mixtures at s points, summed within each group of draws."""
        return tuple(each.group_sums(white) for each in self.mixtures)

    def values_of(self, sums: Sequence[GroupSums]) -> Float[Array, "g t s"]:
        """Return ℓ without each group of draws of every mixture in turn, and with all (last).

        The shares that are left of mixtures in the power 1 are multiplied before their logarithm is taken.
        """
        every = [(each, power) for each, power in zip(sums, self.powers, strict=True) if power]
        whole: Any = sum(power * each.log_totals() for each, power in every)
        if len(self.groups) == 1:
            return whole[None]
        xp = array_namespace(whole)
        others = zeros((len(whole), len(self.groups) - 1, whole.shape[1]), like=whole)
        left = xp.ones_like(others)
        for each, power in every:
            if power == 1:
                left *= each.kept()
            else:
                others += power * xp.log(each.kept())
        others += xp.log(xp.maximum(left, as_array(LEAST_KEPT, like=left)))
        return xp.concat([xp.moveaxis(whole[:, None] + others, 1, 0), whole[None]])

    def values(self, white: Float[Array, "t s p"]) -> Float[Array, "t s"]:
        """Return ℓ at s points."""
        return self.values_of(self.group_sums(white))[-1]

    def local(
        self, white: Float[Array, "t p"]
    ) -> tuple[Float[Array, " t"], Float[Array, "t p"], Float[Array, "t p p"]]:
        """Return value, gradient and Hessian of ℓ."""
        some = [(mixture, power) for mixture, power in zip(self.mixtures, self.powers, strict=True) if power]
        parts = [[power * part for part in mixture.local(white)] for mixture, power in some]
        value, gradient, hessian = (sum(each) for each in zip(*parts, strict=True))
        return value, gradient, hessian

    def find_modes(self) -> Modes:
        """Climb from both modes of the nearly equal single Student t's; the higher of the two is the best."""
        assert self.shape is not None
        start = find_modes(self.shape)
        first = climb(self, start.best)
        xp = array_namespace(start.best)
        other = xp.where(xp.isfinite(start.gap)[:, None], start.other, -start.best)
        return modes_of([first, climb(self, other, known=first)])


def _nearly(
    mixtures: Sequence[StudentMixture], powers: Sequence[int], inflation: Float[np.ndarray, " t"]
) -> LogQuadratic:
    """Return the posterior of the single Student t's with the mixtures' means and covariances."""
    (location, covariance, df), p = mixtures[0].moments(), mixtures[0].p
    nu = df + p - 1
    # V = covariance·(δ − 2)/δ, and the scale of the NIW whose predictive it is, Λ = c·δ·V
    root = np.linalg.cholesky(covariance * (inflation * (df - 2))[:, None, None])
    precision, pull = np.zeros((len(location), p, p)), np.zeros((len(location), p))
    weights, levels, slopes, shapes = [], [], [], []
    for mixture, power in zip(mixtures[1:], powers[1:], strict=True):
        place, spread, tail = mixture.moments()
        middle = np.linalg.solve(root, (place - location)[..., None])[..., 0]
        half = np.linalg.solve(np.linalg.cholesky(spread), root)
        bend = half.swapaxes(-1, -2) @ half
        if mixture.is_normal:
            precision, pull = precision + power * bend, pull + power * (bend @ middle[..., None])[..., 0]
            continue
        bend = bend / (tail - 2)[:, None, None]
        slope = (bend @ middle[..., None])[..., 0]
        weights.append(power * (tail + p))
        levels.append(1 + np.sum(slope * middle, axis=-1))
        slopes.append(slope)
        shapes.append(bend)
    wells: list[Any] = [np.stack(each, axis=1) for each in (weights, levels, slopes, shapes)] if weights else []
    return LogQuadratic(location, root, nu, -powers[0] * (nu + 1), inflation, precision, pull, *wells)


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
