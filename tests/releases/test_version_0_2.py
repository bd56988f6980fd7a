"""What version 0.2 wrote loads as it is: release folders of every kind, and fitted synthesizers."""

import json
from pathlib import Path

import numpy as np
import pytest

import allbutone as abo

HERE = Path(__file__).parent / "of_version_0_2"
KEY = "9f2c4be07a61d835c9104e6fa2b7d385"
FOLDERS = sorted(path.name for path in HERE.iterdir() if path.is_dir())
DRAWN = {  # from which synthesizer, and how, each folder was drawn
    "datasets": ("measurements", {"datasets": 2, "rows": [5, 7]}),
    "parquet": ("measurements", {"datasets": 2, "rows": 6}),
    "both": ("measurements", {"datasets": 2, "rows": 5, "parameters": True}),
    "parameters": ("measurements", 2),
    "undeclared": ("undeclared", {"datasets": 2, "rows": 4}),
    "categories": ("categories", {"datasets": 2, "rows": 6}),
    "categories-both": ("categories", {"datasets": 2, "rows": 6, "parameters": True}),
    "categories-parameters": ("categories", 2),
    "kept": ("kept", {"datasets": 1}),
    "gaps": ("gaps", {"datasets": 1, "rows": 12}),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_loads_is_clean_and_is_written_as_it_was(name, tmp_path):
    release = abo.load_release(HERE / name)
    assert not abo.check(HERE / name).findings
    files = {path.name for path in (HERE / name).iterdir()}
    abo.save_release(release, tmp_path / "r", format="parquet" if name == "parquet" else "csv")
    assert files == {path.name for path in (tmp_path / "r").iterdir()}
    ours, theirs = (json.loads((folder / "release.json").read_text()) for folder in (tmp_path / "r", HERE / name))
    assert ours == theirs
    for each in (each for each in files if each.endswith((".csv", "parameters.json"))):
        assert (tmp_path / "r" / each).read_bytes() == (HERE / name / each).read_bytes()


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_a_saved_synthesizer_draws_by_its_repeat_key_what_it_drew(name, tmp_path):
    source, asked = DRAWN[name]
    synthesizer = abo.Synthesizer.load(HERE / f"{source}.json")
    synthesizer.save(tmp_path / "again.json")
    for each in (synthesizer, abo.Synthesizer.load(tmp_path / "again.json")):
        if isinstance(asked, int):
            drawn = each.sample_parameters(asked, repeat_key=KEY)
        else:
            drawn = each.sample(**asked, repeat_key=KEY)
        same(drawn, abo.load_release(HERE / name))


def same(drawn, read):
    assert drawn.rows == read.rows
    assert (drawn.count, drawn.noun, drawn.order) == (read.count, read.noun, read.order)
    for ours, theirs in zip(drawn.tables, read.tables, strict=True):
        np.testing.assert_allclose(ours.natural, theirs.natural, rtol=1e-12)
        np.testing.assert_array_equal(ours.categories.codes, theirs.categories.codes)
    if drawn.parameters is not None:
        for name, values in vars(drawn.parameters).items():
            np.testing.assert_allclose(values, getattr(read.parameters, name), rtol=1e-12)
