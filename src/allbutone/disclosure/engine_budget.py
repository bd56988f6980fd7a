"""The budget of a table that stays in its engine: by the closed form, from the records that stand out most."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.standing_out import MOST, StandingOut, standing_out
from allbutone.model.niw import NIW
from allbutone.support.checks import count_of
from allbutone.support.text import number
from allbutone.tables.engines.lazy_records import LazyRecords

HALFWAY = 0.5  # the expected exposure that no record may pass
COUNTS = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True, eq=False)
class EngineBudget:
    """What may be released of a table that stays in its engine, by each record's expected exposure (closed form).

    Who has a lower leverage is exposed later, so that the record of the highest sets the limit for all.
    """

    law: ExposureLaw
    standing: StandingOut
    counts: tuple[int, ...]

    @property
    def expected_count(self) -> int:
        """The most datasets that keep every record's expected exposure at or below one half."""
        return int(self.law.most(self.standing.leverage[0], HALFWAY))

    @property
    def what(self) -> str:
        """The thing that is counted: datasets of so many rows, or parameter draws."""
        return "parameter draws" if self.law.rows is None else f"datasets of {self.law.rows:,} rows"

    @property
    def limiting_record(self) -> str:
        """The record of the highest leverage, by its key where there is one."""
        return f"record {self.standing.keys[0]}" if self.standing.keys else "the record of the highest leverage"

    @property
    def sentence(self) -> str:
        """The verdict, for a board."""
        people = f"{int(self.standing.moments.count):,} records"
        kept = f"the expected exposure (closed form) of all {people} at or below one half"
        count = self.expected_count
        verdict = (
            f"Up to {count:,} {self.what} keep {kept}" if count else f"Not even one of {self.what} keeps {kept}"
        )
        return (
            f"{verdict}; {self.limiting_record}, of leverage {number(self.standing.leverage[0])}, sets the limit."
        )

    @property
    def assumptions(self) -> str:
        """What the verdict rests on, and what it is not."""
        return (
            "Assumed: the records are jointly normal; the prior was written without looking at them; the "
            "adversary has every other record, the release and the mechanism. This is what is expected, without "
            "a margin for chance: judge a release that was drawn by `risk`, which fetches the records that stand "
            "out most and attacks them exactly."
        )

    def columns(self) -> dict[str, np.ndarray]:
        """Return a row for each record that was fetched, the highest leverage first."""
        leverage = self.standing.leverage
        keys = {"key": np.array(self.standing.keys)} if self.standing.keys else {}
        return {
            "row": np.arange(1, len(leverage) + 1),
            **keys,
            "leverage": leverage,
            "threshold_datasets": self.law.threshold(leverage),
            "max_datasets": self.law.most(leverage, HALFWAY),
            **{f"exposure_at_{count}": self.law.exposure(leverage, count) for count in self.counts},
        }

    def ladder(self) -> list[dict[str, Any]]:
        """Return, for each step of the ladder that some record passes, how many do and what one of them allows."""
        return [
            {
                "leverage": float(step),
                "records above": int(above),
                "datasets at it": int(self.law.most(step, HALFWAY)),
            }
            for step, above in zip(self.standing.ladder, self.standing.above, strict=True)
            if above
        ]


def plan_engine_budget(
    records: LazyRecords,
    prior: NIW,
    *,
    rows: int | None,
    counts: Sequence[int] = COUNTS,
    most: int = MOST,
    key: str | None = None,
) -> EngineBudget:
    """Return how much may be released of a table that stays in its engine; `rows` None for parameters."""
    rows = None if rows is None else count_of("rows", rows)
    standing = standing_out(records, prior, most=most, key=key)
    return EngineBudget(ExposureLaw.of(prior, len(records), rows), standing, tuple(counts))
