"""Risk of tables with classes: calibrated, the normal model's with one class, and whoever attacks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import allbutone as abo
from allbutone.adversary.cell_opinions import CellAdversary
from allbutone.adversary.class_beliefs import ClassAdversary, draw_given
from allbutone.adversary.class_values import RestKnown
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.one_value import Nearness, jackknife_error
from allbutone.model.class_sampler import ClassChains, draw_classes, draw_rest, draw_with_kept
from allbutone.model.classes import ClassModel, ClassPosteriors
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel
from allbutone.support.errors import InputError


@pytest.fixture(scope="module")
def clinic():
    rng = np.random.default_rng(8)
    ill = rng.random(60) < 0.4
    marker, weight = np.where(ill, 9.0, 3.0) + rng.standard_normal(60), 70 + 10 * rng.standard_normal(60)
    arm = np.where(rng.random(60) < np.where(ill, 0.9, 0.2), "treated", "control")
    return pd.DataFrame({"marker": marker, "arm": arm, "weight": weight})


@pytest.fixture(scope="module")
def release(clinic):
    return abo.Synthesizer(model="classes", classes=3).fit(clinic).sample(datasets=2)


def test_one_class_is_the_normal_models_risk(rng):
    table = pd.DataFrame(rng.standard_normal((25, 2)), columns=["a", "b"])
    table.iloc[0] = 5.0
    one = abo.Synthesizer(model="classes", classes=1).fit(table).sample(datasets=2, rng_for_tests=rng)
    normal = abo.Release.of(one.values, one.columns, abo.NIW.flat(2))
    found, exact = abo.risk(table, one, rng=rng), abo.risk(table, normal, rng=rng)
    for name in ("a", "b"):
        error = np.hypot(found[f"probability_error_{name}"], exact[f"probability_error_{name}"])
        off = np.abs(found[f"probability_{name}"] - exact[f"probability_{name}"])
        assert np.all(off < 6 * error + 0.02)
        assert np.all(np.abs(found[f"baseline_{name}"] - exact[f"baseline_{name}"]) < 0.08)
    gain = found.information_gain - exact.information_gain
    assert np.all(np.abs(gain) < 6 * found.information_gain_error + 0.1)
    # the radius is measured by the covariance of all records: for who is far out, not by that of the others
    assert np.all(np.abs(np.log(found.prior_mass / exact.prior_mass))[1:] < 1.0)


def test_one_class_that_keeps_a_column_is_the_normal_models_risk_by_who_knows_it(rng):
    """Of one class what is kept says nothing of the others given it: p(x | others ∪ Z), given the kept value."""
    table = pd.DataFrame(rng.standard_normal((25, 2)) @ [[1.0, 0.8], [0.0, 0.6]], columns=["a", "b"])
    one = abo.Synthesizer(model="classes", classes=1, keep="a").fit(table).sample(datasets=2, rng_for_tests=rng)
    normal = abo.Release.of(one.values, one.columns, abo.NIW.flat(2))
    found, exact = abo.risk(table, one, rng=rng), abo.risk(table, normal, abo.Adversary(known="a"), rng=rng)
    assert "probability_a" not in found
    off = np.abs(found.probability_b - exact.probability_b)
    assert np.all(off < 6 * found.probability_error_b + 0.02)
    assert np.all(np.abs(found.baseline_b - exact.baseline_b) < 0.08)
    assert np.mean(found.probability_b - exact.probability_b) < 0.03


def test_people_of_whom_nothing_is_kept_say_nothing(rng):
    model, table = drawn_from_the_model(rng, 40)
    dataset = IncompleteRecords.of(table.codes[::-1], table.values + 0.1 * rng.standard_normal((40, 2)))
    nothing = IncompleteRecords.of(np.full((40, 2), -1), np.full((40, 2), np.nan))
    without, with_them = (
        ClassAdversary.of(model, table, [dataset], rng, kept).opinions(np.arange(40)) for kept in (None, nothing)
    )
    assert with_them.powers == (1, -1, 1)
    ours, theirs = (after - before for after, before in (each.at_truth() for each in (without, with_them)))
    error = np.hypot(jackknife_error(ours), jackknife_error(theirs))
    assert np.all(np.abs(ours[-1] - theirs[-1]) < 6 * error + 0.2)


def test_releases_through_other_classes_and_of_fewer_people_multiply(rng):
    """ℓ is the sum of log p_r(x | others ∪ Z) − log p_r(x | others) over the releases r that somebody is in."""
    model, table = drawn_from_the_model(rng, 40)
    dataset = IncompleteRecords.of(table.codes[::-1], table.values + 0.1 * rng.standard_normal((40, 2)))
    first = ClassAdversary.of(model, table, [dataset], rng)
    other = ClassAdversary.of(replace(model, classes=2), table.take(slice(10, 40)), [dataset, dataset], rng)
    both = replace(first, rest=(replace(other, start=10),))
    out, inside = both.alike(np.arange(40))
    np.testing.assert_array_equal(out, np.arange(10))
    assert both.opinions(out).powers == (0, 1)
    beliefs = both.opinions(inside)
    assert beliefs.powers == (0, 1, -2, 1, 1)
    alone = first.opinions(inside).at_truth()[0][-1]
    after, before = (each[-1] for each in other.opinions(np.arange(30)).at_truth())
    np.testing.assert_allclose(beliefs.at_truth()[0][-1], alone + after - before)
    points = beliefs.shared_points(rng, 32)
    assert np.all(np.isfinite(beliefs.at_shared(points, np.arange(30))[0]))
    person = both.without(10, rng)
    assert person.powers == beliefs.powers


def test_releases_without_classes_multiply_in_closed_form(rng):
    """p(x | others ∪ Z) of main effects is `LocationModel.predictive`, at points, on lines and at all levels."""
    model, table = drawn_from_the_model(rng, 30)
    dataset = IncompleteRecords.of(table.codes[::-1], table.values + 0.1 * rng.standard_normal((30, 2)))
    prior = LocationModel.prior((2, 3), abo.NIW.default(2), separate=False)
    cells = CellAdversary.of(prior, table, [dataset])
    first = ClassAdversary.of(model, table, [dataset], rng)
    both = replace(first, rest=(cells,), own=replace(cells, datasets=()))
    beliefs, people = both.opinions(np.arange(30)), np.array([0, 7])
    assert beliefs.powers == (1, -1, 1, -1, 1)
    points = np.repeat(table.values[people][:, None], 5, axis=1) + rng.standard_normal((2, 5, 2))
    places = np.repeat(model.places(table.codes[people])[:, None], 5, axis=1)
    after, before = (each[-1] for each in beliefs.at(points, places, people))
    alone, unreleased = (each[-1] for each in first.opinions(np.arange(30)).at(points, places, people))
    for place, person in enumerate(people):
        rest = table.take(np.delete(np.arange(30), person))
        asked = IncompleteRecords.of(np.repeat(table.codes[[person]], 5, axis=0), points[place])
        told = [
            prior.plus(each.complete(prior.cells)).predictive().log_density(asked.complete(prior.cells))
            for each in (rest, rest.joined(dataset))
        ]
        np.testing.assert_allclose(before[:, place], told[0])
        np.testing.assert_allclose(after[:, place], told[1] + (alone - unreleased)[:, place])
    shared = beliefs.shared_points(rng, 16)
    same = np.repeat(shared.values[None], 2, axis=0), np.repeat(shared.places[None], 2, axis=0)
    for one, other in zip(beliefs.at_shared(shared, people), beliefs.at(*same, people), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)
    rest, steps = RestKnown.of(beliefs, people), np.stack([np.linspace(-3, 3, 5)] * 2)
    line = np.repeat(table.values[people][:, None], 5, axis=1)
    line[:, :, 0] += steps
    for one, other in zip(rest.log_beliefs(rest.lines(0), steps), beliefs.at(line, places, people), strict=True):
        other = np.swapaxes(other, 1, 2)
        top = np.max(other, axis=2, keepdims=True)  # what is negligible beside it is left out
        np.testing.assert_allclose(np.exp(one - top), np.exp(other - top), atol=1e-4)
    codes = np.repeat(table.codes[people][:, None], 3, axis=1)
    codes[..., 1] = np.arange(3)
    expected = beliefs.at(np.repeat(table.values[people][:, None], 3, axis=1), model.places(codes), people)
    for one, other in zip(rest.log_levels(1), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def drawn_from_the_model(rng, n):
    """A table drawn from three classes of two measurements and two categories, with parameters drawn at random."""
    model = ClassModel(2, (2, 3), classes=3)
    nobody, nothing = np.zeros((1, 0), dtype=int), np.zeros((1, 0, 2))
    prior = ClassPosteriors.of(
        model, nobody, nothing, np.zeros((0, 2), dtype=int), np.zeros((1, 2)), np.eye(2)[None]
    )
    # shares and levels that are not all one: what the prior says of them in a table this small tells little
    even = replace(prior, weights=np.full((1, 3), 4.0), level_weights=np.ones_like(prior.level_weights))
    return model, IncompleteRecords.of(*even.draw(rng).draw_rows(rng, n))


def calibrated_events(rng, datasets, tables, n=80, keep=False):
    """What is believed of each record of tables from the model, by who lacks it and who knows the rest.

    By name and table: ranks of measurements, which are uniform; probabilities of levels, with what is true;
    evidence. keep: whether the first measurement and the first category of everybody go out as they are.
    """
    found = {"ranks": [], "ranks_rest": [], "levels": [], "levels_rest": [], "evidence": []}
    for _ in range(tables):
        model, table = drawn_from_the_model(rng, n)
        kept, begun = None, ClassChains.start(model, table, rng, 8)
        if keep:
            codes, values = table.codes.copy(), table.values.copy()
            codes[:, 1], values[:, 1] = -1, np.nan
            kept = IncompleteRecords.of(codes, values)
            drawn = draw_with_kept(begun, kept, rng, 1).posteriors.draw(rng)
            made = [draw_rest(drawn.take([each]), kept, rng) for each in range(datasets)]
        else:
            drawn = draw_classes(begun, 1, most_sweeps=150).posteriors.draw(rng)
            made = [drawn.take([each]).draw_rows(rng, n) for each in range(datasets)]
        people, released = np.arange(n), [IncompleteRecords.of(*each) for each in made]
        beliefs = ClassAdversary.of(model, table, released, rng, kept).opinions(people)
        points = beliefs.shared_points(rng, 1024)
        logs, _ = beliefs.at_shared(points, people)
        weights = np.exp(logs[-1] - points.log_density[:, None])
        weights /= weights.sum(axis=0)
        found["ranks"].append(np.einsum("sb,sbp->bp", weights, points.values[:, None] < table.values))
        rest = RestKnown.of(beliefs, people)
        half = Nearness(Intervals(np.full((n, 2), -np.inf), table.values), np.zeros(2, dtype=bool))
        found["ranks_rest"].append(rest.measurements(half).probability)
        stated, stated_rest, true = [], [], []
        for place, size in enumerate(model.sizes):
            there = points.places[:, place, None] - model.starts[place] == np.arange(size)
            stated.append((weights.T @ there).ravel())
            logs = rest.log_levels(place)[0][-1]
            stated_rest.append(np.exp(logs - logsumexp(logs, axis=0)).T.ravel())
            true.append((table.codes[:, place, None] == np.arange(size)).ravel())
        for name, each in (("levels", stated), ("levels_rest", stated_rest)):
            found[name].append(np.stack([np.concatenate(each), np.concatenate(true)], axis=1))
        after, before = beliefs.at_truth()
        found["evidence"].append((after - before)[-1])
    return {name: np.stack(each) for name, each in found.items()}


def test_who_attacks_is_calibrated(rng):
    found = calibrated_events(rng, 1, 2)
    for name in ("ranks", "ranks_rest"):
        for below in (0.1, 0.25, 0.5, 0.75, 0.9):
            error = np.sqrt(below * (1 - below) / found[name].size)
            assert abs(np.mean(found[name] < below) - below) < 5 * error, (name, below)
    stated, true = found["levels_rest"].reshape(-1, 2).T
    assert abs(np.mean(true - stated)) < 1e-9  # the levels of each category make one
    assert np.mean((true - stated) ** 2) < np.mean(stated * (1 - stated)) + 0.05  # as far off as is said


@pytest.mark.parametrize("datasets", [1, 5])
def test_who_attacks_is_calibrated_in_many_tables(datasets, rng):
    found = calibrated_events(rng, datasets, 20, n=50)
    assert found["ranks"].size == 2000
    for name in ("ranks", "ranks_rest"):
        for below in (0.1, 0.25, 0.5, 0.75, 0.9):
            require_frequency(found[name] < below, below, name)
    for name in ("levels", "levels_rest"):
        stated, true = np.moveaxis(found[name], -1, 0)
        for low, high in ((0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.01)):
            here = (stated >= low) & (stated < high)
            require_frequency(np.where(here, true, 0.0), np.where(here, stated, 0.0), name)
    # of people who are in the table 1/LR has the mean 1, whatever they are like
    require_frequency(np.exp(-found["evidence"]), 1.0, "evidence")


def test_who_attacks_is_calibrated_where_columns_are_kept(rng):
    """By who knows all else of a person, which what is kept belongs to; of kept columns nothing is asked."""
    found = calibrated_events(rng, 2, 20, n=50, keep=True)
    for below in (0.1, 0.25, 0.5, 0.75, 0.9):
        require_frequency(found["ranks_rest"][..., 1] < below, below, "ranks")
    stated, true = np.moveaxis(found["levels_rest"][:, 2 * 50 :], -1, 0)
    for low, high in ((0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.01)):
        here = (stated >= low) & (stated < high)
        require_frequency(np.where(here, true, 0.0), np.where(here, stated, 0.0), "levels")
    require_frequency(np.exp(-found["evidence"]), 1.0, "evidence")


def require_frequency(true, stated, name):
    """What is stated is true on average, within three standard errors; people of one table are not independent."""
    off = np.mean((true - stated).reshape(len(true), -1), axis=1)
    assert abs(np.mean(off)) < 3 * np.std(off, ddof=1) / np.sqrt(len(off)) + 0.003, (name, np.mean(off))


def test_all_columns_are_told_of_everybody(clinic, release, rng):
    found = abo.risk(clinic, release, rng=rng)
    for name in ("marker", "arm", "weight"):
        for each in ("probability_", "baseline_"):
            assert found[each + name].between(0, 1).all()
        assert (found[f"probability_error_{name}"] > 0).all()
    # what hangs together with two measurements is guessed better by who knows these
    assert found.rest_known_baseline_arm.mean() > found.baseline_arm.mean() + 0.05
    assert found.rest_known_probability_marker.between(0, 1).all()
    assert np.isfinite(found.information_gain).all()
    assert (found.mass <= 1).all()


def test_what_is_known_of_a_person_helps(clinic, release, rng):
    usual, knows = (
        abo.risk(clinic, release, abo.Adversary(known=known), rng=np.random.default_rng(2), mass=False)
        for known in ([], ["marker"])
    )
    assert "probability_marker" not in knows
    assert knows.baseline_arm.mean() > usual.baseline_arm.mean() + 0.05
    everything_else = abo.risk(clinic, release, abo.Adversary(known=["marker", "weight"]), rng=rng, mass=False)
    assert everything_else.probability_arm.between(0, 1).all()


def test_points_given_what_is_known_follow_the_joint_density(rng):
    values = rng.standard_normal((40, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    codes = (values[:, :1] > 0).astype(int)
    model = ClassModel(2, (2,), classes=3)
    draws = draw_classes(ClassChains.start(model, IncompleteRecords.of(codes, values), rng, 2), 1, most_sweeps=50)
    posteriors, known = draws.posteriors.take([0]), (np.array([0]), np.zeros(0, dtype=int))
    y = np.array([0.7, 0.0])
    shares = np.exp(posteriors.select(*known).log_parts(y[None, :1], np.zeros((1, 0), dtype=int)))[..., 0]
    drawn, levels = draw_given(posteriors, shares, rng, 20_000, known, y, np.zeros(1, dtype=int))
    assert np.all(drawn[:, 0] == 0.7)
    grid = np.linspace(-30, 30, 6001)
    points = np.stack([np.full(6001, 0.7), grid], axis=1)
    density = [np.exp(posteriors.log_density(points, np.full((6001, 1), level))[0]) for level in (0, 1)]
    total = np.sum(density)
    assert abs(np.mean(levels == 1) - np.sum(density[1]) / total) < 0.02
    middle = np.sum(np.sum(density, axis=0)[np.abs(grid - 0.5) < 0.5]) / total
    assert abs(np.mean(np.abs(drawn[:, 1] - 0.5) < 0.5) - middle) < 0.02


def test_draws_without_a_person_say_what_weights_say(clinic, release, rng):
    mechanism = release.mechanism
    records = abo.Records.of(clinic, categories=True)
    table = mechanism.incomplete(records)
    adversary = ClassAdversary.of(mechanism.class_model, table, [mechanism.incomplete(release.tables[0])], rng)
    weighed = adversary.opinions(np.array([5]))
    again = [np.mean(each.log_at_truth) for each in weighed.opinions]
    for one, chains in zip(weighed.opinions, adversary.chains, strict=True):
        drawn = draw_classes(chains.without(5, rng), 8, most_sweeps=60)
        assert len(drawn.records) == len(chains.records) - 1
        density = np.exp(drawn.posteriors.log_density(one.values, one.places))
        harmonic = 1 / np.mean(np.exp(-one.log_at_truth[:, 0]))
        assert abs(np.log(np.mean(density)) - np.log(harmonic)) < 0.5
    assert len(again) == 2


def test_gaps_and_rows_that_are_asked_for(clinic, rng):
    table = clinic.copy()
    table.loc[::6, "weight"] = np.nan
    table.loc[1::9, "arm"] = None
    made = abo.Synthesizer(model="classes", classes=2, missing="keep").fit(table).sample(rng_for_tests=rng)
    found = abo.risk(table, made, rng=rng, mass=False)
    np.testing.assert_array_equal(np.isnan(found.probability_weight), table.weight.isna())
    np.testing.assert_array_equal(np.isnan(found.probability_arm), table.arm.isna())
    assert "probability_gaps" in found


def test_columns_that_are_lacking_and_what_is_refused(clinic, release, rng):
    found = abo.risk(clinic, release, abo.Adversary(lacking_columns=["weight"]), rng=rng, mass=False)
    assert "probability_weight" not in found
    with pytest.raises(InputError, match="has all other records"):
        abo.risk(clinic, release, abo.Adversary(lacking_records=2))


def test_categories_alone(rng):
    group = rng.random(50) < 0.5
    table = pd.DataFrame(
        {f"c{number}": np.where(rng.random(50) < np.where(group, 0.85, 0.15), "yes", "no") for number in range(4)}
    )
    made = abo.Synthesizer(model="classes", classes=3).fit(table).sample(rng_for_tests=rng)
    found = abo.risk(table, made, rng=rng)
    assert found.probability_c0.between(0, 1).all()
