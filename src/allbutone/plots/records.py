"""All records of a table by what a release is expected to tell of them: exposure against leverage."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.plots.framing import SMALL, frame, wrapped
from allbutone.plots.style import BLUE, GREY, INK, VERMILION
from allbutone.support.text import counted, number

MOST_DOTS = 5000  # beyond that a browser grows slow
LABELLED = 3
CURVE = 300  # points
_LOWEST = 1e-9  # leverage of a record at the very centre, which a logarithmic axis has no place for


def records_figure(
    law: ExposureLaw, leverage: Float[np.ndarray, " n"], rows: Int[np.ndarray, " n"], count: int, limit: float
) -> go.Figure:
    """Draw each record's expected exposure (closed form) after `count` datasets, or draws, against its leverage.

    `limit` is the exposure that none may pass. The dots' customdata are the records' numbers, `rows`.
    """
    order = np.argsort(-leverage, kind="stable")
    shown = _some(order)
    x, heights = np.maximum(leverage, _LOWEST), np.asarray(law.exposure(leverage, count))
    low, high = np.log10(np.min(x[shown])) - 0.1, np.log10(np.max(x[shown])) + 0.1
    fine = np.geomspace(10**low, 10**high, CURVE)
    figure = go.Figure()
    figure.add_scatter(
        x=fine.astype(np.float32), y=np.asarray(law.exposure(fine, count)).astype(np.float32), mode="lines",
        line={"color": GREY, "width": 2}, hoverinfo="skip",
    )  # fmt: skip
    colours = np.where(heights[shown] > limit, VERMILION, BLUE).tolist()
    figure.add_scatter(
        x=x[shown].astype(np.float32), y=heights[shown].astype(np.float32), customdata=rows[shown].tolist(),
        mode="markers", marker={"size": 8, "color": colours, "opacity": 0.7, "line": {"width": 0}},
        hovertemplate="row %{customdata}<br>leverage %{x:.3g}<br>exposure %{y:.2f}<extra></extra>",
    )  # fmt: skip
    _label(figure, order[:LABELLED], rows, x, heights)
    _mark_limit(figure, limit)
    frame(figure, _message(law, leverage, rows, heights, count, limit), 400)
    key = f"a dot a record, on the closed form's curve; red: above {limit:g}; click one to look at it"
    if len(shown) < len(leverage):
        key = f"{len(shown):,} of the {len(leverage):,} records, the most exposed among them; click one"
    figure.update_xaxes(type="log", range=[low, high], title_text=wrapped("Leverage of the record", key))
    ticks = [
        digit * 10.0**power for power in range(-10, 13) for digit in ((1, 2, 5) if high - low < 1.7 else (1,))
    ]
    figure.update_xaxes(tickvals=ticks, ticktext=[f"{tick:,.12g}" for tick in ticks])
    title = f"Expected exposure after<br>{counted(count, _noun(law))}"
    return figure.update_yaxes(title_text=title, range=[-0.05, 1.1], tickvals=[0, 0.25, 0.5, 0.75, 1])


def _noun(law: ExposureLaw) -> str:
    return "parameter draw" if law.rows is None else "dataset"


def _some(order: np.ndarray) -> np.ndarray:
    """Return the most exposed half of what can be shown, and of the rest as many, evenly."""
    if len(order) <= MOST_DOTS:
        return order
    first, rest = order[: MOST_DOTS // 2], order[MOST_DOTS // 2 :]
    return np.concatenate([first, rest[:: -(-len(rest) // (MOST_DOTS // 2))]])


def _label(figure: go.Figure, places: np.ndarray, rows: np.ndarray, x: np.ndarray, heights: np.ndarray) -> None:
    for turn, place in enumerate(map(int, places)):
        figure.add_annotation(
            # annotations on a logarithmic axis are placed by the logarithm
            x=float(np.log10(x[place])), y=float(heights[place]), text=f"row {rows[place]}", ax=-34,
            ay=-22 - 24 * turn, arrowwidth=1, arrowcolor=GREY, arrowhead=0, standoff=4,
            font={"size": 13, "color": INK},
        )  # fmt: skip


def _mark_limit(figure: go.Figure, limit: float) -> None:
    figure.add_hline(y=limit, line={"dash": "dash", "color": INK, "width": 1.5})
    figure.add_annotation(
        x=0.005, xref="paper", xanchor="left", y=limit, yanchor="bottom", showarrow=False,
        text=f"limit {limit:g}", font={"size": SMALL},
    )  # fmt: skip


def _message(
    law: ExposureLaw, leverage: np.ndarray, rows: np.ndarray, heights: np.ndarray, count: int, limit: float
) -> str:
    beyond, worst = int(np.sum(heights > limit)), int(np.argmax(leverage))
    have = "has" if beyond == 1 else "have"
    who = f"{beyond:,} of {len(leverage):,} records {have}" if beyond else "no record has"
    after = f"After {counted(count, _noun(law))} {who} an expected exposure above {limit:g}"
    if heights[worst] > 0:
        return f"{after}; the most exposed is row {rows[worst]} with {number(heights[worst])}."
    threshold = float(law.threshold(leverage[worst]))
    leaves = f" before {number(np.floor(threshold) + 1)} of them" if np.isfinite(threshold) else ""
    return f"{after}: not even row {rows[worst]}, which stands out most, is told from the others{leaves}."
