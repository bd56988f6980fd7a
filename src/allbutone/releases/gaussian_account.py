"""What Gaussian noise guarantees, exactly: from how far apart two neighbouring tables are to ε at δ, and back.

Noise of deviation σ on something that one record changes by at most Δ (in the ℓ₂ norm) makes two neighbouring
tables as hard to tell apart as N(0, 1) and N(μ, 1), μ = Δ/σ. The smallest δ at ε is then (Balle and Wang 2018)

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)

Independent noise on several things adds in μ²: together they are as N(0, 1) and N(√Σμ², 1), no more and no less.
ρ = μ²/2 is what zero-concentrated privacy calls it.

The noise here is the discrete Gaussian, in whole numbers. It is the continuous one, garbled: add N(0, σ² − τ²) and
draw a whole number near the result, with weights exp(−distance²/2τ²). By Poisson's summation formula those weights
sum to the same at every place, but for a factor of 1 ± 2·exp(−2π²τ²), which for τ = 2 is 1 ± 10⁻³⁴; so the outcome
is the discrete Gaussian of σ, but for such a factor in each entry. Hence μ = Δ/√(σ² − 4) in units of the lattice.
"""

from math import exp, sqrt
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from allbutone.support.errors import Cure, InputError, describe_value

DELTA = 1e-6
SMOOTHING = 2.0  # τ, in units of the lattice


def epsilon_of(epsilon: Any) -> float:
    """Return ε, or say that it must be a number above 0."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.number):
        raise InputError(f"epsilon must be a number, got {describe_value(epsilon)}")
    if not 0 < epsilon < np.inf:
        raise InputError(f"epsilon must be finite and exceed 0, got {epsilon:g}", Cure("try 1", "epsilon", 1.0))
    return float(epsilon)


def delta_of(delta: Any, people: int) -> float:
    """Return δ, refusing one that lets whole records out: it must lie between 0 and 1/n."""
    if isinstance(delta, bool) or not isinstance(delta, int | float | np.number):
        raise InputError(f"delta must be a number, got {describe_value(delta)}")
    if not 0 < delta < 1 / people:
        raise InputError(
            f"delta must lie above 0 and below 1/{people:,}, one over the number of people (with more, a release "
            f"that gives one person away entirely would pass), got {delta:g}",
            Cure("use the usual one", "delta", min(DELTA, 0.01 / people)),
        )
    return float(delta)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest δ at ε of Gaussian noise with this μ."""
    return float(ndtr(mu / 2 - epsilon / mu) - exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 at δ of Gaussian noise with this μ.

    >>> round(gaussian_epsilon(1.0, 1e-6), 4)
    4.8867
    """
    from scipy.optimize import brentq  # not above: it is slow to load

    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    # δ(ε) ≤ P(loss > ε), and the loss is N(μ²/2, μ²)
    most = mu**2 / 2 + mu * sqrt(-2 * np.log(delta))
    return float(brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, most, xtol=1e-13, rtol=1e-13))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ whose ε at this δ is not above the one asked for."""
    from scipy.optimize import brentq  # not above: it is slow to load

    def off(log_mu: float) -> float:
        return gaussian_delta(exp(log_mu), epsilon) - delta

    return exp(float(brentq(off, -40.0, 15.0, xtol=1e-13))) * (1 - 1e-12)


def lattice_scale(change: float, mu: float) -> float:
    """Return σ of the discrete Gaussian, in units of its lattice, for a change Δ in the same units, and μ."""
    return float(np.hypot(change / mu, SMOOTHING))
