"""The Gibbs sampler of classes: classes, values that are missing, hyperparameters and parameters, in turn."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.model.augmentation import Convergence
from allbutone.model.classes import (
    ClassModel,
    ClassParameters,
    ClassPosteriors,
    ClassSums,
    choose,
    draw_bartlett,
    refuse_degenerate,
    require_enough_records,
)
from allbutone.model.incomplete import IncompleteRecords, draw_between
from allbutone.model.moments import UNKNOWN
from allbutone.support.arrays import (
    array_namespace,
    as_array,
    as_places,
    half_log_det,
    root_of_inverse,
    sum_of_products,
    to_numpy,
    zeros,
)
from allbutone.support.devices import more_at_once, moved_to

# What there is of each record (classes, values, levels) lies where the sweep runs, here or on a device; what there
# is of each class is small, and stays on the processor, where all random numbers are drawn: the same draws come
# out of both.

Array = Any

NUMBERS_HELD = 1 << 17  # while records are weighed against classes: what stays in the cache
WATCHED = ("density of the records", "evenness of the classes", "share of the largest class")


@dataclass(eq=False)
class ClassChains:
    """Where several chains stand: the class of each record, its values, μ₀, Λ₀ = LLᵀ, and the parameters.

    `values` has one table for all chains where nothing is missing. `device`: of PyTorch's, where records lie,
    if not here. `history`: after each sweep, what is watched of each chain, none of which depends on how
    classes are numbered.
    """

    model: ClassModel
    records: IncompleteRecords
    rng: np.random.Generator
    classes: Int[Array, "c n"]
    values: Float[Array, "#c n p"]
    centre: Float[np.ndarray, "c p"]
    root: Float[np.ndarray, "c p p"]
    device: Any = None
    history: list[Float[np.ndarray, "c s"]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Sort the records by what they lack, and draw the first parameters."""
        self.places: Any
        self.places, self.classes, self.values = (
            moved_to(self.device, each)
            for each in (self.model.places(self.records.codes), self.classes, self.values)
        )
        self.patterns: tuple[_Pattern, ...] = _patterns(self.records)
        self.parameters: ClassParameters = self.posteriors().draw(self.rng)

    @classmethod
    def start(
        cls,
        model: ClassModel,
        records: IncompleteRecords,
        rng: np.random.Generator,
        chains: int,
        device: Any = None,
    ) -> "ClassChains":
        """Begin far apart: in each chain another number of records are centres, and who is nearest joins them."""
        require_enough_records(records)
        try:
            return cls._start(model, records, rng, chains, device)
        except np.linalg.LinAlgError as error:
            refuse_degenerate(error)

    @classmethod
    def _start(
        cls, model: ClassModel, records: IncompleteRecords, rng: np.random.Generator, chains: int, device: Any
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
            device,
        )

    def with_more(self, further: IncompleteRecords, rng: np.random.Generator) -> "ClassChains":
        """Return chains on these records and further ones, that begin where these stand."""
        chains, xp = len(self.classes), array_namespace(self.values)
        few = self._on(
            further,
            rng,
            np.zeros((chains, len(further)), dtype=np.int64),
            np.repeat(_filled(further)[None], _tables(further, chains), axis=0),
        )
        few.parameters = self.parameters
        few.classes, _ = choose(few.log_weights(), few.uniform())
        few.draw_values()
        tables = max(len(self.values), len(few.values))
        values = [xp.broadcast_to(each, (tables, *each.shape[1:])) for each in (self.values, few.values)]
        classes = xp.concat([self.classes, few.classes], axis=1)
        return self._on(self.records.joined(further), rng, classes, xp.concat(values, axis=1))

    def without(self, person: int, rng: np.random.Generator) -> "ClassChains":
        """Return chains on the other records, that begin where these stand."""
        rest = np.delete(np.arange(len(self.records)), person)
        there = as_array(rest, like=self.classes)
        return self._on(self.records.take(rest), rng, self.classes[:, there], self.values[:, there])

    def _on(
        self, records: IncompleteRecords, rng: np.random.Generator, classes: Array, values: Array
    ) -> "ClassChains":
        """Return chains on other records."""
        return ClassChains(self.model, records, rng, classes, values, self.centre, self.root, self.device)

    @property
    def scale(self) -> Float[np.ndarray, "c p p"]:
        """Λ₀."""
        return self.root @ np.swapaxes(self.root, -1, -2)

    def posteriors(self) -> ClassPosteriors:
        """Return what each chain's classes, μ₀ and Λ₀ say of the parameters."""
        return ClassPosteriors.given(self.model, self._sums(), self.centre, self.scale)

    def _sums(self) -> ClassSums:
        return ClassSums.of(self.model, self.classes, self.values, self.places)

    def sweep(self) -> None:
        """Draw classes, values that are not known, μ₀ and Λ₀, and parameters, each given all others."""
        try:
            self._sweep()
        except np.linalg.LinAlgError as error:
            refuse_degenerate(error)

    def _sweep(self) -> None:
        self.classes, densities = choose(self.log_weights(), self.uniform())
        self.draw_values()
        sums = self._sums()
        self._watch(to_numpy(array_namespace(densities).mean(densities, axis=1)), sums.counts)
        self._draw_hyperparameters(sums.counts > 0)
        self.parameters = ClassPosteriors.given(self.model, sums, self.centre, self.scale).draw(self.rng)

    def uniform(self) -> Float[Array, "c n"]:
        """Draw a uniform number for each record of each chain."""
        return as_array(self.rng.random(tuple(self.classes.shape)), like=self.values)

    def log_weights(self) -> Float[Array, "c k n"]:
        """Return log[share · density of what is observed] of each record in each class."""
        return log_weights(self.parameters, self.patterns, self.values, self.places)

    @property
    def convergence(self) -> Convergence:
        """What the later halves of the chains say about themselves."""
        sweeps = len(self.history)
        return Convergence.of(sweeps, WATCHED, np.stack(self.history[sweeps // 2 :]))

    def state(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return where the chains stand: classes, values, μ₀ and Λ₀."""
        classes, values = (np.array(to_numpy(each)) for each in (self.classes, self.values))
        return classes, values, self.centre.copy(), self.scale

    def _watch(self, density: Float[np.ndarray, " c"], counts: Float[np.ndarray, "c k"]) -> None:
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
        halves = self.parameters.halves
        means, precisions, chains = (
            as_array(each, like=self.values)
            for each in (
                self.parameters.means,
                np.swapaxes(halves, -1, -2) @ halves,
                np.arange(len(halves))[:, None],
            )
        )
        away = self.values - means[chains, self.classes]
        for column in np.flatnonzero(bounded.any(axis=0)).tolist():
            (known,) = np.nonzero(bounded[:, column])
            rows = as_array(known, like=self.values)
            lines = precisions[:, :, column][chains, self.classes[:, rows]]
            narrow, before = lines[..., column], self.values[:, rows, column]
            middle = before - sum_of_products(lines, away[:, rows], axis=2) / narrow
            bounds = self.records.low[known, column], self.records.high[known, column]
            drawn = draw_between(to_numpy(middle), to_numpy(narrow) ** -0.5, *bounds, self.rng)
            self.values[:, rows, column] = as_array(drawn, like=self.values)
            away[:, rows, column] += self.values[:, rows, column] - before

    def _draw_hyperparameters(self, full: Bool[np.ndarray, "c k"]) -> None:
        """Draw Λ₀ ~ W(K₊ν₀, M⁻¹) and μ₀ ~ N(M⁻¹Σ_c Σ_c⁻¹μ_c, M⁻¹/κ₀), M = Σ_c Σ_c⁻¹.

        By the K₊ classes with records, the `full` ones: those of an empty class are drawn after it from the prior,
        and say nothing.
        """
        model, now = self.model, self.parameters
        if not model.p:
            return
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
    logs = log_weights(parameters, patterns, values, model.places(kept.codes))
    classes, _ = choose(logs, rng.random((1, len(kept))))
    for pattern in patterns:
        if not pattern.is_whole:
            pattern.draw_into(values, classes, parameters, rng)
    codes = np.where(kept.codes == UNKNOWN, parameters.draw_levels(rng, classes[0]), kept.codes)
    return codes, values[0]


def log_weights(
    now: ClassParameters,
    patterns: "tuple[_Pattern, ...]",
    values: Float[Array, "#c n p"],
    places: Int[Array, "n q"],
) -> Float[Array, "c k n"]:
    """Return log[share · density of what is observed] of each record in each class."""
    logs = zeros((*now.log_shares.shape, len(places)), like=values)
    logs += as_array(now.log_shares, like=values)[..., None]
    for pattern in patterns:
        pattern.add_log_densities(now, values, logs)
    levels = as_array(now.log_levels, like=values)
    for column in range(places.shape[1]):
        logs += levels[..., places[:, column]]
    return logs


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
) -> ClassDraws:
    """Sweep until the later halves of the chains agree, or long enough; then keep `draws` of each, sweeps `apart`.

    Chains that do not agree are no error: which classes there are is something that a table may say little about,
    and `convergence` tells. What they say of the next record is averaged over all chains.
    """
    until = min(FIRST_SWEEPS, most_sweeps)
    while True:
        while len(chains.history) < until:
            chains.sweep()
        convergence = chains.convergence
        if convergence.reached or until >= most_sweeps:
            break
        until = min(most_sweeps, int(LONGER * until))
    kept = [chains.state()]
    for _ in range(draws - 1):
        for _ in range(apart):
            chains.sweep()
        kept.append(chains.state())
    classes, values, centre, scale = (np.concatenate(each) for each in zip(*kept, strict=True))
    values = values if len(chains.values) > 1 else to_numpy(chains.values)
    count = len(chains.classes)
    return ClassDraws(chains.model, chains.records, classes, values, centre, scale, count, convergence)


def draw_with_kept(
    begun: ClassChains,
    kept: IncompleteRecords | None,
    rng: np.random.Generator,
    draws: int,
    *,
    apart: int = APART,
) -> ClassDraws:
    """Draw classes given a table and, where columns are kept, new people of whom these are all that is known.

    What they lack is what goes out, by a law that is p(table, new people)/p(table, what is kept of them).
    """
    if kept is None:
        return draw_classes(begun, draws, apart=apart)
    draw_classes(begun, 1, most_sweeps=FIRST_SWEEPS)  # the new people join chains that know the table
    return draw_classes(begun.with_more(kept, rng), draws, apart=apart)


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

    def blocks(self, numbers: int, like: Array) -> Iterator[Any]:
        """Return places of some records at a time, of each of which so many numbers are held."""
        step = max(1, more_at_once(NUMBERS_HELD, like=like) // max(1, numbers))
        for at in range(0, len(self.rows), step):
            yield as_places(self.rows[at : at + step], like=like)

    def add_log_densities(
        self, now: ClassParameters, values: Float[Array, "#c n p"], found: Float[Array, "c k n"]
    ) -> None:
        """Add the log density, but for (2π)^(−o/2), of what is observed of each record in each class."""
        seen = self.order[: self.observed]
        halves, sizes = now.halves, now.sizes
        if not self.is_whole:
            halves = np.linalg.inv(np.linalg.cholesky(now.covariances[..., seen[:, None], seen]))
            sizes = half_log_det(halves)
        chains, classes, o = halves.shape[:3]
        turn = as_array(np.swapaxes(halves.reshape(chains, classes * o, o), 1, 2), like=values)
        middle = as_array((halves @ now.means[..., seen, None]).reshape(chains, 1, classes * o), like=values)
        sizes = as_array(sizes, like=values)[..., None]
        # here chain after chain, so that all stays in the cache; a device takes all at once
        at_once = 1 if isinstance(values, np.ndarray) else chains
        columns = slice(None) if self.is_whole else as_array(seen, like=values)
        for at in range(0, chains, at_once):
            some = slice(at, at + at_once)
            table = values[some] if len(values) > 1 else values
            for rows in self.blocks(at_once * classes * o, values):
                white = table[:, rows][..., columns] @ turn[some]
                white -= middle[some]
                white = white.reshape(*white.shape[:2], classes, o)
                squared = sum_of_products(white, white, axis=3)
                found[some, :, rows] += sizes[some] - 0.5 * squared.swapaxes(1, 2)

    def draw_into(
        self,
        values: Float[Array, "c n p"],
        classes: Int[Array, "c n"],
        now: ClassParameters,
        rng: np.random.Generator,
    ) -> None:
        """Draw what is missing, in place: with Σ = LLᵀ in this order, and z ~ N(0, I),

        x_m = μ_m + L_mo·L_oo⁻¹(x_o − μ_o) + L_mm·z
        """
        o, p, order = self.observed, len(self.order), self.order
        roots, means = np.linalg.cholesky(now.covariances[..., order[:, None], order]), now.means[..., order]
        upper, lower = (np.swapaxes(each, -1, -2) for each in (roots[..., :o, :o], roots[..., o:, :o]))
        pull = np.swapaxes(np.linalg.solve(upper, lower), -1, -2)
        middle = means[..., o:, None] - pull @ means[..., :o, None]
        turns = as_array(np.concatenate([pull, roots[..., o:, o:], middle], axis=-1), like=values)
        noise = as_array(rng.standard_normal((len(classes), len(self.rows), p - o)), like=values)
        chains = as_array(np.arange(len(classes))[:, None], like=values)
        order, xp, at = as_array(order, like=values), array_namespace(values), 0
        for rows in self.blocks(len(classes) * (p - o) * (p + 1), values):
            there = values[:, rows]
            known, some = there[..., order[:o]], noise[:, at : at + there.shape[1]]
            at += there.shape[1]
            told = xp.concat([known, some, xp.ones_like(there[..., :1])], axis=2)
            there[..., order[o:]] = sum_of_products(turns[chains, classes[:, rows]], told[:, :, None], axis=3)
            values[:, rows] = there


def _patterns(records: IncompleteRecords) -> tuple[_Pattern, ...]:
    """Sort the records by which measurements are missing."""
    if not records.values.shape[1]:
        return ()
    patterns, which = np.unique(np.isnan(records.values), axis=0, return_inverse=True)
    return tuple(
        _Pattern(
            np.flatnonzero(which.ravel() == number), np.argsort(missing, kind="stable"), int(np.sum(~missing))
        )
        for number, missing in enumerate(patterns)
    )
