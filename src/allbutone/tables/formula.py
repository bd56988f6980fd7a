"""Formulas of a table file: arithmetic on columns, read into a tree that is walked and never run as a program."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from allbutone.support.errors import InputError

Values = Float[np.ndarray, "*rows"] | Bool[np.ndarray, "*rows"]

LONGEST = 1000  # characters of a formula
DEEPEST = 40  # parts within parts
MOST_SIGNS = 100  # of arithmetic: each may be a part within another
GRAMMAR = (
    "a formula has numbers, columns, + - * / ** and brackets, log, log2, log10, exp, sqrt, abs, min, max, "
    "round(x) or round(x, decimals), and one comparison (<, <=, >, >=, ==, !=); a column whose name has other "
    "letters than those of a word stands in backticks"
)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d][\w.]*)|`(?P<quoted>[^`]*)`"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/^()<>,−×÷]))"
)
_SAME = {"−": "-", "×": "*", "÷": "/", "^": "**"}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power,
}  # fmt: skip
_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs,
}  # fmt: skip
_OF_SEVERAL: dict[str, Callable[[Any, Any], Any]] = {"min": np.minimum, "max": np.maximum}
FUNCTIONS = (*_OF_ONE, *_OF_SEVERAL, "round")


@dataclass(frozen=True)
class Node:
    """A part of a formula: a number, a column by its name, or what is done to further parts."""

    what: str  # "number", "column", or the sign or the name of what is done
    parts: tuple["Node", ...] = ()
    number: float = 0.0
    name: str = ""


@dataclass(frozen=True)
class Formula:
    """A formula as it was written, and its tree.

    >>> Formula.of("weight / (height / 100) ** 2").columns
    ('weight', 'height')
    """

    text: str
    root: Node

    @classmethod
    def of(cls, text: Any) -> "Formula":
        """Read a formula, or say what is wrong with it and where."""
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise InputError(f"a formula is a text, got {text!r:.60}", GRAMMAR)
        return cls(str(text), _Reader(str(text)).whole())

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs, each once, in the order in which they stand."""
        return tuple(dict.fromkeys(names_in(self.root)))

    @property
    def compares(self) -> bool:
        """Whether it says yes or no of a row, instead of a number."""
        return self.root.what in COMPARISONS

    def renamed(self, names: Mapping[str, str]) -> str:
        """Return the formula as it is written of other columns, by the names that these have now."""

        def one(match: re.Match[str]) -> str:
            kind, text = match.lastgroup or "", match[0]
            is_function = kind == "name" and self.text[match.end() :].lstrip().startswith("(")
            if is_function or kind not in ("name", "quoted") or match[kind] not in names:
                return text
            space = text[: len(text) - len(text.lstrip())]
            return f"{space}{quoted(names[match[kind]])}"

        return _TOKEN.sub(one, self.text)

    def of_values(self, values: Mapping[str, Float[np.ndarray, "*rows"]]) -> Values:
        """Return what it says of each row, 1 or 0 if it compares; NaN where one is missing, or it has none."""
        with np.errstate(all="ignore"):
            shaped = _walked(self.root, values)
        return np.broadcast_to(
            shaped, np.broadcast_shapes(*(each.shape for each in values.values()), shaped.shape)
        )


def names_in(node: Node) -> list[str]:
    """Return the columns that a part of a formula names."""
    return [node.name] if node.what == "column" else [name for part in node.parts for name in names_in(part)]


def _walked(node: Node, values: Mapping[str, np.ndarray]) -> np.ndarray:
    if node.what == "number":
        return np.asarray(node.number)
    if node.what == "column":
        return np.asarray(values[node.name])
    parts = [_walked(part, values) for part in node.parts]
    numbers = np.asarray(_done(node, parts), dtype=np.float64)
    # at every step: a division by zero is nothing that could be compared, taken to a power or divided by again
    lost = ~np.isfinite(numbers)
    for part in parts:
        lost = lost | np.isnan(part)
    return np.where(lost, np.nan, numbers)


def _done(node: Node, parts: Sequence[np.ndarray]) -> Any:
    if node.what in COMPARISONS:
        return COMPARISONS[node.what](*parts)
    if node.what in _ARITHMETIC:
        return _ARITHMETIC[node.what](*parts)
    if node.what in _OF_ONE:
        return _OF_ONE[node.what](parts[0])
    if node.what == "round":
        return np.round(parts[0], int(node.number)) + 0.0
    result = parts[0]
    for part in parts[1:]:
        result = _OF_SEVERAL[node.what](result, part)
    return result


def computed_once(node: Node, parts: Sequence[float]) -> float:
    """Return what a part of a formula is of plain numbers; NaN where it has no value."""
    with np.errstate(all="ignore"):
        number = float(_done(node, [np.asarray(part) for part in parts]))
    return number if isfinite(number) else float("nan")


class _Reader:
    """Reads a formula from left to right: a comparison of sums of products of powers."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise InputError(f"a formula has at most {LONGEST} characters, this one {len(text)}", "shorten it")
        self.text, self.depth, self.at = text, 0, 0
        self.tokens = self._tokens(text)
        signs = sum(word in (*_ARITHMETIC, ",") for kind, word in self.tokens if kind == "sign")
        if signs > MOST_SIGNS:
            raise InputError(
                f"a formula has at most {MOST_SIGNS} signs of arithmetic, this one {signs}",
                "compute a part of it in a derived column of its own",
            )

    def _tokens(self, text: str) -> list[tuple[str, str]]:
        tokens, place = [], 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                rest = text[place:].strip()
                raise self._wrong(f"{rest[:20]!r} cannot be read")
            kind = match.lastgroup or ""
            word = match[kind]
            tokens.append((kind, _SAME.get(word, word)))
            place = match.end()
        return tokens

    def _wrong(self, what: str) -> InputError:
        return InputError(f"the formula {self.text!r:.80} cannot be read: {what}", GRAMMAR)

    @property
    def next(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def take(self, *signs: str) -> str:
        """Return the next sign, and go on, if it is one of these; else nothing."""
        kind, word = self.next
        if kind != "sign" or word not in signs:
            return ""
        self.at += 1
        return word

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise self._wrong(f"{sign!r} is missing before {self.next[1]!r}" if self.next[1] else f"no {sign!r}")

    def whole(self) -> Node:
        node = self.sum()
        if sign := self.take(*COMPARISONS):
            node = Node(sign, (node, self.sum()))
        if self.next[0] != "end":
            raise self._wrong(f"there is something left at {self.next[1]!r}")
        return node

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._wrong(f"more than {DEEPEST} brackets within one another")
        node = self.product()
        while sign := self.take("+", "-"):
            node = Node(sign, (node, self.product()))
        self.depth -= 1
        return node

    def product(self) -> Node:
        node = self.signed()
        while sign := self.take("*", "/"):
            node = Node(sign, (node, self.signed()))
        return node

    def signed(self) -> Node:
        minus = False
        while sign := self.take("-", "+"):
            minus ^= sign == "-"
        node = self.power()
        if not minus:
            return node
        if node.what == "number":
            return Node("number", number=-node.number)
        return Node("-", (Node("number"), node))

    def power(self) -> Node:
        node = self.single()
        if self.take("**"):
            self.depth += 1
            if self.depth > DEEPEST:
                raise self._wrong(f"more than {DEEPEST} powers of one another")
            node = Node("**", (node, self.signed()))
            self.depth -= 1
        return node

    def single(self) -> Node:
        kind, word = self.next
        self.at += 1
        if kind == "number":
            if not isfinite(number := float(word)):
                raise self._wrong(f"{word!r:.20} is larger than any number here")
            return Node("number", number=number)
        if kind == "name" and self.next == ("sign", "("):
            return self.call(word)
        if kind in ("name", "quoted"):
            return Node("column", name=word)
        if (kind, word) == ("sign", "("):
            node = self.sum()
            self.need(")")
            return node
        raise self._wrong(f"a number or a column is missing before {word!r}" if word else "it ends too early")

    def call(self, name: str) -> Node:
        if name not in FUNCTIONS:
            raise self._wrong(f"there is no function {name!r}")
        self.need("(")
        parts = [self.sum()]
        while self.take(","):
            parts.append(self.sum())
        self.need(")")
        if name == "round":
            digits = parts[1:] or [Node("number")]
            places = digits[0].number
            if len(digits) > 1 or digits[0].what != "number" or places != round(places) or abs(places) > 12:
                raise self._wrong("round takes a value and a whole number of decimals")
            return Node(name, (parts[0],), number=places)
        if len(parts) > 1 and name in _OF_ONE:
            raise self._wrong(f"{name} takes one value")
        return Node(name, tuple(parts))


def quoted(name: str) -> str:
    """Return a column's name as a formula has it."""
    plain = re.fullmatch(r"[^\W\d][\w.]*", name) and name not in FUNCTIONS
    return name if plain else f"`{name}`"


def in_order(needed: Mapping[str, Sequence[str]]) -> list[str]:
    """Return names so that each comes after all that it needs among them; refuse what goes round in a circle."""
    found: list[str] = []
    while len(found) < len(needed):
        ready = [
            name for name, each in needed.items()
            if name not in found and all(other in found or other not in needed for other in each)
        ]  # fmt: skip
        if not ready:
            circle = ", ".join(repr(name) for name in needed if name not in found)
            raise InputError(f"columns need one another in a circle: {circle}", "declare one of them otherwise")
        found += ready
    return found
