"""Leverage in the engine: the same counts, the same worst records and the same leverages as in memory."""

import numpy as np
import pyarrow as pa
import pytest

import allbutone as abo
from allbutone.disclosure.exposure_law import leverages
from allbutone.disclosure.standing import standing_out
from allbutone.model.moments import Moments
from allbutone.support.errors import InputError
from allbutone.tables.engines.lazy_records import LazyRecords
from engines import ENGINES, lazily


def a_cohort(rng, n=500, outlier=0.0):
    """Return values at mean 1e6, one of them `outlier` standard deviations away, and a table with a key."""
    values = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + 1e6
    values[17] += outlier * values.std(axis=0) * [1, -1, 1]
    names = {f"m{place}": values[:, place] for place in range(3)}
    return values, pa.table({"person": [f"p{row}" for row in range(n)], **names})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("outlier", [0.0, 300.0])
def test_counts_and_worst_records(engine, outlier, rng, tmp_path, request):
    values, table = a_cohort(rng, outlier=outlier)
    lazy = LazyRecords.of(lazily(engine, table, tmp_path, request), drop="person")
    prior = abo.NIW.flat(3)
    found, leverage = standing_out(lazy, prior, most=40, key="person"), leverages(values, prior)
    order = np.argsort(-leverage)[:40]
    assert found.keys == tuple(f"p{row}" for row in order)
    np.testing.assert_allclose(found.leverage, leverage[order], rtol=1e-8)
    np.testing.assert_allclose(found.records.values, values[order], rtol=1e-15)
    assert found.above.tolist() == [int((leverage > step).sum()) for step in found.ladder]
    assert found.others == len(values) - 40
    rest = Moments.of(np.delete(values, order, axis=0))
    spread = np.sqrt(np.diagonal(rest.scatter))
    assert np.abs((found.elsewhere.scatter - rest.scatter) / np.outer(spread, spread)).max() < 1e-8
    assert found.elsewhere.count == rest.count


def test_all_records_may_be_fetched(rng, tmp_path, request):
    values, table = a_cohort(rng, 20)
    lazy = LazyRecords.of(lazily("polars", table, tmp_path, request), drop="person")
    found = standing_out(lazy, abo.NIW.flat(3))
    assert found.others == 0
    np.testing.assert_allclose(np.sort(found.leverage), np.sort(leverages(values, abo.NIW.flat(3))), rtol=1e-8)


def test_a_key_that_is_not_there_is_refused(rng, tmp_path, request):
    lazy = LazyRecords.of(lazily("polars", a_cohort(rng, 20)[1], tmp_path, request), drop="person")
    with pytest.raises(InputError, match="no column 'nobody'"):
        standing_out(lazy, abo.NIW.flat(3), key="nobody")


def test_taking_records_out_is_the_inverse_of_merging(rng):
    some, rest = (Moments.of(rng.normal(1e8, 1, size=(n, 4))) for n in (30, 50))
    left = some.merge(rest).without(some)
    assert left.count == rest.count
    assert np.abs((left.mean - rest.mean) + (left.mean_tail - rest.mean_tail)).max() < 1e-10
    np.testing.assert_allclose(left.scatter, rest.scatter, rtol=1e-10, atol=1e-10 * rest.scatter.max())
    with pytest.raises(InputError, match="cannot be taken out"):
        some.without(rest)
