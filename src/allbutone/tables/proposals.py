"""What a look at a table proposes: grids that values were recorded on, columns that others determine.

Proposals are shown to the holder alone, who confirms or strikes each from public knowledge.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.support.text import listed
from allbutone.tables.column import DERIVED, Column, EventOf
from allbutone.tables.formula import Formula, Node, names_in, quoted
from allbutone.tables.heaps import Heaps

ENOUGH = 30  # values from which a habit of recording can be told
HABIT = 0.2  # of the values that are on a coarser grid, beyond chance: what is a habit
STRAY = 0.01  # of the values: so few are strays
COARSE = 0.05  # shares are told in multiples of this: they are public
# grids on which people record, the coarsest first
_GRIDS = (100, 50, 25, 20, 10, 5, 2, 1, 0.5, 0.25, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)

Values = Float[np.ndarray, " n"]


def proposed_heaps(there: Values, decimals: int | None) -> tuple[int | None, Heaps | None]:
    """Return the decimals of the finest grid on which values seem to have been recorded, and grids if any.

    One in s/t multiples of s is a multiple of t by chance; what is beyond that was rounded.
    """
    if decimals is None or len(there) < ENOUGH:
        return decimals, None
    if decimals >= 2 and _are_logarithms(there, decimals):
        return decimals, Heaps(((1.0, 1.0),), exponential=True)
    there = there[there != 0]  # nothing lies on every grid: how many have none tells of no habit
    if len(there) < ENOUGH * (1 if decimals else 2):
        return decimals, None
    unit = 10.0**-decimals
    larger = [step for step in _GRIDS if step > 1.5 * unit]
    steps = [step for step in larger if step <= 1 or np.ptp(there) > 4 * step]
    # what all values are multiples of is their grid although they are few: 60, 70, 80
    all_of_them = [
        step for step in larger if (step <= 1 or np.ptp(there) >= 2 * step)
        and _beyond_chance(there, step, unit) > 1 - STRAY
    ]  # fmt: skip
    finest = all_of_them[0] if all_of_them else unit
    digits = max(0, next(each for each in range(decimals + 1) if _is_multiple(finest, 10.0**-each)))
    alone = None if finest == 10.0**-digits else Heaps(((finest, 1.0),))
    coarser = [
        step for step in steps if step > 2.5 * finest and _is_multiple(step, finest)
    ]  # even ones are no habit
    beyond = {step: _beyond_chance(there, step, finest) for step in coarser}
    beyond = {step: share for step, share in beyond.items() if share > _by_chance(finest / step, len(there))}
    most = max(beyond.values(), default=0.0)
    if most < HABIT:
        return digits, alone
    best = next(step for step, share in beyond.items() if share >= most - COARSE)
    share = _coarsely(beyond[best])
    return digits, Heaps(((finest, round(1 - share, 2)), (best, share)))


def _is_multiple(step: float, of: float) -> bool:
    return abs(step / of - round(step / of)) < 1e-9


def _by_chance(chance: float, values: int) -> float:
    """Return the share beyond chance that chance itself hardly reaches in so many values."""
    return float(4 * np.sqrt(chance / (values * (1 - chance))))


def _beyond_chance(there: Values, step: float, finest: float) -> float:
    share = float(np.mean(np.abs(there - np.round(there / step) * step) <= 1e-9 * np.maximum(np.abs(there), 1.0)))
    chance = finest / step
    return (share - chance) / (1 - chance)


def _coarsely(share: float) -> float:
    return float(np.clip(round(COARSE * round(share / COARSE), 2), COARSE, 1 - COARSE))


def _are_logarithms(there: Values, decimals: int) -> bool:
    """Say whether all values are logarithms of whole numbers, rounded, and would hardly be so by chance."""
    if there.max() > 20 or there.min() < 0:
        return False
    whole = np.exp(there)
    reach = whole * 0.51 * 10.0**-decimals + 1e-9
    return bool(np.mean(reach) < 0.1 and np.all(np.abs(whole - np.round(whole)) <= reach))


# Scores, whose ends are known, or can be told coarsely.


SHARED = 5  # people who have the highest value: then it may be the end of a score
_KNOWN_SCORES = {
    "ecog": (0, 5), "karno": (0, 100), "apgar": (0, 10), "nyha": (1, 4), "rankin": (0, 6), "mrs": (0, 6),
    "gcs": (3, 15), "glasgow": (3, 15), "mmse": (0, 30), "moca": (0, 30), "phq": (0, 27), "gad": (0, 21),
    "nihss": (0, 42), "nrs": (0, 10),
}  # fmt: skip
_ENDS = (1, 2, 3, 4, 5, 6, 7, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 100)


def known_ends(name: str, there: Values) -> tuple[float, float] | None:
    """Return between which ends a score of this name is known to lie, if these values do."""
    words = re.split(r"[\W_\d]+", name.lower())
    for known, (low, high) in _KNOWN_SCORES.items():
        if any(word == known or (len(known) > 3 and known in word) for word in words):
            return (low, high) if low <= there.min() and there.max() <= high else None
    return None


def proposed_ends(there: Values) -> tuple[float, float] | None:
    """Propose coarsely between which ends a score lies.

    The highest is a plain number, and one further where few people have it: it tells of nobody.
    """
    lowest, highest = there.min(), there.max()
    if lowest < 0:
        return None
    # who has 10 alone is not told by it: without them it would be 10, too
    shared = highest in (10, 100) or np.sum(there == highest) >= SHARED
    beyond = [end for end in _ENDS if end > highest or (end == highest and shared)]
    least = 1 if lowest >= 1 and np.sum(there == 1) >= SHARED else 0
    return (least, beyond[0]) if beyond else None


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
_HIGH_AND_LOW = (
    ("systolic", "diastolic"), ("sbp", "dbp"), ("sys", "dia"), ("max", "min"), ("highest", "lowest"),
    ("upper", "lower"),
)  # fmt: skip


def proposed_orders(columns: Mapping[str, Values], rounded: Mapping[str, Column]) -> dict[str, str]:
    """Find columns that lie above another in every row, although their values overlap.

    Where both were drawn apart, more than one row in fifty would be the other way round, or their names tell it
    (systolic and diastolic). Of several that a column lies above, the nearest; none that is rounded more finely,
    and none that lies above itself in the end.
    """
    found: dict[str, str] = {}
    for name, values in columns.items():
        below = [
            (float(np.nanmean(values - others)), other)
            for other, others in columns.items()
            if other != name
            and _as_fine(rounded[name], rounded[other])
            and _lies_above(
                values, others, ties=rounded[name].decimals is not None, named=_named_above(name, other)
            )
        ]
        if below:
            found[name] = min(below)[1]
    return found


def _as_fine(one: Column, other: Column) -> bool:
    alike = (one.calendar is None) == (other.calendar is None)
    if one.calendar is not None and other.calendar is not None:
        alike = one.calendar.precision == other.calendar.precision
    plain = not any(each.heaps is not None and each.heaps.exponential for each in (one, other))
    return (
        plain
        and alike
        and (one.decimals is None or (other.decimals is not None and other.decimals <= one.decimals))
    )


def _named_above(name: str, other: str) -> bool:
    """Say whether two names tell which of both is the higher: sbp and dbp."""
    return any(
        high in name.lower() and name.lower().replace(high, low) == other.lower() for high, low in _HIGH_AND_LOW
    )


def _lies_above(values: Values, others: Values, *, ties: bool, named: bool) -> bool:
    both = np.isfinite(values) & np.isfinite(others)
    gap = (values - others)[both]
    if len(gap) < 2 * ENOUGH or gap.min() < 0 or gap.max() == 0 or (gap.min() == 0 and not ties):
        return False
    if named:
        return True
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
    """A formula by which a column seems to be computed, and whether that holds in every row.

    on_grids: whether it holds only where values are rounded to several grids, as the column's own seem to be; else
    it is its parts that are, and to round the result again would contradict them. cut, levels: of groups, at which
    values of the formula these begin.
    """

    formula: str
    always: bool
    on_grids: bool = False
    cut: tuple[float, ...] = ()
    levels: tuple[str, ...] = ()

    @property
    def entries(self) -> dict[str, Any]:
        """What a table file says of it."""
        if not self.cut:
            return {"derived": self.formula}
        return {"cut": {"of": self.formula, "at": list(self.cut)}, "levels": list(self.levels)}

    @property
    def in_words(self) -> str:
        """The formula, or the groups, in a few words."""
        return (
            f"the group of {self.formula} from {listed([f'{at:g}' for at in self.cut])}"
            if self.cut
            else self.formula
        )

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
                plain = {**rounded, name: replace(rounded[name], heaps=None)}
                on_grids = rounded[name].heaps is not None and _share_held(column, columns, plain) < HOLDS
                found[name] = Proposal(text, share == 1.0, on_grids)
                parts |= {*column.formula.columns}
                break
    return found


FEWEST_IN_GROUP = 10
MOST_GROUPS = 8


def proposed_groups(
    categories: Mapping[str, tuple[tuple[str, ...], Int[np.ndarray, " n"]]], columns: Mapping[str, Values]
) -> dict[str, Proposal]:
    """Find categories whose levels are what lies below and above some values of a column, in nearly all rows.

    categories: the levels of each, and the number of the level that each row has.
    """
    found: dict[str, Proposal] = {}
    for name, (levels, codes) in categories.items():
        for of, values in columns.items():
            if 2 <= len(levels) <= MOST_GROUPS and (group := _cut_points(levels, codes, values, of)):
                found[name] = group
                break
    return found


def _cut_points(levels: tuple[str, ...], codes: Int[np.ndarray, " n"], values: Values, of: str) -> Proposal | None:
    """Return where groups of a column begin that are these levels; None where they are not."""
    there = (codes >= 0) & np.isfinite(values)
    codes, values = codes[there], values[there]
    people = np.bincount(codes, minlength=len(levels))
    if people.min() < FEWEST_IN_GROUP:
        return None
    order = np.argsort([np.median(values[codes == level]) for level in range(len(levels))])
    rank, cut, off = np.argsort(order)[codes], list[float](), np.zeros(len(values), dtype=bool)
    for place in range(1, len(levels)):
        end, wrong = _border(values, rank >= place)
        cut.append(end)
        off |= wrong
    if off.mean() > 1 - HOLDS or off.sum() > people.min() / 5 or np.any(np.diff(cut) <= 0):
        return None
    return Proposal(quoted(of), not off.any(), cut=tuple(cut), levels=tuple(levels[place] for place in order))


def _border(values: Values, above: Bool[np.ndarray, " n"]) -> tuple[float, Bool[np.ndarray, " n"]]:
    """Return from which plain number on most values are those above, and which are on the wrong side of it."""
    ends, place = np.unique(values, return_inverse=True)
    if len(ends) < 2:
        return float(ends[0]), ~above
    up, down = (np.bincount(place, weights=each, minlength=len(ends)) for each in (above, ~above))
    wrong = np.cumsum(up) - up + np.cumsum(down[::-1])[::-1]  # if those above begin at this value
    first = int(np.argmin(wrong[1:])) + 1
    return _plainest(float(ends[first - 1]), float(ends[first])), (values >= ends[first]) != above


def _plainest(low: float, high: float) -> float:
    """Return the plainest number above one and not above another."""
    for step in (1000.0, 500.0, 100.0, 50.0, 10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01, 0.001):
        if (found := float(np.floor(high / step) * step)) > low:
            return round(found, 6)
    return high


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
