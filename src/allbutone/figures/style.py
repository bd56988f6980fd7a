"""The house style: colours, letters and titles of every figure, the marks that they share, and names in them."""

import html
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

# Okabe and Ito's colours, told apart by every kind of colour vision
BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
GREY, INK, QUIET = "#9A9A9A", "#222222", "#555555"

LINE = 37  # characters that fit below the axis of a figure 390 pixels wide
SMALL = 12  # pixels, the smallest letters
FEW = 20  # datasets; up to so many each is drawn, of more a summary
MOST_ROWS = 15  # pairs or columns listed below each other
MANY = 12  # of them; more stand closer together
# legends: in the margin above, and at the foot
ON_TOP = {"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "y": 1, "yanchor": "top"}
AT_FOOT = {"orientation": "h", "x": 0.5, "xanchor": "center", "yref": "container", "y": 0.01, "yanchor": "bottom"}
LETTERS = {"automargin": True, "tickfont": {"size": SMALL}, "title_font": {"size": 13}}  # of axes inside a page
BARE = {"showgrid": False, "ticks": "", "showline": False}  # an axis of names alone
SHARES = {"tickvals": [0, 0.25, 0.5, 0.75, 1], "tickformat": ".0%"}  # an axis of probabilities


def stand_alone(figure: go.Figure, message: str, below: str = "", legend: bool = False) -> go.Figure:
    """Give a figure with a page of its own the house style: its message is its title, broken to fit 800 pixels.

    A page that prints the message itself finds it, and what stands below it, in `layout.meta`.
    """
    large = _balanced(html.escape(message, quote=False), 86)
    small = textwrap.wrap(html.escape(below, quote=False), 110)
    quiet = (f"<br><span style='font-size:14px;color:{QUIET}'>{line}</span>" for line in small)
    lines = 1 + large.count("<br>") + len(small)
    _house(figure, 15)
    return figure.update_layout(
        meta={"message": message, "below": below},
        title=_heading(large + "".join(quiet), 19),
        showlegend=legend,
        legend=AT_FOOT if legend else None,
        margin={"l": 80, "r": 40, "t": 60 + 25 * lines, "b": 135 if legend else 100},
    )


def frame(figure: go.Figure, message: str, height: int, **margin: int) -> go.Figure:
    """Give a figure inside a page the house style: as wide as the page, which prints `layout.meta["message"]`.

    The message is plain text, names in it as they are: the page escapes it.
    """
    _house(figure, 13)
    sides = {"l": 60, "r": 16, "t": 16, "b": 70} | margin
    figure.update_layout(meta={"message": message}, height=height, margin=sides, showlegend=False)
    figure.update_layout(hoverlabel={"font": {"size": 13}, "align": "left", "namelength": -1})
    return figure.update_xaxes(LETTERS).update_yaxes(LETTERS, ticklabelstandoff=4)


def _house(figure: go.Figure, size: int) -> None:
    axis = {"gridcolor": "#EBEBEB", "zeroline": False, "linecolor": GREY, "ticks": "outside", "title_standoff": 12}
    font = {"family": "Arial, Helvetica, sans-serif", "size": size, "color": INK}
    figure.update_layout(font=font, template="none", paper_bgcolor="white", plot_bgcolor="white")
    figure.update_layout(xaxis=axis, yaxis=axis).update_xaxes(axis).update_yaxes(axis)


def _heading(text: str, size: int) -> dict[str, object]:
    """Return a title in the upper left corner, the capitals of its first line 14 pixels below the edge."""
    hung = 0 if "<br>" not in text else round(0.71 * size)  # plotly hangs several lines by the first one's base
    place = {"x": 0.02, "xanchor": "left", "yref": "container", "y": 1, "yanchor": "top"}
    return {"text": text, "font": {"size": size}, "pad": {"t": 14 + hung}, **place}


def titled(figure: go.Figure) -> go.Figure:
    """Return a figure made for a page as one that stands alone: its message is its title."""
    text = wrapped(html.escape(figure.layout.meta["message"], quote=False), width=100)
    room = 34 + 22 * (1 + text.count("<br>"))
    height = (figure.layout.height or 560) + room
    tall = go.Figure(figure).update_layout(margin_t=figure.layout.margin.t + room, height=height)
    if figure.layout.legend.yref == "container":
        tall.update_layout(legend_y=1 - room / height)
    return tall.update_layout(title=_heading(text, 17))


def empty(message: str) -> go.Figure:
    """Return a figure that says why there is nothing to draw."""
    figure = frame(go.Figure(), message, 120)
    figure.update_xaxes(visible=False).update_yaxes(visible=False)
    middle = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper", "showarrow": False}
    return figure.add_annotation(text=wrapped(html.escape(message, quote=False)), font={"size": 14}, **middle)


# Marks: each kind is drawn in one way.


def add_dots(
    figure: go.Figure, x: Any, y: Any, words: Sequence[str], colour: Any, size: float = 9, **look: Any
) -> go.Figure:
    """Draw dots, and their words under the pointer."""
    marker = {"size": size, "color": colour} | look
    return figure.add_scatter(x=x, y=y, mode="markers", marker=marker, hovertext=words, hoverinfo="text")


def add_line(
    figure: go.Figure, x: Any, y: Any, colour: str, width: float, dash: str | None = None, **at: Any
) -> None:
    """Draw a line that says nothing under the pointer."""
    look = {"color": colour, "width": width, "dash": dash}
    figure.add_scatter(x=x, y=y, mode="lines", line=look, hoverinfo="skip", **at)


def add_rows(figure: go.Figure, low: Any, high: Any, colour: str, width: float, **how: Any) -> None:
    """Draw one level line for each row, from low to high, the first row on top; `up`: above its place."""
    count = len(low)
    x = np.column_stack([low, high, np.full(count, np.nan)]).ravel()
    y = np.repeat(np.arange(count)[::-1], 3) + how.pop("up", 0)
    add_line(figure, x, y, colour, width, **how)


def add_note(figure: go.Figure, text: str, **place: Any) -> go.Figure:
    """Write a few small words."""
    font = {"size": SMALL, "color": QUIET}
    return figure.add_annotation(text=text, showarrow=False, font=font, **place)


def add_labels(
    figure: go.Figure,
    x: np.ndarray,
    y: np.ndarray,
    texts: Sequence[str],
    spans: tuple[Sequence[float], Sequence[float]],
    size: tuple[float, float],
) -> None:
    """Name the first of the dots, each where its name covers least, joined to it by a thin line.

    On a logarithmic axis x is the logarithm, by which plotly places words. The axes' ranges are `spans`, about
    `size` pixels each. To cover another name, or to leave the axes, is worse than to cover any number of dots.
    """
    ends, taken = np.array(spans, dtype=float), np.empty((0, 2))
    dots = (np.column_stack([x, y]) - ends.mean(axis=1)) * np.array(size) / (ends[:, 1] - ends[:, 0])
    around = [(right, up) for up in (22, -22, 45, -45, 70, -70, 95, -95) for right in (45, 100, 160)]
    around.sort(key=lambda shift: shift[0] ** 2 + shift[1] ** 2)
    thin = {"arrowwidth": 1, "arrowcolor": GREY, "arrowhead": 0, "standoff": 4, "font": {"size": 13, "color": INK}}

    def cost(place: np.ndarray) -> float:
        worst = _near(place, taken, 64, 20) + int(abs(place[1]) > size[1] / 2 - 8)
        return len(dots) * worst + _near(place, dots, 36, 13)

    for turn, text in enumerate(texts):
        # towards the middle, where there is room on the narrowest screen
        inward = [(-right if dots[turn, 0] > 0 else right, up) for right, up in around]
        right, up = min(inward, key=lambda shift: cost(dots[turn] + shift))
        taken = np.vstack([taken, dots[turn] + (right, up)])
        figure.add_annotation(x=float(x[turn]), y=float(y[turn]), text=text, ax=right, ay=-up, **thin)


def _near(place: np.ndarray, things: np.ndarray, width: float, height: float) -> int:
    return int(np.sum(np.all(np.abs(things - place) < (width, height), axis=1)))


def add_band(
    figure: go.Figure, low: float, high: float, colour: str, along: str = "y", opacity: float = 0.1
) -> None:
    """Shade what lies between two values of an axis."""
    ends = {f"{along}0": low, f"{along}1": high}
    shade = figure.add_hrect if along == "y" else figure.add_vrect
    shade(**ends, fillcolor=colour, opacity=opacity, line_width=0, layer="below")


def round_numbers(low: float, high: float, digits: Sequence[int] = (1, 2, 5)) -> list[float]:
    """Return the round numbers from low to high, for the ticks of a logarithmic axis."""
    every = [float(f"{digit}e{power}") for power in range(-10, 13) for digit in digits]
    return [each for each in every if low <= each <= high]


# Rows below each other, and names.


def furthest(score: np.ndarray, most: int) -> np.ndarray:
    """Return the places of the largest scores, at most so many, in their old order."""
    return np.sort(np.argsort(-score, kind="stable")[:most])


def key_of(*parts: str) -> str:
    """Return what the marks of a figure mean, part by part; empty parts are left out."""
    return "; ".join(filter(None, parts))


def of_all(shown: int, total: int, noun: str) -> str:
    """Say that only some are shown, where that is so."""
    return "" if shown == total else f"the {shown} of {total:,} {noun} furthest off are shown"


def room_for(rows: int, each: int, least: int = 26) -> int:
    """Return the pixels of rows below each other, `each` so high, or `least` where there are many."""
    return rows * (each if rows <= MANY else least)


def name_rows(figure: go.Figure, labels: Sequence[str], standing: bool = False) -> None:
    """Write labels beside the rows, first on top; `standing`: what is drawn stands on them, and fills them."""
    above, below, up = (1.0, 0.1, 0.4) if standing else (0.6, 0.6, 0.0)
    places = np.arange(len(labels))[::-1]
    figure.update_yaxes(
        tickvals=places + up, ticktext=list(labels), range=[-below, len(labels) - 1 + above], **BARE
    )


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
    return lines + (f"<br><span style='font-size:{SMALL}px;color:{QUIET}'>{key}</span>" if key else "")


def _balanced(text: str, width: int) -> str:
    """Break a text into as few lines as fit the width, of about the same length."""
    few = len(textwrap.wrap(text, width))
    narrowest = next(w for w in range(1, width + 1) if len(textwrap.wrap(text, w)) <= few)
    return "<br>".join(textwrap.wrap(text, narrowest))
