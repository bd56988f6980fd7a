"""The landscape is the posterior; the figures carry the study's numbers; only those that fit a design exist."""

import dataclasses
from functools import lru_cache

import numpy as np
import plotly.graph_objects as go
import pytest

import allbutone as abo
from allbutone.adversary.build import log_posterior
from allbutone.adversary.landscape import landscape
from allbutone.figures.export import write_images
from allbutone.paper import study_figures as landscape_room
from allbutone.paper.design_file import parse_design, read_design
from allbutone.paper.law_figures import exposure_figure
from allbutone.paper.leverage_figures import fixed_leverage_figure, leverage_figure
from allbutone.paper.run import StudyRun, run_study
from allbutone.paper.study_figures import (
    dimension_figure,
    landscape_figure,
    study_figures,
    study_landscapes,
    violin_figure,
)
from allbutone.support.errors import InputError


def attacked(p, rows, count, seed=1):
    """One table with an outlier, a release of it, and the prior."""
    rng = np.random.default_rng(seed)
    others, target = 1 + rng.standard_normal((30, p)) @ rng.standard_normal((p, p)), np.linspace(8, 11, p)
    prior = abo.NIW.default(p)
    whole = prior.update(np.vstack([others, target]))
    if rows is None:
        return others, target, abo.Release.draw_parameters(whole, count, rng), prior
    return others, target, abo.Release.draw(whole, [rows] * count, rng), prior


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("rows", [None, 20])
@pytest.mark.parametrize(("p", "shown"), [(2, (0, 1)), (2, (1, 0)), (4, (1, 3)), (4, (2, 0))])
def test_a_landscape_is_the_log_posterior_on_a_grid(p, shown, rows, count):
    others, target, release, prior = attacked(p, rows, count)
    posterior = abo.posterior(others, release, prior=prior)
    found = landscape(posterior, others, target, shown=shown, size=31)
    points = np.tile(posterior.unwhiten(posterior.modes.best), (31, 31, 1))
    points[..., shown[0]], points[..., shown[1]] = np.meshgrid(found.x, found.y)
    expected = posterior.log_density_unnormalized(points)
    scale = 1 + np.abs(expected).max()
    np.testing.assert_allclose(found.height, expected - expected.max(), rtol=0, atol=1e-10 * scale)
    assert found.distance == pytest.approx(np.linalg.norm(found.mode - target[list(shown)]))


@pytest.mark.parametrize("rows", [None, 20])
@pytest.mark.parametrize("size", [8, 60])
def test_the_mode_is_the_grids_maximum_and_all_points_lie_inside(rows, size):
    others, target, release, prior = attacked(2, rows, 30)
    found = landscape(log_posterior(others, release, prior=prior), others, target, size=size)
    row, column = np.unravel_index(np.argmax(found.height), found.height.shape)
    assert (found.x[column], found.y[row]) == tuple(found.mode)
    assert found.height.max() == 0
    assert found.height.shape == (size, size)
    for place, axis in enumerate((found.x, found.y)):
        assert (np.diff(axis) > 0).all()
        for points in (found.others, found.target, found.mode, found.other_mode):
            assert axis[0] < np.min(points[..., place])
            assert np.max(points[..., place]) < axis[-1]


def test_a_narrow_hill_is_resolved():
    others, target, release, prior = attacked(2, None, 1000)
    posterior = abo.posterior(others, release, prior=prior)
    found = landscape(posterior, others, target)
    deviation = np.sqrt(np.diag(posterior.root @ np.linalg.inv(-posterior.modes.hessian) @ posterior.root.T))
    for axis, at, width in zip((found.x, found.y), found.mode, deviation, strict=True):
        assert np.sum(np.abs(axis - at) < 2 * width) >= 5
        assert width < 0.01 * np.ptp(axis)


def test_a_landscape_asks_for_two_features_of_one_posterior():
    others, target, release, prior = attacked(3, None, 2)
    posterior = log_posterior(others, release, prior=prior)
    with pytest.raises(InputError, match="from 0 to 2, got 1 and 1"):
        landscape(posterior, others, target, shown=(1, 1))
    with pytest.raises(InputError, match="from 0 to 2, got 0 and 3"):
        landscape(posterior, others, target, shown=(0, 3))
    with pytest.raises(InputError, match="one posterior"):
        landscape(posterior.as_batch(), others, target)
    with pytest.raises(InputError, match="at least 2 points"):
        landscape(posterior, others, target, size=1)


design = lru_cache(read_design)


def paper_cell(release, rows):
    wanted = (release, 2, 100, rows, 1)
    return next(
        cell for cell in design("paper").cells if (cell.release, cell.p, cell.n, cell.rows, cell.count) == wanted
    )


@pytest.mark.parametrize(("release", "rows"), [("parameters", None), ("datasets", 100)])
def test_releases_of_a_studys_landscapes_are_nested(monkeypatch, release, rows):
    seen = []

    def record(others, release, *rest, **more):
        seen.append((others, release))
        return log_posterior(others, release, *rest, **more)

    monkeypatch.setattr(landscape_room, "log_posterior", record)
    found = study_landscapes(paper_cell(release, rows), (1, 3, 10), seed=4, size=12)
    for others, part in seen:
        assert others is seen[0][0]
        whole = seen[-1][1]
        if rows is None:
            np.testing.assert_array_equal(part.normal.means, whole.normal.means[: part.draws])
            np.testing.assert_array_equal(part.normal.covariances, whole.normal.covariances[: part.draws])
        else:
            assert all(one is other for one, other in zip(part.values, whole.values, strict=False))
    assert [len(part.normal.means if rows is None else part.values) for _, part in seen] == [1, 3, 10]
    assert len({(one.x[0], one.x[-1], one.y[0], one.y[-1]) for one in found}) == 1
    # both releases show the same table
    np.testing.assert_array_equal(
        found[0].others, study_landscapes(paper_cell("parameters", None), (1,), 4)[0].others
    )


def test_more_draws_move_the_mode_to_the_record():
    found = study_landscapes(paper_cell("parameters", None), (1, 100))
    assert found[0].distance > 20
    assert found[1].distance < 2
    own = dataclasses.replace(paper_cell("parameters", None), adversary_prior={"mean": 5.0})
    assert study_landscapes(own, (1, 100))[1].distance < 2


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """The shipped designs, thinned out, a few replicates each."""
    found = {}
    for name in ("paper", "correlation", "dimension"):
        run = StudyRun(design(name), 12)
        cells = [cell for cell in run.design.cells if cell.p in (2, 5) and cell.n in (10, 100, 300)]
        cells = [cell for cell in cells if cell.rows in (None, 10, 300) and cell.count in (1, 2, 10, 100)]
        cells = [cell for cell in cells if cell.n != 300 or name != "paper"]
        cells = [cell for cell in cells if cell.correlation in (0, 0.9) and cell.structure != "ar1"]
        found[name] = run_study(run, tmp_path_factory.mktemp("study") / name, cells=cells)
    return found


def traces(figure, kind="scatter", **wanted):
    return [
        trace
        for trace in figure.data
        if trace.type == kind and all(getattr(trace, key) == value for key, value in wanted.items())
    ]


def gathered(found, of="y"):
    return np.sort(np.concatenate([np.asarray(getattr(trace, of), dtype=float) for trace in found]))


def numbers(study, column, **wanted):
    rows = [row for row in study.rows if all(row[key] == value for key, value in wanted.items())]
    return np.sort([row[column] for row in rows if row[column] is not None])


def test_the_figures_that_fit_the_shipped_designs(studies):
    of_paper = {
        f"{kind}-{release}-p{p}"
        for kind in ("violins", "exposure")
        for release in ("parameters", "datasets")
        for p in (2, 5)
    }
    of_paper = of_paper - {"violins-parameters-p2", "violins-parameters-p5"} | {"violins-parameters"}
    landscapes = {"landscape-parameters", "landscape-datasets"}
    steady = {"leverage", "fixed-leverage-parameters", "fixed-leverage-datasets"}
    assert set(study_figures(studies["paper"])) == of_paper | landscapes | {"leverage"}
    assert set(study_figures(studies["correlation"])) == steady
    of_dimension = {name for name in of_paper if name.startswith("exposure")} | landscapes
    of_dimension |= {"dimension-parameters", "dimension-datasets"}
    assert set(study_figures(studies["dimension"])) == of_dimension | steady


@pytest.mark.parametrize("release", ["parameters", "datasets"])
def test_violins_carry_the_quantiles_and_the_medians(studies, release):
    study = studies["paper"]
    figure, here = violin_figure(study, release, 2), {"release": release, "p": 2}
    places = [place for place, row in enumerate(study.rows) if (row["release"], row["p"]) == (release, 2)]
    shapes = np.sort(np.concatenate([study.results[place].quantiles for place in places]))
    np.testing.assert_allclose(gathered(traces(figure, "violin")), shapes, rtol=1e-6)
    assert len(traces(figure, "violin")) == len(places)
    for name, column in (
        ("their median", "median"),
        ("published median", "published_median"),
        ("guessing the centre of the others", "baseline_median"),
    ):
        np.testing.assert_array_equal(gathered(traces(figure, name=name)), numbers(study, column, **here))
    most = max((row["n"], row["rows"] or 0, row["count"]) for row in study.rows if row["release"] == release)
    last = numbers(study, "median", n=most[0], rows=most[1] or None, count=most[2], **here)
    assert f"{last[0]:.1f} after 100" in figure.layout.title.text.replace("<br>", " ")


@pytest.mark.parametrize(
    ("name", "release", "p"), [("paper", "parameters", 2), ("paper", "datasets", 5), ("dimension", "datasets", 2)]
)
def test_the_exposure_figure_carries_medians_quartiles_and_the_law(studies, name, release, p):
    study = studies[name]
    figure, here = exposure_figure(study, release, p), {"release": release, "p": p}
    dots, curves = traces(figure, mode="markers"), traces(figure, mode="lines")
    np.testing.assert_array_equal(gathered(dots), numbers(study, "exposure_median", **here))
    high = np.sort(np.concatenate([trace.y + np.asarray(trace.error_y.array) for trace in dots]))
    np.testing.assert_allclose(high, numbers(study, "exposure_q75", **here), rtol=1e-12)
    for dot, curve in zip(dots, curves, strict=True):
        # hover texts tell the cell; the curve is the law at the cells' median leverage
        held = [
            place
            for place, row in enumerate(study.rows)
            if row["exposure_median"] in dot.y and (row["release"], row["p"]) == (release, p)
        ]
        leverage = np.median([study.rows[place]["leverage_median"] for place in held])
        law = study.cells[held[0]].law.exposure(leverage, np.asarray(curve.x))
        np.testing.assert_allclose(curve.y, law, rtol=0, atol=1e-12)


def test_the_leverage_figure_shows_every_cell_of_one_law(studies):
    for name in ("correlation", "dimension"):
        study, figure = studies[name], leverage_figure(studies[name])
        dots = [trace for trace in traces(figure, mode="markers") if trace.hovertext is not None]
        np.testing.assert_array_equal(gathered(dots, "x"), numbers(study, "leverage_median"))
        np.testing.assert_array_equal(gathered(dots), numbers(study, "exposure_median"))
    # in the paper's design only released parameters have one curve a count, whatever n
    dots = [
        trace for trace in traces(leverage_figure(studies["paper"]), mode="markers") if trace.hovertext is not None
    ]
    np.testing.assert_array_equal(
        gathered(dots), numbers(studies["paper"], "exposure_median", release="parameters")
    )


@pytest.mark.parametrize("name", ["paper", "correlation", "dimension"])
def test_the_leverage_figure_draws_the_curve_of_every_cell(studies, name):
    """What the title counts, a cell's distance from its own closed form, is what the eye sees."""
    study, figure = studies[name], leverage_figure(studies[name])
    curves = traces(figure, mode="lines")
    dots = [(cell, row) for cell, row in zip(study.cells, study.rows, strict=True)]
    for cell, row in dots:
        if name == "paper" and cell.release != "parameters":
            continue
        drawn = [
            np.interp(np.log(row["leverage_median"]), np.log(curve.x), curve.y)
            for curve in curves
            if curve.legendgroup == f"{cell.count}"
        ]
        assert np.min(np.abs(np.array(drawn) - row["law_exposure"])) < 0.025
    assert "of their curve" in figure.layout.title.text.replace("<br>", " ")


@pytest.mark.parametrize("name", ["correlation", "dimension"])
def test_at_a_fixed_leverage_the_law_is_nearly_level(studies, name):
    study = studies[name]
    figure = fixed_leverage_figure(study, "parameters")
    held = [place for place, cell in enumerate(study.cells) if cell.leverage and cell.release == "parameters"]
    dots = traces(figure, mode="markers")
    np.testing.assert_array_equal(
        gathered(dots), np.sort([study.rows[place]["exposure_median"] for place in held])
    )
    for trace in traces(figure, mode="lines"):
        np.testing.assert_allclose(trace.y, trace.y[0], atol=1e-9 if name == "correlation" else 0.1)
        for height in trace.y:
            assert min(abs(height - study.rows[place]["law_exposure"]) for place in held) < 1e-9


def test_the_dimension_figure_sets_distance_share_and_one_leverage_side_by_side(studies):
    study = studies["dimension"]
    figure = dimension_figure(study, "parameters")
    panels = {axis: gathered([one for one in figure.data if one.yaxis == axis]) for axis in ("y", "y2", "y3")}
    counts = {int(one.name.replace(",", "").split()[0]) for one in figure.data}
    shown = [row for row in study.rows if row["release"] == "parameters" and row["count"] in counts]
    still = [row for row in shown if row["position"].startswith("at (")]
    np.testing.assert_allclose(panels["y"], np.sort([row["median"] for row in still]))
    np.testing.assert_allclose(panels["y2"], np.sort([row["median"] / row["baseline_median"] for row in still]))
    held = [row["median"] / row["baseline_median"] for row in shown if row["position"] == "at leverage 0.5"]
    np.testing.assert_allclose(panels["y3"], np.sort(held))


def test_a_landscape_figure_draws_the_drop_by_doublings():
    counts = (1, 5, 100)
    found = study_landscapes(paper_cell("datasets", 100), counts, size=20)
    figure = landscape_figure(found, counts, "datasets", 100)
    assert [note.text for note in figure.layout.annotations] == ["1 dataset", "5 datasets", "100 datasets"]
    for one, trace in zip(found, traces(figure, "contour"), strict=True):
        level = np.asarray(trace.z)
        np.testing.assert_allclose(
            -0.5 * 2.0 ** -level[level < 1], one.height[level < 1].clip(-(2**13)), rtol=1e-5
        )
        assert (one.height[level == 1] > -0.2501).all()
    for name, of in (
        ("the best guess (mode)", "mode"),
        ("the record attacked", "target"),
        ("the other mode", "other_mode"),
    ):
        for one, trace in zip(found, traces(figure, name=name), strict=True):
            np.testing.assert_array_equal((trace.x[0], trace.y[0]), getattr(one, of))
    assert f"{found[0].distance:.1f} from the record after 1 dataset" in figure.layout.title.text


OWN = """
[[cells]]
release = "datasets"
p = 3
n = [20, 40]
count = 4
rows = 10
distance = 9
"""


def test_a_design_of_ones_own_has_what_fits(tmp_path):
    study = run_study(StudyRun(parse_design(OWN), 9), tmp_path / "own")
    assert list(study_figures(study)) == ["violins-datasets-p3"]
    assert study_figures(dataclasses.replace(study, results=[])) == {}
    with pytest.raises(InputError, match="same ratio"):
        leverage_figure(study)
    with pytest.raises(InputError, match="fixed leverage"):
        fixed_leverage_figure(study, "datasets")


def test_a_picture_needs_a_known_kind_and_a_browser(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        write_images({tmp_path / "figure.jpg": go.Figure()})
    monkeypatch.setenv("BROWSER_PATH", "/no/such/browser")
    with pytest.raises(InputError, match="/no/such/browser was not found; install it"):
        write_images({tmp_path / "figure.png": go.Figure()})
    monkeypatch.setenv("BROWSER_PATH", "false")
    with pytest.raises(InputError, match="opened no page"):
        write_images({tmp_path / "figure.png": go.Figure()})
    assert not list(tmp_path.iterdir())
