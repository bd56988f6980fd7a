"""Commands on tables that stay where they are: files by a pattern, a database; refusals without a password."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import allbutone as abo
from allbutone.support.errors import InputError
from allbutone.tables.engines.sources import Source
from engines import PASSWORD


def clinic(rng, n=300):
    values = rng.normal(size=(n, 2)) @ [[1.0, 0.4], [0.0, 0.8]] + [25, 3.4]
    values[5] = [60, -6.5]
    return pa.table({"person": [f"p{row}" for row in range(n)], "bmi": values[:, 0], "ldl": values[:, 1]})


@pytest.fixture
def parts(tmp_path, rng):
    """A table in three Parquet files, and whole."""
    table = clinic(rng)
    (tmp_path / "data").mkdir()
    for part in range(3):
        pyarrow.parquet.write_table(table[100 * part : 100 * part + 100], tmp_path / "data" / f"{part}.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "whole.csv")
    return table


@pytest.mark.parametrize("engine", [[], ["--engine", "polars"], ["--engine", "duckdb"]])
def test_many_files_are_one_table(engine, parts, allbutone, tmp_path):
    code, said, _ = allbutone("synthesize", "data/*.parquet", "--drop", "person", "--out", "release", *engine)
    assert code == 0
    assert "1 dataset of 300 rows" in said
    assert "risk 'data/*.parquet' release" in said
    told = json.loads((tmp_path / "release" / "release.json").read_text())
    assert told["columns"] == ["bmi", "ldl"]
    code, said, _ = allbutone(
        "risk", "data/*.parquet", "release", "--key", "person", "--worst", 20, "--no-mass", *engine
    )
    assert code == 0
    found = pyarrow.csv.read_csv(tmp_path / "risk.csv")
    assert found["key"][0].as_py() == "p5"
    assert len(found) == 20
    assert "280 others" in said


def test_the_worst_are_judged_as_they_are_in_memory(parts, allbutone, tmp_path):
    assert allbutone("synthesize", "whole.csv", "--drop", "person", "--out", "release")[0] == 0
    assert allbutone("risk", "whole.csv", "release", "--out", "all.csv", "--no-mass")[0] == 0
    worst = (
        "risk",
        "data/*.parquet",
        "release",
        "--key",
        "person",
        "--worst",
        30,
        "--no-mass",
        "--out",
        "worst.csv",
    )
    assert allbutone(*worst)[0] == 0
    everyone, some = (pyarrow.csv.read_csv(tmp_path / name) for name in ("all.csv", "worst.csv"))
    places = [int(key[1:]) for key in some["key"].to_pylist()]
    for name, tolerance in (("exposure", 1e-7), ("relative_error", 1e-7), ("error_bmi", 1e-6)):
        ours, theirs = some[name].to_numpy(), everyone[name].to_numpy()[places]
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_the_budget_of_many_files(parts, allbutone, tmp_path):
    from allbutone.disclosure.exposure_law import leverages
    from allbutone.model.niw import NIW
    from allbutone.tables.records import Records

    asked = ("budget", "data/*.parquet", "--drop", "person", "--rows", 100, "--key", "person", "--worst", 50)
    code, said, _ = allbutone(*asked)
    assert code == 0
    records = Records.of(parts, drop="person")
    in_memory = abo.budget(records, rows=100, rng=1)
    assert "record p5" in said.replace("\n", " ")
    assert in_memory.in_all == 0
    assert "Not even one dataset of 100 rows may be released" in said
    columns, leverage = pyarrow.csv.read_csv(tmp_path / "budget.csv"), leverages(records.values, NIW.flat(2))
    np.testing.assert_allclose(columns["leverage"].to_numpy(), np.sort(leverage)[::-1][:50], rtol=1e-7)


def test_a_file_is_read_by_an_engine_if_one_is_named_or_it_is_beyond_memory(parts, allbutone, monkeypatch):
    opened = []
    usual = Source.open
    monkeypatch.setattr(Source, "open", lambda source: opened.append(source.engine) or usual(source))
    whole = ("synthesize", "whole.csv", "--drop", "person", "--out", "release", "--force")
    assert allbutone(*whole)[0] == 0
    assert opened == []
    assert allbutone(*whole, "--engine", "polars")[0] == 0
    assert opened == ["polars"]
    from allbutone.cli import options
    from allbutone.tables.files import Limits

    monkeypatch.setattr(options, "LIMITS", Limits(10, 100, 1000))
    assert allbutone(*whole)[0] == 0
    assert allbutone("synthesize", "data/0.parquet", "--drop", "person", "--out", "release", "--force")[0] == 0
    assert opened == ["polars", None, None]


def test_a_guarantee_needs_the_records(parts, allbutone, tmp_path):
    (tmp_path / "t.toml").write_text("[columns.bmi]\nlow = 10\nhigh = 80\n[columns.ldl]\nlow = -9\nhigh = 9\n")
    told = ("--epsilon", 1, "--table-file", "t.toml", "--drop", "person", "--out", "release")
    code, said, errors = allbutone("synthesize", "data/*.parquet", *told)
    assert code == 2
    assert "takes the records themselves" in one_line(said, errors)


def test_a_table_that_changes_between_the_passes_is_refused(parts, tmp_path, monkeypatch):
    from allbutone.tables.engines import lazy_records
    from allbutone.tables.engines.lazy_records import LazyRecords

    usual = lazy_records.second_pass

    def later(frame, origin, groups):
        gone = pa.table({"person": ["p"], "bmi": [float("nan")], "ldl": [1.0]})
        pyarrow.parquet.write_table(gone, tmp_path / "data" / "0.parquet")
        return usual(frame, origin, groups)

    monkeypatch.setattr(lazy_records, "second_pass", later)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="changed while"):
        LazyRecords.of(Source("data/*.parquet", "duckdb").open(), drop="person")


def test_a_database(postgres, password, allbutone, rng, tmp_path):
    postgres.load("clinic", clinic(rng))
    ask, told = ("--drop", "person", "--out", "release", "--force"), []

    def run(*arguments):
        code, *said = allbutone(*arguments)
        assert code == 0
        told.extend(said)
        return said[0]

    said = run("synthesize", postgres.address, "--from", "clinic", *ask)
    assert "1 dataset of 300 rows" in said
    assert "--from-table clinic" in said
    said = run("synthesize", postgres.address, "--query", "select * from clinic limit 100", *ask)
    assert "1 dataset of 100 rows" in said
    run("risk", postgres.address, "release", "--from", "public.clinic", "--worst", 5, "--no-mass")
    run("budget", postgres.address, "--from", "clinic", "--drop", "person", "--worst", 5)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"bmi" in written
    assert PASSWORD.encode() not in written + "".join(told).encode()


def test_a_database_in_a_file(allbutone, rng, tmp_path):
    import duckdb

    visits = pa.table({"a": rng.standard_normal(40), "b": rng.standard_normal(40)})
    with duckdb.connect("my.duckdb") as database:
        database.execute("create table visits as select * from visits")
    named, asked = Source("my.duckdb", from_table="visits"), Source("my.duckdb", query="select b, a from visits")
    assert named.open().to_arrow_table().equals(visits)
    assert asked.open().to_arrow_table().equals(visits.select(["b", "a"]))
    assert allbutone("synthesize", "my.duckdb", "--from", "visits", "--out", "release")[0] == 0
    with pytest.raises(InputError, match="no file is called other"):
        Source("other.duckdb", from_table="visits").open()
    assert not Path("other.duckdb").exists()
    with pytest.raises(InputError, match="nowhere does not exist"):
        Source("my.duckdb", from_table="nowhere").open()


def test_a_service_file_holds_the_credentials(postgres, rng, tmp_path, monkeypatch):
    postgres.load("served", clinic(rng))
    (tmp_path / "services").write_text(
        f"[clinic]\nhost=127.0.0.1\nport={postgres.port}\nuser=postgres\npassword={PASSWORD}\ndbname=postgres\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    frame = Source("postgresql://?service=clinic", from_table="served").open()
    assert "bmi" in frame.columns


def one_line(said, errors):
    assert errors.startswith("Error: ")
    assert errors.strip().count("\n") == 0
    assert PASSWORD not in said + errors
    return errors


REFUSED = {
    "no file is called": (["absent/*.parquet"], {}),
    "not of .parquet files alone": (["*.csv*"], {}),
    "a database holds many tables": (["{address}"], {}),
    "a database is its own engine": (["{address}", "--from", "clinic", "--engine", "polars"], {}),
    "only a database has tables": (["data/*.parquet", "--from", "clinic"], {}),
    "holds a password": (["postgresql://postgres:{password}@127.0.0.1/x", "--from", "t"], {}),
    "postgresql:// only": (["mysql://localhost/x", "--from", "t"], {}),
    "nobody": (["{address}", "--from", "nobody"], {}),
    "cannot be opened": (["{address}", "--query", "select from where"], {}),
    "password authentication failed": (["{address}", "--from", "t"], {"PGPASSWORD": PASSWORD + "x"}),
    "refused": (["postgresql://postgres@127.0.0.1:1/x", "--from", "t"], {}),
    "not read line by line": (["data/*.parquet", "--encoding", "latin-1"], {}),
    "is not numeric": (["data/*.parquet", "--columns", "person,bmi", "--cells", "separate"], {}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refusals_are_one_line_without_a_password(
    words, parts, postgres, password, allbutone, monkeypatch, tmp_path
):
    given, environment = REFUSED[words]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "x.csv.bak").write_text("")
    arguments = [each.format(address=postgres.address, password=PASSWORD) for each in given]
    code, said, errors = allbutone("synthesize", *arguments, "--out", "release")
    assert code == 2
    if words == "is not numeric":  # text of many levels, by the engine's own count
        words = "many for a category"
    assert words in one_line(said, errors)
    assert not (tmp_path / "release").exists()


def test_what_is_not_installed_is_named(monkeypatch, parts, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("allbutone.support.errors.import_module", _nothing)
    with pytest.raises(InputError, match=r"allbutone\[duckdb\]"):
        Source("data/*.parquet").open()
    with pytest.raises(InputError, match=r"allbutone\[dask\]"):
        Source("data/*.parquet", "dask").open()
    with pytest.raises(InputError, match=r"allbutone\[spark\]"):
        Source("data/*.parquet", "spark").open()
    with pytest.raises(InputError, match=r"allbutone\[postgresql\]"):
        Source("postgresql://localhost/x", from_table="t").open()


def _nothing(name):
    raise ModuleNotFoundError(name)


def test_the_base_install_grows_by_nothing():
    """No engine is loaded, or needed, before a table asks for it."""
    program = "import sys, allbutone; allbutone.Synthesizer().fit(allbutone.demo_cohort()); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not {"duckdb", "polars", "dask", "distributed", "ibis", "psycopg", "pyspark"} & set(loaded.split())
    told = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    required = told[told.index("dependencies = [") : told.index("[project.optional")]
    assert not any(name in required for name in ("duckdb", "polars", "dask", "ibis", "psycopg", "pyspark"))
