"""How the expected exposure of the most exposed records grows with what is released, and where the budget ends."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.budget import Budget
from allbutone.plots.style import BLUE, GREEN, INK, ORANGE, PURPLE, VERMILION, smaller, style


def budget_figure(budget: Budget) -> go.Figure:
    """Draw the five most exposed records' expected exposure against the number of datasets released."""
    order = np.argsort(-budget.leverage)[:5]
    last = 2 * float(np.max(budget.law.threshold(budget.leverage[order])))
    last = max(last, 2.0 * max(budget.confident_count, budget.expected_count or 0), 10.0)
    counts = np.geomspace(1, min(last, 1e9), 1000)
    noun = "draws" if budget.law.rows is None else "datasets"
    figure = go.Figure()
    heights = [float(budget.law.exposure(budget.leverage[place], counts[-1])) for place in order]
    for place, colour, height in zip(
        order, (VERMILION, BLUE, GREEN, ORANGE, PURPLE), _apart(heights), strict=False
    ):
        row = f"row {budget.rows[place]}"
        figure.add_scatter(
            x=counts,
            y=budget.law.exposure(budget.leverage[place], counts),
            mode="lines",
            line={"color": colour, "width": 3},
            hovertemplate=f"{row}<br>%{{x:,.0f}} {noun}<br>exposure %{{y:.2f}}<extra></extra>",
        )
        figure.add_annotation(
            x=1.01, xref="paper", xanchor="left", y=height, text=row, showarrow=False, font={"color": colour}
        )
    _mark_budget(figure, budget, noun, counts[-1])
    style(figure, _budget_title(budget, noun))
    figure.update_xaxes(title=f"Number of {budget.what} released", type="log", dtick="D2", tickformat=",d")
    figure.update_xaxes(range=[np.log10(0.9), np.log10(counts[-1])])
    figure.update_yaxes(
        title="Expected exposure (closed form):<br>0 at the centre of the others, 1 at the record",
        range=[-0.03, 1.05],
    )
    figure.update_layout(margin={"l": 100, "r": 110, "t": 175})
    return figure


def _budget_title(budget: Budget, noun: str) -> str:
    kept = f"{budget.confident_count:,} {noun} keep everyone below {budget.limit}"
    if budget.confident_count == 0:
        kept = f"not even one of the {noun} keeps it below {budget.limit}"
    about = "The five records expected to be exposed most. Confidential: it describes them."
    return f"Row {budget.limiting_row} sets the limit: {kept}" + smaller(about)


def _mark_budget(figure: go.Figure, budget: Budget, noun: str, last: float) -> None:
    """Draw the limit, and the numbers that keep below it: by expectation, and with 95 % confidence."""
    if budget.limit.kind == "exposure":
        figure.add_hline(y=budget.limit.value, line={"dash": "dash", "color": INK, "width": 1.5})
        figure.add_annotation(
            x=0.005, xref="paper", xanchor="left", y=budget.limit.value, yanchor="bottom", showarrow=False
        )
        figure.layout.annotations[-1].text = f"limit: {budget.limit}"
    confident, expected = budget.confident_count, budget.expected_count
    marks = [(confident, "solid", f"{confident:,} {noun}: 95 % sure<br>that no record passes", 1.16)]
    if expected is not None:
        marks.append((expected, "dot", f"{expected:,} {noun}: expected<br>(closed form)", 1.03))
    for count, dash, text, height in marks:
        if count >= 1:
            end = {"yref": "paper", "y0": 0, "y1": height}
            figure.add_shape(
                type="line", x0=count, x1=count, **end, line={"dash": dash, "color": INK, "width": 1.5}
            )
            # annotations on a logarithmic axis are placed by the logarithm, shapes are not
            place = {"x": np.log10(count), "y": height, "yref": "paper"}
            left = np.log10(count) < np.log10(last) / 2  # where there is room for the words
            figure.add_annotation(
                **place,
                text=text,
                align="left" if left else "right",
                xanchor="left" if left else "right",
                xshift=4 if left else -4,
                showarrow=False,
                yanchor="middle",
            )


def _apart(heights: Sequence[float], gap: float = 0.045) -> list[float]:
    """Return the heights moved down where needed so that labels in descending order keep a gap."""
    moved: list[float] = []
    for height in heights:
        moved.append(min(height, moved[-1] - gap) if moved else height)
    return moved
