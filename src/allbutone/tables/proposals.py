"""What a look at a table proposes: grids that values were recorded on, columns that others determine.

Proposals are shown to the holder alone, who confirms or strikes each from public knowledge.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from jaxtyping import Float

from allbutone.tables.column import DERIVED, Column, EventOf
from allbutone.tables.formula import Formula, Node, names_in, quoted
from allbutone.tables.heaps import Heaps

ENOUGH = 30  # values from which a habit of recording can be told
HABIT = 0.2  # of the values that are on a coarser grid, beyond chance: what is a habit
STRAY = 0.01  # of the values: so few are strays
COARSE = 0.05  # shares are told in multiples of this: they are public
MULTIPLES = (10.0, 5.0)

Values = Float[np.ndarray, " n"]


def proposed_heaps(there: Values, decimals: int | None) -> tuple[int | None, Heaps | None]:
    """Return the decimals of the finest grid on which values seem to have been recorded, and several grids if any.

    By chance a share of 10^(e−d) of values with d decimals has e; what is beyond that was rounded.
    """
    if decimals is None or len(there) < ENOUGH:
        return decimals, None
    if decimals >= 2 and _are_logarithms(there, decimals):
        return decimals, Heaps(((1.0, 1.0),), exponential=True)
    there = there[there != 0]  # nothing lies on every grid: how many have none tells of no habit
    if len(there) < ENOUGH:
        return decimals, None
    if decimals == 0:
        return decimals, _multiples(there)
    beyond = {each: _beyond_chance(there, 10.0**-each, 10.0 ** (each - decimals)) for each in range(decimals)}
    whole = [each for each, share in beyond.items() if share > 1 - STRAY]
    if whole:
        return whole[0], None
    most = max(beyond.values())
    if most < HABIT:
        return decimals, None
    best = next(each for each, share in beyond.items() if share >= most - COARSE)
    share = _coarsely(beyond[best])
    return decimals, Heaps(((10.0**-decimals, round(1 - share, 2)), (10.0**-best, share)))


def _beyond_chance(there: Values, step: float, chance: float) -> float:
    share = float(np.mean(np.abs(there - np.round(there / step) * step) <= 1e-9 * np.maximum(np.abs(there), 1.0)))
    return (share - chance) / (1 - chance)


def _coarsely(share: float) -> float:
    return float(np.clip(round(COARSE * round(share / COARSE), 2), COARSE, 1 - COARSE))


def _multiples(there: Values) -> Heaps | None:
    """Find whole numbers that are multiples of ten, or of five, all or far more often than by chance."""
    beyond = {step: _beyond_chance(there, step, 1 / step) for step in MULTIPLES if np.ptp(there) > 4 * step}
    most = max(beyond.values(), default=0.0)
    if most < HABIT or len(there) < 2 * ENOUGH:
        return None
    step = next(each for each, share in beyond.items() if share >= most - COARSE)
    if most > 1 - STRAY:
        return Heaps(((step, 1.0),))
    share = _coarsely(beyond[step])
    return Heaps(((1.0, round(1 - share, 2)), (step, share)))


def _are_logarithms(there: Values, decimals: int) -> bool:
    """Say whether all values are logarithms of whole numbers, rounded, and would hardly be so by chance."""
    if there.max() > 20 or there.min() < 0:
        return False
    whole = np.exp(there)
    reach = whole * 0.51 * 10.0**-decimals + 1e-9
    return bool(np.mean(reach) < 0.1 and np.all(np.abs(whole - np.round(whole)) <= reach))


# Times to an event, with the column that says whether it happened.


_TIME = re.compile(
    r"(.*[_\W])?(time|days?|weeks?|months?|years?|surv(ival)?|follow_?up|futime|duration|tte|os|pfs|dfs|rfs)"
    r"([_\W]*(to|until|of|in|days?|weeks?|months?|years?|event|death)?)*|survtime|ttime"
)
_STATUS = re.compile(
    r"(.*[_\W])?(status|event|dead|death|died|deceased|fustat|relapsed?|failed|failure)([_\W]*\d)?"
)
_GROUP = re.compile(r"(.*[_\W])?(arm|rx|trt|treat(ed|ment)?|group|therapy)")


def proposed_event(times: Iterable[str], levels: Mapping[str, tuple[str, ...]]) -> tuple[str, EventOf] | None:
    """Propose which column is the time to which event, where one of each is named so; and the arms, if some are.

    Of two levels that which says so in words, or is the higher number, is the event.
    """
    named = [name for name in times if _TIME.fullmatch(name.lower())]
    told = [name for name, each in levels.items() if len(each) == 2 and _STATUS.fullmatch(name.lower())]
    if len(named) != 1 or len(told) != 1:
        return None
    usual = [level for level in levels[told[0]] if level.casefold() in EventOf.USUAL]
    if all(level.isdigit() for level in levels[told[0]]):
        usual = [max(levels[told[0]], key=int)]
    arms = [name for name in levels if _GROUP.fullmatch(name.lower())]
    return (named[0], EventOf(told[0], usual[0], arms[0] if len(arms) == 1 else "")) if len(usual) == 1 else None


# Columns that lie above others in every row.


OVERLAP = 0.02  # of all pairs of values of two columns that would be the other way round, by chance
AGREE = 0.2  # the least correlation of what belongs together


def proposed_orders(columns: Mapping[str, Values], rounded: Mapping[str, Column]) -> dict[str, str]:
    """Find columns that lie above another in every row, although their values overlap.

    Where both were drawn apart, more than one row in fifty would be the other way round. Of several that a column
    lies above, the nearest; none that is rounded more finely, and none that lies above itself in the end.
    """
    found: dict[str, str] = {}
    for name, values in columns.items():
        below = [
            (float(np.nanmean(values - others)), other)
            for other, others in columns.items()
            if other != name
            and _as_fine(rounded[name], rounded[other])
            and _lies_above(values, others, ties=rounded[name].decimals is not None)
        ]
        if below:
            found[name] = min(below)[1]
    return found


def _as_fine(one: Column, other: Column) -> bool:
    alike = (one.calendar is None) == (other.calendar is None)
    if one.calendar is not None and other.calendar is not None:
        alike = one.calendar.precision == other.calendar.precision
    plain = one.heaps is None and other.heaps is None and alike
    return plain and (one.decimals is None or (other.decimals is not None and other.decimals <= one.decimals))


def _lies_above(values: Values, others: Values, *, ties: bool) -> bool:
    both = np.isfinite(values) & np.isfinite(others)
    gap = (values - others)[both]
    if len(gap) < 2 * ENOUGH or gap.min() < 0 or gap.max() == 0 or (gap.min() == 0 and not ties):
        return False
    one, other = np.sort(values[both]), others[both]
    overlap = float(np.mean(np.searchsorted(one, other, side="left"))) / len(one)
    return overlap > OVERLAP and float(np.corrcoef(values[both], other)[0, 1]) > AGREE


# Columns that others determine: ratios, sums, body mass indices, Friedewald's formula.


HOLDS = 0.97  # of the rows: the others are slips of the pen
EXPLAINED = 0.9  # of a column's variance, at least
TRIED = 100  # rows on which a formula is tried first
FEWEST_ROWS = 20
MOST_COLUMNS = 60
MOST_TERMS = 4

_PAIRS: dict[str, Callable[[Values, Values], Values]] = {
    "{a} / {b}": lambda a, b: a / b,
    "100 * {a} / {b}": lambda a, b: 100 * a / b,
    "{a} / ({b} / 100) ** 2": lambda a, b: a / (b / 100) ** 2,
    "{a} / {b} ** 2": lambda a, b: a / b**2,
    "{a} * {b}": lambda a, b: a * b,
}


@dataclass(frozen=True)
class Proposal:
    """A formula by which a column seems to be computed, and whether that holds in every row."""

    formula: str
    always: bool

    @property
    def divides_by(self) -> set[str]:
        """The columns that it divides by, which must not come near 0."""
        return _divisors(Formula.of(self.formula).root)


def _divisors(node: Node) -> set[str]:
    own = {*names_in(node.parts[1])} if node.what == "/" else set()
    return own.union(*(_divisors(part) for part in node.parts))


def proposed_formulas(columns: Mapping[str, Values], rounded: Mapping[str, Column]) -> dict[str, Proposal]:
    """Find columns that a simple formula of others gives, within rounding, in nearly all rows.

    `rounded`: what is declared or proposed of each. What has most decimals, or comes last, is looked at first:
    that is what was computed. None is computed from one that is itself computed.
    """
    found: dict[str, Proposal] = {}
    if not 2 < len(columns) <= MOST_COLUMNS:
        return found
    parts: set[str] = set()
    finest = {name: 99 if (each := rounded[name].decimals) is None else each for name in columns}
    order = {name: place for place, name in enumerate(columns)}
    for name in sorted(columns, key=lambda each: (-finest[each], -order[each])):
        others = {each: values for each, values in columns.items() if each != name and each not in found}
        is_date = rounded[name].calendar is not None  # what is computed of dates is a number of days
        if is_date or name in parts or len(np.unique(columns[name][:1000])) <= MOST_TERMS:
            continue
        for text in _candidates(columns[name], others, rounded):
            column = Column(name, DERIVED, derived=text)
            if (share := _share_held(column, columns, rounded)) >= HOLDS:
                found[name] = Proposal(text, share == 1.0)
                parts |= {*column.formula.columns}
                break
    return found


def _share_held(column: Column, columns: Mapping[str, Values], rounded: Mapping[str, Column]) -> float:
    """Return in which share of the rows a formula holds; 0 where it explains too little of the column."""
    from allbutone.tables.derived import between  # which reads tables

    values = columns[column.name]
    steps = {name: each.coarsest * (each.calendar.days if each.calendar else 1) for name, each in rounded.items()}
    low, high = between(column, columns, steps)
    there = np.isfinite(values)
    for name in column.formula.columns:
        there &= np.isfinite(columns[name])
    if there.sum() < FEWEST_ROWS or not np.isfinite(low[there]).all():
        return 0.0
    own = rounded[column.name].coarsest / 2
    off = values[there] - column.computed(columns)[there]
    if np.var(off) > (1 - EXPLAINED) * np.var(values[there]):
        return 0.0
    return float(np.mean((values[there] >= low[there] - own) & (values[there] <= high[there] + own)))


def _candidates(values: Values, others: Mapping[str, Values], rounded: Mapping[str, Column]) -> Iterator[str]:
    """Yield formulas that come near a column in a few of its rows, first those of two columns."""
    whole = np.isfinite(values)
    rows = np.flatnonzero(whole)[:TRIED]
    spread = float(np.std(values[whole])) if whole.any() else 0.0
    if not spread:
        return
    numbers = [name for name in others if rounded[name].calendar is None]  # a date has no ratio, and no logarithm
    with np.errstate(all="ignore"):
        for one, two in permutations(numbers, 2):
            for text, law in _PAIRS.items():
                off = law(others[one][rows], others[two][rows]) - values[rows]
                if np.nanmedian(np.abs(off)) < spread / 4:
                    yield text.format(a=quoted(one), b=quoted(two))
        for one in numbers:
            for name, function in (("log", np.log), ("log10", np.log10), ("log2", np.log2)):
                if np.nanmedian(np.abs(function(others[one][rows]) - values[rows])) < spread / 20:
                    yield f"{name}({quoted(one)})"
    if text := _linear(values, others, rounded):
        yield text


def _linear(values: Values, others: Mapping[str, Values], rounded: Mapping[str, Column]) -> str:
    """Return the sum of a few columns, each times a plain number, that is nearest to a column, if there is one."""
    terms = {quoted(name): each for name, each in others.items()}
    for name, each in others.items():
        heaps = rounded[name].heaps
        if heaps is not None and heaps.exponential:
            terms[f"exp({quoted(name)})"] = np.exp(each)
    table = np.column_stack([values, *terms.values()])
    table = table[np.isfinite(table).all(axis=1)]
    if len(table) < FEWEST_ROWS + 2 * len(terms):
        return ""
    centred = table - table.mean(axis=0)
    spread = centred.std(axis=0)
    kept = [place for place in range(1, table.shape[1]) if spread[place] > 0]
    scaled = centred[:, kept] / spread[kept]
    weights = np.linalg.lstsq(scaled, centred[:, 0], rcond=1e-9)[0]
    named = list(terms)
    large = [place for place, weight in enumerate(weights) if abs(weight) > 0.02 * spread[0]]
    if not 2 <= len(large) <= MOST_TERMS:
        return ""
    factors = {named[kept[place] - 1]: _plain(weights[place] / spread[kept[place]]) for place in large}
    return "" if None in factors.values() else _written({name: each or 0.0 for name, each in factors.items()})


def _plain(number: float) -> float | None:
    """Return a whole number, a half, a fifth, a quarter, a tenth that is as good as this one; None if none is."""
    for parts in (1, 2, 5, 4, 10, 100):
        near = round(number * parts) / parts
        if near and abs(near - number) <= 0.02 * abs(near):
            return near
    return None


def _written(factors: Mapping[str, float]) -> str:
    """Write a sum: positive terms first, a fifth of something as its division by 5."""
    text = ""
    for name, factor in sorted(factors.items(), key=lambda each: each[1] < 0):
        size = abs(factor)
        term = name if size == 1 else f"{name} / {1 / size:g}" if (1 / size).is_integer() else f"{size:g} * {name}"
        sign = "-" if factor < 0 else "+" if text else ""
        text += f" {sign} {term}" if text else f"{sign}{term}"
    return text
