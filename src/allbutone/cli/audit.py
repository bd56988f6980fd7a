"""The command about any tool's rows: what they give away of each person in the table."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from allbutone.cli import options as ask
from allbutone.cli import output as terminal
from allbutone.cli.reading import in_memory, named_columns, read, read_content
from allbutone.disclosure.rule import USUAL_TOLERANCE
from allbutone.other_tools import shadow as shadows
from allbutone.other_tools.fitted_normal import error_of_differencing, law_of_means
from allbutone.releases.mechanism import CLASSES
from allbutone.reports.audit import Audit, assumptions, audit_page, examine, shadow_lines, shadow_words, steps_of
from allbutone.support.text import number

# limits and decimals change what goes out, not what was fitted
OF_FITTED = tuple(name for name in ask.OF_TABLE if name not in ("positive", "decimals"))


class Mechanism(StrEnum):
    """How the rows were made."""

    unknown = "unknown"
    plug_in = "plug-in"
    posterior = "posterior"
    classes = "classes"


class Divisor(StrEnum):
    """Of the scatter of the records."""

    n = "n"
    less = "n-1"


@ask.command
def audit(
    *,
    context: typer.Context,
    source: Annotated[ask.TableOptions, ask.Offers(*OF_FITTED, table=ask.TABLE_FILE)],
    synthetic: list[Path] = ask.argument(
        "The file of synthetic rows that any tool has drawn, or several files.", ask.REQUIRED
    ),
    attack: Annotated[ask.AttackOptions, ask.Offers("known", "probability")],
    mechanism: Mechanism = ask.option(
        "How the rows were made: plug-in (mean and covariance fitted once, then rows drawn), posterior or classes "
        "(as allbutone draws), or unknown: then only what can be seen without knowing is told.",
        Mechanism.unknown,
    ),
    control: Path | None = ask.option(
        "A file of people like those in the table who had no part in the rows: what is told of them, too, comes "
        "from nobody's own record."
    ),
    divisor: Divisor | None = ask.option(
        "With plug-in, what the covariance was divided by; by default the one that fits the rows better."
    ),
    shadow: str | None = ask.option(
        "The command that makes a release, with {table} and {out} where the files go: it is run again and again, "
        "with and without each of the people who stand out most. No shell reads it.",
        metavar="COMMAND",
    ),
    people: int = ask.option("With --shadow, how many people.", shadows.PEOPLE, min=1),
    rounds: int = ask.option(
        "With --shadow, how many rounds: one run of everybody and one without each person.", shadows.ROUNDS, min=2
    ),
    minutes: float = ask.option(
        "With --shadow, after how many minutes to end with what is there; the same command goes on from there.",
        shadows.MINUTES,
    ),
    out: ask.NumbersFile = Path("audit.csv"),
    force: ask.Force = False,
) -> None:
    """Say what any tool's synthetic rows give away of the people in the table.

    Copies, replicated uniques, DiSCO, CAP, singling out, linkability and inference, each beside what it is
    compared with; if it is said how the rows were made, whose values somebody learns who knows that; and one
    verdict, which may be "not known".
    """
    rule, runs = attack.rule, out.with_suffix(".shadow.jsonl")
    with terminal.outputs(out, force, [source.table, *synthetic, control]) as save:
        # any table can be audited: with gaps, and with categories of any number
        gaps = None if source.complete_cases else ask.Gaps.keep
        any_table = ask.ModelOptions(model=CLASSES, missing=gaps)
        records = in_memory(read(source, any_table, categories=True).records)
        known = tuple(named_columns(attack.known_names, records.order))
        rows = [read_content(source, each) for each in synthetic]
        shadowed = None
        if shadow is not None:
            total = rounds * (1 + min(people, len(records.values)))
            with terminal.late_progress("Running the command", total, cut_short=True) as watch:
                shadowed = shadows.shadow(
                    records, read_content(source), shadow,
                    people=people, rounds=rounds, minutes=minutes, state=runs, watch=watch,
                )  # fmt: skip
        with terminal.late_progress("Looking for what rows tell", steps_of(len(records.order))) as watch:
            found = examine(
                records,
                rows,
                mechanism.value,
                control=None if control is None else read_content(source, control),
                divisor=divisor,
                rule=rule,
                known=known,
                shadowed=lambda: shadowed,
                watch=watch,
            )
        again = terminal.following(context, "audit", source.table, *synthetic)
        save(found.measures, page=audit_page(found, [shlex.join(["allbutone", *again])]))
    _show(found)
    terminal.show_files(out, page="the page with all figures")
    if shadow is not None:
        terminal.say(f"The runs are kept in {runs}: the same command goes on from there. It is confidential, too.")
    terminal.say(assumptions(found))
    _propose(context, source.table, found)
    doubt = found.assumed.doubt if found.assumed else ""
    terminal.show_notes([*records.notes, f"{doubt}." if doubt and found.verdict.is_known else ""])


def _show(found: Audit) -> None:
    """Print the verdict, then what each measure found, then what who knows how rows were made learns."""
    verdict = found.verdict
    colour = {"for": "green", "luck": "yellow", "against": "red"}[verdict.standing]
    terminal.headline(verdict.mark, colour, f"{verdict.headline}.")
    if not verdict.passed:
        terminal.say(f"Who, and what: {verdict.who}")
    terminal.say(f"How sure: {verdict.how_sure}")
    terminal.say(f"The rule: {verdict.rule_words}")
    lines = [line.cells for line in found.lines]
    if found.tables.control is None:
        lines = [{name: cell for name, cell in line.items() if name != "of control people"} for line in lines]
    words = ("measure", "found", "to compare with", "of control people", "says")
    terminal.show("\nWhat was looked for", list(lines[0]), [list(line.values()) for line in lines], words=words)
    if found.assumed is not None:
        if found.asked == "unknown":
            terminal.say("\nThe rows look as if a normal had been fitted once and sampled. If so:")
        terminal.show_values(found.assumed.columns, found.rule, schema=found.records.schema)
    if found.assumed is not None and found.assumed.fitted is not None:
        terminal.say(_law_in_words(found))
    if found.shadow is not None:
        told = shadow_lines(found)
        terminal.say("\n" + " ".join(shadow_words(found.shadow)))
        if told:
            terminal.show("What it tells of people", list(told[0]), [list(line.values()) for line in told])


def _law_in_words(found: Audit) -> str:
    assert found.assumed is not None
    fitted = found.assumed.fitted
    assert fitted is not None
    people, rows = fitted.whole.count, fitted.released.count
    off = float((error_of_differencing(fitted) ** 2).mean() ** 0.5)
    enough = int((people / USUAL_TOLERANCE) ** 2)
    return (
        f"\nWithout any model: {people:,.0f} × the rows' mean less the sum of all other records is off by "
        f"{number(off)} standard deviations, for everyone the same; n/√N says about "
        f"{number(law_of_means(people, rows))}.\nWith {enough:,} rows of one fit this alone finds everybody, "
        f"whether they stand out or not, to about {USUAL_TOLERANCE:g} standard deviations."
    )


def _propose(context: typer.Context, table: Any, found: Audit) -> None:
    """Print what to do next: draw rows whose risk is known, where these are bad; else look closer."""
    records = found.records
    options: dict[str, Any] = {"rows": len(found.tables.rows), "out": "release"}
    if records.has_gaps:
        options["missing"] = "impute"
    if not records.columns:
        options["model"] = CLASSES
    words = "rows of which it can be said what they give away, for how they are made is known:"
    terminal.propose(context, words, "synthesize", table, **options)
