"""Classes that nobody has observed: against the flat prior, all assignments one by one, and other units."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import allbutone as abo
from allbutone.model.augmentation import augment
from allbutone.model.class_sampler import ClassChains, draw_classes, draw_rest
from allbutone.model.classes import MOST_CLASSES, ClassModel, ClassPosteriors, choose, require_values
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel
from allbutone.support.errors import InputError

SURE = 6.0  # standard errors of a mean over sixteen chains, so that the tests hold for any seed


def two_groups(rng, n, p):
    """Records of two classes, four standard deviations apart in each column."""
    return rng.standard_normal((n, p)) + 4.0 * (rng.random(n) < 0.4)[:, None]


def run(model, records, rng, chains=16, sweeps=400, keep=200):
    """Return what each chain's later draws say, as draws chain by chain."""
    found = ClassChains.start(model, records, rng, chains)
    kept = []
    for sweep in range(sweeps):
        found.sweep()
        if sweep >= sweeps - keep:
            kept.append(found.posteriors())
    return kept


def averaged(kept, values, places):
    """The mean density of each chain, and of all with its standard error."""
    each = np.mean([np.exp(one.log_density(values, places)) for one in kept], axis=0)
    return np.mean(each, axis=0), np.std(each, axis=0, ddof=1) / np.sqrt(len(each))


def test_one_class_is_the_flat_prior(rng):
    values = rng.standard_normal((12, 2)) @ np.array([[3.0, 1.0], [0.0, 0.5]]) + 100
    exact = abo.NIW.flat(2).update(values).predictive()
    points = values[:5] + rng.standard_normal((5, 2))
    kept = run(ClassModel(2, classes=1), IncompleteRecords.of(None, values), rng)
    mean, error = averaged(kept, points, np.zeros((5, 0), dtype=int))
    np.testing.assert_array_less(np.abs(mean - np.exp(exact.log_density(points))), SURE * error)
    assert np.all(error < 0.1 * np.max(mean))


def test_with_classes_fixed_each_is_a_normal_model_of_its_own(rng):
    model = ClassModel(3, (2, 3), classes=4)
    values, codes = (
        rng.standard_normal((40, 3)),
        np.stack([rng.integers(0, 2, 40), rng.integers(0, 3, 40)], axis=1),
    )
    classes, centre = rng.integers(0, 3, (2, 40)), rng.standard_normal((2, 3))
    scale = np.stack([np.eye(3), np.diag([1.0, 2.0, 3.0])])
    places = model.places(codes)
    found = ClassPosteriors.of(model, classes, values[None], places, centre, scale)
    points, at = rng.standard_normal((6, 3)), places[:6]
    parts = found.log_parts(points, at)
    for draw in range(2):
        for place in range(4):
            own = classes[draw] == place
            prior = abo.NIW(centre[draw], model.mean_weight, model.df, scale[draw])
            niw = prior.update(values[own]) if own.any() else prior
            expected = niw.predictive().log_density(points) + np.log((own.sum() + 0.25) / 41)
            for category, size in enumerate((2, 3)):
                same = codes[own, category][:, None] == codes[:6, category]
                expected += np.log((same.sum(axis=0) + 1 / size) / (own.sum() + 1))
            np.testing.assert_allclose(parts[draw, place], expected, rtol=1e-10)


def literal_predictive(values, codes, model, points, point_codes):
    """p(points | records): Σ over all assignments, ∫∫ over μ₀ and log Λ₀ on a grid; a measurement, a category."""
    scales, centres = np.exp(np.linspace(-9, 9, 73)), np.linspace(-40, 40, 161)
    lam, mu = (each.ravel() for each in np.meshgrid(scales, centres, indexing="ij"))
    kappa, nu, size = model.mean_weight, model.df, model.sizes[0]

    def log_t(x, mean, weight, df, scale):
        squared = weight / (weight + 1) * (x - mean) ** 2 / scale
        constant = gammaln((df + 1) / 2) - gammaln(df / 2) + 0.5 * np.log(weight / (weight + 1) / (np.pi * scale))
        return constant - (df + 1) / 2 * np.log1p(squared)

    @cache
    def class_of(*rows):
        """Evidence of the rows one after the other, and what they say of a point."""
        total, mean, weight, df, scale, seen = 0.0, mu.copy(), kappa, nu, lam.copy(), np.full(size, 1 / size)
        for row in rows:
            total = total + log_t(values[row], mean, weight, df, scale) + np.log(seen[codes[row]] / seen.sum())
            scale = scale + weight / (weight + 1) * (values[row] - mean) ** 2
            mean, weight, df = (weight * mean + values[row]) / (weight + 1), weight + 1, df + 1
            seen[codes[row]] += 1
        ahead = [
            log_t(x, mean, weight, df, scale) + np.log(seen[c] / seen.sum())
            for x, c in zip(points, point_codes, strict=True)
        ]
        return total, np.array(ahead)

    logs, n, share = [], len(values), model.weight / model.classes
    for each in product(range(model.classes), repeat=n):
        sizes = np.bincount(each, minlength=model.classes)
        prior = np.sum(gammaln(share + sizes) - gammaln(share))
        found = [class_of(*(row for row in range(n) if each[row] == place)) for place in range(model.classes)]
        evidence = prior + sum(one for one, _ in found)  # the grid is even in log Λ₀, the prior's own measure
        ahead = logsumexp(
            [np.log(share + sizes[place]) + found[place][1] for place in range(model.classes)], axis=0
        )
        logs.append(np.concatenate([[logsumexp(evidence)], logsumexp(evidence + ahead, axis=1)]))
    total = logsumexp(logs, axis=0)
    return np.exp(total[1:] - total[0]) / (n + model.weight)


def test_six_records_against_all_their_assignments(rng):
    values, codes = np.array([-3.0, -2.6, -2.1, 1.9, 2.0, 2.6]), np.array([0, 0, 1, 1, 2, 2])
    model = ClassModel(1, (3,), classes=2, mean_weight=0.1)
    points, levels = np.array([-2.5, 0.0, 2.2, 2.2, 5.0]), np.array([0, 1, 2, 0, 1])
    exact = literal_predictive(values, codes, model, points, levels)
    kept = run(model, IncompleteRecords.of(codes[:, None], values[:, None]), rng, sweeps=1000, keep=900)
    mean, error = averaged(kept, points[:, None], model.places(levels[:, None]))
    np.testing.assert_array_less(np.abs(mean - exact), SURE * error)
    assert np.all(error < 0.15 * mean)


def test_other_units_with_the_same_random_numbers():
    values = two_groups(np.random.default_rng(3), 60, 3)
    turn, shift = np.array([[2.0, 0, 0], [-1.0, 0.01, 0], [5.0, 3.0, 700.0]]), np.array([-3.0, 1e3, 0.5])
    model = ClassModel(3, classes=5)
    draws = []
    for table in (values, values @ turn.T + shift):
        chains = ClassChains.start(model, IncompleteRecords.of(None, table), np.random.default_rng(7), 3)
        for _ in range(30):
            chains.sweep()
        draws.append(chains)
    one, other = draws
    np.testing.assert_array_equal(one.classes, other.classes)
    np.testing.assert_allclose(other.parameters.means, one.parameters.means @ turn.T + shift, rtol=1e-6)
    np.testing.assert_allclose(
        other.parameters.covariances, turn @ one.parameters.covariances @ turn.T, rtol=1e-5, atol=1e-9
    )
    rows = [each.parameters.draw_rows(np.random.default_rng(1), 50)[1] for each in draws]
    np.testing.assert_allclose(rows[1], rows[0] @ turn.T + shift, rtol=1e-6, atol=1e-6)


def test_in_any_coordinates_the_same_is_said_given_the_classes(rng):
    values, model = two_groups(rng, 30, 3), ClassModel(3, classes=4)
    turn, shift = rng.standard_normal((3, 3)), rng.standard_normal(3)
    classes, centre = rng.integers(0, 4, (1, 30)), rng.standard_normal((1, 3))
    scale, none = np.eye(3)[None], np.zeros((30, 0), dtype=int)
    one = ClassPosteriors.of(model, classes, values[None], none, centre, scale)
    mapped = (values @ turn.T + shift)[None], none, centre @ turn.T + shift, turn @ scale @ turn.T
    other = ClassPosteriors.of(model, classes, *mapped)
    volume = np.linalg.slogdet(turn)[1]
    np.testing.assert_allclose(
        other.log_parts(mapped[0][0], none) + volume, one.log_parts(values, none), rtol=1e-8
    )


def test_gaps_with_one_class_are_those_of_the_normal_model(rng):
    values = rng.standard_normal((40, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    values[rng.random(40) < 0.4, 1] = np.nan
    points, none = rng.standard_normal((4, 2)), np.zeros((4, 0), dtype=int)
    kept = run(ClassModel(2, classes=1), IncompleteRecords.of(None, values), rng)
    mean, error = averaged(kept, points, none)
    other = augment(
        IncompleteRecords.of(None, values), LocationModel.prior((), abo.NIW.flat(2)), rng, chains=16, draws=60
    )
    each = np.array(
        [np.exp(one.measured.at(np.ones((4, 1))).predictive().log_density(points)) for one in other.posteriors]
    )
    each = each.reshape(60, 16, 4).mean(axis=0)
    both = np.hypot(error, np.std(each, axis=0, ddof=1) / 4)
    np.testing.assert_array_less(np.abs(mean - each.mean(axis=0)), SURE * both)


def test_values_within_bounds_stay_there_and_gaps_are_drawn(rng):
    values = two_groups(rng, 50, 2)
    low, high = np.floor(values), np.ceil(values)
    values[::7, 1] = np.nan
    low[::7, 1] = high[::7, 1] = np.nan
    records = IncompleteRecords.of(None, np.where(np.isnan(values), np.nan, (low + high) / 2), None, low, high)
    chains = ClassChains.start(ClassModel(2, classes=3), records, rng, 3)
    for _ in range(20):
        chains.sweep()
    inside = ~np.isnan(values)
    for drawn in chains.values:
        assert np.all((drawn >= low)[inside] & (drawn <= high)[inside])
        assert np.all(np.isfinite(drawn))
    assert np.all(np.std(chains.values, axis=0) > 0)


def test_classes_that_are_not_needed_are_empty_and_those_that_are_are_found(rng):
    values = np.concatenate([rng.standard_normal((60, 2)), [12.0, 0.0] + 0.3 * rng.standard_normal((40, 2))])
    draws = draw_classes(ClassChains.start(ClassModel(2), IncompleteRecords.of(None, values), rng, 4), 3)
    assert len(draws) == 12
    for each in draws.classes:  # somebody at the edge may be in a class of their own
        left, right = (np.bincount(some, minlength=10) for some in (each[:60], each[60:]))
        assert np.sum(np.minimum(left, right)) <= 2
    codes, drawn = draws.posteriors.take([0]).draw(rng).draw_rows(rng, 4000)
    assert codes.shape == (4000, 0)
    right = drawn[:, 0] > 7
    assert abs(right.mean() - 0.4) < 0.2
    middle = np.quantile(drawn[right], [0.25, 0.75], axis=0)  # of few a class that nobody is in yet is the place
    assert np.all(np.abs(np.diff(middle, axis=0) / 1.35 - 0.3) < 0.15)


def test_a_table_of_categories_alone(rng):
    latent = rng.integers(0, 2, 300)
    codes = (rng.random((300, 5)) < np.where(latent, 0.9, 0.1)[:, None]).astype(int)
    model = ClassModel(0, (2,) * 5, classes=4)
    draws = draw_classes(ClassChains.start(model, IncompleteRecords.of(codes, np.zeros((300, 0))), rng, 4), 2)
    drawn, values = draws.posteriors.take([0]).draw(rng).draw_rows(rng, 5000)
    assert values.shape == (5000, 0)
    np.testing.assert_allclose(np.corrcoef(drawn.T), np.corrcoef(codes.T), atol=0.25)
    probability = draws.posteriors.log_density(
        np.zeros((32, 0)), model.places(np.array(list(product((0, 1), repeat=5))))
    )
    np.testing.assert_allclose(logsumexp(probability, axis=1), 0, atol=1e-10)


def test_one_is_chosen_in_proportion(rng):
    logs = np.log([[0.2, 0.5, 0.3]]) + 700
    found, total = choose(np.repeat(logs.T, 20000, axis=1), rng.random(20000))
    np.testing.assert_allclose(np.bincount(found) / 20000, [0.2, 0.5, 0.3], atol=0.02)
    np.testing.assert_allclose(total, 700, rtol=1e-12)
    assert choose(np.array([[-np.inf], [0.0], [-np.inf]]), np.array([0.0]))[0] == 1


def test_what_is_kept_of_a_record_says_what_the_joint_density_says_of_the_rest(rng):
    model = ClassModel(2, (2, 3), classes=3)
    prior = ClassPosteriors.of(
        model,
        np.zeros((1, 0), dtype=int),
        np.zeros((1, 0, 2)),
        np.zeros((0, 2), dtype=int),
        np.zeros((1, 2)),
        np.eye(2)[None],
    )
    drawn = prior.draw(rng)
    covariances, shares = drawn.covariances[0], np.exp(drawn.log_shares[0])
    levels = np.exp(drawn.log_levels[0])
    n, y, code = 20_000, drawn.means[0, 0, 0] + 0.3, 1
    # all but one measurement kept: the mixture of the classes' conditional normals
    kept = IncompleteRecords.of(np.tile([0, code], (n, 1)), np.tile([y, np.nan], (n, 1)))
    codes, values = draw_rest(drawn, kept, rng)
    assert np.all(codes == [0, code])
    assert np.all(values[:, 0] == y)
    away, wide = y - drawn.means[0, :, 0], covariances[:, 0, 0]
    density = np.exp(-0.5 * away**2 / wide) / np.sqrt(wide)
    weights = shares * density * levels[:, 0] * levels[:, 2 + code]
    weights /= weights.sum()
    middle = drawn.means[0, :, 1] + covariances[:, 1, 0] / wide * away
    narrow = covariances[:, 1, 1] - covariances[:, 1, 0] ** 2 / wide
    spread = np.sqrt(weights @ (narrow + middle**2) - (weights @ middle) ** 2)
    assert abs(np.mean(values[:, 1]) - weights @ middle) < 5 * spread / np.sqrt(n)
    # all but one category kept: its shares, averaged over the classes that the rest leaves
    kept = IncompleteRecords.of(np.tile([0, -1], (n, 1)), np.tile([y, np.nan], (n, 1)))
    codes, _ = draw_rest(drawn, kept, rng)
    weights = shares * density * levels[:, 0]
    told = weights @ levels[:, 2:5] / weights.sum()
    found = np.mean(codes[:, 1, None] == np.arange(3), axis=0)
    assert np.all(np.abs(found - told) < 5 * np.sqrt(told * (1 - told) / n) + 1e-9)


def test_what_cannot_be_fitted_is_refused(rng):
    for classes in (0, MOST_CLASSES + 1):
        with pytest.raises(InputError, match="classes"):
            ClassModel(2, classes=classes)
    with pytest.raises(InputError, match="too few"):
        ClassChains.start(ClassModel(3), IncompleteRecords.of(None, rng.standard_normal((4, 3))), rng, 2)
    few = rng.integers(0, 3, (40, 1)).astype(float)
    with pytest.raises(InputError, match="'x' has 3 different values"):
        require_values(IncompleteRecords.of(None, few), ["x"], 3)
    require_values(IncompleteRecords.of(None, few), ["x"], 2)
    follows = np.repeat(rng.standard_normal((40, 1)), 2, axis=1)
    follows[:, 1] += 1e-9 * rng.standard_normal(40)
    follows[::2, 1] = follows[::2, 0]
    with pytest.raises(InputError, match="follows from others"):
        draw_classes(ClassChains.start(ClassModel(2, classes=4), IncompleteRecords.of(None, follows), rng, 2), 1)
