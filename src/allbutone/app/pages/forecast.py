"""What is to be released of a table, by which rule, and what that may be expected to give away."""

import hashlib
import json
import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from starlette.datastructures import QueryParams

from allbutone.app.forms import Choice, FieldError, Group, Hidden, Whole, names, read
from allbutone.app.jobs import Answer, Progress
from allbutone.app.page import RequestContext, Source, piece
from allbutone.app.pages import guaranteed, source
from allbutone.app.pages.guaranteed import Guaranteed
from allbutone.app.pages.source import Chosen
from allbutone.disclosure.budget import EXPECTED_RELEASES, EXPECTED_WITH_CLASSES, UNLIKELY, Budget, budget
from allbutone.disclosure.lineup import CONFIDENCE
from allbutone.disclosure.rule import Rule
from allbutone.model.prior import prior_entries
from allbutone.releases.ledger import Ledger, Together
from allbutone.releases.release import MOST_DATASETS
from allbutone.reports.assessment import normality_of as judge
from allbutone.reports.glossary import GLOSSARY
from allbutone.support.errors import InputError
from allbutone.support.text import at_most, chance, counted, listed
from allbutone.tables.admission import ColumnsError
from allbutone.utility.normality import Normality

RELEASE_KIND = Choice(
    "kind", "What is released", "datasets",
    "Tables of invented people, or the model's averages and relations that they would be drawn by, which tell "
    "more (paper 3.2 and 3.1).",
    {"datasets": "synthetic datasets", "parameters": "parameter draws"},
)  # fmt: skip
ROWS = Whole(
    "rows", "Rows of each dataset", "",
    "Left empty: as many as the table has. Smaller datasets tell less (n_z in the paper's section 3.2).",
    1, 10_000_000, only="kind=datasets", blank=0,
)  # fmt: skip
PROBABILITY = Choice(
    "probability", "A value is disclosed from a probability of", "0.5",
    f"{GLOSSARY['disclosed'].plain} A lower probability is stricter.",
    {"0.25": "25 %: stricter", "0.5": "50 %: as likely as not", "0.75": "75 %", "0.9": "90 %: nearly sure"},
)  # fmt: skip
NUMBER = Whole(
    "number", "How many", "1",
    "Each from parameters of its own, drawn at random. All that was ever released counts together: "
    "with 3 datasets out, 2 more are 5.",
    1, MOST_DATASETS, 1, (1, 50),
)  # fmt: skip
FORMAT = Choice(
    "format", "Format", "csv", "Of the files to download.", {"csv": "CSV", "parquet": "Parquet"},
    only="kind=datasets",
)  # fmt: skip
DRAWN = Hidden("drawn", "Release drawn", reset_by="table")
WHAT = Group("What is released", (RELEASE_KIND, NUMBER, ROWS, FORMAT, DRAWN))
RULE = Group("The rule", (PROBABILITY,))
GROUPS = (WHAT, guaranteed.ASKED, RULE)
ASKED = ("kind", "rows", "probability")  # that decide a budget, with the table
CARRIED = (*source.CARRIED, *names(GROUPS))  # from one step of the path to the next

MOST_VALUES = 5_000_000  # numbers of a release that is drawn here
MOST_FILES = 1000  # and datasets, or draws


def rows_of(asked: dict[str, Any], chosen: Chosen) -> int | None:
    """Return the rows of each dataset; None for released parameters."""
    return None if asked["kind"] == "parameters" else asked["rows"] or len(chosen.records.values)


def rule_of(asked: dict[str, Any]) -> Rule:
    """Return the rule: from which probability on a value counts as disclosed."""
    return Rule.of(float(asked["probability"]))


def ready(query: QueryParams, context: RequestContext) -> tuple[Chosen, Guaranteed | None]:
    """Return the table of an address, and what is to be guaranteed; or say that something stands in its way.

    What, the step Mend says.
    """
    try:
        if guaranteed.is_asked(query):
            return guaranteed.admitted(query, context)
        return source.chosen(query, context), None
    except ColumnsError as error:
        columns = listed([problem.column for problem in error.problems], 5)
        raise InputError(
            f"{counted(len(error.problems), 'column')} cannot be used yet ({columns})",
            "go to step 2, Mend, which says why and offers what helps",
        ) from error


@dataclass(frozen=True, eq=False)
class ReleaseRequest:
    """What an address asks to be released; `rows` is None for parameters, `guarantee` where there is none."""

    chosen: Chosen
    number: int
    rows: int | None
    rule: Rule
    format: str
    guarantee: Guaranteed | None = None

    @classmethod
    def of(cls, query: QueryParams, context: RequestContext) -> "ReleaseRequest":
        """Return what an address asks for."""
        asked, (chosen, guarantee) = read(GROUPS, query), ready(query, context)
        if chosen.keep and asked["kind"] == "datasets" and asked["rows"]:
            problem = "with columns that are kept there is a row for each person"
            raise FieldError("rows", problem, "leave it empty", where="Rows of each dataset")
        if guarantee and asked["kind"] == "parameters":
            problem = "with a guarantee datasets are released, and the noisy moments themselves, its parameters"
            raise FieldError("kind", problem, "choose synthetic datasets", where="What is released")
        rows, rule = rows_of(asked, chosen), rule_of(asked)
        return cls(chosen, asked["number"], rows, rule, asked["format"], guarantee)

    @property
    def key(self) -> tuple[Any, ...]:
        """What decides the release, but for chance."""
        return (id(self.chosen.held), self.chosen.key, self.number, self.rows, self.guarantee)

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
    def _declared(self) -> dict[str, Any]:
        """What a table file has to declare."""
        if self.guarantee is None:
            return self.chosen.entries
        return {
            "columns": {name: each for name, each in self.guarantee.schema.entries()["columns"].items() if each}
        }

    @property
    def commands(self) -> list[str]:
        """The commands that draw and judge another of the same kind; chance is never the same twice."""
        table = "demo/cohort.csv" if self.chosen.simulated else self.chosen.name
        table = f"./{table}" if table.startswith("-") else table
        again, without = self.chosen.options, self.chosen.reading.without
        lines = [["allbutone", "demo"]] if self.chosen.simulated else []
        if self.chosen.public:
            entries = prior_entries(self.chosen.prior)
            again += ["--prior", "prior.json"]
            lines.append(["echo", json.dumps(entries, ensure_ascii=False), ">", "prior.json"])
        if entries := self._declared:
            again += ["--table-file", "table.json"]
            lines.append(["echo", json.dumps(entries, ensure_ascii=False), ">", "table.json"])
        kind = ["--release", "parameters"] if self.rows is None else ["--rows", f"{self.rows}"]
        if self.guarantee:
            kind += ["--epsilon", f"{self.guarantee.epsilon:g}", "--delta", f"{self.guarantee.delta:g}"]
        if self.rows is not None and (self.chosen.keep or self.format != "csv"):
            kind = [
                *([] if self.chosen.keep else kind),
                *(["--format", self.format] if self.format != "csv" else []),
            ]
        number = ["--datasets", f"{self.number}"]
        lines.append(["allbutone", "synthesize", table, "--out", "release", *number, *kind, *again])
        alike = [] if self.chosen.held.value.header else ["--no-header"]
        alike += ["--complete-cases"] if self.chosen.reading.complete_cases else []
        lines.append(["allbutone", "report", table, "release", *alike])
        if self.rule != Rule():
            lines[-1] += ["--probability", f"{self.rule.probability:g}"]
        first = [f"# first: leave row {listed([str(row) for row in without])} out of {table}"] if without else []
        return first + [" ".join(part if part == ">" else shlex.quote(part) for part in line) for line in lines]


def ledger_of(chosen: Chosen, context: RequestContext) -> Ledger | None:
    """Return the ledger of a table, as it is now, if the app was told of one."""
    path = None if chosen.simulated else context.settings.ledger_of(chosen.name)
    return None if path is None else Ledger.at(path)


def planned(request: ReleaseRequest, context: RequestContext, step: Progress) -> Budget:
    """Return the budget with what the ledger says is out already: the one of which every page speaks."""
    chosen, ledger = request.chosen, ledger_of(request.chosen, context)
    if ledger is None or not ledger.is_there:
        return budget_of(chosen, request.rows, request.rule, step)
    earlier = ledger.together(chosen.records, mixed=chosen.is_mixed)
    key = repr([one.files for one in ledger.counted])
    return budget_of(chosen, request.rows, request.rule, step, earlier, key)


def budget_of(
    chosen: Chosen, rows: int | None, rule: Rule, step: Progress, out: Together | None = None, key: str = ""
) -> Budget:
    """Return the budget, which is simulated once for all pages; `out`: what is out already, known by a `key`."""

    def plan() -> Budget:
        expected = EXPECTED_WITH_CLASSES if chosen.classes else EXPECTED_RELEASES
        released = out.release if out and out.any else None
        with step("Simulating releases", expected) as watch:
            asked: dict[str, Any] = {
                "rows": rows,
                "probability": rule,
                "release": released,
                "watch": watch,
            }
            return budget(chosen.records, alternatives=True, **asked, **chosen.how)

    return chosen.held.get_or_compute(("budget", *chosen.key, rows, rule, key), plan)


class _NotYet(InputError):
    """A budget that nobody has asked for yet."""


class _Known(Progress):
    """Lets nothing be simulated: only what is there already is shown."""

    def __call__(self, step: str, parts: int | None) -> Any:
        """Refuse to begin."""
        raise _NotYet(step)


def normality_of(chosen: Chosen, step: Progress) -> Normality | None:
    """Judge, once for all pages, whether the normal model fits: given the categories and what is kept, if any."""
    key = ("normality", chosen.reading, chosen.keep, chosen.missing, chosen.classes, chosen.cells)
    return chosen.held.get_or_compute(key, lambda: judge(chosen.records, chosen.synthesizer.mechanism, step))


@dataclass(frozen=True, eq=False)
class Forecast:
    """What a release may be expected to give away, before it is drawn."""

    request: ReleaseRequest
    plan: Budget

    @property
    def in_all(self) -> int:
        """How many are out then, as far as the budget can tell."""
        return min(self.plan.before + self.request.number, self.plan.case.most)

    @cached_property
    def chances(self) -> np.ndarray:
        """Each record's, of all that is out then."""
        return self.plan.chances(self.in_all)

    @property
    def beyond(self) -> bool:
        """Whether it is more than the budget allows."""
        return self.request.number > self.plan.confident_count

    @property
    def anybody(self) -> float:
        """The chance that anybody is disclosed: that of the budget's figure."""
        return self.plan.anybody(self.in_all)

    @property
    def at_stake(self) -> list[dict[str, Any]]:
        """Those likelier to be disclosed than the budget accepts, the likeliest at least."""
        return people_lines(self.plan, self.in_all, max(1, int(np.sum(self.chances > 1 - CONFIDENCE))))


@dataclass(frozen=True)
class Others:
    """Those who are counted, not listed: how many, the highest of their chances, and how that is told."""

    many: int
    highest: float
    words: str


def likely_people(plan: Budget, count: int, most: int) -> tuple[list[dict[str, Any]], Others]:
    """Return lines of those whose chance is not next to nothing, `most` at most, and the others."""
    chances = np.sort(plan.chances(count))[::-1]
    lines = people_lines(plan, count, max(1, min(most, int(np.sum(chances >= UNLIKELY)))))
    rest = chances[len(lines) :]
    highest = float(max(rest, default=0.0))
    if highest >= UNLIKELY:
        words = at_most(highest)
    elif plan.case.has_law:
        words = f"below {chance(UNLIKELY)} by the closed form"
    else:
        words = f"seen in none of {counted(plan.releases_of(count), 'simulated release')}"
    return lines, Others(len(rest), highest, words)


def people_lines(plan: Budget, count: int, most: int) -> list[dict[str, Any]]:
    """Return a line for each of those likeliest to be disclosed by `count` in all, who sets the limit first.

    `name`: what a long table calls the person, else the row.
    """
    places, chances = plan.ranked(count)[:most], plan.chances(count)
    leverage = plan.leverage if plan.case.has_law else np.full(len(chances), np.nan)
    columns = (plan.rows[places], plan.case.records.persons[places], chances[places], leverage[places])
    keys = ("row", "name", "chance", "leverage")
    return [dict(zip(keys, line, strict=True)) for line in zip(*columns, strict=True)]


def chip(query: QueryParams, context: RequestContext, step: Progress, beside: str = "") -> Answer:
    """Say on every step how much is allowed, out and left; nothing where the table is not ready for that.

    beside: what else has to be known to read it.
    """
    try:
        if guaranteed.is_asked(query):
            asked = read((guaranteed.ASKED,), query)
            return Answer({"chip": piece("chip.html", plan=None, guarantee=asked)})
        request = ReleaseRequest.of(query, context)
        plan = planned(request, context, step)
    except InputError:  # another answer of the page says what is wrong
        return Answer({"chip": piece("chip.html", plan=None, guarantee=None)})
    looked = request.chosen.simulated or ledger_of(request.chosen, context) is not None
    words = beside or ("" if looked else "no ledger")
    return Answer({"chip": piece("chip.html", plan=plan, words=words)})


OF_CHIP = (*source.CARRIED, *ASKED, *names((guaranteed.ASKED,)))
CHIP = {"chip": Source(chip, OF_CHIP, slow=True, later=True)}
# where the table may still change, and nobody asked for the budget of every change
CHIP_IF_KNOWN = {"chip": Source(lambda query, context, step: chip(query, context, _Known()), OF_CHIP, later=True)}
