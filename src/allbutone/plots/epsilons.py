"""The ε of single records by a release: how many have how much."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from allbutone.plots.framing import frame
from allbutone.plots.style import BLUE, INK
from allbutone.support.text import number

BINS = 40


def epsilon_figure(epsilon: Float[np.ndarray, " n"], rows: Int[np.ndarray, " n"]) -> go.Figure:
    """Draw how many records have which ε, and where the largest is."""
    positive = np.maximum(epsilon, 1e-6)
    low, high = np.log10(positive.min()), np.log10(positive.max())
    edges = np.linspace(low, max(high, low + 0.1), BINS + 1)
    places = np.searchsorted(edges, np.log10(positive), "right") - 1
    counts = np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)
    worst = int(np.argmax(epsilon))
    figure = go.Figure(
        go.Bar(
            x=0.5 * (edges[1:] + edges[:-1]),
            y=counts,
            width=edges[1] - edges[0],
            marker={"color": BLUE, "line": {"width": 0}},
            customdata=10 ** edges[:-1],
            hovertemplate="ε from %{customdata:.3g}<br>%{y:,} records<extra></extra>",
        )
    )
    message = f"Of row {rows[worst]} the release says most: its ε is {number(float(epsilon[worst]))}"
    frame(figure, f"{message}. Per record, from the data, confidential, not a guarantee.", 300)
    figure.add_annotation(
        x=high, y=1, text=f"row {rows[worst]}", showarrow=True, ax=-20, ay=-40, font={"color": INK}
    )
    round_numbers = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)
    ticks = [each for each in round_numbers if low - 0.1 <= np.log10(each) <= high + 0.1]
    figure.update_xaxes(title_text="ε of a record", tickvals=np.log10(ticks), ticktext=[f"{t:g}" for t in ticks])
    figure.update_yaxes(title_text="Records")
    return figure
