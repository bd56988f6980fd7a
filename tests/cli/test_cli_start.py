"""How the command line starts: quickly stopped, plain about what it cannot read; CI leaves nothing out."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import allbutone as abo
from allbutone.cli.output import as_typed, free_name, in_flags
from allbutone.support.errors import Cure, InputError

ROOT = Path(__file__).parents[2]

# runs the program and presses Ctrl-C at the moment a module begins to load
STOPPED = """
import os, runpy, signal, sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Stop())
sys.argv = ["allbutone", "report", "--help"]
runpy.run_module("allbutone", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "module", ["typer", "numpy", "scipy.special", "pyarrow", "allbutone.cli.report", "plotly"]
)
def test_stopped_while_it_loads_it_ends_quietly(module, number):
    command = [sys.executable, "-c", STOPPED.format(module=module, number=int(number))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")


def test_every_public_name_has_its_home():
    assert set(abo.__all__) <= set(dir(abo))
    for name in abo.__all__:
        assert getattr(abo, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = abo.nothing


@pytest.mark.parametrize(
    "arguments",
    [
        [b"synthesize", b"t\xff.csv", b"--out", b"r"],
        [b"synthesize", b"table.csv", b"--out", b"r\xff"],
        [b"synthesize", b"table.csv", b"--out", b"r", b"--columns", b"\xff"],
        [b"report", b"table.csv", b"r", b"--note", b"na\xefve"],
    ],
)
def test_what_is_not_utf8_is_refused_in_one_line(table, arguments):
    shutil.copy(table, os.path.join(os.fsencode(table.parent), b"t\xff.csv"))
    before = os.listdir(os.fsencode(table.parent))
    command = [sys.executable.encode(), b"-m", b"allbutone", *arguments]
    done = subprocess.run(command, cwd=table.parent, capture_output=True, timeout=600)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"Error: ")
    assert b"is not UTF-8 text; rename" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert os.listdir(os.fsencode(table.parent)) == before


def test_cures_are_worded_in_flags():
    options = {"drop", "prior", "force", "exact_records"}

    def worded(*cures):
        return InputError("column 'a b' is text", *cures).worded(lambda cure: in_flags(cure, options))

    assert worded(Cure("leave it out", "drop", ["a b"])) == "column 'a b' is text; leave it out (--drop 'a b')"
    assert worded(Cure("replace it", "force", True), "go away").endswith("; replace it (--force), or go away")
    assert worded(Cure("give one", "prior")).endswith("give one (--prior …)")
    assert worded(Cure("draw them", "exact_records", True)).endswith("(--exact-records)")
    # what the command line cannot be asked is left to the words
    assert worded(Cure("take more points", "size", 100)).endswith("; take more points")
    assert as_typed("--drop", ["a", "b c"]) == ["--drop", "a,b c"]
    assert as_typed("--drop", ["a,b", "c"]) == ["--drop", "a,b", "--drop", "c"]


def test_a_free_name_is_free_with_all_that_goes_beside_it(tmp_path):
    assert free_name(tmp_path / "risk.csv", ".html") == tmp_path / "risk.csv"
    (tmp_path / "risk.html").touch()
    (tmp_path / "risk-2.csv").symlink_to("nowhere")
    assert free_name(tmp_path / "risk.csv", ".html") == tmp_path / "risk-3.csv"


def test_ci_leaves_no_test_out_where_the_browser_is_missing(tmp_path):
    """What .ci/run tells the tests, told to them on a machine without Chromium, is a failure."""
    (tmp_path / "make").write_text("#!/bin/sh\nenv\n")
    (tmp_path / "make").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    plain = {name: value for name, value in os.environ.items() if name != "CI"}
    told = subprocess.run(
        ["bash", ROOT / ".ci" / "run"], env=plain | {"PATH": path}, capture_output=True, text=True, check=True
    )
    said = dict(line.split("=", 1) for line in told.stdout.splitlines() if line.startswith("CI="))
    command = [sys.executable, "-m", "pytest", "-n", "0", "--collect-only", "-q", "tests/model/test_moments.py"]
    nowhere = plain | {"PATH": str(tmp_path)}
    assert subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, timeout=120).returncode == 0
    done = subprocess.run(command, cwd=ROOT, env=nowhere | said, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "chromium" in done.stdout + done.stderr
