"""smartnoise-synth's MST or AIM at one ε on one table, with public limits and levels of each column."""

import json
import resource
import sys
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
folder, name, kind, epsilon, most = Path(sys.argv[1]), *sys.argv[2:4], float(sys.argv[4]), int(sys.argv[5])
resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))


def drawn(file, limits, levels):
    # <<< the lines that a user types
    import pandas as pd
    from snsynth import Synthesizer
    from snsynth.transform import BinTransformer, LabelTransformer, TableTransformer

    table = pd.read_csv(file)
    known = {name: BinTransformer(bins=20, lower=low, upper=high) for name, (low, high) in limits.items()}
    known |= {name: LabelTransformer(nullable=False) for name in levels}
    transformer = TableTransformer.create(table, style="cube", constraints=known)
    synthesizer = Synthesizer.create(kind, epsilon=epsilon, delta=0.01 / len(table))
    return synthesizer.fit_sample(table, transformer=transformer, preprocessor_eps=0.0)
    # >>>


told = json.loads((folder / f"{name}.json").read_text())
start = time.process_time()
drawn(folder / f"{name}.csv", told["limits"], told["levels"]).to_csv(
    folder / f"{name}-{kind}-{epsilon:g}.csv", index=False
)
print(json.dumps({"seconds": time.process_time() - start}))
