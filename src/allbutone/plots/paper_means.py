"""The paper's supplementary Figures A4 and A5: means over the datasets, where our own figures show medians."""

import numpy as np
import plotly.graph_objects as go

from allbutone.plots.framing import SMALL, empty, frame, name_rows, text_of
from allbutone.plots.style import BLUE, GREEN, INK, VERMILION
from allbutone.support.text import counted, number
from allbutone.utility.fidelity import MEAN_BAND, Fidelity

_DIVERGING = [[0.0, BLUE], [0.5, "#FFFFFF"], [1.0, VERMILION]]
_LEAST = 0.05  # of a correlation: a smaller difference is not worth a dark colour


def mean_correlation_differences(fidelity: Fidelity) -> go.Figure:
    """Draw the mean difference of each pair's correlation, synthetic less real, as a matrix (Figure A4)."""
    names = [text_of(name, 12) for name in fidelity.columns]
    p, k = len(names), len(fidelity.rows)
    if p == 1:
        return empty("A single column has no correlations.")
    means = fidelity.mean_correlation_differences.copy()
    np.fill_diagonal(means, np.nan)
    most = float(np.nanmax(np.abs(means)))
    reach = max(most, _LEAST)
    texts = [["" if a == b else number(means[a, b], 3) for b in range(p)] for a in range(p)]
    words = "Mean difference of correlations, synthetic less real"
    bar = {
        "orientation": "h", "thickness": 12, "len": 0.9, "x": 0.5, "y": 0, "yanchor": "top", "ypad": 12,
        "outlinewidth": 0,
        "title": {"text": words, "side": "bottom", "font": {"size": 13}},
    }  # fmt: skip
    figure = go.Figure(
        go.Heatmap(
            z=means, zmin=-reach, zmax=reach, colorscale=_DIVERGING, colorbar=bar, text=texts, xgap=1.5, ygap=1.5,
            texttemplate="%{text}", textfont={"size": SMALL}, hoverongaps=False,
            hovertemplate="%{y} and %{x}: %{z:.4f}<extra></extra>", x=names, y=names,
        )
    )  # fmt: skip
    message = f"Averaged over {counted(k, 'dataset')}, correlations differ by at most {number(most, 3)}."
    frame(figure, message, 62 * p + 190, l=20, b=80)
    figure.update_xaxes(side="top", showgrid=False, ticks="", showline=False)
    return figure.update_yaxes(autorange="reversed", showgrid=False, ticks="", showline=False)


def mean_standardized_differences(fidelity: Fidelity) -> go.Figure:
    """Draw the mean standardized difference of each column's mean, with quartiles as error bars (Figure A5)."""
    low, _, high = fidelity.mean_difference_quartiles
    means = fidelity.mean_differences.mean(axis=0)
    height = np.arange(len(means))[::-1]
    bars = {"array": high - means, "arrayminus": means - low, "color": BLUE, "thickness": 2, "width": 7}
    words = [
        f"{text_of(name, 40)}<br>mean {number(mean, 3)}<br>half of the datasets from {number(one, 3)} to "
        f"{number(three, 3)}"
        for name, mean, one, three in zip(fidelity.columns, means, low, high, strict=True)
    ]
    figure = go.Figure(
        go.Scatter(
            x=means, y=height, error_x=bars, mode="markers", marker={"size": 10, "color": BLUE}, hovertext=words,
            hoverinfo="text",
        )
    )  # fmt: skip
    most = number(np.abs(means).max(), 3)
    message = f"Averaged over {counted(len(fidelity.rows), 'dataset')}, means differ by at most {most} SD."
    frame(figure, message, 150 + 44 * len(means), l=20)
    name_rows(figure, [text_of(name, 14) for name in fidelity.columns])
    figure.add_vrect(x0=-MEAN_BAND, x1=MEAN_BAND, fillcolor=GREEN, opacity=0.12, line_width=0, layer="below")
    reach = 1.1 * max(1.4 * MEAN_BAND, float(np.abs([low, high]).max()))
    title = "Standardized mean difference, synthetic less real: dot mean, bar quartiles, shaded within ±0.1"
    figure.update_xaxes(title_text=title, range=[-reach, reach])
    return figure.add_vline(x=0, line={"color": INK, "width": 1})
