"""How often simulated releases of a table with categories disclose anybody, and where its budget ends."""

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.lineup import CONFIDENCE
from allbutone.disclosure.mixed_budget import MixedBudget
from allbutone.disclosure.simulated_budget import Tried
from allbutone.plots.budget import shade_what_is_out
from allbutone.plots.framing import frame
from allbutone.plots.style import BLUE, INK, VERMILION
from allbutone.support.text import chance, counted


def mixed_budget_figure(budget: MixedBudget) -> go.Figure:
    """Draw, for each number of datasets tried, the share of simulated releases that disclosed anybody."""
    noun, kept = "draw" if budget.dataset_rows is None else "dataset", budget.in_all
    tried = sorted(budget.simulated.tried.values(), key=lambda one: one.count)
    counts, shares = np.array([one.count for one in tried]), np.array([one.share for one in tried])
    low, high = _errors(tried)
    hover = [
        f"{counted(one.count, noun)}: {one.disclosing:,} of {counted(one.releases, 'simulated release')} "
        "disclosed somebody"
        for one in tried
    ]
    figure = go.Figure(
        go.Scatter(
            x=counts, y=shares, mode="lines+markers", line={"color": BLUE, "width": 3}, hovertext=hover,
            hoverinfo="text",
            error_y={"array": high - shares, "arrayminus": shares - low, "color": BLUE, "thickness": 1},
        )
    )  # fmt: skip
    last = float(max(counts.max(initial=1), budget.before, 2))
    accepted = 1 - CONFIDENCE
    figure.add_hline(y=accepted, line={"dash": "dash", "color": VERMILION, "width": 1.5})
    figure.add_annotation(
        x=1, xref="paper", xanchor="right", y=accepted, yanchor="bottom", showarrow=False,
        text=f"accepted: {chance(accepted)}", font={"size": 12, "color": "#555555"},
    )  # fmt: skip
    if budget.before:
        shade_what_is_out(figure, budget.before, first=0.5, logarithmic=False)
    if kept:
        figure.add_vline(x=kept, line={"color": INK, "width": 1.5})
        place = {"xanchor": "left", "xshift": 4} if kept < last / 2 else {"xanchor": "right", "xshift": -4}
        figure.add_annotation(
            x=kept, y=0.97, yref="paper", yanchor="top", align="left", showarrow=False,
            text=f"the budget:<br>{counted(kept, noun)}", **place,
        )  # fmt: skip
    frame(figure, _message(budget, noun), 340)
    words = f"Number of {budget.what}{', in all' * bool(budget.before)}"
    figure.update_xaxes(title_text=words, range=[0.5, last + 0.5], tickformat=",d")
    figure.update_xaxes(tick0=0, dtick=max(1, round(last / 8)))  # whole numbers only
    figure.update_yaxes(title_text="Chance that anybody is disclosed", range=[-0.02, 1.04], tickformat=".0%")
    return figure


def _errors(tried: list[Tried]) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's intervals, which are honest at none and at all."""
    z, n = 1.96, np.array([one.releases for one in tried], dtype=float)
    share = np.array([one.share for one in tried])
    middle, half = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)


def _message(budget: MixedBudget, noun: str) -> str:
    count, who = budget.in_all, budget.limiting_record
    words = (
        f"Up to {counted(count, noun)} the chance that anybody is disclosed stays within {chance(1 - CONFIDENCE)}"
        if count
        else f"Even one {noun} discloses somebody with a chance of more than {chance(1 - CONFIDENCE)}"
    )
    beyond = budget.beyond
    if beyond is not None:
        words += (
            f"; of {counted(beyond.count, noun)} {beyond.disclosing:,} of "
            f"{counted(beyond.releases, 'simulated release')} disclosed somebody"
        )
    return f"{words}. {who[0].upper()}{who[1:]} sets the limit."
