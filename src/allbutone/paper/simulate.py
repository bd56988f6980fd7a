"""The simulation study: every cell of a design, a block of replicates at a time, from sufficient statistics."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.build import from_parameters, from_statistics, with_own_prior
from allbutone.adversary.log_quadratic import LogQuadratic, stacked
from allbutone.adversary.missing import sample_missing
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.measures import measure
from allbutone.disclosure.missing_risk import measure_missing
from allbutone.disclosure.simulation import SimulatedReleases, releases_at_once
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.paper.design import Cell
from allbutone.paper.journal import Replicates
from allbutone.paper.methods import lbfgsb
from allbutone.releases.release import Release
from allbutone.releases.statistics import ParameterStatistics, Statistics
from allbutone.support.arrays import append_axes, array_namespace, as_array, contiguous, solve_rows, zeros
from allbutone.support.devices import Stream, normals, triangle
from allbutone.support.errors import Cure, InputError

Array = Any
# the others' moments, the targets, and in coordinates of each itself and what the releases say of it
Attack = tuple[Moments, Any, Any, LogQuadratic]

RECORD_NUMBERS = 1 << 22  # numbers held when whole records are drawn
LACKING_AT_ONCE = 100  # replicates whose missing records are sampled together
WELL_NUMBERS = 1 << 27  # held in the wells at a time: 1 GB, and several times that while it is made
VARYING = ("release", "n", "rows", "count")  # among cells that are simulated together


def simulate_cell(
    cell: Cell, replicates: int, seed: int, solver: str = "exact", records: bool = False
) -> Replicates:
    """Simulate and attack the replicates of one cell.

    With `records` the records of every table and dataset are drawn themselves, as the paper does; otherwise only
    the statistics that the attack sees. The solver "lbfgsb" is the paper's own and needs the records; so does an
    adversary who takes the mechanism for another: what they see is not drawn in coordinates of their own.
    """
    whole = records or solver == "lbfgsb" or cell.reading == "mechanism"
    blocks = []
    for sequence, size in blocks_of(cell, replicates, seed, _replicates_at_once(cell, whole), whole):
        rng = np.random.Generator(np.random.SFC64(sequence))
        if solver == "lbfgsb":
            blocks.append(_as_printed(cell, size, rng))
        elif cell.lacking_records:
            blocks.append(_lacking_several(cell, size, rng))
        else:
            drawn = _from_records(cell, size, rng) if whole else _from_statistics([cell], size, rng)
            blocks.append(_attacked(cell, *drawn))
    return Replicates.joined(blocks)


def numbers_of(cell: Cell) -> int:
    """Return how many numbers the wells of one replicate hold."""
    return (1 if cell.rows is None else cell.count) * len(cell.known) ** 2


def blocks_of(
    cell: Cell, replicates: int, seed: int, size: int, whole: bool = False
) -> Iterator[tuple[np.random.SeedSequence, int]]:
    """Yield a seed and a size for each block of so many replicates: both depend on the seed and the cell alone."""
    name = np.frombuffer(hashlib.blake2b(cell.key.encode(), digest_size=16).digest(), dtype=np.uint32).tolist()
    for block, start in enumerate(range(0, replicates, max(1, size))):
        yield np.random.SeedSequence([seed, *name, whole, block]), min(max(1, size), replicates - start)


def _replicates_at_once(cell: Cell, whole: bool) -> int:
    size = releases_at_once(cell.law, cell.count)
    if whole:
        size = max(1, RECORD_NUMBERS // (cell.p * (cell.n + cell.count * (cell.rows or cell.p))))
    return min(size, LACKING_AT_ONCE) if cell.lacking_records else size


def _from_statistics(cells: Sequence[Cell], size: int, rng: Stream) -> Attack:
    """Draw no more than the attack sees of so many replicates of each cell; the cells differ in `VARYING` alone.

    One cell takes a generator of NumPy's, several as many streams. In its own coordinates a target lies on the
    last axis.
    """
    cell, p, one = cells[0], cells[0].p, isinstance(rng, np.random.Generator)

    def each(numbers: list[Any]) -> Any:
        return numbers[0] if one else np.array(numbers, dtype=float)

    people = each([float(cell.n - 1) for cell in cells])
    centred = normals(rng, (size, p), axis=0)
    half = triangle(rng, append_axes(people, 1) - 1.0 - np.arange(p), size)
    law = ExposureLaw(
        len(cell.known),
        each([cell.law.mean_weight for cell in cells]),
        each([cell.law.df for cell in cells]),
        None if cell.rows is None else each([cell.rows for cell in cells]),
    )
    count = each([cell.count for cell in cells]) if cell.rows is None else cell.count
    releases = SimulatedReleases.of(law, count, size, rng)
    xp, known = array_namespace(centred), people if one else as_array(np.repeat(people, size), like=centred)
    root = as_array(np.linalg.cholesky(np.array(cell.covariance)), like=centred)
    half = xp.reshape(root @ xp.reshape(half, (p, -1)), half.shape)
    half = contiguous(xp.moveaxis(half, 2, 0))
    mean = as_array(np.array(cell.mean), like=centred) + centred @ root.T / append_axes(known**0.5, 1)
    moments = Moments(known, mean, half @ xp.matrix_transpose(half))
    given_others = cell.prior_of(cell.prior).moved(like=mean).update(moments)
    moments, given_others, targets = _as_known(cell, moments, given_others, cell.targets(given_others))
    white = solve_rows(given_others.root, targets - given_others.mean)
    inflation = given_others.mean_weight / (given_others.mean_weight + 1)
    problem, place = releases.problem(inflation * xp.sum(white * white, axis=1))
    own = replace(problem, centre=given_others.mean, root=_turned_to(white, given_others.root))
    return moments, targets, place, own


def _turned_to(direction: Float[Array, "r p"], root: Float[Array, "r p p"]) -> Float[Array, "r p p"]:
    """Return RQ, Q orthogonal, whose last column is the direction: Householder's reflection, with a sign.

    With u the unit vector, s = ±1 the sign of its last entry and h = u + s·e_p, Q = s·(2hhᵀ/hᵀh − I).
    """
    xp = array_namespace(direction)
    unit = direction / xp.linalg.vector_norm(direction, axis=1, keepdims=True)
    sign = xp.where(unit[:, -1:] < 0, -xp.ones_like(unit[:, -1:]), xp.ones_like(unit[:, -1:]))
    unit[:, -1:] += sign
    scaled = sign * 2 * unit / xp.sum(unit * unit, axis=1, keepdims=True)
    return (root @ unit[:, :, None]) * scaled[:, None, :] - sign[:, :, None] * root


def _from_records(cell: Cell, size: int, rng: np.random.Generator) -> Attack:
    """Draw every record of every table and dataset, and summarize them: the long way round."""
    _, moments, given_others, targets = _tables(cell, size, rng)
    released = _released(cell, given_others, targets, rng)
    if cell.reading == "mechanism":
        assert cell.adversary_prior is not None
        given_others = cell.prior_of(cell.adversary_prior).update(moments)
    moments, given_others, targets = _as_known(cell, moments, given_others, targets)
    problem = from_statistics(given_others, released)
    return moments, targets, problem.whiten(targets), problem


def _as_known(
    cell: Cell, moments: Moments, given_others: NIW, targets: Float[Array, "r p"]
) -> tuple[Moments, NIW, Float[Array, "r a"]]:
    """Return the others' moments, their model and the targets in the columns that the adversary has."""
    if not cell.lacking_columns:
        return moments, given_others, targets
    kept = slice(len(cell.known))  # the first ones
    some = Moments(moments.count, moments.mean[..., kept], moments.scatter[..., kept, kept])
    return some, given_others.marginal(cell.known), targets[..., kept]


def _released(cell: Cell, given_others: NIW, targets: np.ndarray, rng: np.random.Generator) -> Statistics:
    """Draw releases of every table, and summarize them in the columns that the adversary has."""
    means, roots = _drawn_parameters(cell, given_others, targets, rng)
    known = cell.known
    if cell.rows is None:
        inverse = np.linalg.inv((roots @ roots.swapaxes(-1, -2))[..., known, :][..., known])
        pull = np.sum((inverse @ means[..., known, None])[..., 0], axis=1)
        return ParameterStatistics(cell.count, np.sum(inverse, axis=1), pull)
    datasets = _drawn_datasets(cell, means, roots, rng)[..., known]
    centre = np.mean(datasets, axis=2)
    centred = datasets - centre[:, :, None]
    return Moments(np.full(cell.count, float(cell.rows)), centre, centred.swapaxes(-1, -2) @ centred)


def _lacking_several(cell: Cell, size: int, rng: np.random.Generator) -> Replicates:
    """Attack where the adversary lacks some of the others, too: the last ones drawn."""
    others, _, given_others, targets = _tables(cell, size, rng)
    released = _released(cell, given_others, targets, rng)
    known = others[:, : len(others[0]) - cell.lacking_records]
    moments = _moments(known)
    _, model, truth = _as_known(cell, moments, cell.prior_of(cell.prior).update(moments), targets)
    effort: dict[str, Any] = {"chains": 4, "sweeps": 24, "warm_up": 8, "parts": 64}
    found = sample_missing(model, released, cell.lacking_records + 1, rng, **effort)
    return Replicates.of(measure_missing(found, truth, np.arange(size)))


def _tables(cell: Cell, size: int, rng: np.random.Generator) -> tuple[np.ndarray, Moments, NIW, np.ndarray]:
    root = np.linalg.cholesky(np.array(cell.covariance))
    others = np.array(cell.mean) + rng.standard_normal((size, cell.n - 1, cell.p)) @ root.T
    moments = _moments(others)
    given_others = cell.prior_of(cell.prior).update(moments)
    return others, moments, given_others, cell.targets(given_others)


def _moments(records: Float[np.ndarray, "r n p"]) -> Moments:
    mean = np.mean(records, axis=1)
    centred = records - mean[:, None]
    return Moments(float(records.shape[1]), mean, centred.swapaxes(1, 2) @ centred)


def _drawn_parameters(
    cell: Cell, given_others: NIW, targets: np.ndarray, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "r k p"], Float[np.ndarray, "r k p p"]]:
    nothing = np.zeros((len(targets), cell.p, cell.p))
    means, roots = given_others.update(Moments(1.0, targets, nothing)).draw_roots(rng, cell.count)
    return means.swapaxes(0, 1), roots.swapaxes(0, 1)


def _drawn_datasets(
    cell: Cell, means: np.ndarray, roots: np.ndarray, rng: np.random.Generator
) -> Float[np.ndarray, "r k z p"]:
    white = rng.standard_normal((*means.shape[:2], cell.rows or 0, cell.p))
    return means[:, :, None] + white @ roots.swapaxes(-1, -2)


def _attacked(
    cell: Cell, moments: Moments, targets: Float[Array, "r p"], white: Float[Array, "r p"], problem: LogQuadratic
) -> Replicates:
    """Attack, as an adversary with a prior of their own if the cell says so, and measure; `white`: the targets."""
    if cell.adversary_prior is not None and cell.reading == "record":
        own = cell.prior_of(cell.adversary_prior).marginal(cell.known).moved(like=targets)
        problem = with_own_prior(problem, own.update(moments))
    return Replicates.of(measure(problem, targets, white=white))


def _as_printed(cell: Cell, size: int, rng: np.random.Generator) -> Replicates:
    """Attack with the paper's own method: L-BFGS-B from its starting value, one release after the other."""
    others, _, given_others, targets = _tables(cell, size, rng)
    means, roots = _drawn_parameters(cell, given_others, targets, rng)
    datasets = None if cell.rows is None else _drawn_datasets(cell, means, roots, rng)
    prior, guesses = cell.prior_of(cell.prior), []
    for place in range(size):
        if datasets is None:
            release = Release.of_parameters(means[place], roots[place] @ roots[place].swapaxes(-1, -2))
        else:
            release = Release.of(tuple(datasets[place]))
        guesses.append(lbfgsb(others[place], release, prior).mode)
    zeros_of = (np.zeros((size, cell.p, cell.p)), np.zeros((size, cell.p)))
    nothing = from_parameters(given_others, given_others.root, 0, *zeros_of)
    return Replicates.of(measure(nothing, targets, guess=np.array(guesses)))


# Cells of one shape simulated together: one cell alone would not keep a graphics card busy.


def require_for_devices(cells: Iterable[Cell], solver: str, records: bool) -> None:
    """Refuse what only the processor can do."""
    problems = {
        "the paper's own solver runs": solver != "exact",
        "whole records are drawn": records,
        "an adversary who mistakes the mechanism is simulated": any(cell.reading != "record" for cell in cells),
        "an adversary who lacks several records is simulated": any(cell.lacking_records for cell in cells),
    }
    for problem in (problem for problem, asked in problems.items() if asked):
        cure = Cure("compute on the processor", "device", "cpu")
        raise InputError(f"{problem} on the processor alone", cure)


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
            if group and (len(group) + 1) * _size(cell, replicates) * numbers_of(cell) > WELL_NUMBERS:
                groups.append(group)
                group = []
            group.append(cell)
        groups.append(group)
    return sorted(groups, key=lambda group: -numbers_of(group[-1]))


def _size(cell: Cell, replicates: int) -> int:
    """Return how many replicates of a cell are drawn from one stream."""
    return min(replicates, max(1, WELL_NUMBERS // numbers_of(cell)))


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
    # of each kind, for each block of replicates, a seed a cell and the block's size
    blocks = (
        zip(*(blocks_of(cell, replicates, seed, _size(cell, replicates)) for cell in kind), strict=True)
        for kind in kinds.values()
    )
    parts: dict[str, list[Replicates]] = {cell.key: [] for cell in cells}
    for now in zip_longest(*blocks):
        some = [
            (kind, [sequence for sequence, _ in block], block[0][1])
            for kind, block in zip(kinds.values(), now, strict=True)
            if block is not None
        ]
        every = [_from_statistics(kind, size, streams(seeds)) for kind, seeds, size in some]
        found = _attacked(cells[0], *_joined(every))
        end = 0
        for kind, _, size in some:
            for cell in kind:
                parts[cell.key].append(found.part(slice(end, end + size)))
                end += size
    return [Replicates.joined(parts[cell.key]) for cell in cells]


def _joined(parts: list[Attack]) -> Attack:
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
