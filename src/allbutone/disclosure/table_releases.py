"""Simulated releases of a very table: drawn as sufficient statistics, and judged by the rule."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.build import from_parameters, from_updated, together, with_another_prior
from allbutone.adversary.gaps import FilledTable, GapAdversary, noticed_bounds, spread_given_others
from allbutone.adversary.integrate import Intervals, estimated_within, integrate
from allbutone.adversary.leave_one_out import UpdatedModels, WholeTable
from allbutone.adversary.log_quadratic import LogQuadratic, stacked
from allbutone.adversary.membership import evidence_in_cells
from allbutone.adversary.mixed import CellIntegrals, MixedLeaveOneOut, cell_beliefs, log_density_without
from allbutone.adversary.modes import find_modes
from allbutone.adversary.one_value import Nearness, value_beliefs
from allbutone.adversary.proposal import Points
from allbutone.disclosure.draw_loss import DrawLoss
from allbutone.disclosure.gap_risk import pattern_chances, risk_with_gaps
from allbutone.disclosure.measures import prior_probability
from allbutone.disclosure.rule import MEMBERSHIP, USUAL, Rule
from allbutone.model.incomplete import GapPatterns, IncompleteRecords
from allbutone.model.location import LocationModel, MixedRecords, Parameters, Regression
from allbutone.model.moments import Cells, Moments
from allbutone.model.niw import NIW
from allbutone.releases.mechanism import KEEP_GAPS, Mechanism
from allbutone.releases.sampling import draw_tables
from allbutone.releases.statistics import ParameterStatistics
from allbutone.support.arrays import half_log_det, log_sum_exp, solve_rows
from allbutone.support.parallel import in_parallel
from allbutone.tables.records import Records

# Sufficient statistics of simulated releases of a very table, drawn without a record of theirs.
#
# Given the whole table, with R of the precision K = RᵀR of the effects and C the root of the scale, a draw is Σ =
# FFᵀ, (FFᵀ)⁻¹ ~ W(ν, I), and B = R⁻¹NFᵀ, N normal, in coordinates of the table: off its effects, in units of C. A
# dataset is its compressed design Z (a row √n·z for each cell) with outcomes Y = ZB + N′Fᵀ, and what its records
# scatter within the rows of the design, F·W(n − rows of it, I)·Fᵀ. With A = ZR⁻¹, given the table and the dataset
#
#     K′ = Rᵀ(I + AᵀA)R,   R·B′ = (I + AᵀA)⁻¹AᵀY,   Λ′ = I + Yᵀ(I + AAᵀ)⁻¹Y + within,   ν′ = ν + n.
#
# Separate cells are as many regressions on 1, and a table of measurements alone is one cell.


BLOCK = 16  # datasets whose random numbers are drawn together
MANY_DRAWS = 2048  # of parameters, of which only the sums are drawn


@dataclass(frozen=True, eq=False)
class DrawnParameters:
    """Draws of the parameters: `shares` of the cells, and of each regression L (`root`) and N (`noise`)."""

    shares: Float[np.ndarray, "k cells"]
    root: Float[np.ndarray, "k own p p"]
    noise: Float[np.ndarray, "k own r p"]
    draws: int  # that they stand for: more than their number where one holds the sums

    def __len__(self) -> int:
        """Return how many are held."""
        return len(self.root)

    def of(self, own: int, points: Float[np.ndarray, "g r"]) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of precisions and of pulls at some points R⁻ᵀz of a regression: LLᵀ and LNᵀ(R⁻ᵀz)."""
        root, noise = self.root[:, own], self.noise[:, own]
        return np.sum(root @ root.mT, axis=0), points @ np.sum(noise @ root.mT, axis=0)


@dataclass(frozen=True, eq=False)
class DrawnDatasets:
    """Datasets by their statistics, in the table's coordinates, for each regression: one, or one a cell.

    counts: of each cell. design: A, of q rows. outcomes: Y. within: the scatter about the design's rows.
    """

    counts: Int[np.ndarray, "k cells"]
    rows: Float[np.ndarray, "k own"]
    design: Float[np.ndarray, "k own q r"]
    outcomes: Float[np.ndarray, "k own q p"]
    within: Float[np.ndarray, "k own p p"]

    def __len__(self) -> int:
        """Return their number."""
        return len(self.counts)

    @cached_property
    def inner(self) -> Float[np.ndarray, "k own r r"]:
        """(I + AᵀA)⁻¹: what is left of the effects' variance."""
        return np.linalg.inv(np.eye(self.design.shape[-1]) + self.design.mT @ self.design)

    @cached_property
    def effects(self) -> Float[np.ndarray, "k own r p"]:
        """R·B′: the effects given the table and the dataset."""
        return self.inner @ (self.design.mT @ self.outcomes)

    @cached_property
    def scale(self) -> Float[np.ndarray, "k own p p"]:
        """Λ′; Yᵀ(I + AAᵀ)⁻¹Y is Yᵀ(Y − A·RB′)."""
        fitted = self.outcomes - self.design @ self.effects
        between = self.outcomes.mT @ fitted
        return np.eye(between.shape[-1]) + (between + between.mT) / 2 + self.within

    def at(
        self, own: int, point: Float[np.ndarray, " r"]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return mean weight, location, scale and rows of the models at a point R⁻ᵀz of a regression."""
        spread = np.einsum("r,krs,s->k", point, self.inner[:, own], point)
        return 1 / spread, point @ self.effects[:, own], self.scale[:, own], self.rows[:, own]


@dataclass(frozen=True, eq=False)
class TableDraws:
    """What draws releases from the model of a whole table.

    kept: for each record the levels that a dataset keeps (−1: drawn); None where nothing is kept. known: the
    covariates that it keeps.
    """

    whole: LocationModel
    rows: int | None
    kept: Int[np.ndarray, "n q"] | None = None
    known: Float[np.ndarray, "n s"] | None = None

    @cached_property
    def regressions(self) -> list[Regression]:
        """The model of the measurements: one regression, or one for each separate cell."""
        measured = self.whole.measured
        if isinstance(measured, Regression):
            return [measured]
        each = self.whole.at(np.arange(self.whole.cells.count), np.zeros((self.whole.cells.count, 0)))
        weight, df = (
            np.broadcast_to(np.asarray(x, dtype=float), len(each.mean)) for x in (each.mean_weight, each.df)
        )
        return [
            Regression(mean[None], np.atleast_2d(np.sqrt(k)), float(nu), scale)
            for mean, k, nu, scale in zip(np.asarray(each.mean), weight, df, np.asarray(each.scale), strict=True)
        ]

    @cached_property
    def roots(self) -> Float[np.ndarray, "own p p"]:
        """The roots of the regressions' scales: units of the coordinates."""
        return np.linalg.cholesky(np.stack([np.asarray(each.scale) for each in self.regressions]))

    def points(self, cells: Int[np.ndarray, " m"], known: Float[np.ndarray, "m s"]) -> Float[np.ndarray, "m r"]:
        """Return R⁻ᵀz of records of these cells and covariates, in the regression of each."""
        if self.whole.is_separate:
            return 1 / np.stack([each.root[0] for each in self.regressions])[cells]
        return np.linalg.solve(self.regressions[0].root.T, self.whole.coded(cells, known).T).T

    def own(self, cells: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """Return the regression of records of these cells."""
        return cells if self.whole.is_separate else np.zeros_like(cells)

    def parameters(self, count: int, rng: np.random.Generator) -> DrawnParameters:
        """Draw so many parameters; of very many only what is needed of their sums."""
        if count > MANY_DRAWS and self.whole.cells.count == 1:
            # sums of W(ν, I) are W(count·ν, I), and ΣLNᵀ given them normal
            root = _triangles(rng, self._freedom + (count - 1) * self.regressions[0].df)[None]
            noise = rng.standard_normal((1, 1, self._terms, self.whole.p))
            return DrawnParameters(np.ones((1, 1)), root, noise, count)
        parts = [self._block(rng) for _ in range(-(-count // BLOCK))]  # a longer release begins with a shorter one
        shares, root, noise = (np.concatenate(each)[:count] for each in zip(*parts, strict=True))
        return DrawnParameters(shares, root, noise, count)

    def datasets(self, count: int, rng: np.random.Generator) -> DrawnDatasets:
        """Draw so many datasets."""
        parts = [self._datasets(*self._block(rng), rng) for _ in range(-(-count // BLOCK))]
        return DrawnDatasets(*(np.concatenate(each)[:count] for each in zip(*parts, strict=True)))

    @property
    def _terms(self) -> int:
        return int(self.regressions[0].root.shape[0])

    @cached_property
    def _freedom(self) -> Float[np.ndarray, "own p"]:
        return np.array([each.df for each in self.regressions])[:, None] - np.arange(float(self.whole.p))

    def _block(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw shares, L and N of a block of parameters."""
        shares = rng.dirichlet(self.whole.weights, BLOCK)
        root = _triangles(rng, np.broadcast_to(self._freedom, (BLOCK, *self._freedom.shape)))
        return shares, root, rng.standard_normal((*root.shape[:2], self._terms, self.whole.p))

    def _datasets(
        self, shares: np.ndarray, root: np.ndarray, noise: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, ...]:
        """Draw datasets given parameters."""
        counts = self._counts(shares, rng)
        design, full = self._design(counts)
        # n rows of which the design takes one a row that is not empty
        rows = (
            counts.astype(float) if self.whole.is_separate else np.sum(counts, axis=1, keepdims=True).astype(float)
        )
        left = rows - np.sum(full, axis=-1)
        spread = np.linalg.inv(root).mT
        white = rng.standard_normal((*design.shape[:3], self.whole.p)) * full[..., None]
        outcomes = (design @ noise + white) @ spread.mT
        half = spread @ _triangles(rng, left[..., None] - np.arange(float(self.whole.p)))
        return counts, rows, design, outcomes, half @ half.mT

    def _design(self, counts: Int[np.ndarray, "b cells"]) -> tuple[np.ndarray, np.ndarray]:
        """Return A = ZR⁻¹ of each dataset, and which of its rows are not empty."""
        cells = np.arange(self.whole.cells.count)
        if self.whole.covariates:  # then all levels are kept, too, and the design is the table's own
            assert self.kept is not None
            assert self.known is not None
            coded = self.points(self.whole.cells.of_codes(self.kept), self.known)
            one = np.asarray(np.linalg.qr(coded, mode="r"))
            return np.broadcast_to(one, (len(counts), 1, *one.shape)), np.ones(
                (len(counts), 1, len(one)), dtype=bool
            )
        points = self.points(cells, np.zeros((len(cells), 0)))
        rows = np.sqrt(counts)[..., None] * points
        if self.whole.is_separate:
            return rows[:, :, None, :], (counts > 0)[:, :, None]
        return rows[:, None], (counts > 0)[:, None]

    @cached_property
    def _kept_groups(self) -> list[tuple[int, np.ndarray]]:
        """How many people keep the same levels, and the cells that these leave."""
        assert self.kept is not None
        patterns, many = np.unique(self.kept, axis=0, return_counts=True)
        cells = [np.flatnonzero(self.whole.cells.agree_with(pattern)) for pattern in patterns]
        return list(zip(many.tolist(), cells, strict=True))

    def _counts(
        self, shares: Float[np.ndarray, "b cells"], rng: np.random.Generator
    ) -> Int[np.ndarray, "b cells"]:
        """Draw how many records of each dataset are in each cell, given what is kept of people."""
        if self.kept is None:
            assert self.rows is not None
            return rng.multinomial(self.rows, shares)
        counts = np.zeros(shares.shape, dtype=np.int64)
        for many, cells in self._kept_groups:
            some = shares[:, cells]
            counts[:, cells] += rng.multinomial(many, some / some.sum(axis=1, keepdims=True))
        return counts

    def moments(self, drawn: DrawnDatasets) -> list[Moments]:
        """Return each dataset as the moments of its cells; scatter that cells share is the fullest one's."""
        cells = np.arange(self.whole.cells.count)
        own = self.own(cells)
        centre = np.asarray(self.whole.at(cells, np.zeros((len(cells), 0))).mean)
        found = []
        for number, counts in enumerate(drawn.counts):
            white = drawn.outcomes[number].reshape(len(cells), -1) / np.sqrt(np.maximum(counts, 1))[:, None]
            mean = np.where(counts[:, None] > 0, centre + np.einsum("cpq,cq->cp", self.roots[own], white), 0.0)
            scatter = np.zeros((len(cells), self.whole.p, self.whole.p))
            within = self.roots @ drawn.within[number] @ self.roots.mT
            if self.whole.is_separate:
                scatter[:] = within
            else:
                scatter[int(np.argmax(counts))] = within[0]
            found.append(Moments(counts.astype(float), mean, scatter))
        return found

    def as_parameters(self, drawn: DrawnParameters) -> Parameters:
        """Return draws of the parameters in the table's units."""
        spread = self.roots @ np.linalg.inv(drawn.root).mT  # CF
        ends = np.stack([np.asarray(each.root) for each in self.regressions])
        effects = np.linalg.solve(ends, drawn.noise) @ spread.mT
        middle = np.stack([np.asarray(each.coefficients) for each in self.regressions])
        coefficients = (middle + effects).reshape(len(drawn.shares), -1, self.whole.p)
        return Parameters(drawn.shares, coefficients, spread @ spread.mT)


def _triangles(rng: np.random.Generator, df: Float[np.ndarray, "*batch p"]) -> Float[np.ndarray, "*batch p p"]:
    """Draw lower triangles by Bartlett; with fewer degrees of freedom than p, only so many columns are not 0."""
    p = df.shape[-1]
    found = np.tril(rng.standard_normal((*df.shape, p)), -1) * (df > 0)[..., None, :]
    found[..., range(p), range(p)] = np.sqrt(rng.chisquare(np.maximum(df, 1e-300)) * (df > 0))
    return found


# How many datasets leave every category unfound: the counts of simulated releases, all people at once.


COUNTED_RELEASES = 400
MOST_WITH_CATEGORIES = 200  # datasets


@dataclass(frozen=True, eq=False)
class CountedCells:
    """What the adversaries see of the categories: weights of the cells, and which cells are judged together.

    weights: α_c and the number of people there. people: that number. groups: cells that agree in what the
    adversary knows of a record have one number. judged: the categories that are not known.
    """

    cells: Cells
    weights: Float[np.ndarray, " cells"]
    people: Float[np.ndarray, " cells"]
    groups: Int[np.ndarray, " cells"]
    judged: tuple[int, ...]

    @classmethod
    def of(
        cls,
        cells: Cells,
        weights: Float[np.ndarray, " cells"],
        people: Float[np.ndarray, " cells"],
        known: tuple[int, ...],
        public: tuple[int, ...] = (),
    ) -> "CountedCells":
        """Group the cells by the categories that are known; those that are public are not judged."""
        _, groups = np.unique(cells.codes[:, list(known)], axis=0, return_inverse=True)
        unknown = (place for place in range(len(cells.sizes)) if place not in (*known, *public))
        judged = tuple(place for place in unknown if cells.sizes[place] > 1)
        return cls(
            cells, weights, people, np.asarray(groups).ravel() if known else np.zeros(cells.count, int), judged
        )

    def level_shares(
        self, all_in: Float[np.ndarray, "r cells"], without: Float[np.ndarray, "r cells"]
    ) -> Float[np.ndarray, "r cells q"]:
        """Return, for each release and a person of each cell, the probability of the own level of each category.

        `all_in`, `without`: log odds of each cell for a person who is in another, and who is in that cell. So the
        probability of a level is the sum over its cells, own cell exchanged, over the sum of the group's. It is 0
        in a cell where nobody is.
        """
        here = self.people > 0
        highest = _over(np.maximum, all_in, self.groups)  # of each group: others may be out of its numbers' range
        highest = np.where(np.isfinite(highest), highest, 0.0)
        top = np.maximum(highest, without)
        ours, own, scale = np.exp(all_in - highest), np.exp(without - top), np.exp(highest - top)
        total = np.where(here, (_over(np.add, ours, self.groups) - ours) * scale + own, 1.0)
        found = []
        for category in self.judged:
            level = self.groups * self.cells.sizes[category] + self.cells.codes[:, category]
            found.append(((_over(np.add, ours, level) - ours) * scale + own) / total * here)
        return np.stack(found, axis=-1)


def _over(
    what: np.ufunc, values: Float[np.ndarray, "r cells"], groups: Int[np.ndarray, " cells"]
) -> Float[np.ndarray, "r cells"]:
    """Return, for each cell, the sum or the maximum over its group."""
    order = np.argsort(groups, kind="stable")
    _, first, which = np.unique(groups[order], return_index=True, return_inverse=True)
    found = what.reduceat(values[:, order], first, axis=1)
    back = np.empty_like(order)
    back[order] = which
    return found[:, back]


def category_chances(
    counted: CountedCells,
    rows: int | None,
    rng: np.random.Generator,
    rule: Rule = USUAL,
    most: int = MOST_WITH_CATEGORIES,
    replicates: int = COUNTED_RELEASES,
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k cells"]]:
    """Return the chance that any category of anyone is found, after 1, 2, … datasets, and of each cell's people.

    `rows` a dataset, or None for draws of the parameters. It ends where more than half of the releases find one.
    What the measurements say of a person's cell is left out here: a few exact attacks on releases show that.
    """
    weights, full = counted.weights, counted.people > 0
    less = np.where(full, weights - 1, weights)
    baseline = counted.level_shares(np.log(weights)[None], np.log(less)[None])[0]
    all_in, without = (np.tile(np.log(each), (replicates, 1)) for each in (weights, less))
    anyone, each = [], []
    for _ in range(most):
        shares = rng.dirichlet(weights, size=replicates)
        seen = None if rows is None else rng.multinomial(rows, shares)
        for odds, base in ((all_in, weights), (without, less)):
            with np.errstate(divide="ignore"):
                odds += np.log(shares if seen is None else base + seen) - np.log(base)
        passed = np.any(rule.discloses(counted.level_shares(all_in, without), baseline), axis=-1)
        anyone.append(float(np.mean(np.any(passed, axis=1))))
        each.append(np.mean(passed, axis=0))
        if anyone[-1] > 0.5:
            break
    return np.array(anyone), np.array(each)


# Simulated releases of a very table: drawn by their statistics, and judged by the rule for people of the table.
#
# For each record the posterior of its measurements, in its own cell, is that of `downdates`: without the record
# the model at its cell is a rank-one downdate, in the table's coordinates, whatever the kind of table. Its
# categories are looked at where the counts of the cells go a good part of the way.


SCREEN = 0.7  # of the rule's probability: what is estimated below that is not integrated
LIKELY = 0.5  # of the rule's probability: whose level the counts alone give less than that is not integrated
POINTS, REPLICATES = 256, 2  # of the integrals: their own noise is far below that between releases
AT_ONCE = 1 << 22  # numbers in the wells that are held at a time

Drawn = DrawnDatasets | DrawnParameters
KINDS = ("measurements", "categories", MEMBERSHIP)  # of what can be disclosed of a person


@dataclass(frozen=True, eq=False)
class TableReleases:
    """Releases of one table, simulated beside those that were made earlier, and what they are judged by.

    `everyone`: all that the attacks share, earlier releases in it, if any, and the adversary's own prior. `near`:
    what counts as knowing a measurement. `rows` a dataset, None for parameters. `seed`: dataset number d of
    release number r has the same random numbers for any count, so that the first k datasets of a longer release
    are a release of k. `known`: measurements, and categories, that the adversary knows of everybody (positions);
    kept ones belong there. nearness: what counts as knowing a value for who knows all others of the person, where
    that is judged, too; membership: whether that is. public: categories that are not secret. outside: what people
    outside can know, measurements and categories, where a second adversary knows just that.
    """

    everyone: MixedLeaveOneOut
    mechanism: Mechanism
    rows: int | None
    near: Intervals
    rule: Rule
    seed: int
    known: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    nearness: Nearness | None = None
    membership: bool = False
    public: tuple[int, ...] = ()
    outside: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def informed(self) -> "TableReleases | None":
        """The same releases, judged by who knows what people outside can know."""
        if self.outside is None:
            return None
        return replace(self, known=self.outside, nearness=None, membership=False, outside=None)

    @cached_property
    def draws(self) -> TableDraws:
        """What draws the releases."""
        everyone, mechanism = self.everyone, self.mechanism
        if not mechanism.keep:
            return TableDraws(everyone.whole, self.rows)
        kept = everyone.whole.cells.codes[everyone.records.cells].copy()
        kept[:, [place for place in range(kept.shape[1]) if place not in mechanism.kept_categories]] = -1
        return TableDraws(everyone.whole, self.rows, kept, everyone.records.covariates)

    def draw(self, count: int, release: int) -> Drawn:
        """Draw the statistics of a release."""
        rng = np.random.default_rng([self.seed, release])
        return self.draws.parameters(count, rng) if self.rows is None else self.draws.datasets(count, rng)

    def discloses(
        self, count: int, people: Int[np.ndarray, " m"], releases: Sequence[int]
    ) -> Bool[np.ndarray, "r m"]:
        """Say which of these people each of these releases of `count` discloses."""
        return np.asarray(self.by_kind(count, people, releases, all_of_them=False).any(axis=2))

    def by_kind(
        self, count: int, people: Int[np.ndarray, " m"], releases: Sequence[int], all_of_them: bool = True
    ) -> Bool[np.ndarray, "r m 3"]:
        """Say the same of their measurements, of their categories and of their membership apart.

        If not `all_of_them` are wanted, measurements are looked at where nothing else is disclosed.
        """
        blocks = self._blocks(count, len(people), releases)
        flags = np.zeros((len(releases), len(people), len(KINDS)), dtype=bool)
        for some, rest in self._alike(people):
            judge = partial(self._judged, _People.of(self, people[some], rest), count, all_of_them)
            flags[:, some] = np.concatenate(in_parallel(judge, blocks))
        return (
            flags if self.informed is None else flags | self.informed.by_kind(count, people, releases, all_of_them)
        )

    def losses(
        self, count: int, people: Int[np.ndarray, " m"], releases: Sequence[int]
    ) -> Float[np.ndarray, "r m"]:
        """Return what each of these releases of `count` says for these people's membership."""
        some = _People.of(self, people)

        def judged(block: Sequence[int]) -> Float[np.ndarray, "b m"]:
            every = [self.draw(count, release) for release in block]
            return some.evidence(every, some.as_they_are.told(every)[..., 0])

        return np.concatenate(in_parallel(judged, self._blocks(count, len(people), releases)))

    def _blocks(self, count: int, people: int, releases: Sequence[int]) -> list[Sequence[int]]:
        """Split releases such that the wells of so many people in each part can be held."""
        p, wells = self.everyone.whole.p, 1 if self.rows is None else count
        many = max(1, AT_ONCE // (people * wells * p * p))
        return [releases[at : at + many] for at in range(0, len(releases), many)]

    def _alike(self, people: Int[np.ndarray, " m"]) -> list[tuple[np.ndarray, tuple[MixedLeaveOneOut, ...]]]:
        """Split people by which of the earlier releases were made from them."""
        rest = self.everyone.rest
        if not rest:
            return [(np.arange(len(people)), ())]
        within = np.stack([part.places_of(people)[1] for part in rest], axis=1)
        kinds, which = np.unique(within, axis=0, return_inverse=True)
        parts = [tuple(part for part, inside in zip(rest, kind, strict=True) if inside) for kind in kinds]
        return [(np.flatnonzero(which.ravel() == number), part) for number, part in enumerate(parts)]

    def _judged(
        self, people: "_People", count: int, all_of_them: bool, releases: Sequence[int]
    ) -> Bool[np.ndarray, "r m 3"]:
        every = [self.draw(count, release) for release in releases]
        flags = np.zeros((len(every), len(people.places), len(KINDS)), dtype=bool)
        alone = people.counted is not None and self.nearness is not None
        if alone or self.membership:
            told = people.as_they_are.told(every)
            if alone:
                flags[:, :, 1] = people.as_they_are.finds_levels(told)
            if self.membership:
                member = self.rule.membership_of(people.evidence(every, told[..., 0]))
                flags[:, :, 2] = self.rule.discloses_membership(member)
        if people.counted is not None:
            for number, (drawn, release) in enumerate(zip(every, releases, strict=True)):
                flags[number, :, 1] |= self._finds_categories(people, drawn, release, ~flags[number, :, 1])
        asked = np.full(flags.shape[:2], people.measured)
        if not all_of_them:
            asked &= ~flags.any(axis=2)
        if np.any(asked):
            flags[:, :, 0] = self._finds_measurements(people, every, asked)
        return flags

    def _finds_measurements(
        self, people: "_People", every: list[Drawn], asked: Bool[np.ndarray, "r m"]
    ) -> Bool[np.ndarray, "r m"]:
        """Say of whom, among those asked for, a measurement is disclosed: to who lacks the record, or it."""
        asked = asked[:, people.order]
        problem = stacked(
            [people.posteriors(drawn, some) for drawn, some in zip(every, asked, strict=True) if np.any(some)]
        )
        known, (release, who) = self.known[0], np.nonzero(asked)
        places = people.places[people.order][who]
        unknown = [place for place in range(problem.p) if place not in known]
        near = self.near.take(places, unknown)
        flags = np.zeros(len(places), dtype=bool)
        if self.nearness is not None:
            own = people.before
            alone = value_beliefs(
                problem,
                self.everyone.records.values[places],
                self.nearness.take(places, unknown),
                None if own is None else own.take(who),
            )
            flags |= np.any(self.rule.discloses(alone.probability, alone.baseline), axis=1)
        if known:
            problem = problem.given(known, self.everyone.records.values[places][:, list(known)])
        modes = find_modes(problem)
        judged = (near.low > -np.inf) | (near.high < np.inf)  # else any value would count as known
        estimated = np.where(judged, estimated_within(problem, modes, near), 0.0)
        likely = np.max(estimated, axis=1) >= SCREEN * self.rule.probability
        (chosen,) = np.nonzero((likely | ~np.isfinite(modes.value)) & ~flags)
        if len(chosen):
            some, around = problem.take(chosen), near.take(chosen)
            found = integrate(some, modes.take(chosen), None, Points(), POINTS, REPLICATES, around)
            baseline = people.baselines
            before = prior_probability(some, around) if baseline is None else baseline[who[chosen]]
            flags[chosen] = np.any(self.rule.discloses(found.within, before), axis=1)
        disclosed = np.zeros(asked.shape, dtype=bool)
        disclosed[release, people.order[who]] = flags
        return disclosed

    def _finds_categories(
        self, people: "_People", drawn: Drawn, release: int, asked: Bool[np.ndarray, " m"]
    ) -> Bool[np.ndarray, " m"]:
        """Say whose level of any category is disclosed to who lacks the record: integrated where likely."""
        found = np.zeros(len(people.places), dtype=bool)
        (places,) = np.nonzero(asked & people.likely_by_counts(drawn))
        if not len(places):
            return found
        few = people.alone
        if isinstance(drawn, DrawnParameters):
            both = [*([] if few.parameters is None else [few.parameters]), self.draws.as_parameters(drawn)]
            names = Parameters.__dataclass_fields__
            joined = Parameters(*(np.concatenate([getattr(one, name) for one in both]) for name in names))
            after = replace(few, parameters=joined)
        else:
            datasets = self.draws.moments(drawn)
            updated = tuple(few.whole.plus(data) for data in datasets)
            after = replace(few, datasets=(*few.datasets, *datasets), after=(*few.after, *updated))
        points = Points.of(np.random.default_rng([self.seed, release]))
        assert people.counted is not None
        beliefs = cell_beliefs(CellIntegrals.of(after, points, self.known[0]), places, self.known[1])
        levels = [beliefs.of_true_level(category) for category in people.counted.judged]
        found[places] = np.any([self.rule.discloses(share, base) for share, _, base in levels], axis=0)
        return found


@dataclass(frozen=True, eq=False)
class _Pairs:
    """People, each in a cell that they could be in, by one regression: their own and others in one category.

    `person`, `column`: whose, and the number of the cell among theirs. `points`: R⁻ᵀz there; `white`: the record
    in the regression's coordinates. `own`: which of the pairs is the person in the own cell; `knows`: whether the
    regression knows the person.
    """

    regression: int
    person: Int[np.ndarray, " n"]
    column: Int[np.ndarray, " n"]
    points: Float[np.ndarray, "n r"]
    white: Float[np.ndarray, "n p"]
    own: Int[np.ndarray, " n"]
    knows: Float[np.ndarray, " n"]

    def log_density(
        self,
        df: Float[np.ndarray, "k 1"],
        inner: Float[np.ndarray, "k r r"],
        effects: Float[np.ndarray, "k r p"],
        scale: Float[np.ndarray, "k p p"],
    ) -> Float[np.ndarray, "k n"]:
        """Return log t of each record in its cell by models that know it, without it: ν′, (I + AᵀA)⁻¹, RB′, Λ′."""
        root = np.linalg.cholesky(scale)
        away = (self.white - self.points @ effects) @ np.linalg.inv(root).mT
        turned = self.points @ inner
        mine = self.knows[:, None] * away[:, self.own]

        spread = np.sum(turned * self.points, axis=-1)
        return log_density_without(
            df + 1 - self.knows,
            self.white.shape[1],
            half_log_det(root)[:, None],
            (self.knows * spread[:, self.own], np.vecdot(mine, mine)),
            (spread, np.vecdot(away, away)),
            (self.knows * np.sum(turned * self.points[self.own], axis=-1), np.vecdot(mine, away)),
        )

    @staticmethod
    def of(draws: TableDraws, records: MixedRecords, cells: Int[np.ndarray, "m c"]) -> "list[_Pairs]":
        """Bring records into the coordinates of each regression, in every one of their cells."""
        person, column = (each.ravel() for each in np.indices(cells.shape))
        flat, known = cells.ravel(), records.covariates[person]
        points, own = draws.points(flat, known), draws.own(flat)
        away = records.values[person] - np.asarray(draws.whole.at(flat, known).mean)
        found = []
        for number in np.unique(own):
            (here,) = np.nonzero(own == number)
            place = np.zeros(len(cells), dtype=int)  # of each person's own cell among these, if it is
            place[person[here][column[here] == 0]] = np.flatnonzero(column[here] == 0)
            knows = np.ones(len(here)) if not draws.whole.is_separate else (column[here] == 0).astype(float)
            white = solve_rows(draws.roots[number], away[here])
            found.append(
                _Pairs(int(number), person[here], column[here], points[here], white, place[person[here]], knows)
            )
        return found


@dataclass(frozen=True, eq=False)
class _AsTheyAre:
    """What releases say of people's records as they are, in the own cell and in those that differ in one category.

    All is closed, and all releases are looked at together. `cells`: the own one of each person first; `category`:
    in which each of the others differs. `odds`: the log odds of the cells before any release, and with the earlier
    ones, what is known of the measurements in it.
    """

    releases: TableReleases
    cells: Int[np.ndarray, "m c"]
    category: Int[np.ndarray, " c"]
    pairs: list[_Pairs]
    odds: tuple[Float[np.ndarray, "m c"], Float[np.ndarray, "m c"]]

    @classmethod
    def of(cls, releases: TableReleases, places: Int[np.ndarray, " m"], judged: Sequence[int]) -> "_AsTheyAre":
        """Look at some people, of whom these categories are judged."""
        everyone, table = releases.everyone, releases.everyone.whole.cells
        codes = table.codes[everyone.records.cells[places]]
        every, category = [codes], [-1]
        for place in judged:
            for step in range(1, table.sizes[place]):
                other = codes.copy()
                other[:, place] = (other[:, place] + step) % table.sizes[place]
                every.append(other)
                category.append(place)
        cells = table.of_codes(np.stack(every, axis=1))
        pairs = _Pairs.of(releases.draws, everyone.records.take(places), cells)
        odds: list[np.ndarray] = []
        if judged:
            rows = np.repeat(places, cells.shape[1])
            measured = everyone.log_density(rows, cells.ravel())
            for counts, density in zip(everyone.log_cell_odds(places), measured, strict=True):
                odds.append(np.take_along_axis(counts, cells, axis=1) + density.reshape(cells.shape))
        nothing = np.zeros(cells.shape)
        before, earlier = odds or (nothing, nothing)
        return cls(releases, cells, np.array(category), pairs, (before, earlier))

    @cached_property
    def without(self) -> list[Float[np.ndarray, "1 n"]]:
        """The log density of each pair by the table alone, without the person."""
        found = []
        for pairs in self.pairs:
            r, p = pairs.points.shape[1], pairs.white.shape[1]
            df = np.array([[self.releases.draws.regressions[pairs.regression].df]])
            found.append(pairs.log_density(df, np.eye(r)[None], np.zeros((1, r, p)), np.eye(p)[None]))
        return found

    @cached_property
    def weights(self) -> Float[np.ndarray, "m c"]:
        """The weight of each cell without the person."""
        return self.releases.everyone.whole.weights[self.cells] - (self.category < 0)

    def told(self, every: Sequence[Drawn]) -> Float[np.ndarray, "r m c"]:
        """Return by how much each release moves the log odds of every cell: by counts, and by measurements."""
        ends = np.cumsum([0, *map(len, every)])
        found = np.zeros((ends[-1], *self.cells.shape))
        for pairs, before in zip(self.pairs, self.without, strict=True):
            found[:, pairs.person, pairs.column] = self._densities(pairs, every) - before
        return np.add.reduceat(found + self._by_counts(every), ends[:-1], axis=0)

    def _densities(self, pairs: _Pairs, every: Sequence[Drawn]) -> Float[np.ndarray, "k n"]:
        own, df = pairs.regression, self.releases.draws.regressions[pairs.regression].df
        if self.releases.rows is None:
            root, noise = (_joined(every, name)[:, own] for name in ("root", "noise"))
            away = pairs.white @ root - pairs.points @ noise  # Lᵀx − Nᵀu: standard normal under the draw
            height = half_log_det(root) - 0.5 * root.shape[-1] * np.log(2 * np.pi)
            return np.asarray(height[:, None] - 0.5 * np.vecdot(away, away))
        rows, inner, effects, scale = (
            _joined(every, name)[:, own] for name in ("rows", "inner", "effects", "scale")
        )
        return pairs.log_density(df + rows[:, None], inner, effects, scale)

    def _by_counts(self, every: Sequence[Drawn]) -> Float[np.ndarray, "k m c"]:
        if self.releases.rows is not None:
            return np.log1p(_joined(every, "counts")[:, self.cells] / self.weights)
        with np.errstate(divide="ignore"):  # a share can be drawn as 0
            return np.log(_joined(every, "shares"))[:, self.cells] - np.log(self.weights)

    def finds_levels(self, told: Float[np.ndarray, "r m c"]) -> Bool[np.ndarray, "r m"]:
        """Say whose level of any category is disclosed to who knows all else of the person."""
        before, earlier = self.odds
        after, found = earlier + told, np.zeros(told.shape[:2], dtype=bool)
        for place in np.unique(self.category[1:]):
            alike = (self.category == place) | (self.category < 0)
            shares = [np.exp(odds[..., 0] - log_sum_exp(odds[..., alike], axis=-1)) for odds in (after, before)]
            found |= self.releases.rule.discloses(shares[0], np.broadcast_to(shares[1], shares[0].shape))
        return found


def _joined(every: Sequence[Drawn], name: str) -> np.ndarray:
    """Return what all the releases have of something, one after the other."""
    return np.concatenate([getattr(drawn, name) for drawn in every])


@dataclass(frozen=True, eq=False)
class _Group:
    """People who share a cell and covariates: the whole table's model there, and what was released earlier.

    `own`: the number of their regression; `point`: R⁻ᵀz there. `rest`: posteriors after releases by other
    mechanisms.
    """

    people: Int[np.ndarray, " m"]
    own: int
    point: Float[np.ndarray, " r"]
    whole: NIW
    root: Float[np.ndarray, "p p"]
    own_prior: NIW | None
    targets: Float[np.ndarray, "m p"]
    white: Float[np.ndarray, "m p"]
    earlier: UpdatedModels
    parameters: ParameterStatistics
    rest: tuple[LogQuadratic, ...] = ()

    @classmethod
    def of(
        cls,
        everyone: MixedLeaveOneOut,
        draws: TableDraws,
        places: Int[np.ndarray, " m"],
    ) -> "_Group":
        """Look at some people, who share a cell and covariates."""
        some = everyone.records.take(places)
        cell, known = some.cells[:1], some.covariates[:1]
        whole, own = _one(everyone.whole.at(cell, known)), int(draws.own(cell)[0])
        root = draws.roots[own]
        return cls(
            people=places,
            own=own,
            point=draws.points(cell, known)[0],
            whole=whole,
            root=root,
            own_prior=None if everyone.own is None else _one(everyone.believed.at(cell, known)),
            targets=some.values,
            white=solve_rows(root, some.values - whole.mean),
            earlier=_updated(whole, root, [_one(model.at(cell, known)) for model in everyone.after]),
            parameters=_parameters(everyone, whole, root, cell, known),
        )

    def posteriors(
        self, drawn: Drawn | None = None, asked: Bool[np.ndarray, " m"] | slice = slice(None)
    ) -> LogQuadratic:
        """Return the posteriors of some people's measurements after a release, if any, and the earlier ones."""
        parameters, models = self.parameters, self.earlier
        if isinstance(drawn, DrawnParameters):
            precision, pull = drawn.of(self.own, self.point[None])
            parameters = ParameterStatistics(
                parameters.draws + drawn.draws, parameters.precision + precision, parameters.pull + pull[0]
            )
        elif drawn is not None:
            names, more = ("weight", "location", "scale", "rows"), drawn.at(self.own, self.point)
            models = UpdatedModels(
                *(np.concatenate([getattr(models, name), each]) for name, each in zip(names, more, strict=True))
            )
        released: list[Any] = []
        fitted: list[LogQuadratic] = []
        if parameters.draws:
            released.append(parameters)
            fitted.append(
                from_parameters(self.whole, self.root, parameters.draws, parameters.precision, parameters.pull)
            )
        if len(models.rows):
            released.append(models)
            fitted.append(
                from_updated(self.whole, self.root, models.weight, models.location, models.scale, models.rows)
            )
        both = len(released) > 1
        known = tuple(released) if both else released[0]
        table = WholeTable(self.whole, self.own_prior, self.root, known, together(*fitted) if both else fitted[0])
        found = table.without(self.targets[asked], self.white[asked])
        for other in self.rest:
            found = with_another_prior(found, other.take(np.arange(len(self.people))[asked]))
        return found


@dataclass(frozen=True, eq=False)
class _People:
    """Some people of a table, by groups, ready to be attacked in one release after the other.

    `measured`: whether anything of their measurements is unknown. `counted`: the cells, where categories are
    judged.
    """

    releases: TableReleases
    places: Int[np.ndarray, " m"]
    groups: tuple[_Group, ...]
    measured: bool
    counted: CountedCells | None
    rest: tuple[MixedLeaveOneOut, ...] = ()  # earlier releases by other mechanisms that were made from them

    @classmethod
    def of(
        cls, releases: TableReleases, places: Int[np.ndarray, " m"], rest: tuple[MixedLeaveOneOut, ...] = ()
    ) -> "_People":
        """Group them, and bring what was released earlier into the coordinates of each group."""
        everyone, draws = releases.everyone, releases.draws
        some = everyone.records.take(places)
        alike = np.column_stack([some.cells, some.covariates])
        _, which = np.unique(alike, axis=0, return_inverse=True)
        groups = []
        for number in range(int(np.max(which)) + 1):
            people = np.flatnonzero(which.ravel() == number)
            group = _Group.of(everyone, draws, places[people])
            parts = [_Group.of(part, TableDraws(part.whole, None), places[people] - part.start) for part in rest]
            groups.append(replace(group, people=people, rest=tuple(part.posteriors() for part in parts)))
        people = np.rint(everyone.whole.weights - everyone.prior.weights)
        counted = CountedCells.of(
            everyone.whole.cells, everyone.whole.weights, people, releases.known[1], releases.public
        )
        measured = len(releases.known[0]) < everyone.whole.p
        return cls(releases, places, tuple(groups), measured, counted if counted.judged else None, rest)

    @cached_property
    def order(self) -> Int[np.ndarray, " m"]:
        """The people as they stand group by group."""
        return np.concatenate([group.people for group in self.groups])

    @cached_property
    def before(self) -> LogQuadratic | None:
        """What an adversary with an own prior believes without a release, group by group; None for others."""
        places = self.places[self.order]
        return self.releases.everyone.problem_before(places, self.releases.everyone.records.cells[places])

    @cached_property
    def baselines(self) -> Float[np.ndarray, "m f"] | None:
        """The probabilities that follow from that."""
        everyone, known = self.releases.everyone, self.releases.known[0]
        places, problem = self.places[self.order], self.before
        if problem is None:
            return None
        near = self.releases.near.take(places, [place for place in range(problem.p) if place not in known])
        if known:
            problem = problem.given(known, everyone.records.values[places][:, list(known)])
        return integrate(problem, find_modes(problem), None, Points(), POINTS, REPLICATES, near).within

    @cached_property
    def earlier_evidence(self) -> Float[np.ndarray, " m"]:
        """What earlier releases say for each one's membership."""
        everyone = self.releases.everyone
        if not everyone.opinions and not everyone.rest:
            return np.zeros(len(self.places))
        problem = everyone.problem(self.places, everyone.records.cells[self.places])
        return evidence_in_cells(everyone, self.places, *problem)

    @cached_property
    def as_they_are(self) -> _AsTheyAre:
        """What is closed: what releases say of the records as they are."""
        judged = self.counted.judged if self.counted is not None and self.releases.nearness is not None else ()
        return _AsTheyAre.of(self.releases, self.places, judged)

    def evidence(self, every: Sequence[Drawn], told: Float[np.ndarray, "r m"]) -> Float[np.ndarray, "r m"]:
        """Return what each release, and the earlier ones, say for membership: the log likelihood ratio.

        `told`: by how much each moves the log odds of the record as it is.
        """
        total = np.sum(self.releases.everyone.whole.weights) - 1
        if isinstance(every[0], DrawnParameters):
            if every[0].draws > len(every[0].root):
                return self.earlier_evidence + np.stack([self._losses_of_many(drawn) for drawn in every])
            return self.earlier_evidence + told + every[0].draws * np.log(total)
        rows = np.stack([np.sum(drawn.counts, axis=1) for drawn in every])  # type: ignore[union-attr]
        return self.earlier_evidence + told - np.sum(np.log1p(rows / total), axis=1)[:, None]

    def _losses_of_many(self, drawn: Any) -> Float[np.ndarray, " m"]:
        """Return the evidence of very many draws, of which only the sums are known: losses add up to a normal."""
        (group,) = self.groups  # very many are drawn as sums where there is one cell
        whole = group.whole
        hat = np.sum(group.white**2, axis=-1) + 1 / whole.mean_weight
        loss = DrawLoss(whole.p, float(whole.mean_weight) - 1, float(whole.df) - 1, hat / (1 - hat))
        _, mean, variance = loss.slopes(np.ones(len(hat)))
        return drawn.draws * mean + np.sqrt(drawn.draws * variance) * float(drawn.noise.flat[0])

    def posteriors(self, drawn: Drawn, asked: Bool[np.ndarray, " m"]) -> LogQuadratic:
        """Return the posteriors of the measurements after a release and the earlier ones, group by group.

        `asked`: whose, as they stand so.
        """
        ends = np.cumsum([len(group.people) for group in self.groups])[:-1]
        some = zip(self.groups, np.split(asked, ends), strict=True)
        every = [group.posteriors(drawn, these) for group, these in some if np.any(these)]
        return every[0] if len(self.groups) == 1 else stacked([_with_own_numbers(each) for each in every])

    @cached_property
    def alone(self) -> MixedLeaveOneOut:
        """The attacks on these people alone: of the others only the moments are needed."""
        rest = tuple(_of_some(part, self.places - part.start) for part in self.rest)
        return replace(_of_some(self.releases.everyone, self.places), rest=rest)

    def likely_by_counts(self, drawn: Drawn) -> Bool[np.ndarray, " m"]:
        """Say for whom the counts of the cells alone go a good part of the way to a level's disclosure."""
        counted, everyone = self.counted, self.releases.everyone
        assert counted is not None
        if self.releases.known[0]:  # what is known of the measurements may tell the cell
            return np.ones(len(self.places), dtype=bool)
        weights = everyone.whole.weights
        less = np.where(counted.people > 0, weights - 1, weights)
        odds = []
        for base in (weights, less):
            found = (1 - everyone.opinions) * np.log(base)
            for model in everyone.after:
                found = found + np.log(model.weights - weights + base)
            with np.errstate(divide="ignore"):  # a share can be drawn as 0
                if everyone.parameters is not None:
                    found = found + np.sum(np.log(everyone.parameters.shares), axis=0)
                if isinstance(drawn, DrawnParameters):
                    found = found + np.sum(np.log(drawn.shares), axis=0) - drawn.draws * np.log(base)
                else:
                    found = found + np.sum(np.log(base + drawn.counts) - np.log(base), axis=0)
            odds.append(found)
        with_it = counted.level_shares(odds[0][None], odds[1][None])[0]
        without = counted.level_shares(np.log(weights)[None], np.log(less)[None])[0]
        doubled = with_it * (1 - without) >= np.sqrt(2) * without * (1 - with_it)  # half of the way there
        likely = np.any((with_it >= LIKELY * self.releases.rule.probability) & doubled, axis=-1)
        return np.asarray(likely[everyone.records.cells[self.places]])


def _of_some(everyone: MixedLeaveOneOut, places: Int[np.ndarray, " m"]) -> MixedLeaveOneOut:
    """Return the attacks on some of the people: the others enter by their moments."""
    prior, some = everyone.prior, everyone.records.take(places)
    others = prior.moments(everyone.records).without(prior.moments(some))
    if everyone.elsewhere is not None:
        others = others.merge(everyone.elsewhere)
    return replace(everyone, records=some, elsewhere=others, start=0)


def _one(model: NIW) -> NIW:
    """Return the only one of a batch of models."""
    weight, df = (float(np.ravel(np.asarray(each))[0]) for each in (model.mean_weight, model.df))
    scale = np.asarray(model.scale)
    return NIW(np.asarray(model.mean)[0], weight, df, scale[0] if scale.ndim == 3 else scale)


def _updated(whole: NIW, root: Float[np.ndarray, "p p"], models: Sequence[NIW]) -> UpdatedModels:
    """Bring models that know a dataset more into the coordinates of the whole table's."""
    p = whole.p
    if not models:
        return UpdatedModels(np.zeros(0), np.zeros((0, p)), np.zeros((0, p, p)), np.zeros(0))
    half = np.linalg.solve(root, np.stack([each.scale for each in models]))
    return UpdatedModels(
        np.array([each.mean_weight for each in models], dtype=float),
        solve_rows(root, np.stack([each.mean for each in models]) - whole.mean),
        np.linalg.solve(root, half.mT),
        np.array([each.df for each in models], dtype=float) - whole.df,
    )


def _parameters(
    everyone: MixedLeaveOneOut, whole: NIW, root: np.ndarray, cell: np.ndarray, known: np.ndarray
) -> ParameterStatistics:
    """Bring draws of the parameters that are out into the same coordinates."""
    p, drawn = whole.p, everyone.parameters
    if drawn is None:
        return ParameterStatistics(0, np.zeros((p, p)), np.zeros(p))
    half = np.linalg.solve(np.linalg.cholesky(drawn.covariance_at(cell)[:, 0]), root)
    away = solve_rows(root, everyone.whole.means(drawn, cell, known)[:, 0] - whole.mean)
    each = half.mT @ half
    return ParameterStatistics(len(drawn), np.sum(each, axis=0), np.einsum("kpq,kq->p", each, away))


def _with_own_numbers(problem: LogQuadratic) -> LogQuadratic:
    """Return it with numbers that groups may differ in, and shapes that one alone may share, for each target."""
    many, p = len(problem.centre), problem.p
    return replace(
        problem,
        df=np.full(many, float(problem.df)),
        outward=np.full(many, float(problem.outward)),
        inflation=np.full(many, float(problem.inflation)),
        weights=np.broadcast_to(problem.weights, (many, problem.wells)),
        precision=np.broadcast_to(problem.precision, (many, p, p)),
        pull=np.broadcast_to(problem.pull, (many, p)),
    )


# Simulated releases of a table with gaps: drawn as its synthesizer draws them, and judged by averaged posteriors.


GAP_CHAINS, GAP_DRAWS = 4, 2  # of the others' gaps: few, since releases differ by far more
GAP_POINTS = 64  # of the integrals
GAP_RELEASES, GAP_ACCEPTED = 60, 0  # were it one in twenty, none of sixty would disclose anyone in 5 cases of 100
GAP_PEOPLE = 12  # who are attacked in each


@dataclass(frozen=True, eq=False)
class GapReleases:
    """Releases of a table with gaps, simulated beside those that were made earlier, and what they are judged by.

    `near`, `rule`, `rows`, `seed`, `known`, `public` and `outside` are those of `TableReleases`. Limits and
    rounding are those of the released tables, and which values a record lacks is judged, too, where synthetic
    tables have gaps of their own.
    """

    records: Records
    mechanism: Mechanism
    rows: int | None
    near: Intervals
    rule: Rule
    seed: int
    known: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    nearness: Nearness | None = None
    membership: bool = False
    public: tuple[int, ...] = ()
    outside: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    earlier: tuple[Records, ...] = ()
    parameters: Parameters | None = None

    @cached_property
    def table(self) -> IncompleteRecords:
        """The table as the model sees it."""
        return self.mechanism.incomplete(self.records)

    @cached_property
    def before(self) -> FilledTable:
        """Draws of the table's gaps given the table alone."""
        rng = np.random.default_rng([self.seed, 0])
        return FilledTable.of(self.table, self.mechanism.prior, rng, chains=GAP_CHAINS, draws=GAP_DRAWS)

    def draw(self, count: int, release: int) -> tuple[list[Records], Parameters | None]:
        """Draw a release: each dataset, or draw of the parameters, given a draw of the gaps of its own."""
        datasets, drawn = [], []
        for number in range(count):
            rng = np.random.default_rng([self.seed, 1 + release, number])
            model = self.before.models[int(rng.integers(len(self.before.models)))]
            if self.rows is None:
                drawn.append(model.draw(rng, 1))
                continue
            kept, known = self.mechanism.kept_levels(self.records), self.table.covariates
            ((one,), _) = draw_tables(
                [model], [self.rows], rng, kept=kept, covariates=known if kept is not None else None
            )
            keeps_gaps = self.mechanism.missing == KEEP_GAPS
            gaps = GapPatterns.of(self.table).draw(rng, self.rows) if keeps_gaps else None
            datasets.append(self.mechanism.released(one, gaps))
        if self.rows is not None:
            return datasets, self.parameters
        every = [*([] if self.parameters is None else [self.parameters]), *drawn]
        names = Parameters.__dataclass_fields__
        return [], Parameters(*(np.concatenate([getattr(one, name) for one in every]) for name in names))

    def discloses(
        self, count: int, people: Int[np.ndarray, " m"], releases: Sequence[int]
    ) -> Bool[np.ndarray, "r m"]:
        """Say which of these people each of these releases of `count` discloses."""
        found = np.stack(in_parallel(lambda release: self._judged(count, people, release), list(releases)))
        if self.outside is None:
            return found
        informed = replace(self, known=self.outside, nearness=None, membership=False, outside=None)
        return found | informed.discloses(count, people, releases)

    def _judged(self, count: int, people: Int[np.ndarray, " m"], release: int) -> Bool[np.ndarray, " m"]:
        drawn, parameters = self.draw(count, release)
        tables, rng = [*self.earlier, *drawn], np.random.default_rng([self.seed, 1 + release])
        prior, seen = self.mechanism.prior, [self.mechanism.as_drawn(each) for each in tables]
        seen = list(noticed_bounds(seen, spread_given_others(self.before.models[0])))
        after = [
            FilledTable.of(self.table, prior, stream, each, chains=GAP_CHAINS, draws=GAP_DRAWS)
            for each, stream in zip(seen, rng.spawn(len(seen)), strict=True)
        ]
        adversary = GapAdversary(self.table, prior, tuple(seen), self.before, tuple(after), parameters)
        columns, categories = self.known
        found = risk_with_gaps(
            adversary,
            rng,
            rows=people,
            known_columns=columns,
            known_categories=categories,
            size=GAP_POINTS,
            near=self.near,
            nearness=self.nearness,
        )
        unknown = [place for place in range(prior.p) if place not in columns]
        pairs = [(found.probability[people][:, unknown], found.baseline[people][:, unknown])]
        codes = self.table.codes[people]
        for place in range(codes.shape[1]):
            if place not in (*categories, *self.public):
                own = np.arange(len(people)), np.maximum(codes[:, place], 0)
                levels = (found.probabilities[place][people][own], found.baselines[place][people][own])
                pairs.append(tuple(np.where(codes[:, place] < 0, np.nan, each)[:, None] for each in levels))  # type: ignore[arg-type]
        if self.mechanism.missing == KEEP_GAPS and tables:
            gaps = pattern_chances(self.table, [self.mechanism.incomplete(each) for each in tables])
            pairs.append((gaps[0][people, None], gaps[1][people, None]))
        if self.nearness is not None and self.outside is None:
            alone = found.rest_known.of(people)
            pairs.append((alone.probability[:, unknown], alone.baseline[:, unknown]))
            judged = (
                level for place, level in alone.levels.items() if int(place) not in (*categories, *self.public)
            )
            pairs += [(level[0][:, None], level[2][:, None]) for level in judged]
        flags = [self.rule.discloses(after_it, before_it).any(axis=1) for after_it, before_it in pairs]
        if self.membership and self.nearness is not None:
            flags.append(self.rule.discloses_membership(self.rule.membership_of(found.evidence[people])))
        return np.any(flags, axis=0)
