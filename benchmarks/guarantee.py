"""What a guarantee costs in accuracy by three mechanisms at the same ε: a correlation of one half in one dataset.

Noise on moments, once (`synthesize --epsilon`); the paper's own two ideas, noise on every record before anything
is fitted, and noise anew for every draw, here five. All bring records into a public ball first; that of perturbed
records is the one that serves them best in hindsight. And what the adversary who has all other records, many of
them, learns of one: noise anew for each draw tells them the average, which has the noise of moments told once.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from allbutone.model.niw import NIW
from allbutone.releases.cut_records import BeforeCut
from allbutone.releases.noise_aware import NoiseAware
from allbutone.releases.private_mechanism import NoiseDesign, add_noise
from allbutone.tables.schema import Schema
from benchmarks.clock import Row

R, TABLES, DRAWS = 0.5, 20, 5
SIZES = ((500, 2), (500, 5), (10_000, 5))
RADII = (1.0, 1.5, 2.0, 2.5, 3.0)
TARGETS, CANDIDATES, TOLERANCE = 2_000, 2_000, 0.25


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(1)
    for people, p in SIZES:
        for epsilon in (1.0, 3.0, 10.0):
            ours, records, draws = errors(rng, people, p, epsilon)
            what = f"error of a correlation, {people:,} people, {p} columns, ε = {epsilon:g}: noise on moments"
            yield Row(what, ours, "noise on every record", records, unit="")
            yield Row(what, ours, f"noise anew for each of {DRAWS} draws", draws, unit="")
            before, ours, records = learned(rng, people, p, epsilon)
            what = f"a value known to a quarter, {before:.3f} before, {people:,}, {p}, ε = {epsilon:g}: moments"
            yield Row(what, ours, "noise on every record", records, unit="")


def design_of(people: int, p: int, epsilon: float) -> NoiseDesign:
    """Return the mechanism for columns whose centres and spreads are public."""
    column = {"low": -8.0, "high": 8.0, "centre": 0.0, "spread": 1.0}
    schema = Schema.of({"columns": {f"x{j}": column for j in range(p)}})
    return NoiseDesign.of(schema, people, epsilon, 0.01 / people)


def normal(rng: np.random.Generator, count: int, p: int) -> Float[np.ndarray, "count p"]:
    """Return records whose columns have the correlation R."""
    return np.sqrt(R) * rng.standard_normal((count, 1)) + np.sqrt(1 - R) * rng.standard_normal((count, p))


def learned(rng: np.random.Generator, people: int, p: int, epsilon: float) -> tuple[float, float, float]:
    """Return how probable a record's first value is, within a quarter: before, by moments, by its noisy self.

    Candidates from what the others say, weighted by what was told.
    """
    design = design_of(people, p, epsilon)
    ball, radius = design.ball, RADII[-1]
    noise, spread = np.sqrt(2) * ball.reach / design.mu, 2 * radius / design.mu
    found = []
    for target in normal(rng, TARGETS, p):
        candidates = normal(rng, CANDIDATES, p)
        near = np.abs(candidates[:, 0] - target[0]) <= TOLERANCE
        own, each = (
            np.column_stack([z, np.full(len(z), ball.eta)]) for z in map(ball.inside, (target[None], candidates))
        )
        told = own.T @ own + noise * rng.standard_normal((p + 1, p + 1))
        square = np.sum(each**2, axis=1)
        by_moments = (np.sum((each @ told) * each, axis=1) - 0.5 * square**2) / noise**2
        seen = shortened(target[None], radius) + spread * rng.standard_normal(p)
        by_record = -0.5 * np.sum((shortened(candidates, radius) - seen) ** 2, axis=1) / spread**2
        weights = [np.exp(logs - logs.max()) for logs in (by_moments, by_record)]
        found.append([np.mean(near), *(np.sum(each[near]) / np.sum(each) for each in weights)])
    before, moments, records = np.mean(found, axis=0).tolist()
    return before, moments, records


def errors(rng: np.random.Generator, people: int, p: int, epsilon: float) -> tuple[float, float, float]:
    """Return the root mean square errors of released correlations by the three."""
    design = design_of(people, p, epsilon)
    found: list[list[float]] = []
    for _ in range(TABLES):
        table = normal(rng, people, p)
        drawn, _ = NoiseAware(add_noise(design, table)).draw(DRAWS, rng)
        ours = BeforeCut(design.ball).of(drawn).covariances[:, 0]
        by_radius = [perturbed_records(rng, table, radius, design.mu) for radius in RADII]
        found.append([off(each) for each in (ours, perturbed_draws(rng, design, table), *by_radius)])
    squares = np.mean(found, axis=0)
    return float(np.sqrt(squares[0])), float(np.sqrt(squares[2:].min())), float(np.sqrt(squares[1]))


def perturbed_records(
    rng: np.random.Generator, table: Float[np.ndarray, "n p"], radius: float, mu: float
) -> Float[np.ndarray, "1 p p"]:
    """Return the covariance, less the noise's, of records of which each got noise: one moves by up to 2R."""
    noise = 2 * radius / mu
    told = shortened(table, radius) + noise * rng.standard_normal(table.shape)
    return np.cov(told.T).reshape(1, table.shape[1], -1) - noise**2 * np.eye(table.shape[1])


def shortened(table: Float[np.ndarray, "n p"], radius: float) -> Float[np.ndarray, "n p"]:
    """Return records drawn back to the ball."""
    return table * np.minimum(1.0, radius / np.linalg.norm(table, axis=1, keepdims=True))


def perturbed_draws(
    rng: np.random.Generator, design: NoiseDesign, table: Float[np.ndarray, "n p"]
) -> Float[np.ndarray, "m p p"]:
    """Return covariances, each drawn from the posterior of moments with noise of its own; μ² adds up over them."""
    ball, (people, p) = design.ball, table.shape
    inside = ball.inside(table)
    noise = np.sqrt(2) * ball.reach / (design.mu / np.sqrt(DRAWS))
    found = []
    for _ in range(DRAWS):
        shaken = noise * rng.standard_normal((p, p))
        scatter = psd(inside.T @ inside + 0.5 * (shaken + shaken.T), people)
        found.append(NIW(np.zeros(p), people + 1.0, float(people), scatter).draw(rng, 1)[1][0])
    return np.array(found)


def psd(scatter: Float[np.ndarray, "p p"], people: int) -> Float[np.ndarray, "p p"]:
    """Return the nearest matrix that people could have: no direction varies by less than a hundredth."""
    values, axes = np.linalg.eigh(scatter)
    return (axes * np.maximum(values, 0.01 * people)) @ axes.T


def off(covariances: Float[np.ndarray, "m p p"]) -> float:
    """Return the mean squared error of their correlations."""
    whole = np.array([psd(each, 1) for each in covariances])
    spread = np.sqrt(np.diagonal(whole, axis1=1, axis2=2))
    pairs = np.triu_indices(whole.shape[1], 1)
    correlations = (whole / spread[:, :, None] / spread[:, None, :])[:, *pairs]
    return float(np.mean((correlations - R) ** 2))
