"""What is declared of each column: fields by the column's place, table files in and out, and what a look says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from allbutone.app.forms import Choice, Field, Group, Hidden, Numbers
from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.admission import Problem
from allbutone.tables.declared.column import Column, column_from
from allbutone.tables.declared.schema import Schema
from allbutone.tables.look import Look, look_at_column
from allbutone.tables.names import check_names

# Of every column one, in addresses under its place in the table: scale-3=log
FIELDS: tuple[Field, ...] = (
    Choice(
        "scale", "Scale", "as it is",
        "On which the column is near to normal. It must follow from what is publicly known of the column, as "
        "that it is positive and skewed. The risk is exact on this scale; what goes out is in the column's own "
        "units.",
        {
            "as it is": "as it is", "log": "log", "log(x + 1)": "log(x + 1)", "sqrt": "square root",
            "logit": "logit (between both limits)",
        },
    ),
    Field("low", "Lowest", "", "No released value is below it. From public knowledge, not from this table."),
    Field("high", "Highest", "", "No released value is above it; likewise."),
    Field("decimals", "Decimals", "", "Released values are rounded to so many. Left empty: none is rounded."),
    Field(
        "centre", "Centre", "", "What public sources say of the column's middle value, in its own units.",
        only="prior=public",
    ),
    Field(
        "spread", "Spread", "", "And of its standard deviation, in its own units.", only="prior=public",
    ),
    Hidden("label", "Label"),
    Hidden("unit", "Unit"),
    Hidden("quantiles", "Quantiles"),
    Hidden("missing", "Codes of its own"),
)  # fmt: skip
OF_THE_PRIOR = ("centre", "spread")
_NUMBERS, _LISTS = ("low", "high", "decimals", *OF_THE_PRIOR), ("quantiles", "missing")
PUBLIC_FIELDS = tuple(f"{one.name}-" for one in FIELDS if one.name in OF_THE_PRIOR)
READ_FIELDS = tuple(f"{one.name}-" for one in FIELDS if one.name not in OF_THE_PRIOR)


@dataclass(frozen=True)
class Codes(Numbers):
    """Numbers between commas, or nothing."""

    def value(self, text: str) -> tuple[float, ...]:
        """Return the numbers."""
        return super().value(text) if text.strip() else ()


OUT = {"refuse": "refuse the table", "leave-out": "leave them out"}
GAPS = Group(
    "Gaps, and columns that cannot be used",
    (
        Choice("gaps", "Rows with gaps", "refuse", "Of the columns that are used.", OUT, reset_by="table"),
        Choice("unusable", "Columns that cannot be used", "refuse", "Text, dates, constants, copies of others, "
               "identifiers.", OUT, reset_by="table"),
        Codes("codes", "Codes for missing values", "", "Numbers that stand for no value in any column, such as "
              "-999, between commas.", -1e12, 1e12, reset_by="table"),
    ),
)  # fmt: skip


def declared(
    query: Mapping[str, str], names: Sequence[str], codes: Sequence[float], public: bool
) -> tuple[Schema, list[Problem]]:
    """Return what an address declares of the columns, and what is wrong with it; `public`: also of the prior."""
    columns, problems = [], []
    for place, name in enumerate(names, start=1):
        asked = {one.name: query.get(f"{one.name}-{place}", "").strip() for one in FIELDS}
        entries = {
            key: _meant(key, text) for key, text in asked.items() if text and (public or key not in OF_THE_PRIOR)
        }
        try:
            columns.append(column_from(name, entries))
        except InputError as error:
            columns.append(Column(name))
            problems.append(Problem(name, f"is declared wrongly: {error.problem}", error.cures))
    return Schema(tuple(columns)).adjusted(missing=codes), problems


def _meant(key: str, text: str) -> Any:
    """Return what a field's text means; what means nothing stays text, which the check of the entries refuses."""
    try:
        if key in _LISTS:
            return json.loads(text)
        number = float(text) if key in _NUMBERS else None
    except (ValueError, RecursionError):
        return text
    if number is None:
        return text
    return int(number) if key == "decimals" and number.is_integer() else number


def fields_of(schema: Schema, names: Sequence[str]) -> dict[str, str | list[str]]:
    """Return the fields that declare a schema of these columns: every field of every one, the ticks, the prior.

    Codes for missing values that all columns have stand in the one field for all.
    """
    shared = sorted(set.intersection(*(set(schema.column(name).missing) for name in names)))
    found: dict[str, str | list[str]] = {"codes": ", ".join(map(_text, shared))}
    for place, name in enumerate(names, start=1):
        entries = schema.column(name).entries()
        if entries.get("label") == name:
            del entries["label"]
        if own := [code for code in entries.pop("missing", ()) if code not in shared]:
            entries["missing"] = own
        for one in FIELDS:
            found[f"{one.name}-{place}"] = _text(entries.get(one.name, one.default))
    kept = [name for name in names if name not in schema.left_out]
    found["columns"] = [] if len(kept) == len(names) else kept or [""]
    found["prior"] = "public" if any(schema.column(name).centre is not None for name in kept) else "flat"
    return found


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, list) else repr(value).removesuffix(".0")


def name_problems(names: Sequence[str], every_name: Sequence[str]) -> list[Problem]:
    """Say of every name that cannot be used why; `every_name` of the table, some perhaps twice."""
    found = []
    for name in names:
        try:
            check_names([each for each in every_name if each == name])
        except InputError as error:
            found.append(Problem(name, f"has a name that cannot be used: {error.problem}", ("rename it",)))
    return found


def looks_of(content: pa.Table, held: Any, schema: Schema, trusted: bool) -> list[Look]:
    """Look at each column by itself, once for what is declared of it; its numbers are not kept."""

    def look(name: str) -> Look:
        place = content.column_names.index(name)
        series = nw.from_native(content.column(place), series_only=True).alias(name)
        return replace(look_at_column(series, schema.column(name), trusted=trusted), numbers=np.zeros(0))

    names = dict.fromkeys(content.column_names)
    kinds = {name: (f"look {name}", schema.column(name), trusted) for name in names}
    return [held.get_or_compute(kind, partial(look, name)) for name, kind in kinds.items()]


def kind_in_words(look: Look) -> str:
    """Say what a column is, and how much of it is missing."""
    return look.kind + (f", {counted(look.missing, 'gap')}" if look.missing else "")


def proposed_in_words(look: Look, column: Column) -> str:
    """Say what could be declared of a column of which nothing is; it is for the holder to confirm."""
    if not look.usable or not column.is_plain:
        return ""
    parts = [f"scale {look.scale}"] if look.scale != "as it is" else []
    parts += ["lowest 0"] if look.positive and look.scale not in ("log", "sqrt") else []
    parts += [counted(look.decimals, "decimal")] if look.decimals is not None else []
    return ", ".join(parts)


def declared_in_words(column: Column, codes: Sequence[float]) -> str:
    """Say what a table file has declared that no field shows; `codes` hold for all columns, and are shown."""
    parts = [column.label] if column.label not in ("", column.name) else []
    parts += [f"in {column.unit}"] if column.unit else []
    parts += ["published quantiles"] if column.scale.quantiles else []
    if own := [code for code in column.missing if code not in codes]:
        parts.append(f"{', '.join(f'{code:g}' for code in own)}: no value")
    return "; ".join(parts)
