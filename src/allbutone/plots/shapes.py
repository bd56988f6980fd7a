"""Figures of shapes: densities, real and synthetic, and quantiles against those of a normal table."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from plotly.subplots import make_subplots

from allbutone.plots.framing import ON_TOP, SMALL, empty, frame, furthest, of_all, text_of, wrapped
from allbutone.plots.style import BLUE, GREY, INK, VERMILION
from allbutone.support.text import counted, number, percent
from allbutone.utility.marginal_densities import Densities
from allbutone.utility.normality import Normality

MOST_PANELS = 24
PAIRS = 8  # panels; up to so many stand two abreast, more of them three
PANEL = 210  # pixels from one line of panels to the next
DOTS = 6000  # of all panels together: beyond that a browser grows slow


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
    worst = int(np.argmax(gap))
    message = (
        f"The synthetic density is furthest from the real one in {columns[worst]}: "
        f"by {percent(gap[worst])} of the peak's height."
    )
    _frame_panels(figure, message, len(shown))
    figure.update_yaxes(showticklabels=False, rangemode="tozero", showgrid=False, ticks="")
    _name_axes(
        figure,
        "Value, in the column's units or on its scale",
        "Density",
        of_all(len(shown), len(columns), "columns"),
        14,
    )
    return figure


def qq_figure(normality: Normality) -> go.Figure:
    """Draw each column's ordered values against those of a normal one, both in standard deviations."""
    columns = normality.columns
    shown = furthest(normality.shape.gap, MOST_PANELS)
    titles = [
        f"{text_of(columns[at], _room(len(shown)))}<br><span style='font-size:{SMALL}px'>"
        f"{normality.verdicts[at].level}</span>"
        for at in shown
    ]
    figure, places = _panels(titles)
    ends = normality.qq_normal[[0, -1]]
    chosen = _spread(normality.qq_normal, max(60, DOTS // len(shown)))
    for at, place in zip(shown, places, strict=True):
        fit = normality.verdicts[at].level == "fit"
        mark = {"size": 4, "color": BLUE if fit else VERMILION}
        x, y = normality.qq_normal[chosen], normality.qq_values[at][chosen]
        hover = f"{text_of(columns[at], 40)}<br>%{{y:.2f}}, if normal %{{x:.2f}}<extra></extra>"
        figure.add_scatter(
            x=ends, y=ends, mode="lines", line={"color": GREY, "width": 1.5}, hoverinfo="skip", **place
        )
        figure.add_scatter(x=x, y=y, mode="markers", marker=mark, hovertemplate=hover, **place)
    _frame_panels(figure, _qq_message(normality), len(shown), legend=False)
    key = of_all(len(shown), len(columns), "columns")
    _name_axes(figure, "Value if normal, in standard deviations", "Value, in standard deviations", key, 30)
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
    named = ", ".join(f"{one.subject} ({one.level})" for one in other[:5])
    named += f" and {len(other) - 5:,} more" * (len(other) > 5)
    verb = "is" if len(other) == 1 else "are"
    return f"{len(other):,} of {counted(p, 'column')} {verb} not plainly fit: {named}; {gap}"


def distance_qq_figure(normality: Normality) -> go.Figure:
    """Draw the records' Mahalanobis distances against those of a normal table, all columns together."""
    if normality.together is None or not len(normality.squared_distances):
        return empty("There are no distances from the centre: too few records, or columns that repeat each other.")
    verdict = normality.together
    message = f"All columns together are {verdict.words}."
    x, y = np.sqrt(normality.distance_quantiles), np.sqrt(normality.squared_distances)
    ends = [0.0, float(max(x[-1], y[-1]))]
    chosen = _spread(x, DOTS)
    figure = go.Figure()
    figure.add_scatter(
        x=[0, x[-1]], y=[0, x[-1]], mode="lines", line={"color": GREY, "width": 1.5}, hoverinfo="skip"
    )
    figure.add_scatter(
        x=x[chosen], y=y[chosen], mode="markers",
        marker={"size": 5, "color": BLUE if verdict.level == "fit" else VERMILION},
        hovertemplate="distance %{y:.2f}, if normal %{x:.2f}<extra></extra>",
    )  # fmt: skip
    frame(figure, message, 400)
    figure.update_yaxes(title_text="Distance of a record from the centre", range=[0, 1.05 * ends[1]])
    title = wrapped(
        "Distance if the table were normal", "in standard deviations (Mahalanobis); one dot for each record"
    )
    return figure.update_xaxes(title_text=title, range=[0, 1.05 * float(x[-1])])


def _room(panels: int) -> int:
    """Return how many characters fit above a panel on a phone."""
    return 20 if panels <= PAIRS else 13


def _panels(titles: list[str]) -> tuple[go.Figure, list[dict[str, int]]]:
    """Return empty panels, two or three abreast, and where each is."""
    count = len(titles)
    across = min(count, 2 if count <= PAIRS else 3)
    lines = -(-count // across)
    figure = make_subplots(
        lines, across, subplot_titles=titles, horizontal_spacing=0.04 if across == 3 else 0.08,
        vertical_spacing=min(0.3, 75 / (PANEL * lines)) if lines > 1 else 0,
    )  # fmt: skip
    return figure, [{"row": place // across + 1, "col": place % across + 1} for place in range(count)]


def _frame_panels(figure: go.Figure, message: str, count: int, *, legend: bool = True) -> None:
    lines = -(-count // (2 if count <= PAIRS else 3)) if count > 1 else 1
    frame(figure, message, PANEL * lines + 130, l=40, t=70)
    if legend:
        figure.update_layout(showlegend=True, legend=ON_TOP)
    figure.update_xaxes(nticks=4, tickangle=0).update_yaxes(nticks=5)
    figure.update_annotations(font={"size": 13})


def _spread(sorted_values: Float[np.ndarray, " q"], most: int) -> np.ndarray:
    """Return places of at most so many values, evenly along the axis, so that the tails keep theirs."""
    if len(sorted_values) <= most:
        return np.arange(len(sorted_values))
    return np.unique(np.searchsorted(sorted_values, np.linspace(sorted_values[0], sorted_values[-1], most)))


def _name_axes(figure: go.Figure, x: str, y: str, key: str, left: int) -> None:
    """Name the axes that all panels share, once."""
    below = {"x": 0.5, "y": 0, "xanchor": "center", "yanchor": "top", "yshift": -26}
    beside = {"x": 0, "y": 0.5, "xanchor": "right", "yanchor": "middle", "xshift": -left, "textangle": -90}
    title = wrapped(x, key)
    more = max(0, 18 * title.count("<br>") - 22)  # lines that the margin has no room for
    figure.update_layout(height=figure.layout.height + more, margin={"b": figure.layout.margin.b + more})
    for text, place in ((title, below), (y, beside)):
        figure.add_annotation(text=text, xref="paper", yref="paper", showarrow=False, font={"size": 13}, **place)
