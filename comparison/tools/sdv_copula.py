"""SDV's Gaussian copula on each table, as it comes and with normal margins; SDMetrics' measures of privacy."""

import json
import sys
import time
import warnings
from pathlib import Path

import pandas as pd
from sdmetrics.single_table import DCRBaselineProtection, DCROverfittingProtection

warnings.filterwarnings("ignore")
folder, found = Path(sys.argv[1]), {}


def as_it_comes(file):
    # <<< the lines that a user types
    import pandas as pd
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    table = {"table": pd.read_csv(file)}
    synthesizer = GaussianCopulaSynthesizer(Metadata.detect_from_dataframes(table))
    synthesizer.fit(table)
    return synthesizer.sample(num_rows=len(table["table"]))
    # >>>


def normal_margins(file):
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    table = {"table": pd.read_csv(file)}
    metadata = Metadata.detect_from_dataframes(table)
    synthesizer = GaussianCopulaSynthesizer(metadata, default_distribution="norm", enforce_min_max_values=False)
    synthesizer.fit(table)
    return synthesizer.sample(num_rows=len(table["table"]))


def privacy(real, synthetic, control):
    columns = {name: {"sdtype": "numerical"} for name in real.columns}
    metadata = {"columns": columns}
    baseline = DCRBaselineProtection.compute_breakdown(real, synthetic, metadata, "table")
    # which part of the table is closer is a question only where both have as many rows
    some = real.sample(len(control), random_state=0)
    overfitting = DCROverfittingProtection.compute_breakdown(some, synthetic, control, metadata, "table")
    return {"baseline": baseline["score"], "overfitting": overfitting["score"]}


as_it_comes(folder / "cohort.csv")  # everything is loaded
for name in sys.argv[2:]:
    for kind, make in (("sdv", as_it_comes), ("sdv-normal", normal_margins)):
        start = time.process_time()
        drawn = make(folder / f"{name}.csv")
        seconds = time.process_time() - start
        synthetic = drawn["table"] if isinstance(drawn, dict) else drawn
        synthetic.to_csv(folder / f"{name}-{kind}.csv", index=False)
        found[f"{name}-{kind}"] = {"seconds": seconds}
    real, control = (pd.read_csv(folder / f"{name}{end}.csv") for end in ("", "-control"))
    for kind in ("sdv", "sdv-normal", "allbutone", "smartnoise-synth"):
        file = folder / f"{name}-{kind}.csv"
        if file.exists():
            synthetic = pd.read_csv(file)[list(real.columns)]
            found.setdefault(f"{name}-{kind}", {})["privacy"] = privacy(real, synthetic, control)
print(json.dumps(found))
