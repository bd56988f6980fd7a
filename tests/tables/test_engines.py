"""Tables that stay in their engine: the same moments and refusals everywhere, and what comes back."""

import re

import numpy as np
import pyarrow as pa
import pytest

import allbutone as abo
from allbutone.disclosure.standing import standing_out_in_cells
from allbutone.model.moments import Moments
from allbutone.support.errors import InputError
from allbutone.tables.engines import queries
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records
from engines import ENGINES, lazily

DECLARED = {
    "columns": {
        "skewed": {"scale": "log"},
        "share": {"scale": "logit", "low": 0.0, "high": 2.0},
        "score": {"scale": "quantiles", "quantiles": [[0.1, -1.3], [0.4, -0.2], [0.9, 1.2]], "missing": [-999.0]},
        "root": {"scale": "sqrt", "low": 0.0},
        "site": {"kind": "category", "levels": ["north", "south", "west"]},
        "code": {"kind": "category"},
    }
}


def a_table(rng, n=400):
    """Every scale, gaps of every kind, two categories, and a column at mean 1e8 with unit spread."""
    far, skewed = rng.normal(1e8, 1, n), np.exp(rng.normal(size=n))
    columns = {
        "person": pa.array(rng.permutation(n) + 7),
        "far": pa.array(far, mask=rng.random(n) < 0.05),
        "skewed": pa.array(skewed),
        "share": pa.array(2 / (1 + np.exp(-rng.normal(size=n)))),
        "score": pa.array(np.where(rng.random(n) < 0.05, -999.0, rng.normal(size=n))),
        "root": pa.array(np.where(rng.random(n) < 0.02, np.nan, rng.gamma(2, size=n))),
        "whole": pa.array(rng.integers(20, 90, n)),
        "site": pa.array(rng.choice(["north", "south"], n), mask=rng.random(n) < 0.02),
        "code": pa.array(rng.integers(1, 4, n)),
    }
    return pa.table(columns)


def scaled(difference, moments):
    spread = np.sqrt(np.diagonal(moments.scatter))
    return np.abs(difference / np.outer(spread, spread)).max()


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


def test_moments_are_those_of_the_records_themselves(engine, rng, tmp_path, request):
    table = a_table(rng)
    if engine == "dask":  # slow to begin with each of its many small tasks
        table = table.select(["person", "far", "score", "code"])
    how = {"drop": "person", "schema": DECLARED, "complete_cases": True, "categories": True}
    lazy, records = LazyRecords.of(lazily(engine, table, tmp_path, request), **how), Records.of(table, **how)
    found, expected = Moments.of(lazy), Moments.of(records.values)
    assert (len(lazy), lazy.columns, lazy.order) == (len(records.values), records.columns, records.order)
    assert found.count == expected.count < len(table)
    spread = np.sqrt(np.diagonal(expected.scatter) / expected.count)
    apart = (found.mean - expected.mean) + (found.mean_tail - expected.mean_tail)
    assert np.abs(apart / spread).max() < 1e-10
    assert scaled(found.scatter - expected.scatter, expected) < 1e-10
    assert lazy.categories.levels == records.categories.levels
    cells, counts = np.unique(records.categories.codes, axis=0, return_counts=True)
    assert np.array_equal(lazy.sums.codes, cells)
    assert np.array_equal(lazy.sums.count, counts)


def test_only_sums_come_back(rng, tmp_path, request, monkeypatch):
    answers = []
    usual = queries.ask

    def watched(frame):
        answers.append(usual(frame))
        return answers[-1]

    for room in ("gate", "queries", "lazy_records"):
        monkeypatch.setattr(f"allbutone.tables.engines.{room}.ask", watched)
    table = a_table(rng).drop_columns(["person", "site", "code"])
    how = {"schema": DECLARED, "complete_cases": True}
    abo.Synthesizer().fit(lazily("duckdb", table, tmp_path, request), **how)
    p = table.num_columns
    assert [len(answer) for answer in answers] == [1] * len(answers)
    assert answers[-1].num_columns == 1 + p + p * (p + 1) // 2
    assert len(answers) == 2


@pytest.mark.parametrize("cells", ["main effects", "separate"])
def test_synthesizers_fit_the_same_model(cells, rng, tmp_path, request):
    table = a_table(rng, 600).drop_columns(["person", "root", "far"])
    lazy = lazily("duckdb", table, tmp_path, request)
    how = {"schema": DECLARED, "complete_cases": True}
    prior = abo.NIW.default(4)  # in the west there is nobody
    mixed = [abo.Synthesizer(prior, cells=cells).fit(each, **how) for each in (lazy, table)]
    assert mixed[0].mechanism.same_as(mixed[1].mechanism)
    one, other = (each.posterior for each in mixed)
    assert np.array_equal(one.weights, other.weights)
    at = one.at(np.arange(one.cells.count), np.zeros((one.cells.count, 0)))
    beside = other.at(np.arange(one.cells.count), np.zeros((one.cells.count, 0)))
    spread = np.sqrt(np.diagonal(beside.scale, axis1=-2, axis2=-1) / np.asarray(beside.df)[..., None])
    assert np.abs((at.mean - beside.mean) / spread).max() < 1e-10
    assert np.abs((at.scale - beside.scale) / (spread[..., None] * spread[..., None, :])).max() < 1e-10 * len(
        table
    )


def test_normal_model_of_a_lazy_frame(rng, tmp_path, request):
    table = a_table(rng).select(["skewed", "share", "whole"])
    lazy = abo.Synthesizer().fit(lazily("polars", table, tmp_path, request), schema=DECLARED)
    records = abo.Synthesizer().fit(table, schema=DECLARED)
    np.testing.assert_allclose(lazy.posterior.scale, records.posterior.scale, rtol=1e-10)
    draws = [
        each.sample(datasets=1, rows=5, rng_for_tests=np.random.default_rng(1)).values[0]
        for each in (lazy, records)
    ]
    np.testing.assert_allclose(*draws, rtol=1e-8)


BAD = {
    "is not numeric": ({"text": pa.array(list("abcd") * 10)}, {}),
    "holds dates": ({"day": pa.array([0] * 40, pa.timestamp("us"))}, {}),
    "named like one": ({"patient_id": pa.array(np.arange(40.0) * 1.1)}, {}),
    "all different": ({"number": pa.array(np.arange(40) + 123456)}, {}),
    "is constant": ({"same": pa.array(np.ones(40))}, {}),
    "misses 1 of 40": ({"gap": pa.array([None, *np.arange(39.0) % 7.5])}, {}),
    "code for a missing value": ({"coded": pa.array([-999.0, *np.linspace(1, 2, 39)])}, {}),
    "outside its declared limits or scale": (
        {"low": pa.array([-1.0, *np.linspace(1, 2, 39)])},
        {"schema": {"columns": {"low": {"scale": "log"}}}},
    ),
    "is determined by 'a'": ({"twice": None}, {}),
    "no value at all": ({"none": pa.array([None] * 40, pa.float64())}, {}),
    "beyond": ({"huge": pa.array([1e80, *np.linspace(1, 2, 39)])}, {}),
    "holds two values": ({"two": pa.array([0.0, 1.0] * 20)}, {"categories": True}),
    "one level": ({"one": pa.array(["a"] * 40)}, {"categories": True}),
    "none of its declared levels": (
        {"level": pa.array(["a", "b"] * 20)},
        {"categories": True, "schema": {"columns": {"level": {"kind": "category", "levels": ["a", "c"]}}}},
    ),
}


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_be_used_is_refused_in_the_engine(words, rng, tmp_path, request):
    more, how = BAD[words]
    a = rng.normal(size=40)
    columns = {"a": pa.array(a), **more}
    if "twice" in more:
        columns["twice"] = pa.array(2 * a + 1)
    lazy = lazily("duckdb", pa.table(columns), tmp_path, request)
    with pytest.raises(InputError, match=words):
        LazyRecords.of(lazy, **how)
    if words not in ("none of its declared levels",):
        left = LazyRecords.of(lazy, drop_unusable=True, **how)
        assert left.columns == ("a",)
        assert any("Left out 1 column" in note for note in left.notes)


def test_a_category_with_gaps_is_left_out_and_its_cells_added_up(rng, tmp_path, request):
    table = a_table(rng).select(["skewed", "share", "site", "code"])
    lazy = lazily("duckdb", table, tmp_path, request)
    left = LazyRecords.of(lazy, schema=DECLARED, categories=True, drop_unusable=True)
    assert (left.categories.columns, len(left)) == (("code",), len(table))
    assert left.sums.count.tolist() == np.unique(table["code"].to_numpy(), return_counts=True)[1].tolist()


def test_levels_of_rows_with_gaps_alone_are_no_levels(rng, tmp_path, request):
    sex, site = rng.choice(["f", "m"], 60).tolist(), rng.choice(["north", "south"], 60).tolist()
    sex[7], site[7], sex[8] = None, "far away", "x"
    table = pa.table({"a": rng.normal(size=60), "site": site, "sex": sex})
    how = {"categories": True, "complete_cases": True, "schema": {"columns": {"sex": {"kind": "category"}}}}
    lazy, records = LazyRecords.of(lazily("duckdb", table, tmp_path, request), **how), Records.of(table, **how)
    assert lazy.categories.levels == records.categories.levels == (("north", "south"), ("f", "m", "x"))
    assert standing_out_in_cells(lazy, abo.Synthesizer().fit(lazy).mechanism.prior).others == 0
    alone = table.set_column(1, "site", [["near" if place != 7 else "far away" for place in range(60)]])
    for read, given in ((LazyRecords, lazily("duckdb", alone, tmp_path, request)), (Records, alone)):
        with pytest.raises(InputError, match="one level only in the rows without gaps"):
            read.of(given, **how)


def test_postgres_refuses_the_same(rng, tmp_path, request):
    columns = {name: column for words in ("all different", "misses 1 of 40", "is not numeric")
               for name, column in BAD[words][0].items()}  # fmt: skip
    lazy = lazily("postgres", pa.table({"a": rng.normal(size=40), **columns}), tmp_path, request)
    with pytest.raises(InputError) as caught:
        LazyRecords.of(lazy)
    for words in ("all different", "misses 1 of 40", "is not numeric"):
        assert words in str(caught.value)


def test_more_combinations_than_can_be_counted_are_refused(rng, tmp_path, request):
    names = pa.array([f"n{place}" for place in range(12_000)])
    lazy = lazily("polars", pa.table({"a": rng.normal(size=12_000), "b": names}), tmp_path, request)
    with pytest.raises(InputError, match="more than 10,000 combinations"):
        LazyRecords.of(lazy, categories=True, schema={"columns": {"b": {"kind": "category"}}})


def everything_wrong(rng, n=60):
    """One column for each thing that can be wrong, and two that are fine."""
    a, days = rng.normal(size=n), [f"2020-01-{1 + row % 28:02d}" for row in range(n)]
    odd = [f"{value:.6f}" for value in rng.normal(size=n)]
    wrong = {
        "infinite": [np.inf, *a[1:]],
        "minus_infinite": [*a[1:], -np.inf],
        "not_a_number": [np.nan, *rng.normal(size=n - 1)],
        "gap": [None, *rng.normal(size=n - 1)],
        "outside": [-1.0, -2.0, *rng.gamma(2, size=n - 2)],
        "beyond": [200.0, *rng.uniform(1, 99, size=n - 1)],
        "numbers_and_text": ["n/a", *odd[1:]],
        "days_as_text": days,
        "day": pa.array([row * 86_400_000_000 for row in range(n)], pa.timestamp("us")),
        "free_text": [f"word {row % 25}" for row in range(n)],
        "named": [f"someone {row}" for row in range(n)],
        "number": rng.permutation(n) + 123456,
        "coded": [-999.0, *np.linspace(1, 2, n - 1) + rng.normal(size=n - 1) / 9],
        "same": np.ones(n),
        "one_level": ["a"] * n,
        "level_gap": [None, *(["a", "b", "b"] * n)[: n - 1]],
        "twice": 2 * a + 1,
    }
    columns = {"a": a, "b": rng.normal(size=n), **wrong}
    return pa.table({name: pa.array(values, from_pandas=False) for name, values in columns.items()}), wrong


LIMITS = {"columns": {"outside": {"scale": "log"}, "beyond": {"low": 0.0, "high": 100.0}}}


def without_rows(words):
    """Take out where a value is: an engine has no row numbers."""
    words = re.sub(r"row \d+ (holds|begins)", r"it \1", words)
    return re.sub(r" in row \d+|, the first in row \d+| of 60 values", "", words).replace(" values", "")


@pytest.mark.parametrize("categories", [True, False])
def test_all_that_is_wrong_is_said_at_once_as_in_memory(engine, categories, rng, tmp_path, request):
    table, wrong = everything_wrong(rng)
    if engine in ("postgres", "dask"):
        table = table.drop_columns(["day"])  # which the test's own loading makes a text
    how = {"schema": LIMITS, "categories": categories}
    with pytest.raises(InputError) as memory:
        Records.of(table, **how)
    with pytest.raises(InputError) as lazy:
        LazyRecords.of(lazily(engine, table, tmp_path, request), **how)
    expected, found = ({each.column: each for each in caught.value.problems} for caught in (memory, lazy))
    assert set(found) == set(expected) == set(wrong) & set(table.column_names)
    for name, problem in expected.items():
        assert without_rows(found[name].words) == without_rows(problem.words), name
        if not problem.is_gap:  # imputing takes the records themselves
            assert found[name].cures == problem.cures, name
    arguments = {cure.argument for cure in lazy.value.cures}
    assert {"drop", "drop_unusable", "complete_cases", "missing_codes", "columns"} <= arguments


def test_an_entry_of_the_table_file_that_is_no_column_is_named(rng, tmp_path, request):
    lazy = lazily("duckdb", pa.table({"bili": rng.gamma(2, size=40), "b": rng.normal(size=40)}), tmp_path, request)
    notes = LazyRecords.of(lazy, schema={"columns": {"bilirubin": {"scale": "log"}}}).notes
    assert any("Declared, but not in this table: bilirubin" in note for note in notes)
