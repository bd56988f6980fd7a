"""Long tables: the rows of each person are one record, exactly as if the table had one row each."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import allbutone as abo
from allbutone.releases.check import check
from allbutone.support.errors import InputError
from allbutone.tables.described import described
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

TIMES = (0, 6, 12)
LONG = {
    "person": "id",
    "visit": "month",
    "visits": list(TIMES),
    "columns": {
        "sex": {"kind": "category", "levels": ["f", "m"], "once": True},
        "height": {"decimals": 1, "once": True},
        "crp": {"scale": "log"},
        "weight": {"decimals": 1},
    },
}
WIDE = {
    "columns": {
        "sex": {"kind": "category", "levels": ["f", "m"]},
        "height": {"decimals": 1},
        **{f"crp@{time}": {"scale": "log"} for time in TIMES},
        **{f"weight@{time}": {"decimals": 1} for time in TIMES},
    }
}


def long_table(people=40, missed=0.0, seed=5):
    """Rows of people at three visits, some of them missed, in no order."""
    rng = np.random.default_rng(seed)
    size, rows = rng.normal(0, 5, people), []
    for person in range(people):
        came = [time for time in TIMES if time == 0 or rng.random() >= missed]
        for time in came:
            crp, weight = np.exp(rng.normal(1, 0.5)), 60 + 2 * size[person] + time / 4 + rng.normal()
            rows.append(
                (f"P{person:03}", time, "fm"[person % 2], round(165 + size[person], 1), crp, round(weight, 1))
            )
    return pd.DataFrame(rows, columns=["id", "month", "sex", "height", "crp", "weight"]).sample(
        frac=1, random_state=seed
    )


def widened_by_hand(long):
    """The same by pandas, people in the order in which they come."""
    order = long["id"].drop_duplicates()
    once = long.drop_duplicates("id").set_index("id")[["sex", "height"]]
    for column in ("crp", "weight"):
        each = long.pivot(index="id", columns="month", values=column)
        once = once.join(each.rename(columns={time: f"{column}@{time}" for time in TIMES}))
    return once.loc[order].reset_index(drop=True)


@settings(deadline=None, max_examples=15)
@given(
    st.integers(0, 2**32 - 1), st.floats(0, 0.6), st.booleans(), st.sampled_from(["pandas", "polars", "pyarrow"])
)
def test_there_and_back_is_the_table_itself(seed, missed, texts, library):
    long = long_table(9, missed, seed).reset_index(drop=True)
    came = long["month"].value_counts().reindex(TIMES, fill_value=0)
    assume(came.min() >= 3)  # what fewer have is constant, or goes by another column, and is refused
    names = {0: "baseline", 6: "half a year", 12: "a year"}
    schema = LONG | ({"visits": list(names.values())} if texts else {})
    if texts:
        long["month"] = long["month"].map(names)
    else:
        long["id"] = long["id"].str[1:].astype(int)
    table = {"pandas": long, "polars": pl.from_pandas(long), "pyarrow": pl.from_pandas(long).to_arrow()}[library]
    records = Records.of(table, schema=schema, categories=True, gaps=True, rows_are_people=True)
    back = pl.DataFrame(records.to_frame("polars")).to_pandas()
    back = back.astype({"sex": str} | ({"month": str} if texts else {}))
    expected = long.sort_values(["id", "month"]).reset_index(drop=True)
    found = back.sort_values(["id", "month"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_exact=False, rtol=1e-12)
    assert list(records.persons) == list(long["id"].drop_duplicates())


@pytest.mark.parametrize("missing", ["refuse", "keep"])
def test_the_attack_is_that_on_the_table_widened_by_hand(missing, tmp_path):
    long = long_table(20, 0.2 if missing == "keep" else 0.0)
    tables, schemas = [long, widened_by_hand(long)], [LONG, WIDE]
    if missing == "refuse":  # of measurements alone, the closed forms
        tables = [each.drop(columns="sex") for each in tables]
        schemas = [
            each | {"columns": {k: v for k, v in each["columns"].items() if k != "sex"}} for each in schemas
        ]
    releases = [
        abo.Synthesizer(missing=missing).fit(table, schema=schema, rows_are_people=True).sample(datasets=1)
        for table, schema in zip(tables, schemas, strict=True)
    ]
    [drawn] = releases[0].tables  # the same in both
    again = releases[1].mechanism.table(drawn.natural, drawn.categories.codes, gaps=missing == "keep")
    releases[1] = replace(releases[1], datasets=(again,))
    for place, release in enumerate(releases):  # by their files, long and wide
        abo.save_release(release, tmp_path / str(place))
    mine, theirs = (
        abo.risk(table, tmp_path / str(place), rng=np.random.default_rng(0), mass=False)
        for place, table in enumerate(tables)
    )
    assert list(mine.measures) == ["person", *theirs.measures]
    for name, column in theirs.measures.items():
        if column.dtype.kind == "f":
            np.testing.assert_allclose(mine.measures[name], column, rtol=1e-10, atol=1e-10)
        else:
            assert list(mine.measures[name]) == list(column), name
    assert mine.verdict.passed == theirs.verdict.passed
    assert mine.verdict.judged == theirs.verdict.judged
    assert list(mine.measures["person"]) == list(long["id"].drop_duplicates())
    assert " of person P" in mine.verdict.sentence
    assert "row" not in mine.verdict.who
    values = [line["column"] for line in mine.closest(20)]
    assert any(" at month " in value for value in values)
    assert not any("@" in value for value in values)


def test_synthetic_rows_keep_their_form_and_nobody_real_is_named():
    long = long_table(40)
    long["bmi"] = (long["weight"] / (long["height"] / 100) ** 2).round(1)
    long["peak"] = long["weight"] + 1.5
    declared = {"bmi": {"derived": "weight / (height / 100) ** 2", "decimals": 1, "replaces": True}}
    declared["peak"] = {"above": "weight", "decimals": 1}
    # a gap that never varies would leave no spread
    long["peak"] = (long["peak"] + np.random.default_rng(1).exponential(1, len(long))).round(1)
    schema = LONG | {"columns": {**LONG["columns"], **declared}}
    release = abo.Synthesizer().fit(long, schema=schema).sample(datasets=1, rows=34_000)
    [table] = release.to_frames()
    assert len(table) == 34_000 * 3
    assert list(table.columns) == list(long.columns)
    assert np.array_equal(table["id"], np.repeat(np.arange(1, 34_001), 3))
    assert np.array_equal(table["month"], np.tile(TIMES, 34_000))
    assert not table.isna().any().any()
    assert (table["peak"] >= table["weight"]).all()
    assert np.allclose(table["bmi"], (table["weight"] / (table["height"] / 100) ** 2).round(1), atol=0.1001)
    assert (table.groupby("id")[["sex", "height"]].nunique() == 1).all().all()


def test_missed_visits_are_rows_that_are_not_there(tmp_path):
    long = long_table(40, 0.4)
    release = abo.Synthesizer(missing="keep").fit(long, schema=LONG).sample(datasets=1, rows=300)
    [table] = release.to_frames()
    assert 300 < len(table) < 900
    assert table["id"].nunique() == 300
    # a pattern that nobody has is drawn now and then, as ever: of a share by Beta(1, 40) at most
    assert table[table.isna().any(axis=1)]["id"].nunique() < 0.4 * 300
    abo.save_release(release, tmp_path / "release", format="parquet")
    again = abo.load_release(tmp_path / "release")
    np.testing.assert_allclose(release.values[0], again.values[0], rtol=1e-12)
    assert abo.check(tmp_path / "release", long, schema=LONG).findings == ()
    # somebody without any visit still is a person
    nobody = release.tables[0].take([0]).with_measurements(np.where(np.arange(7) > 0, np.nan, 170.0)[None])
    assert len(nobody.to_frame("pandas")) == 1


def test_a_release_with_identifiers_of_the_table_is_found(tmp_path):
    long = long_table(40)
    release = abo.Synthesizer().fit(long, schema=LONG).sample(datasets=1)
    abo.save_release(release, tmp_path / "release")
    file = tmp_path / "release" / "dataset-001.csv"
    assert abo.check(tmp_path / "release", long).is_clean
    assert not any(name in file.read_text() for name in set(long["id"]))
    # identifiers that are numbers, so that nothing else of the file is odd
    lines = [line.split(",", 1) for line in file.read_text().splitlines()]
    numbered = [lines[0], *([str(int(person) + 4711), rest] for person, rest in lines[1:])]
    file.write_text("\n".join(map(",".join, numbered)) + "\n")
    assert any("identifiers of the table" in each.problem for each in check(tmp_path / "release").findings)


def test_all_that_is_wrong_with_rows_is_said_at_once(tmp_path):
    long = long_table(20).sort_values(["id", "month"]).reset_index(drop=True)
    long = pd.concat([long, long.iloc[[4]]], ignore_index=True)  # two rows for one visit
    long["month"] = long["month"].astype(float)
    long.loc[0, "id"] = None
    long.loc[10, "month"] = np.nan
    long.loc[20, "month"] = 7
    long.loc[30, "sex"] = {"f": "m", "m": "f"}[long.loc[30, "sex"]]
    long["clinic"] = long["id"].map(lambda name: float(sum(map(ord, str(name)))))  # which nobody declared
    with pytest.raises(InputError) as caught:
        abo.Synthesizer().fit(long, schema=LONG)
    told = caught.value.problem
    assert told.count("\n") == 6
    assert "6 reasons" in told
    for part in (
        "'id' is missing in 1 row (1)", "'month' is missing in 1 row (11)", "'month' has '7' in 1 row (21)",
        "two rows for one visit in 2 rows (5, 61)", "'sex' is declared to stand once, and changes in",
        "'clinic' does not change within anybody",
    ):  # fmt: skip
        assert part in told, part


def test_what_is_wrong_with_rows_values_and_formulas_is_one_list():
    """Two rows for one visit, nobody's visit, a date that does not exist, a division by zero, an unknown name."""
    long = long_table(20).sort_values(["id", "month"]).reset_index(drop=True)
    long = pd.concat([long, long.iloc[[4]]], ignore_index=True)
    long.loc[10, "id"] = None
    long["seen"] = "2020-03-01"
    long.loc[7, "seen"] = "2020-02-30"
    long.loc[8, "weight"] = 0.0
    long["dose"] = long["ratio"] = 1.0
    more = {
        "seen": {"kind": "date"},
        "ratio": {"derived": "crp / weight", "replaces": True},
        "dose": {"derived": "2 * wieght"},
    }
    with pytest.raises(InputError) as caught:
        abo.Synthesizer().fit(long, schema={**LONG, "columns": LONG["columns"] | more})
    told = caught.value.problem
    for part in (
        "two rows for one visit in 2 rows (5, 61)", "'id' is missing in 1 row (11)", "row 8: '2020-02-30'",
        "'ratio' cannot be computed in 1 row (9)", "'dose' is computed from 'wieght'", "is 'weight' meant?",
    ):  # fmt: skip
        assert part in told, part
    assert any("correct its formula" in str(cure) for cure in caught.value.cures)


def test_what_is_wrong_with_values_alone_is_said_once_by_the_rows_of_the_file():
    long = long_table(20).sort_values(["id", "month"]).reset_index(drop=True)
    long["ratio"], long["dose"] = (long["crp"] / long["weight"]).round(3), 2 * long["crp"]
    long["seen"] = [f"2020-{1 + place % 3:02}-{1 + place % 17:02}" for place in range(60)]
    long.loc[8, "weight"], long.loc[40, "seen"] = 0.0, "2020-02-30"
    more = {
        "seen": {"kind": "date"},
        "ratio": {"derived": "crp / weight", "decimals": 3},
        "dose": {"derived": "2 * wieght"},
    }
    with pytest.raises(InputError) as caught:
        Records.of(long, schema={**LONG, "columns": LONG["columns"] | more}, categories=True)
    assert [problem.column for problem in caught.value.problems] == ["seen", "ratio", "dose"]
    assert "row 41: '2020-02-30'" in str(caught.value)
    assert "cannot be computed in 1 row (9)" in str(caught.value)
    assert caught.value.cures[0].value == ["seen", "ratio", "dose"]


def with_dates(people=60):
    """A long table with the date of each visit, planned and a few days beside it."""
    long, rng = long_table(people), np.random.default_rng(3)
    first = dict.fromkeys(long["id"].drop_duplicates())
    first |= {name: rng.integers(0, 900) for name in first}
    days = (
        long["id"].map(first) + (30.4 * long["month"] + rng.normal(0, 4, len(long)) * (long["month"] > 0)).round()
    )
    return long.assign(seen=(pd.Timestamp("2019-01-07") + pd.to_timedelta(days, unit="D")).dt.strftime("%d.%m.%Y"))


def test_dates_of_visits_lie_after_the_first_as_far_as_in_the_table(tmp_path):
    long = with_dates()
    described(long).write(tmp_path / "table.toml")
    schema = Schema.of(tmp_path / "table.toml")
    assert schema.visits.after == (("seen", 0),)
    assert Schema.of(json.loads(json.dumps(schema.entries()))) == schema
    release = abo.Synthesizer().fit(long, schema=schema).sample(datasets=1, rows=33_400)  # 10⁵ rows of the file
    [frame] = release.to_frames()
    seen = pd.to_datetime(frame["seen"], format="%d.%m.%Y")
    days = seen.to_numpy().reshape(-1, len(TIMES)).astype("M8[D]")
    after = (days[:, 1:] - days[:, :1]).astype(int)
    assert after.min() >= 0
    assert np.all(np.abs(after - 30.4 * np.array(TIMES[1:])) < 40)
    # what is modelled is the table with the gap in the date's place
    order = {"kind": "date", "form": "DD.MM.YYYY", "above": "seen@0"}
    by_hand = {f"seen@{time}": order for time in TIMES[1:]} | {"seen": {**schema.column("seen").entries()}}
    entries = schema.entries()
    entries["columns"] = {k: v for k, v in entries["columns"].items() if k != "seen"} | by_hand
    one, other = (Records.of(long, schema=each, categories=True) for each in (schema, entries))
    other = other.select(one.order)
    np.testing.assert_array_equal(one.values, other.values)


@pytest.mark.parametrize("wrong", ["twice", "nobody"])
def test_a_look_says_why_rows_are_no_visits(wrong):
    long = long_table(20).sort_values(["id", "month"]).reset_index(drop=True)
    if wrong == "twice":
        again = pd.concat([long, long.iloc[[4]]], ignore_index=True)
        for how in ({}, {"person": "id"}, {"person": "id", "visit": "month"}):
            with pytest.raises(InputError, match=r"'month' would tell .* for one visit in 2 rows \(5, 61\)"):
                described(again, **how)
        with pytest.raises(InputError, match="'crp' has 60 different values"):
            described(long, person="id", visit="crp")
    else:
        long["month"] = long["month"].astype("Int64")
        long.loc[60] = {"id": "K99", "month": pd.NA, "sex": "f"}
        assert "'month' is missing in 1 row (61)" in "".join(described(long).notes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": {"crp": {"after": 3}}}, "lies after 3, which is none of its visits"),
        ({"columns": {"sex": {"once": True, "after": 0}}}, "none of its visits"),
        ({"columns": {"sex": {"kind": "category", "after": 0}}}, "only a measurement or a date"),
        ({"columns": {"crp": {"after": 0, "above": "w"}}}, "no other order"),
        ({"visits": [0]}, "at least two visits"),
        ({"visits": [0, 0.0, 6]}, "named twice"),
        ({"visits": [0, "a"]}, "all numbers, or all texts"),
        ({"person": "month"}, "both people and visits"),
        ({"visit": None}, "name two columns"),
        ({"columns": {"sex": {"once": "yes"}}}, "once is true or false"),
        ({"columns": {"sex": {"once": True, "visits": [0]}}}, "what stands once has no visits"),
        ({"columns": {"crp": {"visits": [3]}}}, "3 is none of the visits"),
        ({"columns": {"x": {"derived": "2 * crp", "once": True}}}, "stands once, and is computed from 'crp'"),
        ({"columns": {"crp": {"above": "w"}, "w": {"visits": [0]}}}, "which has not all its visits"),
        ({"people": "id"}, "and nothing else"),
    ],
)
def test_a_table_file_says_what_can_be(change, words):
    with pytest.raises(InputError, match=words):
        Schema.of(LONG | change)


def test_a_schema_is_read_back_as_it_was():
    schema = Schema.of(LONG | {"columns": {**LONG["columns"], "mri": {"visits": [0, 12]}}})
    assert Schema.of(json.loads(json.dumps(schema.entries()))) == schema
    wide = schema.widened()
    assert [each.name for each in wide.columns][-2:] == ["mri@0", "mri@12"]
    assert wide.widened() == wide
    assert Schema.of(wide.entries()).columns == wide.columns


def test_columns_at_single_visits_can_be_chosen_and_left_out():
    long = long_table(40)
    some = Records.of(long, schema=LONG, categories=True, drop=["crp@6", "weight"])
    assert some.order == ("sex", "height", "crp@0", "crp@12")
    assert Records.of(long, schema=LONG, columns=["weight", "crp@6"]).order == (
        "weight@0", "weight@6", "weight@12", "crp@6",
    )  # fmt: skip
    with pytest.raises(InputError, match="there is no column 'crp@7'"):
        Records.of(long, schema=LONG, drop=["crp@7"])
    with pytest.raises(InputError, match=r"'subject' is declared to name people, and is not in the table"):
        Records.of(long, schema=LONG | {"person": "subject"})


def test_what_is_left_out_of_one_visit_is_not_said_to_be_absent():
    schema = {**LONG, "columns": {**LONG["columns"], "length": {}}}
    notes = "".join(Records.of(long_table(40), schema=schema, drop=["crp@6"], categories=True).notes)
    assert "Declared, but not in this table: length." in notes
    assert "taken as they are" not in notes


def test_too_many_columns_for_the_people_are_refused_with_the_cure():
    with pytest.raises(InputError) as caught:
        abo.Synthesizer().fit(long_table(8), schema=LONG)
    assert ("drop", ["crp@12", "weight@12"]) in [(each.argument, each.value) for each in caught.value.cures]


def test_a_look_at_a_long_table_proposes_its_visits(tmp_path):
    long = long_table(40, 0.2)
    long["mri"] = np.where(long["month"] == 6, np.nan, long["weight"] ** 2 % 7)
    found = described(long)
    visits = found.seen.visits
    assert (visits.person, visits.visit, visits.times) == ("id", "month", TIMES)
    assert visits.once == ("sex", "height")
    assert visits.at == (("mri", (0, 12)),)
    found.write(tmp_path / "table.toml")
    drafted = Schema.of(tmp_path / "table.toml")
    assert drafted.visits == visits
    records = Records.of(long, schema=drafted, categories=True, gaps=True)
    assert "mri@6" not in records.order
    assert {"mri@0", "crp@6"} <= {*records.order}
    # what cannot be visits is refused as ever, with the cure
    with pytest.raises(InputError) as caught:
        described(long.assign(month=np.arange(len(long))))
    assert any("declare person, visit and visits" in each.words for each in caught.value.cures)


def test_what_does_not_take_visits_says_so():
    with pytest.raises(InputError, match="does not take visits"):
        abo.Synthesizer().fit(pl.from_pandas(long_table(40)).lazy(), schema=LONG)
