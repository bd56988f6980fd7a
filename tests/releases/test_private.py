"""Releases with a guarantee: the noise and its account, the posterior that knows of it, the audit by real runs."""

import json
import os
import sys

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import chi2, norm
from scipy.stats import t as student

import allbutone as abo
from allbutone.disclosure.risk import risk_columns
from allbutone.releases import noise_aware, private_mechanism
from allbutone.releases.noise_aware import NoiseAware
from allbutone.releases.private_mechanism import NoiseDesign, NoisyMoments, WholeNumbers, add_noise
from allbutone.tables.schema import Schema

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))


def declared(p, **more):
    column = {"low": -8.0, "high": 8.0, "centre": 0.0, "spread": 1.0} | more
    return Schema.of({"columns": {f"x{j}": column for j in range(p)}})


def design_for(p, people, epsilon, delta=1e-6):
    return NoiseDesign.of(declared(p), people, epsilon, delta)


def ball_for(p, people, epsilon, delta=1e-6):
    return design_for(p, people, epsilon, delta).ball


def draw(told, count, rng):
    """Means and covariances of the one cell."""
    drawn, found = NoiseAware(told).draw(count, rng)
    return drawn.coefficients[:, 0], drawn.covariances[:, 0], found


def correlated(rng, n, p, r=0.5):
    return np.sqrt(r) * rng.standard_normal((n, 1)) + np.sqrt(1 - r) * rng.standard_normal((n, p))


def sum_of(ball, table):
    """The exact sum, as the mechanism has it, and the change that a record can make."""
    whole = WholeNumbers.of(ball, len(table))
    total = whole.total(table, np.zeros(len(table), dtype=np.int64))
    return total, np.sqrt(2) * (whole.radius**2 + float(whole.codes[0, 0]) ** 2)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_no_neighbouring_tables_differ_by_more_than_the_sensitivity(rng, p):
    ball, largest = ball_for(p, 50, 1.0), 0.0
    table = rng.standard_normal((50, p))
    for scale in np.tile([0.3, 1.0, 5.0, 1e9], 50):
        one, other = table.copy(), table.copy()
        one[0], other[0] = scale * rng.standard_normal((2, p))
        (first, most), (second, _) = sum_of(ball, one), sum_of(ball, other)
        difference = (first - second).astype(float)
        assert difference[-1, -1] == 0
        largest = max(largest, np.linalg.norm(difference) / most)
    assert 0.5 < largest <= 1


def test_the_sensitivity_is_attained():
    """Two records on the ball whose x̃ are orthogonal: x·y = −η² = −R²/8."""
    ball = ball_for(2, 50, 1.0)
    turn = np.arccos(-1 / 8)
    tables = np.zeros((2, 50, 2))
    tables[:, 0] = 0.999999 * ball.radius * np.array([[1, 0], [np.cos(turn), np.sin(turn)]])
    (first, most), (second, _) = (sum_of(ball, table) for table in tables)
    assert np.linalg.norm((first - second).astype(float)) / most == pytest.approx(1, abs=1e-4)


def test_the_noise_is_what_is_stated(rng):
    """Twice the sum of squares of the noise over σ² is χ²: one entry of σ a column, the others of σ/√2."""
    table = correlated(rng, 40, 2)
    design, runs = design_for(2, 40, 1.0), 400
    total, _ = sum_of(design.ball, table)
    told = [add_noise(design, table) for _ in range(runs)]
    off = np.array([each.matrix for each in told]) - total / WholeNumbers.of(design.ball, 40).unit ** 2
    assert np.all(off[:, -1, -1] == 0)
    assert np.array_equal(off, np.swapaxes(off, 1, 2))
    square = np.sum(off**2) / told[0].noise ** 2
    low, high = chi2.interval(1 - 1e-8, 5 * runs)
    assert low < square < high
    assert all(each.epsilon <= 1.0 and each.mu == told[0].mu for each in told)
    assert told[0].epsilon > 0.999


def test_noise_aware_moments_agree_with_quadrature(rng):
    """p = 1: T = (Σx², η·Σx) on a grid, p(T) times the noise's density; mean and variance of the draws' logs."""
    n, ball = 30, ball_for(1, 30, 1.0)
    told = NoisyMoments(ball, n, np.zeros((2, 2)), 4.0, 0, 1, 1e-6, 0.1)
    told.matrix[:] = [[20.0, 6.0], [6.0, n * ball.eta**2]]
    square, line = np.meshgrid(np.linspace(0.01, 60, 1201), np.linspace(-30, 40, 1401), indexing="ij")
    eta2 = ball.eta**2
    own, both = square * n * eta2 - line**2, (square + 1) * (n + 1) * eta2 - line**2
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = 0.5 * (n - 3) * np.log(own) - 0.5 * (n - 1) * np.log(both)
    logs = np.where(own > 0, logs, -np.inf) - ((square - 20) ** 2 + 2 * (line - 6) ** 2) / (2 * 16)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    mean = np.sum(weight * line) / (ball.eta * (n + 1))
    spread = np.sum(weight * (both / ((n + 1) * eta2))) / (n - 1 - 2)  # E of an inverse gamma
    means, covariances, found = draw(told, 6000, rng)
    assert found.reached
    for drawn, exact in ((means[:, 0], mean), (covariances[:, 0, 0], spread)):
        # draws of a chain are not quite independent
        assert np.mean(drawn) == pytest.approx(exact, abs=8 * np.std(drawn) / np.sqrt(len(drawn)))


@pytest.mark.usefixtures("seeded_noise")
def test_without_noise_it_is_the_usual_posterior(rng):
    design, table = design_for(2, 300, 1e4), correlated(rng, 300, 2)
    means, covariances, _ = draw(add_noise(design, table), 2000, rng)
    inside = design.ball.inside(table)
    mean = inside.sum(axis=0) / 301  # a prior worth one record, at 0 and of spread 1, with −p degrees of freedom
    scale = inside.T @ inside + np.eye(2) - 301 * np.outer(mean, mean)
    for drawn, exact in ((means, mean), (covariances, scale / (300 - 2 - 3))):
        assert np.all(np.abs(drawn.mean(axis=0) - exact) < 7 * drawn.std(axis=0) / np.sqrt(2000))


SETTINGS = {(500, 2): (0.15, 0.087, 0.059), (500, 5): (0.23, 0.11, 0.065), (10_000, 5): (0.022, 0.015, 0.014)}
LARGE = {(1_000_000, 20): (0.020, 0.020, 0.020)}


def released_correlations(rng, n, p, epsilon):
    told = add_noise(design_for(p, n, epsilon, 0.01 / n), correlated(rng, n, p))
    _, covariances, _ = draw(told, 200, rng)
    spread = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    pairs = np.triu_indices(p, 1)
    return (covariances / spread[:, :, None] / spread[:, None, :])[:, *pairs]


@pytest.mark.usefixtures("seeded_noise")
@pytest.mark.parametrize("size", SETTINGS | LARGE if LONG else [(500, 2), (500, 5)])
@pytest.mark.parametrize("level", [0, 1, 2] if LONG else [1])
def test_intervals_cover_and_errors_stay_small(rng, size, level):
    """Correlations of 0.5 from released draws: 90 % intervals cover 85 %; errors within 20 % of those known."""
    tables = (400 if size == (500, 2) else 100 if size[0] < 1e6 else 3) if LONG else 12
    found = [released_correlations(rng, *size, (1.0, 3.0, 10.0)[level]) for _ in range(tables)]
    covered = [np.mean(np.abs(np.mean(each < 0.5, axis=0) - 0.5) <= 0.45) for each in found]
    slack = (3 if LONG else 6) * np.std(covered) / np.sqrt(tables)  # few tables: a Student t
    assert np.mean(covered) + slack >= 0.85
    squares = np.array([np.mean((each - 0.5) ** 2) for each in found])
    most = 1.2 * (SETTINGS | LARGE)[size][level]
    assert np.mean(squares) - (3 if LONG else 6) * np.std(squares) / np.sqrt(tables) <= most**2


@pytest.mark.usefixtures("seeded_noise")
def test_the_adversary_agrees_with_quadrature(rng):
    """p = 1: the likelihood of the noisy sum at every candidate as the mechanism limits it, times a Student t."""
    n, table = 25, np.append(rng.standard_normal(24), 2.0)[:, None]
    release = abo.Synthesizer(epsilon=8.0).fit(table, schema=declared_x()).sample()
    told, last = release.noisy, table[-1, 0]
    found = risk_columns(abo.Records.of(table, schema=wide_x()), release)
    others = table[:-1, 0]
    scale = np.sqrt(others.var() * len(others) * n / ((n - 1) * (n - 2)))
    at = np.linspace(-12, 12, 200_001)
    before = student.pdf((at - others.mean()) / scale, n - 2)
    limit = lambda x: np.clip(x, -told.ball.radius, told.ball.radius)  # noqa: E731
    lifted = np.column_stack([limit(others), np.full(n - 1, told.ball.eta)])
    rest = told.matrix - lifted.T @ lifted
    square, line = rest[0, 0] - limit(at) ** 2, rest[0, 1] - told.ball.eta * limit(at)
    after = before * np.exp(-(square**2 + 2 * line**2) / (2 * told.noise**2))
    near = np.abs(at - last) <= found["tolerance_x1"][-1] * (1 + 1e-9)
    assert found["baseline_x1"][-1] == pytest.approx(before[near].sum() / before.sum(), abs=1e-4)
    assert found["probability_x1"][-1] == pytest.approx(
        after[near].sum() / after.sum(), abs=5 * found["probability_error_x1"][-1] + 1e-3
    )
    here = np.argmin(np.abs(at - last))
    gain = np.log(after[here] / before[here]) - np.log(after.sum() / before.sum())
    assert found["information_gain"][-1] == pytest.approx(gain, abs=0.05)


@pytest.mark.usefixtures("seeded_noise")
def test_on_average_nobody_is_guessed_more_often_than_the_guarantee_allows(rng):
    """Over tables, noise and people: Φ(Φ⁻¹(π) + μ), and more than without the release."""
    means = []
    for _ in range(4):
        table = correlated(rng, 30, 2)
        schema = {"columns": {f"x{j}": {"low": -8, "high": 8, "centre": 0, "spread": 1} for j in (1, 2)}}
        release = abo.Synthesizer(epsilon=20.0).fit(table, schema=schema).sample()
        found = risk_columns(abo.Records.of(table), release)
        means.append([np.mean(found[f"{key}_x1"]) for key in ("probability", "baseline", "bound")])
        mu, before = release.noisy.mu, found["baseline_x1"]
        assert np.allclose(found["bound_x1"], ndtr(ndtri(before) + mu))
    found, before, bound = np.mean(means, axis=0)
    assert before < found < bound
    assert norm.cdf(norm.ppf(before) + mu) >= bound  # concave


def declared_x():
    return {"columns": {"x1": {"low": -8, "high": 8, "centre": 0, "spread": 1}}}


def wide_x():
    return {"columns": {"x1": {}}}


def test_a_release_states_its_guarantee_and_comes_back(rng, tmp_path):
    table = correlated(rng, 80, 2)
    schema = {"columns": {f"x{j}": {"low": -8, "high": 8, "decimals": 1} for j in (1, 2)}}
    release = abo.Synthesizer(epsilon=20.0).fit(table, schema=schema).sample(datasets=2, rows=[5, 7])
    abo.save_release(release, tmp_path / "r")
    told = json.loads((tmp_path / "r" / "release.json").read_text())
    stated = told["guarantee"]
    assert (stated["delta"], stated["people"], stated["weight"]) == (1e-6, 80, 1.0)
    assert 19.99 < stated["epsilon"] <= 20.0
    assert "replaced" in stated["adjacency"]
    assert "OpenDP" in told["mechanism"]
    assert stated["limits"]["x1"]["low"] == -8
    back = abo.load_release(tmp_path / "r")
    assert np.array_equal(back.noisy.matrix, release.noisy.matrix)
    assert back.rows == (5, 7)
    assert all(np.array_equal(*pair) for pair in zip(back.values, release.values, strict=True))
    more = back.draw_more(datasets=3, rows=4)
    assert more.rows == (4, 4, 4)
    assert "x2" in repr(abo.fidelity(table, tmp_path / "r"))
    assert "probability_x2" in abo.risk(table, tmp_path / "r").column_names
    with pytest.raises(abo.InputError, match="made with a guarantee"):
        abo.attack(table, tmp_path / "r", rows="all", prior=abo.NIW.flat(2))


@pytest.mark.usefixtures("seeded_noise")
def test_intervals_from_several_datasets_know_of_the_noise(rng):
    """Between datasets: as wide as the posterior; within a dataset nobody sees the noise."""
    table, schema = correlated(rng, 200, 1), declared_x()
    release = abo.Synthesizer(epsilon=1.0).fit(table, schema=schema).sample(datasets=150)
    found = abo.combine(release, people=200)
    drawn, _, _ = draw(release.noisy, 2000, rng)
    assert found.rule == "between"
    assert np.sqrt(found.variance[0]) == pytest.approx(np.std(drawn), rel=0.35)
    assert np.std(drawn) > 1.3 / np.sqrt(200)
    with pytest.raises(abo.InputError, match="noise differs between datasets"):
        abo.combine(release, people=200, rule="within")
    with pytest.raises(abo.InputError, match=r"draw_more\(datasets=100\)"):
        abo.combine(release.draw_more(datasets=1), people=200)


def test_values_outside_the_limits_are_brought_inside(rng):
    table = correlated(rng, 80, 1)
    far = table.copy()
    far[0] = 1e300
    ball = ball_for(1, 80, 1.0)
    table[0] = 8.0
    assert np.array_equal(ball.inside(far), ball.inside(table))
    schema = {"columns": {"x1": {"low": 0.5, "high": 50.0, "scale": "log"}}}
    release = abo.Synthesizer(epsilon=2.0).fit(np.exp(np.minimum(far, 100)), schema=schema).sample()
    assert 0.5 <= release.values[0].min() <= release.values[0].max() <= 50.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0}, "exceed 0"),
        ({"epsilon": np.nan}, "exceed 0"),
        ({"delta": 0.02}, r"below 1/50"),
        ({"low": -np.inf}, "no low and high to x1"),
        ({"scale": "log", "low": 0.0}, "limits nothing"),
        ({"low": -3.0, "high": 3.0}, "the table's own extremes"),
        ({"complete_cases": True}, "nothing may depend on the table"),
    ],
)
def test_bad_input_is_refused_in_one_line(rng, change, message):
    table = np.clip(rng.standard_normal((50, 1)), -2.9, 2.9)
    table[:2, 0] = -3.0, 3.0
    asked = {"epsilon": 3.0, "delta": 1e-6} | {k: v for k, v in change.items() if k in ("epsilon", "delta")}
    column = {"low": -8.0, "high": 8.0} | {k: v for k, v in change.items() if k in ("low", "high", "scale")}
    how = {k: v for k, v in change.items() if k == "complete_cases"}
    with pytest.raises(abo.InputError, match=message) as caught:
        abo.Synthesizer(**asked).fit(table, schema={"columns": {"x1": column}}, **how)
    assert "\n" not in str(caught.value)


def test_a_score_may_use_all_of_its_range(rng):
    """From 1 to 5, and many at both ends: the limits are the score's own, whatever the table."""
    scores = rng.integers(1, 6, size=(100, 1)).astype(float)
    schema = {"columns": {"x1": {"low": 1, "high": 5}}}
    assert abo.Synthesizer(epsilon=1.0).fit(scores, schema=schema).noisy.people == 100


def test_gaps_and_what_is_not_declared_have_no_guarantee(rng):
    frame = pa.table({"x1": [1.0, None, *rng.normal(20, 3, 20)], "sex": ["f", "m"] * 11})
    schema = {"columns": {"x1": {"low": 0, "high": 50}, "sex": {"kind": "category", "levels": ["f", "m"]}}}
    with pytest.raises(abo.InputError, match="x1"):
        abo.Synthesizer(epsilon=1.0).fit(frame, schema=schema)
    whole = frame.slice(2)
    with pytest.raises(abo.InputError, match="sex"):
        abo.Synthesizer(epsilon=1.0).fit(whole, schema={"columns": {"x1": {"low": 0, "high": 50}}})
    schema["columns"]["sex"].pop("levels")
    with pytest.raises(abo.InputError, match="public levels"):
        abo.Synthesizer(epsilon=1.0).fit(whole, schema=schema)


def test_without_opendp_it_is_said_how_to_install_it(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    private_mechanism._gaussian.cache_clear()
    with pytest.raises(abo.InputError, match=r"allbutone\[dp\]"):
        abo.Synthesizer(epsilon=1.0).fit(correlated(rng, 50, 1), schema=declared_x())


@pytest.mark.parametrize("p", [2, 5])
def test_what_can_be_fitted_can_be_drawn_from_and_what_cannot_costs_nothing(p, monkeypatch):
    monkeypatch.setattr(noise_aware, "MOST_SWEEPS", 16)
    monkeypatch.setattr(noise_aware, "FIRST_SWEEPS", 16)
    names = tuple("abcde"[:p])
    declared = {"columns": {name: {"low": -5.0, "high": 5.0} for name in names}}
    values = np.random.default_rng(0).normal(size=(2 * p + 3, p))
    least = max(p + 3, 2 * p)
    synthesizer = abo.Synthesizer(epsilon=1.0)
    with pytest.raises(abo.InputError, match="too few") as refused:
        synthesizer.fit(abo.Records(values[: least - 1], names), schema=declared)
    assert "no ε was spent" in refused.value.problem
    assert "not fitted" in repr(synthesizer)
    drawn = synthesizer.fit(abo.Records(values[:least], names), schema=declared).sample(datasets=1, rows=4)
    assert drawn.rows == (4,)
