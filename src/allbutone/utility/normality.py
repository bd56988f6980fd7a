"""Is the normal model fit to be used on this table? Tests, sizes of effect, and a verdict in words."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import betaincc, betaincinv, ndtr, ndtri

from allbutone.model.augmentation import augment
from allbutone.releases.mechanism import Mechanism
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import ShowsItself, number, percent
from allbutone.tables.column import Scale
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.look import proposed_scale
from allbutone.tables.records import Records
from allbutone.utility.counted import CountedTable
from allbutone.utility.shapes import (
    DOUBTFUL,
    FEW,
    LEVELS,
    HenzeZirkler,
    Mardia,
    Shape,
    henze_zirkler,
    level_of,
    mardia,
    middle_gap,
    positions,
    standardised,
    whiten,
)

MOST_POINTS = 1000  # of a Q-Q plot; of a longer table the points are thinned, least in the tails
QUANTILES = 10_000  # of a column in an engine, which stand for its values
FEW_VALUES = 10  # a column that takes no more values than this is not continuous
OUTSIDE = 0.005  # how many records beyond an outlier's limit a normal table would be expected to have
RARE = 0.01  # outliers explain a verdict only where they are at most this share of the records
TOGETHER = "all columns together"
DECLARE_SCALE = "declare the scale"


@dataclass(frozen=True)
class Fitness:
    """Whether a column, or the whole table, is `fit`, `doubtful` or `not fit`; why; and what to do."""

    subject: str
    level: str
    reason: str
    advice: str

    @property
    def has_scale(self) -> bool:
        """Whether it is not fit as it is, and another scale is proposed."""
        return self.level == "not fit" and self.advice.startswith(DECLARE_SCALE)

    @property
    def words(self) -> str:
        """The verdict in one line."""
        return f"{self.level}: {self.reason}" if self.reason else self.level


@dataclass(frozen=True, eq=False, repr=False)
class Normality(ShowsItself):
    """How far a table is from normal, by column and together. It describes real records: confidential.

    A verdict is `doubtful` where |skewness| > ½, |excess kurtosis| > 1 or a Q-Q gap > ¼ SD, and a test finds
    p < 0.01; `not fit` where one exceeds 1, 3 or ½ SD, and p < 0.001. Together the same limits hold for Mardia's
    measures on one column's scale and for the Mahalanobis distances. `mardia` and `henze_zirkler` are None where
    there are fewer than p + 2 records or columns repeat each other; `together` is where it was not judged.
    Q-Q coordinates: standardised columns `qq_values` against `qq_normal`, and squared Mahalanobis distances
    `squared_distances` against `distance_quantiles`, those of (n−1)²/n·Beta(p/2, (n−p−1)/2), which is exact for an
    estimated mean and covariance; q points, all records where there are at most 1000.
    """

    columns: tuple[str, ...]
    people: int
    shape: Shape
    mardia: Mardia | None
    henze_zirkler: HenzeZirkler | None
    verdicts: tuple[Fitness, ...]
    together: Fitness | None
    qq_normal: Float[np.ndarray, " q"]
    qq_values: Float[np.ndarray, "p q"]
    distance_quantiles: Float[np.ndarray, " d"]
    squared_distances: Float[np.ndarray, " d"]

    @property
    def level(self) -> str:
        """The worst of all verdicts: `fit`, `doubtful` or `not fit`."""
        return LEVELS[max(LEVELS.index(verdict.level) for verdict in self.every)]

    @property
    def middle_gaps(self) -> Float[np.ndarray, " p"]:
        """How far, in standard deviations, each column's 10th to 90th percentiles lie from a normal one's."""
        middle = np.abs(self.qq_normal) <= ndtri(0.9)
        return np.max(np.abs(self.qq_values - self.qq_normal)[:, middle], axis=1, initial=0.0)

    @property
    def mean_gaps(self) -> Float[np.ndarray, " p"]:
        """How far these percentiles lie from a normal one's on average."""
        middle = np.abs(self.qq_normal) <= ndtri(0.9)
        return np.mean(np.abs(self.qq_values - self.qq_normal)[:, middle], axis=1)

    @property
    def every(self) -> tuple[Fitness, ...]:
        """All verdicts there are."""
        return self.verdicts if self.together is None else (*self.verdicts, self.together)


def check_normality(table: Any, *, of: Records | None = None, **how_to_read: Any) -> Normality:
    """Judge whether a table is near enough to normal for this synthesizer, by column and together.

    How it is read is said as to `Records.of` (schema, complete_cases, …). `of`: the records themselves where the
    table holds what is left of them; scales are proposed for those. Of a table in an engine the shape of every
    column is judged by 10,000 of its quantiles, and how columns vary together is not.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> abo.check_normality(cohort).together.level  # because of the person in row 212
    'not fit'
    """
    records: Records | LazyRecords
    if in_engine := CountedTable.takes(table):
        counted = CountedTable.of(table, **how_to_read)
        records, people = counted.records, counted.people
        values = counted.quantiles(positions(min(people, QUANTILES)))
        natural, declared = records.schema.to_natural(values), records.schema.measurements
    else:
        records = Records.of(table, **how_to_read)
        values, people = records.values, len(records.values)
        own = records if of is None else of.select(records.columns)
        natural, declared = own.natural, own.schema.measurements
    n, p = values.shape
    for name, column in zip(records.columns, values.T, strict=True):
        if n < 2 or np.all(column == column[0]):
            raise InputError(
                f"column {name!r} is constant, which no normal model fits", Cure("leave it out", "drop", [name])
            )
    shape = Shape.of(values)
    verdicts = tuple(
        judge_column(each.name, column, int(level), as_recorded, each.scale, stepped=each.decimals is not None)
        for each, column, level, as_recorded in zip(declared, values.T, shape.levels, natural.T, strict=True)
    )
    chosen = thin(n)
    place = positions(n)[chosen]
    found = _Together.of(values) if n >= max(p + 2, 4) and not in_engine else None
    return Normality(
        columns=records.columns,
        people=people,
        shape=shape,
        mardia=None if found is None else found.mardia,
        henze_zirkler=None if found is None else found.henze_zirkler,
        verdicts=verdicts,
        together=None if in_engine else _judge_together(values, found, verdicts),
        qq_normal=ndtri(place),
        qq_values=standardised(values)[chosen].T,
        distance_quantiles=np.empty(0) if found is None else found.quantiles,
        squared_distances=np.empty(0) if found is None else np.sort(found.squared)[chosen],
    )


@dataclass(frozen=True, eq=False)
class _Together:
    """What the joint verdict rests on; `squared` are the squared Mahalanobis distances, in the table's order."""

    mardia: Mardia
    henze_zirkler: HenzeZirkler | None
    squared: Float[np.ndarray, " n"]
    quantiles: Float[np.ndarray, " q"]
    p: int

    @classmethod
    def of(cls, values: Float[np.ndarray, "n p"], *, paired: bool = True) -> "_Together | None":
        """Measure the table; None where columns repeat each other. Henze and Zirkler's test only if `paired`."""
        n, p = values.shape
        try:
            white = whiten(values)
        except InputError:
            return None
        squared = np.sum(white * white, axis=1) * ((n - 1) / n)
        quantiles = (n - 1) ** 2 / n * betaincinv(p / 2, (n - p - 1) / 2, positions(n)[thin(n)])
        return cls(mardia(white), henze_zirkler(values) if paired else None, squared, quantiles, p)

    @property
    def effects(self) -> tuple[float, float, float, float]:
        """Skewness, excess kurtosis, the gap of the distances, and the smallest p times the number of tests."""
        n, chosen = len(self.squared), thin(len(self.squared))
        ordered = np.sqrt(np.sort(self.squared)[chosen])
        gap = float(middle_gap(ordered[None], np.sqrt(self.quantiles), positions(n)[chosen])[0])
        tests = [self.mardia.skewness_p, self.mardia.kurtosis_p]
        if self.henze_zirkler is not None:
            tests.append(self.henze_zirkler.p)
        return self.mardia.typical_skewness, self.mardia.typical_excess_kurtosis, gap, len(tests) * min(tests)

    @property
    def outside(self) -> np.ndarray:
        """Which records lie further out than a normal table of this size would have any."""
        n = len(self.squared)
        share = np.minimum(self.squared * n / (n - 1) ** 2, 1.0)
        return betaincc(self.p / 2, (n - self.p - 1) / 2, share) < OUTSIDE / n


def thin(n: int) -> np.ndarray:
    """Return the ranks that a Q-Q plot shows: all, or about 1000 evenly spaced on the normal scale."""
    if n <= MOST_POINTS:
        return np.arange(n)
    end = ndtri(1 - 0.5 / n)
    return np.unique(np.clip(n * ndtr(np.linspace(-end, end, MOST_POINTS)), 0, n - 1).astype(int))


def judge_column(
    name: str,
    column: Float[np.ndarray, " n"],
    level: int,
    natural: Float[np.ndarray, " n"],
    scale: Scale,
    *,
    stepped: bool = False,
) -> Fitness:
    """Put the shape of one column into words, and say what to do about it.

    `natural`: its values in natural units, as they were recorded and are counted, and `scale` that on which it is
    modelled. `stepped`: whether it goes out rounded, so that no value lies in between.
    """
    n = len(column)
    distinct, counts = np.unique(natural, return_counts=True)
    if n < FEW:
        return _too_few(name, n)
    if len(distinct) <= FEW_VALUES and stepped:
        advice = 'good for means and correlations; as a category (kind = "category") its shares would be nearer'
        return Fitness(name, "doubtful", f"takes {len(distinct)} values, a bell curve cut in steps", advice)
    if len(distinct) <= FEW_VALUES:
        advice = 'declare it a category (kind = "category"): a normal model gives values in between'
        return Fitness(name, "not fit", f"takes only {len(distinct)} different values", advice)
    if 2 * np.max(counts) > n:
        between = "a normal model gives " + ("other shares of its values" if stepped else "values in between")
        advice = f"leave it out, or release it by another method: {between}"
        return Fitness(name, "not fit", f"takes one value in {percent(np.max(counts) / n)} of the records", advice)
    if level == 0:
        return Fitness(name, "fit", "", "use it as it is")
    shape = Shape.of(column[:, None])
    reason = _reason(float(shape.skewness[0]), float(shape.excess_kurtosis[0]), float(shape.gap[0]))
    distance = np.abs(column - np.median(column))
    outside = distance > ndtri(1 - OUTSIDE / 2 / n) * np.median(distance) / ndtri(0.75)
    if 0 < np.sum(outside) <= max(1, RARE * n) and Shape.of(column[~outside, None]).levels[0] == 0:
        return Fitness(name, LEVELS[level], f"{reason}, from {_records(outside)}", _outlier_advice(outside))
    return Fitness(name, LEVELS[level], reason, _scale_advice(natural, scale) or _last_advice(level))


def _judge_together(
    values: Float[np.ndarray, "n p"], found: _Together | None, verdicts: tuple[Fitness, ...]
) -> Fitness:
    n, p = values.shape
    if n < p + FEW:  # of which p are spent on the directions themselves
        return _too_few(TOGETHER, n)
    if found is None:
        return Fitness(TOGETHER, "not fit", "columns repeat each other", "leave out those that follow from others")
    level = level_of(*found.effects)
    if level == 0:
        return Fitness(TOGETHER, "fit", "", "use them as they are")
    reason, outside = _reason(*found.effects[:3], kind="distances"), found.outside
    if 0 < np.sum(outside) <= max(1, RARE * n):
        rest = _Together.of(values[~outside], paired=False)
        if rest is not None and level_of(*rest.effects) == 0:
            reason = f"{reason}, from {_records(outside)}"
            return Fitness(TOGETHER, LEVELS[level], reason, _outlier_advice(outside))
    if any(verdict.level != "fit" for verdict in verdicts):
        return Fitness(TOGETHER, LEVELS[level], reason, "see to the columns that are not fit, then check again")
    return Fitness(TOGETHER, LEVELS[level], reason, _last_advice(level, together=True))


def _too_few(subject: str, n: int) -> Fitness:
    return Fitness(subject, "doubtful", f"{n} records are too few to tell", "judge from what is publicly known")


def _records(outside: np.ndarray) -> str:
    count = int(np.sum(outside))
    return "one record far outside the rest" if count == 1 else f"{count} records far outside the rest"


def _outlier_advice(outside: np.ndarray) -> str:
    which = ("that record if it is", "it") if np.sum(outside) == 1 else ("those records if they are", "them")
    return (
        f"correct {which[0]} in error, or leave {which[1]} out; the rest is fit, and who lies far out risks most"
    )


def _reason(skewness: float, excess_kurtosis: float, gap: float, *, kind: str = "values") -> str:
    """Name the effects beyond their limits."""
    found = []
    if abs(skewness) > DOUBTFUL.skewness:
        tail = "lopsided" if kind == "distances" else "long right tail" if skewness > 0 else "long left tail"
        found.append(f"{tail} (skewness {number(skewness, 2)})")
    if abs(excess_kurtosis) > DOUBTFUL.excess_kurtosis:
        tails = "heavy tails" if excess_kurtosis > 0 else "short tails, or several groups"
        found.append(f"{tails} (excess kurtosis {number(excess_kurtosis, 2)})")
    if gap > DOUBTFUL.gap:
        found.append(f"{kind} up to {gap:.2f} standard deviations from a bell curve's")
    return ", ".join(found)


def _scale_advice(natural: Float[np.ndarray, " n"], scale: Scale) -> str:
    """Name the scale that the table of columns proposes, too, where it is another and less skewed."""
    proposed = proposed_scale(natural)
    if proposed in ("as it is", scale.name):
        return ""
    before, after = (
        float(Shape.of(each.to_model(natural)[:, None]).skewness[0]) for each in (scale, Scale.of(proposed))
    )
    if abs(after) >= abs(before):
        return ""
    return f'{DECLARE_SCALE} "{proposed}" for it: skewness {number(after, 2)} instead of {number(before, 2)}'


def _last_advice(level: int, *, together: bool = False) -> str:
    if level == 1:
        return "good for means and correlations; say so where single values or shapes matter"
    what = "how the columns go together beyond correlations" if together else "its shape"
    return f"good for means and correlations alone: {what} will not be that of the real data; say so"


# Measurements without what categories and kept columns say of them: what a mixed model takes to be normal.


def completed(records: Records, mechanism: Mechanism) -> Records:
    """Return the table with its gaps filled by one draw of the model, always the same one.

    What was drawn by the model looks as the model does: the more is missing, the less a check can find.
    """
    if not records.has_gaps:
        return records
    drawn = augment(mechanism.incomplete(records), mechanism.prior, np.random.default_rng(0))
    return mechanism.released(drawn.first_tables(len(records.values))[0])


def given_categories(records: Records, mechanism: Mechanism) -> Records:
    """Return the drawn measurements less their effects of levels and kept measurements, by least squares.

    The model is of main effects, and no value may be missing. The columns keep their means and are on the model's
    scale.
    """
    parts = mechanism.split(records)
    known = mechanism.prior.coded(parts.cells, parts.covariates)
    known = known - known.mean(axis=0)
    spread = known.std(axis=0)
    known = known[:, spread > 0] / spread[spread > 0]
    effects = np.linalg.lstsq(known, parts.values - parts.values.mean(axis=0))[0]
    return Records(parts.values - known @ effects, mechanism.measurements)
