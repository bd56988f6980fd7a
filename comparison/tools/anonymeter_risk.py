"""Anonymeter's three attacks on every synthetic table, with the control records that it asks for."""

import json
import sys
import time
import warnings
from pathlib import Path

import pandas as pd

warnings.filterwarnings("ignore")
folder, found = Path(sys.argv[1]), {}


def the_three_risks(real, synthetic, control, attacks):
    # <<< the lines that a user types
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    tables, names = {"ori": real, "syn": synthetic, "control": control}, list(real.columns)
    singling = SinglingOutEvaluator(**tables, n_attacks=attacks)
    halves = (names[: len(names) // 2], names[len(names) // 2 :])
    linking = LinkabilityEvaluator(**tables, n_attacks=attacks, aux_cols=halves)
    inferring = {
        name: InferenceEvaluator(
            **tables, n_attacks=attacks, secret=name, aux_cols=[each for each in names if each != name]
        )
        for name in names
    }
    singling.evaluate(mode="multivariate")
    for evaluator in (linking, *inferring.values()):
        evaluator.evaluate(n_jobs=1)
    return (
        singling.risk(),
        linking.risk(),
        max((each.risk() for each in inferring.values()), key=lambda r: r.value),
    )
    # >>>


for line in sys.argv[2:]:
    key, real, synthetic, control = line.split(":")
    tables = [pd.read_csv(folder / file) for file in (real, synthetic, control)]
    tables[1] = tables[1][list(tables[0].columns)]
    start = time.process_time()
    try:
        risks = the_three_risks(*tables, attacks=min(100, len(tables[2])))
        names = ("singling out", "linkability", "inference")
        found[key] = {name: [risk.value, *risk.ci] for name, risk in zip(names, risks, strict=True)}
    except RuntimeError as error:  # Anonymeter says so where an attack has too few successes to judge
        found[key] = {"error": str(error).splitlines()[0]}
    found[key]["seconds"] = time.process_time() - start
print(json.dumps(found))
