"""How the risk falls with what the adversary lacks: columns of everyone, or records besides the target."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from allbutone.plots.study_law import COLOURS, EXPOSURE, quartile_dots, released, where
from allbutone.plots.style import BLUE, GREY, VERMILION, smaller, style, style_panels
from allbutone.studies.run import Study
from allbutone.support.text import counted, number, percent

KINDS = {"records": "Other records lacking, besides the target", "columns": "Columns of everyone lacking"}
_PANELS = {"information_gain": "Information gain, nats", "exposure": "Exposure"}
_COLOURS = {"information_gain": BLUE, "exposure": VERMILION}


def lacking_figure(found: Mapping[str, np.ndarray], rows: Sequence[int]) -> go.Figure:
    """Draw gain and exposure of some records (`rows`, from 1) by how much is lacking.

    `found` as `risk_by_lacking` returns it. Thin lines are records, the thick one their median.
    """
    kinds = [kind for kind in KINDS if np.any(found["lacking"] == kind)]
    share = {"shared_xaxes": "columns", "shared_yaxes": "rows"}
    figure = make_subplots(len(_PANELS), len(kinds), vertical_spacing=0.06, horizontal_spacing=0.06, **share)
    for column, kind in enumerate(kinds, 1):
        for line, (name, words) in enumerate(_PANELS.items(), 1):
            at, (numbers, values) = {"row": line, "col": column}, _by_number(found, kind, name, rows)
            for row, each in zip(rows, values, strict=True):
                told = [f"row {row}, {n} lacking: {number(v)}" for n, v in zip(numbers, each, strict=True)]
                look = {"mode": "lines", "line": {"color": GREY, "width": 1}, "hoverinfo": "text"}
                figure.add_scatter(x=numbers, y=each, hovertext=told, **look, **at)
            look = {"mode": "lines+markers", "line": {"color": _COLOURS[name], "width": 3}, "hoverinfo": "skip"}
            figure.add_scatter(x=numbers, y=np.median(values, axis=0), **look, **at)
            if column == 1:
                figure.update_yaxes(title_text=words, **at)
            if name == "exposure":  # next to the others' centre it is anything
                figure.update_yaxes(range=[-0.55, 1.25], **at)
        figure.update_xaxes(title_text=KINDS[kind], row=len(_PANELS), col=column)
    below = (
        f"Thin: the {counted(len(rows), 'record')} most exposed to one who lacks nothing; thick: their median. "
    )
    below += "Confidential: it describes individual records."
    style(figure, _message(found, rows, kinds) + smaller(below))
    return figure.update_layout(height=640)


def _by_number(
    found: Mapping[str, np.ndarray], kind: str, name: str, rows: Sequence[int]
) -> tuple[list[int], np.ndarray]:
    """Return the numbers lacking, and a measure of each record at each of them."""
    held = found["lacking"] == kind
    numbers = sorted(set(found["number"][held].tolist()))
    values = [
        [found[name][held & (found["number"] == n) & (found["row"] == row)][0] for n in numbers] for row in rows
    ]
    return numbers, np.array(values)


def _message(found: Mapping[str, np.ndarray], rows: Sequence[int], kinds: Sequence[str]) -> str:
    """Say how the gain falls of the record that the release tells most of."""
    parts, best, start = [], 0, ""
    for kind in kinds:
        numbers, gain = _by_number(found, kind, "information_gain", rows)
        best = int(np.argmax(gain[:, 0]))
        start, lacking = number(gain[best, 0]), counted(numbers[-1], kind.removesuffix("s"))
        parts.append(f"to {number(gain[best, -1])} where the adversary lacks {lacking}")
    return f"Row {rows[best]}: the gain falls from {start} nats {', '.join(parts)}"


def study_lacking_figure(study: Study, release: str) -> go.Figure:
    """Draw simulated exposure against what is lacking, a colour for each number released."""
    places = where(study, release=release)
    kinds = [kind for kind in KINDS if any(getattr(study.cells[at], f"lacking_{kind}") for at in places)]
    counts = sorted({study.cells[at].count for at in places})
    titles = [KINDS[kind] for kind in kinds]
    figure = make_subplots(1, len(kinds), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.04)
    for column, kind in enumerate(kinds, 1):
        other = next(name for name in KINDS if name != kind)
        alone = [at for at in places if not getattr(study.cells[at], f"lacking_{other}")]
        for turn, count in enumerate(counts):
            held = [at for at in alone if study.cells[at].count == count]
            x = np.array([getattr(study.cells[at], f"lacking_{kind}") for at in held]) + 0.06 * turn
            dots = quartile_dots(study, held, x, COLOURS[turn % len(COLOURS)])
            dots.update(mode="lines+markers", name=released(count, release), showlegend=column == 1)
            figure.add_trace(dots, row=1, col=column)
    first, last = (_median_at(study, places, kinds[0], pick) for pick in (min, max))
    head = f"The guess comes {percent(first[1])} of the way to the record where nothing is lacking, "
    head += f"{percent(last[1])} where "
    head += f"{counted(last[0], kinds[0].removesuffix('s'))} {'are' if last[0] != 1 else 'is'}"
    style_panels(figure, head, f"After {released(counts[-1], release)}. Dots: medians between quartiles.")
    figure.update_yaxes(title_text=EXPOSURE, row=1, col=1)
    return figure


def _median_at(study: Study, places: Sequence[int], kind: str, pick: object) -> tuple[int, float]:
    """Return the fewest or most lacking, and the median exposure there after the most that is released."""
    assert callable(pick)
    other = next(name for name in KINDS if name != kind)
    most = max(study.cells[at].count for at in places)
    held = {
        getattr(study.cells[at], f"lacking_{kind}"): study.rows[at]["exposure_median"]
        for at in places
        if study.cells[at].count == most and not getattr(study.cells[at], f"lacking_{other}")
    }
    number = pick(held)
    return number, held[number]
