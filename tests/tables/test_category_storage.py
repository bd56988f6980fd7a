"""Laws of how categories are stored: in any type of any library, through a dataframe or a file and back."""

from datetime import timedelta

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import allbutone as abo
from allbutone.tables.categories import Categories
from clinic import require_same

NULLS = {value.upper() for value in pyarrow.csv.ConvertOptions().null_values}
LEVEL = st.text(st.characters(categories=["L", "N"]), min_size=1).filter(lambda text: text.upper() not in NULLS)
LEVELS = st.lists(LEVEL, min_size=2, max_size=6, unique=True)


def mixed_records(levels, is_category, n, seed):
    """Return records of measurements and categories in this order, with gaps."""
    rng, q = np.random.default_rng(seed), len(levels)
    p = len(is_category) - q
    codes = np.column_stack([rng.integers(-1, len(each), n) for each in levels])
    codes[0] = 0
    values = np.where(rng.random((n, p)) < 0.2, np.nan, rng.normal(size=(n, p)))
    values[0] = 0.5
    columns, names = tuple(f"x{place}" for place in range(p)), tuple(f"c{place}" for place in range(q))
    places = np.argsort(np.argsort(~np.array(is_category), kind="stable"))
    order = tuple((*names, *columns)[place] for place in places)
    return abo.Records(values, columns, categories=Categories(codes, names, levels), order=order, gaps=True)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
@given(
    levels=st.lists(LEVELS, min_size=1, max_size=3),
    p=st.integers(1, 2),
    n=st.integers(3, 12),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
@settings(max_examples=30, deadline=None)
def test_to_a_frame_and_back_changes_nothing(backend, levels, p, n, seed, data):
    is_category = data.draw(st.permutations([False] * p + [True] * len(levels)))
    records = mixed_records(tuple(map(tuple, levels)), is_category, n, seed)
    frame = records.to_frame(backend)
    require_same(records, abo.Records.of_synthetic(frame, records.schema, gaps=True))
    shuffled = nw.from_native(frame).select(sorted(records.order)).to_native()
    require_same(records, abo.Records.of_synthetic(shuffled, records.schema, gaps=True))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_through_a_file_and_back_changes_nothing(rng, tmp_path, ending):
    levels = (
        ("TRUE", "FALSE"),
        ("01", "2"),
        ("1.50", "2"),
        ("3", "1"),
        ("2020-01-02", "2021-01-02"),
        ("é ", "Crohn's; a, b"),
    )
    codes = np.column_stack([rng.permutation([0, 1] * 10) for _ in levels])
    codes[3] = -1
    names = tuple(f"c{place}" for place in range(len(levels)))
    records = abo.Records(rng.normal(size=(20, 1)), ("x",), categories=Categories(codes, names, levels), gaps=True)
    table, path = records.to_frame("pyarrow"), tmp_path / f"t.{ending}"
    if ending == "csv":
        kinds = [(name, pa.string() if name in names else pa.float64()) for name in table.column_names]
        pyarrow.csv.write_csv(table.cast(pa.schema(kinds)), path)
    else:
        pyarrow.parquet.write_table(table, path)
    require_same(records, abo.Records.of_synthetic(path, records.schema, gaps=True))


def test_the_own_order_of_a_categorical_column_is_kept(rng):
    order = ["low", "middle", "high", "unheard of"]
    values = [*order[:3] * 5]
    tables = [
        pd.DataFrame({"dose": pd.Categorical(values, order), "x": rng.normal(size=15)}),
        pl.DataFrame({"dose": pl.Series(values, dtype=pl.Enum(order)), "x": rng.normal(size=15)}),
        pa.table({"dose": pa.DictionaryArray.from_arrays([0, 1, 2] * 5, order), "x": rng.normal(size=15)}),
    ]
    for table in tables:
        records = abo.Records.of(table, categories=True)
        assert records.categories.levels == (tuple(order),)
        assert records.categories.names("dose").tolist() == values
        assert not any("levels" in note for note in records.notes)
    pl.Series(["else", "where"], dtype=pl.Categorical)  # some versions share levels among all tables
    loose = pl.DataFrame({"dose": pl.Series(values, dtype=pl.Categorical), "x": rng.normal(size=15)})
    assert sorted(abo.Records.of(loose, categories=True).categories.levels[0]) == sorted(order[:3])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["f", "m", None] * 5, dtype="string"),
        pd.Series(["f", "m", np.nan] * 5, dtype=object),
        pd.Series(["f", "m", " "] * 5),
        pa.array(["f", "m", None] * 5, pa.large_string()),
        pa.array(["f", "m", None] * 5, pa.string_view()),
        pa.chunked_array([["f", "m", None], ["f", "m", ""] * 4]),
        pa.chunked_array([pa.array(part).dictionary_encode() for part in (["f", "m", None], ["m", "f"] * 6)]),
        pd.Series([False, True, None] * 5, dtype="boolean"),
        pd.Series([False, True, None] * 5, dtype=object),
        pd.Series([1, 2, None] * 5, dtype="Int64"),
        pd.Series([1, 2, -9] * 5),
        pd.Series(pd.Categorical([1, 2, None] * 5)),
    ],
    ids=lambda column: f"{type(column).__name__}-{getattr(column, 'dtype', getattr(column, 'type', None))}",
)
def test_however_levels_are_stored_they_are_read_alike(column, rng):
    frame = pa.table if isinstance(column, pa.Array | pa.ChunkedArray) else pd.DataFrame
    table = frame({"sex": column, "x": rng.normal(size=15)})
    records = abo.Records.of(table, categories=True, gaps=True, missing_codes=[-9])
    codes = records.categories.codes[:, 0]
    assert (len(codes), records.categories.sizes) == (15, (2,))
    np.testing.assert_array_equal(codes[:3], [0, 1, -1])
    assert records.categories.levels[0] in (("f", "m"), ("false", "true"), ("1", "2"))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], [2], [2]] * 5),
        pa.array([b"a", b"b", b"b"] * 5),
        pa.array([{"a": 1}, {"a": 2}, {"a": 2}] * 5),
        pa.array([timedelta(1), timedelta(2), timedelta(2)] * 5),
        pa.StringArray.from_buffers(3, pa.py_buffer(np.array([0, 1, 2, 3], np.int32)), pa.py_buffer(b"a\xff\xff")),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("categories", [False, True])
def test_what_has_no_levels_is_refused_in_words(column, categories):
    table = pa.table({"odd": column, "x": np.linspace(0, 1, len(column)) ** 2})
    with pytest.raises(abo.InputError, match="odd"):
        abo.Records.of(table, categories=categories)
