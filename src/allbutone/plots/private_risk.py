"""What noisy moments told of each record, beside what their guarantee allows to expect."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from scipy.special import ndtr, ndtri

from allbutone.disclosure.private_risk import BOUND, of_riskiest
from allbutone.disclosure.rule import BASELINE, PROBABILITY
from allbutone.plots.framing import text_of
from allbutone.plots.style import BLUE, GREY, INK, VERMILION, smaller, style
from allbutone.releases.private.mechanism import NoisyMoments

SHOWN = 3000  # dots: beyond that a browser grows slow


def private_risk_figure(found: Mapping[str, np.ndarray], told: NoisyMoments) -> go.Figure:
    """Draw each record's most changed probability with the release against that without, and Φ(Φ⁻¹(π) + μ)."""
    after, before, bound = (of_riskiest(found, kind) for kind in (PROBABILITY, BASELINE, BOUND))
    order = np.argsort(before - after)[:SHOWN]
    disclosed = found["disclosed"][order]
    figure = go.Figure(
        go.Scatter(
            x=before[order],
            y=after[order],
            mode="markers",
            marker={"size": 7, "color": np.where(disclosed, VERMILION, BLUE).tolist(), "opacity": 0.7},
            text=[
                f"row {row}, {text_of(str(name), 30)}"
                for row, name in zip(found["row"][order], found["riskiest"][order], strict=True)
            ],
            hovertemplate="%{text}<br>with the release %{y:.3f}<br>without %{x:.3f}<extra></extra>",
        )
    )
    share = np.linspace(0.0, 1.0, 201)
    # where there is room beside each line for its name
    lines = {
        "no more than before": (share, GREY, 0.8),
        f"allowed on average by ε = {told.epsilon:.3g}": (ndtr(ndtri(share) + told.mu), INK, 0.25),
    }
    for words, (height, colour, at) in lines.items():
        figure.add_scatter(
            x=share, y=height, mode="lines", line={"color": colour, "width": 2, "dash": "dash"}, hoverinfo="skip"
        )
        place = int(at * 200)
        left = colour == INK
        figure.add_annotation(
            x=share[place], y=float(height[place]), text=words, showarrow=False, font={"color": colour},
            xanchor="right" if left else "left", yanchor="bottom" if left else "top", xshift=-6 if left else 6,
        )  # fmt: skip
    means = [float(np.mean(each)) for each in (before, after, bound)]
    head = "The release raises the chance to guess a value from {:.2f} to {:.2f}; the guarantee allows {:.2f}"
    below = "One dot a record, its riskiest column. Confidential: it describes individual records."
    style(figure, head.format(*means) + smaller(below))
    figure.update_xaxes(title_text="Probability of the true value without the release", range=[-0.02, 1.02])
    figure.update_yaxes(title_text="With the release", range=[-0.02, 1.02])
    return figure
