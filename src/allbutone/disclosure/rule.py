"""The one rule: when a value of a person counts as disclosed, and every value of every person under it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.integrate import Intervals
from allbutone.model.moments import Moments
from allbutone.support.errors import InputError, describe_value
from allbutone.tables.column import Column
from allbutone.tables.records import Records

# The one rule: when a value of a person counts as disclosed.
#
# A value is disclosed when the adversary, who has all other records and all releases, gives at least probability P
# to the true value within its tolerance, and would not without the release. To know that somebody is far out is
# knowledge, too, so the tolerance of a measurement, where none is declared, is at least half of the person's own
# distance from the others' mean. A level of a category needs no tolerance.


QUARTER = 0.25  # of a column's standard deviation: the tolerance where none is declared
HALFWAY = 0.5  # of a person's distance from the others' mean
FAR = 2.0  # standard deviations from the others' mean: of whom it is said that they are far out
LEAST, MOST = 0.25, 0.99  # probabilities that a rule can ask for
PROBABILITY, BASELINE, ERROR, TOLERANCE = "probability_", "baseline_", "probability_error_", "tolerance_"
BEYOND, OTHERS = "beyond_", "others_"


@dataclass(frozen=True)
class Rule:
    """When a value is disclosed: at `probability` or more with the release, less without, and at doubled odds.

    Without the last part a release that moves 0.49 to 0.51 would count as one that found somebody out.
    """

    probability: float = 0.5

    @classmethod
    def of(cls, probability: "float | Rule") -> "Rule":
        """Check the probability; a rule is taken as it is."""
        if isinstance(probability, Rule):
            return probability
        if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 < probability < 1:
            raise InputError(f"a probability lies between 0 and 1, got {describe_value(probability)}")
        if not LEAST <= probability <= MOST:
            raise InputError(
                f"a probability of {probability:g} tells nothing: many values can be guessed with 20 % without a "
                "release, and one above 99 % cannot be told from certainty",
                f"give one from {LEAST:g} to {MOST:g}",
            )
        return cls(float(probability))

    def discloses(
        self, with_release: Float[np.ndarray, "..."], without: Float[np.ndarray, "..."]
    ) -> Bool[np.ndarray, "..."]:
        """Say which values are disclosed; what could not be computed is, what is missing anyway is not."""
        with np.errstate(invalid="ignore"):
            doubled = with_release * (1 - without) >= 2 * without * (1 - with_release)
            # a tie is none by rounding
            found = (with_release >= self.probability) & (without < self.probability - 1e-9) & doubled
        return found | (np.isnan(with_release) & np.isfinite(without))

    @property
    def in_words(self) -> str:
        """The rule, for a board; the one place where it is worded."""
        return (
            "A value is disclosed if somebody who has everybody else’s records and all that was released can say "
            "what it is, a measurement within its tolerance, with a probability of at least "
            f"{100 * self.probability:g} %, could not without the release, and the release at least doubles the "
            "odds, as from 33 % to 50 %."
        )

    @property
    def in_full(self) -> str:
        """The rule, and where tolerances come from."""
        return (
            f"{self.in_words} The tolerance is what the table file declares; without that a quarter of the "
            "column’s standard deviation, or, of people far from the others, half-way to them: to know that "
            "somebody is far out is knowledge, too."
        )

    def needed(self, without: Float[np.ndarray, "*each"]) -> Float[np.ndarray, "*each"]:
        """Return the probability at which values of these baselines are disclosed; infinite where none is."""
        # odds of 2b/(1 − b) are the probability 2b/(1 + b)
        doubled = np.maximum(self.probability, 2 * without / (1 + without))
        return np.where(without < self.probability - 1e-9, doubled, np.inf)

    def judge(self, found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return, for each person, whether any value is `disclosed`, its probability `risk`, and the `riskiest`.

        A column counts with its probability where the release is what raised it there: not where it is as high
        without the release, or where the odds were not doubled. So a person is disclosed where the risk is P or
        more.
        """
        names = judged_columns(found)
        after = np.stack([found[PROBABILITY + name] for name in names], axis=1)
        before = np.stack([found[BASELINE + name] for name in names], axis=1)
        flags = self.discloses(after, before)
        with np.errstate(invalid="ignore"):
            counted = flags | ((after < self.probability) & (before < self.probability))
        risk = np.where(np.isnan(after) & flags, 1.0, np.where(counted, after, 0.0))
        worst = np.argmax(risk, axis=1)
        return {
            "disclosed": np.any(flags, axis=1),
            "risk": risk[np.arange(len(risk)), worst],
            "riskiest": np.asarray(names)[worst],
        }


USUAL = Rule()


@dataclass(frozen=True, eq=False)
class Known(Intervals):
    """The interval within which each value counts as known.

    others: the others' mean, on the scale of the model, of a person who is far from it and whose interval ends
    half-way to it; NaN of everybody else.
    """

    others: Float[np.ndarray, "n p"]

    def of(self, rows: Int[np.ndarray, " m"]) -> "Known":
        """Return the intervals of some records."""
        return Known(self.low[rows], self.high[rows], self.others[rows])


def judged_columns(found: Mapping[str, np.ndarray]) -> list[str]:
    """Return the columns, measurements and categories, whose values were judged."""
    names = (name.removeprefix(BASELINE) for name in found if name.startswith(BASELINE))
    return [name for name in names if PROBABILITY + name in found]


def near_truth(
    records: Records,
    elsewhere: Moments | None = None,
    *,
    whole: Moments | None = None,
    rows: Int[np.ndarray, " m"] | slice = slice(None),
) -> Known:
    """Return the interval, on the scale of the model, within which each value counts as known.

    A declared tolerance is that and no other. Without one it is a quarter of the column's standard deviation, and
    at least half of the person's own distance from the others' mean.
    `elsewhere`: the moments of records of the table that are not among these, of all or of each cell; `whole`: of
    all together, where they are known. `rows`: of whom, all by default.
    """
    values = records.values[rows]
    if elsewhere is not None:
        further = elsewhere.pooled() if np.ndim(elsewhere.count) else elsewhere
        whole = Moments.of(records.values).merge(further)
    if whole is not None:
        n, middle = np.full(values.shape[1], whole.count), np.asarray(whole.mean)
        spread = np.sqrt(np.diagonal(whole.scatter) / (whole.count - 1))
    else:
        n = np.sum(np.isfinite(records.values), axis=0)
        middle, spread = np.nanmean(records.values, axis=0), np.nanstd(records.values, axis=0, ddof=1)
    # the others' mean is (n·mean − x)/(n − 1)
    reach = HALFWAY * n / (n - 1) * np.abs(values - middle)
    usual = QUARTER * spread
    others = np.where(reach >= HALFWAY * FAR * spread, (n * middle - values) / (n - 1), np.nan)
    low, high = values - np.maximum(reach, usual), values + np.maximum(reach, usual)
    natural = records.schema.to_natural(values)
    for place, column in enumerate(records.schema.measurements):
        if column.tolerance is not None:
            low[:, place], high[:, place] = _ends_on_scale(column, natural[:, place])
            others[:, place] = np.nan
    return Known(low, high, others)


def _ends_on_scale(column: Column, natural: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
    """Bring the ends of the declared tolerance to the scale of the model; infinite where the scale ends before."""
    assert column.tolerance is not None
    lowest, highest, _ = column.scale.domain
    low, high = natural - column.tolerance, natural + column.tolerance
    beyond = (low <= lowest, high >= highest)
    inner = (np.where(beyond[0], natural, low), np.where(beyond[1], natural, high))
    below, above = (column.scale.to_model(each) for each in inner)
    return np.where(beyond[0], -np.inf, below), np.where(beyond[1], np.inf, above)


def belief_columns(
    records: Records, near: Known, beliefs: Mapping[str, Float[np.ndarray, "n p"]], names: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return the columns that tell how well each value of these measurements is known."""
    known, found = tolerances(records, near), {}
    for name in names:
        place = records.columns.index(name)
        found[PROBABILITY + name] = beliefs["probability"][:, place]
        found[BASELINE + name] = beliefs["baseline"][:, place]
        found[ERROR + name] = beliefs["probability_error"][:, place]
        found |= {each + name: known[each + name] for each in (TOLERANCE, BEYOND, OTHERS)}
    return found


def require_free_names(names: Sequence[str]) -> None:
    """Refuse columns whose risk would be told under a name that another has, before anyone is attacked."""
    taken = {"baseline_distance"}
    for name in names:
        for prefix in (PROBABILITY, BASELINE, ERROR, TOLERANCE, BEYOND, OTHERS):
            if prefix + name in taken:
                raise InputError(
                    f"the risk of the column {name!r} would need the name {prefix + name!r} twice",
                    "give the column another name",
                )
            taken.add(prefix + name)


def with_verdicts(records: Records, rule: Rule | None, *parts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Put the columns of a risk table together, each person's verdict first."""
    found = {name: column for part in parts for name, column in part.items()}
    return {"row": records.rows, **(rule or Rule()).judge(found), **found}


def tolerances(records: Records, near: Known) -> dict[str, Float[np.ndarray, " n"]]:
    """Return for each value how far off, in natural units, a guess still counts as right.

    And of people far out, half-way to the others, beyond which they are known to be, and the others' mean.
    """
    natural, found = records.natural, {}
    for place, column in enumerate(records.schema.measurements):
        lowest, highest, _ = column.scale.domain
        low = np.maximum(column.scale.to_natural(near.low[:, place]), lowest)
        high = np.minimum(column.scale.to_natural(near.high[:, place]), highest)
        found[TOLERANCE + column.name] = np.maximum(natural[:, place] - low, high - natural[:, place])
        others = near.others[:, place]
        inner = np.where(others > records.values[:, place], high, low)
        found[BEYOND + column.name] = np.where(np.isnan(others), np.nan, inner)
        found[OTHERS + column.name] = column.scale.to_natural(others)
    return found


# Every value of every person under the one rule: which are disclosed, and which come closest to it.
#
# Whoever names a record, in a sentence, a figure or a table, takes it from the order that is defined here.


UNSURE = 2.0  # standard errors within which a probability cannot be told from its limit
DIGITS = 9  # beyond which two numbers count as the same, so that no rounding decides who is named


@dataclass(frozen=True)
class JudgedPeople:
    """How many people were judged, where a table holds the worst of them; of how many a value is disclosed.

    undecided: who is at the limit, within the error of the integrals.
    """

    people: int
    disclosed: int
    undecided: int = 0


def called(found: Mapping[str, np.ndarray]) -> tuple[str, np.ndarray]:
    """Return what each person is known by, after the word for it: a record's key where there is one, or a row."""
    return ("record", found["key"]) if "key" in found else ("row", found["row"])


@dataclass(frozen=True, eq=False)
class ToldValues:
    """How well each value of each person is known, with the release and without, and what the rule says of it.

    closeness: how much of the way to being disclosed the release went, (after − before)/(needed − before), where
    `needed` is the probability at which the rule calls a value disclosed; missing where there is nothing to find.
    at_limit: whether the probability is `needed`, as far as the error of its integral, or of its draws, can tell.
    """

    names: tuple[str, ...]
    after: Float[np.ndarray, "n f"]
    before: Float[np.ndarray, "n f"]
    disclosed: Bool[np.ndarray, "n f"]
    closeness: Float[np.ndarray, "n f"]
    at_limit: Bool[np.ndarray, "n f"]

    @classmethod
    def of(cls, found: Mapping[str, np.ndarray], rule: Rule) -> "ToldValues":
        """Judge the columns of a risk table."""
        names = tuple(judged_columns(found))
        after, before = (
            np.stack([found[each + name] for name in names], axis=1) for each in (PROBABILITY, BASELINE)
        )
        errors = np.stack([found.get(ERROR + name, np.zeros(len(after))) for name in names], axis=1)
        needed = rule.needed(before)
        with np.errstate(invalid="ignore"):  # what could not be computed counts as disclosed, and so it is said
            at_limit = (errors > 0) & (np.abs(after - needed) <= UNSURE * errors)
        return cls(
            names, after, before, rule.discloses(after, before), (after - before) / (needed - before), at_limit
        )

    @property
    def undecided(self) -> Bool[np.ndarray, " n"]:
        """Of whom other random points may decide otherwise: at a limit, and clearly beyond none."""
        return self.at_limit.any(axis=1) & ~(self.disclosed & ~self.at_limit).any(axis=1)

    @property
    def surest(self) -> tuple[Int[np.ndarray, " v"], Int[np.ndarray, " v"]]:
        """The places and columns of the disclosed values, the surest first."""
        places, columns = np.nonzero(self.disclosed)
        order = np.lexsort([-key[places, columns] for key in self._keys])
        return places[order], columns[order]

    @property
    def worst(self) -> Int[np.ndarray, " n"]:
        """Each person's column that is disclosed most surely, or comes closest to it."""
        added, score = self._keys
        first = score == score.max(axis=1, keepdims=True)
        return np.argmax(np.where(first, added, -np.inf), axis=1)

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """The people, who is disclosed most surely or comes closest to it first."""
        each, worst = np.arange(len(self.after)), self.worst
        return np.lexsort([-key[each, worst] for key in self._keys])

    @property
    def _keys(self) -> tuple[Float[np.ndarray, "n f"], Float[np.ndarray, "n f"]]:
        """By what values are compared, the second before the first; then by row, and by column.

        What is disclosed comes first, by its probability, what could not be computed before that; then by
        closeness. Where that is the same, by what the release adds to the probability.
        """
        sure = np.where(np.isnan(self.after), 2.0, self.after)
        score = np.where(self.disclosed, 2.0 + sure, np.where(np.isnan(self.closeness), -np.inf, self.closeness))
        added = np.where(np.isfinite(self.before), sure - self.before, -np.inf)
        return added.round(DIGITS), score.round(DIGITS)


def is_found(found: Mapping[str, np.ndarray], column: str) -> Bool[np.ndarray, " n"]:
    """Say whose value of a column is disclosed."""
    return Rule().discloses(found[PROBABILITY + column], found[BASELINE + column])


def rise_in_odds(found: Mapping[str, np.ndarray], category: str) -> Float[np.ndarray, " n"]:
    """Return by how much the release raised the log odds of each record's own level.

    Infinite where that could not be computed, minus infinity where there is no level.
    """
    tiny = np.finfo(np.float64).tiny
    after, before = (
        np.log(np.maximum(found[each + category], tiny)) - np.log(np.maximum(1 - found[each + category], tiny))
        for each in (PROBABILITY, BASELINE)
    )
    lost = np.where(np.isfinite(found[BASELINE + category]), np.inf, -np.inf)
    return np.where(np.isfinite(after - before), after - before, lost)


def judged_categories(found: Mapping[str, np.ndarray]) -> list[str]:
    """Return the categories of which the columns speak."""
    return [name for name in judged_columns(found) if TOLERANCE + name not in found]
