"""Simulated releases of a very table as sufficient statistics, drawn without a record of theirs."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from allbutone.disclosure.rule import USUAL, Rule
from allbutone.model.location import LocationModel, Parameters, Regression
from allbutone.model.moments import Cells, Moments

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
        moments = []
        for number, counts in enumerate(drawn.counts):
            white = drawn.outcomes[number].reshape(len(cells), -1) / np.sqrt(np.maximum(counts, 1))[:, None]
            mean = np.where(counts[:, None] > 0, centre + np.einsum("cpq,cq->cp", self.roots[own], white), 0.0)
            scatter = np.zeros((len(cells), self.whole.p, self.whole.p))
            within = self.roots @ drawn.within[number] @ self.roots.mT
            if self.whole.is_separate:
                scatter[:] = within
            else:
                scatter[int(np.argmax(counts))] = within[0]
            moments.append(Moments(counts.astype(float), mean, scatter))
        return moments

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
    triangles = np.tril(rng.standard_normal((*df.shape, p)), -1) * (df > 0)[..., None, :]
    triangles[..., range(p), range(p)] = np.sqrt(rng.chisquare(np.maximum(df, 1e-300)) * (df > 0))
    return triangles


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
        shares = []
        for category in self.judged:
            level = self.groups * self.cells.sizes[category] + self.cells.codes[:, category]
            shares.append(((_over(np.add, ours, level) - ours) * scale + own) / total * here)
        return np.stack(shares, axis=-1)


def _over(
    what: np.ufunc, values: Float[np.ndarray, "r cells"], groups: Int[np.ndarray, " cells"]
) -> Float[np.ndarray, "r cells"]:
    """Return, for each cell, the sum or the maximum over its group."""
    order = np.argsort(groups, kind="stable")
    _, first, which = np.unique(groups[order], return_index=True, return_inverse=True)
    reduced = what.reduceat(values[:, order], first, axis=1)
    back = np.empty_like(order)
    back[order] = which
    return reduced[:, back]


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
