"""Design files: TOML in, a design out, or an error that names the line and the cure."""

import difflib
import itertools
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float

from allbutone.paper.design import STRUCTURES, Cell, Design, correlations, place_of, read_published
from allbutone.support.errors import InputError
from allbutone.tables.safe_io import parse, read_text

SHIPPED = Path(__file__).parent / "designs"
MOST_ROWS = 10**9
MOST_CELLS = 100_000
MOST_NUMBERS = 10_000_000  # replicates of a cell; numbers in what one release is attacked by
MOST_COLUMNS = 100
FURTHEST = 1e6  # Mahalanobis distance of a target: beyond, double precision loses the others
RELEASES = ("parameters", "datasets")
SOLVERS = ("exact", "lbfgsb")
READINGS = ("record", "mechanism")  # what an adversary's own prior speaks of
DIRECTIONS = ("diagonal", "first", "strongest", "weakest")
WHOLE = ("title", "seed", "replicates", "solver", "published", "prior", "adversary_prior", "reading", "cells")
# a list of these makes a cell for each of its entries
VARIED = (
    "release", "p", "n", "count", "rows", "structure", "correlation", "distance", "leverage", "direction",
    "lacking_columns", "lacking_records",
)  # fmt: skip
FIXED = ("mean", "variance", "covariance", "rank", "target")
POSITIONS = ("target", "distance", "leverage")


@dataclass(frozen=True)
class DesignText:
    """The text of one design file: values are checked one by one, and every complaint names its line.

    `block` is the number of the block of cells that is read, from 0; None is the top of the file.
    """

    text: str
    name: str
    block: int | None = None

    def fail(self, problem: str, key: str, *cures: Any, because: Exception | None = None) -> NoReturn:
        """Refuse what stands under this key."""
        raise InputError(problem, *cures, where=f"{self.name}, line {self._line_of(key)}") from because

    def fail_as(self, error: InputError, key: str, when: str = "") -> NoReturn:
        """Refuse what stands under this key for the reason, and with the cures, of an error that it led to."""
        problem = f"{error.where}: {error.problem}" if error.where else error.problem
        replace(self, block=None).fail(when + problem, key, *error.cures, because=error)

    def _line_of(self, key: str) -> int:
        """Return the line of a key at the top of the file, or in the block of cells, or the block's header."""
        block, table, header_line, top = -1, "", 1, self.block is None
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]", line):
                table = header[1]
                block += table == "cells"
                if table == (key if top else "cells") and (top or block == self.block):
                    header_line = number
            inside = table == "" if top else table == "cells" and block == self.block
            if inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line) and key:
                return number
        return header_line

    def require_known(self, entries: dict[str, Any], known: tuple[str, ...]) -> None:
        """Refuse a key that means nothing here."""
        for key in entries:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                cure = f"did you mean {near[0]!r}?" if near else f"known here are {', '.join(known)}"
                self.fail(f"unknown key {key!r:.60}", key, cure)

    def number(self, value: Any, key: str) -> float:
        """Read a finite number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e100:
            self.fail(f"{key} must be a finite number, got {value!r:.60}", key)
        return float(value)

    def positive(self, value: Any, key: str, most: float) -> float:
        """Read a number above 0."""
        number = self.number(value, key)
        if not number > 0:
            self.fail(f"{key} must exceed 0, got {number:g}", key)
        if number > most:
            self.fail(f"{key} can be at most {most:g}, got {number:g}", key)
        return number

    def whole(self, value: Any, key: str, least: int, *why: str, most: int = MOST_ROWS) -> int:
        """Read a whole number between two bounds."""
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.fail(f"{key} must be a whole number of at least {least}, got {value!r:.60}", key, *why)
        if value > most:
            self.fail(f"{key} can be at most {most:,} here, got {value!r:.60}", key)
        return value

    def vector(self, value: Any, key: str, p: int) -> tuple[float, ...]:
        """Read p numbers, or one for all."""
        values = value if isinstance(value, list) else [value] * p
        if len(values) != p:
            self.fail(f"{key} has {len(values)} values for p = {p}", key, f"give {p}, or one number for all")
        return tuple(self.number(entry, key) for entry in values)

    def one_of(self, value: Any, key: str, known: tuple[str, ...]) -> str:
        """Read one of several words."""
        if value not in known:
            self.fail(f"{key} must be {' or '.join(map(repr, known))}, got {value!r:.60}", key)
        return str(value)

    def definite(self, matrix: Float[np.ndarray, "p p"], key: str) -> Float[np.ndarray, "p p"]:
        """Refuse a matrix that is no covariance."""
        if not np.array_equal(matrix, matrix.T):
            self.fail("the covariance is not symmetric", key, "make entries (i, j) and (j, i) equal")
        lowest, p = float(np.linalg.eigvalsh(matrix)[0]), len(matrix)
        if not lowest > 1e-12 * float(np.trace(matrix)):
            self.fail(
                f"with p = {p} the covariance is not positive definite (lowest eigenvalue {lowest:.3g})",
                key,
                f"weaken the correlation (equicorrelated: above {-1 / max(p - 1, 1):.3g} and below 1)",
            )
        return matrix


def read_design(name: str | Path) -> Design:
    """Read a design file, or one of those that come with the package (`SHIPPED`)."""
    shipped = SHIPPED / f"{name}.toml"
    # a folder of that name is no design: `allbutone paper` leaves one
    path = shipped if shipped.is_file() and not Path(name).is_file() else Path(name)
    known = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.toml")))
    return parse_design(read_text(path, f"give a .toml file, or one of {known}"), path.name, path.parent)


def parse_design(text: str, name: str = "design", folder: Path = SHIPPED) -> Design:
    """Read the text of a design file; `folder` is where it looks for published numbers."""
    entries = parse(text, "TOML", name)
    lines = DesignText(text, name)
    lines.require_known(entries, WHOLE)
    blocks = entries.get("cells")
    if not isinstance(blocks, list) or not blocks or not all(isinstance(block, dict) for block in blocks):
        lines.fail("a design needs at least one block of cells", "cells", "begin it with [[cells]]")
    solver = lines.one_of(entries.get("solver", "exact"), "solver", SOLVERS)
    if solver == "lbfgsb" and "adversary_prior" in entries:
        lines.fail("the paper's own solver knows no adversary's prior", "solver", "remove it or use 'exact'")
    lines.one_of(entries.get("reading", "record"), "reading", READINGS)
    if "reading" in entries and "adversary_prior" not in entries:
        words = "reading says how an adversary's own prior is meant, and there is none"
        lines.fail(words, "reading", "add [adversary_prior] or remove it")
    read = (_cells(replace(lines, block=place), entries, block) for place, block in enumerate(blocks))
    cells = {cell.key: cell for cell in itertools.chain.from_iterable(read)}
    published = entries.get("published")
    if published is not None and (not isinstance(published, str) or Path(published).name != published):
        lines.fail(f"published must name a CSV file beside the design, got {published!r:.60}", "published")
    file = None if published is None else folder / published
    try:
        known = {} if file is None else read_published(file)
    except InputError as error:
        lines.fail_as(error, "published")
    twice = Counter(place_of(cell) for cell in cells.values() if place_of(cell) in known and not cell.lacking)
    if twice and max(twice.values()) > 1:
        words = "differ only in what a published number does not tell apart"
        lines.fail(f"several cells with {max(twice, key=twice.__getitem__)} {words}", "published")
    return Design(
        title=str(entries.get("title", "Study")),
        text=text,
        cells=tuple(cells.values()),
        replicates=lines.whole(entries.get("replicates", 1000), "replicates", 1, most=MOST_NUMBERS),
        seed=lines.whole(entries.get("seed", 0), "seed", 0),
        solver=solver,
        published=known,
        published_file=file,
    )


# One block of cells: a cell for every combination of the listed values.


def _cells(lines: DesignText, entries: dict[str, Any], block: dict[str, Any]) -> list[Cell]:
    lines.require_known(block, VARIED + FIXED)
    for key in ("release", "p", "n", "count"):
        if key not in block:
            lines.fail(f"this block of cells needs {key}", key, "give a value or a list of values")
    given = [key for key in POSITIONS if key in block]
    if len(given) != 1:
        number = f"{' and '.join(given)} were given" if given else "none was given"
        cure = "give one of target, distance or leverage"
        lines.fail(f"where the target lies: {number}", given[-1] if given else "", cure)
    lists = {key: _listed(key, block[key]) for key in VARIED if key in block}
    for key, values in lists.items():
        if not values:
            lines.fail(f"{key} is an empty list", key, "give a value or several")
    if np.prod([len(values) for values in lists.values()], dtype=float) > MOST_CELLS:
        lines.fail(f"this block makes more than {MOST_CELLS:,} cells", "", "shorten its lists")
    combinations = (dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values()))
    return [_cell(lines, entries, block | one) for one in combinations]


def _listed(key: str, value: Any) -> list[Any]:
    """Return what varies: the entries of a list; a list of numbers is one direction, a list of lists several."""
    vector = key == "direction" and isinstance(value, list) and not any(isinstance(x, str | list) for x in value)
    return value if isinstance(value, list) and not vector else [value]


def _cell(lines: DesignText, entries: dict[str, Any], block: dict[str, Any]) -> Cell:
    release = lines.one_of(block["release"], "release", RELEASES)
    p = lines.whole(block["p"], "p", 1, most=MOST_COLUMNS)
    if (release == "datasets") != ("rows" in block):
        words = "datasets need rows" if release == "datasets" else "rows go with datasets, not parameters"
        lines.fail(words, "rows")
    two = "the adversary has all records but one, so there must be two"
    nothing, most = "nothing released is no attack", MOST_NUMBERS // p**2
    covariance = _covariance(lines, block, p)
    mean = lines.vector(block.get("mean", 0.0), "mean", p)
    far = {key: lines.positive(block[key], key, FURTHEST) for key in ("distance", "leverage") if key in block}
    cell = Cell(
        release=release,
        p=p,
        n=lines.whole(block["n"], "n", 2, two),
        count=lines.whole(block["count"], "count", 1, nothing, most=most),
        rows=lines.whole(block["rows"], "rows", 1) if "rows" in block else None,
        mean=mean,
        covariance=tuple(map(tuple, covariance.tolist())),
        structure="given" if "covariance" in block else block.get("structure", "independent"),
        correlation=float(block.get("correlation", 0.0)),
        target=_target(lines, block["target"], mean, covariance) if "target" in block else None,
        distance=far.get("distance"),
        leverage=far.get("leverage"),
        direction=_direction(lines, block.get("direction", "diagonal"), covariance),
        prior=entries.get("prior", {}),
        adversary_prior=entries.get("adversary_prior"),
        lacking_columns=lines.whole(block.get("lacking_columns", 0), "lacking_columns", 0, most=p - 1),
        lacking_records=lines.whole(block.get("lacking_records", 0), "lacking_records", 0),
        reading=entries.get("reading", "record"),
    )
    _check_lacking(lines, cell, entries.get("solver"))
    for key in ("prior", "adversary_prior"):
        if entries.get(key) is not None:
            try:
                cell.prior_of(entries[key])
            except InputError as error:
                lines.fail_as(error, key, f"with p = {cell.p}: ")
    return cell


def _check_lacking(lines: DesignText, cell: Cell, solver: str | None) -> None:
    """Refuse what no adversary can lack, or what is not known of one who does."""
    key = "lacking_records" if cell.lacking_records else "lacking_columns"
    if cell.lacking_records and cell.n - 1 - cell.lacking_records < 2:
        words = f"of {cell.n} records {cell.lacking_records} cannot be lacking besides the target"
        lines.fail(words, key, "leave the adversary two at least")
    if cell.lacking and solver == "lbfgsb":
        lines.fail("the paper's own solver knows no one who lacks more", key, "use 'exact'")
    if cell.lacking_records and cell.adversary_prior is not None:
        lines.fail("who lacks several records is taken to have the holder's prior", key, "remove adversary_prior")


def _target(
    lines: DesignText, given: Any, mean: tuple[float, ...], covariance: Float[np.ndarray, "p p"]
) -> tuple[float, ...]:
    target = lines.vector(given, "target", len(mean))
    step = np.subtract(target, mean)
    far = float(np.sqrt(step @ np.linalg.solve(covariance, step)))
    if far > FURTHEST:
        lines.fail(f"the target lies {far:.3g} deviations out", "target", f"place it within {FURTHEST:g}")
    if target == mean:
        lines.fail("the target lies at the others' mean, where it cannot be exposed", "target", "move it")
    return target


def _covariance(lines: DesignText, block: dict[str, Any], p: int) -> Float[np.ndarray, "p p"]:
    """Return variance · (the correlations of the structure), or the matrix itself."""
    if "covariance" in block:
        if extra := [key for key in ("variance", "structure", "correlation", "rank") if key in block]:
            lines.fail("covariance already says it all", extra[0], f"remove {extra[0]}")
        rows = block["covariance"]
        if not isinstance(rows, list) or len(rows) != p:
            lines.fail(f"covariance must be a {p} × {p} matrix, got {rows!r:.60}", "covariance")
        matrix = np.array([lines.vector(row, "covariance", p) for row in rows])
        return lines.definite(matrix, "covariance")
    structure = lines.one_of(block.get("structure", "independent"), "structure", STRUCTURES)
    rho = lines.number(block.get("correlation", 0.0), "correlation")
    variance = lines.positive(block.get("variance", 1.0), "variance", 1e100)
    rank = lines.whole(block.get("rank", 1), "rank", 1)
    if structure == "independent" and rho:
        lines.fail(f"independent columns have no correlation {rho:g}", "correlation", "name a structure")
    return lines.definite(variance * correlations(structure, p, rho, rank), "correlation")


def _direction(lines: DesignText, given: Any, covariance: Float[np.ndarray, "p p"]) -> tuple[float, ...]:
    p = len(covariance)
    if isinstance(given, list):
        vector = lines.vector(given, "direction", p)
        if not any(vector):
            lines.fail("direction must not be all zeros", "direction")
        return vector
    name = lines.one_of(given, "direction", DIRECTIONS)
    if name == "diagonal":
        return (1.0,) * p
    if name == "first":
        return (1.0, *(0.0,) * (p - 1))
    axes = np.linalg.eigh(covariance)[1]
    axis = axes[:, -1 if name == "strongest" else 0]
    return tuple(float(value) for value in axis * np.sign(axis[np.argmax(np.abs(axis))]))
