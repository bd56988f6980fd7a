"""Prior files, and the warning when the default does not fit."""

import json

import numpy as np
import pytest

import allbutone as abo
from allbutone.model.prior import declared_prior, prior_entries, prior_from, read_prior
from allbutone.tables.schema import Schema

COLUMNS = ("bmi", "ldl")


def read(tmp_path, text, name="prior.toml"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_prior(tmp_path / name, COLUMNS)


def test_mean_and_scale(tmp_path):
    prior = read(tmp_path, "mean = [1, 2]\nmean_weight = 2\ndf = 5\nscale = [[2.0, 0.5], [0.5, 1]]")
    assert (prior.mean_weight, prior.df) == (2, 5)
    np.testing.assert_array_equal(prior.mean, [1, 2])
    np.testing.assert_array_equal(prior.scale, [[2, 0.5], [0.5, 1]])


@pytest.mark.parametrize(("scale", "diagonal"), [("3", [3, 3]), ("[3, 4]", [3, 4])])
def test_scale_may_be_a_number_or_a_diagonal(tmp_path, scale, diagonal):
    prior = read(tmp_path, f"scale = {scale}")
    np.testing.assert_array_equal(prior.scale, np.diag(diagonal))
    np.testing.assert_array_equal(prior.mean, [0, 0])
    assert (prior.mean_weight, prior.df) == (1, 4)


def test_a_matrix_may_be_by_name_in_any_order(tmp_path):
    text = "mean = { ldl = 3, bmi = 25 }\n[scale]\nldl = { ldl = 1, bmi = 2 }\nbmi = { ldl = 2, bmi = 20 }"
    prior = read(tmp_path, text)
    np.testing.assert_array_equal(prior.mean, [25, 3])
    np.testing.assert_array_equal(prior.scale, [[20, 2], [2, 1]])
    for wrong in (text.replace("ldl = 1", "hdl = 1"), text.replace("{ ldl = 1, bmi = 2 }", "4")):
        with pytest.raises(abo.InputError, match="the prior's scale"):
            read(tmp_path, wrong)


def test_centre_and_spread_are_the_expected_mean_and_deviation(tmp_path):
    prior = read(tmp_path, "df = 9\n[centre]\nldl = 3.5\nbmi = 25\n[spread]\nbmi = 5\nldl = 1")
    np.testing.assert_array_equal(prior.mean, [25, 3.5])
    expected_covariance = prior.scale / (prior.df - 2 - 1)
    np.testing.assert_allclose(expected_covariance, np.diag([25, 1]))


def test_json_is_read_too(tmp_path):
    prior = read(tmp_path, json.dumps({"centre": [1, 2], "spread": 3}), "prior.json")
    np.testing.assert_array_equal(prior.scale, 9 * np.eye(2))


def test_a_prior_survives_its_file(rng):
    root = rng.standard_normal((2, 2))
    prior = abo.NIW(rng.standard_normal(2), 0.1, 3.3, root @ root.T + np.eye(2))
    again = prior_from(json.loads(json.dumps(prior_entries(prior))), COLUMNS)
    np.testing.assert_array_equal(again.scale, prior.scale)
    np.testing.assert_array_equal(again.mean, prior.mean)
    assert (again.mean_weight, again.df) == (prior.mean_weight, prior.df)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("means = 3", "unknown entry 'means'"),
        ("mean = [1]", "mean has 1 values for 2 columns"),
        ("mean = [1, 'x']", "mean must be a number, got 'x'"),
        ("mean = 1\ncentre = 2", "keep one pair"),
        ("[centre]\nbmi = 1", "leaves out 'ldl'"),
        ("[centre]\nbmi = 1\nhdl = 2", "names 'hdl', no such column"),
        ("spread = [1, 0]", "spread of 'ldl' must exceed 0"),
        ("spread = 1\ndf = 3", r"df must exceed p \+ 1 = 3"),
        ("df = 1", "df must exceed p - 1 = 1"),
        ("df = true", "df must be a number"),
        ("scale = [[1, 2], [2, 1]]", "positive definite"),
        ("scale = [[1, 2]]", "2 × 2 matrix"),
        ("mean = ", "not valid TOML"),
        ("mean_weight = inf", "mean_weight must be a finite number above 0.*, got inf"),
        ("df = nan", "df must exceed p - 1 = 1 and be finite"),
        ("mean = 1" + 400 * "0", "mean holds a whole number too large"),
        ("mean = 1" + 5000 * "0", "not valid TOML: a number has thousands of digits"),
        ("mean = " + 50_000 * "[", "not valid TOML: it is nested too deep"),
    ],
)
def test_bad_prior_files_are_refused(tmp_path, text, message):
    with pytest.raises(abo.InputError, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("[1]", "must name its entries"), ("[" * 100_000, "not valid JSON"), ('{"df": 1e999}', "be finite")],
)
def test_bad_json_priors_are_refused(tmp_path, text, message):
    with pytest.raises(abo.InputError, match=message):
        read(tmp_path, text, "prior.json")


def test_centre_without_spread_means_spread_1(tmp_path):
    np.testing.assert_array_equal(read(tmp_path, "centre = 3").scale, np.eye(2))


def test_an_absent_prior_file_is_refused(tmp_path):
    with pytest.raises(abo.InputError, match=r"cannot read .*none.toml"):
        read_prior(tmp_path / "none.toml", COLUMNS)


def test_the_prior_that_a_table_file_declares_is_on_the_scale_of_the_model():
    declared = {"bmi": {"centre": 25, "spread": 5}, "crp": {"centre": 2, "spread": 1, "scale": "log"}}
    prior = declared_prior(Schema.of({"columns": declared}))
    np.testing.assert_allclose(prior.mean, [25, np.log(2)])
    expected = np.diagonal(prior.scale) / (prior.df - 3)  # of Σ, Λ/(ν − p − 1)
    np.testing.assert_allclose(np.sqrt(expected), [5, np.log(3) / 2])  # half the way from log 1 to log 3
    assert declared_prior(Schema.of({"columns": {"bmi": {"low": 10}}})).is_flat
    with pytest.raises(abo.InputError, match="none to crp; declare them for all columns or for none"):
        declared_prior(Schema.of({"columns": declared | {"crp": {"scale": "log"}}}))
