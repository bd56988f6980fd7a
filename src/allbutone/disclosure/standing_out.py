"""Who stands out in a table that stays in its engine: how many by how much, and the few worst themselves."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.disclosure.exposure_law import HIGH, leverages
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.support.errors import InputError
from allbutone.tables.engines.distances import count_beyond, farthest, sums_within, with_distances
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records

MOST = 1000  # records that are fetched
STEPS = 20  # of the ladder of leverages, each twice the one before, from the average on


@dataclass(frozen=True, eq=False)
class StandingOut:
    """The moments of a table, its records of the highest leverage, and how many others there are.

    moments: of all records. elsewhere: of those that were not fetched. records: those fetched, the highest
    leverage first. keys: what the key column calls them. ladder: leverages. above: how many records of the
    whole table have a leverage above each.
    """

    moments: Moments
    elsewhere: Moments
    records: Records
    leverage: Float[np.ndarray, " m"]
    ladder: Float[np.ndarray, " steps"]
    above: Int[np.ndarray, " steps"]
    keys: tuple[Any, ...] = field(default=(), repr=False)

    @property
    def others(self) -> int:
        """How many records were not fetched."""
        return int(self.elsewhere.count)


def standing_out(records: LazyRecords, prior: NIW, *, most: int = MOST, key: str | None = None) -> StandingOut:
    """Find the records of the highest leverage in two passes: counts above a ladder, and the highest themselves.

    In the engine the leverage is an expression: with l = (κ/κ₋)·‖C⁻¹(x − μ)‖² the hat value, q = l/(1 − l). Where
    a record makes up nearly all of its own direction, a third pass adds up the others without it.
    """
    if records.categories.columns:
        raise InputError("leverage in the engine is for tables of measurements", "leave the categories out")
    moments = Moments.of(records)
    whole = prior.update(moments)
    ratio = whole.mean_weight / (whole.mean_weight - 1)
    frame = with_distances(records, np.asarray(whole.mean), np.linalg.inv(np.asarray(whole.root)), key)
    ladder = whole.p / moments.count * 2.0 ** np.arange(STEPS)
    above = count_beyond(frame, ladder / (1 + ladder) / ratio)
    found, distances, keys = farthest(records, frame, min(most, len(records)), key)
    high = ratio * distances > HIGH
    inside = Moments.of_sums(sums_within(records, frame, HIGH / ratio)) if high.any() else moments
    elsewhere = inside if high.all() else inside.without(Moments.of(found.values[~high]))
    leverage = leverages(found.values, prior, elsewhere if elsewhere.count else None)
    order = np.argsort(-leverage, kind="stable")
    keys = tuple(keys[place] for place in order) if keys else ()
    return StandingOut(moments, elsewhere, found.take(order), leverage[order], ladder, above, keys)
