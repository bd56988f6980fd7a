"""Laws of categories and gaps at the gate: what gets in, what stays, and what is never lost in silence."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import allbutone as abo
from allbutone.tables.categories import Categories
from allbutone.tables.schema import Schema
from clinic import clinic, require_same

LIBRARIES = pytest.mark.parametrize(
    "library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)


@LIBRARIES
def test_categories_and_measurements_come_in_from_every_library(rng, library):
    table = clinic(rng)
    records = abo.Records.of(library(table), categories=True)
    assert records.columns == ("age", "bili")
    assert records.categories.columns == ("sex", "treated", "arm", "stage")
    assert records.categories.levels == (("f", "m"), ("false", "true"), ("1", "2"), ("I", "II", "III"))
    assert records.order == tuple(table)
    np.testing.assert_array_equal(records.values, np.column_stack([table["age"], table["bili"]]))
    assert records.categories.names("sex").tolist() == table["sex"]
    assert records.categories.names("treated").tolist() == [str(value).lower() for value in table["treated"]]
    assert records.categories.names("arm").tolist() == [str(value) for value in table["arm"]]


def test_categories_are_refused_where_they_are_not_asked_for(rng):
    with pytest.raises(abo.InputError) as caught:
        abo.Records.of(pd.DataFrame(clinic(rng)))
    assert {problem.column for problem in caught.value.problems} == {"sex", "treated", "stage"}
    records = abo.Records.of(pd.DataFrame(clinic(rng)), categories=True)
    for read in (abo.Records.of, abo.Records.of_numbers):
        with pytest.raises(abo.InputError, match="is a category"):
            read(records)
    assert abo.Records.of(records, drop=["sex", "treated", "arm", "stage"]).columns == ("age", "bili")


def test_gaps_stay_only_where_they_are_asked_for(rng):
    table = pd.DataFrame(clinic(rng)).astype({"sex": object})
    table.loc[3, "sex"], table.loc[5, "age"] = None, np.nan
    with pytest.raises(abo.InputError) as caught:
        abo.Records.of(table, categories=True)
    assert {problem.column for problem in caught.value.problems} == {"sex", "age"}
    records = abo.Records.of(table, categories=True, gaps=True)
    assert records.has_gaps
    assert np.flatnonzero(np.isnan(records.values[:, 0])).tolist() == [5]
    assert np.flatnonzero(records.categories.codes[:, 0] < 0).tolist() == [3]
    with pytest.raises(abo.InputError, match="gaps"):
        abo.Records.of(records, categories=True)
    complete = abo.Records.of(table, categories=True, gaps=True, complete_cases=True)
    assert not complete.has_gaps
    assert len(complete.values) == len(table) - 2


def test_taking_rows_and_columns_keeps_what_belongs_together(rng):
    records = abo.Records.of(pd.DataFrame(clinic(rng)), categories=True)
    places = rng.permutation(len(records.values))[:20]
    some = records.take(places).select(["stage", "bili", "sex"])
    assert (some.columns, some.categories.columns) == (("bili",), ("stage", "sex"))
    assert some.order == ("stage", "bili", "sex")
    assert some.schema.column("stage").levels == ("I", "II", "III")
    np.testing.assert_array_equal(some.rows, places + 1)
    np.testing.assert_array_equal(some.values[:, 0], records.values[places, 1])
    assert some.categories.names("sex").tolist() == records.categories.names("sex")[places].tolist()


def test_a_table_without_categories_has_none(rng):
    records = abo.Records.of(rng.normal(size=(20, 2)), categories=True, gaps=True)
    assert records.categories.codes.shape == (20, 0)
    assert records.order == records.columns
    assert not records.has_gaps


def test_too_many_cells_are_refused_by_the_column_with_most_levels():
    levels = tuple(tuple(f"{place}" for place in range(size)) for size in (20, 30, 17))
    Categories(np.zeros((3, 2), int), ("a", "b"), levels[:2]).require_few_cells()
    with pytest.raises(abo.InputError, match=r"10,200 .*'b'"):
        Categories(np.zeros((3, 3), int), ("a", "b", "c"), levels).require_few_cells()


def test_of_too_many_cells_what_others_tell_is_left_out_and_never_the_treatment(rng):
    arm = rng.integers(0, 4, 300)
    flags = rng.integers(0, 2, (300, 13))
    codes = np.column_stack([arm > 0, flags, arm]).astype(int)
    names = ("treated", *(f"flag{place}" for place in range(13)), "arm")
    found = Categories(codes, names, tuple(tuple("0123"[:size]) for size in codes.max(axis=0) + 1))
    with pytest.raises(abo.InputError) as refused:
        found.require_few_cells()
    dropped = [cure.value for cure in refused.value.cures if getattr(cure, "argument", "") == "drop"]
    assert dropped == [["treated"]]  # the arm tells it
    with pytest.raises(abo.InputError) as refused:
        found.select(names[1:]).require_few_cells()
    assert [getattr(cure, "argument", "") for cure in refused.value.cures] == ["", "columns"]


def test_of_copies_one_is_kept_and_names_of_people_tell_nothing(rng):
    arm, name = rng.integers(0, 3, 60), np.arange(60)
    levels = tuple(tuple(f"{place}" for place in range(size)) for size in (3, 3, 60))
    found = Categories(np.column_stack([arm, 2 - arm, name]), ("arm", "group", "name"), levels)
    assert found.told_by_others() == ["arm"]


def test_declared_levels_are_exact_and_keep_their_order(rng):
    table = pd.DataFrame(clinic(rng))
    declared = {"sex": ["m", "other", "f"], "arm": [2, 1, 9], "treated": [True, False]}
    schema = {"columns": {name: {"kind": "category", "levels": levels} for name, levels in declared.items()}}
    records = abo.Records.of(table, schema=schema, categories=True)
    assert records.categories.levels[:3] == (("m", "other", "f"), ("true", "false"), ("2", "1", "9"))
    assert records.categories.names("arm").tolist() == [str(value) for value in table["arm"]]
    assert records.schema.column("sex").levels == ("m", "other", "f")
    require_same(records, abo.Records.of(table, schema=records.schema, categories=True))
    reread = Schema.of_entries(records.schema.entries(), "here")
    assert reread == records.schema
    assert reread.same_mechanism(records.schema)
    other = abo.Records.of(table, categories=True).schema
    assert not other.same_mechanism(records.schema)
    table.loc[[4, 7], "sex"] = "unknown"
    with pytest.raises(abo.InputError, match="2 rows") as caught:
        abo.Records.of(table, schema=schema, categories=True)
    assert "unknown" not in str(caught.value)


def test_levels_that_are_not_declared_are_said_to_go_public(rng):
    table = pd.DataFrame(clinic(rng))
    (note,) = [note for note in abo.Records.of(table, categories=True).notes if "public" in note]
    assert all(repr(name) in note for name in ("sex", "treated", "arm", "stage"))
    table["sex"] = table["sex"].where(table.index > 0, "rare")
    table.loc[0, "age"] = np.nan  # whose row goes, and the level with it
    assert abo.Records.of(table, categories=True, complete_cases=True).categories.levels[0] == ("f", "m")


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("site", [f"town {place % 21}" for place in range(60)], "21 different texts"),
        ("patient_id", ["a", "b"] * 30, "named like one"),
        ("visit", ["2020-01-01", "2020-01-02"] * 30, "dates"),
        ("nothing", [None] * 60, "no value"),
        ("same", ["a"] * 60, "one level"),
        ("formula", ["=1+1", "b"] * 30, "formula"),
        ("na", ["NA", "b"] * 30, "missing value"),
    ],
)
def test_what_is_no_category_is_refused(rng, name, values, words):
    table = pl.DataFrame(clinic(rng) | {name: values})
    table = table.with_columns(pl.col("visit").str.to_date()) if name == "visit" else table
    with pytest.raises(abo.InputError, match=words) as caught:
        abo.Records.of(table, categories=True)
    assert [problem.column for problem in caught.value.problems] == [name]
    left = abo.Records.of(table, categories=True, drop_unusable=True)
    assert left.order == tuple(clinic(rng))


def test_declared_categories_may_have_many_levels_but_few_cells(rng):
    many = {"site": [f"town {place % 30}" for place in range(60)], "ward": [place % 29 for place in range(60)]}
    schema = {"columns": {name: {"kind": "category"} for name in many}}
    records = abo.Records.of(pl.DataFrame(clinic(rng) | many).drop("stage"), schema=schema, categories=True)
    assert records.categories.sizes == (2, 2, 2, 30, 29)
    with pytest.raises(abo.InputError, match=r"20,880 .*'site'"):
        abo.Records.of(pl.DataFrame(clinic(rng) | many), schema=schema, categories=True)


def test_texts_of_few_people_that_are_all_different_name_them():
    table = {"who": ["ann", "bob", "cid", "dee"], "x": [1.5, 2.0, 1.75, 3.0]}
    with pytest.raises(abo.InputError, match="different in every row"):
        abo.Records.of(pd.DataFrame(table), categories=True)
    assert abo.Records.of(pd.DataFrame(table), columns=["who", "x"], categories=True).categories.sizes == (4,)


def test_numbers_of_two_values_are_measurements_where_they_are_declared(rng):
    table = pd.DataFrame(clinic(rng))[["age", "arm", "bili"]]
    assert abo.Records.of(table, categories=True).categories.columns == ("arm",)
    assert abo.Records.of(table, categories=True, missing_codes=[-9]).categories.columns == ("arm",)
    declared = {"columns": {"arm": {"decimals": 0}}}
    assert abo.Records.of(table, schema=declared, categories=True).columns == ("age", "arm", "bili")
    scores = table.assign(arm=[1, 2, 3] * 20)
    records = abo.Records.of(scores, categories=True)
    assert records.columns == ("age", "arm", "bili")
    assert any("category" in note for note in records.notes)


def test_a_measurement_that_categories_determine_is_refused(rng):
    table = pd.DataFrame(clinic(rng))
    table["weight"] = table["stage"].map({"I": 1.5, "II": 2.0, "III": 7.0}) + 3 * table["age"] - table["treated"]
    with pytest.raises(abo.InputError, match="determined by 'treated', 'stage', 'age'"):
        abo.Records.of(table, categories=True)


def test_rows_and_columns_without_any_value_do_not_come_in(rng):
    table = pd.DataFrame(clinic(rng)).astype({"sex": object, "treated": object, "stage": object})
    table.loc[7] = None
    records = abo.Records.of(table, categories=True, gaps=True)
    assert records.rows.tolist() == [row for row in range(1, 61) if row != 8]
    assert any("1 row" in note and "without any value" in note for note in records.notes)
    with pytest.raises(abo.InputError, match="no value"):
        abo.Records.of(table.assign(age=np.nan), categories=True, gaps=True)


def test_columns_with_gaps_can_be_imputed_or_their_rows_left_out(rng):
    table = pd.DataFrame(clinic(rng))
    table.loc[4, "bili"] = np.nan
    with pytest.raises(abo.InputError) as caught:
        abo.Records.of(table, categories=True)
    cures = {cure.argument: cure.value for cure in caught.value.cures}
    assert cures == {"drop": ["bili"], "complete_cases": True, "missing": "impute"}


def test_scales_limits_and_decimals_act_on_measurements_alone(rng):
    table = pd.DataFrame(clinic(rng)).assign(bili=rng.lognormal(size=60).round(1) + 0.1)
    schema = {"columns": {"bili": {"scale": "log", "decimals": 1}}}
    records = abo.Records.of(table, schema=schema, categories=True)
    np.testing.assert_allclose(records.values[:, 1], np.log(table["bili"]))
    np.testing.assert_allclose(records.natural, table[["age", "bili"]])
    out = records.to_frame("pandas", released=True)
    assert list(out.columns) == list(table.columns)
    np.testing.assert_array_equal(out["bili"], table["bili"].round(1))


def test_describe_shows_levels_and_drafts_a_table_file_that_reads_the_table_alike(rng, allbutone, tmp_path):
    table = pd.DataFrame(clinic(rng))
    table.to_csv("table.csv", index=False)
    code, out, _ = allbutone("describe", "table.csv", "--out", "table.toml")
    assert code == 0
    assert "f (30), m (30)" in out
    assert "I (20), II (20), III (20)" in out
    records = abo.Records.of("table.csv", schema="table.toml", categories=True)
    plain = abo.Records.of("table.csv", categories=True)
    np.testing.assert_allclose(records.natural, plain.values, rtol=1e-12)  # a scale may be proposed
    assert records.categories.levels == plain.categories.levels
    np.testing.assert_array_equal(records.categories.codes, plain.categories.codes)
    assert not any("levels" in note for note in records.notes)
