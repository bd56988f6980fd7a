"""All records of a table by their chance to be disclosed, against how much they stand out."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from allbutone.disclosure.lineup import CONFIDENCE, Lineup, likeliest
from allbutone.plots.framing import SMALL, frame, wrapped
from allbutone.plots.style import BLUE, GREY, INK, VERMILION
from allbutone.support.text import chance, counted

MOST_DOTS = 5000  # beyond that a browser grows slow
LABELLED = 3
_LOWEST = 1e-9  # leverage of a record at the very centre, which a logarithmic axis has no place for


def records_figure(
    lineup: Lineup, rows: Int[np.ndarray, " n"], count: int, chances: Float[np.ndarray, " n"]
) -> go.Figure:
    """Draw each record's chance that `count` datasets, or draws, disclose a value of it, against its leverage.

    `chances` in the order of the lineup. The dots' customdata are the records' numbers, `rows`.
    """
    shown = _some(np.arange(len(lineup.order)))
    numbers = rows[lineup.order]
    x = np.maximum(lineup.leverage[lineup.order], _LOWEST)
    low, high = np.log10(np.min(x[shown])) - 0.1, np.log10(np.max(x[shown])) + 0.1
    accepted = 1 - CONFIDENCE
    figure = go.Figure()
    colours = np.where(chances[shown] > accepted, VERMILION, BLUE).tolist()
    figure.add_scatter(
        x=x[shown].astype(np.float32), y=chances[shown].astype(np.float32), customdata=numbers[shown].tolist(),
        mode="markers", marker={"size": 8, "color": colours, "opacity": 0.7, "line": {"width": 0}},
        hovertemplate="row %{customdata}<br>chance %{y:.1%}<br>leverage %{x:.3g}<extra></extra>",
    )  # fmt: skip
    first = likeliest(chances)[:LABELLED]
    _label(figure, numbers[first], x[first], chances[first])
    _mark_accepted(figure, accepted)
    noun = "parameter draw" if lineup.law.rows is None else "dataset"
    frame(figure, _message(numbers, chances, count, noun, accepted), 400)
    key = f"one dot for each record; orange: above {chance(accepted)}; click one to look at it"
    if len(shown) < len(rows):
        key = f"{len(shown):,} of the {len(rows):,} records, those that stand out most among them; click one"
    title = wrapped("How far the record lies from the others (leverage)", key)
    figure.update_xaxes(type="log", range=[low, high], title_text=title)
    ticks = [
        digit * 10.0**power for power in range(-10, 13) for digit in ((1, 2, 5) if high - low < 1.7 else (1,))
    ]
    figure.update_xaxes(tickvals=ticks, ticktext=[f"{tick:,.12g}" for tick in ticks])
    after = f"Chance to be disclosed<br>by {counted(count, noun)}"
    return figure.update_yaxes(
        title_text=after, range=[-0.05, 1.1], tickvals=[0, 0.25, 0.5, 0.75, 1], tickformat=".0%"
    )


def _some(order: np.ndarray) -> np.ndarray:
    """Return the most exposed half of what can be shown, and of the rest as many, evenly."""
    if len(order) <= MOST_DOTS:
        return order
    first, rest = order[: MOST_DOTS // 2], order[MOST_DOTS // 2 :]
    return np.concatenate([first, rest[:: -(-len(rest) // (MOST_DOTS // 2))]])


def _label(figure: go.Figure, numbers: np.ndarray, x: np.ndarray, chances: np.ndarray) -> None:
    for turn in range(len(numbers)):
        away = 22 + 24 * turn
        figure.add_annotation(
            # annotations on a logarithmic axis are placed by the logarithm
            x=float(np.log10(x[turn])), y=float(chances[turn]), text=f"row {numbers[turn]}", ax=-34,
            # there is no room above the highest
            ay=away if chances[turn] > 0.5 else -away, arrowwidth=1, arrowcolor=GREY, arrowhead=0, standoff=4,
            font={"size": 13, "color": INK},
        )  # fmt: skip


def _mark_accepted(figure: go.Figure, accepted: float) -> None:
    figure.add_hline(y=accepted, line={"dash": "dash", "color": INK, "width": 1.5})
    figure.add_annotation(
        x=0.005, xref="paper", xanchor="left", y=accepted, yanchor="bottom", showarrow=False,
        text=f"accepted of all together: {chance(accepted)}", font={"size": SMALL},
    )  # fmt: skip


def _message(numbers: np.ndarray, chances: np.ndarray, count: int, noun: str, accepted: float) -> str:
    beyond, worst = int(np.sum(chances > accepted)), likeliest(chances)[0]
    by = f"By {counted(count, noun)}"
    if not beyond:
        return f"{by} nobody is disclosed with a chance of more than {chance(accepted)}."
    who = f"{beyond:,} of {len(numbers):,} people {'is' if beyond == 1 else 'are'}"
    first = f"row {numbers[worst]} is the likeliest, with {chance(chances[worst])}"
    return f"{by} {who} disclosed with a chance of more than {chance(accepted)}; {first}."
