"""A table, how it is to be released, and who attacks: all that a budget follows from."""

from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.integrate import Intervals
from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.adversary.one_value import Nearness
from allbutone.adversary.who import USUAL, Adversary
from allbutone.disclosure.class_releases import CLASS_LOOKS, MOST_WITH_CLASSES, ClassReleases
from allbutone.disclosure.exposure_law import HIGH, ExposureLaw
from allbutone.disclosure.gap_releases import GAP_ACCEPTED, GAP_PEOPLE, GAP_RELEASES, GapReleases
from allbutone.disclosure.lineup import CONFIDENCE, LARGEST_BUDGET, Lineup, likeliest
from allbutone.disclosure.rule import MEMBERSHIP, Rule, near_truth, require_secret
from allbutone.disclosure.simulated_budget import RELEASES, Luck, Simulated, Simulates, Watch, most_safe, try_count
from allbutone.disclosure.standing import Standing, leverages_among
from allbutone.disclosure.table_draws import MOST_WITH_CATEGORIES, CountedCells, category_chances
from allbutone.disclosure.table_releases import KINDS, TableReleases
from allbutone.model.location import MixedRecords
from allbutone.model.moments import Moments
from allbutone.model.prior import prior_of
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.several import Released, parts_of
from allbutone.releases.synthesizer import refuse_class_parameters
from allbutone.support.arrays import squared_length
from allbutone.support.errors import Cure, InputError
from allbutone.tables.records import Records

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
        return GapReleases(*self._asked(self.nearness), records=self.records)

    def _asked(self, nearness: Nearness | None) -> tuple[Any, ...]:
        """Return the fields of `Trials`, the same for every kind of table."""
        asked = (self.mechanism, self.rows, self.near, self.rule, self.seed, self.known, nearness)
        return *asked, self.judges_membership, self.public, self.outside

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
        chances = np.zeros(len(self.lineup.order))
        chances[self.lineup.order] = self.lineup.chances(count, too_many)
        if self.cell_chances is None or not count:
            return chances
        each = self.cell_chances[1]
        by_cell = each[count - 1] if count <= len(each) else np.maximum(each[-1], each.any(axis=0))
        return np.minimum(1.0, chances + by_cell[self.everyone.records.cells])

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
        alone = None if self.declared_known else self.nearness
        return TableReleases(*self._asked(alone), everyone=self.everyone)

    def safe(self, most: int, watch: Watch, released: "Earlier | None" = None) -> Simulated:
        """Return how many, up to `most`, simulated releases call safe, beside what was released."""
        releases = (
            self.releases if released is None else replace(self.releases, everyone=released.beside(self.everyone))
        )
        found = most_safe(releases, self.watched, most, watch)
        if self.gaps is None or not found.count or not self.can_simulate_gaps(found.count):
            return found
        gaps = self.gaps if released is None else released.beside_gaps(self.gaps)
        return most_safe(gaps, self._watched_with_gaps, found.count, watch, ((GAP_RELEASES, GAP_ACCEPTED),))

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
        found = most_safe(simulates, self.watched, most, watch, CLASS_LOOKS, first=1)
        return replace(found, exactly=False)

    def simulating(self, count: int) -> tuple[Simulates, Int[np.ndarray, " w"], int]:
        """Return what simulates releases, who is attacked in them, and how many are usual."""
        return self.simulates, self.watched, CLASS_LOOKS[0][0]

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
        leverages = share / (1 - share)
    (high,) = np.nonzero(~(share <= HIGH))
    if len(high):
        others = everyone.before(high, records.cells[high])
        leverages[high] = leverages_among(others, records.values[high])
    return leverages


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
