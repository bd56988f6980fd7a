"""The budget of a mixed table: how much may be released before anyone's measurements or categories are found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.disclosure.category_budget import MOST, CountedCells, category_chances
from allbutone.disclosure.cell_beliefs import cell_beliefs
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.lineup import CONFIDENCE, Lineup
from allbutone.disclosure.measures import Effort, measure
from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.standing import Standing
from allbutone.integrals.cell_totals import CellIntegrals
from allbutone.integrals.importance_sampling import Intervals
from allbutone.integrals.proposal import Points
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.moments import Moments
from allbutone.model.prior_file import AnyPrior
from allbutone.releases.mixed.mechanism import MixedMechanism
from allbutone.releases.mixed.sampling import draw_mixed
from allbutone.releases.mixed.synthesizer import MixedSynthesizer
from allbutone.support.errors import InputError
from allbutone.support.notebook import paragraphs
from allbutone.tables.records import Records

CHECKS = 40  # releases that are drawn and attacked exactly
ACCEPTED = 1  # of them may disclose someone: were it one in ten, so few would be seen in 8 cases of 100
WATCHED = 20  # people of the highest leverage, and as many of the smallest cells


@dataclass(frozen=True, eq=False, kw_only=True)
class MixedBudget:
    """How many datasets, or draws of the parameters, leave everyone unfound with 95 % confidence.

    by_measurements, by_categories: what either alone would allow, before the check. checked: in how many of the
    exactly attacked releases of `confident_count` someone was found. limiting_row: who sets the limit.
    leverage, max_datasets: each record's leverage, and what its own chances allow. keys: what a key column calls
    the records, where only those that stand out are here.
    """

    rule: Rule
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
    keys: tuple[Any, ...] = ()

    @property
    def what(self) -> str:
        """The thing that is counted."""
        return "parameter draws" if self.dataset_rows is None else f"datasets of {self.dataset_rows:,} rows"

    @property
    def sentence(self) -> str:
        """The verdict, for a board."""
        reason = "if no value of anyone is to be disclosed (95\u00a0% sure)"
        one = self.what.replace("draws", "draw").replace("datasets", "dataset")
        if self.confident_count == 0:
            verdict = f"Not even one {one} may be released"
        elif self.confident_count >= self.tried_up_to:
            verdict = f"At least {self.confident_count:,} {self.what}, the most that were tried, may be released"
        elif self.confident_count == 1:
            verdict = f"One {one} may be released, but not two,"
        else:
            verdict = f"Up to {self.confident_count:,} {self.what} may be released"
        return f"{verdict} {reason}; {self.limiting_record} sets the limit, by {self.limited_by}."

    @property
    def limiting_record(self) -> str:
        """Who sets the limit: by the key where there is one."""
        if not self.keys:
            return f"row {self.limiting_row}"
        return f"record {self.keys[self.rows.tolist().index(self.limiting_row)]}"

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
        checked = (
            f"{CHECKS} releases of so many were drawn and attacked exactly; {self.checked} disclosed someone "
            f"(up to {ACCEPTED} may). "
        )
        return (
            "Assumed: within each cell of the categories the measurements are jointly normal; the prior was "
            "written without looking at the records; the adversary has every other record, the release and the "
            f"mechanism, and takes the categories as known where it guesses measurements. {self.rule.in_words} "
            + (checked if self.confident_count else "")
            + "This is a prediction, not a guarantee."
        )

    @property
    def places(self) -> Int[np.ndarray, " n"]:
        """The places of all records: who sets the limit, then who allows least; then by leverage, then by row."""
        return np.lexsort((-self.leverage, self.max_datasets, self.rows != self.limiting_row))

    def columns(self) -> dict[str, np.ndarray]:
        """Return a row a record: leverage, and the most datasets that its own chances allow."""
        keys = {"key": np.array(self.keys)} if self.keys else {}
        return {"row": self.rows, **keys, "leverage": self.leverage, "max_datasets": self.max_datasets}

    def __repr__(self) -> str:
        """Return the verdict."""
        return f"MixedBudget: {self.sentence}"

    def _repr_html_(self) -> str:
        return paragraphs(self.sentence, self.assumptions)


def plan_mixed_budget(
    table: Any,
    *,
    rows: int | None,
    probability: float | Rule = 0.5,
    prior: AnyPrior | None = None,
    cells: str = "main effects",
    cell_weight: float | None = None,
    keep: str | Sequence[str] = (),
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
    **how_to_read: Any,
) -> MixedBudget:
    """Return how much may be released of a table with categories; `rows` a dataset, or None for parameters.

    Measurements by the closed form, as for tables without categories, where each record stands among the others;
    categories by the counts of simulated releases. Then releases of so many are drawn
    and the people most at risk attacked exactly; where more are found than one in twenty allows, fewer are tried.
    The other arguments are those of `MixedSynthesizer` and of `Records.of`.

    >>> import pyarrow as pa, allbutone as abo
    >>> table = pa.table({"age": [50.0, 61, 47, 70, 66, 58] * 5, "sex": ["f", "m", "f", "m", "f", "m"] * 5})
    >>> abo.plan_mixed_budget(table, rows=30, rng=1).confident_count
    1
    """
    records = Records.of(table, categories=True, **how_to_read)
    mechanism = MixedSynthesizer(prior, cells=cells, cell_weight=cell_weight, keep=keep).fit(records).mechanism
    if keep and rows not in (None, len(records.values)):
        raise InputError("with columns to keep there is a row for each person", "leave rows out")
    return planned(records, mechanism, rows, Rule.of(probability), rng=np.random.default_rng(rng), watch=watch)


def planned(
    records: Records,
    mechanism: MixedMechanism,
    rows: int | None,
    rule: Rule,
    *,
    elsewhere: Moments | None = None,
    rng: np.random.Generator,
    watch: Callable[[int], None],
) -> MixedBudget:
    """Return the budget of records; `elsewhere`: the moments of each cell's further ones, of less leverage."""
    everyone = MixedLeaveOneOut.of(mechanism.split(records), mechanism.prior, elsewhere=elsewhere)
    places = [records.columns.index(name) for name in mechanism.measurements]
    near = near_truth(records, elsewhere).take(np.arange(len(records.values)), places)
    lineup = lineup_of(everyone, rows, near, rule)
    by_measurements = lineup.most(watch=watch)
    whole, leverage = everyone.whole, lineup.leverage
    people = np.rint(whole.weights - everyone.prior.weights)
    counted_cells = CountedCells.of(whole.cells, whole.weights, people, mechanism.kept_categories)
    anyone, each = (np.zeros(MOST), np.zeros((MOST, whole.cells.count)))
    if counted_cells.judged:
        anyone, each = category_chances(counted_cells, rows, rng, rule)
    by_categories = _allowed(anyone)
    start = min(by_measurements, by_categories, MOST)
    own_by_cells = np.array([_allowed(chances) for chances in each.T])[everyone.records.cells]
    own = np.minimum(lineup.own_most(min(MOST, 4 * start + 4)), own_by_cells)
    company = whole.weights[everyone.records.cells]  # who is in the same cell
    watched = _watched(leverage, company)
    count, checked = _checked(everyone, mechanism, rows, start, watched, (near, rule), rng, watch)
    by_counts = by_categories < by_measurements
    limiting = int(np.lexsort((-leverage, company, own_by_cells))[0] if by_counts else np.argmax(leverage))
    return MixedBudget(
        rule=rule,
        confident_count=count,
        tried_up_to=MOST,
        by_measurements=by_measurements,
        by_categories=by_categories,
        checked=checked,
        limiting_row=int(records.rows[limiting]),
        limited_by="its categories" if by_counts else "its measurements",
        dataset_rows=rows,
        rows=records.rows,
        leverage=leverage,
        max_datasets=own,
    )


def lineup_of(everyone: MixedLeaveOneOut, rows: int | None, near: Intervals, rule: Rule) -> Lineup:
    """Line up a mixed table's people, each compared with the others in the own cell: q = dᵀΛ⁻¹d/(1 + h)."""
    values, cells = everyone.records.values, everyone.records.cells

    def look(places: Int[np.ndarray, " m"]) -> Standing:
        return Standing.of(everyone.before(places, cells[places]), values[places], near.take(places), rule)

    leverage = look(np.arange(len(values))).leverage
    law, unseen = law_of(everyone.whole, everyone.people, rows), everyone.people - len(values)
    return Lineup(law, leverage, np.argsort(-leverage, kind="stable"), look, unseen=unseen)


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
    judged_by: tuple[Intervals, Rule],
    rng: np.random.Generator,
    watch: Callable[[int], None],
) -> tuple[int, int]:
    """Return the largest count, at most the one given, at which few exactly attacked releases find anyone."""
    while count:
        found = 0
        for _ in range(CHECKS):
            watch(1)
            found += _finds_someone(everyone, mechanism, rows, count, watched, judged_by, rng)
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
    judged_by: tuple[Intervals, Rule],
    rng: np.random.Generator,
) -> bool:
    """Draw a release and attack the people watched, exactly."""
    near, rule = judged_by
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
    updated = tuple(whole.update(data) for data in datasets)
    after = replace(everyone, datasets=tuple(datasets), after=updated, parameters=drawn)
    beliefs = cell_beliefs(CellIntegrals.of(after, Points.of(rng)), watched, mechanism.kept_categories)
    for category in set(range(len(whole.cells.sizes))) - set(mechanism.kept_categories):
        share, _, baseline = beliefs.of_true_level(category)
        if np.any(rule.discloses(share, baseline)):
            return True
    posteriors, _ = after.problem(watched, records.cells[watched])
    found = measure(posteriors, records.values[watched], Effort(size=256), near=near.take(watched))
    return bool(np.any(rule.discloses(found.probability, found.baseline)))
