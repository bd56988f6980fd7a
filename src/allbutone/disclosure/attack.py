"""The attack on one record, on some, or on everybody in turn: what the adversary takes for the truth."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import narwhals as nw
import numpy as np
from jaxtyping import Int

from allbutone.adversary.attack import Attack, attack_missing, describe, with_known
from allbutone.adversary.gap_integrals import measure_gaps
from allbutone.adversary.leave_one_out import attack_rows
from allbutone.adversary.mixed import CellIntegrals, cell_beliefs
from allbutone.adversary.modes import find_modes
from allbutone.adversary.proposal import Points
from allbutone.adversary.who import USUAL, Adversary, Reading
from allbutone.disclosure.gap_risk import averaged
from allbutone.disclosure.measures import RADIUS, Effort, measure
from allbutone.disclosure.question import Question
from allbutone.disclosure.risk import records_of_release, require_same_table
from allbutone.model.moments import UNKNOWN
from allbutone.model.prior import AnyPrior
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.several import Released, parts_of
from allbutone.support.devices import HERE, require_processor
from allbutone.support.errors import Cure, InputError, count_of, describe_value

Rows = int | Sequence[int] | Literal["all"]


def attack(
    table: Any,
    release: AnyRelease,
    adversary: Adversary = USUAL,
    *,
    rows: Rows | None = None,
    prior: AnyPrior | None = None,
    reading: Reading = "record",
    radius: float = RADIUS,
    rng: np.random.Generator | int | None = None,
    device: str = HERE,
    watch: Callable[[int], None] = lambda records: None,
    **how_to_read: Any,
) -> Attack:
    """Infer the record that is missing from a table, or records of it, each from all the others.

    `rows`: a row of the table (from 1), several, or "all", in which case every field has a leading axis; without
    it the table holds all records but the target's, or their moments. Columns are in the release's order, in which
    a table with names is put and an array is taken to be. The release may be its folder; several releases of the
    table, in a list, count together. `prior`: the data holder's, where the release does not say it; `reading`: see
    `posterior`. `device="cuda"` attacks measurements on a graphics card; `watch` is called with the number of
    records done.

    Of a table with categories or gaps, which is read as `risk` reads it, the mode is that of the most probable
    cell, and `cells` is a dataframe with a row for each target and cell it can be in. For each combination of
    levels: its `probability` with the release, `probability_error`, `baseline` without, `is_true`; the most
    probable measurements there (`mode_…`, in natural units), the `mass` within the radius of the true measurements
    if it were this cell, and `log_density` of the mode: where that is highest, cell and measurements together are
    the most probable (`is_joint_mode`). With gaps, what is observed of the record is attacked, at every
    combination of the levels that it has, and the mass is that in its own.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=2)
    >>> abo.attack(cohort.values[1:], release).mode.shape
    (5,)
    >>> abo.attack(cohort, release, abo.Adversary(known=["BMI"]), rows="all").mode.shape
    (503, 5)
    """
    released = release_of(release)
    if adversary.lacks_records:
        raise InputError(
            "records that are missing together are attacked together",
            Cure("use posterior, or risk", "lacking_records", 0),
        )
    if not isinstance(released, Released) or all(part.release.mechanism.is_normal for part in parts_of(released)):
        if rows is None:
            return attack_missing(table, released, adversary, prior, reading)
        places = None if rows == "all" else np.array([count_of("a row", row) - 1 for row in _listed(rows)])
        attacks = attack_rows(table, released, adversary, prior, reading, places, device, watch)
        return attacks if rows == "all" or np.ndim(rows) else _only(attacks)
    if rows is None:
        raise InputError(
            "of a table with categories or gaps those are attacked who are in it", Cure("say whom", "rows")
        )
    require_processor(device, "an attack record by record on a table with categories or gaps")
    return _attack_in_cells(table, released, adversary, rows, radius, np.random.default_rng(rng), how_to_read)


def _listed(rows: Any) -> Iterable[Any]:
    if isinstance(rows, str):
        raise InputError(f'rows must be a row, several, or "all", got {describe_value(rows)}')
    return rows if np.ndim(rows) else [rows]


def _only(found: Attack) -> Attack:
    """Return the attack on the one record."""
    names = ("mode", "other_mode", "log_posterior_gap", "covariance")
    one: dict[str, Any] = {name: getattr(found, name)[0, ...] for name in names}
    return replace(found, status=str(found.status[0]), **one)


_Cells = tuple[dict[int, np.ndarray], dict[str, np.ndarray], np.ndarray, Attack]


def _attack_in_cells(
    table: Any,
    release: Released,
    adversary: Adversary,
    rows: Rows,
    radius: float,
    rng: np.random.Generator,
    how_to_read: dict[str, Any],
) -> Attack:
    """Attack records of a table with categories or gaps, in every cell that each can be in."""
    records = records_of_release(table, release, **how_to_read)
    require_same_table(records, release)
    question = Question.of(records, release, adversary)
    if question.known_measurements and not question.unknown_measurements:
        raise InputError("all measurements are known: only the cell is left", "use risk")
    chosen = records.rows if rows == "all" else list(_listed(rows))
    prepare = _with_gaps if question.has_gaps else _without_gaps
    one_by_one = prepare(question, radius, rng)
    columns: list[dict[str, Any]] = []
    every: list[Attack] = []
    for row in chosen:
        place = records.place_of(row)
        codes, cells, modes, found = one_by_one(place)
        columns.append({"row": np.full(len(modes), row), **_named(question, place, codes, modes, cells)})
        every.append(found)
    names = list(dict.fromkeys(name for each in columns for name in each))
    gathered = {name: np.concatenate([_column(each, name) for each in columns]) for name in names}
    frame = nw.from_dict(gathered, backend=records.backend).to_native()  # type: ignore[arg-type]
    fields = ("mode", "other_mode", "log_posterior_gap", "covariance", "status")
    stacked: dict[str, Any] = {name: np.stack([getattr(one, name) for one in every]) for name in fields}
    whole = Attack(**stacked, iterations=max(one.iterations for one in every), cells=frame)
    return whole if rows == "all" or np.ndim(rows) else _only(whole)


def _column(cells: dict[str, Any], name: str) -> np.ndarray:
    """Return a column of one target's cells; without any level of a category that the record lacks."""
    return np.asarray(cells[name]) if name in cells else np.full(len(cells["row"]), None)


def _named(
    question: Question, place: int, codes: dict[int, np.ndarray], modes: np.ndarray, cells: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Return levels, beliefs and modes of one target's cells under their names, in natural units."""
    mechanism, records = question.mechanism, question.records
    levels = {
        mechanism.categories[category]: [mechanism.levels[category][code] for code in column]
        for category, column in codes.items()
    }
    values = np.repeat(records.values[[place]], len(modes), axis=0)
    places = [records.columns.index(name) for name in question.unknown_measurements]
    values[:, places] = modes
    natural = np.asarray(records.schema.to_natural(values)[:, places])
    named = {f"mode_{name}": natural[:, at] for at, name in enumerate(question.unknown_measurements)}
    return levels | cells | named


def _without_gaps(question: Question, radius: float, rng: np.random.Generator) -> Callable[[int], _Cells]:
    """Return what tells of a record the levels of each cell, what is believed of it, the modes, and the attack."""
    everyone, points, known = question.leave_one_out(), Points.of(rng), question.known_categories
    given = question.known_measurements
    integrals = CellIntegrals.of(everyone, points, given)

    def attacked(place: int) -> _Cells:
        beliefs = cell_beliefs(integrals, np.array([place]), known)
        (cells,) = np.nonzero(everyone.possible(np.array([place]), known)[0])
        rows = np.full(len(cells), place)
        whole, offset = everyone.problem(rows, cells)
        problem, truth = whole, everyone.records.values[rows]
        if given:
            problem = whole.given(given, truth[:, given])
            unknown = [at for at in range(whole.p) if at not in given]
            start = truth.copy()
            start[:, unknown] = problem.centre
            offset = offset + whole.log_density_unnormalized(start) - problem.value(np.zeros_like(problem.centre))
            truth = truth[:, unknown]
        modes = find_modes(problem)
        near = measure(problem, truth, Effort(points, 512), radius=radius, modes=modes)
        _, odds = everyone.log_cell_odds(np.array([place]))
        height = odds[0, cells] + offset + problem.value(modes.best)
        share, best = beliefs.probability, int(np.argmax(height))
        believed = {
            "probability": share[0, cells],
            "probability_error": (share * (1 - share) * beliefs.error)[0, cells],
            "baseline": beliefs.baseline[0, cells],
            "is_true": cells == everyone.records.cells[place],
            "is_joint_mode": cells == cells[best],
            "log_density": height - np.max(height),
            "mass": near.mass,
        }
        found = describe(problem.take(best), modes.take(best), whole.take(best))
        if given:
            found = with_known(found, given, everyone.records.values[place, list(given)], whole.p)
        codes = question.mechanism.prior.cells.codes[cells]
        return dict(enumerate(codes.T)), believed, problem.unwhiten(modes.best), found

    return attacked


def _with_gaps(question: Question, radius: float, rng: np.random.Generator) -> Callable[[int], _Cells]:
    """Return the same of the levels that the record has, averaged over draws of what is missing."""
    adversary, points = averaged(question, rng), Points.of(rng)
    p = len(question.mechanism.measurements)
    unknown = [at for at in range(p) if at not in question.known_measurements]

    def attacked(place: int) -> _Cells:
        rows: Int[np.ndarray, " 1"] = np.array([place])
        target = adversary.records.take(rows)
        posteriors = adversary.posteriors(target, rows, (question.known_measurements, question.known_categories))
        measured = measure_gaps(posteriors, radius, points, size=512)
        possible, heights = posteriors.possible[0], measured.heights[0]
        true = np.arange(len(possible)) == posteriors.true_combination[0]
        believed = {
            "probability": measured.probabilities[0],
            "probability_error": measured.probability_errors[0],
            "baseline": measured.baselines[0],
            "is_true": true,
            "is_joint_mode": np.arange(len(possible)) == measured.guess_combination[0],
            "log_density": heights - np.max(heights[possible]),
            "mass": np.where(true, measured.mass[0], np.nan),
        }
        (here,) = np.nonzero(target.codes[0] != UNKNOWN)
        modes, guess = np.full((len(possible), p), np.nan), target.values[0].copy()
        modes[:, measured.columns], guess[measured.columns] = measured.modes[0], measured.guess[0]
        codes = {int(category): measured.combinations[possible, at] for at, category in enumerate(here)}
        untold = np.full(p, np.nan), np.array(np.nan), np.full((p, p), np.nan)
        told = {name: values[possible] for name, values in believed.items()}
        return codes, told, modes[possible][:, unknown], Attack(guess, *untold, "averaged", 0)

    return attacked
