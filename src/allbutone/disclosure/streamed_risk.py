"""Risk of all records of a table that stays in its engine: one block after another, never more than that."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np

from allbutone.adversary.released_bounds import before_limits
from allbutone.disclosure.per_record import require_same_mechanism, risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.standing_out import far_out
from allbutone.disclosure.told_values import Among, ToldValues
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.releases.joined import Released
from allbutone.releases.mixed.release import reading_of
from allbutone.support.errors import InputError
from allbutone.tables.engines.lazy_records import BLOCK_ROWS, LazyRecords
from allbutone.tables.records import Records

KEPT = 3000  # people of whom all is held to the end: as many as a figure shows


def stream_risk(
    records: LazyRecords,
    release: Released,
    prior: NIW | None = None,
    *,
    key: str | None = None,
    block_rows: int = BLOCK_ROWS,
    rng: np.random.Generator | None = None,
    **asked: Any,
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the columns of `risk_columns`, of which `asked` are arguments, for one block of records after another.

    The adversary has all other records, of all blocks: these enter by their moments, which the engine has added
    up, less the block's own. Those of the records that make up nearly all of a direction are kept apart, so that
    nothing is lost by taking them out. The same random points serve every block. Values that limits or coarse
    rounding changed enter as one draw of what they were (`before_limits`).
    """
    prior = require_same_mechanism(records, release, prior)
    far, near = far_out(records, prior)
    release = before_limits(release, far, near)
    seen, seed = 0, 0 if rng is None else int(rng.integers(2**63))
    for block, keys in records.blocks(block_rows, key):
        found = risk_columns(
            block,
            release,
            prior,
            rng=np.random.default_rng(seed),
            elsewhere=_others(block, far, near),
            judged=len(records),
            **asked,
        )
        seen += len(block.values)
        yield found if keys is None else {"key": keys, **found}
    if seen != len(records):
        raise InputError(
            f"the table had {len(records):,} records when it was added up and {seen:,} when they were judged",
            "see that nobody writes to it, and try again",
        )


def risk_where_it_lies(
    table: Any, release: Released, prior: AnyPrior | None, how: dict[str, Any], **asked: Any
) -> Any:
    """Return the dataframe of `risk` for a table that stays in its engine, read as `how` says."""
    records = LazyRecords.of(table, **reading_of(release, how))
    given = None if prior is None else prior_of(prior, records.columns, records.schema)
    blocks = list(stream_risk(records, release, given, **asked))
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    return nw.from_dict(columns, backend=records.library).to_native()  # type: ignore[arg-type]


def _others(block: Records, far: np.ndarray, near: Moments) -> Moments:
    """Return the moments of all records that are not in the block, given those far out and of all others."""
    same = (block.values[:, None, :] == far).all(axis=2)  # no two of these are the same
    others = near.without(Moments.of(block.values[~same.any(axis=1)]))
    return others.merge(Moments.of(far[~same.any(axis=0)]))


@dataclass
class WorstSoFar:
    """What is held of the blocks that have passed: how many are disclosed, and those who come closest to it.

    found: as `risk_columns` has it, of these people.
    """

    rule: Rule
    people: int = 0
    disclosed: int = 0
    found: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, block: dict[str, np.ndarray]) -> None:
        """Count a block, and keep of it and of those kept so far the people first in order."""
        self.people += len(block["row"])
        self.disclosed += int(np.sum(block["disclosed"]))
        both = {
            name: np.concatenate([self.found[name], column]) if self.found else column
            for name, column in block.items()
        }
        kept = np.sort(ToldValues.of(both, self.rule).order[:KEPT])
        self.found = {name: column[kept] for name, column in both.items()}

    @property
    def among(self) -> Among:
        """Of how many these are the worst."""
        return Among(self.people, self.disclosed)
