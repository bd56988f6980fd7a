"""The paper's own two methods, as printed: for comparison and for teaching, not for use.

Grid search (Algorithms 2 and 3) and L-BFGS-B from the paper's starting values, on the paper's score s. Everything
is computed candidate by candidate, with determinants and inverses where the paper prints them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.model.niw import NIW
from allbutone.releases.release import Release

Score = Callable[[np.ndarray], float]


@dataclass(frozen=True, eq=False)
class PrintedAttack:
    """Where a printed method ends, its score there (twice the log posterior), and how often it was evaluated."""

    mode: Float[np.ndarray, " p"]
    score: float
    evaluations: int


def printed_score(others: Float[np.ndarray, "n p"], release: Release, prior: NIW) -> Score:
    """Return the score s of Algorithm 2 (parameters) or Algorithm 3 (datasets) as a function of the candidate."""
    given_others = prior.update(others)
    mean, weight, scale, p = given_others.mean, given_others.mean_weight, given_others.scale, given_others.p
    t_scale = (weight + 1) / (weight * (given_others.df - p + 1)) * scale
    t_df = given_others.df - p + 1
    new_weight, new_df = weight + 1, given_others.df + 1

    def score(candidate: np.ndarray) -> float:
        step = candidate - mean
        new_mean = mean + step / new_weight
        new_scale = scale + weight / new_weight * np.outer(step, step)
        if release.parameters is not None:
            value = _parameter_terms(release, new_mean, new_weight, new_df, new_scale)
        else:
            value = _dataset_terms(release.normal.datasets, new_mean, new_weight, new_df, new_scale)
        return float(value - (t_df + p) * np.log(1 + step @ np.linalg.inv(t_scale) @ step / t_df))

    return score


def _parameter_terms(release: Release, mean: np.ndarray, weight: float, df: float, scale: np.ndarray) -> float:
    value = release.draws * df * np.linalg.slogdet(scale)[1]
    for drawn_mean, covariance in zip(
        np.asarray(release.normal.means), np.asarray(release.normal.covariances), strict=True
    ):
        inverse = np.linalg.inv(covariance)
        value -= np.trace(scale @ inverse) + weight * (drawn_mean - mean) @ inverse @ (drawn_mean - mean)
    return float(value)


def _dataset_terms(datasets: Any, mean: np.ndarray, weight: float, df: float, scale: np.ndarray) -> float:
    value = len(datasets) * df * np.linalg.slogdet(scale)[1]
    for dataset in datasets:
        rows = len(dataset)
        centre = dataset.mean(axis=0)
        scatter = (dataset - centre).T @ (dataset - centre)
        shift = np.outer(centre - mean, centre - mean)
        joint = scale + scatter + weight * rows / (weight + rows) * shift
        value -= (df + rows) * np.linalg.slogdet(joint)[1]
    return float(value)


def grid_search(
    others: Float[np.ndarray, "n p"], release: Release, prior: NIW, candidates: Float[np.ndarray, "c p"]
) -> PrintedAttack:
    """Return the best of the candidates (Algorithms 2 and 3)."""
    score = printed_score(others, release, prior)
    scores = np.array([score(candidate) for candidate in candidates])
    best = int(np.argmax(scores))
    return PrintedAttack(np.asarray(candidates[best]), float(scores[best]), len(scores))


def lbfgsb(others: Float[np.ndarray, "n p"], release: Release, prior: NIW) -> PrintedAttack:
    """Maximise the score by L-BFGS-B with numerical gradients from the paper's starting value.

    Parameters: the mean of the released means. Datasets: (κ₀μ₀ + Σ n_z·z̄ⱼ)/(κ₀ + Σ n_z).
    """
    from scipy.optimize import minimize  # not above: it is slow to load

    score = printed_score(others, release, prior)
    if release.parameters is not None:
        start = np.asarray(release.normal.means).mean(axis=0)
    else:
        total = sum(len(dataset) * dataset.mean(axis=0) for dataset in release.normal.datasets)
        start = (prior.mean_weight * prior.mean + total) / (prior.mean_weight + sum(release.rows))
    found = minimize(lambda candidate: -score(candidate), start, method="L-BFGS-B")
    return PrintedAttack(found.x, float(-found.fun), int(found.nfev))
