"""smartnoise-synth's MST or AIM at one ε on one table, with public limits and levels of each column.

Fitted once; rows as many as the table has, and `more` times as many, which cost no further ε.
"""

import json
import resource
import sys
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
folder, name, kind, epsilon = Path(sys.argv[1]), *sys.argv[2:4], float(sys.argv[4])
more, most = map(int, sys.argv[5:7])
resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))


def fitted(file, limits, levels):
    # <<< the lines that a user types
    import pandas as pd
    from snsynth import Synthesizer
    from snsynth.transform import BinTransformer, LabelTransformer, TableTransformer

    table = pd.read_csv(file)
    known = {name: BinTransformer(bins=20, lower=low, upper=high) for name, (low, high) in limits.items()}
    known |= {name: LabelTransformer(nullable=False) for name in levels}
    transformer = TableTransformer.create(table, style="cube", constraints=known)
    synthesizer = Synthesizer.create(kind, epsilon=epsilon, delta=0.01 / len(table))
    synthesizer.fit(table, transformer=transformer, preprocessor_eps=0.0)
    # >>>
    return synthesizer, len(table)


told = json.loads((folder / f"{name}.json").read_text())
start = time.process_time()
synthesizer, rows = fitted(folder / f"{name}.csv", told["limits"], told["levels"])
for times in (1, more):
    synthesizer.sample(times * rows).to_csv(folder / f"{name}-{kind}-{epsilon:g}-{times}.csv", index=False)
print(json.dumps({"seconds": time.process_time() - start}))
