"""How far records may lie from the public centre: what is cut off costs accuracy, and so does noise for the rest.

Both are computed beforehand from public figures: the number of people, ε, δ and the declared spreads, with one
correlation guessed for all pairs. A wrong guess costs accuracy and never privacy.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

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
