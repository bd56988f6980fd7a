"""Figures of a study: the paper's landscapes and violins, and which figures fit a design."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from allbutone.adversary.build import log_posterior
from allbutone.adversary.landscape import Landscape, landscape, spans_of
from allbutone.adversary.modes import find_modes
from allbutone.adversary.who import Adversary
from allbutone.figures.attack_view import DEEPEST, DEPTHS, marks, relief
from allbutone.figures.style import BLUE, GREY, INK, SKY, VERMILION, stand_alone
from allbutone.model.niw import NIW
from allbutone.paper import law_figures, leverage_figures
from allbutone.paper.design import Cell
from allbutone.paper.law_figures import COLOURS, add_named, described, released
from allbutone.paper.run import CellResult, Study
from allbutone.releases.release import Release

PANELS = ("Distance, target at one place", "Relative to guessing the centre", "The same, at leverage {:g}")
MOST_COUNTS = 5  # lines of a panel
COUNTS = (1, 2, 3, 5, 10, 100)  # the paper's landscapes
MOST_LANDSCAPES = 6  # of one figure
MOST_VIOLINS = 12  # of one panel
USUAL = 100  # records, and rows of a dataset, of the table whose landscape is drawn
PAPER_FIGURES = {
    "landscape-parameters": "figure-1A", "landscape-datasets": "figure-1B", "violins-parameters": "figure-2",
    "violins-datasets-p2": "figure-3", "violins-datasets-p3": "figure-A1", "violins-datasets-p5": "figure-A2",
    "violins-datasets-p10": "figure-A3",
}  # fmt: skip
_ALONG = "Number of records, n"


def study_figures(study: Study) -> dict[str, go.Figure]:
    """Return the figures that fit the study's design, by name."""
    return {name: draw() for name, draw in study_drawings(study).items()}


def in_the_paper(name: str) -> str:
    """Return a figure's name with its number in the paper, if the paper has it."""
    return next((f"{figure}-{name}" for start, figure in PAPER_FIGURES.items() if name.startswith(start)), name)


def study_drawings(study: Study) -> dict[str, Callable[[], go.Figure]]:
    """Return what draws each of the figures that fit the study's design, by name."""
    drawings: dict[str, Callable[[], go.Figure]] = {}
    for release in ("parameters", "datasets"):
        cells = [one.cell for one in study.where(release=release)]
        if flat := _flattest(cells):
            drawings[f"landscape-{release}"] = partial(_landscapes, *flat, study.run.design.seed)
        columns = sorted({cell.p for cell in cells})
        # released parameters have no rows to vary: all numbers of columns stand in one figure, as in the paper
        joined = release == "parameters" and len(columns) > 1
        if joined and all(_one_a_violin([cell for cell in cells if cell.p == p]) for p in columns):
            drawings["violins-parameters"] = partial(violin_figure, study, release)
        for p in columns:
            results = study.where(release=release, p=p)
            if not joined and _one_a_violin([one.cell for one in results]):
                drawings[f"violins-{release}-p{p}"] = partial(violin_figure, study, release, p)
            several = len({one.cell.count for one in results}) > 1
            if several and len(law_figures.series_of(results)) <= law_figures.MOST_SERIES:
                drawings[f"exposure-{release}-p{p}"] = partial(law_figures.exposure_figure, study, release, p)
    if any(map(leverage_figures.varied, leverage_figures.on_one_law(study).values())):
        drawings["leverage"] = partial(leverage_figures.leverage_figure, study)
    for release in ("parameters", "datasets"):
        whole = [one.cell for one in study.where(release=release, lacking="")]
        steady = [cell for cell in whole if cell.leverage is not None]
        if len({(cell.p, cell.structure, cell.correlation) for cell in steady}) > 1:
            drawings[f"fixed-leverage-{release}"] = partial(leverage_figures.fixed_leverage_figure, study, release)
        if _by_dimension(study, release):
            drawings[f"dimension-{release}"] = partial(dimension_figure, study, release)
        if len(whole) < len(study.where(release=release)):
            drawings[f"lacking-{release}"] = partial(law_figures.study_lacking_figure, study, release)
    return drawings


def _flattest(cells: Sequence[Cell]) -> tuple[Cell, list[int]] | None:
    """Return a cell whose landscape fits a page, of a size as in the paper if there is one, and its counts."""
    flat = [cell for cell in cells if cell.p == 2 and cell.target is not None]
    if not flat:
        return None
    cell = min(flat, key=lambda cell: (abs(np.log(cell.n / USUAL)), abs(np.log((cell.rows or USUAL) / USUAL))))
    counts = sorted({other.count for other in flat if replace(other, count=cell.count) == cell})
    return cell, _some(counts, MOST_LANDSCAPES)


def _some(numbers: list[int], most: int) -> list[int]:
    """Return at most so many of the numbers, evenly."""
    places = np.linspace(0, len(numbers) - 1, min(most, len(numbers))).round().astype(int)
    return [numbers[place] for place in np.unique(places)]


def _one_a_violin(cells: Sequence[Cell]) -> bool:
    """Say whether count, rows and n name every cell, and a panel has room for all n."""
    names = {(cell.count, cell.rows, cell.n) for cell in cells}
    return len(names) == len(cells) and len({cell.n for cell in cells}) <= MOST_VIOLINS


# What the number of columns does to the distance: itself, beside guessing the centre, and at one leverage.


def _by_dimension(study: Study, release: str) -> tuple[list[CellResult], list[CellResult], float] | None:
    """Return the cells whose target stays at one place while p grows, those of one leverage, and that leverage."""
    results = study.where(release=release)
    still = [one for one in results if one.cell.target is not None]
    levels = sorted({one.cell.leverage for one in results if one.cell.leverage is not None})
    if not levels or len({one.cell.p for one in still}) < 2:
        return None
    middle = levels[len(levels) // 2]
    return still, [one for one in results if one.cell.leverage == middle], middle


def dimension_figure(study: Study, release: str) -> go.Figure:
    """Draw the median distance against p three ways: itself, over that of the others' centre, at one leverage."""
    chosen = _by_dimension(study, release)
    assert chosen is not None
    still, held, leverage = chosen
    counts = sorted({one.cell.count for one in still})
    titles = [title.format(leverage) for title in PANELS]
    figure = make_subplots(1, 3, subplot_titles=titles, horizontal_spacing=0.07)
    for turn, count in enumerate(_some(counts, MOST_COUNTS)):
        for column, (results, relative) in enumerate(((still, False), (still, True), (held, True)), 1):
            shown = sorted((one for one in results if one.cell.count == count), key=lambda one: one.cell.p)
            y = [one.row["median"] / (one.row["baseline_median"] if relative else 1.0) for one in shown]
            dots = go.Scatter(
                x=[one.cell.p for one in shown], y=y, mode="lines+markers",
                line={"color": COLOURS[turn % len(COLOURS)]},
                hovertext=[described(one) for one in shown], hoverinfo="text",
            )  # fmt: skip
            add_named(figure, [dots], released(count, release), row=1, col=column)
    stand_alone(figure, *_dimension_words(study, still, counts[-1]), legend=True)
    ticks = sorted({one.cell.p for one in still})
    figure.update_xaxes(type="log", tickvals=ticks, title_text="Number of columns, p")
    figure.update_yaxes(rangemode="tozero")
    return figure.update_yaxes(type="log", tickvals=[0.1, 0.3, 1, 3, 10, 30, 100], row=1, col=1)


def _dimension_words(study: Study, still: list[CellResult], count: int) -> tuple[str, str]:
    """Return the title, about the most that was released, and what the panels share."""
    ends = sorted((one for one in still if one.cell.count == count), key=lambda one: one.cell.p)
    first, last = ends[0].row, ends[-1].row
    share = [row["median"] / row["baseline_median"] for row in (first, last)]
    grows = "grows" if last["median"] > first["median"] else "falls"
    then = "falls" if share[1] < share[0] else "grows"
    head = (
        f"With more columns the distance {grows}, from {first['median']:.2f} at p = {first['p']} to "
        f"{last['median']:.2f} at p = {last['p']} after {released(count, first['release'])}; relative to guessing "
        f"the centre of the others it {then}"
    )
    below = (
        f"n = {first['n']:,}. Medians over {study.run.replicates:,} simulated attacks each. A target at one place "
    )
    return head, below + "has more leverage in more columns; at one leverage they help no one."


# The landscapes of a study: one simulated table, ever more of it released.


def study_landscapes(cell: Cell, counts: Sequence[int] = COUNTS, seed: int = 1, size: int = 90) -> list[Landscape]:
    """Simulate one table of the cell and release ever more of it; return the landscape after each count.

    Releases are nested: a smaller one is the beginning of the largest. Cells that differ in what is released
    have the same table at the same seed.
    """
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.array(cell.covariance))
    others = np.array(cell.mean) + rng.standard_normal((cell.n - 1, cell.p)) @ root.T
    prior = cell.prior_of(cell.prior)
    own = None if cell.adversary_prior is None else cell.prior_of(cell.adversary_prior)
    given_others = prior.update(others)
    target = cell.targets(
        NIW(given_others.mean[None], given_others.mean_weight, given_others.df, given_others.scale)
    )[0]
    whole = given_others.update(target[None])
    if cell.rows is None:
        release = Release.draw_parameters(whole, max(counts), rng)
    else:
        release = Release.draw(whole, [cell.rows] * max(counts), rng)
    posteriors = [
        log_posterior(others, release.first(count), Adversary(prior=own), prior=prior, reading=cell.reading)
        for count in counts
    ]
    modes = [find_modes(each) for each in posteriors]
    peaks = [each.unwhiten(at) for each, m in zip(posteriors, modes, strict=True) for at in (m.best, m.other)]
    spans = spans_of(others[:, :2], target[:2], np.array(peaks)[:, :2])
    return [
        landscape(each, others, target, size=size, spans=spans, modes=at)
        for each, at in zip(posteriors, modes, strict=True)
    ]


def _landscapes(cell: Cell, counts: list[int], seed: int) -> go.Figure:
    return landscape_figure(study_landscapes(cell, counts, seed), counts, cell.release, cell.rows)


def landscape_figure(
    landscapes: Sequence[Landscape], counts: Sequence[int], release: str, rows: int | None = None
) -> go.Figure:
    """Draw the log posterior of one record after ever larger releases, a panel each.

    A line where the log posterior is 0.5, 1, 2, 4, … below its maximum.
    """
    columns = min(3, len(counts))
    lines = -(-len(counts) // columns)
    titles = [released(count, release) for count in counts]
    figure = make_subplots(
        lines, columns, shared_xaxes=True, shared_yaxes=True, subplot_titles=titles,
        horizontal_spacing=0.02, vertical_spacing=0.1,
    )  # fmt: skip
    for place, one in enumerate(landscapes):
        cell = {"row": place // columns + 1, "col": place % columns + 1}
        figure.add_trace(relief(one), **cell)
        for trace in marks(one, legend=place == 0):
            figure.add_trace(trace, **cell)
    size = f", datasets of {rows:,} rows" if rows else ""
    stand_alone(
        figure,
        f"The best guess is {landscapes[0].distance:.1f} from the record after {titles[0]}"
        + f", {landscapes[-1].distance:.1f} after {titles[-1]}" * (len(titles) > 1),
        f"One table of {len(landscapes[0].others) + 1:,} records{size}; each release begins with the one before. "
        "Lines: the log posterior 0.5, 1, 2, 4, … below its maximum.",
        legend=True,
    )
    ticks = [0, 2, 5, 8, 11]
    bar = {
        "title": {"text": "log<br>posterior"}, "tickvals": [-tick for tick in ticks], "thickness": 14,
        "ticktext": [f"−{0.5 * 2**tick:g}" for tick in ticks], "outlinewidth": 0,
    }  # fmt: skip
    scale = {"colorscale": DEPTHS, "cmin": -DEEPEST, "cmax": 1, "colorbar": bar}
    figure.update_layout(coloraxis=scale)
    for column in range(1, columns + 1):
        figure.update_xaxes(title_text="first feature", row=lines, col=column)
    figure.update_yaxes(title_text="second feature", col=1)
    figure.update_xaxes(showgrid=False, range=[one.x[0], one.x[-1]])
    figure.update_yaxes(showgrid=False, range=[one.y[0], one.y[-1]])
    return figure


# Violins: the distances by n, a panel for each count.


def violin_figure(study: Study, release: str, p: int | None = None) -> go.Figure:
    """Draw the distances by n: a panel for each count, and a line of panels for each number of rows.

    Without p a line of panels for each number of columns. The shapes come from 101 quantiles of each cell.
    """
    results = study.where(release=release) if p is None else study.where(release=release, p=p)
    counts, people = (sorted({getattr(one.cell, name) for one in results}) for name in ("count", "n"))
    by_line: dict[int, list[CellResult]] = {}
    for one in sorted(results, key=lambda one: one.cell.p if p is None else one.cell.rows or 0):
        by_line.setdefault(one.cell.p if p is None else one.cell.rows or 0, []).append(one)
    few = len(by_line) == 1
    columns = min(3, len(counts)) if few else len(counts)
    lines = -(-len(counts) // columns) if few else len(by_line)
    across = [released(count, release) for count in counts]
    spacing: dict[str, Any] = {"subplot_titles": across, "horizontal_spacing": 0.02, "vertical_spacing": 0.1}
    if not few:
        down = [f"p = {size}" if p is None else f"{size:,} rows" for size in by_line]
        spacing = {"column_titles": across, "row_titles": down}
        spacing |= {"horizontal_spacing": 0.008, "vertical_spacing": 0.015}
    words: dict[str, Any] = {"x_title": _ALONG, "y_title": "Distance of the best guess from the record"}
    figure = make_subplots(lines, columns, shared_xaxes=True, shared_yaxes=True, **words, **spacing)
    for place, (held, count) in enumerate(product(by_line.values(), counts)):
        for trace in _violins([one for one in held if one.cell.count == count], people, 7 if few else 4):
            add_named(figure, [trace], trace.name, row=place // columns + 1, col=place % columns + 1)
    stand_alone(figure, *_violin_words(study, results), legend=True)
    figure.update_xaxes(
        tickvals=np.arange(len(people)), ticktext=[f"{n}" for n in people], range=[-0.6, len(people) - 0.4],
        tickfont={"size": 13 if few else 10}, tickangle=0 if few else -90, showgrid=False,
    )  # fmt: skip
    figure.update_yaxes(nticks=7 if few else 4, tickfont={"size": 13})
    # with more columns the target lies further out: each of these lines has a scale of its own
    scales = list(by_line.values()) if p is None and not few else [results] * lines
    for line, alike in enumerate(scales, 1):
        highest = max(one.quantiles[-1] for one in alike)
        figure.update_yaxes(range=[-0.03 * highest, 1.03 * highest], row=line)
    figure.update_layout(violinmode="overlay", margin={"r": 60}, height=900 if lines > 3 else None)
    figure.update_annotations(selector={"text": _ALONG}, yshift=-32 if few else -46)
    return figure


def _violins(results: list[CellResult], people: list[int], size: int) -> list[Any]:
    """Draw a panel: the shapes, our medians and the published ones, and what guessing the centre would give."""
    ticks = [people.index(one.cell.n) for one in results]
    known = [one.row["published_median"] for one in results]
    dots = {"mode": "markers", "hovertext": [described(one) for one in results], "hoverinfo": "text"}
    diamond = {"size": size + 4, "symbol": "diamond-open", "color": VERMILION, "line": {"width": 1.6}}
    traces = [
        go.Scatter(
            x=ticks, y=[one.row["baseline_median"] for one in results], name="guessing the centre of the others",
            mode="lines", line={"width": 1.2, "color": GREY, "dash": "dot"}, hoverinfo="skip",
        ),
        # each of the same width, so each in a group of its own
        *(
            go.Violin(
                x0=tick, y=np.array(one.quantiles, dtype=np.float32), scalegroup=f"{one.row['cell']}", width=0.85,
                points=False, spanmode="hard", hoverinfo="skip", fillcolor=SKY, line={"width": 0.7, "color": BLUE},
                name="distances",
            )
            for tick, one in zip(ticks, results, strict=True)
        ),
        go.Scatter(
            x=ticks, y=[one.row["median"] for one in results], name="their median",
            marker={"size": size, "color": INK}, **dots,
        ),
    ]  # fmt: skip
    if any(median is not None for median in known):
        traces.append(go.Scatter(x=ticks, y=known, name="published median", marker=diamond, **dots))
    return traces


def _violin_words(study: Study, results: list[CellResult]) -> tuple[str, str]:
    """Return the title, about the largest tables and datasets, and what was simulated and published."""
    columns = sorted({one.cell.p for one in results})
    most = max((one.cell.n, one.cell.rows or 0) for one in results)
    first = [one for one in results if one.cell.p == columns[0] and (one.cell.n, one.cell.rows or 0) == most]
    first.sort(key=lambda one: one.cell.count)
    ends = [f"{one.row['median']:.1f}" for one in (first[0], first[-1])]
    after = [released(one.cell.count, one.cell.release) for one in (first[0], first[-1])]
    size = f" of {most[1]:,} rows" if most[1] else ""
    head = (
        f"At n = {most[0]:,}{f' and p = {columns[0]}' * (len(columns) > 1)} the guess is "
        f"{ends[0]} from the record after {after[0]}{size}, {ends[1]} after {after[1]}"
    )
    below = f"p = {', '.join(map(str, columns))}. Distances in {study.run.replicates:,} simulated attacks each."
    known = [one.row for one in results if one.row["published_median"] is not None]
    if any(row["verdict"] for row in known):
        same = sum("median" not in row["differs_in"].split() for row in known if row["verdict"])
        below += f" {same} of {len(known)} published medians agree with ours."
    return head, below
