"""The study where nothing but the library of arrays differs: the same draws give the same results to 1e-8."""

import importlib.util
import subprocess
import sys
from dataclasses import fields, replace

import array_api_strict
import numpy as np
import pytest

import allbutone as abo
from allbutone.adversary.modes import find_modes
from allbutone.adversary.proposal import Points, Proposal
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.simulation import SimulatedReleases
from allbutone.paper.design_file import parse_design, read_design
from allbutone.paper.run import StudyRun, load_study, run_study
from allbutone.paper.simulate import alike, simulate_cell, simulate_together
from allbutone.support.devices import device_of
from replayed import Replayed, assert_same_replicates

HERE, ELSEWHERE = array_api_strict.Device("CPU_DEVICE"), array_api_strict.Device("device1")

MANY = """
[prior]
mean = 1.1
{adversary}
[[cells]]
release = "parameters"
p = 3
n = [5, 40]
count = [1, 2, 7]
mean = 1
variance = 3
{cells}
[[cells]]
release = "datasets"
p = 3
n = [5, 40]
count = [1, 2, 7]
rows = [1, 2, 30]
mean = 1
variance = 3
{cells}
"""
KINDS = {
    "far": ("", "target = 20"),
    "at a distance, correlated": ("", 'distance = 8\nstructure = "ar1"\ncorrelation = 0.6'),
    "at a leverage": ("", "leverage = 0.5\ndirection = [1, 0, -1]"),
    "another prior": ("[adversary_prior]\nmean = 5\nmean_weight = 3", "target = 20"),
    "fewer columns": ("", "target = 20\nlacking_columns = 1"),
}


def there(array):
    return array_api_strict.asarray(array, device=ELSEWHERE)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_together_and_elsewhere_give_the_results_of_each_alone(kind):
    adversary, cells = KINDS[kind]
    design = parse_design(MANY.format(adversary=adversary, cells=cells))
    groups = alike(design.cells, 12)
    assert sorted(map(len, groups)) == [8, 16]  # one release, and several
    for group in groups:
        found = simulate_together(group, 12, 3, lambda seeds: Replayed(seeds, there))
        for cell, one in zip(group, found, strict=True):
            assert_same_replicates(one, simulate_cell(cell, 12, 3))


@pytest.mark.parametrize("rows", [None, 40])
def test_a_proposal_settles_elsewhere_where_it_does_here(rows):
    law = ExposureLaw.of(abo.NIW.default(4), 30, rows)
    problem, _ = SimulatedReleases.of(law, 5, 3, np.random.default_rng(2)).problem(1.0)
    here = Proposal.around(problem, find_modes(problem))
    own = {field.name: getattr(problem, field.name) for field in fields(problem)}
    moved = {name: there(array) for name, array in own.items() if isinstance(array, np.ndarray)}
    parts = {name: tuple(map(there, getattr(here, name))) for name in ("locations", "roots", "inverses")}
    found = replace(here, **parts).settled(replace(problem, **moved), Points(1))
    expected = here.settled(problem, Points(1))
    assert found.portions == expected.portions == (1, 1 / 2, 1 / 4, 1 / 8, 1 / 4)
    for name in parts:
        for ours, theirs in zip(getattr(found, name), getattr(expected, name), strict=True):
            np.testing.assert_allclose(np.asarray(ours.to_device(HERE)), theirs, rtol=1e-9, atol=1e-9)


def test_large_cells_are_drawn_in_blocks_and_small_groups(monkeypatch):
    """Blocks of one size hold the same numbers here and there."""
    design = parse_design(MANY.format(adversary="", cells="target = 20"))
    limit = 10 * 7 * 9
    monkeypatch.setattr("allbutone.paper.simulate.WELL_NUMBERS", limit)
    monkeypatch.setattr("allbutone.disclosure.simulation.WELL_NUMBERS", limit)
    groups = alike(design.cells, 25)
    assert len(groups) > 2
    assert sorted(cell.key for group in groups for cell in group) == sorted(cell.key for cell in design.cells)
    group = next(group for group in groups if group[-1].count == 7)
    found = simulate_together(group, 25, 3, lambda seeds: Replayed(seeds, there))
    for cell, one in zip(group, found, strict=True):
        assert_same_replicates(one, simulate_cell(cell, 25, 3))


def test_without_pytorch_a_device_is_refused_with_the_cure(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    device_of.cache_clear()
    run = StudyRun(read_design("paper"), 10, device="cuda")
    with pytest.raises(abo.InputError, match=r"PyTorch, which is not installed; install it: .*allbutone\[torch\]"):
        run_study(run, tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_a_device_of_another_name_is_refused(allbutone):
    code, _, errors = allbutone("study", "paper", "--out", "study", "--device", "gpu")
    assert code == 2
    assert "device must be cpu or cuda" in errors
    assert "--device cpu" in errors


def test_a_study_is_not_resumed_on_another_kind_of_device(tmp_path):
    """The two draw other numbers: a folder holds those of one."""
    design = parse_design(MANY.format(adversary="", cells="target = 20"))
    run_study(StudyRun(design, 3), tmp_path / "study", cells=design.cells[:1])
    journal = tmp_path / "study" / "journal.jsonl"
    header, rest = journal.read_text().split("\n", 1)
    assert "device" not in header
    journal.write_text(header[:-1] + ', "device": "cuda"}\n' + rest)
    assert load_study(tmp_path / "study").rows == []  # no result of a device's own
    with pytest.raises(abo.InputError, match="begun with another kind of device"):
        run_study(StudyRun(design, 3), tmp_path / "study", resume=True)
    journal.write_text(header[:-1] + ', "device": "tpu"}\n' + rest)
    with pytest.raises(abo.InputError, match="not what a study writes"):
        load_study(tmp_path / "study")


FIRST_USE = """
import numpy as np
import allbutone as abo
from allbutone.support import devices
devices.BLOCK_BYTES = 1 << 18  # many blocks, so that all threads begin together
rng, prior = np.random.default_rng(1), abo.NIW.flat(3)
values = rng.standard_normal((4000, 3))
release = abo.Release.draw(prior.update(values), [50] * 3, rng, prior=prior)
found = abo.attack(values, release, rows="all", prior=prior, device="cuda")
print(len(found.mode))
"""


def _has_card():
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


@pytest.mark.skipif(not _has_card(), reason="no graphics card here")
def test_the_first_attack_of_a_process_may_be_on_a_card():
    """Several threads meet the card's linear algebra, which PyTorch loads at first use, for the first time."""
    ran = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "4000"
