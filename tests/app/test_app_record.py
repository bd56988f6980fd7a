"""What the app says of a record: first the verdict by the rule, by the numbers of `risk`; measures for experts."""

import numpy as np
import pytest

from app_server import opened, settled


def told(page, name):
    """Return the tolerance and both probabilities of a column, with all digits, and the verdict in words."""
    line = page.locator("#values tbody tr", has=page.get_by_role("rowheader", name=name, exact=True))
    *numbers, words = line.locator("td").all()
    return [float(cell.get_attribute("data-value")) for cell in numbers], words.inner_text()


@pytest.mark.parametrize(
    ("target", "count", "words"), [("6,-6", 80, "discloses 2 values"), ("1,0", 1, "no value")]
)
def test_the_verdict_is_that_of_risk(tab, address, target, count, words):
    import allbutone as abo
    from allbutone.disclosure.record_view import simulated

    opened(tab, f"{address}/explore?n=60&count={count}&target={target}&correlation=0.2&seed=4&rows=50")
    record = np.array([float(each) for each in target.split(",")])
    stage = simulated(np.zeros(2), np.array([[1, 0.2], [0.2, 1]]), record, n=60, rows=50, seed=4)
    found = abo.risk(np.vstack([stage.others, stage.target]), stage.release.first(count))
    assert words in tab.inner_text("#told")
    assert (words != "no value") == found["disclosed"][59].as_py()
    for place, name in enumerate(stage.columns, 1):
        numbers, verdict = told(tab, f"column {place}")
        expected = [found[f"{of}_{name}"][59].as_py() for of in ("tolerance", "probability", "baseline")]
        assert numbers == pytest.approx(expected, abs=0.03)
        assert (verdict == "disclosed") == (words != "no value")
    assert not tab.locator("#measures").is_visible(), "for experts alone"


def test_the_experts_fold_stays_open(tab, address):
    opened(tab, f"{address}/explore")
    tab.get_by_text("For experts: how it comes about").click()
    tab.fill("#count", "3")
    tab.keyboard.press("Tab")
    settled(tab)
    assert tab.locator("#measures").is_visible()


def verdict_on(tab, address, query):
    """Return the mark, the headline and the remark on a record of the demo table."""
    opened(tab, f"{address}/data?row=212&{query}")
    mark, headline = tab.inner_text("#told .verdict").split(" ", 1)
    return mark, headline, tab.inner_text("#told .verdict + p")


def own_chance(count):
    """Return row 212's own chance to be disclosed by so many datasets, in hundredths."""
    import allbutone as abo
    from allbutone.disclosure.lineup import Lineup
    from allbutone.disclosure.rule import Rule

    lineup = Lineup.of(abo.demo_cohort(), abo.NIW.flat(5), 503, Rule())
    return 100 * lineup.chances(count)[lineup.order == 211].item()


def test_a_draw_that_happens_to_disclose_nothing_is_no_tick(tab, address):
    own = own_chance(10)
    mark, headline, remark = verdict_on(tab, address, "count=10")
    assert own > 5
    assert mark == "!"
    assert headline.startswith("By the rule this trial release of 10 datasets discloses no value of this record;")
    assert headline.endswith(f"; but about {own:.0f} of 100 such releases would.")
    assert remark == "This is the verdict on one draw alone."


def test_a_draw_of_what_mostly_discloses_nothing_is_a_tick_of_this_draw(tab, address):
    mark, headline, remark = verdict_on(tab, address, "count=1")
    assert own_chance(1) < 0.5
    assert (mark, headline.endswith("discloses no value of this record.")) == ("✔", True)
    few = "fewer than one of 100 such releases would disclose this record"
    assert remark == f"This is the verdict on one draw alone; {few}."


@pytest.mark.parametrize(
    ("query", "lacking"),
    [
        ("missing=5", "5 records besides this one"),
        ("missing=1&without=BMI,T2D", "1 record besides this one and the columns BMI and T2D of everyone"),
    ],
)
def test_a_weaker_adversary_is_named(tab, address, query, lacking):
    own = own_chance(10)
    usual = "to the usual one, who has all of everybody else’s records and learns more"
    mark, headline, _ = verdict_on(tab, address, f"count=10&{query}")
    assert mark == "!"
    assert headline.startswith(f"By the rule, and to an adversary who lacks {lacking}, this trial release")
    assert headline.endswith(f"; but about {own:.0f} of 100 such releases would {usual}.")


@pytest.mark.parametrize(("own", "share"), [(0.0, "fewer than one"), (0.06, "about 6"), (0.999, "more than 99")])
def test_what_is_disclosed_is_so_whatever_other_draws_do(own, share):
    from allbutone.app.pages.record import OneDraw, verdict_piece
    from allbutone.disclosure.rule import Rule
    from allbutone.reports.verdict import Value

    value = Value(7, "age", 0.9, 0.1, 0.0, 1.0, disclosed=True)
    said = verdict_piece([value], Rule(), "this trial release", OneDraw(own))
    assert "✘ By the rule this trial release discloses 1 value of this record: age." in said
    assert f"one draw alone; {share} of 100 such releases would disclose this record." in said
