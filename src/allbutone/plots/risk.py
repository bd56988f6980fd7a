"""What a release told of each record: how close the guess came against how much likelier it made the truth."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.measures import HALF
from allbutone.disclosure.told_values import called
from allbutone.plots.framing import text_of
from allbutone.plots.style import BLUE, GREY, INK, VERMILION, smaller, style

SHOWN = 3000  # dots: beyond that a browser grows slow
_MEASURES = ("exposure", "relative_error", "information_gain", "mass", "prior_mass")


def risk_figure(
    columns: dict[str, np.ndarray],
    names: Sequence[str],
    order: np.ndarray,
    labels: int = 10,
    people: int | None = None,
) -> go.Figure:
    """Draw how close the adversary's guess comes to each record against what the release tells of it.

    `columns` as in risk.csv, `names` of the table's columns, `order` the records from the one closest to being
    disclosed down, some of them labelled. people: of how many records these are the worst, if they are.
    """
    shown, first = order[:SHOWN], order[:labels]
    closer = np.maximum(1 - columns["relative_error"], -1.0)  # worse than -1 is as good as no guess at all
    gain = np.arcsinh(columns["information_gain"])
    exposed = columns["disclosed"]
    figure = go.Figure(
        go.Scatter(
            x=gain[shown],
            y=closer[shown],
            mode="markers",
            marker={"size": 8, "color": _dot_colours(exposed[shown]), "opacity": 0.75, "line": {"width": 0}},
            **_described(columns, names, shown),
        )
    )
    spans = _x_range(gain[shown])
    _shade(figure, spans)
    shifts = _label_shifts(gain[shown], closer[shown], len(first), spans)
    word, keys = called(columns)
    for place, shift in zip(first, shifts, strict=True):
        _label(figure, gain[place], closer[place], text_of(f"{word} {keys[place]}", 40), shift)
    style(figure, _risk_title(shown, people or len(order)))
    figure.update_layout(margin={"l": 115})
    ticks = [t for t in (-30, -10, -3, -1, 0, 1, 3, 10, 30, 100, 300) if spans[0] <= np.arcsinh(t) <= spans[1]]
    figure.update_xaxes(
        title_text="Information gain at the true values, nats<br>(below: times more likely than before)",
        tickvals=np.arcsinh(ticks),
        ticktext=[f"{t}<br>×{_factor(t)}" for t in ticks],
        range=spans,
    )
    figure.update_yaxes(
        title_text="Closer to the record<br>by this share of the way", range=[-1.1, 1.3], dtick=0.5
    )
    return figure


def _label(figure: go.Figure, x: float, y: float, text: str, shift: tuple[int, int]) -> None:
    line = {"arrowwidth": 1, "arrowcolor": GREY, "arrowhead": 0, "standoff": 4}
    right, up = shift
    figure.add_annotation(x=x, y=y, text=text, ax=right, ay=-up, font={"size": 13, "color": INK}, **line)


def _risk_title(shown: np.ndarray, people: int) -> str:
    head = "For experts, how a risk comes about: how close the guess comes, and what the release tells"
    what = "One dot for each record" if len(shown) == people else f"{len(shown):,} of {people:,} records"
    return head + smaller(f"{what}; hover for its measures. Confidential: it describes individual records.")


def _shade(figure: go.Figure, spans: tuple[float, float]) -> None:
    """Shade where a record is found, and where its mirror image is."""
    for low, high, colour, words in (
        (HALF, 1.3, VERMILION, "more than halfway there"),
        (-1.1, -HALF, GREY, "misled: worse than guessing the centre"),
    ):
        figure.add_hrect(y0=low, y1=high, fillcolor=colour, opacity=0.08, line_width=0, layer="below")
        corner = {"yanchor": "top", "y": high} if low > 0 else {"yanchor": "bottom", "y": low}
        figure.add_annotation(
            x=spans[0],
            xanchor="left",
            text=words,
            showarrow=False,
            font={"size": 13, "color": "#555555"},
            **corner,
        )


def _dot_colours(exposed: np.ndarray) -> list[str]:
    return [VERMILION if flag else BLUE for flag in exposed]


def _described(columns: dict[str, np.ndarray], names: Sequence[str], shown: np.ndarray) -> dict[str, Any]:
    """Return what is shown of a dot: the numbers once a dot, the words once for all."""
    said = {key: key.replace("_", " ") for key in _MEASURES if key in columns}
    said |= {f"error_{name}": f"guess of {text_of(name, 30)} off by" for name in names[:10]}
    lines = [f"{words} %{{customdata[{at}]:.3~g}}" for at, words in enumerate(said.values())]
    word, keys = called(columns)
    return {
        # numbers as they are: exact, however many there are
        "text": [text_of(key, 40) if isinstance(key, str) else key for key in keys[shown].tolist()],
        "customdata": np.column_stack([columns[key][shown] for key in said]),
        "hovertemplate": "<br>".join([f"<b>{word} %{{text}}</b>", *lines]) + "<extra></extra>",
    }


def _x_range(gain: np.ndarray) -> tuple[float, float]:
    low, high = min(float(gain.min()), -0.3), max(float(gain.max()), 1.0)
    return low - 0.08 * (high - low), high + 0.08 * (high - low)


def _factor(nats: float) -> str:
    """Return e to the nats in round numbers."""
    if -5 <= nats <= 5:
        return f"{np.exp(nats):.2g}"
    return f"10<sup>{nats / np.log(10):.0f}</sup>"


def _label_shifts(x: np.ndarray, y: np.ndarray, labels: int, spans: tuple[float, float]) -> list[tuple[int, int]]:
    """Return, for each of the first dots, the shift in pixels that puts its label where it covers least."""
    dots = np.column_stack([(x - np.mean(spans)) * 1100 / (spans[1] - spans[0]), y * 480 / 2.4])
    around = [(r, u) for u in (22, -22, 45, -45, 70, -70, 95, -95) for r in (45, 100, 160)]
    around.sort(key=lambda shift: shift[0] ** 2 + shift[1] ** 2)
    taken = np.empty((0, 2))
    shifts = []
    for dot in dots[:labels]:
        # towards the middle, where there is room on the narrowest screen
        inward = [(-r if dot[0] > 0 else r, u) for r, u in around]
        # another label is worse to cover than any number of dots
        cost = [
            len(dots) * _covered(dot + shift, taken, 64, 20) + _covered(dot + shift, dots, 36, 13)
            for shift in inward
        ]
        shifts.append(inward[int(np.argmin(cost))])
        taken = np.vstack([taken, dot + shifts[-1]])
    return shifts


def _covered(label: np.ndarray, things: np.ndarray, width: float, height: float) -> int:
    return int(np.sum(np.all(np.abs(things - label) < (width, height), axis=1)))
