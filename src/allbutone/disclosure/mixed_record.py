"""One record of a mixed table looked at closely: every cell that it can be in, and its measurements there."""

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.adversary.modes import find_modes
from allbutone.disclosure.cell_beliefs import cell_beliefs
from allbutone.disclosure.measures import RADIUS, Effort, measure
from allbutone.disclosure.mixed_risk import known_columns_of, require_same_table
from allbutone.integrals.cell_totals import CellIntegrals
from allbutone.integrals.proposal import Points
from allbutone.releases.folder import AnyRelease, any_release_of
from allbutone.releases.mixed.release import Release, reading_of
from allbutone.support.errors import InputError
from allbutone.tables.records import Records


def attack_mixed(
    table: Any,
    release: AnyRelease,
    row: int,
    *,
    known: str | Sequence[str] = (),
    radius: float = RADIUS,
    rng: np.random.Generator | int | None = None,
    **how_to_read: Any,
) -> Any:
    """Return what the adversary on one record believes: a dataframe with a row for each cell it can be in.

    `row` counts from 1. For each combination of levels: its `probability` with the release, `probability_error`,
    `baseline` without, `is_true`; the most probable measurements there (`mode_…`, in natural units), the `mass`
    within the radius of the true measurements if it were this cell, and `log_density` of the mode: where that is
    highest, cell and measurements together are the most probable (`is_joint_mode`).

    >>> import pyarrow as pa, allbutone as abo
    >>> table = pa.table({"age": [50.0, 61, 47, 70, 66, 58], "sex": ["f", "m", "f", "m", "f", "m"]})
    >>> release = abo.Synthesizer().fit(table).sample(datasets=1)
    >>> abo.attack_mixed(table, release, row=1, rng=1)["sex"].to_pylist()
    ['f', 'm']
    """
    release = any_release_of(release)
    if not isinstance(release, Release):
        raise InputError("the release has neither categories nor kept columns", "use attack")
    records = Records.of(table, **reading_of(release, how_to_read))
    require_same_table(records, release)
    if any(each.has_gaps for each in (records, *release.datasets)):
        raise InputError("values are missing, and one record in every cell needs complete tables", "use risk")
    mechanism = release.mechanism
    categories, measurements = known_columns_of(known, mechanism)
    if measurements:
        raise InputError("only categories of the target may be known here", "use risk for known measurements")
    everyone = MixedLeaveOneOut.of(mechanism.split(records), mechanism.prior, *release.opinions())
    place, points = records.place_of(row), Points.of(rng)
    beliefs = cell_beliefs(CellIntegrals.of(everyone, points), np.array([place]), categories)
    (cells,) = np.nonzero(everyone.possible(np.array([place]), categories)[0])
    rows = np.full(len(cells), place)
    problem, offset = everyone.problem(rows, cells)
    modes = find_modes(problem)
    truth = everyone.records.values[rows]
    near = measure(problem, truth, Effort(points, 512), radius=radius, modes=modes)
    _, odds = everyone.log_cell_odds(np.array([place]))
    height = odds[0, cells] + offset + problem.value(modes.best)
    found: dict[str, Any] = {}
    for name, levels, codes in zip(
        mechanism.categories, mechanism.levels, mechanism.prior.cells.codes[cells].T, strict=True
    ):
        found[name] = [levels[code] for code in codes]
    found |= {
        "probability": beliefs.probability[0, cells],
        "probability_error": (beliefs.probability * (1 - beliefs.probability) * beliefs.error)[0, cells],
        "baseline": beliefs.baseline[0, cells],
        "is_true": cells == everyone.records.cells[place],
        "is_joint_mode": cells == cells[int(np.argmax(height))],
        "log_density": height - np.max(height),
        "mass": near.mass,
    }
    natural = _natural(records, mechanism.measurements, place, problem.unwhiten(modes.best))
    found |= {f"mode_{name}": natural[:, at] for at, name in enumerate(mechanism.measurements)}
    return nw.from_dict(found, backend=records.backend).to_native()  # type: ignore[arg-type]


def _natural(records: Records, drawn: Sequence[str], place: int, modes: np.ndarray) -> np.ndarray:
    """Return modes of the drawn measurements in natural units."""
    values = np.repeat(records.values[[place]], len(modes), axis=0)
    places = [records.columns.index(name) for name in drawn]
    values[:, places] = modes
    return np.asarray(records.schema.to_natural(values)[:, places])
