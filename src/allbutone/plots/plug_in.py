"""How closely a record is found by the rows of a fitted normal: the error against the number of rows released."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.audit import law_of_everything, law_of_means
from allbutone.plots.framing import frame, wrapped
from allbutone.plots.style import GREY, VERMILION

LINES = 200  # points of a curve
ERROR = "Error of the guess, in standard deviations (root mean square)"


@dataclass(frozen=True)
class Marks:
    """Errors that were measured, by the number of rows; `spread`: from the lowest to the highest of several."""

    name: str
    rows: Sequence[float]
    errors: Sequence[float]
    colour: str
    symbol: str = "circle"
    spread: tuple[Sequence[float], Sequence[float]] | None = None


def rows_figure(people: int, columns: int, marks: Sequence[Marks], message: str) -> go.Figure:
    """Draw measured errors beside the two laws of plug-in synthesizers and the error without a release, 1."""
    measured = np.concatenate([np.asarray(each.rows, dtype=float) for each in marks])
    rows = np.geomspace(min(measured.min(), people) / 2, max(8 * measured.max(), 100 * people**2), LINES)
    figure = go.Figure()
    laws = {
        "means alone: law n/√N": (law_of_means(people, rows), {"color": GREY, "dash": "dash"}),
        "exact attack: approximate law": (
            law_of_everything(people, rows, np.sqrt(columns)),
            {"color": VERMILION, "width": 2},
        ),
    }
    for name, (errors, line) in laws.items():
        figure.add_scatter(x=rows, y=errors, name=name, mode="lines", line=line, hoverinfo="skip")
    for each in marks:
        bars = None
        if each.spread is not None:
            low, high = (np.abs(np.subtract(end, each.errors)) for end in each.spread)
            bars = {
                "type": "data",
                "symmetric": False,
                "array": high,
                "arrayminus": low,
                "width": 0,
                "thickness": 1,
            }
        figure.add_scatter(
            x=list(each.rows),
            y=list(each.errors),
            name=each.name,
            mode="markers",
            marker={"color": each.colour, "symbol": each.symbol, "size": 10},
            error_y=bars,
            hovertemplate=f"{each.name}<br>%{{x:,}} rows<br>error %{{y:.2f}}<extra></extra>",
        )
    figure.add_hline(y=1, line={"color": GREY, "dash": "dot", "width": 1})
    words = {"text": "without a release", "font": {"size": 12, "color": "#555555"}, "showarrow": False}
    figure.add_annotation(x=1, xref="paper", xanchor="right", y=0, yanchor="bottom", **words)
    frame(figure, message, 420, t=90, b=80)
    low = np.log10(min(0.1, *(0.7 * np.min(each.errors) for each in marks)))
    tops = [each.errors if each.spread is None else each.spread[1] for each in marks]
    high = np.log10(max(10.0, *(1.4 * np.max(each) for each in tops)))
    figure.update_xaxes(type="log", title_text=wrapped("Synthetic rows released"), dtick=1, exponentformat="power")
    figure.update_yaxes(type="log", title_text=wrapped(ERROR), range=[low, high], dtick=1)
    above = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    return figure.update_layout(showlegend=True, legend=above)
