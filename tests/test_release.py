"""Releases: what is drawn, what is written, and what never is."""

import json
import stat
import warnings
from pathlib import Path

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
    release = abo.DatasetRelease.draw(posterior, [1] * 5000, rng)
    rows = np.concatenate(release.datasets)
    t = posterior.predictive()
    for direction in np.eye(3):
        spread = np.sqrt(direction @ t.scale @ direction)
        standard = (rows - t.location) @ direction / spread
        assert stats.kstest(standard, stats.t(t.df).cdf).pvalue > 1e-6
    squared = np.sum(np.linalg.solve(t.root, (rows - t.location).T) ** 2, axis=0) / 3
    assert stats.kstest(squared, stats.f(3, t.df).cdf).pvalue > 1e-6


def test_within_a_dataset_rows_share_one_draw_of_the_parameters(posterior, rng):
    rows = 30
    release = abo.DatasetRelease.draw(posterior, [rows] * 4000, rng)
    data = np.stack(release.datasets)
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
    drawn = abo.DatasetRelease.draw(posterior, rows, np.random.default_rng(3))
    names, prior = ("a", "b", "c"), abo.NIW.default(3)
    synthesize_to_folder(posterior, rows, np.random.default_rng(3), tmp_path / "r", columns=names, prior=prior)
    read = abo.load_release(tmp_path / "r")
    assert read.rows == drawn.rows == tuple(rows)
    for ours, theirs in zip(drawn.datasets, read.datasets, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.fixture
def synthesizer():
    return abo.NIWSynthesizer().fit(abo.demo_cohort())


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_release_saved_or_streamed_is_the_same_files(posterior, format, tmp_path):
    rows, about = [50_000, 3], {"columns": ("a", "b", "c"), "prior": posterior}
    drawn = abo.DatasetRelease.draw(posterior, rows, np.random.default_rng(3), **about)
    abo.save_release(drawn, tmp_path / "saved", format=format)
    synthesize_to_folder(posterior, rows, np.random.default_rng(3), tmp_path / "streamed", format=format, **about)
    for path in (tmp_path / "saved").iterdir():
        assert path.read_bytes() == (tmp_path / "streamed" / path.name).read_bytes()


@pytest.mark.parametrize("p", [5, 80, 150])
def test_a_seed_gives_the_same_bits_on_any_number_of_cores(p):
    table = np.random.default_rng(1).standard_normal((300, p))

    def released(threads):
        with threadpool_limits(limits=threads, user_api="blas"):
            fitted = abo.NIWSynthesizer().fit(table)
            streamed = sampling.stream_datasets(fitted.posterior, [300, 300], np.random.default_rng(7))
            return [
                *fitted.sample(datasets=2, rows=300, rng_for_tests=np.random.default_rng(7)).datasets,
                *(block for _, block in streamed),
                fitted.sample_parameters(2, rng_for_tests=np.random.default_rng(7)).covariances,
            ]

    for one, two in zip(released(1), released(2), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_datasets_survive_their_folder(synthesizer, tmp_path, format):
    release = synthesizer.sample(datasets=3, rows=[1, 20, 7])
    abo.save_release(release, tmp_path / "r", format=format)
    again = abo.load_release(tmp_path / "r")
    assert again.columns == synthesizer.columns
    np.testing.assert_array_equal(again.prior.scale, synthesizer.prior.scale)
    for ours, theirs in zip(release.datasets, again.datasets, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_parameters_survive_their_folder(synthesizer, tmp_path):
    release = synthesizer.sample_parameters(draws=4)
    abo.save_release(release, tmp_path / "r")
    again = abo.load_release(tmp_path / "r")
    np.testing.assert_array_equal(again.means, release.means)
    np.testing.assert_array_equal(again.covariances, release.covariances)
    assert {path.name for path in (tmp_path / "r").iterdir()} == {"parameters.json", "release.json"}


def test_a_release_folder_holds_the_mechanism_and_nothing_of_the_data(synthesizer, tmp_path):
    abo.save_release(synthesizer.sample(datasets=2, rows=50, repeat_key=KEY), tmp_path / "r")
    text = (tmp_path / "r" / "release.json").read_text()
    manifest = json.loads(text)
    assert set(manifest) == {
        "made_by", "release", "mechanism", "columns", "prior", "datasets", "rows", "files",
    }  # fmt: skip
    assert KEY not in text
    assert str(tmp_path) not in text
    posterior = synthesizer.posterior
    for number in (*posterior.mean, *posterior.scale.ravel(), posterior.df, posterior.mean_weight):
        assert repr(float(number)) not in text


def rewrite(folder, **changes):
    path = folder / "release.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda r: (r / "release.json").unlink(), "cannot read .*release.json"),
        (lambda r: (r / "release.json").write_text("{"), "not valid JSON"),
        (lambda r: (r / "release.json").write_text("{}"), "not the description of a release"),
        (lambda r: (r / "dataset-002.csv").unlink(), "cannot read .*dataset-002.csv"),
        (lambda r: (r / "dataset-002.csv").write_text("a,b\n1,2\n"), "1 rows of a, b"),
        (lambda r: (r / "dataset-002.csv").write_text("a;b\n1;2\n"), "'a;b' is not numeric"),
        (lambda r: (r / "release.json").write_text("[" * 100_000), "not valid JSON"),
        (lambda r: rewrite(r, rows=[5]), "not the description of a release"),
        (lambda r: rewrite(r, rows=["5", "5"]), "5 rows of"),
        (lambda r: rewrite(r, files=[1, 2]), "outside its folder"),
        (lambda r: rewrite(r, files=["../secret.csv", "x"]), "outside its folder"),
        (lambda r: rewrite(r, columns=[1, 2, 3, 4, 5]), "columns must be text"),
        (lambda r: rewrite(r, prior=["mean"]), "must name its entries"),
        (lambda r: rewrite(r, release="people"), "unknown release 'people'"),
        (lambda r: rewrite(r, release="parameters"), "cannot read .*parameters.json"),
    ],
)
def test_a_damaged_folder_is_refused(synthesizer, tmp_path, damage, message):
    abo.save_release(synthesizer.sample(datasets=2, rows=5), tmp_path / "r")
    damage(tmp_path / "r")
    with pytest.raises(abo.InputError, match=message):
        abo.load_release(tmp_path / "r")


def test_only_a_release_is_ever_replaced(synthesizer, tmp_path):
    release = synthesizer.sample(rows=5)
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1.txt").write_text("years of work")
    for force in (False, True):
        with pytest.raises(abo.InputError, match=r"exists|not made by allbutone"):
            abo.save_release(release, precious, force=force)
    assert (precious / "chapter1.txt").read_text() == "years of work"
    abo.save_release(release, tmp_path / "r")
    with pytest.raises(abo.InputError, match="exists"):
        abo.save_release(release, tmp_path / "r")
    abo.save_release(synthesizer.sample(datasets=2, rows=5), tmp_path / "r", force=True)
    assert len(abo.load_release(tmp_path / "r").datasets) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r", "thesis"]


def test_a_release_with_something_added_is_not_replaced(synthesizer, tmp_path):
    release = synthesizer.sample(rows=3)
    for number, (name, make) in enumerate({"notes.txt": Path.touch, "more": Path.mkdir}.items()):
        folder = tmp_path / f"r{number}"
        abo.save_release(release, folder)
        make(folder / name)
        with pytest.raises(abo.InputError, match=r"holds something added since, so it cannot be replaced"):
            abo.save_release(release, folder, force=True)
        assert (folder / name).exists()
    rewrite(tmp_path / "r0", made_by="someone else", files=["dataset-001.csv", "notes.txt"])
    with pytest.raises(abo.InputError, match="not made by allbutone"):
        abo.save_release(release, tmp_path / "r0", force=True)


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_comes_to_be_meanwhile_is_kept(synthesizer, tmp_path, force, rng):
    def meanwhile(drawn, block):
        (tmp_path / "r").mkdir(exist_ok=True)
        (tmp_path / "r" / "theirs.txt").touch()

    with pytest.raises(abo.InputError, match=r"exists|not made by allbutone"):
        synthesize_to_folder(
            synthesizer.posterior, [3], rng, tmp_path / "r",
            columns=synthesizer.columns, prior=synthesizer.prior, watch=meanwhile, force=force,
        )  # fmt: skip
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["r", "r/theirs.txt"]


@pytest.mark.parametrize(("place", "message"), [("x" * 300, "File name too long"), ("no/r", "No such file")])
def test_where_nothing_can_be_written_is_said(synthesizer, tmp_path, place, message):
    with pytest.raises(abo.InputError, match=f"cannot write .*{message}"):
        abo.save_release(synthesizer.sample(rows=3), tmp_path / place)
    with pytest.raises(abo.InputError, match=f"cannot write .*{message}"):
        synthesizer.save(tmp_path / place)


def test_long_names_leave_room_for_the_one_aside(synthesizer, tmp_path):
    abo.save_release(synthesizer.sample(rows=3), tmp_path / ("x" * 255))
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


def test_a_saved_synthesizer_is_private_and_says_so(synthesizer, tmp_path):
    path = tmp_path / "s.json"
    synthesizer.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["notice"].startswith("CONFIDENTIAL")
    again = abo.NIWSynthesizer.load(path)
    ours, theirs = (s.sample(datasets=2, repeat_key=KEY) for s in (synthesizer, again))
    np.testing.assert_array_equal(ours.datasets[1], theirs.datasets[1])
    assert ours.rows == (503, 503)
    with pytest.raises(abo.InputError, match="exists"):
        synthesizer.save(path)


def test_frames_go_back_into_the_callers_library(synthesizer):
    release = synthesizer.sample(datasets=2, rows=4)
    for backend, library in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        frame = release.to_frames(backend)[1]
        assert isinstance(frame, library)
        assert list(frame.columns) == list(synthesizer.columns)
    assert abo.DatasetRelease(release.to_frames("polars")).columns == synthesizer.columns


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
        (lambda s: abo.NIWSynthesizer().sample(), "call fit"),
        (lambda s: abo.DatasetRelease([]), "at least one"),
        (lambda s: abo.DatasetRelease([np.ones((2, 2)), np.ones((2, 3))]), "different numbers of columns"),
        (
            lambda s: abo.DatasetRelease([np.array([[1.0], [np.nan]])]),
            "dataset 1: .* missing",
        ),
        (lambda s: abo.DatasetRelease([np.ones((2, 2), dtype=object)]), "real numbers"),
        (lambda s: abo.DatasetRelease([np.ones((3, 0))]), "none of them 0"),
        (lambda s: abo.DatasetRelease([A, A.assign(secret=1.0)]), "dataset 2 has columns a, b, secret, not a, b"),
        (lambda s: abo.DatasetRelease([A], columns=["a"]), "dataset 1 has columns a, b, not a"),
        (lambda s: abo.DatasetRelease([np.ones((2, 1))], columns=["=cmd()"]), "spreadsheet formula"),
        (lambda s: abo.ParameterRelease(np.ones((2, 3)), np.ones((2, 2, 2))), "covariances"),
        (lambda s: abo.ParameterRelease([[np.nan]], [[[1.0]]]), "released means"),
        (lambda s: abo.ParameterRelease([[0.0, 0.0]], [[[1.0, 0.5], [0.0, 1.0]]]), "symmetric"),
        (lambda s: abo.ParameterRelease([[0.0], [1.0, 2.0]], [[[1.0]]]), "means must be an array of numbers"),
    ],
)
def test_impossible_releases_are_refused(synthesizer, make, message):
    with pytest.raises(abo.InputError, match=message):
        make(synthesizer)


def test_a_single_name_is_one_column():
    assert abo.DatasetRelease([np.ones((2, 1))], columns="ldl").columns == ("ldl",)


def test_tables_may_differ_in_the_order_of_their_columns():
    release = abo.DatasetRelease([A, A[["b", "a"]]])
    np.testing.assert_array_equal(*release.datasets)


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
        abo.NIWSynthesizer().fit(cohort)


def test_releases_know_themselves(synthesizer):
    drawn = synthesizer.sample(datasets=3, rows=[5, 6, 7]), synthesizer.sample_parameters(draws=4)
    assert [release.count for release in drawn] == [3, 4]
    assert [release.noun for release in drawn] == ["dataset", "parameter draw"]
    assert [len(release.datasets) for release in drawn] == [3, 0]
    assert [release.rows for release in drawn] == [(5, 6, 7), ()]
    assert all(release.column_names == synthesizer.columns for release in drawn)
    assert all(release.first(2).count == 2 for release in drawn)
    nameless = abo.DatasetRelease([np.eye(2)]), abo.ParameterRelease([[0.0, 0.0]], [np.eye(2)])
    assert all(release.column_names == ("x1", "x2") for release in nameless)


def test_a_release_tells_means_and_deviations_by_itself():
    rng = np.random.default_rng(5)
    first, second = rng.standard_normal((6, 2)), rng.standard_normal((9, 2))
    means, deviations = abo.DatasetRelease([first, second, np.array([[1.0, 2.0]])]).means_and_deviations()
    np.testing.assert_allclose(means, (first.mean(axis=0) + second.mean(axis=0) + [1, 2]) / 3)
    np.testing.assert_allclose(deviations**2, (first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1)) / 2)
    assert np.all(np.isnan(abo.DatasetRelease([np.array([[1.0, 2.0]])]).means_and_deviations()[1]))
    parameters = abo.ParameterRelease([[0.0, 1.0], [2.0, 3.0]], [np.diag([4.0, 1.0]), np.diag([12.0, 1.0])])
    means, deviations = parameters.means_and_deviations()
    np.testing.assert_allclose((means, deviations), ([1, 2], [np.sqrt(8), 1]))


def test_statistics_are_all_that_an_attack_sees():
    rng = np.random.default_rng(6)
    sets = [rng.standard_normal((rows, 2)) for rows in (3, 5)]
    found = abo.DatasetRelease(sets).statistics()
    np.testing.assert_array_equal(found.count, [3, 5])
    np.testing.assert_allclose(found.mean, [each.mean(axis=0) for each in sets])
    np.testing.assert_allclose(found.scatter, [len(each) * np.cov(each.T, ddof=0) for each in sets])
    means, covariances = rng.standard_normal((4, 2)), [np.diag([1.0, each]) for each in (1, 2, 3, 4)]
    summed = abo.ParameterRelease(means, covariances).statistics()
    inverses = np.linalg.inv(covariances)
    assert summed.draws == 4
    np.testing.assert_allclose(summed.precision, inverses.sum(axis=0))
    np.testing.assert_allclose(summed.pull, sum(a @ b for a, b in zip(inverses, means, strict=True)))
