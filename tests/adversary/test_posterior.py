"""The posterior as a distribution: totals, densities, draws, masses and regions."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp

import allbutone as abo
from allbutone.adversary.integrate import contour_log_totals, log_mass_on_a_line
from allbutone.adversary.modes import find_modes
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.simulation import SimulatedReleases
from allbutone.paper import methods as as_printed
from targets import make, recipes

KINDS = ["parameters", "datasets"]


def line_integral(function, places):
    """∫ exp(function) over the line by adaptive quadrature, cut at the places given; returns its logarithm."""
    top = max(function(place) for place in places)
    cuts = [-np.inf, *sorted(places), np.inf]
    total = sum(
        # SciPy warns where rounding of the score ends its refinement: that is as far as it can see
        quad(lambda x: np.exp(function(x) - top), low, high, epsabs=0, epsrel=1e-11, limit=500, full_output=1)[0]
        for low, high in pairwise(cuts)
        if high > low
    )
    return np.log(total) + top


@settings(max_examples=40)
@given(recipes(min_p=2, max_p=6, max_releases=8, outlying=(-1, 1)), st.integers(0, 5))
def test_all_features_known_but_one_is_one_dimensional_quadrature(recipe, which):
    """Density, mode and mass of the one unknown feature, from the printed score by quadrature: to 1e-8."""
    target = recipe.make()
    unknown = which % target.p
    known = target.record.copy()
    known[unknown] = np.nan
    posterior = abo.posterior(target.others, target.release, abo.Adversary(known=known), prior=target.prior)
    attack = abo.attack(target.others, target.release, abo.Adversary(known=known), prior=target.prior)
    score = as_printed.printed_score(target.others, target.release, target.prior)

    def half_score(value):
        return score(np.where(np.isnan(known), value, target.record)) / 2

    mode, deviation = attack.mode[unknown], np.sqrt(attack.covariance[unknown, unknown])
    places = [mode - deviation, mode, mode + deviation]
    if np.isfinite(attack.log_posterior_gap):
        places.append(attack.other_mode[unknown])
    total = line_integral(half_score, places)
    points = mode + deviation * np.array([-2.0, -0.5, 0.0, 1.0, 3.0])
    expected = np.array([half_score(x) for x in points]) - total
    np.testing.assert_allclose(posterior.log_density(points[:, None]), expected, atol=1e-8 * (1 + abs(total)))
    metric = np.linalg.inv(target.prior.update(target.others).scale)[unknown, unknown] * posterior.df
    reach = 1.5 * deviation
    inside = quad(
        lambda x: np.exp(half_score(x) - total), mode - reach, mode + reach, epsrel=1e-11, full_output=1
    )[0]
    mass = posterior.mass_within(np.array([mode]), reach * np.sqrt(metric))
    assert float(mass) == pytest.approx(inside, abs=1e-8 * (1 + abs(total)))
    assert mass.standard_error == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("releases", [1, 2, 3, 6, 40])
def test_totals_and_masses_agree_with_a_fine_grid(kind, releases):
    rng = np.random.default_rng(releases)
    target = make(rng, kind, 2, 25, releases, outlying=3.0, most_rows=30)
    posterior = abo.posterior(target.others, target.release, prior=target.prior)
    # a grid in whitened coordinates around both modes, fine against the peaks and wide against the tails
    reach = 12 / np.sqrt(np.linalg.eigvalsh(-posterior.modes.hessian)[0]) + np.linalg.norm(posterior.modes.best)
    reach = max(reach, 12 / np.sqrt(posterior.df))
    axis = np.linspace(-reach, reach, 1201)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    values = np.concatenate([posterior.value(part) for part in np.array_split(points, 60)])
    cell = (axis[1] - axis[0]) ** 2
    total = logsumexp(values) + np.log(cell)
    error = posterior.log_total.standard_error
    tail = 1e-4 if kind == "datasets" and releases == 1 else 1e-5  # a Student t reaches beyond any grid
    assert float(posterior.log_total) == pytest.approx(total, abs=6 * error + tail)
    centre, radius = target.record, 1.0
    squared = np.sum((points - posterior.whiten(centre)) ** 2, axis=1) * posterior.df
    # a cell on the rim counts by how much of it lies inside, to first order
    rim = np.clip(0.5 + (radius - np.sqrt(squared)) / ((axis[1] - axis[0]) * np.sqrt(posterior.df)), 0, 1)
    inside = np.sum(np.exp(values - total) * rim) * cell
    mass = posterior.mass_within(centre, radius)
    assert float(mass) == pytest.approx(inside, abs=6 * mass.standard_error + 1e-4 * inside + 1e-6)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(2, 40))
def test_the_contour_integral_is_what_importance_sampling_estimates(seed, p, draws):
    target = make(np.random.default_rng(seed), "parameters", p, 30, draws, outlying=3.0)
    posterior = abo.posterior(target.others, target.release, prior=target.prior)
    sample = posterior.importance_sample(target.rng, 1 << 13)
    assert posterior.log_total.standard_error == 0
    assert float(sample.log_total) == pytest.approx(
        float(posterior.log_total), abs=8 * sample.log_total.standard_error + 1e-4
    )
    assert sample.effective_size > 500


@pytest.mark.parametrize("kind", KINDS)
def test_one_feature_released_parameters_and_a_line_agree(kind):
    for releases in (2, 5, 30):
        target = make(np.random.default_rng(releases), kind, 1, 20, releases, outlying=4.0)
        posterior = abo.posterior(target.others, target.release, prior=target.prior)
        places = [float(posterior.modes.best[0])]
        if np.isfinite(posterior.modes.gap):
            places.append(float(posterior.modes.other[0]))
        total = line_integral(lambda v, q=posterior: float(q.value(np.array([v]))), places)
        assert float(posterior.log_total) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("people", [1, 3, 10, 100, 10_000, 1_000_000])
@pytest.mark.parametrize("outlying", [0.01, 1.0, 10.0, 100.0, 1000.0])
def test_the_contour_integral_holds_from_nobody_to_millions(people, outlying):
    """From no others to a million, from the centre of the crowd to a thousand deviations, 2 to 1000 draws."""
    rng = np.random.default_rng(people)
    setting = ExposureLaw.of(abo.NIW.default(1), people, None)
    for draws in (2, 3, 10, 100, 1000):
        drawn = SimulatedReleases.of(setting, draws, 2, rng)
        many, _ = drawn.problem(outlying**2 / (people + 3))
        totals = contour_log_totals(many)
        for row, total in enumerate(totals):
            one = replace(many, centre=many.centre[row], precision=many.precision[row], pull=many.pull[row])
            line = log_mass_on_a_line(one, find_modes(one), -np.inf, np.inf)
            assert total == pytest.approx(line, abs=1e-8 + 1e-10 * abs(line))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [1e-3, 1.0, 1e3, 1e6, 1e9])
def test_a_ball_on_a_line_holds_what_it_should(kind, radius):
    """As the radius grows the mass tends to one and never passes it."""
    target = make(np.random.default_rng(6), kind, 1, 20, 6, outlying=4.0)
    posterior = abo.posterior(target.others, target.release, prior=target.prior)
    mode = posterior.unwhiten(posterior.modes.best)
    mass = float(posterior.mass_within(mode, radius))
    reach = radius * np.sqrt(target.prior.update(target.others).scale[0, 0] / posterior.df)
    if radius <= 1:
        density = lambda x: float(np.exp(posterior.log_density(np.array([x]))))  # noqa: E731
        assert mass == pytest.approx(quad(density, mode[0] - reach, mode[0] + reach)[0], rel=1e-7)
    else:
        assert 1 - 1e-9 < mass <= 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("releases", [1, 3, 12])
def test_draws_follow_the_posterior(kind, releases, rng):
    target = make(np.random.default_rng(3), kind, 1, 20, releases, outlying=3.0, most_rows=30)
    posterior = abo.posterior(target.others, target.release, prior=target.prior)
    draws = np.sort(posterior.draw(rng, 2000)[:, 0])
    axis = np.linspace(draws[0] - 20, draws[-1] + 20, 40_001)
    density = np.exp(posterior.log_density(axis[:, None]))
    cumulative = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(axis))])
    assert stats.kstest(draws, lambda x: np.interp(x, axis, cumulative)).pvalue > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_credible_regions_hold_what_they_say(kind, rng):
    target = make(np.random.default_rng(9), kind, 3, 40, 6, outlying=3.0, most_rows=50)
    posterior = abo.posterior(target.others, target.release, prior=target.prior)
    draws = posterior.draw(rng, 4000)
    for level in (0.5, 0.95):
        share = posterior.credible_region(level).contains(draws).mean()
        assert abs(share - level) < 5 * np.sqrt(level * (1 - level) / 4000) + 0.01


def test_a_single_release_draws_and_normalises_in_closed_form():
    for kind in KINDS:
        target = make(np.random.default_rng(2), kind, 3, 20, 1, outlying=3.0)
        posterior = abo.posterior(target.others, target.release, prior=target.prior)
        points = target.candidates(5)
        np.testing.assert_allclose(
            posterior.log_density(points), posterior.closed_form.log_density(points), rtol=1e-8
        )
        assert posterior.log_total.standard_error == 0


def test_the_whole_space_holds_everything():
    target = make(np.random.default_rng(1), "datasets", 2, 30, 5, outlying=4.0, most_rows=50)
    posterior = abo.posterior(target.others, target.release, prior=target.prior)
    assert float(posterior.mass_within(posterior.unwhiten(np.zeros(2)), 1e3)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q: q.mass_within(np.zeros(2), 0.0), "radius must exceed 0"),
        (lambda q: q.credible_region(1.0), "level must lie between 0 and 1"),
    ],
)
def test_impossible_questions_are_refused(call, message):
    target = make(np.random.default_rng(1), "parameters", 2, 30, 5)
    with pytest.raises(abo.InputError, match=message):
        call(abo.posterior(target.others, target.release, prior=target.prior))
