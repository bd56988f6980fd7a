"""Checks that every floor may need: counts, and what fits into memory."""

import operator
from typing import Any

from allbutone.support.errors import InputError, describe_value

MOST_VALUES = 10**9  # numbers held in memory at once: 8 GB


def count_of(name: str, count: Any, most: int | None = None) -> int:
    """Return a count as an int, or say that it is not a whole number from 1 to `most`."""
    try:
        number = operator.index(count)
    except TypeError as error:
        raise InputError(f"{name} must be a whole number, got {describe_value(count)}") from error
    if number < 1:
        raise InputError(f"{name} must be at least 1, got {number}")
    if most is not None and number > most:
        raise InputError(f"{name} must be at most {most:,}, got {number}")
    return number


def require_memory(values: int) -> None:
    """Refuse to hold more than 10⁹ numbers in memory."""
    if values > MOST_VALUES:
        raise InputError(
            f"{values:,} numbers are more than the {MOST_VALUES:,} that are held in memory",
            "ask for fewer",
            "write datasets straight to a folder (allbutone synthesize)",
        )
