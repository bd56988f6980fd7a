"""Figures as the paper's application has them: risk by datasets, means over datasets, densities of p-values."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from allbutone.disclosure.measures import HALF
from allbutone.figures import style
from allbutone.figures.fidelity import (
    CELLS,
    NO_MEASUREMENTS,
    NUMBERED,
    ONE_COLUMN,
    centre_on_zero,
    colour_bar,
    table_of,
)
from allbutone.figures.style import BLUE, GREEN, GREY, INK, SKY, VERMILION, furthest, text_of, wrapped
from allbutone.support.text import counted, number, percent
from allbutone.utility.fidelity import LEVEL, MEAN_BAND, Fidelity

MOST_VALUES = 2000  # of a violin; of more records as many quantiles draw the same shape
LEAST_ERROR = 1e-3  # relative errors below count as this: a logarithmic axis has no zero
GRID = np.linspace(0, 1, 201)
TALLEST = 1.6  # times as dense as uniform p-values: fills a row
_DIVERGING = [[0.0, BLUE], [0.5, "#FFFFFF"], [1.0, VERMILION]]
_LEAST = 0.05  # of a correlation: a smaller difference is not worth a dark colour
_AFTER: dict[str, Any] = {"name": "after the release", "fillcolor": SKY, "line": {"width": 1, "color": BLUE}}
_CENTRE: dict[str, Any] = {
    "name": "guessing the centre",
    "fillcolor": "#D0D0D0",
    "line": {"width": 1, "color": GREY},
}

# How near the adversary comes to each record, by datasets released.


def distance_violins(by_count: Mapping[int, Mapping[str, np.ndarray]]) -> go.Figure:
    """Draw how far the adversary's guess is from each record by datasets released, beside guessing the centre.

    `by_count` holds, for each number of datasets, the columns that `risk_columns` returns.
    """
    counts = sorted(by_count)
    middle = [float(np.median(by_count[count]["distance"])) for count in counts]
    centres = [float(np.median(by_count[count]["baseline_distance"])) for count in counts]
    figure = go.Figure()
    for place, count in enumerate(counts):
        _violin(figure, place, by_count[count]["baseline_distance"], side="negative", **_CENTRE)
        _violin(figure, place, by_count[count]["distance"], side="positive", **_AFTER)
    words = [
        f"{counted(count, 'dataset')}<br>median distance of the guess {number(guess)}<br>"
        f"of the centre {number(centre)}"
        for count, guess, centre in zip(counts, middle, centres, strict=True)
    ]
    course = f"is {number(middle[0])} after {counted(counts[0], 'dataset')}"
    course += f" and {number(middle[-1])} after {counted(counts[-1], 'dataset')}" * (len(counts) > 1)
    message = (
        f"The guess's median distance from the record {course}; guessing the centre of the others gives "
        f"{number(centres[-1])}."
    )
    _finish_violins(figure, message, counts, middle, words)
    figure.update_layout(showlegend=True, legend=style.ON_TOP, margin={"t": 70})
    title = "Distance from the record, in the table's units"
    return figure.update_yaxes(title_text=title, rangemode="tozero", tickformat=",")


def relative_error_violins(by_count: Mapping[int, Mapping[str, np.ndarray]]) -> go.Figure:
    """Draw the error of the guess over that of guessing the centre, by datasets released; 0.5 is halfway."""
    counts = sorted(by_count)
    errors = [np.maximum(by_count[count]["relative_error"], LEAST_ERROR) for count in counts]
    figure = go.Figure()
    for place, error in enumerate(errors):
        _violin(figure, place, np.log10(error), side="both", **_AFTER)
    exposed = [int(np.sum(by_count[count]["disclosed"])) for count in counts]
    words = [
        f"{counted(count, 'dataset')}<br>median relative error {np.median(error):.3g}<br>a value disclosed of "
        f"{near:,} of {len(error):,} people<br>closest {error.min():.3g}"
        for count, near, error in zip(counts, exposed, errors, strict=True)
    ]
    message = f"A value is disclosed of {exposed[0]:,} of {len(errors[0]):,} people after "
    message += counted(counts[0], "dataset")
    if len(counts) > 1:
        message += f" and {exposed[-1]:,} after {counted(counts[-1], 'dataset')}"
    medians = [float(np.log10(np.median(error))) for error in errors]
    _finish_violins(figure, message + ".", counts, medians, words)
    figure.add_hline(y=0, line={"color": INK, "width": 1.5, "dash": "dash"})
    low = min(float(np.log10(min(error.min() for error in errors))), -1.0)
    high = max(float(np.log10(max(error.max() for error in errors))), 0.4)
    style.add_band(figure, low - 0.1, float(np.log10(HALF)), VERMILION)
    known = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100, 1000)
    ticks = [tick for tick in known if low <= np.log10(tick) <= high]
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


def _finish_violins(
    figure: go.Figure, message: str, counts: list[int], medians: list[float], words: list[str]
) -> None:
    """Mark the medians, and name the violins by the number of datasets."""
    style.add_dots(figure, np.arange(len(counts)), medians, words, INK, 8)
    figure.data[-1].name = "its median"
    style.frame(figure, message, 440)
    figure.update_layout(violinmode="overlay")
    figure.update_xaxes(
        title_text="Number of datasets released", tickvals=np.arange(len(counts)), showgrid=False, tickangle=0,
        ticktext=[f"{count:,}" for count in counts], range=[-0.6, len(counts) - 0.4],
    )  # fmt: skip


# The paper's supplementary Figures A4 to A6: means over the datasets, where our own figures show medians.


def mean_correlation_differences(fidelity: Fidelity) -> go.Figure:
    """Draw the mean difference of each pair's correlation, synthetic less real, as a matrix (Figure A4)."""
    names = [text_of(name, 12) for name in fidelity.columns]
    if len(names) == 1:
        return style.empty(ONE_COLUMN)
    means = fidelity.mean_correlation_differences.copy()
    np.fill_diagonal(means, np.nan)
    most = float(np.nanmax(np.abs(means)))
    reach = max(most, _LEAST)
    texts = table_of(len(names), lambda a, b: "" if a == b else number(means[a, b], 3))
    bar = colour_bar("Mean difference of correlations, synthetic less real")
    figure = go.Figure(
        go.Heatmap(
            z=means, zmin=-reach, zmax=reach, colorscale=_DIVERGING, colorbar=bar, text=texts, x=names, y=names,
            hovertemplate="%{y} and %{x}: %{z:.4f}<extra></extra>", **CELLS, **NUMBERED,
        )
    )  # fmt: skip
    over = f"Averaged over {counted(len(fidelity.rows), 'dataset')}"
    message = f"{over}, correlations differ by at most {number(most, 3)}."
    style.frame(figure, message, 62 * len(names) + 190, l=20, b=80)
    return figure.update_xaxes(side="top", **style.BARE).update_yaxes(autorange="reversed", **style.BARE)


def mean_standardized_differences(fidelity: Fidelity) -> go.Figure:
    """Draw the mean standardized difference of each column's mean, with quartiles as error bars (Figure A5)."""
    low, _, high = fidelity.mean_difference_quartiles
    means = fidelity.mean_differences.mean(axis=0)
    words = [
        f"{text_of(name, 40)}<br>mean {number(mean, 3)}<br>half of the datasets from {number(one, 3)} to "
        f"{number(three, 3)}"
        for name, mean, one, three in zip(fidelity.columns, means, low, high, strict=True)
    ]
    figure = style.add_dots(go.Figure(), means, np.arange(len(means))[::-1], words, BLUE, 10)
    figure.data[0].error_x = {
        "array": high - means, "arrayminus": means - low, "color": BLUE, "thickness": 2, "width": 7,
    }  # fmt: skip
    most = number(np.abs(means).max(), 3)
    message = f"Averaged over {counted(len(fidelity.rows), 'dataset')}, means differ by at most {most} SD."
    style.frame(figure, message, 150 + 44 * len(means), l=20)
    style.name_rows(figure, [text_of(name, 14) for name in fidelity.columns])
    style.add_band(figure, -MEAN_BAND, MEAN_BAND, GREEN, along="x", opacity=0.12)
    title = "Standardized mean difference, synthetic less real: dot mean, bar quartiles, shaded within ±0.1"
    return centre_on_zero(figure, title, np.stack([low, high]), 1.4 * MEAN_BAND, room=1.1)


def p_value_densities(fidelity: Fidelity) -> go.Figure:
    """Draw the density of each column's Kolmogorov-Smirnov p-values, beside that of uniform ones (Figure A6)."""
    if not fidelity.ks_p.shape[1]:
        return style.empty(NO_MEASUREMENTS)
    shown = furthest(1 - fidelity.ks_p_share, style.MOST_ROWS)
    heights = np.stack([reflected_density(fidelity.ks_p[:, at]) for at in shown])
    tall = 0.85 / max(TALLEST, float(heights.max()))
    figure = go.Figure()
    for row, (at, height) in enumerate(zip(shown, heights, strict=True)):
        base = len(shown) - 1 - row
        name = text_of(fidelity.columns[at], 40)
        style.add_line(figure, [0, 1], [base, base], BLUE, 0)
        figure.add_scatter(
            x=GRID, y=base + tall * height, mode="lines", line={"color": BLUE, "width": 2}, fill="tonexty",
            fillcolor="rgba(86,180,233,0.45)", customdata=height,
            hovertemplate=f"{name}<br>p-value %{{x:.2f}}: density %{{customdata:.2f}}<extra></extra>",
        )  # fmt: skip
        style.add_line(figure, [0, 1], [base + tall] * 2, INK, 1.5, "dash")
    worst = shown[int(np.argmin(fidelity.ks_p_share[shown]))]
    share, expected = percent(fidelity.ks_p_share[worst]), percent(1 - LEVEL)
    message = (
        f"Fewest p-values lie above {LEVEL:g} in {fidelity.columns[worst]}: {share} of {len(fidelity.ks_p):,}; "
        f"of uniform ones {expected} would."
    )
    style.frame(figure, message, 120 + style.room_for(len(shown), 70, 40), l=20)
    style.name_rows(figure, [text_of(fidelity.columns[at], 16) for at in shown], standing=True)
    some = style.of_all(len(shown), len(fidelity.columns), "columns")
    key = style.key_of("dashed: all p-values equally likely", some)
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
