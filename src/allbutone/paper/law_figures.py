"""Figures that set simulated exposure beside the expected exposure in closed form, and what an adversary lacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from allbutone.disclosure.measures import HALF
from allbutone.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    smaller,
    style,
    style_panels,
)
from allbutone.paper.design import Cell
from allbutone.paper.run import Study
from allbutone.support.text import counted, number, percent

# Figures of a study that set simulated exposure beside the expected exposure in closed form.


COLOURS = (VERMILION, ORANGE, GREEN, SKY, BLUE, PURPLE, INK, GREY)
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
MOST_SERIES = len(COLOURS)
EXPOSURE = "Exposure: 0 at the centre of the others, 1 at the record"


def where(study: Study, **wanted: Any) -> list[int]:
    """Return the places of the cells whose fields have these values."""
    return [
        place
        for place, cell in enumerate(study.cells)
        if all(getattr(cell, name) == value for name, value in wanted.items())
    ]


def released(count: int, release: str) -> str:
    """Say how much is released: 1 draw, 2 draws, 5 datasets."""
    return counted(count, "draw" if release == "parameters" else "dataset")


@dataclass(frozen=True)
class Series:
    """Cells that differ only in how much is released: their places in the study, and what sets them apart."""

    name: str
    places: list[int]


def series_of(study: Study, places: Sequence[int]) -> list[Series]:
    """Group cells that differ only in count and rows; name each group by what differs between groups."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place in places:
        cell = study.cells[place]
        strength = f"{cell.structure} {cell.correlation:g}" if cell.correlation else cell.structure
        towards = "" if cell.target else f"towards {direction_of(cell)}"
        hidden = (f"{cell.mean}", f"{cell.covariance}")
        lacking = f"lacking {cell.lacking or 'nothing'}"
        words = (f"n = {cell.n:,}", position_of(cell), strength, towards, lacking)
        groups.setdefault((*words, *hidden), []).append(place)
    # a direction tells apart only those that have one
    told = [len(set(column) - {""}) > 1 for column in zip(*groups, strict=True)]
    names = [
        ", ".join(word for word, tells in zip(each[:5], told, strict=False) if tells and word) for each in groups
    ]
    return [Series(name, held) for name, held in zip(names, groups.values(), strict=True)]


def position_of(cell: Cell) -> str:
    """Say where the target lies, in few words."""
    if cell.target is not None and len(cell.target) > 2 and len(set(cell.target)) == 1:
        return f"({cell.target[0]:g}, …, {cell.target[0]:g})"
    return cell.position.removeprefix("at ")


def direction_of(cell: Cell) -> str:
    """Say in which direction the target lies; all columns alike is one direction, however many there are."""
    values = cell.direction[:1] if len(set(cell.direction)) == 1 else cell.direction
    return ", ".join(f"{value:.2g}" for value in values)


def exposure_figure(study: Study, release: str, p: int) -> go.Figure:
    """Draw exposure against the number released: the closed form, and simulated medians and quartiles."""
    series = series_of(study, where(study, release=release, p=p))
    sizes = sorted({study.cells[place].rows for one in series for place in one.places}, key=lambda rows: rows or 0)
    columns = min(3, len(sizes))
    lines = -(-len(sizes) // columns)
    figure = make_subplots(
        lines, columns, shared_xaxes=True, shared_yaxes=True, horizontal_spacing=0.025, vertical_spacing=0.09,
        subplot_titles=[f"{rows:,} rows a dataset" for rows in sizes if rows is not None],
    )  # fmt: skip
    halves: list[tuple[float, str]] = []
    named: set[str] = set()
    for (panel, rows), (turn, one) in product(enumerate(sizes), enumerate(series)):
        places = [place for place in one.places if study.cells[place].rows == rows]
        if places:
            for trace in _law_and_dots(study, places, COLOURS[turn], turn - (len(series) - 1) / 2):
                trace.update(name=one.name, legendgroup=one.name)
                trace.showlegend = bool(one.name) and trace.mode == "lines" and one.name not in named
                figure.add_trace(trace, row=panel // columns + 1, col=panel % columns + 1)
            named.add(one.name)
            words = [f"{rows:,} rows" if len(sizes) > 1 else "", one.name]
            halves.append((_half_exposed(study, places), " and ".join(filter(None, words))))
    held = [place for one in series for place in one.places]
    below = f"Dots: simulated medians and quartiles. Curves: {closed_form_words(study, held)}."
    style_panels(figure, _exposure_title(release, halves), below)
    counts = sorted({study.cells[place].count for place in held})
    figure.update_xaxes(
        type="log", tickvals=counts, ticktext=[f"{count:,}" for count in counts], tickangle=0,
        range=[np.log10(counts[0] * 0.85), np.log10(counts[-1] * 1.2)],
    )  # fmt: skip
    show_exposure(figure, study, held)
    label_axes(figure, lines, columns, "Draws released" if release == "parameters" else "Datasets released")
    return figure


def _law_and_dots(study: Study, places: list[int], colour: str, aside: float) -> list[go.Scatter]:
    """Draw one series: the closed form at its leverage, and the simulated medians, a hair aside."""
    counts = np.array([study.cells[place].count for place in places], dtype=float)
    leverage = float(np.median([study.rows[place]["leverage_median"] for place in places]))
    fine = np.geomspace(counts.min(), max(counts.max(), counts.min() + 1), 80)
    law = go.Scatter(
        x=fine,
        y=study.cells[places[0]].law.exposure(leverage, fine),
        mode="lines",
        line={"color": colour, "width": 2.5, "simplify": False},
        hoverinfo="skip",
    )
    return [law, quartile_dots(study, places, counts * 1.01**aside, colour)]


def quartile_dots(study: Study, places: Sequence[int], x: np.ndarray, colour: str) -> go.Scatter:
    """Draw simulated median exposures between their quartiles."""
    low, median, high = (
        np.array([study.rows[place][f"exposure_{name}"] for place in places]) for name in ("q25", "median", "q75")
    )
    return go.Scatter(
        x=x,
        y=median,
        error_y={"array": high - median, "arrayminus": median - low, "thickness": 1.2, "width": 0},
        mode="markers",
        marker={"color": colour, "size": 8, "line": {"width": 1, "color": "white"}},
        hovertext=[described(study, place) for place in places],
        hoverinfo="text",
    )


def _half_exposed(study: Study, places: list[int]) -> float:
    """Return the fewest that are expected to expose by more than half."""
    leverage = float(np.median([study.rows[place]["leverage_median"] for place in places]))
    return float(study.cells[places[0]].law.most(leverage, HALF)) + 1


def _exposure_title(release: str, halves: list[tuple[float, str]]) -> str:
    (few, easy), (many, hard) = min(halves), max(halves)
    least, most = released(int(few), release), released(int(many), release)
    if few == many:
        return f"It takes {least} to bring the best guess halfway to the record"
    return f"It takes {least} to come halfway to the record at {easy}, {most} at {hard}"


def expected_exposure(study: Study, place: int) -> float:
    """Return the expected exposure (closed form) at a cell's median leverage."""
    return float(study.rows[place]["law_exposure"])


def gaps(study: Study, places: Sequence[int]) -> np.ndarray:
    """Return how far each cell's median exposure is from the closed form's."""
    return np.array(
        [abs(study.rows[place]["exposure_median"] - expected_exposure(study, place)) for place in places]
    )


def closed_form_words(study: Study, places: Sequence[int]) -> str:
    """Name the closed form, and say how far it is from the simulation."""
    found = gaps(study, places)
    return f"expected (closed form), typically {np.median(found):.1g} and at most {found.max():.2f} off"


def described(study: Study, place: int) -> str:
    """Say all about a cell, for those who hover over it."""
    cell, row = study.cells[place], study.rows[place]
    lines = [
        f"<b>{released(cell.count, cell.release)}{f' of {cell.rows:,} rows' if cell.rows else ''}</b>",
        f"n = {cell.n:,}, p = {cell.p}, {cell.structure}{f' {cell.correlation:g}' if cell.correlation else ''}",
        f"target {cell.position:.40}, leverage {row['leverage_median']:.3g}",
        f"exposure {row['exposure_median']:.2f} ({row['exposure_q25']:.2f} to {row['exposure_q75']:.2f}), "
        f"expected {expected_exposure(study, place):.2f}",
        f"distance {row['median']:.1f} ({row['q25']:.1f} to {row['q75']:.1f}), expected {row['law_median']:.1f}",
    ]
    if row["published_median"] is not None:
        differs = row["differs_in"] and "median" in row["differs_in"].split()
        lines.append(f"published {row['published_median']:.1f}{': differs' if differs else ''}")
    return "<br>".join(lines)


def show_exposure(figure: go.Figure, study: Study, places: Sequence[int]) -> None:
    """Let all vertical axes show exposures from 0 to 1, and the quartiles beyond."""
    lowest = min(study.rows[place]["exposure_q25"] for place in places)
    figure.update_yaxes(range=[min(-0.08, lowest - 0.04), 1.07], dtick=0.25, tickformat=".2~f")


def label_axes(figure: go.Figure, lines: int, columns: int, x: str, y: str = EXPOSURE) -> None:
    """Name the axes once a row or column of panels, at the edge."""
    for line in range(1, lines + 1):
        figure.update_yaxes(title_text=y if lines == 1 else y.split(":")[0], row=line, col=1)
    for column in range(1, columns + 1):
        figure.update_xaxes(title_text=x, row=lines, col=column)


# How the risk falls with what the adversary lacks: columns of everyone, or records besides the target.


KINDS = {"records": "Other records lacking, besides the target", "columns": "Columns of everyone lacking"}
_PANELS = {"information_gain": "Information gain, nats", "exposure": "Exposure"}
_COLOURS = {"information_gain": BLUE, "exposure": VERMILION}


def lacking_figure(found: Mapping[str, np.ndarray], rows: Sequence[int]) -> go.Figure:
    """Draw gain and exposure of some records (`rows`, from 1) by how much is lacking.

    `found` as `risk_by_lacking` returns it. Thin lines are records, the thick one their median.
    """
    kinds = [kind for kind in KINDS if np.any(found["lacking"] == kind)]
    share = {"shared_xaxes": "columns", "shared_yaxes": "rows"}
    figure = make_subplots(len(_PANELS), len(kinds), vertical_spacing=0.06, horizontal_spacing=0.06, **share)
    for column, kind in enumerate(kinds, 1):
        for line, (name, words) in enumerate(_PANELS.items(), 1):
            at, (numbers, values) = {"row": line, "col": column}, _by_number(found, kind, name, rows)
            for row, each in zip(rows, values, strict=True):
                told = [f"row {row}, {n} lacking: {number(v)}" for n, v in zip(numbers, each, strict=True)]
                look = {"mode": "lines", "line": {"color": GREY, "width": 1}, "hoverinfo": "text"}
                figure.add_scatter(x=numbers, y=each, hovertext=told, **look, **at)
            look = {"mode": "lines+markers", "line": {"color": _COLOURS[name], "width": 3}, "hoverinfo": "skip"}
            figure.add_scatter(x=numbers, y=np.median(values, axis=0), **look, **at)
            if column == 1:
                figure.update_yaxes(title_text=words, **at)
            if name == "exposure":  # next to the others' centre it is anything
                figure.update_yaxes(range=[-0.55, 1.25], **at)
        figure.update_xaxes(title_text=KINDS[kind], row=len(_PANELS), col=column)
    below = (
        f"Thin: the {counted(len(rows), 'record')} most exposed to one who lacks nothing; thick: their median. "
    )
    below += "Confidential: it describes individual records."
    style(figure, _message(found, rows, kinds) + smaller(below))
    return figure.update_layout(height=640)


def _by_number(
    found: Mapping[str, np.ndarray], kind: str, name: str, rows: Sequence[int]
) -> tuple[list[int], np.ndarray]:
    """Return the numbers lacking, and a measure of each record at each of them."""
    held = found["lacking"] == kind
    numbers = sorted(set(found["number"][held].tolist()))
    values = [
        [found[name][held & (found["number"] == n) & (found["row"] == row)][0] for n in numbers] for row in rows
    ]
    return numbers, np.array(values)


def _message(found: Mapping[str, np.ndarray], rows: Sequence[int], kinds: Sequence[str]) -> str:
    """Say how the gain falls of the record that the release tells most of."""
    parts, best, start = [], 0, ""
    for kind in kinds:
        numbers, gain = _by_number(found, kind, "information_gain", rows)
        best = int(np.argmax(gain[:, 0]))
        start, lacking = number(gain[best, 0]), counted(numbers[-1], kind.removesuffix("s"))
        parts.append(f"to {number(gain[best, -1])} where the adversary lacks {lacking}")
    return f"Row {rows[best]}: the gain falls from {start} nats {', '.join(parts)}"


def study_lacking_figure(study: Study, release: str) -> go.Figure:
    """Draw simulated exposure against what is lacking, a colour for each number released."""
    places = where(study, release=release)
    kinds = [kind for kind in KINDS if any(getattr(study.cells[at], f"lacking_{kind}") for at in places)]
    counts = sorted({study.cells[at].count for at in places})
    titles = [KINDS[kind] for kind in kinds]
    figure = make_subplots(1, len(kinds), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.04)
    for column, kind in enumerate(kinds, 1):
        other = next(name for name in KINDS if name != kind)
        alone = [at for at in places if not getattr(study.cells[at], f"lacking_{other}")]
        for turn, count in enumerate(counts):
            held = [at for at in alone if study.cells[at].count == count]
            x = np.array([getattr(study.cells[at], f"lacking_{kind}") for at in held]) + 0.06 * turn
            dots = quartile_dots(study, held, x, COLOURS[turn % len(COLOURS)])
            dots.update(mode="lines+markers", name=released(count, release), showlegend=column == 1)
            figure.add_trace(dots, row=1, col=column)
    first, last = (_median_at(study, places, kinds[0], pick) for pick in (min, max))
    head = f"The guess comes {percent(first[1])} of the way to the record where nothing is lacking, "
    head += f"{percent(last[1])} where "
    head += f"{counted(last[0], kinds[0].removesuffix('s'))} {'are' if last[0] != 1 else 'is'}"
    style_panels(figure, head, f"After {released(counts[-1], release)}. Dots: medians between quartiles.")
    figure.update_yaxes(title_text=EXPOSURE, row=1, col=1)
    return figure


def _median_at(study: Study, places: Sequence[int], kind: str, pick: object) -> tuple[int, float]:
    """Return the fewest or most lacking, and the median exposure there after the most that is released."""
    assert callable(pick)
    other = next(name for name in KINDS if name != kind)
    most = max(study.cells[at].count for at in places)
    held = {
        getattr(study.cells[at], f"lacking_{kind}"): study.rows[at]["exposure_median"]
        for at in places
        if study.cells[at].count == most and not getattr(study.cells[at], f"lacking_{other}")
    }
    number = pick(held)
    return number, held[number]
