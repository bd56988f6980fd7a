"""No attack on membership by shadow models does better than the likelihood ratio, on the same releases."""

import numpy as np
import pytest
from replication.membership import Curve, Game, areas, beaten, evidence_of, people
from sklearn.metrics import roc_auc_score

import allbutone as abo
from allbutone.tables.records import Records


@pytest.mark.parametrize("categories", [False, True])
def test_attacks_that_learn_from_labelled_releases_do_no_better(rng, categories):
    """They know table, mechanism and person, have seen 200 releases, labelled, and are tried on 200 others."""
    table = people(rng, 40, 2, 3.5, categories)
    (exact, *attacks) = beaten(Game.drawn(table, rng, 200, 1 if categories else 2, 40))
    assert exact[0] == "likelihood ratio"
    assert exact[1] > 0.65
    assert len(attacks) == 7
    for name, area, larger, error, _ in attacks:
        assert larger > -4 * error, name
        assert area == pytest.approx(exact[1] - larger)
    assert max(area for _, area, *_ in attacks) > 0.55  # they find something


@pytest.mark.parametrize("categories", [False, True])
def test_the_evidence_of_the_game_is_that_of_risk(rng, categories):
    table = people(rng, 30, 2, 3.0, categories)
    release = abo.Synthesizer().fit(table).sample(rows=20, rng_for_tests=rng)
    found = evidence_of(release.mechanism, Records.of(table, categories=True), release.tables)
    expected = abo.risk(table, release, mass=False)["membership_evidence"].iloc[-1]
    np.testing.assert_allclose(found, [expected], atol=1e-8)


def test_the_curve_that_is_stated_is_that_of_releases_drawn_row_by_row(rng):
    curve = Curve(2, 50, 4.0, 1, 50)
    stated, area = curve.stated
    hits, error, found, of_area = curve.measured(rng, 8_000)
    assert np.all(np.abs(hits - stated) < 4.5 * error)
    assert abs(found - area) < 4.5 * of_area


def test_areas_and_their_covariances(rng):
    """The area is scikit-learn's; its variance, of normal scores drawn anew, is that of the estimates."""
    members = np.repeat([True, False], [60, 90])
    estimates, variances, covariances = [], [], []
    for _ in range(400):
        base = rng.standard_normal(150) + members
        every = np.stack([base, base + rng.standard_normal(150)])
        area, spread = areas(every, members)
        estimates.append(area)
        variances.append(spread[0, 0])
        covariances.append(spread[0, 1])
    assert area[0] == pytest.approx(roc_auc_score(members, every[0]))
    expected = np.cov(np.array(estimates).T)
    assert np.mean(variances) == pytest.approx(expected[0, 0], rel=0.35)
    assert np.mean(covariances) == pytest.approx(expected[0, 1], rel=0.45)
