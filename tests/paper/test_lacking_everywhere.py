"""Weaker adversaries wherever a user looks: by how much the risk falls, the command line, studies and the app."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

import allbutone as abo
from allbutone.disclosure.table_risk import risk_by_lacking
from allbutone.paper.design import choose
from allbutone.paper.design_file import parse_design
from allbutone.paper.law_figures import lacking_figure
from allbutone.paper.simulate import simulate_cell
from app_server import last_line


def test_risk_falls_with_what_is_lacking():
    rng, prior = np.random.default_rng(7), abo.NIW.default(3)
    values = rng.standard_normal((31, 3)) + rng.standard_normal((31, 1))
    values[4] *= 5
    table = abo.Records(values, ("a", "b", "c"))
    release = abo.Release.draw_parameters(prior.update(values), 30, rng, columns=table.columns, prior=prior)
    found = risk_by_lacking(table, release, [5, 12], numbers=(3, 40), rng=np.random.default_rng(1))
    of_outlier = {
        (kind, number): gain
        for kind, number, row, gain in zip(
            *(found[name].tolist() for name in ("lacking", "number", "row", "information_gain")), strict=True
        )
        if row == 5
    }
    assert list(of_outlier) == [("records", 0), ("records", 3), ("columns", 0), ("columns", 1), ("columns", 2)]
    assert of_outlier["records", 0] > of_outlier["records", 3] + 1
    assert of_outlier["columns", 0] > of_outlier["columns", 1] > of_outlier["columns", 2]
    usual = abo.risk(table, release, mass=False).to_pandas()
    assert (
        of_outlier["records", 0] == of_outlier["columns", 0] == pytest.approx(usual.information_gain[4], rel=1e-10)
    )
    figure = lacking_figure(found, [5, 12])
    assert "lacks 3 records" in figure.layout.meta["message"]
    assert "lacks 2 columns" in figure.layout.meta["message"]


def test_the_command_line_plays_weaker_adversaries(allbutone, tmp_path):
    values = np.random.default_rng(1).standard_normal((12, 2)).round(3)
    (tmp_path / "t.csv").write_text("bmi,ldl\n" + "\n".join(f"{a},{b}" for a, b in values) + "\n")
    assert allbutone("synthesize", "t.csv", "--out", "r", "--release", "parameters", "--datasets", 3)[0] == 0
    code, out, _ = allbutone("risk", "t.csv", "r", "--lacking-columns", "ldl", "--no-mass")
    assert code == 0
    assert "without everyone's ldl" in " ".join(out.split())
    assert (tmp_path / "risk.csv").read_text().splitlines()[0].endswith('"error_bmi"')
    code, out, _ = allbutone("risk", "t.csv", "r", "--lacking-records", 1, "--no-mass", "--out", "two.csv")
    assert code == 0
    assert "everybody else's records but for 1 other chosen at random" in " ".join(out.split())
    assert "information_gain_error" in (tmp_path / "two.csv").read_text().splitlines()[0]
    code, out, err = allbutone("risk", "t.csv", "r", "--lacking-records", 1, "--known", "bmi", "--out", "no.csv")
    assert code == 2
    assert "know nothing of the target" in err
    code, out, _ = allbutone("adversaries", "t.csv", "r", "--lacking", "1", "--people", 2)
    assert code == 0
    assert "the gain falls from" in out
    assert len((tmp_path / "adversaries.csv").read_text().splitlines()) == 1 + 2 * (2 + 2)


DESIGN = """
title = "t"
replicates = 300
[[cells]]
release = "{kind}"
{rows}
p = 3
n = 30
count = 6
leverage = 1.5
{lacking}
"""


@pytest.mark.parametrize(("kind", "rows"), [("parameters", ""), ("datasets", "rows = 20")])
def test_study_cells_that_lack_columns_are_the_same_from_statistics_and_from_records(kind, rows):
    design = parse_design(DESIGN.format(kind=kind, rows=rows, lacking="lacking_columns = [0, 1]"))
    medians = []
    for cell in design.cells:
        ours, theirs = (simulate_cell(cell, 300, 1, records=records) for records in (False, True))
        assert ours.candidate.shape == theirs.candidate.shape == (300, 3 - cell.lacking_columns)
        assert ks_2samp(ours.exposure, theirs.exposure).pvalue > 1e-4
        assert ks_2samp(ours.leverage.round(9), theirs.leverage.round(9)).pvalue > 1e-4
        medians.append(np.median(ours.exposure))
    assert medians[0] > medians[1]


def test_study_cells_that_lack_records(tmp_path):
    text = DESIGN.format(kind="parameters", rows="", lacking="lacking_records = [0, 3]")
    design = parse_design(text)
    usual, weaker = (simulate_cell(cell, 20, 1) for cell in design.cells)
    assert np.median(weaker.exposure) < np.median(usual.exposure)
    assert [cell.lacking for cell in design.cells] == ["", "3 records"]
    assert [cell.lacking for cell in choose(design.cells, "lacking_records > 0")] == ["3 records"]
    plain = parse_design(DESIGN.format(kind="parameters", rows="", lacking=""))
    assert plain.cells[0].key == design.cells[0].key
    assert "lacking" not in plain.cells[0].key


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ("lacking_columns = 3", "lacking_columns can be at most 2"),
        ("lacking_records = 28", "cannot be lacking besides the target"),
        ("lacking_records = -1", "lacking_records must be a whole number"),
    ],
)
def test_designs_refuse_what_nobody_can_lack(lacking, words):
    with pytest.raises(abo.InputError, match=words):
        parse_design(DESIGN.format(kind="parameters", rows="", lacking=lacking))


def test_the_app_opens_a_record_to_one_who_lacks_more(browser):
    asked = "/budget/record?kind=parameters&count=20&row=212"
    parts = [last_line(browser.ask(f"{asked}&{lacking}")[2]) for lacking in ("", "missing=2", "without=BMI,HT")]
    records = [part["parts"]["record"] for part in parts]
    assert "lacks 2" not in records[0]
    assert "The adversary lacks 2 records more" in records[1]
    assert "BMI" in records[1]
    assert "landscape" not in parts[1].get("figures", {})
    assert "BMI" not in records[2]
    assert "T2D" in records[2]
    wrong = last_line(browser.ask(f"{asked}&without=XYZ")[2])
    assert wrong["field"] == "without"
    assert "no column 'XYZ' to lack" in wrong["error"]
