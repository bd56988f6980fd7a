"""Formulas of a table file: arithmetic as written, and nothing else."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allbutone.support.errors import InputError
from allbutone.tables.formula import DEEPEST, LONGEST, Formula, in_order

ROWS = {"a": np.array([0.5, 2.0, -3.0]), "b": np.array([4.0, 1.0, 0.25]), "long name": np.array([1.0, 2.0, 3.0])}

numbers = st.floats(0.001, 1000).map(lambda value: repr(round(value, 3))) | st.integers(0, 99).map(str)
leaves = numbers | st.sampled_from(["a", "b"])
signs = st.sampled_from(["+", "-", "*", "/"])


def _larger(part):
    return (
        st.tuples(part, signs, part).map(lambda each: f"{each[0]} {each[1]} {each[2]}")
        | part.map(lambda each: f"({each})")
        | part.map(lambda each: f"-({each})")
        | st.tuples(st.sampled_from(["min", "max"]), part, part).map(
            lambda each: f"{each[0]}({each[1]}, {each[2]})"
        )
        | st.tuples(part, st.sampled_from(["2", "0.5", "-1"])).map(lambda each: f"abs({each[0]}) ** {each[1]}")
        | part.map(lambda each: f"exp(min({each}, 3))")
        | part.map(lambda each: f"round({each}, 2)")
    )


@given(st.recursive(leaves, _larger, max_leaves=12))
def test_a_formula_is_the_arithmetic_that_it_says(text):
    """The oracle is Python's own arithmetic, which the package never asks."""
    known = {
        "min": np.minimum,
        "max": np.maximum,
        "exp": np.exp,
        "abs": lambda each: np.abs(np.float64(1) * each),
        "round": np.round,
    }
    with np.errstate(all="ignore"):
        try:
            expected = np.broadcast_to(eval(text, {"__builtins__": {}}, {**known, **ROWS}), (3,))
        except (ZeroDivisionError, OverflowError):  # of numbers alone
            return
    np.testing.assert_allclose(Formula.of(text).of_values(ROWS), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14),
        ("2 * 3 ** 2", 18),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("2 ** 3 ** 2", 512),
        ("8 / 4 / 2", 1),
        ("7 - 2 - 1", 4),
        ("7 − 2 × 3 ÷ 2", 4),
        ("log(exp(2)) + sqrt(9) + log10(100) + log2(8)", 10),
        ("1e3 + .5", 1000.5),
        ("round(2.344, 2) + round(17.2)", 19.34),
        ("round(1234, -2)", 1200),
        ("max(1, 5, 3) - min(4, 2)", 3),
    ],
)
def test_signs_bind_as_in_every_textbook(text, value):
    assert float(Formula.of(text).of_values({})) == pytest.approx(value, rel=1e-12)


def test_names_stand_as_words_or_in_backticks():
    found = Formula.of("`long name` * a + b")
    assert found.columns == ("long name", "a", "b")
    np.testing.assert_allclose(found.of_values(ROWS), ROWS["long name"] * ROWS["a"] + ROWS["b"])


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "==", "!="])
def test_a_comparison_says_yes_or_no_of_each_row(sign):
    found = Formula.of(f"a {sign} b / 2")
    assert found.compares
    expected = [eval(f"{one} {sign} {two} / 2") for one, two in zip(ROWS["a"], ROWS["b"], strict=True)]
    assert found.of_values(ROWS).tolist() == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "a +", "* a", "(a", "a)", "a b", "a ** ", "log a", "log()", "log(a, b)", "f(a)", "a < b < 1",
        "(a < b) + 1", "__import__('os')", "a.__class__()", "open(a)", "a; b", "a = 1", "a if b else 1",
        "lambda: 1", "a[0]", "'x'", '"x"', "round(a, b)", "round(a, 0.5)", "round(a, 99)", "1e999", "a % b",
        "a // b", "a & b", "\x00", "(" * (DEEPEST + 1) + "a" + ")" * (DEEPEST + 1), "2" + "**2" * (DEEPEST + 1),
        "a" + "+a" * LONGEST, "a" + "+a" * 480,
    ],
)  # fmt: skip
def test_what_is_no_formula_is_refused_with_the_grammar(text):
    with pytest.raises(InputError) as refused:
        Formula.of(text)
    assert refused.value.cures


@pytest.mark.parametrize(
    "text", ["a / b > 2", "log(a) != 2", "min(a / b, 9) + 1 / (a / b)", "log(a) ** 0", "1 / (1 / b)"]
)
def test_what_has_no_value_at_one_step_has_none_at_the_end(text):
    rows = {"a": np.array([0.0, -1.0, 3.0, np.nan]), "b": np.array([0.0, 0.0, 1.0, 1.0])}
    found = Formula.of(text).of_values({name: rows[name] for name in Formula.of(text).columns})
    without = "log" not in text and "a" not in text
    assert np.isnan(found).tolist() == [True, True, False, not without]


@given(st.text(max_size=60))
def test_any_text_is_a_formula_or_refused(text):
    try:
        found = Formula.of(text)
    except InputError:
        return
    values = {name: np.array([1.0, math.nan]) for name in found.columns}
    assert np.shape(found.of_values(values)) in ((), (2,))


def test_what_is_needed_comes_first_and_circles_are_refused():
    assert in_order({"c": ("b", "x"), "a": ("x",), "b": ("a",)}) == ["a", "b", "c"]
    with pytest.raises(InputError, match="'a', 'b'"):
        in_order({"a": ("b",), "b": ("a",), "c": ()})
