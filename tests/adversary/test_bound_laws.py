"""The bound's maxima: all there are."""

from math import prod

import numpy as np
import pytest

from allbutone.adversary.climb import both_maxima, maximize_bound, opposite_maximum


def test_the_bound_of_a_batch_is_that_of_each():
    rng, count = np.random.default_rng(2), 30
    root = rng.standard_normal((count, 4, 5))
    precision = root @ root.swapaxes(-1, -2)
    pull = rng.standard_normal((count, 4)) * 10 ** rng.uniform(-6, 2, (count, 1))
    for outward in (0.01, 3.0, 5e3):  # below the lowest eigenvalue, about, and beyond
        together = maximize_bound(outward, 0.8, precision, pull)
        alone = [maximize_bound(outward, 0.8, precision[i], pull[i]) for i in range(count)]
        np.testing.assert_allclose(together, alone, rtol=1e-6, atol=1e-9)
        tau = outward * 0.8 / (1 + 0.8 * np.sum(together**2, axis=1))
        turned = np.einsum("nij,nj->ni", precision, together) - tau[:, None] * together
        np.testing.assert_allclose(turned, pull, rtol=1e-6, atol=1e-7)


def test_where_nothing_pulls_a_tie_is_broken():
    """On the lowest axis, where τ = ω₁; at the centre where too little pushes."""
    found = maximize_bound(9.0, 0.5, np.diag([2.0, 1.0, 4.0]), np.zeros(3))
    np.testing.assert_allclose(np.abs(found), [0.0, np.sqrt((9 * 0.5 / 1 - 1) / 0.5), 0.0], atol=1e-12)
    np.testing.assert_allclose(maximize_bound(1.0, 0.5, np.diag([2.0, 1.0]), np.zeros(2)), 0, atol=1e-12)


def maxima(outward, inflation, precision, pull):
    """All maxima of a·log(1 + c‖v‖²) − vᵀAv + 2bᵀv, the highest first: φ(τ) = a·c is a polynomial's root."""
    omega, axes = np.linalg.eigh(precision)
    beta, target = axes.T @ pull, outward * inflation
    poles = [np.poly1d([omega[i], omega[i]], r=True) for i in range(len(omega))]
    one, tau = np.poly1d([1.0]), np.poly1d([1.0, 0.0])
    every = prod(poles, start=one)
    parts = [b**2 * prod(poles[:i] + poles[i + 1 :], start=one) for i, b in enumerate(beta)]
    equation = tau * (every + inflation * sum(parts)) - target * every
    found = []
    for tau in equation.roots[np.abs(equation.roots.imag) < 1e-9].real:
        place = axes @ (beta / (omega - tau))
        grown = 1 + inflation * place @ place
        bent = precision - tau * np.eye(len(pull)) + 2 * tau * inflation / grown * np.outer(place, place)
        if np.linalg.eigvalsh(bent)[0] > 0:
            found.append((outward * np.log(grown) - place @ precision @ place + 2 * pull @ place, place))
    return [place for _, place in sorted(found, key=lambda each: -each[0])]


@pytest.mark.parametrize("p", [1, 2, 3])
def test_both_maxima_are_all_there_are(p):
    rng, several = np.random.default_rng(7), 0
    root = rng.standard_normal((25, p, p + 2))
    precision, pull = root @ root.swapaxes(-1, -2), rng.standard_normal((25, p))
    outward = 10 ** rng.uniform(-1, 2, 25)
    best, other = both_maxima(outward, 0.7, precision, pull)
    for row in range(25):
        first, *second = maxima(outward[row], 0.7, precision[row], pull[row])
        assert len(second) <= 1
        expected = [first, *(second or [first])]
        np.testing.assert_allclose([best[row], other[row]], expected, rtol=1e-5, atol=1e-6)
        alone = both_maxima(outward[row], 0.7, precision[row], pull[row])
        np.testing.assert_allclose(alone, expected, rtol=1e-5, atol=1e-6)
        several += len(second)
        # beside the global maximum stands the other, and beside that (below) the global one's side
        opposite = opposite_maximum(outward[row], 0.7, precision[row], pull[row], first)
        np.testing.assert_allclose(opposite, second[0] if second else np.nan, rtol=1e-5, atol=1e-6)
    assert 5 < several < 23
    none = np.all(best == other, axis=-1, keepdims=True)
    opposite = opposite_maximum(outward, 0.7, precision, pull, best)
    back = opposite_maximum(outward, 0.7, precision, pull, other)
    np.testing.assert_allclose(opposite, np.where(none, np.nan, other), rtol=1e-9)
    lowest = np.linalg.eigh(precision)[1][..., 0]
    sides = [np.sign(np.vecdot(lowest, each))[~none[:, 0]] for each in (best, back, other)]
    np.testing.assert_array_equal(sides[0], sides[1])
    np.testing.assert_array_equal(sides[0], -sides[2])


def test_where_nothing_is_left_of_a_bound_it_is_nowhere():
    """A matrix of zeros, a pull that is no number: NaN, alone and among others; without a push A⁻¹b."""
    one, pull = np.diag([1.0, 2.0]), np.array([0.3, 0.1])
    for outward, precision, pulled in ((3.0, 0 * one, pull), (3.0, one, pull * np.nan), (3.0, one * np.nan, pull)):
        assert np.all(np.isnan(maximize_bound(outward, 0.7, precision, pulled)))
    np.testing.assert_allclose(maximize_bound(0.0, 0.7, one, pull), np.linalg.solve(one, pull), rtol=1e-12)
    among = maximize_bound(3.0, 0.7, np.stack([one, one * np.nan]), np.stack([pull, pull]))
    np.testing.assert_allclose(among[0], maximize_bound(3.0, 0.7, one, pull), rtol=1e-9)
    assert np.all(np.isnan(among[1]))
