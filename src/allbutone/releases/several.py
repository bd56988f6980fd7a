"""Several releases of one table, taken together: an adversary who has them all learns from all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from allbutone.model.location import Parameters
from allbutone.releases.mechanism import MadeByMechanism, Mechanism
from allbutone.releases.release import Release
from allbutone.releases.statistics import NormalDraws, Statistics
from allbutone.support.errors import Cure, InputError, describe_value
from allbutone.tables.records import Records

Prints = dict[str, set[bytes]]  # of draws and of datasets


@dataclass(frozen=True, eq=False)
class Part:
    """A release, and the places, among all records, of those that it was made from; None: all of them."""

    release: Release
    people: slice | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Releases(MadeByMechanism):
    """Releases of one table by different mechanisms, or from fewer of its records: a part for each.

    An adversary without a prior of their own is taken to have the first part's, which is of all records.
    """

    parts: tuple[Part, ...]

    @property
    def mechanism(self) -> Mechanism:  # type: ignore[override]
        """How the first part was made."""
        return self.parts[0].release.mechanism

    @property
    def datasets(self) -> tuple[Records, ...]:
        """All tables that were released without their parameters."""
        return tuple(data for part in self.parts for data in part.release.datasets)

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each synthetic table."""
        return tuple(rows for part in self.parts for rows in part.release.rows)

    @property
    def count(self) -> int:
        """How many datasets and draws of parameters."""
        return sum(part.release.count for part in self.parts)

    def __repr__(self) -> str:
        """Return what all parts are."""
        return "; ".join(repr(part.release) for part in self.parts)


Released = Release | Releases  # of one table, at once or in several releases
AReleased = TypeVar("AReleased", bound=Released)  # of the same kind as what it was made from


def parts_of(release: Released) -> tuple[Part, ...]:
    """Return the parts of several releases; one release is one part."""
    return release.parts if isinstance(release, Releases) else (Part(release),)


def together(releases: Iterable[Any]) -> Released:
    """Return several releases of one table as one: those made by one mechanism join into one release.

    They must have been drawn independently, of the same columns on the same scales; priors may differ.
    """
    every = [part for each in releases for part in parts_of(_checked(each))]
    if not every:
        raise InputError("there is no release in the list", "give one or several")
    for number, part in enumerate(every[1:], start=2):
        _require_same_columns(every[0].release, part.release, f"release {number} of those given together")
    _require_drawn_apart([part.release for part in every])
    parts = tuple(Part(_joined([part.release for part in group]), group[0].people) for group in _grouped(every))
    if len(parts) == 1:
        return parts[0].release
    if len({frozenset(part.release.mechanism.keep) for part in every}) > 1:
        raise InputError(
            "the releases keep different columns as they are: what one of them keeps is known, and there is "
            "nothing to infer of it from another",
            "attack one at a time",
        )
    return Releases(parts)


def _checked(release: Any) -> Released:
    if not isinstance(release, Released):
        raise InputError(f"in the list is {describe_value(release)}", "give releases, or their folders")
    return release


def _require_same_columns(first: Release, other: Release, what: str) -> None:
    if first.order != other.order:
        mine, theirs = (", ".join(each.order) for each in (first, other))
        raise InputError(
            f"{what} is of the columns {theirs}, the first of {mine}", "give releases of the same columns in order"
        )
    if not first.schema.same_mechanism(other.schema):
        raise InputError(f"{what} has other scales, limits or decimals than the first", "attack one at a time")
    if first.mechanism.says_its_prior != other.mechanism.says_its_prior:
        raise InputError("some of the releases say which prior they were made with, some do not", "let all say it")


def _require_drawn_apart(releases: Sequence[Release]) -> None:
    """Refuse the same draws given twice, which would count twice: all of one release are in another, too."""
    prints = [prints_of(each) for each in releases]
    for one, two in combinations(range(len(releases)), 2):
        if what := drawn_twice(prints[one], prints[two]):
            raise InputError(
                f"releases {one + 1} and {two + 1} of those given together hold the same {what}",
                "give each only once",
            )


def drawn_twice(ours: Prints, theirs: Prints) -> str:
    """Name what of one release is in the other as well, draws or datasets, if all of it is."""
    same = [what for what in ours if ours[what] and theirs[what]]
    return next((what for what in same if ours[what] <= theirs[what] or theirs[what] <= ours[what]), "")


def prints_of(release: Released) -> Prints:
    """Return a digest of each draw and of each table, by which it is known again."""
    prints: Prints = {"draws": set(), "datasets": set()}
    for part in parts_of(release):
        drawn = part.release.parameters
        draws = [] if drawn is None else zip(*vars(drawn).values(), strict=True)
        prints["draws"] |= {
            sha256(b"".join(np.asarray(each).tobytes() for each in draw)).digest() for draw in draws
        }
        tables = (np.column_stack([each.values, each.categories.codes]) for each in part.release.tables)
        prints["datasets"] |= {sha256(np.ascontiguousarray(each).tobytes()).digest() for each in tables}
    return prints


def _grouped(every: Sequence[Part]) -> list[list[Part]]:
    """Put parts together that were made by one mechanism from the same people."""
    groups: list[list[Part]] = []
    for part in every:
        for group in groups:
            same_people = group[0].people == part.people
            if same_people and group[0].release.mechanism.same_as(part.release.mechanism):
                group.append(part)
                break
        else:
            groups.append([part])
    return groups


def _joined(every: Sequence[Release]) -> Release:
    """Return releases by one mechanism as one."""
    if len(every) == 1:
        return every[0]
    drawn = [each.parameters for each in every if each.parameters is not None]
    # tables drawn from parameters say nothing more; they are kept where every draw has its own
    complete = all(len(each.illustrating) == each.draws for each in every)
    release = replace(
        every[0],
        datasets=tuple(data for each in every for data in each.datasets),
        parameters=joined_parameters(drawn) if drawn else None,
        illustrating=tuple(data for each in every for data in each.illustrating) if complete else (),
        as_drawn=all(each.as_drawn for each in every),
    )
    if release.mechanism.is_normal:
        vars(release)["normal"] = NormalDraws.of_all([each.normal for each in every])  # of any array library
    return release


def joined_parameters(parts: Sequence[Parameters]) -> Parameters:
    """Return the draws of several sets after one another."""
    names = Parameters.__dataclass_fields__
    return Parameters(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def known_columns(names: Sequence[str], lacking: str | Sequence[str]) -> list[int]:
    """Return the positions of the columns that an adversary has who lacks some."""
    lacking = (lacking,) if isinstance(lacking, str) else tuple(lacking)
    for name in lacking:
        if name not in names:
            raise InputError(f"there is no column {name!r} to lack", f"the columns are {', '.join(names)}")
    kept = [place for place, name in enumerate(names) if name not in lacking]
    if not kept:
        raise InputError("the adversary lacks every column", Cure("leave one out", "lacking_columns"))
    return kept


def of_measurements(release: AReleased) -> AReleased:
    """Return a release of measurements alone, without a guarantee, as it is; refuse any other."""
    for part in parts_of(release):
        _ = part.release.normal
    return release


def statistics_of(release: Released) -> Statistics:
    """Return all that an attack sees of a release of measurements; it is read with one prior."""
    if isinstance(release, Releases):
        raise InputError("several missing records are inferred from releases of one prior", "give some of them")
    return release.normal.statistics()


def without_columns(release: AReleased, lacking: str | Sequence[str]) -> AReleased:
    """Return what an adversary can use of a release who lacks these columns of everyone, the target's included.

    The rest of the columns of every draw or dataset is exactly a release of the rest of the columns of the table,
    made with the prior's marginal (`NIW.marginal`), which the result holds: `attack`, `posterior` and all others
    take it as any release, and are exact given the rest. The columns left out would say a little more.
    """
    kept = known_columns(release.columns, lacking)
    some: AReleased = release if len(kept) == release.p else in_columns(release, kept)
    return some


def in_columns(release: Any, kept: Sequence[int]) -> Any:
    """Return what a release says of its categories and of some of its measurements (positions).

    In every cell the other measurements are exactly those of a release made with the prior's marginal.
    """
    if isinstance(release, Releases):
        return Releases(tuple(replace(each, release=in_columns(each.release, kept)) for each in release.parts))
    mechanism, drawn = release.mechanism, release.parameters
    lost = {name for place, name in enumerate(release.columns) if place not in kept}
    names = [name for name in release.order if name not in lost]
    release.schema.require_ends(names)
    places = [place for place, name in enumerate(mechanism.measurements) if name not in lost]
    prior = None if release.prior is None else release.prior.marginal(places)
    if drawn is not None:
        square = drawn.covariances[..., places, :][..., places]
        drawn = replace(drawn, coefficients=drawn.coefficients[..., places], covariances=square)
    part = replace(
        release,
        mechanism=replace(mechanism, schema=release.schema.for_columns(names), normal=prior),
        datasets=tuple(each.select(names) for each in release.datasets),
        parameters=drawn,
        illustrating=tuple(each.select(names) for each in release.illustrating),
    )
    if mechanism.is_normal:
        vars(part)["normal"] = release.normal.in_columns(kept)  # of any array library
    return part
