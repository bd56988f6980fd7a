"""How much may be released of a table with categories or columns to keep, and who allows least."""

from typing import Any

from allbutone.app.answer import Answer
from allbutone.app.jobs import Progress
from allbutone.app.page import piece
from allbutone.app.pages.source import Chosen
from allbutone.disclosure.mixed_budget import EXPECTED_RELEASES, MixedBudget, plan_mixed_budget
from allbutone.disclosure.rule import Rule
from allbutone.plots.export import untitled
from allbutone.plots.mixed_budget import mixed_budget_figure
from allbutone.releases.ledger.together import Together
from allbutone.releases.mixed.release import Release

SHOWN = 10  # of those who allow least


def mixed_budget_of(
    chosen: Chosen, rows: int | None, rule: Rule, step: Progress, out: Together | None = None, key: str = ""
) -> MixedBudget:
    """Return the budget of a table with categories or columns to keep, which is simulated once for all pages.

    `out`: what is out already, known by a `key`.
    """
    earlier = out.release if out and out.any else None
    assert earlier is None or isinstance(earlier, Release)

    def plan() -> MixedBudget:
        with step("Simulating releases", EXPECTED_RELEASES) as watch:
            return plan_mixed_budget(
                chosen.records,
                rows=rows,
                probability=rule,
                prior=chosen.prior,
                keep=chosen.keep,
                earlier=earlier,
                rng=0,
                watch=watch,
            )

    return chosen.held.get_or_compute(("budget", *chosen.key, rows, rule, key), plan)


def least_first(plan: MixedBudget) -> dict[str, list[Any]]:
    """Return every record, who sets the limit first: row number, leverage, and how many its own chances allow."""
    return {name: column[plan.places].tolist() for name, column in plan.columns().items()}


def mixed_budget_answer(plan: MixedBudget, mark: str) -> Answer:
    """Return the verdict, who allows least, and the figure."""
    lines = list(zip(*least_first(plan).values(), strict=True))[:SHOWN]
    parts = {
        "verdict": piece("data_verdict.html", plan=plan, mark=mark),
        "budget": piece("data_mixed_budget.html", plan=plan, lines=lines),
    }
    return Answer(parts, {"budget": untitled(mixed_budget_figure(plan))})
