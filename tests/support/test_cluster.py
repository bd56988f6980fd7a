"""Work on a Dask cluster: the numbers of one machine, bit for bit, also when a worker dies in the middle."""

import os
import signal

import numpy as np
import pytest

import allbutone as abo
from allbutone.disclosure.risk import risk_columns
from allbutone.paper.design_file import read_design
from allbutone.paper.run import StudyRun, run_study
from allbutone.support import parallel
from allbutone.support.errors import InputError
from allbutone.support.parallel import on_cluster
from allbutone.tables.records import Records


@pytest.fixture
def mortal(workers):
    """The cluster of two workers, and what kills one of them, once: one that is at work, if there still is one."""
    killed, processes = [], workers.run(os.getpid)

    def kill(_=None):
        if not killed:
            tasks = workers.processing()
            killed.append(processes[max(processes, key=lambda address: len(tasks.get(address, ())))])
            os.kill(killed[0], signal.SIGKILL)

    yield workers.scheduler.address, kill
    assert killed
    workers.wait_for_workers(2, timeout=120)


def test_risk_is_that_of_one_machine_although_a_worker_dies(mortal, rng):
    address, kill = mortal
    records = Records.of_numbers(rng.normal(size=(600, 1)))
    release = abo.Synthesizer().fit(records).sample(datasets=2, rows=50)

    def found(watch=lambda done: None):
        return risk_columns(records, release, mass=False, rng=np.random.default_rng(0), watch=watch)

    expected, done = found(), []
    with on_cluster(address):
        disturbed = found(lambda count: (kill(), done.append(count)))
    assert sum(done) == 600
    for name, column in expected.items():
        np.testing.assert_array_equal(disturbed[name], column)


def test_a_study_is_that_of_one_machine_although_a_worker_dies(mortal, tmp_path):
    address, kill = mortal
    run = StudyRun(read_design("correlation"), 3)
    cells = sorted(run.design.cells, key=lambda cell: cell.p)[:6]
    expected = run_study(run, tmp_path / "here", cells=cells, keep_replicates=True)
    with on_cluster(address):
        found = run_study(run, tmp_path / "there", cells=cells, keep_replicates=True, watch=kill)
    assert found.rows == expected.rows
    assert [one.quantiles for one in found.results] == [one.quantiles for one in expected.results]
    here, there = ({path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.csv")}
                   for name in ("here", "there"))  # fmt: skip
    assert here == there


@pytest.mark.skipif(not os.environ.get("ALLBUTONE_TEST_LONG"), reason="as the two above, from start to end")
def test_the_command_works_on_a_cluster(workers, allbutone, table):
    assert allbutone("synthesize", table, "--out", "release")[0] == 0
    assert allbutone("risk", table, "release", "--no-mass")[0] == 0
    address = workers.scheduler.address
    asked = ("risk", table, "release", "--no-mass", "--out", "there.csv")
    assert allbutone(*asked, "--dask", address)[0] == 0
    assert (table.parent / "there.csv").read_text() == (table.parent / "risk.csv").read_text()


def test_no_cluster_no_workers_other_versions(workers, allbutone, table, monkeypatch):
    monkeypatch.setattr(parallel, "SECONDS", 0.5)
    code, _, errors = allbutone("study", "paper", "--out", "study", "--dask", "tcp://127.0.0.1:1")
    assert code == 2
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:1'" in errors
    assert errors.strip().count("\n") == 0
    assert not (table.parent / "study").exists()
    monkeypatch.setattr(parallel, "version", lambda name: "0.0")
    with pytest.raises(InputError, match="other versions"), on_cluster(workers.scheduler.address):
        pass
