"""The gate: what comes in, and what is refused with its place, its value and its cure."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import allbutone as abo

GOOD = {"age": [51.5, 42.0, 37.25], "ldl": [3, 4, 2]}
MATRIX = np.array([[51.5, 3.0], [42.0, 4.0], [37.25, 2.0]])


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_every_dataframe_library_comes_in(library):
    records = abo.Records.of(library(GOOD))
    np.testing.assert_array_equal(records.values, MATRIX)
    assert records.columns == ("age", "ldl")
    assert records.values.dtype == np.float64


def test_a_matrix_comes_in_with_numbered_columns():
    records = abo.Records.of(MATRIX.astype(np.float32))
    assert records.columns == ("x1", "x2")
    np.testing.assert_array_equal(records.values, MATRIX)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "age,ldl\n51.5,3\n42,4\n37.25,2\n"),
        ("b.csv", "\ufeffage;ldl\n51,5;3\n42,0;4\n37,25;2\n"),
        ("c.tsv", "age\tldl\n51.5\t3\n42\t4\n37.25\t2\n"),
        ("d.csv", '"age","ldl"\r\n51.5,3\r\n42,4\r\n37.25,2'),
    ],
)
def test_text_files_come_in(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    records = abo.Records.of(path)
    assert records.columns == ("age", "ldl")
    np.testing.assert_array_equal(records.values, MATRIX)


def test_parquet_comes_in(tmp_path):
    pyarrow.parquet.write_table(pa.table(GOOD), tmp_path / "t.parquet")
    np.testing.assert_array_equal(abo.Records.of(str(tmp_path / "t.parquet")).values, MATRIX)


def test_columns_are_kept_or_dropped_by_name():
    table = pd.DataFrame(GOOD | {"id": [11, 12, 13]})
    with pytest.raises(abo.InputError, match=r"'id' looks like an identifier.*--drop id"):
        abo.Records.of(table)
    assert abo.Records.of(table, drop=["id"]).columns == ("age", "ldl")
    assert abo.Records.of(table, columns=["ldl", "age"]).columns == ("ldl", "age")
    # asked for by name, it is taken at its word
    assert abo.Records.of(table, columns=["id", "age"]).columns == ("id", "age")


@pytest.mark.parametrize(
    ("name", "values", "is_identifier"),
    [
        ("patient_id", [1.5, 2.5, 3.5], True),
        ("sampleID", [1.5, 2.5, 3.5], True),
        ("MRN", [1.5, 2.5, 3.5], True),
        ("x", list(range(100, 120)), True),
        ("x", [230_401, 110_399, 150_712], True),
        ("x", [12, 11, 15], False),
        ("lipid", [12, 11, 15], False),
        ("body mass index", [22.5, 31.0, 27.1], False),
        ("platelets", [150_000, 150_000, 230_000], False),
    ],
)
def test_what_looks_like_an_identifier(name, values, is_identifier):
    if is_identifier:
        with pytest.raises(abo.InputError, match="looks like an identifier"):
            abo.Records.of(pd.DataFrame({name: values}))
    else:
        assert abo.Records.of(pd.DataFrame({name: values})).columns == (name,)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"age": [1.0, 2.0], "sex": ["F", "M"]}, r"'sex' is not numeric: row 1 holds 'F'.*--drop sex"),
        ({"age": ["1", "x2", "3"]}, "'age' is not numeric: row 2 holds 'x2'"),
        ({"age": [True, False]}, "'age' is not numeric: row 1 holds 'True'"),
        ({"age": [1.0, None, None]}, "misses 2 of 3 values, the first in row 2"),
        ({"age": [1.0, float("nan")]}, "misses 1 of 2 values, the first in row 2"),
        ({"age": [1.0, float("-inf")]}, "holds -inf in row 2"),
        ({"age": [1e300, 2.0]}, r"holds 1e\+300 in row 1"),
        ({"age": [4.0, 4.0, 4.0]}, r"'age' is constant \(4 in every row\)"),
        ({"age": [4.0]}, "one row"),
        ({"age": []}, "no rows|not numeric"),
        ({"=cmd()": [1.0, 2.0]}, "spreadsheet formula"),
        ({"<script>alert(1)</script>": [1.0, 2.0]}, "markup"),
        ({'a"b': [1.0, 2.0]}, "quotes"),
        ({"a\nb": [1.0, 2.0]}, r"'a\\nb' holds"),
        ({" ": [1.0, 2.0]}, "column 1 has no name"),
    ],
)
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_bad_tables_are_refused_with_the_place_and_the_cure(library, table, message):
    with pytest.raises(abo.InputError, match=message):
        abo.Records.of(library(table))


def test_duplicate_names_are_refused():
    table = pa.Table.from_arrays([pa.array([1.0, 2.0])] * 2, names=["a", "a"])
    with pytest.raises(abo.InputError, match="'a' appears 2 times"):
        abo.Records.of(table)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"columns": ["weight"]}, "no column 'weight'; the table has age, ldl"),
        ({"drop": ["age", "ldl"]}, "no column is left"),
        ({"columns": ["age"], "drop": ["ldl"]}, "not both"),
        ({"columns": ["age", "age"]}, "twice"),
    ],
)
def test_impossible_choices_of_columns_are_refused(choice, message):
    with pytest.raises(abo.InputError, match=message):
        abo.Records.of(pd.DataFrame(GOOD), **choice)


@pytest.mark.parametrize("table", [np.ones(3), np.ones((2, 0)), np.array([["a"]]), np.ones((2, 2), complex), 3])
def test_what_is_no_table_is_refused(table):
    with pytest.raises(abo.InputError):
        abo.Records.of(table)
