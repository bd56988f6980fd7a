"""Regressions on one table: least squares and logistic, by coefficients and their variances."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import solve_triangular
from scipy.special import expit

from allbutone.tables.categories import Categories

INTERCEPT = "intercept"
DEPENDENT = 1e-10  # of a term's length, left when the terms before it are taken out, that counts as nothing
STEPS = 100  # Newton steps at most; six or seven are the rule
LAST_STEP = 1e-8  # no log odds moves by more in the last step
CERTAIN = 30.0  # log odds that only a sample whose levels the predictors tell apart gives


class NotEstimable(Exception):
    """Why a table has no estimate of some coefficient, in words that follow the table's name."""


def term_names(predictors: Sequence[str], columns: Sequence[str], categories: Categories) -> tuple[str, ...]:
    """Return the names of a regression's terms: intercept, `age`, and `sex[m]` for each level but the first."""
    names = [INTERCEPT]
    for name in predictors:
        levels = () if name in columns else categories.levels[categories.columns.index(name)]
        names += [level_term(name, level) for level in levels[1:]] if levels else [name]
    return tuple(names)


def level_term(column: str, level: str) -> str:
    """Return how a level of a column is named among others: `sex[m]`."""
    return f"{column}[{level}]"


def coded(
    predictors: Sequence[str], values: Float[np.ndarray, "n p"], columns: Sequence[str], categories: Categories
) -> Float[np.ndarray, "n d"]:
    """Return the terms as columns: 1, measurements as they are, and 1 where a category has the term's level."""
    parts = [np.ones((len(values), 1))]
    for name in predictors:
        if name in columns:
            parts.append(values[:, [columns.index(name)]])
        else:
            place = categories.columns.index(name)
            levels = np.arange(1, len(categories.levels[place]))
            parts.append((categories.codes[:, place, None] == levels).astype(float))
    return np.concatenate(parts, axis=1)


def least_squares(
    design: Float[np.ndarray, "n d"], outcome: Float[np.ndarray, " n"], terms: Sequence[str]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return β̂ = (AᵀA)⁻¹Aᵀy and its variances s²·diag (AᵀA)⁻¹, s² = ‖y − Aβ̂‖²/(n − d)."""
    n, d = design.shape
    if n <= d:
        raise NotEstimable(f"has {n} rows, too few for {d} coefficients")
    basis, root = _factor(design, terms)
    estimate = solve_triangular(root, basis.T @ outcome)
    residual = outcome - design @ estimate
    return estimate, residual @ residual / (n - d) * _inverse_diagonal(root)


def logistic(
    design: Float[np.ndarray, "n d"], outcome: Bool[np.ndarray, " n"], terms: Sequence[str]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return the log odds ratios of greatest likelihood and their variances diag (AᵀWA)⁻¹, W = p̂(1 − p̂)."""
    n, d = design.shape
    if n <= d:
        raise NotEstimable(f"has {n} rows, too few for {d} coefficients")
    # steps are taken in an orthonormal basis of the terms, which have any units; coefficients follow at the end
    basis, root = _factor(design, terms)
    basis = basis * np.sqrt(n)
    place = np.zeros(d)
    for _ in range(STEPS):
        odds = basis @ place
        weight = np.sqrt(expit(odds) * expit(-odds))
        weighted = np.linalg.qr(basis * weight[:, None], mode="r")
        if np.max(np.abs(odds)) > CERTAIN or np.min(np.abs(np.diagonal(weighted))) < DEPENDENT * np.sqrt(n):
            break
        score = basis.T @ (outcome - expit(odds))
        step = solve_triangular(weighted, solve_triangular(weighted, score, trans="T"))
        reach = float(np.max(np.abs(basis @ step)))
        if reach <= LAST_STEP:
            own = weighted @ root / np.sqrt(n)
            return solve_triangular(root, place + step) * np.sqrt(n), _inverse_diagonal(own)
        place = place + step * (
            np.log1p(reach) / reach
        )  # damped so, a step never lowers the likelihood (Bach 2010)
    raise NotEstimable("has no finite coefficients, for its predictors tell some of the outcome's levels apart")


def _factor(
    design: Float[np.ndarray, "n d"], terms: Sequence[str]
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "d d"]]:
    """Return A = QR; name the first term that those before it determine."""
    basis, root = np.linalg.qr(design)
    lost = np.abs(np.diagonal(root)) <= DEPENDENT * np.linalg.norm(root, axis=0)
    if lost.any():
        place = int(np.argmax(lost))
        why = "no row has it" if not design[:, place].any() else "the terms before it determine it"
        raise NotEstimable(f"has no coefficient of {terms[place]!r}: {why}")
    return basis, root


def _inverse_diagonal(root: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
    """Return diag (RᵀR)⁻¹."""
    return np.sum(solve_triangular(root, np.eye(len(root))) ** 2, axis=1)
