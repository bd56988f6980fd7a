"""The closed form of exposure against simulated releases: how long, and how far its quantiles are off."""

from collections.abc import Iterator

import numpy as np

import allbutone as abo
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.simulation import simulate
from benchmarks.clock import Row, seconds

SETTINGS, LEVELS = 40, (0.05, 0.5, 0.95)


def rows() -> Iterator[Row]:
    for columns in (5, 30, 200):
        law = ExposureLaw.of(abo.NIW.flat(columns), 1000, 1000)
        ours = seconds(lambda law=law: law.quantiles(1.0, 5, LEVELS))
        rng = np.random.default_rng(1)
        theirs = seconds(lambda law=law, rng=rng: simulate(law, 1.0, 5, 100, rng), 1) * 10
        what = f"quantiles of exposure by the closed form, p = {columns}, 5 datasets"
        yield Row(what, ours, "1000 simulated releases (100, scaled)", theirs)
    off = np.array([one for one in map(compared, range(SETTINGS)) if one is not None])
    what = f"its 5, 50 and 95 % points, {len(off)} random settings of 1 to 200 columns"
    yield Row(
        f"{what}: worst distance from simulated ones, beyond two standard errors",
        float(off.max()),
        unit="",
        most=0.03,
    )


def compared(seed: int) -> float | None:
    """Return how far quantiles are outside two standard errors of simulated ones; None where the law ends."""
    rng = np.random.default_rng(seed)
    p, people = round(np.exp(rng.uniform(0, np.log(200)))), int(np.exp(rng.uniform(np.log(600), np.log(5000))))
    size = None if rng.random() < 0.35 else max(5, int(people * np.exp(rng.uniform(-3, 1.6))))
    count = min(round(np.exp(rng.uniform(np.log(2), np.log(60)))), max(2, 60_000 // p**2))
    law = ExposureLaw.of(abo.NIW.flat(p), people, size)
    leverage = law.ratio / (count - 1) * np.exp(rng.uniform(-1.2, 2.3))
    if not law.holds(leverage, count):
        return None
    found = np.abs(simulate(law, leverage, count, 400, rng)[0])
    here, levels = law.sizes(leverage, count, LEVELS), np.array(LEVELS)
    half = 2 * np.sqrt(levels * (1 - levels) / len(found))
    low, high = (np.quantile(found, np.clip(levels + side * half, 0, 1)) for side in (-1, 1))
    return float(np.max(np.maximum(low - here, here - high).clip(min=0)))
