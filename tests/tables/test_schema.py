"""Laws of the table file: scales there and back, what goes out, and that the attack does not notice."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import allbutone as abo
from allbutone.tables.column import Scale
from allbutone.tables.schema import Schema

QUANTILES = [[0.05, 2.0], [0.25, 3.0], [0.5, 3.5], [0.9, 7.0]]
SCALES = {
    "as it is": {},
    "log": {},
    "log(x + 1)": {},
    "sqrt": {},
    "logit": {"low": 0, "high": 100},
    "quantiles": {"quantiles": QUANTILES},
}


def column(**entries):
    return Schema.of({"columns": {"a": entries}}).column("a")


@pytest.mark.parametrize("name", SCALES)
@given(values=st.lists(st.floats(0.01, 99.9), min_size=2, max_size=20, unique=True))
def test_a_scale_is_increasing_and_goes_there_and_back(name, values):
    scale = column(scale=name, **SCALES[name]).scale
    values = np.sort(values)
    there = scale.to_model(values)
    np.testing.assert_allclose(scale.to_natural(there), values, rtol=1e-9)
    assert np.all(np.diff(there)[np.diff(values) > 1e-6] > 0)


@given(st.floats(-8, 8))
def test_quantiles_take_the_reference_to_the_normal_and_go_on_straight(z):
    scale = Scale.of("quantiles", quantiles=QUANTILES)
    np.testing.assert_allclose(scale.to_model(np.array([3.5])), 0, atol=1e-12)
    np.testing.assert_allclose(scale.to_model(np.array([2.0])), -1.6448536269514722, rtol=1e-9)
    np.testing.assert_allclose(scale.to_model(scale.to_natural(np.array([z]))), z, atol=1e-9)


@given(
    drawn=st.lists(st.floats(-50, 50), min_size=1, max_size=30),
    decimals=st.none() | st.integers(-2, 4),
    low=st.none() | st.floats(-20, 5),
    name=st.sampled_from(sorted(SCALES)),
)
def test_what_goes_out_is_within_limits_and_on_the_grid_and_comes_in_again(drawn, decimals, low, name):
    entries = SCALES[name] | {"scale": name, **({"decimals": decimals} if decimals is not None else {})}
    if low is not None and name != "logit":
        entries |= {"low": low, "high": low + 1000}
    try:
        declared = column(**entries)
    except abo.InputError as error:
        assert "leave no two values" in str(error)  # noqa: PT017
        return
    out = Schema((declared,)).released(np.array(drawn)[:, None])[:, 0]
    assert np.all(declared.allows(out))
    assert np.all(np.isfinite(declared.scale.to_model(out)))
    if decimals is not None:
        np.testing.assert_allclose(np.round(out, decimals), out, rtol=1e-12, atol=1e-12)


def skewed(rng, n=60):
    z = rng.standard_normal((n, 3)) @ np.array([[1, 0.3, 0], [0, 1, 0.5], [0, 0, 1]])
    return pd.DataFrame({"bili": np.exp(z[:, 0]), "age": 50 + 10 * z[:, 1], "share": 100 / (1 + np.exp(-z[:, 2]))})


DECLARED = {"columns": {"bili": {"scale": "log"}, "share": {"scale": "logit", "low": 0, "high": 100}}}


@pytest.mark.parametrize("kind", ["datasets", "parameters"])
def test_a_declared_scale_gives_the_same_risk_as_the_same_scale_by_hand(rng, kind):
    table = skewed(rng)
    by_hand = table.assign(bili=np.log(table.bili), share=np.log(table.share / (100 - table.share)))
    seed = int(rng.integers(1 << 32))
    found = []
    for records, schema in ((table, DECLARED), (by_hand, None)):
        synthesizer, stream = abo.Synthesizer().fit(records, schema=schema), np.random.default_rng(seed)
        if kind == "datasets":
            release = synthesizer.sample(datasets=4, rng_for_tests=stream)
        else:
            release = synthesizer.sample_parameters(4, rng_for_tests=stream)
        found.append(abo.risk(records, release, rng=np.random.default_rng(1)))
    declared, plain = found
    for name in ("exposure", "information_gain", "mass", "relative_error"):
        np.testing.assert_allclose(declared[name], plain[name], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(declared["error_age"], plain["error_age"], rtol=1e-8, atol=1e-8)
    # in natural units: exp(log guess) − value
    natural = np.exp(np.log(table.bili) + plain["error_bili"]) - table.bili
    np.testing.assert_allclose(declared["error_bili"], natural, rtol=1e-8, atol=1e-8)


def test_the_budget_works_on_the_declared_scale(rng):
    table = skewed(rng)
    records = abo.Records.of(table, schema=DECLARED)
    by_hand = np.column_stack([np.log(table.bili), table.age, np.log(table.share / (100 - table.share))])
    flat = abo.NIW.flat(3)
    declared, plain = (abo.budget(each, flat, rows=60).columns() for each in (records, by_hand))
    np.testing.assert_allclose(declared["leverage"], plain["leverage"], rtol=1e-9)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_release_folder_holds_natural_units_and_what_is_declared(rng, tmp_path, format):
    schema = {"columns": {"bili": {"scale": "log", "decimals": 1}, "age": {"decimals": 0, "low": 18, "high": 90}}}
    release = abo.Synthesizer().fit(skewed(rng), schema=schema, drop="share").sample(datasets=3, rows=200)
    abo.save_release(release, tmp_path / "out", format=format)
    back = abo.load_release(tmp_path / "out")
    assert back.schema.same_mechanism(release.schema)
    for ours, theirs in zip(release.values, back.values, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours[:, 0].min() >= 0.1
        assert 18 <= ours[:, 1].min() <= ours[:, 1].max() <= 90
        np.testing.assert_array_equal(ours[:, 1], np.round(ours[:, 1]))
    np.testing.assert_allclose(back.normal.datasets[0][:, 0], np.log(back.values[0][:, 0]), rtol=1e-12)


def test_a_release_and_a_table_on_other_scales_do_not_go_together(rng):
    table = skewed(rng)
    release = abo.Synthesizer().fit(table, schema=DECLARED).sample(datasets=1)
    with pytest.raises(abo.InputError, match="other scales, limits or decimals"):
        abo.risk(abo.Records.of(table), release)
    outside = [np.array([[-1.0, 50.0, 50.0]])]
    with pytest.raises(abo.InputError, match="'bili' has values outside"):
        abo.Release.of(outside, release.columns, release.prior, release.schema)


def test_a_saved_synthesizer_keeps_its_scales(rng, tmp_path):
    abo.Synthesizer().fit(skewed(rng), schema=DECLARED).save(tmp_path / "fit.json")
    loaded = abo.Synthesizer.load(tmp_path / "fit.json")
    drawn = loaded.sample(datasets=1, rows=500).values[0]
    assert drawn[:, 0].min() > 0
    assert 0 < drawn[:, 2].min() < drawn[:, 2].max() < 100


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"scale": "cube"}, "no scale 'cube'"),
        ({"scale": "log(x - 1)"}, "no scale"),
        ({"scale": "logit"}, "needs finite limits"),
        ({"scale": "quantiles"}, "needs a table of quantiles"),
        ({"scale": "quantiles", "quantiles": [[0.5, 1], [0.4, 2]]}, "must rise"),
        ({"low": 3, "high": 2}, "low must be below high"),
        ({"decimals": 0.5}, "decimals is a whole number"),
        ({"colour": "red"}, "no entry 'colour'"),
        ({"kind": "code"}, "no kind 'code'"),
        ({"centre": 3}, "centre and spread go together"),
        ({"centre": -1, "spread": 1, "scale": "log"}, "centre lies outside"),
        ({"low": 0.2, "high": 0.8, "decimals": 0}, "leave no two values"),
        (7, "must form a table"),
    ],
)
def test_all_that_is_wrong_in_a_table_file_is_said_at_once(entries, message):
    with pytest.raises(abo.InputError, match=message) as caught:
        Schema.of({"columns": {"good": {"scale": "log"}, "bad": entries, "worse": {"kind": 3}}})
    assert "2 entries are wrong" in str(caught.value)
    assert "'good'" not in str(caught.value)


def test_a_schema_goes_through_files_and_back(tmp_path):
    entries = {
        "columns": {"a": {"scale": "log(x + 2)", "decimals": 1, "unit": "mg/dl"}, "b": {"kind": "left out"}}
    }
    schema = Schema.of(entries)
    assert schema.entries() == entries
    (tmp_path / "table.json").write_text(json.dumps(entries))
    assert Schema.of(tmp_path / "table.json") == schema


def test_centres_and_spreads_in_natural_units_make_the_prior(rng):
    table = skewed(rng).drop(columns="share")
    both = {"bili": {"scale": "log", "centre": 2.0, "spread": 0.5}, "age": {"centre": 50, "spread": 10}}
    prior = abo.Synthesizer().fit(table, schema={"columns": both}).prior
    np.testing.assert_allclose(prior.mean, [np.log(2), 50])
    width = (np.log(2.5 / 2) + np.log(2 / 1.5)) / 2
    np.testing.assert_allclose(np.sqrt(np.diagonal(prior.scale)), [width, 10])
    with pytest.raises(abo.InputError, match="some columns, and none to age"):
        abo.Synthesizer().fit(table, schema={"columns": {"bili": both["bili"]}})


def test_a_draft_can_be_used_and_holds_no_value_of_the_table(allbutone, tmp_path, rng):
    table = skewed(rng, 200).round({"bili": 2, "age": 1}).assign(sex="f", site=3.14159)
    table.to_csv("table.csv", index=False)
    code, out, _ = allbutone("describe", "table.csv", "--out", "table.toml")
    assert code == 0, out
    text = (tmp_path / "table.toml").read_text()
    drafted = tomllib.loads(text)["columns"]
    assert drafted["bili"]["scale"] == "log"
    assert drafted["sex"] == {"kind": "left out", "why": "constant"}
    assert drafted["site"]["why"] == "constant"
    said = [value for entry in drafted.values() for value in entry.values() if isinstance(value, float | int)]
    assert set(said) <= {0, 1, 2}  # decimals and the limit 0
    assert "3.14" not in text
    code, _, errors = allbutone("synthesize", "table.csv", "--table-file", "table.toml", "--out", "release")
    assert code == 0, errors


def test_one_table_file_serves_tables_that_lack_some_of_its_columns(rng):
    schema = {"columns": DECLARED["columns"] | {"weight": {"decimals": 0}}}
    notes = abo.Records.of(skewed(rng), schema=schema).notes
    assert "Declared, but not in this table: weight." in notes
    assert "Not declared, so taken as they are: age." in notes


def test_public_pages_and_estimates_are_in_natural_units(rng, tmp_path):
    table = skewed(rng, 300)
    release = abo.Synthesizer().fit(table, schema=DECLARED).sample(datasets=20)
    means, deviations = release.means_and_deviations()
    np.testing.assert_allclose(means, np.mean([each.mean(axis=0) for each in release.values], axis=0))
    assert deviations[2] > 5  # of a percentage, not of its logit
    found = abo.combine(release, people=300)
    assert np.all(
        (found.low < table.mean()) & (table.mean() < found.high) | (np.abs(found.estimate - means) < 1e-9)
    )
    np.testing.assert_allclose(found.estimate, means)
    abo.report(table, release, out=tmp_path / "about.html", public=True)
    page = (tmp_path / "about.html").read_text(encoding="utf-8")
    assert "modelled on the scale log" in page
    assert "The prior is flat" in page


def test_every_function_on_a_table_takes_how_to_read_it(rng):
    table = skewed(rng, 60)
    table.loc[4, "age"], table.loc[7, "bili"] = np.nan, -999
    how = {"missing_codes": [-999], "complete_cases": True}
    release = abo.Synthesizer().fit(table, schema=DECLARED, **how).sample(datasets=2)
    assert len(abo.risk(table, release, mass=False, **how)) == 58
    assert abo.fidelity(table, release, **how).people == 58
    assert len(abo.budget(table, release.prior, rows=58, schema=DECLARED, **how).rows) == 58
    assert abo.check_normality(table, schema=DECLARED, **how).columns == ("bili", "age", "share")


def test_a_misspelt_entry_is_asked_about_and_options_declare_nothing_by_themselves(rng):
    notes = abo.Records.of(skewed(rng), schema={"columns": {"bilj": {"scale": "log"}}}).notes
    assert any("Is 'bilj' meant to be 'bili'?" in note for note in notes)
    chosen = abo.Records.of(skewed(rng), columns=["age", "bili"], missing_codes=[-999])
    assert not any("not in this table" in note for note in chosen.notes)


def test_what_is_secret_or_known_changes_no_released_number():
    usual = {"columns": {"age": {"decimals": 0}, "sex": {"kind": "category", "levels": ["f", "m"]}}}
    told = {"columns": {"age": {"decimals": 0, "secret": False}, "sex": usual["columns"]["sex"] | {"known": True}}}
    plain, declared = Schema.of(usual), Schema.of(told)
    assert plain.same_mechanism(declared)
    assert Schema.of(declared.entries()) == declared
    assert declared.known == ("sex",)
    both = plain.completed_by(declared)
    assert not both.column("age").secret
    assert both.column("sex").known
    with pytest.raises(abo.InputError, match="secret is true or false, got 'no'"):
        Schema.of({"columns": {"age": {"secret": "no"}}})
