"""What a draft proposes by names and by formulas."""

import pandas as pd

import allbutone as abo
from allbutone.tables.column import EventOf
from allbutone.tables.described import described
from allbutone.tables.proposals import proposed_event


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
