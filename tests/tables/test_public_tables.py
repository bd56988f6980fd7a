"""Public tables, as they are: in by one command, and what comes out looks like them."""

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn import datasets

import allbutone as abo


def _sklearn(load, **options):
    frame = load(as_frame=True, **options).frame
    return frame.rename(columns=lambda name: name.replace("(", "").replace(")", "").replace("/", " per "))


def _clinical():
    """A table of the shape and with the faults of a liver registry: skewed values, codes, gaps, an identifier."""
    rng = np.random.default_rng(20)
    n, related = 418, 0.4 * np.ones((6, 6)) + 0.6 * np.eye(6)
    z = rng.multivariate_normal(np.zeros(6), related, n)
    table = pd.DataFrame(
        {
            "patient": np.arange(1, n + 1),
            "age": (50 + 10 * z[:, 0]).round(2),
            "sex": rng.choice(["m", "f"], n),
            "bili": np.exp(0.6 + z[:, 1]).round(1) + 0.1,
            "chol": np.exp(5.8 + 0.4 * z[:, 2]).round(),
            "albumin": (3.5 + 0.42 * z[:, 3]).round(2),
            "platelets": (262 + 90 * z[:, 4]).round(),
            "protime": np.exp(2.37 + 0.09 * z[:, 5]).round(1),
            "stage": rng.integers(1, 5, n),
            "entered": pd.date_range("2001-01-01", periods=n).astype(str),
        }
    )
    table.loc[rng.random(n) < 0.08, "chol"] = np.nan
    return table.assign(bili_umol=table.bili * 17.1)


def _body():
    """A table of the shape of body measurements: 507 people, 24 related columns, one that is a sum of others."""
    rng = np.random.default_rng(7)
    load = rng.uniform(0.4, 1, (3, 22))
    values = rng.standard_normal((507, 3)) @ load + rng.standard_normal((507, 22)) * 0.8
    table = pd.DataFrame((60 + 8 * values).round(1), columns=[f"girth_{place}" for place in range(1, 23)])
    return table.assign(total=table.girth_1 + table.girth_2, male=rng.integers(0, 2, 507))


TABLES = {
    "diabetes": lambda: _sklearn(datasets.load_diabetes, scaled=False),
    "breast cancer": lambda: _sklearn(datasets.load_breast_cancer),
    "iris": lambda: _sklearn(datasets.load_iris),
    "county cancer": lambda: sm.datasets.cancer.load_pandas().data,
    "election survey": lambda: sm.datasets.anes96.load_pandas().data,
    "affairs": lambda: sm.datasets.fair.load_pandas().data,
    "clinical": _clinical,
    "body": _body,
}


def _order(release):
    return release.order if isinstance(release, abo.Release) else release.columns


def _tables(release):
    """The synthetic tables as records, of whatever kind the release is."""
    if isinstance(release, abo.Release):
        return release.tables
    return [abo.Records(each, release.columns, schema=release.schema) for each in release.modelled]


def _require_alike(records, tables):
    """Require means, spreads, correlations and shares of levels as in the table, on average over many datasets.

    A limit moves the values drawn beyond it, so that a column which stands at one may be off by more; `synthesize`
    says of which.
    """
    natural = np.concatenate([each.natural for each in tables])
    moved = records.schema.clipped(natural) > 0.01
    allowed = np.where(moved, 0.3, 0.05)
    real, deviation = records.values.mean(axis=0), records.values.std(axis=0, ddof=1)
    means = np.mean([each.values.mean(axis=0) for each in tables], axis=0)
    spreads = np.mean([each.values.std(axis=0, ddof=1) for each in tables], axis=0)
    related = np.mean([np.corrcoef(each.values, rowvar=False) for each in tables], axis=0)
    assert np.all(np.abs(means - real) / deviation < allowed)
    assert np.all(np.abs(spreads / deviation - 1) < allowed)
    off = np.abs(related - np.corrcoef(records.values, rowvar=False))
    assert np.all(off < np.maximum(allowed, allowed[:, None]))
    for place, levels in enumerate(records.categories.levels):
        shares = np.bincount(records.categories.codes[:, place], minlength=len(levels)) / len(records.values)
        drawn = [np.bincount(each.categories.codes[:, place], minlength=len(levels)) for each in tables]
        assert np.max(np.abs(np.sum(drawn, axis=0) / np.sum(drawn) - shares)) < 0.05


@pytest.mark.parametrize("name", TABLES)
def test_a_public_table_goes_in_by_one_command_and_comes_out_alike(allbutone, tmp_path, name):
    table = TABLES[name]()
    table.to_csv("table.csv", index=False)
    assert allbutone("describe", "table.csv", "--out", "table.toml")[0] == 0
    code, _, errors = allbutone(
        "synthesize", "table.csv", "--table-file", "table.toml", "--complete-cases", "--datasets", "50",
        "--out", "release", "--repeat-key", "2338856a0e6a2bb72067d8a11d6270d6",
    )  # fmt: skip
    assert code == 0, errors
    release = abo.load_release("release")
    how = {"schema": release.schema, "complete_cases": True, "categories": True}
    records = abo.Records.of("table.csv", columns=_order(release), **how)
    _require_alike(records, _tables(release))
    for column, place in zip(release.schema.measurements, range(len(release.columns)), strict=True):
        assert all(column.allows(each.natural[:, place]).all() for each in _tables(release)), column.name
    kept = json.loads((tmp_path / "release" / "release.json").read_text())["columns"]
    assert len(kept) >= min(4, table.shape[1])


def test_a_table_with_every_fault_goes_in_without_a_table_file(allbutone):
    _clinical().to_csv("table.csv", index=False)
    code, _, errors = allbutone("synthesize", "table.csv", "--out", "release")
    assert code == 2
    assert "cannot be used" in errors
    code, _, errors = allbutone(
        "synthesize", "table.csv", "--out", "release", "--drop-unusable", "--complete-cases"
    )
    assert code == 0
    assert "--log bili" in errors  # what comes out negative is said, with the cure
