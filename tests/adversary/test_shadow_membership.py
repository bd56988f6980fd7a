"""No attack on membership by shadow models does better than the likelihood ratio, on the same releases."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import allbutone as abo
from allbutone.adversary.membership import evidence_of_measurements
from allbutone.releases.release import Release


def drawn(rng, values, person, prior, rows, count):
    """So many releases of the table with the person and as many without; whether the person was in it."""
    tables = (prior.update(np.vstack([values, person])), prior.update(values))
    members = rng.permutation(np.repeat([True, False], count // 2))
    return [Release.draw(tables[not member], rows, rng).values for member in members], members


def features(release):
    """What attacks by shadow models look at: means, deviations, correlation and extremes of each dataset."""
    found = []
    for each in release:
        found += [
            each.mean(axis=0),
            each.std(axis=0),
            [np.corrcoef(each.T)[0, 1]],
            each.min(axis=0),
            each.max(axis=0),
        ]
    return np.concatenate([np.ravel(part) for part in found])


def test_a_classifier_trained_on_shadow_releases_does_no_better(rng):
    """It knows table, mechanism and person, has seen 400 labelled releases, and is tried on 400 others."""
    values, person, prior, rows = rng.standard_normal((40, 2)), np.array([2.5, -2.5]), abo.NIW.default(2), [40, 40]
    seen, seen_members = drawn(rng, values, person, prior, rows, 400)
    fresh, members = drawn(rng, values, person, prior, rows, 400)
    learned = np.array([features(each) for each in seen])
    middle, spread = learned.mean(axis=0), learned.std(axis=0)
    shadow = LogisticRegression(max_iter=2000).fit((learned - middle) / spread, seen_members)
    guesses = shadow.predict_proba((np.array([features(each) for each in fresh]) - middle) / spread)[:, 1]
    table = np.vstack([values, person])
    exact = np.array([evidence_of_measurements(prior, table, each)[-1] for each in fresh])
    areas = roc_auc_score(members, guesses), roc_auc_score(members, exact)
    assert areas[1] > 0.7
    # the areas of two scores on the same 400 releases differ by chance by about 0.02
    assert areas[0] < areas[1] + 0.06
