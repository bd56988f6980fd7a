"""Leave-one-out by downdates is the same as attacking one by one."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.adversary import leave_one_out as everyone
from allbutone.adversary.build import log_posterior
from allbutone.releases.statistics import ParameterStatistics
from allbutone.support.parallel import keep_freed_memory
from cases import positive_definite
from posteriors import attack_statistics, who


def table(rng, n, p):
    return rng.standard_normal((n, p)) @ np.linalg.cholesky(positive_definite(rng, p)).T


def released(rng, records, prior, kind):
    posterior = prior.update(records)
    if kind == "parameters":
        return abo.Release.draw_parameters(posterior, 5, rng)
    return abo.Release.draw(posterior, [30, 4, 60, 11, 1], rng)


def assert_same(one, many, row, digits=1e-6):
    assert one.status == many.status[row]
    deviations = np.sqrt(np.diagonal(one.covariance)) + 1e-300
    np.testing.assert_allclose(many.log_posterior_gap[row], one.log_posterior_gap, rtol=digits, atol=1e-7)
    if one.log_posterior_gap > 1e-5:
        assert np.all(np.abs(many.mode[row] - one.mode) <= digits * deviations)
    size = np.abs(one.covariance).max()
    np.testing.assert_allclose(many.covariance[row], one.covariance, rtol=1e-5, atol=max(digits, 1e-6) * size)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("variant", ["plain", "known", "own prior", "own mechanism"])
@pytest.mark.parametrize("p", [1, 2, 4])
def test_everyone_at_once_is_everyone_in_turn(kind, variant, p, monkeypatch, rng):
    if p == 1 and variant == "known":
        p = 3
    records = table(rng, 40, p)
    records[3] *= 12  # a record with a high hat value takes the direct road
    prior = abo.NIW(np.zeros(p), 0.5, p + 1.5, np.eye(p))
    release = released(rng, records, prior, kind)
    monkeypatch.setattr(everyone, "BLOCK_BYTES", 8 * 5 * (5 * p * p + 12 * p) * 7)
    own = abo.NIW(np.ones(p), 2.0, p + 5.0, 2 * np.eye(p))
    options = {
        "plain": {},
        "known": {"known": ["x2"]},
        "own prior": {"adversary_prior": own},
        "own mechanism": {"adversary_prior": own, "reading": "mechanism"},
    }[variant]
    many = abo.attack(records, release, rows="all", prior=prior, **who(**options))
    assert many.mode.shape == (40, p)
    for row in range(40):
        each = dict(options)
        if "known" in each:
            each["known"] = np.where(np.arange(p) == 1, records[row], np.nan)
        assert_same(abo.attack(np.delete(records, row, axis=0), release, prior=prior, **who(**each)), many, row)


@pytest.mark.parametrize(("p", "count"), [(6, 3), (3, 6), (1, 1), (2, 40)])
def test_a_downdated_posterior_is_that_of_the_others_whatever_the_layout_of_its_wells(p, count, rng):
    """Density and curvature at any candidate; more wells than columns lie in another order in memory."""
    records, prior = table(rng, 12, p), abo.NIW(np.full(p, 0.3), 0.5, p + 1.5, np.eye(p))
    release = abo.Release.draw(prior.update(records), rng.integers(1, 20, count).tolist(), rng)
    rows = np.array([1, 2, 5, 6, 11])
    many = everyone.LeaveOneOut.of(records, release, prior, None, "record").downdated(rows)
    assert (many.shapes.strides[-3] < many.shapes.strides[-1]) == (count > p)
    some = {"slice": many.take(slice(2, 4)), "positions": many.take(np.array([2, 3]))}
    candidates = table(rng, 2, p)
    for place, row in ((0, 5), (1, 6)):
        alone = log_posterior(np.delete(records, row, axis=0), release, prior=prior)
        heights = alone.log_density_unnormalized(candidates)
        bends = alone.hessian(candidates)
        for how, part in some.items():
            one = part.take(slice(place, place + 1))
            found = np.array([one.log_density_unnormalized(x[None])[0] for x in candidates])
            np.testing.assert_allclose(found - found[0], heights - heights[0], rtol=1e-9, atol=1e-10, err_msg=how)
            found = np.array([one.hessian(x[None])[0] for x in candidates])
            np.testing.assert_allclose(found, bends, rtol=1e-8, atol=1e-9 * np.max(np.abs(bends)), err_msg=how)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_an_outlier_of_a_million_deviations_spoils_nobody_elses_digits(kind):
    rng = np.random.default_rng(5)
    records = table(rng, 30, 3)
    records[7] = 1e6 * records[7]
    prior = abo.NIW.default(3)
    release = released(rng, records, prior, kind)
    many = abo.attack(records, release, rows="all", prior=prior)
    for row in range(30):
        one = abo.attack(np.delete(records, row, axis=0), release, prior=prior)
        # a covariance released in float64 has lost a direction 1e-6 as wide to its twelfth digit
        assert_same(one, many, row, digits=1e-4 if kind == "parameters" else 1e-6)


def test_two_records_are_enough():
    records = np.array([[0.3, 1.0], [2.0, -1.0]])
    prior = abo.NIW.default(2)
    release = abo.Release.of([np.random.default_rng(1).standard_normal((5, 2))] * 2)
    many = abo.attack(records, release, rows="all", prior=prior)
    for row in range(2):
        assert_same(abo.attack(records[[1 - row]], release, prior=prior), many, row)


def test_columns_are_known_by_name_and_progress_is_watched():
    cohort = abo.demo_cohort()
    synthesizer = abo.Synthesizer().fit(cohort)
    release, seen = synthesizer.sample(datasets=3, rows=50), []
    frame = pd.DataFrame(cohort.values, columns=list(cohort.columns))
    named = abo.attack(
        frame, release, abo.Adversary(known=["BMI"]), rows="all", prior=synthesizer.prior, watch=seen.append
    )
    some = abo.attack(frame, release, abo.Adversary(known="BMI"), rows=[7, 3])
    np.testing.assert_allclose(some.mode, named.mode[[6, 2]], rtol=1e-9)
    one = abo.attack(frame, release, abo.Adversary(known="BMI"), rows=7)
    np.testing.assert_allclose(one.mode, some.mode[0], rtol=1e-12)
    assert one.status == some.status[0]
    np.testing.assert_array_equal(named.mode[:, 3], cohort.values[:, 3])
    assert sum(seen) == 503


COHORT = abo.demo_cohort().values[:40]
COLUMNS = list(abo.demo_cohort().columns)


def cohort_and_release():
    frame = pd.DataFrame(COHORT, columns=COLUMNS)
    synthesizer = abo.Synthesizer().fit(frame)
    return frame, synthesizer.sample(datasets=2, rows=9), synthesizer.prior


@pytest.mark.parametrize("known", ["BMI", ["BMI"], ("BMI", "BMI")])
def test_columns_are_known_by_name_in_any_order_of_the_table(known):
    frame, release, prior = cohort_and_release()
    plain = abo.attack(frame, release, abo.Adversary(known=["BMI"]), rows="all", prior=prior).mode
    for table in (frame, frame.iloc[:, ::-1], COHORT):
        found = abo.attack(table, release, abo.Adversary(known=known), rows="all", prior=prior)
        np.testing.assert_array_equal(found.mode, plain)
    np.testing.assert_array_equal(plain[:, 3], COHORT[:, 3])


def test_an_empty_list_is_nothing_known():
    _, release, prior = cohort_and_release()
    nothing, plain = (
        abo.attack(COHORT, release, abo.Adversary(known=known), rows="all", prior=prior) for known in ([], None)
    )
    np.testing.assert_array_equal(nothing.mode, plain.mode)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (["height"], "no column 'height' to know; the columns are T2D, CAD, HT, BMI, HBA1C"),
        (3, "known must be names of columns, got 3"),
        ({"BMI": 27.0}, "are the table's own values; give the columns' names alone"),
        (COLUMNS, "the adversary knows everything"),
    ],
)
def test_impossible_knowledge_is_refused(known, message):
    frame, release, prior = cohort_and_release()
    with pytest.raises(abo.InputError, match=message):
        abo.attack(frame, release, abo.Adversary(known=known), rows="all", prior=prior)


def test_many_tables_at_once_from_their_statistics():
    """The attack on sufficient statistics is the attack on the records they summarize."""
    rng = np.random.default_rng(2)
    prior, targets = abo.NIW.default(3), []
    for _ in range(6):
        others = table(rng, 20, 3)
        posterior = prior.update(np.vstack([others, np.full(3, 6.0)]))
        targets.append(
            (
                others,
                abo.Release.draw_parameters(posterior, 4, rng),
                abo.Release.draw(posterior, [9, 30], rng),
            )
        )
    crowds = [prior.update(others) for others, _, _ in targets]
    crowd = abo.NIW(np.stack([c.mean for c in crowds]), 21.0, 25.0, np.stack([c.scale for c in crowds]))
    each = [release.normal.statistics() for _, release, _ in targets]
    stacked = ParameterStatistics(4, np.stack([e.precision for e in each]), np.stack([e.pull for e in each]))
    parameters = attack_statistics(crowd, stacked)
    moments = [[abo.Moments.of(z) for z in release.values] for _, _, release in targets]
    datasets = attack_statistics(
        crowd,
        abo.Moments(
            np.array([9.0, 30.0]),
            np.stack([[m.mean for m in pair] for pair in moments]),
            np.stack([[m.scatter for m in pair] for pair in moments]),
        ),
    )
    for row, (others, theta, phi) in enumerate(targets):
        assert_same(abo.attack(others, theta, prior=prior), parameters, row)
        assert_same(abo.attack(others, phi, prior=prior), datasets, row)


def test_two_records_and_many_datasets_take_less_memory_than_the_release():
    """Datasets are summarized a few at a time, also for a record that is attacked by itself."""
    rng = np.random.default_rng(3)
    records, prior = rng.standard_normal((2, 5)), abo.NIW.default(5)
    release = abo.Release.draw(prior.update(records), [300] * 2000, rng)
    keep_freed_memory()  # which is counted as taken, once, but never touched
    tracemalloc.start()
    abo.attack(records, release, rows="all", prior=prior)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 2000 * 300 * 5
