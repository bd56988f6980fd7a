"""The numerical core on PyTorch tensors gives NumPy's answers. Run by `make test-torch`."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ks_2samp

import allbutone as abo
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.who import USUAL
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.risk import records_of_release, risk_columns
from allbutone.disclosure.simulation import SimulatedDatasets
from allbutone.model.class_sampler import ClassChains, draw_classes
from allbutone.model.classes import ClassModel
from allbutone.model.incomplete import IncompleteRecords
from allbutone.paper.design_file import read_design
from allbutone.paper.run import StudyRun, load_study, run_study
from allbutone.paper.simulate import alike, simulate_cell, simulate_together
from allbutone.support.devices import DeviceStreams, device_of, triangle
from posteriors import who
from replayed import Replayed, assert_same_replicates
from targets import make


def tensors(target):
    mean, weight, df, scale = target.prior_fields
    prior = abo.NIW(torch.as_tensor(mean), weight, df, torch.as_tensor(scale))
    if target.release.parameters is not None:
        release = abo.Release.of_parameters(
            torch.as_tensor(target.release.normal.means), torch.as_tensor(target.release.normal.covariances)
        )
    else:
        release = abo.Release.of([torch.as_tensor(np.array(z)) for z in target.release.values])
    return torch.as_tensor(target.others), release, prior


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("seed", range(8))
def test_torch_attacks_as_numpy_does(kind, seed):
    rng = np.random.default_rng(seed)
    target = make(rng, kind, int(rng.integers(1, 6)), int(rng.integers(1, 30)), int(rng.integers(1, 8)), 5.0)
    others, release, prior = tensors(target)
    ours, theirs = (
        abo.attack(others, release, prior=prior),
        abo.attack(target.others, target.release, prior=target.prior),
    )
    assert isinstance(ours.mode, torch.Tensor)
    np.testing.assert_allclose(float(ours.log_posterior_gap), theirs.log_posterior_gap, rtol=1e-6, atol=1e-7)
    if theirs.log_posterior_gap > 1e-6:
        deviations = np.sqrt(np.diagonal(theirs.covariance))
        assert np.all(np.abs(ours.mode.numpy() - theirs.mode) < 1e-6 * deviations)
    records = np.vstack([target.others, target.record])
    everyone = abo.attack(torch.as_tensor(records), release, rows="all", prior=prior)
    again = abo.attack(records, target.release, rows="all", prior=target.prior)
    np.testing.assert_allclose(everyone.log_posterior_gap.numpy(), again.log_posterior_gap, rtol=1e-5, atol=1e-6)


def test_torch_moments_and_densities():
    rng = np.random.default_rng(3)
    records = rng.standard_normal((50, 3))
    prior = abo.NIW(torch.zeros(3, dtype=torch.float64), 1.0, 5.0, torch.eye(3, dtype=torch.float64))
    posterior = prior.update(torch.as_tensor(records))
    plain = abo.NIW.default(3).update(records)
    np.testing.assert_allclose(posterior.scale.numpy(), plain.scale)
    density = posterior.predictive().log_density(torch.as_tensor(records))
    np.testing.assert_allclose(density.numpy(), plain.predictive().log_density(records))


def test_torch_draws_wishart_scatters():
    """E[TTᵀ] = m·I, each stream with its own m; entries of a Wishart have variance m, on the diagonal 2m."""
    size, p, freedom = 40_000, 4, np.array([5.0, 9.0, 200.0])
    streams = DeviceStreams(np.random.SeedSequence(1).spawn(3), torch.device("cpu"))
    drawn = triangle(streams, freedom[:, None] - np.arange(p), size).numpy().reshape(p, p, 3, size)
    scatter = np.einsum("iksm,jksm->sijm", drawn, drawn).mean(axis=-1)
    off = np.abs(scatter - freedom[:, None, None] * np.eye(p)) / np.sqrt(2 * freedom / size)[:, None, None]
    assert np.max(off) < 5


def test_torch_draws_scatters_of_fewer_rows_than_columns():
    """E[S] = (n_z − 1)/(ν′ − p − 1)·I, and its rank is n_z − 1, each stream with its own number of rows."""
    size, p, df, rows = 40_000, 4, 60.0, np.array([1.0, 3.0, 200.0])
    streams = DeviceStreams(np.random.SeedSequence(1).spawn(3), torch.device("cpu"))
    law = ExposureLaw(p, np.full(3, 10.0), np.full(3, df), rows)
    drawn = SimulatedDatasets.of(law, size, streams)
    nothing = torch.zeros(3 * size, dtype=torch.float64)
    inverse, _, _ = drawn.wells(nothing, nothing, 1.0, 0.0)
    scatter = torch.linalg.inv(inverse).numpy() - np.eye(p)
    for each, many in zip(scatter.reshape(3, size, p, p), rows - 1, strict=True):
        spread = np.sqrt(2 * many / size) / (df - p)
        assert np.max(np.abs(each.mean(axis=0) - many / (df - p) * np.eye(p))) <= 6 * spread + 1e-9
        assert all(np.sum(np.linalg.eigvalsh(one) > 1e-9) == min(p, many) for one in each[:20])


def test_torch_simulates_a_study_and_a_cell_is_the_same_in_any_company(tmp_path, monkeypatch):
    """On PyTorch's CPU in place of a card: what it draws has the same distribution as what NumPy draws."""
    monkeypatch.setattr("allbutone.paper.run.device_of", lambda name: torch.device("cpu"))
    design = read_design("paper")
    cells = [cell for cell in design.cells if cell.p == 3 and cell.n in (10, 300) and cell.rows in (None, 50)]
    run = StudyRun(design, 300, device="cuda")
    held = run_study(run, tmp_path / "study", cells=cells)
    assert [row["unconverged"] for row in held.rows] == [0] * len(cells)
    assert load_study(tmp_path / "study").rows == held.rows
    for cell, row in zip(cells, held.rows, strict=True):
        (alone,) = run.simulate([cell])
        assert row["median"] == pytest.approx(np.median(alone.distance), rel=1e-9)
        assert ks_2samp(alone.distance, simulate_cell(cell, 1000, 1).distance).pvalue > 0.001 / len(cells)


def test_torch_replays_numpys_draws():
    design = read_design("paper")
    for group in alike(design.cells, 10):
        some = group[:: len(group) // 4]
        found = simulate_together(some, 10, 1, lambda seeds: Replayed(seeds, torch.as_tensor))
        for cell, one in zip(some, found, strict=True):
            assert_same_replicates(one, simulate_cell(cell, 10, 1))


def test_torch_without_a_card_says_so():
    if torch.cuda.is_available():
        pytest.skip("this computer has one")
    with pytest.raises(abo.InputError, match="finds no graphics card"):
        device_of("cuda")


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_torch_attacks_every_record_of_numpys_arrays(kind, monkeypatch):
    """On PyTorch's CPU in place of a card, in blocks of three records; one of them is attacked by itself."""
    monkeypatch.setattr("allbutone.adversary.leave_one_out.device_of", lambda name: torch.device("cpu"))
    target = make(np.random.default_rng(3), kind, 3, 20, 4, 5.0)
    records = np.vstack([target.others, target.record, 30 * target.record])
    own = abo.NIW(np.ones(3), 2.0, 6.0, 2 * np.eye(3))
    for options in ({}, {"adversary_prior": own}, {"known": ["x2"]}):
        here = abo.attack(records, target.release, rows="all", prior=target.prior, **who(**options))
        problem = LeaveOneOut.of(records, target.release, target.prior, None, "record")
        monkeypatch.setattr("allbutone.support.devices.BLOCK_BYTES", 3 * problem.record_bytes)
        there = abo.attack(
            records, target.release, rows="all", prior=target.prior, device="cuda", **who(**options)
        )
        for name in ("mode", "log_posterior_gap", "covariance"):
            one, other = getattr(there, name), getattr(here, name)
            size = np.max(np.abs(other), initial=0.0, where=np.isfinite(other))
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * size)
        assert list(there.status) == list(here.status)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_torch_measures_the_risk_of_numpys_arrays(kind, monkeypatch):
    """Integrals, probabilities and verdicts: the same points, weighed on PyTorch's CPU in place of a card."""
    monkeypatch.setattr("allbutone.adversary.leave_one_out.device_of", lambda name: torch.device("cpu"))
    rng = np.random.default_rng(4)
    values = rng.standard_normal((25, 3)) * [1.0, 5.0, 0.2]
    values[3] *= 30
    records, prior = abo.Records(values, ("a", "b", "c")), abo.NIW.default(3)
    whole, given = prior.update(values), {"columns": records.columns, "prior": prior}
    if kind == "parameters":
        release = abo.Release.draw_parameters(whole, 5, rng, **given)
    else:
        release = abo.Release.draw(whole, [25] * 9, rng, **given)
    for known in ((), ("b",)):
        assert_same_risk(records, release, abo.Adversary(known=known))


def assert_same_risk(records, release, adversary=USUAL):
    """Everyone's risk by PyTorch's CPU in place of a card, and by NumPy, but for the last digits."""
    here, there = (
        risk_columns(records, release, adversary, rng=np.random.default_rng(1), device=device)
        for device in ("cpu", "cuda")
    )
    for name, column in here.items():
        if column.dtype.kind != "f":
            np.testing.assert_array_equal(there[name], column)
            continue
        size = np.max(np.abs(column), initial=0.0, where=np.isfinite(column))
        np.testing.assert_allclose(there[name], column, rtol=1e-8, atol=1e-8 * size, err_msg=name)


KINDS = {
    "categories": ({}, {}, USUAL),
    "of whom some is known": ({}, {}, abo.Adversary(known=["a", "arm"])),
    "parameters": ({}, {"parameters": True}, USUAL),
    "kept": ({"keep": ["sex"]}, {}, USUAL),
    "gaps": ({"missing": "impute"}, {}, USUAL),
    "limits": ({"schema": {"columns": {"a": {"low": 0.0}}}}, {}, USUAL),
    "own prior": ({}, {}, abo.Adversary(prior=abo.NIW.default(2))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_torch_measures_the_risk_of_every_kind_of_table(kind, monkeypatch):
    """In every cell, for every draw of what is missing: the numbers are those of the processor."""
    for room in ("risk", "gap_risk"):
        monkeypatch.setattr(
            f"allbutone.disclosure.{room}.device_of", lambda name: None if name == "cpu" else torch.device("cpu")
        )
    (how, asked, adversary), rng = KINDS[kind], np.random.default_rng(7)
    codes = rng.integers(0, (2, 3), (30, 2))
    table = pd.DataFrame(rng.standard_normal((30, 2)) + codes, columns=["a", "b"])
    table["sex"], table["arm"] = np.array(["f", "m"])[codes[:, 0]], np.array(["p", "q", "r"])[codes[:, 1]]
    if kind == "gaps":
        table.loc[::5, "a"], table.loc[::7, "arm"] = np.nan, None
    if kind == "own prior":
        table = table[["a", "b"]]
    if kind == "limits":
        table["a"] = table["a"].clip(lower=0)
    release = abo.Synthesizer(**how).fit(table).sample(datasets=2, rng_for_tests=rng, **asked)
    assert_same_risk(records_of_release(table, release), release, adversary)


def test_torch_draws_the_classes_that_numpy_draws(monkeypatch):
    """Whatever is missing, known within bounds, added or taken out; in blocks of a few records there."""
    monkeypatch.setattr("allbutone.support.devices.NUMBERS_HELD", 200)
    rng = np.random.default_rng(3)
    values = rng.standard_normal((80, 3)) + 4 * (rng.random(80) < 0.4)[:, None]
    codes = rng.integers(0, 3, (80, 2))
    values[::7, 1], values[::5, 0], codes[::6, 1] = np.nan, np.nan, -1
    low, high = values.copy(), values.copy()
    low[:, 2], high[:, 2] = np.floor(values[:, 2]), np.ceil(values[:, 2])
    records = IncompleteRecords.of(codes, values, None, low, high)
    here, there = (draws_of(records, device) for device in (None, torch.device("cpu")))
    np.testing.assert_array_equal(there.classes, here.classes)
    np.testing.assert_allclose(there.values, here.values, rtol=1e-10)
    np.testing.assert_allclose(there.posteriors.scales, here.posteriors.scales, rtol=1e-8)
    np.testing.assert_array_equal(there.posteriors.level_weights, here.posteriors.level_weights)


def draws_of(records, device):
    begun = ClassChains.start(ClassModel(3, (3, 3), classes=4), records, np.random.default_rng(1), 4, device)
    more = begun.with_more(records.take(slice(0, 40)), np.random.default_rng(5))
    return draw_classes(more.without(7, np.random.default_rng(6)), 3, most_sweeps=40)


def test_torch_releases_and_judges_a_table_with_classes(monkeypatch):
    """On PyTorch's CPU in place of a card: the same key draws the same release, and its risk is the same."""
    for room in ("releases.synthesizer", "disclosure.risk"):
        monkeypatch.setattr(
            f"allbutone.{room}.device_of", lambda name: None if name == "cpu" else torch.device("cpu")
        )
    rng, key = np.random.default_rng(4), abo.Synthesizer.new_repeat_key()
    table = np.stack([rng.standard_normal(30), 3 * (rng.random(30) < 0.5) + rng.standard_normal(30)], axis=1)
    fitted, devices = abo.Synthesizer(model="classes", classes=3).fit(table), ("cpu", "cuda")
    here, there = (fitted.sample(datasets=2, repeat_key=key, device=device) for device in devices)
    for one, other in zip(here.values, there.values, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-8)
    ours, theirs = (
        abo.risk(table, here, device=device, rng=np.random.default_rng(1), mass=False).to_pandas()
        for device in devices
    )
    for name in ("probability_x1", "rest_known_probability_x2", "membership"):
        np.testing.assert_allclose(theirs[name], ours[name], atol=1e-6)
