"""How well whole rows are told apart, measurements and categories: by regression and by a tree."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.model.moments import Moments
from allbutone.support.parallel import in_parallel
from allbutone.tables.categories import Categories
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.utility.columns import Matched, propensities, whitener

# Propensity scores by a classification tree (CART), which sees what a regression on main effects cannot.
#
# Written here rather than taken from scikit-learn, which would be the package's largest dependency for one number:
# only the scores of the rows that the tree was grown on are needed, so it is grown level by level on ranks.


# Rows of a leaf: at least 5 and a twentieth of all. synthpop takes 5 of any number; such a tree fits chance so
# well that correlations of 0.6 for 0.3 (400 rows, 5 columns) give 1.04 times the expected error, here 1.5 times.
FEWEST, SHARE = 5, 1 / 20
MOST_DATASETS = 100  # that are compared
PERMUTATIONS = 50  # of labels at least, over all datasets
MOST_VALUES = 1 << 16  # of real and synthetic rows together that one tree sees


def tree_propensity(
    real: Float[np.ndarray, "n p"], datasets: list[np.ndarray], rng: np.random.Generator
) -> tuple[Float[np.ndarray, " c"], Float[np.ndarray, " c"]]:
    """Return pMSE = (1/N)·Σᵢ (p̂ᵢ − c)², p̂ᵢ the synthetic share of row i's leaf, and what to expect by chance.

    Of the first 100 datasets at most. A tree fits chance as well, so its pMSE is large even where nothing differs.
    What to expect then is found as synthpop finds it: the labels, real or synthetic, are permuted, and the tree
    grown again; datasets of one size share their permutations. Of large tables a tree sees a part of the rows.
    """
    compared = datasets[:MOST_DATASETS]
    each = ceil(PERMUTATIONS / len(compared))
    streams = rng.spawn(len(compared))

    def grow(place: int) -> tuple[float, float]:
        stream, most = streams[place], max(4 * FEWEST, MOST_VALUES // (2 * real.shape[1]))
        parts = [_some(rows, most, stream) for rows in (real, compared[place])]
        labels = np.repeat([False, True], [len(part) for part in parts])
        rank, order = _ranked(np.concatenate(parts).T)
        null = [_error(rank, order, stream.permutation(labels)) for _ in range(each)]
        return _error(rank, order, labels), float(np.mean(null))

    found = np.array(list(in_parallel(grow, list(range(len(compared))))))
    sizes = np.array([len(data) for data in compared])
    expected = np.array([found[sizes == size, 1].mean() for size in sizes])
    return found[:, 0], expected


def _some(rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= most else rows[rng.choice(len(rows), most, replace=False)]


def tree_error(columns: Float[np.ndarray, "p total"], labels: Bool[np.ndarray, " total"]) -> float:
    """Return (1/N)·Σ n_leaf·(s_leaf/n_leaf − c)² of the tree that tells the labels apart, c their share.

    Each node is split where Gini's impurity falls the most, by (s_left·n − s·n_left)²/(n·n_left·n_right), as long
    as it falls and both parts keep enough rows. The result is the same for any increasing change of a column.
    """
    return _error(*_ranked(columns), labels)


Ranks = Int[np.ndarray, "p total"]


def _ranked(columns: Float[np.ndarray, "p total"]) -> tuple[Ranks, Ranks]:
    """Return the rank of each value in its column, which equal values share, and the rows of each column by it."""
    rank = np.stack([np.unique(column, return_inverse=True)[1] for column in columns])
    return rank, np.argsort(rank, axis=1, kind="stable")


def _error(rank: Ranks, order: Ranks, labels: Bool[np.ndarray, " total"]) -> float:
    """Grow the tree level by level; `order`: the rows of each column, by node and then by value."""
    leaf = max(FEWEST, ceil(SHARE * labels.size))
    total, share, error = labels.size, labels.mean(), 0.0
    node = np.zeros(total, dtype=np.int16)  # of so few nodes; NumPy sorts short integers in time linear in rows
    while order.size:
        rows, mine = order[0], node[order[0]]
        split, column, last = _best_splits(order, mine, labels, rank, leaf)
        counts, positives = np.bincount(mine), np.bincount(mine, labels[rows])
        error += float(np.sum((counts * (positives / counts - share) ** 2)[~split]))
        # the parts of nodes that were split go on, numbered anew
        right = rank[column[mine], rows] > rank[column, last][mine]
        going_on = split[node[order]]
        node[rows] = 2 * (np.cumsum(split) - 1)[mine] + right
        order = order[going_on].reshape(len(rank), -1)
        order = np.take_along_axis(order, np.argsort(node[order], axis=1, kind="stable"), axis=1)
    return error / total


def _best_splits(
    order: Int[np.ndarray, "p rows"],
    mine: Int[np.ndarray, " rows"],
    labels: Bool[np.ndarray, " total"],
    rank: Int[np.ndarray, "p total"],
    leaf: int,
) -> tuple[Bool[np.ndarray, " m"], Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """Return for each node whether it is split, by which column, and the last row of its left part.

    `order` has the rows of each column by node and value, `mine` the node at each place of it.
    """
    counts = np.bincount(mine)
    starts = np.cumsum(counts) - counts
    running = np.cumsum(labels[order], axis=1)
    before = np.where(starts > 0, running[0][starts - 1], 0)  # labels in the nodes before
    size, positives = counts[mine], np.diff(np.append(before, running[0, -1]))[mine]
    left = np.arange(len(mine)) - starts[mine] + 1
    right = size - left
    off = (running - before[mine]) * size - positives * left
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = off**2 / (size * left * right)
    ranks = np.take_along_axis(rank, order, axis=1)
    between = np.diff(ranks, axis=1, append=-1) != 0  # the next value is another one
    gain = np.where(between & (left >= leaf) & (right >= leaf), gain, 0.0)
    best = gain.max(axis=0)
    highest = np.maximum.reduceat(best, starts)
    first = np.full(len(counts), len(mine))
    np.minimum.at(first, mine, np.where(best == highest[mine], np.arange(len(mine)), len(mine)))
    column = np.argmax(gain[:, first], axis=0)
    return highest > 0, column, order[column, first]


# Tables as columns of numbers for propensity scores: measurements, and categories by their levels.


EXPECTED = 5  # rows of a level, real and in each dataset, that an indicator of its own needs
LEAF = 1 / 40  # of the real rows: a leaf has a twentieth of all, real and synthetic
DEPENDENT = 1e-9  # of a column's variance, left when those before it are taken out, that counts as nothing


def complete(values: Float[np.ndarray, "n p"], categories: Categories) -> Bool[np.ndarray, " n"]:
    """Say which rows have no gap."""
    return ~np.isnan(values).any(axis=1) & (categories.codes >= 0).all(axis=1)


def coded_levels(
    categories: Categories, rows: Int[np.ndarray, " k"], count: Float[np.ndarray, " n"] | None = None
) -> list[tuple[int, int]]:
    """Return the levels, as (column, level), that have an indicator: all but the most frequent of each column.

    Levels that are rare, really or in a dataset of these sizes, have none and count with the most frequent: a
    level that only one of the two tables has by chance would seem to tell them apart. `count`: how many real rows
    each row stands for.
    """
    people = len(categories) if count is None else float(count.sum())
    enough = EXPECTED * max(1.0, people / max(int(rows.min()), 1))
    coded = []
    for place, (codes, levels) in enumerate(zip(categories.codes.T, categories.levels, strict=True)):
        counts = np.bincount(codes, count, minlength=len(levels))
        usual = int(np.argmax(counts))
        coded += [(place, int(level)) for level in np.flatnonzero(counts >= enough) if level != usual]
    return coded


def for_regression(
    values: Float[np.ndarray, "n p"], categories: Categories, levels: list[tuple[int, int]]
) -> Float[np.ndarray, "n d"]:
    """Return measurements, and 1 or 0 for each coded level."""
    return np.concatenate([values, indicators(categories.codes, levels)], axis=1) if levels else values


def indicators(codes: Int[np.ndarray, "n q"], levels: list[tuple[int, int]]) -> Float[np.ndarray, "n d"]:
    """Return 1 or 0 for each level, as (column, level)."""
    places, numbers = np.array(levels, dtype=np.int64).reshape(-1, 2).T
    return (codes[:, places] == numbers).astype(float)


def levels_in_between(categories: Categories) -> list[tuple[int, int]]:
    """Return the levels, as (column, level), but the first and last, that enough rows have to be a tree's leaf."""
    found = []
    for place, (codes, levels) in enumerate(zip(categories.codes.T, categories.levels, strict=True)):
        counts = np.bincount(codes, minlength=len(levels))
        found += [(place, level) for level in range(1, len(levels) - 1) if counts[level] >= LEAF * len(categories)]
    return found


def for_tree(
    values: Float[np.ndarray, "n p"], categories: Categories, levels: list[tuple[int, int]]
) -> Float[np.ndarray, "n d"]:
    """Return measurements, each category's level number, and 1 or 0 for each of these levels.

    A tree can then part levels in their order and any one level from the others; the first and the last need no
    column of their own.
    """
    return np.concatenate([for_regression(values, categories, levels), categories.codes], axis=1)


def independent(covariance: Float[np.ndarray, "d d"]) -> list[int]:
    """Return the places of columns that those before them do not determine, by a Cholesky factor that skips."""
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
    left = covariance / scale / scale[:, None]
    kept = []
    for place in range(len(left)):
        if left[place, place] > DEPENDENT:
            kept.append(place)
            left = left - np.outer(left[:, place], left[place]) / left[place, place]
    return kept


# Propensity scores of whole rows, measurements and categories: by regression and by a tree.


@dataclass(frozen=True, eq=False)
class ToldApart:
    """What `Fidelity` says of propensity scores: the fields of the same names."""

    terms: int
    complete: int
    complete_rows: Int[np.ndarray, " k"]
    pmse: Float[np.ndarray, " k"]
    propensity_finite: Bool[np.ndarray, " k"]
    pmse_tree: Float[np.ndarray, " c"]
    pmse_tree_expected: Float[np.ndarray, " c"]


def told_apart(pair: Matched, rng: np.random.Generator | None) -> ToldApart:
    """Return how well real and synthetic rows without gaps are told apart; NaN where there are too few of them."""
    if isinstance(pair.records, LazyRecords):
        return _by_moments(pair, pair.records)
    real, coded = pair.values, pair.records.categories
    tables = list(zip([real, *pair.datasets], [coded, *pair.categories], strict=True))
    if pair.has_gaps or any(each.has_gaps for _, each in tables):
        whole = [complete(*table) for table in tables]
        tables = [(values[kept], each.take(kept)) for (values, each), kept in zip(tables, whole, strict=True)]
    sizes = np.array([len(values) for values, _ in tables])
    count, rows, none = int(sizes[0]), sizes[1:], np.full(len(tables) - 1, np.nan)
    levels = coded_levels(tables[0][1], rows)
    if sizes.min() < 2 or not (real.shape[1] or levels):
        return ToldApart(0, count, rows, none, np.zeros(len(rows), dtype=bool), none[:1], none[:1])
    designs = [for_regression(*table, levels) for table in tables]
    first, *others = map(Moments.of, designs)
    scatters = np.stack([moments.scatter for moments in others])
    if levels:  # one category may determine another
        kept = independent(
            first.scatter / (first.count - 1) + np.mean(scatters / (rows[:, None, None] - 1), axis=0)
        )
        designs = [design[:, kept] for design in designs]
        first, scatters = Moments.of(designs[0]), scatters[:, kept][:, :, kept]
    pmse, finite = propensities(designs[0], designs[1:], rows, whitener(first, scatters, rows))
    between = levels_in_between(tables[0][1])
    trees = [for_tree(*table, between) for table in tables] if coded.columns else designs
    of_tree, of_chance = tree_propensity(trees[0], trees[1:], rng or np.random.default_rng(0))
    return ToldApart(
        terms=designs[0].shape[1],
        complete=count,
        complete_rows=rows,
        pmse=pmse,
        propensity_finite=finite,
        pmse_tree=of_tree,
        pmse_tree_expected=of_chance,
    )


def _by_moments(pair: Matched, records: LazyRecords) -> ToldApart:
    """Return the propensity scores of a linear regression, which moments determine, of a table in its engine.

    (1/N)·Σ (p̂ᵢ − c)² = c(1 − c)·T/(1 + T), T = (n·rows/N)·δᵀW⁻¹δ with W the scatter within both tables; for small
    differences the logistic regression's are the same. A tree needs the rows: its scores are NaN.
    """
    real = Categories(records.sums.codes, records.categories.columns, records.categories.levels)
    levels = coded_levels(real, pair.rows, records.sums.count)
    whole = Moments.of_sums(records.sums.with_columns(indicators(records.sums.codes, levels)))
    tables = zip(pair.datasets, pair.categories, strict=True)
    each = [Moments.of(for_regression(*table, levels)) for table in tables]
    kept = independent(whole.scatter / whole.count + np.mean([one.scatter / one.count for one in each], axis=0))
    none = np.full(1, np.nan)
    return ToldApart(
        terms=len(kept),
        complete=pair.people,
        complete_rows=pair.rows,
        pmse=np.array([_linear_error(whole.select(kept), one.select(kept)) for one in each]),
        propensity_finite=np.ones(len(each), dtype=bool),
        pmse_tree=none,
        pmse_tree_expected=none,
    )


def _linear_error(real: Moments, synthetic: Moments) -> float:
    n, rows = real.count, synthetic.count
    step = (synthetic.mean - real.mean) + (synthetic.mean_tail - real.mean_tail)
    apart = n * rows / (n + rows) * float(step @ np.linalg.solve(real.scatter + synthetic.scatter, step))
    share = rows / (n + rows)
    return float(share * (1 - share) * apart / (1 + apart))
