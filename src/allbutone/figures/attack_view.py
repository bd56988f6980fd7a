"""Figures of one attack, drawn anew while a slider moves: the landscape, and exposure against what is released.

They are built of plain dictionaries: plotly's objects check every value, which takes longer than all else.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from allbutone.adversary.landscape import Landscape, Profile
from allbutone.disclosure.measures import HALF
from allbutone.disclosure.record_view import AttackView, ExposureCurve
from allbutone.figures import style
from allbutone.figures.style import BLUE, GREY, INK, ORANGE, PURPLE, SMALL, VERMILION, text_of, wrapped
from allbutone.support.text import counted, number

MOST_DOTS = 2000  # other records shown in a landscape
MOST_MOVING = 300  # of them where it is drawn anew with every move
DEEPEST = 12  # doublings of the drop that are told apart
# from nearly white, far below the maximum, to the darkest blue at it
_SHADES = ["#F4F8FC", "#DEEBF7", "#C9DDF0", "#A8CEE5", "#7FB9DA", "#57A0CE", "#3787C0", "#1C6AAF", "#08306B"]
DEPTHS = [[place / 8, shade] for place, shade in enumerate(_SHADES)]
TARGET = "the record attacked"
OF_HOLDER = (
    " What is expected is that of an adversary with the holder's prior; the dots are of this adversary, who has "
    "another."
)
_EDGE = 1.12  # exposures beyond it, of records near the centre of the others, are drawn there
Trace = dict[str, Any]


def relief(one: Landscape) -> Trace:
    """Draw the height by doublings of the drop, in the figure's `coloraxis`."""
    return {
        "type": "contour",
        "x": one.x,
        "y": one.y,
        "z": _doublings(one.height),
        "coloraxis": "coloraxis",
        "contours": {"start": -DEEPEST, "end": 0, "size": 1},
        "line": {"width": 0.6, "color": "white"},
        "customdata": one.height.astype(np.float32),
        "hovertemplate": "(%{x:.2f}, %{y:.2f})<br>log posterior %{customdata:.3g} from its maximum<extra></extra>",
    }


def _doublings(height: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Return 0 where the height is 0.5 below its maximum, −1 where it is 1, −2 where it is 2."""
    with np.errstate(divide="ignore"):
        return np.clip(-np.log2(-2 * np.minimum(height, 0)), -DEEPEST - 2, 1).astype(np.float32)


def marks(one: Landscape, legend: bool, dots: int = MOST_DOTS) -> list[Trace]:
    """Draw the others, at most `dots` of them, synthetic records, the target and both modes.

    Of the others, who may be real people, no values are shown.
    """
    others = one.others[:: 1 + (len(one.others) - 1) // dots]
    some = "" if len(others) == len(one.others) else f", {len(others)} of {len(one.others):,}"
    edge = {"width": 1.2, "color": INK}
    guess = {"size": 10, "symbol": "diamond", "color": VERMILION, "line": {"width": 1.2, "color": "white"}}
    faint = {"size": 10, "symbol": "diamond", "color": "white", "line": {"width": 2, "color": VERMILION}}
    star = {"size": 17, "symbol": "star", "color": ORANGE, "line": edge}
    small = {"size": 4.5, "color": "white", "line": {"width": 1, "color": INK}}
    drawn = [
        _points(f"the other records{some}", others, small, legend, "skip"),
        _points("the other mode", one.other_mode[None], faint, legend),
        _points(TARGET, one.target[None], star, legend),
        _points("the best guess (mode)", one.mode[None], guess, legend),
    ]
    if one.synthetic is not None:
        made_up = {"size": 4.5, "color": PURPLE, "opacity": 0.75}
        drawn.insert(0, _points("synthetic records", one.synthetic, made_up, legend, "skip"))
    return drawn


def _points(name: str, points: np.ndarray, marker: dict[str, Any], legend: bool, hover: str = "all") -> Trace:
    return {
        "type": "scatter", "x": points[:, 0], "y": points[:, 1], "mode": "markers", "marker": marker,
        "name": name, "legendgroup": name, "showlegend": legend, "hoverinfo": hover,
        "hovertemplate": f"{name}<br>(%{{x:.2f}}, %{{y:.2f}})<extra></extra>" if hover != "skip" else None,
    }  # fmt: skip


def view_figure(view: AttackView, names: Sequence[str], level: float = 0.95) -> go.Figure:
    """Draw the landscape of one attack, and the smallest region that holds `level` of it.

    `names` of all columns. `layout.meta["target_trace"]` is the place of the record among the traces.
    """
    return go.Figure(view_drawing(view, names, level), _validate=False)


def view_drawing(view: AttackView, names: Sequence[str], level: float = 0.95, unit: str = "") -> dict[str, Any]:
    """Return `view_figure` as plain data and layout: making a figure of it takes as long as all the rest.

    unit: that of distances, where all columns have the same.
    """
    one = view.landscape
    if isinstance(one, Profile):
        return _profile_drawing(view, one, names[view.shown[0]], level, unit)
    traces = [relief(one), _region(one, level), *marks(one, legend=True, dots=MOST_MOVING)]
    layout = _blank(560, 40)
    layout["meta"] = {
        "message": _view_message(view, unit),
        "target_trace": next(place for place, trace in enumerate(traces) if trace.get("name") == TARGET),
    }
    layout["coloraxis"] = {"colorscale": DEPTHS, "cmin": -DEEPEST, "cmax": 1, "showscale": False}
    first, second = (text_of(names[place], 24) for place in view.shown)
    words = wrapped(first, "every ring inwards is likelier to the adversary")
    for axis, name, along in (("xaxis", words, one.x), ("yaxis", second, one.y)):
        layout[axis]["title"] |= {"text": name}
        layout[axis] |= {"showgrid": False, "range": [float(along[0]), float(along[-1])]}
    return {"data": traces, "layout": layout}


def _region(one: Landscape, level: float) -> Trace:
    height = float(_doublings(np.array([one.region(level)]))[0])
    name = f"{100 * level:.3g}\u00a0% credible region"
    return {
        "type": "contour", "x": one.x, "y": one.y, "z": _doublings(one.height), "name": name, "showlegend": True,
        "contours": {"start": height, "end": height, "size": 1, "coloring": "none"}, "showscale": False,
        "line": {"width": 2.5, "color": VERMILION}, "hoverinfo": "skip",
    }  # fmt: skip


def _profile_drawing(view: AttackView, one: Profile, name: str, level: float, unit: str) -> dict[str, Any]:
    """Draw the posterior of a record of one column, beside what is believed of it without the release."""
    top, threshold = float(max(one.density.max(), one.before.max())), one.region(level)
    inside = np.where(one.density >= threshold, one.density, 0.0)
    rug = {"symbol": "line-ns", "size": 8, "line": {"width": 1, "color": INK}}
    low = np.full(len(one.others), -0.04 * top)
    star = {"size": 17, "symbol": "star", "color": ORANGE, "line": {"width": 1.2, "color": INK}}
    guess = {"size": 10, "symbol": "diamond", "color": VERMILION, "line": {"width": 1.2, "color": "white"}}
    height = np.interp(one.mode, one.x, one.density)

    def line(name: str, y: Float[np.ndarray, " points"], pen: dict[str, Any], **more: Any) -> Trace:
        shown = {"type": "scatter", "mode": "lines", "x": one.x, "y": y, "name": name, "line": pen}
        return shown | {"hoverinfo": "skip"} | more

    traces: list[Trace] = [
        line("the adversary's belief", one.density, {"color": BLUE, "width": 3}),
        line(
            f"{100 * level:.3g}\u00a0% credible region", inside, {"width": 0},
            fill="tozeroy", fillcolor="rgba(213, 94, 0, 0.25)",
        ),
        line("without the release", one.before, {"color": GREY, "dash": "dash"}),
        _points("the other records", np.column_stack([one.others, low]), rug, True, "skip"),
        _points(TARGET, np.array([[one.target[0], 0.0]]), star, True),
        _points("the best guess (mode)", np.stack([one.mode, height], axis=1), guess, True),
    ]  # fmt: skip
    layout = _blank(560, 40)
    layout["meta"] = {"message": _view_message(view, unit), "target_trace": len(traces) - 2}
    layout["xaxis"]["title"] |= {"text": wrapped(text_of(name, 24), "the higher, the likelier to the adversary")}
    layout["xaxis"] |= {"range": [float(one.x[0]), float(one.x[-1])]}
    layout["yaxis"] |= {"range": [-0.08 * top, 1.06 * top], "showticklabels": False, "showgrid": False}
    return {"data": traces, "layout": layout}


def _view_message(view: AttackView, unit: str) -> str:
    """Say how close the guess has come, in plain words."""
    off, before = view.measures.distance, view.measures.baseline_distance
    of = f" {unit}" if unit else ""
    nearer = f"{number(abs(before - off))}{of} {'closer' if off < before else 'further off'} than guessing"
    if number(off) == number(before):
        nearer = "as far as guessing"
    words = (
        f"After {counted(view.count, view.noun)} the best guess is {number(off)}{of} from the record, {nearer} "
    )
    words += "the centre of the other records."
    if view.on_mirror_hill:
        words += " It sits on the mirror hill: on the other side of that centre from the record."
    return words


def exposure_curve_figure(curve: ExposureCurve, count: int, noun: str) -> go.Figure:
    """Draw how far the guess has travelled after ever more datasets or draws, beside the expected exposure.

    The shape named "present" stands at `count`.
    """
    layout = _blank(380, 60)
    layout["meta"] = {"message": _curve_message(curve, noun)}
    last = float(curve.law_counts[-1])
    # upright numbers: more of them do not fit beside one another
    steps = (1, 2, 5) if last <= 200 else (1,)
    ticks = [step * 10**power for power in range(6) for step in steps if step * 10**power <= last]
    layout["xaxis"] |= {
        "type": "log", "range": [np.log10(0.78), np.log10(1.28 * last)], "tickvals": ticks,
        "ticktext": [f"{tick:,}" for tick in ticks],
        "title": layout["xaxis"]["title"] | {"text": f"Number of {noun}s released"},
    }  # fmt: skip
    heights = {-1: "its mirror image −1", 0: "with the others 0", HALF: "half-way ½", 1: "at the record 1"}
    layout["yaxis"] |= {"range": [-1.2, 1.2], "tickvals": list(heights), "ticktext": list(heights.values())}
    line, label = {"color": INK, "width": 1.5}, {"text": "now", "textposition": "end", "textangle": 0}
    level = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": HALF, "y1": HALF}
    upright = {"type": "line", "yref": "paper", "x0": count, "x1": count, "y0": 0, "y1": 1, "line": line}
    layout["shapes"] = [
        {"name": "half-way", **level, "line": line | {"width": 1, "dash": "dash"}},
        {"name": "present", **upright, "label": label | {"yanchor": "bottom", "font": {"size": SMALL}}},
    ]
    return go.Figure({"data": _curve_traces(curve, noun), "layout": layout}, _validate=False)


def _curve_traces(curve: ExposureCurve, noun: str) -> list[Trace]:
    words = [
        f"after {counted(int(count), noun)}<br>exposure {exposure:.2f}<br>relative error {error:.2f}"
        for count, exposure, error in zip(curve.counts, curve.exposure, curve.relative_error, strict=True)
    ]
    heights = np.clip(curve.exposure, -_EDGE, _EDGE).astype(np.float32)
    # the threshold of a record at the centre of the others is infinite, which no axis holds
    at, known = (
        min(curve.threshold, 1e9),
        f", {number(curve.threshold)}" * bool(np.isfinite(curve.threshold)),
    )
    there_and_back = np.concatenate([curve.law_counts, curve.law_counts[::-1]])
    around = np.concatenate([curve.usual[0], curve.usual[1][::-1]])
    return [
        {
            "type": "scatter", "x": curve.law_counts.astype(np.float32),
            "y": curve.law_exposure.astype(np.float32),
            "mode": "lines", "name": "expected (closed form)", "line": {"color": BLUE, "width": 3},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter", "x": curve.counts, "y": heights, "mode": "markers", "name": "this very release",
            "marker": {"size": 9, "color": VERMILION, "line": {"width": 1, "color": "white"}},
            "hovertext": words, "hoverinfo": "text",
        },
        {
            "type": "scatter", "x": [at, at], "y": [-2, 2], "mode": "lines", "hoverinfo": "skip",
            "name": f"expected to leave the others{known}", "line": {"color": GREY, "dash": "dot"},
        },
        {
            "type": "scatter", "x": there_and_back.astype(np.float32), "y": around.astype(np.float32),
            "fill": "toself", "fillcolor": "rgba(86, 180, 233, 0.25)", "line": {"width": 0}, "mode": "lines",
            "name": "nine of ten releases", "hoverinfo": "skip",
        },
    ]  # fmt: skip


def _curve_message(curve: ExposureCurve, noun: str) -> str:
    last, way = counted(int(curve.counts[-1]), noun), float(curve.exposure[-1])
    whose = OF_HOLDER if curve.own_prior else ""
    if curve.threshold > curve.counts[-1]:
        return f"The best guess is expected to stay at the centre of the other records, also after {last}.{whose}"
    beyond = counted(int(curve.threshold), noun)
    words = f"The best guess is expected to leave the centre of the other records beyond {beyond}; "
    words += f"after {last} of this very release it "
    words += f"has come {100 * way:.0f}\u00a0% of the way to the record." if way > 0 else "is no closer."
    return words + whose


@cache
def _framed(height: int, top: int) -> dict[str, Any]:
    legend = style.ON_TOP | {"xref": "container", "font": {"size": SMALL}, "itemsizing": "constant"}
    figure = style.frame(go.Figure(), "", height, t=top).update_layout(showlegend=True, legend=legend)
    return figure.to_dict()["layout"]


def _blank(height: int, top: int) -> dict[str, Any]:
    """Return the house style's layout, made once: updating a figure takes longer than all else."""
    return deepcopy(_framed(height, top))
