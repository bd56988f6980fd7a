"""Every subset of the three causes on every published cell, each printed number judged under each."""

import json
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.paper.design import Cell, another_thousand
from allbutone.paper.design_file import read_design
from allbutone.support.parallel import cores
from replication.many_searches import maximise
from replication.scores import Attacks, Causes
from replication.tables import TARGET

AT_ONCE = 100_000  # released draws or datasets held at a time
TOGETHER, NONE = Causes(True, True, True), Causes()
SUBSETS = [Causes(*on) for on in sorted(product((True, False), repeat=3), key=lambda on: (sum(on), on[::-1]))]
Row = dict[str, float | None]


def published_cells() -> list[Cell]:
    """Return the 108 cells of Tables A.1 to A.3."""
    design = read_design("paper")
    return [cell for cell in design.cells if design.printed(cell)]


def attacked(cell: Cell, causes: Causes, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """Return the guesses of so many replicates, 2 × r: L-BFGS-B from the paper's start."""
    step = max(1, AT_ONCE // max(cell.count, 10))
    blocks = []
    for start in range(0, replicates, step):
        some = Attacks.drawn(cell, causes, min(step, replicates - start), rng)
        blocks.append(maximise(some.score, some.start))
    return np.concatenate(blocks, axis=1)


def row_of(place: int, causes: Causes, replicates: int) -> Row:
    """Return a cell's numbers under some causes, and the 99 % intervals for another 1000 replicates."""
    seed = [1, place, SUBSETS.index(causes)]
    guesses = attacked(published_cells()[place], causes, replicates, np.random.default_rng(seed))
    distance = np.linalg.norm(guesses - TARGET, axis=0)
    means = {f"mean_x{at}": float(mean) for at, mean in enumerate(guesses.mean(axis=1), 1)}
    return another_thousand(guesses.T, distance) | means | {"median": float(np.median(distance))}


def run(out: Path, many: int, few: int, progress: Any) -> None:
    """Run all subsets on all cores, and write their rows; `many` replicates for none and for all three causes."""
    cells = published_cells()
    jobs = [
        (place, causes, many if causes in (TOGETHER, NONE) else few)
        for place, causes in product(range(len(cells)), SUBSETS)
        # released parameters know no rows
        if cells[place].rows is not None or not causes.doubled_rows or causes == TOGETHER
    ]
    jobs.sort(key=lambda job: -job[2] * max(10, cells[job[0]].count))
    rows: dict[str, dict[str, Row]] = {causes.words: {} for causes in SUBSETS}
    start = time.monotonic()
    with ProcessPoolExecutor(cores()) as pool:
        waiting = {pool.submit(row_of, *job): job for job in jobs}
        for done, future in enumerate(as_completed(waiting), 1):
            place, causes, _ = waiting[future]
            rows[causes.words][cells[place].key] = future.result()
            if done % 20 == 0 or done == len(jobs):
                print(f"{done} of {len(jobs)} runs in {time.monotonic() - start:.0f} s", file=progress, flush=True)
    for place, causes in product(range(len(cells)), SUBSETS):
        if cells[place].rows is None and causes.doubled_rows and causes != TOGETHER:
            without = Causes(causes.recycled_mean, causes.n_others)
            rows[causes.words][cells[place].key] = rows[without.words][cells[place].key]
    held = {"many": many, "few": few, "subsets": {words: _in_order(found, cells) for words, found in rows.items()}}
    out.write_text(json.dumps(held), encoding="utf-8")


def _in_order(found: dict[str, Row], cells: Iterable[Cell]) -> list[Row]:
    return [{name: _short(value) for name, value in found[cell.key].items()} for cell in cells]


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
