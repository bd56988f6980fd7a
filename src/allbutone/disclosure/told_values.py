"""Every value of every person under the one rule: which are disclosed, and which the release adds most to."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.disclosure.rule import BASELINE, PROBABILITY, Rule, judged_columns


@dataclass(frozen=True)
class Among:
    """How many people were judged, and of how many a value is disclosed, where a table holds the worst of them."""

    people: int
    disclosed: int


def called(found: Mapping[str, np.ndarray]) -> tuple[str, np.ndarray]:
    """Return what each person is known by, after the word for it: a record's key where there is one, or a row."""
    return ("record", found["key"]) if "key" in found else ("row", found["row"])


def most_at_risk(found: Mapping[str, np.ndarray]) -> Int[np.ndarray, " n"]:
    """Return the people from those at most risk down, those of whom a value is disclosed first."""
    return np.lexsort((-found["risk"], ~found["disclosed"]))


@dataclass(frozen=True, eq=False)
class ToldValues:
    """How well each value of each person is known, with the release and without, and what the rule says of it."""

    names: tuple[str, ...]
    after: Float[np.ndarray, "n f"]
    before: Float[np.ndarray, "n f"]
    disclosed: Bool[np.ndarray, "n f"]

    @classmethod
    def of(cls, found: Mapping[str, np.ndarray], rule: Rule) -> "ToldValues":
        """Judge the columns of a risk table."""
        names = tuple(judged_columns(found))
        after, before = (
            np.stack([found[each + name] for name in names], axis=1) for each in (PROBABILITY, BASELINE)
        )
        return cls(names, after, before, rule.discloses(after, before))

    @property
    def added(self) -> Float[np.ndarray, "n f"]:
        """What the release adds to each probability; most where it could not be computed."""
        known = np.where(np.isnan(self.after), 1.0, self.after) - self.before
        return np.where(np.isfinite(self.before), known, -np.inf)

    @property
    def surest(self) -> tuple[Int[np.ndarray, " v"], Int[np.ndarray, " v"]]:
        """The places and columns of the disclosed values, the surest first."""
        places, columns = np.nonzero(self.disclosed)
        sure = np.where(np.isnan(self.after), 2.0, self.after)[places, columns]
        order = np.lexsort((-self.added[places, columns], -sure))
        return places[order], columns[order]

    @property
    def worst(self) -> Int[np.ndarray, " n"]:
        """Each person's column that the release adds most to, of those disclosed if there are any."""
        return np.argmax(np.where(self.disclosed, 2.0, 0.0) + self.added, axis=1)

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """The people: those of whom a value is disclosed first, then by what the release adds."""
        each = np.arange(len(self.after))
        return np.lexsort((-self.added[each, self.worst], ~self.disclosed.any(axis=1)))
