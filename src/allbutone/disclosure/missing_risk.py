"""Risk where the adversary lacks further records of a table with categories, or has a prior of their own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int

from allbutone.adversary.build import from_parameters
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.missing_in_cells import MissingInCells, TargetBeliefs, Unknown, beliefs_of
from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.adversary.proposal import Points
from allbutone.disclosure.measures import (
    Group,
    Measures,
    measure,
    prior_log_density,
    prior_mass,
    prior_probability,
)
from allbutone.model.niw import NIW
from allbutone.support.parallel import in_parallel

BLOCK_GROUPS = 16  # tables whose missing records are drawn at once
Level = tuple[np.ndarray, np.ndarray, np.ndarray]


def measure_missing_in_cells(
    everyone: MixedLeaveOneOut,
    groups: Sequence[Group],
    rng: np.random.Generator,
    near: Intervals,
    radius: float | None,
    known: Sequence[int],
    points: Points,
    watch: Callable[[int], None] = lambda records: None,
) -> list[tuple[Int[np.ndarray, " t"], Measures, list[Level]]]:
    """Attack the targets of every group: their places, what was learned, and of each category the own level.

    known: categories that are known of everybody, such as kept ones.
    """
    same_size: dict[int, list[Group]] = {}
    for group in groups:
        same_size.setdefault(len(group.missing), []).append(group)
    blocks = [
        held[at : at + BLOCK_GROUPS] for held in same_size.values() for at in range(0, len(held), BLOCK_GROUPS)
    ]

    def attack(work: tuple[list[Group], np.random.Generator]) -> tuple[np.ndarray, Measures, list[Level]]:
        block, stream = work
        shared = MissingInCells.of(everyone, [one.missing for one in block], known)
        states = shared.draw(stream)
        places, beliefs, before = list[int](), list[TargetBeliefs](), list[NIW]()
        shares = []
        for table, group in enumerate(block):
            for target in group.targets:
                which = int(np.flatnonzero(group.missing == target)[0])
                close = near.take(np.array([target]))
                beliefs.append(beliefs_of(shared, states, table, which, close, radius, points))
                places.append(int(target))
                before.append(_before(shared, table, which))
                weights = np.where(shared.possible[table, which], shared.believed.weights[table], 0.0)
                shares.append(weights / weights.sum())
        rows = np.array(places)
        return rows, *_measured(everyone, rows, beliefs, _stacked(before), np.stack(shares), near, radius)

    work = list(zip(blocks, rng.spawn(len(blocks)), strict=True))
    return in_parallel(attack, work, watch=lambda result: watch(len(result[0])))


def _before(shared: MissingInCells, table: int, which: int) -> NIW:
    """Return what is believed of a missing record's measurements in its own cell without any release."""
    truth = shared.truth[table].take([which])
    nobody = Unknown(np.array([table]), np.zeros((1, 0), dtype=np.int64), np.zeros((1, 0, truth.values.shape[1])),
                     np.zeros((1, 0, truth.covariates.shape[1])))  # fmt: skip
    return shared.believed.given(truth.cells, truth.covariates, nobody, np.ones((1, 0), dtype=bool))


def _stacked(models: Sequence[NIW]) -> NIW:
    names = ("mean", "mean_weight", "df", "scale")
    return NIW(*(np.concatenate([np.asarray(getattr(one, name)) for one in models]) for name in names))


def _measured(
    everyone: MixedLeaveOneOut,
    rows: Int[np.ndarray, " t"],
    beliefs: Sequence[TargetBeliefs],
    before: NIW,
    shares: np.ndarray,
    near: Intervals,
    radius: float | None,
) -> tuple[Measures, list[Level]]:
    """Return the measures of these targets beside what is known without a release, and of each own level."""
    truth, own = everyone.records.values[rows], everyone.records.cells[rows]
    t, p = truth.shape
    nothing = from_parameters(before, before.root, 0, np.zeros((t, p, p)), np.zeros((t, p)))
    known = measure(nothing, truth, guess=np.stack([each.guess for each in beliefs]))
    white = nothing.whiten(truth)
    log_before = prior_log_density(nothing, white) - nothing.log_volume + np.log(shares[np.arange(t), own])
    told: dict[str, Any] = {
        "information_gain": np.array([each.log_density for each in beliefs]) - log_before,
        "information_gain_error": np.array([each.log_density_error for each in beliefs]),
        "probability": np.stack([each.within for each in beliefs]),
        "probability_error": np.stack([each.within_error for each in beliefs]),
        "baseline": prior_probability(nothing, near.take(rows)),
    }
    if radius is not None:
        told |= {
            "mass": np.array([each.mass for each in beliefs]),
            "mass_error": np.array([each.mass_error for each in beliefs]),
            "prior_mass": prior_mass(nothing, white, radius),
        }
    levels, codes = [], everyone.whole.cells.codes
    for category in range(codes.shape[1]):
        same = codes[None, :, category] == codes[own, category][:, None]
        inside = np.array([each.probability @ line for each, line in zip(beliefs, same, strict=True)])
        by_chain = [each.probability_by_chain @ line for each, line in zip(beliefs, same, strict=True)]
        error = np.array([each.std(ddof=1) / np.sqrt(len(each)) for each in by_chain])
        levels.append((inside, error, np.sum(shares * same, axis=1)))
    return replace(known, **told), levels
