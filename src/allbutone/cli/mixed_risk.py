"""How risk answers of a table with categories: whose are found out, what was assumed, what to ask next."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.options import following, free_name
from allbutone.cli.output import console, show, show_next
from allbutone.cli.results import adversary_in_words, not_shown
from allbutone.disclosure.gap_risk import any_risk_columns
from allbutone.disclosure.mixed_risk import (
    BASELINE,
    PROBABILITY,
    is_found,
    judged_categories,
    require_usual_adversary,
    rise_in_odds,
)
from allbutone.releases.mixed.release import MixedRelease
from allbutone.reports.findings import most_told
from allbutone.support.text import counted, percent
from allbutone.tables.names import split_names
from allbutone.tables.records import Records

SHOWN = 10


def mixed_risk(
    context: typer.Context, records: Records, release: MixedRelease, watch: Callable[[int], None]
) -> dict[str, np.ndarray]:
    """Attack every record, as the options say."""
    given = context.params
    require_usual_adversary(given["prior"], given["lacking_columns"] or (), bool(given["lacking_records"]))
    return any_risk_columns(
        records,
        release,
        known=given["known"] or (),
        radius=given["radius"],
        mass=not given["no_mass"],
        # the integrals' random points are no secret, and a fixed start gives the same answer twice
        rng=np.random.default_rng(0),
        watch=watch,
    )


def show_categories(found: dict[str, np.ndarray], records: Records) -> None:
    """Show the categories of people that the release tells most of: those found out first."""
    names = judged_categories(found)
    if not names:
        return
    lines = []
    for name in names:
        rise, flags = rise_in_odds(found, name), is_found(found, name)
        # which values are missing is judged like a category, and has no levels
        levels = records.categories.names(name) if name in records.categories.columns else None
        for place in most_told(found, name)[: max(2, SHOWN // len(names))]:
            with_release, without = (percent(found[each + name][place]) for each in (PROBABILITY, BASELINE))
            level = "" if levels is None else escape(f"{levels[place]}")
            line = (f"{found['row'][place]}", escape(name), level, with_release, without)
            lines.append((not flags[place], -rise[place], (*line, "found out" if flags[place] else "")))
    lines.sort(key=lambda each: each[:2])
    headings = ("row", "column", "level", "probability", "without release", "")
    if "relative_error" in found:  # a table of those is above
        console.print()
    rows = [each[2] for each in lines[:SHOWN]]
    show("Of whose categories the release tells most", headings, rows, words=("column", "level", ""))


def mixed_assumed(context: typer.Context, release: MixedRelease, found: dict[str, np.ndarray]) -> str:
    """Say what the risk rests on."""
    given, mechanism = context.params, release.mechanism
    known = [*mechanism.keep, *(name for name in _known(context, release) if name not in mechanism.keep)]
    p = len(mechanism.measurements)
    what = "the measurement is normal" if p == 1 else f"the {p} measurements are jointly normal"
    what += mechanism.schema.scales_in_words
    if mechanism.categories:
        what = f"in each of {counted(mechanism.prior.cells.count, 'cell')} {what}"
    words = f"Assumed: {what}, {adversary_in_words(given['release_dir'], known)}"
    if judged_categories(found):
        words += (
            " A category is found out if its probability is at least one half with the release and not without, "
            "and its odds at least doubled."
        )
        if "relative_error" in found:
            words += (
                " Exposure, relative error and mass are those of the measurements if the adversary has the "
                "categories right; the gain is of everything at once."
            )
    return escape(f"{words}\n{not_shown(given['release_dir'])}")


def next_after_mixed(
    context: typer.Context, table: Path, release: MixedRelease, found: dict[str, np.ndarray]
) -> None:
    """Name the adversary who knows all of a person but one category; after that one, another release."""
    names = judged_categories(found)
    if context.params["known"] or not names:
        show_next("make another release, if this one gives away too much:", ["synthesize", "--help"])
        return
    told_most = max(names, key=lambda name: float(np.max(rise_in_odds(found, name))))
    known = [name for name in release.order if name != told_most and name not in release.mechanism.keep]
    out, folders = free_name("risk-known.csv", ".html"), context.params["release_dir"]
    command = following(context, "risk", table, *folders, known=known, out=out)
    show_next(f"see whose {told_most} is found out by one who knows all else of them:", command)


def _known(context: typer.Context, release: MixedRelease) -> list[str]:
    given = context.params["known"]
    return split_names(given, set(release.order)) if given else []
