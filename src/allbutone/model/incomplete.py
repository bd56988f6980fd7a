"""Records with values missing or known within bounds: how these are drawn, which are missing together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import log_ndtr, ndtri_exp

from allbutone.model.location import LocationModel, MixedRecords, Parameters
from allbutone.model.moments import UNKNOWN, Cells

# Records with missing values, and with values known within bounds, and how these are drawn given parameters.


NUMBERS_HELD = 1 << 23  # numbers held while records are weighed against the cells that they may be in
LEAST_SHARE = 1e-300  # of a cell; a Dirichlet of small weights draws 0, which has no logarithm


@dataclass(frozen=True, eq=False)
class IncompleteRecords:
    """Records by the levels of their categories (−1: missing), their measurements (NaN: missing) and covariates.

    `low` and `high`: bounds of the measurements. Where they differ, all that is known of a value is that it lies
    between them (one of them may be infinite), and `values` holds any number there; else both are the value.
    Covariates are never missing.
    """

    codes: Int[np.ndarray, "n q"]
    values: Float[np.ndarray, "n p"]
    covariates: Float[np.ndarray, "n s"]
    low: Float[np.ndarray, "n p"]
    high: Float[np.ndarray, "n p"]

    @classmethod
    def of(
        cls, codes: Any, values: Any, covariates: Any = None, low: Any = None, high: Any = None
    ) -> "IncompleteRecords":
        """Take records; without categories codes is None, and covariates and bounds may be left out."""
        n = len(values)
        levels = np.zeros((n, 0), dtype=np.int64) if codes is None else np.asarray(codes, dtype=np.int64)
        known = np.zeros((n, 0)) if covariates is None else np.asarray(covariates, dtype=np.float64)
        exact = np.asarray(values, dtype=np.float64)
        return cls(levels, exact, known, *(exact if each is None else np.asarray(each) for each in (low, high)))

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.values)

    @property
    def gaps(self) -> Bool[np.ndarray, "n d"]:
        """Which values are missing: of the measurements, then of the categories."""
        return np.concatenate([np.isnan(self.values), self.codes == UNKNOWN], axis=1)

    @property
    def bounded(self) -> Bool[np.ndarray, "n p"]:
        """Which measurements are known within bounds alone."""
        return self.low < self.high

    @property
    def is_open(self) -> Bool[np.ndarray, " n"]:
        """Which records have anything to be drawn."""
        return np.any(self.gaps, axis=1) | np.any(self.bounded, axis=1)

    def take(self, rows: Any) -> "IncompleteRecords":
        """Return some of the records."""
        return IncompleteRecords(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def joined(self, other: "IncompleteRecords") -> "IncompleteRecords":
        """Return these records and others after them."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)
        return IncompleteRecords(*(np.concatenate(pair) for pair in pairs))

    def complete(self, cells: Cells) -> MixedRecords:
        """Return records without gaps by their cells."""
        return MixedRecords(cells.of_codes(self.codes), self.values, self.covariates)


def possible_cells(
    cells: Cells, codes: Int[np.ndarray, "n q"]
) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Return the cells that each record may be in, as pairs of record and cell, record after record."""
    unknown = codes == UNKNOWN
    first = cells.of_codes(np.where(unknown, 0, codes))
    which_unknown, which = np.unique(unknown, axis=0, return_inverse=True)
    records, found = [], []
    for number, free in enumerate(which_unknown):
        # cells are numbered by place values, so that the levels of free categories add to the first cell
        steps = np.unique(cells.of_codes(np.where(free, cells.codes, 0)))
        (rows,) = np.nonzero(which.ravel() == number)
        records.append(np.repeat(rows, len(steps)))
        found.append((first[rows, None] + steps).ravel())
    record = np.concatenate(records)
    order = np.argsort(record, kind="stable")
    return record[order], np.concatenate(found)[order]


@dataclass(frozen=True, eq=False)
class _Group:
    """Pairs of record and cell with the same columns observed, and with one covariance, the `own` one.

    `order`: the columns, those `observed` first.
    """

    pairs: slice
    order: Int[np.ndarray, " p"]
    observed: int
    own: int


@dataclass(frozen=True, eq=False)
class _Block:
    """Some incomplete records: pairs of record and cell, sorted by group; `by_record` puts them back.

    `records`: their places in the table. `place` and `cells`: record and cell of each pair. `starts`: each
    record's first pair, in the order of records.
    """

    records: Int[np.ndarray, " m"]
    place: Int[np.ndarray, " pairs"]
    cells: Int[np.ndarray, " pairs"]
    by_record: Int[np.ndarray, " pairs"]
    starts: Int[np.ndarray, " m"]
    groups: tuple[_Group, ...]


@dataclass(frozen=True, eq=False)
class GapFilling:
    """How to draw all missing values of a table given parameters: for each record first its cell, then the rest.

    Then values within bounds, one column after the other, each given all others of its record.

    With the columns ordered such that the observed ones come first, and Σ = LLᵀ in that order, a record's
    observed part is x_o = μ_o + L_oo·w, and its missing part x_m = μ_m + L_mo·w + L_mm·N(0, I). So one factor of
    each pattern of gaps gives both the density that weighs the cells, and the draw.
    """

    model: LocationModel
    records: IncompleteRecords
    blocks: tuple[_Block, ...]
    bounded: tuple[tuple[int, Int[np.ndarray, " _"]], ...]

    @classmethod
    def of(cls, model: LocationModel, records: IncompleteRecords, chains: int) -> "GapFilling":
        """Sort the incomplete records by what is missing of them."""
        (rows,) = np.nonzero(np.any(records.gaps, axis=1))
        if not len(rows):
            return cls(model, records, (), _bounded_columns(records))
        _, pattern = np.unique(np.isnan(records.values[rows]), axis=0, return_inverse=True)
        order = np.argsort(pattern.ravel(), kind="stable")
        sizes = np.array(model.cells.sizes, dtype=float)
        pairs = np.prod(np.where(records.codes[rows] == UNKNOWN, sizes, 1.0), axis=1)[order]
        block = np.floor(np.cumsum(pairs) * chains * model.p**2 / NUMBERS_HELD)
        cuts = np.flatnonzero(np.diff(block)) + 1
        parts = zip(np.split(rows[order], cuts), np.split(pattern.ravel()[order], cuts), strict=True)
        blocks = tuple(_block(model, records, *part) for part in parts)
        return cls(model, records, blocks, _bounded_columns(records))

    def draw_into(
        self,
        cells: Int[np.ndarray, "chains n"],
        values: Float[np.ndarray, "chains n p"],
        parameters: Parameters,
        rng: np.random.Generator,
    ) -> None:
        """Draw the missing values of each chain by its own parameters, in place; the observed ones stay."""
        model, codes = self.model, self.model.cells.main_effects
        by_cell = parameters.coefficients
        beside = np.zeros((len(parameters), 0, model.p))
        if not model.is_separate:
            r = codes.shape[1]
            by_cell, beside = codes @ parameters.coefficients[:, :r], parameters.coefficients[:, r:]
        log_shares = np.log(np.maximum(parameters.shares, LEAST_SHARE))
        for block in self.blocks:
            known = self.records.covariates[block.records] @ beside if beside.shape[1] else None
            there = values[:, block.records]
            drawn = _draw_block(block, there, log_shares, by_cell, known, parameters.covariances, rng)
            cells[:, block.records] = drawn[0]
            values[:, block.records] = np.where(np.isnan(self.records.values[block.records]), drawn[1], there)
        if self.bounded:
            self._draw_bounded(cells, values, by_cell, beside, parameters.covariances, rng)

    def _draw_bounded(
        self,
        cells: Int[np.ndarray, "chains n"],
        values: Float[np.ndarray, "chains n p"],
        by_cell: Float[np.ndarray, "chains cells p"],
        beside: Float[np.ndarray, "chains s p"],
        covariances: Float[np.ndarray, "chains own p p"],
        rng: np.random.Generator,
    ) -> None:
        """Draw each bounded value given the others of its record: with P = Σ⁻¹, from

        N(x_c − P_c(x − μ)/P_cc, 1/P_cc) within its bounds
        """
        precisions, chains = np.linalg.inv(covariances), np.arange(len(cells))[:, None]
        for column, rows in self.bounded:
            mean = by_cell[chains, cells[:, rows]]
            if beside.shape[1]:
                mean = mean + self.records.covariates[rows] @ beside
            own = cells[:, rows] if covariances.shape[1] > 1 else np.zeros((1, len(rows)), dtype=np.int64)
            lines = precisions[:, :, column][chains, own]
            away, narrow = values[:, rows] - mean, lines[..., column]
            centre = values[:, rows, column] - np.sum(lines * away, axis=-1) / narrow
            bounds = self.records.low[rows, column], self.records.high[rows, column]
            values[:, rows, column] = draw_between(centre, narrow**-0.5, *bounds, rng)


def draw_between(
    centre: Float[np.ndarray, "*shape"],
    spread: Float[np.ndarray, "*#shape"],
    low: Float[np.ndarray, "*#shape"],
    high: Float[np.ndarray, "*#shape"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "*shape"]:
    """Draw from normals within bounds, also where these lie far out in a tail.

    In the lower tail, to which the upper one is mirrored, log Φ(z) = log Φ(b) + log[r + u(1 − r)] with
    r = Φ(a)/Φ(b) and u uniform.
    """
    below, above = (low - centre) / spread, (high - centre) / spread
    mirrored = below + above > 0
    first = np.where(mirrored, -above, below)
    last = np.where(mirrored, -below, above)
    top = log_ndtr(last)
    ratio = np.exp(log_ndtr(first) - top)
    uniform = 1 - rng.random(centre.shape)  # never 0
    white = ndtri_exp(top + np.log(ratio + uniform * (1 - ratio)))
    return np.clip(centre + spread * np.where(mirrored, -white, white), low, high)


def _bounded_columns(records: IncompleteRecords) -> tuple[tuple[int, Int[np.ndarray, " _"]], ...]:
    """Return the columns that have bounded values, each with the records concerned."""
    bounded = records.bounded
    return tuple(
        (int(column), np.flatnonzero(bounded[:, column])) for column in np.flatnonzero(bounded.any(axis=0))
    )


def _block(
    model: LocationModel, records: IncompleteRecords, rows: Int[np.ndarray, " m"], pattern: Int[np.ndarray, " m"]
) -> _Block:
    place, cells = possible_cells(model.cells, records.codes[rows])
    own = cells if model.is_separate else np.zeros_like(cells)
    order = np.lexsort((own, pattern[place]))
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    place, cells, own = place[order], cells[order], own[order]
    edges = np.flatnonzero(np.diff(pattern[place], prepend=-1) | np.diff(own, prepend=-1))
    groups = tuple(_groups(records.values[rows], place, own, edges))
    return _Block(rows, place, cells, np.argsort(order), starts, groups)


def _groups(
    values: Float[np.ndarray, "m p"],
    place: Int[np.ndarray, " pairs"],
    own: Int[np.ndarray, " pairs"],
    edges: Int[np.ndarray, " groups"],
) -> Iterator[_Group]:
    for start, stop in zip(edges, np.append(edges[1:], len(place)), strict=True):
        missing = np.isnan(values[place[start]])
        order, observed = np.argsort(missing, kind="stable"), int(np.sum(~missing))
        yield _Group(slice(start, stop), order, observed, int(own[start]))


def _draw_block(
    block: _Block,
    values: Float[np.ndarray, "chains m p"],
    log_shares: Float[np.ndarray, "chains cells"],
    by_cell: Float[np.ndarray, "chains cells p"],
    beside: Float[np.ndarray, "chains m p"] | None,
    covariances: Float[np.ndarray, "chains own p p"],
    rng: np.random.Generator,
) -> tuple[Int[np.ndarray, "chains m"], Float[np.ndarray, "chains m p"]]:
    """Return cell and measurements drawn for each record, given `values`; `beside`: what covariates add."""
    chains, m, p = values.shape
    orders, own = (
        np.stack([group.order for group in block.groups]),
        np.array([group.own for group in block.groups]),
    )
    roots = np.linalg.cholesky(covariances[:, own[:, None, None], orders[:, :, None], orders[:, None, :]])
    inverses = np.linalg.inv(roots)
    sizes = np.log(np.diagonal(roots, axis1=-2, axis2=-1))
    noise = rng.standard_normal((chains, m, p))
    scores, drawn = log_shares[:, block.cells], np.empty((chains, len(block.cells), p))
    for number, group in enumerate(block.groups):
        at, order, o = group.pairs, group.order, group.observed
        mean = by_cell[:, block.cells[at, None], order]
        if beside is not None:
            mean = mean + beside[:, block.place[at, None], order]
        known = values[:, block.place[at, None], order[:o]]
        white = (known - mean[..., :o]) @ inverses[:, number, :o, :o].swapaxes(-1, -2)
        scores[:, at] -= 0.5 * np.sum(white * white, axis=-1) + np.sum(sizes[:, number, :o], axis=-1)[:, None]
        if o < p:
            # the noise is the record's, not the pair's: only one of its pairs is chosen
            white = np.concatenate([white, noise[:, block.place[at], o:]], axis=-1)
            drawn[:, at, order[o:]] = mean[..., o:] + white @ roots[:, number, o:].swapaxes(-1, -2)
    chosen = _choose(scores, block, rng)
    return block.cells[chosen], drawn[np.arange(chains)[:, None], chosen]


def _choose(
    scores: Float[np.ndarray, "chains pairs"], block: _Block, rng: np.random.Generator
) -> Int[np.ndarray, "chains m"]:
    """Draw one pair of each record, with probabilities exp(score): the largest score after Gumbel noise."""
    chains, m = len(scores), len(block.records)
    if scores.shape[1] == m:
        return np.broadcast_to(block.by_record, (chains, m))
    noisy = (scores + rng.gumbel(size=scores.shape))[:, block.by_record]
    best = np.maximum.reduceat(noisy, block.starts, axis=1)
    counts = np.diff(block.starts, append=noisy.shape[1])
    _, pair = np.nonzero(noisy == np.repeat(best, counts, axis=1))
    return block.by_record[pair].reshape(chains, m)


# Which values are missing together: how synthetic tables get gaps of their own, and what these tell.


WEIGHT = 1.0  # of all patterns together, in records (Perks): few rows have a pattern that nobody has


@dataclass(frozen=True, eq=False)
class GapPatterns:
    """The pattern of a record's gaps ~ Dirichlet-multinomial over all 2^g patterns of the g columns that have any.

    It is one more category, independent of all others. Its levels are not those of the table but all there can be,
    so that a pattern which one person alone has is not given away by the list of levels. `columns`: which columns
    (measurements, then categories) may have gaps, which goes out with a release. `patterns` seen, and `counts`.
    """

    columns: Int[np.ndarray, " g"]
    width: int
    patterns: Bool[np.ndarray, "seen g"]
    counts: Int[np.ndarray, " seen"]

    @classmethod
    def of(cls, records: IncompleteRecords) -> "GapPatterns":
        """Return the distribution given a table, whose columns with gaps are the ones that may have some."""
        gaps = records.gaps
        (columns,) = np.nonzero(np.any(gaps, axis=0))
        return cls(columns, gaps.shape[1], *_counted(gaps[:, columns]))

    def update(self, records: IncompleteRecords) -> "GapPatterns":
        """Return the distribution given further records, whose gaps are in the same columns."""
        more, counts = _counted(records.gaps[:, self.columns])
        patterns = np.concatenate([self.patterns, more])
        kinds, which = np.unique(patterns, axis=0, return_inverse=True)
        total = np.bincount(which.ravel(), np.concatenate([self.counts, counts]), len(kinds))
        return GapPatterns(self.columns, self.width, kinds, total.astype(np.int64))

    def without(self, pattern: Bool[np.ndarray, " d"]) -> "GapPatterns":
        """Return the distribution without one of its records, of this pattern."""
        same = np.all(self.patterns == pattern[self.columns], axis=1)
        return GapPatterns(self.columns, self.width, self.patterns, self.counts - same)

    @property
    def share(self) -> float:
        """The prior weight of each pattern."""
        return WEIGHT * 0.5 ** len(self.columns)

    def log_probability(self, gaps: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return log[(α + n_pattern)/(1 + n)] of the next record's pattern, α = 2^(−g)."""
        same = np.all(gaps[:, None, self.columns] == self.patterns, axis=-1)
        return np.log(self.share + same @ self.counts) - np.log(WEIGHT + np.sum(self.counts))

    def draw(self, rng: np.random.Generator, rows: int) -> Bool[np.ndarray, "rows d"]:
        """Draw the patterns of a dataset: shares by their Dirichlet, then each row's pattern.

        All patterns that nobody has are one share; within it, which of them it is follows Pólya's urn.
        """
        unseen = max(0.0, WEIGHT - self.share * len(self.patterns))
        weights = np.append(self.share + self.counts, unseen)
        gammas = rng.standard_gamma(weights)
        which = rng.choice(len(weights), size=rows, p=gammas / gammas.sum())
        (new,) = np.nonzero(which == len(self.patterns))
        gaps = np.zeros((rows, self.width), dtype=bool)
        old = which < len(self.patterns)
        gaps[np.ix_(old, self.columns)] = self.patterns[which[old]]
        gaps[np.ix_(new, self.columns)] = self._unseen(rng, len(new), unseen)
        return gaps

    def _unseen(self, rng: np.random.Generator, count: int, weight: float) -> Bool[np.ndarray, "count g"]:
        """Draw patterns that nobody has: one drawn before, or any with equal probability."""
        drawn = np.zeros((count, len(self.columns)), dtype=bool)
        for number in range(count):
            if rng.random() * (number + weight) < number:
                drawn[number] = drawn[rng.integers(number)]
                continue
            pattern = rng.random(len(self.columns)) < 0.5
            while np.any(np.all(self.patterns == pattern, axis=1)):
                pattern = rng.random(len(self.columns)) < 0.5
            drawn[number] = pattern
        return drawn


def with_gaps(records: MixedRecords, cells: Cells, gaps: Bool[np.ndarray, "n d"]) -> IncompleteRecords:
    """Return complete records with these values taken away: of the measurements, then of the categories."""
    p = records.values.shape[1]
    values = np.where(gaps[:, :p], np.nan, records.values)
    codes = np.where(gaps[:, p:], UNKNOWN, cells.codes[records.cells])
    return IncompleteRecords.of(codes, values, records.covariates)


def log_pattern_posterior(
    others: GapPatterns, datasets: Sequence[IncompleteRecords], gaps: Bool[np.ndarray, "n d"]
) -> Float[np.ndarray, " n"]:
    """Return the log posterior of a missing record's pattern at candidates, up to a constant.

    Σⱼ log p(pattern | X₋ ∪ Z⁽ʲ⁾) − (k − 1)·log p(pattern | X₋): a product of predictives like any other. It is
    independent of the record's values, whose posterior it multiplies.
    """
    before = others.log_probability(gaps)
    opinions = sum(others.update(each).log_probability(gaps) for each in datasets)
    return opinions - (len(datasets) - 1) * before


def _counted(gaps: Bool[np.ndarray, "n g"]) -> tuple[Bool[np.ndarray, "seen g"], Int[np.ndarray, " seen"]]:
    return np.unique(gaps, axis=0, return_counts=True)
