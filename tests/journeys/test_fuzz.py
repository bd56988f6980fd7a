"""Spoiled inputs end in a result or in words; the long run is `make fuzz`. And each fault that it has found."""

import json
import os
import random
import shutil
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fuzz.mutate import _spoil_json, one_of
from fuzz.seeds import write_seeds
from fuzz.targets import all_targets
from fuzz.watch import Tally, attempt
from hypothesis import given, settings
from hypothesis import strategies as st

import allbutone as abo
from allbutone.model.sites import SiteMoments

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))
SLOW = {"command line": 3, "app address": 4, "app upload": 4}
NAMES = (
    "table (CSV)", "table (Parquet)", "table file", "prior file", "design file", "study journal", "ledger",
    "moments", "release: description", "release: parameters", "release: dataset", "release: Parquet dataset",
    "release: mixed", "release: archive", "check beside table", "audit", *SLOW,
)  # fmt: skip
PATIENCE = 300.0  # seconds: how fast this machine is, is not what is tested here


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    write_seeds(folder)
    return folder


@pytest.fixture(scope="module")
def targets(valid):
    return {target.name: target for target in all_targets(valid)}


def test_every_target_is_tried(targets):
    assert set(NAMES) == set(targets)


@pytest.mark.parametrize("name", NAMES)
def test_spoiled_inputs_end_in_a_result_or_in_words(targets, name):
    target = targets[name]

    @settings(max_examples=(20 if LONG else 1) * SLOW.get(name, 40))
    @given(st.integers(0, 2**64 - 1))
    def spoiled(seed):
        tally = Tally(name)
        attempt(target, one_of(target.seeds, target.kind, random.Random(seed)), tally, PATIENCE)
        assert not tally.faults, tally.faults

    spoiled()


def test_valid_inputs_come_to_a_result(targets):
    for name in sorted(set(NAMES) - set(SLOW)):
        tally = Tally(name)
        for seed in targets[name].seeds:
            attempt(targets[name], seed, tally, PATIENCE)
        assert tally.results
        assert not tally.faults, tally.faults


def edited(path, **entries):
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | entries))


def test_numbers_too_large_for_float64_are_no_moments(valid, tmp_path):
    path = tmp_path / "site.json"
    path.write_bytes((valid / "site.json").read_bytes())
    edited(path, mean=[10**400, 0, 0])
    with pytest.raises(abo.InputError, match="not a file of moments"):
        SiteMoments.load(path)


@pytest.mark.parametrize("rows", [None, 5, [None], [[5]], ["5"], [True], {"a": 1}])
def test_a_description_whose_rows_are_no_numbers(valid, tmp_path, rows):
    folder = copied(valid / "datasets", tmp_path)
    edited(folder / "release.json", rows=rows)
    assert not abo.check(folder).is_clean


def test_parameters_too_large_for_float64(valid, tmp_path):
    folder = copied(valid / "both", tmp_path)
    content = json.loads((folder / "parameters.json").read_text())
    content["draws"][0]["mean"][0] = 10**400
    (folder / "parameters.json").write_text(json.dumps(content))
    assert not abo.check(folder).is_clean


def test_a_dataset_whose_names_are_not_utf8(valid, tmp_path):
    folder = copied(valid / "datasets", tmp_path)
    path = folder / "dataset-001.csv"
    path.write_bytes(b"\xff" + path.read_bytes())
    assert not abo.check(folder).is_clean


@pytest.mark.parametrize("columns", [[1, 2, 3], ["bmi", None, "age"], [["bmi"], "ldl", "age"], "bmi", 3])
def test_a_description_whose_columns_are_no_names(valid, tmp_path, columns):
    folder = copied(valid / "datasets", tmp_path)
    edited(folder / "release.json", columns=columns)
    assert not abo.check(folder).is_clean
    with pytest.raises(abo.InputError):
        abo.load_release(folder)


def test_a_mixed_release_that_announces_parameters_which_are_not_there(valid, tmp_path):
    folder = copied(valid / "mixed", tmp_path)
    edited(folder / "release.json", release="both")
    with pytest.raises(abo.InputError, match=r"parameters\.json"):
        abo.load_release(folder)


def test_a_ledger_of_infinitely_many(valid, tmp_path):
    path = tmp_path / "table.csv.ledger.toml"
    path.write_text((valid / "table.csv.ledger.toml").read_text().replace("count = 2", "count = inf"))
    with pytest.raises(abo.InputError, match="changed by hand"):
        abo.Ledger.at(path)


def test_a_workbook_that_unpacks_to_a_thousand_times_its_size_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("xl/workbook.xml", b" " * 60_000_000)
    with pytest.raises(abo.InputError, match="times its own size"):
        abo.Records.of(path)


def test_a_table_with_a_repeated_name_is_refused_in_words(tmp_path):
    frame = pd.DataFrame(np.eye(9)[:, :3], columns=["a", "a", "b"])
    for read in (abo.Records.of, abo.Synthesizer().fit):
        with pytest.raises(abo.InputError, match="appears 2 times"):
            read(frame)


def test_a_limit_too_large_for_float64():
    with pytest.raises(abo.InputError, match="larger than any number"):
        abo.Schema.of({"columns": {"a": {"low": 10**400}}})


def test_indices_beyond_a_dictionary(tmp_path):
    levels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 7] * 4), pa.array(["f", "m"]), safe=False)
    table = pa.table({"bmi": np.arange(12.0) ** 1.5, "sex": levels})
    with pytest.raises(abo.InputError, match="levels that its file does not hold"):
        abo.Records.of(table, categories=True)


def test_rows_without_spread_are_audited_in_words(rng):
    values = rng.standard_normal((30, 2))
    with pytest.raises(abo.InputError, match="vary too little"):
        abo.audit(values, np.ones((50, 2)), "plug-in")


def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / folder.name)


@pytest.mark.parametrize(
    "data", [b"[" * 900 + b"1" + b"]" * 900, json.dumps([10**400]).encode()], ids=["deep", "huge"]
)
def test_what_no_json_can_hold_is_spoiled_as_bytes(data):
    assert all(isinstance(_spoil_json(data, random.Random(seed)), bytes) for seed in range(50))
