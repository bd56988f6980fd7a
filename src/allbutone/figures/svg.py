"""A figure as a small picture, drawn without a browser: what a notebook shows of a result."""

from base64 import b64encode
from collections.abc import Iterable
from html import escape

import numpy as np
import plotly.graph_objects as go

from allbutone.figures.parts import Axis, Mark, Parts, Span, Words, parts_of
from allbutone.figures.style import GREY, INK, SMALL

WIDTH = 680
SHORTEST, TALLEST = 200, 600
RIGHT, LINE, LETTER, TICK = 16.0, 15.0, 6.2, 5.0
GRID = "#EBEBEB"
DASHES = {"dash": "7 5", "dot": "2 3"}


class Frame:
    """Where on the picture a place of the data is."""

    def __init__(self, parts: Parts) -> None:
        legend = any(mark.name for mark in parts.marks)
        left = 34.0 + LETTER * max(map(len, parts.y.labels), default=0)
        top, foot = 16.0 + 20.0 * legend, 34.0 + LINE * (1 + parts.x.title.count("\n"))
        self.height: float = float(np.clip(parts.height, SHORTEST, TALLEST))
        self.x: Axis = parts.x
        self.y: Axis = parts.y
        self.box: tuple[float, float, float, float] = (left, top, WIDTH - RIGHT, self.height - foot)

    def across(self, place: float) -> float:
        """Return how far from the left a place of x is."""
        return float(self.box[0] + _share(self.x, place) * (self.box[2] - self.box[0]))

    def down(self, place: float) -> float:
        """Return how far from the top a place of y is."""
        return float(self.box[3] - _share(self.y, place) * (self.box[3] - self.box[1]))


def picture(figure: go.Figure) -> str:
    """Return a figure as an image of HTML, whose words are its message."""
    parts = parts_of(figure)
    if not parts.marks:
        return f"<p>{escape(parts.message)}</p>"
    image = b64encode(_svg(parts).encode()).decode()
    return f'<img alt="{escape(parts.message)}" width="{WIDTH}" src="data:image/svg+xml;base64,{image}">'


def _svg(parts: Parts) -> str:
    frame = Frame(parts)
    left, top, right, foot = frame.box
    inside = [line for span in parts.spans for line in _span(span, frame)]
    inside += [line for mark in parts.marks for line in _mark(mark, frame)]
    area = f'x="{left:g}" y="{top:g}" width="{right - left:g}" height="{foot - top:g}"'
    letters = f'font-family="Arial, Helvetica, sans-serif" font-size="{SMALL}" fill="{INK}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {frame.height:g}" {letters}>',
        f'<rect width="{WIDTH}" height="{frame.height:g}" fill="white"/>',
        f'<clipPath id="axes"><rect {area}/></clipPath>',
        *_axes(frame),
        f'<g clip-path="url(#axes)">{"".join(inside)}</g>',
        *(line for words in parts.words for line in _words(words, frame)),
        *_legend(parts, right),
        "</svg>",
    ]
    return "".join(lines)


def _share(axis: Axis, place: float) -> float:
    """Return where between an axis's ends a place is, of 1."""
    low, high, at = np.log(np.maximum([*axis.ends, place], 1e-300)) if axis.log else (*axis.ends, place)
    return float((at - low) / (high - low))


def _axes(frame: Frame) -> Iterable[str]:
    left, top, right, foot = frame.box
    for place, label in zip(frame.x.places, frame.x.labels, strict=True):
        if frame.x.ends[0] <= place <= frame.x.ends[1]:
            at = frame.across(place)
            yield _line(at, top, at, foot, GRID) + _line(at, foot, at, foot + TICK, GREY)
            yield _text(label, at, foot + TICK + SMALL)
    for place, label in zip(frame.y.places, frame.y.labels, strict=True):
        if frame.y.ends[0] <= place <= frame.y.ends[1]:
            at = frame.down(place)
            yield _line(left, at, right, at, GRID) + _line(left - TICK, at, left, at, GREY)
            yield _text(label, left - TICK - 3, at + 4, "end")
    yield _line(left, top, left, foot, GREY) + _line(left, foot, right, foot, GREY)
    yield _text(frame.x.title, (left + right) / 2, foot + 20 + LINE)
    middle = (top + foot) / 2
    yield f'<g transform="rotate(-90 14 {middle:g})">{_text(frame.y.title, 14, middle)}</g>'


def _line(x: float, y: float, to_x: float, to_y: float, colour: str, width: float = 1, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{DASHES[dash]}"' if dash in DASHES else ""
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def _text(words: str, x: float, y: float, anchor: str = "middle", look: str = "") -> str:
    lines = "".join(
        f'<tspan x="{x:.1f}" dy="{0 if turn == 0 else LINE:g}">{escape(line)}</tspan>'
        for turn, line in enumerate(words.split("\n"))
    )
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{lines}</text>'


def _span(span: Span, frame: Frame) -> Iterable[str]:
    left, top, right, foot = frame.box
    low, high = (frame.across(each) if span.upright else frame.down(each) for each in (span.low, span.high))
    if low == high:
        ends = (low, top, low, foot) if span.upright else (left, low, right, low)
        yield _line(*ends, span.colour, 1.5, span.dash)
    elif span.upright:
        yield _box(low, top, high - low, foot - top, span.colour, span.opacity)
    else:
        yield _box(left, high, right - left, low - high, span.colour, span.opacity)


def _box(x: float, y: float, width: float, height: float, colour: str, opacity: float) -> str:
    area = f'x="{x:.1f}" y="{y:.1f}" width="{width:.2f}" height="{height:.2f}"'
    return f'<rect {area} fill="{colour}" fill-opacity="{opacity:g}"/>'


def _mark(mark: Mark, frame: Frame) -> Iterable[str]:
    if mark.kind == "bars":
        assert mark.base is not None
        for x, y, base in zip(mark.x, mark.y, mark.base, strict=True):
            ends = frame.across(x - mark.size / 2), frame.across(x + mark.size / 2)
            high, low = frame.down(y), frame.down(base)
            yield _box(ends[0], high, ends[1] - ends[0], low - high, mark.colours[0], mark.opacity)
        return
    places = [(frame.across(x), frame.down(y)) for x, y in zip(mark.x, mark.y, strict=True)]
    if mark.kind == "points":
        yield from _errors(mark, frame)
        colours = mark.colours * (1 if len(mark.colours) > 1 else len(places))
        for (x, y), colour in zip(places, colours, strict=True):
            if np.isfinite(x + y):
                yield _dot(x, y, mark.size / 2, colour, mark.opacity, mark.symbol)
        return
    if mark.kind == "area":
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polygon points="{path}" fill="{mark.colours[0]}" fill-opacity="{mark.opacity:g}"/>'
        return
    # a line is broken where its places are not numbers
    steps = (f"{x:.1f},{y:.1f}" if np.isfinite(x + y) else "/" for x, y in places)
    dashed = f' stroke-dasharray="{DASHES[mark.dash]}"' if mark.dash in DASHES else ""
    colour = f'stroke="{mark.colours[0]}" stroke-width="{mark.size:g}" stroke-opacity="{mark.opacity:g}"'
    for piece in " ".join(steps).split("/"):
        if piece.strip():
            yield f'<polyline points="{piece.strip()}" fill="none" {colour}{dashed}/>'


def _errors(mark: Mark, frame: Frame) -> Iterable[str]:
    if mark.low is not None and mark.high is not None:
        for x, low, high in zip(mark.x, mark.low, mark.high, strict=True):
            at = frame.across(x)
            yield _line(at, frame.down(low), at, frame.down(high), mark.colours[0])


def _dot(x: float, y: float, radius: float, colour: str, opacity: float, symbol: str) -> str:
    look = f'fill="{colour}" fill-opacity="{opacity:g}"'
    if symbol == "diamond":
        wide = 1.3 * radius
        corners = f"{x:.1f},{y - wide:.1f} {x + wide:.1f},{y:.1f} {x:.1f},{y + wide:.1f} {x - wide:.1f},{y:.1f}"
        return f'<polygon points="{corners}" {look}/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" {look}/>'


def _words(words: Words, frame: Frame) -> Iterable[str]:
    left, top, right, foot = frame.box
    x = left + words.across * (right - left) if words.x is None else frame.across(words.x)
    y = foot - words.up * (foot - top) if words.y is None else frame.down(words.y)
    right_by, down_by = words.shift
    look = f' fill="{words.colour}" font-size="{words.size:g}"'
    if words.led:
        yield _line(x, y, x + right_by, y + down_by, GREY)
        look += ' stroke="white" stroke-width="3" paint-order="stroke"'  # the line ends before the words
    anchor = {"left": "start", "right": "end"}.get(words.side, "middle")
    yield _text(words.text, x + right_by, y + down_by + 4, anchor, look)


def _legend(parts: Parts, right: float) -> Iterable[str]:
    """Write what the marks are called above the axes, from the right."""
    for mark in parts.marks:
        if mark.name:
            yield _text(mark.name, right, 16, "end")
            right -= LETTER * len(mark.name) + 12
            if mark.kind == "points":
                yield _dot(right, 12, 4, mark.colours[0], 1.0, mark.symbol)
            else:
                yield _line(right - 14, 12, right + 4, 12, mark.colours[0], 3, mark.dash)
            right -= 28
