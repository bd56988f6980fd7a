"""Risk in tables with categories: what the release gives away of each person's measurements and categories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.integrate import Intervals
from allbutone.adversary.mixed import CellIntegrals, MixedLeaveOneOut
from allbutone.adversary.modes import find_modes
from allbutone.adversary.proposal import Points
from allbutone.disclosure.measures import RADIUS, Effort, Measures, measure
from allbutone.disclosure.rule import (
    BASELINE,
    ERROR,
    PROBABILITY,
    TOLERANCE,
    Known,
    Rule,
    belief_columns,
    judged_columns,
    near_truth,
    require_free_names,
    with_verdicts,
)
from allbutone.model.moments import Cells, Moments
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.release import Release, reading_of
from allbutone.support.arrays import log_sum_exp
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.names import split_names
from allbutone.tables.records import Records

# What an adversary believes of a record's categories, with the release and without it.


@dataclass(frozen=True, eq=False)
class LevelBeliefs:
    """Probabilities of each record's own cell, all its categories right, with the release and without it.

    levels: for each category the probability of the own level, its error, and that without the release.
    """

    own: Float[np.ndarray, " b"]
    without: Float[np.ndarray, " b"]
    levels: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]


@dataclass(frozen=True, eq=False)
class CellBeliefs:
    """Probabilities of every cell for some records, with the release, its standard error, and without."""

    cells: Cells
    own: Int[np.ndarray, " b"]
    probability: Float[np.ndarray, "b cells"]
    error: Float[np.ndarray, "b cells"]
    baseline: Float[np.ndarray, "b cells"]

    @property
    def of_truth(self) -> "LevelBeliefs":
        """What is believed of each record's own cell and levels."""
        here = np.arange(len(self.own)), self.own
        levels = tuple(self.of_true_level(category) for category in range(len(self.cells.sizes)))
        return LevelBeliefs(self.probability[here], self.baseline[here], levels)

    def of_true_level(self, category: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the probability of each record's own level of a category, its error, and that without release."""
        level = self.cells.codes[self.own, category]
        same = self.cells.codes[None, :, category] == level[:, None]
        # an error in a cell's total moves the level's probability by its share of what is inside or outside
        inside = np.sum(self.probability * same, axis=1)
        moved = self.probability * np.where(same, 1 - inside[:, None], inside[:, None]) * self.error
        return inside, np.sqrt(np.sum(moved**2, axis=1)), np.sum(self.baseline * same, axis=1)


def cell_beliefs(integrals: CellIntegrals, rows: Int[np.ndarray, " b"], known: Sequence[int]) -> CellBeliefs:
    """Return what the adversary on each record believes of its cell; `known`: categories known of all records."""
    everyone: MixedLeaveOneOut = integrals.everyone
    possible = everyone.possible(rows, known)
    before, after = everyone.log_cell_odds(rows)
    totals = integrals.totals(rows, possible)
    return CellBeliefs(
        everyone.whole.cells,
        everyone.records.cells[rows],
        _shares(after + totals.log_total, possible),
        totals.error,
        _shares(before + integrals.before(rows, possible), possible),
    )


def _shares(
    log_odds: Float[np.ndarray, "b cells"], possible: Bool[np.ndarray, "b cells"]
) -> Float[np.ndarray, "b cells"]:
    odds = np.where(possible, log_odds, -np.inf)
    return np.exp(odds - log_sum_exp(odds, axis=1)[:, None])


# Risk in mixed tables: what the release gives away of each person's measurements and categories.


BLOCK = 256  # records that are attacked at once
WORK = 1 << 28  # of all records: points times wells times columns


def mixed_risk_columns(
    records: Records,
    release: Release,
    *,
    rule: Rule | None = None,
    known: str | Sequence[str] = (),
    radius: float = RADIUS,
    mass: bool = True,
    rng: np.random.Generator | None = None,
    elsewhere: Moments | None = None,
    watch: Callable[[int], None] = lambda records: None,
) -> dict[str, np.ndarray]:
    """Return the verdict and the measures of each record as columns.

    The measurements are judged as if the adversary had the categories right: distances, exposure, relative error
    mass and the probabilities within tolerances are those in the record's own cell. `information_gain` is of
    everything at once. For each category `probability_…` is that of the record's own level, beside `baseline_…`,
    without the release.
    `elsewhere`: the moments of each cell's further records, which every adversary has, too. `watch` is called with
    the number of records finished.
    """
    mechanism = release.mechanism
    require_same_table(records, release)
    if not radius > 0:
        raise InputError(f"radius must exceed 0, got {radius}")
    categories, measurements = known_columns_of(known, mechanism)
    require_free_names(unknown_names(mechanism, categories, measurements))
    everyone = MixedLeaveOneOut.of(mechanism.split(records), mechanism.prior, *release.opinions(), elsewhere)
    integrals = CellIntegrals.of(everyone, Points.of(rng), measurements)
    near = near_truth(records, elsewhere)
    places = [records.columns.index(name) for name in mechanism.measurements]
    inside = (radius if mass else None, near.take(np.arange(len(records.values)), places))
    attack = partial(_attack, integrals, categories, inside)
    n = len(everyone.records)
    blocks = np.array_split(np.arange(n), max(1, -(-n // BLOCK)))
    parts = in_parallel(attack, blocks, watch=lambda part: watch(len(part[0])), anywhere=True)
    found, judged, errors = _columns(records, mechanism, parts, categories, measurements, mass)
    beliefs = _beliefs(records, near, mechanism, parts, measurements)
    return with_verdicts(records, rule, found, judged | beliefs, errors)


def is_found(found: Mapping[str, np.ndarray], column: str) -> Bool[np.ndarray, " n"]:
    """Say whose value of a column is disclosed."""
    return Rule().discloses(found[PROBABILITY + column], found[BASELINE + column])


def rise_in_odds(found: Mapping[str, np.ndarray], category: str) -> Float[np.ndarray, " n"]:
    """Return by how much the release raised the log odds of each record's own level.

    Infinite where that could not be computed, minus infinity where there is no level.
    """
    tiny = np.finfo(np.float64).tiny
    after, before = (
        np.log(np.maximum(found[each + category], tiny)) - np.log(np.maximum(1 - found[each + category], tiny))
        for each in (PROBABILITY, BASELINE)
    )
    lost = np.where(np.isfinite(found[BASELINE + category]), np.inf, -np.inf)
    return np.where(np.isfinite(after - before), after - before, lost)


def require_usual_adversary(prior: object, lacking_columns: Sequence[str], lacks_records: bool) -> None:
    """Refuse weaker adversaries, and another prior than the release's."""
    if prior is not None or len(lacking_columns) or lacks_records:
        raise InputError(
            "of a table with categories an adversary has all other records, and the release's own prior",
            "leave out what is lacking, and the prior",
        )


def judged_categories(found: Mapping[str, np.ndarray]) -> list[str]:
    """Return the categories of which the columns speak."""
    return [name for name in judged_columns(found) if TOLERANCE + name not in found]


def require_same_table(records: Records, release: Release) -> None:
    """Refuse a table that is not read as the release declares it."""
    if records.order != release.order or not records.schema.same_mechanism(release.schema):
        raise InputError(
            f"the release is of the columns {', '.join(release.order)}, the table of {', '.join(records.order)}, "
            "or they are declared in another way",
            Cure("read the table as the release declares it", "schema"),
        )


def known_columns_of(known: str | Sequence[str], mechanism: Mechanism) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the positions of the categories and of the drawn measurements that the adversary knows."""
    names = split_names(known, set(mechanism.order)) if known else []
    if unknown := [name for name in names if name not in mechanism.order]:
        raise InputError(f"there is no column {unknown[0]!r}", f"the columns are {', '.join(mechanism.order)}")
    known_categories = {place for place, name in enumerate(mechanism.categories) if name in names}
    categories = tuple(sorted(known_categories | set(mechanism.kept_categories)))
    measurements = tuple(place for place, name in enumerate(mechanism.measurements) if name in names)
    if len(measurements) == len(mechanism.measurements) and len(categories) == len(mechanism.categories):
        raise InputError("the adversary knows everything", Cure("leave something unknown", "known"))
    return categories, measurements


def unknown_names(mechanism: Mechanism, categories: Sequence[int], measurements: Sequence[int]) -> list[str]:
    """Return the names of what the adversary does not know, given the positions of what is known."""
    return [name for place, name in enumerate(mechanism.measurements) if place not in measurements] + [
        name for place, name in enumerate(mechanism.categories) if place not in categories
    ]


def _attack(
    integrals: CellIntegrals,
    known: tuple[int, ...],
    inside: tuple[float | None, Intervals],
    rows: np.ndarray,
) -> tuple[np.ndarray, LevelBeliefs, Measures | None]:
    everyone, given = integrals.everyone, integrals.given
    beliefs = cell_beliefs(integrals, rows, known).of_truth  # all other cells of all records would not fit
    truth = everyone.records.values[rows]
    if len(given) == truth.shape[1]:
        return rows, beliefs, None  # only categories are unknown
    posteriors, _ = everyone.problem(rows, everyone.records.cells[rows])
    if given:
        posteriors = posteriors.given(given, truth[:, given])
        truth = np.delete(truth, given, axis=1)
    each = WORK / (len(everyone.records) * (posteriors.wells + 10) * posteriors.p)
    size = 1 << int(np.clip(np.log2(max(each, 1)), 5, 11))
    unknown = [place for place in range(everyone.records.values.shape[1]) if place not in given]
    radius, near = inside[0], inside[1].take(rows, unknown)
    return rows, beliefs, measure(posteriors, truth, Effort(integrals.points, size), radius=radius, near=near)


def _beliefs(
    records: Records,
    near: Known,
    mechanism: Mechanism,
    parts: list[tuple[np.ndarray, LevelBeliefs, Measures | None]],
    given: tuple[int, ...],
) -> dict[str, np.ndarray]:
    """Return how well each measurement that the adversary does not know is known."""
    measured = [each for _, _, each in parts if each is not None]
    names = [name for place, name in enumerate(mechanism.measurements) if place not in given] if measured else []
    beliefs = {
        name: np.full(records.values.shape, np.nan) for name in ("probability", "probability_error", "baseline")
    }
    places = [records.columns.index(name) for name in names]
    for name, matrix in beliefs.items():
        if names:
            matrix[:, places] = np.concatenate([getattr(each, name) for each in measured])
    return belief_columns(records, near, beliefs, names)


def _columns(
    records: Records,
    mechanism: Mechanism,
    parts: list[tuple[np.ndarray, LevelBeliefs, Measures | None]],
    known: tuple[int, ...],
    given: tuple[int, ...],
    mass: bool,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Put the blocks together: measures, categories, errors of the guess in each column's units."""
    found: dict[str, np.ndarray] = {}
    judged: dict[str, np.ndarray] = {}
    errors: dict[str, np.ndarray] = {}
    beliefs = [each for _, each, _ in parts]
    own, without = (np.concatenate([getattr(each, name) for each in beliefs]) for name in ("own", "without"))
    measured = [each for _, _, each in parts if each is not None]
    if measured:
        for name in ("distance", "baseline_distance", "relative_error", "exposure"):
            found[name] = np.concatenate([getattr(each, name) for each in measured])
        if mass:
            found["mass"] = np.concatenate([each.mass for each in measured])
            found["prior_mass"] = np.concatenate([each.prior_mass for each in measured])
        gain = np.concatenate([each.information_gain for each in measured])
        with np.errstate(divide="ignore"):
            found["information_gain"] = gain + np.log(own) - np.log(without)
    for place, name in enumerate(mechanism.categories):
        if place in known:
            continue
        levels = [each.levels[place] for each in beliefs]
        for prefix, index in ((PROBABILITY, 0), (BASELINE, 2), (ERROR, 1)):
            judged[prefix + name] = np.concatenate([each[index] for each in levels])
    if measured:
        guesses = records.values.copy()
        unknown = [name for place, name in enumerate(mechanism.measurements) if place not in given]
        places = [records.columns.index(name) for name in unknown]
        guesses[:, places] = np.concatenate([each.guess for each in measured])
        off = records.schema.to_natural(guesses) - records.natural
        errors = {f"error_{name}": off[:, place] for name, place in zip(unknown, places, strict=True)}
    return found, judged, errors


# One record of a mixed table looked at closely: every cell that it can be in, and its measurements there.


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
    release = release_of(release)
    if not isinstance(release, Release) or release.mechanism.is_normal:
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
