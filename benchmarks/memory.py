"""What keeping freed memory brings: without it every block's arrays come from the system anew."""

from collections.abc import Iterator

from benchmarks.clock import Row, in_own_process

STUDY = """
import tempfile
from pathlib import Path
from allbutone.paper import run
from allbutone.paper.design_file import read_design
from allbutone.support import parallel
parallel.MEMORY_KEPT = {kept}
design = read_design("paper")
with tempfile.TemporaryDirectory() as folder:
    run.run_study(run.StudyRun(design, 1000), Path(folder) / "study", cells=design.cells[3::14])
"""

LEAVE_ONE_OUT = """
import numpy as np
import allbutone as abo
from allbutone.support import parallel
parallel.MEMORY_KEPT = {kept}
rng, prior = np.random.default_rng(1), abo.NIW.default(5)
records = rng.standard_normal((503, 5))
release = abo.Release.draw(prior.update(records), [503] * 1000, rng)
for _ in range(5):
    abo.attack(records, release, rows="all", prior=prior)
"""
WORK = {
    "72 cells × 1000 attacks": STUDY,
    "leave-one-out, 503 × 5, 1000 datasets of 503, five times": LEAVE_ONE_OUT,
}


def rows() -> Iterator[Row]:
    for what, code in WORK.items():
        kept, returned = (
            min(in_own_process(code.format(kept=size))[0] for _ in range(3))
            for size in ("parallel.MEMORY_KEPT", 1)
        )
        yield Row(f"{what}, freed memory kept", kept, "freed memory returned", returned)
