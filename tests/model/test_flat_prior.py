"""Laws of the flat prior: what it is the limit of, and that it has no units."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import allbutone as abo
from allbutone.disclosure.exposure_law import leverages
from allbutone.model.moments import Moments
from allbutone.model.prior import prior_conflict, prior_pull


def table(rng, n=40, p=3):
    return rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + rng.standard_normal(p)


def units(rng, p):
    """Return any change of units that keeps each column by itself: a factor and an origin."""
    return np.exp(rng.normal(0, 3, p)), rng.normal(0, 100, p)


def test_the_posterior_is_the_formula_and_the_limit_of_weak_priors(rng):
    values = table(rng)
    found = abo.NIW.flat(3).update(values)
    centred = values - values.mean(axis=0)
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.scale, centred.T @ centred, rtol=1e-10)
    assert (found.mean_weight, found.df) == (40, 39)
    # the data term of a proper prior of vanishing weight; its df differs by that of the prior alone
    weak = abo.NIW(np.zeros(3), 1e-9, 2 + 1e-9, 1e-12 * np.eye(3)).update(values)
    np.testing.assert_allclose(weak.scale, found.scale, rtol=1e-6)
    np.testing.assert_allclose(weak.mean, found.mean, rtol=1e-6)


def test_a_record_added_later_is_as_good_as_at_once(rng):
    values = table(rng)
    at_once, later = abo.NIW.flat(3).update(values), abo.NIW.flat(3).update(values[:-1]).update(values[-1:])
    np.testing.assert_allclose(later.scale, at_once.scale, rtol=1e-10)
    assert later.df == at_once.df


def test_other_units_give_the_same_release_in_other_units(rng):
    values = table(rng)
    factor, origin = units(rng, 3)
    seed = int(rng.integers(1 << 32))

    def drawn(records):
        synthesizer = abo.Synthesizer().fit(records)
        return synthesizer.sample(datasets=2, rows=30, rng_for_tests=np.random.default_rng(seed)).values

    for plain, changed in zip(drawn(values), drawn(values * factor + origin), strict=True):
        np.testing.assert_allclose((changed - origin) / factor, plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["datasets", "parameters"])
def test_any_affine_change_of_units_leaves_every_risk_as_it_is(rng, kind):
    values, mix, origin = table(rng), rng.standard_normal((3, 3)) + 3 * np.eye(3), rng.normal(0, 10, 3)
    synthesizer, flat = abo.Synthesizer().fit(values), abo.NIW.flat(3)
    if kind == "datasets":
        release = synthesizer.sample(datasets=5, rows=40, rng_for_tests=rng)
        moved = abo.Release.of([data @ mix.T + origin for data in release.values], prior=flat)
    else:
        release = synthesizer.sample_parameters(5, rng_for_tests=rng)
        moved = abo.Release.of_parameters(
            release.normal.means @ mix.T + origin, mix @ release.normal.covariances @ mix.T, prior=flat
        )
    names = release.columns
    release = release.first(5)
    plain = abo.risk(pd.DataFrame(values, columns=names), release, mass=False, rng=np.random.default_rng(1))
    other = abo.risk(values @ mix.T + origin, moved, mass=False, rng=np.random.default_rng(1))
    for name in ("exposure", "relative_error"):
        np.testing.assert_allclose(other[name].to_numpy(), plain[name].to_numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(leverages(values @ mix.T + origin, flat), leverages(values, flat), rtol=1e-8)


@given(p=st.integers(1, 6), more=st.integers(-3, 1))
def test_too_few_records_ask_for_a_prior_in_one_line(p, more):
    values = np.random.default_rng(p).standard_normal((max(p + more, 2), p))
    if len(values) > p + 1:
        assert abo.Synthesizer().fit(values).prior.is_flat
        return
    with pytest.raises(abo.InputError, match=f"at least {p + 2} are needed.*prior") as caught:
        abo.Synthesizer().fit(values)
    assert "\n" not in str(caught.value)


def test_the_flat_prior_itself_is_no_distribution(rng):
    flat = abo.NIW.flat(2)
    for ask in (flat.predictive, lambda: flat.draw(rng, 1), lambda: flat.log_evidence(table(rng, p=2))):
        with pytest.raises(abo.InputError, match="no distribution"):
            ask()
    with pytest.raises(abo.InputError, match="more records than columns"):
        flat.update(np.zeros((2, 2)))


def test_a_release_keeps_its_flat_prior_in_its_folder(rng, tmp_path):
    abo.save_release(abo.Synthesizer().fit(table(rng)).sample(datasets=1, rows=5), tmp_path / "release")
    assert abo.load_release(tmp_path / "release").prior.is_flat


@pytest.mark.parametrize(
    ("factor", "origin", "asks"), [(1, 0, False), (100, 0, True), (0.01, 0, True), (1, 30, True), (3, 2, False)]
)
def test_a_prior_in_other_units_is_questioned_without_telling_the_data(rng, factor, origin, asks):
    height = pd.DataFrame({"height": factor * rng.normal(0, 1, 200) + origin, "other": rng.normal(0, 1, 200)})
    moments = Moments.of(height.to_numpy())
    words = prior_conflict(abo.NIW.default(2), moments, tuple(height.columns))
    assert (words is not None) == asks
    if words:
        assert "'height'" in words
        assert "'other'" not in words
        assert not any(character.isdigit() for character in words)
    assert prior_conflict(abo.NIW.flat(2), moments, tuple(height.columns)) is None


def test_the_prior_is_named_where_it_moves_the_data_and_only_there(rng):
    blood = pd.DataFrame({"pressure": rng.normal(120, 10, 100), "score": rng.normal(0, 1, 100)})
    moments = Moments.of(blood.to_numpy())
    assert "'pressure'" in (prior_pull(abo.NIW.default(2), moments, ("pressure", "score")) or "")
    assert prior_pull(abo.NIW.flat(2), moments, ("pressure", "score")) is None
    good = abo.NIW(np.array([120.0, 0.0]), 1.0, 5.0, 2 * np.diag([100.0, 1.0]))
    assert prior_pull(good, moments, ("pressure", "score")) is None
