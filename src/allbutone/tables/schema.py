"""The table file: what may be public about each column, declared before anything is drawn.

Kind, label, unit, scale, limits, decimals, a prior centre and spread, codes for missing values, and why a column
is left out. It holds nothing computed from the confidential table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.errors import InputError
from allbutone.support.text import listed
from allbutone.tables.column import CATEGORY, LEFT_OUT, MEASUREMENT, Column, Scale, column_from, decimals_from
from allbutone.tables.safe_io import parse, read_text

NOTABLE = 0.001  # of a column's released values: below that nobody would notice
SHOWN = 10  # columns that are named


@dataclass(frozen=True)
class Schema:
    """What is declared of a table's columns, each by name; of columns not named nothing is.

    missing: numbers that stand for no value in any column.
    """

    columns: tuple[Column, ...] = ()
    missing: tuple[float, ...] = ()

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
                columns.append(column_from(str(name), given))
            except InputError as error:
                faults.append(f"{name!r:.60}: {error}")
        if faults:
            raise InputError(_listed("entries are wrong", faults), "correct the table file", where=where)
        return cls(tuple(columns))

    def column(self, name: str) -> Column:
        """Return what is declared of this column."""
        return self._by_name.get(name) or Column(name, missing=self.missing)

    def declares(self, name: str) -> bool:
        """Say whether anything is declared of this column."""
        return name in self._by_name

    def levels_of(self, name: str) -> tuple[str, ...]:
        """Return the levels of a category, in order; none where none are declared."""
        return self.column(name).levels

    def with_levels(self, names: Sequence[str], levels: Sequence[Sequence[str]]) -> "Schema":
        """Return the schema in which these columns are categories of these levels, and all others measurements."""
        found = dict(zip(names, levels, strict=True))

        def as_it_is(column: Column) -> Column:
            if column.name in found:
                return column.as_category(found[column.name])
            return replace(column, kind=MEASUREMENT, levels=()) if column.kind == CATEGORY else column

        return replace(self, columns=tuple(map(as_it_is, self.columns)))

    @property
    def measurements(self) -> tuple[Column, ...]:
        """The columns that are not categories."""
        return tuple(column for column in self.columns if column.kind != CATEGORY)

    @property
    def categories(self) -> tuple[Column, ...]:
        """The columns that are categories."""
        return tuple(column for column in self.columns if column.kind == CATEGORY)

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

    @property
    def is_limited(self) -> bool:
        """Whether released values of any column can tell less than their draws: by rounding, or at a limit."""
        return any(column.is_limited for column in self.measurements)

    @property
    def scales_in_words(self) -> str:
        """Where scales are declared, words to go after "normal"; else nothing."""
        declared = [f"{column.name} {column.scale.name}" for column in self.columns if not column.scale.is_plain]
        return f" on the scales declared ({', '.join(declared)})" if declared else ""

    def to_model(self, values: Float[np.ndarray, "*rows p"]) -> Float[np.ndarray, "*rows p"]:
        """Bring natural values to the scale of the model; the last axis has this schema's measurements."""
        return self._each(values, lambda column, part: column.scale.to_model(part))

    def to_natural(self, values: Float[np.ndarray, "*rows p"]) -> Float[np.ndarray, "*rows p"]:
        """Bring values of the model back to natural units, neither rounded nor limited."""
        return self._each(values, lambda column, part: column.scale.to_natural(part))

    def released(self, values: Float[np.ndarray, "*rows p"]) -> Float[np.ndarray, "*rows p"]:
        """Bring what the model drew to what goes out: natural units, rounded, within the limits.

        Who attacks knows that this was done: a released value tells between which values its draw lay
        (`drawn_between`), and to take it for the draw would misjudge the risk, either way.
        """

        def finished(column: Column, part: np.ndarray) -> np.ndarray:
            natural = column.scale.to_natural(part)
            if column.decimals is not None:
                natural = np.round(natural, column.decimals) + 0.0  # no minus before a zero
            return np.clip(natural, *column.bounds)

        return self._each(values, finished)

    def drawn_between(
        self, natural: Float[np.ndarray, "n p"]
    ) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n p"]]:
        """Return between which values on the scale of the model the draws lay that went out as these values."""
        pairs = [column.drawn_between(natural[:, place]) for place, column in enumerate(self.measurements)]
        return np.stack([low for low, _ in pairs], axis=1), np.stack([high for _, high in pairs], axis=1)

    def clipped(self, natural: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " p"]:
        """Return the share of released values at a limit, of each measurement; gaps do not count."""
        found = []
        for place, column in enumerate(self.measurements):
            there = natural[~np.isnan(natural[:, place]), place]
            found.append(float(np.mean(column.at_limits(there))) if len(there) else 0.0)
        return np.array(found)

    def clipped_in_words(self, datasets: Iterable[Float[np.ndarray, "_ p"]]) -> str:
        """Say how many released values stand at a limit, column by column; nothing where hardly any does."""
        every = [np.asarray(each, dtype=np.float64) for each in datasets]
        if not every or not self.is_limited:
            return ""
        shares = self.clipped(np.concatenate(every))
        parts = [
            column.limits_in_words(share)
            for column, share in zip(self.measurements, shares, strict=True)
            if share > NOTABLE
        ]
        return f"At a declared limit stand {listed(parts, SHOWN)}" if parts else ""

    def same_mechanism(self, other: "Schema") -> bool:
        """Say whether both release the same numbers for the same draw."""
        # a release need not name its columns
        mine, theirs = ([replace(each, name="") for each in one.mechanism.columns] for one in (self, other))
        return mine == theirs

    def told_besides(self, other: "Schema") -> "Schema":
        """Return this schema with the tolerances and missing values of another, which else declares the same."""
        declared = [(column, other.column(column.name)) for column in self.columns if other.declares(column.name)]
        differ = [mine.name for mine, theirs in declared if not mine.releases_like(theirs)]
        if differ:
            raise InputError(
                f"the schema declares {', '.join(differ)} otherwise than the release does",
                "leave the schema out: the release has its own",
            )
        told = {
            mine.name: replace(mine, tolerance=theirs.tolerance or mine.tolerance, missing=theirs.missing)
            for mine, theirs in declared
        }
        return replace(self, columns=tuple(told.get(column.name, column) for column in self.columns))

    @property
    def mechanism(self) -> "Schema":
        """What is declared that changes the numbers that go out: no words, nothing about the prior."""
        return Schema(tuple(replace(column, **_WORDS) for column in self.columns))

    def entries(self) -> dict[str, Any]:
        """Return the entries of a table file that declares this schema."""
        return {"columns": {column.name: column.entries() for column in self.columns}}

    def adjusted(
        self,
        log: Iterable[str] = (),
        positive: Iterable[str] = (),
        decimals: Mapping[str, int] | None = None,
        missing: Iterable[float] = (),
    ) -> "Schema":
        """Return the schema with a log scale, a limit of 0 or decimals for some columns.

        `missing` holds for all columns.
        """
        found, codes = dict(self._by_name), tuple(float(code) for code in missing)
        for name in log:
            found[name] = replace(found.get(name, Column(name)), scale=Scale.of("log"))
        for name in positive:
            before = found.get(name, Column(name))
            found[name] = replace(before, low=max(before.low, 0.0))
        for name, digits in (decimals or {}).items():
            found[name] = replace(found.get(name, Column(name)), decimals=decimals_from(digits))
        columns = [replace(each, missing=tuple(dict.fromkeys((*each.missing, *codes)))) for each in found.values()]
        return Schema(tuple(columns), tuple(dict.fromkeys((*self.missing, *codes))))

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def _each(self, values: Any, change: Callable[[Column, np.ndarray], np.ndarray]) -> Any:
        if self.is_plain:
            return values
        parts = [change(column, values[..., place]) for place, column in enumerate(self.measurements)]
        return np.stack(parts, axis=-1)


# what is said of a column in words, or about the prior, and does not change a number that goes out
_WORDS: dict[str, Any] = {
    "label": "", "unit": "", "centre": None, "spread": None, "missing": (), "why": "",
    "tolerance": None,
}  # fmt: skip


def _listed(what: str, faults: Sequence[str]) -> str:
    """Put several faults into one message, a line each."""
    return f"{len(faults)} {what}:" + "".join(f"\n  {fault}" for fault in faults)
