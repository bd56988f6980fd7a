"""The attack where values are missing, or known within bounds: predictives averaged over draws of these values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.gap_posteriors import GapPosteriors, Opinion
from allbutone.adversary.gap_predictives import CellPredictives, next_record, of_parameters, without_own_record
from allbutone.adversary.released_bounds import noticed_bounds, spread_given_others
from allbutone.model.augmentation import augment
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel, MixedRecords, Parameters
from allbutone.support.errors import InputError
from allbutone.support.parallel import in_parallel

CHAINS, DRAWS = 16, 8  # of each augmentation: 128 completed tables, in groups whose spread gives standard errors


@dataclass(frozen=True, eq=False)
class FilledTable:
    """Draws of a table's missing values given the table, and perhaps a released dataset beside it.

    `models`: given each completed table and the dataset; they and `tables` stand chain by chain. Without gaps
    there is one of each.
    """

    models: tuple[LocationModel, ...]
    tables: tuple[MixedRecords, ...]
    chains: int
    words: str

    @classmethod
    def of(
        cls,
        records: IncompleteRecords,
        prior: LocationModel,
        rng: np.random.Generator,
        dataset: IncompleteRecords | None = None,
        *,
        chains: int = CHAINS,
        draws: int = DRAWS,
    ) -> "FilledTable":
        """Draw the gaps; the dataset, which may have gaps of its own, is so many records more."""
        whole = records if dataset is None else records.joined(dataset)
        found = augment(whole, prior, rng, chains=chains, draws=draws)
        chains = found.convergence.chains if found.missing else 1
        by_chain = np.arange(chains * (draws if found.missing else 1)).reshape(-1, chains).T.ravel()
        tables = found.first_tables(len(records))
        models = (found.posteriors[at] for at in by_chain)
        return cls(tuple(models), tuple(tables[at] for at in by_chain), chains, found.words)


@dataclass(frozen=True, eq=False)
class GapAdversary:
    """All that is needed to attack records of a table with gaps, or a record that it lacks.

    `datasets`: what was released, with gaps of their own, and within the bounds that rounding and limits leave.
    `before`: the table's gaps drawn given the table; `after`: given it and each released dataset; `parameters`:
    released draws of the model's parameters. The table holds the targets, each of which is taken out of it in turn
    (`rows`), or all other records. `own`: the table's gaps drawn by the adversary's own prior, if they have one.
    `rest`: the same for releases by other mechanisms, and of the table when it had fewer records, which stand
    among these from `start` on.
    """

    records: IncompleteRecords
    prior: LocationModel
    datasets: tuple[IncompleteRecords, ...]
    before: FilledTable
    after: tuple[FilledTable, ...]
    parameters: Parameters | None
    own: FilledTable | None = None
    rest: "tuple[GapAdversary, ...]" = ()
    start: int = 0

    @classmethod
    def of(
        cls,
        records: IncompleteRecords,
        prior: LocationModel,
        rng: np.random.Generator,
        *,
        datasets: Sequence[IncompleteRecords] = (),
        parameters: Parameters | None = None,
        chains: int = CHAINS,
        draws: int = DRAWS,
        own: LocationModel | None = None,
        watch: Callable[[int], None] = lambda tables: None,
    ) -> "GapAdversary":
        """Draw what is not known given the table, and given it and each dataset; `watch` is called after each."""
        if not len(datasets) and parameters is None:
            raise InputError("nothing was released: give datasets or parameters")
        streams = rng.spawn(2 + len(datasets))
        before = FilledTable.of(records, prior, streams[0], chains=chains, draws=draws)
        watch(1)
        seen = noticed_bounds(datasets, spread_given_others(before.models[0]))

        def fill(number: int) -> FilledTable:
            return FilledTable.of(records, prior, streams[1 + number], seen[number], chains=chains, draws=draws)

        mine = None if own is None else FilledTable.of(records, own, streams[-1], chains=chains, draws=draws)

        after = in_parallel(fill, range(len(seen)), watch=lambda table: watch(1))
        return cls(records, prior, tuple(seen), before, tuple(after), parameters, mine)

    @property
    def releases(self) -> int:
        """The number of datasets and of draws of the parameters."""
        return len(self.after) + (0 if self.parameters is None else len(self.parameters))

    @property
    def parts(self) -> int:
        """The most Student t's that an attack on one record weighs, in all cells."""
        own = () if self.own is None else (self.own,)
        here = self.prior.cells.count * sum(len(each.models) for each in (self.before, *self.after, *own))
        return here + sum(part.parts for part in self.rest)

    def without(self, row: int, rng: np.random.Generator, own: LocationModel | None = None) -> "GapAdversary":
        """Return the adversary who lacks this record, with gaps drawn anew without it; `own`: their prior, if any.

        It is what weights stand for; where they say too little, it is done.
        """
        others = self.records.take(np.delete(np.arange(len(self.records)), row))
        alone = GapAdversary.of(
            others,
            self.prior,
            rng,
            datasets=self.datasets,
            parameters=self.parameters,
            chains=self.before.chains,
            draws=len(self.before.models) // self.before.chains,
            own=own,
        )
        told = [part for part in self.rest if part.holds(np.array([row]))]
        return replace(alone, rest=tuple(part.without(row - part.start, rng) for part in told))

    def holds(self, rows: Int[np.ndarray, " m"]) -> bool:
        """Say whether records of the whole table, all of them alike, stand among these."""
        return bool(0 <= rows[0] - self.start < len(self.records))

    def posteriors(
        self,
        targets: IncompleteRecords,
        rows: Int[np.ndarray, " m"] | None = None,
        known: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> GapPosteriors:
        """Return the posteriors of what is observed of some targets, which all lack the same columns.

        `rows`: where they stand in the table, if it holds them. `known`: measurements and categories (positions)
        of the targets that the adversary knows; kept categories belong there. With x the observed part, and
        d = 1 … D the draws of the others' gaps,

            log p(x) = Σⱼ log[Σ_d w_dj·t(x | X₋⁽ᵈ⁾ ∪ Z⁽ʲ⁾)] + Σⱼ log f(x | θ⁽ʲ⁾)
                       − (k + m − 1)·log[Σ_d w_d·t(x | X₋⁽ᵈ⁾)]

        Draws were made given the whole table; the weights 1/p(xᵢ | X₋⁽ᵈ⁾) take the target out of it again.
        """
        covariates = targets.covariates
        opinions = self._opinions(covariates, rows)
        if self.own is None:
            before, chains, power = opinions[0]
            opinions[0] = (before, chains, power + 1)
        else:
            opinions.insert(0, (self._predictives(self.own, covariates, rows), self.own.chains, 1))
        for part in self.rest:
            if rows is None or part.holds(rows):
                opinions += part._opinions(covariates, None if rows is None else rows - part.start)
        return GapPosteriors.of(self.prior.cells, targets, opinions, rows is not None, known)

    def _opinions(self, covariates: Float[np.ndarray, "m s"], rows: Int[np.ndarray, " m"] | None) -> list[Opinion]:
        """Return what this mechanism's releases say of targets; first what all of them share, to be taken out."""
        found: list[Opinion] = [
            (self._predictives(self.before, covariates, rows), self.before.chains, -self.releases)
        ]
        found += [(self._predictives(each, covariates, rows), each.chains, 1) for each in self.after]
        draws = self.parameters
        for at in range(0 if draws is None else len(draws)):
            assert draws is not None
            one = (draws.shares[at], draws.coefficients[at], draws.covariances[at])
            found.append((of_parameters(*one, self.prior, covariates), 0, 1))
        return found

    def _predictives(
        self, filled: FilledTable, known: Float[np.ndarray, "m s"], rows: Int[np.ndarray, " m"] | None
    ) -> CellPredictives:
        if rows is None:
            return next_record(filled.models, known)
        return without_own_record(filled.models, filled.tables, rows)


def targets_by_gaps(records: IncompleteRecords) -> list[Int[np.ndarray, " m"]]:
    """Return the records that have any value, in groups that lack the same ones."""
    gaps = records.gaps
    _, which = np.unique(gaps, axis=0, return_inverse=True)
    groups = [np.flatnonzero(which.ravel() == number) for number in range(int(np.max(which)) + 1)]
    return [group for group in groups if not np.all(gaps[group[0]])]
