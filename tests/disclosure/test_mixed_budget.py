"""The budget of mixed tables: categories by counts, measurements by leverage, both checked by exact attacks."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.adversary.mixed import CellIntegrals, MixedLeaveOneOut, cell_beliefs
from allbutone.adversary.proposal import Points
from allbutone.disclosure.budget import Budget
from allbutone.disclosure.budget_case import Case, allowed, leverages_in_cells
from allbutone.disclosure.exposure_law import leverages
from allbutone.disclosure.gap_releases import GapReleases
from allbutone.disclosure.lineup import Lineup
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.simulated_budget import CutShort, Simulated, Tried
from allbutone.disclosure.standing import Standing
from allbutone.disclosure.table_draws import CountedCells, category_chances
from allbutone.disclosure.table_releases import _People
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.moments import Cells
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.sampling import draw_tables
from allbutone.reports.verdict import verdict_of
from allbutone.tables.records import Records


def case(rng, n=60):
    prior = LocationModel.prior((2, 3), abo.NIW.flat(2))
    cells = np.append(rng.integers(0, 5, n - 1), 5)
    return prior, MixedRecords.of(cells, rng.standard_normal((n, 2)))


def counted_of(prior, records, known=()):
    whole = prior.update(records)
    return CountedCells.of(prior.cells, whole.weights, whole.counts(records), known)


def test_after_one_dataset_counts_say_all_of_a_category(rng):
    """Then the measurements' part is 1, so the shares by counts are the exact attack's, whatever is known."""
    prior, records = case(rng)
    whole = prior.update(records)
    datasets, _ = draw_tables([whole], [60], rng)
    everyone = MixedLeaveOneOut.of(records, prior, datasets)
    seen = np.bincount(datasets[0].cells, minlength=6)
    less = whole.weights - (whole.counts(records) > 0)
    for known in ((), (0,)):
        beliefs = cell_beliefs(CellIntegrals.of(everyone, Points(1)), np.arange(60), known)
        shares = counted_of(prior, records, known).level_shares(
            np.log(whole.weights + seen)[None], np.log(less + seen)[None]
        )[0]
        wanted, _, _ = beliefs.of_true_level(1)
        np.testing.assert_allclose(shares[records.cells, -1], wanted, rtol=1e-10)


def test_chances_are_those_of_releases(rng):
    """The simulated counts against attacks on whole releases of one dataset, within noise."""
    prior, records = case(rng, n=20)
    chance, each = category_chances(counted_of(prior, records), 200, rng, most=1, replicates=4000)
    found, times = 0, 120
    whole = prior.update(records)
    for _ in range(times):
        datasets, _ = draw_tables([whole], [200], rng)
        beliefs = cell_beliefs(
            CellIntegrals.of(MixedLeaveOneOut.of(records, prior, datasets), Points(1)), np.arange(20), ()
        )
        levels = [beliefs.of_true_level(place) for place in (0, 1)]
        found += any(np.any(Rule().discloses(share, baseline)) for share, _, baseline in levels)
    share = found / times
    assert abs(share - chance[0]) < 4 * np.sqrt(max(share * (1 - share), 0.01) * (1 / times + 1 / 4000))
    assert each.shape == (1, 6)


def test_leverage_without_categories_is_the_usual_one(rng):
    values = rng.standard_normal((40, 3))
    values[3] = 1e4  # makes up nearly all of its direction
    everyone = MixedLeaveOneOut.of(MixedRecords.of(np.zeros(40), values), LocationModel.prior((), abo.NIW.flat(3)))
    np.testing.assert_allclose(leverages_in_cells(everyone), leverages(values, abo.NIW.flat(3)), rtol=1e-8)


@pytest.mark.parametrize("cells", ["main effects", "separate"])
def test_one_cell_is_measurements_alone(rng, cells):
    """A table of one cell allows what it allows as one of measurements alone, in closed form and simulated."""
    values = rng.standard_normal((60, 2))
    values[3] = 4.0
    records = abo.Records(values, ("a", "b"))
    schema = records.schema.for_columns(records.columns)
    plain, general = (
        Case.of(records, Mechanism(schema, abo.NIW.flat(2), 1.0, each), 60, Rule(), 1)
        for each in ("separate", cells)
    )
    people = plain.lineup.order[:20]
    near = plain.near
    lineup = Lineup(
        plain.law,
        leverages_in_cells(general.everyone),
        plain.lineup.order,
        lambda places: Standing.of(
            general.everyone.before(places, np.zeros(len(places), int)), values[places], near.take(places), Rule()
        ),
    )
    np.testing.assert_allclose(lineup.chances(3), plain.lineup.chances(3), atol=1e-6)
    assert lineup.most() == plain.lineup.most()
    flags = [case.releases.discloses(5, people, range(300)).any(axis=1).mean() for case in (plain, general)]
    assert abs(flags[0] - flags[1]) < 4 * np.sqrt(0.5 / 300)


def test_the_verdict_says_who_and_why(rng):
    n = 400
    frame = pd.DataFrame(rng.uniform(-1, 1, (n, 3)), columns=["x", "y", "z"])  # nobody's measurements stand out
    frame["site"] = np.where(np.arange(n) == 7, "rare", "usual")
    found = abo.budget(frame, rows=n, rng=1)
    assert found.limiting_row == 8
    assert "site of row 8 sets the limit" in found.sentence
    kept = abo.budget(frame, rows=n, rng=1, keep="site")
    assert kept.case.cell_chances is None  # nothing is left to find
    assert kept.limiting_column in ("x", "y", "z")
    assert found.confident_count <= min(found.case.by_measurements, found.case.by_categories)
    plain = abo.budget(frame[["x", "y", "z"]], rows=n, rng=1)

    def named(plan):
        return [name.split("_at_")[0] for name in plan.columns()]

    assert named(found) == named(kept) == named(plain)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "Not even one dataset of 50 rows may be released if"),
        (1, "One dataset of 50 rows may be released, but not two, if"),
        (7, "Up to 7 datasets of 50 rows may be released if"),
        (200, "At least 200 datasets of 50 rows, the most that were tried, may be released if"),
    ],
)
def test_the_verdict_is_a_sentence_whatever_the_count(rng, count, words):
    frame = pd.DataFrame(rng.standard_normal((50, 1)), columns=["x"]).assign(sex=["f", "m"] * 25)
    records = Records.of(frame, categories=True)
    case = Case.of(records, abo.Synthesizer().fit(records).mechanism, 50, Rule(), 1)
    vars(case)["by_measurements"], vars(case)["by_categories"] = 9, 200
    tried = {count: Tried(count, 200, 2, np.array([2, 0])), count + 1: Tried(count + 1, 80, 9, np.array([3, 6]))}
    plan = Budget(
        case=case, in_all=count, limiting_row=2, limiting_column="sex", simulated=Simulated(count, tried)
    )
    assert plan.sentence.startswith(words)
    assert "; sex of row 2 sets the limit" in plan.sentence
    assert repr(plan).startswith("✔" if count else "✘")
    assert "categories set no limit" in plan.parts
    vars(case)["by_categories"] = 12
    assert "the categories alone 12" in plan.parts
    if count < 9:
        assert "with chances of 1 other that add up" in plan.sentence
        assert f"What lowers it to {count}: of 80 simulated releases of {count + 1} dataset" in plan.parts
        assert "the chances of 2 different people add up" in plan.parts


@pytest.mark.parametrize(
    ("n", "columns", "seed", "rows", "site"),
    [(40, 2, 2, 400, ""), (60, 2, 2, None, "rare"), (40, 3, 3, None, "rare")],
    ids=["smaller datasets", "without people", "without columns"],
)
def test_what_would_pass_was_tried_and_is_what_a_budget_of_it_says(n, columns, seed, rows, site):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"m{place}": rng.standard_normal(n) for place in range(columns)})
    frame["sex"] = rng.choice(["f", "m"], n)
    sites = rng.choice(["a", "b"], n)
    frame["site"] = np.where((np.arange(n) == 7) & bool(site), site, sites)
    records = Records.of(frame, categories=True)
    # against who lacks the record, and hardly against membership: of so few people nothing would pass
    against = {"adversary": abo.Adversary(known=()), "probability": Rule(membership=0.99), "rng": 0}
    plan = abo.budget(records, rows=rows, **against)
    assert plan.in_all == 0
    *failed, last = plan.tried().alternatives
    assert [each.datasets for each in failed] == [0] * len(failed)
    assert last.datasets > 0
    if last.rows:
        again = abo.budget(records, rows=last.rows, **against)
    elif last.change.startswith("leave row"):
        left_out = [int(word) for word in re.findall(r"\d+", last.change)]
        assert len(left_out) <= 6
        again = abo.budget(records.take(~np.isin(records.rows, left_out)), rows=rows, **against)
    else:
        left_out = [name for name in frame if f" {name}" in last.change]
        assert left_out
        again = abo.budget(frame.drop(columns=left_out), rows=rows, **against)
    assert again.in_all == last.datasets


def test_a_simulation_that_is_cut_short_passes_nothing_and_says_so():
    """The first look ends it: nothing is called safe, and what is out is not called a matter of luck."""

    def watch(done):
        raise CutShort

    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.standard_normal(60), "sex": rng.choice(["f", "m"], 60)})
    release = abo.Synthesizer().fit(frame).sample(datasets=1, rng_for_tests=rng)
    plan = abo.budget(frame, rows=60, release=release, rng=0, watch=watch)
    assert plan.simulated.cut_short
    assert plan.sentence.startswith("It is not known yet whether even one dataset of 60 rows may be released")
    assert "let it run to its end" in plan.sentence
    assert "cut short before as much as this was judged" in plan.luck.in_words
    found = risk_columns(Records.of(frame, categories=True), release, rng=np.random.default_rng(0))
    verdict = verdict_of(found, Rule(), luck=plan.luck)
    assert verdict.passed
    assert not verdict.may_go_out
    assert "Let it run to its end" in verdict.sentence


def test_groups_far_apart_in_odds_are_judged_apart():
    """Odds of one group that are out of range of another's: each share is that within its own group."""
    cells = Cells((2, 3))
    people = np.array([4.0, 2, 1, 3, 0, 1])
    counted = CountedCells.of(cells, people + 0.5, people, (0,))
    near = np.log(people + 0.5)[None]
    own = np.log(np.where(people > 0, people - 0.5, 0.5))[None]
    wanted = counted.level_shares(near, own)
    far = np.where(cells.codes[:, 0] == 0, 0.0, 2000.0)
    np.testing.assert_allclose(counted.level_shares(near + far, own + far), wanted, rtol=1e-9)
    assert np.all(wanted[0, people > 0] > 0)


def test_cells_that_nobody_can_be_in_are_no_warning(rng):
    """A kept level that nobody has, its shares drawn as 0."""
    people = np.array([5.0, 3, 1, 4, 0, 0])
    anyone, each = category_chances(CountedCells.of(Cells((3, 2)), people + 1e-4, people, (0,)), None, rng, most=5)
    assert np.all(np.isfinite(anyone))
    assert not np.any(each[:, 4:])


def test_counts_that_were_not_tried_are_notallowed():
    assert allowed(np.array([0.0, 0.01, 0.04])) == 3
    assert allowed(np.array([0.0, 0.06, 0.04])) == 1


@pytest.mark.parametrize("cells", ["main effects", "separate"])
@pytest.mark.parametrize("rows", [None, 40])
def test_statistics_are_those_of_releases(rng, cells, rows):
    """The posteriors by drawn statistics are, to 1e-10, those of the adversary who has the same release."""
    frame = pd.DataFrame(rng.standard_normal((80, 2)), columns=["x", "y"]).assign(sex=["f", "m"] * 40)
    records = Records.of(frame, categories=True)
    mechanism = abo.Synthesizer(cells=cells).fit(records).mechanism
    releases = Case.of(records, mechanism, rows, Rule(), 1).releases
    everyone, places = releases.everyone, np.array([0, 1, 5, 8])
    people, drawn = _People.of(releases, places), releases.draw(3, 7)
    if rows is None:
        after = replace(everyone, parameters=releases.draws.as_parameters(drawn))
    else:
        moments = releases.draws.moments(drawn)
        after = replace(
            everyone, datasets=tuple(moments), after=tuple(everyone.whole.plus(one) for one in moments)
        )
    asked, order = np.array([[True, False, False, False], [True] * 4]), places[people.order]
    ours = people.posteriors([releases.draw(3, 6), drawn], asked).take(np.arange(1, 5))  # after another release
    theirs, _ = after.problem(order, everyone.records.cells[order])
    points = everyone.records.values[order] + 0.3
    difference = ours.log_density_unnormalized(points) - theirs.log_density_unnormalized(points)
    at_centre = ours.log_density_unnormalized(ours.centre) - theirs.log_density_unnormalized(ours.centre)
    np.testing.assert_allclose(difference, at_centre, atol=1e-10)


@pytest.mark.parametrize("keep", [(), ("site",), ("x", "site", "sex")])
def test_drawn_statistics_have_the_law_of_drawn_records(rng, keep):
    """Means and spreads, over releases, of the posterior's scale, and of what is counted in the cells."""
    n = 60
    frame = pd.DataFrame(rng.standard_normal((n, 3)), columns=["x", "y", "z"])
    frame["sex"], frame["site"] = rng.choice(["f", "m"], n), rng.choice(["a", "b"], n)
    records = Records.of(frame, categories=True)
    mechanism = abo.Synthesizer(keep=keep).fit(records).mechanism
    releases = Case.of(records, mechanism, n, Rule(), 1).releases
    draws, whole = releases.draws, releases.everyone.whole
    drawn = draws.datasets(600, rng)
    real, _ = draw_tables([whole], [n] * 600, rng, kept=draws.kept, covariates=draws.known)
    after = [whole.update(data) for data in real]
    scales = np.linalg.solve(draws.roots[0], np.stack([model.measured.scale for model in after]))
    theirs = {
        "scale": np.trace(np.linalg.solve(draws.roots[0], scales.mT), axis1=1, axis2=2),
        "first cell": np.array([model.weights[0] for model in after]) - whole.weights[0],
    }
    ours = {"scale": np.trace(drawn.scale[:, 0], axis1=1, axis2=2), "first cell": drawn.counts[:, 0].astype(float)}
    for name, values in ours.items():
        error = np.hypot(values.std(), theirs[name].std()) / np.sqrt(600)
        assert abs(values.mean() - theirs[name].mean()) <= 4.5 * error + 1e-9, name
        if values.std():
            assert 0.8 < values.std() / theirs[name].std() < 1.25, name


def test_simulated_releases_are_judged_as_risk_judges_them(rng):
    """Of the same kind of releases: whom the quick look with its screens flags, `risk` of everybody discloses."""
    n = 30
    frame = pd.DataFrame(rng.standard_normal((n, 2)), columns=["x", "y"])
    frame.loc[4, ["x", "y"]] = 6.0
    frame["site"] = np.where(np.arange(n) == 7, "rare", "usual")
    records = Records.of(frame, categories=True)
    synthesizer = abo.Synthesizer().fit(records)
    releases, times = Case.of(records, synthesizer.mechanism, n, Rule(), 1).releases, 20
    people = np.array([4, 7])
    ours = releases.discloses(4, people, range(5 * times)).mean(axis=0)
    theirs = np.mean(
        [
            risk_columns(records, synthesizer.sample(datasets=4, rng_for_tests=rng), mass=False, rows=people)[
                "disclosed"
            ]
            for _ in range(times)
        ],
        axis=0,
    )
    assert np.all(np.abs(ours - theirs) < 4 * np.sqrt(0.25 / times + 0.25 / (5 * times)))
    assert np.any(theirs > 0)


def test_a_longer_release_begins_with_a_shorter_one(rng):
    _, records = case(rng)
    frame = pd.DataFrame(records.values, columns=["x", "y"]).assign(site=records.cells.astype(str))
    table = Records.of(frame, categories=True)
    releases = Case.of(table, abo.Synthesizer().fit(table).mechanism, 60, Rule(), 1).releases
    three, twenty = (releases.draw(count, 2) for count in (3, 20))
    np.testing.assert_array_equal(three.outcomes, twenty.outcomes[:3])
    np.testing.assert_array_equal(three.counts, twenty.counts[:3])


@pytest.mark.parametrize("missing", ["impute", "keep"])
def test_a_table_with_gaps_has_a_budget_that_holds(missing):
    """At the budget, other simulated releases disclose anybody about as rarely as one in twenty."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.standard_normal((50, 2)), columns=["x", "y"]).assign(sex=["f", "m"] * 25)
    frame.loc[rng.choice(50, 6, replace=False), "x"] = np.nan
    plan = abo.budget(frame, rows=50, missing=missing, rng=1)
    assert plan.simulated.looks == ((60, 0),)
    assert plan.in_all >= 1
    checked = plan.verify(30, rng=2)
    assert checked["passed"] <= 0.05 * 30 + 3 * np.sqrt(0.05 * 0.95 * 30)
    assert "Values are missing at random" in plan.assumptions


def test_a_table_with_gaps_of_which_nothing_may_go_out_says_what_was_tried():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": np.append(rng.standard_normal(39), 40.0), "y": rng.standard_normal(40)})
    frame.loc[:2, "y"] = np.nan
    plan = abo.budget(frame, rows=400, missing="impute", rng=1)
    assert plan.confident_count == 0
    assert plan.simulated.tried[1].disclosing > plan.simulated.accepted
    assert not plan.simulated.cut_short
    assert "cut short" not in plan.assumptions
    releases = plan.simulated.tried[1].releases
    assert releases < 100
    assert f"come from {releases} simulated releases, one of which is" in plan.grain(1)
    assert not abo.budget(frame[["x"]].iloc[:39], rows=400, rng=1).grain(1), "200 are not few"


def test_without_gaps_the_releases_of_a_table_with_gaps_are_judged_alike(rng):
    """No gap is one draw of the gaps: both simulators disclose as often."""
    n = 40
    frame = pd.DataFrame(rng.standard_normal((n, 2)), columns=["x", "y"]).assign(sex=["f", "m"] * 20)
    frame.loc[3, ["x", "y"]] = 4.0
    records = Records.of(frame, categories=True)
    table = Case.of(records, abo.Synthesizer(missing="impute").fit(records).mechanism, n, Rule(), 1)
    judged = {"nearness": table.nearness, "membership": table.judges_membership}
    gaps = GapReleases(table.mechanism, n, table.near, Rule(), 1, records=records, **judged)
    people, times = np.array([3]), 30
    ours, theirs = (each.discloses(3, people, range(times)).mean() for each in (gaps, table.releases))
    assert abs(ours - theirs) < 4 * np.sqrt(2 * 0.25 / times)


def test_who_knows_a_column_or_has_a_prior_is_judged_too(rng):
    n = 60
    frame = pd.DataFrame(rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], n), columns=["x", "y"])
    frame["sex"] = ["f", "m"] * 30
    usual, knows, own, lacks = (
        abo.budget(frame, rows=n, rng=1, adversary=each)
        for each in (
            abo.Adversary(),
            abo.Adversary(known=["x"]),
            abo.Adversary(prior={"centre": 0, "spread": 1}),
            abo.Adversary(lacking_columns=["y"]),
        )
    )
    assert knows.case.known == ((0,), ())
    assert "knows x of everybody" in knows.assumptions
    assert "a prior of their own" in own.assumptions
    assert lacks.case.mechanism.order == ("x", "sex")
    assert all(plan.in_all <= plan.case.guess for plan in (usual, knows, own, lacks))
    with pytest.raises(abo.InputError, match="knows less of everybody"):
        abo.budget(frame, rows=n, adversary=abo.Adversary(lacking_records=3))


def test_the_chance_that_anybody_is_disclosed_grows_and_counts_a_category_once():
    rng = np.random.default_rng(77)
    frame = pd.DataFrame({"age": rng.normal(50, 9, 90), "sex": rng.choice(["f", "m"], 90)})
    case = abo.budget(frame.assign(site=rng.choice(["a", "b", "c"], 90)), rows=90, rng=1).case
    chances = [case.anybody(count) for count in range(1, 14)]
    assert chances == sorted(chances)
    for count, chance in enumerate(chances, start=1):
        assert chance <= case.lineup.chances(count, 1.0).sum() + max(case.cell_chances[0][:count]) + 1e-12
    plain = abo.budget(frame[["age"]], rows=90, rng=1).case
    assert plain.anybody(5) == pytest.approx(min(1.0, plain.chances(5).sum()))
