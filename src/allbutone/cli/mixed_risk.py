"""How risk answers of a table with categories: what was assumed, what to ask next."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.elsewhere import Address, source_of
from allbutone.cli.limits import limits_in_words
from allbutone.cli.options import following, free_name
from allbutone.cli.output import show_next
from allbutone.cli.results import adversary_in_words, not_shown
from allbutone.disclosure.gap_risk import any_risk_columns
from allbutone.disclosure.mixed_risk import (
    judged_categories,
    require_usual_adversary,
    rise_in_odds,
)
from allbutone.disclosure.rule import Rule
from allbutone.model.moments import Moments
from allbutone.releases.mixed.release import Release
from allbutone.support.devices import require_processor
from allbutone.support.text import bell_curves, counted
from allbutone.tables.names import split_names
from allbutone.tables.records import Records


def mixed_risk(
    context: typer.Context,
    records: Records,
    release: Release,
    watch: Callable[[int], None],
    elsewhere: Moments | None = None,
) -> dict[str, np.ndarray]:
    """Attack every record, as the options say; `elsewhere`: the moments of each cell's further ones."""
    given = context.params
    require_processor(given["device"], "a table with categories or gaps")
    require_usual_adversary(given["prior"], given["lacking_columns"] or (), bool(given["lacking_records"]))
    return any_risk_columns(
        records,
        release,
        rule=Rule.of(given["probability"]),
        known=given["known"] or (),
        radius=given["radius"],
        mass=not given["no_mass"],
        # the integrals' random points are no secret, and a fixed start gives the same answer twice
        rng=np.random.default_rng(0),
        watch=watch,
        **({} if elsewhere is None else {"elsewhere": elsewhere}),
    )


def mixed_assumed(
    context: typer.Context, release: Release, found: dict[str, np.ndarray], releases: Sequence[object]
) -> str:
    """Say what the risk of these releases rests on."""
    mechanism = release.mechanism
    known = [*mechanism.keep, *(name for name in _known(context, release) if name not in mechanism.keep)]
    p = len(mechanism.measurements)
    what = bell_curves(p, "measurement") + mechanism.schema.scales_in_words
    if mechanism.categories:
        what = f"in each of {counted(mechanism.prior.cells.count, 'cell')} {what}"
    words = f"Assumed: {what}, {adversary_in_words(releases, known)}"
    if mechanism.categories and "relative_error" in found:
        words += (
            " Exposure, relative error and mass in the file are those of the measurements if the adversary has "
            "the categories right; the gain is of everything at once."
        )
    return escape(f"{words}{limits_in_words(release)}\n{not_shown(releases)}")


def next_after_mixed(
    context: typer.Context, table: Path | Address, release: Release, found: dict[str, np.ndarray]
) -> None:
    """Name the adversary who knows all of a person but one category; after that one, the report or the budget."""
    # not the pattern of gaps, which is judged like a category
    names = [name for name in judged_categories(found) if name in release.mechanism.categories]
    folders = context.params["release_dir"]
    done = context.params["known"] or not names
    if done and source_of(context, table) is not None:
        words = "how much of this table may be given out before a value of anybody is disclosed:"
        options = {"out": free_name("budget.csv", ".html"), "like": folders[-1], "drop": None, "columns": None}
        show_next(words, following(context, "budget", table, **options))
        return
    if done:
        options = {"out": free_name("report.html")}
        words = "the case for or against it:" if len(folders) == 1 else "the case for or against the last of them:"
        show_next(words, following(context, "report", table, folders[-1], **options))
        return
    told_most = max(names, key=lambda name: float(np.max(rise_in_odds(found, name))))
    known = [name for name in release.order if name != told_most and name not in release.mechanism.keep]
    out = free_name("risk-known.csv", ".html")
    command = following(context, "risk", table, *folders, known=known, out=out)
    show_next(f"see whose {told_most} is disclosed to somebody who knows all else of them:", command)


def _known(context: typer.Context, release: Release) -> list[str]:
    given = context.params["known"]
    return split_names(given, set(release.order)) if given else []
