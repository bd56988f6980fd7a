"""The log-quadratic posterior is the paper's; every variant is what it says."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

import allbutone as abo
import exact
import paper
from allbutone.model.niw import Normal
from cases import positive_definite
from posteriors import who
from targets import make, recipes


def printed(target, candidates):
    if target.release.parameters is not None:
        released = (target.release.normal.means, target.release.normal.covariances)
        return np.array(
            [paper.score_parameters(x, target.others, *released, target.prior_fields) for x in candidates]
        )
    datasets = target.release.values
    return np.array([paper.score_datasets(x, target.others, datasets, target.prior_fields) for x in candidates])


def differs_by_a_constant(ours, theirs, size=0.0):
    difference = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    spread = np.max(difference) - np.min(difference)
    return spread <= 1e-9 * (1 + np.max(np.abs(np.asarray(theirs, dtype=float)))) + size


def lost_digits(release):
    """What inverting the released covariances in float64 costs the oracle, relative to its terms."""
    if release.parameters is not None:
        return 1e-15 * np.max(np.linalg.cond(release.normal.covariances))
    return 0.0


@given(recipes(outlying=(-1, 2)))
def test_twice_the_log_posterior_is_the_printed_score(recipe):
    target = recipe.make()
    candidates = target.candidates(6)
    ours = 2 * abo.posterior(target.others, target.release, prior=target.prior).log_density_unnormalized(
        candidates
    )
    theirs = printed(target, candidates)
    assert differs_by_a_constant(ours, theirs, lost_digits(target.release) * np.max(np.abs(theirs)))


@given(recipes(max_p=6, max_releases=6, outlying=(-1, 2)))
def test_the_log_posterior_is_the_sum_of_normalised_densities(recipe):
    target = recipe.make()
    candidates = target.candidates(5)
    total = []
    for x in candidates:
        crowd = paper.posterior(target.others, *target.prior_fields)
        fitted = paper.posterior([*target.others, x], *target.prior_fields)
        value = paper.log_student_t(x, *paper.predictive(*crowd))
        if target.release.parameters is not None:
            draws = zip(target.release.normal.means, target.release.normal.covariances, strict=True)
            value += sum(paper.log_niw(mean, covariance, *fitted) for mean, covariance in draws)
        else:
            value += sum(paper.log_evidence(z, *fitted) for z in target.release.values)
        total.append(value)
    ours = abo.posterior(target.others, target.release, prior=target.prior).log_density_unnormalized(candidates)
    assert differs_by_a_constant(ours, total, lost_digits(target.release) * np.max(np.abs(total)))


def rounded(array, rng, symmetric=False):
    """The same numbers, each moved by one rounding."""
    signs = rng.choice([-1.0, 1.0], size=np.shape(array))
    if symmetric:
        signs = np.triu(signs) + np.swapaxes(np.triu(signs, 1), -1, -2)
    return array * (1 + 2.2e-16 * signs)


def extreme_case(kind, p, n, releases, extreme, seed):
    """Return the others, the target's record, the prior and a release of a hard table."""
    rng = np.random.default_rng(seed)
    far = 1e6 if extreme == "outlier" else 5.0
    target = make(rng, kind, p, n, releases, outlying=far, most_rows=15)
    others, record, prior, release = target.others, target.record, target.prior, target.release
    if extreme != "outlier":
        squeeze = np.ones((p, p)) + 1e-5 * rng.standard_normal((p, p)) if extreme == "near-singular" else np.eye(p)
        shift = 1e6 if extreme == "far mean" else 0.0
        others, record = others @ squeeze + shift, record @ squeeze + shift
        scale = squeeze.T @ squeeze + 1e-10 * np.eye(p)
        prior = abo.NIW(prior.mean @ squeeze + shift, prior.mean_weight, prior.df, scale)
        fitted = prior.update(np.vstack([others, record]))
        if kind == "parameters":
            release = abo.Release.draw_parameters(fitted, releases, rng)
        else:
            release = abo.Release.draw(fitted, [int(r) for r in rng.integers(1, 15, releases)], rng)
    return others, record, prior, release


@settings(max_examples=25)
@given(
    st.sampled_from(["parameters", "datasets"]),
    st.integers(1, 4),
    st.integers(0, 8),
    st.integers(1, 4),
    st.sampled_from(["outlier", "near-singular", "far mean"]),
    st.integers(0, 2**32 - 1),
)
def test_extreme_data_are_as_exact_as_their_digits_allow(kind, p, n, releases, extreme, seed):
    """Outliers of 1e6 standard deviations, columns equal to 1e-5, means of 1e6: against 60-digit arithmetic.

    What one rounding of the release's own numbers changes in the score, no float64 computation can be asked to
    resolve; beyond a few times that, 1e-9 must hold.
    """
    try:
        others, record, prior, release = extreme_case(kind, p, n, releases, extreme, seed)
    except abo.InputError as refusal:  # a draw that sixteen digits cannot hold
        if kind == "datasets" or extreme == "far mean" or "sixteen digits" not in str(refusal):
            raise
        reject()
    rng = np.random.default_rng(seed)
    centre = np.mean([*others, prior.mean], axis=0)
    candidates = centre + np.array([-0.7, 0.0, 0.3, 1.0, 1.2])[:, None] * (record - centre)
    fields = (prior.mean, prior.mean_weight, prior.df, prior.scale)
    parameters = kind == "parameters"
    released = (release.normal.means, release.normal.covariances) if parameters else list(release.values)
    truth = exact.scores(candidates, others, released, fields)
    digits = 0.0
    for _ in range(3):
        nudged = [rounded(z, rng) for z in released]
        if parameters:
            nudged = (nudged[0], rounded(release.normal.covariances, rng, symmetric=True))
        nudged_fields = (*fields[:3], rounded(prior.scale, rng, symmetric=True))
        moved = exact.scores(candidates, rounded(others, rng), nudged, nudged_fields) - truth
        digits = max(digits, float(np.max(np.abs((moved - moved[0]).astype(float)))))
    ours = 2 * abo.posterior(others, release, prior=prior).log_density_unnormalized(candidates)
    assert differs_by_a_constant(ours - ours[0], (truth - truth[0]).astype(float), size=100 * digits)


@given(recipes(max_p=6, max_releases=8, outlying=(-1, 1.5)))
def test_gradient_and_hessian_are_derivatives(recipe):
    target = recipe.make()
    posterior = abo.posterior(target.others, target.release, prior=target.prior)
    point = target.candidates(1)[0]
    hessian = posterior.hessian(point)
    at_mode = posterior.hessian(posterior.unwhiten(posterior.modes.best))
    curvature = max(np.abs(np.linalg.eigvalsh(each)).max() for each in (hessian, at_mode))
    step = 1e-4 / np.sqrt(curvature)
    slopes = np.array(
        [
            (posterior.gradient(point + step * e) - posterior.gradient(point - step * e)) / (2 * step)
            for e in np.eye(target.p)
        ]
    )
    np.testing.assert_allclose(slopes, hessian, atol=1e-5 * curvature)
    rises = [
        posterior.log_density_unnormalized(point + step * e) - posterior.log_density_unnormalized(point - step * e)
        for e in np.eye(target.p)
    ]
    gradient = posterior.gradient(point)
    size = np.abs(gradient).max() + np.sqrt(curvature)
    noise = 1e-15 * abs(posterior.log_density_unnormalized(point)) / step
    np.testing.assert_allclose(np.array(rises) / (2 * step), gradient, atol=1e-5 * size + 10 * noise)


@given(recipes(max_p=8, max_releases=1))
def test_a_single_release_has_its_closed_form(recipe):
    """Parameters: exactly N(μ*, Σ*). A dataset: exactly the Student t predictive of X₋ᵢ ∪ Z."""
    target = recipe.make()
    posterior = abo.posterior(target.others, target.release, prior=target.prior)
    named = posterior.closed_form
    if target.release.parameters is not None:
        np.testing.assert_allclose(
            named.mean, target.release.normal.means[0], rtol=1e-8, atol=1e-8 * np.abs(named.mean).max()
        )
        size = np.abs(target.release.normal.covariances[0]).max()
        np.testing.assert_allclose(
            named.covariance, target.release.normal.covariances[0], rtol=1e-7, atol=1e-7 * size
        )
    else:
        together = target.prior.update(target.others).update(target.release.values[0]).predictive()
        assert named.df == pytest.approx(together.df)
        size = np.abs(together.location).max()
        np.testing.assert_allclose(named.location, together.location, rtol=1e-8, atol=1e-8 * size)
        np.testing.assert_allclose(
            named.scale, together.scale, rtol=1e-7, atol=1e-7 * np.abs(together.scale).max()
        )
    mode = abo.attack(target.others, target.release, prior=target.prior).mode
    centre = named.mean if isinstance(named, Normal) else named.location
    np.testing.assert_allclose(
        mode, centre, atol=1e-6 * np.sqrt(np.abs(np.diagonal(posterior._cover(np.eye(target.p)))).max())
    )


def test_many_rows_tend_to_the_parameters_they_were_drawn_from():
    rng = np.random.default_rng(4)
    target = make(rng, "parameters", 2, 30, 4, outlying=8.0)
    roots = np.linalg.cholesky(target.release.normal.covariances)
    datasets = []
    for mean, root in zip(target.release.normal.means, roots, strict=True):
        white = rng.standard_normal((1000, 2))
        white = np.linalg.solve(np.linalg.cholesky(np.cov(white.T, bias=True)), (white - white.mean(axis=0)).T).T
        datasets.append(np.tile(mean + white @ root.T, (100, 1)))
    few = abo.attack(target.others, target.release, prior=target.prior)
    many = abo.attack(target.others, abo.Release.of(datasets), prior=target.prior)
    np.testing.assert_allclose(many.mode, few.mode, rtol=2e-3)


@given(recipes(max_p=6, min_p=2, max_releases=5, outlying=(-1, 1.5)), st.data())
def test_known_features_slice_the_posterior(recipe, data):
    target = recipe.make()
    count = data.draw(st.integers(1, target.p - 1))
    positions = sorted(target.rng.choice(target.p, size=count, replace=False))
    known = np.full(target.p, np.nan)
    known[positions] = target.record[positions]
    sliced = abo.posterior(target.others, target.release, abo.Adversary(known=known), prior=target.prior)
    whole = abo.posterior(target.others, target.release, prior=target.prior)
    candidates = target.candidates(5)
    candidates[:, positions] = target.record[positions]
    unknown = np.isnan(known)
    ours = sliced.log_density_unnormalized(candidates[:, unknown])
    assert differs_by_a_constant(ours, whole.log_density_unnormalized(candidates))
    attack = abo.attack(target.others, target.release, abo.Adversary(known=known), prior=target.prior)
    np.testing.assert_array_equal(attack.mode[positions], target.record[positions])
    assert not attack.covariance[positions].any()


@given(recipes(max_p=5, max_releases=5, outlying=(-1, 1.5)))
def test_both_readings_of_an_adversarys_own_prior(recipe):
    target = recipe.make()
    own = abo.NIW(
        target.rng.standard_normal(target.p), 2.0, target.p + 3.0, positive_definite(target.rng, target.p)
    )
    candidates = target.candidates(5)
    record = abo.posterior(target.others, target.release, abo.Adversary(prior=own), prior=target.prior)
    holder_t = target.prior.update(target.others).predictive().log_density(candidates)
    own_t = own.update(target.others).predictive().log_density(candidates)
    expected = printed(target, candidates) / 2 - holder_t + own_t
    size = lost_digits(target.release) * np.max(np.abs(expected))
    assert differs_by_a_constant(record.log_density_unnormalized(candidates), expected, size)
    believed = abo.posterior(
        target.others, target.release, abo.Adversary(prior=own), prior=target.prior, reading="mechanism"
    )
    same = abo.posterior(target.others, target.release, prior=own)
    np.testing.assert_array_equal(
        believed.log_density_unnormalized(candidates), same.log_density_unnormalized(candidates)
    )


@given(recipes(max_p=6, max_releases=6, outlying=(0, 2)))
def test_the_attack_is_affine_equivariant(recipe):
    target = recipe.make()
    p = target.p
    turn = np.linalg.qr(target.rng.standard_normal((p, p)))[0] * 10 ** target.rng.uniform(-1, 1, p)
    shift = target.rng.standard_normal(p)
    prior = abo.NIW(
        turn @ target.prior.mean + shift,
        target.prior.mean_weight,
        target.prior.df,
        turn @ target.prior.scale @ turn.T,
    )
    # turning a covariance rounds it: what is nearly singular comes back as another one, or none
    singular = 0.0
    if target.release.parameters is not None:
        singular = max(map(float, np.linalg.cond(target.release.normal.covariances)))
        assume(singular < 1e12)
        release = abo.Release.of_parameters(
            target.release.normal.means @ turn.T + shift, turn @ target.release.normal.covariances @ turn.T
        )
    else:
        release = abo.Release.of([z @ turn.T + shift for z in target.release.values])
    there = abo.attack(target.others @ turn.T + shift, release, prior=prior)
    here = abo.attack(target.others, target.release, prior=target.prior)
    if here.log_posterior_gap > 1e-6:  # below that, which of the two modes is higher is a matter of rounding
        deviations = np.sqrt(np.diagonal(turn @ here.covariance @ turn.T))
        assert np.all(np.abs(there.mode - (turn @ here.mode + shift)) < (1e-5 + 1e-13 * singular) * deviations)


@settings(max_examples=25)
@given(recipes(max_p=4, max_n=15, max_releases=4, outlying=(0, 1.5)))
def test_the_same_lines_run_on_the_array_standard(recipe):
    target = recipe.make()
    xp = array_api_strict
    mean, weight, df, scale = target.prior_fields
    prior = abo.NIW(xp.asarray(mean), weight, df, xp.asarray(scale))
    if target.release.parameters is not None:
        release = abo.Release.of_parameters(
            xp.asarray(target.release.normal.means), xp.asarray(target.release.normal.covariances)
        )
    else:
        release = abo.Release.of([xp.asarray(z.copy()) for z in target.release.values])
    others = xp.asarray(target.others)
    strict = abo.attack(others, release, prior=prior)
    plain = abo.attack(target.others, target.release, prior=target.prior)
    deviations = np.sqrt(np.diagonal(plain.covariance))
    if plain.log_posterior_gap > 1e-6:
        assert np.all(np.abs(np.asarray(strict.mode) - plain.mode) < 1e-6 * deviations)
    records = np.vstack([target.others, target.record, target.record + 1])
    everyone = abo.attack(xp.asarray(records), release, rows="all", prior=prior)
    again = abo.attack(records, target.release, rows="all", prior=target.prior)
    np.testing.assert_allclose(
        np.asarray(everyone.log_posterior_gap), again.log_posterior_gap, rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"known": [1.0, np.nan, 2.0]}, "vector of 2 values"),
        ({"known": [1.0, 2.0]}, "every feature is known"),
        ({"prior": abo.NIW.default(3)}, "records have 2 columns, the release 2, the prior 3"),
        ({"others": np.ones((3, 3))}, "records have 3 columns"),
    ],
)
def test_impossible_attacks_are_refused(arguments, message):
    target = make(np.random.default_rng(1), "parameters", 2, 10, 2)
    given = {"others": target.others, "release": target.release, "prior": target.prior} | arguments
    with pytest.raises(abo.InputError, match=message):
        abo.attack(given.pop("others"), given.pop("release"), **who(**given))
