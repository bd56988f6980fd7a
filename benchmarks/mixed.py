"""A mixed table of 10,000 people: eight measurements and four categories in 48 cells."""

from time import perf_counter, process_time

import numpy as np

from allbutone.disclosure.mixed_risk import mixed_risk_columns
from allbutone.releases.mixed.synthesizer import MixedSynthesizer
from allbutone.tables.categories import Categories
from allbutone.tables.records import Records

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


def run() -> None:
    """Time fit, ten datasets, and the risk of everyone."""
    rng = np.random.default_rng(1)
    records = table(rng)
    start = perf_counter()
    release = MixedSynthesizer().fit(records).sample(datasets=10, rng_for_tests=rng)
    print(f"fit and ten datasets of {PEOPLE:,} rows: {perf_counter() - start:.2f} s (bar 2 s)")
    start, work = perf_counter(), process_time()
    mixed_risk_columns(records, release, rng=rng)
    took = f"{perf_counter() - start:.1f} s, {process_time() - work:.0f} core-seconds (bar 60 s on two cores)"
    print(f"risk of everyone in every cell, against ten datasets: {took}")
