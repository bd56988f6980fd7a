"""Spark on a local master: commands on a folder of files, a dataframe from Python, and what may be missing."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import allbutone as abo

pytestmark = pytest.mark.usefixtures("spark")
ASKED = {
    "synthesize": ("--drop", "person", "--out", "release", "--force"),
    "budget": ("--drop", "person", "--rows", 100, "--key", "person", "--worst", 40, "--out", "b.csv", "--force"),
    "risk": ("release", "--key", "person", "--worst", 40, "--no-mass", "--out", "r.csv", "--force"),
}


@pytest.fixture
def parts(tmp_path, rng):
    """A table in three Parquet files and in two CSV files, one of the people far out."""
    values = rng.normal(size=(300, 2)) @ [[1.0, 0.4], [0.0, 0.8]] + [25, 3.4]
    values[5] = [60, -6.5]
    table = pa.table({"person": [f"p{row}" for row in range(300)], "bmi": values[:, 0], "ldl": values[:, 1]})
    for folder in ("data", "lines"):
        (tmp_path / folder).mkdir()
    for part in range(3):
        pyarrow.parquet.write_table(table[100 * part : 100 * part + 100], tmp_path / "data" / f"{part}.parquet")
    for part in range(2):
        pyarrow.csv.write_csv(table[150 * part : 150 * part + 150], tmp_path / "lines" / f"{part}.csv")
    return table


def columns_of(path):
    return pyarrow.csv.read_csv(path).to_pydict()


@pytest.mark.parametrize("files", ["data/*.parquet", "lines/*.csv"])
def test_commands_answer_as_with_duckdb(files, parts, allbutone, tmp_path):
    code, said, _ = allbutone("synthesize", files, *ASKED["synthesize"], "--engine", "spark")
    assert code == 0
    assert "1 dataset of 300 rows" in said
    assert "--engine spark" in said
    for command, written in (("budget", "b.csv"), ("risk", "r.csv")):
        answers = []
        for engine in ("spark", "duckdb"):
            code, said, errors = allbutone(command, files, *ASKED[command], "--engine", engine)
            assert (code, errors) == (0, "")
            answers.append((said.replace(engine, ""), columns_of(tmp_path / written)))
        (ours, found), (theirs, expected) = answers
        assert ours == theirs
        assert found.keys() == expected.keys()
        assert found["key"] == expected["key"]
        for name in ("leverage",) if command == "budget" else ("exposure", "relative_error"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-8, atol=1e-10)


def test_a_dataframe_from_python(parts, spark, tmp_path):
    frame = spark.read.parquet(str(tmp_path / "data")).filter("bmi < 50")
    there = parts.filter(pa.compute.less(parts["bmi"], 50))
    lazy, whole = (abo.Synthesizer().fit(each, drop="person") for each in (frame, there))
    np.testing.assert_allclose(lazy.posterior.scale, whole.posterior.scale, rtol=1e-10)
    np.testing.assert_allclose(lazy.posterior.mean, whole.posterior.mean, rtol=1e-12)


def test_a_folder_that_is_gone_is_one_line(parts, spark, tmp_path):
    frame = spark.read.parquet(str(tmp_path / "data"))
    for path in (tmp_path / "data").iterdir():
        path.unlink()
    with pytest.raises(abo.InputError, match="the engine could not answer") as caught:
        abo.Synthesizer().fit(frame, drop="person")
    assert "\n" not in str(caught.value)


def test_missing_java_is_named(parts, tmp_path):
    command = [sys.executable, "-m", "allbutone", "synthesize", "data/*.parquet", "--engine", "spark"]
    where = os.environ | {"JAVA_HOME": str(tmp_path / "nowhere")}
    done = subprocess.run(
        [*command, "--out", "release"], cwd=tmp_path, env=where, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    *_, last = done.stderr.strip().splitlines()
    assert last.startswith("Error: Spark could not start Java")
    assert "default-jre-headless" in last
    assert not (tmp_path / "release").exists()
