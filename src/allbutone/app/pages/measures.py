"""What a release tells of one record: whether a value is disclosed, and for experts the measures behind it."""

from dataclasses import dataclass

import numpy as np

from allbutone.app.answer import Download, as_csv
from allbutone.app.page import piece
from allbutone.disclosure.lineup import CONFIDENCE
from allbutone.disclosure.rule import Rule
from allbutone.record_view.attack_view import RecordAttack
from allbutone.record_view.record_measures import RecordMeasures
from allbutone.reports.verdict import NAMED, Value
from allbutone.support.text import counted, listed


@dataclass(frozen=True)
class Line:
    """One measure: with the release, ignoring it, its word in the glossary, and how exact it is."""

    name: str
    released: float
    ignoring: float
    term: str
    note: str = ""


def values_of(row: int, attack: RecordAttack, found: RecordMeasures, rule: Rule) -> list[Value]:
    """Return how well each value of the record is known, judged by the rule."""
    flags = rule.discloses(np.array(found.probability), np.array(found.baseline)).tolist()
    beliefs = (found.probability, found.baseline, found.probability_error)
    beyond, others = ([None if np.isnan(one) else one for one in each] for each in attack.far_out)
    nobody = [None] * len(flags)  # has a key
    known = zip(attack.columns, *beliefs, attack.tolerances, flags, nobody, beyond, others, strict=True)
    return [Value(row, *one) for one in known]


@dataclass(frozen=True)
class OneDraw:
    """What the verdict on one trial draw leaves open.

    own: the share of such releases that disclose a value of the record, to the usual adversary. lacking: what the
    adversary of the trial lacks besides the record, in words; nothing for the usual one.
    """

    own: float
    lacking: str = ""

    @property
    def is_lucky(self) -> bool:
        """Whether more such releases disclose the record than a budget accepts."""
        return self.own > 1 - CONFIDENCE

    @property
    def share(self) -> str:
        """How many of a hundred such releases disclose the record."""
        if self.own < 0.005:
            return "fewer than one of 100"
        return f"about {round(100 * self.own)} of 100" if self.own < 0.995 else "more than 99 of 100"

    def would(self, what: str = "") -> str:
        """How many such releases would; to whom, where that is not the adversary of the trial."""
        usual = (
            " to the usual one, who has all of everybody else’s records and learns more" if self.lacking else ""
        )
        return f"{self.share} such releases would{what}{usual}"


def verdict_piece(values: list[Value], rule: Rule, release: str, draw: OneDraw | None = None) -> str:
    """Return the rule's verdict on one record, and how well each value is known; `release` names what tells it.

    `draw`: what to say where it is one trial draw, which another may contradict.
    """
    disclosed = [value.column for value in values if value.disclosed]
    found = f"{counted(len(disclosed), 'value')} of this record: {listed(disclosed, NAMED)}"
    words = f"{release} discloses {found if disclosed else 'no value of this record'}"
    to_whom = f", and to an adversary who lacks {draw.lacking}," if draw and draw.lacking else ""
    said, remark = f"By the rule{to_whom} {words}", ""
    mark, standing = ("✘", "against") if disclosed else ("✔", "for")
    if draw:
        remark = "This is the verdict on one draw alone"
        if draw.is_lucky and not disclosed:
            mark, standing, said = "!", "luck", f"{said}; but {draw.would()}"
        else:
            remark += f"; {draw.would(' disclose this record')}"
    shown = {"words": said, "mark": mark, "standing": standing, "remark": remark}
    return piece("record_verdict.html", **shown, values=values, rule_words=rule.in_words)


def lines(found: RecordMeasures) -> list[Line]:
    """Return the measures of an attack."""
    mass_error, gain_error = (f" Standard error about {error:.1g}." for error in
                              (found.mass_error, found.information_gain_error))  # fmt: skip
    by = f"{found.simulated} simulated releases" if found.simulated else "closed form"
    return [
        Line("Distance of the guess", found.distance, found.baseline_distance, "distance"),
        Line("Relative error", found.relative_error, 1, "relative_error"),
        Line("Exposure", found.exposure, 0, "exposure"),
        Line(f"Expected exposure ({by})", found.law_exposure, 0, "expected_exposure"),
        Line("Mass near the record", found.mass, found.prior_mass, "mass", mass_error),
        Line("Information gain (nats)", found.information_gain, 0, "gain", gain_error),
    ]


def measures_piece(found: RecordMeasures, noun: str, csv: str, epsilon: float | None = None) -> str:
    """Return the table of measures; `noun` is what is released, `csv` the address of the same as a file.

    epsilon: the record's own, where it is known.
    """
    return piece("measures.html", found=found, noun=noun, lines=lines(found), csv=csv, epsilon=epsilon)


def measures_csv(found: RecordMeasures) -> Download:
    """Return the measures as a file."""
    held = lines(found)
    return as_csv(
        "measures.csv",
        {
            "measure": [line.name for line in held],
            "with_the_release": [line.released for line in held],
            "ignoring_it": [line.ignoring for line in held],
        },
    )
