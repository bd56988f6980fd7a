"""The paper's attack at p = 2 with a choice of slips, on tables and releases drawn as the paper draws them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import find_modes
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.studies.design import Cell

AT_ONCE = 100_000  # released draws or datasets held at a time


@dataclass(frozen=True)
class Cause:
    """What may have been done otherwise. By default nothing: the algorithm as printed, maximised exactly."""

    words: str
    prior_mean: float = 1.1
    adversary_mean: float | None = None  # the adversary takes the prior's mean for this
    others: int = -1  # how many records the adversary has, beside n
    drawn_target: bool = False
    other_target: bool = False  # the distance is taken from the drawn target, not from (20, 20)
    mean_divisor: int = 1  # m in κ′·n_z/(κ′ + m·n_z), the weight of a dataset's mean
    scatter: Callable[[int], float] = lambda rows: 1.0  # factor of a dataset's scatter
    outward: Callable[[float], float] = lambda df: 0.0  # added to the weight of log |Λ′|, given ν′
    search: str = "exact"  # or "start": L-BFGS-B from the paper's starting value
    box: tuple[float, float] | None = None
    tolerance: float = 2.2e-9  # R's factr = 1e7
    again: int = 1000  # replicates behind a printed number
    only: Callable[[Cell], bool] = lambda cell: True


@dataclass(frozen=True, eq=False)
class _Drawn:
    """A block of releases, and what the adversary has."""

    given_others: NIW
    targets: np.ndarray
    means: np.ndarray
    scales: np.ndarray  # Σ* of released parameters, the scatter of released datasets


def attack(cell: Cell, cause: Cause, replicates: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the guesses and their distances from the target."""
    guesses, distances = [], []
    for size in _sizes(cell, replicates):
        drawn = _draw(cell, cause, size, rng)
        problem = _posterior(cell, cause, drawn)
        found = problem.unwhiten(find_modes(problem).best)
        guesses.append(found)
        distances.append(_distance(cell, cause, drawn, found))
    return np.concatenate(guesses), np.concatenate(distances)


def both_searches(cell: Cell, cause: Cause, replicates: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return guesses and distances of the exact search and of L-BFGS-B, on the same releases."""
    drawn = _draw(cell, cause, replicates, rng)
    problem = _posterior(cell, cause, drawn)
    exact = problem.unwhiten(find_modes(problem).best)
    climbed = _climb(cell, cause, problem, drawn)
    return [part for found in (exact, climbed) for part in (found, _distance(cell, cause, drawn, found))]


def _distance(cell: Cell, cause: Cause, drawn: _Drawn, found: np.ndarray) -> np.ndarray:
    aim = drawn.targets if cause.other_target else np.array(cell.target)
    return np.linalg.norm(found - aim, axis=1)


def _sizes(cell: Cell, replicates: int) -> Iterator[int]:
    step = max(1, AT_ONCE // cell.count)
    for start in range(0, replicates, step):
        yield min(step, replicates - start)


def _draw(cell: Cell, cause: Cause, size: int, rng: np.random.Generator) -> _Drawn:
    p, known = cell.p, cell.n + cause.others
    root = np.linalg.cholesky(np.array(cell.covariance))
    half = root @ _bartlett(rng, known - 1, (size,), p)
    mean = np.array(cell.mean) + rng.standard_normal((size, p)) @ root.T / np.sqrt(known)
    moments = Moments(float(known), mean, half @ half.swapaxes(-1, -2))
    prior = partial(NIW, mean_weight=1.0, df=p + 2.0, scale=np.eye(p))
    targets = np.broadcast_to(np.array(cell.target), mean.shape)
    if cause.drawn_target:
        targets = targets + rng.standard_normal(mean.shape) @ root.T
    given_others = prior(np.full(p, cause.prior_mean)).update(moments)
    whole = given_others.update(Moments(1.0, targets, np.zeros((size, p, p))))
    means, roots = (part.swapaxes(0, 1) for part in whole.draw_roots(rng, cell.count))
    if cause.adversary_mean is not None:
        given_others = prior(np.full(p, cause.adversary_mean)).update(moments)
    if cell.rows is None:
        return _Drawn(given_others, targets, means, roots @ roots.swapaxes(-1, -2))
    noise = (roots @ rng.standard_normal((*means.shape, 1)))[..., 0] / np.sqrt(cell.rows)
    half = roots @ _bartlett(rng, cell.rows - 1, means.shape[:2], p)
    return _Drawn(given_others, targets, means + noise, half @ half.swapaxes(-1, -2) * cause.scatter(cell.rows))


def _bartlett(rng: np.random.Generator, df: int, shape: tuple[int, ...], p: int) -> np.ndarray:
    """Return L of a Wishart matrix LLᵀ with df degrees of freedom."""
    lower = np.tril(rng.standard_normal((*shape, p, p)), -1)
    for place in range(p):
        lower[..., place, place] = np.sqrt(rng.chisquare(df - place, shape))
    return lower


def _posterior(cell: Cell, cause: Cause, drawn: _Drawn) -> LogQuadratic:
    """Return the score of Algorithm 2 or 3 as printed, with the slips, up to a constant.

    |Λ + S + a·ddᵀ + η·(m − d/κ′)(m − d/κ′)ᵀ| is, in d, a well with its middle at (η/(κ′α))·m, α = a + η/κ′².
    """
    others, p = drawn.given_others, cell.p
    kappa, df = others.mean_weight + 1, others.df + 1
    inflation = others.mean_weight / kappa
    inverse = np.linalg.inv(others.root)[:, None]
    shift = (inverse @ (drawn.means - others.mean[:, None])[..., None])[..., 0]
    scales = inverse @ drawn.scales @ inverse.swapaxes(-1, -2)
    shared: dict[str, Any] = {
        "centre": others.mean, "root": others.root, "df": others.df, "inflation": inflation,
        "outward": (cell.count - 1) * df + cause.outward(df),
    }  # fmt: skip
    if cell.rows is None:
        precision = np.linalg.inv(scales)
        pull = (precision @ shift[..., None])[..., 0].sum(axis=1)
        none: dict[str, Any] = {"weights": np.zeros(0), "levels": np.zeros(0)}
        none |= {"slopes": np.zeros((0, p)), "shapes": np.zeros((0, p, p))}
        return LogQuadratic(**shared, precision=precision.sum(axis=1), pull=pull, **none)
    eta = kappa * cell.rows / (kappa + cause.mean_divisor * cell.rows)
    alpha = inflation + eta / kappa**2
    outer = shift[..., :, None] * shift[..., None, :]
    shapes = alpha * np.linalg.inv(np.eye(p) + scales + (eta - eta**2 / (kappa**2 * alpha)) * outer)
    middle = eta / (kappa * alpha) * shift
    slopes = (shapes @ middle[..., None])[..., 0]
    return LogQuadratic(
        **shared, precision=np.zeros((p, p)), pull=np.zeros(p), weights=np.full(cell.count, df + cell.rows),
        levels=1 + np.sum(middle * slopes, axis=-1), slopes=slopes, shapes=shapes,
    )  # fmt: skip


def _climb(cell: Cell, cause: Cause, problem: LogQuadratic, drawn: _Drawn) -> np.ndarray:
    """Maximise by L-BFGS-B from one start, the paper's, with the memory and the tolerance of R's optim."""
    rows = cell.rows or 0
    start = drawn.means.mean(axis=1)
    if rows:
        start = (cause.prior_mean + rows * cell.count * start) / (1 + rows * cell.count)
    bounds = None if cause.box is None else [cause.box] * cell.p
    options = {"maxcor": 5, "ftol": cause.tolerance, "gtol": 0.0, "maxiter": 100}
    found = np.empty_like(start)
    for place in range(len(start)):
        fall = _falling(problem, place)
        if bounds is not None:
            start[place] = np.clip(start[place], *cause.box)
        found[place] = minimize(fall, start[place], jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return found


def _falling(problem: LogQuadratic, place: int) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return −s and its gradient in x for one posterior of the batch, in few operations."""
    centre, inverse = problem.centre[place], np.linalg.inv(problem.root[place])
    wells = problem.weights.shape[-1] > 0
    precision, pull = (
        (problem.precision, problem.pull) if wells else (problem.precision[place], problem.pull[place])
    )
    levels, slopes, shapes = (
        part[place] if wells else part for part in (problem.levels, problem.slopes, problem.shapes)
    )
    outward, inflation, weights = problem.outward, problem.inflation, problem.weights

    def fall(x: np.ndarray) -> tuple[float, np.ndarray]:
        white = inverse @ (x - centre)
        turned = shapes @ white
        level = levels + (turned - 2 * slopes) @ white
        inside = 1 + inflation * (white @ white)
        bent = precision @ white
        value = outward * np.log(inside) - white @ bent + 2 * pull @ white - weights @ np.log(level)
        slope = outward * inflation / inside * white - bent + pull - (weights / level) @ (turned - slopes)
        return -value, -2 * inverse.T @ slope

    return fall
