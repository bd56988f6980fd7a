"""Risk of everyone in a table with classes: what a release tells of each column of each record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from allbutone.adversary.cell_opinions import CellAdversary
from allbutone.adversary.class_beliefs import ENOUGH, ClassAdversary, ClassBeliefs, Known, PartPoints
from allbutone.adversary.class_values import RestKnown
from allbutone.adversary.gaps import noticed_bounds, targets_by_gaps
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.one_value import Nearness, jackknife_error
from allbutone.disclosure.gap_risk import pattern_levels
from allbutone.disclosure.measures import RADIUS, nearness_of_guess
from allbutone.disclosure.question import EVIDENCE, MEASURES, Learned, Question
from allbutone.disclosure.rule import Beliefs, Levels
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.moments import UNKNOWN
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.several import Part
from allbutone.support.arrays import log_sum_exp
from allbutone.support.devices import device_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel, one_thread
from allbutone.tables.records import Records

POINTS, FEW_POINTS = 1024, 384  # at which the beliefs on all people are weighed
OWN_POINTS = 512  # and those on one for whom these are worth too little
OWN_ROUNDS = 2
GIVEN_POINTS = 256  # where columns of a person are known
ENOUGH_POINTS = 40.0  # that they must be worth
IN_BALL = 32  # points within the radius of each record
BLOCK = 64  # people at once


@dataclass(frozen=True, eq=False)
class ClassRisk:
    """What a release tells of each of n records; NaN where a value is missing or known anyway.

    `probability` of each measurement's interval, its error, and the `baseline` without the release; likewise of
    the record's own level of each category (`level_…`). `guess`: the most probable of all points. `gain`: of log
    density at the truth, in nats; `mass`: within a radius of the record, with all its levels. `evidence`: the log
    likelihood ratio of being in the table. `alone_…`: to somebody who knows all else of the record, with what
    counts as knowing a value, and what the rest lets expect. `effective_draws`: what share of the draws is left
    without the record.
    """

    guess: Float[np.ndarray, "n p"]
    probability: Float[np.ndarray, "n p"]
    probability_error: Float[np.ndarray, "n p"]
    baseline: Float[np.ndarray, "n p"]
    alone_probability: Float[np.ndarray, "n p"]
    alone_error: Float[np.ndarray, "n p"]
    alone_baseline: Float[np.ndarray, "n p"]
    alone_low: Float[np.ndarray, "n p"]
    alone_high: Float[np.ndarray, "n p"]
    alone_expected: Float[np.ndarray, "n p"]
    level_probability: Float[np.ndarray, "n q"]
    level_error: Float[np.ndarray, "n q"]
    level_baseline: Float[np.ndarray, "n q"]
    level_alone_probability: Float[np.ndarray, "n q"]
    level_alone_error: Float[np.ndarray, "n q"]
    level_alone_baseline: Float[np.ndarray, "n q"]
    evidence: Float[np.ndarray, " n"]
    gain: Float[np.ndarray, " n"]
    gain_error: Float[np.ndarray, " n"]
    mass: Float[np.ndarray, " n"]
    mass_error: Float[np.ndarray, " n"]
    prior_mass: Float[np.ndarray, " n"]
    effective_draws: Float[np.ndarray, " n"]

    @classmethod
    def nothing(cls, n: int, p: int, q: int) -> "ClassRisk":
        """Return a risk in which nothing is known yet."""
        columns, levels = [np.full((n, p), np.nan) for _ in range(10)], [np.full((n, q), np.nan) for _ in range(6)]
        return cls(*columns, *levels, *(np.full(n, np.nan) for _ in range(7)))

    def beliefs(self, categories: dict[str, int], levels: Levels) -> Beliefs:
        """Return how well each value is known; categories by name and place, and what is judged besides."""
        told = (self.level_probability, self.level_error, self.level_baseline)
        own = {name: tuple(each[:, place] for each in told) for name, place in categories.items()}
        return Beliefs(self.probability, self.probability_error, self.baseline, levels | own)

    def rest_known(self, categories: dict[str, int]) -> Beliefs:
        """Return how well each value is known to somebody who knows all others of the record."""
        told = (self.level_alone_probability, self.level_alone_error, self.level_alone_baseline)
        own = {name: tuple(each[:, place] for each in told) for name, place in categories.items()}
        numbers = (self.alone_probability, self.alone_error, self.alone_baseline)
        return Beliefs(*numbers, own, self.alone_low, self.alone_high, self.alone_expected)


def risk_with_classes(
    adversary: ClassAdversary,
    rng: np.random.Generator,
    near: Intervals,
    *,
    nearness: Nearness | None = None,
    rows: Int[np.ndarray, " t"] | None = None,
    known: tuple[Sequence[int], Sequence[int]] = ((), ()),
    radius: float | None = RADIUS,
    watch: Callable[[int], None] = lambda records: None,
) -> ClassRisk:
    """Attack all records of the table, or some of its rows, each as if it alone were unknown.

    `near`: the intervals of everyone's measurements; `nearness`: those for who knows all else of a record, who is
    asked, too, if it is given. `known`: positions of measurements, and of categories, that
    the adversary knows of the target. Where the weights that take a record out of the draws leave too few of them,
    classes are drawn again without that record.
    """
    records = adversary.records
    n, p = records.values.shape
    risk = ClassRisk.nothing(n, p, records.codes.shape[1])
    chosen, spread = np.arange(n) if rows is None else rows, _spread(records.values)
    drawn: dict[bytes, PartPoints] = {}

    def attack(
        beliefs: ClassBeliefs,
        people: Int[np.ndarray, " m"],
        rng: np.random.Generator,
        count: Callable[[int], None],
    ) -> None:
        columns, categories = _columns_of(records, int(people[0]))
        pattern = columns.tobytes() + b"," + categories.tobytes() + b"," + bytes(len(beliefs.opinions))
        told = np.flatnonzero(np.isin(columns, known[0])), np.flatnonzero(np.isin(categories, known[1]))
        if len(told[0]) + len(told[1]) == len(columns) + len(categories):
            return  # nothing is left to infer
        if pattern not in drawn and not len(told[0]) + len(told[1]):
            drawn[pattern] = beliefs.shared_points(rng, FEW_POINTS if adversary.quick else POINTS)
        root = np.linalg.cholesky(spread[np.ix_(columns, columns)])
        alone = None if nearness is None else nearness.take(people, columns)
        job = _Attack(beliefs, drawn.get(pattern), told, near.take(people, columns), alone, radius, root)
        blocks = np.array_split(np.arange(len(people)), -(-len(people) // BLOCK))
        work = [partial(job.measure, *each) for each in zip(blocks, rng.spawn(len(blocks)), strict=True)]
        measured = in_parallel(lambda one: one(), work, watch=lambda each: count(len(each["gain"])))
        for block, each in zip(blocks, measured, strict=True):
            _put(risk, people[block], columns, categories, each)

    for group in targets_by_gaps(records.take(chosen)):
        for people in adversary.alike(chosen[group]):
            attack(adversary.opinions(people), people, rng, watch)

    def attack_again(doubtful: tuple[int, np.random.Generator]) -> None:
        person, stream = doubtful
        attack(adversary.without(person, stream), np.array([person]), stream, lambda _: None)

    doubtful = chosen[:0] if adversary.quick else chosen[risk.effective_draws[chosen] < ENOUGH]
    work = list(zip(doubtful.tolist(), rng.spawn(len(doubtful)), strict=True))
    in_parallel(attack_again, work, watch=lambda _: watch(0))
    return risk


def _spread(values: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "p p"]:
    """Return the covariance of all records, gaps at their columns' means."""
    away = values - (np.nanmean(values, axis=0) if values.size else 0.0)
    away = np.where(np.isnan(away), 0.0, away)
    return away.T @ away / len(values)


def _columns_of(records: IncompleteRecords, person: int) -> Known:
    """Return which measurements and which categories a person has."""
    return np.flatnonzero(~np.isnan(records.values[person])), np.flatnonzero(records.codes[person] != UNKNOWN)


def _put(risk: ClassRisk, people: Any, columns: Any, categories: Any, each: dict[str, np.ndarray]) -> None:
    for name, values in each.items():
        where = getattr(risk, name)
        if where.ndim == 1:
            where[people] = values
        else:
            where[people[:, None], categories if name.startswith("level") else columns] = values


@dataclass(frozen=True, eq=False)
class _Attack:
    """All that the attacks on people of one kind share; `points` where nothing is known of them beforehand."""

    beliefs: ClassBeliefs
    points: PartPoints | None
    known: Known
    near: Intervals
    nearness: Nearness | None
    radius: float | None
    root: Float[np.ndarray, "p p"]  # of the covariance by which the radius is measured

    def measure(self, people: Int[np.ndarray, " b"], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Weigh points: shared ones, or a person's own where these are worth little, or columns are known."""
        measured = self._given(people, rng) if self.points is None else self._shared(people, self.points, rng)
        after, before, noise = (measured.pop(name) for name in ("log_total", "log_total_before", "total_noise"))
        del measured["worth"]
        truth = self._at_truth(people, after.T, before.T, noise)
        alone = {} if self.nearness is None else self._alone(people, self.nearness)
        return measured | truth | alone | self._mass(people, after.T, before.T, rng)

    def _shared(
        self, people: Int[np.ndarray, " b"], points: PartPoints, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        logs, before = self.beliefs.at_shared(points, people)
        measured = self._at_points(people, points, logs, before)
        for place in np.flatnonzero(measured["worth"] < ENOUGH_POINTS):
            person, own, seen = people[place : place + 1], points, logs[-1, :, place]
            for _ in range(OWN_ROUNDS):
                own = self.beliefs.points(self.beliefs.learned(own, seen), rng, OWN_POINTS)
                both = self.beliefs.at_shared(own, person)
                seen = both[0][-1, :, 0]
                better = self._at_points(person, own, *both)
                if better["worth"][0] > measured["worth"][place]:
                    for name, values in better.items():
                        measured[name][place] = values[0]
                if measured["worth"][place] >= ENOUGH_POINTS:
                    break
        return measured

    def _at_points(self, people: Int[np.ndarray, " b"], points: PartPoints, logs: Any, before: Any) -> Any:
        values, places, density = points.values[None], points.places[None], points.log_density[:, None]
        return self._summed(people, values, places, density, logs, before)

    def _given(self, people: Int[np.ndarray, " b"], rng: np.random.Generator) -> dict[str, np.ndarray]:
        drawn = [self.beliefs.points_given(int(person), self.known, rng, GIVEN_POINTS) for person in people]
        values, places, density = (np.stack(each) for each in zip(*drawn, strict=True))
        return self._summed(people, values, places, density.T, *self.beliefs.at(values, places, people))

    def _summed(
        self,
        people: Int[np.ndarray, " b"],
        values: Float[np.ndarray, "#b s p"],
        places: Int[np.ndarray, "#b s q"],
        density: Float[np.ndarray, "s #b"],
        logs: Float[np.ndarray, "g s b"],
        before: Float[np.ndarray, "g s b"],
    ) -> dict[str, np.ndarray]:
        """Return each measure of people from beliefs at points, with its standard error."""
        opinion, b, p = self.beliefs.before, len(people), values.shape[2]
        weights, total = _weights(logs - density)
        prior, total_before = _weights(before - density)
        close = self.near.take(people).holds(np.broadcast_to(values, (b, *values.shape[1:])))
        inside = np.concatenate([close, places == opinion.places[people][:, None]], axis=2)
        share = np.einsum("gsb,bsc->gbc", weights, inside)
        baseline = np.einsum("sb,bsc->bc", prior[-1], inside)
        spread = np.einsum("sb,bsc->bc", weights[-1] ** 2, (inside - share[-1][:, None]) ** 2)
        error, squares = np.hypot(jackknife_error(share), np.sqrt(spread)), np.sum(weights[-1] ** 2, axis=0)
        told = np.concatenate([self.known[0], p + self.known[1]]).astype(int)
        for each in (share[-1], error, baseline):
            each[:, told] = np.nan
        best = np.argmax(logs[-1], axis=0)
        return {
            "guess": np.broadcast_to(values, (b, *values.shape[1:]))[np.arange(b), best],
            "probability": share[-1][:, :p],
            "probability_error": error[:, :p],
            "baseline": baseline[:, :p],
            "level_probability": share[-1][:, p:],
            "level_error": error[:, p:],
            "level_baseline": baseline[:, p:],
            "worth": 1 / squares,
            "total_noise": np.sqrt(np.maximum(squares - 1 / len(density), 0.0)),
            "log_total": total.T,
            "log_total_before": total_before.T,
        }

    def _at_truth(
        self,
        people: Int[np.ndarray, " b"],
        total: Float[np.ndarray, "g b"],
        total_before: Float[np.ndarray, "g b"],
        noise: Float[np.ndarray, " b"],
    ) -> dict[str, np.ndarray]:
        """Return the gain at the truth, log p(x | release, others) − log p(x | others), given what is known."""
        after, before = (each[:, people] for each in self.beliefs.at_truth())
        # where nothing is known beforehand, p(x | others) is normalised as it is
        gain = after - total - before + (total_before if self.points is None else 0.0)
        worth = self.beliefs.effective_draws[people]
        return {
            "gain": gain[-1],
            "gain_error": np.hypot(jackknife_error(gain), noise),
            "evidence": (after - before)[-1],
            "effective_draws": worth,
        }

    def _alone(self, people: Int[np.ndarray, " b"], nearness: Nearness) -> dict[str, np.ndarray]:
        """Return how well each value is known to somebody who knows all others."""
        rest = RestKnown.of(self.beliefs, people)
        values = rest.measurements(nearness.take(people, np.arange(self.beliefs.before.values.shape[1])))
        measured = {
            f"alone_{name}": getattr(values, name) for name in ("probability", "error", "baseline", "expected")
        }
        measured |= {"alone_low": values.near.low, "alone_high": values.near.high}
        levels = [rest.levels(category) for category in range(self.beliefs.before.places.shape[1])]
        for number, name in enumerate(("probability", "error", "baseline")):
            each = [level[number] for level in levels]
            measured[f"level_alone_{name}"] = np.stack(each, axis=1) if each else np.zeros((len(people), 0))
        return measured

    def _mass(
        self,
        people: Int[np.ndarray, " b"],
        total: Float[np.ndarray, "g b"],
        total_before: Float[np.ndarray, "g b"],
        rng: np.random.Generator,
    ) -> dict[str, np.ndarray]:
        """Return the mass within a radius of each record, by points spread evenly in that ball."""
        opinion = self.beliefs.before
        p = opinion.values.shape[1]
        if self.radius is None or not p or len(self.known[0]):
            return {}
        white = rng.standard_normal((len(people), IN_BALL, p))
        white *= (rng.random((len(people), IN_BALL, 1)) ** (1 / p)) / np.linalg.norm(white, axis=2, keepdims=True)
        values = opinion.values[people][:, None] + self.radius * white @ self.root.T
        places = np.repeat(opinion.places[people][:, None], IN_BALL, axis=1)
        volume = 0.5 * p * np.log(np.pi) - gammaln(0.5 * p + 1) + p * np.log(self.radius)
        volume += np.sum(np.log(np.diagonal(self.root)))
        logs, before = self.beliefs.at(values, places, people)
        mass = np.exp(log_sum_exp(logs, axis=1) - np.log(IN_BALL) + volume - total)
        prior = np.exp(log_sum_exp(before[-1], axis=0) - np.log(IN_BALL) + volume)
        if self.points is None:
            prior = prior / np.exp(total_before[-1])
        heights = np.exp(logs[-1] - np.max(logs[-1], axis=0))
        noise = mass[-1] * np.std(heights, axis=0) / (np.mean(heights, axis=0) * np.sqrt(IN_BALL))
        error = np.hypot(jackknife_error(mass), noise)
        return {"mass": np.minimum(mass[-1], 1.0), "mass_error": error, "prior_mass": np.minimum(prior, 1.0)}


def _weights(logs: Float[np.ndarray, "g s b"]) -> tuple[Float[np.ndarray, "g s b"], Float[np.ndarray, "g b"]]:
    """Return weights that add up to 1, and the logs of the mean of what they were."""
    sums = log_sum_exp(logs, axis=1)
    return np.exp(logs - sums[:, None]), sums - np.log(logs.shape[1])


@one_thread()  # what is added in another order changes last digits, and with them where chains go
def attacked_with_classes(question: Question) -> Learned:
    """Attack everybody by averages over draws of classes that nobody has observed.

    Values and levels are judged with all others of the record unknown, but for those that the adversary knows.
    """
    mechanism = question.mechanism
    if question.adversary.lacks_records:
        raise InputError(
            "with classes the adversary has all other records: several that are missing together are not inferred",
            Cure("let them have all others", "lacking_records", 0),
        )
    stream, records = np.random.default_rng(question.rng), question.records
    adversary = question.classes
    if adversary is None:
        adversary = _class_adversaries(question, stream)
    known = (question.known_measurements, question.known_categories)
    every = np.arange(len(records.values))
    risk = risk_with_classes(
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
    numbers = _distances_of_guess(records.values, risk.guess, question.rows, known[0]) | {
        "mass": risk.mass, "mass_error": risk.mass_error, "prior_mass": risk.prior_mass,
        "information_gain": risk.gain, "information_gain_error": risk.gain_error, EVIDENCE: risk.evidence,
    }  # fmt: skip
    learned.guess[:] = np.where(np.isnan(risk.guess), learned.guess, risk.guess)
    places = {name: mechanism.categories.index(name) for name in question.judged_categories}
    levels = pattern_levels(question) if question.judges_gaps else {}
    beliefs = risk.beliefs(places, levels)
    rest_known = risk.rest_known(places) if learned.rest_known is not None else None
    measures = {name: numbers[name] for name in learned.measures}
    return Learned(measures, learned.guess, beliefs, rest_known)


def _class_adversaries(question: Question, rng: np.random.Generator) -> ClassAdversary:
    """Return who has all releases: those through classes first, and what the adversary believes without any."""
    every = [_class_adversary(question, part, rng) for part in question.parts]
    whole = [
        each
        for each in every
        if isinstance(each, ClassAdversary) and len(each.records) == len(question.records.values)
    ]
    if not whole:
        raise InputError("of releases through classes one at least must be of all records", "draw one")
    first = whole[0]
    own = None if question.own_prior is None else CellAdversary.of(question.own_prior, first.records, ())
    if own is None and isinstance(every[0], CellAdversary):
        own = replace(every[0], datasets=())
    return replace(first, own=own, rest=tuple(each for each in every if each is not first))


def _class_adversary(question: Question, part: Part, rng: np.random.Generator) -> ClassAdversary | CellAdversary:
    """Draw classes given the records that a part of the releases was made from, with each of its datasets."""
    mechanism, records = part.release.mechanism, question.table_of(part)
    table, start = mechanism.incomplete(records), 0
    if part.people is not None:
        start = part.people.indices(len(question.records.values))[0]
    if not mechanism.has_classes:
        if part.release.parameters is not None:
            raise InputError("beside classes, parameters that were released are not judged")
        exact = [mechanism.incomplete(each) for each in part.release.datasets]
        return CellAdversary.of(mechanism.prior, table, exact, start)
    table = mechanism.seen_by_classes(table)
    seen, kept = as_seen(mechanism, part.release.datasets, table), mechanism.kept_alone(table)
    device = device_of(question.device)
    return replace(ClassAdversary.of(mechanism.class_model, table, seen, rng, kept, device=device), start=start)


def as_seen(mechanism: Mechanism, tables: Sequence[Records], table: IncompleteRecords) -> list[IncompleteRecords]:
    """Return synthetic tables as who attacks takes them: within bounds where these can be noticed, else exact."""
    datasets = [mechanism.as_drawn(each) for each in tables]
    if not mechanism.schema.is_limited or not table.values.shape[1]:
        return [IncompleteRecords.of(each.codes, each.values) for each in datasets]
    whole = table.values[~np.isnan(table.values).any(axis=1)]
    spread = np.nanvar(table.values, axis=0)
    if len(whole) > whole.shape[1] + 1:
        spread = 1 / np.diagonal(np.linalg.inv(np.atleast_2d(np.cov(whole.T))))
    return noticed_bounds(datasets, np.where(table.bounded.any(axis=0), 0.0, spread))  # as in the table itself


def _distances_of_guess(
    truth: Float[np.ndarray, "n p"], guess: Float[np.ndarray, "n p"], rows: Any, known: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return how near the guess comes to what is observed and unknown, beside the others' centre."""
    n, p = truth.shape
    columns, left = np.full((4, n), np.nan), np.setdiff1d(np.arange(p), known)
    if len(left):
        centre, count = np.nanmean(truth, axis=0), np.sum(np.isfinite(truth), axis=0)
        filled = np.where(np.isnan(truth), centre, truth) - centre
        spread = filled.T @ filled / n
        for row in rows:
            some = left[np.isfinite(truth[row, left])]
            if len(some):
                away = (truth[row, some] - centre[some]) * count[some] / (count[some] - 1)
                guessed = away + guess[row, some] - truth[row, some]
                columns[:, row] = nearness_of_guess(away, guessed, spread[np.ix_(some, some)])
    return dict(zip(MEASURES[:4], columns, strict=True))
