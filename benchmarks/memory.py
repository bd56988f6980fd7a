"""What keeping freed memory brings the study: without it every block's arrays come from the system anew."""

from collections.abc import Iterator

from benchmarks.clock import Row, in_own_process

STUDY = """
import tempfile
from pathlib import Path
from allbutone.studies import run
from allbutone.studies.design_file import read_design
run.MEMORY_KEPT = {kept}
design = read_design("paper")
with tempfile.TemporaryDirectory() as folder:
    run.run_study(run.StudyRun(design, 1000), Path(folder) / "study", cells=design.cells[3::14])
"""


def rows() -> Iterator[Row]:
    kept, returned = (
        min(in_own_process(STUDY.format(kept=size))[0] for _ in range(3)) for size in ("run.MEMORY_KEPT", 1)
    )
    yield Row("72 cells × 1000 attacks, freed memory kept", kept, "freed memory returned", returned)
