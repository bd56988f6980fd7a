"""q of a release: the probability of the values of which it would have failed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.selection import Selection, selection_of, would_have_failed
from allbutone.model.location import MixedRecords
from allbutone.model.moments import Moments
from cases import LONG

PRIOR = abo.NIW.flat(1)


@pytest.fixture
def one_stands_out(rng):
    """Twenty people; the first is two and a half deviations out."""
    values = rng.standard_normal((20, 1))
    values[0] = 2.5
    return abo.Records(values, ("a",))


def test_q_is_the_integral_over_the_posterior(rng, one_stands_out):
    """By a literal sum over a grid: p(x | others)·p(Z | x, others), and the verdict at each of its points."""
    table = one_stands_out
    release = abo.Synthesizer(prior=PRIOR).fit(table).sample(datasets=6, rows=20, rng_for_tests=rng)
    place = 0
    found = would_have_failed(table, release, place, Rule(), draws=60)
    others = np.delete(table.values, place, axis=0)
    grid = np.linspace(-5, 5, 41)
    before = PRIOR.update(others).predictive()
    logs, failed = np.empty(len(grid)), np.empty(len(grid), dtype=bool)
    for number, x in enumerate(grid):
        person = replace(table.take(np.array([place])), values=np.array([[x]]))
        one = risk_columns(person, release, elsewhere=Moments.of(others), mass=False)
        opinions = [
            PRIOR.update(np.vstack([others, data])).predictive().log_density(np.array([x]))
            - before.log_density(np.array([x]))
            for data in release.values
        ]
        logs[number] = before.log_density(np.array([x])) + np.sum(opinions)
        failed[number] = one["disclosed"][0] or one["membership_disclosed"][0]
    mass = np.exp(logs - logs.max())
    q = float(mass @ failed / mass.sum())
    assert abs(found.share - q) < 4.5 * found.error + 0.02


def test_q_of_a_table_with_categories_is_the_sum_over_the_posterior(rng):
    """As above, over both levels of a category and a grid of the measurement."""
    people = pd.DataFrame({"x": rng.standard_normal(16), "group": ["a", "a", "a", "b"] * 4})
    table = abo.Records.of(people, categories=True)
    release = abo.Synthesizer().fit(table).sample(datasets=6, rows=16, rng_for_tests=rng)
    place, mechanism = 3, release.mechanism
    found = would_have_failed(table, release, place, Rule(), draws=40)
    without = mechanism.split(table).take(np.arange(16) != place)
    model = mechanism.prior.update(without)
    data = [mechanism.split(each) for each in release.tables]
    grid, cells = (np.ravel(each) for each in np.meshgrid(np.linspace(-4, 4, 13), [0, 1]))
    points = MixedRecords.of(cells, grid[:, None])
    logs = model.predictive().log_density(points)
    logs = logs + sum(model.update(each).predictive().log_density(points) - logs for each in data)
    mass, failed = np.exp(logs - logs.max()), np.empty(len(grid), dtype=bool)
    others = mechanism.prior.moments(without)
    for number in range(len(grid)):
        categories = replace(table.categories, codes=cells[number].reshape(1, 1))
        person = replace(table.take(np.array([place])), values=grid[number].reshape(1, 1), categories=categories)
        one = risk_columns(person, release, elsewhere=others, mass=False)
        failed[number] = one["disclosed"][0] or one["membership_disclosed"][0]
    assert abs(found.share - mass @ failed / mass.sum()) < 4.5 * found.error + 0.05


@pytest.mark.skipif(not LONG, reason="a thousand verdicts")
def test_on_average_q_is_how_often_releases_fail(rng):
    """Of values drawn as the others let expect, and a release given them, as many fail as q says."""
    others = rng.standard_normal((15, 1))
    before = PRIOR.update(others).predictive()
    differences = []
    for _ in range(100):
        table = abo.Records(np.vstack([before.draw(rng, 1), others]), ("a",))
        release = abo.Synthesizer(prior=PRIOR).fit(table).sample(datasets=12, rows=15, rng_for_tests=rng)
        columns = risk_columns(table, release, mass=False, rows=np.array([0]))
        failed = bool(columns["disclosed"][0] or columns["membership_disclosed"][0])
        differences.append(would_have_failed(table, release, 0, Rule(), draws=50).share - failed)
    assert abs(np.mean(differences)) < 4 * np.std(differences) / np.sqrt(len(differences)) + 0.02


def test_q_is_of_who_is_nearest_or_stands_out_and_of_nobody_where_it_cannot_be_told(one_stands_out, rng):
    release = abo.Synthesizer(prior=PRIOR).fit(one_stands_out).sample(rng_for_tests=rng)
    columns = risk_columns(one_stands_out, release, mass=False)
    found = selection_of(one_stands_out, release, columns, Rule(), draws=4)
    assert found.row in (1, int(columns["row"][np.argmax(np.maximum(columns["risk"], columns["membership"]))]))
    assert found.error > 0.1  # of four draws
    del columns["membership_evidence"]
    assert selection_of(one_stands_out, release, columns, Rule()) is None


def test_words_tell_what_others_gain():
    assert "up to 1.25 times as probable" in Selection(7, 0.2, 0.01).in_words
    assert "it passed tells little" in Selection(7, 0.001, 0.001).in_words
    assert [Selection(7, share, 0.0).tells for share in (0.0, 0.2)] == [False, True]
