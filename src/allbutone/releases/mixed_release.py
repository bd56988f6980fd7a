"""A release of a mixed table: synthetic tables, draws of the model's parameters, or both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.location import SEPARATE, LocationModel, MixedRecords, Parameters
from allbutone.model.moments import UNKNOWN, Cells
from allbutone.model.niw import NIW
from allbutone.releases.joined import JoinedRelease
from allbutone.releases.mechanism import REFUSE, Mechanism
from allbutone.releases.release import DatasetRelease, ParameterRelease
from allbutone.support.arrays import to_numpy
from allbutone.support.errors import InputError, count_of, require_memory
from allbutone.support.parallel import in_parallel, one_thread
from allbutone.support.text import counted, listed, table
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

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


# A release of measurements alone as a mixed one: a table without categories has one cell.


def as_mixed(release: DatasetRelease | ParameterRelease | JoinedRelease, prior: NIW) -> Release:
    """Return the same release as one of the model of cells, of which there is one, with the same normal prior."""
    mechanism = Mechanism(release.schema.for_columns(release.column_names), prior, 1.0, SEPARATE)
    drawn = release.first if isinstance(release, JoinedRelease) else release
    parameters = None
    if isinstance(drawn, ParameterRelease):
        means, covariances = to_numpy(drawn.means), to_numpy(drawn.covariances)
        parameters = Parameters(np.ones((len(means), 1)), means[:, None], covariances[:, None])
    # datasets that come with their parameters say nothing more of the records
    told = release.synthetic if isinstance(release, JoinedRelease) else release
    datasets = told.datasets if isinstance(told, DatasetRelease) else ()
    tables = (mechanism.table(to_numpy(each), np.zeros((len(each), 0), dtype=np.int64)) for each in datasets)
    return Release(mechanism, tuple(tables), parameters)


# Drawing synthetic mixed tables: each from its own draw of the model's parameters.


def draw_mixed(
    posteriors: Sequence[LocationModel],
    rows: Sequence[int],
    rng: np.random.Generator,
    *,
    kept: Int[np.ndarray, "n q"] | None = None,
    covariates: Float[np.ndarray, "n s"] | None = None,
) -> tuple[list[MixedRecords], Parameters]:
    """Draw one dataset for each entry of `rows`, in parallel; return also the parameters that each came from.

    `posteriors`: one for all, or, after missing values were drawn, one for each dataset. With `kept` levels
    (−1: to be drawn) and covariates a dataset has a record for each person, given what is kept of that person.
    """
    rows = [count_of("rows", count) for count in rows]
    require_memory(sum(rows) * (posteriors[0].p + 2))
    with one_thread():
        each = [posteriors[number % len(posteriors)].draw(rng, 1) for number in range(len(rows))]
    seeds = rng.integers(0, 1 << 32, size=(len(rows), 8), dtype=np.uint32)

    def draw(number: int) -> MixedRecords:
        stream = np.random.Generator(np.random.SFC64(seeds[number]))
        return _draw_records(posteriors[0], each[number], stream, rows[number], kept, covariates)

    drawn = in_parallel(draw, list(range(len(rows))))
    names = Parameters.__dataclass_fields__
    return drawn, Parameters(*(np.concatenate([getattr(one, name) for one in each]) for name in names))


def _draw_records(
    model: LocationModel,
    parameters: Parameters,
    rng: np.random.Generator,
    rows: int,
    kept: Int[np.ndarray, "n q"] | None,
    covariates: Float[np.ndarray, "n s"] | None,
) -> MixedRecords:
    shares, known = parameters.shares[0], np.zeros((rows, 0)) if covariates is None else covariates
    if kept is None:
        cells = rng.choice(len(shares), size=rows, p=shares)
    else:
        cells = _given_levels(model.cells, shares, kept, rng)
    (means,) = model.means(parameters, cells, known)
    roots, white = np.linalg.cholesky(parameters.covariances[0]), rng.standard_normal((rows, model.p))
    if len(roots) == 1:
        return MixedRecords(cells, means + white @ roots[0].T, known)
    return MixedRecords(cells, means + (roots[cells] @ white[..., None])[..., 0], known)


def _given_levels(
    cells: Cells, shares: Float[np.ndarray, " cells"], kept: Int[np.ndarray, "n q"], rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """Draw the cell of each record among those that agree with what is kept of it."""
    if not np.any(kept == UNKNOWN):
        return cells.of_codes(kept)
    found = np.empty(len(kept), dtype=np.int64)
    patterns, which = np.unique(kept, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        (rows,) = np.nonzero(which.ravel() == number)
        (possible,) = np.nonzero(cells.agree_with(pattern))
        some = shares[possible] / shares[possible].sum()
        found[rows] = rng.choice(possible, size=len(rows), p=some)
    return found
