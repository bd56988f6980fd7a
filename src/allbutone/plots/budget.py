"""How often releases would disclose a value of anyone, by what is released, and where the budget ends."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.lineup import CONFIDENCE, MOST
from allbutone.plots.style import BLUE, GREEN, INK, ORANGE, PURPLE, VERMILION, smaller, style

POINTS = 12  # of the curves


def budget_figure(budget: Budget) -> go.Figure:
    """Draw how often a release would disclose anyone, and each of the five likeliest, against its datasets."""
    at = max(budget.confident_count, 1)
    counts = np.unique(np.round(np.geomspace(max(1, at / 3), min(max(4 * at, 10), MOST), POINTS)).astype(int))
    chances = np.array([budget.chances(int(count)) for count in counts])
    order = np.lexsort((-budget.leverage, -chances[len(counts) // 2]))[:5]
    noun = "draws" if budget.law.rows is None else "datasets"
    figure = go.Figure()
    lines = [("anyone", np.minimum(1.0, np.sum(chances, axis=1)), INK)]
    lines += [
        (f"row {budget.rows[place]}", chances[:, place], colour)
        for place, colour in zip(order, (VERMILION, BLUE, GREEN, ORANGE, PURPLE), strict=False)
    ]
    heights = [float(line[-1]) for _, line, _ in lines]
    for (name, line, colour), height in zip(lines, _apart(heights), strict=True):
        figure.add_scatter(
            x=counts,
            y=line,
            mode="lines",
            line={"color": colour, "width": 4 if name == "anyone" else 2},
            hovertemplate=f"{name}<br>%{{x:,.0f}} {noun}<br>disclosed by %{{y:.1%}} of releases<extra></extra>",
        )
        figure.add_annotation(
            x=1.01, xref="paper", xanchor="left", y=height, text=name, showarrow=False, font={"color": colour}
        )
    _mark_budget(figure, budget, noun, counts)
    style(figure, _budget_title(budget, noun))
    figure.update_xaxes(title=f"Number of {budget.what} released", type="log", dtick="D2", tickformat=",d")
    figure.update_xaxes(range=[np.log10(0.95 * counts[0]), np.log10(counts[-1])])
    figure.update_yaxes(
        title="Share of releases that would<br>disclose a value", range=[-0.03, 1.05], tickformat=".0%"
    )
    figure.update_layout(margin={"l": 100, "r": 110, "t": 130})
    return figure


def _budget_title(budget: Budget, noun: str) -> str:
    kept = f"{budget.confident_count:,} {noun} disclose nobody, 95 % sure"
    if budget.confident_count == 0:
        kept = f"not even one of the {noun} is safe"
    about = "The five people likeliest to be disclosed. Confidential: it describes them."
    return f"{budget.limiting_column} of row {budget.limiting_row} sets the limit: {kept}" + smaller(about)


def _mark_budget(figure: go.Figure, budget: Budget, noun: str, counts: np.ndarray) -> None:
    """Draw the accepted share, and the number that keeps below it."""
    figure.add_hline(y=1 - CONFIDENCE, line={"dash": "dash", "color": INK, "width": 1.5})
    figure.add_annotation(
        x=0.005, xref="paper", xanchor="left", y=1 - CONFIDENCE, yanchor="bottom", showarrow=False, text="5 %"
    )
    count = budget.confident_count
    if count >= 1:
        line = {"dash": "solid", "color": INK, "width": 1.5}
        figure.add_shape(type="line", x0=count, x1=count, yref="paper", y0=0, y1=1, line=line)
        # annotations on a logarithmic axis are placed by the logarithm, shapes are not
        figure.add_annotation(
            x=np.log10(count), y=0.97, yref="paper", text=f"{count:,} {noun}: the budget", showarrow=False,
            xanchor="left", xshift=6,
        )  # fmt: skip


def _apart(heights: Sequence[float], gap: float = 0.045) -> list[float]:
    """Return the heights moved down where needed so that labels in descending order keep a gap."""
    moved: list[float] = []
    for height in heights:
        moved.append(min(height, moved[-1] - gap) if moved else height)
    return moved
