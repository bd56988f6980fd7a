"""Whom a release discloses: how well a value is known with the release against without it."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from allbutone.disclosure.rule import Rule
from allbutone.disclosure.told_values import Among, ToldValues, called
from allbutone.plots.framing import frame, text_of
from allbutone.plots.style import BLUE, GREY, INK, VERMILION

SHOWN = 3000  # dots: beyond that a browser grows slow
LABELLED = 3
APART = 0.02  # of the axis: dots with the same probability before are spread so far, to be seen apart


def disclosure_figure(found: Mapping[str, np.ndarray], rule: Rule, among: Among | None = None) -> go.Figure:
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


def _all_of(told: ToldValues) -> Among:
    return Among(len(told.after), int(told.disclosed.any(axis=1).sum()))


def _message(among: Among) -> str:
    people, count = among.people, among.disclosed
    if not count:
        return f"Nobody’s value is disclosed: for none of {people:,} people does a dot reach the shaded area."
    named = "1 person is" if count == 1 else f"{count:,} people are"
    return f"Of {people:,} people {named} in the shaded area: a value of theirs is disclosed."


def _scale() -> dict[str, object]:
    return {"range": [-0.03, 1.05], "tickvals": [0, 0.25, 0.5, 0.75, 1], "tickformat": ".0%"}
