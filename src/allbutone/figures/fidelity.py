"""Figures of fidelity: the real table beside the synthetic datasets, measure by measure and test by test."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Float

from allbutone.figures import style
from allbutone.figures.style import BLUE, FEW, GREEN, GREY, INK, SKY, SMALL, VERMILION, furthest, text_of, wrapped
from allbutone.support.text import counted, number, percent
from allbutone.utility.fidelity import LEVEL, MEAN_BAND, Fidelity

MOST_QUARTILES = 7  # columns whose quartiles still fit the cells of a heatmap on a phone
MOST_NUMBERS = 12  # columns whose correlations do
MOST_NAMES = 20  # columns whose names fit above it in the usual size
MOST_ABREAST = 40  # letters of names that stand beside each other above it on a phone
MOST_LABELS = 40  # columns whose names fit beside and above it; of more, some are named
DIVERGING = [[0.0, BLUE], [0.25, "#7FB8D8"], [0.5, "#FFFFFF"], [0.75, "#EAAE7F"], [1.0, VERMILION]]
PALE = "#F2F2F2"
CELLS: dict[str, Any] = {"xgap": 1.5, "ygap": 1.5, "hoverongaps": False}
NUMBERED: dict[str, Any] = {"texttemplate": "%{text}", "textfont": {"size": SMALL}}
NO_MEASUREMENTS = "The release has categories alone, and no measurements."
ONE_COLUMN = "A single column has no correlations."
BINS = 20  # of p-values: the first holds those up to 0.05
TALLEST = 0.25  # of the p-values in a bin; taller bars are cut, and say how tall they are


def colour_bar(words: str, **ticks: Any) -> dict[str, Any]:
    """Return a scale of colours below a heatmap."""
    title = {"text": words, "side": "bottom", "font": {"size": 13}}
    place = {"orientation": "h", "thickness": 12, "len": 0.9, "x": 0.5, "y": 0, "yanchor": "top", "ypad": 12}
    return {"title": title, "outlinewidth": 0, **place, **ticks}


def table_of(count: int, text: Callable[[int, int], str]) -> list[list[str]]:
    """Return the texts of the cells of a square."""
    return [[text(row, column) for column in range(count)] for row in range(count)]


def correlation_figure(fidelity: Fidelity) -> go.Figure:
    """Draw the correlations as one square: real below the diagonal, synthetic medians and quartiles above it."""
    p, k = len(fidelity.columns), len(fidelity.rows)
    if p < 2:
        return style.empty(ONE_COLUMN if p else NO_MEASUREMENTS)
    median = fidelity.correlation_quartiles[1]
    shown = np.where(np.triu(np.ones((p, p), dtype=bool), 1), median, fidelity.correlations)
    np.fill_diagonal(shown, np.nan)
    ticks = {"tickvals": [-1, -0.5, 0, 0.5, 1], "ticktext": ["−1", "−0.5", "0", "0.5", "1"]}
    bar = colour_bar("Pearson correlation", tickfont={"size": SMALL}, **ticks)
    figure = go.Figure(
        go.Heatmap(z=shown, zmin=-1, zmax=1, colorscale=DIVERGING, colorbar=bar, **_cells(fidelity))
    )
    height = p * (62 if p <= MOST_QUARTILES else 42 if p <= MOST_NUMBERS else 24)
    height = max(height, 150) if p <= MOST_LABELS else 600  # so wide are figures on a page
    every = -(-p // MOST_LABELS)
    labels = [text_of(name, 12 if p <= MOST_QUARTILES or every > 1 else 8) for name in fidelity.columns]
    several = f"<br>median of {counted(k, 'dataset')}{' [and quartiles]' * (p <= MOST_QUARTILES)}" * (k > 1)
    words = f"<b>above the diagonal:</b> synthetic data{several}<br><b>below the diagonal:</b> real data"
    words += f"<br>one column in {every} is named, all are under the pointer" * (every > 1)
    # names may stand upright, words are above them; the room that plotly makes itself would leave none for a title
    turned = p * max(map(len, labels)) > MOST_ABREAST
    upright = 7 * max(map(len, labels)) if turned and p <= MOST_LABELS else 18
    above = 20 + upright + 18 * (1 + words.count("<br>"))
    style.frame(figure, _correlation_message(fidelity, median), height + 90 + above, l=20, b=80, t=above)
    figure.update_layout(plot_bgcolor=PALE)
    figure.update_xaxes(
        tickvals=np.arange(p), ticktext=labels, showticklabels=p <= MOST_LABELS, side="top", title_text=words,
        title_standoff=10, tickangle=-90 if turned else 0, tickfont_size=SMALL if p <= MOST_NAMES else 9,
        **style.BARE,
    )  # fmt: skip
    if every > 1:
        figure.update_xaxes(type="category", tickvals=None, ticktext=None).update_yaxes(type="category")
    some = {"tickvals": np.arange(p)[::every], "ticktext": labels[::every]}
    return figure.update_yaxes(autorange="reversed", **some, **style.BARE)


def _cells(fidelity: Fidelity) -> dict[str, Any]:
    """Return what is written in the cells, and what they say under the pointer."""
    p, real, (low, median, high) = len(fidelity.columns), fidelity.correlations, fidelity.correlation_quartiles
    if p > MOST_LABELS:  # thousands of sentences would be most of a page's bytes
        names = [text_of(name) for name in fidelity.columns]
        words = "%{y} and %{x}<br>real %{customdata[0]:.2f}<br>synthetic %{customdata[1]:.2f}<extra></extra>"
        both = np.stack([real, median], -1).astype(np.float32)
        return {"customdata": both, "x": names, "y": names, "hovertemplate": words, "hoverongaps": False}
    names = [text_of(name, 40) for name in fidelity.columns]
    single = len(fidelity.rows) == 1

    def hover(a: int, b: int) -> str:
        words = f"{names[a]} and {names[b]}<br>real {number(real[a, b], 2)}<br>synthetic {number(median[a, b])}"
        return words + (
            "" if single else f", half of the datasets from {number(low[a, b])} to {number(high[a, b])}"
        )

    def text(row: int, column: int) -> str:
        """Write what fits a cell: all, or the correlation without its zero."""
        if row == column:
            return ""
        value = number((median if row < column else real)[row, column], 2)
        if p > MOST_QUARTILES:
            return value.replace("0.", ".")
        if row > column or single:
            return value
        return f"{value}<br>[{number(low[row, column], 2)},<br>{number(high[row, column], 2)}]"

    cells = CELLS | {"hovertext": table_of(p, hover), "hoverinfo": "text"}
    return cells | {"text": table_of(p, text)} | NUMBERED if p <= MOST_NUMBERS else cells


def _correlation_message(fidelity: Fidelity, median: Float[np.ndarray, "p p"]) -> str:
    off = np.abs(median - fidelity.correlations)
    one, two = np.unravel_index(np.argmax(off), off.shape)
    names = " and ".join(fidelity.columns[place] for place in sorted((one, two)))
    whose = "synthetic correlation" if len(fidelity.rows) == 1 else "median synthetic correlation"
    return (
        f"The {whose} is at most {number(off[one, two], 3)} away from the real one "
        f"({names}: {number(median[one, two], 3)}, really {number(fidelity.correlations[one, two], 3)})."
    )


# Strips: a row for each column or pair, with every dataset on it, or a summary of many.


def correlation_difference_figure(fidelity: Fidelity) -> go.Figure:
    """Draw how far each pair's correlation is from the real one, over the datasets."""
    pairs = list(combinations(range(len(fidelity.columns)), 2))
    if not pairs:
        return style.empty(ONE_COLUMN if fidelity.columns else NO_MEASUREMENTS)
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    values = fidelity.correlation_differences[:, first, second]
    quartiles = (fidelity.correlation_quartiles - fidelity.correlations)[:, first, second]
    shown = furthest(np.abs(quartiles[1]), style.MOST_ROWS)
    names = [" and ".join(text_of(fidelity.columns[at], 40) for at in pairs[place]) for place in shown]
    figure = strips(values[:, shown], quartiles[:, shown], names, np.ones(len(shown), dtype=bool))
    message = (
        f"Over {counted(len(values), 'dataset')} the correlations differ from the real ones by "
        f"{number(values.min(), 2)} to {number(values.max(), 2)}"
    )
    if len(values) > 1 and len(pairs) > 1:
        message += f"; the medians by {number(quartiles[1].min(), 2)} to {number(quartiles[1].max(), 2)}"
    elif len(values) > 1:
        message += f"; the median by {number(quartiles[1, 0], 2)}"
    style.frame(figure, message + ".", 130 + style.room_for(len(shown), 34), l=20)
    labels = [" · ".join(text_of(fidelity.columns[at], 9) for at in pairs[place]) for place in shown]
    style.name_rows(figure, labels)
    key = strips_key(len(values), style.of_all(len(shown), len(pairs), "pairs"))
    return centre_on_zero(figure, wrapped("Correlation, synthetic less real", key), values[:, shown], 0.1)


def mean_difference_figure(fidelity: Fidelity) -> go.Figure:
    """Draw the standardized mean differences by column, with the band within which they are negligible."""
    if not fidelity.columns:
        return style.empty(NO_MEASUREMENTS)
    values, quartiles = fidelity.mean_differences, fidelity.mean_difference_quartiles
    within = fidelity.means_within_band
    shown = furthest(np.abs(quartiles[1]), style.MOST_ROWS)
    names = [text_of(fidelity.columns[place], 40) for place in shown]
    figure = strips(values[:, shown], quartiles[:, shown], names, within[shown])
    style.frame(figure, _mean_message(fidelity), 150 + style.room_for(len(shown), 44), l=20)
    style.name_rows(figure, [text_of(fidelity.columns[place], 14) for place in shown])
    style.add_band(figure, -MEAN_BAND, MEAN_BAND, GREEN, along="x", opacity=0.12)
    beyond = "" if within.all() else "orange: middle half not within"
    some = style.of_all(len(shown), len(within), "columns")
    key = strips_key(len(values), f"shaded: within ±{MEAN_BAND:g}", beyond, some)
    title = wrapped("Standardized mean difference, synthetic less real", key)
    return centre_on_zero(figure, title, values[:, shown], 1.4 * MEAN_BAND)


def _mean_message(fidelity: Fidelity) -> str:
    quartiles, within = fidelity.mean_difference_quartiles, fidelity.means_within_band
    if len(fidelity.rows) == 1:
        worst = int(np.argmax(np.abs(quartiles[1])))
        most = number(np.abs(quartiles[1, worst]), 2)
        return f"The means differ by at most {most} standard deviations ({fidelity.columns[worst]})."
    band = f"within ±{MEAN_BAND:g} standard deviations of the real mean"
    if within.all():
        return f"In every column the middle half of the datasets' means lies {band}."
    worst = int(np.argmax(np.max(np.abs(quartiles), axis=0)))
    return (
        f"In {int(np.sum(~within)):,} of {counted(len(within), 'column')} the middle half of the datasets' means "
        f"does not lie {band}; {fidelity.columns[worst]} is furthest off, "
        f"{number(quartiles[0, worst], 2)} to {number(quartiles[2, worst], 2)}."
    )


def strips(
    values: Float[np.ndarray, "k rows"],
    quartiles: Float[np.ndarray, "3 rows"],
    names: list[str],
    good: Bool[np.ndarray, " rows"],
) -> go.Figure:
    """Draw a row each: range, middle half and median of many datasets; of few each a dot."""
    k, count = values.shape
    height = np.arange(count)[::-1]
    colours = np.where(good, BLUE, VERMILION)
    figure = go.Figure()
    if k > FEW:
        low, high = values.min(axis=0), values.max(axis=0)
        style.add_rows(figure, low, high, GREY, 1.5)
        style.add_rows(figure, quartiles[0], quartiles[2], SKY, 10)
        words = [
            f"{name}<br>median {number(middle, 3)}<br>half of the datasets from {number(one, 3)} to "
            f"{number(three, 3)}<br>all from {number(least, 3)} to {number(most, 3)}"
            for name, one, middle, three, least, most in zip(names, *quartiles, low, high, strict=True)
        ]
        return style.add_dots(figure, quartiles[1], height, words, colours)
    words = [
        f"{name}<br>dataset {place + 1}<br>{number(value, 3)}"
        for place, row in enumerate(values)
        for name, value in zip(names, row, strict=True)
    ]
    return style.add_dots(figure, values.ravel(), np.tile(height, k), words, np.tile(colours, k), opacity=0.75)


def strips_key(k: int, *more: str) -> str:
    """Say what the marks of `strips` are, and more."""
    return style.key_of(
        "dot median, bar middle half, line all datasets" if k > FEW else "one dot for each dataset", *more
    )


def centre_on_zero(
    figure: go.Figure, title: str, values: np.ndarray, least: float, room: float = 1.08
) -> go.Figure:
    """Let the axis reach as far on both sides of zero as the values need, and mark zero."""
    reach = room * max(float(np.max(np.abs(values))), least)
    figure.update_xaxes(title_text=title, range=[-reach, reach])
    return figure.add_vline(x=0, line={"color": INK, "width": 1})


# Tests that tell real from synthetic data: Kolmogorov and Smirnov's, and propensity scores.


def ks_figure(fidelity: Fidelity) -> go.Figure:
    """Draw the p-values of the Kolmogorov-Smirnov tests by column, beside what uniform ones would give.

    Of few datasets a dot a test.
    """
    (k, p), share = fidelity.ks_p.shape, fidelity.ks_p_share
    if not p:
        return style.empty(NO_MEASUREMENTS)
    low = (1 - np.mean(fidelity.ks_p, axis=0)) / (k + 1)  # which decides between those with the same share
    shown, many = furthest(1 - share + low, style.MOST_ROWS), k > FEW
    figure = _p_value_bars(fidelity, shown) if many else _p_value_dots(fidelity, shown)
    each, least = (62, 40) if k > 1 else (36, 26)
    style.frame(figure, _ks_message(fidelity), 120 + style.room_for(len(shown), each, least), l=20)
    labels = [text_of(fidelity.columns[at], 16) for at in shown]
    if k > 1:
        above = [percent(share[at]) if many else f"{round(k * float(share[at]))} of {k}" for at in shown]
        labels = [f"{name}<br>{one} above {LEVEL:g}" for name, one in zip(labels, above, strict=True)]
    style.name_rows(figure, labels, standing=many)
    marks = "dashed: all p-values equally likely" if many else "one dot for each dataset"
    key = style.key_of(marks, f"orange: up to {LEVEL:g}", style.of_all(len(shown), p, "columns"))
    title = wrapped("p-value of the test, real against synthetic", key)
    return figure.update_xaxes(title_text=title, range=[-0.02, 1.02], dtick=0.25, tickformat="~g")


def _ks_message(fidelity: Fidelity) -> str:
    share, (k, p) = fidelity.ks_p_share, fidelity.ks_p.shape
    if k <= FEW:
        above = round(float(np.sum(share)) * k)
        tests = counted(k * p, "Kolmogorov-Smirnov test")
        return f"{above:,} of {tests} {'gives' if k * p == 1 else 'give'} a p-value above {LEVEL:g}."
    worst, best = int(np.argmin(share)), int(np.argmax(share))
    shares = f"{percent(share[worst])} ({fidelity.columns[worst]})"
    if worst != best:
        shares = f"{shares} to {percent(share[best])} ({fidelity.columns[best]})"
    return (
        f"{shares} of the {k:,} Kolmogorov-Smirnov tests of a column give a p-value above {LEVEL:g}; "
        f"of uniform p-values {percent(1 - LEVEL)} would."
    )


def _p_value_bars(fidelity: Fidelity, shown: np.ndarray) -> go.Figure:
    """Draw a histogram a row; a bin holds its upper end, so that the first holds what is not above 0.05."""
    place = np.clip(np.ceil(fidelity.ks_p[:, shown] * BINS) - 1, 0, BINS - 1).astype(int)
    share = np.stack([np.bincount(column, minlength=BINS) / len(place) for column in place.T])
    tall = 0.85 / min(max(float(share.max()), 2 / BINS), TALLEST)
    rows = np.arange(len(shown))[::-1]
    words = [
        f"{text_of(fidelity.columns[at], 40)}<br>{percent(part)} of the p-values<br>"
        f"from {turn / BINS:g} to {(turn + 1) / BINS:g}"
        for at, parts in zip(shown, share, strict=True)
        for turn, part in enumerate(parts)
    ]
    figure = go.Figure(
        go.Bar(
            x=np.tile((np.arange(BINS) + 0.5) / BINS, len(shown)), y=tall * np.minimum(share, TALLEST).ravel(),
            base=np.repeat(rows, BINS), width=0.9 / BINS, hovertext=words, hoverinfo="text",
            marker={"color": ([VERMILION] + [SKY] * (BINS - 1)) * len(shown), "line": {"width": 0}},
        )
    )  # fmt: skip
    for row, at in np.argwhere(share > TALLEST):
        figure.add_annotation(
            x=(at + (at < BINS / 2)) / BINS, y=rows[row] + 0.5, text=percent(share[row, at]), showarrow=False,
            xanchor="left" if at < BINS / 2 else "right", font={"size": SMALL}, bgcolor="rgba(255,255,255,0.7)",
        )  # fmt: skip
    ends = np.zeros(len(rows)), np.ones(len(rows))
    style.add_rows(figure, *ends, GREY, 1)
    style.add_rows(figure, *ends, INK, 1.5, dash="dash", up=tall / BINS)
    return figure


def _p_value_dots(fidelity: Fidelity, shown: np.ndarray) -> go.Figure:
    values, rows, figure = fidelity.ks_p[:, shown], np.arange(len(shown))[::-1], go.Figure()
    style.add_rows(figure, np.zeros(len(rows)), np.ones(len(rows)), GREY, 1)
    words = [
        f"{text_of(fidelity.columns[at], 40)}<br>dataset {place + 1}<br>p-value {value:.3g}"
        for place, row in enumerate(values)
        for at, value in zip(shown, row, strict=True)
    ]
    flat = values.ravel()
    colours = np.where(flat > LEVEL, BLUE, VERMILION)
    return style.add_dots(figure, flat, np.tile(rows, len(values)), words, colours, 11, opacity=0.75)


def propensity_figure(fidelity: Fidelity) -> go.Figure:
    """Draw each dataset's propensity mean squared error over its expectation if the model is right, which is 1."""
    if np.isnan(fidelity.pmse).all():
        return style.empty("There are too few rows without gaps for propensity scores.")
    ratio, k = fidelity.pmse_ratio_drawn, len(fidelity.rows)
    most = 1.05 * max(2.0, float(ratio.max()))
    figure = go.Figure()
    if k > FEW:
        tally, edges = np.histogram(ratio, bins=40, range=(0, most))
        words = [
            f"{counted(int(one), 'dataset')}<br>ratio from {number(low, 2)} to {number(high, 2)}"
            for one, low, high in zip(tally, edges[:-1], edges[1:], strict=True)
        ]
        mark = {"color": SKY, "line": {"width": 0.5, "color": "white"}}
        x, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
        figure.add_bar(x=x, y=tally, width=width, marker=mark, hovertext=words, hoverinfo="text")
    else:
        words = [f"dataset {place + 1}<br>ratio {number(one, 2)}" for place, one in enumerate(ratio)]
        style.add_dots(figure, ratio, np.zeros(k), words, BLUE, 11, opacity=0.75)
    style.frame(figure, _propensity_message(fidelity), 360 if k > FEW else 200)
    figure.add_vline(x=1, line={"color": INK, "width": 1.5, "dash": "dash"})
    if k > 1:
        figure.add_vline(x=float(np.median(ratio)), line={"color": BLUE, "width": 2})
    key = style.key_of(
        "dashed: 1, as expected if the model is right",
        "one dot for each dataset" * (k <= FEW),
        "blue line: median" * (k > 1),
    )
    title = wrapped("Propensity error over its expectation (pMSE ratio)", key)
    figure.update_xaxes(title_text=title, range=[0, most])
    if k > FEW:
        return figure.update_yaxes(title_text="Number of datasets")
    return figure.update_yaxes(visible=False, range=[-1, 1])


def _propensity_message(fidelity: Fidelity) -> str:
    k, middle = len(fidelity.rows), number(float(np.median(fidelity.pmse_ratio_drawn)), 2)
    whose = "The pMSE ratio" if k == 1 else f"The median pMSE ratio over {counted(k, 'dataset')}"
    message = f"{whose} is {middle}, where 1 is expected if the model is right"
    if told := int(np.sum(~fidelity.propensity_finite)):
        message += f"; in {counted(told, 'dataset')} the columns tell every synthetic row from every real one"
    return message + "."
