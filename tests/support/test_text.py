"""Numbers as a person writes them."""

import numpy as np
import pytest

from allbutone.support.text import at_most, number


@pytest.mark.parametrize(
    ("bound", "words"),
    [(0.05, "at most 5 %"), (0.0, "less than 0.1 %"), (0.0004, "less than 0.1 %"), (0.432, "at most 43 %")],
)
def test_a_bound_is_never_at_most_nothing(bound, words):
    assert at_most(bound).replace("\u00a0", " ") == words


def test_what_there_is_not_has_no_number():
    assert number(np.float64("nan")) == "–"
