"""The page that goes with a release: against whom it is to be judged."""

import re

import numpy as np
import pandas as pd
import pytest

import allbutone as abo


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, "and one who knows all values of that person but one. Whether"),
        (
            {"age": {"known": True}, "bmi": {"known": True}},
            "and one who knows the age and bmi of that person. Whether",
        ),
        (
            {"age": {"secret": False}},
            "Not judged, because it is declared to be public of people anyway: age. Whether",
        ),
    ],
    ids=["nothing", "known", "public"],
)
def test_it_says_against_whom_as_the_table_file_declares(rng, declared, expected):
    table = pd.DataFrame(rng.standard_normal((30, 3)), columns=["age", "bmi", "ldl"])
    records = abo.Records.of(table, schema=abo.Schema.of({"columns": declared}))
    release = abo.Synthesizer().fit(records).sample(rng_for_tests=np.random.default_rng(1))
    page = abo.report(records, release, public=True).page
    assert expected in re.sub(r"\s+", " ", page)
