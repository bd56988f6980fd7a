"""The one rule: its probabilities against quadrature and brute force, calibrated; its tolerances; its verdicts."""

import os

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr

import allbutone as abo
from allbutone.adversary.integrate import Intervals, integrate
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.modes import find_modes
from allbutone.adversary.proposal import Points
from allbutone.disclosure.measures import Effort, measure, prior_probability
from allbutone.disclosure.rule import Rule, near_truth, tolerances
from allbutone.releases.release import Release
from allbutone.tables.records import Records
from pages import ROOT

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))


def problem_of(rng, p, kind, count, people=40, outlier=4.0):
    """The posterior of a table's first record, which stands out, after a release; and the record."""
    values = rng.standard_normal((people, p)) @ rng.standard_normal((p, p))
    values[0] += outlier * values.std(axis=0)
    prior = abo.NIW.flat(p)
    model = prior.update(values)
    release = (
        Release.draw_parameters(model, count, rng)
        if kind == "parameters"
        else Release.draw(model, [people] * count, rng)
    )
    everyone = LeaveOneOut.of(values, release, prior, None, "record")
    return everyone.problem(np.array([0]), ()), values[0]


def some_intervals(rng, problem, truth):
    reach = rng.uniform(0.2, 2.0, problem.p) * np.sqrt(np.sum(problem.root[0] ** 2, axis=-1) / problem.df)
    return Intervals((truth - reach)[None], (truth + reach)[None])


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("p", [1, 2])
def test_probabilities_are_those_of_quadrature(rng, kind, count, p):
    problem, truth = problem_of(rng, p, kind, count)
    near = some_intervals(rng, problem, truth)
    found = integrate(problem, find_modes(problem), None, Points.of(rng), 2048, 8, near)
    # a fine grid over all that matters, in whitened coordinates
    modes = find_modes(problem)
    reach = np.max(np.abs(modes.best)) + 14 / np.sqrt(problem.df)
    line = np.linspace(-reach, reach, 4001 if p == 1 else 801)
    grid = np.stack(np.meshgrid(*[line] * p, indexing="ij"), axis=-1).reshape(-1, p)
    heights = problem.value(grid)
    weights = np.exp(heights - heights.max())
    records = problem.centre[0] + grid @ problem.root[0].T
    for column in range(p):
        inside = (records[:, column] >= near.low[0, column]) & (records[:, column] <= near.high[0, column])
        exact = np.sum(weights * inside) / np.sum(weights)
        assert abs(found.within[0, column] - exact) < 3 * found.within_error[0, column] + 4e-3


def test_probabilities_are_those_of_brute_force(rng):
    """Five columns: candidates drawn from what the others say, each weighed by how likely it makes the release."""
    problem, truth = problem_of(rng, 5, "datasets", 2, people=60, outlier=0.3)
    near = some_intervals(rng, problem, truth)
    found = integrate(problem, find_modes(problem), None, Points.of(rng), 2048, 8, near)
    df = float(problem.df) + 1 - problem.p
    normal, chi = rng.standard_normal((200_000, 5)), rng.chisquare(df, (200_000, 1))
    white = normal / np.sqrt(chi * problem.inflation)
    log_prior = -0.5 * (float(problem.df) + 1) * np.log1p(problem.inflation * np.sum(white**2, axis=1))
    log_weights = problem.value(white) - log_prior
    weights = np.exp(log_weights - log_weights.max())
    records = problem.centre[0] + white @ problem.root[0].T
    inside = (records >= near.low[0]) & (records <= near.high[0])
    share = weights @ inside / weights.sum()
    error = np.sqrt(np.sum((weights[:, None] * (inside - share)) ** 2, axis=0)) / weights.sum()
    assert np.all(np.abs(found.within[0] - share) < 3 * np.hypot(error, found.within_error[0]) + 1e-3)


def test_without_a_release_a_column_is_a_student_t(rng):
    problem, truth = problem_of(rng, 3, "datasets", 2)
    near = some_intervals(rng, problem, truth)
    kappa = problem.inflation / (1 - problem.inflation)
    scale = problem.root[0] @ problem.root[0].T  # Λ of the others
    freedom = float(problem.df) + 1 - 3
    spread = np.sqrt(np.diag(scale) * (kappa + 1) / (kappa * freedom))
    low, high = ((end[0] - problem.centre[0]) / spread for end in (near.low, near.high))
    exact = stdtr(freedom, high) - stdtr(freedom, low)
    assert prior_probability(problem, near)[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_adversaries_are_calibrated(rng, kind):
    """Of all intervals that are given a probability around u, a share u holds the truth."""
    believed, right = [], []
    for _ in range(2000 if LONG else 150):
        p, people, count = 2, 15, 3
        others = rng.standard_normal((people, p))
        prior = abo.NIW.flat(p)
        student = prior.update(others).predictive()
        target = student.draw(rng, 1)[0]
        table = np.concatenate([target[None], others])
        model = prior.update(table)
        release = (
            Release.draw_parameters(model, count, rng)
            if kind == "parameters"
            else Release.draw(model, [people] * count, rng)
        )
        problem = LeaveOneOut.of(table, release, prior, None, "record").problem(np.array([0]), ())
        middle = rng.standard_normal(p)
        reach = rng.uniform(0.3, 2.0, p)
        near = Intervals((middle - reach)[None], (middle + reach)[None])
        found = integrate(problem, find_modes(problem), None, Points(), 256, 4, near)
        believed.append(found.within[0])
        right.append((target >= near.low[0]) & (target <= near.high[0]))
    believed, right = np.array(believed).ravel(), np.array(right).ravel()
    for low, high in ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.01)):
        these = (believed >= low) & (believed < high)
        spread = np.sqrt(np.sum(believed[these] * (1 - believed[these])))
        # the two columns of a record are not independent of one another
        assert abs(np.sum(right[these]) - np.sum(believed[these])) < 3 * np.sqrt(2) * spread + 1


def test_tolerances_that_are_not_declared_reach_half_way_to_the_others(rng):
    values = np.exp(rng.standard_normal((50, 2)))
    schema = {"columns": {"a": {"scale": "log"}}}
    records = Records.of(pyarrow.table({"a": values[:, 0], "b": values[:, 1]}), schema=schema)
    near = near_truth(records)
    others = (50 * records.values.mean(axis=0) - records.values) / 49
    spread = records.values.std(axis=0, ddof=1)
    width = np.maximum(np.abs(records.values - others) / 2, spread / 4)
    np.testing.assert_allclose(near.high, records.values + width)
    np.testing.assert_allclose(near.low, records.values - width)
    far = np.abs(records.values - others) >= 2 * spread
    assert 0 < far.sum() < 15
    np.testing.assert_allclose(near.others, np.where(far, others, np.nan))
    told = tolerances(records, near)
    for place, name, natural in ((0, "a", np.exp), (1, "b", lambda x: x)):
        halfway = natural((records.values[:, place] + others[:, place]) / 2)
        np.testing.assert_allclose(told[f"beyond_{name}"], np.where(far[:, place], halfway, np.nan))
        np.testing.assert_allclose(told[f"others_{name}"], natural(near.others[:, place]))


def test_a_declared_tolerance_always_wins(rng):
    values = np.exp(rng.standard_normal((50, 2)))
    values[0] = 40, 60  # far out, and known only within what is declared
    schema = {"columns": {"a": {"scale": "log", "tolerance": 0.5}, "b": {"tolerance": 0.01}}}
    records = Records.of(pyarrow.table({"a": values[:, 0], "b": values[:, 1]}), schema=schema)
    near = near_truth(records)
    np.testing.assert_allclose(np.exp(near.high[:, 0]), values[:, 0] + 0.5)
    np.testing.assert_allclose(np.exp(near.low[:, 0]), np.maximum(values[:, 0] - 0.5, 0), atol=1e-12)
    np.testing.assert_allclose(near.high[:, 1] - near.low[:, 1], 0.02)
    assert np.isnan(near.others).all()


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.05, 0.95))
def test_disclosed_is_what_the_release_made_sure(after, before, probability):
    rule = Rule(probability)
    flag = bool(rule.discloses(np.array([after]), np.array([before]))[0])
    if flag:
        assert after >= probability
        assert max(probability, 0.5) > before
        assert after * (1 - before) >= 2 * before * (1 - after) * (1 - 1e-12)
    needed = float(rule.needed(np.array([before]))[0])
    assert flag == (after >= needed) or after == pytest.approx(needed, rel=1e-9)
    columns = {"probability_x": np.array([after]), "baseline_x": np.array([before])}
    judged = rule.judge(columns)
    assert bool(judged["disclosed"][0]) == bool(judged["risk"][0] >= probability) == flag


def test_what_cannot_be_computed_is_disclosed_and_what_is_missing_is_not():
    flags = Rule().discloses(np.array([np.nan, np.nan, 0.9]), np.array([0.1, np.nan, 0.1]))
    assert flags.tolist() == [True, False, True]


def test_units_do_not_matter(rng):
    values = rng.standard_normal((40, 3))
    values[3] += 5
    prior = abo.NIW.flat(3)
    release = Release.draw(prior.update(values), [40] * 4, rng)
    scale, shift = np.array([1e3, 1e-2, 7.0]), np.array([100.0, -3.0, 0.0])
    moved = Release.of([each * scale + shift for each in release.values])
    found = []
    for table, drawn in ((values, release), (values * scale + shift, moved)):
        records = Records(table, ("a", "b", "c"))
        everyone = LeaveOneOut.of(table, drawn, prior, None, "record")
        found.append(
            measure(everyone.problem(np.arange(40), ()), table, Effort(size=512), near=near_truth(records))
        )
    error = 4 * np.hypot(found[0].probability_error, found[1].probability_error) + 1e-3
    assert np.all(np.abs(found[0].probability - found[1].probability) < error)
    assert found[0].baseline == pytest.approx(found[1].baseline, abs=1e-9)


def test_near_the_limit_other_points_do_not_change_the_verdict(rng):
    """A limit a little above the probability, one a little below, and one that nobody can tell from it."""
    problem, truth = problem_of(rng, 1, "datasets", 4)
    near, modes = some_intervals(rng, problem, truth), find_modes(problem)
    closely = integrate(problem, modes, None, Points(1), 1 << 14, 8, near).within
    for off in (0.02, -0.02, 0.0):
        limits = closely + off
        for seed in range(2, 5):
            found = integrate(problem, modes, None, Points(seed), 32, 4, near, limits)
            np.testing.assert_array_equal(found.within >= limits, [[off <= 0]])
            assert np.all(np.abs(found.within - closely) < 6 * found.within_error + 1e-3)


def test_who_is_clearly_beyond_one_limit_gets_no_points_to_decide_another():
    """The verdict on a person is decided by one value; the numbers are then those without any limits."""
    rng = np.random.default_rng(2)
    problem, truth = problem_of(rng, 2, "datasets", 4)
    near, modes = some_intervals(rng, problem, truth), find_modes(problem)
    plain = integrate(problem, modes, None, Points(2), 32, 4, near)
    limits = plain.within.copy()
    limits[:, 0] = 0.0  # every other one is as near its limit as can be
    found = integrate(problem, modes, None, Points(2), 32, 4, near, limits)
    clear = plain.within[:, 0] > 4 * plain.within_error[:, 0] + 0.01
    assert clear.any()
    np.testing.assert_array_equal(found.within[clear], plain.within[clear])
    limits[:, 0] = np.inf
    again = integrate(problem, modes, None, Points(2), 32, 4, near, limits)
    assert np.all(again.within_error[:, 1] < plain.within_error[:, 1])


def test_a_rule_of_another_probability_decides_at_that_one():
    rng, prior = np.random.default_rng(8), abo.NIW.flat(1)
    values = rng.standard_normal((30, 1))
    values[0] = 8.0
    release = Release.draw(prior.update(values), [30] * 5, rng, columns=("x",), prior=prior)

    def known(probability):
        found = abo.risk(
            Records(values, ("x",)), release, probability=probability, mass=False, rng=np.random.default_rng(1)
        )
        return [float(found.to_pydict()[f"{name}_x"][0]) for name in ("probability", "probability_error")]

    usual, usual_error = known(0.5)
    assert 0.3 < usual < 0.99
    assert abs(usual - 0.5) > 0.05
    near, near_error = known(usual)
    assert near_error < 0.7 * usual_error
    assert abs(near - usual) < 6 * usual_error


def test_the_rule_is_worded_once():
    page = (ROOT / "docs" / "rule.md").read_text(encoding="utf-8")
    assert Rule().in_words in " ".join(page.split())
