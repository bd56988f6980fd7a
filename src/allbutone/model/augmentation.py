"""Data augmentation: missing values and parameters drawn in turn, by several chains, until they agree."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.incomplete import LEAST_SHARE, GapFilling, IncompleteRecords
from allbutone.model.location import MAIN_EFFECTS, LocationModel, MixedRecords, Parameters, Regression
from allbutone.model.moments import UNKNOWN, Moments
from allbutone.model.niw import NIW
from allbutone.support.arrays import half_log_det
from allbutone.support.errors import Cure, InputError, require_memory
from allbutone.support.parallel import one_thread
from allbutone.support.text import counted, percent

# The model's posterior given each chain's completed table, for all chains at once, and a draw from each.


@dataclass(frozen=True, eq=False)
class ChainPosteriors:
    """What each chain knows: the cells' `weights`, and of the measurements what `LocationModel` holds.

    That is a `Regression` or, where cells are separate, an `NIW`, with the chains as its first batch axis.
    """

    weights: Float[np.ndarray, "chains cells"]
    measured: Regression | NIW

    @classmethod
    def of(
        cls,
        prior: LocationModel,
        cells: Int[np.ndarray, "chains n"],
        values: Float[np.ndarray, "chains n p"],
        covariates: Float[np.ndarray, "n s"],
    ) -> "ChainPosteriors":
        """Return what `prior.update` gives for each chain's table."""
        chains, count = len(cells), prior.cells.count
        places = (cells + count * np.arange(chains)[:, None]).ravel()
        counts = np.bincount(places, minlength=chains * count).reshape(chains, count).astype(float)
        weights = prior.weights + counts
        if isinstance(prior.measured, Regression) and prior.covariates:
            coded = np.stack([prior.coded(each, covariates) for each in cells])
            return cls(weights, prior.measured.update(values, coded))
        flat = values.reshape(-1, prior.p)
        sums = [np.bincount(places, column, counts.size) for column in flat.T]
        means = np.stack(sums, axis=1) / np.maximum(counts.reshape(-1, 1), 1.0)
        away, means = flat - means[places], means.reshape(chains, count, prior.p)
        if not isinstance(prior.measured, Regression):
            return cls(
                weights, prior.measured.update(Moments(counts, means, _scatters(away, places, counts.shape)))
            )
        # √n_c·x̄_c given √n_c·z_c says of B what n_c records say; what varies within cells goes to Σ alone
        away = away.reshape(values.shape)
        within, weight = away.swapaxes(1, 2) @ away, np.sqrt(counts)[..., None]
        coded = weight * prior.cells.main_effects
        records = values.shape[1]
        return cls(weights, prior.measured.update(weight * means, coded, within=within, count=records))

    def draw(self, rng: np.random.Generator) -> Parameters:
        """Draw each chain's parameters."""
        gammas = np.maximum(rng.standard_gamma(self.weights), LEAST_SHARE)
        (means,), (covariances,) = self.measured.draw(rng, 1)
        own = covariances if isinstance(self.measured, NIW) else covariances[:, None]
        return Parameters(gammas / gammas.sum(axis=1, keepdims=True), means, own)

    @property
    def log_spread(self) -> Float[np.ndarray, " chains"]:
        """½·log|Λ|, of all cells together."""
        spread = half_log_det(np.linalg.cholesky(self.measured.scale))
        return spread if spread.ndim == 1 else np.sum(spread, axis=-1)


def _scatters(
    away: Float[np.ndarray, "all p"], places: Int[np.ndarray, " all"], shape: tuple[int, ...]
) -> Float[np.ndarray, "chains cells p p"]:
    """Return the scatter of each place, from how far each record is from its place's mean."""
    p, count = away.shape[1], shape[0] * shape[1]
    scatters = np.empty((count, p, p))
    for one in range(p):
        for two in range(one + 1):
            scatters[:, one, two] = scatters[:, two, one] = np.bincount(places, away[:, one] * away[:, two], count)
    return scatters.reshape(*shape, p, p)


# Whether chains have forgotten where they began: R-hat and effective sizes of what they say.


MOST_R_HAT = 1.05
ROUNDING = 1e-12
LEAST_SIZE = 100.0  # independent draws that all chains together must be worth


@dataclass(frozen=True, eq=False)
class Convergence:
    """What `chains` of `sweeps` sweeps each say about themselves, for each of the quantities named in `labels`.

    `r_hat`: the spread of all chains' halves together over that within them, 1 where they agree. `effective_size`:
    how many independent draws the later halves of all chains are worth.
    """

    chains: int
    sweeps: int
    labels: tuple[str, ...]
    r_hat: Float[np.ndarray, " s"]
    effective_size: Float[np.ndarray, " s"]

    @classmethod
    def of(
        cls, sweeps: int, labels: tuple[str, ...], history: Float[np.ndarray, "kept chains s"]
    ) -> "Convergence":
        """Judge the later part of the chains."""
        # what no gap touches moves by rounding alone, and says nothing
        moves = np.ptp(history, axis=(0, 1)) > ROUNDING * np.max(np.abs(history), axis=(0, 1))
        steady = np.where(moves, history - history[0, 0], 0.0)
        return cls(history.shape[1], sweeps, labels, split_r_hat(steady), effective_size(steady))

    @property
    def reached(self) -> bool:
        """Whether every quantity's R-hat is below 1.05 and its effective size at least 100."""
        return bool(np.all(self.r_hat < MOST_R_HAT) and np.all(self.effective_size >= LEAST_SIZE))

    @property
    def spacing(self) -> int:
        """The number of sweeps after which a chain says something nearly independent."""
        if not len(self.labels):
            return 1
        return int(np.ceil(self.chains * (self.sweeps / 2) / np.min(self.effective_size)))

    @property
    def words(self) -> str:
        """What was found, in a sentence without a full stop."""
        if not len(self.labels):
            return "no value is missing"
        return self.numbers if self.reached else f"not converged, {self.numbers}"

    @property
    def numbers(self) -> str:
        """How many chains and sweeps there were, the highest R-hat, and the least effective size."""
        worst, least = int(np.argmax(self.r_hat)), int(np.argmin(self.effective_size))
        return (
            f"{counted(self.chains, 'chain')} of {counted(self.sweeps, 'sweep')}: R-hat at most "
            f"{self.r_hat[worst]:.3f} ({self.labels[worst]}), effective size at least "
            f"{self.effective_size[least]:,.0f} ({self.labels[least]})"
        )


def split_r_hat(history: Float[np.ndarray, "kept chains s"]) -> Float[np.ndarray, " s"]:
    """Return √[((N−1)/N·W + B)/W] of each quantity, each chain cut into halves of N sweeps.

    W: the mean variance within a half, B: the variance of the halves' means. A trend within chains counts, too.
    """
    half = len(history) // 2
    parts = np.concatenate([history[:half], history[-half:]], axis=1)
    within = np.mean(np.var(parts, axis=0, ddof=1), axis=0)
    between = np.var(np.mean(parts, axis=0), axis=0, ddof=1)
    ratio = np.divide(between, within, out=np.where(between > 0, np.inf, 0.0), where=within > 0)
    return np.where(within + between > 0, np.sqrt((half - 1) / half + ratio), 1.0)


def effective_size(history: Float[np.ndarray, "kept chains s"]) -> Float[np.ndarray, " s"]:
    """Return CN/τ, τ = 1 + 2Σρ_t by Geyer's initial monotone sequence, chains taken together.

    ρ_t = 1 − (W − mean autocovariance at lag t)/V, with V the variance of all chains together.
    """
    kept, chains, _ = history.shape
    away = history - np.mean(history, axis=0)
    spectrum = np.fft.rfft(away, n=2 * kept, axis=0)
    lagged = np.mean(np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:kept], axis=1) / kept
    within = lagged[0] * kept / (kept - 1)
    whole = lagged[0] + (np.var(np.mean(history, axis=0), axis=0, ddof=1) if chains > 1 else 0.0)
    moves = whole > 0
    rho = 1 - (within - lagged) / np.where(moves, whole, 1.0)
    rho[0] = 1.0
    pairs = rho[: kept // 2 * 2].reshape(kept // 2, 2, -1).sum(axis=1)
    positive = np.cumprod(pairs > 0, axis=0)
    time = 2 * np.sum(np.minimum.accumulate(pairs, axis=0) * positive, axis=0) - 1
    # negative correlation may be luck: no draw counts for more than a few
    time = np.maximum(time, 1 / np.log10(max(10, chains * kept)))
    return np.where(moves, chains * kept / time, np.inf)


# Data augmentation: missing values and the model's parameters drawn in turn, by several chains at once.


FEWEST_CHAINS = 4  # fewer cannot be told from one another
FIRST_SWEEPS, LONGER, MOST_SWEEPS = 40, 1.5, 4000
WORTH_WATCHING = 0.01  # of the records: cells with fewer are too few to judge chains by
WITHIN = "spread within cells"
FARTHEST = 25  # sweeps between two draws of one chain that are both kept


@dataclass(frozen=True, eq=False)
class Augmentation:
    """Draws of a table's missing values given the observed ones, and the model given each completed table.

    They stand draw by draw, and within a draw chain by chain, so that the first `convergence.chains` come from
    different chains. `drawn`: cells and measurements of the records that lack any (`rows`). `missing`: the share
    of values that were missing, or known within bounds alone.
    """

    records: IncompleteRecords
    rows: Int[np.ndarray, " m"]
    drawn: tuple[MixedRecords, ...]
    posteriors: tuple[LocationModel, ...]
    convergence: Convergence
    missing: float

    @property
    def tables(self) -> tuple[MixedRecords, ...]:
        """The completed tables."""
        return self.first_tables(len(self.records))

    def first_tables(self, count: int) -> tuple[MixedRecords, ...]:
        """Return the first `count` records of each completed table."""
        cells, first = self.posteriors[0].cells, self.records.take(slice(count))
        filled = np.flatnonzero(self.rows < count)
        codes = np.where(first.codes == UNKNOWN, 0, first.codes)
        known = MixedRecords(cells.of_codes(codes), first.values, first.covariates)
        if not len(filled):
            return (known,) * len(self.drawn)
        return tuple(_with_rows(known, self.rows[filled], each.take(filled)) for each in self.drawn)

    @property
    def words(self) -> str:
        """What was done, in a sentence; nothing is filled in without being said."""
        if not self.missing:
            return "No value is missing."
        return (
            f"{percent(self.missing)} of the values are missing, and were drawn from the model given the observed "
            f"ones, which assumes that they are missing at random ({self.convergence.words})."
        )


def augment(
    records: IncompleteRecords,
    prior: LocationModel,
    rng: np.random.Generator,
    *,
    chains: int = FEWEST_CHAINS,
    draws: int = 1,
    columns: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> Augmentation:
    """Draw the missing values of a table `draws` times from each of at least four chains.

    A sweep draws the parameters given the completed table, then each record's missing values given these and what
    is observed of it (`GapFilling`). The chains begin far apart and go on until they agree (`Convergence`), or
    else it is an error that names what they do not agree on.
    Records that lack nothing are counted once, in the prior that the chains start from. Without missing values
    every table is the table itself, and every posterior the closed form.
    """
    gaps, rows = records.gaps, np.flatnonzero(records.is_open)
    chains = max(chains, FEWEST_CHAINS)
    if not len(rows):
        none = Convergence(chains, 0, (), np.zeros(0), np.zeros(0))
        posterior, nobody = (
            prior.update(records.complete(prior.cells)),
            MixedRecords.of([], np.zeros((0, prior.p))),
        )
        many = chains * draws
        return Augmentation(records, rows, (nobody,) * many, (posterior,) * many, none, 0.0)
    _require_enough(records, prior)
    complete = records.take(~records.is_open)
    start, table = prior.given(complete.complete(prior.cells)), records.take(rows)
    if start is None:  # too few complete records to stand alone
        start, table, complete, rows = prior, records, records.take(slice(0)), np.arange(len(records))
    require_memory(chains * (draws + 2) * table.values.size)
    names = _names(columns, prior.p, "measurement"), _names(categories, len(prior.cells.sizes), "category")
    with one_thread():
        sampler = _Sampler.start(table, complete, start, rng, chains, names)
        convergence = _converge(sampler, gaps, names[0] + names[1])
        kept = sampler.tables()
        for _ in range(draws - 1):
            for _ in range(min(FARTHEST, convergence.spacing)):
                sampler.sweep()
            kept += sampler.tables()
        posteriors = tuple(start.plus(each) for each in kept)
    touched = float(np.mean(np.concatenate([gaps[:, : prior.p] | records.bounded, gaps[:, prior.p :]], axis=1)))
    return Augmentation(records, rows, tuple(kept), posteriors, convergence, touched)


def _with_rows(table: MixedRecords, rows: Int[np.ndarray, " m"], drawn: MixedRecords) -> MixedRecords:
    """Return the table with some records as they were drawn."""
    cells, values = table.cells.copy(), table.values.copy()
    cells[rows], values[rows] = drawn.cells, drawn.values
    return MixedRecords(cells, values, table.covariates)


def _converge(sampler: "_Sampler", gaps: np.ndarray, names: tuple[str, ...]) -> Convergence:
    """Sweep until the later halves of the chains agree."""
    until = min(FIRST_SWEEPS, MOST_SWEEPS)
    while True:
        while len(sampler.history) < until:
            sampler.sweep()
        convergence = sampler.judge()
        if convergence.reached:
            return convergence
        if until >= MOST_SWEEPS:
            worst = names[int(np.argmax(np.mean(gaps, axis=0)))]
            raise InputError(
                f"the draws of the missing values have not converged: {convergence.words}",
                Cure(f"leave out the column with most gaps, {worst}", "drop", [worst]),
                Cure("give a prior from public knowledge", "prior"),
            )
        until = min(MOST_SWEEPS, int(LONGER * until))


@dataclass(eq=False)
class _Sampler:
    """Where all chains stand; `history` holds, for each sweep, what is watched of each chain's completed table."""

    prior: LocationModel
    filling: GapFilling
    rng: np.random.Generator
    cells: Int[np.ndarray, "chains n"]
    values: Float[np.ndarray, "chains n p"]
    watched: "_Watched"
    history: list[Float[np.ndarray, "chains s"]]

    @classmethod
    def start(
        cls,
        records: IncompleteRecords,
        complete: IncompleteRecords,
        prior: LocationModel,
        rng: np.random.Generator,
        chains: int,
        names: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> "_Sampler":
        seen = complete.joined(records)
        starts = [_starting_table(records, seen.values, prior, rng) for _ in range(chains)]
        cells, values = (np.stack(each) for each in zip(*starts, strict=True))
        return cls(
            prior,
            GapFilling.of(prior, records, chains),
            rng,
            cells,
            values,
            _Watched.of(records, complete, prior, *names),
            [],
        )

    def sweep(self) -> None:
        """Draw each chain's parameters, then its missing values."""
        known = self.filling.records.covariates
        posteriors = ChainPosteriors.of(self.prior, self.cells, self.values, known)
        self.history.append(self.watched.at(self.values, posteriors))
        self.filling.draw_into(self.cells, self.values, posteriors.draw(self.rng), self.rng)

    def tables(self) -> list[MixedRecords]:
        """Return the completed table of each chain."""
        known, pairs = self.filling.records.covariates, zip(self.cells, self.values, strict=True)
        return [MixedRecords(cells.copy(), values.copy(), known) for cells, values in pairs]

    def judge(self) -> Convergence:
        """Compare the later halves of the chains."""
        sweeps = len(self.history)
        return Convergence.of(sweeps, self.watched.labels, np.stack(self.history[sweeps // 2 :]))


@dataclass(frozen=True, eq=False)
class _Watched:
    """What chains are judged by: all that moves of means, spreads, correlations, and shares of levels and cells.

    `pairs`: columns of which at least one has gaps; the spread within cells stands for how measurements and
    categories hang together. Spreads are logarithms, correlations Fisher's z: both are nearly normal. `complete`:
    the records that lack nothing.
    """

    complete: Moments
    moving: Int[np.ndarray, " k"]
    pairs: tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]
    levels: Float[np.ndarray, "cells shares"]
    labels: tuple[str, ...]

    @classmethod
    def of(
        cls,
        records: IncompleteRecords,
        complete: IncompleteRecords,
        prior: LocationModel,
        columns: tuple[str, ...],
        categories: tuple[str, ...],
    ) -> "_Watched":
        gaps, cells = np.any(np.isnan(records.values) | records.bounded, axis=0), prior.cells
        (moving,) = np.nonzero(gaps)
        first, second = np.triu_indices(prior.p, 1)
        either = gaps[first] | gaps[second]
        pairs = first[either], second[either]
        labels = [f"{what} of {columns[at]}" for what in ("mean", "spread") for at in moving]
        labels += [f"correlation of {columns[one]} and {columns[two]}" for one, two in zip(*pairs, strict=True)]
        labels += [WITHIN] if cells.sizes else []
        shares: list[np.ndarray] = []
        unknown = np.any(records.codes == UNKNOWN, axis=0)
        for place in np.flatnonzero(unknown):
            shares += list(np.eye(cells.sizes[place])[:, cells.codes[:, place]])
            labels += [f"share of level {level + 1} of {categories[place]}" for level in range(cells.sizes[place])]
        if np.sum(unknown) and len(cells.sizes) > 1:
            codes = np.concatenate([complete.codes, records.codes[np.all(records.codes != UNKNOWN, axis=1)]])
            counts = np.bincount(cells.of_codes(codes), minlength=cells.count)
            for cell in np.flatnonzero(counts >= WORTH_WATCHING * (len(records) + len(complete))):
                shares.append(np.eye(cells.count)[cell])
                labels.append(f"share of cell {cell + 1}")
        table = np.stack(shares, axis=1) if shares else np.zeros((cells.count, 0))
        seen = Moments.of(complete.values) if len(complete) else Moments.none(prior.p, like=complete.values)
        return cls(seen, moving, pairs, table, tuple(labels))

    def at(
        self, values: Float[np.ndarray, "chains n p"], posteriors: ChainPosteriors
    ) -> Float[np.ndarray, "chains s"]:
        """Return what is watched, of each completed table."""
        drawn = np.mean(values, axis=1)
        away = values - drawn[:, None]
        count, n = float(self.complete.count), values.shape[1]
        apart = drawn - self.complete.mean
        mean = self.complete.mean + n / (n + count) * apart
        scatter = away.swapaxes(1, 2) @ away + self.complete.scatter
        scatter = scatter + n * count / (n + count) * apart[:, :, None] * apart[:, None, :]
        spread = np.sqrt(np.diagonal(scatter, axis1=1, axis2=2))
        first, second = self.pairs
        correlation = scatter[:, first, second] / (spread[:, first] * spread[:, second])
        correlation = np.arctanh(np.clip(correlation, -1 + 1e-12, 1 - 1e-12))
        within = posteriors.log_spread[:, None] if WITHIN in self.labels else mean[:, :0]
        weights = posteriors.weights
        shares = weights @ self.levels / weights.sum(axis=1, keepdims=True)
        moving = (mean[:, self.moving], np.log(spread[:, self.moving]))
        return np.concatenate([*moving, correlation, within, shares], axis=1)


def _starting_table(
    records: IncompleteRecords, seen: Float[np.ndarray, "all p"], prior: LocationModel, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "n p"]]:
    """Fill the gaps such that chains begin far apart, and yet within what the whole table holds, which is `seen`.

    In each chain the missing values of a column have a mean off by about a standard deviation, a spread from half
    to one and a half, and some correlation, of either sign, with the mean of what is observed of the record; the
    missing levels of a category have shares of their own. Bounded values are spread within their bounds, or up to
    some standard deviations beyond the one that is finite.
    """
    values, codes = records.values.copy(), records.codes.copy()
    missing, n = np.isnan(values), len(values)
    count = np.maximum(np.sum(~np.isnan(seen), axis=0), 1)
    mean = np.nansum(seen, axis=0) / count
    spread = np.sqrt(np.nansum((seen - mean) ** 2, axis=0) / count)
    shared = np.nansum((values - mean) / np.where(spread > 0, spread, 1.0), axis=1, keepdims=True)
    shared = shared / np.sqrt(np.maximum(np.sum(~missing, axis=1, keepdims=True), 1))
    lean = rng.uniform(-1, 1, size=prior.p)
    off, width = rng.standard_normal(prior.p), rng.uniform(0.5, 1.5, size=prior.p)
    noise = lean * shared + np.sqrt(1 - lean**2) * rng.standard_normal(values.shape)
    values = np.where(missing, mean + spread * (off + width * noise), values)
    values = np.where(records.bounded, _somewhere(records, spread, rng), values)
    for place, size in enumerate(prior.cells.sizes):
        drawn = rng.choice(size, size=n, p=rng.dirichlet(np.ones(size)))
        codes[:, place] = np.where(codes[:, place] == UNKNOWN, drawn, codes[:, place])
    return prior.cells.of_codes(codes), values


def _somewhere(
    records: IncompleteRecords, spread: Float[np.ndarray, " p"], rng: np.random.Generator
) -> Float[np.ndarray, "n p"]:
    """Return values within their bounds, in each chain and column near another place of these."""
    reach = spread * rng.uniform(0.1, 2.0, size=len(spread))
    low = np.where(np.isinf(records.low), records.high - reach, records.low)
    high = np.where(np.isinf(records.high), records.low + reach, records.high)
    return low + (high - low) * rng.random(records.values.shape)


def _require_enough(records: IncompleteRecords, prior: LocationModel) -> None:
    """Refuse what no chain can be run on: a column that nobody has, a cell whose spread nobody tells."""
    if np.any(np.all(np.isnan(records.values), axis=0)):
        raise InputError("a measurement is missing of every record", Cure("leave that column out", "drop"))
    if isinstance(prior.measured, Regression) or not prior.measured.is_flat:
        return
    whole = np.all(records.codes != UNKNOWN, axis=1)
    counts = np.bincount(prior.cells.of_codes(records.codes[whole]), minlength=prior.cells.count)
    few = int(np.sum(counts <= prior.p + 1))
    if few:
        raise InputError(
            f"separate cells need at least {prior.p + 2} records with all their categories in each cell without a "
            f"prior, and {few} of {counted(prior.cells.count, 'cell')} have fewer",
            Cure("give a prior from public knowledge", "prior"),
            Cure("let the cells share one spread", "cells", MAIN_EFFECTS),
        )


def _names(given: Sequence[str], count: int, noun: str) -> tuple[str, ...]:
    return tuple(given) or tuple(f"{noun} {place + 1}" for place in range(count))
