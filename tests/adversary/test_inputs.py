"""What the attacks are given is matched by name, or refused in one line that names the value and the cure."""

import sys

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
from jaxtyping import config

import allbutone as abo

NAMES = ("bmi", "ldl", "hba1c")
RNG = np.random.default_rng(7)
PRIOR = abo.NIW([0.0, 0.1, -0.2], 0.5, 6.0, [[1.0, 0.2, 0.0], [0.2, 2.0, 0.1], [0.0, 0.1, 0.5]])
TABLE = RNG.standard_normal((12, 3))
FITTED = PRIOR.update(TABLE)
RELEASES = {
    "parameters": abo.Release.draw_parameters(FITTED, 3, RNG, columns=NAMES, prior=PRIOR),
    "datasets": abo.Release.draw(FITTED, [9, 4], RNG, columns=NAMES, prior=PRIOR),
}
RELEASE = RELEASES["datasets"]
SHUFFLED = pd.DataFrame(TABLE, columns=NAMES)[["hba1c", "bmi", "ldl"]]
NAN = np.nan


@pytest.fixture(autouse=True)
def _as_users_see_it():
    """Here wrong types are the point: the tests' own type checks step aside."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def refused(message):
    return pytest.raises(abo.InputError, match=f"^(?!.*\n).*{message}")


def same(one, other):
    for field in ("mode", "other_mode", "log_posterior_gap", "covariance"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


# columns


def attack_everyone(*given, **how):
    return abo.attack(*given, rows="all", **how)


@pytest.mark.parametrize("kind", RELEASES)
@pytest.mark.parametrize(
    "table",
    [SHUFFLED, pl.from_pandas(SHUFFLED), abo.Records.of_numbers(SHUFFLED)],
    ids=["pandas", "polars", "records"],
)
def test_a_table_in_another_order_is_put_in_the_releases(kind, table):
    release = RELEASES[kind]
    same(abo.attack(table, release, prior=PRIOR), abo.attack(TABLE, release, prior=PRIOR))
    same(abo.attack(table, release, rows="all", prior=PRIOR), abo.attack(TABLE, release, rows="all", prior=PRIOR))
    there, here = (abo.posterior(each, release, prior=PRIOR) for each in (table, TABLE))
    assert there.log_density_unnormalized(TABLE[0]) == here.log_density_unnormalized(TABLE[0])


def test_a_file_is_matched_by_name_too(tmp_path):
    SHUFFLED.to_csv(tmp_path / "table.csv", index=False)
    same(abo.attack(tmp_path / "table.csv", RELEASE, prior=PRIOR), abo.attack(TABLE, RELEASE, prior=PRIOR))


@pytest.mark.parametrize(
    "table", [SHUFFLED.rename(columns={"ldl": "hdl"}), SHUFFLED[["bmi", "ldl"]], SHUFFLED.assign(age=1.0)]
)
@pytest.mark.parametrize("run", [abo.attack, attack_everyone, abo.posterior])
def test_other_columns_are_refused(run, table):
    with refused(f"the records have the columns {', '.join(table)}, the release bmi, ldl, hba1c; choose"):
        run(table, RELEASE, prior=PRIOR)


# releases, priors and readings


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("mean", [0.0, 0.1, 0.2], r"mean is -0.2 in place \[2\], the one given has 0.2"),
        ("mean_weight", 0.5 * (1 + 1e-11), "mean_weight is 0.5, the one given has 0.500000000005"),
        ("df", 7.0, "df is 6.0, the one given has 7.0; give the prior that"),
        ("scale", np.eye(3), r"scale is 0.2 in place \[0, 1\], the one given has 0.0.*adversary_prior=…"),
    ],
)
def test_a_prior_other_than_the_releases_is_refused(field, value, message):
    fields = {name: getattr(PRIOR, name) for name in ("mean", "mean_weight", "df", "scale")}
    other = abo.NIW(**fields | {field: value})
    for run in (abo.attack, attack_everyone, abo.posterior):
        with refused(f"the release was made with another prior: its {message}"):
            run(TABLE, RELEASE, prior=other)
    abo.attack(TABLE, RELEASE, abo.Adversary(prior=other), prior=PRIOR, reading="mechanism")
    abo.attack(TABLE, abo.Release.of(RELEASE.values), prior=other)


@pytest.mark.parametrize("run", [abo.attack, attack_everyone, abo.posterior])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reading": "mechanisms"}, "reading must be 'record' or 'mechanism', got 'mechanisms'"),
        ({"release": None}, "release must be a Release, got None"),
        ({"release": "release/"}, "cannot read release/release.json"),
        ({"release": [TABLE]}, "in the list is a ndarray"),
        ({"prior": 3.0}, "prior must be one NIW, got 3.0; give release.prior"),
        ({"prior": None, "release": abo.Release.of(RELEASE.values)}, "does not say which prior"),
        ({"prior": "prior.toml"}, "cannot read prior.toml"),
        ({"prior": abo.NIW(np.zeros((2, 3)), 1.0, 5.0, np.eye(3))}, "prior must be one NIW, got a NIW"),
        (
            {"adversary": abo.Adversary(prior=abo.NIW.default(2))},
            "the release 3, the adversary_prior 2; give all three",
        ),
        ({"others": TABLE[:, 0]}, r"records have shape \(n, p\) with p > 0, got \(12,\)"),
        ({"others": TABLE[:, :2]}, "records have 2 columns, the release 3, the prior 3"),
        ({"others": TABLE.astype(str)}, "records must hold real numbers"),
        ({"others": None}, "cannot read a NoneType as a table"),
    ],
)
def test_what_is_no_attack_is_refused(run, change, message):
    given = {"others": TABLE, "release": RELEASE, "prior": PRIOR} | change
    with refused(message):
        run(given.pop("others"), given.pop("release"), **given)


@pytest.mark.parametrize(
    ("count", "scatter", "message"),
    [
        (-2.0, np.eye(3), "moments cannot count -2.0 records; use Moments.of"),
        (NAN, np.eye(3), "moments cannot count nan"),
        (9.0, np.diag([1.0, -2.0, 1.0]), "negative eigenvalue -2"),
        (9.0, np.triu(np.ones((3, 3))), "scatter must be a symmetric matrix"),
        (9.0, np.ones((2, 3, 3)), r"mean \(p,\) and scatter \(p, p\)"),
    ],
)
def test_moments_that_no_table_has_are_refused(count, scatter, message):
    mean = np.zeros((*scatter.shape[:-2], 3))
    with refused(message):
        abo.posterior(abo.Moments(count, mean, scatter), RELEASE, prior=PRIOR)


def test_moments_left_by_an_outlier_are_taken():
    far = np.full(3, 1e6)
    abo.attack(abo.Moments.of(np.vstack([TABLE[:2], far])).remove(far), RELEASE, prior=PRIOR)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (TABLE[:0], "at least two records, got 0"),
        (TABLE[:1], "at least two records, got 1; for a target that is missing"),
        (SHUFFLED[:0], "holds no rows; give at least two"),
        (abo.Moments.of(TABLE), "cannot read a Moments as a table"),
    ],
)
def test_everyone_is_two_records_at_least(records, message):
    with refused(message):
        abo.attack(records, RELEASE, rows="all", prior=PRIOR)


# known features


@pytest.mark.parametrize(
    "known",
    [
        {"hba1c": 0.3, "bmi": -1.0},
        {"hba1c": 0.3, "bmi": -1.0, "ldl": None},
        pd.Series({"hba1c": 0.3, "bmi": -1.0}),
        pd.Series([-1.0, NAN, 0.3]),
        pl.Series([-1.0, NAN, 0.3]),
        [-1.0, NAN, 0.3],
        array_api_strict.asarray([-1.0, NAN, 0.3]),
    ],
)
def test_features_are_known_by_name_or_in_order(known):
    plain = abo.attack(TABLE, RELEASE, abo.Adversary(known=np.array([-1.0, NAN, 0.3])), prior=PRIOR)
    same(abo.attack(TABLE, RELEASE, abo.Adversary(known=known), prior=PRIOR), plain)
    np.testing.assert_array_equal(plain.mode[[0, 2]], [-1.0, 0.3])


@pytest.mark.parametrize("known", [[NAN] * 3, {}, {"bmi": NAN}])
def test_nothing_known_is_nothing_known(known):
    same(
        abo.attack(TABLE, RELEASE, abo.Adversary(known=known), prior=PRIOR),
        abo.attack(TABLE, RELEASE, prior=PRIOR),
    )
    assert abo.posterior(TABLE, RELEASE, abo.Adversary(known=known), prior=PRIOR).p == 3


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"height": 1.0}, "no column 'height' to know; the columns are bmi, ldl, hba1c"),
        (pd.Series({"height": 1.0}), "no column 'height' to know"),
        ({"bmi": "tall"}, "known must be an array of numbers"),
        ([np.inf, NAN, NAN], "known holds inf; give finite values"),
        ([1.0, NAN], "a vector of 3 values"),
        (dict.fromkeys(NAMES, 1.0), "every feature is known"),
    ],
)
def test_impossible_features_of_a_target_are_refused(known, message):
    with refused(message):
        abo.attack(TABLE, RELEASE, abo.Adversary(known=known), prior=PRIOR)


def test_a_release_without_names_has_columns_by_number():
    nameless = abo.Release.of(RELEASE.values)
    assert nameless.columns[:2] == ("x1", "x2")
    with refused("no column 'bmi' to know; the columns are x1, x2"):
        abo.attack(TABLE, nameless, abo.Adversary(known={"bmi": 1.0}), prior=PRIOR)


@pytest.mark.parametrize("kind", RELEASES)
def test_known_features_run_on_the_array_standard(kind):
    xp, release = array_api_strict, RELEASES[kind]
    prior = abo.NIW(xp.asarray(PRIOR.mean), PRIOR.mean_weight, PRIOR.df, xp.asarray(PRIOR.scale))
    if kind == "parameters":
        strict = abo.Release.of_parameters(
            xp.asarray(release.normal.means), xp.asarray(release.normal.covariances), NAMES, prior
        )
    else:
        strict = abo.Release.of([xp.asarray(z.copy()) for z in release.values], NAMES, prior)
    known, others = {"ldl": 0.5}, xp.asarray(TABLE)
    ours, plain = (
        abo.attack(others, strict, abo.Adversary(known=known), prior=prior),
        abo.attack(TABLE, release, abo.Adversary(known=known), prior=PRIOR),
    )
    assert isinstance(ours.mode, type(others))
    np.testing.assert_allclose(np.asarray(ours.mode), plain.mode, rtol=1e-8)
    whole = abo.posterior(others, strict, abo.Adversary(known=known), prior=prior)
    assert isinstance(whole.centre, np.ndarray)
    again = abo.posterior(TABLE, release, abo.Adversary(known=known), prior=PRIOR)
    np.testing.assert_allclose(whole.log_density(TABLE[:, ::2]), again.log_density(TABLE[:, ::2]), rtol=1e-6)
    everyone = abo.attack(
        xp.asarray(np.round(9 * TABLE).astype(int)), strict, abo.Adversary(known="ldl"), rows="all", prior=prior
    )
    np.testing.assert_array_equal(np.asarray(everyone.mode)[:, 1], np.round(9 * TABLE)[:, 1])


# the posterior's own methods


METHODS = ["log_density_unnormalized", "gradient", "hessian", "log_density"]


@pytest.mark.parametrize("known", [None, {"ldl": 0.5}], ids=["whole", "known"])
def test_candidates_of_another_length_are_refused(known):
    posterior = abo.posterior(TABLE, RELEASE, abo.Adversary(known=known), prior=PRIOR)
    p = 3 if known is None else 2
    checks = [getattr(posterior, name) for name in METHODS] + [posterior.credible_region().contains]
    for check in checks:
        for points in (np.zeros(p + 1), np.zeros((4, p + 1)), np.zeros((4, 1)), 0.0):
            with refused(f"must have {p} values in the last axis, one for each unknown feature, got shape"):
                check(points)
        with refused("candidates must be finite, got nan"):
            check([NAN] * p)
        assert len(check(np.zeros((4, p), dtype=int))) == 4
        check([0.0] * p)
    for centre, message in [
        (np.zeros(p + 1), f"centre must have {p} values"),
        (np.zeros((4, p)), rf"centre must be one point of {p} values, got shape \(4, {p}\)"),
        ([np.inf] * p, "centre must be finite, got inf"),
    ]:
        with refused(message):
            posterior.mass_within(centre, 1.0)


@pytest.mark.parametrize("release", [RELEASE, abo.Release.of(RELEASE.values[:1])], ids=["many", "one"])
def test_draws_take_seeds_and_whole_counts(release):
    posterior = abo.posterior(TABLE, release, prior=PRIOR)
    assert posterior.draw(1, 10).shape == (10, 3)
    np.testing.assert_array_equal(posterior.draw(1, 10), posterior.draw(np.random.default_rng(1), 10))
    for count, message in [(0, "at least 1, got 0"), (2.5, "a whole number, got 2.5"), ("9", "a whole number")]:
        with refused(f"count must be {message}"):
            posterior.draw(1, count)


def test_a_posterior_that_is_hard_to_sample_is_drawn_from_with_a_warning(monkeypatch):
    room = sys.modules["allbutone.adversary.posterior"]
    monkeypatch.setattr(room, "MOST_POINTS", 64)
    monkeypatch.setattr(room.WeightedDraws, "effective_size", 1.5)
    posterior = abo.posterior(TABLE, RELEASE, prior=PRIOR)
    with pytest.warns(abo.Caution, match="worth 2 independent draws, so some of 10 repeat; ask for fewer"):
        assert posterior.draw(1, 10).shape == (10, 3)


def test_results_are_compared_by_identity():
    """Arrays have no one truth: == of values that hold them would raise."""
    posterior = abo.posterior(TABLE, RELEASE, prior=PRIOR)
    makers = [
        lambda: abo.attack(TABLE, RELEASE, prior=PRIOR),
        lambda: abo.posterior(TABLE, RELEASE, prior=PRIOR),
        lambda: posterior.importance_sample(1, 8),
        posterior.credible_region,
    ]
    for maker in makers:
        one, other = maker(), maker()
        assert one == one
        assert one != other
        assert hash(one) != hash(other)


# several records missing


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lacking": {"lacking_records": 1.5}}, "lacking_records must be a whole number, got 1.5"),
        ({"lacking": {"lacking_records": [2, 5]}}, "rows of them cannot be lacking"),
        ({"lacking": {"lacking_records": 1, "known": {"bmi": 1.0}}}, "nothing is known"),
        ({"sweeps": 0}, "sweeps must be at least 1"),
        ({"chains": 1}, "chains must be at least 2"),
        ({"chains": "8"}, "chains must be a whole number"),
        ({"warm_up": -3}, "warm_up must be at least 1, got -3"),
        ({"prior": abo.NIW.default(3)}, "made with another prior"),
        ({"release": None}, "release must be"),
    ],
)
def test_impossible_samples_of_missing_records_are_refused(change, message):
    lacking = change.pop("lacking", {"lacking_records": 1})
    given = {"others": TABLE, "release": RELEASE, "prior": PRIOR, "rng": 1} | change
    with refused(message):
        abo.posterior(adversary=abo.Adversary(**lacking), **given)


def test_missing_records_take_seeds_and_names_and_warn_of_few_draws():
    with pytest.warns(abo.Caution, match="independent ones; raise sweeps, now 2"):
        one = abo.posterior(
            SHUFFLED,
            RELEASE,
            abo.Adversary(lacking_records=np.int64(1)),
            prior=PRIOR,
            rng=5,
            chains=4,
            sweeps=2,
        )
    with pytest.warns(abo.Caution):
        two = abo.posterior(
            TABLE,
            RELEASE,
            abo.Adversary(lacking_records=1),
            prior=PRIOR,
            rng=np.random.default_rng(5),
            chains=4,
            sweeps=2,
        )
    np.testing.assert_array_equal(one.draws, two.draws)
