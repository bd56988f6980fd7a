"""What comes out is looked at: values beyond limits, negative ones where there are none, and lost rounding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.releases.mixed.release import Release
from allbutone.releases.release import PlainRelease
from allbutone.support.errors import Cure
from allbutone.support.text import listed, percent
from allbutone.tables.declared.schema import Schema
from allbutone.tables.records import Records
from allbutone.tables.traits import decimals_of, proposed_scale

NOTABLE = 0.001  # share of a column's values: below that nobody would notice
SHOWN = 10  # columns that are named; the cure names all


@dataclass(frozen=True)
class Oddity:
    """Something that synthetic values have and real ones do not: in words, and what would cure it.

    against: whether values that cannot be are released, which speaks against a release.
    """

    words: str
    cure: Cure
    against: bool = True


class ValueCounter:
    """Counts, block by block, how many synthetic values were drawn beyond limits or are negative."""

    def __init__(self, schema: Schema) -> None:
        self._schema, self._rows = schema, 0
        self._beyond, self._negative = np.zeros((2, len(schema.measurements)))

    def add(self, drawn: Float[np.ndarray, "rows p"], released: Float[np.ndarray, "rows p"]) -> None:
        """Count a block: in natural units as the model drew it, and as it goes out."""
        self._rows += len(drawn)
        limits = np.array([(column.low, column.high) for column in self._schema.measurements])
        self._beyond += np.sum((drawn < limits[:, 0]) | (drawn > limits[:, 1]), axis=0)
        self._negative += np.sum(released < 0, axis=0)

    def oddities(self, records: Records) -> list[Oddity]:
        """Say what is odd beside the real records; confidential, for it tells of them."""
        rows, real = max(self._rows, 1), records.natural
        beyond, negative = self._beyond / rows, self._negative / rows
        whole = ~np.any(real < 0, axis=0)
        skewed = np.array([proposed_scale(values[~np.isnan(values)]) == "log" for values in real.T])
        never, limit = "negative, and no real value is", Cure("declare that they are not", "positive")
        log = Cure("model them on a log scale", "log")
        at_limit = "drawn beyond the declared limits and set to them"
        return [
            *_found(records, beyond, beyond > NOTABLE, at_limit, Cure("a scale could keep them inside")),
            *_found(records, negative, (negative > NOTABLE) & skewed, never, log),
            *_found(records, negative, (negative > NOTABLE) & whole & ~skewed, never, limit),
            *_unrounded(records),
        ]


def _found(records: Records, shares: np.ndarray, flags: np.ndarray, words: str, cure: Cure) -> list[Oddity]:
    """Put the flagged columns of one kind into words, if there are any."""
    names = [name for name, flag in zip(records.columns, flags, strict=True) if flag]
    if not names:
        return []
    parts = [f"{percent(share)} of {name!r}" for name, share in zip(names, shares[flags], strict=True)]
    return [
        Oddity(f"{listed(parts, SHOWN)} {'are' if len(names) > 1 else 'is'} {words}", replace(cure, value=names))
    ]


def _unrounded(records: Records) -> list[Oddity]:
    """Name the columns that were recorded with few decimals and are released with all that the model draws."""
    rounded = _rounded(records)
    if not rounded:
        return []
    columns = listed([f"{name} ({decimals})" for name, decimals in rounded.items()], SHOWN)
    words = f"Recorded with few decimals, and released with more: {columns}"
    return [Oddity(words, Cure("declare the decimals", "decimals", _typed(rounded)), False)]


def odd_values(records: Records, release: PlainRelease | Release) -> list[Oddity]:
    """Look at all datasets of a release beside the records it was made from; kept columns are as they are."""
    if isinstance(release, Release):
        drawn = release.mechanism.measurements
        records = records.select(drawn)
        datasets = [each.select(drawn).natural for each in release.tables]
    else:
        datasets = [np.asarray(each) for each in release.datasets]
    counter = ValueCounter(records.schema)
    for dataset in datasets:
        # what was drawn beyond a limit stands at it now
        counter.add(dataset, dataset)
    return [*counter.oddities(records), *_at_limits(records, datasets)] if datasets else []


def _at_limits(records: Records, datasets: Sequence[Float[np.ndarray, "_ p"]]) -> list[Oddity]:
    """Say where many more synthetic values than real ones stand at a limit."""
    every, real = np.concatenate(datasets), records.natural
    shares, usual = records.schema.clipped(every), records.schema.clipped(real)
    odd = (shares > NOTABLE) & (shares > 2 * usual)
    words = "set to a declared limit, beyond which they were drawn"
    return _found(records, shares, odd, words, Cure("a scale could keep them inside"))


def _rounded(records: Records) -> dict[str, int]:
    """Return the decimals of columns that were recorded with few and are released with all."""
    found: dict[str, int] = {}
    for column, values in zip(records.schema.measurements, records.natural.T, strict=True):
        decimals = decimals_of(values[~np.isnan(values)]) if column.scale.is_plain else None
        finer = column.decimals is None or (decimals is not None and column.decimals > decimals)
        if decimals is not None and decimals <= 2 and finer:
            found[column.name] = decimals
    return found


def _typed(decimals: Mapping[str, Any]) -> list[str]:
    return [f"{name}={digits}" for name, digits in decimals.items()]
