"""Anonymeter's three attacks on rows of any table, with control people: numbers are compared as numbers."""

import json
import sys
import time
import warnings
from pathlib import Path

import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

warnings.filterwarnings("ignore")
folder, found = Path(sys.argv[1]), {}
GAMES = ("singling out", "linkability", "inference")


def attacks(real, synthetic, control):
    """Return the risks: of singling out, of linkability, and of inference of each column."""
    tables, names = {"ori": real, "syn": synthetic, "control": control}, list(real.columns)
    count = min(100, len(control))
    # as many people as control people: its correction for another number is fitted to nothing below 1,000
    alike = {**tables, "ori": real.sample(len(control), random_state=0)}
    singling = SinglingOutEvaluator(**alike, n_attacks=count, max_attempts=2_000)
    singling.evaluate(mode="multivariate")
    linking = LinkabilityEvaluator(**tables, n_attacks=count, aux_cols=(names[::2], names[1::2]))
    linking.evaluate(n_jobs=1)
    found = {"singling out": singling.risk(), "linkability": linking.risk()}
    for name in names:
        regression = pd.api.types.is_numeric_dtype(real[name])
        rest = [each for each in names if each != name]
        one = InferenceEvaluator(**tables, n_attacks=count, secret=name, aux_cols=rest, regression=regression)
        one.evaluate(n_jobs=1)
        found[f"inference {name}"] = one.risk()
    return {name: [risk.value, *risk.ci] for name, risk in found.items()}


for line in sys.argv[2:]:
    key, real, synthetic, control = line.split(":")
    tables = [pd.read_csv(folder / file) for file in (real, synthetic, control)]
    tables[1] = tables[1][list(tables[0].columns)]
    for name in tables[0]:
        if not pd.api.types.is_numeric_dtype(tables[0][name]):
            tables = [
                table.assign(**{name: table[name].astype("string").fillna("missing").astype(object)})
                for table in tables
            ]
    start = time.process_time()
    try:
        risks = attacks(*tables)
        worst = max((name for name in risks if name.startswith("inference")), key=lambda name: risks[name][0])
        found[key] = {"every": risks} | dict(
            zip(GAMES, (risks["singling out"], risks["linkability"], risks[worst]), strict=True)
        )
    except Exception as error:  # said on the page as it is
        found[key] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"}
    found[key]["seconds"] = time.process_time() - start
print(json.dumps(found))
