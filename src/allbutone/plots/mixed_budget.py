"""How many people's own chances end before a number of datasets, and where the budget of a mixed table ends."""

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.mixed_budget import MixedBudget
from allbutone.plots.framing import frame
from allbutone.plots.style import BLUE, INK
from allbutone.support.text import counted


def mixed_budget_figure(budget: MixedBudget) -> go.Figure:
    """Draw, for each number of datasets, how many people would be found with more than one chance in twenty.

    It ends at the most that were tried: who allows that many may allow more.
    """
    noun = "draw" if budget.dataset_rows is None else "dataset"
    people, kept = len(budget.rows), budget.confident_count
    last = int(max(budget.max_datasets.max(), kept, 1))
    counts = np.arange(1, last + 1)
    found = np.sum(budget.max_datasets[:, None] < counts, axis=0)
    top = max(int(found.max()), 4)
    hover = [
        f"{counted(int(count), noun)}: {each:,} of {people:,} people"
        for count, each in zip(counts, found, strict=True)
    ]
    line = {"color": BLUE, "width": 3, "shape": "hv"}
    figure = go.Figure(
        go.Scatter(x=counts, y=found, mode="lines+markers", line=line, hovertext=hover, hoverinfo="text")
    )
    if kept:
        figure.add_vline(x=kept, line={"dash": "dash", "color": INK, "width": 1.5})
        words = f"{counted(kept, noun)}:<br>the budget"
        place = {"xanchor": "left", "xshift": 4} if kept < last / 2 else {"xanchor": "right", "xshift": -4}
        figure.add_annotation(
            x=kept, y=0.97, yref="paper", yanchor="top", align="left", text=words, showarrow=False, **place
        )
    frame(figure, _message(budget, noun), 340)
    figure.update_xaxes(
        title_text=f"Number of {noun}s released, as far as tried", range=[0.5, last + 0.5], tickformat=",d"
    )
    figure.update_yaxes(title_text="People at risk", range=[-0.03 * top, 1.15 * top], tickformat=",d")
    return figure


def _message(budget: MixedBudget, noun: str) -> str:
    kept = (
        f"{counted(budget.confident_count, noun)} disclose{'s' * (budget.confident_count == 1)} nobody (95 % sure)"
        if budget.confident_count
        else f"not even one {noun} may be released"
    )
    who = budget.limiting_record
    return (
        f"{who[0].upper()}{who[1:]} sets the limit: {kept}. The line: how many people would, each looked at "
        "alone, be disclosed with a chance of more than one in twenty."
    )
