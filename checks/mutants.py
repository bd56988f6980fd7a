"""Changes of one place of a module's code that its tests ought to notice.

Signs and operators are exchanged, comparisons take or leave their bound or turn round, numbers grow by one,
conditions are denied, choices exchanged, transpositions, keywords, statements and negations left out. Nothing is
changed in annotations, decorators, imports, and what only words an error.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SWAPS: dict[type, list[type]] = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult],
    ast.Mod: [ast.Mult],
    ast.Pow: [ast.Mult],
    ast.MatMult: [ast.Mult],
    ast.LShift: [ast.RShift],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
}
PAIRS = [("minimum", "maximum"), ("min", "max"), ("any", "all"), ("floor", "ceil"), ("zeros", "ones")]
PAIRS += [(f"{one}_like", f"{other}_like") for one, other in PAIRS[-1:]]
NAMES = (
    dict(PAIRS) | {other: one for one, other in PAIRS} | {"log1p": "log", "abs": "sign", "full_like": "ones_like"}
)
SKIPPED = ("annotation", "returns", "decorator_list", "type_params")
Change = Callable[[], None]


@dataclass(frozen=True)
class Mutant:
    """One change: in which function, in words, and the whole module's code with it."""

    place: str
    words: str
    code: str


def places(source: str) -> list[tuple[int, int]]:
    """Return where a module can be changed, in the order of the text, for `mutant` to do it."""
    nodes = _nodes(ast.parse(source))
    return [(number, turn) for number, (_, node, _) in enumerate(nodes) for turn in range(len(_changes(node)))]


def mutant(source: str, number: int, turn: int) -> Mutant:
    """Return a module's mutant at one of its places."""
    tree = ast.parse(source)
    statement, node, place = _nodes(tree)[number]
    before = ast.unparse(statement)
    _changes(node)[turn]()
    return Mutant(place, _difference(before, ast.unparse(statement)), ast.unparse(tree))


def _nodes(tree: ast.Module) -> list[tuple[Any, Any, str]]:
    """Return (the statement it is part of, a node, the function's name) for all that may be changed."""
    found: list[tuple[Any, Any, str]] = []

    def visit(node: ast.AST, statement: ast.AST, place: str) -> None:
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
            return
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            place = f"{place}.{node.name}".strip(".")
            _mark_second_assignments(node)
        statement = node if isinstance(node, ast.stmt) else statement
        found.append((statement, node, place))
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and name not in SKIPPED:
                    visit(child, statement, place)

    visit(tree, tree, "")
    return found


def _mark_second_assignments(function: ast.AST) -> None:
    """Mark what can be left out although its name is used later: the name has a value already."""
    seen = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            node.again = node.targets[0].id in seen  # type: ignore[attr-defined]
            seen.add(node.targets[0].id)


def _changes(node: Any) -> list[Change]:
    """Return the ways to change one node in place."""
    match node:
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign():
            return [_set(node, "op", new()) for new in SWAPS.get(type(node.op), [])]
        case ast.Compare():
            return [_set(node, "ops", [new(), *node.ops[1:]]) for new in SWAPS.get(type(node.ops[0]), [])]
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            return [_become(node, node.operand)]
        case ast.Constant(value=bool()):
            return [_set(node, "value", not node.value)]
        case ast.Constant(value=int() | float()):
            return [_set(node, "value", node.value + 1 if abs(node.value) < 1e15 else 2 * node.value)]
        case ast.If() | ast.IfExp() | ast.While() if not isinstance(node.test, ast.UnaryOp | ast.Compare):
            return [_set(node, "test", ast.UnaryOp(ast.Not(), node.test))]
        case ast.Break() | ast.Expr(value=ast.Call()):
            return [_become(node, ast.Pass())]
        case ast.Assign() if getattr(node, "again", False):
            return [_become(node, ast.Pass())]
        case ast.Attribute(attr="T" | "mT"):
            return [_become(node, node.value)]
        case ast.Call():
            return _changes_of_call(node)
    return []


def _changes_of_call(call: ast.Call) -> list[Change]:
    left_out = [
        _set(call, "keywords", [each for each in call.keywords if each is not one]) for one in call.keywords
    ]
    called = call.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if name in NAMES:
        left_out.append(_set(called, "attr" if isinstance(called, ast.Attribute) else "id", NAMES[name]))
    if name == "where" and len(call.args) == 3:
        left_out.append(_set(call, "args", [call.args[0], call.args[2], call.args[1]]))
    if name == "swapaxes" and isinstance(called, ast.Attribute) and len(call.args) == 2:
        left_out.append(_become(call, called.value))
    return left_out


def _set(node: Any, field: str, value: Any) -> Change:
    return lambda: setattr(node, field, value)


def _become(node: Any, other: ast.AST) -> Change:
    """Turn a node into another, in place: its parents need not be known."""

    def change() -> None:
        node.__class__ = other.__class__
        node.__dict__ = dict(other.__dict__)

    return change


def _difference(before: str, after: str, around: int = 24) -> str:
    """Return both on one line, without what they share but for some characters around."""
    before, after = (" ".join(text.split()) for text in (before, after))
    first = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    start = max(0, first - around)
    old, new = (text[start : min(len(text), max(len(text) - last, first) + around)] for text in (before, after))
    return f"{old} → {new}"
