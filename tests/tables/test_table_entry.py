"""Tables as users have them: row names, several rows a person, dates, codes, labels; read, or refused in words."""

import tomllib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyreadstat
import pytest

import allbutone as abo
from allbutone.reports.assessment import Assessment
from allbutone.utility.normality import given_categories


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
    with pytest.warns(abo.Caution, match="row names"):
        abo.Synthesizer().fit(tmp_path / "t.csv")


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
        abo.Synthesizer().fit(frame, drop="Subject")
    fitted = abo.Synthesizer().fit(frame, drop="Subject", rows_are_people=True)
    release = fitted.sample(datasets=1)
    assert len(abo.risk(frame, release, mass=False)) == 180


def with_codes(rng, n=60):
    """Return measurements beside a category and codes of one."""
    sexes = {"sex": rng.choice(["f", "m"], n), "arm": rng.integers(0, 2, n), "stage": rng.integers(1, 4, n)}
    return people(rng, n).assign(**sexes)


def test_a_refused_category_names_what_takes_it(rng):
    with pytest.raises(abo.InputError, match=r"'sex' is not numeric"):
        abo.Synthesizer(model="normal").fit(with_codes(rng)[["age", "sex"]])
    table = people(rng)
    table.loc[3, "age"] = np.nan
    with pytest.raises(abo.InputError, match=r"complete_cases=True") as told:
        abo.Synthesizer().fit(table)
    assert "complete_cases" in {cure.argument for cure in told.value.cures}


def test_codes_do_not_pass_as_measurements_in_silence(rng):
    with pytest.warns(abo.Caution, match="'arm', 'stage': few different whole numbers"):
        abo.Synthesizer(model="normal").fit(with_codes(rng), drop="sex")
    with pytest.warns(abo.Caution, match="'stage': few different whole numbers"):
        abo.Synthesizer().fit(with_codes(rng), drop="sex")  # arm has two values and is a category


def test_risk_takes_the_schema_that_the_release_was_made_with(rng, tmp_path):
    table, schema = people(rng), {"columns": {"bmi": {"scale": "log", "decimals": 1, "tolerance": 0.5}}}
    for synthesizer in (abo.Synthesizer(), abo.Synthesizer()):
        release = synthesizer.fit(table, schema=schema).sample(datasets=1)
        found = abo.risk(table, release, schema=schema, mass=False)
        np.testing.assert_array_equal(
            found["tolerance_bmi"], abo.risk(table, release, mass=False)["tolerance_bmi"]
        )
        with pytest.raises(abo.InputError, match="declares bmi otherwise than the release"):
            abo.risk(table, release, schema={"columns": {"bmi": {"scale": "sqrt"}}})
        wider = {"columns": {"bmi": schema["columns"]["bmi"] | {"tolerance": 2.0}}}
        assert min(abo.risk(table, release, schema=wider, mass=False)["tolerance_bmi"]) == pytest.approx(2)


TABLE_FILE = """
[columns.sex]
kind = "category"
levels = ["f", "m"]
[columns.age]
decimals = 1
[columns.crp]
scale = "log"
[columns.stage]
kind = "category"
levels = ["1", "2", "3"]
[columns.born]
kind = "left out"
why = "date"
"""


@pytest.fixture
def clinic(rng, tmp_path):
    """Write a clinical table with categories, a date and gaps, and its table file; return the table."""
    table = (
        with_codes(rng, 80)
        .assign(crp=np.exp(rng.normal(0, 1, 80)).round(2), born="16-11-1990")
        .drop(columns="arm")
    )
    table.loc[[3, 5, 8], "crp"] = np.nan
    table.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "table.toml").write_text(TABLE_FILE)
    return table


def test_what_follows_a_release_reads_the_table_as_it_was_made(allbutone, clinic, tmp_path):
    code, _, err = allbutone("budget", "table.csv", "--rows", 20)
    assert code == 2
    assert "--complete-cases" in err
    assert "--missing impute" in err
    told = ["--table-file", "table.toml", "--complete-cases"]
    assert allbutone("synthesize", "table.csv", *told, "--out", "release", "--datasets", 2, "--rows", 20)[0] == 0
    for command in (
        ["risk", "table.csv", "release"],
        ["check", "release", "--table", "table.csv"],
        ["budget", "table.csv", "--rows", 20],
        ["synthesize", "table.csv", "--out", "again"],
    ):
        code, _, err = allbutone(*command)
        assert code == 0, err
        assert ("Read as release 1 of the ledger" in err) == (command[0] in ("budget", "synthesize"))
        assert ("Left out 3 rows of 80 with gaps; 77 are used" in err) == (command[0] != "check")
    one, two = (abo.load_release(tmp_path / name).schema for name in ("release", "again"))
    assert one == two
    assert allbutone("budget", "table.csv", "--drop", "born", "--rows", 20)[0] == 2  # told otherwise, and gaps


def test_levels_that_the_table_file_declares_stay_declared(allbutone, clinic, tmp_path):
    alone = clinic.assign(stage=[4, *([1, 2] * 39), 3])
    alone.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "table.toml").write_text(TABLE_FILE.replace('"3"]', '"3", "4"]'))
    told = ["--table-file", "table.toml", "--complete-cases"]
    assert allbutone("synthesize", "table.csv", *told, "--out", "release", "--rows", 20)[0] == 0
    assert allbutone("check", "release", "--table", "table.csv")[0] == 0
    (tmp_path / "table.toml").unlink()
    code, out, _ = allbutone("check", "release", "--table", "table.csv")
    assert code == 1
    assert "only one person has the level '3', '4' of 'stage'" in out


def test_check_says_which_rows_it_counts(allbutone, clinic):
    told = ["--table-file", "table.toml", "--complete-cases"]
    assert allbutone("synthesize", "table.csv", *told, "--out", "release")[0] == 0
    _, out, err = allbutone("check", "release", "--table", "table.csv")
    assert "as many rows as the table has without gaps" in out + err


def test_a_date_is_called_one_and_shows_nobody_s(allbutone, clinic):
    with pytest.raises(abo.InputError, match=r"'born' holds dates or times.*kind = .date.") as told:
        abo.Records.of(clinic[["age", "born"]], categories=True)
    assert "1990" not in str(told.value)
    _, out, err = allbutone("describe", "table.csv")
    assert "1990" not in out + err


def test_what_is_left_out_is_noted_without_anybody_s_value(rng):
    table = people(rng).assign(remark=[f"Mrs Smith {place}" for place in range(40)])
    for how in ({}, {"categories": True}):
        (note, *_) = abo.Records.of(table, drop_unusable=True, **how).notes
        assert "remark" in note
        assert "Smith" not in note


def drafted(tmp_path, allbutone, table):
    """Return what describe drafts of a table, by column."""
    table.to_csv(tmp_path / "t.csv", index=False)
    assert allbutone("describe", "t.csv", "--out", "t.toml")[0] == 0
    return tomllib.loads((tmp_path / "t.toml").read_text())["columns"]


def test_what_a_draft_proposes_comes_out_plausible(allbutone, rng, tmp_path):
    n = 300
    trial = {
        "time": np.ceil(rng.exponential(900, n)),
        "follow_up": np.ceil(1500 * rng.weibull(1.5, n)),
        "nodes": 1 + rng.negative_binomial(1, 0.2, n),
        "receptor": np.where(rng.random(n) < 0.2, 0, np.exp(rng.normal(3, 1.5, n)).round()),
        "seizures": rng.poisson(2, n),
        "pressure": rng.normal(130, 15, n).round(),
        "grade": rng.integers(1, 4, n),
    }
    found = drafted(tmp_path, allbutone, pd.DataFrame(trial))
    assert all(entries["decimals"] == 0 for entries in found.values())
    release = abo.Synthesizer().fit(tmp_path / "t.csv", schema=tmp_path / "t.toml").sample(datasets=1, rows=2000)
    for name, values in zip(release.columns, release.values[0].T, strict=True):
        assert values.min() >= 0
        assert np.all(values == values.round())
        assert np.quantile(values, 0.999) < 8 * max(trial[name])  # one in a thousand, and not the largest of all
        assert np.mean(values == 0) < np.mean(np.asarray(trial[name]) == 0) + 0.1


def test_labels_of_spss_become_levels_and_labels(allbutone, rng, tmp_path):
    table = people(rng, 60).assign(sex=rng.integers(1, 3, 60), pain=rng.integers(0, 11, 60))
    pyreadstat.write_sav(
        table, tmp_path / "t.sav",
        column_labels={"sex": "Sex at birth", "bmi": "Body mass index"},
        variable_value_labels={"sex": {1: "male", 2: "female", 3: "other"}, "pain": {0: "none", 10: "worst"}},
    )  # fmt: skip
    assert allbutone("describe", "t.sav", "--out", "t.toml")[0] == 0
    found = tomllib.loads((tmp_path / "t.toml").read_text())["columns"]
    assert found["sex"] == {"kind": "category", "label": "Sex at birth", "levels": ["male", "female", "other"]}
    assert found["bmi"]["label"] == "Body mass index"
    assert found["pain"]["kind"] == "measurement"  # a scale of which the ends alone are labelled
    assert allbutone("synthesize", "t.sav", "--table-file", "t.toml", "--out", "r")[0] == 0


def test_categories_alone_are_drawn_through_classes(allbutone, rng, tmp_path):
    with_codes(rng)[["sex", "arm"]].to_csv(tmp_path / "t.csv", index=False)
    code, out, _ = allbutone("describe", "t.csv", "--out", "t.toml")
    assert code == 0
    assert "budget t.csv --table-file t.toml --model classes" in " ".join(out.split())
    code, out, err = allbutone("synthesize", "t.csv", "--table-file", "t.toml", "--model", "classes", "--out", "r")
    assert code == 0, err
    assert "categories independent of all else" in " ".join(out.split())
    code, _, err = allbutone("synthesize", "t.csv", "--table-file", "t.toml", "--out", "other")
    assert code == 2
    assert "--model classes" in " ".join(err.split())


def test_different_values_are_counted_in_the_table_itself(rng):
    table = with_codes(rng, 90).assign(score=np.arange(90) % 3)[["sex", "age", "score"]]
    few = table.index[(table["sex"] == "f") & (table["score"] == 2)][:9]
    table.loc[few, "score"] = 0  # so that the mean depends on the sex
    records = abo.Records.of(table, categories=True)
    mechanism = abo.Synthesizer().fit(records).mechanism
    left = given_categories(records, mechanism)
    assert len(np.unique(left.values[:, 1].round(6))) == 6  # three in each sex
    (_, score) = abo.check_normality(left, of=records).verdicts
    assert score.reason == "takes only 3 different values"
    assert score.advice.startswith("declare it a category")


def test_a_report_tells_the_table_from_its_people_without_gaps(rng):
    def source(table):
        records = abo.Records.of(table, complete_cases=True)
        told = SimpleNamespace(standing=None, records=records, people=len(records.values))
        told.leaves_people_out = Assessment.leaves_people_out.fget(told)
        return Assessment.source.fget(told)

    table = people(rng, 40)
    assert source(table) == "a table of 40 people"
    table.loc[4, "age"] = np.nan
    assert source(table) == "the 39 people of a table who miss no value"
