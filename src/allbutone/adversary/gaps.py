"""The attack where values are missing, or known within bounds: posteriors of what is observed of each record."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.averaged import (
    LEAST_LEFT,
    CellPredictives,
    MixtureProduct,
    StudentMixture,
    next_record,
    of_parameters,
    without_own_record,
)
from allbutone.model.augmentation import augment
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel, MixedRecords, Parameters
from allbutone.model.moments import UNKNOWN, Cells
from allbutone.releases.release import Release
from allbutone.support.arrays import log_sum_exp
from allbutone.support.errors import InputError
from allbutone.support.parallel import in_parallel

# Posteriors of the observed part of records, where the others' gaps were drawn many times.


MOST_GROUPS = 8  # of draws, by chains; each is left out in turn

# predictives, the number of chains that drew gaps for them (0: a released draw), and the power in which they stand
Opinion = tuple[CellPredictives, int, int]


@dataclass(frozen=True, eq=False)
class GapPosteriors:
    """The posteriors of m targets that lack the same columns, at every combination of their known categories.

    A target's combinations stand one after the other in `product`: t = m·`combinations`. `possible`: those that
    agree with the categories that the adversary knows; known measurements are in the mixtures' weights.
    `effective_draws`: what the draws of the gaps are worth after weighing, the least of all mixtures; 0 where a
    target could not be taken out.
    """

    columns: Int[np.ndarray, " p"]
    combinations: Int[np.ndarray, "a q"]
    truth: Float[np.ndarray, "m p"]
    true_combination: Int[np.ndarray, " m"]
    possible: Bool[np.ndarray, "m a"]
    product: MixtureProduct
    effective_draws: Float[np.ndarray, " m"]

    @classmethod
    def of(
        cls,
        cells: Cells,
        targets: IncompleteRecords,
        opinions: Sequence[Opinion],
        weighed: bool,
        known: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> "GapPosteriors":
        """Turn predictives into mixtures; the first are what is believed before any release.

        `weighed`: the gaps were drawn with the targets in the table, so that weights must take them out. `known`:
        measurements and categories (positions) of the targets that the adversary knows.
        """
        (columns,) = np.nonzero(~np.isnan(targets.values[0]))
        (here,) = np.nonzero(targets.codes[0] != UNKNOWN)
        combinations, which = np.unique(cells.codes[:, here], axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable").reshape(len(combinations), -1)
        agree = targets.codes[:, None, here] == combinations
        true = np.argmax(np.all(agree, axis=-1), axis=1)
        possible = np.all(agree | ~np.isin(here, known[1]), axis=-1)
        truth, told = targets.values[:, columns], np.flatnonzero(np.isin(columns, known[0]))
        mixtures, worth = [], np.full(len(truth), np.inf)
        for each, chains, _ in opinions:
            mixture, log_weights = _mixture(each, chains, columns, order, truth, true, weighed)
            if len(told):
                mixture = mixture.given(told, np.repeat(truth[:, told], len(combinations), axis=0))
            mixtures.append(mixture)
            if chains:
                worth = np.minimum(worth, np.exp(-log_sum_exp(2 * log_weights, axis=1)))
        left = np.min([each.left for each, _, _ in opinions], axis=0)
        inflation = np.mean(opinions[0][0].inflations[:, order], axis=(2, 3)).ravel()
        return cls(
            np.delete(columns, told),
            combinations,
            np.delete(truth, told, axis=1),
            true,
            possible,
            MixtureProduct.of(mixtures, [power for _, _, power in opinions], inflation),
            np.where(left > LEAST_LEFT, worth, 0.0),
        )

    @property
    def true_places(self) -> Int[np.ndarray, " m"]:
        """Where each target's own combination stands."""
        return np.arange(len(self.truth)) * len(self.combinations) + self.true_combination


def _mixture(
    each: CellPredictives,
    chains: int,
    columns: Int[np.ndarray, " o"],
    order: Int[np.ndarray, "a u"],
    truth: Float[np.ndarray, "m o"],
    true: Int[np.ndarray, " m"],
    weighed: bool,
) -> tuple[StudentMixture, Float[np.ndarray, "m d"]]:
    """Return each target's mixture at each combination, and the log weights of the draws, which add up to 1."""
    m, draws, (a, u) = len(truth), each.dfs.shape[-1], order.shape

    def arranged(array: np.ndarray) -> np.ndarray:
        # records, combinations, draws, cells of the combination: chains stay together
        parts = np.moveaxis(array[:, order], 3, 2)
        return parts.reshape(m * a, draws * u, *array.shape[3:])

    mixture = StudentMixture.of(
        arranged(each.log_shares),
        arranged(each.locations[..., columns]),
        arranged(each.scales[..., columns[:, None], columns]),
        arranged(each.dfs),
        gcd(chains, MOST_GROUPS) if chains else 1,
    )
    log_weights = np.full((m, draws), -np.log(draws))
    if weighed and chains:
        parts = mixture.take(np.arange(m) * a + true).log_parts(truth[:, None])[..., 0]
        at_truth = log_sum_exp(parts.reshape(m, draws, u), axis=2)
        log_weights = -at_truth - log_sum_exp(-at_truth, axis=1)[:, None]
    every = np.repeat(np.repeat(log_weights, a, axis=0), u, axis=1)
    return replace(mixture, log_weights=mixture.log_weights + every), log_weights


# What released values tell of the draws they came from: rounded and limited, these are known within bounds.


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
    noticed = []
    for each in datasets:
        with np.errstate(invalid="ignore"):  # gaps
            matters = each.bounded & ((each.high - each.low) ** 2 / 12 > noticeable)
        low, high = np.where(matters, each.low, each.values), np.where(matters, each.high, each.values)
        noticed.append(IncompleteRecords(each.codes, each.values, each.covariates, low, high))
    return noticed


def before_limits(release: Release, whole: LocationModel) -> Release:
    """Return a release with one draw of what its limited and coarsely rounded values may have been before.

    Drawn given the whole table (`whole`: the mechanism's model with it) and all released values: so the draws
    themselves are distributed, and to judge them is to let the adversary see somewhat more than was released. All
    attacks take it that have a closed form; `GapAdversary` averages over many such draws instead, and is exact.
    """
    mechanism = release.mechanism
    if not release.datasets or release.as_drawn or not release.schema.is_limited:
        return release
    drawn = redrawn([mechanism.as_drawn(each) for each in release.datasets], whole)
    places = [mechanism.columns.index(name) for name in mechanism.measurements]
    values = [each.values.copy() for each in release.datasets]
    for every, some in zip(values, drawn, strict=True):
        every[:, places] = some
    return release.as_if_drawn(values)


def redrawn(datasets: Sequence[IncompleteRecords], whole: LocationModel) -> list[Float[np.ndarray, "_ p"]]:
    """Draw once what the values of datasets were before limits and rounding; `whole`: the model with the table."""
    noticed = noticed_bounds(datasets, spread_given_others(whole))
    streams = np.random.default_rng(0).spawn(len(noticed))

    def draw(number: int) -> Float[np.ndarray, "n p"]:
        return augment(noticed[number], whole, streams[number]).tables[0].values

    return in_parallel(draw, range(len(noticed)))


# The attack where values are missing, or known within bounds: predictives averaged over draws of these values.


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
        drawn = augment(whole, prior, rng, chains=chains, draws=draws)
        chains = drawn.convergence.chains if drawn.missing else 1
        by_chain = np.arange(chains * (draws if drawn.missing else 1)).reshape(-1, chains).T.ravel()
        tables = drawn.first_tables(len(records))
        models = (drawn.posteriors[at] for at in by_chain)
        return cls(tuple(models), tuple(tables[at] for at in by_chain), chains, drawn.words)


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
    ) -> "GapAdversary":
        """Draw what is not known given the table, and given it and each dataset."""
        if not len(datasets) and parameters is None:
            raise InputError("nothing was released: give datasets or parameters")
        streams = rng.spawn(2 + len(datasets))
        before = FilledTable.of(records, prior, streams[0], chains=chains, draws=draws)
        seen = noticed_bounds(datasets, spread_given_others(before.models[0]))

        def fill(number: int) -> FilledTable:
            return FilledTable.of(records, prior, streams[1 + number], seen[number], chains=chains, draws=draws)

        mine = None if own is None else FilledTable.of(records, own, streams[-1], chains=chains, draws=draws)
        after = in_parallel(fill, range(len(seen)))
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

    def alike(self, rows: Int[np.ndarray, " m"]) -> list[Int[np.ndarray, " _"]]:
        """Split rows by which of the releases were made from them."""
        ends = sorted({end for part in self.rest for end in (part.start, part.start + len(part.records))})
        which = np.searchsorted(ends, rows, side="right")
        return [rows[which == each] for each in np.unique(which)]

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
