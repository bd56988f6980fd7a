"""Tables with categories that stay in their engine: leverage, budget and risk as in memory."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import allbutone as abo
from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.standing import leverages_among, standing_out_in_cells
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.moments import Moments
from allbutone.tables.engines.lazy_records import Centres, LazyRecords
from allbutone.tables.records import Records
from engines import ENGINES, lazily

HOW = {"drop": "person", "categories": True, "schema": {"columns": {"wave": {"kind": "category"}}}}
N = 400


def a_clinic(rng, outlier=0.0):
    """Text, numbers and truths as categories, small cells among them, and someone far out."""
    site = rng.choice(["north", "south", "west"], N, p=[0.6, 0.38, 0.02])
    smoker, wave = rng.random(N) < 0.3, rng.integers(1, 3, N)
    site[:3], wave[:3], smoker[:3] = "west", [1, 2, 2], [True, False, True]
    values = rng.normal(size=(N, 2)) @ rng.normal(size=(2, 2)) + np.column_stack([site == "south", wave]) + 30
    values[17] += outlier
    return pa.table(
        {
            "site": site,
            "bmi": values[:, 0],
            "wave": wave,
            "person": [f"p{row}" for row in range(N)],
            "smoker": smoker,
            "ldl": values[:, 1],
        }
    )


def leverages_in_memory(records, mechanism):
    everyone = MixedLeaveOneOut.of(mechanism.split(records), mechanism.prior)
    return leverages_among(everyone.before(np.arange(N), everyone.records.cells), everyone.records.values)


def fitted(table, cells, tmp_path, request, engine="duckdb"):
    lazy = LazyRecords.of(lazily(engine, table, tmp_path, request), **HOW)
    prior = abo.NIW.default(2) if cells == "separate" else None
    return lazy, Records.of(table, **HOW), abo.Synthesizer(prior, cells=cells).fit(lazy)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("cells", "outlier"), [("main effects", 0.0), ("main effects", 300.0), ("separate", 0.0)])
def test_who_stands_out(engine, cells, outlier, rng, tmp_path, request):
    lazy, records, synthesizer = fitted(a_clinic(rng, outlier), cells, tmp_path, request, engine)
    mechanism = synthesizer.mechanism
    found = standing_out_in_cells(lazy, mechanism.prior, most=25, key="person")
    leverage = leverages_in_memory(records, mechanism)
    places = [int(key[1:]) for key in found.keys]
    assert len(set(places)) == len(places) == len(records.values) - found.others
    assert set(np.argsort(-leverage)[:25]) <= set(places)
    own = mechanism.split(records).cells
    counts = np.bincount(own, minlength=mechanism.prior.cells.count)
    small = np.sort(counts[counts > 0])
    largest = small[np.cumsum(small) <= 25][-1]
    if small[small <= largest].sum() > 25:  # of cells of one size some are fetched
        largest -= 1
    assert small.min() <= 25
    assert set(np.flatnonzero(counts[own] <= largest)) <= set(places)
    np.testing.assert_allclose(found.leverage, leverage[places], rtol=1e-8)
    np.testing.assert_allclose(found.records.values, records.values[places], rtol=1e-15)
    assert np.array_equal(found.records.categories.codes, records.categories.codes[places])
    assert found.above.tolist() == [int((leverage > step).sum()) for step in found.ladder]
    rest = mechanism.prior.moments(mechanism.split(records).take(np.delete(np.arange(N), places)))
    np.testing.assert_allclose(found.elsewhere.count, rest.count)
    np.testing.assert_allclose(found.elsewhere.mean, rest.mean, rtol=1e-9)
    np.testing.assert_allclose(found.elsewhere.scatter, rest.scatter, rtol=1e-7, atol=1e-7)


def test_moments_by_cell_merge_and_part(rng):
    model = LocationModel.prior((2, 2), abo.NIW.flat(2))
    records = MixedRecords.of(rng.integers(0, 3, 60), rng.normal(5, 1, size=(60, 2)))
    whole, some = model.moments(records), model.moments(records.take(slice(0, 40)))
    for ours, theirs in ((whole.without(some), model.moments(records.take(slice(40, 60)))),
                         (whole.without(some).merge(some), whole),
                         (whole.pooled(), Moments.of(records.values)),
                         (whole.without(whole), model.moments(records.take(slice(0, 0))))):  # fmt: skip
        for name in ("count", "mean", "scatter"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12, atol=1e-11)


def test_more_numbers_than_an_expression_can_hold_are_refused():
    def centres(count, spread):
        whitening = np.broadcast_to(np.eye(5), (count, 5, 5)) * spread[:, None, None]
        return Centres(np.arange(count), np.zeros((count, 5)), whitening, np.ones(count))

    centres(3000, np.ones(3000)).require_few()
    with pytest.raises(abo.InputError, match="3,000 combinations of levels, too many"):
        centres(3000, np.arange(3000) + 1.0).require_few()


@pytest.mark.parametrize("cells", ["main effects", "separate"])
def test_risk_is_that_in_memory(cells, rng, tmp_path, request):
    lazy, records, synthesizer = fitted(a_clinic(rng, 20.0), cells, tmp_path, request)
    release = synthesizer.sample(datasets=2, rows=60, rng_for_tests=rng)
    standing = standing_out_in_cells(lazy, release.mechanism.prior, most=15, key="person")
    found, expected = (
        risk_columns(some, release, elsewhere=elsewhere, mass=False, rng=np.random.default_rng(0))
        for some, elsewhere in ((standing.records, standing.elsewhere), (records, None))
    )
    places = [int(key[1:]) for key in standing.keys]
    for name in ("distance", "exposure", "relative_error", "tolerance_bmi", "baseline_site", "error_ldl"):
        np.testing.assert_allclose(found[name], expected[name][places], rtol=1e-6, atol=1e-7)
    for name in ("probability_site", "probability_wave"):  # by the same random points
        np.testing.assert_allclose(found[name], expected[name][places], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rows", [None, 100])
def test_the_budget_is_that_in_memory(rows, rng, tmp_path, request, few_trials):
    lazy, records, _ = fitted(a_clinic(rng, 8.0), "main effects", tmp_path, request)
    found = abo.budget(lazy, rows=rows, most=60, key="person", rng=np.random.default_rng(3))
    expected = abo.budget(records, rows=rows, rng=np.random.default_rng(3))
    places = [int(key[1:]) for key in found.standing.keys]
    assert found.case.by_measurements == expected.case.by_measurements
    assert found.case.by_categories == expected.case.by_categories
    np.testing.assert_allclose(found.leverage, expected.leverage[places], rtol=1e-8)
    at = found.case.guess + 1
    np.testing.assert_allclose(found.chances(at), expected.chances(at)[places], atol=1e-6)
    names = {"row", "key", "leverage", "threshold_datasets"}
    assert names <= set(found.columns())
    assert names - {"key"} <= set(expected.columns())
    assert found.limiting_record.startswith("record p")


def test_commands(rng, allbutone, tmp_path, few_trials):
    table = a_clinic(rng, 300.0)
    (tmp_path / "data").mkdir()
    for part in range(2):
        pyarrow.parquet.write_table(table[200 * part : 200 * part + 200], tmp_path / "data" / f"{part}.parquet")
    (tmp_path / "table.toml").write_text('[columns.wave]\nkind = "category"\n')
    files, how = "data/*.parquet", ("--drop", "person", "--table-file", "table.toml")
    code, said, errors = allbutone("budget", files, *how, "--rows", 100, "--key", "person", "--worst", 30)
    assert code == 0
    assert "categories whose levels are those of this table" in " ".join(errors.split())
    assert "smallest combinations of categories" in " ".join(said.split())
    assert "record p17" in said.replace("\n", " ")
    written = pyarrow.csv.read_csv(tmp_path / "budget.csv")
    assert written["key"][0].as_py() == "p17"
    assert allbutone("synthesize", files, *how, "--datasets", 2, "--rows", 100, "--out", "release")[0] == 0
    code, said, errors = allbutone("risk", files, "release", "--key", "person", "--worst", 30, "--no-mass")
    assert code == 0
    written = pyarrow.csv.read_csv(tmp_path / "risk.csv")
    assert written["key"][0].as_py() == "p17"
    assert {"probability_site", "probability_smoker", "probability_bmi"} <= set(written.column_names)
    assert f"{N - len(written)} others" in said.replace("\n", " ")
    known = ("--known", "bmi,ldl,wave,smoker", "--worst", 30, "--out", "known.csv")
    code, said, _ = allbutone("risk", files, "release", "--engine", "polars", *known)
    assert code == 0
    assert "risk 'data/*.parquet' release --engine polars --worst 30" in " ".join(said.split())


def test_columns_to_keep_take_the_records_themselves(rng, allbutone, tmp_path):
    table = a_clinic(rng).drop_columns(["person", "wave", "smoker"])
    pyarrow.csv.write_csv(table, tmp_path / "table.csv")
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet")
    assert allbutone("synthesize", "table.csv", "--keep", "site", "--out", "release", "--no-ledger")[0] == 0
    code, _, errors = allbutone("risk", "table.parquet", "release", "--engine", "duckdb")
    assert code == 2
    assert "columns to keep" in errors
    assert not (tmp_path / "risk.csv").exists()
