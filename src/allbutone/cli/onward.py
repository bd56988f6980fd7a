"""Which command to run next: what each command proposes, with all that was asked of it and holds for the next."""

import os
import shlex
from collections.abc import Container, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import typer

from allbutone.cli.options import Address, ReleaseKind, TableOptions, flag_of
from allbutone.cli.output import show_next
from allbutone.disclosure.budget import Budget
from allbutone.disclosure.rule import judged_categories, rise_in_odds
from allbutone.releases.ledger import Entry, Ledger
from allbutone.releases.release import Release
from allbutone.releases.several import Released
from allbutone.releases.together import lost
from allbutone.reports.assessment import Assessment
from allbutone.reports.findings import instead_of, passing
from allbutone.support.errors import Cure

# where and how a command writes is its own affair; all else that it was asked holds for the next one, too
OWN = frozenset({"out", "force", "seed", "new_repeat_key", "repeat_key", "format", "public"})
HOW_MUCH = "how much of this table may be given out before a value of anybody is disclosed:"


def following(context: typer.Context, command: str, *arguments: object, **options: Any) -> list[str]:
    """Return the command to run next: with every option given to this one that the next one has as well.

    `options` come on top, or in place of those; what is the default anyway is left out.
    """
    takes = {
        parameter.name: parameter
        for parameter in context.find_root().command.commands[command].params  # type: ignore[attr-defined]
        if parameter.opts[0].startswith("--")
    }
    given = {
        name: value
        for name, value in context.params.items()
        if name in takes.keys() - OWN and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    typed = [command, *map(as_argument, arguments)]
    for name, value in (given | options).items():
        if str(value) != str(takes[name].default):
            typed += as_typed(takes[name].opts[0], value)
    return typed


def as_argument(value: object) -> str:
    """Return a name as it is typed, so that none reads as an option."""
    return f"./{value}" if str(value).startswith("-") else str(value)


def as_typed(option: str, value: Any) -> list[str]:
    """Return an option and its value as they are typed: a list with commas, a flag without a value."""
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if not isinstance(value, list | tuple):
        return [option, str(value)]
    value = [each if isinstance(each, str) else f"{each:g}" for each in value]
    if any("," in each for each in value):  # a name that holds a comma goes in an option of its own
        return [word for each in value for word in (option, each)]
    return [option, ",".join(value)] if value else []


def in_flags(cure: Cure, options: Container[str]) -> str:
    """Word a cure for the command line: the argument that does it as an option, if it is one of `options`."""
    name, value = cure.argument, cure.value
    if value is False:  # header=False is --no-header
        name, value = f"no_{name}", True
    if name not in options:
        return cure.words
    typed = f"{flag_of(name)} …" if value is None else shlex.join(as_typed(flag_of(name), value))
    return f"{cure.words} ({typed})" if typed else cure.words


def free_name(name: str | Path, *endings: str) -> Path:
    """Return the name, or the first of name-2, name-3, … that is free, also with each of the other endings."""
    first = Path(name)
    places = chain([first], (first.with_stem(f"{first.stem}-{turn}") for turn in count(2)))
    return next(
        place
        for place in places
        if not any(os.path.lexists(each) for each in (place, *map(place.with_suffix, endings)))
    )


def from_here(path: Path) -> str:
    """Return a path as one types it here, where it is not longer so."""
    return min(str(path), os.path.relpath(path), key=len)


def next_after_describe(context: typer.Context, table: Path, draft: Path | None, gaps: bool, usable: bool) -> None:
    """Propose a draft of a table file, or a release by the one that was drafted."""
    if not usable:
        show_next("choose other columns, or another table:", ["describe", "--help"])
    elif draft is None:
        words = "draft a table file with these proposals, to confirm and fill in:"
        show_next(words, following(context, "describe", table, out=free_name("table.toml")))
    else:
        words = "make a release with it" + gaps * " (or with --missing impute, to use the rows with gaps, too)"
        options = {"table_file": draft, "complete_cases": gaps, "out": free_name("release")}
        show_next(f"{words}:", following(context, "synthesize", table, **options))


def next_after_release(
    context: typer.Context, table: Path | Address, release: Path, before: Path | None = None, **options: Any
) -> None:
    """Propose the risk of a release, with that of the release that it was made like: it is out already."""
    releases = [release] if before is None else [before, release]
    with_it = "" if before is None else f" together with {before}"
    onward = following(context, "risk", table, *releases, out=free_name("risk.csv", ".html"), **options)
    show_next(f"see what it gives away of each record{with_it}, before anyone else does:", onward)


def next_after_risk(
    context: typer.Context,
    source: TableOptions,
    folders: Sequence[Path],
    release: Released,
    columns: dict[str, np.ndarray],
    known: bool,
    elsewhere: bool,
) -> None:
    """Propose the adversary who knows all of a person but a category; after that one, the report or the budget."""
    mixed, table = not release.mechanism.is_normal, source.table
    if mixed and not known:
        # not the pattern of gaps, which is judged like a category
        names = [name for name in judged_categories(columns) if name in release.mechanism.categories]
        if names:
            told_most = max(names, key=lambda name: float(np.max(rise_in_odds(columns, name))))
            others = [name for name in release.order if name != told_most and name not in release.mechanism.keep]
            out = free_name("risk-known.csv", ".html")
            onward = following(context, "risk", table, *folders, known=others, out=out)
            show_next(f"see whose {told_most} is disclosed to somebody who knows all else of them:", onward)
            return
    if len(folders) > 1 or (mixed and not elsewhere):
        words = "the case for or against it:" if len(folders) == 1 else "the case for or against the last of them:"
        options: dict[str, Any] = {"out": free_name("report.html"), "prior": None}
        show_next(words, following(context, "report", table, folders[-1], **options))
        return
    options = {"out": free_name("budget.csv", ".html")}
    if release.rows and not mixed:
        options["rows"] = max(release.rows)
    if not mixed and isinstance(release, Release) and release.parameters is not None:
        options["release"] = ReleaseKind.both if release.rows else ReleaseKind.parameters
    options |= {"like": folders[-1], **_as_released(source)}
    show_next(HOW_MUCH, following(context, "budget", table, **options))


def _as_released(source: TableOptions) -> dict[str, None]:
    """Return the options that a release says itself; without a header --columns are the names of all."""
    return {"prior": None, "drop": None} | ({} if source.no_header else {"columns": None})


def next_after_budget(
    context: typer.Context, table: Path | Address, plan: Budget, out: Path, keeps: bool, elsewhere: bool
) -> None:
    """Propose to release as much as the budget has left, or a budget that may have more."""
    left, size = plan.confident_count, plan.rows_of_each
    if elsewhere:
        if left:
            some = {"out": free_name("release"), "datasets": min(left, 5)}
            show_next("draw some of it, and judge that:", following(context, "synthesize", table, **some))
    elif left > 0:
        rows: dict[str, Any] = {"rows": None} if keeps else {}  # then there is a row for each person
        words = "release so many more:" if plan.before else "release that much:"
        show_next(words, following(context, "synthesize", table, out=free_name("release"), datasets=left, **rows))
    elif plan.before and plan.in_all:
        words = "it is used up; see what was released before, and void what nobody has:"
        show_next(words, following(context, "ledger", "show", table))
    elif size is None or size == 1 or keeps:
        show_next("see what leaving columns out would allow:", ["budget", "--help"])
    else:
        fewer = {"rows": max(1, size // 10), "out": free_name(out, ".html")}
        show_next("see what smaller datasets would allow:", following(context, "budget", table, **fewer))


def next_after_report(
    context: typer.Context,
    table: Path | Address,
    folder: Path,
    assessment: Assessment,
    entry: Entry | None,
    ledger: Path | None,
) -> None:
    """Propose the public page; where the release must not go out, how it is voided, and what to draw instead."""
    if assessment.verdict.may_go_out:
        onward = following(context, "report", table, folder, public=True, out=free_name("public.html"))
        show_next("a page about the release that may go with it:", onward)
        return
    if entry:
        void = ["ledger", "void", str(table), f"{entry.number}", "--reason", "drawn, never given out"]
        void += ["--ledger", str(ledger)] if ledger else []
        show_next("do not give it out; if nobody has it, say so:", void)
    budget = assessment.budget
    if budget is None:
        return
    options: dict[str, Any] = {"out": free_name("release"), "like": folder}
    if budget.noun == "parameter draw":
        options["release"] = ReleaseKind.parameters
    elif not assessment.release.mechanism.keep:
        options["rows"] = budget.rows_of_each
    datasets = instead_of(budget, assessment.count)
    if not datasets:
        smaller = [one for one in passing(budget, assessment.count) if one.rows]
        if not smaller:
            return
        options["rows"], datasets = smaller[-1].rows, smaller[-1].datasets
    words = (
        "then draw once what the budget allows:" if entry else "what the budget allows in its place, drawn once:"
    )
    show_next(words, following(context, "synthesize", table, datasets=datasets, **options))


def next_after_public_page(context: typer.Context, table: Path, folder: Path) -> None:
    """Propose to look at the folder itself once more."""
    onward = following(context, "check", folder, table=table)
    show_next("look at the folder itself once more, before it goes out:", onward)


def next_after_check(release: Path) -> None:
    """Propose to pack a clean folder."""
    name = free_name(f"{release.resolve().name}.zip")
    show_next("put it into one file to hand out:", ["check", as_argument(release), "--zip", str(name)])


def next_without_ledger(context: typer.Context, table: Path) -> None:
    """Propose the budget of a table of which no release is recorded."""
    show_next(
        "how much may be released:", following(context, "budget", table, out=free_name("budget.csv", ".html"))
    )


def next_after_ledger(context: typer.Context, source: TableOptions, table: Path, ledger: Ledger) -> None:
    """Propose the command that says what is left, for more of what was released last."""
    # with void the argument RELEASE is a number, which is not what budget's --release means
    options: dict[str, Any] = {"out": free_name("budget.csv", ".html"), "release": ReleaseKind.datasets}
    there = [entry for entry in ledger.counted if not lost(ledger, entry)]
    if not ledger.counted:  # what was voided still says how the table is read
        there = [entry for entry in ledger.releases if not (entry.guarantee or lost(ledger, entry))]
    if there and there[-1].guarantee:
        folder, options = from_here(ledger.folder_of(there[-1])), {"out": free_name("risk.csv", ".html")}
        show_next("what the last release gives away:", following(context, "risk", table, folder, **options))
        return
    if there:
        last = there[-1]
        options |= {"like": from_here(ledger.folder_of(last)), **_as_released(source)}
        if last.rows:
            options["rows"] = last.rows[-1]
        if last.kind != ReleaseKind.datasets:
            options["release"] = ReleaseKind(last.kind)
    show_next("what is left to be released:", following(context, "budget", table, **options))


def next_after_audit(context: typer.Context, table: Path, rows: int) -> None:
    """Propose a release of as many rows that are not drawn from one fit."""
    words = "rows of which no number finds everybody: the parameters are drawn, not plugged in:"
    show_next(words, following(context, "synthesize", table, rows=rows, out=free_name("release")))


def next_after_adversaries(context: typer.Context, table: Path, folder: Path) -> None:
    """Propose the usual adversary."""
    onward = following(context, "risk", table, folder, out=free_name("risk.csv", ".html"))
    show_next("see what one who lacks nothing learns of each record:", onward)


def next_after_application(context: typer.Context, table: Path | None, prior: Path | None) -> None:
    """Propose the application of another table, or the budget of this one."""
    if table is None:
        show_next("the same for a table of your own:", ["application", "--help"])
    else:
        words = f"how much may be released{' under the flat prior' * (prior is None)}:"
        show_next(words, following(context, "budget", table, out=free_name("budget.csv", ".html")))
