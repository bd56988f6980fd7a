"""The attack on tables with classes: taking a record out of a draw, and out of all of them by weights."""

import numpy as np
import pytest
from scipy.special import logsumexp

from allbutone.adversary.class_beliefs import ClassAdversary
from allbutone.adversary.class_values import RestKnown
from allbutone.adversary.classes import ClassOpinion
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.one_value import Nearness
from allbutone.model.class_sampler import ClassChains, draw_classes
from allbutone.model.classes import ClassModel, ClassPosteriors
from allbutone.model.incomplete import IncompleteRecords


@pytest.fixture
def table(rng):
    """Two groups, two categories, a few gaps."""
    group = rng.random(50) < 0.4
    values = rng.standard_normal((50, 3)) + 3.0 * group[:, None]
    codes = np.stack([rng.random(50) < np.where(group, 0.8, 0.3), rng.integers(0, 3, 50)], axis=1).astype(int)
    return IncompleteRecords.of(codes, values)


def test_without_a_record_a_draw_is_as_if_it_had_never_been_there(table, rng):
    model = ClassModel(3, (2, 3), classes=4)
    draws = draw_classes(ClassChains.start(model, table, rng, 4), 2, most_sweeps=20)
    opinion = ClassOpinion.of(draws, np.arange(50), 2)
    points, places = rng.standard_normal((7, 3)), model.places(table.codes[:7])
    for person in (0, 13, 49):
        others = np.delete(np.arange(50), person)
        literal = ClassPosteriors.of(
            model,
            draws.classes[:, others],
            table.values[None, others],
            model.places(table.codes[others]),
            draws.centre,
            draws.scale,
        )
        at_truth = literal.log_density(table.values[[person]], model.places(table.codes[[person]]))[:, 0]
        np.testing.assert_allclose(opinion.log_at_truth[:, person], at_truth, rtol=1e-9, atol=1e-9)
        weights = -at_truth - logsumexp(-at_truth)
        found = logsumexp(opinion.log_groups(points, places, np.array([person]))[:, :, 0], axis=0)
        expected = logsumexp(weights[:, None] + literal.log_density(points, places), axis=0)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_rounded_record_is_taken_out_as_it_was_in_each_draw(table, rng):
    rounded = np.round(table.values)
    records = IncompleteRecords.of(table.codes, rounded, None, rounded - 0.5, rounded + 0.5)
    model = ClassModel(3, (2, 3), classes=4)
    draws = draw_classes(ClassChains.start(model, records, rng, 4), 2, most_sweeps=20)
    assert np.all(np.abs(draws.values - rounded) <= 0.5)
    opinion = ClassOpinion.of(draws, np.arange(50), 2)
    points, places = rng.standard_normal((7, 3)), model.places(table.codes[:7])
    for person in (0, 13, 49):
        others = np.delete(np.arange(50), person)
        literal = ClassPosteriors.of(
            model,
            draws.classes[:, others],
            draws.values[:, others],
            model.places(table.codes[others]),
            draws.centre,
            draws.scale,
        )
        level = model.places(table.codes[[person]])

        def of_each(values, person=person, literal=literal, level=level):
            return np.array([literal.log_density(one[[person]], level)[at, 0] for at, one in enumerate(values)])

        each = [of_each(points) for points, _ in opinion.boxes.lattice]  # in boxes as wide as 1
        assert np.array_equal(opinion.boxes.lattice[0][0], draws.values)
        at_truth = logsumexp(each, axis=0) - np.log(len(each))
        np.testing.assert_allclose(opinion.log_at_truth[:, person], at_truth, rtol=1e-9, atol=1e-9)
        weights = -at_truth - logsumexp(-at_truth)
        np.testing.assert_allclose(opinion.log_weights[:, person], weights, rtol=1e-9, atol=1e-9)
        found = logsumexp(opinion.log_groups(points, places, np.array([person]))[:, :, 0], axis=0)
        expected = logsumexp(weights[:, None] + literal.log_density(points, places), axis=0)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        moved = rounded[[person]] + 0.3 * np.eye(3)  # one value after the other, as who knows the rest moves it
        parts = opinion.own_parts(np.array([person]))
        squared = parts.squared[..., 0, None] + 0.6 * parts.slopes[..., 0, :] + 0.09 * parts.bends[..., 0, :]
        logs = (parts.log_shares + parts.heights + parts.log_levels.sum(axis=-1))[..., 0, None]
        logs = logs - parts.exponents[..., 0, None] * np.log1p(parts.ratios[..., 0, None] * squared)
        np.testing.assert_allclose(
            logsumexp(logs, axis=1), literal.log_density(moved, np.repeat(level, 3, axis=0)), rtol=1e-9
        )


def test_groups_are_of_chains_and_add_up(table, rng):
    draws = draw_classes(ClassChains.start(ClassModel(3, (2, 3), classes=3), table, rng, 4), 3, most_sweeps=20)
    points, places, people = table.values[:5], draws.model.places(table.codes[:5]), np.arange(3)
    by_four, whole = (
        ClassOpinion.of(draws, np.arange(50), groups).log_groups(points, places, people) for groups in (4, 1)
    )
    np.testing.assert_allclose(logsumexp(by_four, axis=0), whole[0], rtol=1e-12)
    first = ClassOpinion.of(draws, np.arange(50), 4)
    assert first.posteriors is draws.posteriors
    weights = np.exp(first.log_weights)
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    np.testing.assert_allclose(first.effective_draws, 1 / np.sum(weights**2, axis=0))


@pytest.mark.parametrize("limited", [False, True])
def test_weights_say_what_a_chain_without_the_record_says(rng, limited):
    """Also of a person at a limit below which many are, in a table of whole numbers."""
    values = np.concatenate([rng.standard_normal((25, 1)), 6 + rng.standard_normal((15, 1)), [[3.0]]])
    records = IncompleteRecords.of(None, values)
    if limited:
        whole = np.maximum(np.round(np.append(values[:40], [[-1.0]], axis=0)), -1)
        records = IncompleteRecords.of(None, whole, None, np.where(whole > -1, whole - 0.5, -np.inf), whole + 0.5)
    model, none = ClassModel(1, classes=3), np.zeros((5, 0), dtype=int)
    points, person = np.array([[-1.0], [0.5], [3.0], [6.0], [9.0]]), np.array([40])
    with_it = draw_classes(ClassChains.start(model, records, rng, 16), 60)
    without = draw_classes(ClassChains.start(model, records.take(np.arange(40)), rng, 16), 60)
    found = np.exp(ClassOpinion.of(with_it, np.arange(41), 16).log_groups(points, none, person))[..., 0]
    mean = found.sum(axis=0)
    left_out = (mean - found) / (
        1 - np.exp(ClassOpinion.of(with_it, np.arange(41), 16).log_weights[:, 40]).reshape(60, 16).sum(axis=0)
    )[:, None]
    error = np.sqrt(15 / 16 * np.sum((left_out - left_out.mean(axis=0)) ** 2, axis=0))
    other = np.exp(without.posteriors.log_density(points, none)).reshape(60, 16, 5).mean(axis=0)
    both = np.hypot(error, other.std(axis=0, ddof=1) / 4)
    np.testing.assert_array_less(np.abs(mean - other.mean(axis=0)), 6 * both)
    assert np.all(both < 0.3 * mean)


def test_of_people_with_gaps_what_is_observed_is_looked_at(table, rng):
    values, codes = table.values.copy(), table.codes.copy()
    values[10:20, 1], codes[10:20, 0] = np.nan, -1
    model = ClassModel(3, (2, 3), classes=3)
    draws = draw_classes(ClassChains.start(model, IncompleteRecords.of(codes, values), rng, 4), 1, most_sweeps=10)
    opinion = ClassOpinion.of(draws, np.arange(10, 20), 2)
    assert opinion.posteriors.model.p == 2
    assert opinion.posteriors.model.sizes == (3,)
    others = np.delete(np.arange(50), 12)
    literal = ClassPosteriors.of(
        model,
        draws.classes[:, others],
        draws.values[:, others],
        model.places(codes[others]),
        draws.centre,
        draws.scale,
    )
    truth = literal.select(np.array([0, 2]), np.array([1]))
    expected = truth.log_density(values[[12]][:, [0, 2]], truth.model.places(codes[[12], 1:]))[:, 0]
    np.testing.assert_allclose(opinion.log_at_truth[:, 2], expected, rtol=1e-9)
    # a marginal of the mixture, by summing and integrating what is left out
    wide = np.linspace(-60, 60, 2401)
    many = np.repeat(values[[12]], 2 * len(wide), axis=0)
    many[:, 1] = np.tile(wide, 2)
    levels = np.repeat(codes[[12]], 2 * len(wide), axis=0)
    levels[:, 0] = np.repeat([0, 1], len(wide))
    total = np.exp(literal.log_density(many, model.places(levels))).sum(axis=1) * (wide[1] - wide[0])
    np.testing.assert_allclose(total, np.exp(expected), rtol=2e-3)


def test_one_value_with_all_others_known_is_as_at_points(table, rng):
    model = ClassModel(3, (2, 3), classes=3)
    drawn = draw_classes(ClassChains.start(model, table, rng, 4), 1, most_sweeps=20).posteriors.draw(rng)
    adversary = ClassAdversary.of(model, table, [IncompleteRecords.of(*drawn.take([0]).draw_rows(rng, 30))], rng)
    beliefs, people = adversary.opinions(np.arange(50)), np.array([3, 8])
    rest = RestKnown.of(beliefs, people)
    steps = np.stack([np.linspace(-3, 3, 7), np.linspace(-8, 5, 7)])
    for column in range(3):
        points = np.repeat(table.values[people][:, None], 7, axis=1)
        points[:, :, column] += steps
        places = np.repeat(beliefs.before.places[people][:, None], 7, axis=1)
        found = rest.log_beliefs(rest.lines(column), steps)
        for line, expected in zip(found, beliefs.at(points, places, people), strict=True):
            # what is negligible is left out
            np.testing.assert_allclose(line, np.swapaxes(expected, 1, 2), atol=1e-3)
    for category, size in enumerate((2, 3)):
        points = np.repeat(table.values[people][:, None], size, axis=1)
        codes = np.repeat(table.codes[people][:, None], size, axis=1)
        codes[..., category] = np.arange(size)
        expected = beliefs.at(points, model.places(codes), people)
        for levels, at in zip(rest.log_levels(category), expected, strict=True):
            np.testing.assert_allclose(levels, at, rtol=1e-8)
        shares = np.exp(expected[0][-1] - logsumexp(expected[0][-1], axis=0))
        np.testing.assert_allclose(rest.levels(category)[0], shares[table.codes[people, category], [0, 1]])


def test_intervals_on_lines_are_integrated_exactly(table, rng):
    model, people = ClassModel(3, (2, 3), classes=3), np.array([0, 20, 33])
    drawn = draw_classes(ClassChains.start(model, table, rng, 4), 1, most_sweeps=20).posteriors.draw(rng)
    released = [IncompleteRecords.of(*drawn.take([each]).draw_rows(rng, 30)) for each in range(3)]
    rest = RestKnown.of(ClassAdversary.of(model, table, released, rng).opinions(np.arange(50)), people)
    truth = table.values[people]
    least = Nearness(Intervals(truth - 0.5, truth + 0.3), np.array([False, True, True]))
    found = rest.measurements(least)
    for column in range(3):
        steps = np.repeat(np.linspace(-60, 60, 24_001)[None], 3, axis=0)
        after, before = (np.exp(each[-1]) for each in rest.log_beliefs(rest.lines(column), steps))
        expected = truth[:, column] + np.sum(before * steps, axis=1) / np.sum(before, axis=1)
        np.testing.assert_allclose(found.expected[:, column], expected, atol=0.02)
        low, high = (each[:, [column]] for each in (found.near.low - truth, found.near.high - truth))
        inside = (steps > low) & (steps < high)
        for density, stated in ((after, found.probability), (before, found.baseline)):
            share = np.sum(density * inside, axis=1) / np.sum(density, axis=1)
            np.testing.assert_allclose(stated[:, column], share, atol=0.005)
