"""Risk per record and the budget: each measure beside its baseline, each verdict by the one rule."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import logsumexp

import allbutone as abo
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.disclosure import simulated_budget
from allbutone.disclosure.budget import Budget
from allbutone.disclosure.budget_case import Case
from allbutone.disclosure.lineup import LARGEST_BUDGET, Lineup
from allbutone.disclosure.measures import prior_mass
from allbutone.disclosure.risk import risk_columns, with_prior
from allbutone.disclosure.rule import ALL_BUT_ONE, BASELINE, PROBABILITY, REST_KNOWN, Rule
from allbutone.releases.mechanism import Mechanism

PRIOR = abo.NIW.default(2)


@pytest.fixture(scope="module")
def table():
    values = np.random.default_rng(4).standard_normal((30, 2))
    values[6] = [5.0, -4.0]
    return abo.Records(values, ("bmi", "ldl"))


def released(table, kind, count, rows=25):
    synthesizer = abo.Synthesizer(abo.NIW.default(len(table.columns))).fit(table)
    if kind == "parameters":
        return synthesizer.sample_parameters(count, rng_for_tests=np.random.default_rng(1))
    return synthesizer.sample(datasets=count, rows=rows, rng_for_tests=np.random.default_rng(1))


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("count", [1, 4])
def test_mass_and_gain_agree_with_a_fine_grid(table, kind, count):
    """p = 2: the posterior on a grid, record by record, to four standard errors of the integral, 1.7e-4."""
    release = released(table, kind, count)
    found = risk_columns(table, release)
    for row in (0, 6, 13):
        others, record = np.delete(table.values, row, axis=0), table.values[row]
        posterior, crowd = abo.posterior(others, release, prior=PRIOR), PRIOR.update(others)
        spread = 1 / np.sqrt(np.linalg.eigvalsh(-posterior.modes.hessian)[0])
        reach = max(14 * spread, 14 / np.sqrt(crowd.df)) + np.linalg.norm(posterior.modes.best)
        axis = np.linspace(-reach, reach, 1601)
        points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        values = np.concatenate([posterior.value(part) for part in np.array_split(points, 40)])
        step = axis[1] - axis[0]
        total = logsumexp(values) + 2 * np.log(step)
        gain = posterior.value(posterior.whiten(record)) - total - posterior.log_volume
        gain -= crowd.predictive().log_density(record)
        assert found["information_gain"][row] == pytest.approx(float(gain), abs=7e-4)
        away = np.sqrt(np.sum((points - posterior.whiten(record)) ** 2, axis=1) * crowd.df)
        share = np.clip(0.5 + (1 - away) / (step * np.sqrt(crowd.df)), 0, 1)
        mass = np.sum(np.exp(values - total) * share) * step**2
        assert found["mass"][row] == pytest.approx(mass, abs=7e-4)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("count", [1, 5])
def test_mass_and_gain_of_a_single_column_agree_with_quadrature(table, kind, count):
    """p = 1, to 1e-4: against the exact posterior on the line."""
    single = abo.Records(table.values[:, :1], ("bmi",))
    release = released(single, kind, count)
    found = risk_columns(single, release)
    prior = abo.NIW.default(1)
    for row in (0, 6):
        others, record = np.delete(single.values, row, axis=0), single.values[row]
        posterior = abo.posterior(others, release, prior=prior)
        gain = posterior.log_density(record) - prior.update(others).predictive().log_density(record)
        assert found["information_gain"][row] == pytest.approx(float(gain), abs=1e-4)
        assert found["mass"][row] == pytest.approx(float(posterior.mass_within(record, 1.0)), abs=1e-4)


def test_the_baseline_mass_is_the_student_t_s(table, rng):
    release = released(table, "parameters", 3)
    problem = LeaveOneOut.of(table.values, release, PRIOR, None, "record").problem(np.arange(30), ())
    ours = prior_mass(problem, problem.whiten(table.values), 2.0)
    for row in (0, 6):
        crowd = PRIOR.update(np.delete(table.values, row, axis=0))
        draws = crowd.predictive().draw(rng, 200_000)
        away = np.sum(np.linalg.solve(crowd.root, (draws - table.values[row]).T) ** 2, axis=0) * crowd.df
        share = np.mean(away <= 4.0)
        assert abs(ours[row] - share) < 5 * np.sqrt(share * (1 - share) / 200_000) + 2e-5


def test_measures_are_what_the_attack_says(table):
    release = released(table, "datasets", 6)
    found = risk_columns(table, release, mass=False)
    everyone = abo.attack(table.values, release, rows="all", prior=PRIOR)
    np.testing.assert_allclose(found["distance"], np.linalg.norm(everyone.mode - table.values, axis=1), rtol=1e-8)
    np.testing.assert_allclose(found["error_bmi"], (everyone.mode - table.values)[:, 0], rtol=1e-6, atol=1e-9)
    for row in (0, 6):
        crowd = PRIOR.update(np.delete(table.values, row, axis=0))
        distance = np.linalg.norm(crowd.mean - table.values[row])
        assert found["baseline_distance"][row] == pytest.approx(distance)
        metric = np.linalg.inv(crowd.scale)
        off, base = everyone.mode[row] - table.values[row], crowd.mean - table.values[row]
        assert found["relative_error"][row] == pytest.approx(np.sqrt(off @ metric @ off / (base @ metric @ base)))


def test_a_single_release_shows_its_risk_through_gain_not_distance(table):
    found = risk_columns(table, released(table, "parameters", 1))
    assert abs(found["exposure"][6]) < 0.2
    assert found["information_gain"][6] > 1.5
    assert found["mass"][6] > 10 * found["prior_mass"][6]
    assert np.median(np.abs(found["information_gain"])) < 0.5


def test_no_relative_measure_changes_with_scale_or_rotation(table):
    release = released(table, "datasets", 3)
    turn, shift = np.array([[3.0, 40.0], [-2.0, 50.0]]), np.array([7.0, -300.0])
    moved = abo.Records(table.values @ turn.T + shift, table.columns)
    prior = abo.NIW(turn @ PRIOR.mean + shift, 1.0, 4.0, turn @ PRIOR.scale @ turn.T)
    there = abo.Release.of([z @ turn.T + shift for z in release.values], table.columns, prior)
    ours, theirs = (
        risk_columns(*pair, rng=np.random.default_rng(1)) for pair in ((table, release), (moved, there))
    )
    for name, tolerance in (
        ("relative_error", 1e-6),
        ("exposure", 1e-6),
        ("information_gain", 2e-3),
        ("mass", 2e-3),
    ):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=tolerance, atol=tolerance)


def test_what_the_adversary_knows_is_not_an_error(table):
    release = released(table, "datasets", 3)
    found = risk_columns(table, release, adversary=abo.Adversary(known=["ldl"]))
    assert "error_ldl" not in found
    assert "probability_ldl" not in found
    assert set(found["riskiest"]) == {"bmi"}
    np.testing.assert_allclose(found["distance"], np.abs(found["error_bmi"]))
    assert np.all(found["baseline_distance"] > 0)


def test_the_verdict_is_the_rule_s_on_the_columns_beside_it(table):
    """Disclosed exactly where the risk is the asked probability or more, and by the column that is named."""
    release = released(table, "datasets", 4)
    for probability in (0.8, 0.5, 0.3):
        found = risk_columns(table, release, rule=Rule(probability), mass=False)
        np.testing.assert_array_equal(found["disclosed"], found["risk"] >= probability)
        pairs = [
            (found[known + PROBABILITY + name], found[known + BASELINE + name])
            for known in ("", REST_KNOWN)
            for name in table.columns
        ]
        np.testing.assert_array_equal(
            found["disclosed"], np.any([Rule(probability).discloses(*pair) for pair in pairs], axis=0)
        )
        for place in np.flatnonzero(found["disclosed"]):
            known = REST_KNOWN if found["adversary"][place] == ALL_BUT_ONE else ""
            assert found["risk"][place] == found[known + PROBABILITY + found["riskiest"][place]][place]
    assert found["disclosed"][6]


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.5, np.nan])
def test_a_probability_lies_between_0_and_1(table, probability):
    with pytest.raises(abo.InputError, match="between 0 and 1"):
        abo.risk(table, released(table, "datasets", 1), probability=probability)
    with pytest.raises(abo.InputError, match="between 0 and 1"):
        abo.budget(table, PRIOR, rows=30, probability=probability)


@pytest.mark.parametrize("names", [("bmi", "distance"), ("x", "error_x")])
def test_names_that_would_be_told_twice_are_refused_in_one_line(table, names):
    named = abo.Records(table.values, names)
    with pytest.raises(abo.InputError, match="twice") as caught:
        risk_columns(named, released(named, "datasets", 1))
    assert names[1] in str(caught.value)
    # what the adversary knows is not told of
    others = abo.Adversary(known=[names[1]])
    assert len(risk_columns(named, released(named, "datasets", 1), others, mass=False)["risk"]) == 30


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_dataframes_go_back_in_the_callers_library(table, library):
    frame = library({name: table.values[:, place] for place, name in enumerate(table.columns)})
    found = abo.risk(frame, released(table, "datasets", 2), mass=False)
    assert isinstance(found.frame, library)
    verdict = ["row", "disclosed", "risk", "riskiest", "adversary", "membership", "membership_disclosed"]
    assert list(found.columns)[: len(verdict)] == verdict
    told = [name for name in found.columns if name.endswith("_bmi")]
    assert told == [
        "probability_bmi",
        "baseline_bmi",
        "probability_error_bmi",
        "tolerance_bmi",
        "beyond_bmi",
        "others_bmi",
        "rest_known_probability_bmi",
        "rest_known_baseline_bmi",
        "rest_known_probability_error_bmi",
        "rest_known_tolerance_bmi",
        "rest_known_beyond_bmi",
        "rest_known_others_bmi",
        "error_bmi",
    ]
    allowed = abo.budget(frame, PRIOR, rows=30).to_frame()
    assert isinstance(allowed, library)
    assert list(allowed.columns)[:2] == ["row", "leverage"]


def test_another_mechanism_is_refused_with_the_difference(table):
    release = released(table, "datasets", 2)
    other = abo.Records(table.values, ("bmi", "hdl"))
    with pytest.raises(abo.InputError, match="hdl"):
        risk_columns(other, release)
    with pytest.raises(abo.InputError, match="df"):
        with_prior(release, abo.NIW(np.zeros(2), 1.0, 9.0, np.eye(2)))
    with pytest.raises(abo.InputError, match="radius must exceed 0"):
        risk_columns(table, release, radius=-1.0)


def case_of(records, prior, rows):
    """A table of measurements, to be released in datasets of so many rows."""
    schema = records.schema.for_columns(records.columns)
    return Case.of(records, Mechanism.of_measurements(schema, prior), rows, Rule(), 1)


@pytest.fixture(scope="module")
def plan(table):
    return abo.budget(table, PRIOR, rows=30, alternatives=True, rng=1)


def test_the_budget_says_who_sets_it(table, plan):
    assert plan.limiting_row == 7
    assert plan.limiting_column in (*table.columns, "membership")
    assert f"{plan.limiting_column} of row 7 sets the limit" in plan.sentence
    at = plan.simulated.tried[max(plan.in_all, 1)]
    assert (at.disclosing <= simulated_budget.ACCEPTED) == (plan.in_all > 0)
    columns = plan.columns((1, 10))
    assert np.argmax(columns[f"chance_at_{2 * max(plan.in_all, 1)}"]) == 6
    np.testing.assert_allclose(columns["exposure_at_10"], plan.law.exposure(plan.leverage, 10))


def test_alternatives_come_with_the_numbers_of_tables_made_so(table, plan):
    """Each number is the closed form's for the changed table; whom it is about need not be told anew."""
    found = {each.change: each.datasets for each in plan.alternatives}
    without = abo.Records(np.delete(table.values, 6, axis=0), table.columns)
    assert found["leave row 7 out"] == Lineup.of(without, PRIOR, 30, plan.rule).most()
    assert found["leave row 7 out"] > plan.confident_count
    assert found["datasets of 60 rows"] == Lineup.of(table, PRIOR, 60, plan.rule).most()
    assert found["datasets of 3 rows"] >= found["datasets of 15 rows"] >= found["datasets of 60 rows"]
    (change,) = (each.change for each in plan.alternatives if each.drop)
    kept = next(name for name in table.columns if change != f"leave the column {name} out")
    alone = abo.Records(table.values[:, [table.columns.index(kept)]], (kept,))
    assert found[change] == Lineup.of(alone, abo.NIW.default(1), 30, plan.rule).most()
    assert found["a public prior worth 30 people that agrees with the table"] > plan.confident_count
    assert abo.budget(table, PRIOR, rows=30, rng=1).alternatives == ()


def test_what_was_released_earlier_counts(monkeypatch):
    """On average less is left than there was, and nothing where far more is out than the budget allowed."""
    monkeypatch.setattr(simulated_budget, "RELEASES", 60)
    monkeypatch.setattr(simulated_budget, "ACCEPTED", 3)
    column = abo.Records(np.clip(np.random.default_rng(2).standard_normal((60, 1)), -1.6, 1.6), ("bmi",))
    synthesizer = abo.Synthesizer(abo.NIW.default(1)).fit(column)
    asked = {"rows": 60, "rng": 1}
    whole = abo.budget(column, synthesizer.prior, **asked).confident_count
    half, left = whole // 2, []
    for seed in (1, 2, 3):
        before = synthesizer.sample(datasets=half, rows=60, rng_for_tests=np.random.default_rng(seed))
        plan = abo.budget(column, synthesizer.prior, release=before, **asked)
        assert f"{whole:,} in all, and {half:,} are out" in plan.sentence
        left.append(plan.confident_count)
    # fewer than planned may follow where the earlier ones happened to tell much, more never
    assert 0 < np.mean(left) <= whole - half
    far = synthesizer.sample(datasets=8 * whole, rows=60, rng_for_tests=np.random.default_rng(1))
    plan = abo.budget(column, synthesizer.prior, release=far, **asked)
    assert plan.sentence.startswith("No more datasets of 60 rows may be released")


def test_a_stricter_rule_allows_less(table):
    counts = [Lineup.of(table, PRIOR, 30, Rule(probability)).most() for probability in (0.2, 0.5, 0.9)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


@pytest.mark.parametrize(
    ("rows", "count", "start"),
    [
        (30, 0, "Not even one dataset of 30 rows may be released"),
        (30, 1, "One dataset of 30 rows may be released, but not two, if"),
        (None, 1, "One parameter draw may be released"),
        (30, 9, "Up to 9 datasets of 30 rows may be released"),
        (30, LARGEST_BUDGET, "At least 1,000,000 datasets of 30 rows, the most that were tried, may be released"),
    ],
)
def test_the_verdict_is_a_sentence(table, rows, count, start):
    plan = Budget(case=case_of(table, PRIOR, rows), in_all=count, limiting_row=7, limiting_column="ldl")
    assert plan.sentence.startswith(start)
    assert plan.sentence.endswith("ldl of row 7 sets the limit.")
    assert "closed form" in plan.assumptions


def test_a_budget_is_never_half_built(table):
    with pytest.raises(TypeError, match="in_all"):
        Budget(case=case_of(table, PRIOR, 30), limiting_row=1, limiting_column="bmi")  # type: ignore[call-arg]


def test_a_prior_that_says_all_lets_anything_out_after_few_trials(table):
    """Trying ever more datasets where nothing limits them would take minutes."""
    tried = []
    prior = abo.NIW(np.zeros(2), 1e9, 1e9, 1e9 * np.eye(2))
    plan = abo.budget(table, prior, rows=None, rng=1, watch=tried.append)
    assert "the most that were tried" in plan.sentence
    assert len(tried) <= 7


def test_plan_budget_takes_any_table(table, few_trials):
    plans = [abo.budget(given, PRIOR, rows=30, rng=1) for given in (table, table.values)]
    assert [each.confident_count for each in plans] == [plans[0].confident_count] * 2
    checks = [plan.verify(3, rng=1) for plan in plans]
    assert checks[0] == checks[1]
    assert 8 <= checks[0]["attacked"] <= len(table.values)
