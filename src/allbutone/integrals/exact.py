"""Integrals under the posterior that need no sampling: after one release, after parameters, on a line."""

from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln, logsumexp, ndtr, stdtr

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes
from allbutone.model.distributions import Normal

NODES = 513  # of the trapezoid rule on the curve


def exact_log_totals(problem: LogQuadratic) -> Float[np.ndarray, " n"] | None:
    """Return log ∫ exp ℓ dv where it needs no sampling: one release, or released parameters."""
    p = problem.p
    if problem.wells == 0 and problem.falls_as_a_power:  # after rows of a fitted normal
        return None
    if problem.wells == 0 and not problem.pushes_outward:
        solved = np.linalg.solve(problem.precision, problem.pull[..., None])[..., 0]
        bowl = np.sum(problem.pull * solved, axis=-1)
        return 0.5 * (p * np.log(2 * np.pi) - np.linalg.slogdet(problem.precision)[1] + bowl)
    if problem.wells == 0:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a value a billion deviations out
            return contour_log_totals(problem)
    if problem.wells > 1 or problem.pushes_outward:
        return None
    shape, slope, weight = problem.shapes[..., 0, :, :], problem.slopes[..., 0, :], problem.weights[..., 0]
    location = np.linalg.solve(shape, slope[..., None])[..., 0]
    floor = problem.levels[..., 0] - np.sum(location * slope, axis=-1)
    constant = 0.5 * p * np.log(np.pi) + gammaln((weight - p) / 2) - gammaln(weight / 2)
    return constant + 0.5 * (p - weight) * np.log(floor) - 0.5 * np.linalg.slogdet(shape)[1]


def exact_within(
    problem: LogQuadratic, low: Float[np.ndarray, "n p"], high: Float[np.ndarray, "n p"]
) -> Float[np.ndarray, "n p"] | None:
    """Return the probability of an interval of each feature where it needs no sampling: after a single release.

    A feature of a normal is a normal, one of a Student t is a Student t of as many degrees of freedom.
    """
    found = problem.closed_form
    if found is None:
        return None
    if isinstance(found, Normal):
        spread = np.sqrt(np.diagonal(found.covariance, axis1=-2, axis2=-1))
        return interval_probability(found.mean, spread, np.inf, low, high)
    spread = np.sqrt(np.diagonal(found.scale, axis1=-2, axis2=-1))
    return interval_probability(found.location, spread, np.asarray(found.df)[..., None], low, high)


def interval_probability(
    centre: Float[np.ndarray, "n p"],
    spread: Float[np.ndarray, "#n p"],
    freedom: Any,
    low: Float[np.ndarray, "n p"],
    high: Float[np.ndarray, "n p"],
) -> Float[np.ndarray, "n p"]:
    """Return the probability of intervals under Student t distributions; of infinite freedom they are normal."""
    below, above = (low - centre) / spread, (high - centre) / spread
    # from the side on which both tails are small, lest digits cancel
    turned = below > 0
    below, above = np.where(turned, -above, below), np.where(turned, -below, above)
    if np.all(np.isinf(freedom)):
        return ndtr(above) - ndtr(below)
    return stdtr(freedom, above) - stdtr(freedom, below)


def contour_log_totals(problem: LogQuadratic) -> Float[np.ndarray, " n"]:
    """Return log ∫ exp ℓ(v) dv after released parameters, exactly, in any dimension, by one integral over a curve.

    By Laplace's transform (1 + cρ)^s = Γ(s+1)/(2πi) ∫ exp(t(1 + cρ))·t^(−s−1) dt, and under that integral v is
    normal. With s = a/2, A = QΩQᵀ and β = Qᵀb:

        Z = (2π)^(p/2)·Γ(s+1)/(2πi) ∫ exp ψ(t) dt
        ψ(t) = t − (s+1)·log t − ½ Σ log(ωᵢ − 2ct) + ½ Σ βᵢ²/(ωᵢ − 2ct)

    The curve crosses the real axis at the saddle t₀, leans right, where t^(−s−1) falls, and then bends left, where
    exp t dies; the trapezoid rule with w = width·sinh(x) converges to rounding.
    """
    omega, vectors = np.linalg.eigh(np.asarray(problem.precision))
    beta = (np.swapaxes(vectors, -1, -2) @ np.asarray(problem.pull)[..., None])[..., 0]
    n, p = omega.shape
    z, c = (
        np.broadcast_to(np.asarray(each), n)[:, None] for each in (0.5 * problem.outward + 1, problem.inflation)
    )
    gap = _saddle_gaps(z, c, omega, beta)
    saddle = (omega[:, :1] - gap[:, :1]) / (2 * c)
    totals = np.empty(n)
    for start in range(0, n, 64):
        part = slice(start, start + 64)
        totals[part] = _log_along_curve(z[part], c[part], saddle[part], gap[part], beta[part])
    # Γ(z)·exp(t₀)/t₀^z without the large numbers that cancel in it
    off = ((saddle - z) / z)[:, 0]
    top = z[:, 0] * (off - np.log1p(off)) + _stirling(z[:, 0])
    top += 0.5 * np.sum(beta**2 / gap - np.log(gap), axis=1)
    return 0.5 * p * np.log(2 * np.pi) - np.log(2 * np.pi) + top + totals


def _log_along_curve(
    z: Float[np.ndarray, "n 1"],
    c: Float[np.ndarray, "n 1"],
    saddle: Float[np.ndarray, "n 1"],
    gap: Float[np.ndarray, "n p"],
    beta: Float[np.ndarray, "n p"],
) -> Float[np.ndarray, " n"]:
    """Return log ∫ exp(ψ(t) − ψ(t₀)) dt/i along the curve through the saddle t₀."""
    bend = z / saddle**2 + np.sum(2 * c**2 * (1 / gap**2 + 2 * beta**2 / gap**3), axis=1, keepdims=True)
    width = 1 / (saddle * np.sqrt(bend))
    # t^−z falls to the right as long as t₀ < z, exp t to the left: how far the curve leans, and where both end
    lean = 0.5 * (z - saddle) / (z - saddle + np.sqrt(z))
    reach = np.arcsinh(1.5 / (np.sqrt(saddle / 90) + (z - saddle) * lean / 45) / width)
    x = np.linspace(0, 1, NODES) * reach
    w, weight = width * np.sinh(x), width * np.cosh(x) * reach / (NODES - 1)
    weight[:, 0] /= 2  # the curve is its own mirror image: half of it, twice
    bow = np.hypot(w, width)
    away = 1j * w + lean * (bow - width) - w**2 / 2  # t/t₀ − 1
    turn = 1 + 1j * (w - lean * w / bow)  # dt/(i·t₀·dw)
    squares, gaps = beta[:, None, :] ** 2, gap[:, None, :]
    moved = gaps - 2 * (c * saddle * away)[..., None]
    exponent = saddle * away - z * np.log1p(away)
    exponent = exponent + 0.5 * np.sum(squares * (1 / moved - 1 / gaps) - np.log(moved / gaps), axis=-1)
    with np.errstate(under="ignore"):
        integrand = np.exp(exponent) * turn
    return np.log(2 * np.sum(weight * integrand.real, axis=1) * saddle[:, 0])


def _stirling(z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return log Γ(z) − z·log z + z."""
    series = 0.5 * np.log(2 * np.pi / z) + 1 / (12 * z) - 1 / (360 * z**3)
    return np.where(z < 1e4, gammaln(z) - z * np.log(z) + z, series)


def _saddle_gaps(z: np.ndarray, c: np.ndarray, omega: np.ndarray, beta: np.ndarray) -> Float[np.ndarray, "n p"]:
    """Return ωᵢ − 2ct₀ at the minimum t₀ of ψ on 0 < t < ω₁/2c, where it is convex.

    Bisection runs over the logarithm of the first gap: an exposed record's saddle comes so close to ω₁/2c that the
    difference would have no digits left.
    """
    above, first = omega - omega[:, :1], omega[:, :1]
    low, high = np.log(first) - 80, np.log(first)
    for _ in range(64):
        middle = (low + high) / 2
        gap = above + np.exp(middle)
        t = -np.expm1(middle - np.log(first)) * first / (2 * c)
        slope = 1 - z / t + np.sum(c * (1 / gap + beta**2 / gap**2), axis=1, keepdims=True)
        # a larger gap is a smaller t, where ψ still falls
        low, high = np.where(slope < 0, low, middle), np.where(slope < 0, middle, high)
    return above + np.exp((low + high) / 2)


def log_mass_on_a_line(posterior: LogQuadratic, modes: Modes, low: float, high: float) -> float:
    """Return log ∫ exp ℓ(v) dv between two ends, for a single unknown feature."""
    points, weights = line_rule(posterior, modes, low, high)
    return float(logsumexp(posterior.value(points[:, None]) + np.log(weights)))


def line_rule(
    posterior: LogQuadratic, modes: Modes, start: float = -np.inf, end: float = np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """Return points and weights for integrals of exp ℓ over the line, or a piece of it.

    The line is cut half-way between the modes; on either side v = mode + sinh(u)/√curvature, with panels of half
    a unit of u, which resolve the peak and follow its polynomial tail for sixteen decades.
    """
    centres = [(float(modes.best[0]), float(modes.hessian[0, 0]))]
    if np.isfinite(modes.gap):
        centres.append((float(modes.other[0]), float(modes.other_hessian[0, 0])))
    centres.sort()
    cuts = [-np.inf, *((a[0] + b[0]) / 2 for a, b in pairwise(centres)), np.inf]
    nodes, node_weights = np.polynomial.legendre.leggauss(20)
    points, weights = [], []
    for (centre, bend), low, high in zip(centres, cuts[:-1], cuts[1:], strict=True):
        spread = 1 / np.sqrt(max(-bend, 1e-12))
        pieces = (np.clip(cut, start, end) for cut in (low, high))
        ends = [np.clip(np.arcsinh((cut - centre) / spread), -40, 40) for cut in pieces]
        if ends[1] <= ends[0]:
            continue  # this side of the cut lies outside the piece
        edges = np.linspace(ends[0], ends[1], 2 + int(2 * (ends[1] - ends[0])))
        half = np.diff(edges)[:, None] / 2
        u = (edges[:-1, None] + half + half * nodes).ravel()
        points.append(centre + spread * np.sinh(u))
        weights.append((half * node_weights).ravel() * spread * np.cosh(u))
    return np.concatenate(points), np.concatenate(weights)
