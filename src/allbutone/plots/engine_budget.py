"""How many records of a table that stays in its engine stand out, and by how much."""

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.engine_budget import EngineBudget, ladder_of
from allbutone.plots.framing import frame
from allbutone.plots.style import BLUE


def engine_budget_figure(budget: EngineBudget) -> go.Figure:
    """Draw how many records have more than each leverage, with the datasets that such a record allows."""
    standing, steps = budget.standing, ladder_of(budget.standing, budget.law)
    leverage = np.array([step["leverage"] for step in steps] or [standing.leverage[0]])
    above = np.array([step["records above"] for step in steps] or [1])
    hover = [
        f"{step['records above']:,} records above leverage {step['leverage']:.3g}; one of that leverage allows "
        f"{step['datasets at expected exposure 0.5']:,}"
        for step in steps
    ]
    line = {"color": BLUE, "width": 3}
    figure = go.Figure(
        go.Scatter(x=leverage, y=above, mode="lines+markers", line=line, hovertext=hover, hoverinfo="text")
    )
    frame(figure, budget.sentence, 340)
    figure.update_xaxes(title_text="Leverage", type="log", exponentformat="power")
    figure.update_yaxes(title_text="Records of a higher one", type="log", exponentformat="power")
    return figure
