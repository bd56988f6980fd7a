"""The command line on tables with categories: from a first look to the risk."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from test_cli_hints import follow, hints_of

import allbutone as abo
from allbutone.disclosure.rule import Rule
from allbutone.reports.verdict import verdict_of
from clinic import clinic


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


@pytest.mark.parametrize(("people", "crowded"), [(60, False), (24, True), (20, True)])
def test_as_many_cells_as_people_are_told_before_anything_is_drawn(allbutone, patients, people, crowded):
    patients.head(people).to_csv("few.csv", index=False)
    patients["stage"] = pd.Categorical(patients["stage"], ["I", "II", "III"])
    asked = ("synthesize", "few.csv", "--drop", "bili", "--out", "r", "--rows-are-people")
    code, out, err = allbutone(*asked)
    assert code == 0, err
    warned = re.search(r"the categories make ([0-9,]+) cells for ([0-9,]+) people", " ".join(out.split()))
    cells = abo.load_release("r").mechanism.prior.cells.count
    assert (warned is not None) == (cells >= people) == crowded
    if warned:
        assert warned.groups() == (f"{cells}", f"{people}")
        assert out.index("Before it is drawn") < out.index("the first synthetic dataset")
        assert "(--model classes)" in " ".join(out.split())
        code, out, err = allbutone(*asked, "--model", "classes", "--force", "--ledger", "other.toml")
        assert code == 0, err
        assert "Before it is drawn" not in out


@pytest.mark.parametrize("kind", ["datasets", "parameters", "both"])
def test_a_release_can_be_repeated_and_continued(allbutone, patients, tmp_path, kind):
    asked = ("synthesize", "patients.csv", "--drop", "patient", "--release", kind, "--datasets", 2)
    chosen = ("--keep", "sex,arm", "--cell-weight", "0.25")
    key = ("--repeat-key", abo.Synthesizer.new_repeat_key())
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
    assert isinstance(abo.load_release("r"), abo.Release)


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


@pytest.mark.usefixtures("few_trials")
def test_describe_synthesize_and_risk_lead_to_each_other(allbutone, patients):
    done = follow(allbutone, "describe", "patients.csv")
    assert [each[0] for each in done[:5]] == ["describe", "describe", "budget", "synthesize", "risk"]
    done = follow(
        allbutone,
        "synthesize",
        "patients.csv",
        "--drop-unusable",
        "--drop",
        "treated,arm",
        "--keep",
        "sex",
        "--out",
        "x",
    )
    assert [each[0] for each in done[:2]] == ["synthesize", "risk"]


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


@pytest.fixture
def released(allbutone, patients):
    """A release of the table, and the options with which it was made."""
    assert allbutone("synthesize", "patients.csv", "--drop", "patient", "--datasets", 4, "--out", "r")[0] == 0
    return abo.load_release("r")


def columns_of(path):
    return {name: column.to_numpy() for name, column in pd.read_csv(path).items()}


def test_risk_speaks_of_categories_as_of_measurements(allbutone, released, tmp_path):
    before = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}
    code, out, err = allbutone("risk", "patients.csv", "r")
    assert code == 0, err
    found, same = columns_of("risk.csv"), abo.risk("patients.csv", released, rng=np.random.default_rng(0))
    assert list(found) == same.column_names
    for name, column in found.items():
        if name in ("riskiest", "adversary"):
            assert list(column) == list(same[name].to_numpy())
        else:
            np.testing.assert_allclose(column, same[name].to_numpy(), rtol=1e-9, atol=1e-12)
    verdict = verdict_of(found, Rule())
    assert f"{verdict.headline}." in out
    assert verdict.how_sure in out
    assert "The values closest to being disclosed" in out
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()} == before


def test_who_knows_nothing_alone(allbutone, released, tmp_path):
    code, out, err = allbutone("risk", "patients.csv", "r", "--known", "", "--no-mass", "--out", "a.csv")
    assert code == 0, err
    found = columns_of("a.csv")
    assert not [name for name in found if name.startswith("rest_known_")]
    assert "membership" in found  # somebody who has the record is another question
    assert "who knows all else" not in out


def test_membership_by_another_limit_and_from_other_odds(allbutone, released, tmp_path):
    asked = ("--membership", 0.99, "--membership-odds", 0.1, "--no-mass", "--out", "a.csv")
    code, out, err = allbutone("risk", "patients.csv", "r", *asked)
    assert code == 0, err
    found = columns_of("a.csv")
    odds = found["membership"] / (1 - found["membership"])
    np.testing.assert_allclose(odds, 0.1 * np.exp(found["membership_evidence"]), rtol=1e-6)
    assert "at least 99 % sure of it, from odds of 0.1 to 1" in out


def test_who_knows_categories_or_all_measurements(allbutone, released, tmp_path):
    assert (
        allbutone("risk", "patients.csv", "r", "--known", "sex,stage,age", "--no-mass", "--out", "a.csv")[0] == 0
    )
    found = columns_of("a.csv")
    assert {name for name in found if name.startswith("baseline_")} == {
        "baseline_distance", "baseline_treated", "baseline_arm", "baseline_bili"
    }  # fmt: skip
    assert "error_bili" in found
    assert "error_age" not in found
    code, out, err = allbutone("risk", "patients.csv", "r", "--known", "age,bili", "--out", "b.csv")
    assert code == 0, err
    assert "relative error" not in out.split("Assumed")[0]
    found = columns_of("b.csv")
    assert "relative_error" not in found
    assert "probability_stage" in found
    assert "knows everyone's age, bili" in out
    assert (tmp_path / "b.html").exists()


def test_several_releases_are_attacked_together(allbutone, released):
    assert allbutone("synthesize", "patients.csv", "--like", "r", "--out", "more", "--datasets", 3)[0] == 0
    code, out, _ = allbutone("risk", "patients.csv", "r", "more", "--no-mass", "--out", "both.csv")
    assert code == 0
    assert "all 2 releases" in out
    together = abo.risk("patients.csv", ["r", "more"], mass=False, rng=np.random.default_rng(0))
    np.testing.assert_allclose(
        columns_of("both.csv")["probability_stage"], together["probability_stage"].to_numpy(), rtol=1e-9
    )


def test_what_goes_out_as_it_is_is_known_to_the_adversary(allbutone, patients):
    kept = ("--drop", "patient", "--keep", "sex,stage")
    assert allbutone("synthesize", "patients.csv", "--out", "k", *kept)[0] == 0
    code, out, err = allbutone("risk", "patients.csv", "k", "--no-mass")
    assert code == 0, err
    assert "knows everyone's sex, stage" in out
    assert "probability_sex" not in columns_of("risk.csv")


@pytest.mark.parametrize(
    "asked",
    [
        ("risk", "patients.csv", "r", "--lacking-columns", "sex"),
        ("risk", "patients.csv", "r", "--known", "height"),
        ("risk", "patients.csv", "r", "--drop", "age"),
        ("adversaries", "patients.csv", "r"),
    ],
)
def test_what_cannot_be_asked_of_categories_is_said_in_words(allbutone, released, tmp_path, asked):
    before = sorted(tmp_path.iterdir())
    code, _, err = allbutone(*asked)
    assert code == 2
    assert err.startswith("Error: ")
    assert sorted(tmp_path.iterdir()) == before


def test_a_table_with_gaps_is_imputed_and_that_is_said(allbutone, patients, tmp_path):
    holes = patients.assign(bili=patients.bili.where(np.arange(60) % 9 > 0))
    holes.loc[5, "stage"] = None
    holes.to_csv(tmp_path / "holes.csv", index=False)
    code, _, err = allbutone("synthesize", "holes.csv", "--out", "r")
    assert code == 2
    assert "--missing impute" in err
    code, out, err = allbutone("synthesize", "holes.csv", "--out", "r", "--missing", "impute")
    assert code == 0, err
    assert "missing" in out
    [table] = abo.load_release("r").to_frames()
    assert not table.isna().any(axis=None)


def test_levels_that_differ_in_capitals_alone_are_doubted(allbutone, patients, tmp_path):
    patients.assign(sex=[*"fFmM"] * 15).to_csv(tmp_path / "t.csv", index=False)
    assert "'sex': some levels differ in capitals or spaces alone" in allbutone("describe", "t.csv")[2]
    patients.to_csv(tmp_path / "t.csv", index=False)
    assert "capitals" not in allbutone("describe", "t.csv")[2]


def test_the_next_commands_run_where_values_are_missing(allbutone, rng, tmp_path):
    table = pd.DataFrame({"sex": ["f", "m"] * 12, "ldl": rng.normal(3, 1, 24)})
    table.loc[3, "ldl"], table.loc[8, "sex"] = None, None
    table.to_csv(tmp_path / "t.csv", index=False)
    assert allbutone("synthesize", "t.csv", "--missing", "keep", "--out", "r")[0] == 0
    _, out, _ = allbutone("risk", "t.csv", "r", "--no-mass", "--out", "a.csv")
    assert "✔" not in out  # whether as much is within the budget is not asked here
    [[_, *hint]] = hints_of(out)
    assert hint[:3] == ["report", "t.csv", "r"]  # the verdict holds against who knows the rest already
    _, out, _ = allbutone("risk", "t.csv", "r", "--known", "ldl", "--out", "risk-known.csv")
    [[_, *hint]] = hints_of(out)
    assert hint[:3] == ["risk", "t.csv", "r"]  # after one adversary alone, the verdict against all
    assert "--known" not in hint
    found = columns_of("risk-known.csv")
    assert {"probability_sex", "probability_gaps"} <= set(found)
    assert "relative_error" not in found  # all measurements are known
    assert np.isnan(found["probability_sex"][8])
