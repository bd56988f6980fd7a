"""The shadow attack: its estimate against the exact probability, its command, its file, its time limit."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import allbutone as abo
from allbutone.model.moments import Moments
from allbutone.other_tools.shadow import ENOUGH, FEWEST, Command, Shadow, Shadowed, membership_hits, shadow
from allbutone.releases.release import Release
from allbutone.reports.audit import shadow_words
from cases import LONG


@pytest.fixture
def people(rng):
    values = rng.standard_normal((80, 2))
    values[:50] *= np.linspace(6, 1, 50)[:, None]
    return values.round(4)


def drawn(rng):
    """Draw as allbutone does, at once: a dataset of as many rows from the posterior under the flat prior."""

    def make(table):
        values = np.asarray(table)
        release = Release.draw(abo.NIW.flat(2).update(Moments.of(values)), [len(values)], rng)
        return release.values[0]

    return make


def test_the_estimate_agrees_with_the_exact_probability(people, rng):
    """Hits at 1 % false alarms of allbutone's own rows, against the exact trade-off curve, person by person."""
    count, rounds = (50, 800) if LONG else (2, ENOUGH)
    records = abo.Records.of(people)
    found = shadow(records, records.to_frame("pandas"), drawn(rng), people=count, rounds=rounds, minutes=60)
    exact = np.asarray(abo.privacy(people, datasets=1)["membership_hits_1_percent"])
    hits = [person.hits["all rows together"] for person in found.people]
    truth = exact[[person.place for person in found.people]]
    assert found.rounds == rounds
    inside = [each.low <= one <= each.high for each, one in zip(hits, truth, strict=True)]
    assert np.mean(inside) >= 0.94  # 95 % intervals, which are wide rather than narrow
    assert truth[0] > 0.05  # there is something to find
    # the threshold's own noise is about that of the hits: twice their variance, and everybody shares the runs
    error = np.sqrt(2 * np.mean(truth * (1 - truth)) / rounds + 0.01 / rounds)
    assert np.mean([each.value for each in hits]) == pytest.approx(np.mean(truth), abs=5 * error)


def test_hits_of_statistics_whose_law_is_known(rng):
    """Normal ones that are apart by 3 hit in Φ(3 − 2.326) of cases; the interval holds that in 95 of 100."""
    truth = 0.7498
    inside = 0
    for _ in range(100):
        [found] = membership_hits(rng.normal(3, 1, (1, 500)), rng.normal(0, 1, (1, 500)))
        inside += found.low <= truth <= found.high
    assert inside >= 90
    pooled = membership_hits(rng.normal(3, 1, (20, 40)) * 7, rng.normal(0, 1, (20, 40)) * 7)
    assert np.mean([each.value for each in pooled]) == pytest.approx(truth, abs=0.1)


def test_with_too_few_runs_nobody_counts_as_found():
    """Of 367 runs without the person one may well lie below the true threshold in all (0.99^367 > 2.5 %)."""
    for runs, is_found in ((FEWEST - 1, False), (FEWEST, True)):
        [found] = membership_hits(np.full((1, runs), 1e3), np.arange(runs, dtype=float)[None])
        assert found.value == 1
        assert (found.low > 0.9) == is_found
        assert 0.99**runs < 0.025 or not is_found
    three = Shadow(tuple(Shadowed(place, {}) for place in range(3)), 100)
    assert three.rounds_needed == 123
    assert "it takes 123 rounds" in " ".join(shadow_words(three))
    assert "it takes" not in " ".join(shadow_words(replace(three, rounds=123)))


def test_a_tool_that_fits_once_gives_values_away(rng):
    """20,000 rows of a fitted normal: the means differenced find the value, and only of who is in the table."""
    values = rng.standard_normal((12, 2)).round(3)

    def make(table):
        one = np.asarray(table)
        return rng.multivariate_normal(one.mean(axis=0), np.cov(one.T), 20_000)

    records = abo.Records.of(values)
    found = shadow(records, records.to_frame("pandas"), make, people=2, rounds=40)
    for person in found.people:
        assert person.guess == "differencing the means"
        assert person.within[0].value > 0.9
        assert person.error[0] < 0.3
        assert person.is_told(abo.Rule())
    assert not found.repeats


def test_what_running_again_tells_stands_in_the_verdict_and_in_the_table(rng):
    """A tool that says who was there: its rows as such copy nothing, and no other part may be blamed."""
    values = rng.standard_normal((40, 2)).round(4)

    def make(table):
        one = np.asarray(table)
        return (one.mean(axis=0) + rng.standard_normal((30, 2)) * 1e-3 * one.std(axis=0)).round(6)

    rows = rng.standard_normal((30, 2)).round(6)
    found = abo.audit(values, rows, shadow=make, people=2, rounds=30)
    told = {int(found.records.rows[person.place]) for person in found.shadow.people if person.is_told(abo.Rule())}
    members = {int(found.records.rows[one.place]) for one in found.shadow.people if one.is_member(abo.Rule())}
    assert told | members
    verdict = found.verdict
    assert verdict.standing == "against"
    assert set(verdict.disclosed) == told
    assert set(verdict.members) == members
    assert "tool was run again, 30 times" in verdict.how_sure
    assert "stand in the release" not in verdict.how_sure
    row = np.asarray(found["row"])
    assert set(row[np.asarray(found["disclosed_by_running_again"])]) == told
    assert set(row[np.asarray(found["disclosed"])]) == told
    assert set(row[np.asarray(found["membership_by_running_again"])]) == members


COPY = """
import sys
lines = open(sys.argv[1]).read().splitlines()
open(sys.argv[2], "w").write("\\n".join(lines) + "\\n")
"""


def test_the_command_runs_with_and_without_people_and_goes_on(allbutone, tmp_path, rng):
    """A tool that copies the table finds everybody; the second time nothing is run again."""
    values = rng.standard_normal((30, 2)).round(3)
    np.savetxt(tmp_path / "t.csv", values, "%.3f", ",", header="a,b", comments="")
    (tmp_path / "copy it.py").write_text(COPY)
    asked = f"{sys.executable} 'copy it.py' {{table}} {{out}}"
    command = ("audit", "t.csv", "t.csv", "--shadow", asked, "--people", 1, "--rounds", 2, "--force")
    code, out, err = allbutone(*command)
    assert code == 0, err
    assert "same rows twice" in out
    runs = (tmp_path / "audit.shadow.jsonl").read_text().splitlines()
    assert len(runs) == 1 + 2 * 2
    assert (tmp_path / "audit.shadow.jsonl").stat().st_mode & 0o77 == 0
    (tmp_path / "copy it.py").write_text("raise SystemExit('not run again')")
    assert allbutone(*command)[0] == 0
    state = json.loads(runs[0])
    (tmp_path / "audit.shadow.jsonl").write_text(json.dumps({**state, "digest": "another"}) + "\n")
    code, _, err = allbutone(*command)
    assert code != 0
    assert "another table" in err


def test_a_shell_never_reads_the_command(tmp_path):
    """What a shell would run is a word like any other; what cannot be run is said."""
    made = tmp_path / "made"
    words = Command.of(f"{sys.executable} -c pass {{table}} {{out}} ; touch {made}")
    with pytest.raises(abo.InputError, match="wrote no rows"):
        words(abo.demo_cohort().to_frame("pandas"), 20.0)
    assert not made.exists()
    with pytest.raises(abo.InputError, match=r"does not say \{out\}"):
        Command.of("tool {table}")
    with pytest.raises(abo.InputError, match="cannot be read"):
        Command.of("tool '{table} {out}")
    with pytest.raises(abo.InputError, match="cannot be run"):
        Command.of("/no/such/tool {table} {out}")(abo.demo_cohort().to_frame("pandas"), 20.0)
    with pytest.raises(abo.InputError, match="ended with 3: what it said"):
        Command.of(f"{sys.executable} -c 'import sys; print(\"what it said\"); sys.exit(3)' {{table}} {{out}}")(
            abo.demo_cohort().to_frame("pandas"), 20.0
        )


def test_the_time_limit_ends_a_run(rng):
    values = rng.standard_normal((12, 2))
    records = abo.Records.of(values)
    command = f"{sys.executable} -c 'import time; time.sleep(60)' {{table}} {{out}}"
    found = shadow(records, records.to_frame("pandas"), command, people=1, rounds=2, minutes=0.005)
    assert found.ended == "the time was up"
    assert found.people == ()
