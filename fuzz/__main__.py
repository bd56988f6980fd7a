"""Run spoiled inputs against every target and print what became of them.

`python -m fuzz --inputs 100000 --seconds 600 --seed 1 --grown 0.5 --faults FOLDER [target …]`; the exit code is 1
if anything but a result or a clean error came of any.
"""

import argparse
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from fuzz.mutate import one_of
from fuzz.seeds import write_seeds
from fuzz.targets import Target, all_targets, chosen
from fuzz.watch import Tally, attempt

BATCH = 200  # inputs of one process at most: what they leave in memory ends with it
WARM = 16  # valid inputs that are run first, of each target
GUIDED = (
    "table (CSV)", "table (Parquet)", "table file", "prior file", "design file", "ledger", "moments",
    "release: description", "release: parameters", "release: dataset", "release: Parquet dataset",
    "release: mixed", "release: archive", "study journal",
)  # fmt: skip
PATIENCE = 300  # seconds of waiting for a process before it counts as hung


def main() -> int:
    """Run all, print a table, and keep the inputs that made faults."""
    asked = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    asked.add_argument("--inputs", type=int, default=100_000)
    asked.add_argument("--seconds", type=float, default=600.0)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--faults", type=Path, default=Path("fuzz-faults"))
    asked.add_argument("--grown", type=float, default=0.5, help="the share of inputs and time that atheris has")
    asked.add_argument("targets", nargs="*")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-seeds-") as folder:
        write_seeds(Path(folder))
        targets = chosen(all_targets(Path(folder)), given.targets)
        _warm(targets)
        tallies = {target.name: Tally(target.name) for target in targets}
        guided = [name for name in GUIDED if name in tallies and given.grown > 0]
        spoiled = 1 - given.grown if guided else 1.0
        _run(targets, tallies, int(given.inputs * spoiled), given.seconds * spoiled, given.seed)
        for name in guided:
            share = given.grown / len(guided)
            _guide(name, tallies[name], int(given.inputs * share), int(given.seconds * share))
    _print(list(tallies.values()))
    return _keep(list(tallies.values()), given.faults)


def _guide(name: str, tally: Tally, runs: int, seconds: int) -> None:
    """Have atheris grow inputs for a target; it runs in a process of its own, which its first find ends."""
    if find_spec("atheris") is None:
        print(f"{name}: atheris is not installed, so no inputs were grown by what they reach")
        return
    command = [sys.executable, "-m", "fuzz.guided", name, str(runs), str(max(seconds, 5))]
    with tempfile.TemporaryDirectory(prefix="fuzz-guided-") as folder:
        where = {
            "cwd": folder,
            "env": os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        }
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", **where)
        counted = re.findall(r"number_of_executed_units: (\d+)", done.stderr)
        tally.grown += int(counted[-1]) if counted else 0
        if done.returncode and not any(Path(folder).iterdir()):  # it did not even begin
            tally.faults.append((f"atheris ended with {done.returncode}: {done.stderr[-200:]!r}", b""))
        for path in Path(folder).glob("*-*"):  # crash-…, timeout-…, oom-…
            words = re.findall(r"(\w+Error.*|ERROR: .*)", done.stderr)
            tally.faults.append((f"{path.name.split('-')[0]}: {words[0] if words else '?'}", path.read_bytes()))


def _warm(targets: list[Target]) -> None:
    """Run valid inputs here, so that the processes to come have loaded all that they need, and check that they do.

    The app has a pool of threads, which must be each process's own.
    """
    for target in targets:
        tally = Tally(target.name)
        for seed in target.seeds[:WARM] if not target.name.startswith("app") else ():
            attempt(target, seed, tally)
        assert not tally.faults, tally.faults[0]
        assert target.name.startswith("app") or tally.results > 0, target.name
    import_module("allbutone.app.server")


def _run(targets: list[Target], tallies: dict[str, Tally], inputs: int, seconds: float, seed: int) -> None:
    """Take turns, a batch each, until there are enough inputs or the time is over."""
    shares, end, turn = [target.share for target in targets], time.monotonic() + seconds, 0
    while time.monotonic() < end and (done := sum(tally.inputs for tally in tallies.values())) < inputs:
        print(f"{done:,} of {inputs:,}", end="\r", file=sys.stderr, flush=True)
        for target in targets:
            count = max(1, min(BATCH * target.share // max(shares), inputs * target.share // sum(shares) + 1))
            tally, begun = tallies[target.name], time.monotonic()
            _in_a_process(target, tally, count, f"{seed} {target.name} {turn}", end)
            tally.seconds += time.monotonic() - begun
        turn += 1


def _in_a_process(target: Target, tally: Tally, count: int, seed: str, end: float) -> None:
    """Run a batch in a process of its own, which tells what it begins: a crash or a hang is that input's fault."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_batch, args=(target, count, seed, there, end))
    process.start()
    there.close()
    began = b""
    try:
        while here.poll(PATIENCE):
            told = here.recv()
            if isinstance(told, bytes):
                began = told
                continue
            tally.results += told.results
            tally.refused += told.refused
            tally.faults += told.faults
            break
        else:
            process.kill()
            tally.faults.append(("hung", began))
    except EOFError:
        process.join()
        tally.faults.append((f"the process ended with {process.exitcode}", began))
    process.join()


def _batch(target: Target, count: int, seed: str, there: object, end: float) -> None:
    rng, tally = random.Random(seed), Tally(target.name)
    for _ in range(count):
        if time.monotonic() > end:
            break
        data = one_of(target.seeds, target.kind, rng)
        there.send(data)  # type: ignore[attr-defined]
        attempt(target, data, tally)
    there.send(tally)  # type: ignore[attr-defined]


def _print(tallies: list[Tally]) -> None:
    total = Tally("together")
    for tally in tallies:
        for name in ("results", "refused", "faults", "seconds", "grown"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
    print(f"{'target':24} {'inputs':>8} {'results':>8} {'refused':>8} {'grown':>8} {'faults':>7} {'seconds':>8}")
    for tally in (*tallies, total):
        print(f"{tally.name:24} {tally.inputs:8,} {tally.results:8,} {tally.refused:8,} {tally.grown:8,} "
              f"{len(tally.faults):7,} {tally.seconds:8.0f}")  # fmt: skip


def _keep(tallies: list[Tally], folder: Path) -> int:
    """Write one input of each kind of fault, and say which kinds there were."""
    kinds = {(tally.name, words): data for tally in tallies for words, data in reversed(tally.faults)}
    for number, ((name, words), data) in enumerate(sorted(kinds.items()), start=1):
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.input").write_bytes(data)
        print(f"{folder / f'{number}.input'}: {name}: {words}")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
