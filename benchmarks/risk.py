"""Risk of everyone, with its integrals, on long and on wide tables."""

from collections.abc import Iterator

import numpy as np

import allbutone as abo
from allbutone.disclosure.risk import risk_columns
from benchmarks.clock import Row, bandwidth, seconds


def rows() -> Iterator[Row]:
    for people, columns, count, size, most in ((10_000, 10, 20, 10_000, 60.0), (2_000, 30, 5, 2_000, None),
                                               (5_000, 100, 5, 5_000, 20.0)):  # fmt: skip
        records, release = released(people, columns, count, size)
        floor = 16 * people * count * columns**2 / bandwidth()
        what = f"risk of {people:,} × {columns} against {count} datasets"
        took = seconds(lambda table=records, release=release: risk_columns(table, release), 1)
        yield Row(what, took, "floor: each record's matrices moved once", floor, most=most)


def released(people: int, columns: int, count: int, size: int) -> tuple[abo.Records, abo.Release]:
    """Return a table with one record that stands out, and a release of it."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal((people, columns))
    values[17] *= 3
    records, prior = abo.Records(values, tuple(f"x{place}" for place in range(columns))), abo.NIW.flat(columns)
    return records, abo.Release.draw(
        prior.update(values), [size] * count, rng, columns=records.columns, prior=prior
    )
