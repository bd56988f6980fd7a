"""A mixed table of 10,000 people: eight measurements and four categories in 48 cells."""

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from allbutone.disclosure.risk import risk_columns
from allbutone.releases.synthesizer import Synthesizer
from allbutone.tables.categories import Categories
from allbutone.tables.records import Records
from benchmarks.clock import Row, seconds, variates

PEOPLE, COLUMNS, SIZES = 10_000, 8, (2, 2, 3, 4)


def table(rng: np.random.Generator) -> Records:
    """Draw people whose measurements depend on their categories."""
    codes = np.column_stack([rng.choice(size, PEOPLE, p=rng.dirichlet(np.full(size, 5.0))) for size in SIZES])
    effects = sum(rng.standard_normal((size, COLUMNS))[codes[:, place]] for place, size in enumerate(SIZES))
    mixing = np.linalg.cholesky(0.5 * np.eye(COLUMNS) + 0.5)
    values = 0.5 * effects + rng.standard_normal((PEOPLE, COLUMNS)) @ mixing.T
    names = tuple(f"category{place}" for place in range(len(SIZES)))
    levels = tuple(tuple(f"level{number}" for number in range(size)) for size in SIZES)
    columns = tuple(f"x{place}" for place in range(COLUMNS))
    return Records(values, columns, categories=Categories(codes, names, levels))


def rows() -> Iterator[Row]:
    """Time fit, ten datasets, and the risk of everyone."""
    rng = np.random.default_rng(1)
    records = table(rng)
    start = perf_counter()
    release = Synthesizer().fit(records).sample(datasets=10, rng_for_tests=rng)
    took, floor = perf_counter() - start, 10 * PEOPLE * COLUMNS * variates()[0]
    what = f"{PEOPLE:,} people, {COLUMNS} measurements, 48 combinations of categories"
    yield Row(f"{what}: fit and ten datasets", took, "floor: its normal numbers", floor, most=2)
    took = seconds(lambda: risk_columns(records, release, rng=rng), 1)
    yield Row(f"{what}: everyone's risk in every combination, against ten datasets", took, most=60)
