"""What a release told of each record: whom it discloses, how close the guess came, at what ε."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int
from scipy.special import ndtr, ndtri

from allbutone.disclosure.measures import HALF
from allbutone.disclosure.private_risk import BOUND, of_riskiest
from allbutone.disclosure.rule import (
    BASELINE,
    EVEN,
    MEMBERSHIP,
    PROBABILITY,
    JudgedPeople,
    Rule,
    ToldValues,
    by_membership,
    names_of_people,
)
from allbutone.figures import style
from allbutone.figures.style import BLUE, GREY, INK, VERMILION, text_of, wrapped
from allbutone.other_tools.fitted_normal import law_of_everything, law_of_means
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.support.text import number

SHOWN = 3000  # dots: beyond that a browser grows slow
LABELLED = 3
APART = 0.02  # of the axis: dots with the same probability before are spread so far, to be seen apart
BINS = 40
LINES = 200  # points of a curve
TO_A_STRANGER = "to somebody who knows nothing of the person"
TO_WHO_KNOWS_THEM = "to somebody who knows the person"
SUREST = 9.2  # log odds, 99.99 %: who is surer is drawn there
SHARES_SHOWN = (0.0001, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999)
CONFIDENTIAL = "Confidential: it describes individual records."
ERROR = "Error of the guess, in standard deviations (root mean square)"
_MEASURES = ("exposure", "relative_error", "information_gain", "mass", "prior_mass")


def disclosure_figure(risk: Mapping[str, np.ndarray], rule: Rule, among: JudgedPeople | None = None) -> go.Figure:
    """Draw, for each person, the value that comes closest to being disclosed, or is; `risk` as in risk.csv.

    How well it is known with the release stands against without. among: of how many people these are the worst,
    if they are.
    """
    told = ToldValues.of(risk, rule)
    shown, worst = told.order[:SHOWN], told.worst
    after, before = (np.nan_to_num(each[shown, worst[shown]], nan=1.0) for each in (told.after, told.before))
    flags, x = np.any(told.disclosed, axis=1)[shown], before
    if 4 * len(np.unique(before.round(6))) < len(before):
        # many share their level's probability: apart by multiples of the golden ratio, which are even, and the
        # same every time; those disclosed to the left, so that none crosses the shaded area's edge
        step = APART * (np.arange(len(before)) * 0.618034 % 1)
        x = np.clip(before + np.where(flags, -step, step), 0.0, 1.0)
    # disclosed: as surely as the rule asks for, of what is less than believed without the release
    edge = np.linspace(0, max(rule.probability, EVEN) - 1e-6, 60)
    figure = go.Figure(
        go.Scatter(
            x=np.concatenate([edge, [edge[-1], 0]]), y=np.concatenate([rule.needed(edge), [1, 1]]),
            fill="toself", fillcolor=VERMILION, opacity=0.1, line={"width": 0}, mode="lines", hoverinfo="skip",
        )
    )  # fmt: skip
    style.add_line(figure, [0, 1], [0, 1], GREY, 1, "dot")
    word, keys = names_of_people(risk)
    people = [text_of(f"{word} {key}", 40) for key in keys[shown]]
    words = [f"{who}: {text_of(told.names[at], 40)}" for who, at in zip(people, worst[shown], strict=True)]
    rest_known, both = told.rest_known[worst[shown]], bool(told.rest_known.any())
    for known, symbol, to_whom in ((False, "circle", TO_A_STRANGER), (True, "diamond", TO_WHO_KNOWS_THEM)):
        some = np.flatnonzero(rest_known == known)
        if not len(some) and (known or both):
            continue
        colours = np.where(flags[some], VERMILION, BLUE).tolist()
        look = {"size": 7, "symbol": symbol, "color": colours, "opacity": 0.6, "line": {"width": 0}}
        figure.add_scatter(
            x=x[some], y=after[some], mode="markers", marker=look, name=to_whom, showlegend=False,
            text=[words[at] for at in some], customdata=before[some],
            hovertemplate=f"<b>%{{text}}</b><br>{to_whom * both}<br>without the release "
            "%{customdata:.1%}<br>with it %{y:.1%}<extra></extra>",
        )  # fmt: skip
    span = [-0.03, 1.05]
    style.add_note(figure, "disclosed", x=0.015, y=rule.probability + 0.01, xanchor="left", yanchor="bottom")
    beside = {"x": 1.04, "y": 0.5, "xanchor": "right", "yanchor": "top", "align": "right"}
    style.add_note(figure, "on the line: as<br>without the release", **beside)
    named = people[: max(1, min(LABELLED, flags.sum()))]
    style.add_labels(figure, x, after, named, (span, span), (600, 300))
    judged = among or JudgedPeople.of(risk, rule)
    style.frame(figure, _disclosure_message(judged), 400, b=80)
    key = f"● {TO_A_STRANGER}; ◆ {TO_WHO_KNOWS_THEM}" if both else ""
    title = wrapped("Probability without the release", key)
    figure.update_xaxes(title_text=title, range=span, **style.SHARES)
    return figure.update_yaxes(title_text="Probability with the release", range=span, **style.SHARES)


def _disclosure_message(judged: JudgedPeople) -> str:
    people, count = judged.people, judged.disclosed
    if not count:
        return f"Nobody’s value is disclosed: for none of {people:,} people does a dot reach the shaded area."
    are = "is" if count == 1 else "are"
    words = f"{count:,} of {people:,} people {are} in the shaded area, with a value disclosed"
    if judged.knowing_rest is None:
        return f"{words}."
    alone, rest = (f"{each:,}" if each else "none" for each in (judged.lacking_record, judged.knowing_rest))
    return f"{words}: {alone} to somebody who knows nothing of them, {rest} to somebody who knows them."


def membership_figure(risk: Mapping[str, np.ndarray], rule: Rule) -> go.Figure:
    """Draw how sure one becomes that each person is in the table, beside what chance alone would give.

    Over releases a person's log likelihood ratio L has a density f₁ if they are in the table, and f₀ = e^(−L)·f₁
    if they are not. So everybody's L, weighted by e^(−L), are those of as many people alike who are not in it.
    """
    evidence, prior = risk["membership_evidence"], np.log(rule.membership_odds)
    sure = np.where(np.isnan(evidence), SUREST, np.clip(evidence + prior, -SUREST, SUREST))
    edges = np.linspace(*_span_of(sure, rule, prior), BINS + 1)
    with np.errstate(over="ignore"):
        weights = np.exp(-np.nan_to_num(evidence, nan=np.inf))
    chance_alone, _ = np.histogram(sure, edges, weights=weights)
    middle, flags = (edges[1:] + edges[:-1]) / 2, rule.discloses_membership(risk[MEMBERSHIP])
    figure = go.Figure()
    for some, colour, words in ((~flags, BLUE, "not disclosed"), (flags, VERMILION, "disclosed")):
        counts, _ = np.histogram(sure[some], edges)
        figure.add_bar(
            x=middle, y=counts, width=edges[1] - edges[0], marker={"color": colour, "line": {"width": 0}},
            hovertemplate=f"%{{y:,}} people: membership {words}<extra></extra>",
        )  # fmt: skip
    style.add_line(figure, middle, chance_alone, INK, 2, "dash")
    count = int(flags.sum())
    limit = np.log(rule.membership / (1 - rule.membership))
    style.add_band(figure, limit, edges[-1], VERMILION, along="x")
    (word, keys), first = names_of_people(risk), by_membership(risk)[: max(1, min(LABELLED, count))]
    height = float(max(1, *np.histogram(sure, edges)[0], *chance_alone))
    named = [text_of(f"{word} {keys[place]}", 40) for place in first]
    span = (edges[0], edges[-1]), (0.0, 1.15 * height)
    style.add_labels(figure, sure[first], np.full(len(first), 0.06 * height), named, span, (600, 240))
    style.frame(figure, _membership_message(rule, len(sure), count), 340, b=90)
    shares = [share for share in SHARES_SHOWN if edges[0] <= np.log(share / (1 - share)) <= edges[-1]]
    places = [np.log(share / (1 - share)) for share in shares]
    key = "dashed: as many people alike who are not in the table; shaded: disclosed"
    figure.update_layout(barmode="stack", bargap=0)
    figure.update_xaxes(
        title_text=wrapped("How sure one becomes that a person is in the table", key), range=[edges[0], edges[-1]],
        tickvals=places, ticktext=[f"{100 * share:g} %" for share in shares],
    )  # fmt: skip
    return figure.update_yaxes(title_text="People", range=[0, 1.15 * height])


def _span_of(sure: np.ndarray, rule: Rule, prior: float) -> tuple[float, float]:
    """Return from where to where on the scale of log odds people are shown, the rule's limit among it."""
    limit = np.log(rule.membership / (1 - rule.membership))
    low, high = min(float(sure.min()), prior - 1.0), max(float(sure.max()), limit + 1.0)
    return low - 0.02 * (high - low), high + 0.02 * (high - low)


def _membership_message(rule: Rule, people: int, count: int) -> str:
    limit = f"{100 * rule.membership:g} %"
    if not count:
        return f"Nobody’s membership is disclosed: of none of {people:,} people does one become {limit} sure."
    return (
        f"Of {people:,} people the membership of {count:,} is disclosed: one becomes at least {limit} sure of it."
    )


def risk_figure(
    columns: dict[str, np.ndarray],
    names: Sequence[str],
    order: np.ndarray,
    labels: int = 10,
    people: int | None = None,
) -> go.Figure:
    """Draw how close the adversary's guess comes to each record against what the release tells of it.

    `columns` as in risk.csv, `names` of the table's columns, `order` the records from the one closest to being
    disclosed down, some of them labelled. people: of how many records these are the worst, if they are.
    """
    shown, (word, keys) = order[:SHOWN], names_of_people(columns)
    closer = np.maximum(1 - columns["relative_error"], -1.0)[shown]  # worse than -1 is as good as no guess at all
    gain = np.arcsinh(columns["information_gain"])[shown]
    said = {key: key.replace("_", " ") for key in _MEASURES if key in columns}
    said |= {f"error_{name}": f"guess of {text_of(name, 30)} off by" for name in names[:10]}
    lines = [f"{words} %{{customdata[{at}]:.3~g}}" for at, words in enumerate(said.values())]
    colours = np.where(columns["disclosed"][shown], VERMILION, BLUE).tolist()
    figure = go.Figure(
        go.Scatter(
            x=gain, y=closer, mode="markers",
            marker={"size": 8, "color": colours, "opacity": 0.75, "line": {"width": 0}},
            # numbers as they are: exact, however many there are
            text=[text_of(key, 40) if isinstance(key, str) else key for key in keys[shown].tolist()],
            # the numbers once a dot, the words once for all
            customdata=np.column_stack([columns[key][shown] for key in said]),
            hovertemplate="<br>".join([f"<b>{word} %{{text}}</b>", *lines]) + "<extra></extra>",
        )
    )  # fmt: skip
    low, high = min(float(gain.min()), -0.3), max(float(gain.max()), 1.0)
    span, height = (low - 0.08 * (high - low), high + 0.08 * (high - low)), (-1.1, 1.3)
    corner = {"x": span[0], "xanchor": "left"}
    style.add_band(figure, HALF, height[1], VERMILION, opacity=0.08)
    style.add_note(figure, "more than halfway there", y=height[1], yanchor="top", **corner)
    style.add_band(figure, height[0], -HALF, GREY, opacity=0.08)
    style.add_note(figure, "misled: worse than guessing the centre", y=height[0], yanchor="bottom", **corner)
    named = [text_of(f"{word} {keys[place]}", 40) for place in order[:labels]]
    style.add_labels(figure, gain, closer, named, (span, height), (340, 280))
    people = people or len(order)
    what = "One dot for each record" if len(shown) == people else f"{len(shown):,} of {people:,} records"
    head = "For experts, how a risk comes about: how close the guess comes, and what the release tells"
    style.stand_alone(figure, head, f"{what}; hover for its measures. {CONFIDENTIAL}")
    ticks = [t for t in (-30, -10, -3, -1, 0, 1, 3, 10, 30, 100, 300) if span[0] <= np.arcsinh(t) <= span[1]]
    title = "Information gain at the true values, nats<br>(below: times more likely than before)"
    figure.update_xaxes(
        title_text=title, tickvals=np.arcsinh(ticks), ticktext=[f"{t}<br>×{_factor(t)}" for t in ticks], range=span
    )
    figure.update_layout(margin={"l": 115})
    return figure.update_yaxes(
        title_text="Closer to the record<br>by this share of the way", range=height, dtick=0.5
    )


def _factor(nats: float) -> str:
    """Return e to the nats in round numbers."""
    return f"{np.exp(nats):.2g}" if -5 <= nats <= 5 else f"10<sup>{nats / np.log(10):.0f}</sup>"


def private_risk_figure(risk: Mapping[str, np.ndarray], told: NoisyMoments, rule: Rule) -> go.Figure:
    """Draw whom noisy moments disclose, beside what their guarantee allows on average, Φ(Φ⁻¹(π) + μ)."""
    figure, share = disclosure_figure(risk, rule), np.linspace(0.0, 1.0, 201)
    allowed = ndtr(ndtri(share) + told.mu)
    style.add_line(figure, share, allowed, INK, 2, "dash")
    beside = {"x": 0.7, "y": float(allowed[140]), "xanchor": "left", "yanchor": "top", "xshift": 6}
    style.add_note(figure, f"allowed on average by ε = {told.epsilon:.3g}", **beside)
    before, after, bound = (float(np.mean(of_riskiest(risk, kind))) for kind in (BASELINE, PROBABILITY, BOUND))
    message = f"The release raises the chance to guess a value from {before:.2f} to {after:.2f}; the guarantee "
    below = f"One dot a person, the value closest to being disclosed. {CONFIDENTIAL}"
    return figure.update_layout(meta={"message": f"{message}allows {bound:.2f}", "below": below})


def epsilon_figure(epsilon: Float[np.ndarray, " n"], rows: Int[np.ndarray, " n"]) -> go.Figure:
    """Draw how many records have which ε, and where the largest is."""
    positive = np.log10(np.maximum(epsilon, 1e-6))
    low, high = float(positive.min()), float(positive.max())
    counts, edges = np.histogram(positive, BINS, (low, max(high, low + 0.1)))
    worst = int(np.argmax(epsilon))
    figure = go.Figure(
        go.Bar(
            x=0.5 * (edges[1:] + edges[:-1]), y=counts, width=edges[1] - edges[0],
            marker={"color": BLUE, "line": {"width": 0}}, customdata=10 ** edges[:-1],
            hovertemplate="ε from %{customdata:.3g}<br>%{y:,} records<extra></extra>",
        )
    )  # fmt: skip
    message = f"Of row {rows[worst]} the release says most: its ε is {number(float(epsilon[worst]))}"
    style.frame(figure, f"{message}. Per record, from the data, confidential, not a guarantee.", 300)
    figure.add_annotation(x=high, y=1, text=f"row {rows[worst]}", ax=-20, ay=-40, font={"color": INK})
    ticks = style.round_numbers(10 ** (low - 0.1), 10 ** (high + 0.1), (1, 3))
    figure.update_xaxes(title_text="ε of a record", tickvals=np.log10(ticks), ticktext=[f"{t:g}" for t in ticks])
    return figure.update_yaxes(title_text="Records")


# How closely a record is found by the rows of a fitted normal: the error against the number of rows released.


@dataclass(frozen=True)
class Marks:
    """Errors that were measured, by the number of rows; `spread`: from the lowest to the highest of several."""

    name: str
    rows: Sequence[float]
    errors: Sequence[float]
    colour: str
    symbol: str = "circle"
    spread: tuple[Sequence[float], Sequence[float]] | None = None

    @property
    def bars(self) -> dict[str, object] | None:
        """The spread as plotly's error bars."""
        if self.spread is None:
            return None
        low, high = (np.abs(np.subtract(end, self.errors)) for end in self.spread)
        return {"type": "data", "symmetric": False, "array": high, "arrayminus": low, "width": 0, "thickness": 1}


def rows_figure(people: int, columns: int, marks: Sequence[Marks], message: str) -> go.Figure:
    """Draw measured errors beside the two laws of plug-in synthesizers and the error without a release, 1."""
    measured = np.concatenate([np.asarray(each.rows, dtype=float) for each in marks])
    rows = np.geomspace(min(measured.min(), people) / 2, max(8 * measured.max(), 100 * people**2), LINES)
    figure, exact = go.Figure(), law_of_everything(people, rows, np.sqrt(columns))
    style.add_line(figure, rows, law_of_means(people, rows), GREY, 2, "dash", name="means alone: law n/√N")
    style.add_line(figure, rows, exact, VERMILION, 2, name="exact attack: approximate law")
    for each in marks:
        figure.add_scatter(
            x=list(each.rows), y=list(each.errors), name=each.name, mode="markers", error_y=each.bars,
            marker={"color": each.colour, "symbol": each.symbol, "size": 10},
            hovertemplate=f"{each.name}<br>%{{x:,}} rows<br>error %{{y:.2f}}<extra></extra>",
        )  # fmt: skip
    figure.add_hline(y=1, line={"color": GREY, "dash": "dot", "width": 1})
    style.add_note(figure, "without a release", x=1, xref="paper", xanchor="right", y=0, yanchor="bottom")
    style.frame(figure, message, 420, t=90, b=80)
    low = np.log10(min(0.1, *(0.7 * np.min(each.errors) for each in marks)))
    tops = [each.errors if each.spread is None else each.spread[1] for each in marks]
    high = np.log10(max(10.0, *(1.4 * np.max(each) for each in tops)))
    figure.update_xaxes(type="log", title_text=wrapped("Synthetic rows released"), dtick=1, exponentformat="power")
    figure.update_yaxes(type="log", title_text=wrapped(ERROR), range=[low, high], dtick=1)
    above = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    return figure.update_layout(showlegend=True, legend=above)
