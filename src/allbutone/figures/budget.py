"""How likely a release discloses anybody, who stands out, where the budget ends, and what a guarantee costs."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int
from plotly.subplots import make_subplots

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.guarantee_plan import ERRORS, MOST_ERROR, NOISE, ROUTES, SHARE_ERROR, GuaranteePlan
from allbutone.disclosure.lineup import CONFIDENCE, Lineup, likeliest
from allbutone.disclosure.simulated_budget import Tried
from allbutone.figures import style
from allbutone.figures.style import BLUE, GREY, INK, VERMILION, wrapped
from allbutone.support.text import chance, counted

POINTS = 12  # of the curves
ACCEPTED = 1 - CONFIDENCE  # chance that anybody is disclosed
MOST_DOTS = 5000  # beyond that a browser grows slow
LABELLED = 3
_LOWEST = 1e-9  # leverage of a record at the very centre, which a logarithmic axis has no place for
_PANELS = dict(
    zip(
        (*ERRORS, SHARE_ERROR),
        ("means, in spreads", "spreads, as a share", "correlations", "shares of levels"),
        strict=True,
    )
)


def budget_figure(budget: Budget) -> go.Figure:
    """Draw the chance that a release discloses anybody, that of who sets the limit, and what simulations gave."""
    counts = _counts(budget)
    place, noun = budget.case.records.place_of(budget.limiting_row), budget.noun.removeprefix("parameter ")
    limiting = np.array([budget.chances(int(count), 1.0)[place] for count in counts])
    anybody = np.array([budget.anybody(int(count)) for count in counts])
    curves = [(budget.limiting_record, GREY, 2, limiting), ("anybody", BLUE, 3, anybody)]
    figure = go.Figure()
    for name, colour, width, values in curves:
        hover = f"%{{x:,.0f}} {noun}s<br>{name} is disclosed: %{{y:.1%}}<extra></extra>"
        line = {"color": colour, "width": width}
        figure.add_scatter(x=counts, y=values, mode="lines", name=name, line=line, hovertemplate=hover)
    if budget.simulated and budget.simulated.tried:
        figure.add_trace(_simulated(budget.simulated.tried.values(), noun))
    _mark_accepted(figure, VERMILION, f"accepted: {chance(ACCEPTED)}", x=0.995, xanchor="right")
    if budget.before:
        style.add_band(figure, 0.95, budget.before, GREY, along="x", opacity=0.25)
        middle = float(np.mean(np.log10([0.95, budget.before])))
        words = f"out already: {budget.before:,}"
        style.add_note(figure, words, x=middle, y=0.5, yref="paper", textangle=-90)
    if budget.in_all:
        figure.add_vline(x=budget.in_all, line={"color": INK, "width": 1.5})
        # where there is room; words on a logarithmic axis are placed by the logarithm, shapes are not
        at = float(np.log10(budget.in_all))
        side, shift = ("left", 4) if at < np.log10(counts[-1]) / 2 else ("right", -4)
        figure.add_annotation(
            x=at, y=0.97, yref="paper", yanchor="top", xanchor=side, xshift=shift, align=side, showarrow=False,
            text=f"the budget:<br>{counted(budget.in_all, noun)}",
        )  # fmt: skip
    style.frame(figure, _message(budget, counts, anybody, noun), 360, t=36)
    above = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.0, "yanchor": "bottom"}
    figure.update_layout(showlegend=True, legend=above | {"traceorder": "reversed"})
    title = f"Number of {budget.what}{', in all' * bool(budget.before)}"
    ends = [np.log10(0.95), np.log10(1.05 * counts[-1])]  # room for whole dots
    figure.update_xaxes(title_text=title, type="log", dtick="D2", tickformat=",d", range=ends)
    return figure.update_yaxes(title_text="Chance to be disclosed", range=[-0.02, 1.04], tickformat=".0%")


def _mark_accepted(figure: go.Figure, colour: str, words: str, **place: Any) -> None:
    """Draw the chance that is accepted across the figure, its words at one end."""
    figure.add_hline(y=ACCEPTED, line={"dash": "dash", "color": colour, "width": 1.5})
    style.add_note(figure, words, xref="paper", y=ACCEPTED, yanchor="bottom", **place)


def _counts(budget: Budget) -> np.ndarray:
    """Return numbers of datasets, most of them where the chance rises."""
    near, most = max(budget.in_all, 2), max((budget.simulated.tried if budget.simulated else ()), default=0)
    last = max(4 * near, min(budget.before, 40 * near), min(most, 10 * near))
    return np.unique([1, *np.geomspace(max(1, near / 2), last, POINTS).round()]).astype(int)


def _simulated(tries: Iterable[Tried], noun: str) -> go.Scatter:
    """Return the shares of simulated releases that disclosed anybody, with Wilson's intervals."""
    tried = sorted(tries, key=lambda one: one.count)
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


def _message(budget: Budget, counts: np.ndarray, anybody: np.ndarray, noun: str) -> str:
    count = budget.in_all
    words = (
        f"Up to {counted(count, noun)} the chance that anybody is disclosed stays within {chance(ACCEPTED)}"
        if count
        else f"Even one {noun} discloses somebody with a chance of more than {chance(ACCEPTED)}"
    )
    if budget.beyond is not None and count < budget.case.guess:
        seen = budget.beyond
        return (
            f"{words}; of {counted(seen.count, noun)} {seen.disclosing:,} of "
            f"{counted(seen.releases, 'simulated release')} disclosed somebody."
        )
    many = int(counts[np.argmax(anybody >= 0.5)]) if np.any(anybody >= 0.5) else 0
    return f"{words}; with {many:,} it is {chance(anybody[counts == many][0])}." if many > count else f"{words}."


def records_figure(
    lineup: Lineup,
    rows: Int[np.ndarray, " n"],
    count: int,
    chances: Float[np.ndarray, " n"],
    who: Sequence[str] = (),
) -> go.Figure:
    """Draw each record's chance that `count` datasets, or draws, disclose a value of it, against its leverage.

    `chances` in the order of the lineup. The dots' customdata are the records' numbers, `rows`; `who`: what the
    records are called, where it is not by these.
    """
    shown = np.arange(len(rows))
    if len(rows) > MOST_DOTS:  # the most exposed half of what can be shown, and of the rest as many, evenly
        first, rest = np.split(shown, [MOST_DOTS // 2])
        shown = np.concatenate([first, rest[:: -(-len(rest) // (MOST_DOTS // 2))]])
    numbers = rows[lineup.order]
    called = [who[place] for place in lineup.order] if len(who) else [f"row {row}" for row in numbers]
    x = np.maximum(lineup.leverage[lineup.order], _LOWEST)
    low, high = np.log10(np.min(x[shown])) - 0.1, np.log10(np.max(x[shown])) + 0.1
    colours = np.where(chances[shown] > ACCEPTED, VERMILION, BLUE).tolist()
    figure = go.Figure(
        go.Scatter(
            x=x[shown].astype(np.float32), y=chances[shown].astype(np.float32), customdata=numbers[shown].tolist(),
            mode="markers", marker={"size": 8, "color": colours, "opacity": 0.7, "line": {"width": 0}},
            text=[called[place] for place in shown],
            hovertemplate="%{text}<br>chance %{y:.1%}<br>leverage %{x:.3g}<extra></extra>",
        )
    )  # fmt: skip
    first, height = likeliest(chances), [-0.05, 1.1]
    named = [called[place] for place in first[:LABELLED]]
    style.add_labels(figure, np.log10(x[first]), chances[first], named, ((low, high), height), (300, 260))
    _mark_accepted(figure, INK, f"accepted in all: {chance(ACCEPTED)}", x=0.005, xanchor="left")
    noun = "parameter draw" if lineup.law.rows is None else "dataset"
    style.frame(figure, _records_message(called, chances, int(first[0]), counted(count, noun)), 400)
    key = f"one dot for each record; orange: above {chance(ACCEPTED)}; click one to look at it"
    if len(shown) < len(rows):
        key = f"{len(shown):,} of the {len(rows):,} records, those that stand out most among them; click one"
    title = wrapped("How far the record lies from the others (leverage)", key)
    ticks = style.round_numbers(10**low, 10**high, (1, 2, 5) if high - low < 1.7 else (1,))
    words = [f"{tick:,.12g}" for tick in ticks]
    figure.update_xaxes(type="log", range=[low, high], title_text=title, tickvals=ticks, ticktext=words)
    after = f"Chance to be disclosed<br>by {counted(count, noun)}"
    return figure.update_yaxes(title_text=after, range=height, **style.SHARES)


def _records_message(called: Sequence[str], chances: np.ndarray, worst: int, released: str) -> str:
    beyond = int(np.sum(chances > ACCEPTED))
    if not beyond:
        limit = chance(ACCEPTED)
        return f"By {released} nobody is disclosed with a chance of more than {limit}."
    who = f"something of {beyond:,} of {len(called):,} people is"
    first = f"{called[worst]} is the likeliest, with {chance(chances[worst])}"
    return f"By {released} {who} disclosed with a chance of more than {chance(ACCEPTED)}; {first}."


def guarantee_figure(plan: GuaranteePlan) -> go.Figure:
    """Draw the errors of means, spreads and correlations to expect against ε, with a guarantee and without."""
    errors = [key for key in plan.errors if key != ERRORS[2] or len(plan.columns) > 1]
    panels = [_PANELS[key] for key in errors]
    figure = make_subplots(cols=len(panels), shared_yaxes=True, subplot_titles=[f"of {each}" for each in panels])
    for route, words in ROUTES.items():
        rows = plan.of(route)
        for place, key in enumerate(errors, start=1):
            figure.add_scatter(
                x=[row["epsilon"] for row in rows], y=[row[key] for row in rows], mode="lines+markers",
                line={"color": BLUE, "width": 4} if route == NOISE else {"color": GREY, "width": 2}, name=words,
                legendgroup=route, showlegend=place == 1, row=1, col=place,
                hovertemplate=f"{words}<br>ε = %{{x:g}}<br>error %{{y:.3f}}<extra></extra>",
            )  # fmt: skip
    figure.add_hline(y=MOST_ERROR, line={"dash": "dash", "color": INK, "width": 1.5})
    below = (
        f"{plan.people:,} people, {counted(len(plan.columns), 'column')}, δ = {plan.delta:g}; correlations of "
        f"{plan.correlation:g} guessed. Root mean square errors of one release, approximately; above the dashed "
        "line nothing is learnt. From public figures alone."
    )
    style.stand_alone(figure, plan.sentence, below, legend=True)
    levels = sorted({row["epsilon"] for row in plan.rows})
    title = {"text": "ε", "standoff": 22}
    figure.update_xaxes(type="log", title=title, tickvals=levels, ticktext=[f"{level:g}" for level in levels])
    figure.update_yaxes(type="log", tickvals=style.round_numbers(0.01, 1.0))
    return figure.update_yaxes(title_text="Expected error", col=1)
