"""One attack on one record, quick enough to follow a slider: what is learned, and without the release."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaincinv

from allbutone.adversary.attack import Attack, describe
from allbutone.adversary.build import from_datasets, from_parameters, posterior_of, with_own_prior
from allbutone.adversary.gaps import before_limits
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.landscape import Hidden, Landscape, Profile, Span, landscape, profile, spans_of
from allbutone.adversary.membership import evidence_of_measurements
from allbutone.adversary.missing import MissingPosterior
from allbutone.adversary.one_value import value_beliefs
from allbutone.adversary.posterior import Posterior
from allbutone.adversary.proposal import Points
from allbutone.adversary.who import Reading, split_priors, validate_inputs
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.measures import RADIUS, Effort, Measures, measure
from allbutone.disclosure.risk import require_same_table, with_prior
from allbutone.disclosure.rule import REST_KNOWN, Beliefs, Known, belief_columns, near_truth
from allbutone.disclosure.simulation import expected_exposure
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.release import Release, reading_of
from allbutone.support.arrays import cholesky, solve_rows
from allbutone.support.errors import InputError, count_of, require_memory
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

# What the adversary has learned of one record, beside what would be known of it without the release.


# points of the integrals of two features, four times; each feature more, up to five, takes twice as many: of 150
# random attacks none was off by more than 0.01 nats of a gain and 0.012 of a mass
POINTS, MOST_DOUBLINGS = 128, 3
# what is the same for one record as for many
MEASURED = (
    "distance", "relative_error", "exposure", "mass", "mass_error", "prior_mass", "information_gain",
    "information_gain_error", "leverage",
)  # fmt: skip


@dataclass(frozen=True)
class RecordMeasures:
    """The measures of `risk`, each beside what would be known without the release.

    `exposure` and `relative_error` have the baselines 0 and 1. `law_exposure` is the expected exposure, by so many
    `simulated` releases or, where that is 0, by the closed form, as are `right_mode` and `threshold`. `mass_error`
    and `information_gain_error` are the standard errors of the integrals. `probability`: of each value within its
    tolerance, beside `baseline`, that without the release; rest_known: the same to somebody who knows all others.
    evidence: the log likelihood ratio of the record's membership. Neither where several records are lacking.
    """

    distance: float
    baseline_distance: float
    relative_error: float
    exposure: float
    law_exposure: float
    simulated: int
    mass: float
    mass_error: float
    prior_mass: float
    information_gain: float
    information_gain_error: float
    right_mode: float
    leverage: float
    threshold: float
    status: str
    probability: tuple[float, ...]
    probability_error: tuple[float, ...]
    baseline: tuple[float, ...]
    rest_known: Beliefs | None = None
    evidence: float | None = None


@dataclass(frozen=True)
class Attribute:
    """One feature: the guess and its standard deviation, beside the guess and deviation without the release."""

    name: str
    true: float
    guess: float
    baseline: float
    deviation: float
    baseline_deviation: float


def recorded(measured: Measures, law: ExposureLaw, count: int, status: str = "") -> RecordMeasures:
    """Return the first record's measures, with what is expected after so many datasets or draws."""
    leverage = float(measured.leverage[0])
    expected, simulated = expected_exposure(law, leverage, count)
    numbers: dict[str, Any] = {name: float(getattr(measured, name)[0]) for name in MEASURED}
    return RecordMeasures(
        **numbers,
        baseline_distance=float(measured.baseline_distance[0]),
        law_exposure=expected,
        simulated=simulated,
        right_mode=float(law.right_mode(leverage, count)),
        threshold=float(law.threshold(leverage)),
        status=status,
        probability=tuple(measured.probability[0].tolist()),
        probability_error=tuple(measured.probability_error[0].tolist()),
        baseline=tuple(measured.baseline[0].tolist()),
    )


def attributes_of(
    names: Sequence[str], target: Float[np.ndarray, " p"], found: Attack | MissingPosterior, alone: NIW
) -> tuple[Attribute, ...]:
    """Set the guess of each feature beside the Student t of an adversary who ignores the release.

    After an attack the guess's deviation is that of the inverse curvature at the mode; the covariance of a Student
    t is δ/(δ − 2) times its scale.
    """
    before = alone.predictive()
    wider = before.df / (before.df - 2) if before.df > 2 else np.inf
    after, ahead = np.diagonal(found.covariance), wider * np.diagonal(before.scale)
    columns = (target, found.mode, before.location, np.sqrt(after), np.sqrt(ahead))
    return tuple(Attribute(name, *map(float, of)) for name, *of in zip(names, *columns, strict=True))


# A simulated release that moves smoothly with what it is drawn from, so that it can be followed by a slider.


MOST_SIMULATED = 100  # datasets, or parameter draws, that a simulated release holds, unless more are asked for


class _Steady(np.random.Generator):
    """A generator that draws χ² by inverting its distribution function: they move as their df moves."""

    def chisquare(self, df: Any, size: Any = None) -> Any:
        return 2 * gammaincinv(np.asarray(df) / 2, self.random(size))


def steady_release(whole: NIW, rows: int | None, most: int, seed: int, prior: NIW) -> Release:
    """Draw a release of which every part moves smoothly with the posterior; a longer one begins as a shorter."""
    sizes = [min(MOST_SIMULATED, most - begun) for begun in range(0, most, MOST_SIMULATED)]
    means, roots = (
        np.concatenate(each)
        for each in zip(
            *(whole.draw_roots(_Steady(_stream(seed, 1, block)), size) for block, size in enumerate(sizes)),
            strict=True,
        )
    )
    if rows is None:
        return Release.of_parameters(means, roots @ roots.swapaxes(1, 2), prior=prior)
    # rows lead: those of a smaller dataset are the first of a larger one
    rows = count_of("rows", rows)
    noise = [
        np.random.Generator(_stream(seed, 2, block)).standard_normal((rows, size, whole.p))
        for block, size in enumerate(sizes)
    ]
    drawn = means[:, None, :] + np.concatenate(noise, axis=1).swapaxes(0, 1) @ roots.swapaxes(1, 2)
    return Release.of(drawn, prior=prior)


def _stream(seed: int, stream: int, block: int) -> np.random.PCG64:
    """Return the random numbers of one block of datasets: a longer release begins as a shorter one does."""
    return np.random.PCG64([seed, stream, block] if block else [seed, stream])


# One attack on one record, quick enough to follow a slider: what the adversary learns, and how it is drawn.


COUNTS = (1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 70, 100, 200, 300, 500, 700, 1000)
ROOM = 0.18  # of the window, around all points
HILL = 3.0  # standard deviations of a hill that the window shows: nearly all of a region of 99 %
MOST_WIDENED = 6  # times that the window is made twice as wide, until it holds the credible region
MOST_POINTS = 150  # synthetic records shown
LAW_POINTS = 60  # of the curve of expected exposure


@dataclass(frozen=True, eq=False)
class RecordAttack:
    """All that one attack needs: the others, the record, and the largest release, of which parts are shown.

    `prior` is the data holder's; `own` the adversary's where it differs, and `reading` what of, as in `posterior`.
    `schema` declares the columns' scales and tolerances.
    """

    others: Float[np.ndarray, "m p"]
    target: Float[np.ndarray, " p"]
    release: Release
    prior: NIW
    own: NIW | None = None
    reading: Reading = "record"
    columns: tuple[str, ...] = ()
    schema: Schema = field(default_factory=Schema)

    def __post_init__(self) -> None:
        """Refuse what no attack can be made of; name columns that have no names."""
        validate_inputs(self.others, self.release, self.prior, self.own, self.reading)
        if self.target.shape != self.others.shape[1:] or not np.isfinite(self.target).all():
            raise InputError(f"the target has {self.others.shape[1]} finite values, got {self.target}")
        object.__setattr__(self, "columns", tuple(self.columns or self.release.columns))

    @property
    def most(self) -> int:
        """How many datasets, or parameter draws, the largest release holds."""
        return self.release.count

    @property
    def noun(self) -> str:
        """What is counted."""
        return self.release.noun

    @cached_property
    def moments(self) -> Moments:
        """The others' moments."""
        return Moments.of(self.others)

    @cached_property
    def _table(self) -> Records:
        """The whole table, the record last."""
        return Records(np.vstack([self.others, self.target]), self.columns, schema=self.schema)

    @cached_property
    def _known(self) -> Known:
        """Where each value of the record counts as known, by the rule."""
        return near_truth(self._table).of(np.array([-1]))

    @property
    def near(self) -> Intervals:
        """The same of somebody who lacks the whole record."""
        return self._known

    def risk_columns(self, row: int, found: RecordMeasures) -> dict[str, np.ndarray]:
        """Return how well the values of the record are known as one line of a risk table."""
        after, error, before = (
            np.array([each]) for each in (found.probability, found.probability_error, found.baseline)
        )
        record = replace(self._table.take(np.array([len(self.others)])), rows=np.array([row]))
        told, secret = (
            {"row": record.rows},
            [name for name in self.columns if self._table.schema.column(name).secret],
        )
        for beliefs, prefix in ((Beliefs(after, error, before, {}), ""), (found.rest_known, REST_KNOWN)):
            if beliefs is not None:
                judged = [name for name in secret if not (prefix and name in self.outside)]
                told |= belief_columns(record, self._known, beliefs, judged, prefix)
        return told

    @property
    def outside(self) -> tuple[str, ...]:
        """The columns that people outside can know of the person, as declared; then the second adversary does."""
        return self._table.schema.known

    @cached_property
    def given_others(self) -> NIW:
        """What the adversary takes the mechanism to know without the record."""
        return split_priors(self.prior, self.own, self.reading)[0].update(self.moments)

    @cached_property
    def alone(self) -> NIW:
        """What an adversary who ignores the release knows."""
        own = split_priors(self.prior, self.own, self.reading)[1]
        return self.given_others if own is None else own.update(self.moments)

    @cached_property
    def law(self) -> ExposureLaw:
        """Expected exposure (closed form); datasets of different sizes count as if all had their average size."""
        rows = None if self.release.parameters is not None else round(np.mean(self.release.rows))
        return ExposureLaw(
            self.given_others.p, float(self.given_others.mean_weight), float(self.given_others.df), rows
        )

    @cached_property
    def _datasets(self) -> tuple[np.ndarray, Moments]:
        """All datasets, summarized once for every count."""
        assert self.release.parameters is None
        root, moments = self.release.normal.whitened(self.given_others)
        assert isinstance(moments, Moments)
        return root, moments

    def posterior(self, count: int) -> Posterior:
        """Return the posterior after the first `count` datasets or draws."""
        count = count_of("count", count, self.most)
        if self.release.parameters is not None:
            priors = split_priors(self.prior, self.own, self.reading)
            whole = posterior_of(self.moments, self.release.first(count), *priors)
        else:
            root, every = self._datasets
            some = Moments(every.count[:count], every.mean[:count], every.scatter[:count])
            whole = from_datasets(self.given_others, root, some)
            whole = whole if self.alone is self.given_others else with_own_prior(whole, self.alone)
        return Posterior(**{field.name: getattr(whole, field.name) for field in fields(whole)})

    def measures(self, posterior: Posterior, found: Attack, count: int) -> RecordMeasures:
        """Measure what the first `count` datasets or draws, of which this is the posterior, tell of the target."""
        batch, before = posterior.as_batch(), None
        if self.alone is not self.given_others:
            # no draw at all leaves the holder's Student t alone, and the adversary's own replaces it
            p = posterior.p
            nothing = from_parameters(self.given_others, posterior.root, 0, np.zeros((p, p)), np.zeros(p))
            before = replace(with_own_prior(nothing, self.alone), outward=0.0, own_well=False).as_batch()
        # always the same points: nothing flickers while a slider moves
        effort = Effort(Points(), POINTS << min(max(posterior.p - 2, 0), MOST_DOUBLINGS))
        target, modes = self.target[None], posterior.modes.as_batch()
        measured = measure(batch, target, effort, radius=RADIUS, near=self.near, before=before, modes=modes)
        whole = recorded(measured, self.law, count, str(found.status))
        if given := tuple(self.columns.index(name) for name in self.outside):
            left = [place for place in range(posterior.p) if place not in given]
            narrow = batch.given(given, target[:, given])
            ahead = None if before is None else before.given(given, target[:, given])
            near = self.near.take(np.array([0]), left)
            second = measure(narrow, target[:, left], effort, near=near, before=ahead)
            rest_known = Beliefs.nothing(target.shape).near_others
            learned = (second.probability, second.probability_error, second.baseline)
            rest_known.put(np.array([0]), left, Beliefs(*learned, {}))
        else:
            values = value_beliefs(batch, target, self._known.rest_known, before)
            rest_known = Beliefs.of_values(values, {})
        return replace(
            whole,
            baseline_distance=float(np.linalg.norm(self.alone.mean - self.target)),
            rest_known=rest_known,
            evidence=self.evidence(count),
        )

    def evidence(self, count: int) -> float:
        """Return the log likelihood ratio of the record's membership after the first `count` datasets or draws."""
        if self.release.parameters is not None:
            prior = split_priors(self.prior, self.own, self.reading)[0]
            parameters = self.release.first(count).parameters
            return float(evidence_of_measurements(prior, self.target[None], (), parameters, self.moments)[0])
        # all datasets at once, in coordinates in which the others' scale is one; a ratio is the same in all
        (root, every), p = self._datasets, self.given_others.p
        some = Moments(every.count[:count], every.mean[:count], every.scatter[:count])
        others = NIW(np.zeros(p), self.given_others.mean_weight, self.given_others.df, np.eye(p))
        targets = np.repeat(solve_rows(root, (self.target - self.given_others.mean)[None]), count, axis=0)
        after, before = others.update(some).predictive(), others.predictive()
        return float(np.sum(after.log_density(targets) - before.log_density(targets)))

    def spans(self, shown: tuple[int, ...], found: Attack) -> tuple[Span, ...]:
        """Return the window on the features shown: the others, the record, its mirror image, and the hills.

        It stands still while the release grows, but for a hill that reaches outside.
        """
        mirror = 2 * self.given_others.mean - self.target
        points = [self.others, self.target, mirror, found.mode, found.other_mode]
        reach = HILL * np.sqrt(np.diagonal(found.covariance))
        points += [mode + side * reach for mode in (found.mode, found.other_mode) for side in (-1, 1)]
        return spans_of(*(each[..., list(shown)] for each in points), margin=ROOM)

    def synthetic(self, count: int) -> Float[np.ndarray, "s p"] | None:
        """Return some records of the first `count` datasets, as many of each."""
        if not self.release.datasets:
            return None
        rows = max(1, MOST_POINTS // count)
        return np.concatenate([each[:rows] for each in self.release.normal.datasets[: min(count, MOST_POINTS)]])


def simulated(
    mean: Float[np.ndarray, " p"],
    covariance: Float[np.ndarray, "p p"],
    target: Float[np.ndarray, " p"],
    *,
    n: int = 100,
    rows: int | None = 100,
    prior: NIW | None = None,
    own: NIW | None = None,
    reading: Reading = "record",
    seed: int = 1,
    most: int = MOST_SIMULATED,
    columns: tuple[str, ...] = (),
) -> RecordAttack:
    """Simulate a table of n records, the target among them, and release `most` datasets of `rows` rows from it.

    `rows` None releases parameters. The others are mean + root·e; the datasets, μ* + F·e as ever, come from a
    stream of their own. Each seed has its variates e, whatever the rest: with one seed everything moves smoothly
    with mean, covariance, target and prior, and more records, more rows or hundreds of datasets more are added to
    those already there.
    """
    mean, target = np.asarray(mean, dtype=float), np.asarray(target, dtype=float)
    p, n, most = len(mean), count_of("n", n), count_of("most", most)
    if n < 2:
        raise InputError(f"n must be at least 2, the target and another record, got {n}")
    require_memory(p * max(n, most * (rows or p)))
    prior = NIW.default(p) if prior is None else prior
    root = cholesky(np.asarray(covariance, dtype=float), "the covariance")
    others = mean + np.random.default_rng([seed, 0]).standard_normal((n - 1, p)) @ root.T
    whole = prior.update(np.vstack([others, target]))
    release = steady_release(whole, rows, most, seed, prior)
    return RecordAttack(others, target, release, prior, own, reading, columns)


def of_record(table: Any, row: int, release: Release, prior: NIW | None = None) -> RecordAttack:
    """Return the attack on a row (counted from 1) of a table that a release was made from.

    Values that limits or coarse rounding changed enter as one draw of what they were (`before_limits`).
    """
    records = Records.of(table, **reading_of(release))
    release = with_prior(release, prior)
    require_same_table(records, release)
    prior = release.mechanism.require_prior()
    place = records.place_of(row)
    others = np.delete(records.values, place, axis=0)
    drawn = before_limits(release, release.mechanism.prior.plus(release.mechanism.split(records)))
    target, names = records.values[place], records.columns
    return RecordAttack(others, target, drawn, prior, columns=names, schema=records.schema)


@dataclass(frozen=True, eq=False)
class AttackView:
    """The attack after the first `count` datasets or draws; the landscape is of the one or two `shown`."""

    target: Float[np.ndarray, " p"]
    count: int
    noun: str
    shown: tuple[int, ...]
    posterior: Posterior
    attack: Attack
    landscape: Landscape | Profile
    measures: RecordMeasures
    attributes: tuple[Attribute, ...]

    @property
    def on_mirror_hill(self) -> bool:
        """Whether the guess is the mode opposite the record, and the other mode the one on the record's side."""
        towards = self.posterior.whiten(self.target)
        modes = self.posterior.modes
        return bool(np.isfinite(modes.gap) and modes.best @ towards < 0 < modes.other @ towards)


def view_attack(
    attack: RecordAttack,
    count: int,
    *,
    shown: tuple[int, ...] = (0, 1),
    hidden: Hidden = "mode",
    size: int = 60,
    held: tuple[Span, ...] | None = None,
    level: float = 0.95,
) -> AttackView:
    """Return what is seen after the first `count` datasets or draws, of the two features `shown`, or the one.

    `hidden`: the other features are held at the mode, or integrated out. `held`: a window that the landscape
    fills, whatever else it shows. The window holds the credible region of this `level`.
    """
    posterior = attack.posterior(count)
    found = describe(posterior, posterior.modes)
    spans, synthetic = attack.spans(shown, found), attack.synthetic(count)
    if held is not None:
        spans = spans_of(*(np.array(window).T for window in (spans, held[: len(shown)])), margin=0)

    def over(spans: tuple[Span, ...]) -> Landscape | Profile:
        if len(shown) == 1:
            before = attack.alone.predictive()
            return profile(posterior, before, attack.others, attack.target, spans[0], synthetic)
        both = shown[0], shown[1]
        how: dict[str, Any] = {"shown": both, "hidden": hidden, "size": size, "spans": spans}
        return landscape(posterior, attack.others, attack.target, **how, synthetic=synthetic)

    ground = over(spans)
    for _ in range(MOST_WIDENED):
        if ground.edge < ground.region(level):
            break
        spans = tuple(((3 * low - high) / 2, (3 * high - low) / 2) for low, high in spans)  # twice as wide
        ground = over(spans)
    measures = attack.measures(posterior, found, count)
    attributes = attributes_of(attack.columns, attack.target, found, attack.alone)
    return AttackView(attack.target, count, attack.noun, shown, posterior, found, ground, measures, attributes)


@dataclass(frozen=True, eq=False)
class ExposureCurve:
    """How this very release exposes the record as it grows, beside what is expected (closed form).

    `usual`: the exposures between which nine of ten releases lie. `own_prior`: whether the adversary has
    another prior than the holder, of which the closed form knows nothing.
    """

    counts: Int[np.ndarray, " k"]
    exposure: Float[np.ndarray, " k"]
    relative_error: Float[np.ndarray, " k"]
    law_counts: Float[np.ndarray, " l"]
    law_exposure: Float[np.ndarray, " l"]
    usual: Float[np.ndarray, "2 l"]
    leverage: float
    threshold: float
    own_prior: bool = False


def exposure_curve(attack: RecordAttack, counts: Sequence[int] = COUNTS) -> ExposureCurve:
    """Attack the record after each of these counts that the release has, and after all of it."""
    some = sorted({*(count for count in counts if count < attack.most), min(max(counts), attack.most)})
    found = []
    for count in some:
        posterior = attack.posterior(count)
        found.append(measure(posterior.as_batch(), attack.target[None], modes=posterior.modes.as_batch()))
    fine, leverage = np.geomspace(1, max(some[-1], 2), LAW_POINTS), float(found[-1].leverage[0])
    low, expected, high = attack.law.quantiles(leverage, fine, (0.05, 0.5, 0.95))
    return ExposureCurve(
        counts=np.array(some),
        exposure=np.concatenate([each.exposure for each in found]),
        relative_error=np.concatenate([each.relative_error for each in found]),
        law_counts=fine,
        law_exposure=expected,
        usual=np.stack([low, high]),
        leverage=leverage,
        threshold=float(attack.law.threshold(leverage)),
        own_prior=attack.own is not None,
    )
