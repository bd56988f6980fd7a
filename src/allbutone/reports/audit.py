"""The audit of rows that any tool has made: what was looked for and found, the verdict, a page."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.disclosure.rule import Rule
from allbutone.other_tools.assumed import PLUG_IN, UNKNOWN, Assumed, assume, can_be_fitted, checked_mechanism
from allbutone.other_tools.copies import TENTH, UNLIKELY, Copies, find_copies, people_among
from allbutone.other_tools.fitted_normal import departure, fitted_table
from allbutone.other_tools.games import Game, play
from allbutone.other_tools.grouped import Grouping, grouped
from allbutone.other_tools.in_words import Line, grouping_lines, how_many, lines_of
from allbutone.other_tools.shadow import ALARMS, Make, Shadow, shadow
from allbutone.other_tools.side_by_side import SideBySide
from allbutone.reports.risk import PeopleTable
from allbutone.reports.verdict import NAMED, Verdict, verdict_of
from allbutone.support.errors import Caution, Cure, InputError
from allbutone.support.text import chance, counted, joined, listed, number
from allbutone.tables.files import read_table
from allbutone.tables.records import Records

UNSAID = (
    "That nothing was found is no evidence that nothing is there: what can be found without knowing how rows were "
    "made is copies and the like, and who knows how may learn more."
)


@dataclass(frozen=True, eq=False, repr=False)
class Audit(PeopleTable):
    """What synthetic rows give away of each person, a row each, and what there is to say of them. Confidential.

    `copies`, `groupings`, `games`: what was looked for without knowing how the rows were made. `assumed`: what who
    knows that they were made in one way learns. `shadow`: what running the tool again has told. `asked`: the
    mechanism that was named.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> abo.audit(cohort, cohort).verdict.standing  # of a copy of the table
    'against'
    """

    records: Records
    tables: SideBySide
    rule: Rule
    asked: str
    copies: Copies
    groupings: tuple[Grouping, ...]
    games: tuple[Game, ...]
    assumed: Assumed | None = None
    shadow: Shadow | None = None

    @cached_property
    def exact(self) -> Verdict | None:
        """The verdict of who knows the assumed mechanism."""
        return (
            None
            if self.assumed is None
            else verdict_of(self.assumed.columns, self.rule, schema=self.records.schema)
        )

    @cached_property
    def verdict(self) -> "AuditVerdict":
        """The one verdict, in the words of `risk`."""
        return AuditVerdict.of(self)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """What was looked for, each beside what there is to compare it with."""
        return lines_of(self.copies, self.groupings, self.games, self.rule.probability)


@dataclass(frozen=True)
class AuditVerdict:
    """The decision on rows of any tool: against, for (if they were made as assumed), or not known.

    disclosed: of whom a value is given away, the columns by row of the table; members: whose membership is.
    alarms: attacks that do better on the table's people than on control people. labels: who a row is, in words.
    taken: people of whom values stand in the release beyond chance; run_again: of whom running the tool with and
    without them tells, in so many `rounds`.
    """

    rule: Rule
    people: int
    disclosed: Mapping[int, tuple[str, ...]]
    members: tuple[int, ...]
    copied: int
    alarms: tuple[str, ...]
    mechanism: str
    doubt: str
    exact: Verdict | None
    labels: Mapping[int, str]
    taken: int = 0
    run_again: int = 0
    rounds: int = 0

    @classmethod
    def of(cls, audit: Audit) -> "AuditVerdict":
        """Put together what every part found."""
        rows, names = audit.records.rows, list(map(audit.records.schema.told_as, audit.tables.names))
        whole = np.flatnonzero(audit.copies.rows.named)
        found: dict[int, dict[str, None]] = {int(rows[place]): {} for place in whole}
        given = audit.copies.disclosed(audit.tables, audit.rule.probability)
        for place, column in np.argwhere(given):
            found.setdefault(int(rows[place]), {})[names[column]] = None
        members: dict[int, None] = {}
        for value in audit.exact.disclosed if audit.exact else ():
            found.setdefault(value.row, {})[value.column] = None
        # where rows only look like a fit, chance would often call somebody who is far out a member
        if audit.exact and audit.exact.judged.members and audit.asked != UNKNOWN:
            members |= dict.fromkeys(member.row for member in audit.exact.members)
        shadowed = audit.shadow.people if audit.shadow else ()
        for person in shadowed:
            row = int(rows[person.place])
            if person.is_told(audit.rule):
                found.setdefault(row, {})[person.column] = None
            if person.is_member(audit.rule):
                members[row] = None
        alarms = tuple(dict.fromkeys(game.name for game in audit.games if game.unlikely <= UNLIKELY))
        doubt = audit.assumed.doubt if audit.assumed else ""
        disclosed = {row: tuple(columns) for row, columns in found.items()}
        mechanism = audit.assumed.mechanism if audit.assumed and audit.asked != UNKNOWN else UNKNOWN
        labels = {int(row): audit.records.who(place) for place, row in enumerate(rows)}
        return cls(
            audit.rule,
            len(rows),
            disclosed,
            tuple(members),
            len(whole),
            alarms,
            mechanism,
            doubt,
            audit.exact,
            labels,
            int(given.any(axis=1).sum()),
            sum(person.is_told(audit.rule) or person.is_member(audit.rule) for person in shadowed),
            audit.shadow.rounds if audit.shadow else 0,
        )

    @property
    def standing(self) -> str:
        """The decision as a word, by which pages colour it."""
        if self.disclosed or self.members or self.alarms:
            return "against"
        return "luck" if self.mechanism == UNKNOWN or self.doubt else "for"

    @property
    def mark(self) -> str:
        """The decision as a sign."""
        return {"against": "✘", "luck": "?", "for": "✔"}[self.standing]

    @property
    def passed(self) -> bool:
        """Whether nothing was found; that alone is no reason to give it out."""
        return self.standing != "against"

    @property
    def is_known(self) -> bool:
        """Whether there is a decision at all."""
        return self.standing != "luck"

    @property
    def headline(self) -> str:
        """The decision in one sentence."""
        everybody = f"of {self.people:,} people"
        if self.standing == "for":
            return (
                "By the rule this may be given out, if its rows were made as assumed: it discloses no value of "
                f"any {everybody}{', and nobody’s membership' if self.exact and self.exact.membership else ''}"
            )
        if self.standing == "luck":
            why = "the rows hardly were made as assumed" if self.doubt else "how the rows were made is not known"
            return f"Not known: nothing that was looked for was found of any {everybody}, but {why}"
        what = []
        if self.disclosed:
            values = sum(map(len, self.disclosed.values()))
            what.append(f"{'a value' if values == 1 else 'values'} of {len(self.disclosed):,} {everybody}")
        if self.members:
            what.append(f"the membership of {len(self.members):,}{'' if self.disclosed else f' {everybody}'}")
        if not what:
            return (
                "By the rule this should not be given out: its rows tell more of the people in the table than of "
                f"others ({joined(self.alarms)})"
            )
        return f"By the rule this should not be given out: it discloses {', and '.join(what)}"

    @property
    def who(self) -> str:
        """Which people, and which of their values: those of whom most is given away first."""
        order = sorted(self.disclosed.items(), key=lambda each: (-len(each[1]), each[0]))
        named = [f"{self.labels[row]} ({listed(columns, NAMED)})" for row, columns in order[:NAMED]]
        named += [f"{self.labels[row]} (membership)" for row in self.members if row not in self.disclosed][
            : NAMED - len(named)
        ]
        left = len({*self.disclosed, *self.members}) - len(named)
        words = joined([*named, *([counted(left, "other")] if left > 0 else [])])
        return f"{words[0].upper()}{words[1:]}." if words else "Nobody by name."

    @property
    def how_sure(self) -> str:
        """What the decision rests on."""
        parts = []
        if self.copied:
            parts.append(
                f"The whole row of {how_many(self.copied)}, which nobody else has, stands in the release."
            )
        if more := self.taken - self.copied:
            others = f"{more:,} {'other' if more == 1 else 'others'}" if self.copied else how_many(more)
            parts.append(f"Of {others} values stand in the release as in the table, or nearly, beyond chance.")
        if self.run_again:
            parts.append(
                f"The tool was run again, {counted(self.rounds, 'time')} with everybody and as often without each "
                f"of those who stand out most: of {how_many(self.run_again)} its rows tell, by the lower ends of "
                "95 % intervals."
            )
        if self.alarms:
            parts.append(
                f"Chance makes {joined(self.alarms)} succeed so much more often in one of 10,000 cases at most."
            )
        if self.exact is not None:
            if self.mechanism == UNKNOWN:
                parts.append("If a normal was fitted once and sampled, which the rows look like:")
            parts.append(self.exact.how_sure)
            if self.exact.membership and self.mechanism != UNKNOWN:
                parts.append(f"Membership: {self.exact.membership}")
        if self.doubt:
            parts.append(f"{self.doubt[0].upper()}{self.doubt[1:]}.")
        if not self.is_known:
            parts.append(UNSAID)
        return " ".join(parts)

    @property
    def rule_words(self) -> str:
        """The rule in full, and that of membership where it was judged."""
        is_judged = self.rounds or (self.exact and self.exact.membership and self.mechanism != UNKNOWN)
        return f"{self.rule.in_full()}{f' {self.rule.membership_in_words}' if is_judged else ''}"

    @property
    def sentence(self) -> str:
        """All of it, to be read aloud."""
        return " ".join([f"{self.headline}.", *([] if self.passed else [self.who]), self.how_sure])


def audit(
    table: Any,
    synthetic: Any,
    mechanism: str = UNKNOWN,
    *,
    control: Any = None,
    divisor: str | None = None,
    probability: float = 0.5,
    known: Sequence[str] = (),
    shadow: str | Make | None = None,
    people: int = 10,
    rounds: int = 100,
    minutes: float = 30.0,
    rng: np.random.Generator | None = None,
    **how_to_read: Any,
) -> Audit:
    """Return what synthetic rows of any tool give away of each person of a table, and the verdict on them.

    `synthetic`: a table or a file, or several in a list. Without knowing how they were made it looks for copies
    (of rows, of halves of rows, of values that one person alone has, of the ends of columns), counts replicated
    uniques, DiSCO and CAP over a range of groupings, and plays Anonymeter's three games; `control`: people who had
    no part in the rows, beside whom these mean most. With a `mechanism`, "plug-in" (a normal fitted once),
    "posterior" or "classes" (as this package draws), it adds what somebody learns who knows that the rows were
    made so: the columns of `risk`. `shadow`: the command that makes a release, with {table} and {out}, or a
    function of a table that returns rows: it is run with and without each of the `people` who stand out most, for
    so many `rounds` or `minutes`. `known`: columns that the adversary knows of everyone. How the table is read is
    said as to `Records.of`.

    Warns with `Caution` where the rows do not look as if they were made as assumed.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> found = abo.audit(cohort, cohort)  # a copy of the table
    >>> found.verdict.standing
    'against'
    >>> len(found.verdict.disclosed)
    503
    """
    checked_mechanism(mechanism)
    records = Records.of(table, **{"categories": True, "gaps": True, "many_cells": True, **how_to_read})
    several = list(synthetic) if isinstance(synthetic, list | tuple) else [synthetic]
    found = examine(
        records,
        several,
        mechanism,
        control=control,
        divisor=divisor,
        rule=Rule.of(probability),
        known=known,
        rng=rng,
        shadowed=lambda: None if shadow is None else _shadowed(records, table, shadow, people, rounds, minutes),
    )
    if found.assumed is not None and found.assumed.doubt:
        warnings.warn(found.assumed.doubt, Caution, stacklevel=2)
    return found


def _shadowed(
    records: Records, table: Any, command: str | Make, people: int, rounds: int, minutes: float
) -> Shadow:
    if isinstance(table, str | Path):
        table = read_table(Path(table))
    elif isinstance(table, Records):
        table = table.to_frame()
    elif isinstance(table, np.ndarray):
        table = records.to_frame("pandas") if len(records.values) == len(table) else None
        if table is None:
            raise InputError("a matrix with rows left out has no table to give to a command", "give a dataframe")
    return shadow(records, table, command, people=people, rounds=rounds, minutes=minutes)


def examine(
    records: Records,
    synthetic: Sequence[Any],
    mechanism: str = UNKNOWN,
    *,
    control: Any = None,
    divisor: str | None = None,
    rule: Rule | None = None,
    known: Sequence[str] = (),
    rng: np.random.Generator | None = None,
    shadowed: Callable[[], Shadow | None] = lambda: None,
    watch: Callable[[int], None] = lambda steps: None,
) -> Audit:
    """Look for everything, step by step; `watch` is called after each, `steps_of` tells how many there are."""
    rule = rule or Rule()
    if absent := [name for name in known if name not in records.order]:
        raise InputError(f"there is no column {listed(absent)}", f"choose among {listed(records.order)}")
    if set(records.order) <= set(known):
        raise InputError("the adversary knows everything of everybody", Cure("name fewer columns", "known"))
    tables = SideBySide.of(records, synthetic, control)
    inside = 0 if tables.control is None else people_among(tables, tables.control)
    if tables.control is not None and inside > TENTH * len(tables.control):  # a few may be in a table twice
        raise InputError(
            f"{how_many(inside)} of the table stand in the control table, too",
            Cure("name people who had no part in the rows", "control"),
        )
    copies = find_copies(tables)
    watch(1)
    groupings = grouped(tables, known)
    watch(1)
    games = play(tables, np.random.default_rng(0), watch)  # which questions are asked is no secret
    asked = mechanism
    if mechanism == UNKNOWN and can_be_fitted(records) and not copies.disclosed(tables, rule.probability).any():
        # what many tools do, and can be seen: then it would be careless not to look
        mechanism = PLUG_IN if _looks_fitted(records, synthetic, divisor) else UNKNOWN
    assumed = None
    if mechanism != UNKNOWN:
        how: dict[str, Any] = {"divisor": divisor, "rule": rule, "known": known or None}
        assumed = assume(records, synthetic, mechanism, **how, rng=rng or np.random.default_rng(0))
    watch(1)
    shadows = shadowed()
    measures = _columns(records, tables, copies, assumed, shadows, rule)
    return Audit(
        measures, records.backend, records, tables, rule, asked, copies, groupings, tuple(games), assumed, shadows
    )


def steps_of(columns: int) -> int:
    """Return how many steps an audit of so many columns takes."""
    return 3 + 2 + 1 + columns


def _looks_fitted(records: Records, synthetic: Sequence[Any], divisor: str | None) -> bool:
    try:
        return not departure(fitted_table(records, synthetic, divisor))
    except InputError:
        return False


def _columns(
    records: Records,
    tables: SideBySide,
    copies: Copies,
    assumed: Assumed | None,
    shadows: Shadow | None,
    rule: Rule,
) -> dict[str, np.ndarray]:
    """Return a row for each person: what is given away of them, and what was looked at."""
    given = copies.disclosed(tables, rule.probability)
    names = np.array(tables.names, dtype=object)
    halves = (
        np.any([each.named for each in copies.halves], axis=0) if copies.halves else np.zeros(len(given), bool)
    )
    found: dict[str, np.ndarray] = {
        **records.named,
        "disclosed": given.any(axis=1) | copies.rows.named,
        "row_copied": copies.rows.named,
        "half_copied": halves,
        "nearly_copied": copies.near.named,
        "values_given_away": np.array(["; ".join(names[each]) for each in given]),
        "distance_to_rows": copies.near.to_rows,
        "distance_to_people": copies.near.to_people,
    }
    if assumed is not None:
        found["disclosed"] = found["disclosed"] | assumed.columns["disclosed"]
        found |= {f"disclosed_if_{assumed.mechanism.replace('-', '_')}": assumed.columns["disclosed"]}
        found |= {name: each for name, each in assumed.columns.items() if name not in ("row", "disclosed")}
    if shadows is not None:
        told, member = (np.zeros(len(given), dtype=bool) for _ in range(2))
        for person in shadows.people:
            told[person.place], member[person.place] = person.is_told(rule), person.is_member(rule)
        found["disclosed"] = found["disclosed"] | told
        found |= {"disclosed_by_running_again": told, "membership_by_running_again": member}
    return found


def shadow_words(shadow: Shadow | None) -> list[str]:
    """Say how often the tool was run again, and what that can tell."""
    if shadow is None:
        return []
    ended = f"; {shadow.ended}" if shadow.ended else ""
    count = len(shadow.people)
    whom = "the person who stands out most" if count == 1 else f"each of {count:,} people who stand out most"
    whom = f", with and without {whom}" if count else ""
    words = [f"The command was run in {counted(shadow.rounds, 'whole round')}{whom}{ended}."]
    if shadow.repeats:
        words.append(
            "It gave the same rows twice: it draws with a fixed seed. Whoever knows the seed, or tries many, can "
            "take the noise away."
        )
    if not count:
        words.append("That is too little to tell anything.")
    elif shadow.rounds < shadow.rounds_needed:
        words.append(
            f"So few rounds cannot tell what {chance(ALARMS)} of false alarms is, and nobody counts as found in "
            f"the table: it takes {shadow.rounds_needed:,} rounds."
        )
    return words


def shadow_lines(audit: Audit) -> list[dict[str, str]]:
    """Return what the shadow attack found of each person, as lines of a table."""
    lines = []
    for person in audit.shadow.people if audit.shadow else ():
        test, hits = person.best
        (right, wrong), (off, otherwise) = person.within, person.error
        lines.append(
            {
                "row": f"{int(audit.records.rows[person.place]):,}",
                f"found in the table at {ALARMS:.0%} false alarms": (
                    f"{chance(hits.value)} ({chance(hits.low)} to {chance(hits.high)})"
                ),
                "by": test,
                "value guessed": f"{person.column} by {person.guess}" if person.column else "–",
                "within its tolerance": f"{chance(right.value)} (without the person {chance(wrong.value)})",
                "error": f"{number(off)} (without {number(otherwise)})",
            }
        )
    return lines


def assumptions(audit: Audit) -> str:
    """Say what was assumed, and what is not shown."""
    known = "the adversary has everybody else’s records and all rows"
    if audit.assumed is None:
        return (
            f"Assumed: nothing of how the rows were made; {known}.\n"
            "Not shown: what somebody learns who knows how they were made, more rows of the same tool, and other "
            "things that it gives away, such as a fixed seed. This is a measurement, not a guarantee."
        )
    if audit.asked == UNKNOWN:
        first = f"Not assumed but possible, for the rows look like it: {audit.assumed.words}"
    else:
        first = f"Assumed: {audit.assumed.words}"
    return (
        f"{first}; {known}, and knows how they were made.\n"
        "Not shown: more rows of the same fit, and other things that the tool gives away, such as random numbers "
        "that others know. This is a measurement, not a guarantee."
    )


def audit_page(audit: Audit, commands: Sequence[str] = ()) -> str:
    """Return the page: verdict, what was found, pictures, what was assumed."""
    from allbutone.figures.audit import grouping_figure, lines_figure
    from allbutone.figures.export import NO_REQUESTS, embedded, library
    from allbutone.figures.risk import disclosure_figure
    from allbutone.reports.report import environment, software_versions, words_of
    from allbutone.reports.verdict import value_lines, values_of

    figures = {"lines": lines_figure(audit.lines), "groupings": grouping_figure(audit.groupings)}
    values: list[dict[str, object]] = []
    if audit.assumed is not None:
        figures["assumed"] = disclosure_figure(audit.assumed.columns, audit.rule)
        values = value_lines(values_of(audit.assumed.columns, audit.rule, 10, schema=audit.records.schema))
    parts = {name: {"html": embedded(each, name), "words": words_of(each)} for name, each in figures.items()}
    return environment.get_template("audit.html").render(
        no_requests=NO_REQUESTS,
        library=library(),
        figures=parts,
        audit=audit,
        verdict=audit.verdict,
        lines=[each.cells | {"against": each.against} for each in audit.lines],
        has_control=audit.tables.control is not None,
        groupings=grouping_lines(audit.groupings),
        shadow=shadow_lines(audit),
        shadow_words=shadow_words(audit.shadow),
        values=values,
        assumptions=assumptions(audit).split("\n"),
        commands=commands,
        **software_versions(),
    )
