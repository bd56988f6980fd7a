"""What was looked for in any tool's rows, in words: each measure beside what there is to compare it with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from allbutone.other_tools.copies import UNLIKELY, Copied, Copies
from allbutone.other_tools.games import Game
from allbutone.other_tools.grouped import Grouping
from allbutone.support.text import chance, listed, number

NO_EVIDENCE = (
    "distances are no evidence of safety: rows can be far from everybody and give everybody away all together, "
    "and near to many only because people are alike"
)


@dataclass(frozen=True)
class Line:
    """One measure: what it found of the table's people, beside what there is to compare it with.

    share, baseline, control: as shares, for a picture; NaN where there is none. against: whether it counts in the
    verdict.
    """

    measure: str
    found: str
    compared: str
    control: str
    says: str
    share: float = np.nan
    baseline: float = np.nan
    of_control: float = np.nan
    against: bool = False

    @property
    def cells(self) -> dict[str, str]:
        """As a line of a table."""
        return {
            "measure": self.measure,
            "found": self.found,
            "to compare with": self.compared,
            "of control people": self.control or "–",
            "says": self.says,
        }


def lines_of(
    copies: Copies, groupings: Sequence[Grouping], games: Sequence[Game], probability: float = 0.5
) -> tuple[Line, ...]:
    """Return a line for each measure, of several columns that of the worst; the rule's probability."""

    def worst(some: Sequence[Copied]) -> Copied:
        return max(some, key=lambda each: (each.named.sum(), each.there.sum()))

    found = [_copied_line("rows that one person alone has", copies.rows)]
    if copies.halves:
        half = worst(copies.halves)
        found.append(_copied_line(f"halves of rows ({listed(half.columns, 3)})", half))
    if copies.values:
        telling = [each for each in copies.values if copies.tells(each, probability)]
        value = worst(telling or copies.values)
        line = _copied_line(f"single values ({value.columns[0]})", value)
        says = f"{line.says}; {copies.new_values[value.columns[0]]:,} of its values in the release are nobody's"
        found.append(replace(line, says=says, against=bool(telling)))
    found += [_ends_line(copies), _near_line(copies), *_grouping_lines(groupings)]
    found += [_game_line(game) for game in games if game.name != "inference"]
    if inference := [game for game in games if game.name == "inference"]:
        most = max(inference, key=lambda each: (-each.unlikely, each.attack.value - each.baseline))
        found.append(_game_line(most))
    return (*found, _distance_line(copies))


def _few(expected: float) -> str:
    return number(expected) if expected >= 0.01 else "0.01"


def _share(count: Any, of: int) -> float:
    return float(count) / of if of else np.nan


def _copied_line(what: str, copied: Copied) -> Line:
    there, unique, named = (int(each.sum()) for each in (copied.there, copied.unique, copied.named))
    says = "chance may give as many" if there else "none"
    if named:
        says = f"{'copied' if len(copied.columns) > 1 else 'taken from the table'}, of {how_many(named)}"
    return Line(
        f"Copies of {what}",
        f"{there:,} of {unique:,}",
        f"by chance at most {_few(copied.expected)}",
        "",
        says,
        _share(there, unique),
        min(1.0, _share(copied.expected, unique)),
        against=bool(named),
    )


def _ends_line(copies: Copies) -> Line:
    alone = [end for end in copies.ends if end.alone]
    told, named = (sum(getattr(end, name) for end in alone) for name in ("is_told", "named"))
    expected = sum(end.chance for end in alone)
    ends = [f"{'highest' if end.highest else 'lowest'} {end.column}" for end in alone if end.named]
    says = f"told: {listed(ends, 3)}" if named else "none" if not told else "chance may give as many"
    return Line(
        "Lowest and highest values that one person has, and where the release ends, too",
        f"{told} of {len(alone)}",
        f"by chance at most {_few(expected)}",
        "",
        says,
        _share(told, len(alone)),
        _share(expected, len(alone)),
        against=bool(named),
    )


def _near_line(copies: Copies) -> Line:
    near = copies.near
    there, named, of = int(near.there.sum()), int(near.named.sum()), int(np.isfinite(near.to_rows).sum())
    says = f"nearly copied, of {how_many(named)}" if named else "chance may give as many" if there else "none"
    return Line(
        "A row within a tenth of the way to the nearest other person",
        f"{there:,} of {of:,}",
        f"by chance at most {_few(near.expected)}",
        "",
        says,
        _share(there, of),
        min(1.0, _share(near.expected, of)),
        against=bool(named),
    )


def _range(values: Sequence[float]) -> str:
    low, high = chance(min(values)), chance(max(values))
    return low if low == high else f"{low} to {high}"


def _grouping_lines(groupings: Sequence[Grouping]) -> list[Line]:
    replicated = [each.replicated / each.people for each in groupings]
    bounds = [min(1.0, each.by_chance / each.people) for each in groupings]
    lines = [
        Line(
            "Replicated uniques, over groupings",
            _range(replicated),
            f"an independent sample: at most {_range(bounds)}",
            "",
            "depends on the grouping",
            max(replicated),
            max(bounds),
        )
    ]
    for name, key in (("DiSCO", "disco"), ("CAP", "cap")):
        worst = [getattr(each, f"worst_{key}") for each in groupings]
        shares, others = ([getattr(each, f"{key}{end}") for each in worst] for end in ("", "_by_others"))
        outside = [getattr(each, f"{key}_control") for each in worst]
        most = int(np.argmax(np.subtract(shares, others)))
        has_control = outside[0] is not None
        lines.append(
            Line(
                f"{name}, over groupings, the worst column of each",
                _range(shares),
                f"the others’ records: {_range(others)}",
                _range(outside) if has_control else "",
                f"most beyond the others’ records {groupings[most].in_words} ({worst[most].target})",
                shares[most],
                others[most],
                outside[most] if has_control else np.nan,
            )
        )
    return lines


def _game_line(game: Game) -> Line:
    low, high = game.attack.interval
    says = "without control people it cannot be told what comes from people’s own records"
    risk = game.risk
    if risk is not None:
        says = f"risk {chance(risk[0])} ({chance(risk[1])} to {chance(risk[2])})"
    name = f"{game.name[0].upper()}{game.name[1:]}{f' ({game.column}, the worst)' if game.column else ''}"
    return Line(
        name,
        f"{chance(game.attack.value)} ({chance(low)} to {chance(high)})",
        f"a guess without skill: {chance(game.baseline)}",
        "" if game.control is None else chance(game.control.value),
        says,
        game.attack.value,
        game.baseline,
        np.nan if game.control is None else game.control.value,
        against=game.unlikely <= UNLIKELY,
    )


def _distance_line(copies: Copies) -> Line:
    # the distance of a copy is rounding alone
    rows, people = (float(np.nanmedian(each).round(12)) for each in (copies.near.to_rows, copies.near.to_people))
    return Line(
        "Distance to the closest record, the median",
        number(rows),
        f"between people: {number(people)}",
        "",
        NO_EVIDENCE,
    )


def how_many(count: int) -> str:
    """Return one person, or 12 people."""
    return "one person" if count == 1 else f"{count:,} people"


def grouping_lines(groupings: Sequence[Grouping]) -> list[dict[str, str]]:
    """Return the measures of each grouping, as lines of a table."""
    return [
        {
            "each measurement in": each.name,
            "unique people": f"{each.unique:,}",
            "replicated": chance(each.replicated / each.people),
            "DiSCO": f"{chance(each.worst_disco.disco)} ({each.worst_disco.target})",
            "by the others": chance(each.worst_disco.disco_by_others),
            "CAP": f"{chance(each.worst_cap.cap)} ({each.worst_cap.target})",
            "by the others ": chance(each.worst_cap.cap_by_others),
        }
        for each in groupings
    ]
