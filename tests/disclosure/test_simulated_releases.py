"""Releases drawn as sufficient statistics are releases: their wells are those of the moments they stand for."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

import allbutone as abo
from allbutone.adversary.build import from_datasets
from allbutone.adversary.membership import evidence_in_cells
from allbutone.adversary.mixed import MixedLeaveOneOut, level_alone
from allbutone.disclosure.budget_case import Case
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.rule import USUAL
from allbutone.disclosure.simulation import SimulatedDatasets, SimulatedReleases
from allbutone.disclosure.table_releases import _People
from clinic import clinic


def inner(drawn):
    """(I + S₋)⁻¹ of all columns but the last, from its upper triangle, which is held by columns."""
    q = len(drawn.noise)
    found = np.empty((drawn.mean.shape[1], q, q))
    for i in range(q):
        found[:, : i + 1, i] = found[:, i, : i + 1] = drawn.inverse[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2].T
    return found


def scatters(drawn, leverage):
    """S = D·S₀·D, the last column's entries written out from what was drawn; C = Y⁻¹, so Cw = (YᵀY)⁻¹Yᵀw."""
    inverse = inner(drawn)
    size, q = inverse.shape[:2]
    own, found = drawn.scatter / drawn.precision, np.zeros((size, q + 1, q + 1))
    turned = (drawn.turned[0] / np.sqrt(drawn.scatter + drawn.precision)).T
    beside = np.sqrt(own * (1 + own))[:, None] * np.linalg.solve(inverse, turned[..., None])[..., 0]
    found[:, :q, :q] = np.linalg.inv(inverse) - np.eye(q)
    per = np.divide(1, own, out=np.zeros(size), where=own > 0)
    found[:, :q, :q] += per[:, None, None] * beside[:, :, None] * beside[:, None, :]
    found[:, q, :q] = found[:, :q, q] = beside
    found[:, q, q] = own
    stretch = np.append(np.ones(q), np.sqrt(1 + leverage))
    return stretch[:, None] * found * stretch


@given(p=st.integers(1, 8), rows=st.integers(1, 50), df=st.floats(0, 100), seed=st.integers(0, 2**32))
def test_vectors_are_turned_by_a_root_of_the_matrix_beside_them(p, rows, df, seed):
    """(Yᵀx)ᵀ(YᵀY)⁻¹(Yᵀz) = xᵀz, for the two vectors that are turned."""
    drawn = SimulatedDatasets.of(ExposureLaw(p, 8.0, p + df, rows), 4, np.random.default_rng(seed))
    vectors = np.stack([drawn.noise, drawn.mean[:-1]]).transpose(2, 1, 0)
    turned = drawn.turned.transpose(2, 1, 0)
    products = turned.swapaxes(1, 2) @ np.linalg.solve(inner(drawn), turned)
    np.testing.assert_allclose(products, vectors.swapaxes(1, 2) @ vectors, rtol=1e-6, atol=1e-9)


@given(
    p=st.integers(1, 6),
    people=st.integers(2, 200),
    rows=st.integers(1, 50),
    count=st.integers(1, 4),
    leverage=st.floats(0, 100),
    seed=st.integers(0, 2**32),
)
def test_the_wells_are_those_of_the_datasets_moments(p, people, rows, count, leverage, seed):
    setting = ExposureLaw.of(abo.NIW.default(p), people, rows)
    drawn = SimulatedReleases.of(setting, count, 3, np.random.default_rng(seed))
    problem, truth = drawn.problem(leverage)
    kappa = setting.mean_weight
    assert kappa / (kappa + 1) * truth[:, -1] ** 2 == pytest.approx(leverage)
    lean, spread, eta = (
        truth[:, -1] / (kappa + 1),
        np.sqrt(1 / (kappa + 1) + 1 / rows),
        kappa * rows / (kappa + rows),
    )
    lean = np.repeat(lean, count)
    inverse, image, square = drawn.datasets.wells(np.full(3 * count, leverage), lean, spread, eta)
    mean = np.linalg.solve(inverse, image[..., None])[..., 0]
    np.testing.assert_allclose(square, np.einsum("ni,ni->n", mean, image), rtol=1e-6)
    scatter = scatters(drawn.datasets, leverage)
    # z̄ − l is a Student t of scale g(D² + S)
    stretched = scatter + np.diag(np.append(np.ones(p - 1), 1 + leverage))
    off = mean - lean[:, None] * np.eye(p)[-1]
    squared = np.einsum("ni,ni->n", off, np.linalg.solve(stretched, off[..., None])[..., 0])
    np.testing.assert_allclose(squared, spread**2 * np.sum(drawn.datasets.mean**2, axis=0), rtol=1e-6)
    moments = abo.Moments(np.full(count, float(rows)), mean.reshape(3, count, p), scatter.reshape(3, count, p, p))
    crowd = abo.NIW(np.zeros((3, p)), kappa, setting.df, np.eye(p))
    expected = from_datasets(crowd, np.eye(p), moments)
    for name in ("weights", "levels", "slopes", "shapes", "outward", "inflation"):
        ours, theirs = np.asarray(getattr(problem, name)), np.asarray(getattr(expected, name))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8 * np.max(np.abs(theirs)), err_msg=name)


@pytest.mark.parametrize(
    ("p", "rows", "leverage"), [(1, 5, 2.0), (2, 10, 0.0), (3, 2, 3.0), (3, 100, 1.0), (4, 1, 3.0)]
)
def test_scatter_and_mean_are_those_of_drawn_records(p, rows, leverage, rng):
    """The mechanism as it is: a covariance, a mean and records of every dataset; against Σ integrated out."""
    size, kappa, df, lean = 4000, 8.0, 12.0, 0.7
    law = ExposureLaw(p, kappa, df, rows)
    stretch = np.append(np.ones(p - 1), np.sqrt(1 + leverage))
    holder = abo.NIW(lean * np.eye(p)[-1], kappa + 1, df + 1, np.diag(stretch**2))
    means, roots = holder.draw_roots(rng, size)
    records = means[:, None] + rng.standard_normal((size, rows, p)) @ roots.swapaxes(1, 2)
    mean = records.mean(axis=1)
    centred = records - mean[:, None]
    scatter = centred.swapaxes(1, 2) @ centred

    drawn, every = SimulatedDatasets.of(law, size, rng), np.ones(size)
    eta = kappa * rows / (kappa + rows)
    inverse, image, _ = drawn.wells(leverage * every, lean * every, np.sqrt(1 / (kappa + 1) + 1 / rows), eta)
    ours = np.linalg.solve(inverse, image[..., None])[..., 0]
    held = np.linalg.inv(inverse) - np.eye(p) - eta * ours[:, :, None] * ours[:, None, :]

    def looks(mean, scatter):
        whole = np.eye(p) + scatter
        yield from (mean[:, 0], mean[:, -1], np.linalg.slogdet(whole)[1])
        yield np.einsum("ni,ni->n", mean, np.linalg.solve(whole, mean[..., None])[..., 0])
        if rows > 1:
            yield from (scatter[:, 0, 0], scatter[:, -1, -1], scatter[:, 0, -1] / scatter[:, -1, -1])
            yield np.einsum("ni,nij,nj->n", mean, scatter, mean)

    for place, (one, two) in enumerate(zip(looks(ours, held), looks(mean, scatter), strict=True)):
        assert ks_2samp(one, two).pvalue > 1e-6 or np.ptp(one) + np.ptp(two) < 1e-9, place
    assert all(np.sum(np.linalg.eigvalsh(each) > 1e-9) == min(p, rows - 1) for each in held[:20])


@pytest.mark.parametrize("rows", [40, None])
@pytest.mark.parametrize("cells", ["main effects", "separate"])
def test_what_releases_say_of_records_as_they_are_is_what_risk_says(rng, rows, cells):
    table = abo.Records.of(pd.DataFrame(clinic(rng)), categories=True)
    mechanism = abo.Synthesizer({"centre": [60, 3], "spread": [10, 1]}, cells=cells).fit(table).mechanism
    case = Case.of(table, mechanism, rows, USUAL, 3)
    releases, some = case.releases, np.arange(0, 60, 7)
    people = _People.of(releases, some)
    every = [releases.draw(3, release) for release in range(2)]
    told = people.as_they_are.told(every)
    for drawn, levels, evidence in zip(every, told, people.evidence(every, told[..., 0]), strict=True):
        whole = case.everyone.whole
        datasets = () if rows is None else releases.draws.moments(drawn)
        attacks = MixedLeaveOneOut(
            case.split,
            case.everyone.prior,
            whole,
            tuple(datasets),
            tuple(whole.plus(data) for data in datasets),
            releases.draws.as_parameters(drawn) if rows is None else None,
        )
        problem = attacks.problem(some, case.split.cells[some])
        np.testing.assert_allclose(evidence, evidence_in_cells(attacks, some, *problem), atol=1e-9)
        odds = people.as_they_are.odds[1] + levels
        for place in range(4):
            alike = (people.as_they_are.category == place) | (people.as_they_are.category < 0)
            share = 1 / np.sum(np.exp(odds[:, alike] - odds[:, :1]), axis=1)
            expected, _, _ = level_alone(attacks, some, place)
            np.testing.assert_allclose(share, expected, atol=1e-9)
