"""The text of a design file: values are checked one by one, and every complaint names its line."""

import difflib
import re
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float

from allbutone.support.errors import InputError

MOST_ROWS = 10**9


class DesignText:
    """The text of one design file, kept at hand to find the line of what is wrong.

    `place` is the number of the block of cells that a key stands in, from 0; None is the top of the file.
    """

    def __init__(self, text: str, name: str) -> None:
        self.text: str = text
        self.name: str = name

    def fail(self, problem: str, key: str, place: int | None = None, cure: str = "") -> NoReturn:
        """Refuse what stands under this key."""
        line = _line_of(self.text, key, place)
        raise InputError(problem, *([cure] if cure else []), where=f"{self.name}, line {line}")

    def fail_as(self, error: InputError, key: str, when: str = "") -> NoReturn:
        """Refuse what stands under this key for the reason, and with the cures, of an error that it led to."""
        problem = f"{error.where}: {error.problem}" if error.where else error.problem
        raise InputError(
            when + problem, *error.cures, where=f"{self.name}, line {_line_of(self.text, key, None)}"
        ) from error

    def require_known(self, entries: dict[str, Any], known: tuple[str, ...], place: int | None) -> None:
        """Refuse a key that means nothing here."""
        for key in entries:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                cure = f"did you mean {near[0]!r}?" if near else f"known here are {', '.join(known)}"
                self.fail(f"unknown key {key!r:.60}", key, place, cure)

    def number(self, value: Any, key: str, place: int | None) -> float:
        """Read a finite number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e100:
            self.fail(f"{key} must be a finite number, got {value!r:.60}", key, place)
        return float(value)

    def positive(self, value: Any, key: str, place: int | None, most: float) -> float:
        """Read a number above 0."""
        number = self.number(value, key, place)
        if not number > 0:
            self.fail(f"{key} must exceed 0, got {number:g}", key, place)
        if number > most:
            self.fail(f"{key} can be at most {most:g}, got {number:g}", key, place)
        return number

    def whole(
        self, value: Any, key: str, least: int, place: int | None, why: str = "", most: int = MOST_ROWS
    ) -> int:
        """Read a whole number between two bounds."""
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.fail(f"{key} must be a whole number of at least {least}, got {value!r:.60}", key, place, why)
        if value > most:
            self.fail(f"{key} can be at most {most:,} here, got {value!r:.60}", key, place)
        return value

    def vector(self, value: Any, key: str, p: int, place: int) -> tuple[float, ...]:
        """Read p numbers, or one for all."""
        values = value if isinstance(value, list) else [value] * p
        if len(values) != p:
            cure = f"give {p}, or one number for all"
            self.fail(f"{key} has {len(values)} values for p = {p}", key, place, cure)
        return tuple(self.number(entry, key, place) for entry in values)

    def one_of(self, value: Any, key: str, known: tuple[str, ...], place: int | None) -> str:
        """Read one of several words."""
        if value not in known:
            self.fail(f"{key} must be {' or '.join(map(repr, known))}, got {value!r:.60}", key, place)
        return str(value)

    def definite(self, matrix: Float[np.ndarray, "p p"], key: str, place: int) -> Float[np.ndarray, "p p"]:
        """Refuse a matrix that is no covariance."""
        if not np.array_equal(matrix, matrix.T):
            self.fail("the covariance is not symmetric", key, place, "make entries (i, j) and (j, i) equal")
        lowest = float(np.linalg.eigvalsh(matrix)[0])
        if not lowest > 1e-12 * float(np.trace(matrix)):
            p = len(matrix)
            self.fail(
                f"with p = {p} the covariance is not positive definite (lowest eigenvalue {lowest:.3g})",
                key,
                place,
                f"weaken the correlation (equicorrelated: above {-1 / max(p - 1, 1):.3g} and below 1)",
            )
        return matrix


def _line_of(text: str, key: str, place: int | None) -> int:
    """Return the line of a key at the top of the file, or in the block of cells of this place, or its header."""
    block, table, found = -1, "", 1
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]", line):
            table = header[1]
            block += table == "cells"
            if table == (key if place is None else "cells") and (place is None or block == place):
                found = number
        inside = table == "" if place is None else table == "cells" and block == place
        if inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line) and key:
            return number
    return found
