"""Releases drawn through classes: any table, saved and read back, repeated, and what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.model.class_sampler import ClassChains, draw_classes
from allbutone.model.classes import ClassModel, ClassPosteriors
from allbutone.model.incomplete import IncompleteRecords
from allbutone.releases.class_tables import in_words
from allbutone.releases.mechanism import CLASSES, Mechanism
from allbutone.support.errors import InputError


@pytest.fixture
def clinic(rng):
    """Two groups of people, told apart by two measurements, none below 0, and a category beside them."""
    ill = rng.random(120) < 0.35
    return pd.DataFrame(
        {
            "marker": np.abs(np.where(ill, 9.0, 3.0) + rng.standard_normal(120)),
            "arm": np.where(rng.random(120) < np.where(ill, 0.9, 0.2), "treated", "control"),
            "weight": 70 + 10 * rng.standard_normal(120) - 8 * ill,
        }
    )


def test_two_peaks_and_what_hangs_together_with_them_are_kept(clinic, rng):
    synthesizer = abo.Synthesizer(model="classes").fit(clinic)
    release = synthesizer.sample(datasets=2, rows=3000, rng_for_tests=rng)
    table = release.to_frames("pandas")[0]
    between = (table.marker > 5.5) & (table.marker < 6.5)
    assert between.mean() < 0.06  # a single normal has 13 % there
    for high in (True, False):
        share = (table.arm[(table.marker > 6) == high] == "treated").mean()
        there = (clinic.arm[(clinic.marker > 6) == high] == "treated").mean()
        assert abs(share - there) < 0.25
    assert "classes" in synthesizer.gaps_in_words
    assert "a chain of its own" in synthesizer.gaps_in_words
    assert release.mechanism.model == CLASSES


def test_whether_chains_agree_is_said_in_words(rng):
    records = IncompleteRecords.of(None, rng.standard_normal((30, 1)))
    draws = draw_classes(ClassChains.start(ClassModel(1, classes=2), records, rng, 4), 1, most_sweeps=20)
    for r_hat, said in ((1.0, "The chains agree"), (2.0, "the chains do not agree")):
        numbers = {"r_hat": np.full(3, r_hat), "effective_size": np.full(3, 400.0)}
        found = replace(draws, convergence=replace(draws.convergence, **numbers))
        assert said in in_words(found, 4)
    assert "50 sweeps apart" in in_words(draws, 5)  # one chain makes more than one of them


def test_it_is_saved_read_back_and_repeated(clinic, tmp_path):
    synthesizer = abo.Synthesizer(model="classes", classes=4).fit(clinic)
    key = abo.Synthesizer.new_repeat_key()
    release = synthesizer.sample(datasets=2, repeat_key=key)
    abo.save_release(release, tmp_path / "release")
    read = abo.load_release(tmp_path / "release")
    assert read.mechanism.same_as(release.mechanism)
    assert read.mechanism.classes == 4
    for ours, theirs in zip(release.tables, read.tables, strict=True):
        np.testing.assert_array_equal(ours.natural, theirs.natural)
        np.testing.assert_array_equal(ours.categories.codes, theirs.categories.codes)
    synthesizer.save(tmp_path / "fitted.json")
    again = abo.Synthesizer.load(tmp_path / "fitted.json").sample(datasets=2, repeat_key=key)
    np.testing.assert_array_equal(again.values[1], release.values[1])
    three = Mechanism(release.schema, None, classes=3)
    assert not three.same_as(release.mechanism)


def test_what_is_kept_goes_out_as_it_is_and_the_rest_is_drawn_given_it(clinic, tmp_path):
    key, clinic["site"] = abo.Synthesizer.new_repeat_key(), np.where(clinic.marker > 6, "ward", "home")
    synthesizer = abo.Synthesizer(model="classes", classes=2, keep=["site", "weight"]).fit(clinic)
    release = synthesizer.sample(datasets=2, repeat_key=key)
    for table in release.to_frames("pandas"):
        kept = [sorted(zip(each.site, each.weight, strict=True)) for each in (clinic, table)]
        assert kept[0] == kept[1]
        assert list(table.weight) != list(clinic.weight)  # in an order of their own
        there = table.site == "ward"
        assert table.marker[there].mean() > table.marker[~there].mean() + 4
        share, real = ((each.arm == "treated")[each.site == "ward"].mean() for each in (table, clinic))
        assert abs(share - real) < 0.4
    abo.save_release(release, tmp_path / "release")
    assert abo.load_release(tmp_path / "release").mechanism.same_as(release.mechanism)
    synthesizer.save(tmp_path / "fitted.json")
    again = abo.Synthesizer.load(tmp_path / "fitted.json").sample(datasets=2, repeat_key=key)
    np.testing.assert_array_equal(again.values[1], release.values[1])


def test_categories_alone_and_with_very_many_combinations(rng):
    levels = np.array([f"level {number}" for number in range(9)])
    table = pd.DataFrame({f"question {number}": levels[rng.integers(0, 9, 60)] for number in range(5)})
    assert 9**5 > 10_000
    with pytest.raises(InputError, match="combinations"):
        abo.Synthesizer().fit(table)
    release = abo.Synthesizer(model="classes").fit(table).sample(rng_for_tests=rng)
    assert release.tables[0].categories.codes.shape == (60, 5)
    assert release.tables[0].values.shape == (60, 0)


def test_gaps_are_imputed_or_kept(clinic, rng):
    clinic.loc[::5, "weight"] = np.nan
    clinic.loc[::7, "arm"] = None
    with pytest.raises(InputError, match="misses"):
        abo.Synthesizer(model="classes").fit(clinic)
    whole = abo.Synthesizer(model="classes", missing="impute").fit(clinic).sample(rng_for_tests=rng).tables[0]
    assert not whole.has_gaps
    kept = abo.Synthesizer(model="classes", missing="keep").fit(clinic).sample(rng_for_tests=rng).tables[0]
    assert 0.05 < np.isnan(kept.values[:, 1]).mean() < 0.4


def test_limits_and_decimals_hold(clinic, rng):
    schema = {"columns": {"marker": {"low": 0, "decimals": 1}, "weight": {"scale": "log", "decimals": 0}}}
    table = (
        abo.Synthesizer(model="classes", schema=schema).fit(clinic).sample(rows=500, rng_for_tests=rng).tables[0]
    )
    natural = table.natural
    assert natural[:, 0].min() >= 0
    np.testing.assert_array_equal(natural, np.column_stack([natural[:, 0].round(1), natural[:, 1].round()]))


def test_what_classes_do_not_do_is_refused_with_its_reason(clinic):
    synthesizer = abo.Synthesizer(model="classes").fit(clinic)
    for ask in (lambda: synthesizer.sample(parameters=True), synthesizer.sample_parameters):
        with pytest.raises(InputError, match="datasets alone are released"):
            ask()
    with pytest.raises(InputError, match="none is left to be drawn"):
        abo.Synthesizer(model="classes", keep=list(clinic)).fit(clinic)
    with pytest.raises(InputError, match="no column 'arms' to keep"):
        abo.Synthesizer(model="classes", keep=["arms"]).fit(clinic)
    with pytest.raises(InputError, match="a row for each person"):
        abo.Synthesizer(model="classes", keep="arm").fit(clinic).sample(rows=5)
    with pytest.raises(InputError, match="a prior of their own"):
        abo.Synthesizer(abo.NIW.default(2), model="classes").fit(clinic)
    with pytest.raises(InputError, match="has no classes"):
        abo.Synthesizer(model="normal", classes=3)
    with pytest.raises(InputError, match="classes"):
        abo.Synthesizer(model="classes", classes=1000).fit(clinic)
    with pytest.raises(InputError, match="too few"):
        abo.Synthesizer(model="classes").fit(clinic[["marker", "weight"]].head(3))


def test_intervals_by_combine_cover(rng):
    """Of means and regression coefficients, in tables drawn from the model: 95 % intervals in 93 % at least."""
    hits, model = [], ClassModel(2, (2,), classes=2)
    nobody = np.zeros((1, 0), dtype=int), np.zeros((1, 0, 2)), np.zeros((0, 1), dtype=int)
    prior = ClassPosteriors.of(model, *nobody, np.zeros((1, 2)), np.eye(2)[None])
    # shares and levels that are not all one
    even = replace(prior, weights=np.full((1, 2), 4.0), level_weights=np.full((1, 2, 2), 2.0))
    for _ in range(40):
        drawn = even.draw(rng)
        (codes, values), (all_codes, everybody) = (drawn.draw_rows(rng, size) for size in (150, 100_000))
        if not 5 < codes.sum() < 145:
            continue
        table = pd.DataFrame({"a": values[:, 0], "b": values[:, 1], "c": np.where(codes[:, 0], "yes", "no")})
        release = abo.Synthesizer(model="classes", classes=2).fit(table).sample(datasets=5, rng_for_tests=rng)
        given = np.column_stack([np.ones(len(everybody)), everybody[:, 0], all_codes])
        slopes = np.linalg.lstsq(given, everybody[:, 1], rcond=None)[0]
        truth = dict(zip(("a", "b", "intercept", "slope"), (*everybody.mean(axis=0), *slopes), strict=False))
        means, line = abo.combine(release, "means", people=150), abo.combine(release, "b ~ a + c", people=150)
        hits += [
            low < truth[name] < high for name, low, high in zip(means.names, means.low, means.high, strict=True)
        ]
        there = dict(zip(line.names, zip(line.low, line.high, strict=True), strict=True))
        hits += [there["a"][0] < truth["slope"] < there["a"][1]]
    assert np.mean(hits) >= 0.93 - 3 * np.sqrt(0.05 * 0.95 / len(hits))


@pytest.mark.filterwarnings("ignore:.*few different whole numbers")
def test_values_that_many_share_do_not_draw_classes_onto_them(rng):
    """Counts and a score of five values, declared whole: ten classes draw them, beside what they bend."""
    score = rng.integers(0, 5, 200)
    level = (score - 2) ** 2 + rng.standard_normal(200)
    table = pd.DataFrame({"score": score, "count": rng.poisson(0.5 + score), "level": level})
    unsaid = {name: {"kind": "measurement"} for name in ("score", "count")}
    with pytest.raises(InputError, match="'score' has 5 different values"):
        abo.Synthesizer(model="classes", schema={"columns": unsaid}).fit(table)
    whole = {name: each | {"decimals": 0, "low": 0} for name, each in unsaid.items()}
    synthesizer = abo.Synthesizer(model="classes", schema={"columns": whole}).fit(table)
    rows = pd.concat(synthesizer.sample(datasets=4, rng_for_tests=rng).to_frames("pandas"))
    for name in ("score", "count"):
        real, drawn = (each[name].value_counts(normalize=True) for each in (table, rows))
        assert real.sub(drawn, fill_value=0).abs().sum() / 2 < 0.15
    middle, ends = rows[rows.score == 2].level.mean(), rows[rows.score.isin([0, 4])].level.mean()
    assert ends - middle > 2  # 4 in the table
