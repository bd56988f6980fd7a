"""Choosing cells by an expression such as "p == 2 and n in [10, 50]": comparisons only, nothing is executed."""

import ast
import operator
from collections.abc import Sequence
from typing import Any

from allbutone.studies.design import Cell
from allbutone.support.errors import InputError

NAMES = (
    "release", "p", "n", "count", "rows", "structure", "correlation", "distance", "leverage", "lacking_columns",
    "lacking_records",
)  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


def choose(cells: Sequence[Cell], expression: str) -> list[Cell]:
    """Return the cells for which the expression is true; refuse one that none fulfils."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        chosen = [cell for cell in cells if _holds(tree, cell)]
    except (SyntaxError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"the choice of cells {expression!r:.80} cannot be read",
            f"compare {', '.join(NAMES)} with values, as in 'p == 2 and n in [10, 50]'",
        ) from error
    if not chosen:
        raise InputError(f"no cell of the design fulfils {expression!r:.80}", "see the lists of its cells")
    return chosen


def _holds(node: ast.expr, cell: Cell) -> bool:
    if isinstance(node, ast.BoolOp):
        each = (_holds(part, cell) for part in node.values)
        return all(each) if isinstance(node.op, ast.And) else any(each)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _holds(node.operand, cell)
    if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
        values = [_value(part, cell) for part in (node.left, *node.comparators)]
        pairs = zip(node.ops, values, values[1:], strict=False)
        return all(_compare(op, one, two) for op, one, two in pairs)
    raise ValueError(f"{ast.unparse(node)!r} is no comparison")


def _compare(op: ast.cmpop, one: Any, two: Any) -> bool:
    # what a cell does not have, such as the rows of released parameters, is neither smaller nor larger
    if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and (one is None or two is None):
        return False
    return bool(_COMPARE[type(op)](one, two))


def _value(node: ast.expr, cell: Cell) -> Any:
    if isinstance(node, ast.Name):
        if node.id not in NAMES:
            raise ValueError(f"there is no {node.id!r}")
        return getattr(cell, node.id)
    return ast.literal_eval(node)
