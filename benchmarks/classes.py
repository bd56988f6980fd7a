"""Classes: fit, synthesis, everyone's risk and the budget, and the sampler on a graphics card.

`python -m benchmarks.classes` measures the sampler alone, here and on a card: it needs NumPy, SciPy and PyTorch.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from allbutone.model.class_sampler import CHAINS, ClassChains
from allbutone.model.classes import ClassModel
from allbutone.model.incomplete import IncompleteRecords
from allbutone.support.devices import HERE, device_of
from allbutone.support.errors import InputError
from allbutone.support.parallel import one_thread
from benchmarks.clock import Row, core_seconds

PEOPLE, COLUMNS, SWEEPS = 10_000, 20, 500  # as many as a fit takes at most
CARD = "cuda"


def rows() -> Iterator[Row]:
    yield from small_table()
    here = seconds_of_sweeps(HERE, 50)
    size = f"{PEOPLE:,} × {COLUMNS}"
    yield Row(f"classes: fit of {size}, {CHAINS} chains", here * SWEEPS, unit="core-s", most=60)
    try:
        there = seconds_of_sweeps(CARD, SWEEPS)
    except InputError:
        return
    yield Row(f"on the card: a sweep of {size}", there, "a core of the processor", here, times=5)


def small_table() -> Iterator[Row]:
    """A table like ten log-scaled cell measurements of two groups of people, as `allbutone` users ask of it."""
    import allbutone as abo

    rng = np.random.default_rng(1)
    table = groups(rng, 569, 10, 2)
    made: list[Any] = []
    took = core_seconds(lambda: made.append(abo.Synthesizer(model="classes").fit(table).sample(datasets=5)))
    yield Row("classes: fit and five datasets of 569 × 10", took, unit="core-s", most=5)
    took = core_seconds(lambda: abo.risk(table, made[0], rng=rng))
    yield Row("classes: risk of all 569 against these", took, unit="core-s", most=60)
    start = time.perf_counter()
    abo.budget(table, rows=569, model="classes", rng=rng)
    yield Row("classes: budget of 569 × 10", time.perf_counter() - start, most=120)


def groups(rng: np.random.Generator, n: int, p: int, count: int) -> np.ndarray:
    """Records of several groups, each with a centre and a covariance of its own."""
    which, turns = rng.integers(0, count, n), rng.standard_normal((count, p, p)) / np.sqrt(p)
    white = rng.standard_normal((n, p))
    spread = np.einsum("np,npq->nq", white, turns[which])
    return spread + 0.5 * rng.standard_normal((n, p)) + 2 * rng.standard_normal((count, p))[which]


def seconds_of_sweeps(name: str, sweeps: int) -> float:
    """The time of one sweep of all chains: on the processor that of one core, on a device on the clock."""
    records = IncompleteRecords.of(None, groups(np.random.default_rng(1), PEOPLE, COLUMNS, 6))
    clock = time.process_time if name == HERE else time.perf_counter
    with one_thread():
        model, rng = ClassModel(COLUMNS), np.random.default_rng(2)
        chains = ClassChains.start(model, records, rng, CHAINS, device_of(name))
        for _ in range(5):
            chains.sweep()
        start = clock()
        for _ in range(sweeps):
            chains.sweep()
        return (clock() - start) / sweeps


if __name__ == "__main__":
    took = {name: seconds_of_sweeps(name, count) for name, count in ((HERE, 50), (CARD, SWEEPS))}
    for name, each in took.items():
        print(f"{name}: {1e3 * each:.1f} ms a sweep of {PEOPLE:,} × {COLUMNS}, {each * SWEEPS:.1f} s a fit")
    print(f"ratio {took[HERE] / took[CARD]:.1f}")
