"""The commands risk and budget as a user meets them."""

import re
import shlex

import numpy as np
import pytest


@pytest.fixture
def released(allbutone, table):
    assert allbutone("synthesize", table, "--out", "r", "--datasets", 3, "--rows", 20)[0] == 0
    return table


RISK = ("distance", "baseline_distance", "relative_error", "exposure", "mass", "prior_mass", "information_gain")


def _header(path):
    return tuple(path.read_text().splitlines()[0].replace('"', "").split(","))


def _is_private(path):
    return path.stat().st_mode & 0o777 == 0o600


def _asks_nothing_of_servers(page):
    return "default-src 'none'" in page and not re.search(r"<(script|link|img|iframe)[^>]+(src|href)\s*=", page)


def test_risk_answers_in_words_numbers_and_a_picture(allbutone, released, tmp_path):
    code, out, err = allbutone("risk", released, "r")
    assert (code, err) == (0, "")
    assert re.match(r"([✔✘] By the rule this (may|should not) be given out|! It passes, but)", out)
    for words in (
        "The values closest to being disclosed",
        "risk.csv",
        "risk.html",
        "confidential",
        "Assumed:",
    ):
        assert words in out
    header = _header(tmp_path / "risk.csv")
    assert header[:4] == ("row", "disclosed", "risk", "riskiest")
    assert {*RISK, "probability_bmi", "baseline_bmi", "tolerance_bmi", "error_ldl", "epsilon"} < set(header)
    assert "per record, computed from the data, confidential, and not a guarantee" in " ".join(out.split())
    assert len((tmp_path / "risk.csv").read_text().splitlines()) == 31
    assert _asks_nothing_of_servers((tmp_path / "risk.html").read_text(encoding="utf-8"))
    assert all(_is_private(tmp_path / name) for name in ("risk.csv", "risk.html"))
    following = shlex.split(re.search(r"allbutone (budget .*)", out).group(1))
    assert following[2:] == ["--rows", "20", "--like", "r"]


def test_risk_may_leave_out_the_mass_and_know_a_column(allbutone, released, tmp_path):
    code, out, _ = allbutone("risk", released, "r", "--no-mass", "--known", "bmi", "--out", "known.csv")
    assert code == 0
    assert "✔" not in out  # the decision is against all adversaries
    names = tuple(name for name in RISK if "mass" not in name)
    header = set(_header(tmp_path / "known.csv"))
    assert "epsilon" not in header  # which is of an adversary who knows nothing of the record
    assert {*names, "error_ldl", "probability_ldl"} < header
    assert not {"mass", "probability_bmi"} & header
    assert "row" in (tmp_path / "known.html").read_text(encoding="utf-8")
    first = (tmp_path / "known.csv").read_bytes()
    assert allbutone("risk", released, "r", "--no-mass", "--known", "bmi", "--out", "known.csv", "--force")[0] == 0
    assert (tmp_path / "known.csv").read_bytes() == first


def test_risk_takes_the_columns_of_the_release(allbutone, released, tmp_path):
    lines = released.read_text().splitlines()
    numbered = [f"{left},{right}" for left, right in zip(["id", *range(101, 131)], lines, strict=True)]
    (tmp_path / "whole.csv").write_text("\n".join(numbered) + "\n")
    assert allbutone("risk", "whole.csv", "r", "--no-mass")[0] == 0


def test_risk_of_released_parameters_names_a_budget_for_parameters(allbutone, table):
    assert allbutone("synthesize", table, "--out", "r", "--release", "parameters", "--datasets", 4)[0] == 0
    code, out, _ = allbutone("risk", table, "r", "--no-mass")
    assert code == 0
    assert re.search(r"budget .* --release parameters", out)


@pytest.mark.usefixtures("fewer_releases")
def test_budget_answers_in_words_numbers_and_a_picture(allbutone, table, tmp_path):
    options = ("--rows", 10, "--counts", "5,1", "--verify", 3, "--seed", 1)
    code, out, err = allbutone("budget", table, *options)
    # how long it takes is said on a slow computer
    assert (code, re.sub("Simulating releases: this will take .*\n", "", err)) == (0, "")
    for words in (
        "sets the limit",
        "Who is at most risk",
        "What another choice would allow",
        "Checked on 3 simulated releases",
        "confidential",
    ):
        assert words in out
    for words in ("Assumed:", "not a guarantee", "Next:"):
        assert words in out
    header = _header(tmp_path / "budget.csv")
    assert header[:2] == ("row", "leverage")
    assert [name.startswith("chance_at_") for name in header[2:4]] == [True, True]
    assert header[4:7] == ("threshold_datasets", "exposure_at_1", "exposure_at_5")
    assert _asks_nothing_of_servers((tmp_path / "budget.html").read_text(encoding="utf-8"))
    assert all(_is_private(tmp_path / name) for name in ("budget.csv", "budget.html"))
    assert allbutone("budget", table, *options, "--force")[1] == out
    proposed = shlex.split(re.search(r"allbutone ((?:synthesize|budget) .*)", out).group(1))
    assert allbutone(*proposed)[0] == 0


@pytest.mark.usefixtures("few_trials")
@pytest.mark.parametrize("probability", [0.4, 0.9])
def test_budget_of_parameters_by_any_probability(allbutone, table, tmp_path, probability):
    code, out, _ = allbutone("budget", table, "--release", "parameters", "--probability", probability)
    assert code == 0
    assert f"a probability of at least {100 * probability:g} %" in " ".join(out.split())
    assert (tmp_path / "budget.html").exists()


BAD_QUESTIONS = {
    "other columns": ("risk other.csv r", "the release is of the columns bmi, ldl, and other.csv has no ldl"),
    "fewer columns": (
        "risk table.csv r --columns bmi",
        "the release is of the columns bmi, ldl, the table of bmi",
    ),
    "another prior": ("risk table.csv r --prior prior.toml", "another prior: its mean is"),
    "no release": ("risk table.csv nowhere", "cannot read nowhere/release.json"),
    "unknown known": ("risk table.csv r --known hdl", "no column 'hdl'"),
    "everything known": ("risk table.csv r --known bmi,ldl", "knows everything"),
    "radius 0": ("risk table.csv r --radius 0", "radius must exceed 0"),
    "risk exists": ("risk table.csv r --out table.csv", "same file as the input"),
    "figure exists": ("risk table.csv r --out there.csv", "there.html exists"),
    "not a CSV file": ("risk table.csv r --out risk.html", "--out names a .csv or .parquet file"),
    "no folder": ("risk table.csv r --out no/risk.csv", "cannot write"),
    "more than certain": ("budget table.csv --probability 1.5", "between 0 and 1"),
    "certain": ("risk table.csv r --probability 1", "between 0 and 1"),
    "rows 0": ("budget table.csv --rows 0", "rows must be at least 1, got 0"),
    "verify 0": ("budget table.csv --verify 0", "verify must be at least 1, got 0"),
    "bad counts": ("budget table.csv --counts 1,many", "--counts are whole numbers"),
    "counts 0": ("budget table.csv --counts 0", "counts must be at least 1"),
    "rows of parameters": ("budget table.csv --rows 3 --release parameters", "--rows goes with"),
    "budget exists": ("budget table.csv --out other.csv", "other.csv exists"),
    "unknown column": ("budget table.csv --columns hdl", "no column 'hdl'"),
}


@pytest.mark.parametrize("case", BAD_QUESTIONS)
def test_bad_questions_about_risk_get_one_line_and_leave_nothing(allbutone, released, tmp_path, case):
    question, message = BAD_QUESTIONS[case]
    (tmp_path / "other.csv").write_text("bmi,hdl\n1,2\n3,5\n2,2\n")
    (tmp_path / "prior.toml").write_text("mean = 1")
    (tmp_path / "there.html").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, out, err = allbutone(*question.split())
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_figures_are_written_as_pictures_where_that_is_asked(allbutone, released, tmp_path, monkeypatch):
    from allbutone.cli import output

    drawn = {}
    monkeypatch.setattr(
        output, "write_images", lambda figures: drawn.update(figures)
    )  # a browser is slow to start
    code, _, err = allbutone("risk", released, "r", "--images", "svg")
    assert code == 0
    pictures = re.search(r"Pictures: (.*)", err)[1].split(", ")
    assert pictures[0] == "risk.svg"
    assert len(pictures) == len(drawn) > 1
    assert all(_is_private(tmp_path / name) for name in pictures)
    assert all(figure.layout.title.text for figure in drawn.values()), "a picture says its message itself"


def test_where_only_smaller_datasets_may_be_released_these_are_proposed(allbutone, monkeypatch):
    from allbutone.disclosure import simulated_budget

    monkeypatch.setattr(simulated_budget, "RELEASES", 20)
    values = np.random.default_rng(3).standard_normal((60, 2)).round(3)
    values[16] = 5.0, -3.0
    np.savetxt("far.csv", values, "%.3f", ",", header="a,b", comments="")
    out = allbutone("budget", "far.csv")[1]
    allowed, rows = re.search(r"smaller datasets may be released: (\d+) of (\d+) rows", out).groups()
    assert re.search(rf"^ datasets of {rows} rows +{allowed} $", out, re.MULTILINE)
    assert out.rstrip().endswith(f"--rows {rows}")
