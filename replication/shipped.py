"""The part of the paper's study that the package brings along: two columns, of which the paper has its tables."""

from allbutone.paper.design_file import read_design
from allbutone.paper.run import SHIPPED, StudyRun, run_study

REPLICATES = 1000  # as in the paper


def write_shipped_study() -> None:
    """Run these cells anew: their results are named after the version that made them."""
    SHIPPED.parent.mkdir(exist_ok=True)
    run = StudyRun(read_design("paper"), REPLICATES)
    run_study(run, SHIPPED, cells=[cell for cell in run.design.cells if cell.p == 2], threads=1, force=True)
    (SHIPPED / "cells.parquet").unlink()  # cells.csv says the same
