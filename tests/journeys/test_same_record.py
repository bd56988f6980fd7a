"""Who is named first is named first everywhere, ties or not: sentences, figures, tables, commands, the app."""

import re

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.cli.output import show_values
from allbutone.disclosure.budget import budget
from allbutone.disclosure.lineup import likeliest
from allbutone.disclosure.rule import Rule, ToldValues
from allbutone.disclosure.table_risk import WorstSoFar
from allbutone.figures.budget import records_figure
from allbutone.figures.risk import disclosure_figure, risk_figure
from allbutone.reports.verdict import values_of, verdict_of
from app_server import last_line

RULE = Rule()
# after and before of two columns, and which row, from 116 on, is closest: by the share of the way that the release
# went, then by what it adds, then the first
TIES = {
    "as probable, and more of it by the release": ([[0.4, 0.1], [0.2, 0.4]], [[0.25, 0.1], [0.2, 0.2]], 117),
    "as much of the way, and a longer way": ([[0.4, 0.1], [0.35, 0.1]], [[0.3, 0.1], [0.2, 0.1]], 117),
    "the same in another column": ([[0.1, 0.4], [0.4, 0.1]], [[0.1, 0.2], [0.2, 0.1]], 116),
    "the same but for rounding": ([[0.4, 0.1], [0.4 + 1e-15, 0.1]], [[0.2, 0.1], [0.2, 0.1]], 116),
    "probable, and as probable without": ([[0.49, 0.1], [0.12, 0.1]], [[0.489, 0.1], [0.02, 0.1]], 117),
    "odds that were not doubled by a hair": ([[0.499, 0.1], [0.64, 0.1]], [[0.43, 0.1], [0.48, 0.1]], 117),
    "both disclosed, as surely": ([[0.7, 0.6], [0.7, 0.5]], [[0.2, 0.1], [0.1, 0.1]], 117),
    "both disclosed, alike": ([[0.7, 0.6], [0.6, 0.7]], [[0.1, 0.1], [0.1, 0.1]], 116),
    "not computed beside surely disclosed": ([[0.9, 0.1], [np.nan, 0.1]], [[0.1, 0.1], [0.1, 0.1]], 117),
    "nothing to find": ([[np.nan, 0.1], [0.2, 0.1]], [[np.nan, 0.1], [0.2, 0.1]], 116),
}  # fmt: skip


def risk_table(after, before):
    """A table as `risk` gives it, with two more people of whom nothing is told."""
    found = {}
    for place, name in enumerate(("weight", "length")):
        found[f"probability_{name}"] = np.array([line[place] for line in after] + [0.1, 0.1])
        found[f"baseline_{name}"] = np.array([line[place] for line in before] + [0.1, 0.1])
        found[f"error_{name}"] = np.zeros(4)
    # the guess comes closest to another one than the one who is closest to being disclosed
    measures = {
        "relative_error": np.array([0.5, 0.5, 0.4, 0.1]),
        "information_gain": np.array([0.1, 0.2, 0.9, 1.4]),
    }
    return {"row": np.arange(116, 120), **RULE.judge(found), **found, **measures}


def named(figure):
    """The people that a figure names, in its order."""
    return [int(row) for note in figure.layout.annotations for row in re.findall(r"^row (\d+)$", note.text)]


@pytest.mark.parametrize("ties", TIES)
def test_of_a_release_all_name_the_same_record_first(ties, capsys):
    after, before, first = TIES[ties]
    found = risk_table(after, before)
    verdict, told = verdict_of(found, RULE), ToldValues.of(found, RULE)
    value = values_of(found, RULE, 10)[0]
    assert value.row == first
    assert f"the {value.column} of row {first}:" in verdict.how_sure
    assert verdict.passed or (verdict.rows[0] == first and verdict.who.startswith(f"Row {first} "))
    assert named(disclosure_figure(found, RULE))[0] == first
    assert disclosure_figure(found, RULE).data[2].text[0] == f"row {first}: {value.column}"
    assert named(risk_figure(found, ("weight", "length"), told.order, labels=2))[0] == first
    assert not re.search(r"row \d", risk_figure(found, ("weight", "length"), told.order).layout.title.text)
    show_values(found, RULE)
    assert re.search(r"\d+", capsys.readouterr().out.split("verdict")[1])[0] == str(first)
    kept = WorstSoFar(RULE)
    for places in ([0], [1, 2], [3]):
        kept.add({name: column[places] for name, column in found.items()})
    assert verdict_of(kept.found, RULE, kept.among).how_sure == verdict.how_sure


@pytest.fixture(scope="module")
def doubled():
    """A table in which everyone is there nearly twice; rows 2 and 22 stand out a little in every column."""
    values = np.random.default_rng(4).standard_normal((20, 5))
    values[0], values[1] = [4, 0, 0, 0, 0], [2, -2, 2, -2, 2]
    return abo.Records(np.vstack([values, 0.9999 * values]).round(5), tuple("abcde"))


def test_of_a_table_all_name_the_same_record_first(doubled, browser, allbutone, tmp_path, few_trials):
    pd.DataFrame(doubled.values, columns=list(doubled.columns)).to_csv(tmp_path / "table.csv", index=False)
    plan = abo.budget(doubled, abo.NIW.flat(5), rows=40, rng=0)
    assert plan.limiting_row == 2
    assert np.argmax(plan.leverage) == 14  # so that leverage alone would name another
    said = allbutone("budget", "table.csv", "--seed", 0)[1]
    assert "of row 2 sets the limit" in re.sub(r"\s+", " ", said)
    assert re.search(r"leverage\s*\n\s*(\d+)", said)[1] == "2"
    count = plan.confident_count + 1
    chances = plan.lineup.chances(count)
    assert named(records_figure(plan.lineup, plan.rows, count, chances))[:2] == [2, 22]

    _, sent = browser.send((tmp_path / "table.csv").read_bytes())
    state = f"table={sent['fields']['table']}&kind=datasets&rows=40&count={count}&number={count}"
    ranking = last_line(browser.ask(f"/budget/people?{state}")[2])["parts"]["people"]
    first = plan.rows[plan.ranked(count)[:2]].tolist()
    assert [int(row) for row in re.findall(r'<tr data-row="(\d+)"', ranking)[:2]] == first
    ahead = last_line(browser.ask(f"/draw/ahead?{state}")[2])["parts"]["ahead"]
    limiting = re.search(r"of row (\d+) sets the limit", ahead)[1]  # by few simulated releases, so of either pair
    people = last_line(browser.ask(f"/draw/ahead?{state}")[2])["parts"]["ahead-people"]
    assert re.search(r'<th scope="row">(\d+)', people)[1] == limiting
    written = browser.ask(f"/budget/records.csv?{state}")[2].decode().splitlines()
    assert written[1].split(",")[0] == limiting


def test_chances_that_are_the_same_but_for_rounding_go_by_leverage():
    np.testing.assert_array_equal(likeliest(np.array([0.2, 1 - 1e-13, 1.0, 0.3, 0.3])), [1, 2, 3, 4, 0])


def test_of_a_table_with_categories_who_sets_the_limit_comes_first(doubled):
    table = {name: doubled.values[:, place] for place, name in enumerate("ab")}
    table["sex"] = np.where(np.arange(40) % 20 < 3, "f", "m")
    plan = budget(pd.DataFrame(table), rows=40, rng=1)
    rows = plan.rows[plan.places]
    assert rows[0] == plan.limiting_row
    assert f" of row {rows[0]} sets the limit" in plan.sentence
    assert sorted(rows) == list(plan.rows)
    rest = plan.places[1:]
    assert np.all(np.diff(plan.chances(plan.in_all + 1)[rest].round(9)) <= 0)
