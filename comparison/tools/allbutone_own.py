"""allbutone on each table: a dataset drawn from the posterior, and whom it discloses by the one rule."""

import json
import sys
import time
from pathlib import Path

import numpy as np

folder, found = Path(sys.argv[1]), {}


def release_and_risk(file, schema):
    # <<< the lines that a user types
    import allbutone as abo

    release = abo.Synthesizer().fit(file, schema=schema).sample(datasets=1)
    yield release
    yield abo.risk(file, release)
    # >>>


for name in sys.argv[2:]:
    schema = json.loads((folder / f"{name}-schema.json").read_text())
    list(release_and_risk(folder / f"{name}.csv", schema))  # everything is loaded
    start = time.process_time()
    results = release_and_risk(folder / f"{name}.csv", schema)
    release, drawn = next(results), time.process_time() - start
    risk, judged = next(results), time.process_time() - start - drawn
    how = {"delimiter": ",", "header": ",".join(release.columns), "comments": "", "fmt": "%.12g"}
    np.savetxt(folder / f"{name}-allbutone.csv", release.datasets[0], **how)
    people, disclosed = len(risk), int(np.sum(risk["disclosed"]))
    found[f"{name}-allbutone"] = {"seconds": drawn, "judged": judged, "disclosed": disclosed, "people": people}
print(json.dumps(found))
