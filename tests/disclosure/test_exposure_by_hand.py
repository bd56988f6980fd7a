"""The exposure law beside its formulas (docs/theory.md, 4 and 4b), written out in numbers for one record."""

import math

import numpy as np
import pytest
from scipy.special import multigammaln, ndtr, ndtri

import allbutone as abo
from allbutone.disclosure import exposure_law
from allbutone.disclosure.epsilon import PrivacyLoss
from allbutone.disclosure.exposure_law import ExposureLaw, leverages

FEW, MANY = (
    [(ndtri((i + 0.5) / many), ndtri((turn * i % many + 0.5) / many)) for i in range(many)]
    for many, turn in ((89, 55), (233, 144))
)
SETTINGS = [  # columns, people, rows, leverage, datasets or draws; κ = people − 1, ν = people − 2
    (1, 12, None, 1.5, 3),
    (4, 60, None, 0.4, 9),
    (20, 300, None, 0.7, 12),
    (10, 100, None, 4.0, 5),
    (1, 30, 7, 2.5, 6),
    (4, 60, 25, 0.6, 15),
    (6, 80, 4000, 0.3, 8),
    (30, 200, 150, 1.2, 20),
    (40, 45, 30, 3.0, 2),  # about as many columns as others
    (25, 120, 60, 0.02, 200),  # hidden among the others' eigenvalues
]


def law_of(p, people, rows):
    return ExposureLaw.of(abo.NIW.flat(p), people, rows)


def numbers(p, people, rows, q, k):
    """κ, ν′, c, α, β₀, λ, g, θ, N, y and the skewness of the record's own eigenvalue, as in section 4b."""
    kappa, nu, z = people - 1, people - 1, math.inf if rows is None else rows
    c, h, beta = kappa / (kappa + 1), 1 - 1 / (kappa + 1 + z), (nu / z) / (1 + nu / z)
    first = 1 / (1 + q / (1 + nu / z))
    g, theta, big = first * (1 + q), 1 - nu / z, nu * (1 + nu / z + 2 / z)
    lam = first * (1 + 2 * q * (1 + q) * beta * first**2 / big)
    skewness = (2 * theta + 6 * q * beta * lam) / g
    return kappa, nu, z, c, c / h * (k - 1) / k, h * beta, lam, g, theta, big, (p - 1) / (k * big), skewness


def placed(setting, x, one, two):
    """Return the mode's place s, ‖v‖² − s², and whether x is beyond the root of the balance."""
    q, k = setting[3:]
    kappa, nu, z, c, alpha, beta, lam, g, theta, big, y, skewness = numbers(*setting)
    e = 1 - x + theta * y
    if e * e <= 4 * y:
        return 0.0, 0.0, True
    P, slope = (e - math.sqrt(e * e - 4 * y)) / 2, max((e / math.sqrt(e * e - 4 * y) - 1) / 2, 0)
    spread = g * math.sqrt(2 / (k * big) * max(1 - theta * P + (1 - theta * (1 - x)) * slope, 0))
    D = lam * (1 + spread * (one + skewness * spread / 6 * (one**2 - 1))) - x - lam * g * P
    if D <= 0:
        return 0.0, 0.0, True
    r = 1 / (1 + kappa / z)
    lean, eta = r * math.sqrt(q / c) / (kappa + 1), r * math.sqrt((1 / (kappa + 1) + 1 / z) / (k * nu))
    s = lean * (1 + x / D) + two * eta * math.sqrt(g * (D + x * (1 + lam * g * slope))) / D
    across = s * s * lam * g * slope + eta**2 * k * big * slope
    u = beta * x * (s * s + across)
    light = 1 - 2 * g**2 / big * u / (1 + u) ** 2
    return s, across, x * light * (1 + c * (s * s + across)) > alpha * (1 + u)


def releases(setting, pairs):
    """Return exposure and relative error at each of the pairs, x halved out between 0 and α."""
    away, found = math.sqrt(setting[3] / numbers(*setting)[3]), []
    for one, two in pairs:
        low, high = 0.0, numbers(*setting)[4]
        for _ in range(44):
            middle = (low + high) / 2
            low, high = (low, middle) if placed(setting, middle, one, two)[2] else (middle, high)
        s, across, _ = placed(setting, low, one, two)
        found.append((s / away, math.sqrt((s - away) ** 2 + across) / away))
    return np.array(found).T


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_closed_form_is_its_formulas(setting):
    law, (q, k) = law_of(*setting[:3]), setting[3:]
    exposure, _ = releases(setting, MANY)
    levels = [0.05, 0.5, 0.95]
    off = 1e-3 if setting[0] == 40 else 1e-9  # where rounding decides whether x is among the others' eigenvalues
    expected = np.quantile(exposure, levels, method="hazen")
    np.testing.assert_allclose(law.quantiles(q, k, levels), expected, rtol=1e-6, atol=off)
    sizes = np.quantile(abs(exposure), levels, method="hazen")
    np.testing.assert_allclose(law.sizes(q, k, levels), sizes, rtol=1e-6, atol=off)
    exposure, error = releases(setting, FEW)
    assert law.exposure(q, k) == pytest.approx(np.median(exposure), rel=1e-6, abs=1e-9)
    found = law._spiked(q, k).over_releases()[1]
    assert np.median(found) == pytest.approx(np.median(error), rel=1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_threshold_and_where_the_law_holds_are_their_formulas(setting):
    law, q = law_of(*setting[:3]), setting[3]
    _, _, _, _, endless, _, lam, g, theta, big, _, _ = numbers(*setting[:4], 2)
    gamma, endless = g * (setting[0] - 1) / big, 2 * endless
    leaves = (endless - gamma * lam / (1 - lam)) / (endless - lam)
    assert law.threshold(q) == pytest.approx(max(leaves, gamma / (1 - lam) ** 2))
    for k in range(2, 60):
        y = (setting[0] - 1) / (k * big)
        clear, unmoved = g * y < (1 - lam) ** 2 / 8, k * (2 * math.sqrt(y) - theta * y) < 0.7
        assert law.holds(q, k) == (clear or unmoved)


def test_who_does_not_stand_out_never_leaves_the_centre():
    law = law_of(1, 50, None)
    np.testing.assert_array_equal(law.threshold(np.array([0.0, 1e-15])), np.inf)
    assert np.isfinite(law.exposure(0.0, 10))


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_record_as_a_spike_by_its_formulas(setting):
    p, people, rows, q, k = setting
    nu = people - 1
    place, spread, overlap = law_of(p, people, rows).spike(q, k)
    if rows is None:
        lam, freedom, bulk = 1 / (1 + q), k * nu, k * nu
    else:
        lam, kept = 1 / (1 + q * rows / (nu + rows)), nu / (nu + (1 + q) * rows)
        freedom = k * nu * rows / ((nu + rows) * (1 - kept) ** 2)
        bulk = k * nu * (nu + rows) / rows
    gamma = 0 if p == 1 else p / math.sqrt(freedom * bulk)  # one column has one axis
    seen = 1 - gamma / (lam - 1) ** 2
    hidden = seen <= 0
    assert place == pytest.approx((1 - math.sqrt(gamma)) ** 2 if hidden else lam + gamma * lam / (lam - 1))
    assert spread == pytest.approx(lam * math.sqrt(2 * max(seen, 0.05) / freedom))
    assert overlap == pytest.approx(0 if hidden else math.sqrt(seen / (1 + gamma / (lam - 1))))


def test_a_spike_at_nothing_points_nowhere():
    place, spread, overlap = law_of(5, 40, None).spike(np.array([0.0]), 4)
    assert overlap == 0
    assert place == pytest.approx((1 - math.sqrt(5 / (4 * 39))) ** 2)
    assert spread == pytest.approx(math.sqrt(2 * 0.05 / (4 * 39)))


@pytest.mark.parametrize(("rows", "share"), [(None, 1.0), (20, 20 / (8 + 20))])
def test_the_chance_of_the_right_side_by_its_formula(rows, share):
    law = ExposureLaw.of(abo.NIW(np.zeros(2), 2.0, 4.0, np.eye(2)), 6, rows)  # κ = 7, ν′ = 10
    assert (law.mean_weight, law.df, law.p, law.rows) == (7.0, 9.0, 2, rows)
    assert law.right_mode(0.8, 3) == pytest.approx(ndtr(math.sqrt(3 * share * 10 / 7 * 0.8 / 1.8)))
    assert law.ratio == (1.0 if rows is None else 1.5)


def test_what_one_draw_tells_is_the_slope_of_its_loss():
    """K′(1) = G′(1) − G(1) + G(0), G as in `draw_loss`, ℓ = q/c + 1/κ."""
    p, kappa, nu = 3, 11.0, 14.0
    law = ExposureLaw(p, kappa, nu, None)

    def G(a, ell):
        grown = (nu + a - p) / 2 * math.log1p(a / kappa)
        return float(multigammaln((nu + a) / 2, p)) + grown - (nu + a) / 2 * math.log1p(a * ell)

    expected = []
    for q in (0.3, 2.0):
        ell, step = q * (kappa + 1) / kappa + 1 / kappa, 1e-5
        slope = (G(1 + step, ell) - G(1 - step, ell)) / (2 * step)
        expected.append(slope - G(1, ell) + G(0, ell))
    gain = PrivacyLoss(law).columns(np.array([0.3, 2.0]))["gain_of_one"]
    np.testing.assert_allclose(gain, expected, rtol=1e-6)


def test_records_here_and_elsewhere_in_blocks_have_their_leverages(rng, monkeypatch):
    """The first stands apart so far that its hat value is nearly 1."""
    monkeypatch.setattr(exposure_law, "BLOCK_ROWS", 4)
    records, prior = rng.standard_normal((11, 3)), abo.NIW(np.ones(3), 0.5, 4.0, 2 * np.eye(3))
    records[0] *= 100
    expected = []
    for row in range(11):
        others = prior.update(np.delete(records, row, axis=0))
        step, c = records[row] - others.mean, others.mean_weight / (others.mean_weight + 1)
        expected.append(c * step @ np.linalg.solve(others.scale, step))
    np.testing.assert_allclose(leverages(records, prior), expected, rtol=1e-8)
    np.testing.assert_allclose(leverages(records[:6], prior, abo.Moments.of(records[6:])), expected[:6], rtol=1e-8)
    double = prior.update(np.vstack([records, records]))
    alone = leverages(records, prior, whole=double)
    away = records[1:] - double.mean
    hat = 22.5 / 21.5 * np.sum(away * np.linalg.solve(double.scale, away.T).T, axis=1)
    np.testing.assert_allclose(alone[1:], hat / (1 - hat), rtol=1e-8)


def test_a_record_too_far_to_square_is_refused():
    with pytest.raises(abo.InputError, match="record 2 is too far"):
        leverages(np.array([[0.0], [1e150], [1e-10]]), abo.NIW([0.0], 1.0, 3.0, 1e-100 * np.eye(1)))


def test_many_records_are_interpolated_between_the_least_and_the_most():
    law, count = law_of(4, 3000, 500), 30
    many = np.geomspace(1e-3, 20, 400)
    found = law.exposure(many, count)
    exactly = np.array([law.exposure(each, count) for each in many[::9]])
    np.testing.assert_allclose(found[::9], exactly, atol=2e-3)
    assert found[-1] == pytest.approx(law.exposure(20.0, count), abs=1e-12)
    # and where each has a count of its own, each is computed
    counts = np.where(many < 1, 30, 5)
    np.testing.assert_array_equal(law.exposure(many, counts)[::50], law.exposure(many[::50], counts[::50]))
    np.testing.assert_allclose(law.exposure(np.zeros(300), count), law.exposure(0.0, count), atol=1e-9)
    # of few, too, for which every other number may be one a record
    few = np.array([0.05, 0.37, 3.0])
    for several in (law.exposure, lambda q, k: law.sizes(q, k, [0.3])[0]):
        np.testing.assert_allclose(several(few, count), [several(each, count) for each in few], rtol=1e-12)


def test_interpolation_is_densest_about_the_threshold():
    for count in (2, 3, 300):
        law = law_of(1, 10**6, 2 * 10**6)
        rises = law.ratio / (count - 1)
        many = rises * np.linspace(0.5, 2.5, 301)
        exactly = np.array([law.exposure(each, count) for each in many[::10]])
        np.testing.assert_allclose(law.exposure(many, count)[::10], exactly, atol=0.02)


def test_bounds_of_rows_and_exposures():
    prior = abo.NIW.default(2)
    assert ExposureLaw.of(prior, 10, 1).rows == 1
    with pytest.raises(abo.InputError, match="at least 1"):
        ExposureLaw.of(prior, 10, 0)
    law = ExposureLaw.of(prior, 10, None)
    assert law.most(np.array([50.0]), 0.0) >= 1
    for exposure in (-0.001, 1.0):
        with pytest.raises(abo.InputError, match="between 0"):
            law.most(np.array([50.0]), exposure)
