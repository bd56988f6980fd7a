"""The house style: colours, letters and titles of every figure, and how one stands inside a page."""

import html
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

# The house style: colours, letters and titles of every figure.


# Okabe and Ito's colours, told apart by every kind of colour vision
BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
GREY, INK = "#9A9A9A", "#222222"


def heading(text: str, size: int) -> dict[str, object]:
    """Return a title in the upper left corner, the capitals of its first line 14 pixels below the edge."""
    hung = 0 if "<br>" not in text else round(0.71 * size)  # plotly hangs several lines by the first one's base
    place = {"x": 0.02, "xanchor": "left", "yref": "container", "y": 1, "yanchor": "top"}
    return {"text": text, "font": {"size": size}, "pad": {"t": 14 + hung}, **place}


def style(figure: go.Figure, title: str) -> None:
    """Give a figure, and all panels of it, the house style."""
    axis = {"gridcolor": "#EBEBEB", "zeroline": False, "linecolor": GREY, "ticks": "outside", "title_standoff": 12}
    head, _, below = title.partition("<br><span")
    figure.update_layout(
        meta={"message": _plain(head), "below": _plain(f"<span{below}") if below else ""},
        title=heading(title, 19),
        font={"family": "Arial, Helvetica, sans-serif", "size": 15, "color": INK},
        template="none",
        paper_bgcolor="white",
        plot_bgcolor="white",
        showlegend=False,
        margin={"l": 80, "r": 40, "t": 110, "b": 100},
        xaxis=axis,
        yaxis=axis,
    )
    figure.update_xaxes(axis).update_yaxes(axis)


def style_panels(figure: go.Figure, head: str, below: str) -> None:
    """Give a figure of panels the house style, and a legend at the foot.

    Title and subtitle are broken to fit a page of 800 pixels.
    """
    large, small = textwrap.wrap(head, 86), textwrap.wrap(below, 110)
    style(figure, "<br>".join(large) + "".join(map(smaller, small)))
    foot = {"orientation": "h", "x": 0.5, "xanchor": "center", "yref": "container", "y": 0.01, "yanchor": "bottom"}
    figure.update_layout(margin={"t": 60 + 25 * len(large + small), "b": 135}, showlegend=True, legend=foot)


def smaller(text: str) -> str:
    """Put words on a line of their own below a title, smaller and lighter."""
    return f"<br><span style='font-size:14px;color:#555555'>{text}</span>"


def _plain(words: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", words)).split())


# Figures that stand inside a page: as wide as it is, their message in words beside them, names as plain text.


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
