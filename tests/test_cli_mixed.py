"""The command line on tables with categories: from a first look to the risk."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from clinic import clinic
from test_cli_hints import hints_of


@pytest.fixture
def patients(rng, tmp_path):
    """A clinical table with an identifier, in a file."""
    table = pd.DataFrame(clinic(rng)).assign(bili=lambda t: np.exp(t.bili / 3).round(2))
    table.insert(0, "patient", np.arange(1, 61))
    path = tmp_path / "patients.csv"
    table.to_csv(path, index=False)
    return table.drop(columns="patient")


def test_categories_go_in_and_come_out_and_what_is_public_is_said(allbutone, patients):
    code, out, err = allbutone(
        "synthesize", "patients.csv", "--drop", "patient", "--log", "bili", "--out", "r", "--datasets", 3
    )
    assert code == 0, err
    assert "3 datasets of 60 rows in r" in out
    assert "sex (2 levels), treated (2 levels), arm (2 levels) and stage (3 levels) make 24 cells" in out
    assert "main effects" in out
    assert "Public with the release: the names of all columns and levels" in out
    assert "merge a level that few people have" in err
    release = abo.load_release("r")
    assert release.order == tuple(patients.columns)
    assert release.mechanism.cells == "main effects"
    for table in release.to_frames():
        assert len(table) == 60
        assert set(table["stage"].astype(str)) <= {"I", "II", "III"}


@pytest.mark.parametrize("kind", ["datasets", "parameters", "both"])
def test_a_release_can_be_repeated_and_continued(allbutone, patients, tmp_path, kind):
    asked = ("synthesize", "patients.csv", "--drop", "patient", "--release", kind, "--datasets", 2)
    chosen = ("--keep", "sex,arm", "--cell-weight", "0.25")
    key = ("--repeat-key", abo.new_repeat_key())
    assert allbutone(*asked, *chosen, *key, "--out", "one")[0] == 0
    assert allbutone(*asked, *chosen, *key, "--out", "two")[0] == 0
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    code, out, err = allbutone("synthesize", "patients.csv", "--like", "one", "--out", "more")
    assert code == 0, err
    assert "Kept as they are, a row for each person: sex, arm" in out
    one, more = abo.load_release("one"), abo.load_release("more")
    assert one.mechanism.same_as(more.mechanism)
    assert more.mechanism.cell_weight == 0.25
    [[_, *hint]] = hints_of(out)
    assert hint[:4] == ["risk", "patients.csv", "one", "more"]


def test_what_is_kept_goes_out_as_it_is(allbutone, patients):
    told = ("--keep", "sex,age,treated,arm", "--keep", "stage")
    assert allbutone("synthesize", "patients.csv", "--drop", "patient", "--out", "r", *told)[0] == 0
    [table] = abo.load_release("r").to_frames()
    out, own = (
        sorted(zip(each["sex"].astype(str), each["age"].round(6), each["stage"].astype(str), strict=True))
        for each in (table, patients)
    )
    assert out == own  # whole people, in an order of their own
    assert set(table["bili"]).isdisjoint(patients["bili"])


def test_separate_cells_by_either_spelling(allbutone, rng, tmp_path):
    table = pd.DataFrame({"sex": ["f", "m"] * 30, "ldl": rng.normal(3, 1, 60)})
    table.to_csv(tmp_path / "t.csv", index=False)
    for number, (cells, wanted) in enumerate(
        [("separate", "separate"), ("main-effects", "main effects"), ("main effects", "main effects")]
    ):
        code, out, err = allbutone("synthesize", "t.csv", "--cells", cells, "--out", f"r{number}")
        assert code == 0, err
        assert ("spreads of its own" in out) == (wanted == "separate")
        assert abo.load_release(f"r{number}").mechanism.cells == wanted


def test_a_table_of_measurements_goes_the_old_way(allbutone, table):
    assert allbutone("synthesize", "table.csv", "--out", "r", "--missing", "impute")[0] == 0
    assert isinstance(abo.load_release("r"), abo.DatasetRelease)


def test_the_release_holds_no_statistic_of_the_table(allbutone, patients, tmp_path):
    """What is public depends on the names, levels and number of records alone, not on the values."""
    asked = ("synthesize", "patients.csv", "--drop", "patient", "--datasets", 2, "--keep", "arm")
    assert allbutone(*asked, "--out", "one")[0] == 0
    other = patients.assign(age=patients.age * 7 + 3, stage=patients.stage.sample(frac=1).to_numpy())
    other.insert(0, "patient", np.arange(1, 61))
    other.to_csv(tmp_path / "patients.csv", index=False)
    assert allbutone(*asked, "--out", "two")[0] == 0
    one, two = (json.loads((tmp_path / name / "release.json").read_text()) for name in ("one", "two"))
    assert one == two
    assert {path.name for path in (tmp_path / "one").iterdir()} == {"release.json", *one["files"]}


REFUSED = {
    "--like and --keep": (["--like", "r", "--keep", "sex"], "--like and --keep are both given"),
    "--like and --missing": (["--like", "r", "--missing", "impute"], "--like and --missing are both given"),
    "an unknown column to keep": (["--keep", "height"], "no column 'height' to keep"),
    "categories given a kept measurement": (
        ["--keep", "age"], r"categories cannot be drawn given .*\(--keep age,sex,treated,arm,stage\)"
    ),
    "all measurements kept": (["--keep", "age,bili"], "no measurement is left to be drawn"),
    "cells of another kind": (["--cells", "some"], "cells are 'main effects' or 'separate'"),
    "cells without categories": (["--cells", "separate", "--columns", "age,bili"], "none of the columns used"),
    "a weight of nothing": (["--cell-weight", "0"], "cell_weight must exceed 0"),
    "rows beside columns to keep": (["--keep", "sex", "--rows", "10"], "a row for each person"),
    "gaps left out and imputed": (["--complete-cases", "--missing", "impute"], "give one of them"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_questions_get_one_line_and_leave_nothing(allbutone, patients, tmp_path, case):
    options, message = REFUSED[case]
    drop = [] if "--columns" in options or "--like" in options else ["--drop", "patient"]
    if "--like" in options:
        assert allbutone("synthesize", "patients.csv", "--drop", "patient", "--out", "r")[0] == 0
    before = sorted(tmp_path.iterdir())
    code, _, err = allbutone("synthesize", "patients.csv", "--out", "new", *drop, *options)
    assert code == 2
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert re.search(message, err)
    assert sorted(tmp_path.iterdir()) == before


def test_numbers_with_a_text_among_them_are_no_category(allbutone, rng, tmp_path):
    values = [*map(str, rng.normal(size=12).round(2)), "oops"]
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *(f"{k * k},{value}" for k, value in enumerate(values))]))
    code, _, err = allbutone("synthesize", "t.csv", "--out", "r")
    assert code == 2
    assert "'b' is not numeric: row 13 holds 'oops', and most of its values are numbers" in err
