"""How each format is read into an Arrow table: CSV, Excel, Parquet, and the files of SPSS, SAS and Stata."""

import codecs
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from io import BufferedIOBase, BytesIO
from itertools import zip_longest
from pathlib import PurePath
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from allbutone.support.errors import Cure, InputError, optional_module
from allbutone.tables.files import Limits

# Reading CSV and TSV: the encoding, the delimiter, the decimal comma and the size, before Arrow reads it.


MOST_HEADER_CHARACTERS = 16_000_000  # three thousand a column, at the most columns that are read
_BLOCK = 1 << 20
_LEADING_ZERO = re.compile(rb"[,;\t\n\r\" ]\0?0\0?[0-9]")


def read_csv(
    file: BufferedIOBase,
    name: str,
    limits: Limits,
    *,
    delimiter: str | None = None,
    header: bool = True,
    encoding: str | None = None,
) -> pa.Table:
    """Read an open text file; without a `header` the first line is a record, too.

    Nothing is held before all of it has been counted, so that it may be a stream that is unpacked on the way.
    """
    encoding = _known(encoding or "utf-8")
    lines, size = _extent(file, name, encoding, limits)
    first = _first_line(file, name, encoding)
    bare = re.sub(r'"[^"]*"', "", first)
    delimiter = delimiter or _delimiter(bare, header)
    columns = bare.count(delimiter) + 1
    # every cell becomes a number of eight bytes, or text as long as in the file
    limits.require(name, columns, columns * lines, 8 * columns * lines + size)
    options = {
        # the first line must fit in a block, and a row of numbers is seldom eight times as long
        "read_options": pyarrow.csv.ReadOptions(
            block_size=min(max(_BLOCK, 8 * len(first)), 1 << 30),
            autogenerate_column_names=not header,
            encoding=encoding,
        ),
        # an empty line in a file of one column is a missing value
        "parse_options": pyarrow.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=delimiter in bare
        ),
    }
    table = _parse(file, name, ".", options)
    # half of Europe writes 1,5;2,5 for 1.5,2.5: taken so only if that makes numbers of text, and text of none
    if delimiter == ";" and _texts(other := _parse(file, name, ",", options)) < _texts(table):
        table = other
    return _with_leading_zeros(file, name, _with_times_as_text(file, name, table, options), options)


def read_packed(file: BufferedIOBase, name: str, limits: Limits, **options: Any) -> pa.Table:
    """Read a text file that gzip has packed, unpacking it on the way."""
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            return read_csv(unpacked, name, limits, **options)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name} is not a complete gzip file", "compress it again") from error


def _with_times_as_text(file: BufferedIOBase, name: str, table: pa.Table, options: dict[str, Any]) -> pa.Table:
    """Return the table with times as the texts that they are, or their form would be lost."""
    times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    if not times or len(set(table.column_names)) < len(table.column_names):
        return table
    as_text = _parse(file, name, ".", options, dict.fromkeys(times, pa.string()))
    for column in times:
        if not pc.any(pc.match_substring(as_text[column], ".")).as_py():  # parts of a second no form tells
            table = table.set_column(table.column_names.index(column), column, as_text[column])
    return table


def _with_leading_zeros(file: BufferedIOBase, name: str, table: pa.Table, options: dict[str, Any]) -> pa.Table:
    """Return the table with codes such as 02139 as the text they are: no number begins with a zero."""
    whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    if not whole or len(set(table.column_names)) < len(table.column_names) or not _has_leading_zero(file):
        return table
    as_text = _parse(file, name, ".", options, dict.fromkeys(whole, pa.string()))
    for column in whole:
        any_zero = pc.any(pc.match_substring_regex(as_text[column], r"^\s*0\d+\s*$"))
        if any_zero.as_py():
            table = table.set_column(table.column_names.index(column), column, as_text[column])
    return table


def _has_leading_zero(file: BufferedIOBase) -> bool:
    """Say whether a zero before a digit begins any field; two bytes a character do not hide it."""
    file.seek(0)
    last = b"\n"
    while block := file.read(_BLOCK):
        if _LEADING_ZERO.search(last + block):
            return True
        last = block[-4:]
    return False


def _delimiter(bare: str, header: bool) -> str:
    """Return the delimiter of a line without its quoted parts; among numbers a comma may be the decimal one."""
    if header:
        return max(",;\t", key=bare.count)
    return next((mark for mark in ";\t" if mark in bare), ",")


def _texts(table: pa.Table) -> set[int]:
    return {position for position, kind in enumerate(table.schema.types) if pa.types.is_string(kind)}


def _parse(
    file: BufferedIOBase, name: str, decimal: str, options: dict[str, Any], types: dict[str, Any] | None = None
) -> pa.Table:
    """Parse the text; with `types`, only the columns named there, as what they say."""
    convert = pyarrow.csv.ConvertOptions(
        decimal_point=decimal, strings_can_be_null=True, column_types=types, include_columns=list(types or ())
    )
    file.seek(0)
    try:
        return pyarrow.csv.read_csv(file, convert_options=convert, **options)
    except pa.ArrowException as error:
        fault = str(error).splitlines()[0].strip().rstrip(".")
        raise InputError(f"{name} cannot be read as CSV: {fault}", "correct that line") from error


def _known(encoding: str) -> str:
    """Return the name of an encoding as Python and Arrow know it."""
    try:
        "".encode(encoding)  # refuses what is a codec, and not of text
        return codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise InputError(f"there is no text encoding {encoding!r:.60}", "try latin-1, cp1252 or utf-16") from error


def _extent(file: BufferedIOBase, name: str, encoding: str, limits: Limits) -> tuple[int, int]:
    """Return the number of lines and bytes; refuse text in another encoding before Arrow sees it."""
    decoder = codecs.getincrementaldecoder(encoding)()
    lines, size, last = 0, 0, "\n"
    while True:
        block = file.read(_BLOCK)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            line = 1 + lines + error.object[: error.start].count(b"\n")
            raise _other_encoding(name, encoding, line, block) from error
        lines += max(text.count("\n"), text.count("\r"))
        last = text or last
        size += len(block)
        limits.require(name, 1, 1, size)
        if not block:
            return lines + (last[-1] not in "\n\r"), size


def _other_encoding(name: str, encoding: str, line: int, block: bytes) -> InputError:
    if encoding != "utf-8":
        return InputError(
            f"{name} is not {encoding} text (line {line})", Cure("name another encoding", "encoding")
        )
    utf16 = block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return InputError(
        f"{name} is not UTF-8 text (line {line})",
        Cure("say which encoding it has", "encoding", "utf-16" if utf16 else "latin-1"),
        "save it again with UTF-8 encoding",
    )


def _first_line(file: BufferedIOBase, name: str, encoding: str) -> str:
    """Return the first line that is not blank; line breaks within quotes do not end it."""
    file.seek(0)
    stream: Any = file  # of which TextIOWrapper asks more than it uses
    reader = io.TextIOWrapper(stream, encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="")
    lines, quotes, left = [], 0, MOST_HEADER_CHARACTERS
    while line := reader.readline(left):
        lines.append(line)
        quotes += line.count('"')
        left -= len(line)
        if left <= 0:
            raise InputError(
                f"{name} has a first line of more than {MOST_HEADER_CHARACTERS:,} characters",
                "check that it is a table with one line a record",
            )
        if line.strip() and quotes % 2 == 0:
            break
    reader.detach()  # or it would close the file
    return "".join(lines)


# Reading Excel workbooks: unpacked within bounds, then row by row, so that no stray cell makes a huge table.
#
# By openpyxl, which gives one row after the other. Readers that return a sheet as a whole lay out every cell up to
# the last one, and one stray cell in the lower right corner takes all memory.


MOST_ROWS = 1_048_576  # of any sheet that Excel can write
CELL_BYTES = 64  # of a cell as a Python number, with its place in a row
MOST_UNPACKED, MOST_TIMES = 50_000_000, 100  # bytes, and how often over: sheets unpack to some 20 times their size
_MISSING = frozenset(pyarrow.csv.ConvertOptions().null_values)  # as in text files


def read_excel(
    file: BufferedIOBase, name: str, limits: Limits, *, header: bool = True, sheet: str | None = None
) -> pa.Table:
    """Read one sheet of an open workbook: the `sheet` of that name, or the only one.

    Formulas count as their last results; cells with dates, text or truth values stay what they are.
    """
    openpyxl = optional_module("openpyxl", "excel", f"what reads {name}", "save it as .csv")
    try:
        content, size = _unpacked(file, name, limits)
        with warnings.catch_warnings():  # of styles and extensions of Excel's, which do not matter here
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(content, read_only=True, data_only=True, keep_links=False)
            rows = list(_rows(_sheet(book, name, sheet), name, limits, size))
        return _table(rows, name, header)
    except InputError:
        raise
    except Exception as error:  # a damaged workbook can fail in any part of the library
        raise InputError(
            f"{name} cannot be read as an Excel workbook ({type(error).__name__})",
            "save it again as .xlsx, without a password",
            "save it as .csv",
        ) from error


def _unpacked(file: BufferedIOBase, name: str, limits: Limits) -> tuple[BufferedIOBase, int]:
    """Return the workbook's parts, uncompressed, and their size; a part larger than it says is cut off there."""
    content = BytesIO()
    with ZipFile(file) as packed, ZipFile(content, "w") as parts:
        size = sum(part.file_size for part in packed.infolist())
        limits.require(name, 1, 1, size)
        if size > MOST_UNPACKED and size > MOST_TIMES * sum(part.compress_size for part in packed.infolist()):
            raise InputError(
                f"{name} unpacks to {size / 1e6:,.0f} MB, over {MOST_TIMES} times its own size, as no table does",
                "save it anew as .xlsx or as .csv",
            )
        for part in packed.infolist():
            with packed.open(part) as source, parts.open(part.filename, "w") as target:
                while block := source.read(_BLOCK):  # never all at once, however much is packed in it
                    target.write(block)
    return content, size


def _sheet(book: Any, name: str, asked: str | None) -> Any:
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    shown = [title for title, sheet in sheets.items() if sheet.sheet_state == "visible"]
    if asked is None and len(shown) == 1:
        return sheets[shown[0]]
    if asked in sheets:
        return sheets[asked]
    problem = f"{name} has several sheets" if asked is None else f"{name} has no sheet {asked!r:.60}"
    raise InputError(problem, Cure(f"choose one of {', '.join(sheets)}", "sheet"))


def _rows(sheet: Any, name: str, limits: Limits, size: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that are not empty, without the empty cells at their ends."""
    sheet.reset_dimensions()  # what the file says of them may not be true
    rows = widest = 0
    for row in sheet.iter_rows(values_only=True, max_row=MOST_ROWS):
        width = next((place for place in range(len(row), 0, -1) if row[place - 1] is not None), 0)
        if width:
            rows, widest = rows + 1, max(widest, width)
            limits.require(name, widest, rows * widest, size + CELL_BYTES * rows * widest)
            yield row[:width]


def _table(rows: list[tuple[Any, ...]], name: str, header: bool) -> pa.Table:
    if not rows:
        raise InputError(f"the sheet of {name} is empty", "give it a header line and at least two rows")
    columns = list(zip_longest(*rows))
    names = ["" if column[0] is None else str(column[0]) for column in columns] if header else [""] * len(columns)
    return pa.Table.from_arrays([_column(column[header:]) for column in columns], names=names)


def _column(cells: Iterable[Any]) -> pa.Array:
    """Return numbers as numbers, dates as dates, and anything mixed as text."""
    values = [None if isinstance(cell, str) and cell in _MISSING else cell for cell in cells]
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if kinds and all(issubclass(kind, date) for kind in kinds):  # a day is a time at midnight in a workbook
        whole = all(
            not isinstance(value, datetime) or value.time() == time.min for value in values if value is not None
        )
        return pa.array(values, pa.date32() if whole else pa.timestamp("us"))
    if kinds == {bool}:
        return pa.array(values)
    return _as_text(values)


def _as_text(values: list[Any]) -> pa.Array:
    return pa.array([None if value is None else str(value) for value in values], pa.string())


# Reading Parquet: its footer says how much it holds, and what is beyond the limits is not read.


# A footer takes about 190 bytes a column and row group, and fifteen times as much once it is read.
MOST_FOOTER_BYTES = 16_000_000


def read_parquet(file: BufferedIOBase, name: str, limits: Limits) -> pa.Table:
    """Read an open Parquet file."""
    try:
        if _footer_bytes(file) > MOST_FOOTER_BYTES:
            raise InputError(
                f"{name} describes too many columns and groups of rows to be read",
                "write the columns you need, in larger groups of rows, to a file of their own",
            )
        content = pyarrow.parquet.ParquetFile(file)
        footer = content.metadata
        limits.require(name, footer.num_columns, *_footer_extent(footer))
        if lists := [column.path.split(".")[0] for column in _columns(footer) if column.max_repetition_level]:
            raise InputError(
                f"column {lists[0]!r} of {name} holds lists, so its footer does not say how much there is to read",
                "write the columns you need, as numbers, to a file of their own",
            )
        # a long text that all rows share is held once: only so does the footer bound the memory
        texts = [column.path for column in _columns(footer) if _is_text(column)]
        table = pyarrow.parquet.ParquetFile(file, read_dictionary=texts).read() if texts else content.read()
        _ = table.column_names  # decodes them
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} has a column name that is not UTF-8 text", "rename it and write the file again"
        ) from error
    except (pa.ArrowException, OSError) as error:
        fault = str(error).splitlines()[0].strip().rstrip(".")
        raise InputError(f"{name} is not a complete Parquet file ({fault})", "write it again") from error
    return table


def _footer_bytes(file: BufferedIOBase) -> int:
    """Return the length of the footer, which stands before the last four letters of the file."""
    size = file.seek(0, 2)
    file.seek(max(size - 8, 0))
    length = int.from_bytes(file.read(4), "little")
    file.seek(0)
    return min(length, size)


def _footer_extent(footer: Any) -> tuple[int, int]:
    """Return the number of values and the bytes they take once read."""
    # not from the footer's parts about single columns: of damaged ones Arrow ends the whole process
    texts = sum(max(footer.row_group(group).total_byte_size, 0) for group in range(footer.num_row_groups))
    width = sum(_width(column) for column in _columns(footer))
    return footer.num_rows * footer.num_columns, footer.num_rows * width + texts


def _columns(footer: Any) -> list[Any]:
    return [footer.schema.column(place) for place in range(footer.num_columns)]


def _is_text(column: Any) -> bool:
    return column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL"


def _width(column: Any) -> int:
    if _is_text(column):
        return 4  # a place in the list of its values
    if column.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):  # decimal numbers take 16 or 32
        return max(int(column.length), 32)
    return 8


# What columns are called in words: kept with a table in the metadata of its columns.


LABEL = b"label"


def labels_in(table: pa.Table) -> dict[str, str]:
    """Return what columns are called in words, where their file says so."""
    told = {field.name: (field.metadata or {}).get(LABEL) for field in table.schema}
    return {name: label.decode() for name, label in told.items() if label}


def label_metadata(text: str | None) -> dict[bytes, bytes] | None:
    """Return the metadata of a column that is called so; none where it is not called anything."""
    return {LABEL: " ".join(text.split()).encode()} if text and text.strip() else None


# Reading the files of SPSS, SAS and Stata: labelled codes are levels, what is called missing is missing.


EXTRA = "spss-sas-stata"
READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
    ".dta": "read_dta",
}


def read_statistics(file: BufferedIOBase, name: str, limits: Limits, *, encoding: str | None = None) -> pa.Table:
    """Read an open file by pyreadstat; user-defined missing values become missing.

    Codes that all have labels become levels, in the order of the codes; a scale of which only some numbers are
    labelled stays one of numbers. What a column is called in words goes into its metadata.
    """
    pyreadstat = optional_module("pyreadstat", EXTRA, f"what reads {name}", "save it as .csv")
    read = getattr(pyreadstat, READERS[PurePath(name).suffix.lower()])
    try:
        _, about = read(file, metadataonly=True, encoding=encoding, output_format="dict")
        most = _rows_to_read(about, name, limits)
        file.seek(0)
        columns, _ = read(file, encoding=encoding, output_format="dict", row_limit=most)
        rows = max(map(len, columns.values()), default=0)
        _require(about, rows, name, limits)
        kinds = about.original_variable_types
        arrays = {
            name: _levels(_dated(values, kinds.get(name)), about.variable_value_labels.get(name, {}))
            for name, values in columns.items()
        }
        words = about.column_names_to_labels
        fields = [
            pa.field(name, array.type, metadata=label_metadata(words.get(name))) for name, array in arrays.items()
        ]
        return pa.table(list(arrays.values()), pa.schema(fields))
    except InputError:
        raise
    except Exception as error:  # a damaged file can fail in any part of the library
        raise InputError(
            f"{name} cannot be read ({' '.join(str(error).split()):.100})",
            "write it again",
            Cure("if its text is in another encoding, name it", "encoding", "latin1"),
            "save it as .csv",
        ) from error


def _rows_to_read(about: Any, name: str, limits: Limits) -> int:
    """Return as many as the file says or, where it does not say, one more than may be."""
    said = about.number_rows or 0
    _require(about, max(said, 1), name, limits)
    fit = min(limits.values // max(about.number_columns, 1), limits.bytes // max(_row_bytes(about), 1))
    return said if said > 0 else fit + 1


def _row_bytes(about: Any) -> int:
    """Return what a row takes as Python's numbers and texts, none of them longer than its column is wide."""
    kinds, widths = about.readstat_variable_types, about.variable_storage_width
    return sum(CELL_BYTES + (widths[name] if kind == "string" else 0) for name, kind in kinds.items())


def _require(about: Any, rows: int, name: str, limits: Limits) -> None:
    limits.require(name, about.number_columns, about.number_columns * rows, _row_bytes(about) * rows)


def _dated(values: list[Any], kind: str | None) -> list[Any]:
    """Return Stata's months and quarters, which count from 1960, as dates; anything else as it is."""
    months = {"%tm": 1, "%tq": 3}.get((kind or "")[:3])
    if months is None:
        return values
    counts = [None if value is None or value != value else months * int(value) for value in values]
    return [None if each is None else date(1960 + each // 12, each % 12 + 1, 1) for each in counts]


def _levels(values: list[Any], labels: dict[Any, str]) -> pa.Array:
    """Return codes of which all are labelled as levels; anything else as it is."""
    codes = sorted(labels) if all(isinstance(code, int | float) for code in labels) else []
    names = [labels[code].strip() for code in codes]
    there = {value for value in values if value is not None and value == value}
    if len(codes) < 2 or not there or there - set(codes) or not all(names) or len(set(names)) < len(names):
        try:
            return pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and texts, say
            return _as_text(values)
    places = {code: place for place, code in enumerate(codes)}
    return pa.DictionaryArray.from_arrays(pa.array([places.get(value) for value in values], pa.int32()), names)
