"""What is to be released, and what no record may pass: what the pages about one's own data ask alike."""

from dataclasses import dataclass
from typing import Any

from allbutone.app.forms import Choice, Whole
from allbutone.app.jobs import Progress
from allbutone.app.pages.source import Chosen
from allbutone.disclosure.budget import Budget, plan_budget
from allbutone.disclosure.limits import Limit
from allbutone.utility.given_categories import given_categories
from allbutone.utility.normality import Normality, check_normality


@dataclass(frozen=True)
class Rows(Whole):
    """A number of rows; nothing stands for as many as the table has."""

    def value(self, text: str) -> int:
        """Return the number, 0 for as many as the table has."""
        return super().value(text) if text.strip() else 0


@dataclass(frozen=True)
class LimitChoice(Choice):
    """What no record may pass; the options are limits as texts."""

    def value(self, text: str) -> Limit:
        """Return the limit."""
        return Limit.of(super().value(text))


KIND = Choice(
    "kind", "What is released", "datasets",
    "Synthetic datasets Z, each from a draw of the parameters of its own (paper 3.2), or draws of the parameters "
    "Θ = (μ, Σ) themselves, which tell more (3.1).",
    {"datasets": "synthetic datasets", "parameters": "parameter draws"},
)  # fmt: skip
ROWS = Rows(
    "rows", "Rows of each dataset", "",
    "n_z in the paper's section 3.2. Left empty: as many as the table has.", 1, 10_000_000,
    only="kind=datasets",
)  # fmt: skip
LIMIT = LimitChoice(
    "limit", "No record may pass", "exposure=0.5",
    "Exposure is how far the adversary's best guess travels from the other records' centre (0) to the record (1). "
    "A gain of 1 nat makes a record's true values e = 2.7 times as likely. Mass is the posterior's within one "
    "Mahalanobis unit of the record; it takes longest to compute.",
    {
        "exposure=0.25": "exposure 0.25: a quarter of the way",
        "exposure=0.5": "exposure 0.5: halfway",
        "exposure=0.75": "exposure 0.75: three quarters",
        "gain=1": "information gain of 1 nat",
        "gain=3": "information gain of 3 nats",
        "mass=0.05": "posterior mass gained, 0.05",
    },
)  # fmt: skip


def rows_of(asked: dict[str, Any], chosen: Chosen) -> int | None:
    """Return the rows of each dataset; None for released parameters."""
    return None if asked["kind"] == "parameters" else asked["rows"] or len(chosen.records.values)


def budget_of(chosen: Chosen, rows: int | None, limit: Limit, step: Progress) -> Budget:
    """Return the budget, which is simulated once for all pages."""

    def plan() -> Budget:
        with step("Trying numbers of datasets", None) as watch:
            # no further counts: they change nothing of the verdict
            return plan_budget(
                chosen.records, chosen.prior, rows=rows, limit=limit, counts=(), rng=0, watch=watch
            )  # fmt: skip

    return chosen.held.get_or_compute(("budget", *chosen.key, rows, limit), plan)


def normality_of(chosen: Chosen, step: Progress) -> Normality:
    """Judge, once for all pages, whether the normal model fits: given the categories and what is kept, if any."""

    def judge() -> Normality:
        records = chosen.records
        if chosen.is_mixed:
            records = given_categories(records, chosen.mixed_synthesizer().mechanism)
        return check_normality(records)

    with step("Judging the model", None):
        return chosen.held.get_or_compute(("normality", chosen.reading, chosen.keep), judge)
