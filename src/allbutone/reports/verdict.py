"""The verdict of the one rule in a board's words: may it be given out; whose values, which, how sure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allbutone.disclosure.rule import BEYOND, ERROR, OTHERS, TOLERANCE, JudgedPeople, Rule, ToldValues, called
from allbutone.disclosure.simulated_budget import Luck
from allbutone.support.text import chance, counted, joined, listed, number

NAMED = 5  # rows that a sentence names
NOTICED = 0.005  # half a per cent: a smaller rise is none that a person would notice
PASSING = "who gives out only what happened to pass tells by that, too."
BY_LUCK = f"That this one discloses nobody is luck; and {PASSING}"
BY_RISK = f"That this one discloses nobody does not make as much safe; and {PASSING}"
BY_CAUTION = (
    "That this one discloses nobody need not be luck: hardly any simulated release of as much did. But a budget "
    f"holds by the closed form, too; and {PASSING}"
)
UNTOLD = "Let it run to its end before this is given out: whether as much is safe is not known."
UNSURE, MOST_UNSURE = 3.0, 0.02  # standard errors within which a probability counts as unchanged, if small


@dataclass(frozen=True)
class Value:
    """One person's value in one column: how well it is known with the release, and without it.

    `tolerance` is how far off a guess may be, in the column's own units; None for a category. `beyond` and
    `others`, of people far out: half-way to the others, and the others' mean. `key`: what a key column calls the
    person. `at_limit`: whether the error of the integral leaves open on which side of the limit it is.
    """

    row: int
    column: str
    after: float
    before: float
    error: float
    tolerance: float | None
    disclosed: bool
    key: str | None = None
    beyond: float | None = None
    others: float | None = None
    at_limit: bool = False

    @property
    def person(self) -> str:
        """Whose it is: by the key where the table has one, by the row otherwise."""
        return f"row {self.row:,}" if self.key is None else f"record {self.key}"

    @property
    def is_unchanged(self) -> bool:
        """Whether the adversary knows it no better than without the release, as far as can be told."""
        return self.after - self.before <= max(min(UNSURE * self.error, MOST_UNSURE), NOTICED)

    @property
    def seems_worse(self) -> bool:
        """Whether it is better known by the numbers that are shown."""
        return self.after > self.before and chance(self.after) != chance(self.before)

    @property
    def within(self) -> str:
        """How near a guess must come, for a table: ±2.5, or of people far out under 63 (others: 87)."""
        if self.tolerance is None:
            return "–"
        if self.beyond is None or self.others is None:
            return f"±{number(self.tolerance)}"
        side = "under" if self.beyond < self.others else "over"
        return f"{side} {number(self.beyond)} (others: {number(self.others)})"

    @property
    def known(self) -> str:
        """What somebody can say of it, in words that go on after `somebody who knows everybody else`."""
        if self.tolerance is None:
            return "can say it"
        if self.beyond is None or self.others is None:
            return f"can say it to within ±{number(self.tolerance)}"
        far, side = ("below", "under") if self.beyond < self.others else ("above", "over")
        return (
            f"can say that it is far {far} the others ({side} {number(self.beyond)}, where their mean is "
            f"{number(self.others)})"
        )

    @property
    def sentence(self) -> str:
        """What somebody who knows everybody else can say of it; it goes on from a colon."""
        whose = f"the {self.column} of {self.person}"
        if np.isnan(self.after):
            return f"{whose}: what the release tells of it could not be computed, so it counts as disclosed"
        words = (
            f"{whose}: somebody who knows everybody else {self.known} with a probability of {chance(self.after)}"
        )
        if self.is_unchanged:
            more = (
                f"hardly more than the {chance(self.before)} it would be" if self.seems_worse else "not worse than"
            )
            return f"{words}, which is {more} without the release"
        return f"{words}; without the release it would be {chance(self.before)}"

    @property
    def verdict(self) -> str:
        """One word or two, for a table."""
        if np.isnan(self.after):
            return "not computed: counts as disclosed"
        if self.at_limit:
            return f"{'disclosed' if self.disclosed else 'not disclosed'}: at the limit, within the error"
        if self.disclosed:
            return "disclosed"
        if not self.is_unchanged:
            return "not disclosed"
        return f"{'hardly' if self.seems_worse else 'not'} worse than without the release"


@dataclass(frozen=True)
class Verdict:
    """What the rule says of everything that was released of a table.

    `people`: how many are in it; `disclosed`: the values that are, the surest first; `nearest`: the value that
    comes closest to it where none is. `persons`: of how many people values are disclosed, where not all of them
    are listed. `luck`: where as much as this is more than the budget allows, how often it discloses somebody.
    `at_limit`: how many people are at the limit, within the error of the integrals.
    """

    rule: Rule
    people: int
    disclosed: tuple[Value, ...]
    nearest: Value
    persons: int | None = None
    luck: Luck | None = None
    at_limit: int = 0

    @property
    def passed(self) -> bool:
        """Whether the release, as it was drawn, discloses nothing of anybody."""
        return not self.disclosed

    @property
    def may_go_out(self) -> bool:
        """Whether it may be given out: it discloses nobody, and not by luck. Rule and budget are one decision."""
        return self.passed and self.luck is None

    @property
    def mark(self) -> str:
        """The decision as a sign."""
        return "✔" if self.may_go_out else "!" if self.passed else "✘"

    @property
    def standing(self) -> str:
        """The decision as a word, by which pages colour it."""
        return "for" if self.may_go_out else "luck" if self.passed else "against"

    @property
    def rows(self) -> list[int]:
        """The rows of the people of whom a value is disclosed, the surest first."""
        return list(dict.fromkeys(value.row for value in self.disclosed))

    @property
    def headline(self) -> str:
        """The decision in one sentence."""
        if self.passed and self.luck:
            return (
                f"It passes, but {self.luck.in_words}: it is more than the budget allows, and should not be given "
                "out"
            )
        if self.passed:
            return f"By the rule this may be given out: it discloses no value of any of {self.people:,} people"
        persons = f"{self.persons or len(self.rows):,} of {self.people:,} people"
        return f"By the rule this should not be given out: it discloses values of {persons}"

    @property
    def remark(self) -> str:
        """What to think of a release that passes beyond its budget; nothing of others."""
        if not (self.passed and self.luck):
            return ""
        if self.luck.cut_short:
            return UNTOLD
        if self.luck.is_caution:
            return BY_CAUTION
        return BY_LUCK if self.luck.share > 0.5 else BY_RISK

    @property
    def who(self) -> str:
        """Which people, and which of their values."""
        if self.passed:
            return "Nobody."
        columns: dict[str, list[str]] = {}
        for one in self.disclosed:
            columns.setdefault(one.person, []).append(one.column)
        named = [f"{person} ({listed(of, NAMED)})" for person, of in list(columns.items())[:NAMED]]
        if (persons := self.persons or len(columns)) > NAMED:
            named.append(f"{counted(persons - NAMED, 'other')}")
        words = joined(named)
        return f"{words[0].upper()}{words[1:]}."

    @property
    def how_sure(self) -> str:
        """The surest of them, or what comes nearest, with the release beside without."""
        if self.passed:
            first = f"The closest call is {self.nearest.sentence}."
        else:
            first = f"The surest is {self.disclosed[0].sentence}."
        if not self.at_limit:
            return first
        people = "One person is" if self.at_limit == 1 else f"{self.at_limit:,} people are"
        return f"{first} {people} at the limit, within the error of the integral: other random points may differ."

    @property
    def sentence(self) -> str:
        """All of it, to be read aloud."""
        middle = f" {self.who}" if not self.passed else f" {self.remark}" if self.remark else ""
        return f"{self.headline}.{middle} {self.how_sure}"


def verdict_of(
    found: Mapping[str, np.ndarray], rule: Rule, among: JudgedPeople | None = None, luck: Luck | None = None
) -> Verdict:
    """Judge the columns of a risk table, or of the worst `among` so many people; `luck` as a budget has it."""
    told = ToldValues.of(found, rule)
    disclosed = [_value(found, told, *place) for place in zip(*told.surest, strict=True)]
    first = told.order[0]
    nearest = _value(found, told, first, told.worst[first])
    persons = among.disclosed if among else None
    judged = among or JudgedPeople(len(found["row"]), 0, int(np.sum(told.undecided)))
    return Verdict(rule, judged.people, tuple(disclosed), nearest, persons, luck, judged.undecided)


def values_of(found: Mapping[str, np.ndarray], rule: Rule, most: int) -> list[Value]:
    """Return the disclosed values, the surest first; then everybody else's that comes closest to it."""
    told = ToldValues.of(found, rule)
    chosen = list(zip(*told.surest, strict=True))[:most]
    others = told.order[np.sum(told.disclosed.any(axis=1)) :][: most - len(chosen)]
    chosen += zip(others, told.worst[others], strict=True)
    return [_value(found, told, *place) for place in chosen]


def _value(
    found: Mapping[str, np.ndarray], told: ToldValues, place: int | np.integer, column: int | np.integer
) -> Value:
    name, (word, keys) = told.names[column], called(found)

    def number_of(prefix: str) -> float | None:
        value = float(found[prefix + name][place]) if prefix + name in found else np.nan
        return None if np.isnan(value) else value

    return Value(
        int(found["row"][place]),
        name,
        float(told.after[place, column]),
        float(told.before[place, column]),
        number_of(ERROR) or 0.0,
        number_of(TOLERANCE),
        bool(told.disclosed[place, column]),
        str(keys[place]) if word == "record" else None,
        number_of(BEYOND),
        number_of(OTHERS),
        bool(told.at_limit[place, column]),
    )


def told_of(values: Sequence[Value]) -> list[dict[str, object]]:
    """Return values as lines of a table."""
    return [
        {
            **({"row": value.row} if value.key is None else {"record": value.key}),
            "column": value.column,
            "within": value.within,
            "with the release": chance(value.after),
            "without it": chance(value.before),
            "verdict": value.verdict,
        }
        for value in values
    ]
