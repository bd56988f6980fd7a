"""The command budget on tables with categories and columns to keep."""

import csv
import re

import pandas as pd
import pytest
from test_cli_hints import hints_of

import allbutone as abo
from clinic import clinic

pytestmark = pytest.mark.usefixtures("few_trials")


@pytest.fixture
def patients(rng, tmp_path):
    table = pd.DataFrame(clinic(rng))[["sex", "age", "bili", "stage"]]
    table.to_csv(tmp_path / "patients.csv", index=False)
    return table


def test_the_budget_is_that_of_the_function_and_the_next_command_runs(allbutone, patients, tmp_path):
    code, out, err = allbutone("budget", "patients.csv", "--seed", 3, "--cell-weight", 0.25)
    assert code == 0, err
    wanted = abo.budget("patients.csv", rows=60, cell_weight=0.25, rng=3)
    assert wanted.sentence in out
    assert wanted.parts in out
    with (tmp_path / "budget.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == list(range(1, 61))
    assert [float(row["leverage"]) for row in rows] == wanted.leverage.tolist()
    at = f"chance_at_{max(wanted.in_all, 1)}"
    assert [float(row[at]) for row in rows] == wanted.columns()[at].tolist()
    assert (tmp_path / "budget.html").stat().st_mode & 0o777 == 0o600
    [[_, *hint]] = hints_of(out)
    assert hint[0] == "synthesize"
    assert allbutone(*hint)[0] == 0
    made = abo.load_release(hint[hint.index("--out") + 1])
    assert made.count == wanted.confident_count
    assert made.mechanism.cell_weight == 0.25


def test_a_release_to_be_like_is_counted(allbutone, patients):
    asked = ("synthesize", "patients.csv", "--keep", "sex,stage", "--datasets", 3, "--out", "r")
    assert allbutone(*asked)[0] == 0
    code, out, err = allbutone("budget", "patients.csv", "--like", "r", "--rows", 60)
    assert code == 0, err
    [[_, *hint]] = hints_of(out)
    if hint[0] == "synthesize":
        assert "--rows" not in hint
        assert allbutone(*hint)[0] == 0
        more = abo.load_release(hint[hint.index("--out") + 1])
        assert more.mechanism.same_as(abo.load_release("r").mechanism)
        assert f": {more.count + 3} in all, and 3 are out" in out or "happens to tell more" in out
    else:
        assert hint[:3] == ["report", "patients.csv", "r"]


def test_a_check_of_ones_own(allbutone, patients):
    code, out, err = allbutone("budget", "patients.csv", "--verify", 3)
    assert code == 0, err
    assert re.search(r"Checked on 3 simulated releases of \d+ datasets of 60 rows", out)


def test_columns_to_keep_without_categories(allbutone, patients):
    code, out, err = allbutone("budget", "patients.csv", "--columns", "age,bili", "--keep", "age")
    assert code == 0, err
    assert "bili of row" in out
    assert "sets the limit" in out


def test_parameters(allbutone, patients):
    code, out, err = allbutone("budget", "patients.csv", "--release", "parameters", "--cells", "main-effects")
    assert code == 0, err
    assert re.search(r"^(Up to|At least|One|Not even) .*parameter draw", out, re.MULTILINE)


REFUSED = {
    "more than certain": (["--probability", "1.5"], "between 0 and 1"),
    "fewer rows than people, who are all kept": (["--keep", "sex,stage", "--rows", "10"], "leave rows out"),
    "cells without categories": (["--cells", "separate", "--columns", "age,bili"], "none of the columns used"),
    "a column that is not there": (["--keep", "height"], "no column 'height' to keep"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_questions_get_one_line_and_leave_nothing(allbutone, patients, tmp_path, case):
    options, message = REFUSED[case]
    code, _, err = allbutone("budget", "patients.csv", *options)
    assert code == 2
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["patients.csv"]


def test_gaps_are_refused_in_words_or_imputed_and_complete_cases_taken(allbutone, patients, tmp_path):
    patients.assign(age=patients["age"].where(patients.index > 3)).to_csv(tmp_path / "patients.csv", index=False)
    code, _, err = allbutone("budget", "patients.csv")
    assert code == 2
    assert "--complete-cases" in err
    assert "--missing impute" in err
    code, out, err = allbutone("budget", "patients.csv", "--missing", "impute", "--out", "imputed.csv")
    assert code == 0, err
    assert re.search("datasets? of 60 rows", out)
    code, out, err = allbutone("budget", "patients.csv", "--complete-cases")
    assert code == 0, err
    assert re.search("datasets? of 56 rows", out)
