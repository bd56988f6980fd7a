"""Times to an event: Kaplan-Meier curves of real and synthetic rows, and their log-rank distance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from allbutone.support.text import counted, joined, number
from allbutone.tables.categories import Categories
from allbutone.tables.column import Column, EventOf, level_name
from allbutone.tables.schema import Schema

NOTED = 3.0  # standard deviations of the log-rank statistic, beyond what chance explains
FEWEST = 5  # events without which nothing can be told
ALL = ""  # the name of everybody, where no groups are named


@dataclass(frozen=True, eq=False)
class Followed:
    """Times of follow-up, and in whom the event happened then; the others were followed so long without it."""

    times: Float[np.ndarray, " n"]
    happened: Bool[np.ndarray, " n"]

    def where(self, rows: Bool[np.ndarray, " n"]) -> "Followed":
        """Return some of them."""
        return Followed(self.times[rows], self.happened[rows])

    @property
    def curve(self) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
        """Kaplan and Meier's curve: from 1 at time 0, S(t) = Π (1 − dⱼ/nⱼ) over the times tⱼ ≤ t of events.

        dⱼ: events at tⱼ, nⱼ: who was followed so long at least.
        """
        moments, deaths, at_risk = _counts(self.times[self.happened], self.times)
        return np.concatenate([[0.0], moments]), np.concatenate([[1.0], np.cumprod(1 - deaths / at_risk)])

    def surviving(self, at: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """Return the curve at these times."""
        moments, share = self.curve
        return share[np.searchsorted(moments, at, side="right") - 1]


def _counts(
    events: Float[np.ndarray, " e"], times: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """Return the different times of events, how many there are at each, and who was followed so long."""
    moments, deaths = np.unique(events, return_counts=True)
    followed = len(times) - np.searchsorted(np.sort(times), moments, side="left")
    return moments, deaths.astype(np.float64), followed.astype(np.float64)


@dataclass(frozen=True)
class LogRank:
    """Events of the second of two groups beyond those expected if both had the same hazard, and their variance.

    O − E = Σⱼ d₂ⱼ − dⱼ·n₂ⱼ/nⱼ and V = Σⱼ dⱼ·(n₁ⱼ/nⱼ)(n₂ⱼ/nⱼ)(nⱼ − dⱼ)/(nⱼ − 1) over the times tⱼ of events.
    """

    excess: float
    variance: float

    @classmethod
    def of(cls, one: Followed, two: Followed) -> "LogRank":
        """Compare two groups."""
        events = np.concatenate([one.times[one.happened], two.times[two.happened]])
        moments, deaths, at_risk = _counts(events, np.concatenate([one.times, two.times]))
        second = len(two.times) - np.searchsorted(np.sort(two.times), moments, side="left")
        own = np.sort(two.times[two.happened])
        share = second / at_risk
        found = np.searchsorted(own, moments, side="right") - np.searchsorted(own, moments, side="left")
        spread = deaths * share * (1 - share) * (at_risk - deaths) / np.maximum(at_risk - 1, 1)
        return cls(float(np.sum(found - deaths * share)), float(np.sum(spread)))

    @property
    def z(self) -> float:
        """(O − E)/√V, a standard normal if both have the same hazard."""
        return self.excess / np.sqrt(self.variance) if self.variance > 0 else 0.0

    @property
    def hazard_ratio(self) -> float:
        """Peto's estimate of how many times as often the event happens in the second group, exp((O − E)/V)."""
        return float(np.exp(np.clip(self.excess / self.variance, -20, 20))) if self.variance > 0 else 1.0


@dataclass(frozen=True, eq=False)
class GroupSurvival:
    """One group's real follow-up beside that of each synthetic dataset."""

    group: str
    real: Followed
    synthetic: tuple[Followed, ...]

    @property
    def pooled(self) -> Followed:
        """The rows of all datasets together."""
        parts = self.synthetic
        return Followed(
            np.concatenate([each.times for each in parts]), np.concatenate([each.happened for each in parts])
        )

    @property
    def log_ranks(self) -> list[LogRank]:
        """Each dataset against the real rows."""
        return [LogRank.of(self.real, each) for each in self.synthetic]

    @property
    def z(self) -> float:
        """The median log-rank statistic over the datasets."""
        return float(np.median([each.z for each in self.log_ranks]))

    @property
    def hazard_ratio(self) -> float:
        """How many times as often the event happens in synthetic rows, the median over the datasets."""
        return float(np.median([each.hazard_ratio for each in self.log_ranks]))

    @property
    def gap(self) -> float:
        """The largest distance between both curves, as long as one real row in ten, and five, are followed."""
        longest = np.sort(self.real.times)[::-1]
        last = longest[min(max(FEWEST, len(longest) // 10), len(longest)) - 1] if len(longest) else 0.0
        at = np.unique(np.concatenate([self.real.times, self.pooled.times]))
        at = at[at <= last]
        return float(np.max(np.abs(self.real.surviving(at) - self.pooled.surviving(at)))) if len(at) else 0.0

    @property
    def has_events(self) -> bool:
        """Whether there are enough events to compare."""
        return min(int(self.real.happened.sum()), int(self.pooled.happened.sum())) >= FEWEST


@dataclass(frozen=True, eq=False)
class Survival:
    """The time to an event of real and synthetic rows, by group where a category is named."""

    time: str
    event: str
    groups: tuple[GroupSurvival, ...]

    @property
    def words(self) -> str:
        """How far the curves are apart, in a sentence or two."""
        told = [each for each in self.groups if each.has_events]
        if not told:
            return f"Of {self.event} there are too few events to compare curves of {self.time}."
        several = len(told[0].synthetic)
        median = f", in the median of {counted(several, 'dataset')}" if several > 1 else ""
        parts = [
            f"{f'{each.group} ' if each.group else ''}{number(each.hazard_ratio, 2)} times as often as in real "
            f"rows (log-rank z = {number(each.z, 2)}; curves at most {100 * each.gap:.0f} points apart)"
            for each in told
        ]
        return f"In synthetic rows {self.event} happens{median}: {joined(parts)}. {self.verdict}"

    @property
    def far(self) -> list[GroupSurvival]:
        """The groups whose curves are further apart than chance explains."""
        return [each for each in self.groups if each.has_events and abs(each.z) > NOTED]

    @property
    def verdict(self) -> str:
        """Whether that is more than chance explains."""
        if not self.far:
            return f"That is no more than chance explains (z within ±{NOTED:g})."
        whose = joined([each.group for each in self.far]) if self.far[0].group else "The curves"
        return f"{whose}: further apart than chance explains (z beyond ±{NOTED:g})."


def survival(
    schema: Schema,
    real: tuple[Float[np.ndarray, "n p"], Categories],
    synthetic: Sequence[tuple[Float[np.ndarray, "_ p"], Categories]],
) -> tuple[Survival, ...]:
    """Compare every column that is declared the time to an event, in natural units, with its event and groups."""
    found = []
    for column in schema.released_columns:
        if column.event is None:
            continue
        event, (own, groups) = column.event, _followed(schema, column, column.event, *real)
        others = [_followed(schema, column, event, *each) for each in synthetic]
        names = schema.column(event.by).levels if event.by else (ALL,)
        parts = [
            GroupSurvival(name, own.where(groups == place), tuple(one.where(of == place) for one, of in others))
            for place, name in enumerate(names)
        ]
        what = f"{event.of} = {event.level}" if event.level else event.of
        found.append(Survival(column.name, what, tuple(each for each in parts if len(each.real.times))))
    return tuple(found)


def _followed(
    schema: Schema, column: Column, event: EventOf, natural: Float[np.ndarray, "n p"], categories: Categories
) -> tuple[Followed, Float[np.ndarray, " n"]]:
    """Return the follow-up of rows that lack nothing of it, and the number of each one's group."""
    names = [each.name for each in schema.measurements]
    values = dict(zip(names, natural.T, strict=True)) | schema.derive(natural)
    codes = {
        name: np.where(each < 0, np.nan, each)
        for name, each in zip(categories.columns, categories.codes.T, strict=True)
    }
    values |= codes
    happened = values[event.of]
    levels = schema.column(event.of).levels
    wanted = event.level or next((level for level in levels if level.casefold() in EventOf.USUAL), "1")
    mark = float(levels.index(wanted)) if levels else float(level_name(wanted))
    groups = values[event.by] if event.by else np.zeros(len(natural))
    there = ~(np.isnan(values[column.name]) | np.isnan(happened) | np.isnan(groups))
    times = np.round(np.maximum(values[column.name][there], 0.0), 6)  # what comes back from a scale is no tie
    return Followed(times, happened[there] == mark), groups[there]
