"""The budget of a mixed table: how much may be released before anyone's measurements or categories are found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.disclosure.alternatives import expected_count
from allbutone.disclosure.category_budget import MOST, CountedCells, category_chances, is_found_out
from allbutone.disclosure.cell_beliefs import cell_beliefs
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.limits import Limit
from allbutone.disclosure.measures import measure
from allbutone.disclosure.trials import CONFIDENCE, standing_out, try_counts
from allbutone.integrals.cell_totals import CellIntegrals
from allbutone.integrals.proposal import Points
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.prior_file import AnyPrior
from allbutone.releases.mixed.mechanism import MixedMechanism
from allbutone.releases.mixed.sampling import draw_mixed
from allbutone.releases.mixed.synthesizer import MixedSynthesizer
from allbutone.support.errors import InputError
from allbutone.support.notebook import paragraphs
from allbutone.tables.records import Records

CHECKS = 20  # releases that are drawn and attacked exactly
ACCEPTED = 3  # of them may expose someone: more would be rare if one in twenty did
WATCHED = 20  # people of the highest leverage, and as many of the smallest cells
EXPOSURE = Limit("exposure", 0.5)


@dataclass(frozen=True, eq=False, kw_only=True)
class MixedBudget:
    """How many datasets, or draws of the parameters, leave everyone unfound with 95 % confidence.

    by_measurements, by_categories: what either alone would allow, before the check. checked: in how many of the
    exactly attacked releases of `confident_count` someone was found. limiting_row: who sets the limit.
    leverage, max_datasets: each record's leverage, and what its own chances allow.
    """

    confident_count: int
    tried_up_to: int
    by_measurements: int
    by_categories: int
    checked: int
    limiting_row: int
    limited_by: str
    dataset_rows: int | None
    rows: Int[np.ndarray, " n"]
    leverage: Float[np.ndarray, " n"]
    max_datasets: Float[np.ndarray, " n"]

    @property
    def what(self) -> str:
        """The thing that is counted."""
        return "parameter draws" if self.dataset_rows is None else f"datasets of {self.dataset_rows:,} rows"

    @property
    def sentence(self) -> str:
        """The verdict, for a board."""
        kept = f"everyone's measurements and categories unfound with {CONFIDENCE:.0%} confidence"
        one = self.what.replace("draws", "draw").replace("datasets", "dataset")
        if self.confident_count == 0:
            verdict = f"Not even one {one} leaves {kept}"
        elif self.confident_count >= self.tried_up_to:
            verdict = f"At least {self.confident_count:,} {self.what}, the most that were tried, leave {kept}"
        else:
            verdict = f"Up to {self.confident_count:,} {self.what} leave {kept}"
        return f"{verdict}; row {self.limiting_row} sets the limit, by {self.limited_by}."

    @property
    def parts(self) -> str:
        """What measurements and categories would allow, each alone."""
        categories = f"the categories alone {self.by_categories:,}"
        if self.by_categories >= MOST:
            categories = "categories set no limit"
        return (
            "Before the check by exact attacks, the measurements alone would allow "
            f"{self.by_measurements:,}; {categories}."
        )

    @property
    def assumptions(self) -> str:
        """What the verdict rests on."""
        checked = f"{CHECKS} releases of so many were drawn and attacked exactly; {self.checked} found someone. "
        return (
            "Assumed: within each cell of the categories the measurements are jointly normal; the prior was "
            "written without looking at the records; the adversary has every other record, the release and the "
            "mechanism. A record's measurements are found when the guess, the categories taken as known, comes "
            "more than halfway; a category when its probability is at least one half, was less without the "
            "release, and its odds have at least doubled. "
            + (checked if self.confident_count else "")
            + "This is a prediction, not a guarantee."
        )

    def columns(self) -> dict[str, np.ndarray]:
        """Return a row a record: leverage, and the most datasets that its own chances allow."""
        return {"row": self.rows, "leverage": self.leverage, "max_datasets": self.max_datasets}

    def __repr__(self) -> str:
        """Return the verdict."""
        return f"MixedBudget: {self.sentence}"

    def _repr_html_(self) -> str:
        return paragraphs(self.sentence, self.assumptions)


def plan_mixed_budget(
    table: Any,
    *,
    rows: int | None,
    prior: AnyPrior | None = None,
    cells: str = "main effects",
    cell_weight: float | None = None,
    keep: str | Sequence[str] = (),
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
    **how_to_read: Any,
) -> MixedBudget:
    """Return how much may be released of a table with categories; `rows` a dataset, or None for parameters.

    Measurements by the exposure law and its simulation, as for tables without categories, by each record's
    leverage among the others; categories by the counts of simulated releases. Then releases of so many are drawn
    and the people most at risk attacked exactly; where more are found than one in twenty allows, fewer are tried.
    The other arguments are those of `MixedSynthesizer` and of `Records.of`.
    """
    records = Records.of(table, categories=True, **how_to_read)
    synthesizer = MixedSynthesizer(prior, cells=cells, cell_weight=cell_weight, keep=keep).fit(records)
    if keep and rows not in (None, len(records.values)):
        raise InputError("with columns to keep there is a row for each person", "leave rows out")
    return _planned(records, synthesizer.mechanism, rows, np.random.default_rng(rng), watch)


def _planned(
    records: Records,
    mechanism: MixedMechanism,
    rows: int | None,
    rng: np.random.Generator,
    watch: Callable[[int], None],
) -> MixedBudget:
    everyone = MixedLeaveOneOut.of(mechanism.split(records), mechanism.prior)
    leverage, law = leverages_of(everyone), law_of(everyone.whole, len(records.values), rows)
    trials = try_counts(
        law, EXPOSURE, leverage, expected_count(law, float(leverage.max()), EXPOSURE), (), rng, watch
    )
    whole = everyone.whole
    counted_cells = CountedCells.of(
        whole.cells, whole.weights, whole.counts(everyone.records), mechanism.kept_categories
    )
    anyone, each = (np.zeros(MOST), np.zeros((MOST, whole.cells.count)))
    if counted_cells.judged:
        anyone, each = category_chances(counted_cells, rows, rng)
    by_categories = _allowed(anyone)
    most = min(trials.tried_up_to, MOST)
    start = min(trials.confident_count, by_categories, most)
    own_by_cells = np.array([_allowed(chances) for chances in each.T])[everyone.records.cells]
    own_by_leverage = np.zeros(len(leverage))
    for count, chance in sorted(trials.own_chance.items()):
        own_by_leverage[chance <= 1 - CONFIDENCE] = count
    own = np.minimum(own_by_leverage, own_by_cells)
    company = whole.weights[everyone.records.cells]  # who is in the same cell
    watched = _watched(leverage, company)
    count, checked = _checked(
        everyone, mechanism, rows, start, watched, np.flatnonzero(standing_out(leverage)), rng, watch
    )
    by_counts = by_categories < trials.confident_count
    limiting = int(np.lexsort((company, own_by_cells))[0] if by_counts else np.argmax(leverage))
    return MixedBudget(
        confident_count=count,
        tried_up_to=most,
        by_measurements=trials.confident_count,
        by_categories=by_categories,
        checked=checked,
        limiting_row=int(records.rows[limiting]),
        limited_by="its categories" if by_counts else "its measurements",
        dataset_rows=rows,
        rows=records.rows,
        leverage=leverage,
        max_datasets=own,
    )


def leverages_of(everyone: MixedLeaveOneOut) -> Float[np.ndarray, " n"]:
    """Return q = dᵀΛ⁻¹d/(1 + h) of each record, in its own cell, by the model of the others."""
    rows = np.arange(len(everyone.records))
    others = everyone.before(rows, everyone.records.cells)
    white = np.linalg.solve(others.root, (everyone.records.values - others.mean)[..., None])[..., 0]
    weight = np.asarray(others.mean_weight)
    return np.asarray(weight / (weight + 1) * np.sum(white * white, axis=-1))


def law_of(whole: LocationModel, people: int, rows: int | None) -> ExposureLaw:
    """Return what the exposure of a record depends on besides its leverage.

    Of separate cells each has its own degrees of freedom: the average cell's are taken, and the check is exact.
    """
    df = float(np.mean(np.asarray(whole.measured.df)))
    share = 1.0 if not whole.is_separate else 1 / max(1, whole.cells.count)
    return ExposureLaw(
        whole.p, share * people - 1.0, df - 1.0, None if rows is None else max(1, round(share * rows))
    )


def _allowed(chances: Float[np.ndarray, " k"]) -> int:
    """Return the largest number, of those tried, up to which the chance never exceeds 5 %."""
    above = np.flatnonzero(chances > 1 - CONFIDENCE)
    return int(above[0]) if len(above) else len(chances)


def _watched(leverage: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]) -> Int[np.ndarray, " w"]:
    """Return the people of the highest leverage, and those of the smallest cells."""
    return np.union1d(np.argsort(-leverage)[:WATCHED], np.argsort(weight, kind="stable")[:WATCHED])


def _checked(
    everyone: MixedLeaveOneOut,
    mechanism: MixedMechanism,
    rows: int | None,
    count: int,
    watched: Int[np.ndarray, " w"],
    outstanding: Int[np.ndarray, " o"],
    rng: np.random.Generator,
    watch: Callable[[int], None],
) -> tuple[int, int]:
    """Return the largest count, at most the one given, at which few exactly attacked releases find anyone."""
    while count:
        found = 0
        for _ in range(CHECKS):
            watch(1)
            found += _finds_someone(everyone, mechanism, rows, count, watched, outstanding, rng)
            if found > ACCEPTED:
                break
        if found <= ACCEPTED:
            return count, found
        count = int(0.8 * count)
    return 0, 0


def _finds_someone(
    everyone: MixedLeaveOneOut,
    mechanism: MixedMechanism,
    rows: int | None,
    count: int,
    watched: Int[np.ndarray, " w"],
    outstanding: Int[np.ndarray, " o"],
    rng: np.random.Generator,
) -> bool:
    """Draw a release and attack the people watched, exactly: of those who stand out the measurements, too."""
    records, whole = everyone.records, everyone.whole
    drawn, datasets = None, list[MixedRecords]()
    if rows is None:
        drawn = whole.draw(rng, count)
    else:
        kept = mechanism.prior.cells.codes[records.cells] if mechanism.keep else None
        if kept is not None:
            kept = kept.copy()
            kept[:, [place for place in range(kept.shape[1]) if place not in mechanism.kept_categories]] = -1
        known = records.covariates if mechanism.keep else None
        datasets, _ = draw_mixed([whole], [rows] * count, rng, kept=kept, covariates=known)
    after = MixedLeaveOneOut(records, everyone.prior, whole, tuple(datasets), _updated(whole, datasets), drawn)
    beliefs = cell_beliefs(CellIntegrals.of(after, Points.of(rng)), watched, mechanism.kept_categories)
    for category in set(range(len(whole.cells.sizes))) - set(mechanism.kept_categories):
        share, _, baseline = beliefs.of_true_level(category)
        if np.any(is_found_out(share, baseline)):
            return True
    far = np.intersect1d(watched, outstanding)
    posteriors, _ = after.problem(far, records.cells[far])
    return bool(np.any(EXPOSURE.passed(measure(posteriors, records.values[far]))))


def _updated(whole: LocationModel, datasets: Sequence[MixedRecords]) -> tuple[LocationModel, ...]:
    return tuple(whole.update(data) for data in datasets)
