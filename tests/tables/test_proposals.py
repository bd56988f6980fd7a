"""What a draft proposes by names and by formulas."""

import numpy as np
import pandas as pd

import allbutone as abo
from allbutone.tables.column import EventOf
from allbutone.tables.described import described
from allbutone.tables.heaps import Heaps
from allbutone.tables.proposals import proposed_event, proposed_heaps


def test_a_time_and_whether_it_happened_are_told_by_their_names():
    levels = {"status": ("0", "1"), "rx": ("a", "b", "c"), "sex": ("f", "m")}
    assert proposed_event(["age", "time"], levels) == ("time", EventOf("status", "1", "rx"))
    assert proposed_event(["survival_days"], {"status": ("1", "2")}) == ("survival_days", EventOf("status", "2"))
    assert proposed_event(["follow_up"], {"outcome_dead": ("no", "yes")}) == (
        "follow_up", EventOf("outcome_dead", "yes"),
    )  # fmt: skip
    assert proposed_event(["time", "days"], levels) is None  # which of them is not known
    assert proposed_event(["age"], levels) is None
    assert proposed_event(["time"], {"status": ("married", "single")}) is None


def test_what_a_formula_divides_by_is_drafted_on_a_scale_that_keeps_it_from_zero(rng, tmp_path):
    total, hdl = rng.normal(190, 35, 300).round(), rng.normal(50, 11, 300).clip(20).round()
    table = pd.DataFrame(
        {"total": total, "hdl": hdl, "ratio": (total / hdl).round(2), "age": rng.normal(50, 9, 300)}
    )
    found = described(table)
    assert found.proposed["ratio"].formula == "total / hdl"
    assert {look.name: look.scale for look in found.looks}["hdl"] == "log"
    found.write(tmp_path / "table.toml")
    [frame] = (
        abo.Synthesizer(schema=tmp_path / "table.toml")
        .fit(table)
        .sample(rows=20_000, rng_for_tests=rng)
        .to_frames()
    )
    assert 0 < frame["ratio"].max() < 5 * table["ratio"].max()


def test_a_difference_of_rounded_pressures_is_not_rounded_again(rng, tmp_path):
    """Both pressures are read to tens now and then: a grid of its own would contradict their difference."""
    low = rng.normal(78, 10, 300).round()
    high = low + np.exp(rng.normal(3.9, 0.3, 300)).round()
    tens = rng.random(300) < 0.4
    table = pd.DataFrame({"diastolic": low, "systolic": high})
    table.loc[tens] = table.loc[tens].round(-1)
    table["pulse"], table["age"] = table["systolic"] - table["diastolic"], rng.normal(50, 9, 300)
    found = described(table)
    assert found.above == {"systolic": "diastolic"}
    assert not found.proposed["pulse"].on_grids
    found.write(tmp_path / "table.toml")
    release = abo.Synthesizer(schema=tmp_path / "table.toml").fit(table).sample(rows=100_000, rng_for_tests=rng)
    [frame] = release.to_frames()
    assert np.all(frame["pulse"] == frame["systolic"] - frame["diastolic"])
    assert np.all(frame["pulse"] >= 0)
    assert 0.3 < np.mean(frame["systolic"] % 10 == 0) < 0.6


def test_halves_and_quarters_are_told_from_tenths(rng):
    for step, decimals in ((0.5, 1), (0.25, 2), (0.2, 1), (2.0, 0), (5.0, 0)):
        values = np.round(rng.normal(60, 12, 200) / step) * step
        assert proposed_heaps(values, decimals) == (decimals, Heaps(((step, 1.0),)))
    assert proposed_heaps(np.round(rng.normal(60, 12, 200), 1), 1) == (1, None)
    mixed = np.where(rng.random(400) < 0.6, rng.normal(900, 300, 400).round(), 25.0 * rng.integers(8, 70, 400))
    digits, heaps = proposed_heaps(mixed, 0)
    assert digits == 0
    assert [step for step, _ in heaps.grids] == [1.0, 25]


def test_scores_are_drafted_with_ends_that_tell_of_nobody(rng, tmp_path):
    table = pd.DataFrame(
        {
            "ph.ecog": rng.choice([0, 1, 2, 3], 200, p=[0.3, 0.4, 0.28, 0.02]),  # known to go to 5
            "likert": rng.integers(1, 6, 200),
            "pain": np.r_[rng.integers(0, 6, 199), 8],  # one person has 8
            "children": rng.negative_binomial(1, 0.55, 200),  # a count has no end
            "age": rng.normal(50, 9, 200),
        }
    )
    described(table).write(tmp_path / "table.toml")
    declared = abo.Schema.of(tmp_path / "table.toml")
    ends = {column.name: (*column.bounds, column.decimals) for column in declared.columns}
    assert ends["ph.ecog"] == (0, 5, 0)
    assert ends["likert"] == (1, 5, 0)
    assert ends["pain"] == (0, 10, 0)
    assert ends["children"] == (0, np.inf, 0)
    assert declared.column("children").scale.name != "as it is"
    [frame] = abo.Synthesizer(schema=declared).fit(table).sample(rows=5000, rng_for_tests=rng).to_frames()
    assert set(frame["likert"]) <= {1, 2, 3, 4, 5}
    assert frame["children"].min() == 0


def test_known_scores_have_their_ends_and_no_chance_order(rng, tmp_path):
    well = rng.normal(0, 1, 300)
    table = pd.DataFrame(
        {
            "ECOG": rng.choice([0, 1, 2, 3], 300, p=[0.75, 0.17, 0.06, 0.02]),  # skewed, and no count
            "mmse": np.clip(30 - rng.poisson(3.5, 300), 0, 30),
            "pain": np.clip(np.round(4.5 + 2.2 * well), 0, 10),  # eleven values
            "fatigue": np.clip(np.round(7 + 2 * well), 2, 10),  # above pain in all but no row, by chance
            "karnofsky": 10 * np.clip(np.round(8.5 + well / 2), 6, 10),  # by tens, five of them
            "age": rng.normal(60, 9, 300).round(),
        }
    )
    found = described(table)
    assert not found.above
    assert "drafted as scores" in "".join(found.notes)
    assert "a score from 0 to 10" in found.what(next(look for look in found.looks if look.name == "pain"))
    found.write(tmp_path / "table.toml")
    declared = abo.Schema.of(tmp_path / "table.toml")
    ends = {column.name: column.bounds for column in declared.columns}
    assert ends == {
        "ECOG": (0, 5), "mmse": (0, 30), "pain": (0, 10), "fatigue": (0, 10), "karnofsky": (0, 100),
        "age": (0, np.inf),
    }  # fmt: skip
    assert declared.column("karnofsky").finest == 10
    verdicts = {each.subject: each for each in abo.check_normality(table, schema=declared).verdicts}
    assert verdicts["ECOG"].level == "doubtful"  # no value goes out in between
    assert "in between" not in "".join(each.advice for each in verdicts.values())


def test_groups_of_a_column_are_told_from_categories_that_go_with_it(rng, tmp_path):
    age, nodes = rng.normal(58, 12, 300).round(), rng.negative_binomial(1, 0.22, 300)
    table = pd.DataFrame(
        {
            "age": age,
            "group": np.array(["young", "middle", "old"])[np.searchsorted([40, 65], age, side="right")],
            "nodes": nodes,
            "node4": np.where(np.arange(300) == 7, nodes <= 4, nodes > 4).astype(int),  # one slip of the pen
            "arm": np.where(rng.normal(age, 8) > 58, "a", "b"),  # which goes with age alone
        }
    )
    found = described(table).proposed
    assert found.keys() == {"group", "node4"}
    assert (found["group"].cut, found["group"].levels, found["group"].always) == (
        (40, 65), ("young", "middle", "old"), True,
    )  # fmt: skip
    assert (found["node4"].formula, found["node4"].cut, found["node4"].always) == ("nodes", (5,), False)
    described(table).write(tmp_path / "table.toml")
    [frame] = (
        abo.Synthesizer(schema=tmp_path / "table.toml").fit(table).sample(rows=2000, rng_for_tests=rng).to_frames()
    )
    assert np.array_equal(frame["node4"].astype(str) == "1", frame["nodes"] > 4)
    assert np.array_equal(frame["group"] == "old", frame["age"] >= 65)
