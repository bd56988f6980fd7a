"""The budget by the one rule: how long it takes, and how often releases at it, and at twice, disclose anyone."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.stats import binomtest

import allbutone as abo
from allbutone.tables.records import Records
from benchmarks.clock import Row, bandwidth, extra_memory, seconds

WIDE = ((2_000, 30, 1.0), (5_000, 200, 1.0), (1_000_000, 20, 3.0))
TABLES = ((503, 5, 503), (200, 3, 200), (60, 4, 60), (503, 5, 50))
RELEASES, FEWER, PEOPLE = 600, 200, 60


def rows() -> Iterator[Row]:
    for people, columns, most in WIDE:
        records = table_of(people, columns)
        took = seconds(lambda records=records: planned(records, len(records.values)), 3)
        floor = 8 * people * columns / bandwidth()
        yield Row(
            f"budget of {people:,} × {columns}, loaded", took, "floor: the table read once", floor, most=most
        )
    yield Row("its extra memory, the last one's", extra_memory(lambda: planned(records, 1000)), unit="MB")
    for people, columns, size in TABLES:
        yield from calibrated(table_of(people, columns), size)


def table_of(people: int, columns: int, seed: int = 0) -> Records:
    """Return a table that fits the model, without outliers."""
    values = np.random.default_rng(seed).standard_normal((people, columns))
    return Records(values, tuple(f"column{place}" for place in range(columns)))


def planned(records: Records, size: int) -> abo.Budget:
    return abo.budget(records, abo.NIW.flat(len(records.columns)), rows=size, rng=1)


def calibrated(records: Records, size: int) -> Iterator[Row]:
    """The share of simulated releases that disclose anyone, at the budget and at twice it.

    The bar is missed where the whole interval lies above it: more than chance explains.
    """
    plan = planned(records, size)
    attacked = replace(plan.case.releases, seed=2)
    people = plan.lineup.order[:PEOPLE]
    for times, most in ((1, 5.0), (2, None)):
        count = times * plan.confident_count
        releases = RELEASES if times == 1 else FEWER
        seen = int(attacked.discloses(count, people, range(releases)).any(axis=1).sum())
        low, high = (100 * end for end in binomtest(seen, releases).proportion_ci())
        what = f"{len(records.values)} × {len(records.columns)}, {count} datasets of {size} rows"
        words = f"{'the budget' if times == 1 else 'twice the budget'}, {what}"
        said = f"{words} ({releases} simulated; the exact 95 % interval is {low:.1f} to {high:.1f} %)"
        yield Row(
            f"releases that disclose anyone at {said}", 100 * seen / releases, unit="%", most=most, surely=low
        )
