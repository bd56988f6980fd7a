"""Laws of categories and gaps at the gate: what gets in, what stays, and what is never lost in silence."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import allbutone as abo
from allbutone.tables.categories import Categories

LIBRARIES = pytest.mark.parametrize(
    "library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)


def clinic(rng, n=60):
    """Return a table of two measurements among four categories."""
    return {
        "sex": rng.permutation(["f", "m"] * (n // 2)).tolist(),
        "age": rng.normal(60, 10, n).round(1).tolist(),
        "treated": rng.permutation([True, False] * (n // 2)).tolist(),
        "arm": rng.permutation([1, 2] * (n // 2)).tolist(),
        "bili": rng.normal(3, 1, n).round(2).tolist(),
        "stage": rng.permutation(["I", "II", "III"] * (n // 3)).tolist(),
    }


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
    assert some.schema.levels_of("stage") == ("I", "II", "III")
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
