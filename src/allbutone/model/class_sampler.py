"""The Gibbs sampler of classes: classes, values that are missing, hyperparameters and parameters, in turn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.augmentation import Convergence
from allbutone.model.classes import (
    ClassModel,
    ClassParameters,
    ClassPosteriors,
    choose,
    draw_bartlett,
    refuse_degenerate,
    require_enough_records,
)
from allbutone.model.incomplete import IncompleteRecords, draw_between
from allbutone.model.moments import UNKNOWN
from allbutone.support.arrays import half_log_det, log_sum_exp, root_of_inverse

NUMBERS_HELD = 1 << 19  # while records are weighed against classes: what stays in the cache
WATCHED = ("density of the records", "evenness of the classes", "share of the largest class")


@dataclass(eq=False)
class ClassChains:
    """Where several chains stand: the class of each record, its values, μ₀, Λ₀ = LLᵀ, and the parameters.

    `values` has one table for all chains where nothing is missing. `history`: after each sweep, what is watched of
    each chain, none of which depends on how classes are numbered.
    """

    model: ClassModel
    records: IncompleteRecords
    rng: np.random.Generator
    classes: Int[np.ndarray, "c n"]
    values: Float[np.ndarray, "#c n p"]
    centre: Float[np.ndarray, "c p"]
    root: Float[np.ndarray, "c p p"]
    history: list[Float[np.ndarray, "c s"]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Sort the records by what they lack, and draw the first parameters."""
        self.places: Int[np.ndarray, "n q"] = self.model.places(self.records.codes)
        self.patterns: tuple[_Pattern, ...] = _patterns(self.records)
        self.parameters: ClassParameters = self.posteriors().draw(self.rng)

    @classmethod
    def start(
        cls, model: ClassModel, records: IncompleteRecords, rng: np.random.Generator, chains: int
    ) -> "ClassChains":
        """Begin far apart: in each chain another number of records are centres, and who is nearest joins them."""
        require_enough_records(records)
        try:
            return cls._start(model, records, rng, chains)
        except np.linalg.LinAlgError as error:
            refuse_degenerate(error)

    @classmethod
    def _start(
        cls, model: ClassModel, records: IncompleteRecords, rng: np.random.Generator, chains: int
    ) -> "ClassChains":
        n = len(records)
        values = np.ascontiguousarray(_filled(records))  # in whatever order the numbers lie in memory
        mean = np.mean(values, axis=0)
        root = np.linalg.cholesky((values - mean).T @ (values - mean) / n)
        white = np.linalg.solve(root, (values - mean).T).T
        classes = np.empty((chains, n), dtype=np.int64)
        for chain in range(chains):
            centres = rng.choice(n, size=min(n, model.classes), replace=False)
            far = [np.sum((white - white[one]) ** 2, axis=1) for one in centres]
            differ = [np.sum(records.codes != records.codes[one], axis=1) for one in centres]
            classes[chain] = np.argmin(np.add(far, 2.0 * np.array(differ)), axis=0)
        return cls(
            model,
            records,
            rng,
            classes,
            np.repeat(values[None], _tables(records, chains), axis=0),
            np.repeat(mean[None], chains, axis=0),
            np.repeat(root[None], chains, axis=0),
        )

    def with_more(self, further: IncompleteRecords, rng: np.random.Generator) -> "ClassChains":
        """Return chains on these records and further ones, that begin where these stand."""
        few = ClassChains(
            self.model,
            further,
            rng,
            np.zeros((len(self.classes), len(further)), dtype=np.int64),
            np.repeat(_filled(further)[None], _tables(further, len(self.classes)), axis=0),
            self.centre,
            self.root,
        )
        few.parameters = self.parameters
        few.classes = choose(few.log_weights(), rng.random(few.classes.shape))
        few.draw_values()
        records, tables = self.records.joined(further), max(len(self.values), len(few.values))
        values = [np.broadcast_to(each, (tables, *each.shape[1:])) for each in (self.values, few.values)]
        return ClassChains(
            self.model,
            records,
            rng,
            np.concatenate([self.classes, few.classes], axis=1),
            np.concatenate(values, axis=1),
            self.centre,
            self.root,
        )

    def without(self, person: int, rng: np.random.Generator) -> "ClassChains":
        """Return chains on the other records, that begin where these stand."""
        rest = np.delete(np.arange(len(self.records)), person)
        records, classes, values = self.records.take(rest), self.classes[:, rest], self.values[:, rest]
        return ClassChains(self.model, records, rng, classes, values, self.centre, self.root)

    def posteriors(self) -> ClassPosteriors:
        """Return what each chain's classes, μ₀ and Λ₀ say of the parameters."""
        scale = self.root @ np.swapaxes(self.root, -1, -2)
        return ClassPosteriors.of(self.model, self.classes, self.values, self.places, self.centre, scale)

    def sweep(self) -> None:
        """Draw classes, values that are not known, μ₀ and Λ₀, and parameters, each given all others."""
        try:
            self._sweep()
        except np.linalg.LinAlgError as error:
            refuse_degenerate(error)

    def _sweep(self) -> None:
        logs = self.log_weights()
        self.classes = choose(logs, self.rng.random(self.classes.shape))
        self._watch(logs)
        self.draw_values()
        self._draw_hyperparameters()
        self.parameters = self.posteriors().draw(self.rng)

    def log_weights(self) -> Float[np.ndarray, "c n k"]:
        """Return log[share · density of what is observed] of each record in each class."""
        return log_weights(self.parameters, self.patterns, self.values, self.places)

    @property
    def convergence(self) -> Convergence:
        """What the later halves of the chains say about themselves."""
        sweeps = len(self.history)
        return Convergence.of(sweeps, WATCHED, np.stack(self.history[sweeps // 2 :]))

    def state(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return where the chains stand: classes, values, μ₀ and Λ₀."""
        scale = self.root @ np.swapaxes(self.root, -1, -2)
        return self.classes.copy(), self.values.copy(), self.centre.copy(), scale

    def _watch(self, logs: Float[np.ndarray, "c n k"]) -> None:
        density = np.mean(log_sum_exp(logs, axis=2), axis=1)
        counts = np.stack([np.bincount(each, minlength=self.model.classes) for each in self.classes])
        shares = counts / len(self.records)
        evenness = -np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=1)
        self.history.append(np.stack([density, evenness, np.max(shares, axis=1)], axis=1))

    def draw_values(self) -> None:
        """Draw what is missing of each record given its class, then what is known within bounds."""
        for pattern in self.patterns:
            if not pattern.is_whole:
                pattern.draw_into(self.values, self.classes, self.parameters, self.rng)
        bounded = self.records.bounded
        if not bounded.any():
            return
        halves, means = self.parameters.halves, self.parameters.means
        precisions = np.swapaxes(halves, -1, -2) @ halves
        chains = np.arange(len(self.classes))[:, None]
        for column in np.flatnonzero(bounded.any(axis=0)):
            (rows,) = np.nonzero(bounded[:, column])
            own = self.classes[:, rows]
            lines, away = precisions[:, :, column][chains, own], self.values[:, rows] - means[chains, own]
            narrow = lines[..., column]
            middle = self.values[:, rows, column] - np.sum(lines * away, axis=-1) / narrow
            bounds = self.records.low[rows, column], self.records.high[rows, column]
            self.values[:, rows, column] = draw_between(middle, narrow**-0.5, *bounds, self.rng)

    def _draw_hyperparameters(self) -> None:
        """Draw Λ₀ ~ W(K₊ν₀, M⁻¹) and μ₀ ~ N(M⁻¹Σ_c Σ_c⁻¹μ_c, M⁻¹/κ₀), M = Σ_c Σ_c⁻¹.

        By the K₊ classes with records: those of an empty class are drawn after it from the prior, and say nothing.
        """
        model, now = self.model, self.parameters
        if not model.p:
            return
        full = np.stack([np.bincount(each, minlength=model.classes) > 0 for each in self.classes])
        halves = np.where(full[..., None, None], now.halves, 0.0)
        precisions = np.swapaxes(halves, -1, -2) @ halves
        inverse_root, _ = root_of_inverse(np.sum(precisions, axis=1))
        df = model.df * np.sum(full, axis=1).astype(float)
        self.root = inverse_root @ draw_bartlett(self.rng, df, model.p)
        pull = np.sum(precisions @ now.means[..., None], axis=1)
        white = self.rng.standard_normal((*self.centre.shape, 1)) / np.sqrt(model.mean_weight)
        self.centre = (inverse_root @ (np.swapaxes(inverse_root, -1, -2) @ pull + white))[..., 0]


def _tables(records: IncompleteRecords, chains: int) -> int:
    """Return how many tables of values there are: one for all chains where nothing is drawn."""
    return chains if np.isnan(records.values).any() or records.bounded.any() else 1


def _filled(records: IncompleteRecords) -> Float[np.ndarray, "n p"]:
    """Return the values with each gap at its column's mean, or at 0 where nobody has a value."""
    there = ~np.isnan(records.values)
    mean = np.sum(records.values, axis=0, where=there) / np.maximum(np.sum(there, axis=0), 1)
    return np.where(there, records.values, mean)


def draw_rest(
    parameters: ClassParameters, kept: IncompleteRecords, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "n q"], Float[np.ndarray, "n p"]]:
    """Draw level numbers and measurements of records given what is there of them, by one draw's parameters.

    First the class of each given what is there, then the rest given class and measurements.
    """
    model, patterns, values = parameters.model, _patterns(kept), _filled(kept)[None].copy()
    classes = choose(
        log_weights(parameters, patterns, values, model.places(kept.codes)), rng.random((1, len(kept)))
    )
    for pattern in patterns:
        if not pattern.is_whole:
            pattern.draw_into(values, classes, parameters, rng)
    codes = np.where(kept.codes == UNKNOWN, parameters.draw_levels(rng, classes[0]), kept.codes)
    return codes, values[0]


def log_weights(
    now: ClassParameters,
    patterns: "tuple[_Pattern, ...]",
    values: Float[np.ndarray, "#c n p"],
    places: Int[np.ndarray, "n q"],
) -> Float[np.ndarray, "c n k"]:
    """Return log[share · density of what is observed] of each record in each class."""
    found = np.repeat(now.log_shares[:, None], len(places), axis=1)
    for pattern in patterns:
        found[:, pattern.rows] += pattern.log_densities(now, values)
    for column in places.T:
        found += np.swapaxes(now.log_levels[..., column], 1, 2)
    return found


# ------------------------------------------------------------------------------------------- draws that are kept


CHAINS = 8  # each begins elsewhere
FIRST_SWEEPS, LONGER, MOST_SWEEPS = 100, 1.5, 500
APART = 5  # sweeps between two draws of one chain that are both kept


@dataclass(frozen=True, eq=False)
class ClassDraws:
    """Draws of every record's class, of its missing values, and of μ₀ and Λ₀, given a table.

    They stand draw by draw, and within a draw chain by chain. `parameters` belong to the last draw of each chain.
    """

    model: ClassModel
    records: IncompleteRecords
    classes: Int[np.ndarray, "d n"]
    values: Float[np.ndarray, "#d n p"]
    centre: Float[np.ndarray, "d p"]
    scale: Float[np.ndarray, "d p p"]
    chains: int
    convergence: Convergence

    def __len__(self) -> int:
        """Return the number of draws."""
        return len(self.classes)

    @cached_property
    def posteriors(self) -> ClassPosteriors:
        """What each draw says of the parameters of each class."""
        places = self.model.places(self.records.codes)
        return ClassPosteriors.of(self.model, self.classes, self.values, places, self.centre, self.scale)


def draw_classes(
    chains: ClassChains,
    draws: int,
    *,
    apart: int = APART,
    most_sweeps: int = MOST_SWEEPS,
    watch: Callable[[int], None] = lambda sweeps: None,
) -> ClassDraws:
    """Sweep until the later halves of the chains agree, or long enough; then keep `draws` of each, sweeps `apart`.

    Chains that do not agree are no error: which classes there are is something that a table may say little about,
    and `convergence` tells. What they say of the next record is averaged over all chains.
    """
    until = min(FIRST_SWEEPS, most_sweeps)
    while True:
        while len(chains.history) < until:
            chains.sweep()
            watch(len(chains.history))
        convergence = chains.convergence
        if convergence.reached or until >= most_sweeps:
            break
        until = min(most_sweeps, int(LONGER * until))
    kept = [chains.state()]
    for _ in range(draws - 1):
        for _ in range(apart):
            chains.sweep()
        watch(len(chains.history))
        kept.append(chains.state())
    classes, values, centre, scale = (np.concatenate(each) for each in zip(*kept, strict=True))
    values = values if len(chains.values) > 1 else chains.values
    count = len(chains.classes)
    return ClassDraws(chains.model, chains.records, classes, values, centre, scale, count, convergence)


def draw_with_kept(
    begun: ClassChains,
    kept: IncompleteRecords | None,
    rng: np.random.Generator,
    draws: int,
    *,
    apart: int = APART,
    watch: Callable[[int], None] = lambda sweeps: None,
) -> ClassDraws:
    """Draw classes given a table and, where columns are kept, new people of whom these are all that is known.

    What they lack is what goes out, by a law that is p(table, new people)/p(table, what is kept of them).
    """
    if kept is None:
        return draw_classes(begun, draws, apart=apart, watch=watch)
    draw_classes(begun, 1, most_sweeps=FIRST_SWEEPS, watch=watch)  # the new people join chains that know the table
    return draw_classes(begun.with_more(kept, rng), draws, apart=apart, watch=watch)


# --------------------------------------------------------------------- records that lack the same measurements


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Records of which the same measurements are missing: with all columns in the `order` observed, missing."""

    rows: Int[np.ndarray, " m"]
    order: Int[np.ndarray, " p"]
    observed: int

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self.observed == len(self.order)

    def log_densities(
        self, now: ClassParameters, values: Float[np.ndarray, "#c n p"]
    ) -> Float[np.ndarray, "c m k"]:
        """Return the log density, but for (2π)^(−o/2), of what is observed of each record in each class."""
        seen = self.order[: self.observed]
        halves, sizes = now.halves, now.sizes
        if not self.is_whole:
            halves = np.linalg.inv(np.linalg.cholesky(now.covariances[..., seen[:, None], seen]))
            sizes = half_log_det(halves)
        middle = (halves @ now.means[..., seen, None])[..., 0]
        chains, classes, o = middle.shape
        found, step = np.empty((chains, len(self.rows), classes)), max(1, NUMBERS_HELD // max(1, classes * o))
        for chain in range(chains):
            table, turn = values[chain if len(values) > 1 else 0], halves[chain].reshape(classes * o, o).T
            for at in range(0, len(self.rows), step):
                some = table[self.rows[at : at + step]]
                white = ((some if self.is_whole else some[:, seen]) @ turn).reshape(
                    len(some), classes, o
                ) - middle[chain]
                found[chain, at : at + step] = sizes[chain] - 0.5 * np.einsum("nko,nko->nk", white, white)
        return found

    def draw_into(
        self,
        values: Float[np.ndarray, "c n p"],
        classes: Int[np.ndarray, "c n"],
        now: ClassParameters,
        rng: np.random.Generator,
    ) -> None:
        """Draw what is missing: with Σ = LLᵀ in this order and x_o = μ_o + L_oo·w,

        x_m = μ_m + L_mo·w + L_mm·N(0, I)
        """
        o, order = self.observed, self.order
        roots = np.linalg.cholesky(now.covariances[..., order[:, None], order])
        noise = rng.standard_normal((len(classes), len(self.rows), len(order) - o))
        for chain, each in enumerate(classes[:, self.rows]):
            for place in np.unique(each):
                own = np.flatnonzero(each == place)
                rows, root, mean = self.rows[own], roots[chain, place], now.means[chain, place][order]
                white = np.linalg.solve(root[:o, :o], (values[chain, rows[:, None], order[:o]] - mean[:o]).T).T
                white = np.concatenate([white, noise[chain, own]], axis=1)
                values[chain, rows[:, None], order[o:]] = mean[o:] + white @ root[o:].T


def _patterns(records: IncompleteRecords) -> tuple[_Pattern, ...]:
    """Sort the records by which measurements are missing."""
    if not records.values.shape[1]:
        return ()
    found, which = np.unique(np.isnan(records.values), axis=0, return_inverse=True)
    return tuple(
        _Pattern(
            np.flatnonzero(which.ravel() == number), np.argsort(missing, kind="stable"), int(np.sum(~missing))
        )
        for number, missing in enumerate(found)
    )
