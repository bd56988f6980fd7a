"""The real table and a release's datasets, column beside column, as far as they can be compared."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.releases.synthetic_tables import synthetic_tables
from allbutone.support.errors import Cure, InputError
from allbutone.tables.categories import Categories
from allbutone.tables.records import Records


@dataclass(frozen=True, eq=False)
class Matched:
    """The real records and the datasets, columns in one order: measurements on the model's scale; categories."""

    records: Records
    datasets: list[Float[np.ndarray, "_ p"]]
    categories: list[Categories]

    @property
    def has_gaps(self) -> bool:
        """Whether any measurement is missing, really or in a dataset."""
        return any(np.isnan(values).any() for values in (self.records.values, *self.datasets))


def matched(table: Any, release: Any, **how_to_read: Any) -> Matched:
    """Return the real records, columns in the release's order, and the datasets; refuse what cannot be compared.

    Columns of the table that the release does not have are left out.
    """
    tables = synthetic_tables(release, on_model_scale=True)
    categories = tables.categories[0]
    if tables.mixed:  # such a release may have come from a table with gaps
        how_to_read = {"categories": True, "gaps": True} | how_to_read
    how_to_read = {"rows_are_people": True} | how_to_read
    records = Records.of(table, columns=tables.order, schema=tables.schema, **how_to_read)
    count = len(tables.columns)
    if len(records.columns) != count:
        raise InputError(
            f"the table has {len(records.columns)} columns, the release {count}",
            Cure("choose the same", "columns"),
        )
    if categories.columns and (records.columns, records.categories.columns, records.categories.levels) != (
        tables.columns,
        categories.columns,
        categories.levels,
    ):
        raise InputError(
            "the categories of the table and their levels are not those of the release",
            Cure("read the table with the release's schema", "schema"),
        )
    if len(records.values) < 2:
        raise InputError("the table holds one row", "give at least two records")
    if 1 in tables.rows:
        raise InputError(f"dataset {tables.rows.index(1) + 1} has one row, which has no spread", "leave it out")
    require_spread(records.values, records.columns, "of the table")
    for number, data in enumerate(tables.values, start=1):
        require_spread(data, records.columns, f"of dataset {number}")
    return Matched(records, list(tables.values), list(tables.categories))


def require_spread(values: Float[np.ndarray, "_ p"], columns: tuple[str, ...], where: str) -> None:
    """Refuse columns that do not vary."""
    constant = ~(np.fmax.reduce(values, axis=0) > np.fmin.reduce(values, axis=0))  # what is missing is passed over
    if np.any(constant):
        raise InputError(
            f"column {columns[int(np.argmax(constant))]!r} {where} is constant, so it has no correlations",
            "leave that column or that dataset out",
        )
