"""The part of the paper's study that the package brings along: two columns, of which the paper has its tables."""

import shutil
import tempfile
from pathlib import Path

from allbutone.paper.design_file import read_design
from allbutone.paper.journal import JOURNAL
from allbutone.paper.run import SHIPPED, StudyRun, run_study

REPLICATES = 1000  # as in the paper


def write_shipped_study() -> None:
    """Run these cells anew: their results are named after the version that made them."""
    SHIPPED.mkdir(parents=True, exist_ok=True)
    run = StudyRun(read_design("paper"), REPLICATES)
    with tempfile.TemporaryDirectory() as place:
        made = Path(place, "study")
        run_study(run, made, cells=[cell for cell in run.design.cells if cell.p == 2], threads=1)
        for name in (JOURNAL, "cells.csv"):  # the design and the published numbers are in the package already
            shutil.copyfile(made / name, SHIPPED / name)
