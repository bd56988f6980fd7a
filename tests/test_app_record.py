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
    from allbutone.record_view.attack_view import simulated

    opened(tab, f"{address}/explore?n=60&count={count}&target={target}&correlation=0.2&seed=4&rows=50")
    record = np.array([float(each) for each in target.split(",")])
    stage = simulated(np.zeros(2), np.array([[1, 0.2], [0.2, 1]]), record, n=60, rows=50, seed=4)
    found = abo.risk(np.vstack([stage.others, stage.target]), stage.release.first(count), stage.prior)
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
