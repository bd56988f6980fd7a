"""The study command as a user meets it."""

import csv

import pytest

from allbutone.cli.study import adversaries_in_words
from allbutone.paper.design_file import read_design
from allbutone.paper.run import StudyRun, run_study

DESIGN = """
title = "Mine"
replicates = 60
[[cells]]
release = ["parameters"]
p = 2
n = [10, 40]
count = [1, 5]
target = 9
[[cells]]
release = "datasets"
p = 2
n = [10, 40]
count = [1, 5]
rows = 30
target = 9
"""


@pytest.fixture
def design(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(DESIGN)
    return path


def test_run_and_show(allbutone, design, tmp_path):
    code, out, err = allbutone("study", design, "--out", "s")
    assert (code, err) == (0, "")
    assert "Mine: 8 cells of 60 replicates in s" in out
    assert "Nothing was published" in out
    assert "study show s" in out
    with (tmp_path / "s" / "cells.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 8
    code, out, err = allbutone("study", "show", "s")
    assert (code, err) == (0, "")
    assert "All cells" in out
    figures = {path.name for path in (tmp_path / "s" / "figures").iterdir()}
    assert {"violins-parameters-p2.html", "exposure-datasets-p2.html"} <= figures
    assert not any(name.startswith(".") for name in figures)


@pytest.mark.parametrize(
    ("first", "option", "drawn"),
    [
        ("", [], "no more than the statistics"),
        ("", ["--exact-records"], "every record, as in the paper"),
        ('solver = "lbfgsb"\n', [], "every record, as in the paper"),
    ],
)
def test_a_study_says_what_was_drawn(allbutone, design, first, option, drawn):
    design.write_text(first + DESIGN)
    code, out, _ = allbutone("study", design, "--out", "s", "--only", "n == 10 and count == 1", *option)
    assert code == 0
    assert f"Drawn: {drawn}" in out


def test_the_paper_beside_its_published_numbers(allbutone, tmp_path):
    only = "p == 2 and n in [10, 300] and rows in [None, 10] and count in [2, 100]"
    code, out, _ = allbutone("study", "paper", "--out", "s", "--only", only, "--replicates", 50)
    assert code == 0
    assert "8 of 1,008 cells" in out
    assert "Of 40 published numbers" in out
    code, out, _ = allbutone("study", "show", "s")
    assert "Table A.1: released parameters, p = 2" in out
    figures = {path.name for path in (tmp_path / "s" / "figures").iterdir()}
    assert {"figure-1A-landscape-parameters.html", "figure-3-violins-datasets-p2.html"} <= figures
    assert max(map(len, out.splitlines()[: out.splitlines().index("") - 1])) <= 80
    page = (tmp_path / "s" / "published.md").read_text()
    assert page.count("\n| ") == 8 + 3  # three tables, each with a line of headings
    assert "| 100 | 300 | 10 | (" in page


def test_a_study_goes_on_where_it_stopped(allbutone, design, tmp_path):
    assert allbutone("study", design, "--out", "s", "--only", "n == 10", "--threads", 1)[0] == 0
    code, _, err = allbutone("study", design, "--out", "s")
    assert code == 2
    assert "--resume" in err
    code, out, _ = allbutone("study", design, "--out", "s", "--resume", "--keep-replicates")
    assert code == 0
    assert "8 cells" in out
    assert len(list((tmp_path / "s" / "replicates").iterdir())) == 8
    code, out, _ = allbutone("study", design, "--out", "s", "--force", "--only", "count == 1")
    assert "4 of 8 cells" in out
    assert not (tmp_path / "s" / "replicates").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["paper"], "--out DIR"),
        (["show"], "study show DIR"),
        (["show", "nowhere"], "holds no study"),
        (["show", "s", "--out", "t"], "study show DIR"),
        (["none.toml", "--out", "s"], "one of correlation, dimension, lacking, paper"),
        (["paper", "--out", "s", "--only", "p == 99"], "no cell"),
        (["paper", "--out", "s", "--only", "print(1)"], "cannot be read"),
        (["paper", "--out", "s", "--replicates", "0"], "replicates"),
        (["paper", "--out", "s", "--threads", "0"], "threads"),
        (["paper", "extra", "--out", "s"], "--out DIR"),
    ],
)
def test_refusals_leave_nothing(allbutone, tmp_path, arguments, words):
    code, out, err = allbutone("study", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert words in err
    assert not list(tmp_path.iterdir())


def test_a_bad_design_is_refused_with_its_line(allbutone, design, tmp_path):
    design.write_text(DESIGN.replace("n = [10, 40]\ncount = [1, 5]\nrows", "n = [10, 1]\ncount = [1, 5]\nrows"))
    code, _, err = allbutone("study", design, "--out", "s")
    assert code == 2
    assert "mine.toml, line 13: n must be" in err
    assert not (tmp_path / "s").exists()


def test_an_unfinished_study_shows_nothing_yet(allbutone, design, tmp_path):
    assert allbutone("study", design, "--out", "s", "--only", "n == 10 and count == 1")[0] == 0
    journal = tmp_path / "s" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    code, _, err = allbutone("study", "show", "s")
    assert code == 2
    assert "no finished cell" in err


def test_a_study_of_weaker_adversaries_says_so(tmp_path):
    told = {}
    for name in ("lacking", "paper"):
        run = StudyRun(read_design(name), 2)
        cells = [cell for cell in run.design.cells if bool(cell.lacking) == (name == "lacking")][:1]
        told[name] = adversaries_in_words(run_study(run, tmp_path / name, cells=cells))
    assert told["paper"] == "an adversary who has all records but one"
    assert told["lacking"].startswith("adversaries who lack what each cell says")
