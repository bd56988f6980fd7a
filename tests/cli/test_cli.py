"""The command line as a user meets it: answers, refusals, and what is left behind after a crash."""

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import allbutone as abo
from allbutone.cli import output as terminal

ROOT = Path(__file__).parents[2]


def test_synthesize_writes_datasets_and_says_what_it_did(allbutone, table, tmp_path):
    code, out, err = allbutone("synthesize", table, "--out", "r", "--datasets", 3, "--rows", 8)
    assert (code, err) == (0, "")
    assert "3 datasets of 8 rows" in out
    assert "jointly normal" in out
    assert "Next:" in out
    names = sorted(path.name for path in (tmp_path / "r").iterdir())
    assert names == ["dataset-001.csv", "dataset-002.csv", "dataset-003.csv", "release.json"]
    first = (tmp_path / "r" / "dataset-001.csv").read_text().splitlines()
    assert first[0].replace('"', "") == "bmi,ldl"
    assert len(first) == 9


def test_synthesize_writes_parameters(allbutone, table, tmp_path):
    code, out, _ = allbutone("synthesize", table, "--out", "r", "--release", "parameters", "--datasets", 4)
    assert code == 0
    assert "4 parameter draws" in out
    assert len(json.loads((tmp_path / "r" / "parameters.json").read_text())["draws"]) == 4


@pytest.mark.parametrize("kind", [("--rows", 9), ("--release", "parameters")])
def test_a_repeat_key_repeats_the_release_and_is_written_nowhere(allbutone, table, tmp_path, kind):
    code, out, _ = allbutone("synthesize", table, "--out", "a", "--new-repeat-key", *kind)
    key = re.search(r"\b[0-9a-f]{32}\b", out)[0]
    assert (code, out.count(key)) == (0, 1)
    assert allbutone("synthesize", table, "--out", "b", "--repeat-key", key, *kind)[0] == 0
    assert allbutone("synthesize", table, "--out", "c", *kind)[0] == 0
    a, b, c = ({path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in "abc")
    assert a == b
    assert a.keys() == c.keys()
    assert a != c
    assert not any(key.encode() in content for content in a.values())


def test_keys_and_seeds_that_can_be_guessed_are_refused_with_the_cure(allbutone, table, tmp_path):
    for wrong, words in (
        (("--seed", "2024"), "--new-repeat-key"),
        (("--repeat-key", "2024"), "32 hexadecimal digits"),
        (("--repeat-key", "2024" * 8), "pattern"),
        (("--repeat-key", "2024" * 8, "--new-repeat-key"), "--new-repeat-key"),
    ):
        code, _, err = allbutone("synthesize", table, "--out", "r", *wrong)
        assert code == 2
        assert words in err
        assert len(err.splitlines()) == 1
        assert "2024" not in err
        assert not (tmp_path / "r").exists()


def test_options_reach_the_release(allbutone, table, tmp_path):
    (tmp_path / "prior.toml").write_text("centre = 1\nspread = 2")
    options = ("--columns", "ldl", "--prior", "prior.toml", "--format", "parquet")
    assert allbutone("synthesize", table, "--out", "r", "--no-ledger", *options)[0] == 0
    release = abo.load_release(tmp_path / "r")
    assert release.columns == ("ldl",)
    assert release.rows == (30,)
    np.testing.assert_array_equal(release.prior.scale, [[4.0]])
    assert allbutone("synthesize", table, "--out", "r", "--drop", "ldl", "--force")[0] == 0
    assert abo.load_release(tmp_path / "r").columns == ("bmi",)


def test_a_prior_in_other_units_gets_a_note_that_tells_no_number_of_the_data(allbutone, tmp_path):
    (tmp_path / "t.csv").write_text("sbp\n141.5\n132.25\n155.125\n")
    (tmp_path / "prior.toml").write_text("centre = 14.1\nspread = 1.5\n")
    code, _, err = allbutone("synthesize", "t.csv", "--out", "r", "--prior", "prior.toml")
    assert code == 0
    (about_prior,) = [note for note in err.split("Note:") if "same unit" in note]
    assert "'sbp'" in about_prior
    assert not re.search(r"\d", about_prior)
    assert "same unit" not in allbutone("synthesize", "t.csv", "--out", "flat", "--columns", "sbp")[2]


def test_demo_makes_a_cohort_and_a_release(allbutone, tmp_path):
    code, out, _ = allbutone("demo")
    assert code == 0
    assert "row 212" in out
    assert abo.Records.of(tmp_path / "demo" / "cohort.csv").values.shape == (503, 5)
    assert abo.load_release(tmp_path / "demo" / "release").rows == (502,) * 2
    assert allbutone("demo")[0] == 2
    assert allbutone("demo", "--force")[0] == 0
    # the command it names next is one that works
    following = shlex.split(re.search(r"allbutone (risk .*)", out).group(1))
    assert allbutone(*following, "--no-mass")[0] == 0


def test_demo_names_a_next_command_that_runs_as_printed(tmp_path):
    environment = os.environ | {"PATH": os.path.dirname(shutil.which("sh"))}
    program = [sys.executable, "-m", "allbutone", "demo", "--out", "my demo; x"]
    out = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    following = out.splitlines()[-1].strip()
    following += " --no-mass"
    subprocess.run(["sh", "-c", following], cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert (tmp_path / "risk.csv").exists()


def test_force_replaces_only_a_demo_as_it_was_made(allbutone, tmp_path):
    assert allbutone("demo")[0] == 0
    (tmp_path / "demo" / "mine").mkdir()
    assert allbutone("demo", "--force")[0] == 2
    (tmp_path / "demo" / "mine").rmdir()
    (tmp_path / "demo" / "release" / "mine.txt").touch()
    assert allbutone("demo", "--force")[0] == 2
    assert (tmp_path / "demo" / "release" / "mine.txt").exists()


def test_a_table_inside_the_folder_to_replace_is_refused(allbutone, table, tmp_path):
    assert allbutone("synthesize", table, "--out", "r")[0] == 0
    (tmp_path / "link").symlink_to("r")
    for path in ("r/dataset-001.csv", "link/dataset-001.csv"):
        code, _, err = allbutone("synthesize", path, "--out", "r", "--force")
        assert code == 2
        assert "lies inside r" in err
    assert abo.load_release(tmp_path / "r").rows == (30,)


def test_words_agree_in_number(allbutone, table, tmp_path):
    (tmp_path / "prior.toml").write_text("mean_weight = 5")
    assert "the 2 columns together follow bell curves" in allbutone("synthesize", table, "--out", "a")[1]
    out = allbutone("synthesize", table, "--out", "b", "--columns", "ldl", "--prior", "prior.toml")[1]
    assert "the column follows a bell curve" in out
    assert "worth 5 records" in out


def test_no_command_shows_the_help(allbutone):
    code, out, err = allbutone()
    assert (code, err) == (0, "")
    assert "synthesize" in out


@pytest.mark.parametrize("values", [np.ones(3), 1e16 + np.arange(3) * 2.0, np.array([1.0, np.nextafter(1, 2)])])
def test_a_sparkline_can_be_drawn_of_any_numbers(values):
    assert len(terminal.sparkline(values)) == 24


def csv(text):
    return lambda path: (path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())


def truncated_parquet(path):
    pyarrow.parquet.write_table(pa.table({"a": [1.0, 2.0]}), path / "t.parquet")
    whole = (path / "t.parquet").read_bytes()
    (path / "t.parquet").write_bytes(whole[: len(whole) // 2])


GOOD = csv("a,b\n1,2\n3,5\n4,1\n2,2\n6,3\n")
BAD_INPUT = {
    "absent file": (lambda path: None, [], "cannot read .*No such file"),
    "empty file": (csv(""), [], "is empty"),
    "blank file": (csv("\n\n"), [], "cannot be read|no rows|no name|no columns"),
    "header only": (csv("a,b\n"), [], "no rows"),
    "one row": (csv("a,b\n1,2\n"), [], "one row"),
    "text in a numeric column": (csv("a,b\n1,2\n3,oops\n4,5\n"), [], "'b' is not numeric: row 2 holds 'oops'"),
    "missing value": (csv("a,b\n1,2\n3,\n4,5\n"), [], "'b' misses 1 of 3 values, the first in row 2"),
    "infinity": (csv("a,b\n1,2\n3,inf\n"), [], "'b' holds inf in row 2"),
    "1e300": (csv("a,b\n1,2\n3,1e300\n"), [], r"'b' holds 1e\+300 in row 2"),
    "constant column": (csv("a,b\n1,2\n3,2\n"), [], "'b' is constant"),
    "ragged rows": (csv("a,b\n1,2\n3\n"), [], "cannot be read as CSV"),
    "duplicate names": (csv("a,a\n1,2\n3,4\n"), [], "'a' appears 2 times"),
    "name with quotes": (csv('"a""b",c\n1,2\n3,4\n'), [], "quotes"),
    "name with a newline": (csv('"a\nb",c\n1,2\n3,4\n'), [], r"'a\\nb'"),
    "name with markup": (csv("<script>alert(1)</script>,c\n1,2\n3,4\n"), [], "markup"),
    "name with a formula": (csv("=cmd(),c\n1,2\n3,4\n"), [], "formula"),
    "not UTF-8": (csv("a,bø\n1,2\n".encode("latin-1")), [], r"not UTF-8 text \(line 1\)"),
    "UTF-16": (csv("a,b\n1,2\n3,4\n".encode("utf-16")), [], "not UTF-8"),
    "cut character": (csv(b"a,b\n1,2\n3,4\n" + b"\xc3"), [], "not UTF-8"),
    "spreadsheet": (lambda path: (path / "t.xlsx").write_bytes(b"PK"), [], "save it as .csv"),
    "truncated Parquet": (truncated_parquet, [], "not a complete Parquet file"),
    "identifier": (csv("id,b\n1,2\n3,4\n"), [], "looks like an identifier"),
    "unknown column": (GOOD, ["--columns", "c"], "no column 'c'"),
    "prior of the wrong length": (GOOD, ["--prior", "mean = [1, 2, 3]"], "mean has 3 values for 2 columns"),
    "prior not positive definite": (GOOD, ["--prior", "scale = [[1, 2], [2, 1]]"], "positive definite"),
    "df too small": (GOOD, ["--prior", "df = 1"], "df must exceed p - 1 = 1"),
    "no prior file": (GOOD, ["--prior", None], "cannot read .*prior.toml"),
    "prior that is too far": (
        csv("a,b\n10000000000.5,10000000001.5\n10000000002.5,10000000000.5\n"),
        ["--prior", "mean = 0"],
        "too far",
    ),
    "rows 0": (GOOD, ["--rows", "0"], "rows must be at least 1, got 0"),
    "rows negative": (GOOD, ["--rows", "-4"], "rows must be at least 1, got -4"),
    "datasets 0": (GOOD, ["--datasets", "0"], "datasets must be at least 1, got 0"),
    "rows of parameters": (GOOD, ["--release", "parameters", "--rows", "3"], "--rows goes with"),
    "unknown kind": (GOOD, ["--release", "people"], "people"),
    "unknown option": (GOOD, ["--colums", "a"], "No such option: --colums.*allbutone synthesize --help"),
    "rows that are no number": (GOOD, ["--rows", "many"], "--rows"),
    "rows beyond any disk": (GOOD, ["--rows", str(10**23)], "GB are free"),
    "datasets beyond count": (GOOD, ["--datasets", str(10**8)], "at most 1,000,000"),
    "draws beyond count": (GOOD, ["--release", "parameters", "--datasets", str(10**8)], "at most 1,000,000"),
    "another scale and no rows": (csv("sbp\n141\n132\n155\n"), ["--rows", "0"], "at least 1"),
    "a folder that cannot be": (GOOD, ["--out", "x" * 300], "File name too long"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gets_one_line_and_exit_code_2_and_leaves_nothing(allbutone, tmp_path, case):
    make, options, message = BAD_INPUT[case]
    make(tmp_path)
    found = sorted(path.name for path in tmp_path.iterdir()) or ["t.csv"]
    if options[:1] == ["--prior"]:
        if options[1] is not None:
            (tmp_path / "prior.toml").write_text(options[1])
        options = ["--prior", "prior.toml"]
    before = sorted(tmp_path.iterdir())
    code, out, err = allbutone("synthesize", found[0], "--out", "r", *options)
    assert code == 2
    assert out == ""
    assert re.search(message, err)
    assert len(err.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_an_existing_folder_is_refused(allbutone, table, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "notes.txt").write_text("mine")
    for force in ([], ["--force"]):
        code, _, err = allbutone("synthesize", table, "--out", "r", *force)
        assert code == 2
        assert "exists" in err or "not made by allbutone" in err
    assert (tmp_path / "r" / "notes.txt").read_text() == "mine"


def _command(table, *options):
    return [sys.executable, "-m", "allbutone", "synthesize", str(table), "--out", "r", *map(str, options)]


def _start(table, *options, **settings):
    environment = os.environ | {"COLUMNS": "80"}
    return subprocess.Popen(
        _command(table, *options),
        cwd=table.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,
    )


def test_a_full_disk_is_said_and_leaves_nothing(table):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # noqa: E731
    process = _start(table, "--rows", 100_000, preexec_fn=limit)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 2
    assert re.fullmatch(r"Error: cannot write .*r: File too large; nothing was written; .*\n", err)
    assert [path.name for path in table.parent.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", [0.2, 1.0, 2.5])
def test_interrupted_at_any_moment_there_is_the_whole_release_or_none(table, sent, moment):
    process = _start(table, "--rows", 200_000, "--datasets", 12)
    time.sleep(moment)
    process.send_signal(sent)
    process.communicate(timeout=600)
    if (table.parent / "r").exists():
        assert len(abo.load_release(table.parent / "r").datasets) == 12
    elif sent != signal.SIGKILL:
        assert process.returncode != 0
        # a release is recorded just before it is there: no more than its entry may be left
        left = {path.name for path in table.parent.iterdir()}
        assert left <= {"table.csv", abo.Ledger.place_of("table.csv").name}


def test_a_screen_that_cannot_be_written_is_not_a_release_that_was_not(table):
    with open("/dev/full", "w") as full:
        process = subprocess.run(_command(table), cwd=table.parent, stdout=full, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 2
    assert re.fullmatch(r"Error: cannot print: No space left on device; .* is complete\n", process.stderr)
    assert abo.load_release(table.parent / "r").rows == (30,)


def test_a_screen_without_blocks_gets_question_marks(table):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(_command(table), cwd=table.parent, env=environment, capture_output=True, check=True)
    assert b"?" in done.stdout


def test_a_bar_appears_when_work_takes_longer_than_two_seconds(monkeypatch):
    drawn = []
    monkeypatch.setattr(terminal.progress.Progress, "start", lambda self: drawn.append(self))
    with terminal.late_progress("Quick work", 1) as advance:
        advance(1)
    assert not drawn
    monkeypatch.setattr(terminal, "PROGRESS_AFTER_SECONDS", 0.0)
    with terminal.late_progress("Slow work", None):
        time.sleep(0.5)
    assert drawn
