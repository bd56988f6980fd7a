"""Lets one tool make rows of each table within a limit of processor time; what went wrong is told as it is."""

import json
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd


def make_each(make: Callable[[Path], pd.DataFrame], folder: Path, kind: str, names: list[str], limit: int) -> None:
    """Write NAME-KIND.csv for each table, and print the seconds it took, or the error, as JSON."""
    warnings.filterwarnings("ignore")
    found = {}

    def out_of_time(*_: object) -> None:
        raise TimeoutError(f"not done within {limit} s of processor time")

    signal.signal(signal.SIGPROF, out_of_time)
    for name in names:
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            made = make(folder / f"{name}.csv")
            signal.setitimer(signal.ITIMER_PROF, 0)
            made.to_csv(folder / f"{name}-{kind}.csv", index=False)
            found[f"{name}-{kind}"] = {"seconds": time.process_time() - start}
        except Exception as error:  # any reason of the other tool's is told on the page
            signal.setitimer(signal.ITIMER_PROF, 0)
            words = str(error).splitlines() or ["no message"]
            found[f"{name}-{kind}"] = {"error": f"{type(error).__name__}: {words[0][:150]}"}
        print(name, kind, found[f"{name}-{kind}"], file=sys.stderr, flush=True)
    print(json.dumps(found))
