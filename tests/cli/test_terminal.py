"""What a terminal shows: prose broken between words, tables that fit; a file or a pipe gets whole lines."""

import numpy as np
import pandas as pd
import pytest

from allbutone.cli import main
from allbutone.cli import output as terminal
from allbutone.support.text import fitted_widths

NAMES = ["systolic_blood_pressure", "bmi", "crp"]


@pytest.fixture
def table(tmp_path):
    values = np.random.default_rng(1).standard_normal((60, 3)) * [15, 4, 1] + [128, 26, 3]
    people = pd.DataFrame(values.round(1), columns=NAMES)
    people["diagnosis"] = ["coronary artery disease", "type 2 diabetes", "hypertension"] * 20
    people.to_csv(tmp_path / "clinic.csv", index=False)
    return "clinic.csv"


@pytest.fixture
def screen(monkeypatch):
    def of(width):
        for console in (terminal.console, terminal.notes):
            monkeypatch.setattr(console, "_force_terminal", True)
            monkeypatch.setattr(console, "_color_system", None)
            monkeypatch.setattr(console, "_width", width)
            monkeypatch.setattr(console, "_height", 40)

    return of


def is_prose(line):
    return not line.startswith("  ")  # commands are on one line, to be copied


@pytest.mark.parametrize("width", [80, 120])
def test_what_describe_says_fits_the_terminal(allbutone, table, screen, width):
    _, whole, whole_notes = allbutone("describe", table)
    screen(width)
    code, out, err = allbutone("describe", table)
    assert code == 0
    assert max(len(line) for line in (out + err).splitlines() if is_prose(line)) <= width
    assert ("low to high" in out) == (width >= 100)
    for name in NAMES:
        assert f" {name} " in out  # no word is broken
    words = {word for word in (whole + whole_notes).split() if not set(word) & set("▁▂▃▄▅▆▇█")}
    assert words - {"low", "to", "high"} <= set((out + err).split())


def test_a_pipe_gets_whole_lines_and_a_command_is_one_line(allbutone, table, screen):
    _, out, _ = allbutone("describe", table)
    assert any(len(line) > 100 for line in out.splitlines())
    screen(40)
    _, out, _ = allbutone("describe", table)
    [command] = [line for line in out.splitlines() if "--out table.toml" in line]
    assert command.endswith("describe clinic.csv --out table.toml")


def test_errors_are_broken_between_words_in_a_terminal_alone(allbutone, table, monkeypatch):
    asked = ("synthesize", table, "--columns", ",".join([*NAMES[::-1], "nobody"]), "--out", "release")
    _, _, whole = allbutone(*asked)
    monkeypatch.setattr(main, "_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    code, _, err = allbutone(*asked)
    assert code == 2
    assert whole.count("\n") == 1
    assert max(map(len, err.splitlines())) <= 60
    assert err.split() == whole.split()


def test_columns_give_way_between_words_and_then_within_long_ones():
    table = [["row", "1"], ["a word", "some words here"], ["x", "unbreakable"]]
    assert fitted_widths(table, 100) == [3, 15, 11]
    assert fitted_widths(table, 20) == [3, 6, 11]
    assert fitted_widths(table, 5) == [3, 5, 11]
    names = [["name", "a_very_long_name_of_a_measurement_at_baseline"], ["note", "some words here"]]
    assert fitted_widths(names, 60) == [45, 15]
    assert fitted_widths(names, 40) == [35, 5]
    assert fitted_widths(names, 10) == [16, 5]
