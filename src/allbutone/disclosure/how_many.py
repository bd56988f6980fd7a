"""How many more? The one answer of every budget, from what may be released in all and what is out already."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from allbutone.releases.joined import JoinedRelease, OfFewer, Released, ReleasesByPrior
from allbutone.releases.mixed.release import Release
from allbutone.support.text import counted

ACCEPTED_SHARE = 0.02  # of simulated releases that disclose somebody: four of two hundred

Kinds = Counter[int | None]  # how many datasets of so many rows, and of None parameter draws


@dataclass(frozen=True)
class Luck:
    """How often releases of as much as is out disclose somebody, where that is more than the budget.

    share: of such releases, those that disclose anybody; own: those that disclose `person`, the likeliest.
    cut_short: whether the simulation was ended before it could tell.
    """

    share: float
    person: str
    own: float
    cut_short: bool = False

    @property
    def is_caution(self) -> bool:
        """Whether simulated releases did no harm, but the closed form stopped before them."""
        return self.share <= ACCEPTED_SHARE and not self.cut_short

    @property
    def in_words(self) -> str:
        """How many of a hundred, and whom."""
        if self.cut_short:
            return "the simulation of such releases was cut short before as much as this was judged"
        if self.is_caution:
            return "the closed form cannot exclude that more than 5 of 100 such releases disclose somebody"
        share, own = (max(1, round(100 * each)) for each in (self.share, self.own))
        if own >= share - 1:
            return f"about {share} of 100 such releases would disclose {self.person}"
        return (
            f"about {share} of 100 such releases would disclose somebody, {self.person} most often ({own} of 100)"
        )


class HowMany(ABC):
    """What every budget says alike: how many in all, how many of these are out, how many may follow.

    in_all: the most datasets, or parameter draws, that disclose anyone with a chance of at most 5 %. It is found
    as if nothing had been drawn: who lets what was drawn decide how much more is drawn tells by that, too.
    before: how many of these are out. lowered: by how many fewer may follow because of what those that are out
    happen to tell. converted: whether what is out is of other kinds, which were converted (`counted_as`).
    luck: where more is out than the budget allows, how often so much discloses somebody.
    """

    in_all: int
    before: int
    lowered: int
    converted: bool
    luck: Luck | None

    @property
    @abstractmethod
    def rows_of_each(self) -> int | None:
        """The rows of each dataset; None for parameter draws."""

    @property
    @abstractmethod
    def tried_up_to(self) -> int:
        """The most that were tried."""

    @property
    def confident_count(self) -> int:
        """How many may be released from here on; 0 if not even one."""
        return max(0, self.in_all - self.before - self.lowered)

    @property
    def noun(self) -> str:
        """The thing that is counted."""
        return "parameter draw" if self.rows_of_each is None else "dataset"

    @property
    def what(self) -> str:
        """The things that are counted: datasets of so many rows, or parameter draws."""
        return "parameter draws" if self.rows_of_each is None else f"datasets of {self.rows_of_each:,} rows"

    def answer(self, who: str) -> str:
        """Say how many more may be released, for a board; `who` sets the limit."""
        one = self.what.replace("draws", "draw").replace("datasets", "dataset")
        count, more = self.confident_count, "more " * bool(self.before)
        if self.in_all == 0:
            verdict = f"Not even one {one} may be released"
        elif count == 0:
            verdict = f"No more {self.what} may be released"
        elif self.in_all >= self.tried_up_to:
            verdict = f"At least {count:,} {more}{self.what}, the most that were tried, may be released"
        elif count == 1:
            verdict = f"One {more}{one} may be released, but not two,"
        else:
            verdict = f"Up to {count:,} {more}{self.what} may be released"
        reason = f"if no value of anyone is to be disclosed (95\u00a0% sure){self._of_all}"
        return f"{verdict} {reason}; {who}.{self._as_drawn}"

    @property
    def _of_all(self) -> str:
        if not self.before:
            return ""
        out = f"{self.before:,} {'is' if self.before == 1 else 'are'} out"
        if self.converted:
            out = f"what is out, of other kinds, counts as {self.before:,}"
        return f": {self.in_all:,} in all, and {out}" if self.in_all else f", and {out}"

    @property
    def _as_drawn(self) -> str:
        if self.lowered <= 0:
            return ""
        return " What is out happens to tell more than as much mostly does, so that fewer may follow."


def kinds_of(released: Released | OfFewer | Release) -> Kinds:
    """Return how many of each kind were released: datasets by their rows, parameter draws by None.

    Who has the parameters learns nothing more from datasets that were drawn from them.
    """
    if isinstance(released, OfFewer):
        return kinds_of(released.first)
    if isinstance(released, ReleasesByPrior):
        return sum((kinds_of(part) for part in (released.first, *released.rest)), Counter())
    if isinstance(released, JoinedRelease):
        return kinds_of(released.first) + kinds_of(released.synthetic)
    if isinstance(released, Release):
        found: Kinds = Counter(len(each.values) for each in released.datasets)
        return found + Counter({None: released.draws})
    if draws := getattr(released, "draws", 0):
        return Counter({None: draws})
    return Counter(released.rows)


def counted_as(kinds: Kinds, rows: int | None, allowed: Callable[[int | None], int], most: int) -> int:
    """Return how many of one kind, of which `most` are allowed, releases of any kind count as.

    One of another kind uses up the share of its own budget: of 20 small datasets that are allowed, five are a
    quarter of what may be given away. `allowed`: the budget of a kind.
    """
    others = sum(count / max(allowed(kind), 0.5) for kind, count in kinds.items() if kind != rows)
    return kinds[rows] + int(np.ceil(round(others * max(most, 1), 9)))


def out_in_words(kinds: Kinds) -> str:
    """Say what is out."""
    return ", ".join(
        counted(count, "parameter draw") if rows is None else f"{counted(count, 'dataset')} of {rows:,} rows"
        for rows, count in kinds.items()
    )
