"""How cost grows: exponents fitted to processor time over a range of sizes, for risk, budget and study."""

from collections.abc import Callable, Iterator

import numpy as np

from allbutone.disclosure.lineup import Lineup
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.model.niw import NIW
from allbutone.paper.design import choose
from allbutone.paper.design_file import read_design
from allbutone.paper.simulate import simulate_cell
from benchmarks.budget import planned, table_of
from benchmarks.clock import Row, core_seconds
from benchmarks.risk import released


def rows() -> Iterator[Row]:
    yield fitted(
        "risk (of few records by more points), p = 5, 5 datasets: in n",
        (500, 2000, 8000),
        lambda n: risk(n, 5, 5),
        1,
    )
    yield fitted("risk, n = 300, 5 datasets: in p", (10, 20, 40), lambda p: risk(300, p, 5), 2)
    yield fitted("risk, n = 300, p = 5: in the number of datasets", (20, 80, 320), lambda k: risk(300, 5, k), 1)
    yield fitted("budget, p = 10: in n", (50_000, 200_000, 800_000), lambda n: budget(n, 10), 1)
    yield fitted("budget, n = 5,000: in p", (10, 40, 160), lambda p: budget(5_000, p), 2)
    yield fitted("chances of a release, 5,000 × 10: in the number of datasets", (10, 100, 1000), chances, 0)
    yield fitted("a study's cell, p = 5, 10 datasets of 100: in n", (50, 300, 1000), lambda n: cell(5, n, 10), 0)
    yield fitted("a study's cell, n = 300, 10 datasets of 100: in p", (2, 3, 5, 10), lambda p: cell(p, 300, 10), 2)
    yield fitted(
        "a study's cell, p = 5, n = 300: in the number of datasets", (5, 10, 100), lambda k: cell(5, 300, k), 1
    )


def fitted(what: str, sizes: tuple[int, ...], work: Callable[[int], Callable[[], object]], least: int) -> Row:
    """Fit log time against log size by a line; `least`: the exponent of the arithmetic that cannot be avoided."""
    core_seconds(work(sizes[0]))  # what is loaded only once
    times = [core_seconds(todo) for todo in map(work, sizes)]
    slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    return Row(
        f"exponent, {what} ({sizes[0]:,} to {sizes[-1]:,})", slope, "numbers touched", float(least), "exponent"
    )


def risk(people: int, columns: int, count: int) -> Callable[[], object]:
    records, release = released(people, columns, count, people)
    return lambda: risk_columns(records, release)


def budget(people: int, columns: int) -> Callable[[], object]:
    records = table_of(people, columns)
    return lambda: planned(records, people)


def chances(count: int) -> Callable[[], object]:
    lineup = Lineup.of(table_of(5_000, 10), NIW.flat(10), 5_000, Rule())
    return lambda: lineup.chances(count)


def cell(columns: int, people: int, count: int) -> Callable[[], object]:
    text = f"release == 'datasets' and p == {columns} and n == {people} and count == {count} and rows == 100"
    (one,) = choose(read_design("paper").cells, text)
    return lambda: simulate_cell(one, 1000, 1)
