"""Classes on the command line: from the budget to the page that goes with a release."""

import numpy as np
import pandas as pd

import allbutone as abo


def test_from_the_budget_to_the_public_page(allbutone, few_trials, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    ill = rng.random(40) < 0.5
    marker = np.where(ill, 9.0, 3.0) + rng.standard_normal(40)
    pd.DataFrame({"marker": marker.round(1), "ill": np.where(ill, "yes", "no")}).to_csv("people.csv", index=False)
    model = ("--model", "classes", "--classes", 2, "--decimals", "marker=1")
    code, out, err = allbutone("budget", "people.csv", *model, "--rows", 5)
    assert code == 0, err
    assert "at most 2 classes that nobody has observed" in " ".join(out.split())
    assert list(pd.read_csv("budget.csv"))[:2] == ["row", "chance_at_1"]
    code, out, err = allbutone("synthesize", "people.csv", *model, "--rows", 5, "--out", "release")
    assert code == 0, err
    assert abo.load_release("release").mechanism.classes == 2
    code, out, err = allbutone("risk", "people.csv", "release", "--out", "risk.csv")
    assert code == 0, err
    assert "report people.csv release" in " ".join(out.split())
    code, out, err = allbutone("report", "people.csv", "release", "--out", "report.html")
    assert code == 0, err
    page = " ".join((tmp_path / "report.html").read_text().split())
    assert "one of at most 2 classes that nobody has observed" in page
    assert "The prior of classes" in page
    code, out, err = allbutone("report", "people.csv", "release", "--public", "--out", "public.html")
    assert code == 0, err
    assert "classes that nobody has observed" in (tmp_path / "public.html").read_text()
    code, out, err = allbutone("check", "release", "--table", "people.csv")
    assert code == 0, err
    code, out, err = allbutone("budget", "people.csv", "--like", "release", "--rows", 5, "--force")
    assert code == 0, err
    assert "is out" in out


def test_a_table_of_categories_alone_gets_its_report(allbutone, few_trials, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.integers(0, 2, (40, 3)), columns=["ill", "smokes", "treated"])
    table.replace({0: "no", 1: "yes"}).to_csv("people.csv", index=False)
    model = ("--model", "classes", "--classes", 2)
    assert allbutone("synthesize", "people.csv", *model, "--rows", 20, "--out", "release")[0] == 0
    code, _, err = allbutone("report", "people.csv", "release", "--out", "report.html")
    assert code == 0, err
    page = " ".join((tmp_path / "report.html").read_text().split())
    assert "categories independent" in page
    assert "0 measurements" not in page
