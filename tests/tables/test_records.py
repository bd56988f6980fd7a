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
        ("e.csv", "age;ldl\n51,5;3\n42;4\n37,25;2\n"),
        ("f.csv", "\nage,ldl\n51.5,3\n\n42,4\n37.25,2\n\n"),
    ],
)
def test_text_files_come_in(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    records = abo.Records.of(path)
    assert records.columns == ("age", "ldl")
    np.testing.assert_array_equal(records.values, MATRIX)


def read(tmp_path, text, **choice):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
    return abo.Records.of(tmp_path / "t.csv", **choice)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n1,234\t5\n2,5\t7\n", "'a' is not numeric: row 1 holds '1,234'"),
        ("a;b\n1,5;2.5\n2,5;3.5\n", "'a' is not numeric: row 1 holds '1,5'"),
        ("a;b\n1.000,5;2\n2.000,5;3\n", "'a' is not numeric"),
        ("a\n1\n\n2\n", "misses 1 of 3 values, the first in row 2"),
        ('"a",""\n"1",2\n"2",3\n', r"column 2 of those kept has no name.*columns=…"),
    ],
)
def test_doubtful_text_files_are_refused(tmp_path, text, message):
    with pytest.raises(abo.InputError, match=message):
        read(tmp_path, text)


def test_delimiters_within_quotes_are_part_of_names(tmp_path):
    assert read(tmp_path, '"a;b;c",d\n1,2\n3,5\n').columns == ("a;b;c", "d")


def test_headers_may_be_long(tmp_path):
    names = [f'"x{number:0>300}"' for number in range(5000)]
    text = "\n".join(",".join(line) for line in (names, ["1.5"] * 5000, ["2.5"] * 5000))
    assert len(read(tmp_path, text).columns) == 5000


@pytest.mark.parametrize(
    ("text", "choice", "kept"),
    [
        ('"","a","b"\n1,2,3\n2,4,7\n', {"columns": ["a", "b"]}, ("a", "b")),
        ('"","a","b"\n1,2,3\n2,4,7\n', {"drop": [""]}, ("a", "b")),
        ("a,a,b\n1,2,3\n2,4,7\n", {"columns": "b"}, ("b",)),
        ("a,a,b\n1,2,3\n2,4,7\n", {"drop": "a"}, ("b",)),
        ("=cmd(),a,b\n1,2,3\n2,4,7\n", {"columns": "b,a"}, ("b", "a")),
        ('"ldl, mmol/l", a\n1,2\n3,7\n', {"columns": ["ldl, mmol/l"]}, ("ldl, mmol/l",)),
        ('"ldl, mmol/l", a\n1,2\n3,7\n', {"columns": [" a"]}, (" a",)),
        ("ab,c\n1,2\n3,7\n", {"columns": "ab"}, ("ab",)),
    ],
)
def test_only_chosen_columns_need_good_names(tmp_path, text, choice, kept):
    assert read(tmp_path, text, **choice).columns == kept


def test_a_chosen_column_goes_through_the_gate_once(tmp_path):
    records = read(tmp_path, "id,b\n1,2\n2,4\n", columns="id,b")
    assert abo.Synthesizer(abo.NIW.default(2)).fit(records).columns == ("id", "b")


def test_a_refused_column_comes_with_the_argument_that_drops_it():
    with pytest.raises(abo.InputError) as caught:
        abo.Records.of(pd.DataFrame({"body mass": ["x", "y"]}))
    assert [(cure.argument, cure.value) for cure in caught.value.cures] == [("drop", ["body mass"])]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_whole_numbers_beyond_doubles_are_rounded_alike(library):
    values = abo.Records.of(library({"a": [2**53 + 1, 3]}), columns="a").values
    np.testing.assert_array_equal(values, [[2.0**53], [3.0]])


def test_numbers_of_128_bits_come_in():
    np.testing.assert_array_equal(abo.Records.of(pl.DataFrame({"a": [2**70, 3]})).values, [[2.0**70], [3.0]])


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "int64[pyarrow]", "double[pyarrow]"])
def test_missing_values_of_every_pandas_kind_are_seen(dtype):
    with pytest.raises(abo.InputError, match="misses 1 of 3 values, the first in row 2"):
        abo.Records.of(pd.DataFrame({"a": pd.array([1, None, 3], dtype=dtype)}))


def test_pandas_columns_may_be_numbered():
    table = pd.DataFrame(MATRIX)
    assert abo.Records.of(table).columns == ("x1", "x2")
    assert abo.Records.of(table, columns="x2").columns == ("x2",)


def test_parquet_comes_in(tmp_path):
    pyarrow.parquet.write_table(pa.table(GOOD), tmp_path / "t.parquet")
    np.testing.assert_array_equal(abo.Records.of(str(tmp_path / "t.parquet")).values, MATRIX)


def test_columns_are_kept_or_dropped_by_name():
    table = pd.DataFrame(GOOD | {"id": [11, 12, 13]})
    with pytest.raises(abo.InputError, match=r"'id' looks like an identifier.*drop=\['id'\]"):
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
        ({"age": [1.0, 2.0], "sex": ["F", "M"]}, r"'sex' is not numeric: row 1 holds 'F'.*drop=\['sex'\]"),
        ({"age": ["1", "x2", "3"]}, "'age' is not numeric: row 2 holds 'x2'"),
        ({"age": [True, False]}, "'age' is not numeric: it says true or false"),
        ({"age": [1.0, None, None, 2.5]}, "misses 2 of 4 values, the first in row 2"),
        ({"age": [1.0, float("nan"), 2.5]}, "misses 1 of 3 values, the first in row 2"),
        ({"age": [1.0, float("-inf")]}, "holds -inf in row 2"),
        ({"age": [1e300, 2.0]}, r"holds 1e\+300 in row 1"),
        ({"age": [4.0, 4.0, 4.0]}, r"'age' is constant \(4 in every row\)"),
        ({"age": [4.0]}, "one row"),
        ({"age": []}, "no rows|not numeric"),
        ({"=cmd()": [1.0, 2.0]}, "spreadsheet formula"),
        ({"<script>alert(1)</script>": [1.0, 2.0]}, "markup"),
        ({'a"b': [1.0, 2.0]}, "quotes"),
        ({"a\nb": [1.0, 2.0]}, r"'a\\nb' holds"),
        ({" ": [1.0, 2.0]}, "column 1 of those kept has no name"),
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
        ({"columns": ["weight"]}, "no column 'weight'; choose among age, ldl"),
        ({"drop": ["age", "ldl"]}, "no column is left"),
        ({"columns": ["age"], "drop": ["ldl"]}, "both given"),
        ({"columns": ["age", "age"]}, "twice"),
    ],
)
def test_impossible_choices_of_columns_are_refused(choice, message):
    with pytest.raises(abo.InputError, match=message):
        abo.Records.of(pd.DataFrame(GOOD), **choice)


@pytest.mark.parametrize(
    "table",
    [
        np.ones(3),
        np.ones((2, 0)),
        np.array([["a"]]),
        np.ones((2, 2), complex),
        np.ones((2, 2), object),
        np.ma.masked_array([[1.0], [2.0]], [[True], [False]]),
        np.array([[1], [2]], dtype="m8[s]"),
        3,
        "x" * 300 + ".csv",
    ],
)
def test_what_is_no_table_is_refused(table):
    with pytest.raises(abo.InputError):
        abo.Records.of(table)


def test_columns_that_a_library_numbered_are_no_row_names():
    values = np.random.default_rng(1).standard_normal((9, 2))
    table = pa.table({"column0": values[:, 0], "column1": values[:, 1]})
    records = abo.Records.of(table)
    assert records.columns == ("column0", "column1")
    one = abo.Records(values, ("column0", "age"))  # what has been through the gate loses nothing
    assert abo.Records.of(one).columns == one.columns
