"""The table of benchmarks: what it says of a number, and that no part is left out."""

import pytest

from pages import ROOT


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import clock

    return clock


def test_a_row_says_its_ratio_and_whether_the_bar_is_met(clock):
    row = clock.Row("budget", 0.5, "floor: the table read once", 0.01, most=1.0)
    assert row.cells == ("budget", "500 ms", "floor: the table read once: 10 ms", "0.02", "≤ 1 s: met")
    assert clock.Row("budget", 2.0, most=1.0).cells == ("budget", "2 s", "", "", "≤ 1 s: MISSED")
    # a share of simulated releases misses its bar where its whole interval does
    assert clock.Row("releases", 7.0, unit="%", most=5.0, surely=3.9).bar == "≤ 5 %: met"
    assert clock.Row("releases", 9.0, unit="%", most=5.0, surely=5.4).bar == "≤ 5 %: MISSED"
    assert clock.Row("attack", 1.0, "as printed", 299.0, times=300).bar == "ratio ≥ 300: MISSED"
    assert clock.Row("exponent", 1.02, "numbers touched", 1.0, "exponent").cells[1:4] == (
        "1.02",
        "numbers touched: 1.00",
        "",
    )


def test_every_part_is_run_and_the_cards_last_numbers_are_found(clock):
    from benchmarks.__main__ import HEAD, PARTS, page
    from benchmarks.gpu import measured_earlier

    files = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {
        "__init__",
        "__main__",
        "clock",
        "postgres",
    }
    assert files == set(PARTS)
    earlier = list(measured_earlier())
    assert len(earlier) >= 3
    assert any(row.theirs is not None for row in earlier)
    written = page(["a machine"], {"gpu": earlier}).splitlines()
    assert f"| {' | '.join(HEAD)} |" in written
    assert all(line.count("|") == len(HEAD) + 1 for line in written if line.startswith("|"))
