"""How many more? One number and one sentence, whoever is asked; and a release that passes by luck."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_cli_hints import hints_of

import allbutone as abo
from allbutone.disclosure.budget import luck_of, seed_of
from allbutone.disclosure.budget_case import Case, Earlier, counted_as
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.simulated_budget import CutShort, Luck, most_safe
from allbutone.releases.several import together
from allbutone.reports.assessment import assess
from allbutone.reports.findings import remedies
from allbutone.reports.verdict import verdict_of

FEW = 1  # datasets that are out


@pytest.fixture(scope="module")
def cohort():
    """Two hundred people of two columns, of whom row 4 stands out a little."""
    values = np.clip(np.random.default_rng(2).standard_normal((200, 2)), -1.6, 1.6)
    values[3] = 2.2
    return abo.Records(values.round(3), ("bmi", "ldl"))


pytestmark = pytest.mark.usefixtures("fewer_releases")


@pytest.fixture
def table(cohort, tmp_path):
    cohort.to_frame("pandas").to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def drawn(cohort, datasets, rows=None, seed=1):
    synthesizer = abo.Synthesizer().fit(cohort)
    return synthesizer.sample(datasets=datasets, rows=rows, rng_for_tests=np.random.default_rng(seed))


def told(words):
    """Return how many more, how many in all, and how many are out."""
    found = re.search(r"Up to (\d+) more datasets.*: (\d+) in all, and (\d+) (?:is|are) out", words)
    assert found, words
    return tuple(map(int, found.groups()))


def test_report_and_budget_name_one_number(allbutone, table, cohort, tmp_path):
    """With some datasets in the ledger: the same number of the same sentence, and it is what is left of all."""
    abo.save_release(drawn(cohort, FEW), tmp_path / "out")
    assert allbutone("ledger", "add", "table.csv", "out")[0] == 0
    _, reported, _ = allbutone("report", "table.csv", "out")
    _, planned, _ = allbutone("budget", "table.csv")
    assert told(reported) == told(planned)
    more, in_all, out = told(planned)
    assert out == FEW
    assert more <= in_all - out
    alone = abo.budget(cohort, abo.NIW.flat(2), rows=200, rng=0)
    assert in_all == alone.in_all == alone.confident_count


def test_releases_of_another_kind_use_up_their_share(cohort):
    """Five of the twenty small ones that would be allowed are a quarter of eight large ones."""
    assert counted_as(Counter({50: 5, 100: 1}), 100, {50: 20}.__getitem__, 8) == 3
    assert counted_as(Counter({50: 1}), 100, {50: 0}.__getitem__, 8) >= 8
    release = together([drawn(cohort, 2, 50), drawn(cohort, 1, seed=2)])
    assert Earlier(release).kinds == Counter({50: 2, 200: 1})


def test_what_passes_by_luck_is_no_tick(cohort):
    """Ten times the budget, and as if nothing of it were disclosed: such releases disclose the limiting row."""
    release = drawn(cohort, 60)
    plan = abo.budget(cohort, abo.NIW.flat(2), rows=200, rng=0, release=release)
    assert plan.confident_count == 0
    assert plan.luck.share > 0.5
    columns = risk_columns(cohort, drawn(cohort, 1), mass=False)
    passed = verdict_of(columns, Rule())
    assert (passed.mark, passed.may_go_out) == ("✔", True)
    lucky = verdict_of(columns, Rule(), luck=plan.luck)
    assert (lucky.mark, lucky.passed, lucky.may_go_out) == ("!", True, False)
    share = round(100 * plan.luck.share)
    assert lucky.headline.startswith(f"It passes, but about {share} of 100 such releases would disclose ")
    assert "luck" in lucky.sentence


@pytest.mark.parametrize(
    ("share", "own", "words"),
    [
        (0.97, 0.97, "about 97 of 100 such releases would disclose row 2"),
        (0.4, 0.1, "about 40 of 100 such releases would disclose somebody, row 2 most often (10 of 100)"),
        (0.001, 0.001, "the closed form cannot exclude that more than 5 of 100 such releases disclose somebody"),
    ],
)
def test_luck_in_words(share, own, words):
    assert Luck(share, "row 2", own).in_words == words


def test_who_was_stopped_by_the_closed_form_alone_is_not_called_lucky(cohort):
    columns = risk_columns(cohort, drawn(cohort, 1), mass=False)
    every = [verdict_of(columns, Rule(), luck=Luck(share, "row 4", share)) for share in (0.01, 0.05, 0.7)]
    cautious, risky, lucky = every
    assert [each.mark for each in every] == ["!", "!", "!"]
    assert "is luck" in lucky.remark
    assert "is luck" not in cautious.remark
    assert "need not be luck" in cautious.sentence
    assert "luck" not in risky.remark, "95 of 100 disclose nobody"
    assert all("tells the adversary something of its own" in each.remark for each in every)


def test_a_report_beyond_the_budget_offers_what_was_tried(cohort):
    assessment = assess(cohort, drawn(cohort, 20))
    assert not assessment.verdict.may_go_out
    first, *others = assessment.remedies
    assert first == f"Fewer: up to {assessment.budget.in_all} datasets of 200 rows, drawn once, in place of this."
    for each in assessment.budget.alternatives:
        if each.rows:
            again = abo.budget(cohort, abo.NIW.flat(2), rows=each.rows, rng=0)
            assert again.in_all == each.datasets, "the budget of what is offered is what was said"
    assert any("Datasets of 20 rows" in words for words in others)


def test_after_no_there_is_a_way_out(allbutone, table, cohort, tmp_path):
    """The commands that a report names void the release and draw what passes."""
    abo.save_release(drawn(cohort, 20), tmp_path / "out")
    assert allbutone("ledger", "add", "table.csv", "out")[0] == 0
    _, reported, _ = allbutone("report", "table.csv", "out")
    assert "Yes" not in reported
    [[_, *void], [_, *draw]] = hints_of(reported)
    assert void[:2] == ["ledger", "void"]
    code, said, err = allbutone(*void)
    assert code == 0, err
    [[_, *after]] = hints_of(said)
    assert "--release" not in after
    assert allbutone(*after)[0] == 0
    assert draw[0] == "synthesize"
    assert allbutone(*draw)[0] == 0
    code, planned, err = allbutone("budget", "table.csv", "--out", "again.csv")
    assert code == 0, err
    assert "No more datasets of 200 rows" in planned


def test_void_names_its_option(allbutone, table, cohort, tmp_path):
    abo.save_release(drawn(cohort, 1), tmp_path / "out")
    assert allbutone("ledger", "add", "table.csv", "out")[0] == 0
    code, _, err = allbutone("ledger", "void", "table.csv", "1")
    assert code != 0
    assert "allbutone ledger void table.csv 1 --reason 'drawn, never given out'" in err


class Simulated:
    """Releases of which those of more than three datasets disclose the first person."""

    def discloses(self, count, people, releases):
        return np.tile((np.arange(len(people)) == 0) & (count > 3), (len(releases), 1))


def test_cut_short_keeps_what_was_found_safe():
    """Ended before a number was tried with all releases, none is called safe; never more than is."""

    def ending(after):
        done = []

        def watch(count):
            done.append(count)
            if sum(done) > after:
                raise CutShort

        return watch

    people = np.arange(5)
    whole = most_safe(Simulated(), people, 10, lambda done: None)
    assert (whole.count, whole.cut_short) == (3, False)
    assert most_safe(Simulated(), people, 10, ending(0)).count == 0
    several = [most_safe(Simulated(), people, 10, ending(after)) for after in range(0, 400, 40)]
    assert all(each.count <= 3 for each in several)
    assert all(each.count == 0 for each in several if each.cut_short)
    assert (several[-1].count, several[-1].cut_short) == (3, False)


def test_as_much_as_a_mixed_budget_allows_is_no_luck_and_far_more_is(rng):
    values = rng.standard_normal((60, 2))
    values[3] = 6.0
    table = {"x": values[:, 0], "y": values[:, 1], "sex": rng.permutation(["f", "m"] * 30).tolist()}
    table["x"], table["y"] = table["x"].tolist(), table["y"].tolist()
    frame = pd.DataFrame(table)
    synthesizer = abo.Synthesizer().fit(frame)
    records = abo.Records.of(frame, categories=True)
    plan = abo.budget(frame, rows=60, rng=0)
    far = synthesizer.sample(datasets=2 * plan.in_all + 4, rng_for_tests=rng)
    case = Case.of(records, far.mechanism, 60, Rule(), plan.case.seed)
    luck = luck_of(case, far)
    assert luck.share > 0.05
    after = abo.budget(frame, rows=60, rng=0, release=far)
    assert (after.in_all, after.confident_count, after.luck) == (plan.in_all, 0, luck)
    if plan.in_all:
        within = synthesizer.sample(datasets=plan.in_all, rng_for_tests=rng)
        assert luck_of(case, within) is None
        assert replace(plan, before=1).confident_count == plan.in_all - 1
    # what `risk` asks is what every front end's budget says: just above the limit, too
    above = synthesizer.sample(datasets=plan.in_all + 1, rng_for_tests=rng)
    asked = Case.of(records, above.mechanism, 60, Rule(), seed_of())
    assert luck_of(asked, above) == abo.budget(frame, rows=60, release=above).luck


def test_where_a_mixed_table_allows_none_smaller_datasets_are_tried_and_offered(rng):
    """Fourteen people and one far out: not one dataset of 14 or 7 rows, but one of 2, as its own budget says."""
    values = np.clip(np.random.default_rng(1).standard_normal((14, 2)), -1.6, 1.6)
    values[3] = 6.0
    frame = pd.DataFrame(values, columns=["x", "y"]).assign(sex=["f", "m"] * 7)
    release = abo.Synthesizer().fit(frame).sample(datasets=1, rng_for_tests=rng)
    assessment = assess(abo.Records.of(frame, categories=True), release)
    assert assessment.budget.in_all == 0
    smaller = [each for each in assessment.budget.alternatives if each.rows]
    tried = {each.rows: each.datasets for each in smaller}
    assert tried == {rows: abo.budget(frame, rows=rows, rng=0).in_all for rows in tried}
    *failed, last = assessment.budget.alternatives
    assert not any(each.datasets for each in failed)
    enough = ", as many as this release has or more"
    number = f"{last.datasets} dataset{'s' * (last.datasets > 1)}"
    change = last.change[0].upper() + last.change[1:]
    assert not last.datasets or assessment.remedies[-1] == f"{change}: up to {number}{enough}."
    none = replace(assessment.budget, alternatives=assessment.budget.alternatives[:1])
    assert remedies(none, 1) == [
        f"Nothing that was tried would pass ({none.alternatives[0].change}): release nothing of this table as it "
        "is."
    ]
    (untried,) = remedies(replace(none, alternatives=()), 1)
    assert "other ways were not tried" in untried
    sparse = frame.assign(ward=list("abcdefg") * 2)
    none = abo.budget(sparse, rows=14, rng=0)
    assert none.in_all == 0, "fourteen cells for fourteen people"
    assert "--model classes" in remedies(none, 1)[-1]
