"""What numbers look like: identifiers, codes for missing values, decimals, a less skewed scale."""

import numpy as np
from jaxtyping import Float

from allbutone.tables.names import looks_like_identifier

MOST_DECIMALS = 6
CODES = (-9, -99, -999, -9999, -99999, -8, -88, -888, -8888, 999, 9999, 99999, 999999, 8888, 88888)


def proposed_scale(there: Float[np.ndarray, " n"]) -> str:
    """Return the scale on which values are least skewed, if as they are they are positive and much so."""
    least = float(there.min())
    if least < 0:
        return "as it is"
    usual = abs(_skewness(there))
    if usual <= 1:
        return "as it is"
    ways = {"sqrt": np.sqrt(there), **({"log": np.log(there)} if least > 0 else {"log(x + 1)": np.log1p(there)})}
    # both but the log end at 0, where what is drawn below would pile up
    ways = {name: values for name, values in ways.items() if name == "log" or np.mean(values) > 2 * np.std(values)}
    best = min(ways, key=lambda name: abs(_skewness(ways[name])), default="as it is")
    return best if ways and abs(_skewness(ways[best])) < usual / 2 else "as it is"


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
