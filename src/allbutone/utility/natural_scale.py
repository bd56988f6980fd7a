"""What comes out, in the columns' own units: spreads, extremes, values beyond limits, and lost rounding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.releases.release import Release
from allbutone.support.errors import Cure
from allbutone.support.text import counted, listed, number, percent
from allbutone.tables.look import decimals_of, proposed_scale
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema
from allbutone.utility.categories import BAND, MEDIAN, far_out

# Spreads and extremes in the columns' own units: tails that the scale of the model hides, or that it invents.


LOWEST, HIGHEST = 0, 1


@dataclass(frozen=True, eq=False)
class NaturalScale:
    """Spreads and extremes in natural units, of the real table and of each of k datasets; ends: lowest, highest.

    spread_ratios: s_synthetic/s_real. kurtosis: m₄/m₂² about each table's own mean, of all values together, so
    that a single far value raises it. beyond: how many values of all datasets lie beyond the real end;
    real_beyond: how many real values lie beyond all datasets. scaled: whose scale is not the natural one.
    """

    columns: tuple[str, ...]
    scaled: Bool[np.ndarray, " p"]
    people: Int[np.ndarray, " p"]
    rows: Int[np.ndarray, "k p"]
    spread_ratios: Float[np.ndarray, "k p"]
    kurtosis: Float[np.ndarray, " p"]
    ends: Float[np.ndarray, "2 p"]
    synthetic_ends: Float[np.ndarray, "k 2 p"]
    beyond: Int[np.ndarray, "2 p"]
    real_beyond: Int[np.ndarray, "2 p"]

    def spreads_apart(self, band: float = BAND) -> tuple[str, ...]:
        """Say of which columns the SD differs, in natural units, by more than a band (logarithm) beyond chance.

        log s of a sample varies by √((κ − 1)/4n). On another scale than the natural one s is no number that the
        model keeps, so that of the real table's chance nothing averages out over the k datasets.
        """
        k = len(self.rows)
        varies = np.maximum(self.kurtosis - 1, 0.0)  # of two records κ is 1, less a last digit
        chance = np.sqrt(varies / 4 * (1 / self.people + np.mean(MEDIAN**2 / self.rows, axis=0) / k))
        middle = np.median(np.log(self.spread_ratios), axis=0)
        far = self.scaled & (np.abs(middle) > band + far_out(int(self.scaled.sum())) * chance)
        return tuple(f"{self.columns[at]} ({number(np.exp(middle[at]))} times)" for at in np.flatnonzero(far))

    def tails_apart(self, band: float = BAND) -> tuple[str, ...]:
        """Say which ends differ: by a band (a tenth) of the real range, and in more values than chance explains.

        Of two samples of one population, n and m, the j furthest values are all of the second with the
        probability Π (m − i)/(n + m − i), i < j, whatever the distribution is.
        """
        found = []
        middle = np.median(self.synthetic_ends, axis=0)
        apart = np.abs(middle - self.ends) > band * (self.ends[HIGHEST] - self.ends[LOWEST])
        for at, end in zip(*np.nonzero(apart.T), strict=True):
            real, synthetic, word = self.ends[end, at], middle[end, at], ("lowest", "highest")[end]
            n, rows = int(self.people[at]), int(self.rows[:, at].sum())
            further = (synthetic > real) == (end == HIGHEST)
            many = int((self.beyond if further else self.real_beyond)[end, at])
            by_chance = self._by_chance(n, rows) if further else self._by_chance(rows, n)
            if many > by_chance:
                whose = counted(rows, "value") if further else counted(n, "real value")
                typical = " in the median dataset" if len(self.rows) > 1 else ""
                times = number(float(np.median(self.spread_ratios[:, at])))
                found.append(
                    f"{self.columns[at]} {'reaches' if further else 'ends at'} {number(synthetic)}{typical} where "
                    f"the {word} real value is {number(real)} ({many:,} of {whose} beyond, where chance "
                    f"explains {by_chance:,}; SD {times} times the real)"
                )
        return tuple(found)

    def _by_chance(self, within: int, beyond: int) -> int:
        """Return how many of `beyond` values lie further out than all of `within` others, at 1 in 100 over all."""
        left, count, tests = 1.0, 0, 4 * len(self.columns)  # either table, at either end
        while count < beyond and left * (beyond - count) / (within + beyond - count) > 0.01 / tests:
            left *= (beyond - count) / (within + beyond - count)
            count += 1
        return count


def natural_scale(
    schema: Schema, real: Float[np.ndarray, "n p"], datasets: Sequence[Float[np.ndarray, "_ p"]]
) -> NaturalScale:
    """Compare values, which are given on the scale of the model, in natural units; gaps are passed over.

    Scales increase, so that what is beyond an end is so on either scale.
    """
    ends, natural = _ends(real), schema.to_natural(real)
    spread, fourth, people = _spread(natural)
    each_ends = np.stack([_ends(data) for data in datasets])
    each = [_spread(schema.to_natural(data)) for data in datasets]
    spreads, fourths, rows = (np.stack(part) for part in zip(*each, strict=True))
    weights = np.vstack([people, rows])
    return NaturalScale(
        columns=tuple(column.name for column in schema.measurements),
        scaled=np.array([not column.scale.is_plain for column in schema.measurements], dtype=bool),
        people=people,
        rows=rows,
        spread_ratios=spreads / spread,
        kurtosis=np.average(np.vstack([fourth, fourths]), axis=0, weights=weights)
        / np.average(np.vstack([spread, spreads]) ** 2, axis=0, weights=weights) ** 2,
        ends=schema.to_natural(ends),
        synthetic_ends=np.stack([schema.to_natural(one) for one in each_ends]),
        beyond=np.sum([_beyond(data, ends) for data in datasets], axis=0),
        real_beyond=_beyond(real, np.stack([each_ends[:, LOWEST].min(axis=0), each_ends[:, HIGHEST].max(axis=0)])),
    )


def _ends(values: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "2 p"]:
    return np.stack([np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)])


def _beyond(values: Float[np.ndarray, "n p"], ends: Float[np.ndarray, "2 p"]) -> Int[np.ndarray, "2 p"]:
    return np.stack([np.sum(values < ends[LOWEST], axis=0), np.sum(values > ends[HIGHEST], axis=0)])


def _spread(
    natural: Float[np.ndarray, "n p"],
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"], Int[np.ndarray, " p"]]:
    """Return the SD, the mean fourth power of the deviations, and the number of values of each column."""
    count = np.sum(~np.isnan(natural), axis=0)
    with np.errstate(over="ignore"):  # e^700: a kurtosis without end, which chance explains
        squares = (natural - np.nanmean(natural, axis=0)) ** 2
        return np.sqrt(np.nansum(squares, axis=0) / (count - 1)), np.nanmean(squares**2, axis=0), count


# What comes out is looked at: values beyond limits, negative ones where there are none, and lost rounding.


NOTABLE = 0.001  # share of a column's values: below that nobody would notice
MANY = 0.05  # and from here on a mean, or a count, is no longer what it would be
SHOWN = 10  # columns that are named; the cure names all


@dataclass(frozen=True)
class Oddity:
    """Something that synthetic values have and real ones do not: in words, and what would cure it.

    against: whether so many values are odd that it would change what is done with them.
    """

    words: str
    cure: Cure
    against: bool = False


class ValueCounter:
    """Counts, block by block, how many synthetic values were drawn beyond limits or are negative."""

    def __init__(self, schema: Schema) -> None:
        self._schema, self._rows = schema, 0
        self._beyond, self._negative = np.zeros((2, len(schema.measurements)))

    def add(self, drawn: Float[np.ndarray, "rows p"], released: Float[np.ndarray, "rows p"]) -> None:
        """Count a block: in natural units as the model drew it, and as it goes out."""
        self._rows += len(drawn)
        limits = np.array([(column.low, column.high) for column in self._schema.measurements]).reshape(-1, 2)
        self._beyond += np.sum((drawn < limits[:, 0]) | (drawn > limits[:, 1]), axis=0)
        self._negative += np.sum(released < 0, axis=0)

    def oddities(self, records: Records) -> list[Oddity]:
        """Say what is odd beside the real records; confidential, for it tells of them."""
        rows, real = max(self._rows, 1), records.natural
        beyond, negative = self._beyond / rows, self._negative / rows
        whole = ~np.any(real < 0, axis=0)
        logs = [proposed_scale(values[~np.isnan(values)]) == "log" for values in real.T]
        skewed = np.array(logs, dtype=bool)
        never, limit = "negative, and no real value is", Cure("declare that they are not", "positive")
        log = Cure("model them on a log scale", "log")
        at_limit = "drawn beyond the declared limits and set to them"
        odd = (beyond > NOTABLE) & (beyond > 2 * records.schema.clipped(real))  # scores stand at their ends anyway
        return [
            *_found(records, beyond, odd, at_limit, Cure("a scale could keep them inside")),
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
    said = f"{listed(parts, SHOWN)} {'are' if len(names) > 1 else 'is'} {words}"
    in_file = list(dict.fromkeys(_in_file(records, name) for name in names))
    return [Oddity(said, replace(cure, value=in_file), bool(np.any(shares[flags] > MANY)))]


def _unrounded(records: Records) -> list[Oddity]:
    """Name the columns that were recorded with few decimals and are released with all that the model draws."""
    rounded = _rounded(records)
    if not rounded:
        return []
    columns = listed([f"{name} ({decimals})" for name, decimals in rounded.items()], SHOWN)
    words = f"Recorded with few decimals, and released with more: {columns}"
    in_file: dict[str, int] = {}
    for name, decimals in rounded.items():
        file_name = _in_file(records, name)
        in_file[file_name] = max(decimals, in_file.get(file_name, 0))
    return [Oddity(words, Cure("declare the decimals", "decimals", _typed(in_file)))]


def _in_file(records: Records, name: str) -> str:
    """Return the column of the file, by which options call it: of a long table it holds at every visit."""
    visits = records.schema.visits
    return name if visits is None else visits.parts(name)[0]


def odd_values(records: Records, release: Release) -> list[Oddity]:
    """Look at all datasets of a release beside the records it was made from; kept columns are as they are."""
    drawn = release.mechanism.measurements
    records = records.select(drawn)
    datasets = [each.select(drawn).natural for each in release.tables]
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
