"""Risk of all records, a block at a time: the same numbers as in memory, whatever the engine and the block."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import allbutone as abo
from allbutone.disclosure.lineup import Lineup
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.table_risk import WorstSoFar, stream_risk
from allbutone.model.prior import prior_of
from allbutone.reports.verdict import verdict_of
from allbutone.support.errors import InputError
from allbutone.tables.engines import queries
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records
from engines import lazily

KEY = "6f1d0c9ab37e42588d91e0f4c5a6b273"  # with other releases an integral may differ in more digits


def a_cohort(rng, n=230):
    """A table in which one record makes up nearly all of a direction, and some rows lack a value."""
    values = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + 1e5
    values[17] += 300 * values.std(axis=0) * [1, -1, 1]
    values[[3, 100, 101], 1] = np.nan
    return pa.table({"person": [f"p{row}" for row in range(n)], **{f"m{c}": values[:, c] for c in range(3)}})


def same(ours, theirs):
    for name, column in theirs.items():
        if column.dtype.kind == "f":
            size = np.abs(column[np.isfinite(column)]).max(initial=0.0)
            np.testing.assert_allclose(ours[name], column, rtol=1e-5, atol=1e-6 * size, err_msg=name)
        else:
            np.testing.assert_array_equal(ours[name], column, err_msg=name)


@pytest.mark.parametrize("engine", ["polars", "duckdb", "dask", "postgres"])
def test_blocks_give_what_memory_gives(engine, rng, tmp_path, request):
    table = a_cohort(rng)
    records = Records.of(table, drop="person", complete_cases=True)
    release = abo.Synthesizer().fit(records).sample(datasets=2, repeat_key=KEY)
    whole = risk_columns(records, release, mass=False, rng=np.random.default_rng(0))
    lazy = LazyRecords.of(lazily(engine, table, tmp_path, request), drop="person", complete_cases=True)
    parts = list(stream_risk(lazy, release, key="person", block_rows=60, mass=False))
    assert [len(part["row"]) for part in parts] == [60, 60, 107]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort([int(key[1:]) for key in found["key"]])  # a database has no order
    found = {name: column[order] for name, column in found.items()}
    if engine == "postgres":
        del found["row"], whole["row"]
    else:
        assert [f"p{row - 1}" for row in found["row"]] == found["key"].tolist()
    same(found, whole)


def test_what_is_kept_of_the_blocks_gives_the_verdict_of_all(rng, monkeypatch):
    from allbutone.disclosure import table_risk

    monkeypatch.setattr(table_risk, "KEPT", 5)
    cohort = abo.demo_cohort()
    release = abo.Synthesizer().fit(cohort).sample_parameters(300)
    found = risk_columns(cohort, release, mass=False, rng=np.random.default_rng(0))
    kept, rule = WorstSoFar(Rule()), Rule()
    for places in np.array_split(rng.permutation(len(found["row"])), 7):
        kept.add({name: column[places] for name, column in found.items()})
    ours, theirs = verdict_of(kept.found, rule, kept.among), verdict_of(found, rule)
    assert 5 < kept.among.disclosed == len(theirs.rows)
    assert 5 <= len(kept.found["row"]) <= 5 + table_risk.MEMBERS_KEPT
    for said in ("headline", "how_sure", "membership", "nearest", "who", "passed"):
        assert getattr(ours, said) == getattr(theirs, said)


def test_a_table_that_grows_meanwhile_is_noticed(rng, tmp_path, request):
    table = a_cohort(rng).drop_columns("m1")
    lazy = LazyRecords.of(lazily("polars", table, tmp_path, request), drop="person")
    release = abo.Synthesizer().fit(Records.of(table, drop="person")).sample(datasets=1)
    more = LazyRecords.of(lazily("polars", pa.concat_tables([table, table]), tmp_path, request), drop="person")
    grown = LazyRecords(more.frame, lazy.columns, lazy.schema, lazy.sums, whole=lazy.whole)
    with pytest.raises(InputError, match="had 230 records when it was added up and 460"):
        list(stream_risk(grown, release, block_rows=60, mass=False))


def test_blocks_are_cut_as_asked_whatever_the_engine_gives():
    sizes = [3, 50, 1, 0, 7, 30]
    parts = [pa.table({"x": np.arange(size) + sum(sizes[:place])}) for place, size in enumerate(sizes)]
    cut = list(queries.recut(parts, 20))
    assert [len(each) for each in cut] == [20, 20, 20, 31]
    assert np.concatenate([each["x"].to_numpy() for each in cut]).tolist() == list(range(91))
    assert list(queries.recut([], 20)) == []


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_command_judges_everyone(ending, rng, allbutone, tmp_path, monkeypatch):
    monkeypatch.setattr("allbutone.cli.risk.BLOCK_ROWS", 100)
    table = a_cohort(rng)
    (tmp_path / "data").mkdir()
    for part in range(2):
        pyarrow.parquet.write_table(table[115 * part : 115 * part + 115], tmp_path / "data" / f"{part}.parquet")
    both = ("data/*.parquet", "--drop", "person", "--complete-cases")
    assert allbutone("synthesize", *both, "--datasets", 12, "--out", "release")[0] == 0
    asked = ("risk", "data/*.parquet", "release", "--complete-cases", "--no-mass", "--all", "--key", "person")
    code, said, told = allbutone(*asked, "--out", f"all.{ending}")
    assert code == 0, told
    assert "Judged are all 227 records" in said
    read = pyarrow.csv.read_csv if ending == "csv" else pyarrow.parquet.read_table
    found = read(tmp_path / f"all.{ending}")
    assert len(found) == 227
    assert f"{int(np.sum(found['disclosed'].to_numpy(zero_copy_only=False)))} of 227 people" in said
    assert found["key"][int(np.argmax(found["risk"].to_numpy()))].as_py() == "p17"
    assert "227 people" in (tmp_path / "all.html").read_text()


def test_all_is_for_tables_that_stay(allbutone, tmp_path, rng):
    pyarrow.csv.write_csv(a_cohort(rng).drop_columns("m1"), tmp_path / "t.csv")
    assert allbutone("synthesize", "t.csv", "--drop", "person", "--out", "release")[0] == 0
    code, _, told = allbutone("risk", "t.csv", "release", "--all")
    assert code == 2
    assert "all records are judged anyway" in told
    assert not (tmp_path / "risk.csv").exists()


@pytest.mark.parametrize(("engine", "library"), [("polars", "polars"), ("duckdb", "pyarrow")])
def test_from_python_a_lazy_frame_is_judged_where_it_lies(engine, library, rng, tmp_path, request):
    table = a_cohort(rng, 110)
    lazy = lazily(engine, table, tmp_path, request)
    release = abo.Synthesizer().fit(table, drop="person", complete_cases=True).sample(datasets=1)
    asked = {"complete_cases": True, "mass": False}
    there = abo.risk(lazy, release, rng=np.random.default_rng(3), **asked)
    assert type(there.frame).__module__.split(".")[0] == library
    points = np.random.default_rng(np.random.default_rng(3).integers(2**63))  # the same ones serve every block
    here = abo.risk(table, release, rng=points, **asked)
    same({name: np.asarray(there[name]) for name in here.column_names}, {
        name: here[name].to_numpy() for name in here.column_names
    })  # fmt: skip


def test_the_budget_of_a_lazy_frame_is_that_in_memory(rng, tmp_path, request):
    table = a_cohort(rng, 110).drop_columns("person")
    lazy = lazily("polars", table, tmp_path, request)
    prior = {"centre": 1e5, "spread": 10}
    there, here = (abo.budget(each, prior, rows=110, complete_cases=True, rng=1) for each in (lazy, table))
    assert (there.in_all, there.case.guess) == (here.in_all, here.case.guess)
    records = Records.of(table, complete_cases=True)
    assert here.case.guess == Lineup.of(records, prior_of(prior, records.columns), 110, Rule()).most()
    assert list(there.columns()) == list(here.columns())
    with pytest.raises(InputError, match="stays in its engine"):
        Records.of(lazy)
