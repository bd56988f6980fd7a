"""What completed tables say of the next record in every cell, with or without one of their own records."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.incomplete import LEAST_SHARE
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.niw import NIW
from allbutone.model.regression import Regression

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
