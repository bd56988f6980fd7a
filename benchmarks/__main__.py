"""Runs every part, or those named, and prints one table; a whole run writes docs/records/benchmarks.md.

`python -m benchmarks`, `python -m benchmarks budget growth`
"""

import importlib
import sys
import time
import traceback
from pathlib import Path

from benchmarks.clock import Row, machine

PARTS = (
    "floors", "start", "foundations", "adversary", "budget", "risk", "law", "growth", "study", "memory", "mixed",
    "missing", "classes", "guarantee", "application", "app", "scale", "gpu",
)  # fmt: skip
PAGE = Path(__file__).parents[1] / "docs" / "records" / "benchmarks.md"
HEAD = ("work", "ours", "compared with", "ratio", "bar")
WORDS = """# Benchmarks

Written by `make bench`, and never by hand. *Ratio*: how many times as fast as what it is compared with. Beside
a floor, which nothing can pass, it is below 1 and says how much of it is reached. Floors are bytes moved at
this machine's speed and random numbers drawn at NumPy's, measured in the same run (the first rows), by one core
unless it says otherwise. *As printed* is the paper's own algorithm: L-BFGS-B from the paper's start on the
paper's score. A fitted *exponent* stands beside that of the numbers that must be touched. One part alone:
`python -m benchmarks budget`.
"""


def main(asked: list[str]) -> None:
    unknown = set(asked) - set(PARTS)
    if unknown:
        sys.exit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    told = machine()
    print(*told, sep="\n", flush=True)
    found: dict[str, list[Row]] = {}
    failed = [part for part in asked or PARTS if not measured(part, found)]
    if failed:
        told.append(f"left out, because they failed: {', '.join(failed)}")
    if not asked:
        PAGE.write_text(page(told, found), encoding="utf-8")
        print(f"written to {PAGE}")
    sys.exit(bool(failed))


def measured(part: str, found: dict[str, list[Row]]) -> bool:
    """Measure one part, telling each row at once; say whether it could be. The others go on without it."""
    start, found[part] = time.perf_counter(), []
    try:
        for row in importlib.import_module(f"benchmarks.{part}").rows():
            found[part].append(row)
            print(" | ".join(row.cells), flush=True)
    except Exception:  # whatever it is: it is printed, the page names the part, and the run ends with 1
        traceback.print_exc()
        return False
    print(f"  ({part}: {time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
    return True


def page(told: list[str], found: dict[str, list[Row]]) -> str:
    """Return the table as a page of the documentation."""
    lines = [WORDS, *(f"- {each}" for each in told), "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    lines += [
        f"| {' | '.join(cell.replace('|', '·') for cell in row.cells)} |"
        for rows in found.values()
        for row in rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
