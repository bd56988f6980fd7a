"""The budget of a table with categories: how much may be released before anyone is found out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.integrate import Intervals
from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.lineup import CONFIDENCE, Lineup
from allbutone.disclosure.rule import USUAL, Rule, near_truth
from allbutone.disclosure.simulated_budget import (
    ACCEPTED,
    RELEASES,
    SMALLER,
    Alternative,
    HowMany,
    Kinds,
    Luck,
    Simulated,
    Tried,
    checked_in_words,
    counted_as,
    kinds_of,
    luck_of,
    most_safe,
    try_count,
)
from allbutone.disclosure.standing import Standing
from allbutone.disclosure.table_releases import MixedReleases
from allbutone.model.location import LocationModel
from allbutone.model.moments import Cells, Moments
from allbutone.model.prior import AnyPrior
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.release import Release
from allbutone.releases.synthesizer import Synthesizer
from allbutone.support.errors import InputError
from allbutone.support.text import counted, joined, paragraphs
from allbutone.tables.records import Records

# How many datasets leave every category unfound: the counts of simulated releases, all people at once.


REPLICATES = 400
MOST = 200  # datasets


@dataclass(frozen=True, eq=False)
class CountedCells:
    """What the adversaries see of the categories: weights of the cells, and which cells are judged together.

    weights: α_c and the number of people there. people: that number. groups: cells that agree in what the
    adversary knows of a record have one number. judged: the categories that are not known.
    """

    cells: Cells
    weights: Float[np.ndarray, " cells"]
    people: Float[np.ndarray, " cells"]
    groups: Int[np.ndarray, " cells"]
    judged: tuple[int, ...]

    @classmethod
    def of(
        cls,
        cells: Cells,
        weights: Float[np.ndarray, " cells"],
        people: Float[np.ndarray, " cells"],
        known: tuple[int, ...],
    ) -> "CountedCells":
        """Group the cells by the categories that are known."""
        _, groups = np.unique(cells.codes[:, list(known)], axis=0, return_inverse=True)
        judged = tuple(place for place in range(len(cells.sizes)) if place not in known and cells.sizes[place] > 1)
        return cls(
            cells, weights, people, np.asarray(groups).ravel() if known else np.zeros(cells.count, int), judged
        )

    def level_shares(
        self, all_in: Float[np.ndarray, "r cells"], without: Float[np.ndarray, "r cells"]
    ) -> Float[np.ndarray, "r cells q"]:
        """Return, for each release and a person of each cell, the probability of the own level of each category.

        `all_in`, `without`: log odds of each cell for a person who is in another, and who is in that cell. So the
        probability of a level is the sum over its cells, own cell exchanged, over the sum of the group's. It is 0
        in a cell where nobody is.
        """
        here = self.people > 0
        highest = _over(np.maximum, all_in, self.groups)  # of each group: others may be out of its numbers' range
        highest = np.where(np.isfinite(highest), highest, 0.0)
        top = np.maximum(highest, without)
        ours, own, scale = np.exp(all_in - highest), np.exp(without - top), np.exp(highest - top)
        total = np.where(here, (_over(np.add, ours, self.groups) - ours) * scale + own, 1.0)
        found = []
        for category in self.judged:
            level = self.groups * self.cells.sizes[category] + self.cells.codes[:, category]
            found.append(((_over(np.add, ours, level) - ours) * scale + own) / total * here)
        return np.stack(found, axis=-1)


def _over(
    what: np.ufunc, values: Float[np.ndarray, "r cells"], groups: Int[np.ndarray, " cells"]
) -> Float[np.ndarray, "r cells"]:
    """Return, for each cell, the sum or the maximum over its group."""
    order = np.argsort(groups, kind="stable")
    _, first, which = np.unique(groups[order], return_index=True, return_inverse=True)
    found = what.reduceat(values[:, order], first, axis=1)
    back = np.empty_like(order)
    back[order] = which
    return found[:, back]


def category_chances(
    counted: CountedCells,
    rows: int | None,
    rng: np.random.Generator,
    rule: Rule = USUAL,
    most: int = MOST,
    replicates: int = REPLICATES,
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k cells"]]:
    """Return the chance that any category of anyone is found, after 1, 2, … datasets, and of each cell's people.

    `rows` a dataset, or None for draws of the parameters. It ends where more than half of the releases find one.
    What the measurements say of a person's cell is left out here: a few exact attacks on releases show that.
    """
    weights, full = counted.weights, counted.people > 0
    less = np.where(full, weights - 1, weights)
    baseline = counted.level_shares(np.log(weights)[None], np.log(less)[None])[0]
    all_in, without = (np.tile(np.log(each), (replicates, 1)) for each in (weights, less))
    anyone, each = [], []
    for _ in range(most):
        shares = rng.dirichlet(weights, size=replicates)
        seen = None if rows is None else rng.multinomial(rows, shares)
        for odds, base in ((all_in, weights), (without, less)):
            with np.errstate(divide="ignore"):
                odds += np.log(shares if seen is None else base + seen) - np.log(base)
        passed = np.any(rule.discloses(counted.level_shares(all_in, without), baseline), axis=-1)
        anyone.append(float(np.mean(np.any(passed, axis=1))))
        each.append(np.mean(passed, axis=0))
        if anyone[-1] > 0.5:
            break
    return np.array(anyone), np.array(each)


# The budget of a mixed table: how much may be released before anyone's measurements or categories are found.


FEW = 5  # people at most who may be left out together
QUICK = 50_000  # people times cells, up to which trying smaller datasets does not take long
WATCHED = 20  # people of the highest leverage, and as many of the smallest cells
EXPECTED_RELEASES = 2 * RELEASES  # about: all for the number that is safe, and some for others


@dataclass(frozen=True, eq=False, kw_only=True)
class MixedBudget(HowMany):
    """How many datasets, or draws of the parameters, leave everyone unfound with 95 % confidence.

    in_all, before, lowered, luck: how many in all, how many of these are out (`HowMany`). by_measurements,
    by_categories: what either alone would allow by the closed form and by counts. simulated: the releases that
    were drawn and attacked exactly, which can only lower that; watched: the places of the people attacked in them;
    releases: what draws and judges them. alternatives: smaller datasets that were tried.
    limiting_row: who is disclosed most often by one dataset more. leverage, max_datasets: each record's leverage,
    and what its own chances allow. keys: what a key column calls the records, where only those that stand out are
    here.
    """

    rule: Rule
    in_all: int
    by_measurements: int
    by_categories: int
    simulated: Simulated
    watched: Int[np.ndarray, " w"]
    limiting_row: int
    limited_by: str
    dataset_rows: int | None
    rows: Int[np.ndarray, " n"]
    leverage: Float[np.ndarray, " n"]
    max_datasets: Float[np.ndarray, " n"]
    before: int = 0
    lowered: int = 0
    converted: bool = False
    luck: Luck | None = None
    releases: MixedReleases | None = None
    alternatives: tuple[Alternative, ...] = ()
    keys: tuple[Any, ...] = ()

    @property
    def rows_of_each(self) -> int | None:
        """The rows of each dataset; None for parameter draws."""
        return self.dataset_rows

    @property
    def tried_up_to(self) -> int:
        """The most that were tried."""
        return MOST

    @property
    def sentence(self) -> str:
        """The verdict, for a board."""
        words = self.answer(f"{self.limiting_record} sets the limit, by {self.limited_by}{self._though_alone}")
        return words + " This was cut short: more may be allowed than was tried." * self.simulated.cut_short

    @property
    def _though_alone(self) -> str:
        """Say why fewer may be released than each person's own number, which a table shows, would allow."""
        alone, tried = float(np.min(self.max_datasets)), self.beyond
        if tried is None or not tried.disclosing or alone <= self.in_all:
            return ""
        least = f", though nobody's own chances allow fewer than {alone:,.0f}"
        if np.sum(tried.each > 0) > 1 and np.max(tried.each) < tried.disclosing:
            return f"{least}: small chances of {np.sum(tried.each > 0):,} people add up"
        return f"{least}: exact attacks on simulated releases disclose it more often than the closed form says"

    @property
    def limiting_record(self) -> str:
        """Who sets the limit: by the key where there is one."""
        if not self.keys:
            return f"row {self.limiting_row}"
        return f"record {self.keys[self.rows.tolist().index(self.limiting_row)]}"

    @property
    def beyond(self) -> Tried | None:
        """The simulated releases of the fewest datasets that are more than the budget."""
        more = [count for count in self.simulated.tried if count > self.in_all]
        return self.simulated.tried[min(more)] if more else None

    @property
    def parts(self) -> str:
        """What measurements and categories would allow, each alone, and what lowers that."""
        categories = f"the categories alone {self.by_categories:,}"
        if self.by_categories >= MOST:
            categories = "categories set no limit"
        words = (
            "Before the check by exact attacks, the measurements alone would allow "
            f"{self.by_measurements:,}; {categories}."
        )
        start = min(self.by_measurements, self.by_categories, MOST)
        if self.beyond is None or self.in_all >= start:
            return words
        return f"{words} What lowers it to {self.in_all:,}: {self._lowered_by(self.beyond)}."

    def _lowered_by(self, tried: Tried) -> str:
        """Say how many simulated releases disclosed how many different people, and whom most often."""
        people, most = int(np.sum(tried.each > 0)), int(np.max(tried.each))
        words = (
            f"of {counted(tried.releases, 'simulated release')} of {counted(tried.count, self.noun)}, "
            f"{tried.disclosing:,} disclosed somebody, {self.limiting_record} most often (in {most:,})"
        )
        if people > 1 and most < tried.disclosing:
            words += f"; {people:,} different people, each with a small chance, make a large one together"
        return words

    @property
    def assumptions(self) -> str:
        """What the verdict rests on."""
        return (
            "Assumed: within each cell of the categories the measurements are jointly normal; the prior was "
            "written without looking at the records; the adversary has every other record, the release and the "
            f"mechanism, and takes the categories as known where it guesses measurements. {self.rule.in_words} "
            f"The number was checked on {checked_in_words(self.simulated)}. "
            "This is a prediction, not a guarantee."
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
    earlier: Release | None = None,
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
    **how_to_read: Any,
) -> MixedBudget:
    """Return how much may be released of a table with categories; `rows` a dataset, or None for parameters.

    Measurements by the closed form, as for tables without categories, where each record stands among the others;
    categories by the counts of simulated releases. Then releases of so many are drawn
    and the people most at risk attacked exactly; where more are found than one in twenty allows, fewer are tried.
    `earlier`: what was released already, which counts. `watch` is called with the number of releases simulated.
    The other arguments are those of `Synthesizer` and of `Records.of`.

    >>> import pyarrow as pa, allbutone as abo
    >>> table = pa.table({"age": [50.0, 61, 47, 70, 66, 58] * 5, "sex": ["f", "m", "f", "m", "f", "m"] * 5})
    >>> abo.plan_mixed_budget(table, rows=30, rng=1).confident_count
    1
    """
    records = Records.of(table, categories=True, **how_to_read)
    mechanism = Synthesizer(prior, cells=cells, cell_weight=cell_weight, keep=keep).fit(records).mechanism
    if keep and rows not in (None, len(records.values)):
        raise InputError("with columns to keep there is a row for each person", "leave rows out")
    rng = np.random.default_rng(rng)
    return planned(records, mechanism, rows, Rule.of(probability), earlier=earlier, rng=rng, watch=watch)


def planned(
    records: Records,
    mechanism: Mechanism,
    rows: int | None,
    rule: Rule,
    *,
    earlier: Release | None = None,
    elsewhere: Moments | None = None,
    rng: np.random.Generator,
    watch: Callable[[int], None],
) -> MixedBudget:
    """Return the budget of records; `elsewhere`: the moments of each cell's further ones, of less leverage."""
    releases = _releases(records, mechanism, rows, rule, elsewhere, rng)
    everyone, near = releases.everyone, releases.near
    start = _Start.of(everyone, mechanism, rows, near, rule, rng)
    watched = _watched(start.lineup.leverage, everyone.whole.weights[everyone.records.cells])
    simulated = most_safe(releases, watched, start.count, watch)
    in_all = simulated.count
    before, lowered, kinds, luck = 0, 0, Kinds(), None
    if earlier is not None:
        kinds = kinds_of(earlier)
        before = counted_as(
            kinds, rows, lambda kind: _Start.of(everyone, mechanism, kind, near, rule, rng).count, start.count
        )
        left = max(0, in_all - before)
        if left and not simulated.cut_short:
            # what is out may tell more than as much mostly does
            out = MixedLeaveOneOut.of(everyone.records, mechanism.prior, *earlier.opinions(), elsewhere)
            lowered = left - most_safe(replace(releases, everyone=out), watched, left, watch).count
        if before > in_all and simulated.cut_short:
            luck = Luck(0.0, "nobody", 0.0, cut_short=True)
        elif before > in_all:
            tried = try_count(releases, before, watched, RELEASES, watch=watch)
            luck = luck_of(tried, watched, lambda place: f"row {records.rows[place]}")
    limiting, limited_by = _limiting(releases, simulated, in_all, watched, start)
    return MixedBudget(
        rule=rule,
        in_all=in_all,
        by_measurements=start.by_measurements,
        by_categories=start.by_categories,
        simulated=simulated,
        watched=watched,
        releases=releases,
        limiting_row=int(records.rows[limiting]),
        limited_by=limited_by,
        dataset_rows=rows,
        rows=records.rows,
        leverage=start.lineup.leverage,
        max_datasets=start.own(everyone.records.cells),
        before=before,
        lowered=lowered,
        converted=kinds.keys() - {rows} != set(),
        luck=luck,
    )


def with_alternatives(
    budget: MixedBudget, records: Records, mechanism: Mechanism, watch: Callable[[int], None]
) -> MixedBudget:
    """Return it with what was tried where it allows none: one change after the other until something may go out.

    Not where columns are kept, which have a row for each person, nor where it would take long.
    """
    tried: list[Alternative] = []
    if budget.in_all or mechanism.keep or len(records.values) * mechanism.prior.cells.count > QUICK:
        return budget
    for change, table, changed, rows in _changes(budget, records, mechanism):
        try:
            found = planned(table, changed, rows, budget.rule, rng=np.random.default_rng(0), watch=watch)
        except InputError:
            continue  # too few people, or columns, are left for the model
        tried.append(replace(change, datasets=found.in_all))
        if found.in_all:
            break
    return replace(budget, alternatives=tuple(tried))


def _changes(
    budget: MixedBudget, records: Records, mechanism: Mechanism
) -> Iterator[tuple[Alternative, Records, Mechanism, int | None]]:
    """Yield what can be changed, the least first: smaller datasets, without some people, without a column."""
    rows = budget.dataset_rows
    if rows is not None:
        for size in sorted({max(1, rows // part) for part in SMALLER} - {rows}, reverse=True):
            yield Alternative(f"datasets of {size:,} rows", 0, rows=size), records, mechanism, size
    place = records.place_of(budget.limiting_row)
    found: list[int] = []
    if budget.beyond is not None:
        often = np.argsort(-budget.beyond.each, kind="stable")[:FEW]
        found = budget.watched[often[budget.beyond.each[often] > 0]].tolist()
    for places in dict.fromkeys(((place,), tuple(sorted({place, *found})))):
        numbers = joined([f"{records.rows[each]}" for each in places])
        words = f"leave row{'s' * (len(places) > 1)} {numbers} out"
        yield Alternative(words, 0), records.take(np.delete(np.arange(len(records.rows)), places)), mechanism, rows
    name = _setting_the_limit(budget, records, place)
    for names in dict.fromkeys(((name,), records.categories.columns)):
        if names and set(mechanism.measurements) - {*names}:
            words = f"leave the column{'s' * (len(names) > 1)} {joined(names)} out"
            drop = name if names == (name,) else None
            yield Alternative(words, 0, drop=drop), *_without(names, records, mechanism), rows


def _setting_the_limit(budget: MixedBudget, records: Records, place: int) -> str:
    """Return the column by which somebody stands out: of the rarest level, or furthest from the mean."""
    codes = records.categories.codes
    if budget.limited_by == "its categories":
        company = np.sum(codes == codes[place], axis=0)
        return records.categories.columns[int(np.argmin(company))]
    away = np.abs(records.values[place] - records.values.mean(axis=0)) / records.values.std(axis=0)
    return records.columns[int(np.argmax(away))]


def _without(names: Sequence[str], records: Records, mechanism: Mechanism) -> tuple[Records, Mechanism]:
    """Return the table without columns, and the mechanism whose cells are worth as much all together."""
    fewer = records.select([each for each in records.order if each not in names])
    places = [place for place, each in enumerate(mechanism.measurements) if each not in names]
    weight = mechanism.cell_weight * mechanism.prior.cells.count / prod(map(len, fewer.categories.levels))
    prior = mechanism.require_prior().marginal(places)
    return fewer, Synthesizer(prior, cells=mechanism.cells, cell_weight=weight).fit(fewer).mechanism


def _releases(
    records: Records,
    mechanism: Mechanism,
    rows: int | None,
    rule: Rule,
    elsewhere: Moments | None,
    rng: np.random.Generator,
) -> MixedReleases:
    """Return what draws and judges releases of these records."""
    everyone = MixedLeaveOneOut.of(mechanism.split(records), mechanism.prior, elsewhere=elsewhere)
    places = [records.columns.index(name) for name in mechanism.measurements]
    near = near_truth(records, elsewhere).take(np.arange(len(records.values)), places)
    return MixedReleases(everyone, mechanism, rows, near, rule, int(rng.integers(2**63)))


def luck_of_mixed(
    records: Records, release: Release, rule: Rule, watch: Callable[[int], None] = lambda done: None
) -> Luck | None:
    """Return how often releases of as much as this disclose somebody, where that is more than a budget accepts.

    By the same simulated releases as the budget. Datasets of several sizes count as of the largest.
    """
    rows = max(release.rows) if release.datasets else None
    releases = _releases(records, release.mechanism, rows, rule, None, np.random.default_rng(0))
    everyone = releases.everyone
    leverage = lineup_of(everyone, rows, releases.near, rule).leverage
    watched = _watched(leverage, everyone.whole.weights[everyone.records.cells])
    tried = try_count(releases, release.count, watched, RELEASES, watch=watch)
    if tried.disclosing <= ACCEPTED:
        return None
    return luck_of(tried, watched, lambda place: f"row {records.rows[place]}")


@dataclass(frozen=True, eq=False)
class _Start:
    """What measurements, by the closed form, and categories, by their counts, allow: where the search begins."""

    lineup: Lineup
    by_measurements: int
    by_cells: Float[np.ndarray, "k cells"]
    by_categories: int

    @classmethod
    def of(
        cls,
        everyone: MixedLeaveOneOut,
        mechanism: Mechanism,
        rows: int | None,
        near: Intervals,
        rule: Rule,
        rng: np.random.Generator,
    ) -> "_Start":
        """Look at measurements and at categories, each alone."""
        lineup, whole = lineup_of(everyone, rows, near, rule), everyone.whole
        people = np.rint(whole.weights - everyone.prior.weights)
        cells = CountedCells.of(whole.cells, whole.weights, people, mechanism.kept_categories)
        anyone, each = np.zeros(MOST), np.zeros((MOST, whole.cells.count))
        if cells.judged:
            anyone, each = category_chances(cells, rows, rng, rule)
        return cls(lineup, lineup.most(), each, _allowed(anyone))

    @property
    def count(self) -> int:
        """The most that both allow."""
        return min(self.by_measurements, self.by_categories, MOST)

    def own_by_cells(self, cells: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return what each person's own categories allow."""
        return np.array([_allowed(chances) for chances in self.by_cells.T], dtype=float)[cells]

    def own(self, cells: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return what each person's own chances allow."""
        return np.minimum(self.lineup.own_most(min(MOST, 4 * self.count + 4)), self.own_by_cells(cells))


def _limiting(
    releases: MixedReleases, simulated: Simulated, in_all: int, watched: Int[np.ndarray, " w"], start: _Start
) -> tuple[int, str]:
    """Return who sets the limit, and by what: who is disclosed most often by more than may be released.

    Where the simulation lowered nothing, who allows least by what limits the start.
    """
    more = [one for count, one in simulated.tried.items() if count > in_all and one.disclosing]
    everyone = releases.everyone
    if more:
        tried = min(more, key=lambda one: one.count)
        place = int(watched[np.argmax(tried.each)])
        kinds = releases.by_kind(tried.count, np.array([place]), range(tried.releases)).sum(axis=(0, 1))
        return place, "its categories" if kinds[1] > kinds[0] else "its measurements"
    leverage, cells = start.lineup.leverage, everyone.records.cells
    if start.by_categories < start.by_measurements:
        company = everyone.whole.weights[cells]  # who is in the same cell
        return int(np.lexsort((-leverage, company, start.own_by_cells(cells)))[0]), "its categories"
    return int(np.argmax(leverage)), "its measurements"


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
