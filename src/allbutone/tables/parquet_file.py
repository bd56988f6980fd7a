"""Reading Parquet: its footer says how much it holds, and what is beyond the limits is not read."""

from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet

from allbutone.support.errors import InputError
from allbutone.tables.limits import Limits

# A footer takes about 190 bytes a column and row group, and fifteen times as much once it is read.
MOST_FOOTER_BYTES = 16_000_000


def read_parquet(file: IO[bytes], name: str, limits: Limits) -> pa.Table:
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


def _footer_bytes(file: IO[bytes]) -> int:
    """Return the length of the footer, which stands before the last four letters of the file."""
    size = file.seek(0, 2)
    file.seek(max(size - 8, 0))
    length = int.from_bytes(file.read(4), "little")
    file.seek(0)
    return min(length, size)


def _extent(footer: Any) -> tuple[int, int]:
    """Return the number of values and the bytes they take once read; nested columns hold several a row."""
    values = size = 0
    width = [_width(footer.schema.column(place)) for place in range(footer.num_columns)]
    for group in range(footer.num_row_groups):
        chunks = footer.row_group(group)
        for place, bytes_each in enumerate(width):
            part = chunks.column(place)
            values += part.num_values
            size += part.num_values * bytes_each + part.total_uncompressed_size
    return max(values, footer.num_rows * footer.num_columns), size


def _is_text(column: Any) -> bool:
    return column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL"


def _width(column: Any) -> int:
    if _is_text(column):
        return 4  # a place in the list of its values
    if column.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):  # decimal numbers take 16 or 32
        return max(int(column.length), 32)
    return 8
