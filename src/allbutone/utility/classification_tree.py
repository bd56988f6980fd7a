"""Propensity scores by a classification tree (CART), which sees what a regression on main effects cannot.

Written here rather than taken from scikit-learn, which would be the package's largest dependency for one number:
only the scores of the rows that the tree was grown on are needed, so it is grown level by level on ranks.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.support.parallel import in_parallel

# Rows of a leaf: at least 5 and a twentieth of all. synthpop takes 5 of any number; such a tree fits chance so
# well that correlations of 0.6 for 0.3 (400 rows, 5 columns) give 1.04 times the expected error, here 1.5 times.
FEWEST, SHARE = 5, 1 / 20
MOST_DATASETS = 100  # that are compared
PERMUTATIONS = 50  # of labels at least, over all datasets
MOST_VALUES = 1 << 16  # of real and synthetic rows together that one tree sees


@dataclass(frozen=True, eq=False)
class TreePropensity:
    """The mean squared error of each dataset's propensity scores, and what to expect by chance; (c,) each."""

    mean_squared_error: Float[np.ndarray, " c"]
    expected: Float[np.ndarray, " c"]


def tree_propensity(
    real: Float[np.ndarray, "n p"], datasets: list[np.ndarray], rng: np.random.Generator
) -> TreePropensity:
    """Return pMSE = (1/N)·Σᵢ (p̂ᵢ − c)² of the first 100 datasets at most, p̂ᵢ the synthetic share of row i's leaf.

    A tree fits chance as well, so its pMSE is large even where nothing differs. What to expect then is found as
    synthpop finds it: the labels, real or synthetic, are permuted, and the tree grown again; datasets of one size
    share their permutations. Of large tables a tree sees a random part of the rows.
    """
    compared = datasets[:MOST_DATASETS]
    each = ceil(PERMUTATIONS / len(compared))
    streams = rng.spawn(len(compared))

    def grow(place: int) -> tuple[float, float]:
        stream, most = streams[place], max(4 * FEWEST, MOST_VALUES // (2 * real.shape[1]))
        parts = [_some(rows, most, stream) for rows in (real, compared[place])]
        labels = np.repeat([False, True], [len(part) for part in parts])
        columns = np.concatenate(parts).T
        null = [tree_error(columns, stream.permutation(labels)) for _ in range(each)]
        return tree_error(columns, labels), float(np.mean(null))

    found = np.array(list(in_parallel(grow, list(range(len(compared))))))
    sizes = np.array([len(data) for data in compared])
    expected = np.array([found[sizes == size, 1].mean() for size in sizes])
    return TreePropensity(found[:, 0], expected)


def _some(rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= most else rows[rng.choice(len(rows), most, replace=False)]


def tree_error(columns: Float[np.ndarray, "p total"], labels: Bool[np.ndarray, " total"]) -> float:
    """Return (1/N)·Σ n_leaf·(s_leaf/n_leaf − c)² of the tree that tells the labels apart, c their share.

    Each node is split where Gini's impurity falls the most, by (s_left·n − s·n_left)²/(n·n_left·n_right), as long
    as it falls and both parts keep enough rows. The result is the same for any increasing change of a column.
    """
    leaf = max(FEWEST, ceil(SHARE * labels.size))
    total, share, error = labels.size, labels.mean(), 0.0
    rank = np.stack([np.unique(column, return_inverse=True)[1] for column in columns])  # equal values share theirs
    order = np.argsort(rank, axis=1, kind="stable")  # the rows of each column, by node and then by value
    node = np.zeros(total, dtype=np.int64)
    while order.size:
        rows, mine = order[0], node[order[0]]
        split, column, last = _best_splits(order, mine, labels, rank, leaf)
        counts, positives = np.bincount(mine), np.bincount(mine, labels[rows])
        error += float(np.sum((counts * (positives / counts - share) ** 2)[~split]))
        # the parts of nodes that were split go on, numbered anew
        right = rank[column[mine], rows] > rank[column, last][mine]
        going_on = split[node[order]]
        node[rows] = 2 * (np.cumsum(split) - 1)[mine] + right
        order = order[going_on].reshape(len(columns), -1)
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
