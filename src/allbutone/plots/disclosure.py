"""How sure the adversary is of each person's riskiest value, with the release and without it."""

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.rule import BASELINE, PROBABILITY, TOLERANCE
from allbutone.plots.framing import SMALL, frame, wrapped
from allbutone.plots.style import BLUE, GREY, INK, VERMILION
from allbutone.support.text import number

SHOWN = 5000  # dots, beyond which a browser grows slow
LABELLED = 5


def disclosure_figure(
    found: dict[str, np.ndarray], order: np.ndarray, message: str, probability: float = 0.5
) -> go.Figure:
    """Draw a dot a person: the probability of the riskiest value without the release (x) and with it (y).

    `found` as in risk.csv; `order`: the people from those at most risk down.
    """
    shown = order[:SHOWN]
    x, y, words = _points(found, shown)
    flags = found["disclosed"][shown]
    figure = go.Figure()
    corner = {"fillcolor": VERMILION, "opacity": 0.08, "line_width": 0, "layer": "below"}
    figure.add_shape(type="rect", x0=0, x1=probability, y0=probability, y1=1, **corner)
    figure.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", line={"color": GREY, "width": 1.5, "dash": "dot"}, hoverinfo="skip"
    )
    figure.add_scatter(
        x=x.astype(np.float32), y=y.astype(np.float32), mode="markers", text=words,
        marker={"size": 8, "color": np.where(flags, VERMILION, BLUE).tolist(), "opacity": 0.7, "line_width": 0},
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    for turn, place in enumerate(np.flatnonzero(flags)[:LABELLED]):
        figure.add_annotation(
            x=float(x[place]), y=float(y[place]), text=f"row {found['row'][shown[place]]}", ax=40,
            ay=14 + 20 * turn, arrowwidth=1, arrowcolor=GREY, arrowhead=0, standoff=4,
            font={"size": 13, "color": INK},
        )  # fmt: skip
    _explain(figure, probability)
    frame(figure, message, 460)
    ticks = {"tickvals": [0, 0.25, 0.5, 0.75, 1], "ticktext": ["0 %", "25 %", "50 %", "75 %", "100 %"]}
    key = "a dot a person, by the value of theirs that is known best; red: disclosed"
    if len(shown) < len(order):
        key = f"the {len(shown):,} of {len(order):,} people at most risk"
    figure.update_xaxes(title_text=wrapped("How sure the adversary would be without the release", key), **ticks)
    figure.update_xaxes(range=[-0.02, 1.02])
    return figure.update_yaxes(title_text="How sure with the release", range=[-0.03, 1.05], **ticks)


def _explain(figure: go.Figure, probability: float) -> None:
    for x, y, text in (
        (0.02, (1 + probability) / 2, "disclosed"),
        (0.8, 0.7, "nothing learned<br>on this line"),
    ):
        figure.add_annotation(
            x=x, y=y, text=text, showarrow=False, xanchor="left", font={"size": SMALL, "color": GREY}, align="left"
        )


def _points(found: dict[str, np.ndarray], places: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the probabilities without and with the release of each person's riskiest value, and words for it."""
    names = found["riskiest"][places]
    x, y, words = np.zeros(len(places)), np.zeros(len(places)), [""] * len(places)
    for name in map(str, np.unique(names)):
        here = np.flatnonzero(names == name)
        rows = places[here]
        x[here], y[here] = found[BASELINE + name][rows], found[PROBABILITY + name][rows]
        reach = found.get(TOLERANCE + name)
        for place, row in zip(here, rows, strict=True):
            within = "" if reach is None else f" within {number(reach[row])}"
            words[place] = (
                f"row {found['row'][row]}: {name}{within}<br>with the release {100 * y[place]:.0f} %<br>"
                f"without {100 * x[place]:.0f} %"
            )
    return x, np.where(np.isnan(y), 1.0, y), words
