"""Times to an event: Kaplan-Meier and log-rank by their definitions and statsmodels, and what a report shows."""

import numpy as np
import pandas
import pytest

import allbutone as abo
from allbutone.figures.survival import survival_figure
from allbutone.support.errors import InputError
from allbutone.tables.schema import Schema
from allbutone.utility.survival import Followed, LogRank


def trial(rng, people=300):
    """Two arms, one of which lives half as long again; followed for five years at most."""
    arm, until = rng.integers(0, 2, people), rng.uniform(300, 1800, people)
    time = rng.exponential(700 * (1 + 0.5 * arm))
    return pandas.DataFrame(
        {
            "days": np.ceil(np.minimum(time, until)),
            "status": np.where(time <= until, "dead", "alive"),
            "arm": np.where(arm, "new", "old"),
            "age": np.round(rng.normal(62, 9, people)),
        }
    )


EVENT = {"of": "status", "is": "dead", "by": "arm"}
ENTRIES = {
    "days": {"scale": "log", "decimals": 0, "event": EVENT},
    "status": {"kind": "category", "levels": ["alive", "dead"]},
    "arm": {"kind": "category", "levels": ["old", "new"]},
    "age": {"decimals": 0},
}


def test_a_curve_by_hand():
    """Five people: events at 2 (of five) and 4 (of three, two at once); one is lost at 3, one followed to 6."""
    followed = Followed(np.array([2.0, 4.0, 4.0, 3.0, 6.0]), np.array([True, True, True, False, False]))
    times, shares = followed.curve
    np.testing.assert_allclose(times, [0, 2, 4])
    np.testing.assert_allclose(shares, [1, 4 / 5, 4 / 5 * 1 / 3])
    np.testing.assert_allclose(followed.surviving(np.array([1.9, 2.0, 5.0])), [1, 0.8, 0.8 / 3])


def test_log_rank_by_hand():
    """Event times 1 (of 4, 2 of them in the second group) and 2 (of 3; 1): O − E = 1/2 − 1/3 and its variance."""
    one = Followed(np.array([2.0, 3.0]), np.array([True, False]))
    two = Followed(np.array([1.0, 3.0]), np.array([True, False]))
    found = LogRank.of(one, two)
    assert found.excess == pytest.approx(1 - 2 / 4 - 1 / 3)
    assert found.variance == pytest.approx(1 / 4 + 2 / 9)
    assert LogRank.of(two, one).excess == pytest.approx(-found.excess)


@pytest.mark.parametrize("decimals", [0, 6])
def test_curves_and_log_rank_are_those_of_statsmodels(rng, decimals):
    survfunc = pytest.importorskip("statsmodels.duration.survfunc")
    time, happened, group = np.round(rng.exponential(5, 80), decimals), rng.random(80) < 0.7, rng.random(80) < 0.4
    time += 10.0**-decimals
    curve = survfunc.SurvfuncRight(time, happened.astype(int))
    times, shares = Followed(time, happened).curve
    np.testing.assert_allclose(times[1:], curve.surv_times)
    np.testing.assert_allclose(shares[1:], curve.surv_prob, rtol=1e-12, atol=1e-12)
    squared, _ = survfunc.survdiff(time, happened.astype(int), group.astype(int))
    parts = (Followed(time[rows], happened[rows]) for rows in (~group, group))
    assert LogRank.of(*parts).z ** 2 == pytest.approx(float(squared), rel=1e-10)


def test_fidelity_and_report_show_the_curves_by_group(rng):
    table = trial(rng)
    release = abo.Synthesizer(schema={"columns": ENTRIES}).fit(table).sample(datasets=2, rng_for_tests=rng)
    found = abo.fidelity(table, release)
    [survival] = found.survival
    assert [each.group for each in survival.groups] == ["old", "new"]
    own = table["arm"] == "new"
    expected = Followed(table["days"][own].to_numpy(), (table["status"] == "dead")[own].to_numpy())
    np.testing.assert_array_equal(survival.groups[1].real.curve[1], expected.curve[1])
    frame = release.to_frames("pandas")[0]
    own = frame["arm"] == "new"
    drawn = Followed(frame["days"][own].to_numpy(), (frame["status"] == "dead")[own].to_numpy())
    np.testing.assert_allclose(survival.groups[1].synthetic[0].curve[1], drawn.curve[1])
    assert survival.groups[1].log_ranks[0].z == pytest.approx(LogRank.of(expected, drawn).z)
    assert "log-rank" in found.in_words
    assert len(survival_figure(survival).data) == 4  # real and synthetic, of two groups


def test_the_time_may_be_computed_from_dates(rng, tmp_path):
    table = trial(rng, 150)
    start = np.datetime64("2010-01-01") + rng.integers(0, 900, 150)
    table["entered"], table["seen"] = (
        start.astype("M8[ns]"),
        (start + table["days"].to_numpy().astype(int)).astype("M8[ns]"),
    )
    entries = {key: each for key, each in ENTRIES.items() if key != "days"} | {
        "entered": {"kind": "date"},
        "seen": {"kind": "date", "above": "entered"},
        "days": {"derived": "seen - entered", "decimals": 0, "event": EVENT},
    }
    release = abo.Synthesizer(schema={"columns": entries}).fit(table).sample(rng_for_tests=rng)
    abo.save_release(release, tmp_path / "release")
    [survival] = abo.fidelity(table, abo.load_release(tmp_path / "release")).survival
    assert sum(len(each.real.times) for each in survival.groups) == 150


def test_a_right_model_is_within_chance_and_a_wrong_one_is_not(rng):
    table = trial(rng, 600)
    entries = {"columns": ENTRIES}
    release = abo.Synthesizer(schema=entries).fit(table).sample(rng_for_tests=rng)
    longer = table.assign(days=2 * table["days"])
    assert abo.fidelity(longer, release).survival[0].far


def test_all_that_is_wrong_with_an_event_is_said_at_once(rng):
    table = trial(rng, 60)
    wrong = {"of": "statuss", "is": "dead", "by": "age"}
    with pytest.raises(InputError) as refused:
        abo.Records.of(table, schema={"columns": ENTRIES | {"days": {"event": wrong}}}, categories=True)
    assert "'statuss', which is no category of this table (is 'status' meant?) and 'age'" in str(refused.value)
    entries = ENTRIES | {"days": {"event": {"of": "status", "is": "gone"}}}
    with pytest.raises(InputError, match="with the level 'gone'; its levels are alive, dead"):
        abo.Records.of(table, schema={"columns": entries}, categories=True)
    with pytest.raises(InputError, match="event names the column"):
        Schema.of({"columns": {"days": {"event": {"when": "status"}}}})
    schema = Schema.of({"columns": ENTRIES})
    assert Schema.of(schema.entries()) == schema
