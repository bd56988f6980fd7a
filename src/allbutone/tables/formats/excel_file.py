"""Reading Excel workbooks: unpacked within bounds, then row by row, so that no stray cell makes a huge table.

By openpyxl, which gives one row after the other. Readers that return a sheet as a whole lay out every cell up to
the last one, and one stray cell in the lower right corner takes all memory.
"""

import warnings
from collections.abc import Iterable, Iterator
from datetime import date
from io import BufferedIOBase, BytesIO
from itertools import zip_longest
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.csv

from allbutone.support.errors import Cure, InputError
from allbutone.tables.formats.extras import reader
from allbutone.tables.formats.limits import Limits

MOST_ROWS = 1_048_576  # of any sheet that Excel can write
CELL_BYTES = 64  # of a cell as a Python number, with its place in a row
MOST_UNPACKED, MOST_TIMES = 50_000_000, 100  # bytes, and how often over: sheets unpack to some 20 times their size
_BLOCK = 1 << 20
_MISSING = frozenset(pyarrow.csv.ConvertOptions().null_values)  # as in text files


def read_excel(
    file: BufferedIOBase, name: str, limits: Limits, *, header: bool = True, sheet: str | None = None
) -> pa.Table:
    """Read one sheet of an open workbook: the `sheet` of that name, or the only one.

    Formulas count as their last results; cells with dates, text or truth values stay what they are.
    """
    openpyxl = reader("openpyxl", "excel", name)
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
    if len(kinds) == 1 and issubclass(kinds.pop(), bool | date):
        return pa.array(values)
    return pa.array([None if value is None else str(value) for value in values], pa.string())
