"""How synthesize makes a release of a table with categories, of columns to keep, or of one with gaps."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.options import ReleaseKind, Wanted, prior_and_worth, worded
from allbutone.cli.output import console, late_progress, show, sparkline
from allbutone.cli.reading import as_made, given_prior
from allbutone.model.location import SEPARATE
from allbutone.releases.folder import save_release
from allbutone.releases.mixed.mechanism import REFUSE, Mechanism
from allbutone.releases.mixed.release import Release
from allbutone.releases.mixed.synthesizer import Synthesizer
from allbutone.support.errors import InputError
from allbutone.support.text import bell_curves, counted, percent
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.names import split_names
from allbutone.tables.records import Records
from allbutone.utility.released_values import odd_values


class Gaps(StrEnum):
    """What to do with missing values."""

    refuse = "refuse"
    impute = "impute"
    keep = "keep"


Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="A public column that goes out as it is, or several separated by commas; the others are drawn "
        "given it."
    ),
]
Cells = Annotated[
    str | None,
    typer.Option(
        metavar="main-effects|separate",
        help="Whether each level of a category moves the means, with one spread for all (main-effects, the "
        "default), or each combination of levels has a normal of its own (separate).",
    ),
]
CellWeight = Annotated[
    float | None,
    typer.Option(
        help="How many records the prior is worth in each combination of levels; by default one for all together."
    ),
]
Missing = Annotated[
    Gaps | None,
    typer.Option(
        help="What to do with missing values: refuse them (the default), impute them (synthetic tables have "
        "none), or keep them (synthetic tables have gaps, too)."
    ),
]
OF_MIXED: dict[str, tuple[Any, Any]] = {
    "keep": (Keep, None),
    "cells": (Cells, None),
    "cell_weight": (CellWeight, None),
    "missing": (Missing, None),
}


def is_mixed(context: typer.Context, records: Records | LazyRecords) -> bool:
    """Say whether it takes more than the normal model: categories, columns to keep, or gaps."""
    given, like = context.params, as_made(context)
    if like is not None:
        return isinstance(like, Release)
    for name in ("cells", "cell_weight"):
        if given[name] is not None and not records.categories.columns:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} is about categories, and none of the columns used is one", "leave it out")
    if given["complete_cases"] and (given.get("missing") or REFUSE) != REFUSE:
        raise InputError(
            f"--complete-cases leaves no gap, and --missing {given['missing']} is about gaps", "give one of them"
        )
    gaps = isinstance(records, Records) and records.has_gaps
    return bool(records.categories.columns or given["keep"] or gaps)


def release_mixed(context: typer.Context, records: Records | LazyRecords, wanted: Wanted) -> list[str]:
    """Draw and write a release of a mixed table, say so, and return what there is to note."""
    synthesizer = Synthesizer(**mechanism_options(context, records)).fit(records)
    with late_progress("Drawing", None):
        if wanted.kind is ReleaseKind.parameters:
            release = synthesizer.sample_parameters(wanted.datasets, repeat_key=wanted.repeat_key)
        else:
            release = synthesizer.sample(
                datasets=wanted.datasets,
                rows=wanted.rows,
                parameters=wanted.kind is ReleaseKind.both,
                repeat_key=wanted.repeat_key,
            )
        save_release(release, wanted.out, format=wanted.format, force=wanted.force, finished=wanted.record)
    if release.tables:
        _describe_tables(release, wanted.out)
    else:
        _describe_parameters(release, wanted.out)
    console.print(escape(_assumed(release.mechanism, context.params["prior"])))
    if synthesizer.gaps_in_words:
        console.print(escape(synthesizer.gaps_in_words))
    return [worded(odd) for odd in odd_values(records, release)] if isinstance(records, Records) else []


def mechanism_options(context: typer.Context, records: Records | LazyRecords) -> dict[str, Any]:
    """Return what a `Synthesizer` is asked by the options, or by the release to be like."""
    given, like = context.params, as_made(context)
    if isinstance(like, Release):
        old = like.mechanism
        names = ("cells", "cell_weight", "keep", "missing")
        return {"prior": old.normal, **{name: getattr(old, name) for name in names}}
    keep = list(dict.fromkeys(split_names(given["keep"] or (), set(records.order))))
    told = {"keep": keep, "cell_weight": given["cell_weight"], "missing": given.get("missing") or REFUSE}
    if given["cells"] is not None:
        told["cells"] = given["cells"].replace("-", " ")
    return {"prior": given_prior(context), **told}


def _describe_tables(release: Release, out: Path) -> None:
    """Show the shape of the first synthetic table."""
    first = release.tables[0]
    natural = dict(zip(first.columns, first.natural.T, strict=True))
    lines = []
    for name in first.order:
        if name in natural:
            values = natural[name][~np.isnan(natural[name])]
            lines.append((escape(name), f"{values.mean():.4g}", f"{values.std():.4g}", sparkline(values)))
        else:
            place = first.categories.columns.index(name)
            codes, levels = first.categories.codes[:, place], first.categories.levels[place]
            there = codes[codes >= 0]
            shares = np.bincount(there, minlength=len(levels)) / max(len(there), 1)
            lines.append((escape(name), "", "", escape(_shares(levels, shares))))
    what = f"{counted(len(release.tables), 'dataset')} of {counted(release.rows[0], 'row')} in {escape(str(out))}"
    headings = ("column", "mean", "SD", "from lowest to highest, or levels")
    show(f"{what}: the first synthetic dataset", headings, lines, words=(headings[0], headings[-1]))


def _describe_parameters(release: Release, out: Path) -> None:
    """Show the shares of the levels in the first draw."""
    mechanism, parameters = release.mechanism, release.parameters
    assert parameters is not None
    codes = mechanism.prior.cells.codes
    lines = [
        (escape(name), escape(_shares(levels, np.bincount(codes[:, place], parameters.shares[0]))))
        for place, (name, levels) in enumerate(zip(mechanism.categories, mechanism.levels, strict=True))
    ]
    what = f"{counted(release.draws, 'parameter draw')} in {escape(str(out))}"
    if not lines:
        console.print(f"{what}: coefficients and covariances.")
        return
    show(
        f"{what}: the first draw, beside coefficients and covariances",
        ("column", "levels"),
        lines,
        ("column", "levels"),
    )


def _shares(levels: tuple[str, ...], shares: np.ndarray, most: int = 8) -> str:
    """Return levels, each with its share; of very many, the first."""
    some = [f"{level} {percent(share)}" for level, share in zip(levels[:most], shares, strict=False)]
    return ", ".join(some) + (f" and {len(levels) - most} more" if len(levels) > most else "")


def _assumed(mechanism: Mechanism, prior: Path | None) -> str:
    """Say what the model takes for granted, and what is public from now on."""
    p, sizes = len(mechanism.measurements), mechanism.sizes
    drawn = mechanism.schema.for_columns(mechanism.measurements)
    what = bell_curves(p, "measurement") + drawn.scales_in_words
    parts, weight = [], ""
    if sizes:
        cells = mechanism.prior.cells.count
        named = [
            f"{name} ({counted(size, 'level')})" for name, size in zip(mechanism.categories, sizes, strict=True)
        ]
        parts.append(f"{_and(named)} {'make' if len(sizes) > 1 else 'makes'} {counted(cells, 'cell')}")
        what = f"in each cell {what}"
        if mechanism.cells == SEPARATE:
            what += ", with means and spreads of its own"
        else:
            what += ", with means that every level moves (main effects) and the same spread in all"
        weight = f", and {_records(mechanism.cell_weight * cells)} for the shares of all cells"
    if mechanism.covariates:
        what += f"; they depend on {_and(mechanism.covariates)} in straight lines"
    parts += [
        what,
        prior_and_worth(prior, mechanism.normal) + weight,
        "each dataset from parameters of its own, drawn at random",
    ]
    lines = [f"Assumed: {'; '.join(parts)}."]
    if mechanism.keep:
        lines.append(
            f"Kept as they are, a row for each person: {', '.join(mechanism.keep)}. Whoever has the release has "
            "these of everyone: keep only what is public anyway."
        )
    public = "the names of all columns" + (" and levels" if sizes else "")
    lines.append(f"Public with the release: {public}, the model and its prior.")
    return "\n".join(lines)


def _records(weight: float) -> str:
    told = f"{weight:.2g}"
    return "one record" if told == "1" else "half a record" if told == "0.5" else f"{told} records"


def _and(names: Any) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else str(last)
