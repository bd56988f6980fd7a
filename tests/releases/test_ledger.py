"""The ledger's file: whole or not at all, one writer at a time, nothing in it that tells of the table."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import allbutone as abo
from allbutone.releases import ledger_file
from allbutone.releases.ledger_file import Terms, digest_of_records, digest_of_release, ledger_content, ledger_text

SALT = "00" * 16


@pytest.fixture
def released(table, tmp_path):
    """The table's records, the path of its ledger, and two releases in folders."""
    records = abo.Records.of(table)
    for name in ("one", "two"):
        release = abo.Synthesizer().fit(records).sample(datasets=2, rows=10)
        abo.save_release(release, tmp_path / name)
    return records, abo.Ledger.place_of(table), [tmp_path / "one", tmp_path / "two"]


def test_what_is_written_is_read_back(released):
    records, path, (one, two) = released
    assert not abo.Ledger.at(path).is_there
    promise = Terms(epsilon=1.5, delta=1e-6, rho=0.1, adjacency="replace one record", basis='"quoted"\n\x7f')
    abo.Ledger.at(path).record(records, one, guarantee=promise)
    abo.Ledger.at(path).record(records, two)
    abo.Ledger.at(path).void(2, "drawn, never given out")
    ledger = abo.Ledger.at(path).declare_limit(Terms(epsilon=3.0))
    assert abo.Ledger.at(path) == ledger
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
    abo.Ledger.at(path).record(records, one)
    moved = one.rename(one.with_name("moved"))
    [entry] = abo.Ledger.at(path).record(records, moved).releases
    assert entry.place == "moved"
    abo.Ledger.at(path).void(1, "never given out")
    ledger = abo.Ledger.at(path).record(records, moved)
    assert ledger.entry_of(moved).number == 2, "given out after all: an entry of its own"


def test_nothing_in_it_tells_of_the_table(table, released):
    records, path, (one, _) = released
    abo.Ledger.at(path).record(records, one)
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
        "import sys; import allbutone as abo\n"
        "records = abo.Records.of(sys.argv[1])\n"
        "for folder in sys.argv[2:]: abo.Ledger.of(sys.argv[1]).record(records, folder)\n"
    )
    table = tmp_path / "table.csv"
    runs = [
        subprocess.Popen([sys.executable, "-c", write, str(table), *map(str, many[start::2])]) for start in (0, 1)
    ]
    assert [run.wait() for run in runs] == [0, 0]
    ledger = abo.Ledger.at(path)
    assert [entry.number for entry in ledger.releases] == [1, 2, 3, 4, 5, 6]
    assert {entry.place for entry in ledger.releases} == {folder.name for folder in many}
    assert not list(tmp_path.glob(".*")), "neither a lock nor a part is left behind"


def test_a_ledger_cut_short_or_changed_by_hand_is_refused_in_one_line(released):
    records, path, (one, two) = released
    abo.Ledger.at(path).record(records, one)
    abo.Ledger.at(path).record(records, two)
    text = path.read_text()
    assert ledger_content(text, str(path))
    lines = text.splitlines(keepends=True)
    shorter = ["".join(lines[:count]) for count in range(len(lines))]
    # a release taken out, a column renamed, the first release counted for the table's second state
    changed = [text.replace("[[releases]]", "#", 1), text.replace("bmi", "BMI"), text.replace("= 1", "= 2", 1)]
    changed.append(re.sub(r"count = 2", "count = true", text))
    for broken in [*shorter, *changed, text[: len(text) // 2]]:
        with pytest.raises(abo.InputError) as error:
            ledger_content(broken, str(path))
        assert "\n" not in str(error.value)
        assert path.name in str(error.value)


def test_who_may_read_the_table_may_read_its_ledger(released, table):
    records, path, (one, two) = released
    table.chmod(0o640)
    abo.Ledger.at(path).record(records, one)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o600)
    abo.Ledger.at(path).record(records, two)
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_name_of_the_table_has_the_same_ledger(table, tmp_path):
    (tmp_path / "link.csv").symlink_to(table)
    assert abo.Ledger.place_of(tmp_path / "link.csv") == abo.Ledger.place_of(table)


def test_large_releases_are_recorded_by_their_description_and_digest(released):
    _records, _path, (one, _) = released
    before = digest_of_release(one)
    (one / "dataset-002.csv").write_text("bmi,ldl\n" + "0.5,0.5\n" * 10)
    assert digest_of_release(one) != before
    (one / "dataset-002.csv").unlink()
    with pytest.raises(abo.InputError, match="cannot read"):
        digest_of_release(one)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the root user may write anywhere")
def test_a_folder_that_cannot_be_written_is_said_before_anything_is_drawn(released, tmp_path):
    records, path, (one, _) = released
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(abo.InputError, match="cannot be recorded"):
            abo.Ledger.at(path).record(records, one)
    finally:
        tmp_path.chmod(0o700)


def test_voiding_asks_for_a_reason_and_for_an_entry(released):
    records, path, (one, _) = released
    with pytest.raises(abo.InputError, match="no ledger"):
        abo.Ledger.at(path).void(1, "never given out")
    abo.Ledger.at(path).record(records, one)
    for number, reason in ((2, "never given out"), (1, " ")):
        with pytest.raises(abo.InputError):
            abo.Ledger.at(path).void(number, reason)
    abo.Ledger.at(path).void(1, "never given out")
    with pytest.raises(abo.InputError, match="already"):
        abo.Ledger.at(path).void(1, "never given out")
    assert not abo.Ledger.at(path).counted


def test_a_ledger_is_parsed_once_as_long_as_its_text_is_the_same(released, monkeypatch):
    records, path, (one, two) = released
    abo.Ledger.at(path).record(records, one)
    parsed, parse = [], ledger_file.parse
    monkeypatch.setattr(ledger_file, "parse", lambda *how: parsed.append(how) or parse(*how))
    first = abo.Ledger.at(path)
    assert [abo.Ledger.at(path) for _ in range(3)] == [first] * 3
    assert len(parsed) == 1
    abo.Ledger.at(path).record(records, two)
    assert len(abo.Ledger.at(path).releases) == 2


def test_a_ledger_of_0_2_is_read_and_written_again_as_it_is():
    text = (Path(__file__).parent / "of_version_0_2/table.csv.ledger.toml").read_text()
    salt, limit, (first, second) = ledger_content(text, "ledger")
    assert limit == Terms(epsilon=3.0, delta=1e-6)
    assert (first.table_file, first.guarantee.rho, first.counts) == ("t.toml", 0.1, True)
    assert second.voided.reason == "drawn, never given out"
    assert ledger_text(salt, limit, (first, second)) == text


def test_what_was_judged_and_not_given_out_is_an_attempt(released):
    """Only both together: what was voided unread chose nothing, and what counts is judged with what follows."""
    records, path, (one, two) = released
    ledger = abo.Ledger.at(path).record(records, one).record(records, two)
    release = abo.load_release(two)
    assert not ledger.together(records, release, [two]).attempts
    assert not ledger.judge([one], passed=False).together(records, release, [two]).attempts
    ledger = abo.Ledger.at(path).void(1, "drawn, never given out")
    assert ledger == abo.Ledger.at(path)
    first = ledger.releases[0]
    assert not first.judged.passed
    together = ledger.together(records, release, [two])
    assert together.attempts == (first,)
    assert together.selection.startswith("This is attempt 2: 1 release of the table was drawn before it, judged, ")
    assert not ledger.attempts_before([one]), "the first one itself is the first attempt"
    assert ledger.judge([one], passed=True) == ledger, "the first verdict stays"
    unread = ledger.void(2, "of the wrong size")
    assert unread.attempts_before() == (first,)


def test_a_verdict_is_no_reason_to_begin_a_ledger(released):
    _, path, (one, _) = released
    assert not abo.Ledger.at(path).judge([one], passed=True).is_there
