"""The private step: records in a public ball, their moments summed exactly, noise by what ε and δ allow."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, inf, isqrt, log2, sqrt
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr

from allbutone.support.errors import Cure, InputError, describe_value
from allbutone.tables.column import Scale
from allbutone.tables.schema import Schema

# ε and δ: what may be asked for, and what ρ-zero-concentrated privacy (zCDP) amounts to in them.
#
# ρ adds over releases, ε does not: sums are taken in ρ and told in ε. A Gaussian mechanism whose sum one record
# changes by Δ has ρ = Δ²/(2σ²). By Canonne, Kamath and Steinke (2020), for every α > 1,
#
#     δ(ε) ≤ exp((α − 1)(αρ − ε))/(α − 1)·(1 − 1/α)^α


DELTA = 1e-6


def epsilon_of(epsilon: Any) -> float:
    """Return ε, or say that it must be a number above 0."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.number):
        raise InputError(f"epsilon must be a number, got {describe_value(epsilon)}")
    if not 0 < epsilon < np.inf:
        raise InputError(f"epsilon must be finite and exceed 0, got {epsilon:g}", Cure("try 1", "epsilon", 1.0))
    return float(epsilon)


def delta_of(delta: Any, people: int) -> float:
    """Return δ, refusing one that lets whole records out: it must lie between 0 and 1/n."""
    if isinstance(delta, bool) or not isinstance(delta, int | float | np.number):
        raise InputError(f"delta must be a number, got {describe_value(delta)}")
    if not 0 < delta < 1 / people:
        raise InputError(
            f"delta must lie above 0 and below 1/{people:,}, one over the number of people (with more, a release "
            f"that gives one person away entirely would pass), got {delta:g}",
            Cure("use the usual one", "delta", min(DELTA, 0.01 / people)),
        )
    return float(delta)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the ε of ρ-zCDP at this δ: the least over α of αρ + (log 1/δ − log(α − 1))/(α − 1) + …"""
    from scipy.optimize import minimize_scalar  # not above: it is slow to load

    def epsilon(log_more: float) -> float:
        more = np.exp(log_more)  # α − 1
        return float(
            (1 + more) * rho + (-np.log(delta) - np.log(more) + (1 + more) * np.log(more / (1 + more))) / more
        )

    start = 0.5 * np.log(-np.log(delta) / rho)  # about where αρ and log(1/δ)/(α − 1) balance
    found = minimize_scalar(epsilon, bounds=(start - 5, start + 5), method="bounded", options={"xatol": 1e-10})
    return max(float(found.fun), 0.0)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ whose ε at this δ is not above the one asked for."""
    from scipy.optimize import brentq  # not above: it is slow to load

    return float(np.exp(brentq(lambda log: zcdp_epsilon(np.exp(log), delta) - epsilon, -60.0, 30.0, xtol=1e-13)))


# How far records may lie from the public centre: what is cut off costs accuracy, and so does noise for the rest.
#
# Both are computed beforehand from public figures: the number of people, ε, δ and the declared spreads, with one
# correlation guessed for all pairs. A wrong guess costs accuracy and never privacy.


CORRELATION = 0.5  # guessed: the larger, the longer the tails of |x|
LEAST_INSIDE = 0.9  # of independent normal records


def best_radius(p: int, people: int, mu: float) -> float:
    """Return R, in spreads, with the least expected squared error of spreads and correlations together.

    Noise per entry of the covariance: √2·(R² + η²)/(μ·n), η² = R²/8. Cutting off draws the two eigenvalues of the
    guessed correlation matrix, 1 + (p − 1)r and 1 − r, towards each other and both down.
    """
    from scipy.stats import chi2  # not above: it is slow to load

    squared = np.geomspace(chi2.ppf(LEAST_INSIDE, p), 60.0 * p, 80)
    first, rest = _cut_eigenvalues(p, squared)
    variance = (first + rest) / p
    bias = (np.sqrt(variance) - 1) ** 2
    noise = np.sqrt(2) * 1.125 * squared / (mu * people)
    errors = bias + 0.25 * noise**2
    if p > 1:
        shrunk = (first - rest / (p - 1)) / (first + rest)
        errors = errors + (shrunk - CORRELATION) ** 2 + 0.5 * (1 + CORRELATION**2) * noise**2
    return float(np.sqrt(squared[np.argmin(errors)]))


def _cut_eigenvalues(
    p: int, squared: Float[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Return for each R² the mean squared length along the first axis, and across it, of what is cut at R."""
    from scipy.stats import chi2  # not above: it is slow to load

    score = np.linspace(-8.0, 8.0, 161)
    weight = np.exp(-0.5 * score**2) / np.sqrt(2 * np.pi) * (score[1] - score[0])
    r = CORRELATION if p > 1 else 0.0
    along = ((1 + (p - 1) * r) * score**2)[:, None]
    # a χ² through its normal score, by the tail that has digits
    below, above = chi2.ppf(ndtr(score), max(p - 1, 1)), chi2.isf(ndtr(-score), max(p - 1, 1))
    across = (1 - r) * (p > 1) * np.where(score < 0, below, above)[None, :]
    both = weight[:, None] * weight[None, :]
    shares = [np.minimum(1.0, each / np.maximum(along + across, 1e-300)) * both for each in squared]
    return np.array([np.sum(s * along) for s in shares]), np.array([np.sum(s * across) for s in shares])


# The public ball into which every record is brought: by the table file's limits, and its centres and spreads.
#
# A record is limited column by column in natural units, taken to the model's scale, centred and divided by a
# public unit; then drawn towards the centre if it is farther than R. Where all columns have a public centre and
# spread, these are centre and unit, and R is chosen beforehand so that noise and what is cut off cost least
# (`best_radius`), at most the farthest corner of the limits. Else they are the middle and the half width of the
# limits, and R² = p, which cuts off nothing within the limits but costs more noise.


QUARTER = 0.25  # a spread in half widths, where none is declared: the limits are four spreads away
AT_AN_END = 3  # records at both limits from which on these are taken for natural ends, such as 1 and 5 of a score


@dataclass(frozen=True, eq=False)
class PublicBall:
    """centre and unit of each column on the model's scale; the radius and the guessed spread in units."""

    schema: Schema
    centre: Float[np.ndarray, " p"]
    unit: Float[np.ndarray, " p"]
    radius: float
    spread: float

    @classmethod
    def of(cls, schema: Schema, people: int, mu: float) -> "PublicBall":
        """Return the ball of a table file for so many people and this μ, or say which column lacks limits."""
        limits = model_limits(schema)
        columns = schema.measurements
        if all(column.centre is not None and column.spread is not None for column in columns):
            pairs = [column.on_model_scale(column.centre, column.spread) for column in columns]  # type: ignore[arg-type]
            centre, unit = np.array(pairs).T
            corner = np.max(np.abs(limits - centre[:, None]), axis=1) / unit
            radius = min(best_radius(len(columns), people, mu), float(np.linalg.norm(corner)))
            return cls(schema, centre, unit, radius, 1.0)
        half = 0.5 * (limits[:, 1] - limits[:, 0])
        return cls(schema, limits.mean(axis=1), half, float(np.sqrt(len(columns))), QUARTER)

    @property
    def p(self) -> int:
        """The number of columns."""
        return len(self.centre)

    @property
    def eta(self) -> float:
        """η = R/(2√2), the last entry of x̃ = (x, η), through which the mean is told."""
        return self.radius / np.sqrt(8)

    def inside(self, natural: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Bring records in natural units into the ball, in its units."""
        low, high = np.array([(column.low, column.high) for column in self.schema.measurements]).T
        return self.shrunk((self.schema.to_model(np.clip(natural, low, high)) - self.centre) / self.unit)

    def shrunk(self, values: Float[np.ndarray, "*n p"]) -> Float[np.ndarray, "*n p"]:
        """Draw what is farther than R from the centre back to R."""
        length = np.linalg.norm(values, axis=-1, keepdims=True)
        return values * np.minimum(1.0, self.radius / np.maximum(length, 1e-300))

    def on_model_scale(
        self, means: Float[np.ndarray, "k p"], covariances: Float[np.ndarray, "k p p"]
    ) -> tuple[Float[np.ndarray, "k p"], Float[np.ndarray, "k p p"]]:
        """Return means and covariances in the ball's units on the model's scale."""
        return self.centre + self.unit * means, covariances * np.outer(self.unit, self.unit)


def model_limits(schema: Schema) -> Float[np.ndarray, "p 2"]:
    """Return the limits of all columns on the model's scale; without finite ones there is no guarantee."""
    if schema.categories:
        names = ", ".join(column.name for column in schema.categories)
        raise InputError(f"a guarantee is for measurements, and these are categories: {names}", "leave them out")
    absent = [column.name for column in schema.measurements if not -inf < column.low < column.high < inf]
    if absent or not schema.measurements:
        raise InputError(
            f"a guarantee needs public limits, and the table file gives no low and high to {', '.join(absent)}",
            "declare what the columns can be, not what they are in this table",
        )
    limits = np.array([(column.low, column.high) for column in schema.measurements])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = schema.to_model(limits.T).T
    if lost := [each.name for each, pair in zip(schema.measurements, found, strict=True) if not _finite(pair)]:
        raise InputError(
            f"on its scale a limit of {', '.join(lost)} is infinite, so that it limits nothing",
            "declare limits inside the scale's ends, such as a low above 0 for a log",
        )
    return found


def _finite(pair: Any) -> bool:
    return bool(np.all(np.isfinite(pair)) and pair[0] < pair[1])


def without_limits(schema: Schema) -> Schema:
    """Return the schema to read a table with whose values may pass the limits: they are brought inside later."""
    return replace(
        schema, columns=tuple(replace(each, scale=Scale(), low=-inf, high=inf) for each in schema.columns)
    )


def require_public(schema: Schema, natural: Float[np.ndarray, "n p"]) -> None:
    """Refuse limits that are the table's own extremes: they would tell two records of each column exactly."""
    for column, values in zip(schema.measurements, natural.T, strict=True):
        lowest, highest = values.min(), values.max()
        natural_ends = min(np.sum(values == lowest), np.sum(values == highest)) >= AT_AN_END
        if (lowest, highest) == (column.low, column.high) and not natural_ends:
            raise InputError(
                f"the limits of {column.name!r} are the table's own extremes, so they were computed from it",
                "declare what the column can be, from public knowledge",
            )


# The private step: records as whole numbers, their moments summed exactly, OpenDP's discrete Gaussian noise.
#
# Each record is x̃ = (x, η), |x| ≤ R, as whole numbers of 2^−bits: cut towards zero, which can only shorten it.
# The sum of x̃x̃ᵀ then is exact, and replacing one record changes it by at most √2·(R² + η²) (Frobenius). Every
# entry but the last, which is the number of people, gets its own noise; the average with the transpose is what is
# told. Floating point enters each record by itself before the bound is checked in whole numbers, and the noise
# nowhere.


EXACT = 53  # bits of a whole number that a float64 holds exactly
MOST_BITS = 18  # of a record's fraction: a spread's 1/262,144


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """What is told of the table: Σx̃x̃ᵀ with noise, and all that is public about it.

    matrix: in the ball's units, (p + 1, p + 1), its last entry n·η², which has no noise. noise: σ of the diagonal;
    off it σ/√2. epsilon, delta, rho: guaranteed. sensitivity: Δ, the most that replacing one record changes it.
    """

    ball: PublicBall
    people: int
    matrix: Float[np.ndarray, "q q"]
    noise: float
    sensitivity: float
    epsilon: float
    delta: float
    rho: float

    @property
    def mu(self) -> float:
        """μ = Δ/σ: how far apart two unit normals are that are as hard to tell apart as the two tables."""
        return self.sensitivity / self.noise

    @property
    def in_words(self) -> str:
        """What is guaranteed, for a board."""
        times = float(np.exp(min(self.epsilon, 14.0)))
        often = "a million" if times > 1e6 else f"{times:,.3g}" if times < 100 else f"{times:,.0f}"
        worth = "" if round(self.epsilon, 3) < 10 else " An ε of 10 or more promises hardly anything."
        return (
            f"({self.epsilon:.3g}, {self.delta:g})-differentially private: replacing one of {self.people:,} "
            f"records, whatever the others, makes no event more than {often} times as likely, but "
            f"for a probability of {self.delta:g}.{worth}"
        )


def add_noise(ball: PublicBall, natural: Float[np.ndarray, "n p"], epsilon: float, delta: float) -> NoisyMoments:
    """Return the noisy moments of a table in natural units: this is where ε is spent."""
    people = len(natural)
    bits = _bits(ball, people)
    unit = 2.0**bits
    eta = round(ball.eta * unit)
    # one more than R: a length computed in floating point may come out a hair above it
    radius = ceil(ball.radius * unit) + 1
    numbers = np.trunc(ball.inside(natural) * unit)
    total = _exact_sum(numbers, eta, radius)
    change = isqrt(2 * (radius**2 + eta**2) ** 2) + 1
    mechanism, stated = _gaussian(total.size - 1, change, epsilon, delta)
    told = mechanism(total.ravel()[:-1].tolist())
    matrix = np.append(np.array(told, dtype=float), float(people * eta**2)).reshape(total.shape)
    return NoisyMoments(
        ball=ball,
        people=people,
        matrix=0.5 * (matrix + matrix.T) / unit**2,
        noise=stated["scale"] / unit**2,
        sensitivity=change / unit**2,
        epsilon=stated["epsilon"],
        delta=delta,
        rho=stated["rho"],
    )


def load_opendp() -> ModuleType:
    """Import OpenDP, which is an extra, or say how to install it."""
    try:
        import opendp.prelude as opendp
    except ImportError as error:
        raise InputError(
            "noise for a guarantee comes from OpenDP, which is not installed", "pip install 'allbutone[dp]'"
        ) from error
    opendp.enable_features("contrib")
    return opendp


def _bits(ball: PublicBall, people: int) -> int:
    """Return so many bits of fraction that a sum over all records, with its noise, stays below 2⁶²."""
    largest = 2.0 * ball.radius**2 * (people + 2.0**14)
    bits = min(MOST_BITS, int((62 - log2(largest)) // 2))
    if bits < 8:
        raise InputError(f"{people:,} records are too many to sum as whole numbers", "give a sample of them")
    return bits


def _exact_sum(numbers: Float[np.ndarray, "n p"], eta: int, radius: int) -> Int[np.ndarray, "q q"]:
    """Return Σx̃x̃ᵀ in whole numbers: blocks short enough that float64 sums them exactly."""
    assert np.all(np.sum(numbers.astype(np.int64) ** 2, axis=1) <= radius**2)
    rows = max(1, 2**EXACT // (radius**2 + eta**2))
    whole = np.column_stack([numbers, np.full(len(numbers), float(eta))])
    total = np.zeros((whole.shape[1],) * 2, dtype=np.int64)
    for start in range(0, len(whole), rows):
        block = whole[start : start + rows]
        total += (block.T @ block).astype(np.int64)
    return total


@lru_cache(maxsize=8)
def _gaussian(entries: int, change: int, epsilon: float, delta: float) -> tuple[Any, dict[str, float]]:
    """Return OpenDP's mechanism with the least noise that reaches ε by OpenDP's own account, and that account."""
    opendp = load_opendp()
    space = (
        opendp.vector_domain(opendp.atom_domain(T="i64"), size=entries),
        opendp.l2_distance(T="f64"),
    )
    rho = zcdp_rho(epsilon, delta)
    while True:
        scale = change / sqrt(2 * rho)
        mechanism = opendp.m.make_gaussian(*space, scale=scale)
        profile = opendp.c.make_zCDP_to_approxDP(mechanism).map(float(change))
        stated = float(profile.epsilon(delta))
        if stated <= epsilon:
            return mechanism, {"scale": scale, "epsilon": stated, "rho": float(mechanism.map(float(change)))}
        # OpenDP rounds every step upwards: a hair more noise settles it
        rho *= min(1 - 1e-9, (epsilon / stated) ** 2)
