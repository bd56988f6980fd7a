"""The house style: colours, letters and titles of every figure."""

import html
import re
import textwrap

import plotly.graph_objects as go

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
