"""Simulation designs: the cells of a study, how they are chosen, and what was published about them."""

import ast
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.who import Reading
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.model.niw import NIW
from allbutone.model.prior import prior_from
from allbutone.support.arrays import array_namespace, as_array, solve_rows
from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.safe_io import read_text

# What was published about the cells of a design, beside ours. The numbers are kept as they were printed, in a CSV
# file beside the design, so that they can be shown in the paper's own form and their rounding is known.


PLACE = ("release", "p", "n", "count", "rows")
DISTANCES = ("median", "min", "max")  # of the distance; beside them the mean record: mean_x1, mean_x2, …
AGAIN = 1000  # replicates behind each published number
MISS = 0.005  # chance that a number of another 1000 lies beyond either end of its interval
_Z = 2.576
_TINY = 1e-12  # what rounding may take from a chance
_PUBLISHED = "published_"
_NUMBER = re.compile(r"mean_x[1-9][0-9]{0,3}|median|min|max")
_SIDE = "{}_from", "{}_to"
TYPICAL = {"min": "min_typical", "max": "max_typical"}  # a row's extremes that compare with those of 1000

Place = tuple[Any, ...]
Printed = dict[str, str]


def read_published(path: Path) -> dict[Place, Printed]:
    """Read printed numbers by release, p, n, count and rows (empty for parameters).

    Columns: mean_x1, mean_x2, … (the mean record), median, min and max (of the distance), as many of them as were
    printed, and `table`, the name of the table, if it has one.
    """
    cure = f"give a CSV file with the columns {', '.join(PLACE)} and some of mean_x1, …, {', '.join(DISTANCES)}"
    lines = csv.DictReader(io.StringIO(read_text(path, cure), newline=""), strict=True)
    found = {}
    try:
        for line in lines:
            rows = int(line["rows"]) if line["rows"] else None
            place = (line["release"], int(line["p"]), int(line["n"]), int(line["count"]), rows)
            numbers = {name: text for name, text in line.items() if name and _NUMBER.fullmatch(name)}
            if not numbers:
                raise KeyError("no column of printed numbers")
            if any(not np.isfinite(float(text)) for text in numbers.values()):
                raise ValueError("a number that is not finite")
            found[place] = numbers | {"table": line.get("table") or ""}
    # a column that is not there, a line that ends before it, text that is no number, a quote that does not end
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(
            f"cannot be read ({error!s:.80})", cure, where=f"{path.name}, line {lines.line_num}"
        ) from error
    return found


def another_thousand(
    candidate: Float[np.ndarray, "r p"], distance: Float[np.ndarray, " r"], again: int = AGAIN
) -> dict[str, float | None]:
    """Return where the mean record, median, minimum and maximum of another 1000 replicates lie: 99 % intervals.

    With R replicates of ours and m = `again` theirs. A mean: ours ± 2.576·SD·√(1/R + 1/m). A median: between our
    order statistics R/2 ∓ 2.576·½·√(R + R²/m). A minimum: the chance that theirs lies beyond our k-th smallest is
    Πᵢ (R − i)/(R + m − i), i < k, whatever the distribution; a maximum likewise. An end that our replicates do
    not reach is None: the far end of an extreme needs 199,000 of them. `min_typical`, `max_typical`: where half
    of the extremes of 1000 lie on either side, to stand beside a printed one whatever the number of replicates.
    """
    count = len(distance)
    middle = candidate.mean(axis=0)
    half = _Z * candidate.std(axis=0) * np.sqrt(1 / count + 1 / again)
    ends: dict[str, tuple[Any, Any]] = {
        f"mean_x{at}": (centre - width, centre + width)
        for at, (centre, width) in enumerate(zip(middle, half, strict=True), 1)
    }
    ordered = np.sort(distance)
    step = _Z / 2 * np.sqrt(count + count**2 / again)
    first, last = round(count / 2 - step), round(count / 2 + step)
    ends["median"] = (ordered[first], ordered[last]) if first >= 0 and last < count else (None, None)
    low, typical_min, high = _smallest(ordered, again)
    ends["min"] = low, high
    high, typical_max, low = (None if end is None else -end for end in _smallest(-ordered[::-1], again))
    ends["max"] = low, high
    every = {side.format(name): end for name, pair in ends.items() for side, end in zip(_SIDE, pair, strict=True)}
    every |= {TYPICAL["min"]: typical_min, TYPICAL["max"]: typical_max}
    return {name: None if end is None else float(end) for name, end in every.items()}


def _smallest(ordered: Float[np.ndarray, " r"], again: int) -> tuple[Any, Any, Any]:
    """Return the low end, the middle and the high end of the smallest of another 1000; None where ours end."""
    below, middle, above = _places(len(ordered), again)
    low, high = ordered[below - 1] if below else None, ordered[above] if above < len(ordered) else None
    return low, ordered[max(middle - 1, 0)], high


@lru_cache
def _places(count: int, again: int) -> tuple[int, ...]:
    """Return how many of our smallest theirs exceeds with a chance of 0.995, 0.5 and 0.005."""
    place = np.arange(count)
    beyond = np.cumprod((count - place) / (count + again - place))  # chance that theirs exceeds our (place + 1)-th
    return tuple(int(np.sum(beyond > chance - _TINY)) for chance in (1 - MISS, 0.5, MISS))


def beside(row: Mapping[str, Any], printed: Printed | None) -> dict[str, Any]:
    """Return what stands beside a cell's row: each printed number, a verdict on the cell, and where it differs."""
    judged = {} if printed is None else verdicts(row, printed)
    known = bool(judged) and None not in judged.values()
    differing = [name for name, verdict in judged.items() if verdict == "differs"]
    numbers = {} if printed is None else {f"{_PUBLISHED}{name}": float(printed[name]) for name in judged}
    return {
        "published_median": None,  # every table of cells has this column
        **numbers,
        "verdict": ("differs" if differing else "agrees") if known else None,
        "differs_in": " ".join(differing) if known else None,
    }


def verdicts(row: Mapping[str, Any], printed: Printed) -> dict[str, str | None]:
    """Say of each printed number whether it agrees with ours.

    It does if it lies, give or take half a unit of its last printed digit, in the 99 % interval for another 1000
    replicates; None where too few replicates have no such interval.
    """
    judged: dict[str, str | None] = {}
    for name, text in printed.items():
        low, high = (row.get(side.format(name)) for side in _SIDE)
        if name == "table":
            continue
        # R prints 13.0 as 13: one digit was meant
        allowed = 0.5 * 10.0 ** -max(1, len(text.partition(".")[2])) + 1e-9
        below, above = (
            low is not None and float(text) < low - allowed,
            high is not None and float(text) > high + allowed,
        )
        judged[name] = None if low is high is None else "differs" if below or above else "agrees"
    return judged


def agreement(rows: Iterable[Mapping[str, Any]]) -> str:
    """Say in two sentences how many of the published numbers agree with ours."""
    every, differing = Counter[str](), Counter[str]()
    for row in rows:
        if row["verdict"]:
            numbers = (name for name, value in row.items() if name.startswith(_PUBLISHED) and value is not None)
            every.update(_kind(name.removeprefix(_PUBLISHED)) for name in numbers)
            differing.update(map(_kind, row["differs_in"].split()))
    if not every:
        return "Nothing was published about these cells."
    parts = [f"{kind} {every[kind] - differing[kind]} of {every[kind]}" for kind in every]
    return (
        f"Of {every.total()} published numbers {every.total() - differing.total()} agree with ours (lie in the "
        f"99 % interval for another 1000 replicates, rounding allowed for), {differing.total()} differ. Agreeing: "
        f"{', '.join(parts)}."
    )


def _kind(name: str) -> str:
    return "mean record" if name.startswith("mean_x") else {"min": "minimum", "max": "maximum"}.get(name, name)


# Simulation designs: the cells of a study, each a way to draw tables, place a target and release something.


Array = Any

STRUCTURES = ("independent", "equicorrelated", "ar1", "block", "low-rank")


@dataclass(frozen=True)
class Cell:
    """One setting of a study: how tables are drawn, where the target lies, what is released.

    The n − 1 others are drawn from N(mean, covariance). The target is a fixed vector, or lies at a Mahalanobis
    distance from the others' distribution, or at a leverage in each drawn table, in a direction. The adversary
    lacks the last `lacking_columns` columns of everyone, and `lacking_records` of the others. An adversary's own
    prior is of the record alone, or what they take the release to be made with, too (`reading`: "mechanism").
    """

    release: str
    p: int
    n: int
    count: int
    rows: int | None
    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    structure: str
    correlation: float
    target: tuple[float, ...] | None
    distance: float | None
    leverage: float | None
    direction: tuple[float, ...]
    prior: dict[str, Any]
    adversary_prior: dict[str, Any] | None
    lacking_columns: int = 0
    lacking_records: int = 0
    reading: Reading = "record"

    @cached_property
    def key(self) -> str:
        """All that the cell is, in one line: its random numbers derive from it and the seed."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        # as before there was anything to lack or to read otherwise: the same cell, the same numbers
        for name, usual in (("lacking_columns", 0), ("lacking_records", 0), ("reading", "record")):
            if held[name] == usual:
                del held[name]
        return json.dumps(held, sort_keys=True)

    @property
    def known(self) -> list[int]:
        """The columns that the adversary has."""
        return list(range(self.p - self.lacking_columns))

    @property
    def lacking(self) -> str:
        """What the adversary lacks besides the target, in words; nothing where that is nothing."""
        both = ((self.lacking_columns, "column"), (self.lacking_records, "record"))
        return " and ".join(counted(count, noun) for count, noun in both if count)

    @property
    def position(self) -> str:
        """Where the target lies, in words."""
        if self.target is not None:
            return f"at ({', '.join(f'{value:g}' for value in self.target)})"
        return f"at distance {self.distance:g}" if self.distance is not None else f"at leverage {self.leverage:g}"

    @cached_property
    def law(self) -> ExposureLaw:
        """What risk depends on in this cell besides the leverage, and its closed form.

        It holds where only columns are lacking; where records are, it is that of an adversary who lacks none.
        """
        return ExposureLaw.of(self.prior_of(self.prior).marginal(self.known), self.n, self.rows)

    def prior_of(self, entries: dict[str, Any]) -> NIW:
        """Build a prior for this cell's columns."""
        return _prior(json.dumps(entries, sort_keys=True, default=str), self.p)

    @cached_property
    def fixed_target(self) -> Float[np.ndarray, " p"] | None:
        """The target record, unless it depends on the table that is drawn."""
        if self.target is not None:
            return np.array(self.target)
        if self.distance is None:
            return None
        ray = np.array(self.direction)
        length = np.sqrt(ray @ np.linalg.solve(np.array(self.covariance), ray))
        return np.array(self.mean) + self.distance / length * ray

    def targets(self, given_others: NIW) -> Float[Array, "r p"]:
        """Return the target record of each table whose model, given the others, is this."""
        xp, like = array_namespace(given_others.mean), given_others.mean
        if self.fixed_target is not None:
            return xp.broadcast_to(as_array(self.fixed_target, like=like), like.shape)
        ray = as_array(np.array(self.direction), like=like)
        white = solve_rows(given_others.root, xp.broadcast_to(ray, like.shape))
        inflation = given_others.mean_weight / (given_others.mean_weight + 1)
        scale = xp.sqrt((self.leverage or 0.0) / (inflation * xp.sum(white * white, axis=-1)))
        return given_others.mean + scale[:, None] * ray


@lru_cache
def _prior(entries: str, p: int) -> NIW:
    # the cells of a study share a few
    return prior_from(json.loads(entries), [f"x{place}" for place in range(1, p + 1)])


@dataclass(frozen=True)
class Design:
    """A study: its cells in order, the replicates of each, and what was published about them, if anything."""

    title: str
    text: str
    cells: tuple[Cell, ...]
    replicates: int
    seed: int
    solver: str
    published: dict[Place, Printed]
    published_file: Path | None

    def number(self, cell: Cell) -> int:
        """Return the cell's place in the design, from 1."""
        return self._numbers[cell.key]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {cell.key: number for number, cell in enumerate(self.cells, 1)}

    def printed(self, cell: Cell) -> Printed | None:
        """Return the numbers that were published about this cell, as they were printed."""
        return None if cell.lacking else self.published.get(place_of(cell))


def place_of(cell: Cell) -> Place:
    """Return what a published number is found by."""
    return cell.release, cell.p, cell.n, cell.count, cell.rows


def correlations(structure: str, p: int, strength: float, rank: int) -> Float[np.ndarray, "p p"]:
    """Return the correlation matrix of a structure.

    equicorrelated: ρ everywhere; ar1: ρ^|i − j|; block: ρ within the first and within the second half of the
    columns, 0 between them; low-rank: ρ·FFᵀ + (1 − ρ)·I, where the rows of F, the columns'
    loadings on `rank` factors, have length 1 and turn slowly from one column to the next.
    """
    eye, place = np.eye(p), np.arange(p)
    if structure == "equicorrelated":
        return (1 - strength) * eye + strength
    if structure == "ar1":
        return strength ** np.abs(place[:, None] - place).astype(float) if strength else eye
    if structure == "block":
        half = place < (p + 1) // 2
        return (1 - strength) * eye + strength * (half[:, None] == half)
    if structure == "low-rank":
        loadings = np.cos(np.pi * (place[:, None] + 0.5) * np.arange(rank) / p)
        loadings /= np.linalg.norm(loadings, axis=1, keepdims=True)
        shared = loadings @ loadings.T
        return strength * (shared + shared.T) / 2 + (1 - strength) * eye
    return eye


# Choosing cells by an expression such as "p == 2 and n in [10, 50]": comparisons with values, and nothing else.


NAMES = (
    "release", "p", "n", "count", "rows", "structure", "correlation", "distance", "leverage", "lacking_columns",
    "lacking_records",
)  # fmt: skip
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn)
_ALLOWED = (
    *(ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.Not, ast.USub, ast.Compare, *_COMPARISONS),
    *(ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple, ast.UnaryOp),
)


def choose(cells: Sequence[Cell], expression: str) -> list[Cell]:
    """Return the cells for which the expression is true; refuse one that none fulfils."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        if not isinstance(tree.body, ast.Compare | ast.BoolOp | ast.UnaryOp):
            raise ValueError("no comparison")
        for node in ast.walk(tree):
            known = node.id in NAMES if isinstance(node, ast.Name) else isinstance(node, _ALLOWED)
            if not known:
                raise ValueError(f"{ast.unparse(node)!r} is neither a comparison nor a value")
        code = compile(tree, "the choice of cells", "eval")
        chosen = [cell for cell in cells if eval(code, {"__builtins__": {}}, _values(cell))]
    except (SyntaxError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"the choice of cells {expression!r:.80} cannot be read",
            f"compare {', '.join(NAMES)} with values, as in 'p == 2 and n in [10, 50]'",
        ) from error
    if not chosen:
        raise InputError(f"no cell of the design fulfils {expression!r:.80}", "see the lists of its cells")
    return chosen


class _Nothing:
    """What a cell does not have, such as the rows of parameters: None, and neither less nor more than anything."""

    def __eq__(self, other: object) -> bool:
        return other is None

    def __lt__(self, other: object) -> bool:
        return False

    __le__ = __gt__ = __ge__ = __lt__
    __hash__ = None  # type: ignore[assignment]


def _values(cell: Cell) -> dict[str, Any]:
    values = {name: getattr(cell, name) for name in NAMES}
    return {name: _Nothing() if value is None else value for name, value in values.items()}
