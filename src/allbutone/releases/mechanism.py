"""How tables are drawn: which columns, by which model and prior. All of it is public."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.model.classes import (
    ALL_CLASSES,
    ALL_LEVELS,
    MEAN_WEIGHT,
    MOST_CLASSES,
    ClassModel,
    known_as_rounded,
)
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import MAIN_EFFECTS, SEPARATE, LocationModel, MixedRecords
from allbutone.model.moments import UNKNOWN
from allbutone.model.niw import NIW
from allbutone.model.prior import prior_entries, prior_from
from allbutone.support.arrays import to_numpy
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.tables.categories import Categories, require_few_cells
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema
from allbutone.tables.visits import KEYS as VISITS

REFUSE, IMPUTE, KEEP_GAPS = "refuse", "impute", "keep"
NORMAL, GENERAL_LOCATION, CLASSES = "normal", "general location", "classes"
LEAST_WEIGHT = 1e-6  # of a cell: beside a record, less would lose its digits
CLASS_PRIOR = {"class_weight": ALL_CLASSES, "mean_weight": MEAN_WEIGHT, "level_weight": ALL_LEVELS}


@dataclass(frozen=True, eq=False)
class Mechanism:
    """What is declared of all columns, in the table's order, and the model that draws those that are not kept.

    normal: the prior of the drawn measurements in every cell; None where it is not known. cells: whether cells
    share one spread, each level moving the mean ("main effects"), or have a normal of their own ("separate").
    cell_weight: how many records the prior is worth in each cell. keep: columns that go out as they are; the
    others are drawn given them. missing: what is done with gaps. A table of measurements alone has one cell
    (`Mechanism.of_measurements`). classes: at most how many, where columns are drawn through classes that nobody
    has observed; these have a prior of their own, so that `normal` is None, and no cells.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> release.mechanism.normal.p, release.mechanism.missing
    (5, 'refuse')
    """

    schema: Schema
    normal: NIW | None
    cell_weight: float = 1.0
    cells: str = MAIN_EFFECTS
    keep: tuple[str, ...] = ()
    missing: str = REFUSE
    classes: int = 0

    def __post_init__(self) -> None:
        """Refuse what the model cannot do, all columns taken together."""
        if self.cells not in (MAIN_EFFECTS, SEPARATE):
            raise InputError(f"cells are {MAIN_EFFECTS!r} or {SEPARATE!r}, got {self.cells!r}")
        if self.missing not in (REFUSE, IMPUTE, KEEP_GAPS):
            raise InputError(f"missing is {REFUSE!r}, {IMPUTE!r} or {KEEP_GAPS!r}, got {self.missing!r}")
        if not LEAST_WEIGHT <= self.cell_weight < np.inf:
            raise InputError(f"cell_weight must exceed 0, {LEAST_WEIGHT} at least, got {self.cell_weight}")
        if self.classes:
            self._require_classes_alone()
            return
        self._require_drawable()
        if self.normal is not None and self.normal.p != len(self.measurements):
            raise InputError(
                f"{len(self.measurements)} measurements are drawn and the prior is for {self.normal.p}"
            )
        require_few_cells(dict(zip(self.categories, self.sizes, strict=True)))

    @classmethod
    def of_measurements(cls, columns: Schema | Sequence[str], normal: NIW | None) -> "Mechanism":
        """Return the mechanism of a table of measurements alone, by name or declared: its one cell is a normal."""
        schema = columns if isinstance(columns, Schema) else Schema().for_columns(columns)
        return cls(schema, normal, cells=SEPARATE)

    @cached_property
    def is_normal(self) -> bool:
        """Whether its tables are complete measurements of which none is kept: one cell, which has closed forms."""
        return not self.categories and not self.keep and self.missing == REFUSE and not self.classes

    @property
    def has_classes(self) -> bool:
        """Whether columns are drawn through classes that nobody has observed."""
        return self.classes > 0

    @property
    def says_its_prior(self) -> bool:
        """Whether it is known by which prior tables are drawn."""
        return self.normal is not None or self.has_classes

    @property
    def model(self) -> str:
        """The model's name."""
        if self.has_classes:
            return CLASSES
        return NORMAL if self.is_normal else GENERAL_LOCATION

    def _require_classes_alone(self) -> None:
        """Refuse what classes do not do: a prior from outside, and nothing to draw."""
        _ = self.class_model
        self._require_kept_columns()
        if self.normal is not None:
            raise InputError(
                "classes have a prior of their own, which has no units and says nothing of the data",
                Cure("leave the prior out", "prior"),
            )
        if not set(self.order) - {*self.keep}:
            raise InputError("all columns are kept, and none is left to be drawn", Cure("keep fewer", "keep"))

    def _require_kept_columns(self) -> None:
        if unknown := [name for name in self.keep if name not in self.order]:
            raise InputError(
                f"there is no column {unknown[0]!r} to keep", f"the columns are {', '.join(self.order)}"
            )

    def _require_drawable(self) -> None:
        self._require_kept_columns()
        drawn = [name for name in self.categories if name not in self.keep]
        if self.covariates and drawn:
            raise InputError(
                f"categories cannot be drawn given a measurement that is kept: {', '.join(drawn)} given "
                f"{', '.join(self.covariates)}",
                Cure("keep these, too", "keep", [*self.keep, *drawn]),
                Cure("do not keep the measurement", "keep", [n for n in self.keep if n not in self.covariates]),
            )
        if self.covariates and self.cells == SEPARATE:
            raise InputError("separate cells have no covariates", Cure("use main effects", "cells", MAIN_EFFECTS))

    @property
    def order(self) -> tuple[str, ...]:
        """All columns, in the table's order."""
        return tuple(column.name for column in self.schema.columns)

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The columns of categories."""
        return tuple(column.name for column in self.schema.categories)

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The levels of each category."""
        return tuple(column.levels for column in self.schema.categories)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many levels each category has."""
        return tuple(len(each) for each in self.levels)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All measurements, drawn or kept."""
        return tuple(column.name for column in self.schema.measurements)

    @property
    def measurements(self) -> tuple[str, ...]:
        """The measurements that are drawn."""
        return tuple(name for name in self.columns if name not in self.keep)

    @property
    def modelled(self) -> tuple[str, ...]:
        """The measurements that the model is of: those drawn and, with classes, kept ones, which tell these."""
        return self.columns if self.has_classes else self.measurements

    @property
    def covariates(self) -> tuple[str, ...]:
        """The measurements that are kept and that the model takes as given, the others depending on them."""
        return tuple(name for name in self.columns if name not in self.modelled)

    @property
    def kept_categories(self) -> tuple[int, ...]:
        """The positions, among the categories, of those that are kept."""
        return tuple(place for place, name in enumerate(self.categories) if name in self.keep)

    @property
    def writes_arrow(self) -> bool:
        """Whether files hold more than an array of measurements has: levels, dates, a row a visit, say."""
        return bool(self.categories or not self.schema.as_drawn or self.schema.visits is not None)

    @cached_property
    def class_model(self) -> ClassModel:
        """The model before any record, where there are classes."""
        return ClassModel(len(self.modelled), self.sizes, self.classes)

    @cached_property
    def prior(self) -> LocationModel:
        """The model before any record."""
        return LocationModel.prior(
            self.sizes,
            self.require_prior(),
            weight=self.cell_weight,
            covariates=len(self.covariates),
            separate=self.cells == SEPARATE,
        )

    def require_prior(self) -> NIW:
        """Return the prior of the measurements, or say that it is not known."""
        if self.has_classes:
            raise InputError("this takes a model without classes", Cure("use another model", "model"))
        if self.normal is None:
            raise InputError(
                "the release does not say with which prior it was made", Cure("give the prior", "prior")
            )
        return self.normal

    def split(self, records: Records) -> MixedRecords:
        """Return complete records as the model sees them: cell, measurements and covariates."""
        drawn, kept = (
            [records.columns.index(name) for name in each] for each in (self.measurements, self.covariates)
        )
        codes = records.categories.select(self.categories).codes
        return MixedRecords(self.prior.cells.of_codes(codes), records.values[:, drawn], records.values[:, kept])

    def incomplete(self, records: Records) -> IncompleteRecords:
        """Return records with gaps as the model sees them; what is kept must be complete."""
        modelled, given = (
            [records.columns.index(name) for name in each] for each in (self.modelled, self.covariates)
        )
        codes = records.categories.select(self.categories).codes
        gaps = dict(zip(self.categories, (codes == UNKNOWN).any(axis=0), strict=True))
        gaps |= dict(zip(records.columns, np.isnan(records.values).any(axis=0), strict=True))
        if open_columns := [name for name in self.keep if gaps[name]]:
            raise InputError(
                f"columns that are kept must be complete: {', '.join(open_columns)} lack values",
                Cure("do not keep them", "keep", [name for name in self.keep if name not in open_columns]),
            )
        return IncompleteRecords.of(codes, records.values[:, modelled], records.values[:, given])

    def seen_by_classes(self, exact: IncompleteRecords) -> IncompleteRecords:
        """Return a table as classes see it: in columns where many share a value, rounded as it was declared."""
        if not self.columns:
            return exact
        kept = [name in self.keep for name in self.columns]
        bounds = self.schema.drawn_between(self.schema.to_natural(exact.values))
        low, high = (np.where(kept, exact.values, each) for each in bounds)
        return known_as_rounded(replace(exact, low=low, high=high), self.class_model)

    def kept_alone(self, table: IncompleteRecords) -> IncompleteRecords | None:
        """Return what is kept of records, all else missing, as the model sees them; None where nothing is kept."""
        if not self.keep:
            return None
        drawn = [name not in self.keep for name in self.modelled]
        open_levels = [name not in self.keep for name in self.categories]
        codes = np.where(open_levels, UNKNOWN, table.codes)
        return IncompleteRecords.of(codes, np.where(drawn, np.nan, table.values), table.covariates)

    def as_drawn(self, records: Records) -> IncompleteRecords:
        """Return a synthetic table as who attacks sees it: drawn measurements between the bounds they tell."""
        exact = self.incomplete(records)
        if not self.columns:
            return exact
        places = [records.columns.index(name) for name in self.modelled]
        kept = [name in self.keep for name in self.modelled]
        bounds = (each[:, places] for each in self.schema.drawn_between(records.natural))
        low, high = (np.where(kept, exact.values, each) for each in bounds)
        return IncompleteRecords.of(exact.codes, exact.values, exact.covariates, low, high)

    def kept_levels(self, records: Records) -> Int[np.ndarray, "n q"] | None:
        """Return the levels that are kept of each record, −1 for those to be drawn; None where nothing is kept."""
        if not self.keep:
            return None
        codes = np.full((len(records.values), len(self.categories)), UNKNOWN, dtype=np.int64)
        for place in self.kept_categories:
            codes[:, place] = records.categories.codes[:, records.categories.columns.index(self.categories[place])]
        return codes

    def released(self, drawn: MixedRecords, gaps: Bool[np.ndarray, "n d"] | None = None) -> Records:
        """Return what the model drew as it goes out: in natural units, rounded, within limits, with these gaps.

        `gaps`: which values are taken away, of the modelled measurements, then of the categories.
        """
        values = np.empty((len(drawn), len(self.columns)))
        for names, part in ((self.measurements, drawn.values), (self.covariates, drawn.covariates)):
            values[:, [self.columns.index(name) for name in names]] = part
        return self.with_gaps(values, self.prior.cells.codes[drawn.cells], gaps)

    def with_gaps(
        self, values: Float[np.ndarray, "n p"], codes: Int[np.ndarray, "n q"], gaps: Bool[np.ndarray, "n d"] | None
    ) -> Records:
        """Return all measurements, on the model's scale, and levels as they go out, with these gaps."""
        if gaps is not None:
            places = [self.columns.index(name) for name in self.modelled]
            values[:, places] = np.where(gaps[:, : len(places)], np.nan, values[:, places])
            codes = np.where(gaps[:, len(places) :], UNKNOWN, codes)
        return self.table(self.schema.released(values), codes, gaps is not None)

    def table(
        self,
        natural: Float[np.ndarray, "n p"],
        codes: Int[np.ndarray, "n q"] | None = None,
        gaps: bool = False,
    ) -> Records:
        """Return a synthetic table from natural values and level numbers."""
        if codes is None:
            codes = np.zeros((len(natural), 0), dtype=np.int64)
        table = Records(
            self.schema.to_model(natural),
            self.columns,
            schema=self.schema,
            categories=Categories(codes, self.categories, self.levels),
            order=self.order,
            gaps=gaps,
        )
        vars(table)["natural"] = natural  # to the last digit as it goes out
        return table

    def entries(self, *, general: bool = False) -> dict[str, Any]:
        """Return all of it as entries of release.json; of measurements alone what they need, unless `general`."""
        if self.has_classes:
            return {
                "model": CLASSES,
                "classes": self.classes,
                "keep": list(self.keep),
                "missing": self.missing,
                "columns": list(self.order),
                "prior": CLASS_PRIOR | {"df": self.class_model.df},
                "declared": self.declared,
                **self.layout,
            }
        assert self.normal is not None
        public = {"columns": list(self.order), "prior": prior_entries(self.normal)}
        declared = self.declared
        if self.is_normal and not general:
            return public | ({"declared": declared} if any(declared.values()) else {}) | self.layout
        return {
            "model": GENERAL_LOCATION,
            "cells": self.cells,
            "cell_weight": self.cell_weight,
            "keep": list(self.keep),
            "missing": self.missing,
            **public,
            "declared": declared,
            **self.layout,
        }

    @property
    def declared(self) -> dict[str, Any]:
        """What is declared of each column, but for what tells of rows that contradict a formula."""
        every = self.schema.entries()["columns"]
        return {name: {key: each[key] for key in each if key != "replaces"} for name, each in every.items()}

    @property
    def layout(self) -> dict[str, Any]:
        """All columns in the order in which they go out, where some are computed from others, and the visits."""
        visits = self.schema.visits.entries() if self.schema.visits is not None else {}
        return ({"layout": list(self.schema.released_order)} if self.schema.derived else {}) | visits

    @classmethod
    def of_entries(cls, entries: Mapping[str, Any], where: str) -> "Mechanism":
        """Read what `entries` wrote."""
        order = _names(entries["columns"])
        declared = declared_in(entries, where)
        # the table was checked against its formulas when the model was fitted
        derived = tuple(replace(column, replaces=True) for column in declared.derived)
        schema = replace(declared, derived=derived, layout=_names(entries.get("layout", ()))).for_columns(order)
        if "model" not in entries:
            return cls.of_measurements(schema, prior_from(entries["prior"], order))
        if entries["model"] == CLASSES:
            classes = count_of("classes", entries["classes"], MOST_CLASSES)
            keep = _names(entries.get("keep", ()))
            mechanism = cls(schema, None, keep=keep, missing=entries["missing"], classes=classes)
            if entries["prior"] != mechanism.entries()["prior"]:
                raise ValueError("a prior of classes that this version does not know")
            return mechanism
        keep = _names(entries["keep"])
        drawn = [column.name for column in schema.measurements if column.name not in keep]
        normal = prior_from(entries["prior"], drawn)
        return cls(schema, normal, float(entries["cell_weight"]), entries["cells"], keep, entries["missing"])

    def same_as(self, other: "Mechanism") -> bool:
        """Say whether both draw the same from the same table."""
        if self.order != other.order or not self.schema.same_mechanism(other.schema):
            return False
        # of one cell it does not matter how cells would share their spread
        alike = [
            (each.keep, each.missing, each.classes, (each.cells, each.cell_weight) if each.categories else ())
            for each in (self, other)
        ]
        return alike[0] == alike[1] and _same_prior(self.normal, other.normal)


def declared_in(entries: Mapping[str, Any], where: str) -> Schema:
    """Return what the entries of a release.json declare of its columns and visits."""
    visits = {key: entries[key] for key in VISITS if key in entries}
    return Schema.of_entries({"columns": entries.get("declared", {}), **visits}, where)


class MadeByMechanism:
    """What a release, or several of one table, tell by the mechanism that made them."""

    mechanism: Mechanism

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
    def released_order(self) -> tuple[str, ...]:
        """All columns in the order in which they go out: those of the model, and those computed from them."""
        return self.mechanism.schema.released_order

    @property
    def p(self) -> int:
        """The number of measurements."""
        return len(self.columns)

    @property
    def prior(self) -> NIW | None:
        """The prior of the drawn measurements, where it is known."""
        return self.mechanism.normal


def _same_prior(one: NIW | None, other: NIW | None) -> bool:
    if one is None or other is None:
        return one is other
    fields = ("mean", "mean_weight", "df", "scale")
    pairs = ((to_numpy(getattr(each, name)) for each in (one, other)) for name in fields)
    return all(np.allclose(ours, theirs, rtol=1e-12, atol=0) for ours, theirs in pairs)


def require_measurements(drawn: Sequence[str]) -> None:
    """Refuse tables of categories alone, and such of which all measurements are kept."""
    if not drawn:
        raise InputError(
            "no measurement is left to be drawn, and categories alone are not drawn within cells",
            Cure("draw them through classes", "model", CLASSES),
            Cure("keep fewer columns", "keep"),
            "add a measurement",
        )


def require_nothing_kept(mechanism: Mechanism) -> None:
    """Refuse, for a table that stays in its engine, what takes the records themselves."""
    if mechanism.keep or mechanism.missing != REFUSE:
        raise InputError(
            "columns to keep and gaps take the records themselves, and this table stays in its engine",
            "read it as a file",
        )


def _names(given: Any) -> tuple[str, ...]:
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise TypeError("names must be text")
    return tuple(given)
