"""Every command that a command names next runs as printed, and is asked the same of the same table."""

import re
import shlex
from itertools import pairwise

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("few_trials")

CHOICES = ("--drop", "patient", "--prior", "my prior.toml")
DESIGN = """
title = "Mine"
replicates = 60
[[cells]]
release = "parameters"
p = 2
n = 10
count = [1, 5]
target = 9
"""


@pytest.fixture
def people(tmp_path):
    """A table that no command can use unless it is told what to leave out, and what prior is meant."""
    rng = np.random.default_rng(3)
    lines = [
        f"p{row},{bmi:.2f},{ldl:.3f}" for row, (bmi, ldl) in enumerate(rng.normal((27, 3.4), (4, 0.9), (20, 2)))
    ]
    path = tmp_path / "-our people.csv"
    path.write_text("\n".join(["patient,bmi,ldl", *lines]) + "\n")
    (tmp_path / "my prior.toml").write_text("[centre]\nbmi = 25\nldl = 3\n[spread]\nbmi = 4.5\nldl = 1\n")
    (tmp_path / "mine.toml").write_text(DESIGN)
    return "./-our people.csv"


def hints_of(output):
    found = re.findall(r"^Next: .*\n  (.*)$", output, re.MULTILINE)
    assert output.count("Next:") == len(found)
    return [shlex.split(line) for line in found]


def follow(allbutone, *command):
    """Run a command and all that are named next, until none is new; return every command that was run."""
    left, done = [list(map(str, command))], []
    while left:
        command = left.pop()
        code, out, err = allbutone(*command)
        assert code == 0, (command, err)
        done.append(command)
        if command[-1] != "--help":
            seen = {_without_numbers(each) for each in done + left}
            for program, *hint in hints_of(out):
                assert program == "allbutone"
                if _without_numbers(hint) not in seen:
                    left.append(hint)
    return done


def _without_numbers(command):
    """The second round differs in the names of what it writes: release-2."""
    return tuple(re.sub(r"-\d+(?=\.csv$|\.html$|$)", "", word) for word in command)


def carries(command, options):
    return all(pair in list(pairwise(command)) for pair in zip(options[::2], options[1::2], strict=True))


@pytest.mark.parametrize("kind", [("--rows", "20"), ("--release", "parameters")])
def test_from_a_release_to_its_risk_and_the_budget(allbutone, people, kind):
    done = follow(allbutone, "synthesize", people, "--out", "-my release", "--datasets", 2, *kind, *CHOICES)
    assert [each[0] for each in done[:3]] == ["synthesize", "risk", "budget"]
    # the release holds the columns and the prior, so that from its risk on it is enough to name it
    assert all(carries(each, CHOICES) for each in done[:2])
    assert all(carries(each, ("--like", "-my release")) for each in done[2:3])
    assert all(
        carries(each, kind) for each in done if each[0] in ("budget", "synthesize") and each[-1] != "--help"
    )


def test_from_a_first_look_by_a_table_file_to_the_budget(allbutone, people, tmp_path):
    done = follow(allbutone, "describe", people)
    assert [each[0] for each in done[:3]] == ["describe", "describe", "budget"]  # before anything is drawn
    assert carries(done[2], ("--table-file", "table.toml"))


def _stays(rng, people):
    """Dates of admission and discharge, a month of birth, and the length of stay that follows from the two."""
    start, stay = np.datetime64("2012-01-01") + rng.integers(0, 2000, people), rng.integers(0, 30, people)
    born = (start - rng.integers(10_000, 30_000, people)).astype("M8[M]")
    return {"admitted": start, "discharged": start + stay, "born": born, "stay": stay}


def _pressures(rng, people):
    diastolic = rng.normal(80, 10, people).round()
    return {"systolic": diastolic + np.exp(rng.normal(3.5, 0.4, people)).round(), "diastolic": diastolic}


def _trial(rng, people):
    time, until = rng.exponential(700, people), rng.uniform(300, 1800, people)
    return {"days": np.ceil(np.minimum(time, until)), "status": np.where(time <= until, "dead", "alive")}


@pytest.mark.parametrize("made", [_stays, _pressures, _trial])
def test_columns_that_belong_together_go_from_a_file_to_a_report(allbutone, tmp_path, made):
    columns = made(np.random.default_rng(8), 70)
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")
    assert allbutone("describe", "t.csv", "--out", "table.toml")[0] == 0
    if made is _trial:
        text = (tmp_path / "table.toml").read_text().replace('label = "days"', 'event = "status"')
        (tmp_path / "table.toml").write_text(text)
    if made is _stays:
        told = (tmp_path / "table.toml").read_text()
        assert 'above = "admitted"' in told
        assert 'derived = "discharged - admitted"' in told
    done = follow(allbutone, "synthesize", "t.csv", "--table-file", "table.toml", "--out", "release")
    assert "report" in [each[0] for each in done]


def test_what_was_told_of_gaps_codes_and_scales_goes_on(allbutone, tmp_path):
    rng = np.random.default_rng(5)
    values = np.exp(rng.normal(0, 1, (40, 2))).round(3).astype(str)
    values[3, 0], values[7, 1] = "", "-999"
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(map(",".join, values)) + "\n")
    told = ("--log", "a,b", "--missing-codes", "-999")
    done = follow(allbutone, "synthesize", "t.csv", "--out", "r", *told, "--complete-cases")
    assert [each[0] for each in done[:4]] == ["synthesize", "risk", "budget", "synthesize"]
    assert all("--complete-cases" in each and carries(each, told[2:]) for each in done if each[-1] != "--help")


def test_what_is_out_already_counts(allbutone, tmp_path):
    values = np.random.default_rng(7).standard_normal((80, 2))
    np.savetxt(tmp_path / "t.csv", values, delimiter=",", header="a,b", comments="", fmt="%.6f")
    assert allbutone("synthesize", "t.csv", "--out", "r", "--datasets", 2)[0] == 0
    _, out, _ = allbutone("budget", "t.csv", "--like", "r", "--seed", 1)
    allowed = int(re.search(r"Up to ([\d,]+) more datasets", out).group(1).replace(",", ""))
    [[_, *more]] = hints_of(out)
    assert carries(more, ("--datasets", str(allowed), "--like", "r"))
    [[_, *together]] = hints_of(allbutone("synthesize", "t.csv", "--like", "r", "--out", "more")[1])
    assert together[:4] == ["risk", "t.csv", "r", "more"]
    code, out, _ = allbutone(*together, "--no-mass")
    assert code == 0
    assert hints_of(out)[0][1] == "report"
    # where as much is out as may be, no more is proposed
    assert allbutone("synthesize", "t.csv", "--out", "all", "--datasets", 4 * allowed + 10)[0] == 0
    [[_, *hint]] = hints_of(allbutone("budget", "t.csv", "--like", "all", "--seed", 1, "--out", "b.csv")[1])
    assert hint[:3] == ["report", "t.csv", "all"]


def test_a_risk_that_was_told_nothing_names_what_the_release_says(allbutone, people, tmp_path):
    assert allbutone("synthesize", people, "--out", "r", "--rows", 20, *CHOICES)[0] == 0
    code, out, _ = allbutone("risk", people, "r", "--no-mass")
    assert code == 0
    [[_, *hint]] = hints_of(out)
    assert carries(hint, ("--like", "r", "--rows", "20"))
    assert allbutone(*hint)[0] == 0


@pytest.mark.parametrize("named", [("--columns", "ward,bmi,ldl", "--drop", "ward"), ("--drop", "x1")])
def test_a_table_without_a_header(allbutone, tmp_path, named):
    values = np.random.default_rng(3).normal((0, 1, 2), 1, (20, 3))
    np.savetxt(tmp_path / "bare.csv", values, delimiter=",")
    done = follow(allbutone, "synthesize", "bare.csv", "--out", "r", "--rows", 20, "--no-header", *named)
    assert [each[0] for each in done[:3]] == ["synthesize", "risk", "budget"]
    assert all("--no-header" in each for each in done if each[-1] != "--help")
    assert all(carries(each, named) for each in done[:2])
    # a risk that was not told what the release leaves out names the release to the budget
    told = () if "x1" in named else named[:2]
    out = allbutone("risk", "bare.csv", "r", "--no-header", "--no-mass", "--out", "x.csv", *told)[1]
    [[_, *hint]] = hints_of(out)
    assert carries(hint, (*told, "--like", "r"))
    assert allbutone(*hint)[0] == 0


def test_from_a_report_to_the_public_page(allbutone, people, tmp_path):
    assert allbutone("synthesize", people, "--out", "r", "--datasets", 2, *CHOICES)[0] == 0
    (tmp_path / "public.html").write_text("mine")
    done = follow(allbutone, "report", people, "r", "--probability", 0.99, "--note", "It's made up.", *CHOICES)
    assert [each[0] for each in done] == ["report", "report", "check", "check"]
    assert carries(done[1], (*CHOICES, "--note", "It's made up."))
    assert (tmp_path / "public.html").read_text() == "mine"
    assert "It&#39;s made up." in (tmp_path / "public-2.html").read_text()


def test_from_the_application_to_the_budget(allbutone, people):
    done = follow(allbutone, "application", people, "--datasets", 12, *CHOICES)
    assert [each[0] for each in done[:3]] == ["application", "budget", "synthesize"]
    assert all(carries(each, CHOICES) for each in done[:3])
    done = follow(allbutone, "application", "--datasets", 1, "--out", "simulated")
    assert done[1:] == [["application", "--help"]]


def test_from_the_demo_and_from_a_study(allbutone, people):
    # which runs, as another test shows
    assert hints_of(allbutone("demo")[1]) == [["allbutone", "risk", "demo/others.csv", "demo/release"]]
    assert follow(allbutone, "study", "mine.toml", "--out", "my study")[1:] == [["study", "show", "my study"]]


def test_from_a_long_table_of_growth_to_its_report(allbutone, tmp_path, long_growth):
    """Children measured at three ages, some of whom missed one: from a first look to the case."""
    code, _, err = allbutone("synthesize", long_growth, "--out", "release")
    assert code != 0
    assert "declare person, visit and visits in a table file" in " ".join(err.split())
    _, out, _ = allbutone("describe", long_growth, "--out", "table.toml")
    ((_, plan, *asked),) = hints_of(out)  # before anything is drawn
    assert plan == "budget"
    done = follow(allbutone, "synthesize", *asked, "--out", "release")
    assert {"synthesize", "risk", "report"} <= {command[0] for command in done}
    table = (tmp_path / "release" / "dataset-001.csv").read_text().splitlines()
    assert table[0] == '"who","age","sex","distance"'
    assert len(table) == 1 + 30 * 3  # imputed: nobody misses a visit
    assert not any("kid" in line for line in table)
    assert "kid" in (tmp_path / "risk.csv").read_text()


@pytest.fixture
def long_growth(tmp_path):
    """A distance that grows with age, simulated, of thirty children: rows of each at 8, 10 and 12 years."""
    rng = np.random.default_rng(8)
    lines = ["who,age,sex,distance"]
    for child, (level, slope) in enumerate(rng.normal((22, 0.6), (2, 0.2), (30, 2))):
        ages = [age for age in (8, 10, 12) if age == 8 or rng.random() < 0.9]
        lines += [
            f"kid{child},{age},{'fm'[child % 2]},{level + slope * (age - 8) + rng.normal():.1f}" for age in ages
        ]
    (tmp_path / "growth.csv").write_text("\n".join(lines) + "\n")
    return "growth.csv"
