"""Every kind of table crossed with everything that can be asked: a law holds in each cell, or it is refused."""

import html
import io
import re
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import urlencode

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

import allbutone as abo
from allbutone.adversary.who import USUAL
from allbutone.disclosure.risk import records_of_release, risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.releases.folder import release_of
from allbutone.releases.release import reading_of
from allbutone.releases.several import Part, Releases, in_columns, parts_of
from allbutone.reports.assessment import assess_in_engine
from allbutone.reports.verdict import verdict_of
from allbutone.support.text import chance
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records
from allbutone.utility.class_fit import fit_of_classes
from allbutone.utility.normality import check_normality, completed, given_categories
from app_server import last_line
from matrix import KINDS, QUESTIONS, REFUSED
from pages import ROOT
from seeded_noise import noise_from

PEOPLE = 36
PRIOR = {"centre": [50.0, 3.0], "spread": [9.0, 1.0]}
LIMITS = {
    "age": {"low": 0, "high": 120, "centre": 50, "spread": 15},
    "ldl": {"low": 0, "high": 9, "centre": 3, "spread": 1},
}
HOW = {
    "gaps": {"missing": "keep"},
    "kept": {"keep": ["sex"]},
    "guarantee": {"epsilon": 3.0, "schema": {"columns": LIMITS}},
    "classes": {"model": "classes", "classes": 2},
}
SLOW = ("gaps", "classes")  # what is believed is averaged over draws


def everybody(kind):
    """A table of 36 people, one of them far out, as pandas has it."""
    rng = np.random.default_rng(7)
    sex = rng.permutation(["f", "m"] * (PEOPLE // 2))
    table = pd.DataFrame({"age": rng.normal(50, 9, PEOPLE) + 4 * (sex == "m"), "ldl": rng.normal(3, 1, PEOPLE)})
    table.loc[0, "age"] = 95.0
    if kind in ("categories", "kept", "gaps", "classes"):
        table["sex"] = sex
    if kind == "gaps":
        for row, name in ((3, "age"), (8, "ldl"), (11, "sex")):
            table.loc[row, name] = None
    return table


@dataclass(frozen=True)
class Case:
    """A kind of table, its people, and where files may be written."""

    kind: str

    @cached_property
    def frame(self):
        return everybody(self.kind)

    def given(self, frame):
        """Return a frame as it is given to the package: in its engine, if that is where this kind lies."""
        return pl.from_pandas(frame).lazy() if self.kind == "engine" else frame

    @cached_property
    def table(self):
        return self.given(self.frame)

    @property
    def is_exact(self):
        """Whether what is believed is in closed form, or nearly so."""
        return self.kind not in SLOW

    @property
    def noise(self):
        """By how much two ways to compute a probability may differ."""
        return {"gaps": 0.05, "classes": 0.2}.get(self.kind, 1e-6)

    def fitted(self, frame=None, **how):
        table = self.table if frame is None else self.given(frame)
        return abo.Synthesizer(**{**HOW.get(self.kind, {}), **how}).fit(table)

    def drawn(self, datasets=2, seed=1, frame=None, **how):
        """Return a release that is the same each time."""
        rng = np.random.default_rng(seed)
        if self.kind == "guarantee":
            with noise_from(rng):
                return self.fitted(frame, **how).sample(datasets=datasets, rows=PEOPLE)
        return self.fitted(frame, **how).sample(datasets=datasets, rng_for_tests=rng)

    @cached_property
    def release(self):
        return self.drawn()

    @cached_property
    def records(self):
        """The table as the release reads it."""
        return Records.of(self.frame, **reading_of(self.release, {}))

    def risk(self, release=None, who=USUAL, frame=None, **how):
        """Return the risk of everyone; with gaps or classes, which take longer, of every fourth person."""
        release = self.release if release is None else release_of(release)
        how = {"rng": np.random.default_rng(2), "mass": False, **how}
        if self.kind in SLOW:
            records = records_of_release(self.frame if frame is None else frame, release)
            some = np.arange(0, len(records.values), 4)
            return pd.DataFrame(risk_columns(records, release, who, rows=some, **how))
        found = abo.risk(self.table if frame is None else self.given(frame), release, who, **how)
        return found.to_pandas()

    @cached_property
    def usual(self):
        """The risk of the release by the paper's adversary."""
        return self.risk()

    @cached_property
    def everyone(self):
        """The same of all people, by the points of a report."""
        if self.kind not in SLOW:
            return self.usual
        return abo.risk(self.table, self.release, mass=False, rng=np.random.default_rng(0)).to_pandas()


CASES = {kind: Case(kind) for kind in KINDS}


def same(one, two, room=0.01):
    """Two tables of risk give every value, of those who are in both, the same probability, but for its error."""
    both = one.merge(two, on="row", suffixes=("", "_2"))
    for name in judged(one):
        of = name.replace("probability_", "probability_error_")
        error = 6 * np.hypot(*(np.nan_to_num(both[each].astype(float)) for each in (of, f"{of}_2")))
        off = np.abs(both[name] - both[f"{name}_2"]).to_numpy()
        assert np.all((off <= error + room) | np.isnan(off)), (name, np.nanmax(off - error))


def judged(found):
    """Return the names of the probabilities of values; the patterns of gaps are apart."""
    return [name for name in found if re.match(r"probability_(?!error_|gaps$)", name)]


# ------------------------------------------------------------------------------------------ what is released


def synthesize(case):
    """The same key draws the same release, in an engine, too; with a guarantee nothing can be repeated."""
    if case.kind == "guarantee":
        one, two = (case.fitted().sample(datasets=1, rows=20) for _ in range(2))
        assert not np.array_equal(one.values[0], two.values[0])
        assert all(np.all((each.values[0] >= 0) & (each.values[0] <= [120, 9])) for each in (one, two))
        return
    key, fitted = abo.Synthesizer.new_repeat_key(), case.fitted()
    one, two = (fitted.sample(datasets=2, repeat_key=key) for _ in range(2))
    for ours, theirs in zip(one.tables, two.tables, strict=True):
        np.testing.assert_array_equal(ours.values, theirs.values)
        np.testing.assert_array_equal(ours.categories.codes, theirs.categories.codes)
    if case.kind == "engine":
        np.testing.assert_allclose(
            fitted.posterior.scale, CASES["measurements"].fitted().posterior.scale, rtol=1e-9
        )
    if case.kind == "kept":
        assert sorted(one.to_frames()[0]["sex"]) == sorted(case.frame["sex"])


def parameters(case):
    """Datasets that come with their parameters tell nothing more than these."""
    both = case.fitted().sample(datasets=2, parameters=True, rng_for_tests=np.random.default_rng(1))
    alone = replace(both, illustrating=())
    whole, part = case.risk(both), case.risk(alone)
    for name in judged(whole):
        np.testing.assert_array_equal(whole[name], part[name])


# ------------------------------------------------------------------------------------------ who attacks


def risk(case):
    """The same points give the same probabilities; without a release they are the same whatever was released."""
    found, other = case.usual, case.risk(case.drawn(seed=5))
    pd.testing.assert_frame_equal(found, case.risk())
    for name in judged(found):
        assert found[name].dropna().between(0, 1).all()
        baseline = name.replace("probability_", "baseline_")
        np.testing.assert_allclose(found[baseline], other[baseline], atol=case.noise)
    if case.kind == "engine":
        same(found, CASES["measurements"].risk(case.release))


def conditional(case, row, known, judged_name):
    """Return the probability of an interval of one measurement given another, by the others' model alone."""
    from scipy.special import stdtr

    mechanism, records = case.release.mechanism, case.records
    parts = mechanism.split(records)
    others = parts.take(np.delete(np.arange(len(parts)), row))
    t = mechanism.prior.update(others).at(parts.cells[[row]], parts.covariates[[row]]).predictive()
    location, scale = np.ravel(t.location), np.asarray(t.scale).reshape(2, 2)
    here, there = (mechanism.measurements.index(name) for name in (judged_name, known))
    away = parts.values[row, there] - location[there]
    middle = location[here] + scale[here, there] / scale[there, there] * away
    df = float(np.ravel(t.df)[0])
    left = scale[here, here] - scale[here, there] ** 2 / scale[there, there]
    spread = np.sqrt(left * (df + away**2 / scale[there, there]) / (df + 1))
    return lambda low, high: stdtr(df + 1, (high - middle) / spread) - stdtr(df + 1, (low - middle) / spread)


def known(case):
    """What is known is not judged; of the rest the baseline is the others' Student t given it."""
    found = case.risk(who=abo.Adversary(known="ldl")).set_index("row")
    assert "probability_ldl" not in found
    person, others = 20, case if case.is_exact else CASES["categories"]  # three gaps make little difference
    within = conditional(others, person, "ldl", "age")
    age, off = case.frame["age"][person], found["tolerance_age"][person + 1]
    expected = pytest.approx(within(age - off, age + off), abs=case.noise)
    assert found["baseline_age"][person + 1] == expected


def lacking_columns(case):
    """Who lacks a column attacks exactly what a release of the other columns would be."""
    found = case.risk(who=abo.Adversary(lacking_columns="ldl"))
    part = in_columns(case.release, [case.release.columns.index("age")])
    alone = case.risk(part, frame=case.frame.drop(columns="ldl"))
    same(found, alone)
    assert "probability_ldl" not in found


def lacking_records(case):
    """After one dataset a missing record has the predictive of what is known, however many are missing."""
    one, away = case.drawn(datasets=1), [6, 10]
    some = case.risk(one, abo.Adversary(lacking_records=away))
    fewer = case.risk(one, frame=case.frame.drop(index=[row - 1 for row in away]).reset_index(drop=True))
    stay = np.delete(np.arange(1, PEOPLE + 1), [row - 1 for row in away])
    fewer = fewer.assign(row=stay[fewer["row"] - 1])
    same(some, fewer, room=0.03)  # fewer people, and other tolerances: both move what is known before


def own_prior(case):
    """The mechanism's own prior as the adversary's changes nothing; with classes it is what is believed before."""
    if case.kind == "classes":
        mine, theirs = (
            case.risk(who=abo.Adversary(prior=PRIOR)),
            CASES["categories"].risk(who=abo.Adversary(prior=PRIOR)),
        )
        both = mine.merge(theirs, on="row", suffixes=("", "_2"))
        for name in ("baseline_age", "baseline_ldl", "baseline_sex"):
            np.testing.assert_allclose(both[name], both[f"{name}_2"], atol=0.05)
        return
    same(case.usual, case.risk(who=abo.Adversary(prior=case.release.prior or PRIOR)))


def several(case):
    """Two releases are attacked together, in whatever order they come."""
    other = case.drawn(seed=5)
    one, two = case.risk([case.release, other]), case.risk([other, case.release])
    same(one, two)
    assert not np.allclose(one["information_gain"], case.usual["information_gain"], atol=0.01)


def mechanisms(case):
    """So are releases made with different priors, by who has one of their own; or through other classes."""
    if case.kind == "classes":
        for how in ({"classes": 3}, {"classes": None, "model": None}):
            other = case.drawn(datasets=1, seed=5, **how)
            same(case.risk([case.release, other]), case.risk([other, case.release]), room=0.1)
        return
    who, other = abo.Adversary(prior=PRIOR), case.drawn(datasets=1, seed=5, prior=PRIOR)
    same(case.risk([case.release, other], who), case.risk([other, case.release], who))


def grown(case):
    """A release made before somebody came tells nothing of them."""
    fewer = PEOPLE - 8
    earlier = case.drawn(seed=5, frame=case.frame.iloc[:fewer])
    found = case.risk(Releases((Part(case.release), Part(earlier, slice(0, fewer)))))
    same(found[found["row"] > fewer], case.usual)
    before, now = (each[each["row"] <= fewer]["information_gain"] for each in (found, case.usual))
    assert not np.allclose(before, now, atol=0.01)


# ------------------------------------------------------------------------------------------ how much, and how


def budget(case):
    """What is out already counts, and every kind of table is told the same columns."""
    how = {"rows": PEOPLE, "rng": 1, **({} if case.kind == "guarantee" else HOW.get(case.kind, {}))}
    plan, after = abo.budget(case.table, **how), abo.budget(case.table, release=case.release, **how)
    assert (after.in_all, after.before) == (plan.in_all, 2)
    assert after.confident_count <= max(0, plan.in_all - 2)
    law = set() if case.kind == "classes" else {"leverage"}  # there is no closed form
    assert {"row", f"chance_at_{max(plan.in_all, 1)}"} | law <= set(plan.columns())


def epsilon(case):
    """ε grows with what is released, and with leverage; a guarantee bounds every probability."""
    if case.kind == "guarantee":
        found = case.risk()
        for name in ("age", "ldl"):
            assert np.all(found[f"probability_{name}"] <= found[f"bound_{name}"] + 1e-9)
        return
    how = {"gaps": {"missing": "keep", "rng": 1}}.get(case.kind, HOW.get(case.kind, {}))
    table = case.table if case.is_exact else case.frame[: PEOPLE // 3]  # averages over gaps take long
    one, two = (nw.from_native(abo.privacy(table, draws=draws, **how)).to_pandas() for draws in (1, 2))
    if case.kind == "engine":
        memory = abo.privacy(case.frame, draws=1)
        np.testing.assert_allclose(one["epsilon"], memory["epsilon"], rtol=1e-9)
    known = one["epsilon"].notna().to_numpy()
    assert known.sum() >= len(one) - 1  # all but who lacks a category
    assert np.all((two["epsilon"] >= one["epsilon"])[known])
    alike = case.frame["sex"].to_numpy() if "sex" in case.frame else np.zeros(PEOPLE)
    for group in set(alike[known]) if case.is_exact else ():  # in one cell leverage alone decides
        here = one[alike == group].sort_values("leverage")
        assert np.all(np.diff(here["epsilon"]) > -1e-6)


def check(case, folder):
    """A clean release passes beside its table; with a person of it planted, it does not."""
    abo.save_release(case.release, folder / "release")
    assert abo.check(folder / "release", case.table).is_clean
    path = folder / "release" / "dataset-001.csv"
    lines = path.read_text().splitlines()
    person = case.frame.iloc[20][list(case.release.order)].to_list()
    lines[1] = ",".join(str(value) for value in person)
    path.write_text("\n".join(lines) + "\n")
    assert not abo.check(folder / "release", case.table).is_clean


def report(case, folder):
    """The page has the verdict of `risk`; of an engine it is written by the command line."""
    verdict = verdict_of({name: column.to_numpy() for name, column in case.everyone.items()}, Rule())
    if case.kind == "engine":
        assert assess_in_engine(LazyRecords.of(case.table), case.release).verdict.headline == verdict.headline
        return
    found = abo.report(case.table, case.release, out=folder / "report.html")
    assert verdict.headline in re.sub(r"\s+", " ", (folder / "report.html").read_text())
    assert found.verdict.headline == verdict.headline


def public(case, folder):
    """The page is a function of the release alone, whatever the table holds."""
    others = case.frame.assign(ldl=case.frame["ldl"] * 0.9)
    for name, frame in (("one", case.frame), ("two", others)):
        abo.report(case.given(frame), case.release, out=folder / f"{name}.html", public=True)
    one, two = (re.sub(r"\d\d:\d\d", "", (folder / f"{name}.html").read_text()) for name in ("one", "two"))
    assert one == two


# ------------------------------------------------------------------------------------------ what it is good for


def fidelity(case):
    """Differences of means are as Austin has them."""
    found = abo.fidelity(case.table, case.release)
    real, synthetic = case.records.values, case.release.tables[0].values
    variance = (np.nanvar(real, axis=0, ddof=1) + np.nanvar(synthetic, axis=0, ddof=1)) / 2
    expected = (np.nanmean(synthetic, axis=0) - np.nanmean(real, axis=0)) / np.sqrt(variance)
    np.testing.assert_allclose(found.mean_differences[0], expected, rtol=1e-6)


def model(case):
    """Whether columns look normal, or what classes draw, does not depend on their units."""
    if case.kind == "classes":
        found, larger = (class_fit(case, factor).gaps for factor in (1.0, 365.0))
        np.testing.assert_allclose(found, larger, rtol=1e-6)
        assert np.all(found < 0.5)
        return
    found, larger = (checked(case, factor) for factor in (1.0, 365.0))
    np.testing.assert_allclose(found.shape.skewness, larger.shape.skewness, rtol=1e-6)
    assert [each.level for each in found.verdicts] == [each.level for each in larger.verdicts]
    assert found.verdicts[0].level != "fit"  # the person far out


def class_fit(case, factor):
    frame = case.frame.assign(age=case.frame["age"] * factor)
    mechanism = case.fitted(frame).mechanism
    table = mechanism.incomplete(Records.of(frame, categories=True))
    return fit_of_classes(mechanism.measurements, table, mechanism.class_model)


def checked(case, factor):
    frame = case.frame.assign(age=case.frame["age"] * factor)
    if case.kind in ("measurements", "engine", "guarantee"):
        return check_normality(case.given(frame))
    mechanism = case.fitted(frame).mechanism
    records = completed(Records.of(frame, categories=True, gaps=case.kind == "gaps"), mechanism)
    return check_normality(given_categories(records, mechanism), of=records)


def combine(case):
    """A mean is estimated by the average of the datasets' own."""
    found = abo.combine(case.release, "means", people=PEOPLE)
    means = np.mean([np.nanmean(each.values, axis=0) for each in case.release.tables], axis=0)
    drawn = dict(zip(case.release.columns, means, strict=True))
    # with a guarantee values are cut off at limits, and the estimate puts them back
    close = 0.02 if case.kind == "guarantee" else 1e-3
    np.testing.assert_allclose(found.estimate, [drawn[name] for name in found.names], rtol=close)
    assert np.all(found.low < found.estimate)


def ledger(case, folder):
    """What is recorded counts once, whichever its prior, and though the table has grown since."""
    records, fewer = Records.of(case.table, **reading_of(case.release, {})), PEOPLE - 8
    made = {
        "all": case.release,
        "few": case.drawn(seed=5, frame=case.frame.iloc[:fewer]),
        "new": case.drawn(seed=6),
    }
    if case.kind not in ("guarantee", "classes"):  # which have no other prior
        made["other"] = case.drawn(seed=7, prior=PRIOR)
    for name, release in made.items():
        abo.save_release(release, folder / name)
    kept = abo.Ledger.of(folder / "table.csv")
    for name in ("all", "all", *(name for name in made if name == "other")):
        kept = kept.record(records, folder / name)
    kept = kept.record(records.take(slice(0, fewer)), folder / "few")
    assert len(kept.releases) == len(made) - 1
    found = kept.together(records, made["new"], [folder / "new"])
    if found.left_out:
        raise abo.InputError(found.left_out[0][1])
    assert found.release.count == 2 * len(made)
    assert [part.people for part in parts_of(found.release)].count(slice(0, fewer)) == 1


# ------------------------------------------------------------------------------------------ the app, devices


FORM = "application/x-www-form-urlencoded"
OFFERED = {"engine": "from-table"}  # fields that a page would have
FIELDS = {"kept": {"keep-3": "yes"}, "gaps": {"gaps": "keep"}, "classes": {"model": "classes", "classes": 2}}


def uploaded(case, browser):
    page = browser.ask("/mend")[2].decode()
    if case.kind in OFFERED and f'name="{OFFERED[case.kind]}"' not in page:
        raise abo.InputError(f"the app has no {OFFERED[case.kind]} to fill in")
    content = case.frame.to_csv(index=False).encode()
    return browser.send(content, "table.csv")[1]["fields"]["table"]


def answer(browser, path, state, **fields):
    """Ask the app; what it refuses is an error."""
    query = "&".join(f"{name}={value}" for name, value in {"table": state, **fields}.items())
    status, _, body = browser.ask(f"/{path}?{query}")
    if "." in path and status == 200:
        return body.decode()
    found = last_line(body)
    if found.get("error"):
        raise abo.InputError(found["error"])
    return found


def upload(case, browser):
    """The app's budget is that of the package; with a guarantee, what its release is judged beside, and its ε."""
    if case.kind == "guarantee":
        drawn_with_a_guarantee(case, browser)
        return
    found = answer(browser, "budget/budget", uploaded(case, browser), **FIELDS.get(case.kind, {}))
    plan = abo.budget(case.frame, rows=PEOPLE, rng=0, **HOW.get(case.kind, {}))
    said = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", found["parts"]["verdict"]))
    assert str(plan.limiting_row) in said
    assert re.sub(r"\s+", " ", plan.sentence)[:30] in said


def drawn_with_a_guarantee(case, browser):
    """Draw, judge everybody, and look at one."""
    state = {"table": browser.send(case.frame.to_csv(index=False).encode(), "table.csv")[1]["fields"]["table"]}
    state |= {
        f"{key}-{place}": f"{value}"
        for place, each in enumerate(LIMITS.values(), 1)
        for key, value in each.items()
    }
    state |= {"prior": "public", "guarantee": "noise", "epsilon": "3"}
    address = urlencode(state)
    with browser.stay():
        drawn = last_line(browser.ask(f"/draw/draw?{address}", "POST", "", content_type=FORM)[2])
        address += f"&drawn={drawn['fields']['drawn']}"
        said = last_line(browser.ask(f"/decide/after?{address}")[2])["parts"]["after"]
        found = pd.read_csv(io.BytesIO(browser.ask(f"/decide/risk.csv?{address}")[2]))
        one = last_line(browser.ask(f"/decide/one?{address}&row=1")[2])["parts"]["one"]
    assert case.release.noisy.in_words in html.unescape(said)
    for name in ("baseline_age", "bound_ldl"):  # what is known beforehand, and what ε allows, follow from no noise
        np.testing.assert_allclose(found[name], case.usual[name], rtol=1e-6)
        assert chance(float(case.usual[name].iloc[0])) in one


def record(case, browser):
    """The page of a record tells how probable the true age is to who ignores the release, whichever that was."""
    if case.kind == "guarantee":  # there it is the release that was drawn, at Decide
        drawn_with_a_guarantee(case, browser)
        return
    state = uploaded(case, browser)
    found = answer(browser, "budget/record", state, row=1, count=1, **FIELDS.get(case.kind, {}))
    lines = re.findall(
        r'<th scope="row">(\w+).*?</th>' + 3 * r'.*?data-value="([^"]*)"', found["parts"]["told"], re.S
    )
    told = {name: float(before) for name, _, _, before in reversed(lines)}
    expected = case.usual.set_index("row").loc[1, "baseline_age"]
    assert told["age"] == pytest.approx(expected, abs=max(case.noise, 1e-3))


def device(case):
    """On a graphics card everyone has the risk that they have on the processor, where PyTorch is there."""
    try:
        found = case.risk(device="cuda")
    except abo.InputError as error:
        if "PyTorch" in str(error):  # neither it nor a card is here: the road to it is
            return
        raise
    same(found, case.usual)


ASKED = {name: globals()[name] for name in QUESTIONS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_law_holds_or_it_is_refused(question, kind, request, tmp_path):
    ask, case, extra = ASKED[question], CASES[kind], {}
    wanted = ask.__code__.co_varnames[: ask.__code__.co_argcount]
    if "folder" in wanted:
        extra["folder"] = tmp_path
    if "browser" in wanted:
        extra["browser"] = request.getfixturevalue("browser")
    if question in ("budget", "report", "upload", "record"):
        request.getfixturevalue("few_trials")
    refusal = REFUSED.get((question, kind))
    if refusal is None:
        ask(case, **extra)
        return
    with pytest.raises(abo.InputError, match=refusal.words):
        ask(case, **extra)


def test_the_page_of_limits_is_that_of_the_matrix(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from limits_page import PAGE, limits_page

    assert PAGE.read_text(encoding="utf-8") == limits_page(), "docs/limits.md is written from it: make limits"
