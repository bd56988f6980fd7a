"""On the command line: no output replaces an input, and a file without a header gives no value away as a name."""

import json
import os

import numpy as np
import pytest

import allbutone as abo
from allbutone.cli import options

TEXT = "\n".join(f"{a},{b}" for a, b in np.random.default_rng(1).standard_normal((20, 2)).round(3)) + "\n"
COMMANDS = {
    "synthesize": ("synthesize", "{input}", "--out", "{output}", "--force"),
    "budget": ("budget", "{input}", "--out", "{output}", "--force"),
    "risk": ("risk", "{input}", "release", "--out", "{output}", "--force"),
    "report": ("report", "{input}", "release", "--out", "{output}", "--force"),
    "application": ("application", "{input}", "--datasets", "2", "--out", "{output}", "--force"),
}
ENDING = {"budget": "csv", "risk": "csv", "report": "html"}


@pytest.fixture
def released(allbutone, table):
    assert allbutone("synthesize", table, "--out", "release")[0] == 0
    return table


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("link", [os.link, os.symlink], ids=["hard", "soft"])
def test_no_command_writes_over_its_table_or_prior(allbutone, released, tmp_path, command, link):
    prior = tmp_path / "prior.toml"
    prior.write_text("mean = 0\n")
    for source in (released, prior):
        output = tmp_path / f"{source.stem}-same.{ENDING.get(command, 'csv')}"
        link(source, output)
        words = [word.format(input=released, output=output) for word in COMMANDS[command]]
        before = source.read_bytes()
        code, _, err = allbutone(*words, "--prior", prior)
        assert code == 2
        assert "same file as the input" in err
        assert source.read_bytes() == output.read_bytes() == before


def test_a_budget_does_not_replace_a_table_of_its_name(allbutone, table, tmp_path):
    named = table.rename(tmp_path / "budget.csv")
    before = named.read_bytes()
    code, _, err = allbutone("budget", "budget.csv", "--force")
    assert (code, named.read_bytes()) == (2, before)
    assert "same file as the input" in err


def test_the_figure_beside_the_numbers_is_an_output_too(allbutone, released, tmp_path):
    (tmp_path / "x.html").symlink_to(released)
    assert "same file as the input" in allbutone("risk", released, "release", "--out", "x.csv", "--force")[2]
    (tmp_path / "y.csv").mkdir()
    code, _, err = allbutone("risk", released, "release", "--out", "y.csv", "--force")
    assert (code, (tmp_path / "y.html").exists()) == (2, False)
    assert "is a folder" in err


def test_a_study_does_not_replace_its_own_design(allbutone, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "mine.toml").write_text("x")
    design = '[[cells]]\nrelease = "parameters"\np = 1\nn = 5\ncount = 1\ntarget = 9\n'
    (tmp_path / "s" / "mine.toml").write_text(design)
    code, _, err = allbutone("study", "s/mine.toml", "--out", "s", "--replicates", "5", "--force")
    assert code == 2
    assert "lies inside" in err
    assert (tmp_path / "s" / "mine.toml").read_text() == design


def test_a_table_without_a_header_is_used_with_names_of_its_own(allbutone, few_trials, tmp_path):
    (tmp_path / "t.csv").write_text(TEXT)
    first = TEXT.split("\n")[0].split(",")
    code, _, err = allbutone("synthesize", "t.csv", "--out", "r")
    assert code == 2
    assert "--no-header" in err
    names = ("--no-header", "--columns", "bmi,ldl")
    for folder, how in (("r", ["--no-header"]), ("named", names)):
        assert allbutone("synthesize", "t.csv", "--out", folder, *how)[0] == 0
        manifest = json.loads((tmp_path / folder / "release.json").read_text())
        assert manifest["columns"] == (["x1", "x2"] if folder == "r" else ["bmi", "ldl"])
        assert manifest["rows"] == [20]
        for command in ("risk", "report"):
            ending = "csv" if command == "risk" else "html"
            code, out, err = allbutone(command, "t.csv", folder, "--out", f"{folder}.{command}.{ending}", *how)
            assert (code, err) == (0, "")
            assert "--no-header" in out
        allbutone("report", "t.csv", folder, "--public", "--out", f"{folder}.public.html", *how)
        page = (tmp_path / f"{folder}.public.html").read_text()
        assert not [value for value in first if value in page]
    assert allbutone("budget", "t.csv", *names)[0] == 0
    assert allbutone("application", "t.csv", "--datasets", "3", *names)[0] == 0


def test_a_release_with_names_of_its_own_says_how_to_read_the_file_again(allbutone, tmp_path):
    (tmp_path / "t.csv").write_text(TEXT)
    names = ("--no-header", "--columns", "bmi,ldl")
    allbutone("synthesize", "t.csv", "--out", "r", *names)
    for given, cure in (((), "(--no-header)"), (names[:1], "in order (--columns …)")):
        code, _, err = allbutone("risk", "t.csv", "r", *given)
        assert code == 2
        assert cure in err
    assert "also those to leave out (--columns …)" in allbutone("risk", "t.csv", "r", *names[:2], "bmi")[2]
    assert allbutone("risk", "t.csv", "r", "--no-mass", *names)[0] == 0


def test_a_cure_can_be_added_to_what_was_asked(allbutone, tmp_path):
    """A list of columns to keep refuses one to drop, so that no message may ask for both."""
    (tmp_path / "t.csv").write_text(
        "a,b,c\n1,2,2020-01-01\n2,4,2020-01-02\n4,3,2020-01-02\n5,7,2020-01-03\n3,9,2020-01-05\n"
    )
    assert "leave it out (--drop c)" in allbutone("synthesize", "t.csv", "--out", "r")[2]
    assert allbutone("synthesize", "t.csv", "--out", "r", "--drop", "c")[0] == 0
    for keep in (["--columns", "b,c"], ["--columns=b,c"]):
        code, _, err = allbutone("synthesize", "t.csv", "--out", "r2", *keep)
        assert code == 2
        assert "leave it out, or " in err
        assert "--drop" not in err


def test_a_release_to_be_like_is_read_once_however_many_ask(tmp_path, monkeypatch):
    values = np.random.default_rng(1).normal(size=(30, 2))
    abo.save_release(abo.Synthesizer().fit(abo.Records(values, ("a", "b"))).sample(datasets=2), tmp_path / "r")
    times = []
    real = options.load_release
    monkeypatch.setattr(options, "load_release", lambda path: (times.append(path), real(path))[1])
    model = options.ModelOptions(like=tmp_path / "r")
    assert model.release_like is model.release_like
    assert model.release_like.prior.p == 2
    assert len(times) == 1
