"""Columns above, below and between others: no synthetic row breaks an order, the attack is that on the gaps."""

import numpy as np
import pandas
import pytest

import allbutone as abo
from allbutone.disclosure.rule import ToldValues
from allbutone.support.errors import InputError
from allbutone.tables.described import described
from allbutone.tables.schema import Schema

DECLARED = {
    "systolic": {"above": "diastolic"},
    "diastolic": {},
    "mean": {"between": ["diastolic", "systolic"]},
    "lowest": {"below": "diastolic"},
    "saturation": {"low": 1, "high": 100},
    "deepest": {"between": [0, "saturation"]},
}


def declared(decimals=None, **changed):
    rounding = {} if decimals is None else {"decimals": decimals}
    return {"columns": {name: {**entries, **rounding} for name, entries in {**DECLARED, **changed}.items()}}


def pressures(rng, people=150, decimals=None):
    diastolic, saturation = rng.normal(80, 10, people), rng.normal(90, 4, people).clip(40, 99.5)
    if decimals is not None:
        diastolic, saturation = np.round(diastolic, decimals), np.round(saturation, decimals)
    systolic = diastolic + np.exp(rng.normal(3.5, 0.4, people))
    table = {
        "systolic": systolic,
        "diastolic": diastolic,
        "mean": diastolic + (systolic - diastolic) * rng.beta(4, 8, people),
        "lowest": diastolic - np.exp(rng.normal(2.0, 0.5, people)),
        "saturation": saturation,
        "deepest": saturation * rng.beta(20, 3, people),
    }
    frame = pandas.DataFrame(table)
    return frame if decimals is None else frame.round(decimals)


def _broken(data):
    low, high = data["diastolic"], data["systolic"]
    return (
        (high < low) | (data["mean"] < low) | (data["mean"] > high) | (data["lowest"] > low)
        | (data["deepest"] < 0) | (data["deepest"] > data["saturation"])
    )  # fmt: skip


@pytest.mark.parametrize("decimals", [None, 0, 1])
def test_the_map_of_a_row_goes_there_and_back(rng, decimals):
    table = pressures(rng, decimals=decimals)
    records = abo.Records.of(table, schema=declared(decimals))
    np.testing.assert_allclose(records.natural, table.to_numpy(), rtol=1e-12)
    half = 0.0 if decimals is None else 0.5 * 10.0**-decimals
    gap = table["systolic"] - table["diastolic"]
    np.testing.assert_allclose(records.values[:, 0], np.log(gap + half), rtol=1e-12)
    above, below = table["mean"] - table["diastolic"] + half, table["systolic"] - table["mean"] + half
    np.testing.assert_allclose(records.values[:, 2], np.log(above / below), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("decimals", [None, 0, 1])
def test_no_row_breaks_an_order_and_every_draw_lay_in_its_box(rng, decimals):
    """In 100,000 rows, of which many would: where values are rounded, with ends that nearly touch."""
    table = pressures(rng, decimals=decimals)
    schema = abo.Records.of(table, schema=declared(decimals)).schema
    wide = 1.0 if decimals is None else 3.0
    drawn = np.array([wide, 3.0, wide, wide, 3.0, wide]) * rng.standard_normal((100_000, 6))
    drawn += [0, 80, 0, 0, 95, 0]
    natural = schema.released(drawn)
    assert not _broken(pandas.DataFrame(natural, columns=table.columns)).any()
    if decimals is not None:
        assert np.array_equal(natural, np.round(natural, decimals))
    low, high = schema.drawn_between(natural)
    assert np.all((drawn >= low - 1e-7) & (drawn <= high + 1e-7))


@pytest.mark.parametrize("grids", [{"decimals": {"-1": 0.4, "0": 0.6}}, {"step": {"2": 0.5, "5": 0.3, "20": 0.2}}])
def test_columns_with_an_order_go_out_on_several_grids(rng, grids):
    """Pressures read to tens now and then: no row breaks the order, and every draw was in its box."""
    table = pressures(rng, decimals=0)[["systolic", "diastolic", "mean", "lowest"]]
    entries = {name: {**DECLARED[name], **grids} for name in table}
    schema = abo.Records.of((table / 20).round() * 20 + [20, 0, 0, -20], schema={"columns": entries}).schema
    drawn = 2.0 * rng.standard_normal((100_000, 4)) + [0, 40, 0, 0]
    natural = schema.released(drawn)
    systolic, diastolic, mean, lowest = natural.T
    assert np.all((systolic >= mean) & (mean >= diastolic) & (diastolic >= lowest))
    coarsest = 10 if "decimals" in grids else 20
    share = np.mean(diastolic % coarsest == 0)
    assert 0.2 < share < 0.9
    finest = 1 if "decimals" in grids else 2
    on_own = [np.isin(values % finest, [0]) | (values % 5 == 0) for values in (systolic, diastolic, lowest)]
    assert np.all(on_own)
    low, high = schema.drawn_between(natural)
    assert np.all((drawn >= low - 1e-7) & (drawn <= high + 1e-7))
    again = Schema.of_entries({"columns": {column.name: column.entries() for column in schema.columns}}, "again")
    assert again.mechanism == schema.mechanism


def verdicts(risk):
    """How much of the way to being disclosed each value went, by column and adversary."""
    told = ToldValues.of(risk.measures, risk.verdict.rule)
    pairs = zip(told.names, told.rest_known.tolist(), strict=True)
    return {pair: told.closeness[:, place] for place, pair in enumerate(pairs)}


@pytest.mark.parametrize("decimals", [None, 0])
def test_the_attack_is_that_on_the_table_transformed_by_hand(rng, decimals):
    """The gap as a column of its own, on the scale that an order gives it: the same draws, the same risk."""
    rounding = {} if decimals is None else {"decimals": decimals}
    table = pressures(rng, 60, decimals)[["diastolic", "systolic"]]
    near = {"tolerance": 5.0, **rounding}
    ordered = {"diastolic": near, "systolic": {"above": "diastolic", **near}}
    scale = {"scale": "log"} if decimals is None else {"scale": f"log(x + {0.5 * 10.0**-decimals})", "low": 0}
    by_hand = {"diastolic": near, "gap": near | scale, "systolic": {"derived": "diastolic + gap", **near}}
    other = table.assign(gap=table["systolic"] - table["diastolic"])[["diastolic", "gap", "systolic"]]
    found = []
    for data, entries in ((table, ordered), (other, by_hand)):
        synthesizer = abo.Synthesizer(schema={"columns": entries}).fit(data)
        release = synthesizer.sample(datasets=3, rng_for_tests=np.random.default_rng(4))
        risk = abo.risk(data, release, mass=False, rng=np.random.default_rng(5))
        found.append((release.to_frames()[0], risk))
    (mine, risk), (theirs, expected) = found
    np.testing.assert_allclose(mine["systolic"], theirs["systolic"], rtol=1e-12)
    same = {
        "membership": "membership", "exposure": "exposure", "information_gain": "information_gain",
        "probability_diastolic": "probability_diastolic", "probability_systolic": "probability_systolic",
        "baseline_systolic": "baseline_systolic", "rest_known_probability_systolic": "rest_known_probability_gap",
        "rest_known_probability_diastolic": "rest_known_probability_diastolic",
        "rest_known_tolerance_systolic": "rest_known_tolerance_gap",
    }  # fmt: skip
    for name, hand in same.items():
        np.testing.assert_allclose(np.asarray(risk[name]), np.asarray(expected[hand]), rtol=1e-10, atol=1e-10)
    told, by_hand = verdicts(risk), verdicts(expected)
    assert told.keys() == {(name, rest) for name in ("diastolic", "systolic") for rest in (False, True)}
    for (name, rest), closeness in told.items():  # who knows the rest is judged by the gap
        hand = by_hand["gap" if rest and name == "systolic" else name, rest]
        np.testing.assert_allclose(closeness, hand, rtol=1e-9, atol=1e-9)


def test_a_release_with_orders_is_written_read_and_checked(rng, tmp_path):
    table = pressures(rng, decimals=0)
    release = abo.Synthesizer(schema=declared(0)).fit(table).sample(datasets=2, rng_for_tests=rng)
    abo.save_release(release, tmp_path / "release")
    assert not abo.check(tmp_path / "release", table).findings
    again = abo.load_release(tmp_path / "release")
    assert again.mechanism.same_as(release.mechanism)
    path = tmp_path / "release" / "dataset-001.csv"
    lines = path.read_text().splitlines()
    cells = lines[1].split(",")
    lines[1] = ",".join([str(float(cells[1]) - 1).removesuffix(".0"), *cells[1:]])
    path.write_text("\n".join(lines) + "\n")
    assert any(
        "'systolic' is not above diastolic" in each.problem for each in abo.check(tmp_path / "release").findings
    )
    with pytest.raises(InputError, match="above diastolic"):
        abo.load_release(tmp_path / "release")


def test_rows_that_break_an_order_are_listed(rng):
    table = pressures(rng, decimals=0)
    table.loc[[2, 5], "systolic"] = 10.0
    table.loc[7, "lowest"] = 300.0
    with pytest.raises(InputError) as refused:
        abo.Records.of(table, schema=declared(0))
    assert "'systolic' is not above diastolic in 2 rows (3, 6)" in str(refused.value)
    assert "'lowest' is not below diastolic in 1 row (8)" in str(refused.value)
    # equal values are possible where values are rounded, and not else
    table = pressures(rng, decimals=0)
    table.loc[3, "systolic"] = table.loc[3, "mean"] = table.loc[3, "diastolic"]
    abo.Records.of(table, schema=declared(0))
    with pytest.raises(InputError, match="in 1 row"):
        abo.Records.of(table, schema=declared(None))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"diastolic": {"below": "systolic"}}, "in a circle"),
        ({"systolic": {"above": "systolic"}}, "beyond itself"),
        ({"systolic": {"above": 3}}, "names a column"),
        ({"systolic": {"above": "diastolic", "below": "mean"}}, "both given"),
        ({"mean": {"between": ["diastolic", "saturation"]}}, "may cross"),
        ({"mean": {"between": ["diastolic", 120]}}, "may cross"),
        ({"mean": {"between": [1, 2]}}, "both ends are numbers"),
        ({"mean": {"between": ["diastolic"]}}, "two ends"),
        ({"saturation": {"low": 0, "high": 100}}, "may be equal"),
        ({"systolic": {"above": "diastolic", "scale": "log(x + 1)"}}, "may be equal"),
        ({"diastolic": {"decimals": 0}, "systolic": {"above": "diastolic", "decimals": 0}}, "may be equal"),
        ({"mean": {"between": ["diastolic", np.inf]}}, "two ends"),
        ({"mean": {"between": ["diastolic", 10**400]}}, "two ends"),
        ({"systolic": {"above": "mean"}, "sum": {"sum": ["mean", "systolic"]}}, "in a circle"),
        ({"a": {"derived": "b"}, "b": {"derived": "a"}, "mean": {"between": ["diastolic", 120]}}, "may cross"),
        ({"mean": {"between": ["diastolic", "systolic"], "scale": "log"}}, "leave the scale out"),
        ({"systolic": {"above": "diastolic", "scale": "sqrt"}}, "a gap has no scale"),
        ({"systolic": {"above": "diastolic", "high": 300}}, "within its limits"),
        ({"systolic": {"above": "diastolic", "decimals": 0}, "diastolic": {"decimals": 1}}, "more coarsely"),
        ({"systolic": {"above": "diastolic", "centre": 120, "spread": 20}}, "no centre"),
        ({"systolic": {"above": "ward"}, "ward": {"kind": "category"}}, "no measurement"),
    ],
)
def test_orders_that_cannot_be_kept_are_refused(changed, words):
    with pytest.raises(InputError) as refused:
        Schema.of({"columns": {**DECLARED, **changed}})
    assert words in str(refused.value)


def test_what_lacks_its_end_is_refused_and_what_is_known_to_lie_within_a_limit_is_not(rng):
    table = pressures(rng)
    with pytest.raises(InputError, match="'diastolic' cannot be used"):
        abo.Records.of(table.drop(columns="diastolic"), schema=declared())
    gap = table.copy()
    gap.loc[4, "diastolic"] = np.nan
    with pytest.raises(InputError, match="is there in 1 row"):
        abo.Records.of(gap, schema=declared(), gaps=True)
    implied = {"diastolic": {"low": 20, "high": 200}, "systolic": {"above": "diastolic", "low": 0}}
    assert Schema.of({"columns": implied}).columns
    within = Schema.of({"columns": {"diastolic": {"high": 200}, "systolic": {"between": ["diastolic", 300]}}})
    assert Schema.of(within.entries()) == within


def test_parts_of_a_total_are_positive_and_add_up(rng):
    parts = np.round(np.exp(rng.normal([2.0, 1.0, 3.0], 0.3, (120, 3))), 1)
    table = pandas.DataFrame(parts, columns=["kappa", "lambda", "rest of it"])
    table["total"] = table.sum(axis=1).round(1)
    part = {"scale": "log", "decimals": 1}
    total = {"sum": ["kappa", "lambda", "rest of it"], "decimals": 1}
    entries = {"kappa": part, "lambda": part, "rest of it": part, "total": total}
    release = abo.Synthesizer(schema={"columns": entries}).fit(table).sample(rows=20_000, rng_for_tests=rng)
    data = release.to_frames()[0]
    assert (data[["kappa", "lambda", "rest of it"]] > 0).all(axis=None)
    np.testing.assert_allclose(data["total"], data[["kappa", "lambda", "rest of it"]].sum(axis=1), atol=1e-9)
    with pytest.raises(InputError, match="'lambda' may be negative"):
        Schema.of({"columns": {**entries, "lambda": {}}})


@pytest.mark.parametrize("decimals", [None, 0])
def test_an_order_that_chance_does_not_explain_is_proposed_and_the_draft_is_taken(rng, decimals, tmp_path):
    table = pressures(rng, 300, decimals)[["systolic", "diastolic", "mean"]]
    table["age"], table["far above"] = rng.normal(50, 9, 300).round(1), table["systolic"] + 1000
    found = described(table)
    assert dict(found.above) == {"systolic": "mean", "mean": "diastolic"}  # what never meets needs no order
    found.write(tmp_path / "table.toml")
    drafted = Schema.of(tmp_path / "table.toml")
    release = abo.Synthesizer(schema=drafted).fit(table).sample(rows=5000, rng_for_tests=rng)
    data = release.to_frames()[0]
    assert not ((data["systolic"] < data["mean"]) | (data["mean"] < data["diastolic"])).any()


def test_what_lies_beside_a_column_goes_with_it(rng):
    """Without its end a value would go out as its gap: leaving out an end alone is refused, whoever asks."""
    table = pressures(rng)
    records = abo.Records.of(table, schema=declared())
    with pytest.raises(
        InputError, match="'systolic' lies above diastolic, and cannot be used without 'diastolic'"
    ):
        abo.Records.of(records, drop=["diastolic"])
    without = abo.Records.of(records, drop=["systolic", "mean"])
    np.testing.assert_array_equal(without.to_frame()["lowest"], table["lowest"])
    release = abo.Synthesizer().fit(records).sample(datasets=1, rng_for_tests=rng)
    with pytest.raises(InputError, match="cannot be used without 'diastolic'"):
        abo.risk(records, release, abo.Adversary(lacking_columns=["diastolic"]), mass=False)
    # what is left out because rows break its order takes with it what lies beside it
    table.loc[4, "systolic"] = 0.0
    left = abo.Records.of(table, schema=declared(), drop_unusable=True)
    assert left.columns == ("diastolic", "lowest", "saturation", "deepest")


def test_nobody_knows_a_value_whose_end_they_do_not_know(rng):
    table = pressures(rng, 60)[["diastolic", "systolic"]]
    columns = {"diastolic": {}, "systolic": {"above": "diastolic"}}
    with pytest.raises(InputError, match="declare known = true for 'diastolic', too"):
        Schema.of({"columns": columns | {"systolic": {"above": "diastolic", "known": True}}})
    synthesizer = abo.Synthesizer(schema={"columns": columns}).fit(table)
    release = synthesizer.sample(datasets=1, rng_for_tests=rng)
    adversary = abo.Adversary(known=["systolic"])
    with pytest.raises(InputError, match="let them know 'diastolic', too"):
        abo.risk(table, release, adversary, mass=False)
    with pytest.raises(InputError, match="let them know 'diastolic', too"):
        abo.budget(abo.Records.of(table, schema={"columns": columns}), rows=None, adversary=adversary)
    assert "probability_systolic" in abo.risk(table, release, abo.Adversary(known=["diastolic"]), mass=False)


def test_gaps_below_zero_go_out_as_zero_and_their_draws_are_not_taken_for_exact(rng):
    entries = {
        "low": {},
        "high": {"above": "low", "scale": "log(x + 1)"},
        "under": {"below": "low", "scale": "log(x + 1)"},
    }
    schema = Schema.of({"columns": entries})
    assert schema.is_limited
    drawn = rng.normal([10.0, 0.0, 0.0], 1.0, (1000, 3))
    natural = schema.released(drawn)
    low, high = schema.drawn_between(natural)
    assert np.all((drawn >= low - 1e-7) & (drawn <= high + 1e-7))
    assert np.isneginf(low[:, 1:]).mean() == pytest.approx(0.5, abs=0.1)
    assert all(each.keeps(natural).all() for each in schema.orders)
    table = pandas.DataFrame(natural, columns=list(entries))[:60]
    release = abo.Synthesizer(schema={"columns": entries}).fit(table).sample(rng_for_tests=rng)
    assert np.isfinite(abo.risk(table, release, mass=False)["risk"]).all()


def test_short_options_adjust_neither_ordered_nor_derived_columns():
    schema = Schema.of(
        {
            "columns": {
                "low": {"decimals": 0},
                "high": {"above": "low", "decimals": 0},
                "sum": {"derived": "low + high"},
            }
        }
    )
    for how in ({"positive": ["high"]}, {"log": ["high"]}, {"decimals": {"sum": 1}}):
        with pytest.raises(InputError, match="in the table file"):
            schema.adjusted(**how)
    with pytest.raises(InputError, match="more coarsely"):
        schema.adjusted(decimals={"low": 2})
    assert schema.adjusted(positive=["low"]).column("low").low == 0
