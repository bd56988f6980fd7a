"""A clean release of every kind passes; every kind of dirt planted in one is found, with its cure."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import allbutone as abo
from allbutone.releases import dataset_files
from allbutone.releases.archive import zip_release
from allbutone.releases.hygiene.against_table import _equal_rows
from allbutone.releases.hygiene.check import require_clean
from allbutone.releases.hygiene.dataset_values import Values
from allbutone.releases.hygiene.table import table_of
from allbutone.releases.mixed.synthesizer import MixedSynthesizer
from allbutone.tables.safe_write import fresh_folder

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


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """A clean release of every kind, and the table they were made from."""
    place, table = tmp_path_factory.mktemp("releases"), confidential()
    measured, mixed = table.select(["age", "ldl"]), table.select(["sex", "age", "ldl"])
    normal = abo.NIWSynthesizer().fit(measured, schema=DECLARED)
    located = MixedSynthesizer(keep="sex").fit(mixed, schema=DECLARED)
    holes = mixed.set_column(1, "age", pa.array([None, *mixed["age"].to_pylist()[1:]], pa.float64()))
    gappy = MixedSynthesizer(missing="keep").fit(holes, schema=DECLARED)
    abo.save_release(normal.sample(datasets=2), place / "datasets")
    abo.save_release(normal.sample(datasets=2), place / "parquet", format="parquet")
    abo.save_release(normal.sample(datasets=2, parameters=True), place / "both")
    abo.save_release(normal.sample_parameters(2), place / "parameters")
    abo.save_release(located.sample(datasets=2), place / "mixed")
    abo.save_release(located.sample(datasets=2), place / "mixed-parquet", format="parquet")
    abo.save_release(located.sample(datasets=2, parameters=True), place / "mixed-both")
    abo.save_release(gappy.sample(datasets=2), place / "mixed-gaps")
    private = abo.PrivateSynthesizer(3.0).fit(measured, schema=DECLARED)
    abo.save_release(private.sample(datasets=1), place / "private")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset_files, "PART_ROWS", 40)
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
    check = abo.check_release(release, **how)
    assert not check.is_clean
    told = str(check)
    assert all(word in told for word in words), told
    assert all(each.cure for each in check.findings)
    return check


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_clean_release_of_every_kind_passes(releases, kind):
    table = confidential()
    for check in (abo.check_release(releases / kind), abo.check_release(releases / kind, table)):
        assert check.is_clean, check
    require_clean(releases / kind)
    assert len(list((releases / kind).glob("*.part-*"))) == (3 if kind == "parts" else 0)


@pytest.mark.parametrize("kind", ["datasets", "mixed", "parameters"])
def test_a_zip_file_tells_nothing_of_the_computer(releases, tmp_path, kind):
    packed = tmp_path / "release.zip"
    packed.write_bytes(zip_release(releases / kind))
    assert abo.check_release(packed, confidential()).is_clean
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
        abo.check_release(packed)


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


def rewritten(path, change):
    """Change a Parquet file's table and write it as another program would."""
    pyarrow.parquet.write_table(change(pyarrow.parquet.read_table(path)), path)


POCKETS = {
    "the pandas index": lambda table: table.replace_schema_metadata({"pandas": '{"index_columns": ["jo"]}'}),
    "custom metadata": lambda table: table.replace_schema_metadata({"origin": "/home/me"}),
    "metadata of a column": lambda table: table.cast(
        pa.schema([table.schema.field(0).with_metadata({"source": "ward 7"}), table.schema.field(1)])
    ),
    "another column": lambda table: table.append_column("weight", table.column(0)),
    "columns in another order": lambda table: table.select([1, 0]),
    "text": lambda table: table.set_column(0, "age", pa.array(["x"] * table.num_rows)),
    "sorted rows": lambda table: table.sort_by("ldl"),
    "values beyond the limits": lambda table: table.set_column(
        1, "ldl", pa.array(np.r_[-1.0, table["ldl"].to_numpy()[1:]])
    ),
    "more digits": lambda table: table.set_column(0, "age", pa.array(table["age"].to_numpy() + 0.001)),
    "gaps": lambda table: table.set_column(1, "ldl", pa.array([None, *table["ldl"].to_pylist()[1:]])),
}
WORDS = dict.fromkeys(POCKETS, "footer holds metadata") | {
    "another column": "not those of the release",
    "columns in another order": "not those of the release",
    "text": "no numbers",
    "sorted rows": "sorted by 'ldl'",
    "values beyond the limits": "beyond its declared limits",
    "more digits": "more digits than the 0 decimals",
    "gaps": "missing values",
}


@pytest.mark.parametrize("what", POCKETS)
def test_the_pockets_of_parquet(planted, what):
    folder = planted("parquet")
    rewritten(folder / "dataset-001.parquet", POCKETS[what])
    found_in(folder, WORDS[what])


def test_parquet_of_another_program_with_paths_or_bytes_between(planted):
    folder = planted("parquet")
    path = folder / "dataset-001.parquet"
    whole = path.read_bytes()
    name = pyarrow.parquet.read_metadata(path).created_by.encode()
    path.write_bytes(whole.replace(name, b"/home/me/a.py".ljust(len(name), b" ")))
    found_in(folder, "created it")
    # behind the first letters, and the pages where they were: offsets are of no avail to who looks at sizes
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(whole[:end] + b"hidden" + whole[end:])
    found_in(folder, "6 bytes that belong to none")
    with pytest.raises(abo.InputError, match="6 bytes"):
        require_clean(folder)
    path.write_bytes(b"PAR1 and no more")
    found_in(folder, "cannot be read")
    # of a column all of whose values come once the smallest is told in the footer alone
    low = float(
        pyarrow.parquet.ParquetFile(folder / "dataset-002.parquet").metadata.row_group(0).column(1).statistics.min
    )
    path.write_bytes((folder / "dataset-002.parquet").read_bytes())
    told, other = np.array([low]).tobytes(), np.array([low / 2]).tobytes()
    whole, end = path.read_bytes(), path.stat().st_size - 8
    foot = end - int.from_bytes(path.read_bytes()[-8:-4], "little")
    path.write_bytes(whole[:foot] + whole[foot:].replace(told, other))
    found_in(folder, "other smallest and largest values of 'ldl'")


TEXTS = {
    "a comment": lambda text: "# from ward 7\n" + text,
    "a mark at the start": lambda text: "\ufeff" + text,
    "a space": lambda text: text.replace("\n", " \n", 3),
    "another form of digits": lambda text: text.replace("\n", "\n0", 2).replace("\n0", "\n", 1),
    "another column": lambda text: text.replace("\n", ",1\n").replace(",1\n", ',"n"\n', 1),
    "a name of other letters": lambda text: text.replace("age", "AGE", 1),
    "an empty line": lambda text: text + "\n",
    "text": lambda text: text.replace("\n", "\nx", 2).replace("\nx", "\n", 1),
}


@pytest.mark.parametrize("what", TEXTS)
def test_text_that_says_more_than_its_values(planted, what):
    folder = planted("datasets")
    path = folder / "dataset-001.csv"
    path.write_text(TEXTS[what](path.read_text()))
    found_in(folder, "dataset-001.csv")


def test_levels_that_are_not_public_and_tables_that_are_not_described(planted):
    folder = planted("mixed")
    path = folder / "dataset-001.csv"
    path.write_text(path.read_text().replace('"m"', '"x"', 1))
    found_in(folder, "levels that release.json does not list")


def test_an_order_along_the_rows_is_found_and_chance_is_not(planted):
    folder = planted("datasets")
    path = folder / "dataset-001.csv"
    whole = pyarrow.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(column_types={"age": pa.float64()}))
    halves = whole.sort_by("age")
    pyarrow.csv.write_csv(pa.concat_tables([halves.slice(k, 1) for k in (*range(1, N, 2), *range(0, N, 2))]), path)
    found_in(folder, "'age' changes along the rows")


def carried(folder, change):
    """Write rows that come from the table into a dataset."""
    table = confidential()
    path = folder / "dataset-001.csv"
    how = pa.csv.ConvertOptions(column_types={"age": pa.float64()})
    synthetic = pyarrow.csv.read_csv(path, convert_options=how)
    pyarrow.csv.write_csv(change(table.select(["age", "ldl"]), synthetic), path)
    return table


CARRIED = {
    "one row": (
        lambda real, drawn: pa.concat_tables([real.slice(3, 1), drawn.slice(1)]),
        "1 of its rows are rows",
    ),
    "one value": (
        lambda real, drawn: drawn.set_column(1, "ldl", pa.array(np.r_[real["ldl"][9].as_py(), drawn["ldl"][1:]])),
        "1 value of 'ldl' stand in the table",
    ),
    "the order": (
        lambda real, drawn: drawn.take(np.argsort(drawn["ldl"])[np.argsort(np.argsort(real["ldl"]))]),
        "in the table's order: 'ldl'",
    ),
    "all rows in another order": (
        lambda real, drawn: real.take(np.random.default_rng(1).permutation(N)),
        "60 of its",
    ),
}


@pytest.mark.parametrize("what", CARRIED)
def test_rows_values_and_order_of_the_table_are_found(planted, what):
    change, words = CARRIED[what]
    folder = planted("datasets")
    table = carried(folder, change)
    found_in(folder, words, table=table)
    found_in(folder / "dataset-001.csv", words.split(":")[0].split(" stand")[0][2:], table=table)


def test_equal_rows_by_chance_are_none_of_the_tables():
    # whole numbers of two columns: of 400 rows many are equal to one of 400 others
    rng = np.random.default_rng(2)
    table = pa.table({"a": rng.normal(0, 3, 400).round(), "b": rng.normal(0, 3, 400).round()})
    declared = {"columns": {"a": {"decimals": 0}, "b": {"decimals": 0, "low": -2.0}}}
    columns = abo.Schema.of(declared).columns
    drawn = pa.table({"a": rng.normal(0, 3, 400).round(), "b": np.maximum(rng.normal(0, 3, 400).round(), -2)})
    real = table_of(table, columns, (), abo.Schema())
    assert _equal_rows(Values.of_frame(drawn, columns), real) == 0
    fine = abo.Schema.of({"columns": {name: {"decimals": 3} for name in "ab"}}).columns
    assert _equal_rows(Values.of_frame(table.slice(0, 5), fine), table_of(table, fine, (), abo.Schema())) == 5


def test_names_levels_limits_and_people_of_the_table(tmp_path):
    rng = np.random.default_rng(8)
    ldl = np.r_[0.1234, np.maximum(rng.normal(3, 1, N - 1), 0.2)].round(4)
    table = pa.table({"site": ["a", "b", "b"] * 19 + ["b", "b", "jo"], "ldl": ldl, "remark": ["Ldl"] * N})
    low = {"columns": {"ldl": {"low": float(ldl.min()), "centre": round(float(ldl.mean()), 7), "spread": 1.0}}}
    release = MixedSynthesizer().fit(table.select(["site", "ldl"]), schema=low).sample(datasets=1)
    abo.save_release(release, tmp_path / "jo")
    assert abo.check_release(tmp_path / "jo").is_clean
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
    assert "how many people" in found.notes[0]
    public = {"columns": {"site": {"kind": "category", "levels": ["a", "b", "jo"]}}}
    told = str(abo.check_release(tmp_path / "jo", table, schema=public))
    assert "only one person" not in told
    found_in(tmp_path / "jo", "as many rows as the table", table=table, people_confidential=True)


def test_the_number_of_people_by_other_ways(releases, tmp_path):
    found_in(releases / "private", "guarantee names", table=confidential(), people_confidential=True)
    levels = [str(place) for place in range(10)]
    table = pa.table({"a": levels * 4, "b": sorted(levels * 4), "x": np.random.default_rng(1).normal(size=40)})
    abo.save_release(MixedSynthesizer().fit(table).sample(datasets=1, rows=30), tmp_path / "r")
    found_in(tmp_path / "r", "cell_weight", table=table, people_confidential=True)


def test_what_was_written_is_looked_at_before_it_is_there(tmp_path, monkeypatch):
    """The writer's own fault: it lists what it has left in the folder as it should, and adds a seed."""
    release = abo.NIWSynthesizer().fit(confidential().select(["age", "ldl"])).sample(datasets=1)
    honest = dataset_files.write_datasets
    monkeypatch.setattr(
        "allbutone.releases.folder.write_datasets", lambda work, *given: honest(work, *given) | {"seed": 1}
    )
    with pytest.raises(abo.InputError, match="'seed'"):
        abo.save_release(release, tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_release(tmp_path):
    for name in ("nothing", "table.xlsx"):
        with pytest.raises(abo.InputError, match="is no release"):
            abo.check_release(tmp_path / name)
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
