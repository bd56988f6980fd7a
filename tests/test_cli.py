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
import typer.main

import allbutone as abo
from allbutone import cli, terminal

ROOT = Path(__file__).parents[1]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    values = np.random.default_rng(1).standard_normal((30, 2)).round(3)
    path.write_text("bmi,ldl\n" + "\n".join(f"{a},{b}" for a, b in values) + "\n")
    return path


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


def test_a_seed_repeats_the_release_and_is_written_nowhere(allbutone, table, tmp_path):
    for name in ("a", "b", "c"):
        seed = () if name == "c" else ("--seed", 123454321)
        assert allbutone("synthesize", table, "--out", name, "--rows", 9, *seed)[0] == 0
    a, b, c = ({path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in "abc")
    assert a == b
    assert a["dataset-001.csv"] != c["dataset-001.csv"]
    assert not any(b"123454321" in content for content in a.values())


def test_options_reach_the_release(allbutone, table, tmp_path):
    (tmp_path / "prior.toml").write_text("centre = 1\nspread = 2")
    options = ("--columns", "ldl", "--prior", "prior.toml", "--format", "parquet")
    assert allbutone("synthesize", table, "--out", "r", *options)[0] == 0
    release = abo.load_release(tmp_path / "r")
    assert release.columns == ("ldl",)
    assert release.rows == (30,)
    np.testing.assert_array_equal(release.prior.scale, [[4.0]])
    assert allbutone("synthesize", table, "--out", "r", "--drop", "ldl", "--force")[0] == 0
    assert abo.load_release(tmp_path / "r").columns == ("bmi",)


def test_data_on_another_scale_get_a_note_on_priors(allbutone, tmp_path):
    (tmp_path / "t.csv").write_text("sbp\n141\n132\n155\n")
    code, _, err = allbutone("synthesize", "t.csv", "--out", "r")
    assert code == 0
    assert err.count("Note:") == 1
    assert "prior.toml" in err


def test_demo_makes_a_cohort_and_a_release(allbutone, tmp_path):
    code, out, _ = allbutone("demo")
    assert code == 0
    assert "row 212" in out
    assert abo.Records.of(tmp_path / "demo" / "cohort.csv").values.shape == (503, 5)
    assert abo.load_release(tmp_path / "demo" / "release").rows == (503,) * 5
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
    assert "the 2 columns are jointly normal" in allbutone("synthesize", table, "--out", "a")[1]
    out = allbutone("synthesize", table, "--out", "b", "--columns", "ldl", "--prior", "prior.toml")[1]
    assert "the column is normal" in out
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


GOOD = csv("a,b\n1,2\n3,5\n")
BAD_INPUT = {
    "absent file": (lambda path: None, [], "not a file"),
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
    "no prior file": (GOOD, ["--prior", None], "cannot read the prior file"),
    "prior that is too far": (
        csv("a,b\n10000000000.5,10000000001.5\n10000000002.5,10000000000.5\n"),
        [],
        "too far",
    ),
    "rows 0": (GOOD, ["--rows", "0"], "rows must be at least 1, got 0"),
    "rows negative": (GOOD, ["--rows", "-4"], "rows must be at least 1, got -4"),
    "datasets 0": (GOOD, ["--datasets", "0"], "datasets must be at least 1, got 0"),
    "seed negative": (GOOD, ["--seed", "-1"], "seed"),
    "rows of parameters": (GOOD, ["--release", "parameters", "--rows", "3"], "--rows goes with"),
    "unknown kind": (GOOD, ["--release", "people"], "people"),
    "unknown option": (GOOD, ["--colums", "a"], "No such option: --colums"),
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
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert re.fullmatch(r"Error: cannot write .*r: File too large; nothing was written; .*\n", err)
    assert [path.name for path in table.parent.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", [0.2, 1.0, 2.5])
def test_interrupted_at_any_moment_there_is_the_whole_release_or_none(table, sent, moment):
    process = _start(table, "--rows", 200_000, "--datasets", 12)
    time.sleep(moment)
    process.send_signal(sent)
    process.communicate(timeout=60)
    if (table.parent / "r").exists():
        assert len(abo.load_release(table.parent / "r").datasets) == 12
    elif sent != signal.SIGKILL:
        assert process.returncode != 0
        # a signal that comes before the command line has started ends Python as it always does
        assert [path.name for path in table.parent.iterdir()] == ["table.csv"]


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
    monkeypatch.setattr(terminal.Progress, "start", lambda self: drawn.append(self))
    with terminal.late_progress("Quick work", 1) as advance:
        advance(1)
    assert not drawn
    monkeypatch.setattr(terminal, "PROGRESS_AFTER_SECONDS", 0.0)
    with terminal.late_progress("Slow work", None):
        time.sleep(0.5)
    assert drawn


@pytest.fixture
def released(allbutone, table):
    assert allbutone("synthesize", table, "--out", "r", "--datasets", 3, "--rows", 20)[0] == 0
    return table


RISK = ("distance", "baseline_distance", "relative_error", "exposure", "mass", "prior_mass", "information_gain")


def _header(path):
    return tuple(path.read_text().splitlines()[0].replace('"', "").split(","))


def _is_private(path):
    return path.stat().st_mode & 0o777 == 0o600


def _asks_nothing_of_servers(page):
    return "default-src 'none'" in page and not re.search(r"<(script|link|img|iframe)[^>]+(src|href)\s*=", page)


def test_risk_answers_in_words_numbers_and_a_picture(allbutone, released, tmp_path):
    code, out, err = allbutone("risk", released, "r")
    assert (code, err) == (0, "")
    assert re.match(r"(No record is|\d+ of 30 records (is|are)) exposed by half or more", out)
    for words in ("The ten most exposed rows", "risk.csv", "risk.html", "confidential", "Assumed:", "Not shown:"):
        assert words in out
    assert _header(tmp_path / "risk.csv") == ("row", *RISK, "error_bmi", "error_ldl")
    assert len((tmp_path / "risk.csv").read_text().splitlines()) == 31
    assert _asks_nothing_of_servers((tmp_path / "risk.html").read_text(encoding="utf-8"))
    assert all(_is_private(tmp_path / name) for name in ("risk.csv", "risk.html"))
    following = shlex.split(re.search(r"allbutone (budget .*)", out).group(1))
    assert following[2:] == ["--rows", "20"]


def test_risk_may_leave_out_the_mass_and_know_a_column(allbutone, released, tmp_path):
    assert allbutone("risk", released, "r", "--no-mass", "--known", "bmi", "--out", "known.csv")[0] == 0
    names = tuple(name for name in RISK if "mass" not in name)
    assert _header(tmp_path / "known.csv") == ("row", *names, "error_bmi", "error_ldl")
    assert "row" in (tmp_path / "known.html").read_text(encoding="utf-8")
    first = (tmp_path / "known.csv").read_bytes()
    assert allbutone("risk", released, "r", "--no-mass", "--known", "bmi", "--out", "known.csv", "--force")[0] == 0
    assert (tmp_path / "known.csv").read_bytes() == first


def test_risk_takes_the_columns_of_the_release(allbutone, released, tmp_path):
    lines = released.read_text().splitlines()
    numbered = [f"{left},{right}" for left, right in zip(["id", *range(101, 131)], lines, strict=True)]
    (tmp_path / "whole.csv").write_text("\n".join(numbered) + "\n")
    assert allbutone("risk", "whole.csv", "r", "--no-mass")[0] == 0


def test_risk_of_released_parameters_names_a_budget_for_parameters(allbutone, table):
    assert allbutone("synthesize", table, "--out", "r", "--release", "parameters", "--datasets", 4)[0] == 0
    code, out, _ = allbutone("risk", table, "r", "--no-mass")
    assert code == 0
    assert re.search(r"budget .* --release parameters", out)


def test_budget_answers_in_words_numbers_and_a_picture(allbutone, table, tmp_path):
    options = ("--rows", 10, "--counts", "5,1", "--verify", 3, "--seed", 1)
    code, out, err = allbutone("budget", table, *options)
    assert (code, err) == (0, "")
    for words in (
        "sets the limit",
        "The ten most exposed rows",
        "Checked on 3 simulated releases",
        "confidential",
    ):
        assert words in out
    for words in ("Assumed:", "not a guarantee", "Next:"):
        assert words in out
    names = (
        "row",
        "leverage",
        "threshold_datasets",
        "max_datasets",
        "exposure_at_1",
        "exposure_at_5",
        "sure_datasets",
    )
    assert _header(tmp_path / "budget.csv") == names
    assert _asks_nothing_of_servers((tmp_path / "budget.html").read_text(encoding="utf-8"))
    assert all(_is_private(tmp_path / name) for name in ("budget.csv", "budget.html"))
    assert allbutone("budget", table, *options, "--force")[1] == out
    following = shlex.split(re.search(r"allbutone (synthesize .*)", out).group(1))
    assert allbutone(*following)[0] == 0


@pytest.mark.parametrize("limit", ["exposure=0.9", "gain=3"])
def test_budget_of_parameters_by_any_limit(allbutone, table, tmp_path, limit):
    assert allbutone("budget", table, "--release", "parameters", "--limit", limit)[0] == 0
    assert (tmp_path / "budget.html").exists()


BAD_QUESTIONS = {
    "other columns": ("risk other.csv r", "the release is of the columns bmi, ldl, and other.csv has no ldl"),
    "fewer columns": (
        "risk table.csv r --columns bmi",
        "the release is of the columns bmi, ldl, the table of bmi",
    ),
    "another prior": ("risk table.csv r --prior prior.toml", "another prior: its mean is"),
    "no release": ("risk table.csv nowhere", "cannot read nowhere/release.json"),
    "unknown known": ("risk table.csv r --known hdl", "no column 'hdl'"),
    "everything known": ("risk table.csv r --known bmi,ldl", "every feature"),
    "radius 0": ("risk table.csv r --radius 0", "radius must exceed 0"),
    "risk exists": ("risk table.csv r --out table.csv", "table.csv exists"),
    "figure exists": ("risk table.csv r --out there.csv", "there.html exists"),
    "not a CSV file": ("risk table.csv r --out risk.html", "--out names a .csv file"),
    "no folder": ("risk table.csv r --out no/risk.csv", "cannot write"),
    "bad limit": ("budget table.csv --limit fame=3", "a limit reads exposure=0.5"),
    "limit 1": ("budget table.csv --limit exposure=1", "a limit reads exposure=0.5"),
    "rows 0": ("budget table.csv --rows 0", "rows must be at least 1, got 0"),
    "verify 0": ("budget table.csv --verify 0", "verify must be at least 1, got 0"),
    "bad counts": ("budget table.csv --counts 1,many", "--counts are whole numbers"),
    "counts 0": ("budget table.csv --counts 0", "counts must be at least 1"),
    "rows of parameters": ("budget table.csv --rows 3 --release parameters", "--rows goes with"),
    "budget exists": ("budget table.csv --out other.csv", "other.csv exists"),
    "unknown column": ("budget table.csv --columns hdl", "no column 'hdl'"),
}


@pytest.mark.parametrize("case", BAD_QUESTIONS)
def test_bad_questions_about_risk_get_one_line_and_leave_nothing(allbutone, released, tmp_path, case):
    question, message = BAD_QUESTIONS[case]
    (tmp_path / "other.csv").write_text("bmi,hdl\n1,2\n3,5\n2,2\n")
    (tmp_path / "prior.toml").write_text("mean = 1")
    (tmp_path / "there.html").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, out, err = allbutone(*question.split())
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_every_command_and_option_is_documented():
    readme = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name, command in typer.main.get_command(cli.app).commands.items():
        assert command.help, f"allbutone {name} has no help text"
        assert f"## allbutone {name}" in readme
        section = readme.split(f"## allbutone {name}")[1].split("\n## ")[0]
        for parameter in command.params:
            shown = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.name.upper()
            assert f"`{shown}" in section, f"docs/commands.md: allbutone {name} says nothing of {shown}"
            assert getattr(parameter, "help", ""), f"{shown} of allbutone {name} has no help text"
