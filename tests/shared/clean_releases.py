"""A clean release of every kind, made once, and copies of them to plant dirt in."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import allbutone as abo
from allbutone.releases import description
from allbutone.releases.synthesizer import Synthesizer

N = 60
DECLARED = {"columns": {"age": {"decimals": 0, "low": 0.0, "high": 120.0}, "ldl": {"low": 0.0, "high": 15.0}}}
MIXED = ("mixed", "mixed-parquet", "mixed-both", "mixed-gaps")
KINDS = ("datasets", "parquet", "both", "parameters", *MIXED, "private", "parts")


def confidential():
    rng = np.random.default_rng(5)
    age = rng.normal(50, 10, N).round()
    ldl = (rng.normal(2.9, 0.9, N) + 0.01 * age).round(3)
    return pa.table(
        {"sex": ["f", "m", "m"] * (N // 3), "ward": ["north"] * 59 + ["attic"], "age": age, "ldl": ldl}
    )


@pytest.fixture(scope="session")
def releases(tmp_path_factory):
    """A clean release of every kind, and the table they were made from."""
    place, table = tmp_path_factory.mktemp("releases"), confidential()
    measured, mixed = table.select(["age", "ldl"]), table.select(["sex", "age", "ldl"])
    normal = abo.Synthesizer().fit(measured, schema=DECLARED)
    located = Synthesizer(keep="sex").fit(mixed, schema=DECLARED)
    holes = mixed.set_column(1, "age", pa.array([None, *mixed["age"].to_pylist()[1:]], pa.float64()))
    gappy = Synthesizer(missing="keep").fit(holes, schema=DECLARED)
    abo.save_release(normal.sample(datasets=2), place / "datasets")
    abo.save_release(normal.sample(datasets=2), place / "parquet", format="parquet")
    abo.save_release(normal.sample(datasets=2, parameters=True), place / "both")
    abo.save_release(normal.sample_parameters(2), place / "parameters")
    abo.save_release(located.sample(datasets=2), place / "mixed")
    abo.save_release(located.sample(datasets=2), place / "mixed-parquet", format="parquet")
    abo.save_release(located.sample(datasets=2, parameters=True), place / "mixed-both")
    abo.save_release(gappy.sample(datasets=2), place / "mixed-gaps")
    private = abo.Synthesizer(epsilon=3.0).fit(measured, schema=DECLARED)
    abo.save_release(private.sample(datasets=1), place / "private")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(description, "PART_ROWS", 40)
        patch.setattr("allbutone.releases.folder.rows_at_once", lambda p: 40)
        abo.save_release(normal.sample(datasets=1, rows=100), place / "parts", format="parquet")
    return place


@pytest.fixture
def planted(releases, tmp_path):
    """Return a copy of a clean release to plant something in."""

    def copy(kind):
        return Path(shutil.copytree(releases / kind, tmp_path / "release"))

    return copy


def found_in(release, *words, **how):
    """Check a release in which something is found that is told in these words."""
    check = abo.check(release, **how)
    assert not check.is_clean
    told = str(check)
    assert all(word in told for word in words), told
    assert all(each.cure for each in check.findings)
    return check


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
