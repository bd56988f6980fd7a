"""Classes that nobody has observed: within each, measurements are normal and categories independent.

Which class a record is in is one more category, missing for everyone. Given the classes all is conjugate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log, pi
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.moments import UNKNOWN
from allbutone.support.arrays import array_namespace, as_array, half_log_det, log_sum_exp, to_numpy, zeros
from allbutone.support.errors import Cure, InputError, count_of

Array = Any  # of NumPy's, or of PyTorch's on a device: where the records are

CLASSES = 10  # the most that are filled, unless asked otherwise; those that are not needed stay empty
MOST_CLASSES = 100
ALL_CLASSES = 1.0  # records that the weights of all classes together are worth
ALL_LEVELS = 1.0  # records that the weights of all levels of a category are worth in each class
MEAN_WEIGHT = 0.02  # κ₀: class means lie some seven of their class's standard deviations around their centre
NUMBERS_HELD = 1 << 19  # while points are whitened: what stays in the cache
MORE_DF = 10.0  # ν₀ − p: a class of fewer records has, by and large, the shape that classes have on average


@dataclass(frozen=True, eq=False)
class ClassModel:
    """x | class c ~ N(μ_c, Σ_c), each category of its own shares in c, and c ~ Dirichlet-multinomial(α/K).

        μ_c | Σ_c ~ N(μ₀, Σ_c/κ₀),   Σ_c ~ IW(ν₀, Λ₀),   μ₀ flat,   p(Λ₀) ∝ |Λ₀|^(−(p+1)/2)

    `p`: the number of measurements, `sizes`: of levels of each category, `classes`: K. Nothing of it has a unit.
    With one class μ₀ and Λ₀ integrate to the flat prior of the normal model.
    """

    p: int
    sizes: tuple[int, ...] = ()
    classes: int = CLASSES
    weight: float = ALL_CLASSES
    mean_weight: float = MEAN_WEIGHT
    level_weight: float = ALL_LEVELS

    def __post_init__(self) -> None:
        """Check the number of classes."""
        count_of("classes", self.classes, MOST_CLASSES)
        if not self.p and not self.sizes:
            raise InputError("a table has at least one column")

    @property
    def df(self) -> float:
        """ν₀."""
        return self.p + MORE_DF

    @cached_property
    def starts(self) -> Int[np.ndarray, " q"]:
        """Where each category's levels begin, all categories' levels one after the other."""
        return np.cumsum([0, *self.sizes])[:-1]

    @property
    def levels(self) -> int:
        """How many levels all categories have together."""
        return int(sum(self.sizes))

    @cached_property
    def level_weights(self) -> Float[np.ndarray, " levels"]:
        """What the prior is worth at each level of each category, in records."""
        return np.concatenate([np.zeros(0), *(np.full(size, self.level_weight / size) for size in self.sizes)])

    @cached_property
    def of_category(self) -> Int[np.ndarray, " levels"]:
        """The category that each level belongs to."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def places(self, codes: Int[np.ndarray, "*rows q"]) -> Int[np.ndarray, "*rows q"]:
        """Return the place of each level among those of all categories; one past the last where it is missing."""
        return np.where(codes == UNKNOWN, self.levels, codes + self.starts)


def require_enough_records(records: IncompleteRecords) -> None:
    """Refuse a table that would leave somebody who lacks one record without a posterior."""
    n, p = records.values.shape
    if n <= p + 1:
        raise InputError(f"{n} rows are too few for {p} measurements: at least {p + 2} are needed")


def require_values(records: IncompleteRecords, names: Sequence[str], classes: int) -> None:
    """Refuse measurements with no more values than classes, unless it is known how they are rounded.

    Each class could have one that does not vary, and then nothing holds Λ₀ away from 0.
    """
    for name, values, bounded in zip(names, records.values.T, records.bounded.T, strict=True):
        different = len(np.unique(values[~np.isnan(values)]))
        if classes > 1 and different <= classes and not bounded.any():
            raise InputError(
                f"{name!r} has {different} different values, and there may be {classes} classes: within a class "
                "nothing of it would vary",
                'declare in a table file how it is rounded (decimals = 0), or a category (kind = "category")',
                Cure("ask for fewer classes", "classes", max(1, different - 1)),
            )


def known_as_rounded(records: IncompleteRecords, model: ClassModel) -> IncompleteRecords:
    """Return a table within its bounds in columns where many people share a value, and exact in all others.

    A class of n_c people who share a value can shrink onto it: with Λ₀ = ε in that column its likelihood grows as
    ε^(−(n_c−1)/2), and every class with other values pays ε^(ν₀/2) alone. From some ν₀ people on nothing would
    hold it back. Somebody whose age is 47 is between 46.5 and 47.5: no class is narrower than what is known.
    """
    shared = [np.max(np.unique(each, return_counts=True)[1], initial=0) > model.df for each in records.values.T]
    low, high = (np.where(shared, each, records.values) for each in (records.low, records.high))
    return replace(records, low=low, high=high)


def refuse_degenerate(error: Exception) -> NoReturn:
    """Say why classes cannot be drawn of a table whose columns do not vary freely within them."""
    raise InputError(
        "within a class a measurement does not vary, or follows from others: classes cannot be drawn of this "
        "table as it is",
        "leave out columns that follow from others, and declare columns of few different values categories",
    ) from error


# --------------------------------------------------------------------------- what one draw says of the next record


@dataclass(frozen=True, eq=False)
class ClassPosteriors:
    """Given draws of all classes, of μ₀ and of Λ₀: what each says of the parameters of each class.

    Axes: draws, classes. `weights`: α/K and the number of records; `level_weights`: likewise of each level;
    `means`, `mean_weights`, `dfs`, `scales`: the normal-inverse-Wishart of mean and covariance.
    """

    model: ClassModel
    weights: Float[np.ndarray, "d k"]
    level_weights: Float[np.ndarray, "d k levels"]
    means: Float[np.ndarray, "d k p"]
    mean_weights: Float[np.ndarray, "d k"]
    dfs: Float[np.ndarray, "d k"]
    scales: Float[np.ndarray, "d k p p"]

    @classmethod
    def of(
        cls,
        model: ClassModel,
        classes: Int[np.ndarray, "d n"],
        values: Float[np.ndarray, "#d n p"],
        places: Int[np.ndarray, "n q"],
        centre: Float[np.ndarray, "d p"],
        scale: Float[np.ndarray, "d p p"],
    ) -> "ClassPosteriors":
        """Update the prior given μ₀ and Λ₀ by the records of each class; `places` of levels, `values` complete."""
        return cls.given(model, ClassSums.of(model, classes, values, places), centre, scale)

    @classmethod
    def given(
        cls,
        model: ClassModel,
        sums: "ClassSums",
        centre: Float[np.ndarray, "d p"],
        scale: Float[np.ndarray, "d p p"],
    ) -> "ClassPosteriors":
        """Update the prior given μ₀ and Λ₀ by what the records of each class add up to."""
        counts = sums.counts
        weight, some = model.mean_weight + counts, (counts / (model.mean_weight + counts))[..., None]
        away = sums.means - centre[:, None]
        middle = centre[:, None] + some * away
        between = (model.mean_weight * some[..., 0])[..., None, None] * away[..., :, None] * away[..., None, :]
        return cls(
            model,
            model.weight / model.classes + counts,
            model.level_weights + sums.levels,
            middle,
            weight,
            model.df + counts,
            scale[:, None] + sums.scatters + between,
        )

    def __len__(self) -> int:
        """Return the number of draws."""
        return len(self.weights)

    def take(self, draws: Any) -> "ClassPosteriors":
        """Return some of the draws."""
        names = ("weights", "level_weights", "means", "mean_weights", "dfs", "scales")
        return ClassPosteriors(self.model, *(getattr(self, name)[draws] for name in names))

    def select(self, columns: Int[np.ndarray, " o"], categories: Int[np.ndarray, " r"]) -> "ClassPosteriors":
        """Return what is said of some measurements and categories, by position: ν falls by the number left out."""
        model = self.model
        if len(columns) == model.p and len(categories) == len(model.sizes):
            return self
        sizes = tuple(model.sizes[place] for place in categories)
        fewer = replace(model, p=len(columns), sizes=sizes)
        levels = np.flatnonzero(np.isin(model.of_category, categories))
        return ClassPosteriors(
            fewer,
            self.weights,
            self.level_weights[..., levels],
            self.means[..., columns],
            self.mean_weights,
            self.dfs - (model.p - len(columns)),
            self.scales[..., columns[:, None], columns],
        )

    @cached_property
    def roots(self) -> Float[np.ndarray, "d k p p"]:
        """Lower triangular C with CCᵀ = Λ."""
        return np.linalg.cholesky(self.scales)

    @cached_property
    def halves(self) -> Float[np.ndarray, "d k p p"]:
        """C⁻¹."""
        return np.linalg.inv(self.roots)

    @cached_property
    def log_shares(self) -> Float[np.ndarray, "d k"]:
        """The log probability of each class."""
        return np.log(self.weights / np.sum(self.weights, axis=1, keepdims=True))

    @cached_property
    def level_totals(self) -> Float[np.ndarray, "d k q"]:
        """The weights of all levels of each category together, in each class."""
        return level_totals(self.model, self.level_weights)

    @cached_property
    def log_levels(self) -> Float[np.ndarray, "d k more"]:
        """The log probability of each level in each class, and 0 for one that is missing."""
        return log_shares_of_levels(self.model, self.level_weights)

    @cached_property
    def heights(self) -> Float[np.ndarray, "d k"]:
        """The log density of each class's Student t at its own centre."""
        return log_height(self.mean_weights, self.dfs, half_log_det(self.roots), self.model.p)

    def whiten(self, values: Float[np.ndarray, "s p"]) -> Float[np.ndarray, "s d k p"]:
        """Return C⁻¹(x − m) of points."""
        d, k, p = self.means.shape
        turned = (values @ self.halves.reshape(d * k * p, p).T).reshape(len(values), d, k, p)
        turned -= (self.halves @ self.means[..., None])[..., 0]
        return turned

    def log_parts(
        self, values: Float[np.ndarray, "s p"], places: Int[np.ndarray, "s q"]
    ) -> Float[np.ndarray, "d k s"]:
        """Return log[share of the class · density of the measurements · probability of the levels] at points."""
        logs = np.empty((*self.weights.shape, len(values)))
        inflation = (self.mean_weights / (self.mean_weights + 1))[..., None]
        step = max(1, NUMBERS_HELD // max(1, self.means.size))
        for at in range(0, len(values), step):
            some = slice(at, at + step)
            white = self.whiten(values[some])
            squared = np.moveaxis(np.einsum("sdkp,sdkp->sdk", white, white), 0, 2)
            fall = 0.5 * (self.dfs[..., None] + 1) * np.log1p(inflation * squared)
            logs[..., some] = (self.log_shares + self.heights)[..., None] - fall
        for column in places.T:
            logs += self.log_levels[..., column]
        return logs

    def log_density(
        self, values: Float[np.ndarray, "s p"], places: Int[np.ndarray, "s q"]
    ) -> Float[np.ndarray, "d s"]:
        """Return the log density of the next record at points, by each draw."""
        return log_sum_exp(self.log_parts(values, places), axis=1)

    def log_mean_density(
        self, values: Float[np.ndarray, "s p"], places: Int[np.ndarray, "s q"]
    ) -> Float[np.ndarray, " s"]:
        """Return the log of the mean density of the next record, over all draws, at points."""
        step = max(1, (NUMBERS_HELD << 3) // self.weights.size)
        blocks = [slice(at, at + step) for at in range(0, len(values), step)]
        logs = [log_sum_exp(self.log_density(values[some], places[some]), axis=0) for some in blocks]
        return np.concatenate(logs) - np.log(len(self))

    def draw(self, rng: np.random.Generator) -> "ClassParameters":
        """Draw each draw's parameters: A of Bartlett, Σ⁻¹ = HᵀH with H = AᵀC⁻¹, μ = m + H⁻¹·N(0, I)/√κ."""
        halves, bartlett = self.halves, draw_bartlett(rng, self.dfs, self.model.p)
        inverse_roots = np.swapaxes(bartlett, -1, -2) @ halves
        white = rng.standard_normal(self.means.shape) / np.sqrt(self.mean_weights)[..., None]
        means = self.means + np.linalg.solve(inverse_roots, white[..., None])[..., 0]
        gammas = np.maximum(rng.standard_gamma(self.weights), 1e-300)
        shares = np.log(gammas / np.sum(gammas, axis=1, keepdims=True))
        levels = np.maximum(rng.standard_gamma(self.level_weights), 1e-300)
        return ClassParameters(self.model, shares, log_shares_of_levels(self.model, levels), means, inverse_roots)


def log_height(
    mean_weights: Float[np.ndarray, "*each"] | float,
    dfs: Float[np.ndarray, "*each"] | float,
    size: Float[np.ndarray, "*each"],
    p: int,
) -> Float[np.ndarray, "*each"]:
    """Return log t at its own centre, log Γ((ν+1)/2)/Γ((ν+1−p)/2) − ½p·log(π(κ+1)/κ) − ½log|Λ|."""
    constant = gammaln((dfs + 1) / 2) - gammaln((dfs + 1 - p) / 2) - 0.5 * p * log(pi)
    return constant + 0.5 * p * np.log(mean_weights / (mean_weights + 1)) - size


def log_shares_of_levels(
    model: ClassModel, weights: Float[np.ndarray, "d k levels"]
) -> Float[np.ndarray, "d k more"]:
    """Return the logarithms of weights over their sum in each category, and a 0 for levels that are missing."""
    log_shares = np.log(weights / level_totals(model, weights)[..., model.of_category])
    return np.concatenate([log_shares, np.zeros((*weights.shape[:2], 1))], axis=-1)


def level_totals(model: ClassModel, weights: Float[np.ndarray, "d k levels"]) -> Float[np.ndarray, "d k q"]:
    """Return the sums of weights over the levels of each category."""
    if not model.sizes:
        return np.zeros((*weights.shape[:2], 0))
    return np.add.reduceat(weights, model.starts, axis=-1)


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Number, mean and scatter of each class's records, and how often each level occurs in it; for each draw."""

    counts: Float[np.ndarray, "d k"]
    means: Float[np.ndarray, "d k p"]
    scatters: Float[np.ndarray, "d k p p"]
    levels: Float[np.ndarray, "d k levels"]

    @classmethod
    def of(
        cls,
        model: ClassModel,
        classes: Int[Array, "d n"],
        values: Float[Array, "#d n p"],
        places: Int[Array, "n q"],
    ) -> "ClassSums":
        """Add records up, where they are; `places` of levels, `values` complete."""
        moments = _moments if isinstance(values, np.ndarray) else _moments_on_device
        counts, means, scatters = moments(values, classes, model.classes)
        statistics = (counts, means, scatters, level_counts(classes, places, model))
        return cls(*(to_numpy(each) for each in statistics))


def _moments(
    values: Float[np.ndarray, "#d n p"], classes: Int[np.ndarray, "d n"], count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return number, mean and scatter of each class's records; 0 of an empty class."""
    draws, p = len(classes), values.shape[-1]
    counts, means = np.zeros((draws, count)), np.zeros((draws, count, p))
    scatters = np.zeros((draws, count, p, p))
    for draw, each in enumerate(classes):
        order = np.argsort(each.astype(np.int8), kind="stable")  # small numbers are sorted by counting them
        some = np.take(values[draw if len(values) > 1 else 0], order, axis=0)
        ends = np.cumsum(np.bincount(each, minlength=count))
        for place, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if end > start:
                away = some[start:end]
                counts[draw, place] = end - start
                means[draw, place] = mean = np.full(end - start, 1 / (end - start)) @ away
                away -= mean
                scatters[draw, place] = away.T @ away
    return counts, means, scatters


def _moments_on_device(
    values: Float[Array, "#d n p"], classes: Int[Array, "d n"], count: int
) -> tuple[Array, Array, Array]:
    """Return the same without sorting: records of all other classes count 0."""
    xp = array_namespace(values)
    inside = [xp.astype(classes == place, xp.float64)[..., None] for place in range(count)]
    counts = xp.stack([xp.sum(each, axis=(1, 2)) for each in inside], axis=1)
    means = (
        xp.stack([xp.sum(each * values, axis=1) for each in inside], axis=1) / xp.clip(counts, min=1)[..., None]
    )
    away = values - xp.take_along_axis(
        means, xp.broadcast_to(classes[..., None], (*classes.shape, values.shape[-1])), axis=1
    )
    return counts, means, xp.stack([(each * away).mT @ away for each in inside], axis=1)


def level_counts(
    classes: Int[Array, "d n"], places: Int[Array, "n q"], model: ClassModel
) -> Float[Array, "d k levels"]:
    """Return how often each level of each category occurs in each class, for each draw; gaps do not count."""
    xp, draws, width = array_namespace(classes), classes.shape[0], model.levels + 1
    counts = zeros(draws * model.classes * width, like=classes)
    first = (classes + model.classes * as_array(np.arange(draws)[:, None], like=classes)) * width
    for column in range(places.shape[1]):
        counts += xp.bincount(xp.reshape(first + places[:, column], (-1,)), minlength=len(counts))
    return xp.reshape(counts, (draws, model.classes, width))[..., :-1]


def draw_bartlett(
    rng: np.random.Generator, dfs: Float[np.ndarray, "*each"], p: int
) -> Float[np.ndarray, "*each p p"]:
    """Draw A with AAᵀ ~ W(I, df): lower triangular, standard normal below the diagonal, √χ²(df − i) on it."""
    triangles = np.tril(rng.standard_normal((*dfs.shape, p, p)), -1)
    places = np.arange(p)
    triangles[..., places, places] = np.sqrt(rng.chisquare(dfs[..., None] - places))
    return triangles


# ------------------------------------------------------------------------------------------- parameters, and rows


@dataclass(frozen=True, eq=False)
class ClassParameters:
    """Draws of the parameters of all classes: `log_shares`, `log_levels`, `means` μ and `halves` H, Σ⁻¹ = HᵀH."""

    model: ClassModel
    log_shares: Float[np.ndarray, "d k"]
    log_levels: Float[np.ndarray, "d k more"]
    means: Float[np.ndarray, "d k p"]
    halves: Float[np.ndarray, "d k p p"]

    @cached_property
    def sizes(self) -> Float[np.ndarray, "d k"]:
        """½·log|Σ⁻¹|."""
        return np.linalg.slogdet(self.halves)[1]

    @cached_property
    def covariances(self) -> Float[np.ndarray, "d k p p"]:
        """Σ."""
        roots = np.linalg.inv(self.halves)
        return roots @ np.swapaxes(roots, -1, -2)

    def take(self, draws: Any) -> "ClassParameters":
        """Return some of the draws."""
        names = ("log_shares", "log_levels", "means", "halves")
        return ClassParameters(self.model, *(getattr(self, name)[draws] for name in names))

    def draw_rows(
        self, rng: np.random.Generator, rows: int
    ) -> tuple[Int[np.ndarray, "n q"], Float[np.ndarray, "n p"]]:
        """Draw level numbers and measurements of records from the first of the draws."""
        logs = np.broadcast_to(self.log_shares[0][:, None], (self.model.classes, rows))
        classes, _ = choose(logs, rng.random(rows))
        codes = self.draw_levels(rng, classes)
        roots, white = np.linalg.inv(self.halves[0]), rng.standard_normal((rows, self.model.p))
        values = self.means[0][classes]
        for place in np.unique(classes):
            own = classes == place
            values[own] += white[own] @ roots[place].T
        return codes, values

    def draw_levels(self, rng: np.random.Generator, classes: Int[np.ndarray, " n"]) -> Int[np.ndarray, "n q"]:
        """Draw the levels of records of these classes from the first of the draws."""
        columns = []
        for start, size in zip(self.model.starts, self.model.sizes, strict=True):
            logs = self.log_levels[0].T[start : start + size, classes]
            columns.append(choose(logs, rng.random(len(classes)))[0])
        return np.stack(columns, axis=1) if columns else np.zeros((len(classes), 0), dtype=np.int64)


def choose(
    logs: Float[Array, "*rest k n"], uniform: Float[Array, "*rest n"]
) -> tuple[Int[Array, "*rest n"], Float[Array, "*rest n"]]:
    """Draw one of k with probabilities in proportion to exp(logs), by one uniform number each; and log Σ exp."""
    xp = array_namespace(logs)
    top = xp.max(logs, axis=-2)
    sums = xp.cumsum(xp.exp(logs - top[..., None, :]), axis=-2)
    total = sums[..., -1, :]
    below = sums[..., :-1, :] <= (uniform * total)[..., None, :]
    return xp.sum(below, axis=-2, dtype=xp.int64), xp.log(total) + top
