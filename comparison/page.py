"""The comparison as a page, docs/records/compare.md: words from template.md, numbers from what was measured."""

import ast
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from benchmarks.clock import machine

from comparison import heart
from comparison.environments import TOOLS, Environment
from comparison.tables import PublicTable

NAMES = {
    "allbutone": "allbutone",
    "sdv": "SDV, GaussianCopula as it comes",
    "sdv-normal": "SDV, GaussianCopula with normal margins",
    "synthpop": "synthpop",
    "smartnoise-synth": "smartnoise-synth, MST at ε = 3",
}
SCRIPTS = {
    "allbutone": "allbutone_own.py",
    "sdv": "sdv_copula.py",
    "anonymeter": "anonymeter_risk.py",
    "smartnoise-synth": "smartnoise_mst.py",
    "synthpop": "synthpop.R",
}
PURPOSE = {
    "allbutone": "synthesizer, fidelity and risk",
    "sdv": "synthesizer, fidelity, distances to the closest record",
    "anonymeter": "risk of any synthetic table, by three attacks",
    "smartnoise-synth": "synthesizer with a guarantee",
    "synthpop": "synthesizer, fidelity, disclosure measures",
}
ATTACKS = ("singling out", "linkability", "inference")


@dataclass(frozen=True)
class Results:
    """All that was measured.

    tools: what each synthesizer's script said, by table and kind. risks: what Anonymeter said of each synthetic
    table. audits: how many people of how many are disclosed exactly; -1 where there is no verdict. printed: the
    paper's own attack beside the exact one. errors: those of the recovered record, or why there are none.
    seed: the error where the same random numbers are subtracted.
    """

    environments: Mapping[str, Environment]
    tables: Sequence[PublicTable]
    tools: Mapping[str, Mapping[str, Any]]
    fidelity: Mapping[str, Mapping[str, float]]
    risks: Mapping[str, Mapping[str, Any]]
    audits: Mapping[str, tuple[int, int]]
    printed: Mapping[str, float]
    errors: "dict[str, np.ndarray] | str"
    seed: Mapping[str, float]


def written(results: Results) -> str:
    """Return the page."""
    template = jinja2.Template(
        Path(__file__).with_name("template.md").read_text(encoding="utf-8"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    installed = [each for each in results.environments.values() if not each.error]
    return template.render(
        date=datetime.date.today().isoformat(),
        machine="; ".join(machine()),
        versions=", ".join(f"{each.name} {each.version}" for each in installed),
        heart=heart,
        set_up=_set_up(results),
        risk=_risk(results),
        **_of_time(results),
        tables=[
            {"name": table.name, "words": table.words, "size": _size(table), "fidelity": _fidelity(results, table)}
            for table in results.tables
        ],
        **_of_errors(results),
        **_of_printed(results.printed),
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def _of_errors(results: Results) -> dict[str, str]:
    if isinstance(results.errors, str):
        return {"trouble": results.errors}
    middle = {kind: np.median(each, axis=0) for kind, each in results.errors.items()}
    law = heart.PEOPLE / np.sqrt(heart.ROWS)
    rows = [
        [f"{number:,}", f"{law[at]:.2f}", *(f"{middle[kind][at]:.2f}" for kind in heart.MARKS)]
        for at, number in enumerate(heart.ROWS)
    ]
    at = heart.ROWS.index(100_000)
    kinds = {"exact": heart.EXACT, "means": heart.MEANS, "limited": heart.LIMITED, "drawn": heart.DRAWN}
    return {
        "trouble": "",
        "errors": _table(["rows", "the law n/√N", *heart.MARKS], rows),
        "law": f"{law[at]:.2f}",
        "few": f"{results.seed['few']}",
        "by_the_seed": f"{results.seed['error_by_the_seed']:.0e}",
        "anonymeter": _anonymeter_words(results.risks.get("heart-sdv", {"error": "it could not be run"})),
        **{name: f"{middle[kind][at]:.2f}" for name, kind in kinds.items()},
    }


def _anonymeter_words(said: Mapping[str, Any]) -> str:
    if "error" in said:
        return f"nothing ({said['error']})."
    kinds = [f"{name} {said[name][0]:.3f} (95 % interval up to {said[name][2]:.3f})" for name in ATTACKS]
    return f"{', '.join(kinds)}."


def _of_time(results: Results) -> dict[str, str]:
    """Return how long it takes to judge a table, exactly and by Anonymeter."""
    judged = [each["judged"] for each in results.tools["allbutone"].values()]
    theirs = [each["seconds"] for key, each in results.risks.items() if key != "heart-sdv"] or [np.nan]
    return {"judged": f"{np.median(judged):.1f}", "anonymeter_seconds": f"{np.median(theirs):.0f}"}


def _of_printed(printed: Mapping[str, float]) -> dict[str, str]:
    return {
        "printed_ms": f"{1e3 * printed['seconds']:.0f}",
        "ours_ms": f"{1e3 * printed['ours']:.2f}",
        "worse": f"{printed['worse']:.0f}",
        "records": f"{printed['records']:.0f}",
    }


def _set_up(results: Results) -> str:
    rows = []
    for name, each in results.environments.items():
        size = f"{each.packages} packages, {each.megabytes:,} MB" if each.packages else ""
        took = f"{each.seconds:.0f} s" if each.seconds else ""
        version = each.version or f"not run here: {each.error}"
        rows.append([name, PURPOSE[name], version, size, took, _statements(SCRIPTS[name])])
    rows.append(["the paper", "synthesizer, and the risk of one record", "as printed", "no program", "", ""])
    return _table(["tool", "what it is", "version", "installed", "took", "statements to a result"], rows)


def _statements(script: str) -> int:
    text = (TOOLS / script).read_text(encoding="utf-8")
    inside = text.split("# <<<", 1)[1].split("# >>>", 1)[0].splitlines()[1:]
    if not script.endswith(".py"):
        return sum(bool(line.strip()) for line in inside)
    tree = ast.parse("def typed():\n" + "\n".join(inside))
    return sum(isinstance(each, ast.stmt) for each in ast.walk(tree)) - 1


def _size(table: PublicTable) -> str:
    people, columns = table.train.shape
    return f"{people} people, {columns} columns" + (", on log scales for allbutone" if table.log else "")


def _trouble(results: Results, kind: str, key: str) -> str:
    """Say why a tool has made nothing of a table; nothing where it has."""
    said = results.tools[kind.removesuffix("-normal")]
    return str(said.get("error", said.get(key, {}).get("error", "" if key in said else "no result")))


def _fidelity(results: Results, table: PublicTable) -> str:
    rows = []
    for kind, name in NAMES.items():
        key = f"{table.name}-{kind}"
        if trouble := _trouble(results, kind, key):
            rows.append([name, f"not run: {trouble}", "", "", ""])
            continue
        told = results.fidelity[key]
        seconds = results.tools[kind.removesuffix("-normal")][key]["seconds"]
        numbers = (f"{told[each]:.3f}" for each in ("columns", "correlations", "told_apart"))
        rows.append([name, *numbers, f"{seconds:.2f} s"])
    return _table(["tool", "columns", "correlations", "told apart", "processor time"], rows)


def _risk(results: Results) -> str:
    rows = []
    for table in results.tables:
        for kind, name in NAMES.items():
            key = f"{table.name}-{kind}"
            if _trouble(results, kind, key):
                continue
            said = results.risks.get(key, {})
            risks = [f"{said[each][0]:.2f} ({said[each][2]:.2f})" if each in said else "–" for each in ATTACKS]
            near = results.tools["sdv"].get(key, {}).get("privacy")
            closest = f"{near['baseline']:.2f}, {near['overfitting']:.2f}" if near else "–"
            rows.append([table.name, name, closest, *risks, _exactly(results, key)])
    return _table(["table", "rows of", "closest record", *ATTACKS, "disclosed, exactly"], rows)


def _exactly(results: Results, key: str) -> str:
    if key not in results.audits:
        return "–"
    disclosed, people = results.audits[key]
    return f"{disclosed} of {people}" if disclosed >= 0 else "no verdict: the rows are limited or rounded"
