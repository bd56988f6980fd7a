"""Figures of leave-one-out risk: how near the adversary comes to each record, by datasets released."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.measures import HALF
from allbutone.plots.framing import ON_TOP, frame, wrapped
from allbutone.plots.style import BLUE, GREY, INK, SKY, VERMILION
from allbutone.support.text import counted, number

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
