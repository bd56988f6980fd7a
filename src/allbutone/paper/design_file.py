"""Design files: TOML in, a design out, or an error that names the line and the cure."""

import difflib
import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float

from allbutone.paper.design import STRUCTURES, Cell, Design, correlations, place_of, read_published
from allbutone.support.errors import InputError
from allbutone.tables.safe_io import parse, read_text

# The text of a design file: values are checked one by one, and every complaint names its line.


MOST_ROWS = 10**9


class DesignText:
    """The text of one design file, kept at hand to find the line of what is wrong.

    `place` is the number of the block of cells that a key stands in, from 0; None is the top of the file.
    """

    def __init__(self, text: str, name: str) -> None:
        self.text: str = text
        self.name: str = name

    def fail(self, problem: str, key: str, place: int | None = None, cure: str = "") -> NoReturn:
        """Refuse what stands under this key."""
        line = _line_of(self.text, key, place)
        raise InputError(problem, *([cure] if cure else []), where=f"{self.name}, line {line}")

    def fail_as(self, error: InputError, key: str, when: str = "") -> NoReturn:
        """Refuse what stands under this key for the reason, and with the cures, of an error that it led to."""
        problem = f"{error.where}: {error.problem}" if error.where else error.problem
        raise InputError(
            when + problem, *error.cures, where=f"{self.name}, line {_line_of(self.text, key, None)}"
        ) from error

    def require_known(self, entries: dict[str, Any], known: tuple[str, ...], place: int | None) -> None:
        """Refuse a key that means nothing here."""
        for key in entries:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                cure = f"did you mean {near[0]!r}?" if near else f"known here are {', '.join(known)}"
                self.fail(f"unknown key {key!r:.60}", key, place, cure)

    def number(self, value: Any, key: str, place: int | None) -> float:
        """Read a finite number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e100:
            self.fail(f"{key} must be a finite number, got {value!r:.60}", key, place)
        return float(value)

    def positive(self, value: Any, key: str, place: int | None, most: float) -> float:
        """Read a number above 0."""
        number = self.number(value, key, place)
        if not number > 0:
            self.fail(f"{key} must exceed 0, got {number:g}", key, place)
        if number > most:
            self.fail(f"{key} can be at most {most:g}, got {number:g}", key, place)
        return number

    def whole(
        self, value: Any, key: str, least: int, place: int | None, why: str = "", most: int = MOST_ROWS
    ) -> int:
        """Read a whole number between two bounds."""
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.fail(f"{key} must be a whole number of at least {least}, got {value!r:.60}", key, place, why)
        if value > most:
            self.fail(f"{key} can be at most {most:,} here, got {value!r:.60}", key, place)
        return value

    def vector(self, value: Any, key: str, p: int, place: int) -> tuple[float, ...]:
        """Read p numbers, or one for all."""
        values = value if isinstance(value, list) else [value] * p
        if len(values) != p:
            cure = f"give {p}, or one number for all"
            self.fail(f"{key} has {len(values)} values for p = {p}", key, place, cure)
        return tuple(self.number(entry, key, place) for entry in values)

    def one_of(self, value: Any, key: str, known: tuple[str, ...], place: int | None) -> str:
        """Read one of several words."""
        if value not in known:
            self.fail(f"{key} must be {' or '.join(map(repr, known))}, got {value!r:.60}", key, place)
        return str(value)

    def definite(self, matrix: Float[np.ndarray, "p p"], key: str, place: int) -> Float[np.ndarray, "p p"]:
        """Refuse a matrix that is no covariance."""
        if not np.array_equal(matrix, matrix.T):
            self.fail("the covariance is not symmetric", key, place, "make entries (i, j) and (j, i) equal")
        lowest = float(np.linalg.eigvalsh(matrix)[0])
        if not lowest > 1e-12 * float(np.trace(matrix)):
            p = len(matrix)
            self.fail(
                f"with p = {p} the covariance is not positive definite (lowest eigenvalue {lowest:.3g})",
                key,
                place,
                f"weaken the correlation (equicorrelated: above {-1 / max(p - 1, 1):.3g} and below 1)",
            )
        return matrix


def _line_of(text: str, key: str, place: int | None) -> int:
    """Return the line of a key at the top of the file, or in the block of cells of this place, or its header."""
    block, table, found = -1, "", 1
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]", line):
            table = header[1]
            block += table == "cells"
            if table == (key if place is None else "cells") and (place is None or block == place):
                found = number
        inside = table == "" if place is None else table == "cells" and block == place
        if inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line) and key:
            return number
    return found


SHIPPED = Path(__file__).parent / "designs"
MOST_CELLS = 100_000
MOST = 10_000_000  # replicates of a cell; numbers in what one release is attacked by
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
    lines.require_known(entries, WHOLE, None)
    blocks = entries.get("cells")
    if not isinstance(blocks, list) or not blocks or not all(isinstance(block, dict) for block in blocks):
        lines.fail("a design needs at least one block of cells", "cells", cure="begin it with [[cells]]")
    solver = lines.one_of(entries.get("solver", "exact"), "solver", SOLVERS, None)
    if solver == "lbfgsb" and "adversary_prior" in entries:
        lines.fail("the paper's own solver knows no adversary's prior", "solver", cure="remove it or use 'exact'")
    lines.one_of(entries.get("reading", "record"), "reading", READINGS, None)
    if "reading" in entries and "adversary_prior" not in entries:
        lines.fail(
            "reading says how an adversary's own prior is meant, and there is none", "reading",
            cure="add [adversary_prior] or remove it",
        )  # fmt: skip
    made = (cell for place, block in enumerate(blocks) for cell in _Block(lines, entries, block, place).cells())
    cells = {cell.key: cell for cell in made}
    published = _published_file(lines, entries.get("published"), folder)
    try:
        known = {} if published is None else read_published(published)
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
        replicates=lines.whole(entries.get("replicates", 1000), "replicates", 1, None, most=MOST),
        seed=lines.whole(entries.get("seed", 0), "seed", 0, None),
        solver=solver,
        published=known,
        published_file=published,
    )


def _published_file(lines: DesignText, name: Any, folder: Path) -> Path | None:
    if name is None:
        return None
    if not isinstance(name, str) or Path(name).name != name:
        lines.fail(f"published must name a CSV file beside the design, got {name!r:.60}", "published")
    return folder / name


def _listed(key: str, value: Any) -> list[Any]:
    """Return what varies: the entries of a list; a list of numbers is one direction, a list of lists several."""
    vector = key == "direction" and isinstance(value, list) and not any(isinstance(x, str | list) for x in value)
    return value if isinstance(value, list) and not vector else [value]


class _Block:
    """One block of cells: its keys, and the lines to name where they are wrong."""

    def __init__(self, lines: DesignText, entries: dict[str, Any], block: dict[str, Any], place: int) -> None:
        self.lines, self.entries, self.block, self.place = lines, entries, block, place

    def cells(self) -> list[Cell]:
        """Return a cell for every combination of the listed values."""
        block, place = self.block, self.place
        self.lines.require_known(block, VARIED + FIXED, place)
        for key in ("release", "p", "n", "count"):
            if key not in block:
                self.lines.fail(f"this block of cells needs {key}", key, place, "give a value or a list of values")
        given = [key for key in POSITIONS if key in block]
        if len(given) != 1:
            found = f"{' and '.join(given)} were given" if given else "none was given"
            key = given[-1] if given else ""
            self.lines.fail(
                f"where the target lies: {found}", key, place, "give one of target, distance or leverage"
            )
        lists = {key: _listed(key, block[key]) for key in VARIED if key in block}
        for key, values in lists.items():
            if not values:
                self.lines.fail(f"{key} is an empty list", key, place, "give a value or several")
        if np.prod([len(values) for values in lists.values()], dtype=float) > MOST_CELLS:
            self.lines.fail(f"this block makes more than {MOST_CELLS:,} cells", "", place, "shorten its lists")
        combinations = (dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values()))
        return [self._cell({**block, **one}) for one in combinations]

    def _cell(self, block: dict[str, Any]) -> Cell:
        lines, place = self.lines, self.place
        release = lines.one_of(block["release"], "release", RELEASES, place)
        p = lines.whole(block["p"], "p", 1, place, most=MOST_COLUMNS)
        two = "the adversary has all records but one, so there must be two"
        if (release == "datasets") != ("rows" in block):
            words = "datasets need rows" if release == "datasets" else "rows go with datasets, not parameters"
            lines.fail(words, "rows", place)
        covariance = self._covariance(block, p)
        mean = lines.vector(block.get("mean", 0.0), "mean", p, place)
        cell = Cell(
            release=release,
            p=p,
            n=lines.whole(block["n"], "n", 2, place, two),
            count=lines.whole(block["count"], "count", 1, place, "nothing released is no attack", MOST // p**2),
            rows=lines.whole(block["rows"], "rows", 1, place) if "rows" in block else None,
            mean=mean,
            covariance=tuple(map(tuple, covariance.tolist())),
            structure="given" if "covariance" in block else block.get("structure", "independent"),
            correlation=float(block.get("correlation", 0.0)),
            target=self._target(block, mean, covariance),
            distance=self._how_far(block, "distance"),
            leverage=self._how_far(block, "leverage"),
            direction=self._direction(block.get("direction", "diagonal"), covariance),
            prior=self.entries.get("prior", {}),
            adversary_prior=self.entries.get("adversary_prior"),
            lacking_columns=lines.whole(block.get("lacking_columns", 0), "lacking_columns", 0, place, most=p - 1),
            lacking_records=lines.whole(block.get("lacking_records", 0), "lacking_records", 0, place),
            reading=self.entries.get("reading", "record"),
        )
        self._check_lacking(cell)
        self._check_priors(cell)
        return cell

    def _check_lacking(self, cell: Cell) -> None:
        """Refuse what no adversary can lack, or what is not known of one who does."""
        key = "lacking_records" if cell.lacking_records else "lacking_columns"
        if cell.lacking_records and cell.n - 1 - cell.lacking_records < 2:
            words = f"of {cell.n} records {cell.lacking_records} cannot be lacking besides the target"
            self.lines.fail(words, key, self.place, "leave the adversary two at least")
        if cell.lacking and self.entries.get("solver") == "lbfgsb":
            self.lines.fail("the paper's own solver knows no one who lacks more", key, self.place, "use 'exact'")
        if cell.lacking_records and cell.adversary_prior is not None:
            words = "who lacks several records is taken to have the holder's prior"
            self.lines.fail(words, key, self.place, "remove adversary_prior")

    def _check_priors(self, cell: Cell) -> None:
        for key in ("prior", "adversary_prior"):
            if self.entries.get(key) is not None:
                try:
                    cell.prior_of(self.entries[key])
                except InputError as error:
                    self.lines.fail_as(error, key, f"with p = {cell.p}: ")

    def _how_far(self, block: dict[str, Any], key: str) -> float | None:
        return self.lines.positive(block[key], key, self.place, FURTHEST) if key in block else None

    def _target(
        self, block: dict[str, Any], mean: tuple[float, ...], covariance: Float[np.ndarray, "p p"]
    ) -> tuple[float, ...] | None:
        if "target" not in block:
            return None
        target = self.lines.vector(block["target"], "target", len(mean), self.place)
        step = np.subtract(target, mean)
        far = float(np.sqrt(step @ np.linalg.solve(covariance, step)))
        if far > FURTHEST:
            words = f"the target lies {far:.3g} deviations out"
            self.lines.fail(words, "target", self.place, f"place it within {FURTHEST:g}")
        if target == mean:
            words = "the target lies at the others' mean, where it cannot be exposed"
            self.lines.fail(words, "target", self.place, "move it")
        return target

    def _covariance(self, block: dict[str, Any], p: int) -> Float[np.ndarray, "p p"]:
        """Return variance · (the correlations of the structure), or the matrix itself."""
        lines, place = self.lines, self.place
        if "covariance" in block:
            if extra := [key for key in ("variance", "structure", "correlation", "rank") if key in block]:
                lines.fail("covariance already says it all", extra[0], place, f"remove {extra[0]}")
            rows = block["covariance"]
            if not isinstance(rows, list) or len(rows) != p:
                lines.fail(f"covariance must be a {p} × {p} matrix, got {rows!r:.60}", "covariance", place)
            matrix = np.array([lines.vector(row, "covariance", p, place) for row in rows])
            return lines.definite(matrix, "covariance", place)
        structure = lines.one_of(block.get("structure", "independent"), "structure", STRUCTURES, place)
        rho = lines.number(block.get("correlation", 0.0), "correlation", place)
        variance = lines.positive(block.get("variance", 1.0), "variance", place, 1e100)
        rank = lines.whole(block.get("rank", 1), "rank", 1, place)
        if structure == "independent" and rho:
            lines.fail(
                f"independent columns have no correlation {rho:g}", "correlation", place, "name a structure"
            )
        return lines.definite(variance * correlations(structure, p, rho, rank), "correlation", place)

    def _direction(self, given: Any, covariance: Float[np.ndarray, "p p"]) -> tuple[float, ...]:
        p = len(covariance)
        if isinstance(given, list):
            vector = self.lines.vector(given, "direction", p, self.place)
            if not any(vector):
                self.lines.fail("direction must not be all zeros", "direction", self.place)
            return vector
        name = self.lines.one_of(given, "direction", DIRECTIONS, self.place)
        if name == "diagonal":
            return (1.0,) * p
        if name == "first":
            return (1.0, *(0.0,) * (p - 1))
        axes = np.linalg.eigh(covariance)[1]
        axis = axes[:, -1 if name == "strongest" else 0]
        return tuple(float(value) for value in axis * np.sign(axis[np.argmax(np.abs(axis))]))
