"""Timing two ways of doing one thing in one run, and the peak memory of one of them."""

import os
import platform
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import scipy


def machine() -> str:
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown CPU")
    return (
        f"{model}, {os.cpu_count()} cores; Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}"
    )


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The median time of one call, after one to warm up when there are several."""
    if repeats > 1:
        work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def extra_memory(work: Callable[[], object]) -> float:
    """The megabytes that one call allocates at its peak."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def in_own_process(code: str) -> tuple[float, float]:
    """Seconds and peak megabytes of a piece of Python run by itself, imports included."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3


def compare(what: str, ours: float, theirs: float, against: str, bar: str = "") -> None:
    print(
        f"{what}: {ours * 1e3:.4g} ms against {theirs * 1e3:.4g} ms for {against}: ratio {theirs / ours:.3g}"
        + (f" ({bar})" if bar else ""),
        flush=True,
    )
