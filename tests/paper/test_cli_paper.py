"""The paper command: every figure and table in one run, and what the paper prints beside ours."""

import csv
import re
import stat
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pytest

import allbutone as abo
from allbutone.figures.application import GRID, p_value_densities, reflected_density
from allbutone.paper.design_file import SHIPPED
from allbutone.paper.pages import apply_paper, papers_prior

FIGURES = ("1A", "1B", "2", "3", "4", "5", "A1", "A2", "A3", "A4", "A5", "A6")


@pytest.fixture
def scores(tmp_path, rng):
    """A table as a program for polygenic scores writes it: two columns that name the person, then the scores."""
    values = rng.normal(0, 1, (40, 3))
    lines = [f"HG{row:03d},HG{row:03d}," + ",".join(f"{x:.4f}" for x in one) for row, one in enumerate(values)]
    (tmp_path / "scores.csv").write_text("\n".join(["FID,IID,BMI,CAD,Height", *lines]))
    return "scores.csv"


def test_every_figure_and_table_of_the_paper_in_one_run(allbutone, scores, tmp_path):
    """From a table of scores as it is; three replicates a cell are enough to see that everything is there."""
    code, out, err = allbutone("paper", "--scores", scores, "--replicates", 3, "--datasets", 25, "--out", "p")
    assert code == 0
    assert all("this will take about" in line for line in err.splitlines())  # on a busy computer
    assert "12 figures and 5 tables" in out
    assert "Left out, because they only say who somebody is: FID, IID." in out
    page = (tmp_path / "p" / "paper.html").read_text()
    assert re.findall(r"<h2 id=\"figure-(\w+)\"", page) == list(FIGURES)
    assert [f"Table A.{number}" in page for number in (1, 2, 3, 4)] == [True] * 4
    assert "HG001" not in page
    with (tmp_path / "p" / "table-A4.csv").open() as file:
        found = {line["column"]: line for line in csv.DictReader(file)}
    with (SHIPPED / "published_ks.csv").open(encoding="utf-8") as file:
        printed = {line["trait"]: line for line in csv.DictReader(file)}
    assert list(found) == ["BMI", "CAD", "Height"]
    assert float(found["BMI"]["printed_mean_p"]) == float(printed["BMI"]["mean_p"]) == 0.327
    assert found["Height"]["printed_mean_p"] in ("", "nan")
    assert 0 < float(found["Height"]["mean_p"]) < 1
    assert stat.S_IMODE((tmp_path / "p" / "paper.html").stat().st_mode) == 0o600
    code, _, err = allbutone("paper", "--scores", scores, "--out", "p")
    assert code == 2
    assert "--force" in err


def test_the_distances_are_those_of_the_risk():
    """Which computes much else beside them."""
    table = abo.demo_cohort()
    release = apply_paper(table, 3, 1, lambda name, parts: nullcontext(lambda done: None)).by_count[3]
    prior = papers_prior(5)
    rows = [len(table.values)] * 3
    drawn = abo.Release.draw(
        prior.update(table.values), rows, np.random.default_rng(1), columns=table.columns, prior=prior
    )
    found = abo.risk(table, drawn, mass=False)
    for name in ("distance", "baseline_distance"):
        np.testing.assert_allclose(release[name], np.asarray(found[name]), rtol=1e-9)


def test_a_density_on_the_unit_interval_loses_nothing_at_its_ends(rng):
    """∫f = 1 over 0 … 1; uniform values have density about 1 at the ends, where a plain kernel has ½."""
    for values in (rng.random(400), rng.random(400) ** 3, np.array([0.0, 1.0, 1.0])):
        assert abs(np.trapezoid(reflected_density(values), GRID) - 1) < 0.01
    ends = np.mean([reflected_density(rng.random(1000))[[0, -1]] for _ in range(50)])
    assert abs(ends - 1) < 0.1


def test_figure_a6_draws_a_density_for_each_column(many_p_values):
    figure = p_value_densities(many_p_values)
    drawn = [trace for trace in figure.data if trace.fill == "tonexty"]
    assert len(drawn) == many_p_values.ks_p.shape[1]
    for at, trace in enumerate(drawn):
        np.testing.assert_allclose(trace.customdata, reflected_density(many_p_values.ks_p[:, at]))
    worst = many_p_values.columns[int(np.argmin(many_p_values.ks_p_share))]
    assert f"in {worst}:" in figure.layout.meta["message"]


@pytest.fixture
def many_p_values(rng):
    from allbutone import NIW, fidelity

    table, prior = rng.normal(0, 1, (50, 3)), NIW(np.zeros(3), 1.0, 5.0, np.eye(3))
    names = ("a", "b", "c")
    return fidelity(
        pa.table(list(table.T), names=list(names)),
        abo.Release.draw(prior.update(table), [50] * 30, rng, columns=names, prior=prior),
    )
