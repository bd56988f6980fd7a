"""What a release's names, levels, sizes and numbers tell of the table it was made from."""

from collections.abc import Iterator, Sequence
from math import isclose
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.model.location import JEFFREYS
from allbutone.releases.description import MANIFEST, PARAMETERS
from allbutone.releases.hygiene.against_table import Table
from allbutone.releases.hygiene.findings import Flaw
from allbutone.tables.declared.column import CATEGORY, Column

MANY_DIGITS = 6  # a number with so many that equals a statistic of the table was not public knowledge
LIMIT_DIGITS = 4  # a limit with so many that equals the table's extreme value is a person's value
OLD_SHARE = 0.05  # of the records, which all cells were worth by default up to version 0.2.0
_PUBLIC = "take it from public knowledge, and draw the release again"


def names_of_table(
    folder: str, content: dict[str, Any], columns: Sequence[Column], table: Table
) -> Iterator[Flaw]:
    """Find values of the table as names: of the folder, of columns, in labels."""
    labels = [text for each in columns for text in (each.label, each.unit, each.why) if text]
    named = {"the folder's name": [folder], "the column name": content.get("columns", []), "the text": labels}
    for what, names in named.items():
        for name in names:
            if name.strip().casefold() in table.texts:
                cure = "give it another name" if folder == name else "rename it, and draw the release again"
                yield Flaw(MANIFEST, f"{what} {name!r} is a value in the table", cure)


def lonely_levels(table: Table) -> Iterator[Flaw]:
    """Find levels that only one person has: the list of levels tells that this person is in the table."""
    for column, codes in zip(table.values.columns, table.values.numbers.T, strict=True):
        if column.kind != CATEGORY or column.name in table.public:
            continue
        counts = np.bincount(codes[codes >= 0].astype(int), minlength=len(column.levels))
        if alone := [level for level, count in zip(column.levels, counts, strict=True) if count == 1]:
            told = ", ".join(repr(level) for level in alone[:5])
            cure = "declare the levels from public knowledge in the table file (and name it here), or merge them"
            yield Flaw(MANIFEST, f"only one person has the level {told} of {column.name!r}", cure)


def people_told(content: dict[str, Any], table: Table) -> list[str]:
    """Return the ways in which a release tells how many people the table has."""
    ways = []
    told = set(content.get("rows", []))
    if len(table.values) in told:
        ways.append("its datasets have as many rows as the table")
    elif table.people & told:
        ways.append("its datasets have as many rows as the table has without gaps")
    if content.get("guarantee", {}).get("people") in table.people:
        ways.append("its guarantee names the number")
    cells = int(np.prod([len(each.levels) for each in table.values.columns if each.kind == CATEGORY]))
    weight = content.get("cell_weight", JEFFREYS)
    if weight < JEFFREYS and any(isclose(weight, OLD_SHARE * people / cells) for people in table.people):
        ways.append("its cell_weight follows from the number")
    return ways


def statistics_of_table(
    content: dict[str, Any], parameters: dict[str, Any], table: Table, model: Float[np.ndarray, "n p"]
) -> Iterator[Flaw]:
    """Find numbers of the release that are the table's means, spreads, covariances or extremes.

    model: the values of the drawn measurements on the scale of the model.
    """
    whole = model[np.isfinite(model).all(axis=1)]
    means, covariance = whole.mean(axis=0), np.atleast_2d(np.cov(whole.T))
    prior, n = content["prior"], len(whole)
    df = float(prior["df"]) - len(means) - 1
    multiples = [
        covariance,
        covariance * (n - 1),
        covariance * (n - 1) / n,
        *([covariance * df] if df > 0 else []),
    ]
    if _equal(prior["mean"], [means, np.median(whole, axis=0)]):
        yield Flaw(MANIFEST, "the prior's mean is the table's", _PUBLIC)
    if prior["mean_weight"] and _equal(prior["scale"], multiples):
        yield Flaw(MANIFEST, "the prior's scale is the table's covariance", _PUBLIC)
    for draw in parameters.get("draws", []):
        if _equal(draw["mean"], [means]) or _equal(draw["covariance"], multiples):
            problem = "a draw of the parameters is the table's own mean or covariance, not drawn"
            yield Flaw(PARAMETERS, problem, "draw the release again with allbutone")
    for column, values in zip(table.values.columns, table.values.numbers.T, strict=True):
        if column.kind != CATEGORY:
            yield from _of_declared(column, values[~np.isnan(values)])


def _of_declared(column: Column, values: Any) -> Iterator[Flaw]:
    """Find declared limits that are someone's value, and a declared centre or spread that is the table's."""
    for name, extreme in (("low", values.min()), ("high", values.max())):
        if getattr(column, name) == extreme and digits_of(extreme) >= LIMIT_DIGITS:
            problem = f"the limit {name} = {extreme:g} of {column.name!r} is the value of a person in the table"
            yield Flaw(MANIFEST, problem, "declare a limit from public knowledge, and draw the release again")
    told = {"centre": [values.mean(), np.median(values)], "spread": [values.std(), values.std(ddof=1)]}
    for name, statistics in told.items():
        if getattr(column, name) is not None and _equal(getattr(column, name), statistics):
            yield Flaw(MANIFEST, f"the {name} declared of {column.name!r} is the table's", _PUBLIC)
    for share, value in column.scale.quantiles:
        if _equal(value, [np.quantile(values, share)]):
            problem = f"the quantiles declared of {column.name!r} are the table's"
            yield Flaw(MANIFEST, problem, _PUBLIC)
            return


def _equal(given: Any, statistics: Sequence[Any]) -> bool:
    """Say whether any of these numbers, if it has many digits, is the statistic at its place."""
    numbers = np.asarray(given, dtype=float).ravel().tolist()
    for each in statistics:
        for number, real in zip(numbers, np.asarray(each, dtype=float).ravel().tolist(), strict=True):
            digits = digits_of(number)
            if digits >= MANY_DIGITS and isclose(number, real, rel_tol=0.5 * 10.0 ** (1 - min(digits, 10))):
                return True
    return False


def digits_of(number: float) -> int:
    """Return how many significant digits a number has, written as short as it can be."""
    return len(f"{float(number)!r}".split("e")[0].replace(".", "").replace("-", "").strip("0"))
