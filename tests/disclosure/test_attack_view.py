"""A scene is the public attack, quicker: the same posterior and measures, nested releases, pictures with words."""

import dataclasses

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import allbutone as abo
from allbutone.adversary.attack import describe
from allbutone.adversary.landscape import landscape
from allbutone.disclosure.exposure_law import leverages
from allbutone.disclosure.measures import HALF, RADIUS
from allbutone.disclosure.record_view import RecordAttack, exposure_curve, of_record, simulated, view_attack
from allbutone.disclosure.risk import risk_columns
from allbutone.figures.attack_view import TARGET, exposure_curve_figure, view_figure
from allbutone.support.errors import InputError

OWN = abo.NIW(np.array([1.0, -1.0]), 3.0, 9.0, 2 * np.eye(2))


def staged(rows=40, p=2, **more):
    covariance = 0.5 * np.eye(p) + 0.5
    target = more.pop("target", np.linspace(5, 3, p))
    return simulated(np.linspace(0, 1, p), covariance, target, rows=rows, **({"n": 50} | more))


def priors(stage):
    return {"adversary": abo.Adversary(prior=stage.own), "reading": stage.reading}


@settings(max_examples=25)
@given(
    st.integers(2, 4),
    st.integers(3, 60),
    st.sampled_from([None, 1, 7, 50]),
    st.integers(1, 20),
    st.integers(0, 99),
)
def test_a_view_is_the_public_attack(p, n, rows, count, seed):
    stage = staged(rows, p, n=n, seed=seed, most=20)
    view, release = view_attack(stage, count, size=8), stage.release.first(count)
    posterior = abo.posterior(stage.others, release, prior=stage.prior)
    found = abo.attack(stage.others, release, prior=stage.prior)
    points = np.vstack([stage.target, stage.others[:5]])
    ours, theirs = (each.log_density_unnormalized(points) for each in (view.posterior, posterior))
    scale = 1 + np.abs(theirs).max()
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], rtol=0, atol=1e-8 * scale)
    if found.log_posterior_gap > 1e-6:  # else rounding says which of the two modes is the best
        np.testing.assert_allclose(view.attack.mode, found.mode, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose([each.guess for each in view.attributes], found.mode, rtol=1e-5, atol=1e-5)
    assert [each.true for each in view.attributes] == stage.target.tolist()
    assert [each.guess for each in view.attributes] == view.attack.mode.tolist()
    assert view.measures.status in ("global", "converged", "tie")


@pytest.mark.parametrize("reading", ["record", "mechanism"])
@pytest.mark.parametrize("rows", [None, 40])
def test_an_adversary_with_a_prior_of_their_own(rows, reading):
    stage = staged(rows, own=OWN, reading=reading)
    view, release = view_attack(stage, 30), stage.release.first(30)
    posterior = abo.posterior(stage.others, release, prior=stage.prior, **priors(stage))
    found = abo.attack(stage.others, release, prior=stage.prior, **priors(stage))
    np.testing.assert_allclose(view.attack.mode, found.mode, rtol=1e-7)
    np.testing.assert_allclose(
        [each.deviation for each in view.attributes], np.sqrt(np.diagonal(found.covariance)), rtol=1e-5
    )
    before, measures = OWN.update(stage.others).predictive(), view.measures
    gain = float(posterior.log_density(stage.target) - before.log_density(stage.target))
    assert measures.information_gain == pytest.approx(gain, abs=0.05)
    assert measures.mass == pytest.approx(posterior.mass_within(stage.target, RADIUS), abs=0.03)
    white = posterior.whiten(before.draw(np.random.default_rng(1), 200_000)) - posterior.whiten(stage.target)
    share = np.mean(posterior.df * np.sum(white**2, axis=1) <= RADIUS**2)
    assert abs(measures.prior_mass - share) < 0.05 * share + 5 * np.sqrt((share + 1e-5) / 200_000)
    deviations = [each.baseline_deviation for each in view.attributes]
    np.testing.assert_allclose(
        deviations, np.std(before.draw(np.random.default_rng(2), 200_000), axis=0), rtol=0.02
    )
    assert [each.baseline for each in view.attributes] == before.location.tolist()
    assert measures.baseline_distance == pytest.approx(np.linalg.norm(before.location - stage.target))


def test_a_record_is_known_within_the_tolerances_of_risk():
    rng = np.random.default_rng(5)
    natural = np.exp(2 + 0.3 * rng.standard_normal((30, 2)))
    natural[4] *= 4
    schema = {"columns": {"a": {"tolerance": 3.0}, "b": {"scale": "log"}}}
    table = abo.Records.of(pa.table({"a": natural[:, 0], "b": natural[:, 1]}), schema=schema)
    prior = abo.NIW.flat(2)
    release = abo.Release.draw(
        prior.update(table.values), [30] * 5, rng, columns=table.columns, prior=prior, schema=table.schema
    )
    found = risk_columns(table, release, mass=False, rng=rng)
    for row in (1, 5):
        attack = of_record(table, row, release)
        posterior = attack.posterior(5)
        measured = attack.measures(posterior, describe(posterior, posterior.modes), 5)
        told = attack.risk_columns(row, measured)
        for name in table.columns:
            for each in (f"tolerance_{name}", f"rest_known_tolerance_{name}", f"rest_known_probability_{name}"):
                assert told[each] == pytest.approx(found[each][row - 1])
        assert measured.evidence == pytest.approx(found["membership_evidence"][row - 1])


@pytest.mark.parametrize("rows", [None, 40])
def test_measures_of_a_record_are_those_of_risk(rows):
    rng = np.random.default_rng(3)
    table = abo.Records(rng.standard_normal((40, 3)) @ rng.standard_normal((3, 3)) + 5, ("a", "b", "c"))
    table.values[7] += 4 * np.std(table.values, axis=0)
    prior = abo.NIW(np.full(3, 5.0), 1.0, 5.0, np.eye(3))
    whole = prior.update(table.values)
    if rows is None:
        release = abo.Release.draw_parameters(whole, 12, rng, columns=table.columns, prior=prior)
    else:
        release = abo.Release.draw(whole, [rows] * 12, rng, columns=table.columns, prior=prior)
    found = risk_columns(table, release, rng=rng)
    for row in (1, 8, 40):
        view = view_attack(of_record(table, row, release), 12, shown=(2, 0))
        ours = dataclasses.asdict(view.measures)
        for name in ("distance", "baseline_distance", "relative_error", "exposure", "prior_mass"):
            assert ours[name] == pytest.approx(found[name][row - 1], rel=1e-6)
        # both are estimates; two replicates know their own error badly, so what is promised of it is the bound
        assert ours["information_gain"] == pytest.approx(found["information_gain"][row - 1], abs=0.05)
        assert ours["mass"] == pytest.approx(found["mass"][row - 1], abs=0.03)
        for place, name in enumerate(table.columns):
            error = np.hypot(ours["probability_error"][place], found[f"probability_error_{name}"][row - 1])
            assert ours["probability"][place] == pytest.approx(
                found[f"probability_{name}"][row - 1], abs=5 * error + 1e-3
            )
            assert ours["baseline"][place] == pytest.approx(found[f"baseline_{name}"][row - 1], rel=1e-6)
        assert ours["leverage"] == pytest.approx(leverages(table.values, prior)[row - 1])
        for each in view.attributes:
            assert each.guess - each.true == pytest.approx(
                found[f"error_{each.name}"][row - 1], rel=1e-4, abs=1e-5
            )
        np.testing.assert_allclose(view.landscape.target, table.values[row - 1, [2, 0]])


def test_hidden_features_are_held_or_integrated_out():
    stage = staged(p=4)
    for hidden in ("mode", "integrated"):
        view = view_attack(stage, 9, shown=(3, 1), hidden=hidden, size=12)
        spans = tuple((float(along[0]), float(along[-1])) for along in (view.landscape.x, view.landscape.y))
        asked = {"shown": (3, 1), "hidden": hidden, "size": 12, "spans": spans}
        theirs = landscape(stage.posterior(9), stage.others, stage.target, **asked)
        np.testing.assert_allclose(view.landscape.height, theirs.height, rtol=0, atol=1e-9 * np.ptp(theirs.height))
        names = [view_figure(view, stage.columns).layout[axis].title.text[:2] for axis in ("xaxis", "yaxis")]
        assert names == ["x4", "x2"]


def test_what_is_no_record_is_refused():
    stage = staged()
    table = abo.Records(np.vstack([stage.others, stage.target]), ("x1", "x2"))
    for row in (0, 51):
        with pytest.raises(InputError, match="none of the records"):
            of_record(table, row, stage.release)
    with pytest.raises(InputError, match="count must be at most 100"):
        view_attack(stage, 101)
    with pytest.raises(InputError, match="finite"):
        RecordAttack(stage.others, np.array([np.nan, 1.0]), stage.release, stage.prior)
    with pytest.raises(InputError, match="n must be at least 2"):
        staged(n=1)
    with pytest.raises(InputError, match="positive definite"):
        simulated(np.zeros(2), -np.eye(2), np.ones(2))
    with pytest.raises(InputError, match="shape"):
        abo.Release.of(np.zeros((3, 0, 2)))


def numbers(release):
    if release.parameters is not None:
        return np.concatenate([release.normal.means.ravel(), release.normal.covariances.ravel()])
    return np.stack(release.values).ravel()


@pytest.mark.parametrize("rows", [None, 40])
def test_a_seed_is_a_stage_that_moves_smoothly(rows):
    stage, again, other = staged(rows), staged(rows), staged(rows, seed=2)
    np.testing.assert_array_equal(numbers(stage.release), numbers(again.release))
    np.testing.assert_array_equal(stage.others, again.others)
    assert np.all(numbers(stage.release) != numbers(other.release))
    assert np.all(stage.others != other.others)
    near = staged(rows, target=stage.target + 1e-6)
    np.testing.assert_allclose(numbers(near.release), numbers(stage.release), rtol=0, atol=1e-5)
    more = staged(rows, n=51)
    np.testing.assert_array_equal(more.others[:49], stage.others)
    # one record more moves the release by little: its variates are the same
    assert np.corrcoef(numbers(more.release), numbers(stage.release))[0, 1] > 0.95


def test_smaller_releases_are_the_beginning_of_larger_ones():
    stage, longer = staged(40), staged(60)
    for small, large in zip(stage.release.values, longer.release.values, strict=True):
        np.testing.assert_allclose(small, large[:40], rtol=1e-12)
    for release in (stage.release, staged(None).release):
        first, part = numbers(release.first(3)), release.first(7).first(3)
        np.testing.assert_array_equal(first, numbers(part))
        assert part.prior is release.prior
        with pytest.raises(InputError, match="count must be at most 7"):
            release.first(7).first(8)


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_the_release_follows_the_mechanism(seed):
    # tr(ΛΣ*⁻¹) ~ χ²(νp), and the mean of a dataset's scatter over rows − 1 is Σ*
    stage = staged(None, 2, seed=seed, most=1000)
    whole = stage.prior.update(np.vstack([stage.others, stage.target]))
    traces = np.trace(whole.scale @ np.linalg.inv(stage.release.normal.covariances), axis1=1, axis2=2)
    df = 2 * whole.df
    assert abs(np.mean(traces) - df) < 6 * np.sqrt(2 * df / 1000)
    assert abs(np.var(traces) / (2 * df) - 1) < 6 * np.sqrt((2 + 12 / df) / 1000)
    release = staged(30, 2, seed=seed, most=1000).release
    scatters = np.stack([np.cov(each.T) for each in release.values])
    spread = np.trace(np.linalg.solve(whole.scale, scatters), axis1=1, axis2=2)
    assert abs(np.mean(spread) - 2 / (whole.df - 3)) < 6 * np.std(spread) / np.sqrt(1000)


@pytest.mark.parametrize("rows", [None, 100])
def test_the_threshold_of_the_law_shows_in_a_walk(rows):
    walks = [
        exposure_curve(staged(rows, target=np.array([4.5, 3.5]), seed=seed), (1, 2, 50, 100)) for seed in range(15)
    ]
    below, above = (
        np.median([np.abs(each.exposure[place]) for each in walks], axis=0) for place in (slice(0, 2), slice(2, 4))
    )
    for each in walks:
        assert 1 < each.threshold < 50
        assert np.all(each.law_exposure[each.law_counts <= each.threshold] < HALF)
        assert np.all(each.usual[0] <= each.law_exposure)
        assert np.all(each.law_exposure <= each.usual[1])
    assert np.all(below < 0.25)
    assert np.all(above > 0.7)
    # at the last count the law and the median of the releases agree
    assert above[-1] == pytest.approx(np.median([each.law_exposure[-1] for each in walks]), abs=0.1)


def test_a_walk_ends_with_the_release():
    stage = staged(most=12)
    found = exposure_curve(stage)
    assert found.counts.tolist() == [1, 2, 3, 5, 7, 10, 12]
    for count, exposure, error in zip(found.counts, found.exposure, found.relative_error, strict=True):
        measures = view_attack(stage, int(count), size=4).measures
        assert exposure == pytest.approx(measures.exposure, abs=1e-9)
        assert error == pytest.approx(measures.relative_error, abs=1e-9)
    assert found.threshold == pytest.approx(stage.law.threshold(found.leverage))


@pytest.mark.parametrize("rows", [None, 40])
def test_a_view_is_drawn_with_its_message(rows):
    stage = staged(rows, columns=("1 < mass", "100 %{x}"))
    view = view_attack(stage, 100)
    figure = view_figure(view, stage.columns, 0.9)
    named = {trace.name: trace for trace in figure.data if trace.name}
    kinds = {"the other records", "the other mode", TARGET, "the best guess (mode)", "90\u00a0% credible region"}
    assert set(named) == (kinds if rows is None else kinds | {"synthetic records"})
    if rows is not None:
        assert len(named["synthetic records"].x) == 100  # of at most 150, one of each dataset
    drawn = figure.data[figure.layout.meta["target_trace"]]
    assert (drawn.name, drawn.x[0], drawn.y[0]) == (TARGET, *stage.target)
    counted = "100 parameter draws" if rows is None else "100 datasets"
    message = figure.layout.meta["message"]
    assert message.startswith(f"After {counted} the best guess is ")
    assert message.endswith("closer than guessing the centre of the other records.")
    assert figure.layout.xaxis.title.text.startswith("1 &lt; mass")
    assert tuple(figure.layout.xaxis.range) == (view.landscape.x[0], view.landscape.x[-1])
    assert len(figure.to_json()) < 100_000
    go.Figure(figure.to_dict())  # plotly finds nothing wrong with what it was not asked to check


def test_a_walk_is_drawn_with_its_message():
    found = exposure_curve(staged())
    figure = exposure_curve_figure(found, 14, "dataset")
    law, release, threshold, usual = figure.data
    assert np.all(np.abs(release.y) <= 1.2)
    assert law.x[-1] == 100
    assert np.all(usual.y[: len(law.y)] <= usual.y[len(law.y) :][::-1])
    assert threshold.x[0] == found.threshold
    shapes = {shape.name: shape for shape in figure.layout.shapes}
    assert shapes["present"].x0 == shapes["present"].x1 == 14
    assert shapes["half-way"].y0 == HALF
    beyond = f"beyond {int(found.threshold)} datasets; after 100 datasets of this very release it has come"
    assert beyond in figure.layout.meta["message"]
    go.Figure(figure.to_dict())
    away, never = (dataclasses.replace(found, exposure=-found.exposure, threshold=at) for at in (5.0, np.inf))
    assert exposure_curve_figure(away, 1, "dataset").layout.meta["message"].endswith("is no closer.")
    message = exposure_curve_figure(never, 1, "dataset").layout.meta["message"]
    assert message.endswith("stay at the centre of the other records, also after 100 datasets.")


@pytest.mark.parametrize("count", [1, 10, 100])
def test_the_window_shows_the_whole_region(count):
    stage = simulated(np.zeros(2), np.array([[1, 0.5], [0.5, 1]]), np.array([4.0, -2.0]), seed=1)
    one = view_attack(stage, count).landscape
    edge = np.concatenate([one.height[0], one.height[-1], one.height[:, 0], one.height[:, -1]])
    assert edge.max() < one.region(0.95)


def test_a_window_that_is_held_is_filled_and_nothing_else_is_lost():
    stage = simulated(np.zeros(2), np.eye(2), np.array([4.0, -2.0]), n=30, rows=30, most=5)
    usual = view_attack(stage, 5).landscape
    for held in (((-20.0, 0.0), (-1.0, 30.0)), ((-0.1, 0.1), (-0.1, 0.1))):
        one = view_attack(stage, 5, held=held).landscape
        for along, before, (low, high) in ((one.x, usual.x, held[0]), (one.y, usual.y, held[1])):
            np.testing.assert_allclose(along[[0, -1]], [min(before[0], low), max(before[-1], high)])


def test_a_curve_says_whose_prior_it_expects():
    own = abo.NIW(np.full(2, 3.0), 5.0, 6.0, np.eye(2))
    for prior, told in ((None, False), (own, True)):
        stage = simulated(np.zeros(2), np.eye(2), np.array([4.0, -2.0]), n=30, rows=30, own=prior, most=5)
        message = exposure_curve_figure(exposure_curve(stage), 1, "dataset").layout.meta["message"]
        assert ("an adversary with the holder's prior" in message) == told
