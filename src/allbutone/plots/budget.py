"""How likely a release discloses anybody, against how much is released, and where the budget ends."""

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.lineup import CONFIDENCE
from allbutone.plots.framing import frame
from allbutone.plots.style import BLUE, GREY, INK, VERMILION
from allbutone.support.text import chance, counted

POINTS = 12  # of the curves


def budget_figure(budget: Budget) -> go.Figure:
    """Draw the chance that a release discloses anybody, and that of the person who sets the limit."""
    counts = _counts(budget)
    chances = np.array([_own_chances(budget, int(count)) for count in counts])
    anybody = np.minimum(1.0, chances.sum(axis=1))
    place = int(np.flatnonzero(budget.rows == budget.limiting_row)[0])
    noun = "draw" if budget.law.rows is None else "dataset"
    figure = go.Figure()
    for name, colour, width, values in (
        (f"row {budget.limiting_row}", GREY, 2, chances[:, place]),
        ("anybody", BLUE, 3, anybody),
    ):
        hover = f"%{{x:,.0f}} {noun}s<br>{name} is disclosed: %{{y:.1%}}<extra></extra>"
        figure.add_scatter(
            x=counts,
            y=values,
            mode="lines",
            name=name,
            line={"color": colour, "width": width},
            hovertemplate=hover,
        )
    accepted = 1 - CONFIDENCE
    figure.add_hline(y=accepted, line={"dash": "dash", "color": VERMILION, "width": 1.5})
    figure.add_annotation(
        x=0.995, xref="paper", xanchor="right", y=accepted, yanchor="bottom", showarrow=False,
        text=f"accepted: {chance(accepted)}", font={"size": 12, "color": "#555555"},
    )  # fmt: skip
    if budget.before:
        shade_what_is_out(figure, budget.before)
    if budget.in_all:
        _mark(figure, budget.in_all, counted(budget.in_all, noun), float(counts[-1]))
    frame(figure, _message(budget, counts, anybody, noun), 360, t=36)
    figure.update_layout(showlegend=True, legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.0,
                                                  "yanchor": "bottom", "traceorder": "reversed"})  # fmt: skip
    figure.update_xaxes(
        title_text=f"Number of {budget.what}{', in all' * bool(budget.before)}",
        type="log",
        dtick="D2",
        tickformat=",d",
    )
    figure.update_xaxes(range=[np.log10(0.95), np.log10(counts[-1])])
    figure.update_yaxes(title_text="Chance to be disclosed", range=[-0.02, 1.04], tickformat=".0%")
    return figure


def _counts(budget: Budget) -> np.ndarray:
    """Return numbers of datasets, most of them where the chance rises."""
    near = max(budget.in_all, 2)
    last = max(4 * near, min(budget.before, 40 * near))
    return np.unique([1, *np.geomspace(max(1, near / 2), last, POINTS).round()]).astype(int)


def _own_chances(budget: Budget, count: int) -> np.ndarray:
    """Return each record's own chance, in the table's order; not all of them where they are certain together."""
    found = np.zeros(len(budget.rows))
    found[budget.lineup.order] = budget.lineup.chances(count, 1.0)
    return found


def shade_what_is_out(figure: go.Figure, count: int, first: float = 0.95, logarithmic: bool = True) -> None:
    """Shade the start of the axis, which begins at `first`, up to what is out already."""
    figure.add_vrect(x0=first, x1=count, fillcolor=GREY, opacity=0.25, line_width=0, layer="below")
    ends = np.array([first, count], dtype=float)
    middle = float(np.mean(np.log10(ends))) if logarithmic else float(np.mean(ends))
    figure.add_annotation(
        x=middle, y=0.5, yref="paper", showarrow=False, textangle=-90, text=f"out already: {count:,}",
        font={"size": 12, "color": "#555555"},
    )  # fmt: skip


def _mark(figure: go.Figure, count: int, text: str, last: float) -> None:
    figure.add_vline(x=count, line={"color": INK, "width": 1.5})
    left = np.log10(count) < np.log10(last) / 2  # where there is room for the words
    # annotations on a logarithmic axis are placed by the logarithm, shapes are not
    figure.add_annotation(
        x=np.log10(count), y=0.97, yref="paper", yanchor="top", showarrow=False, text=f"the budget:<br>{text}",
        align="left" if left else "right", xanchor="left" if left else "right", xshift=4 if left else -4,
    )  # fmt: skip


def _message(budget: Budget, counts: np.ndarray, anybody: np.ndarray, noun: str) -> str:
    count = budget.in_all
    many = int(counts[np.argmax(anybody >= 0.5)]) if np.any(anybody >= 0.5) else None
    words = (
        f"Up to {counted(count, noun)} the chance that anybody is disclosed stays within {chance(1 - CONFIDENCE)}"
        if count
        else f"Even one {noun} discloses somebody with a chance of more than {chance(1 - CONFIDENCE)}"
    )
    return words + (
        f"; with {many:,} it is {chance(anybody[counts == many][0])}." if many and many > count else "."
    )
