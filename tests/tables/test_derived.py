"""Columns that others determine: left out of the model, checked in the table, computed again in every row."""

import json

import numpy as np
import pandas
import pytest

import allbutone as abo
from allbutone.disclosure.rule import ToldValues
from allbutone.support.errors import InputError

DECLARED = {
    "height": {"decimals": 0, "low": 0, "high": 260},
    "bmi": {"derived": "weight / (height / 100) ** 2", "decimals": 1, "unit": "kg/m²"},
    "weight": {"scale": "log", "decimals": 1},
    "obese": {"derived": "weight / (height / 100) ** 2 >= 30"},
    "pressure": {"decimals": 0},
    "stage": {"cut": {"of": "pressure", "at": [120, 140]}, "levels": ["normal", "raised", "high"]},
}


def clinic(rng, people=120):
    height, weight = np.round(rng.normal(172, 9, people)), np.round(np.exp(rng.normal(4.3, 0.2, people)), 1)
    pressure, bmi = np.round(rng.normal(130, 15, people)), weight / (height / 100) ** 2
    stages = np.array(["normal", "raised", "high"])[(pressure >= 120).astype(int) + (pressure >= 140)]
    return pandas.DataFrame({
        "height": height, "bmi": np.round(bmi, 1), "weight": weight, "obese": np.where(bmi >= 30, "true", "false"),
        "pressure": pressure, "stage": stages,
    })  # fmt: skip


def schema(**changed):
    return {"columns": {**DECLARED, **changed}}


def test_a_table_comes_back_as_it_was(rng):
    table = clinic(rng)
    records = abo.Records.of(table, schema=schema())
    assert records.columns == ("height", "weight", "pressure")  # of the model
    assert records.schema.released_order == tuple(table.columns)
    back = records.to_frame()
    for name in table.columns:
        if table[name].dtype == float:
            np.testing.assert_allclose(back[name], table[name], rtol=1e-12)
        else:
            assert list(back[name].astype(str)) == list(table[name])


@pytest.mark.parametrize("model", ["normal", "with categories"])
def test_no_synthetic_row_contradicts_itself(rng, model, tmp_path):
    """In 100,000 rows, as drawn and as a file has them."""
    table, more = clinic(rng), {}
    if model == "with categories":
        table["sex"], more = rng.choice(["f", "m"], len(table)), {"sex": {"kind": "category"}}
    synthesizer = abo.Synthesizer(schema=schema(**more)).fit(table)
    release = synthesizer.sample(rows=100_000, rng_for_tests=rng)
    abo.save_release(release.first(1), tmp_path / "release")
    read = pandas.read_csv(tmp_path / "release" / "dataset-001.csv", dtype={"obese": str})
    for data in (release.to_frames()[0], read):
        assert list(data.columns) == list(table.columns)
        bmi = data["weight"] / (data["height"] / 100) ** 2
        assert np.array_equal(data["bmi"], np.round(bmi, 1))
        assert np.array_equal(data["obese"].astype(str) == "true", bmi >= 30)
        number = data["stage"].astype(str).map({"normal": 0, "raised": 1, "high": 2})
        assert np.array_equal(number, (data["pressure"] >= 120).astype(int) + (data["pressure"] >= 140))
    assert not abo.check(tmp_path / "release").findings
    again = abo.load_release(tmp_path / "release")
    assert again.released_order == tuple(table.columns)
    assert again.mechanism.same_as(release.mechanism)


def test_the_model_is_that_of_the_other_columns(rng):
    """Derived columns change neither what is drawn nor what the adversary believes of the others."""
    table = clinic(rng, people=40)
    plain = {"columns": {name: DECLARED[name] for name in ("height", "weight", "pressure")}}
    fewer = table[["height", "weight", "pressure"]]
    with_them, without = (
        abo.Synthesizer(schema=declared).fit(data).sample(datasets=2, rng_for_tests=np.random.default_rng(5))
        for declared, data in ((schema(), table), (plain, fewer))
    )
    for one, other in zip(with_them.tables, without.tables, strict=True):
        assert np.array_equal(one.values, other.values)
    one, other = (
        abo.risk(data, release, mass=False, rng=np.random.default_rng(7))
        for data, release in ((table, with_them), (fewer, without))
    )
    for name in (
        "probability_weight",
        "baseline_weight",
        "rest_known_probability_height",
        "membership",
        "exposure",
    ):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-10, atol=1e-12)
    told, plainly = (ToldValues.of(each.measures, each.verdict.rule) for each in (one, other))
    places = {pair: place for place, pair in enumerate(zip(told.names, told.rest_known.tolist(), strict=True))}
    same = [places[pair] for pair in zip(plainly.names, plainly.rest_known.tolist(), strict=True)]
    np.testing.assert_allclose(told.closeness[:, same], plainly.closeness, rtol=1e-9, atol=1e-9)


def test_a_release_whose_columns_contradict_each_other_is_found(rng, tmp_path):
    table = clinic(rng)
    folder = tmp_path / "release"
    abo.save_release(abo.Synthesizer(schema=schema()).fit(table).sample(rng_for_tests=rng), folder)
    lines = (folder / "dataset-001.csv").read_text().splitlines()
    cells = lines[1].split(",")
    lines[1] = ",".join([cells[0], repr(float(cells[1]) + 1), *cells[2:]])
    (folder / "dataset-001.csv").write_text("\n".join(lines) + "\n")
    assert any("formula" in each.problem for each in abo.check(folder).findings)
    with pytest.raises(InputError, match="'bmi'"):
        abo.load_release(folder)


def test_rows_that_break_a_formula_are_listed_all_columns_at_once(rng):
    table = clinic(rng)
    table.loc[[3, 8], "bmi"] += 2
    table.loc[5, "stage"] = "high" if table["stage"][5] == "normal" else "normal"
    with pytest.raises(InputError) as refused:
        abo.Records.of(table, schema=schema())
    assert "in 2 rows (4, 9)" in str(refused.value)
    assert "in 1 row (6)" in str(refused.value)
    assert "replaces = true" in str(refused.value)
    replaced = {name: DECLARED[name] | {"replaces": True} for name in ("bmi", "stage")}
    records = abo.Records.of(table, schema=schema(**replaced))
    assert records.to_frame()["bmi"][3] == pytest.approx(table["bmi"][3] - 2)


def test_a_formula_is_checked_within_the_rounding_of_all_its_columns(rng):
    """A ratio that was computed before its parts were rounded is no contradiction; more than that is."""
    top, below = rng.uniform(150, 250, 200), rng.uniform(30, 60, 200)
    table = pandas.DataFrame({"total": np.round(top), "hdl": np.round(below), "ratio": np.round(top / below, 1)})
    declared = {
        "total": {"decimals": 0},
        "hdl": {"decimals": 0},
        "ratio": {"derived": "total / hdl", "decimals": 1},
    }
    abo.Records.of(table, schema={"columns": declared})
    with pytest.raises(InputError, match="is not total / hdl"):
        abo.Records.of(table, schema={"columns": {"ratio": declared["ratio"]}})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"bmi": {"derived": "weight / hight"}}, "is 'height' meant"),
        ({"bmi": {"derived": "weight / (height - height)"}}, "cannot be computed in 120 rows"),
        ({"bmi": {"derived": "bmi * 1"}}, "computed from itself"),
        ({"bmi": {"derived": "stage + 1"}}, "which is a category"),
        ({"bmi": {"derived": "2 + 2"}}, "names no column"),
        ({"bmi": {"derived": "weight", "scale": "log"}}, "no entry 'scale'"),
        ({"bmi": {"derived": "weight", "cut": {"of": "weight", "at": [1]}}}, "one of derived and cut"),
        ({"bmi": {"derived": "obesity", "decimals": 1}, "obesity": {"derived": "bmi"}}, "in a circle"),
        ({"obese": {"derived": "bmi >= 30", "levels": ["no", "yes", "perhaps"]}}, "makes 2 groups"),
        ({"stage": {"cut": {"of": "pressure", "at": [140, 120]}}}, "must rise"),
        ({"stage": {"cut": {"of": "pressure > 3", "at": [140]}}}, "its formula compares"),
    ],
)
def test_what_cannot_be_computed_is_refused(rng, changed, words):
    with pytest.raises(InputError) as refused:
        abo.Records.of(clinic(rng), schema=schema(**changed))
    assert words in str(refused.value)


def test_a_release_does_not_tell_that_rows_contradict_a_formula(rng, tmp_path):
    table = pandas.DataFrame(rng.normal(size=(60, 2)), columns=["x", "y"])
    table["twice"] = 2 * table["x"]
    table.loc[3, "twice"] = 9.0
    entries = {"columns": {"twice": {"derived": "2 * x", "replaces": True}}}
    release = abo.Synthesizer(schema=entries).fit(table).sample(rng_for_tests=rng)
    abo.save_release(release, tmp_path / "release")
    assert "replaces" not in (tmp_path / "release" / "release.json").read_text()
    assert "probability_twice" in abo.risk(table, tmp_path / "release", mass=False)
    data = release.to_frames()[0]
    with pytest.raises(InputError, match="'twice' is not"):
        abo.Records.of_synthetic(data.assign(twice=0.0), abo.load_release(tmp_path / "release").schema)


def test_no_cure_is_offered_that_does_not_help(rng):
    for replaces in (False, True):
        changed = {"derived": "weight / (height - height)", "replaces": replaces}
        with pytest.raises(InputError, match="cannot be computed") as refused:
            abo.Records.of(clinic(rng), schema=schema(bmi=changed))
        assert "replaces" not in str(refused.value)


def test_derived_columns_may_need_each_other(rng):
    table = clinic(rng)
    declared = schema(obese={"derived": "bmi >= 30"}, bmi=DECLARED["bmi"])
    table["obese"] = np.where(table["bmi"] >= 30, "true", "false")
    assert list(abo.Records.of(table, schema=declared).to_frame()["obese"].astype(str)) == list(table["obese"])
    # one that the table lacks may stand between
    data = abo.Records.of(table.drop(columns="bmi"), schema=declared).to_frame()
    assert "bmi" not in data.columns
    assert list(data["obese"].astype(str)) == list(table["obese"])


def test_columns_and_drop_choose_derived_columns_too(rng):
    table = clinic(rng)
    records = abo.Records.of(table, schema=schema(), drop=["obese"])
    assert "obese" not in records.schema.released_order
    fewer = abo.Records.of(records, columns=["height", "weight", "bmi"])
    assert list(fewer.to_frame().columns) == ["height", "weight", "bmi"]
    with pytest.raises(InputError, match="'weight', which cannot be used"):
        abo.Records.of(table, schema=schema(), drop=["weight"])


def test_what_is_missing_makes_what_it_determines_missing(rng):
    table = clinic(rng)
    table.loc[4, "height"] = np.nan
    back = abo.Records.of(table, schema=schema(), gaps=True).to_frame()
    assert np.isnan(back["bmi"][4])
    assert pandas.isna(back["obese"][4])
    assert back["stage"][4] == table["stage"][4]


def test_a_table_file_says_again_what_it_was_read_from(tmp_path):
    read = abo.Schema.of({"columns": DECLARED})
    written = tmp_path / "table.json"
    written.write_text(json.dumps(read.entries()))
    assert abo.Schema.of(written) == read
