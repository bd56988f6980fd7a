"""The published tables beside ours: whole, as printed, each number judged by an interval of a known level."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from allbutone.paper.design import another_thousand, beside, read_published, verdicts
from allbutone.paper.design_file import SHIPPED, read_design
from allbutone.paper.pages import printed_tables, published_page
from allbutone.paper.run import StudyRun, run_study

NUMBERS = ("mean_x1", "mean_x2", "median", "min", "max")
PAGE = Path(__file__).parents[2] / "docs" / "records" / "published.md"
# sentences of the paper's section 4.1: median (range)
SAID = {
    ("parameters", 2, 10, 1, None): "23.4 10.1 40.5",
    ("parameters", 2, 1000, 1, None): "26.8 26.6 27.1",
    ("parameters", 2, 10, 100, None): "0.5 0.0 4.6",
    ("parameters", 2, 1000, 100, None): "0.8 0.1 2.0",
    ("datasets", 2, 1000, 1, 1000): "26.9 26.6 27.1",
    ("datasets", 2, 1000, 100, 1000): "1.4 0.2 53.0",
    ("datasets", 2, 500, 100, 10): "20.2 8.5 43.0",
    ("datasets", 2, 500, 100, 1000): "0.7 0.0 2.0",
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Every published cell, by a thousand replicates each."""
    design = read_design("paper")
    cells = [cell for cell in design.cells if design.printed(cell)]
    return run_study(StudyRun(design, 1000), tmp_path_factory.mktemp("published") / "study", cells=cells)


def test_the_tables_are_whole_and_as_printed():
    printed = read_published(SHIPPED / "published.csv")
    assert Counter(line["table"] for line in printed.values()) == {"A.1": 36, "A.2": 36, "A.3": 36}
    assert sum(name in NUMBERS for line in printed.values() for name in line) == 540
    for place, words in SAID.items():
        assert " ".join(printed[place][name] for name in ("median", "min", "max")) == words


def test_all_540_printed_numbers_stand_beside_ours(study):
    """Each has a verdict; most agree; those that our page calls far off are far off in a run of any size."""
    rows = [row for table in printed_tables(study) for row in table.rows]
    judged = [verdict for row in rows for verdict in row.verdicts.values()]
    assert len(judged) == 540
    assert set(judged) == {"agrees", "differs"}
    assert 460 <= judged.count("agrees") <= 520
    by_place = {(c.release, c.n, c.count, c.rows): row for c, row in zip(study.cells, study.rows, strict=True)}
    assert "median" in by_place["datasets", 500, 100, 10]["differs_in"].split()
    assert by_place["parameters", 300, 5, None]["verdict"] == "agrees"
    page = published_page(study)
    lines = [line for line in page.splitlines() if re.match(r"\| \d", line)]
    assert len(lines) == 108
    assert page.count("**") == 2 * (judged.count("differs") + 1)  # the words above say what bold means


def test_the_page_in_the_documentation_is_of_these_tables(study):
    """All printed numbers, and ours as a fresh run finds them: means and medians within three standard errors."""
    text = PAGE.read_text(encoding="utf-8").splitlines()
    lines = [line.strip("| ").split(" | ") for line in text if re.match(r"\| \d+ \| \d+ \|", line)]
    assert len(lines) == 108
    found = {id(study.run.design.printed(cell)): row for cell, row in zip(study.cells, study.rows, strict=True)}
    rows = [row for table in printed_tables(study) for row in table.rows]
    for line, row in zip(lines, rows, strict=True):
        *names, record, distance, mean, _ = line
        assert tuple(map(int, names)) == row.names
        assert (record.replace("*", ""), distance.replace("*", "")) == row.as_printed(str)
        told = [float(text) for text in re.findall(r"[\d.]+", mean)]
        for value, name in zip(told, ("mean_x1", "mean_x2"), strict=True):
            width = found[id(row.printed)][f"{name}_to"] - found[id(row.printed)][f"{name}_from"]
            assert abs(value - row.ours[name]) <= 3 / (2 * 2.576) * width + 0.05


def test_intervals_keep_their_level(rng):
    """Numbers of another thousand are refused in about 1 % of cases, whatever the distribution."""
    ours, tries = 60, 200
    outside = Counter()
    for _ in range(ours):
        found = another_thousand(sample := rng.standard_t(3, (1500, 1)), np.abs(sample[:, 0]))
        theirs = rng.standard_t(3, (tries, 1000))
        far = np.abs(theirs)
        each = {"mean_x1": theirs.mean(1), "median": np.median(far, 1), "min": far.min(1), "max": far.max(1)}
        for name, values in each.items():
            low, high = found[f"{name}_from"], found[f"{name}_to"]
            assert (low is None) == (name == "min")
            assert (high is None) == (name == "max")
            outside[name] += np.sum(values < low) if low is not None else 0
            outside[name] += np.sum(values > high) if high is not None else 0
    for name, count in outside.items():
        level = 0.01 if name in ("mean_x1", "median") else 0.005
        # the tries of one sample of ours share its error: at worst all of them fall outside together
        assert count / (ours * tries) <= level + 5 * np.sqrt(level / ours)


def test_an_extreme_has_both_ends_from_199_000_replicates(rng):
    """P(the least of 1000 more < the least of R) = 1000/(R + 1000), at most ½ % from R = 199,000 on."""
    many = rng.random(199_000)
    found = another_thousand(many[:, None], many)
    assert found["min_from"] == many.min()
    assert found["max_to"] == many.max()
    assert another_thousand(many[:198_000, None], many[:198_000])["min_from"] is None
    # the least of 1000 uniforms exceeds x with probability (1 − x)^1000
    assert (1 - found["min_to"]) ** 1000 == pytest.approx(0.005, rel=0.3)
    assert (1 - found["min_typical"]) ** 1000 == pytest.approx(0.5, rel=0.2)
    assert found["max_typical"] ** 1000 == pytest.approx(0.5, rel=0.2)


def test_rounding_is_allowed_for_in_the_last_printed_digit():
    row = {"median_from": 3.0, "median_to": 4.0}
    for text, verdict in (("2.95", "differs"), ("4.05", "differs"), ("4", "agrees"), ("2.9", "differs")):
        assert verdicts(row, {"median": text}) == {"median": verdict}
    row = {"median_from": 2.96, "median_to": 4.04}
    for text, verdict in (("2.95", "differs"), ("4.1", "differs"), ("4.0", "agrees"), ("4.04", "agrees")):
        assert verdicts(row, {"median": text}) == {"median": verdict}
    assert verdicts({"median_from": 19.97, "median_to": 20.04}, {"median": "20"}) == {"median": "agrees"}


def test_too_few_replicates_have_no_verdict():
    row = another_thousand(np.zeros((6, 1)), np.arange(6.0))
    assert beside(row, {"median": "3.0", "table": ""})["verdict"] is None
    row = another_thousand(np.zeros((50, 1)), np.arange(50.0))
    assert beside(row, {"median": "24.5", "table": ""}) == {
        "published_median": 24.5, "verdict": "agrees", "differs_in": "",
    }  # fmt: skip
    assert beside(row, None) == {"published_median": None, "verdict": None, "differs_in": None}
