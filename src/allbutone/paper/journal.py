"""What came of a study, as it is kept: a journal with a line a cell, and the row of each cell in the results."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.disclosure.measures import Measures
from allbutone.paper.design import DISTANCES, TYPICAL, Cell, another_thousand
from allbutone.support.arrays import to_numpy
from allbutone.support.errors import Cure, InputError, reason
from allbutone.tables.safe_io import read_bytes

# A cell's result is one line appended in one write, by one run at a time. A killed run leaves at most one broken
# line at the end, which the next run cuts off.


try:
    import fcntl
except ImportError:  # Windows has no such lock: there, two runs in one folder do some cells twice
    fcntl = None  # type: ignore[assignment]

JOURNAL = "journal.jsonl"
QUANTILES = 101  # of distance, kept of every cell: what a violin is drawn from
TEXTS = ("release", "structure", "position")
WHOLES = ("cell", "p", "n", "count", "rows", "replicates", "unconverged")
LACKING = ("lacking_columns", "lacking_records")  # not in the journals of older versions, where it is nothing
NUMBERS = (
    *("correlation", "median", "q25", "q75", "min", "max", "baseline_median", "leverage_median", "exposure_q25"),
    *("exposure_median", "exposure_q75", "right_mode"),
)
_ENDS = (*(f"{name}_{end}" for name in DISTANCES for end in ("from", "to")), *TYPICAL.values())
_NAMES = TEXTS + WHOLES + NUMBERS + _ENDS
_MEAN = re.compile(r"mean_x[0-9]{1,4}(_from|_to)?")
_EARLIER = ("law_median",)  # in the journals of older versions; now computed where a study is read
_MAY_LACK = frozenset(("rows", *_ENDS))
_COUNTS, _KNOWN = frozenset(WHOLES + LACKING), frozenset(_NAMES + _EARLIER)
_RESUME = Cure("go on later", "resume", True)
_AGAIN = Cure("start again", "force", True)


@contextmanager
def lock_journal(path: Path) -> Iterator[int]:
    """Yield the journal open for one run alone; a second is refused, as is one whose folder is being replaced."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}", "name another folder") from error
    busy = InputError(f"another run is writing to {path.parent}", "wait for it", "name another folder")
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise busy from error
            if not path.exists() or not os.path.samestat(os.fstat(handle), path.stat()):
                raise busy  # it has just been replaced
        yield handle
    finally:
        os.close(handle)


def cut_broken_line(journal: int) -> None:
    """Remove a last line that is not whole, which only a killed run leaves."""
    with open(os.dup(journal), "rb") as file:
        file.seek(0)
        os.ftruncate(journal, file.read().rfind(b"\n") + 1)


def append_entry(journal: int, entry: dict[str, Any]) -> None:
    """Append a line in one write."""
    line = (json.dumps(entry) + "\n").encode()
    try:
        written = os.write(journal, line)
    except OSError as error:
        raise InputError(f"cannot write the journal: {reason(error)}", _RESUME) from error
    if written < len(line):
        raise InputError("cannot write the journal: the disk is full", "free space", _RESUME)


def read_journal(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the header and the entries; a last line that is not whole yet is left out."""
    content = read_bytes(path, "name the folder of a study")
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    parts = []
    for number, line in enumerate(lines, 1):
        try:
            part = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"damaged ({error!s:.80})", _AGAIN, where=f"{path}, line {number}") from error
        if not (_is_header(part) if number == 1 else _is_entry(part)):
            raise InputError("not what a study writes", _AGAIN, where=f"{path}, line {number}")
        parts.append(part)
    if not parts:
        raise InputError("empty", _AGAIN, where=str(path))
    return parts[0], parts[1:]


def _is_header(part: Any) -> bool:
    if not isinstance(part, dict) or part.get("device", "cuda") != "cuda":
        return False
    return _is_whole(part.get("replicates")) and isinstance(part.get("records"), bool)


def _is_entry(part: Any) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("cell"), str):
        return False
    quantiles = part.get("quantiles")
    if not isinstance(quantiles, list) or len(quantiles) != QUANTILES or not all(map(_is_number, quantiles)):
        return False
    row = part.get("row")
    return isinstance(row, dict) and row.keys() >= set(_NAMES) and all(map(_fits, row, row.values()))


def _fits(name: str, value: Any) -> bool:
    if value is None:
        return name in _MAY_LACK
    if name in TEXTS:
        return isinstance(value, str)
    if name in _COUNTS:
        return _is_whole(value)
    return _is_number(value) and (name in _KNOWN or _MEAN.fullmatch(name) is not None)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_whole(value)


# What came of the replicates of a cell, and its row in the table of results.


@dataclass(frozen=True, eq=False)
class Replicates:
    """What came of each replicate of a cell: the adversary's guess, its distance from the target, and baselines.

    `baseline`: the distance of the others' centre, which needs no release.
    """

    candidate: Float[np.ndarray, "r p"]
    distance: Float[np.ndarray, " r"]
    exposure: Float[np.ndarray, " r"]
    baseline: Float[np.ndarray, " r"]
    leverage: Float[np.ndarray, " r"]
    unconverged: Int[np.ndarray, " r"]

    @classmethod
    def of(cls, measures: Measures) -> "Replicates":
        """Return what a study keeps of the measures, as NumPy's arrays from whatever device they are on."""
        names = ("guess", "distance", "exposure", "baseline_distance", "leverage")
        kept = [to_numpy(getattr(measures, name)) for name in names]
        lost = np.zeros(len(kept[0])) if measures.modes is None else ~to_numpy(measures.modes.converged)
        return cls(*(*kept, lost.astype(int)))

    def part(self, rows: slice) -> "Replicates":
        """Return some of them."""
        return Replicates(*(getattr(self, field.name)[rows] for field in fields(self)))

    @classmethod
    def joined(cls, blocks: list["Replicates"]) -> "Replicates":
        """Put the blocks of a cell one after the other."""
        columns = ([getattr(block, field.name) for block in blocks] for field in fields(cls))
        return blocks[0] if len(blocks) == 1 else cls(*(np.concatenate(column) for column in columns))


def summarize(cells: Sequence[Cell], found: Sequence[Replicates]) -> list[tuple[dict[str, Any], list[float]]]:
    """Return, of cells with as many replicates each, the row in the table of results and quantiles of distance."""
    distance, exposure, baseline, leverage = (
        np.array([getattr(one, name) for one in found])
        for name in ("distance", "exposure", "baseline", "leverage")
    )
    quantiles = np.quantile(distance, np.linspace(0, 1, QUANTILES), axis=1)
    low, middle, high = np.quantile(exposure, (0.25, 0.5, 0.75), axis=1)
    columns = {
        "q25": quantiles[25],
        "median": quantiles[50],
        "q75": quantiles[75],
        "min": quantiles[0],
        "max": quantiles[-1],
        "baseline_median": np.median(baseline, axis=1),
        "leverage_median": np.median(leverage, axis=1),
        "exposure_q25": low,
        "exposure_median": middle,
        "exposure_q75": high,
        "right_mode": np.mean(exposure > 0, axis=1),
    }
    rows = (dict(zip(columns, row, strict=True)) for row in np.stack([*columns.values()], axis=1).tolist())
    return [
        (_setting(cell) | {"replicates": len(one.distance)} | row | _of_records(one), each)
        for cell, one, row, each in zip(cells, found, rows, quantiles.T.tolist(), strict=True)
    ]


def _setting(cell: Cell) -> dict[str, Any]:
    names = ("release", "p", "n", "count", "rows", "structure", "correlation", "position")
    return {name: getattr(cell, name) for name in (*names, *LACKING)}


def _of_records(found: Replicates) -> dict[str, Any]:
    means = found.candidate.mean(axis=0).tolist()
    return {
        "unconverged": int(found.unconverged.sum()),
        **another_thousand(found.candidate, found.distance),
        **{f"mean_x{place}": value for place, value in enumerate(means, 1)},
    }
