"""Where people stand among the others, and who stands out: all that predictions of their risk depend on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.integrate import Intervals, interval_probability
from allbutone.adversary.leave_one_out import remove_each
from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.disclosure.exposure_law import HIGH, leverages, together, without
from allbutone.disclosure.rule import Rule
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.support.text import counted
from allbutone.tables.engines.lazy_records import Centres, Distances, LazyRecords
from allbutone.tables.records import Records

# Where people stand among the others: all of a person that a prediction of their risk depends on.


@dataclass(frozen=True, eq=False)
class Standing:
    """Where m people stand, each column in units of the others' standard deviation.

    leverage: q. distance: from the others' mean, Mahalanobis. deviation: in each column. low, high: the interval
    that counts as knowing the value. needed: the probability of it at which the value is disclosed; infinite where
    it cannot be.
    """

    leverage: Float[np.ndarray, " m"]
    distance: Float[np.ndarray, " m"]
    deviation: Float[np.ndarray, "m p"]
    low: Float[np.ndarray, "m p"]
    high: Float[np.ndarray, "m p"]
    needed: Float[np.ndarray, "m p"]

    @classmethod
    def of(cls, others: NIW, values: Float[np.ndarray, "m p"], near: Intervals, rule: Rule) -> "Standing":
        """Compare each of these people with the model of their others (one batch axis)."""
        mean, scale = np.asarray(others.mean), np.asarray(others.scale)
        df, kappa = (
            np.broadcast_to(np.asarray(each, dtype=float), len(values))[:, None]
            for each in (others.df, others.mean_weight)
        )
        root = np.sqrt(np.diagonal(scale, axis1=1, axis2=2))
        freedom = df + 1 - values.shape[1]
        student = root * np.sqrt((kappa + 1) / (kappa * freedom))
        spread = root / np.sqrt(df)
        leverage = leverages_among(others, values)
        return cls(
            leverage=leverage,
            distance=np.sqrt(df * leverage[:, None] * (kappa + 1) / kappa)[:, 0],
            deviation=(values - mean) / spread,
            low=(near.low - mean) / spread,
            high=(near.high - mean) / spread,
            needed=rule.needed(interval_probability(mean, student, freedom, near.low, near.high)),
        )

    def take(self, rows: Int[np.ndarray, " r"] | slice) -> "Standing":
        """Return some of the people."""
        return Standing(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def most_telling(self, most: int) -> "Standing":
        """Return each person with the columns in which they stand out most, and those of the widest intervals."""
        if self.deviation.shape[1] <= most:
            return self
        can_be = np.isfinite(self.needed)  # what cannot be disclosed comes last
        far = np.argsort(np.where(can_be, -np.abs(self.deviation), 1.0), axis=1)[:, : most - most // 4]
        wide = np.argsort(np.where(can_be, self.low - self.high, 1.0), axis=1)[:, : most // 4]
        chosen = np.concatenate([far, wide], axis=1)
        names = ("deviation", "low", "high", "needed")
        picked = {name: np.take_along_axis(getattr(self, name), chosen, axis=1) for name in names}
        return Standing(leverage=self.leverage, distance=self.distance, **picked)


def leverages_among(others: NIW, values: Float[np.ndarray, "m p"]) -> Float[np.ndarray, " m"]:
    """Return q = κ/(κ + 1)·(x − μ)ᵀΛ⁻¹(x − μ) of each of these people, by the model of their own others."""
    kappa = np.broadcast_to(np.asarray(others.mean_weight, dtype=np.float64), len(values))
    white = np.linalg.solve(others.root, (values - np.asarray(others.mean))[..., None])[..., 0]
    return kappa / (kappa + 1) * np.sum(white * white, axis=1)


def others_of(
    values: Float[np.ndarray, "n p"],
    prior: NIW,
    whole: NIW,
    rows: Int[np.ndarray, " m"],
    leverage: Float[np.ndarray, " m"],
    elsewhere: Moments | None = None,
) -> NIW:
    """Return the model, `whole` with everyone, without each of these rows, whose leverages are known.

    `elsewhere`: the moments of further records.
    """
    others = remove_each(whole, values[rows])
    high = np.flatnonzero(leverage > HIGH / (1 - HIGH))
    if not len(high):
        return others
    mean, scale = np.array(others.mean), np.array(others.scale)
    for place in high:  # taking these out of the whole would cost digits
        alone = prior.update(together(without(values, int(rows[place])), elsewhere))
        mean[place], scale[place] = alone.mean, alone.scale
    return NIW(mean, others.mean_weight, others.df, scale)


# Who stands out in a table that stays in its engine: how many by how much, and the few worst themselves.


MOST_FETCHED = 1000  # records that are fetched
STEPS = 20  # of the ladder of leverages, each twice the one before, from the average on


@dataclass(frozen=True, eq=False)
class StandingOut:
    """The moments of a table, its records of the highest leverage, and how many others there are.

    moments: of all records. elsewhere: of those that were not fetched; both of each cell where there are
    categories. records: those fetched, the highest leverage first. keys: what the key column calls them.
    ladder: leverages. above: how many records of the whole table have a leverage above each.
    """

    moments: Moments
    elsewhere: Moments
    records: Records
    leverage: Float[np.ndarray, " m"]
    ladder: Float[np.ndarray, " steps"]
    above: Int[np.ndarray, " steps"]
    keys: tuple[Any, ...] = field(default=(), repr=False)

    @property
    def people(self) -> int:
        """How many records the table has."""
        return int(np.sum(self.moments.count))

    @property
    def others(self) -> int:
        """How many records were not fetched."""
        return int(np.sum(self.elsewhere.count))

    def keyed(self, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return columns of the records that were fetched, with what the key column calls each."""
        return {"key": np.array(self.keys), **found} if self.keys else found

    @property
    def in_words(self) -> str:
        """Which records were fetched."""
        small = " or are in the smallest combinations of categories" * bool(np.ndim(self.moments.count))
        return f"{counted(len(self.records.values), 'record')} that stand out most{small}"


def standing_out(
    records: LazyRecords, prior: NIW, *, most: int = MOST_FETCHED, key: str | None = None
) -> StandingOut:
    """Find the records of the highest leverage in two passes: counts above a ladder, and the highest themselves.

    In the engine the leverage is an expression: with l = (κ/κ₋)·‖C⁻¹(x − μ)‖² the hat value, q = l/(1 − l). Where
    a record makes up nearly all of its own direction, a third pass adds up the others without it.
    """
    moments = Moments.of(records)
    whole = prior.update(moments)
    distances = records.distances(_centres(whole, np.zeros(1, dtype=np.int64)), key)
    ladder, above = _ladder(distances, whole.p, len(records))
    most = min(most, len(records))
    # no engine need sort more than those above the last step that enough are above
    step = ladder[above >= most][-1:]
    farthest, hat, keys = distances.farthest(most, beyond=float((step / (1 + step))[0]) if len(step) else None)
    high = hat > HIGH
    inside = Moments.of_sums(distances.sums_within(HIGH)) if high.any() else moments
    elsewhere = inside if high.all() else inside.without(Moments.of(farthest.values[~high]))
    leverage = leverages(farthest.values, prior, elsewhere if elsewhere.count else None)
    return _ordered(StandingOut(moments, elsewhere, farthest, leverage, ladder, above, keys))


def far_out(records: LazyRecords, prior: LocationModel) -> tuple[MixedRecords, Moments]:
    """Return the records of which downdates would lose digits, and the moments of each cell's others.

    Hat values sum to less than p in a cell, so fewer than p/0.9 are above 0.9; taken out of moments, they would
    cost digits.
    """
    moments = prior.moments(records.sums)
    whole, cells = prior.update(moments), np.flatnonzero(moments.count)
    distances = records.distances(_centres(whole.at(cells, np.zeros((len(cells), 0))), cells))
    high = int(distances.count_beyond(np.array([HIGH]))[0])
    if not high:
        return MixedRecords.of(np.zeros(0), np.zeros((0, prior.p))), moments
    far, _, _ = distances.farthest(high, beyond=HIGH)
    codes = far.categories.codes if prior.cells.sizes else np.zeros((len(far.values), 0), dtype=np.int64)
    return MixedRecords.of(prior.cells.of_codes(codes), far.values), prior.moments(distances.sums_within(HIGH))


def standing_out_in_cells(
    records: LazyRecords, prior: LocationModel, *, most: int = MOST_FETCHED, key: str | None = None
) -> StandingOut:
    """Find the records of the highest leverage, each among the others of its own cell, and the smallest cells.

    Given its cell, what is known of a record is an NIW (`LocationModel.at`), so that the leverage in the engine is
    the expression of `standing_out`, with the numbers of each cell. The smallest cells, together at most as many
    records as `most`, are fetched besides: there the categories of a record are most at risk.
    """
    moments = prior.moments(records.sums)
    whole, cells = prior.update(moments), np.flatnonzero(moments.count)
    there = whole.at(cells, np.zeros((len(cells), 0)))
    distances = records.distances(_centres(there, cells), key)
    ladder, above = _ladder(distances, whole.p, len(records))
    small = _smallest(moments.count[cells], cells, most)
    in_small = int(moments.count[small].sum())
    farthest, hat, keys = distances.farthest(min(most + in_small, len(records)), cells=small)
    fetched = MixedRecords.of(prior.cells.of_codes(farthest.categories.codes), farthest.values)
    high = hat > HIGH
    inside = prior.moments(distances.sums_within(HIGH)) if high.any() else moments
    elsewhere = inside.without(prior.moments(fetched.take(~high)))
    everyone = MixedLeaveOneOut.of(fetched, prior, elsewhere=elsewhere)
    leverage = leverages_among(everyone.before(np.arange(len(fetched)), fetched.cells), fetched.values)
    return _ordered(StandingOut(moments, elsewhere, farthest, leverage, ladder, above, keys))


def _centres(model: NIW, cells: Int[np.ndarray, " c"]) -> Centres:
    """Return the centres from which distances are hat values l, for the models of some cells."""
    c, p = len(cells), model.p
    weight = np.broadcast_to(np.asarray(model.mean_weight, dtype=np.float64), c)
    centre, root = np.broadcast_to(model.mean, (c, p)), np.broadcast_to(model.root, (c, p, p))
    return Centres(cells, centre, np.linalg.inv(root), weight / (weight - 1))


def _ladder(
    distances: Distances, p: int, people: int
) -> tuple[Float[np.ndarray, " steps"], Int[np.ndarray, " steps"]]:
    """Return a ladder of leverages, from the average on, and how many records are above each."""
    ladder = p / people * 2.0 ** np.arange(STEPS)
    return ladder, distances.count_beyond(ladder / (1 + ladder))


def _smallest(count: Float[np.ndarray, " c"], cells: Int[np.ndarray, " c"], most: int) -> list[int]:
    """Return the smallest cells, as many as together have no more than `most` records."""
    order = np.argsort(count, kind="stable")
    return cells[order[np.cumsum(count[order]) <= most]].tolist()


def _ordered(found: StandingOut) -> StandingOut:
    """Put the records of the highest leverage first, and number them so."""
    order = np.argsort(-found.leverage, kind="stable")
    records = replace(found.records.take(order), rows=np.arange(1, len(order) + 1))
    keys: Sequence[Any] = [found.keys[place] for place in order] if found.keys else ()
    return replace(found, records=records, leverage=found.leverage[order], keys=tuple(keys))
