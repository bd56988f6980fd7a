"""Figures that stand inside a page: as wide as it is, their message in words beside them, names as plain text."""

import html
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from allbutone.plots.style import heading, style

LINE = 37  # characters that fit below the axis of a figure 390 pixels wide
SMALL = 12  # pixels, the smallest letters
FEW = 20  # datasets; up to so many each is drawn, of more a summary
MOST_ROWS = 30  # pairs or columns listed below each other
MANY = 12  # of them; more stand closer together
# a legend in the margin above
ON_TOP = {"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "y": 1, "yanchor": "top"}


def frame(figure: go.Figure, message: str, height: int, **margin: int) -> go.Figure:
    """Give a figure the house style without a title or a width; the page prints `layout.meta["message"]`.

    The message is plain text, names in it as they are: the page escapes it.
    """
    style(figure, "")
    sides = {"l": 60, "r": 16, "t": 16, "b": 70} | margin
    figure.update_layout(title=None, font={"size": 13}, height=height, margin=sides, meta={"message": message})
    figure.update_layout(hoverlabel={"font": {"size": 13}, "align": "left", "namelength": -1})
    figure.update_xaxes(automargin=True, tickfont={"size": SMALL}, title_font={"size": 13})
    figure.update_yaxes(automargin=True, ticklabelstandoff=4, tickfont={"size": SMALL}, title_font={"size": 13})
    return figure


def titled(figure: go.Figure) -> go.Figure:
    """Return a figure that stands alone: its message is its title."""
    text = wrapped(html.escape(figure.layout.meta["message"], quote=False), width=100)
    room = 34 + 22 * (1 + text.count("<br>"))
    height = figure.layout.height + room
    tall = go.Figure(figure).update_layout(margin_t=figure.layout.margin.t + room, height=height)
    if figure.layout.legend.yref == "container":
        tall.update_layout(legend_y=1 - room / height)
    return tall.update_layout(title=heading(text, 17))


def empty(message: str) -> go.Figure:
    """Return a figure that says why there is nothing to draw."""
    figure = frame(go.Figure(), message, 120)
    figure.update_xaxes(visible=False).update_yaxes(visible=False)
    middle = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper", "showarrow": False}
    return figure.add_annotation(text=wrapped(html.escape(message, quote=False)), font={"size": 14}, **middle)


def text_of(name: str, most: int | None = None) -> str:
    """Return a name as the text of a figure: on one line, shortened to `most` characters, its markup escaped.

    So is the per cent sign, with which plotly's templates begin.
    """
    name = " ".join(name.split())
    if most is not None and len(name) > most:
        name = name[: most // 2] + "…" + name[1 - most + most // 2 :]  # names often differ in their ends
    # plotly knows no &quot;, and needs none
    return html.escape(name, quote=False).replace("%", "&#37;")


def wrapped(text: str, small: str = "", width: int = LINE) -> str:
    """Break an axis title into lines that fit a phone, and a key to what is drawn below it in small letters."""
    lines, key = _balanced(text, width), _balanced(small, width + 5)
    return lines + (f"<br><span style='font-size:{SMALL}px;color:#555555'>{key}</span>" if key else "")


def _balanced(text: str, width: int) -> str:
    """Break a text into as few lines as fit the width, of about the same length."""
    few = len(textwrap.wrap(text, width))
    narrowest = next(w for w in range(1, width + 1) if len(textwrap.wrap(text, w)) <= few)
    return "<br>".join(textwrap.wrap(text, narrowest))


def furthest(score: np.ndarray, most: int) -> np.ndarray:
    """Return the places of the largest scores, at most so many, in their old order."""
    return np.sort(np.argsort(-score, kind="stable")[:most])


def of_all(shown: int, total: int, noun: str) -> str:
    """Say that only some are shown, where that is so."""
    return "" if shown == total else f"the {shown} of {total:,} {noun} furthest off are shown"


def room_for(rows: int, each: int, least: int = 26) -> int:
    """Return the pixels of rows below each other, `each` so high, or `least` where there are many."""
    return rows * (each if rows <= MANY else least)


def segments(low: Sequence[float] | np.ndarray, high: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Return the coordinates of one level line for each place, first place on top."""
    count = len(low)
    x = np.column_stack([low, high, np.full(count, np.nan)]).ravel()
    y = np.repeat(np.arange(count)[::-1], 3)
    return {"x": x, "y": y, "mode": "lines", "hoverinfo": "skip"}


def name_rows(figure: go.Figure, labels: Sequence[str], above: float = 0.6, below: float = 0.6) -> None:
    """Write labels beside the rows, first on top."""
    count = len(labels)
    figure.update_yaxes(
        tickvals=np.arange(count)[::-1],
        ticktext=list(labels),
        range=[-below, count - 1 + above],
        ticks="",
        showgrid=False,
        showline=False,
    )
