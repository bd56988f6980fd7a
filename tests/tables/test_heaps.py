"""Values on several grids: each goes out on one by its share, and tells between which values its draw lay."""

import tomllib

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import allbutone as abo
from allbutone.support.errors import InputError
from allbutone.tables.column import column_from
from allbutone.tables.described import described
from allbutone.tables.heaps import last_digits
from allbutone.tables.look import as_toml
from allbutone.tables.proposals import proposed_formulas, proposed_heaps
from allbutone.tables.schema import Schema

HEAPS = {
    "two grids": {"decimals": {"0": 0.9, "2": 0.1}},
    "two grids of a logarithm's": {"decimals": {"0": 0.7, "1": 0.3}, "scale": "log"},
    "fives": {"step": 5},
    "fives and ones within limits": {"step": {"1": 0.3, "5": 0.7}, "low": 3, "high": 17},
    "halves": {"step": 0.5, "low": 0},
    "few decimals of logarithms": {"decimals": 2, "step": {"1": 0.5, "10": 0.5}, "step_of": "exp(x)"},
    "logarithms of whole numbers": {"decimals": 4, "step": 1, "step_of": "exp(x)"},
}
SPREAD = {
    "few decimals of logarithms": (6.0, 1.5),
    "two grids of a logarithm's": (0.5, 1.0),
    "logarithms of whole numbers": (1.5, 1.0),
}


def _lies_on(values, step):
    return np.abs(values - np.round(values / step) * step) < 1e-9


@pytest.mark.parametrize("what", HEAPS)
def test_every_value_lies_on_a_grid_and_its_draw_lay_in_the_box(rng, what):
    column = column_from("x", HEAPS[what])
    middle, spread = SPREAD.get(what, (10.0, 4.0))
    drawn = rng.normal(middle, spread, 100_000)
    released = column.released(drawn)
    assert column.allows(released).all()
    if column.heaps.exponential:
        whole = np.exp(released)
        assert np.all(np.abs(whole - np.round(whole)) < whole * 0.51 * 10.0**-column.decimals)
    else:
        assert np.any([_lies_on(released, step) for step, _ in column.heaps.grids], axis=0).all()
    low, high = column.drawn_between(released)
    inside = (drawn >= low - 1e-9) & (drawn <= high + 1e-9)
    # by chance a value of a finer grid lies on a coarser one, and its draw is the nearer: in the box as well
    assert inside.all()
    # the same draws go out the same, and what is declared is written and read again
    assert np.array_equal(column.released(drawn), released)
    assert column_from("x", column.entries()) == column


def test_grids_have_their_shares(rng):
    drawn = rng.normal(120, 15, 200_000)
    released = column_from("x", HEAPS["two grids"]).released(drawn)
    share = np.mean(_lies_on(released, 1.0))
    expected = 0.9 + 0.1 * 0.01
    assert share == pytest.approx(expected, abs=5 * np.sqrt(expected * (1 - expected) / len(drawn)))


@given(st.floats(-1e6, 1e6), st.integers(0, 2**32))
def test_last_digits_are_spread_evenly_whatever_the_values(centre, seed):
    told = last_digits(centre + np.random.default_rng(seed).normal(size=4000))
    assert np.all((told >= 0) & (told < 1))
    counts = np.histogram(told, 10, (0, 1))[0]
    if abs(centre) < 1e5:  # more leaves few different numbers
        assert np.sum((counts - 400) ** 2 / 400) < 60


@pytest.mark.parametrize(
    "wrong",
    [
        {"decimals": {"0": 0.9, "2": 0.2}}, {"decimals": {"a": 1}}, {"decimals": {"0": -1, "1": 2}}, {"step": 0},
        {"step": -5}, {"step": "five"}, {"step": {"x": 1}}, {"step": 5, "decimals": 0}, {"step_of": "exp(x)"},
        {"step": 1, "step_of": "exp(x)"}, {"step": 1, "step_of": "log(x)"}, {"decimals": {}},
        {"step": 10**400}, {"step": {"1": 10**400}}, {"low": 1, "high": 4, "step": {"1": 0.5, "5": 0.5}},
    ],
)  # fmt: skip
def test_what_is_no_grid_is_refused(wrong):
    with pytest.raises(InputError) as refused:
        column_from("x", wrong)
    assert refused.value.cures


def test_a_release_with_heaps_is_written_read_and_found_clean(rng, tmp_path):
    people = 200
    table = pandas.DataFrame({
        "pressure": np.where(rng.random(people) < 0.9, np.round(rng.normal(90, 12, people)),
                             np.round(rng.normal(90, 12, people), 2)),
        "fat": np.round(np.log(np.round(np.exp(rng.normal(4.7, 0.5, people)))), 4),
        "sex": rng.choice(["f", "m"], people),
    })  # fmt: skip
    declared = {"pressure": HEAPS["two grids"], "fat": HEAPS["logarithms of whole numbers"]}
    for data in (table, table.drop(columns="sex")):
        release = abo.Synthesizer(schema={"columns": declared}).fit(data).sample(datasets=2, rng_for_tests=rng)
        folder = tmp_path / f"release-{len(data.columns)}"
        abo.save_release(release, folder)
        assert not abo.check(folder, data).findings
        again = abo.load_release(folder)
        assert again.mechanism.same_as(release.mechanism)
        for one, other in zip(release.tables, again.tables, strict=True):
            assert np.array_equal(one.natural, other.natural)
        assert np.mean(_lies_on(release.tables[0].natural[:, 0], 1.0)) > 0.8
    assert np.isfinite(abo.risk(table, abo.load_release(tmp_path / "release-3"), mass=False)["risk"]).all()


def test_a_habit_of_recording_is_seen_and_told_coarsely(rng):
    values = rng.normal(100, 15, 1000)
    mostly = np.where(rng.random(1000) < 0.87, np.round(values), np.round(values, 2))
    decimals, heaps = proposed_heaps(mostly, 2)
    assert decimals == 2
    assert dict(heaps.grids) in ({0.01: 0.15, 1.0: 0.85}, {0.01: 0.1, 1.0: 0.9})
    fives = np.where(rng.random(1000) < 0.5, 5 * np.round(values / 5), np.round(values))
    assert proposed_heaps(fives, 0)[1].coarsest == 5
    assert proposed_heaps(10 * np.round(values / 10), 0)[1].grids == ((10.0, 1.0),)
    assert proposed_heaps(np.round(np.log(np.round(values)), 4), 4)[1].exponential
    strays = np.append(np.round(values), 3.5)
    assert proposed_heaps(strays, 1) == (0, None)
    for plain, digits in ((np.round(values), 0), (np.round(values, 1), 1), (np.round(values, 3), 3)):
        assert proposed_heaps(plain, digits) == (digits, None)


def test_scores_by_tens_are_proposed_as_such_and_other_scores_are_not(rng, tmp_path):
    table = pandas.DataFrame({"karnofsky": 10 * rng.integers(4, 11, 200), "pain": rng.integers(0, 11, 200)})
    described(table).write(tmp_path / "table.toml")
    columns = tomllib.loads((tmp_path / "table.toml").read_text())["columns"]
    assert columns["karnofsky"]["step"] == 10
    assert "step" not in columns["pain"]


def test_drafted_shares_are_marked_as_those_of_the_table(rng, tmp_path):
    values = rng.normal(100, 15, 400)
    table = pandas.DataFrame({"x": np.where(rng.random(400) < 0.85, np.round(values), np.round(values, 2))})
    described(table).write(tmp_path / "table.toml")
    drafted = (tmp_path / "table.toml").read_text().splitlines()
    lines = [line for line in drafted if line.startswith("decimals = {")]
    assert lines
    assert all("shares of this table" in line for line in lines)


@pytest.mark.parametrize("grid", ['{ "0.5" = 0.55, 2 = 0.45 }', "{ 0.5 = 0.55, 2 = 0.45 }"])
def test_a_step_with_a_point_is_one_with_and_without_quotes(grid):
    step = tomllib.loads(f"step = {grid}")["step"]
    assert column_from("age", {"step": step}).heaps.grids == ((0.5, 0.55), (2.0, 0.45))
    assert tomllib.loads(f"step = {as_toml({'0.5': 0.55, '2': 0.45})}")["step"] == {"0.5": 0.55, "2": 0.45}


def test_what_others_determine_is_proposed_and_nothing_else(rng):
    people = 300
    height, weight = np.round(rng.normal(172, 9, people)), np.round(rng.normal(75, 12, people), 1)
    total, hdl, fat = (np.round(np.exp(rng.normal(m, 0.2, people))) for m in (5.2, 3.9, 4.7))
    values = {
        "height": height, "weight": weight, "bmi": np.round(weight / (height / 100) ** 2, 1), "total": total,
        "HDL value": hdl, "fat": fat, "ldl": np.round(total - hdl - fat / 5, 1), "ratio": np.round(total / hdl, 1),
        "noise": np.round(rng.normal(50, 5, people), 1),
    }  # fmt: skip
    decimals = dict.fromkeys(values, 0) | dict.fromkeys(("weight", "bmi", "ldl", "ratio", "noise"), 1)
    rounded = {name: abo.Schema().column(name) for name in values}
    rounded = {name: column_from(name, {"decimals": decimals[name]}) for name in rounded}
    found = {name: each.formula for name, each in proposed_formulas(values, rounded).items()}
    assert found == {
        "ratio": "total / `HDL value`",
        "ldl": "total - `HDL value` - fat / 5",
        "bmi": "weight / (height / 100) ** 2",
    }
    # and what is proposed is taken
    declared = {name: {"derived": text, "decimals": 1} for name, text in found.items()}
    declared |= {name: {"decimals": decimals[name]} for name in values if name not in found}
    assert set(abo.Records.of(pandas.DataFrame(values), schema={"columns": declared}).schema.derived_names) == set(
        found
    )
    assert Schema.of({"columns": declared}).derived
