"""Figures of shapes and shares: densities, quantiles and categories, real beside synthetic."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from plotly.subplots import make_subplots
from scipy.special import ndtri

from allbutone.figures import style
from allbutone.figures.fidelity import (
    CELLS,
    DIVERGING,
    MOST_NAMES,
    MOST_NUMBERS,
    NUMBERED,
    PALE,
    strips,
    strips_key,
    table_of,
)
from allbutone.figures.style import BLUE, GREY, INK, SMALL, VERMILION, furthest, text_of, wrapped
from allbutone.support.text import counted, listed, number, percent
from allbutone.utility.categories import BAND, Counts
from allbutone.utility.fidelity import Fidelity
from allbutone.utility.normality import Normality
from allbutone.utility.shapes import Densities

CHANCE = "#DDDDDD"
KEY = (
    "|r| of measurements; correlation ratio η of a measurement by a category; Cramér's V of categories; "
    "chance alone makes weak η and V a little larger in synthetic data"
)
MOST_PANELS = 12
PAIRS = 8  # panels; up to so many stand two abreast, more of them three
PANEL = 210  # pixels from one line of panels to the next
DOTS = 6000  # of all panels together: beyond that a browser grows slow
_STRENGTH = [[0.0, "#FFFFFF"], [0.5, "#7FB8D8"], [1.0, BLUE]]


def share_figure(fidelity: Fidelity) -> go.Figure:
    """Draw the share of every level: the real one, where chance puts a right model's, and the datasets'."""
    columns = fidelity.categories.shares
    if not columns:
        return style.empty("The release has no categories.")
    names = [(each.columns[0], level) for each in columns for level in each.levels[0]]
    real = np.concatenate([each.shares for each in columns])
    values = np.concatenate([each.synthetic_shares for each in columns], axis=1)
    noise = ndtri(0.975) * np.concatenate([_noise(each) for each in columns])
    quartiles = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    shown = furthest(np.abs(quartiles[1] - real), style.MOST_ROWS)
    off = set(fidelity.beyond_noise().categories.shares)
    good = np.array([names[place][0] not in off for place in shown])
    long, short = ([": ".join(text_of(one, most) for one in names[place]) for place in shown] for most in (40, 10))
    figure = strips(values[:, shown], quartiles[:, shown], long, good)
    hover = [f"{name}<br>real {percent(share)}" for name, share in zip(long, real[shown], strict=True)]
    upright = {"symbol": "line-ns", "line": {"width": 2.5, "color": INK}}
    style.add_dots(figure, real[shown], np.arange(len(shown))[::-1], hover, INK, 18, **upright)
    low, high = np.maximum(real - noise, 0)[shown], np.minimum(real + noise, 1)[shown]
    style.add_rows(figure, low, high, CHANCE, 20)
    figure.data = (figure.data[-1], *figure.data[:-1])  # below all others
    style.frame(figure, _share_message(names, real, quartiles[1], len(values)), 150 + 32 * len(shown), l=20)
    style.name_rows(figure, short)
    key = strips_key(
        len(values),
        "black mark: real",
        "grey: 95 of 100 datasets of a right model",
        "" if good.all() else "orange: shares differ beyond chance",
        style.of_all(len(shown), len(names), "levels"),
    )
    top = 1.05 * max(float(values[:, shown].max()), float(high.max()))
    ends = [-0.01, min(top, 1.03)]
    return figure.update_xaxes(title_text=wrapped("Share of rows", key), tickformat=".0%", range=ends)


def _noise(counts: Counts) -> Float[np.ndarray, " levels"]:
    """Return the standard deviation √(p(1 − p)·(1/n + 1/rows)) of a right model's share about the real one."""
    return np.sqrt(counts.shares * (1 - counts.shares) / np.maximum(np.mean(counts.effective), 1))


def _share_message(
    names: list[tuple[str, str]], real: Float[np.ndarray, " l"], middle: Float[np.ndarray, " l"], datasets: int
) -> str:
    worst = int(np.argmax(np.abs(middle - real)))
    whose = "synthetic share" if datasets == 1 else f"median share of {counted(datasets, 'dataset')}"
    return (
        f"The {whose} is at most {number(100 * abs(middle[worst] - real[worst]), 1)} percentage points away from "
        f"the real one ({': '.join(names[worst])}: {percent(middle[worst])}, really {percent(real[worst])})."
    )


def association_figure(fidelity: Fidelity) -> go.Figure:
    """Draw |r|, η and Cramér's V as one square, real below the diagonal, synthetic above; then the differences."""
    names, kinds = (*fidelity.columns, *fidelity.categories.columns), len(fidelity.columns)
    count, k = len(names), len(fidelity.rows)
    if count < 2:
        return style.empty("A single column goes together with none.")
    real, middle = fidelity.associations, np.median(fidelity.synthetic_associations, axis=0)
    upper = np.triu(np.ones((count, count), dtype=bool), 1)
    square = np.where(upper, middle, real)
    np.fill_diagonal(square, np.nan)
    difference = np.where(upper.T, middle - real, np.nan)
    reach = max(2 * BAND, float(np.nanmax(np.abs(difference), initial=0.0)))
    shown = [text_of(name, 40) for name in names]

    def hover(a: int, b: int) -> str:
        values = f"real {number(real[a, b], 2)}<br>synthetic {number(middle[a, b], 2)}"
        return f"{shown[a]} and {shown[b]}: {_measure(fidelity, a, b)}<br>{values}"

    # pixels of a square, and of what stands above it: names that do not fit side by side are turned
    cell = 50 if count <= 7 else 30 if count <= MOST_NUMBERS else 22
    turned = count > 5 or max(map(len, names)) > 8
    tall, gap = max(count * cell, 150), 150 if turned else 70
    figure = make_subplots(rows=2, cols=1, vertical_spacing=gap / (2 * tall + gap))
    for row, cells, least, most, colours in (
        (1, square, 0.0, 1.0, _STRENGTH),
        (2, difference, -reach, reach, DIVERGING),
    ):
        figure.add_heatmap(
            z=cells, zmin=least, zmax=most, colorscale=colours, showscale=False, text=_texts(cells),
            hovertext=table_of(count, hover), hoverinfo="text", row=row, col=1, **CELLS, **NUMBERED,
        )  # fmt: skip
        if 0 < kinds < count:  # measurements end here
            line = {"color": INK, "width": 1.5}
            figure.add_hline(y=kinds - 0.5, line=line, row=row, col=1)
            figure.add_vline(x=kinds - 0.5, line=line, row=row, col=1)
    message = _association_message(fidelity, names, real, middle)
    style.frame(figure, message, 2 * tall + 2 * gap + 140, l=20, t=20, b=100)
    labels = [text_of(name, 12 if count <= 7 else 8) for name in names]
    ticks = style.BARE | {"tickvals": np.arange(count)}
    figure.update_yaxes(ticktext=labels, autorange="reversed", **ticks)
    figure.update_xaxes(ticktext=labels, tickfont_size=SMALL if count <= MOST_NAMES else 9, **ticks)
    figure.update_xaxes(tickangle=-90 if turned else 0, side="top", title_standoff=10)
    several = f"median of {counted(k, 'dataset')}" if k > 1 else "synthetic data"
    above = f"<b>above the diagonal:</b> {several}<br><b>below the diagonal:</b> real data"
    figure.update_xaxes(title_text=above, row=1, col=1)
    figure.update_xaxes(title_text="<b>synthetic less real</b>", row=2, col=1)
    place = {"x": 0.5, "y": 0, "xref": "paper", "yref": "paper", "yanchor": "top", "yshift": -8}
    figure.add_annotation(text=wrapped("", KEY).removeprefix("<br>"), showarrow=False, **place)
    return figure.update_layout(plot_bgcolor=PALE)


def _texts(cells: Float[np.ndarray, "c c"]) -> list[list[str]]:
    """Write the numbers that fit their cells, without their zeros where there are many."""

    def text(row: int, column: int) -> str:
        if np.isnan(cells[row, column]) or len(cells) > MOST_NUMBERS:
            return ""
        shown = number(cells[row, column], 2)
        return shown if len(cells) <= 7 else shown.replace("0.", ".")

    return table_of(len(cells), text)


def _measure(fidelity: Fidelity, one: int, two: int) -> str:
    categories = sum(place >= len(fidelity.columns) for place in (one, two))
    return ("|r|", "η", "Cramér's V")[categories]


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


# Panels, one for each column: densities, and quantiles against those of a normal table.


def density_figure(densities: Densities) -> go.Figure:
    """Draw the real and the synthetic density of each column over each other."""
    columns, peak = densities.columns, densities.real.max(axis=1)
    gap = np.max(np.abs(densities.synthetic - densities.real), axis=1) / peak
    shown = furthest(gap, MOST_PANELS)
    figure, places = _panels([text_of(columns[at], _room(len(shown))) for at in shown])
    for at, place in zip(shown, places, strict=True):
        hover = f"{text_of(columns[at], 40)}<br>%{{x:.4g}}: density %{{y:.3g}}<extra></extra>"
        for name, values, line, fill in (
            ("real", densities.real, {"color": INK, "width": 1.5}, "tozeroy"),
            ("synthetic", densities.synthetic, {"color": BLUE, "width": 2.5, "dash": "dash"}, None),
        ):
            figure.add_scatter(
                x=densities.grid[at].astype(np.float32), y=values[at].astype(np.float32), mode="lines", line=line,
                fill=fill, fillcolor="rgba(154,154,154,0.35)", name=name, legendgroup=name,
                showlegend=bool(at == shown[0]), hovertemplate=name + "<br>" + hover, **place,
            )  # fmt: skip
        if marks := densities.dates.get(int(at)):
            figure.update_xaxes(tickvals=list(marks), ticktext=list(marks.values()), **place)
    worst = int(np.argmax(gap))
    message = (
        f"The synthetic density is furthest from the real one in {columns[worst]}: "
        f"by {percent(gap[worst])} of the peak's height."
    )
    key = style.of_all(len(shown), len(columns), "columns")
    title = wrapped("Value, in the column's units or on its scale", key)
    _frame_panels(figure, message, places[-1]["row"], title, "Density", 14)
    figure.update_layout(showlegend=True, legend=style.ON_TOP)
    return figure.update_yaxes(showticklabels=False, rangemode="tozero", showgrid=False, ticks="")


def qq_figure(normality: Normality) -> go.Figure:
    """Draw each column's ordered values against those of a normal one, both in standard deviations."""
    columns = normality.columns
    shown = furthest(normality.shape.gap, MOST_PANELS)
    titles = [
        f"{text_of(columns[at], _room(len(shown)))}<br><span style='font-size:{SMALL}px'>"
        f"{normality.verdicts[at].level}</span>"
        for at in shown
    ]
    figure, places = _panels(titles, between=95)  # two lines stand above each
    ends = normality.qq_normal[[0, -1]]
    chosen = _spread(normality.qq_normal, max(60, DOTS // len(shown)))
    for at, place in zip(shown, places, strict=True):
        style.add_line(figure, ends, ends, GREY, 1.5, None, **place)
        hover = f"{text_of(columns[at], 40)}<br>%{{y:.2f}}, if normal %{{x:.2f}}<extra></extra>"
        x, y = normality.qq_normal[chosen], normality.qq_values[at][chosen]
        mark = {"size": 4, "color": _colour_of(normality.verdicts[at].level)}
        figure.add_scatter(x=x, y=y, mode="markers", marker=mark, hovertemplate=hover, **place)
    title = wrapped("Value if normal, in standard deviations", style.of_all(len(shown), len(columns), "columns"))
    beside = "Value, in standard deviations"
    _frame_panels(figure, _qq_message(normality), places[-1]["row"], title, beside, 30)
    low, high = float(normality.qq_values.min()), float(normality.qq_values.max())
    figure.update_layout(margin={"l": 60}).update_yaxes(matches="y", range=[low - 0.3, high + 0.3])
    figure.layout.yaxis.matches = None  # the others follow the first, which cannot follow itself
    for place in places:
        figure.update_yaxes(showticklabels=place["col"] == 1, **place)
    return figure


def _qq_message(normality: Normality) -> str:
    p, other = len(normality.columns), [one for one in normality.verdicts if one.level != "fit"]
    worst = int(np.argmax(normality.shape.gap))
    gap = f"between the 1st and 99th percentile {normality.columns[worst]} departs most from normal, "
    gap += f"by {number(normality.shape.gap[worst], 2)} SD."
    if not other:
        return f"{'All columns are' if p > 1 else 'The column is'} fit for a normal model; {gap}"
    named = listed([f"{one.subject} ({one.level})" for one in other], 5)
    verb = "is" if len(other) == 1 else "are"
    return f"{len(other):,} of {counted(p, 'column')} {verb} not plainly fit: {named}; {gap}"


def distance_qq_figure(normality: Normality) -> go.Figure:
    """Draw the records' Mahalanobis distances against those of a normal table, all columns together."""
    if normality.together is None or not len(normality.squared_distances):
        words = "There are no distances from the centre: too few records, or columns that repeat each other."
        return style.empty(words)
    x, y = np.sqrt(normality.distance_quantiles), np.sqrt(normality.squared_distances)
    chosen, figure = _spread(x, DOTS), go.Figure()
    style.add_line(figure, [0, x[-1]], [0, x[-1]], GREY, 1.5)
    mark = {"size": 5, "color": _colour_of(normality.together.level)}
    hover = "distance %{y:.2f}, if normal %{x:.2f}<extra></extra>"
    figure.add_scatter(x=x[chosen], y=y[chosen], mode="markers", marker=mark, hovertemplate=hover)
    words = normality.together.words
    said = "All columns together fit" if words == "fit" else f"All columns together are {words}"
    style.frame(figure, f"{said}.", 400)
    highest = 1.05 * float(max(x[-1], y[-1]))
    figure.update_yaxes(title_text="Distance of a record from the centre", range=[0, highest])
    key = "in standard deviations (Mahalanobis); one dot for each record"
    title = wrapped("Distance if the table were normal", key)
    return figure.update_xaxes(title_text=title, range=[0, 1.05 * float(x[-1])])


def _colour_of(level: str) -> str:
    return BLUE if level == "fit" else VERMILION


def _room(panels: int) -> int:
    """Return how many characters fit above a panel on a phone."""
    return 20 if panels <= PAIRS else 13


def _panels(titles: list[str], between: int = 75) -> tuple[go.Figure, list[dict[str, int]]]:
    """Return empty panels, two or three abreast, so many pixels between their lines, and where each is."""
    count = len(titles)
    across = min(count, 2 if count <= PAIRS else 3)
    lines = -(-count // across)
    figure = make_subplots(
        lines, across, subplot_titles=titles, horizontal_spacing=0.04 if across == 3 else 0.08,
        vertical_spacing=min(0.3, between / (PANEL * lines)) if lines > 1 else 0,
    )  # fmt: skip
    return figure, [{"row": place // across + 1, "col": place % across + 1} for place in range(count)]


def _frame_panels(figure: go.Figure, message: str, lines: int, x: str, y: str, left: int) -> None:
    """Frame lines of panels, and name the axes that they share once, y so many pixels to the left."""
    more = max(0, 18 * x.count("<br>") - 22)  # lines that the margin has no room for
    style.frame(figure, message, PANEL * lines + 130 + more, l=40, t=70, b=70 + more)
    figure.update_xaxes(nticks=4, tickangle=0).update_yaxes(nticks=5)
    below = {"x": 0.5, "y": 0, "xanchor": "center", "yanchor": "top", "yshift": -26}
    beside = {"x": 0, "y": 0.5, "xanchor": "right", "yanchor": "middle", "xshift": -left, "textangle": -90}
    for text, place in ((x, below), (y, beside)):
        figure.add_annotation(text=text, xref="paper", yref="paper", showarrow=False, **place)
    figure.update_annotations(font={"size": 13})


def _spread(sorted_values: Float[np.ndarray, " q"], most: int) -> np.ndarray:
    """Return places of at most so many values, evenly along the axis, so that the tails keep theirs."""
    if len(sorted_values) <= most:
        return np.arange(len(sorted_values))
    return np.unique(np.searchsorted(sorted_values, np.linspace(sorted_values[0], sorted_values[-1], most)))
