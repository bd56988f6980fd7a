"""Kaplan-Meier curves: how long real and synthetic people stay without an event."""

import numpy as np
import plotly.graph_objects as go

from allbutone.figures import style
from allbutone.figures.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, text_of
from allbutone.utility.survival import Followed, Survival

COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
MOST_GROUPS = len(COLOURS)


def survival_figure(survival: Survival) -> go.Figure:
    """Draw the real and the synthetic curve of each group over each other."""
    figure = go.Figure()
    shown = sorted(survival.groups, key=lambda each: -abs(each.z))[:MOST_GROUPS]
    last = max((float(each.real.times.max()) for each in shown), default=1.0)
    for each, colour in zip(shown, COLOURS, strict=False):
        whose = f"{text_of(each.group, 20)}, " if each.group else ""
        for what, followed, dash, width in (
            ("real", each.real, None, 2.0),
            ("synthetic", each.pooled, "dash", 2.5),
        ):
            x, y = _steps(followed, last)
            figure.add_scatter(
                x=x, y=y, mode="lines", name=f"{whose}{what}",
                line={"color": colour, "width": width, "dash": dash, "shape": "hv"},
                hovertemplate=f"{whose}{what}<br>%{{x:.4g}}: %{{y:.0%}} without it<extra></extra>",
            )  # fmt: skip
    style.frame(figure, survival.words, 380, t=60, b=60)
    key = style.of_all(len(shown), len(survival.groups), "groups")
    figure.update_layout(showlegend=True, legend=style.ON_TOP)
    figure.update_xaxes(
        title_text=style.wrapped(text_of(survival.time, 40), key), rangemode="tozero", range=[0, last * 1.02]
    )
    return figure.update_yaxes(
        title_text=f"Without {text_of(survival.event, 30)}", range=[0, 1.02], **style.SHARES
    )


def _steps(followed: Followed, last: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of a curve, as far as the real one is drawn."""
    x, y = followed.curve
    end = min(last, float(followed.times.max()) if len(followed.times) else 0.0)
    kept = x <= end
    return np.append(x[kept], end).astype(np.float32), np.append(y[kept], y[kept][-1]).astype(np.float32)
