"""The ledger's file: whole or not at all, one writer at a time, nothing in it that tells of the table."""

import os
import re
import subprocess
import sys

import pyarrow as pa
import pytest

import allbutone as abo
from allbutone.releases import ledger as ledger_room
from allbutone.releases.ledger import (
    Terms,
    declare_limit,
    digest_of_records,
    ledger_from,
    ledger_path,
    read_ledger,
    record_release,
    release_digest,
    void_release,
)

SALT = "00" * 16


@pytest.fixture
def released(table, tmp_path):
    """The table's records, the path of its ledger, and two releases in folders."""
    records = abo.Records.of(table)
    for name in ("one", "two"):
        release = abo.Synthesizer().fit(records).sample(datasets=2, rows=10)
        abo.save_release(release, tmp_path / name)
    return records, ledger_path(table), [tmp_path / "one", tmp_path / "two"]


def test_what_is_written_is_read_back(released):
    records, path, (one, two) = released
    assert read_ledger(path) is None
    promise = Terms(epsilon=1.5, delta=1e-6, rho=0.1, adjacency="replace one record", basis='"quoted"\n\x7f')
    record_release(path, records, one, guarantee=promise)
    record_release(path, records, two)
    void_release(path, 2, "drawn, never given out")
    ledger = declare_limit(path, Terms(epsilon=3.0))
    assert read_ledger(path) == ledger
    first, second = ledger.releases
    assert (first.number, second.number) == (1, 2)
    assert first.guarantee == promise
    assert first.what == "2 datasets of 10 rows"
    assert (first.place, first.people, first.columns, first.prior) == ("one", 30, ("bmi", "ldl"), "flat")
    assert ledger.counted == (first,)
    assert second.voided.reason == "drawn, never given out"
    assert ledger.limit == Terms(epsilon=3.0)


def test_a_release_is_recorded_once_and_found_at_its_new_place(released):
    records, path, (one, _two) = released
    record_release(path, records, one)
    moved = one.rename(one.with_name("moved"))
    assert record_release(path, records, moved).number == 1
    [entry] = read_ledger(path).releases
    assert entry.place == "moved"
    void_release(path, 1, "never given out")
    assert record_release(path, records, moved).number == 2, "given out after all: an entry of its own"


def test_nothing_in_it_tells_of_the_table(table, released):
    records, path, (one, _) = released
    record_release(path, records, one)
    text = path.read_text()
    values = {value for line in table.read_text().splitlines()[1:] for value in line.split(",")}
    assert not [value for value in values if value in text]


def test_the_digest_is_of_the_records_in_any_order_and_of_nothing_else(table, rng):
    records = abo.Records.of(table)
    digest = digest_of_records(records, SALT)
    assert digest_of_records(records.take(rng.permutation(30)), SALT) == digest
    assert digest_of_records(records.select(("ldl", "bmi")), SALT) == digest
    assert digest_of_records(records, "01" * 16) != digest
    for changed in (records.take(slice(29)), records.select(("bmi",)), records.take([*range(30), 0])):
        assert digest_of_records(changed, SALT) != digest
    values = records.values.copy()
    values[3, 1] += 0.001
    assert digest_of_records(abo.Records(values, records.columns), SALT) != digest
    # values that change places between columns are other records
    assert digest_of_records(abo.Records(records.values[:, ::-1], records.columns), SALT) != digest


def test_the_digest_is_the_same_on_another_scale_and_with_other_levels_declared(rng):
    table = {"x": rng.lognormal(size=40).round(4), "sex": rng.choice(["f", "m"], 40)}
    frame = pa.table(table)
    plain = abo.Records.of(frame, categories=True)
    levels = {"columns": {"x": {"scale": "log"}, "sex": {"kind": "category", "levels": ["x", "m", "f"]}}}
    other = abo.Records.of(frame, categories=True, schema=levels)
    assert digest_of_records(other, SALT) == digest_of_records(plain, SALT)


def test_two_at_once_are_both_recorded(released, tmp_path):
    records, path, _folders = released
    many = [tmp_path / f"r{number}" for number in range(6)]
    for folder in many:
        abo.save_release(abo.Synthesizer().fit(records).sample(rows=5), folder)
    write = (
        "import sys; from pathlib import Path; import allbutone as abo\n"
        "from allbutone.releases.ledger import ledger_path, record_release\n"
        "records = abo.Records.of(sys.argv[1])\n"
        "for folder in sys.argv[2:]: record_release(ledger_path(sys.argv[1]), records, Path(folder))\n"
    )
    table = tmp_path / "table.csv"
    runs = [
        subprocess.Popen([sys.executable, "-c", write, str(table), *map(str, many[start::2])]) for start in (0, 1)
    ]
    assert [run.wait() for run in runs] == [0, 0]
    ledger = read_ledger(path)
    assert [entry.number for entry in ledger.releases] == [1, 2, 3, 4, 5, 6]
    assert {entry.place for entry in ledger.releases} == {folder.name for folder in many}
    assert not list(tmp_path.glob(".*")), "neither a lock nor a part is left behind"


def test_a_ledger_cut_short_or_changed_by_hand_is_refused_in_one_line(released):
    records, path, (one, two) = released
    record_release(path, records, one)
    record_release(path, records, two)
    text = path.read_text()
    assert ledger_from(text, path).releases
    lines = text.splitlines(keepends=True)
    shorter = ["".join(lines[:count]) for count in range(len(lines))]
    # a release taken out, a column renamed, the first release counted for the table's second state
    changed = [text.replace("[[releases]]", "#", 1), text.replace("bmi", "BMI"), text.replace("= 1", "= 2", 1)]
    changed.append(re.sub(r"count = 2", "count = true", text))
    for broken in [*shorter, *changed, text[: len(text) // 2]]:
        with pytest.raises(abo.InputError) as error:
            ledger_from(broken, path)
        assert "\n" not in str(error.value)
        assert path.name in str(error.value)


def test_who_may_read_the_table_may_read_its_ledger(released, table):
    records, path, (one, two) = released
    table.chmod(0o640)
    record_release(path, records, one)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o600)
    record_release(path, records, two)
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_name_of_the_table_has_the_same_ledger(table, tmp_path):
    (tmp_path / "link.csv").symlink_to(table)
    assert ledger_path(tmp_path / "link.csv") == ledger_path(table)


def test_large_releases_are_recorded_by_their_description_and_digest(released):
    _records, _path, (one, _) = released
    before = release_digest(one)
    (one / "dataset-002.csv").write_text("bmi,ldl\n" + "0.5,0.5\n" * 10)
    assert release_digest(one) != before
    (one / "dataset-002.csv").unlink()
    with pytest.raises(abo.InputError, match="cannot read"):
        release_digest(one)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the root user may write anywhere")
def test_a_folder_that_cannot_be_written_is_said_before_anything_is_drawn(released, tmp_path):
    records, path, (one, _) = released
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(abo.InputError, match="cannot be recorded"):
            record_release(path, records, one)
    finally:
        tmp_path.chmod(0o700)


def test_voiding_asks_for_a_reason_and_for_an_entry(released):
    records, path, (one, _) = released
    with pytest.raises(abo.InputError, match="no ledger"):
        void_release(path, 1, "never given out")
    record_release(path, records, one)
    for number, reason in ((2, "never given out"), (1, " ")):
        with pytest.raises(abo.InputError):
            void_release(path, number, reason)
    void_release(path, 1, "never given out")
    with pytest.raises(abo.InputError, match="already"):
        void_release(path, 1, "never given out")
    assert not read_ledger(path).counted


def test_a_ledger_is_parsed_once_as_long_as_its_text_is_the_same(released, monkeypatch):
    records, path, (one, two) = released
    record_release(path, records, one)
    parsed, parse = [], ledger_room.parse
    monkeypatch.setattr(ledger_room, "parse", lambda *how: parsed.append(how) or parse(*how))
    first = read_ledger(path)
    assert [read_ledger(path) for _ in range(3)] == [first] * 3
    assert len(parsed) == 1
    record_release(path, records, two)
    assert len(read_ledger(path).releases) == 2
