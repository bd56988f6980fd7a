"""Releases of a table that grew between them, attacked together: exact, and nothing new for who came later."""

import numpy as np
import pytest

import allbutone as abo
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.releases.several import Part, Releases, without_columns

PEOPLE, BEFORE, COLUMNS = 16, 12, 2
PLACES = {"first": slice(0, BEFORE), "last": slice(PEOPLE - BEFORE, None)}


def releases(rng, values, people, prior):
    """Draw a release of all records, and one of each kind of those that there were before."""
    after, before = prior.update(values), prior.update(values[people])
    now = abo.Release.draw(after, [9, 7], rng, prior=prior)
    sets = abo.Release.draw(before, [6, 5, 8], rng, prior=prior)
    draws = abo.Release.draw_parameters(before, 3, rng, prior=prior)
    return now, sets, draws


def score(point, others, others_before, prior, now, sets, draws):
    """Return the log posterior of a missing record, each factor written out, but for a constant."""
    after, before = prior.update(np.vstack([others, point])), prior.update(np.vstack([others_before, point]))
    told = sum(after.log_evidence(data) for data in now.values)
    told += sum(before.log_evidence(data) for data in sets.values)
    told += before.log_density(draws.normal.means, draws.normal.covariances).sum()
    return prior.update(others).predictive().log_density(point) + told


@pytest.mark.parametrize("prior", [abo.NIW.flat(COLUMNS), abo.NIW.default(COLUMNS)], ids=["flat", "proper"])
@pytest.mark.parametrize("place", PLACES)
def test_the_posterior_is_the_product_of_all_that_was_released(rng, place, prior):
    values, people = rng.standard_normal((PEOPLE, COLUMNS)), PLACES[place]
    now, sets, draws = releases(rng, values, people, prior)
    together = Releases((Part(now), Part(sets, people), Part(draws, people)))
    everyone = LeaveOneOut.of(values, together, prior, None, "record")
    was_there = np.arange(PEOPLE)[people]
    for rows, known in everyone.blocks((), np.arange(PEOPLE)):
        found = everyone.problem(rows, known)
        points = rng.standard_normal((6, COLUMNS))
        got = np.stack([found.value(found.whiten(np.broadcast_to(x, (len(rows), COLUMNS)))) for x in points])
        for place_in_block, row in enumerate(rows):
            others, before = np.delete(values, row, axis=0), values[[each for each in was_there if each != row]]
            if row in was_there:
                wanted = [score(x, others, before, prior, now, sets, draws) for x in points]
            else:  # who came later has no part in what was released before
                fits = [prior.update(np.vstack([others, x])) for x in points]
                wanted = [
                    prior.update(others).predictive().log_density(x) + sum(fit.log_evidence(z) for z in now.values)
                    for x, fit in zip(points, fits, strict=True)
                ]
            np.testing.assert_allclose(np.diff(got[:, place_in_block]), np.diff(wanted), rtol=1e-8, atol=1e-8)


def test_every_record_is_attacked_once_and_in_any_column(rng):
    values = rng.standard_normal((PEOPLE, 3))
    now, sets, draws = releases(rng, values, PLACES["first"], abo.NIW.flat(3))
    together = Releases((Part(now), Part(sets, PLACES["first"]), Part(draws, PLACES["first"])))
    everyone = LeaveOneOut.of(values, together, now.prior, None, "record")
    rows = np.concatenate([rows for rows, _ in everyone.blocks((), np.arange(PEOPLE))])
    assert sorted(rows) == list(range(PEOPLE))
    some = without_columns(together, [together.columns[1]])
    assert abo.attack(values[:, [0, 2]], some, rows="all", prior=some.prior).mode.shape == (PEOPLE, 2)


def test_where_it_is_not_known_who_was_there_it_is_refused(rng):
    values = rng.standard_normal((PEOPLE, COLUMNS))
    now, sets, _ = releases(rng, values, PLACES["first"], abo.NIW.flat(COLUMNS))
    together = Releases((Part(now), Part(sets, PLACES["first"])))
    with pytest.raises(abo.InputError, match="fewer records"):
        abo.attack(values[1:], together, prior=now.prior)
