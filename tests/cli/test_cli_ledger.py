"""The ledger as the commands keep and use it: everything that counts is judged together, and nothing else is."""

import os
import re

import numpy as np
import pyarrow.csv
import pytest
from pandas.testing import assert_frame_equal

import allbutone as abo

# each runs ten commands; `make test-long` runs them all
LONG = pytest.mark.skipif(not os.environ.get("ALLBUTONE_TEST_LONG"), reason="takes long")


@pytest.fixture
def two(allbutone, table):
    """The table, of which `r1` and `r2` were released."""
    for name, count in (("r1", 3), ("r2", 2)):
        assert allbutone("synthesize", table, "--out", name, "--datasets", count, "--rows", 12)[0] == 0
    return table


def risks(allbutone, *arguments):
    """Return what `risk` writes, and what it says."""
    code, out, err = allbutone("risk", *arguments, "--no-mass", "--out", "x.csv", "--force")
    assert code == 0, err
    return pyarrow.csv.read_csv("x.csv").to_pandas(), out, err


def test_the_sum_is_the_joint_attack_and_voided_releases_have_no_part_in_it(allbutone, two):
    together, out, _ = risks(allbutone, two, "r2")
    assert "Judged together with 1 earlier release (1: 3 datasets of 12 rows" in out
    assert "all 2 releases" in out
    joint = risks(allbutone, two, "r2", "r1", "--alone")[0]
    alone, out, _ = risks(allbutone, two, "r2", "--alone")
    assert "Judged together" not in out
    assert_frame_equal(together, joint)
    assert not np.allclose(together["information_gain"], alone["information_gain"])
    code, out, _ = allbutone("ledger", "void", two, 1, "--reason", "drawn, never given out")
    assert code == 0
    voided, out, _ = risks(allbutone, two, "r2")
    assert_frame_equal(voided, alone)
    assert "Judged together" not in out
    # asked about by name it is judged, and the ledger's word on it is told
    assert "voided: drawn, never given out" in risks(allbutone, two, "r1", "r2")[2]


def test_a_release_drawn_like_a_voided_one_is_not_proposed_to_be_judged_with_it(allbutone, two):
    assert allbutone("ledger", "void", two, 1, "--reason", "drawn, never given out")[0] == 0
    assert "r2 r3" in allbutone("synthesize", two, "--out", "r3", "--rows", 12, "--like", "r2")[1]
    assert "r1 r4" not in allbutone("synthesize", two, "--out", "r4", "--rows", 12, "--like", "r1")[1]


@LONG
def test_a_release_made_elsewhere_is_added_and_a_moved_one_found_again(allbutone, two, tmp_path):
    assert allbutone("synthesize", two, "--out", "r3", "--no-ledger")[1].count("Recorded in no ledger") == 1
    _, out, err = risks(allbutone, two, "r3")
    assert "Judged together with 2 earlier releases" in out
    assert "r3 is not in the ledger" in err
    assert allbutone("ledger", "add", two, "r3")[0] == 0
    assert "Judged together with 2 earlier releases" in risks(allbutone, two, "r1")[1]
    (tmp_path / "r1").rename(tmp_path / "elsewhere")
    _, out, _ = risks(allbutone, two, "r2")
    assert "Not counted: release 1" in out
    assert "r1 is not there" in out
    assert "not the whole sum" in out
    assert "r1 is not there" in allbutone("ledger", two)[1]
    assert "is release 1 in" in allbutone("ledger", "add", two, "elsewhere")[1]
    assert "Judged together with 2 earlier releases" in risks(allbutone, two, "r2")[1]
    (tmp_path / "elsewhere" / "dataset-001.csv").write_text("bmi,ldl\n" + "1,2\n" * 12)
    assert "what is in elsewhere now is not what was recorded" in risks(allbutone, two, "r2")[1]


def test_neither_seed_nor_key_is_in_it_and_a_repeated_release_counts_once(allbutone, table):
    _, out, _ = allbutone("synthesize", table, "--out", "a", "--new-repeat-key")
    key = re.search("Repeat key: ([0-9a-f]+)", out).group(1)
    again = ("synthesize", table, "--repeat-key", key)
    assert allbutone(*again, "--out", "b")[0] == 0
    text = abo.Ledger.place_of(table).read_text()
    assert key not in text
    assert "seed" not in text
    [entry] = abo.Ledger.of(table).releases
    assert (entry.place, entry.how) == ("b", "drawn")
    # in another format it is another entry, and still the same draws
    assert allbutone(*again, "--out", "c", "--format", "parquet")[0] == 0
    assert "Judged together" not in risks(allbutone, table, "c")[1]


@LONG
def test_a_table_that_grew_is_recognised_and_each_release_judged_by_its_own_records(allbutone, two):
    text = two.read_text()
    before = risks(allbutone, two, "r2")[0]
    header, rest = text.split("\n", 1)
    for grown, words in (
        (
            text + "0.5,0.25\n1.5,-0.5\n",
            "The table has grown by 2 records since release 2 was made from its first 30",
        ),
        (
            f"{header}\n0.5,0.25\n{rest}",
            "The table has grown by 1 record since release 2 was made from its last 30",
        ),
    ):
        two.write_text(grown)
        found, out, _ = risks(allbutone, two, "r2")
        assert words in out
        assert "Judged together with 1 earlier release" in out, "of the same records"
        assert_frame_equal(found.drop(columns="row"), before.drop(columns="row"))
    assert allbutone("synthesize", two, "--out", "r3")[0] == 0
    found, out, _ = risks(allbutone, two, "r3")
    assert "Judged together with 2 earlier releases (1: 3 datasets of 12 rows" in out
    assert out.count("made when the table had 30 records") == 2
    alone = risks(allbutone, two, "r3", "--alone")[0]
    changed = found["information_gain"] != alone["information_gain"]
    assert changed.tolist() == [False] + [True] * 30, "the new person has no part in what was before"
    assert "Not counted: release 3" in risks(allbutone, two, "r2")[1]
    assert "Name the newest release alone" in risks(allbutone, two, "r3", "r2")[1]


@LONG
def test_a_table_that_changed_is_told_and_one_in_another_order_is_the_same(allbutone, two):
    text = two.read_text()
    for changed in (text.replace(text.split("\n")[3], "0.5,0.25"), "".join(text.splitlines(keepends=True)[:-1])):
        two.write_text(changed)
        out = risks(allbutone, two, "r2")[1]
        assert "Not exact: the table is not the one that release 2 was made from" in out
        assert "Not counted: release 1" in out
    first, *lines = text.splitlines()
    two.write_text("\n".join([first, *reversed(lines)]) + "\n")
    out = risks(allbutone, two, "r2")[1]
    assert "Judged together with 1 earlier release" in out
    assert "Not" not in out.split("Assumed")[0].replace("Not shown", "")


@LONG
def test_releases_of_other_columns_or_scales_are_named_and_not_counted(allbutone, two):
    assert allbutone("synthesize", two, "--out", "r3", "--drop", "ldl")[0] == 0
    assert "of other columns, or in another order (bmi, ldl)" in risks(allbutone, two, "r3")[1]
    assert allbutone("synthesize", two, "--out", "r4", "--decimals", 1)[0] == 0
    out = risks(allbutone, two, "r4")[1]
    assert "other scales, limits, decimals" in out
    assert out.count("Not counted: release") == 3


def test_force_does_not_replace_what_counts(allbutone, two, tmp_path):
    code, _, err = allbutone("synthesize", two, "--out", "r1", "--force")
    assert code == 2
    assert len(err.splitlines()) == 1
    assert "release 1 of the ledger" in err
    assert abo.load_release(tmp_path / "r1").rows == (12, 12, 12)
    assert allbutone("ledger", "void", two, 1, "--reason", "never given out")[0] == 0
    assert allbutone("synthesize", two, "--out", "r1", "--force")[0] == 0
    assert [entry.number for entry in abo.Ledger.of(two).counted] == [2, 3]


def test_nothing_is_drawn_that_cannot_be_recorded(allbutone, two, tmp_path):
    for place, words in (("nowhere/ledger.toml", "cannot be recorded"), ("r3/ledger.toml", "confidential")):
        code, _, err = allbutone("synthesize", two, "--out", "r3", "--ledger", place)
        assert code == 2
        assert len(err.splitlines()) == 1
        assert words in err
    path = abo.Ledger.place_of(two)
    path.write_text(path.read_text()[:-80])
    for command in (("synthesize", two, "--out", "r3"), ("risk", two, "r1"), ("ledger", two), ("budget", two)):
        code, _, err = allbutone(*command)
        assert code == 2
        assert len(err.splitlines()) == 1
        assert "cut short" in err
    assert not (tmp_path / "r3").exists()
    assert "--no-ledger" in allbutone("synthesize", two, "--out", "r3", "--ledger", "nowhere/l.toml")[2]


@LONG
def test_a_ledger_kept_elsewhere(allbutone, table, tmp_path):
    (tmp_path / "safe").mkdir()
    where = ("--ledger", "safe/ledger.toml")
    for name in ("r1", "r2"):
        code, out, _ = allbutone("synthesize", table, "--out", name, *where)
        assert code == 0
    assert "--ledger safe/ledger.toml" in out, "the next command is told"
    assert not abo.Ledger.place_of(table).exists()
    assert "Judged together with 1 earlier release" in risks(allbutone, table, "r2", *where)[1]
    assert allbutone("risk", table, "r2", "--ledger", "safe/other.toml")[0] == 2
    assert "2 releases of this table count" in allbutone("ledger", "show", table, *where)[1]


def test_the_budget_counts_what_was_released_and_the_report_says_what_was_judged(allbutone, two, tmp_path):
    code, out, err = allbutone("budget", two, "--rows", 12, "--like", "r1")
    assert code == 0, err
    assert "Judged together with 2 earlier releases (1: 3 datasets of 12 rows" in out
    assert "what was released earlier (5)" in out
    out = allbutone("budget", two, "--rows", 12, "--alone", "--out", "b.csv")[1]
    assert "earlier" not in out.split("Written")[0]
    code, out, _ = allbutone("report", two, "r2")
    assert code == 0
    told = "Judged together with 1 earlier release (1: 3 datasets of 12 rows"
    assert told in out
    assert told in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("few_trials")
def test_a_table_with_categories_has_its_ledger_too(allbutone, tmp_path, rng):
    lines = [f"{rng.choice(['f', 'm'])},{value:.2f}" for value in rng.normal(size=40)]
    (tmp_path / "t.csv").write_text("sex,x\n" + "\n".join(lines) + "\n")
    for name in ("r1", "r2"):
        assert allbutone("synthesize", "t.csv", "--out", name)[0] == 0
    together, out, _ = risks(allbutone, "t.csv", "r2")
    assert "Judged together with 1 earlier release (1: 1 dataset of 40 rows" in out
    joint = risks(allbutone, "t.csv", "r2", "r1", "--alone")[0]
    assert_frame_equal(together, joint)
    assert allbutone("synthesize", "t.csv", "--out", "r3", "--cell-weight", 2)[0] == 0
    assert "Judged together with 2 earlier releases" in risks(allbutone, "t.csv", "r3")[1]  # of other weights
    (tmp_path / "t.csv").write_text("sex,x\n" + "\n".join([*lines, "f,0.12"]) + "\n")
    assert allbutone("synthesize", "t.csv", "--out", "r4")[0] == 0
    grown = risks(allbutone, "t.csv", "r4")[1]
    assert "1 dataset of 40 rows" in grown
    assert "made when the table had 40 records" in grown
    code, _, errors = allbutone("report", "t.csv", "r4")
    assert code == 0, errors
    assert allbutone("synthesize", "t.csv", "--out", "r5", "--keep", "sex")[0] == 0
    assert "it keeps other columns as they are" in risks(allbutone, "t.csv", "r5")[1]


def test_a_limit_is_declared_and_wrong_words_are_answered_in_one_line(allbutone, two):
    assert "ε = 3, δ = 1e-06" in allbutone("ledger", "limit", two, "--epsilon", 3, "--delta", 1e-6)[1]
    assert "A total of ε = 3 at δ = 1e-06 was declared" in allbutone("ledger", "show", two)[1]
    for wrong in (
        ("show",), ("void", two), ("void", two, "r1", "--reason", "x"), ("void", two, 1),
        ("void", two, 9, "--reason", "x"),
        ("limit", two, "--epsilon", 1, "--rho", 1), ("limit", two, "--epsilon", 1, "--delta", 0),
        ("limit", two), ("show", two, "--reason", "x"), ("show", two, "--epsilon", 1), ("give", two, "x"),
    ):  # fmt: skip
        code, _, err = allbutone("ledger", *wrong)
        assert code == 2, wrong
        assert len(err.splitlines()) == 1


def test_the_demo_is_recorded(allbutone, tmp_path):
    assert "Recorded as release 1 in demo/others.csv.ledger.toml" in allbutone("demo")[1]
    [entry] = abo.Ledger.at(tmp_path / "demo" / "others.csv.ledger.toml").counted
    assert entry.place == "release"
    assert "Not counted" not in risks(allbutone, "demo/others.csv", "demo/release")[1]


@pytest.mark.usefixtures("few_trials")
def test_what_is_left_of_a_table_with_gaps_is_asked_as_it_was_released(allbutone, tmp_path):
    lines = [f"{row % 7 + row / 10},{'' if row == 3 else row * 7 % 11}" for row in range(30)]
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(lines) + "\n")
    assert allbutone("synthesize", "t.csv", "--out", "r", "--complete-cases")[0] == 0
    hint = allbutone("ledger", "t.csv")[1].splitlines()[-1].split()
    assert allbutone(*hint[1:])[0] == 0
    # a release decided what becomes of gaps, so nothing need be asked again
    code, _, said = allbutone("risk", "t.csv", "r")
    assert code == 0
    assert "Left out 1 row of 30 with gaps; 29 are used" in said


def test_a_second_attempt_is_told_and_has_no_pass_unless_it_is_within_the_budget(allbutone, table):
    """Where the budget is not asked (another adversary) an attempt that passes is not called safe."""
    weak = ("--lacking-records", 8, "--no-mass", "--out", "x.csv", "--force")
    for name in ("r1", "r2"):
        assert allbutone("synthesize", table, "--out", name, "--datasets", 1, "--rows", 3)[0] == 0
        out = allbutone("risk", table, name, *weak)[1]
        if name == "r1":
            assert "This is attempt" not in out
            assert allbutone("ledger", "void", table, 1, "--reason", "drawn, never given out")[0] == 0
    assert "This is attempt 2: 1 release of the table was drawn before it, judged, and not given out (1: " in out
    first = next(line for line in out.splitlines() if line.startswith(("✔", "!", "✘")))
    assert first.startswith(("! It passes, but it is attempt 2", "✘"))
    usual = allbutone("risk", table, "r2", *weak[2:])[1]
    assert "This is attempt 2" in usual
    assert "it would have failed for" in usual or "✘" in usual  # what that tells of the release at hand
    assert allbutone("ledger", "show", table)[0] == 0
