"""The paper's whole study, and its cells one by one against the paper's algorithm as printed."""

import numpy as np

from allbutone.disclosure.simulated_releases import SimulatedReleases, releases_at_once
from allbutone.studies.cell_filter import choose
from allbutone.studies.design import Cell
from allbutone.studies.design_file import read_design
from allbutone.studies.simulate_cell import simulate_cell
from benchmarks.clock import compare, in_own_process, seconds

WHOLE = """
import tempfile, time
from pathlib import Path
from allbutone.studies.design_file import read_design
from allbutone.studies.run import StudyRun, run_study
start = time.perf_counter()
design = read_design("paper")
with tempfile.TemporaryDirectory() as folder:
    rows = run_study(StudyRun(design, design.replicates), Path(folder) / "study").rows
took = time.perf_counter() - start
from allbutone.studies.published import agreement
lost = sum(row["unconverged"] for row in rows)
print(f"  {len(rows)} cells x {design.replicates}: {took:.1f} s; {lost} attacks did not converge. "
      f"{agreement(rows)}", flush=True)
"""
# from cheap to dear for the printed algorithm
CELLS = (
    "release == 'parameters' and p == 2 and n == 10 and count == 1",
    "release == 'parameters' and p == 2 and n == 300 and count == 10",
    "release == 'parameters' and p == 10 and n == 100 and count == 100",
    "release == 'datasets' and p == 2 and n == 50 and count == 1 and rows == 10",
    "release == 'datasets' and p == 2 and n == 300 and count == 10 and rows == 100",
    "release == 'datasets' and p == 3 and n == 100 and count == 5 and rows == 500",
    "release == 'datasets' and p == 2 and n == 300 and count == 100 and rows == 10",
    "release == 'datasets' and p == 5 and n == 500 and count == 10 and rows == 1000",
    "release == 'datasets' and p == 5 and n == 100 and count == 100 and rows == 300",
    "release == 'datasets' and p == 10 and n == 1000 and count == 100 and rows == 1000",
)


def run() -> None:
    print("the paper's whole study, in a process of its own (bar: 60 s, 2 GB; goal: 20 s):", flush=True)
    _, peak = in_own_process(WHOLE)
    print(f"  peak memory {peak:.0f} MB", flush=True)
    design = read_design("paper")
    print("per attack, drawing included, one thread against L-BFGS-B as printed, drawing left out:", flush=True)
    for text in CELLS:
        (cell,) = choose(design.cells, text)
        one_cell(cell)


def one_cell(cell: Cell) -> None:
    ours = seconds(lambda: simulate_cell(cell, 1000, 1), 3) / 1000
    tries = 3 if cell.count * cell.p > 200 else 10
    both = seconds(lambda: simulate_cell(cell, tries, 1, solver="lbfgsb"), 1)
    drawing = seconds(lambda: simulate_cell(cell, tries, 1, records=True), 1)  # the same records, exactly attacked
    rows = f" of {cell.rows}" if cell.rows else ""
    what = f"{cell.release}, p = {cell.p}, n = {cell.n}, count = {cell.count}{rows}"
    share = drawing_share(cell)
    compare(what, ours, (both - drawing) / tries, f"as printed; {share:.0%} of ours is drawing")


def drawing_share(cell: Cell) -> float:
    """The share of a cell's time that goes into drawing releases, not attacking them."""
    rng, size = np.random.Generator(np.random.SFC64(1)), 500
    step = min(size, releases_at_once(cell.law, cell.count))

    def draw() -> None:
        for start in range(0, size, step):
            SimulatedReleases.of(cell.law, cell.count, min(step, size - start), rng)

    return seconds(draw, 3) / seconds(lambda: simulate_cell(cell, size, 1), 3)
