"""Columns that belong together in a table that stays in its engine: as in a table that is here."""

import numpy as np
import pyarrow as pa
import pytest

import allbutone as abo
from allbutone.disclosure.table_risk import stream_risk
from allbutone.model.moments import Moments
from allbutone.support.errors import InputError
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records
from engines import ENGINES, lazily

DECLARED = {
    "columns": {
        "weight": {"decimals": 1, "scale": "log"},
        "height": {"decimals": 0},
        "bmi": {"derived": "weight / (height / 100) ** 2", "decimals": 1},
        "obese": {"derived": "bmi >= 30", "levels": ["no", "yes"]},
        "size": {"cut": {"of": "log(height) * 100 + abs(sqrt(weight) - 30) ** -1", "at": [500, 520]}},
        "diastolic": {"decimals": 0},
        "systolic": {"above": "diastolic", "decimals": 0},
        "mean": {"between": ["diastolic", "systolic"], "decimals": 1},
        "largest": {"derived": "max(systolic, height, 2 ** (weight / 20))", "decimals": 3},
    }
}
BESIDE = [each for each in ENGINES if each != "dask"]  # slow to begin with each of its many small tasks


def a_table(rng, n=300, **changed):
    weight, height = np.exp(rng.normal(4.35, 0.2, n)).round(1), rng.normal(170, 9, n).round()
    diastolic = rng.normal(80, 9, n).round()
    systolic = diastolic + np.exp(rng.normal(3.7, 0.3, n)).round()
    bmi = np.round(weight / (height / 100) ** 2, 1)
    score = np.log(height) * 100 + 1 / np.abs(np.sqrt(weight) - 30)
    groups = np.array(["below 500", "500 to below 520", "520 or more"])
    table = {
        "weight": weight, "height": height, "bmi": bmi, "obese": np.where(bmi >= 30, "yes", "no"),
        "size": groups[np.searchsorted([500, 520], score, side="right")], "diastolic": diastolic,
        "systolic": systolic, "mean": (diastolic + (systolic - diastolic) * rng.beta(4, 8, n)).round(1),
        "largest": np.round(np.maximum(np.maximum(systolic, height), 2 ** (weight / 20)), 3),
    }  # fmt: skip
    return pa.table(table | changed)


@pytest.mark.parametrize("engine", BESIDE)
def test_a_table_in_its_engine_is_modelled_as_one_that_is_here(engine, rng, tmp_path, request):
    table = a_table(rng)
    lazy = LazyRecords.of(lazily(engine, table, tmp_path, request), schema=DECLARED, categories=True)
    here = Records.of(table, schema=DECLARED, categories=True)
    assert (lazy.columns, lazy.order, lazy.schema) == (here.columns, here.order, here.schema)
    found, expected = Moments.of(lazy), Moments.of(here.values)
    spread = np.sqrt(np.diagonal(expected.scatter) / expected.count)
    assert np.abs((found.mean - expected.mean) / spread).max() < 1e-10
    assert np.abs((found.scatter - expected.scatter) / np.outer(spread, spread)).max() < 1e-9
    [(block, _)] = lazy.blocks()
    order = np.lexsort(block.natural.T), np.lexsort(here.natural.T)  # a database has no order of rows
    np.testing.assert_array_equal(block.natural[order[0]], here.natural[order[1]])
    derived = here.schema.derive(here.natural)
    for name in ("bmi", "largest"):
        exact = abo.Records.of(table, schema=DECLARED, categories=True).schema.derive(here.natural)[name]
        count, mean, sd = lazy.spreads[name]
        assert count == len(exact)
        assert abs(mean - derived[name].mean()) < 0.05
        assert abs(sd / derived[name].std(ddof=1) - 1) < 0.01


def test_the_risk_comes_in_blocks_with_the_tolerances_of_the_whole_table(rng, tmp_path, request):
    table = a_table(rng, 90).select(["weight", "height", "bmi", "obese", "diastolic", "systolic"])
    release = abo.Synthesizer(schema=DECLARED).fit(table).sample(datasets=2, rng_for_tests=rng)
    here = abo.risk(table, release, mass=False, rng=np.random.default_rng(3)).frame
    lazy = LazyRecords.of(lazily("polars", table, tmp_path, request), schema=release.schema, categories=True)
    whole, parts = (
        [*stream_risk(lazy, release, rng=np.random.default_rng(3), block_rows=rows, mass=False)]
        for rows in (90, 30)
    )
    assert (len(whole), len(parts)) == (1, 3)
    for name in ("probability_bmi", "probability_obese", "probability_systolic", "baseline_bmi", "tolerance_bmi"):
        found = np.concatenate([part[name] for part in parts])
        np.testing.assert_allclose(found, whole[0][name], rtol=1e-6, atol=1e-8)
        # a table that is here is averaged over draws of what was rounded, one in its engine has one of them
        assert abs(np.mean(found) - np.mean(np.asarray(here[name], dtype=float))) < 0.02
    np.testing.assert_allclose(whole[0]["tolerance_bmi"], np.asarray(here["tolerance_bmi"]), rtol=1e-9)


def test_rows_that_contradict_what_is_declared_are_counted_and_nothing_of_them_is_shown(rng, tmp_path, request):
    table = a_table(rng)
    spoiled = {name: np.asarray(table[name]).copy() for name in ("bmi", "obese", "systolic", "mean", "height")}
    spoiled["bmi"][:4] += 5
    spoiled["obese"][10] = "no" if spoiled["obese"][10] == "yes" else "yes"
    spoiled["systolic"][20] = np.asarray(table["diastolic"])[20] - 3
    spoiled["mean"][30] = 500
    spoiled["height"][40] = 0
    lazy = lazily(
        "polars", a_table(rng, **{**{n: table[n] for n in table.column_names}, **spoiled}), tmp_path, request
    )
    with pytest.raises(InputError) as told:
        LazyRecords.of(lazy, schema=DECLARED, categories=True)
    words = str(told.value)
    assert "'bmi' cannot be computed in 1 row" in words
    assert "'obese' is not bmi >= 30 in 1 row" in words
    assert "'systolic' is not above diastolic in 1 row" in words
    assert "'mean' is not between diastolic and systolic in 2 rows" in words
    assert "500" not in words.replace("below 500", "")


def test_what_an_engine_cannot_compute_is_said(rng, tmp_path, request):
    entries = {
        "columns": {"ratio": {"derived": "round(weight / height, 1)"}, "dose": {"derived": "weight ** height"}}
    }
    table = a_table(rng).select(["weight", "height"])
    table = table.append_column("ratio", pa.array(np.round(np.asarray(table["weight"]) / table["height"], 1)))
    table = table.append_column("dose", pa.array(np.ones(len(table))))
    with pytest.raises(InputError, match="which no engine computes"):
        LazyRecords.of(lazily("polars", table, tmp_path, request), schema=entries)
    with pytest.raises(InputError, match="is not in the table"):
        LazyRecords.of(
            lazily("polars", table.select(["weight", "height"]), tmp_path, request),
            schema={"columns": {"weight": {"above": "hight"}}},
        )
