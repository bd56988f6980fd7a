"""synthpop-py, a port of R's synthpop to Python, as it comes, on each table: FOLDER KIND LIMIT TABLE…"""

import sys
from pathlib import Path

import pandas as pd
from each_table import make_each
from synthpop import Synthesiser


def drawn(file: Path) -> pd.DataFrame:
    return Synthesiser().fit(pd.read_csv(file)).generate()


make_each(drawn, Path(sys.argv[1]), sys.argv[2], sys.argv[4:], int(sys.argv[3]))
