"""Tests of mutants, each in a process of its own that loads a copy of the package with one change."""

import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checks.mutants import Mutant

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "allbutone"
MAXIMISER = ["bound_laws", "climb_laws", "modes_laws", "modes", "alone", "adversary", "batches_and_devices"]
LAW = ["exposure_by_hand", "exposure_law"]
TARGETS = {  # module: its tests
    "model/niw.py": ["niw", "niw_by_hand", "batches_and_devices"],
    "model/moments.py": ["moments", "moments_by_hand", "batches_and_devices"],
    "adversary/modes.py": MAXIMISER,
    "adversary/climb.py": MAXIMISER,
    "disclosure/exposure_law.py": LAW,
}
PATIENCE = 5  # seconds of a core, and times what the code as it is takes, after which a test has failed
MEMORY = 16 << 30
Times = dict[str, float]  # of each test, in seconds of a core
KILLED, SURVIVED, ENDLESS, BROKEN = "killed", "survived", "endless", "broken"


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant: `test` is the one that failed."""

    module: str
    place: str
    words: str
    result: str
    test: str
    seconds: float
    times: Times

    @property
    def name(self) -> tuple[str, str, str]:
        """What tells this mutant from all others."""
        return self.module, self.place, self.words

    def __str__(self) -> str:
        """Return the change as docs/records/mutation.md names it."""
        return f"{Path(self.module).stem}.{self.place}: {self.words}".replace(".:", ":")


class _Quickest:
    """A pytest plugin: the quickest tests first, each with a limit; notes their times and the one that failed."""

    def __init__(self, times: Times | None) -> None:
        self.before, self.times, self.failed = times, Times(), ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.before is not None:
            items[:] = sorted(
                (item for item in items if item.nodeid in self.before), key=lambda item: self.before[item.nodeid]
            )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.before is not None:
            signal.setitimer(signal.ITIMER_PROF, PATIENCE * (1 + self.before[nodeid]))
        self.times[nodeid] = -time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.times[nodeid] += time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed = report.nodeid


def _run_tests(tree: Path, tests: Sequence[str], times: Times | None, answer: Path, *options: str) -> int:
    """Run tests in this process on the package in a tree, in silence; return pytest's exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    # a file's cache is known by its size and second, which two mutants may share: none is written but at first
    sys.dont_write_bytecode = "--collect-only" not in options
    signal.setitimer(signal.ITIMER_PROF, 600 if times is None else 60)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if any(name.partition(".")[0] == "allbutone" for name in sys.modules):
        raise RuntimeError("the package was loaded before the tests: they would not see the mutant")
    sys.path[:0] = [str(tree), str(ROOT / "tests" / "shared"), str(ROOT)]
    plugin = _Quickest(times)
    usual = ["-x", "-q", "-o", "addopts=", "--noconftest", "-p", "every_test", "-p", "no:cacheprovider"]
    files = [str(path.relative_to(ROOT)) for each in tests for path in ROOT.glob(f"tests/*/test_{each}.py")]
    ignored = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of libraries that are loaded already
    code = int(pytest.main([*usual, *ignored, *options, *files], plugins=[plugin]))
    loaded = getattr(sys.modules.get("allbutone"), "__file__", None)
    if loaded is not None and not Path(loaded).is_relative_to(tree):
        raise RuntimeError(f"the tests loaded {loaded}, not the copy with the mutant")
    answer.write_text(json.dumps({"failed": plugin.failed, "times": plugin.times}))
    return code


@dataclass(frozen=True)
class Copy:
    """A copy of the package in which one module after another is replaced by a mutant."""

    folder: Path

    def begin(self, module: str, code: str, times: Times | None) -> int:
        """Start the tests of a module with this code in a process of their own; return its number."""
        path = self.folder / "allbutone" / module
        path.write_text(code, encoding="utf-8")
        for stale in path.parent.glob(f"__pycache__/{path.stem}.*"):
            stale.unlink()
        return self.fork(TARGETS[module], times, "allbutone." + module.removesuffix(".py").replace("/", "."))

    def fork(self, tests: Sequence[str], times: Times | None, shapes: str, *options: str) -> int:
        """Start tests in a process of their own; `shapes`: the module whose shapes are checked there."""
        self.answer.unlink(missing_ok=True)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            end = 3
            os.environ["ALLBUTONE_TEST_SHAPES"] = shapes  # of all it would take longer than most tests
            try:
                end = _run_tests(self.folder, tests, times, self.answer, *options)
            finally:
                os._exit(end)
        return child

    def end(self, module: str, status: int) -> tuple[str, str, Times]:
        """Put the module back as it was; return what became of the mutant, by which test, and the tests' times."""
        shutil.copy2(SOURCE / module, self.folder / "allbutone" / module)
        notes = json.loads(self.answer.read_text()) if self.answer.exists() else {"failed": "", "times": {}}
        if os.WIFSIGNALED(status):
            result = ENDLESS if os.WTERMSIG(status) == signal.SIGPROF else BROKEN
        else:
            result = {0: SURVIVED, 1: KILLED, 2: KILLED}.get(os.WEXITSTATUS(status), BROKEN)
        return result, notes["failed"], notes["times"]

    @property
    def answer(self) -> Path:
        """Where the tests leave their notes."""
        return self.folder / "answer.json"


def copies_of_package(folder: Path, count: int) -> list[Copy]:
    """Return copies of the package, with everything compiled that the tests load."""
    first, *others = (Copy(folder / str(number)) for number in range(count))
    shutil.copytree(SOURCE, first.folder / "allbutone")
    tests = sorted({test for each in TARGETS.values() for test in each})
    if os.waitpid(first.fork(tests, None, "", "--collect-only"), 0)[1]:
        raise SystemExit(f"the tests cannot be loaded; see: pytest --collect-only {' '.join(tests)}")
    for other in others:
        shutil.copytree(first.folder, other.folder)
    return [first, *others]


def outcomes_of(
    work: Iterable[tuple[str, Mutant]], times: dict[str, Times], copies: list[Copy]
) -> Iterator[Outcome]:
    """Try mutants, as many at a time as there are copies of the package."""
    free, running, left = list(copies), dict[int, Any](), iter(work)
    while True:
        while free and (following := next(left, None)):
            module, changed = following
            copy = free.pop()
            child = copy.begin(module, changed.code, times.get(module))
            running[child] = (copy, module, changed, time.monotonic())
        if not running:
            return
        child, status = os.wait()
        copy, module, changed, begun = running.pop(child)
        result, failed, spent = copy.end(module, status)
        free.append(copy)
        yield Outcome(module, changed.place, changed.words, result, failed, time.monotonic() - begun, spent)


def prove(modules: Sequence[str], copies: list[Copy], slowest: float) -> dict[str, Times]:
    """Return how long each module's tests take as it is: they must pass, and fail where it cannot be loaded."""
    sources = {module: (SOURCE / module).read_text(encoding="utf-8") for module in modules}
    first = {tuple(TARGETS[module]): module for module in reversed(modules)}  # one of those with the same tests
    times: dict[str, Times] = {}
    unchanged = [(module, Mutant("", "no change", sources[module])) for module in first.values()]
    for found in outcomes_of(unchanged, {}, copies):
        if found.result != SURVIVED:
            raise SystemExit(f"{found.module}: {found.result} without any mutant {found.test}")
        quick = {test: spent for test, spent in found.times.items() if spent <= slowest}
        times |= {module: quick for module in modules if TARGETS[module] == TARGETS[found.module]}
    dead = "\nraise RuntimeError('a mutant that no test can miss')\n"
    fatal = [(module, Mutant("", "it cannot be loaded", source + dead)) for module, source in sources.items()]
    for found in outcomes_of(fatal, times, copies):
        if found.result != KILLED:
            raise SystemExit(f"{found.module} with a mutant that cannot be loaded: {found.result}")
    return times
