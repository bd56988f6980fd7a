"""The simulation study: every cell of a design, a block of replicates at a time, from sufficient statistics."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.build import from_parameters, from_statistics, with_own_prior
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.paper_methods import lbfgsb
from allbutone.disclosure.lacking_records import measure_missing
from allbutone.disclosure.measures import Measures, measure
from allbutone.disclosure.simulated_releases import SimulatedReleases, releases_at_once, triangle
from allbutone.integrals.several_missing import sample_missing
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.release import DatasetRelease, ParameterRelease
from allbutone.releases.statistics import ParameterStatistics, Statistics
from allbutone.studies.design import Cell
from allbutone.studies.published import another_thousand
from allbutone.support.arrays import solve_rows

AT_ONCE = 1 << 22  # numbers held when whole records are drawn
LACKING_AT_ONCE = 100  # replicates whose missing records are sampled together


@dataclass(frozen=True, eq=False)
class Replicates:
    """What came of each replicate of a cell: the adversary's guess, its distance from the target, and baselines.

    `baseline`: the distance of the others' centre, which needs no release; `law`: that by the exposure law.
    """

    candidate: Float[np.ndarray, "r p"]
    distance: Float[np.ndarray, " r"]
    exposure: Float[np.ndarray, " r"]
    baseline: Float[np.ndarray, " r"]
    leverage: Float[np.ndarray, " r"]
    law: Float[np.ndarray, " r"]
    unconverged: Int[np.ndarray, " r"]

    @classmethod
    def joined(cls, blocks: list["Replicates"]) -> "Replicates":
        """Put the blocks of a cell one after the other."""
        return cls(
            *(np.concatenate([getattr(block, name) for block in blocks]) for name in cls.__dataclass_fields__)
        )


def simulate_cell(
    cell: Cell, replicates: int, seed: int, solver: str = "exact", records: bool = False
) -> Replicates:
    """Simulate and attack the replicates of one cell.

    With `records` the records of every table and dataset are drawn themselves, as the paper does; otherwise only
    the statistics that the attack sees. The solver "lbfgsb" is the paper's own and needs the records.
    """
    whole = records or solver == "lbfgsb"
    blocks = []
    for rng, size in _blocks(cell, replicates, seed, whole):
        if solver == "lbfgsb":
            blocks.append(_as_printed(cell, size, rng))
        elif cell.lacking_records:
            blocks.append(_lacking_several(cell, size, rng))
        else:
            blocks.append(_attacked(cell, *(_from_records if whole else _from_statistics)(cell, size, rng)))
    return Replicates.joined(blocks)


def _blocks(cell: Cell, replicates: int, seed: int, whole: bool) -> Iterator[tuple[np.random.Generator, int]]:
    """Yield a stream and a size for each block: both depend on the seed and the cell alone."""
    size = releases_at_once(cell.law, cell.count)
    if whole:
        size = max(1, AT_ONCE // (cell.p * (cell.n + cell.count * (cell.rows or cell.p))))
    if cell.lacking_records:
        size = min(size, LACKING_AT_ONCE)
    name = np.frombuffer(hashlib.blake2b(cell.key.encode(), digest_size=16).digest(), dtype=np.uint32).tolist()
    for block, start in enumerate(range(0, replicates, size)):
        sequence = np.random.SeedSequence([seed, *name, whole, block])
        yield np.random.Generator(np.random.SFC64(sequence)), min(size, replicates - start)


def _from_statistics(cell: Cell, size: int, rng: np.random.Generator) -> tuple[Moments, Any, LogQuadratic]:
    """Draw the others' mean and scatter, and the releases in the coordinates of each target; nothing else."""
    root = np.linalg.cholesky(np.array(cell.covariance))
    known = cell.n - 1
    mean = np.array(cell.mean) + rng.standard_normal((size, cell.p)) @ root.T / np.sqrt(known)
    half = root @ np.moveaxis(triangle(rng, known - 1.0 - np.arange(cell.p), size), 2, 0)
    moments = Moments(float(known), mean, half @ half.swapaxes(1, 2))
    given_others = cell.prior_of(cell.prior).update(moments)
    moments, given_others, targets = _as_known(cell, moments, given_others, cell.targets(given_others))
    white = solve_rows(given_others.root, targets - given_others.mean)
    inflation = given_others.mean_weight / (given_others.mean_weight + 1)
    drawn = SimulatedReleases.of(cell.law, cell.count, size, rng)
    problem, _ = drawn.problem(inflation * np.sum(white * white, axis=1))
    own = replace(problem, centre=given_others.mean, root=given_others.root @ _turned_to(white))
    return moments, targets, own


def _turned_to(direction: Float[np.ndarray, "r p"]) -> Float[np.ndarray, "r p p"]:
    """Return orthogonal Q, whose last column is the direction: Householder's reflection, with a sign.

    With u the unit vector, s = ±1 the sign of its last entry and h = u + s·e_p, Q = s·(2hhᵀ/hᵀh − I).
    """
    unit = direction / np.linalg.norm(direction, axis=1, keepdims=True)
    sign = np.where(unit[:, -1] < 0, -1.0, 1.0)
    unit[:, -1] += sign
    scaled = 2 * unit / np.sum(unit * unit, axis=1, keepdims=True)
    return sign[:, None, None] * (unit[:, :, None] * scaled[:, None, :] - np.eye(unit.shape[1]))


def _from_records(cell: Cell, size: int, rng: np.random.Generator) -> tuple[Moments, Any, LogQuadratic]:
    """Draw every record of every table and dataset, and summarize them: the long way round."""
    _, moments, given_others, targets = _tables(cell, size, rng)
    released = _released(cell, given_others, targets, rng)
    moments, given_others, targets = _as_known(cell, moments, given_others, targets)
    return moments, targets, from_statistics(given_others, released)


def _as_known(
    cell: Cell, moments: Moments, given_others: NIW, targets: np.ndarray
) -> tuple[Moments, NIW, Float[np.ndarray, "r a"]]:
    """Return the others' moments, their model and the targets in the columns that the adversary has."""
    if not cell.lacking_columns:
        return moments, given_others, targets
    known = cell.known
    some = Moments(moments.count, moments.mean[..., known], moments.scatter[..., known, :][..., known])
    return some, given_others.marginal(known), targets[..., known]


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
    return _replicates(cell, measure_missing(found, truth, np.arange(size)), np.zeros(size, dtype=bool))


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


def _attacked(cell: Cell, moments: Moments, targets: np.ndarray, problem: LogQuadratic) -> Replicates:
    if cell.adversary_prior is not None:
        problem = with_own_prior(problem, cell.prior_of(cell.adversary_prior).marginal(cell.known).update(moments))
    found = measure(problem, targets)
    assert found.modes is not None
    return _replicates(cell, found, ~found.modes.converged)


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
    return _replicates(cell, measure(nothing, targets, guess=np.array(found)), np.zeros(size, dtype=bool))


def _replicates(cell: Cell, found: Measures, unconverged: np.ndarray) -> Replicates:
    return Replicates(
        candidate=found.guess,
        distance=found.distance,
        exposure=found.exposure,
        baseline=found.baseline_distance,
        leverage=found.leverage,
        law=(1 - cell.law.exposure(found.leverage, cell.count)) * found.baseline_distance,
        unconverged=unconverged.astype(int),
    )


def summarize(cell: Cell, found: Replicates) -> dict[str, Any]:
    """Return a cell's row of the table of results."""
    low, median, high = (float(value) for value in np.quantile(found.distance, [0.25, 0.5, 0.75]))
    return {
        "release": cell.release,
        "p": cell.p,
        "n": cell.n,
        "count": cell.count,
        "rows": cell.rows,
        "structure": cell.structure,
        "correlation": cell.correlation,
        "position": cell.position,
        "lacking_columns": cell.lacking_columns,
        "lacking_records": cell.lacking_records,
        "replicates": len(found.distance),
        "median": median,
        "q25": low,
        "q75": high,
        "min": float(found.distance.min()),
        "max": float(found.distance.max()),
        "baseline_median": float(np.median(found.baseline)),
        "leverage_median": float(np.median(found.leverage)),
        "exposure_q25": float(np.quantile(found.exposure, 0.25)),
        "exposure_median": float(np.median(found.exposure)),
        "exposure_q75": float(np.quantile(found.exposure, 0.75)),
        "right_mode": float(np.mean(found.exposure > 0)),
        "law_median": float(np.median(found.law)),
        "unconverged": int(found.unconverged.sum()),
        **another_thousand(found.candidate, found.distance),
        **{f"mean_x{place}": float(value) for place, value in enumerate(found.candidate.mean(axis=0), 1)},
    }
