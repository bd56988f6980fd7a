"""Tell how much of the numerical core the tests run, floor by floor, and refuse less than 95 % of a floor.

    coverage json -o build/coverage.json && python checks/branches.py build/coverage.json

Asked for are 95 % of statements and branches together, which is what coverage.py calls branch coverage. The
branches alone, each way out of an `if`, a loop or a `match`, are shown beside them: a line that runs may leave a
way untried.
"""

import json
import sys
from collections import Counter
from pathlib import Path

FLOORS = ("model", "adversary", "disclosure")
LEAST = 95.0  # per cent
COVERED = {"lines": "covered_lines", "branches": "covered_branches"}  # as coverage.py names them
TOTAL = {"lines": "num_statements", "branches": "num_branches"}


def main(report: str) -> None:
    """Print the table; end with 1 where too little is run."""
    counts = {floor: Counter[str]() for floor in FLOORS}
    for path, found in json.loads(Path(report).read_text())["files"].items():
        numbers = {name: value for name, value in found["summary"].items() if isinstance(value, int)}
        counts[Path(path).parent.name].update(numbers)
    counts["all"] = sum(counts.values(), Counter())
    print(f"{'floor':<12}{'both':>24}{'branches alone':>24}")
    for floor, count in counts.items():
        print(f"{floor:<12}{told(count, 'lines', 'branches')}{told(count, 'branches')}")
    if too_few := [floor for floor, count in counts.items() if share(count, "lines", "branches") < LEAST]:
        sys.exit(f"less than {LEAST:g} % are run: {', '.join(too_few)}")


def share(count: Counter[str], *kinds: str) -> float:
    """Return how much of these kinds was run, in per cent."""
    return 100 * _sum(count, kinds, COVERED) / _sum(count, kinds, TOTAL)


def told(count: Counter[str], *kinds: str) -> str:
    """Return the same as text, with the counts."""
    counts = f"{_sum(count, kinds, COVERED):,} of {_sum(count, kinds, TOTAL):,}"
    return f"{counts:>16} {share(count, *kinds):5.1f} %"


def _sum(count: Counter[str], kinds: tuple[str, ...], names: dict[str, str]) -> int:
    return sum(count[names[kind]] for kind in kinds)


if __name__ == "__main__":
    main(*sys.argv[1:])
