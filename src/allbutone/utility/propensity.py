"""Propensity scores: how well a logistic regression tells real from synthetic rows, for many datasets at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit, logit

STEPS = 200  # Newton steps at most; five or six are the rule
LAST_STEP = 1e-6  # a step that moves no score's log odds by more than this is the last: its error is its square
CERTAIN = 25.0  # log odds on the right side for every row, at which the rows count as told apart
SEPARATED = 1e-9  # information a record, in whitened columns, below which no coefficients are finite
RIDGE = 1e-13  # keeps steps finite where rows separate; the solution does not depend on it


@dataclass(frozen=True, eq=False)
class Propensity:
    """The propensity scores' mean squared error, and whether the regression has a finite solution; (k,) each."""

    mean_squared_error: Float[np.ndarray, " k"]
    finite: Bool[np.ndarray, " k"]


def propensity(real: Float[np.ndarray, "p n"], synthetic: Float[np.ndarray, "k p rows"]) -> Propensity:
    """Return pMSE = (1/N)·Σᵢ (p̂ᵢ − c)² for each dataset beside the real table, columns whitened.

    p̂ᵢ is the fitted probability that row i of the N = n + rows is synthetic, by logistic regression on the columns
    (main effects) with an intercept; c = rows/N. Where the columns separate the rows, wholly or in part, the
    coefficients are infinite; pMSE is then its limit (c·(1 − c) if wholly), and `finite` is False.
    """
    k, _, rows = synthetic.shape
    total = real.shape[1] + rows
    share = rows / total
    tables = (_with_intercept(np.broadcast_to(real, (1, *real.shape))), _with_intercept(synthetic))
    odds = [np.full((k, table.shape[-1]), logit(share)) for table in tables]
    error, finite = np.empty(k), np.ones(k, dtype=bool)
    active, here = np.arange(k), tables
    for _ in range(STEPS):
        information, step = _newton_step(here, odds)
        change = [(step[:, None, :] @ table)[:, 0] for table in here]
        reach = np.maximum(*(np.max(np.abs(part), axis=1) for part in change))
        # quasi-self-concordance (Bach 2010): damped so, a Newton step never lowers the likelihood
        damping = np.where(reach > LAST_STEP, np.log1p(reach) / np.maximum(reach, LAST_STEP), 1.0)
        odds = [old + damping[:, None] * part for old, part in zip(odds, change, strict=True)]
        weakest = np.linalg.eigvalsh(information)[:, 0] / total
        told_apart = np.minimum(np.min(-odds[0], axis=1), np.min(odds[1], axis=1)) > CERTAIN
        done = (reach <= LAST_STEP) | told_apart
        error[active], finite[active] = _squared_error(odds, share), weakest > SEPARATED
        if done.all():
            return Propensity(error, finite)
        if done.any():
            active, odds = active[~done], [part[~done] for part in odds]
            here = (tables[0], here[1][~done])
    finite[active] = False
    return Propensity(error, finite)


def _with_intercept(table: Float[np.ndarray, "k p rows"]) -> Float[np.ndarray, "k p+1 rows"]:
    return np.concatenate([np.ones_like(table[:, :1]), table], axis=1)


def _newton_step(tables: Any, odds: Any) -> tuple[Float[np.ndarray, "k q q"], Float[np.ndarray, "k q"]]:
    """Return the information A·diag(p̂(1 − p̂))·Aᵀ and the step it gives, for columns A and log odds of all rows."""
    information: Any = 0.0
    score: Any = 0.0
    for table, log_odds, label in zip(tables, odds, (0.0, 1.0), strict=True):
        fitted = expit(log_odds)
        weight = fitted * expit(-log_odds)
        information = information + (table * weight[:, None, :]) @ table.swapaxes(-1, -2)
        residual = -fitted if label == 0 else expit(-log_odds)
        score = score + (table @ residual[:, :, None])[..., 0]
    size = np.trace(information, axis1=-2, axis2=-1)[:, None, None]
    ridge = (RIDGE * size + np.finfo(float).tiny) * np.eye(information.shape[-1])
    return information, np.linalg.solve(information + ridge, score[..., None])[..., 0]


def _squared_error(odds: Any, share: float) -> Float[np.ndarray, " k"]:
    squares = sum(np.sum((expit(part) - share) ** 2, axis=1) for part in odds)
    return squares / sum(part.shape[1] for part in odds)
