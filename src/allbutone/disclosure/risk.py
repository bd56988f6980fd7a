"""Risk: what each person in a table stands to lose by a release, whatever the table and whoever attacks.

A table of measurements alone has one cell; without gaps there is one draw of them; of a table that stays in its
engine the records come in blocks, and the moments of all others beside them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.class_beliefs import ClassAdversary
from allbutone.adversary.gaps import (
    CHAINS,
    DRAWS,
    GapAdversary,
    before_limits,
    noticed_bounds,
    spread_given_others,
)
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.membership import evidence_in_cells, evidence_of_measurements
from allbutone.adversary.mixed import (
    CellIntegrals,
    LevelBeliefs,
    MixedLeaveOneOut,
    cell_beliefs,
    downdated,
    level_alone,
)
from allbutone.adversary.one_value import value_beliefs
from allbutone.adversary.plug_in import PlugInTable
from allbutone.adversary.proposal import Points
from allbutone.adversary.who import USUAL, Adversary, require_same_prior
from allbutone.disclosure.class_risk import risk_with_classes
from allbutone.disclosure.derived_risk import DerivedValues, belief_columns_of_derived
from allbutone.disclosure.gap_risk import GapRisk, pattern_chances, risk_with_gaps
from allbutone.disclosure.measures import (
    ALWAYS_THE_SAME,
    RADIUS,
    Effort,
    Measures,
    groups_of,
    measure,
    measure_groups,
)
from allbutone.disclosure.missing_risk import measure_missing_in_cells
from allbutone.disclosure.private_risk import private_beliefs
from allbutone.disclosure.rule import (
    MEMBERSHIP,
    REST_KNOWN,
    Beliefs,
    JudgedPeople,
    Known,
    Levels,
    Rule,
    ToldValues,
    belief_columns,
    by_membership,
    near_truth,
    require_free_names,
    require_secret,
    with_verdicts,
)
from allbutone.disclosure.rule import USUAL as USUAL_RULE
from allbutone.disclosure.standing import far_out
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import prior_of
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.mechanism import KEEP_GAPS, REFUSE, Mechanism
from allbutone.releases.public_ball import without_limits
from allbutone.releases.release import Release, reading_of
from allbutone.releases.several import AReleased, Part, Released, in_columns, parts_of
from allbutone.support.arrays import to_numpy
from allbutone.support.devices import HERE, in_numpy, require_processor
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.engines.lazy_records import BLOCK_ROWS, LazyRecords, is_lazy
from allbutone.tables.records import Records

FOR_TOTALS = 9  # 2⁹ points, four times: a gain to about 0.01 nats
BLOCK = 256  # records that are attacked at once
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
class TableRisk:
    """The columns of `risk`, the dataframe library that the table came in, and what people outside can know."""

    columns: dict[str, np.ndarray]
    library: Any
    outside: tuple[str, ...]


def risk_of_table(
    table: Any, release: AnyRelease, adversary: Adversary, asked: dict[str, Any], **how_to_read: Any
) -> TableRisk:
    """Judge every record of a table that is read as `Records.of` is told, or that stays in its engine.

    `asked`: arguments of `risk_columns`.
    """
    released = release_of(release)
    if is_lazy(table) and can_be_streamed(released):
        reading = reading_of(released, how_to_read)
        reading.pop("gaps", None)  # there are none where records can be streamed
        lazy = LazyRecords.of(table, **reading)
        blocks = list(stream_risk(lazy, released, adversary, **asked))
        columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        read: Records | LazyRecords = lazy
    else:
        read = records_of_release(table, released, **how_to_read)
        columns = risk_columns(read, released, adversary, **asked)
    library = read.library if isinstance(read, LazyRecords) else read.backend
    return TableRisk(columns, library, read.schema.known if adversary.all_but_one_value else ())


def records_of_release(table: Any, release: Released, **how_to_read: Any) -> Records:
    """Read the table of a release as it declares it; where there is a guarantee, without the limits."""
    if isinstance(release, Release) and release.noisy is not None:
        asked = reading_of(release, how_to_read)
        return Records.of(table, **asked | {"schema": without_limits(asked["schema"])})
    return Records.of(table, **reading_of(release, how_to_read))


def risk_columns(
    records: Records,
    release: Released,
    adversary: Adversary = USUAL,
    *,
    rule: Rule | None = None,
    radius: float = RADIUS,
    mass: bool = True,
    rng: np.random.Generator | None = None,
    device: str = HERE,
    rows: Int[np.ndarray, " m"] | None = None,
    elsewhere: Moments | None = None,
    judged: int | None = None,
    classes: ClassAdversary | None = None,
    watch: Callable[[int], None] = lambda records: None,
) -> dict[str, np.ndarray]:
    """Return the measures of `risk` as columns; `watch` is called with the number of records finished.

    rows: the places of those who are judged, all by default. elsewhere: the moments of records of the table that
    are not among these, of all or of each cell, which the adversary has, too. judged: of how many records that are
    judged these are a part, if they are: more take fewer points each. classes: draws of them, where they are there
    already.
    """
    if not radius > 0:
        raise InputError(f"radius must exceed 0, got {radius}")
    guaranteed = isinstance(release, Release) and release.noisy is not None
    if not guaranteed:
        require_same_table(records, release)
    question = Question.of(records, release, adversary, elsewhere)
    question = replace(
        question,
        rule=rule or Rule(),
        radius=radius if mass else None,
        rng=rng,
        points=Points.of(rng),
        device=device,
        chosen=rows,
        judged=judged,
        classes=classes,
        watch=watch,
    )
    require_free_names([*([GAPS] if question.judges_gaps else []), *question.judged_columns])
    informed = None if guaranteed else question.informed
    if guaranteed:
        question, learned = _with_guarantee(question)
    else:
        learned = _attacked(question)
        if informed is not None:
            second = _attacked(informed)
            rest_known = second.beliefs.without_level(GAPS)
            learned = replace(learned, rest_known=rest_known, derived_rest_known=second.derived)
    near, table = question.near, question.records
    if rows is not None:
        learned, near, table = learned.of(rows), near.of(rows), table.take(rows)
    if EVIDENCE in learned.measures:
        learned.measures[MEMBERSHIP] = question.rule.membership_of(learned.measures[EVIDENCE])
    also = question.judged_measurements if informed is None else informed.judged_measurements
    judged_here = question.judged_measurements
    public = [name for name in question.unknown_measurements if name not in judged_here]
    derived = [] if near.functions is None else [
        belief_columns_of_derived(near.functions, values, asked.judged_functions, prefix)
        for asked, values, prefix in (
            (question, learned.derived, ""), (informed, learned.derived_rest_known, REST_KNOWN),
        )
        if asked is not None and values is not None
    ]  # fmt: skip
    return columns_of(table, near, question.rule, learned, judged_here, also, public, derived)


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
        near = near_truth(records, elsewhere)
        if elsewhere is None:  # a table in an engine derives nothing
            near = replace(near, functions=DerivedValues.of(records))
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
        found = Learned.nothing(self.records.values, names, self.judged_categories, alone)
        if self.near.functions is None:
            return found
        shape = (3, len(self.records.values), self.near.functions.count)
        return replace(found, derived=np.full(shape, np.nan))

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
        return replace(self.mechanism, normal=own).prior

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
        spread = spread_given_others(self._fitted(part))
        return any(each.bounded.any() for each in noticed_bounds(seen, spread))

    def _fitted(self, part: Part) -> LocationModel:
        """Return a part's model given the records that it was made from."""
        mechanism = part.release.mechanism
        prior = mechanism.prior if part.people else self._with_elsewhere(mechanism.prior)
        return prior.plus(mechanism.split(self.table_of(part)))

    def _with_elsewhere(self, prior: LocationModel) -> LocationModel:
        return prior if self.elsewhere_by_cell is None else prior.plus(self.elsewhere_by_cell)

    def table_of(self, part: Part) -> Records:
        """Return the records that a part was made from."""
        return self.records if part.people is None else self.records.take(part.people)

    @property
    def can_be_averaged(self) -> bool:
        """Whether everybody can be attacked by averages over draws, though perhaps few, in a minute or two."""
        return self.device == HERE and self._work(FEW_DRAWS) < MOST_WORK

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

    def averaged(self, rng: np.random.Generator) -> GapAdversary:
        """Return the same with gaps, and values that are known within bounds, drawn many times."""
        first, *rest = (self._part_averaged(part, rng) for part in self.parts)
        return replace(first, rest=tuple(rest))

    def _part_averaged(self, part: Part, rng: np.random.Generator) -> GapAdversary:
        mechanism, own = part.release.mechanism, self.own_prior if part.people is None else None
        further = mechanism.prior if part.people else self._with_elsewhere(mechanism.prior)
        everyone = GapAdversary.of(
            mechanism.incomplete(self.table_of(part)),
            further,
            rng,
            datasets=[mechanism.as_drawn(each) for each in part.release.datasets],
            parameters=part.release.parameters,
            draws=self.draws_of_gaps,
            own=None if own is None else self._with_elsewhere(own),
        )
        people = len(self.records.values)
        return everyone if part.people is None else replace(everyone, start=part.people.indices(people)[0])


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

    def put(self, rows: Int[np.ndarray, " b"], places: Sequence[int], found: Any) -> None:
        """Write what was measured of some records in some of their columns."""
        for name, column in self.measures.items():
            if name != EVIDENCE:
                column[rows] = getattr(found, name)
        here = np.ix_(rows, np.asarray(places, dtype=int))
        self.guess[here] = found.guess
        for name in ("probability", "probability_error", "baseline"):
            getattr(self.beliefs, name)[here] = getattr(found, name)
        if self.derived is not None:
            self.derived[:, rows] = found.functions


def names_of_measures(names: Sequence[str], radius: float | None) -> list[str]:
    """Return the measures among these: those of mass only where a radius is asked for."""
    return [name for name in names if radius is not None or "mass" not in name]


def columns_of(
    records: Records,
    near: Known,
    rule: Rule,
    learned: Learned,
    judged: Sequence[str],
    judged_besides: Sequence[str] = (),
    public: Sequence[str] = (),
    derived: Sequence[Mapping[str, np.ndarray]] = (),
) -> dict[str, np.ndarray]:
    """Put together the columns of `risk`: verdicts, measures, each value's probability, errors of the guess.

    judged, judged_besides: the measurements that are judged against the adversary, and against the second one;
    public: those that are guessed, and not judged. derived: the columns of values that are computed from these.
    """
    columns = belief_columns(records, near, learned.beliefs, judged)
    if learned.rest_known is not None:
        columns |= belief_columns(records, near, learned.rest_known, judged_besides, REST_KNOWN)
    for each in derived:
        columns |= each
    last = learned.further
    if last is None:
        off = records.schema.to_natural(learned.guess) - records.natural
        last = {f"error_{name}": off[:, records.columns.index(name)] for name in (*judged, *public)}
    return with_verdicts(records, rule, learned.measures, columns, last)


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


def with_prior(release: AReleased, prior: NIW | None) -> AReleased:
    """Return a release that says which prior it was made with: the one given, where it says none."""
    if prior is None or release.prior is prior:
        return release
    require_same_prior(release, prior)
    if release.prior is not None:
        return release
    if isinstance(release, Release):
        return replace(release, mechanism=replace(release.mechanism, normal=prior))
    parts = tuple(replace(part, release=with_prior(part.release, prior)) for part in release.parts)
    return replace(release, parts=parts)


def require_same_table(records: Records | LazyRecords, release: Released) -> None:
    """Refuse a table that is not read as the release declares it, and a release that does not say its prior."""
    if records.order != release.order:
        raise InputError(
            f"the release is of the columns {', '.join(release.order)}, the table of {', '.join(records.order)}",
            Cure("choose the same columns in the same order", "columns", list(release.order)),
        )
    if not records.schema.same_mechanism(release.schema):
        raise InputError(
            "the release was made with other scales, limits or decimals, or other levels, than the table is read "
            "with",
            Cure("read the table as the release declares it", "schema"),
        )
    if not release.mechanism.says_its_prior:
        raise InputError("the release does not say which prior it was made with", Cure("give it", "prior"))


def _attacked(question: Question) -> Learned:
    """Attack everybody, in the way that the table and what is released of it ask for."""
    if question.mechanism.has_classes:
        return _by_classes(question)
    if question.adversary.lacks_records:
        return _sampled(question)
    if question.has_gaps or (question.has_bounds and question.can_be_averaged):
        return _averaged(question)
    return _exact(question)


# ------------------------------------------------------------------------------------------- exactly


def _exact(question: Question) -> Learned:
    """Attack everybody by posteriors in closed form."""
    question = _before_limits(question)
    if question.mechanism.is_normal and question.own_prior is None:
        return _exact_in_one_cell(question)
    require_processor(question.device, "a table with categories, or an adversary with a prior of their own")
    learned, everyone = question.nothing_learned(), question.leave_one_out()
    integrals = CellIntegrals.of(everyone, question.points, question.known_measurements)
    unknown = [question.records.columns.index(name) for name in question.unknown_measurements]
    attack = partial(_attacked_in_cells, question.to_be_sent, integrals, unknown)
    blocks = np.array_split(question.rows, max(1, -(-len(question.rows) // BLOCK)))
    results = in_parallel(attack, blocks, watch=lambda result: question.watch(len(result[0])), anywhere=True)
    for rows, beliefs, found, rest_known, evidence in results:
        if found is not None:
            learned.put(rows, unknown, found)
        if EVIDENCE in learned.measures:
            learned.measures[EVIDENCE][rows] = evidence
        for name, levels in learned.beliefs.levels.items():
            own = beliefs.levels[question.mechanism.categories.index(name)]
            for whole, part in zip(levels, own, strict=True):
                whole[rows] = part
        if learned.rest_known is not None and rest_known is not None:
            learned.rest_known.put(rows, question.places, rest_known)
    return learned


def _before_limits(question: Question) -> Question:
    """Return it with one draw of what limited and coarsely rounded values may have been before, if any were."""
    if not question.has_bounds:
        return question
    parts = tuple(
        replace(part, release=before_limits(part.release, question._fitted(part))) for part in question.parts
    )
    release = question.release
    return replace(
        question, release=parts[0].release if isinstance(release, Release) else replace(release, parts=parts)
    )


def _attacked_in_cells(
    question: Question, integrals: CellIntegrals, places: Sequence[int], rows: Int[np.ndarray, " b"]
) -> tuple[np.ndarray, LevelBeliefs, Measures | None, Beliefs | None, np.ndarray | None]:
    """Attack a block of records: their cells, and their measurements (`places` in the table) in the own cell."""
    everyone, given = integrals.everyone, integrals.given
    beliefs = cell_beliefs(integrals, rows, question.known_categories).of_truth  # all cells would not fit
    truth, cells = everyone.records.values[rows], everyone.records.cells[rows]
    if len(given) == truth.shape[1]:
        return rows, beliefs, None, None, None  # only categories are unknown
    posteriors, offset = everyone.problem(rows, cells)
    evidence = evidence_in_cells(everyone, rows, posteriors, offset) if question.judges_membership else None
    before = everyone.problem_before(rows, cells)
    rest_known = None
    if question.all_but_one_value:
        nearness = question.near.rest_known.take(rows, question.places)
        found = value_beliefs(posteriors, truth, nearness, before)
        rest_known = Beliefs.of_values(found, _levels_alone(question, everyone, rows))
    if given:
        posteriors = posteriors.given(given, truth[:, given])
        before = None if before is None else before.given(given, truth[:, given])
        truth = np.delete(truth, given, axis=1)
    measured = question.asked.measured(posteriors, truth, rows, places, before)
    with np.errstate(divide="ignore"):
        gain = measured.information_gain + np.log(beliefs.own) - np.log(beliefs.without)
    return rows, beliefs, replace(measured, information_gain=gain), rest_known, evidence


def _levels_alone(question: Question, everyone: MixedLeaveOneOut, rows: Int[np.ndarray, " b"]) -> Levels:
    """Return how well each category is known where all else of the record is: in closed form."""
    measurements = tuple(range(len(question.mechanism.measurements)))
    places = {name: question.mechanism.categories.index(name) for name in question.judged_categories}
    return {
        name: level_alone(everyone, question.points, rows, measurements, place) for name, place in places.items()
    }


def _exact_in_one_cell(question: Question) -> Learned:
    """Attack everybody where all are in one cell: by downdates in whitened coordinates, perhaps on a device."""
    values, prior, device = question.records.values, question.mechanism.normal, question.device
    elsewhere = question.elsewhere
    if elsewhere is not None and np.ndim(elsewhere.count):
        elsewhere = Moments(float(elsewhere.count[0]), elsewhere.mean[0], elsewhere.scatter[0])
    assert prior is not None
    everyone = LeaveOneOut.of(values, question.release, prior, None, "record", elsewhere).on(device)
    learned, known = question.nothing_learned(), question.known_measurements
    unknown = [place for place in range(values.shape[1]) if place not in known]
    attack = partial(_attacked_in_one_cell, question.to_be_sent, everyone)
    here = device == HERE  # a device is this computer's own
    results = in_parallel(
        attack,
        list(everyone.blocks(known, question.rows)),
        threads=None if here else everyone.threads,
        watch=lambda block: question.watch(len(block[0])),
        anywhere=here,
    )
    if EVIDENCE in learned.measures:
        for part in question.parts:
            some = question.table_of(part)
            further = None if part.people else elsewhere
            told = evidence_of_measurements(
                part.release.mechanism.require_prior(),
                some.values,
                [each.values for each in part.release.datasets],
                part.release.parameters,
                further,
            )
            learned.measures[EVIDENCE][slice(None) if part.people is None else part.people] += told
    for rows, found, rest_known in results:
        learned.put(rows, unknown, found)
        if learned.rest_known is not None and rest_known is not None:
            learned.rest_known.put(rows, question.places, rest_known)
    return learned


def _attacked_in_one_cell(
    question: Question, everyone: LeaveOneOut, block: tuple[np.ndarray, tuple[int, ...]]
) -> tuple[np.ndarray, Measures, Beliefs | None]:
    """Attack a block of records that share their known features."""
    rows, found = measure_block(everyone, question.asked, block)
    if not question.all_but_one_value:
        return rows, found, None
    truth, nearness = to_numpy(everyone.targets(rows)), question.near.rest_known.take(rows, question.places)
    values = value_beliefs(in_numpy(found.posteriors), truth, nearness)
    return rows, found, Beliefs.of_values(values, {})


def measure_block(
    everyone: LeaveOneOut | PlugInTable, asked: Asked, block: tuple[np.ndarray, tuple[int, ...]]
) -> tuple[np.ndarray, Measures]:
    """Measure a block of records that share their known features."""
    rows, known = block
    with everyone.queue():
        targets, posteriors = everyone.targets(rows), everyone.problem(rows, known)
        unknown = [place for place in range(targets.shape[1]) if place not in known]
        found = asked.measured(posteriors, targets[:, unknown], rows, unknown)
        return rows, found if everyone.device is None else found.in_numpy()


# ------------------------------------------------------------------------------------------- by averages


def _averaged(question: Question) -> Learned:
    """Attack everybody by averages over draws of what is missing, or known within bounds.

    The guess is the most probable record of all cells; standard errors hold those that drawing leaves.
    """
    require_processor(question.device, "a table with gaps")
    stream = np.random.default_rng(question.rng)
    adversary, known = question.averaged(stream), question.known_measurements
    found = risk_with_gaps(
        adversary,
        stream,
        own=question.own_prior,
        rows=question.chosen,
        known_columns=known,
        known_categories=question.known_categories,
        radius=question.radius or RADIUS,
        points=Points.of(stream),
        near=question.near.take(np.arange(len(question.records.values)), question.places),
        nearness=question.near.rest_known.take(np.arange(len(question.records.values)), question.places),
        watch=question.watch,
    )
    learned = question.nothing_learned(question.errors)
    distances = _distances(adversary, found, question)
    numbers = {
        "mass": found.mass, "mass_error": found.mass_error, "prior_mass": found.prior_mass,
        "information_gain": found.gain, "information_gain_error": found.gain_error,
    }  # fmt: skip
    measures = {name: (distances | numbers)[name] for name in learned.measures if name != EVIDENCE}
    if EVIDENCE in learned.measures:
        measures[EVIDENCE] = found.evidence
    places = question.places
    learned.guess[:, places] = found.guess
    for name in ("probability", "probability_error", "baseline"):
        getattr(learned.beliefs, name)[:, places] = getattr(found, name)
    if learned.derived is not None:
        learned.derived[:] = found.functions
    levels = (_patterns(question) if question.judges_gaps else {}) | _levels(question, found)
    if learned.rest_known is not None:
        every = np.arange(len(question.records.values))
        names = {name: str(question.mechanism.categories.index(name)) for name in question.judged_categories}
        alone = {name: found.rest_known.levels[place] for name, place in names.items()}
        learned.rest_known.put(every, places, replace(found.rest_known, levels=alone))
    return replace(learned, measures=measures, beliefs=replace(learned.beliefs, levels=levels))


def _distances(adversary: GapAdversary, found: GapRisk, question: Question) -> dict[str, np.ndarray]:
    """Return how near the guess comes to what is observed, beside the others' centre, averaged over their gaps.

    Of a record of which some measurements are known, the others are looked at, from their centre given these.
    """
    truth, n, given = adversary.records.values, len(adversary.records), question.known_measurements
    centre, spread = np.zeros(truth.shape), np.zeros((*truth.shape, truth.shape[1]))
    models = list(zip(adversary.before.models, adversary.before.tables, strict=True))
    for model, filled in models:
        others = downdated(model, filled, filled.cells)
        df = np.broadcast_to(np.asarray(others.df, dtype=float), n)
        centre += np.asarray(others.mean) / len(models)
        spread += np.asarray(others.scale) / df[:, None, None] / len(models)
    columns = {name: np.full(n, np.nan) for name in MEASURES[:4]}
    for row in question.rows:
        (seen,) = np.nonzero(np.isfinite(truth[row]))
        told, left = seen[np.isin(seen, given)], seen[~np.isin(seen, given)]
        if not len(left):
            continue
        slope = np.linalg.solve(spread[row][np.ix_(told, told)], spread[row][np.ix_(told, left)])
        middle = centre[row, left] + (truth[row, told] - centre[row, told]) @ slope
        width = spread[row][np.ix_(left, left)] - spread[row][np.ix_(left, told)] @ slope
        away, guess = truth[row, left] - middle, found.guess[row, left] - middle
        white = np.linalg.solve(np.linalg.cholesky(width), np.stack([away, guess]).T)
        columns["distance"][row] = np.linalg.norm(guess - away)
        columns["baseline_distance"][row] = np.linalg.norm(away)
        columns["relative_error"][row] = np.linalg.norm(white[:, 1] - white[:, 0]) / np.linalg.norm(white[:, 0])
        columns["exposure"][row] = white[:, 1] @ white[:, 0] / (white[:, 0] @ white[:, 0])
    return columns


def _patterns(question: Question) -> Levels:
    """Return the probability of each record's own pattern of gaps among those of the table and of the datasets."""
    mechanism, tables = question.mechanism, [each for part in question.parts for each in part.release.tables]
    table, datasets = mechanism.incomplete(question.records), [mechanism.incomplete(each) for each in tables]
    probability, baseline = pattern_chances(table, datasets)
    return {GAPS: (probability, np.zeros(len(probability)), baseline)}


def _levels(question: Question, found: GapRisk) -> Levels:
    """Return the probability of each record's own level of the categories that are judged."""
    codes = question.mechanism.incomplete(question.records).codes
    levels: Levels = {}
    for name in question.judged_categories:
        place, rows = question.mechanism.categories.index(name), np.arange(len(codes))
        level = codes[:, place]
        told = (found.probabilities[place], found.probability_errors[place], found.baselines[place])
        levels[name] = tuple(np.where(level < 0, np.nan, values[rows, level]) for values in told)
    return levels


# ------------------------------------------------------------------------------------------- by classes


def _by_classes(question: Question) -> Learned:
    """Attack everybody by averages over draws of classes that nobody has observed.

    Values and levels are judged with all others of the record unknown, but for those that the adversary knows.
    """
    mechanism = question.mechanism
    require_processor(question.device, "a table with classes")
    if len(question.parts) > 1 or question.own_prior is not None or question.adversary.lacks_records:
        raise InputError(
            "with classes the adversary has all other records and the classes' own prior, and all releases of the "
            "table are made in one way",
            "leave out what is lacking, the prior, and releases made otherwise",
        )
    stream, records = np.random.default_rng(question.rng), question.records
    adversary = question.classes
    if adversary is None:
        table, datasets = mechanism.incomplete(records), question.release.datasets
        adversary = ClassAdversary.of(
            mechanism.class_model,
            table,
            as_seen(mechanism, datasets, table),
            stream,
            mechanism.kept_alone(table),
        )
    known = (question.known_measurements, question.known_categories)
    every = np.arange(len(records.values))
    found = risk_with_classes(
        adversary,
        stream,
        replace(question.near.take(every, question.places), functions=None),
        nearness=question.near.rest_known.take(every, question.places) if question.all_but_one_value else None,
        rows=question.chosen,
        known=known,
        radius=question.radius,
        watch=question.watch,
    )
    learned = question.nothing_learned(question.errors)
    numbers = _distances_of_guess(records.values, found.guess, question.rows, known[0]) | {
        "mass": found.mass, "mass_error": found.mass_error, "prior_mass": found.prior_mass,
        "information_gain": found.gain, "information_gain_error": found.gain_error, EVIDENCE: found.evidence,
    }  # fmt: skip
    learned.guess[:] = np.where(np.isnan(found.guess), learned.guess, found.guess)
    places = {name: mechanism.categories.index(name) for name in question.judged_categories}
    levels = _patterns(question) if question.judges_gaps else {}
    beliefs = found.beliefs(places, levels)
    rest_known = found.rest_known(places) if learned.rest_known is not None else None
    measures = {name: numbers[name] for name in learned.measures}
    return Learned(measures, learned.guess, beliefs, rest_known)


def as_seen(mechanism: Mechanism, tables: Sequence[Records], table: IncompleteRecords) -> list[IncompleteRecords]:
    """Return synthetic tables as who attacks takes them: within bounds where these can be noticed, else exact."""
    datasets = [mechanism.as_drawn(each) for each in tables]
    if not mechanism.schema.is_limited or not table.values.shape[1]:
        return [IncompleteRecords.of(each.codes, each.values) for each in datasets]
    whole = table.values[~np.isnan(table.values).any(axis=1)]
    spread = np.nanvar(table.values, axis=0)
    if len(whole) > whole.shape[1] + 1:
        spread = 1 / np.diagonal(np.linalg.inv(np.atleast_2d(np.cov(whole.T))))
    return noticed_bounds(datasets, spread)


def _distances_of_guess(
    truth: Float[np.ndarray, "n p"], guess: Float[np.ndarray, "n p"], rows: Any, known: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return how near the guess comes to what is observed and unknown, beside the others' centre."""
    n, p = truth.shape
    columns, left = {name: np.full(n, np.nan) for name in MEASURES[:4]}, np.setdiff1d(np.arange(p), known)
    if not len(left):
        return columns
    centre, count = np.nanmean(truth, axis=0), np.sum(np.isfinite(truth), axis=0)
    filled = np.where(np.isnan(truth), centre, truth) - centre
    spread = filled.T @ filled / n
    for row in rows:
        some = left[np.isfinite(truth[row, left])]
        if not len(some):
            continue
        away = (truth[row, some] - centre[some]) * count[some] / (count[some] - 1)
        off = guess[row, some] - truth[row, some]
        white = np.linalg.solve(np.linalg.cholesky(spread[np.ix_(some, some)]), np.stack([away, away + off]).T)
        columns["distance"][row], columns["baseline_distance"][row] = np.linalg.norm(off), np.linalg.norm(away)
        columns["relative_error"][row] = np.linalg.norm(white[:, 1] - white[:, 0]) / np.linalg.norm(white[:, 0])
        columns["exposure"][row] = white[:, 1] @ white[:, 0] / (white[:, 0] @ white[:, 0])
    return columns


# ------------------------------------------------------------------------------------------- by sampling


def _sampled(question: Question) -> Learned:
    """Attack everybody together with the records that are lacking besides."""
    mechanism, lacking = question.mechanism, question.adversary.lacking_records
    if question.has_gaps:
        raise InputError(
            "records that are lacking are inferred from tables and releases without gaps",
            Cure("leave out what is lacking", "lacking_records", 0),
        )
    if question.elsewhere is not None:
        raise InputError(
            "an adversary who lacks records is sampled with all records at hand, and most of these are elsewhere",
            Cure("leave out what is lacking", "lacking_records", 0),
        )
    if question.adversary.known_columns:
        raise InputError(
            "an adversary who lacks several records is taken to know nothing of the target: of those that are "
            "missing nothing tells which is whose",
            Cure("leave out what is known", "known", []),
            Cure("leave out what is lacking", "lacking_records", 0),
        )
    require_processor(question.device, "an adversary who lacks several records")
    question = _before_limits(question)
    stream, values = np.random.default_rng(question.rng), question.records.values
    if not isinstance(lacking, int):  # rows of the table, which may have lost some
        lacking = [question.records.place_of(row) + 1 for row in lacking]
    groups = groups_of(len(values), lacking, question.rows, stream)
    learned = replace(question.nothing_learned(question.errors), derived=None)
    if mechanism.is_normal and len(question.parts) == 1 and question.own_prior is None:
        assert mechanism.normal is not None
        inside = (question.radius, replace(question.near, functions=None))
        for rows, found in measure_groups(
            values, question.release, mechanism.normal, groups, stream, *inside, question.watch
        ):
            learned.put(rows, range(values.shape[1]), found)
        return learned
    near = replace(question.near.take(np.arange(len(values)), question.places), functions=None)
    told = measure_missing_in_cells(
        question.leave_one_out(), groups, stream, near, question.radius, question.known_categories,
        question.points, question.watch,
    )  # fmt: skip
    for rows, found, of_categories in told:
        learned.put(rows, question.places, found)
        for name, whole in learned.beliefs.levels.items():
            for column, part in zip(whole, of_categories[mechanism.categories.index(name)], strict=True):
                column[rows] = part
    return learned


# ------------------------------------------------------------------------------------------- with a guarantee


def _with_guarantee(question: Question) -> tuple[Question, Learned]:
    """Attack everybody where noisy moments are all that was released of them, as the mechanism sees them."""
    if not question.adversary.is_usual or question.elsewhere is not None:
        raise InputError(
            "with a guarantee the adversary has all other records and the mechanism's limits: noise is added to "
            "the moments of all columns and records at once",
            "leave out what is known or lacking, and the prior",
        )
    require_processor(question.device, "a release with a guarantee")
    assert isinstance(question.release, Release)
    found = private_beliefs(question.records, question.release, question.judged_categories)
    # the noise is all that hides a person: there is one release, whose evidence is the gain
    measures = {"information_gain": found.gain, EVIDENCE: found.gain}
    learned = Learned(measures, found.records.values, found.beliefs, found.rest_known, found.bounds)
    return replace(question, records=found.records, near=found.near), learned


# ------------------------------------------------------------------------------------------- in an engine


def can_be_streamed(release: Released) -> bool:
    """Say whether the records of the release's table can come in blocks: gaps and kept columns take all."""
    mechanism = release.mechanism
    guaranteed = isinstance(release, Release) and release.noisy is not None
    return not (guaranteed or mechanism.keep or mechanism.missing != REFUSE or mechanism.has_classes)


def stream_risk(
    records: LazyRecords,
    release: Released,
    adversary: Adversary = USUAL,
    *,
    key: str | None = None,
    block_rows: int = BLOCK_ROWS,
    rng: np.random.Generator | None = None,
    **asked: Any,
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the columns of `risk_columns`, of which `asked` are arguments, for one block of records after another.

    The adversary has all other records, of all blocks: these enter by their moments, which the engine has added
    up, less the block's own. Those of the records that make up nearly all of a direction are kept apart, so that
    nothing is lost by taking them out. The same random points serve every block. Values that limits or coarse
    rounding changed enter as one draw of what they were (`before_limits`).
    """
    require_same_table(records, release)
    mechanism = release.mechanism
    far, near = far_out(records, mechanism.prior)
    whole = mechanism.prior.plus(near).plus(far)
    if isinstance(release, Release):
        release = before_limits(release, whole)
    judged, seed = 0, 0 if rng is None else int(rng.integers(2**63))
    for block, keys in records.blocks(block_rows, key):
        columns = risk_columns(
            block,
            release,
            adversary,
            rng=np.random.default_rng(seed),
            elsewhere=_others(mechanism, block, far, near),
            judged=len(records),
            **asked,
        )
        judged += len(block.values)
        yield columns if keys is None else {"key": keys, **columns}
    if judged != len(records):
        raise InputError(
            f"the table had {len(records):,} records when it was added up and {judged:,} when they were judged",
            "see that nobody writes to it, and try again",
        )


def _others(mechanism: Mechanism, block: Records, far: MixedRecords, near: Moments) -> Moments:
    """Return the moments of all records that are not in the block, given those far out and of all others."""
    here, model = mechanism.split(block), mechanism.prior
    same = (here.values[:, None, :] == far.values).all(axis=2) & (here.cells[:, None] == far.cells)
    others = near.without(model.moments(here.take(~same.any(axis=1))))
    return others.merge(model.moments(far.take(~same.any(axis=0))))


# What is held of the risk of a table that stays in its engine: counts, and those who come closest.


KEPT = 3000  # people of whom all is held to the end: as many as a figure shows
MEMBERS_KEPT = 100  # people besides, whose membership is told most surely


@dataclass
class WorstSoFar:
    """What is held of the blocks that have passed: how many are disclosed, and those who come closest to it.

    found: as `risk_columns` has it, of these people: by their values, and some by their membership. among: of how
    many these are the worst.
    """

    rule: Rule
    among: JudgedPeople = field(default_factory=lambda: JudgedPeople(0, 0))
    found: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, block: dict[str, np.ndarray]) -> None:
        """Count a block, and keep of it and of those kept so far the people first in order."""
        self.among = self.among.plus(JudgedPeople.of(block, self.rule))
        both = {
            name: np.concatenate([self.found[name], column]) if self.found else column
            for name, column in block.items()
        }
        kept = ToldValues.of(both, self.rule).order[:KEPT]
        if MEMBERSHIP in both:
            kept = np.concatenate([kept, by_membership(both)[:MEMBERS_KEPT]])
        self.found = {name: column[np.unique(kept)] for name, column in both.items()}


# How the risk of some records falls with what the adversary lacks: other records, or columns of everyone.


NUMBERS = (1, 2, 5, 10, 20)  # of records lacking besides the target
SUBSETS = 12  # of columns, over which the median of a measure is taken
MEASURED = ("distance", "relative_error", "exposure", "information_gain")


def risk_by_lacking(
    records: Records,
    release: Released,
    rows: Sequence[int],
    *,
    numbers: Sequence[int] = NUMBERS,
    rng: np.random.Generator | None = None,
    watch: Callable[[int], None] = lambda settings: None,
) -> dict[str, np.ndarray]:
    """Return what adversaries who lack ever more learn of some records (`rows`, from 1), as columns.

    One line for each kind of what is `lacking` (records, columns), `number` of them and `row`. Records besides the
    target are chosen at random for each target and number. For columns the measures are medians over all, or
    twelve random, choices of so many. `watch` is called after every number.
    """
    stream = np.random.default_rng(rng)
    targets, people = np.array([records.place_of(row) for row in rows]), len(records.values)
    columns = list(release.mechanism.measurements)

    def learned(adversary: Adversary) -> dict[str, np.ndarray]:
        found = risk_columns(records, release, adversary, mass=False, rows=targets, rng=stream)
        return {name: found[name] for name in MEASURED}

    everything = learned(Adversary())
    lines = [("records", 0, everything)]
    for number in (number for number in numbers if number + 2 <= people):
        lines.append(("records", number, learned(Adversary(lacking_records=number))))
        watch(1)
    lines.append(("columns", 0, everything))
    for number in range(1, len(columns)):
        choices = list(combinations(columns, number)) if len(columns) <= 12 else []
        if not 0 < len(choices) <= SUBSETS:
            choices = [tuple(stream.choice(columns, number, replace=False)) for _ in range(SUBSETS)]
        found = [learned(Adversary(lacking_columns=lacking)) for lacking in choices]
        medians = {name: np.median([each[name] for each in found], axis=0) for name in MEASURED}
        lines.append(("columns", number, medians))
        watch(1)
    return {
        "lacking": np.repeat([kind for kind, _, _ in lines], len(targets)),
        "number": np.repeat([number for _, number, _ in lines], len(targets)),
        "row": np.tile(records.rows[targets], len(lines)),
        **{name: np.concatenate([each[name] for _, _, each in lines]) for name in MEASURED},
    }
