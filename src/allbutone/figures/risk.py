"""What a release told of each record: whom it discloses, how close the guess came, at what ε."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int
from scipy.special import ndtr, ndtri

from allbutone.disclosure.audit import law_of_everything, law_of_means
from allbutone.disclosure.measures import HALF
from allbutone.disclosure.private_risk import BOUND, of_riskiest
from allbutone.disclosure.rule import BASELINE, PROBABILITY, JudgedPeople, Rule, ToldValues, called
from allbutone.figures.style import BLUE, GREY, INK, VERMILION, frame, smaller, style, text_of, wrapped
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.support.text import number

# What a release told of each record: how close the guess came against how much likelier it made the truth.


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


# Whom a release discloses: how well a value is known with the release against without it.


LABELLED = 3
APART = 0.02  # of the axis: dots with the same probability before are spread so far, to be seen apart


def disclosure_figure(found: Mapping[str, np.ndarray], rule: Rule, among: JudgedPeople | None = None) -> go.Figure:
    """Draw, for each person, the value that comes closest to being disclosed, or is; `found` as in risk.csv.

    among: of how many people those found are the worst, if they are.
    """
    told = ToldValues.of(found, rule)
    shown, worst = told.order[:SHOWN], told.worst
    after, before = (np.nan_to_num(each[shown, worst[shown]], nan=1.0) for each in (told.after, told.before))
    flags = np.any(told.disclosed, axis=1)[shown]
    x = _apart(before, flags)
    figure = go.Figure(go.Scatter(**_area(rule.probability), hoverinfo="skip"))
    line = {"mode": "lines", "line": {"color": GREY, "dash": "dot", "width": 1}, "hoverinfo": "skip"}
    figure.add_scatter(x=[0, 1], y=[0, 1], **line)
    names = [text_of(told.names[at], 40) for at in worst[shown]]
    word, keys = called(found)
    people = [text_of(f"{word} {key}", 40) for key in keys[shown]]
    figure.add_scatter(
        x=x,
        y=after,
        mode="markers",
        marker={
            "size": 7,
            "color": np.where(flags, VERMILION, BLUE).tolist(),
            "opacity": 0.6,
            "line": {"width": 0},
        },
        text=[f"{person}: {name}" for person, name in zip(people, names, strict=True)],
        customdata=before,
        hovertemplate="<b>%{text}</b><br>without the release %{customdata:.1%}<br>with it %{y:.1%}<extra></extra>",
    )
    _name(figure, x, after, people[: max(1, min(LABELLED, flags.sum()))], rule.probability)
    frame(figure, _message(among or _all_of(told)), 400, b=80)
    figure.update_xaxes(title_text="Probability without the release", **_scale())
    figure.update_yaxes(title_text="Probability with the release", **_scale())
    return figure


def _apart(before: np.ndarray, disclosed: np.ndarray) -> np.ndarray:
    """Return where to draw the dots: apart, where many share their level's probability.

    Those disclosed move to the left and the others to the right, so that none crosses the shaded area's edge.
    """
    if 4 * len(np.unique(before.round(6))) >= len(before):
        return before
    # by multiples of the golden ratio: even, and the same every time
    step = APART * (np.arange(len(before)) * 0.618034 % 1)
    return np.clip(before + np.where(disclosed, -step, step), 0.0, 1.0)


def _area(probability: float) -> dict[str, object]:
    """Return where a value is disclosed: above P with the release, below it without, and at doubled odds."""
    # the odds double along y = 2x/(1 + x), which reaches P at x = P/(2 − P)
    x = np.linspace(probability / (2 - probability), probability, 30)
    return {
        "x": np.concatenate([[0], x, [probability, 0]]),
        "y": np.concatenate([[probability], 2 * x / (1 + x), [1, 1]]),
        "fill": "toself", "fillcolor": VERMILION, "opacity": 0.1, "line": {"width": 0}, "mode": "lines",
    }  # fmt: skip


def _name(figure: go.Figure, x: np.ndarray, y: np.ndarray, labels: list[str], probability: float) -> None:
    small = {"showarrow": False, "font": {"size": 12, "color": "#555555"}}
    figure.add_annotation(
        x=0.015, y=probability + 0.01, text="disclosed", xanchor="left", yanchor="bottom", **small
    )
    beside = {"x": 1.04, "y": 0.5, "xanchor": "right", "yanchor": "top", "align": "right"}
    figure.add_annotation(text="on the line: as<br>without the release", **beside, **small)
    arrow = {
        "arrowwidth": 1,
        "arrowcolor": GREY,
        "arrowhead": 0,
        "standoff": 4,
        "font": {"size": 12, "color": INK},
    }
    taken: list[float] = []
    for at, label in enumerate(labels):
        height = float(y[at]) + (0.115 if y[at] < 0.7 else 0)  # there is no room above the highest
        while any(abs(height - other) < 0.06 for other in taken):
            height -= 0.06
        taken.append(height)
        figure.add_annotation(x=x[at], y=y[at], text=label, ax=55, ay=330 * (y[at] - height), **arrow)


def _all_of(told: ToldValues) -> JudgedPeople:
    return JudgedPeople(len(told.after), int(told.disclosed.any(axis=1).sum()))


def _message(among: JudgedPeople) -> str:
    people, count = among.people, among.disclosed
    if not count:
        return f"Nobody’s value is disclosed: for none of {people:,} people does a dot reach the shaded area."
    named = "1 person is" if count == 1 else f"{count:,} people are"
    return f"Of {people:,} people {named} in the shaded area: a value of theirs is disclosed."


def _scale() -> dict[str, object]:
    return {"range": [-0.03, 1.05], "tickvals": [0, 0.25, 0.5, 0.75, 1], "tickformat": ".0%"}


# What noisy moments told of each record, beside what their guarantee allows to expect.


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


# The ε of single records by a release: how many have how much.


BINS = 40


def epsilon_figure(epsilon: Float[np.ndarray, " n"], rows: Int[np.ndarray, " n"]) -> go.Figure:
    """Draw how many records have which ε, and where the largest is."""
    positive = np.maximum(epsilon, 1e-6)
    low, high = np.log10(positive.min()), np.log10(positive.max())
    edges = np.linspace(low, max(high, low + 0.1), BINS + 1)
    places = np.searchsorted(edges, np.log10(positive), "right") - 1
    counts = np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)
    worst = int(np.argmax(epsilon))
    figure = go.Figure(
        go.Bar(
            x=0.5 * (edges[1:] + edges[:-1]),
            y=counts,
            width=edges[1] - edges[0],
            marker={"color": BLUE, "line": {"width": 0}},
            customdata=10 ** edges[:-1],
            hovertemplate="ε from %{customdata:.3g}<br>%{y:,} records<extra></extra>",
        )
    )
    message = f"Of row {rows[worst]} the release says most: its ε is {number(float(epsilon[worst]))}"
    frame(figure, f"{message}. Per record, from the data, confidential, not a guarantee.", 300)
    figure.add_annotation(
        x=high, y=1, text=f"row {rows[worst]}", showarrow=True, ax=-20, ay=-40, font={"color": INK}
    )
    round_numbers = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)
    ticks = [each for each in round_numbers if low - 0.1 <= np.log10(each) <= high + 0.1]
    figure.update_xaxes(title_text="ε of a record", tickvals=np.log10(ticks), ticktext=[f"{t:g}" for t in ticks])
    figure.update_yaxes(title_text="Records")
    return figure


# How closely a record is found by the rows of a fitted normal: the error against the number of rows released.


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
