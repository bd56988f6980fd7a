"""The simulation study: every cell of a design, a block of replicates at a time, from sufficient statistics."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.build import from_parameters, from_statistics, with_own_prior
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.paper_methods import lbfgsb
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.lacking_records import measure_missing
from allbutone.disclosure.measures import Measures, measure
from allbutone.disclosure.simulated_releases import SimulatedReleases, releases_at_once
from allbutone.integrals.several_missing import sample_missing
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.release import DatasetRelease, ParameterRelease
from allbutone.releases.statistics import ParameterStatistics, Statistics
from allbutone.studies.design import Cell
from allbutone.studies.replicates import Replicates, measured
from allbutone.support.arrays import append_axes, array_namespace, as_array, contiguous
from allbutone.support.definite import solve_lower
from allbutone.support.streams import Stream, normals, triangle

Array = Any

AT_ONCE = 1 << 22  # numbers held when whole records are drawn
LACKING_AT_ONCE = 100  # replicates whose missing records are sampled together


@dataclass(frozen=True, eq=False)
class Drawn:
    """The random part of some replicates: how many people are known, their mean and scatter, and the releases."""

    known: Any
    mean: Float[Array, "r p"]
    half: Float[Array, "p p r"]
    releases: SimulatedReleases

    @classmethod
    def of(cls, cells: Sequence[Cell], size: int, rng: Stream) -> "Drawn":
        """Draw what is random in so many replicates of each cell, whose shapes agree; nothing else.

        One cell takes a generator of NumPy's, several as many streams.
        """
        first, p = cells[0], cells[0].p
        one = isinstance(rng, np.random.Generator)

        def each(numbers: list[Any]) -> Any:
            return numbers[0] if one else np.array(numbers, dtype=float)

        known = each([float(cell.n - 1) for cell in cells])
        mean = normals(rng, (size, p), axis=0)
        half = triangle(rng, append_axes(known, 1) - 1.0 - np.arange(p), size)
        law = ExposureLaw(
            len(first.known),
            each([cell.law.mean_weight for cell in cells]),
            each([cell.law.df for cell in cells]),
            None if first.rows is None else each([cell.rows for cell in cells]),
        )
        count = each([cell.count for cell in cells]) if first.rows is None else first.count
        releases = SimulatedReleases.of(law, count, size, rng)
        return cls(known if one else as_array(np.repeat(known, size), like=mean), mean, half, releases)


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
            drawn = _from_records(cell, size, rng) if whole else from_drawn(cell, Drawn.of([cell], size, rng))
            blocks.append(Replicates.of(measured(attacked(cell, *drawn))))
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
        size = max(1, AT_ONCE // (cell.p * (cell.n + cell.count * (cell.rows or cell.p))))
    return min(size, LACKING_AT_ONCE) if cell.lacking_records else size


def from_drawn(cell: Cell, drawn: Drawn) -> tuple[Moments, Any, Any, LogQuadratic]:
    """Return the others' moments, the targets, and in coordinates of each itself and what the releases say of it.

    In its own coordinates a target lies on the last axis.
    """
    xp, known = array_namespace(drawn.mean), drawn.known
    root = as_array(np.linalg.cholesky(np.array(cell.covariance)), like=drawn.mean)
    centre = as_array(np.array(cell.mean), like=drawn.mean)
    half = xp.reshape(root @ xp.reshape(drawn.half, (cell.p, -1)), drawn.half.shape)
    half = contiguous(xp.moveaxis(half, 2, 0))
    mean = centre + drawn.mean @ root.T / append_axes(known**0.5, 1)
    moments = Moments(known, mean, half @ xp.matrix_transpose(half))
    given_others = cell.prior_of(cell.prior).moved(like=mean).update(moments)
    moments, given_others, targets = _as_known(cell, moments, given_others, cell.targets(given_others))
    white = solve_lower(given_others.root, targets - given_others.mean)
    inflation = given_others.mean_weight / (given_others.mean_weight + 1)
    problem, place = drawn.releases.problem(inflation * xp.sum(white * white, axis=1))
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


def _from_records(cell: Cell, size: int, rng: np.random.Generator) -> tuple[Moments, Any, Any, LogQuadratic]:
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
    return Replicates.of(measured(measure_missing(found, truth, np.arange(size))))


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


def attacked(
    cell: Cell, moments: Moments, targets: Float[Array, "r p"], white: Float[Array, "r p"], problem: LogQuadratic
) -> Measures:
    """Attack, as an adversary with a prior of their own if the cell says so, and measure; `white`: the targets."""
    if cell.adversary_prior is not None and cell.reading == "record":
        own = cell.prior_of(cell.adversary_prior).marginal(cell.known).moved(like=targets)
        problem = with_own_prior(problem, own.update(moments))
    return measure(problem, targets, white=white)


def _as_printed(cell: Cell, size: int, rng: np.random.Generator) -> Replicates:
    """Attack with the paper's own method: L-BFGS-B from its starting value, one release after the other."""
    others, _, given_others, targets = _tables(cell, size, rng)
    means, roots = _drawn_parameters(cell, given_others, targets, rng)
    prior, found = cell.prior_of(cell.prior), []
    datasets = None if cell.rows is None else _drawn_datasets(cell, means, roots, rng)
    for place in range(size):
        release: ParameterRelease | DatasetRelease
        if datasets is None:
            release = ParameterRelease(means[place], roots[place] @ roots[place].swapaxes(-1, -2))
        else:
            release = DatasetRelease(tuple(datasets[place]))
        found.append(lbfgsb(others[place], release, prior).mode)
    nothing = from_parameters(
        given_others, given_others.root, 0, np.zeros((size, cell.p, cell.p)), np.zeros((size, cell.p))
    )
    return Replicates.of(measured(measure(nothing, targets, guess=np.array(found))))
