"""The page that sets the paper's printed tables beside ours, in Markdown."""

import textwrap

from allbutone.studies.printed_tables import DISTANCE, RECORD, PrintedTable, printed_tables
from allbutone.studies.published import agreement
from allbutone.studies.run import Study

_WORDS = (
    "The published tables in their own form: the mean of the adversary's guesses, and the median (range) of their "
    "distance from the target; as printed, and by the exact attack over {count:,} simulated tables a cell (the "
    "range: the typical extremes of 1000 of them). Each printed number has a verdict: **bold** where it lies, "
    "rounding allowed for, outside the 99 % interval for "
    "the same number of another 1000 replicates, plain where it lies inside. By chance about one in a hundred "
    "would be bold. {agreement}"
)
_REACH = (
    "How far out an extreme of 1000 may lie takes at least 199,000 replicates of ours to tell; with {count:,}, "
    "minima are judged only as too large and maxima only as too small, and a rare guess on the mirror hill, which "
    "moves a mean, may be missing from ours."
)
ENOUGH = 199_000


def published_page(study: Study) -> str:
    """Return the page of a study: every published number beside ours."""
    count = study.run.replicates
    words = _WORDS.format(count=count, agreement=agreement(study.rows))
    if count < ENOUGH:
        words += " " + _REACH.format(count=count)
    parts = [f"# {study.run.design.title}, as printed and as computed exactly", textwrap.fill(words, 115)]
    return "\n\n".join([*parts, *map(markdown_table, printed_tables(study))]) + "\n"


def markdown_table(table: PrintedTable, ours: str = "exact") -> str:
    """Return a printed table beside ours, which is called so."""
    heads = [*table.headings, *(f"{whose} {what}" for whose in ("printed", ours) for what in (RECORD, DISTANCE))]
    lines = [f"## {table.title}", "", f"{table.agreement[0].upper()}{table.agreement[1:]}.", ""]
    lines += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in table.rows:
        cells = [*map(str, row.names), *row.as_printed(lambda text: f"**{text}**"), *row.as_ours(2)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
