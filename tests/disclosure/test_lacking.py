"""Adversaries who lack columns or records: closed forms, equality where nothing is lacking, calibration."""

import numpy as np
import pandas
import pytest

import allbutone as abo
import paper
from allbutone.adversary.missing import sample_missing
from allbutone.disclosure.missing_risk import groups_of, measure_missing
from allbutone.model.moments import Moments
from allbutone.model.niw import Normal
from allbutone.releases.several import without_columns
from allbutone.releases.statistics import ParameterStatistics
from cases import positive_definite
from posteriors import sampled
from targets import make

KINDS = ["parameters", "datasets"]
KEPT = [0, 2]


@pytest.fixture
def table():
    rng = np.random.default_rng(7)
    values = rng.standard_normal((31, 3)) @ np.linalg.cholesky(positive_definite(rng, 3)).T
    values[4] *= 5
    return abo.Records(values, ("a", "b", "c"))


def released(table, kind, count=6, rows=25, seed=3):
    prior = abo.NIW([0.5, -1.0, 0.0], 0.7, 5.5, positive_definite(np.random.default_rng(1), 3))
    posterior, rng = prior.update(table.values), np.random.default_rng(seed)
    about = {"columns": table.columns, "prior": prior}
    if kind == "parameters":
        return abo.Release.draw_parameters(posterior, count, rng, **about)
    return abo.Release.draw(posterior, [rows] * count, rng, **about)


def test_updating_and_leaving_columns_out_change_places(table):
    prior = released(table, "parameters").prior
    one, two = prior.update(table.values).marginal(KEPT), prior.marginal(KEPT).update(table.values[:, KEPT])
    for name in ("mean", "mean_weight", "df", "scale"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12)


def test_a_block_of_an_inverse_wishart_loses_a_degree_of_freedom_a_column(table):
    """By the mean covariance, Λ/(ν − p − 1), and by the predictive, whose marginal is a block of a Student t."""
    whole = released(table, "parameters").prior.update(table.values)
    part = whole.marginal(KEPT)
    mean = whole.scale / (whole.df - 3 - 1)
    np.testing.assert_allclose(part.scale / (part.df - 2 - 1), mean[np.ix_(KEPT, KEPT)], rtol=1e-12)
    ours, theirs = part.predictive(), whole.predictive()
    assert ours.df == pytest.approx(theirs.df, rel=1e-12)
    np.testing.assert_allclose(ours.scale, theirs.scale[np.ix_(KEPT, KEPT)], rtol=1e-12)


def test_one_released_draw_is_the_posterior_of_the_known_columns(table):
    release = without_columns(released(table, "parameters", count=1), "b")
    found = abo.posterior(table.values[1:, KEPT], release, prior=release.prior)
    point = np.array([0.3, -1.2])
    exactly = Normal(release.normal.means[0], release.normal.covariances[0]).log_density(point)
    assert found.log_density(point) == pytest.approx(exactly, rel=1e-10)


def test_one_released_dataset_leaves_the_block_of_the_full_predictive(table):
    """By the paper's formulas in all columns: others and dataset together predict the known columns by a block."""
    whole = released(table, "datasets", count=1)
    prior = (whole.prior.mean, whole.prior.mean_weight, whole.prior.df, whole.prior.scale)
    location, scale, df = paper.predictive(
        *paper.posterior(np.vstack([table.values[1:], whole.values[0]]), *prior)
    )
    release = without_columns(whole, ["b"])
    found = abo.posterior(table.values[1:, KEPT], release, prior=release.prior)
    point = np.array([0.3, -1.2])
    exactly = paper.log_student_t(point, location[KEPT], scale[np.ix_(KEPT, KEPT)], df)
    assert found.log_density(point) == pytest.approx(exactly, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_who_lacks_nothing_is_the_usual_adversary(table, kind):
    release = released(table, kind)
    usual, same = (
        abo.risk(table, release, abo.Adversary(**lacking), rng=np.random.default_rng(1)).to_pandas()
        for lacking in ({}, {"lacking_columns": (), "lacking_records": 0})
    )
    pandas.testing.assert_frame_equal(usual, same)
    assert without_columns(release, ()) is release
    found = sampled(table.values[1:], release, release.prior, 1, 5, chains=16, sweeps=40, warm_up=0)
    exactly = abo.posterior(table.values[1:], release, prior=release.prior)
    np.testing.assert_allclose(
        found.mode, abo.attack(table.values[1:], release, prior=release.prior).mode, rtol=1e-6
    )
    points = table.values[:3]
    tolerance = 1e-10 if kind == "parameters" else 0.01  # datasets' totals are sampled, in either way
    np.testing.assert_allclose(found.log_density(points), exactly.log_density(points), atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_risk_of_who_lacks_a_column_is_risk_of_the_rest(table, kind):
    release = released(table, kind)
    ours = abo.risk(
        table, release, adversary=abo.Adversary(lacking_columns="b"), rng=np.random.default_rng(1)
    ).to_pandas()
    part = without_columns(release, "b")
    theirs = abo.risk(
        abo.Records(table.values[:, KEPT], ("a", "c")), part, rng=np.random.default_rng(1)
    ).to_pandas()
    pandas.testing.assert_frame_equal(ours, theirs, rtol=1e-10)
    assert list(ours.columns[-2:]) == ["error_a", "error_c"]


@pytest.mark.parametrize("missing", [2, 4])
def test_after_one_draw_all_missing_records_have_its_distribution(missing):
    target = make(np.random.default_rng(2), "parameters", 2, 25, 1, outlying=3.0)
    lacking = abo.Adversary(lacking_records=missing - 1)
    length = {"rng": 1, "chains": 16, "sweeps": 20, "warm_up": 2}
    found = abo.posterior(target.others[missing:], target.release, lacking, prior=target.prior, **length)
    exactly = Normal(target.release.normal.means[0], target.release.normal.covariances[0])
    np.testing.assert_allclose(
        found.log_density(target.others[:5]), exactly.log_density(target.others[:5]), rtol=1e-10
    )
    np.testing.assert_allclose(found.mode, target.release.normal.means[0], rtol=1e-6)


def test_after_one_dataset_a_missing_record_has_the_predictive_of_what_is_known():
    target = make(np.random.default_rng(2), "datasets", 2, 25, 1, outlying=3.0, most_rows=40)
    found = abo.posterior(
        target.others[3:],
        target.release,
        abo.Adversary(lacking_records=3),
        prior=target.prior,
        rng=1,
        chains=16,
        sweeps=60,
    )
    known = np.vstack([target.others[3:], target.release.values[0]])
    exactly = target.prior.update(known).predictive()
    off = found.log_density(target.others) - exactly.log_density(target.others)
    assert np.all(np.abs(off) < 6 * found.log_density_error(target.others) + 1e-3)
    assert np.all(np.abs(found.mean - exactly.location) < 6 * found.standard_error)


def inside(draws, truth, level):
    """Say whether the truth lies in the ellipsoid around the draws' mean that holds this share of them."""
    centre = draws.mean(axis=0)
    root = np.linalg.cholesky(np.cov(draws.T))
    far = np.linalg.norm(np.linalg.solve(root, (draws - centre).T), axis=0)
    return np.linalg.norm(np.linalg.solve(root, truth - centre)) <= np.quantile(far, level)


def require_calibrated(hits):
    """`hits`, shape (tables, truths, levels): the share of truths inside is the level, within four errors."""
    by_table = np.mean(hits, axis=1)
    error = np.sqrt(np.array([0.5, 0.8, 0.95]) * np.array([0.5, 0.2, 0.05]) / len(hits))
    assert np.all(np.abs(by_table.mean(axis=0) - [0.5, 0.8, 0.95]) < 4 * error), by_table.mean(axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_who_lacks_a_column_is_calibrated(kind, rng):
    """Records from the predictive of all columns, releases of all columns; only two of three are known."""
    prior, hits = abo.NIW(np.zeros(3), 1.0, 6.0, positive_definite(rng, 3)), []
    for _ in range(100):
        others = rng.standard_normal((12, 3))
        record = prior.update(others).predictive().draw(rng, 1)
        whole = abo.Records(np.vstack([others, record]), ("a", "b", "c"))
        posterior, about = prior.update(whole.values), {"columns": whole.columns, "prior": prior}
        if kind == "parameters":
            release = abo.Release.draw_parameters(posterior, 4, rng, **about)
        else:
            release = abo.Release.draw(posterior, [10] * 3, rng, **about)
        part = without_columns(release, "b")
        sample = abo.posterior(others[:, KEPT], part, prior=part.prior).importance_sample(rng, 1 << 10)
        draws = sample.records[rng.choice(len(sample.weights), 1000, p=sample.weights)]
        hits.append([[inside(draws, record[0, KEPT], level) for level in (0.5, 0.8, 0.95)]])
    require_calibrated(np.array(hits))


@pytest.mark.parametrize("kind", KINDS)
def test_who_lacks_several_records_is_calibrated(kind, rng):
    """Three missing records from the predictive, all tables sampled at once; the mass near them as well."""
    tables, missing, p, prior = 100, 3, 2, abo.NIW.default(2)
    fitted, truths, statistics = [], [], []
    for _ in range(tables):
        others = rng.standard_normal((10, p))
        model, records = prior.update(others), []
        for _ in range(missing):
            records.append(model.predictive().draw(rng, 1)[0])
            model = model.update(records[-1][None])
        if kind == "parameters":
            release = abo.Release.draw_parameters(model, 4, rng)
        else:
            release = abo.Release.draw(model, [10] * 3, rng)
        fitted.append(prior.update(others))
        truths.append(records)
        statistics.append(release.normal.statistics())
    given = abo.NIW(
        np.array([one.mean for one in fitted]), fitted[0].mean_weight, fitted[0].df,
        np.array([one.scale for one in fitted]),
    )  # fmt: skip
    names = ("precision", "pull") if kind == "parameters" else ("mean", "scatter")
    stacked = [np.array([getattr(one, name) for one in statistics]) for name in names]
    seen = ParameterStatistics(4, *stacked) if kind == "parameters" else Moments(np.full(3, 10.0), *stacked)
    found = sample_missing(given, seen, missing, rng, chains=4, sweeps=40, warm_up=10)
    hits = [
        [[inside(one.draws.reshape(-1, p), record, level) for level in (0.5, 0.8, 0.95)] for record in records]
        for one, records in zip(found, truths, strict=True)
    ]
    require_calibrated(np.array(hits))


def test_measures_of_missing_records_are_in_the_metric_of_the_known(table):
    """The literal formulas for one group, and the same guess for all that are missing together."""
    release = released(table, "parameters")
    found = abo.posterior(
        table.values[3:],
        release,
        abo.Adversary(lacking_records=2),
        prior=release.prior,
        rng=1,
        chains=16,
        sweeps=30,
    )
    truth = table.values[:3]
    measured = measure_missing([found], truth, np.zeros(3, dtype=int), radius=1.5)
    known = release.prior.update(table.values[3:])
    root = np.linalg.cholesky(known.scale)
    white, guess = (np.linalg.solve(root, (x - known.mean).T).T for x in (truth, measured.guess))
    np.testing.assert_allclose(
        measured.exposure, np.sum(white * guess, axis=1) / np.sum(white**2, axis=1), rtol=1e-10
    )
    np.testing.assert_allclose(measured.distance, np.linalg.norm(measured.guess - truth, axis=1), rtol=1e-12)
    before = known.predictive().log_density(truth)
    np.testing.assert_allclose(measured.information_gain, found.log_density(truth) - before, atol=1e-9)
    assert len(np.unique(measured.guess, axis=0)) == 1
    draws = np.linalg.solve(root, (found.draws.reshape(-1, 3) - truth[0]).T)
    assert measured.mass[0] == pytest.approx(np.mean(known.df * np.sum(draws**2, axis=0) <= 1.5**2))


@pytest.mark.parametrize("lacking", [1, 4, [2, 9]])
def test_each_record_is_looked_at_once_among_as_many_missing(lacking, rng):
    groups = groups_of(31, lacking, np.arange(31), rng)
    assert sorted(np.concatenate([group.targets for group in groups])) == list(range(31))
    for group in groups:
        assert set(group.targets) <= set(group.missing)
        assert len(set(group.missing)) == len(group.missing)
        if isinstance(lacking, int):
            assert len(group.missing) == lacking + 1
        else:
            assert set(group.missing) == {1, 8, *group.targets}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"lacking_columns": ["d"]}, "no column 'd' to lack"),
        ({"lacking_columns": ["a", "b", "c"]}, "lacks every column"),
        ({"lacking_columns": ["a"], "known": ["a"]}, "have it of nobody"),
        ({"lacking_records": 30}, "cannot lack 30 besides the target"),
        ({"lacking_records": [40]}, "row 40 is none of the records"),
        ({"lacking_records": -1}, "lacking_records"),
        ({"lacking_records": 2, "known": ["a"]}, "know nothing of the target"),
    ],
)
def test_what_nobody_can_lack_is_refused(table, asked, words):
    with pytest.raises(abo.InputError, match=words):
        abo.risk(table, released(table, "parameters"), abo.Adversary(**asked))


@pytest.mark.parametrize("kind", KINDS)
def test_the_flat_prior_of_all_columns_is_not_that_of_some(table, kind):
    """IW(n − 1, S) in all columns leaves IW(n − 1 − lacking, S_AA); the predictive's marginal is a block of it."""
    flat = abo.NIW.flat(3)
    part = flat.marginal(KEPT)
    assert part.df == -2
    fitted = part.update(table.values[:, KEPT])
    whole = flat.update(table.values)
    assert (fitted.df, whole.df) == (31 - 1 - 1, 31 - 1)
    np.testing.assert_allclose(fitted.scale, whole.scale[np.ix_(KEPT, KEPT)], rtol=1e-12)
    assert fitted.predictive().df == whole.predictive().df
    about = {"columns": table.columns, "prior": flat}
    rng = np.random.default_rng(1)
    if kind == "parameters":
        release = abo.Release.draw_parameters(whole, 3, rng, **about)
    else:
        release = abo.Release.draw(whole, [20] * 3, rng, **about)
    found = abo.risk(
        table, release, adversary=abo.Adversary(lacking_columns=["b"]), rng=np.random.default_rng(1)
    ).to_pandas()
    # those are told of people far out alone
    far = [name for name in found.columns if "beyond_" in name or "others_" in name]
    assert np.isfinite(found.drop(columns=["riskiest", "adversary", *far]).to_numpy(dtype=float)).all()
    with pytest.raises(abo.InputError, match="2 for 3"):
        part.update(table.values[:2, KEPT])
