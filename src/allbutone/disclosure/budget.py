"""The budget: how many datasets may be released before a value of anyone is disclosed, and its check."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.who import USUAL, Adversary
from allbutone.disclosure.budget_case import Case, Earlier, Kinds
from allbutone.disclosure.class_releases import CLASS_LOOKS
from allbutone.disclosure.epsilon import ALARMS, BestTest, PrivacyLoss
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.lineup import Lineup, likeliest
from allbutone.disclosure.measures import SAME_START
from allbutone.disclosure.rule import MEMBERSHIP, Rule
from allbutone.disclosure.simulated_budget import RELEASES, Luck, Simulated, Tried, Watch, shown_at, try_count
from allbutone.disclosure.standing import MOST_FETCHED, StandingOut, standing_out, standing_out_in_cells
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import AnyPrior, declared_prior, prior_of
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.mechanism import CLASSES, REFUSE, Mechanism
from allbutone.releases.synthesizer import Synthesizer
from allbutone.support.errors import InputError, count_of
from allbutone.support.text import ShowsItself, chance, counted, joined
from allbutone.tables.engines.lazy_records import LazyRecords, is_lazy
from allbutone.tables.records import Records

COUNTS = (1, 2, 5, 10, 20, 50, 100)  # of datasets, for which every record's exposure is listed
FEW_RELEASES = 100  # simulated; with fewer the digits of a chance say more than is known
EXPECTED_RELEASES = 2 * RELEASES  # that are simulated, about
EXPECTED_WITH_CLASSES = 3 * CLASS_LOOKS[0][0]  # likewise
UNLIKELY = 0.001  # a chance below which people are counted, not listed
SMALLER = (2, 5, 10)  # parts of the rows that smaller datasets have
FEW = 5  # people at most who may be left out together
LOSSES = 400  # simulated releases by which membership is tested where there is no closed form
TESTED_IN_ALL = 20_000  # people without a closed form times datasets, up to which all of them are tested
CELLS_IN_ALL = 400  # cells times datasets, up to which everybody's membership is tested
QUICK = 50_000  # people times cells, up to which trying other choices does not take long
NORMAL_IN_CLASSES = "measurements are jointly normal and categories independent"
TINY = float(np.finfo(np.float64).tiny)
HALFWAY = 0.5  # the expected exposure at which a record that stands out is about to be disclosed


@dataclass(frozen=True)
class Alternative:
    """A change, and how many datasets (or draws) it would allow in all, by the closed form until it is `tried`.

    rows: of each dataset, where that is the change; drop: the columns that are left out, where that is.
    """

    change: str
    datasets: int
    why: str = ""
    rows: int | None = None
    drop: tuple[str, ...] = ()
    case: Case | None = field(default=None, repr=False, compare=False)

    def tried(self, watch: Watch) -> "Alternative":
        """Return it with the number that the budget of the changed table would be, simulated as any budget is."""
        return self if self.case is None else replace(self, datasets=self.case.allowed(watch)[0])

    @property
    def in_words(self) -> str:
        """The change, and what explains its number where that may surprise."""
        return f"{self.change} ({self.why})" if self.why else self.change


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Budget(ShowsItself):
    """What may be released of a table, and what sets the limit. A dataset stands for a parameter draw, too.

    case: the table, how it is released, and who attacks. in_all: the most datasets, or parameter draws, that
    disclose anyone with a chance of at most 5 %. It is found as if nothing had been drawn: who lets what was drawn
    decide how much more is drawn tells by that, too. limiting_row: the record likeliest to be disclosed by one
    dataset more than that, counted from 1; limiting_column: the value of it that would be. simulated: the releases
    that were simulated and attacked; None where the closed form alone decided. before: how many of these are out.
    lowered: by how many fewer may follow because of what those that are out happen to tell. converted: whether
    what is out is of other kinds, which were converted (`counted_as`). luck: where more is out than the budget
    allows, how often so much discloses somebody. alternatives: what would allow more, or less. standing: of a
    table that stays in its engine, the records that stand out, which alone are here.
    """

    case: Case
    in_all: int
    limiting_row: int
    limiting_column: str
    simulated: Simulated | None = None
    before: int = 0
    lowered: int = 0
    converted: bool = False
    luck: Luck | None = None
    alternatives: tuple[Alternative, ...] = ()
    standing: StandingOut | None = None

    @property
    def rule(self) -> Rule:
        """When a value counts as disclosed."""
        return self.case.rule

    @property
    def lineup(self) -> Lineup:
        """The people, from the highest leverage down, and the closed form of their chances."""
        return self.case.lineup

    @property
    def law(self) -> ExposureLaw:
        """What the records' risk depends on besides where they stand, and its closed form."""
        return self.case.law

    @property
    def rows(self) -> Int[np.ndarray, " n"]:
        """Each record's number in the table, from 1."""
        return self.case.records.rows

    @property
    def leverage(self) -> Float[np.ndarray, " n"]:
        """Each record's, in the order of the table."""
        return self.lineup.leverage

    @property
    def rows_of_each(self) -> int | None:
        """The rows of each dataset; None for parameter draws."""
        return self.case.rows

    @property
    def confident_count(self) -> int:
        """How many may be released from here on; 0 if not even one."""
        return max(0, self.in_all - self.before - self.lowered)

    @property
    def noun(self) -> str:
        """The thing that is counted."""
        return "parameter draw" if self.rows_of_each is None else "dataset"

    @property
    def what(self) -> str:
        """The things that are counted: datasets of so many rows, or parameter draws."""
        if self.rows_of_each is None:
            return "parameter draws"
        return f"datasets of {self.case.records.schema.counted(self.rows_of_each)}"

    @property
    def limiting_record(self) -> str:
        """Who sets the limit: by the key where there is one."""
        return self._named(int(np.flatnonzero(self.rows == self.limiting_row)[0]))

    def _named(self, place: int) -> str:
        return _named(self.case.records, self.standing, place)

    @property
    def sentence(self) -> str:
        """The verdict, for a board: how many more may be released, and who sets the limit."""
        one = self.what.replace("draws", "draw").replace("datasets", "dataset")
        count, more = self.confident_count, "more " * bool(self.before)
        if self.is_unknown:
            verdict = f"It is not known yet whether even one {one} may be released"
        elif self.in_all == 0:
            verdict = f"Not even one {one} may be released"
        elif count == 0:
            verdict = f"No more {self.what} may be released"
        elif self.in_all >= self.case.most:
            verdict = f"At least {count:,} {more}{self.what}, the most that were tried, may be released"
        elif count == 1:
            verdict = f"One {more}{one} may be released, but not two,"
        else:
            verdict = f"Up to {count:,} {more}{self.what} may be released"
        nothing = (
            "no value of anyone, and nobody’s membership," if self.case.judges_membership else "no value of anyone"
        )
        reason = f"if {nothing} is to be disclosed (95\u00a0% sure){self._of_all}"
        column = self.case.records.schema.told_as(self.limiting_column)
        who = f"{column} of {self.limiting_record} sets the limit{self._though_alone}"
        cut = " This was cut short: more may be allowed than was tried."
        if self.is_unknown:
            who, cut = "so far nothing was judged", " This was cut short: let it run to its end."
        return (
            f"{verdict} {reason}; {who}.{self._as_drawn}{cut * bool(self.simulated and self.simulated.cut_short)}"
        )

    @property
    def is_unknown(self) -> bool:
        """Whether the simulation was cut short before any number was judged, so that nothing is known."""
        tried = self.simulated
        return self.in_all == 0 and tried is not None and tried.cut_short and not tried.tried

    @property
    def in_short(self) -> str:
        """How much is allowed in all, how much of it is out, and what is left: every front end shows this."""
        most = "at least " * (self.in_all >= self.case.most)
        why = ", as what is out tells more than most" * (self.lowered > 0)
        return f"{most}{self.in_all:,} allowed · {self.before:,} out · {self.confident_count:,} left{why}"

    @property
    def _though_alone(self) -> str:
        """Say that chances of several people add up, where they do."""
        tried = self.beyond
        if tried is None or self.in_all >= self.case.guess:
            return ""
        people = int(np.sum(tried.each > 0))
        if people < 2 or np.max(tried.each) == tried.disclosing:
            return ""
        return f", with chances of {people - 1:,} other{'s' * (people > 2)} that add up"

    @property
    def _of_all(self) -> str:
        if not self.before:
            return ""
        out = f"{self.before:,} {'is' if self.before == 1 else 'are'} out"
        if self.converted:
            out = f"what is out, of other kinds, counts as {self.before:,}"
        return f": {self.in_all:,} in all, and {out}" if self.in_all else f", and {out}"

    @property
    def _as_drawn(self) -> str:
        if self.lowered <= 0:
            return ""
        return " What is out happens to tell more than as much mostly does, so that fewer may follow."

    @property
    def assumptions(self) -> str:
        """What the verdict rests on, and what it is not."""
        mechanism, who = self.case.mechanism, self.case.adversary
        normal = "the records are jointly normal"
        if mechanism.has_classes:
            normal = f"in each of at most {mechanism.classes} classes that nobody has observed {NORMAL_IN_CLASSES}"
        elif mechanism.categories:
            normal = "within each cell of the categories the measurements are jointly normal"
        has = "every other record, the release and the mechanism"
        if self.case.declared_known:
            has += f", and either nothing of the person or the person’s {joined(self.case.declared_known)}"
        elif who.all_but_one_value:
            has += ", and either nothing of the person or all values of the person but one"
        if who.known_columns:
            has += f", and knows {joined(who.known_columns)} of everybody"
        if who.prior is not None:
            has += ", and has a prior of their own"
        categories = ", and takes the categories as known where it guesses measurements" * bool(
            mechanism.categories and not mechanism.has_classes
        )
        how = "The number comes from a closed form"
        if self.simulated:
            how = f"The number was checked on {self.simulated.in_words}"
        rule = self.rule.worded(self.case.declared_known)
        membership = f"{self.rule.membership_in_words} " * self.case.judges_membership
        gaps = " Values are missing at random." * (mechanism.has_classes and self.case.records.has_gaps)
        if self.case.gaps is not None:
            gaps = " Values are missing at random."
            if not self.case.can_simulate_gaps(self.in_all):
                gaps += " They were filled in once: who has to guess the others' gaps knows less."
        return (
            f"{rule} {membership}Assumed: {normal}; the prior was written without looking at them; "
            f"the adversary has {has}{categories}.{gaps} {how}. This is a prediction, not a guarantee: of data "
            f"that are not {'normal' if self.case.has_law else 'of such classes'} an adversary may learn more."
        )

    @property
    def beyond(self) -> Tried | None:
        """The simulated releases of the fewest datasets that are more than the budget."""
        more = [count for count in (self.simulated.tried if self.simulated else ()) if count > self.in_all]
        return self.simulated.tried[min(more)] if self.simulated and more else None

    @property
    def parts(self) -> str:
        """What measurements and categories would allow, each alone, and what lowers that, if any are judged."""
        case = self.case
        if case.cell_chances is None:
            return ""
        categories = f"the categories alone {case.by_categories:,}"
        if case.by_categories >= case.most:
            categories = "categories set no limit"
        words = (
            "Before the check by exact attacks, the measurements alone would allow "
            f"{case.by_measurements:,}; {categories}."
        )
        if self.beyond is None or self.in_all >= case.guess:
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
            words += f"; the chances of {people:,} different people add up"
        return words

    def chances(self, count: int, too_many: float = np.inf) -> Float[np.ndarray, " n"]:
        """Return each record's own chance that `count` datasets in all disclose a value of it.

        Measurements by the closed form, categories by the counts of simulated releases; of those who were attacked
        in simulated releases of so many at least how often they were disclosed, by whatever and to whomever. Not
        all of them, where they are `too_many` together.
        """
        chances = self.case.chances(count, too_many)
        if count and self.case.has_law:
            chances = np.maximum(chances, TINY)  # of which rounding leaves nothing: small is not never
        watched = self.case.watched
        shares = {one.count: one.shares for one in self._tried if len(one.each) == len(watched)}
        if (often := shown_at(count, shares)) is not None:
            chances[watched] = np.maximum(chances[watched], often)
        return chances

    def anybody(self, count: int) -> float:
        """Return the chance that `count` datasets in all disclose anybody, by the closed form where there is one.

        It is at least each person's own, and at least how often simulated releases of so many did.
        """
        if not count:
            return 0.0
        law = self.case.anybody(count) if self.case.has_law else 0.0
        seen = shown_at(count, {one.count: np.array([one.share]) for one in self._tried})
        own = float(np.max(self.chances(count, 1.0), initial=0.0))
        return max(law, own, 0.0 if seen is None else float(seen[0]))

    def releases_of(self, count: int) -> int:
        """Return how many releases were simulated that show what `count` datasets disclose; 0 if none."""
        as_many = sorted((one.count, one.releases) for one in self._tried if one.count >= count)
        return next((releases for _, releases in as_many), max((one.releases for one in self._tried), default=0))

    def grain(self, count: int) -> str:
        """Say how much one simulated release counts in the chances of `count`, where there were few."""
        releases = self.releases_of(count)
        if not 0 < releases < FEW_RELEASES:
            return ""
        come = "where they exceed the closed form, they come" if self.case.has_law else "they come"
        one = f"{counted(releases, 'simulated release')}, one of which is {chance(1 / releases)}"
        return f"Chances of {counted(count, self.noun)}: {come} from {one}."

    @property
    def _tried(self) -> list[Tried]:
        return list(self.simulated.tried.values()) if self.simulated else []

    @property
    def closed_form_holds(self) -> bool:
        """Whether simulated releases allow as much as the closed form: then it speaks of other choices, too."""
        return self.in_all >= self.case.guess

    @property
    def places(self) -> Int[np.ndarray, " n"]:
        """The places of all records: who sets the limit, then who is likeliest to be disclosed by one more."""
        return self.ranked(min(self.in_all + 1, self.case.most))

    def ranked(self, count: int) -> Int[np.ndarray, " n"]:
        """Return the places of all records: who sets the limit, then who is likeliest by `count` datasets in all.

        Every page that names people goes by it, so that all name the same one first.
        """
        order = self.case.order
        order = order[likeliest(self.chances(count)[order])]
        first = self.rows[order] == self.limiting_row
        return np.concatenate([order[first], order[~first]])

    def tried(self, watch: Watch = lambda done: None) -> "Budget":
        """Return it with what would allow more than this, each tried as the budget was.

        Where there are categories, kept columns or gaps, one change after the other is tried until something may
        go out, and only where nothing may and it does not take long; all that were tried are named.
        """
        case = self.case
        if case.is_plain:
            more = [one for one in self.alternatives if one.datasets > self.in_all]
            every = [one.tried(watch) for one in more]
            return replace(self, alternatives=tuple(one for one in every if one.datasets > self.in_all))
        tried = list[Alternative]()
        if (
            not case.has_law
            or self.in_all
            or case.mechanism.keep
            or case.people * case.mechanism.prior.cells.count > QUICK
        ):
            return replace(self, alternatives=())
        often: list[int] = []
        if self.beyond is not None and len(self.beyond.each) == len(case.watched):
            first = np.argsort(-self.beyond.each, kind="stable")[:FEW]
            often = case.watched[first[self.beyond.each[first] > 0]].tolist()
        place = case.records.place_of(self.limiting_row)
        for one in changes_of(case, place, self.limiting_column, often):
            try:
                tried.append(one.tried(watch))
            except InputError:
                continue  # too few people, or columns, are left for the model
            if tried[-1].datasets:
                break
        return replace(self, alternatives=tuple(tried))

    @cached_property
    def membership_test(self) -> BestTest | None:
        """How well the best test tells who is in the table, by as much as the budget allows, or by one.

        Of measurements in closed form, where there is one; else by what simulated releases, gaps filled once, say
        for each person, and where that would take long of those who are watched alone.
        """
        case, count = self.case, max(self.in_all, 1)
        if not case.judges_membership or not case.has_law:
            return None
        if case.is_plain:
            test = PrivacyLoss(self.law, count).best_test(self.leverage, ALARMS)
            people = np.flatnonzero(~test.exact)
            few = len(people) * count <= TESTED_IN_ALL
        else:
            test, people = BestTest.unknown(len(self.rows), ALARMS), np.arange(len(self.rows))
            few = len(np.unique(case.everyone.records.cells)) * count <= CELLS_IN_ALL
        if not few:
            people = np.intersect1d(people, case.watched)
        if not len(people):
            return test
        return test.having(people, BestTest.of_losses(case.releases.losses(count, people, range(LOSSES)), ALARMS))

    @property
    def membership_words(self) -> str:
        """Whom the best test of membership finds most often, and how often, before anything is drawn."""
        test = self.membership_test
        if test is None:
            return ""
        place = int(np.nanargmax(test.area))
        few, more = (chance(share) for share in 1 - test.misses[place])
        many = f"{max(self.in_all, 1):,} {self.noun}{'s' * (self.in_all > 1)}"
        unsure = ""
        if test.error[place]:
            unsure = f", by {LOSSES} simulated releases (standard error {test.error[place]:.1g})"
        most = "" if test.exact[place] else "at most "
        return (
            f"Membership: of everybody, {self._named(place)} is the easiest to tell to be in the table. By {many} "
            f"the best test there is would find it in {most}{few} of cases with 1 % false alarms, in {more} with "
            f"5 %; the area under its curve is {test.area[place]:.2f} (one half: nothing is told){unsure}."
        )

    def columns(self, counts: Sequence[int] = COUNTS) -> dict[str, np.ndarray]:
        """Return a row a record: leverage, its own chance at the budget and at twice that, expected exposures.

        And how well the best test at the budget tells that the person is in the table.

        Of a table that stays in its engine, a row for each record that was fetched, with its key.
        """
        at, test = max(self.in_all, 1), self.membership_test or BestTest.unknown(len(self.rows), ALARMS)
        keys = {"key": np.array(self.standing.keys)} if self.standing and self.standing.keys else {}
        keys = self.case.records.named | keys
        chances = {f"chance_at_{each}": self.chances(each) for each in (at, 2 * at)}
        if not self.case.has_law:
            return keys | chances
        return {
            **keys,
            "leverage": self.leverage,
            **chances,
            "threshold_datasets": self.law.threshold(self.leverage),
            **{f"exposure_at_{count}": self.law.exposure(self.leverage, count) for count in counts},
            **test.columns,
            "membership_error": test.error,
        }

    def to_frame(self, backend: Any = None) -> Any:
        """Return the same as a dataframe, in the table's own library or the one named."""
        chosen: Any = backend or self.case.records.backend
        return nw.from_dict(self.columns(), backend=chosen).to_native()

    @property
    def ladder(self) -> list[dict[str, Any]]:
        """Of a table in its engine: for each leverage that some record passes, how many do and what one allows."""
        if self.standing is None:
            return []
        return [
            {
                "leverage": float(step),
                "records above": int(above),
                "datasets at expected exposure 0.5": int(self.law.most(step, HALFWAY)),
            }
            for step, above in zip(self.standing.ladder, self.standing.above, strict=True)
            if above
        ]

    def verify(
        self,
        releases: int,
        rng: np.random.Generator | int | None = None,
        watch: Watch = lambda done: None,
    ) -> dict[str, Any]:
        """Simulate releases of as many datasets as the budget allows in all, with random numbers of their own.

        >>> import allbutone as abo
        >>> abo.budget(abo.demo_cohort(), rows=503, rng=1).verify(2, rng=1)["releases"]
        2
        """
        from scipy.stats import binomtest  # not above: it takes longer to load than all the rest

        seed = int(np.random.default_rng(rng).integers(2**63))
        count = max(self.in_all, 1)
        simulates, people, _ = replace(self.case, seed=seed).simulating(count)
        passed = try_count(simulates, count, people, releases, watch=watch).disclosing
        # Wilson's interval is honest at none and at all
        low, high = binomtest(passed, releases).proportion_ci(method="wilson")
        return {
            "passed": passed, "releases": releases, "share": passed / releases, "low": float(low),
            "high": float(high), "attacked": len(people),
        }  # fmt: skip


def budget(
    table: Any,
    prior: AnyPrior | None = None,
    *,
    rows: int | None,
    release: AnyRelease | None = None,
    adversary: Adversary = USUAL,
    probability: float | Rule = 0.5,
    alternatives: bool = False,
    key: str | None = None,
    most: int = MOST_FETCHED,
    rng: np.random.Generator | int | None = None,
    watch: Watch = lambda done: None,
    model: str | None = None,
    classes: int | None = None,
    cells: str = "main effects",
    cell_weight: float | None = None,
    keep: str | Sequence[str] = (),
    missing: str = REFUSE,
    **how_to_read: Any,
) -> Budget:
    """Return how many datasets of `rows` (None: parameter draws) may be released before anyone is disclosed.

    A value is disclosed when the adversary gives it at least `probability` within its tolerance (see `Rule`). The
    chance that a release discloses anyone, at most 5 %, is bounded by the sum of the records' own chances, which
    the closed form gives, and of categories the counts of the cells; simulated releases of this very table, in
    which those at most risk are attacked, check it wherever that does not take long.
    `release`: what was released already (one, or several in a list), which counts; where releases are simulated,
    fewer may follow if it happens to tell more than as much mostly does. `adversary`: against whom.
    `alternatives`: also say what would allow more. Of a table that stays in its engine the `most` records that
    stand out most are fetched, which the column `key` names. `watch` is called with the number of releases
    simulated. `rng`: of the simulations; left out, that of every front end, so that all say the same. prior,
    model, classes, cells, cell_weight, keep and missing are those of `Synthesizer`; how the table is read is said
    as to `Records.of`.

    >>> import allbutone as abo
    >>> plan = abo.budget(abo.demo_cohort(), {"centre": 0, "spread": 1}, rows=503, rng=1)
    >>> plan.limiting_row, list(plan.columns())[:2]
    (212, ['row', 'leverage'])
    """
    rule = Rule.of(probability)
    rows = None if rows is None else count_of("rows", rows)
    seed = seed_of(rng)
    how = {"cells": cells, "cell_weight": cell_weight, "keep": keep, "missing": missing}
    how |= {"model": model, "classes": classes}
    if is_lazy(table):
        lazy = LazyRecords.of(table, **{"categories": True, **how_to_read})
        mechanism = _mechanism(lazy, prior, how)
        if mechanism.categories:
            standing = standing_out_in_cells(lazy, mechanism.prior, most=most, key=key)
        else:
            standing = standing_out(lazy, mechanism.require_prior(), most=most, key=key)
        elsewhere = standing.elsewhere if standing.others else None
        case = Case.of(standing.records, mechanism, rows, rule, seed, adversary, elsewhere)
        return plan(case, release, alternatives=False, standing=standing, watch=watch)
    reading = {"categories": True, "gaps": missing != REFUSE, "many_cells": model == CLASSES}
    records = Records.of(table, **reading | how_to_read)
    case = Case.of(records, _mechanism(records, prior, how), rows, rule, seed, adversary)
    return plan(case, release, alternatives=alternatives, watch=watch)


def seed_of(rng: np.random.Generator | int | None = None) -> int:
    """Return the seed of a budget's simulations: without `rng` that of every front end."""
    return int(np.random.default_rng(SAME_START if rng is None else rng).integers(2**63))


def plan(
    case: Case,
    release: AnyRelease | None = None,
    *,
    alternatives: bool = False,
    standing: StandingOut | None = None,
    watch: Watch = lambda done: None,
) -> Budget:
    """Return the budget of a case; the arguments are those of `budget`."""
    in_all, simulated = case.allowed(watch)
    before, lowered, kinds = 0, 0, Kinds()
    if release is not None:
        out = Earlier(release_of(release))
        kinds = out.kinds
        before = case.counted_as(kinds)
        left = max(0, in_all - before)
        if left and simulated and not simulated.cut_short:
            # what is out may tell more than as much mostly does
            lowered = left - case.safe(left, watch, out).count
    luck = _beyond(case, before, in_all, simulated, standing, watch)
    place, column = case.limiting(in_all, simulated)
    return Budget(
        case=case,
        in_all=in_all,
        limiting_row=int(case.records.rows[place]),
        limiting_column=column,
        simulated=simulated,
        before=before,
        lowered=lowered,
        converted=kinds.keys() - {case.rows} != set(),
        luck=luck,
        alternatives=alternatives_of(case, place, column) if alternatives and case.is_plain else (),
        standing=standing,
    )


def luck_of(case: Case, release: AnyRelease, watch: Watch = lambda done: None) -> Luck | None:
    """Return how often releases of as much disclose somebody, where that is more than the budget allows."""
    before = case.counted_as(Earlier(release_of(release)).kinds)
    return _beyond(case, before, *case.allowed(watch), None, watch)


def _beyond(
    case: Case, before: int, in_all: int, simulated: Simulated | None, standing: StandingOut | None, watch: Watch
) -> Luck | None:
    """Return how often releases of so many as are out disclose somebody, where fewer are allowed."""
    if before <= in_all:
        return None
    if simulated and simulated.cut_short:
        return Luck(0.0, "nobody", 0.0, cut_short=True)
    return case.luck(before, lambda place: _named(case.records, standing, place), watch)


def alternatives_of(case: Case, place: int, column: str) -> tuple[Alternative, ...]:
    """Return what could be done instead, each with the number it allows by the closed form, computed anew."""
    wished = list(changes_of(case, place, column, case.lineup.order[:FEW].tolist()))
    records, prior = case.records, case.mechanism.require_prior()
    stronger = replace(case, mechanism=replace(case.mechanism, normal=stronger_prior(records, prior)))
    words = f"a public prior worth {case.people:,} people that agrees with the table"
    wished.append(Alternative(words, 0, case=stronger))
    every = [replace(one, datasets=one.case.guess) for one in wished if one.case is not None]
    return tuple(_explained(one, every) for one in every)


def changes_of(case: Case, place: int, column: str, others: Sequence[int]) -> Iterator[Alternative]:
    """Yield what can be changed, the least first: other sizes, without some people, without a column.

    `place`, `column`: who sets the limit, and by what; `others`: who else stands out.
    """
    records, rows = case.records, case.rows
    if rows is not None:
        sizes = {max(1, rows // part) for part in SMALLER} | ({2 * rows} if case.is_plain else set())
        for size in sorted(sizes - {rows}, reverse=not case.is_plain):
            yield Alternative(
                f"datasets of {records.schema.counted(size)}", 0, rows=size, case=replace(case, rows=size)
            )
    fewest = records.values.shape[1] + 2 if case.mechanism.require_prior().is_flat else 3
    for places in dict.fromkeys(((place,), tuple(sorted({place, *others})))):
        if len(records.rows) - len(places) >= fewest:
            numbers = joined([f"{records.persons[each]}" for each in places])
            word = f"person{'s' * (len(places) > 1)}" if len(records.people) else f"row{'s' * (len(places) > 1)}"
            left = records.take(np.delete(np.arange(len(records.rows)), places))
            yield Alternative(f"leave {word} {numbers} out", 0, case=replace(case, records=left))
    if column == MEMBERSHIP:  # which all columns tell, first the one in which the record stands out most
        column = case._farthest(place)
    for names in dict.fromkeys(((column,), records.categories.columns)):
        if names and set(case.mechanism.measurements) - {*names}:
            told = joined([records.schema.told_as(name) for name in names])
            words = f"leave the column{'s' * (len(names) > 1)} {told} out"
            fewer, mechanism = _without(names, records, case.mechanism)
            less = replace(case, records=fewer, mechanism=mechanism)
            yield Alternative(words, 0, drop=tuple(names), case=less)


def _without(names: Sequence[str], records: Records, mechanism: Mechanism) -> tuple[Records, Mechanism]:
    """Return the table without columns, and the mechanism whose cells are worth as much all together."""
    fewer = records.select([each for each in records.order if each not in names])
    places = [place for place, each in enumerate(mechanism.measurements) if each not in names]
    weight = mechanism.cell_weight * mechanism.prior.cells.count / prod(map(len, fewer.categories.levels))
    schema, normal = mechanism.schema.for_columns(fewer.order), mechanism.require_prior().marginal(places)
    less = replace(mechanism, schema=schema, normal=normal, cell_weight=weight)
    return fewer, Mechanism.of_measurements(schema, normal) if less.is_normal else less


def _explained(one: Alternative, every: list[Alternative]) -> Alternative:
    """Say why leaving more people out may allow less."""
    if not one.change.startswith(("leave rows ", "leave persons ")):
        return one
    alone = next((each for each in every if each.change.startswith(("leave row ", "leave person "))), None)
    if alone is None or one.datasets >= alone.datasets:
        return one
    return replace(one, why="the others then vary less, so that those who come next stand out more")


def stronger_prior(records: Records, prior: NIW) -> NIW:
    """Return a prior that says what the table says, with the weight of as many people."""
    moments, people = Moments.of(records.values), len(records.values)
    if prior.is_flat:
        return NIW(moments.mean, float(people), float(people + prior.p), moments.scatter)
    return prior.update(records.values)


def _named(records: Records, standing: StandingOut | None, place: int) -> str:
    """Say who somebody is: by the key, where there is one, or by the row."""
    if standing is None:
        return records.who(place)
    if standing.keys:
        return f"record {standing.keys[place]}"
    return "the record of the highest leverage" if place == 0 else f"the record of rank {place + 1} by leverage"


def _mechanism(records: Any, prior: AnyPrior | None, how: dict[str, Any]) -> Mechanism:
    """Return how the table is released; measurements alone are one cell."""
    if records.schema.categories or how["keep"] or how["missing"] != REFUSE or how["model"] == CLASSES:
        return Synthesizer(prior, **how).fit(records).mechanism
    schema = records.schema.for_columns(records.columns)
    normal = declared_prior(schema) if prior is None else prior_of(prior, records.columns, schema)
    people = len(records) if isinstance(records, LazyRecords) else len(records.values)
    if normal.is_flat and people < len(records.columns) + 2:
        raise InputError(
            f"{records.schema.counted(people)} are too few for {counted(len(records.columns), 'column')} "
            "without a prior",
            "give a prior from public knowledge",
            *records.schema.fewer_columns,
        )
    return Mechanism.of_measurements(schema, normal)
