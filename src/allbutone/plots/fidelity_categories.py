"""Figures of categories: shares, and how strongly columns of either kind go together, real beside synthetic."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from plotly.subplots import make_subplots
from scipy.special import ndtri

from allbutone.plots.fidelity import DIVERGING, MOST_NAMES, MOST_NUMBERS, PALE, range_key, ranges
from allbutone.plots.framing import (
    MOST_ROWS,
    SMALL,
    empty,
    frame,
    furthest,
    name_rows,
    of_all,
    segments,
    text_of,
    wrapped,
)
from allbutone.plots.style import BLUE, INK
from allbutone.support.text import counted, number, percent
from allbutone.utility.category_counts import Counts
from allbutone.utility.chance import BAND
from allbutone.utility.fidelity import Fidelity

CHANCE = "#DDDDDD"
KEY = (
    "|r| of measurements; correlation ratio η of a measurement by a category; Cramér's V of categories; "
    "chance alone makes weak η and V a little larger in synthetic data"
)
_STRENGTH = [[0.0, "#FFFFFF"], [0.5, "#7FB8D8"], [1.0, BLUE]]


def share_figure(fidelity: Fidelity) -> go.Figure:
    """Draw the share of every level: the real one, where chance puts a right model's, and the datasets'."""
    columns = fidelity.categories.shares
    if not columns:
        return empty("The release has no categories.")
    names = [(each.columns[0], level) for each in columns for level in each.levels[0]]
    real = np.concatenate([each.shares for each in columns])
    values = np.concatenate([each.synthetic_shares for each in columns], axis=1)
    noise = ndtri(0.975) * np.concatenate([_noise(each) for each in columns])
    quartiles = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    shown = furthest(np.abs(quartiles[1] - real), MOST_ROWS)
    off = set(fidelity.beyond_noise().categories.shares)
    good = np.array([names[place][0] not in off for place in shown])
    words = [f"{text_of(names[place][0], 40)}: {text_of(names[place][1], 40)}" for place in shown]
    figure = ranges(values[:, shown], quartiles[:, shown], words, good)
    low, high = np.maximum(real - noise, 0)[shown], np.minimum(real + noise, 1)[shown]
    height = np.arange(len(shown))[::-1]
    hover = [f"{name}<br>real {percent(share)}" for name, share in zip(words, real[shown], strict=True)]
    mark = {"symbol": "line-ns", "size": 18, "line": {"width": 2.5, "color": INK}}
    figure.add_scatter(x=real[shown], y=height, mode="markers", marker=mark, hovertext=hover, hoverinfo="text")
    figure.add_scatter(**segments(low, high), line={"color": CHANCE, "width": 20})
    figure.data = (figure.data[-1], *figure.data[:-1])  # below all others
    frame(figure, _share_message(names, real, quartiles[1], len(values)), 150 + 32 * len(shown), l=20)
    name_rows(figure, [f"{text_of(names[place][0], 10)}: {text_of(names[place][1], 10)}" for place in shown])
    key = range_key(
        len(values),
        "black mark: real",
        "grey: 95 of 100 datasets of a right model",
        "" if good.all() else "orange: shares differ beyond chance",
        of_all(len(shown), len(names), "levels"),
    )
    top = 1.05 * max(float(values[:, shown].max()), float(high.max()))
    figure.update_xaxes(title_text=wrapped("Share of rows", key), tickformat=".0%", range=[-0.01, min(top, 1.03)])
    return figure


def _noise(counts: Counts) -> Float[np.ndarray, " levels"]:
    """Return the standard deviation √(p(1 − p)·(1/n + 1/rows)) of a right model's share about the real one."""
    return np.sqrt(counts.shares * (1 - counts.shares) / np.maximum(np.mean(counts.effective), 1))


def _share_message(
    names: list[tuple[str, str]], real: Float[np.ndarray, " l"], middle: Float[np.ndarray, " l"], datasets: int
) -> str:
    worst = int(np.argmax(np.abs(middle - real)))
    column, level = names[worst]
    whose = "synthetic share" if datasets == 1 else f"median share of {counted(datasets, 'dataset')}"
    return (
        f"The {whose} is at most {number(100 * abs(middle[worst] - real[worst]), 1)} percentage points away from "
        f"the real one ({column}: {level}: {percent(middle[worst])}, really {percent(real[worst])})."
    )


def association_figure(fidelity: Fidelity) -> go.Figure:
    """Draw |r|, η and Cramér's V as one square, real below the diagonal, synthetic above; then the differences."""
    names = (*fidelity.columns, *fidelity.categories.columns)
    count = len(names)
    if count < 2:
        return empty("A single column goes together with none.")
    real, middle = fidelity.associations, np.median(fidelity.synthetic_associations, axis=0)
    upper = np.triu(np.ones((count, count), dtype=bool), 1)
    square = np.where(upper, middle, real)
    np.fill_diagonal(square, np.nan)
    difference = np.where(upper.T, middle - real, np.nan)
    tall, gap = _sizes(names)
    figure = make_subplots(rows=2, cols=1, vertical_spacing=gap / (2 * tall + gap))
    reach = max(2 * BAND, float(np.nanmax(np.abs(difference), initial=0.0)))
    hover, kinds = _words(fidelity, names, real, middle), len(fidelity.columns)
    for row, (cells, least, most, colours) in enumerate(
        ((square, 0.0, 1.0, _STRENGTH), (difference, -reach, reach, DIVERGING)), start=1
    ):
        figure.add_heatmap(
            z=cells, zmin=least, zmax=most, colorscale=colours, showscale=False, xgap=1.5, ygap=1.5,
            text=_texts(cells), texttemplate="%{text}", textfont={"size": SMALL}, hovertext=hover,
            hoverinfo="text", hoverongaps=False, row=row, col=1,
        )  # fmt: skip
        if 0 < kinds < count:  # measurements end here
            line = {"color": INK, "width": 1.5}
            figure.add_hline(y=kinds - 0.5, line=line, row=row, col=1)
            figure.add_vline(x=kinds - 0.5, line=line, row=row, col=1)
    return _axes(figure, fidelity, names, _association_message(fidelity, names, real, middle))


def _axes(figure: go.Figure, fidelity: Fidelity, names: tuple[str, ...], message: str) -> go.Figure:
    """Name rows and columns, and say above each square what it is."""
    count, k = len(names), len(fidelity.rows)
    labels = [text_of(name, 12 if count <= 7 else 8) for name in names]
    tall, gap = _sizes(names)
    frame(figure, message, 2 * tall + 2 * gap + 140, l=20, t=20, b=100)
    ticks = {"tickvals": np.arange(count), "showgrid": False, "ticks": "", "showline": False}
    figure.update_yaxes(ticktext=labels, autorange="reversed", **ticks)
    turned = {"tickangle": -90 if _turned(names) else 0, "side": "top", "title_standoff": 10}
    figure.update_xaxes(ticktext=labels if count <= MOST_NAMES else [""] * count, **ticks, **turned)
    several = f"median of {counted(k, 'dataset')}" if k > 1 else "synthetic data"
    above = f"<b>above the diagonal:</b> {several}<br><b>below the diagonal:</b> real data"
    figure.update_xaxes(title_text=above, row=1, col=1)
    figure.update_xaxes(title_text="<b>synthetic less real</b>", row=2, col=1)
    place = {"x": 0.5, "y": 0, "xref": "paper", "yref": "paper", "yanchor": "top", "yshift": -8}
    figure.add_annotation(text=wrapped("", KEY).removeprefix("<br>"), showarrow=False, **place)
    return figure.update_layout(plot_bgcolor=PALE)


def _turned(names: tuple[str, ...]) -> bool:
    """Whether names do not fit side by side above the columns."""
    return len(names) > 5 or max(map(len, names)) > 8


def _sizes(names: tuple[str, ...]) -> tuple[int, int]:
    """Return the height of a square, and of what stands above it, in pixels."""
    cell = 50 if len(names) <= 7 else 30 if len(names) <= MOST_NUMBERS else 22
    return max(len(names) * cell, 150), 150 if _turned(names) else 70


def _texts(cells: Float[np.ndarray, "c c"]) -> list[list[str]]:
    """Write the numbers that fit their cells, without their zeros where there are many."""
    if len(cells) > MOST_NUMBERS:
        return [[""] * len(cells)] * len(cells)

    def text(value: float) -> str:
        shown = "" if np.isnan(value) else number(value, 2)
        return shown if len(cells) <= 7 else shown.replace("0.", ".")

    return [[text(value) for value in row] for row in cells]


def _measure(fidelity: Fidelity, one: int, two: int) -> str:
    categories = sum(place >= len(fidelity.columns) for place in (one, two))
    return ("|r|", "η", "Cramér's V")[categories]


def _words(
    fidelity: Fidelity, names: tuple[str, ...], real: Float[np.ndarray, "c c"], middle: Float[np.ndarray, "c c"]
) -> list[list[str]]:
    shown = [text_of(name, 40) for name in names]
    return [
        [
            f"{shown[a]} and {shown[b]}: {_measure(fidelity, a, b)}<br>real {number(real[a, b], 2)}<br>"
            f"synthetic {number(middle[a, b], 2)}"
            for b in range(len(names))
        ]
        for a in range(len(names))
    ]


def _association_message(
    fidelity: Fidelity, names: tuple[str, ...], real: Float[np.ndarray, "c c"], middle: Float[np.ndarray, "c c"]
) -> str:
    off = np.abs(middle - real)
    if np.isnan(off).all():
        return "No two columns have an association."
    one, two = sorted(int(place) for place in np.unravel_index(np.nanargmax(off), off.shape))
    whose = "synthetic association" if len(fidelity.rows) == 1 else "median synthetic association"
    values = f"{number(middle[one, two], 2)}, really {number(real[one, two], 2)}"
    return (
        f"The {whose} is at most {number(off[one, two], 2)} away from the real one ({names[one]} and "
        f"{names[two]}, {_measure(fidelity, one, two)}: {values})."
    )
