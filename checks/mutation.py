"""Change the maximiser, the model and the exposure law in one place at a time, and see whether a test notices.

    python -m checks.mutation [--sample 300] [--only modes] [--resume FILE] [--slowest 1]

Each mutant is written into a copy of the package and tried in a fork of a process that has loaded the libraries,
but nothing of the package: whatever the tests load, they load from that copy. The quickest tests go first, and the
first that fails ends it. Before that the code as it is must pass, and a module that cannot be loaded must fail.
What survives is explained in docs/records/mutation.md; what is not named there is printed as new.
"""

import argparse
import importlib
import itertools
import json
import math
import os
import random
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

from checks.mutant_runs import (
    KILLED,
    ROOT,
    SOURCE,
    SURVIVED,
    TARGETS,
    Outcome,
    copies_of_package,
    outcomes_of,
    prove,
)
from checks.mutants import Mutant, mutant, places

EXPLAINED = ROOT / "docs" / "records" / "mutation.md"
# what the package and its tests load
LIBRARIES = ["numpy", "scipy.stats", "scipy.optimize", "hypothesis.extra.numpy", "mpmath", "pandas", "narwhals"]
LIBRARIES += ["array_api_strict", "array_api_compat", "jaxtyping", "beartype", "asyncio"]
BAR = 0.85  # of the mutants that must be killed


def _arguments() -> argparse.Namespace:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--sample", type=int, default=0, help="how many mutants, at random; all of them by default")
    asked.add_argument("--only", default="", help="a part of the module's path")
    asked.add_argument("--seed", type=int, default=0, help="of the sample")
    asked.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    asked.add_argument("--slowest", type=float, default=1.5, help="seconds of a core that a test may take")
    asked.add_argument("--resume", type=Path, help="an earlier run's --out: what it killed is not tried again")
    asked.add_argument("--seconds", type=float, default=math.inf, help="begin no mutant after that long")
    asked.add_argument("--out", type=Path, default=ROOT / "build" / "mutation.jsonl", help="every mutant's end")
    return asked.parse_args()


def _chosen(asked: argparse.Namespace) -> list[tuple[str, Mutant]]:
    """Return mutants in random order: whatever has been tried is a sample of all."""
    every = []
    for module in (module for module in TARGETS if asked.only in module):
        source = (SOURCE / module).read_text(encoding="utf-8")
        every += [(module, source, place) for place in places(source)]
    random.Random(asked.seed).shuffle(every)
    return [(module, mutant(source, *place)) for module, source, place in every[: asked.sample or None]]


def _killed_before(path: Path | None, chosen: list[tuple[str, Mutant]]) -> dict[tuple[str, str, str], Outcome]:
    """Return what an earlier run killed of the mutants chosen now: more tests do not bring it back to life."""
    if path is None:
        return {}
    names = {(module, changed.place, changed.words) for module, changed in chosen}
    told = (Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())
    return {each.name: each for each in told if each.result != SURVIVED and each.name in names}


def _summary(outcomes: list[Outcome]) -> bool:
    """Print each module's share and all survivors; return whether enough were killed."""
    explained = EXPLAINED.read_text(encoding="utf-8") if EXPLAINED.exists() else ""
    for module in sorted({each.module for each in outcomes}):
        ends = [each.result != SURVIVED for each in outcomes if each.module == module]
        print(f"{module}: {sum(ends)} of {len(ends)} killed ({sum(ends) / len(ends):.0%})")
    survivors = sorted(str(each) for each in outcomes if each.result == SURVIVED)
    new = [each for each in survivors if f"`{each}`" not in explained]
    for each in new:
        print(f"  not explained: {each}")
    share = 1 - len(survivors) / len(outcomes)
    error = math.sqrt(share * (1 - share) / len(outcomes))
    print(
        f"{share:.1%} of {len(outcomes)} mutants killed (standard error, as a sample: {error:.1%}); "
        f"{len(survivors)} survived, {len(new)} of them not explained in docs/records/mutation.md"
    )
    return share >= BAR


def main() -> None:
    """Try mutants, and end with 1 where too few are killed."""
    asked, begun = _arguments(), time.monotonic()
    os.chdir(ROOT)
    os.environ |= {"CI": "true", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for library in LIBRARIES:
        importlib.import_module(library)
    chosen = _chosen(asked)
    before = _killed_before(asked.resume, chosen)
    work = [(module, each) for module, each in chosen if (module, each.place, each.words) not in before]
    outcomes = list(before.values())
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, asked.out.open("w", encoding="utf-8") as out:
        copies = copies_of_package(Path(folder), asked.processes)
        times = prove(sorted({module for module, _ in work}), copies, asked.slowest)
        print(f"{len(work)} mutants; the code as it is passes, and what cannot be loaded fails", flush=True)
        out.writelines(json.dumps(asdict(each)) + "\n" for each in outcomes)
        timely = itertools.takewhile(lambda _: time.monotonic() - begun < asked.seconds, work)
        for number, outcome in enumerate(outcomes_of(timely, times, copies), 1):
            outcomes.append(outcome)
            out.write(json.dumps(asdict(replace(outcome, times={}))) + "\n")
            out.flush()
            if outcome.result != KILLED or number % 50 == 0:
                print(f"{number} of {len(work)}: {outcome.result}: {outcome}", flush=True)
    sys.exit(not _summary(outcomes))


if __name__ == "__main__":
    main()
