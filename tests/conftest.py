"""What the tests share; what every one of them needs is in shared/every_test.py."""

import multiprocessing
import os
import sys

import numpy as np
import pytest

from programs import program

# what checks shapes comes first; the app on a server, a browser before it; databases, clusters; releases; noise
pytest_plugins = ["every_test", "app_server", "engines", "clean_releases", "seeded_noise"]

# PyTorch is large, so its tests run only where it was asked for: `make test-torch`
collect_ignore_glob = [] if os.environ.get("ALLBUTONE_TEST_TORCH") else ["*/test_torch.py"]
# and Spark takes Java: `make test-spark`
collect_ignore_glob += [] if os.environ.get("ALLBUTONE_TEST_SPARK") else ["*/test_spark.py"]

# Tests that need a part of the system; `make test` installs it from Debian where it can
BROWSER_TESTS = (
    "test_app_access.py",
    "test_app_budget.py",
    "test_app_decide.py",
    "test_app_draw.py",
    "test_app_explore.py",
    "test_app_mend.py",
    "test_app_mixed.py",
    "test_app_screens.py",
    "test_app_studies.py",
    "test_app_uploads.py",
    "test_board.py",
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
collect_ignore_glob += [f"*/{name}" for name in MISSING]


def pytest_configure(config):
    if MISSING and os.environ.get("CI") == "true":
        raise pytest.UsageError(f"missing on this machine, and CI leaves nothing out: {MISSING}")


def pytest_terminal_summary(terminalreporter):
    for name, part in MISSING.items():
        terminalreporter.write_line(f"LEFT OUT: tests/{name}, because {part} is missing on this machine")


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
    made.set_forkserver_preload(["warmed_up", "test_safe_files", "test_study_run"])
    return made


@pytest.fixture
def few_trials(monkeypatch):
    """A budget without simulated releases, or by as few as it takes, where what it finds is not the point."""
    from allbutone.disclosure import budget, budget_case, simulated_budget  # not above: the hook must come first

    monkeypatch.setattr(budget_case, "WORK", 0)
    monkeypatch.setattr(budget, "alternatives_of", lambda *_: ())
    monkeypatch.setattr(simulated_budget, "RELEASES", 2)
    for name in ("RELEASES", "GAP_RELEASES"):
        monkeypatch.setattr(budget_case, name, 2)
    monkeypatch.setattr(budget_case, "CLASS_LOOKS", ((2, 0),))
    monkeypatch.setattr(budget_case, "MOST_WITH_CLASSES", 1)
    if source := sys.modules.get("allbutone.app.pages.source"):  # what is found so is not kept for other tests
        monkeypatch.setattr(source, "_COHORT", source.Held(source._COHORT.value))


@pytest.fixture
def fewer_releases(monkeypatch):
    """A fifth of the usual simulated releases, in which the few are attacked who stand out most."""
    from allbutone.disclosure import budget, budget_case, simulated_budget  # not above: the hook must come first

    monkeypatch.setattr(budget_case, "PEOPLE", budget_case.FEWEST)
    monkeypatch.setattr(budget, "SMALLER", (10,))
    for room in (simulated_budget, budget_case):
        monkeypatch.setattr(room, "RELEASES", 40)
    monkeypatch.setattr(simulated_budget, "ACCEPTED", 1)


@pytest.fixture
def table(tmp_path):
    """A small confidential table."""
    path = tmp_path / "table.csv"
    values = np.random.default_rng(1).standard_normal((30, 2)).round(3)
    path.write_text("bmi,ldl\n" + "\n".join(f"{a},{b}" for a, b in values) + "\n")
    return path
