"""The budget: how many datasets may be released before a value of anyone is disclosed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.disclosure.alternatives import Alternative, alternatives_of
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.lineup import MOST, Lineup, largest, likeliest
from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.table_releases import TableReleases
from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.joined import JoinedRelease, OfFewer, Released, ReleasesByPrior
from allbutone.support.errors import InputError
from allbutone.support.notebook import paragraphs
from allbutone.support.text import counted
from allbutone.tables.engines.lazy_records import stays
from allbutone.tables.records import Records

COUNTS = (1, 2, 5, 10, 20, 50, 100)  # of datasets, for which every record's exposure is listed
RELEASES = 200  # that are simulated
ACCEPTED = 4  # of them may disclose anyone: were it one in twenty, so few would be seen in 3 cases of 100
PEOPLE = 64  # who are attacked in each
WORK = 1.2e7  # numbers in the wells of a simulation that is worth waiting for


@dataclass(frozen=True, eq=False, kw_only=True)
class Budget:
    """What may be released of a table, and what sets the limit.

    A dataset stands for whatever is counted: a synthetic dataset, or a parameter draw.

    law: what the records' risk depends on besides where they stand, and its closed form.
    rule: when a value counts as disclosed.
    lineup: the people, from the highest leverage down, and the closed form of their chances.
    rows: each record's number in the table, from 1.
    confident_count: the most datasets of which, with 95 % confidence, no release discloses anyone; 0 if not even
    one.
        Where there were earlier releases, how many more.
    limiting_row: the record likeliest to be disclosed by one dataset more, counted from 1.
    limiting_column: the value of it that would be.
    simulated: how many releases of so many datasets were simulated and attacked exactly, and `passed`, how many of
        them disclosed someone; 0 where the closed form alone decided.
    before: how many datasets and draws were released before, and are counted in.
    alternatives: what would allow more, or less.
    """

    law: ExposureLaw
    rule: Rule
    lineup: Lineup
    rows: Int[np.ndarray, " n"]
    columns_of_table: tuple[str, ...]
    confident_count: int
    limiting_row: int
    limiting_column: str
    simulated: int = 0
    passed: int = 0
    before: int = 0
    alternatives: list[Alternative] = field(default_factory=list)

    @property
    def leverage(self) -> Float[np.ndarray, " n"]:
        """Each record's, in the order of the table."""
        return self.lineup.leverage

    @property
    def what(self) -> str:
        """The thing that is counted: datasets of so many rows, or parameter draws."""
        return "parameter draws" if self.law.rows is None else f"datasets of {self.law.rows:,} rows"

    def __repr__(self) -> str:
        """Return the verdict, which is what there is to read of a budget."""
        return f"Budget: {self.sentence}"

    def _repr_html_(self) -> str:
        return paragraphs(self.sentence, self.assumptions)

    @property
    def sentence(self) -> str:
        """The verdict, for a board."""
        one = self.what.replace("draws", "draw").replace("datasets", "dataset")
        more = "more " if self.before else ""
        count = self.confident_count
        if count == 0:
            verdict = f"Not even one {more}{one} may be released"
        elif count >= MOST:
            verdict = f"At least {count:,} {more}{self.what}, the most that were tried, may be released"
        elif count == 1:
            verdict = f"One {more}{one} may be released, but not two,"
        else:
            verdict = f"Up to {count:,} {more}{self.what} may be released"
        reason = "if no value of anyone is to be disclosed (95\u00a0% sure)"
        who = f"{self.limiting_column} of row {self.limiting_row} sets the limit"
        after = (
            f" This counts what was released earlier ({self.before:,}), as it was drawn." if self.before else ""
        )
        return f"{verdict} {reason}; {who}.{after}"

    @property
    def assumptions(self) -> str:
        """What the verdict rests on, and what it is not."""
        how = "The number comes from a closed form"
        if self.simulated:
            how = (
                f"The number was checked on {counted(self.simulated, 'simulated release')} of this very table, "
                f"whose likeliest records were attacked exactly: {self.passed:,} disclosed someone"
            )
        return (
            f"{self.rule.in_words} Assumed: the records are jointly normal; the prior was written without looking "
            "at them; the adversary has every other record, the release and the mechanism. "
            f"{how}. This is a prediction, not a guarantee: an adversary who knows some of a person's values, or "
            "data that are not normal, can do better."
        )

    def chances(self, count: int) -> Float[np.ndarray, " n"]:
        """Return each record's own chance that a release of `count` discloses a value of it (closed form).

        What was released before counts as if it were of the same kind.
        """
        found = np.zeros(len(self.rows))
        found[self.lineup.order] = self.lineup.chances(count + self.before)
        return found

    @property
    def places(self) -> Int[np.ndarray, " n"]:
        """The places of all records, who is likeliest to be disclosed by one dataset more first."""
        return _places(self.lineup, self.confident_count + 1 + self.before)

    def columns(self, counts: tuple[int, ...] = COUNTS) -> dict[str, np.ndarray]:
        """Return a row a record: leverage, its own chance at the budget and at twice that, expected exposures."""
        at = max(self.confident_count, 1)
        return {
            "row": self.rows,
            "leverage": self.leverage,
            f"chance_at_{at}": self.chances(at),
            f"chance_at_{2 * at}": self.chances(2 * at),
            "threshold_datasets": self.law.threshold(self.leverage),
        } | {f"exposure_at_{count}": self.law.exposure(self.leverage, count) for count in counts}


def budget(
    table: Any,
    prior: AnyPrior,
    *,
    rows: int | None,
    probability: float = 0.5,
    **how_to_read: Any,
) -> Any:
    """Return a dataframe, in the table's own library, with what each record allows to be released.

    `rows` a dataset, or None for released parameters. `plan_budget` gives the verdict over the whole table.
    How the table is read is said as to `Records.of` (schema, complete_cases, …).

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> abo.budget(cohort, abo.NIW.flat(5), rows=503).column_names[:2]
    ['row', 'leverage']
    """
    records = Records.of(table, **how_to_read)
    plan = plan_budget(records, prior, rows=rows, probability=probability, alternatives=False)
    return nw.from_dict(plan.columns(), backend=records.backend).to_native()  # type: ignore[arg-type]


def plan_budget(
    table: Any,
    prior: AnyPrior,
    *,
    rows: int | None,
    probability: float | Rule = 0.5,
    earlier: AnyRelease | None = None,
    alternatives: bool = True,
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
    **how_to_read: Any,
) -> Budget:
    """Return how many datasets of `rows` (None: parameter draws) may be released before anyone is disclosed.

    A value is disclosed when the adversary gives it at least `probability` within its tolerance (see `Rule`). The
    chance that a release discloses anyone, at most 5 %, is bounded by the sum of the records' own chances, which
    the closed form gives; where that does not take long, simulated releases of this very table check it.
    `earlier`: what was released already (one, or several in a list), which counts: exactly where releases are
    simulated, else as if of the same kind. `alternatives`: also say what would allow more. `watch` is called once
    for each number of datasets tried. How the table is read is said as to `Records.of` (schema, complete_cases,
    …).

    >>> import allbutone as abo
    >>> abo.plan_budget(abo.demo_cohort(), {"centre": 0, "spread": 1}, rows=503, rng=1).limiting_row
    212
    """
    if stays(table):
        raise InputError("this table stays in its engine", "call plan_engine_budget")
    records, rule = Records.of(table, **how_to_read), Rule.of(probability)
    prior = prior_of(prior, records.columns, records.schema)
    seed = int(np.random.default_rng(rng).integers(2**63))
    lineup = Lineup.of(records, prior, rows, rule)
    released = None if earlier is None else release_of(earlier)
    before = 0 if released is None else _opinions(released)
    count = lineup.most(watch=watch)
    passed, simulated = 0, 0
    if _is_quick(lineup, count):
        attacked = TableReleases.of(records.values, prior, near_truth(records), rule, rows, released, seed)
        count, passed, simulated = _simulated(attacked, lineup, count, before, watch)
    else:
        count = max(0, count - before)
    place, column = _limiting(lineup, records, count + 1 + before)
    return Budget(
        law=lineup.law,
        rule=rule,
        lineup=lineup,
        rows=records.rows,
        columns_of_table=records.columns,
        confident_count=count,
        limiting_row=int(records.rows[place]),
        limiting_column=column,
        simulated=simulated,
        passed=passed,
        before=before,
        alternatives=alternatives_of(records, prior, lineup, rule, (place, column), watch) if alternatives else [],
    )


def _is_quick(lineup: Lineup, count: int) -> bool:
    wells = 1 if lineup.law.rows is None else count
    return RELEASES * min(PEOPLE, len(lineup.order)) * wells * lineup.law.p**2 <= WORK


def _simulated(
    attacked: TableReleases, lineup: Lineup, guess: int, before: int, watch: Callable[[int], None]
) -> tuple[int, int, int]:
    """Return the largest number of further datasets, at most the guess, that simulated releases call safe."""
    passed: dict[int, int] = {}
    people = lineup.order[:PEOPLE]

    def safe(count: int) -> bool:
        watch(1)
        passed[count] = attacked.count_disclosing(count, people, RELEASES, ACCEPTED)
        return passed[count] <= ACCEPTED

    count = largest(safe, max(guess - before, 1), guess)
    return count, passed.get(count, 0), RELEASES


def _opinions(released: Released | OfFewer) -> int:
    """Return how many datasets and parameter draws were released."""
    if isinstance(released, OfFewer):
        return _opinions(released.first)
    if isinstance(released, ReleasesByPrior):
        return sum(_opinions(part) for part in (released.first, *released.rest))
    if isinstance(released, JoinedRelease):
        return released.first.count + released.synthetic.count
    return released.count


def _places(lineup: Lineup, count: int) -> Int[np.ndarray, " n"]:
    return lineup.order[likeliest(lineup.chances(min(count, MOST)))]


def _limiting(lineup: Lineup, records: Records, count: int) -> tuple[int, str]:
    """Return the place of who is likeliest to be disclosed by so many, and the column that stands out most."""
    place = int(_places(lineup, count)[0])
    standing = lineup.look(np.array([place]))
    reach = np.where(np.isfinite(standing.needed[0]), np.abs(standing.deviation[0]), -1.0)
    return place, records.columns[int(np.argmax(reach))]
