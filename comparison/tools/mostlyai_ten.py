"""mostlyai's TabularARGN, as it comes, on each table: FOLDER KIND LIMIT TABLE…"""

import sys
from pathlib import Path

import pandas as pd
from each_table import make_each
from mostlyai.engine import TabularARGN


def drawn(file: Path) -> pd.DataFrame:
    table = pd.read_csv(file)
    argn = TabularARGN(verbose=0)
    argn.fit(table)
    return argn.sample(n_samples=len(table))


make_each(drawn, Path(sys.argv[1]), sys.argv[2], sys.argv[4:], int(sys.argv[3]))
