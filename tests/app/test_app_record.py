"""What the app says of a record: first the verdict by the rule, by the numbers of `risk`; measures for experts."""

import numpy as np
import pytest

from app_server import opened, settled


def told(page, name, adversary):
    """Return the tolerance and both probabilities of a column, with all digits, and the verdict in words."""
    header = page.get_by_role("rowheader", name=f"{name} {adversary}", exact=True)
    *numbers, words = page.locator("#values tbody tr", has=header).locator("td").all()
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
    shown = ("type 2 diabetes (SD)", "coronary disease (SD)")
    for title, name in zip(shown, stage.columns, strict=True):
        for prefix, adversary in (("", "lacks the record"), ("rest_known_", "knows the rest")):
            numbers, verdict = told(tab, title, adversary)
            kinds = ("tolerance", "probability", "baseline")
            expected = [found[f"{prefix}{of}_{name}"][59].as_py() for of in kinds]
            assert numbers == pytest.approx(expected, abs=0.03)
            assert (verdict == "disclosed") == (words != "no value")
    member = float(tab.get_attribute("#membership meter", "value"))
    assert member == pytest.approx(found["membership"][59].as_py(), abs=1e-9)
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
    opened(tab, f"{address}/budget?row=212&{query}")
    mark, headline = tab.inner_text("#told .verdict").split(" ", 1)
    return mark, headline, tab.inner_text("#told .verdict + p")


def own_chance(count):
    """Return row 212's own chance to be disclosed by so many datasets, in hundredths."""
    import allbutone as abo

    return 100 * abo.budget(abo.demo_cohort(), abo.NIW.flat(5), rows=503, rng=0).chances(count)[211]


def piece_of(disclosed, evidence, own):
    from allbutone.app.pages.record import OneDraw, verdict_piece
    from allbutone.disclosure.rule import Rule
    from allbutone.reports.verdict import Value

    value = Value(7, "age", 0.9 if disclosed else 0.2, 0.1, 0.0, 1.0, disclosed=disclosed)
    return verdict_piece([value], Rule(), "this trial release", evidence, OneDraw(own))


def test_a_draw_that_happens_to_disclose_nothing_is_no_tick():
    said = piece_of(False, 0.0, 0.4)
    assert (
        "! By the rule this trial release discloses no value of this record, nor that it is in the table; but "
        "about 40 of 100 such releases would." in said
    )
    assert "<p>This is the verdict on one draw alone.</p>" in said


def test_that_a_record_is_in_the_table_is_disclosed_as_a_value_is(tab, address):
    said = piece_of(False, 3.0, 0.0)  # e³ to 1
    assert "✘ By the rule this trial release discloses that this record is in the table." in said
    assert "becomes <b>95.3\u00a0%</b> sure that it is in the table" in said
    assert "discloses 1 value of this record (age) and that it is in the table." in piece_of(True, 3.0, 0.0)
    mark, headline, _ = verdict_on(tab, address, "count=10")
    assert mark == "✘"
    assert headline.endswith(" is in the table.")


def test_a_draw_of_what_mostly_discloses_nothing_is_a_tick_of_this_draw():
    said = piece_of(False, 0.1, 0.001)
    assert (
        "✔ By the rule this trial release discloses no value of this record, nor that it is in the table." in said
    )
    few = "fewer than one of 100 such releases would disclose a value of this record"
    assert f"This is the verdict on one draw alone; {few}." in said


@pytest.mark.parametrize(
    ("query", "lacking"),
    [
        ("missing=5", "5 records besides this one"),
        ("missing=1&without=BMI,T2D", "1 record besides this one and the columns BMI and T2D of everyone"),
    ],
)
def test_a_weaker_adversary_is_named(tab, address, query, lacking):
    own = own_chance(10)
    mark, headline, _ = verdict_on(tab, address, f"count=10&{query}")
    share = "more than 99" if own >= 99.5 else f"about {own:.0f}"
    assert mark == "!"
    assert headline.startswith(f"By the rule, and to an adversary who lacks {lacking}, this trial release")
    assert headline.endswith(f"; but {share} of 100 such releases would, to the usual adversary, who learns more.")


@pytest.mark.parametrize(("own", "share"), [(0.0, "fewer than one"), (0.06, "about 6"), (0.999, "more than 99")])
def test_what_is_disclosed_is_so_whatever_other_draws_do(own, share):
    said = piece_of(True, None, own)
    assert "✘ By the rule this trial release discloses 1 value of this record (age)." in said
    assert f"one draw alone; {share} of 100 such releases would disclose a value of this record." in said
