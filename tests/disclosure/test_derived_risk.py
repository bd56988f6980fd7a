"""The risk of values that others determine: against quadrature, and the same however the table is written."""

import numpy as np
import pandas
import pytest
from scipy.stats import multivariate_t

import allbutone as abo
from allbutone.disclosure.derived_risk import DerivedValues
from allbutone.support.errors import InputError

TOLERANCE = 0.3


def student(data):
    """The predictive of a further record under the flat prior, written out: NIW(x̄, n, n − 1, S)."""
    n, p = data.shape
    away = data - data.mean(axis=0)
    return multivariate_t(data.mean(axis=0), away.T @ away * (n + 1) / (n * (n - p)), df=n - p)


def by_quadrature(others, datasets, inside, middle, reach):
    """∫ Πⱼ t(x | others, Zⱼ)/t(x | others)^(k−1) where `inside`, on a grid, and the same without the release."""
    axes = [np.linspace(m - r, m + r, 601) for m, r in zip(middle, reach, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    before = student(others).logpdf(points)
    logs = (
        sum(student(np.vstack([others, data])).logpdf(points) for data in datasets) - (len(datasets) - 1) * before
    )
    shares = []
    for each in (logs, before):
        weights = np.exp(each - each.max())
        shares.append(weights[inside(points)].sum() / weights.sum())
    return shares


@pytest.mark.parametrize("count", [1, 4])
def test_a_derived_value_is_known_as_quadrature_says(rng, count):
    """At two columns, after one dataset and after several: a ratio, a comparison, groups."""
    people = 40
    top, below = np.exp(rng.normal(1.0, 0.4, people)), rng.normal(5.0, 0.5, people)
    top[7] *= 4  # somebody far out
    table = pandas.DataFrame({"top": top, "below": below, "ratio": top / below, "high": top > 3})
    table["group"] = np.where(
        top * below < 10, "below 10", np.where(top * below < 20, "10 to below 20", "20 or more")
    )
    declared = {
        "top": {"scale": "log"},
        "ratio": {"derived": "top / below", "tolerance": TOLERANCE},
        "high": {"derived": "top > 3"},
        "group": {"cut": {"of": "top * below", "at": [10, 20]}},
    }
    release = abo.Synthesizer(schema={"columns": declared}).fit(table).sample(datasets=count, rng_for_tests=rng)
    found = abo.risk(table, release, mass=False)
    records, datasets = (
        abo.Records.of(table, schema={"columns": declared}),
        [each.values for each in release.tables],
    )
    for row in (0, 7):
        others = np.delete(records.values, row, axis=0)
        middle, own, spread = others.mean(axis=0), records.values[row], np.std(others, axis=0)
        middle, reach = (middle + own) / 2, 5.5 * spread + np.abs(own - middle)

        def natural(points):
            return np.exp(points[:, 0]), points[:, 1]

        laws = {
            "ratio": lambda one, two, row=row: np.abs(one / two - top[row] / below[row]) <= TOLERANCE,
            "high": lambda one, two, row=row: (one > 3) == (top[row] > 3),
            "group": lambda one, two, row=row: (
                np.searchsorted([10, 20], one * two, "right")
                == np.searchsorted([10, 20], top[row] * below[row], "right")
            ),
        }
        for name, law in laws.items():
            with_release, without = by_quadrature(
                others, datasets, lambda points, law=law: law(*natural(points)), middle, reach
            )
            error = found[f"probability_error_{name}"][row]
            # the grid's own error is a cell along the border of the region
            assert found[f"probability_{name}"][row] == pytest.approx(with_release, abs=6 * error + 0.01)
            assert found[f"baseline_{name}"][row] == pytest.approx(without, abs=0.015)


def test_a_derived_value_that_is_a_column_itself_is_known_as_that_column(rng):
    """x + 0 is judged as x is, by the same points; and so after rounding, by averages over what was rounded."""
    table = pandas.DataFrame(rng.normal(size=(30, 2)) + 10, columns=["x", "y"]).round(1)
    table.loc[3, "x"] = 16.0
    table["same"] = table["x"]
    declared = {"same": {"derived": "x + 0"}}
    for decimals in ({}, {"x": {"decimals": 0}, "y": {"decimals": 0}}):
        used = {"columns": declared | decimals}
        if decimals:
            table = table.round(0)
        release = abo.Synthesizer(schema=used).fit(table).sample(datasets=3, rng_for_tests=rng)
        found = abo.risk(table, release, mass=False, rng=np.random.default_rng(2))
        np.testing.assert_allclose(found["probability_same"], found["probability_x"], atol=1e-9)
        np.testing.assert_allclose(found["tolerance_same"], found["tolerance_x"], rtol=1e-9)
        np.testing.assert_allclose(found["baseline_same"], found["baseline_x"], atol=0.015)


def test_who_knows_the_parts_has_nothing_to_learn_and_public_values_are_not_judged(rng):
    table = pandas.DataFrame({"x": rng.normal(size=50), "y": rng.normal(size=50), "z": rng.normal(size=50)})
    table["sum"], table["far"] = table["x"] + table["y"], table["z"] * 2
    near = {"tolerance": 0.5}
    declared = {"y": near, "sum": {"derived": "x + y", **near}, "far": {"derived": "z * 2", "secret": False}}
    release = abo.Synthesizer(schema={"columns": declared}).fit(table).sample(rng_for_tests=rng)
    found = abo.risk(table, release, mass=False)
    assert "probability_sum" in found
    assert "probability_far" not in found
    known = abo.risk(table, release, abo.Adversary(known=["x", "y"]), mass=False)
    assert "probability_sum" not in known
    # who knows x knows the sum as well as y: within the same distance of it
    of_one = abo.risk(table, release, abo.Adversary(known=["x"]), mass=False)
    off = np.abs(of_one["probability_sum"] - of_one["probability_y"])
    assert np.all(off <= 6 * of_one["probability_error_sum"] + 1e-9)
    outside = {**declared, "x": {"known": True}}
    told = abo.risk(table, release, schema={"columns": outside}, mass=False)
    assert "rest_known_probability_sum" in told
    np.testing.assert_allclose(told["rest_known_probability_sum"], of_one["probability_sum"], atol=0.02)


def test_who_stands_at_the_boundary_of_a_group_is_judged_by_that_group(rng):
    """On a log scale exp(log 60) is below 60: groups are told by values as they are recorded."""
    table = pandas.DataFrame({"age": rng.integers(45, 66, 60).astype(float), "x": rng.normal(size=60)})
    table["group"] = np.array(["under 50", "50 to 59", "60 and over"])[
        np.searchsorted([50, 60], table["age"], "right")
    ]
    cut = {"cut": {"of": "age", "at": [50, 60]}, "levels": ["under 50", "50 to 59", "60 and over"]}
    declared = {"age": {"scale": "log", "decimals": 0}, "x": {}, "group": cut}
    records = abo.Records.of(table, schema={"columns": declared})
    for one in (
        records,
        records.take(np.arange(60)),
        records.select(["x", "age"]),
        records.with_schema(records.schema),
    ):
        near = DerivedValues.of(one)
        np.testing.assert_array_equal(near.values[:, 0], np.searchsorted([50, 60], table["age"], "right"))
        known = [one.columns.index("x")]  # who knows the age knows the group
        assert near.take(np.arange(60), known).holds(np.zeros((60, 1, 1))).all()


def test_where_derived_columns_are_not_judged_what_they_are_computed_from_is(rng):
    table = pandas.DataFrame({"x": rng.normal(size=30), "y": rng.normal(size=30)})
    table["twice"] = 2 * table["x"]
    declared = {"x": {"secret": False}, "y": {"secret": False}, "twice": {"derived": "2 * x"}}
    release = abo.Synthesizer(schema={"columns": declared}).fit(table).sample(rng_for_tests=rng)
    found = abo.risk(table, release, abo.Adversary(lacking_records=1), mass=False)
    assert {name for name in found.columns if name.startswith("probability_")} >= {"probability_x"}
    with pytest.raises(InputError, match="nothing is secret"):
        abo.risk(table, release, abo.Adversary(known=["x"]), mass=False)
