"""What a guarantee is expected to cost: errors of means, spreads and correlations against ε, by route."""

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from allbutone.disclosure.guarantee_plan import ERRORS, MOST_ERROR, ROUTES, GuaranteePlan
from allbutone.plots.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, style_panels
from allbutone.support.text import counted

_COLOURS = {"no privacy": GREY, "noise": BLUE, "certify": GREEN, "temper": ORANGE, "prior": PURPLE}
_PANELS = ("means, in spreads", "spreads, as a share", "correlations")


def guarantee_figure(plan: GuaranteePlan) -> go.Figure:
    """Draw the expected errors against ε, a panel a kind and a line a route."""
    panels = _PANELS[: 3 if len(plan.columns) > 1 else 2]
    figure = make_subplots(cols=len(panels), shared_yaxes=True, subplot_titles=[f"of {each}" for each in panels])
    for route, words in ROUTES.items():
        rows = plan.of(route)
        for place, key in enumerate(ERRORS[: len(panels)], start=1):
            figure.add_scatter(
                x=[row["epsilon"] for row in rows],
                y=[row[key] for row in rows],
                mode="lines+markers",
                line={"color": _COLOURS[route], "width": 4 if route == "noise" else 2},
                name=words,
                legendgroup=route,
                showlegend=place == 1,
                hovertemplate=f"{words}<br>ε = %{{x:g}}<br>error %{{y:.3f}}<extra></extra>",
                row=1,
                col=place,
            )
    figure.add_hline(y=MOST_ERROR, line={"dash": "dash", "color": INK, "width": 1.5})
    below = (
        f"{plan.people:,} people, {counted(len(plan.columns), 'column')}, δ = {plan.delta:g}; correlations of "
        f"{plan.correlation:g} guessed. Root mean square errors of one release, approximately; above the dashed "
        "line nothing is learnt. From public figures alone."
    )
    style_panels(figure, plan.sentence, below)
    levels = sorted({row["epsilon"] for row in plan.rows})
    figure.update_xaxes(
        type="log",
        title={"text": "ε", "standoff": 22},
        tickvals=levels,
        ticktext=[f"{level:g}" for level in levels],
    )
    figure.update_yaxes(type="log", tickvals=[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
    figure.update_yaxes(title_text="Expected error", col=1)
    return figure
