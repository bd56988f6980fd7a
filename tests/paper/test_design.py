"""Designs: what ships is the paper's and ours; what cannot be run is refused with its line and the cure."""

import numpy as np
import pytest

import allbutone as abo
from allbutone.paper.design import STRUCTURES, correlations
from allbutone.paper.design_file import parse_design, read_design

GOOD = """title = "mine"
seed = 3
replicates = 50

[prior]
mean = 1.1

[[cells]]
release = "datasets"
p = [2, 3]
n = 10
count = [1, 2]
rows = 20
target = 5

[[cells]]
release = "parameters"
p = 2
n = 10
count = 4
structure = "ar1"
correlation = 0.5
distance = 6
direction = [1, -1]
"""


def test_the_papers_design_is_the_papers():
    design = read_design("paper")
    by_release = {
        name: [cell for cell in design.cells if cell.release == name] for name in ("parameters", "datasets")
    }
    assert {name: len(cells) for name, cells in by_release.items()} == {"parameters": 144, "datasets": 864}
    assert design.replicates == 1000
    assert len(design.published) == 108
    assert all(design.printed(cell) for cell in design.cells if cell.p == 2 and cell.rows in (None, 10, 1000))
    for cell in design.cells:
        assert cell.mean == (1.0,) * cell.p
        assert cell.target == (20.0,) * cell.p
        assert np.array_equal(cell.covariance, 3 * np.eye(cell.p))
    prior = design.cells[-1].prior_of(design.cells[-1].prior)
    assert (prior.mean_weight, prior.df) == (1.0, 12.0)
    assert np.array_equal(prior.mean, np.full(10, 1.1))
    assert np.array_equal(prior.scale, np.eye(10))


def test_lists_are_multiplied_out():
    design = parse_design(GOOD)
    assert [(cell.p, cell.count) for cell in design.cells] == [(2, 1), (2, 2), (3, 1), (3, 2), (2, 4)]
    assert (design.seed, design.replicates, design.solver) == (3, 50, "exact")
    assert design.cells[-1].direction == (1.0, -1.0)
    assert np.array_equal(design.cells[-1].covariance, [[1, 0.5], [0.5, 1]])


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("p", [1, 2, 7])
def test_structures_are_correlations(structure, p):
    matrix = correlations(structure, p, 0.0 if structure == "independent" else 0.6, 2)
    assert np.diagonal(matrix) == pytest.approx(np.ones(p))
    assert np.array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix)[0] > 0


def test_a_low_rank_is_that_rank_plus_noise():
    matrix = correlations("low-rank", 8, 0.7, 3)
    assert np.sum(np.linalg.eigvalsh(matrix) > 0.3 + 1e-9) == 3


# what is wrong, what replaces what, the line that is named, and words of the cure
BAD = {
    "an unknown key": ("count = 4", "cout = 4", 20, "did you mean 'count'"),
    "an unknown key above": ("seed = 3", "sed = 3", 2, "did you mean 'seed'"),
    "one record": ("n = 10\ncount = [1, 2]", "n = 1\ncount = [1, 2]", 11, "at least 2, got 1"),
    "no record": ("n = 10\ncount = [1, 2]", "n = [10, 0]\ncount = 1", 11, "at least 2, got 0"),
    "count 0": ("count = [1, 2]", "count = [1, 0]", 12, "at least 1, got 0"),
    "half a count": ("count = 4", "count = 4.5", 20, "whole number"),
    "true as a count": ("count = 4", "count = true", 20, "whole number"),
    "no rows": ("rows = 20\n", "", 8, "datasets need rows"),
    "rows 0": ("rows = 20", "rows = 0", 13, "at least 1, got 0"),
    "rows of parameters": ("count = 4", "count = 4\nrows = 2", 21, "rows go with datasets"),
    "p 0": ("p = [2, 3]", "p = [2, 0]", 10, "at least 1, got 0"),
    "no p": ("p = [2, 3]\n", "", 8, "needs p"),
    "another release": ('"parameters"', '"params"', 17, "'parameters' or 'datasets'"),
    "correlation 1": ("correlation = 0.5", "correlation = 1.0", 22, "not positive definite"),
    "correlation of the independent": ('structure = "ar1"\n', "", 21, "name a structure"),
    "not positive definite": (
        'structure = "ar1"\ncorrelation = 0.5',
        "covariance = [[1, 2], [2, 1]]",
        21,
        "not positive definite",
    ),
    "not symmetric": (
        'structure = "ar1"\ncorrelation = 0.5',
        "covariance = [[1, 0], [0.1, 1]]",
        21,
        "not symmetric",
    ),
    "a covariance of another size": ('structure = "ar1"\ncorrelation = 0.5', "covariance = [[1]]", 21, "2 × 2"),
    "covariance and structure": ("correlation = 0.5", "covariance = [[1, 0], [0, 1]]", 21, "remove structure"),
    "a negative variance": ("correlation = 0.5", "correlation = 0.5\nvariance = -1", 23, "variance must exceed 0"),
    "another structure": ('"ar1"', '"ar2"', 21, "'low-rank'"),
    "nowhere": ("distance = 6\n", "", 16, "one of target, distance or leverage"),
    "two places": ("distance = 6", "distance = 6\nleverage = 1", 24, "one of target, distance or leverage"),
    "distance 0": ("distance = 6", "distance = 0", 23, "must exceed 0"),
    "a target at the mean": ("target = 5", "target = 0", 14, "move it"),
    "a target of another size": ("target = 5", "target = [1, 2]", 14, "2 values for p = 3"),
    "an infinite target": ("target = 5", "target = inf", 14, "finite"),
    "no direction": ("[1, -1]", "[0, 0]", 24, "all zeros"),
    "another direction": ("[1, -1]", '"up"', 24, "'diagonal'"),
    "another solver": ("seed = 3", 'solver = "sgd"', 2, "'exact' or 'lbfgsb'"),
    "no replicates": ("replicates = 50", "replicates = 0", 3, "at least 1"),
    "a negative seed": ("seed = 3", "seed = -3", 2, "at least 0"),
    "a bad prior": ("mean = 1.1", "df = 0", 5, "df must exceed"),
    "an unknown prior entry": ("mean = 1.1", "men = 0", 5, "unknown entry"),
    "published elsewhere": ("seed = 3", 'published = "../x.csv"', 2, "beside the design"),
    "published nowhere": ("seed = 3", 'published = "none.csv"', 2, "No such file"),
    "an empty list": ("count = [1, 2]", "count = []", 12, "empty list"),
    "too many datasets": ("count = 4", "count = 10000000000", 20, "at most"),
    "too many columns": ("p = [2, 3]", "p = 1000", 10, "at most 100"),
    "a target out of sight": ("target = 5", "target = 1e12", 14, "deviations out"),
    "a leverage out of sight": ("distance = 6", "leverage = 1e16", 23, "at most"),
    "too many cells": (
        "n = 10\ncount = 4",
        f"n = {list(range(2, 502))}\ncount = {list(range(1, 300))}",
        16,
        "shorten",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_designs_are_refused_with_line_and_cure(name):
    before, after, line, cure = BAD[name]
    assert before in GOOD
    with pytest.raises(abo.InputError) as caught:
        parse_design(GOOD.replace(before, after, 1), "mine.toml")
    message = str(caught.value)
    assert message.startswith(f"mine.toml, line {line}: "), message
    assert cure in message
    assert "\n" not in message


def test_the_papers_solver_takes_no_adversarys_prior():
    text = GOOD.replace("seed = 3", 'solver = "lbfgsb"') + "[adversary_prior]\nmean = 3\n"
    with pytest.raises(abo.InputError, match="line 2: the paper's own solver"):
        parse_design(text)


def test_a_folder_of_that_name_does_not_hide_a_design_that_comes_with_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paper").mkdir()
    assert read_design("paper").title == "The paper's simulation study"
    (tmp_path / "lacking").write_text(GOOD)
    assert read_design("lacking").cells == parse_design(GOOD).cells


def test_a_reading_is_that_of_an_adversarys_prior():
    text = GOOD.replace("seed = 3", 'reading = "mechanism"')
    with pytest.raises(abo.InputError, match="line 2: reading says how an adversary's own prior is meant"):
        parse_design(text)
    (first, *_) = parse_design(text + "[adversary_prior]\nmean = 3\n").cells
    assert first.reading == "mechanism"
    (usual, *_) = parse_design(GOOD + "[adversary_prior]\nmean = 3\n").cells
    assert usual.reading == "record"
    assert "reading" not in usual.key  # the numbers of a seed are those of earlier versions
    with pytest.raises(abo.InputError, match="reading must be 'record' or 'mechanism'"):
        parse_design(text.replace("mechanism", "both") + "[adversary_prior]\nmean = 3\n")


def test_a_published_number_belongs_to_one_cell(tmp_path):
    (tmp_path / "known.csv").write_text("release,p,n,count,rows,median\nparameters,2,10,4,,3.0\n")
    text = GOOD.replace("seed = 3", 'published = "known.csv"')
    design = parse_design(text, folder=tmp_path)
    assert [design.printed(cell) for cell in design.cells] == [None] * 4 + [{"median": "3.0", "table": ""}]
    with pytest.raises(abo.InputError, match="does not tell apart"):
        parse_design(text.replace("correlation = 0.5", "correlation = [0.1, 0.5]"), folder=tmp_path)


def test_what_is_no_toml_or_no_file(tmp_path):
    with pytest.raises(abo.InputError, match="line 2"):
        parse_design("seed = 1\np = = 2")
    with pytest.raises(abo.InputError, match=r"\[\[cells\]\]"):
        parse_design("seed = 1")
    with pytest.raises(abo.InputError, match="correlation, dimension, lacking, paper"):
        read_design(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe9"')
    with pytest.raises(abo.InputError, match="UTF-8"):
        read_design(tmp_path / "latin.toml")
