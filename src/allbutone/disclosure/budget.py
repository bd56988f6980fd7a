"""The budget: how many datasets may be released before a value of anyone is disclosed, and its check."""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.integrate import Intervals
from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.adversary.one_value import Nearness
from allbutone.adversary.who import USUAL, Adversary
from allbutone.disclosure.class_releases import (
    CLASS_ACCEPTED,
    CLASS_RELEASES,
    MOST_WITH_CLASSES,
    ClassReleases,
)
from allbutone.disclosure.epsilon import ALARMS, BestTest, PrivacyLoss
from allbutone.disclosure.exposure_law import HIGH, ExposureLaw
from allbutone.disclosure.lineup import CONFIDENCE, LARGEST_BUDGET, Lineup, likeliest
from allbutone.disclosure.rule import MEMBERSHIP, Rule, near_truth, require_secret
from allbutone.disclosure.simulated_budget import (
    RELEASES,
    Luck,
    Simulated,
    Simulates,
    Tried,
    Watch,
    most_safe,
    try_count,
)
from allbutone.disclosure.standing import (
    MOST_FETCHED,
    Standing,
    StandingOut,
    leverages_among,
    standing_out,
    standing_out_in_cells,
)
from allbutone.disclosure.table_releases import (
    GAP_ACCEPTED,
    GAP_PEOPLE,
    GAP_RELEASES,
    KINDS,
    MOST_WITH_CATEGORIES,
    CountedCells,
    GapReleases,
    TableReleases,
    category_chances,
)
from allbutone.model.location import MixedRecords
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import AnyPrior, declared_prior, prior_of
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.mechanism import CLASSES, REFUSE, Mechanism
from allbutone.releases.several import Released, parts_of
from allbutone.releases.synthesizer import Synthesizer, refuse_class_parameters
from allbutone.support.arrays import squared_length
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.text import ShowsItself, counted, joined
from allbutone.tables.engines.lazy_records import LazyRecords, is_lazy
from allbutone.tables.records import Records

# A table, how it is to be released, and who attacks: all that a budget follows from, whatever the kind of table.


PEOPLE, FEWEST = 64, 8  # of the highest leverage, who are attacked in simulated releases of measurements alone
WATCHED = 20  # of them where there are categories, and two of each of the smallest cells
SMALL_CELLS, OF_EACH = 10, 2
WORK = 1.2e7  # numbers in the wells of a simulation that is worth waiting for
GAP_WORK = 2e6  # values of the table times datasets, up to which releases of a table with gaps are simulated

Kinds = Counter[int | None]  # how many datasets of so many rows, and of None parameter draws


@dataclass(frozen=True, eq=False)
class Case:
    """A table, its mechanism, `rows` a dataset (None: parameters), the rule, and who attacks.

    elsewhere: the moments of records that are not here, and have less leverage; of each cell where there are
    categories. seed: of the simulations.
    """

    records: Records
    mechanism: Mechanism
    rows: int | None
    rule: Rule
    seed: int
    adversary: Adversary = USUAL
    elsewhere: Moments | None = None

    @classmethod
    def of(
        cls,
        records: Records,
        mechanism: Mechanism,
        rows: int | None,
        rule: Rule,
        seed: int,
        adversary: Adversary = USUAL,
        elsewhere: Moments | None = None,
    ) -> "Case":
        """Check who attacks; columns that they lack are left out of everything."""
        if mechanism.has_classes and rows is None:
            refuse_class_parameters()
        if mechanism.keep and rows not in (None, len(records.values)):
            raise InputError("with columns to keep there is a row for each person", Cure("leave rows out", "rows"))
        adversary = adversary.of(mechanism.order, mechanism.schema.derived_names)
        if adversary.secret is not None:
            records = records.with_schema(records.schema.with_secret(adversary.secret))
        records = records.with_schema(records.schema.with_secret_sources())
        not_judged = records.schema.derived_names
        require_secret(records.schema, {*adversary.known_columns, *mechanism.keep, *not_judged})
        records.schema.require_known_ends(adversary.known_columns or records.schema.known)
        if adversary.lacks_records:
            raise InputError(
                "who lacks further records knows less of everybody than who has them all, and the budget against "
                "those holds against them, too",
                Cure("leave it out", "lacking_records"),
            )
        if adversary.lacking_columns:
            records, mechanism = without_columns(records, mechanism, adversary.lacking_columns)
            adversary = replace(adversary, lacking_columns=())
        kind = ClassCase if mechanism.has_classes else Case
        return kind(records, mechanism, rows, rule, seed, adversary, elsewhere)

    @property
    def is_plain(self) -> bool:
        """Whether it is a complete table of measurements, of which none is kept."""
        mechanism = self.mechanism
        return not (mechanism.categories or mechanism.keep or self.records.has_gaps)

    @property
    def judges_membership(self) -> bool:
        """Whether it is judged who is in the table: by who has the whole record; none of it is kept."""
        return not (self.adversary.known_columns or self.mechanism.keep)

    @property
    def people(self) -> int:
        """How many records the table has."""
        return len(self.records.values) + (0 if self.elsewhere is None else int(np.sum(self.elsewhere.count)))

    @cached_property
    def known(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The measurements, and the categories, that the adversary knows of everybody; kept ones among them."""
        return self._places({*self.adversary.known_columns, *self.mechanism.keep})

    def _places(self, names: Container[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the positions of these columns among the measurements and among the categories."""
        first, second = (
            tuple(place for place, name in enumerate(every) if name in names)
            for every in (self.mechanism.modelled, self.mechanism.categories)
        )
        return first, second

    @property
    def declared_known(self) -> tuple[str, ...]:
        """What people outside can know of a person, where the table file says so."""
        return self.records.schema.known if self.adversary.all_but_one_value else ()

    @property
    def outside(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Where these columns stand, kept ones among them, if they leave anything to find."""
        told = {*self.declared_known, *self.mechanism.keep}
        left = [
            each for each in self.mechanism.order if each not in told and self.records.schema.column(each).secret
        ]
        return self._places(told) if self.declared_known and left else None

    @property
    def public(self) -> tuple[int, ...]:
        """The categories that are not secret."""
        names = enumerate(self.mechanism.categories)
        return tuple(place for place, name in names if not self.records.schema.column(name).secret)

    @cached_property
    def gaps(self) -> GapReleases | None:
        """What simulates releases where values are missing."""
        if not self.records.has_gaps:
            return None
        asked = (self.records, self.mechanism, self.rows, self.near, self.rule, self.seed, self.known)
        return GapReleases(*asked, self.nearness, self.judges_membership, self.public, self.outside)

    @cached_property
    def split(self) -> MixedRecords:
        """The table as the model sees it, gaps filled once."""
        return self.mechanism.split(self.records) if self.gaps is None else self.gaps.before.tables[0]

    @cached_property
    def everyone(self) -> MixedLeaveOneOut:
        """All that the attacks share."""
        mechanism, elsewhere, own = self.mechanism, self.elsewhere, None
        if elsewhere is not None and not np.ndim(elsewhere.count):
            elsewhere = Moments(
                np.array([elsewhere.count], dtype=float), elsewhere.mean[None], elsewhere.scatter[None]
            )
        if self.adversary.prior is not None:
            names = mechanism.measurements
            normal = prior_of(self.adversary.prior, names, mechanism.schema.for_columns(names))
            own = replace(mechanism, normal=normal).prior
        return MixedLeaveOneOut.of(self.split, mechanism.prior, elsewhere=elsewhere, own=own)

    @cached_property
    def nearness(self) -> Nearness | None:
        """What counts as knowing a value for who knows all others of the person, where that is judged, too."""
        if not self.adversary.all_but_one_value:
            return None
        places = [self.records.columns.index(name) for name in self.mechanism.measurements]
        near = near_truth(self.records, self.elsewhere).rest_known
        return near.take(np.arange(len(self.records.values)), places)

    @cached_property
    def near(self) -> Intervals:
        """What counts as knowing each drawn measurement; of one that is missing there is nothing to know."""
        places = [self.records.columns.index(name) for name in self.mechanism.measurements]
        near = near_truth(self.records, self.elsewhere).take(np.arange(len(self.records.values)), places)
        if not self.records.has_gaps:
            return near
        missing = np.isnan(self.records.values[:, places])
        return Intervals(np.where(missing, -np.inf, near.low), np.where(missing, np.inf, near.high))

    @cached_property
    def lineup(self) -> Lineup:
        """The people from the highest leverage down, each among the others of the own cell."""
        if self.is_plain:
            return Lineup.of(self.records, self.mechanism.require_prior(), self.rows, self.rule, self.elsewhere)
        everyone = self.everyone
        values, cells = everyone.records.values, everyone.records.cells

        def look(places: Int[np.ndarray, " m"]) -> Standing:
            return Standing.of(
                everyone.before(places, cells[places]), values[places], self.near.take(places), self.rule
            )

        leverage = leverages_in_cells(everyone)
        order = np.argsort(-leverage, kind="stable")
        return Lineup(self.law, leverage, order, look, unseen=self.people - len(values))

    @property
    def law(self) -> ExposureLaw:
        """What the exposure of a record depends on besides its leverage.

        Each separate cell has degrees of freedom of its own: the average cell's are taken, and the check is exact.
        """
        if self.is_plain:
            return ExposureLaw.of(self.mechanism.require_prior(), self.people, self.rows)
        whole = self.everyone.whole
        df = float(np.mean(np.asarray(whole.measured.df)))
        share = 1.0 if not whole.is_separate else 1 / max(1, whole.cells.count)
        rows = None if self.rows is None else max(1, round(share * self.rows))
        return ExposureLaw(whole.p, share * self.people - 1.0, df - 1.0, rows)

    @cached_property
    def cell_chances(self) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k cells"]] | None:
        """The chance, by counts, that 1, 2, … disclose a category of anyone, and of each cell's people."""
        if not self.mechanism.categories:
            return None
        whole = self.everyone.whole
        people = np.rint(whole.weights - self.everyone.prior.weights)
        counted = CountedCells.of(whole.cells, whole.weights, people, self.known[1], self.public)
        if not counted.judged:
            return None
        return category_chances(counted, self.rows, np.random.default_rng([self.seed, 2]), self.rule)

    @cached_property
    def by_measurements(self) -> int:
        """What the measurements alone allow, by the closed form."""
        return self.lineup.most()

    @cached_property
    def by_categories(self) -> int:
        """What the categories alone allow, by the counts of simulated releases."""
        return LARGEST_BUDGET if self.cell_chances is None else allowed(self.cell_chances[0])

    @property
    def most(self) -> int:
        """The most that is tried."""
        return LARGEST_BUDGET if self.is_plain else MOST_WITH_CATEGORIES

    @property
    def guess(self) -> int:
        """What both allow."""
        return min(self.by_measurements, self.by_categories, self.most)

    def chances(self, count: int, too_many: float = np.inf) -> Float[np.ndarray, " n"]:
        """Return each record's own chance, in the table's order, that `count` in all disclose a value of it."""
        found = np.zeros(len(self.lineup.order))
        found[self.lineup.order] = self.lineup.chances(count, too_many)
        if self.cell_chances is None or not count:
            return found
        each = self.cell_chances[1]
        by_cell = each[count - 1] if count <= len(each) else np.maximum(each[-1], each.any(axis=0))
        return np.minimum(1.0, found + by_cell[self.everyone.records.cells])

    @property
    def has_law(self) -> bool:
        """Whether there is a closed form: of leverage, and of what follows from it."""
        return True

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """The places of all people, those who stand out most first."""
        return self.lineup.order

    def anybody(self, count: int) -> float:
        """Return the chance that `count` in all disclose anybody: at most the sum over records, and any category.

        A category is often disclosed of everybody in its cell at once, so that chances of people do not add up.
        """
        total = float(np.sum(self.lineup.chances(count, 1.0)))
        if self.cell_chances is not None and count:
            by_counts = np.maximum.accumulate(self.cell_chances[0])  # simulated: more never tell less
            total += float(by_counts[min(count, len(by_counts)) - 1])
        return min(1.0, total)

    @cached_property
    def watched(self) -> Int[np.ndarray, " w"]:
        """The places of those who are attacked: of the highest leverage, and of the smallest cells."""
        order = self.lineup.order
        if self.is_plain:
            wells = 1 if self.rows is None else min(self.guess, 50)
            each = RELEASES * wells * self.mechanism.prior.p**2  # numbers in the wells of one of them
            return order[: int(np.clip(WORK / each, FEWEST, PEOPLE))]
        cells, first = self.everyone.records.cells, list(order[:WATCHED])
        smallest = np.unique(cells)
        smallest = smallest[np.argsort(self.everyone.whole.weights[smallest], kind="stable")][:SMALL_CELLS]
        for cell in smallest if self.cell_chances is not None else ():
            first += list(order[cells[order] == cell][:OF_EACH])
        return np.array(list(dict.fromkeys(map(int, first))))

    @cached_property
    def releases(self) -> TableReleases:
        """Simulated releases of the table, gaps filled once."""
        asked = (self.everyone, self.mechanism, self.rows, self.near, self.rule, self.seed, self.known)
        alone = None if self.declared_known else self.nearness
        return TableReleases(*asked, alone, self.judges_membership, self.public, self.outside)

    def safe(self, most: int, watch: Watch, released: "Earlier | None" = None) -> Simulated:
        """Return how many, up to `most`, simulated releases call safe, beside what was released."""
        releases = (
            self.releases if released is None else replace(self.releases, everyone=released.beside(self.everyone))
        )
        found = most_safe(releases, self.watched, most, watch)
        if self.gaps is None or not found.count or not self.can_simulate_gaps(found.count):
            return found
        gaps = self.gaps if released is None else released.beside_gaps(self.gaps)
        bar = GAP_RELEASES, GAP_ACCEPTED
        return most_safe(gaps, self._watched_with_gaps, found.count, watch, *bar)

    def can_simulate_gaps(self, count: int) -> bool:
        """Say whether releases of a table with gaps can be simulated in minutes."""
        rows = len(self.records.values) + (self.rows or 0)
        return rows * self.mechanism.prior.p * max(count, 1) <= GAP_WORK

    @property
    def _watched_with_gaps(self) -> Int[np.ndarray, " w"]:
        """Half of them by leverage, half of the smallest cells."""
        half = GAP_PEOPLE // 2
        return np.array(list(dict.fromkeys([*self.watched[:half].tolist(), *self.watched[::-1][:half].tolist()])))

    def allowed(self, watch: Watch) -> tuple[int, Simulated | None]:
        """Return how many are allowed, and the simulated releases that say so, if it is not the closed form."""
        found = self.safe(self.guess, watch)
        return found.count, found

    def counted_as(self, kinds: Kinds) -> int:
        """Return how many datasets of this size what is out counts as."""
        return counted_as(kinds, self.rows, lambda kind: replace(self, rows=kind).guess, self.guess)

    def luck(self, count: int, named: Callable[[int], str], watch: Watch = lambda done: None) -> Luck:
        """Return how often releases of so many disclose somebody."""
        simulates, people, many = self.simulating(count)
        return Luck.of(try_count(simulates, count, people, many, watch=watch), people, named)

    def simulating(self, count: int) -> tuple[Simulates, Int[np.ndarray, " w"], int]:
        """Return what simulates releases of so many, who is attacked in them, and how many are usual."""
        if self.gaps is not None and self.can_simulate_gaps(count):
            return self.gaps, self._watched_with_gaps, GAP_RELEASES
        return self.releases, self.watched, RELEASES

    def limiting(self, count: int, simulated: Simulated | None) -> tuple[int, str]:
        """Return the place of who is likeliest to be disclosed by one more than so many, and by which column.

        Or by their membership.

        It is who was disclosed most often, where simulated releases lowered the number; else who is by the closed
        form and the counts.
        """
        lowered = simulated is not None and count < self.guess
        more = [one for at, one in (simulated.tried.items() if simulated and lowered else ()) if at > count]
        seen = min(more, key=lambda one: one.count) if more else None
        by_categories = self.by_categories < self.by_measurements
        if seen is not None and seen.disclosing and len(seen.each) == len(self.watched):
            place = int(self.watched[np.argmax(seen.each)])
            some = range(min(seen.releases, 40))
            kinds = self.releases.by_kind(seen.count, np.array([place]), some).sum(axis=(0, 1))
            if np.argmax(kinds) == KINDS.index(MEMBERSHIP):
                return place, MEMBERSHIP
            by_categories = bool(kinds[1] > kinds[0])
        else:
            at = min(count + 1, self.most)
            chances = self.chances(at)[self.lineup.order]
            place = int(self.lineup.order[likeliest(chances)[0]])
        return place, self._rarest(place) if by_categories else self._farthest(place)

    def _farthest(self, place: int) -> str:
        """Return the measurement in which somebody stands out most."""
        standing = self.lineup.look(np.array([place]))
        reach = np.where(np.isfinite(standing.needed[0]), np.abs(standing.deviation[0]), -1.0)
        return self.mechanism.measurements[int(np.argmax(reach))]

    def _rarest(self, place: int) -> str:
        """Return the category, not known, of which somebody has the rarest level."""
        codes, cells = self.everyone.whole.cells.codes, self.everyone.records.cells
        own = codes[cells[place]]
        weights = self.everyone.whole.weights
        judged = [each for each in range(len(own)) if each not in (*self.known[1], *self.public)]
        shares = [float(np.sum(weights[codes[:, each] == own[each]])) for each in judged]
        return self.mechanism.categories[judged[int(np.argmin(shares))]]


@dataclass(frozen=True, eq=False)
class ClassCase(Case):
    """The same where columns are drawn through classes: there is no closed form, and all comes from simulations.

    Who stands out is who comes closest to being disclosed in some of them.
    """

    @property
    def is_plain(self) -> bool:
        """Never: there are classes."""
        return False

    @property
    def has_law(self) -> bool:
        """Whether there is a closed form: none."""
        return False

    @property
    def gaps(self) -> None:
        """Gaps are drawn with the classes."""

    @property
    def cell_chances(self) -> None:
        """There are no cells."""

    @cached_property
    def simulates(self) -> ClassReleases:
        """Simulated releases of the table."""
        assert self.rows is not None
        return ClassReleases(self.records, self.mechanism, self.rows, self.rule, self.seed, self.adversary)

    @property
    def most(self) -> int:
        """The most that is tried."""
        return MOST_WITH_CLASSES

    @property
    def guess(self) -> int:
        """All that is tried: nothing is known before it is."""
        return MOST_WITH_CLASSES

    @property
    def watched(self) -> Int[np.ndarray, " w"]:
        """The places of those who are attacked."""
        return self.simulates.watched

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """The places of all people, those who are attacked first."""
        others = np.setdiff1d(np.arange(len(self.records.values)), self.watched)
        return np.concatenate([self.watched, others])

    def chances(self, count: int, too_many: float = np.inf) -> Float[np.ndarray, " n"]:
        """Return 0 for everybody: what is known of chances is what simulations showed."""
        return np.zeros(len(self.records.values))

    def safe(self, most: int, watch: Watch, released: "Earlier | None" = None) -> Simulated:
        """Return how many, up to `most`, simulated releases call safe, beside what was released."""
        simulates = self.simulates
        if released is not None:
            simulates = replace(simulates, earlier=released.of_classes(self.mechanism))
        found = most_safe(simulates, self.watched, most, watch, CLASS_RELEASES, CLASS_ACCEPTED, first=1)
        return replace(found, exactly=False)

    def simulating(self, count: int) -> tuple[Simulates, Int[np.ndarray, " w"], int]:
        """Return what simulates releases, who is attacked in them, and how many are usual."""
        return self.simulates, self.watched, CLASS_RELEASES

    def counted_as(self, kinds: Kinds) -> int:
        """Return how many datasets of this size what is out counts as, by its rows."""
        assert self.rows is not None
        return int(np.ceil(sum(count * (kind or 0) for kind, count in kinds.items()) / self.rows))

    def limiting(self, count: int, simulated: Simulated | None) -> tuple[int, str]:
        """Return the place of who was disclosed most often by more than so many, or came closest, and by what."""
        tried = [one for one in (simulated.tried.values() if simulated else ()) if one.count > count]
        seen = min(tried, key=lambda one: one.count) if tried else None
        place, at, some = int(self.watched[0]), max(count, 1), 3
        if seen is not None and seen.disclosing:
            place, at, some = int(self.watched[np.argmax(seen.each)]), seen.count, seen.releases
        return place, self.simulates.limiting_column(place, at, range(some))


@dataclass(frozen=True, eq=False)
class Earlier:
    """What was released already: by one mechanism or several, of all records or of some."""

    released: Released

    @property
    def kinds(self) -> Kinds:
        """How many of each kind: datasets by their rows, parameter draws by None.

        Who has the parameters learns nothing more from datasets that were drawn from them.
        """
        found: Kinds = Counter()
        for release in (part.release for part in parts_of(self.released)):
            release.require_no_guarantee()
            found += Counter(len(each.values) for each in release.datasets) + Counter({None: release.draws})
        return found

    def beside(self, everyone: MixedLeaveOneOut) -> MixedLeaveOneOut:
        """Return the attacks of who has this, too."""
        rest = []
        for part in parts_of(self.released):
            prior, (datasets, parameters) = part.release.mechanism.prior, part.release.opinions()
            if part.people is None and _same_model(prior, everyone.prior):
                after = (*everyone.after, *(everyone.whole.update(data) for data in datasets))
                everyone = replace(
                    everyone, datasets=(*everyone.datasets, *datasets), after=after, parameters=parameters
                )
                continue
            start, stop, _ = (part.people or slice(None)).indices(len(everyone.records))
            made = MixedLeaveOneOut.of(everyone.records.take(slice(start, stop)), prior, datasets, parameters)
            rest.append(replace(made, start=start))
        return replace(everyone, rest=tuple(rest))

    def of_classes(self, mechanism: Mechanism) -> tuple[Records, ...]:
        """Return the datasets that are out, which all were made through these classes."""
        parts = parts_of(self.released)
        if len(parts) > 1 or not parts[0].release.mechanism.same_as(mechanism):
            raise InputError(
                "what is out was made in another way than through these classes, and nobody can say what both "
                "tell together",
                Cure("leave the earlier releases out", "release"),
            )
        return tuple(parts[0].release.datasets)

    def beside_gaps(self, gaps: GapReleases) -> GapReleases:
        """Return the same of a table with gaps."""
        release = parts_of(self.released)[0].release
        return replace(gaps, earlier=release.datasets, parameters=release.parameters)


def counted_as(kinds: Kinds, rows: int | None, allowed_of: Callable[[int | None], int], most: int) -> int:
    """Return how many of one kind, of which `most` are allowed, releases of any kind count as.

    One of another kind uses up the share of its own budget: of 20 small datasets that are allowed, five are a
    quarter of what may be given away. `allowed_of`: the budget of a kind.
    """
    others = sum(count / max(allowed_of(kind), 0.5) for kind, count in kinds.items() if kind != rows)
    return kinds[rows] + int(np.ceil(round(others * max(most, 1), 9)))


def allowed(chances: Float[np.ndarray, " k"]) -> int:
    """Return the largest number, of those tried, up to which the chance never exceeds 5 %."""
    above = np.flatnonzero(chances > 1 - CONFIDENCE)
    return int(above[0]) if len(above) else len(chances)


def leverages_in_cells(everyone: MixedLeaveOneOut) -> Float[np.ndarray, " n"]:
    """Return each record's leverage among the others, in its own cell.

    With l = eᵀΛ⁻¹e/(1 − h) of the residual e, 1 − l = 1/(1 + q); near 1 it is computed without the record.
    """
    records, whole = everyone.records, everyone.whole
    here = whole.at(records.cells, records.covariates)
    weight = np.broadcast_to(np.asarray(here.mean_weight, dtype=float), len(records))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = weight / (weight - 1) * squared_length(here.root, records.values - np.asarray(here.mean))
        found = share / (1 - share)
    (high,) = np.nonzero(~(share <= HIGH))
    if len(high):
        others = everyone.before(high, records.cells[high])
        found[high] = leverages_among(others, records.values[high])
    return found


def without_columns(records: Records, mechanism: Mechanism, lacking: Any) -> tuple[Records, Mechanism]:
    """Return a table, and its mechanism, without measurements that an adversary has of nobody.

    The rest of the columns of every draw is exactly a draw of the rest by the prior's marginal.
    """
    if wrong := [name for name in lacking if name not in mechanism.measurements]:
        raise InputError(
            f"without {wrong[0]} the rest is no draw of the same model: a mixture of normals is none",
            Cure("lack measurements that are drawn", "lacking_columns"),
        )
    names = [name for name in mechanism.order if name not in lacking]
    left = [place for place, name in enumerate(mechanism.measurements) if name not in lacking]
    schema = mechanism.schema.for_columns(names)
    normal = None if mechanism.has_classes else mechanism.require_prior().marginal(left)
    return records.select(names), replace(mechanism, schema=schema, normal=normal)


def _same_model(one: Any, two: Any) -> bool:
    """Say whether two priors are the same."""
    parts = [(prior.weights, *vars(prior.measured).values()) for prior in (one, two)]
    return len(parts[0]) == len(parts[1]) and all(
        np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-12) for a, b in zip(*parts, strict=True)
    )


# The budget: how much may be released of a table, of any kind, before a value of anyone is disclosed.


COUNTS = (1, 2, 5, 10, 20, 50, 100)  # of datasets, for which every record's exposure is listed
EXPECTED_RELEASES = 2 * RELEASES  # that are simulated, about
EXPECTED_WITH_CLASSES = 3 * CLASS_RELEASES  # likewise
SMALLER = (2, 5, 10)  # parts of the rows that smaller datasets have
FEW = 5  # people at most who may be left out together
LOSSES = 400  # simulated releases by which membership is tested where there is no closed form
TESTED_IN_ALL = 20_000  # people without a closed form times datasets, up to which all of them are tested
CELLS_IN_ALL = 400  # cells times datasets, up to which everybody's membership is tested
QUICK = 50_000  # people times cells, up to which trying other choices does not take long
NORMAL_IN_CLASSES = "measurements are jointly normal and categories independent"
HALFWAY = 0.5  # the expected exposure at which a record that stands out is about to be disclosed


@dataclass(frozen=True)
class Alternative:
    """A change, and how many datasets (or draws) it would allow in all, by the closed form until it is `tried`.

    rows: of each dataset, where that is the change; drop: the column that is left out, where that is.
    """

    change: str
    datasets: int
    why: str = ""
    rows: int | None = None
    drop: str | None = None
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
        return (
            "parameter draws" if self.rows_of_each is None else f"datasets of {counted(self.rows_of_each, 'row')}"
        )

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
        if self.in_all == 0:
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
        who = f"{self.limiting_column} of {self.limiting_record} sets the limit{self._though_alone}"
        cut = " This was cut short: more may be allowed than was tried."
        return (
            f"{verdict} {reason}; {who}.{self._as_drawn}{cut * bool(self.simulated and self.simulated.cut_short)}"
        )

    @property
    def _though_alone(self) -> str:
        """Say that small chances of several people add up, where they do."""
        tried = self.beyond
        if tried is None or self.in_all >= self.case.guess:
            return ""
        people = int(np.sum(tried.each > 0))
        if people < 2 or np.max(tried.each) == tried.disclosing:
            return ""
        return f", with small chances of {people - 1:,} other{'s' * (people > 2)} that add up"

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
            has += f", and either nothing of the person or {', '.join(self.case.declared_known)}"
        elif who.all_but_one_value:
            has += ", and either nothing of the person or all values of the person but one"
        if who.known_columns:
            has += f", and knows {', '.join(who.known_columns)} of everybody"
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
            words += f"; {people:,} different people, each with a small chance, make a large one together"
        return words

    def chances(self, count: int, too_many: float = np.inf) -> Float[np.ndarray, " n"]:
        """Return each record's own chance that `count` datasets in all disclose a value of it.

        Measurements by the closed form, categories by the counts of simulated releases; of those who were attacked
        in simulated releases of so many, or of fewer, at least how often they were disclosed, by whatever and to
        whomever. Not all of them, where they are `too_many` together.
        """
        found = self.case.chances(count, too_many)
        for tried in self.simulated.tried.values() if self.simulated else ():
            if tried.count <= count and len(tried.each) == len(self.case.watched):
                often = tried.each / max(tried.releases, 1)
                found[self.case.watched] = np.maximum(found[self.case.watched], often)
        return found

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
        few, more = (f"{share:.0%}" for share in 1 - test.misses[place])
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
        chances = {f"chance_at_{each}": self.chances(each) for each in (at, 2 * at)}
        if not self.case.has_law:
            return {"row": self.rows, **chances}
        return {
            "row": self.rows,
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
    simulated. prior, model, classes, cells, cell_weight, keep and missing are those of `Synthesizer`;
    how the table is read is said as to `Records.of`.

    >>> import allbutone as abo
    >>> plan = abo.budget(abo.demo_cohort(), {"centre": 0, "spread": 1}, rows=503, rng=1)
    >>> plan.limiting_row, list(plan.columns())[:2]
    (212, ['row', 'leverage'])
    """
    rule = Rule.of(probability)
    rows = None if rows is None else count_of("rows", rows)
    seed = int(np.random.default_rng(rng).integers(2**63))
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
    before, lowered, kinds, luck = 0, 0, Kinds(), None
    if release is not None:
        out = Earlier(release_of(release))
        kinds = out.kinds
        before = case.counted_as(kinds)
        left = max(0, in_all - before)
        if left and simulated and not simulated.cut_short:
            # what is out may tell more than as much mostly does
            lowered = left - case.safe(left, watch, out).count
        if before > in_all and simulated and simulated.cut_short:
            luck = Luck(0.0, "nobody", 0.0, cut_short=True)
        elif before > in_all:
            luck = case.luck(before, lambda place: _named(case.records, standing, place), watch)
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


def luck_of(case: Case, count: int, watch: Watch = lambda done: None) -> Luck | None:
    """Return how often releases of so many disclose somebody, where that is more than a budget accepts."""
    luck = case.luck(count, lambda place: _named(case.records, None, place), watch)
    return None if luck.is_caution else luck


def alternatives_of(case: Case, place: int, column: str) -> tuple[Alternative, ...]:
    """Return what could be done instead, each with the number it allows by the closed form, computed anew."""
    wished = list(changes_of(case, place, column, case.lineup.order[:FEW].tolist()))
    records, prior = case.records, case.mechanism.require_prior()
    stronger = replace(case, mechanism=replace(case.mechanism, normal=_stronger(records, prior)))
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
            yield Alternative(f"datasets of {size:,} rows", 0, rows=size, case=replace(case, rows=size))
    fewest = records.values.shape[1] + 2 if case.mechanism.require_prior().is_flat else 3
    for places in dict.fromkeys(((place,), tuple(sorted({place, *others})))):
        if len(records.rows) - len(places) >= fewest:
            numbers = joined([f"{records.rows[each]}" for each in places])
            left = records.take(np.delete(np.arange(len(records.rows)), places))
            yield Alternative(
                f"leave row{'s' * (len(places) > 1)} {numbers} out", 0, case=replace(case, records=left)
            )
    if column == MEMBERSHIP:  # which all columns tell, first the one in which the record stands out most
        column = case._farthest(place)
    for names in dict.fromkeys(((column,), records.categories.columns)):
        if names and set(case.mechanism.measurements) - {*names}:
            words = f"leave the column{'s' * (len(names) > 1)} {joined(names)} out"
            fewer, mechanism = _without(names, records, case.mechanism)
            less = replace(case, records=fewer, mechanism=mechanism)
            yield Alternative(words, 0, drop=names[0] if len(names) == 1 else None, case=less)


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
    if not one.change.startswith("leave rows"):
        return one
    alone = next((each for each in every if each.change.startswith("leave row ")), None)
    if alone is None or one.datasets >= alone.datasets:
        return one
    return replace(one, why="the others then vary less, so that those who come next stand out more")


def _stronger(records: Records, prior: NIW) -> NIW:
    """Return a prior that says what the table says, with the weight of as many people."""
    moments, people = Moments.of(records.values), len(records.values)
    if prior.is_flat:
        return NIW(moments.mean, float(people), float(people + prior.p), moments.scatter)
    return prior.update(records.values)


def _named(records: Records, standing: StandingOut | None, place: int) -> str:
    """Say who somebody is: by the key, where there is one, or by the row."""
    if standing is None:
        return f"row {records.rows[place]}"
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
            f"{people} rows are too few for {counted(len(records.columns), 'column')} without a prior",
            "give a prior from public knowledge",
        )
    return Mechanism.of_measurements(schema, normal)
