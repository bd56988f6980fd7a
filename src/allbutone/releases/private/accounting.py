"""ε and δ: what may be asked for, and what ρ-zero-concentrated privacy (zCDP) amounts to in them.

ρ adds over releases, ε does not: sums are taken in ρ and told in ε. A Gaussian mechanism whose sum one record
changes by Δ has ρ = Δ²/(2σ²). By Canonne, Kamath and Steinke (2020), for every α > 1,

    δ(ε) ≤ exp((α − 1)(αρ − ε))/(α − 1)·(1 − 1/α)^α
"""

from typing import Any

import numpy as np

from allbutone.support.errors import Cure, InputError, describe_value

DELTA = 1e-6


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


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the ε of ρ-zCDP at this δ: the least over α of αρ + (log 1/δ − log(α − 1))/(α − 1) + …"""
    from scipy.optimize import minimize_scalar  # not above: it is slow to load

    def epsilon(log_more: float) -> float:
        more = np.exp(log_more)  # α − 1
        return float(
            (1 + more) * rho + (-np.log(delta) - np.log(more) + (1 + more) * np.log(more / (1 + more))) / more
        )

    start = 0.5 * np.log(-np.log(delta) / rho)  # about where αρ and log(1/δ)/(α − 1) balance
    found = minimize_scalar(epsilon, bounds=(start - 5, start + 5), method="bounded", options={"xatol": 1e-10})
    return max(float(found.fun), 0.0)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ whose ε at this δ is not above the one asked for."""
    from scipy.optimize import brentq  # not above: it is slow to load

    return float(np.exp(brentq(lambda log: zcdp_epsilon(np.exp(log), delta) - epsilon, -60.0, 30.0, xtol=1e-13)))
