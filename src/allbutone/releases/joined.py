"""Several releases of one table, or several parts of one, taken together: an adversary learns from all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from typing import Any, TypeVar, cast

import numpy as np
from array_api_compat import device
from jaxtyping import Float

from allbutone.model.niw import NIW
from allbutone.releases.release import DatasetRelease, ParameterRelease, PlainRelease, column_names
from allbutone.releases.sampling import draw_datasets
from allbutone.releases.statistics import JoinedStatistics, Statistics, moments_in, whitened_parameters
from allbutone.support.arrays import array_namespace, to_numpy
from allbutone.support.errors import Cure, InputError, describe_value
from allbutone.tables.schema import Schema

# Several releases of one table, taken together: an adversary who has them all learns from all.


class _Several:
    """What is the same in all parts of a joined release, as its first part has it."""

    first: "PlainRelease | JoinedRelease"

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns' names, if they have any."""
        return self.first.columns

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns' names, x1, x2, … where they have none."""
        return self.first.column_names

    @property
    def p(self) -> int:
        """The number of columns."""
        return self.first.p

    @property
    def schema(self) -> Schema:
        """The scales, limits and decimals that all were made with."""
        return self.first.schema

    @property
    def prior(self) -> NIW | None:
        """The prior of the first part."""
        return self.first.prior


@dataclass(frozen=True, eq=False, repr=False)
class JoinedRelease(_Several):
    """Parameter draws, and datasets that were not drawn from them, of one table and made with one prior.

    Given the table all draws and datasets are independent, and each is one more opinion on a missing record.
    """

    first: ParameterRelease
    synthetic: DatasetRelease

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each dataset that was released without its parameters."""
        return self.synthetic.rows

    def __repr__(self) -> str:
        """Return what both parts are."""
        return f"{self.first!r}; {self.synthetic!r}"

    def statistics(self) -> JoinedStatistics:
        """Return all that an attack sees of the releases."""
        return JoinedStatistics(self.first.statistics(), self.synthetic.statistics())

    def whitened(self, others: NIW) -> tuple[Float[Any, "p p"], JoinedStatistics]:
        """Return a root of the others' scale along the parameters' axes, and the statistics whitened by it."""
        root, parameters = whitened_parameters(self.first.means, self.first.covariances, others)
        return root, JoinedStatistics(parameters, moments_in(others.mean, root, self.synthetic.modelled))


@dataclass(frozen=True, eq=False, repr=False)
class OfFewer(_Several):
    """Releases of the table when it had fewer records: those that stand in these places among them all."""

    first: PlainRelease | JoinedRelease
    people: slice

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each dataset."""
        return self.first.rows


@dataclass(frozen=True, eq=False, repr=False)
class ReleasesByPrior(_Several):
    """Releases of one table that were made with different priors, or from fewer of its records: a part for each.

    An adversary without a prior of their own is taken to have the first part's, which is of all records.
    """

    first: PlainRelease | JoinedRelease
    rest: tuple[PlainRelease | JoinedRelease | OfFewer, ...]

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each dataset."""
        return tuple(rows for part in (self.first, *self.rest) for rows in part.rows)

    def __repr__(self) -> str:
        """Return what all parts are."""
        return "; ".join(map(repr, (self.first, *self.rest)))

    def statistics(self) -> Statistics:
        """Refuse: statistics are read with one prior."""
        raise InputError("several missing records are inferred from releases of one prior", "give some of them")


Released = PlainRelease | JoinedRelease | ReleasesByPrior  # of one table, at once or in several releases
Prints = Mapping[str, set[bytes]]  # of draws and of datasets


def told_datasets(release: Released | OfFewer) -> list[Any]:
    """Return all datasets that were released without their parameters, as they went out."""
    if isinstance(release, ReleasesByPrior):
        return [data for part in (release.first, *release.rest) for data in told_datasets(part)]
    if isinstance(release, OfFewer):
        return told_datasets(release.first)
    if isinstance(release, JoinedRelease):
        return told_datasets(release.synthetic)
    return list(release.datasets) if isinstance(release, DatasetRelease) else []


def join_releases(releases: Iterable[Any]) -> Released:
    """Return several releases of one table as one: datasets with datasets, parameter draws with parameter draws.

    Where all are of one kind and prior the result is a release of that kind. They must have been drawn
    independently, of the same columns on the same scales; priors may differ.
    """
    every = [part for release in releases for part in _apart(release)]
    if not every:
        raise InputError("there is no release in the list", "give one or several")
    for number, release in enumerate(every[1:], start=2):
        _require_same_columns(every[0], release, f"release {number} of those given together")
    _require_drawn_apart(every)
    first, *rest = (_of_one_prior(group) for group in _by_prior(every))
    return ReleasesByPrior(first, tuple(rest)) if rest else first


def _apart(release: Any) -> Sequence[PlainRelease]:
    if isinstance(release, ReleasesByPrior):
        return [each for part in (release.first, *release.rest) for each in _apart(part)]
    if isinstance(release, JoinedRelease):
        return [release.first, release.synthetic]
    if isinstance(release, ParameterRelease | DatasetRelease):
        return [release]
    raise InputError(f"in the list is {describe_value(release)}", "give releases, or their folders")


def _require_same_columns(first: PlainRelease, other: PlainRelease, what: str) -> None:
    if first.p != other.p or (first.columns and other.columns and first.columns != other.columns):
        mine, theirs = (", ".join(each.column_names) for each in (first, other))
        raise InputError(
            f"{what} is of the columns {theirs}, the first of {mine}", "give releases of the same columns in order"
        )
    if not first.schema.same_mechanism(other.schema):
        raise InputError(f"{what} has other scales, limits or decimals than the first", "attack one at a time")
    if (first.prior is None) != (other.prior is None):
        raise InputError("some of the releases say which prior they were made with, some do not", "let all say it")


def _require_drawn_apart(releases: Sequence[PlainRelease]) -> None:
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
    """Return a digest of each draw and of each dataset, by which it is known again."""
    parts = _apart(release)
    means = [to_numpy(each.means) for each in parts if isinstance(each, ParameterRelease)]
    return {
        "draws": _prints(row for each in means for row in each),
        "datasets": _prints(data for each in parts for data in each.datasets),
    }


def _prints(arrays: Iterable[Any]) -> set[bytes]:
    return {sha256(np.ascontiguousarray(to_numpy(each)).tobytes()).digest() for each in arrays}


def _by_prior(every: Sequence[PlainRelease]) -> list[list[PlainRelease]]:
    groups: list[list[PlainRelease]] = []
    for release in every:
        for group in groups:
            if _same_prior(group[0].prior, release.prior):
                group.append(release)
                break
        else:
            groups.append([release])
    return groups


def _same_prior(one: NIW | None, other: NIW | None) -> bool:
    if one is None or other is None:
        return one is other
    fields = ("mean", "mean_weight", "df", "scale")
    pairs = ((to_numpy(getattr(each, name)) for each in (one, other)) for name in fields)
    return all(np.allclose(ours, theirs, rtol=1e-12, atol=0) for ours, theirs in pairs)


def _of_one_prior(every: Sequence[PlainRelease]) -> PlainRelease | JoinedRelease:
    if len(every) == 1:
        return every[0]
    columns = next((each.columns for each in every if each.columns is not None), None)
    public: dict[str, Any] = {"columns": columns, "prior": every[0].prior, "schema": every[0].schema}
    sets = [data for each in every if isinstance(each, DatasetRelease) for data in each.datasets]
    draws = [each for each in every if isinstance(each, ParameterRelease)]
    if not draws:
        return DatasetRelease(sets, **public)
    xp = array_namespace(draws[0].means)
    means, covariances = (xp.concat([getattr(each, name) for each in draws]) for name in ("means", "covariances"))
    # the datasets drawn from them say nothing more; they are kept where every draw has its own
    complete = all(each.datasets for each in draws)
    beside = [data for each in draws for data in each.datasets] if complete else []
    parameters = ParameterRelease(means, covariances, datasets=beside, **public)
    return JoinedRelease(parameters, DatasetRelease(sets, **public)) if sets else parameters


# Releases of several parts: datasets with their parameters, and what there is of a release in some columns.


AReleased = TypeVar("AReleased", bound=Released)  # of the same kind as what it was made from


def draw_both(
    posterior: NIW,
    rows: Sequence[int],
    rng: np.random.Generator,
    *,
    columns: tuple[str, ...] | None = None,
    prior: NIW | None = None,
    schema: Schema | None = None,
) -> ParameterRelease:
    """Draw (μ*, Σ*) and a dataset from each: all that Algorithm 1 returns.

    The same generator gives `DatasetRelease.draw` the same datasets.
    """
    datasets, means, roots = draw_datasets(posterior, rows, rng)
    declared = (schema or Schema()).for_columns(column_names(columns, posterior.p))
    released = [declared.released(drawn) for drawn in datasets]
    return ParameterRelease(means, roots @ roots.swapaxes(-1, -2), columns, prior, released, declared)


def datasets_of(release: Released) -> DatasetRelease:
    """Return the datasets of a release alone; refuse one that has none."""
    if isinstance(release, DatasetRelease):
        return release
    if isinstance(release, JoinedRelease):
        return release.synthetic
    if isinstance(release, ReleasesByPrior):
        raise InputError(
            "the releases were made with different priors", "compare, or estimate from, one at a time"
        )
    if not release.datasets:
        raise InputError(
            "parameters alone were released, and no datasets to compare or to estimate from",
            Cure("release datasets, too (sample)", "parameters", True),
        )
    return DatasetRelease(release.datasets, release.columns, release.prior, release.schema)


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


def without_columns(release: AReleased, lacking: str | Sequence[str]) -> AReleased:
    """Return what an adversary can use of a release who lacks these columns of everyone, the target's included.

    The rest of the columns of every draw or dataset is exactly a release of the rest of the columns of the table,
    made with the prior's marginal (`NIW.marginal`), which the result holds: `attack`, `posterior` and all others
    take it as any release, and are exact given the rest. The columns left out would say a little more.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.NIWSynthesizer().fit(cohort).sample(datasets=2)
    >>> abo.without_columns(release, ["BMI"]).columns
    ('T2D', 'CAD', 'HT', 'HBA1C')
    """
    kept = known_columns(release.column_names, lacking)
    return release if len(kept) == release.p else in_columns(release, kept)


def in_columns(release: AReleased, kept: Sequence[int]) -> AReleased:
    """Return what a release says of some of its columns (positions)."""
    found: Released
    if isinstance(release, JoinedRelease):
        found = JoinedRelease(in_columns(release.first, kept), in_columns(release.synthetic, kept))
        return cast("AReleased", found)
    if isinstance(release, ReleasesByPrior):
        rest = tuple(
            OfFewer(in_columns(part.first, kept), part.people)
            if isinstance(part, OfFewer)
            else in_columns(part, kept)
            for part in release.rest
        )
        return cast("AReleased", ReleasesByPrior(in_columns(release.first, kept), rest))
    names = tuple(release.column_names[place] for place in kept)
    prior = None if release.prior is None else release.prior.marginal(kept)
    datasets = [_some(data, kept) for data in release.datasets]
    if isinstance(release, DatasetRelease):
        found = DatasetRelease(datasets, names, prior, release.schema)
        if release.is_as_drawn:
            found = found.as_if_drawn([_some(data, kept) for data in release.modelled])
    else:
        block = _some(array_namespace(release.means).matrix_transpose(_some(release.covariances, kept)), kept)
        found = ParameterRelease(_some(release.means, kept), block, names, prior, datasets, release.schema)
    return cast("AReleased", found)


def _some(array: Any, columns: Sequence[int]) -> Any:
    xp = array_namespace(array)
    return xp.take(array, xp.asarray(list(columns), device=device(array)), axis=-1)
