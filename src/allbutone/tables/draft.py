"""A table file drafted after one look: proposals to confirm, and no value of the table."""

import json
from collections.abc import Sequence

from allbutone.tables.look import Look

MANY_GAPS = 0.3  # of a column's values: leaving out the rows would cost too much

_TOP = """\
# A table file: what may be public about each column. Everyone may see it, so it holds no value, minimum or maximum
# of the confidential table, only proposals. Confirm each from public knowledge (how the column is measured and
# recorded), never from this table's numbers, and fill in what is published: label, unit, limits, and for all
# columns or none a centre and a spread.
#   scale     "as it is", "log", "log(x + 1)", "sqrt", "logit" (needs low and high), "quantiles" (published ones)
#   low, high limits that no released value passes        decimals  to which released values are rounded
#   missing   numbers that stand for no value, [-999]      kind      "measurement" or "left out", with its why
"""


def draft(looks: Sequence[Look], rows: int, others: dict[str, str]) -> str:
    """Return the text of a table file for columns that were looked at; `others`: why further ones are left out."""
    parts = [_TOP]
    for look in looks:
        why = left_out_because(look, rows) or others.get(look.name, "")
        lines = [f"\n[columns.{json.dumps(look.name, ensure_ascii=False)}]"]
        if why:
            lines += ['kind = "left out"', f"why = {json.dumps(why, ensure_ascii=False)}"]
        else:
            lines += ['kind = "measurement"', f"label = {json.dumps(look.name, ensure_ascii=False)}", 'unit = ""']
            lines += _proposals(look)
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def left_out_because(look: Look, rows: int) -> str:
    """Say in a word why a column is left out, if it is; without a number or a value of it."""
    if look.problem:
        return "outside what is declared" if look.kind in ("measurement", "whole numbers") else look.kind
    return "many gaps" if look.missing > MANY_GAPS * rows else ""


def _proposals(look: Look) -> list[str]:
    lines = []
    if look.kind == "few values":
        lines.append("# few values: leave it out if they are codes of a category; decimals = 0 if they are scores")
    if look.scale != "as it is":
        lines.append(f'scale = "{look.scale}"  # proposed: positive and skewed; confirm from public knowledge')
    if look.positive and look.scale not in ("log", "sqrt"):
        lines.append("low = 0  # proposed: no such value can be negative; confirm from public knowledge")
    if look.decimals is not None:
        lines.append(f"decimals = {look.decimals}")
    return lines
