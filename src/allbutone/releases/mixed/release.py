"""A release of a mixed table: synthetic tables, draws of the model's parameters, or both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any

import numpy as np

from allbutone.model.location import MixedRecords, Parameters
from allbutone.model.niw import NIW
from allbutone.releases.mixed.mechanism import REFUSE, Mechanism
from allbutone.support.errors import InputError
from allbutone.support.notebook import table
from allbutone.support.text import counted, listed
from allbutone.tables.declared.schema import Schema
from allbutone.tables.records import Records

SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Synthetic mixed tables and the public part of the mechanism that drew them.

    datasets: tables, each from a draw of the parameters that is not released. parameters: released draws, if any.
    illustrating: tables drawn from those; given the parameters they say nothing more of the records.
    """

    mechanism: Mechanism
    datasets: tuple[Records, ...] = ()
    parameters: Parameters | None = None
    illustrating: tuple[Records, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an empty release, and tables of other columns."""
        if not self.datasets and self.parameters is None:
            raise InputError("a release holds at least one draw or dataset, got none")
        for number, each in enumerate(self.tables, 1):
            if each.order != self.mechanism.order:
                raise InputError(f"dataset {number} has columns {', '.join(each.order)}", "give the mechanism's")

    @property
    def tables(self) -> tuple[Records, ...]:
        """All synthetic tables."""
        return (*self.datasets, *self.illustrating)

    @property
    def draws(self) -> int:
        """How many draws of the parameters are released."""
        return 0 if self.parameters is None else len(self.parameters)

    @property
    def count(self) -> int:
        """How many of what is counted: datasets, and draws of the parameters."""
        return len(self.datasets) + self.draws

    @property
    def noun(self) -> str:
        """What is counted."""
        return "dataset" if self.parameters is None else "parameter draw" if not self.datasets else "release"

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each synthetic table."""
        return tuple(len(each.values) for each in self.tables)

    @property
    def schema(self) -> Schema:
        """What is declared of the columns."""
        return self.mechanism.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The measurements."""
        return self.mechanism.columns

    @property
    def order(self) -> tuple[str, ...]:
        """All columns, in the table's order."""
        return self.mechanism.order

    @property
    def prior(self) -> NIW:
        """The prior of the drawn measurements."""
        return self.mechanism.normal

    def opinions(self) -> tuple[list[MixedRecords], Parameters | None]:
        """Return all that an attack sees: the datasets as the model sees them, and the parameters."""
        return [self.mechanism.split(each) for each in self.datasets], self.parameters

    def to_frames(self, backend: Any = "pandas") -> list[Any]:
        """Return the tables as dataframes of the library named (pandas, polars, pyarrow)."""
        return [each.to_frame(backend, released=True) for each in self.tables]

    def __repr__(self) -> str:
        """Return what is counted, how large it is, and the columns."""
        sizes = sorted(set(self.rows))
        several = f"{sizes[0]:,} to {sizes[-1]:,} rows" if len(sizes) > 1 else ""
        of_rows = f" of {several or counted(sizes[0], 'row')}" if sizes else ""
        return f"Release: {counted(self.count, self.noun)}{of_rows}, columns {listed(self.order)}"

    def _repr_html_(self) -> str:
        if not self.tables:
            return f"<p>{escape(repr(self))}.</p>"
        frame = self.tables[0].to_frame("pyarrow", released=True).slice(0, SHOWN)
        lines = [["" if value is None else f"{value}" for value in row.values()] for row in frame.to_pylist()]
        return f"<p>{escape(repr(self))}. The first rows of the first dataset:</p>{table(self.order, lines)}"


def join_mixed(releases: Sequence[Release]) -> Release:
    """Return several releases of one table, made by one mechanism, as one."""
    first = releases[0]
    for number, other in enumerate(releases[1:], 2):
        if not first.mechanism.same_as(other.mechanism):
            raise InputError(
                f"release {number} of the mixed table was made in another way than the first",
                "attack one at a time",
            )
    drawn = [each.parameters for each in releases if each.parameters is not None]
    joined = joined_parameters(drawn) if drawn else None
    return Release(
        first.mechanism,
        tuple(data for each in releases for data in each.datasets),
        joined,
        tuple(data for each in releases for data in each.illustrating),
    )


def mixed_prints_of(release: Release) -> dict[str, set[bytes]]:
    """Return a digest of each draw and of each table, by which it is known again."""
    tables = [np.column_stack([each.values, each.categories.codes]) for each in release.tables]
    draws = [] if release.parameters is None else zip(*vars(release.parameters).values(), strict=True)
    return {
        "draws": {sha256(b"".join(np.asarray(part).tobytes() for part in draw)).digest() for draw in draws},
        "datasets": {sha256(np.ascontiguousarray(each).tobytes()).digest() for each in tables},
    }


def joined_parameters(parts: Sequence[Parameters]) -> Parameters:
    """Return the draws of several sets after one another."""
    names = Parameters.__dataclass_fields__
    return Parameters(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def reading_of(release: Any, how_to_read: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return how the table of a release is read: its columns, as it declares them, gaps where it took them.

    What is asked besides comes on top; a schema must be the release's own. That there is one row a
    person was seen to when the release was made.
    """
    found = {"columns": release.columns, "schema": release.schema, "rows_are_people": True}
    if isinstance(release, Release):
        gaps = release.mechanism.missing != REFUSE
        found |= {"columns": release.order, "categories": True, "gaps": gaps}
    asked = dict(how_to_read or {})
    if (schema := asked.pop("schema", None)) is not None:
        found["schema"] = release.schema.told_besides(Schema.of(schema))
    return found | asked
