"""How the risk of some records falls with what the adversary lacks: other records, or columns of everyone."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.disclosure.lacking_records import groups_of, measure_groups
from allbutone.disclosure.per_record import in_known_columns, measure_block, require_same_mechanism
from allbutone.disclosure.rule import near_truth
from allbutone.integrals.proposal import Points
from allbutone.model.niw import NIW
from allbutone.releases.joined import Released
from allbutone.tables.records import Records

NUMBERS = (1, 2, 5, 10, 20)  # of records lacking besides the target
SUBSETS = 12  # of columns, over which the median of a measure is taken
MEASURED = ("distance", "relative_error", "exposure", "information_gain")


def risk_by_lacking(
    records: Records,
    release: Released,
    prior: NIW | None,
    rows: Sequence[int],
    *,
    numbers: Sequence[int] = NUMBERS,
    rng: np.random.Generator | None = None,
    watch: Callable[[int], None] = lambda settings: None,
) -> dict[str, np.ndarray]:
    """Return what adversaries who lack ever more learn of some records (`rows`, from 1), as columns.

    One line for each kind of what is `lacking` (records, columns), `number` of them and `row`. Records besides the
    target are chosen at random for each target and number. For columns the measures are medians over all, or
    twelve random, choices of so many. `watch` is called after every number.
    """
    prior, stream = require_same_mechanism(records, release, prior), np.random.default_rng(rng)
    targets = np.array([records.place_of(row) for row in rows])
    p, people = len(records.columns), len(records.values)
    everything = _lacking_columns(records, release, prior, [()], targets)
    lines = [("records", 0, everything)]
    for number in (number for number in numbers if number + 2 <= people):
        groups = groups_of(people, number, targets, stream)
        parts = measure_groups(records.values, release, prior, groups, stream)
        lines.append(("records", number, {name: _in_order(parts, name, targets) for name in MEASURED}))
        watch(1)
    lines.append(("columns", 0, everything))
    for number in range(1, p):
        choices = list(combinations(records.columns, number)) if p <= 12 else []
        if not 0 < len(choices) <= SUBSETS:
            choices = [tuple(stream.choice(records.columns, number, replace=False)) for _ in range(SUBSETS)]
        lines.append(("columns", number, _lacking_columns(records, release, prior, choices, targets)))
        watch(1)
    return {
        "lacking": np.repeat([kind for kind, _, _ in lines], len(targets)),
        "number": np.repeat([number for _, number, _ in lines], len(targets)),
        "row": np.tile(records.rows[targets], len(lines)),
        **{name: np.concatenate([found[name] for _, _, found in lines]) for name in MEASURED},
    }


def _lacking_columns(
    records: Records, release: Released, prior: NIW, choices: Sequence[Sequence[str]], targets: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the measures of the targets, the medians over the choices of columns that are lacking."""
    found = []
    for lacking in choices:
        some, part, own = in_known_columns(records, release, prior, lacking)
        everyone, near = LeaveOneOut.of(some.values, part, own, None, "record"), near_truth(some)
        blocks = [measure_block(everyone, (None, near), Points(), block) for block in everyone.blocks((), targets)]
        found.append({name: _in_order(blocks, name, targets) for name in MEASURED})
    return {name: np.median([each[name] for each in found], axis=0) for name in MEASURED}


def _in_order(parts: Sequence[tuple[np.ndarray, object]], name: str, targets: np.ndarray) -> np.ndarray:
    """Return a measure of the targets in their own order; the parts come in any."""
    values = dict(zip(
        np.concatenate([places for places, _ in parts]).tolist(),
        np.concatenate([getattr(part, name) for _, part in parts]).tolist(),
        strict=True,
    ))  # fmt: skip
    return np.array([values[place] for place in targets.tolist()])
