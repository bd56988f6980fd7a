"""Reports on tables with categories: whose values are disclosed, and what may be public."""

import re

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.disclosure.rule import Rule
from allbutone.reports.findings import fidelity_finding
from allbutone.reports.report import released_columns
from allbutone.reports.verdict import values_of, verdict_of
from allbutone.utility.normality import given_categories

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
    release = abo.Synthesizer().fit(table, schema=LOG).sample(datasets=2)
    found = abo.report(table, release, out=tmp_path / "report.html")
    subjects = [finding.subject for finding in found.findings]
    assert (subjects[0], subjects[-1]) == ("Model", "Likeness")
    assert found.headline.startswith(("By the rule this ", "It passes, but "))
    page = (tmp_path / "report.html").read_text()
    for name in (
        "disclosure",
        "risk",
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
    """The page's words follow from the columns of `risk`."""
    table = people(rng)
    table.loc[5, "sex"] = "x"  # nobody else's: many datasets disclose it, and much else
    release = abo.Synthesizer().fit(table, schema=LOG).sample(datasets=30)
    found = abo.risk(table, release, mass=False)
    columns = {name: found[name].to_numpy() for name in found.columns}
    verdict = verdict_of(columns, Rule())
    assert not verdict.passed
    assert set(verdict.rows) == set(columns["row"][columns["disclosed"]])
    told = {
        (row, name, prefix)
        for name in table.columns
        for prefix in ("", "rest_known_")
        for row in columns["row"][
            Rule().discloses(columns[f"{prefix}probability_{name}"], columns[f"{prefix}baseline_{name}"])
        ]
    }
    assert sorted((value.row, value.column) for value in verdict.disclosed) == sorted({one[:2] for one in told})
    counts = verdict.judged.lacking_record, verdict.judged.knowing_rest
    assert counts == tuple(len({row for row, _, of in told if of == prefix}) for prefix in ("", "rest_known_"))
    assert verdict.judged.members == columns["membership_disclosed"].sum()
    for value in values_of(columns, Rule(), 96):
        prefix = "rest_known_" * value.rest_known
        assert value.after == columns[f"{prefix}probability_{value.column}"][value.row - 1]
        assert value.before == columns[f"{prefix}baseline_{value.column}"][value.row - 1]
        assert (value.tolerance is None) == (value.column in ("sex", "stage"))


@pytest.mark.usefixtures("few_trials")
def test_of_a_table_with_gaps_it_is_said_how_the_model_was_checked(rng, tmp_path):
    table = people(rng)
    table.loc[::7, "age"] = np.nan
    table.loc[3, "sex"] = None
    synthesizer = abo.Synthesizer(missing="impute").fit(table, schema=LOG)
    found = abo.report(table, synthesizer.sample(datasets=2), out=tmp_path / "report.html")
    (model,) = (finding for finding in found.findings if finding.subject == "Model")
    assert "Gaps were filled by one draw of the model" in model.words
    told = words_of(tmp_path / "report.html")
    assert "may be released" in told
    assert model.words in told


def test_nothing_is_said_of_categories_that_are_kept(rng, tmp_path):
    table = people(rng)
    release = abo.Synthesizer(keep=["sex", "stage", "age"]).fit(table, schema=LOG).sample(datasets=2)
    found = abo.report(table, release, out=tmp_path / "report.html")
    assert {value.column for value in (*found.verdict.disclosed, found.verdict.nearest)} == {"bili"}
    told = words_of(tmp_path / "report.html")
    assert "they depend on age in straight lines" in told
    assert "and knows what is kept of the missing person" in told
    assert "sex levels f, m kept as it is" in told


def test_parameters_and_separate_cells(rng, tmp_path):
    table = people(rng)[["stage", "age", "bili"]]
    synthesizer = abo.Synthesizer(cells="separate").fit(table, schema=LOG)
    found = abo.report(table, synthesizer.sample_parameters(2), out=tmp_path / "report.html")
    assert not {"Model", "Likeness"} & {finding.subject for finding in found.findings}
    told = words_of(tmp_path / "report.html")
    assert "This release is counted as out." in told
    assert "Not checked: each cell has a normal of its own" in told
    assert "parameters were released, not datasets" in told


def test_a_public_page_is_the_releases_own(rng, tmp_path):
    """Another table with the same columns and levels gives the same page: it says nothing of the table."""
    table, other = people(rng), people(rng)
    other.insert(0, "patient", "not in the release")
    synthesizer = abo.Synthesizer().fit(table, schema=LOG)
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
    release = abo.Synthesizer().fit(table, schema=LOG).sample(datasets=3)
    rows = pd.concat(release.to_frames())
    lines = {line["column"]: line for line in released_columns(release)}
    assert f"f {100 * np.mean(rows['sex'] == 'f'):.1f}\u00a0%" in lines["sex"]["shares"]
    assert lines["bili"]["mean"] == pytest.approx(rows["bili"].mean())
    assert lines["age"]["SD"] == pytest.approx(rows["age"].std())


def test_effects_of_levels_are_taken_out_before_normality_is_judged(rng):
    """A mixture of well separated normals is far from normal as a whole, and normal given the cell."""
    level = rng.integers(0, 2, 400)
    table = pd.DataFrame({"arm": np.array(["a", "b"])[level], "x": rng.normal(0, 1, 400) + 12 * level})
    mechanism = abo.Synthesizer().fit(table).mechanism
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
    release = abo.Synthesizer().fit(wrong, schema=LOG).sample(datasets=5)
    finding = fidelity_finding(abo.fidelity(table, release))
    assert finding.against
    assert "the shares of sex (by more than 0.5, Cohen’s w)" in finding.words
    assert "bili and stage" in finding.words


def test_the_command(rng, allbutone, tmp_path):
    people(rng).to_csv(tmp_path / "t.csv", index=False)
    assert allbutone("synthesize", "t.csv", "--log", "bili", "--out", "r", "--datasets", 2)[0] == 0
    code, out, err = allbutone("report", "t.csv", "r")
    assert (code, err) == (0, "")
    assert "By the rule this" in out or "It passes, but" in out
    code, out, err = allbutone("report", "t.csv", "r", "--public", "--out", "p.html")
    assert (code, err) == (0, "")
    assert "levels, their shares" in out
    assert "what the names of columns and levels may tell of anyone" in out
    code, _, err = allbutone("report", "t.csv", "r", "--probability", "2", "--out", "q.html")
    assert code == 2
    assert "between 0 and 1" in err
    assert not (tmp_path / "q.html").exists()
