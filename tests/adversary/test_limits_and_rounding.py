"""Who attacks knows of limits and rounding: a released value tells between which values its draw lay."""

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr, logsumexp
from scipy.stats import kstest, norm, truncnorm

import allbutone as abo
from allbutone.adversary.gaps import GapAdversary, before_limits
from allbutone.disclosure.gap_risk import risk_with_gaps
from allbutone.disclosure.risk import risk_columns
from allbutone.model.incomplete import IncompleteRecords, draw_between
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.moments import Moments
from allbutone.releases.sampling import draw_tables
from allbutone.tables.column import column_from
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema
from cases import LONG

SCALES = {
    "low": {"low": 0.0},
    "high": {"high": 5.0},
    "both": {"low": 0.0, "high": 5.0},
    "whole numbers on a log scale": {"scale": "log", "decimals": 0},
}


def _table(what: str, rng: np.random.Generator) -> np.ndarray:
    """Return 25 people and one who is far out, in natural units, all within the limits."""
    others = rng.standard_normal(25)
    if what == "whole numbers on a log scale":
        return np.round(np.exp(np.append(0.8 + 0.6 * others, 3.4))).clip(1)
    middle, far = {"low": (1.2, 5.0), "high": (3.8, 0.0), "both": (1.5, 5.0)}[what]
    return np.append(middle + others, far).clip(0.0, None if what == "low" else 5.0)


def _log_between(low: np.ndarray, high: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return log P(low < draw < high) summed over draws, or log densities where both are the same."""
    total = np.zeros(np.broadcast_shapes(mean.shape, spread.shape))
    for below, above in zip(low, high, strict=True):
        if below == above:
            total += norm.logpdf(below, mean, spread)
            continue
        a, b = (below - mean) / spread, (above - mean) / spread
        mirrored = a + b > 0
        a, b = np.where(mirrored, -b, a), np.where(mirrored, -a, b)
        with np.errstate(divide="ignore"):
            total += log_ndtr(b) + np.log1p(-np.exp(log_ndtr(a) - log_ndtr(b)))
    return total


def _bounds_by_hand(what: str, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return between which values on the model's scale the draws lay, written out for each of the cases."""
    if what == "whole numbers on a log scale":
        return np.where(data <= 1, -np.inf, np.log(data - 0.5)), np.log(data + 0.5)
    low = np.where((data <= 0.0) & (what != "high"), -np.inf, data)
    return low, np.where((data >= 5.0) & (what != "low"), np.inf, data)


def _by_quadrature(
    others: np.ndarray, seen: list[tuple[np.ndarray, np.ndarray]], inside: tuple[float, float]
) -> float:
    """Return the adversary's probability of an interval for the missing value, by sums over a grid.

    p(x | others, Z) ∝ p(x | others)·Π_j ∫ P(Z_j | θ)·p(θ | others, x) dθ, with the flat prior on (μ, log σ).
    """
    middle, width = others.mean(), others.std(ddof=1)
    mean = middle + width * np.linspace(-1.6, 1.6, 61)[:, None]
    spread = width * np.exp(np.linspace(-0.8, 0.9, 61))
    told = [_log_between(low, high, mean, spread) for low, high in seen]
    with_others = norm.logpdf(others[:, None, None], mean, spread).sum(axis=0)
    span = 14 * width
    places = np.linspace(middle - span, middle + span, 401)
    heights = []
    for place in places:
        known = with_others + norm.logpdf(place, mean, spread)
        whole = logsumexp(known)
        heights.append(whole + sum(logsumexp(known + each) - whole for each in told))
    density = np.exp(np.array(heights) - np.max(heights))
    area = np.append(0.0, np.cumsum((density[1:] + density[:-1]) / 2)) * (places[1] - places[0])
    below, above = np.interp(inside, places, area)
    return float((above - below) / area[-1])


@pytest.mark.parametrize("what", SCALES)
def test_the_probability_of_a_value_is_that_of_an_adversary_who_knows_of_limits_and_rounding(what: str) -> None:
    values = _table(what, np.random.default_rng(3))
    schema = {"columns": {"x": SCALES[what]}}
    records = Records.of(pandas.DataFrame({"x": values}), schema=schema)
    fitted = abo.Synthesizer().fit(records)
    release = fitted.sample(datasets=6, rows=30, rng_for_tests=np.random.default_rng(2))
    found = risk_columns(records, release, rng=np.random.default_rng(0))
    model, tolerance = records.values[:, 0], found["tolerance_x"][-1]
    natural = np.array([values[-1] - tolerance, values[-1] + tolerance])
    if what == "whole numbers on a log scale":
        reach = 0.5 * 26 / 25 * abs(model[-1] - model.mean())
        ends = model[-1] - reach, model[-1] + reach
        np.testing.assert_allclose(np.exp(ends[1]) - values[-1], tolerance)
    else:
        ends = tuple(natural)
    seen = [_bounds_by_hand(what, each[:, 0]) for each in release.values]
    expected = _by_quadrature(model[:-1], seen, ends)
    error = found["probability_error_x"][-1]
    assert abs(found["probability_x"][-1] - expected) < 5 * error + 0.01
    # what was stated where limited values were taken for drawn ones
    taken_for_drawn = abo.Release.of(
        [records.schema.to_model(each) for each in release.values], ["x"], release.prior
    )
    naive = risk_columns(Records(records.values, ("x",)), taken_for_drawn, rng=np.random.default_rng(0))
    assert abs(naive["probability_x"][-1] - expected) > 0.05


@given(
    value=st.integers(-40, 40),
    decimals=st.sampled_from([None, 0, 1, -1]),
    scale=st.sampled_from(["as it is", "log", "sqrt", "log(x + 1)"]),
)
def test_a_draw_lies_within_the_bounds_that_its_released_value_tells(
    value: int, decimals: int | None, scale: str
) -> None:
    entries = {"low": 0.5 if scale == "log" else 0.0, "high": 30.0, "scale": scale} | (
        {} if decimals is None else {"decimals": decimals}
    )
    column = column_from("x", entries)
    drawn = np.linspace(-3, 6, 37) if scale.startswith("log") else np.linspace(-8, 8, 37) + value / 10
    released = Schema((column,)).released(drawn[:, None])[:, 0]
    low, high = column.drawn_between(released)
    slack = 1e-9 * (1 + np.abs(drawn))
    assert np.all(low <= drawn + slack)
    assert np.all(drawn <= high + slack)
    assert np.all(np.isinf(low) == (released == column.bounds[0]))
    assert np.all(np.isinf(high) == (released == column.bounds[1]))
    if decimals is None:
        inner = np.isfinite(low) & np.isfinite(high)
        np.testing.assert_allclose(low[inner], high[inner])


@pytest.mark.parametrize("bounds", [(-1.0, 0.5), (-np.inf, -2.0), (3.0, np.inf), (30.0, 31.0), (-50.0, -45.0)])
def test_draws_between_bounds_are_normal_there(bounds: tuple[float, float]) -> None:
    low, high = (np.array([each]) for each in bounds)
    drawn = draw_between(np.zeros(4000), np.ones(1), low, high, np.random.default_rng(5))
    assert np.all((drawn >= low) & (drawn <= high))
    if abs(bounds[0]) < 20 or np.isinf(bounds[0]):
        assert kstest(drawn, truncnorm(*bounds).cdf).pvalue > 1e-4
    else:  # in a far tail the distance from the nearer bound is nearly exponential
        near = min(map(abs, bounds))
        assert np.mean(np.abs(drawn) - near) == pytest.approx(1 / near, rel=0.1)


def _two_columns(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((12, 2)) @ np.array([[1.0, 0.0], [0.6, 0.8]]).T


def test_two_columns_agree_with_weighing_draws_of_the_parameters() -> None:
    """p(Z ∈ box | θ) averaged over draws of θ given the others and each candidate: no chain, no Student t's."""
    rng = np.random.default_rng(8)
    values = np.vstack([_two_columns(rng), [3.2, 3.0]]).clip(-0.7, None)
    schema = {"columns": {"a": {"low": -0.7}, "b": {"decimals": 0, "low": -1.0}}}
    values[:, 1] = np.round(values[:, 1])
    table = pandas.DataFrame(values, columns=["a", "b"])
    records = Records.of(table, schema=schema)
    release = abo.Synthesizer().fit(records).sample(datasets=2, rows=6, rng_for_tests=np.random.default_rng(1))
    found = risk_columns(records, release, rng=np.random.default_rng(0))
    boxes = [records.schema.drawn_between(each) for each in release.values]
    # draws of θ given the others alone; a candidate x weighs them by N(x; θ)
    posterior = abo.NIW.flat(2).update(values[:-1])
    means, covariances = posterior.draw(rng, 8_000)
    told = np.stack([_log_boxes(low, high, means, covariances, rng) for low, high in boxes])
    grid = np.linspace(-9, 13, 45)
    first, second = (each.ravel() for each in np.meshgrid(grid, grid, indexing="ij"))
    at = _log_normal(np.stack([first, second], axis=1), means, covariances)
    whole = logsumexp(at, axis=1)
    heights = whole + sum(logsumexp(at + each, axis=1) - whole for each in told)
    weights = np.exp(heights - heights.max())
    for name, axis, truth in (("a", first, 3.2), ("b", second, 3.0)):
        step = grid[1] - grid[0]
        reach = found[f"tolerance_{name}"][-1]
        share = np.clip((reach + step / 2 - np.abs(axis - truth)) / step, 0, 1)  # cells at the edge count in part
        expected = np.sum(weights * share) / np.sum(weights)
        assert found[f"probability_{name}"][-1] == pytest.approx(expected, abs=0.03)


def test_three_columns_agree_with_weighing_draws_of_the_parameters() -> None:
    """After one dataset P(x in I | Z) = E[P(x in I | θ)·p(Z | θ)]/E[p(Z | θ)], over θ given the others.

    Draws of θ as if limited values had been drawn where they stand are weighed by P(a < low | b, c, θ) over the
    density there.
    """
    rng, low = np.random.default_rng(5), 0.0
    mixing = np.array([[1.0, 0, 0], [0.8, 0.6, 0], [0.7, -0.3, 0.6]])
    values = np.vstack([rng.standard_normal((15, 3)) @ mixing.T, [4.5, 2.5, 0.5]])
    values[:, 0] = values[:, 0].clip(low)
    records = Records.of(pandas.DataFrame(values, columns=list("abc")), schema={"columns": {"a": {"low": low}}})
    release = abo.Synthesizer().fit(records).sample(datasets=1, rows=30, rng_for_tests=np.random.default_rng(2))
    found = risk_columns(records, release, rng=np.random.default_rng(0))
    (data,) = release.values
    means, covariances = abo.NIW.flat(3).update(np.vstack([values[:-1], data])).draw(rng, 300_000)
    slope = np.linalg.solve(covariances[:, 1:, 1:], covariances[:, 1:, :1])[..., 0]
    spread = np.sqrt(covariances[:, 0, 0] - np.sum(slope * covariances[:, 1:, 0], axis=1))
    log_weights = np.zeros(len(means))
    for row in data[data[:, 0] == low]:
        away = (low - means[:, 0] - np.sum(slope * (row[1:] - means[:, 1:]), axis=1)) / spread
        log_weights += log_ndtr(away) - norm.logpdf(away) + np.log(spread)
    weights = np.exp(log_weights - logsumexp(log_weights))
    widths = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    for place, name in enumerate("abc"):
        reach, off = found[f"tolerance_{name}"][-1], values[-1, place] - means[:, place]
        inside = norm.cdf((off + reach) / widths[:, place]) - norm.cdf((off - reach) / widths[:, place])
        expected = weights @ inside
        error = np.hypot(np.linalg.norm(weights * (inside - expected)), found[f"probability_error_{name}"][-1])
        assert abs(found[f"probability_{name}"][-1] - expected) < 4 * error
        if name == "a":  # what was stated where limited values were taken for drawn ones
            taken_for_drawn = abo.Release.of(release.values, release.columns, release.prior)
            naive = risk_columns(Records(records.values, tuple("abc")), taken_for_drawn)
            assert abs(naive["probability_a"][-1] - expected) > 4 * error


def _log_normal(points: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Return the log densities of points under many normals of two columns: (points, normals)."""
    precision = np.linalg.inv(covariances)
    (a, b), c = precision[:, 0].T, precision[:, 1, 1]
    one, two = (points[:, place, None] - means[:, place] for place in (0, 1))
    squared = a * one**2 + 2 * b * one * two + c * two**2
    return -0.5 * squared - 0.5 * np.linalg.slogdet(covariances)[1]


def _log_boxes(
    low: np.ndarray, high: np.ndarray, means: np.ndarray, covariances: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return log P(all rows in their boxes | θ): the second column by the normal's integral along the first."""
    total = np.zeros(len(means))
    for (low_a, low_b), (high_a, high_b) in zip(low, high, strict=True):
        slope = covariances[:, 0, 1] / covariances[:, 0, 0]
        spread = np.sqrt(covariances[:, 1, 1] - slope * covariances[:, 0, 1])
        if low_a == high_a:
            places = np.full((len(means), 1), low_a)
            weights = norm.pdf(low_a, means[:, :1], covariances[:, 0, :1] ** 0.5)
        else:
            start = norm.cdf(low_a, means[:, 0], covariances[:, 0, 0] ** 0.5)
            end = norm.cdf(high_a, means[:, 0], covariances[:, 0, 0] ** 0.5)
            shares = start[:, None] + (end - start)[:, None] * (np.arange(16) + 0.5) / 16
            places = norm.ppf(shares, means[:, :1], covariances[:, 0, :1] ** 0.5)
            weights = np.broadcast_to((end - start)[:, None] / 16, places.shape)
        centre = means[:, 1:] + slope[:, None] * (places - means[:, :1])
        inside = norm.cdf(high_b, centre, spread[:, None]) - norm.cdf(low_b, centre, spread[:, None])
        total += np.log(np.sum(weights * inside, axis=1) + 1e-300)
    return total


@pytest.mark.parametrize("sizes", [(), (2,)], ids=["measurements", "a category"])
def test_regions_hold_the_truth_as_often_as_they_say(sizes: tuple[int, ...]) -> None:
    """Of tables drawn from the prior, regions of 50, 80 and 95 % hold each record so often.

    Given the others, each record of such a table comes from the adversary's own predictive.
    """
    rng, depth = np.random.default_rng(41), []
    prior = LocationModel.prior(sizes, abo.NIW(np.zeros(2), 1.0, 6.0, 3 * np.eye(2)), weight=2.0)
    for _ in range(40 if LONG else 5):
        (whole,), _ = draw_tables([prior], [40], rng)
        codes = prior.cells.codes[whole.cells]
        records = IncompleteRecords.of(codes, whole.values)
        drawn, _ = draw_tables([prior.update(whole)] * 3, [40] * 3, rng)
        datasets = []
        for each in drawn:  # the first column has a limit, the second is rounded to whole numbers
            first = each.values[:, 0].clip(-0.5)
            second = np.round(each.values[:, 1])
            low = np.stack([np.where(first == -0.5, -np.inf, first), second - 0.5], axis=1)
            bounds = low, np.stack([first, second + 0.5], axis=1)
            values = np.stack([first, second], axis=1)
            datasets.append(IncompleteRecords.of(prior.cells.codes[each.cells], values, None, *bounds))
        adversary = GapAdversary.of(records, prior, rng, datasets=datasets, chains=8, draws=8)
        depth.append(risk_with_gaps(adversary, rng).more_probable)
    depth = np.concatenate(depth)
    for share in (0.5, 0.8, 0.95):
        error = (share * (1 - share) / len(depth)) ** 0.5
        # records of one table are not independent: twice the variance
        assert abs(np.mean(depth < share) - share) < 3 * 2**0.5 * error


def test_a_draw_before_limits_is_within_the_bounds_and_otherwise_the_release() -> None:
    rng = np.random.default_rng(2)
    values = (rng.standard_normal((40, 2)) + 0.5).clip(0.0)
    schema = {"columns": {"a": {"low": 0.0}}}
    fitted = abo.Synthesizer().fit(pandas.DataFrame(values, columns=["a", "b"]), schema=schema)
    release = fitted.sample(datasets=2, rng_for_tests=rng)
    mechanism = release.mechanism
    drawn = before_limits(release, mechanism.prior.plus(MixedRecords.of(np.zeros(40), values)))
    for before, after in zip(drawn.normal.datasets, release.values, strict=True):
        limited = (after == 0.0) & [True, False]
        assert limited.any()
        assert np.all(before[limited] < 0.0)
        np.testing.assert_array_equal(before[~limited], after[~limited])


def test_fine_rounding_changes_nothing() -> None:
    rng = np.random.default_rng(6)
    values = 100 + 15 * rng.standard_normal((50, 2))
    table = pandas.DataFrame(values.round(1), columns=["a", "b"])
    schema = {"columns": {"a": {"decimals": 1}, "b": {"decimals": 1}}}
    fitted = abo.Synthesizer().fit(table, schema=schema)
    release = fitted.sample(datasets=2, rng_for_tests=rng)
    found = abo.risk(table, release, mass=False, rng=np.random.default_rng(0))
    exact = abo.Release.of(release.values, release.columns, release.prior)
    plain = abo.risk(table, exact, mass=False, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(found["probability_a"], plain["probability_a"])


def test_whole_numbers_of_nearly_collinear_columns_reveal_nobody_who_is_not_there() -> None:
    rng = np.random.default_rng(12)
    first = 3 + rng.standard_normal(80)
    values = np.round(first[:, None] + 0.2 * rng.standard_normal((80, 4))).clip(0, 6)
    columns = pandas.DataFrame(values, columns=list("abcd"))
    schema = {"columns": {name: {"decimals": 0, "low": 0.0, "high": 6.0} for name in columns}}
    release = abo.Synthesizer().fit(columns, schema=schema).sample(datasets=3, rng_for_tests=rng)
    records = Records.of(columns, schema=schema)
    found = risk_columns(records, release, mass=False, rng=np.random.default_rng(0))
    taken_for_drawn = abo.Release.of(release.values, release.columns, release.prior)
    plain, how = Records(records.values, records.columns), {"mass": False, "rng": np.random.default_rng(0)}
    naive = risk_columns(plain, taken_for_drawn, **how)
    whole = release.prior.update(records.values)
    before = abo.Release.draw(
        whole, [80] * 3, np.random.default_rng(1), columns=records.columns, prior=release.prior
    )
    unrounded = risk_columns(plain, before, **how)
    right, wrong, most = (float(np.mean(each["information_gain"])) for each in (found, naive, unrounded))
    # who takes rounded values for drawn ones comes to believe what is not so
    assert wrong < 0 < right < most
    assert np.sum(found["disclosed"]) <= np.sum(unrounded["disclosed"])


def test_further_records_are_known_in_the_columns_that_are_not_lacking() -> None:
    """Moments of records that are elsewhere count as the records do, with limits and lacking columns, too."""
    rng = np.random.default_rng(9)
    values = (rng.standard_normal((60, 3)) + 0.7).clip(0.0)
    schema = {"columns": {"a": {"low": 0.0}}}
    fitted = abo.Synthesizer().fit(pandas.DataFrame(values, columns=list("abc")), schema=schema)
    release = fitted.sample(datasets=2, rng_for_tests=rng)
    who = abo.Adversary(lacking_columns=["b"])
    near = {"adversary": who, "mass": False, "rng": np.random.default_rng(0)}
    here = Records(values[:20], tuple("abc"), schema=release.schema)
    found = risk_columns(here, release, elsewhere=Moments.of(values[20:]), **near)
    whole = risk_columns(Records(values, tuple("abc"), schema=release.schema), release, **near)
    errors = 5 * np.hypot(found["probability_error_a"], whole["probability_error_a"][:20]) + 0.01
    assert np.all(np.abs(found["probability_a"] - whole["probability_a"][:20]) < errors)
