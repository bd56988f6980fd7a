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
from allbutone.figures.attack_view import DEEPEST, DEPTHS, marks, relief
from allbutone.figures.style import BLUE, GREY, INK, SKY, VERMILION, style_panels
from allbutone.model.niw import NIW
from allbutone.paper.design import Cell
from allbutone.paper.law_figures import (
    COLOURS,
    MOST_SERIES,
    described,
    exposure_figure,
    released,
    series_of,
    study_lacking_figure,
    where,
)
from allbutone.paper.leverage_figures import fixed_leverage_figure, leverage_figure, on_one_law, varied
from allbutone.paper.run import Study
from allbutone.releases.release import Release

# What the number of columns does to the distance: itself, beside guessing the centre, and at one leverage.


PANELS = ("Distance, target at one place", "Relative to guessing the centre", "The same, at leverage {:g}")
MOST_COUNTS = 5  # lines of a panel


def by_dimension(study: Study, release: str) -> tuple[list[int], list[int], float] | None:
    """Return the cells whose target stays at one place while p grows, those of one leverage, and that leverage."""
    still = [at for at in where(study, release=release) if study.cells[at].target is not None]
    held = [at for at in where(study, release=release) if study.cells[at].leverage is not None]
    levels = sorted({study.cells[at].leverage or 0.0 for at in held})
    if not levels or len({study.cells[at].p for at in still}) < 2:
        return None
    middle = levels[len(levels) // 2]
    return still, [at for at in held if study.cells[at].leverage == middle], middle


def dimension_figure(study: Study, release: str) -> go.Figure:
    """Draw the median distance against p three ways: itself, over that of the others' centre, at one leverage."""
    found = by_dimension(study, release)
    assert found is not None
    still, held, leverage = found
    counts = sorted({study.cells[at].count for at in still})
    some = np.unique(np.linspace(0, len(counts) - 1, min(MOST_COUNTS, len(counts))).round().astype(int))
    titles = [title.format(leverage) for title in PANELS]
    figure = make_subplots(1, 3, subplot_titles=titles, horizontal_spacing=0.07)
    for turn, count in enumerate(counts[place] for place in some):
        for column, (places, relative) in enumerate(((still, False), (still, True), (held, True)), 1):
            shown = sorted(
                (at for at in places if study.cells[at].count == count), key=lambda at: study.cells[at].p
            )
            rows = [study.rows[at] for at in shown]
            y = [row["median"] / (row["baseline_median"] if relative else 1.0) for row in rows]
            figure.add_scatter(
                x=[row["p"] for row in rows], y=y, mode="lines+markers", name=released(count, release),
                legendgroup=count, showlegend=column == 1, line={"color": COLOURS[turn % len(COLOURS)]},
                hovertext=[described(study, at) for at in shown], hoverinfo="text", row=1, col=column,
            )  # fmt: skip
    style_panels(figure, *_words(study, still, counts[-1]))
    ticks = sorted({study.cells[at].p for at in still})
    figure.update_xaxes(type="log", tickvals=ticks, title_text="Number of columns, p")
    figure.update_yaxes(rangemode="tozero")
    return figure.update_yaxes(type="log", tickvals=[0.1, 0.3, 1, 3, 10, 30, 100], row=1, col=1)


def _words(study: Study, still: list[int], count: int) -> tuple[str, str]:
    """Return the title, about the most that was released, and what the panels share."""
    ends = sorted((at for at in still if study.cells[at].count == count), key=lambda at: study.cells[at].p)
    first, last = study.rows[ends[0]], study.rows[ends[-1]]
    share = [row["median"] / row["baseline_median"] for row in (first, last)]
    grows = "grows" if last["median"] > first["median"] else "falls"
    then = "falls" if share[1] < share[0] else "grows"
    head = (
        f"With more columns the distance {grows}, from {first['median']:.2f} at p = {first['p']} to "
        f"{last['median']:.2f} at p = {last['p']} after {released(count, first['release'])}; relative to guessing "
        f"the centre of the others it {then}"
    )
    below = f"n = {first['n']:,}. Medians over {study.run.replicates:,} simulated attacks each."
    return (
        head,
        f"{below} A target at one place has more leverage in more columns; at one leverage they help no one.",
    )


# The landscapes of a study: one simulated table, ever more of it released.


COUNTS = (1, 2, 3, 5, 10, 100)  # the paper's panels


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
    release: Release
    if cell.rows is None:
        release = Release.draw_parameters(whole, max(counts), rng)
    else:
        release = Release.draw(whole, [cell.rows] * max(counts), rng)
    found = [
        log_posterior(others, release.first(count), prior, adversary_prior=own, reading=cell.reading)
        for count in counts
    ]
    modes = [find_modes(each) for each in found]
    peaks = [each.unwhiten(at) for each, m in zip(found, modes, strict=True) for at in (m.best, m.other)]
    spans = spans_of(others[:, :2], target[:2], np.array(peaks)[:, :2])
    return [
        landscape(each, others, target, size=size, spans=spans, modes=at)
        for each, at in zip(found, modes, strict=True)
    ]


MOST_LANDSCAPES = 6  # landscapes of one figure
MOST_VIOLINS = 12  # of one panel
USUAL = 100  # records, and rows of a dataset, of the table whose landscape is drawn
_ALONG = "Number of records, n"
PAPER_FIGURES = {
    "landscape-parameters": "figure-1A", "landscape-datasets": "figure-1B", "violins-parameters": "figure-2",
    "violins-datasets-p2": "figure-3", "violins-datasets-p3": "figure-A1", "violins-datasets-p5": "figure-A2",
    "violins-datasets-p10": "figure-A3",
}  # fmt: skip


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
        held = [study.cells[place] for place in where(study, release=release)]
        if flat := _flattest(held):
            drawings[f"landscape-{release}"] = partial(_landscapes, *flat, study.run.design.seed)
        columns = sorted({cell.p for cell in held})
        # released parameters have no rows to vary: all numbers of columns stand in one figure, as in the paper
        joined = release == "parameters" and len(columns) > 1
        if joined and all(_one_a_violin([cell for cell in held if cell.p == p]) for p in columns):
            drawings["violins-parameters"] = partial(violin_figure, study, release)
        for p in columns:
            places = where(study, release=release, p=p)
            if not joined and _one_a_violin([study.cells[place] for place in places]):
                drawings[f"violins-{release}-p{p}"] = partial(violin_figure, study, release, p)
            several = len({study.cells[place].count for place in places}) > 1
            if several and len(series_of(study, places)) <= MOST_SERIES:
                drawings[f"exposure-{release}-p{p}"] = partial(exposure_figure, study, release, p)
    if any(varied([study.cells[place] for place in places]) for places in on_one_law(study).values()):
        drawings["leverage"] = partial(leverage_figure, study)
    for release in ("parameters", "datasets"):
        whole = [study.cells[place] for place in where(study, release=release, lacking="")]
        steady = [cell for cell in whole if cell.leverage is not None]
        if len({(cell.p, cell.structure, cell.correlation) for cell in steady}) > 1:
            drawings[f"fixed-leverage-{release}"] = partial(fixed_leverage_figure, study, release)
        if by_dimension(study, release):
            drawings[f"dimension-{release}"] = partial(dimension_figure, study, release)
        if any(study.cells[place].lacking for place in where(study, release=release)):
            drawings[f"lacking-{release}"] = partial(study_lacking_figure, study, release)
    return drawings


def _landscapes(cell: Cell, counts: list[int], seed: int) -> go.Figure:
    return landscape_figure(study_landscapes(cell, counts, seed), counts, cell.release, cell.rows)


def _flattest(cells: Sequence[Cell]) -> tuple[Cell, list[int]] | None:
    """Return a cell whose landscape fits a page, of a size as in the paper if there is one, and its counts."""
    flat = [cell for cell in cells if cell.p == 2 and cell.target is not None]
    if not flat:
        return None
    cell = min(flat, key=lambda cell: (abs(np.log(cell.n / USUAL)), abs(np.log((cell.rows or USUAL) / USUAL))))
    counts = sorted({other.count for other in flat if replace(other, count=cell.count) == cell})
    some = np.linspace(0, len(counts) - 1, min(MOST_LANDSCAPES, len(counts))).round().astype(int)
    return cell, [counts[place] for place in some]


def _one_a_violin(cells: Sequence[Cell]) -> bool:
    """Say whether count, rows and n name every cell, and a panel has room for all n."""
    names = {(cell.count, cell.rows, cell.n) for cell in cells}
    return len(names) == len(cells) and len({cell.n for cell in cells}) <= MOST_VIOLINS


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
    style_panels(
        figure,
        f"The best guess is {landscapes[0].distance:.1f} from the record after {titles[0]}"
        + f", {landscapes[-1].distance:.1f} after {titles[-1]}" * (len(titles) > 1),
        f"One table of {len(landscapes[0].others) + 1:,} records{size}; each release begins with the one before. "
        "Lines: the log posterior 0.5, 1, 2, 4, … below its maximum.",
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


def violin_figure(study: Study, release: str, p: int | None = None) -> go.Figure:
    """Draw the distances by n: a panel for each count, and a line of panels for each number of rows.

    Without p a line of panels for each number of columns. The shapes come from 101 quantiles of each cell.
    """
    places = where(study, release=release) if p is None else where(study, release=release, p=p)
    cells = [study.cells[place] for place in places]
    counts, people = sorted({cell.count for cell in cells}), sorted({cell.n for cell in cells})
    line_of = {place: study.cells[place].p if p is None else study.cells[place].rows or 0 for place in places}
    sizes = sorted(set(line_of.values()))
    few = len(sizes) == 1
    columns = min(3, len(counts)) if few else len(counts)
    lines = -(-len(counts) // columns) if few else len(sizes)
    names = [f"p = {size}" if p is None else f"{size:,} rows" for size in sizes]
    figure = _violin_panels(lines, columns, [released(count, release) for count in counts], names)
    seen: set[str] = set()
    for place, (size, count) in enumerate(product(sizes, counts)):
        held = [at for at in places if (line_of[at], study.cells[at].count) == (size, count)]
        for trace in _violins(study, held, people, 7 if few else 4):
            trace.update(legendgroup=trace.name, showlegend=trace.name not in seen)
            seen.add(trace.name)
            figure.add_trace(trace, row=place // columns + 1, col=place % columns + 1)
    style_panels(figure, *_violin_words(study, places))
    figure.update_xaxes(
        tickvals=np.arange(len(people)), ticktext=[f"{n}" for n in people], range=[-0.6, len(people) - 0.4],
        tickfont={"size": 13 if few else 10}, tickangle=0 if few else -90, showgrid=False,
    )  # fmt: skip
    figure.update_yaxes(nticks=7 if few else 4, tickfont={"size": 13})
    for line in range(lines):
        # with more columns the target lies further out: each of these lines has a scale of its own
        alike = [place for place in places if p is not None or line_of[place] == sizes[line]]
        highest = max(study.quantiles[place][-1] for place in alike)
        figure.update_yaxes(range=[-0.03 * highest, 1.03 * highest], row=line + 1)
    figure.update_layout(violinmode="overlay", margin={"r": 60}, height=900 if lines > 3 else None)
    figure.update_annotations(selector={"text": _ALONG}, yshift=-32 if few else -46)
    return figure


def _violin_panels(lines: int, columns: int, names: list[str], down: list[str]) -> go.Figure:
    """Return empty panels: by count alone, or counts across and something else down."""
    words: dict[str, Any] = {"x_title": _ALONG, "y_title": "Distance of the best guess from the record"}
    if len(down) == 1:
        wide: dict[str, Any] = {"subplot_titles": names, "horizontal_spacing": 0.02, "vertical_spacing": 0.1}
        return make_subplots(lines, columns, shared_xaxes=True, shared_yaxes=True, **words, **wide)
    dense: dict[str, Any] = {"column_titles": names, "row_titles": down}
    dense |= {"horizontal_spacing": 0.008, "vertical_spacing": 0.015}
    return make_subplots(lines, columns, shared_xaxes=True, shared_yaxes=True, **words, **dense)


def _violins(study: Study, places: list[int], people: list[int], size: int) -> list[Any]:
    """Draw a panel: the shapes, our medians and the published ones, and what guessing the centre would give."""
    ticks = [people.index(study.cells[place].n) for place in places]
    rows = [study.rows[place] for place in places]
    published = [at for at, row in enumerate(rows) if row["published_median"] is not None]
    words = [described(study, place) for place in places]
    traces = [
        go.Scatter(
            x=ticks, y=[row["baseline_median"] for row in rows], name="guessing the centre of the others",
            mode="lines", line={"width": 1.2, "color": GREY, "dash": "dot"}, hoverinfo="skip",
        ),
        # each of the same width, so each in a group of its own
        *(
            go.Violin(
                x0=tick, y=np.array(study.quantiles[place], dtype=np.float32), scalegroup=f"{place}", width=0.85,
                points=False, spanmode="hard", hoverinfo="skip", fillcolor=SKY, line={"width": 0.7, "color": BLUE},
                name="distances",
            )
            for tick, place in zip(ticks, places, strict=True)
        ),
        go.Scatter(
            x=ticks, y=[row["median"] for row in rows], mode="markers", name="their median",
            marker={"size": size, "color": INK}, hovertext=words, hoverinfo="text",
        ),
    ]  # fmt: skip
    if published:
        mark = {"size": size + 4, "symbol": "diamond-open", "color": VERMILION, "line": {"width": 1.6}}
        traces.append(
            go.Scatter(
                x=[ticks[at] for at in published], y=[rows[at]["published_median"] for at in published],
                mode="markers", name="published median", marker=mark,
                hovertext=[words[at] for at in published], hoverinfo="text",
            )
        )  # fmt: skip
    return traces


def _violin_words(study: Study, places: list[int]) -> tuple[str, str]:
    """Return the title, about the largest tables and datasets, and what was simulated and published."""
    columns = sorted({study.cells[place].p for place in places})
    most = max((study.cells[place].n, study.cells[place].rows or 0) for place in places)
    first = [place for place in places if study.cells[place].p == columns[0]]
    held = [place for place in first if (study.cells[place].n, study.cells[place].rows or 0) == most]
    held.sort(key=lambda place: study.cells[place].count)
    least, last = study.cells[held[0]], study.cells[held[-1]]
    size = f" of {most[1]:,} rows" if most[1] else ""
    head = (
        f"At n = {most[0]:,}{f' and p = {columns[0]}' * (len(columns) > 1)} the guess is "
        f"{study.rows[held[0]]['median']:.1f} from the record after {released(least.count, least.release)}{size}, "
        f"{study.rows[held[-1]]['median']:.1f} after {released(last.count, last.release)}"
    )
    below = f"p = {', '.join(map(str, columns))}. Distances in {study.run.replicates:,} simulated attacks each."
    known = [study.rows[place] for place in places if study.rows[place]["published_median"] is not None]
    if any(row["verdict"] for row in known):
        same = sum("median" not in row["differs_in"].split() for row in known if row["verdict"])
        below += f" {same} of {len(known)} published medians agree with ours."
    return head, below
