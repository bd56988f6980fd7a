"""The verdict in a board's words: examples of every sentence that it can say."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from allbutone.disclosure.rule import Rule
from allbutone.disclosure.table_risk import WorstSoFar
from allbutone.figures.risk import disclosure_figure, membership_figure
from allbutone.reports.verdict import NOT_COMPARED, ONE_ALONE, value_lines, values_of, verdict_of
from allbutone.support.text import chance


def risk_table(**columns):
    """A table as `risk` gives it: each column is (with the release, without, tolerance); rows 11, 12, …"""
    found = {}
    for name, (after, before, tolerance) in columns.items():
        found |= {f"probability_{name}": np.array(after), f"baseline_{name}": np.array(before)}
        found[f"probability_error_{name}"] = np.full(len(after), 0.001)
        if tolerance is not None:
            found[f"tolerance_{name}"] = np.array(tolerance)
    return {"row": np.arange(11, 11 + len(after)), **Rule().judge(found), **found}


def plain(words):
    return words.replace("\u00a0", " ")


def test_a_release_that_discloses_says_who_what_and_how_sure():
    found = risk_table(
        bmi=([0.9, 0.6, 0.2, 0.2], [0.05, 0.1, 0.2, 0.19], [4.0, 2.5, 1.0, 1.0]),
        smoker=([0.7, 0.4, 0.6, 0.9], [0.2, 0.4, 0.59, 0.9], None),
    )
    verdict = verdict_of(found, Rule())
    assert not verdict.passed
    assert verdict.rows == [11, 12]
    assert plain(verdict.sentence) == (
        "By the rule this should not be given out: it discloses values of 2 of 4 people. Row 11 (bmi, smoker) and "
        "row 12 (bmi). The surest is the bmi of row 11: somebody who knows everybody else can say it to within ±4 "
        "with a probability of 90 %; without the release it would be 5 %."
    )


def test_a_release_that_discloses_nothing_says_how_near_it_comes():
    found = risk_table(bmi=([0.3, 0.12, 0.2], [0.2, 0.1, 0.2], [1.25, 1.0, 1.0]))
    verdict = verdict_of(found, Rule())
    assert verdict.passed
    assert plain(verdict.sentence) == (
        "By the rule this may be given out: it discloses no value of any of 3 people. The closest call is the bmi "
        "of row 11: somebody who knows everybody else can say it to within ±1.25 with a probability of 30 %; "
        "without the release it would be 20 %."
    )


def test_what_the_error_of_the_integral_leaves_open_is_said_to_be_at_the_limit():
    """Of four people one is 0.5 standard errors below the limit, one as far above, one has another clear value."""
    found = risk_table(
        bmi=([0.49, 0.51, 0.52, 0.2], [0.1, 0.1, 0.1, 0.1], [1.0, 1.0, 1.0, 1.0]),
        smoker=([0.2, 0.2, 0.9, 0.2], [0.1, 0.1, 0.1, 0.1], None),
    )
    found["probability_error_bmi"] = found["probability_error_smoker"] = np.full(4, 0.02)
    verdict = verdict_of(found, Rule())
    assert verdict.at_limit == 2
    assert "2 people are at the limit, within the error of the integral" in verdict.how_sure
    said = {(each.row, each.column): each.verdict for each in values_of(found, Rule(), 4)}
    assert said[12, "bmi"] == "disclosed: at the limit, within the error"
    assert said[13, "smoker"] == "disclosed"
    assert said[11, "bmi"] == "not disclosed: at the limit, within the error"
    surely = found | {"probability_error_bmi": np.full(4, 0.002)}
    assert verdict_of(surely, Rule()).at_limit == 0
    assert "at the limit" not in verdict_of(surely, Rule()).how_sure


def test_what_is_no_worse_than_without_the_release_is_said_so():
    found = risk_table(sex=([0.49, 0.12], [0.489, 0.12], None))
    assert plain(verdict_of(found, Rule()).how_sure) == (
        "The closest call is the sex of row 11: somebody who knows everybody else can say it with a probability "
        "of 49 %, which is not worse than without the release."
    )
    found = risk_table(sex=([0.49, 0.12], [0.489, 0.02], None))
    assert plain(verdict_of(found, Rule()).how_sure) == (
        "The closest call is the sex of row 12: somebody who knows everybody else can say it with a probability "
        "of 12 %; without the release it would be 2 %."
    )
    assert [line["verdict"] for line in value_lines(values_of(found, Rule(), 5))] == [
        "not disclosed", "not worse than without the release",
    ]  # fmt: skip


def test_numbers_that_differ_are_not_called_the_same():
    found = risk_table(sex=([0.4451, 0.12], [0.4349, 0.12], None)) | {"probability_error_sex": np.full(2, 0.05)}
    assert plain(verdict_of(found, Rule()).how_sure) == (
        "The closest call is the sex of row 11: somebody who knows everybody else can say it with a probability "
        "of 45 %, which is hardly more than the 43 % it would be without the release."
    )


def test_what_is_known_badly_does_not_pass_for_unchanged():
    found = risk_table(bmi=([0.29, 0.21], [0.15, 0.2], [1.0, 1.0])) | {"probability_error_bmi": np.full(2, 0.1)}
    assert [value.verdict for value in values_of(found, Rule(), 2)] == [
        "not disclosed", "hardly worse than without the release",
    ]  # fmt: skip
    assert "without the release it would be 15" in verdict_of(found, Rule()).how_sure


def test_what_could_not_be_computed_counts_as_disclosed_and_comes_first():
    found = risk_table(bmi=([0.9, np.nan, 0.1], [0.1, 0.1, np.nan], [1.0, 1.0, np.nan]))
    verdict = verdict_of(found, Rule())
    assert verdict.rows == [12, 11]
    assert "row 12: what the release tells of it could not be computed, so it counts" in verdict.how_sure
    assert value_lines(values_of(found, Rule(), 1))[0]["verdict"] == "not computed: counts as disclosed"


def test_many_people_are_counted_not_listed():
    found = risk_table(bmi=(np.full(50, 0.8), np.full(50, 0.1), np.ones(50)))
    assert verdict_of(found, Rule()).who.endswith("row 15 (bmi) and 45 others.")


def test_the_table_holds_disclosed_values_first_then_one_for_each_person():
    found = risk_table(
        a=([0.1, 0.6, 0.3], [0.1, 0.1, 0.1], [1.0, 1.0, 1.0]),
        b=([0.2, 0.7, 0.1], [0.1, 0.1, 0.1], [1.0, 1.0, 1.0]),
    )
    named = [(value.row, value.column, value.disclosed) for value in values_of(found, Rule(), 10)]
    assert named == [(12, "b", True), (12, "a", True), (13, "a", False), (11, "b", False)]


def test_another_probability_is_named_in_the_rule():
    assert "at least 90 %" in plain(Rule(0.9).in_full())
    found = risk_table(bmi=([0.8], [0.1], [1.0]))
    assert not verdict_of(found, Rule()).passed
    found |= Rule(0.9).judge({name: found[name] for name in found if "_" in name})
    assert verdict_of(found, Rule(0.9)).passed


@pytest.mark.parametrize("probability", [0.3, 0.5, 0.9])
def test_the_shaded_area_of_the_figure_is_the_rule(probability):
    rng, rule = np.random.default_rng(1), Rule(probability)
    after, before = rng.random((2, 4000))
    area = disclosure_figure(risk_table(x=(after, before, None)), rule).data[0]
    # the odds double at y = 2x/(1 + x); above that, above P, and left of P, or of even odds
    edge = np.interp(before, area.x[:-2], area.y[:-2])
    inside = (before < max(probability, 0.5)) & (after >= edge)
    sure = np.abs(after - edge) > 0.006  # the curve is drawn by 60 points
    np.testing.assert_array_equal(inside[sure], rule.discloses(after, before)[sure])


def test_dots_that_share_a_probability_are_drawn_apart_on_their_own_side_of_the_rule(rng):
    before = rng.choice([0.0, 0.004, 0.34, 0.499, 0.5, 0.995, 1.0], 300)
    after, rule = rng.random(300), Rule()
    dots = disclosure_figure(risk_table(stage=(after, before, None)), rule).data[2]
    x, y = np.asarray(dots.x), np.asarray(dots.y)
    assert len(np.unique(x)) > 100
    assert x.min() >= 0
    assert x.max() <= 1
    inside = (x < 0.5) & (y >= np.maximum(0.5, 2 * x / (1 + x)))
    assert inside.sum() == rule.discloses(after, before).sum()
    # what the pointer tells is the probability itself
    np.testing.assert_array_equal(np.sort(dots.customdata), np.sort(before))
    assert "%{customdata:.1%}" in dots.hovertemplate


def known_to_two(rest_known, **columns):
    """A risk table as above whose column bmi is judged against who knows the rest, too: probability, baseline."""
    (after, before), found = rest_known, risk_table(**columns)
    found |= {"rest_known_probability_bmi": np.array(after), "rest_known_baseline_bmi": np.array(before)}
    found |= {"rest_known_probability_error_bmi": np.zeros(len(after))}
    found |= {"rest_known_tolerance_bmi": np.full(len(after), 7.0)}
    return found | Rule().judge(found)


def test_the_verdict_names_the_adversary_and_counts_people_against_both():
    columns = {
        "bmi": ([0.9, 0.2, 0.2], [0.05, 0.1, 0.1], [4.0, 1.0, 1.0]),
        "sex": ([0.8, 0.5, 0.1], [0.3, 0.5, 0.1], None),
    }
    found = known_to_two(([0.95, 0.7, 0.1], [0.1, 0.2, 0.1]), **columns)
    verdict = verdict_of(found, Rule())
    assert plain(verdict.sentence) == (
        "By the rule this should not be given out: it discloses values of 2 of 3 people, of 1 to somebody who "
        "knows nothing of them, of 2 to somebody who knows all else of them. Row 11 (bmi, sex) and row 12 (bmi). "
        "The surest is the bmi of row 11: somebody who knows everybody else and all else of row 11 can say it to "
        "within ±7 with a probability of 95 %; without the release it would be 10 %."
    )
    lines = value_lines(values_of(found, Rule(), 9))  # each value once, to whom it is surest
    assert [(line["row"], line["column"], line["adversary"]) for line in lines] == [
        (11, "bmi", "knows the rest"), (11, "sex", "lacks the record"), (12, "bmi", "knows the rest"),
        (13, "bmi", "lacks the record"),
    ]  # fmt: skip
    declared = verdict_of(found, Rule(), outside=("age", "sex"))
    assert "of 2 to somebody who knows the age and sex of them" in declared.headline
    assert "somebody who knows everybody else and the age and sex of row 11 can say it" in declared.how_sure
    figure = disclosure_figure(found, Rule())
    assert "1 to somebody who knows nothing of them, 2 to somebody who knows them" in figure.layout.meta["message"]
    symbols = {trace.marker.symbol: len(trace.x) for trace in figure.data if trace.mode == "markers"}
    assert symbols == {"circle": 1, "diamond": 2}


def test_of_who_is_far_from_what_the_rest_lets_expect_it_is_said_so():
    found = known_to_two(([0.9], [0.1]), bmi=([0.2], [0.1], [4.0]))
    found |= {"rest_known_beyond_bmi": np.array([63.0]), "rest_known_others_bmi": np.array([50.0])}
    words = "can say that it is far above what the rest lets expect (over 63, where 50 would be expected)"
    assert words in verdict_of(found, Rule()).how_sure
    assert value_lines(values_of(found, Rule(), 1))[0]["within"] == "over 63 (expected: 50)"


def with_members(found, rule, *evidence):
    found["membership_evidence"] = np.array(evidence)
    found["membership"] = rule.membership_of(found["membership_evidence"])
    return found | rule.judge(found)


def test_membership_is_a_second_line_of_the_verdict():
    nothing = {"bmi": ([0.2, 0.12, 0.2], [0.2, 0.1, 0.2], [1.25, 1.0, 1.0])}
    verdict = verdict_of(with_members(risk_table(**nothing), Rule(), 0.1, 2.0, -1.0), Rule())
    assert verdict.passed
    assert verdict.headline.endswith("no value of any of 3 people, and nobody’s membership")
    assert plain(verdict.membership) == (
        "Nobody’s is disclosed. The closest call: somebody who has the record of row 12, and everybody else’s, "
        "becomes 88 % sure that it is in the table, from 50 % without the release."
    )
    assert "becomes at least 90 % sure of it, from even odds" in verdict.rule_words
    found = with_members(risk_table(**nothing), Rule(), 3.0, 9.0, np.nan)
    verdict = verdict_of(found, Rule())
    assert not verdict.passed
    assert not verdict.may_go_out
    assert (verdict.mark, verdict.standing) == ("✘", "against")
    assert verdict.headline.endswith("it discloses the membership of 3 of 3 people")
    assert verdict.who == "Row 13 (membership), row 12 (membership) and row 11 (membership)."
    assert "whether row 13 is in the table could not be computed" in verdict.sentence.lower()
    assert "And of row 12 (more than 99.9 %) and row 11 (95.3 %)." in plain(verdict.membership)


def test_membership_from_other_odds_says_from_which():
    rule = Rule(membership=0.5, membership_odds=0.01)
    table = risk_table(bmi=([0.2, 0.12], [0.2, 0.1], [1.25, 1.0]))
    verdict = verdict_of(with_members(table, rule, np.log(300), 0.0), rule)
    assert "becomes 75 % sure that it is in the table, from 1 % without" in plain(verdict.membership)
    assert verdict.who == "Row 11 (membership)."


def test_the_worst_of_very_many_carry_the_counts_of_all():
    rng = np.random.default_rng(3)
    found = known_to_two(rng.random((2, 900)), bmi=(*rng.random((2, 900)), np.ones(900)))
    found = with_members(found, Rule(), *rng.normal(0, 1.5, 900))
    kept = WorstSoFar(Rule())
    for places in np.array_split(np.arange(900), 7):
        kept.add({name: column[places] for name, column in found.items()})
    ours, theirs = verdict_of(kept.found, Rule(), kept.among), verdict_of(found, Rule())
    assert kept.among == theirs.judged
    for said in ("headline", "who", "how_sure", "membership"):
        assert getattr(ours, said) == getattr(theirs, said)


def test_the_picture_of_membership_counts_everybody_beside_what_chance_alone_would_give():
    """Of a normal likelihood ratio, L ~ N(d²/2, d²) inside and N(−d²/2, d²) outside, both are drawn."""
    rng, d, n = np.random.default_rng(5), 0.8, 40_000
    found = risk_table(x=(np.full(n, 0.2), np.full(n, 0.2), None))
    found = with_members(found, Rule(), *rng.normal(d * d / 2, d, n))
    figure = membership_figure(found, Rule())
    bars, chance_alone = figure.data[:2], np.asarray(figure.data[2].y)
    assert sum(np.sum(each.y) for each in bars) == n
    assert np.sum(bars[1].y) == np.sum(found["membership_disclosed"])
    x, width = np.asarray(figure.data[2].x), bars[0].width
    expected = n * (ndtr((x + width / 2 + d * d / 2) / d) - ndtr((x - width / 2 + d * d / 2) / d))
    error = np.sqrt(expected * np.exp(-x + d * d)) + 1  # of a sum of weights e^(−L), generously
    assert np.all(np.abs(chance_alone - expected) < 5 * error + 0.02 * expected)
    assert "the membership of" in figure.layout.meta["message"]


def test_the_figure_names_who_is_disclosed():
    found = risk_table(bmi=([0.9, 0.2], [0.05, 0.2], [4.0, 1.0]))
    figure = disclosure_figure(found, Rule())
    assert figure.layout.meta["message"] == "1 of 2 people is in the shaded area, with a value disclosed."
    assert [note.text for note in figure.layout.annotations][-1] == "row 11"
    found = risk_table(bmi=([0.2, 0.2], [0.05, 0.2], [4.0, 1.0]))
    assert disclosure_figure(found, Rule()).layout.meta["message"].startswith("Nobody’s value is disclosed")


@pytest.mark.parametrize(
    ("probability", "words"),
    [(0.5, "50 %"), (0.0321, "3.2 %"), (0.00001, "less than 0.1 %"), (0.0, "0 %"), (1.0, "100 %"),
     (0.974, "97.4 %"), (0.99999, "more than 99.9 %"), (float("nan"), "unknown")],
)  # fmt: skip
def test_probabilities_have_sensible_digits(probability, words):
    assert plain(chance(probability)) == words


def test_people_are_called_by_their_keys_where_there_are_some():
    found = risk_table(bmi=([0.9, 0.6, 0.2], [0.05, 0.1, 0.2], [4.0, 2.5, 1.0]))
    keyed = {"key": np.array(["P<7>", "P4", "P9"]), **found}
    verdict = verdict_of(keyed, Rule())
    assert verdict.who == "Record P<7> (bmi) and record P4 (bmi)."
    assert "the bmi of record P<7>:" in verdict.how_sure
    assert [line["record"] for line in value_lines(values_of(keyed, Rule(), 3))] == ["P<7>", "P4", "P9"]
    drawn = disclosure_figure(keyed, Rule()).to_json()
    assert "record P&lt;7&gt;" in drawn or r"record P\u0026lt;7\u0026gt;" in drawn
    assert "row 11" not in verdict.sentence + drawn


@pytest.mark.parametrize(
    ("beyond", "others", "words", "short"),
    [
        (62.6, 87.2, "far below the others (under 62.6, where their mean is 87.2)", "under 62.6 (others: 87.2)"),
        (140.0, 87.2, "far above the others (over 140, where their mean is 87.2)", "over 140 (others: 87.2)"),
    ],
)
def test_of_people_far_out_it_is_said_that_they_are(beyond, others, words, short):
    found = risk_table(rate=([0.9, 0.2], [0.05, 0.1], [24.6, 3.1]))
    found |= {"beyond_rate": np.array([beyond, np.nan]), "others_rate": np.array([others, np.nan])}
    assert plain(verdict_of(found, Rule()).how_sure) == (
        f"The surest is the rate of row 11: somebody who knows everybody else can say that it is {words} with a "
        "probability of 90 %; without the release it would be 5 %."
    )
    assert [line["within"] for line in value_lines(values_of(found, Rule(), 2))] == [short, "±3.1"]
    assert "what the table file declares; without that a quarter" in Rule().in_full()
    assert "know nothing of the person or all but this value, can" in Rule().in_words
    assert "know nothing of the person or the person’s age and sex, can" in Rule().in_full(("age", "sex"))


def test_a_question_that_is_not_the_decision_s_gets_no_yes():
    """Against one adversary alone, or where no budget was asked, what passes is not said to be safe."""
    passes = verdict_of(risk_table(bmi=([0.3, 0.2], [0.2, 0.2], [1.0, 1.0])), Rule())
    assert passes.may_go_out
    fails = verdict_of(risk_table(bmi=([0.6, 0.2], [0.2, 0.2], [1.0, 1.0])), Rule())
    for only, left in ((None, NOT_COMPARED), ((), ONE_ALONE), (("age", "sex"), ONE_ALONE)):
        verdict = replace(passes, only=only, left_open=left)
        assert verdict.passed
        assert not verdict.may_go_out
        assert (verdict.mark, verdict.standing) == ("", "open")
        assert verdict.headline.startswith("As it was drawn it discloses no value of any of 2 people")
        assert verdict.headline.endswith(left)
        assert repr(verdict).startswith("As it was drawn")
        assert replace(verdict, attempts=1).mark == "!"
        assert replace(fails, only=only, left_open=left).mark == "✘"
    assert ", to somebody who knows everybody’s age and sex; the verdict is against" in verdict.headline
    assert "all that was released, and knows age and sex of the person, can say" in verdict.rule_words
    assert "and knows nothing of the person, can say" in replace(passes, only=()).rule_words
    assert replace(fails, only=()).headline.endswith("people, to somebody who knows nothing of the person")
