"""Guarantees for tables with categories: sensitivity, the posterior of counts and moments, the adversary."""

import json
import os
from functools import partial
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import gammaln, ndtr, ndtri
from scipy.stats import chi2
from scipy.stats import t as student

import allbutone as abo
from allbutone.disclosure.guarantee import passed_limit, require_within_limit
from allbutone.disclosure.risk import risk_columns
from allbutone.model.location import LocationModel, MixedRecords, Parameters, default_weight
from allbutone.model.moments import Cells
from allbutone.releases.cut_records import BeforeCut
from allbutone.releases.gaussian_account import gaussian_mu
from allbutone.releases.ledger_file import Terms
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.noise_aware import NoiseAware, _GivenCounts
from allbutone.releases.noisy_counts import CellCounts, NoisyMargin, index_of, margins_of
from allbutone.releases.private_mechanism import NoiseDesign, NoisyMoments, WholeNumbers, add_noise
from allbutone.tables.schema import Schema

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))


def table_file(p, sizes):
    columns = {f"x{j}": {"low": -8.0, "high": 8.0, "centre": 0.0, "spread": 1.0} for j in range(p)}
    columns |= {f"c{k}": {"kind": "category", "levels": list("abcdef")[:size]} for k, size in enumerate(sizes)}
    return {"columns": columns}


def design_for(p, sizes, people, epsilon, delta=1e-6):
    return NoiseDesign.of(Schema.of(table_file(p, sizes)), people, epsilon, delta)


def frame_of(values, levels):
    columns = {f"x{j}": values[:, j] for j in range(values.shape[1])}
    return pa.table(columns | {f"c{k}": np.array(list("abcdef"))[levels[:, k]] for k in range(levels.shape[1])})


def records_of(values, levels, sizes):
    return abo.Records.of(frame_of(values, levels), categories=True, schema=table_file(values.shape[1], sizes))


def drawn_table(rng, n, p, sizes, effect=0.5):
    levels = np.stack([rng.integers(size, size=n) for size in sizes], axis=1)
    values = np.sqrt(0.5) * (rng.standard_normal((n, 1)) + rng.standard_normal((n, p)))
    return values + effect * (levels[:, :1] - np.mean(levels[:, 0])), levels


@pytest.mark.parametrize(("p", "sizes"), [(1, (2,)), (2, (2, 3)), (3, (4, 2, 3))])
def test_no_neighbours_differ_by_more_than_the_sensitivity_whether_the_cell_changes_or_not(rng, p, sizes):
    ball = design_for(p, sizes, 40, 1.0).ball
    whole, largest = WholeNumbers.of(ball, 40), 0.0
    for scale in np.tile([0.3, 2.0, 1e9], 60):
        values, cells = rng.standard_normal((2, 40, p)), rng.integers(ball.cells.count, size=(2, 40))
        values[1], cells[1, 1:] = values[0], cells[0, 1:]
        values[:, 0] = scale * rng.standard_normal((2, p))
        if rng.random() < 0.5:
            cells[1, 0] = cells[0, 0]
        first, second = (whole.total(*each) for each in zip(values, cells, strict=True))
        difference = np.where(whole.noisy, first - second, 0).astype(float)
        largest = max(largest, np.linalg.norm(difference) / whole.change)
    assert 0.5 < largest <= 1


def test_levels_are_alike_and_the_code_is_as_long_in_every_cell():
    ball = design_for(2, (3, 2, 4), 100, 1.0).ball
    squares = np.sum(ball.codes**2, axis=1)
    assert np.allclose(squares, ball.radius**2 * (1 / 8 + 1 / 4))
    assert ball.codes.shape == (24, 1 + 2 + 1 + 3)
    products = {round(float(a @ b), 9) for a, b in product(ball.codes, repeat=2)}
    assert len(products) == 4  # by how many categories agree, and by nothing else


def test_the_shares_of_epsilon_add_up_and_the_noise_is_what_is_stated(rng):
    values, levels = drawn_table(rng, 60, 2, (2, 3))
    design, runs = design_for(2, (2, 3), 60, 2.0), 150
    told = [add_noise(design, values, levels) for _ in range(runs)]
    costs = [(np.sqrt(2) / each.noise) ** 2 for each in told[0].counts]
    assert told[0].mu ** 2 == pytest.approx((told[0].sensitivity / told[0].noise) ** 2 + sum(costs), rel=1e-2)
    assert told[0].mu == pytest.approx(gaussian_mu(2.0, 1e-6), rel=1e-9)
    assert 1.9999 < told[0].epsilon <= 2.0
    for place, margin in enumerate(told[0].counts):
        exact = np.zeros([(2, 3)[k] for k in margin.places])
        np.add.at(exact, tuple(levels[:, list(margin.places)].T), 1)
        off = np.array([each.counts[place].counts for each in told]) - exact.ravel()
        low, high = chi2.interval(1 - 1e-8, off.size)
        assert low < np.sum(off**2) / margin.noise**2 < high


def test_cell_counts_agree_with_all_tables_of_so_many_people(rng):
    """Two by two cells and seven people: every table there is, by the Dirichlet prior and the noise."""
    cells, people = Cells((2, 2)), 7
    margins = tuple(
        NoisyMargin(
            places, rng.normal(3.5 if len(places) == 1 else 1.75, 2.0, 2 ** len(places)), 1.5 + len(places)
        )
        for places in margins_of(2)
    )
    sampler = CellCounts(cells, people, margins)
    every = np.array([each for each in product(range(people + 1), repeat=4) if sum(each) == people])
    logs = np.sum(gammaln(every + sampler.weight) - gammaln(every + 1.0), axis=1)
    for margin in margins:
        counted = np.stack([np.bincount(index_of(cells, margin.places), row, len(margin.counts)) for row in every])
        logs -= np.sum((counted - margin.counts) ** 2, axis=1) / (2 * margin.noise**2)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    drawn, found = sampler.draw(6000, rng)
    assert found.reached
    assert np.all(drawn.sum(axis=1) == people)
    mean, square = weight @ every, weight @ every**2
    error = np.sqrt((square - mean**2) / len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 7 * error)  # draws of a chain are not quite independent
    assert np.all(np.abs(np.mean(drawn == 0, axis=0) - weight @ (every == 0)) < 7 * 0.5 / np.sqrt(len(drawn)))


def test_moments_given_counts_agree_with_quadrature(rng):
    """One measurement, two levels: T = (Σx², η·Σx, ζ·Σsx) on a grid, p(T) times the noise's density."""
    ball = design_for(1, (2,), 30, 1.0).ball
    people, noise = np.array([[18, 12]]), 5.0
    matrix = np.zeros((3, 3))
    matrix[0], matrix[1:, 0] = [22.0, 4.0, -3.0], [4.0, -3.0]
    told = NoisyMoments(ball, 30, matrix, noise, 0, 1, 1e-6, 0.1)
    of_codes = np.einsum("c,cr,cs->rs", people[0], ball.codes, ball.codes)
    axes = [np.linspace(0.05, 70, 141), *(np.linspace(m - 7 * noise, m + 7 * noise, 141) for m in (4.0, -3.0))]
    square, one, two = np.meshgrid(*axes, indexing="ij")
    sums, prior = np.stack([one, two], axis=-1), np.diag(ball.code_sizes**2)
    own = square - np.sum(sums * np.linalg.solve(of_codes, sums[..., None])[..., 0], axis=-1)
    both = square + 1 - np.sum(sums * np.linalg.solve(of_codes + prior, sums[..., None])[..., 0], axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = 0.5 * (30 - 1 - 2 - 1) * np.log(own) - 0.5 * (30 - 1) * np.log(both)
    off = (square - 22) ** 2 + 2 * (one - 4) ** 2 + 2 * (two + 3) ** 2
    logs = np.where(own > 0, logs, -np.inf) - off / (2 * noise**2)
    weight = np.exp(logs - np.nanmax(logs))
    weight /= weight.sum()
    effect = np.einsum("ijk,ijkr->r", weight, np.linalg.solve(of_codes + prior, sums[..., None])[..., 0])
    chains = _GivenCounts.of(told, np.repeat(people, 256, axis=0))
    state, drawn = chains.start(), []
    for sweep in range(160):
        state = chains.sweep(state, rng)
        if sweep >= 60 and sweep % 10 == 0:
            drawn.append(chains.parameters(state, rng))
    effects, covariances = (np.concatenate(each) for each in zip(*drawn, strict=True))
    for found, exact in (
        *zip(effects[..., 0].T, effect, strict=True),
        (covariances[:, 0, 0], np.sum(weight * both) / 27),
    ):
        assert np.mean(found) == pytest.approx(exact, abs=6 * np.std(found) / np.sqrt(len(found)))


def test_a_level_that_nobody_has_leaves_the_rest_as_it_is(rng):
    """Its own effect is the prior's; those of all others are as they would be without it."""
    ball = design_for(1, (3,), 30, 1.0).ball
    matrix = np.zeros((4, 4))
    matrix[0, 0], matrix[0, 1], matrix[1, 0] = 25.0, 3.0, 3.0
    told = NoisyMoments(ball, 30, matrix, 4.0, 0, 1, 1e-6, 0.1)
    chains = _GivenCounts.of(told, np.repeat([[16, 14, 0]], 64, axis=0))
    assert np.all(chains.rank == 2)
    state = chains.start()
    for _ in range(40):
        state = chains.sweep(state, rng)
    empty = ball.codes[2] - np.linalg.lstsq(ball.codes[:2].T, ball.codes[2], rcond=None)[0] @ ball.codes[:2]
    assert np.allclose(state[:, 0, 1:] @ empty, 0, atol=1e-9)
    assert np.all(np.isfinite(chains.parameters(state, rng)[0]))


@pytest.mark.usefixtures("seeded_noise")
def test_without_noise_it_is_the_usual_posterior(rng):
    values, levels = drawn_table(rng, 400, 2, (2, 3))
    told = add_noise(design_for(2, (2, 3), 400, 1e4), values, levels)
    drawn, _ = NoiseAware(told).draw(300, rng)
    cells = told.ball.cells
    share = np.bincount(cells.of_codes(levels), minlength=6) / 400
    assert np.all(np.abs(drawn.shares.mean(axis=0) - share) < 0.01)
    z = cells.main_effects[cells.of_codes(levels)]
    fitted, *_ = np.linalg.lstsq(z, values, rcond=None)
    means = cells.main_effects @ fitted
    assert np.all(np.abs(drawn.coefficients.mean(axis=0) - means) < 0.05)
    left = values - z @ fitted
    assert np.all(np.abs(drawn.covariances[:, 0].mean(axis=0) - left.T @ left / 400) < 0.06)


@pytest.mark.parametrize(("p", "sizes"), [(1, ()), (3, (2, 4)), (5, ())])
def test_what_the_ball_cut_off_is_put_back(rng, p, sizes):
    """Effects and covariance of many normal records in the ball lead back to those that they were drawn from."""
    ball = design_for(p, sizes, 500, 1.0).ball
    share = rng.dirichlet(np.full(ball.cells.count, 3.0))
    means = ball.codes @ (rng.normal(0, 0.2, (ball.codes.shape[1], p)) / ball.code_sizes[:, None])
    covariance = 0.5 * np.eye(p) + 0.5
    cells = rng.choice(len(share), 100_000, p=share)
    inside = ball.shrunk(means[cells] + rng.standard_normal((len(cells), p)) @ np.linalg.cholesky(covariance).T)
    effects = np.linalg.lstsq(ball.codes[cells], inside, rcond=None)[0]
    left = inside - ball.codes[cells] @ effects
    cut = left.T @ left / len(cells)
    back = BeforeCut(ball).of(Parameters(share[None], (ball.codes @ effects)[None], cut[None, None]))
    assert np.all(np.diagonal(cut) < 0.97)
    assert np.allclose(back.covariances[0, 0], covariance, atol=0.04)
    assert np.allclose(back.coefficients[0], means, atol=0.08)


def literal_posterior(told, own, codes, at):
    """p(x, c | told, others) on a grid of x, for each level, p = 1 and one category: as it stands."""
    n, ball = len(own), told.ball
    limit = lambda x: np.clip(x, -ball.radius, ball.radius)  # noqa: E731
    lifted = np.column_stack([limit(own[:-1]), ball.codes[codes[:-1]]])
    left = told.matrix - lifted.T @ lifted
    counted = told.counts[0].counts - np.bincount(codes[:-1], minlength=2)
    prior = np.bincount(codes[:-1], minlength=2) + 0.5
    # the others' regression on (1, own level's effect), every effect with a prior worth one record
    z = np.column_stack([np.ones(n - 1), np.eye(2)[codes[:-1]]])
    weight = z.T @ z + np.diag([0.0, 1.0, 1.0])
    effects = np.linalg.solve(weight, z.T @ own[:-1])
    scale = own[:-1] @ own[:-1] - effects @ weight @ effects
    before, after = np.empty((2, len(at))), np.empty((2, len(at)))
    for level in range(2):
        code = np.r_[1.0, np.eye(2)[level]]
        df = n - 2
        wider = np.sqrt(scale * (1 + code @ np.linalg.solve(weight, code)) / df)
        before[level] = prior[level] * student.pdf((at - code @ effects) / wider, df) / wider
        w, seen = ball.codes[level], limit(at)
        off = (left[0, 0] - seen**2) ** 2 + 2 * np.sum((left[0, 1:, None] - np.outer(w, seen)) ** 2, axis=0)
        of_counts = np.sum((counted - np.eye(2)[level]) ** 2) / (2 * told.counts[0].noise ** 2)
        after[level] = before[level] * np.exp(-off / (2 * told.noise**2) - of_counts)
    return before / before.sum(), after / after.sum()


@pytest.mark.usefixtures("seeded_noise")
def test_the_adversary_agrees_with_the_literal_posterior(rng):
    n = 25
    values, levels = drawn_table(rng, n, 1, (2,))
    values[-1] = 1.7
    release = abo.Synthesizer(epsilon=10.0).fit(frame_of(values, levels), schema=table_file(1, (2,))).sample()
    found = risk_columns(records_of(values, levels, (2,)), release)
    told, at = release.noisy, np.linspace(-15, 15, 60_001)
    before, after = literal_posterior(told, values[:, 0], levels[:, 0], at)
    own = levels[-1, 0]
    assert found["baseline_c0"][-1] == pytest.approx(before[own].sum(), abs=1e-6)
    error = 6 * found["probability_error_c0"][-1] + 2e-3
    assert found["probability_c0"][-1] == pytest.approx(after[own].sum(), abs=error)
    here = np.argmin(np.abs(at - values[-1, 0]))
    for name, each in (("probability", after), ("baseline", before)):
        exact = each[own, here] / each[:, here].sum()
        assert found[f"rest_known_{name}_c0"][-1] == pytest.approx(exact, abs=2e-3)
    near = np.abs(at - values[-1, 0]) <= found["tolerance_x0"][-1] * (1 + 1e-9)
    exact = after[own, near].sum() / after[own].sum()
    assert found["probability_x0"][-1] == pytest.approx(exact, abs=5 * found["probability_error_x0"][-1] + 1e-3)
    gain = np.log(after[own, here] / before[own, here])
    assert found["membership_evidence"][-1] == pytest.approx(gain, abs=0.03)
    assert found["bound_c0"][-1] == pytest.approx(ndtr(ndtri(before[own].sum()) + told.mu))


@pytest.mark.usefixtures("seeded_noise")
def test_the_adversary_is_calibrated(rng):
    """The missing record comes from what the others say; then of two levels P − P² − (1 − P)² averages to 0.

    With many runs, which see rare events too: 1/P(own level) averages to the number of levels, and the likelihood
    ratio of somebody else's being there instead, exp(−evidence), to 1.
    """
    values, levels = drawn_table(rng, 30, 1, (2, 3))
    runs, design = 400 if LONG else 30, design_for(1, (2, 3), 30, 6.0)
    cells, mechanism = design.ball.cells, Mechanism(design.ball.schema, None)
    prior = LocationModel.prior((2, 3), abo.NIW.flat(1), weight=default_weight(6))
    others = prior.update(MixedRecords.of(cells.of_codes(levels[:-1]), values[:-1])).predictive()
    inverse, ratios = [], []
    for _ in range(runs):
        target = others.draw(rng, np.zeros((1, 0)))
        values[-1], levels[-1] = target.values[0], cells.codes[target.cells[0]]
        records = records_of(values, levels, (2, 3))
        found = risk_columns(records, abo.Release(mechanism, (records,), noisy=add_noise(design, values, levels)))
        inverse.append([1 / found["probability_c0"][-1], 1 / found["probability_c1"][-1]])
        ratios.append(np.exp(-found["membership_evidence"][-1]))
    own = 1 / np.array(inverse)[:, 0]
    laws = [(own - own**2 - (1 - own) ** 2, 0)]
    if LONG:
        laws += [*zip(np.transpose(inverse), (2, 3), strict=True), (np.array(ratios), 1)]
    for numbers, exact in laws:
        assert np.mean(numbers) == pytest.approx(exact, abs=6 * np.std(numbers) / np.sqrt(runs))


def test_a_release_states_its_counts_and_comes_back(rng, tmp_path):
    values, levels = drawn_table(rng, 120, 2, (2, 3))
    frame = frame_of(values, levels)
    release = abo.Synthesizer(epsilon=5.0).fit(frame, schema=table_file(2, (2, 3))).sample(datasets=2, rows=40)
    abo.save_release(release, tmp_path / "r")
    told = json.loads((tmp_path / "r" / "release.json").read_text())
    assert [each["of"] for each in told["noisy_counts"]] == [["c0"], ["c1"], ["c0", "c1"]]
    assert "each pair are counted" in told["mechanism"]
    back = abo.load_release(tmp_path / "r")
    assert back.order == release.order
    assert np.array_equal(back.noisy.matrix, release.noisy.matrix)
    assert all(
        np.array_equal(a.counts, b.counts) for a, b in zip(back.noisy.counts, release.noisy.counts, strict=True)
    )
    assert back.draw_more(datasets=2, rows=6).rows == (6, 6)
    assert "probability_c1" in abo.risk(frame, tmp_path / "r").column_names
    spoiled = told | {"noisy_counts": told["noisy_counts"][:1]}
    (tmp_path / "r" / "release.json").write_text(json.dumps(spoiled))
    with pytest.raises(abo.InputError, match="noisy counts"):
        abo.load_release(tmp_path / "r")


def test_too_many_combinations_are_refused_before_anything_is_spent(rng):
    with pytest.raises(abo.InputError, match=r"1,296 combinations"):
        design_for(1, (6, 6, 6, 6), 5000, 1.0)


@pytest.mark.usefixtures("seeded_noise")
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_intervals_of_shares_differences_and_correlations_cover(rng, epsilon):
    """Of 95 % intervals from private draws 93 to 97 % hold the truth."""
    tables, n, covered = 100, 500, []
    for _ in range(tables):
        sex = rng.random(n) < 0.6
        stage = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
        values = (
            np.sqrt(0.5) * (rng.standard_normal((n, 1)) + rng.standard_normal((n, 3))) + 0.6 * sex[:, None] - 0.36
        )
        levels = np.stack([sex.astype(int), stage], axis=1)
        told = add_noise(design_for(3, (2, 4), n, epsilon, 2e-5), values, levels)
        drawn = BeforeCut(told.ball).of(NoiseAware(told).draw(192, rng)[0])
        female, stages = told.ball.cells.marginal(drawn.shares)
        by_sex = [
            np.einsum("kc,kcp->kp", drawn.shares * (told.ball.cells.codes[:, 0] == k), drawn.coefficients)
            / female[:, [k]]
            for k in (0, 1)
        ]
        covariance = drawn.covariances[:, 0]
        spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        found = np.column_stack(
            [
                female[:, 1],
                stages,
                by_sex[1] - by_sex[0],
                covariance[:, 0, 1] / spread[:, 0] / spread[:, 1],
                spread,
            ]
        )
        truth = np.array([0.6, 0.4, 0.3, 0.2, 0.1, 0.6, 0.6, 0.6, 0.5, 1, 1, 1])
        covered.append(np.abs(np.mean(found < truth, axis=0) - 0.5) < 0.475)
    share, error = np.mean(covered), np.std(np.mean(covered, axis=1)) / np.sqrt(tables)
    assert share == pytest.approx(0.95, abs=0.02 + 2 * error)


@pytest.mark.usefixtures("seeded_noise")
def test_intervals_of_shares_from_several_datasets_know_of_the_noise(rng):
    """All π with (q̄ − π)² ≤ t²·T·π(1 − π)/(q̄(1 − q̄)), and T is the variance of the posterior; within 0 and 1."""
    n, levels = 200, rng.choice(3, (200, 1), p=[0.7, 0.29, 0.01])
    frame = frame_of(np.zeros((n, 0)), levels)
    release = abo.Synthesizer(epsilon=0.5).fit(frame, schema=table_file(0, (3,))).sample(datasets=120)
    found = abo.combine(release, "proportions", people=n)
    assert found.rule == "between"
    drawn = NoiseAware(release.noisy).draw(1000, rng)[0].shares
    for level in (0, 1):
        assert np.sqrt(found.variance[level]) == pytest.approx(np.std(drawn[:, level]), rel=0.35)
        assert np.std(drawn[:, level]) > 1.3 * np.sqrt(0.21 / n)
    assert np.all((found.low >= 0) & (found.high <= 1) & (found.low < found.estimate))
    one = found.estimate * (1 - found.estimate)
    scale = student.ppf(0.975, found.df) ** 2 * np.maximum(found.variance / one, 1 / n)
    for end in (found.low, found.high):
        assert np.allclose((found.estimate - end) ** 2, scale * end * (1 - end))
    plain = abo.Synthesizer().fit(frame_of(rng.standard_normal((n, 1)), levels), categories=True)
    with pytest.raises(abo.InputError, match="'within'"):
        abo.combine(plain.sample(datasets=3), "proportions", people=n, rule="between")


@pytest.mark.usefixtures("seeded_noise")
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_intervals_by_combine_cover(rng, epsilon):
    """Of 95 % intervals of means, correlations and proportions, from 100 datasets, 93 to 97 % hold the truth."""
    tables, n, covered = 60, 500, []
    for _ in range(tables):
        levels = np.stack([rng.random(n) < 0.6, rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])], axis=1).astype(int)
        values = np.sqrt(0.5) * (rng.standard_normal((n, 1)) + rng.standard_normal((n, 3)))
        frame = frame_of(values + 0.6 * levels[:, :1] - 0.36, levels)
        synthesizer = abo.Synthesizer(epsilon=epsilon, delta=2e-5).fit(frame, schema=table_file(3, (2, 4)))
        release = synthesizer.sample(datasets=100)
        found = [abo.combine(release, what, people=n) for what in ("means", "proportions")]
        related = [np.corrcoef(each.T)[np.triu_indices(3, 1)] for each in release.values]
        how = {"people": n, "rows": n, "rule": "between"}
        found.append(abo.combine(np.arctanh(related), np.full((100, 3), 1 / (n - 3)), **how))
        truth = [np.zeros(3), [0.4, 0.6, 0.4, 0.3, 0.2, 0.1], np.full(3, np.arctanh(0.5864 / 1.0864))]
        covered.append(
            [np.mean((each.low < true) & (true < each.high)) for each, true in zip(found, truth, strict=True)]
        )
    error = np.sqrt(0.95 * 0.05 / tables)  # as if all intervals of a table were one
    assert np.all(np.abs(np.mean(covered, axis=0) - 0.95) <= 0.02 + 3 * error)


def test_records_that_the_data_chose_are_refused(rng):
    """Whoever is left out for a gap changes n, and a level that one person has vanishes with them."""
    limits = {"columns": {"x": {"low": -5, "high": 5}, "y": {"low": -5, "high": 5}}}
    values = rng.standard_normal((60, 2))
    values[3, 0] = np.nan
    fewer = abo.Records.of(pa.table({"x": values[:, 0], "y": values[:, 1]}), schema=limits, complete_cases=True)
    with pytest.raises(abo.InputError, match="left out because of what is in them"):
        abo.Synthesizer(epsilon=1.0).fit(fewer, schema=limits)
    ill = np.where(np.arange(60) == 7, "rare", "usual")
    found = abo.Records.of(
        pa.table({"x": np.zeros(60) + values[:, 1], "ill": ill}), schema=limits, categories=True
    )
    with pytest.raises(abo.InputError, match="levels may be those that are found in them"):
        abo.Synthesizer(epsilon=1.0).fit(found)


def test_a_declared_total_counts_what_was_drawn_and_voided(rng, tmp_path):
    values, levels = drawn_table(rng, 80, 2, (2,))
    declared = table_file(2, (2,))
    ledger = abo.Ledger.at(tmp_path / "t.csv.ledger.toml").declare_limit(Terms(epsilon=4.0, delta=1e-6))
    release = abo.Synthesizer(epsilon=3.0).fit(frame_of(values, levels), schema=declared).sample()
    abo.save_release(release, tmp_path / "one")
    terms = Terms(epsilon=3.0, delta=1e-6, rho=release.noisy.rho)
    ledger = ledger.record(records_of(values, levels, (2,)), tmp_path / "one", guarantee=terms)
    assert passed_limit(ledger, terms)
    assert passed_limit(ledger.void(1, "drawn, never given out"), terms)
    again = abo.Synthesizer(epsilon=3.0).fit(frame_of(values, levels), schema=declared).sample()
    abo.save_release(again, tmp_path / "two")
    with pytest.raises(abo.InputError, match="more than the total"):
        ledger.record(
            records_of(values, levels, (2,)), tmp_path / "two", guarantee=terms,
            check=partial(require_within_limit, planned=terms),
        )  # fmt: skip
    assert len(abo.Ledger.at(ledger.path).releases) == 1
