"""A small clinical table with categories, and what it means that two tables of records are the same."""

import numpy as np


def clinic(rng, n=60):
    """Return a table of two measurements among four categories."""
    return {
        "sex": rng.permutation(["f", "m"] * (n // 2)).tolist(),
        "age": rng.normal(60, 10, n).round(1).tolist(),
        "treated": rng.permutation([True, False] * (n // 2)).tolist(),
        "arm": rng.permutation([1, 2] * (n // 2)).tolist(),
        "bili": rng.normal(3, 1, n).round(2).tolist(),
        "stage": rng.permutation(["I", "II", "III"] * (n // 3)).tolist(),
    }


def require_same(one, two):
    """Require that two tables of records hold the same."""
    assert (one.columns, one.order) == (two.columns, two.order)
    assert (one.categories.columns, one.categories.levels) == (two.categories.columns, two.categories.levels)
    np.testing.assert_array_equal(one.categories.codes, two.categories.codes)
    np.testing.assert_array_equal(one.values, two.values)
