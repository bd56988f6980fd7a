"""Mixed tables from the data holder's side: fit, sample, keep, save, read back, and the risk of each person."""

import json

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.disclosure.rule import Rule
from allbutone.releases.release import Release

CELLS = ["main effects", "separate"]


@pytest.fixture
def table(rng):
    n = 120
    sex, smoker = rng.choice(["f", "m"], n), rng.choice(["no", "yes"], n, p=[0.7, 0.3])
    age = rng.normal(55, 12, n).round(1)
    return pd.DataFrame(
        {
            "sex": sex,
            "age": age,
            "smoker": smoker,
            "ldl": (3.4 + 0.3 * (sex == "m") + rng.normal(0, 0.8, n)).round(2),
            "crp": np.exp(0.5 + 0.4 * (smoker == "yes") + rng.normal(0, 0.7, n)).round(2) + 0.01,
        }
    )


DECLARED = {"columns": {"crp": {"scale": "log", "decimals": 2}, "age": {"decimals": 1}}}


def fitted(table, **how):
    return abo.Synthesizer(**how).fit(table, schema=DECLARED)


def test_synthetic_tables_look_like_the_table(table):
    (frame,) = fitted(table).sample(datasets=1, rows=2000).to_frames()
    assert list(frame.columns) == list(table.columns)
    assert set(frame["sex"]) == {"f", "m"}
    assert (frame["crp"] > 0).all()
    np.testing.assert_array_equal(frame["age"], frame["age"].round(1))
    for name in ("sex", "smoker"):
        share = (table[name] == table[name].iloc[0]).mean()
        drawn = (frame[name] == table[name].iloc[0]).mean()
        assert abs(share - drawn) < 5 * np.sqrt(0.25 / 120 + 0.25 / 2000)
    for name in ("age", "ldl"):
        spread = table[name].std()
        assert abs(frame[name].mean() - table[name].mean()) < 5 * spread * np.sqrt(1 / 120 + 1 / 2000)
        assert 0.6 < frame[name].std() / spread < 1.6


@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("kind", ["datasets", "parameters", "both"])
def test_a_release_comes_back_from_its_folder(table, tmp_path, kind, cells):
    prior = {"centre": [50, 3, 1], "spread": [15, 1, 2]} if cells == "separate" else None
    synthesizer = fitted(table, cells=cells, prior=prior)
    release = {
        "datasets": lambda: synthesizer.sample(datasets=2),
        "parameters": lambda: synthesizer.sample_parameters(2),
        "both": lambda: synthesizer.sample(datasets=2, parameters=True),
    }[kind]()
    abo.save_release(release, tmp_path / "release")
    back = abo.load_release(tmp_path / "release")
    assert repr(back) == repr(release)
    assert back.mechanism.same_as(release.mechanism)
    one, two = (abo.risk(table, each, rng=np.random.default_rng(1)) for each in (release, back))
    pd.testing.assert_frame_equal(one.frame, two.frame, rtol=1e-6)
    content = json.loads((tmp_path / "release" / "release.json").read_text())
    assert not {"posterior", "posteriors", "weights", "seed"} & set(content)


def test_kept_columns_go_out_as_they_are(table):
    release = fitted(table, keep=["sex", "smoker", "age"]).sample(datasets=2)
    for frame in release.to_frames():
        names = ["sex", "smoker", "age"]
        assert sorted(map(tuple, frame[names].to_numpy())) == sorted(map(tuple, table[names].to_numpy()))
        assert not set(map(tuple, frame.to_numpy())) & set(map(tuple, table.to_numpy()))
    found = abo.risk(table, release, mass=False)
    told = [name.removeprefix("baseline_") for name in found.columns if name.startswith("baseline_")]
    assert told == ["distance", "ldl", "crp"]
    assert set(found["riskiest"]) <= {"ldl", "crp"}
    assert [name for name in found.columns if name.startswith("error_")] == ["error_ldl", "error_crp"]


def test_a_kept_category_is_known_to_the_adversary(table):
    """Its probability is not asked for, and the other category is judged within it."""
    found = abo.risk(table, fitted(table, keep="sex").sample(datasets=1), mass=False)
    assert "probability_sex" not in found
    # after one dataset the cell's odds are counts alone
    assert found["probability_smoker"].between(0.02, 0.98).all()


def test_what_cannot_be_drawn_is_refused_in_words(table):
    with pytest.raises(abo.InputError, match="categories cannot be drawn given a measurement"):
        fitted(table, keep=["age"])
    with pytest.raises(abo.InputError, match="no measurement is left"):
        fitted(table, keep=["age", "ldl", "crp"])
    with pytest.raises(abo.InputError, match="no column 'height'"):
        fitted(table, keep=["height"])
    with pytest.raises(abo.InputError, match="a row for each person"):
        fitted(table, keep="sex").sample(rows=10)
    with pytest.raises(abo.InputError, match="main effects"):
        fitted(table, cells="together")


def test_separate_cells_need_a_prior_or_many_records(table):
    table["site"] = np.where(np.arange(len(table)) == 0, "z", "a")
    with pytest.raises(abo.InputError, match="separate cells need at least 5 records in each cell"):
        fitted(table, cells="separate")


def test_a_repeat_key_repeats_the_release(table):
    key = abo.Synthesizer.new_repeat_key()
    one, two = (fitted(table, keep="sex").sample(datasets=2, repeat_key=key) for _ in range(2))
    other = fitted(table, keep="smoker").sample(datasets=2, repeat_key=key)
    for ours, theirs in zip(one.to_frames(), two.to_frames(), strict=True):
        pd.testing.assert_frame_equal(ours, theirs)
    assert not one.to_frames()[0].equals(other.to_frames()[0])


def test_a_saved_synthesizer_draws_the_same(table, tmp_path):
    key = abo.Synthesizer.new_repeat_key()
    synthesizer = fitted(table, keep=["sex", "smoker", "age"])
    synthesizer.save(tmp_path / "fit.json")
    loaded = abo.Synthesizer.load(tmp_path / "fit.json")
    one, two = (each.sample(datasets=1, repeat_key=key).to_frames()[0] for each in (synthesizer, loaded))
    pd.testing.assert_frame_equal(one, two)
    assert (tmp_path / "fit.json").stat().st_mode & 0o077 == 0


def test_nothing_of_the_table_is_shown(table):
    assert repr(fitted(table)) == "Synthesizer, fitted to 120 records of sex, age, smoker, ldl, crp"
    release = fitted(table).sample(datasets=2)
    assert repr(release) == "Release: 2 datasets of 120 rows, columns sex, age, smoker, ldl, crp"
    assert release._repr_html_().count("<tr>") == 6


def test_a_category_that_one_person_has_is_found_out_by_many_datasets(table):
    """Alone with a level: every released row with it says that somebody had it."""
    table["site"] = np.where(np.arange(len(table)) == 7, "rare", np.where(np.arange(len(table)) % 2, "a", "b"))
    synthesizer = fitted(table)
    release = synthesizer.sample(datasets=60)
    found = {name: column.to_numpy() for name, column in abo.risk(table, release, mass=False).items()}
    assert found["baseline_site"][7] < 0.05
    assert found["probability_site"][7] > 0.5
    assert Rule().discloses(found["probability_site"], found["baseline_site"])[7]
    few = abo.risk(table, synthesizer.sample(datasets=1), mass=False)
    few = {name: column.to_numpy() for name, column in few.items()}
    told = Rule().discloses(few["probability_site"], few["baseline_site"])
    assert told.sum() <= 1  # a single dataset moves the odds of an ordinary level little


def test_several_releases_are_attacked_together(table):
    synthesizer = fitted(table)
    parts = [synthesizer.sample(datasets=2), synthesizer.sample_parameters(2), synthesizer.sample(datasets=1)]
    found = abo.risk(table, parts, mass=False)
    alone = abo.risk(table, parts[0], mass=False)
    assert not np.allclose(found["exposure"], alone["exposure"])
    with pytest.raises(abo.InputError, match="keep different columns"):
        abo.risk(table, [parts[0], fitted(table, keep="sex").sample(datasets=1)])


def test_the_adversary_may_know_columns_of_any_kind(table):
    release = fitted(table).sample(datasets=3)
    found = abo.risk(table, release, adversary=abo.Adversary(known=["sex", "age"]), mass=False)
    assert "probability_sex" not in found
    assert "error_age" not in found
    everything = ["age", "ldl", "crp"]
    found = abo.risk(table, release, adversary=abo.Adversary(known=everything))
    assert list(found.columns) == ["row", "disclosed", "risk", "riskiest"] + [
        prefix + name
        for name in ("sex", "smoker")
        for prefix in ("probability_", "baseline_", "probability_error_")
    ]
    with pytest.raises(abo.InputError, match="knows everything"):
        abo.risk(table, release, adversary=abo.Adversary(known=[*everything, "sex", "smoker"]))


def with_gaps(table, rng, share=0.1):
    table = table.copy()
    for name in table.columns[1:]:
        table.loc[rng.random(len(table)) < share, name] = None
    return table


def test_gaps_are_refused_or_imputed_and_said(table, rng):
    holes = with_gaps(table, rng)
    with pytest.raises(abo.InputError, match="misses"):
        fitted(holes)
    synthesizer = fitted(holes, missing="impute")
    release = synthesizer.sample(datasets=5)
    assert all(not frame.isna().any().any() for frame in release.to_frames())
    assert "missing at random" in synthesizer.gaps_in_words
    assert "R-hat" in synthesizer.gaps_in_words
    with pytest.raises(abo.InputError, match="kept must be complete"):
        fitted(holes, missing="impute", keep=["smoker"])


def test_without_gaps_imputing_is_the_closed_form(table):
    key = abo.Synthesizer.new_repeat_key()
    plain, asked = (fitted(table, missing=how) for how in ("refuse", "impute"))
    np.testing.assert_array_equal(plain.posterior.measured.scale, asked.posterior.measured.scale)
    assert asked.sample(datasets=2, repeat_key=key).count == 2
    assert asked.gaps_in_words == ""


def test_a_saved_synthesizer_keeps_its_gaps(table, tmp_path):
    key = abo.Synthesizer.new_repeat_key()
    holes = table.copy()
    holes.loc[:10, "ldl"] = None
    synthesizer = fitted(holes, missing="impute", keep=["sex", "smoker", "age"])
    synthesizer.save(tmp_path / "fit.json")
    loaded = abo.Synthesizer.load(tmp_path / "fit.json")
    one, two = (each.sample(datasets=1, repeat_key=key).to_frames()[0] for each in (synthesizer, loaded))
    pd.testing.assert_frame_equal(one, two)


def test_gaps_may_be_kept_as_gaps(table, rng):
    """Synthetic tables lack values as often as the table, and which a person lacks is judged like a category."""
    holes = with_gaps(table[["sex", "age", "ldl"]], rng, 0.2)
    release = fitted(holes, missing="keep").sample(datasets=2, rows=1000)
    share = np.mean([frame["ldl"].isna().mean() for frame in release.to_frames()])
    assert abs(share - holes["ldl"].isna().mean()) < 5 * np.sqrt(0.25 * (1 / 120 + 1 / 2000))
    assert not any(frame["sex"].isna().any() for frame in release.to_frames())


@pytest.mark.parametrize("missing", ["impute", "keep"])
def test_risk_with_gaps_speaks_of_what_is_observed(table, rng, missing):
    holes = with_gaps(table[["sex", "age", "ldl"]].iloc[:40], rng, 0.1)
    release = fitted(holes, missing=missing).sample(datasets=2)
    found = abo.risk(holes, release)
    np.testing.assert_array_equal(found["error_ldl"].isna(), holes["ldl"].isna().to_numpy())
    assert found["probability_sex"].between(0, 1).all()
    # of whom only the sex is known, which nobody lacks, the counts are exact
    measured = holes[["age", "ldl"]].notna().any(axis=1).to_numpy()
    assert (found.loc[measured, "information_gain_error"] > 0).all()
    assert ("probability_gaps" in found) == (missing == "keep")


def test_with_gaps_kept_categories_are_known(table, rng):
    holes = with_gaps(table[["sex", "age", "ldl"]].iloc[:40], rng, 0.1)
    release = fitted(holes, missing="impute", keep="sex").sample(datasets=2)
    found = abo.risk(holes, release, mass=False)
    assert "probability_sex" not in found
    known = abo.risk(holes, release, adversary=abo.Adversary(known="age"), mass=False)
    assert "error_age" not in known
    assert known["error_ldl"].notna().sum() == holes["ldl"].notna().sum()


def test_an_empty_share_of_gaps_changes_nothing(table):
    """A complete table under `impute` has the risk of one that was read without gaps."""
    releases = [fitted(table, missing=how).sample(datasets=2) for how in ("refuse", "impute")]
    for release in releases:
        found = abo.risk(table, release, rng=np.random.default_rng(1))
        assert "mass_error" not in found


def test_one_record_is_shown_in_every_cell(table):
    release = fitted(table).sample(datasets=3)
    found = abo.attack(table, release, rows=5, rng=1).cells
    assert len(found) == 4
    assert found["is_true"].sum() == found["is_joint_mode"].sum() == 1
    np.testing.assert_allclose(found["probability"].sum(), 1)
    np.testing.assert_allclose(found["baseline"].sum(), 1)
    everyone = abo.risk(table, release, rng=np.random.default_rng(1)).iloc[4]
    own = found[found["sex"] == table["sex"][4]]
    np.testing.assert_allclose(own["probability"].sum(), everyone["probability_sex"], atol=0.01)
    truth = found[found["is_true"]].iloc[0]
    np.testing.assert_allclose(truth["mode_ldl"] - table["ldl"][4], everyone["error_ldl"], atol=1e-6)
    known = abo.attack(table, release, abo.Adversary(known="sex"), rows=5, rng=1).cells
    assert set(known["sex"]) == {table["sex"][4]}
    with pytest.raises(abo.InputError, match="none of the records"):
        abo.attack(table, release, rows=999)
    with pytest.raises(abo.InputError, match="those are attacked who are in it; say whom"):
        abo.attack(table, release)
    two = abo.attack(table, release, rows=[9, 5], rng=1)
    joint = two.cells[two.cells["is_joint_mode"]]
    assert joint["row"].tolist() == [9, 5]
    modes = joint[[f"mode_{name}" for name in release.mechanism.measurements]]
    np.testing.assert_allclose(release.schema.to_natural(two.mode), modes, rtol=1e-9)
    assert set(two.status) <= {"converged", "tie"}


def test_gaps_tell_the_same_beside_released_parameters(table, rng):
    """Which values are missing is drawn by counts that no parameter tells: the tables' gaps say as much."""
    holes = table[["sex", "age", "ldl"]].iloc[:30].copy()
    holes.loc[3, "ldl"], holes.loc[5, "age"] = None, None
    both = fitted(holes, missing="keep").sample(datasets=4, parameters=True)
    apart = abo.risk(holes, Release(both.mechanism, both.illustrating), mass=False)
    found = abo.risk(holes, both, mass=False)
    np.testing.assert_allclose(found["probability_gaps"], apart["probability_gaps"], rtol=1e-12)
    assert not np.allclose(found["probability_gaps"], found["baseline_gaps"], rtol=1e-3)


def test_one_record_of_a_table_with_gaps_is_shown_in_every_cell(table):
    holes = table.iloc[:40].copy()
    holes.loc[3, "ldl"], holes.loc[4, "sex"] = None, None
    release = fitted(holes, missing="impute").sample(datasets=2)
    everyone = abo.risk(holes, release, rng=np.random.default_rng(1))
    lacks_sex = abo.attack(holes, release, rows=5, rng=1).cells
    assert list(lacks_sex["smoker"]) == sorted(set(holes["smoker"]))
    lacks_ldl = abo.attack(holes, release, rows=4, rng=1).cells
    assert np.isnan(lacks_ldl["mode_ldl"]).all()
    assert abo.attack(holes, release, rows=[5, 4], rng=1).status.tolist() == ["averaged"] * 2
    for found, row, name in ((lacks_sex, 4, "smoker"), (lacks_ldl, 3, "sex")):
        np.testing.assert_allclose(found[["probability", "baseline"]].sum(), 1)
        own = found[found[name] == holes[name][row]]["probability"].sum()
        np.testing.assert_allclose(own, everyone[f"probability_{name}"][row], atol=0.05)
        joint = found[found["is_joint_mode"]].iloc[0]
        assert joint["mode_age"] - holes["age"][row] == pytest.approx(everyone["error_age"][row], abs=0.2)


def test_rare_levels_come_out_as_often_as_they_are(rng):
    """Of three categories whose levels make 60 cells the rarest level of one: its mean over many datasets."""
    people = 600
    rare = np.array(["yes"] * 18 + ["no"] * (people - 18))
    table = pd.DataFrame(
        {
            "rare": rare,
            "site": rng.choice(
                [f"s{place}" for place in range(6)], people, p=[0.75, 0.05, 0.05, 0.05, 0.05, 0.05]
            ),
            "arm": rng.choice(["a", "b", "c", "d", "e"], people, p=[0.8, 0.05, 0.05, 0.05, 0.05]),
            "x": rng.standard_normal(people),
        }
    )
    release = abo.Synthesizer().fit(table).sample(datasets=20, rows=1000)
    shares = [np.mean(data["rare"] == "yes") for data in release.to_frames()]
    # α₊ = 1: the posterior mean is (18 + ½)/(600 + 1), each dataset's share a draw around it
    expected = 18.5 / 601
    error = np.sqrt(expected * (1 - expected) * (1 / people + 1 / 1000) / 20)
    assert abs(np.mean(shares) - expected) < 5 * error
