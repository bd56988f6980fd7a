"""Design files: TOML in, a design out, or an error that names the line and the cure."""

import csv
import difflib
import itertools
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float

from allbutone.studies.design import STRUCTURES, Cell, Design, correlations, place_of
from allbutone.support.errors import InputError, reason

SHIPPED = Path(__file__).parent / "designs"
MOST_CELLS = 100_000
MOST = 10_000_000  # replicates of a cell; numbers in what one release is attacked by
MOST_COLUMNS = 100
MOST_ROWS = 10**9
FURTHEST = 1e6  # Mahalanobis distance of a target: beyond, double precision loses the others
RELEASES = ("parameters", "datasets")
SOLVERS = ("exact", "lbfgsb")
DIRECTIONS = ("diagonal", "first", "strongest", "weakest")
WHOLE = ("title", "seed", "replicates", "solver", "published", "prior", "adversary_prior", "cells")
# a list of these makes a cell for each of its entries
VARIED = ("release", "p", "n", "count", "rows", "structure", "correlation", "distance", "leverage", "direction")
FIXED = ("mean", "variance", "covariance", "rank", "target")


def read_design(name: str | Path) -> Design:
    """Read a design file, or one of those that come with the package: paper, correlation, dimension."""
    shipped = SHIPPED / f"{name}.toml"
    path = shipped if shipped.is_file() and not Path(name).exists() else Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fault = reason(error) if isinstance(error, OSError) else "not UTF-8 text"
        known = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.toml")))
        raise InputError(
            f"cannot read the design {path}: {fault}; give a .toml file, or one of {known}"
        ) from error
    return parse_design(text, path.name, path.parent)


def parse_design(text: str, name: str = "design", folder: Path = SHIPPED) -> Design:
    """Read the text of a design file; `folder` is where it looks for published numbers."""
    return _Reader(text, name, folder).design()


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


def _listed(key: str, value: Any) -> list[Any]:
    """Return what varies: the entries of a list; a list of numbers is one direction, a list of lists several."""
    vector = key == "direction" and isinstance(value, list) and not any(isinstance(x, str | list) for x in value)
    return value if isinstance(value, list) and not vector else [value]


def _place_of(line: dict[str, str]) -> tuple[Any, ...]:
    rows = int(line["rows"]) if line["rows"] else None
    return line["release"], int(line["p"]), int(line["n"]), int(line["count"]), rows


def _either(known: tuple[str, ...]) -> str:
    return " or ".join(repr(name) for name in known)


class _Reader:
    """Reads one file; keeps the text at hand, so that every complaint can name its line."""

    def __init__(self, text: str, name: str, folder: Path) -> None:
        self.text, self.name, self.folder = text, name, folder

    def design(self) -> Design:
        try:
            entries = tomllib.loads(self.text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(f"{self.name} is not valid TOML: {error}") from error
        self._require_known(entries, WHOLE, None)
        blocks = entries.get("cells")
        if not isinstance(blocks, list) or not blocks or not all(isinstance(block, dict) for block in blocks):
            self._fail("a design needs at least one block of cells that begins with [[cells]]", "cells")
        solver = entries.get("solver", "exact")
        if solver not in SOLVERS:
            self._fail(f"solver must be {_either(SOLVERS)}, got {solver!r}", "solver")
        if solver == "lbfgsb" and "adversary_prior" in entries:
            self._fail("the paper's own solver knows no adversary's prior; remove it or use 'exact'", "solver")
        cells = {
            cell.key: cell for place, block in enumerate(blocks) for cell in self._block(entries, block, place)
        }
        published = self._published_file(entries.get("published"))
        known = self._published(published)
        twice = Counter(place_of(cell) for cell in cells.values() if place_of(cell) in known)
        if twice and max(twice.values()) > 1:
            words = "differ only in what a published median does not tell apart"
            self._fail(f"several cells with {max(twice, key=twice.__getitem__)} {words}", "published")
        return Design(
            title=str(entries.get("title", "Study")),
            text=self.text,
            cells=tuple(cells.values()),
            replicates=self._whole(entries.get("replicates", 1000), "replicates", 1, None, most=MOST),
            seed=self._whole(entries.get("seed", 0), "seed", 0, None),
            solver=solver,
            published=known,
            published_file=published,
        )

    def _block(self, entries: dict[str, Any], block: dict[str, Any], place: int) -> list[Cell]:
        self._require_known(block, VARIED + FIXED, place)
        for key in ("release", "p", "n", "count"):
            if key not in block:
                self._fail(f"this block of cells needs {key}, a value or a list of values", key, place)
        positions = [key for key in ("target", "distance", "leverage") if key in block]
        if len(positions) != 1:
            found = f"{' and '.join(positions)} were given" if positions else "none was given"
            words = "say where the target lies by one of target, distance or leverage"
            self._fail(f"{words}; {found}", positions[-1] if positions else "", place)
        lists = {key: _listed(key, block[key]) for key in VARIED if key in block}
        for key, values in lists.items():
            if not values:
                self._fail(f"{key} is an empty list; give a value or several", key, place)
        if np.prod([len(values) for values in lists.values()], dtype=float) > MOST_CELLS:
            self._fail(f"this block makes more than {MOST_CELLS:,} cells; shorten its lists", "", place)
        combinations = (dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values()))
        return [self._cell(entries, {**block, **one}, place) for one in combinations]

    def _cell(self, entries: dict[str, Any], block: dict[str, Any], place: int) -> Cell:
        release = self._one_of(block["release"], "release", RELEASES, place)
        p = self._whole(block["p"], "p", 1, place, most=MOST_COLUMNS)
        n = self._whole(block["n"], "n", 2, place, "; the adversary has all records but one, so there must be two")
        count = self._whole(block["count"], "count", 1, place, "; nothing released is no attack", MOST // p**2)
        if (release == "datasets") != ("rows" in block):
            words = "datasets need rows" if release == "datasets" else "rows go with datasets, not parameters"
            self._fail(words, "rows", place)
        covariance = self._covariance(block, p, place)
        mean = self._vector(block.get("mean", 0.0), "mean", p, place)
        target = self._vector(block["target"], "target", p, place) if "target" in block else None
        for key in ("distance", "leverage"):
            if key in block and not self._number(block[key], key, place) > 0:
                self._fail(f"{key} must exceed 0, got {block[key]}", key, place)
        for key, far in (("distance", FURTHEST), ("leverage", FURTHEST)):
            if key in block and block[key] > far:
                self._fail(f"{key} can be at most {far:g}, got {block[key]:g}", key, place)
        if target is not None:
            step = np.subtract(target, mean)
            far = float(np.sqrt(step @ np.linalg.solve(covariance, step)))
            if far > FURTHEST:
                self._fail(f"the target lies {far:.3g} deviations out; at most {FURTHEST:g}", "target", place)
        if target == mean:
            self._fail("the target lies at the others' mean, where it cannot be exposed; move it", "target", place)
        cell = Cell(
            release=release,
            p=p,
            n=n,
            count=count,
            rows=self._whole(block["rows"], "rows", 1, place) if "rows" in block else None,
            mean=mean,
            covariance=tuple(map(tuple, covariance.tolist())),
            structure="given" if "covariance" in block else block.get("structure", "independent"),
            correlation=float(block.get("correlation", 0.0)),
            target=target,
            distance=float(block["distance"]) if "distance" in block else None,
            leverage=float(block["leverage"]) if "leverage" in block else None,
            direction=self._direction(block.get("direction", "diagonal"), covariance, place),
            prior=entries.get("prior", {}),
            adversary_prior=entries.get("adversary_prior"),
        )
        for key in ("prior", "adversary_prior"):
            if entries.get(key) is not None:
                try:
                    cell.prior_of(entries[key])
                except InputError as error:
                    self._fail(f"with p = {p}: {error}", key)
        return cell

    def _covariance(self, block: dict[str, Any], p: int, place: int) -> Float[np.ndarray, "p p"]:
        """Return variance · (the correlations of the structure), or the matrix itself."""
        if "covariance" in block:
            if extra := [key for key in ("variance", "structure", "correlation", "rank") if key in block]:
                self._fail(f"covariance already says it all; remove {extra[0]}", extra[0], place)
            rows = block["covariance"]
            if not isinstance(rows, list) or len(rows) != p:
                self._fail(f"covariance must be a {p} × {p} matrix, got {rows!r:.60}", "covariance", place)
            matrix = np.array([self._vector(row, "covariance", p, place) for row in rows])
            return self._definite(matrix, "covariance", place)
        structure = self._one_of(block.get("structure", "independent"), "structure", STRUCTURES, place)
        rho = self._number(block.get("correlation", 0.0), "correlation", place)
        variance = self._number(block.get("variance", 1.0), "variance", place)
        rank = self._whole(block.get("rank", 1), "rank", 1, place)
        if structure == "independent" and rho:
            self._fail(f"independent columns have no correlation {rho:g}; name a structure", "correlation", place)
        if not variance > 0:
            self._fail(f"variance must exceed 0, got {variance:g}", "variance", place)
        return self._definite(variance * correlations(structure, p, rho, rank), "correlation", place)

    def _definite(self, matrix: Float[np.ndarray, "p p"], key: str, place: int) -> Float[np.ndarray, "p p"]:
        if not np.array_equal(matrix, matrix.T):
            self._fail("the covariance is not symmetric; make entries (i, j) and (j, i) equal", key, place)
        lowest = float(np.linalg.eigvalsh(matrix)[0])
        if not lowest > 1e-12 * float(np.trace(matrix)):
            p = len(matrix)
            self._fail(
                f"with p = {p} the covariance is not positive definite (lowest eigenvalue {lowest:.3g}); weaken "
                f"the correlation (equicorrelated: above {-1 / max(p - 1, 1):.3g} and below 1)",
                key,
                place,
            )
        return matrix

    def _direction(self, given: Any, covariance: Float[np.ndarray, "p p"], place: int) -> tuple[float, ...]:
        p = len(covariance)
        if isinstance(given, list):
            vector = self._vector(given, "direction", p, place)
            if not any(vector):
                self._fail("direction must not be all zeros", "direction", place)
            return vector
        name = self._one_of(given, "direction", DIRECTIONS, place)
        if name == "diagonal":
            return (1.0,) * p
        if name == "first":
            return (1.0, *(0.0,) * (p - 1))
        axes = np.linalg.eigh(covariance)[1]
        axis = axes[:, -1 if name == "strongest" else 0]
        return tuple(float(value) for value in axis * np.sign(axis[np.argmax(np.abs(axis))]))

    def _published_file(self, name: Any) -> Path | None:
        if name is None:
            return None
        if not isinstance(name, str) or Path(name).name != name:
            self._fail(f"published must name a CSV file beside the design, got {name!r:.60}", "published")
        return self.folder / name

    def _published(self, path: Path | None) -> dict[tuple[Any, ...], float]:
        """Read published medians: columns release, p, n, count, rows (empty for parameters) and median."""
        if path is None:
            return {}
        try:
            with path.open(encoding="utf-8", newline="") as file:
                return {_place_of(line): float(line["median"]) for line in csv.DictReader(file)}
        except (OSError, KeyError, ValueError) as error:
            fault = reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            words = f"{path.name} must be a CSV file with columns release, p, n, count, rows and median"
            self._fail(f"{words}; {fault}", "published")

    def _vector(self, value: Any, key: str, p: int, place: int) -> tuple[float, ...]:
        values = value if isinstance(value, list) else [value] * p
        if len(values) != p:
            self._fail(f"{key} has {len(values)} values for p = {p}; give {p}, or one number for all", key, place)
        return tuple(self._number(entry, key, place) for entry in values)

    def _number(self, value: Any, key: str, place: int | None) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e100:
            self._fail(f"{key} must be a finite number, got {value!r:.60}", key, place)
        return float(value)

    def _whole(
        self, value: Any, key: str, least: int, place: int | None, why: str = "", most: int = MOST_ROWS
    ) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self._fail(f"{key} must be a whole number of at least {least}, got {value!r:.60}{why}", key, place)
        if value > most:
            self._fail(f"{key} can be at most {most:,} here, got {value:,}", key, place)
        return value

    def _one_of(self, value: Any, key: str, known: tuple[str, ...], place: int) -> str:
        if value not in known:
            self._fail(f"{key} must be {_either(known)}, got {value!r:.60}", key, place)
        return str(value)

    def _require_known(self, entries: dict[str, Any], known: tuple[str, ...], place: int | None) -> None:
        for key in entries:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                cure = f"did you mean {near[0]!r}?" if near else f"known here are {', '.join(known)}"
                self._fail(f"unknown key {key!r}; {cure}", key, place)

    def _fail(self, message: str, key: str, place: int | None = None) -> NoReturn:
        raise InputError(f"{self.name}, line {_line_of(self.text, key, place)}: {message}")
