"""The paper's whole study against its floor, and its cells one by one against the paper's algorithm as printed."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from allbutone.paper.design import Cell, Design, choose
from allbutone.paper.design_file import read_design
from allbutone.paper.run import StudyRun, run_study
from allbutone.paper.simulate import simulate_cell
from allbutone.support.parallel import MEMORY_KEPT
from benchmarks.clock import Row, seconds, variates

MEMORY = """
import sys, time
import numpy as np
from allbutone.paper.design_file import read_design
from allbutone.paper.simulate import simulate_cell
from allbutone.support.parallel import one_thread
np.empty(int(sys.argv[1]), dtype=np.uint8)
with one_thread():
    for cell in read_design("paper").cells[::13]:
        simulate_cell(cell, 1000, 1)
print(time.process_time())
"""
# from cheap to dear for the printed algorithm
CELLS = (
    "release == 'parameters' and p == 2 and n == 10 and count == 1",
    "release == 'parameters' and p == 10 and n == 100 and count == 100",
    "release == 'datasets' and p == 2 and n == 50 and count == 1 and rows == 10",
    "release == 'datasets' and p == 2 and n == 300 and count == 100 and rows == 10",
    "release == 'datasets' and p == 5 and n == 500 and count == 10 and rows == 1000",
    "release == 'datasets' and p == 10 and n == 1000 and count == 100 and rows == 1000",
)


def rows() -> Iterator[Row]:
    design = read_design("paper")
    normal, squares = needed(design)
    floor = normal * variates()[0] + squares * variates()[1]
    with tempfile.TemporaryDirectory() as folder:
        start, work = time.perf_counter(), time.process_time()
        run_study(StudyRun(design, design.replicates), Path(folder) / "study")
        took, core = time.perf_counter() - start, time.process_time() - work
    cores = os.cpu_count() or 1
    what = f"the paper's study, {len(design.cells)} cells × {design.replicates}"
    words = f"floor: its {(normal + squares) / 1e9:.2g}·10⁹ random numbers"
    yield Row(f"{what}, {cores} cores", took, f"{words}, {cores} cores", floor / cores, most=20.0)
    yield Row(f"{what}, all cores together", core, words, floor, unit="core-s", most=40.0)
    yield memory_kept()
    for text in CELLS:
        (cell,) = choose(design.cells, text)
        yield one_cell(cell)


def memory_kept() -> Row:
    """A thirteenth of the study in one thread, with the memory that glibc is made to keep, and without."""
    kept, back = (
        float(subprocess.check_output([sys.executable, "-c", MEMORY, str(size)])) for size in (MEMORY_KEPT, 0)
    )
    return Row("a thirteenth of the study, one thread", kept, "memory handed back", back, unit="core-s")


def one_cell(cell: Cell) -> Row:
    """An attack with its drawing, one of 1000, against one as printed, drawing left out."""
    ours = seconds(lambda: simulate_cell(cell, 1000, 1), 3) / 1000
    tries = 2 if cell.count * cell.p > 200 else 10
    both = seconds(lambda: simulate_cell(cell, tries, 1, solver="lbfgsb"), 1)
    drawing = seconds(lambda: simulate_cell(cell, tries, 1, records=True), 1)  # the same records, exactly attacked
    size = f" of {cell.rows}" if cell.rows else ""
    what = f"one attack of a cell: {cell.release}, p = {cell.p}, n = {cell.n}, count = {cell.count}{size}"
    return Row(what, ours, "as printed", max(both - drawing, 1e-9) / tries)


def needed(design: Design) -> tuple[int, int]:
    """The normal and the χ² variates that the study draws: mean and triangle of tables, and of draws or datasets.

    A dataset has one triangle, of twice as many χ²'s as columns, and one χ² for its mean.
    """
    normal = squares = 0
    for cell in design.cells:
        p, parts = cell.p, 1 if cell.rows is None else cell.count
        normal += design.replicates * (1 + parts) * p * (p + 1) // 2
        squares += design.replicates * (p + (p if cell.rows is None else parts * (2 * p + 1)))
    return normal, squares
