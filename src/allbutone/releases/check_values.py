"""What may be wrong with a synthetic dataset by itself: the form of its file, its values, and their order."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lgamma, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from jaxtyping import Float
from scipy.special import ndtri

from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.column import CATEGORY, Column, level_name
from allbutone.tables.files import LIMITS, read_table
from allbutone.tables.safe_io import read_bytes

# What was found in a release that may not go out, where, and what to do about it.


AS_WRITTEN = "release the files as allbutone wrote them, or draw the release again"


@dataclass(frozen=True)
class Flaw:
    """One thing that may not be released: the file it is in, what is wrong, and the cure."""

    where: str
    problem: str
    cure: str = AS_WRITTEN

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.where}: {self.problem}; {self.cure}"


@dataclass(frozen=True)
class ReleaseCheck:
    """What `check_release` found.

    findings: all that may not be released; none where the release is clean. checked: what was looked at, in words.
    notes: what is no fault, but worth a thought.
    """

    findings: tuple[Flaw, ...]
    checked: str
    notes: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        if self.is_clean:
            return "Clean: it holds only what may be released."
        return f"Not to be released as it is: {counted(len(self.findings), 'thing')} found."

    def __str__(self) -> str:
        """Return the answer and all that was found, a line each."""
        return "\n".join([self.verdict, *(f"- {each}" for each in self.findings)])

    def require_clean(self) -> None:
        """Refuse a release in which something was found."""
        if self.findings:
            first = self.findings[0]
            more = f" ({counted(len(self.findings) - 1, 'more thing')})" if len(self.findings) > 1 else ""
            raise InputError(f"{first.problem}{more}", first.cure, where=first.where)


def merged(findings: Iterable[Flaw]) -> tuple[Flaw, ...]:
    """Say once what is wrong in the same way with several files."""
    places: dict[tuple[str, str], list[str]] = {}
    for each in findings:
        places.setdefault((each.problem, each.cure), []).append(each.where)
    found = []
    for (problem, cure), where in places.items():
        names = list(dict.fromkeys(where))
        found.append(Flaw(names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else ""), problem, cure))
    return tuple(found)


# The form of a dataset's file: nothing in it but its values, written as allbutone writes them.


_ARROW = b"ARROW:schema"  # the types of the columns once more, in Arrow's own words
_CREATED_BY = re.compile(r"parquet-cpp-arrow version \d+(\.\d+)*(-\w+)?")
_ENDS = 12  # bytes of a Parquet file besides its pages and footer: PAR1 twice, and the footer's length
_MADE_AGAIN = "write it again with allbutone (save_release), not with another program"


def form_findings(path: Path, columns: Sequence[Column]) -> Iterator[Flaw]:
    """Find, without reading its values, what a file holds besides the columns of the release."""
    names = [column.name for column in columns]
    try:
        if path.suffix == ".parquet":
            yield from _footer_findings(path, names)
        else:
            expected = _first_line(tuple(names))
            with path.open("rb") as file:
                if file.read(len(expected)) != expected:
                    yield Flaw(
                        path.name, "its first line is not the names of the release's columns, and only these"
                    )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        yield _unreadable(path, error)


def read_values(path: Path, columns: Sequence[Column]) -> tuple[pa.Table | None, list[Flaw]]:
    """Read a dataset's file, and find what its text or pages tell besides the values."""
    try:
        if path.suffix == ".parquet":
            content = pyarrow.parquet.ParquetFile(path)
            LIMITS.require(path.name, len(columns), content.metadata.num_rows * len(columns), 0)
            table = content.read()
            return table, list(_statistics_findings(path, content.metadata, table))
        text = read_bytes(path, "name a release")
        types = {each.name: pa.string() if each.kind == CATEGORY else pa.float64() for each in columns}
        how = pa.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
        table = pa.csv.read_csv(io.BytesIO(text), convert_options=how)
        _ = table.column_names  # decodes them
        return table, list(_text_findings(path, text, _as_text(table)))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        return None, [_unreadable(path, error)]


def _unreadable(path: Path, error: Exception) -> Flaw:
    return Flaw(path.name, f"it cannot be read as the release's columns ({str(error).splitlines()[0]:.120})")


@lru_cache(maxsize=1)  # the same for every dataset of a release
def _first_line(names: tuple[str, ...]) -> bytes:
    return _as_text(pa.table({name: pa.array([], pa.float64()) for name in names}))


def _as_text(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pa.csv.write_csv(table, file)
    return file.getvalue()


def _text_findings(path: Path, text: bytes, expected: bytes) -> Iterator[Flaw]:
    """Find text that says more than its values: comments, spaces, digits in another form, a mark at its start."""
    if text == expected:
        return
    pairs = enumerate(zip(text.split(b"\n"), expected.split(b"\n"), strict=False), start=1)
    line = next((number for number, (found, wanted) in pairs if found != wanted), text.count(b"\n") + 1)
    problem = "its text is not as allbutone writes these values: comments, spaces, quotes or digits can carry more"
    yield Flaw(f"{path.name}, line {line}", problem, _MADE_AGAIN)


def _footer_findings(path: Path, names: list[str]) -> Iterator[Flaw]:
    """Find what a Parquet file tells beside its pages: Parquet has many pockets, and programs fill them."""
    with pyarrow.parquet.ParquetFile(path) as content:
        footer, schema = content.metadata, content.schema_arrow
        _require_whole(content)
    if schema.names != names:
        yield Flaw(path.name, f"its columns are {', '.join(schema.names):.200}, not those of the release")
    told = [*(footer.metadata or {}), *(schema.metadata or {})]
    for field in schema:
        told += [key for key in field.metadata or {} if key != b"PARQUET:field_id"]
    if extra := sorted({key.decode(errors="replace") for key in told if key != _ARROW}):
        why = "; pandas puts the table's row labels there" if "pandas" in extra else ""
        yield Flaw(path.name, f"its footer holds metadata: {', '.join(extra):.200}{why}", _MADE_AGAIN)
    if not _CREATED_BY.fullmatch(footer.created_by or ""):
        problem = f"its footer says that {footer.created_by!r:.80} created it, which is not how allbutone writes"
        yield Flaw(path.name, problem, _MADE_AGAIN)
    places = np.ndindex(footer.num_row_groups, footer.num_columns)
    chunks = [footer.row_group(group).column(place) for group, place in places]
    if any(chunk.file_path for chunk in chunks):
        yield Flaw(path.name, "its footer holds paths of other files", _MADE_AGAIN)
    used = sum(chunk.total_compressed_size for chunk in chunks) + footer.serialized_size + _ENDS
    if path.stat().st_size != used:
        problem = f"it holds {path.stat().st_size - used:,} bytes that belong to none of its columns"
        yield Flaw(path.name, problem, _MADE_AGAIN)


def _require_whole(content: pyarrow.parquet.ParquetFile) -> None:
    """Begin to read every group of rows, which refuses a damaged footer.

    Asked for a part of it about a single column, Arrow would end the whole process.
    """
    for group in range(content.metadata.num_row_groups):
        next(content.iter_batches(batch_size=1, row_groups=[group]), None)


def _statistics_findings(path: Path, footer: Any, table: pa.Table) -> Iterator[Flaw]:
    """Find smallest and largest values in the footer that are not those of the synthetic values."""
    start = 0
    for group in range(footer.num_row_groups):
        about = footer.row_group(group)
        part = table.slice(start, about.num_rows)
        start += about.num_rows
        for place, name in enumerate(table.column_names):
            told, values = about.column(place).statistics, part.column(place)
            if told is None or not told.has_min_max or len(values) == values.null_count:
                continue
            values = values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values
            found = pa.compute.min_max(values)
            if (told.min, told.max) != (found["min"].as_py(), found["max"].as_py()):
                problem = f"its footer tells other smallest and largest values of {name!r} than the column has"
                yield Flaw(path.name, problem, _MADE_AGAIN)


# The values of a synthetic dataset: as declared, and in an order that tells nothing.


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


def declared_findings(where: str, data: Values, gaps: bool, kept: Sequence[str]) -> Iterator[Flaw]:
    """Find values that are not as declared: more digits, beyond the limits, levels that are not public, gaps."""
    for column, values in zip(data.columns, data.numbers.T, strict=True):
        missing = np.isnan(values)
        if missing.any() and not gaps:
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
        if arrangements(whole) > -log(FALSE_ALARM / tests) and (np.all(steps >= 0) or np.all(steps <= 0)):
            yield Flaw(where, f"its rows are sorted by {column.name!r}", _UNORDERED)
        elif goes_with(whole, np.arange(float(len(whole))), tests) or goes_with(whole[1:], whole[:-1], tests):
            problem = f"{column.name!r} changes along the rows, as in a table that is in some order"
            yield Flaw(where, problem, _UNORDERED)


def arrangements(values: Float[np.ndarray, " n"]) -> float:
    """Return the log of the number of orders that these values can be in, log n!/∏ c!."""
    counts = np.unique(values, return_counts=True)[1]
    return lgamma(len(values) + 1) - sum(lgamma(count + 1) for count in counts.tolist() if count > 1)


def goes_with(one: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"], tests: int) -> bool:
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
