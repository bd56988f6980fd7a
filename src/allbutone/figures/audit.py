"""What an audit of any tool's rows found: each measure beside what it is compared with, and over groupings."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from allbutone.figures import style
from allbutone.figures.style import BLUE, GREEN, GREY, INK, ORANGE, VERMILION, text_of
from allbutone.other_tools.grouped import Grouping
from allbutone.other_tools.in_words import Line


def lines_figure(lines: Sequence[Line]) -> go.Figure:
    """Draw the share of attacks or people that each measure finds, and what it is compared with, a row each."""
    shown = [line for line in lines if np.isfinite(line.share)]
    figure, rows = go.Figure(), np.arange(len(shown))[::-1]
    for line, row in zip(shown, rows, strict=True):
        ends = [each for each in (line.share, line.baseline, line.of_control) if np.isfinite(each)]
        style.add_line(figure, [min(ends), max(ends)], [row, row], "#D5D5D5", 2)
    kinds = (
        ("baseline", GREY, "line-ns-open", "without skill, by chance, or by the others’ records"),
        ("of_control", GREEN, "diamond", "of control people"),
        ("share", BLUE, "circle", "of the table’s people"),
    )
    for name, colour, symbol, words in kinds:
        x = np.array([getattr(line, name) for line in shown])
        here = np.isfinite(x)
        if not here.any():
            continue
        colours = np.array([VERMILION if name == "share" and line.against else colour for line in shown])[
            here
        ].tolist()
        figure.add_scatter(
            x=x[here], y=rows[here], mode="markers", name=words,
            marker={"size": 12, "symbol": symbol, "color": colours, "line": {"width": 2, "color": colours}},
            hovertemplate=f"{words}: %{{x:.1%}}<extra></extra>",
        )  # fmt: skip
    count = sum(line.against for line in shown)
    message = (
        f"{count} of {len(shown)} measures find more than chance explains (red)"
        if count
        else f"None of {len(shown)} measures finds more than chance explains, or can tell"
    )
    controls = ", diamonds control people" if any(np.isfinite(line.of_control) for line in shown) else ""
    style.frame(
        figure,
        f"{message}: dots are the table’s people, strokes what they are compared with{controls}.",
        90 + 34 * len(shown),
        l=330,
        b=60,
    )
    names = [style.wrapped(text_of(line.measure, 90), width=52) for line in shown]
    figure.update_yaxes(tickvals=rows.tolist(), ticktext=names, range=[-0.6, len(shown) - 0.4], **style.BARE)
    return figure.update_xaxes(title_text="Share of people, or of attacks", range=[-0.02, 1.02], **style.SHARES)


def grouping_figure(groupings: Sequence[Grouping]) -> go.Figure:
    """Draw replicated uniques, DiSCO and CAP against the number of groups, with what the others' records give."""
    x = list(range(len(groupings)))
    disco, cap = [each.worst_disco for each in groupings], [each.worst_cap for each in groupings]
    curves = (
        ("replicated uniques", ORANGE, [each.replicated / each.people for each in groupings], None),
        ("DiSCO", VERMILION, [d.disco for d in disco], [d.disco_by_others for d in disco]),
        ("CAP", BLUE, [c.cap for c in cap], [c.cap_by_others for c in cap]),
    )
    figure = go.Figure()
    for name, colour, with_rows, without in curves:
        style.add_line(figure, x, with_rows, colour, 3, name=name, showlegend=True)
        if without is not None:
            style.add_line(
                figure, x, without, colour, 1.5, "dash", name=f"{name}, from the others’ records", showlegend=True
            )
    low, high = min(curves[1][2]), max(curves[1][2])
    message = (
        f"In one grouping each measure says what one likes: DiSCO goes from {low:.0%} to {high:.0%} for the same "
        "rows. Dashed: what the records of all other people tell without them."
    )
    style.frame(figure, message, 360, t=60, b=60)
    figure.update_xaxes(
        title_text="Groups of each measurement",
        tickvals=x,
        ticktext=[each.name for each in groupings],
        range=[-0.4, len(x) - 0.6],  # room for the words of the last
    )
    above = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "font": {"color": INK}}
    figure.update_layout(showlegend=True, legend=above)
    return figure.update_yaxes(title_text="Share of people", range=[-0.02, 1.02], **style.SHARES)
