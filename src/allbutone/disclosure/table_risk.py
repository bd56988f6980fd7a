"""Risk of a whole table, read once or in blocks from where it stays, and how it falls with what is lacking."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from allbutone.adversary.gaps import before_limits
from allbutone.adversary.who import USUAL, Adversary
from allbutone.disclosure.risk import records_of_release, require_same_table, risk_columns
from allbutone.disclosure.rule import MEMBERSHIP, JudgedPeople, Rule, ToldValues, by_membership
from allbutone.disclosure.standing import far_out
from allbutone.model.location import MixedRecords
from allbutone.model.moments import Moments
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.mechanism import REFUSE, Mechanism
from allbutone.releases.release import Release, reading_of
from allbutone.releases.several import Released
from allbutone.support.errors import InputError
from allbutone.tables.engines.lazy_records import BLOCK_ROWS, LazyRecords, is_lazy
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema


@dataclass(frozen=True, eq=False)
class TableRisk:
    """The columns of `risk`, the dataframe library of the table, what people outside can know, and its schema."""

    columns: dict[str, np.ndarray]
    library: Any
    outside: tuple[str, ...]
    schema: Schema


def risk_of_table(
    table: Any, release: AnyRelease, adversary: Adversary, asked: dict[str, Any], **how_to_read: Any
) -> TableRisk:
    """Judge every record of a table that is read as `Records.of` is told, or that stays in its engine.

    `asked`: arguments of `risk_columns`.
    """
    released = release_of(release)
    if is_lazy(table) and can_be_streamed(released):
        reading = reading_of(released, how_to_read)
        reading.pop("gaps", None)  # there are none where records can be streamed
        lazy = LazyRecords.of(table, **reading)
        blocks = list(stream_risk(lazy, released, adversary, **asked))
        columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        read: Records | LazyRecords = lazy
    else:
        read = records_of_release(table, released, **how_to_read)
        columns = risk_columns(read, released, adversary, **asked)
    library = read.library if isinstance(read, LazyRecords) else read.backend
    # with a guarantee it is judged against who knows all the rest, whatever is declared
    guaranteed = isinstance(released, Release) and released.noisy is not None
    outside = read.schema.known if adversary.all_but_one_value and not guaranteed else ()
    return TableRisk(columns, library, outside, read.schema)


# ------------------------------------------------------------------------------------------- in an engine


def can_be_streamed(release: Released) -> bool:
    """Say whether the records of the release's table can come in blocks: gaps and kept columns take all."""
    mechanism = release.mechanism
    guaranteed = isinstance(release, Release) and release.noisy is not None
    return not (guaranteed or mechanism.keep or mechanism.missing != REFUSE or mechanism.has_classes)


def stream_risk(
    records: LazyRecords,
    release: Released,
    adversary: Adversary = USUAL,
    *,
    key: str | None = None,
    block_rows: int = BLOCK_ROWS,
    rng: np.random.Generator | None = None,
    **asked: Any,
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the columns of `risk_columns`, of which `asked` are arguments, for one block of records after another.

    The adversary has all other records, of all blocks: these enter by their moments, which the engine has added
    up, less the block's own. The same random points serve every block. Values that limits or coarse
    rounding changed enter as one draw of what they were (`before_limits`).
    """
    require_same_table(records, release)
    mechanism = release.mechanism
    if isinstance(release, Release):
        release = before_limits(release, mechanism.prior.plus(mechanism.prior.moments(records.sums)))
    seed = 0 if rng is None else int(rng.integers(2**63))
    how = {"judged": len(records), **asked}
    for block, keys, elsewhere in blocks_and_others(records, mechanism, block_rows, key):
        points = np.random.default_rng(seed)
        columns = risk_columns(block, release, adversary, rng=points, elsewhere=elsewhere, **how)
        yield columns if keys is None else {"key": keys, **columns}


def blocks_and_others(
    records: LazyRecords, mechanism: Mechanism, block_rows: int = BLOCK_ROWS, key: str | None = None
) -> Iterator[tuple[Records, Any, Moments]]:
    """Yield the records in blocks, with their keys, and the moments of all others of each cell.

    Those of the records that make up nearly all of a direction are kept apart, so that nothing is lost by taking
    a block out of the moments of all.
    """
    far, near = far_out(records, mechanism.prior)
    judged = 0
    for block, keys in records.blocks(block_rows, key):
        judged += len(block.values)
        yield block, keys, _others(mechanism, block, far, near)
    if judged != len(records):
        raise InputError(
            f"the table had {len(records):,} records when it was added up and {judged:,} when they were judged",
            "see that nobody writes to it, and try again",
        )


def _others(mechanism: Mechanism, block: Records, far: MixedRecords, near: Moments) -> Moments:
    """Return the moments of all records that are not in the block, given those far out and of all others."""
    here, model = mechanism.split(block), mechanism.prior
    same = (here.values[:, None, :] == far.values).all(axis=2) & (here.cells[:, None] == far.cells)
    others = near.without(model.moments(here.take(~same.any(axis=1))))
    return others.merge(model.moments(far.take(~same.any(axis=0))))


# What is held of the risk of a table that stays in its engine: counts, and those who come closest.


KEPT = 3000  # people of whom all is held to the end: as many as a figure shows
MEMBERS_KEPT = 100  # people besides, whose membership is told most surely


@dataclass
class WorstSoFar:
    """What is held of the blocks that have passed: how many are disclosed, and those who come closest to it.

    found: as `risk_columns` has it, of these people: by their values, and some by their membership. among: of how
    many these are the worst.
    """

    rule: Rule
    among: JudgedPeople = field(default_factory=lambda: JudgedPeople(0, 0))
    found: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, block: dict[str, np.ndarray]) -> None:
        """Count a block, and keep of it and of those kept so far the people first in order."""
        self.among = self.among.plus(JudgedPeople.of(block, self.rule))
        both = {
            name: np.concatenate([self.found[name], column]) if self.found else column
            for name, column in block.items()
        }
        kept = ToldValues.of(both, self.rule).order[:KEPT]
        if MEMBERSHIP in both:
            kept = np.concatenate([kept, by_membership(both)[:MEMBERS_KEPT]])
        self.found = {name: column[np.unique(kept)] for name, column in both.items()}


# How the risk of some records falls with what the adversary lacks: other records, or columns of everyone.


NUMBERS = (1, 2, 5, 10, 20)  # of records lacking besides the target
SUBSETS = 12  # of columns, over which the median of a measure is taken
MEASURED = ("distance", "relative_error", "exposure", "information_gain")


def risk_by_lacking(
    records: Records,
    release: Released,
    rows: Sequence[int],
    *,
    numbers: Sequence[int] = NUMBERS,
    rng: np.random.Generator | None = None,
    watch: Callable[[int], None] = lambda settings: None,
) -> dict[str, np.ndarray]:
    """Return what adversaries who lack ever more learn of some records (`rows`, from 1), as columns.

    One line for each kind of what is `lacking` (records, columns), `number` of them and `row`. Records besides the
    target are chosen at random for each target and number. For columns the measures are medians over all, or
    twelve random, choices of so many. `watch` is called after every number.
    """
    stream = np.random.default_rng(rng)
    targets, people = np.array([records.place_of(row) for row in rows]), len(records.values)
    columns = list(release.mechanism.measurements)

    def learned(adversary: Adversary) -> dict[str, np.ndarray]:
        found = risk_columns(records, release, adversary, mass=False, rows=targets, rng=stream)
        return {name: found[name] for name in MEASURED}

    everything = learned(Adversary())
    lines = [("records", 0, everything)]
    for number in (number for number in numbers if number + 2 <= people):
        lines.append(("records", number, learned(Adversary(lacking_records=number))))
        watch(1)
    lines.append(("columns", 0, everything))
    for number in range(1, len(columns)):
        choices = list(combinations(columns, number)) if len(columns) <= 12 else []
        if not 0 < len(choices) <= SUBSETS:
            choices = [tuple(stream.choice(columns, number, replace=False)) for _ in range(SUBSETS)]
        found = [learned(Adversary(lacking_columns=lacking)) for lacking in choices]
        medians = {name: np.median([each[name] for each in found], axis=0) for name in MEASURED}
        lines.append(("columns", number, medians))
        watch(1)
    return {
        "lacking": np.repeat([kind for kind, _, _ in lines], len(targets)),
        "number": np.repeat([number for _, number, _ in lines], len(targets)),
        "row": np.tile(records.rows[targets], len(lines)),
        **{name: np.concatenate([each[name] for _, _, each in lines]) for name in MEASURED},
    }
