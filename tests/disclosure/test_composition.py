"""Several guarantees together: their exact sum, and the total declared for a table."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

import allbutone as abo
from allbutone.disclosure.guarantee import composed, left_in_words, left_of_limit, passed_limit, total_in_words
from allbutone.releases.gaussian_account import gaussian_epsilon, gaussian_mu
from allbutone.releases.ledger import Ledger
from allbutone.releases.ledger_file import Entry, Terms


def test_noise_adds_in_rho():
    terms = [Terms(rho=0.02), Terms(rho=0.05), Terms(rho=0.01)]
    assert composed(terms, 1e-6) == pytest.approx(gaussian_epsilon(0.4, 1e-6), rel=1e-9)
    assert composed(terms, 1e-6) < sum(composed([each], 1e-6) for each in terms)


def test_draws_add_as_one_release_of_them_all():
    """Posterior draws of one mechanism: k adds, as `guarantee` has it for so many draws."""
    prior, box = abo.NIW([0, 0], 1, 4, [[5e6, 0], [0, 5e6]]), [(-4, 4), (-4, 4)]
    found = abo.guarantee(prior, box, 500, draws=3)
    one = Terms(half_df=0.5 * (4 + 500), most=found.most)
    assert composed([one] * 3, 1e-6) == pytest.approx(found.epsilon, rel=1e-6)


def test_draws_and_noise_add_by_their_losses(rng):
    """δ at the composed ε against simulated losses of both: gamma variates of two worlds, and a normal."""
    terms = [Terms(half_df=40.0, most=0.1), Terms(half_df=90.0, most=0.05), Terms(rho=0.3)]
    delta = 0.01
    epsilon = composed(terms, delta)
    loss = 0.0
    for each in terms[:2]:  # (τ·G₁, G₂) in one world and (G₁, τ·G₂) in the other
        tau = 1 + each.most
        first, second = rng.gamma(each.half_df, size=(2, 400_000))
        loss = loss + first * (tau - 1) - second * (1 - 1 / tau)
    mu = np.sqrt(2 * 0.3)
    loss = loss + mu * rng.standard_normal(400_000) + mu**2 / 2
    simulated = np.maximum(1 - np.exp(epsilon - loss), 0.0)
    assert np.mean(simulated) == pytest.approx(delta, abs=5 * np.std(simulated) / np.sqrt(len(simulated)))
    exact = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    assert exact < delta  # of the noise alone


def test_what_is_known_by_epsilon_and_delta_alone_is_added():
    both = [Terms(epsilon=1.0, delta=4e-7), Terms(rho=0.1)]
    assert composed(both, 1e-6) == pytest.approx(1 + gaussian_epsilon(np.sqrt(0.2), 6e-7))
    assert composed([Terms(epsilon=1.0, delta=1e-6)], 1e-6) == np.inf
    with pytest.raises(abo.InputError, match="needs rho"):
        composed([Terms(epsilon=1.0)], 1e-6)


def ledger_of(*guarantees, limit=None):
    entry = Entry(
        number=1, date=datetime(2026, 1, 1, tzinfo=UTC), how="drawn", place="r", kind="datasets", count=1,
        rows=(5,), columns=("x",), prior="flat", people=50, table="", declaration="", files="",
    )  # fmt: skip
    entries = (replace(entry, number=at, guarantee=terms) for at, terms in enumerate(guarantees, start=1))
    return Ledger(path=Path("l"), salt="00", releases=tuple(entries), limit=limit)


def test_a_declared_total_is_not_passed():
    half, whole = Terms(rho=gaussian_mu(3.0, 1e-6) ** 2 / 4), Terms(epsilon=3.0, delta=1e-6)
    assert passed_limit(ledger_of(half), Terms(rho=100.0)) == ""
    assert passed_limit(ledger_of(half, limit=whole), half) == ""
    assert "more than the total" in passed_limit(ledger_of(half, half, limit=whole), Terms(rho=1e-4))
    assert "no guarantee" in passed_limit(ledger_of(limit=whole), None)
    assert "release 1" in passed_limit(ledger_of(None, half, limit=whole), half)
    by_rho = ledger_of(half, limit=Terms(rho=half.rho * 2))
    assert passed_limit(by_rho, half) == ""
    assert "more than the total" in passed_limit(by_rho, Terms(rho=half.rho * 1.01))
    assert "ε = 3 at" in total_in_words(ledger_of(half, half))
    assert "nothing bounds" in total_in_words(ledger_of(half, half, None))


def test_what_a_total_leaves_is_what_it_still_takes():
    half, whole = Terms(rho=gaussian_mu(3.0, 1e-6) ** 2 / 4), Terms(epsilon=3.0, delta=1e-6)
    epsilon, delta = left_of_limit(ledger_of(half, limit=whole))
    assert epsilon == pytest.approx(gaussian_epsilon(np.sqrt(2 * half.rho), 1e-6), rel=1e-4)
    planned = ledger_of(half, limit=whole)
    assert passed_limit(planned, Terms(rho=gaussian_mu(epsilon, delta) ** 2 / 2 * 0.999)) == ""
    assert "more than the total" in passed_limit(planned, Terms(rho=gaussian_mu(epsilon, delta) ** 2 / 2 * 1.01))
    assert left_of_limit(ledger_of(limit=whole))[0] == pytest.approx(3.0, rel=1e-4)
    assert left_of_limit(ledger_of(half, half, limit=whole))[0] < 0.01
    assert left_of_limit(ledger_of(half)) is None
    assert "ε = 3 is spent: nothing more" in left_in_words(ledger_of(half, half, limit=whole))
    assert "may have ε = 2.0" in left_in_words(planned)
    assert left_in_words(ledger_of(half)) == ""
