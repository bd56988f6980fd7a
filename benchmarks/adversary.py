"""Attacks against the paper's algorithm as printed: speed, and how often its one start ends in the worse mode."""

from collections.abc import Iterator

import numpy as np

import allbutone as abo
from allbutone.adversary.build import from_statistics
from allbutone.adversary.modes import find_modes
from allbutone.paper import methods as as_printed
from allbutone.releases.release import Release
from allbutone.releases.statistics import ParameterStatistics
from benchmarks.clock import Row, bandwidth, seconds

WORSE = 100  # attacks of which the worse modes are counted


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(1)
    for n, p, count, size in ((300, 2, 100, 10), (1000, 5, 10, 1000), (100, 10, 100, None)):
        yield from single(rng, n, p, count, size)
    yield from beside_printed(rng)
    for n, p, count, size, most in (
        (503, 5, 100, 503, 0.05),
        (503, 5, 1000, 503, 0.4),
        (20_000, 20, 10, 1000, None),
    ):
        yield everyone(rng, n, p, count, size, most)
    for n, count, size in ((50, 2, None), (300, 10, None), (100, 5, 1000)):
        yield worse_modes(rng, n, count, size)


def paper_setting(rng: np.random.Generator, n: int, p: int) -> tuple[np.ndarray, np.ndarray, abo.NIW]:
    """The paper's others, target (20, …, 20) and prior."""
    others = 1 + np.sqrt(3) * rng.standard_normal((n - 1, p))
    return others, np.full(p, 20.0), abo.NIW(np.full(p, 1.1), 1.0, p + 2.0, np.eye(p))


def release_of(rng: np.random.Generator, posterior: abo.NIW, count: int, size: int | None) -> Release:
    if size is None:
        return abo.Release.draw_parameters(posterior, count, rng)
    return abo.Release.draw(posterior, [size] * count, rng)


def released(count: int, size: int | None) -> str:
    return f"{count} parameter draws" if size is None else f"{count} datasets of {size}"


def single(rng: np.random.Generator, n: int, p: int, count: int, size: int | None) -> Iterator[Row]:
    others, target, prior = paper_setting(rng, n, p)
    release = release_of(rng, prior.update(np.vstack([others, target])), count, size)
    printed = seconds(lambda: as_printed.lbfgsb(others, release, prior), 3)
    what = f"one attack, n = {n}, p = {p}, {released(count, size)}"
    yield Row(
        f"{what}, a single call",
        seconds(lambda: abo.attack(others, release, prior=prior), 9),
        "as printed",
        printed,
    )
    yield Row(f"{what}, one of 1000", thousand(rng, n, p, count, size), "as printed", printed, times=300)


def thousand(rng: np.random.Generator, n: int, p: int, count: int, size: int | None) -> float:
    """Seconds per attack when a thousand tables are attacked at once."""
    fitted, statistics = [], []
    for _ in range(1000):
        others, target, prior = paper_setting(rng, n, p)
        fitted.append(prior.update(others))
        release = release_of(rng, fitted[-1].update(target[None, :]), count, size)
        statistics.append(release.normal.statistics())
    means, scales = np.stack([c.mean for c in fitted]), np.stack([c.scale for c in fitted])
    every = abo.NIW(means, fitted[0].mean_weight, fitted[0].df, scales)
    if size is None:
        together = ParameterStatistics(
            count, np.stack([s.precision for s in statistics]), np.stack([s.pull for s in statistics])
        )
    else:
        together = abo.Moments(
            np.full(count, float(size)),
            np.stack([[m.mean for m in each] for each in statistics]),
            np.stack([[m.scatter for m in each] for each in statistics]),
        )
    return seconds(lambda: find_modes(from_statistics(every, together)), 3) / 1000


def beside_printed(rng: np.random.Generator) -> Iterator[Row]:
    cohort, prior = abo.demo_cohort().values, abo.NIW.default(5)
    release = abo.Release.draw(prior.update(cohort), [503] * 100, rng)
    ours, some = (
        seconds(lambda: abo.attack(cohort, release, rows="all", prior=prior)),
        rng.choice(503, size=3, replace=False),
    )

    def printed() -> None:
        for row in some:
            as_printed.lbfgsb(np.delete(cohort, row, axis=0), release, prior)

    theirs = seconds(printed, 1) / len(some) * 503
    yield Row(
        "leave-one-out, 503 × 5, 100 datasets of 503", ours, "as printed (3 records, scaled)", theirs, times=1000
    )


def everyone(rng: np.random.Generator, n: int, p: int, count: int, size: int, most: float | None) -> Row:
    """Leave-one-out; floor: each record's matrices, p² numbers a dataset, written once and read once."""
    prior, records = abo.NIW.default(p), rng.standard_normal((n, p))
    release = abo.Release.draw(prior.update(records), [size] * count, rng)
    took = seconds(lambda: abo.attack(records, release, rows="all", prior=prior), 3 if n < 1000 else 1)
    what = f"leave-one-out, {n:,} × {p}, {released(count, size)}"
    return Row(
        what, took, "floor: each record's matrices moved once", 16 * n * count * p**2 / bandwidth(), most=most
    )


def worse_modes(rng: np.random.Generator, n: int, count: int, size: int | None) -> Row:
    """How often L-BFGS-B from the paper's start ends lower than the exact maximum, by more than 0.01 in ℓ."""
    worse = 0
    for _ in range(WORSE):
        others, target, prior = paper_setting(rng, n, 2)
        release = release_of(rng, prior.update(np.vstack([others, target])), count, size)
        score = as_printed.printed_score(others, release, prior)
        exact = score(abo.attack(others, release, prior=prior).mode)
        worse += exact - as_printed.lbfgsb(others, release, prior).score > 0.02
    what = f"as printed ends in a worse mode, p = 2, n = {n}, {released(count, size)}"
    return Row(what, 100 * worse / WORSE, unit="% of attacks")
