"""SDV's synthesizers, as they come, on each table: as many rows as it was fitted to."""

import json
import sys
import time
import warnings
from pathlib import Path

import pandas as pd
from sdv.metadata import Metadata
from sdv.single_table import CTGANSynthesizer, GaussianCopulaSynthesizer, TVAESynthesizer

warnings.filterwarnings("ignore")
folder, found = Path(sys.argv[1]), {}
KINDS = {"sdv": GaussianCopulaSynthesizer, "tvae": TVAESynthesizer, "ctgan": CTGANSynthesizer}
for kind, synthesizer in KINDS.items():
    for name in sys.argv[2:]:
        key, start = f"{name}-{kind}", time.process_time()
        try:
            table = pd.read_csv(folder / f"{name}.csv")
            metadata = Metadata.detect_from_dataframes({"table": table})
            made = synthesizer(metadata) if kind == "sdv" else synthesizer(metadata, enable_gpu=False)
            made.fit({"table": table})
            drawn = made.sample(num_rows=len(table))
            rows = drawn["table"] if isinstance(drawn, dict) else drawn
            rows.to_csv(folder / f"{key}.csv", index=False)
            found[key] = {"seconds": time.process_time() - start}
        except Exception as error:  # any reason of the other tool's is told on the page
            found[key] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"}
        print(key, found[key], file=sys.stderr, flush=True)
print(json.dumps(found))
