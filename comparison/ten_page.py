"""The page of the ten tables, docs/records/compare-ten.md: words from ten.md, numbers from what was measured."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from benchmarks.clock import machine

from comparison.environments import Environment

OWN = ("classes", "normal")
YARDSTICKS = ("bootstrap", "half")
KINDS = {
    "classes": "allbutone, classes",
    "normal": "allbutone, normal within cells",
    "synthpop": "synthpop in R (trees)",
    "synthpop-py": "synthpop-py (trees)",
    "sdv": "SDV, GaussianCopula",
    "tvae": "SDV, TVAE",
    "ctgan": "SDV, CTGAN",
    "mostlyai": "mostlyai, TabularARGN",
    "mst": "smartnoise-synth, MST at ε = 3",
    "bootstrap": "*a bootstrap*",
    "half": "*the other half of the table*",
}
GAMES = ("singling out", "linkability", "inference")
STANDING = {"against": "✘", "luck": "? not known", "for": "✔"}


@dataclass(frozen=True)
class Ten:
    """All that was made and measured, by TABLE-KIND; made: the seconds it took, or the error.

    judged: how alike, and what audit says; attacked: what Anonymeter says.
    """

    names: Sequence[str]
    made: Mapping[str, Any]
    judged: Mapping[str, Any]
    attacked: Mapping[str, Any]
    tools: Mapping[str, Environment]
    limit: int

    def of(self, kind: str) -> dict[str, Any]:
        """Return what was measured of one kind of rows, by table."""
        return {name: self.judged[f"{name}-{kind}"] for name in self.names if f"{name}-{kind}" in self.judged}

    def risks(self, name: str, kind: str) -> Mapping[str, Any]:
        """Return what Anonymeter said of these rows, or an error."""
        found: Mapping[str, Any] = self.attacked.get(f"{name}-{kind}", {"error": "not run"})
        return found


def written(ten: Ten) -> str:
    """Return the page."""
    template = jinja2.Template(
        Path(__file__).with_name("ten.md").read_text(encoding="utf-8"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    ran = [each for each in ten.tools.values() if not each.error]
    return template.render(
        date=datetime.date.today().isoformat(),
        versions=", ".join(f"{each.name} {each.version}" for each in ran),
        better=_better(ten),
        means=_means(ten),
        verdicts=_verdicts(ten),
        judged=_judged(ten),
        games=_games(ten),
        failed=_failed(ten),
        unrun=_unrun(ten),
        synthpop=ten.tools["synthpop"].error if "synthpop" in ten.tools else "not asked for",
        without=_without(ten),
        limit=ten.limit,
        machine="; ".join(machine()),
    )


def off(found: Mapping[str, Any]) -> float:
    """Return how far the forest's area is from one half."""
    return abs(found["area"] - 0.5)


def _better(ten: Ten) -> str:
    """Say of each other tool where its rows are more alike than allbutone's."""
    lines = []
    own = {kind: ten.of(kind) for kind in OWN}
    for kind in KINDS:
        theirs = ten.of(kind)
        if kind in (*OWN, *YARDSTICKS) or not theirs:
            continue
        ahead = [name for name, each in theirs.items()
                 if name in own["classes"] and off(each) < off(own["classes"][name])]  # fmt: skip
        nearer = [name for name, each in theirs.items()
                  if name in own["classes"] and each["distance"] < own["classes"][name]["distance"]]  # fmt: skip
        both = sum(name in own["classes"] for name in theirs)
        lines.append(
            f"- {KINDS[kind]}: harder to tell apart in {_named(ahead, both)}; "
            f"its columns nearer in {_named(nearer, both)}."
        )
    return "\n".join(lines)


def _named(names: Sequence[str], of: int) -> str:
    return f"{len(names)} of {of} tables" + (f" ({', '.join(names)})" if names else "")


def _means(ten: Ten) -> str:
    rows = []
    for kind, words in KINDS.items():
        if found := ten.of(kind):
            seconds = [
                ten.made[key]["seconds"]
                for name in found
                if "seconds" in ten.made.get(key := f"{name}-{kind}", {})
            ]
            far = float(np.mean([off(each) for each in found.values()]))
            distance = f"{np.mean([each['distance'] for each in found.values()]):.3f}"
            took = f"{np.median(seconds):.1f} s" if seconds else ""
            rows.append((far, [words, len(found), f"{far:.3f}", distance, took]))
    heads = [
        "rows of",
        "tables",
        "mean of \\|area − ½\\|",
        "mean distance of columns",
        "processor time, the median",
    ]
    return table(heads, [cells for _, cells in sorted(rows, key=lambda each: each[0])])


def _verdicts(ten: Ten) -> str:
    """Count by tool what audit and Anonymeter say."""
    rows = []
    for kind, words in KINDS.items():
        found = [each for each in ten.of(kind).values() if "error" not in each["audit"]]
        if not found:
            continue
        audits = [each["audit"] for each in found]
        risks = [said for name in ten.of(kind) if "error" not in (said := ten.risks(name, kind))]
        above = [f"{sum(each[game][1] > 0 for each in risks)} of {len(risks)}" if risks else "–" for game in GAMES]
        rows.append(
            [
                words,
                f"{sum(each['standing'] == 'against' for each in audits)} of {len(audits)}",
                *(f"{sum(bool(each[what]) for each in audits)}" for what in ("rows copied", "ends")),
                sum(any(line.startswith("Copies of single") for line in each["found"]) for each in audits),
                *above,
            ]
        )
    heads = ["rows of", "audit: ✘", "rows copied", "ends told", "values taken", *(f"{each} > 0" for each in GAMES)]
    return table(heads, rows)


def _judged(ten: Ten) -> str:
    rows = []
    for name in ten.names:
        for kind, words in KINDS.items():
            found = ten.of(kind).get(name)
            if found is not None:
                rows.append(
                    [
                        name,
                        words,
                        f"{found['area']:.2f}",
                        *_risks(ten.risks(name, kind)),
                        *_audit(found["audit"]),
                    ]
                )
    return table(["table", "rows of", "area", *GAMES, "audit", "people", "DiSCO"], rows)


def _risks(said: Mapping[str, Any]) -> list[str]:
    if "error" in said:
        return ["–", "–", "–"]
    return [f"{said[game][0]:.2f} ({said[game][2]:.2f})" for game in GAMES]


def _audit(said: Mapping[str, Any]) -> list[str]:
    if "error" in said:
        return [f"refused: {said['error']}", "", ""]
    low, high = said["disco"]
    return [STANDING[said["standing"]], f"{said['disclosed']} of {said['people']}", f"{low:.0%} to {high:.0%}"]


def _games(ten: Ten) -> str:
    """Say how often the games of audit and Anonymeter's own agree on the same rows."""
    agree, of, apart = 0, 0, []
    for key, found in ten.judged.items():
        theirs, ours = ten.attacked.get(key, {}).get("every", {}), found["audit"].get("games", {})
        for game in theirs.keys() & ours.keys():
            one, two = theirs[game], ours[game]
            of += 1
            agree += one[1] <= two[2] and two[1] <= one[2]
            apart.append(abs(one[0] - two[0]))
    if not of:
        return "not compared"
    return (
        f"their 95 % intervals overlap in {agree:,} of {of:,} games on the same rows, and half of the risks "
        f"differ by less than {np.median(apart):.3f}"
    )


def _failed(ten: Ten) -> str:
    told = [
        f"{words} on {name} ({ten.made[key]['error']})"
        for kind, words in KINDS.items()
        for name in ten.names
        if "error" in ten.made.get(key := f"{name}-{kind}", {})
    ]
    told += [f"{each.name} ({each.error})" for each in ten.tools.values() if each.error]
    return "; ".join(told) or "nothing"


def _unrun(ten: Ten) -> str:
    """Say which rows were not made or attacked at all, for want of time."""
    had = {key.partition("-")[2] for key in ten.made}
    told = [
        f"{words} on {name}"
        for kind, words in KINDS.items()
        for name in ten.names
        if kind in had and f"{name}-{kind}" not in ten.made
    ]
    kinds = {kind for kind in KINDS if kind != "half"}
    without = [key for key in ten.judged if key.partition("-")[2] in kinds and key not in ten.attacked]
    told += [f"Anonymeter on {key}" for key in without]
    return "; ".join(told) or "nothing"


def _without(ten: Ten) -> str:
    told = {f"{', '.join(each['left out'])} of {key.partition('-')[0]}" for key, each in ten.judged.items()
            if each["left out"]}  # fmt: skip
    return "; ".join(sorted(told)) or "none"


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"
