"""Reading CSV and TSV: the encoding, the delimiter, the decimal comma and the size, before Arrow reads it."""

import codecs
import io
import re
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv

from allbutone.support.errors import InputError
from allbutone.tables.limits import Limits

MOST_HEADER_CHARACTERS = 16_000_000  # three thousand a column, at the most columns that are read
_BLOCK = 1 << 20


def read_csv(file: IO[bytes], name: str, delimiter: str | None, *, header: bool, limits: Limits) -> pa.Table:
    """Read an open text file; without a `header` the first line is a record, too."""
    lines = _count_lines(file, name)
    first = _first_line(file, name)
    bare = re.sub(r'"[^"]*"', "", first)
    delimiter = delimiter or _delimiter(bare, header)
    columns = bare.count(delimiter) + 1
    # every cell becomes a number of eight bytes, or text as long as in the file
    limits.require(name, columns, columns * lines, 8 * columns * lines + file.seek(0, 2))
    options = {
        # the first line must fit in a block, and a row of numbers is seldom eight times as long
        "read_options": pyarrow.csv.ReadOptions(
            block_size=min(max(_BLOCK, 8 * len(first)), 1 << 30), autogenerate_column_names=not header
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
    return table


def _delimiter(bare: str, header: bool) -> str:
    """Return the delimiter of a line without its quoted parts; among numbers a comma may be the decimal one."""
    if header:
        return max(",;\t", key=bare.count)
    return next((mark for mark in ";\t" if mark in bare), ",")


def _texts(table: pa.Table) -> set[int]:
    return {position for position, kind in enumerate(table.schema.types) if pa.types.is_string(kind)}


def _parse(file: IO[bytes], name: str, decimal: str, options: dict[str, Any]) -> pa.Table:
    convert = pyarrow.csv.ConvertOptions(decimal_point=decimal, strings_can_be_null=True)
    file.seek(0)
    try:
        return pyarrow.csv.read_csv(file, convert_options=convert, **options)
    except pa.ArrowException as error:
        fault = str(error).splitlines()[0].strip().rstrip(".")
        raise InputError(f"{name} cannot be read as CSV: {fault}", "correct that line") from error


def _count_lines(file: IO[bytes], name: str) -> int:
    """Return the number of lines; refuse text in another encoding, naming the line, before Arrow sees it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines, last = 0, b"\n"
    while block := file.read(_BLOCK):
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            line = 1 + lines + error.object[: error.start].count(b"\n")
            raise InputError(
                f"{name} is not UTF-8 text (line {line})", "save it again with UTF-8 encoding"
            ) from error
        lines += max(block.count(b"\n"), block.count(b"\r"))
        last = block
    if decoder.getstate()[0]:
        raise InputError(f"{name} is not UTF-8 text (its last character is cut off)", "save it again")
    return lines + (last[-1:] not in (b"\n", b"\r"))


def _first_line(file: IO[bytes], name: str) -> str:
    """Return the first line that is not blank; line breaks within quotes do not end it."""
    file.seek(0)
    reader = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
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
