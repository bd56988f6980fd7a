"""Numbers and counts as a person writes them."""

from collections.abc import Sequence
from typing import Any


def counted(count: int, noun: str) -> str:
    """Return 1 dataset, 3 datasets, 1,000 datasets."""
    return f"{count:,} {noun}" + "s" * (count != 1)


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names between commas; of very many, the first."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def number(value: Any, decimals: int | None = None) -> str:
    """Return a number in three digits, or all before the point: 0.697, 2.05, 1,853; text as it is.

    With `decimals`, exactly so many, with the minus of the figures' axes and none before zero.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if decimals is not None:
        return f"{round(float(value), decimals) + 0.0:.{decimals}f}".replace("-", "−")
    whole = float(value).is_integer() or abs(value) >= 1000
    return f"{value:,.0f}" if whole and abs(value) < 1e15 else f"{value:.3g}"


def percent(share: float) -> str:
    """Return a share in per cent, that it may not be broken before the sign."""
    return f"{100 * float(share):.1f}\u00a0%"
