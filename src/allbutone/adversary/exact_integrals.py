"""What the adversary has learned of records whose truth we know, for many posteriors at once.

All measures are taken in the crowd's own metric, v = root⁻¹(x − centre), and none depends on scale or correlation.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.special import chndtr, gammaincinv, gammaln, logsumexp, ndtri, roots_genlaguerre

from allbutone.adversary.importance_sampling import Points, scrambled_points, spread_at
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes
from allbutone.model.distributions import StudentT

LIGHTEST_DF = (
    60.0  # proposals need tails no lighter than the posterior's; near-normal ones waste the fewest points
)
WIDER = 1.3  # than the curvature at the mode says, squared


def exposure_of(modes: Float[np.ndarray, "n p"], truth: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """Return how far the mode has travelled from the crowd (0) towards the record (1): v̂ᵀu/‖u‖²."""
    return np.sum(modes * truth, axis=-1) / np.sum(truth * truth, axis=-1)


def relative_error(modes: Float[np.ndarray, "n p"], truth: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """Return ‖v̂ − u‖/‖u‖: the guess's Mahalanobis error over that of guessing the crowd's centre."""
    return np.linalg.norm(modes - truth, axis=-1) / np.linalg.norm(truth, axis=-1)


def prior_log_density(problem: LogQuadratic, white: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """Return the log density, in v, of an adversary who ignores the release.

    −½ν′·log(1 + c‖v‖²) + log Γ(ν′/2) − log Γ((ν′−p)/2) − ½p·log(π/c)
    """
    df, p, c = problem.df + 1, problem.p, np.asarray(problem.inflation)
    constant = gammaln(df / 2) - gammaln((df - p) / 2) - 0.5 * p * np.log(np.pi / c)
    return constant - 0.5 * df * np.log1p(c * np.sum(white * white, axis=-1))


def prior_mass(problem: LogQuadratic, truth: Float[np.ndarray, "n p"], radius: float) -> Float[np.ndarray, " n"]:
    """Return the mass within a Mahalanobis radius of each record for an adversary who ignores the release.

    The Student t is a normal N(0, I/(c·g)) with g ~ χ²(ν′ − p), under which c·g·‖v − u‖² is noncentral χ²; g is
    integrated by Gauss's rule.
    """
    df, c = problem.df + 1 - problem.p, np.asarray(problem.inflation)
    nodes, weights = _chi_square_rule(df)
    scale = (c * np.ones(len(truth)))[:, None] * nodes
    offset = np.sum(truth * truth, axis=-1)[:, None]
    return chndtr(scale * radius**2 / problem.df, problem.p, scale * offset) @ weights


def _chi_square_rule(df: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for an expectation over χ²(df): Laguerre's, or Legendre's over its quantiles."""
    if df < 150:
        nodes, weights = roots_genlaguerre(60, df / 2 - 1)
        return 2 * nodes, weights / weights.sum()
    uniform, weights = np.polynomial.legendre.leggauss(60)
    return 2 * gammaincinv(df / 2, (1 + uniform) / 2), weights / 2


@dataclass(frozen=True, eq=False)
class Learned:
    """Log totals ∫ exp ℓ dv and, where a radius was given, the mass near the truth; with standard errors."""

    log_total: Float[np.ndarray, " n"]
    log_total_error: Float[np.ndarray, " n"]
    mass: Float[np.ndarray, " n"] | None
    mass_error: Float[np.ndarray, " n"] | None


def information_gain(
    problem: LogQuadratic, truth: Float[np.ndarray, "n p"], log_total: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return log p(x | release, others) − log p(x | others) at the truth, in nats."""
    return problem.value(truth) - log_total - prior_log_density(problem, truth)


def points_for(work: float, targets: int, problem: LogQuadratic) -> int:
    """Return how many points a posterior may have if `work` products of points and wells are spent on all."""
    # drawing and weighing a point costs as much as ten wells
    each = work / (targets * (problem.wells + 10) * problem.p)
    return 1 << int(np.clip(np.log2(max(each, 1)), 5, 13 if problem.p <= 2 else 11))


def integrate_many(
    problem: LogQuadratic,
    modes: Modes,
    truth: Float[np.ndarray, "n p"],
    radius: float | None,
    rng: np.random.Generator | Points,
    size: int = 1 << 14,
    replicates: int = 4,
) -> Learned:
    """Integrate many posteriors at once by quasi-random importance sampling around both modes.

    `rng` scrambles the points, or is itself a source of them.

    Totals of a single release, and of released parameters, are exact. The mass near the truth is estimated twice:
    from points of the ball, which is accurate where the posterior is wider than the ball, and as the share of the
    sample's weight inside, which is where it is narrower; each record keeps the steadier of the two.
    """
    n = len(truth)
    exact = exact_log_totals(problem)
    if exact is not None and radius is None:
        return Learned(exact, np.zeros(n), None, None)
    parts, ball = _parts(problem, modes), 0.0 if radius is None else radius / np.sqrt(problem.df)
    source: Points = partial(scrambled_points, rng) if isinstance(rng, np.random.Generator) else rng
    totals, shares, volumes = [], [], []
    for _ in range(replicates):
        points, log_proposal = _sample(parts, size, source)
        ratio = values_many(problem, points) - log_proposal
        totals.append(logsumexp(ratio, axis=1) - np.log(ratio.shape[1]))
        if radius is not None:
            inside = np.sum((points - truth[:, None, :]) ** 2, axis=-1) <= ball**2
            shares.append(np.sum(inside * np.exp(ratio - logsumexp(ratio, axis=1, keepdims=True)), axis=1))
            volumes.append(_log_ball(problem, truth, ball, size, source))
    log_total, error = _mean_and_error(totals)
    if exact is not None:
        log_total, error = exact, np.zeros(n)
    if radius is None:
        return Learned(log_total, error, None, None)
    by_share, share_error = np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1) / np.sqrt(replicates)
    log_volume, volume_error = _mean_and_error(volumes)
    with np.errstate(under="ignore"):
        by_ball = np.exp(log_volume - log_total)
    ball_error = by_ball * np.hypot(volume_error, error)
    # a share of zero or one has no spread, and says little: it is trusted only to the nearest point
    share_error = np.maximum(share_error, 1 / (replicates * size))
    steadier = ball_error <= share_error
    mass = np.minimum(np.where(steadier, by_ball, by_share), 1.0)
    return Learned(log_total, error, mass, np.where(steadier, ball_error, share_error))


def _mean_and_error(logs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the log of the replicates' mean, and its relative standard error."""
    mean = logsumexp(logs, axis=0) - np.log(len(logs))
    with np.errstate(under="ignore"):
        return mean, np.std(np.exp(np.array(logs) - mean), axis=0, ddof=1) / np.sqrt(len(logs))


def exact_log_totals(problem: LogQuadratic) -> Float[np.ndarray, " n"] | None:
    """Return log ∫ exp ℓ dv where it needs no sampling: one release, or released parameters."""
    p = problem.p
    if problem.wells == 0 and not problem.outward:
        solved = np.linalg.solve(problem.precision, problem.pull[..., None])[..., 0]
        bowl = np.sum(problem.pull * solved, axis=-1)
        return 0.5 * (p * np.log(2 * np.pi) - np.linalg.slogdet(problem.precision)[1] + bowl)
    if problem.wells == 0:
        return contour_log_totals(problem)
    if problem.wells > 1 or problem.outward:
        return None
    shape, slope, weight = problem.shapes[..., 0, :, :], problem.slopes[..., 0, :], float(problem.weights[0])
    location = np.linalg.solve(shape, slope[..., None])[..., 0]
    floor = problem.levels[..., 0] - np.sum(location * slope, axis=-1)
    constant = 0.5 * p * np.log(np.pi) + gammaln((weight - p) / 2) - gammaln(weight / 2)
    return constant + 0.5 * (p - weight) * np.log(floor) - 0.5 * np.linalg.slogdet(shape)[1]


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
    z, p = 0.5 * problem.outward + 1, problem.p
    c = np.broadcast_to(np.asarray(problem.inflation), omega.shape[:-1])[:, None]
    gap = _saddle_gaps(z, c, omega, beta)
    saddle = (omega[:, :1] - gap[:, :1]) / (2 * c)
    bend = z / saddle**2 + np.sum(2 * c**2 * (1 / gap**2 + 2 * beta**2 / gap**3), axis=1, keepdims=True)
    width = 1 / (saddle * np.sqrt(bend))
    # t^−z falls to the right as long as t₀ < z, exp t to the left: how far the curve leans, and where both end
    lean = 0.5 * (z - saddle) / (z - saddle + np.sqrt(z))
    reach = np.arcsinh(1.5 / (np.sqrt(saddle / 90) + (z - saddle) * lean / 45) / width)
    x = np.linspace(0, 1, 513) * reach
    w, weight = width * np.sinh(x), width * np.cosh(x) * reach / 512
    weight[:, 0] /= 2  # the curve is its own mirror image: half of it, twice
    bow = np.hypot(w, width)
    away = 1j * w + lean * (bow - width) - w**2 / 2  # t/t₀ − 1
    turn = 1 + 1j * (w - lean * w / bow)  # dt/(i·t₀·dw)
    totals = np.empty(len(omega))
    for start in range(0, len(omega), 64):
        part = slice(start, start + 64)
        squares, gaps = beta[part, None, :] ** 2, gap[part, None, :]
        moved = gaps - 2 * (c[part] * saddle[part] * away[part])[..., None]
        exponent = saddle[part] * away[part] - z * np.log1p(away[part])
        exponent = exponent + 0.5 * np.sum(squares * (1 / moved - 1 / gaps) - np.log(moved / gaps), axis=-1)
        with np.errstate(under="ignore"):
            integrand = np.exp(exponent) * turn[part]
        totals[part] = np.log(2 * np.sum(weight[part] * integrand.real, axis=1) * saddle[part, 0])
    # Γ(z)·exp(t₀)/t₀^z without the large numbers that cancel in it
    off = (saddle[:, 0] - z) / z
    top = z * (off - np.log1p(off)) + _stirling(z) + 0.5 * np.sum(beta**2 / gap - np.log(gap), axis=1)
    return 0.5 * p * np.log(2 * np.pi) - np.log(2 * np.pi) + top + totals


def _stirling(z: float) -> float:
    """Return log Γ(z) − z·log z + z."""
    if z < 1e4:
        return float(gammaln(z) - z * np.log(z) + z)
    return float(0.5 * np.log(2 * np.pi / z) + 1 / (12 * z) - 1 / (360 * z**3))


def _saddle_gaps(z: float, c: np.ndarray, omega: np.ndarray, beta: np.ndarray) -> Float[np.ndarray, "n p"]:
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


def values_many(problem: LogQuadratic, white: Float[np.ndarray, "n s p"]) -> Float[np.ndarray, "n s"]:
    """Return ℓ at s points for each of n posteriors, a bounded number at a time."""
    n, _, p = white.shape
    k, batched = problem.wells, problem.shapes.ndim == 4
    rows = max(1, (1 << 21) // max(1, white.shape[1] * max(1, k) * p))
    found = np.empty(white.shape[:2])
    for start in range(0, n, rows):
        part = problem.take(np.arange(start, min(start + rows, n))) if n > 1 else problem
        across = np.ascontiguousarray(np.swapaxes(white[start : start + rows], 1, 2))
        squared = np.sum(across * across, axis=1)
        c = np.asarray(part.inflation)
        c = c[:, None] if c.ndim else c
        linear = 2 * np.asarray(part.pull)[..., None] - part.precision @ across
        value = part.outward * np.log1p(c * squared) + np.sum(across * linear, axis=1)
        if k:
            shapes = part.shapes if batched else part.shapes[None]
            bent = (shapes.reshape(-1, k * p, p) @ across).reshape(len(across), k, p, -1)
            bent -= 2 * part.slopes[..., None]
            levels = part.levels[..., None] + np.sum(bent * across[:, None], axis=2)
            value -= part.weights @ np.log(levels)
        found[start : start + rows] = 0.5 * value
    return found


def _parts(problem: LogQuadratic, modes: Modes) -> list[tuple[StudentT, int]]:
    """Return Student t parts at both modes and at the crowd, each with how many times fewer points it gets."""
    n, p = modes.best.shape
    present = np.isfinite(modes.gap)[:, None]
    other = np.where(present, modes.other, modes.best)
    tail = float(np.sum(problem.weights)) - problem.outward - p if problem.wells else np.inf
    df = max(1.0, min(LIGHTEST_DF, tail))
    crowd = StudentT(np.zeros((n, p)), np.broadcast_to(np.eye(p) / problem.df, (n, p, p)), min(df, problem.df))
    best, second = (WIDER * spread_at(hessian, problem.df) for hessian in (modes.hessian, modes.other_hessian))
    return [(StudentT(modes.best, best, df), 1), (StudentT(other, second, df), 2), (crowd, 4)]


def _sample(
    parts: list[tuple[StudentT, int]], size: int, source: Points
) -> tuple[Float[np.ndarray, "n s p"], Float[np.ndarray, "n s"]]:
    """Return points for every posterior and their log proposal density."""
    p = parts[0][0].location.shape[-1]
    drawn, shares = [], []
    for part, fewer in parts:
        uniform = source(p + 1, max(2, size // fewer))
        stretch = np.sqrt(part.df / (2 * gammaincinv(part.df / 2, uniform[:, -1:])))
        white = stretch * ndtri(uniform[:, :-1])
        drawn.append(part.location[:, None, :] + white @ np.swapaxes(part.root, -1, -2))
        shares.append(len(uniform))
    points = np.concatenate(drawn, axis=1)
    logs = [np.log(share) + _log_density(part, points) for (part, _), share in zip(parts, shares, strict=True)]
    return points, logsumexp(logs, axis=0) - np.log(sum(shares))


def _log_ball(
    problem: LogQuadratic, truth: Float[np.ndarray, "n p"], reach: float, size: int, source: Points
) -> Float[np.ndarray, " n"]:
    """Return the log of ∫ exp ℓ over the ball around each record, from points spread evenly in it."""
    p = truth.shape[1]
    uniform = source(p + 1, size)
    white = ndtri(uniform[:, :-1])
    white *= uniform[:, -1:] ** (1 / p) / np.linalg.norm(white, axis=1, keepdims=True)
    values = values_many(problem, truth[:, None, :] + reach * white)
    log_volume = 0.5 * p * np.log(np.pi) - gammaln(0.5 * p + 1) + p * np.log(reach)
    return log_volume + logsumexp(values, axis=1) - np.log(size)


def _log_density(part: StudentT, points: Float[np.ndarray, "n s p"]) -> Float[np.ndarray, "n s"]:
    """Return the part's log density at its own s points, each posterior's with its own scale."""
    p = points.shape[-1]
    white = np.linalg.solve(part.root, np.swapaxes(points - part.location[:, None, :], 1, 2))
    half = (part.df + p) / 2
    constant = gammaln(half) - gammaln(part.df / 2) - 0.5 * p * np.log(part.df * np.pi)
    volume = np.sum(np.log(np.diagonal(part.root, axis1=-2, axis2=-1)), axis=-1)
    return constant - volume[:, None] - half * np.log1p(np.sum(white * white, axis=1) / part.df)
