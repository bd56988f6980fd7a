"""Cells of one shape simulated together: one cell alone would not keep a graphics card busy."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from allbutone.adversary.log_quadratic import LogQuadratic, stacked
from allbutone.model.moments import Moments
from allbutone.studies.design import Cell
from allbutone.studies.replicates import Replicates, measured
from allbutone.studies.simulate_cell import Drawn, attacked, blocks_of, from_drawn, numbers_of
from allbutone.support.arrays import array_namespace, as_array, zeros
from allbutone.support.errors import Cure, InputError

VARYING = ("release", "n", "rows", "count")  # among cells that are simulated together
AT_ONCE = 1 << 27  # numbers in the wells that are held at a time: 1 GB, and several times that while it is made


def require_for_devices(cells: Iterable[Cell], solver: str, records: bool) -> None:
    """Refuse what only the processor can do."""
    cure = Cure("compute on the processor", "device", "cpu")
    if solver != "exact":
        raise InputError("the paper's own solver runs on the processor alone", cure)
    if records:
        raise InputError("whole records are drawn on the processor alone", cure)
    if any(cell.reading == "mechanism" for cell in cells):
        raise InputError("an adversary who mistakes the mechanism is simulated on the processor alone", cure)
    if any(cell.lacking_records for cell in cells):
        raise InputError("an adversary who lacks several records is simulated on the processor alone", cure)


def alike(cells: Iterable[Cell], replicates: int) -> list[list[Cell]]:
    """Return the cells in groups that can be simulated together, those of the most work first.

    They differ in nothing but the numbers of people, rows, draws and datasets. Releases of fewer datasets take as
    much work as the one of most, so a group ends where it would grow too large. A single release, after which
    nothing pushes outward, is another matter than several.
    """
    families: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        rest = (str(getattr(cell, field.name)) for field in fields(cell) if field.name not in VARYING)
        families.setdefault((cell.count == 1, *rest), []).append(cell)
    groups = []
    for family in families.values():
        group: list[Cell] = []
        for cell in sorted(family, key=lambda cell: (numbers_of(cell), cell.rows is None)):
            if group and (len(group) + 1) * _size(cell, replicates) * numbers_of(cell) > AT_ONCE:
                groups.append(group)
                group = []
            group.append(cell)
        groups.append(group)
    return sorted(groups, key=lambda group: -numbers_of(group[-1]))


def _size(cell: Cell, replicates: int) -> int:
    """Return how many replicates of a cell are drawn from one stream."""
    return min(replicates, max(1, AT_ONCE // numbers_of(cell)))


def simulate_together(
    cells: Sequence[Cell], replicates: int, seed: int, streams: Callable[[Sequence[np.random.SeedSequence]], Any]
) -> list[Replicates]:
    """Simulate and attack the replicates of cells that are alike, all at once.

    `streams` makes streams of random numbers from seeds: where they draw, everything is computed. The numbers of a
    cell come from streams of its own, so they do not depend on the company it is in.
    """
    kinds: dict[Any, list[Cell]] = {}
    for cell in cells:
        kinds.setdefault(cell.rows and cell.count, []).append(cell)
    rounds = zip_longest(*(_rounds(kind, replicates, seed) for kind in kinds.values()))
    parts: dict[str, list[Replicates]] = {cell.key: [] for cell in cells}
    for now in rounds:
        some = [(kind, *drawn) for kind, drawn in zip(kinds.values(), now, strict=True) if drawn is not None]
        every = [from_drawn(cells[0], Drawn.of(kind, size, streams(seeds))) for kind, seeds, size in some]
        found = measured(attacked(cells[0], *_joined(every)))
        end = 0
        for kind, _, size in some:
            for cell in kind:
                parts[cell.key].append(Replicates.of(found, slice(end, end + size)))
                end += size
    return [Replicates.joined(parts[cell.key]) for cell in cells]


def _rounds(kind: list[Cell], replicates: int, seed: int) -> Iterator[tuple[list[np.random.SeedSequence], int]]:
    """Yield, for each block of replicates of cells of one kind, a seed a cell and the block's size."""
    blocks = (blocks_of(cell, replicates, seed, _size(cell, replicates)) for cell in kind)
    for each in zip(*blocks, strict=True):
        yield [sequence for sequence, _ in each], each[0][1]


def _joined(parts: list[tuple[Moments, Any, Any, LogQuadratic]]) -> tuple[Moments, Any, Any, LogQuadratic]:
    moments, targets, white, problems = zip(*parts, strict=True)
    if len(parts) == 1:
        return parts[0]
    xp = array_namespace(targets[0])
    whole = (xp.concat([getattr(each, name) for each in moments]) for name in ("count", "mean", "scatter"))
    wells = max(problem.wells for problem in problems)
    every = stacked([_filled_up(problem, wells) for problem in problems])
    return Moments(*whole), xp.concat(targets), xp.concat(white), every


def _filled_up(problem: LogQuadratic, wells: int) -> LogQuadratic:
    """Return the posteriors with so many wells, those of no weight first, and every field one a posterior."""
    xp, (n, p) = array_namespace(problem.centre), problem.centre.shape
    tails = {"df": (), "outward": (), "inflation": (), "root": (p, p), "precision": (p, p), "pull": (p,)}
    tails |= {"weights": (problem.wells,), "levels": (problem.wells,)}
    tails |= {"slopes": (problem.wells, p), "shapes": (problem.wells, p, p)}
    found = {
        name: xp.broadcast_to(as_array(getattr(problem, name), like=problem.centre), (n, *tail))
        for name, tail in tails.items()
    }
    for name in ("weights", "levels", "slopes", "shapes"):
        nothing = zeros((n, wells - problem.wells, *tails[name][1:]), like=problem.centre)
        found[name] = xp.concat([nothing + (1.0 if name == "levels" else 0.0), found[name]], axis=1)
    return replace(problem, **found)
