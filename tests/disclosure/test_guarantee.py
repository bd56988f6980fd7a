"""The guarantee: the law of a replaced record's loss, and the bound over all tables."""

import os

import numpy as np
import pytest
from scipy.stats import kstest

import allbutone as abo
from allbutone.disclosure.draw_loss import ReplacementLoss
from allbutone.disclosure.loss_profile import delta, epsilon

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))
BOX = [(-3.0, 3.0), (-3.0, 3.0)]


def augmented(prior, others, *records):
    """The Gram matrix of records (x, 1) under M⁻¹, the augmented matrix of prior and others."""
    lifted = [np.append(record, 1.0) for record in records]
    kappa, mean = prior.mean_weight, np.append(prior.mean, 1.0)
    matrix = kappa * np.outer(mean, mean)
    matrix[:-1, :-1] += prior.scale
    for other in others:
        matrix += np.outer(np.append(other, 1.0), np.append(other, 1.0))
    return np.array([[one @ np.linalg.solve(matrix, other) for other in lifted] for one in lifted])


def between(gram, half_df):
    own, other, cross = (np.array([each]) for each in (gram[0, 0], gram[1, 1], gram[0, 1]))
    return ReplacementLoss(half_df, own, other, cross)


def log_normal(record, means, covariances):
    off = record - means
    white = np.einsum("...i,...i->...", off, np.linalg.solve(covariances, off[..., None])[..., 0])
    return -0.5 * (white + np.linalg.slogdet(2 * np.pi * covariances)[1])


@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_loss_of_a_replaced_record_has_its_gamma_law(rng, p):
    """L = const + G₁/r₂ − G₂/|r₁|, its constant as the evidence has it; Kolmogorov-Smirnov against real draws."""
    prior, others = abo.NIW.default(p), rng.standard_normal((9, p))
    x, y = 2 * rng.standard_normal((2, p))
    with_y = prior.update(np.vstack([others, y]))
    half_df, draws = 0.5 * float(with_y.df), 200_000 if LONG else 20_000
    law = between(augmented(prior, others, x, y), half_df)
    means, covariances = with_y.draw(rng, draws)
    ratio = log_normal(x, means, covariances) - log_normal(y, means, covariances)
    below, above = (float(root[0]) for root in law.roots)
    gamma = rng.gamma(half_df, size=(2, draws))
    # const: −log E[exp(log ratio)] is K′s normalisation, F(1)^k over F(0)^k
    constant = half_df * float(np.log1p(law.own[0]) - np.log1p(law.other[0]))
    assert kstest(ratio + constant, gamma[0] / above - gamma[1] / abs(below) + constant_of(law)).pvalue > 1e-4


def constant_of(law):
    """What makes the law's E[exp L] = 1: K(s) = s·const − k·log((1 − s/r₂)(1 + s/|r₁|)), at s = 1."""
    below, above = (float(root[0]) for root in law.roots)
    return law.half_df * float(np.log1p(-1 / above) + np.log1p(1 / abs(below)))


def test_cumulants_of_a_replacement_agree_with_quadrature(rng):
    """One column: the average of exp(sL) over (μ, σ²), integrated."""
    prior, others = abo.NIW.default(1), rng.standard_normal((6, 1))
    x, y = np.array([2.0]), np.array([-1.0])
    law = between(augmented(prior, others, x, y), 0.5 * (prior.df + 7))
    posteriors = [prior.update(np.vstack([others, each])) for each in (x, y)]
    mean, log_variance = np.meshgrid(np.linspace(-40, 40, 8001), np.linspace(-6, 10, 801), indexing="ij")
    variance = np.exp(log_variance)

    def log_density(posterior):
        kappa, nu, scale = posterior.mean_weight, posterior.df, float(posterior.scale[0, 0])
        off = kappa * (mean - posterior.mean[0]) ** 2 / variance
        return -0.5 * off - 0.5 * log_variance - 0.5 * scale / variance - 0.5 * nu * log_variance

    logs = [log_density(posterior) for posterior in posteriors]
    own, other = (each - np.log(np.sum(np.exp(each))) for each in logs)
    for s in (-0.2, 0.4, 1.3):
        integral = np.log(np.sum(np.exp(s * own + (1 - s) * other)))
        assert law.slopes(np.array([s]))[0][0] == pytest.approx(integral, abs=1e-7)
        assert law.at(np.array([[s + 0j]]))[0, 0].real == pytest.approx(integral, abs=1e-7)


def test_a_loss_is_found_beside_others_that_are_nothing():
    """Of two equal records the loss is 0, and its line never ends; it must not spoil the next one's."""
    grams = np.array([0.45, 1.0]), np.array([1.08, 1.0]), np.array([0.68, 1.0])
    alone = epsilon(ReplacementLoss(8.0, *(each[:1] for each in grams)), 1e-3)
    np.testing.assert_allclose(epsilon(ReplacementLoss(8.0, *grams), 1e-3), [alone[0], 0.0], rtol=1e-9)


def test_delta_agrees_with_the_gamma_law(rng):
    law = ReplacementLoss(40.0, np.array([0.2]), np.array([0.1]), np.array([0.05]))
    below, above = (float(root[0]) for root in law.roots)
    number = 2_000_000 if LONG else 200_000
    gamma = rng.gamma(40.0, size=(2, number))
    loss = gamma[0] / above - gamma[1] / abs(below) + constant_of(law)
    assert abs(np.mean(np.exp(loss)) - 1) < 5 * np.exp(loss).std() / np.sqrt(number)
    for level in (0.0, 0.5, 1.5):
        sample = np.maximum(np.exp(loss) - np.exp(level), 0)
        error = np.sqrt((sample.var() + 1e-6) / number)
        assert abs(delta(law, np.array([level]))[0] - sample.mean()) < 5 * error


def neighbours(rng, prior, radius, people):
    """A pair of tables that differ in one record, within the radius; often as far apart as they can be."""
    p = prior.p
    points = rng.standard_normal((people + 1, p))
    length = radius * (1.0 if rng.random() < 0.5 else rng.random((people + 1, 1)) ** (1 / p))
    points = points / np.linalg.norm(points, axis=1, keepdims=True) * length
    if rng.random() < 0.3:
        points[1] = -points[0]
    if rng.random() < 0.3:
        points[2:] *= 0.01  # the others say little
    records = prior.mean + points @ np.linalg.cholesky(prior.scale).T
    return augmented(prior, records[2:], records[0], records[1])


@pytest.mark.parametrize("p", [1, 2, 3])
def test_no_pair_of_tables_beats_the_bound(rng, p):
    pairs = 10_000 if LONG else 400
    scale = np.diag(np.arange(1.0, p + 1)) + 0.2
    prior, radius, people = abo.NIW(np.ones(p), 3.0, p + 2.0, scale), 1.2, 5
    bound = abo.guarantee(prior, radius, people, draws=2, delta=1e-3)
    grams = np.array([neighbours(rng, prior, radius, people) for _ in range(pairs)])
    half_df = 0.5 * 2 * (prior.df + people)
    found = epsilon(ReplacementLoss(half_df, grams[:, 0, 0], grams[:, 1, 1], grams[:, 0, 1]), 1e-3)
    assert np.all(np.diagonal(grams, axis1=1, axis2=2) <= bound.most * (1 + 1e-12))
    assert np.all(found <= bound.epsilon * (1 + 1e-9))
    assert p == 1 or found.max() > 0.5 * bound.epsilon


def test_the_bound_is_attained():
    """p = 2, κ₀b² ≥ 2: three records orthogonal under M⁻¹, two on the ball, the third for all others."""
    kappa, radius = 2.0, 1.3
    small = 1 / kappa
    cosine = -small / radius**2
    x, y = np.array([radius, 0.0]), radius * np.array([cosine, np.sqrt(1 - cosine**2)])
    third = -small / (radius**2 - small) * (x + y)
    assert np.linalg.norm(third) <= radius
    prior, people = abo.NIW(np.zeros(2), kappa, 4.0, np.eye(2)), 300
    bound = abo.guarantee(prior, radius, people, draws=1)
    gram = augmented(prior, np.tile(third, (people - 1, 1)), x, y)
    np.testing.assert_allclose(gram, bound.most * np.eye(2), atol=1e-10)
    found = epsilon(between(gram, 0.5 * (4.0 + people)), 1e-6)
    assert found[0] == pytest.approx(bound.epsilon, rel=1e-9)
    assert bound.delta_at(bound.epsilon) == pytest.approx(1e-6, rel=1e-8)


def test_records_are_brought_into_the_bounds(rng):
    values = 9 * rng.standard_normal((200, 2))
    prior = abo.NIW([1.0, 2.0], 1.0, 4.0, [[4.0, 1.0], [1.0, 3.0]])
    ball, box = abo.guarantee(prior, 2.0, 200, draws=1), abo.guarantee(prior, BOX, 200, draws=1)
    for found in (ball, box):
        inside = found.project(values)
        off = inside - prior.mean
        squares = np.einsum("ni,ni->n", off, np.linalg.solve(prior.scale, off.T).T)
        assert np.all(squares + 1 / prior.mean_weight <= found.most * (1 + 1e-12))
        np.testing.assert_allclose(found.project(inside), inside)
    assert np.all(np.abs(box.project(values)) <= 3)


def test_the_usual_prior_guarantees_nothing_to_speak_of():
    found = abo.guarantee(abo.NIW.default(2), 3.5, 500, datasets=1)
    assert found.epsilon > 1000
    assert "promises hardly anything" in found.sentence
    assert "public" in found.assumptions
    assert found.sentence in found._repr_html_()


PRIOR = abo.NIW.default(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: abo.guarantee(abo.NIW.flat(2), 1.0, 50, draws=1), "flat prior guarantees nothing"),
        (lambda: abo.guarantee(PRIOR, -1.0, 50, draws=1), "radius must be finite and exceed 0"),
        (lambda: abo.guarantee(PRIOR, [(0, 1)], 50, draws=1), "shape \\(1, 2\\) for 2 columns"),
        (lambda: abo.guarantee(PRIOR, [(0, 1), (0, np.inf)], 50, draws=1), "without finite limits"),
        (lambda: abo.guarantee(PRIOR, [(0, 1), (1, 0)], 50, draws=1), "low below high"),
        (lambda: abo.guarantee(PRIOR, 1.0, 50), "either parameter draws or datasets"),
        (lambda: abo.guarantee(PRIOR, 1.0, 0, draws=1), "people must be at least 1"),
        (lambda: abo.guarantee(PRIOR, 1.0, 50, draws=1, delta=0.02), "below 1/50"),
    ],
)
def test_bad_input_is_refused_in_one_line_with_its_cure(call, message):
    with pytest.raises(abo.InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert caught.value.cures or "at least" in message
