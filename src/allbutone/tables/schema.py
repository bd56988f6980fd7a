"""The table file: what may be public about each column, declared before anything is drawn.

Kind, label, unit, scale, limits, decimals, a prior centre and spread, codes for missing values, and why a column
is left out. It holds nothing computed from the confidential table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import inf, isfinite
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.errors import InputError
from allbutone.tables.safe_read import parse, read_text
from allbutone.tables.scales import Scale

MEASUREMENT, LEFT_OUT = "measurement", "left out"
MOST_DECIMALS = 12


@dataclass(frozen=True)
class Column:
    """What is declared of one column, in natural units.

    kind: "measurement" or "left out", and then `why`. low, high: limits that no released value passes.
    decimals: to which released values are rounded. centre, spread: what public sources say of the middle value and
    the standard deviation. missing: numbers that stand for no value, such as -999.
    """

    name: str
    kind: str = MEASUREMENT
    label: str = ""
    unit: str = ""
    scale: Scale = field(default_factory=Scale)
    low: float = -inf
    high: float = inf
    decimals: int | None = None
    centre: float | None = None
    spread: float | None = None
    missing: tuple[float, ...] = ()
    why: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether what the model draws is released as it is."""
        return self.scale.is_plain and self.decimals is None and (self.low, self.high) == (-inf, inf)

    @property
    def on_scale(self) -> str:
        """The name with the scale that figures of the model's own numbers are on."""
        return self.name if self.scale.is_plain else f"{self.name} ({self.scale.name})"

    def allows(self, values: Float[np.ndarray, " n"]) -> np.ndarray:
        """Say which natural values are within the limits and the scale's domain."""
        low, high, closed = self.scale.domain
        inside = (values >= low) & (values <= high) if closed else (values > low) & (values < high)
        return inside & (values >= self.low) & (values <= self.high)

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value that may be released: on the grid of decimals, within all limits."""
        low, high, closed = self.scale.domain
        lowest, highest = max(low, self.low), min(high, self.high)
        open_low, open_high = not closed and lowest == low, not closed and highest == high
        if self.decimals is None:
            return (
                float(np.nextafter(lowest, inf)) if open_low else lowest,
                float(np.nextafter(highest, -inf)) if open_high else highest,
            )
        if isfinite(lowest):
            lowest = _on_grid(lowest, self.decimals, 1, open_low)
        if isfinite(highest):
            highest = _on_grid(highest, self.decimals, -1, open_high)
        return lowest, highest

    def on_model_scale(self, centre: float, spread: float) -> tuple[float, float]:
        """Bring a middle value and a standard deviation in natural units to the scale of the model.

        The middle value goes where the scale takes it; the spread becomes the mean distance to the images of one
        spread below and above, as far as these are within the scale's domain.
        """
        ends = np.array([centre - spread, centre + spread])
        ends = ends[replace(self, low=-inf, high=inf).allows(ends)]
        if not len(ends) or not self.allows(np.array([centre])).all():
            raise InputError(f"the centre of {self.name!r} lies outside its limits or its scale", "correct it")
        middle = float(self.scale.to_model(np.array([centre]))[0])
        return middle, float(np.mean(np.abs(self.scale.to_model(ends) - middle)))

    def entries(self) -> dict[str, Any]:
        """Return what a table file says of the column, without what is as usual."""
        usual, found = Column(self.name), {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name != "name" and value != getattr(usual, entry.name):
                found[entry.name] = list(value) if isinstance(value, tuple) else value
        if not self.scale.is_plain:
            found["scale"] = self.scale.name
            if self.scale.quantiles:
                found["quantiles"] = [list(pair) for pair in self.scale.quantiles]
        return found


@dataclass(frozen=True)
class Schema:
    """What is declared of a table's columns, each by name; columns not named are measurements as they are."""

    columns: tuple[Column, ...] = ()

    @classmethod
    def of(cls, source: Any) -> "Schema":
        """Return a schema from a table file (.toml or .json), its entries as a dict, a schema, or None."""
        if source is None or isinstance(source, Schema):
            return source or cls()
        if isinstance(source, str | PathLike):
            path = Path(source)
            text = read_text(path, "give the path of a table file, .toml or .json")
            language = "JSON" if path.suffix.lower() == ".json" else "TOML"
            return cls.of_entries(parse(text, language, f"the table file {path.name}"), path.name)
        if isinstance(source, Mapping):
            return cls.of_entries(source, "the schema")
        raise InputError(f"a {type(source).__name__} is no schema", "give a table file, a dict, or a Schema")

    @classmethod
    def of_entries(cls, entries: Any, where: str) -> "Schema":
        """Read the entries of a table file; all that is wrong is said at once."""
        known = entries.get("columns") if isinstance(entries, Mapping) else None
        if not isinstance(known, Mapping) or set(entries) != {"columns"}:
            raise InputError(
                "a table file holds one table [columns.NAME] for each column and nothing else",
                "draft one with describe",
                where=where,
            )
        columns, faults = [], []
        for name, given in known.items():
            try:
                columns.append(_column(str(name), given))
            except InputError as error:
                faults.append(f"{name!r:.60}: {error}")
        if faults:
            raise InputError(_listed("entries are wrong", faults), "correct the table file", where=where)
        return cls(tuple(columns))

    def column(self, name: str) -> Column:
        """Return what is declared of this column."""
        return self._by_name.get(name) or Column(name)

    def for_columns(self, names: Sequence[str]) -> "Schema":
        """Return the schema of exactly these columns in this order."""
        return Schema(tuple(self.column(name) for name in names))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns that are declared to be left out."""
        return tuple(column.name for column in self.columns if column.kind == LEFT_OUT)

    @property
    def is_plain(self) -> bool:
        """Whether all columns are released as the model draws them."""
        return all(column.is_plain for column in self.columns)

    def to_model(self, values: Float[np.ndarray, "*rows p"]) -> Float[np.ndarray, "*rows p"]:
        """Bring natural values to the scale of the model; the last axis has this schema's columns in order."""
        return self._each(values, lambda column, part: column.scale.to_model(part))

    def to_natural(self, values: Float[np.ndarray, "*rows p"]) -> Float[np.ndarray, "*rows p"]:
        """Bring values of the model back to natural units, neither rounded nor limited."""
        return self._each(values, lambda column, part: column.scale.to_natural(part))

    def released(self, values: Float[np.ndarray, "*rows p"]) -> Float[np.ndarray, "*rows p"]:
        """Bring what the model drew to what goes out: natural units, rounded, within the limits.

        All of it is done to the draw alone, so it can only lower the risk.
        """

        def finished(column: Column, part: np.ndarray) -> np.ndarray:
            natural = column.scale.to_natural(part)
            if column.decimals is not None:
                natural = np.round(natural, column.decimals) + 0.0  # no minus before a zero
            return np.clip(natural, *column.bounds)

        return self._each(values, finished)

    def same_mechanism(self, other: "Schema") -> bool:
        """Say whether both release the same numbers for the same draw."""
        return [replace(each, **_WORDS) for each in self.columns] == [
            replace(each, **_WORDS) for each in other.columns
        ]

    def entries(self) -> dict[str, Any]:
        """Return the entries of a table file that declares this schema."""
        return {"columns": {column.name: column.entries() for column in self.columns}}

    def adjusted(
        self,
        log: Iterable[str] = (),
        positive: Iterable[str] = (),
        decimals: Mapping[str, int] | None = None,
        missing: Iterable[float] = (),
        names: Iterable[str] = (),
    ) -> "Schema":
        """Return the schema with a log scale, a limit of 0, decimals, or codes of missing values for some columns.

        `missing` holds for all columns of `names`.
        """
        found, codes = dict(self._by_name), tuple(float(code) for code in missing)
        for name in log:
            found[name] = replace(found.get(name, Column(name)), scale=Scale.of("log"))
        for name in positive:
            before = found.get(name, Column(name))
            found[name] = replace(before, low=max(before.low, 0.0))
        for name, digits in (decimals or {}).items():
            found[name] = replace(found.get(name, Column(name)), decimals=_decimals(digits))
        for name in names if codes else ():
            before = found.get(name, Column(name))
            found[name] = replace(before, missing=tuple(dict.fromkeys((*before.missing, *codes))))
        return Schema(tuple(found.values()))

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def _each(self, values: Any, change: Callable[[Column, np.ndarray], np.ndarray]) -> Any:
        if self.is_plain:
            return values
        parts = [change(column, values[..., place]) for place, column in enumerate(self.columns)]
        return np.stack(parts, axis=-1)


# what is said of a column in words, or about the prior, and does not change a number that goes out
_WORDS: dict[str, Any] = {"label": "", "unit": "", "centre": None, "spread": None, "missing": (), "why": ""}
_KEYS = (*(entry.name for entry in fields(Column) if entry.name != "name"), "quantiles")


def _column(name: str, given: Any) -> Column:
    """Read the entries of one column."""
    if not isinstance(given, Mapping):
        raise InputError("its entries must form a table")
    if unknown := [key for key in given if key not in _KEYS]:
        raise InputError(f"there is no entry {unknown[0]!r:.60}", f"known are {', '.join(_KEYS)}")
    kind = given.get("kind", MEASUREMENT)
    if kind not in (MEASUREMENT, LEFT_OUT):
        raise InputError(f"there is no kind {kind!r:.60}", f'known are "{MEASUREMENT}" and "{LEFT_OUT}"')
    low, high = _number("low", given.get("low", -inf)), _number("high", given.get("high", inf))
    if not low < high:
        raise InputError(f"low must be below high, got {low:g} and {high:g}")
    centre, spread = (
        None if (value := given.get(key)) is None else _number(key, value) for key in ("centre", "spread")
    )
    if (centre is None) != (spread is None) or (spread is not None and not 0 < spread < inf):
        raise InputError("centre and spread go together, the spread above 0", "give both or none")
    words = {key: given.get(key, "") for key in ("label", "unit", "why")}
    if not all(isinstance(word, str) for word in words.values()):
        raise InputError("label, unit and why are texts")
    codes = given.get("missing", [])
    codes = codes if isinstance(codes, list | tuple) else [codes]
    found = Column(
        name=name,
        kind=kind,
        scale=Scale.of(given.get("scale", "as it is"), low=low, high=high, quantiles=given.get("quantiles")),
        low=low,
        high=high,
        decimals=_decimals(given.get("decimals")),
        centre=centre,
        spread=spread,
        missing=tuple(_number("missing", code) for code in codes),
        **words,
    )
    if found.bounds[0] >= found.bounds[1]:
        raise InputError("limits, scale and decimals leave no two values to release", "widen them")
    if centre is not None and not found.allows(np.array([centre])).all():
        raise InputError("its centre lies outside its limits or its scale")
    return found


def _on_grid(limit: float, decimals: int, inward: int, is_open: bool) -> float:
    """Return the first value with these decimals at the limit or inward of it; beyond it where it is open."""
    step = 10.0**-decimals
    place = round(limit / step)
    while True:
        found = round(place * step, max(decimals, 0))
        if inward * (found - limit) > 0 or (found == limit and not is_open):
            return found
        place += inward


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(f"{name} must be a number, got {value!r:.60}")
    return float(value)


def _decimals(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_DECIMALS:
        raise InputError(f"decimals is a whole number from {-MOST_DECIMALS} to {MOST_DECIMALS}, got {value!r:.60}")
    return value


def _listed(what: str, faults: Sequence[str]) -> str:
    """Put several faults into one message, a line each."""
    return f"{len(faults)} {what}:" + "".join(f"\n  {fault}" for fault in faults)
