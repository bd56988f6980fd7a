"""What is believed without classes, beside what is believed with them: cells in place of classes, exactly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.boxes import Boxes
from allbutone.adversary.classes import OutsideOpinion, OwnParts
from allbutone.model.classes import MOST_CLASSES, ClassModel, ClassPosteriors
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel
from allbutone.support.errors import InputError

NEVER = 1e-300  # the weight of a level that a cell does not have


@dataclass(frozen=True, eq=False)
class CellAdversary:
    """Who believes in a model without classes: its prior, the table, and datasets that were drawn from it.

    start: where the table's records begin among all.
    """

    prior: LocationModel
    records: IncompleteRecords
    datasets: tuple[IncompleteRecords, ...] = ()
    start: int = 0

    @classmethod
    def of(
        cls,
        prior: LocationModel,
        records: IncompleteRecords,
        datasets: Sequence[IncompleteRecords],
        start: int = 0,
    ) -> "CellAdversary":
        """Refuse what has no closed form beside classes."""
        if prior.covariates or any(np.any(each.gaps) for each in (records, *datasets)):
            raise InputError(
                "beside classes, releases made without them are judged where nothing is missing or kept"
            )
        if prior.cells.count > MOST_CLASSES:
            raise InputError(
                f"beside classes, releases made without them are judged up to {MOST_CLASSES} combinations of "
                f"levels, and there are {prior.cells.count:,}"
            )
        return cls(prior, records, tuple(datasets), start)

    def holds(self, people: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Say whose records the releases were made from."""
        return (people >= self.start) & (people < self.start + len(self.records))

    def opinions(self, people: Int[np.ndarray, " n"], groups: int) -> "list[tuple[CellOpinion, int]]":
        """Return what is believed of people, and in which power it stands: without a dataset, then with each."""
        tables = [self.records, *(self.records.joined(each) for each in self.datasets)]
        powers = [1 - len(self.datasets), *[1] * len(self.datasets)]
        return [
            (CellOpinion.given(self.prior, table, self.records, people, groups), power)
            for table, power in zip(tables, powers, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class CellOpinion(OutsideOpinion):
    """What a table says of the record of each of n people without that record: a Student t in each cell.

    `each`: by person, where other opinions have draws. `posteriors`: with all records, to draw points from.
    """

    each: ClassPosteriors

    @classmethod
    def given(
        cls,
        prior: LocationModel,
        table: IncompleteRecords,
        records: IncompleteRecords,
        people: Int[np.ndarray, " n"],
        groups: int,
    ) -> "CellOpinion":
        """Take a table whose first records are those of everybody."""
        whole = table.complete(prior.cells)
        every = np.arange(len(whole))
        without = [prior.plus(whole.take(np.delete(every, person))) for person in people]
        model, nobody = (
            ClassModel(prior.p, prior.cells.sizes, prior.cells.count),
            np.full((groups, len(people)), -1),
        )
        some = records.take(people)
        return cls(
            _posteriors(model, [prior.plus(whole)] * groups),
            nobody,
            some.values,
            Boxes.of(some, some.values[None]),  # no draws of what they were: values count as they are
            model.places(some.codes),
            groups,
            _posteriors(model, without),
        )

    def parts_at(
        self, values: Float[np.ndarray, "1 b p"], people: Int[np.ndarray, " b"], lines: bool = True
    ) -> OwnParts:
        """Return what each cell says of measurements of the people, always with lines."""
        each, places = self.each.take(people), self.places[people]
        white = (each.halves @ (values[0][:, None] - each.means)[..., None])[..., 0]
        cells = np.arange(each.model.classes)[:, None]
        levels = each.log_levels[np.arange(len(people))[:, None, None], cells, places[:, None]]
        parts = (
            each.log_shares,
            levels,
            each.heights,
            each.mean_weights / (each.mean_weights + 1),
            (each.dfs + 1) / 2,
            np.sum(white**2, axis=-1),
            np.einsum("bki,bkij->bkj", white, each.halves),
            np.sum(each.halves**2, axis=-2),
        )
        return OwnParts(*(np.repeat(np.swapaxes(one, 0, 1)[None], self.groups, axis=0) for one in parts))

    def log_groups(
        self,
        values: Float[np.ndarray, "s p"],
        places: Int[np.ndarray, "s q"],
        people: Int[np.ndarray, " b"],
        parts: Any = None,
    ) -> Float[np.ndarray, "g s b"]:
        """Return the log of each group's share of p(x | others), at the same points for all people."""
        return self._shared_out(self.each.take(people).log_density(values, places).T)

    def log_groups_of_own(
        self, values: Float[np.ndarray, "b s p"], places: Int[np.ndarray, "b s q"], people: Int[np.ndarray, " b"]
    ) -> Float[np.ndarray, "g s b"]:
        """Return the same at points of each person's own."""
        asked = zip(people, values, places, strict=True)
        logs = [self.each.take([person]).log_density(some, levels)[0] for person, some, levels in asked]
        return self._shared_out(np.stack(logs, axis=1))

    def _shared_out(self, logs: Float[np.ndarray, "s b"]) -> Float[np.ndarray, "g s b"]:
        return np.repeat(logs[None] - np.log(self.groups), self.groups, axis=0)


def _posteriors(model: ClassModel, models: Sequence[LocationModel]) -> ClassPosteriors:
    """Return what models say of each cell, as if the cells were classes that have one level of each category."""
    cells = models[0].cells
    nothing = np.zeros((cells.count, 0))
    niws = [each.at(np.arange(cells.count), nothing) for each in models]
    own = np.full((cells.count, model.levels), NEVER)
    np.put_along_axis(own, model.places(cells.codes), 1.0, axis=1)
    k = cells.count
    return ClassPosteriors(
        model,
        np.stack([each.weights for each in models]),
        np.repeat(own[None], len(models), axis=0),
        np.stack([np.broadcast_to(each.mean, (k, model.p)) for each in niws]),
        np.stack([np.broadcast_to(np.asarray(each.mean_weight, dtype=float), k) for each in niws]),
        np.stack([np.broadcast_to(np.asarray(each.df, dtype=float), k) for each in niws]),
        np.stack([np.broadcast_to(each.scale, (k, model.p, model.p)) for each in niws]),
    )
