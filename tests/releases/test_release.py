"""Releases: what is drawn, and what they know of themselves."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from threadpoolctl import threadpool_limits

import allbutone as abo
from allbutone.releases import sampling
from allbutone.releases.folder import synthesize_to_folder
from cases import positive_definite

KEY = "6f1d0c9ab37e42588d91e0f4c5a6b273"

Z = 5.0
A = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]})


@pytest.fixture
def posterior():
    rng = np.random.default_rng(7)
    prior = abo.NIW(np.zeros(3), 1.0, 5.0, np.eye(3))
    return prior.update(2 + rng.standard_normal((40, 3)) @ np.linalg.cholesky(positive_definite(rng, 3)).T)


def test_pooled_single_rows_follow_the_papers_student_t(posterior, rng):
    release = abo.Release.draw(posterior, [1] * 5000, rng)
    rows = np.concatenate(release.values)
    t = posterior.predictive()
    for direction in np.eye(3):
        spread = np.sqrt(direction @ t.scale @ direction)
        standard = (rows - t.location) @ direction / spread
        assert stats.kstest(standard, stats.t(t.df).cdf).pvalue > 1e-6
    squared = np.sum(np.linalg.solve(t.root, (rows - t.location).T) ** 2, axis=0) / 3
    assert stats.kstest(squared, stats.f(3, t.df).cdf).pvalue > 1e-6


def test_within_a_dataset_rows_share_one_draw_of_the_parameters(posterior, rng):
    rows = 30
    release = abo.Release.draw(posterior, [rows] * 4000, rng)
    data = np.stack(release.values)
    means = data.mean(axis=1)
    covariances = np.einsum("kni,knj->kij", data - means[:, None], data - means[:, None]) / (rows - 1)
    expected = posterior.scale / (posterior.df - 3 - 1)
    _within(means, posterior.mean)
    _within(covariances, expected)
    centred = means - posterior.mean
    _within(centred[:, :, None] * centred[:, None, :], expected * (1 / posterior.mean_weight + 1 / rows))


def _within(draws, expected):
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - expected) <= Z * error)


@pytest.mark.parametrize("rows", [[5] * 7, [1, 300, 300, 2], [1000]])
def test_a_seed_gives_the_same_release_drawn_or_streamed(posterior, rows, monkeypatch, tmp_path):
    monkeypatch.setattr(sampling, "PIECE_VALUES", 300)
    drawn = abo.Release.draw(posterior, rows, np.random.default_rng(3))
    mechanism = abo.Mechanism.of_measurements(("a", "b", "c"), abo.NIW.default(3))
    synthesize_to_folder(posterior, rows, np.random.default_rng(3), tmp_path / "r", mechanism=mechanism)
    read = abo.load_release(tmp_path / "r")
    assert read.rows == drawn.rows == tuple(rows)
    for ours, theirs in zip(drawn.values, read.values, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.fixture
def synthesizer():
    return abo.Synthesizer().fit(abo.demo_cohort())


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_release_saved_or_streamed_is_the_same_files(posterior, format, tmp_path):
    rows, about = [50_000, 3], {"columns": ("a", "b", "c"), "prior": posterior}
    drawn = abo.Release.draw(posterior, rows, np.random.default_rng(3), **about)
    abo.save_release(drawn, tmp_path / "saved", format=format)
    where = {"mechanism": drawn.mechanism, "format": format}
    synthesize_to_folder(posterior, rows, np.random.default_rng(3), tmp_path / "streamed", **where)
    for path in (tmp_path / "saved").iterdir():
        assert path.read_bytes() == (tmp_path / "streamed" / path.name).read_bytes()


@pytest.mark.parametrize("p", [5, 80, 150])
def test_a_seed_gives_the_same_bits_on_any_number_of_cores(p):
    table = np.random.default_rng(1).standard_normal((300, p))

    def released(threads):
        with threadpool_limits(limits=threads, user_api="blas"):
            fitted = abo.Synthesizer().fit(table)
            streamed = sampling.stream_datasets(fitted.posterior, [300, 300], np.random.default_rng(7))
            return [
                *fitted.sample(datasets=2, rows=300, rng_for_tests=np.random.default_rng(7)).values,
                *(block for _, block in streamed),
                fitted.sample_parameters(2, rng_for_tests=np.random.default_rng(7)).normal.covariances,
            ]

    for one, two in zip(released(1), released(2), strict=True):
        np.testing.assert_array_equal(one, two)


def test_frames_go_back_into_the_callers_library(synthesizer):
    release = synthesizer.sample(datasets=2, rows=4)
    for backend, library in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        frame = release.to_frames(backend)[1]
        assert isinstance(frame, library)
        assert list(frame.columns) == list(synthesizer.columns)
    assert abo.Release.of(release.to_frames("polars")).columns == synthesizer.columns


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s.sample(datasets=0), "datasets must be at least 1, got 0"),
        (lambda s: s.sample(rows=0), "rows must be at least 1, got 0"),
        (lambda s: s.sample(rows=-3), "rows must be at least 1, got -3"),
        (lambda s: s.sample(datasets=3, rows=[1, 2]), "2 sizes for 3 datasets"),
        (lambda s: s.sample_parameters(draws=0), "draws must be at least 1"),
        (lambda s: s.sizes(1, 3.5), "rows must be a whole number, got 3.5"),
        (lambda s: s.sample(rows=[3, 0]), "rows must be at least 1, got 0"),
        (lambda s: s.sample(rows=[]), "datasets must be at least 1, got 0"),
        (lambda s: s.sample(rows=10**23), "more than the 1,000,000,000 that are held in memory"),
        (lambda s: s.sample(datasets=10**8), "datasets must be at most 1,000,000"),
        (lambda s: s.sample_parameters(draws=10**8), "draws must be at most 1,000,000"),
        (lambda s: abo.Synthesizer().sample(), "call fit"),
        (lambda s: abo.Release.of([]), "at least one"),
        (lambda s: abo.Release.of([np.ones((2, 2)), np.ones((2, 3))]), "different numbers of columns"),
        (
            lambda s: abo.Release.of([np.array([[1.0], [np.nan]])]),
            "dataset 1: .* missing",
        ),
        (lambda s: abo.Release.of([np.ones((2, 2), dtype=object)]), "real numbers"),
        (lambda s: abo.Release.of([np.ones((3, 0))]), "none of them 0"),
        (lambda s: abo.Release.of([A, A.assign(secret=1.0)]), "dataset 2 has columns a, b, secret, not a, b"),
        (lambda s: abo.Release.of([A], columns=["a"]), "dataset 1 has columns a, b, not a"),
        (lambda s: abo.Release.of([np.ones((2, 1))], columns=["=cmd()"]), "spreadsheet formula"),
        (lambda s: abo.Release.of_parameters(np.ones((2, 3)), np.ones((2, 2, 2))), "covariances"),
        (lambda s: abo.Release.of_parameters([[np.nan]], [[[1.0]]]), "released means"),
        (lambda s: abo.Release.of_parameters([[0.0, 0.0]], [[[1.0, 0.5], [0.0, 1.0]]]), "symmetric"),
        (lambda s: abo.Release.of_parameters([[0.0], [1.0, 2.0]], [[[1.0]]]), "means must be an array of numbers"),
    ],
)
def test_impossible_releases_are_refused(synthesizer, make, message):
    with pytest.raises(abo.InputError, match=message):
        make(synthesizer)


def test_a_single_name_is_one_column():
    assert abo.Release.of([np.ones((2, 1))], columns="ldl").columns == ("ldl",)


def test_tables_may_differ_in_the_order_of_their_columns():
    release = abo.Release.of([A, A[["b", "a"]]])
    np.testing.assert_array_equal(*release.values)


@pytest.mark.parametrize("rows", [[3, 4], (3, 4), np.array([3, 4])])
def test_rows_may_name_each_size(synthesizer, rows):
    assert synthesizer.sample(rows=rows).rows == (3, 4)
    assert synthesizer.sample(datasets=2, rows=rows).rows == (3, 4)


def test_the_cohort_is_the_one_described():
    cohort = abo.demo_cohort()
    assert cohort.columns == ("T2D", "CAD", "HT", "BMI", "HBA1C")
    assert cohort.values.shape == (503, 5)
    np.testing.assert_array_equal(cohort.values, abo.demo_cohort().values)
    centred = cohort.values - cohort.values.mean(axis=0)
    distance = np.einsum("ni,ij,nj->n", centred, np.linalg.inv(np.cov(cohort.values.T)), centred)
    assert np.argmax(distance) + 1 == 212
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        abo.Synthesizer().fit(cohort)


def test_releases_know_themselves(synthesizer):
    drawn = synthesizer.sample(datasets=3, rows=[5, 6, 7]), synthesizer.sample_parameters(draws=4)
    assert [release.count for release in drawn] == [3, 4]
    assert [release.noun for release in drawn] == ["dataset", "parameter draw"]
    assert [len(release.datasets) for release in drawn] == [3, 0]
    assert [release.rows for release in drawn] == [(5, 6, 7), ()]
    assert all(release.columns == synthesizer.columns for release in drawn)
    assert all(release.first(2).count == 2 for release in drawn)
    nameless = abo.Release.of([np.eye(2)]), abo.Release.of_parameters([[0.0, 0.0]], [np.eye(2)])
    assert all(release.columns == ("x1", "x2") for release in nameless)


def test_a_release_tells_means_and_deviations_by_itself():
    rng = np.random.default_rng(5)
    first, second = rng.standard_normal((6, 2)), rng.standard_normal((9, 2))
    means, deviations = abo.Release.of([first, second, np.array([[1.0, 2.0]])]).means_and_deviations()
    np.testing.assert_allclose(means, (first.mean(axis=0) + second.mean(axis=0) + [1, 2]) / 3)
    np.testing.assert_allclose(deviations**2, (first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1)) / 2)
    assert np.all(np.isnan(abo.Release.of([np.array([[1.0, 2.0]])]).means_and_deviations()[1]))
    parameters = abo.Release.of_parameters([[0.0, 1.0], [2.0, 3.0]], [np.diag([4.0, 1.0]), np.diag([12.0, 1.0])])
    means, deviations = parameters.means_and_deviations()
    np.testing.assert_allclose((means, deviations), ([1, 2], [np.sqrt(8), 1]))


def test_statistics_are_all_that_an_attack_sees():
    rng = np.random.default_rng(6)
    sets = [rng.standard_normal((rows, 2)) for rows in (3, 5)]
    found = abo.Release.of(sets).normal.statistics()
    np.testing.assert_array_equal(found.count, [3, 5])
    np.testing.assert_allclose(found.mean, [each.mean(axis=0) for each in sets])
    np.testing.assert_allclose(found.scatter, [len(each) * np.cov(each.T, ddof=0) for each in sets])
    means, covariances = rng.standard_normal((4, 2)), [np.diag([1.0, each]) for each in (1, 2, 3, 4)]
    summed = abo.Release.of_parameters(means, covariances).normal.statistics()
    inverses = np.linalg.inv(covariances)
    assert summed.draws == 4
    np.testing.assert_allclose(summed.precision, inverses.sum(axis=0))
    np.testing.assert_allclose(summed.pull, sum(a @ b for a, b in zip(inverses, means, strict=True)))
