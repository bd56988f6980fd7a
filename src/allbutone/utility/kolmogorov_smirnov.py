"""The two-sample Kolmogorov-Smirnov test of one real column against the columns of many datasets at once."""

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from allbutone.support.parallel import in_parallel

MOST_EXACT = 10_000  # rows; beyond, p-values are asymptotic, as in SciPy
NEGLIGIBLE = 1e-13  # a p-value below this is not worth counting paths for
BLOCK_VALUES = 1 << 17  # how many states of the path count are held at a time: they stay in the cache
WINDOW = 256  # steps that the states move on in memory before they are copied back


def ks_numerators(
    real: Float[np.ndarray, " n"], synthetic: Float[np.ndarray, "*batch rows"]
) -> Int[np.ndarray, "*batch"]:
    """Return n·rows·D, a whole number, for D = sup |F(x) − G(x)| of a sorted real column and each synthetic one.

    With z sorted, rows·n·D is the largest of n·(i+1) − rows·#{x ≤ zᵢ} and rows·#{x < zᵢ} − n·i, i from 0; where
    values are tied, the last of them gives the largest of the first kind and the first of the second.
    """
    n, rows = len(real), synthetic.shape[-1]
    ordered = np.sort(synthetic, axis=-1)
    flat, place = ordered.reshape(-1), np.arange(rows)
    up_to = np.searchsorted(real, flat, side="right").reshape(ordered.shape)
    below = np.searchsorted(real, flat, side="left").reshape(ordered.shape)
    above = np.max(n * (place + 1) - rows * up_to, axis=-1)
    return np.maximum(above, np.max(rows * below - n * place, axis=-1)).astype(np.int64)


def ks_p_values(
    n: int, rows: Int[np.ndarray, " k"], numerators: Int[np.ndarray, "k p"]
) -> Float[np.ndarray, "k p"]:
    """Return P(D ≥ what was seen) for two samples of n and of rows values from one continuous distribution.

    The same rule as `scipy.stats.ks_2samp`: exact where neither sample exceeds 10,000 values, otherwise the
    distribution of the one-sample statistic at n·rows/(n + rows) values. Each distinct D is computed once.
    """
    from scipy.stats import kstwo  # not above: it takes longer to load than all the rest

    pairs = np.stack([np.broadcast_to(rows[:, None], numerators.shape), numerators], axis=-1)
    distinct, inverse = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    size, seen = distinct.T
    weight = n * size / (n + size)
    distance = seen / (n * size)
    found = np.ones(len(distinct))
    counted = (np.maximum(size, n) <= MOST_EXACT) & (seen > 0)
    same = counted & (size == n)
    found[same] = _equal_sizes(n, seen[same] // n)
    # Wei and Dudley (2012): P(D ≥ d) is at most e·exp(−2·d²·n·rows/(n + rows))
    paths = counted & ~same & (2 * weight * distance**2 < 1 - np.log(NEGLIGIBLE))
    found[paths] = _exit_probability(n, size[paths], seen[paths])
    rest = (seen > 0) & ~same & ~paths
    found[rest] = kstwo.sf(distance[rest], np.round(weight[rest]))
    return np.clip(found, 0, 1)[inverse.reshape(-1)].reshape(numerators.shape)


def _equal_sizes(n: int, steps: Int[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """Return P(D ≥ h/n) = 2·Σⱼ (−1)^(j−1)·C(2n, n − jh)/C(2n, n), j from 1 while jh ≤ n (Gnedenko, Korolyuk)."""
    found = np.empty(len(steps))
    for place, h in enumerate(steps):
        reach = np.arange(h, n + 1, h)
        terms = np.exp(2 * gammaln(n + 1) - gammaln(n - reach + 1) - gammaln(n + reach + 1))
        found[place] = 2 * np.sum(np.where(np.arange(len(reach)) % 2, -terms, terms))
    return found


def _exit_probability(
    n: int, sizes: Int[np.ndarray, " d"], seen: Int[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """Return the share of orderings of n and of rows values whose distance reaches that seen, for each pair.

    An ordering is a path from (0, 0) to (n, rows); it reaches n·rows·D = H where |i·rows − j·n| ≥ H.
    """
    widths = 2 * (seen // (n + sizes)) + 9
    order = np.lexsort((sizes, widths))
    blocks = []
    while len(order):
        count = max(1, min(len(order), BLOCK_VALUES // int(widths[order[-1]])))
        blocks.append(order[-count:])
        order = order[:-count]
    found = np.empty(len(sizes))
    walks = in_parallel(lambda block: _walk(n, sizes[block], seen[block], int(widths[block].max())), blocks)
    for block, left in zip(blocks, walks, strict=True):
        found[block] = left
    return found


def _walk(
    n: int, sizes: Int[np.ndarray, " d"], seen: Int[np.ndarray, " d"], width: int
) -> Float[np.ndarray, " d"]:
    """Walk all paths at once, a value at a time, and return how much probability leaves the band.

    After s values i of them are the real column's, inside where |i·(n + rows) − s·n| < H; state o holds
    i = first + o. The next is the real column's with probability (n − i)/(n + rows − s).
    """
    total, place, pair = n + sizes, np.arange(width, dtype=float)[:, None], np.arange(len(sizes))
    memory, offset = np.zeros((width + WINDOW, len(sizes))), 0
    inside, chance = memory[:width], np.empty((width, len(sizes)))
    first, left = np.full(len(sizes), -(width // 2)), np.zeros(len(sizes))
    inside[width // 2] = 1.0
    for step in range(1, int(total.max()) + 1):
        running = step <= total
        rate = np.where(running, 1 / np.maximum(total - step + 1, 1), 0.0)
        top = (n - first) * rate
        np.multiply(place, -rate, out=chance)
        chance += top
        if np.any(top > 1) or np.any(top < (width - 1) * rate):
            # where a column is used up, rounding must not leave chances below 0 or above 1
            np.clip(chance, 0.0, 1.0, out=chance)
        chance *= inside
        inside -= chance
        inside[1:] += chance[:-1]
        # from step to step the band moves by less than one state: at most one falls out at either end
        below = (step * n - seen) // total - first
        above = -((-step * n - seen) // total) - first
        for edge in (below, above):
            out = np.where(running, edge, 0)
            left += np.where(running, inside[out, pair], 0.0)
            inside[out, pair] = np.where(running, 0.0, inside[out, pair])
        moved = np.where(running, step * n // total - width // 2, first)
        shift = moved > first
        first = moved
        if shift.all():  # the window moves on over the memory, and back to its beginning once at the end
            offset += 1
            if offset == WINDOW:
                memory[:width] = memory[WINDOW:]
                memory[width:] = 0.0
                offset = 0
            inside = memory[offset : offset + width]
        elif shift.any():
            inside[:-1] = np.where(shift, inside[1:], inside[:-1])
            inside[-1] = np.where(shift, 0.0, inside[-1])
    return left
