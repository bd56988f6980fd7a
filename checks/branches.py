"""Tell how much of the numerical core the tests run, floor by floor, and refuse less than 95 % of its branches.

    coverage json -o build/coverage.json && python checks/branches.py build/coverage.json

Branches alone are counted, each way out of an `if`, a loop or a `match`: a line that runs may leave a way untried.
"""

import json
import sys
from collections import Counter
from pathlib import Path

FLOORS = ("model", "adversary", "integrals", "disclosure")
LEAST = 95.0  # per cent


def main(report: str) -> None:
    """Print the table; end with 1 where too few branches are taken."""
    counts = {floor: Counter[str]() for floor in FLOORS}
    for path, found in json.loads(Path(report).read_text())["files"].items():
        numbers = {name: value for name, value in found["summary"].items() if isinstance(value, int)}
        counts[Path(path).parent.name].update(numbers)
    counts["all"] = sum(counts.values(), Counter())
    print(f"{'floor':<12}{'statements':>24}{'branches':>24}")
    for floor, count in counts.items():
        print(f"{floor:<12}{told(count, 'lines', 'statements')}{told(count, 'branches', 'branches')}")
    if too_few := [floor for floor, count in counts.items() if share(count, "branches", "branches") < LEAST]:
        sys.exit(f"less than {LEAST:g} % of the branches are taken: {', '.join(too_few)}")


def share(count: Counter[str], covered: str, of: str) -> float:
    """Return how much was run, in per cent."""
    return 100 * count[f"covered_{covered}"] / count[f"num_{of}"]


def told(count: Counter[str], covered: str, of: str) -> str:
    """Return the same as text, with the counts."""
    counts = f"{count[f'covered_{covered}']:,} of {count[f'num_{of}']:,}"
    return f"{counts:>16} {share(count, covered, of):5.1f} %"


if __name__ == "__main__":
    main(*sys.argv[1:])
