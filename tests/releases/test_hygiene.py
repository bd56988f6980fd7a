"""A clean release of every kind passes; every kind of dirt planted in one is found, with its cure."""

import json
import os
import shutil
import zipfile
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import allbutone as abo
from allbutone.releases import description
from allbutone.releases.check import require_clean
from allbutone.releases.check_files import form_findings, zip_release
from allbutone.releases.synthesizer import Synthesizer
from allbutone.tables.column import Column
from allbutone.tables.safe_io import fresh_folder
from clean_releases import KINDS, N, confidential, edit, found_in


@pytest.mark.parametrize("kind", KINDS)
def test_a_clean_release_of_every_kind_passes(releases, kind):
    table = confidential()
    for check in (abo.check(releases / kind), abo.check(releases / kind, table)):
        assert check.is_clean, check
    require_clean(releases / kind)
    assert len(list((releases / kind).glob("*.part-*"))) == (3 if kind == "parts" else 0)


@pytest.mark.parametrize("kind", ["datasets", "mixed", "parameters"])
def test_a_zip_file_tells_nothing_of_the_computer(releases, tmp_path, kind):
    packed = tmp_path / "release.zip"
    packed.write_bytes(zip_release(releases / kind))
    assert abo.check(packed, confidential()).is_clean
    with zipfile.ZipFile(packed, "a") as archive:
        archive.comment = b"for the board"
    found_in(packed, "comment")
    with zipfile.ZipFile(packed, "w") as archive:
        for path in (releases / kind).iterdir():
            archive.write(path, path.name)
    found_in(packed, "when each file was written")
    with zipfile.ZipFile(packed, "w") as archive:
        for path in (releases / kind).iterdir():
            archive.write(path, f"ward/{path.name}")
    found_in(packed, "holds folders")
    packed.write_bytes(b"hidden" + zip_release(releases / kind))
    found_in(packed, "belong to none of its files")
    packed.write_bytes(b"PK no zip")
    with pytest.raises(abo.InputError, match="not a zip file"):
        abo.check(packed)


FILES = {
    "a ledger": ("t.csv.ledger.toml", "the ledger"),
    "a hidden file": (".DS_Store", "hidden"),
    "a report": ("report.html", "describes individual records"),
    "the risk": ("risk.csv", "does not list"),
    "a synthesizer": ("fitted.json", "statistics of the table"),
    "a pickle": ("model.pkl", "run a program"),
    "anything": ("notes", "nobody has said"),
}


@pytest.mark.parametrize("what", FILES)
def test_files_that_do_not_belong_there(planted, what):
    name, words = FILES[what]
    folder = planted("datasets")
    (folder / name).write_text("{}")
    found_in(folder, name, words, "move it out")
    with pytest.raises(abo.InputError, match="no part of the release"):
        require_clean(folder)


def test_links_folders_attributes_and_what_is_missing(planted, tmp_path):
    folder = planted("datasets")
    (folder / "link").symlink_to(tmp_path)
    (folder / "more").mkdir()
    (folder / "dataset-002.csv").unlink()
    found_in(folder, "leads elsewhere", "is a folder", "dataset-002.csv, which is not there")
    try:
        os.setxattr(folder / "dataset-001.csv", "user.origin", b"/home/me")
    except OSError:
        return  # this file system keeps none
    found_in(folder, "user.origin")
    found_in(folder / "dataset-001.csv", "user.origin")


ENTRIES = {
    "a repeat key": ("repeat_key", "00ff", "drawn again"),
    "a seed": ("seed", 1, "drawn again"),
    "the posterior": ("posterior", {"mean": [1.0]}, "statistic of the data"),
    "a path": ("path", "/home/me/t.csv", "who made the release"),
    "anything": ("remark", "hello", "nothing that a release's description holds"),
}


@pytest.mark.parametrize("what", ENTRIES)
@pytest.mark.parametrize("kind", ["datasets", "mixed", "private"])
def test_entries_of_the_description_that_do_not_belong_there(planted, kind, what):
    name, value, words = ENTRIES[what]
    folder = planted(kind)
    edit(folder / "release.json", lambda content: content.update({name: value}))
    found_in(folder, repr(name), words)
    with pytest.raises(abo.InputError, match="it has an entry"):
        require_clean(folder)


INSIDE = {
    "in the prior": ("datasets", lambda content: content["prior"].update(people=60), "unknown entry 'people'"),
    "in what is declared": ("datasets", lambda content: content["declared"]["age"].update(n=60), "declared|entry"),
    "in the guarantee": ("private", lambda content: content["guarantee"].update(seed=1), "'guarantee'"),
    "in its words": ("mixed", lambda content: content.update(mechanism="ask Jo"), "'mechanism'"),
    "in its author": ("mixed", lambda content: content.update(made_by="allbutone 0.2 for Jo"), "which version"),
    "in its sizes": ("datasets", lambda content: content.update(rows=[60.5, 59.5]), "whole numbers"),
    "of another kind": ("datasets", lambda content: content.update(release="both"), "'release'"),
    "that names data": ("datasets", lambda content: content.update(columns=["71", "ldl"]), "reads as a value"),
    "of no release": ("datasets", lambda content: content.pop("prior"), "not the description of a release"),
    "of no files": ("datasets", lambda content: content.pop("files"), "not the description of a release"),
    "of too few rows": ("datasets", lambda content: content.update(rows=[60, 59]), "announces 119 rows"),
    "of files elsewhere": ("datasets", lambda content: content.update(files=["../t.csv"]), "does not give"),
}


@pytest.mark.parametrize("what", INSIDE)
def test_what_stands_within_the_entries(planted, what):
    kind, change, words = INSIDE[what]
    folder = planted(kind)
    edit(folder / "release.json", change)
    told = str(found_in(folder))
    assert any(each in told for each in words.split("|")), told


def test_a_description_that_says_things_twice_or_is_not_there(planted):
    folder = planted("datasets")
    text = (folder / "release.json").read_text()
    (folder / "release.json").write_text(text.replace('"release":', '"seed": 1,\n  "seed": 2,\n  "release":', 1))
    found_in(folder, "'seed'", "given twice")
    (folder / "release.json").write_text(text.replace('"release": ', '"release":  ', 1))
    found_in(folder, "not written as allbutone writes it")
    (folder / "release.json").unlink()
    found_in(folder, "not there")


@pytest.mark.parametrize("kind", ["both", "parameters", "mixed-both"])
def test_parameters_with_more_than_draws(planted, kind):
    folder = planted(kind)
    path = folder / "parameters.json"
    text = path.read_text()
    path.write_text(text.replace('"columns"', '"seed": 1, "columns"', 1))
    found_in(folder, "more than draws")
    path.write_text(text.rstrip()[:-1] + ', "posterior": [1.0]}\n')
    found_in(folder, "more than draws")
    path.write_text("{}")
    found_in(folder, "does not hold the draws")


def test_a_statistic_instead_of_a_draw(planted):
    folder, table = planted("parameters"), confidential()
    values = np.column_stack([table["age"], table["ldl"]])
    text = (folder / "parameters.json").read_text()
    draw = json.loads(text)["draws"][0]["mean"]
    (folder / "parameters.json").write_text(
        text.replace(json.dumps(draw), json.dumps(values.mean(axis=0).tolist()))
    )
    found_in(folder, "table's own mean or covariance", table=table)


def test_names_levels_limits_and_people_of_the_table(tmp_path):
    rng = np.random.default_rng(8)
    ldl = np.r_[0.1234, np.maximum(rng.normal(3, 1, N - 1), 0.2)].round(4)
    table = pa.table({"site": ["a", "b", "b"] * 19 + ["b", "b", "jo"], "ldl": ldl, "remark": ["Ldl"] * N})
    low = {"columns": {"ldl": {"low": float(ldl.min()), "centre": round(float(ldl.mean()), 7), "spread": 1.0}}}
    release = Synthesizer().fit(table.select(["site", "ldl"]), schema=low).sample(datasets=1)
    abo.save_release(release, tmp_path / "jo")
    assert abo.check(tmp_path / "jo").is_clean
    found = found_in(
        tmp_path / "jo",
        "folder's name 'jo' is a value",
        "column name 'ldl' is a value",
        "only one person has the level 'jo'",
        "is the value of a person",
        "the centre declared of 'ldl' is the table's",
        "the prior's mean is the table's",
        table=table,
    )
    assert any("how many people" in note for note in found.notes)
    public = {"columns": {"site": {"kind": "category", "levels": ["a", "b", "jo"]}}}
    told = str(abo.check(tmp_path / "jo", table, schema=public))
    assert "only one person" not in told
    found_in(tmp_path / "jo", "as many rows as the table", table=table, people_confidential=True)


def test_the_number_of_people_by_other_ways(releases, tmp_path):
    found_in(releases / "private", "guarantee names", table=confidential(), people_confidential=True)
    levels = [str(place) for place in range(10)]
    table = pa.table({"a": levels * 4, "b": sorted(levels * 4), "x": np.random.default_rng(1).normal(size=40)})
    # a twentieth of the people over a hundred cells, the default of version 0.2.0; today's tells nothing
    old = Synthesizer(cell_weight=0.05 * 40 / 100).fit(table)
    abo.save_release(old.sample(datasets=1, rows=30), tmp_path / "old")
    found_in(tmp_path / "old", "cell_weight", table=table, people_confidential=True)
    abo.save_release(Synthesizer().fit(table).sample(datasets=1, rows=30), tmp_path / "r")
    assert "cell_weight" not in str(abo.check(tmp_path / "r", table, people_confidential=True))


def test_what_was_written_is_looked_at_before_it_is_there(tmp_path, monkeypatch):
    """The writer's own fault: it lists what it has left in the folder as it should, and adds a seed."""
    release = abo.Synthesizer().fit(confidential().select(["age", "ldl"])).sample(datasets=1)
    honest = description.write_datasets
    monkeypatch.setattr(
        "allbutone.releases.folder.write_datasets", lambda work, *given: honest(work, *given) | {"seed": 1}
    )
    with pytest.raises(abo.InputError, match="'seed'"):
        abo.save_release(release, tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_release(tmp_path):
    for name in ("nothing", "table.xlsx"):
        with pytest.raises(abo.InputError, match="is no release"):
            abo.check(tmp_path / name)
    with fresh_folder(tmp_path / "empty", ours=lambda folder: False) as work:
        (work / "dataset-001.csv").write_text("a\n1\n")
    found_in(tmp_path / "empty", "release.json: it is not there")


def test_the_command(allbutone, releases, tmp_path):
    table = tmp_path / "t.csv"
    pyarrow.csv.write_csv(confidential(), table)
    shutil.copytree(releases / "datasets", tmp_path / "r")
    code, out, err = allbutone("check", "r", "--table", table)
    assert code == 0
    assert "Clean" in out
    assert "check r --zip r.zip" in out
    assert "how many people" in err
    assert allbutone("check", "r", "--zip", "r.zip")[0] == 0
    assert allbutone("check", "r.zip", "--table", table)[0] == 0
    (tmp_path / "r" / ".notes").touch()
    code, out, _ = allbutone("check", "r", "--zip", "again.zip")
    assert code == 1
    assert "What to do: move it out" in out
    assert not (tmp_path / "again.zip").exists()


REFUSED = {
    "a table's options without it": (["--people-confidential"], "go with --table"),
    "a zip file of another name": (["--zip", "r.txt"], "names a .zip file"),
    "a zip file within": (["--zip", "r/r.zip"], "lies in the release"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_command_refuses(allbutone, releases, tmp_path, what):
    shutil.copytree(releases / "datasets", tmp_path / "r")
    options, words = REFUSED[what]
    code, _, err = allbutone("check", "r", *options)
    assert code == 2
    assert words in err


def test_records_serve_as_the_table(releases, tmp_path):
    records = abo.Records.of(confidential().select(["age", "ldl"]))
    assert abo.check(releases / "datasets", records).is_clean
    carried = tmp_path / "dataset-001.csv"
    pa.csv.write_csv(confidential().select(["age", "ldl"]), carried)
    found = abo.check(carried, records)
    assert not found.is_clean
    assert found.findings == abo.check(carried, records.to_frame()).findings


def test_records_whose_values_are_rounded_do_not(releases):
    declared = {"columns": {"age": {"scale": "log"}}}
    rounded = abo.Records.of(confidential().select(["age", "ldl"]), schema=declared)
    with pytest.raises(abo.InputError, match="age on the scale of the model"):
        abo.check(releases / "datasets", rounded)


@pytest.mark.parametrize("name", ["..", "a/..", "x" * 300, "é" * 200])
def test_an_archive_with_names_that_no_file_can_have(releases, tmp_path, name):
    packed = tmp_path / "release.zip"
    packed.write_bytes(zip_release(releases / "datasets"))
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr(name, "x")
    before = sorted(tmp_path.parent.iterdir())
    with suppress(abo.InputError):
        assert not abo.check(packed).is_clean
    assert sorted(tmp_path.parent.iterdir()) == before


def test_an_archive_damaged_at_any_place_is_refused_or_found(releases, tmp_path):
    packed, whole = tmp_path / "release.zip", zip_release(releases / "datasets")
    for place in range(0, len(whole), 53):
        packed.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with suppress(abo.InputError):
            abo.check(packed)  # any other error fails


@pytest.mark.parametrize("flip", [1, 128])
def test_a_parquet_file_with_a_damaged_footer_is_found_or_read(releases, tmp_path, flip):
    """Asked for a part of some such footers, Arrow ends the process; names in others are no text."""
    path, whole = tmp_path / "dataset-001.parquet", (releases / "parquet" / "dataset-001.parquet").read_bytes()
    columns = [Column("age"), Column("ldl")]
    length = int.from_bytes(whole[-8:-4], "little")
    damaged = 0
    for place in range(len(whole) - 8 - length, len(whole) - 8):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
        damaged += bool(list(form_findings(path, columns)))
    assert damaged > length / 4
