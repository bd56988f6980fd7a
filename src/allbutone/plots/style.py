"""Figures: results in, pictures out; nothing is computed here but where to put the ink."""

import base64
import html
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote_to_bytes

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.per_record import HALF, is_exposed
from allbutone.plots.browser import text_left_by
from allbutone.support.errors import InputError

# Okabe and Ito's colours, told apart by every kind of colour vision
BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
GREY, INK = "#9A9A9A", "#222222"
SHOWN = 5000  # dots: beyond that a browser grows slow
_MEASURES = ("exposure", "relative_error", "information_gain", "mass", "prior_mass")
NO_REQUESTS = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:\">"
)
# buttons are named one by one, so that none can ever send a figure anywhere
_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}
_NOT_TOO_LOW = "<style>#figure { min-height: 640px }</style>"  # a lower window scrolls
_PAGE = """<!doctype html><html><head><meta charset="utf-8">{meta}<script>{plotly}</script></head><body><script>
(async () => {{
  const urls = [];
  for (const [figure, options] of {jobs}) urls.push(await Plotly.toImage(figure, options));
  return urls.join(" ");
}})().catch(error => "error: " + error).then(text => {{
  document.querySelectorAll("script").forEach(script => script.remove());
  document.body.textContent = text;
}});
</script></body></html>"""


def risk_figure(
    columns: dict[str, np.ndarray], names: Sequence[str], order: np.ndarray, labels: int = 10
) -> go.Figure:
    """Draw how close the adversary's guess comes to each record against what the release tells of it.

    `columns` as in risk.csv, `names` of the table's columns, `order` the records from the most exposed down, some
    of them labelled.
    """
    shown, first = order[:SHOWN], order[:labels]
    closer = np.maximum(1 - columns["relative_error"], -1.0)  # worse than -1 is as good as no guess at all
    gain = np.arcsinh(columns["information_gain"])
    exposed = is_exposed(columns)
    figure = go.Figure(
        go.Scatter(
            x=gain[shown],
            y=closer[shown],
            mode="markers",
            marker={"size": 8, "color": _dot_colours(exposed[shown]), "opacity": 0.75, "line": {"width": 0}},
            hovertext=[_describe(columns, names, place) for place in map(int, shown)],
            hoverinfo="text",
        )
    )
    spans = _x_range(gain[shown])
    _shade(figure, spans)
    for place, (right, up) in zip(
        first, _label_shifts(gain[shown], closer[shown], len(first), spans), strict=True
    ):
        figure.add_annotation(
            x=gain[place],
            y=closer[place],
            text=f"row {columns['row'][place]}",
            ax=right,
            ay=-up,
            arrowwidth=1,
            arrowcolor=GREY,
            arrowhead=0,
            standoff=4,
            font={"size": 13, "color": INK},
        )
    style(figure, _risk_title(int(np.sum(exposed)), columns, shown))
    figure.update_layout(margin={"l": 100})
    ticks = [t for t in (-30, -10, -3, -1, 0, 1, 3, 10, 30, 100, 300) if spans[0] <= np.arcsinh(t) <= spans[1]]
    figure.update_xaxes(
        title="Information gain at the true values, nats<br>(below: times more likely than before)",
        tickvals=np.arcsinh(ticks),
        ticktext=[f"{t}<br>×{_factor(t)}" for t in ticks],
        range=spans,
    )
    figure.update_yaxes(title="Closer to the record<br>by this share of the way", range=[-1.1, 1.3], dtick=0.5)
    return figure


def budget_figure(budget: Budget) -> go.Figure:
    """Draw the law's exposure of the five most exposed records against the number of datasets released."""
    order = np.argsort(-budget.leverage)[:5]
    last = 2 * float(np.max(budget.setting.threshold(budget.leverage[order])))
    last = max(last, 2.0 * max(budget.sure, budget.law or 0), 10.0)
    counts = np.geomspace(1, min(last, 1e9), 1000)
    noun = "draws" if budget.setting.rows is None else "datasets"
    figure = go.Figure()
    heights = [float(budget.setting.exposure(budget.leverage[place], counts[-1])) for place in order]
    for place, colour, height in zip(
        order, (VERMILION, BLUE, GREEN, ORANGE, PURPLE), _apart(heights), strict=False
    ):
        row = f"row {place + 1}"
        figure.add_scatter(
            x=counts,
            y=budget.setting.exposure(budget.leverage[place], counts),
            mode="lines",
            line={"color": colour, "width": 3},
            hovertemplate=f"{row}<br>%{{x:,.0f}} {noun}<br>exposure %{{y:.2f}}<extra></extra>",
        )
        figure.add_annotation(
            x=1.01, xref="paper", xanchor="left", y=height, text=row, showarrow=False, font={"color": colour}
        )
    _mark_budget(figure, budget, noun, counts[-1])
    style(figure, _budget_title(budget, noun))
    figure.update_xaxes(title=f"Number of {budget.what} released", type="log", dtick="D2", tickformat=",d")
    figure.update_xaxes(range=[np.log10(0.9), np.log10(counts[-1])])
    figure.update_yaxes(title="Expected exposure:<br>0 with the crowd, 1 at the record", range=[-0.03, 1.05])
    figure.update_layout(margin={"l": 100, "r": 110, "t": 175})
    return figure


def write_figure(figure: go.Figure, path: Path) -> None:
    """Write a page of its own that opens offline and asks nothing of any server."""
    page = figure.to_html(include_plotlyjs=True, div_id="figure", default_height="96vh", config=_CONFIG)
    path.write_text(page.replace("<head>", "<head>" + NO_REQUESTS + _NOT_TOO_LOW, 1), encoding="utf-8")


def embedded(figure: go.Figure, name: str) -> str:
    """Return a figure as a part of a page that has Plotly already and prints the figure's message itself."""
    return untitled(figure).to_html(full_html=False, include_plotlyjs=False, div_id=name, config=_CONFIG)


def untitled(figure: go.Figure) -> go.Figure:
    """Return a figure for a page that prints its message: without a title, nor the room for it."""
    copy = go.Figure(figure).update_layout(title=None, font_size=13)
    if figure.layout.title.text:  # made to stand alone, with room for the title
        margin = figure.layout.margin
        copy.update_layout(margin={"t": max(30, margin.t - 105), "l": 85, "r": min(margin.r, 70), "b": 90})
    return copy


def write_image(figure: go.Figure, path: Path) -> None:
    """Write a figure as a picture, PNG or SVG by the file's name."""
    write_images({path: figure})


def write_images(figures: Mapping[Path, go.Figure], width: int = 1280, height: int = 900) -> None:
    """Write figures as pictures, PNG or SVG by the files' names, in one start of a browser, offline.

    A figure that has a width or height of its own keeps it.
    """
    jobs = []
    for path, figure in figures.items():
        kind = path.suffix.lower().removeprefix(".")
        if kind not in ("png", "svg"):
            raise InputError(f"{path}: pictures are written as .png or .svg; name one, or write .html")
        size = {"width": figure.layout.width or width, "height": figure.layout.height or height}
        jobs.append(f"[{figure.to_json()},{json.dumps({'format': kind, **size})}]")
    page = _PAGE.format(meta=NO_REQUESTS, plotly=get_plotlyjs(), jobs=f"[{','.join(jobs)}]")
    left = text_left_by(page, 60 + 20 * len(jobs))
    if not left.startswith("data:image"):
        raise InputError(f"the browser did not draw the pictures: {left:.200}; open the .html files instead")
    for path, url in zip(figures, left.split(), strict=True):
        head, data = url.split(",", 1)
        path.write_bytes(base64.b64decode(data) if head.endswith("base64") else unquote_to_bytes(data))


def style(figure: go.Figure, title: str) -> None:
    """Give a figure, and all panels of it, the house style."""
    axis = {"gridcolor": "#EBEBEB", "zeroline": False, "linecolor": GREY, "ticks": "outside", "title_standoff": 12}
    head, _, below = title.partition("<br><span")
    figure.update_layout(
        meta={"message": _plain(head), "below": _plain(f"<span{below}") if below else ""},
        title={"text": title, "x": 0.02, "xanchor": "left", "y": 0.97, "yanchor": "top", "font": {"size": 19}},
        font={"family": "Arial, Helvetica, sans-serif", "size": 15, "color": INK},
        template="none",
        paper_bgcolor="white",
        plot_bgcolor="white",
        showlegend=False,
        margin={"l": 80, "r": 40, "t": 110, "b": 100},
        xaxis=axis,
        yaxis=axis,
    )
    figure.update_xaxes(axis).update_yaxes(axis)


def _plain(words: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", words)).split())


def style_panels(figure: go.Figure, head: str, below: str) -> None:
    """Give a figure of panels the house style, and a legend at the foot.

    Title and subtitle are broken to fit a page of 800 pixels.
    """
    large, small = textwrap.wrap(head, 86), textwrap.wrap(below, 110)
    style(figure, "<br>".join(large) + "".join(map(smaller, small)))
    foot = {"orientation": "h", "x": 0.5, "xanchor": "center", "yref": "container", "y": 0.01, "yanchor": "bottom"}
    figure.update_layout(margin={"t": 60 + 25 * len(large + small), "b": 135}, showlegend=True, legend=foot)


def smaller(text: str) -> str:
    """Put words on a line of their own below a title, smaller and lighter."""
    return f"<br><span style='font-size:14px;color:#555555'>{text}</span>"


def _risk_title(exposed: int, columns: dict[str, np.ndarray], shown: np.ndarray) -> str:
    people = len(columns["row"])
    best = int(np.argmax(columns["information_gain"]))
    head = (
        "No record is exposed by half or more"
        if exposed == 0
        else f"{exposed:,} of {people:,} records {'is' if exposed == 1 else 'are'} exposed by half or more"
    )
    head += f"; the release tells most of row {columns['row'][best]}"
    what = "One dot a record" if len(shown) == people else f"The {len(shown):,} most exposed of {people:,} records"
    return head + smaller(f"{what}; hover for its measures. Confidential: it describes individual records.")


def _budget_title(budget: Budget, noun: str) -> str:
    head = f"Row {budget.limiting_row} sets the limit: {budget.sure:,} {noun} keep everyone below {budget.limit}"
    if budget.sure == 0:
        head = (
            f"Row {budget.limiting_row} sets the limit: not even one of the {noun} keeps it below {budget.limit}"
        )
    return head + smaller("The five most exposed records by the law's average. Confidential: it describes them.")


def _mark_budget(figure: go.Figure, budget: Budget, noun: str, last: float) -> None:
    """Draw the limit, the law's budget and the one that is 95 % sure."""
    if budget.limit.kind == "exposure":
        figure.add_hline(y=budget.limit.value, line={"dash": "dash", "color": INK, "width": 1.5})
        figure.add_annotation(
            x=0.005, xref="paper", xanchor="left", y=budget.limit.value, yanchor="bottom", showarrow=False
        )
        figure.layout.annotations[-1].text = f"limit: {budget.limit}"
    marks = [(budget.sure, "solid", f"{budget.sure:,} {noun}: 95 % sure<br>that no record passes", 1.16)]
    if budget.law is not None:
        marks.append((budget.law, "dot", f"{budget.law:,} {noun}: the most<br>exposed record's average", 1.03))
    for count, dash, text, height in marks:
        if count >= 1:
            end = {"yref": "paper", "y0": 0, "y1": height}
            figure.add_shape(
                type="line", x0=count, x1=count, **end, line={"dash": dash, "color": INK, "width": 1.5}
            )
            # annotations on a logarithmic axis are placed by the logarithm, shapes are not
            place = {"x": np.log10(count), "y": height, "yref": "paper"}
            left = np.log10(count) < np.log10(last) / 2  # where there is room for the words
            figure.add_annotation(
                **place,
                text=text,
                align="left" if left else "right",
                xanchor="left" if left else "right",
                xshift=4 if left else -4,
                showarrow=False,
                yanchor="middle",
            )


def _shade(figure: go.Figure, spans: tuple[float, float]) -> None:
    """Shade where a record is found, and where its mirror image is."""
    for low, high, colour, words in (
        (HALF, 1.3, VERMILION, "exposed: more than halfway there"),
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


def _describe(columns: dict[str, np.ndarray], names: Sequence[str], place: int) -> str:
    measures = [key for key in _MEASURES if key in columns]
    lines = [f"<b>row {columns['row'][place]}</b>"]
    lines += [f"{key.replace('_', ' ')} {columns[key][place]:.3g}" for key in measures]
    lines += [f"guess of {name} off by {columns[f'error_{name}'][place]:.3g}" for name in names[:10]]
    return "<br>".join(lines)


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


def _apart(heights: Sequence[float], gap: float = 0.045) -> list[float]:
    """Return the heights moved down where needed so that labels in descending order keep a gap."""
    moved: list[float] = []
    for height in heights:
        moved.append(min(height, moved[-1] - gap) if moved else height)
    return moved
