"""The command about other tools' rows: what they give away of each record that a normal was fitted to."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from allbutone.adversary.plug_in import PlugInTable
from allbutone.cli import options as ask
from allbutone.cli import output as terminal
from allbutone.cli.reading import named_columns, read_content, read_records
from allbutone.disclosure.audit import audit_columns, departure, error_of_differencing, fitted_table, law_of_means
from allbutone.disclosure.rule import QUARTER
from allbutone.figures.risk import Marks, disclosure_figure, rows_figure
from allbutone.figures.style import BLUE, VERMILION
from allbutone.reports.verdict import verdict_of
from allbutone.support.text import bell_curves, counted, number
from allbutone.tables.records import Records

# limits and decimals change what goes out, not what was fitted
OF_FITTED = tuple(name for name in ask.OF_TABLE if name not in ("positive", "decimals"))


class Mechanism(StrEnum):
    """How the rows were made."""

    plug_in = "plug-in"


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
        "The file of synthetic rows that another tool has drawn, or several files of one fit.", ask.REQUIRED
    ),
    attack: Annotated[ask.AttackOptions, ask.Offers("known", "probability", "radius", "no_mass")],
    mechanism: Mechanism = ask.option(
        "How the rows were made: plug-in is mean and covariance fitted once, then rows drawn.", Mechanism.plug_in
    ),
    divisor: Divisor | None = ask.option(
        "What the covariance was divided by; by default the one that fits the rows better."
    ),
    out: ask.NumbersFile = Path("audit.csv"),
    force: ask.Force = False,
) -> None:
    """Say whose values another tool's synthetic rows disclose, to somebody who knows everybody else.

    For tools that fit mean and covariance once and draw all rows from that normal, as a Gaussian copula with
    normal margins does.
    """
    rule = attack.rule
    with terminal.outputs(out, force, [source.table, *synthetic]) as save:
        records = read_records(source)
        known = tuple(named_columns(attack.known_names, records.columns))
        rows = [read_content(source, each) for each in synthetic]
        fitted = fitted_table(records, rows, divisor)
        with terminal.late_progress("Attacking records", len(records.values)) as watch:
            columns = audit_columns(
                records,
                fitted,
                rule=rule,
                known=known,
                radius=attack.radius,
                mass=not attack.no_mass,
                # the integrals' random points are no secret, and a fixed start gives the same answer twice
                rng=np.random.default_rng(0),
                watch=watch,
            )
        doubt, figure = departure(fitted), disclosure_figure(columns, rule)
        no_verdict = bool(doubt) and not columns["disclosed"].any()
        if no_verdict:  # the page must not say what the command does not
            figure.layout.meta = {**figure.layout.meta, "message": f"No verdict: {doubt}."}
        save(columns, figure, _by_rows(records, fitted, columns))
    if no_verdict:
        terminal.headline("✘", "red", "No verdict:", f" {doubt}.")
    else:
        terminal.show_verdict(verdict_of(columns, rule))
    terminal.show_values(columns, rule)
    terminal.say(_law_in_words(fitted))
    terminal.show_files(out)
    terminal.say(_assumed(records, fitted, known, divisor))
    words = "rows of which no number finds everybody: the parameters are drawn, not plugged in:"
    options = {"rows": int(fitted.released.count), "out": "release"}
    terminal.propose(context, words, "synthesize", source.table, **options)
    terminal.show_notes([*records.notes, f"{doubt}." if doubt and not no_verdict else ""])


def _by_rows(records: Records, fitted: PlugInTable, columns: dict[str, np.ndarray]) -> Any:
    """Draw where these rows stand among all numbers of rows, by the root mean square error of the guesses."""
    (people, p), rows = records.values.shape, fitted.released.count
    natural = records.natural + np.column_stack([columns[f"error_{name}"] for name in records.columns])
    # in standard deviations, on the scale of the model
    off = (records.schema.to_model(natural) - records.values) / np.std(records.values, axis=0, ddof=1)
    exact, means = (float(np.sqrt(np.mean(errors**2))) for errors in (off, error_of_differencing(fitted)))
    marks = [
        Marks("these rows, exact attack", [rows], [exact], VERMILION),
        Marks("these rows, means alone", [rows], [means], BLUE, "diamond"),
    ]
    words = (
        f"With {rows:,.0f} rows of a fit to {people:,} people a guess is off by {exact:.2f} standard "
        "deviations, without any by about 1; more rows of the same fit tell more"
    )
    return rows_figure(people, p, marks, words)


def _law_in_words(fitted: PlugInTable) -> str:
    people, rows = fitted.whole.count, fitted.released.count
    off = float(np.sqrt(np.mean(error_of_differencing(fitted) ** 2)))
    enough = int((people / QUARTER) ** 2)
    return (
        f"\nWithout any model: {people:,.0f} × the rows' mean less the sum of all other records is off by "
        f"{number(off)} standard deviations, for everyone the same; n/√N says about "
        f"{number(law_of_means(people, rows))}.\nWith {enough:,} rows of one fit this alone finds everybody, "
        f"whether they stand out or not, to about {QUARTER:g} standard deviations."
    )


def _assumed(records: Records, fitted: PlugInTable, known: tuple[str, ...], divisor: Divisor | None) -> str:
    people = len(records.values)
    normal = bell_curves(len(records.columns)) + records.schema.scales_in_words
    by = "n" if fitted.divisor == people else "n − 1"
    how = "as asked" if divisor else "which fits the rows better"
    knows = f", and knows everyone's {', '.join(known)}" if known else ""
    return (
        f"Assumed: {normal}; mean and covariance (divided by {by}, {how}) fitted to these "
        f"{counted(people, 'record')} and all {fitted.released.count:,.0f} rows drawn from that fit, neither "
        f"limited nor coarsely rounded; the adversary has everybody else's records and all rows, and knows how "
        f"they were made{knows}.\n"
        "Not shown: more rows of the same fit, and other things that the tool gives away, such as the lowest and "
        "highest value, or random numbers that others know. This is a measurement, not a guarantee."
    )
