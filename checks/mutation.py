"""Change one sign, comparison, number or condition of the code at a time, and see whether a test notices.

    python -m checks.mutation [--sample 40] [--only modes] [--seed 0]

Of the maximiser, the model and the exposure law, each with the test files that state its laws. Every mutant runs
in a fork of a process that has loaded the libraries: only this package and the tests load anew, with the mutant in
place of the module, and the quick tests go first. Survivors are printed as they would be written, and explained in
checks/survivors.md. Shapes are not checked here, and Hypothesis draws few examples: both would only kill more.
"""

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import sys
import tempfile
import time
import types
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
TARGETS = {  # module: its test files
    "allbutone.model.niw": ["test_niw.py", "test_niw_by_hand.py"],
    "allbutone.adversary.modes": ["test_modes.py", "test_adversary.py"],
    "allbutone.disclosure.exposure_law": ["test_exposure_law.py"],
    "allbutone.disclosure.spiked_exposure": ["test_exposure_law.py"],
}
SLOWEST = 0.4  # seconds of a core that a test may take to be among those that are asked
PATIENCE = 10  # seconds of a core beyond twice what the code itself takes, after which a mutant has failed
KILLED, SURVIVED, TOO_SLOW = "killed", "survived", "too slow"
_SWAPS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def mutants(source: str) -> Iterator[tuple[int, str, ast.Module]]:
    """Yield (line, what it was and is, the module with that one change), in the order of the text."""
    tree = ast.parse(source)
    for number, node in enumerate(_mutable(tree)):
        for turn in range(len(_changes(node))):
            whole = copy.deepcopy(tree)
            other = _mutable(whole)[number]
            before = ast.unparse(other)
            _changes(other)[turn]()
            yield node.lineno, f"{before}  ->  {ast.unparse(other)}", ast.fix_missing_locations(whole)


def _mutable(tree: ast.Module) -> list[Any]:
    """Return the nodes that can be changed: none in annotations, words of errors, or what only names things."""
    found: list[Any] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.AnnAssign):
            return
        if _changes(node):
            found.append(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child)

    visit(tree)
    return found


def _changes(node: Any) -> list[Any]:
    """Return the ways to change one node in place."""
    if isinstance(node, ast.BinOp) and type(node.op) in _SWAPS:
        return [lambda: setattr(node, "op", _SWAPS[type(node.op)]())]
    if isinstance(node, ast.BoolOp):
        return [lambda: setattr(node, "op", _SWAPS[type(node.op)]())]
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        return [lambda: node.ops.__setitem__(0, _SWAPS[type(node.ops[0])]())]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        return (
            [lambda: setattr(node, "op", ast.UAdd())] if isinstance(node.op, ast.USub) else [lambda: _bare(node)]
        )
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return [lambda: setattr(node, "value", node.value + 1)]
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return [lambda: setattr(node, "value", not node.value)]
    if isinstance(node, ast.If | ast.IfExp):
        return [lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))]
    return []


def _bare(node: ast.UnaryOp) -> None:
    """Take a negation away: not x and ~x become x twice negated."""
    node.operand = ast.UnaryOp(node.op, node.operand)


class _Mutant(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a changed tree."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name, self.tree = name, tree

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__file__ = str(ROOT / "src" / f"{self.name.replace('.', '/')}.py")
        exec(compile(self.tree, module.__file__, "exec"), module.__dict__)


class _Clock:
    """A pytest plugin that notes how long each test takes, and has Hypothesis draw few examples."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_collection_finish(self, session: Any) -> None:
        from hypothesis import HealthCheck, settings

        settings.register_profile("few", max_examples=8, derandomize=True, deadline=None, database=None)
        settings.load_profile("few")
        for item in session.items:
            inner = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
            if inner is not None:
                few = settings(inner, max_examples=8, derandomize=True, suppress_health_check=list(HealthCheck))
                item.obj._hypothesis_internal_use_settings = few

    @pytest.fixture
    def rng(self, request: pytest.FixtureRequest) -> np.random.Generator:
        """Stand in for the tests' own, whose file would load much more of the package for every mutant."""
        return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.seconds[nodeid] = -time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] += time.process_time()


def _tested(tests: Sequence[str], mutant: _Mutant | None, answer: Path | None, limit: int) -> str:
    """Run tests in a fork, in this order, until one fails; `answer` is where their times go."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        if mutant is not None:
            sys.meta_path.insert(0, mutant)
        # Hypothesis is loaded before the fork
        clock, code, quiet_about = _Clock(), 3, ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        try:
            code = int(
                pytest.main(
                    ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *quiet_about, *tests], plugins=[clock]
                )
            )
            if answer is not None:
                answer.write_text(json.dumps(clock.seconds))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return TOO_SLOW
    return SURVIVED if os.WEXITSTATUS(status) == 0 else KILLED


def _quick_tests(files: Sequence[str], folder: Path) -> tuple[list[str], float]:
    """Return the tests that take little, the quickest first, and how long all of them take."""
    answer = folder / "times.json"
    if _tested([f"tests/{file}" for file in files], None, answer, 3000) != SURVIVED:
        raise SystemExit(f"the tests in {', '.join(files)} fail without any mutant")
    times = {name: spent for name, spent in json.loads(answer.read_text()).items() if spent < SLOWEST}
    return sorted(times, key=times.__getitem__), sum(times.values())


def _run(name: str, files: Sequence[str], sample: int, seed: int) -> tuple[int, int]:
    """Try the mutants of one module, or a sample of them; return how many were killed, of how many."""
    path = ROOT / "src" / f"{name.replace('.', '/')}.py"
    every = list(mutants(path.read_text(encoding="utf-8")))
    chosen = sorted(random.Random(seed).sample(range(len(every)), min(sample or len(every), len(every))))
    with tempfile.TemporaryDirectory() as folder:
        tests, spent = _quick_tests(files, Path(folder))
        print(f"{name}: {len(chosen)} of {len(every)} mutants, {len(tests)} tests of {spent:.1f} s", flush=True)
        killed = 0
        for number in chosen:
            line, words, tree = every[number]
            found = _tested(tests, _Mutant(name, tree), None, PATIENCE + round(2 * spent))
            killed += found != SURVIVED
            if found == SURVIVED:
                print(f"  survived: {path.name}:{line}: {' '.join(words.split())[:150]}", flush=True)
    print(f"  {killed} of {len(chosen)} killed ({killed / len(chosen):.0%})", flush=True)
    return killed, len(chosen)


def main() -> None:
    """Try mutants of all three modules, and end with 1 where fewer than 85 % of them are killed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--sample", type=int, default=0, help="how many mutants of each module; all by default")
    asked.add_argument("--only", default="", help="a part of the name of the module")
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    os.chdir(ROOT)
    for library in ("numpy", "scipy.special", "scipy.stats", "scipy.optimize", "hypothesis.extra.numpy", "pytest",
                    "mpmath", "array_api_strict"):  # fmt: skip
        importlib.import_module(library)
    begun = time.monotonic()
    counts = [_run(name, files, given.sample, given.seed) for name, files in TARGETS.items() if given.only in name]
    killed, tried = (sum(each) for each in zip(*counts, strict=True))
    print(f"{killed} of {tried} killed ({killed / tried:.1%}) in {time.monotonic() - begun:.0f} s")
    sys.exit(killed < 0.85 * tried)


if __name__ == "__main__":
    main()
