"""The form of a dataset's file: nothing in it but its values, written as allbutone writes them."""

import io
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from allbutone.releases.hygiene.findings import Flaw
from allbutone.tables.declared.column import CATEGORY, Column
from allbutone.tables.formats.limits import LIMITS
from allbutone.tables.safe_read import read_bytes

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
