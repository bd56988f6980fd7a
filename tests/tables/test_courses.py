"""Lines in time: some visits are modelled, what lies between them is a public function of what goes out there."""

from dataclasses import replace

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import allbutone as abo
from allbutone.support.errors import InputError
from allbutone.tables.column import Scale
from allbutone.tables.described import described
from allbutone.tables.long_tables import SeenRows
from allbutone.tables.schema import Schema
from allbutone.tables.visits import Visits

TIMES = [0, 1, 2, 4, 8]
LONG = {"person": "id", "visit": "day", "visits": TIMES}


def measured(rng, people=30, noise=5.0):
    """Two columns of people at five visits, one of them along lines."""
    start, slope = rng.normal(100, 15, people), rng.normal(4, 2, people)
    rows = [
        (person, day, round(start[person] + slope[person] * day + rng.normal(0, noise), 1),
         round(float(np.exp(rng.normal(1, 0.4))), 2))
        for person in range(people) for day in TIMES
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["id", "day", "time", "crp"])


def with_lines(**more):
    line = {"course": "line", "deviation": 5} | more
    return LONG | {"columns": {"time": {"decimals": 1, **line}, "crp": {"scale": "log", "decimals": 2}}}


def test_the_attack_is_that_on_the_visits_that_are_modelled(rng, tmp_path):
    """Of the same draws: the table by hand, with the ends of the line and every visit of the other column."""
    long = measured(rng).assign(id=lambda each: each["id"] + 1000)
    wide = long.pivot(index="id", columns="day")
    hand = pd.DataFrame(
        {f"time@{day}": wide["time", day] for day in (0, 8)} | {f"crp@{day}": wide["crp", day] for day in TIMES}
    ).reset_index(drop=True)
    by_hand = {
        "columns": {f"time@{day}": {"decimals": 1} for day in (0, 8)}
        | {f"crp@{day}": {"scale": "log", "decimals": 2} for day in TIMES}
    }
    release = abo.Synthesizer(schema=with_lines()).fit(long).sample(datasets=2, rng_for_tests=rng)
    other = abo.Synthesizer(schema=by_hand).fit(hand).sample(datasets=2, rng_for_tests=rng)
    tables = [other.mechanism.table(each.natural, each.categories.codes) for each in release.tables]
    other = replace(other, datasets=tuple(tables))
    abo.save_release(release, tmp_path / "lines")
    assert not abo.check(tmp_path / "lines", long).findings
    mine = abo.risk(long, tmp_path / "lines", rng=np.random.default_rng(0), mass=False)
    theirs = abo.risk(hand, other, rng=np.random.default_rng(0), mass=False)
    shared = [name for name, each in theirs.measures.items() if each.dtype.kind == "f" and "@" in name]
    assert len(shared) > 20
    for name in shared:
        found, expected = mine.measures[name], theirs.measures[name]
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=name)
    # what lies between is judged as well, so that the risk is at least as large
    assert any("time@2" in name for name in mine.measures)
    assert np.all(mine.measures["risk"] >= theirs.measures["risk"] - 1e-10)


@pytest.mark.parametrize("scale", ["as it is", "log", "sqrt", "log(x + 1)"])
def test_what_goes_out_lies_beside_the_line_as_far_as_declared(rng, scale):
    """In 100,000 rows, on the scale of the column; and on the line itself where the deviation is 0."""
    size = 0.2 if scale.startswith("log") else 0.5
    entries = {"scale": scale, "low": 0.5, "course": [0, 2, 8], "deviation": size}
    schema = Schema.of(LONG | {"columns": {"x": entries}}).widened()
    assert [column.name for column in schema.columns] == ["x@0", "x@2", "x@8"]
    natural = rng.uniform(30, 50, (100_000, 3))
    line = schema.derive(natural)
    to_model = Scale.of(scale).to_model
    np.testing.assert_allclose(
        to_model(line["x@4"]), 2 / 3 * to_model(natural[:, 1]) + 1 / 3 * to_model(natural[:, 2]), rtol=1e-10
    )
    out = schema.derive(natural, synthetic=True)
    beside = np.column_stack([to_model(out[name]) - to_model(line[name]) for name in ("x@1", "x@4")])
    assert np.all(np.abs(beside.mean(axis=0)) < 5 * size / np.sqrt(1e5))
    np.testing.assert_allclose(beside.std(axis=0), size, rtol=5 / np.sqrt(2e5))
    related = np.corrcoef(np.column_stack([beside, natural]).T) - np.eye(5)
    assert np.abs(related).max() < 5 / np.sqrt(1e5)
    again = schema.derive(natural[5:9], synthetic=True)  # of the row alone
    np.testing.assert_array_equal(again["x@1"], out["x@1"][5:9])


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), missed=st.booleans())
def test_a_draft_for_few_people_is_taken_as_printed(seed, missed, tmp_path_factory):
    rng, path = np.random.default_rng(seed), tmp_path_factory.mktemp("draft") / "table.toml"
    long = measured(rng, 12)
    long = long.drop(index=rng.choice(len(long), 4)) if missed else long
    described(long).write(path)
    schema = Schema.of(path)
    assert [each.through for each in schema.visits.courses] == [(0, 8), (0, 8)]
    assert Schema.of(schema.entries()) == schema
    how = "impute" if missed else "refuse"
    [frame] = abo.Synthesizer(schema=schema, missing=how).fit(long).sample(rng_for_tests=rng).to_frames()
    assert list(frame.columns) == list(long.columns)
    assert not frame.isna().any().any()


def test_spreads_between_the_ends_are_kept_by_the_proposed_deviation(rng):
    """Of lines with noise: var(line) + deviation² is the variance that there is, and one digit is near enough."""
    long = measured(rng, 4000, noise=20.0)
    seen = SeenRows.of(nw.from_native(long), Visits("id", "day", tuple(TIMES)))
    line = seen.course("time", long["time"].to_numpy())
    assert line.through == (0, 8)
    schema = LONG | {"columns": {"time": {"course": "line", "deviation": line.deviation}, "crp": {}}}
    [frame] = abo.Synthesizer(schema=schema).fit(long).sample(rng_for_tests=rng).to_frames()
    real, made = (each.groupby("day")["time"].std() for each in (long, frame))
    np.testing.assert_allclose(made, real, rtol=0.15)


def test_what_people_are_too_few_for_names_lines_as_a_cure(rng):
    schema = LONG | {"columns": {"time": {"decimals": 1}, "crp": {"scale": "log"}}}
    with pytest.raises(InputError) as caught:
        abo.Synthesizer(schema=schema).fit(measured(rng, 9))
    assert any('course = "line"' in cure.words for cure in caught.value.cures)
    lines = {"time": {"course": "line", "deviation": 5}, "crp": {"scale": "log", "course": "line", "deviation": 0}}
    abo.Synthesizer(schema=LONG | {"columns": lines}).fit(measured(rng, 9))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"course": "curve"}, "visits are a list of numbers"),
        ({"course": [0, 3, 8]}, "goes through 3, which is none of its visits"),
        ({"course": [0, 4]}, "from the first to the last visit"),
        ({"deviation": -1}, "a deviation is a number from 0"),
        ({"scale": "logit", "low": 0, "high": 900}, "a course has no scale 'logit'"),
        ({"above": "crp", "decimals": None}, "what has a course has no order"),
        ({"kind": "category", "decimals": None}, "only a measurement has a course"),
        ({"once": True}, "has no course"),
    ],
)
def test_what_cannot_be_a_line_is_refused(change, words):
    entries = {key: each for key, each in (with_lines()["columns"]["time"] | change).items() if each is not None}
    with pytest.raises(InputError, match=words):
        Schema.of(LONG | {"columns": {"time": entries, "crp": {}}})
    with pytest.raises(InputError, match="course and deviation go together"):
        Schema.of(LONG | {"columns": {"time": {"course": "line"}}})
    with pytest.raises(InputError, match="no column names people"):
        Schema.of({"columns": {"time": {"course": "line", "deviation": 1}}})
    with pytest.raises(InputError, match="lines need visits that are numbers"):
        Schema.of(with_lines() | {"visits": ["a", "b", "c"]})


def test_one_visit_is_adjusted_by_its_name_and_people_are_counted(rng):
    long = measured(rng, 40).assign(pain=rng.integers(0, 2, 200).astype(str))
    schema = Schema.of(with_lines()).adjusted(log=["crp@4"], decimals={"crp@2": 0})
    wide = schema.widened()
    assert [wide.column(f"crp@{day}").decimals for day in TIMES] == [2, 2, 0, 2, 2]
    assert wide.column("crp@2").scale.name == "log"  # as declared for every visit
    with pytest.raises(InputError, match="lies on a line"):
        schema.adjusted(decimals={"time@2": 0})
    with pytest.raises(InputError, match="at none of the visits"):
        schema.adjusted(log=["crp@3"])
    found = described(long)
    counts = long.groupby("pain")["id"].nunique()
    assert (
        f"0 ({counts['0']}), 1 ({counts['1']})"
        in next(each for each in found.lines() if each["column"] == "pain")["what"]
    )
    assert any(note.startswith("40 people for ") for note in found.notes)
    words = wide.plainly("crp@2 and time@0; xcrp@2, <code>--drop crp@2</code> crp@20")
    assert words == "crp at day 2 and time at day 0; xcrp@2, <code>--drop crp@2</code> crp@20"
