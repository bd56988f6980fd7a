"""What is to be released of a table, and what that may be expected to give away, before anything is drawn."""

import hashlib
import json
import shlex
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.datastructures import QueryParams

from allbutone.app.forms import Choice, FieldError, Group, Hidden, Whole, read
from allbutone.app.jobs import Progress
from allbutone.app.page import RequestContext
from allbutone.app.pages import source
from allbutone.app.pages.mixed_plan import mixed_budget_of
from allbutone.app.pages.source import Chosen
from allbutone.app.pages.terms import KIND, PROBABILITY, ROWS, budget_of, out_already, rows_of
from allbutone.disclosure.budget import Budget
from allbutone.disclosure.lineup import CONFIDENCE, MOST, likeliest
from allbutone.disclosure.mixed_budget import MixedBudget
from allbutone.disclosure.rule import Rule
from allbutone.model.prior_file import prior_entries
from allbutone.releases.release import MOST_DATASETS

MOST_VALUES = 5_000_000  # numbers of a release that is drawn here
MOST_FILES = 1000  # and datasets, or draws


RELEASE = (
    KIND,
    Whole(
        "number", "How many", "1",
        "Each from parameters of its own, drawn at random. All that was ever released counts together: "
        "with 3 datasets out, 2 more are 5.",
        1, MOST_DATASETS, 1, (1, 50),
    ),
    ROWS,
    Choice(
        "format", "Format", "csv", "Of the files to download.", {"csv": "CSV", "parquet": "Parquet"},
        only="kind=datasets",
    ),
    Hidden("drawn", "Release drawn"),
)  # fmt: skip
GROUPS = (Group("The release", RELEASE), Group("The rule", (PROBABILITY,)))


@dataclass(frozen=True, eq=False)
class ReleaseRequest:
    """What an address asks to be released; `rows` is None for parameters."""

    chosen: Chosen
    number: int
    rows: int | None
    rule: Rule
    format: str

    @classmethod
    def of(cls, query: QueryParams, context: RequestContext) -> "ReleaseRequest":
        """Return what an address asks for."""
        asked, chosen = read(GROUPS, query), source.chosen(query, context)
        if chosen.keep and asked["kind"] == "datasets" and asked["rows"]:
            problem = "with columns that are kept there is a row for each person"
            raise FieldError("rows", problem, "leave it empty", where="Rows of each dataset")
        return cls(chosen, asked["number"], rows_of(asked, chosen), asked["probability"], asked["format"])

    @property
    def key(self) -> tuple[Any, ...]:
        """What decides the release, but for chance."""
        return (id(self.chosen.held), self.chosen.key, self.number, self.rows)

    @property
    def mark(self) -> str:
        """A short name of the release and its rule: what is confirmed for one does not serve for another."""
        return hashlib.blake2b(repr((self.key, self.rule)).encode(), digest_size=12).hexdigest()

    @property
    def values(self) -> int:
        """How many numbers the release holds."""
        records, p = self.chosen.records, self.chosen.prior.p
        if self.rows is not None:
            return self.number * self.rows * len(records.order)
        # shares of the cells, and by main effects a mean for each level and kept column; one covariance
        means = 1 + sum(records.categories.sizes) + len(self.chosen.keep)
        return self.number * (records.categories.cells - 1 + p * means + p * p)

    @property
    def bytes(self) -> int:
        """How much memory the release takes, with the table that it is of, which is kept as long."""
        return 8 * self.values + self.chosen.held.size

    @property
    def too_large(self) -> bool:
        """Whether it is too large to be drawn here."""
        return self.values > MOST_VALUES or self.number > MOST_FILES

    @property
    def noun(self) -> str:
        """What is counted."""
        return ("parameter draw" if self.rows is None else "dataset") + "s" * (self.number != 1)

    @property
    def commands(self) -> list[str]:
        """The commands that draw and judge another of the same kind; chance is never the same twice."""
        table = "demo/cohort.csv" if self.chosen.simulated else self.chosen.name
        table = f"./{table}" if table.startswith("-") else table
        again = self.chosen.options
        lines = [["allbutone", "demo"]] if self.chosen.simulated else []
        if self.chosen.public:
            entries = prior_entries(self.chosen.prior)
            again += ["--prior", "prior.json"]
            lines.append(["echo", json.dumps(entries, ensure_ascii=False), ">", "prior.json"])
        if entries := self.chosen.entries:
            again += ["--table-file", "table.json"]
            lines.append(["echo", json.dumps({"columns": entries}, ensure_ascii=False), ">", "table.json"])
        kind = ["--release", "parameters"] if self.rows is None else ["--rows", f"{self.rows}"]
        if self.rows is not None and self.format != "csv":
            kind += ["--format", self.format]
        number = ["--datasets", f"{self.number}"]
        lines.append(["allbutone", "synthesize", table, "--out", "release", *number, *kind, *again])
        alike = [] if self.chosen.held.thing.header else ["--no-header"]
        alike += ["--complete-cases"] if self.chosen.reading.complete_cases else []
        lines.append(["allbutone", "report", table, "release", *alike])
        if self.rule != Rule():
            lines[-1] += ["--probability", f"{self.rule.probability:g}"]
        return [" ".join(part if part == ">" else shlex.quote(part) for part in line) for line in lines]


@dataclass(frozen=True, eq=False)
class Forecast:
    """What a release may be expected to give away, before it is drawn."""

    request: ReleaseRequest
    plan: Budget
    chances: np.ndarray  # of all that is out then

    @property
    def beyond(self) -> bool:
        """Whether it is more than the budget allows."""
        return self.request.number > self.plan.confident_count

    @property
    def anybody(self) -> float:
        """The chance that a value of anybody is disclosed: at most the sum of all."""
        return min(1.0, float(np.sum(self.chances)))

    @property
    def at_stake(self) -> list[dict[str, Any]]:
        """Those likelier to be disclosed than the budget accepts, the likeliest at least."""
        return self.lines(max(1, int(np.sum(self.chances > 1 - CONFIDENCE))))

    def lines(self, most: int) -> list[dict[str, Any]]:
        """Return a line for each of the records likeliest to be disclosed."""
        order = self.plan.lineup.order
        places = order[likeliest(self.chances[order])[:most]]
        columns = (self.plan.rows[places], self.chances[places], self.plan.leverage[places])
        return [dict(zip(("row", "chance", "leverage"), line, strict=True)) for line in zip(*columns, strict=True)]


def forecast(request: ReleaseRequest, context: RequestContext, step: Progress) -> Forecast:
    """Return what may be expected of a release, with what is out already."""
    plan = budget_of(request.chosen, request.rows, request.rule, step, *out_already(request.chosen, context))
    return Forecast(request, plan, plan.chances(min(plan.before + request.number, MOST)))


@dataclass(frozen=True, eq=False)
class MixedForecast:
    """What a release of a table with categories or columns to keep may be expected to give away."""

    request: ReleaseRequest
    plan: MixedBudget

    @property
    def beyond(self) -> bool:
        """Whether it is more than the budget allows."""
        return self.request.number > self.plan.confident_count

    @property
    def at_stake(self) -> list[int]:
        """The rows whose own chances allow less, who sets the limit first."""
        first, *others = self.plan.places
        allow_less = [
            place for place in others if self.plan.max_datasets[place] < self.plan.before + self.request.number
        ]
        return self.plan.rows[[first, *allow_less]].tolist()


def mixed_forecast(request: ReleaseRequest, context: RequestContext, step: Progress) -> MixedForecast:
    """Return what may be expected of a release of a table with categories or columns to keep."""
    out = out_already(request.chosen, context)
    return MixedForecast(request, mixed_budget_of(request.chosen, request.rows, request.rule, step, *out))
