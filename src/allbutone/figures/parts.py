"""A figure taken apart into marks, axes and words, for whoever draws it without a browser: a notebook, R.

Figures of one pair of axes with dots, lines, areas and bars can be taken apart. Places are those of the data, also
on logarithmic axes; texts hold no markup.
"""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from allbutone.figures.style import INK, QUIET, SMALL, round_numbers
from allbutone.support.text import number

HEIGHT = 400  # pixels, of a figure that names none
TICKS = 5  # about so many on an axis that names none


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis: its title, its ends, and the places and words of its ticks."""

    title: str
    log: bool
    ends: tuple[float, float]
    places: tuple[float, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Mark:
    """Dots, a line, an area or bars, in one colour or one each; `low` and `high` are the ends of error bars."""

    kind: str
    x: np.ndarray
    y: np.ndarray
    colours: tuple[str, ...]
    opacity: float
    size: float
    dash: str = "solid"
    symbol: str = "circle"
    name: str = ""
    base: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass(frozen=True)
class Span:
    """A line across the figure (from and to the same place), or a band, at places of x (upright) or of y."""

    upright: bool
    low: float
    high: float
    colour: str
    opacity: float = 1.0
    dash: str = "solid"


@dataclass(frozen=True)
class Words:
    """Words at a place; `across` and `up` are shares of the picture where x or y is None.

    shift: how far from the place they stand, in pixels to the right and down; a thin line leads there if `led`.
    side: which side of the words is at the place (left, center, right).
    """

    text: str
    x: float | None
    y: float | None
    across: float
    up: float
    shift: tuple[float, float]
    side: str
    led: bool
    size: float
    colour: str


@dataclass(frozen=True, eq=False)
class Parts:
    """All of a figure."""

    message: str
    height: float
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    spans: tuple[Span, ...]
    words: tuple[Words, ...]


def parts_of(figure: go.Figure) -> Parts:
    """Take a figure apart."""
    marks = _marks(figure)
    axes = {side: _axis(figure.layout[f"{side}axis"], marks, side) for side in "xy"}
    logs = {side: axis.log for side, axis in axes.items()}
    return Parts(
        message=(figure.layout.meta or {}).get("message", ""),
        height=float(figure.layout.height or HEIGHT),
        x=axes["x"],
        y=axes["y"],
        marks=tuple(marks),
        spans=tuple(_span(each) for each in figure.layout.shapes),
        words=tuple(_words(each, logs) for each in figure.layout.annotations if each.text),
    )


def plain(text: str | None) -> str:
    """Return a text of a figure without its markup, in lines."""
    return html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"<br\s*/?>", "\n", text or "")))


def _marks(figure: go.Figure) -> list[Mark]:
    marks: list[Mark] = []
    tops: dict[float, float] = {}  # of bars that are stacked
    for trace in figure.data:
        if trace.type == "bar":
            marks.append(_bars(trace, tops))
        elif trace.type == "scatter":
            marks.append(_scattered(trace, bool(figure.layout.showlegend)))
        else:
            raise ValueError(f"a trace of the kind {trace.type} cannot be drawn without a browser")
    return marks


def _scattered(trace: Any, legend: bool) -> Mark:
    is_points = "markers" in (trace.mode or "")
    colour = trace.marker.color if is_points else trace.fillcolor if trace.fill else trace.line.color
    several = isinstance(colour, list | tuple | np.ndarray)
    y = np.asarray(trace.y, dtype=float)
    ends: dict[str, np.ndarray] = {}
    if trace.error_y.array is not None:
        ends = {"low": y - np.asarray(trace.error_y.arrayminus), "high": y + np.asarray(trace.error_y.array)}
    return Mark(
        kind="points" if is_points else "area" if trace.fill else "line",
        x=np.asarray(trace.x, dtype=float),
        y=y,
        colours=tuple(colour) if several else (colour or INK,),
        opacity=trace.opacity or (trace.marker.opacity if is_points else None) or 1.0,
        size=(trace.marker.size if is_points else trace.line.width) or 2,
        dash=trace.line.dash or "solid",
        symbol=(trace.marker.symbol if is_points else None) or "circle",
        name=plain(trace.name) if legend and trace.name and trace.showlegend is not False else "",
        **ends,
    )


def _bars(trace: Any, tops: dict[float, float]) -> Mark:
    x, y = np.asarray(trace.x, dtype=float), np.asarray(trace.y, dtype=float)
    base = np.array([tops.get(float(place), 0.0) for place in x])
    tops.update(zip(x.tolist(), (base + y).tolist(), strict=True))
    width = float(trace.width) if trace.width is not None else float(np.min(np.diff(x), initial=1.0))
    return Mark("bars", x, base + y, (trace.marker.color or INK,), 1.0, width, base=base)


def _axis(axis: Any, marks: list[Mark], side: str) -> Axis:
    log = axis.type == "log"
    if axis.range is not None:
        low, high = (float(10**end if log else end) for end in axis.range)
    else:
        every = np.concatenate([getattr(mark, side).ravel() for mark in marks])
        every = every[np.isfinite(every)]
        low, high = float(every.min()), float(every.max())
    if axis.tickvals is not None:
        places = [float(each) for each in axis.tickvals]
        texts = axis.ticktext if axis.ticktext is not None else [_label(each, axis) for each in places]
    else:
        places = round_numbers(low, high) if log else _even(low, high)
        texts = [_label(each, axis) for each in places]
    return Axis(plain(axis.title.text), log, (low, high), tuple(places), tuple(plain(str(each)) for each in texts))


def _even(low: float, high: float) -> list[float]:
    """Return round numbers, evenly apart, between the ends."""
    step = next(each for each in round_numbers(0.0, np.inf) if (high - low) / each <= TICKS + 1)
    return [float(turn * step) for turn in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def _label(value: float, axis: Any) -> str:
    return f"{100 * value:.3g} %" if str(axis.tickformat or "").endswith("%") else number(value)


def _span(shape: Any) -> Span:
    upright = str(shape.yref or "").endswith("domain") or shape.yref == "paper"
    low, high = (shape.x0, shape.x1) if upright else (shape.y0, shape.y1)
    is_line = shape.type == "line"
    colour = (shape.line.color if is_line else shape.fillcolor) or INK
    return Span(upright, float(low), float(high), colour, shape.opacity or 1.0, shape.line.dash or "solid")


def _words(note: Any, logs: Mapping[str, bool]) -> Words:
    def place(side: str) -> float | None:
        if note[f"{side}ref"] == "paper":
            return None
        value = float(note[side])
        return float(10**value) if logs[side] else value

    led = note.showarrow is not False and note.ax is not None
    raised = {"bottom": -10.0, "top": 10.0}.get(note.yanchor or "", 0.0)  # of one line: half its height
    beside = (float(note.xshift or 0), raised - float(note.yshift or 0))
    shift = (float(note.ax), float(note.ay)) if led else beside
    return Words(
        text=plain(note.text), x=place("x"), y=place("y"), across=float(note.x), up=float(note.y), shift=shift,
        side=note.xanchor or "center", led=led, size=note.font.size or SMALL, colour=note.font.color or QUIET,
    )  # fmt: skip
