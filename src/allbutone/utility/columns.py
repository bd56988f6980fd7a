"""Real rows beside those of many datasets: column by column, pair by pair, and by logistic propensity."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, gammaln, logit

from allbutone.model.moments import Moments
from allbutone.releases.folder import with_tables
from allbutone.support.arrays import cholesky, solve_rows
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.categories import Categories
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records
from allbutone.utility.categories import Grouped
from allbutone.utility.counted import CountedTable

# The two-sample Kolmogorov-Smirnov test of one real column against the columns of many datasets at once.


MOST_EXACT = 10_000  # rows; beyond, p-values are asymptotic, as in SciPy
NEGLIGIBLE = 1e-13  # a p-value below this is not worth counting paths for
PATH_STATES = 1 << 17  # how many states of the path count are held at a time: they stay in the cache
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
        count = max(1, min(len(order), PATH_STATES // int(widths[order[-1]])))
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


# Propensity scores: how well a logistic regression tells real from synthetic rows, for many datasets at once.


STEPS = 200  # Newton steps at most; five or six are the rule
LAST_STEP = 1e-6  # a step that moves no score's log odds by more than this is the last: its error is its square
CERTAIN = 25.0  # log odds on the right side for every row, at which the rows count as told apart
SEPARATED = 1e-9  # information a record, in whitened columns, below which no coefficients are finite
RIDGE = 1e-13  # keeps steps finite where rows separate; the solution does not depend on it


def propensity(
    real: Float[np.ndarray, "p n"], synthetic: Float[np.ndarray, "k p rows"]
) -> tuple[Float[np.ndarray, " k"], Bool[np.ndarray, " k"]]:
    """Return pMSE = (1/N)·Σᵢ (p̂ᵢ − c)² for each dataset beside the real table, columns whitened, and if finite.

    p̂ᵢ is the fitted probability that row i of the N = n + rows is synthetic, by logistic regression on the columns
    (main effects) with an intercept; c = rows/N. Where the columns separate the rows, wholly or in part, the
    coefficients are infinite; pMSE is then its limit (c·(1 − c) if wholly), and not finite.
    """
    k, _, rows = synthetic.shape
    total = real.shape[1] + rows
    share = rows / total
    tables = (_with_intercept(np.broadcast_to(real, (1, *real.shape))), _with_intercept(synthetic))
    odds = [np.full((k, table.shape[-1]), logit(share)) for table in tables]
    error, finite = np.empty(k), np.ones(k, dtype=bool)
    active, here = np.arange(k), tables
    for _ in range(STEPS):
        information, step = _newton_step(here, odds)
        change = [(step[:, None, :] @ table)[:, 0] for table in here]
        reach = np.maximum(*(np.max(np.abs(part), axis=1) for part in change))
        # quasi-self-concordance (Bach 2010): damped so, a Newton step never lowers the likelihood
        damping = np.where(reach > LAST_STEP, np.log1p(reach) / np.maximum(reach, LAST_STEP), 1.0)
        odds = [old + damping[:, None] * part for old, part in zip(odds, change, strict=True)]
        weakest = np.linalg.eigvalsh(information)[:, 0] / total
        told_apart = np.minimum(np.min(-odds[0], axis=1), np.min(odds[1], axis=1)) > CERTAIN
        done = (reach <= LAST_STEP) | told_apart
        error[active], finite[active] = _squared_error(odds, share), weakest > SEPARATED
        if done.all():
            return error, finite
        if done.any():
            active, odds = active[~done], [part[~done] for part in odds]
            here = (tables[0], here[1][~done])
    finite[active] = False
    return error, finite


def _with_intercept(table: Float[np.ndarray, "k p rows"]) -> Float[np.ndarray, "k p+1 rows"]:
    return np.concatenate([np.ones_like(table[:, :1]), table], axis=1)


def _newton_step(tables: Any, odds: Any) -> tuple[Float[np.ndarray, "k q q"], Float[np.ndarray, "k q"]]:
    """Return the information A·diag(p̂(1 − p̂))·Aᵀ and the step it gives, for columns A and log odds of all rows."""
    information: Any = 0.0
    score: Any = 0.0
    for table, log_odds, label in zip(tables, odds, (0.0, 1.0), strict=True):
        fitted = expit(log_odds)
        weight = fitted * expit(-log_odds)
        information = information + (table * weight[:, None, :]) @ table.swapaxes(-1, -2)
        residual = -fitted if label == 0 else expit(-log_odds)
        score = score + (table @ residual[:, :, None])[..., 0]
    size = np.trace(information, axis1=-2, axis2=-1)[:, None, None]
    ridge = (RIDGE * size + np.finfo(float).tiny) * np.eye(information.shape[-1])
    return information, np.linalg.solve(information + ridge, score[..., None])[..., 0]


def _squared_error(odds: Any, share: float) -> Float[np.ndarray, " k"]:
    squares = sum(np.sum((expit(part) - share) ** 2, axis=1) for part in odds)
    return squares / sum(part.shape[1] for part in odds)


# Real rows beside those of many datasets, block by block: Kolmogorov-Smirnov and logistic propensity scores.


COMPARED_VALUES = 1 << 19  # numbers of datasets and real table compared at a time by a thread


def whitener(real: Moments, scatters: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the real mean and a root of the average covariance; propensity scores are the same in any units."""
    synthetic = np.mean(scatters / (rows[:, None, None] - 1), axis=0)
    covariance = real.scatter / (real.count - 1) + synthetic
    scale = np.sqrt(np.diagonal(covariance))
    root = cholesky(covariance / scale / scale[:, None], "the correlation matrix of the columns")
    return real.mean, scale[:, None] * root


def kolmogorov_smirnov(
    real: Float[np.ndarray, "n p"], datasets: list[np.ndarray], rows: Int[np.ndarray, " k"]
) -> Int[np.ndarray, "k p"]:
    """Return n·rows·D, a whole number, of each dataset and column, without gaps."""
    ordered = np.sort(real.T, axis=1)

    def compared(data: np.ndarray) -> tuple[np.ndarray]:
        return (np.stack([ks_numerators(ordered[c], data[:, c]) for c in range(data.shape[1])], axis=1),)

    return _by_blocks(compared, real, datasets, rows)[0]


def propensities(
    real: Float[np.ndarray, "n d"],
    datasets: list[np.ndarray],
    rows: Int[np.ndarray, " k"],
    mean_and_root: tuple[np.ndarray, np.ndarray],
) -> tuple[Float[np.ndarray, " k"], Bool[np.ndarray, " k"]]:
    """Return the mean squared error of each dataset's propensity scores, and whether the regression is finite."""
    mean, root = mean_and_root
    white = solve_rows(root, real - mean).T
    error, finite = _by_blocks(
        lambda data: propensity(white, np.linalg.solve(root, data - mean[:, None])), real, datasets, rows
    )
    return error, finite


def _by_blocks(
    compared: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    real: np.ndarray,
    datasets: list[np.ndarray],
    rows: Any,
) -> list[np.ndarray]:
    """Return what is found of stacked datasets of one size, as many as are compared at a time, in their order."""
    (n, p), blocks = real.shape, []
    for size in np.unique(rows):
        numbers = np.flatnonzero(rows == size)
        most = max(1, COMPARED_VALUES // ((p + 1) * (n + int(size))))
        blocks += [numbers[start : start + most] for start in range(0, len(numbers), most)]
    parts = in_parallel(lambda block: compared(np.stack([datasets[number].T for number in block])), blocks)
    order = np.argsort(np.concatenate(blocks))
    return [np.concatenate(each)[order] for each in zip(*parts, strict=True)]


# The real table and a release's datasets, column beside column, as far as they can be compared.


@dataclass(frozen=True, eq=False)
class Matched:
    """The real records and the datasets, columns in one order: measurements on the model's scale; categories.

    counted: the real table where it is in an engine; then `records` are not here.
    """

    records: Records | LazyRecords
    datasets: list[Float[np.ndarray, "_ p"]]
    categories: list[Categories]
    counted: CountedTable | None = None

    @property
    def people(self) -> int:
        """The number of real records."""
        return len(self.values) if self.counted is None else self.counted.people

    @property
    def rows(self) -> Int[np.ndarray, " k"]:
        """The number of rows of each dataset."""
        return np.array([len(data) for data in self.datasets])

    @property
    def values(self) -> Float[np.ndarray, "n p"]:
        """The real measurements, of which none are here where they are in an engine."""
        return (
            self.records.values if isinstance(self.records, Records) else np.zeros((0, len(self.records.columns)))
        )

    @property
    def has_gaps(self) -> bool:
        """Whether any measurement is missing, really or in a dataset."""
        return any(np.isnan(values).any() for values in (self.values, *self.datasets))

    def grouped(self) -> tuple[Grouped, list[Grouped]]:
        """Return the real table and the datasets by groups of records with the same levels, about one centre."""
        if isinstance(self.records, LazyRecords):
            centre = self.records.sums.origin
            real = Grouped.of_sums(self.records.sums, self.records.categories)
        else:
            with warnings.catch_warnings():  # a column that nobody has
                warnings.simplefilter("ignore", RuntimeWarning)
                centre = np.nan_to_num(np.nanmean(self.records.values, axis=0))
            real = Grouped.of_records(self.records.values, self.records.categories, centre)
        tables = zip(self.datasets, self.categories, strict=True)
        return real, [Grouped.of_records(*table, centre) for table in tables]


def matched(table: Any, release: Any, **how_to_read: Any) -> Matched:
    """Return the real records, columns in the release's order, and the datasets; refuse what cannot be compared.

    Columns of the table that the release does not have are left out. A table in an engine is counted there.
    """
    release = with_tables(release)
    drawn = [each.values for each in release.tables]
    categories, counted = release.tables[0].categories, None
    how_to_read = {
        "rows_are_people": True,
        "columns": release.released_order,
        "schema": release.schema,
    } | how_to_read
    records: Records | LazyRecords
    if CountedTable.takes(table):
        counted = CountedTable.of(table, **{"categories": bool(categories.columns)} | how_to_read)
        records = counted.records
    else:
        # a release of a kind that takes categories may have come from a table with gaps
        also: dict[str, Any] = {"categories": True, "gaps": True} if not release.mechanism.is_normal else {}
        records = Records.of(table, **also | how_to_read)
    count = release.p
    if len(records.columns) != count:
        raise InputError(
            f"the table has {len(records.columns)} columns, the release {count}",
            Cure("choose the same", "columns"),
        )
    if categories.columns and (records.columns, records.categories.columns, records.categories.levels) != (
        release.columns,
        categories.columns,
        categories.levels,
    ):
        raise InputError(
            "the categories of the table and their levels are not those of the release",
            Cure("read the table with the release's schema", "schema"),
        )
    pair = Matched(records, drawn, [each.categories for each in release.tables], counted)
    if pair.people < 2:
        raise InputError("the table holds one row", "give at least two records")
    if 1 in release.rows:
        raise InputError(f"dataset {release.rows.index(1) + 1} has one row, which has no spread", "leave it out")
    if counted is None:
        require_spread(pair.values, records.columns, "of the table")
    for number, data in enumerate(drawn, start=1):
        require_spread(data, records.columns, f"of dataset {number}")
    return pair


def require_spread(values: Float[np.ndarray, "_ p"], columns: tuple[str, ...], where: str) -> None:
    """Refuse columns that do not vary."""
    constant = ~(np.fmax.reduce(values, axis=0) > np.fmin.reduce(values, axis=0))  # what is missing is passed over
    if np.any(constant):
        raise InputError(
            f"column {columns[int(np.argmax(constant))]!r} {where} is constant, so it has no correlations",
            "leave that column or that dataset out",
        )


# Measurements column by column and pair by pair: means, spreads, correlations, Kolmogorov-Smirnov.


@dataclass(frozen=True, eq=False)
class Columns:
    """What `Fidelity` says of measurements: the fields of the same names."""

    observed: Int[np.ndarray, "p p"]
    correlations: Float[np.ndarray, "p p"]
    synthetic_correlations: Float[np.ndarray, "k p p"]
    mean_differences: Float[np.ndarray, "k p"]
    spread_ratios: Float[np.ndarray, "k p"]
    ks: Float[np.ndarray, "k p"]
    ks_p: Float[np.ndarray, "k p"]


def by_columns(pair: Matched) -> Columns:
    """Compare the measurements: by moments, of a table in its engine, too; with gaps by the values there are."""
    if not pair.records.columns:  # categories alone
        k, pairs = len(pair.datasets), np.zeros((0, 0))
        none = np.zeros((k, 0))
        return Columns(pairs.astype(np.int64), pairs, np.zeros((k, 0, 0)), none, none, none, none)
    if pair.has_gaps:
        return _with_gaps(pair)
    synthetic = [Moments.of(data) for data in pair.datasets]
    if pair.counted is not None:
        numerators, real = pair.counted.ks_numerators(pair.datasets), pair.counted.moments
    else:
        numerators, real = kolmogorov_smirnov(pair.values, pair.datasets, pair.rows), Moments.of(pair.values)
    distances = numerators / (pair.people * pair.rows[:, None])
    return _of_moments(real, synthetic, (distances, ks_p_values(pair.people, pair.rows, numerators)))


def _of_moments(
    real: Moments, synthetic: Sequence[Moments], tests: tuple[Float[np.ndarray, "k p"], Float[np.ndarray, "k p"]]
) -> Columns:
    """Compare tables by their moments, given D and p of the Kolmogorov-Smirnov tests."""
    rows, p = np.array([each.count for each in synthetic]), len(real.mean)
    scatters = np.stack([moments.scatter for moments in synthetic])
    variance = np.diagonal(real.scatter) / (real.count - 1)
    variances = np.diagonal(scatters, axis1=1, axis2=2) / (rows[:, None] - 1)
    steps = np.stack([(each.mean - real.mean) + (each.mean_tail - real.mean_tail) for each in synthetic])
    return Columns(
        observed=np.full((p, p), int(real.count)),
        correlations=_correlations(real.scatter),
        synthetic_correlations=_correlations(scatters),
        mean_differences=steps / np.sqrt((variance + variances) / 2),
        spread_ratios=np.sqrt(variances / variance),
        ks=tests[0],
        ks_p=tests[1],
    )


def _with_gaps(pair: Matched) -> Columns:
    """Compare the values that there are: of each column, and of each two columns the rows that have both."""
    values = pair.values
    centre = np.nanmean(values, axis=0)
    counts, means, variance, correlations = _pairwise(values - centre)
    each = [_pairwise(data - centre) for data in pair.datasets]
    _, others, variances, synthetic = (np.stack(part) for part in zip(*each, strict=True))
    tests = [_ks_of_column(values[:, c], [data[:, c] for data in pair.datasets]) for c in range(values.shape[1])]
    distances, p_values = (np.stack(part, axis=1) for part in zip(*tests, strict=True))
    return Columns(
        observed=counts,
        correlations=correlations,
        synthetic_correlations=synthetic,
        mean_differences=(others - means) / np.sqrt((variance + variances) / 2),
        spread_ratios=np.sqrt(variances / variance),
        ks=distances,
        ks_p=p_values,
    )


def _pairwise(
    centred: Float[np.ndarray, "n p"],
) -> tuple[Int[np.ndarray, "p p"], Float[np.ndarray, " p"], Float[np.ndarray, " p"], Float[np.ndarray, "p p"]]:
    """Return numbers of rows that have both columns, means, variances, and correlations by those rows.

    NaN where two columns are never seen together, or do not vary where they are.
    """
    seen = (~np.isnan(centred)).astype(float)
    known = np.where(seen > 0, centred, 0.0)
    counts = seen.T @ seen
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (known.T @ seen) / counts  # of column a over the rows that have b, too
        squares = (known**2).T @ seen - counts * means**2
        found = (known.T @ known - counts * means * means.T) / np.sqrt(squares * squares.T)
        variances = np.diagonal(squares) / (np.diagonal(counts) - 1)
    found = np.clip(found, -1, 1)
    np.fill_diagonal(found, 1.0)
    return counts.astype(np.int64), np.diagonal(means).copy(), variances, found


def _ks_of_column(
    real: Float[np.ndarray, " n"], datasets: list[Float[np.ndarray, " _"]]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    real = np.sort(real[~np.isnan(real)])
    parts = [data[~np.isnan(data)] for data in datasets]
    sizes = np.array([len(part) for part in parts])
    numerators = np.stack([ks_numerators(real, part[None]) for part in parts])
    p_values = ks_p_values(len(real), sizes, numerators)
    return numerators[:, 0] / (len(real) * sizes), p_values[:, 0]


def _correlations(scatter: Float[np.ndarray, "*k p p"]) -> Float[np.ndarray, "*k p p"]:
    """Return Pearson's r = S_ab/√(S_aa·S_bb)."""
    spread = np.sqrt(np.diagonal(scatter, axis1=-2, axis2=-1))
    found = np.clip(scatter / spread[..., :, None] / spread[..., None, :], -1, 1)
    found[..., np.arange(spread.shape[-1]), np.arange(spread.shape[-1])] = 1
    return found
