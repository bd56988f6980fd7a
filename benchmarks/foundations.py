"""Drawing, summarizing and writing."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import stats

import allbutone as abo
from benchmarks.clock import Row, extra_memory, in_own_process, seconds, variates

WRITTEN = 2_000_000
WRITE = """
import numpy as np, allbutone as abo
from allbutone.releases.folder import synthesize_to_folder
prior = abo.NIW.default(20)
posterior = prior.update(np.random.default_rng(1).standard_normal((1000, 20)))
names = tuple(f"x{{i}}" for i in range(20))
synthesize_to_folder(posterior, [{rows}], np.random.default_rng(), {folder!r},
                     mechanism=abo.Mechanism.of_measurements(names, prior), format={format!r})
"""


def algorithm_1(posterior: abo.NIW, datasets: int, rows: int, rng: np.random.Generator, by_record: bool) -> None:
    """Algorithm 1 with SciPy's distributions; `by_record` draws each record by itself, as printed."""
    for _ in range(datasets):
        covariance = stats.invwishart.rvs(posterior.df, posterior.scale, random_state=rng)
        mean = stats.multivariate_normal.rvs(posterior.mean, covariance / posterior.mean_weight, random_state=rng)
        for _ in range(rows if by_record else 1):
            size = 1 if by_record else rows
            stats.multivariate_normal.rvs(mean, covariance, size=size, random_state=rng)


def rows() -> Iterator[Row]:
    yield from drawing()
    yield from summarizing()
    for format in ("parquet", "csv"):
        yield from writing(format)


def drawing() -> Iterator[Row]:
    rng = np.random.default_rng(1)
    posterior = abo.NIW.default(5).update(rng.standard_normal((503, 5)))
    ours = seconds(lambda: abo.Release.draw(posterior, [503] * 1000, rng), 9)
    whole = seconds(lambda: algorithm_1(posterior, 1000, 503, rng, by_record=False), 1)
    single = 500 * seconds(lambda: algorithm_1(posterior, 2, 503, rng, by_record=True), 1)
    what = "draw 1000 datasets of 503 × 5"
    yield Row(what, ours, "Algorithm 1 in SciPy, a dataset at a time", whole, times=20)
    yield Row(what, ours, "Algorithm 1 in SciPy, a record at a time, as printed (2 datasets, scaled)", single)
    yield Row(what, ours, "floor: its normal numbers", 1000 * 503 * 5 * variates()[0])


def summarizing() -> Iterator[Row]:
    records = np.random.default_rng(1).standard_normal((2_000_000, 20))
    ours, product = seconds(lambda: abo.Moments.of(records)), seconds(lambda: records.T @ records)
    yield Row("moments of 2,000,000 × 20", ours, "floor: X.T @ X alone", product, times=0.5)
    yield Row("their extra memory", extra_memory(lambda: abo.Moments.of(records)), unit="MB", most=100)


def writing(format: str) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        took, peak = in_own_process(WRITE.format(rows=WRITTEN, folder=str(Path(folder) / "r"), format=format))
    floor = WRITTEN * 20 * variates()[0]
    yield Row(f"draw and write {WRITTEN:,} × 20 as {format}", took, "floor: its normal numbers", floor)
    yield Row("peak memory of the processes so far", peak, unit="MB")
