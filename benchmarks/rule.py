"""The budget by the one rule: how long it takes, and how often releases at it, and at twice, disclose anyone."""

import time

import numpy as np

import allbutone as abo
from allbutone.disclosure.rule import near_truth
from allbutone.disclosure.table_releases import TableReleases
from allbutone.tables.records import Records

TABLES = ((503, 5, 503), (200, 3, 200), (100, 2, 100), (60, 4, 60), (300, 1, 300), (503, 5, 50), (1000, 10, 1000))
WIDE = ((2_000, 30), (5_000, 200), (1_000_000, 20))
RELEASES, PEOPLE = 200, 60


def table_of(people: int, columns: int, seed: int = 0) -> Records:
    """Return a table that fits the model, without outliers."""
    values = np.random.default_rng(seed).standard_normal((people, columns))
    return Records(values, tuple(f"column{place}" for place in range(columns)))


def shares(records: Records, plan: abo.Budget) -> list[float]:
    """Return the share of simulated releases that disclose anyone, at the budget and at twice it."""
    prior = abo.NIW.flat(len(records.columns))
    near = near_truth(records)
    attacked = TableReleases.of(records.values, prior, near, plan.rule, plan.law.rows, None, 2)
    people = plan.lineup.order[:PEOPLE]
    counts = (plan.confident_count, 2 * plan.confident_count)
    return [float(attacked.discloses(count, people, range(RELEASES)).any(axis=1).mean()) for count in counts]


def run() -> None:
    """Print a line a table."""
    for people, columns, rows in TABLES:
        records = table_of(people, columns)
        start = time.process_time()
        plan = abo.plan_budget(records, abo.NIW.flat(columns), rows=rows, alternatives=False, rng=1)
        took = time.process_time() - start
        at, twice = shares(records, plan)
        print(
            f"{people:,} x {columns}, datasets of {rows} rows: {plan.confident_count} allowed, {took:.1f} core-s; "
            f"at it {at:.1%} of {RELEASES} releases disclose someone, at twice {twice:.0%}",
            flush=True,
        )
    for people, columns in WIDE:
        records = table_of(people, columns)
        start = time.process_time()
        plan = abo.plan_budget(records, abo.NIW.flat(columns), rows=people, alternatives=False, rng=1)
        print(f"{people:,} x {columns}: {plan.confident_count} allowed, {time.process_time() - start:.1f} core-s")
