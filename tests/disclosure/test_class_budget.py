"""The budget with classes: simulated releases are judged as by `risk`, and who is far out sets it."""

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.disclosure import budget_case as budgets
from allbutone.disclosure.class_releases import ClassReleases, is_disclosed
from allbutone.disclosure.rule import Rule
from allbutone.figures.budget import budget_figure
from allbutone.reports.report import words_of
from allbutone.support.errors import InputError


def two_groups(n=40, far_out=None):
    rng = np.random.default_rng(3)
    ill = rng.random(n) < 0.5
    marker = np.where(ill, 6.0, 0.0) + rng.standard_normal(n)
    if far_out is not None:
        marker[0] = far_out
    arm = np.where(rng.random(n) < np.where(ill, 0.8, 0.2), "a", "b")
    return pd.DataFrame({"marker": marker, "arm": arm})


def simulated(table, rows, **how):
    mechanism = abo.Synthesizer(model="classes", classes=3).fit(table).mechanism
    return ClassReleases(abo.Records.of(table, categories=True), mechanism, rows, Rule(), 5, **how)


@pytest.fixture(scope="module")
def crowd():
    return simulated(two_groups(far_out=60.0), 40)


def test_a_simulated_release_is_judged_as_risk_judges_it(crowd):
    people = np.arange(0, 40, 8)
    (quick,) = crowd.judged(1, [people], [0])
    release = abo.Release(crowd.mechanism, (crowd.dataset(0, 0),))
    exact = abo.risk(two_groups(far_out=60.0), release, rng=np.random.default_rng(1), mass=False)
    for name in ("marker", "arm"):
        for adversary in ("", "rest_known_"):
            for kind in ("probability_", "baseline_"):
                ours, theirs = quick[adversary + kind + name], exact[adversary + kind + name].to_numpy()[people]
                assert np.all(np.abs(ours - theirs) < 0.25), (adversary, kind, name)
    assert np.all(np.abs(quick["membership"] - exact["membership"].to_numpy()[people]) < 0.25)


def test_of_whom_is_asked_and_in_which_order_makes_no_difference(crowd):
    some, others = np.array([0, 7, 21]), np.array([21, 7, 0])
    first = crowd.judged(2, [some] * 2, [1, 0])
    again = simulated(two_groups(far_out=60.0), 40).judged(2, [others] * 2, [0, 1])
    for one, two in zip(first, again[::-1], strict=True):
        np.testing.assert_allclose(one["membership_evidence"], two["membership_evidence"][::-1], rtol=1e-9)
        for name in ("rest_known_probability_marker", "rest_known_probability_arm"):
            np.testing.assert_allclose(one[name], two[name][::-1], rtol=1e-9)


def test_who_is_far_out_is_watched_and_disclosed(crowd):
    assert 0 in crowd.watched[:4]
    flags = crowd.discloses(1, np.array([0, 5]), range(5))
    assert flags[:, 0].any()  # a class of one person draws near that person in about every second dataset
    assert flags[:, 1].sum() <= flags[:, 0].sum()
    # who is disclosed is so by both attacks, that by few draws and that by as many as in `risk`
    for quick in (True, False):
        (both,) = crowd.judged(1, [np.array([0, 5])], [0], quick)
        assert np.all(is_disclosed(both) | ~flags[0])


def test_what_is_out_counts(crowd):
    out = crowd.dataset(3, 0)
    beside = simulated(two_groups(far_out=60.0), 40, earlier=(out,))
    alone, both = (each.judged(1, [np.array([0])], [0])[0] for each in (crowd, beside))
    assert both["membership_evidence"][0] != alone["membership_evidence"][0]


def test_the_budget_is_what_simulated_releases_allow(monkeypatch, rng):
    monkeypatch.setattr(budgets, "CLASS_LOOKS", ((4, 0),))  # fewer: the search is the same
    monkeypatch.setattr(budgets, "MOST_WITH_CLASSES", 2)
    nothing = abo.budget(two_groups(far_out=60.0), rows=40, model="classes", classes=3, rng=1)
    assert nothing.in_all == 0
    assert nothing.limiting_row == 1
    assert nothing.limiting_column in ("marker", "membership")
    assert "classes" in nothing.assumptions
    columns = nothing.columns()
    assert list(columns) == ["row", "chance_at_1", "chance_at_2"]
    assert columns["chance_at_1"][0] == nothing.simulated.tried[1].each.max() / nothing.simulated.tried[1].releases
    assert "Even one dataset" in words_of(budget_figure(nothing))
    table, how = two_groups(), {"model": "classes", "classes": 3, "rng": 1}
    some = abo.budget(table, rows=2, **how)
    assert some.in_all >= 1
    release = abo.Synthesizer(model="classes", classes=3).fit(table).sample(rows=1, rng_for_tests=rng)
    left = abo.budget(table, rows=2, release=release, **how)
    assert left.in_all == some.in_all
    assert left.before == 1  # half a dataset counts as one


def test_what_has_no_budget(rng):
    table = two_groups()
    with pytest.raises(InputError, match="datasets alone"):
        abo.budget(table, rows=None, model="classes")
    other = abo.Synthesizer(model="classes", classes=2).fit(table).sample(rng_for_tests=rng)
    with pytest.raises(InputError, match="another way"):
        budgets.Earlier(other).of_classes(simulated(table, 40).mechanism)
