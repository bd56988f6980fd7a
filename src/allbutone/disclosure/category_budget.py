"""How many datasets leave every category unfound: the counts of simulated releases, all people at once."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from allbutone.disclosure.rule import USUAL, Rule
from allbutone.model.cells import Cells

REPLICATES = 400
MOST = 200  # datasets


@dataclass(frozen=True, eq=False)
class CountedCells:
    """What the adversaries see of the categories: weights of the cells, and which cells are judged together.

    weights: α_c and the number of people there. people: that number. groups: cells that agree in what the
    adversary knows of a record have one number. judged: the categories that are not known.
    """

    cells: Cells
    weights: Float[np.ndarray, " cells"]
    people: Float[np.ndarray, " cells"]
    groups: Int[np.ndarray, " cells"]
    judged: tuple[int, ...]

    @classmethod
    def of(
        cls,
        cells: Cells,
        weights: Float[np.ndarray, " cells"],
        people: Float[np.ndarray, " cells"],
        known: tuple[int, ...],
    ) -> "CountedCells":
        """Group the cells by the categories that are known."""
        _, groups = np.unique(cells.codes[:, list(known)], axis=0, return_inverse=True)
        judged = tuple(place for place in range(len(cells.sizes)) if place not in known and cells.sizes[place] > 1)
        return cls(
            cells, weights, people, np.asarray(groups).ravel() if known else np.zeros(cells.count, int), judged
        )

    def level_shares(
        self, all_in: Float[np.ndarray, "r cells"], without: Float[np.ndarray, "r cells"]
    ) -> Float[np.ndarray, "r cells q"]:
        """Return, for each release and a person of each cell, the probability of the own level of each category.

        `all_in`, `without`: log odds of each cell for a person who is in another, and who is in that cell. So the
        probability of a level is the sum over its cells, own cell exchanged, over the sum of the group's. It is 0
        in a cell where nobody is.
        """
        here = self.people > 0
        highest = _over(np.maximum, all_in, self.groups)  # of each group: others may be out of its numbers' range
        highest = np.where(np.isfinite(highest), highest, 0.0)
        top = np.maximum(highest, without)
        ours, own, scale = np.exp(all_in - highest), np.exp(without - top), np.exp(highest - top)
        total = np.where(here, (_over(np.add, ours, self.groups) - ours) * scale + own, 1.0)
        found = []
        for category in self.judged:
            level = self.groups * self.cells.sizes[category] + self.cells.codes[:, category]
            found.append(((_over(np.add, ours, level) - ours) * scale + own) / total * here)
        return np.stack(found, axis=-1)


def _over(
    what: np.ufunc, values: Float[np.ndarray, "r cells"], groups: Int[np.ndarray, " cells"]
) -> Float[np.ndarray, "r cells"]:
    """Return, for each cell, the sum or the maximum over its group."""
    order = np.argsort(groups, kind="stable")
    _, first, which = np.unique(groups[order], return_index=True, return_inverse=True)
    found = what.reduceat(values[:, order], first, axis=1)
    back = np.empty_like(order)
    back[order] = which
    return found[:, back]


def category_chances(
    counted: CountedCells,
    rows: int | None,
    rng: np.random.Generator,
    rule: Rule = USUAL,
    most: int = MOST,
    replicates: int = REPLICATES,
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k cells"]]:
    """Return the chance that any category of anyone is found, after 1, 2, … datasets, and of each cell's people.

    `rows` a dataset, or None for draws of the parameters. It ends where more than half of the releases find one.
    What the measurements say of a person's cell is left out here: a few exact attacks on releases show that.
    """
    weights, full = counted.weights, counted.people > 0
    less = np.where(full, weights - 1, weights)
    baseline = counted.level_shares(np.log(weights)[None], np.log(less)[None])[0]
    all_in, without = (np.tile(np.log(each), (replicates, 1)) for each in (weights, less))
    anyone, each = [], []
    for _ in range(most):
        shares = rng.dirichlet(weights, size=replicates)
        seen = None if rows is None else rng.multinomial(rows, shares)
        for odds, base in ((all_in, weights), (without, less)):
            with np.errstate(divide="ignore"):
                odds += np.log(shares if seen is None else base + seen) - np.log(base)
        passed = np.any(rule.discloses(counted.level_shares(all_in, without), baseline), axis=-1)
        anyone.append(float(np.mean(np.any(passed, axis=1))))
        each.append(np.mean(passed, axis=0))
        if anyone[-1] > 0.5:
            break
    return np.array(anyone), np.array(each)
