"""The verdict of the one rule in a board's words: may it be given out; whose values, which, how sure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allbutone.disclosure.rule import (
    ALL_BUT_ONE,
    BEYOND,
    ERROR,
    MEMBERSHIP,
    OTHERS,
    REST_KNOWN,
    TOLERANCE,
    WHOLE_RECORD,
    JudgedPeople,
    Rule,
    ToldValues,
    by_membership,
    names_of_people,
)
from allbutone.disclosure.simulated_budget import Luck
from allbutone.support.text import ShowsItself, chance, counted, joined, listed, number
from allbutone.tables.dates import Calendar
from allbutone.tables.schema import Schema

ADVERSARY = "somebody who knows everybody else"
NAMED = 5  # rows that a sentence names
NOTICED = 0.005  # half a per cent: a smaller rise is none that a person would notice
PASSING = "to give out only what happens to pass tells the adversary something of its own."
BY_LUCK = f"That this one discloses nobody is luck; and {PASSING}"
BY_RISK = f"That this one discloses nobody does not make as much safe; and {PASSING}"
BY_CAUTION = (
    "That this one discloses nobody need not be luck: hardly any simulated release of as much did. But a budget "
    f"holds by the closed form, too; and {PASSING}"
)
CHOSEN = (
    "Whether it is within the budget is not known here; beyond it what was drawn until it passed tells more than "
    "is computed: values of which it would have failed are excluded. Plan the budget first, and draw once."
)
UNTOLD = "Let it run to its end before this is given out: whether as much is safe is not known."
NOT_COMPARED = "whether as much is safe, a budget and the report tell"
POOLED = "whether as much is safe no budget tells of pooled moments"
ONE_ALONE = "the verdict is against who knows nothing of a person, and who knows all but one value"
UNSURE, MOST_UNSURE = 3.0, 0.02  # standard errors within which a probability counts as unchanged, if small


NOTHING = Schema()  # declared


@dataclass(frozen=True)
class Value:
    """One person's value in one column: how well it is known with the release, and without it.

    `tolerance` is how far off a guess may be, in the column's own units; None for a category. `beyond` and
    `others`, of people far out: half-way to the others, and the others' mean, or to what the rest of the person
    lets expect, and that. `key`: what the table calls the person, after the word for it. `at_limit`: whether the
    error of the integral leaves open on which side of the limit it is. `rest_known`: whether it is known to
    somebody who knows all else of the person, or what is declared that people outside can know, `outside`; None
    where there is one adversary alone. `calendar`: of a date, how it counts.
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
    rest_known: bool | None = None
    outside: tuple[str, ...] = ()
    calendar: Calendar | None = None

    @property
    def person(self) -> str:
        """Whose it is: by the key where the table has one, by the row otherwise."""
        return _person(self.row, self.key)

    @property
    def adversary(self) -> str:
        """To whom it is known, for a table: as in risk.csv."""
        if self.rest_known and self.outside:
            return f"knows {listed(self.outside, NAMED)}"
        return ALL_BUT_ONE if self.rest_known else WHOLE_RECORD

    @property
    def somebody(self) -> str:
        """To whom it is known, in a sentence."""
        return f"{ADVERSARY} and {_rest(self.outside)} of {self.person}" if self.rest_known else ADVERSARY

    @property
    def _is_far_from_expected(self) -> bool:
        """Whether it is far from what the rest of the person lets expect, and not from the others' mean."""
        return bool(self.rest_known) and not self.outside

    @property
    def is_unchanged(self) -> bool:
        """Whether the adversary knows it no better than without the release, as far as can be told."""
        return self.after - self.before <= max(min(UNSURE * self.error, MOST_UNSURE), NOTICED)

    @property
    def seems_worse(self) -> bool:
        """Whether it is better known by the numbers that are shown."""
        return self.after > self.before and chance(self.after) != chance(self.before)

    def _shown(self, value: float) -> str:
        return number(value) if self.calendar is None else self.calendar.text(value)

    @property
    def _near(self) -> str:
        """How far off a guess may be, in words: ±2.5, or 30 days."""
        assert self.tolerance is not None
        return f"±{number(self.tolerance)}" if self.calendar is None else self.calendar.span(self.tolerance)

    @property
    def within(self) -> str:
        """How near a guess must come, for a table: ±2.5, or of people far out under 63 (others: 87)."""
        if self.tolerance is None:
            return "–"
        if self.beyond is None or self.others is None:
            return self._near
        side = "under" if self.beyond < self.others else "over"
        middle = "expected" if self._is_far_from_expected else "others"
        return f"{side} {self._shown(self.beyond)} ({middle}: {self._shown(self.others)})"

    @property
    def known(self) -> str:
        """What the adversary can say of it, in words that go on after who that is."""
        if self.tolerance is None:
            return "can say it"
        if self.beyond is None or self.others is None:
            return f"can say it to within {self._near}"
        far, side = ("below", "under") if self.beyond < self.others else ("above", "over")
        whom, mean = "the others", f"where their mean is {self._shown(self.others)}"
        if self._is_far_from_expected:
            whom, mean = "what the rest lets expect", f"where {self._shown(self.others)} would be expected"
        return f"can say that it is far {far} {whom} ({side} {self._shown(self.beyond)}, {mean})"

    @property
    def sentence(self) -> str:
        """What the adversary can say of it; it goes on from a colon."""
        whose = f"the {self.column} of {self.person}"
        if np.isnan(self.after):
            return f"{whose}: what the release tells of it could not be computed, so it counts as disclosed"
        words = f"{whose}: {self.somebody} {self.known} with a probability of {chance(self.after)}"
        if not self.is_unchanged:
            return f"{words}; without the release it would be {chance(self.before)}"
        more = f"hardly more than the {chance(self.before)} it would be" if self.seems_worse else "not worse than"
        return f"{words}, which is {more} without the release"

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


def _person(row: int, key: str | None) -> str:
    """Say who somebody is: by the key where the table has one, by the row otherwise."""
    return f"row {row:,}" if key is None else key


def _rest(outside: Sequence[str]) -> str:
    """Say what the second adversary knows of a person: all else, or what is declared that people outside can."""
    return f"the {joined(outside)}" if outside else "all else"


@dataclass(frozen=True)
class Member:
    """How sure somebody who has a person's record becomes that the person is in the table."""

    row: int
    probability: float
    key: str | None = None

    @property
    def person(self) -> str:
        """Who it is."""
        return _person(self.row, self.key)


@dataclass(frozen=True, repr=False)
class Verdict(ShowsItself):
    """What the rule says of everything that was released of a table.

    `judged`: how many people there are, and of how many something is disclosed, to whom. `disclosed`: the values
    that are, the surest first; `nearest`: the value that comes closest to it where none is. `members`: the people
    whose membership is disclosed, the surest first, or the one who comes closest to it; none where membership was
    not judged. `luck`: where as much as this is more than the budget allows, how often it discloses somebody.
    `outside`: what is declared that people outside can know, if that is. `attempts`: how many releases were drawn
    before it, judged and not given out, where it is not known to be within the budget. `only`: what the one
    adversary knows of everybody against whom it was judged, where that is one alone. `left_open`: what a
    decision takes besides; "" where nothing, and only then a release that passes may go out.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> verdict = abo.risk(cohort, release, mass=False).verdict
    >>> verdict.people, verdict.rule.probability
    (503, 0.5)
    """

    rule: Rule
    judged: JudgedPeople
    disclosed: tuple[Value, ...]
    nearest: Value
    members: tuple[Member, ...] = ()
    luck: Luck | None = None
    outside: tuple[str, ...] = ()
    attempts: int = 0
    schema: Schema = NOTHING
    only: tuple[str, ...] | None = None
    left_open: str = ""

    @property
    def people(self) -> int:
        """How many people were judged."""
        return self.judged.people

    @property
    def at_limit(self) -> int:
        """How many people are at the limit, within the error of the integrals."""
        return self.judged.undecided

    @property
    def passed(self) -> bool:
        """Whether the release, as it was drawn, discloses no value of anybody, and nobody's membership."""
        return not self.disclosed and not self.judged.members

    @property
    def may_go_out(self) -> bool:
        """Whether it may be given out: it discloses nobody, not by luck, and it was not chosen for that."""
        return self.passed and self.luck is None and not self.attempts and not self.left_open

    @property
    def mark(self) -> str:
        """The decision as a sign; none where there is no decision yet."""
        if not self.passed:
            return "✘"
        return "✔" if self.may_go_out else "!" if self.luck or self.attempts else ""

    @property
    def standing(self) -> str:
        """The decision as a word, by which pages colour it."""
        return {"✔": "for", "!": "luck", "✘": "against", "": "open"}[self.mark]

    @property
    def rows(self) -> list[int]:
        """The rows of the people of whom a value is disclosed, the surest first."""
        return list(dict.fromkeys(value.row for value in self.disclosed))

    @property
    def headline(self) -> str:
        """The decision in one sentence."""
        if self.passed and self.luck:
            more = "it is more than the budget allows, and should not be given out"
            return f"It passes, but {self.luck.in_words}: {more}"
        if self.passed and self.attempts:
            return f"It passes, but it is attempt {self.attempts + 1}, and may have been chosen for that"
        nothing = f"no value of any of {self.people:,} people{', and nobody’s membership' * bool(self.members)}"
        if self.passed and self.left_open:
            return f"As it was drawn it discloses {nothing}{self._to_whom}; {self.left_open}"
        if self.passed:
            return f"By the rule this may be given out: it discloses {nothing}"
        return f"By the rule this should not be given out: it discloses {self._what}{self._to_whom}"

    @property
    def _to_whom(self) -> str:
        """Against whom it was judged, where that was one adversary alone."""
        if self.only is None:
            return ""
        knowing = f"everybody’s {joined(self.only)}" if self.only else "nothing of the person"
        return f", to somebody who knows {knowing}"

    @property
    def _what(self) -> str:
        """What is disclosed of how many people, and to whom."""
        judged, everybody = self.judged, f"of {self.people:,} people"
        if not self.disclosed:
            return f"the membership of {judged.members:,} {everybody}"
        words = f"{'a value' if judged.disclosed == 1 else 'values'} of {judged.disclosed:,} {everybody}"
        if judged.knowing_rest is not None:
            counts = (judged.lacking_record or 0, judged.knowing_rest)
            whom = "them" if judged.disclosed > 1 else "the person"
            knowing = (f"nothing of {whom}", f"{_rest(self.outside)} of {whom}")
            to = [(count, f"to somebody who knows {known}") for count, known in zip(counts, knowing, strict=True)]
            if 0 in counts:  # one adversary finds all of them
                words += f", {max(to)[1]}"
            else:
                words += f", of {counts[0]:,} {to[0][1]}, of {counts[1]:,} {to[1][1]}"
        return words + f", and the membership of {judged.members:,}" * bool(judged.members)

    @property
    def remark(self) -> str:
        """What to think of a release that passes beyond its budget, or was chosen; nothing of others."""
        if not (self.passed and self.luck):
            return CHOSEN if self.passed and self.attempts else ""
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
        for member in self.members[: self.judged.members]:
            columns.setdefault(member.person, []).append(MEMBERSHIP)
        named = [f"{person} ({listed(of, NAMED)})" for person, of in list(columns.items())[:NAMED]]
        if self.judged.affected > NAMED:  # where a table holds the worst of very many, not all of them are listed
            named.append(f"{counted(self.judged.affected - NAMED, 'other')}")
        words = joined(named)
        return f"{words[0].upper()}{words[1:]}."

    @property
    def how_sure(self) -> str:
        """The surest of them, or what comes nearest, with the release beside without."""
        first = f"The closest call is {self.nearest.sentence}."
        if self.disclosed:
            first = f"The surest is {self.disclosed[0].sentence}."
        if not self.at_limit:
            return first
        people = "One person is" if self.at_limit == 1 else f"{self.at_limit:,} people are"
        return f"{first} {people} at the limit, within the error of the integral: other random points may differ."

    @property
    def membership(self) -> str:
        """Whose membership is disclosed, or comes closest to it, and how surely; "" where it is not judged."""
        if not self.members:
            return ""
        first, *others = self.members
        before = self.rule.membership_odds / (1 + self.rule.membership_odds)
        if np.isnan(first.probability):
            words = f"whether {first.person} is in the table could not be computed, so it counts as disclosed"
        else:
            words = (
                f"somebody who has the record of {first.person}, and everybody else’s, becomes "
                f"{chance(first.probability)} sure that it is in the table, from {chance(before)} without the "
                "release"
            )
        if not self.judged.members:
            return f"Nobody’s is disclosed. The closest call: {words}."
        more = [f"{one.person} ({chance(one.probability)})" for one in others[: NAMED - 1]]
        if self.judged.members > NAMED:
            more.append(counted(self.judged.members - NAMED, "other"))
        also = f" And of {joined(more)}." if more else ""
        return f"{words[0].upper()}{words[1:]}.{also}"

    @property
    def rule_words(self) -> str:
        """The rule in full, and that of membership where it was judged."""
        judged = self.rule.in_full(self.outside, self.only)
        return f"{judged}{f' {self.rule.membership_in_words}' if self.members else ''}"

    @property
    def sentence(self) -> str:
        """All of it, to be read aloud."""
        middle = self.who if not self.passed else self.remark
        member = f"Membership: {self.membership}" if self.members else ""
        return " ".join(filter(None, [f"{self.headline}.", middle, self.how_sure, member]))


def verdict_of(
    risk: Mapping[str, np.ndarray],
    rule: Rule,
    among: JudgedPeople | None = None,
    luck: Luck | None = None,
    outside: Sequence[str] = (),
    schema: Schema = NOTHING,
) -> Verdict:
    """Judge the columns of a risk table, or of the worst `among` so many people; `luck` as a budget has it.

    outside: what the table declares that people outside can know of a person, where the second adversary does.
    schema: what is declared of the columns: which are dates, and what they are called in words.
    """
    told = ToldValues.of(risk, rule)
    disclosed = values_at(risk, told, *told.surest, outside, schema)
    first = told.order[:1]
    [nearest] = values_at(risk, told, first, told.worst[first], outside, schema)
    judged = among or JudgedPeople.of(risk, rule)
    return Verdict(
        rule,
        judged,
        tuple(disclosed),
        nearest,
        tuple(members_of(risk, rule)),
        luck,
        tuple(outside),
        schema=schema,
    )


def members_of(risk: Mapping[str, np.ndarray], rule: Rule) -> list[Member]:
    """Return the people whose membership is disclosed, the surest first, or the one who comes closest to it."""
    if MEMBERSHIP not in risk:
        return []
    most = max(1, int(np.sum(rule.discloses_membership(risk[MEMBERSHIP]))))
    word, keys = names_of_people(risk)
    return [
        Member(
            int(risk["row"][place]),
            float(risk[MEMBERSHIP][place]),
            f"{word} {keys[place]}" if word != "row" else None,
        )
        for place in by_membership(risk)[:most]
    ]


def values_of(
    risk: Mapping[str, np.ndarray],
    rule: Rule,
    most: int,
    outside: Sequence[str] = (),
    schema: Schema = NOTHING,
) -> list[Value]:
    """Return the disclosed values, the surest first; then everybody else's that comes closest to it."""
    told = ToldValues.of(risk, rule)
    others = told.order[np.sum(told.disclosed.any(axis=1)) :]
    chosen = zip(told.surest, (others, told.worst[others]), strict=True)
    places, columns = (np.concatenate(pair)[:most] for pair in chosen)
    return values_at(risk, told, places, columns, outside, schema)


def values_at(
    risk: Mapping[str, np.ndarray],
    told: ToldValues,
    places: np.ndarray,
    columns: np.ndarray,
    outside: Sequence[str] = (),
    schema: Schema = NOTHING,
) -> list[Value]:
    """Return the values of people at these places, each in one of the columns."""
    (word, keys), both = names_of_people(risk), bool(told.rest_known.any())

    def number_of(kind: str, column: int, place: int) -> float | None:
        name = REST_KNOWN * bool(told.rest_known[column]) + kind + told.names[column]
        value = float(risk[name][place]) if name in risk else np.nan
        return None if np.isnan(value) else value

    return [
        Value(
            int(risk["row"][place]),
            schema.told_as(told.names[column]),
            float(told.after[place, column]),
            float(told.before[place, column]),
            number_of(ERROR, column, place) or 0.0,
            number_of(TOLERANCE, column, place),
            bool(told.disclosed[place, column]),
            f"{word} {keys[place]}" if word != "row" else None,
            number_of(BEYOND, column, place),
            number_of(OTHERS, column, place),
            bool(told.at_limit[place, column]),
            bool(told.rest_known[column]) if both else None,
            tuple(outside),
            schema.dates.get(told.names[column]),
        )
        for place, column in zip(places.tolist(), columns.tolist(), strict=True)
    ]


def value_lines(values: Sequence[Value]) -> list[dict[str, object]]:
    """Return values as lines of a table."""
    return [
        {
            **({"row": value.row} if value.key is None else dict([value.key.split(" ", 1)])),
            "column": value.column,
            **({} if value.rest_known is None else {"adversary": value.adversary}),
            "within": value.within,
            "with the release": chance(value.after),
            "without it": chance(value.before),
            "verdict": value.verdict,
        }
        for value in values
    ]
