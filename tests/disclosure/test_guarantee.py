"""The guarantee: the law of a replaced record's loss, the bound over all tables, and the ways to a wished ε."""

import os

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal

import allbutone as abo
from allbutone.disclosure.draw_loss import ReplacementLoss
from allbutone.disclosure.guarantee import gaussian_mu
from allbutone.disclosure.loss_profile import delta, epsilon
from allbutone.model.moments import Moments

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))
BOX = [(-3.0, 3.0), (-3.0, 3.0)]


def augmented(prior, others, weight, *records):
    """The Gram matrix of records (x, 1) under M⁻¹, the augmented matrix of prior and others."""
    lifted = [np.append(record, 1.0) for record in records]
    kappa, mean = prior.mean_weight, np.append(prior.mean, 1.0)
    matrix = kappa * np.outer(mean, mean)
    matrix[:-1, :-1] += prior.scale
    for other in others:
        matrix += weight * np.outer(np.append(other, 1.0), np.append(other, 1.0))
    return np.array([[one @ np.linalg.solve(matrix, other) for other in lifted] for one in lifted])


def tempered(prior, records, weight):
    """The posterior in which each record counts `weight` times."""
    moments = Moments.of(records)
    return prior.update(Moments(weight * moments.count, moments.mean, weight * moments.scatter))


def between(gram, half_df, weight):
    own, other, cross = (np.array([weight * each]) for each in (gram[0, 0], gram[1, 1], gram[0, 1]))
    return ReplacementLoss(half_df, own, other, cross)


def log_normal(record, means, covariances):
    off = record - means
    white = np.einsum("...i,...i->...", off, np.linalg.solve(covariances, off[..., None])[..., 0])
    return -0.5 * (white + np.linalg.slogdet(2 * np.pi * covariances)[1])


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_the_loss_of_a_replaced_record_has_its_gamma_law(rng, p, weight):
    """L = const + G₁/r₂ − G₂/|r₁|, its constant as the evidence has it; Kolmogorov-Smirnov against real draws."""
    prior, others = abo.NIW.default(p), rng.standard_normal((9, p))
    x, y = 2 * rng.standard_normal((2, p))
    with_y = tempered(prior, np.vstack([others, y]), weight)
    half_df, draws = 0.5 * float(with_y.df), 200_000 if LONG else 20_000
    law = between(augmented(prior, others, weight, x, y), half_df, weight)
    means, covariances = with_y.draw(rng, draws)
    ratio = weight * (log_normal(x, means, covariances) - log_normal(y, means, covariances))
    below, above = (float(root[0]) for root in law.roots)
    gamma = rng.gamma(half_df, size=(2, draws))
    # const: −log E[exp(weight·log ratio)] is K′s normalisation, F(1)^k over F(0)^k
    constant = half_df * float(np.log1p(law.own[0]) - np.log1p(law.other[0]))
    assert kstest(ratio + constant, gamma[0] / above - gamma[1] / abs(below) + constant_of(law)).pvalue > 1e-4


def constant_of(law):
    """What makes the law's E[exp L] = 1: K(s) = s·const − k·log((1 − s/r₂)(1 + s/|r₁|)), at s = 1."""
    below, above = (float(root[0]) for root in law.roots)
    return law.half_df * float(np.log1p(-1 / above) + np.log1p(1 / abs(below)))


@pytest.mark.parametrize("weight", [1.0, 0.4])
def test_cumulants_of_a_replacement_agree_with_quadrature(rng, weight):
    """One column: the average of exp(sL) over (μ, σ²), integrated."""
    prior, others = abo.NIW.default(1), rng.standard_normal((6, 1))
    x, y = np.array([2.0]), np.array([-1.0])
    law = between(augmented(prior, others, weight, x, y), 0.5 * (prior.df + 7 * weight), weight)
    posteriors = [tempered(prior, np.vstack([others, each]), weight) for each in (x, y)]
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


def neighbours(rng, prior, radius, people, weight):
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
    return augmented(prior, records[2:], weight, records[0], records[1])


@pytest.mark.parametrize("p", [1, 2, 3])
def test_no_pair_of_tables_beats_the_bound(rng, p):
    pairs = 10_000 if LONG else 400
    scale = np.diag(np.arange(1.0, p + 1)) + 0.2
    prior, radius, people = abo.NIW(np.ones(p), 3.0, p + 2.0, scale), 1.2, 5
    for weight in (1.0, 0.2):
        bound = abo.guarantee(prior, radius, people, draws=2, weight=weight, delta=1e-3)
        grams = np.array([neighbours(rng, prior, radius, people, weight) for _ in range(pairs)]) * weight
        half_df = 0.5 * 2 * (prior.df + weight * people)
        found = epsilon(ReplacementLoss(half_df, grams[:, 0, 0], grams[:, 1, 1], grams[:, 0, 1]), 1e-3)
        assert np.all(np.diagonal(grams, axis1=1, axis2=2) <= weight * bound.most * (1 + 1e-12))
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
    gram = augmented(prior, np.tile(third, (people - 1, 1)), 1.0, x, y)
    np.testing.assert_allclose(gram, bound.most * np.eye(2), atol=1e-10)
    found = epsilon(between(gram, 0.5 * (4.0 + people), 1.0), 1e-6)
    assert found[0] == pytest.approx(bound.epsilon, rel=1e-9)
    assert bound.delta_at(bound.epsilon) == pytest.approx(1e-6, rel=1e-8)


def test_a_tempered_posterior_is_that_of_weighted_moments(rng):
    """The density is the prior's times the likelihood to the power of the weight."""
    prior, records, weight = abo.NIW.default(2), rng.standard_normal((8, 2)), 0.35
    posterior = tempered(prior, records, weight)
    means, covariances = prior.draw(rng, 5)
    likelihood = [
        sum(multivariate_normal(mean, covariance).logpdf(record) for record in records)
        for mean, covariance in zip(means, covariances, strict=True)
    ]
    left = posterior.log_density(means, covariances) - prior.log_density(means, covariances)
    np.testing.assert_allclose(np.diff(left), weight * np.diff(likelihood), rtol=1e-8)


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


@pytest.mark.parametrize("wished", [0.5, 3.0])
def test_every_way_reaches_the_wished_epsilon(wished):
    strong = abo.prior_for(wished, BOX, 500, draws=2)
    light = abo.weight_for(wished, abo.NIW.default(2), BOX, 500, draws=2)
    for found in (strong, light):
        assert found.epsilon == pytest.approx(wished, rel=1e-5)
        assert found.epsilon <= wished * (1 + 1e-9)
    assert strong.weight == 1
    assert 0 < light.weight < 0.1
    easy = abo.weight_for(1e6, abo.NIW.default(2), BOX, 500, draws=2)
    assert easy.weight == 1
    plan = abo.certificate_for(wished, BOX, 500, draws=2)
    # noise on the eigenvalue and draws together, and the chance that the margin fails
    mu = 1.125 * 2 / plan.noise
    total = ReplacementLoss.worst(0.5 * 2 * (4 + 500), plan.most, mu)
    assert delta(total, np.array([wished]))[0] + 0.1e-6 == pytest.approx(1e-6, rel=1e-5)
    assert plan.wanted == pytest.approx(2.25 * (1 + 1 / plan.most))


def test_what_is_certified_bounds_every_leverage(rng):
    """ridge + λ_min ≥ wanted leaves no record of norm² R² + η² with ℓ above E, whichever record is left out."""
    plan = abo.certificate_for(2.0, BOX, 300, draws=1)
    lifted = np.column_stack([rng.uniform(-1, 1, (300, 2)), np.full(300, 0.5)])
    whole = lifted.T @ lifted
    ridge = max(0.0, plan.wanted - np.linalg.eigvalsh(whole)[0])
    corner = np.array([1.0, -1.0, 0.5])
    for left_out in lifted[:20]:
        matrix = whole - np.outer(left_out, left_out) + ridge * np.eye(3)
        assert corner @ np.linalg.solve(matrix, corner) <= plan.most
        changed = whole - np.outer(left_out, left_out) + np.outer(corner, corner)
        assert abs(np.linalg.eigvalsh(changed)[0] - np.linalg.eigvalsh(whole)[0]) <= 2.25


def test_the_gaussian_mechanisms_mu():
    assert gaussian_mu(4.88655412, 1e-6) == pytest.approx(1.0, rel=1e-6)


@pytest.fixture(scope="module")
def expected_rows():
    return abo.expected_errors(3.0, BOX, 500, np.ones(2), correlation=0.5, draws=1)


@pytest.mark.parametrize("route", ["no privacy", "prior", "temper"])
def test_expected_errors_are_those_of_simulated_releases(rng, expected_rows, route):
    """Within a quarter: normal tables, the route's own posterior, one draw each, against the truth."""
    people, wished, r = 500, 3.0, 0.5
    expected = next(row for row in expected_rows if row["route"] == route)
    if route == "no privacy":
        prior, weight = abo.NIW(np.zeros(2), 1e-9, 4.0, 1e-9 * np.eye(2)), 1.0
    elif route == "prior":
        prior, weight = abo.prior_for(wished, BOX, people, draws=1).prior, 1.0
    else:
        weight = expected["weight"]
        prior = abo.prior_for(wished, BOX, people, draws=1, weight=weight).prior
    found = simulated(rng, prior, weight, people, r, 1000)
    names = ("mean_error", "spread_error", "correlation_error")
    np.testing.assert_allclose([expected[name] for name in names], found, rtol=0.25)


def simulated(rng, prior, weight, people, r, times):
    """Root mean square errors of mean, spread and correlation over tables of two columns."""
    root, off = np.linalg.cholesky([[1, r], [r, 1]]), []
    for _ in range(times):
        posterior = tempered(prior, rng.standard_normal((people, 2)) @ root.T, weight)
        means, covariances = posterior.draw(rng, 1)
        spread = np.sqrt(np.diagonal(covariances[0]))
        off.append([means[0, 0], spread[0] - 1, covariances[0, 0, 1] / np.prod(spread) - r])
    return np.sqrt(np.mean(np.square(off), axis=0))


def test_more_people_and_more_epsilon_cost_less():
    few, wide, many = (
        abo.expected_errors(wished, BOX, people, draws=1) for wished, people in ((1, 500), (10, 500), (1, 50_000))
    )
    for one, at_ten, of_many in zip(few, wide, many, strict=True):
        assert one["route"] == at_ten["route"] == of_many["route"]
        assert at_ten["correlation_error"] <= one["correlation_error"]
        assert of_many["correlation_error"] < one["correlation_error"]


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
        (lambda: abo.guarantee(PRIOR, 1.0, 50, draws=1, weight=0.0), "weight must lie above 0"),
        (lambda: abo.prior_for(0.0, BOX, 50, draws=1), "epsilon must be finite and exceed 0"),
        (lambda: abo.prior_for(1.0, 3.0, 50, draws=1), "a radius has no columns"),
        (lambda: abo.weight_for(-1.0, PRIOR, BOX, 50, draws=1), "epsilon must be finite"),
        (lambda: abo.expected_errors([1, 0], BOX, 50, draws=1), "epsilon must be finite"),
        (lambda: abo.expected_errors(1, BOX, 50, [1.0], draws=1), "spread must hold 2 numbers"),
        (lambda: abo.expected_errors(1, BOX, 50, correlation=1.0, draws=1), "cannot all have the correlation"),
    ],
)
def test_bad_input_is_refused_in_one_line_with_its_cure(call, message):
    with pytest.raises(abo.InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert caught.value.cures or "at least" in message
