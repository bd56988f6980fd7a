"""What is asked of a table and what was released of it: by whom, near what, how exactly; and what was learned."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.class_beliefs import ClassAdversary
from allbutone.adversary.gaps import CHAINS, DRAWS, before_limits, noticed_bounds, spread_given_others
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.adversary.proposal import Points
from allbutone.adversary.who import USUAL, Adversary
from allbutone.disclosure.derived_risk import DerivedValues
from allbutone.disclosure.measures import ALWAYS_THE_SAME, RADIUS, Effort, Measures, measure
from allbutone.disclosure.rule import USUAL as USUAL_RULE
from allbutone.disclosure.rule import Beliefs, Known, Rule, near_truth, require_secret
from allbutone.model.location import LocationModel
from allbutone.model.moments import Moments
from allbutone.model.prior import prior_of
from allbutone.releases.mechanism import KEEP_GAPS, Mechanism
from allbutone.releases.release import Release
from allbutone.releases.several import AReleased, Part, Released, in_columns, parts_of
from allbutone.support.devices import HERE
from allbutone.support.errors import Cure, InputError
from allbutone.tables.records import Records

FOR_TOTALS = 9  # 2⁹ points, four times: a gain to about 0.01 nats
MOST_WORK = 2.5e8  # numbers that mixtures hold for all records: one or two minutes
USUAL_WORK = 6e7  # that they hold with as many draws of the gaps as are taken: about half a minute
FEW_DRAWS = 2  # of each chain, where more would take too long
MEASURES = (
    "distance", "baseline_distance", "relative_error", "exposure", "mass", "prior_mass", "information_gain",
)  # fmt: skip
SAMPLED = ("mass_error", "information_gain_error")  # where what is learned is averaged over draws
EVIDENCE = "membership_evidence"  # log likelihood ratio of the release with the person in the table
GAPS = "gaps"  # the name under which it is judged which values a record lacks


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of every posterior: near what, by which points, and of how many people in all."""

    near: Known
    points: Points
    radius: float | None
    rule: Rule
    people: int

    def effort(self, posteriors: LogQuadratic) -> Effort:
        """Return how many points a posterior may have, so that the work on all people is bounded."""
        mass = self.radius is not None
        # drawing and weighing a point costs as much as ten wells
        each = (1 << 28 if mass else 1 << 26) / (self.people * (posteriors.wells + 10) * posteriors.p)
        most = (13 if posteriors.p <= 2 else 11 if posteriors.p <= 10 else 10) if mass else FOR_TOTALS
        return Effort(self.points, 1 << int(np.clip(np.log2(max(each, 1)), 5, most)))

    def measured(
        self,
        posteriors: LogQuadratic,
        truth: Any,
        rows: Int[np.ndarray, " b"],
        places: Sequence[int],
        before: LogQuadratic | None = None,
    ) -> Measures:
        """Measure what is known of these columns of these records."""
        near, effort = self.near.take(rows, places), self.effort(posteriors)
        return measure(posteriors, truth, effort, radius=self.radius, near=near, before=before, rule=self.rule)


def unwatched(records: int) -> None:
    """Tell nobody how many records are done."""


@dataclass(frozen=True, eq=False)
class Question:
    """A table, what was released of it, and what is asked: by whom, near what, and how exactly.

    Columns that the adversary lacks are left out of table and release. `near`: what counts as knowing each value.
    `chosen`: the places of those who are judged, if not all are.
    """

    records: Records
    release: Released
    adversary: Adversary
    near: Known
    elsewhere: Moments | None = None
    rule: Rule = USUAL_RULE
    radius: float | None = RADIUS
    rng: np.random.Generator | None = None
    points: Points = ALWAYS_THE_SAME
    device: str = HERE
    chosen: Int[np.ndarray, " m"] | None = None
    judged: int | None = None
    classes: ClassAdversary | None = None
    watch: Callable[[int], None] = unwatched

    @classmethod
    def of(
        cls, records: Records, release: Released, adversary: Adversary = USUAL, elsewhere: Moments | None = None
    ) -> "Question":
        """Leave out what the adversary lacks."""
        adversary = adversary.of(release.order, records.schema.derived_names)
        if adversary.secret is not None:
            records = records.with_schema(records.schema.with_secret(adversary.secret))
        if adversary.lacking_columns:
            records, release, elsewhere = without_lacking(records, release, adversary.lacking_columns, elsewhere)
        known = {*adversary.known_columns, *release.mechanism.keep}
        if release.mechanism.has_classes or adversary.lacks_records:  # where derived columns are not judged
            records = records.with_schema(records.schema.with_secret_sources())
            known |= {*records.schema.derived_names}
        require_secret(records.schema, known)
        records.schema.require_known_ends(adversary.known_columns or records.schema.known)
        near = replace(near_truth(records, elsewhere), functions=DerivedValues.of(records))
        return cls(records, release, adversary, near, elsewhere)

    @property
    def to_be_sent(self) -> "Question":
        """The same for a worker, perhaps of a cluster, who cannot call back."""
        return replace(self, watch=unwatched)

    @property
    def asked(self) -> Asked:
        """What is asked of every posterior."""
        people = self.judged or len(self.records.values)
        return Asked(self.near, self.points, self.radius, self.rule, people)

    @property
    def mechanism(self) -> Mechanism:
        """How the first of the releases was made."""
        return self.release.mechanism

    @property
    def parts(self) -> tuple[Part, ...]:
        """The releases, by mechanism and by the records that they were made from."""
        return parts_of(self.release)

    @property
    def rows(self) -> Int[np.ndarray, " m"]:
        """The places of those who are judged."""
        return np.arange(len(self.records.values)) if self.chosen is None else self.chosen

    @property
    def places(self) -> list[int]:
        """Where the measurements that the model is of stand among all."""
        return [self.records.columns.index(name) for name in self.mechanism.modelled]

    @cached_property
    def known_measurements(self) -> tuple[int, ...]:
        """The positions, among the modelled measurements, of those that the adversary knows of the target."""
        told = {*self.adversary.known_columns, *self.mechanism.keep}
        return tuple(place for place, name in enumerate(self.mechanism.modelled) if name in told)

    @cached_property
    def known_categories(self) -> tuple[int, ...]:
        """The positions of the categories that the adversary knows of the target: kept ones belong there."""
        told = {*self.adversary.known_columns, *self.mechanism.keep}
        return tuple(place for place, name in enumerate(self.mechanism.categories) if name in told)

    @property
    def unknown_measurements(self) -> list[str]:
        """The drawn measurements that are not known."""
        return [name for name in self.mechanism.measurements if name not in self.adversary.known_columns]

    @property
    def judged_measurements(self) -> list[str]:
        """Those of them that are secret: they are judged."""
        return [name for name in self.unknown_measurements if self.records.schema.column(name).secret]

    @property
    def judged_categories(self) -> list[str]:
        """The categories that are judged: not known, and secret."""
        names = [
            name for place, name in enumerate(self.mechanism.categories) if place not in self.known_categories
        ]
        return [name for name in names if self.records.schema.column(name).secret]

    @property
    def judged_derived(self) -> list[str]:
        """The derived columns that are judged: secret, and not all known of which they are computed."""
        told, schema = {*self.adversary.known_columns, *self.mechanism.keep}, self.records.schema
        for column in schema.derived:
            told |= {column.name} if told.issuperset(column.formula.columns) else set()
        order = schema.released_order
        return [
            each.name for each in schema.derived if each.secret and each.name not in told and each.name in order
        ]

    @property
    def judged_functions(self) -> list[str]:
        """The columns that are judged by points: those computed, and those that lie beyond or between others."""
        ordered = {each.column.name for each in self.records.schema.orders}
        return self.judged_derived + [name for name in self.judged_measurements if name in ordered]

    @property
    def judged_columns(self) -> list[str]:
        """All columns that are judged."""
        return self.judged_measurements + self.judged_categories + self.judged_derived

    @property
    def outside(self) -> tuple[str, ...]:
        """What people outside can know of a person, where the table file says so."""
        return self.records.schema.known if self.adversary.all_but_one_value else ()

    @property
    def all_but_one_value(self) -> bool:
        """Whether the second adversary knows all values of the person but one: where nothing else is declared."""
        return self.adversary.all_but_one_value and not self.outside

    @property
    def informed(self) -> "Question | None":
        """The same asked by who knows what people outside can know, where that is declared and leaves a secret."""
        if not self.outside:
            return None
        second = replace(
            self, adversary=replace(self.adversary, known=self.outside), radius=None, watch=lambda records: None
        )
        return second if second.judged_columns else None

    @property
    def measures(self) -> list[str]:
        """The measures that are asked for: none where all measurements are known."""
        return names_of_measures(MEASURES, self.radius) if self.unknown_measurements else []

    @property
    def errors(self) -> list[str]:
        """Those of them that have standard errors where what is learned is averaged over draws."""
        return names_of_measures(SAMPLED, self.radius) if self.unknown_measurements else []

    def nothing_learned(self, errors: Sequence[str] = ()) -> "Learned":
        """Return what is known before anybody was attacked; `errors`: measures that come besides."""
        names, alone = [*self.measures, *errors], self.all_but_one_value
        if self.judges_membership:
            names.append(EVIDENCE)
        nothing = Learned.nothing(self.records.values, names, self.judged_categories, alone)
        if self.near.functions is None:
            return nothing
        shape = (3, len(self.records.values), self.near.functions.count)
        return replace(nothing, derived=np.full(shape, np.nan))

    @property
    def judges_gaps(self) -> bool:
        """Whether it is judged which values a record lacks: where synthetic tables have gaps of their own."""
        return self.mechanism.missing == KEEP_GAPS

    @property
    def judges_membership(self) -> bool:
        """Whether it is judged who is in the table: by who has the whole record; none of it is kept."""
        adversary = self.adversary
        nothing_known = not (adversary.known_columns or self.mechanism.keep)
        has_law = bool(self.mechanism.measurements) or self.mechanism.has_classes
        return nothing_known and not adversary.lacks_records and has_law

    @cached_property
    def own_prior(self) -> LocationModel | None:
        """The adversary's own prior as a model of this mechanism's kind, if they have one."""
        given = self.adversary.prior
        if given is None:
            return None
        # of the columns that they have, where the prior says nothing of those that they lack
        own = prior_of(given, self.mechanism.measurements, self.records.schema)
        return replace(self.mechanism, classes=0, normal=own).prior

    @cached_property
    def elsewhere_by_cell(self) -> Moments | None:
        """The moments of each cell's further records."""
        further = self.elsewhere
        if further is None or np.ndim(further.count):
            return further
        return Moments(np.array([further.count], dtype=float), further.mean[None], further.scatter[None])

    @cached_property
    def has_gaps(self) -> bool:
        """Whether any value is missing, of the table or of what was released."""
        return any(each.has_gaps for each in (self.records, *self.release.datasets))

    @cached_property
    def has_bounds(self) -> bool:
        """Whether limits or rounding of released values make a difference to who attacks; there are no gaps."""
        return any(self._bounds_matter(part) for part in self.parts)

    def _bounds_matter(self, part: Part) -> bool:
        release, mechanism = part.release, part.release.mechanism
        if not release.datasets or not mechanism.schema.is_limited or release.as_drawn:
            return False
        seen = [mechanism.as_drawn(each) for each in release.datasets]
        spread = spread_given_others(self.fitted(part))
        return any(each.bounded.any() for each in noticed_bounds(seen, spread))

    def before_limits(self) -> "Question":
        """Return it with one draw of what limited and coarsely rounded values may have been before, if any."""
        if not self.has_bounds:
            return self
        parts = tuple(replace(part, release=before_limits(part.release, self.fitted(part))) for part in self.parts)
        return self.about(parts)

    def about(self, parts: tuple[Part, ...]) -> "Question":
        """Return the same asked of other releases, a part for each of its own."""
        release = self.release
        whole = parts[0].release if isinstance(release, Release) else replace(release, parts=parts)
        return replace(self, release=whole)

    def fitted(self, part: Part) -> LocationModel:
        """Return a part's model given the records that it was made from."""
        mechanism = part.release.mechanism
        prior = mechanism.prior if part.people else self.with_elsewhere(mechanism.prior)
        return prior.plus(mechanism.split(self.table_of(part)))

    def with_elsewhere(self, prior: LocationModel) -> LocationModel:
        """Return a prior updated by the further records, which everybody has."""
        return prior if self.elsewhere_by_cell is None else prior.plus(self.elsewhere_by_cell)

    def table_of(self, part: Part) -> Records:
        """Return the records that a part was made from."""
        return self.records if part.people is None else self.records.take(part.people)

    @property
    def can_be_averaged(self) -> bool:
        """Whether everybody can be attacked by averages over draws, though perhaps few, in a minute or two."""
        return self._work(FEW_DRAWS) < MOST_WORK

    @property
    def draws_of_gaps(self) -> int:
        """How many draws of each chain are taken: as many as half a minute allows."""
        return int(np.clip(USUAL_WORK / self._work(1), FEW_DRAWS, DRAWS))

    def _work(self, draws: int) -> float:
        """Return how many numbers the mixtures of all records hold, about 0.4 µs of work each."""
        p, cells = len(self.mechanism.measurements), self.mechanism.prior.cells.count
        return float(cells * len(self.rows) * self.release.count * CHAINS * draws * (p + 3) ** 2)

    def leave_one_out(self) -> MixedLeaveOneOut:
        """Return all that the attacks on these records share, in every cell."""
        first, *rest = (self._part_left_out(part) for part in self.parts)
        return replace(first, own=self.own_prior, rest=tuple(rest))

    def _part_left_out(self, part: Part) -> MixedLeaveOneOut:
        mechanism, further = part.release.mechanism, None if part.people else self.elsewhere_by_cell
        split = mechanism.split(self.table_of(part))
        everyone = MixedLeaveOneOut.of(split, mechanism.prior, *part.release.opinions(), further)
        return everyone if part.people is None else replace(everyone, start=part.people.indices(len(split))[0])


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned of n records; NaN of what is known, or missing anyway.

    measures: by name. guess: of all measurements, on the model's scale. beliefs: how well each value is known to
    the adversary; rest_known: to one who knows all other values of the record. derived: of values that are
    computed from the record, the probability, its error, and that without the release; derived_rest_known: to one
    who knows what people outside can know.
    """

    measures: dict[str, Float[np.ndarray, " n"]]
    guess: Float[np.ndarray, "n p"]
    beliefs: Beliefs
    rest_known: Beliefs | None = None
    further: Mapping[str, np.ndarray] | None = None  # columns that come last, for the errors of the guess
    derived: Float[np.ndarray, "3 n d"] | None = None
    derived_rest_known: Float[np.ndarray, "3 n d"] | None = None

    @classmethod
    def nothing(
        cls,
        values: Float[np.ndarray, "n p"],
        names: Sequence[str],
        categories: Sequence[str] = (),
        all_but_one_value: bool = False,
    ) -> "Learned":
        """Return what is known before anybody was attacked; `names`: of the measures."""
        measures = {name: np.full(len(values), 0.0 if name == EVIDENCE else np.nan) for name in names}
        beliefs, rest_known = (Beliefs.nothing(values.shape, categories) for _ in range(2))
        return cls(measures, values.copy(), beliefs, rest_known if all_but_one_value else None)

    def of(self, rows: Int[np.ndarray, " m"]) -> "Learned":
        """Return what was learned of some of the records."""
        measures = {name: values[rows] for name, values in self.measures.items()}
        further = None if self.further is None else {name: values[rows] for name, values in self.further.items()}
        rest_known = None if self.rest_known is None else self.rest_known.of(rows)
        derived = [None if each is None else each[:, rows] for each in (self.derived, self.derived_rest_known)]
        return Learned(measures, self.guess[rows], self.beliefs.of(rows), rest_known, further, *derived)

    def put(self, rows: Int[np.ndarray, " b"], places: Sequence[int], measured: Any) -> None:
        """Write what was measured of some records in some of their columns."""
        for name, column in self.measures.items():
            if name != EVIDENCE:
                column[rows] = getattr(measured, name)
        here = np.ix_(rows, np.asarray(places, dtype=int))
        self.guess[here] = measured.guess
        for name in ("probability", "probability_error", "baseline"):
            getattr(self.beliefs, name)[here] = getattr(measured, name)
        if self.derived is not None:
            self.derived[:, rows] = measured.functions


def names_of_measures(names: Sequence[str], radius: float | None) -> list[str]:
    """Return the measures among these: those of mass only where a radius is asked for."""
    return [name for name in names if radius is not None or "mass" not in name]


def without_lacking(
    records: Records, release: AReleased, lacking: Sequence[str], elsewhere: Moments | None = None
) -> tuple[Records, AReleased, Moments | None]:
    """Return the table, the release and the moments of further records as an adversary has them who lacks columns.

    In the other measurements, in every cell, each is exactly what it would be of a table without those.
    """
    mechanism = release.mechanism
    if kept := [name for name in lacking if name in mechanism.keep]:
        raise InputError(
            f"{kept[0]!r} goes out as it is, so that nobody lacks it",
            Cure("leave it out of what is lacking", "lacking_columns"),
        )
    if categories := [name for name in lacking if name in mechanism.categories]:
        raise InputError(
            f"without the category {categories[0]!r} measurements are a mixture of normals, in which its levels "
            "can be exchanged: what an adversary believes has no closed form, and draws of it do not settle",
            Cure("leave it out of what is lacking", "lacking_columns"),
        )
    if not [name for name in mechanism.measurements if name not in lacking]:
        raise InputError("the adversary lacks every measurement", Cure("leave one out", "lacking_columns"))
    places = [place for place, name in enumerate(release.columns) if name not in lacking]
    if len(places) < len(release.columns):
        elsewhere = None if elsewhere is None else elsewhere.select(places)
        release = in_columns(release, places)
        records = records.select(release.order)
    return records, release, elsewhere
