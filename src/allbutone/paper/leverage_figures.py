"""Figures of a study that show what leverage does to exposure, and that nothing else does."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.figures.style import GREY, round_numbers, stand_alone
from allbutone.paper import law_figures
from allbutone.paper.design import Cell
from allbutone.paper.law_figures import COLOURS, closed_form_words, gaps, name_exposure
from allbutone.paper.run import CellResult, Study
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
    "direction": lambda cell: law_figures.direction_of(cell) if cell.target is None else "",
}


def on_one_law(study: Study) -> dict[str, list[CellResult]]:
    """Return the cells of each release if one curve a count holds for them all: their ratios are the same."""
    every = {release: study.where(release=release, lacking="") for release in ("parameters", "datasets")}
    ratios = {release: [one.cell.law.ratio for one in results] for release, results in every.items()}
    return {
        release: every[release]
        for release, each in ratios.items()
        if len(each) > 1 and max(each) < SAME_RATIO * min(each)
    }


def leverage_figure(study: Study) -> go.Figure:
    """Draw exposure against leverage: the closed form for each count, and every cell of whatever kind as a dot."""
    groups = on_one_law(study)
    if not groups:
        raise InputError("no release of this study has the same ratio of table to dataset in all its cells")
    results = [one for held in groups.values() for one in held]
    counts = sorted({one.cell.count for one in results})
    colours = {count: COLOURS[turn % len(COLOURS)] for turn, count in enumerate(counts)}
    # what shapes the dots: the structure where there are several, else p
    shaped = "structure" if len({one.cell.structure for one in results}) > 1 else "p"
    kinds = sorted({getattr(one.cell, shaped) for one in results})
    symbols = dict(zip(kinds, law_figures.SYMBOLS * 9, strict=False))
    titles = [f"{release.capitalize()} released" for release in groups]
    figure = make_subplots(1, len(groups), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.03)
    leverage = [one.row["leverage_median"] for one in results]
    low, high = np.log10(min(leverage) / REACH), np.log10(max(leverage) * REACH)
    fine = np.logspace(low, high, 400)
    for column, held in enumerate(groups.values(), 1):
        for trace in _curves(held, colours, fine, legend=column == 1):
            figure.add_trace(trace, row=1, col=column)
        for count, colour in colours.items():
            dots = [one for one in held if one.cell.count == count]
            # hollow, so that several at a place are seen
            shape = [symbols[getattr(one.cell, shaped)] for one in dots]
            figure.add_scatter(
                x=[one.row["leverage_median"] for one in dots], y=[one.row["exposure_median"] for one in dots],
                mode="markers", marker=_hollow(shape, colour), legendgroup=f"{count}", showlegend=False,
                hovertext=[law_figures.described(one) for one in dots], hoverinfo="text", row=1, col=column,
            )  # fmt: skip
    for kind, symbol in symbols.items():
        name, key = f"{kind}" if shaped == "structure" else f"p = {kind}", _hollow(symbol, GREY)
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=key, name=name, row=1, col=1)
    stand_alone(figure, _leverage_title(results), _leverage_words(results), legend=True)
    ticks = round_numbers(10**low, 10**high)
    figure.update_xaxes(type="log", range=[low, high], tickvals=ticks, ticktext=[f"{t:,.15g}" for t in ticks])
    name_exposure(figure, results, 1, len(groups), "Leverage of the record attacked")
    return figure


def _hollow(symbol: str | list[str], colour: str) -> dict[str, Any]:
    return {"symbol": symbol, "size": 9, "color": "white", "line": {"width": 1.5, "color": colour}}


def _curves(
    results: list[CellResult], colours: dict[int, str], fine: np.ndarray, legend: bool
) -> list[go.Scatter]:
    """Draw the closed form of each count; where cells have several, each where its own cells are."""
    return [
        go.Scatter(
            x=fine[near], y=law.exposure(fine[near], count), mode="lines", name=f"{count:,} released",
            line={"color": colour, "width": 2, "simplify": False}, hoverinfo="skip",
            legendgroup=f"{count}", showlegend=legend and not turn,
        )
        for count, colour in colours.items()
        for turn, (law, near) in enumerate(_told_apart([one for one in results if one.cell.count == count], fine))
    ]  # fmt: skip


def _told_apart(results: list[CellResult], fine: np.ndarray) -> list[tuple[ExposureLaw, np.ndarray]]:
    """Return the laws of cells of one count that the eye tells apart, and where their cells are.

    A law that is nowhere near its cells further than a hair from one before it is drawn as that one.
    """
    apart: list[tuple[ExposureLaw, np.ndarray]] = []
    for law in sorted({one.cell.law for one in results}, key=lambda law: (-law.df, law.p)):
        leverage = [one.row["leverage_median"] for one in results if one.cell.law == law]
        near = (fine >= min(leverage) / REACH) & (fine <= max(leverage) * REACH)
        count = results[0].cell.count
        for turn, (other, there) in enumerate(apart):
            off = np.abs(law.exposure(fine[near], count) - other.exposure(fine[near], count))
            if np.max(off, initial=0.0) <= SAME_CURVE:
                every = np.flatnonzero(near | there)
                joined = np.zeros(len(fine), dtype=bool)
                joined[every[0] : every[-1] + 1] = True
                apart[turn] = (other, joined)
                break
        else:
            apart.append((law, near))
    return apart


def varied(results: Sequence[CellResult]) -> str:
    """Say in words what, besides the position and the count, differs between cells."""
    names = [name for name, of in _FACTORS.items() if len({of(one.cell) for one in results} - {""}) > 1]
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + names[-1:])


def _leverage_title(results: Sequence[CellResult]) -> str:
    on, every, factors = int(np.sum(gaps(results) <= CLOSE)), len(results), varied(results)
    head = "Exposure follows leverage" if on >= FOLLOWS * every else "Exposure does not follow leverage alone"
    whatever = f", whatever the {factors}" if factors else ""
    return f"{head}: {on:,} of {every:,} settings within {CLOSE:g} of their curve{whatever}"


def _leverage_words(results: Sequence[CellResult]) -> str:
    """Say what is drawn, and how many of those off the curve stand near its threshold, where noise matters."""
    words = f"Dots: simulated medians. Curves: {closed_form_words(results)}; several where n or p matters."
    off = [one for one, far in zip(results, gaps(results), strict=True) if far > CLOSE]
    if not off:
        return words
    thresholds = [float(one.cell.law.threshold(one.row["leverage_median"])) for one in off]
    near = sum(most / 2 <= one.cell.count <= 2 * most for one, most in zip(off, thresholds, strict=True))
    share = "all" if near == len(off) else f"{near:,}"
    return f"{words} Of the {len(off):,} further off, {share} are within a factor 2 of its threshold."


def fixed_leverage_figure(study: Study, release: str) -> go.Figure:
    """Draw exposure at a fixed leverage against p, or correlation where p is one; the closed form is level."""
    results = [one for one in study.where(release=release, lacking="") if one.cell.leverage is not None]
    if not results:
        raise InputError(f"no cell of this study with released {release} has a fixed leverage")
    by_p = len({one.cell.p for one in results}) > 1
    along, what = ("p", "Number of columns") if by_p else ("correlation", "Correlation")
    panels: dict[str, list[CellResult]] = {}
    for one in results:
        name = f"leverage {one.cell.leverage:g}" if by_p else one.cell.structure
        panels.setdefault(name, []).append(one)
    ticks = sorted({getattr(one.cell, along) for one in results})
    figure = make_subplots(
        1, len(panels), shared_yaxes=True, subplot_titles=list(panels), horizontal_spacing=0.025
    )
    for turn, count in enumerate(sorted({one.cell.count for one in results})):
        for column, every in enumerate(panels.values(), 1):
            held = [one for one in every if one.cell.count == count]
            places = [ticks.index(getattr(one.cell, along)) for one in held]
            if held:
                traces = _level(held, places, COLOURS[turn % len(COLOURS)])
                law_figures.add_named(figure, traces, law_figures.released(count, release), row=1, col=column)
    stand_alone(figure, *_steady_words(results), legend=True)
    figure.update_xaxes(
        tickvals=np.arange(len(ticks)), ticktext=[f"{t:g}" for t in ticks], range=[-0.5, len(ticks) - 0.5]
    )
    name_exposure(figure, results, 1, len(panels), what)
    return figure


def _steady_words(results: Sequence[CellResult]) -> tuple[str, str]:
    """Return title and subtitle: the range of median exposures among cells of one leverage and count."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for one in results:
        key = (one.cell.leverage, one.cell.count, one.cell.rows)
        groups.setdefault(key, []).append(one.row["exposure_median"])
    spreads, factors = [max(held) - min(held) for held in groups.values()], varied(results)
    return (
        f"At one leverage the {factors} {'move' if ' and ' in factors else 'moves'} the median exposure by "
        f"{np.median(spreads):.2f} typically, {max(spreads):.2f} at most",
        f"Dots: simulated medians and quartiles. Lines: {closed_form_words(results)}.",
    )


def _level(results: list[CellResult], ticks: list[int], colour: str) -> list[go.Scatter]:
    """Draw cells of one count side by side at their ticks, and the closed form across."""
    law = {tick: float(one.row["law_exposure"]) for tick, one in zip(ticks, results, strict=True)}
    heights = [law[tick] for tick in sorted(law)]
    x = [min(law) - 0.4, *sorted(law), max(law) + 0.4]
    y, line = [heights[0], *heights, heights[-1]], {"color": colour, "width": 2}
    across = go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip")
    beside = [ticks[:turn].count(tick) - (ticks.count(tick) - 1) / 2 for turn, tick in enumerate(ticks)]
    step = min(0.15, 0.6 / max(ticks.count(tick) for tick in ticks))
    return [across, law_figures.quartile_dots(results, np.array(ticks) + step * np.array(beside), colour)]
