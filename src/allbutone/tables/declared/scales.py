"""Scales: public, strictly increasing changes of a column's scale, there and back.

Everything downstream is exact on the scale that is declared. A scale must come from public knowledge: one that is
estimated from the confidential table and called public would give the table away.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from allbutone.support.errors import InputError

Values = Float[np.ndarray, "*shape"]

_LOG = re.compile(r"log(?:\(\s*x\s*(?:\+\s*([0-9.eE+-]+)\s*)?\))?")
WAYS = '"as it is", "log", "log(x + 1)", "sqrt", "logit" (with low and high) or "quantiles"'


@dataclass(frozen=True)
class Scale:
    """The scale on which a column is modelled.

    name: as a table file writes it. shift: c of log(x + c). low, high: of the logit.
    quantiles: pairs (probability, value) of a published reference table.
    """

    name: str = "as it is"
    shift: float = 0.0
    low: float = -inf
    high: float = inf
    quantiles: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, name: Any, *, low: float = -inf, high: float = inf, quantiles: Any = None) -> "Scale":
        """Return the scale of this name, or say which there are."""
        if not isinstance(name, str):
            raise InputError(f"a scale is a text, got {name!r:.60}", f"known are {WAYS}")
        plain = name.strip().lower()
        if plain != "quantiles" and quantiles is not None:
            raise InputError(
                'a table of quantiles goes with scale = "quantiles"', "give that scale, or no quantiles"
            )
        if plain in ("as it is", "sqrt"):
            return cls(plain)
        if plain == "quantiles":
            return cls(plain, quantiles=_reference(quantiles))
        if plain == "logit":
            if not -inf < low < high < inf:
                raise InputError("the scale logit needs finite limits", "declare low and high, low below high")
            return cls(plain, low=low, high=high)
        match = _LOG.fullmatch(plain)
        try:
            shift = float(match[1] or 0.0) if match else -1.0
        except ValueError:
            shift = -1.0
        if not 0 <= shift < inf:
            raise InputError(f"there is no scale {name!r:.60}", f"known are {WAYS}")
        return cls("log" if shift == 0 else f"log(x + {shift:g})", shift)

    @property
    def is_plain(self) -> bool:
        """Whether values stay as they are."""
        return self.name == "as it is"

    @property
    def domain(self) -> tuple[float, float, bool]:
        """The lowest and the highest natural value, and whether these two are themselves allowed."""
        if self.name.startswith("log("):
            return -self.shift, inf, False
        if self.name == "sqrt":
            return 0.0, inf, True
        return {"log": (0.0, inf, False), "logit": (self.low, self.high, False)}.get(self.name, (-inf, inf, True))

    def to_model(self, values: Values) -> Values:
        """Bring natural values, within the domain, to the scale of the model."""
        if self.is_plain:
            return values
        if self.name.startswith("logit"):
            return np.log((values - self.low) / (self.high - values))
        if self.name.startswith("log"):
            return np.log(values + self.shift)
        if self.name == "sqrt":
            return np.sign(values) * np.sqrt(np.abs(values))
        return _interpolated(values, *self.knots)

    def to_natural(self, values: Values) -> Values:
        """Bring values of the model back to natural units; the inverse of `to_model`.

        A square root is odd, x → x·|x|, so that it stays increasing below 0; limits then do their part.
        """
        if self.is_plain:
            return values
        if self.name == "logit":
            with np.errstate(over="ignore"):  # exp(800) is infinite, and 1/(1 + ∞) right
                return self.low + (self.high - self.low) / (1 + np.exp(-values))
        if self.name.startswith("log"):
            return np.exp(np.minimum(values, 700.0)) - self.shift  # e^710 would overflow
        if self.name == "sqrt":
            return values * np.abs(values)
        places, scores = self.knots
        return _interpolated(values, scores, places)

    @property
    def knots(self) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """The values of the reference table, and where the model has them."""
        pairs = np.array(self.quantiles)
        return pairs[:, 1], ndtri(pairs[:, 0])


def _interpolated(values: Values, places: Float[np.ndarray, " k"], images: Float[np.ndarray, " k"]) -> Values:
    """Interpolate, and go on beyond both ends with the slope of the last piece there."""
    inside = np.interp(values, places, images)
    below, above = np.minimum(values - places[0], 0), np.maximum(values - places[-1], 0)
    slopes = np.diff(images) / np.diff(places)
    return inside + slopes[0] * below + slopes[-1] * above


def _reference(quantiles: Any) -> tuple[tuple[float, float], ...]:
    """Read a published table of quantiles: at least two pairs, both entries increasing."""
    example = (
        "give pairs [probability, value] of a published table, such as [[0.05, 3.1], [0.5, 4.0], [0.95, 5.2]]"
    )
    try:
        pairs = tuple((float(probability), float(value)) for probability, value in quantiles)
    except (TypeError, ValueError) as error:
        raise InputError("the scale quantiles needs a table of quantiles", example) from error
    increasing = all(_rises(column) for column in zip(*pairs, strict=True))
    if len(pairs) < 2 or not increasing or not 0 < pairs[0][0] < pairs[-1][0] < 1:
        raise InputError("quantiles must rise, in probability between 0 and 1 and in value", example)
    return pairs


def _rises(numbers: Sequence[float]) -> bool:
    return all(first < second for first, second in pairwise(numbers)) and all(
        abs(number) < inf for number in numbers
    )
