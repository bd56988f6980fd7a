"""One record looked at closely: every cell that it can be in, and its measurements there."""

from typing import Any

import narwhals as nw
import numpy as np

from allbutone.adversary.gap_integrals import measure_gaps
from allbutone.adversary.mixed import CellIntegrals, cell_beliefs
from allbutone.adversary.modes import find_modes
from allbutone.adversary.proposal import Points
from allbutone.adversary.who import USUAL, Adversary
from allbutone.disclosure.measures import RADIUS, Effort, measure
from allbutone.disclosure.risk import Question, records_of_release, require_same_table
from allbutone.model.moments import UNKNOWN
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.support.errors import Cure, InputError


def attack_record(
    table: Any,
    release: AnyRelease,
    row: int,
    adversary: Adversary = USUAL,
    *,
    radius: float = RADIUS,
    rng: np.random.Generator | int | None = None,
    **how_to_read: Any,
) -> Any:
    """Return what the adversary on one record believes: a dataframe with a row for each cell it can be in.

    `row` counts from 1. For each combination of levels: its `probability` with the release, `probability_error`,
    `baseline` without, `is_true`; the most probable measurements there (`mode_…`, in natural units), the `mass`
    within the radius of the true measurements if it were this cell, and `log_density` of the mode: where that is
    highest, cell and measurements together are the most probable (`is_joint_mode`). A table without categories has
    one cell. With gaps, what is observed of the record is attacked, at every combination of the levels that it
    has, and the mass is that in its own.

    >>> import pyarrow as pa, allbutone as abo
    >>> table = pa.table({"age": [50.0, 61, 47, 70, 66, 58], "sex": ["f", "m", "f", "m", "f", "m"]})
    >>> release = abo.Synthesizer().fit(table).sample(datasets=1)
    >>> abo.attack_record(table, release, row=1, rng=1)["sex"].to_pylist()
    ['f', 'm']
    """
    released = release_of(release)
    records = records_of_release(table, released, **how_to_read)
    require_same_table(records, released)
    question = Question.of(records, released, adversary)
    if question.adversary.lacks_records:
        raise InputError(
            "records that are missing together are attacked together", Cure("use risk", "lacking_records", 0)
        )
    if question.known_measurements and not question.unknown_measurements:
        raise InputError("all measurements are known: only the cell is left", "use risk")
    place, stream = records.place_of(row), np.random.default_rng(rng)
    attack = _with_gaps if question.has_gaps else _without_gaps
    codes, cells, modes = attack(question, place, radius, stream)
    mechanism, natural = question.mechanism, _natural(question, place, modes)
    levels = {
        mechanism.categories[category]: [mechanism.levels[category][code] for code in column]
        for category, column in codes.items()
    }
    named = {f"mode_{name}": natural[:, at] for at, name in enumerate(question.unknown_measurements)}
    return nw.from_dict(levels | cells | named, backend=records.backend).to_native()  # type: ignore[arg-type]


_Cells = tuple[dict[int, np.ndarray], dict[str, np.ndarray], np.ndarray]


def _without_gaps(question: Question, place: int, radius: float, rng: np.random.Generator) -> _Cells:
    """Return the levels of each cell, what is believed of it, and the most probable measurements there."""
    everyone, points, known = question.leave_one_out(), Points.of(rng), question.known_categories
    given, rows = question.known_measurements, np.array([place])
    beliefs = cell_beliefs(CellIntegrals.of(everyone, points, given), rows, known)
    (cells,) = np.nonzero(everyone.possible(rows, known)[0])
    rows = np.full(len(cells), place)
    problem, offset = everyone.problem(rows, cells)
    truth = everyone.records.values[rows]
    if given:
        whole, problem = problem, problem.given(given, truth[:, given])
        unknown = [at for at in range(whole.p) if at not in given]
        start = truth.copy()
        start[:, unknown] = problem.centre
        offset = offset + whole.log_density_unnormalized(start) - problem.value(np.zeros_like(problem.centre))
        truth = truth[:, unknown]
    modes = find_modes(problem)
    near = measure(problem, truth, Effort(points, 512), radius=radius, modes=modes)
    _, odds = everyone.log_cell_odds(np.array([place]))
    height = odds[0, cells] + offset + problem.value(modes.best)
    share = beliefs.probability
    believed = {
        "probability": share[0, cells],
        "probability_error": (share * (1 - share) * beliefs.error)[0, cells],
        "baseline": beliefs.baseline[0, cells],
        "is_true": cells == everyone.records.cells[place],
        "is_joint_mode": cells == cells[int(np.argmax(height))],
        "log_density": height - np.max(height),
        "mass": near.mass,
    }
    codes = question.mechanism.prior.cells.codes[cells]
    return dict(enumerate(codes.T)), believed, problem.unwhiten(modes.best)


def _with_gaps(question: Question, place: int, radius: float, rng: np.random.Generator) -> _Cells:
    """Return the same of the levels that the record has, averaged over draws of what is missing."""
    adversary, rows = question.averaged(rng), np.array([place])
    target = adversary.records.take(rows)
    posteriors = adversary.posteriors(target, rows, (question.known_measurements, question.known_categories))
    found = measure_gaps(posteriors, radius, Points.of(rng), size=512)
    possible = posteriors.possible[0]
    heights = found.heights[0]
    true = np.arange(len(possible)) == posteriors.true_combination[0]
    believed = {
        "probability": found.probabilities[0],
        "probability_error": found.probability_errors[0],
        "baseline": found.baselines[0],
        "is_true": true,
        "is_joint_mode": np.arange(len(possible)) == found.guess_combination[0],
        "log_density": heights - np.max(heights[possible]),
        "mass": np.where(true, found.mass[0], np.nan),
    }
    (here,) = np.nonzero(target.codes[0] != UNKNOWN)
    modes = np.full((len(possible), len(question.mechanism.measurements)), np.nan)
    modes[:, found.columns] = found.modes[0]
    unknown = [at for at in range(modes.shape[1]) if at not in question.known_measurements]
    codes = {int(category): found.combinations[possible, at] for at, category in enumerate(here)}
    return codes, {name: values[possible] for name, values in believed.items()}, modes[possible][:, unknown]


def _natural(question: Question, place: int, modes: np.ndarray) -> np.ndarray:
    """Return modes of the unknown measurements in natural units."""
    records = question.records
    values = np.repeat(records.values[[place]], len(modes), axis=0)
    places = [records.columns.index(name) for name in question.unknown_measurements]
    values[:, places] = modes
    return np.asarray(records.schema.to_natural(values)[:, places])
