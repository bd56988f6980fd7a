"""What a guarantee would cost, from public figures alone."""

import re

import numpy as np
import pytest

import allbutone as abo
from allbutone.disclosure.guarantee_plan import useful


def table_file(p, **more):
    column = {"low": -8.0, "high": 8.0, "centre": 0.0, "spread": 1.0} | more
    return {"columns": {f"x{j}": column for j in range(p)}}


def test_the_plan_recommends_noise_where_it_is_useful_and_says_from_where():
    plan = abo.plan_guarantee(table_file(2), 500, (0.1, 1), delta=2e-5)
    assert plan.useful_from == 1
    assert "useful from ε = 1" in plan.sentence
    # what released draws were found to err by (tests/releases/test_private.py runs them): 0.096 at ε = 1
    assert plan.of("noise")[1]["correlation_error"] == pytest.approx(0.096, rel=0.1)
    errors = [[row["correlation_error"] for row in plan.of(route)] for route in ("no privacy", "noise")]
    assert errors[0][0] < errors[1][1] < errors[1][0]


def test_more_people_and_more_epsilon_cost_less():
    plans = [
        abo.plan_guarantee(table_file(2), n, level).of("noise")[0] for n, level in ((500, 1), (500, 9), (9000, 1))
    ]
    for name in ("mean_error", "spread_error", "correlation_error"):
        few, strong, many = (row[name] for row in plans)
        assert max(strong, many) < few


def test_without_a_guarantee_the_errors_are_those_of_simulated_releases(rng):
    """Within a quarter: normal tables of two columns, one draw of the posterior each, against the truth."""
    people, r, off = 500, 0.5, []
    prior, root = abo.NIW(np.zeros(2), 1e-9, 4.0, 1e-9 * np.eye(2)), np.linalg.cholesky([[1, r], [r, 1]])
    for _ in range(1000):
        means, covariances = prior.update(rng.standard_normal((people, 2)) @ root.T).draw(rng, 1)
        spread = np.sqrt(np.diagonal(covariances[0]))
        off.append([means[0, 0], spread[0] - 1, covariances[0, 0, 1] / np.prod(spread) - r])
    row = abo.plan_guarantee(table_file(2), people, 1, correlation=r).of("no privacy")[0]
    expected = [row[name] for name in ("mean_error", "spread_error", "correlation_error")]
    np.testing.assert_allclose(expected, np.sqrt(np.mean(np.square(off), axis=0)), rtol=0.25)


def test_it_says_plainly_that_nothing_useful_is_possible():
    plan = abo.plan_guarantee(table_file(20), 500, 1)
    assert plan.useful_from is None
    assert plan.sentence.startswith("Nothing useful is possible for 500 people and 20 columns up to ε = 1")
    assert not any(useful(row) for row in plan.rows if row["route"] != "no privacy")


def test_public_centres_and_spreads_cost_less_noise():
    limits = {"columns": {f"x{j}": {"low": -8.0, "high": 8.0} for j in range(2)}}
    wide, known = (abo.plan_guarantee(file, 500, 1).of("noise")[0] for file in (limits, table_file(2)))
    assert known["correlation_error"] < 0.8 * wide["correlation_error"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"people": 4}, "too few"),
        ({"epsilon": 0}, "exceed 0"),
        ({"delta": 0.1}, "1/500"),
        ({"correlation": 1.0}, "cannot all have the correlation"),
        ({"schema": {"columns": {"x": {"low": 0.0}}}}, "no low and high to x"),
    ],
)
def test_bad_input_is_refused(change, message):
    with pytest.raises(abo.InputError, match=message):
        abo.plan_guarantee(**({"schema": table_file(2), "people": 500, "epsilon": 1} | change))


def test_the_command_answers_in_words_numbers_and_a_picture(allbutone, tmp_path):
    (tmp_path / "t.toml").write_text("[columns.bmi]\nlow = 15\nhigh = 50\ncentre = 26\nspread = 5\n")
    code, out, err = allbutone("guarantee", "t.toml", "--people", 500, "--epsilon", "1,3")
    assert (code, err) == (0, "")
    for words in ("useful from ε = 1", "no guarantee", "Assumed:", "was not read", "synthesize TABLE"):
        assert words in re.sub(r"\s+", " ", out)
    assert "default-src 'none'" in (tmp_path / "guarantee.html").read_text(encoding="utf-8")
    code, _, err = allbutone("guarantee", "t.toml", "--people", 500, "--epsilon", "much", "--force")
    assert (code, err.count("\n")) == (2, 1)
