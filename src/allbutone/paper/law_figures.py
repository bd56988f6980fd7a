"""Figures that set simulated exposure beside the expected exposure in closed form, and what an adversary lacks."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from allbutone.disclosure.measures import HALF
from allbutone.figures.risk import CONFIDENTIAL
from allbutone.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION, add_line, stand_alone
from allbutone.paper.design import Cell
from allbutone.paper.run import CellResult, Study
from allbutone.support.text import counted, number, percent

COLOURS = (VERMILION, ORANGE, GREEN, SKY, BLUE, PURPLE, INK, GREY)
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
MOST_SERIES = len(COLOURS)
EXPOSURE = "Exposure: 0 at the centre of the others, 1 at the record"
KINDS = {"records": "Other records lacking, besides the target", "columns": "Columns of everyone lacking"}
_PANELS = {"information_gain": ("Information gain, nats", BLUE), "exposure": ("Exposure", VERMILION)}


def released(count: int, release: str) -> str:
    """Say how much is released: 1 draw, 2 draws, 5 datasets."""
    return counted(count, "draw" if release == "parameters" else "dataset")


def direction_of(cell: Cell) -> str:
    """Say in which direction the target lies; all columns alike is one direction, however many there are."""
    values = cell.direction[:1] if len(set(cell.direction)) == 1 else cell.direction
    return ", ".join(f"{value:.2g}" for value in values)


def series_of(results: Sequence[CellResult]) -> list[tuple[str, list[CellResult]]]:
    """Group cells that differ only in count and rows; name each group by what differs between groups."""
    groups: dict[tuple[str, ...], list[CellResult]] = {}
    for one in results:
        cell, position = one.cell, one.cell.position.removeprefix("at ")
        if cell.target is not None and len(cell.target) > 2 and len(set(cell.target)) == 1:
            position = f"({cell.target[0]:g}, …, {cell.target[0]:g})"
        strength = f"{cell.structure} {cell.correlation:g}" if cell.correlation else cell.structure
        towards = "" if cell.target else f"towards {direction_of(cell)}"
        words = (f"n = {cell.n:,}", position, strength, towards, f"lacking {cell.lacking or 'nothing'}")
        groups.setdefault((*words, f"{cell.mean}", f"{cell.covariance}"), []).append(one)
    # a direction tells apart only those that have one
    tells = [len(set(column) - {""}) > 1 for column in zip(*groups, strict=True)][:5]
    names = [
        ", ".join(word for word, tell in zip(words, tells, strict=False) if tell and word) for words in groups
    ]
    return list(zip(names, groups.values(), strict=True))


def exposure_figure(study: Study, release: str, p: int) -> go.Figure:
    """Draw exposure against the number released: the closed form, and simulated medians and quartiles."""
    results = study.where(release=release, p=p)
    series = series_of(results)
    sizes = sorted({one.cell.rows for one in results}, key=lambda rows: rows or 0)
    columns = min(3, len(sizes))
    lines = -(-len(sizes) // columns)
    figure = make_subplots(
        lines, columns, shared_xaxes=True, shared_yaxes=True, horizontal_spacing=0.025, vertical_spacing=0.09,
        subplot_titles=[f"{rows:,} rows a dataset" for rows in sizes if rows is not None],
    )  # fmt: skip
    halves: list[tuple[float, str]] = []
    for (panel, rows), (turn, (name, every)) in product(enumerate(sizes), enumerate(series)):
        held = [one for one in every if one.cell.rows == rows]
        if not held:
            continue
        leverage = float(np.median([one.row["leverage_median"] for one in held]))
        counts, law = np.array([float(one.cell.count) for one in held]), held[0].cell.law
        fine = np.geomspace(counts.min(), max(counts.max(), counts.min() + 1), 80)
        line = {"color": COLOURS[turn], "width": 2.5, "simplify": False}
        curve = go.Scatter(x=fine, y=law.exposure(leverage, fine), mode="lines", line=line, hoverinfo="skip")
        aside = 1.01 ** (turn - (len(series) - 1) / 2)  # a hair
        dots = quartile_dots(held, counts * aside, COLOURS[turn])
        add_named(figure, (curve, dots), name, row=panel // columns + 1, col=panel % columns + 1)
        words = [f"{rows:,} rows" if len(sizes) > 1 else "", name]
        halves.append((float(law.most(leverage, HALF)) + 1, " and ".join(filter(None, words))))
    below = f"Dots: simulated medians and quartiles. Curves: {closed_form_words(results)}."
    stand_alone(figure, _exposure_title(release, halves), below, legend=True)
    numbers = sorted({one.cell.count for one in results})
    figure.update_xaxes(
        type="log", tickvals=numbers, ticktext=[f"{count:,}" for count in numbers], tickangle=0,
        range=[np.log10(numbers[0] * 0.85), np.log10(numbers[-1] * 1.2)],
    )  # fmt: skip
    name_exposure(
        figure, results, lines, columns, f"{'Draws' if release == 'parameters' else 'Datasets'} released"
    )
    return figure


def _exposure_title(release: str, halves: list[tuple[float, str]]) -> str:
    """Say how many are expected to expose by more than half, at least and at most."""
    (few, easy), (many, hard) = min(halves), max(halves)
    least, most = released(int(few), release), released(int(many), release)
    if few == many:
        return f"It takes {least} to bring the best guess halfway to the record"
    return f"It takes {least} to come halfway to the record at {easy}, {most} at {hard}"


def add_named(figure: go.Figure, traces: Iterable[Any], name: str, **at: int) -> None:
    """Add traces of one series to a panel; the first of that name stands in the legend for all."""
    for trace in traces:
        known = any(each.name == name for each in figure.data)
        trace.update(name=name, legendgroup=name, showlegend=bool(name) and not known)
        figure.add_trace(trace, **at)


def quartile_dots(results: Sequence[CellResult], x: np.ndarray, colour: str) -> go.Scatter:
    """Draw simulated median exposures between their quartiles."""
    low, median, high = (
        np.array([one.row[f"exposure_{name}"] for one in results]) for name in ("q25", "median", "q75")
    )
    return go.Scatter(
        x=x, y=median, mode="markers", marker={"color": colour, "size": 8, "line": {"width": 1, "color": "white"}},
        error_y={"array": high - median, "arrayminus": median - low, "thickness": 1.2, "width": 0},
        hovertext=[described(one) for one in results], hoverinfo="text",
    )  # fmt: skip


def gaps(results: Sequence[CellResult]) -> np.ndarray:
    """Return how far each cell's median exposure is from the closed form's."""
    return np.array([abs(one.row["exposure_median"] - one.row["law_exposure"]) for one in results])


def closed_form_words(results: Sequence[CellResult]) -> str:
    """Name the closed form, and say how far it is from the simulation."""
    off = gaps(results)
    return f"expected (closed form), typically {np.median(off):.1g} and at most {off.max():.2f} off"


def described(one: CellResult) -> str:
    """Say all about a cell, for those who hover over it."""
    cell, row = one.cell, one.row
    lines = [
        f"<b>{released(cell.count, cell.release)}{f' of {cell.rows:,} rows' if cell.rows else ''}</b>",
        f"n = {cell.n:,}, p = {cell.p}, {cell.structure}{f' {cell.correlation:g}' if cell.correlation else ''}",
        f"target {cell.position:.40}, leverage {row['leverage_median']:.3g}",
        f"exposure {row['exposure_median']:.2f} ({row['exposure_q25']:.2f} to {row['exposure_q75']:.2f}), "
        f"expected {row['law_exposure']:.2f}",
        f"distance {row['median']:.1f} ({row['q25']:.1f} to {row['q75']:.1f}), expected {row['law_median']:.1f}",
    ]
    if row["published_median"] is not None:
        differs = row["differs_in"] and "median" in row["differs_in"].split()
        lines.append(f"published {row['published_median']:.1f}{': differs' if differs else ''}")
    return "<br>".join(lines)


def name_exposure(figure: go.Figure, results: Sequence[CellResult], lines: int, columns: int, x: str) -> None:
    """Let all vertical axes show exposures from 0 to 1 and the quartiles beyond; name axes once, at the edge."""
    lowest = min(one.row["exposure_q25"] for one in results)
    figure.update_yaxes(range=[min(-0.08, lowest - 0.04), 1.07], dtick=0.25, tickformat=".2~f")
    for line in range(1, lines + 1):
        figure.update_yaxes(title_text=EXPOSURE if lines == 1 else EXPOSURE.split(":")[0], row=line, col=1)
    for column in range(1, columns + 1):
        figure.update_xaxes(title_text=x, row=lines, col=column)


# How the risk falls with what the adversary lacks: columns of everyone, or records besides the target.


def lacking_figure(risk: Mapping[str, np.ndarray], rows: Sequence[int]) -> go.Figure:
    """Draw gain and exposure of some records (`rows`, from 1) by how much is lacking.

    `risk` as `risk_by_lacking` returns it. Thin lines are records, the thick one their median.
    """
    kinds = [kind for kind in KINDS if np.any(risk["lacking"] == kind)]
    share = {"shared_xaxes": "columns", "shared_yaxes": "rows"}
    figure = make_subplots(len(_PANELS), len(kinds), vertical_spacing=0.06, horizontal_spacing=0.06, **share)
    for (column, kind), (line, (name, (words, colour))) in product(
        enumerate(kinds, 1), enumerate(_PANELS.items(), 1)
    ):
        at, (numbers, values) = {"row": line, "col": column}, _by_number(risk, kind, name, rows)
        for row, each in zip(rows, values, strict=True):
            add_line(figure, numbers, each, GREY, 1, None, **at)
            told = [f"row {row}, {n} lacking: {number(v)}" for n, v in zip(numbers, each, strict=True)]
            figure.data[-1].update(hovertext=told, hoverinfo="text")
        add_line(figure, numbers, np.median(values, axis=0), colour, 3, None, **at)
        figure.data[-1].mode = "lines+markers"
        if column == 1:
            figure.update_yaxes(title_text=words, **at)
        if name == "exposure":  # next to the others' centre it is anything
            figure.update_yaxes(range=[-0.55, 1.25], **at)
            figure.update_xaxes(title_text=KINDS[kind], **at)
    thin = f"Thin: the {counted(len(rows), 'record')} most exposed to one who lacks nothing; thick: their median."
    stand_alone(figure, _lacking_message(risk, rows, kinds), f"{thin} {CONFIDENTIAL}")
    return figure.update_layout(height=640)


def _by_number(
    risk: Mapping[str, np.ndarray], kind: str, name: str, rows: Sequence[int]
) -> tuple[list[int], np.ndarray]:
    """Return the numbers lacking, and a measure of each record at each of them."""
    held = risk["lacking"] == kind
    numbers = sorted(set(risk["number"][held].tolist()))
    values = [
        [risk[name][held & (risk["number"] == n) & (risk["row"] == row)][0] for n in numbers] for row in rows
    ]
    return numbers, np.array(values)


def _lacking_message(risk: Mapping[str, np.ndarray], rows: Sequence[int], kinds: Sequence[str]) -> str:
    """Say how the gain falls of the record that the release tells most of."""
    parts, best, start = [], 0, ""
    for kind in kinds:
        numbers, gain = _by_number(risk, kind, "information_gain", rows)
        best = int(np.argmax(gain[:, 0]))
        start, lacking = number(gain[best, 0]), counted(numbers[-1], kind.removesuffix("s"))
        parts.append(f"to {number(gain[best, -1])} where the adversary lacks {lacking}")
    return f"Row {rows[best]}: the gain falls from {start} nats {', '.join(parts)}"


def study_lacking_figure(study: Study, release: str) -> go.Figure:
    """Draw simulated exposure against what is lacking, a colour for each number released."""
    results = study.where(release=release)
    kinds = [kind for kind in KINDS if any(getattr(one.cell, f"lacking_{kind}") for one in results)]
    counts = sorted({one.cell.count for one in results})
    titles = [KINDS[kind] for kind in kinds]
    figure = make_subplots(1, len(kinds), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.04)
    for (column, kind), (turn, count) in product(enumerate(kinds, 1), enumerate(counts)):
        by_number = _lacking_alone(study, release, kind, count)
        x = np.array([number for number, _ in by_number]) + 0.06 * turn
        dots = quartile_dots([one for _, one in by_number], x, COLOURS[turn % len(COLOURS)])
        add_named(figure, [dots.update(mode="lines+markers")], released(count, release), row=1, col=column)
    lacking = dict(_lacking_alone(study, release, kinds[0], counts[-1]))
    most = max(lacking)
    least, last = (percent(lacking[at].row["exposure_median"]) for at in (min(lacking), most))
    what = f"{counted(most, kinds[0].removesuffix('s'))} {'are' if most != 1 else 'is'}"
    head = f"The guess comes {least} of the way to the record where nothing is lacking, {last} where {what}"
    below = f"After {released(counts[-1], release)}. Dots: medians between quartiles."
    stand_alone(figure, head, below, legend=True)
    return figure.update_yaxes(title_text=EXPOSURE, row=1, col=1)


def _lacking_alone(study: Study, release: str, kind: str, count: int) -> list[tuple[int, CellResult]]:
    """Return the cells of one count where nothing but this kind is lacking, each after how much of it is."""
    other = next(name for name in KINDS if name != kind)
    alone = study.where(**{"release": release, "count": count, f"lacking_{other}": 0})
    return [(getattr(one.cell, f"lacking_{kind}"), one) for one in alone]
