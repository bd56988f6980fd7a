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

    release = abo.NIWSynthesizer().fit(file, schema=schema).sample(datasets=1)
    return release, abo.risk(file, release)
    # >>>


for line in sys.argv[2:]:
    name, _, log = line.partition(":")
    schema = {"columns": {column: {"scale": "log"} for column in log.split(",")}} if log else None
    release_and_risk(folder / f"{name}.csv", schema)  # everything is loaded
    start = time.process_time()
    release, risk = release_and_risk(folder / f"{name}.csv", schema)
    both = time.process_time() - start
    columns = ",".join(release.columns)
    np.savetxt(
        folder / f"{name}-allbutone.csv",
        release.datasets[0],
        delimiter=",",
        header=columns,
        comments="",
        fmt="%.17g",
    )
    found[f"{name}-allbutone"] = {
        "seconds": both,
        "disclosed": int(np.sum(risk["disclosed"])),
        "people": len(risk),
    }
print(json.dumps(found))
