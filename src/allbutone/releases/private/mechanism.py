"""The private step: records as whole numbers, their moments summed exactly, OpenDP's discrete Gaussian noise.

Each record is x̃ = (x, η), |x| ≤ R, as whole numbers of 2^−bits: cut towards zero, which can only shorten it. The
sum of x̃x̃ᵀ then is exact, and replacing one record changes it by at most √2·(R² + η²) (Frobenius). Every entry
but the last, which is the number of people, gets its own noise; the average with the transpose is what is told.
Floating point enters each record by itself before the bound is checked in whole numbers, and the noise nowhere.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, isqrt, log2, sqrt
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.releases.private.accounting import zcdp_rho
from allbutone.releases.private.ball import PublicBall
from allbutone.support.errors import InputError

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
