"""The one rule: when a value of a person counts as disclosed, and every value of every person under it."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit

from allbutone.adversary.integrate import Intervals
from allbutone.adversary.one_value import Nearness, ValueBeliefs
from allbutone.model.moments import Moments
from allbutone.support.errors import Cure, InputError, describe_value
from allbutone.support.text import joined
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

# The one rule: when a value of a person, or that they are in the table, counts as disclosed.
#
# A value is disclosed when an adversary, who has all other records and all releases, gives at least probability P
# to the true value within its tolerance, and would not without the release. It is judged against two: one who
# knows nothing of the person, and one who knows all other values of the person. To know that somebody is far out
# is knowledge, too, so the tolerance of a measurement, where none is declared, is at least half of the person's
# own distance from the others' mean. A level of a category needs no tolerance.
#
# Membership is disclosed when somebody at even odds, who has all other records, the person's own and all releases,
# becomes at least 90 % sure that the person is in the table.


USUAL_TOLERANCE = 0.25  # of a column's standard deviation: the tolerance where none is declared
HALFWAY = 0.5  # of a person's distance from the others' mean
FAR = 2.0  # standard deviations from the others' mean: of whom it is said that they are far out
LEAST_ASKED, MOST_ASKED = 0.05, 0.99  # probabilities that a rule can ask for
EVEN = 0.5  # what is believed with more than even odds without the release was no secret
PROBABILITY, BASELINE, ERROR, TOLERANCE = "probability_", "baseline_", "probability_error_", "tolerance_"
BEYOND, OTHERS = "beyond_", "others_"
REST_KNOWN = "rest_known_"  # before these, where all other values of the person are known
MEMBERSHIP = "membership"


@dataclass(frozen=True)
class Rule:
    """When a value is disclosed: at `probability` or more with the release, less without, and at doubled odds.

    Without the last part a release that moves 0.49 to 0.51 would count as one that found somebody out. Membership
    is disclosed, in the same way, at the probability `membership`, to somebody who gives `membership_odds` to it
    before they see the release.

    >>> import allbutone as abo
    >>> abo.Rule.of(0.3)
    Rule(probability=0.3, membership=0.9, membership_odds=1.0)
    """

    probability: float = 0.5
    membership: float = 0.9
    membership_odds: float = 1.0

    @classmethod
    def of(cls, probability: "float | Rule", membership: float = 0.9, membership_odds: float = 1.0) -> "Rule":
        """Check the probabilities; a rule is taken as it is."""
        if isinstance(probability, Rule):
            return probability
        for what, given in (("a probability", probability), ("a probability of membership", membership)):
            if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1:
                raise InputError(f"{what} lies between 0 and 1, got {describe_value(given)}")
            if not LEAST_ASKED <= given <= MOST_ASKED:
                raise InputError(
                    f"{what} of {given:g} tells nothing: one below {100 * LEAST_ASKED:g} % is chance for most "
                    "values, and one above 99 % cannot be told from certainty",
                    f"give one from {LEAST_ASKED:g} to {MOST_ASKED:g}",
                )
        odds = membership_odds
        if isinstance(odds, bool) or not isinstance(odds, int | float) or not 0 < odds < np.inf:
            raise InputError(f"odds of membership exceed 0, got {describe_value(odds)}", "1 stands for even odds")
        return cls(float(probability), float(membership), float(odds))

    def discloses(
        self, with_release: Float[np.ndarray, "..."], without: Float[np.ndarray, "..."]
    ) -> Bool[np.ndarray, "..."]:
        """Say which values are disclosed; what could not be computed is, what is missing anyway is not."""
        with np.errstate(invalid="ignore"):
            found = with_release >= self.needed(without) * (1 - 1e-12)  # a tie is none by rounding
        return found | (np.isnan(with_release) & np.isfinite(without))

    def membership_of(self, evidence: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Return the probability that each person is in the table; `evidence`: log likelihood ratios."""
        return np.asarray(expit(evidence + np.log(self.membership_odds)))

    def discloses_membership(self, probability: Float[np.ndarray, "*n"]) -> Bool[np.ndarray, "*n"]:
        """Say whose membership is disclosed, as values are; what could not be computed is."""
        odds = self.membership_odds
        return Rule(self.membership).discloses(probability, np.full(probability.shape, odds / (1 + odds)))

    @property
    def in_words(self) -> str:
        """The rule, for a board, against who knows nothing of a person or all values but one."""
        return self.worded(())

    def worded(self, outside: Sequence[str], only: Sequence[str] | None = None) -> str:
        """Return the rule, for a board; the one place where it is worded.

        outside: what people outside can know of a person, where that is declared. only: what the one adversary
        knows, where there are not two.
        """
        all_else = f"the person’s {joined(outside)}" if outside else "all but this value"
        known = f"whether they know nothing of the person or {all_else}"
        if only is not None:
            known = f"and knows {joined(only) if only else 'nothing'} of the person"
        return (
            "A value is disclosed if somebody who has everybody else’s records and all that was released, "
            f"{known}, can say what it is, a measurement within its "
            f"tolerance, with a probability of at least {100 * self.probability:g} %, could not without the "
            "release, and the release at least doubles the odds, as from 33 % to 50 %."
        )

    @property
    def membership_in_words(self) -> str:
        """The rule of membership, for a board."""
        odds = "even odds" if self.membership_odds == 1 else f"odds of {self.membership_odds:g} to 1"
        return (
            "That a person is in the table is disclosed if somebody who has everybody else’s records, the "
            "person’s own and all that was released becomes at least "
            f"{100 * self.membership:g} % sure of it, from {odds}."
        )

    def in_full(self, outside: Sequence[str] = (), only: Sequence[str] | None = None) -> str:
        """Return the rule, and where tolerances come from."""
        return (
            f"{self.worded(outside, only)} The tolerance is what the table file declares; without that a quarter "
            "of the column’s standard deviation, or, of people far from the others, half-way to them: to know "
            "that somebody is far out is knowledge, too."
        )

    def needed(self, without: Float[np.ndarray, "*each"]) -> Float[np.ndarray, "*each"]:
        """Return the probability at which values of these baselines are disclosed; infinite where none is."""
        # odds of 2b/(1 − b) are the probability 2b/(1 + b)
        doubled = np.maximum(self.probability, 2 * without / (1 + without))
        with np.errstate(invalid="ignore"):
            secret = without < max(self.probability, EVEN) - 1e-9
        return np.where(secret, doubled, np.inf)

    def judge(self, found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return, for each person, whether a value is `disclosed`, its `risk`, the `riskiest` column, to whom.

        A column counts with its probability where the release is what raised it there: not where it is as high
        without the release, or where the odds were not doubled. So a person is disclosed where the risk is P or
        more. Then, where it was computed, the same of membership.
        """
        names, rest_known, after, before, _ = _judged(found)
        flags = self.discloses(after, before)
        with np.errstate(invalid="ignore"):
            counted = flags | ((after < self.probability) & (before < self.probability))
        risk = np.where(np.isnan(after) & flags, 1.0, np.where(counted, after, 0.0))
        worst = np.argmax(risk, axis=1)
        verdict = {
            "disclosed": np.any(flags, axis=1),
            "risk": risk[np.arange(len(risk)), worst],
            "riskiest": np.asarray(names)[worst],
        }
        if rest_known.any():
            verdict["adversary"] = np.where(rest_known, ALL_BUT_ONE, WHOLE_RECORD)[worst]
        if MEMBERSHIP in found:
            verdict[MEMBERSHIP] = found[MEMBERSHIP]
            verdict["membership_disclosed"] = self.discloses_membership(found[MEMBERSHIP])
        return verdict


USUAL = Rule()
WHOLE_RECORD, ALL_BUT_ONE = "lacks the record", "knows the rest"  # the adversaries of whom a risk table tells


@dataclass(frozen=True, eq=False)
class Known(Intervals):
    """The interval within which each value counts as known.

    others: the others' mean, on the scale of the model, of a person who is far from it and whose interval ends
    half-way to it; NaN of everybody else. rest_known: the same where all other values of the person are known, and
    `spread`, each column's standard deviation.
    """

    others: Float[np.ndarray, "n p"]
    rest_known: Nearness
    spread: Float[np.ndarray, " p"]

    def of(self, rows: Int[np.ndarray, " m"]) -> "Known":
        """Return the intervals of some records."""
        every = np.arange(self.low.shape[1])
        alone = self.rest_known.take(rows, every)
        functions = None if self.functions is None else self.functions.take(rows)
        return Known(self.low[rows], self.high[rows], self.others[rows], alone, self.spread, functions=functions)


def judged_columns(found: Mapping[str, np.ndarray], prefix: str = "") -> list[str]:
    """Return the columns, measurements and categories, that were judged; prefix: where the rest is known."""
    start = prefix + BASELINE
    names = (name.removeprefix(start) for name in found if name.startswith(start))
    return [name for name in names if prefix + PROBABILITY + name in found]


def _judged(
    found: Mapping[str, np.ndarray],
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return what was judged: the column of each value, whether all else was known, and probabilities (n, f).

    With the release, without it, and standard errors.
    """
    values = [(prefix, name) for prefix in ("", REST_KNOWN) for name in judged_columns(found, prefix)]
    nothing = np.zeros(len(next(iter(found.values()))))
    after, before, error = (
        np.stack([found.get(prefix + kind + name, nothing) for prefix, name in values], axis=1)
        for kind in (PROBABILITY, BASELINE, ERROR)
    )
    rest_known = np.array([prefix == REST_KNOWN for prefix, _ in values])
    return tuple(name for _, name in values), rest_known, after, before, error


def near_truth(
    records: Records,
    elsewhere: Moments | None = None,
    *,
    whole: Moments | None = None,
    rows: Int[np.ndarray, " m"] | slice = slice(None),
) -> Known:
    """Return the interval, on the scale of the model, within which each value counts as known.

    A declared tolerance is that and no other. Without one it is a quarter of the column's standard deviation, and
    at least half of the person's own distance from the others' mean. Of a column that is not secret any value
    counts as known, with the release and without it: nothing is left to disclose.
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
    usual = USUAL_TOLERANCE * spread
    others = np.where(reach >= HALFWAY * FAR * spread, (n * middle - values) / (n - 1), np.nan)
    low, high = values - np.maximum(reach, usual), values + np.maximum(reach, usual)
    least = Intervals(values - usual, values + usual)
    natural = records.schema.to_natural(values)
    for place, column in enumerate(records.schema.measurements):
        if column.tolerance is not None or not column.secret:
            low[:, place], high[:, place] = _ends_on_scale(records.schema, place, natural)
            least.low[:, place], least.high[:, place] = low[:, place], high[:, place]
            others[:, place] = np.nan
    stretches = np.array(
        [column.tolerance is None and column.secret for column in records.schema.measurements], dtype=bool
    )
    return Known(low, high, others, Nearness(least, stretches), spread)


def _ends_on_scale(schema: Schema, place: int, natural: Float[np.ndarray, "n p"]) -> tuple[np.ndarray, np.ndarray]:
    """Bring the ends of the declared tolerance to the scale of the model; infinite where the scale ends before."""
    column = schema.measurements[place]
    if not column.secret or column.tolerance is None:
        missing = np.isnan(natural[:, place])
        return np.where(missing, np.nan, -np.inf), np.where(missing, np.nan, np.inf)
    ends = [schema.one_to_model(place, natural[:, place] + side * column.tolerance, natural) for side in (-1, 1)]
    return np.minimum(*ends), np.maximum(*ends)  # below another column the gap falls as the value rises


MEASURED = ("probability", "probability_error", "baseline", "low", "high", "expected")
Levels = dict[str, tuple[np.ndarray, ...]]  # by category: probability of the own level, its error, without release


@dataclass(frozen=True, eq=False)
class Beliefs:
    """How well one adversary knows each value of n people; NaN of what is known, or missing anyway.

    `probability` of each measurement's interval, its error, and the `baseline` without the release. levels: for
    each category that is judged the probability of the own level, its error, and that without the release.
    low, high, expected: of who knows the rest, what counts as knowing a value, and what the rest lets expect.
    """

    probability: Float[np.ndarray, "n p"]
    probability_error: Float[np.ndarray, "n p"]
    baseline: Float[np.ndarray, "n p"]
    levels: Levels
    low: Float[np.ndarray, "n p"] | None = None
    high: Float[np.ndarray, "n p"] | None = None
    expected: Float[np.ndarray, "n p"] | None = None

    @classmethod
    def of_values(cls, values: ValueBeliefs, levels: Levels) -> "Beliefs":
        """Return those of who knows the rest of each record."""
        ends = values.near.low, values.near.high
        return cls(values.probability, values.error, values.baseline, levels, *ends, values.expected)

    @classmethod
    def nothing(cls, shape: tuple[int, ...], categories: Sequence[str] = ()) -> "Beliefs":
        """Return what is known before anybody was attacked."""
        levels = {name: tuple(np.full(shape[0], np.nan) for _ in range(3)) for name in categories}
        one, two, three, *rest = (np.full(shape, np.nan) for _ in range(6))
        return cls(one, two, three, levels, *rest)

    def of(self, rows: Int[np.ndarray, " m"]) -> "Beliefs":
        """Return those of some people."""
        levels = {name: tuple(each[rows] for each in level) for name, level in self.levels.items()}
        numbers: dict[str, Any] = {name: getattr(self, name) for name in MEASURED}
        some: dict[str, Any] = {name: None if each is None else each[rows] for name, each in numbers.items()}
        return replace(self, levels=levels, **some)

    @property
    def near_others(self) -> "Beliefs":
        """Return them as of who knows some columns: near is near by the others' mean, as of who knows none."""
        return replace(self, low=None, high=None, expected=None)

    def without_level(self, name: str) -> "Beliefs":
        """Return them without what is judged under this name."""
        return replace(self, levels={each: level for each, level in self.levels.items() if each != name})

    def put(
        self, rows: Int[np.ndarray, " b"], places: Sequence[int] | Int[np.ndarray, " q"], found: "Beliefs"
    ) -> None:
        """Write what is known of some people, in some of their measurements and in all categories."""
        here = np.ix_(rows, np.asarray(places, dtype=int))
        for name in MEASURED:
            if getattr(found, name) is not None:
                getattr(self, name)[here] = getattr(found, name)
        for name, level in found.levels.items():
            for whole, part in zip(self.levels[name], level, strict=True):
                whole[rows] = part

    def columns(
        self, order: Sequence[str], measurements: Sequence[str], prefix: str = ""
    ) -> dict[str, Float[np.ndarray, " n"]]:
        """Return them as columns of a risk table; `order`: of the measurements in the arrays."""
        columns: dict[str, Float[np.ndarray, " n"]] = {}
        for name in measurements:
            place = order.index(name)
            columns[prefix + PROBABILITY + name] = self.probability[:, place]
            columns[prefix + BASELINE + name] = self.baseline[:, place]
            columns[prefix + ERROR + name] = self.probability_error[:, place]
        for name, (probability, error, baseline) in self.levels.items():
            columns[prefix + PROBABILITY + name] = probability
            columns[prefix + BASELINE + name] = baseline
            columns[prefix + ERROR + name] = error
        return columns


def belief_columns(
    records: Records, near: Known, beliefs: Beliefs, names: Sequence[str], prefix: str = ""
) -> dict[str, np.ndarray]:
    """Return the columns that tell how well each value is known, of these measurements with their tolerances."""
    known = tolerances(records, near, beliefs if prefix else None)
    columns = beliefs.columns(records.columns, names, prefix)
    found: dict[str, np.ndarray] = {}
    for name in names:
        found |= {
            each: columns.pop(each) for each in (prefix + kind + name for kind in (PROBABILITY, BASELINE, ERROR))
        }
        found |= {prefix + kind + name: known[kind + name] for kind in (TOLERANCE, BEYOND, OTHERS)}
    return found | columns


def require_secret(schema: Schema, known: Container[str]) -> None:
    """Refuse a table of which nothing is secret that the adversary does not know."""
    every, told = (
        (*schema.columns, *schema.derived),
        {column.name for column in schema.columns if column.name in known},
    )
    for column in schema.derived:  # who knows the parts knows what is computed from them
        told |= {column.name} if column.name in known or told.issuperset(column.formula.columns) else set()
    if not [column.name for column in every if column.secret and column.name not in told]:
        raise InputError(
            "nothing is secret that the adversary does not know",
            Cure("name a column that is", "secret"),
            "declare fewer columns as not secret",
        )


def require_free_names(names: Sequence[str]) -> None:
    """Refuse columns whose risk would be told under a name that another has, before anyone is attacked."""
    taken = {"baseline_distance"}
    for name in names:
        own = (PROBABILITY, BASELINE, ERROR, TOLERANCE, BEYOND, OTHERS)
        for prefix in (*own, *(REST_KNOWN + each for each in own)):
            if prefix + name in taken:
                raise InputError(
                    f"the risk of the column {name!r} would need the name {prefix + name!r} twice",
                    "give the column another name",
                )
            taken.add(prefix + name)


def with_verdicts(records: Records, rule: Rule | None, *parts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Put the columns of a risk table together, each person's verdict first."""
    found = {name: column for part in parts for name, column in part.items()}
    return {**records.named, **(rule or Rule()).judge(found), **found}


def tolerances(
    records: Records, near: Known, beliefs: Beliefs | None = None
) -> dict[str, Float[np.ndarray, " n"]]:
    """Return for each value how far off, in natural units, a guess still counts as right.

    And of people far out, half-way to the others, beyond which they are known to be, and the others' mean; with
    `beliefs` of who knows the rest, half-way to what that lets expect, and that.
    """
    natural, found, low_end, high_end, middle = records.natural, {}, near.low, near.high, near.others
    if (
        beliefs is not None
        and beliefs.low is not None
        and beliefs.high is not None
        and beliefs.expected is not None
    ):
        low_end, high_end = beliefs.low, beliefs.high
        far = np.abs(records.values - beliefs.expected) >= FAR * near.spread
        middle = np.where(far & near.rest_known.stretches, beliefs.expected, np.nan)
    for place, column in enumerate(records.schema.measurements):
        lowest, highest, _ = column.scale.domain if column.order is None else (-np.inf, np.inf, True)
        ends = [records.schema.one_to_natural(place, each[:, place], natural) for each in (low_end, high_end)]
        low, high = np.maximum(np.minimum(*ends), lowest), np.minimum(np.maximum(*ends), highest)
        found[TOLERANCE + column.name] = np.maximum(natural[:, place] - low, high - natural[:, place])
        others = records.schema.one_to_natural(place, middle[:, place], natural)
        inner = np.where(others > natural[:, place], high, low)
        found[BEYOND + column.name] = np.where(np.isnan(others), np.nan, inner)
        found[OTHERS + column.name] = others
    return found


# Every value of every person under the one rule: which are disclosed, and which come closest to it.
#
# Whoever names a record, in a sentence, a figure or a table, takes it from the order that is defined here.


UNSURE = 2.0  # standard errors within which a probability cannot be told from its limit
DIGITS = 9  # beyond which two numbers count as the same, so that no rounding decides who is named


@dataclass(frozen=True)
class JudgedPeople:
    """How many people were judged, and of how many a value is `disclosed`, to whichever adversary.

    lacking_record, knowing_rest: to whom; the second is None where nobody was taken to know the rest. members: of
    how many it is disclosed that they are in the table; affected: of how many that, or a value. undecided: who is
    at the limit, within the error of the integrals.
    """

    people: int
    disclosed: int
    undecided: int = 0
    lacking_record: int = 0
    knowing_rest: int | None = None
    members: int = 0
    affected: int = 0

    @classmethod
    def of(cls, found: Mapping[str, np.ndarray], rule: Rule) -> "JudgedPeople":
        """Count them in a risk table."""
        told = ToldValues.of(found, rule)
        alone, rest = (told.disclosed[:, told.rest_known == known] for known in (False, True))
        disclosed, members = told.disclosed.any(axis=1), np.zeros(len(told.after), dtype=bool)
        if MEMBERSHIP in found:
            members = rule.discloses_membership(found[MEMBERSHIP])
        return cls(
            len(told.after),
            int(np.sum(disclosed)),
            int(np.sum(told.undecided)),
            int(np.sum(alone.any(axis=1))),
            int(np.sum(rest.any(axis=1))) if told.rest_known.any() else None,
            int(np.sum(members)),
            int(np.sum(disclosed | members)),
        )

    def plus(self, more: "JudgedPeople") -> "JudgedPeople":
        """Count further people in."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        further = {name: getattr(more, name) for name in counts}
        return JudgedPeople(**{
            name: further[name] if count is None else count + (further[name] or 0)
            for name, count in counts.items()
        })  # fmt: skip


def names_of_people(found: Mapping[str, np.ndarray]) -> tuple[str, np.ndarray]:
    """Return what each person is known by, after the word for it: a name, a record's key, or else a row."""
    if "person" in found:
        return "person", found["person"]
    return ("record", found["key"]) if "key" in found else ("row", found["row"])


@dataclass(frozen=True, eq=False)
class ToldValues:
    """How well each value of each person is known, with the release and without, and what the rule says of it.

    A column stands twice where it was judged against two adversaries; rest_known: those to whom all else is known.
    closeness: how much of the way to being disclosed the release went, (after − before)/(needed − before), where
    `needed` is the probability at which the rule calls a value disclosed; missing where there is nothing to find.
    at_limit: whether the probability is `needed`, as far as the error of its integral, or of its draws, can tell.
    """

    names: tuple[str, ...]
    rest_known: Bool[np.ndarray, " f"]
    after: Float[np.ndarray, "n f"]
    before: Float[np.ndarray, "n f"]
    disclosed: Bool[np.ndarray, "n f"]
    closeness: Float[np.ndarray, "n f"]
    at_limit: Bool[np.ndarray, "n f"]

    @classmethod
    def of(cls, found: Mapping[str, np.ndarray], rule: Rule) -> "ToldValues":
        """Judge the columns of a risk table."""
        names, rest_known, after, before, errors = _judged(found)
        needed = rule.needed(before)
        with np.errstate(invalid="ignore"):  # what could not be computed counts as disclosed, and so it is said
            at_limit = (errors > 0) & (np.abs(after - needed) <= UNSURE * errors)
        closeness = (after - before) / (needed - before)
        return cls(names, rest_known, after, before, rule.discloses(after, before), closeness, at_limit)

    @property
    def undecided(self) -> Bool[np.ndarray, " n"]:
        """Of whom other random points may decide otherwise: at a limit, and clearly beyond none."""
        return self.at_limit.any(axis=1) & ~(self.disclosed & ~self.at_limit).any(axis=1)

    @property
    def surest(self) -> tuple[Int[np.ndarray, " v"], Int[np.ndarray, " v"]]:
        """The places and columns of the disclosed values, the surest first; each once, to whom it is surest."""
        places, columns = np.nonzero(self.disclosed)
        order = np.lexsort([-key[places, columns] for key in self._keys])
        places, columns = places[order], columns[order]
        names = np.unique(self.names, return_inverse=True)[1][columns]
        _, first = np.unique(np.stack([places, names]), axis=1, return_index=True)
        return places[np.sort(first)], columns[np.sort(first)]

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


def discloses_anybody(found: Mapping[str, np.ndarray]) -> bool:
    """Say whether a value of anybody, or anybody's membership, is disclosed by the verdicts of a risk table."""
    return bool(np.any(found["disclosed"]) or np.any(found.get("membership_disclosed", False)))


def by_membership(found: Mapping[str, np.ndarray]) -> Int[np.ndarray, " n"]:
    """Return the places of people, whose membership is surest first; what could not be computed before that."""
    surely = np.where(np.isnan(found[MEMBERSHIP]), 2.0, found[MEMBERSHIP])
    evidence = np.nan_to_num(found.get("membership_evidence", surely), nan=0.0)
    return np.lexsort([-evidence.round(DIGITS), -surely.round(DIGITS)])
