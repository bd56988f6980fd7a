"""Leave-one-out by downdates is the same as attacking one by one."""

import tracemalloc

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest

import allbutone as abo
from allbutone.adversary import leave_one_out as everyone
from allbutone.adversary.build import log_posterior
from allbutone.releases.statistics import ParameterStatistics
from allbutone.support.parallel import keep_freed_memory
from cases import positive_definite


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
@pytest.mark.parametrize("variant", ["plain", "known", "mask", "own prior", "own mechanism"])
@pytest.mark.parametrize("p", [1, 2, 4])
def test_everyone_at_once_is_everyone_in_turn(kind, variant, p, monkeypatch, rng):
    if p == 1 and variant in ("known", "mask"):
        p = 3
    records = table(rng, 40, p)
    records[3] *= 12  # a record with a high hat value takes the direct road
    prior = abo.NIW(np.zeros(p), 0.5, p + 1.5, np.eye(p))
    release = released(rng, records, prior, kind)
    monkeypatch.setattr(everyone, "BLOCK_BYTES", 8 * 5 * (5 * p * p + 12 * p) * 7)
    own = abo.NIW(np.ones(p), 2.0, p + 5.0, 2 * np.eye(p))
    mask = rng.random((40, p)) < 0.4
    mask[:, 0] = False
    options = {
        "plain": {},
        "known": {"known": [1]},
        "mask": {"known": mask},
        "own prior": {"adversary_prior": own},
        "own mechanism": {"adversary_prior": own, "reading": "mechanism"},
    }[variant]
    many = abo.attack_all(records, release, prior, **options)
    assert many.mode.shape == (40, p)
    for row in range(40):
        each = dict(options)
        if "known" in each:
            columns = mask[row] if variant == "mask" else np.arange(p) == 1
            each["known"] = np.where(columns, records[row], np.nan) if columns.any() else None
        assert_same(abo.attack(np.delete(records, row, axis=0), release, prior, **each), many, row)


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
        alone = log_posterior(np.delete(records, row, axis=0), release, prior)
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
    many = abo.attack_all(records, release, prior)
    for row in range(30):
        one = abo.attack(np.delete(records, row, axis=0), release, prior)
        # a covariance released in float64 has lost a direction 1e-6 as wide to its twelfth digit
        assert_same(one, many, row, digits=1e-4 if kind == "parameters" else 1e-6)


def test_two_records_are_enough():
    records = np.array([[0.3, 1.0], [2.0, -1.0]])
    prior = abo.NIW.default(2)
    release = abo.Release.of([np.random.default_rng(1).standard_normal((5, 2))] * 2)
    many = abo.attack_all(records, release, prior)
    for row in range(2):
        assert_same(abo.attack(records[[1 - row]], release, prior), many, row)


def test_columns_are_known_by_name_and_progress_is_watched():
    cohort = abo.demo_cohort()
    synthesizer = abo.Synthesizer().fit(cohort)
    release, seen = synthesizer.sample(datasets=3, rows=50), []
    frame = pd.DataFrame(cohort.values, columns=list(cohort.columns))
    named = abo.attack_all(frame, release, synthesizer.prior, known=["BMI"], watch=seen.append)
    placed = abo.attack_all(cohort.values, release, synthesizer.prior, known=3)
    np.testing.assert_array_equal(named.mode, placed.mode)
    np.testing.assert_array_equal(named.mode[:, 3], cohort.values[:, 3])
    assert sum(seen) == 503


MASK = np.arange(5) == 3
COHORT = abo.demo_cohort().values[:40]
COLUMNS = list(abo.demo_cohort().columns)
ONLY_BMI = np.where(MASK, COHORT, np.nan)


def cohort_and_release():
    frame = pd.DataFrame(COHORT, columns=COLUMNS)
    synthesizer = abo.Synthesizer().fit(frame)
    return frame, synthesizer.sample(datasets=2, rows=9), synthesizer.prior


@pytest.mark.parametrize(
    "known",
    [
        "BMI",
        ["BMI"],
        pd.Index(["BMI"]),
        3,
        np.int64(3),
        [np.int32(3)],
        np.array([3, 3]),
        array_api_strict.asarray([3]),
        MASK.tolist(),
        MASK,
        np.tile(MASK, (40, 1)),
        np.tile(MASK, (40, 1)).tolist(),
        array_api_strict.asarray(MASK),
        pd.DataFrame(np.tile(MASK, (40, 1)), columns=COLUMNS).iloc[:, ::-1],
        pl.DataFrame(np.tile(MASK, (40, 1)), schema=COLUMNS),
        ONLY_BMI,
        ONLY_BMI.tolist(),
        pd.DataFrame(ONLY_BMI, columns=COLUMNS).iloc[:, ::-1],
    ],
)
def test_columns_are_known_in_many_ways(known):
    frame, release, prior = cohort_and_release()
    plain = abo.attack_all(frame, release, prior, known=["BMI"]).mode
    for table in (frame, frame.iloc[:, ::-1], COHORT):
        np.testing.assert_array_equal(abo.attack_all(table, release, prior, known=known).mode, plain)
    np.testing.assert_array_equal(plain[:, 3], COHORT[:, 3])


def test_an_empty_list_is_nothing_known():
    _, release, prior = cohort_and_release()
    nothing, plain = (abo.attack_all(COHORT, release, prior, known=known) for known in ([], None))
    np.testing.assert_array_equal(nothing.mode, plain.mode)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (["height"], "no column 'height' to know; the columns are T2D, CAD, HT, BMI, HBA1C"),
        ([7], "no column 7 to know; positions run from 0 to 4"),
        (-1, "no column -1 to know"),
        (np.ones((3, 5), dtype=bool), r"a mask of known features has shape \(40, 5\) or \(5,\), got \(3, 5\)"),
        ([True, False], r"shape \(40, 5\) or \(5,\), got \(2,\)"),
        ([True, 3], "known holds True; give names, positions, a mask"),
        (3.0, "known holds 3.0; give names"),
        (np.array([1.0, 2.0]), "known holds 1.0; give names"),
        (np.where(MASK, 1, 0) * np.ones((40, 1), dtype=int), r"known is a int64 array of shape \(40, 5\); give"),
        (np.full((3, 5), np.nan), r"known is a float64 array of shape \(3, 5\); give"),
        ({"BMI": True}, "known is a dict; give"),
        (pd.Series(MASK, index=COLUMNS[::-1]), "known is a Series; give"),
        (ONLY_BMI + 1, "record 1, column 4, the records say .* give the records' own values"),
        (pd.DataFrame(ONLY_BMI), "known has the columns 0, 1, 2, 3, 4, the records T2D"),
        ([[True], [True, False]], "known is ragged; give"),
        (list(range(5)), "every feature of a record is known"),
    ],
)
def test_impossible_knowledge_is_refused(known, message):
    frame, release, prior = cohort_and_release()
    with pytest.raises(abo.InputError, match=message):
        abo.attack_all(frame, release, prior, known=known)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_the_hat_value_not_the_length_of_a_block_chooses_the_direct_road(kind, monkeypatch):
    """A pattern of known features that a single record has is still a downdate."""
    rng = np.random.default_rng(6)
    records = table(rng, 30, 3)
    records[3] *= 30
    prior, direct = abo.NIW.default(3), []
    single = everyone.LeaveOneOut._single
    monkeypatch.setattr(everyone.LeaveOneOut, "_single", lambda self, row: direct.append(row) or single(self, row))
    mask = np.zeros((30, 3), dtype=bool)
    mask[5, 1] = True
    release = released(rng, records, prior, kind)
    many = abo.attack_all(records, release, prior, known=mask)
    assert direct == [3]
    known = np.where(mask[5], records[5], np.nan)
    assert_same(abo.attack(np.delete(records, 5, axis=0), release, prior, known=known), many, 5)


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
    parameters = abo.attack_many(crowd, stacked)
    moments = [[abo.Moments.of(z) for z in release.values] for _, _, release in targets]
    datasets = abo.attack_many(
        crowd,
        abo.Moments(
            np.array([9.0, 30.0]),
            np.stack([[m.mean for m in pair] for pair in moments]),
            np.stack([[m.scatter for m in pair] for pair in moments]),
        ),
    )
    for row, (others, theta, phi) in enumerate(targets):
        assert_same(abo.attack(others, theta, prior), parameters, row)
        assert_same(abo.attack(others, phi, prior), datasets, row)


def test_two_records_and_many_datasets_take_less_memory_than_the_release():
    """Datasets are summarized a few at a time, also for a record that is attacked by itself."""
    rng = np.random.default_rng(3)
    records, prior = rng.standard_normal((2, 5)), abo.NIW.default(5)
    release = abo.Release.draw(prior.update(records), [300] * 2000, rng)
    keep_freed_memory()  # which is counted as taken, once, but never touched
    tracemalloc.start()
    abo.attack_all(records, release, prior)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 2000 * 300 * 5
