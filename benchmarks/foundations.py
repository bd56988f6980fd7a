"""Drawing, summarizing and writing."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

import allbutone as abo
from benchmarks.clock import compare, extra_memory, in_own_process, seconds

WRITE = """
import numpy as np, allbutone as abo
from allbutone.releases.folder import synthesize_to_folder
prior = abo.NIW.default(20)
posterior = prior.update(np.random.default_rng(1).standard_normal((1000, 20)))
names = tuple(f"x{{i}}" for i in range(20))
synthesize_to_folder(posterior, [10_000_000], np.random.default_rng(), {folder!r}, columns=names, prior=prior,
                     format={format!r})
"""


def algorithm_1(posterior: abo.NIW, datasets: int, rows: int, rng: np.random.Generator, by_record: bool) -> None:
    """Algorithm 1 with SciPy's distributions; `by_record` draws each record by itself, as printed."""
    for _ in range(datasets):
        covariance = stats.invwishart.rvs(posterior.df, posterior.scale, random_state=rng)
        mean = stats.multivariate_normal.rvs(posterior.mean, covariance / posterior.mean_weight, random_state=rng)
        for _ in range(rows if by_record else 1):
            size = 1 if by_record else rows
            stats.multivariate_normal.rvs(mean, covariance, size=size, random_state=rng)


def run() -> None:
    drawing()
    summarizing()
    writing()


def drawing() -> None:
    rng = np.random.default_rng(1)
    posterior = abo.NIW.default(5).update(rng.standard_normal((503, 5)))
    ours = seconds(lambda: abo.DatasetRelease.draw(posterior, [503] * 1000, rng), 9)
    whole = seconds(lambda: algorithm_1(posterior, 1000, 503, rng, by_record=False), 3)
    single = 500 * seconds(lambda: algorithm_1(posterior, 2, 503, rng, by_record=True), 1)
    what = "1000 datasets of 503 × 5"
    compare(what, ours, whole, "Algorithm 1 in SciPy, a dataset at a time", "bar: 20")
    compare(what, ours, single, "Algorithm 1 in SciPy, a record at a time as printed (2 datasets, scaled)")


def summarizing() -> None:
    records = np.random.default_rng(1).standard_normal((2_000_000, 20))
    ours = seconds(lambda: abo.Moments.of(records))
    product = seconds(lambda: records.T @ records)
    compare("moments of 2,000,000 × 20", ours, product, "X.T @ X alone", "bar: above 0.5")
    print(f"  extra memory {extra_memory(lambda: abo.Moments.of(records)):.1f} MB (bar: 100)", flush=True)


def writing() -> None:
    for format in ("parquet", "csv"):
        folder = Path(tempfile.mkdtemp())
        try:
            took, peak = in_own_process(WRITE.format(folder=str(folder / "r"), format=format))
            size = sum(path.stat().st_size for path in (folder / "r").iterdir()) / 1e9
            print(
                f"10,000,000 × 20 to {format}: {took:.1f} s, {size:.2f} GB, peak memory {peak:.0f} MB", flush=True
            )
        finally:
            shutil.rmtree(folder)
