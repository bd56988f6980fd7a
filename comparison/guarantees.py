"""Guarantees beside each other, at the same ε and δ on the same tables: `python -m comparison.guarantees`.

allbutone, and smartnoise-synth's MST and AIM, which cut measurements into 20 bins; writes
docs/records/guarantees.md. With `--tools allbutone mst` no others are run.
"""

import argparse
import json
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

import allbutone as abo
from allbutone.releases.gaussian_account import gaussian_epsilon, gaussian_mu
from allbutone.releases.release import Release
from comparison.environments import ROOT, Environment, environment

OURS, AS_THEIRS, THEIRS = "allbutone", "as theirs", ("mst", "aim")
TOOLS = (OURS, AS_THEIRS, *THEIRS)
POOLED = 100  # datasets of allbutone
MORE_ROWS = 10  # times as many rows of the others
KINDS = ("means", "correlations", "shares")
EPSILONS = (1.0, 3.0)
MOST_SECONDS = 300  # of one tool on one table
SEED = 20260101


@dataclass(frozen=True)
class DeclaredTable:
    """A table, what is publicly declared of it, and how often it is drawn from."""

    name: str
    words: str
    frame: pd.DataFrame
    columns: dict[str, dict[str, Any]]
    times: int = 1

    def write(self, folder: Path) -> None:
        """Write the table, and what smartnoise-synth is told."""
        self.frame.to_csv(folder / f"{self.name}.csv", index=False)
        limits = {name: (each["low"], each["high"]) for name, each in self.columns.items() if "low" in each}
        levels = [name for name, each in self.columns.items() if "levels" in each]
        (folder / f"{self.name}.json").write_text(json.dumps({"limits": limits, "levels": levels}))


def simulated(people: int, measured: int, sizes: tuple[int, ...], times: int) -> DeclaredTable:
    """Return normal measurements with a correlation of 0.5, which the first category moves, and categories."""
    rng = np.random.default_rng([SEED, people, measured])
    codes = [rng.choice(size, people, p=np.arange(size, 0, -1) / (size * (size + 1) / 2)) for size in sizes]
    for place in range(1, len(sizes)):  # each follows the one before it, half of the time
        codes[place] = np.where(rng.random(people) < 0.5, codes[place - 1] % sizes[place], codes[place])
    shared = rng.standard_normal((people, 1))
    values = np.sqrt(0.5) * (shared + rng.standard_normal((people, measured))) + 0.4 * codes[0][:, None]
    frame = {f"x{j + 1}": values[:, j].round(2) for j in range(measured)}
    frame |= {f"c{k + 1}": np.array(list("abcdef"))[code] for k, code in enumerate(codes)}
    columns: dict[str, dict[str, Any]] = {
        f"x{j + 1}": {"low": -5.0, "high": 5.0, "centre": 0.0, "spread": 1.0, "decimals": 2}
        for j in range(measured)
    }
    columns |= {f"c{k + 1}": {"kind": "category", "levels": list("abcdef")[:n]} for k, n in enumerate(sizes)}
    words = f"simulated, {people:,} people, {measured} measurements and {len(sizes)} categories"
    return DeclaredTable(f"simulated-{people}", words, pd.DataFrame(frame), columns, times)


def diabetes() -> DeclaredTable:
    """Return scikit-learn's diabetes study, with what a physician would declare of it."""
    frame = load_diabetes(as_frame=True, scaled=False).frame
    frame = frame[["age", "sex", "bmi", "bp", "s1", "s6"]].assign(sex=frame["sex"].map({1.0: "a", 2.0: "b"}))
    limits = {"age": (18, 90, 50, 14), "bmi": (15, 50, 26, 5), "bp": (50, 150, 95, 14), "s1": (80, 350, 190, 40),
              "s6": (50, 150, 90, 12)}  # fmt: skip
    columns = {
        name: dict(zip(("low", "high", "centre", "spread"), numbers, strict=True))
        for name, numbers in limits.items()
    }
    declared = {name: columns.get(name, {"kind": "category", "levels": ["a", "b"]}) for name in frame.columns}
    return DeclaredTable(
        "diabetes", "scikit-learn's diabetes study, 442 people, 5 measurements and sex", frame, declared, 2
    )


def tables() -> list[DeclaredTable]:
    """Return the tables that all are drawn from."""
    return [
        simulated(500, 3, (2, 4), 3),
        diabetes(),
        simulated(2_000, 8, (2, 2, 3, 4), 1),
        simulated(10_000, 5, (2, 3, 4), 1),
    ]


def own(table: DeclaredTable, epsilon: float, *, as_theirs: bool = False) -> Release:
    """Draw as many datasets as are pooled; `as_theirs`: with the noise that their neighbours take.

    Who is added or removed moves a count by 1 and Σx̃x̃ᵀ by |x̃|², who is replaced by √2 times as much. So the same
    noise keeps a promise about the first with μ/√2.
    """
    delta = 0.01 / len(table.frame)
    if as_theirs:
        epsilon = gaussian_epsilon(gaussian_mu(epsilon, delta) * np.sqrt(2), delta)
    synthesizer = abo.Synthesizer(epsilon=epsilon, delta=delta).fit(table.frame, schema={"columns": table.columns})
    return synthesizer.sample(datasets=POOLED)


def errors(table: DeclaredTable, drawn: pd.DataFrame) -> list[float]:
    """Return root mean square errors: of means, in standard deviations, of correlations, and of levels' shares."""
    measured = [name for name, each in table.columns.items() if "low" in each]
    real, made = table.frame[measured], drawn[measured].astype(float)
    means = (made.mean() - real.mean()) / real.std()
    pairs = np.triu_indices(len(measured), 1)
    correlations = (np.nan_to_num(made.corr().to_numpy()) - real.corr().to_numpy())[pairs]
    shares = [
        np.mean(drawn[name] == level) - np.mean(table.frame[name] == level)
        for name, each in table.columns.items()
        for level in each.get("levels", ())
    ]
    return [float(np.sqrt(np.mean(np.square(each)))) for each in (means, correlations, shares)]


def measured(tool: Environment, work: Path, table: DeclaredTable, kind: str, epsilon: float) -> Any:
    """Return the errors of one tool, of as many rows as the table has and of more; or what went wrong."""
    one, more = [], []
    for _ in range(table.times):
        if kind in (OURS, AS_THEIRS):
            drawn = own(table, epsilon, as_theirs=kind == AS_THEIRS)
            frames = [each.to_frame("pandas") for each in drawn.datasets]
            pair = [frames[0], pd.concat(frames)]
        else:
            said = tool.run("smartnoise_private.py", work, table.name, kind, epsilon, MORE_ROWS, MOST_SECONDS)
            if "error" in said:
                return f"not done: {said['error'][:80]}"
            places = [work / f"{table.name}-{kind}-{epsilon:g}-{times}.csv" for times in (1, MORE_ROWS)]
            pair = [pd.read_csv(place) for place in places]
        for squares, frame in zip((one, more), pair, strict=True):
            squares.append(np.square(errors(table, frame)))
    return [np.sqrt(np.mean(squares, axis=0)).tolist() for squares in (one, more)]


PAGE = """# Guarantees beside each other

allbutone {ours} and smartnoise-synth {theirs} (MST and AIM, measurements in 20 bins) at the same ε,
δ = 1/(100n), with the same public limits and levels. Root mean square errors against the table itself: of means
in standard deviations, of correlations, and of the shares of levels; averaged over 1 to 6 draws, so that a
difference of a third may be chance. `python -m comparison.guarantees` writes this page; it was put together from
runs of one tool on one table. A private copula was looked for, and none is on PyPI (`dpcopula`, `dp-copula`). What
is said to be "not run" had no time.

Two things are not alike, and both change the order.

**Rows.** A dataset of allbutone is n rows drawn at random from one draw of its posterior, so that its shares and
means err as two samples do (a half by 0.03 among 500 people), besides the noise; MST and AIM turn counts into
rows without that. But once noise is paid for, rows are free, of every tool; who wants a share asks for many. So
the first table has what all free rows tell: {pooled} datasets of allbutone pooled, and {more} times as many rows
as the table has of the others, from one fit each. The second has one dataset of n rows.

**Neighbours.** allbutone hides who of n people is *replaced*; MST and AIM hide who is *added or removed*, and tell
n all the same. Replacing moves a count by √2 in the Euclidean norm, adding by 1: the same ε promises more, and
takes √2 of the noise. *As theirs* is allbutone with the noise that their promise takes.
"""
HEADINGS = ("allbutone", "allbutone, as theirs", "MST", "AIM")


def page(found: dict[tuple[str, float, str], Any], every: list[DeclaredTable], tool: Environment) -> str:
    """Return the page of records."""
    lines = [PAGE.format(ours=abo.__version__, theirs=tool.version, pooled=POOLED, more=MORE_ROWS)]
    for place, heading in enumerate(("All rows that are free", "One dataset of as many rows as the table has")):
        best = {kind: np.zeros(len(KINDS) + 1, dtype=int) for kind in (OURS, AS_THEIRS)}
        lines += [f"## {heading}", "", f"| table | ε | error of | {' | '.join(HEADINGS)} |", "|---" * 7 + "|"]
        for table, epsilon in product(every, EPSILONS):
            row = {kind: _numbers(found.get((table.name, epsilon, kind), "not run"), place) for kind in TOOLS}
            for what, name in enumerate(KINDS):
                numbers = [each if isinstance(each, str) else f"{each[what]:.3f}" for each in row.values()]
                head = f"{table.words} | {epsilon:g}" if what == 0 else " | "
                lines.append(f"| {head} | {name} | {' | '.join(numbers)} |")
            others = [row[kind] for kind in THEIRS if not isinstance(row[kind], str)]
            for kind in best if epsilon == 3.0 and others else ():
                if not isinstance(row[kind], str):
                    best[kind] += [*np.less(row[kind], np.min(others, axis=0)), 1]
        lines += ["", f"At ε = 3, beside those that were run: {_in_words(best)}.", ""]
    return "\n".join(lines)


def _numbers(found: Any, place: int) -> Any:
    """Return the errors of as many rows as the table has, or of more; in words where they were not measured."""
    return found if isinstance(found, str) else found[1 - place] or "not run"


def _in_words(best: dict[str, Any]) -> str:
    """Say in how many tables which error is smaller than that of the others that were run."""
    said = []
    for kind, (*wins, compared) in best.items():
        each = ", ".join(f"of {what} in {count}" for what, count in zip(KINDS, wins, strict=True))
        said.append(f"{HEADINGS[TOOLS.index(kind)]} errs least {each} of {compared} tables")
    return "; ".join(said)


def main() -> None:
    """Measure, and write the page; what was measured before is kept in a file, so that a run can go on."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--environments", type=Path, default=ROOT / "build" / "compare")
    options.add_argument("--out", type=Path, default=ROOT / "docs" / "records")
    options.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS)
    given = options.parse_args()
    given.environments.mkdir(parents=True, exist_ok=True)
    tool, every = environment("smartnoise-synth", given.environments), tables()
    kept = given.environments / "guarantees.json"
    known = json.loads(kept.read_text()) if kept.exists() else []
    found = {(name, epsilon, kind): value for name, epsilon, kind, value in known}
    with tempfile.TemporaryDirectory() as work:
        for table in every:
            table.write(Path(work))
        for epsilon, kind, table in product(reversed(EPSILONS), given.tools, every):
            if (table.name, epsilon, kind) not in found:
                found[table.name, epsilon, kind] = measured(tool, Path(work), table, kind, epsilon)
                print(table.name, epsilon, kind, found[table.name, epsilon, kind], flush=True)
                kept.write_text(json.dumps([[*each, value] for each, value in found.items()]))
    (given.out / "guarantees.md").write_text(page(found, every, tool), encoding="utf-8")


if __name__ == "__main__":
    main()
