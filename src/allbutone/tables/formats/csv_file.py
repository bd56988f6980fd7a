"""Reading CSV and TSV: the encoding, the delimiter, the decimal comma and the size, before Arrow reads it."""

import codecs
import gzip
import io
import re
import zlib
from io import BufferedIOBase
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from allbutone.support.errors import Cure, InputError
from allbutone.tables.formats.limits import Limits

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
    return _with_leading_zeros(file, name, table, options)


def read_packed(file: BufferedIOBase, name: str, limits: Limits, **options: Any) -> pa.Table:
    """Read a text file that gzip has packed, unpacking it on the way."""
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            return read_csv(unpacked, name, limits, **options)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name} is not a complete gzip file", "compress it again") from error


def _with_leading_zeros(file: BufferedIOBase, name: str, table: pa.Table, options: dict[str, Any]) -> pa.Table:
    """Return the table with codes such as 02139 as the text they are: no number begins with a zero."""
    whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    if not whole or len(set(table.column_names)) < len(table.column_names) or not _has_leading_zero(file):
        return table
    as_text = _parse(file, name, ".", options, dict.fromkeys(whole, pa.string()))
    for column in whole:
        found = pc.any(pc.match_substring_regex(as_text[column], r"^\s*0\d+\s*$"))
        if found.as_py():
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
