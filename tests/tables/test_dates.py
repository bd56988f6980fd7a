"""Dates: counted from a public origin, out in the form they came in, judged as the numbers that they count as."""

import datetime

import numpy as np
import openpyxl
import pandas
import polars
import pyarrow as pa
import pyreadstat
import pytest
from hypothesis import given
from hypothesis import strategies as st

import allbutone as abo
from allbutone.support.errors import InputError
from allbutone.tables.date_forms import FORMS, NUMBERED, Form, read_dates
from allbutone.tables.dates import PRECISIONS, Calendar
from allbutone.tables.described import described
from allbutone.tables.files import read_table
from allbutone.tables.schema import Schema
from allbutone.utility.shapes import densities

moments = st.datetimes(datetime.datetime(1000, 1, 1), datetime.datetime(9000, 1, 1)).map(
    lambda each: each.replace(microsecond=0)
)


def stays(rng, people=120):
    """People with a date of birth by month, an admission, a discharge, and a laboratory value."""
    start = np.datetime64("2012-01-01") + rng.integers(0, 2000, people)
    stay = np.floor(rng.gamma(2, 4, people)).astype(int)
    born = (start - (365.25 * rng.normal(60, 12, people)).astype(int)).astype("M8[M]")
    return pandas.DataFrame(
        {
            "admitted": start.astype("M8[ns]"),
            "discharged": (start + stay).astype("M8[ns]"),
            "born": [str(each) for each in born],
            "crp": np.round(np.exp(rng.normal(2, 1, people)), 1),
        }
    )


DECLARED = {
    "admitted": {
        "kind": "date", "low": "2012-01-01", "high": "2018-01-01", "scale": "logit", "tolerance": "30 days",
    },
    "discharged": {"kind": "date", "above": "admitted", "tolerance": "1 week"},
    "born": {"kind": "date", "precision": "month", "tolerance": 12},
    "crp": {"scale": "log", "decimals": 1},
}  # fmt: skip
SCHEMA = {"columns": DECLARED}


# Forms, there and back


@given(moment=moments, form=st.sampled_from(FORMS))
def test_what_a_form_writes_it_reads(form, moment):
    stamps = np.array([np.datetime64(moment, "s")])
    [text] = Form.of(form).write(stamps, np.array([False]))
    precision = Form.of(form).finest
    code = dict(zip(PRECISIONS, "YMDhms", strict=True))[precision]
    assert Form.of(form).read(text) == stamps.astype(f"M8[{code}]").astype("M8[s]")[0]


@given(moment=moments, precision=st.sampled_from(PRECISIONS), origin=st.dates(datetime.date(1800, 1, 1)))
def test_counting_goes_there_and_back(moment, precision, origin):
    """The literal definition: years, months, or whole lengths of time since the origin, begun ones not counted."""
    calendar = Calendar(precision, origin)
    [number] = calendar.count(np.array([np.datetime64(moment, "s")]))
    since = moment - datetime.datetime.combine(origin, datetime.time())
    months = 12 * (moment.year - origin.year) + moment.month - origin.month
    seconds = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
    expected = {"year": moment.year - origin.year, "month": months}.get(precision)
    assert number == (since // datetime.timedelta(seconds=seconds[precision]) if expected is None else expected)
    assert calendar.count(calendar.stamps(np.array([number]))) == number
    assert calendar.number(calendar.text(number), "low") == number


@pytest.mark.parametrize(
    "form", [*NUMBERED, "number YYYYMMDD", "date", "datetime[us]", "datetime[ns, Europe/Oslo]"]
)
def test_numbers_and_types_go_out_as_they_came(form):
    calendar = Calendar("day", form=form)
    array = calendar.written(np.array([7000.0, np.nan, -3.0]))
    import narwhals as nw

    column = nw.from_native(pa.chunked_array([array]), series_only=True)
    found = read_dates(column, form if form in NUMBERED else "")
    assert found.form == form
    np.testing.assert_array_equal(calendar.count(found.stamps), [7000.0, np.nan, -3.0])
    if form == "Excel":
        assert array[0].as_py() == 7000 + 36526  # as Excel shows the number of 1 March 2019


def _excel(frame, path):
    book = openpyxl.Workbook()
    book.active.append(list(frame.columns))
    for row in frame.itertuples(index=False):
        book.active.append([each.to_pydatetime() if isinstance(each, pandas.Timestamp) else each for each in row])
    book.save(path)


@pytest.mark.parametrize("ending", ["csv", "xlsx", "sav", "dta", "xpt", "parquet"])
def test_dates_of_every_file_go_in_and_out(rng, tmp_path, ending):
    table, path = stays(rng, 40), tmp_path / f"table.{ending}"
    if ending in ("sav", "dta", "xpt"):
        table["admitted"] = table["admitted"].dt.date
    writers = {
        "csv": lambda: table.to_csv(path, index=False),
        "xlsx": lambda: _excel(table, path),
        "parquet": lambda: table.to_parquet(path),
        "sav": lambda: pyreadstat.write_sav(table, path),
        "dta": lambda: pyreadstat.write_dta(table, path),
        "xpt": lambda: pyreadstat.write_xport(table, path),
    }
    writers[ending]()
    release = abo.Synthesizer(schema=SCHEMA).fit(path).sample(datasets=1, rng_for_tests=rng)
    abo.save_release(release, tmp_path / "release")
    written = read_table(tmp_path / "release" / "dataset-001.csv")
    text = (tmp_path / "release" / "dataset-001.csv").read_text().splitlines()[1]
    assert (pa.types.is_date(written.schema.field("admitted").type)) == (ending != "parquet")
    assert text.startswith("20")
    assert len(written["born"][0].as_py()) == len("1950-03")
    again = abo.load_release(tmp_path / "release")
    np.testing.assert_array_equal(again.tables[0].natural, release.tables[0].natural)
    assert not abo.check(tmp_path / "release", path).findings


def test_dataframes_get_their_own_types_back(rng):
    table = stays(rng, 40)
    other = polars.from_pandas(table)
    days = other.with_columns(polars.col("admitted").dt.date())
    for given_table, library in ((table, "pandas"), (other, "polars"), (days, "polars")):
        [frame] = abo.Synthesizer(schema=SCHEMA).fit(given_table).sample(rng_for_tests=rng).to_frames(library)
        assert frame["admitted"].dtype == given_table["admitted"].dtype
        assert type(frame) is type(given_table)
    as_objects = table.assign(admitted=table["admitted"].dt.date)
    records = abo.Records.of(as_objects, schema=SCHEMA)
    np.testing.assert_array_equal(records.natural, abo.Records.of(table, schema=SCHEMA).natural)


def test_stata_s_months_and_digits_are_dates(tmp_path):
    months = pandas.DataFrame(
        {"m": pandas.to_datetime(["2020-01-01", "1959-12-01"] * 5), "x": np.arange(10) ** 1.5}
    )
    months.to_stata(tmp_path / "m.dta", convert_dates={"m": "tm"}, write_index=False)
    entries = {"columns": {"m": {"kind": "date", "precision": "month"}}}
    found = abo.Records.of(tmp_path / "m.dta", schema=entries).natural[:2, 0]
    np.testing.assert_array_equal(found, [240.0, -481.0])
    digits = pandas.DataFrame({"d": [20200131, 19991231, 20000101], "x": [1.0, 2.5, 4.0]})
    records = abo.Records.of(digits, schema={"columns": {"d": {"kind": "date"}}})
    np.testing.assert_array_equal(records.natural[:, 0], [7335.0, -1.0, 0.0])
    assert records.to_frame()["d"].tolist() == [20200131, 19991231, 20000101]


# Bad input: one list of all that is wrong


def test_all_that_is_wrong_with_dates_is_said_at_once(rng):
    table = stays(rng, 60)
    table["admitted"] = table["admitted"].dt.strftime("%Y-%m-%d")
    table["seen"] = [f"{day:02d}/{month:02d}/2020" for day, month in rng.integers(1, 12, (60, 2))]
    table["discharged"] = table["discharged"].dt.strftime("%d.%m.%Y")
    table.loc[3, "admitted"], table.loc[[5, 7], "discharged"] = "2015-02-30", ["2014-03-01", "31.04.2014"]
    table["two"] = "01.02.20"
    dates = {"kind": "date"}
    entries = {"admitted": dates, "discharged": dates, "seen": dates, "two": dates, "born": dates, "crp": {}}
    with pytest.raises(InputError) as refused:
        abo.Records.of(table, schema={"columns": entries})
    told = str(refused.value)
    assert "'admitted' holds 1 value that is no date (row 4: '2015-02-30')" in told
    assert "1 value that is no date (row 8: '31.04.2014')" in told
    assert "in another form than DD.MM.YYYY (row 6: '2014-03-01')" in told
    assert "'seen' could be DD/MM/YYYY or MM/DD/YYYY in every row" in told
    assert "'two' holds years of two digits" in told
    assert "'born' tells no more than the month (YYYY-MM)" in told
    cures = " ".join(map(str, refused.value.cures))
    assert all(each in cures for each in ('form = "DD/MM/YYYY"', 'form = "MM/DD/YYYY"', 'precision = "month"'))


def test_what_a_table_file_declares_of_dates_is_checked_at_once():
    entries = {
        "a": {"kind": "date", "precision": "week"},
        "b": {"kind": "date", "low": "2020-13-01"},
        "c": {"kind": "date", "low": "2020-02-01", "high": "2020-01-01"},
        "d": {"kind": "date", "decimals": 1},
        "e": {"kind": "date", "form": "DD.MM"},
        "f": {"origin": "2000-01-01"},
        "g": {"kind": "date", "above": "h"},
        "h": {"kind": "date", "precision": "month"},
        "i": {"kind": "date", "since": "h", "precision": "month", "scale": "log"},
        "j": {"kind": "date", "tolerance": "soon"},
    }
    with pytest.raises(InputError) as refused:
        Schema.of({"columns": entries})
    for told in (
        "'a': there is no precision 'week'", "'b': low is a date", "'c': low must be below high, got 2020-02-01",
        "'d': a date has no decimals", "'e': 'DD.MM' is no form", "'f': origin is of dates",
        "'g': it lies above h, and 'h' does not count alike", "'j': a length of time",
        "'i': what is counted since another date has no scale",
    ):  # fmt: skip
        assert told in str(refused.value)


def test_dates_that_are_not_declared_are_refused_with_the_cure(rng):
    with pytest.raises(InputError, match="'admitted' holds dates or times") as refused:
        abo.Records.of(stays(rng, 40))
    assert 'kind = "date"' in str(refused.value)


def test_gaps_stay_gaps_and_times_of_a_day_are_refused(rng):
    table = stays(rng, 60)
    table.loc[3, ["admitted", "discharged"]], table.loc[5, "born"] = pandas.NaT, None
    records = abo.Records.of(table, schema=SCHEMA, gaps=True)
    assert np.isnan(records.natural).sum() == 3
    assert records.to_frame("pandas")["born"].isna().tolist() == table["born"].isna().tolist()
    night = table.assign(night=datetime.time(10, 30))[["night", "crp"]]
    with pytest.raises(InputError, match="times of a day"):
        abo.Records.of(night, schema={"columns": {"night": {"kind": "date"}}})


# The model, the attack, and what goes out


def test_the_attack_is_that_on_the_numbers_by_hand(rng):
    """Days and months since the origin as columns of their own: the same draws, risks and verdict."""
    table = stays(rng, 60)
    days = (table[["admitted", "discharged"]] - pandas.Timestamp("2000-01-01")).apply(lambda each: each.dt.days)
    year, month = (table["born"].str.split("-").str[part].astype(int) for part in (0, 1))
    hand = pandas.DataFrame({**days, "born": 12 * (year - 2000) + month - 1.0, "crp": table["crp"]})
    low, high = 4383, 6575
    by_hand = {
        "admitted": {"low": low - 0.5, "high": high + 0.5, "scale": "logit", "tolerance": 30, "decimals": 0},
        "discharged": {"above": "admitted", "tolerance": 7, "decimals": 0},
        "born": {"tolerance": 12, "decimals": 0},
        "crp": DECLARED["crp"],
    }
    found = []
    for data, entries in ((table, DECLARED), (hand, by_hand)):
        synthesizer = abo.Synthesizer(schema={"columns": entries}).fit(data)
        release = synthesizer.sample(datasets=2, rng_for_tests=np.random.default_rng(4))
        found.append((release, abo.risk(data, release, mass=False, rng=np.random.default_rng(5))))
    (release, risk), (other, expected) = found
    np.testing.assert_array_equal(release.tables[0].natural, other.tables[0].natural)
    assert list(risk.measures) == list(expected.measures)
    for name, values in expected.measures.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(risk.measures[name], values, rtol=1e-10, atol=1e-10, err_msg=name)
        else:
            assert np.array_equal(risk.measures[name], values)
    assert risk.verdict.headline == expected.verdict.headline
    words = " ".join(str(line["within"]) for line in risk.closest(60))
    assert "30 days" in words or "7 days" in words or "12 months" in words


@pytest.mark.parametrize("precision", ["year", "month", "day", "minute"])
def test_no_row_breaks_an_order_between_dates(rng, precision):
    """In 100,000 rows, at every precision; draws lie in the boxes that the attack takes them from."""
    unit = {"precision": precision}
    entries = {
        "start": {"kind": "date", "low": "2010-01-01", "high": "2020-01-01", "scale": "logit", **unit},
        "end": {"kind": "date", "above": "start", **unit},
        "middle": {"kind": "date", "between": ["start", "end"], **unit},
        "call": {"kind": "date", "since": "start", **unit},
    }
    schema = Schema.of({"columns": entries}).for_columns([*entries])
    drawn = np.array([1.0, 2.0, 1.5, 40.0]) * rng.standard_normal((100_000, 4))
    natural = schema.released(drawn)
    start, end, middle, call = natural.T
    assert np.all((start <= middle) & (middle <= end))
    assert np.all(natural == np.round(natural))
    assert 0.3 < np.mean(call < start) < 0.7
    low, high = schema.drawn_between(natural)
    assert np.all((drawn >= low - 1e-7) & (drawn <= high + 1e-7))
    frame = abo.Records(schema.to_model(natural[:1000] + 0.25), tuple(entries), schema=schema).to_frame("pandas")
    assert (frame["start"] <= frame["end"]).all()  # as dates, too


def test_formulas_count_dates_in_days(rng):
    table = stays(rng, 60)
    table["stay"] = (table["discharged"] - table["admitted"]).dt.days
    born = pandas.to_datetime(table["born"] + "-01")
    table["age"] = ((table["admitted"] - born).dt.days / 365.25).round(1)
    derived = {
        "stay": {"derived": "discharged - admitted"},
        "age": {"derived": "(admitted - born) / 365.25", "decimals": 1},
    }
    entries = {"columns": DECLARED | derived}
    [frame] = abo.Synthesizer(schema=entries).fit(table).sample(rng_for_tests=rng).to_frames()
    assert (frame["stay"] == (frame["discharged"] - frame["admitted"]).dt.days).all()
    age = (frame["admitted"] - pandas.to_datetime(frame["born"] + "-01")).dt.days / 365.25
    np.testing.assert_allclose(frame["age"], age.round(1), atol=1e-9)


def test_a_look_drafts_dates_and_orders_that_pass_as_printed(rng, tmp_path):
    table = stays(rng, 200).assign(admitted=lambda each: each["admitted"].dt.strftime("%d/%m/%Y"))
    table["discharged"] = table["discharged"].dt.strftime("%d/%m/%Y")
    described(table).write(tmp_path / "table.toml")
    text = (tmp_path / "table.toml").read_text()
    schema = Schema.of(tmp_path / "table.toml")
    assert schema.column("discharged").order.low == "admitted"
    assert schema.column("born").calendar == Calendar("month", form="YYYY-MM")
    assert schema.column("admitted").calendar.form == "DD/MM/YYYY"
    assert 'low = "2012-01-01"' in text  # the year, and not the first person's day
    again = Schema.of(Schema.of(schema.entries()).entries())
    assert again == schema
    abo.Synthesizer(schema=schema).fit(table).sample(rng_for_tests=rng)


def test_a_look_says_what_is_wrong_with_dates(rng):
    table = stays(rng, 60).assign(seen="2020-02-30")
    look = next(each for each in described(table).looks if each.name == "seen")
    assert look.problem.startswith("holds 60 values that are no date")


# What a release has of the table's dates


def test_check_finds_dates_that_were_carried_over(rng, tmp_path):
    table = stays(rng, 400)
    release = abo.Synthesizer(schema=SCHEMA).fit(table).sample(rng_for_tests=rng)
    abo.save_release(release, tmp_path / "release")
    assert not abo.check(tmp_path / "release", table).findings
    path = tmp_path / "release" / "dataset-001.csv"
    frame = pandas.read_csv(path, dtype=str)
    some = rng.permutation(400)[:120]
    frame.loc[some, "admitted"] = rng.permutation(table["admitted"].dt.strftime("%Y-%m-%d %H:%M:%S"))[:120]
    frame.loc[some, "discharged"] = frame.loc[some, "admitted"]
    lines = path.read_text().splitlines()
    cells = [line.split(",") for line in lines[1:]]
    for place in some:
        cells[place][0] = cells[place][1] = frame.loc[place, "admitted"]
    path.write_text("\n".join([lines[0], *map(",".join, cells)]) + "\n")
    problems = [each.problem for each in abo.check(tmp_path / "release", table).findings]
    assert any("'admitted' has dates of the table more often than chance explains" in each for each in problems)


@pytest.mark.parametrize(("first", "found"), [("2012-01-01", False), ("2012-01-14", True)])
def test_a_limit_may_be_the_first_day_of_a_study_and_is_no_person_s(rng, tmp_path, first, found):
    """The first day itself is allowed, by the logit, too; a limit in the middle of a month is somebody's date."""
    table = stays(rng, 60)
    table["admitted"] = table["admitted"].clip(lower=pandas.Timestamp(first))
    table.loc[0, "admitted"] = pandas.Timestamp(first)
    table["discharged"] = table[["admitted", "discharged"]].max(axis=1)
    entries = {"columns": DECLARED | {"admitted": DECLARED["admitted"] | {"low": first}}}
    release = abo.Synthesizer(schema=entries).fit(table).sample(rng_for_tests=rng)
    abo.save_release(release, tmp_path / "release")
    problems = [each.problem for each in abo.check(tmp_path / "release", table).findings]
    assert bool(problems) == found
    assert all(f"the limit low = {first} of 'admitted'" in each for each in problems)


def test_dates_are_shown_as_such_where_results_are(rng):
    table = stays(rng, 80)
    release = abo.Synthesizer(schema=SCHEMA).fit(table).sample(datasets=2, rng_for_tests=rng)
    assert "admitted counts days since 2000-01-01: its mean is 201" in abo.combine(release, people=80).note
    page = abo.report(table, release, public=True).page
    mean = np.mean([each.natural[:, 0].mean() for each in release.tables])
    assert str(np.datetime64("2000-01-01") + int(mean)) in page
    marks = densities(table, release).dates[0]
    assert all(each.startswith("201") for each in marks.values())
