"""Values recorded on several grids: whole numbers mostly, two decimals now and then, multiples of five."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isclose, isfinite
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.support.errors import InputError

Values = Float[np.ndarray, "*shape"]

EXPONENTIAL = "exp(x)"
EXAMPLE = "write decimals = { 0 = 0.9, 2 = 0.1 }, step = 5, or step = { 1 = 0.3, 5 = 0.7 }"
MOST_DIGITS = 12
OFF = 1e-6  # of a step: as far as a number that lies on a grid may be from it, by its digits


@dataclass(frozen=True)
class Heaps:
    """Grids on which values go out, each by a public share: pairs (step, share), the finest first.

    exponential: whether the grid is one of exp(x), as of a logarithm of whole numbers.
    """

    grids: tuple[tuple[float, float], ...]
    exponential: bool = False

    @property
    def finest(self) -> float:
        """The smallest step."""
        return self.grids[0][0]

    @property
    def coarsest(self) -> float:
        """The largest step."""
        return self.grids[-1][0]

    @property
    def steps(self) -> Float[np.ndarray, " g"]:
        """The steps, the finest first."""
        return np.array([step for step, _ in self.grids])

    def chosen(self, drawn: Values) -> Int[np.ndarray, "*shape"]:
        """Return the number of the grid to which each value is rounded, by the grids' shares.

        It is told by the last digits of what was drawn, which are as good as random: so what goes out is a
        function of the draw alone, and the same draw goes out the same.
        """
        ends = np.cumsum([share for _, share in self.grids])
        return np.searchsorted(ends[:-1], last_digits(drawn), side="right")

    def rounded(self, natural: Values, which: Int[np.ndarray, "*shape"], decimals: int) -> Values:
        """Round values to these grids, and to so many decimals at most."""
        step = self.steps[which]
        if self.exponential:
            whole = np.maximum(np.round(np.exp(np.minimum(natural, 700.0)) / step), 1.0)
            return np.round(np.log(whole * step), decimals) + 0.0
        return np.round(np.round(natural / step) * step, decimals) + 0.0

    def lies_on(self, natural: Values, decimals: int) -> Int[np.ndarray, "*shape"]:
        """Return the number of the coarsest grid on which each value lies.

        It is taken for the one that the value was rounded to. It may have come from a finer one, and lie there by
        chance: then the draw was the nearer, and lay in the same box.
        """
        place = np.exp(np.minimum(natural, 700.0)) if self.exponential else natural
        slack = place * 0.51 * 10.0**-decimals if self.exponential else 0.0
        grids = np.zeros(np.shape(natural), dtype=np.int64)
        for number, (step, _) in enumerate(self.grids[1:], start=1):
            near = np.abs(place - np.round(place / step) * step) <= OFF * step + slack
            grids = np.where(near, number, grids)
        return grids

    def around(self, natural: Values, which: Int[np.ndarray, "*shape"], decimals: int) -> tuple[Values, Values]:
        """Return between which natural values those lay that were rounded to these: half a step to either side."""
        if not self.exponential:
            step = self.steps[which]
            return natural - step / 2, natural + step / 2
        # all multiples whose logarithms go out as this value, on its grid and on finer ones
        half = (0.5 + OFF) * 10.0**-decimals
        lowest, highest = (np.full(np.shape(natural), end) for end in (np.inf, -np.inf))
        below, middle, above = (np.exp(np.minimum(natural + side, 700.0)) for side in (-half, 0.0, half))
        for number, step in enumerate(self.steps):
            whole = np.maximum(np.round(middle / step), 1.0)
            first = np.maximum(np.minimum(np.ceil(below / step), whole), 1.0)
            last = np.maximum(np.floor(above / step), whole)
            low = np.where(first > 1, np.log((first - 0.5) * step), -np.inf)
            lowest = np.where(number <= which, np.minimum(lowest, low), lowest)
            highest = np.where(number <= which, np.maximum(highest, np.log((last + 0.5) * step)), highest)
        return lowest, highest

    @property
    def in_words(self) -> str:
        """The grids and their shares in a few words."""
        of = " of exp(x)" if self.exponential else ""
        if len(self.grids) == 1:
            return f"multiples of {self.finest:g}{of}"
        parts = [f"{100 * share:g} % multiples of {step:g}" for step, share in reversed(self.grids)]
        return ", ".join(parts) + of

    def entries(self, decimals: int) -> dict[str, Any]:
        """Return what a table file says of them."""
        digits = {_digits(step): share for step, share in self.grids}
        of_decimals = len(digits) > 1 and all(
            10.0**-each == step for each, step in zip(digits, self.steps, strict=True)
        )
        if of_decimals and not self.exponential:
            return {"decimals": {str(each): share for each, share in sorted(digits.items())}}
        steps: Any = self.finest if len(self.grids) == 1 else {f"{step:.12g}": share for step, share in self.grids}
        return {"step": steps} | ({"step_of": EXPONENTIAL, "decimals": decimals} if self.exponential else {})


def last_digits(drawn: Values) -> Values:
    """Return a number from 0 to 1 for each value that its last digits tell, by a mix of all of its bits."""
    bits = np.ascontiguousarray(drawn, dtype=np.float64).view(np.uint64)
    with np.errstate(over="ignore"):
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):  # the finisher of MurmurHash3
            bits = (bits ^ (bits >> np.uint64(33))) * np.uint64(factor)
    return ((bits ^ (bits >> np.uint64(33))) >> np.uint64(11)) * 2.0**-53


def heaps_from(given: Mapping[str, Any]) -> tuple[int | None, Heaps | None]:
    """Read decimals, step and step_of: the decimals of the finest grid, and the grids where there are several."""
    decimals, step, of = given.get("decimals"), given.get("step"), given.get("step_of")
    if of is not None and (of != EXPONENTIAL or step is None):
        raise InputError(f"step_of goes with step, and is {EXPONENTIAL!r}", 'write step = 1, step_of = "exp(x)"')
    if step is None:
        if not isinstance(decimals, Mapping):
            return decimals_from(decimals), None
        shares = {decimals_from(_whole(each)): share for each, share in decimals.items()}
        grids = _grids({10.0 ** -(each or 0): share for each, share in shares.items()})
        return max(each or 0 for each in shares), Heaps(grids)
    grids = _grids(dict(_steps(step)) if isinstance(step, Mapping) else {step: 1})
    if of is None and decimals is not None:
        raise InputError("step says how many decimals there are", "leave decimals out")
    digits = decimals_from(decimals) if of is not None else max(_digits(each) for each, _ in grids)
    if digits is None:
        raise InputError("with step_of the decimals of the column itself are needed", "declare decimals = 4, say")
    return digits, Heaps(grids, of is not None)


def decimals_from(value: Any) -> int | None:
    """Check a number of decimals; None where none is declared."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_DIGITS:
        raise InputError(
            f"decimals is a whole number from {-MOST_DIGITS} to {MOST_DIGITS}, got {value!r:.60}", EXAMPLE
        )
    return value


def _grids(given: Mapping[Any, Any]) -> tuple[tuple[float, float], ...]:
    """Check steps and shares: positive numbers, shares that add up to 1."""
    for step, share in given.items():
        for number in (step, share):
            if not is_finite(number) or number <= 0:
                raise InputError(f"steps and shares are numbers above 0, got {number!r:.60}", EXAMPLE)
    if not given or not isclose(sum(given.values()), 1.0, abs_tol=1e-6):
        raise InputError("the shares of the grids must add up to 1", EXAMPLE)
    if any(_digits(float(step)) > MOST_DIGITS for step in given):
        raise InputError(f"a step has at most {MOST_DIGITS} decimals", EXAMPLE)
    return tuple(sorted((float(step), float(share)) for step, share in given.items()))


def is_finite(number: Any) -> bool:
    """Say whether this is a number, no truth value, of a size that floating-point numbers have."""
    try:
        return isinstance(number, int | float) and not isinstance(number, bool) and isfinite(number)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _steps(given: Mapping[Any, Any], before: str = "") -> Iterator[tuple[float, Any]]:
    """Return steps and their shares; TOML reads 0.5 = 0.6, without quotes, as a table 0 in which 5 is 0.6."""
    for text, share in given.items():
        if isinstance(share, Mapping):
            yield from _steps(share, f"{before}{text}.")
        else:
            yield _step(f"{before}{text}"), share


def _step(text: str) -> float:
    try:
        step = float(text)
    except (ValueError, OverflowError):
        step = np.nan
    if not isfinite(step):
        raise InputError(f"a step is a number, got {text!r:.60}", EXAMPLE)
    return step


def _whole(text: Any) -> Any:
    try:
        return int(text)
    except ValueError:
        return text


def _digits(step: float) -> int:
    """Return how many decimals the multiples of a step have; below 0 for tens, hundreds, …"""
    for digits in range(-MOST_DIGITS, MOST_DIGITS + 1):
        if isclose(step, round(step, digits), rel_tol=1e-12) and round(step, digits) > 0:
            return digits
    return MOST_DIGITS + 1
