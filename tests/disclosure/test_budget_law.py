"""The budget's closed form and its simulation: against one another, and against real releases, attacked."""

import os
from dataclasses import replace

import numpy as np
import pytest

import allbutone as abo
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.disclosure.budget_case import Case, Earlier
from allbutone.disclosure.lineup import LARGEST_BUDGET, Lineup, largest
from allbutone.disclosure.measures import Effort, measure
from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.simulated_budget import Simulated, Tried, shown_at
from allbutone.disclosure.simulation import simulate
from allbutone.disclosure.table_releases import _People
from allbutone.figures.budget import budget_figure
from allbutone.model.location import SEPARATE
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.several import together
from allbutone.support.text import chance
from allbutone.tables.records import Records

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))


def table_of(rng, people, p, outlier=0.0):
    values = rng.standard_normal((people, p))
    values[0, 0] += outlier
    return Records(values, tuple(f"c{place}" for place in range(p)))


def attacked(records, rows, earlier=None, seed=1):
    prior = abo.NIW.flat(len(records.columns))
    mechanism = Mechanism(records.schema.for_columns(records.columns), prior, 1.0, SEPARATE)
    releases = Case.of(records, mechanism, rows, Rule(), seed).releases
    if earlier is None:
        return releases
    return replace(releases, everyone=Earlier(earlier).beside(releases.everyone))


@pytest.mark.parametrize("rows", [None, 60, 3])
def test_simulated_statistics_are_those_of_real_releases(rng, rows):
    records = table_of(rng, 40, 2)
    simulated, whole = attacked(records, rows), abo.NIW.flat(2).update(records.values)
    ours, theirs = [], []
    for release in range(400):
        drawn = simulated.draw(4, release)
        if rows is None:
            ours.append(np.trace(drawn.of(0, np.ones((1, 1)))[0]))
            real = abo.Release.draw_parameters(whole, 4, rng)
        else:
            scatter = np.mean([each.scatter[0] for each in simulated.draws.moments(drawn)], axis=0)
            ours.append(np.trace(np.linalg.solve(whole.scale, scatter)))
            real = abo.Release.draw(whole, [rows] * 4, rng)
        root, statistics = real.normal.whitened(whole)
        turn = np.linalg.solve(whole.root, root)
        theirs.append(
            np.trace(turn @ (statistics.precision if rows is None else statistics.scatter.mean(axis=0)) @ turn.T)
        )
    error = np.hypot(np.std(ours), np.std(theirs)) / np.sqrt(400)
    assert abs(np.mean(ours) - np.mean(theirs)) < 4 * error
    ratio = np.std(ours) / np.std(theirs)
    assert 0.75 < ratio < 1.33


def test_a_release_after_earlier_ones_is_attacked_together_with_them(rng):
    """By the same prior, by another, and from fewer records: the posteriors are those of all releases at once."""
    records, prior = table_of(rng, 40, 2, outlier=5.0), abo.NIW.flat(2)
    model, other = prior.update(records.values), abo.NIW.default(2)
    earlier = abo.Release.draw_parameters(model, 2, rng, prior=prior, columns=records.columns)
    elsewise = abo.Release.draw(other.update(records.values), [40], rng, prior=other, columns=records.columns)
    for out in (earlier, together([earlier, elsewise])):
        simulated = attacked(records, 40, out)
        drawn, people = simulated.draw(3, 0), np.arange(10)
        moments = simulated.draws.moments(drawn)
        whole = simulated.everyone
        after = replace(
            whole,
            datasets=(*whole.datasets, *moments),
            after=(*whole.after, *(whole.whole.plus(one) for one in moments)),
        )
        ours = _People.of(simulated, people, whole.rest).posteriors([drawn], np.ones((1, len(people)), dtype=bool))
        theirs, _ = after.problem(people, np.zeros(10, dtype=int))
        points, origin = records.values[people], ours.centre
        np.testing.assert_allclose(theirs.centre, origin, atol=1e-9)
        difference = ours.log_density_unnormalized(points) - theirs.log_density_unnormalized(points)
        difference -= ours.log_density_unnormalized(origin) - theirs.log_density_unnormalized(origin)
        np.testing.assert_allclose(difference, 0, atol=1e-7)


@pytest.mark.parametrize(
    ("people", "p", "rows", "outlier"),
    [(200, 2, 200, 6.0), (100, 4, None, 7.0), *([(500, 5, 500, 6.0), (500, 10, 50, 8.0)] if LONG else [])],
)
def test_the_closed_form_is_what_simulation_gives(rng, people, p, rows, outlier):
    """A record that stands out: the chance to be disclosed, where it is neither rare nor certain.

    To who lacks the record: of the other adversary, and of membership, there is no closed form.
    """
    records = table_of(rng, people, p, outlier)
    lineup = Lineup.of(records, abo.NIW.flat(p), rows, Rule())
    simulated, releases = replace(attacked(records, rows), nearness=None, membership=False), 200
    count = largest(lambda each: lineup.chances(each)[0] < 0.5, 5, 10_000)
    first = lineup.order[:1]
    for each in (max(1, round(0.7 * count)), count, round(1.5 * count)):
        share = np.mean(simulated.discloses(each, first, range(releases)))
        assert abs(share - lineup.chances(each)[0]) < 0.12 + 3 * np.sqrt(0.25 / releases)


@pytest.mark.parametrize(("people", "p"), [(100, 2), *([(500, 5), (200, 3), (60, 4), (1000, 10)] if LONG else [])])
def test_a_budget_is_neither_lax_nor_timid(rng, people, p):
    """Tables that fit the model: at the budget fewer than 5 % of 200 releases disclose anyone, at thrice more."""
    records = table_of(rng, people, p)
    plan = abo.budget(records, abo.NIW.flat(p), rows=people, rng=rng)
    simulated = attacked(records, people, seed=2)
    at, thrice = (
        np.sum(simulated.discloses(count, plan.lineup.order[:60], range(200)).any(axis=1))
        for count in (plan.confident_count, 3 * plan.confident_count)
    )
    assert at < 10 + 3 * np.sqrt(10)  # the same bar on other releases: 10 give or take
    assert thrice > 10


@pytest.mark.parametrize(("times", "above"), [(10, 1.25), (100, 1.1)])
def test_a_budget_is_about_that_of_exposure_one_half_where_a_record_stands_out(rng, times, above):
    """In one direction: the further out, the nearer to what keeps the guess from half-way.

    With the guess half-way, half of the right hill lies within the tolerance, and the other hill has some of the
    probability: so the rule allows a little more.
    """
    people, p = 300, 3
    values = rng.standard_normal((people, p))
    values[0] = [np.sqrt(times * p), 0, 0]
    lineup = Lineup.of(Records(values, ("a", "b", "c")), abo.NIW.flat(p), people, Rule())
    highest = float(lineup.leverage.max())

    def kept_from_half_way(count):
        _, relative_error = simulate(lineup.law, highest, count, 400, np.random.default_rng(1))
        return np.mean(relative_error <= 0.5) <= 0.5

    half = largest(kept_from_half_way, 10, 500)
    disclosed = largest(lambda count: lineup.chances(count)[0] <= 0.5, 10, 500)
    assert half - 1 <= disclosed <= above * half + 1


def test_ordinary_people_are_known_no_better_within_the_budget(rng):
    records, prior = table_of(rng, 200, 3), abo.NIW.flat(3)
    plan = abo.budget(records, prior, rows=200, rng=rng)
    release = abo.Release.draw(prior.update(records.values), [200] * plan.confident_count, rng)
    everyone = LeaveOneOut.of(records.values, release, prior, None, "record")
    ordinary = np.flatnonzero(plan.leverage < np.median(plan.leverage))
    found = measure(
        everyone.problem(ordinary, ()), records.values[ordinary], Effort(size=256),
        near=near_truth(records).take(ordinary),
    )  # fmt: skip
    assert np.quantile(found.probability - found.baseline, 0.95) < 0.2
    assert not np.any(Rule().discloses(found.probability, found.baseline))


def test_earlier_releases_count(rng):
    records, prior = table_of(rng, 100, 2), abo.NIW.flat(2)
    whole = abo.budget(records, prior, rows=100, rng=1)
    earlier = abo.Release.draw(prior.update(records.values), [100] * (4 * whole.confident_count), rng, prior=prior)
    after = abo.budget(records, prior, rows=100, release=earlier, rng=1)
    assert after.in_all == whole.in_all
    assert after.confident_count == 0
    assert after.sentence.startswith("No more datasets of 100 rows may be released")
    assert f"{whole.in_all:,} in all, and {4 * whole.in_all:,} are out" in after.sentence
    assert after.luck is not None
    assert after.luck.share > 0.05


@pytest.mark.usefixtures("few_trials")
@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "Not even one dataset of 30 rows may be released if"),
        (1, "One dataset of 30 rows may be released, but not two, if"),
        (7, "Up to 7 datasets of 30 rows may be released if"),
        (LARGEST_BUDGET, "At least 1,000,000 datasets of 30 rows, the most that were tried, may be released if"),
    ],
)
def test_the_verdict_is_a_sentence_whatever_the_count(rng, count, words):
    plan = abo.budget(rng.normal(size=(20, 2)), abo.NIW.default(2), rows=30)
    found = replace(plan, in_all=count)
    assert found.sentence.startswith(words)
    assert repr(found).startswith("✔" if count else "✘")
    assert "from a closed form" in replace(found, simulated=None).assumptions
    tried = Simulated(count, {max(count, 1): Tried(max(count, 1), 200, 1, np.zeros(20, dtype=int))})
    assert "was checked on 200 simulated releases" in replace(found, simulated=tried).assumptions
    later = replace(found, in_all=count + 3, before=3)
    assert later.confident_count == count
    assert f"{count + 3:,} in all, and 3 are out" in later.sentence


@pytest.mark.usefixtures("few_trials")
def test_anybody_is_at_least_as_likely_as_each_person_and_as_simulations_show(rng):
    plan = abo.budget(rng.normal(size=(20, 2)), abo.NIW.default(2), rows=30)
    each = np.zeros(len(plan.case.watched), dtype=int)
    each[0] = 180  # simulated releases disclose somebody more often than the closed form says
    plan = replace(plan, simulated=Simulated(1, {1: Tried(1, 200, 190, each)}))
    person, anybody, _ = budget_figure(plan).data
    np.testing.assert_allclose(anybody.y, [plan.anybody(int(count)) for count in anybody.x])
    assert np.all(anybody.y >= person.y)
    assert np.all(np.diff(anybody.y) >= 0)
    assert anybody.y[0] >= 190 / 200 > plan.case.anybody(1)
    assert plan.anybody(0) == 0
    assert plan.anybody(10_000) == 1


def test_what_simulated_releases_show_between_the_numbers_that_were_tried():
    """In between of what is shown there, by the logarithm of the number; more never tell less."""
    shares = {8: np.array([0.9, 0.1]), 2: np.array([0.1, 0.2])}  # of 8 fewer releases, which showed less of one
    np.testing.assert_allclose(shown_at(1, shares), [0.05, 0.1])
    assert shown_at(1, {}) is None
    np.testing.assert_allclose(shown_at(2, shares), [0.1, 0.2])
    np.testing.assert_allclose(shown_at(4, shares), [0.5, 0.2])  # halfway from 2 to 8
    np.testing.assert_allclose(shown_at(8, shares), [0.9, 0.2])
    np.testing.assert_allclose(shown_at(80, shares), [0.9, 0.2])


@pytest.mark.usefixtures("few_trials")
def test_no_chance_is_none_where_one_dataset_goes_out(rng):
    """What rounding leaves nothing of is told as less than 0.1 %, never as 0 %."""
    plan = abo.budget(rng.normal(size=(200, 2)), abo.NIW.flat(2), rows=5)
    assert plan.case.chances(1).min() == 0
    assert plan.chances(1).min() > 0
    assert chance(plan.chances(1).min()) == "less than 0.1\u00a0%"
