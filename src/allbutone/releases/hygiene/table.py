"""The confidential table as a release is compared with it: read as it is, in the release's columns."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from allbutone.releases.hygiene.against_table import Table
from allbutone.releases.hygiene.dataset_values import Values
from allbutone.support.errors import InputError
from allbutone.support.text import listed
from allbutone.tables.declared.column import CATEGORY, Column
from allbutone.tables.declared.scales import Scale
from allbutone.tables.declared.schema import Schema
from allbutone.tables.files import read_table
from allbutone.tables.frames import chosen_frame
from allbutone.tables.look import look_at_column
from allbutone.tables.records import Records


def table_of(given: Any, columns: Sequence[Column], kept: Sequence[str], schema: Schema) -> Table:
    """Read the release's columns of a table, and the texts of all its columns.

    `schema`: what a table file declares; the levels that it lists were public before.
    """
    content = _content(given)
    frame = chosen_frame(content, [column.name for column in columns], None)
    parts = [np.zeros((len(frame), 0))]
    for column in columns:
        if column.kind == CATEGORY:
            parts.append(Values.of_frame(frame.select(column.name).to_arrow(), [column]).numbers)
            continue
        look = look_at_column(frame[column.name], replace(column, scale=Scale(), low=-inf, high=inf), trusted=True)
        if len(look.numbers) != len(frame):
            raise InputError(f"{column.name!r} {look.problem}", "give the table that the release was made from")
        parts.append(look.numbers[:, None])
    public = [column.name for column in schema.categories if column.levels]
    return Table(Values(tuple(columns), np.hstack(parts)), _texts(content), tuple(kept), tuple(public))


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
