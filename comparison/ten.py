"""Any tool's rows judged on ten public tables, by Anonymeter and by `audit`: `python -m comparison.ten`.

Each table is cut: four fifths are what tools are fitted to, the rest are control people. Likeness by |area − ½| of
the forest of `comparison.likeness`, with two real halves and a bootstrap as yardsticks.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import pandas as pd

import allbutone as abo
from comparison.environments import ROOT, environment
from comparison.likeness import area, drawn, tables

KINDS = {
    "allbutone-classes": "allbutone, classes",
    "allbutone-normal": "allbutone, normal within cells",
    "sdv": "SDV, GaussianCopula",
    "ctgan": "SDV, CTGAN",
    "tvae": "SDV, TVAE",
    "bootstrap": "a bootstrap (yardstick)",
    "half": "two real halves (yardstick)",
}
PAGE = ROOT / "docs" / "records" / "compare-ten.md"


def main() -> None:
    """Make all rows, judge them, and write the page; what is there already is not made again."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--environments", type=Path, default=ROOT / "build" / "compare")
    options.add_argument("--work", type=Path, default=ROOT / "build" / "compare" / "ten")
    given = options.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    names = cut(given.work)
    make(given.environments, given.work, names)
    judged = judge(given.environments, given.work, names)
    versions = {name: environment(name, given.environments).version for name in ("sdv", "anonymeter")}
    PAGE.write_text(page(given.work, names, judged, versions), encoding="utf-8")
    print(f"written: {PAGE}")


def cut(work: Path) -> list[str]:
    """Write each table without its control people, the control people, and both yardsticks."""
    names = []
    for name, table in tables().items():
        names.append(name)
        people = len(table) - len(table) // 5
        train, control = table.iloc[:people], table.iloc[people:]
        train.to_csv(work / f"{name}.csv", index=False)
        control.to_csv(work / f"{name}-control.csv", index=False)
        train.sample(people, replace=True, random_state=2).to_csv(work / f"{name}-bootstrap.csv", index=False)
    return names


def make(environments: Path, work: Path, names: list[str]) -> None:
    """Let every tool make rows."""
    for name in names:
        gaps = bool(pd.read_csv(work / f"{name}.csv").isna().any(axis=None))
        for kind, model in (("classes", "classes"), ("normal", "general location")):
            file = work / f"{name}-allbutone-{kind}.csv"
            if not file.exists():
                rows = drawn(work / f"{name}.csv", model, gaps)
                if isinstance(rows, str):
                    print(f"{file.stem}: refused: {rows}", flush=True)
                else:
                    rows[0].to_csv(file, index=False)
    missing = [name for name in names if not (work / f"{name}-ctgan.csv").exists()]
    if missing:
        said = environment("sdv", environments).run("sdv_ten.py", work, *missing)
        (work / "sdv.json").write_text(json.dumps(said))


def judge(environments: Path, work: Path, names: list[str]) -> dict[str, dict]:
    """Judge every table of rows, by Anonymeter, by audit, and by how alike it is; kept as it comes."""
    kept = work / "judged.json"
    found: dict[str, dict] = json.loads(kept.read_text()) if kept.exists() else {}
    made = {f"{name}-{kind}": name for name in names for kind in KINDS if (work / f"{name}-{kind}.csv").exists()}
    jobs = [f"{key}:{name}.csv:{key}.csv:{name}-control.csv" for key, name in made.items() if key not in found]
    said = environment("anonymeter", environments).run("anonymeter_ten.py", work, *jobs) if jobs else {}
    for key, name in made.items():
        if key in found:
            continue
        real, rows, control = (pd.read_csv(work / f"{each}.csv") for each in (name, key, f"{name}-control"))
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", abo.MechanismWarning)
            draft = str(work / f"{name}.toml")
            audit = abo.audit(work / f"{name}.csv", rows, control=control, schema=draft)
        kept_columns = [column for column in real if column in rows]
        found[key] = {
            "anonymeter": said.get(key, {"error": said.get("error", "no answer")}),
            "standing": audit.verdict.standing,
            "rows_copied": int(audit.copies.rows.named.sum()),
            "disclosed": len(audit.verdict.disclosed),
            "alarms": list(audit.verdict.alarms),
            "people": len(real),
            "disco": [min(shares := [each.worst_disco.disco for each in audit.groupings]), max(shares)],
            "seconds": time.process_time() - start,
            "area": area(real[kept_columns], rows[kept_columns]),
        }
        kept.write_text(json.dumps(found))
        print(key, found[key], flush=True)
    for name in names:  # the best that can be hoped for: one half of a table against the other
        if f"{name}-half" not in found:
            real = pd.read_csv(work / f"{name}.csv")
            middle = len(real) // 2
            found[f"{name}-half"] = {"area": area(real.iloc[:middle], real.iloc[middle : 2 * middle])}
            kept.write_text(json.dumps(found))
    return found


if __name__ == "__main__":
    main()
