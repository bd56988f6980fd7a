"""The paper's supplementary Figure A6: densities of the Kolmogorov-Smirnov p-values, a row for each column."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from allbutone.plots.fidelity import NO_MEASUREMENTS
from allbutone.plots.framing import (
    MOST_ROWS,
    empty,
    frame,
    furthest,
    name_rows,
    of_all,
    room_for,
    text_of,
    wrapped,
)
from allbutone.plots.style import BLUE, INK
from allbutone.support.text import percent
from allbutone.utility.fidelity import LEVEL, Fidelity

GRID = np.linspace(0, 1, 201)
TALLEST = 1.6  # times as dense as uniform p-values: fills a row


def p_value_densities(fidelity: Fidelity) -> go.Figure:
    """Draw the density of each column's p-values over all datasets, beside that of uniform ones."""
    if not fidelity.ks_p.shape[1]:
        return empty(NO_MEASUREMENTS)
    shown = furthest(1 - fidelity.ks_p_share, MOST_ROWS)
    heights = np.stack([reflected_density(fidelity.ks_p[:, at]) for at in shown])
    tall = 0.85 / max(TALLEST, float(heights.max()))
    figure = go.Figure()
    for row, (at, height) in enumerate(zip(shown, heights, strict=True)):
        base = len(shown) - 1 - row
        name = text_of(fidelity.columns[at], 40)
        figure.add_scatter(x=[0, 1], y=[base, base], mode="lines", line={"width": 0}, hoverinfo="skip")
        figure.add_scatter(
            x=GRID, y=base + tall * height, mode="lines", line={"color": BLUE, "width": 2}, fill="tonexty",
            fillcolor="rgba(86,180,233,0.45)", customdata=height,
            hovertemplate=f"{name}<br>p-value %{{x:.2f}}: density %{{customdata:.2f}}<extra></extra>",
        )  # fmt: skip
        uniform = {"color": INK, "width": 1.5, "dash": "dash"}
        figure.add_scatter(x=[0, 1], y=[base + tall] * 2, mode="lines", line=uniform, hoverinfo="skip")
    worst = shown[int(np.argmin(fidelity.ks_p_share[shown]))]
    share, expected = percent(fidelity.ks_p_share[worst]), percent(1 - LEVEL)
    message = (
        f"Fewest p-values lie above {LEVEL:g} in {fidelity.columns[worst]}: {share} of {len(fidelity.ks_p):,}; "
        f"of uniform ones {expected} would."
    )
    frame(figure, message, 120 + room_for(len(shown), 70, 40), l=20)
    name_rows(figure, [text_of(fidelity.columns[at], 16) for at in shown], 1.0, 0.1)
    figure.update_yaxes(tickvals=np.arange(len(shown))[::-1] + 0.4)
    key = "; ".join(
        filter(None, ("dashed: all p-values equally likely", of_all(len(shown), len(fidelity.columns), "columns")))
    )
    title = wrapped("p-value of the Kolmogorov-Smirnov test, real against synthetic", key)
    return figure.update_xaxes(title_text=title, range=[-0.02, 1.02])


def reflected_density(values: Float[np.ndarray, " k"]) -> Float[np.ndarray, " g"]:
    """Return a normal kernel density on 0 … 1 with Silverman's width; what would lie beyond an end is put back.

    f(x) = Σᵢ Σ_s φ((x − sᵢ)/h)/(k·h) over the images pᵢ, −pᵢ and 2 − pᵢ.
    """
    width = max(1.06 * float(np.std(values)) * len(values) ** -0.2, 0.02)
    images = np.concatenate([values, -values, 2 - values])
    away = (GRID[:, None] - images) / width
    return np.sum(np.exp(-0.5 * away * away), axis=1) / (len(values) * width * np.sqrt(2 * np.pi))
