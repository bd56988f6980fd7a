"""Figures as the paper's application has them: risk by datasets, means over datasets, densities of p-values."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from allbutone.disclosure.measures import HALF
from allbutone.figures.fidelity import NO_MEASUREMENTS
from allbutone.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MOST_ROWS,
    ON_TOP,
    SKY,
    SMALL,
    VERMILION,
    empty,
    frame,
    furthest,
    name_rows,
    of_all,
    room_for,
    text_of,
    wrapped,
)
from allbutone.support.text import counted, number, percent
from allbutone.utility.fidelity import LEVEL, MEAN_BAND, Fidelity

# Figures of leave-one-out risk: how near the adversary comes to each record, by datasets released.


MOST_VALUES = 2000  # of a violin; of more records as many quantiles draw the same shape
LEAST_ERROR = 1e-3  # relative errors below count as this: a logarithmic axis has no zero


def distance_violins(by_count: Mapping[int, Mapping[str, np.ndarray]]) -> go.Figure:
    """Draw how far the adversary's guess is from each record by datasets released, beside guessing the centre.

    `by_count` holds, for each number of datasets, the columns that `risk_columns` returns.
    """
    counts = sorted(by_count)
    middle = [float(np.median(by_count[count]["distance"])) for count in counts]
    centres = [float(np.median(by_count[count]["baseline_distance"])) for count in counts]
    figure = go.Figure()
    for place, count in enumerate(counts):
        for column, side, look in (
            ("baseline_distance", "negative", {"fillcolor": "#D0D0D0", "line": {"width": 1, "color": GREY}}),
            ("distance", "positive", {"fillcolor": SKY, "line": {"width": 1, "color": BLUE}}),
        ):
            name = "guessing the centre" if side == "negative" else "after the release"
            _violin(figure, place, by_count[count][column], name, side=side, **look)
    words = [
        f"{counted(count, 'dataset')}<br>median distance of the guess {number(found)}<br>"
        f"of the centre {number(centre)}"
        for count, found, centre in zip(counts, middle, centres, strict=True)
    ]
    _medians(figure, middle, words)
    message = (
        f"The guess's median distance from the record {_course(counts, middle)}; "
        f"guessing the centre of the others gives {number(centres[-1])}."
    )
    _frame_violins(figure, message, counts)
    return figure.update_yaxes(
        title_text="Distance from the record, in the table's units", rangemode="tozero", tickformat=","
    )


def relative_error_violins(by_count: Mapping[int, Mapping[str, np.ndarray]]) -> go.Figure:
    """Draw the error of the guess over that of guessing the centre, by datasets released; 0.5 is halfway."""
    counts = sorted(by_count)
    errors = [np.maximum(by_count[count]["relative_error"], LEAST_ERROR) for count in counts]
    figure = go.Figure()
    for place, error in enumerate(errors):
        look = {"fillcolor": SKY, "line": {"width": 1, "color": BLUE}}
        _violin(figure, place, np.log10(error), "after the release", side="both", **look)
    exposed = [int(np.sum(by_count[count]["disclosed"])) for count in counts]
    middle = [float(np.median(error)) for error in errors]
    words = [
        f"{counted(count, 'dataset')}<br>median relative error {found:.3g}<br>a value disclosed of {near:,} of "
        f"{len(error):,} people<br>closest {error.min():.3g}"
        for count, found, near, error in zip(counts, middle, exposed, errors, strict=True)
    ]
    _medians(figure, [float(np.log10(one)) for one in middle], words)
    people = len(errors[0])
    message = f"A value is disclosed of {exposed[0]:,} of {people:,} people after "
    message += counted(counts[0], "dataset")
    if len(counts) > 1:
        message += f" and {exposed[-1]:,} after {counted(counts[-1], 'dataset')}"
    _frame_violins(figure, message + ".", counts, legend=False)
    figure.add_hline(y=0, line={"color": INK, "width": 1.5, "dash": "dash"})
    low = min(float(np.log10(min(error.min() for error in errors))), -1.0)
    figure.add_hrect(
        y0=low - 0.1, y1=np.log10(HALF), fillcolor=VERMILION, opacity=0.1, line_width=0, layer="below"
    )
    high = max(float(np.log10(max(error.max() for error in errors))), 0.4)
    ticks = [
        tick
        for tick in (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100, 1000)
        if low <= np.log10(tick) <= high
    ]
    key = "dashed: no better than the centre; shaded: closer than halfway to the record"
    figure.update_xaxes(title_text=wrapped("Number of datasets released", key))
    return figure.update_yaxes(
        title_text="Error over that of guessing the centre", range=[low - 0.1, high + 0.1],
        tickvals=np.log10(ticks), ticktext=[f"{tick:g}" for tick in ticks],
    )  # fmt: skip


def _violin(figure: go.Figure, place: int, values: np.ndarray, name: str, **look: Any) -> None:
    if len(values) > MOST_VALUES:
        values = np.quantile(values, np.linspace(0, 1, MOST_VALUES))
    # each as wide as any other, so each in a group of its own
    figure.add_violin(
        x0=place, y=values.astype(np.float32), name=name, legendgroup=name, showlegend=place == 0, width=0.9,
        scalegroup=f"{place} {name}", points=False, spanmode="hard", hoverinfo="skip", **look,
    )  # fmt: skip


def _medians(figure: go.Figure, middle: list[float], words: list[str]) -> None:
    figure.add_scatter(
        x=np.arange(len(middle)), y=middle, mode="markers", marker={"size": 8, "color": INK}, name="its median",
        hovertext=words, hoverinfo="text",
    )  # fmt: skip


def _frame_violins(figure: go.Figure, message: str, counts: list[int], *, legend: bool = True) -> None:
    frame(figure, message, 440, t=70 if legend else 16)
    if legend:
        figure.update_layout(showlegend=True, legend=ON_TOP)
    figure.update_layout(violinmode="overlay")
    figure.update_xaxes(
        title_text="Number of datasets released", tickvals=np.arange(len(counts)), showgrid=False, tickangle=0,
        ticktext=[f"{count:,}" for count in counts], range=[-0.6, len(counts) - 0.4],
    )  # fmt: skip


def _course(counts: list[int], middle: list[float]) -> str:
    first = f"is {number(middle[0])} after {counted(counts[0], 'dataset')}"
    return first + f" and {number(middle[-1])} after {counted(counts[-1], 'dataset')}" * (len(counts) > 1)


# The paper's supplementary Figures A4 and A5: means over the datasets, where our own figures show medians.


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


# The paper's supplementary Figure A6: densities of the Kolmogorov-Smirnov p-values, a row for each column.


GRID = np.linspace(0, 1, 201)
TALLEST = 1.6  # times as dense as uniform p-values: fills a row


def p_value_densities(fidelity: Fidelity) -> go.Figure:
    """Draw the density of each column's p-values over all datasets, beside that of uniform ones."""
    if not fidelity.ks_p.shape[1]:
        return empty(NO_MEASUREMENTS)
    shown = furthest(1 - fidelity.ks_p_share, MOST_ROWS)
    heights = np.stack([reflected_density(fidelity.ks_p[:, at]) for at in shown])
    tall = 0.85 / max(TALLEST, float(heights.max()))
    figure = go.Figure()
    for row, (at, height) in enumerate(zip(shown, heights, strict=True)):
        base = len(shown) - 1 - row
        name = text_of(fidelity.columns[at], 40)
        figure.add_scatter(x=[0, 1], y=[base, base], mode="lines", line={"width": 0}, hoverinfo="skip")
        figure.add_scatter(
            x=GRID, y=base + tall * height, mode="lines", line={"color": BLUE, "width": 2}, fill="tonexty",
            fillcolor="rgba(86,180,233,0.45)", customdata=height,
            hovertemplate=f"{name}<br>p-value %{{x:.2f}}: density %{{customdata:.2f}}<extra></extra>",
        )  # fmt: skip
        uniform = {"color": INK, "width": 1.5, "dash": "dash"}
        figure.add_scatter(x=[0, 1], y=[base + tall] * 2, mode="lines", line=uniform, hoverinfo="skip")
    worst = shown[int(np.argmin(fidelity.ks_p_share[shown]))]
    share, expected = percent(fidelity.ks_p_share[worst]), percent(1 - LEVEL)
    message = (
        f"Fewest p-values lie above {LEVEL:g} in {fidelity.columns[worst]}: {share} of {len(fidelity.ks_p):,}; "
        f"of uniform ones {expected} would."
    )
    frame(figure, message, 120 + room_for(len(shown), 70, 40), l=20)
    name_rows(figure, [text_of(fidelity.columns[at], 16) for at in shown], 1.0, 0.1)
    figure.update_yaxes(tickvals=np.arange(len(shown))[::-1] + 0.4)
    key = "; ".join(
        filter(None, ("dashed: all p-values equally likely", of_all(len(shown), len(fidelity.columns), "columns")))
    )
    title = wrapped("p-value of the Kolmogorov-Smirnov test, real against synthetic", key)
    return figure.update_xaxes(title_text=title, range=[-0.02, 1.02])


def reflected_density(values: Float[np.ndarray, " k"]) -> Float[np.ndarray, " g"]:
    """Return a normal kernel density on 0 … 1 with Silverman's width; what would lie beyond an end is put back.

    f(x) = Σᵢ Σ_s φ((x − sᵢ)/h)/(k·h) over the images pᵢ, −pᵢ and 2 − pᵢ.
    """
    width = max(1.06 * float(np.std(values)) * len(values) ** -0.2, 0.02)
    images = np.concatenate([values, -values, 2 - values])
    away = (GRID[:, None] - images) / width
    return np.sum(np.exp(-0.5 * away * away), axis=1) / (len(values) * width * np.sqrt(2 * np.pi))
