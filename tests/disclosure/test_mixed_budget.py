"""The budget of mixed tables: categories by counts, measurements by leverage, both checked by exact attacks."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.adversary.mixed import CellIntegrals, MixedLeaveOneOut, cell_beliefs
from allbutone.adversary.proposal import Points
from allbutone.disclosure.exposure_law import leverages
from allbutone.disclosure.lineup import Lineup
from allbutone.disclosure.mixed_budget import (
    CountedCells,
    MixedBudget,
    _allowed,
    category_chances,
    lineup_of,
    with_alternatives,
)
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.simulated_budget import CutShort, Simulated, Tried
from allbutone.disclosure.table_releases import MixedReleases
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.moments import Cells
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
    everyone = MixedLeaveOneOut.of(MixedRecords.of(np.zeros(40), values), LocationModel.prior((), abo.NIW.flat(3)))
    near = near_truth(abo.Records(values, ("a", "b", "c")))
    lineup = lineup_of(everyone, 40, near, Rule())
    np.testing.assert_allclose(lineup.leverage, leverages(values, abo.NIW.flat(3)), rtol=1e-10)


def test_without_categories_the_closed_form_is_the_usual_one(rng):
    """A table of one cell allows what the same table allows as one of measurements alone."""
    values = rng.standard_normal((40, 2))
    values[3] = 5.0
    records, prior = abo.Records(values, ("a", "b")), abo.NIW.flat(2)
    everyone = MixedLeaveOneOut.of(MixedRecords.of(np.zeros(40), values), LocationModel.prior((), prior))
    ours = lineup_of(everyone, 40, near_truth(records), Rule())
    theirs = Lineup.of(records, prior, 40, Rule())
    np.testing.assert_allclose(ours.chances(3), theirs.chances(3), atol=1e-6)
    assert ours.most() == theirs.most()


def test_the_verdict_says_who_and_why(rng):
    n = 400
    frame = pd.DataFrame(rng.uniform(-1, 1, (n, 3)), columns=["x", "y", "z"])  # nobody's measurements stand out
    frame["site"] = np.where(np.arange(n) == 7, "rare", "usual")
    found = abo.plan_mixed_budget(frame, rows=n, rng=1)
    assert found.limiting_row == 8
    assert "row 8 sets the limit, by its categories" in found.sentence
    kept = abo.plan_mixed_budget(frame, rows=n, rng=1, keep="site")
    assert kept.by_categories == 200  # nothing is left to find
    assert "by its measurements" in kept.sentence
    assert list(found.columns()) == ["row", "leverage", "max_datasets"]
    assert found.confident_count <= min(found.by_measurements, found.by_categories)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "Not even one dataset of 50 rows may be released if"),
        (1, "One dataset of 50 rows may be released, but not two, if"),
        (7, "Up to 7 datasets of 50 rows may be released if"),
        (200, "At least 200 datasets of 50 rows, the most that were tried, may be released if"),
    ],
)
def test_the_verdict_is_a_sentence_whatever_the_count(count, words):
    each = {"rows": np.arange(1, 4), "leverage": np.ones(3), "max_datasets": np.full(3, 9.0)}
    alone = {"by_measurements": 9, "by_categories": 200, "limiting_row": 2, "limited_by": "its categories"}
    tried = {count: Tried(count, 200, 2, np.array([2, 0])), count + 1: Tried(count + 1, 80, 9, np.array([3, 6]))}
    how = {"rule": Rule(), "simulated": Simulated(count, tried), "dataset_rows": 50}
    plan = MixedBudget(in_all=count, watched=np.array([0, 1]), **how, **alone, **each)
    assert plan.sentence.startswith(words)
    why = ", though nobody's own chances allow fewer than 9: small chances of 2 people add up" * (count < 9)
    assert plan.sentence.endswith(f"; row 2 sets the limit, by its categories{why}.")
    assert repr(plan) == f"MixedBudget: {plan.sentence}"
    assert "categories set no limit" in plan.parts
    assert "the categories alone 12" in replace(plan, by_categories=12).parts
    assert "; record b sets the limit" in replace(plan, keys=("a", "b", "c")).sentence
    if count < 9:
        assert f"What lowers it to {count}: of 80 simulated releases of {count + 1} dataset" in plan.parts
        assert "2 different people, each with a small chance, make a large one together" in plan.parts


@pytest.mark.parametrize(
    ("n", "columns", "seed", "rows", "site"),
    [(30, 3, 9, 300, ""), (40, 3, 4, None, "rare"), (40, 3, 3, None, "rare")],
    ids=["smaller datasets", "without people", "without columns"],
)
def test_what_would_pass_was_tried_and_is_what_a_budget_of_it_says(n, columns, seed, rows, site):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"m{place}": rng.standard_normal(n) for place in range(columns)})
    frame["sex"] = rng.choice(["f", "m"], n)
    sites = rng.choice(["a", "b"], n)
    frame["site"] = np.where((np.arange(n) == 7) & bool(site), site, sites)
    records = Records.of(frame, categories=True)
    mechanism = abo.Synthesizer().fit(records).mechanism
    plan = abo.plan_mixed_budget(records, rows=rows, rng=0)
    assert plan.in_all == 0
    *failed, last = with_alternatives(plan, records, mechanism, lambda done: None).alternatives
    assert [each.datasets for each in failed] == [0] * len(failed)
    assert last.datasets > 0
    if rows:
        again = abo.plan_mixed_budget(records, rows=last.rows, rng=0)
    elif last.change.startswith("leave row"):
        left_out = [int(word) for word in re.findall(r"\d+", last.change)]
        assert len(left_out) <= 6
        again = abo.plan_mixed_budget(records.take(~np.isin(records.rows, left_out)), rows=None, rng=0)
    else:
        left_out = [name for name in frame if f" {name}" in last.change]
        assert left_out
        again = abo.plan_mixed_budget(frame.drop(columns=left_out), rows=None, rng=0)
    assert again.in_all == last.datasets


def test_a_simulation_that_is_cut_short_passes_nothing_and_says_so():
    """The first look ends it: nothing is called safe, and what is out is not called a matter of luck."""

    def watch(done):
        raise CutShort

    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.standard_normal(60), "sex": rng.choice(["f", "m"], 60)})
    release = abo.Synthesizer().fit(frame).sample(datasets=1, rng_for_tests=rng)
    plan = abo.plan_mixed_budget(frame, rows=60, earlier=release, rng=0, watch=watch)
    assert plan.simulated.cut_short
    assert "This was cut short" in plan.sentence
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


def test_counts_that_were_not_tried_are_not_allowed():
    assert _allowed(np.array([0.0, 0.01, 0.04])) == 3
    assert _allowed(np.array([0.0, 0.06, 0.04])) == 1


def test_simulated_releases_are_judged_as_risk_judges_them(rng):
    """Of the same drawn datasets: whom the quick look with its screens flags, `risk` of everybody discloses."""
    n = 30
    frame = pd.DataFrame(rng.standard_normal((n, 2)), columns=["x", "y"])
    frame.loc[4, ["x", "y"]] = 6.0
    frame["site"] = np.where(np.arange(n) == 7, "rare", "usual")
    plan = abo.plan_mixed_budget(frame, rows=n, rng=1)
    releases, mechanism = plan.releases, plan.releases.mechanism
    assert isinstance(releases, MixedReleases)
    found, wanted = [], []
    for release in range(6):
        drawn = releases._after(releases.everyone, 4, release).datasets
        tables = tuple(mechanism.released(each, None) for each in drawn)
        risk = abo.risk(frame, abo.Release(mechanism, tables))
        wanted.append(np.asarray(risk["disclosed"]))
        found.append(releases.discloses(4, np.arange(n), range(release, release + 1))[0])
    assert np.sum(wanted) > 0
    assert np.mean(np.array(found) == np.array(wanted)) > 0.98  # but for what lies at the limit


def test_a_longer_release_begins_with_a_shorter_one(rng):
    _, records = case(rng)
    frame = pd.DataFrame(records.values, columns=["x", "y"]).assign(site=records.cells.astype(str))
    releases = abo.plan_mixed_budget(frame, rows=60, rng=1).releases
    three, five = (releases._after(releases.everyone, count, 2).datasets for count in (3, 5))
    for short, long in zip(three, five, strict=False):
        np.testing.assert_array_equal(short.values, long.values)
