"""Mass near the truth: against draws from the posterior, from records nobody finds to records fully exposed."""

import os

import numpy as np
import pytest
from scipy.stats import multivariate_t
from scipy.stats import t as student

import allbutone as abo
from allbutone.adversary import integrate as integrate_room
from allbutone.adversary import leave_one_out
from allbutone.adversary.build import from_parameters
from allbutone.adversary.integrate import Ball, Intervals, integrate
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.modes import Modes, find_modes
from allbutone.adversary.proposal import Points, Proposal, gradients_at, values_at, wider
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.measures import Effort, measure
from allbutone.disclosure.simulation import SimulatedReleases
from allbutone.support import parallel


def random_problem(rng, targets=2):
    """Posteriors of records of one leverage after random releases, in whitened coordinates, and the records."""
    p, people = int(rng.integers(1, 21)), int(rng.choice([50, 150, 500]))
    rows = [None, 10, people, 10 * people][rng.integers(4)]
    count = int(rng.choice([1, 2, 3, 5, 10, 30, 100]))
    law = ExposureLaw.of(abo.NIW.default(p), people + p, rows)
    # up to far beyond the threshold, where the posterior is narrower than any ball
    leverage = np.exp(rng.uniform(np.log(0.3 * p / people), np.log(10)))
    return SimulatedReleases.of(law, count, targets, rng).problem(leverage)


@pytest.mark.parametrize("p", [3, 30])  # all wells by one product, and one by one
def test_many_points_have_the_values_that_each_has_alone(rng, p):
    law = ExposureLaw.of(abo.NIW.default(p), 200 + p, 50)
    problem, _ = SimulatedReleases.of(law, 5, 2, rng).problem(0.5)
    white = rng.normal(size=(2, 40, p))
    alone = problem.value(white.swapaxes(0, 1)).T
    np.testing.assert_allclose(values_at(problem, white), alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rows", [None, 50])
def test_many_points_have_the_gradients_that_each_has_alone(rng, rows):
    law = ExposureLaw.of(abo.NIW.default(4), 60, rows)
    problem, _ = SimulatedReleases.of(law, 3, 2, rng).problem(0.5)
    white = rng.normal(size=(2, 20, 4))
    for place in range(20):
        alone = problem.local(white[:, place])[1]
        np.testing.assert_allclose(gradients_at(problem, white)[:, place], alone, rtol=1e-10, atol=1e-10)


def test_up_to_five_features_the_points_are_wider_by_three_tenths_and_beyond_by_less():
    assert [wider(p) for p in (1, 2, 5)] == [1.3] * 3
    found = [wider(p) for p in range(5, 500)]
    assert np.all(np.diff(found) < 0)
    # of a normal hill in any number of dimensions a third of the points at least is worth something
    for p in (5, 20, 100, 500):
        w = wider(p)
        assert (2 * w - 1) ** (p / 2) / w**p > 1 / 3


@pytest.mark.parametrize(("rows", "count", "people"), [(300, 20, 300), (90, 3, 90), (None, 10, 180)])
def test_of_many_features_a_good_share_of_the_points_is_worth_something(rows, count, people):
    """There the mode is so far from the mean that of points around it less than one in ten is."""
    rng, p = np.random.default_rng(3), 60
    problem, truth = SimulatedReleases.of(ExposureLaw.of(abo.NIW.default(p), people, rows), count, 1, rng).problem(
        1
    )
    modes, reach = find_modes(problem), np.full(1, 1.5 * np.sqrt(p / problem.df))
    records, half = problem.unwhiten(truth), 0.25 * np.ones(p)
    near = Intervals(records - half, records + half)
    found = integrate(problem, modes, Ball(truth, reach), Points(1), 256, intervals=near)
    assert found.effective_size[0] > 0.3 * 4 * 256
    # and what they say is what others say
    again = integrate(problem, modes, Ball(truth, reach), Points(2), 1024, replicates=8, intervals=near)
    for name in ("log_total", "mass", "within"):
        off, error = getattr(found, name) - getattr(again, name), getattr(found, f"{name}_error")
        assert np.all(np.abs(off) <= 6 * np.hypot(error, getattr(again, f"{name}_error")) + 1e-9)


def test_settled_points_give_the_probabilities_of_the_student_t_after_one_dataset(monkeypatch):
    """It is known in closed form there, and the points do not know that."""
    around, points = Proposal.around, Points(7)
    monkeypatch.setattr(Proposal, "around", lambda of, modes: around(of, modes).settled(of, points))
    monkeypatch.setattr(integrate_room, "exact_within", lambda *asked: None)
    rng, p, people = np.random.default_rng(4), 60, 150
    law = ExposureLaw.of(abo.NIW.default(p), people, people)
    problem, _ = SimulatedReleases.of(law, 1, 1, rng).problem(0.5)
    exact = problem.closed_form
    spread = np.sqrt(np.diagonal(exact.scale[0]))
    near = Intervals(exact.location - 0.4 * spread, exact.location + rng.uniform(0, 2, (1, p)) * spread)
    found = integrate(problem, find_modes(problem), None, points, 512, intervals=near)
    low, high = ((end - exact.location) / spread for end in (near.low, near.high))
    true = student.cdf(high, exact.df) - student.cdf(low, exact.df)
    # four replicates: Student's t with three degrees of freedom, sixty times
    assert np.all(np.abs(found.within - true) < 8 * found.within_error)
    assert np.sqrt(np.mean(((found.within - true) / found.within_error) ** 2)) < 2
    assert found.effective_size[0] > 0.5 * 4 * 512


def share_of_draws(problem, truth, reach, rng, draws=4000):
    """The share of draws inside the ball, by resampling a large sample that knows nothing of the ball."""
    modes, points = find_modes(problem), Points.of(rng)
    proposal = Proposal.around(problem, modes, lightest=8.0 + problem.p)
    for turn in range(3):
        proposal = proposal.fitted(problem, points, turn, 1 << 11)
    drawn = proposal.draw(points, 4, 1 << 14)
    white = np.concatenate(drawn, axis=1)
    shares = np.log([part.shape[1] for part in drawn])[:, None, None]
    log_weights = values_at(problem, white) - np.logaddexp.reduce(proposal.log_densities(white) + shares, axis=0)
    found = []
    for row, each in enumerate(log_weights):
        weights = np.exp(each - np.logaddexp.reduce(each))
        chosen = white[row, rng.choice(len(weights), draws, p=weights)]
        found.append(np.mean(np.sum((chosen - truth[row]) ** 2, axis=1) <= reach**2))
    return np.array(found)


@pytest.mark.parametrize(("p", "released"), [(1, 1.0), (4, 1.0), (4, 1e-4), (30, 1.0)])
def test_points_are_spread_as_the_curvature_says_and_no_wider_where_it_is_flat(rng, p, released):
    """Each hill's root against its definition by eigenvalues: sharp, flat and upward hills in one batch."""
    known = abo.NIW(np.zeros(p), 9.0, 50.0 + p, np.eye(p))
    # two draws of which each has `released` times the curvature of the other records
    problem = from_parameters(known, np.eye(p), 2, 2 * released * known.df * np.eye(p), np.zeros(p))
    turned = np.linalg.qr(rng.standard_normal((5, p, p)))[0]
    values = problem.df * np.exp(rng.uniform(-3, 3, (5, p)))
    values[2:4, 0] = np.array([1e-3, -1.0]) * problem.df
    hessian = -(turned * values[:, None, :]) @ turned.swapaxes(1, 2)
    place, none = rng.standard_normal((5, p)), np.full(5, np.inf)
    modes = Modes(place, place, none, np.zeros(5), hessian, hessian, none > 0, 1)
    proposal = Proposal.around(problem, modes)
    spread = (
        wider(p)
        * (turned / np.maximum(values, min(released, 1e-2) * problem.df)[:, None, :])
        @ turned.swapaxes(1, 2)
    )
    root = np.linalg.cholesky(spread)
    np.testing.assert_allclose(proposal.roots[0], root, rtol=1e-9, atol=1e-10 * np.max(np.abs(root)))
    np.testing.assert_allclose(proposal.inverses[0] @ root, np.broadcast_to(np.eye(p), root.shape), atol=1e-9)
    # and the densities of all parts against SciPy's, the second standing where the first does
    points = place[:, None] + rng.standard_normal((5, 3, p)) @ root.swapaxes(1, 2)
    found = proposal.log_densities(points)
    for row in range(5):
        hill = multivariate_t(place[row], spread[row], proposal.dfs[0]).logpdf(points[row])
        centre = multivariate_t(np.zeros(p), np.eye(p) / problem.df, proposal.dfs[2]).logpdf(points[row])
        np.testing.assert_allclose(found[:, row], [np.atleast_1d(hill)] * 2 + [np.atleast_1d(centre)], rtol=1e-8)


def disagreements(rng, problems):
    """Differences between the mass and the share of draws, and their standard errors."""
    off, error = [], []
    for _ in range(problems):
        problem, truth = random_problem(rng)
        reach = np.exp(rng.uniform(np.log(0.5), np.log(3))) * np.sqrt(1 / problem.df)
        ball = Ball(truth, np.full(len(truth), reach))
        found = integrate(problem, find_modes(problem), ball, Points(), 512)
        share = share_of_draws(problem, truth, reach, rng)
        off.append(found.mass - share)
        error.append(np.hypot(found.mass_error, np.sqrt((share * (1 - share) + 1e-3) / 4000)))
    return np.concatenate(off), np.concatenate(error)


def test_mass_is_the_share_of_posterior_draws(rng):
    off, error = disagreements(rng, 250 if os.environ.get("ALLBUTONE_TEST_LONG") else 25)
    assert np.all(np.abs(off) < 4 * error + 1e-3)
    assert np.all(np.abs(off) < 0.05)


@pytest.mark.parametrize(("p", "people", "count", "deviations"), [(10, 100, 1000, 8.0), (5, 100, 10_000, 8.0)])
def test_the_mass_near_a_record_that_is_found_is_one(p, people, count, deviations):
    """Parameters of so many draws leave no doubt; a peak much narrower than the ball must not pass for nothing."""
    rng = np.random.default_rng(3)
    law = ExposureLaw.of(abo.NIW.default(p), people, None if count > 1000 else people)
    problem, truth = SimulatedReleases.of(law, count, 2, rng).problem(deviations**2 / people)
    found = measure(problem, problem.unwhiten(truth), Effort(size=256), radius=1.0)
    assert np.all(found.relative_error < 0.1)
    assert np.all(found.mass > 0.99)
    assert np.all(found.information_gain > 10)


@pytest.mark.parametrize("rows", [None, 60])
def test_mass_grows_with_the_radius_and_with_the_release(rows):
    rng = np.random.default_rng(4)
    law = ExposureLaw.of(abo.NIW.default(3), 80, rows)
    before = np.zeros(10)
    for count in (2, 10, 50, 400):
        problem, truth = SimulatedReleases.of(law, count, 10, rng).problem(1.5)
        records, masses = problem.unwhiten(truth), []
        for radius in (0.3, 1.0, 3.0, 10.0, 100.0):
            found = measure(problem, records, Effort(size=128), radius=radius)
            masses.append(found.mass)
            error = found.mass_error
        steps = np.diff(masses, axis=0)
        assert np.all(steps > -5 * error - 0.02)
        assert np.all(masses[-1] > 0.999)
        assert np.mean(masses[1]) > np.mean(before) - 0.02
        before = masses[1]
    assert np.mean(before) > 0.98


def test_mass_is_calibrated(rng):
    """Of records drawn from the adversary's own predictive, a share u lies in the ball that is given mass u."""
    prior, hits, masses = abo.NIW.default(2), [], []
    for _ in range(300):
        others = rng.standard_normal((20, 2))
        known = prior.update(others)
        record = known.predictive().draw(rng, 1)
        release = abo.Release.draw_parameters(known.update(record), 3, rng)
        everyone = LeaveOneOut.of(np.vstack([others, record]), release, prior, None, "record")
        problem = everyone.problem(np.array([20]), ())
        modes = find_modes(problem)
        # a ball around the guess, of the size that holds about half
        reach = 1.2 * np.sqrt(1 / np.linalg.eigvalsh(-modes.hessian[0])[:1])
        found = integrate(problem, modes, Ball(modes.best, reach), Points(), 256)
        hits.append(float(np.sum((problem.whiten(record) - modes.best) ** 2) <= reach[0] ** 2))
        masses.append(float(found.mass[0]))
    spread = np.sqrt(np.sum(np.array(masses) * (1 - np.array(masses))))
    assert abs(np.sum(hits) - np.sum(masses)) < 4 * spread


def test_a_code_a_billion_deviations_out_counts_as_disclosed():
    rng = np.random.default_rng(5)
    values = np.append(rng.standard_normal(50), 999_999_999.0)[:, None]
    prior = abo.NIW.default(1)
    release = abo.Release.draw_parameters(prior.update(values), 5, rng, columns=("x",), prior=prior)
    found = abo.risk(abo.Records(values, ("x",)), release).to_pydict()
    assert found["disclosed"][-1]
    assert found["risk"][-1] == max(found["risk"])
    assert found["prior_mass"][-1] == 0
    assert np.all(np.isfinite(found["prior_mass"]))


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_risk_depends_neither_on_cores_nor_on_blocks(kind, monkeypatch):
    rng, prior = np.random.default_rng(6), abo.NIW.default(3)
    table = abo.Records(rng.standard_normal((60, 3)), ("a", "b", "c"))
    posterior = prior.update(table.values)
    if kind == "parameters":
        release = abo.Release.draw_parameters(posterior, 4, rng, columns=table.columns, prior=prior)
    else:
        release = abo.Release.draw(posterior, [30] * 4, rng, columns=table.columns, prior=prior)
    found = []
    for cores, block in ((1, leave_one_out.BLOCK_BYTES), (3, leave_one_out.BLOCK_BYTES), (2, 8192)):
        monkeypatch.setattr(parallel, "cores", lambda cores=cores: cores)
        monkeypatch.setattr(leave_one_out, "BLOCK_BYTES", block)
        told = abo.risk(table, release, rng=np.random.default_rng(1)).to_pandas()
        found.append(told.drop(columns=["riskiest", "adversary"]).astype(float))
    for other in found[1:]:
        # how many are solved at once decides in which order a small matrix is factored
        np.testing.assert_allclose(other.to_numpy(), found[0].to_numpy(), rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(found[1].to_numpy(), found[0].to_numpy())
