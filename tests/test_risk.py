"""Risk per record and the budget: each measure beside its baseline, each verdict beside its proof."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from allbutone.disclosure.limits import Limit
from allbutone.disclosure.trials import standing_out
from scipy.special import logsumexp

import allbutone as abo
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.disclosure.budget import Budget, chances
from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.measures import prior_mass
from allbutone.disclosure.per_record import risk_columns
from allbutone.record_view.attack_view import of_record, view_attack

PRIOR = abo.NIW.default(2)


@pytest.fixture(scope="module")
def table():
    values = np.random.default_rng(4).standard_normal((30, 2))
    values[6] = [5.0, -4.0]
    return abo.Records(values, ("bmi", "ldl"))


def released(table, kind, count, rows=25):
    synthesizer = abo.NIWSynthesizer(abo.NIW.default(len(table.columns))).fit(table)
    if kind == "parameters":
        return synthesizer.sample_parameters(count, rng_for_tests=np.random.default_rng(1))
    return synthesizer.sample(datasets=count, rows=rows, rng_for_tests=np.random.default_rng(1))


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("count", [1, 4])
def test_mass_and_gain_agree_with_a_fine_grid(table, kind, count):
    """p = 2, to 1e-4: the posterior on a grid, record by record."""
    release = released(table, kind, count)
    found = risk_columns(table, release)
    for row in (0, 6, 13):
        others, record = np.delete(table.values, row, axis=0), table.values[row]
        posterior, crowd = abo.posterior(others, release, PRIOR), PRIOR.update(others)
        spread = 1 / np.sqrt(np.linalg.eigvalsh(-posterior.modes.hessian)[0])
        reach = max(14 * spread, 14 / np.sqrt(crowd.df)) + np.linalg.norm(posterior.modes.best)
        axis = np.linspace(-reach, reach, 1601)
        points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        values = np.concatenate([posterior.value(part) for part in np.array_split(points, 40)])
        step = axis[1] - axis[0]
        total = logsumexp(values) + 2 * np.log(step)
        gain = posterior.value(posterior.whiten(record)) - total - posterior.log_volume
        gain -= crowd.predictive().log_density(record)
        assert found["information_gain"][row] == pytest.approx(float(gain), abs=1e-4)
        away = np.sqrt(np.sum((points - posterior.whiten(record)) ** 2, axis=1) * crowd.df)
        share = np.clip(0.5 + (1 - away) / (step * np.sqrt(crowd.df)), 0, 1)
        mass = np.sum(np.exp(values - total) * share) * step**2
        assert found["mass"][row] == pytest.approx(mass, abs=1e-4)


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
        posterior = abo.posterior(others, release, prior)
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
    everyone = abo.attack_all(table.values, release, PRIOR)
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
    there = abo.DatasetRelease([z @ turn.T + shift for z in release.datasets], table.columns, prior)
    ours, theirs = (
        risk_columns(*pair, rng=np.random.default_rng(1)) for pair in ((table, release), (moved, there))
    )
    for measure, tolerance in (
        ("relative_error", 1e-6),
        ("exposure", 1e-6),
        ("information_gain", 2e-3),
        ("mass", 2e-3),
    ):
        np.testing.assert_allclose(ours[measure], theirs[measure], rtol=tolerance, atol=tolerance)


def test_what_the_adversary_knows_is_not_an_error(table):
    release = released(table, "datasets", 3)
    found = risk_columns(table, release, known=["ldl"])
    assert not found["error_ldl"].any()
    np.testing.assert_allclose(found["distance"], np.abs(found["error_bmi"]))
    assert np.all(found["baseline_distance"] > 0)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_dataframes_go_back_in_the_callers_library(table, library):
    frame = library({name: table.values[:, place] for place, name in enumerate(table.columns)})
    found = abo.risk(frame, released(table, "datasets", 2), mass=False)
    assert isinstance(found, library)
    assert list(found.columns)[:5] == ["row", "distance", "baseline_distance", "relative_error", "exposure"]
    allowed = abo.budget(frame, PRIOR, rows=30, counts=(1, 10))
    assert isinstance(allowed, library)
    assert list(allowed.columns) == [
        "row", "leverage", "threshold_datasets", "max_datasets", "exposure_at_1", "exposure_at_10",
    ]  # fmt: skip


def test_another_mechanism_is_refused_with_the_difference(table):
    release = released(table, "datasets", 2)
    other = abo.Records(table.values, ("bmi", "hdl"))
    with pytest.raises(abo.InputError, match="hdl"):
        risk_columns(other, release)
    with pytest.raises(abo.InputError, match="df"):
        risk_columns(table, release, abo.NIW(np.zeros(2), 1.0, 9.0, np.eye(2)))
    with pytest.raises(abo.InputError, match="radius must exceed 0"):
        risk_columns(table, release, radius=-1.0)


def test_the_budget_says_who_sets_it_and_what_without(table):
    plan = abo.plan_budget(table, PRIOR, rows=30, rng=1)
    assert plan.limiting_row == 7
    assert plan.expected_count == int(plan.law.most(np.max(leverages(table.values, PRIOR)), 0.5))
    fewer = abo.Records(np.delete(table.values, 6, axis=0), table.columns)
    assert plan.expected_count_without == abo.plan_budget(fewer, PRIOR, rows=30, rng=1).expected_count
    assert plan.expected_count_without > plan.expected_count
    assert "row 7 sets the limit" in plan.sentence
    assert {row["measure"].split()[0] for row in plan.measures} == {"exposure", "information", "mass"}
    dropped = next(row for row in plan.what_if if row["change"].startswith("drop the 1"))
    assert dropped["datasets"] == plan.expected_count_without
    assert [row["rows"] for row in plan.row_tradeoff] == [3, 15, 30, 60, 300]
    columns = plan.columns()
    assert columns["max_datasets"][6] == plan.expected_count
    assert columns["confident_datasets"][6] == plan.confident_count
    assert np.all(columns["confident_datasets"] >= plan.confident_count)


@pytest.mark.parametrize("rows", [None, 30])
def test_the_confident_budget_keeps_its_promise(table, rows):
    """At the budget, releases of this very table seldom expose anyone; at three times it, often."""
    plan = abo.plan_budget(table, PRIOR, rows=rows, rng=1)
    kept = abo.verify_budget(table, PRIOR, plan, 150, rng=2)
    assert kept["low"] < 0.05 + 0.03
    beyond = replace(plan, confident_count=3 * max(plan.confident_count, 2))
    assert abo.verify_budget(table, PRIOR, beyond, 60, rng=3)["share"] > kept["share"]


@pytest.mark.parametrize("limit", ["exposure=0.5", "gain=1"])
def test_chances_are_those_of_releases_of_this_very_table(table, limit):
    """The row that sets the limit is found as often as its chance says, by attacks on 300 real releases."""
    plan = abo.plan_budget(table, PRIOR, rows=30, limit=limit, rng=1)
    count = 3 * max(plan.confident_count, 2)
    chance = chances(plan, count, 2)
    assert np.all((chance > 0) <= standing_out(plan.leverage))
    assert np.argmax(chance) == plan.limiting_row - 1
    rng, whole = np.random.default_rng(3), PRIOR.update(table.values)
    passed = []
    for _ in range(300):
        release = abo.DatasetRelease.draw(whole, [30] * count, rng, prior=PRIOR, columns=table.columns)
        found = view_attack(of_record(table, plan.limiting_row, release), count, size=2).measures
        by_exposure = found.relative_error <= 0.5
        passed.append(by_exposure if limit.startswith("exposure") else found.information_gain > 1.0)
    expected = chance[plan.limiting_row - 1]
    # two proportions, the simulated one of at least 200 replicates
    error = np.sqrt(max(expected * (1 - expected), 0.01) * (1 / 300 + 1 / 200))
    assert abs(np.mean(passed) - expected) < 5 * error


@pytest.mark.parametrize(
    ("rows", "count", "start"),
    [
        (30, 0, "Not even one dataset of 30 rows leaves every record below exposure 0.5"),
        (30, 1, "One dataset of 30 rows leaves every record"),
        (None, 1, "One parameter draw leaves every record"),
        (30, 9, "Up to 9 datasets of 30 rows leave every record"),
        (30, 50, "At least 50 datasets of 30 rows, the most that were tried, leave every record"),
    ],
)
def test_the_verdict_is_a_sentence(rows, count, start):
    plan = Budget(
        law=ExposureLaw.of(PRIOR, 30, rows),
        limit=Limit.of("exposure=0.5"),
        leverage=np.ones(30),
        rows=np.arange(1, 31),
        counts=(1,),
        confident_count=count,
        tried_up_to=50,
        limiting_row=7,
        expected_count=4,
        expected_count_without=20,
    )
    assert plan.sentence.startswith(start)
    assert plan.sentence.endswith(
        "expected (closed form): up to 4; row 7 sets the limit; without it up to 20 would be expected."
    )


def test_limits_by_gain_and_mass(table):
    by_gain = abo.plan_budget(table, PRIOR, rows=30, limit="gain=1", rng=1)
    assert by_gain.expected_count is None
    assert by_gain.confident_count < 3
    by_mass = abo.plan_budget(table, PRIOR, rows=30, limit="mass=0.5", rng=1)
    assert by_mass.confident_count >= by_gain.confident_count
    most = by_mass.columns()["max_datasets"]
    assert most[6] == most.min()


def test_a_limit_of_mass_is_set_by_the_record_likeliest_to_pass_it():
    """Little mass lies near an outlier before it is found: the highest leverage is not the first to pass."""
    values = np.random.default_rng(3).standard_normal((60, 3))
    plan = abo.plan_budget(values, abo.NIW.default(3), rows=60, limit="mass=0.05", rng=1)
    beyond = plan.own_chance[plan.confident_count + 1]
    assert plan.limiting_row != np.argmax(plan.leverage) + 1
    assert beyond[plan.limiting_row - 1] == np.max(beyond[standing_out(plan.leverage)])
    gained = next(row for row in plan.measures if row["measure"].startswith("mass"))
    assert gained["budget_95"] > 0.01  # the outlier's is below that
    # a record has no confident number at which it passes more often than once in twenty
    confident = plan.columns()["confident_datasets"]
    for count, chance in plan.own_chance.items():
        assert not np.any((confident == count) & (chance > 0.05))


@pytest.mark.parametrize(
    "text", ["exposure", "exposure=1", "exposure=0", "gain=x", "mass=2", "distance=3", "gain=inf"]
)
def test_limits_that_make_no_sense_are_refused(text):
    with pytest.raises(abo.InputError, match="a limit reads"):
        Limit.of(text)


@pytest.mark.parametrize("text", ["exposure=0.5", "gain=1", "mass=0.05"])
def test_a_limit_is_read_once_and_written_as_it_was_read(text):
    limit = Limit.of(text)
    assert limit.text == text
    assert Limit.of(limit) is limit


def test_budgets_take_a_limit_as_text_or_as_value(table):
    limit = Limit.of("exposure=0.25")
    by_text, by_value = (abo.budget(table, PRIOR, rows=30, limit=given) for given in (limit.text, limit))
    assert np.array_equal(by_text["max_datasets"], by_value["max_datasets"])
    assert abo.plan_budget(table, PRIOR, rows=30, limit=limit, counts=(), rng=1).limit == limit


def test_a_budget_is_never_half_built():
    with pytest.raises(TypeError, match="confident_count"):
        Budget(  # type: ignore[call-arg]
            law=ExposureLaw.of(PRIOR, 30, 30),
            limit=Limit.of("gain=1"),
            leverage=np.ones(30),
            rows=np.arange(1, 31),
            counts=(),
            tried_up_to=10,
            limiting_row=1,
        )


@pytest.mark.parametrize(("limit", "df"), [("gain=1e308", 4.0), ("mass=0.5", 1e9)])
@pytest.mark.parametrize("rows", [None, 30])
def test_limits_that_nothing_passes_are_answered_by_few_simulations(table, limit, df, rows):
    """Trying ever more datasets for a limit that binds nothing took minutes."""
    tried = []
    prior = abo.NIW(np.zeros(2), 1.0, df, np.eye(2))
    plan = abo.plan_budget(table, prior, rows=rows, limit=limit, rng=1, watch=tried.append)
    assert len(tried) <= 7
    assert plan.confident_count == plan.tried_up_to
    assert plan.never_passed
    assert "the most that were tried" in plan.sentence
    assert "no simulated release passed it" in plan.sentence
    assert np.all(plan.columns()["confident_datasets"] == plan.tried_up_to)


def test_counts_that_are_safe_for_all_are_not_tried_again(table):
    """Where a number is safe for everyone, fewer are: they would change no record's confident number."""
    tried = []
    plan = abo.plan_budget(table, PRIOR, rows=30, limit="exposure=0.8", counts=(), rng=1, watch=tried.append)
    assert plan.confident_count > 2
    few, again = range(1, plan.confident_count), []
    abo.plan_budget(table, PRIOR, rows=30, limit="exposure=0.8", counts=few, rng=1, watch=again.append)
    assert len(again) == len(tried)


@pytest.mark.parametrize("limit", ["gain=1e-300", "mass=1e-12", "exposure=1e-9"])
def test_limits_that_cannot_be_met_are_answered_by_few_simulations(table, limit):
    tried = []
    plan = abo.plan_budget(table, PRIOR, rows=None, limit=limit, counts=(), rng=1, watch=tried.append)
    assert plan.confident_count == 0
    assert not plan.never_passed
    assert len(tried) <= 4


def test_a_mass_that_cannot_be_told_from_certainty_is_no_limit():
    assert Limit.of("mass=0.99").value == 0.99
    with pytest.raises(abo.InputError, match="cannot be told from certainty"):
        Limit.of("mass=0.999999999")


def test_plan_budget_takes_any_table(table):
    plans = [abo.plan_budget(given, PRIOR, rows=30, counts=(), rng=1) for given in (table, table.values)]
    assert plans[0].sentence == plans[1].sentence
    checks = [abo.verify_budget(given, PRIOR, plans[0], 3, rng=1) for given in (table, table.values)]
    assert checks[0] == checks[1]
    assert checks[0]["attacked"] == np.sum(standing_out(plans[0].leverage))
