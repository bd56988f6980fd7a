"""How likely a release discloses anybody, who stands out, where the budget ends, and what a guarantee costs."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int
from plotly.subplots import make_subplots

from allbutone.disclosure.budget import Budget, EngineBudget, ladder_of
from allbutone.disclosure.guarantee_plan import ERRORS, MOST_ERROR, ROUTES, GuaranteePlan
from allbutone.disclosure.lineup import CONFIDENCE, Lineup, likeliest
from allbutone.disclosure.mixed_budget import MixedBudget
from allbutone.disclosure.simulated_budget import Tried
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
    """Draw the chance that a release discloses anybody, and that of the person who sets the limit."""
    counts = _counts(budget)
    chances = np.array([_own_chances(budget, int(count)) for count in counts])
    anybody = np.minimum(1.0, chances.sum(axis=1))
    place = int(np.flatnonzero(budget.rows == budget.limiting_row)[0])
    noun = "draw" if budget.law.rows is None else "dataset"
    figure = go.Figure()
    for name, colour, width, values in (
        (f"row {budget.limiting_row}", GREY, 2, chances[:, place]),
        ("anybody", BLUE, 3, anybody),
    ):
        hover = f"%{{x:,.0f}} {noun}s<br>{name} is disclosed: %{{y:.1%}}<extra></extra>"
        figure.add_scatter(
            x=counts,
            y=values,
            mode="lines",
            name=name,
            line={"color": colour, "width": width},
            hovertemplate=hover,
        )
    accepted = 1 - CONFIDENCE
    figure.add_hline(y=accepted, line={"dash": "dash", "color": VERMILION, "width": 1.5})
    figure.add_annotation(
        x=0.995, xref="paper", xanchor="right", y=accepted, yanchor="bottom", showarrow=False,
        text=f"accepted: {chance(accepted)}", font={"size": 12, "color": "#555555"},
    )  # fmt: skip
    if budget.before:
        shade_what_is_out(figure, budget.before)
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
    near = max(budget.in_all, 2)
    last = max(4 * near, min(budget.before, 40 * near))
    return np.unique([1, *np.geomspace(max(1, near / 2), last, POINTS).round()]).astype(int)


def _own_chances(budget: Budget, count: int) -> np.ndarray:
    """Return each record's own chance, in the table's order; not all of them where they are certain together."""
    found = np.zeros(len(budget.rows))
    found[budget.lineup.order] = budget.lineup.chances(count, 1.0)
    return found


def shade_what_is_out(figure: go.Figure, count: int, first: float = 0.95, logarithmic: bool = True) -> None:
    """Shade the start of the axis, which begins at `first`, up to what is out already."""
    figure.add_vrect(x0=first, x1=count, fillcolor=GREY, opacity=0.25, line_width=0, layer="below")
    ends = np.array([first, count], dtype=float)
    middle = float(np.mean(np.log10(ends))) if logarithmic else float(np.mean(ends))
    figure.add_annotation(
        x=middle, y=0.5, yref="paper", showarrow=False, textangle=-90, text=f"out already: {count:,}",
        font={"size": 12, "color": "#555555"},
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
    many = int(counts[np.argmax(anybody >= 0.5)]) if np.any(anybody >= 0.5) else None
    words = (
        f"Up to {counted(count, noun)} the chance that anybody is disclosed stays within {chance(1 - CONFIDENCE)}"
        if count
        else f"Even one {noun} discloses somebody with a chance of more than {chance(1 - CONFIDENCE)}"
    )
    return words + (
        f"; with {many:,} it is {chance(anybody[counts == many][0])}." if many and many > count else "."
    )


# How often simulated releases of a table with categories disclose anybody, and where its budget ends.


def mixed_budget_figure(budget: MixedBudget) -> go.Figure:
    """Draw, for each number of datasets tried, the share of simulated releases that disclosed anybody."""
    noun, kept = "draw" if budget.dataset_rows is None else "dataset", budget.in_all
    tried = sorted(budget.simulated.tried.values(), key=lambda one: one.count)
    counts, shares = np.array([one.count for one in tried]), np.array([one.share for one in tried])
    low, high = _errors(tried)
    hover = [
        f"{counted(one.count, noun)}: {one.disclosing:,} of {counted(one.releases, 'simulated release')} "
        "disclosed somebody"
        for one in tried
    ]
    figure = go.Figure(
        go.Scatter(
            x=counts, y=shares, mode="lines+markers", line={"color": BLUE, "width": 3}, hovertext=hover,
            hoverinfo="text",
            error_y={"array": high - shares, "arrayminus": shares - low, "color": BLUE, "thickness": 1},
        )
    )  # fmt: skip
    last = float(max(counts.max(initial=1), budget.before, 2))
    accepted = 1 - CONFIDENCE
    figure.add_hline(y=accepted, line={"dash": "dash", "color": VERMILION, "width": 1.5})
    figure.add_annotation(
        x=1, xref="paper", xanchor="right", y=accepted, yanchor="bottom", showarrow=False,
        text=f"accepted: {chance(accepted)}", font={"size": 12, "color": "#555555"},
    )  # fmt: skip
    if budget.before:
        shade_what_is_out(figure, budget.before, first=0.5, logarithmic=False)
    if kept:
        figure.add_vline(x=kept, line={"color": INK, "width": 1.5})
        place = {"xanchor": "left", "xshift": 4} if kept < last / 2 else {"xanchor": "right", "xshift": -4}
        figure.add_annotation(
            x=kept, y=0.97, yref="paper", yanchor="top", align="left", showarrow=False,
            text=f"the budget:<br>{counted(kept, noun)}", **place,
        )  # fmt: skip
    frame(figure, _simulated_message(budget, noun), 340)
    words = f"Number of {budget.what}{', in all' * bool(budget.before)}"
    figure.update_xaxes(title_text=words, range=[0.5, last + 0.5], tickformat=",d")
    figure.update_xaxes(tick0=0, dtick=max(1, round(last / 8)))  # whole numbers only
    figure.update_yaxes(title_text="Chance that anybody is disclosed", range=[-0.02, 1.04], tickformat=".0%")
    return figure


def _errors(tried: list[Tried]) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's intervals, which are honest at none and at all."""
    z, n = 1.96, np.array([one.releases for one in tried], dtype=float)
    share = np.array([one.share for one in tried])
    middle, half = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)


def _simulated_message(budget: MixedBudget, noun: str) -> str:
    count, who = budget.in_all, budget.limiting_record
    words = (
        f"Up to {counted(count, noun)} the chance that anybody is disclosed stays within {chance(1 - CONFIDENCE)}"
        if count
        else f"Even one {noun} discloses somebody with a chance of more than {chance(1 - CONFIDENCE)}"
    )
    beyond = budget.beyond
    if beyond is not None:
        words += (
            f"; of {counted(beyond.count, noun)} {beyond.disclosing:,} of "
            f"{counted(beyond.releases, 'simulated release')} disclosed somebody"
        )
    return f"{words}. {who[0].upper()}{who[1:]} sets the limit."


# How many records of a table that stays in its engine stand out, and by how much.


def engine_budget_figure(budget: EngineBudget) -> go.Figure:
    """Draw how many records have more than each leverage, with the datasets that such a record allows."""
    standing, steps = budget.standing, ladder_of(budget.standing, budget.law)
    leverage = np.array([step["leverage"] for step in steps] or [standing.leverage[0]])
    above = np.array([step["records above"] for step in steps] or [1])
    hover = [
        f"{step['records above']:,} records above leverage {step['leverage']:.3g}; one of that leverage allows "
        f"{step['datasets at expected exposure 0.5']:,}"
        for step in steps
    ]
    line = {"color": BLUE, "width": 3}
    figure = go.Figure(
        go.Scatter(x=leverage, y=above, mode="lines+markers", line=line, hovertext=hover, hoverinfo="text")
    )
    frame(figure, budget.sentence, 340)
    figure.update_xaxes(title_text="Leverage", type="log", exponentformat="power")
    figure.update_yaxes(title_text="Records of a higher one", type="log", exponentformat="power")
    return figure


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
