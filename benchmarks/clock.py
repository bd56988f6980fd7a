"""Rows of the one table: what was timed, what it is compared with, and the bar it must not miss."""

import os
import platform
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy

import allbutone


@dataclass(frozen=True)
class Row:
    """One line of the table.

    peer: what it is compared with, another way to do the same or the floor, below which nothing can go; theirs:
    its number, in the same unit. most: the bar, ours is to be no more; times: the ratio is to be no less.
    surely: of a number with chance in it the lower end of its interval, which then is held against the bar.
    """

    work: str
    ours: float
    peer: str = ""
    theirs: float | None = None
    unit: str = "s"
    most: float | None = None
    times: float | None = None
    surely: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times as fast ours is; below 1 slower, as it must be beside a floor."""
        return None if self.theirs is None or self.unit == "exponent" else self.theirs / self.ours

    @property
    def bar(self) -> str:
        if self.most is not None:
            held = self.ours if self.surely is None else self.surely
            return f"≤ {amount(self.most, self.unit)}: {'met' if held <= self.most else 'MISSED'}"
        if self.times is not None:
            assert self.ratio is not None
            return f"ratio ≥ {self.times:g}: {'met' if self.ratio >= self.times else 'MISSED'}"
        return ""

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Work, ours, what it is compared with, ratio and bar, in words."""
        peer = "" if self.theirs is None else f"{self.peer}: {amount(self.theirs, self.unit)}"
        return (
            self.work,
            amount(self.ours, self.unit),
            peer,
            "" if self.ratio is None else f"{self.ratio:.3g}",
            self.bar,
        )


def amount(number: float, unit: str) -> str:
    """Write a number with three digits and its unit; short times in milliseconds."""
    if unit == "exponent":
        return f"{number:.2f}"
    if unit in ("s", "core-s") and number < 1:
        return f"{1e3 * number:.3g} m{unit}" if unit == "s" else f"{number:.2g} {unit}"
    return (f"{number:.3g} {unit}" if number < 1000 else f"{number:,.0f} {unit}").rstrip()


def machine() -> list[str]:
    """Say on what, and with what, the table was measured."""
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown CPU")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()} {platform.release()}",
        f"allbutone {allbutone.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}",
        f"on {time.strftime('%Y-%m-%d')}, with a load of {os.getloadavg()[0]:.1f} before the first measurement",
    ]


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


def core_seconds(work: Callable[[], object]) -> float:
    """The processor's time of one call, all cores together."""
    start = time.process_time()
    work()
    return time.process_time() - start


def extra_memory(work: Callable[[], object]) -> float:
    """The megabytes that one call allocates at its peak."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def in_own_process(code: str) -> tuple[float, float]:
    """Seconds and peak megabytes (of this and earlier ones) of a piece of Python by itself, imports included."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3


@cache
def bandwidth() -> float:
    """Bytes a second that one core reads and writes in memory."""
    numbers = np.zeros(1 << 25)
    other = np.empty_like(numbers)
    return 16 * len(numbers) / seconds(lambda: np.copyto(other, numbers))


@cache
def variates() -> tuple[float, float]:
    """Seconds that one core takes for one standard normal and for one χ² variate, by NumPy."""
    rng, size = np.random.Generator(np.random.SFC64(1)), 2_000_000
    return tuple(
        seconds(lambda draw=draw: draw(size)) / size
        for draw in (rng.standard_normal, lambda n: rng.chisquare(50, n))
    )  # type: ignore[return-value]
