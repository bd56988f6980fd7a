"""Figures of the tests that tell real from synthetic data: Kolmogorov and Smirnov's, and propensity scores."""

import numpy as np
import plotly.graph_objects as go

from allbutone.plots.fidelity import NO_MEASUREMENTS
from allbutone.plots.framing import (
    FEW,
    MOST_ROWS,
    SMALL,
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
from allbutone.plots.style import BLUE, GREY, INK, SKY, VERMILION
from allbutone.support.text import counted, number, percent
from allbutone.utility.fidelity import LEVEL, Fidelity

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
