"""Table files as text: one drafted after a look, of proposals to confirm, and one of what is declared."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from allbutone.tables.declared.column import CATEGORY, LEFT_OUT, MEASUREMENT
from allbutone.tables.declared.schema import Schema
from allbutone.tables.look import Look

_REMARKS = {
    "scale": "proposed: positive and skewed; confirm from public knowledge",
    "low": "proposed: no such value can be negative; confirm from public knowledge",
}
_LEVELS = "those of this table, public with any release: merge rare ones, declare all that there can be"
_FEW = 'few values: kind = "category" if they are codes of one; decimals = 0 if they are scores'
MANY_GAPS = 0.3  # of a column's values: leaving out the rows would cost too much

_TOP = """\
# A table file: what may be public about each column. Everyone may see it, so it may hold no value, minimum or
# maximum of the confidential table, only what is known from public sources: how a column is measured and recorded,
# label, unit, limits, levels, and for all columns or none a centre and a spread.
#   scale     "as it is", "log", "log(x + 1)", "sqrt", "logit" (needs low and high), "quantiles" (published ones)
#   low, high limits that no released value passes        decimals  to which released values are rounded
#   missing   numbers that stand for no value, [-999]      levels    of a category, in order, ["f", "m"]
#   kind      "measurement", "category", or "left out", with its why
#   tolerance how near to a person's value a guess counts as knowing it, in the column's unit
"""
_PROPOSED = """\
# This is a draft with proposals. Confirm each from public knowledge, never from this table's numbers.
"""


def draft(
    looks: Sequence[Look],
    rows: int,
    others: dict[str, str],
    declared: Schema | None = None,
    labels: Mapping[str, str] | None = None,
) -> str:
    """Return the text of a table file for columns that were looked at; `others`: why further ones are left out.

    What is `declared` already stays; codes of missing values only where there are some. `labels`: what columns are
    called in words, where their file says so.
    """
    parts = [_TOP, _PROPOSED]
    for look in looks:
        known = (declared or Schema()).column(look.name).entries()
        label = (labels or {}).get(look.name, look.name)
        if not look.missing:
            known.pop("missing", None)
        if known.get("kind") == LEFT_OUT:
            parts.append(_column(look.name, known))
        elif why := left_out_because(look, rows) or others.get(look.name, ""):
            parts.append(_column(look.name, {"kind": LEFT_OUT, "why": why}))
        elif look.is_category:
            usual = {"kind": CATEGORY, "label": label, "levels": list(look.levels)}
            parts.append(_column(look.name, usual | known, {} if look.fixed else {"levels": _LEVELS}))
        else:
            usual = {"kind": MEASUREMENT, "label": label, "unit": ""}
            remarks = _REMARKS | ({"kind": _FEW} if look.kind == "few values" else {})
            parts.append(_column(look.name, usual | _proposals(look) | known, remarks))
    return "".join(parts)


def table_file(schema: Schema, found: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the text of a table file that declares this schema; `found`: levels of which none are declared."""
    parts = [_TOP]
    for name, entries in schema.entries()["columns"].items():
        levels = (found or {}).get(name)
        known = {"levels": list(levels)} if levels else {}
        parts.append(_column(name, entries | known, {"levels": _LEVELS} if levels else None))
    return "".join(parts)


def _column(name: str, entries: Mapping[str, Any], remarks: Mapping[str, str] | None = None) -> str:
    """Write the entries of one column; texts, numbers and lists of JSON are those of TOML, too."""
    lines = [f"\n[columns.{json.dumps(name, ensure_ascii=False)}]"]
    for key, value in entries.items():
        remark = f"  # {remarks[key]}" if remarks and key in remarks else ""
        lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}{remark}")
    return "\n".join(lines) + "\n"


def left_out_because(look: Look, rows: int) -> str:
    """Say in a word why a column is left out, if it is; without a number or a value of it."""
    if look.problem:
        return "outside what is declared" if look.kind in ("measurement", "whole numbers") else look.kind
    return "many gaps" if look.missing > MANY_GAPS * rows else ""


def _proposals(look: Look) -> dict[str, Any]:
    found: dict[str, Any] = {} if look.scale == "as it is" else {"scale": look.scale}
    if look.positive and look.scale not in ("log", "sqrt"):
        found["low"] = 0
    return found if look.decimals is None else {**found, "decimals": look.decimals}
