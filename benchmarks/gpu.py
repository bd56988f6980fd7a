"""The study and leave-one-out on a graphics card, beside what its memory and its random numbers allow at best."""

import tempfile
import time
from pathlib import Path

import numpy as np

import allbutone as abo
from allbutone.disclosure.per_record import risk_columns
from allbutone.studies.design_file import read_design
from allbutone.studies.published import agreement
from allbutone.studies.run import StudyRun, run_study
from allbutone.support.devices import device_of
from allbutone.support.errors import InputError
from benchmarks.clock import compare, seconds

DEVICE = "cuda"


def run() -> None:
    try:
        device = device_of(DEVICE)
    except InputError as error:
        print(f"left out: {error}", flush=True)
        return
    import torch

    start = time.perf_counter()
    torch.zeros(1, device=device)
    torch.cuda.synchronize(device)
    took = time.perf_counter() - start
    print(
        f"{torch.cuda.get_device_name(device)}, PyTorch {torch.__version__}; started in {took:.2f} s", flush=True
    )
    study(torch)
    everyone(torch)
    measures()


def measures() -> None:
    n, p, k = 100_000, 10, 20
    values = np.random.default_rng(1).standard_normal((n, p))
    values[17] *= 60
    records, prior = abo.Records(values, tuple(f"x{place}" for place in range(p))), abo.NIW.default(p)
    rng = np.random.default_rng(2)
    release = abo.DatasetRelease.draw(prior.update(values), [1000] * k, rng, columns=records.columns, prior=prior)
    took = {
        device: seconds(lambda device=device: risk_columns(records, release, rng=rng, device=device), 1)
        for device in (DEVICE, DEVICE, "cpu")
    }
    compare(f"risk of {n:,} x {p} against {k} datasets", took[DEVICE], took["cpu"], "the processor")


def everyone(torch) -> None:
    """Leave-one-out of a large table.

    Floor: each record's matrices, p² numbers a dataset, written once and read once through the card's memory.
    """
    n, p, k = 1_000_000, 20, 10
    values = np.random.default_rng(1).standard_normal((n, p))
    values[17] *= 60
    prior = abo.NIW.default(p)
    release = abo.DatasetRelease.draw(prior.update(values), [1000] * k, np.random.default_rng(2))
    floor = 2 * 8 * n * k * p**2 / bandwidth(torch)
    for turn in ("first", "second"):
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        found = abo.attack_all(values, release, prior, device=DEVICE)
        took = time.perf_counter() - start
        lost = int(np.sum(found.status == "not converged"))
        print(
            f"leave-one-out, {n:,} x {p} against {k} datasets, {turn} run: {took:.1f} s (bar: 60, goal: 10); "
            f"floor {floor:.3f} s, the records' matrices written and read once; ratio {took / floor:.0f}; "
            f"peak {torch.cuda.max_memory_allocated() / 1e9:.1f} GB; {lost} not converged",
            flush=True,
        )


def bandwidth(torch) -> float:
    """Bytes a second that the card's memory reads and writes."""
    numbers = torch.zeros(1 << 29, dtype=torch.float64, device=DEVICE)
    return 16 * len(numbers) / seconds(lambda: (numbers.clone(), torch.cuda.synchronize()))


def study(torch) -> None:
    design = read_design("paper")
    floor = drawing(torch, design)
    for turn in ("first", "second", "third"):
        torch.cuda.reset_peak_memory_stats()
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            rows = run_study(StudyRun(design, design.replicates, device=DEVICE), Path(folder) / "study").rows
            took = time.perf_counter() - start
        print(
            f"the paper's study, {len(rows)} cells x {design.replicates}, {turn} run: {took:.2f} s "
            "(bar: 3, goal: 1); "
            f"floor {floor:.4f} s, its variates drawn in two calls; ratio {took / floor:.0f}; "
            f"peak {torch.cuda.max_memory_allocated() / 1e9:.1f} GB",
            flush=True,
        )
    lost = sum(row["unconverged"] for row in rows)
    print(f"  {lost} attacks did not converge. {agreement(rows)}", flush=True)


def drawing(torch, design) -> float:
    """The seconds it takes to draw as many normal and gamma variates as the study needs, and nothing else."""
    normal = gamma = 0
    for cell in design.cells:
        p, sets = cell.p, 1 if cell.rows is None else 2 * cell.count
        normal += design.replicates * (p + (1 + sets) * p * (p - 1) // 2 + p * max(1, sets // 2))
        gamma += design.replicates * p * (1 + sets)
    half = torch.full((1,), 50.0, dtype=torch.float64, device=DEVICE).expand(gamma)

    def draw() -> None:
        torch.randn(normal, dtype=torch.float64, device=DEVICE)
        torch._standard_gamma(half)
        torch.cuda.synchronize()

    draw()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        draw()
        times.append(time.perf_counter() - start)
    print(
        f"{normal / 1e9:.2f}e9 normal and {gamma / 1e9:.2f}e9 gamma variates: {np.median(times):.3f} s", flush=True
    )
    return float(np.median(times))
