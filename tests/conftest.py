"""Shapes are checked by beartype wherever the tests go: the hook must come before the package is imported."""

import multiprocessing
import os
import secrets
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import shapecheck
from programs import program

shapecheck.install()

# the app on a server, and a browser before it; databases, clusters; releases to be looked at
pytest_plugins = ["app_server", "engines", "clean_releases"]

settings.register_profile(
    "default",
    derandomize=os.environ.get("CI") == "true",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# PyTorch is large, so its tests run only where it was asked for: `make test-torch`
collect_ignore = [] if os.environ.get("ALLBUTONE_TEST_TORCH") else ["test_torch.py"]
# and Spark takes Java: `make test-spark`
collect_ignore += [] if os.environ.get("ALLBUTONE_TEST_SPARK") else ["test_spark.py"]

# Tests that need a part of the system; `make test` installs it from Debian where it can
BROWSER_TESTS = (
    "test_app_data.py",
    "test_app_explore.py",
    "test_app_mixed.py",
    "test_app_release.py",
    "test_app_release_files.py",
    "test_app_screens.py",
    "test_app_studies.py",
    "test_app_uploads.py",
    "test_browser.py",
    "test_plots_phone.py",
    "test_report.py",
)
ENGINE_TESTS = (
    "test_engines.py",
    "test_engine_failures.py",
    "test_engine_mixed.py",
    "test_engine_sources.py",
    "test_standing_out.py",
)
SYSTEM_PARTS = dict.fromkeys(BROWSER_TESTS, "chromium") | dict.fromkeys(ENGINE_TESTS, "postgres")
MISSING = {name: part for name, part in SYSTEM_PARTS.items() if program(part) is None}
collect_ignore += list(MISSING)


def pytest_configure(config):
    if MISSING and os.environ.get("CI") == "true":
        raise pytest.UsageError(f"missing on this machine, and CI leaves nothing out: {MISSING}")


def pytest_collection_modifyitems(items):
    """Leave out what takes long, unless it is asked for."""
    if os.environ.get("ALLBUTONE_TEST_LONG"):
        return
    listed = (Path(__file__).parent / "long_tests.txt").read_text().splitlines()
    long = tuple(line for line in listed if not line.startswith("#"))
    for item in items:
        if item.nodeid.startswith(long):
            item.add_marker(pytest.mark.skip(reason="takes long: make test-long runs it"))


def pytest_terminal_summary(terminalreporter):
    for name, part in MISSING.items():
        terminalreporter.write_line(f"LEFT OUT: tests/{name}, because {part} is missing on this machine")


@pytest.hookimpl
def pytest_runtest_setup():
    shapecheck.next_test()


@pytest.fixture
def allbutone(monkeypatch, capsys, tmp_path):
    """Run the command line in this process; returns (exit code, output, errors)."""
    from allbutone.cli import main as cli  # not above: the hook must be in place first

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["allbutone", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


@pytest.fixture(scope="session")
def processes():
    """Make processes that may be killed: each begins with what is imported once for all of them."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(["test_safe_files", "test_study_run"])
    return made


@pytest.fixture
def few_trials(monkeypatch):
    """A budget without simulated releases, or by as few as it takes, where what it finds is not the point."""
    from allbutone.disclosure import budget, mixed_budget  # not above: the hook must be in place first

    monkeypatch.setattr(budget, "WORK", 0)
    monkeypatch.setattr(budget, "alternatives_of", lambda *_: [])
    monkeypatch.setattr(mixed_budget, "CHECKS", 2)


@pytest.fixture
def rng(request):
    """Random numbers that differ from test to test, and from run to run; a failure says how to draw them again.

    CI draws the same ones each time: whether a change lands depends on the change alone.
    """
    name = request.node.nodeid
    always = "1" if os.environ.get("CI") == "true" else "0"
    seed = int(os.environ.get("ALLBUTONE_TEST_SEED", always)) or secrets.randbits(32)
    print(f"random numbers of {name}: ALLBUTONE_TEST_SEED={seed} draws them again")
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


@pytest.fixture
def table(tmp_path):
    """A small confidential table."""
    path = tmp_path / "table.csv"
    values = np.random.default_rng(1).standard_normal((30, 2)).round(3)
    path.write_text("bmi,ldl\n" + "\n".join(f"{a},{b}" for a, b in values) + "\n")
    return path
