"""Real against synthetic where the real table stays: the moments' figures exactly, the others from counts."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import allbutone as abo
from allbutone.support.errors import InputError
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.utility.counted import BINS, Bins, CountedTable
from allbutone.utility.normality import check_normality
from allbutone.utility.shapes import densities
from engines import lazily


def a_table(rng, n=700):
    values = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + [120, 5, 80]
    return pa.table({"sbp": values[:, 0], "ldl": np.exp(values[:, 1] / 5), "kg": np.round(10 * values[:, 2], 1)})


@pytest.mark.parametrize("engine", ["polars", "duckdb", "postgres"])
def test_counts_of_the_engine_are_those_of_memory(engine, rng, tmp_path, request):
    table = a_table(rng)
    values = np.column_stack([column.to_numpy() for column in table.columns])
    values[3, 0] = 1e4  # beyond the last bin
    table = table.set_column(0, "sbp", pa.array(values[:, 0]))
    lazy = LazyRecords.of(lazily(engine, table, tmp_path, request))
    bins = Bins.about(np.median(values, axis=0), np.array([3.0, 0.4, 2.0]))
    found = lazy.histograms(bins.low, bins.width, BINS)
    np.testing.assert_array_equal(found, bins.count(values))
    assert found.shape == (3, BINS)
    assert (found.sum(axis=1) == len(values)).all()
    assert found[0, -1] == 1


@pytest.mark.parametrize("schema", [None, {"columns": {"ldl": {"scale": "log"}}}])
def test_fidelity_is_that_of_memory(schema, rng, tmp_path, request):
    table = a_table(rng)
    release = abo.Synthesizer().fit(table, schema=schema).sample(datasets=3, rows=[500, 700, 2000])
    ours, theirs = abo.fidelity(lazily("duckdb", table, tmp_path, request), release), abo.fidelity(table, release)
    for name in ("correlations", "synthetic_correlations", "mean_differences", "spread_ratios", "observed"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-9, err_msg=name)
    # D is a maximum over fewer places, between which there is no more than a bin's share
    assert (ours.ks <= theirs.ks + 1e-12).all()
    assert (theirs.ks - ours.ks).max() < 0.01
    np.testing.assert_allclose(ours.pmse_ratio_drawn, theirs.pmse_ratio_drawn, rtol=0.05)
    assert ours.beyond_noise() == theirs.beyond_noise()
    assert np.isnan(ours.pmse_tree_ratio).all()
    assert "by a tree" not in repr(ours)


def test_categories_are_compared_as_in_memory(rng, tmp_path, request):
    """Shares, contingency tables, means by level and η come from the sums of the cells, which lose nothing."""
    sex, stage = rng.choice(["f", "m"], 600), rng.choice(["one", "two", "three"], 600, p=[0.5, 0.3, 0.2])
    values = rng.normal(1e4, 3, size=(600, 2)) + 2.0 * (sex == "m")[:, None]
    table = pa.table({"a": values[:, 0], "b": values[:, 1], "sex": sex, "stage": stage})
    release = abo.Synthesizer().fit(table).sample(datasets=3, rows=[300, 600, 900])
    ours, theirs = abo.fidelity(lazily("duckdb", table, tmp_path, request), release), abo.fidelity(table, release)
    pairs = [*zip(ours.categories.shares, theirs.categories.shares, strict=True)]
    pairs += zip(ours.categories.tables, theirs.categories.tables, strict=True)
    for one, other in pairs:
        assert one.columns == other.columns
        np.testing.assert_array_equal(one.real, other.real)
        np.testing.assert_array_equal(one.synthetic, other.synthetic)
    for name in ("associations", "synthetic_associations", "mean_differences"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-9, err_msg=name)
    for one, other in zip(ours.categories.levels, theirs.categories.levels, strict=True):
        np.testing.assert_array_equal(one.people, other.people)
        np.testing.assert_allclose(one.mean_differences, other.mean_differences, rtol=1e-8, atol=1e-10)
    assert ours.terms == theirs.terms == 2 + 1 + 2
    np.testing.assert_allclose(ours.pmse_ratio_drawn, theirs.pmse_ratio_drawn, rtol=0.05)
    assert ours.beyond_noise().categories == theirs.beyond_noise().categories


def test_densities_and_shapes_from_counts(rng, tmp_path, request):
    table = a_table(rng)
    release = abo.Synthesizer().fit(table).sample(datasets=2)
    counted = CountedTable.of(lazily("polars", table, tmp_path, request))
    ours, theirs = densities(counted, release), densities(table, release)
    assert ours.columns == theirs.columns
    for at in range(3):
        np.testing.assert_allclose(ours.bandwidth[at], theirs.bandwidth[at], rtol=0.02)
        for name in ("real", "synthetic"):
            there, here = getattr(theirs, name)[at], getattr(ours, name)[at]
            moved = np.interp(theirs.grid[at], ours.grid[at], here)
            assert np.abs(moved - there).max() < 0.03 * there.max()
    judged, known = check_normality(counted), check_normality(table)
    assert [each.level for each in judged.verdicts] == [each.level for each in known.verdicts]
    for ours, theirs in zip(judged.verdicts, known.verdicts, strict=True):
        assert ours.advice.partition(":")[0] == theirs.advice.partition(":")[0]  # then numbers, nearly the same
    np.testing.assert_allclose(judged.shape.skewness, known.shape.skewness, atol=0.01)
    assert judged.together is None


def test_other_columns_and_constant_datasets_are_refused(rng, tmp_path, request):
    table = a_table(rng)
    counted = CountedTable.of(lazily("polars", table, tmp_path, request))
    release = abo.Synthesizer().fit(table.drop_columns("kg")).sample()
    with pytest.raises(InputError, match="the table has 3 columns, the release 2"):
        abo.fidelity(counted, release)
    still = abo.Release.of([np.ones((5, 3))], ("sbp", "ldl", "kg"))
    with pytest.raises(InputError, match="constant"):
        abo.fidelity(counted, still)


def test_the_report_of_a_table_that_stays(rng, allbutone, tmp_path):
    (tmp_path / "data").mkdir()
    table = a_table(rng).append_column("person", [[f"p{row:03}" for row in range(700)]])
    for part in range(2):
        pyarrow.parquet.write_table(table[350 * part : 350 * part + 350], tmp_path / "data" / f"{part}.parquet")
    drawn = ("synthesize", "data/*.parquet", "--log", "ldl", "--drop", "person", "--out", "release")
    assert allbutone(*drawn)[0] == 0
    code, said, told = allbutone("report", "data/*.parquet", "release", "--worst", 20, "--key", "person")
    assert code == 0, told
    page = (tmp_path / "report.html").read_text()
    for words in (
        "a table of 700 people",
        "Judged are the 20 records that stand out most",
        "the 680 others",
        "Not told here, because the records stay",
        "by linear regression",
    ):
        assert words in page
    # those fetched are called by their keys, and by nothing else
    assert re.search(r"of record p\d{3}: somebody who knows everybody else", page)
    assert re.search(r"of record p\d{3}: somebody", said.replace("\n", " "))
    assert not re.search(r"\brow \d", page.partition("<h2")[0] + said)
    assert "Not told, because the records stay" in said
    assert oct((tmp_path / "report.html").stat().st_mode)[-3:] == "600"
    public = ("report", "data/*.parquet", "release", "--public", "--key", "person", "--out", "public.html")
    assert allbutone(*public)[0] == 0
    assert not re.search(r"\bp\d{3}\b", (tmp_path / "public.html").read_text())
    assert "700 people" not in (tmp_path / "public.html").read_text()
