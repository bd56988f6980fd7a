"""Whose categories a release gives away, line by line: probabilities with the release beside those without."""

from dataclasses import dataclass

import numpy as np

from allbutone.disclosure.mixed_risk import is_found, judged_categories, rise_in_odds
from allbutone.disclosure.rule import BASELINE, PROBABILITY


@dataclass(frozen=True)
class ToldCategory:
    """A person's level of one category: how likely it is with the release and without, and whether it is found."""

    row: int
    category: str
    after: float
    before: float
    found: bool

    @property
    def rise(self) -> float:
        """By how much the release multiplied the odds; what could not be computed counts most."""
        with np.errstate(divide="ignore", invalid="ignore"):
            after, before = np.float64(self.after), np.float64(self.before)
            rise = float(after / (1 - after) / (before / (1 - before)))
        return np.inf if np.isnan(rise) else rise


def _most_told(found: dict[str, np.ndarray], category: str) -> np.ndarray:
    """Return the records whose level of a category is found out, then the others, by how much its odds grew."""
    return np.lexsort((-rise_in_odds(found, category), ~is_found(found, category)))


def told_categories(found: dict[str, np.ndarray], most: int) -> list[ToldCategory]:
    """Return the categories that are found out, those whose odds rose most first, and no more than `most`.

    Where there is none: of each category, the person of whom the release tells most.
    """
    every, first = [], []
    for category in judged_categories(found):
        flags, order = is_found(found, category), _most_told(found, category)
        order = order[np.isfinite(found[BASELINE + category][order])]  # of a missing level nothing is told
        lines = [
            ToldCategory(
                int(found["row"][place]),
                category,
                float(found[PROBABILITY + category][place]),
                float(found[BASELINE + category][place]),
                bool(flags[place]),
            )
            for place in order[:most]
        ]
        every += [line for line in lines if line.found]
        first += lines[:1]
    return sorted(every or first, key=lambda line: -line.rise)[:most]
