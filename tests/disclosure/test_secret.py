"""What is public of people is never judged; what people outside can know narrows the second adversary."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import allbutone as abo
from allbutone.disclosure.budget_case import Case
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import (
    BASELINE,
    BEYOND,
    OTHERS,
    PROBABILITY,
    REST_KNOWN,
    TOLERANCE,
    Rule,
    judged_columns,
)
from allbutone.support.errors import InputError
from allbutone.tables.schema import Schema

COLUMNS = ("age", "bmi", "stage", "sex")


def drawn(seed=3, people=60):
    """Two measurements that hang together, and two categories; the person in row 7 is far out in both."""
    rng = np.random.default_rng(seed)
    age = rng.normal(60, 8, people)
    bmi = 26 + 0.2 * (age - 60) + rng.normal(0, 2, people)
    age[6], bmi[6] = 99.0, 46.0
    stage = rng.choice(["I", "II", "III"], people, p=[0.6, 0.3, 0.1])
    return {"age": age, "bmi": bmi, "stage": stage, "sex": rng.choice(["f", "m"], people)}


def declared(**columns):
    """Return a schema with declared tolerances, so that every adversary's guess is measured alike."""
    usual = {"age": {"tolerance": 3.0}, "bmi": {"tolerance": 1.0}}
    usual |= {name: {"kind": "category"} for name in ("stage", "sex")}
    return {"columns": {name: usual[name] | columns.get(name, {}) for name in COLUMNS}}


def read(gaps=False, **columns):
    table = {name: list(values) for name, values in drawn().items()}
    if gaps:
        table["bmi"][3], table["stage"][9] = None, None
    return abo.Records.of(pl.DataFrame(table), schema=declared(**columns), categories=True, gaps=gaps)


def released(records, **how):
    synthesizer = abo.Synthesizer(**how).fit(records)
    return synthesizer.sample(datasets=4, rng_for_tests=np.random.default_rng(1))


def judged(records, release, adversary=None, **more):
    adversary = adversary or abo.Adversary()
    return risk_columns(records, release, adversary, mass=False, rng=np.random.default_rng(0), **more)


@pytest.mark.parametrize("value", ["bmi", "stage"])
def test_all_but_one_declared_known_is_the_default_for_that_value(value):
    """Both are the posterior of one value given all others; by points to a few standard errors, or exactly."""
    usual = read()
    others = {name: {"known": True} for name in COLUMNS if name != value}
    release = released(usual)
    before, after = judged(usual, release), judged(read(**others), release)
    assert judged_columns(after, REST_KNOWN) == [value]
    assert sorted(judged_columns(after)) == sorted(judged_columns(before))
    for kind, close in ((PROBABILITY, 0.01), (BASELINE, 1e-6)):
        name = REST_KNOWN + kind + value
        np.testing.assert_allclose(after[name], before[name], atol=close)
    np.testing.assert_array_equal(after["membership"], before["membership"])


def test_what_is_declared_known_is_what_a_narrower_adversary_knows():
    records = read(age={"known": True}, sex={"known": True})
    release = released(records)
    both, alone = judged(records, release), judged(read(), release, abo.Adversary(known=["age", "sex"]))
    for name in judged_columns(alone):
        np.testing.assert_allclose(both[REST_KNOWN + PROBABILITY + name], alone[PROBABILITY + name], atol=1e-9)
    assert judged_columns(both, REST_KNOWN) == judged_columns(alone) == ["bmi", "stage"]
    for kind in (TOLERANCE, BEYOND, OTHERS):  # and how near a guess must come is told
        np.testing.assert_array_equal(both[REST_KNOWN + kind + "bmi"], alone[kind + "bmi"])


@pytest.mark.parametrize("gaps", [False, True])
def test_a_column_that_is_not_secret_never_sets_a_verdict(gaps):
    public = {name: {"secret": False} for name in ("bmi", "stage")}
    records, how = read(gaps, **public), {"missing": "impute"} if gaps else {}
    release = released(records, **how)
    found, every = judged(records, release), judged(read(gaps), release)
    assert {*judged_columns(found), *judged_columns(found, REST_KNOWN)} == {"age", "sex"}
    assert not set(found["riskiest"]) & {"bmi", "stage"}
    assert set(release.order) == set(COLUMNS)  # still modelled, and released
    assert np.all(found["disclosed"] <= every["disclosed"])
    for prefix in ("", REST_KNOWN):
        for name in ("age", "sex"):
            np.testing.assert_allclose(
                found[prefix + PROBABILITY + name], every[prefix + PROBABILITY + name], atol=1e-12
            )


def test_the_option_says_the_same_as_the_table_file():
    records = read(bmi={"secret": False}, stage={"secret": False})
    release = released(records)
    declared_so = judged(records, release)
    asked_so = judged(read(), release, abo.Adversary(secret="age,sex"))
    assert list(declared_so) == list(asked_so)
    np.testing.assert_array_equal(declared_so["risk"], asked_so["risk"])


def case_of(records, adversary=None, **how):
    mechanism = abo.Synthesizer(**how).fit(records).mechanism
    return Case.of(records, mechanism, 60, Rule(membership=0.99), 1, adversary or abo.Adversary())


@pytest.mark.parametrize("gaps", [False, True])
def test_simulated_releases_judge_what_risk_judges(gaps):
    """A release that discloses a value of row 7 does so only where it is secret, to who is declared to look."""
    how = {"missing": "impute"} if gaps else {}
    people, releases = np.array([6, 20]), range(2)

    def disclosed(**columns):
        case = case_of(read(gaps, **columns), **how)
        simulates = case.gaps if gaps else case.releases
        return replace(simulates, membership=False).discloses(30, people, releases)

    every = disclosed()
    assert every[:, 0].all()
    fewer = disclosed(age={"secret": False}, bmi={"secret": False}, stage={"secret": False})
    assert np.all(fewer <= every)
    known = disclosed(**{name: {"known": True} for name in COLUMNS})
    assert np.all(known <= every)  # nobody is left to look for anything but who lacks the record


def test_the_budget_without_the_column_that_set_the_limit_allows_more():
    values = np.random.default_rng(5).standard_normal((80, 3))
    values[4] = [0.0, 0.0, 9.0]
    table = abo.Records(values, ("a", "b", "c"), schema=Schema.of({"columns": {name: {} for name in "abc"}}))
    case = Case.of(table, abo.Synthesizer().fit(table).mechanism, 80, Rule(), 1)
    narrower = Case.of(table, case.mechanism, 80, Rule(), 1, abo.Adversary(secret=["a", "b"]))
    assert narrower.by_measurements > case.by_measurements
    at = np.array([4])
    assert np.isinf(narrower.lineup.look(at).needed[0, 2])
    assert np.isfinite(case.lineup.look(at).needed[0, 2])


def test_nothing_secret_is_refused():
    records = read()
    release = released(records)
    with pytest.raises(InputError, match="nothing is secret that the adversary does not know"):
        judged(records, release, abo.Adversary(known=["age"], secret=["age"]))
    with pytest.raises(InputError, match="no column 'agee' to keep secret"):
        judged(records, release, abo.Adversary(secret=["agee"]))
