"""Every value of every person under the one rule: which are disclosed, and which come closest to it.

Whoever names a record, in a sentence, a figure or a table, takes it from the order that is defined here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.disclosure.rule import BASELINE, ERROR, PROBABILITY, Rule, judged_columns

UNSURE = 2.0  # standard errors within which a probability cannot be told from its limit
DIGITS = 9  # beyond which two numbers count as the same, so that no rounding decides who is named


@dataclass(frozen=True)
class Among:
    """How many people were judged, and of how many a value is disclosed, where a table holds the worst of them."""

    people: int
    disclosed: int


def called(found: Mapping[str, np.ndarray]) -> tuple[str, np.ndarray]:
    """Return what each person is known by, after the word for it: a record's key where there is one, or a row."""
    return ("record", found["key"]) if "key" in found else ("row", found["row"])


@dataclass(frozen=True, eq=False)
class ToldValues:
    """How well each value of each person is known, with the release and without, and what the rule says of it.

    closeness: how much of the way to being disclosed the release went, (after − before)/(needed − before), where
    `needed` is the probability at which the rule calls a value disclosed; missing where there is nothing to find.
    at_limit: whether the probability is `needed`, as far as the error of its integral, or of its draws, can tell.
    """

    names: tuple[str, ...]
    after: Float[np.ndarray, "n f"]
    before: Float[np.ndarray, "n f"]
    disclosed: Bool[np.ndarray, "n f"]
    closeness: Float[np.ndarray, "n f"]
    at_limit: Bool[np.ndarray, "n f"]

    @classmethod
    def of(cls, found: Mapping[str, np.ndarray], rule: Rule) -> "ToldValues":
        """Judge the columns of a risk table."""
        names = tuple(judged_columns(found))
        after, before = (
            np.stack([found[each + name] for name in names], axis=1) for each in (PROBABILITY, BASELINE)
        )
        errors = np.stack([found.get(ERROR + name, np.zeros(len(after))) for name in names], axis=1)
        needed = rule.needed(before)
        with np.errstate(invalid="ignore"):  # what could not be computed counts as disclosed, and so it is said
            at_limit = (errors > 0) & (np.abs(after - needed) <= UNSURE * errors)
        return cls(
            names, after, before, rule.discloses(after, before), (after - before) / (needed - before), at_limit
        )

    @property
    def undecided(self) -> Bool[np.ndarray, " n"]:
        """Of whom other random points may decide otherwise: at a limit, and clearly beyond none."""
        return self.at_limit.any(axis=1) & ~(self.disclosed & ~self.at_limit).any(axis=1)

    @property
    def surest(self) -> tuple[Int[np.ndarray, " v"], Int[np.ndarray, " v"]]:
        """The places and columns of the disclosed values, the surest first."""
        places, columns = np.nonzero(self.disclosed)
        order = np.lexsort([-key[places, columns] for key in self._keys])
        return places[order], columns[order]

    @property
    def worst(self) -> Int[np.ndarray, " n"]:
        """Each person's column that is disclosed most surely, or comes closest to it."""
        added, score = self._keys
        first = score == score.max(axis=1, keepdims=True)
        return np.argmax(np.where(first, added, -np.inf), axis=1)

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """The people, who is disclosed most surely or comes closest to it first."""
        each, worst = np.arange(len(self.after)), self.worst
        return np.lexsort([-key[each, worst] for key in self._keys])

    @property
    def _keys(self) -> tuple[Float[np.ndarray, "n f"], Float[np.ndarray, "n f"]]:
        """By what values are compared, the second before the first; then by row, and by column.

        What is disclosed comes first, by its probability, what could not be computed before that; then by
        closeness. Where that is the same, by what the release adds to the probability.
        """
        sure = np.where(np.isnan(self.after), 2.0, self.after)
        score = np.where(self.disclosed, 2.0 + sure, np.where(np.isnan(self.closeness), -np.inf, self.closeness))
        added = np.where(np.isfinite(self.before), sure - self.before, -np.inf)
        return added.round(DIGITS), score.round(DIGITS)
