"""Any tool's rows judged on ten public tables, by Anonymeter and by `audit`: `python -m comparison.ten`.

Each table is cut: four fifths are what tools are fitted to, the rest are control people. What was made or measured
is kept in a folder, so that a run goes on where it ended.
"""

import argparse
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import allbutone as abo
from comparison.environments import ROOT, Environment, environment, synthpop
from comparison.likeness import CODED, area, distance, drawn, tables
from comparison.ten_page import KINDS, Ten, written

LIMIT = 60  # seconds of processor time that a tool has for a table
SCRIPTS = {
    "sdv": ("sdv", "sdv_ten.py"),
    "ctgan": ("sdv", "sdv_ten.py"),
    "tvae": ("sdv", "sdv_ten.py"),
    "synthpop-py": ("synthpop-py", "synthpop_py_ten.py"),
    "mst": ("smartnoise-synth", "smartnoise_ten.py"),
    "mostlyai": ("mostlyai-engine", "mostlyai_ten.py"),
    "synthpop": ("synthpop", "synthpop.R"),
}
OWN = {"classes": "classes", "normal": "general location"}


@dataclass(frozen=True)
class Kept:
    """What was found, by a key; kept in a file as it comes."""

    file: Path
    found: dict[str, Any]

    @classmethod
    def of(cls, file: Path) -> "Kept":
        """Read what earlier runs found."""
        return cls(file, json.loads(file.read_text()) if file.exists() else {})

    def add(self, key: str, what: Any) -> None:
        """Keep one thing more."""
        self.found[key] = what
        self.file.write_text(json.dumps(self.found))
        print(key, what, flush=True)


def main() -> None:
    """Make all rows, judge them, and write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--environments", type=Path, default=ROOT / "build" / "compare")
    options.add_argument("--out", type=Path, default=ROOT / "docs" / "records")
    options.add_argument(
        "--tools", nargs="*", default=[*SCRIPTS], help="make rows of these alone; judge all there are"
    )
    given = options.parse_args()
    work = given.environments / "ten"
    work.mkdir(parents=True, exist_ok=True)
    every = tables()
    cut(work, every)
    made, judged, attacked = (Kept.of(work / f"{name}.json") for name in ("made", "judged", "attacked"))
    make_own(work, list(every), made)
    tools = {}
    for kind in given.tools:
        name = SCRIPTS[kind][0]
        tools[name] = synthpop() if name == "synthpop" else environment(name, given.environments)
        make(tools[name], kind, work, list(every), made)
    judge(work, list(every), judged)
    tools["anonymeter"] = environment("anonymeter", given.environments)
    attack(tools["anonymeter"], work, list(every), attacked)
    ten = Ten(list(every), made.found, judged.found, attacked.found, tools, LIMIT)
    (given.out / "compare-ten.md").write_text(written(ten), encoding="utf-8")


def cut(work: Path, every: dict[str, pd.DataFrame]) -> None:
    """Write each table without its control people, these, a bootstrap, and what is public of the table."""
    for name, table in every.items():
        people = len(table) - len(table) // 5
        train, control = table.iloc[:people], table.iloc[people:]
        train.to_csv(work / f"{name}.csv", index=False)
        control.to_csv(work / f"{name}-control.csv", index=False)
        train.sample(people, replace=True, random_state=2).to_csv(work / f"{name}-bootstrap.csv", index=False)
        levels = CODED.get(name, [])
        measured = train.drop(columns=levels)
        low, high = measured.min(), measured.max()
        room = 0.1 * (high - low)
        limits = {each: (float((low - room)[each]), float((high + room)[each])) for each in measured}
        (work / f"{name}.json").write_text(json.dumps({"limits": limits, "levels": levels}))


def make_own(work: Path, names: list[str], made: Kept) -> None:
    """Draw allbutone's own rows, by both of its models, as the draft of `describe` declares the columns."""
    for kind, model in OWN.items():
        for name in names:
            if (key := f"{name}-{kind}") in made.found:
                continue
            gaps = bool(pd.read_csv(work / f"{name}.csv").isna().any(axis=None))
            start = time.process_time()
            rows = drawn(work / f"{name}.csv", model, gaps)
            if isinstance(rows, str):
                made.add(key, {"error": rows})
                continue
            rows[0].to_csv(work / f"{key}.csv", index=False)
            made.add(key, {"seconds": time.process_time() - start})


def make(tool: Environment, kind: str, work: Path, names: list[str], made: Kept) -> None:
    """Let one tool make rows of all tables that it has not had yet; one that could not be had is told as it is."""
    missing = [name for name in names if f"{name}-{kind}" not in made.found]
    if tool.error or not missing:
        return
    said = tool.run(SCRIPTS[kind][1], work, kind, LIMIT, *missing)
    for name in missing:
        made.add(f"{name}-{kind}", said.get(f"{name}-{kind}", {"error": said.get("error", "no answer")}))


def attack(anonymeter: Environment, work: Path, names: list[str], attacked: Kept) -> None:
    """Let Anonymeter judge all rows that there are, those of one table at a time: it compiles itself anew."""
    every = there(work, names)
    for name in names:
        keys = [key for key, of in every.items() if of == name and key not in attacked.found]
        if keys:
            jobs = [f"{key}:{name}.csv:{key}.csv:{name}-control.csv" for key in keys]
            said = anonymeter.run("anonymeter_ten.py", work, *jobs)
            for key in keys:
                attacked.add(key, said.get(key, {"error": said.get("error", "no answer")}))


def there(work: Path, names: list[str]) -> dict[str, str]:
    """Return the table of all rows that there are, by TABLE-KIND."""
    return {f"{name}-{kind}": name for kind in KINDS for name in names if (work / f"{name}-{kind}.csv").exists()}


def judge(work: Path, names: list[str], judged: Kept) -> None:
    """Judge all rows that there are: how alike, and by audit; and the halves of each table itself."""
    for key, name in there(work, names).items():
        if key in judged.found:
            continue
        real, rows, control = (pd.read_csv(work / f"{each}.csv") for each in (name, key, f"{name}-control"))
        columns = [column for column in real if column in rows]
        alike = {"area": area(real[columns], rows[columns]), "distance": distance(real[columns], rows[columns])}
        left = [column for column in real if column not in rows]
        judged.add(key, {**alike, "audit": audited(work / f"{name}.csv", rows, control), "left out": left})
    for name in names:  # the best that can be hoped for: people of the same table, none of them among the others
        if (key := f"{name}-half") not in judged.found:
            real = pd.read_csv(work / f"{name}.csv")
            middle = len(real) // 2
            halves = [real.iloc[:middle], real.iloc[middle : 2 * middle]]
            halves[0].to_csv(half := work / f"{name}-first.csv", index=False)
            half.with_suffix(".toml").write_text((work / f"{name}.toml").read_text())
            control = pd.read_csv(work / f"{name}-control.csv")
            alike = {"area": area(*halves), "distance": distance(*halves)}
            judged.add(key, {**alike, "audit": audited(half, halves[1], control), "left out": []})


def audited(table: Path, rows: pd.DataFrame, control: pd.DataFrame) -> dict[str, Any]:
    """Say what `audit` finds that is told nothing of how the rows were made."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", abo.Caution)
            found = abo.audit(table, rows, control=control, schema=str(table.with_suffix(".toml")))
    except abo.InputError as error:
        return {"error": str(error).splitlines()[0]}
    disco = [each.worst_disco.disco for each in found.groupings]
    return {
        "standing": found.verdict.standing,
        "people": found.verdict.people,
        "disclosed": len(found.verdict.disclosed),
        "rows copied": int(found.copies.rows.named.sum()),
        "ends": sum(end.named for end in found.copies.ends),
        "found": [line.measure for line in found.lines if line.against],
        "disco": [min(disco), max(disco)],
        "games": {f"{each.name} {each.column}".strip(): each.risk for each in found.games},
        "seconds": time.process_time() - start,
    }


if __name__ == "__main__":
    main()
