"""What numbers look like: identifiers, codes for missing values, decimals, a less skewed scale."""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from allbutone.tables.declared.scales import Scale
from allbutone.tables.names import looks_like_identifier

MOST_DECIMALS = 6
FEWEST = 8  # values from which a scale can be told
BELOW = 0.01  # of the drawn values, below 0
FARTHEST = 2.0  # times the largest value: as far as the largest of as many drawn ones may be expected
FARTHEST_LOG = 3.0  # whose own largest values vary that much
ALIKE = 0.005  # correlations with normal scores that hardly differ
CODES = (-9, -99, -999, -9999, -99999, -8, -88, -888, -8888, 999, 9999, 99999, 999999, 8888, 88888)


def proposed_scale(there: Float[np.ndarray, " n"]) -> str:
    """Return the scale on which values that are never negative are nearest to a normal.

    As they are, where that is not skewed and would give less than one in a hundred below 0. A scale whose normal
    reaches far beyond the largest value is none: what is drawn from it has absurd tails. Of scales that are
    nearly as good the first is taken, which is the one that needs no limit.
    """
    least, mean, spread = float(there.min()), float(np.mean(there)), float(np.std(there))
    if least < 0 or len(there) < FEWEST or (abs(_skewness(there)) <= 1 and mean > -ndtri(BELOW) * spread):
        return "as it is"
    scales = [*(["log"] if least > 0 else []), "sqrt", "log(x + 1)", "log(x + 10)", "log(x + 100)", "as it is"]
    scores = ndtri((np.arange(len(there)) + 0.625) / (len(there) + 0.25))  # Blom's
    near = {}
    for name in scales:
        scale = Scale.of(name)
        on_scale = np.sort(scale.to_model(there))
        highest = scale.to_natural(np.mean(on_scale) + scores[-1:] * np.std(on_scale))[0]
        farthest = FARTHEST_LOG if name == "log" else FARTHEST
        if name == "as it is" or highest <= farthest * there.max():
            near[name] = float(np.corrcoef(on_scale, scores)[0, 1])
    return next(name for name in scales if near.get(name, 0.0) > max(near.values()) - ALIKE)


def _skewness(values: Float[np.ndarray, " n"]) -> float:
    centred = values - values.mean()
    spread = float(np.sqrt(np.mean(centred**2)))
    return float(np.mean((centred / spread) ** 3)) if spread > 0 else 0.0


def decimals_of(values: Float[np.ndarray, " n"]) -> int | None:
    """Return the decimals in which the values were recorded; None if they were computed."""
    return next((d for d in range(MOST_DECIMALS + 1) if np.allclose(np.round(values, d), values, 1e-12, 0)), None)


def different_values(values: Float[np.ndarray, " n"]) -> int:
    """Return how many different values there are."""
    return len(np.unique(values))


def why_identifying(name: str, numbers: Float[np.ndarray, " n"]) -> str:
    """Say why a column looks like what names people, if it does."""
    if looks_like_identifier(name):
        return "is named like one"
    if not np.all(numbers == np.round(numbers)) or different_values(numbers) < len(numbers):
        return ""
    count, reach = len(numbers), float(np.ptp(numbers)) + 1
    if count >= 10 and bool(np.all(np.diff(numbers) > 0)):
        return "counts upward through the rows"
    if bool(np.all(np.abs(numbers) >= 1e5)):
        return "holds long whole numbers, all different"
    # so many whole numbers within this reach, drawn by chance, would hardly be all different: e^−10
    if count * (count - 1) / (2 * reach) > 10:
        return "holds whole numbers that are all different and lie close together"
    return ""


def suspicious_code(there: Float[np.ndarray, " n"]) -> float | None:
    """Return a value that looks like a code for a missing one: a usual code, far outside the others."""
    for code in (float(there.min()), float(there.max())):
        if code not in CODES:
            continue
        rest = there[there != code]
        if len(rest) and (code < 0 <= rest.min() or abs(code - np.median(rest)) > 3 * np.ptp(rest) > 0):
            return code
    return None
