"""Risk and budget on large tables."""

import numpy as np

import allbutone as abo
from allbutone.disclosure.per_record import risk_columns
from benchmarks.clock import in_own_process, seconds

BUDGET = """
import numpy as np, time
import allbutone as abo
values = np.random.default_rng(1).standard_normal((1_000_000, 20))
values[17] *= 60
records = abo.Records(values, tuple(f"x{i}" for i in range(20)))
start = time.perf_counter()
plan = abo.plan_budget(records, abo.NIW.default(20), rows=1000, rng=1)
plan.columns()
print(f"  {time.perf_counter() - start:.1f} s (bar: 20): {plan.sentence}", flush=True)
"""


def run() -> None:
    print("budget of 1,000,000 × 20:", flush=True)
    _, peak = in_own_process(BUDGET)
    print(f"  peak {peak:.0f} MB", flush=True)
    values = np.random.default_rng(1).standard_normal((10_000, 10))
    records = abo.Records(values, tuple(f"x{i}" for i in range(10)))
    prior = abo.NIW.default(10)
    posterior = prior.update(values)
    rng = np.random.default_rng(2)
    release = abo.DatasetRelease.draw(posterior, [10_000] * 20, rng, columns=records.columns, prior=prior)
    for mass, bar in ((False, 10), (True, 60)):
        took = seconds(lambda mass=mass: risk_columns(records, release, mass=mass), 1)
        what = "with" if mass else "without"
        print(
            f"risk of 10,000 × 10 against 20 datasets, {what} posterior mass: {took:.1f} s (bar: {bar})",
            flush=True,
        )
