"""Python as notebooks want it: paths and dicts, what is shown of results, examples that run."""

import doctest
import inspect
import re

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.utility.shapes import densities

ENTRIES = {"centre": {"bmi": 25.0, "ldl": 3.5}, "spread": {"bmi": 5.0, "ldl": 1.0}}
PUBLIC = [name for name in abo.__all__ if not name.startswith("_")]


@pytest.fixture
def case(tmp_path, monkeypatch):
    """A table, a release of it and its prior: as values, and as they lie in files."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(1).standard_normal((40, 2)) * [5, 1] + [25, 3.5]
    pd.DataFrame(values.round(3), columns=["bmi", "ldl"]).to_csv("table.csv", index=False)
    (tmp_path / "prior.toml").write_text("centre = {bmi = 25, ldl = 3.5}\nspread = {bmi = 5, ldl = 1}\n")
    synthesizer = abo.Synthesizer(ENTRIES).fit("table.csv")
    release = synthesizer.sample(datasets=3, rng_for_tests=np.random.default_rng(2))
    abo.save_release(release, "release")
    return synthesizer, release


@pytest.mark.usefixtures("few_trials")
def test_paths_and_dicts_stand_for_releases_and_priors(case):
    synthesizer, release = case
    prior = synthesizer.prior
    np.testing.assert_array_equal(abo.Synthesizer("prior.toml").fit("table.csv").prior.scale, prior.scale)
    records = abo.Records.of("table.csv")
    others = records.values[1:]
    calls = {
        "risk": lambda release, prior: abo.risk(
            records, release, abo.Adversary(prior=prior), rng=np.random.default_rng(1)
        ).to_pydict(),
        "attack": lambda release, prior: abo.attack(others, release, prior=prior).mode,
        "own prior": lambda release, prior: (
            abo.attack(others, release, abo.Adversary(prior=prior), prior=prior).mode
        ),
        "everyone": lambda release, prior: abo.attack(records, release, rows="all", prior=prior).mode,
        "posterior": lambda release, prior: abo.posterior(others, release, prior=prior).centre,
        "missing": lambda release, prior: (
            abo.posterior(
                others[1:], release, abo.Adversary(lacking_records=1), prior=prior, rng=1, chains=16, sweeps=100
            ).mean
        ),
        "fidelity": lambda release, prior: abo.fidelity(records, release).pmse_tree_ratio,
        "densities": lambda release, prior: densities(records, release).synthetic,
        "combine": lambda release, prior: abo.combine(release, people=40).estimate,
        "budget": lambda release, prior: abo.budget(records, prior, rows=40, rng=1).to_frame().to_pydict(),
    }
    for name, call in calls.items():
        expected = call(release, prior)
        for given in ("prior.toml", ENTRIES):
            np.testing.assert_equal(call("release", given), expected, err_msg=name)
    one, two = (abo.budget(records, each, rows=40, rng=1).verify(2, rng=1) for each in (prior, ENTRIES))
    np.testing.assert_equal(one, two)
    with pytest.raises(abo.InputError, match="names 'age', no such column"):
        abo.risk("table.csv", "release", abo.Adversary(prior={"mean": {"age": 1}}))
    with pytest.raises(abo.InputError, match="No such file"):
        abo.risk("table.csv", "nowhere")


def test_a_spread_is_the_expected_standard_deviation(rng):
    for df, expected in ((None, 4.0), (9.0, 9.0)):
        prior = abo.NIW.from_spread([25, 3.5], [5, 1], df=df)
        assert (prior.df, prior.mean_weight) == (expected, 1.0)
        entries = ENTRIES if df is None else ENTRIES | {"df": df}
        np.testing.assert_array_equal(prior.scale, abo.Synthesizer(entries).fit(pairs(rng)).prior.scale)
    _, covariances = prior.draw(rng, 20_000)
    error = covariances.std(axis=0) / np.sqrt(20_000)
    np.testing.assert_array_less(np.abs(covariances.mean(axis=0) - np.diag([25, 1])), 6 * error)
    for centre, spread, message in (
        ([1, 2], [1], "one value a column"),
        ([1, 2], [1, 0], "must exceed 0"),
        ([1, np.nan], [1, 1], "finite"),
        (1, 1, "one value a column"),
    ):
        with pytest.raises(abo.InputError, match=message):
            abo.NIW.from_spread(centre, spread)
    with pytest.raises(abo.InputError, match="df must exceed p \\+ 1 = 3"):
        abo.NIW.from_spread([1, 2], [1, 1], df=3)


def pairs(rng, n=30):
    return pd.DataFrame(rng.standard_normal((n, 2)), columns=["bmi", "ldl"])


def test_rows_cannot_be_mistaken_for_datasets(case):
    with pytest.raises(TypeError, match="positional"):
        case[0].sample(100)


# what is shown


def test_nothing_of_a_confidential_table_is_shown(rng):
    one, two = (abo.Synthesizer(ENTRIES).fit(pairs(rng)) for _ in range(2))
    assert repr(one) == repr(two) == "Synthesizer, fitted to 30 records of bmi, ldl"
    assert one._repr_html_() == two._repr_html_()
    assert repr(abo.Records.of(pairs(rng))) == "Records: 30 rows of bmi, ldl"
    assert repr(abo.Synthesizer()) == "Synthesizer, not fitted"
    assert repr(abo.Synthesizer().fit(pairs(rng, 4))) == "Synthesizer, fitted to 4 records of bmi, ldl"


def test_releases_show_their_sizes_and_first_rows(case):
    synthesizer, release = case
    assert repr(release) == "Release: 3 datasets of 40 rows, columns bmi, ldl"
    assert release._repr_html_().count("<tr>") == 6
    sizes = synthesizer.sample(rows=[1, 1000])
    assert repr(sizes) == "Release: 2 datasets of 1 to 1,000 rows, columns bmi, ldl"
    assert sizes._repr_html_().count("<tr>") == 2
    draws = synthesizer.sample_parameters(1)
    assert repr(draws) == "Release: 1 parameter draw, columns bmi, ldl"
    assert draws._repr_html_().count("<tr>") == 2
    both = synthesizer.sample(datasets=2, parameters=True)
    assert repr(both) == "Release: 2 parameter draws with datasets of 40 rows, columns bmi, ldl"
    many = abo.Release.of([np.ones((2, 30))])
    assert repr(many).endswith("x19, x20 and 10 more")
    odd = abo.Release.of([np.ones((2, 1))], columns=["a & b"])
    assert "a &amp; b" in odd._repr_html_()
    assert "a & b" not in odd._repr_html_()


@pytest.mark.usefixtures("few_trials")
def test_results_show_their_verdict(case):
    plan = abo.budget("table.csv", ENTRIES, rows=40, rng=1)
    assert " ".join(repr(plan).split()) == f"✔ {plan.sentence}".replace("\u00a0", " ")
    assert plan.assumptions[:20] in plan._repr_html_()
    found = abo.fidelity("table.csv", "release")
    lines = repr(found).splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["column", "bmi", "ldl"]
    assert len({len(line) for line in lines[-3:]}) == 1
    assert found._repr_html_().count("<tr>") == 3
    few = abo.fidelity(np.array([[1.0], [2.0]]), abo.Release.of([np.array([[1.5], [2.5]])]))
    assert "by a tree" not in repr(few)


# the report


@pytest.mark.usefixtures("few_trials")
def test_the_report_is_that_of_the_command(case, allbutone, tmp_path):
    found = abo.report("table.csv", "release", out="mine.html")
    assert found.path.stat().st_mode & 0o777 == 0o600
    code, out, _ = allbutone("report", "table.csv", "release", "--out", "theirs.html")
    assert code == 0
    assert found.headline in " ".join(out.split())
    mine, theirs = ((tmp_path / name).read_text() for name in ("mine.html", "theirs.html"))
    assert re.findall(r"<td>.*?</td>", mine) == re.findall(r"<td>.*?</td>", theirs)
    assert " ".join(repr(found).split()).startswith(f"{found.verdict.mark} {found.headline}")
    assert "Written: mine.html" in found._repr_html_()
    public = abo.report("table.csv", case[1], out="public.html", public=True)
    assert public.findings == ()
    assert public.path.stat().st_mode & 0o777 == 0o644
    assert "nothing was judged" in repr(public)


def test_a_report_writes_nothing_unless_asked(case, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    found = abo.report("table.csv", "release", public=True)
    assert sorted(tmp_path.rglob("*")) == before
    assert found.path is None
    saved = found.save("later.html")
    assert saved.path.read_text() == found.page
    with pytest.raises(abo.InputError, match="exists"):
        found.save("later.html")
    with pytest.raises(abo.InputError, match="html file"):
        found.save("later.pdf")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"out": "report.pdf"}, "html file"),
        ({"out": "release/report.html"}, "is confidential"),
        ({"out": "table.html"}, "exists"),
        ({"out": "mine.html", "probability": 1.5}, "between 0 and 1"),
        ({"out": "mine.html", "prior": "nowhere.toml"}, "No such file"),
    ],
)
def test_reports_that_cannot_be_written(case, tmp_path, arguments, message):
    (tmp_path / "table.html").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(abo.InputError, match=message):
        abo.report("table.csv", "release", **arguments)
    assert sorted(tmp_path.rglob("*")) == before


# examples


def examples(thing):
    finder = doctest.DocTestFinder(exclude_empty=True)
    module = inspect.getmodule(thing)
    return [test for test in finder.find(thing, module=module, globs={**vars(module)}) if test.examples]


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = examples(getattr(abo, name))
    assert found
    for test in found:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_there_are_few_public_names():
    assert len(PUBLIC) <= 40
