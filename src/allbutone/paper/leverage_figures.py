"""Figures of a study that show what leverage does to exposure, and that nothing else does."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.figures.style import GREY, style_panels
from allbutone.paper.design import Cell
from allbutone.paper.law_figures import (
    COLOURS,
    SYMBOLS,
    closed_form_words,
    described,
    direction_of,
    expected_exposure,
    gaps,
    label_axes,
    quartile_dots,
    released,
    show_exposure,
    where,
)
from allbutone.paper.run import Study
from allbutone.support.errors import InputError

SAME_RATIO = 1.08  # settings whose ratios differ by less share a curve
SAME_CURVE = 0.02  # curves that do not differ by more are drawn as one
REACH = 1.3  # a factor on both sides of the cells' leverages, as far as a curve is drawn
CLOSE = 0.05  # a distance from the closed form that the eye does not see
FOLLOWS = 0.8  # of the settings that close
_FACTORS: dict[str, Callable[[Cell], Any]] = {
    "number of columns": lambda cell: cell.p,
    "number of records": lambda cell: cell.n,
    "structure": lambda cell: cell.structure,
    "correlation": lambda cell: cell.correlation,
    "direction": lambda cell: direction_of(cell) if cell.target is None else "",
}


def on_one_law(study: Study) -> dict[str, list[int]]:
    """Return the cells of each release if one curve a count holds for them all: their ratios are the same."""
    found = {}
    for release in ("parameters", "datasets"):
        places = where(study, release=release, lacking="")
        ratios = [study.cells[place].law.ratio for place in places]
        if len(places) > 1 and max(ratios) < SAME_RATIO * min(ratios):
            found[release] = places
    return found


def leverage_figure(study: Study) -> go.Figure:
    """Draw exposure against leverage: the closed form for each count, and every cell of whatever kind as a dot."""
    groups = on_one_law(study)
    if not groups:
        raise InputError("no release of this study has the same ratio of table to dataset in all its cells")
    places = [place for held in groups.values() for place in held]
    counts = sorted({study.cells[place].count for place in places})
    colours = {count: COLOURS[turn % len(COLOURS)] for turn, count in enumerate(counts)}
    kind, words = _kinds([study.cells[place] for place in places])
    symbols = dict(zip(sorted({kind(study.cells[place]) for place in places}), SYMBOLS * 9, strict=False))
    titles = [f"{release.capitalize()} released" for release in groups]
    figure = make_subplots(1, len(groups), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.03)
    leverage = [study.rows[place]["leverage_median"] for place in places]
    low, high = np.log10(min(leverage) / REACH), np.log10(max(leverage) * REACH)
    fine = np.logspace(low, high, 400)
    for column, held in enumerate(groups.values(), 1):
        for trace in _curves(study, held, colours, fine, column == 1) + _dots(study, held, colours, symbols, kind):
            figure.add_trace(trace, row=1, col=column)
    for name, symbol in symbols.items():
        key = {"color": "white", "size": 9, "symbol": symbol, "line": {"width": 1.5, "color": GREY}}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=key, name=words(name), row=1, col=1)
    style_panels(figure, _leverage_title(study, places), _leverage_words(study, places))
    ticks = [digit * 10.0**power for power in range(-6, 7) for digit in (1, 2, 5)]
    figure.update_xaxes(
        type="log", tickvals=ticks, ticktext=[f"{tick:,.15g}" for tick in ticks], range=[low, high]
    )
    show_exposure(figure, study, places)
    label_axes(figure, 1, len(groups), "Leverage of the record attacked")
    return figure


def _kinds(cells: Sequence[Cell]) -> tuple[Callable[[Cell], Any], Callable[[Any], str]]:
    """Return what shapes the dots, and its words: the structure where there are several, else p."""
    if len({cell.structure for cell in cells}) > 1:
        return (lambda cell: cell.structure), str
    return (lambda cell: cell.p), "p = {}".format


def _curves(
    study: Study, places: list[int], colours: dict[int, str], fine: np.ndarray, legend: bool
) -> list[go.Scatter]:
    """Draw the closed form of each count; where cells have several, each where its own cells are."""
    traces = []
    for count, colour in colours.items():
        held = [place for place in places if study.cells[place].count == count]
        for turn, (law, near) in enumerate(_told_apart(study, held, fine)):
            traces.append(
                go.Scatter(
                    x=fine[near],
                    y=law.exposure(fine[near], count),
                    mode="lines",
                    line={"color": colour, "width": 2, "simplify": False},
                    name=f"{count:,} released",
                    legendgroup=f"{count}",
                    showlegend=legend and not turn,
                    hoverinfo="skip",
                )
            )
    return traces


def _told_apart(study: Study, places: list[int], fine: np.ndarray) -> list[tuple[ExposureLaw, np.ndarray]]:
    """Return the laws of cells of one count that the eye tells apart, and where their cells are.

    A law that is nowhere near its cells further than a hair from one before it is drawn as that one.
    """
    found: list[tuple[ExposureLaw, np.ndarray]] = []
    for law in sorted({study.cells[place].law for place in places}, key=lambda law: (-law.df, law.p)):
        leverage = [study.rows[place]["leverage_median"] for place in places if study.cells[place].law == law]
        near = (fine >= min(leverage) / REACH) & (fine <= max(leverage) * REACH)
        count = study.cells[places[0]].count
        for turn, (other, there) in enumerate(found):
            apart = np.abs(law.exposure(fine[near], count) - other.exposure(fine[near], count))
            if np.max(apart, initial=0.0) <= SAME_CURVE:
                every = np.flatnonzero(near | there)
                joined = np.zeros(len(fine), dtype=bool)
                joined[every[0] : every[-1] + 1] = True
                found[turn] = (other, joined)
                break
        else:
            found.append((law, near))
    return found


def _dots(
    study: Study, places: list[int], colours: dict[int, str], symbols: dict[Any, str], kind: Callable[[Cell], Any]
) -> list[go.Scatter]:
    """Draw simulated medians: coloured by count, shaped by kind, hollow so that several at a place are seen."""
    traces = []
    for count, colour in colours.items():
        held = [place for place in places if study.cells[place].count == count]
        traces.append(
            go.Scatter(
                x=[study.rows[place]["leverage_median"] for place in held],
                y=[study.rows[place]["exposure_median"] for place in held],
                mode="markers",
                marker={
                    "symbol": [symbols[kind(study.cells[place])] for place in held],
                    "size": 9,
                    "color": "white",
                    "line": {"width": 1.5, "color": colour},
                },
                legendgroup=f"{count}",
                showlegend=False,
                hovertext=[described(study, place) for place in held],
                hoverinfo="text",
            )
        )
    return traces


def varied(cells: Sequence[Cell]) -> str:
    """Say in words what, besides the position and the count, differs between cells."""
    names = [name for name, of in _FACTORS.items() if len({of(cell) for cell in cells} - {""}) > 1]
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + names[-1:])


def _leverage_title(study: Study, places: Sequence[int]) -> str:
    on, factors = int(np.sum(gaps(study, places) <= CLOSE)), varied([study.cells[place] for place in places])
    head = (
        "Exposure follows leverage" if on >= FOLLOWS * len(places) else "Exposure does not follow leverage alone"
    )
    whatever = f", whatever the {factors}" if factors else ""
    return f"{head}: {on:,} of {len(places):,} settings within {CLOSE:g} of their curve{whatever}"


def _leverage_words(study: Study, places: Sequence[int]) -> str:
    """Say what is drawn, and how many of those off the curve stand near its threshold, where noise matters."""
    words = f"Dots: simulated medians. Curves: {closed_form_words(study, places)}; several where n or p matters."
    off = [place for place, far in zip(places, gaps(study, places), strict=True) if far > CLOSE]
    if not off:
        return words
    near = 0
    for place in off:
        cell = study.cells[place]
        threshold = float(cell.law.threshold(study.rows[place]["leverage_median"]))
        near += threshold / 2 <= cell.count <= 2 * threshold
    share = "all" if near == len(off) else f"{near:,}"
    return f"{words} Of the {len(off):,} further off, {share} are within a factor 2 of its threshold."


def fixed_leverage_figure(study: Study, release: str) -> go.Figure:
    """Draw exposure at a fixed leverage against p, or correlation where p is one; the closed form is level."""
    places = [
        place for place in where(study, release=release, lacking="") if study.cells[place].leverage is not None
    ]
    if not places:
        raise InputError(f"no cell of this study with released {release} has a fixed leverage")
    cells = [study.cells[place] for place in places]
    by_p = len({cell.p for cell in cells}) > 1
    panels = [f"leverage {cell.leverage:g}" if by_p else cell.structure for cell in cells]
    across = [cell.p if by_p else cell.correlation for cell in cells]
    names, ticks = list(dict.fromkeys(panels)), sorted(set(across))
    figure = make_subplots(1, len(names), shared_yaxes=True, subplot_titles=names, horizontal_spacing=0.025)
    for turn, count in enumerate(sorted({cell.count for cell in cells})):
        first = next(panel for panel, cell in zip(panels, cells, strict=True) if cell.count == count)
        for column, name in enumerate(names, 1):
            held = [at for at, cell in enumerate(cells) if (panels[at], cell.count) == (name, count)]
            at_ticks = {places[at]: ticks.index(across[at]) for at in held}
            for trace in _level(study, at_ticks, COLOURS[turn % len(COLOURS)]) if held else ():
                trace.update(name=released(count, release), legendgroup=f"{count}")
                trace.showlegend = trace.mode == "lines" and name == first
                figure.add_trace(trace, row=1, col=column)
    style_panels(figure, *_steady_words(study, places))
    figure.update_xaxes(
        tickvals=np.arange(len(ticks)), ticktext=[f"{t:g}" for t in ticks], range=[-0.5, len(ticks) - 0.5]
    )
    show_exposure(figure, study, places)
    label_axes(figure, 1, len(names), "Number of columns" if by_p else "Correlation")
    return figure


def _steady_words(study: Study, places: Sequence[int]) -> tuple[str, str]:
    """Return title and subtitle: the range of median exposures among cells of one leverage and count."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for place in places:
        cell = study.cells[place]
        key = (cell.leverage, cell.count, cell.rows)
        groups.setdefault(key, []).append(study.rows[place]["exposure_median"])
    spreads = [max(found) - min(found) for found in groups.values()]
    factors = varied([study.cells[place] for place in places])
    return (
        f"At one leverage the {factors} {'move' if ' and ' in factors else 'moves'} the median exposure by "
        f"{np.median(spreads):.2f} typically, {max(spreads):.2f} at most",
        f"Dots: simulated medians and quartiles. Lines: {closed_form_words(study, places)}.",
    )


def _level(study: Study, places: dict[int, int], colour: str) -> list[go.Scatter]:
    """Draw cells of one count side by side at their ticks, and the closed form across."""
    ticks = list(places.values())
    law = {tick: expected_exposure(study, place) for place, tick in places.items()}
    heights = [law[tick] for tick in sorted(law)]
    line = go.Scatter(
        x=[min(law) - 0.4, *sorted(law), max(law) + 0.4],
        y=[heights[0], *heights, heights[-1]],
        mode="lines",
        line={"color": colour, "width": 2},
        hoverinfo="skip",
    )
    beside = [ticks[:turn].count(tick) - (ticks.count(tick) - 1) / 2 for turn, tick in enumerate(ticks)]
    step = min(0.15, 0.6 / max(ticks.count(tick) for tick in ticks))
    return [line, quartile_dots(study, list(places), np.array(ticks) + step * np.array(beside), colour)]
