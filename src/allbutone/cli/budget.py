"""The commands about how much may be released: by the rule, before anyone is disclosed, or with a guarantee."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from allbutone.cli import options as ask
from allbutone.cli import output as terminal
from allbutone.cli.reading import in_memory, open_ledger, read, show_together
from allbutone.cli.synthesize import describe_prior, fit
from allbutone.disclosure.budget import COUNTS, EXPECTED_RELEASES, EXPECTED_WITH_CLASSES, UNLIKELY, Budget
from allbutone.disclosure.budget import budget as planned
from allbutone.disclosure.guarantee import LEAST_EPSILON, left_in_words, left_of_limit, rounded_down
from allbutone.disclosure.guarantee_plan import (
    ERROR_WORDS,
    ERRORS,
    NO_PRIVACY,
    ROUTES,
    GuaranteePlan,
    plan_guarantee,
    useful,
)
from allbutone.figures.budget import budget_figure, guarantee_figure
from allbutone.figures.export import write_figure
from allbutone.releases.gaussian_account import DELTA
from allbutone.releases.ledger import Ledger
from allbutone.releases.mechanism import CLASSES
from allbutone.support.errors import count_of
from allbutone.support.text import at_most, chance, counted, joined
from allbutone.tables.safe_io import fresh_file, require_distinct
from allbutone.tables.schema import Schema

MOST_AT_RISK = 10  # people who are listed
USUAL_COUNTS = ",".join(map(str, COUNTS))


@ask.command
def budget(
    *,
    context: typer.Context,
    source: Annotated[ask.TableOptions, ask.Offers(*ask.OF_TABLE, *ask.OF_ENGINE, "key", "worst")],
    model: Annotated[
        ask.ModelOptions,
        ask.Offers("prior", "like", "keep", "model", "classes", "cells", "cell_weight", "missing"),
    ],
    attack: Annotated[ask.AttackOptions, ask.Offers("secret", *ask.RULE)],
    book: ask.EarlierReleases,
    rows: ask.Rows = None,
    release: ask.Kind = ask.ReleaseKind.datasets,
    counts: str = ask.option("The numbers of datasets for which the file gives every exposure.", USUAL_COUNTS),
    verify: int | None = ask.option("Check the verdict on so many simulated releases of this very table."),
    out: ask.NumbersFile = Path("budget.csv"),
    # as in a report, so that both say the same
    seed: int = ask.option("Of the simulations; another one shows how much chance decides.", 0, min=0),
    images: ask.Images = None,
    force: ask.Force = False,
) -> None:
    """Say how many datasets, or parameter draws, may be released before a value of anyone is disclosed.

    What was released before, according to the ledger, counts.
    """
    ask.require_rows_of_datasets(rows, release)
    numbers, rule = tuple(ask.counts_in("counts", counts)), attack.rule
    if verify is not None:
        count_of("verify", verify)
    ledger = open_ledger(source, book)
    if left := "" if source.stays_in_engine or book.alone else left_in_words(ledger.content):
        _show_left(left, ledger.content, source.table)
        return
    with terminal.outputs(out, force, [*source.files, model.prior], images) as save:
        table = read(source, model, ledger.content, categories=True, may_impute=True)
        judged = None
        # out is what the ledger counts, and the release to be like, unless it was voided
        if not source.stays_in_engine:
            like = [model.like] if model.like and not ledger.voids(model.like) else []
            records, release_like = in_memory(table.records), model.release_like if like else None
            judged = ledger.judged(records, release_like, like, table.is_mixed)
        # who has the parameters learns nothing more from the datasets drawn from them
        size = (rows or table.people) if release is ask.ReleaseKind.datasets else None
        how, note = table.mechanism, ""
        if not table.is_mixed:
            synthesizer, note = fit(table.records, how["prior"])
            how = {"prior": synthesizer.prior}
        if source.stays_in_engine:
            how |= {"key": source.key, "most": source.worst}
        stream = np.random.default_rng(seed)
        how |= {"rows": size, "probability": rule, "adversary": attack.adversary, "rng": stream}
        expected = EXPECTED_WITH_CLASSES if how.get("model") == CLASSES else EXPECTED_RELEASES
        with terminal.late_progress("Simulating releases", expected, cut_short=True) as watch:
            earlier = judged.release if judged and judged.any else None
            plan = planned(table.records, release=earlier, alternatives=True, watch=watch, **how)
            if not plan.closed_form_holds:
                plan = plan.tried(watch)
        save(plan.columns(numbers), budget_figure(plan))
        checked = _verified(plan, verify, stream) if verify else ""
    terminal.say(f"{plan.sentence}\n", "bold")
    terminal.say(f"{plan.in_short}\n")
    show_together(judged)
    _show_plan(plan)
    if checked:
        terminal.say(checked)
    terminal.show_files(out)
    terminal.say(f"{plan.assumptions} In use: {describe_prior(model.prior, plan.case.mechanism.normal)}.")
    _show_next(context, source, plan, out, table.keeps, model)
    terminal.show_notes([*table.records.notes, note])


def _show_left(words: str, ledger: Ledger, table: Path | ask.Address) -> None:
    """Say what a declared total still allows: that is the budget then, since nothing else may be released."""
    terminal.say(f"{words}\n", "bold")
    terminal.say(
        "Releases of this table without a guarantee are refused, and so is what would pass the total. Guarantees "
        "add up by μ²: two halves of a total have more than half of its ε each. --alone plans by the rule instead."
    )
    left = left_of_limit(ledger)
    if left and left[0] >= LEAST_EPSILON:
        asked = [
            "synthesize",
            terminal.as_argument(table),
            "--epsilon",
            rounded_down(left[0]),
            "--delta",
            f"{left[1]:g}",
        ]
        terminal.say("\nTo spend it, once and for all:")
        terminal.say(f"  allbutone {shlex.join(asked)} --table-file TABLE_FILE --out release", "bold")
    else:
        terminal.show_next("see what was released:", ["ledger", "show", terminal.as_argument(table)])


def _verified(plan: Budget, releases: int, stream: np.random.Generator) -> str:
    """Check the number on as many simulated releases more as were asked for, and say what came of it."""
    with terminal.late_progress("Simulating releases", releases) as watch:
        checked = plan.verify(releases, stream, watch)
    return (
        f"Checked on {counted(checked['releases'], 'simulated release')} of {max(plan.in_all, 1):,} "
        f"{plan.what}, attacking the {counted(checked['attacked'], 'record')} likeliest to be disclosed: "
        f"{checked['passed']:,} disclosed someone ({checked['share']:.0%}; 95 % interval {checked['low']:.0%} to "
        f"{checked['high']:.0%})."
    )


def _show_plan(plan: Budget) -> None:
    """Show whose values are likeliest to be disclosed, what sets the limit, and what would allow more."""
    at, standing = max(plan.in_all, 1), plan.standing
    here, twice = plan.chances(at), plan.chances(2 * at)
    likely = max(1, min(MOST_AT_RISK, int(np.sum(twice >= UNLIKELY))))
    records, first, others = plan.case.records, plan.places[:likely], plan.places[likely:]
    names = standing.keys if standing and standing.keys else records.persons
    rows: list[list[Any]] = [[f"{names[place]}", chance(here[place]), chance(twice[place])] for place in first]
    who = "record" if standing and standing.keys else "person" if len(records.people) else "row"
    headings = [who, f"disclosed by {at:,}{' in all' * bool(plan.before)}", f"by {2 * at:,}"]
    if plan.case.has_law:
        headings.append("leverage")
        rows = [[*row, plan.leverage[place]] for row, place in zip(rows, first, strict=True)]
    terminal.show("Who is at most risk: how often releases would disclose something of them", headings, rows)
    if len(others):
        terminal.say(f"{len(others):,} others: {at_most(np.max(twice[others]))} by {2 * at:,}.")
    if grains := [words for words in (plan.grain(at), plan.grain(2 * at)) if words]:
        terminal.say(" ".join(grains))
    terminal.say("")
    if plan.membership_words:
        terminal.say(f"{plan.membership_words}\n")
    if plan.parts:
        terminal.say(f"{plan.parts}\n")
    if plan.alternatives:
        changes = [[each.in_words, f"{each.datasets:,}"] for each in plan.alternatives]
        how = "closed form" if plan.closed_form_holds else "each was simulated as this was"
        title = "What another choice would allow" + " in all" * bool(plan.before) + f" ({how})"
        terminal.show(title, ("change", f"{plan.noun}s"), changes, words=("change",))
        terminal.say("")
    if plan.ladder:  # a strong prior may leave nobody above the average
        lines = [list(step.values()) for step in plan.ladder]
        terminal.show("How many stand out, and what a record of that leverage allows", list(plan.ladder[0]), lines)
    if standing is not None:
        terminal.say(f"\nFetched: {standing.in_words}; {standing.others:,} stayed where they are.")


def _show_next(
    context: typer.Context,
    source: ask.TableOptions,
    plan: Budget,
    out: Path,
    keeps: bool,
    model: ask.ModelOptions,
) -> None:
    """Propose to release what is left, the report of what was allowed, or a budget that may have more."""
    table, left, size, like = source.table, plan.confident_count, plan.rows_of_each, model.like
    options: dict[str, Any] = {"out": "release", "datasets": left}
    if source.stays_in_engine:
        if left:
            options["datasets"] = min(left, 5)
            terminal.propose(context, "draw some of it, and judge that:", "synthesize", table, **options)
    elif left > 0:
        options |= {"rows": None} if keeps else {}  # then there is a row for each person
        words = "release so many more:" if plan.before else "release that much:"
        terminal.propose(context, words, "synthesize", table, **options)
    elif 0 < plan.before <= plan.in_all and like is not None:
        words = "it is used up by what it allowed; the case for or against that:"
        terminal.propose(context, words, "report", table, like, out="report.html")
    elif plan.before and plan.in_all:
        words = "it is used up; see what was released before, and void what nobody has:"
        terminal.propose(context, words, "ledger", "show", table)
    elif size is None or size == 1 or keeps:
        terminal.show_next("see what leaving columns out would allow:", ["budget", "--help"])
    elif not plan.before and (smaller := [each for each in plan.alternatives if each.rows and each.datasets]):
        most = max(smaller, key=lambda each: each.rows or 0)
        options |= {"rows": most.rows, "datasets": most.datasets}
        words = f"smaller datasets may be released: {most.datasets} of {most.rows} rows"
        terminal.propose(context, f"{words}:", "synthesize", table, **options)
    elif any(each.rows for each in plan.alternatives):  # smaller ones were tried, and none may be released
        _show_other_ways(context, source, plan, out, model)
    else:
        fewer = {"rows": max(1, size // 10), "out": out}
        terminal.propose(context, "see what smaller datasets would allow:", "budget", table, **fewer)


def _show_other_ways(
    context: typer.Context, source: ask.TableOptions, plan: Budget, out: Path, model: ask.ModelOptions
) -> None:
    """Propose to leave out the columns without which something may be released, or classes in place of cells."""
    mechanism, less = plan.case.mechanism, [each for each in plan.alternatives if each.drop and each.datasets]
    if less and not source.chosen and model.like is None:
        most = max(less, key=lambda each: each.datasets)
        words = f"without {joined(most.drop)} {counted(most.datasets, plan.noun)} may be released; plan that:"
        drop = [*(source.dropped or ()), *most.drop]
        terminal.propose(context, words, "budget", source.table, drop=drop, out=out)
    elif mechanism.categories and not mechanism.has_classes and model.prior is None and model.like is None:
        words = "nothing else that was tried may be released; see what a model of classes would allow:"
        terminal.propose(context, words, "budget", source.table, model=CLASSES, out=out)
    else:
        terminal.show_next("see what leaving columns out would allow:", ["budget", "--help"])


@ask.command
def guarantee(
    *,
    table_file: Path = ask.argument(
        "The table file: limits, best also centre and spread, of every measurement; levels of every category.",
        ask.REQUIRED,
    ),
    people: int = ask.option("The number of people in the table; it is public.", ask.REQUIRED),
    epsilon: str = ask.option("The ε to try, separated by commas.", "0.5,1,2,5,10"),
    delta: float = ask.option("The δ of the guarantee, below one over the people.", DELTA),
    correlation: float = ask.option("A public guess of the correlation of all pairs of columns.", 0.5),
    out: Path = ask.option("The .html file to write the figure to.", Path("guarantee.html")),
    images: ask.Images = None,
    force: ask.Force = False,
) -> None:
    """Tell, from public figures alone, what a guarantee would cost in accuracy.

    The table itself is not read.
    """
    ask.require_page(out, "guarantee.html")
    require_distinct([out], [table_file])
    with fresh_file(out, force=force) as page:
        tried = ask.numbers_in("epsilon", epsilon, float, "1,3,10")
        plan = plan_guarantee(Schema.of(table_file), people, tried, delta=delta, correlation=correlation)
        figure = guarantee_figure(plan)
        write_figure(figure, page)
        if images:
            terminal.write_pictures(out, images, force, [figure])
    terminal.say(f"{plan.sentence}\n", "bold")
    shown = plan.errors
    headings = ("", "ε", *(ERROR_WORDS[key] for key in shown), "")
    rows = []
    for route, means in ROUTES.items():
        for row in plan.of(route)[: 1 if route == NO_PRIVACY else None]:
            doubt = "" if useful(row) else "too inexact"
            rows.append([means, f"{row['epsilon']:g}", *(f"{row[key]:.3f}" for key in shown), doubt])
    terminal.show("Expected errors of one release", headings, rows, words=(headings[0], headings[-1]))
    terminal.say(
        f"Written: {out} (the figure; opens in any browser, offline). It tells nothing of the table, "
        f"which was not read.\nAssumed: {_assumed(plan)}; one release. The guarantee itself assumes none of that. "
        "Datasets drawn by `synthesize --epsilon` have the errors of its noise, however many there are."
    )
    if plan.useful_from is not None:
        asked = f"synthesize TABLE --epsilon {plan.useful_from:g} --delta {delta:g} --table-file {table_file}"
        asked += " --missing keep" * any(column.gaps for column in Schema.of(table_file).columns)
        terminal.say("\nTo spend it, once and for all:")
        terminal.say(f"  allbutone {asked} --out release", "bold")


def _assumed(plan: GuaranteePlan) -> str:
    """Say what the errors to expect take for granted."""
    if ERRORS[0] not in plan.errors:
        return "levels that are equally frequent"
    return (
        "normal columns whose means lie near the centre of the limits, and the "
        f"correlation {plan.correlation:g} for all pairs"
    )
