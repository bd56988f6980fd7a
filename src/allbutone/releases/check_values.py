"""The values of a synthetic dataset: as declared, in an order that tells nothing, and none of the table's own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isclose, lgamma, log, pi, sqrt
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from jaxtyping import Float, Int, UInt
from scipy.special import ndtri, pdtrc

from allbutone.model.location import JEFFREYS
from allbutone.releases.check_files import AS_WRITTEN, DescribedRelease, Flaw
from allbutone.releases.description import (
    MANIFEST,
    PARAMETERS,
)
from allbutone.support.errors import InputError
from allbutone.support.text import counted, listed
from allbutone.tables.admission import row_prints
from allbutone.tables.column import CATEGORY, Column, Scale, level_name
from allbutone.tables.files import read_table
from allbutone.tables.long_tables import widen
from allbutone.tables.look import look_at_column
from allbutone.tables.names import chosen_frame
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

FALSE_ALARM = 1e-9  # the probability that a clean release is found in order, all columns and datasets together
MOST_EQUAL = 0.8  # the share of one value beyond which a few rows decide, and a correlation is not normal
_UNORDERED = "draw the release again with allbutone, which draws rows in no order"


@dataclass(frozen=True, eq=False)
class Values:
    """The columns of a dataset or a table as numbers: measurements and level numbers; NaN where one is missing."""

    columns: tuple[Column, ...]
    numbers: Float[np.ndarray, "n d"]

    @classmethod
    def of_frame(cls, table: Any, columns: Sequence[Column]) -> "Values":
        """Take the columns of an Arrow table; a level that is not declared is −1."""
        arrays = [np.zeros((table.num_rows, 0))]
        for column in columns:
            values = table.column(column.name)
            if column.kind == CATEGORY:
                numbers = {level: number for number, level in enumerate(column.levels)}
                whole = values.combine_chunks().dictionary_encode()
                codes = [numbers.get(level_name(level), -1) for level in whole.dictionary.to_pylist()]
                places = whole.indices.to_numpy(zero_copy_only=False)
                taken = np.array([*codes, np.nan])[np.nan_to_num(places, nan=len(codes)).astype(int)]
                arrays.append(taken[:, None])
            elif column.calendar is not None:
                one = nw.from_native(values, series_only=True).alias(column.name)
                arrays.append(look_at_column(one, Column(column.name, calendar=column.calendar)).numbers[:, None])
            else:
                arrays.append(values.to_numpy(zero_copy_only=False).astype(np.float64)[:, None])
        return cls(tuple(columns), np.hstack(arrays))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.numbers)

    def measurements(self, kept: Sequence[str]) -> Float[np.ndarray, "n p"]:
        """Return the measurements that are not kept."""
        drawn = [column.kind != CATEGORY and column.name not in kept for column in self.columns]
        return self.numbers[:, np.array(drawn, dtype=bool)]


def derived_findings(where: str, data: Values, schema: Schema) -> Iterator[Flaw]:
    """Find columns that are not what their formula says of the other values of the row, or beyond their ends."""
    places = {column.name: place for place, column in enumerate(data.columns)}
    natural = data.numbers[:, [places[column.name] for column in schema.measurements]]
    for each in schema.orders:
        if each.column.order is not None and not each.keeps(natural).all():
            yield Flaw(where, f"{each.column.name!r} is not {each.column.order.in_words} in some rows")
    recorded = {name: data.numbers[:, place] for name, place in places.items()}
    for name, expected in schema.derive(natural, recorded=recorded).items():
        if name not in places:
            continue
        found = recorded[name]
        if not np.allclose(found, expected, rtol=1e-9, atol=1e-12, equal_nan=True):
            yield Flaw(where, f"{name!r} is not what its formula says of the other columns")


def declared_findings(where: str, data: Values, gaps: bool, release: DescribedRelease) -> Iterator[Flaw]:
    """Find values that are not as declared: more digits, beyond the limits, levels that are not public, gaps."""
    kept, derived = release.kept, release.derived
    for column, values in zip(data.columns, data.numbers.T, strict=True):
        missing = np.isnan(values)
        if missing.any() and not gaps and column.name not in derived:
            yield Flaw(where, f"{column.name!r} has missing values, and the release says that there are none")
        there = values[~missing]
        if column.kind == CATEGORY:
            if np.any(there < 0):
                problem = f"{column.name!r} has levels that release.json does not list"
                yield Flaw(where, problem, AS_WRITTEN)
            continue
        low, high = column.bounds
        if np.any((there < low) | (there > high)):
            yield Flaw(where, f"{column.name!r} has values beyond its declared limits")
        digits = column.decimals
        if digits is not None and column.name not in kept and not _on_grid(there, digits, low, high):
            yield Flaw(where, f"{column.name!r} has more digits than the {digits} decimals declared")


def _on_grid(values: Float[np.ndarray, " n"], digits: int, low: float, high: float) -> bool:
    return bool(np.all((values == np.round(values, digits)) | (values == low) | (values == high)))


def order_findings(where: str, data: Values, tests: int) -> Iterator[Flaw]:
    """Find rows that are sorted, or that follow one another as rows of a table do; `tests`: columns in all."""
    for column, values in zip(data.columns, data.numbers.T, strict=True):
        whole = values[~np.isnan(values)]
        steps = np.diff(whole)
        if _arrangements(whole) > -log(FALSE_ALARM / tests) and (np.all(steps >= 0) or np.all(steps <= 0)):
            yield Flaw(where, f"its rows are sorted by {column.name!r}", _UNORDERED)
        elif _goes_with(whole, np.arange(float(len(whole))), tests) or _goes_with(whole[1:], whole[:-1], tests):
            problem = f"{column.name!r} changes along the rows, as in a table that is in some order"
            yield Flaw(where, problem, _UNORDERED)


def _arrangements(values: Float[np.ndarray, " n"]) -> float:
    """Return the log of the number of orders that these values can be in, log n!/∏ c!."""
    counts = np.unique(values, return_counts=True)[1]
    return lgamma(len(values) + 1) - sum(lgamma(count + 1) for count in counts.tolist() if count > 1)


def _goes_with(one: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"], tests: int) -> bool:
    """Say whether two columns go together row by row, by the correlation r of their ranks, |r|√(n−1) normal."""
    if len(one) < 3 or max(_commonest(one), _commonest(other)) > MOST_EQUAL:
        return False
    ranks = [np.unique(each, return_inverse=True)[1].ravel() for each in (one, other)]
    parts = [each - each.mean() for each in ranks]
    size = sqrt(float(parts[0] @ parts[0]) * float(parts[1] @ parts[1]))
    far = -float(ndtri(FALSE_ALARM / (2 * tests)))
    return size > 0 and abs(float(parts[0] @ parts[1])) / size * sqrt(len(one) - 1) > far


def _commonest(values: Float[np.ndarray, " n"]) -> float:
    """Return the share of the most frequent value."""
    return float(np.unique(values, return_counts=True)[1].max() / len(values))


# A dataset by itself, without the description of its release: what its columns are is read off the values.


MOST_DECIMALS = 6  # values with more are taken to have all their digits


def columns_in(path: Path) -> tuple[Column, ...]:
    """Return the columns of a file as a release would declare them: levels of text, decimals of numbers."""
    table = read_table(path, delimiter=",")
    return tuple(_column(name, table.column(place)) for place, name in enumerate(table.column_names))


def _column(name: str, values: Any) -> Column:
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        levels = sorted({level_name(level) for level in values.unique().to_pylist() if level is not None})
        return Column(name, CATEGORY, levels=tuple(levels))
    numbers = values.to_numpy().astype(np.float64)
    there = numbers[np.isfinite(numbers)]
    ways = (digits for digits in range(MOST_DECIMALS + 1) if np.array_equal(there, np.round(there, digits)))
    return Column(name, decimals=next(ways, None))


# A release beside the table it was made from: rows, values, order and statistics that were carried over.


_AGAIN = "draw the release again with allbutone; nothing of the table goes out as it is"
_CHANCE = 1e-6  # of so many equal rows, beyond which it is no coincidence


@dataclass(frozen=True, eq=False)
class Table:
    """The confidential table in the release's columns, all rows, and what else it holds in text.

    texts: every text in it, of all columns. kept: columns that go out as they are. public: columns whose levels
    were declared before anyone looked.
    """

    values: Values
    texts: frozenset[str]
    kept: tuple[str, ...] = ()
    public: tuple[str, ...] = ()

    @property
    def whole(self) -> Float[np.ndarray, "n d"]:
        """The rows without gaps."""
        return self.values.numbers[~np.isnan(self.values.numbers).any(axis=1)]

    @property
    def drawn(self) -> list[int]:
        """The places of the columns that are not kept."""
        return [place for place, each in enumerate(self.values.columns) if each.name not in self.kept]


def dataset_against_table(where: str, data: Values, table: Table, tests: int) -> Iterator[Flaw]:
    """Find rows and values of the table in a synthetic dataset, and its order."""
    yield from _equal_values(where, data, table)
    yield from _shared_dates(where, data, table)
    if equal := _equal_rows(data, table):
        yield Flaw(where, f"{equal:,} of its rows are rows of the table, more than chance explains", _AGAIN)
    # the table's rows, or those without gaps, where there are as many as in the dataset
    same_rows = {len(each): each for each in (table.whole, table.values.numbers)}
    if (real := same_rows.get(len(data))) is not None:
        for place, column in enumerate(data.columns):
            one, other = data.numbers[:, place], real[:, place]
            both = ~(np.isnan(one) | np.isnan(other))
            one, other = one[both], other[both]
            same = np.array_equal(one, other) and _arrangements(one) > -log(FALSE_ALARM / tests)
            if same or _goes_with(one, other, tests):
                yield Flaw(where, f"its rows are in the table's order: {column.name!r} tells so", _AGAIN)


def _equal_values(where: str, data: Values, table: Table) -> Iterator[Flaw]:
    """Find values of the table in columns that are drawn with all their digits: by chance there are none."""
    for place in table.drawn:
        column = data.columns[place]
        if column.kind == CATEGORY or column.decimals is not None:
            continue
        real, drawn = table.values.numbers[:, place], data.numbers[:, place]
        equal = int(np.isin(drawn[~np.isnan(drawn)], np.setdiff1d(real, column.bounds)).sum())
        if equal:
            problem = f"{counted(equal, 'value')} of {column.name!r} stand in the table, too, to the last digit"
            yield Flaw(where, problem, _AGAIN)


NEAR = 10  # days, say, to either side, on which as many dates must coincide as on the day itself
FAR_OFF = 7.0  # standard deviations: beyond chance


def _shared_dates(where: str, data: Values, table: Table) -> Iterator[Flaw]:
    """Find columns of dates that coincide with the table's more often than dates a few days off do.

    A model's density is smooth: c(s), how many pairs of a synthetic and a real date are s days apart, is a + b·s²
    near 0, and c(0) too, but for chance.
    """
    shifts = np.array([shift for shift in range(-NEAR, NEAR + 1) if shift])
    design = np.column_stack([np.ones(len(shifts)), shifts**2])
    for place in table.drawn:
        column = data.columns[place]
        if column.calendar is None:
            continue
        real, drawn = (each[~np.isnan(each)] for each in (table.values.numbers[:, place], data.numbers[:, place]))
        days, times = np.unique(real, return_counts=True)
        if len(days) < 2 or np.ptp(days) < 4 * NEAR:  # few years or months: everybody shares them
            continue
        pairs = np.array([_pairs(drawn + shift, days, times) for shift in (0, *shifts)], dtype=np.float64)
        (expected, bend), *_ = np.linalg.lstsq(design, pairs[1:], rcond=None)
        spread = np.std(pairs[1:] - design @ [expected, bend], ddof=2)
        if pairs[0] - expected > FAR_OFF * max(spread, np.sqrt(max(expected, 1.0))):
            problem = f"{column.name!r} has dates of the table more often than chance explains"
            yield Flaw(where, problem, _AGAIN)


def _pairs(drawn: Float[np.ndarray, " n"], days: Float[np.ndarray, " d"], times: Int[np.ndarray, " d"]) -> int:
    """Count pairs of equal values: drawn ones, and those that occur so many times."""
    places = np.minimum(np.searchsorted(days, drawn), len(days) - 1)
    return int(times[places][days[places] == drawn].sum())


def _equal_rows(data: Values, table: Table) -> int:
    """Count rows of the dataset that the table has, too; 0 where no more than rounding explains."""
    places = table.drawn
    both = (data.numbers[:, places], table.values.numbers[:, places])
    mine, theirs = (each[~np.isnan(each).any(axis=1)] for each in both)
    if len(mine) < 2 or not len(theirs):
        return 0
    prints = row_prints([*mine.T])
    equal = int(np.isin(prints, row_prints([*theirs.T])).sum())
    expected = len(mine) * len(theirs) * _pair_chance(mine, prints, [data.columns[place] for place in places])
    # of pairs, which come in clumps: so four times as many are let pass
    return equal if equal and pdtrc(equal - 1, 4 * expected) < _CHANCE else 0


def _pair_chance(
    values: Float[np.ndarray, "n d"], prints: UInt[np.ndarray, " n"], columns: Sequence[Column]
) -> float:
    """Return how probable it is that two drawn rows are equal, from rounding and from what repeats.

    Two normals with covariance Σ fall into one cell of volume h of a grid with probability h (4π)^(−p/2) |Σ|^(−½);
    two levels agree with probability Σ share². Where the rows repeat one another more often, that often.
    """
    seen = _repeats(prints)
    measured = [place for place, each in enumerate(columns) if each.kind != CATEGORY]
    levels = [place for place, each in enumerate(columns) if each.kind == CATEGORY]
    chance = float(np.prod([_shares_squared(values[:, place]) for place in levels]))
    if any(columns[place].decimals is None for place in measured):
        return seen
    if measured:
        spread = np.atleast_2d(np.cov(values[:, measured].T))
        cell = float(np.prod([columns[place].coarsest for place in measured]))
        volume = sqrt(max(float(np.linalg.det(spread)), 0.0)) * (4 * pi) ** (len(measured) / 2)
        apart = float(np.prod([max(_repeats(values[:, place]), 1e-300) for place in measured]))
        chance *= min(1.0, max(cell / volume if volume else 1.0, apart))
    return max(chance, seen)


def _repeats(values: Any) -> float:
    """Return the share of pairs that are equal."""
    counts = np.unique(values, return_counts=True)[1].astype(float)
    return float((counts * (counts - 1)).sum() / (len(values) * (len(values) - 1)))


def _shares_squared(values: Float[np.ndarray, " n"]) -> float:
    shares = np.unique(values, return_counts=True)[1] / len(values)
    return float((shares**2).sum())


# The confidential table as a release is compared with it: read as it is, in the release's columns.


def table_beside(given: Any, release: DescribedRelease, schema: Schema) -> Table:
    """Read the release's columns of a table, and the texts of all its columns.

    `schema`: what a table file declares; the levels that it lists were public before.
    """
    content, columns = _content(given), release.columns
    names = [column.name for column in columns]
    here = content if release.schema.visits is None else widen(content, release.schema, names).table
    frame = chosen_frame(here, names, None)
    parts = [np.zeros((len(frame), 0))]
    for column in columns:
        if column.kind == CATEGORY:
            parts.append(Values.of_frame(frame.select(column.name).to_arrow(), [column]).numbers)
            continue
        look = look_at_column(frame[column.name], replace(column, scale=Scale(), low=-inf, high=inf), trusted=True)
        if len(look.numbers) != len(frame):
            raise InputError(f"{column.name!r} {look.problem}", "give the table that the release was made from")
        parts.append(look.numbers[:, None])
    public = [column.name for column in schema.widened().categories if column.levels]
    return Table(Values(tuple(columns), np.hstack(parts)), _texts(content), release.not_drawn, tuple(public))


def _content(given: Any) -> Any:
    """Return a table with its values as they are, to the last bit: those carried over are found by being equal."""
    if isinstance(given, str | PathLike):
        return read_table(Path(given))
    if not isinstance(given, Records):
        return given
    if rounded := [column.name for column in given.schema.measurements if column.scale != Scale()]:
        raise InputError(
            f"these records hold {listed(rounded)} on the scale of the model, so that their values are rounded",
            "give the table itself",
        )
    return given.to_frame()


def _texts(content: Any) -> frozenset[str]:
    """Return every text in a table, as names are compared: without spaces around it, in small letters."""
    if isinstance(content, np.ndarray):
        return frozenset()
    frame = content if hasattr(content, "column_names") else nw.from_native(content, eager_only=True).to_arrow()
    found: set[str] = set()
    for column in frame.columns:  # by position: names may be repeated
        if "string" in str(column.type):  # of any kind, and of levels
            found |= {str(text).strip().casefold() for text in column.unique().to_pylist() if text is not None}
    return frozenset(found - {""})


# What a release's names, levels, sizes and numbers tell of the table it was made from.


MANY_DIGITS = 6  # a number with so many that equals a statistic of the table was not public knowledge
LIMIT_DIGITS = 4  # a limit with so many that equals the table's extreme value is a person's value
OLD_SHARE = 0.05  # of the records, which all cells were worth by default up to version 0.2.0
_PUBLIC = "take it from public knowledge, and draw the release again"


def names_of_table(folder: str, columns: Sequence[Column], table: Table) -> Iterator[Flaw]:
    """Find values of the table as names: of the folder, of columns, in labels."""
    labels = [text for each in columns for text in (each.label, each.unit, each.why) if text]
    named = {
        "the folder's name": [folder],
        "the column name": [each.name for each in columns],
        "the text": labels,
    }
    for what, names in named.items():
        for name in names:
            if name.strip().casefold() in table.texts:
                cure = "give it another name" if folder == name else "rename it, and draw the release again"
                yield Flaw(MANIFEST, f"{what} {name!r} is a value in the table", cure)


def lonely_levels(table: Table) -> Iterator[Flaw]:
    """Find levels that only one person has: the list of levels tells that this person is in the table."""
    for column, codes in zip(table.values.columns, table.values.numbers.T, strict=True):
        if column.kind != CATEGORY or column.name in table.public:
            continue
        counts = np.bincount(codes[codes >= 0].astype(int), minlength=len(column.levels))
        if alone := [level for level, count in zip(column.levels, counts, strict=True) if count == 1]:
            told = ", ".join(repr(level) for level in alone[:5])
            cure = "declare the levels from public knowledge in the table file (and name it here), or merge them"
            yield Flaw(MANIFEST, f"only one person has the level {told} of {column.name!r}", cure)


def people_told(content: dict[str, Any], table: Table) -> list[str]:
    """Return the ways in which a release tells how many people the table has."""
    ways, people = [], {len(table.values), len(table.whole)}
    told = set(content.get("rows", []))
    if len(table.values) in told:
        ways.append("its datasets have as many rows as the table")
    elif people & told:
        ways.append("its datasets have as many rows as the table has without gaps")
    if content.get("guarantee", {}).get("people") in people:
        ways.append("its guarantee names the number")
    cells = int(np.prod([len(each.levels) for each in table.values.columns if each.kind == CATEGORY]))
    weight = content.get("cell_weight", JEFFREYS)
    if weight < JEFFREYS and any(isclose(weight, OLD_SHARE * each / cells) for each in people):
        ways.append("its cell_weight follows from the number")
    return ways


def statistics_of_table(
    content: dict[str, Any], parameters: dict[str, Any], table: Table, model: Float[np.ndarray, "n p"]
) -> Iterator[Flaw]:
    """Find numbers of the release that are the table's means, spreads, covariances or extremes.

    model: the values of the drawn measurements on the scale of the model.
    """
    if "mean" in content["prior"]:  # that of classes has no numbers of a table
        yield from _of_prior(content["prior"], parameters, model)
    for column, values in zip(table.values.columns, table.values.numbers.T, strict=True):
        if column.kind != CATEGORY:
            yield from _of_declared(column, values[~np.isnan(values)])


def _of_prior(
    prior: dict[str, Any], parameters: dict[str, Any], model: Float[np.ndarray, "n p"]
) -> Iterator[Flaw]:
    """Find a prior, or draws of the parameters, that have the table's means or covariances."""
    whole = model[np.isfinite(model).all(axis=1)]
    means, covariance = whole.mean(axis=0), np.atleast_2d(np.cov(whole.T))
    n = len(whole)
    df = float(prior["df"]) - len(means) - 1
    multiples = [
        covariance,
        covariance * (n - 1),
        covariance * (n - 1) / n,
        *([covariance * df] if df > 0 else []),
    ]
    if _equal(prior["mean"], [means, np.median(whole, axis=0)]):
        yield Flaw(MANIFEST, "the prior's mean is the table's", _PUBLIC)
    if prior["mean_weight"] and _equal(prior["scale"], multiples):
        yield Flaw(MANIFEST, "the prior's scale is the table's covariance", _PUBLIC)
    for draw in parameters.get("draws", []):
        if _equal(draw["mean"], [means]) or _equal(draw["covariance"], multiples):
            problem = "a draw of the parameters is the table's own mean or covariance, not drawn"
            yield Flaw(PARAMETERS, problem, "draw the release again with allbutone")


def _of_declared(column: Column, values: Any) -> Iterator[Flaw]:
    """Find declared limits that are someone's value, and a declared centre or spread that is the table's."""
    for name, extreme in (("low", values.min()), ("high", values.max())):
        dated = column.calendar is not None and not column.calendar.is_end_of_month(extreme)
        exact = dated if column.calendar else _digits_of(extreme) >= LIMIT_DIGITS
        if getattr(column, name) == extreme and exact:
            shown = column.shown(extreme)
            problem = f"the limit {name} = {shown} of {column.name!r} is the value of a person in the table"
            yield Flaw(MANIFEST, problem, "declare a limit from public knowledge, and draw the release again")
    told = {"centre": [values.mean(), np.median(values)], "spread": [values.std(), values.std(ddof=1)]}
    for name, statistics in told.items():
        if getattr(column, name) is not None and _equal(getattr(column, name), statistics):
            yield Flaw(MANIFEST, f"the {name} declared of {column.name!r} is the table's", _PUBLIC)
    for share, value in column.scale.quantiles:
        if _equal(value, [np.quantile(values, share)]):
            problem = f"the quantiles declared of {column.name!r} are the table's"
            yield Flaw(MANIFEST, problem, _PUBLIC)
            return


def _equal(given: Any, statistics: Sequence[Any]) -> bool:
    """Say whether any of these numbers, if it has many digits, is the statistic at its place."""
    numbers = np.asarray(given, dtype=float).ravel().tolist()
    for each in statistics:
        for number, real in zip(numbers, np.asarray(each, dtype=float).ravel().tolist(), strict=True):
            digits = _digits_of(number)
            if digits >= MANY_DIGITS and isclose(number, real, rel_tol=0.5 * 10.0 ** (1 - min(digits, 10))):
                return True
    return False


def _digits_of(number: float) -> int:
    """Return how many significant digits a number has, written as short as it can be."""
    return len(f"{float(number)!r}".split("e")[0].replace(".", "").replace("-", "").strip("0"))
