"""What the number of columns does to the distance: itself, beside guessing the centre, and at one leverage."""

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from allbutone.plots.study_law import COLOURS, described, released, where
from allbutone.plots.style import style_panels
from allbutone.studies.run import Study

PANELS = ("Distance, target at one place", "Relative to guessing the centre", "The same, at leverage {:g}")
MOST_COUNTS = 5  # lines of a panel


def by_dimension(study: Study, release: str) -> tuple[list[int], list[int], float] | None:
    """Return the cells whose target stays at one place while p grows, those of one leverage, and that leverage."""
    still = [at for at in where(study, release=release) if study.cells[at].target is not None]
    held = [at for at in where(study, release=release) if study.cells[at].leverage is not None]
    levels = sorted({study.cells[at].leverage or 0.0 for at in held})
    if not levels or len({study.cells[at].p for at in still}) < 2:
        return None
    middle = levels[len(levels) // 2]
    return still, [at for at in held if study.cells[at].leverage == middle], middle


def dimension_figure(study: Study, release: str) -> go.Figure:
    """Draw the median distance against p three ways: itself, over that of the others' centre, at one leverage."""
    found = by_dimension(study, release)
    assert found is not None
    still, held, leverage = found
    counts = sorted({study.cells[at].count for at in still})
    some = np.unique(np.linspace(0, len(counts) - 1, min(MOST_COUNTS, len(counts))).round().astype(int))
    titles = [title.format(leverage) for title in PANELS]
    figure = make_subplots(1, 3, subplot_titles=titles, horizontal_spacing=0.07)
    for turn, count in enumerate(counts[place] for place in some):
        for column, (places, relative) in enumerate(((still, False), (still, True), (held, True)), 1):
            shown = sorted(
                (at for at in places if study.cells[at].count == count), key=lambda at: study.cells[at].p
            )
            rows = [study.rows[at] for at in shown]
            y = [row["median"] / (row["baseline_median"] if relative else 1.0) for row in rows]
            figure.add_scatter(
                x=[row["p"] for row in rows], y=y, mode="lines+markers", name=released(count, release),
                legendgroup=count, showlegend=column == 1, line={"color": COLOURS[turn % len(COLOURS)]},
                hovertext=[described(study, at) for at in shown], hoverinfo="text", row=1, col=column,
            )  # fmt: skip
    style_panels(figure, *_words(study, still, counts[-1]))
    ticks = sorted({study.cells[at].p for at in still})
    figure.update_xaxes(type="log", tickvals=ticks, title_text="Number of columns, p")
    figure.update_yaxes(rangemode="tozero")
    return figure.update_yaxes(type="log", tickvals=[0.1, 0.3, 1, 3, 10, 30, 100], row=1, col=1)


def _words(study: Study, still: list[int], count: int) -> tuple[str, str]:
    """Return the title, about the most that was released, and what the panels share."""
    ends = sorted((at for at in still if study.cells[at].count == count), key=lambda at: study.cells[at].p)
    first, last = study.rows[ends[0]], study.rows[ends[-1]]
    share = [row["median"] / row["baseline_median"] for row in (first, last)]
    grows = "grows" if last["median"] > first["median"] else "falls"
    then = "falls" if share[1] < share[0] else "grows"
    head = (
        f"With more columns the distance {grows}, from {first['median']:.2f} at p = {first['p']} to "
        f"{last['median']:.2f} at p = {last['p']} after {released(count, first['release'])}; relative to guessing "
        f"the centre of the others it {then}"
    )
    below = f"n = {first['n']:,}. Medians over {study.run.replicates:,} simulated attacks each."
    return (
        head,
        f"{below} A target at one place has more leverage in more columns; at one leverage they help no one.",
    )
