"""Tables as users have them: row names, several rows a person, dates, codes, labels; read, or refused in words."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import allbutone as abo


def people(rng, n=40):
    """Return a small table of measurements."""
    return pd.DataFrame({"age": rng.normal(60, 10, n).round(1), "bmi": rng.normal(27, 4, n).round(2)})


def several_visits(rng, count=18, visits=10):
    """Return people with several rows each, as a trial keeps them."""
    return people(rng, count * visits).assign(Subject=np.repeat(np.arange(count) + 1, visits))


@pytest.mark.parametrize("name", ["", " ", "Unnamed: 0", "rownames", "row.names", "...1"])
def test_row_names_are_left_out_and_that_is_said(rng, tmp_path, name):
    table = people(rng)
    table.rename_axis(name or None).to_csv(tmp_path / "t.csv", index_label=name or None)
    plain = abo.Records.of(table)
    read = abo.Records.of(tmp_path / "t.csv")
    assert read.columns == ("age", "bmi")
    np.testing.assert_array_equal(read.values, plain.values)
    assert any("row names" in note for note in read.notes)
    assert not plain.notes
    with pytest.warns(abo.TableWarning, match="row names"):
        abo.NIWSynthesizer().fit(tmp_path / "t.csv")


def test_row_names_that_somebody_drops_or_asks_for_need_no_word(rng):
    table = people(rng).reset_index(names="Unnamed: 0")
    assert not abo.Records.of(table, drop="Unnamed: 0").notes
    assert abo.Records.of(table, columns=["Unnamed: 0", "age"]).columns == ("Unnamed: 0", "age")


def test_the_command_line_reads_what_r_writes(allbutone, rng, tmp_path):
    people(rng).to_csv(tmp_path / "t.csv")
    for command in (["describe", "t.csv"], ["synthesize", "t.csv", "--out", "r"]):
        code, _, err = allbutone(*command)
        assert code == 0
        assert "row names" in err
    assert (tmp_path / "r" / "dataset-001.csv").read_text().startswith('"age","bmi"')


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("how", [{}, {"drop": "Subject"}, {"columns": ["age", "bmi"]}])
def test_people_with_several_rows_are_refused_whatever_is_used(rng, library, how):
    table = library(several_visits(rng).to_dict("list"))
    with pytest.raises(
        abo.InputError, match=r"'Subject' has 18 different values in 180 rows \(10 rows each\)"
    ) as told:
        abo.Records.of(table, **how)
    assert {cure.argument: cure.value for cure in told.value.cures}["rows_are_people"] is True
    assert abo.Records.of(table, **(how or {"drop": "Subject"}), rows_are_people=True).columns == ("age", "bmi")


def test_two_rows_of_one_person_are_enough(rng):
    table = people(rng).assign(patient_id=[*range(39), 7])
    with pytest.raises(abo.InputError, match="'patient_id' has 39 different values in 40 rows"):
        abo.Records.of(table, drop="patient_id")


def test_texts_that_all_occur_equally_often_name_people(rng):
    table = people(rng, 80).assign(pseudo=np.tile([f"k{place:03}x" for place in range(40)], 2))
    with pytest.raises(abo.InputError, match=r"'pseudo' has 40 different values in 80 rows \(2 rows each\)"):
        abo.Records.of(table, drop="pseudo")


def test_a_table_put_together_with_itself_is_refused(rng):
    table = people(rng)
    with pytest.raises(abo.InputError, match="40 different rows stand in the table 2 times each: 80 rows"):
        abo.Records.of(pd.concat([table, table]))
    assert len(abo.Records.of(pd.concat([table, table]), rows_are_people=True).values) == 80


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("site", lambda rng, n: np.repeat(np.arange(12), n // 12)),
        ("site_id", lambda rng, n: rng.integers(1, 30, n)),
        ("ward", lambda rng, n: np.repeat([f"ward {place}" for place in range(8)], n // 8)),
        ("subject", lambda rng, n: rng.choice(["maths", "physics", "art"], n)),
        ("person", lambda rng, n: 1 + rng.binomial(5, 0.2, n)),
        ("nr", lambda rng, n: rng.poisson(6, n)),
        ("number", lambda rng, n: rng.geometric(0.3, n)),
        ("fid", lambda rng, n: rng.integers(0, n, n)),
        ("zip", lambda rng, n: [f"{code:05}" for code in rng.integers(1000, 1100, n)]),
        ("visit", lambda rng, n: ["2020-01-01"] * n),
        ("patient_id", lambda rng, n: rng.permutation(n)),
        ("age_in_years", lambda rng, n: rng.normal(60, 10, n).round()),
    ],
)
def test_what_repeats_in_any_table_is_no_person(rng, name, values):
    table = people(rng, 240).assign(**{name: values(rng, 240)})
    assert abo.Records.of(table, drop=name).columns == ("age", "bmi")


def test_rows_that_are_equal_by_chance_are_people(rng):
    table = pd.DataFrame({"age": rng.normal(60, 10, 2000).round(), "stage": rng.integers(1, 5, 2000)})
    assert len(abo.Records.of(table).values) == 2000
    zeros = pd.DataFrame(rng.poisson(0.3, (300, 6)), columns=[f"q{place}" for place in range(6)])
    assert len(abo.Records.of(zeros).values) == 300


def test_the_command_line_refuses_several_rows_of_a_person_with_the_option_that_helps(allbutone, rng, tmp_path):
    several_visits(rng).to_csv(tmp_path / "t.csv", index=False)
    for command in (["describe", "t.csv"], ["synthesize", "t.csv", "--drop", "Subject", "--out", "r"]):
        code, _, err = allbutone(*command)
        assert code == 2
        assert "18 different values in 180 rows" in err
        assert "--rows-are-people" in err
    assert allbutone(*command, "--rows-are-people")[0] == 0
    assert allbutone("risk", "t.csv", "r", "--out", "risk.csv")[0] == 0


def test_people_with_several_rows_in_an_engine_are_refused(rng):
    frame = pl.DataFrame(several_visits(rng).to_dict("list")).lazy()
    with pytest.raises(abo.InputError, match=r"'Subject' has 18 different values in 180 rows \(10 rows each\)"):
        abo.NIWSynthesizer().fit(frame, drop="Subject")
    fitted = abo.NIWSynthesizer().fit(frame, drop="Subject", rows_are_people=True)
    release = fitted.sample(datasets=1)
    assert len(abo.risk(frame, release, mass=False)) == 180
