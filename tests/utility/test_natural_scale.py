"""Tails that the scale of the model hides are seen in natural units; a right model is seldom accused."""

from math import comb

import numpy as np
import polars as pl
import pytest

import allbutone as abo
from allbutone.reports.findings import fidelity_finding

ON_LOG = {"columns": {"receptor": {"scale": "log"}}}


def compared(values, rng, datasets=1, schema=ON_LOG, columns=("receptor", "age")):
    records = abo.Records.of(pl.DataFrame(values, schema=list(columns)), schema=schema)
    synthesizer = abo.Synthesizer().fit(records)
    return abo.fidelity(records, synthesizer.sample(datasets=datasets, rng_for_tests=rng))


@pytest.mark.parametrize("datasets", [1, 5])
def test_absurd_extremes_and_spreads_are_named(datasets):
    rng = np.random.default_rng(7)
    values = np.column_stack([np.exp(rng.uniform(0, 7, 400)), rng.normal(50, 10, 400)])  # none above 1,097
    found = compared(values, rng, datasets)
    assert found.beyond_noise().spreads == ()  # on the scale of the model all is well
    (tail,) = found.beyond_noise().tails
    reached = np.median(found.natural.synthetic_ends[:, 1, 0])
    assert reached > 5 * values[:, 0].max()
    assert f"reaches {reached:,.0f}" in tail
    assert f"the highest real value is {values[:, 0].max():,.0f}" in tail
    finding = fidelity_finding(found)
    assert finding.against
    assert "the extremes: receptor reaches" in finding.words
    assert f"SD {np.median(found.natural.spread_ratios[:, 0]):.3g} times the real" in tail


def test_a_spread_that_differs_in_natural_units_is_named():
    """On the log scale the SD is that of the model, whatever the shape is; in natural units it is another."""
    rng = np.random.default_rng(2)
    values = np.column_stack([np.exp(-rng.exponential(1, 3000)), rng.normal(50, 10, 3000)])
    far = compared(values, rng, 4).beyond_noise()
    assert far.spreads == ()
    (spread,) = far.natural_spreads
    assert spread.startswith("receptor (")


def test_the_ends_and_spreads_are_their_definitions(rng):
    values = np.column_stack([np.exp(rng.normal(0, 1, 80)), rng.normal(50, 10, 80)])
    records = abo.Records.of(pl.DataFrame(values, schema=["receptor", "age"]), schema=ON_LOG)
    release = abo.Synthesizer().fit(records).sample(datasets=3, rows=50, rng_for_tests=rng)
    found = abo.fidelity(records, release).natural
    data = np.stack([np.asarray(each) for each in release.values])
    np.testing.assert_allclose(found.ends, [values.min(axis=0), values.max(axis=0)])
    np.testing.assert_allclose(found.synthetic_ends[:, 1], data.max(axis=1))
    np.testing.assert_allclose(found.spread_ratios, data.std(axis=1, ddof=1) / values.std(axis=0, ddof=1))
    np.testing.assert_array_equal(found.beyond[1], (data > values.max(axis=0)).sum(axis=(0, 1)))
    np.testing.assert_array_equal(found.real_beyond[0], (values < data.min(axis=(0, 1))).sum(axis=0))


@pytest.mark.parametrize(("within", "beyond"), [(100, 100), (50, 500), (500, 50), (30, 2)])
def test_chance_puts_so_many_values_beyond_all_others(rng, within, beyond):
    """Of two samples the j furthest are all of the second in C(m, j) of C(n + m, j) cases."""
    found = compared(np.column_stack([np.exp(rng.normal(0, 1, 40)), rng.normal(0, 1, 40)]), rng).natural
    cases = [comb(beyond, j) / comb(within + beyond, j) for j in range(beyond + 1)]
    level = 0.01 / (2 * 2 * 2)  # two columns, two ends, either table beyond the other
    assert found._by_chance(within, beyond) == max(j for j, chance in enumerate(cases) if chance > level)


@pytest.mark.parametrize(("spread", "datasets"), [(0.5, 1), (1.5, 1), (1.5, 8)])
def test_a_right_model_is_hardly_ever_accused_of_its_tails(spread, datasets):
    rng = np.random.default_rng(11)
    accused = 0
    for _ in range(20):
        values = np.column_stack([np.exp(rng.normal(0, spread, 120)), rng.normal(50, 10, 120)])
        far = compared(values, rng, datasets).beyond_noise()
        accused += bool(far.tails or far.natural_spreads)
    assert accused <= 3  # of 20, each at 1 in 50 or less


def test_a_tail_that_is_cut_off_is_named_too():
    rng = np.random.default_rng(3)
    values = np.column_stack([rng.standard_t(2.2, 2000), rng.normal(0, 1, 2000)])
    values[:, 0] = np.where(values[:, 0] > 0, values[:, 0], -0.1 * np.abs(values[:, 0]))
    (*_, tail) = compared(values, rng, 3, schema=None).beyond_noise().tails
    assert tail.startswith("receptor ends at")
    assert "real values beyond" in tail
