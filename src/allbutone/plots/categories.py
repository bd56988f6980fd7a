"""Whose category a release gives away: its probability with the release against that without, a dot a person."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.mixed_risk import is_found, rise_in_odds
from allbutone.disclosure.rule import BASELINE, PROBABILITY
from allbutone.plots.framing import frame, text_of
from allbutone.plots.style import BLUE, GREY, INK, VERMILION
from allbutone.support.text import percent

SHOWN = 5000  # dots: beyond that a browser grows slow
APART = 0.03  # of the axis: dots with the same probability before are spread so far, to be seen apart
# where a level is found out: likelier than not with the release, not without, and at doubled odds
FOUND_OUT = {"x": [0, 1 / 3, 0.5, 0.5, 0], "y": [0.5, 0.5, 2 / 3, 1, 1]}


def category_figure(found: Mapping[str, np.ndarray], category: str) -> go.Figure:
    """Draw what the release does to the probability of each person's own level; `found` as in risk.csv."""
    after, before = found[PROBABILITY + category], found[BASELINE + category]
    flags = is_found(found, category)
    order = np.lexsort((-rise_in_odds(found, category), ~flags))
    shown = order[np.isfinite(after + before)[order]][:SHOWN]  # who has no level has no dot
    # many share their level's probability; by multiples of the golden ratio: even, and the same every time
    apart = APART * (4 * len(np.unique(before[shown].round(3))) < len(shown))
    spread = before[shown] + apart * (np.arange(len(shown)) * 0.618034 % 1 - 0.5)
    area = {"fill": "toself", "fillcolor": VERMILION, "opacity": 0.1, "line": {"width": 0}, "mode": "lines"}
    figure = go.Figure(go.Scatter(**FOUND_OUT, **area, hoverinfo="skip"))
    line = {"mode": "lines", "line": {"color": GREY, "dash": "dot", "width": 1}, "hoverinfo": "skip"}
    figure.add_scatter(x=[0, 1], y=[0, 1], **line)
    colours = np.where(flags[shown], VERMILION, BLUE).tolist()
    figure.add_scatter(
        x=spread,
        y=after[shown],
        mode="markers",
        marker={"size": 7, "color": colours, "opacity": 0.6, "line": {"width": 0}},
        hovertext=[
            f"<b>row {found['row'][place]}</b><br>without the release {percent(before[place])}<br>"
            f"with it {percent(after[place])}"
            for place in shown
        ],
        hoverinfo="text",
    )
    small = {"showarrow": False, "font": {"size": 12, "color": "#555555"}}
    figure.add_annotation(x=0, y=0.51, text="found out", xanchor="left", yanchor="bottom", **small)
    if flags[shown].any():
        arrow = {"arrowwidth": 1, "arrowcolor": GREY, "arrowhead": 0, "standoff": 4, "ax": 50, "ay": -8}
        text, font = f"row {found['row'][shown[0]]}", {"size": 12, "color": INK}
        figure.add_annotation(x=spread[0], y=after[shown[0]], text=text, font=font, **arrow)
    frame(figure, category_message(found, category), 380, b=95)
    name = text_of(category, 20)
    figure.update_xaxes(title=f"Probability of one's own {name}<br>without the release", **_scale())
    figure.update_yaxes(title="With the release", **_scale())
    return figure


def category_message(found: Mapping[str, np.ndarray], category: str) -> str:
    """Say whose level of this category is found out, and how surely the surest."""
    flags, people = is_found(found, category), len(found["row"])
    if not flags.any():
        return f"Nobody’s {category} is found out."
    after, before = found[PROBABILITY + category], found[BASELINE + category]
    surest = int(np.argmax(np.where(flags & np.isfinite(after), rise_in_odds(found, category), -np.inf)))
    likely = f"{percent(after[surest])} likely with the release, {percent(before[surest])} without"
    most = ", most of all" if flags.sum() > 1 else ","
    return (
        f"The {category} of {flags.sum():,} of {people:,} records is found out{most} row "
        f"{found['row'][surest]}’s: {likely}."
    )


def _scale() -> dict[str, object]:
    return {"range": [-0.03, 1.05], "tickvals": [0, 0.25, 0.5, 0.75, 1], "tickformat": ".0%"}
