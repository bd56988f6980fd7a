"""Try each cause on every published cell, and say what it explains: `make published`."""

import sys
from collections import Counter

import numpy as np

from allbutone.studies.design import Cell
from allbutone.studies.design_file import read_design
from allbutone.studies.published import another_thousand, verdicts
from replication.attacks import Cause, attack, both_searches
from replication.kolmogorov import print_kolmogorov

REPLICATES = 2000
FEW = 300  # where every attack is a search of its own
APART = 0.05  # of the two searches' ends: half a unit of the printed digit
NAMES = ("mean_x1", "mean_x2", "median")
CAUSES = (
    Cause("none: as printed, maximised exactly"),
    Cause("κ′ + 2n_z for κ′ + n_z, as in the authors' earlier app", mean_divisor=2),
    Cause("prior mean 0 for 1.1", prior_mean=0.0),
    Cause("prior mean 0 for 1.1, by the adversary alone", adversary_mean=0.0),
    Cause("n others beside the target, not n − 1", others=0),
    Cause("the target drawn from N((20, 20), 3I), its own distance", drawn_target=True, other_target=True),
    Cause("the target drawn so, but the distance from (20, 20)", drawn_target=True),
    Cause("scatter n_z·cov(Z) for (n_z − 1)·cov(Z)", scatter=lambda rows: rows / (rows - 1)),
    Cause("exponent δ for δ + p in the Student t term", outward=lambda df: 2.0),
    Cause("no Student t term", outward=lambda df: df),
    Cause("100 replicates, not 1000, behind each printed number", again=100),
    Cause("one start: L-BFGS-B from the paper's starting value", search="start"),
    Cause("one start, and κ′ + 2n_z", search="start", mean_divisor=2),
    Cause("one start, within the box −20 … 20", search="start", box=(-20.0, 20.0)),
    Cause("one start, a tolerance 10,000 times as large", search="start", tolerance=2.2e-5),
)
Judged = dict[tuple[str, str], str | None]


def main() -> None:
    """Print what was asked for: causes, ks, or both."""
    wanted = sys.argv[1:]
    if not wanted or "causes" in wanted:
        print_causes()
    if not wanted or "ks" in wanted:
        print_kolmogorov()


def print_causes() -> None:
    """Print a line a cause: how many printed means and medians agree under it, and what changes."""
    design = read_design("paper")
    cells = [cell for cell in design.cells if design.printed(cell)]
    before: Judged = {}
    print("| cause tried | numbers that agree | now explained | no longer | cells that agree whole |")
    print("|---|---|---|---|---|", flush=True)
    for cause in CAUSES:
        found: Judged = {}
        apart = []
        for cell in cells:
            row = _row(cell, cause, apart)
            printed = design.printed(cell)
            assert printed is not None
            judged = verdicts(row, printed)
            found |= {(cell.key, name): judged[name] for name in NAMES}
        before = before or found
        ends = f" (ends elsewhere in {np.mean(apart):.1%} of attacks)" if apart else ""
        print(f"| {cause.words}{ends} | {_counts(before, found)} |", flush=True)


def _row(cell: Cell, cause: Cause, apart: list[float]) -> dict[str, float | None]:
    """Return the intervals under a cause; a search's are the exact ones, moved by how far it ends from them."""
    row = another_thousand(*attack(cell, cause, REPLICATES, np.random.default_rng(1)), cause.again)
    if cause.search == "exact":
        return row
    exact, near, climbed, far = both_searches(cell, cause, FEW, np.random.default_rng(2))
    apart.append(float(np.mean(np.linalg.norm(climbed - exact, axis=1) > APART)))
    moved = dict(zip(NAMES[:2], climbed.mean(axis=0) - exact.mean(axis=0), strict=True))
    moved["median"] = np.median(far) - np.median(near)
    for name, step in moved.items():
        for side in ("from", "to"):
            end = row[f"{name}_{side}"]
            assert end is not None
            row[f"{name}_{side}"] = end + step
    return row


def _counts(before: Judged, now: Judged) -> str:
    agree = sum(verdict == "agrees" for verdict in now.values())
    gained = sum(now[place] == "agrees" and before[place] == "differs" for place in now)
    lost = sum(now[place] == "differs" and before[place] == "agrees" for place in now)
    whole = Counter(cell for (cell, _), verdict in now.items() if verdict == "agrees")
    return f"{agree} of {len(now)} | {gained} | {lost} | {sum(count == len(NAMES) for count in whole.values())}"


if __name__ == "__main__":
    main()
