"""Simulation designs: the cells of a study, each a way to draw tables, place a target and release something."""

import json
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.inputs import Reading
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.model.niw import NIW
from allbutone.model.prior_file import prior_from
from allbutone.studies.published import Place, Printed
from allbutone.support.arrays import array_namespace, as_array, solve_rows
from allbutone.support.text import counted

Array = Any

STRUCTURES = ("independent", "equicorrelated", "ar1", "block", "low-rank")


@dataclass(frozen=True)
class Cell:
    """One setting of a study: how tables are drawn, where the target lies, what is released.

    The n − 1 others are drawn from N(mean, covariance). The target is a fixed vector, or lies at a Mahalanobis
    distance from the others' distribution, or at a leverage in each drawn table, in a direction. The adversary
    lacks the last `lacking_columns` columns of everyone, and `lacking_records` of the others. An adversary's own
    prior is of the record alone, or what they take the release to be made with, too (`reading`: "mechanism").
    """

    release: str
    p: int
    n: int
    count: int
    rows: int | None
    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    structure: str
    correlation: float
    target: tuple[float, ...] | None
    distance: float | None
    leverage: float | None
    direction: tuple[float, ...]
    prior: dict[str, Any]
    adversary_prior: dict[str, Any] | None
    lacking_columns: int = 0
    lacking_records: int = 0
    reading: Reading = "record"

    @cached_property
    def key(self) -> str:
        """All that the cell is, in one line: its random numbers derive from it and the seed."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        # as before there was anything to lack or to read otherwise: the same cell, the same numbers
        for name, usual in (("lacking_columns", 0), ("lacking_records", 0), ("reading", "record")):
            if held[name] == usual:
                del held[name]
        return json.dumps(held, sort_keys=True)

    @property
    def known(self) -> list[int]:
        """The columns that the adversary has."""
        return list(range(self.p - self.lacking_columns))

    @property
    def lacking(self) -> str:
        """What the adversary lacks besides the target, in words; nothing where that is nothing."""
        both = ((self.lacking_columns, "column"), (self.lacking_records, "record"))
        return " and ".join(counted(count, noun) for count, noun in both if count)

    @property
    def position(self) -> str:
        """Where the target lies, in words."""
        if self.target is not None:
            return f"at ({', '.join(f'{value:g}' for value in self.target)})"
        return f"at distance {self.distance:g}" if self.distance is not None else f"at leverage {self.leverage:g}"

    @cached_property
    def law(self) -> ExposureLaw:
        """What risk depends on in this cell besides the leverage, and its closed form.

        It holds where only columns are lacking; where records are, it is that of an adversary who lacks none.
        """
        return ExposureLaw.of(self.prior_of(self.prior).marginal(self.known), self.n, self.rows)

    def prior_of(self, entries: dict[str, Any]) -> NIW:
        """Build a prior for this cell's columns."""
        return _prior(json.dumps(entries, sort_keys=True, default=str), self.p)

    @cached_property
    def fixed_target(self) -> Float[np.ndarray, " p"] | None:
        """The target record, unless it depends on the table that is drawn."""
        if self.target is not None:
            return np.array(self.target)
        if self.distance is None:
            return None
        ray = np.array(self.direction)
        length = np.sqrt(ray @ np.linalg.solve(np.array(self.covariance), ray))
        return np.array(self.mean) + self.distance / length * ray

    def targets(self, given_others: NIW) -> Float[Array, "r p"]:
        """Return the target record of each table whose model, given the others, is this."""
        xp, like = array_namespace(given_others.mean), given_others.mean
        if self.fixed_target is not None:
            return xp.broadcast_to(as_array(self.fixed_target, like=like), like.shape)
        ray = as_array(np.array(self.direction), like=like)
        white = solve_rows(given_others.root, xp.broadcast_to(ray, like.shape))
        inflation = given_others.mean_weight / (given_others.mean_weight + 1)
        scale = xp.sqrt((self.leverage or 0.0) / (inflation * xp.sum(white * white, axis=-1)))
        return given_others.mean + scale[:, None] * ray


@lru_cache
def _prior(entries: str, p: int) -> NIW:
    # the cells of a study share a few
    return prior_from(json.loads(entries), [f"x{place}" for place in range(1, p + 1)])


@dataclass(frozen=True)
class Design:
    """A study: its cells in order, the replicates of each, and what was published about them, if anything."""

    title: str
    text: str
    cells: tuple[Cell, ...]
    replicates: int
    seed: int
    solver: str
    published: dict[Place, Printed]
    published_file: Path | None

    def number(self, cell: Cell) -> int:
        """Return the cell's place in the design, from 1."""
        return self._numbers[cell.key]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {cell.key: number for number, cell in enumerate(self.cells, 1)}

    def printed(self, cell: Cell) -> Printed | None:
        """Return the numbers that were published about this cell, as they were printed."""
        return None if cell.lacking else self.published.get(place_of(cell))


def place_of(cell: Cell) -> Place:
    """Return what a published number is found by."""
    return cell.release, cell.p, cell.n, cell.count, cell.rows


def correlations(structure: str, p: int, strength: float, rank: int) -> Float[np.ndarray, "p p"]:
    """Return the correlation matrix of a structure.

    equicorrelated: ρ everywhere; ar1: ρ^|i − j|; block: ρ within the first and within the second half of the
    columns, 0 between them; low-rank: ρ·FFᵀ + (1 − ρ)·I, where the rows of F, the columns'
    loadings on `rank` factors, have length 1 and turn slowly from one column to the next.
    """
    eye, place = np.eye(p), np.arange(p)
    if structure == "equicorrelated":
        return (1 - strength) * eye + strength
    if structure == "ar1":
        return strength ** np.abs(place[:, None] - place).astype(float) if strength else eye
    if structure == "block":
        half = place < (p + 1) // 2
        return (1 - strength) * eye + strength * (half[:, None] == half)
    if structure == "low-rank":
        loadings = np.cos(np.pi * (place[:, None] + 0.5) * np.arange(rank) / p)
        loadings /= np.linalg.norm(loadings, axis=1, keepdims=True)
        shared = loadings @ loadings.T
        return strength * (shared + shared.T) / 2 + (1 - strength) * eye
    return eye
