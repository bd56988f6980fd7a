"""What released values tell of the draws they came from: rounded and limited, these are known within bounds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from allbutone.model.augmentation import augment
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.joined import JoinedRelease, OfFewer, Released, ReleasesByPrior
from allbutone.releases.release import DatasetRelease, PlainRelease
from allbutone.support.arrays import to_numpy
from allbutone.support.parallel import in_parallel

NOTICED = 0.1  # of the standard error of a variance: by less, rounding cannot be told from chance


def spread_given_others(model: LocationModel) -> Float[np.ndarray, " p"]:
    """Return each measurement's variance given all others and the cell, 1/(Σ⁻¹)_cc, as the model expects it."""
    scale, df = np.asarray(model.measured.scale), np.asarray(model.measured.df, dtype=float)
    if scale.ndim > 2:  # separate cells: all together
        scale, df = np.sum(scale, axis=0), np.sum(np.broadcast_to(df, len(scale)))
    return 1 / np.diagonal(np.linalg.inv(scale / np.maximum(df, 1.0)))


def noticed_bounds(
    datasets: Sequence[IncompleteRecords], spread: Float[np.ndarray, " p"]
) -> list[IncompleteRecords]:
    """Return the datasets with only those bounds that matter; other values count as exact.

    A value at a limit is open to one side, which always matters. A value rounded by a step w adds w²/12 to its
    column's variance `spread` given the others. As long as that is well below what the variance could be told from
    in all N released rows, √(2/N) of itself, it is the same to an adversary whether values were rounded.
    """
    rows = sum(len(each) for each in datasets)
    noticeable = NOTICED * np.sqrt(2 / max(rows, 1)) * spread
    found = []
    for each in datasets:
        with np.errstate(invalid="ignore"):  # gaps
            matters = each.bounded & ((each.high - each.low) ** 2 / 12 > noticeable)
        low, high = np.where(matters, each.low, each.values), np.where(matters, each.high, each.values)
        found.append(IncompleteRecords(each.codes, each.values, each.covariates, low, high))
    return found


def before_limits(
    release: Released, records: Float[np.ndarray, "n p"], elsewhere: Moments | None = None
) -> Released:
    """Return a release with one draw of what its limited and coarsely rounded values may have been before.

    Drawn given the whole table and all released values: so the draws themselves are distributed, and to judge them
    is to let the adversary see somewhat more than was released. It is what all attacks take that have a closed
    form; `GapAdversary` averages over many such draws instead, and is exact. `elsewhere`: the moments of further
    records of the table.
    """
    if isinstance(release, ReleasesByPrior):
        rest = [_part_before_limits(part, records, elsewhere) for part in release.rest]
        first = _part_before_limits(release.first, records, elsewhere)
        return ReleasesByPrior(first, tuple(rest))  # type: ignore[arg-type]
    return _part_before_limits(release, records, elsewhere)  # type: ignore[return-value]


def _part_before_limits(
    part: PlainRelease | JoinedRelease | OfFewer, records: Float[np.ndarray, "n p"], elsewhere: Moments | None
) -> PlainRelease | JoinedRelease | OfFewer:
    if isinstance(part, OfFewer):
        found = _part_before_limits(part.first, records[part.people], None)
        return OfFewer(found, part.people)  # type: ignore[arg-type]
    if isinstance(part, JoinedRelease):
        drawn = _part_before_limits(part.synthetic, records, elsewhere)
        return replace(part, synthetic=drawn)  # type: ignore[arg-type]
    if not isinstance(part, DatasetRelease) or part.prior is None or part.is_as_drawn:
        return part
    if not part.schema.is_limited:
        return part
    moments = Moments.of(records) if elsewhere is None else Moments.of(records).merge(elsewhere)
    return _redrawn(part, part.prior.update(moments))


def _redrawn(release: DatasetRelease, whole: NIW) -> DatasetRelease:
    """Draw the values of datasets that are known within bounds; `whole`: the posterior given the whole table."""
    model = LocationModel.prior((), whole, separate=True)
    modelled = [to_numpy(each) for each in release.modelled]
    bounds = [release.schema.drawn_between(to_numpy(each)) for each in release.datasets]
    seen = [
        IncompleteRecords.of(None, values, low=low, high=high)
        for values, (low, high) in zip(modelled, bounds, strict=True)
    ]
    return release.as_if_drawn(redrawn(seen, model))


def redrawn(datasets: Sequence[IncompleteRecords], whole: LocationModel) -> list[Float[np.ndarray, "_ p"]]:
    """Draw once what the values of datasets were before limits and rounding; `whole`: the model with the table."""
    noticed = noticed_bounds(datasets, spread_given_others(whole))
    streams = np.random.default_rng(0).spawn(len(noticed))

    def draw(number: int) -> Float[np.ndarray, "n p"]:
        return augment(noticed[number], whole, streams[number]).tables[0].values

    return in_parallel(draw, range(len(noticed)))
