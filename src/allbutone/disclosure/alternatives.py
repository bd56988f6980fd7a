"""What stands beside a budget: what other sizes, other tables and a stronger prior would allow."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from allbutone.disclosure.lineup import Lineup
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.simulated_budget import Allowed
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.support.parallel import in_parallel
from allbutone.tables.records import Records

SMALLER = (2, 5, 10)  # parts of the rows that smaller datasets have


@dataclass(frozen=True)
class Alternative:
    """A change, and how many datasets (or draws) it would allow in all, by the closed form until it is `tried`.

    rows: of each dataset, where that is the change; drop: the column that is left out, where that is. case: the
    table, prior and rows that the change leads to.
    """

    change: str
    datasets: int
    why: str = ""
    rows: int | None = None
    drop: str | None = None
    case: "tuple[Records, NIW, int | None] | None" = field(default=None, repr=False, compare=False)

    def tried(self, rule: Rule, seed: int, watch: Callable[[int], None]) -> "Alternative":
        """Return it with the number that the budget of the changed table would be, simulated as any budget is."""
        return (
            self if self.case is None else replace(self, datasets=Allowed.of(*self.case, rule, seed, watch).count)
        )

    @property
    def in_words(self) -> str:
        """The change, and what explains its number where that may surprise."""
        return f"{self.change} ({self.why})" if self.why else self.change


def alternatives_of(
    records: Records,
    prior: NIW,
    lineup: Lineup,
    rule: Rule,
    limiting: tuple[int, str],
    watch: Callable[[int], None],
) -> list[Alternative]:
    """Return what could be done instead, each with the number it allows, computed anew from the table."""
    place, column = limiting
    rows, people = lineup.law.rows, len(records.values)
    worst = lineup.order[:5]
    wished: list[tuple[Alternative, Records, NIW, int | None]] = []
    if rows is not None:
        sizes = sorted({*(max(1, rows // part) for part in SMALLER), 2 * rows} - {rows})
        wished += [
            (Alternative(f"datasets of {size:,} rows", 0, rows=size), records, prior, size) for size in sizes
        ]
    fewest = records.values.shape[1] + 2 if prior.is_flat else 3
    for places, words in (
        (np.array([place]), f"leave row {records.rows[place]} out"),
        (worst, "leave the five people furthest from the others out"),
    ):
        if people - len(places) >= fewest:
            kept = np.delete(np.arange(people), places)
            wished.append((Alternative(words, 0), records.take(kept), prior, rows))
    if people > fewest:
        wished.append(
            (
                Alternative(f"bring row {records.rows[place]} in to where the next one stands", 0),
                _pulled_in(records, prior, lineup, place),
                prior,
                rows,
            )
        )
    if len(records.columns) > 1:
        names = [name for name in records.columns if name != column]
        keep = [records.columns.index(name) for name in names]
        without = Alternative(f"leave the column {column} out", 0, drop=column)
        wished.append((without, records.select(names), prior.marginal(keep), rows))
    wished.append(
        (
            Alternative(f"a public prior worth {people:,} people that agrees with the table", 0),
            records,
            _stronger(records, prior),
            rows,
        )
    )
    counts = in_parallel(lambda one: Lineup.of(*one[1:], rule).most(watch=watch), wished)
    found = [replace(one[0], datasets=allowed, case=one[1:]) for one, allowed in zip(wished, counts, strict=True)]
    return [_explained(each, found) for each in found]


def _explained(one: Alternative, every: list[Alternative]) -> Alternative:
    """Say why leaving more people out may allow less."""
    if not one.change.startswith("leave the five"):
        return one
    alone = next((each for each in every if each.change.startswith("leave row")), None)
    if alone is None or one.datasets >= alone.datasets:
        return one
    why = "the others then vary less, so that those who come next stand out more"
    return replace(one, why=why)


def _pulled_in(records: Records, prior: NIW, lineup: Lineup, place: int) -> Records:
    """Return the table with a record moved towards the others, as far out as the next that stands out most."""
    following = next(int(each) for each in lineup.order if each != place)
    values = records.values.copy()
    others = prior.update(np.delete(values, place, axis=0))
    distance = _distances(others, values[[place, following]])
    values[place] = others.mean + (values[place] - others.mean) * min(1.0, float(distance[1] / distance[0]))
    return Records(values, records.columns, records.backend, records.schema, records.rows)


def _stronger(records: Records, prior: NIW) -> NIW:
    """Return a prior that says what the table says, with the weight of as many people."""
    moments = Moments.of(records.values)
    people = len(records.values)
    if prior.is_flat:
        return NIW(moments.mean, float(people), float(people + prior.p), moments.scatter)
    return prior.update(records.values)


def _distances(others: NIW, values: Float[np.ndarray, "k p"]) -> Float[np.ndarray, " k"]:
    """Return Mahalanobis distances from the others' centre, by their E[Σ⁻¹] = νΛ⁻¹."""
    white = np.linalg.solve(others.root, (values - others.mean).T)
    return np.sqrt(others.df * np.sum(white * white, axis=0))
