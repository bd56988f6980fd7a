"""Any tool's rows judged on ten public tables, by Anonymeter and by `audit`: `python -m comparison.ten`.

Each table is cut: four fifths are what tools are fitted to, the rest are control people. Likeness by |area − ½| of
the forest of `comparison.likeness`, with two real halves and a bootstrap as yardsticks.
"""

import argparse
import datetime
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


def page(work: Path, names: list[str], judged: dict[str, dict], versions: dict[str, str]) -> str:
    """Return the page, where another tool is better first."""
    rows, likeness = [], {kind: {} for kind in KINDS}
    for name in names:
        for kind, words in KINDS.items():
            said = judged.get(f"{name}-{kind}")
            if said is None:
                continue
            likeness[kind][name] = abs(said["area"] - 0.5)
            if "standing" in said:
                rows.append([name, words, f"{said['area']:.2f}", *_anonymeter(said["anonymeter"]), *_audit(said)])
    middle = {kind: np.mean(list(each.values())) for kind, each in likeness.items() if each}
    better = _better(likeness, names)
    lines = {kind: sum(each[1] == words for each in rows) for kind, words in KINDS.items()}
    content = {
        "date": datetime.date.today().isoformat(),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "better": better,
        "means": _table(
            ["rows of", "tables", "mean of |area − ½|"],
            [
                [KINDS[kind], len(likeness[kind]), f"{each:.3f}"]
                for kind, each in sorted(middle.items(), key=lambda e: e[1])
            ],
        ),
        "judged": _table(
            [
                "table",
                "rows of",
                "area",
                "singling out",
                "linkability",
                "inference",
                "audit",
                "rows copied",
                "people",
                "DiSCO",
            ],
            rows,
        ),
        "not_run": _not_run(work, names, lines),
        "machine": "; ".join(machine()),
        "synthpop": synthpop().error or "it was run",
    }
    template = Path(__file__).with_name("ten.md").read_text(encoding="utf-8")
    return jinja2.Template(template, undefined=jinja2.StrictUndefined, keep_trailing_newline=True).render(
        **content
    )


def _table(heads: list[str], rows: list[list[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def _anonymeter(said: dict) -> list[str]:
    if "error" in said:
        return ["–", "–", "–"]
    return [f"{said[each][0]:.2f} ({said[each][2]:.2f})" for each in ("singling out", "linkability", "inference")]


def _audit(said: dict) -> list[str]:
    words = {"against": "✘", "luck": "? not known", "for": "✔"}[said["standing"]]
    alarms = f" ({', '.join(said['alarms'])})" if said["alarms"] else ""
    low, high = said["disco"]
    return [
        words + alarms,
        str(said["rows_copied"]),
        f"{said['disclosed']} of {said['people']}",
        f"{low:.0%} to {high:.0%}",
    ]


def _better(likeness: dict[str, dict[str, float]], names: list[str]) -> str:
    """Say where another tool's rows are more alike than the best of allbutone's; of ten tables, by name."""
    ours = ("allbutone-classes", "allbutone-normal")
    found = []
    for kind in ("sdv", "ctgan", "tvae"):
        ahead = [
            name for name in names
            if name in likeness[kind] and likeness[kind][name] < min(likeness[o].get(name, 9.0) for o in ours)
        ]  # fmt: skip
        of = sum(name in likeness[kind] for name in names)
        words = f": {', '.join(ahead)}" if ahead else ""
        found.append(f"- {KINDS[kind]}: {len(ahead)} of {of} tables{words}.")
    return "\n".join(found)


def _not_run(work: Path, names: list[str], lines: dict[str, int]) -> str:
    said = json.loads((work / "sdv.json").read_text() or "{}") if (work / "sdv.json").exists() else {}
    told = []
    for kind in ("allbutone-classes", "allbutone-normal", "sdv", "ctgan", "tvae"):
        for name in names:
            if not (work / f"{name}-{kind}.csv").exists():
                why = said.get(f"{name}-{kind}", {}).get(
                    "error", "it refused, or was not run in the time there was"
                )
                told.append(f"{KINDS[kind]} on {name} ({why})")
    return "; ".join(told) or "nothing"


if __name__ == "__main__":
    main()
