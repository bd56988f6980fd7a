"""Dataframes of any library: which columns are chosen, what they are called, and how answers go back in them."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import narwhals as nw
import numpy as np

from allbutone.support.arrays import real_array
from allbutone.support.errors import InputError
from allbutone.tables.names import choose, split_names

LIBRARIES = ("pyarrow", "polars", "pandas")


def chosen_frame(table: Any, columns: Any, drop: Any, left_out: Sequence[str] = ()) -> nw.DataFrame[Any]:
    """Return the chosen columns; among the others names may be missing, unsafe or repeated.

    `left_out`: those that a table file leaves out; the ones this table has go with those to drop.
    """
    if isinstance(table, np.ndarray):
        table = _name_columns(table)
    names = names_of(table)
    if not_here := [name for name in left_out if name in names]:
        drop = [*(split_names(drop, set(names)) if drop is not None else ()), *not_here]
    positions = choose(names, columns, drop)
    chosen = [names[position] for position in positions]
    # by position, before narwhals sees it: it would refuse a repeated name wherever it is
    if hasattr(table, "iloc"):
        table = table.iloc[:, positions].set_axis(chosen, axis=1)
    elif hasattr(table, "column_names"):
        table = table.select(positions)
    try:
        return nw.from_native(table, eager_only=True).select(chosen)
    except TypeError as error:
        raise _no_table(table) from error


def column_at(table: Any, place: int, name: str) -> nw.Series[Any]:
    """Return the column at this place of a table of any library, whatever the others are called."""
    if hasattr(table, "iloc"):
        return nw.from_native(table.iloc[:, place], series_only=True).alias(name)
    if hasattr(table, "column_names"):
        return nw.from_native(table.column(place), series_only=True).alias(name)
    return nw.from_native(table, eager_only=True)[name]


def is_lazy_frame(table: Any) -> bool:
    """Say whether it is a lazy frame of any library; narwhals refuses a repeated name, which those do not have."""
    try:
        return isinstance(nw.from_native(table, pass_through=True), nw.LazyFrame)
    except nw.exceptions.DuplicateError:
        return False


def names_of(table: Any) -> list[str]:
    """Return the names of all columns of a table."""
    if isinstance(table, np.ndarray):
        return [f"x{position + 1}" for position in range(table.shape[-1])]
    if is_lazy_frame(table):
        raise InputError(
            f"a {type(table).__name__} stays in its engine, and this needs the rows here",
            "collect it, or name the files on the command line, which leaves them where they are",
        )
    labels = getattr(table, "column_names", getattr(table, "columns", None))
    if labels is None:
        raise _no_table(table)
    return _names(list(labels))


def _names(labels: list[Any]) -> list[str]:
    """Return the labels as names; columns that pandas has only numbered are named as those of a matrix."""
    if all(isinstance(label, int | np.integer) for label in labels) and labels == list(range(len(labels))):
        return [f"x{position}" for position in range(1, len(labels) + 1)]
    return [str(label) for label in labels]


def _no_table(table: Any) -> InputError:
    return InputError(
        f"cannot read a {type(table).__name__} as a table",
        "give a file, a NumPy matrix, or a pandas, polars or pyarrow table",
    )


def _name_columns(matrix: np.ndarray) -> Any:
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"a matrix of records has shape (n, p), p > 0, got {matrix.shape}", "try reshape(-1, 1)")
    names = _names(list(range(matrix.shape[1])))
    values = np.asarray(real_array(matrix, "a matrix of records"))
    return nw.from_numpy(values, schema=names, backend=_library()).to_native()


def _library() -> Any:
    """Return the dataframe library that matrices are read with: pyarrow, or one that is there instead."""
    for name in LIBRARIES:
        try:
            import_module(name)
        except ModuleNotFoundError:
            continue
        return name
    raise InputError("no dataframe library is installed", f"install one: pip install {LIBRARIES[0]}")


def frame_of(columns: dict[str, Any], levels: dict[str, tuple[str, ...]], backend: Any) -> Any:
    """Return a dataframe of numbers, missing where NaN, and of level numbers, missing where -1, by level names.

    A column of levels has its library's own type for them, which keeps their order: categorical, Enum, dictionary.
    """
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if name in levels:
            codes = pa.array(values.astype(np.int32), mask=values < 0)
            arrays[name] = pa.DictionaryArray.from_arrays(codes, pa.array(levels[name], pa.string()))
        else:
            arrays[name] = pa.array(values, mask=np.isnan(values))
    frame = nw.from_arrow(pa.table(arrays), backend=backend)
    if frame.implementation.is_polars():
        texts = [nw.col(name).cast(nw.String).cast(nw.Enum(each)) for name, each in levels.items()]
        frame = frame.with_columns(*texts)
    return frame.to_native()
