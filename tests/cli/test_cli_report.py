"""The commands report and application as a user meets them."""

import csv
import stat

import numpy as np
import pytest

import allbutone as abo

pytestmark = pytest.mark.usefixtures("few_trials")


@pytest.fixture
def release(table, tmp_path):
    records = abo.Records.of(table)
    abo.save_release(abo.Synthesizer().fit(records).sample(datasets=3), tmp_path / "r")
    return tmp_path / "r"


def test_no_page_to_go_with_it_is_proposed_for_what_should_not_go_out(allbutone, tmp_path):
    values = np.append(np.random.default_rng(1).standard_normal(19), 9.0)
    records = abo.Records(values[:, None], ("crp",))
    table = tmp_path / "few.csv"
    table.write_text("crp\n" + "".join(f"{value}\n" for value in values))
    abo.save_release(abo.Synthesizer().fit(records).sample(datasets=30), tmp_path / "many")
    _, out, _ = allbutone("report", table, tmp_path / "many")
    assert "should not be given out" in out
    assert "--public" not in out
    assert "synthesize" in out.rpartition("Next:")[2]


def test_a_report_is_written_and_said(allbutone, table, release, tmp_path):
    code, out, err = allbutone("report", table, release, "--note", "Made up.")
    assert (code, err) == (0, "")
    assert "By the rule this" in out or "It passes, but" in out
    for subject in ("How sure:", "How much in all:", "Model", "Likeness"):
        assert subject in out
    assert ("--public" in out) == ("may be given out" in out)
    page = tmp_path / "report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "Made up." in page.read_text()
    code, _, err = allbutone("report", table, release)
    assert code == 2
    assert "--force" in err
    assert allbutone("report", table, release, "--force")[0] == 0


def test_a_public_page_is_the_releases_own(allbutone, table, release, tmp_path):
    """Another table of the same columns gives the same page but for the time: it says nothing of the table."""
    code, out, _ = allbutone("report", table, release, "--public", "--out", "p.html")
    assert code == 0
    # it claims no more than was done: what the release and the names tell was not looked at
    assert "made from the release alone" in out
    assert "Not checked: what the release gives away, and what the column names may tell of anyone" in out
    page = (tmp_path / "p.html").read_text()
    assert stat.S_IMODE((tmp_path / "p.html").stat().st_mode) == 0o644
    assert "table.csv" not in page
    assert "CONFIDENTIAL" not in page
    table.write_text("bmi,ldl\n1,2\n3,5\n9,9\n")
    assert allbutone("report", table, release, "--public", "--out", "q.html")[0] == 0
    other = (tmp_path / "q.html").read_text()
    assert page.split("Written")[0] == other.split("Written")[0]
    told = " ".join(page.split())
    for claim in ("nothing about any person", "was assessed", "no row is a person"):
        assert claim not in told
    assert "The release does give something away" in told
    assert "the column names, which are those of the confidential table" in told


def test_reports_on_released_parameters(allbutone, table, tmp_path):
    assert allbutone("synthesize", table, "--out", "r", "--release", "parameters", "--datasets", 3)[0] == 0
    code, out, _ = allbutone("report", table, "r")
    assert code == 0
    assert "Likeness" not in out
    assert "parameters were released, not datasets" in (tmp_path / "report.html").read_text()
    assert allbutone("report", table, "r", "--public", "--out", "p.html")[0] == 0


def test_the_application_on_a_table(allbutone, table, tmp_path):
    code, out, err = allbutone("application", table, "--out", "a", "--datasets", 12, "--seed", 1)
    assert (code, err) == (0, "")
    assert "paper's prior" in out
    assert "Leave-one-out attacks on 30 records" in out
    names = {path.name for path in (tmp_path / "a").iterdir()}
    tables = {"kolmogorov_smirnov", "correlations", "mean_differences", "distances", "budget"}
    assert names == {"report.html", *(f"{name}.csv" for name in tables)}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a").iterdir()} == {0o600}
    with (tmp_path / "a" / "distances.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    # the numbers are those of the public functions on the first datasets of the same release
    prior = abo.NIW(np.full(2, 1.1), 1.0, 4.0, np.eye(2))
    records = abo.Records.of(table)
    whole = abo.Release.draw(
        prior.update(records.values), [30] * 12, np.random.default_rng(1), columns=("bmi", "ldl"), prior=prior
    )
    guess = abo.attack(records, whole.first(5), rows="all", prior=prior).mode
    found = [float(row["distance_5"]) for row in rows]
    assert found == pytest.approx(np.linalg.norm(guess - records.values, axis=1), rel=1e-6)
    assert "distance_100" not in rows[0]


def test_the_applications_figures_are_named_as_in_the_paper(allbutone, table, tmp_path):
    again = ("application", table, "--out", "a", "--datasets", 12, "--seed", 1, "--figures")
    assert allbutone(*again)[0] == 0
    names = {path.name.split("-")[1] for path in (tmp_path / "a" / "figures").iterdir()}
    assert names == {"4", "5", "A4", "A5", "A6"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a" / "figures").iterdir()} == {0o600}
    # the means are those of the datasets themselves
    records = abo.Records.of(table)
    prior = abo.NIW(np.full(2, 1.1), 1.0, 4.0, np.eye(2))
    release = abo.Release.draw(
        prior.update(records.values), [30] * 12, np.random.default_rng(1), columns=("bmi", "ldl"), prior=prior
    )
    off = [np.corrcoef(data.T)[0, 1] - np.corrcoef(records.values.T)[0, 1] for data in release.values]
    with (tmp_path / "a" / "correlations.csv").open() as file:
        assert float(next(csv.DictReader(file))["mean_difference"]) == pytest.approx(np.mean(off), rel=1e-6)
    assert allbutone(*again, "--force")[0] == 0
    (tmp_path / "a" / "figures" / "mine.txt").write_text("kept")
    assert allbutone(*again, "--force")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "table.csv", "r", "--out", "r.docx"], "--out names an .html or a .pdf file"),
        (["report", "table.csv", "nowhere"], "nowhere"),
        (["report", "table.csv", "r", "--out", "r/report.html"], "confidential"),
        (["risk", "table.csv", "r", "--out", "r/risk.csv"], "confidential"),
        (["report", "table.csv", "r", "--probability", "2"], "probability"),
        (["report", "other.csv", "r"], "other.csv"),
        (["application", "table.csv", "--datasets", "0"], "datasets"),
        (["application", "table.csv", "--columns", "age"], "age"),
    ],
)
def test_refusals_leave_nothing(allbutone, release, tmp_path, arguments, words):
    before = sorted(path.name for path in tmp_path.iterdir())
    code, _, err = allbutone(*arguments)
    assert code == 2
    assert err.startswith("Error: ")
    assert words in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
