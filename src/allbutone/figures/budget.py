"""How likely a release discloses anybody, who stands out, where the budget ends, and what a guarantee costs."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int
from plotly.subplots import make_subplots

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.guarantee_plan import ERRORS, MOST_ERROR, ROUTES, GuaranteePlan
from allbutone.disclosure.lineup import CONFIDENCE, Lineup, likeliest
from allbutone.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SMALL,
    VERMILION,
    frame,
    style_panels,
    wrapped,
)
from allbutone.support.text import chance, counted

# How likely a release discloses anybody, against how much is released, and where the budget ends.


POINTS = 12  # of the curves


def budget_figure(budget: Budget) -> go.Figure:
    """Draw the chance that a release discloses anybody, that of who sets the limit, and what simulations gave."""
    counts = _counts(budget)
    chances = np.array([budget.chances(int(count), 1.0) for count in counts])
    anybody = np.array([budget.case.anybody(int(count)) for count in counts])
    place, noun = budget.case.records.place_of(budget.limiting_row), budget.noun.removeprefix("parameter ")
    figure = go.Figure()
    for name, colour, width, values in (
        (budget.limiting_record, GREY, 2, chances[:, place]),
        ("anybody", BLUE, 3, anybody),
    ):
        hover = f"%{{x:,.0f}} {noun}s<br>{name} is disclosed: %{{y:.1%}}<extra></extra>"
        line = {"color": colour, "width": width}
        figure.add_scatter(x=counts, y=values, mode="lines", name=name, line=line, hovertemplate=hover)
    if budget.simulated and budget.simulated.tried:
        figure.add_trace(_simulated(budget, noun))
    accepted = 1 - CONFIDENCE
    figure.add_hline(y=accepted, line={"dash": "dash", "color": VERMILION, "width": 1.5})
    figure.add_annotation(
        x=0.995, xref="paper", xanchor="right", y=accepted, yanchor="bottom", showarrow=False,
        text=f"accepted: {chance(accepted)}", font={"size": 12, "color": "#555555"},
    )  # fmt: skip
    if budget.before:
        _shade_what_is_out(figure, budget.before)
    if budget.in_all:
        _mark(figure, budget.in_all, counted(budget.in_all, noun), float(counts[-1]))
    frame(figure, _message(budget, counts, anybody, noun), 360, t=36)
    figure.update_layout(showlegend=True, legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.0,
                                                  "yanchor": "bottom", "traceorder": "reversed"})  # fmt: skip
    figure.update_xaxes(
        title_text=f"Number of {budget.what}{', in all' * bool(budget.before)}",
        type="log",
        dtick="D2",
        tickformat=",d",
    )
    figure.update_xaxes(range=[np.log10(0.95), np.log10(counts[-1])])
    figure.update_yaxes(title_text="Chance to be disclosed", range=[-0.02, 1.04], tickformat=".0%")
    return figure


def _counts(budget: Budget) -> np.ndarray:
    """Return numbers of datasets, most of them where the chance rises."""
    near, most = max(budget.in_all, 2), max((budget.simulated.tried if budget.simulated else ()), default=0)
    last = max(4 * near, min(budget.before, 40 * near), min(most, 10 * near))
    return np.unique([1, *np.geomspace(max(1, near / 2), last, POINTS).round()]).astype(int)


def _simulated(budget: Budget, noun: str) -> go.Scatter:
    """Return the shares of simulated releases that disclosed anybody, with Wilson's intervals."""
    assert budget.simulated is not None
    tried = sorted(budget.simulated.tried.values(), key=lambda one: one.count)
    z, n, share = 1.96, np.array([float(one.releases) for one in tried]), np.array([one.share for one in tried])
    middle, half = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low, high = (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)
    hover = [
        f"{counted(one.count, noun)}: {one.disclosing:,} of {counted(one.releases, 'simulated release')} "
        "disclosed somebody"
        for one in tried
    ]
    return go.Scatter(
        x=[one.count for one in tried], y=share, mode="markers", name="simulated",
        hovertext=hover, hoverinfo="text", marker={"color": INK, "size": 7},
        error_y={"array": high - share, "arrayminus": share - low, "color": INK, "thickness": 1},
    )  # fmt: skip


def _shade_what_is_out(figure: go.Figure, count: int) -> None:
    """Shade the start of the axis up to what is out already."""
    figure.add_vrect(x0=0.95, x1=count, fillcolor=GREY, opacity=0.25, line_width=0, layer="below")
    figure.add_annotation(
        x=float(np.mean(np.log10([0.95, count]))), y=0.5, yref="paper", showarrow=False, textangle=-90,
        text=f"out already: {count:,}", font={"size": 12, "color": "#555555"},
    )  # fmt: skip


def _mark(figure: go.Figure, count: int, text: str, last: float) -> None:
    figure.add_vline(x=count, line={"color": INK, "width": 1.5})
    left = np.log10(count) < np.log10(last) / 2  # where there is room for the words
    # annotations on a logarithmic axis are placed by the logarithm, shapes are not
    figure.add_annotation(
        x=np.log10(count), y=0.97, yref="paper", yanchor="top", showarrow=False, text=f"the budget:<br>{text}",
        align="left" if left else "right", xanchor="left" if left else "right", xshift=4 if left else -4,
    )  # fmt: skip


def _message(budget: Budget, counts: np.ndarray, anybody: np.ndarray, noun: str) -> str:
    count = budget.in_all
    words = (
        f"Up to {counted(count, noun)} the chance that anybody is disclosed stays within {chance(1 - CONFIDENCE)}"
        if count
        else f"Even one {noun} discloses somebody with a chance of more than {chance(1 - CONFIDENCE)}"
    )
    if budget.beyond is not None and count < budget.case.guess:
        seen = budget.beyond
        return (
            f"{words}; of {counted(seen.count, noun)} {seen.disclosing:,} of "
            f"{counted(seen.releases, 'simulated release')} disclosed somebody."
        )
    many = int(counts[np.argmax(anybody >= 0.5)]) if np.any(anybody >= 0.5) else 0
    return f"{words}; with {many:,} it is {chance(anybody[counts == many][0])}." if many > count else f"{words}."


# All records of a table by their chance to be disclosed, against how much they stand out.


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
    frame(figure, _records_message(numbers, chances, count, noun, accepted), 400)
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


def _records_message(numbers: np.ndarray, chances: np.ndarray, count: int, noun: str, accepted: float) -> str:
    beyond, worst = int(np.sum(chances > accepted)), likeliest(chances)[0]
    by = f"By {counted(count, noun)}"
    if not beyond:
        return f"{by} nobody is disclosed with a chance of more than {chance(accepted)}."
    who = f"{beyond:,} of {len(numbers):,} people {'is' if beyond == 1 else 'are'}"
    first = f"row {numbers[worst]} is the likeliest, with {chance(chances[worst])}"
    return f"{by} {who} disclosed with a chance of more than {chance(accepted)}; {first}."


# What a guarantee is expected to cost: errors of means, spreads and correlations against ε, by route.


_COLOURS = {"no privacy": GREY, "noise": BLUE, "certify": GREEN, "temper": ORANGE, "prior": PURPLE}
_PANELS = ("means, in spreads", "spreads, as a share", "correlations")


def guarantee_figure(plan: GuaranteePlan) -> go.Figure:
    """Draw the expected errors against ε, a panel a kind and a line a route."""
    panels = _PANELS[: 3 if len(plan.columns) > 1 else 2]
    figure = make_subplots(cols=len(panels), shared_yaxes=True, subplot_titles=[f"of {each}" for each in panels])
    for route, words in ROUTES.items():
        rows = plan.of(route)
        for place, key in enumerate(ERRORS[: len(panels)], start=1):
            figure.add_scatter(
                x=[row["epsilon"] for row in rows],
                y=[row[key] for row in rows],
                mode="lines+markers",
                line={"color": _COLOURS[route], "width": 4 if route == "noise" else 2},
                name=words,
                legendgroup=route,
                showlegend=place == 1,
                hovertemplate=f"{words}<br>ε = %{{x:g}}<br>error %{{y:.3f}}<extra></extra>",
                row=1,
                col=place,
            )
    figure.add_hline(y=MOST_ERROR, line={"dash": "dash", "color": INK, "width": 1.5})
    below = (
        f"{plan.people:,} people, {counted(len(plan.columns), 'column')}, δ = {plan.delta:g}; correlations of "
        f"{plan.correlation:g} guessed. Root mean square errors of one release, approximately; above the dashed "
        "line nothing is learnt. From public figures alone."
    )
    style_panels(figure, plan.sentence, below)
    levels = sorted({row["epsilon"] for row in plan.rows})
    figure.update_xaxes(
        type="log",
        title={"text": "ε", "standoff": 22},
        tickvals=levels,
        ticktext=[f"{level:g}" for level in levels],
    )
    figure.update_yaxes(type="log", tickvals=[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
    figure.update_yaxes(title_text="Expected error", col=1)
    return figure
