"""Runs every tool on the same tables and writes docs/records/compare.md: `python -m comparison`."""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import allbutone as abo
from allbutone.figures.export import write_images
from allbutone.figures.risk import rows_figure
from allbutone.figures.style import titled
from allbutone.paper.methods import lbfgsb, printed_score
from comparison import heart
from comparison.environments import ROOT, Environment, environment, synthpop
from comparison.fidelity import fidelity
from comparison.page import NAMES, PURPOSE, Results, written
from comparison.tables import PublicTable, normal_table, public_tables

RECORDS = 40  # that the paper's printed attack is timed on
SECONDS = 600  # of processor time for R's synthpop and a table


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--environments", type=Path, default=ROOT / "build" / "compare")
    options.add_argument("--out", type=Path, default=ROOT / "docs" / "records")
    given = options.parse_args()
    given.environments.mkdir(parents=True, exist_ok=True)
    environments = {
        name: synthpop() if name == "synthpop" else environment(name, given.environments) for name in PURPOSE
    }
    for each in environments.values():
        print(f"{each.name} {each.version or 'not run: ' + each.error}", flush=True)
    with tempfile.TemporaryDirectory() as work:
        results = measured(environments, Path(work))
    (given.out / "compare.md").write_text(written(results), encoding="utf-8")
    if not isinstance(results.errors, str):
        write_images({given.out / "compare.png": picture(results.errors)})
    print(f"written: {given.out / 'compare.md'}")


def measured(environments: dict[str, Environment], work: Path) -> Results:
    """Run every tool on every table, and measure all of them alike."""
    tables = public_tables()
    for table in tables:
        table.write(work)
    names = [table.name for table in tables]
    tools = {
        "allbutone": environments["allbutone"].run("allbutone_own.py", work, *names),
        "smartnoise-synth": environments["smartnoise-synth"].run("smartnoise_mst.py", work, *names),
        "synthpop": environments["synthpop"].run("synthpop.R", work, "synthpop", SECONDS, *names),
        # last of the synthesizers: it judges what the others have written
        "sdv": environments["sdv"].run("sdv_copula.py", work, *names),
    }
    for name, said in tools.items():
        print(f"{name}: {said.get('error', 'done')}", flush=True)
    errors, seed = heart.measure(environments["sdv"], work)
    print("rows against errors: done", flush=True)
    made = {f"{table.name}-{kind}": table for table in tables for kind in NAMES
            if (work / f"{table.name}-{kind}.csv").exists()}  # fmt: skip
    alike = {key: fidelity(table.train, pd.read_csv(work / f"{key}.csv")) for key, table in made.items()}
    risks = anonymeter(environments["anonymeter"], work, made)
    audits = {key: whom_disclosed(key, table, work, tools) for key, table in made.items()}
    known = {key: found for key, found in audits.items() if found is not None}
    return Results(environments, tables, tools, alike, risks, known, as_printed(tables[0]), errors, seed)


def anonymeter(tool: Environment, work: Path, made: dict[str, PublicTable]) -> dict:
    """Return Anonymeter's risks of every synthetic table, and of 100,000 rows of SDV."""
    jobs = [f"{key}:{table.name}.csv:{key}.csv:{table.name}-control.csv" for key, table in made.items()]
    if (work / "normal-0-sdv.csv").exists():
        names = [f"x{place + 1}" for place in range(heart.COLUMNS)]
        for turn, file in ((0, "normal-real.csv"), (heart.TABLES, "normal-control.csv")):
            values = normal_table(turn, heart.PEOPLE, heart.COLUMNS)
            pd.DataFrame(values, columns=names).to_csv(work / file, index=False)
        jobs.append("heart-sdv:normal-real.csv:normal-0-sdv.csv:normal-control.csv")
    said = tool.run("anonymeter_risk.py", work, *jobs)
    print(f"anonymeter: {said.get('error', 'done')}", flush=True)
    return {} if "error" in said else said


def whom_disclosed(key: str, table: PublicTable, work: Path, tools: dict) -> tuple[int, int] | None:
    """Return how many people are disclosed by the one rule, where the exact attack is known; -1: no verdict."""
    if key.endswith("-allbutone"):
        return tools["allbutone"][key]["disclosed"], tools["allbutone"][key]["people"]
    if not key.endswith("-sdv-normal"):
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", abo.Caution)
        found = abo.audit(table.train, pd.read_csv(work / f"{key}.csv"), "plug-in")
    disclosed = int(np.sum(found["disclosed_if_plug_in"]))
    return (-1 if caught and not disclosed else disclosed), len(found)


def as_printed(table: PublicTable) -> dict[str, float]:
    """Time the paper's printed attack beside the exact one, and count where it ends below the maximum."""
    values, worse, spent = table.train.to_numpy(), 0, 0.0
    release = abo.Synthesizer(abo.NIW.default(values.shape[1])).fit(values).sample(datasets=5)
    start = time.process_time()
    modes = abo.attack(values, release, rows="all", prior=release.prior).mode
    ours = (time.process_time() - start) / len(values)
    for row in range(RECORDS):
        others = np.delete(values, row, axis=0)
        start = time.process_time()
        found = lbfgsb(others, release, release.prior)
        spent += time.process_time() - start
        worse += found.score < printed_score(others, release, release.prior)(modes[row]) - 0.01
    return {"records": RECORDS, "seconds": spent / RECORDS, "ours": ours, "worse": worse}


def picture(errors: dict[str, np.ndarray]):
    """Draw rows against errors."""
    middle, place = {kind: np.median(each, axis=0) for kind, each in errors.items()}, heart.ROWS.index(100_000)
    exact, drawn = (f"{middle[kind][place]:.2f}" for kind in (heart.EXACT, heart.DRAWN))
    message = (
        "Rows of a fit find every record, those of a posterior draw do not: 100,000 rows of SDV find each of "
        f"{heart.PEOPLE} people to {exact} standard deviations, as many of a posterior draw to {drawn}"
    )
    figure = rows_figure(heart.PEOPLE, heart.COLUMNS, heart.marks(errors), message)
    return titled(figure).update_layout(width=1000, height=600, margin_t=150)


if __name__ == "__main__":
    main()
