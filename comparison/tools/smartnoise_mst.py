"""smartnoise-synth's MST at ε = 3 on each table, with public limits of each column."""

import json
import sys
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
folder, found = Path(sys.argv[1]), {}


def marginals(file, limits):
    # <<< the lines that a user types
    import pandas as pd
    from snsynth import Synthesizer
    from snsynth.transform import BinTransformer, TableTransformer

    table = pd.read_csv(file)
    bins = {name: BinTransformer(bins=20, lower=low, upper=high) for name, (low, high) in limits.items()}
    transformer = TableTransformer.create(table, style="cube", constraints=bins)
    synthesizer = Synthesizer.create("mst", epsilon=3.0)
    return synthesizer.fit_sample(table, transformer=transformer, preprocessor_eps=0.0)
    # >>>


for name in sys.argv[2:]:
    limits = json.loads((folder / f"{name}-limits.json").read_text())
    try:
        start = time.process_time()
        marginals(folder / f"{name}.csv", limits).to_csv(folder / f"{name}-smartnoise-synth.csv", index=False)
        found[f"{name}-smartnoise-synth"] = {"seconds": time.process_time() - start}
    except Exception as error:  # said on the page as it is
        found[f"{name}-smartnoise-synth"] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
print(json.dumps(found))
