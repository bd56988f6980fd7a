"""Laws of the first look: what each column is, all problems at once, and nothing left out in silence."""

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.tables.look import look_at
from allbutone.tables.names import chosen_frame
from allbutone.tables.schema import Schema


def hospital(rng, n=200):
    """Return a table with the faults that tables have."""
    size = rng.normal(0, 1, n)
    return pd.DataFrame(
        {
            "patient_id": rng.permutation(n) + 1000,
            "age": rng.normal(60, 10, n).round(1),
            "bili": np.exp(rng.normal(0, 1, n)).round(2),
            "platelets": rng.normal(260, 60, n).round(),
            "sex": rng.choice(["m", "f"], n),
            "stage": rng.integers(1, 5, n),
            "visit": pd.date_range("2020-01-01", periods=n),
            "country": 1.0,
            "weight_kg": 70 + 10 * size,
            "weight_lb": 2.20462 * (70 + 10 * size),
            "pulse": np.where(rng.random(n) < 0.05, -999.0, rng.normal(70, 8, n).round()),
            "chol": np.where(rng.random(n) < 0.1, np.nan, rng.normal(5, 1, n)),
            "place": rng.permutation(n),
        }
    )


KINDS = {
    "patient_id": "identifier", "age": "measurement", "bili": "positive, skewed", "platelets": "whole numbers",
    "sex": "category", "stage": "few values", "visit": "date", "country": "constant", "weight_kg": "measurement",
    "weight_lb": "measurement", "pulse": "suspicious code", "chol": "measurement", "place": "identifier",
}  # fmt: skip
REFUSED = {"patient_id", "sex", "visit", "country", "weight_lb", "pulse", "place"}


def test_every_column_is_recognised(rng):
    looks = look_at(chosen_frame(hospital(rng), None, None), Schema())
    assert {look.name: look.kind for look in looks} == KINDS


def test_all_problems_are_said_at_once_with_their_cures(rng):
    with pytest.raises(abo.InputError) as caught:
        abo.Records.of(hospital(rng))
    lines = str(caught.value).splitlines()
    named = {line.split("'")[1] for line in lines if line.startswith("  ")}
    assert named == REFUSED | {"chol"}
    cures = {cure.argument: cure.value for cure in caught.value.cures}
    assert set(cures["drop"]) == named
    assert cures["drop_unusable"] is True
    assert cures["complete_cases"] is True
    assert cures["missing_codes"] == [-999]


def test_unusable_columns_and_incomplete_rows_go_when_asked_and_are_counted(rng):
    table = hospital(rng)
    records = abo.Records.of(table, drop_unusable=True, complete_cases=True)
    assert set(records.columns) == set(table.columns) - REFUSED
    gaps = table.chol.isna().to_numpy()
    np.testing.assert_array_equal(records.rows, np.flatnonzero(~gaps) + 1)
    said = "\n".join(records.notes)
    assert f"Left out {gaps.sum()} rows of 200" in said
    assert f"Left out {len(REFUSED)} columns" in said
    assert "'stage'" in said  # few values do not pass in silence


def test_codes_of_missing_values_become_gaps(rng):
    table = hospital(rng)[["age", "pulse"]]
    schema = {"columns": {"pulse": {"missing": [-999]}}}
    records = abo.Records.of(table, schema=schema, complete_cases=True)
    assert len(records.values) == int((table.pulse != -999).sum())
    assert records.values[:, 1].min() > 0


def test_rows_keep_their_numbers_through_risk_and_budget(rng):
    table = hospital(rng)[["age", "bili", "chol"]]
    records = abo.Records.of(table, complete_cases=True)
    release = abo.Synthesizer().fit(records).sample(datasets=2)
    found = abo.risk(records, release, mass=False)
    rows = np.flatnonzero(table.chol.notna()) + 1
    np.testing.assert_array_equal(np.asarray(found["row"]), rows)
    plan = abo.budget(records, release.prior, rows=50, rng=1)
    assert plan.limiting_row == rows[int(np.argmax(plan.leverage))]


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda rng, n: rng.permutation(n) + 5000, "identifier"),  # shuffled, unique, close together
        (lambda rng, n: rng.normal(260, 60, n).round(), "whole numbers"),
        (lambda rng, n: rng.normal(2e6, 5e5, n).round(), "identifier"),  # long and all different
        (lambda rng, n: rng.integers(0, 2, n), "few values"),
        (lambda rng, n: np.where(np.arange(n) < 3, 9999, rng.normal(5, 1, n)), "suspicious code"),
        (lambda rng, n: rng.normal(-5, 3, n), "measurement"),
        (lambda rng, n: np.where(np.arange(n) < 3, -9, rng.integers(0, 40, n)), "suspicious code"),
        (lambda rng, n: np.exp(rng.normal(0, 1, n)), "positive, skewed"),
        # where many are 0, what is drawn below is set to it
        (lambda rng, n: np.exp(rng.normal(0, 1, n)) * (rng.random(n) > 0.2), "positive, skewed"),
    ],
)
def test_numbers_that_are_no_measurements_do_not_pass_as_such(rng, make, kind):
    frame = chosen_frame(pd.DataFrame({"x": make(rng, 150)}), None, None)
    assert look_at(frame, Schema())[0].kind == kind


def test_a_column_named_to_be_kept_is_taken_at_its_word(rng):
    table = hospital(rng)
    records = abo.Records.of(table, columns=["place", "age"])
    assert records.columns == ("place", "age")


def test_values_outside_what_is_declared_are_refused(rng):
    table = hospital(rng)[["age", "bili"]]
    for schema in ({"age": {"low": 55}}, {"age": {"scale": "logit", "low": 0, "high": 60}}):
        with pytest.raises(abo.InputError, match=r"'age' has .* outside its declared limits"):
            abo.Records.of(table, schema={"columns": schema})


def test_few_rows_a_column_are_warned_of(rng):
    assert "are few" in "".join(abo.Records.of(rng.standard_normal((25, 3))).notes)
    assert not abo.Records.of(rng.standard_normal((30, 3))).notes


def test_no_usable_column_at_all_is_said_so():
    with pytest.raises(abo.InputError, match="no column can be used"):
        abo.Records.of(pd.DataFrame({"a": ["x", "y"], "b": [1.0, 1.0]}), drop_unusable=True)


@pytest.mark.parametrize("encoding", [None, "utf-16"])
def test_postal_codes_with_leading_zeros_are_codes(tmp_path, encoding):
    text = "zip,age,dose\n02139,51.5,0.5\n10115,60.25,0.25\n94305,47.0,1\n00501,55.5,2\n75001,41.5,0\n"
    (tmp_path / "t.csv").write_bytes(text.encode(encoding or "utf-8"))
    with pytest.raises(abo.InputError, match="'zip' is a code") as caught:
        abo.Records.of(tmp_path / "t.csv", encoding=encoding)
    assert "dose" not in str(caught.value)
    assert abo.Records.of(tmp_path / "t.csv", drop="zip", encoding=encoding).columns == ("age", "dose")
