"""What cannot be judged is refused before anything is computed, each with its cure."""

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.risk import risk_columns
from allbutone.model.moments import Moments

FEWER = abo.Adversary(lacking_records=3)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"sex": ["f", "m"] * 15, "age": rng.normal(60, 9, 30), "ldl": rng.normal(3, 1, 30)})


@pytest.fixture(scope="module")
def measured(people):
    """The measurements alone, and a release of them."""
    table = abo.Records.of(people[["age", "ldl"]])
    return table, abo.Synthesizer().fit(table).sample(datasets=2)


@pytest.fixture(scope="module")
def mixed(people):
    return abo.Synthesizer().fit(people).sample(datasets=1)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"device": "cuda", "adversary": FEWER}, "on the processor alone; leave out the device"),
        ({"adversary": FEWER, "elsewhere": Moments.of(np.eye(2))}, "most of these are elsewhere"),
        (
            {"adversary": abo.Adversary(prior=abo.NIW.default(3))},
            "2 measurements are drawn and the prior",
        ),
    ],
)
def test_of_measurements(measured, asked, words):
    with pytest.raises(abo.InputError, match=words):
        risk_columns(*measured, **asked)


def test_a_table_read_in_another_way_than_the_release_was_made(measured, people):
    limited = abo.Records.of(people[["age", "ldl"]], schema={"columns": {"age": {"low": 0}}})
    with pytest.raises(abo.InputError, match="other scales, limits or decimals"):
        risk_columns(limited, measured[1])


def test_of_tables_with_categories(people, mixed, measured):
    table = abo.Records.of(people, categories=True)
    with pytest.raises(abo.InputError, match="radius must exceed 0"):
        risk_columns(table, mixed, radius=0.0)
    with pytest.raises(abo.InputError, match="the release is of the columns sex, age, ldl"):
        risk_columns(abo.Records.of(people[["ldl", "age", "sex"]], categories=True), mixed)
    with pytest.raises(abo.InputError, match="no column 'bmi'"):
        abo.risk(people, mixed, adversary=abo.Adversary(known=["bmi"]))
    with pytest.raises(abo.InputError, match="a mixture of normals"):
        abo.risk(people, mixed, abo.Adversary(lacking_columns="sex"))
    with pytest.raises(abo.InputError, match="lacks every measurement"):
        abo.risk(people, mixed, abo.Adversary(lacking_columns="age,ldl"))
    with pytest.raises(abo.InputError, match="a row for each person; leave rows out"):
        abo.budget(people, rows=7, keep="sex")


def test_of_synthetic_rows_of_other_tools(people, tmp_path):
    """Rows may come as a file, as records or as a frame, and tell the same; a divisor is n or n-1."""
    real = people[["age", "ldl"]]
    drawn = np.random.default_rng(2).multivariate_normal(real.mean(), real.cov(), 200)
    rows = pd.DataFrame(drawn, columns=real.columns)
    rows.to_csv(tmp_path / "rows.csv", index=False, float_format="%.17g")
    found = [
        abo.audit(real, each, "plug-in", divisor="n", rng=np.random.default_rng(3))["information_gain"]
        for each in (rows, tmp_path / "rows.csv", abo.Records.of(rows))
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-9)
    with pytest.raises(abo.InputError, match="divisor is n or n-1, got 'm'"):
        abo.audit(real, rows, "plug-in", divisor="m")


def test_of_laws():
    with pytest.raises(abo.InputError, match="rows must be at least 1"):
        ExposureLaw.of(abo.NIW.flat(2), 30, 0)
    with pytest.raises(abo.InputError, match="an exposure lies between 0"):
        ExposureLaw.of(abo.NIW.flat(2), 30, 30).most(0.5, 1.0)
    with pytest.raises(abo.InputError, match="tells nothing"):
        abo.Rule.of(0.999)
