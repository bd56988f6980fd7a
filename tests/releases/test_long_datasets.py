"""Datasets of any length: several Parquet files, read back as one, by us and by any engine."""

import json

import numpy as np
import polars as pl
import pytest

import allbutone as abo
from allbutone.releases import description
from allbutone.releases.folder import is_release
from allbutone.support.errors import InputError


@pytest.fixture
def short_parts(monkeypatch):
    """Parts of so few rows that a small dataset has several."""
    monkeypatch.setattr(description, "PART_ROWS", 100_000)


def test_a_long_dataset_has_several_parts(short_parts, allbutone, rng, tmp_path):
    pl.DataFrame({"a": rng.normal(size=50), "b": rng.normal(size=50)}).write_parquet(tmp_path / "t.parquet")
    key = ("--repeat-key", "4f1c9ab27de0835562b9e0d7c1a8f364", "--no-ledger")
    asked = ("synthesize", "t.parquet", "--rows", 350_000, "--datasets", 2, *key)
    assert allbutone(*asked, "--format", "parquet", "--out", "long")[0] == 0
    assert allbutone(*asked, "--format", "csv", "--out", "plain")[0] == 0
    told = json.loads((tmp_path / "long" / "release.json").read_text())
    assert told["parts"][0] > 2
    assert sum(told["parts"]) == len(told["files"]) == len(list((tmp_path / "long").glob("*.parquet")))
    assert is_release(tmp_path / "long")
    long, plain = (abo.load_release(tmp_path / name) for name in ("long", "plain"))
    assert long.rows == (350_000, 350_000)
    for ours, theirs in zip(long.values, plain.values, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    first = pl.scan_parquet(tmp_path / "long" / "dataset-001.part-*.parquet").collect()
    np.testing.assert_array_equal(first.to_numpy(), long.values[0])


def test_parts_that_do_not_match_are_refused(short_parts, rng, tmp_path):
    records = rng.normal(size=(50, 2))
    release = abo.Synthesizer().fit(records).sample(datasets=1, rows=250_000)
    abo.save_release(release, tmp_path / "long", format="parquet")
    told = json.loads((tmp_path / "long" / "release.json").read_text())
    for parts in ([1], [0, 3], [3, 1]):
        (tmp_path / "long" / "release.json").write_text(json.dumps(told | {"parts": parts}))
        with pytest.raises(InputError):
            abo.load_release(tmp_path / "long")
