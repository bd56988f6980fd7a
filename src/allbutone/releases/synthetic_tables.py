"""The synthetic tables of any release, as they are analysed: measurements and categories, side by side."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.releases.folder import any_release_of, load_release
from allbutone.releases.parts import datasets_of
from allbutone.releases.private.release import PrivateRelease
from allbutone.support.errors import Cure, InputError
from allbutone.tables.categories import Categories
from allbutone.tables.declared.schema import Schema


@dataclass(frozen=True, eq=False)
class SyntheticTables:
    """Measurements and categories of every synthetic table, with the names they share; schema: of the columns.

    order: all names in the table's own order; None where the release has no names.
    mixed: whether the release is of a kind that takes categories and gaps.
    """

    values: tuple[Float[np.ndarray, "_ p"], ...]
    categories: tuple[Categories, ...]
    columns: tuple[str, ...]
    order: tuple[str, ...] | None
    schema: Schema
    mixed: bool

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each."""
        return tuple(len(each) for each in self.values)

    def require_whole(self) -> None:
        """Refuse tables with gaps, and with fewer than two rows: they have no variances."""
        for number, (values, each) in enumerate(zip(self.values, self.categories, strict=True), start=1):
            if len(values) < 2:
                raise InputError(f"dataset {number} has one row, which has no variance", "leave it out")
            if each.has_gaps or np.isnan(values).any():
                raise InputError(
                    f"dataset {number} has gaps, and rules for them are not known",
                    Cure("synthesize tables without gaps", "missing", "impute"),
                )


def synthetic_tables(release: Any, *, on_model_scale: bool = False) -> SyntheticTables:
    """Return the tables of a release, of its folder or of several: in natural units, or as the model sees them."""
    if isinstance(release, str | Path):
        release = load_release(release)
    if isinstance(release, PrivateRelease):
        release = release.synthetic
    release = any_release_of(release) if isinstance(release, list | tuple) else release
    if hasattr(release, "tables"):  # measurements and categories
        if not release.tables:
            raise InputError(
                "parameters alone were released, and no datasets to compare or to estimate from",
                Cure("release datasets, too (sample)", "parameters", True),
            )
        values = tuple(each.values if on_model_scale else each.natural for each in release.tables)
        categories = tuple(each.categories for each in release.tables)
        return SyntheticTables(values, categories, release.columns, release.order, release.schema, mixed=True)
    release = datasets_of(release)
    arrays = release.modelled if on_model_scale else release.datasets
    values = tuple(np.asarray(each, dtype=np.float64) for each in arrays)
    none = tuple(Categories.none(len(each)) for each in values)
    return SyntheticTables(values, none, release.column_names, release.columns, release.schema, mixed=False)
