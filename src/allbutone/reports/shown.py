"""What each result shows of itself, short: a sign, a sentence, a table of a few lines and a picture.

✔ where nothing stands against it, ✘ where something does, ! where it is worth a second look.
"""

import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from html import escape
from itertools import zip_longest
from typing import Any

import numpy as np

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.guarantee import Guarantee
from allbutone.releases.check import ReleaseCheck
from allbutone.releases.combining import Combined
from allbutone.releases.release import Release
from allbutone.releases.synthesizer import Synthesizer
from allbutone.reports.audit import Audit, assumptions
from allbutone.reports.findings import Finding, fidelity_finding, model_finding
from allbutone.reports.report import Report
from allbutone.reports.risk import RiskTable
from allbutone.reports.verdict import Verdict
from allbutone.support.arrays import to_numpy
from allbutone.support.text import chance, fitted_widths, number
from allbutone.utility.fidelity import Fidelity
from allbutone.utility.normality import Normality

YES, LOOK, NO = "✔", "!", "✘"
COLOURS = {YES: "#009E73", LOOK: "#B8860B", NO: "#C0392B"}
ROWS = 5  # of a release
NARROWEST = 40  # characters

Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # headings, and lines


@dataclass(frozen=True)
class Shown:
    """What is shown of a result: `words` after its sentence, `tables`, and what a notebook folds away.

    picture: draws it, if a notebook asks: that loads what draws figures.
    """

    sentence: str
    mark: str = ""
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: tuple[tuple[str, str], ...] = ()
    picture: Callable[[], str] = str

    @property
    def text(self) -> str:
        """In lines of the terminal's width."""
        width = max(NARROWEST, shutil.get_terminal_size().columns)
        said = [f"{self.mark} {self.sentence}".strip(), *self.words]
        lines = [line for each in said for line in textwrap.wrap(each, width, break_on_hyphens=False)]
        return "\n".join([*lines, *(line for table in self.tables for line in _aligned(*table, width))])

    @property
    def page(self) -> str:
        """As HTML."""
        sign = f'<span style="color:{COLOURS[self.mark]}">{self.mark}</span> ' if self.mark else ""
        more = "".join(f"<p>{escape(each)}</p>" for each in self.words)
        folded = "".join(
            f"<details><summary>{escape(name)}</summary><p>{escape(text)}</p></details>"
            for name, text in self.folded
        )
        tables = "".join(_html_table(*table) for table in self.tables)
        return f"<div><p><b>{sign}{escape(self.sentence)}</b></p>{more}{self.picture()}{tables}{folded}</div>"


@singledispatch
def shown(result: Any) -> Shown:
    """Return what is shown of a result."""
    raise TypeError(f"nothing is known of how {type(result).__name__} shows itself")


@shown.register
def _(result: RiskTable) -> Shown:
    verdict = result.verdict
    membership = (f"Membership: {verdict.membership}",) if verdict.membership else ()
    who = () if verdict.passed else (f"Who, and what: {verdict.who}",)
    lines = result.closest()
    table = [[number(cell) for cell in line.values()] for line in lines]
    people, measures = len(result), len(result.measures)
    more = f"Confidential: {people:,} people, a row each, {measures} columns; to_pandas() has all of them."
    return Shown(
        sentence=f"{verdict.headline}.",
        mark=verdict.mark,
        words=(*who, verdict.how_sure, *membership, more),
        tables=((list(lines[0]), table),),
        folded=(("The rule", verdict.rule_words),),
        picture=lambda: _risk_picture(result),
    )


@shown.register
def _(result: Audit) -> Shown:
    def drawn() -> str:
        from allbutone.figures.audit import lines_figure
        from allbutone.figures.svg import picture

        return picture(lines_figure(result.lines))

    verdict, lines = result.verdict, [line.cells for line in result.lines]
    who = () if verdict.passed else (f"Who, and what: {verdict.who}",)
    mark = LOOK if not verdict.is_known else YES if verdict.passed else NO
    table = (list(lines[0]), [list(line.values()) for line in lines])
    folded = (("The rule", verdict.rule.in_full()), ("What it assumes", assumptions(result)))
    return Shown(f"{verdict.headline}.", mark, (*who, verdict.how_sure), (table,), folded, drawn)


def _risk_picture(result: RiskTable) -> str:
    """Draw the values, or the membership where that alone is disclosed."""
    from allbutone.figures.risk import disclosure_figure, membership_figure
    from allbutone.figures.svg import picture

    verdict = result.verdict
    draw = disclosure_figure if verdict.disclosed or not verdict.judged.members else membership_figure
    return picture(draw(result.measures, result.rule))


@shown.register
def _(result: Budget) -> Shown:
    def drawn() -> str:
        from allbutone.figures.budget import budget_figure
        from allbutone.figures.svg import picture

        return picture(budget_figure(result))

    mark = YES if result.confident_count else NO
    return Shown(result.sentence, mark, folded=(("What it assumes", result.assumptions),), picture=drawn)


@shown.register
def _(result: Fidelity) -> Shown:
    def drawn() -> str:
        from allbutone.figures.fidelity import mean_difference_figure
        from allbutone.figures.svg import picture

        return picture(mean_difference_figure(result)) if result.columns else ""

    finding = fidelity_finding(result)
    return Shown(finding.words, _mark_of(finding), (f"{result.in_words}.",), result.tables, picture=drawn)


@shown.register
def _(result: Normality) -> Shown:
    def drawn() -> str:
        from allbutone.figures.shapes import distance_qq_figure
        from allbutone.figures.svg import picture

        return picture(distance_qq_figure(result)) if result.together is not None else ""

    mark = {"fit": YES, "doubtful": LOOK}.get(result.level, NO)
    alike: dict[tuple[str, str], list[str]] = {}  # columns of which the same is said share a line
    for each in result.every:
        if each.level != "fit":
            alike.setdefault((each.level, each.advice), []).append(each.subject)
    lines = [(", ".join(columns), *said) for said, columns in alike.items()]
    tables = ((("column", "verdict", "what to do"), lines),) if lines else ()
    return Shown(model_finding(result).words, mark, tables=tables, picture=drawn)


def _mark_of(finding: Finding) -> str:
    return NO if finding.against else LOOK if finding.noted else YES


@shown.register
def _(result: Report) -> Shown:
    verdict = result.verdict
    words = [f"{each.subject}: {each.words}" for each in result.findings]
    if verdict is not None:
        member = [f"Membership: {verdict.membership}"] if verdict.membership else []
        words = [verdict.how_sure, *member, *words]
    where = f"Written: {result.path}" if result.path else "The page: save('report.html') writes it."
    return Shown(f"{result.headline}.", "" if verdict is None else verdict.mark, (*words, where))


@shown.register
def _(result: Verdict) -> Shown:
    words = (result.who, result.remark, result.how_sure, result.membership and f"Membership: {result.membership}")
    folded = (("The rule", result.rule_words),)
    return Shown(f"{result.headline}.", result.mark, tuple(filter(None, words)), folded=folded)


@shown.register
def _(result: Combined) -> Shown:
    names = result.names or [""] * result.estimate.size
    numbers = (result.estimate, np.sqrt(result.variance), result.low, result.high)
    lines = [
        (name, *(number(float(each)) for each in line))
        for name, *line in zip(names, *map(np.ravel, numbers), strict=True)
    ]
    headings = ("", "estimate", "standard error", "from", "to")
    sentence = f"Estimates of the population, with {chance(result.level)} intervals (rule {result.rule})."
    return Shown(sentence, words=tuple(filter(None, [result.note])), tables=((headings, lines),))


@shown.register
def _(result: Synthesizer) -> Shown:
    return Shown(f"{result!r}.")


@shown.register
def _(result: Guarantee) -> Shown:
    return Shown(f"Guarantee: {result.sentence}", folded=(("What it assumes", result.assumptions),))


@shown.register
def _(result: ReleaseCheck) -> Shown:
    words = (*(f"{each}" for each in result.findings), f"Looked at: {result.checked}.", *result.notes)
    return Shown(result.verdict, YES if result.is_clean else NO, words)


@shown.register
def _(result: Release) -> Shown:
    """Show the first rows of the first dataset, or the first draws' means."""
    if result.tables:
        said = "The first rows of the first dataset:"
        frame = result.tables[0].take(slice(ROWS)).to_frame("pyarrow").to_pylist()
        rows = [["" if value is None else number(value) for value in row.values()] for row in frame]
    elif result.mechanism.is_normal:
        said = "The first draws’ means:"
        rows = [[number(value) for value in row] for row in to_numpy(result.normal.means)[:ROWS]]
    else:
        return Shown(f"{result!r}.")
    headings = result.released_order if result.tables else result.order
    return Shown(f"{result!r}.", words=(said,), tables=((headings, rows),))


def _aligned(headings: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return a table in lines of at most so many characters, as far as cells can be broken between words."""
    every, columns = [headings, *lines], list(zip(*lines, strict=True)) or [()] * len(headings)
    widths = fitted_widths(list(zip(*every, strict=True)), width - 2 * len(headings) + 2)
    placed = [str.rjust if _has_numbers(column) else str.ljust for column in columns]
    aligned = []
    for line in every:
        cells = [textwrap.wrap(*cell, break_long_words=False) for cell in zip(line, widths, strict=True)]
        parts = zip_longest(*cells, fillvalue="")
        aligned += [
            "  ".join(put(cell, wide) for put, cell, wide in zip(placed, each, widths, strict=True))
            for each in parts
        ]
    return [line.rstrip() for line in aligned]


def _has_numbers(column: Sequence[str]) -> bool:
    """Say whether the cells of a column are numbers, which stand to the right; words stand to the left."""
    return all(re.fullmatch(r"[<>±−+-]?\s*[\d.,]+(e[−+-]?\d+)?\s*%?|–|", cell) for cell in column)


def _html_table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    sides = ["right" if _has_numbers(column) else "left" for column in zip(*lines, strict=True)]
    sides = sides or ["left"] * len(headings)
    rows = [("th", headings), *(("td", line) for line in lines)]
    style = "padding:2px 12px 2px 0;text-align:"
    cells = (
        "".join(
            f'<{tag} style="{style}{side}">{escape(cell)}</{tag}>' for cell, side in zip(line, sides, strict=True)
        )
        for tag, line in rows
    )
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"
