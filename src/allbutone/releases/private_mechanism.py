"""The private step: moments and counts of records summed exactly, with noise by what ε and δ allow."""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, isqrt, log2, sqrt
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.releases.gaussian_account import gaussian_epsilon, gaussian_mu, lattice_scale
from allbutone.releases.noisy_counts import NoisyMargin, index_of, margin_cells, margins_of
from allbutone.releases.public_ball import CORRELATION, PublicBall, require_levels
from allbutone.support.errors import InputError
from allbutone.tables.schema import Schema

# How the noise is shared out: between moments and counts, and among the counts, by the errors to expect.
#
# Noise on several things adds in μ² (`gaussian_account`). An error whose square is a/μ₁² and one whose square is
# b/μ₂² have the least sum where μ₁² : μ₂² = √a : √b. Both are told in units of what sampling alone errs by.


@dataclass(frozen=True, eq=False)
class NoiseDesign:
    """All of the mechanism that is fixed before the table is looked at.

    ball: into which records are brought. mu: of the moments. margins: which categories are counted, and each μ.
    """

    ball: PublicBall
    people: int
    epsilon: float
    delta: float
    mu: float
    margins: tuple[tuple[tuple[int, ...], float], ...] = ()

    @classmethod
    def of(cls, schema: Schema, people: int, epsilon: float, delta: float) -> "NoiseDesign":
        """Return the design for a table file, the number of people, ε and δ: from public figures alone."""
        whole = gaussian_mu(epsilon, delta)
        require_levels(schema)
        ball = PublicBall.of(schema, people, whole)
        sizes, margins = ball.cells.sizes, margins_of(len(ball.cells.sizes))
        if not margins:
            return cls(ball, people, epsilon, delta, whole)
        weights = np.array([sqrt(margin_cells(sizes, places)) for places in margins])
        weights /= weights.sum()
        mu = whole * sqrt(0.5) if ball.p else 0.0
        for _ in range(4 if ball.p else 0):  # the ball depends on μ, and the share a little on the ball
            ball = PublicBall.of(schema, people, mu)
            ratio = sqrt(_counts_error(ball, weights) / moments_error(ball))
            mu = whole / sqrt(1 + ratio)
        counted = np.sqrt((whole**2 - mu**2) * weights)
        return cls(ball, people, epsilon, delta, mu, tuple(zip(margins, counted.tolist(), strict=True)))


def moments_error(ball: PublicBall) -> float:
    """Return n·μ² times the mean square of the noise in a correlation, or one spread, over that of sampling."""
    square = 2 * (ball.reach / ball.spread**2) ** 2
    if ball.p == 1:
        return 0.25 * square / 0.5
    return 0.5 * (1 + CORRELATION**2) * square / (1 - CORRELATION**2) ** 2


def _counts_error(ball: PublicBall, weights: Float[np.ndarray, " margins"]) -> float:
    """Return n·μ² times the mean square of the noise in a level's share, over that of sampling."""
    sizes = np.array(ball.cells.sizes, dtype=float)
    return float(np.mean(2 / weights[: len(sizes)] * sizes / np.maximum(1 - 1 / sizes, 0.5)))


# The private step: records as whole numbers, their moments summed exactly, OpenDP's discrete Gaussian noise.
#
# Each record is x̃ = (x, w), |x| ≤ R and w = (η, …) the code of its cell, as whole numbers of 2^−bits: cut towards
# zero, which can only shorten it. The sum of x̃x̃ᵀ then is exact, and replacing one record changes it by at most
# √2·(R² + |w|²) (Frobenius), whether its cell changes or not. Every entry but those of w alone, which is told by
# the counts, gets its own noise; the average with the transpose is what is told. A record is in one cell of each
# margin that is counted, so that replacing it changes two of the counts by 1, or none. Floating point enters each
# record by itself before the bound is checked in whole numbers, and the noise nowhere.


EXACT = 53  # bits of a whole number that a float64 holds exactly
MOST_BITS = 18  # of a record's fraction: a spread's 1/262,144
COUNT_BITS = 10  # of a count's fraction, which only its noise has


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """What is told of the table: Σx̃x̃ᵀ and counts with noise, and all that is public about them.

    matrix: in the ball's units, (p + r, p + r); of its last block, of w alone, only n·η² is told, which has no
    noise. noise: σ of the diagonal; off it σ/√2. epsilon, delta, rho: guaranteed. sensitivity: Δ, the most that
    replacing one record changes the matrix. counts: the margins of the categories, if there are any.
    """

    ball: PublicBall
    people: int
    matrix: Float[np.ndarray, "q q"]
    noise: float
    sensitivity: float
    epsilon: float
    delta: float
    rho: float
    counts: tuple[NoisyMargin, ...] = ()

    @property
    def mu(self) -> float:
        """μ = √(2ρ): how far apart two unit normals are that are as hard to tell apart as the two tables."""
        return sqrt(2 * self.rho)

    @property
    def in_words(self) -> str:
        """What is guaranteed, for a board."""
        times = float(np.exp(min(self.epsilon, 14.0)))
        often = "a million" if times > 1e6 else f"{times:,.3g}" if times < 100 else f"{times:,.0f}"
        worth = "" if round(self.epsilon, 3) < 10 else " An ε of 10 or more promises hardly anything."
        return (
            f"({self.epsilon:.3g}, {self.delta:g})-differentially private: replacing "
            f"{one_of(self.people, self.ball.schema)}, whatever the others, makes no event more than {often} "
            f"times as likely, but for a probability of {self.delta:g}.{worth}"
        )


def one_of(people: int, schema: Schema) -> str:
    """Say of which unit one is replaced: a record, or with visits a person with all of their rows."""
    return f"one of {people:,} " + ("records" if schema.visits is None else "people, with all of their rows")


def add_noise(
    design: NoiseDesign, natural: Float[np.ndarray, "n p"], codes: Int[np.ndarray, "n c"] | None = None
) -> NoisyMoments:
    """Return the noisy moments and counts of a table in natural units: this is where ε is spent."""
    ball, people = design.ball, len(natural)
    _must_hold(people == design.people, "the noise is designed for another number of people")
    cells = ball.cell_of(np.zeros((people, 0), dtype=np.int64) if codes is None else codes, natural)
    matrix, noise, change, rho = _noisy_moments(design, natural, cells)
    counts, one = [], 2**COUNT_BITS
    for places, mu in design.margins:
        among = margin_cells(ball.cells.sizes, places)
        exact = np.bincount(index_of(ball.cells, places)[cells], minlength=among)
        numbers, spread, cost = _with_noise(exact * one, isqrt(2 * one**2) + 1, mu)
        counts.append(NoisyMargin(places, numbers / one, spread / one))
        rho += cost
    return NoisyMoments(
        ball=ball,
        people=people,
        matrix=matrix,
        noise=noise,
        sensitivity=change,
        epsilon=gaussian_epsilon(sqrt(2 * rho), design.delta),
        delta=design.delta,
        rho=rho,
        counts=tuple(counts),
    )


def _noisy_moments(
    design: NoiseDesign, natural: Float[np.ndarray, "n p"], cells: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "q q"], float, float, float]:
    """Return the moments with noise, their σ and sensitivity, and their cost; none of categories alone."""
    ball, people = design.ball, len(natural)
    if not ball.p:
        return np.zeros((ball.codes.shape[1],) * 2), 0.0, 0.0, 0.0
    whole = WholeNumbers.of(ball, people)
    total = whole.total(natural, cells)
    told, scale, rho = _with_noise(total[whole.noisy], whole.change, design.mu)
    matrix = np.zeros(total.shape)
    matrix[whole.noisy] = told
    matrix[ball.p, ball.p] = float(people * whole.codes[0, 0] ** 2)
    unit = whole.unit**2
    return 0.5 * (matrix + matrix.T) / unit, scale / unit, whole.change / unit, rho


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


@dataclass(frozen=True, eq=False)
class WholeNumbers:
    """The ball in whole numbers of 1/unit: its radius, rounded up, and the codes w of the cells."""

    ball: PublicBall
    unit: float
    radius: int
    codes: Int[np.ndarray, "cells r"]

    @classmethod
    def of(cls, ball: PublicBall, people: int) -> "WholeNumbers":
        """Take so many bits of fraction that a sum over all records, with its noise, stays below 2⁶²."""
        largest = 2.0 * ball.reach * (people + 2.0**14)
        bits = min(MOST_BITS, int((62 - log2(largest)) // 2))
        if bits < 8:
            raise InputError(f"{people:,} records are too many to sum as whole numbers", "give a sample of them")
        unit = 2.0**bits
        # one more than R: a length computed in floating point may come out a hair above it
        return cls(ball, unit, ceil(ball.radius * unit) + 1, np.trunc(ball.codes * unit).astype(np.int64))

    @property
    def longest(self) -> int:
        """The largest |x̃|²."""
        return self.radius**2 + int(np.max(np.sum(self.codes**2, axis=1)))

    @property
    def change(self) -> int:
        """Δ, rounded up: √2·max |x̃|²."""
        return isqrt(2 * self.longest**2) + 1

    @property
    def noisy(self) -> Any:
        """Which entries of the sum get noise: all but those of w with itself."""
        size = self.ball.p + self.codes.shape[1]
        known = np.arange(size) >= self.ball.p
        return ~np.logical_and.outer(known, known)

    def total(self, natural: Float[np.ndarray, "n p"], cells: Int[np.ndarray, " n"]) -> Int[np.ndarray, "q q"]:
        """Return Σx̃x̃ᵀ in whole numbers: blocks short enough that float64 sums them exactly."""
        numbers = np.trunc(self.ball.inside(natural) * self.unit)
        lengths = np.sum(numbers.astype(np.int64) ** 2, axis=1)
        _must_hold(bool(np.all(lengths <= self.radius**2)), "a record lies outside the ball")
        rows = max(1, 2**EXACT // self.longest)
        whole = np.column_stack([numbers, self.codes[cells].astype(float)])
        total = np.zeros((whole.shape[1],) * 2, dtype=np.int64)
        for start in range(0, len(whole), rows):
            block = whole[start : start + rows]
            total += (block.T @ block).astype(np.int64)
        return total


def _with_noise(exact: Int[np.ndarray, " k"], change: int, mu: float) -> tuple[np.ndarray, float, float]:
    """Return whole numbers with OpenDP's discrete Gaussian noise by this μ, its σ, and the ρ that it costs."""
    mechanism, scale, rho = _gaussian(len(exact), change, mu)
    return np.array(mechanism(exact.tolist()), dtype=float), scale, rho


@lru_cache(maxsize=32)
def _gaussian(entries: int, change: int, mu: float) -> tuple[Any, float, float]:
    """Return OpenDP's mechanism with the least noise that keeps μ, by its account, too; its σ and ρ."""
    opendp = load_opendp()
    scale = lattice_scale(change, mu)
    mechanism = opendp.m.make_gaussian(
        opendp.vector_domain(opendp.atom_domain(T="i64"), size=entries), opendp.l2_distance(T="f64"), scale=scale
    )
    rho = 0.5 * mu**2
    _must_hold(mechanism.map(float(change)) <= rho * (1 + 1e-9), "OpenDP takes this noise for too little")
    return mechanism, scale, rho


def _must_hold(premise: bool, else_: str) -> None:
    """Stop where a premise of the proof fails; an assert would be silent in Python that was told to skip them."""
    if not premise:
        raise AssertionError(else_)
