"""Simulated releases of a very table: drawn as sufficient statistics, and judged by the rule."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.build import from_parameters, from_updated, together, with_another_prior
from allbutone.adversary.integrate import Intervals, estimated_within, integrate
from allbutone.adversary.leave_one_out import UpdatedModels, WholeTable
from allbutone.adversary.log_quadratic import LogQuadratic, stacked
from allbutone.adversary.membership import evidence_in_cells
from allbutone.adversary.mixed import CellIntegrals, MixedLeaveOneOut, cell_beliefs, log_density_without
from allbutone.adversary.modes import find_modes
from allbutone.adversary.one_value import Nearness, value_beliefs
from allbutone.adversary.proposal import Points
from allbutone.disclosure.draw_loss import DrawLoss
from allbutone.disclosure.measures import prior_probability
from allbutone.disclosure.rule import MEMBERSHIP, Rule
from allbutone.disclosure.table_draws import CountedCells, DrawnDatasets, DrawnParameters, TableDraws
from allbutone.model.location import MixedRecords, Parameters
from allbutone.model.niw import NIW
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.statistics import ParameterStatistics
from allbutone.support.arrays import half_log_det, log_sum_exp, solve_rows
from allbutone.support.parallel import in_parallel

# For each record the posterior of its measurements, in its own cell, is that of `downdates`: without the record
# the model at its cell is a rank-one downdate, in the table's coordinates, whatever the kind of table. Its
# categories are looked at where the counts of the cells go a good part of the way.


SCREEN = 0.7  # of the rule's probability: what is estimated below that is not integrated
LIKELY = 0.5  # of the rule's probability: whose level the counts alone give less than that is not integrated
POINTS, REPLICATES = 256, 2  # of the integrals: their own noise is far below that between releases
NUMBERS_HELD = 1 << 22  # numbers in the wells that are held at a time
PEOPLE_AT_A_TIME = 1024  # of whom all releases are looked at: what stays in the processor's cache

Drawn = DrawnDatasets | DrawnParameters
KINDS = ("measurements", "categories", MEMBERSHIP)  # of what can be disclosed of a person


@dataclass(frozen=True, eq=False)
class Trials:
    """How releases of a table are simulated, beside those that were made earlier, and what they are judged by.

    `near`: what counts as knowing a measurement. `rows` a dataset, None for parameters. `seed`: dataset number d
    of release number r has the same random numbers for any count, so that the first k datasets of a longer release
    are a release of k. `known`: measurements, and categories, that the adversary knows of everybody (positions);
    kept ones belong there. nearness: what counts as knowing a value for who knows all others of the person, where
    that is judged, too; membership: whether that is. public: categories that are not secret. outside: what people
    outside can know, measurements and categories, where a second adversary knows just that.
    """

    mechanism: Mechanism
    rows: int | None
    near: Intervals
    rule: Rule
    seed: int
    known: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    nearness: Nearness | None = None
    membership: bool = False
    public: tuple[int, ...] = ()
    outside: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def informed(self) -> Any:
        """The same releases, judged by who knows what people outside can know, if anybody is to be."""
        if self.outside is None:
            return None
        return replace(self, known=self.outside, nearness=None, membership=False, outside=None)


@dataclass(frozen=True, eq=False)
class TableReleases(Trials):
    """Simulated releases of a table without gaps.

    `everyone`: all that the attacks share, earlier releases in it, if any, and the adversary's own prior.
    """

    everyone: MixedLeaveOneOut = field(kw_only=True)

    @cached_property
    def draws(self) -> TableDraws:
        """What draws the releases."""
        everyone, mechanism = self.everyone, self.mechanism
        if not mechanism.keep:
            return TableDraws(everyone.whole, self.rows)
        kept = everyone.whole.cells.codes[everyone.records.cells].copy()
        kept[:, [place for place in range(kept.shape[1]) if place not in mechanism.kept_categories]] = -1
        return TableDraws(everyone.whole, self.rows, kept, everyone.records.covariates)

    def draw(self, count: int, release: int) -> Drawn:
        """Draw the statistics of a release."""
        rng = np.random.default_rng([self.seed, release])
        return self.draws.parameters(count, rng) if self.rows is None else self.draws.datasets(count, rng)

    def discloses(
        self, count: int, people: Int[np.ndarray, " m"], releases: Sequence[int]
    ) -> Bool[np.ndarray, "r m"]:
        """Say which of these people each of these releases of `count` discloses."""
        return np.asarray(self.by_kind(count, people, releases, all_of_them=False).any(axis=2))

    def by_kind(
        self, count: int, people: Int[np.ndarray, " m"], releases: Sequence[int], all_of_them: bool = True
    ) -> Bool[np.ndarray, "r m 3"]:
        """Say the same of their measurements, of their categories and of their membership apart.

        If not `all_of_them` are wanted, measurements are looked at where nothing else is disclosed.
        """
        blocks = self._blocks(count, len(people), releases)
        flags = np.zeros((len(releases), len(people), len(KINDS)), dtype=bool)
        for some, rest in self._alike(people):
            judge = partial(self._judged, _People.of(self, people[some], rest), count, all_of_them)
            flags[:, some] = np.concatenate(in_parallel(judge, blocks))
        return (
            flags if self.informed is None else flags | self.informed.by_kind(count, people, releases, all_of_them)
        )

    def losses(
        self, count: int, people: Int[np.ndarray, " m"], releases: Sequence[int]
    ) -> Float[np.ndarray, "r m"]:
        """Return what each of these releases of `count` says for these people's membership."""
        every = in_parallel(partial(self.draw, count), releases)

        def judged(places: Int[np.ndarray, " m"]) -> Float[np.ndarray, "r m"]:
            some, own = (
                _People.of(self, places),
                _AsTheyAre.of(self, places, ()),
            )
            blocks = self._blocks(count, len(places), every)
            return np.concatenate([some.evidence(block, own.told(block)[..., 0]) for block in blocks])

        parts = np.array_split(people, max(1, -(-len(people) // PEOPLE_AT_A_TIME)))
        return np.concatenate(in_parallel(judged, parts), axis=1)

    def _blocks(self, count: int, people: int, releases: Sequence[Any]) -> list[Sequence[Any]]:
        """Split releases such that the wells of so many people in each part can be held."""
        p, wells = self.everyone.whole.p, 1 if self.rows is None else count
        many = max(1, NUMBERS_HELD // (people * wells * p * p))
        return [releases[at : at + many] for at in range(0, len(releases), many)]

    def _alike(self, people: Int[np.ndarray, " m"]) -> list[tuple[np.ndarray, tuple[MixedLeaveOneOut, ...]]]:
        """Split people by which of the earlier releases were made from them."""
        rest = self.everyone.rest
        if not rest:
            return [(np.arange(len(people)), ())]
        within = np.stack([part.places_of(people)[1] for part in rest], axis=1)
        kinds, which = np.unique(within, axis=0, return_inverse=True)
        parts = [tuple(part for part, inside in zip(rest, kind, strict=True) if inside) for kind in kinds]
        return [(np.flatnonzero(which.ravel() == number), part) for number, part in enumerate(parts)]

    def _judged(
        self, people: "_People", count: int, all_of_them: bool, releases: Sequence[int]
    ) -> Bool[np.ndarray, "r m 3"]:
        every = [self.draw(count, release) for release in releases]
        flags = np.zeros((len(every), len(people.places), len(KINDS)), dtype=bool)
        alone = people.counted is not None and self.nearness is not None
        if alone or self.membership:
            told = people.as_they_are.told(every)
            if alone:
                flags[:, :, 1] = people.as_they_are.finds_levels(told)
            if self.membership:
                member = self.rule.membership_of(people.evidence(every, told[..., 0]))
                flags[:, :, 2] = self.rule.discloses_membership(member)
        if people.counted is not None:
            for number, (drawn, release) in enumerate(zip(every, releases, strict=True)):
                flags[number, :, 1] |= self._finds_categories(people, drawn, release, ~flags[number, :, 1])
        asked = np.full(flags.shape[:2], people.measured)
        if not all_of_them:
            asked &= ~flags.any(axis=2)
        if np.any(asked):
            flags[:, :, 0] = self._finds_measurements(people, every, asked)
        return flags

    def _finds_measurements(
        self, people: "_People", every: list[Drawn], asked: Bool[np.ndarray, "r m"]
    ) -> Bool[np.ndarray, "r m"]:
        """Say of whom, among those asked for, a measurement is disclosed: to who lacks the record, or it."""
        asked = asked[:, people.order]
        problem = people.posteriors(every, asked)
        known, (release, who) = self.known[0], np.nonzero(asked)
        places = people.places[people.order][who]
        unknown = [place for place in range(problem.p) if place not in known]
        near = self.near.take(places, unknown)
        flags = np.zeros(len(places), dtype=bool)
        if self.nearness is not None:
            own = people.before
            alone = value_beliefs(
                problem,
                self.everyone.records.values[places],
                self.nearness.take(places, unknown),
                None if own is None else own.take(who),
                least=SCREEN * self.rule.probability,
            )
            flags |= np.any(self.rule.discloses(alone.probability, alone.baseline), axis=1)
        if known:
            problem = problem.given(known, self.everyone.records.values[places][:, list(known)])
        modes = find_modes(problem)
        judged = (near.low > -np.inf) | (near.high < np.inf)  # else any value would count as known
        estimated = np.where(judged, estimated_within(problem, modes, near), 0.0)
        likely = np.max(estimated, axis=1) >= SCREEN * self.rule.probability
        (chosen,) = np.nonzero((likely | ~np.isfinite(modes.value)) & ~flags)
        if len(chosen):
            some, around = problem.take(chosen), near.take(chosen)
            integrals = integrate(some, modes.take(chosen), None, Points(), POINTS, REPLICATES, around)
            baseline = people.baselines
            before = prior_probability(some, around) if baseline is None else baseline[who[chosen]]
            flags[chosen] = np.any(self.rule.discloses(integrals.within, before), axis=1)
        disclosed = np.zeros(asked.shape, dtype=bool)
        disclosed[release, people.order[who]] = flags
        return disclosed

    def _finds_categories(
        self, people: "_People", drawn: Drawn, release: int, asked: Bool[np.ndarray, " m"]
    ) -> Bool[np.ndarray, " m"]:
        """Say whose level of any category is disclosed to who lacks the record: integrated where likely."""
        finds = np.zeros(len(people.places), dtype=bool)
        (places,) = np.nonzero(asked & people.likely_by_counts(drawn))
        if not len(places):
            return finds
        few = people.alone
        if isinstance(drawn, DrawnParameters):
            both = [*([] if few.parameters is None else [few.parameters]), self.draws.as_parameters(drawn)]
            names = Parameters.__dataclass_fields__
            joined = Parameters(*(np.concatenate([getattr(one, name) for one in both]) for name in names))
            after = replace(few, parameters=joined)
        else:
            datasets = self.draws.moments(drawn)
            updated = tuple(few.whole.plus(data) for data in datasets)
            after = replace(few, datasets=(*few.datasets, *datasets), after=(*few.after, *updated))
        points = Points.of(np.random.default_rng([self.seed, release]))
        assert people.counted is not None
        beliefs = cell_beliefs(CellIntegrals.of(after, points, self.known[0]), places, self.known[1])
        levels = [beliefs.of_true_level(category) for category in people.counted.judged]
        finds[places] = np.any([self.rule.discloses(share, base) for share, _, base in levels], axis=0)
        return finds


@dataclass(frozen=True, eq=False)
class _Pairs:
    """People, each in a cell that they could be in, by one regression: their own and others in one category.

    `person`, `column`: whose, and the number of the cell among theirs. `points`: R⁻ᵀz there; `white`: the record
    in the regression's coordinates. `own`: which of the pairs is the person in the own cell; `knows`: whether the
    regression knows the person.
    """

    regression: int
    person: Int[np.ndarray, " n"]
    column: Int[np.ndarray, " n"]
    points: Float[np.ndarray, "n r"]
    white: Float[np.ndarray, "n p"]
    own: Int[np.ndarray, " n"]
    knows: Float[np.ndarray, " n"]

    def log_density(
        self,
        df: Float[np.ndarray, "k 1"],
        inner: Float[np.ndarray, "k r r"],
        effects: Float[np.ndarray, "k r p"],
        scale: Float[np.ndarray, "k p p"],
    ) -> Float[np.ndarray, "k n"]:
        """Return log t of each record in its cell by models that know it, without it: ν′, (I + AᵀA)⁻¹, RB′, Λ′."""
        root = np.linalg.cholesky(scale)
        away = (self.white - self.points @ effects) @ np.linalg.inv(root).mT
        turned = self.points @ inner
        mine = self.knows[:, None] * away[:, self.own]

        spread = np.sum(turned * self.points, axis=-1)
        return log_density_without(
            df + 1 - self.knows,
            self.white.shape[1],
            half_log_det(root)[:, None],
            (self.knows * spread[:, self.own], np.vecdot(mine, mine)),
            (spread, np.vecdot(away, away)),
            (self.knows * np.sum(turned * self.points[self.own], axis=-1), np.vecdot(mine, away)),
        )

    @staticmethod
    def of(draws: TableDraws, records: MixedRecords, cells: Int[np.ndarray, "m c"]) -> "list[_Pairs]":
        """Bring records into the coordinates of each regression, in every one of their cells."""
        person, column = (each.ravel() for each in np.indices(cells.shape))
        flat, known = cells.ravel(), records.covariates[person]
        points, own = draws.points(flat, known), draws.own(flat)
        away = records.values[person] - np.asarray(draws.whole.at(flat, known).mean)
        found = []
        for number in np.unique(own):
            (here,) = np.nonzero(own == number)
            place = np.zeros(len(cells), dtype=int)  # of each person's own cell among these, if it is
            place[person[here][column[here] == 0]] = np.flatnonzero(column[here] == 0)
            knows = np.ones(len(here)) if not draws.whole.is_separate else (column[here] == 0).astype(float)
            white = solve_rows(draws.roots[number], away[here])
            found.append(
                _Pairs(int(number), person[here], column[here], points[here], white, place[person[here]], knows)
            )
        return found


@dataclass(frozen=True, eq=False)
class _AsTheyAre:
    """What releases say of people's records as they are, in the own cell and in those that differ in one category.

    All is closed, and all releases are looked at together. `cells`: the own one of each person first; `category`:
    in which each of the others differs. `odds`: the log odds of the cells before any release, and with the earlier
    ones, what is known of the measurements in it.
    """

    releases: TableReleases
    cells: Int[np.ndarray, "m c"]
    category: Int[np.ndarray, " c"]
    pairs: list[_Pairs]
    odds: tuple[Float[np.ndarray, "m c"], Float[np.ndarray, "m c"]]

    @classmethod
    def of(cls, releases: TableReleases, places: Int[np.ndarray, " m"], judged: Sequence[int]) -> "_AsTheyAre":
        """Look at some people, of whom these categories are judged."""
        everyone, table = releases.everyone, releases.everyone.whole.cells
        codes = table.codes[everyone.records.cells[places]]
        every, category = [codes], [-1]
        for place in judged:
            for step in range(1, table.sizes[place]):
                other = codes.copy()
                other[:, place] = (other[:, place] + step) % table.sizes[place]
                every.append(other)
                category.append(place)
        cells = table.of_codes(np.stack(every, axis=1))
        pairs = _Pairs.of(releases.draws, everyone.records.take(places), cells)
        odds: list[np.ndarray] = []
        if judged:
            rows = np.repeat(places, cells.shape[1])
            measured = everyone.log_density(rows, cells.ravel())
            for counts, density in zip(everyone.log_cell_odds(places), measured, strict=True):
                odds.append(np.take_along_axis(counts, cells, axis=1) + density.reshape(cells.shape))
        nothing = np.zeros(cells.shape)
        before, earlier = odds or (nothing, nothing)
        return cls(releases, cells, np.array(category), pairs, (before, earlier))

    @cached_property
    def without(self) -> list[Float[np.ndarray, "1 n"]]:
        """The log density of each pair by the table alone, without the person."""
        found = []
        for pairs in self.pairs:
            r, p = pairs.points.shape[1], pairs.white.shape[1]
            df = np.array([[self.releases.draws.regressions[pairs.regression].df]])
            found.append(pairs.log_density(df, np.eye(r)[None], np.zeros((1, r, p)), np.eye(p)[None]))
        return found

    @cached_property
    def weights(self) -> Float[np.ndarray, "m c"]:
        """The weight of each cell without the person."""
        return self.releases.everyone.whole.weights[self.cells] - (self.category < 0)

    def told(self, every: Sequence[Drawn]) -> Float[np.ndarray, "r m c"]:
        """Return by how much each release moves the log odds of every cell: by counts, and by measurements."""
        ends = np.cumsum([0, *map(len, every)])
        logs = np.zeros((ends[-1], *self.cells.shape))
        for pairs, before in zip(self.pairs, self.without, strict=True):
            logs[:, pairs.person, pairs.column] = self._densities(pairs, every) - before
        return np.add.reduceat(logs + self._by_counts(every), ends[:-1], axis=0)

    def _densities(self, pairs: _Pairs, every: Sequence[Drawn]) -> Float[np.ndarray, "k n"]:
        own, df = pairs.regression, self.releases.draws.regressions[pairs.regression].df
        if self.releases.rows is None:
            root, noise = (_joined(every, name)[:, own] for name in ("root", "noise"))
            away = pairs.white @ root - pairs.points @ noise  # Lᵀx − Nᵀu: standard normal under the draw
            height = half_log_det(root) - 0.5 * root.shape[-1] * np.log(2 * np.pi)
            return np.asarray(height[:, None] - 0.5 * np.vecdot(away, away))
        rows, inner, effects, scale = (
            _joined(every, name)[:, own] for name in ("rows", "inner", "effects", "scale")
        )
        return pairs.log_density(df + rows[:, None], inner, effects, scale)

    def _by_counts(self, every: Sequence[Drawn]) -> Float[np.ndarray, "k m c"]:
        if self.releases.rows is not None:
            return np.log1p(_joined(every, "counts")[:, self.cells] / self.weights)
        with np.errstate(divide="ignore"):  # a share can be drawn as 0
            return np.log(_joined(every, "shares"))[:, self.cells] - np.log(self.weights)

    def finds_levels(self, told: Float[np.ndarray, "r m c"]) -> Bool[np.ndarray, "r m"]:
        """Say whose level of any category is disclosed to who knows all else of the person."""
        before, earlier = self.odds
        after, finds = earlier + told, np.zeros(told.shape[:2], dtype=bool)
        for place in np.unique(self.category[1:]):
            alike = (self.category == place) | (self.category < 0)
            shares = [np.exp(odds[..., 0] - log_sum_exp(odds[..., alike], axis=-1)) for odds in (after, before)]
            finds |= self.releases.rule.discloses(shares[0], np.broadcast_to(shares[1], shares[0].shape))
        return finds


def _joined(every: Sequence[Drawn], name: str) -> np.ndarray:
    """Return what all the releases have of something, one after the other."""
    return np.concatenate([getattr(drawn, name) for drawn in every])


@dataclass(frozen=True, eq=False)
class _Group:
    """People who share a cell and covariates: the whole table's model there, and what was released earlier.

    `own`: the number of their regression; `point`: R⁻ᵀz there. `rest`: posteriors after releases by other
    mechanisms.
    """

    people: Int[np.ndarray, " m"]
    own: int
    point: Float[np.ndarray, " r"]
    whole: NIW
    root: Float[np.ndarray, "p p"]
    own_prior: NIW | None
    targets: Float[np.ndarray, "m p"]
    white: Float[np.ndarray, "m p"]
    earlier: UpdatedModels
    parameters: ParameterStatistics
    rest: tuple[LogQuadratic, ...] = ()

    @classmethod
    def of(
        cls,
        everyone: MixedLeaveOneOut,
        draws: TableDraws,
        places: Int[np.ndarray, " m"],
    ) -> "_Group":
        """Look at some people, who share a cell and covariates."""
        some = everyone.records.take(places)
        cell, known = some.cells[:1], some.covariates[:1]
        whole, own = _one(everyone.whole.at(cell, known)), int(draws.own(cell)[0])
        root = draws.roots[own]
        return cls(
            people=places,
            own=own,
            point=draws.points(cell, known)[0],
            whole=whole,
            root=root,
            own_prior=None if everyone.own is None else _one(everyone.believed.at(cell, known)),
            targets=some.values,
            white=solve_rows(root, some.values - whole.mean),
            earlier=_updated(whole, root, [_one(model.at(cell, known)) for model in everyone.after]),
            parameters=_parameters(everyone, whole, root, cell, known),
        )

    def posteriors(self, every: Sequence[Drawn], asked: Bool[np.ndarray, "r m"]) -> dict[int, LogQuadratic]:
        """Return the posteriors of the people asked for after each of these releases and the earlier ones.

        Wells of datasets do not depend on one another: those of all releases are made at once.
        """
        some = {number: np.flatnonzero(these) for number, these in enumerate(asked) if np.any(these)}
        if self.parameters.draws or not isinstance(every[0], DrawnDatasets):
            return {number: self.after(every[number], these) for number, these in some.items()}
        names, seen = ("weight", "location", "scale", "rows"), np.flatnonzero(asked.any(axis=0))
        more = zip(*(drawn.at(self.own, self.point) for drawn in every), strict=True)  # type: ignore[union-attr]
        models = UpdatedModels(
            *(np.concatenate([getattr(self.earlier, name), *each]) for name, each in zip(names, more, strict=True))
        )
        fitted = from_updated(self.whole, self.root, models.weight, models.location, models.scale, models.rows)
        table = WholeTable(self.whole, None, self.root, models, fitted)
        all_of_them = table.without(self.targets[seen], self.white[seen])
        before, many, found = len(self.earlier.rows), len(every[0]), {}
        for number, these in some.items():
            start, rows = before + number * many, np.searchsorted(seen, these)
            wells: Any = slice(start, start + many)
            if before:
                wells = np.r_[:before, wells]
            one = replace(
                all_of_them,
                centre=all_of_them.centre[rows],
                root=all_of_them.root[rows],
                outward=(before + many - 1) * self.whole.df,
                weights=all_of_them.weights[wells],
                **{name: getattr(all_of_them, name)[:, wells][rows] for name in ("levels", "slopes", "shapes")},
            )
            if self.own_prior is not None:
                one = replace(table, own=self.own_prior)._with_own_prior(one, self.targets[these])
            found[number] = self._beside_the_rest(one, these)
        return found

    def _beside_the_rest(self, found: LogQuadratic, people: Int[np.ndarray, " a"]) -> LogQuadratic:
        for other in self.rest:
            found = with_another_prior(found, other.take(people))
        return found

    def after(self, drawn: Drawn | None = None, asked: Int[np.ndarray, " a"] | None = None) -> LogQuadratic:
        """Return the posteriors of some people's measurements after a release, if any, and the earlier ones."""
        people = np.arange(len(self.people)) if asked is None else asked
        parameters, models = self.parameters, self.earlier
        if isinstance(drawn, DrawnParameters):
            precision, pull = drawn.of(self.own, self.point[None])
            parameters = ParameterStatistics(
                parameters.draws + drawn.draws, parameters.precision + precision, parameters.pull + pull[0]
            )
        elif drawn is not None:
            names, more = ("weight", "location", "scale", "rows"), drawn.at(self.own, self.point)
            models = UpdatedModels(
                *(np.concatenate([getattr(models, name), each]) for name, each in zip(names, more, strict=True))
            )
        released: list[Any] = []
        fitted: list[LogQuadratic] = []
        if parameters.draws:
            released.append(parameters)
            fitted.append(
                from_parameters(self.whole, self.root, parameters.draws, parameters.precision, parameters.pull)
            )
        if len(models.rows):
            released.append(models)
            fitted.append(
                from_updated(self.whole, self.root, models.weight, models.location, models.scale, models.rows)
            )
        both = len(released) > 1
        known = tuple(released) if both else released[0]
        table = WholeTable(self.whole, self.own_prior, self.root, known, together(*fitted) if both else fitted[0])
        return self._beside_the_rest(table.without(self.targets[people], self.white[people]), people)


@dataclass(frozen=True, eq=False)
class _People:
    """Some people of a table, by groups, ready to be attacked in one release after the other.

    `measured`: whether anything of their measurements is unknown. `counted`: the cells, where categories are
    judged.
    """

    releases: TableReleases
    places: Int[np.ndarray, " m"]
    groups: tuple[_Group, ...]
    measured: bool
    counted: CountedCells | None
    rest: tuple[MixedLeaveOneOut, ...] = ()  # earlier releases by other mechanisms that were made from them

    @classmethod
    def of(
        cls, releases: TableReleases, places: Int[np.ndarray, " m"], rest: tuple[MixedLeaveOneOut, ...] = ()
    ) -> "_People":
        """Group them, and bring what was released earlier into the coordinates of each group."""
        everyone, draws = releases.everyone, releases.draws
        some = everyone.records.take(places)
        alike = np.column_stack([some.cells, some.covariates])
        _, which = np.unique(alike, axis=0, return_inverse=True)
        groups = []
        for number in range(int(np.max(which)) + 1):
            people = np.flatnonzero(which.ravel() == number)
            group = _Group.of(everyone, draws, places[people])
            parts = [_Group.of(part, TableDraws(part.whole, None), places[people] - part.start) for part in rest]
            groups.append(replace(group, people=people, rest=tuple(part.after() for part in parts)))
        people = np.rint(everyone.whole.weights - everyone.prior.weights)
        counted = CountedCells.of(
            everyone.whole.cells, everyone.whole.weights, people, releases.known[1], releases.public
        )
        measured = len(releases.known[0]) < everyone.whole.p
        return cls(releases, places, tuple(groups), measured, counted if counted.judged else None, rest)

    @cached_property
    def order(self) -> Int[np.ndarray, " m"]:
        """The people as they stand group by group."""
        return np.concatenate([group.people for group in self.groups])

    @cached_property
    def before(self) -> LogQuadratic | None:
        """What an adversary with an own prior believes without a release, group by group; None for others."""
        places = self.places[self.order]
        return self.releases.everyone.problem_before(places, self.releases.everyone.records.cells[places])

    @cached_property
    def baselines(self) -> Float[np.ndarray, "m f"] | None:
        """The probabilities that follow from that."""
        everyone, known = self.releases.everyone, self.releases.known[0]
        places, problem = self.places[self.order], self.before
        if problem is None:
            return None
        near = self.releases.near.take(places, [place for place in range(problem.p) if place not in known])
        if known:
            problem = problem.given(known, everyone.records.values[places][:, list(known)])
        return integrate(problem, find_modes(problem), None, Points(), POINTS, REPLICATES, near).within

    @cached_property
    def earlier_evidence(self) -> Float[np.ndarray, " m"]:
        """What earlier releases say for each one's membership."""
        everyone = self.releases.everyone
        if not everyone.opinions and not everyone.rest:
            return np.zeros(len(self.places))
        problem = everyone.problem(self.places, everyone.records.cells[self.places])
        return evidence_in_cells(everyone, self.places, *problem)

    @cached_property
    def as_they_are(self) -> _AsTheyAre:
        """What is closed: what releases say of the records as they are."""
        judged = self.counted.judged if self.counted is not None and self.releases.nearness is not None else ()
        return _AsTheyAre.of(self.releases, self.places, judged)

    def evidence(self, every: Sequence[Drawn], told: Float[np.ndarray, "r m"]) -> Float[np.ndarray, "r m"]:
        """Return what each release, and the earlier ones, say for membership: the log likelihood ratio.

        `told`: by how much each moves the log odds of the record as it is.
        """
        total = np.sum(self.releases.everyone.whole.weights) - 1
        if isinstance(every[0], DrawnParameters):
            if every[0].draws > len(every[0].root):
                return self.earlier_evidence + np.stack([self._losses_of_many(drawn) for drawn in every])
            return self.earlier_evidence + told + every[0].draws * np.log(total)
        rows = np.stack([np.sum(drawn.counts, axis=1) for drawn in every])  # type: ignore[union-attr]
        return self.earlier_evidence + told - np.sum(np.log1p(rows / total), axis=1)[:, None]

    def _losses_of_many(self, drawn: Any) -> Float[np.ndarray, " m"]:
        """Return the evidence of very many draws, of which only the sums are known: losses add up to a normal."""
        (group,) = self.groups  # very many are drawn as sums where there is one cell
        whole = group.whole
        hat = np.sum(group.white**2, axis=-1) + 1 / whole.mean_weight
        loss = DrawLoss(whole.p, float(whole.mean_weight) - 1, float(whole.df) - 1, hat / (1 - hat))
        _, mean, variance = loss.slopes(np.ones(len(hat)))
        return drawn.draws * mean + np.sqrt(drawn.draws * variance) * float(drawn.noise.flat[0])

    def posteriors(self, every: Sequence[Drawn], asked: Bool[np.ndarray, "r m"]) -> LogQuadratic:
        """Return the posteriors of the measurements after each release and the earlier ones, release by release.

        `asked`: whose, as they stand group by group.
        """
        ends = np.cumsum([len(group.people) for group in self.groups])[:-1]
        groups = zip(self.groups, np.split(asked, ends, axis=1), strict=True)
        found = [group.posteriors(every, these) for group, these in groups if np.any(these)]
        parts = [each[number] for number in range(len(every)) for each in found if number in each]
        return stacked(parts if len(self.groups) == 1 else [_with_own_numbers(each) for each in parts])

    @cached_property
    def alone(self) -> MixedLeaveOneOut:
        """The attacks on these people alone: of the others only the moments are needed."""
        rest = tuple(_of_some(part, self.places - part.start) for part in self.rest)
        return replace(_of_some(self.releases.everyone, self.places), rest=rest)

    def likely_by_counts(self, drawn: Drawn) -> Bool[np.ndarray, " m"]:
        """Say for whom the counts of the cells alone go a good part of the way to a level's disclosure."""
        counted, everyone = self.counted, self.releases.everyone
        assert counted is not None
        if self.releases.known[0]:  # what is known of the measurements may tell the cell
            return np.ones(len(self.places), dtype=bool)
        weights = everyone.whole.weights
        less = np.where(counted.people > 0, weights - 1, weights)
        odds = []
        for base in (weights, less):
            logs = (1 - everyone.opinions) * np.log(base)
            for model in everyone.after:
                logs = logs + np.log(model.weights - weights + base)
            with np.errstate(divide="ignore"):  # a share can be drawn as 0
                if everyone.parameters is not None:
                    logs = logs + np.sum(np.log(everyone.parameters.shares), axis=0)
                if isinstance(drawn, DrawnParameters):
                    logs = logs + np.sum(np.log(drawn.shares), axis=0) - drawn.draws * np.log(base)
                else:
                    logs = logs + np.sum(np.log(base + drawn.counts) - np.log(base), axis=0)
            odds.append(logs)
        with_it = counted.level_shares(odds[0][None], odds[1][None])[0]
        without = counted.level_shares(np.log(weights)[None], np.log(less)[None])[0]
        doubled = with_it * (1 - without) >= np.sqrt(2) * without * (1 - with_it)  # half of the way there
        likely = np.any((with_it >= LIKELY * self.releases.rule.probability) & doubled, axis=-1)
        return np.asarray(likely[everyone.records.cells[self.places]])


def _of_some(everyone: MixedLeaveOneOut, places: Int[np.ndarray, " m"]) -> MixedLeaveOneOut:
    """Return the attacks on some of the people: the others enter by their moments."""
    prior, some = everyone.prior, everyone.records.take(places)
    others = prior.moments(everyone.records).without(prior.moments(some))
    if everyone.elsewhere is not None:
        others = others.merge(everyone.elsewhere)
    return replace(everyone, records=some, elsewhere=others, start=0)


def _one(model: NIW) -> NIW:
    """Return the only one of a batch of models."""
    weight, df = (float(np.ravel(np.asarray(each))[0]) for each in (model.mean_weight, model.df))
    scale = np.asarray(model.scale)
    return NIW(np.asarray(model.mean)[0], weight, df, scale[0] if scale.ndim == 3 else scale)


def _updated(whole: NIW, root: Float[np.ndarray, "p p"], models: Sequence[NIW]) -> UpdatedModels:
    """Bring models that know a dataset more into the coordinates of the whole table's."""
    p = whole.p
    if not models:
        return UpdatedModels(np.zeros(0), np.zeros((0, p)), np.zeros((0, p, p)), np.zeros(0))
    half = np.linalg.solve(root, np.stack([each.scale for each in models]))
    return UpdatedModels(
        np.array([each.mean_weight for each in models], dtype=float),
        solve_rows(root, np.stack([each.mean for each in models]) - whole.mean),
        np.linalg.solve(root, half.mT),
        np.array([each.df for each in models], dtype=float) - whole.df,
    )


def _parameters(
    everyone: MixedLeaveOneOut, whole: NIW, root: np.ndarray, cell: np.ndarray, known: np.ndarray
) -> ParameterStatistics:
    """Bring draws of the parameters that are out into the same coordinates."""
    p, drawn = whole.p, everyone.parameters
    if drawn is None:
        return ParameterStatistics(0, np.zeros((p, p)), np.zeros(p))
    half = np.linalg.solve(np.linalg.cholesky(drawn.covariance_at(cell)[:, 0]), root)
    away = solve_rows(root, everyone.whole.means(drawn, cell, known)[:, 0] - whole.mean)
    each = half.mT @ half
    return ParameterStatistics(len(drawn), np.sum(each, axis=0), np.einsum("kpq,kq->p", each, away))


def _with_own_numbers(problem: LogQuadratic) -> LogQuadratic:
    """Return it with numbers that groups may differ in, and shapes that one alone may share, for each target."""
    many, p = len(problem.centre), problem.p
    return replace(
        problem,
        df=np.full(many, float(problem.df)),
        outward=np.full(many, float(problem.outward)),
        inflation=np.full(many, float(problem.inflation)),
        weights=np.broadcast_to(problem.weights, (many, problem.wells)),
        precision=np.broadcast_to(problem.precision, (many, p, p)),
        pull=np.broadcast_to(problem.pull, (many, p)),
    )
