"""Columns that belong together in an engine: formulas and orders as expressions, rows that break them counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import narwhals as nw
import numpy as np

from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.admission import Problem
from allbutone.tables.categories import encode
from allbutone.tables.column import Column
from allbutone.tables.derived import BROKEN, NO_VALUE, ORDER_BROKEN, OTHERWISE, SLACK, lacks
from allbutone.tables.engines.queries import Measured, ask
from allbutone.tables.formula import COMPARISONS, Node, computed_once
from allbutone.tables.look import level_look
from allbutone.tables.schema import Schema

LARGEST_EXPONENT = 700.0  # of e, within the numbers that there are
MOST_FACTORS = 40  # of a whole power that is multiplied out
NOT_THERE = "which no engine computes as it is computed here"
READ = "read the table as a file"
WHY = "a division by zero, or a logarithm of what is not above 0"
Value = Any  # an expression, or a number


def pushed(node: Node, columns: Mapping[str, Any]) -> Value:
    """Return a part of a formula as an expression of an engine, null where it has no value, or refuse it.

    columns: expressions of the columns' values, null where one is missing.
    """
    if node.what == "number":
        return node.number
    if node.what == "column":
        return columns[node.name]
    parts = [pushed(part, columns) for part in node.parts]
    if all(isinstance(part, float) for part in parts):
        return computed_once(node, parts)
    if node.what in _OF_TWO:
        return _OF_TWO[node.what](*parts)
    if node.what in _OF_ONE:
        return _OF_ONE[node.what](parts[0])
    if node.what in COMPARISONS:
        one, other = parts
        told = nw.when(COMPARISONS_THERE[node.what](one, other)).then(1).otherwise(0)  # PostgreSQL: 0.0 is decimal
        return nw.when(_there(one, other)).then(told)
    if node.what in ("min", "max"):
        whole = parts[0]
        for part in parts[1:]:
            first = _expression(whole) < part if node.what == "min" else _expression(whole) > part
            either = nw.when(first).then(_expression(whole)).otherwise(_expression(part))
            whole = nw.when(_there(whole, part)).then(either)
        return whole
    raise InputError(f"a formula holds {node.what}, {NOT_THERE}", READ, "round by decimals instead")


def _expression(value: Value) -> Any:
    return nw.lit(value) if isinstance(value, float) else value


def _there(*values: Value) -> Any:
    """Say where none of these is missing."""
    present = [~value.is_null() for value in values if not isinstance(value, float)]
    return nw.all_horizontal(*present, ignore_nulls=False)


def _divided(one: Value, other: Value) -> Value:
    if isinstance(other, float):
        return one / other if other else one * np.nan
    return nw.when(other != 0).then(_expression(one) / other)


def _to_power(base: Value, exponent: Value) -> Value:
    if not isinstance(exponent, float):
        if not isinstance(base, float) or base <= 0:
            raise InputError(f"a formula has a column as the power of a column, {NOT_THERE}", READ)
        return _exp(exponent * float(np.log(base)))
    size = abs(exponent)
    if exponent == round(exponent):
        if size > MOST_FACTORS:
            raise InputError(f"a formula has a power above {MOST_FACTORS}, {NOT_THERE}", READ)
        power = base * 0.0 + 1.0
        for _ in range(int(size)):
            power = power * base
    else:
        power = nw.when(base > 0).then(_exp(_log(base) * size))
        power = nw.when(base == 0).then(nw.lit(0.0)).otherwise(power)
    return _divided(1.0, power) if exponent < 0 else power


def _log(value: Any) -> Any:
    # an engine may refuse the logarithm of a negative number, so it must not see one
    return nw.when(value > 0).then(value).log()


def _exp(value: Any) -> Any:
    return nw.when(value < LARGEST_EXPONENT).then(value).exp()


_OF_TWO: dict[str, Callable[[Value, Value], Value]] = {
    "+": lambda a, b: _expression(a) + b, "-": lambda a, b: _expression(a) - b,
    "*": lambda a, b: _expression(a) * b, "/": _divided, "**": _to_power,
}  # fmt: skip
_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "log": _log, "log2": lambda a: _log(a) / float(np.log(2.0)), "log10": lambda a: _log(a) / float(np.log(10.0)),
    "exp": _exp, "sqrt": lambda a: nw.when(a >= 0).then(a).sqrt(), "abs": lambda a: a.abs(),
}  # fmt: skip
COMPARISONS_THERE: dict[str, Callable[[Value, Value], Any]] = {
    "<": lambda a, b: _expression(a) < b, "<=": lambda a, b: _expression(a) <= b,
    ">": lambda a, b: _expression(a) > b, ">=": lambda a, b: _expression(a) >= b,
    "==": lambda a, b: _expression(a) == b, "!=": lambda a, b: _expression(a) != b,
}  # fmt: skip


def derived_there(schema: Schema, columns: Mapping[str, Any], *, exact: bool = False) -> dict[str, Any]:
    """Return derived columns as expressions: numbers, rounded as declared unless `exact`, or level numbers."""
    derived, values = dict[str, Any](), dict(columns)
    for column in schema.derived:
        number = pushed(column.formula.root, values)
        if column.cut:
            number = _group(column.cut, number)
        if column.has_levels:
            derived[column.name] = number
            continue
        derived[column.name] = number if exact else _rounded(column, number)
        values[column.name] = derived[column.name]
    return derived


def _group(cut: Sequence[float], number: Any) -> Any:
    """Return the number of the group that a value is in."""
    place: Any = nw.lit(0)  # whole, as above
    for start in cut:
        place = place + nw.when(number >= start).then(1).otherwise(0)
    return nw.when(~number.is_null()).then(place)


def _rounded(column: Column, number: Any) -> Any:
    if column.heaps is not None:
        return number  # to which of its grids is told by digits; whoever computes further has half a step's slack
    if column.decimals is None:
        return number
    scale = 10.0**column.decimals
    return (number * scale).round(0) / scale


@dataclass(frozen=True)
class Relations:
    """What is declared of columns that belong together, and the measurements of a table in its engine."""

    frame: nw.LazyFrame[Any]
    kinds: Mapping[str, Any]
    schema: Schema
    derived: tuple[Column, ...]
    measured: Mapping[str, Measured]
    categories: frozenset[str]

    def problems(self) -> list[Problem]:
        """Say which derived columns lack what they need, and in how many rows which are contradicted."""
        found, values = list[Problem](), {name: each.natural for name, each in self.measured.items()}
        wanted, told = list[Any](), list[tuple[Column, str]]()
        for column in self.derived:
            absent = [name for name in column.formula.columns if name not in values]
            if absent:
                words = lacks(absent, self.categories, list(values))
                found.append(Problem(column.name, words, (OTHERWISE,)))
                continue
            try:
                [number] = derived_there(replace(self.schema, derived=(column,)), values).values()
            except InputError as error:
                found.append(Problem(column.name, error.problem, tuple(map(str, error.cures))))
                continue
            recorded = column.name in self.kinds
            if recorded and column.has_levels:
                found += self._levels(column, values)
            elif recorded and not self.kinds[column.name].is_numeric():
                found.append(Problem(column.name, f"is not numeric ({self.kinds[column.name]})", ("correct it",)))
            elif recorded:
                own = Measured(column.name, Column(column.name, missing=column.missing)).natural
                low, high = self._between(column, values)
                needed = [~values[name].is_null() for name in column.formula.columns]
                lost = nw.all_horizontal(~own.is_null(), *needed, low.is_null(), ignore_nulls=False)
                wanted.append(_count(lost, own))
                told.append((column, NO_VALUE))
                wanted += [] if column.replaces else [_count((own < low) | (own > high), own)]
                told += [] if column.replaces else [(column, "")]
            if not column.has_levels:
                values[column.name] = number
        for each in self.measured.values():
            if each.declared.order is None:
                continue
            if absent := [name for name in each.declared.order.columns if name not in self.measured]:
                found.append(_endless(each.declared, absent[0]))
                continue
            order = Order.of(each.declared, self.measured)
            wanted += [order.broken, order.without_ends]
            told += [(order.column, "order"), (order.column, "ends")]
        counts = self._answer(wanted)
        return found + [
            problem for count, each in zip(counts, told, strict=True) if count and (problem := _told(count, *each))
        ]

    def _answer(self, wanted: Sequence[Any]) -> list[int]:
        """Count the rows of several kinds, in one query."""
        if not wanted:
            return []
        names = [f"n{place}" for place in range(len(wanted))]
        marked = self.frame.select(*(each.alias(name) for name, each in zip(names, wanted, strict=True)))
        answer = ask(marked.select(*(nw.col(name).count().alias(name) for name in names)))
        return [int(answer[name][0].as_py()) for name in names]

    def _between(self, column: Column, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return between which values a formula lies, as `derived.between` does for a table that is here."""
        root = column.formula.root
        exact = pushed(root, values)
        reach = nw.when(exact.abs() > 1).then(exact.abs()).otherwise(1.0) * SLACK
        for name in column.formula.columns:
            half = 0.5 * self.schema.column(name).coarsest if name in self.measured else 0.0
            if not half:
                continue
            ends = [pushed(root, {**values, name: values[name] + sign * half}) for sign in (-1.0, 1.0)]
            off = nw.max_horizontal(*((end - exact).abs() for end in ends))
            reach = reach + nw.when(~off.is_null()).then(off).otherwise(0.0)
        own = 0.5 * column.coarsest
        return exact - reach - own, exact + reach + own

    def _levels(self, column: Column, values: Mapping[str, Any]) -> list[Problem]:
        """Compare the levels that are recorded with those computed: the engine counts each pair of them."""
        number = pushed(column.formula.root, values)
        reach = nw.when(number.abs() > 1).then(number.abs()).otherwise(1.0) * SLACK
        ends = [_group(column.cut, number + sign * reach) if column.cut else number for sign in (-1.0, 1.0)]
        pairs = self.frame.select(
            nw.col(column.name).alias("level"),
            *(end.alias(name) for name, end in zip(("low", "high"), ends, strict=True)),
        )
        answer = ask(pairs.group_by("level", "low", "high").agg(nw.len().alias("n")).head(1000))
        frame = nw.from_native(answer, eager_only=True)
        rows = answer["n"].to_numpy().astype(np.float64)
        codes, levels = encode(frame["level"], column.missing)
        look = level_look(codes, levels, frame["level"].dtype, column.as_released, rows)
        if look.problem:
            return [Problem(column.name, look.problem, look.cures)]
        low, high = (
            np.array([np.nan if each is None else float(each) for each in answer[name].to_pylist()])
            for name in ("low", "high")
        )
        off = (look.codes >= 0) & ((look.codes < low) | (look.codes > high))
        count = int(rows[off].sum())
        return [_told(count, column, "")] if count and not column.replaces else []


@dataclass(frozen=True)
class Order:
    """An ordered column in an engine: what marks the rows that break the order, or where an end is missing."""

    column: Column
    broken: Any
    without_ends: Any

    @classmethod
    def of(cls, column: Column, measured: Mapping[str, Measured]) -> "Order":
        """Write the order as expressions."""
        order, value = column.order, measured[column.name].natural
        assert order is not None
        ties = column.finest > 0 if order.two_sided else column.scale.domain[0] < 0
        off, lacking = [], []
        for end, below in ((order.low, True), (order.high, False)):
            if end is None:
                continue
            other = measured[end].natural if isinstance(end, str) else nw.lit(float(end))
            beyond = (
                (value < other if ties else value <= other)
                if below
                else (value > other if ties else value >= other)
            )
            off.append(beyond)
            lacking += [other.is_null()] if isinstance(end, str) else []
        any_off = off[0] | off[1] if len(off) > 1 else off[0]
        any_lacking = lacking[0] | lacking[1] if len(lacking) > 1 else lacking[0]
        return cls(column, _count(any_off, value), _count(any_lacking & ~value.is_null(), value))


def _endless(column: Column, end: str) -> Problem:
    words = (
        f"lies {column.order.in_words if column.order else ''}, and {end!r} cannot be used, or is not in the table"
    )
    return Problem(column.name, words, ("leave it out, too", "declare it without that order"))


def _count(flag: Any, value: Any) -> Any:
    """Mark rows: the value stays where they are flagged, so that what is there can be counted."""
    return nw.when(flag).then(nw.when(~value.is_null()).then(value).otherwise(0.0))


def _told(count: int, column: Column, what: str) -> Problem:
    rows = counted(count, "row")
    if what == NO_VALUE:
        return Problem(column.name, f"{NO_VALUE} {rows} ({WHY})", BROKEN[:1])
    if what == "order" and column.order is not None:
        return Problem(column.name, f"is not {column.order.in_words} in {rows}", ORDER_BROKEN)
    if what == "ends":
        words = f"is there in {rows} where a column at its end is missing"
        return Problem(column.name, words, ("leave those rows out, or declare it without that order",))
    return Problem(column.name, f"is not {column.derived} in {rows}", BROKEN)


def spread_there(frame: nw.LazyFrame[Any], found: Mapping[str, Any]) -> dict[str, tuple[int, float, float]]:
    """Return of expressions how many values there are, their mean and standard deviation, in two queries."""
    if not found:
        return {}
    names = [f"v{place}" for place in range(len(found))]
    frame = frame.select(*(each.alias(name) for name, each in zip(names, found.values(), strict=True)))
    answer = ask(frame.select(*(
        part.alias(f"{kind}{name}")
        for name in names
        for kind, part in (("n", nw.col(name).count()), ("m", nw.col(name).mean()))
    ))).to_pylist()[0]  # fmt: skip
    means = [float(answer[f"m{name}"]) for name in names]
    apart = frame.select(
        *(
            ((nw.col(name) - mean) * (nw.col(name) - mean)).alias(name)
            for name, mean in zip(names, means, strict=True)
        )
    )
    squares = ask(apart.select(*(nw.col(name).sum().alias(name) for name in names))).to_pylist()[0]
    counts = [int(answer[f"n{name}"]) for name in names]
    spreads = [
        float(np.sqrt(float(squares[name]) / max(count - 1, 1))) for name, count in zip(names, counts, strict=True)
    ]
    if not all(map(isfinite, (*means, *spreads))):
        raise InputError("the table changed while it was added up, or its values are too large", "try again")
    return dict(zip(found, zip(counts, means, spreads, strict=True), strict=True))
