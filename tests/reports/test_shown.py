"""Results that show themselves: the same finding as a table, in words, and in a notebook."""

import copy
import re
from base64 import b64decode
from xml.etree import ElementTree

import narwhals as nw
import numpy as np
import pandas as pd
import plotly.graph_objects as go
import polars as pl
import pyarrow as pa
import pytest

import allbutone as abo
from allbutone.disclosure.rule import Rule
from allbutone.figures.parts import parts_of
from allbutone.figures.risk import disclosure_figure, membership_figure
from allbutone.figures.svg import picture
from allbutone.reports.shown import shown
from allbutone.reports.verdict import verdict_of

NAMES = ["a & b", "ldl"]


@pytest.fixture(scope="module")
def values():
    values = np.random.default_rng(3).standard_normal((40, 2))
    values[0] = [9.0, -9.0]
    return values


@pytest.fixture(scope="module")
def release(values):
    records = abo.Records.of(pa.table(dict(zip(NAMES, values.T, strict=True))))
    return abo.Synthesizer().fit(records).sample(datasets=20, rng_for_tests=np.random.default_rng(1))


def table_in(library, values):
    return library(dict(zip(NAMES, values.T, strict=True)))


def image_in(page):
    """Return the picture that a page holds, as a tree."""
    [code] = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    return ElementTree.fromstring(b64decode(code))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_risk_is_a_table_to_every_library(library, values, release):
    found = abo.risk(table_in(library, values), release, mass=False)
    expected = np.asarray(found.measures["risk"])
    assert type(found.frame) is type(table_in(library, values))
    assert len(found) == 40
    assert "risk" in found
    np.testing.assert_array_equal(np.asarray(found["risk"]), expected)  # as that library has it
    for taken in (found.to_pandas(), pd.DataFrame(list(found)), found.to_polars(), pl.DataFrame(found)):
        np.testing.assert_array_equal(taken["risk"].to_numpy(), expected)
    for taken in (found.to_arrow(), pa.table(found)):
        assert taken.column_names == list(found.measures)
    assert nw.from_native(found).columns == list(found.measures)
    assert [person["row"] for person in found] == list(range(1, 41))
    assert list(copy.deepcopy(found).measures) == list(found.measures)
    with pytest.raises(AttributeError):
        _ = found.no_such_thing


def test_what_a_risk_shows_is_its_verdict(values, release):
    found = abo.risk(table_in(pd.DataFrame, values), release, mass=False)
    verdict = verdict_of(found.measures, Rule())
    assert not verdict.passed
    text, page = " ".join(repr(found).split()), found._repr_html_()
    assert text.startswith(f"✘ {verdict.headline}".replace("\u00a0", " "))
    assert "a &amp; b" in page
    assert NAMES[0] not in page
    assert page.count("<tr>") == 1 + 5
    first = verdict.disclosed[0]
    assert (found.closest(1)[0]["row"], found.closest(1)[0]["column"]) == (first.row, first.column)
    assert len({line["row"] for line in found.closest()}) == 5  # a line a person
    assert image_in(page).tag.endswith("svg")


def test_what_passed_as_drawn_gets_no_sign(values):
    """Whether as much is within the budget is not asked, so that ✔ would say too much."""
    table = table_in(pd.DataFrame, values[1:])
    found = abo.risk(table, abo.Synthesizer().fit(table).sample(datasets=1, rows=2), mass=False)
    assert found.verdict.passed
    assert shown(found).mark == ""
    assert "a budget" in shown(found).sentence
    assert not {"✔", "✘"} & set(repr(found))


def test_estimates_and_verdicts_show_themselves_in_short(values, release):
    combined = abo.combine(release, people=40)
    lines = repr(combined).splitlines()
    assert [line.split()[-4] for line in lines[-2:]] == [f"{each:.3g}" for each in combined.estimate]
    assert combined._repr_html_().count("<tr>") == 3
    one = repr(abo.combine([1.0, 2.0], [0.1, 0.2], people=40, rows=[40, 40]))
    assert one.splitlines()[-1].split()[0] == "1.5"
    verdict = abo.risk(table_in(pd.DataFrame, values), release, mass=False).verdict
    assert repr(verdict).startswith(f"{verdict.mark} By the rule")
    assert "Records" not in repr(verdict)


def test_lines_keep_to_the_terminals_width(values, release, monkeypatch):
    found = abo.risk(table_in(pd.DataFrame, values), release, mass=False)
    for columns in (80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert max(map(len, repr(found).splitlines())) <= columns


def test_signs_follow_the_findings(values, tmp_path):
    table = table_in(pd.DataFrame, values[1:])
    release = abo.Synthesizer().fit(table).sample(datasets=3, rng_for_tests=np.random.default_rng(1))
    bent = table.assign(ldl=np.exp(2 * table["ldl"]))
    abo.save_release(release, tmp_path / "release")
    clean = abo.check(tmp_path / "release")
    (tmp_path / "release" / "notes.txt").write_text("mine")
    signs = {
        "✔": [abo.check_normality(table), abo.fidelity(table, release), clean],
        "✘": [abo.check_normality(bent), abo.fidelity(table + 3.0, release), abo.check(tmp_path / "release")],
    }
    for sign, results in signs.items():
        for result in results:
            assert repr(result).startswith(sign), repr(result)
            assert sign in result._repr_html_()
    for result in (signs["✔"][0], signs["✔"][1]):
        assert len(list(image_in(result._repr_html_()).iter())) > 20


def test_a_figure_in_parts_has_all_its_places(values, release):
    """Dots, bars, lines and ticks are where plotly would draw them: taken from the figure, on the data's scale."""
    found = abo.risk(table_in(pd.DataFrame, values), release, mass=False)
    figure = disclosure_figure(found.measures, Rule())
    parts = parts_of(figure)
    dots = [mark for mark in parts.marks if mark.kind == "points"]
    assert sum(len(mark.x) for mark in dots) == 40
    assert parts.x.ends == tuple(figure.layout.xaxis.range)
    assert parts.x.labels == ("0 %", "25 %", "50 %", "75 %", "100 %")
    assert "<" not in parts.x.title
    bars = [mark for mark in parts_of(membership_figure(found.measures, Rule())).marks if mark.kind == "bars"]
    assert sum(float(np.sum(mark.y - mark.base)) for mark in bars) == 40
    log = go.Figure(go.Scatter(x=[1.0, 10.0, 100.0], y=[0.0, 1.0, np.nan], mode="lines"))
    log.update_xaxes(type="log", range=[0, 2]).add_annotation(x=1, y=0.5, text="ten", showarrow=False)
    parts = parts_of(log)
    assert parts.x.ends == (1.0, 100.0)
    assert set(parts.x.places) == {1, 2, 5, 10, 20, 50, 100}
    assert parts.words[0].x == pytest.approx(10.0)
    image = image_in(picture(log))
    [line] = image.findall(".//{*}polyline")
    assert len(line.get("points").split()) == 2  # what is no number is no place
    with pytest.raises(ValueError, match="pie"):
        parts_of(go.Figure(go.Pie(values=[1, 2])))
