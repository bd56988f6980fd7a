"""What is to be released, and when a value is disclosed: what the pages about one's own data ask alike."""

from dataclasses import dataclass
from typing import Any

from allbutone.app.forms import Choice, Whole
from allbutone.app.jobs import Progress
from allbutone.app.page import RequestContext
from allbutone.app.pages.source import Chosen
from allbutone.disclosure.budget import Budget, plan_budget
from allbutone.disclosure.rule import Rule
from allbutone.releases.ledger.file import read_ledger
from allbutone.releases.ledger.together import Together, with_earlier
from allbutone.reports.glossary import GLOSSARY
from allbutone.utility.given_categories import given_categories
from allbutone.utility.normality import Normality, check_normality


@dataclass(frozen=True)
class Rows(Whole):
    """A number of rows; nothing stands for as many as the table has."""

    def value(self, text: str) -> int:
        """Return the number, 0 for as many as the table has."""
        return super().value(text) if text.strip() else 0


@dataclass(frozen=True)
class RuleChoice(Choice):
    """From which probability on a value counts as disclosed."""

    def value(self, text: str) -> Rule:
        """Return the rule."""
        return Rule.of(float(super().value(text)))


KIND = Choice(
    "kind", "What is released", "datasets",
    "Tables of invented people, or the model's averages and relations that they would be drawn by, which tell "
    "more (paper 3.2 and 3.1).",
    {"datasets": "synthetic datasets", "parameters": "parameter draws"},
)  # fmt: skip
ROWS = Rows(
    "rows", "Rows of each dataset", "",
    "Left empty: as many as the table has. Smaller datasets tell less (n_z in the paper's section 3.2).",
    1, 10_000_000,
    only="kind=datasets",
)  # fmt: skip
PROBABILITY = RuleChoice(
    "probability", "A value is disclosed from a probability of", "0.5",
    f"{GLOSSARY['disclosed'].plain} A lower probability is stricter.",
    {"0.25": "25 %: stricter", "0.5": "50 %: as likely as not", "0.75": "75 %", "0.9": "90 %: nearly sure"},
)  # fmt: skip


def rows_of(asked: dict[str, Any], chosen: Chosen) -> int | None:
    """Return the rows of each dataset; None for released parameters."""
    return None if asked["kind"] == "parameters" else asked["rows"] or len(chosen.records.values)


def budget_of(
    chosen: Chosen, rows: int | None, rule: Rule, step: Progress, out: Together | None = None, key: str = ""
) -> Budget:
    """Return the budget, which is simulated once for all pages; `out`: what is out already, known by a `key`."""

    def plan() -> Budget:
        with step("Trying numbers of datasets", None) as watch:
            return plan_budget(
                chosen.records,
                chosen.prior,
                rows=rows,
                probability=rule,
                earlier=out.release if out and out.any else None,
                rng=0,
                watch=watch,
            )

    return chosen.held.get_or_compute(("budget", *chosen.key, rows, rule, key), plan)


def out_already(chosen: Chosen, context: RequestContext) -> tuple[Together | None, str]:
    """Return what the ledger says is out of a table, and a key of it."""
    path = None if chosen.simulated else context.settings.ledger_of(chosen.name)
    ledger = read_ledger(path) if path else None
    if ledger is None:
        return None, ""
    return with_earlier(ledger, chosen.records, mixed=chosen.is_mixed), repr([one.files for one in ledger.counted])


def normality_of(chosen: Chosen, step: Progress) -> Normality:
    """Judge, once for all pages, whether the normal model fits: given the categories and what is kept, if any."""

    def judge() -> Normality:
        if not chosen.is_mixed:
            return check_normality(chosen.records)
        mechanism = chosen.mixed_synthesizer().mechanism
        return check_normality(given_categories(chosen.records, mechanism), of=chosen.records)

    with step("Judging the model", None):
        return chosen.held.get_or_compute(("normality", chosen.reading, chosen.keep), judge)
