"""Several records missing from any table: the sampler agrees with sums over cells and grids, and with one cell."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.missing_in_cells import MissingInCells, beliefs_of
from allbutone.adversary.proposal import Points
from allbutone.disclosure.question import Question
from allbutone.disclosure.risk import records_of_release, risk_columns
from allbutone.model.location import MixedRecords

STEP = 5.5  # of the grid: half a standard deviation
PRIOR = {"centre": [50.0], "spread": [9.0], "mean_weight": 2.0, "df": 5.0}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    sex = rng.permutation(["f", "m"] * 7)
    return pd.DataFrame({"age": rng.normal(50, 9, 14) + 12 * (sex == "m"), "sex": sex})


def on_a_grid(shared, releases, step, ends):
    """Return the joint log posterior of two missing records: cells of both, and both measurements on a grid."""
    grid = np.arange(ends[0], ends[1], step)
    first = shared.parts[0]
    whole = shared.believed.models[0]
    logs = np.empty((2, 2, len(grid), len(grid)))
    for a, b, i, j in np.ndindex(logs.shape):
        unknown = MixedRecords.of([a, b], [[grid[i]], [grid[j]]])
        logs[a, b, i, j] = whole.log_evidence(unknown)
        given = first.before.models[0].update(unknown)
        logs[a, b, i, j] += sum(given.log_evidence(data) for data in releases)
    joint = np.exp(logs - logs.max())
    return grid, joint / joint.sum()


@pytest.mark.parametrize("how", [{}, {"cells": "separate", "prior": PRIOR}], ids=["main effects", "separate"])
def test_two_missing_records_agree_with_a_sum_over_cells_and_a_grid(people, how):
    fitted = abo.Synthesizer(**how).fit(people)
    release = fitted.sample(datasets=2, rows=12, rng_for_tests=np.random.default_rng(4))
    everyone = Question.of(records_of_release(people, release), release).leave_one_out()
    shared = MissingInCells.of(everyone, [np.array([2, 5])], ())
    states = [each for turn in range(2) for each in shared.draw(np.random.default_rng(turn), chains=32)]
    truth = everyone.records.values[[2]]
    near = Intervals(truth - 4.0, truth + 4.0)
    found = beliefs_of(shared, states, 0, 0, near, None, Points())
    grid, joint = on_a_grid(shared, everyone.datasets, STEP, (16.0, 104.0))
    of_cells = joint.sum(axis=(1, 2, 3))
    error = found.probability_by_chain.std(axis=0, ddof=1) / np.sqrt(len(found.probability_by_chain))
    assert np.all(np.abs(found.probability - of_cells) < 6 * error + 0.01)
    own = int(everyone.records.cells[2])
    density = joint[own].sum(axis=(0, 2)) / STEP
    expected = np.interp(truth[0, 0], grid, np.log(density))
    assert abs(found.log_density - expected) < 6 * found.log_density_error + 0.05
    below = np.interp(truth[0, 0] + np.array([-4.0, 4.0]), grid + STEP / 2, np.cumsum(density) * STEP)
    inside = below[1] - below[0]
    assert abs(found.within[0] - inside / of_cells[own]) < 6 * found.within_error[0] + 0.02


@pytest.mark.parametrize("kind", ["datasets", "parameters"])
def test_in_one_cell_it_is_the_sampler_of_measurements(kind):
    """An adversary with the mechanism's own prior goes by the general road."""
    values = np.random.default_rng(6).normal(size=(20, 2))
    values[0] = [5.0, -5.0]
    table = pd.DataFrame(values, columns=["a", "b"])
    fitted, rng = abo.Synthesizer().fit(table), np.random.default_rng(7)
    release = fitted.sample(datasets=4, rng_for_tests=rng)
    if kind == "parameters":
        release = fitted.sample_parameters(4, rng_for_tests=rng)
    records, some = records_of_release(table, release), np.array([0, 4, 9])
    usual, general = (
        risk_columns(
            records, release, abo.Adversary(lacking_records=[3, 7], prior=prior), mass=False, rng=rng, rows=some
        )
        for prior in (None, release.prior)
    )
    for name in ("probability_a", "probability_b", "information_gain"):
        of = "information_gain_error" if name == "information_gain" else name.replace("ity_", "ity_error_")
        error = 6 * np.hypot(usual[of], general[of])
        assert np.all(np.abs(usual[name] - general[name]) < error + 0.05), name
    for name in ("baseline_a", "baseline_distance"):
        np.testing.assert_allclose(general[name], usual[name], rtol=1e-8)


def test_a_release_of_a_table_that_lacked_the_missing_tells_of_nobody_missing(people):
    """What was released before any of them came leaves their posterior as it is."""
    release = abo.Synthesizer().fit(people).sample(datasets=2, rng_for_tests=np.random.default_rng(4))
    early = abo.Synthesizer().fit(people.iloc[:10]).sample(datasets=3, rng_for_tests=np.random.default_rng(5))
    records = records_of_release(people, release)
    everyone = Question.of(records, release).leave_one_out()
    part = Question.of(records.take(slice(0, 10)), early).leave_one_out()
    both, near = replace(everyone, rest=(part,)), Intervals(np.array([[45.0]]), np.array([[55.0]]))
    found = []
    for each in (everyone, both):
        shared = MissingInCells.of(each, [np.array([11, 13])], ())
        states = shared.draw(np.random.default_rng(1))
        found.append(beliefs_of(shared, states, 0, 0, near, 1.0, Points()))
    np.testing.assert_allclose(found[1].probability, found[0].probability, rtol=1e-9)
    np.testing.assert_allclose(found[1].within, found[0].within, rtol=1e-9)
