"""SDV's Gaussian copula, CTGAN or TVAE, as it comes, on each table: FOLDER KIND LIMIT TABLE…"""

import sys
from pathlib import Path

import pandas as pd
from each_table import make_each
from sdv.metadata import Metadata
from sdv.single_table import CTGANSynthesizer, GaussianCopulaSynthesizer, TVAESynthesizer

KINDS = {"sdv": GaussianCopulaSynthesizer, "ctgan": CTGANSynthesizer, "tvae": TVAESynthesizer}
folder, kind, limit = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def drawn(file: Path) -> pd.DataFrame:
    table = {"table": pd.read_csv(file)}
    how = {} if kind == "sdv" else {"enable_gpu": False}
    synthesizer = KINDS[kind](Metadata.detect_from_dataframes(table), **how)
    synthesizer.fit(table)
    rows = synthesizer.sample(num_rows=len(table["table"]))
    return rows["table"] if isinstance(rows, dict) else rows


make_each(drawn, folder, kind, sys.argv[4:], limit)
