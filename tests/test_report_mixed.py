"""Reports on tables with categories: who is exposed, whose categories are found out, and what may be public."""

import re

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.reports.findings import categories_finding, fidelity_finding
from allbutone.reports.found_out import told_categories
from allbutone.reports.mixed_columns import released_columns
from allbutone.utility.given_categories import given_categories

pytestmark = pytest.mark.usefixtures("few_trials")


def people(rng, n=48):
    """Return a small table in which the mean of bili follows the stage."""
    stage = rng.permutation(np.repeat(["I", "II", "III"], n // 3))
    bili = np.exp(rng.normal(0, 0.3, n) + np.array([0, 1, 2])[pd.factorize(stage, sort=True)[0]])
    sex = rng.permutation(["f", "m"] * (n // 2))
    return pd.DataFrame({"sex": sex, "age": rng.normal(60, 10, n), "stage": stage, "bili": bili})


LOG = {"columns": {"bili": {"scale": "log"}}}


def words_of(path):
    return " ".join(re.sub(r"<[^>]+>", " ", path.read_text().split("</head>")[1]).split())


def test_the_case_for_a_mixed_release(rng, tmp_path):
    table = people(rng)
    release = abo.MixedSynthesizer().fit(table, schema=LOG).sample(datasets=2)
    found = abo.report(table, release, out=tmp_path / "report.html")
    subjects = [finding.subject for finding in found.findings]
    assert subjects[:5] == ["Exposure", "Categories", "Information", "Budget", "Model"]
    assert subjects[-1] == "Fidelity"
    page = (tmp_path / "report.html").read_text()
    for name in (
        "risk",
        "category-1",
        "category-2",
        "budget",
        "qq",
        "shares",
        "associations",
        "means",
        "propensity",
    ):
        assert f'id="{name}"' in page
    told = words_of(tmp_path / "report.html")
    assert "there are 6" in told
    assert "sex levels f, m drawn" in told
    assert "bili measurement, modelled on the scale log drawn" in told
    assert "as if the adversary had the categories right" in told
    assert "Judged are the measurements less what the levels explain of them" in told


def test_lines_and_verdict_are_those_of_the_risk(rng, tmp_path):
    """The page's words follow from the columns of `risk`: an unusual person's category is found out by many."""
    table = people(rng)
    table.loc[5, "sex"] = "x"
    release = abo.MixedSynthesizer().fit(table, schema=LOG).sample(datasets=30)
    found = abo.risk(table, release, mass=False)
    columns = {name: found[name].to_numpy() for name in found.columns}
    flags = {
        name: (after >= 0.5) & (before < 0.5) & (after * (1 - before) >= 2 * before * (1 - after))
        for name in ("sex", "stage")
        for after, before in [(columns[f"probability_{name}"], columns[f"baseline_{name}"])]
    }
    assert flags["sex"][5]
    finding = categories_finding(columns)
    assert finding.against
    assert f"sex of {np.sum(flags['sex'])} of 48" in finding.words
    lines = told_categories(columns, 96)
    assert len({(line.row, line.category) for line in lines}) == np.sum(flags["sex"]) + np.sum(flags["stage"])
    odds = [(line.after / (1 - line.after)) / (line.before / (1 - line.before)) for line in lines]
    assert odds == sorted(odds, reverse=True)
    assert told_categories(columns, 1) == lines[:1]
    for line in lines:
        assert line.after == columns[f"probability_{line.category}"][line.row - 1]
        assert line.before == columns[f"baseline_{line.category}"][line.row - 1]
        assert line.found == flags[line.category][line.row - 1]
    assert f"row {lines[0].row}’s" in finding.words


def test_where_nobody_is_found_out_each_category_has_a_line():
    columns = {"row": np.arange(1, 5), "baseline_distance": np.ones(4)}
    columns |= {"probability_sex": np.array([0.5, 0.55, 0.6, 0.7]), "baseline_sex": np.full(4, 0.5)}
    columns |= {"probability_stage": np.array([0.3, 0.2, 0.1, 0.1]), "baseline_stage": np.full(4, 0.1)}
    assert not categories_finding(columns).against
    assert [(line.row, line.category) for line in told_categories(columns, 10)] == [(1, "stage"), (4, "sex")]


def test_what_could_not_be_computed_counts_as_found():
    columns = {"row": np.array([1, 2]), "probability_sex": np.array([0.5, np.nan])}
    columns |= {"baseline_sex": np.array([0.5, 0.5]), "baseline_distance": np.array([1.0, 1.0])}
    assert categories_finding(columns).against
    assert told_categories(columns, 1)[0].row == 2


def test_a_missing_level_is_not_found_out():
    columns = {"row": np.array([1, 2]), "probability_sex": np.array([np.nan, 0.6])}
    columns |= {"baseline_sex": np.array([np.nan, 0.5]), "baseline_distance": np.array([1.0, 1.0])}
    assert not categories_finding(columns).against
    assert [line.row for line in told_categories(columns, 10)] == [2]


def test_of_a_table_with_gaps_what_is_not_computed_is_said(rng, tmp_path):
    table = people(rng)
    table.loc[::7, "age"] = np.nan
    table.loc[3, "sex"] = None
    synthesizer = abo.MixedSynthesizer(missing="impute").fit(table, schema=LOG)
    found = abo.report(table, synthesizer.sample(datasets=2), out=tmp_path / "report.html")
    subjects = [finding.subject for finding in found.findings]
    assert subjects[:3] == ["Exposure", "Categories", "Information"]
    assert not {"Budget", "Model"} & set(subjects)
    told = words_of(tmp_path / "report.html")
    assert "Not computed: there is no budget yet for a table with gaps." in told
    assert "Not checked: the table has gaps" in told


def test_nothing_is_said_of_categories_that_are_kept(rng, tmp_path):
    table = people(rng)
    release = abo.MixedSynthesizer(keep=["sex", "stage", "age"]).fit(table, schema=LOG).sample(datasets=2)
    found = abo.report(table, release, out=tmp_path / "report.html")
    assert "Categories" not in [finding.subject for finding in found.findings]
    told = words_of(tmp_path / "report.html")
    assert "No category is unknown to the adversary: all are kept, and so public." in told
    assert "they depend on age in straight lines" in told
    assert "and knows what is kept of the missing person" in told
    assert "sex levels f, m kept as it is" in told


def test_parameters_and_separate_cells(rng, tmp_path):
    table = people(rng)[["stage", "age", "bili"]]
    synthesizer = abo.MixedSynthesizer(cells="separate").fit(table, schema=LOG)
    found = abo.report(table, synthesizer.sample_parameters(2), out=tmp_path / "report.html")
    assert not {"Model", "Fidelity"} & {finding.subject for finding in found.findings}
    [budget] = [finding.words for finding in found.findings if finding.subject == "Budget"]
    assert "The release has 2 parameter draws" in budget
    told = words_of(tmp_path / "report.html")
    assert "Not checked: each cell has a normal of its own" in told
    assert "parameters were released, not datasets" in told


def test_a_public_page_is_the_releases_own(rng, tmp_path):
    """Another table with the same columns and levels gives the same page: it says nothing of the table."""
    table, other = people(rng), people(rng)
    other.insert(0, "patient", "not in the release")
    synthesizer = abo.MixedSynthesizer().fit(table, schema=LOG)
    for name, release in (
        ("datasets", synthesizer.sample(datasets=2)),
        ("draws", synthesizer.sample_parameters(2)),
        ("both", synthesizer.sample(datasets=2, parameters=True)),
    ):
        pages = []
        for each in (table, other):
            path = tmp_path / "public.html"
            assert not abo.report(each, release, public=True, out=path, force=True).findings
            pages.append(path.read_text().split("Written")[0])
        assert pages[0] == pages[1]
        told = words_of(tmp_path / "public.html")
        assert ("These parameters are released with the datasets" in told) == (name == "both")
        assert "the shares of levels, and the column names and levels" in told
        assert "CONFIDENTIAL" not in told
        shares = [line["shares"] for line in released_columns(release)]
        assert all(" ".join(share.split()) in told for share in shares)
        assert [bool(share) for share in shares] == [True, False, True, False]


def test_shares_and_means_on_the_public_page_are_those_of_the_rows(rng):
    table = people(rng)
    release = abo.MixedSynthesizer().fit(table, schema=LOG).sample(datasets=3)
    rows = pd.concat(release.to_frames())
    lines = {line["column"]: line for line in released_columns(release)}
    assert f"f {100 * np.mean(rows['sex'] == 'f'):.1f}\u00a0%" in lines["sex"]["shares"]
    assert lines["bili"]["mean"] == pytest.approx(rows["bili"].mean())
    assert lines["age"]["SD"] == pytest.approx(rows["age"].std())


def test_effects_of_levels_are_taken_out_before_normality_is_judged(rng):
    """A mixture of well separated normals is far from normal as a whole, and normal given the cell."""
    level = rng.integers(0, 2, 400)
    table = pd.DataFrame({"arm": np.array(["a", "b"])[level], "x": rng.normal(0, 1, 400) + 12 * level})
    mechanism = abo.MixedSynthesizer().fit(table).mechanism
    records = abo.Records.of(table, categories=True)
    left = given_categories(records, mechanism)
    assert abo.check_normality(records.select(["x"])).level != "fit"
    assert abo.check_normality(left).level == "fit"
    assert left.values.mean() == pytest.approx(table["x"].mean())
    for name in "ab":
        own = left.values[(table["arm"] == name).to_numpy()]
        assert own.mean() == pytest.approx(table["x"].mean())


def test_levels_that_are_not_as_the_real_ones_speak_against(rng):
    table = people(rng, 300)
    wrong = table.assign(sex=np.where(rng.random(300) < 0.9, "f", "m"), stage=rng.permutation(table["stage"]))
    release = abo.MixedSynthesizer().fit(wrong, schema=LOG).sample(datasets=5)
    finding = fidelity_finding(abo.fidelity(table, release))
    assert finding.against
    assert "shares of levels differ by more than 0.1 (Cohen's w): sex" in finding.words
    assert "bili and stage" in finding.words


def test_the_command(rng, allbutone, tmp_path):
    people(rng).to_csv(tmp_path / "t.csv", index=False)
    assert allbutone("synthesize", "t.csv", "--log", "bili", "--out", "r", "--datasets", 2)[0] == 0
    code, out, err = allbutone("report", "t.csv", "r")
    assert (code, err) == (0, "")
    assert "Categories" in out
    code, out, err = allbutone("report", "t.csv", "r", "--public", "--out", "p.html")
    assert (code, err) == (0, "")
    assert "levels, their shares" in out
    assert "what the names of columns and levels may tell of anyone" in out
    code, _, err = allbutone("report", "t.csv", "r", "--limit", "gain=1", "--out", "q.html")
    assert code == 2
    assert "--limit exposure=0.5" in err
    assert not (tmp_path / "q.html").exists()
