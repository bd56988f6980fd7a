"""SDV's Gaussian copula, as it comes, on each table: as many synthetic rows as real ones, several times."""

import json
import sys
import warnings
from pathlib import Path

import pandas as pd
from sdv.metadata import Metadata
from sdv.single_table import GaussianCopulaSynthesizer

warnings.filterwarnings("ignore")
folder, times, failed = Path(sys.argv[1]), int(sys.argv[2]), {}
for name in sys.argv[3:]:
    table = {"table": pd.read_csv(folder / f"{name}.csv")}
    try:
        synthesizer = GaussianCopulaSynthesizer(Metadata.detect_from_dataframes(table))
        synthesizer.fit(table)
        for number in range(times):
            drawn = synthesizer.sample(num_rows=len(table["table"]))
            drawn = drawn["table"] if isinstance(drawn, dict) else drawn
            drawn.to_csv(folder / f"{name}-sdv-{number}.csv", index=False)
    except Exception as error:  # any reason of the other tool's is told in the table
        failed[name] = f"{type(error).__name__}: {error}"
print(json.dumps(failed))
