"""What chance alone does to measures that are squares, such as φ², η² or χ²/M: it makes them larger."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri

BAND = 0.1  # differences of shares, associations and means within it are negligible, in each measure's own scale
MEDIAN = 1.2533  # the median of k normal values varies by √(π/2)/√k of one


def far_out(tests: int) -> float:
    """Return how many standard errors a right model passes once in 100 times over all tests, on either side."""
    return float(ndtri(1 - 0.005 / max(tests, 1)))


def squares_apart(
    real: Float[np.ndarray, "*t"],
    synthetic: Float[np.ndarray, "k *t"],
    degrees: Int[np.ndarray, "*t"],
    effective: Float[np.ndarray, "k *t"],
    band: Float[np.ndarray, "*t"],
) -> Bool[np.ndarray, "*t"]:
    """Say which squares a², medians over k datasets, are further than the band from the real ones beyond chance.

    M·a² of a right model's dataset is noncentral χ², M = 1/(1/n + 1/rows): its mean is M·a²_real + degrees, its
    variance 2·degrees + 4·M·a². So `degrees`/M is taken from a², which must then lie beyond (a_real ± band)² by
    more than the median of k datasets does by chance, at 1 in 100 over all tests.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # nothing was seen: never apart
        size = np.mean(effective, axis=0)
        found = np.median(synthetic - degrees / effective, axis=0)
        root = np.sqrt(real)
        below, above = np.maximum(root - band, 0), root + band
        factor = far_out(real.size) * MEDIAN / np.sqrt(len(synthetic)) / size
        low, high = (factor * np.sqrt(2 * degrees + 4 * size * edge**2) for edge in (below, above))
        least = np.maximum(below - low / (2 * below), 0)  # the noise of a, not of its square, down to 0
        return ((least > 0) & (found < least**2)) | (found > above**2 + high)


def flagged(names: Sequence[str], flags: Bool[np.ndarray, " t"]) -> tuple[str, ...]:
    """Return the names that are flagged."""
    return tuple(name for name, flag in zip(names, flags, strict=True) if flag)
