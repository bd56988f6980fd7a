"""Figures of fidelity: the real table beside the synthetic datasets, measure by measure and test by test."""

from itertools import combinations
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Float

from allbutone.figures.style import (
    BLUE,
    FEW,
    GREEN,
    GREY,
    INK,
    MOST_ROWS,
    SKY,
    SMALL,
    VERMILION,
    empty,
    frame,
    furthest,
    name_rows,
    of_all,
    room_for,
    segments,
    text_of,
    wrapped,
)
from allbutone.support.text import counted, number, percent
from allbutone.utility.fidelity import LEVEL, MEAN_BAND, Fidelity

# Figures of fidelity: the real table beside the synthetic datasets, measure by measure.


MOST_QUARTILES = 7  # columns whose quartiles still fit the cells of a heatmap on a phone
MOST_NUMBERS = 12  # columns whose correlations do
MOST_NAMES = 20  # columns whose names fit above it
MOST_LABELS = 40  # columns whose names fit beside it; of more, some are named
DIVERGING = [[0.0, BLUE], [0.25, "#7FB8D8"], [0.5, "#FFFFFF"], [0.75, "#EAAE7F"], [1.0, VERMILION]]
PALE = "#F2F2F2"
COLOUR_BAR: dict[str, Any] = {
    "orientation": "h", "thickness": 12, "len": 0.9, "outlinewidth": 0, "x": 0.5, "y": 0, "yanchor": "top",
    "ypad": 12, "title": {"text": "Pearson correlation", "side": "bottom", "font": {"size": 13}},
    "tickvals": [-1, -0.5, 0, 0.5, 1], "ticktext": ["−1", "−0.5", "0", "0.5", "1"],
    "tickfont": {"size": SMALL},
}  # fmt: skip
NO_MEASUREMENTS = "The release has categories alone, and no measurements."


def correlation_figure(fidelity: Fidelity) -> go.Figure:
    """Draw the correlations as one square: real below the diagonal, synthetic medians and quartiles above it."""
    p, k = len(fidelity.columns), len(fidelity.rows)
    if p < 2:
        return empty("A single column has no correlations." if p else NO_MEASUREMENTS)
    upper, median = np.triu(np.ones((p, p), dtype=bool), 1), fidelity.correlation_quartiles[1]
    shown = np.where(upper, median, fidelity.correlations)
    np.fill_diagonal(shown, np.nan)
    figure = go.Figure(
        go.Heatmap(
            z=shown,
            zmin=-1,
            zmax=1,
            colorscale=DIVERGING,
            colorbar=COLOUR_BAR,
            hoverongaps=False,
            **_cells(fidelity),
        )
    )
    height = p * (62 if p <= MOST_QUARTILES else 42 if p <= MOST_NUMBERS else 24)
    height = max(height, 150) if p <= MOST_LABELS else 600  # so wide are figures on a page
    every = -(-p // MOST_LABELS)
    labels = [text_of(name, 12 if p <= MOST_QUARTILES or every > 1 else 8) for name in fidelity.columns]
    several = f"<br>median of {counted(k, 'dataset')}{' [and quartiles]' * (p <= MOST_QUARTILES)}" * (k > 1)
    words = f"<b>above the diagonal:</b> synthetic data{several}<br><b>below the diagonal:</b> real data"
    words += f"<br>one column in {every} is named, all are under the pointer" * (every > 1)
    # names may stand upright, words are above them; the room that plotly makes itself would leave none for a title
    upright = 7 * max(map(len, labels)) if 5 < p <= MOST_NAMES else 18
    above = 20 + upright + 18 * (1 + words.count("<br>"))
    frame(figure, _correlation_message(fidelity, median), height + 90 + above, l=20, b=80, t=above)
    figure.update_xaxes(
        tickvals=np.arange(p), ticktext=labels, showticklabels=p <= MOST_NAMES, side="top", showgrid=False,
        title_text=words, title_standoff=10, ticks="", showline=False, tickangle=0 if p <= 5 else -90,
    )  # fmt: skip
    if every > 1:
        figure.update_xaxes(type="category", tickvals=None, ticktext=None).update_yaxes(type="category")
    return figure.update_layout(plot_bgcolor=PALE).update_yaxes(
        tickvals=np.arange(p)[::every], ticktext=labels[::every], autorange="reversed", showgrid=False, ticks="",
        showline=False,
    )  # fmt: skip


def _cells(fidelity: Fidelity) -> dict[str, Any]:
    """Return what is written in the cells, and what they say under the pointer."""
    p = len(fidelity.columns)
    if p > MOST_LABELS:  # thousands of sentences would be most of a page's bytes
        both = np.stack([fidelity.correlations, fidelity.correlation_quartiles[1]], -1).astype(np.float32)
        names = [text_of(name) for name in fidelity.columns]
        words = "%{y} and %{x}<br>real %{customdata[0]:.2f}<br>synthetic %{customdata[1]:.2f}<extra></extra>"
        return {"customdata": both, "x": names, "y": names, "hovertemplate": words}
    cells: dict[str, Any] = {"xgap": 1.5, "ygap": 1.5, "hovertext": _cell_words(fidelity), "hoverinfo": "text"}
    if p <= MOST_NUMBERS:
        cells |= {"text": _cell_texts(fidelity), "texttemplate": "%{text}", "textfont": {"size": SMALL}}
    return cells


def _correlation_message(fidelity: Fidelity, median: Float[np.ndarray, "p p"]) -> str:
    off = np.abs(median - fidelity.correlations)
    one, two = np.unravel_index(np.argmax(off), off.shape)
    names = " and ".join(fidelity.columns[place] for place in sorted((one, two)))
    whose = "synthetic correlation" if len(fidelity.rows) == 1 else "median synthetic correlation"
    return (
        f"The {whose} is at most {number(off[one, two], 3)} away from the real one "
        f"({names}: {number(median[one, two], 3)}, really {number(fidelity.correlations[one, two], 3)})."
    )


def _cell_texts(fidelity: Fidelity) -> list[list[str]]:
    """Write what fits a cell: all, or the correlation without its zero."""
    p = len(fidelity.columns)
    low, median, high = fidelity.correlation_quartiles

    def text(row: int, column: int) -> str:
        if row == column:
            return ""
        value = number((median if row < column else fidelity.correlations)[row, column], 2)
        if p > MOST_QUARTILES:
            return value.replace("0.", ".")
        if row > column or len(fidelity.rows) == 1:
            return value
        return f"{value}<br>[{number(low[row, column], 2)},<br>{number(high[row, column], 2)}]"

    return [[text(row, column) for column in range(p)] for row in range(p)]


def _cell_words(fidelity: Fidelity) -> list[list[str]]:
    names = [text_of(name, 40) for name in fidelity.columns]
    low, median, high = (np.vectorize(number)(part) for part in fidelity.correlation_quartiles)
    between = "" if len(fidelity.rows) == 1 else ", half of the datasets from {} to {}"
    return [
        [
            f"{names[a]} and {names[b]}<br>real {number(fidelity.correlations[a, b], 2)}<br>"
            f"synthetic {median[a, b]}" + between.format(low[a, b], high[a, b])
            for b in range(len(names))
        ]
        for a in range(len(names))
    ]


def correlation_difference_figure(fidelity: Fidelity) -> go.Figure:
    """Draw how far each pair's correlation is from the real one, over the datasets."""
    pairs = list(combinations(range(len(fidelity.columns)), 2))
    if not pairs:
        return empty("A single column has no correlations." if fidelity.columns else NO_MEASUREMENTS)
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    values = fidelity.correlation_differences[:, first, second]
    quartiles = (fidelity.correlation_quartiles - fidelity.correlations)[:, first, second]
    shown = furthest(np.abs(quartiles[1]), MOST_ROWS)
    names = [" and ".join(text_of(fidelity.columns[at], 40) for at in pairs[place]) for place in shown]
    figure = ranges(values[:, shown], quartiles[:, shown], names, np.ones(len(shown), dtype=bool))
    message = (
        f"Over {counted(len(values), 'dataset')} the correlations differ from the real ones by "
        f"{number(values.min(), 2)} to {number(values.max(), 2)}"
    )
    if len(values) > 1 and len(pairs) > 1:
        message += f"; the medians by {number(quartiles[1].min(), 2)} to {number(quartiles[1].max(), 2)}"
    elif len(values) > 1:
        message += f"; the median by {number(quartiles[1, 0], 2)}"
    frame(figure, message + ".", 130 + room_for(len(shown), 34), l=20)
    name_rows(figure, [" · ".join(text_of(fidelity.columns[at], 9) for at in pairs[place]) for place in shown])
    key = range_key(len(values), of_all(len(shown), len(pairs), "pairs"))
    figure.update_xaxes(
        title_text=wrapped("Correlation, synthetic less real", key), range=_around(values[:, shown], 0.1)
    )
    return figure.add_vline(x=0, line={"color": INK, "width": 1})


def mean_difference_figure(fidelity: Fidelity) -> go.Figure:
    """Draw the standardized mean differences by column, with the band within which they are negligible."""
    if not fidelity.columns:
        return empty(NO_MEASUREMENTS)
    values, quartiles, within = (
        fidelity.mean_differences,
        fidelity.mean_difference_quartiles,
        fidelity.means_within_band,
    )
    p = len(fidelity.columns)
    shown = furthest(np.abs(quartiles[1]), MOST_ROWS)
    names = [text_of(fidelity.columns[place], 40) for place in shown]
    figure = ranges(values[:, shown], quartiles[:, shown], names, within[shown])
    frame(figure, _mean_message(fidelity), 150 + room_for(len(shown), 44), l=20)
    name_rows(figure, [text_of(fidelity.columns[place], 14) for place in shown])
    figure.add_vrect(x0=-MEAN_BAND, x1=MEAN_BAND, fillcolor=GREEN, opacity=0.12, line_width=0, layer="below")
    beyond = "" if within.all() else "orange: middle half not within"
    key = range_key(len(values), f"shaded: within ±{MEAN_BAND:g}", beyond, of_all(len(shown), p, "columns"))
    title = wrapped("Standardized mean difference, synthetic less real", key)
    figure.update_xaxes(title_text=title, range=_around(values[:, shown], 1.4 * MEAN_BAND))
    return figure.add_vline(x=0, line={"color": INK, "width": 1})


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


def ranges(
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
        figure.add_scatter(**segments(low, high), line={"color": GREY, "width": 1.5})
        figure.add_scatter(**segments(quartiles[0], quartiles[2]), line={"color": SKY, "width": 10})
        words = [
            f"{name}<br>median {number(middle, 3)}<br>half of the datasets from {number(one, 3)} to "
            f"{number(three, 3)}<br>all from {number(least, 3)} to {number(most, 3)}"
            for name, one, middle, three, least, most in zip(names, *quartiles, low, high, strict=True)
        ]
        mark = {"size": 9, "color": colours}
        return figure.add_scatter(
            x=quartiles[1], y=height, mode="markers", marker=mark, hovertext=words, hoverinfo="text"
        )
    words = [
        f"{name}<br>dataset {place + 1}<br>{number(value, 3)}"
        for place, row in enumerate(values)
        for name, value in zip(names, row, strict=True)
    ]
    mark = {"size": 9, "color": np.tile(colours, k), "opacity": 0.75}
    x, y = values.ravel(), np.tile(height, k)
    return figure.add_scatter(x=x, y=y, mode="markers", marker=mark, hovertext=words, hoverinfo="text")


def range_key(k: int, *more: str) -> str:
    """Say what the marks of `ranges` are, and more."""
    marks = "dot median, bar middle half, line all datasets" if k > FEW else "one dot for each dataset"
    return "; ".join(part for part in (marks, *more) if part)


def _around(values: np.ndarray, least: float) -> list[float]:
    """Return a range about zero with room for all values."""
    reach = 1.08 * max(float(np.max(np.abs(values))), least)
    return [-reach, reach]


# Figures of the tests that tell real from synthetic data: Kolmogorov and Smirnov's, and propensity scores.


BINS = 20  # of p-values: the first holds those up to 0.05
TALLEST = 0.25  # of the p-values in a bin; taller bars are cut, and say how tall they are


def ks_figure(fidelity: Fidelity) -> go.Figure:
    """Draw the p-values of the Kolmogorov-Smirnov tests by column, beside what uniform ones would give.

    Of few datasets a dot a test.
    """
    k, p = fidelity.ks_p.shape
    if not p:
        return empty(NO_MEASUREMENTS)
    shown = furthest(1 - fidelity.ks_p_share, MOST_ROWS)
    figure = _p_value_bars(fidelity, shown) if k > FEW else _p_value_dots(fidelity, shown)
    frame(figure, _ks_message(fidelity), 120 + room_for(len(shown), 62, 40), l=20)
    labels = [
        f"{text_of(fidelity.columns[at], 16)}<br>{_share(fidelity.ks_p_share[at], k)} above {LEVEL:g}"
        for at in shown
    ]
    name_rows(figure, labels, 1.0 if k > FEW else 0.6, 0.1 if k > FEW else 0.6)
    if k > FEW:
        figure.update_yaxes(tickvals=np.arange(len(shown))[::-1] + 0.4)
    key = "dashed: all p-values equally likely" if k > FEW else "one dot for each dataset"
    key = "; ".join(filter(None, (key, f"orange: up to {LEVEL:g}", of_all(len(shown), p, "columns"))))
    figure.update_xaxes(
        title_text=wrapped("p-value of the test, real against synthetic", key), range=[-0.02, 1.02]
    )
    return figure.update_xaxes(tickvals=[0, 0.25, 0.5, 0.75, 1], ticktext=["0", "0.25", "0.5", "0.75", "1"])


def _share(share: float, k: int) -> str:
    return percent(share) if k > FEW else f"{round(k * float(share))} of {k}"


def _ks_message(fidelity: Fidelity) -> str:
    share, (k, p) = fidelity.ks_p_share, fidelity.ks_p.shape
    if k <= FEW:
        above = round(float(np.sum(share)) * k)
        tests = counted(k * p, "Kolmogorov-Smirnov test")
        return f"{above:,} of {tests} {'gives' if k * p == 1 else 'give'} a p-value above {LEVEL:g}."
    worst, best = int(np.argmin(share)), int(np.argmax(share))
    found = f"{percent(share[worst])} ({fidelity.columns[worst]})"
    if worst != best:
        found = f"{found} to {percent(share[best])} ({fidelity.columns[best]})"
    return (
        f"{found} of the {k:,} Kolmogorov-Smirnov tests of a column give a p-value above {LEVEL:g}; "
        f"of uniform p-values {percent(1 - LEVEL)} would."
    )


def _p_value_bars(fidelity: Fidelity, shown: np.ndarray) -> go.Figure:
    """Draw a histogram a row; a bin holds its upper end, so that the first holds what is not above 0.05."""
    place = np.clip(np.ceil(fidelity.ks_p[:, shown] * BINS) - 1, 0, BINS - 1).astype(int)
    share = np.stack([np.bincount(column, minlength=BINS) / len(place) for column in place.T])
    tall = 0.85 / min(max(float(share.max()), 2 / BINS), TALLEST)
    rows = np.arange(len(shown))[::-1]
    names = [text_of(fidelity.columns[at], 40) for at in shown]
    words = [
        f"{name}<br>{percent(part)} of the p-values<br>from {at / BINS:g} to {(at + 1) / BINS:g}"
        for name, parts in zip(names, share, strict=True)
        for at, part in enumerate(parts)
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
    level = segments(np.zeros(len(rows)), np.ones(len(rows)))
    level["y"] = level["y"] + tall / BINS
    figure.add_scatter(**segments(np.zeros(len(rows)), np.ones(len(rows))), line={"color": GREY, "width": 1})
    return figure.add_scatter(**level, line={"color": INK, "width": 1.5, "dash": "dash"})


def _p_value_dots(fidelity: Fidelity, shown: np.ndarray) -> go.Figure:
    values, rows = fidelity.ks_p[:, shown], np.arange(len(shown))[::-1]
    figure = go.Figure(
        go.Scatter(**segments(np.zeros(len(rows)), np.ones(len(rows))), line={"color": GREY, "width": 1})
    )
    words = [
        f"{text_of(fidelity.columns[at], 40)}<br>dataset {place + 1}<br>p-value {value:.3g}"
        for place, row in enumerate(values)
        for at, value in zip(shown, row, strict=True)
    ]
    flat = values.ravel()
    mark = {"size": 11, "color": np.where(flat > LEVEL, BLUE, VERMILION), "opacity": 0.75}
    y = np.tile(rows, len(values))
    return figure.add_scatter(x=flat, y=y, mode="markers", marker=mark, hovertext=words, hoverinfo="text")


def propensity_figure(fidelity: Fidelity) -> go.Figure:
    """Draw each dataset's propensity mean squared error over its expectation if the model is right, which is 1."""
    if np.isnan(fidelity.pmse).all():
        return empty("There are too few rows without gaps for propensity scores.")
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
        dot = {"size": 11, "color": BLUE, "opacity": 0.75}
        figure.add_scatter(x=ratio, y=np.zeros(k), mode="markers", marker=dot, hovertext=words, hoverinfo="text")
    frame(figure, _propensity_message(fidelity), 360 if k > FEW else 200)
    figure.add_vline(x=1, line={"color": INK, "width": 1.5, "dash": "dash"})
    key = "dashed: 1, as expected if the model is right" + "; one dot for each dataset" * (k <= FEW)
    if k > 1:
        figure.add_vline(x=float(np.median(ratio)), line={"color": BLUE, "width": 2})
        key += "; blue line: median"
    figure.update_xaxes(
        title_text=wrapped("Propensity error over its expectation (pMSE ratio)", key), range=[0, most]
    )
    if k > FEW:
        return figure.update_yaxes(title_text="Number of datasets")
    return figure.update_yaxes(visible=False, range=[-1, 1])


def _propensity_message(fidelity: Fidelity) -> str:
    ratio, k = fidelity.pmse_ratio_drawn, len(fidelity.rows)
    middle = number(float(np.median(ratio)), 2)
    message = (
        f"The pMSE ratio is {middle}"
        if k == 1
        else f"The median pMSE ratio over {counted(k, 'dataset')} is {middle}"
    )
    message += ", where 1 is expected if the model is right"
    if told := int(np.sum(~fidelity.propensity_finite)):
        message += f"; in {counted(told, 'dataset')} the columns tell every synthetic row from every real one"
    return message + "."
