"""Writing survives kill -9 at every step, flushes before it replaces, and never overwrites what it reads."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import allbutone as abo
from allbutone.model.prior import read_prior
from allbutone.paper.design_file import parse_design, read_design
from allbutone.paper.run import StudyRun, load_study, run_study
from allbutone.tables import safe_io
from allbutone.tables.safe_io import fresh_file, fresh_files, fresh_folder, require_distinct

STEPS = ("os.rename", "os.mkdir", "os.chmod", "shutil.rmtree", "os.rmdir", "os.remove", "ctypes.dlopen")


def replaced(folder, how, step):
    """Replace the release of two rows in a folder by one of five, and stop for good at one step of it."""
    if how == "by steps":
        safe_io._exchange = lambda one, other: False
    release = abo.Synthesizer(abo.NIW.default(1)).fit(np.arange(5.0)[:, None] ** 1.5).sample(rows=5)
    taken = 0

    def watch(event, arguments):
        # every step that touches the disk by name is announced by Python's own audit hook
        nonlocal taken
        if event in STEPS:
            taken += 1
            if taken == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    abo.save_release(release, folder, force=True)


def release_of(rows):
    return abo.Synthesizer(abo.NIW.default(1)).fit(np.array([[1.5], [2.5], [4.0]])).sample(rows=rows)


@pytest.mark.parametrize("how", ["at once", "by steps"])
def test_killed_at_any_step_a_release_is_the_old_or_the_new(processes, tmp_path, how):
    folder, seen = tmp_path / "r", []
    for step in range(1, 40):
        if folder.exists():
            abo.save_release(release_of(2), folder, force=True)
        else:
            abo.save_release(release_of(2), folder)
        process = processes.Process(target=replaced, args=(folder, how, step))
        process.start()
        process.join()
        code = process.exitcode
        assert code in (0, -signal.SIGKILL)
        if how == "at once":
            assert folder.exists()
        seen.append(abo.load_release(folder).rows)
        if code == 0:
            break
    assert code == 0
    assert set(seen) == {(2,), (5,)}
    assert len(seen) > 5


def test_what_was_moved_aside_belongs_to_its_own_name_only(tmp_path):
    aside = tmp_path / f".{'x' * 40}.replaced-1"
    (aside / ("x" * 40 + "one")).mkdir(parents=True)
    with pytest.raises(abo.InputError, match="cannot read"):
        abo.load_release(tmp_path / ("x" * 40 + "two"))
    assert (aside / ("x" * 40 + "one")).exists()


def test_files_are_on_the_disk_before_they_replace_others(tmp_path, monkeypatch):
    done, flush, replace, rename = [], os.fsync, Path.replace, Path.rename
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append(os.fstat(handle).st_ino), flush(handle)))
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (done.append(("to", self.stat().st_ino)), replace(self, to))
    )
    monkeypatch.setattr(
        Path, "rename", lambda self, to: (done.append(("to", self.stat().st_ino)), rename(self, to))
    )
    with fresh_file(tmp_path / "a.txt") as path:
        path.write_text("one")
    inode = (tmp_path / "a.txt").stat().st_ino
    assert done == [inode, ("to", inode), tmp_path.stat().st_ino]
    done.clear()
    with fresh_folder(tmp_path / "b", ours=lambda folder: True, finished=done.append) as work:
        (work / "inner").mkdir()
        (work / "inner" / "deep.txt").write_text("two")
    parts = [tmp_path / "b", tmp_path / "b" / "inner", tmp_path / "b" / "inner" / "deep.txt"]
    moved = done.index(("to", parts[0].stat().st_ino))
    assert {part.stat().st_ino for part in parts} == set(done[: moved - 1])
    assert done[moved - 1] == work
    assert done[moved + 1 :] == [tmp_path.stat().st_ino]


def test_a_folder_that_came_to_be_meanwhile_is_not_said_to_be_finished(tmp_path):
    seen = []
    with (
        pytest.raises(abo.InputError, match="exists"),
        fresh_folder(tmp_path / "b", ours=lambda folder: True, finished=seen.append),
    ):
        (tmp_path / "b").mkdir()
    assert not seen


def test_several_files_are_written_all_or_none(tmp_path):
    (tmp_path / "b.html").mkdir()
    for force in (False, True):
        with (
            pytest.raises(abo.InputError, match=r"exists|is a folder"),
            fresh_files([tmp_path / "a.csv", tmp_path / "b.html"], force=force) as paths,
        ):
            [path.write_text("x") for path in paths]
    assert [path.name for path in tmp_path.iterdir()] == ["b.html"]


def test_no_output_is_an_input_by_any_name(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a\n1\n")
    (tmp_path / "hard.csv").hardlink_to(table)
    (tmp_path / "soft.csv").symlink_to(table)
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "prior.toml").touch()
    for same in (table, tmp_path / "hard.csv", tmp_path / "soft.csv", tmp_path / "folder" / "table.csv"):
        with pytest.raises(abo.InputError, match="same file as the input"):
            require_distinct([tmp_path / "new.csv", same], [None, table])
    with pytest.raises(abo.InputError, match="lies inside"):
        require_distinct([tmp_path / "deep"], [table, tmp_path / "deep" / "prior.toml"])
    require_distinct([tmp_path / "new.csv", tmp_path / "deep" / "x.csv"], [table, tmp_path / "none"])


DESIGN = """
replicates = 30
[[cells]]
release = "datasets"
p = 1
n = 5
count = [1, 2, 3]
rows = 3
target = 9
"""


def test_force_waits_for_no_running_study(tmp_path):
    design, refused = parse_design(DESIGN), []

    def meanwhile(done):
        with pytest.raises(abo.InputError, match="another run is writing"):
            run_study(StudyRun(design, 5), tmp_path / "s", force=True)
        refused.append(done)

    run_study(StudyRun(design, 30), tmp_path / "s", threads=1, watch=meanwhile)
    assert len(refused) == 4
    assert [row["replicates"] for row in load_study(tmp_path / "s").rows] == [30, 30, 30]
    run_study(StudyRun(design, 5), tmp_path / "s", force=True)
    assert [row["replicates"] for row in load_study(tmp_path / "s").rows] == [5, 5, 5]


@pytest.mark.parametrize(
    "line",
    [
        "[]", "{}", '{"study": "x"}', '{"replicates": "30", "records": false}', "3",
        '{"cell": 1}', '{"cell": "x", "row": {}, "quantiles": []}', '{"cell": "x", "row": [], "quantiles": [1]}',
        "[" * 100_000, "\udcff",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_journal_of_another_shape_is_refused(tmp_path, line, place):
    run_study(StudyRun(parse_design(DESIGN), 30), tmp_path / "s")
    journal = tmp_path / "s" / "journal.jsonl"
    lines = journal.read_bytes().splitlines()
    lines[place] = line.encode(errors="surrogateescape")
    journal.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(abo.InputError, match=f"line {place + 1}.*start again"):
        load_study(tmp_path / "s")


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    (tmp_path / "r").mkdir()
    os.mkfifo(tmp_path / "t.csv")
    for name in ("p.toml", "p.json", "d.toml", "r/release.json"):
        os.mkfifo(tmp_path / name)
    read = {
        "t.csv": abo.Records.of,
        "p.toml": lambda path: read_prior(path, ["a"]),
        "p.json": lambda path: read_prior(path, ["a"]),
        "r": abo.load_release,
        "r/release.json": abo.Synthesizer.load,
        "d.toml": read_design,
    }
    for name, how in read.items():
        with pytest.raises(abo.InputError, match="not an ordinary file"):
            how(tmp_path / name)
    for how in list(read.values())[1:]:
        with pytest.raises(abo.InputError):
            how(Path("/dev/zero"))
