"""The study and leave-one-out on a graphics card, beside what its memory and its random numbers allow at best."""

import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import allbutone as abo
from allbutone.disclosure.risk import risk_columns
from allbutone.paper.design_file import read_design
from allbutone.paper.run import StudyRun, run_study
from allbutone.support.devices import device_of
from allbutone.support.errors import InputError
from benchmarks.clock import Row, seconds
from benchmarks.study import needed

DEVICE = "cuda"
EARLIER = Path(__file__).parents[1] / "docs" / "records" / "devices.md"


def rows() -> Iterator[Row]:
    try:
        device_of(DEVICE)
    except InputError:
        yield from measured_earlier()
        return
    import torch

    yield from study(torch)
    yield from everyone(torch)
    yield measures()


def measured_earlier() -> Iterator[Row]:
    """Return the rows of the table in docs/records/devices.md: there is no card here."""
    for line in EARLIER.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and (took := re.match(r"[0-9.]+", cells[1])):
            floor = re.match(r"([0-9.]+): (.*)", cells[2])
            what = f"on an H200, measured earlier (docs/records/devices.md): {cells[0]}"
            words, number = (f"floor: {floor[2]}", float(floor[1])) if floor else ("", None)
            yield Row(what, float(took[0]), words, number)


def measures() -> Row:
    n, p, k = 100_000, 10, 20
    values = np.random.default_rng(1).standard_normal((n, p))
    values[17] *= 60
    records, prior = abo.Records(values, tuple(f"x{place}" for place in range(p))), abo.NIW.default(p)
    rng = np.random.default_rng(2)
    release = abo.Release.draw(prior.update(values), [1000] * k, rng, columns=records.columns, prior=prior)
    took = {
        device: seconds(lambda device=device: risk_columns(records, release, rng=rng, device=device), 1)
        for device in (DEVICE, DEVICE, "cpu")
    }
    return Row(
        f"on the card: risk of {n:,} × {p} against {k} datasets", took[DEVICE], "the processor", took["cpu"]
    )


def everyone(torch) -> Iterator[Row]:
    """Leave-one-out of a large table.

    Floor: each record's matrices, p² numbers a dataset, written once and read once through the card's memory.
    """
    n, p, k = 1_000_000, 20, 10
    values = np.random.default_rng(1).standard_normal((n, p))
    values[17] *= 60
    prior = abo.NIW.default(p)
    release = abo.Release.draw(prior.update(values), [1000] * k, np.random.default_rng(2))
    floor = 16 * n * k * p**2 / bandwidth(torch)
    for turn in ("first", "second"):
        took = seconds(lambda: abo.attack(values, release, rows="all", prior=prior, device=DEVICE), 1)
        what = f"on the card: leave-one-out, {n:,} × {p} against {k} datasets, {turn} run"
        yield Row(what, took, "floor: each record's matrices moved once", floor, most=60)


def bandwidth(torch) -> float:
    """Bytes a second that the card's memory reads and writes."""
    numbers = torch.zeros(1 << 29, dtype=torch.float64, device=DEVICE)
    return 16 * len(numbers) / seconds(lambda: (numbers.clone(), torch.cuda.synchronize()))


def study(torch) -> Iterator[Row]:
    design = read_design("paper")
    floor = drawing(torch, *needed(design))
    for turn in ("first", "second", "third"):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            run_study(StudyRun(design, design.replicates, device=DEVICE), Path(folder) / "study")
            took = time.perf_counter() - start
        what = f"on the card: the paper's study, {turn} run"
        yield Row(what, took, "floor: its random numbers, in two calls", floor, most=3)


def drawing(torch, normal: int, squares: int) -> float:
    """The seconds it takes to draw so many normal and gamma variates, and nothing else."""
    half = torch.full((1,), 50.0, dtype=torch.float64, device=DEVICE).expand(squares)

    def draw() -> None:
        torch.randn(normal, dtype=torch.float64, device=DEVICE)
        torch._standard_gamma(half)
        torch.cuda.synchronize()

    return seconds(draw)
