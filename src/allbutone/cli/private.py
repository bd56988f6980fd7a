"""Releases with a guarantee, on the command line: how one is asked for, made, and attacked."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.earlier import recording, require_ledger, require_within_limit, show_recorded, show_total
from allbutone.cli.elsewhere import Address
from allbutone.cli.options import ReleaseKind, following, free_name
from allbutone.cli.output import console, show, show_next, show_notes, sparkline
from allbutone.cli.reading import chosen_columns, declared, read_content, ways_out
from allbutone.cli.results import outputs, show_files
from allbutone.disclosure.private_risk import BOUND, of_riskiest, private_risk_columns
from allbutone.disclosure.rule import BASELINE, PROBABILITY, Rule
from allbutone.plots.private_risk import private_risk_figure
from allbutone.releases.folder import save_release
from allbutone.releases.ledger.entries import Terms
from allbutone.releases.private.accounting import DELTA, delta_of, zcdp_rho
from allbutone.releases.private.ball import model_limits, without_limits
from allbutone.releases.private.release import ADJACENCY, PrivateRelease
from allbutone.releases.private.synthesizer import PrivateSynthesizer, refuse_seed
from allbutone.reports.private import private_risk_sentence
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted, number
from allbutone.tables.declared.schema import Schema
from allbutone.tables.records import Records

Epsilon = Annotated[
    float | None,
    typer.Option(help="Guarantee ε-differential privacy, with noise; every column needs limits in --table-file."),
]
Delta = Annotated[
    float | None, typer.Option(help=f"The δ of the guarantee, below one over the people; {DELTA:g} by default.")
]
OF_PRIVATE: dict[str, tuple[Any, Any]] = {"epsilon": (Epsilon, None), "delta": (Delta, None)}
_NOT_WITH = ("prior", "like", "keep", "cells", "cell_weight", "missing", "complete_cases", "drop_unusable")


def asks_for_guarantee(context: typer.Context) -> bool:
    """Say whether a guarantee was asked for; a δ without an ε is refused."""
    given = context.params
    if given["epsilon"] is None and given["delta"] is not None:
        raise InputError("--delta goes with a guarantee", Cure("say how strong it is to be", "epsilon", 1.0))
    return given["epsilon"] is not None


def release_private(context: typer.Context, table: Path | Address) -> None:
    """Spend ε on the table, write the release, and say what is guaranteed and what it rests on."""
    given = context.params
    _require_nothing_else(context)
    if not isinstance(table, Path):
        raise InputError("a guarantee is given for a table in a file", "give one")
    out: Path = given["out"]
    ledger = require_ledger(context, table, out)
    delta = DELTA if given["delta"] is None else given["delta"]
    synthesizer = PrivateSynthesizer(given["epsilon"], delta)
    records, schema = read_wide(given, table)
    planned = Terms(rho=zcdp_rho(synthesizer.epsilon, delta_of(delta, len(records.values))), adjacency=ADJACENCY)
    require_within_limit(ledger, planned)
    release = synthesizer.fit(records, schema=schema).sample(datasets=given["datasets"], rows=given["rows"])
    record = recording(ledger, records, out, terms_of(release))
    save_release(release, out, format=given["format"], force=given["force"], finished=record)
    _describe(release, out)
    show_recorded(ledger, out)
    show_total(ledger)
    show_next(
        "see beside the guarantee what the release gives away of each record:",
        following(context, "risk", table, out, out=free_name("risk.csv", ".html"), drop=None),
    )
    assert release.convergence is not None
    settled = "" if release.convergence.reached else f"The draws have {release.convergence.words}."
    show_notes([*records.notes, settled])


def terms_of(release: PrivateRelease) -> Terms:
    """Return a release's guarantee as the ledger keeps it."""
    told = release.moments
    basis = "OpenDP's discrete Gaussian noise on the moments"
    return Terms(epsilon=told.epsilon, delta=told.delta, rho=told.rho, adjacency=ADJACENCY, basis=basis)


def _require_nothing_else(context: typer.Context) -> None:
    given = context.params
    if given["seed"] is not None or given["repeat_key"] is not None or given["new_repeat_key"]:
        refuse_seed()
    if both := [name for name in _NOT_WITH if given.get(name)]:
        flag = f"--{both[0].replace('_', '-')}"
        cure = "leave it out; what depends on the table must be done before, by rules that are fixed beforehand"
        raise InputError(f"--epsilon and {flag} do not go together", cure)
    if given["release"] is not ReleaseKind.datasets:
        raise InputError(
            "with --epsilon datasets are released, beside the noisy moments themselves", "leave --release out"
        )


def read_wide(given: dict[str, Any], table: Path) -> tuple[Records, Schema]:
    """Read a table whose values may pass the limits, which must be declared."""
    content = read_content(given, table)
    schema = declared(given, content.column_names)
    if given["table_file"] is None:
        raise InputError(
            "a guarantee needs public limits of every column", Cure("declare low and high", "table_file")
        )
    drop = list(given["drop"] or ()) or None
    with ways_out(("missing", "complete_cases"), "prepare the table before, by rules that are fixed beforehand"):
        records = Records.of(content, columns=chosen_columns(given), drop=drop, schema=without_limits(schema),
                             rows_are_people=given["rows_are_people"])  # fmt: skip
    schema = schema.for_columns(records.order)
    model_limits(schema)
    return records, schema


def records_as_told(given: dict[str, Any], table: Path, release: PrivateRelease) -> Records:
    """Read the columns of a release with a guarantee, whatever the limits of their values."""
    content = read_content(given, table)
    return Records.of(content, columns=list(release.columns), schema=without_limits(release.schema),
                      rows_are_people=True)  # fmt: skip


def _describe(release: PrivateRelease, out: Path) -> None:
    first, told = release.datasets[0], release.moments
    rows = [
        (escape(name), f"{values.mean():.4g}", f"{values.std():.4g}", sparkline(values))
        for name, values in zip(release.columns, first.T, strict=True)
    ]
    headings = ("column", "mean", "SD", "from lowest to highest")
    what = f"{counted(len(release.datasets), 'dataset')} of {counted(len(first), 'row')} in {escape(str(out))}"
    show(f"{what}: the first synthetic dataset", headings, rows, words=(headings[0], headings[-1]))
    console.print(f"[bold]Guaranteed: {release.guarantee}[/bold]")
    unit = "spreads" if told.ball.spread == 1.0 else "half widths of the limits"
    console.print(
        "It rests on this: the limits, centres and spreads in the table file and the number of people are "
        "public and were fixed before anyone looked at the table; nothing else of the table is released, or it is "
        f"counted with this (ρ = {told.rho:.3g}). Records beyond the limits, or farther than "
        f"{told.ball.radius:.3g} {unit} from the centre, were brought in first. More datasets from these noisy "
        "moments cost nothing; running this command again costs ε again."
    )
    if told.ball.spread != 1.0:
        show_notes(
            ["With a public centre and spread for every column in the table file there would be less noise."]
        )


def attack_private(context: typer.Context, table: Path, release: PrivateRelease, out: Path, force: bool) -> None:
    """Play the adversary against noisy moments and say what they learn, beside what the guarantee allows."""
    given = context.params
    if both := [name for name in ("prior", "known", "lacking_columns", "lacking_records") if given.get(name)]:
        flag = f"--{both[0].replace('_', '-')}"
        raise InputError(f"a release with a guarantee is attacked by the usual adversary, without {flag}")
    if not isinstance(table, Path):
        raise InputError("a release with a guarantee is judged with its table in a file", "give one")
    with outputs(out, force, [table]) as save:
        records = records_as_told(given, table, release)
        found = private_risk_columns(records, release, Rule.of(given.get("probability", 0.5)))
        save(found, private_risk_figure(found, release.moments))
    console.print(f"[bold]{escape(private_risk_sentence(found, release.moments))}[/bold]\n")
    told = {kind: of_riskiest(found, kind) for kind in (PROBABILITY, BASELINE, BOUND)}
    places = np.argsort(told[BASELINE] - told[PROBABILITY])[:10]
    columns = {"row": found["row"], "column": found["riskiest"], "probability": told[PROBABILITY]}
    columns |= {"without release": told[BASELINE], "at most expected": told[BOUND]}
    rows = [[escape(number(values[place])) for values in columns.values()] for place in places]
    show("The ten records of whom the release tells most", list(columns), rows, words=("column",))
    show_files(out)
    console.print(
        f"Guaranteed: {release.guarantee}\nAssumed for the rest: the columns are jointly normal"
        f"{escape(release.schema.scales_in_words)}, and the adversary has every record but one, the noisy moments "
        "and the mechanism. The guarantee assumes none of that. 'At most expected' is an average over releases "
        "and people; one person in one release can have more, by luck."
    )
    show_notes(records.notes)
