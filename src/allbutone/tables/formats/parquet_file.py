"""Reading Parquet: its footer says how much it holds, and what is beyond the limits is not read."""

from io import BufferedIOBase
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from allbutone.support.errors import InputError
from allbutone.tables.formats.limits import Limits

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
        limits.require(name, footer.num_columns, *_extent(footer))
        if lists := [column.path.split(".")[0] for column in _columns(footer) if column.max_repetition_level]:
            raise InputError(
                f"column {lists[0]!r} of {name} holds lists, so its footer does not say how much there is to read",
                "write the columns you need, as numbers, to a file of their own",
            )
        # a long text that all rows share is held once: only so does the footer bound the memory
        texts = [
            column.path for column in map(footer.schema.column, range(footer.num_columns)) if _is_text(column)
        ]
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


def _extent(footer: Any) -> tuple[int, int]:
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
