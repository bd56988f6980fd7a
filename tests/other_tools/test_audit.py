"""The audit of rows of a fitted normal: the literal likelihood, calibration, the laws; and the command."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, multivariate_normal, multivariate_t

import allbutone as abo
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.modes import find_modes
from allbutone.adversary.plug_in import PlugInTable, posterior_after_rows
from allbutone.disclosure.measures import Effort, measure
from allbutone.model.moments import Moments
from allbutone.other_tools.fitted_normal import departure, error_of_differencing, fitted_table, law_of_everything
from allbutone.tables.records import Records


def fit_and_draw(records, rows, rng, less=0):
    """What a plug-in synthesizer does."""
    return rng.multivariate_normal(records.mean(axis=0), np.atleast_2d(np.cov(records.T, ddof=less)), rows)


def literal_log_posterior(others, candidate, synthetic, divisor):
    """Student t of the others under the reference prior, times the density of every row under the fit to all."""
    n, p = len(others) + 1, others.shape[1]
    centre, scatter = others.mean(axis=0), np.cov(others.T, ddof=0) * (n - 1)
    own = multivariate_t(centre, scatter * n / (n - 1) / (n - 1 - p), df=n - 1 - p)
    whole = np.vstack([others, candidate])
    fit = multivariate_normal(whole.mean(axis=0), np.cov(whole.T, ddof=0) * n / divisor)
    return own.logpdf(candidate) + np.sum(fit.logpdf(synthetic))


@pytest.mark.parametrize("less", [0, 1])
@pytest.mark.parametrize("known", [(), (1,), (0, 2)])
def test_the_posterior_is_the_literal_one(rng, less, known):
    records = rng.standard_normal((14, 3)) @ rng.standard_normal((3, 3)) + 20
    records[3] += 30  # a hat value near 1, where a downdate would lose digits
    synthetic = fit_and_draw(records, 50, rng, less)
    divisor = len(records) - less
    table = PlugInTable(records, Moments.of(synthetic), float(divisor))
    unknown = [place for place in range(3) if place not in known]
    for row in (0, 3):
        posterior = table.problem(np.array([row]), known)
        candidates = np.tile(records[row], (6, 1))
        candidates[1:, unknown] += 3 * rng.standard_normal((5, len(unknown)))
        others = np.delete(records, row, axis=0)
        ours = [posterior.log_density_unnormalized(each[None, unknown])[0] for each in candidates]
        literal = [literal_log_posterior(others, each, synthetic, divisor) for each in candidates]
        assert np.ptp(np.subtract(ours, literal)) < 1e-8 * np.ptp(literal)


@pytest.mark.parametrize("less", [0, 1])
def test_membership_is_the_literal_ratio_of_likelihoods(rng, less):
    """Of all rows, under the fit to everybody and under the fit to all others."""
    records = rng.standard_normal((14, 3)) @ rng.standard_normal((3, 3)) + 20
    records[3] += 30
    synthetic = fit_and_draw(records, 50, rng, less)
    table = PlugInTable(records, Moments.of(synthetic), float(len(records) - less))

    def likelihood(some):
        return multivariate_normal(some.mean(axis=0), np.cov(some.T, ddof=less)).logpdf(synthetic).sum()

    literal = [likelihood(records) - likelihood(np.delete(records, row, axis=0)) for row in range(len(records))]
    np.testing.assert_allclose(table.evidence(np.arange(len(records))), literal, rtol=1e-7, atol=1e-7)


def test_somebody_far_out_is_known_to_be_in_the_table(rng):
    """No value of theirs is told, but that they are in it is: a pass must not hide that."""
    records = rng.standard_normal((200, 2))
    records[5] = 7
    found = abo.audit(records, fit_and_draw(records, 200, rng), "plug-in")
    assert found.verdict.members == (6,)
    assert found.verdict.standing == "against"
    assert found["membership_disclosed"][5]
    others = abo.audit(
        np.delete(records, 5, axis=0), fit_and_draw(np.delete(records, 5, axis=0), 20, rng), "plug-in"
    )
    assert others.verdict.headline.endswith("and nobody’s membership")


def test_the_maximum_is_the_highest_of_all_hills(rng):
    """From the exact start Newton has nothing left to do, and no climb from anywhere ends higher."""
    for _ in range(10):
        n, p = int(rng.integers(8, 40)), int(rng.integers(1, 5))
        records = rng.standard_normal((n, p))
        records[0] *= 5
        rows = int(np.exp(rng.uniform(np.log(5), np.log(1e5))))
        synthetic = fit_and_draw(records, rows, rng)
        posteriors = PlugInTable(records, Moments.of(synthetic), float(n)).problem(np.arange(n), ())
        found = find_modes(posteriors)
        assert found.converged.all()
        start = posteriors.near_maximum()
        value, gradient, hessian = posteriors.local(start)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        assert np.all(-np.vecdot(step, (hessian @ step[..., None])[..., 0]) < 1e-8)
        np.testing.assert_allclose(value, found.value, rtol=1e-12)
        wide = 3 * rng.standard_normal((200, n, p)) / np.sqrt(n)
        assert np.all(posteriors.value(wide) <= found.value + 1e-9 * np.abs(found.value))


def test_the_adversary_is_calibrated(rng):
    """Of records drawn from the adversary's own belief, the posterior below the truth is uniform."""
    below = []
    for rows in (20, 300, 5000):
        n, p, turns = 25, 2, 150
        known = Moments.of(others := rng.standard_normal((n - 1, p)))
        own = multivariate_t(known.mean, known.scatter * n / (n - 1) / (n - 1 - p), df=n - 1 - p, seed=rng)
        truths = own.rvs(turns)
        drawn = [Moments.of(fit_and_draw(np.vstack([others, truth]), rows, rng)) for truth in truths]
        released = Moments(float(rows), np.stack([d.mean for d in drawn]), np.stack([d.scatter for d in drawn]))
        every = Moments(known.count, np.tile(known.mean, (turns, 1)), np.tile(known.scatter, (turns, 1, 1)))
        posteriors = posterior_after_rows(every, released, float(n))
        near = Intervals(np.full((turns, p), -np.inf), truths)
        below.append(measure(posteriors, truths, Effort(size=128), near=near).probability)
    for each in np.array(below):
        assert all(kstest(column, "uniform").pvalue > 1e-4 for column in each.T)
    assert np.std(below[0]) == pytest.approx(12**-0.5, abs=0.05)


def test_the_errors_follow_the_laws(rng):
    """Differencing is off by the same for all, n/√N on average; the exact attack by σ/√(1 + (1 + D²)N/n²)."""
    n, p, rows, turns, exact, means = 60, 4, 20_000, 30, [], []
    for _ in range(turns):
        records = rng.standard_normal((n, p))
        table = PlugInTable(records, Moments.of(fit_and_draw(records, rows, rng)), float(n))
        differenced = n * table.released.mean - (records.sum(axis=0) - records[7])
        off = error_of_differencing(table)
        np.testing.assert_allclose((differenced - records[7]) / records.std(axis=0, ddof=1), off, rtol=1e-8)
        means.append(off)
        posteriors = table.problem(np.arange(n), ())
        exact.append(posteriors.unwhiten(find_modes(posteriors).best) - records)
    spread = np.sqrt(np.mean(np.square(means)))
    # the mean of 120 squared normals, within four of its standard errors; n/(n − 1) is the divisors'
    assert spread == pytest.approx(n / np.sqrt(rows), rel=4 * np.sqrt(0.5 / (turns * p)) + 1 / n)
    across = np.sqrt(np.mean(np.square(exact)))
    expected = np.sqrt(np.mean(law_of_everything(n, rows, np.sqrt(rng.chisquare(p, 4000))) ** 2))
    assert across == pytest.approx(expected, rel=0.2)
    assert across < 0.6 * spread


def test_the_divisor_is_deduced_and_another_mechanism_noticed(rng):
    values = rng.standard_normal((30, 3))
    records = Records.of_numbers(values)
    for less in (0, 1):
        synthetic = fit_and_draw(values, 40_000, rng, less)
        table = fitted_table(records, [synthetic[:10_000], synthetic[10_000:]], None)
        assert table.released.count == 40_000
        assert table.divisor == 30 - less
        assert departure(table) == ""
    drawn = abo.Synthesizer().fit(values).sample(datasets=1, rows=40_000)
    other = fitted_table(records, [drawn.values[0]], None)
    assert "another way" in departure(other)
    assert "another way" in departure(fitted_table(records, [fit_and_draw(values + 0.3, 2000, rng)], None))


def test_the_check_of_the_mechanism_seldom_errs(rng):
    """One in 10,000 at any number of rows; of 200, hardly one."""
    values = rng.standard_normal((40, 4))
    drawn = [fit_and_draw(values, rows, rng) for rows in (1, 5, 12, 40, 900) for _ in range(40)]
    tables = [PlugInTable(values, Moments.of(each), 40.0) for each in drawn]
    assert sum(departure(table) != "" for table in tables) <= 2


def test_rows_of_a_fit_disclose_everybody_and_rows_of_a_posterior_draw_nobody(rng):
    values = rng.standard_normal((40, 3))
    found = abo.audit(values, fit_and_draw(values, 100_000, rng), "plug-in")
    assert np.mean(found["disclosed"]) > 0.9
    release = abo.Synthesizer().fit(values).sample(datasets=1, rows=100_000)
    assert np.sum(abo.risk(values, release, mass=False)["disclosed"]) <= 3
    with pytest.warns(abo.Caution, match="another way"):
        abo.audit(values, release.values[0], "plug-in")


def test_scales_and_units_do_not_matter(rng):
    values = rng.standard_normal((12, 2))
    synthetic = fit_and_draw(values, 500, rng)
    log = {"columns": {name: {"scale": "log"} for name in ("x1", "x2")}}
    plain = abo.audit(values, synthetic, mechanism="plug-in", known=["x2"], rng=np.random.default_rng(1))
    scaled = abo.audit(
        np.exp(values),
        np.exp(synthetic),
        mechanism="plug-in",
        known=["x2"],
        rng=np.random.default_rng(1),
        schema=log,
    )
    for name in ("exposure", "information_gain", "probability_x1"):
        np.testing.assert_allclose(np.asarray(plain[name]), np.asarray(scaled[name]), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"mechanism": "trees"}, "the mechanism is plug-in, posterior, classes or unknown"),
        ({"divisor": "n+1"}, "divisor is n or n-1"),
        ({"known": ["x1", "x2"]}, "knows everything"),
        ({"known": ["x3"]}, "no column x3"),
    ],
)
def test_what_cannot_be_audited_is_refused(rng, how, match):
    values = rng.standard_normal((20, 2))
    with pytest.raises(abo.InputError, match=match):
        abo.audit(values, rng.standard_normal((20, 2)), **{"mechanism": "plug-in", **how})


def test_tables_that_do_not_go_together_are_refused(rng):
    values = rng.standard_normal((20, 2))
    with pytest.raises(abo.InputError, match="has no x2"):
        abo.audit(values, values[:, :1])
    with pytest.raises(abo.InputError, match="at least three people more"):
        abo.audit(values[:4], values, "plug-in")
    with pytest.raises(abo.InputError, match="scale declared for it"):
        abo.audit(np.exp(values), values, "plug-in", schema={"columns": {"x1": {"scale": "log"}}})


@pytest.fixture
def files(tmp_path, rng):
    values = (rng.standard_normal((30, 2)) * (4, 0.9) + (27, 3.4)).round(2)
    for name, rows in (("t", values), ("s", fit_and_draw(values, 20_000, rng))):
        text = "\n".join(f"p{at},{a:.4f},{b:.4f}" for at, (a, b) in enumerate(rows))
        (tmp_path / f"{name}.csv").write_text(f"patient,bmi,ldl\n{text}\n")
    return values


def test_the_command_says_who_and_names_what_to_do_next(allbutone, files, tmp_path):
    code, out, err = allbutone("audit", "t.csv", "s.csv", "--mechanism", "plug-in", "--drop", "patient")
    assert code == 0, err
    assert "should not be given out" in out
    assert "divided by n, which fits the rows better" in out
    lines = (tmp_path / "audit.csv").read_text().splitlines()
    assert lines[0].startswith('"row","disclosed","row_copied"')
    assert '"disclosed_if_plug_in","risk","riskiest"' in lines[0]
    assert len(lines) == 31
    assert (tmp_path / "audit.csv").stat().st_mode & 0o77 == 0
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "Audit of 20,000 synthetic rows" in page
    [hint] = re.findall(r"^Next: .*\n  allbutone (.*)$", out, re.MULTILINE)
    assert allbutone(*hint.split())[0] == 0
    assert "--drop patient" in hint


def test_the_command_gives_no_verdict_on_another_mechanism(allbutone, files, tmp_path):
    assert allbutone("synthesize", "t.csv", "--drop", "patient", "--rows", 20_000, "--out", "r")[0] == 0
    asked = ("audit", "t.csv", "r/dataset-001.csv", "--drop", "patient", "--mechanism", "plug-in")
    code, out, _ = allbutone(*asked)
    assert code == 0
    assert ("Not known" in out) == ("should not be given out" not in out)
    assert "may be given out" not in out
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert ("Not known" in page) == ("Not known" in out)


def test_the_exact_adversary_of_a_posterior_draw_is_that_of_risk(rng):
    """The same columns as `risk` has of the release itself, for measurements and with categories."""
    values = rng.standard_normal((40, 2)).round(3)
    table = pd.DataFrame({"a": values[:, 0], "b": values[:, 1], "sex": rng.choice(["f", "m"], 40)})
    for some, names in ((table[["a", "b"]], ["a", "b"]), (table, ["a", "b", "sex"])):
        release = abo.Synthesizer().fit(some, columns=names).sample(datasets=2, rng_for_tests=rng)
        frames = release.to_frames("pandas")
        found = abo.audit(some, frames, "posterior", columns=names, rng=np.random.default_rng(1))
        risk = abo.risk(some, release, mass=False, rng=np.random.default_rng(1))
        for name in ("risk", "membership", "probability_a"):
            np.testing.assert_allclose(np.asarray(found[name]), np.asarray(risk[name]), rtol=1e-6, atol=1e-9)


def test_an_audit_shows_itself(rng):
    values = rng.standard_normal((30, 2)).round(3)
    found = abo.audit(values, values)
    words = " ".join(repr(found).split())
    assert words.startswith("✘ By the rule this should not be given out: it discloses values of 30 of 30 people.")
    page = found._repr_html_()
    assert "svg" in page
    assert "no evidence of safety" in page
    assert len(found.to_pandas()) == 30


DATED = {
    "columns": {
        "admitted": {"kind": "date", "form": "DD.MM.YYYY"},
        "discharged": {"kind": "date", "form": "DD.MM.YYYY", "above": "admitted"},
    }
}


def stays(rng, people, form):
    """Admissions and discharges before the origin that dates count from."""
    admitted = pd.Timestamp("1995-06-01") + pd.to_timedelta(np.round(rng.normal(0, 90, people)), "D")
    discharged = admitted + pd.to_timedelta(np.round(np.exp(rng.normal(3, 0.5, people))), "D")
    age = np.round(rng.normal(60, 12, people), 1)
    return pd.DataFrame({"admitted": admitted.strftime(form), "discharged": discharged.strftime(form), "age": age})


def test_dates_are_compared_as_dates_in_whatever_form_a_tool_writes_them(rng):
    drawn = rng.bit_generator.state
    table = stays(rng, 60, "%d.%m.%Y")
    rng.bit_generator.state = drawn
    found = abo.audit(table, stays(rng, 60, "%Y-%m-%d"), schema=DATED)
    assert found.verdict.copied == 60
    np.testing.assert_array_equal(found.tables.people, found.tables.rows)


def test_a_fitted_normal_takes_dates_and_refuses_rows_that_break_their_order(rng):
    table, rows = stays(rng, 60, "%d.%m.%Y"), stays(rng, 60, "%Y-%m-%d")
    records = Records.of(table, schema=DATED)
    days = [pd.to_datetime(rows[name]) for name in ("admitted", "discharged")]
    fitted = fitted_table(records, [rows], "n")
    literal = [(days[0] - pd.Timestamp("2000-01-01")).dt.days, np.log((days[1] - days[0]).dt.days + 0.5), rows.age]
    np.testing.assert_allclose(fitted.released.mean, np.mean(literal, axis=1))
    rows.loc[3, "discharged"] = "1990-01-01"
    with pytest.raises(abo.InputError, match="break an order"):
        fitted_table(records, [rows], "n")
    rows.loc[3, "discharged"] = "1995-02-30"
    with pytest.raises(abo.InputError, match="'discharged' of the synthetic table"):
        abo.audit(table, rows, schema=DATED)


def test_people_of_a_long_table_are_called_by_their_names(rng):
    people = np.repeat([f"A{each}" for each in range(12)], 2)
    table = pd.DataFrame({"id": people, "month": [0, 6] * 12, "crp": np.round(rng.normal(5, 1, 24), 3)})
    found = abo.audit(table, table, schema={"person": "id", "visit": "month", "visits": [0, 6]})
    assert "Person A0 (crp at month 0, crp at month 6)" in found.verdict.who
    assert found.measures["person"].tolist() == [f"A{each}" for each in range(12)]


def test_how_often_ends_are_told_by_chance_is_said(rng):
    """Of whole numbers an independent sample often ends where the table does."""
    table, rows = (pd.DataFrame({"age": np.round(rng.normal(60, 12, 200))}) for _ in range(2))
    found = abo.audit(table, rows)
    line = next(each for each in found.lines if each.measure.startswith("Lowest and highest"))
    alone = [end.chance for end in found.copies.ends if end.alone]
    assert line.baseline == pytest.approx(np.mean(alone))


@pytest.mark.parametrize("missing", ["impute", "keep"])
def test_rows_of_a_posterior_are_audited_with_their_gaps_or_without(rng, missing):
    """A release keeps the table's gaps or fills them; either is judged as `risk` judges it."""
    table = pd.DataFrame(rng.standard_normal((40, 2)).round(3), columns=["a", "b"])
    table.loc[::8, "b"] = np.nan
    release = abo.Synthesizer(missing=missing).fit(table).sample(datasets=1, rng_for_tests=rng)
    frames = release.to_frames("pandas")
    assert frames[0].isna().any(axis=None) == (missing == "keep")
    found = abo.audit(table, frames, "posterior", rng=np.random.default_rng(1))
    risk = abo.risk(table, release, mass=False, rng=np.random.default_rng(1))
    assert (found.verdict.standing == "against") == bool(np.any(risk["disclosed"]))
    np.testing.assert_allclose(np.asarray(found["risk"]), np.asarray(risk["risk"]), atol=0.1)
