"""The Python side of the R package: columns cross as bytes, and errors are worded for R."""

import sys

import numpy as np
import pyarrow as pa
import pytest

import allbutone as abo
from allbutone.support.errors import Cure
from pages import ROOT


@pytest.fixture(scope="module")
def face():
    sys.path.insert(0, str(ROOT / "r" / "inst" / "python"))
    try:
        import allbutone_r

        yield allbutone_r
    finally:
        sys.path.pop(0)


def column(name, kind, values, form, levels=None):
    return {"name": name, "kind": kind, "bytes": bytearray(np.array(values, form).tobytes()), "levels": levels}


def test_what_r_sends_arrives_with_its_gaps(face):
    gap = face.NA_INTEGER
    table = face.table_of(
        [
            column("number", "number", [1.5, np.nan], "<f8"),
            column("whole", "whole", [gap, 7], "<i4"),
            column("levels", "levels", [2, gap], "<i4", ["a", "b", "c"]),
            column("text", "text", [gap, 1], "<i4", ["æ"]),
            column("date", "date", [0, np.nan], "<f8"),
        ]
    )
    assert [table.column(name).null_count for name in table.column_names] == [1] * 5
    assert table.column("whole").to_pylist() == [None, 7]
    assert table.column("levels").to_pylist() == ["b", None]
    assert table.column("levels").combine_chunks().dictionary.to_pylist() == ["a", "b", "c"]
    assert table.column("text").to_pylist() == [None, "æ"]
    assert pa.types.is_temporal(table.schema.field("date").type)


def test_what_python_answers_is_read_by_r(face):
    answer = pa.table({"n": [1, None], "x": [0.5, None], "yes": [True, None], "who": ["a", None]})
    n, x, yes, who = face.columns_of(answer)
    for each in (n, x):
        found = np.frombuffer(each["bytes"], "<f8")
        assert np.isnan(found[1])
        assert not np.isnan(found[0])
    for each in (yes, who):
        assert np.frombuffer(each["bytes"], "<i4").tolist() == [1, face.NA_INTEGER]
    assert (n["kind"], x["kind"], yes["kind"], who["kind"]) == ("whole", "number", "flag", "text")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["a", 'b"c'], 'c("a", "b\\"c")'),
        (["a"], '"a"'),
        (True, "TRUE"),
        (None, "..."),
        (-9.0, "-9"),
        ({"a b": 1, "low": float("-inf")}, "list(`a b` = 1, low = -Inf)"),
    ],
)
def test_a_cure_is_worded_for_r(face, value, words):
    assert face.in_r(Cure("leave it out", "drop", value)) == f"leave it out (drop = {words})"


def test_what_is_wrong_comes_back_as_a_value(face):
    table = abo.demo_cohort().to_frame("pyarrow")
    fine = face.answered("synthesize", table, [], {"datasets": 2.0, "rows": [20.0, 30.0]})
    assert fine["value"].rows == (20, 30)
    assert not fine["warnings"]
    wrong = face.answered("synthesize", table, [], {"columns": "nobody"})
    assert "value" not in wrong
    assert "nobody" in wrong["problem"]
    assert "colums" in face.answered("synthesize", table, [], {"colums": "BMI"})["message"]


def test_every_figure_of_r_can_be_taken_apart(face):
    cohort = abo.demo_cohort().take(slice(60))
    release = abo.Synthesizer().fit(cohort).sample(datasets=2)
    found = face.answered("risk", cohort.to_frame("pyarrow"), [], release, {"mass": False})["value"]
    assert found["verdict"]["people"] == 60
    parts = face.drawing(found["figures"]["values"])
    assert parts["message"]
    assert {"points", "area", "line"} <= {each["kind"] for each in parts["marks"]}
    assert all("%" in words for axis in parts["axes"].values() for words in axis["labels"])
